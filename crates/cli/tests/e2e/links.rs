//! Examples that join two networks: `port-mirror.click`, `shaper.click`, `vxlan.click`.

use linerate_test_support::{Lab, wait_until};

use crate::{
    hosts::{host, iperf_all, iperf_server, no_ping, ping_text, run, stop, wait_for_ping},
    support::{Scratch, TIMEOUT},
    wire::{Listener, assert_same, frames, records, send},
};

#[test]
#[ignore = "needs root"]
fn a_port_mirror_keeps_the_passed_packets() {
    mirror("");
}

#[test]
#[ignore = "needs root, alone"]
fn so_does_one_on_two_workers() {
    mirror("--workers 2");
}

#[track_caller]
fn mirror(options: &str) {
    let lab = Lab::new();
    let middle = lab.namespace("middle");
    let [a, b, watcher] =
        ["a", "b", "w"].map(|name| host(&lab, &middle, name, &format!("p{name}"), ""));
    let scratch = Scratch::new();
    let file = scratch.file("mirror.pcap");
    let line = format!("A=pa B=pb MIRROR=pw FILE={file} {options}");
    let program = run(&middle, "port-mirror.click", &line);
    let watching = Listener::start(&watcher, "e0");
    let sent = frames();
    for (from, to) in [(&a, &b), (&b, &a)] {
        let listener = Listener::start(to, "e0");
        send(from, "e0", &sent);
        assert_same(&listener.frames(sent.len()), &sent);
    }
    let twice = [&sent[..], &sent].concat();
    assert_same(&watching.frames(twice.len()), &twice);
    // Complete at any time, also while it is written on.
    let fields = |file: &str, filter: &str| {
        let words = ["tshark", "-n", "-r", file, "-Y", filter, "-T", "fields"];
        let fields = ["-e", "frame.len", "-e", "eth.src", "-e", "frame.protocols"];
        let shown = middle.expect([&words[..], &fields].concat());
        shown.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let kept = || records(&std::fs::read(&file).unwrap());
    assert!(wait_until(|| kept().len() >= twice.len(), TIMEOUT), "{} kept", kept().len());
    assert_same(&kept(), &twice);
    let told = fields(&file, "");
    assert_eq!(told.len(), twice.len());
    for (line, frame) in told.iter().zip(&twice) {
        assert!(line.starts_with(&format!("{}\t02:00:00:00:00:0", frame.len())), "{line}");
    }
    // Frames between the hosts: tshark finds each request and its reply.
    a.add_address("e0", "198.18.0.1/24");
    b.add_address("e0", "198.18.0.2/24");
    wait_for_ping(&a, "198.18.0.2");
    a.expect(["ping", "-c", "20", "-i", "0.01", "-e", "77", "-W", "20", "198.18.0.2"]);
    stop(program);
    for filter in ["icmp.type == 8 && icmp.ident == 77", "icmp.type == 0 && icmp.resp_to"] {
        let count = fields(&file, filter).len();
        assert!(count >= 20, "{filter}: {count}");
    }
}

/// Seconds since 1970 of each packet of a capture file of microseconds, and its length.
fn times(file: &[u8]) -> Vec<(f64, usize)> {
    let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_c3d4, "microseconds in this machine's order");
    let (mut at, mut times) = (24, Vec::new());
    while at + 16 <= file.len() {
        let length = word(at + 8) as usize;
        times.push((f64::from(word(at)) + f64::from(word(at + 4)) / 1e6, length));
        at += 16 + length;
    }
    times
}

/// Four times the rate is sent. The passed packets are counted over the time that took, by the
/// receiver's capture: not more than the rate, but for packets that a busy machine has delayed at
/// the start and the shaper makes up for. Such a machine may hold up everything for any time, so
/// that it is hardly less is asked of some stretches only, each much longer than the 4 ms between
/// packets.
#[test]
#[ignore = "needs root, alone"]
fn a_shaper_holds_its_rate() {
    const RATE: f64 = 2e6 / 8.;
    let lab = Lab::new();
    let middle = lab.namespace("middle");
    let a = host(&lab, &middle, "a", "pa", "198.18.0.1/24");
    let b = host(&lab, &middle, "b", "pb", "198.18.0.2/24");
    let program = run(&middle, "shaper.click", "A=pa B=pb TO_A=50Mbps TO_B=2Mbps");
    let _server = iperf_server(&b, 5201);
    wait_for_ping(&a, "198.18.0.2");
    let scratch = Scratch::new();
    let file = scratch.file("seen.pcap");
    let listener = Listener::start(&b, "e0");
    a.expect(["iperf3", "-c", "198.18.0.2", "-u", "-b", "8M", "-l", "1000", "-t", "4"]);
    listener.frames_and_file(900, &file);
    let mut seen = times(&std::fs::read(&file).unwrap());
    // Its control connection is not measured, but has its part of the rate.
    let first = seen.iter().position(|(_, length)| *length > 1000).expect("datagrams");
    let last = seen.iter().rposition(|(_, length)| *length > 1000).expect("datagrams");
    seen = seen.drain(first..=last).collect();
    assert!(seen.len() > 100, "{} packets", seen.len());
    let rate = |stretch: &[(f64, usize)]| {
        let bytes: usize = stretch[..stretch.len() - 1].iter().map(|(_, length)| length).sum();
        bytes as f64 / (stretch[stretch.len() - 1].0 - stretch[0].0) / RATE
    };
    let all = rate(&seen);
    let mut stretches: Vec<f64> = seen.chunks_exact(25).map(rate).collect();
    stretches.sort_by(f64::total_cmp);
    let held = stretches[stretches.len() * 3 / 4];
    assert!(all <= 1.1 && held >= 0.85, "{all} of the rate, a quarter of the time {held} or more");
    stop(program);
}

#[test]
#[ignore = "needs root"]
fn a_vxlan_tunnel_ends_at_the_kernels_device() {
    let lab = Lab::new();
    let middle = lab.namespace("middle");
    let inside = host(&lab, &middle, "inside", "lan", "198.18.0.1/24");
    inside.set_mtu("e0", 1450);
    let remote = host(&lab, &middle, "remote", "wan", "198.19.0.2/24");
    // The second is another network at the same end.
    for (name, vni) in [("vx", "42"), ("other", "43")] {
        remote.ip([
            "link",
            "add",
            name,
            "type",
            "vxlan",
            "id",
            vni,
            "remote",
            "198.19.0.1",
            "dstport",
            "4789",
            "dev",
            "e0",
        ]);
        remote.link_up(name);
    }
    remote.add_address("vx", "198.18.0.2/24");
    let program = run(&middle, "vxlan.click", "");
    wait_for_ping(&inside, "198.18.0.2");
    let listener = Listener::start(&remote, "e0");
    for (from, to) in [(&inside, "198.18.0.2"), (&remote, "198.18.0.1")] {
        for size in ["0", "56", "1422"] {
            let arguments = ["-M", "do", "-s", size];
            let own = if to == "198.18.0.1" { &["-I", "vx"][..] } else { &[] };
            let shown = ping_text(from, &[&arguments, own].concat(), to);
            assert!(shown.contains(&format!("bytes from {to}")), "{shown}");
        }
    }
    let scratch = Scratch::new();
    let file = scratch.file("tunnel.pcap");
    listener.frames_and_file(6, &file);
    let filter = "vxlan.vni == 42 && udp.dstport == 4789 && icmp && !_ws.malformed";
    let shown = middle.expect(["tshark", "-n", "-r", &file, "-Y", filter]);
    assert_eq!(shown.lines().count(), 6, "{shown}");
    let _server = iperf_server(&remote, 5201);
    iperf_all(&inside, "198.18.0.2", &[]);
    // Nothing of it gets into the other network, and nothing of that out of it.
    assert_eq!(remote.counters("other").rx_packets, 0);
    remote.add_address("other", "198.18.9.2/24");
    inside.add_address("e0", "198.18.9.1/24");
    no_ping(&remote, &["-I", "other"], "198.18.9.1");
    stop(program);
}

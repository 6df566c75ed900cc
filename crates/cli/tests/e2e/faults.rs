//! Faults of the field: each time a clear message with advice, no panic, nothing left behind, and
//! the documented exit code.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::PathBuf,
    process::Command,
};

use linerate_test_support::{Lab, Namespace, require, wait_until};
use rustix::process::Signal;

use crate::{
    support::{
        DRIVERS, LINERATE, Program, Scratch, TIMEOUT, assert_balanced, drops, linerate,
        linerate_in, number,
    },
    wire::{Listener, assert_same, frames, send},
};

/// `a` and `c` joined through `b`, where the forwarders run, on its `b0` and `b1`.
struct Relay {
    lab: Lab,
    a: Namespace,
    b: Namespace,
    c: Namespace,
}

impl Relay {
    fn new() -> Relay {
        let lab = Lab::new();
        let [a, b, c] = ["a", "b", "c"].map(|label| lab.namespace(label));
        lab.veth(&a, "a0", &b, "b0");
        lab.veth(&b, "b1", &c, "c0");
        Relay { lab, a, b, c }
    }

    fn set_mtu(&self, mtu: u32) {
        for (namespace, interface) in
            [(&self.a, "a0"), (&self.b, "b0"), (&self.b, "b1"), (&self.c, "c0")]
        {
            namespace.set_mtu(interface, mtu);
        }
    }

    /// All our frames get from `a` to `c`.
    #[track_caller]
    fn assert_carries(&self) {
        let listener = Listener::start(&self.c, "c0");
        send(&self.a, "a0", &frames());
        assert_same(&listener.frames(frames().len()), &frames());
    }

    /// Frames are carried in any order, as several queues may overtake each other.
    #[track_caller]
    fn assert_carries_in_any_order(&self) {
        let listener = Listener::start(&self.c, "c0");
        send(&self.a, "a0", &frames());
        let [mut got, mut expected] = [listener.frames(frames().len()), frames()];
        got.sort();
        expected.sort();
        assert_same(&got, &expected);
    }

    /// Something gets from `a` to `c`, sooner or later.
    #[track_caller]
    fn wait_until_carries(&self) {
        let before = self.c.counters("c0").rx_packets;
        let frame = frames().remove(0);
        let carried = || {
            send(&self.a, "a0", std::slice::from_ref(&frame));
            self.c.counters("c0").rx_packets > before
        };
        assert!(wait_until(carried, TIMEOUT), "nothing is forwarded any more");
    }
}

/// Shared memory that has a name, which ours must not have.
fn named_memory() -> BTreeSet<PathBuf> {
    let mut names = BTreeSet::new();
    for directory in ["/dev/shm", "/dev/hugepages", "/run/linerate", "/var/run/dpdk"] {
        // A directory that does not exist holds nothing.
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        names.extend(entries.map(|entry| entry.path()));
    }
    names
}

fn huge_pages_in_use() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let value = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name));
        line.map_or(0, |line| line.split_whitespace().nth(1).unwrap().parse().unwrap())
    };
    value("HugePages_Total:") - value("HugePages_Free:")
}

/// Other tests' huge pages count in the machine's figures.
#[test]
#[ignore = "needs root, alone"]
fn killed_forwarders_leave_nothing_behind() {
    for driver in DRIVERS {
        let line = Relay::new();
        let (names, pages) = (named_memory(), huge_pages_in_use());
        let command = format!("forward --bidirectional {driver}:b0 {driver}:b1");
        let mut forwarder = Program::ready(&line.b, &command);
        line.assert_carries();
        if driver == "xdp" {
            let link = line.b.ip(["-details", "link", "show", "dev", "b0"]);
            assert!(link.contains("prog/xdp"), "no program to speak of: {link}");
        }
        forwarder.running.signal(Signal::KILL);
        assert_eq!(forwarder.running.wait(TIMEOUT).signal(), Some(9));
        // The kernel takes down the leftovers of a process a moment after its end.
        let clean = || {
            let links = line.b.ip(["-details", "link", "show"]);
            !links.contains("xdp") && !links.contains("promiscuity 1")
        };
        assert!(wait_until(clean, TIMEOUT), "{}", line.b.ip(["-details", "link", "show"]));
        let programs = line.b.expect(["bpftool", "net", "show"]);
        assert!(!programs.contains("b0"), "{programs}");
        // The kernel gives pages back a moment after the process has ended.
        let settled = || named_memory().is_subset(&names) && huge_pages_in_use() <= pages;
        assert!(wait_until(settled, TIMEOUT), "{:?}", (named_memory(), huge_pages_in_use()));
        // The interface is the kernel's again.
        line.a.add_address("a0", "198.18.0.1/24");
        line.b.add_address("b0", "198.18.0.2/24");
        line.a.expect(["ping", "-c", "2", "-i", "0.1", "-W", "10", "198.18.0.2"]);
        // And ours, if it is started again, now with the option that the host may lose it.
        let forwarder = Program::ready(&line.b, &format!("{command} --disconnect"));
        line.assert_carries();
        forwarder.stop();
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_may_go_down_and_come_up() {
    for driver in DRIVERS {
        let line = Relay::new();
        let command = format!("forward --bidirectional {driver}:b0 {driver}:b1");
        let forwarder = Program::ready(&line.b, &command);
        line.wait_until_carries();
        let (a0, c0) = ((&line.a, "a0"), (&line.c, "c0"));
        let (b0, b1) = ((&line.b, "b0"), (&line.b, "b1"));
        for ((namespace, interface), (sender, from)) in [(b0, c0), (b1, a0), (c0, a0)] {
            namespace.link_down(interface);
            // Traffic to it goes nowhere meanwhile, and does no harm.
            send(sender, from, &frames());
            namespace.link_up(interface);
            line.wait_until_carries();
        }
        line.assert_carries();
        let summary = forwarder.stop();
        assert_balanced(&summary);
    }
}

/// The inode of the memory a forwarder has its packets in.
fn packet_memory(forwarder: &Program) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", forwarder.running.id())).unwrap();
    let ours = maps.lines().filter(|line| line.contains("/memfd:linerate-arena"));
    let inodes: Vec<_> = ours.map(|line| line.split_whitespace().nth(4).unwrap().into()).collect();
    assert_eq!(inodes.len(), 1, "{maps}");
    inodes
}

#[test]
#[ignore = "needs root"]
fn an_interface_may_be_deleted_and_made_again() {
    for driver in DRIVERS {
        let line = Relay::new();
        let command = format!("forward --bidirectional {driver}:b0 {driver}:b1");
        let mut forwarder = Program::ready(&line.b, &command);
        line.assert_carries();
        let memory = packet_memory(&forwarder);
        line.b.delete_link("b1");
        forwarder.wait_for("opening it again");
        assert!(forwarder.stderr().contains("b1"), "{}", forwarder.stderr());
        line.lab.veth(&line.b, "b1", &line.c, "c0");
        forwarder.wait_for("all ports are back");
        line.assert_carries();
        // To fill it again and again, until the interface is there, can take seconds.
        assert_eq!(packet_memory(&forwarder), memory, "the packet memory was made anew");
        let summary = forwarder.stop();
        assert_balanced(&summary);
        let sent = number(&summary["flows"][0], "sent_packets");
        assert_eq!(sent, 2 * frames().len() as u64, "of both runs: {summary}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_link_that_is_down_is_told_of_until_it_is_up() {
    let mut checked = 0;
    for driver in DRIVERS {
        let configuration = format!("run -e FromPort({driver}:b0)->ToPort({driver}:b1)");
        for command in [format!("forward {driver}:b0 {driver}:b1"), configuration] {
            let line = Relay::new();
            line.b.link_down("b1");
            let mut program = Program::ready(&line.b, &command);
            program.wait_for("the link of b1 is down: it is not set up (`ip link set b1 up`)");
            assert!(!program.stderr().contains("link of b0"), "{}", program.stderr());
            line.b.link_up("b1");
            program.wait_for("the link of b1 is up");
            line.assert_carries();
            line.a.link_down("a0");
            program.wait_for("the link of b0 is down: its other end is not connected");
            program.running.signal(Signal::INT);
            let links = program.end().json();
            let links: Vec<String> = links
                .iter()
                .filter(|object| object["event"] == "link")
                .map(|object| format!("{} {}", object["interface"], object["up"]))
                .collect();
            let first = ["\"b1\" false", "\"b1\" true", "\"b0\" false"];
            assert_eq!(links[..3], first, "{command}");
            checked += 1;
        }
    }
    assert_eq!(checked, 2 * DRIVERS.len());
}

#[test]
#[ignore = "needs root"]
fn an_interface_that_goes_can_be_the_end() {
    for driver in DRIVERS {
        for gone in ["b0", "b1"] {
            let line = Relay::new();
            let command = format!("forward --exit-on-loss {driver}:b0 {driver}:b1");
            let mut forwarder = Program::ready(&line.b, &command);
            line.b.delete_link(gone);
            // There is something to forward, if where it comes from is still there.
            let ended = || {
                if gone == "b1" {
                    send(&line.a, "a0", &frames()[..1]);
                }
                !forwarder.running.is_running()
            };
            assert!(wait_until(ended, TIMEOUT), "{driver}:{gone} is not missed");
            forwarder.end().failed(4, &[&format!("{driver}:{gone}"), "gone"]);
        }
    }
}

#[test]
#[ignore = "needs root"]
fn the_number_of_queues_may_change() {
    for driver in DRIVERS {
        let lab = Lab::new();
        let [a, b, c] = ["a", "b", "c"].map(|label| lab.namespace(label));
        lab.veth_queues(&a, "a0", &b, "b0", 4);
        lab.veth_queues(&b, "b1", &c, "c0", 4);
        let set = |count: &str| b.expect(["ethtool", "-L", "b0", "rx", count, "tx", count]);
        set("1");
        let line = Relay { lab, a, b: b.clone(), c };
        let forwarder =
            Program::ready(&b, &format!("forward --bidirectional {driver}:b0 {driver}:b1"));
        line.assert_carries();
        for count in ["4", "2"] {
            // A driver may refuse while its queues are in use; then nothing changes.
            b.run(["ethtool", "-L", "b0", "rx", count, "tx", count]);
            line.wait_until_carries();
        }
        line.assert_carries_in_any_order();
        assert_balanced(&forwarder.stop());
    }
}

/// Frames longer than a buffer: better refused with advice than lost. The advice works.
#[test]
#[ignore = "needs root"]
fn an_mtu_larger_than_a_buffer_is_refused_with_advice() {
    let line = Relay::new();
    line.set_mtu(9000);
    let refused = linerate_in(&line.b, "forward xdp:b0 xdp:b1");
    refused.failed(7, &["MTU of b0 is 9000", "ip link set b0 mtu", "packet:b0"]);
    let refused = linerate_in(&line.b, "forward packet:b0 packet:b1");
    refused.failed(7, &["packet:b0", "MTU of 9000", "--buffer-size 9146"]);
    let forwarder = Program::ready(&line.b, "forward --buffer-size 9146 packet:b0 packet:b1");
    let mut jumbo = frames().remove(0);
    jumbo.resize(9014, 0x5a);
    let listener = Listener::start(&line.c, "c0");
    send(&line.a, "a0", std::slice::from_ref(&jumbo));
    assert_same(&listener.frames(1), &[jumbo]);
    assert_balanced(&forwarder.stop());
}

/// When it grows while we forward, frames that no longer fit are dropped and counted, and the rest
/// goes on.
#[test]
#[ignore = "needs root"]
fn an_mtu_may_outgrow_the_buffers() {
    let line = Relay::new();
    let forwarder = Program::ready(&line.b, "forward packet:b0 packet:b1");
    line.set_mtu(9000);
    let mut jumbo = frames().remove(0);
    jumbo.resize(8000, 0x5a);
    send(&line.a, "a0", &[jumbo]);
    line.assert_carries();
    let summary = forwarder.stop();
    let flow = &summary["flows"][0];
    assert_eq!(number(flow, "sent_packets"), frames().len() as u64, "{summary}");
    assert_eq!(drops(flow, "receive_drops") + drops(flow, "transmit_drops"), 1, "{summary}");
}

/// A receiver that stops reading must not stop the forwarder: frames it does not take are dropped
/// and counted, and the other direction goes on.
#[test]
#[ignore = "needs root"]
fn a_receiver_may_stop_reading() {
    for driver in DRIVERS {
        let line = Relay::new();
        let command = format!("forward --bidirectional {driver}:b0 {driver}:b1");
        let forwarder = Program::ready(&line.b, &command);
        let mut sink = Program::ready(&line.c, "sink xdp:c0");
        sink.running.signal(Signal::STOP);
        let generated =
            Program::start(&line.a, "generate xdp:a0 --rate 50kpps --count 20000").end().summary();
        assert_eq!(number(&generated, "accepted"), 20_000, "{generated}");
        // Nothing waits for the sleeper: the other direction works.
        let listener = Listener::start(&line.a, "a0");
        send(&line.c, "c0", &frames());
        assert_same(&listener.frames(frames().len()), &frames());
        sink.running.signal(Signal::CONT);
        line.wait_until_carries();
        sink.stop();
        let summary = forwarder.stop();
        assert_balanced(&summary);
        let flow = &summary["flows"][0];
        let arrived = number(flow, "received_packets") + drops(flow, "receive_drops");
        assert_eq!(line.a.counters("a0").tx_packets, arrived, "{summary}");
    }
}

/// A tap without a reader: a program of the kernel's side that never empties its queue costs
/// frames, not the forwarder.
#[test]
#[ignore = "needs root"]
fn a_stopped_reader_of_a_tap_costs_only_frames() {
    let lab = Lab::new();
    let (a, b) = (lab.namespace("a"), lab.namespace("b"));
    lab.veth(&a, "a0", &b, "b0");
    let scratch = Scratch::new();
    let control = scratch.file("control");
    let line = format!("forward --bidirectional packet:b0 tap:t0 --control {control}");
    let forwarder = Program::ready(&b, &line);
    b.link_up("t0");
    let mut sink = Program::ready(&b, "sink packet:t0");
    sink.running.signal(Signal::STOP);
    let line = "generate xdp:a0 --rate 50kpps --count 20000";
    Program::start(&a, line).end().summary();
    sink.running.signal(Signal::CONT);
    // The line of a direction has packets, bytes and drops behind the port and the rewriting.
    let all = || {
        let counts = linerate(&format!("call {control} forward.counts")).stdout;
        let line = counts.lines().find(|line| line.contains("\treceived\t")).unwrap_or_default();
        let columns: Vec<u64> = line.split('\t').filter_map(|word| word.parse().ok()).collect();
        matches!(columns[..], [packets, _, dropped] if packets + dropped >= 20_000)
    };
    assert!(wait_until(all, TIMEOUT), "not all is received");
    let summary = forwarder.stop();
    assert_balanced(&summary);
    let flow = &summary["flows"][0];
    let arrived = number(flow, "received_packets") + drops(flow, "receive_drops");
    assert_eq!(arrived, 20_000, "{summary}");
    // The sink is told that its interface has gone with the forwarder.
    let ended = sink.end();
    ended.failed(4, &["packet:t0", "gone"]);
}

/// Writes a capture of 100 frames and returns its bytes.
fn capture(scratch: &Scratch, name: &str) -> Vec<u8> {
    let file = scratch.file(name);
    linerate(&format!("capture null:?count=100 {file} --quiet --json")).summary();
    fs::read(file).unwrap()
}

#[test]
fn files_that_are_no_captures_are_refused_with_the_reason() {
    let scratch = Scratch::new();
    let file = scratch.file("x.pcap");
    let replay = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        linerate(&format!("replay {file} null: --rate max --json --quiet"))
    };
    replay(b"").failed(5, &["x.pcap", "empty", "record it again"]);
    replay(b"\xd4\xc3\xb2\xa1\x02\x00").failed(5, &["x.pcap", "ends inside its header"]);
    replay(&[0x55; 4000]).failed(5, &["x.pcap", "neither pcap nor pcapng", "editcap"]);
    replay(b"\x1f\x8b\x08\0\0\0\0\0\0\0").failed(5, &["compressed with gzip"]);
    let missing = linerate(&format!("replay {} null:", scratch.file("none.pcap")));
    missing.failed(5, &["none.pcap", "cannot open", "check the path"]);
    let directory = linerate(&format!("replay {} null:", scratch.path().display()));
    directory.failed(5, &["cannot"]);
    let unwritable = linerate("capture null:?count=1 /proc/none/x.pcap");
    unwritable.failed(5, &["/proc/none/x.pcap"]);
}

#[test]
fn a_corrupt_record_ends_the_replay_where_it_is() {
    let scratch = Scratch::new();
    let mut bytes = capture(&scratch, "good.pcap");
    let record = (bytes.len() - 24) / 100;
    let at = 24 + 60 * record;
    bytes[at + 8..at + 12].fill(0xff);
    let file = scratch.file("corrupt.pcap");
    fs::write(&file, bytes).unwrap();
    let ended = linerate(&format!("replay {file} null: --rate max --json --quiet"));
    ended.failed(5, &["corrupt.pcap", &format!("corrupt at byte {at}"), "head -c"]);
    // Its advice works.
    let (mended, cut) = (scratch.file("mended.pcap"), at.to_string());
    let head = Command::new("head").args(["-c", &cut, &file]).output().unwrap();
    fs::write(&mended, head.stdout).unwrap();
    let summary = linerate(&format!("replay {mended} null: --rate max --json --quiet")).summary();
    assert_eq!(number(&summary["flows"][0], "sent_packets"), 60, "{summary}");
}

/// A capture that was cut off, as by a crash, is worth its whole records: they are sent, and the
/// torn one is counted.
#[test]
fn a_truncated_capture_is_replayed_as_far_as_it_goes() {
    let scratch = Scratch::new();
    for name in ["whole.pcap", "whole.pcapng"] {
        let bytes = capture(&scratch, name);
        let file = scratch.file(&format!("cut-{name}"));
        fs::write(&file, &bytes[..bytes.len() - 90]).unwrap();
        let line = format!("replay {file} null: --rate max");
        let summary = linerate(&format!("{line} --json --quiet")).summary();
        let flow = &summary["flows"][0];
        let sent = number(flow, "sent_packets");
        assert!((97..=99).contains(&sent), "{summary}");
        assert_eq!(drops(flow, "receive_drops"), 1, "{summary}");
        let said = linerate(&line);
        assert!(said.stderr.contains("1 dropped on reception"), "{said:#?}");
        let advice =
            said.stderr.contains("too short to be frames: 1,") && said.stderr.contains("editcap");
        assert!(advice, "{said:#?}");
    }
}

#[test]
fn unknown_interfaces_come_with_a_suggestion() {
    for driver in DRIVERS {
        linerate(&format!("forward {driver}:l null:")).failed(4, &["\"l\"", "did you mean lo"]);
        let ended = linerate(&format!("forward null: {driver}:nosuch0"));
        ended.failed(4, &["there is no interface \"nosuch0\"", "available: "]);
        // Before memory is taken for it, of which there is not that much.
        for command in ["forward null:", "generate", "sink"] {
            linerate(&format!("{command} {driver}:nosuch0 --arena 60000G"))
                .failed(4, &["there is no interface \"nosuch0\""]);
        }
    }
}

#[test]
fn wrong_names_come_with_right_ones() {
    linerate("forward nul: null:").failed(2, &["no driver \"nul\"", "did you mean null"]);
    linerate("forward null:?sice=60 null:").failed(2, &["no option \"sice\"", "size"]);
    linerate("forward --bidirectional null: null:").failed(2, &["two ports"]);
    linerate("forward null: null: --cores 5-1")
        .failed(2, &["--cores 5-1", "ends before it starts"]);
}

#[test]
fn an_arena_larger_than_memory_is_refused() {
    let ended = linerate("forward null: null: --arena 64T");
    ended.failed(6, &["does not fit in this machine's memory", "smaller arena"]);
    let tiny = linerate("forward null: null: --arena 1K");
    tiny.failed(2, &["choose at least 64 KiB"]);
}

/// With and without: it runs, and gives advice when it got small pages.
#[test]
fn huge_pages_are_not_needed() {
    let ended = linerate("forward null: null: --count 1000 --no-huge");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("4 KiB pages"), "{ended:#?}");
    let ended = linerate("forward null: null: --count 1000");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let got_huge = ended.stderr.contains("MiB in 2 MiB pages");
    assert!(got_huge || ended.stderr.contains("vm.nr_hugepages"), "{ended:#?}");
}

/// A user without privileges is told the needed ones.
#[test]
#[ignore = "needs root"]
fn missing_privileges_are_named() {
    let line = Relay::new();
    let scratch = Scratch::new();
    // The build directory may be closed to others.
    let program = scratch.file("linerate");
    fs::copy(LINERATE, &program).unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let setpriv = require("setpriv");
    for driver in DRIVERS {
        let port = format!("{driver}:b0");
        let prefix = [setpriv.to_str().unwrap(), "--reuid=65534", "--regid=65534"];
        let rest = ["--clear-groups", "--bounding-set=-all", &program, "forward", "null:", &port];
        let command = line.b.command([&prefix[..], &rest].concat());
        let ended = Program::start_command(&line.b, command, &port).end();
        ended.failed(3, &[&port, "not permitted to", "root"]);
    }
}

//! Elements on ports that need no privileges.

use std::{fs, path::PathBuf};

use crate::testing::Run;

/// A directory of a test's own, removed when it is over.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("linerate-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_port_that_ends_ends_the_run() {
    for frame_limit in [1, 32, 256] {
        let mut run = Run::new("f :: FromPort(null:?count=1000, STOP true) -> t :: ToPort(null:)")
            .frame_limit(frame_limit);
        run.run();
        assert_eq!(run.read("f.count"), "1000");
        assert_eq!(run.read("t.count"), "1000");
        assert_eq!(run.read("t.bytes"), "60000");
        assert!(run.read("t.counters").starts_with("packets 1000\nbytes 60000\nno_buffer 0\n"));
    }
}

#[test]
fn a_burst_limits_the_packets_received_at_a_time() {
    let mut run =
        Run::new("f :: FromPort(null:?count=100, 7, STOP true) -> c :: Counter -> Discard");
    run.run();
    assert_eq!(run.read("c.count"), "100");
}

/// As in Click, where a source of 40 packets with such a burst loses 31 of them.
#[test]
fn a_burst_is_a_turn() {
    for frame_limit in [1, 2, 7, 32, 256, 2048] {
        let drops = |source: &str| {
            let text =
                format!("{source} -> q :: Queue(2) -> Discard(BURST 1); Script(wait 1s, stop)");
            let mut run = Run::new(&text).frame_limit(frame_limit);
            run.run();
            run.read("q.drops")
        };
        assert_eq!(drops("FromPort(null:?count=40, 5)"), "31", "frames of {frame_limit}");
        assert_eq!(drops("FromDevice(null:?count=40, BURST 5)"), "31", "frames of {frame_limit}");
        assert_eq!(drops("FromDevice(null:?count=40)"), "0", "frames of {frame_limit}");
        for sink in ["ToPort(null:, 5)", "ToDevice(null:, BURST 5)"] {
            let text = format!(
                "InfiniteSource(LIMIT 60, BURST 5) -> q :: Queue(7) -> {sink}; \
                 Script(wait 1s, stop)"
            );
            let mut run = Run::new(&text).frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("q.drops"), "0", "{sink}, frames of {frame_limit}");
        }
    }
}

#[test]
fn a_capture_passes_through_byte_for_byte_with_its_times() {
    let scratch = Scratch::new("copy");
    let (from, to) = (scratch.file("a.pcap"), scratch.file("b.pcap"));
    let mut run = Run::new(&format!(
        "InfiniteSource(LIMIT 1000, LENGTH 100, STOP true) -> ToPort(pcap:{from})"
    ));
    run.run();
    drop(run);
    let mut run = Run::new(&format!(
        "f :: FromPort(pcap:{from}, STOP true) -> t :: ToPort(\"pcap:{to}?times=packet\")"
    ));
    run.run();
    assert_eq!(run.read("t.count"), "1000");
    drop(run);
    assert_eq!(fs::read(from).unwrap(), fs::read(to).unwrap());
}

/// Broadcast, multicast and unicast packets, as often each.
#[test]
fn ports_say_how_packets_were_addressed() {
    let scratch = Scratch::new("types");
    let file = scratch.file("a.pcap");
    let packets =
        ["ffffffffffff", "01005e000001", "020000000099"].map(|to| format!("{to}02000000000188b5"));
    let packets = packets.join(" ");
    let packets = [packets.as_str(); 10].join(" ");
    Run::new(&format!("Packets({packets}) -> ToPort(pcap:{file})")).run();
    for frame_limit in [1, 7, 32, 256] {
        for (source, passed) in [
            (format!("FromPort(pcap:{file}, STOP true)"), "10"),
            (format!("FromPort(pcap:{file}, BURST 4, STOP true)"), "10"),
            (format!("FromDevice(pcap:{file}) -> Counter(COUNT_CALL 30 stop)"), "10"),
        ] {
            let text = format!("{source} -> DropBroadcasts -> c :: Counter -> Discard");
            let mut run = Run::new(&text).frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.count"), passed, "{source} {frame_limit}");
        }
    }
}

#[test]
fn only_packets_the_filter_accepts_are_received_and_counted() {
    let scratch = Scratch::new("bpf");
    let file = scratch.file("a.pcap");
    let udp = "4500001c 00000000 40110000 0a000001 0a000002 00050035 00080000";
    Run::new(&format!(
        "InfiniteSource(DATA \\<{udp}>, LIMIT 30)
            -> EtherEncap(0x800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out :: ToPort(pcap:{file});
         InfiniteSource(LIMIT 20) -> EtherEncap(0x88b5, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out; {SOON}"
    ))
    .run();
    for (filter, count) in [
        ("", "50"),
        ("BPF_FILTER \"udp port domain\"", "30"),
        ("BPF_FILTER \"ether proto 0x88b5 and not ip\", METHOD PCAP", "20"),
        ("BPF_FILTER udp, PROTOCOL 0x88b5", "0"),
        ("BPF_FILTER udp, METHOD LINUX", "50"),
    ] {
        for frame_limit in [1, 7, 32, 256] {
            let mut run = Run::new(&format!(
                "f :: FromDevice(pcap:{file}, {filter}) -> c :: Counter -> Discard; {SOON}"
            ))
            .frame_limit(frame_limit);
            run.run();
            assert_eq!([run.read("f.count"), run.read("c.count")], [count, count], "{filter}");
        }
    }
}

#[test]
fn one_name_is_one_port_in_both_directions() {
    let mut run = Run::new(
        "f :: FromPort(ring:x?loop&seed=8) -> c :: Counter(COUNT_CALL 100 stop)
            -> t :: ToPort(ring:x?loop&seed=8)",
    );
    run.run();
    assert_eq!(run.read("f.count"), run.read("t.count"));
}

#[test]
fn a_full_port_drops_pushed_packets() {
    // Two names of one ring are its two ends.
    let mut run = Run::new(
        "InfiniteSource(LIMIT 1000, STOP true) -> t :: ToPort(ring:full?slots=64);
         FromPort(ring:full?slots=64&size=60, ACTIVE false) -> Discard",
    )
    .frame_limit(32);
    run.run();
    assert_eq!((run.read("t.count"), run.read("t.bytes")), ("64".into(), "4416".into()));
    assert!(run.read("t.counters").contains("\nqueue_full 936\n"), "{}", run.read("t.counters"));
}

#[test]
fn packets_wait_for_place() {
    for to in
        ["-> t :: ToPort(ring:w?slots=16, WAIT true)", "-> Queue -> t :: ToPort(ring:w?slots=16)"]
    {
        let mut run = Run::new(&format!(
            "InfiniteSource(LIMIT 1000, BURST 20) {to};
             FromPort(ring:w?slots=16&size=60) -> c :: Counter(COUNT_CALL 1000 stop) -> Discard"
        ));
        run.run();
        assert_eq!(run.read("t.count"), "1000");
        assert!(run.read("t.counters").contains("\nqueue_full 0\n"));
    }
}

#[test]
fn workers_have_queues_of_their_own() {
    let mut run = Run::new(
        "f :: FromPort(null:?count=1001, STOP true) -> c :: Counter -> t :: ToPort(null:)",
    )
    .workers(2);
    run.run();
    for handler in ["f.count", "c.count", "t.count"] {
        assert_eq!(run.read(handler), "1001");
    }
}

#[test]
fn workers_take_turns_on_a_port_with_one_queue() {
    let scratch = Scratch::new("turns");
    let file = scratch.file("a.pcap");
    let text = format!("f :: FromPort(null:?count=2000, STOP true) -> t :: ToPort(pcap:{file})");
    let mut run = Run::new(&text).workers(2);
    run.run();
    assert_eq!(run.read("t.count"), "2000");
    drop(run);
    let mut run = Run::new(&format!("f :: FromPort(pcap:{file}, STOP true) -> Discard"));
    run.run();
    assert_eq!(run.read("f.count"), "2000");
}

#[test]
fn a_port_survives_a_written_configuration() {
    let mut run =
        Run::new("f :: FromPort(null:?count=100, ACTIVE false, STOP true) -> t :: ToPort(null:)");
    run.write("f.config", "null:?count=100, STOP true").unwrap();
    run.write("t.config", "null:, WAIT true").unwrap();
    run.run();
    assert_eq!(run.read("t.count"), "100");
}

#[test]
fn errors_of_opening_name_the_port() {
    let errors = Run::errors("FromPort(nul:) -> Discard");
    assert!(errors.contains("there is no driver \"nul\""), "{errors}");
    let errors = Run::errors("FromPort(pcap:/no/such/file) -> Discard");
    assert!(errors.contains("/no/such/file"), "{errors}");
    let errors = Run::errors("FromPort(eth0) -> Discard");
    assert!(errors.contains("URI: port \"eth0\""), "{errors}");
    assert!(Run::errors("FromPort -> Discard").contains("URI: required argument missing"));
}

#[test]
fn a_device_can_be_any_port() {
    let scratch = Scratch::new("device");
    let file = scratch.file("a.pcap");
    let mut run = Run::new(&format!(
        "FromDevice(ring:d?loop&seed=4) -> Queue -> t :: ToDevice(ring:d?loop&seed=4)
            -> c :: Counter(COUNT_CALL 400 stop) -> Queue -> u :: ToDevice(pcap:{file})"
    ));
    run.run();
    let count: u64 = run.read("t.count").parse().unwrap();
    assert!(count >= 400 && run.read("c.count") == count.to_string());
}

/// Ends the run when other tasks have run some hundred times.
const SOON: &str = "FromPort(null:?count=500, 1, STOP true) -> Discard";

#[test]
fn only_ip_packets_leave_by_the_first_output() {
    let scratch = Scratch::new("force");
    let file = scratch.file("a.pcap");
    let zeros = "00".repeat(12);
    let make = |kind: &str, rest: &str| {
        format!("InfiniteSource(DATA \\<{zeros} {kind} {rest}>, LIMIT 5) -> to;")
    };
    let ip = format!("45{}", "00".repeat(39));
    let mut run = Run::new(&format!(
        "to :: Counter(COUNT_CALL 15 stop) -> ToPort(pcap:{file}); {} {} {}",
        make("0800", &ip),
        make("0806", &ip),
        make("8100 0001 86dd", "60"),
    ));
    run.run();
    drop(run);
    for (arguments, ip, other) in [
        ("", "15", "0"),
        ("FORCE_IP true", "5", "10"),
        ("PROTOCOL 0x0800", "5", "0"),
        ("PROTOCOL 0x0806, FORCE_IP true", "0", "5"),
    ] {
        let mut run = Run::new(&format!(
            "f :: FromDevice(pcap:{file}, {arguments}) -> a :: Counter -> Discard;
             f[1] -> b :: Counter -> Discard; {SOON}"
        ));
        run.run();
        assert_eq!((run.read("a.count"), run.read("b.count")), (ip.into(), other.into()));
        // As Click counts: without packets of another protocol.
        let received = if arguments.starts_with("PROTOCOL") { "5" } else { "15" };
        assert_eq!(run.read("f.count"), received);
    }
    let mut run =
        Run::new(&format!("f :: FromDevice(pcap:{file}, SNAPLEN 20) -> c :: Collect; {SOON}"));
    run.run();
    let lengths: Vec<String> = run.read("c.lengths").lines().map(Into::into).collect();
    // The three sources have taken turns.
    assert_eq!(lengths, ["20", "20", "19"].repeat(5));
}

#[test]
fn wrong_device_arguments_are_said_as_click_does() {
    for (text, error) in [
        ("FromDevice(lo, METHOD FOO) -> Discard", "bad METHOD"),
        ("FromDevice(lo, SNAPLEN 13) -> Discard", "SNAPLEN out of range"),
        ("FromDevice(lo, HEADROOM 8191) -> Discard", "HEADROOM out of range"),
        (
            "FromDevice(lo, BPF_FILTER \"tcp and and\") -> Discard",
            "BPF_FILTER: syntax error at 'and'",
        ),
        ("FromDevice -> Discard", "DEVNAME: required argument missing"),
        ("Idle -> Queue -> ToDevice(lo, METHOD FOO)", "bad METHOD"),
        ("KernelTun(10.0.0.1/24, 10.1.0.1) -> Discard", "bad GATEWAY"),
        ("KernelTap(10.0.0.1) -> Discard", "ADDR: parse error"),
        ("AddressInfo(h 10.0.0.1); KernelTap(h) -> Discard", "ADDR: parse error"),
        (
            "KernelTap(10.0.0.1/255.0.255.0) -> Discard",
            "ADDR: an interface's mask has its bits in front",
        ),
        ("KernelTap(10.0.0.1/24, MTU 19) -> Discard", "MTU must be greater than 20"),
        (
            "Idle -> ToHost(fake)",
            "ToHost(fake) requires an initialized FromHost with the same dev_name",
        ),
    ] {
        let errors = Run::errors(text);
        assert!(errors.contains(error), "{text}: {errors}");
        assert_eq!(errors.matches("While").count(), 1, "{errors}");
    }
}

//! Tests of the lab itself: isolation, silence, exactness, and that nothing remains.
#![forbid(unsafe_code)]

use std::fs;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_test_support::{Lab, wait_until};

const LONG: Duration = Duration::from_secs(30);

#[test]
#[ignore = "needs root"]
fn namespaces_reach_each_other_over_both_protocols() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    left.add_address("l0", "198.18.0.1/24");
    right.add_address("r0", "198.18.0.2/24");
    left.add_address("l0", "2001:db8::1/64");
    right.add_address("r0", "2001:db8::2/64");
    left.expect(["ping", "-c", "2", "-i", "0.2", "198.18.0.2"]);
    left.expect(["ping", "-c", "2", "-i", "0.2", "2001:db8::2"]);
    assert!(!left.run(["ping", "-c", "1", "-W", "1", "198.18.0.3"]).status.success());
}

#[test]
#[ignore = "needs root"]
fn a_link_is_silent_and_counts_every_frame() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    left.add_address("l0", "198.18.0.1/24");
    // A neighbour entry in place of ARP: then the datagrams are the only frames.
    let [a, b, c, d, e, f] = right.mac("r0");
    let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    left.ip(["neighbour", "add", "198.18.0.2", "lladdr", &mac, "dev", "l0"]);
    let socket = left.enter(|| UdpSocket::bind("198.18.0.1:0").expect("the address is there"));
    for _ in 0..10 {
        socket.send_to(&[0; 100], "198.18.0.2:9").expect("the link takes it");
    }
    assert!(wait_until(|| right.counters("r0").rx_packets >= 10, LONG));
    let (sent, received) = (left.counters("l0"), right.counters("r0"));
    assert_eq!((sent.tx_packets, sent.tx_bytes), (10, 10 * (14 + 20 + 8 + 100)));
    assert_eq!((received.rx_packets, received.rx_bytes), (sent.tx_packets, sent.tx_bytes));
    assert_eq!((sent.rx_packets, received.tx_packets), (0, 0));
    assert_eq!((received.rx_errors, received.rx_dropped), (0, 0));
}

#[test]
#[ignore = "needs root"]
fn a_veth_pair_can_have_queues_and_another_mtu() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth_queues(&left, "l0", &right, "r0", 4);
    for mtu in [9000, 1280] {
        left.set_mtu("l0", mtu);
        let text = left.ip(["link", "show", "dev", "l0"]);
        assert!(text.contains(&format!("mtu {mtu}")), "{text}");
    }
    let queues = left.expect(["ls", "/sys/class/net/l0/queues"]);
    let expected = ["rx-0", "rx-1", "rx-2", "rx-3", "tx-0", "tx-1", "tx-2", "tx-3"];
    assert_eq!(queues.split_whitespace().collect::<Vec<_>>(), expected);
}

#[test]
#[ignore = "needs root"]
fn links_go_down_come_up_and_disappear() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    let carrier = || right.ip(["link", "show", "dev", "r0"]).contains("LOWER_UP");
    left.link_down("l0");
    assert!(wait_until(|| !carrier(), LONG));
    left.link_up("l0");
    assert!(wait_until(carrier, LONG));
    left.delete_link("l0");
    assert!(!right.ip(["link", "show"]).contains("r0"));
}

#[test]
#[ignore = "needs root"]
fn nothing_of_a_namespace_shows_outside() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "lrlabonly0", &right, "r0");
    let list = || fs::read_to_string("/proc/thread-self/net/dev").expect("it is always there");
    assert!(!list().contains("lrlabonly0"));
    assert!(left.enter(list).contains("lrlabonly0"));
    assert!(!list().contains("lrlabonly0"), "only the visiting thread went inside");
}

#[test]
#[ignore = "needs root"]
fn everything_is_removed_also_after_a_panic() {
    let mut seen = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let lab = Lab::new();
        let namespace = lab.namespace("doomed");
        let held = namespace.spawn(["sleep", "600"]);
        // Started behind the lab's back, and so not killed with its handle.
        namespace.expect(["sh", "-c", "sleep 600 >/dev/null 2>&1 &"]);
        let inside = namespace.expect(["ip", "netns", "pids", namespace.name()]);
        seen = Some((namespace.path(), held.id(), inside));
        panic!("a test fails");
    }));
    assert!(result.is_err());
    let (path, held, inside) = seen.expect("the test got that far");
    assert!(!path.exists());
    assert!(!Path::new(&format!("/proc/{held}")).exists());
    assert!(inside.split_whitespace().count() >= 2, "both sleepers were inside: {inside}");
    let gone = || inside.split_whitespace().all(|pid| !is_sleeping(pid));
    assert!(wait_until(gone, LONG), "{inside}");
}

/// Returns true if the process is one of the test's, and not ended.
fn is_sleeping(pid: &str) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.contains("(sleep)") && !stat.contains(") Z")
}

#[test]
#[ignore = "needs root"]
fn leftovers_of_a_killed_test_are_removed_by_the_next() {
    // No process has the number 0, and none started at tick 0 with the number of this one.
    let dead = "lrlab-0-1-1-left".to_owned();
    let reused = format!("lrlab-{}-0-1-left", std::process::id());
    let foreign = format!("lrlabother{}", std::process::id());
    for name in [&dead, &reused, &foreign] {
        let status = Command::new("ip").args(["netns", "add", name]).status();
        assert!(status.expect("ip starts").success());
    }
    let mine = Lab::new().namespace("mine");
    let _next = Lab::new();
    let exists = |name: &str| Path::new("/run/netns").join(name).exists();
    let found = [&dead, &reused, &foreign].map(|name| exists(name));
    let kept = mine.path().exists();
    let _ = Command::new("ip").args(["netns", "delete", &foreign]).status();
    assert_eq!(found, [false, false, true], "of a dead process, of a reused number, not a lab's");
    assert!(kept, "the next lab leaves those of a running test alone");
}

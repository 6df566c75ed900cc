//! Entries of hosts and flows run out as they do in the kernel.
//!
//! The programs that send wait as long as times say, and longer; no time is asserted.

use linerate_test_support::wait_until;

use super::{
    exchange::{Step, compare, net, steps},
    nat,
};
use crate::{
    hosts::{bridge, run, stop},
    support::{LINERATE, Scratch, TIMEOUT},
};

/// Seconds that hosts and flows are remembered.
const TIME: &str = "5";

fn step<'a>(all: &'a [Step], name: &str) -> &'a Step {
    all.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The time becomes shorter when hosts are known already.
#[test]
#[ignore = "needs root, waits"]
fn a_switch_forgets_silent_hosts() {
    const SCRIPT: &str = include_str!("expiry_switch.py");
    let kernels = net(3);
    bridge(&kernels.middle, &["p0", "p1", "p2"]);
    kernels.middle.set("net/bridge/bridge-nf-call-iptables", "0");
    let mut linux = steps(&kernels, SCRIPT, &["learn"]);
    kernels.middle.ip(["link", "set", "br0", "type", "bridge", "ageing_time", "500"]);
    linux.extend(steps(&kernels, SCRIPT, &[TIME]));
    drop(kernels);

    let net = net(3);
    let scratch = Scratch::new();
    let control = scratch.file("control");
    let arguments = format!("A=p0 B=p1 C=p2 --control {control}");
    let program = run(&net.middle, "switch.click", &arguments);
    let call = |words: [&str; 2]| {
        let words = [&[LINERATE, "call", &control], &words[..]].concat();
        net.middle.expect(words.into_iter().filter(|word| !word.is_empty()))
    };
    let mut ours = steps(&net, SCRIPT, &["learn"]);
    call(["s.timeout", TIME]);
    ours.extend(steps(&net, SCRIPT, &[TIME]));
    for (name, everywhere) in
        [("to-silent", false), ("to-silent-later", true), ("to-silent-again", false)]
    {
        assert!(step(&ours, name).came(0), "{name}");
        assert_eq!(step(&ours, name).came(1), everywhere, "{name}");
    }
    compare(&linux, &ours, &[], 20);
    // In the end all hosts are silent, and none is known.
    let forgotten =
        || call(["s.count", ""]).trim() == "0" && call(["s.table", ""]).trim().is_empty();
    assert!(wait_until(forgotten, TIMEOUT), "{}", call(["s.table", ""]));
    stop(program);
}

const NAT: &str = concat!(include_str!("nat_hosts.py"), "\n", include_str!("expiry_nat.py"));

/// Flows that have ended are removed as seldom as unless told otherwise: long before, they let nothing
/// in.
#[test]
#[ignore = "needs root, waits"]
fn a_nat_lets_nothing_in_when_a_flow_has_ended() {
    let kernels = net(2);
    nat::linux(&kernels.middle);
    for time in ["udp_timeout", "udp_timeout_stream", "tcp_timeout_time_wait", "tcp_timeout_close"]
    {
        kernels.middle.set(&format!("net/netfilter/nf_conntrack_{time}"), TIME);
    }
    let linux = steps(&kernels, NAT, &[TIME]);
    drop(kernels);

    let net = net(2);
    let scratch = Scratch::new();
    let control = scratch.file("control");
    let times = format!("UDP_TIMEOUT={TIME} TCP_DONE_TIMEOUT={TIME} GUARANTEE=1");
    let program = nat::ours(&net, &control, &times);
    let ours = steps(&net, NAT, &[TIME]);
    for name in ["kept-after", "open-after", "silent-again-answer", "closed-again-syn-ack"] {
        assert!(step(&ours, name).came(0), "{name}");
    }
    for name in ["error-about-silent", "silent-after", "closed-after", "reset-after"] {
        assert!(step(&ours, name).is_silent(), "{name}");
    }
    compare(&linux, &ours, &[], 50);
    stop(program);
}

/// The handlers say so when they have been removed.
#[test]
#[ignore = "needs root, waits"]
fn flows_that_have_ended_are_removed() {
    let net = net(2);
    let scratch = Scratch::new();
    let control = scratch.file("control");
    let times = format!("UDP_TIMEOUT={TIME} TCP_DONE_TIMEOUT={TIME} GUARANTEE=1 REAP_INTERVAL=1");
    let program = nat::ours(&net, &control, &times);
    let read = |handler: &str| net.middle.expect([LINERATE, "call", &control, handler]);
    let ours = steps(&net, NAT, &[TIME]);
    assert!(step(&ours, "silent-after").is_silent() && step(&ours, "kept-after").came(0));
    // The connection that is still open stays.
    let gone =
        || read("flows.table_size").trim() == "1" && read("flows.udp_table").trim().is_empty();
    assert!(wait_until(gone, TIMEOUT), "{}", read("flows.udp_table"));
    let left = read("flows.tcp_table");
    assert!(left.lines().count() == 2 && left.contains("5002"), "{left}");
    stop(program);
}

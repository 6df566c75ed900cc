//! `examples/switch.click` and the kernel's bridge.

use super::exchange::{Difference, Step, compare, net, steps};
use crate::hosts::{bridge, run, stop};

const SCRIPT: &str = include_str!("switch.py");

#[test]
#[ignore = "needs root"]
fn frames_leave_as_they_leave_a_bridge() {
    let kernels = net(3);
    bridge(&kernels.middle, &["p0", "p1", "p2"]);
    // A bridge and nothing more: it looks at no IP header.
    kernels.middle.set("net/bridge/bridge-nf-call-iptables", "0");
    let linux = steps(&kernels, SCRIPT, &[]);
    drop(kernels);

    let net = net(3);
    let program = run(&net.middle, "switch.click", "A=p0 B=p1 C=p2");
    let ours = steps(&net, SCRIPT, &[]);
    stop(program);
    compare(&linux, &ours, DIFFERENCES, 50);
}

const DIFFERENCES: &[Difference] = &[
    ("bridges-00", SPANNING_TREE, |linux, ours| !linux.is_silent() && ours.is_silent()),
    ("bridges-from-unknown", SPANNING_TREE, |linux, ours| !linux.is_silent() && ours.is_silent()),
    (
        "to-whom-that-told",
        "what has not passed has told Linux where its sender is, and ours nothing",
        |linux, ours| linux.only().0 == 1 && ours.came(1) && ours.came(2),
    ),
    ("from-group", SOURCES, forwarded),
    ("from-broadcast", SOURCES, forwarded),
    ("from-nobody", SOURCES, forwarded),
    ("to-nobody", "ours has learnt where the source that nobody has was seen", |linux, ours| {
        linux.came(0) && linux.came(2) && ours.only().0 == 0
    }),
    ("to-near-interface", OWN, |linux, ours| linux.is_silent() && ours.came(1) && ours.came(2)),
    ("to-far-interface", OWN, |linux, ours| linux.is_silent() && ours.came(1) && ours.came(2)),
];

const SPANNING_TREE: &str = "Linux forwards what spanning trees say as long as it has none itself; \
    the example lets nothing pass that is meant for the next bridge only (IEEE 802.1Q, table 8-1)";
const SOURCES: &str = "Linux drops what has a source that is no host's; ours forwards it as Click's \
    switch does";
const OWN: &str = "Linux' interfaces have addresses, at which it receives; ours have none";

fn forwarded(linux: &Step, ours: &Step) -> bool {
    linux.is_silent() && ours.only().0 == 1
}

//! Neighbours that run out, and fragments that never become a packet, at the routers among the
//! examples and at the kernel's.

use linerate_test_support::Namespace;

use super::exchange::{Net, net};
use crate::hosts::{python, run, stop};

const SCRIPT: &str = concat!(include_str!("exchange.py"), "\n", include_str!("expiry_router.py"));

/// A name, and the observation.
type Fact = (String, String);

#[track_caller]
fn facts(net: &Net, arguments: [&str; 2]) -> Vec<Fact> {
    let shown = python(&net.ends, SCRIPT, &arguments);
    serde_json::from_str(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

/// Observations of the kernel and of an example are equal, and as expected.
#[track_caller]
fn compare(
    linux: fn(&Namespace),
    (example, variables): (&str, &str),
    arguments: [&str; 2],
    expected: &[(&str, &str)],
) {
    let kernels = net(2);
    linux(&kernels.middle);
    let linux = facts(&kernels, arguments);
    drop(kernels);

    let net = net(2);
    let program = run(&net.middle, example, &format!("LEFT=p0 RIGHT=p1 {variables}"));
    let ours = facts(&net, arguments);
    stop(program);
    assert_eq!(linux, ours, "Linux, and ours");
    let expected: Vec<Fact> =
        expected.iter().map(|(name, what)| ((*name).into(), (*what).into())).collect();
    assert_eq!(ours, expected);
}

/// Neighbours are good for two seconds, about; are asked for again a second later if they are in
/// use; and are given up when three queries, a second apart, have no answer.
fn times(router: &Namespace, family: &str) {
    for interface in ["p0", "p1"] {
        for (name, value) in [
            ("base_reachable_time_ms", "2000"),
            ("delay_first_probe_time", "1"),
            ("retrans_time_ms", "1000"),
        ] {
            router.set(&format!("net/{family}/neigh/{interface}/{name}"), value);
        }
    }
}

fn linux4(router: &Namespace) {
    router.add_address("p0", "198.18.0.1/24");
    router.add_address("p1", "198.19.0.1/24");
    router.set("net/ipv4/ip_forward", "1");
    router.set("net/ipv4/icmp_ratemask", "0");
    router.set("net/ipv4/ipfrag_time", "2");
    times(router, "ipv4");
}

fn linux6(router: &Namespace) {
    // Its own addresses on the links are good at once.
    for interface in ["p0", "p1"] {
        router.set(&format!("net/ipv6/conf/{interface}/accept_dad"), "0");
    }
    router.add_address("p0", "2001:db8:0:1::1/64");
    router.add_address("p1", "2001:db8:0:2::1/64");
    router.set("net/ipv6/conf/all/forwarding", "1");
    router.set("net/ipv6/icmp/ratelimit", "0");
    times(router, "ipv6");
}

/// Observations of neighbours; `told` is the error about an absent one.
#[track_caller]
fn neighbours(linux: fn(&Namespace), example: &str, variables: &str, family: &str, told: &str) {
    let told = format!("[{told}, {told}, {told}]");
    let expected = [
        ("unknown: asked", "['all']"),
        ("unknown: came before the answer", "[]"),
        ("unknown: came then", "[0, 1, 2]"),
        ("answers: came", "True"),
        ("answers: asked", "['it']"),
        ("silent: asked", "['it', 'all']"),
        ("silent: some came to where it was", "True"),
        ("silent: all came, the last ones to where it is now", "True"),
        ("silent: the last", "True"),
        ("gone: asked", "[['all'], 3]"),
        ("gone: told", &told),
        ("gone: of", "[0, 1, 2]"),
        ("comes: asked", "['all']"),
    ];
    compare(linux, (example, variables), [family, "neighbours"], &expected);
}

#[test]
#[ignore = "needs root, waits"]
fn addresses_of_neighbours_run_out() {
    let told = "('198.18.0.1', 3, 1)";
    neighbours(linux4, "router.click", "ARP_TIMEOUT=5 ARP_POLL=2", "4", told);
}

#[test]
#[ignore = "needs root, waits"]
fn addresses_of_ipv6_neighbours_run_out() {
    let told = "('2001:db8:0:1::1', 1, 3)";
    neighbours(linux6, "router6.click", "ND_TIMEOUT=5 ND_POLL=2", "6", told);
}

#[test]
#[ignore = "needs root, waits"]
fn fragments_that_lack_others_run_out() {
    let expected = [
        ("whole", "('echo', '198.18.0.1', 100)"),
        ("first only", "('198.18.0.1', 11, 1)"),
        ("first only: of", "('198.18.0.2', '198.18.0.1', 101, '0800246400650000')"),
        ("then", "('echo', '198.18.0.1', 103)"),
    ];
    compare(linux4, ("router.click", "PARTS_TIMEOUT=2"), ["4", "fragments"], &expected);
}

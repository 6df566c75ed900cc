//! The monitor's routes and neighbours against the kernel's: in a network namespace, changed by
//! `ip`.
#![allow(missing_docs, reason = "a test program")]

use std::{cell::RefCell, collections::BTreeMap, net::IpAddr, time::Duration};

use linerate_linux::interface::{
    Hop, MAIN_TABLE, Prefix, RoutingEvent, RoutingMonitor, Target, find,
};
use linerate_test_support::{Lab, Namespace, wait_until};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

/// Routes and neighbours told so far.
#[derive(Default, Debug, PartialEq)]
struct Known {
    routes: BTreeMap<Prefix, Target>,
    neighbours: BTreeMap<(u32, IpAddr), [u8; 6]>,
}

impl Known {
    fn follow(&mut self, monitor: &mut RoutingMonitor) {
        while let Some(event) = monitor.next_event().unwrap() {
            match event {
                RoutingEvent::Route { prefix, target: Some(target) } => {
                    self.routes.insert(prefix, target);
                }
                RoutingEvent::Route { prefix, target: None } => {
                    assert!(self.routes.remove(&prefix).is_some(), "{prefix:?} was not there");
                }
                RoutingEvent::Neighbour { device, address, mac: Some(mac) } => {
                    self.neighbours.insert((device, address), mac);
                }
                RoutingEvent::Neighbour { device, address, mac: None } => {
                    assert!(self.neighbours.remove(&(device, address)).is_some());
                }
            }
        }
    }

    /// Reads the present state.
    fn read() -> Known {
        let mut known = Known::default();
        known.follow(&mut RoutingMonitor::open(MAIN_TABLE).unwrap());
        known
    }

    fn route(&self, to: &str) -> Option<&Target> {
        let (address, length) = to.split_once('/').unwrap();
        self.routes.get(&(address.parse().unwrap(), length.parse().unwrap()))
    }
}

/// A host with two interfaces that are up.
fn host(lab: &Lab) -> (Namespace, Namespace) {
    let (host, peer) = (lab.namespace("host"), lab.namespace("peer"));
    for (number, name) in [(1, "one"), (2, "two")] {
        lab.veth(&host, name, &peer, name);
        host.add_address(name, &format!("10.0.{number}.1/24"));
        host.add_address(name, &format!("fd00:{number}::1/64"));
        host.link_up(name);
        peer.link_up(name);
    }
    (host, peer)
}

fn ip(command: &str) -> bool {
    let status = std::process::Command::new("ip").args(command.split_whitespace()).output();
    status.unwrap().status.success()
}

fn through(device: &str, gateway: Option<&str>, weight: u16) -> Hop {
    let device = find(device).unwrap().index;
    Hop { gateway: gateway.map(|gateway| gateway.parse().unwrap()), device, weight }
}

fn sorted(hops: impl Into<Vec<Hop>>) -> Vec<Hop> {
    let mut hops = hops.into();
    hops.sort();
    hops
}

#[test]
#[ignore = "needs root"]
fn routes_and_neighbours_are_told() {
    let lab = Lab::new();
    let (host, _peer) = host(&lab);
    host.enter(|| {
        let mut monitor = RoutingMonitor::open(MAIN_TABLE).unwrap();
        let mut known = Known::default();
        known.follow(&mut monitor);
        let one = through("one", None, 1);
        assert_eq!(known.route("10.0.1.0/24"), Some(&Target::Through(vec![one])));
        for (command, to, expected) in [
            (
                "route add 10.9.0.0/16 via 10.0.1.2 metric 20",
                "10.9.0.0/16",
                Some(Target::Through(vec![through("one", Some("10.0.1.2"), 1)])),
            ),
            // A better one.
            (
                "route add 10.9.0.0/16 nexthop via 10.0.1.2 weight 1 nexthop via 10.0.2.2 weight 3",
                "10.9.0.0/16",
                Some(Target::Through(sorted([
                    through("one", Some("10.0.1.2"), 1),
                    through("two", Some("10.0.2.2"), 3),
                ]))),
            ),
            (
                "route del 10.9.0.0/16 metric 0",
                "10.9.0.0/16",
                Some(Target::Through(vec![through("one", Some("10.0.1.2"), 1)])),
            ),
            (
                "route replace 10.9.0.0/16 via 10.0.2.9 metric 20",
                "10.9.0.0/16",
                Some(Target::Through(vec![through("two", Some("10.0.2.9"), 1)])),
            ),
            ("route del 10.9.0.0/16", "10.9.0.0/16", None),
            ("route add unreachable 10.8.0.0/16", "10.8.0.0/16", Some(Target::Refused)),
            // Of several of one metric the first is replaced, by the present one.
            (
                "-6 route append fd07::/16 dev one",
                "fd07::/16",
                Some(Target::Through(vec![through("one", None, 1)])),
            ),
            (
                "-6 route append fd07::/16 dev two",
                "fd07::/16",
                Some(Target::Through(vec![through("one", None, 1)])),
            ),
            (
                "-6 route replace fd07::/16 dev two",
                "fd07::/16",
                Some(Target::Through(vec![through("two", None, 1)])),
            ),
            // Another table.
            ("route add 10.7.0.0/16 dev one table 77", "10.7.0.0/16", None),
            (
                "-6 route add default via fd00:2::2",
                "::/0",
                Some(Target::Through(vec![through("two", Some("fd00:2::2"), 1)])),
            ),
            // Of this the kernel says nothing.
            ("link set one down", "10.0.1.0/24", None),
            ("address del 10.0.2.1/24 dev two", "10.0.2.0/24", None),
        ] {
            assert!(ip(command), "{command}");
            known.follow(&mut monitor);
            assert_eq!(known.route(to), expected.as_ref(), "{command}");
        }
        let key = (find("two").unwrap().index, "10.0.2.7".parse().unwrap());
        assert!(ip("neigh add 10.0.2.7 lladdr 02:00:00:00:00:07 dev two"));
        known.follow(&mut monitor);
        assert_eq!(known.neighbours.get(&key), Some(&[2, 0, 0, 0, 0, 7]));
        assert!(ip("neigh del 10.0.2.7 dev two"));
        known.follow(&mut monitor);
        assert_eq!(known.neighbours.get(&key), None);
    });
}

/// After any changes, the routes and neighbours told are those there are.
#[test]
#[ignore = "needs root"]
fn reported_routes_and_neighbours_are_the_kernels() {
    let lab = Lab::new();
    let (host, _peer) = host(&lab);
    let prefix = prop_oneof!["10\\.[89]\\.0\\.0/1[67]", "10\\.9\\.[1-3]\\.0/24"];
    let hop = prop_oneof!["via 10\\.0\\.[12]\\.[2-3]", "dev (one|two)"];
    let action = prop_oneof![
        (
            "(add|append|prepend|replace|del)",
            prefix.clone(),
            hop.clone(),
            prop_oneof!["", "metric [1-2]0"]
        )
            .prop_map(|(verb, prefix, hop, metric)| format!(
                "route {verb} {prefix} {hop} {metric}"
            )),
        ("(add|replace|del)", prefix)
            .prop_map(|(verb, prefix)| format!("route {verb} blackhole {prefix}")),
        (
            "(add|append|replace|del)",
            "fd0[89]::/16",
            prop_oneof!["via fd00:[12]::[2-3]", "dev (one|two)"]
        )
            .prop_map(|(verb, prefix, hop)| format!("-6 route {verb} {prefix} {hop}")),
        "link set (one|two) (up|down)",
        "address (add|del) 10\\.0\\.3\\.1/24 dev (one|two)",
        "neigh (replace|del) 10\\.0\\.1\\.[2-4] lladdr 02:00:00:00:00:0[1-3] dev one",
    ];
    let actions = prop::collection::vec(action, 1..25);
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    host.enter(|| {
        TestRunner::new(config)
            .run(&actions, |actions| {
                set_back();
                let monitor = RefCell::new(RoutingMonitor::open(MAIN_TABLE).unwrap());
                let known = RefCell::new(Known::default());
                let follow = || known.borrow_mut().follow(&mut monitor.borrow_mut());
                for action in &actions {
                    // Some cannot be done.
                    ip(action);
                    follow();
                }
                // The kernel does some of it later.
                let told = || {
                    follow();
                    *known.borrow() == Known::read()
                };
                let same = wait_until(told, Duration::from_secs(60));
                prop_assert!(same, "told {known:#?}, there is {:#?}", Known::read());
                Ok(())
            })
            .unwrap();
    });
}

/// Undoes the actions of another case: a case that fails is made smaller by trying others.
fn set_back() {
    for command in [
        "route flush root 10.8.0.0/14",
        "-6 route flush root fd08::/15",
        "neigh flush dev one nud permanent",
        "address del 10.0.3.1/24 dev one",
        "address del 10.0.3.1/24 dev two",
        "link set one up",
        "link set two up",
        "-6 address replace fd00:1::1/64 dev one nodad",
        "-6 address replace fd00:2::1/64 dev two nodad",
    ] {
        // A missing entry cannot be taken away.
        ip(command);
    }
}

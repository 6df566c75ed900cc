//! Tests of tables against plain lists of routes, and of elements on several workers.

use std::{thread, time::Duration};

use linerate_graph::Control;
use linerate_test_support::wait_until;
use proptest::prelude::*;

use super::{
    family::Family as _,
    hops::NO_OUTPUT,
    list::Order,
    route::Route,
    table::{Refusal, Table},
};
use crate::testing::Run;

/// A table as Click's simplest class has it: a list that is searched.
#[derive(Default)]
struct Plain(Vec<Route<u32>>);

impl Plain {
    fn place(&self, route: &Route<u32>) -> Option<usize> {
        self.0.iter().position(|old| (old.address, old.mask) == (route.address, route.mask))
    }

    fn add(&mut self, route: Route<u32>, replace: bool) -> Result<(), Refusal<u32>> {
        match self.place(&route) {
            Some(at) if !replace => return Err(Refusal::Exists(self.0[at].clone())),
            Some(at) => self.0[at] = route,
            None => self.0.push(route),
        }
        Ok(())
    }

    fn remove(&mut self, route: Route<u32>) -> Result<(), Refusal<u32>> {
        let at = self.place(&route).filter(|at| route.output < 0 || self.0[*at] == route);
        self.0.remove(at.ok_or(Refusal::Absent)?);
        Ok(())
    }

    /// Puts every route inside another in front of it, and keeps routes that are free by that in
    /// order (Kahn's algorithm, new places first in, first out).
    fn sort(&mut self) {
        let contains = |a: &Route<u32>, b: &Route<u32>| {
            a != b && b.address & a.mask == a.address && b.mask & a.mask == a.mask
        };
        let mut inside: Vec<usize> =
            self.0.iter().map(|a| self.0.iter().filter(|b| contains(a, b)).count()).collect();
        let (mut sorted, mut done) = (Vec::<usize>::new(), 0);
        while sorted.len() < self.0.len() {
            let free = (0..inside.len()).find(|at| inside[*at] == 0 && !sorted.contains(at));
            sorted.push(free.unwrap());
            while let Some(&which) = sorted.get(done) {
                done += 1;
                for (at, inside) in inside.iter_mut().enumerate() {
                    if contains(&self.0[at], &self.0[which]) {
                        *inside -= 1;
                        if *inside == 0 {
                            sorted.push(at);
                        }
                    }
                }
            }
        }
        self.0 = sorted.into_iter().map(|at| self.0[at].clone()).collect();
    }

    fn lookup(&self, address: u32) -> (u32, u32) {
        let matching = self.0.iter().filter(|route| address & route.mask == route.address);
        let found = matching.max_by_key(|route| route.mask);
        found.map_or((0, NO_OUTPUT), |route| (route.gateway, route.output as u32))
    }
}

fn route() -> impl Strategy<Value = Route<u32>> {
    let prefix = (
        prop_oneof![0u32..4, 0x0a00_0000u32..0x0a00_0400],
        prop_oneof![1 => Just(0u32), 30 => 14u32..=32],
    );
    (prefix, 0u32..3, 0i32..3).prop_map(|((address, length), gateway, output)| {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        Route::new(address & mask, mask, gateway, output)
    })
}

fn outcome<T>(result: Result<T, Refusal<u32>>) -> Result<(), Refusal<u32>> {
    result.map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn tables_do_as_plain_lists(
        first in prop::collection::vec(route(), 0..12),
        changes in prop::collection::vec((route(), 0..5u8), 0..24),
    ) {
        for order in [Order::FirstFree, Order::LastFreed, Order::Nested, Order::ByAddress] {
            let (table, mut plain) = (Table::new(order, true).unwrap(), Plain::default());
            let twice = first.iter().filter(|route| plain.add((*route).clone(), false).is_err()).count();
            prop_assert_eq!(table.load(&first, false), Ok(twice));
            for (route, what) in &changes {
                let any = Route { output: -1, ..route.clone() };
                let (ours, theirs) = match what {
                    0 | 1 => (outcome(table.add(route, false)), plain.add(route.clone(), false)),
                    2 => (outcome(table.add(route, true)), plain.add(route.clone(), true)),
                    3 => (table.remove(route), plain.remove(route.clone())),
                    _ => (table.remove(&any), plain.remove(any)),
                };
                if order == Order::Nested {
                    plain.sort();
                }
                prop_assert_eq!(ours, theirs);
                for address in [route.address, route.address | !route.mask, 5, 0x0a00_0201] {
                    prop_assert_eq!(table.lookup(address), plain.lookup(address));
                }
            }
            let (mut listed, mut expected) = (Vec::new(), plain.0.clone());
            table.for_each(|route| listed.push(route));
            match order {
                Order::Nested => plain.sort(),
                _ => listed.sort_by_key(|route| (route.address, route.mask)),
            }
            match order {
                Order::Nested => expected = plain.0,
                _ => expected.sort_by_key(|route| (route.address, route.mask)),
            }
            prop_assert_eq!(listed, expected);
        }
    }
}

#[test]
fn masks_that_are_not_of_prefixes_count_as_in_a_search_from_the_start() {
    let table = Table::<u32>::new(Order::FirstFree, true).unwrap();
    let add = |address: u32, mask: u32, output| {
        table.add(&Route::new(address, mask, 0, output), false).map(drop)
    };
    add(1, 0xff, 0).unwrap();
    add(0x0a00_0001, 0xff00_00ff, 1).unwrap();
    add(0x0a01_0000, 0xffff_0000, 2).unwrap();
    let addresses = [0x0900_0001, 0x0a01_0001, 0x0a01_0002, 2];
    let outputs = addresses.map(|address| table.lookup(address).1);
    assert_eq!(outputs, [0, 1, 2, NO_OUTPUT]);
    assert!(matches!(add(1, 0xff, 2), Err(Refusal::Exists(_))));
    let plain = Table::<u32>::new(Order::ByAddress, false).unwrap();
    let odd = Route::new(1, 0xff, 0, 0);
    assert_eq!(plain.add(&odd, false), Err(Refusal::Mask));
}

#[test]
fn a_full_table_of_gateways_is_refused_and_goes_on() {
    let table = Table::<u32>::new(Order::ByAddress, false).unwrap();
    let route = |at: u32| Route::new(at << 8, !255, at, 1);
    let all: Vec<_> = (1..=(1 << 20)).map(route).collect();
    assert_eq!(table.load(&all, false), Err(Refusal::NoRoom));
    assert_eq!(table.load(&all[..10_000], false), Ok(0));
    assert_eq!(table.lookup(1000 << 8 | 7), (1000, 1));
    assert_eq!(u32::MAX.mask_text(), "32");
}

/// Ends the run, also when an assertion fails.
struct Stop<'a>(&'a Control);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Packets from two workers go by one table, which changes meanwhile; in any state of it none is
/// lost.
#[test]
fn replicas_share_one_table() {
    for class in ["RadixIPLookup", "LookupIP6Route"] {
        let (net, gateways) = match class {
            "LookupIP6Route" => ("a00::/8", ["fe80::9", "fe80::8"]),
            _ => ("10.0.0.0/8", ["9.9.9.9", "8.8.8.8"]),
        };
        let mut run = Run::new(&format!(
            "s :: InfiniteSource -> Paint(10, 0) -> r :: {class}({net} 0) -> a :: Counter -> Discard;
             t :: InfiniteSource -> Paint(10, 0) -> r; r [1] -> b :: Counter -> Discard;
             StaticThreadSched(s 0, t 1);"
        ))
        .workers(2);
        let control = run.control();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _stop = Stop(&control);
                for at in 0..8 {
                    let gateway = gateways[at % 2];
                    let name = if class == "LookupIP6Route" { "r.add" } else { "r.set" };
                    let value = format!("{net} {gateway} {}", at % 2);
                    control.write(name, &value).unwrap();
                    let table = control.read("r.table", "").unwrap();
                    assert!(table.contains(gateway), "{table}");
                    // However busy the machine is, packets go there before the next change.
                    let counter = ["a.count", "b.count"][at % 2];
                    let count = || control.read(counter, "").unwrap();
                    let before = count();
                    assert!(wait_until(|| count() != before, Duration::from_secs(20)), "{name}");
                }
            });
            run.run();
        });
        assert_eq!(run.read("r.drops").lines().next(), Some("0\tno route"));
        for counter in ["a.count", "b.count"] {
            assert_ne!(run.read(counter), "0", "{class} {counter}");
        }
    }
}

#[test]
fn a_new_configuration_begins_with_its_own_routes() {
    let mut run = Run::new("Idle -> r :: RadixIPLookup(1/8 0) -> Discard");
    run.write("r.add", "2/8 0").unwrap();
    run.write("r.config", "3/8 0").unwrap();
    assert_eq!(run.read("r.table"), "3.0.0.0/8\t\t-\t\t0\n");
    run.write("r.config", "3/8 7").unwrap_err();
    assert_eq!(run.read("r.table"), "3.0.0.0/8\t\t-\t\t0\n");
}

#[test]
fn handlers_need_no_worker() {
    // No worker runs: a handler that needs one would not be answered.
    let mut run = Run::new("Idle -> r :: RadixIPLookup(1/8 0) -> Discard");
    let control = run.control();
    control.write("r.ctrl", "add 2/8 0\nset 1/8 9.9.9.9 0").unwrap();
    assert_eq!(control.read("r.lookup", "1.2.3.4").unwrap(), "0 9.9.9.9");
    assert!(control.write("r.lookup", "").is_err() && control.read("r.add", "").is_err());
    assert!(control.read("r.table", "x").unwrap_err().to_string().contains("parameters"));
}

#[test]
fn commands_are_carried_out_together_or_not_at_all() {
    for class in ["RadixIPLookup", "DirectIPLookup", "LinearIPLookup", "SortedIPLookup"] {
        let text = format!(
            "Idle -> r :: {class}(1/8 0, 2/8 1.1.1.1 0, 1.2/16 1) -> Discard; r[1] -> Discard"
        );
        let mut run = Run::new(&text);
        let before = run.read("r.table");
        let good =
            "remove 1/8\nset 1.2/16 7.7.7.7 1\nadd 3/8 0\nremove 3/8\nadd 1/8 5.5.5.5 1\nadd 4/8 0";
        for bad in ["remove 9/8", "add 2/8 0", "set 5/8 2", "jump 5/8 0", "remove 2/8 0"] {
            let error = run.write("r.ctrl", &format!("{good}\n{bad}")).unwrap_err();
            let mut after: Vec<_> = run.read("r.table").lines().map(str::to_owned).collect();
            let mut expected: Vec<_> = before.lines().map(str::to_owned).collect();
            after.sort();
            expected.sort();
            assert_eq!(after, expected, "{class}, {bad}: {error}");
        }
        run.write("r.ctrl", good).unwrap();
        let answers = |run: &mut Run, address| run.control().read("r.lookup", address).unwrap();
        let expected = ["1 5.5.5.5", "1 7.7.7.7", "-1", "0", "0 1.1.1.1"];
        let found = ["1.1.1.1", "1.2.0.1", "3.0.0.1", "4.0.0.1", "2.0.0.1"];
        assert_eq!(found.map(|address| answers(&mut run, address)), expected, "{class}");
    }
}

/// The order is that of Click's table after each step.
#[test]
fn a_route_without_inner_routes_moves_behind_its_predecessor() {
    let mut run = Run::new(
        "Idle -> r :: SortedIPLookup(10.0.0.0/24 0, 0.0.0.0/14 0, 10.0.1.0/24 0) -> Discard",
    );
    let listed = |run: &mut Run| {
        let table = run.read("r.table");
        table.lines().filter_map(|line| line.split('\t').next()).collect::<Vec<_>>().join(" ")
    };
    run.write("r.set", "10.0.0.0/23 0.0.0.2 0").unwrap();
    assert_eq!(listed(&mut run), "10.0.0.0/24 0.0.0.0/14 10.0.1.0/24 10.0.0.0/23");
    run.write("r.remove", "10.0.1.0/24").unwrap();
    assert_eq!(listed(&mut run), "10.0.0.0/24 10.0.0.0/23 0.0.0.0/14");
}

#[test]
fn a_table_is_reloaded_whole_or_not_at_all() {
    let mut run = Run::new("Idle -> r :: RadixIPLookup(1/8 0, 0/0 1) -> Discard; r[1] -> Discard");
    let before = run.read("r.table");
    for wrong in ["2/8 0\n3/8 2", "2/8", "x 0", "0.0.0.1/0.0.0.255 0"] {
        run.write("r.reload", wrong).unwrap_err();
        assert_eq!(run.read("r.table"), before);
    }
    run.write("r.reload", "2/8 0\n\n 3/8 9.9.9.9 1\n4/8 1\n4/8 0\n").unwrap();
    assert_eq!(
        run.read("r.table"),
        "2.0.0.0/8\t\t-\t\t0\n3.0.0.0/8\t\t9.9.9.9\t\t1\n4.0.0.0/8\t\t-\t\t0\n"
    );
    assert_eq!(run.control().read("r.lookup", "1.2.3.4").unwrap(), "-1");
    let mut run = Run::new("Idle -> r :: LookupIP6Route(3ffe::/16 0) -> Discard");
    run.write("r.reload", "2001:db8::/32 fe80::1 0\n::/0 0").unwrap();
    let expected = "# Active routes\n2001:db8::/32\tfe80::1\t0\n::/0\t::\t0\n";
    assert_eq!(run.read("r.table"), expected);
    run.write("r.reload", "2001:db8::/32 fe80::1 1").unwrap_err();
    assert_eq!(run.read("r.table"), expected);
}

#[test]
fn masks_of_no_prefix_and_prefixes_change_together() {
    let mut run = Run::new(
        "Idle -> r :: LinearIPLookup(0/0 0, 0.0.0.1/0.0.0.255 1) -> Discard; r[1] -> Discard;",
    );
    let control = run.control();
    let leads = |address| control.read("r.lookup", address).unwrap();
    assert_eq!([leads("9.9.9.1"), leads("9.9.9.2")], ["1", "0"]);
    let wrong = "remove 0.0.0.1/0.0.0.255\nset 0/0 1\nadd 0.0.0.2/0.0.0.255 1\nremove 8/8";
    control.write("r.ctrl", wrong).unwrap_err();
    assert_eq!([leads("9.9.9.1"), leads("9.9.9.2")], ["1", "0"]);
    control.write("r.ctrl", "remove 0.0.0.1/0.0.0.255\nadd 0.0.0.2/0.0.0.255 1").unwrap();
    assert_eq!([leads("9.9.9.1"), leads("9.9.9.2")], ["0", "1"]);
    control.write("r.remove", "0.0.0.2/0.0.0.255").unwrap();
    assert_eq!([leads("9.9.9.1"), leads("9.9.9.2")], ["0", "0"]);
}

#[test]
fn several_next_hops_as_text() {
    let mut run = Run::new("Idle -> r :: RadixIPLookup(1/8 0) -> Discard; r[1] -> Discard");
    for wrong in
        ["2/8 0 |", "2/8 0*0 | 1", "2/8 0 | 2", "2/8 0 | -1", "2/8 0*65536 | 1", "2/8 x | 1"]
    {
        run.write("r.add", wrong).unwrap_err();
    }
    run.write("r.add", "2/8 0 | 9.9.9.9 1*2").unwrap();
    run.write("r.add", "3/8 0 | 9.9.9.9 1*2").unwrap();
    let error = run.write("r.add", "2/8 1").unwrap_err().to_string();
    assert_eq!(error, "conflict with existing route '2.0.0.0/8 - 0 | 9.9.9.9 1*2'");
    run.write("r.remove", "2/8 0 | 9.9.9.9 1").unwrap_err();
    run.write("r.ctrl", "remove 2/8 0 | 9.9.9.9 1*2\nset 3/8 1").unwrap();
    assert_eq!(run.read("r.table"), "1.0.0.0/8\t\t-\t\t0\n3.0.0.0/8\t\t-\t\t1\n");
    let mut run = Run::new("Idle -> r :: LookupIP6Route(::/0 fe80::1 0*2 | 0) -> Discard");
    assert_eq!(run.read("r.table"), "# Active routes\n::/0\tfe80::1 0*2 | :: 0\n");
    run.write("r.add", "3ffe::/16 0 | fe80::2 1").unwrap_err();
    run.write("r.add", "3ffe::/16 0 | fe80::2 0").unwrap();
    run.write("r.remove", "3ffe::/16").unwrap();
    assert!(Run::errors("Idle -> r :: RadixIPLookup(1/8 0 | 7) -> Discard").contains("bad OUTPUT"));
}

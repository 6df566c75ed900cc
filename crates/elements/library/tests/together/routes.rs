//! Routes with several next hops.

use super::Run;

/// Flows of `FastUDPFlows` that left by each of two outputs, packets in all.
fn shared_out(route: &str) -> ([u64; 2], Run) {
    let text = format!(
        "FastUDPFlows(0, 20000, 60, 2:0:0:0:0:1, 1.0.0.1, 2:0:0:0:0:2, 5.0.0.2, 1000, 20)
         -> Unqueue -> Strip(14) -> CheckIPHeader -> r :: RadixIPLookup({route});
         r [0] -> a :: AggregateIPFlows -> c :: Counter -> Discard;
         r [1] -> b :: AggregateIPFlows -> d :: Counter -> Discard;
         DriverManager(wait 1s, stop);"
    );
    let mut run = Run::new(&text);
    run.run();
    let counts = ["c.count", "d.count"].map(|name| run.read(name).parse().unwrap());
    (counts, run)
}

#[test]
fn flows_are_shared_among_next_hops_by_weight() {
    let ([a, b], mut run) = shared_out("0/0 9.9.9.9 0*3 | - 1");
    assert_eq!(a + b, 20_000);
    assert!((13_500..16_500).contains(&a), "{a} and {b}");
    // No flow has gone both ways: as many as there are, and as many pairs of
    // hosts as there are outputs.
    let flows = |run: &mut Run, name| run.read(name).parse::<u64>().unwrap();
    let seen = flows(&mut run, "a.flows") + flows(&mut run, "b.flows");
    let ([all, none], mut one) = shared_out("0/0 9.9.9.9 0");
    assert_eq!((all, none), (20_000, 0));
    assert_eq!(seen, flows(&mut one, "a.flows") + 1);
    assert_eq!(run.read("r.table"), "0.0.0.0/0\t\t9.9.9.9 0*3 | - 1\n");
    let lookup = run.control().read("r.lookup", "7.7.7.7").unwrap();
    assert!(["0 9.9.9.9", "1"].contains(&lookup.as_str()), "{lookup}");
}

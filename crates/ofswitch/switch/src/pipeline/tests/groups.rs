//! Effects of groups and meters, and liveness of groups.

use std::collections::BTreeSet;

use super::*;

#[test]
fn groups_act_by_their_type() {
    let all = ["group_id=1,type=all,bucket=output:2,bucket=dec_ttl,output:3,bucket=output:4"];
    let flow = "actions=group:1,output:2";
    assert_eq!(
        steps(&switch(&[all[0], flow]), TCP),
        "output 2, with a copy (set nw_ttl=63, output 3), output 4, output 2"
    );
    let failover = [
        "group_id=1,type=ff,bucket=watch_port:2,output:2,bucket=watch_port:3,output:3",
        "actions=group:1",
    ];
    let switch = switch(&failover);
    assert_eq!(steps(&switch, TCP), "output 2");
    switch.set_port_state(PortNumber(2), PortState::LINK_DOWN, 0);
    assert_eq!(steps(&switch, TCP), "output 3");
    switch.set_port_state(PortNumber(3), PortState::LINK_DOWN, 0);
    assert_eq!(steps(&switch, TCP), "drop");
    let select = [
        "group_id=1,type=select,bucket=weight:2,output:2,bucket=weight:0,output:4,bucket=weight:1,output:3",
        "group_id=2,type=indirect,bucket=group:1",
        "actions=group:2",
    ];
    let switch = self::switch(&select);
    assert_eq!(steps(&switch, TCP), "one of (2: (output 2), 1: (output 3))");
    let decision = decided(&switch, TCP);
    assert_eq!(decision.depends.groups, BTreeSet::from([1, 2]));
    assert_eq!(mask(&switch, TCP), "", "the hash is not the decision's");
}

/// However many ways there are from group to group, each group is looked at once.
#[test]
fn groups_that_watch_groups_are_looked_at_once() {
    let mut lines = vec!["group_id=40,type=ff,bucket=watch_port:4,output:4".to_owned()];
    for number in (1..40).rev() {
        let bucket = format!(",bucket=watch_group:{},output:2", number + 1);
        lines.push(format!("group_id={number},type=ff{}", bucket.repeat(8)));
    }
    lines.push("actions=group:1".to_owned());
    let switch = switch(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(steps(&switch, TCP), "output 2");
    let decision = decided(&switch, TCP);
    assert_eq!(decision.depends.groups, BTreeSet::from_iter(1..=40));
    switch.set_port_state(PortNumber(4), PortState::LINK_DOWN, 0);
    assert_eq!(steps(&switch, TCP), "drop");
}

/// Nor is a group asked again by each bucket that watches it, and buckets count that come to no
/// step.
#[test]
fn buckets_are_bounded_and_ask_once() {
    let many = |number: u32, kind: &str, bucket: &str, count: usize| {
        format!("group_id={number},type={kind}{}", format!(",bucket={bucket}").repeat(count))
    };
    let decided = |lines: &[String]| {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let switch = switch(&lines);
        let decision = decided(&switch, TCP);
        (print_steps(&decision.steps), decision.counted.len())
    };
    // The table twice, the flow and the groups, and each bucket.
    let flow = "actions=group:1,output:2".to_owned();
    let wide = [many(2, "all", "drop", 4096), many(1, "all", "group:2", 3), flow.clone()];
    assert_eq!(decided(&wide), ("output 2".to_owned(), 3 + 1 + 3 + 3 + 3 * 4096));
    let wide = [many(2, "all", "drop", 4096), many(1, "all", "group:2", 4096), flow.clone()];
    let (steps, counted) = decided(&wide);
    assert_eq!(steps, "drop");
    assert!(counted < 40_000, "{counted} of 16 million buckets");
    let dead = [
        many(3, "ff", "watch_port:9,output:2", 4096),
        many(2, "ff", "watch_group:3,output:2", 4096),
        many(1, "ff", "watch_group:2,output:3", 4096),
        flow,
    ];
    assert_eq!(decided(&dead).0, "output 2");
}

#[test]
fn behind_a_meter_packets_are_counted_one_by_one() {
    let lines = [
        "meter=1,kbps,band=type=drop,rate=1000",
        "table=0,actions=meter:1,goto_table:1",
        "table=1,actions=output:2",
    ];
    let decision = decided(&switch(&lines), TCP);
    // The first table and its flow, and before these: lookups and matches.
    assert_eq!(decision.counted.len(), 3);
    assert_eq!(print_steps(&decision.steps), "meter 1, count, count, count, output 2");
    assert_eq!(decision.depends.meters, [1]);
}

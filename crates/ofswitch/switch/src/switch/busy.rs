//! Tests of workers during a change, and of changes of many flows.

use std::sync::Arc;

use super::*;
use crate::wire::{
    Action, Bucket, GroupCommand, GroupType, Instruction, TableConfig, TableProperties,
};

const SECOND: u64 = 1_000_000_000;

fn output(port: u32) -> Action {
    Action::Output { port: PortNumber(port), max_len: 0 }
}

fn ip(address: u32) -> FlowMod {
    let matching = Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, address.into());
    FlowMod::add(0, 1, matching, vec![Instruction::ApplyActions(vec![output(1)])])
}

fn port(number: u32) -> Port {
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, number as u8],
        name: format!("p{number}"),
        config: Default::default(),
        state: PortState::LIVE,
        ethernet: None,
        others: Vec::new(),
    }
}

fn flows(switch: &Switch) -> usize {
    switch.snapshot().table(0).map_or(0, |table| table.len())
}

/// A controller's bundle of a million flows holds the state for seconds: a worker that checks its
/// links or expires flows does not wait for it.
#[test]
fn a_worker_waits_for_no_change() {
    let switch = Switch::new(SwitchOptions { tables: 1, ..SwitchOptions::default() });
    switch.add_port(port(1), 0);
    let flow = FlowMod { hard_timeout: 1, ..ip(1) };
    switch.flow_mod(&flow, Version::V13, 0).expect("added");
    switch.shared_state().hosts.learn(0, 1, 1, 0);
    {
        let _busy = lock(&switch.state);
        assert_eq!(switch.expire(2 * SECOND, 64), Some(2 * SECOND), "it is tried again soon");
        switch.set_port_state(PortNumber(1), PortState::LINK_DOWN, 2 * SECOND);
        (0..16).for_each(|_| switch.expire_hosts(400 * SECOND));
        switch.set_misses_to_controllers(true);
        switch.set_stands_alone(true);
        assert!(!switch.snapshot().stands_alone() && flows(&switch) == 1);
    }
    // The next caller makes all deferred changes.
    assert_eq!(switch.expire(2 * SECOND, 64), None);
    let tables = switch.snapshot();
    assert!(tables.stands_alone() && tables.misses_to_controllers());
    let port = tables.port(PortNumber(1)).expect("a port");
    assert!(port.port.state.contains(PortState::LINK_DOWN));
    assert_eq!(flows(&switch), 0);
}

#[test]
fn flows_end_a_few_at_a_time() {
    let switch = Switch::new(SwitchOptions { tables: 1, ..SwitchOptions::default() });
    for address in 0..100 {
        let flow = FlowMod { hard_timeout: 1, ..ip(address) };
        switch.flow_mod(&flow, Version::V13, 0).expect("added");
    }
    for left in [36, 0] {
        let next = switch.expire(2 * SECOND, 64);
        assert_eq!((flows(&switch), next.is_some()), (left, left > 0));
    }
}

/// A scan of all evicted flows for each further eviction would take minutes.
#[test]
fn many_evictions_in_a_bundle_are_many_steps_and_no_more() {
    const FLOWS: u32 = 60_000;
    let options = SwitchOptions { tables: 1, flows: FLOWS, ..SwitchOptions::default() };
    let switch = Switch::new(options);
    let evict = TableMod {
        table: 0,
        config: TableConfig::EVICTION,
        properties: TableProperties::default(),
    };
    switch.table_mod(&evict, Version::V14, 0).expect("set");
    let add = |from: u32| (from..from + FLOWS).map(|nth| Ok(Message::FlowMod(ip(nth))));
    switch.bundle(add(0), Version::V14, 0).expect("room");
    let began = std::time::Instant::now();
    switch.bundle(add(FLOWS), Version::V14, 0).expect("room is made");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    assert_eq!(flows(&switch), FLOWS as usize);
    let first = switch.snapshot().flows(0).map(|flow| flow.number).min();
    assert_eq!(first, Some(u64::from(FLOWS) + 1), "all that were there are gone");
    // An important flow stays, and flows evicted before it are not scanned again.
    let important = FlowMod { importance: 9, ..ip(FLOWS) };
    switch.flow_mod(&important, Version::V14, 0).expect("replaced");
    let all = (0..FLOWS).map(|nth| Ok(Message::FlowMod(FlowMod { importance: 1, ..ip(nth) })));
    assert_eq!(
        switch.bundle(all, Version::V14, 0),
        Err((FLOWS as usize - 1, Fault::TableFull)),
        "one too many"
    );
}

#[test]
fn all_groups_have_so_many_buckets() {
    let options = SwitchOptions { tables: 1, buckets: 10, ..SwitchOptions::default() };
    let switch = Switch::new(options);
    let change = |command: GroupCommand, group: u32, count: usize| {
        let buckets = (0..count).map(|id| Bucket { id: id as u32, ..Bucket::new(vec![output(1)]) });
        let buckets = buckets.collect();
        let kind = GroupType::All;
        let change = GroupMod { command, kind, group, at: u32::MAX, buckets, selection: None };
        switch.group_mod(&change, Version::V13, 0)
    };
    assert_eq!(change(GroupCommand::Add, 1, 6), Ok(()));
    assert_eq!(change(GroupCommand::Add, 2, 5), Err(Fault::OutOfBuckets));
    assert_eq!(change(GroupCommand::Add, 2, 4), Ok(()));
    assert_eq!(change(GroupCommand::Modify, 1, 7), Err(Fault::OutOfBuckets));
    assert_eq!(change(GroupCommand::Modify, 1, 2), Ok(()));
    assert_eq!(change(GroupCommand::Modify, 2, 8), Ok(()));
    assert_eq!(change(GroupCommand::Delete, 2, 0), Ok(()));
    assert_eq!(change(GroupCommand::Add, 3, 8), Ok(()));
    assert_eq!(switch.snapshot().buckets(), 10);
}

#[test]
fn an_answer_in_pieces_is_of_one_moment() {
    use crate::wire::multipart::{FlowRequest, Reply, Request};
    let switch = Switch::new(SwitchOptions { tables: 1, ..SwitchOptions::default() });
    for address in 0..200 {
        switch.flow_mod(&ip(address), Version::V13, 0).expect("added");
    }
    let request = Request::Flow(FlowRequest::all());
    let mut pieces = switch.answer_in_pieces(&request, Version::V13, 0).expect("an answer");
    let length = |reply: Option<Reply>| match reply {
        Some(Reply::Flow(flows)) => Some(flows.len()),
        Some(other) => panic!("{other:?}"),
        None => None,
    };
    assert_eq!(length(pieces.next()), Some(64));
    let delete =
        FlowMod { command: FlowModCommand::Delete, ..FlowMod::add(0, 0, Match::new(), Vec::new()) };
    switch.flow_mod(&delete, Version::V13, 0).expect("deleted");
    let rest: Vec<_> = std::iter::from_fn(|| length(pieces.next())).collect();
    assert_eq!(rest, [64, 64, 8]);
    let whole = switch.answer(&request, Version::V13, 0).expect("an answer");
    assert_eq!(whole, Reply::Flow(Vec::new()), "there is one piece where there is nothing");
}

#[test]
fn a_worker_frees_no_tables() {
    let switch = Switch::new(SwitchOptions { tables: 1, ..SwitchOptions::default() });
    let before = switch.snapshot();
    let was = Arc::downgrade(&before);
    switch.flow_mod(&ip(1), Version::V13, 0).expect("added");
    drop(before);
    switch.set_stands_alone(true);
    assert!(was.upgrade().is_some(), "a change that is not waited for frees nothing");
    switch.free_unused();
    assert!(was.upgrade().is_none());
}

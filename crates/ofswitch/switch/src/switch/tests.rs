//! Changes of flows against a list of flows that is searched as a whole, and effects of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::table::Flow;
use crate::wire::multipart::{FlowRequest, Reply, Request};
use crate::wire::{
    ALL_TABLES, ANY_GROUP, Action, Band, BandEffect, Bucket, CookieFilter, FlowFlags,
    FlowModCommand, FlowRemovedReason, GroupCommand, GroupType, Instruction, Match, MeterCommand,
    MeterFlags, TableConfig, TableProperties, TableReason, Vacancy,
};

const SECOND: u64 = 1_000_000_000;

fn options(tables: u8, flows: u32) -> SwitchOptions {
    SwitchOptions { tables, flows, ..SwitchOptions::default() }
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNumber(port), max_len: 0 }
}

fn send(port: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![output(port)])]
}

fn port(number: u32, state: u32) -> Port {
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, number as u8],
        name: format!("p{number}"),
        config: Default::default(),
        state: PortState(state),
        ethernet: None,
        others: Vec::new(),
    }
}

fn ip(priority: u16, address: u32, instructions: Vec<Instruction>) -> FlowMod {
    let matching = Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, address.into());
    FlowMod::add(0, priority, matching, instructions)
}

/// A flow as a list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelFlow {
    table: u8,
    priority: u16,
    matching: Match,
    instructions: Vec<Instruction>,
    cookie: u64,
    added: u64,
    packets: u64,
}

/// A switch as a list of flows.
#[derive(Debug, Default)]
struct Model {
    flows: Vec<ModelFlow>,
    limit: usize,
}

fn covers(wide: &Match, narrow: &Match) -> bool {
    let (wide, narrow) = (crate::key::of_match(wide), crate::key::of_match(narrow));
    narrow.1.covers(&wide.1) && wide.0.agrees(&narrow.0, &wide.1)
}

fn overlap(one: &Match, other: &Match) -> bool {
    let (one, other) = (crate::key::of_match(one), crate::key::of_match(other));
    let mut words =
        one.0.words().iter().zip(other.0.words()).zip(one.1.words()).zip(other.1.words());
    words.all(|(((one, other), of_one), of_other)| (one ^ other) & of_one & of_other == 0)
}

impl Model {
    fn chosen(&self, change: &FlowMod, outputs: bool) -> Vec<usize> {
        let strict =
            matches!(change.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
        let is = |flow: &ModelFlow| {
            let same = if strict {
                flow.matching == change.matching && flow.priority == change.priority
            } else {
                covers(&change.matching, &flow.matching)
            };
            let port =
                change.out_port == PortNumber::ANY || flow.instructions == send(change.out_port.0);
            (change.table == ALL_TABLES || change.table == flow.table)
                && same
                && (flow.cookie ^ change.filter.value) & change.filter.mask == 0
                && (!outputs || port)
        };
        (0..self.flows.len()).filter(|&at| is(&self.flows[at])).collect()
    }

    fn change(&mut self, change: &FlowMod, version: Version, now: u64) -> Result<(), Fault> {
        if change.table != ALL_TABLES && change.table > 1 {
            let old = version == Version::V10;
            return Err(if old { Fault::BadTableId } else { Fault::FlowModBadTableId });
        }
        match change.command {
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                let gone = self.chosen(change, true);
                let mut at = 0..;
                self.flows.retain(|_| at.next().is_none_or(|at| !gone.contains(&at)));
                Ok(())
            }
            FlowModCommand::Add => self.add(change, version, now),
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                let found = self.chosen(change, false);
                if found.is_empty() && version == Version::V10 && change.filter.mask == 0 {
                    return self.add(change, version, now);
                }
                for at in found {
                    let flow = &mut self.flows[at];
                    flow.instructions = change.instructions.clone();
                    flow.cookie = change.cookie.unwrap_or(flow.cookie);
                    if change.flags.contains(FlowFlags::RESET_COUNTS) {
                        flow.packets = 0;
                    }
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, change: &FlowMod, version: Version, now: u64) -> Result<(), Fault> {
        let table = if change.table == ALL_TABLES { 0 } else { change.table };
        let same = |flow: &ModelFlow| {
            (flow.table, flow.priority) == (table, change.priority)
                && flow.matching == change.matching
        };
        let mut packets = 0;
        if let Some(at) = self.flows.iter().position(same) {
            let before = self.flows.swap_remove(at);
            if version != Version::V10 && !change.flags.contains(FlowFlags::RESET_COUNTS) {
                packets = before.packets;
            }
        } else {
            let other = |flow: &&ModelFlow| (flow.table, flow.priority) == (table, change.priority);
            let mut others = self.flows.iter().filter(other);
            let checks = change.flags.contains(FlowFlags::CHECK_OVERLAP);
            if checks && others.any(|flow| overlap(&flow.matching, &change.matching)) {
                return Err(Fault::Overlap);
            }
            if self.flows.iter().filter(|flow| flow.table == table).count() >= self.limit {
                return Err(Fault::TableFull);
            }
        }
        self.flows.push(ModelFlow {
            table,
            priority: change.priority,
            matching: change.matching.clone(),
            instructions: change.instructions.clone(),
            cookie: change.cookie.unwrap_or(0),
            added: now,
            packets,
        });
        Ok(())
    }
}

fn matching() -> impl Strategy<Value = Match> {
    let address = (0..4u128, proptest::sample::select(&[0u128, 0xffff_fffe, 0xffff_ffff][..]))
        .prop_map(|(low, mask)| {
            let of_ip = Match::new().with(Field::EthType, 0x0800);
            of_ip.with_masked(Field::Ipv4Dst, 0x0a00_0000 | low, mask)
        });
    prop_oneof![
        1 => Just(Match::new()),
        1 => (1..3u128).prop_map(|port| Match::new().with(Field::InPort, port)),
        4 => address,
    ]
}

fn change() -> impl Strategy<Value = FlowMod> {
    let kind = proptest::sample::select(FlowModCommand::ALL);
    let table = prop_oneof![4 => 0..2u8, 1 => Just(ALL_TABLES), 1 => Just(2u8)];
    let filter =
        proptest::option::weighted(0.2, (0..3u64, prop_oneof![Just(1u64), Just(u64::MAX)]));
    let what = (matching(), 0..3u16, 1..4u32);
    let port = proptest::option::weighted(0.2, 1..4u32);
    let flags = proptest::sample::select(&[0u16, 0, 2, 4][..]);
    (kind, table, filter, what, 0..3u64, port, flags).prop_map(
        |(command, table, filter, (matching, priority, to), cookie, port, flags)| {
            let (value, mask) = filter.unwrap_or_default();
            FlowMod {
                command,
                cookie: Some(cookie),
                filter: CookieFilter { value: value & mask, mask },
                out_port: port.map_or(PortNumber::ANY, PortNumber),
                flags: FlowFlags(flags),
                ..FlowMod::add(table, priority, matching, send(to))
            }
        },
    )
}

fn flows_of(tables: &Snapshot) -> Vec<Arc<Flow>> {
    (0..tables.tables()).flat_map(|table| tables.flows(table)).map(Arc::clone).collect()
}

fn known(tables: &Snapshot) -> Vec<ModelFlow> {
    let flows = flows_of(tables);
    let known = flows.iter().map(|flow| ModelFlow {
        table: flow.table,
        priority: flow.priority,
        matching: flow.matching.unpack(),
        instructions: flow.instructions.clone(),
        cookie: flow.cookie,
        added: flow.added,
        packets: flow.counters.packets(),
    });
    sorted(known.collect())
}

fn sorted(mut flows: Vec<ModelFlow>) -> Vec<ModelFlow> {
    flows.sort_by_key(|flow| (flow.table, flow.priority, format!("{:?}", flow.matching)));
    flows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn changes_act_as_on_a_list(
        changes in proptest::collection::vec((change(), any::<bool>(), any::<bool>()), 1..40),
        bundled in any::<bool>(),
    ) {
        let switch = Switch::new(options(2, 6));
        let mut model = Model { limit: 6, ..Model::default() };
        let mut kept = Vec::new();
        for (nth, (change, old, keeps)) in changes.into_iter().enumerate() {
            let now = nth as u64;
            let version = if old { Version::V10 } else { Version::V13 };
            let mut change = change;
            let add = change.command == FlowModCommand::Add;
            if add || !old {
                // As messages are: new flows are of no cookie, and the cookie stays in 1.3.
                change.filter = if add { CookieFilter::default() } else { change.filter };
                change.cookie = change.cookie.filter(|_| add);
            }
            let before = switch.version();
            let done = if bundled {
                let messages = [Message::FlowMod(change.clone())];
                switch.bundle(messages.map(Ok), version, now).map_err(|(_, fault)| fault)
            } else {
                switch.flow_mod(&change, version, now)
            };
            prop_assert_eq!(done, model.change(&change, version, now));
            prop_assert!(done.is_ok() || switch.version() == before);
            let tables = switch.snapshot();
            prop_assert_eq!(known(&tables), sorted(model.flows.clone()));
            // A packet for each, so that counters can be told from new ones.
            for flow in flows_of(&tables) {
                flow.counters.add(1, 1, now);
            }
            model.flows.iter_mut().for_each(|flow| flow.packets += 1);
            if keeps {
                let all: Vec<u64> = flows_of(&tables).iter().map(|flow| flow.number).collect();
                kept.push((tables, all));
            }
        }
        for (tables, all) in kept {
            let still: Vec<u64> = flows_of(&tables).iter().map(|flow| flow.number).collect();
            prop_assert_eq!(still, all, "what was published never changes");
        }
    }
}

#[test]
fn a_bundle_is_done_as_a_whole_or_not_at_all() {
    let switch = Switch::new(options(2, 100));
    let group = |command, number, buckets: Vec<Bucket>| GroupMod {
        command,
        kind: GroupType::All,
        group: number,
        at: crate::wire::group::ALL_BUCKETS,
        buckets,
        selection: None,
    };
    let to_group = vec![Instruction::ApplyActions(vec![Action::Group(7)])];
    let messages = vec![
        Message::GroupMod(group(GroupCommand::Add, 7, vec![Bucket::new(vec![output(1)])])),
        Message::FlowMod(ip(1, 1, to_group.clone())),
        Message::FlowMod(ip(1, 2, send(1))),
    ];
    let mut wrong = messages.clone();
    wrong.push(Message::FlowMod(FlowMod { table: 9, ..ip(1, 3, send(1)) }));
    assert_eq!(
        switch.bundle(wrong.into_iter().map(Ok), Version::V14, 0),
        Err((3, Fault::FlowModBadTableId))
    );
    assert_eq!((switch.version(), flows_of(&switch.snapshot()).len()), (0, 0));
    assert_eq!(switch.bundle(messages.into_iter().map(Ok), Version::V14, 0), Ok(()));
    assert_eq!((switch.version(), flows_of(&switch.snapshot()).len()), (1, 2));
    let tables = switch.snapshot();
    assert_eq!(tables.changes_since(0).expect("known").count(), 3);
    assert_eq!(tables.flows_of_group(7).count(), 1);

    // A group goes with the flows that send to it.
    assert_eq!(switch.flow_mod(&ip(1, 5, to_group), Version::V13, 0), Ok(()));
    let heard = switch.subscribe();
    let gone = group(GroupCommand::Delete, crate::wire::group::ALL_GROUPS, Vec::new());
    assert_eq!(switch.group_mod(&gone, Version::V13, 0), Ok(()));
    assert_eq!(flows_of(&switch.snapshot()).len(), 1);
    assert!(heard.events.try_recv().is_err(), "nobody wanted it told");
}

/// A bundle that fails changes nothing, not even the counts of flows.
#[test]
fn a_bundle_that_fails_leaves_counters_as_they_were() {
    let switch = Switch::new(options(2, 100));
    assert_eq!(switch.flow_mod(&ip(1, 1, send(1)), Version::V13, 0), Ok(()));
    let flow = || flows_of(&switch.snapshot()).remove(0);
    let before = flow();
    before.counters.add(3, 300, SECOND);
    let reset = FlowMod {
        command: FlowModCommand::Modify,
        cookie: None,
        flags: FlowFlags::RESET_COUNTS,
        ..ip(1, 1, send(1))
    };
    let bundle = |last: FlowMod| {
        let messages = [reset.clone(), ip(1, 1, send(2)), last].map(Message::FlowMod);
        switch.bundle(messages.map(Ok), Version::V14, 9 * SECOND)
    };
    let failed = bundle(FlowMod { table: 9, ..ip(1, 3, send(1)) });
    assert_eq!(failed, Err((2, Fault::FlowModBadTableId)));
    let had = |flow: &Flow| (flow.counters.packets(), flow.counters.bytes());
    assert_eq!((had(&flow()), flow().counters.used()), ((3, 300), SECOND));
    assert_eq!(bundle(ip(1, 3, send(1))), Ok(()));
    assert_eq!(flow().instructions, send(2));
    assert_eq!(had(&flow()), (0, 0));
    // Counts of a worker from before are not the flow's any more.
    before.counters.add(1, 100, 9 * SECOND);
    assert_eq!(had(&flow()), (0, 0));
    let changes = switch.snapshot();
    assert_eq!(switch.flow_mod(&reset, Version::V13, 0), Ok(()));
    let after = switch.snapshot();
    let changes = after.changes_since(changes.version()).expect("known");
    assert_eq!(changes.count(), 1, "who counts for it hears of it");
}

#[test]
fn groups_have_no_cycle_and_live_with_their_watched_ports() {
    let switch = Switch::new(options(1, 100));
    let change = |command, number, buckets| {
        let at = crate::wire::group::ALL_BUCKETS;
        let kind = GroupType::FastFailover;
        let change = GroupMod { command, kind, group: number, at, buckets, selection: None };
        switch.group_mod(&change, Version::V13, 0)
    };
    let to = |group: u32| Bucket::new(vec![Action::Group(group)]);
    let watching =
        |port: u32| Bucket { watch_port: PortNumber(port), ..Bucket::new(vec![output(port)]) };
    assert_eq!(change(GroupCommand::Add, 1, vec![to(1)]), Err(Fault::GroupLoop));
    assert_eq!(change(GroupCommand::Add, 8, vec![to(9)]), Ok(()), "it may come later");
    assert_eq!(change(GroupCommand::Add, 9, vec![to(8)]), Err(Fault::GroupLoop));
    assert_eq!(change(GroupCommand::Add, 1, vec![watching(1)]), Ok(()));
    assert_eq!(change(GroupCommand::Add, 1, Vec::new()), Err(Fault::GroupExists));
    assert_eq!(change(GroupCommand::Add, 2, vec![to(1)]), Ok(()));
    assert_eq!(change(GroupCommand::Add, 3, vec![to(2)]), Ok(()));
    assert_eq!(change(GroupCommand::Modify, 1, vec![to(3)]), Err(Fault::GroupLoop));
    assert_eq!(change(GroupCommand::Modify, 4, Vec::new()), Err(Fault::UnknownGroup));
    assert_eq!(change(GroupCommand::Delete, 1, Vec::new()), Err(Fault::ChainedGroup));
    let by_group = Bucket { watch_group: Some(1), ..Bucket::new(vec![output(9)]) };
    let alive = || switch.snapshot().is_alive(&by_group, &mut BTreeMap::new());
    assert!(!alive(), "there is no port");
    let mut asked = BTreeMap::from([(1, Some(true))]);
    assert!(switch.snapshot().is_alive(&by_group, &mut asked), "what is known is not asked again");
    asked.clear();
    assert!(!switch.snapshot().is_alive(&by_group, &mut asked));
    assert_eq!(asked, BTreeMap::from([(1, Some(false))]));
    switch.add_port(port(1, 0), 0);
    assert!(alive());
    let heard = switch.subscribe();
    switch.set_port_state(PortNumber(1), PortState::LINK_DOWN, 0);
    assert!(!alive());
    assert!(matches!(heard.events.try_recv(), Ok(Event::PortStatus(_))));
    let down = PortMod {
        number: PortNumber(1),
        address: [2, 0, 0, 0, 0, 1],
        config: crate::wire::PortConfig::DOWN,
        mask: crate::wire::PortConfig::DOWN,
        advertise: None,
    };
    assert_eq!(switch.port_mod(&down, 0), Ok(()));
    switch.set_port_state(PortNumber(1), PortState(0), 0);
    assert!(!alive(), "it is told to be down");
    let other = PortMod { address: [9; 6], ..down };
    assert_eq!(switch.port_mod(&other, 0), Err(Fault::BadHardwareAddress));
}

#[test]
fn buckets_come_and_go_one_by_one() {
    use crate::wire::group::{ALL_BUCKETS, FIRST, LAST};
    let switch = Switch::new(options(1, 100));
    let bucket = |id: u32| Bucket { id, ..Bucket::new(vec![output(id)]) };
    let change = |command, at: u32, ids: &[u32]| {
        let buckets = ids.iter().map(|id| bucket(*id)).collect();
        let kind = GroupType::Select;
        let change = GroupMod { command, kind, group: 5, at, buckets, selection: None };
        switch.group_mod(&change, Version::V15, 0).map(|()| {
            let group = switch.snapshot().group(5).map(Arc::clone).expect("it is there");
            group.buckets.iter().map(|bucket| bucket.bucket.id).collect::<Vec<_>>()
        })
    };
    let insert = GroupCommand::InsertBucket;
    let remove = GroupCommand::RemoveBucket;
    assert_eq!(change(insert, LAST, &[1]), Err(Fault::UnknownGroup));
    assert_eq!(change(GroupCommand::Add, ALL_BUCKETS, &[1, 2]), Ok(vec![1, 2]));
    assert_eq!(change(insert, FIRST, &[3]), Ok(vec![3, 1, 2]));
    assert_eq!(change(insert, 1, &[4, 5]), Ok(vec![3, 1, 4, 5, 2]));
    assert_eq!(change(insert, LAST, &[3]), Err(Fault::BucketExists));
    assert_eq!(change(insert, 99, &[6]), Err(Fault::UnknownBucket));
    assert_eq!(change(remove, LAST, &[]), Ok(vec![3, 1, 4, 5]));
    assert_eq!(change(remove, FIRST, &[]), Ok(vec![1, 4, 5]));
    assert_eq!(change(remove, 4, &[]), Ok(vec![1, 5]));
    assert_eq!(change(remove, 4, &[]), Err(Fault::UnknownBucket));
    assert_eq!(change(remove, ALL_BUCKETS, &[]), Ok(vec![]));
    assert_eq!(change(remove, FIRST, &[]), Ok(vec![]));
    assert_eq!(change(remove, LAST, &[]), Ok(vec![]));
    assert_eq!(change(remove, 4, &[]), Err(Fault::UnknownBucket));
}

#[test]
fn tables_groups_and_meters_of_a_flow_must_exist() {
    let switch = Switch::new(options(3, 100));
    let with = |instruction| FlowMod { table: 1, ..ip(1, 1, vec![instruction]) };
    let add = |instruction, version| switch.flow_mod(&with(instruction), version, 0);
    let goto = |table| add(Instruction::GotoTable(table), Version::V13);
    assert_eq!(goto(1), Err(Fault::InstructionBadTableId));
    assert_eq!(goto(3), Err(Fault::InstructionBadTableId));
    assert_eq!(goto(2), Ok(()));
    let group = Instruction::WriteActions(vec![Action::Group(1)]);
    assert_eq!(add(group, Version::V13), Err(Fault::BadOutGroup));
    assert_eq!(add(Instruction::Meter(1), Version::V13), Err(Fault::InvalidMeter));
    let meter = |command, rate| {
        let bands = vec![Band { rate, burst: 0, effect: BandEffect::Drop }];
        let change = MeterMod { command, flags: MeterFlags::PACKETS, meter: 1, bands };
        switch.meter_mod(&change, 0)
    };
    assert_eq!(meter(MeterCommand::Modify, 1), Err(Fault::UnknownMeter));
    assert_eq!(meter(MeterCommand::Add, 0), Err(Fault::BadRate));
    assert_eq!(meter(MeterCommand::Add, 10), Ok(()));
    assert_eq!(meter(MeterCommand::Add, 10), Err(Fault::MeterExists));
    assert_eq!(add(Instruction::Meter(1), Version::V13), Ok(()));
    let Ok(Reply::Meter(stats)) = switch.answer(&Request::Meter(1), Version::V13, 0) else {
        panic!("no statistics")
    };
    assert_eq!((stats.len(), stats[0].flows, stats[0].bands.len()), (1, 1, 1));
    assert_eq!(meter(MeterCommand::Delete, 0), Ok(()));
    assert!(flows_of(&switch.snapshot()).is_empty(), "the flow went with it");
    // Actions that need a header are refused since 1.1 where packets may not have it.
    let ttl = |version| {
        let flow = FlowMod::add(
            0,
            1,
            Match::new(),
            vec![Instruction::ApplyActions(vec![Action::DecIpTtl])],
        );
        switch.flow_mod(&flow, version, 0)
    };
    assert_eq!(ttl(Version::V13), Err(Fault::MatchInconsistent));
    assert_eq!(ttl(Version::V10), Ok(()));
}

#[test]
fn flows_go_when_their_time_has_come() {
    let switch = Switch::new(options(1, 1000));
    let heard = switch.subscribe();
    let timed = |address, idle_timeout, hard_timeout| FlowMod {
        idle_timeout,
        hard_timeout,
        flags: FlowFlags::SEND_FLOW_REMOVED,
        cookie: Some(u64::from(address)),
        ..ip(1, address, send(1))
    };
    assert_eq!(switch.expire(0, usize::MAX), None);
    for flow in [timed(1, 2, 0), timed(2, 0, 3), timed(3, 2, 10), timed(4, 0, 0)] {
        switch.flow_mod(&flow, Version::V13, 0).expect("added");
    }
    let counters = |address: u64| {
        let flows = flows_of(&switch.snapshot());
        let flow = flows.iter().find(|flow| flow.cookie == address);
        Arc::clone(&flow.expect("it is there").counters)
    };
    assert_eq!(switch.expire(SECOND, usize::MAX), Some(2 * SECOND));
    counters(3).add(5, 500, 2 * SECOND);
    assert_eq!(switch.expire(2 * SECOND, usize::MAX), Some(3 * SECOND));
    assert_eq!(switch.expire(3 * SECOND, usize::MAX), Some(4 * SECOND));
    // Used again each second, it goes by the hard time-out all the same.
    for second in 3..10 {
        counters(3).touch(second * SECOND);
        switch.expire(second * SECOND, usize::MAX);
    }
    switch.expire(10 * SECOND, usize::MAX);
    assert_eq!(switch.expire(1000 * SECOND, usize::MAX), None);
    let told: Vec<_> = heard.events.try_iter().collect();
    let told: Vec<_> = told
        .iter()
        .map(|event| match event {
            Event::FlowRemoved(gone) => (gone.cookie, gone.reason, gone.packets),
            _ => panic!("something else"),
        })
        .collect();
    use FlowRemovedReason::{HardTimeout, IdleTimeout};
    assert_eq!(told, [(1, IdleTimeout, 0), (2, HardTimeout, 0), (3, HardTimeout, 5)]);
    assert_eq!(flows_of(&switch.snapshot()).len(), 1);

    // Many at once.
    for address in 0..500 {
        switch.flow_mod(&timed(100 + address, 0, 1), Version::V13, 2000 * SECOND).expect("added");
    }
    let delete = FlowMod { command: FlowModCommand::DeleteStrict, ..timed(100, 0, 0) };
    switch.flow_mod(&delete, Version::V13, 2000 * SECOND).expect("deleted");
    switch.expire(2001 * SECOND, usize::MAX);
    assert_eq!(flows_of(&switch.snapshot()).len(), 1);
    assert_eq!(heard.events.try_iter().count(), 500);
    switch.free_unused();
    assert!(switch.state.lock().expect("state").retired.len() <= 1);
}

#[test]
fn a_full_table_refuses_evicts_and_tells() {
    let switch = Switch::new(options(2, 10));
    let heard = switch.subscribe();
    let add = |address: u32, importance: u16| {
        let flow = FlowMod {
            importance,
            flags: FlowFlags::SEND_FLOW_REMOVED,
            cookie: Some(address.into()),
            ..ip(1, address, send(1))
        };
        switch.flow_mod(&flow, Version::V14, 0)
    };
    let set = |config: TableConfig, properties| {
        switch.table_mod(&TableMod { table: 0, config, properties }, Version::V14, 0)
    };
    (0..5).for_each(|address| assert_eq!(add(address, 5), Ok(())));
    let vacancy = Some(Vacancy { down: 20, up: 60, now: 0 });
    let properties = TableProperties { eviction: None, vacancy };
    let both = TableConfig::EVICTION.with(TableConfig::VACANCY_EVENTS);
    assert_eq!(set(TableConfig::VACANCY_EVENTS, properties), Ok(()));
    (5..10).for_each(|address| assert_eq!(add(address, 6), Ok(())));
    assert_eq!(add(10, 6), Err(Fault::TableFull));
    assert_eq!(add(9, 7), Ok(()), "it takes the place of the same");
    assert_eq!(set(both, properties), Ok(()));
    assert_eq!(add(11, 4), Err(Fault::TableFull), "of less importance than all");
    assert_eq!(add(12, 6), Ok(()));
    assert_eq!(add(13, 6), Ok(()));
    let delete = FlowMod {
        command: FlowModCommand::Delete,
        flags: FlowFlags::default(),
        ..FlowMod::add(0, 0, Match::new(), Vec::new())
    };
    assert_eq!(switch.flow_mod(&delete, Version::V14, 0), Ok(()));
    let mut told = Vec::new();
    for event in heard.events.try_iter() {
        match event {
            Event::TableStatus(status) => told.push((status.reason.number(), 0)),
            Event::FlowRemoved(gone) if gone.reason == FlowRemovedReason::Eviction => {
                told.push((100, gone.cookie));
            }
            _ => {}
        }
    }
    let (down, up) = (TableReason::VacancyDown.number(), TableReason::VacancyUp.number());
    assert_eq!(told, [(down, 0), (100, 0), (100, 1), (up, 0)]);
}

#[test]
fn eviction_set_in_a_bundle_holds_in_it() {
    let switch = Switch::new(options(1, 3));
    let add = |address: u32, importance: u16| {
        let cookie = Some(address.into());
        Message::FlowMod(FlowMod { importance, cookie, ..ip(1, address, send(1)) })
    };
    let set = |config: TableConfig| {
        let properties = TableProperties::default();
        Message::TableMod(TableMod { table: 0, config, properties })
    };
    let cookies = || {
        let flows = flows_of(&switch.snapshot());
        flows.iter().map(|flow| flow.cookie).collect::<BTreeSet<u64>>()
    };
    let bundle =
        |messages: &[Message]| switch.bundle(messages.iter().cloned().map(Ok), Version::V14, 0);
    let full = [add(0, 5), add(1, 4), set(TableConfig::EVICTION), add(2, 3), add(3, 5), add(4, 5)];
    assert_eq!(bundle(&full), Ok(()));
    assert_eq!(cookies(), BTreeSet::from([0, 3, 4]), "what the bundle has added goes, too");
    assert_eq!(bundle(&[add(5, 5)]), Ok(()));
    assert_eq!(cookies(), BTreeSet::from([3, 4, 5]));
    let off = [set(TableConfig::default()), add(6, 9)];
    assert_eq!(bundle(&off), Err((1, Fault::TableFull)));
    assert_eq!(bundle(&[add(6, 9)]), Ok(()), "it is on, as that bundle was not done");
    assert_eq!(cookies(), BTreeSet::from([4, 5, 6]));
}

#[test]
fn a_worker_takes_the_newest_and_frees_nothing() {
    let switch = Switch::new(options(1, 1000));
    let mut seen = switch.snapshot();
    let first = Arc::downgrade(&seen);
    assert!(!switch.refresh(&mut seen));
    switch.flow_mod(&ip(1, 1, send(1)), Version::V13, 0).expect("added");
    assert!(switch.refresh(&mut seen));
    assert!(first.strong_count() > 0, "the switch has it yet");
    assert_eq!(seen.version(), 1);
    // The next ones have no other reference: they are changed in place.
    for address in 2..10 {
        switch.flow_mod(&ip(1, address, send(1)), Version::V13, 0).expect("added");
    }
    assert!(first.strong_count() > 0, "a change frees nothing");
    switch.free_unused();
    assert_eq!(first.strong_count(), 0);
    assert_eq!(flows_of(&seen).len(), 1);
    assert_eq!(seen.changes_since(0).expect("known").count(), 1);
    switch.refresh(&mut seen);
    assert_eq!(seen.changes_since(1).expect("known").count(), 8);
    for address in 0..100_000 {
        switch.flow_mod(&ip(1, address % 7, send(address)), Version::V13, 0).expect("added");
    }
    switch.refresh(&mut seen);
    assert!(seen.changes_since(5).is_none(), "too long ago");
}

#[test]
fn a_flow_goes_when_workers_have_said_that_it_was_not_used() {
    let switch = Switch::new(options(1, 10));
    let worker = switch.worker();
    let flow = FlowMod { idle_timeout: 2, ..ip(1, 1, send(1)) };
    switch.flow_mod(&flow, Version::V13, 0).expect("added");
    let counters = Arc::clone(&flows_of(&switch.snapshot())[0].counters);
    worker.set_working(true);
    // The worker gets a request, and is not waited for.
    assert_eq!(switch.expire(2 * SECOND, usize::MAX), Some(2 * SECOND));
    assert_eq!(switch.expire(4 * SECOND, usize::MAX), Some(4 * SECOND));
    assert!(worker.is_due());
    counters.add(1, 60, SECOND);
    worker.done();
    // Counts after the request are unknown, so there is another request.
    assert_eq!(switch.expire(5 * SECOND, usize::MAX), Some(3 * SECOND));
    assert_eq!(switch.expire(5 * SECOND, usize::MAX), Some(5 * SECOND));
    assert!(worker.is_due());
    worker.done();
    assert_eq!(switch.expire(6 * SECOND, usize::MAX), None);
    assert!(flows_of(&switch.snapshot()).is_empty());
}

#[test]
fn packets_for_controllers_are_bounded_by_port() {
    let switch = Switch::new(SwitchOptions { punts: 3, ..options(1, 10) });
    let punt = Arc::new(Punt {
        reason: crate::wire::PacketInReason::NoMatch,
        table: 0,
        cookie: u64::MAX,
        max_len: 4,
        id: 0,
        userdata: Vec::new(),
        meter: 0,
        state: Box::default(),
        written: Box::default(),
        resume: None,
    });
    let mut key = Key::default();
    key.set(Field::InPort, 1);
    assert!(!switch.punt(&punt, &key, &[0; 60]), "nobody hears");
    let heard = switch.subscribe();
    let mut other = key;
    other.set(Field::InPort, 2);
    let sent: Vec<bool> = (0..5).map(|_| switch.punt(&punt, &key, &[7; 60])).collect();
    assert_eq!(sent, [true, true, true, false, false]);
    assert!(switch.punt(&punt, &other, &[7; 60]));
    let Ok(Event::PacketIn(first)) = heard.events.try_recv() else { panic!("no packet") };
    assert_eq!((first.packet.len(), first.length), (4, 60));
    assert!(!switch.punt(&punt, &key, &[7; 60]));
    drop(first);
    assert!(switch.punt(&punt, &key, &[7; 60]));
}

#[test]
fn learnt_flows_are_added_and_no_worker_waits() {
    use crate::pipeline::{Environment, Learning};
    let switch = Switch::new(options(1, 10));
    let learnt = |address| FlowMod { cookie: Some(9), ..ip(1, address, send(1)) };
    assert_eq!(switch.learn(learnt(1), 2, 5), Learning::Made);
    {
        let _busy = switch.state.lock();
        assert_eq!(switch.learn(learnt(2), 2, 6), Learning::Pending, "soon");
        switch.host_changed(3, 0x0200_0000_0001);
    }
    assert_eq!(flows_of(&switch.snapshot()).len(), 1);
    switch.expire(7, usize::MAX);
    let flows = flows_of(&switch.snapshot());
    assert_eq!(flows.len(), 2);
    assert!(flows.iter().any(|flow| flow.added == 6));
    assert_eq!(switch.learn(learnt(3), 2, 8), Learning::Full);
    assert_eq!(switch.learn(learnt(1), 2, 8), Learning::Made, "there already");
    let tables = switch.snapshot();
    let moved = tables.changes_since(0).expect("known");
    assert_eq!(moved.filter(|change| matches!(change, Change::Host { vlan: 3, .. })).count(), 1);
    switch.shorten(&flows_of(&switch.snapshot())[0], 4, 0, 9);
    let flows = flows_of(&switch.snapshot());
    assert_eq!(flows.iter().filter(|flow| flow.idle_timeout == 4).count(), 1);
}

#[test]
fn all_is_answered() {
    let switch = Switch::new(options(3, 100));
    for table in 0..3 {
        let flow = FlowMod { table, ..ip(u16::from(table), 1, send(1)) };
        switch.flow_mod(&flow, Version::V13, 0).expect("added");
    }
    let delete_by_port = FlowRequest { out_port: PortNumber(2), ..FlowRequest::all() };
    let count =
        |request: FlowRequest| match switch.answer(&Request::Flow(request), Version::V13, SECOND) {
            Ok(Reply::Flow(flows)) => flows.len(),
            other => panic!("{other:?}"),
        };
    assert_eq!(count(FlowRequest::all()), 3);
    assert_eq!(count(delete_by_port), 0);
    assert_eq!(count(FlowRequest { table: 1, out_group: ANY_GROUP, ..FlowRequest::all() }), 1);
    for version in Version::ALL {
        for request in [
            Request::Desc,
            Request::Aggregate(FlowRequest::all()),
            Request::Table,
            Request::Port(PortNumber::ANY),
            Request::Queue { port: PortNumber::ANY, queue: crate::wire::queue::ALL_QUEUES },
            Request::Group(crate::wire::group::ALL_GROUPS),
            Request::GroupDesc(crate::wire::group::ALL_GROUPS),
            Request::GroupFeatures,
            Request::PortDesc(PortNumber::ANY),
        ] {
            let reply = switch.answer(&request, version, 0).expect("an answer");
            let message =
                Message::MultipartReply(crate::wire::MultipartReply { more: false, body: reply });
            assert!(message.encode(version, 1).is_ok(), "{message:?}");
        }
    }
    let queue = Request::Queue { port: PortNumber::ANY, queue: 7 };
    assert_eq!(switch.answer(&queue, Version::V13, 0), Err(Fault::QueueUnknown));
    // Features can be encoded in every version, and be requested as they are, but for names.
    let request = Request::TableFeatures(Vec::new());
    let Ok(Reply::TableFeatures(mut features)) = switch.answer(&request, Version::V13, 0) else {
        panic!("no features")
    };
    let kinds = features[0].properties.len();
    assert_eq!((features.len(), kinds), (3, 14));
    features[1].name = "acl".to_owned();
    let named = switch.answer(&Request::TableFeatures(features.clone()), Version::V13, 0);
    assert_eq!(named, Ok(Reply::TableFeatures(features.clone())));
    features[0].max_entries = 5;
    let refused = switch.answer(&Request::TableFeatures(features), Version::V13, 0);
    assert_eq!(refused, Err(Fault::FeaturesNotPermitted));
}

#[test]
fn hosts_behind_a_dead_link_or_silent_for_long_are_forgotten() {
    use crate::pipeline::decide;
    let switch = Switch::new(options(1, 10));
    (1..=2).for_each(|number| drop(switch.add_port(port(number, 0), 0)));
    let normal = vec![Instruction::ApplyActions(vec![output(PortNumber::NORMAL.0)])];
    let flow = FlowMod::add(0, 1, Match::new(), normal);
    switch.flow_mod(&flow, Version::V13, 0).expect("a flow");
    let comes_by = |number: u64, now| {
        let mut key = Key::default();
        key.set(Field::InPort, number.into());
        key.set(Field::EthSrc, 0x0200_0000_0000 + u128::from(number));
        let _ = decide(&switch.snapshot(), switch.shared_state(), &*switch, &key, None, now);
    };
    let known =
        || switch.shared_state().hosts.all().into_iter().map(|host| host.2).collect::<Vec<_>>();
    let last = || switch.snapshot().changes_since(0).and_then(|changes| changes.last().cloned());
    (1..=2).for_each(|number| comes_by(number, 0));
    assert_eq!(known(), [1, 2]);
    switch.set_port_state(PortNumber(1), PortState::LINK_DOWN, 0);
    assert_eq!(known(), [2]);
    assert!(matches!(last(), Some(Change::Host { vlan: 0, address: 0x0200_0000_0001 })));
    comes_by(1, 0);
    assert_eq!(known(), [2], "it was received before");
    switch.set_port_state(PortNumber(1), PortState::LIVE, 0);
    comes_by(1, 200 * SECOND);
    assert_eq!(known(), [1, 2]);
    (0..16).for_each(|_| switch.expire_hosts(300 * SECOND));
    assert_eq!(known(), [1]);
    assert!(matches!(last(), Some(Change::Host { vlan: 0, address: 0x0200_0000_0002 })));
    switch.remove_port(PortNumber(1), 300 * SECOND);
    assert!(known().is_empty());
}

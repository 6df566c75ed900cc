use proptest::prelude::*;

use super::*;
use crate::switch::SwitchOptions;
use crate::wire::group::ALL_BUCKETS;
use crate::wire::{
    Action, Band, BandEffect, Bucket, ConfigFlags, Field, GroupCommand, GroupMod, GroupType,
    Instruction, Match, MeterCommand, MeterFlags, MeterMod, Port, PortMod, PortNumber, PortState,
    TableConfig, TableMod, TableProperties, Version,
};

/// Something that changes a switch.
#[derive(Debug, Clone)]
enum Step {
    /// One message, in a version.
    One(Message, Version),
    Bundle(Vec<Message>),
    Expire,
    Fragments(bool),
    AddPort(u32),
    RemovePort(u32),
}

fn actions() -> impl Strategy<Value = Vec<Instruction>> {
    let action = prop_oneof![
        (1..4u32).prop_map(|port| Action::Output { port: PortNumber(port), max_len: 0 }),
        (1..4u32).prop_map(Action::Group),
        // An action that does not fit every match.
        Just(Action::DecIpTtl),
    ];
    let actions = proptest::collection::vec(action, 0..3).prop_map(Instruction::ApplyActions);
    let meter = proptest::option::weighted(0.2, (1..3u32).prop_map(Instruction::Meter));
    (meter, actions).prop_map(|(meter, actions)| meter.into_iter().chain([actions]).collect())
}

fn flow_mod() -> impl Strategy<Value = Message> {
    let ip = |address| Match::new().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, address);
    let ethernet = |address| Match::new().with_masked(Field::EthDst, address, 0xf);
    let matching = prop_oneof![(0..4u128).prop_map(ip), (0..4u128).prop_map(ethernet)];
    let command = prop_oneof![
        6 => Just(FlowModCommand::Add),
        1 => proptest::sample::select(FlowModCommand::ALL),
    ];
    let what = (0..3u8, 0..3u16, matching, actions());
    (command, what, 0..3u16, 0..3u16, 0..4u16).prop_map(
        |(command, what, idle, hard, importance)| {
            let (table, priority, matching, instructions) = what;
            Message::FlowMod(FlowMod {
                command,
                cookie: (command == FlowModCommand::Add).then_some(importance.into()),
                idle_timeout: idle,
                hard_timeout: hard,
                importance,
                ..FlowMod::add(table, priority, matching, instructions)
            })
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    let group = (0..3u16, 1..4u32, proptest::collection::vec(1..5u32, 0..3));
    let group = group.prop_map(|(command, number, ports)| {
        let bucket = |(id, port): (u32, u32)| {
            let action = match port {
                4 => Action::Group(number % 3 + 1),
                port => Action::Output { port: PortNumber(port), max_len: 0 },
            };
            Bucket { id, ..Bucket::new(vec![action]) }
        };
        let commands = [GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete];
        Message::GroupMod(GroupMod {
            command: commands[usize::from(command)],
            kind: GroupType::All,
            group: number,
            at: ALL_BUCKETS,
            buckets: (0..).zip(ports).map(bucket).collect(),
            selection: None,
        })
    });
    let meter = (0..3u16, 1..3u32, 1..9u32).prop_map(|(command, meter, rate)| {
        let commands = [MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete];
        let bands = vec![Band { rate, burst: 0, effect: BandEffect::Drop }];
        let command = commands[usize::from(command)];
        Message::MeterMod(MeterMod { command, flags: MeterFlags::PACKETS, meter, bands })
    });
    let config = proptest::sample::select(&[0, 2, 4][..]);
    let table = (0..3u8, config).prop_map(|(table, config)| {
        let properties = TableProperties::default();
        Message::TableMod(TableMod { table, config: TableConfig(config), properties })
    });
    let port = (1..4u32, any::<bool>()).prop_map(|(number, forwards)| {
        let mask = PortConfig::NO_FORWARD;
        let config = if forwards { PortConfig::default() } else { mask };
        let address = [2, 0, 0, 0, 0, number as u8];
        let number = PortNumber(number);
        Message::PortMod(PortMod { number, address, config, mask, advertise: None })
    });
    prop_oneof![6 => flow_mod(), 2 => group, 1 => meter, 1 => table, 1 => port]
}

fn step() -> impl Strategy<Value = Step> {
    let version = proptest::sample::select(&Version::ALL[..]);
    prop_oneof![
        12 => (message(), version).prop_map(|(message, version)| Step::One(message, version)),
        2 => proptest::collection::vec(message(), 1..6).prop_map(Step::Bundle),
        2 => Just(Step::Expire),
        1 => any::<bool>().prop_map(Step::Fragments),
        1 => (1..4u32).prop_map(Step::AddPort),
        1 => (1..4u32).prop_map(Step::RemovePort),
    ]
}

fn port(number: u32) -> Port {
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, number as u8],
        name: format!("eth{number}"),
        config: PortConfig::default(),
        state: PortState::default(),
        ethernet: None,
        others: Vec::new(),
    }
}

fn switch() -> Arc<Switch> {
    let switch = Switch::new(SwitchOptions { tables: 3, flows: 4, ..SwitchOptions::default() });
    (1..4).for_each(|number| drop(switch.add_port(port(number), 0)));
    switch
}

fn take(switch: &Switch, step: Step, now: u64) {
    // A refused change changes nothing.
    let _refused = match step {
        Step::One(Message::FlowMod(flow), version) => switch.flow_mod(&flow, version, now).is_ok(),
        Step::One(Message::GroupMod(group), version) => {
            switch.group_mod(&group, version, now).is_ok()
        }
        Step::One(Message::MeterMod(meter), _) => switch.meter_mod(&meter, now).is_ok(),
        Step::One(Message::TableMod(table), version) => {
            switch.table_mod(&table, version, now).is_ok()
        }
        Step::One(Message::PortMod(port), _) => switch.port_mod(&port, now).is_ok(),
        Step::One(..) => false,
        Step::Bundle(messages) => {
            switch.bundle(messages.into_iter().map(Ok), Version::V15, now).is_ok()
        }
        Step::Expire => switch.expire(now, 2).is_some(),
        Step::Fragments(drop) => switch.set_fragments(ConfigFlags(drop.into())).is_ok(),
        Step::AddPort(number) => {
            switch.add_port(port(number), now);
            true
        }
        Step::RemovePort(number) => switch.remove_port(PortNumber(number), now),
    };
}

fn changes(records: &Records, size: usize) -> Vec<Vec<u8>> {
    let (mut all, mut change) = (Vec::new(), Vec::new());
    let written = records.write(size, |piece, is_last| {
        change.extend_from_slice(piece);
        if is_last {
            all.push(std::mem::take(&mut change));
        }
        Ok::<_, SaveError>(())
    });
    written.expect("all can be said");
    assert!(change.is_empty());
    all
}

fn text(saved: &Saved) -> String {
    let mut text = String::new();
    let written = saved.write(|line| {
        text += line;
        Ok::<_, SaveError>(())
    });
    written.expect("all can be said");
    text
}

fn wake() -> Arc<WakeupFn> {
    Arc::new(|| {})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A state and the changes since are the state after them, whenever the journal is taken.
    #[test]
    fn a_state_with_its_journal_is_the_later_state(
        before in proptest::collection::vec(step(), 0..20),
        after in proptest::collection::vec((step(), any::<bool>()), 0..40),
        size in 1..200usize,
    ) {
        let switch = switch();
        let second = 1_000_000_000;
        let mut now = 0;
        for step in before {
            now += second;
            take(&switch, step, now);
        }
        let (journal, saved) = switch.begin_journal(wake());
        let mut recorded = Vec::new();
        for (step, is_taken) in after {
            now += second;
            take(&switch, step, now);
            if is_taken {
                recorded.extend(changes(&journal.take(), size));
            }
        }
        let (rest, later) = switch.cut_journal(&journal);
        recorded.extend(changes(&rest, size));
        let other = self::switch();
        let restored = other.restore(&text(&saved), &recorded, 0);
        prop_assert_eq!(restored, Ok(()), "{}", text(&saved));
        let later = text(&later);
        prop_assert_eq!(other.save(), Ok(later.clone()));
        // A restored state can be saved and restored.
        let third = self::switch();
        prop_assert_eq!(third.restore(&later, &[], 0), Ok(()));
        prop_assert_eq!(third.save(), Ok(later));
    }
}

#[test]
fn a_journal_that_is_full_says_so() {
    let switch = switch();
    let (calls, called) = std::sync::mpsc::channel();
    let wake: Arc<WakeupFn> = Arc::new(move || calls.send(()).expect("it is heard"));
    let (journal, _) = switch.begin_journal(wake);
    assert!(journal.take().is_empty());
    let add = |priority| FlowMod::add(0, priority, Match::new(), Vec::new());
    switch.flow_mod(&add(1), Version::V13, 0).expect("added");
    switch.flow_mod(&add(2), Version::V13, 0).expect("added");
    assert_eq!(called.try_iter().count(), 1, "the second waits with the first");
    let records = journal.take();
    assert!(!records.is_empty() && !records.is_incomplete());
    assert_eq!(changes(&records, 1000).len(), 2);
    // All is another.
    switch.restore("", &[], 0).expect("restored");
    let records = journal.take();
    assert!(records.is_incomplete() && changes(&records, 1000).is_empty());
    switch.flow_mod(&add(3), Version::V13, 0).expect("added");
    assert_eq!(changes(&journal.take(), 1000).len(), 1, "it goes on");
    drop(journal);
    switch.flow_mod(&add(4), Version::V13, 0).expect("added");
    assert!(lock(&switch.journals.all).is_empty());
}

#[test]
fn requests_without_a_change_are_errors() {
    let switch = switch();
    let short = [0, 4, 14, 0, 200, 0, 0, 0, 0];
    for (change, said) in [
        (&[7, 1, 2][..], "kind 7"),
        (&short, "incomplete"),
        (&[2, 9, 0, b'x'], "incomplete"),
        (&[2, 1, 0, b'x'], "`x`"),
        (&[0, 4], "incomplete"),
        (&[0, 4, 14, 0, 0, 0, 0, 0, 0], "length"),
    ] {
        let error = switch.restore("", &[change.to_vec()], 0).expect_err(said).to_string();
        assert!(error.starts_with("change 1 of the journal: ") && error.contains(said), "{error}");
    }
}

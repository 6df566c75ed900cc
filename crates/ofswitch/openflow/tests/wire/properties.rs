//! Random messages: written and read as the same; and random damage to messages, which is found or
//! harmless.

use proptest::prelude::*;
use proptest::sample::select;

use linerate_openflow::wire::multipart::{FlowStats, Parts, Reply};
use linerate_openflow::wire::{
    Action, Bucket, CookieFilter, Ct, Elapsed, Encap, Entry, Field, FieldId, FlowFlags, FlowMod,
    FlowModCommand, GroupCommand, GroupMod, GroupType, Instruction, Learn, LearnDestination,
    LearnFlags, LearnSource, LearnSpec, Match, Message, MultipartReply, PacketType, PortNumber,
    Subfield, Version, Zone,
};

use crate::exercise;
use crate::golden;
use crate::random::{entry, matching, service_header};
use crate::samples::{self, XID};

fn version() -> impl Strategy<Value = Version> {
    select(&Version::ALL[..])
}

fn subfield() -> impl Strategy<Value = Subfield> {
    select(Field::ALL).prop_flat_map(|field| {
        let bits = field.bits() as u16;
        (0..bits).prop_flat_map(move |offset| {
            let most = (bits - offset).min(64);
            (1..=most).prop_map(move |count| Subfield::new(field, offset, count).expect("it fits"))
        })
    })
}

/// Part of a field that can be set outside of a connection.
fn settable() -> impl Strategy<Value = Subfield> {
    subfield().prop_filter("only what can be set", |part| {
        let connection = matches!(part.field(), Field::CtMark | Field::CtLabel);
        part.field().is_settable() && !connection
    })
}

fn port() -> impl Strategy<Value = PortNumber> {
    prop_oneof![
        (1u32..0xff00).prop_map(PortNumber),
        (0xffff_fff8u32..0xffff_ffff).prop_map(PortNumber)
    ]
}

fn learn() -> impl Strategy<Value = Learn> {
    let numbers = any::<(u16, u16, u16, u64, bool, u16, u16)>();
    let spec =
        (subfield(), settable(), 0..3u8, any::<u128>()).prop_map(|(from, to, kind, value)| {
            let bits = from.bits().min(to.bits());
            let part =
                |part: Subfield| Subfield::new(part.field(), part.offset(), bits).expect("fewer");
            let (source, destination) = match kind {
                0 => (LearnSource::Field(part(from)), LearnDestination::Match(part(from))),
                1 => {
                    let value = value & (u128::MAX >> (128 - bits));
                    (LearnSource::Value(value), LearnDestination::Load(part(to)))
                }
                _ => (LearnSource::Field(part(from)), LearnDestination::Output),
            };
            LearnSpec { bits, source, destination }
        });
    let result = prop::option::of(
        settable()
            .prop_map(|part| Subfield::new(part.field(), part.offset(), 1).expect("a bit of it")),
    );
    let rest = (0..255u8, any::<u32>(), result, prop::collection::vec(spec, 0..5));
    (numbers, rest).prop_map(|(numbers, (table, limit, result, specs))| {
        let (idle_timeout, hard_timeout, priority, cookie, told, fin_idle, fin_hard) = numbers;
        let told = if told { LearnFlags::SEND_FLOW_REMOVED } else { LearnFlags::default() };
        let writes =
            if result.is_some() { LearnFlags::WRITE_RESULT } else { LearnFlags::default() };
        Learn {
            idle_timeout,
            hard_timeout,
            priority,
            cookie,
            flags: told.with(writes),
            table,
            fin_idle_timeout: fin_idle,
            fin_hard_timeout: fin_hard,
            limit,
            result,
            specs,
        }
    })
}

fn ct() -> impl Strategy<Value = Ct> {
    let marks = prop::collection::vec(
        entry(Field::CtMark).prop_union(entry(Field::CtLabel)).prop_map(Action::SetField),
        0..3,
    );
    (marks, any::<u16>(), prop::option::of(0..255u8), any::<u16>()).prop_map(
        |(actions, zone, table, helper)| Ct {
            commit: true,
            force: zone % 2 == 0,
            zone: Zone::Number(zone),
            table,
            helper,
            actions,
        },
    )
}

/// Actions that all versions have, themselves or by Nicira's extension.
fn action() -> impl Strategy<Value = Action> {
    let fields = select(Field::ALL).prop_filter("only what can be set", |field| {
        let connection = matches!(field, Field::CtMark | Field::CtLabel);
        field.is_settable() && !connection
    });
    let set = fields.prop_flat_map(entry).prop_map(Action::SetField);
    // Not all values that fit into a time to live can be loaded.
    let loaded =
        settable().prop_filter("any value can be loaded", |part| part.field() != Field::NshTtl);
    let load = (loaded, any::<u64>()).prop_map(|(destination, value)| {
        let value = value & (u64::MAX >> (64 - destination.bits()));
        Action::Load { destination, value }
    });
    let copy = (subfield(), settable()).prop_map(|(source, destination)| {
        let bits = source.bits().min(destination.bits());
        let part =
            |part: Subfield| Subfield::new(part.field(), part.offset(), bits).expect("fewer");
        Action::Move { source: part(source), destination: part(destination) }
    });
    let simple = select(vec![
        Action::PopVlan,
        Action::PopQueue,
        Action::DecIpTtl,
        Action::DecMplsTtl,
        Action::Exit,
        Action::CtClear,
        Action::PushMpls(0x8847),
        Action::PopMpls(0x86dd),
    ]);
    let table = (port(), any::<u8>(), any::<bool>())
        .prop_map(|(port, table, original)| Action::Resubmit { port, table, original });
    let leaf = prop_oneof![
        (port(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        any::<u32>().prop_map(Action::Group),
        any::<u32>().prop_map(Action::SetQueue),
        any::<u8>().prop_map(Action::SetMplsTtl),
        prop::collection::vec(any::<u16>(), 0..5).prop_map(Action::DecIpTtlFor),
        any::<[u8; 14]>().prop_map(|note| Action::Note(note.to_vec())),
        (any::<u64>(), any::<u64>())
            .prop_map(|(value, mask)| Action::WriteMetadata { value: value & mask, mask }),
        learn().prop_map(|learn| Action::Learn(Box::new(learn))),
        ct().prop_map(|ct| Action::Ct(Box::new(ct))),
        subfield().prop_map(Action::StackPush),
        settable().prop_map(Action::StackPop),
        set,
        load,
        copy,
        simple,
        table,
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Action::Clone)
    })
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    prop::collection::vec(action(), 0..5)
}

/// Actions that OpenFlow 1.0 has not, by no extension.
fn newer_action() -> impl Strategy<Value = Action> {
    let packet_type =
        select(vec![PacketType::ETHERNET, PacketType::MPLS, PacketType::MPLS_MULTICAST]);
    let plain = packet_type.prop_map(Encap::new);
    let encap = (prop_oneof![plain, service_header()], any::<u16>())
        .prop_map(|(encap, size)| Action::Encap(Encap { size, ..encap }));
    prop_oneof![
        2 => encap,
        1 => any::<u32>().prop_map(|packet_type| Action::Decap(PacketType(packet_type))),
        1 => Just(Action::DecNshTtl),
    ]
}

fn instructions(version: Version) -> BoxedStrategy<Vec<Instruction>> {
    let some = |actions: Vec<Action>| match actions {
        actions if actions.is_empty() => Vec::new(),
        actions => vec![Instruction::ApplyActions(actions)],
    };
    if version == Version::V10 {
        return actions().prop_map(some).boxed();
    }
    let all = prop_oneof![4 => action(), 1 => newer_action()];
    let apply = prop::collection::vec(all, 0..6).prop_map(some);
    let set = actions().prop_map(|mut actions| {
        actions.retain(Action::fits_a_set);
        actions
    });
    let rest = (any::<u64>(), any::<u64>(), any::<u32>(), any::<u8>(), 101..255u8);
    (apply, set, rest)
        .prop_map(|(mut all, set, (value, mask, meter, which, table))| {
            let metadata = Instruction::WriteMetadata { value: value & mask, mask };
            let others = [
                Instruction::Meter(meter),
                Instruction::ClearActions,
                Instruction::WriteActions(set),
                metadata,
                Instruction::GotoTable(table),
            ];
            let chosen = others.into_iter().enumerate().filter(|(nth, _)| which >> nth & 1 == 1);
            all.extend(chosen.map(|(_, instruction)| instruction));
            all
        })
        .boxed()
}

fn flow_mod() -> impl Strategy<Value = (Version, FlowMod)> {
    let flow = version().prop_flat_map(|version| {
        (Just(version), matching(&[Field::CtState]), instructions(version))
    });
    let numbers = any::<(u16, u16, u16, u64, u64)>();
    let more = (0..5u8, 0..100u8, prop::option::of(0..u32::MAX), any::<bool>(), port());
    (flow, numbers, more).prop_map(
        |((version, matching, instructions), numbers, (command, table, buffer, told, out_port))| {
            let (idle_timeout, hard_timeout, priority, value, mask) = numbers;
            let command = FlowModCommand::from_number(command).expect("one of five");
            let (add, old) = (command == FlowModCommand::Add, version == Version::V10);
            let filter = if add {
                CookieFilter::default()
            } else {
                CookieFilter { value: value & mask, mask }
            };
            let told = if told { FlowFlags::SEND_FLOW_REMOVED } else { FlowFlags::default() };
            let flow = FlowMod {
                command,
                cookie: (add || old).then_some(value),
                filter,
                idle_timeout,
                hard_timeout,
                buffer,
                out_port,
                flags: told,
                ..FlowMod::add(table, priority, matching, instructions)
            };
            (version, flow)
        },
    )
}

fn check(version: Version, message: Message) {
    let bytes = message.encode(version, XID).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    assert_eq!(Message::decode(&bytes), Ok((version, XID, said(version, message))));
}

/// Returns true if OpenFlow 1.0 writes a set-field as a load, as it has neither.
fn is_loaded(entry: &Entry) -> bool {
    let field = entry.field();
    let own = [
        Field::EthSrc,
        Field::EthDst,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::IpDscp,
        Field::TunnelId,
        Field::MplsLabel,
        Field::MplsTc,
        Field::VlanVid,
    ];
    let is_short = FieldId::new(field, false, Version::V13).experimenter.is_none();
    entry.is_exact() && field.bits() <= 64 && is_short && !own.contains(&field)
}

/// Returns true if a load has no room for the header of its field and becomes a set-field.
fn is_long(part: Subfield) -> bool {
    FieldId::new(part.field(), false, Version::V10).experimenter.is_some()
}

/// The decoded form of a message: OpenFlow 1.5 encodes `load` as a set-field, and 1.0 vice versa.
fn said(version: Version, message: Message) -> Message {
    fn one(version: Version, action: Action) -> Action {
        let each = |actions: Vec<Action>| actions.into_iter().map(|a| one(version, a)).collect();
        match action {
            Action::SetField(entry) if version == Version::V10 && is_loaded(&entry) => {
                let destination = Subfield::whole(entry.field());
                Action::Load { destination, value: entry.value() as u64 }
            }
            Action::Ct(mut ct) => {
                ct.actions = each(std::mem::take(&mut ct.actions));
                Action::Ct(ct)
            }
            Action::Load { destination, value }
                if version == Version::V15 || is_long(destination) =>
            {
                let (offset, bits) = (destination.offset(), destination.bits());
                let mask = u128::MAX >> (128 - u32::from(bits)) << offset;
                let entry = Entry::masked(destination.field(), u128::from(value) << offset, mask);
                Action::SetField(entry)
            }
            Action::Clone(inner) => Action::Clone(each(inner)),
            other => other,
        }
    }
    let instruction = |instruction: Instruction| {
        let each = |actions: Vec<Action>| actions.into_iter().map(|a| one(version, a)).collect();
        match instruction {
            Instruction::ApplyActions(actions) => Instruction::ApplyActions(each(actions)),
            Instruction::WriteActions(actions) => Instruction::WriteActions(each(actions)),
            other => other,
        }
    };
    match message {
        Message::GroupMod(mut group) => {
            for bucket in &mut group.buckets {
                let actions = std::mem::take(&mut bucket.actions).into_iter();
                bucket.actions = actions.map(|action| one(version, action)).collect();
            }
            Message::GroupMod(group)
        }
        Message::FlowMod(mut flow) => {
            flow.instructions = flow.instructions.into_iter().map(instruction).collect();
            Message::FlowMod(flow)
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn flows_are_read_as_written((version, flow) in flow_mod()) {
        check(version, Message::FlowMod(flow));
    }

    /// An answer in parts has all entries, in order, and none of it is too long.
    #[test]
    fn answers_come_in_parts(
        count in 0usize..3000,
        chunk in 1usize..500,
        version in version(),
    ) {
        let flow = |nth: usize| FlowStats {
            duration: Elapsed { seconds: nth as u32, nanoseconds: 5 },
            ..FlowStats::new(1, nth as u16, Match::new().with(Field::InPort, 3), Vec::new())
        };
        let flows: Vec<_> = (0..count).map(flow).collect();
        let mut packed = Parts::new(&Reply::Flow(Vec::new()), version, XID).unwrap();
        let mut parts = Vec::new();
        for piece in flows.chunks(chunk) {
            parts.extend(packed.add(&Reply::Flow(piece.to_vec())).unwrap());
        }
        parts.push(packed.finish());
        let mut found = Vec::new();
        for (nth, part) in parts.iter().enumerate() {
            let Ok((_, XID, Message::MultipartReply(MultipartReply { more, body }))) =
                Message::decode(part)
            else {
                panic!("{part:02x?}");
            };
            prop_assert_eq!(more, nth + 1 < parts.len());
            let Reply::Flow(flows) = body else { panic!("another answer") };
            found.extend(flows);
        }
        prop_assert_eq!(found, flows);
    }

    #[test]
    fn groups_are_read_as_written(
        version in version(),
        group in 0..=linerate_openflow::wire::group::MAX_GROUP,
        buckets in prop::collection::vec((any::<u16>(), actions()), 0..4),
    ) {
        let buckets = (0..).zip(buckets).map(|(id, (weight, actions))| {
            Bucket { id, weight, ..Bucket::new(actions) }
        });
        let (command, kind) = (GroupCommand::Modify, GroupType::Select);
        let buckets = buckets.collect();
        let change = GroupMod { command, kind, group, at: u32::MAX, buckets, selection: None };
        check(version, Message::GroupMod(change));
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        exercise::message(&bytes);
        exercise::framed(&bytes);
        exercise::stream(&bytes);
    }
}

/// A message of these, with a few bytes changed, cut or longer.
fn damaged(messages: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4);
    let length = prop_oneof![4 => Just(0isize), 1 => -24isize..24];
    (select(messages), changes, length).prop_map(|(mut bytes, changes, length)| {
        for (at, value) in changes {
            let at = at.index(bytes.len());
            // Small numbers are types, lengths and counts more often.
            bytes[at] = if value % 2 == 0 { value % 32 } else { value };
        }
        bytes.resize((bytes.len() as isize + length).max(8) as usize, 0);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damage_to_ours_is_found_or_harmless(bytes in damaged(
        samples::all().into_iter().map(|given| given.message.encode(given.version, XID).unwrap()).collect()
    )) {
        exercise::framed(&bytes);
    }

    #[test]
    fn damage_to_others_is_found_or_harmless(bytes in damaged(golden::short_messages())) {
        exercise::framed(&bytes);
    }
}

//! Random flows, groups and meters: printed, and read as the same.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::sample::select;

use linerate_openflow::text::Syntax;
use linerate_openflow::wire::multipart::{FlowStats, GroupDesc, MeterConfig};
use linerate_openflow::wire::{
    Action, Band, BandEffect, Bucket, Bundle, Controller, CookieFilter, Ct, Encap, Entry, Field,
    FlowFlags, FlowMod, FlowModCommand, GroupCommand, GroupMod, GroupType, Instruction, Learn,
    LearnDestination, LearnFlags, LearnSource, LearnSpec, MeterCommand, MeterFlags, Multipath, Nat,
    NatAddresses, NatFlags, PacketInReason, PacketType, PortNumber, Sample, Subfield, Version,
    Zone,
};

use crate::random::{entry, matching, service_header};

fn version() -> impl Strategy<Value = Version> {
    select(&[Version::V13, Version::V14, Version::V15][..])
}

/// Fields implied by the word for a protocol in a text.
const BOUND: &[Field] = &[Field::EthType, Field::IpProto, Field::PacketType, Field::Icmpv6Type];

fn port() -> impl Strategy<Value = PortNumber> {
    let reserved = [PortNumber::IN_PORT, PortNumber::NORMAL, PortNumber::FLOOD, PortNumber::LOCAL];
    prop_oneof![(1..0xff00_u32).prop_map(PortNumber), select(reserved.to_vec())]
}

/// Fields with parts that actions may set in any packet.
const SETTABLE: [Field; 6] =
    [Field::Reg3, Field::Xreg1, Field::Xxreg2, Field::EthSrc, Field::Metadata, Field::TunnelId];

fn part() -> impl Strategy<Value = Subfield> {
    (select(&SETTABLE[..]), any::<u16>(), any::<u16>()).prop_map(|(field, offset, bits)| {
        let size = field.bits() as u16;
        let offset = offset % size;
        let bits = bits % (size - offset).min(64) + 1;
        Subfield::new(field, offset, bits.min(size - offset)).expect("it fits")
    })
}

/// Two parts of as many bits.
fn two_parts() -> impl Strategy<Value = (Subfield, Subfield)> {
    (part(), part()).prop_map(|(one, other)| {
        let bits = one.bits().min(other.bits());
        let cut = |part: Subfield| Subfield::new(part.field(), part.offset(), bits).expect("less");
        (cut(one), cut(other))
    })
}

fn value_of(part: Subfield, value: u64) -> u64 {
    value & (u64::MAX >> (64 - part.bits().min(64)))
}

fn bit() -> Subfield {
    Subfield::new(Field::Reg5, 7, 1).expect("it fits")
}

fn learn() -> impl Strategy<Value = Action> {
    let spec = prop_oneof![
        two_parts().prop_map(|(to, from)| LearnSpec {
            bits: to.bits(),
            source: LearnSource::Field(from),
            destination: LearnDestination::Match(to),
        }),
        (part(), any::<u64>()).prop_map(|(to, value)| LearnSpec {
            bits: to.bits(),
            source: LearnSource::Value(value_of(to, value).into()),
            destination: LearnDestination::Load(to),
        }),
        (part(), any::<u64>()).prop_map(|(to, value)| LearnSpec {
            bits: to.bits(),
            source: LearnSource::Value(value_of(to, value).into()),
            destination: LearnDestination::Match(to),
        }),
        part().prop_map(|from| LearnSpec {
            bits: from.bits(),
            source: LearnSource::Field(from),
            destination: LearnDestination::Output,
        }),
    ];
    let numbers = (any::<[u16; 5]>(), any::<u64>(), 0..255_u8, any::<u32>(), any::<bool>());
    (numbers, prop::collection::vec(spec, 0..5)).prop_map(|(numbers, specs)| {
        let ([idle, hard, fin_idle, fin_hard, priority], cookie, table, limit, result) = numbers;
        let flags = if result { LearnFlags::WRITE_RESULT } else { LearnFlags::DELETE_LEARNED };
        Action::Learn(Box::new(Learn {
            idle_timeout: idle,
            hard_timeout: hard,
            priority,
            cookie,
            flags,
            table,
            fin_idle_timeout: fin_idle,
            fin_hard_timeout: fin_hard,
            limit,
            result: result.then(bit),
            specs,
        }))
    })
}

fn nat() -> impl Strategy<Value = Action> {
    (any::<[u8; 4]>(), any::<u16>(), 1..60_000_u16, 0..4_u8).prop_map(|(v4, v6, low, kind)| {
        let v6 = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, v6 | 1);
        let last = Ipv6Addr::new(0xfe81, 0, 0, 0, 0, 0, 0, 0);
        let v4 = Ipv4Addr::from(u32::from_be_bytes(v4) | 1);
        let (flags, addresses, ports) = match kind {
            0 => (NatFlags::default(), NatAddresses::Unchanged, None),
            1 => (NatFlags::SOURCE, NatAddresses::V4(v4, None), Some((low, None))),
            2 => {
                let ports = Some((low, Some(low + 1)));
                let flags = NatFlags::DESTINATION.with(NatFlags::RANDOM);
                (flags, NatAddresses::V6(v6, Some(last)), ports)
            }
            _ => {
                let flags = NatFlags::SOURCE.with(NatFlags::PERSISTENT).with(NatFlags::HASH);
                (flags, NatAddresses::V6(v6, None), None)
            }
        };
        Action::Nat(Box::new(Nat { flags, addresses, ports }))
    })
}

fn ct() -> impl Strategy<Value = Action> {
    let set =
        any::<u32>().prop_map(|mark| Action::SetField(Entry::exact(Field::CtMark, mark.into())));
    let actions = prop::collection::vec(prop_oneof![nat(), set], 0..3);
    (any::<(bool, u16, bool, u16)>(), prop::option::of(0..255_u8), actions).prop_map(
        |((force, zone, field, helper), table, actions)| {
            let from = Subfield::new(Field::Reg1, 16, 16).expect("it fits");
            let zone = if field { Zone::Field(from) } else { Zone::Number(zone) };
            Action::Ct(Box::new(Ct { commit: true, force, zone, table, helper, actions }))
        },
    )
}

fn simple() -> impl Strategy<Value = Action> {
    let settable: Vec<Field> = vec![
        Field::EthDst,
        Field::Reg7,
        Field::Xxreg0,
        Field::Metadata,
        Field::TunnelIpv6Src,
        Field::PacketMark,
        Field::InPort16,
    ];
    let flow = (0..7_u16, any::<u16>());
    prop_oneof![
        port().prop_map(|port| Action::Output { port, max_len: 0 }),
        any::<u16>().prop_map(|max_len| Action::Output { port: PortNumber::CONTROLLER, max_len }),
        (1..0xff00_u32, any::<u32>())
            .prop_map(|(port, queue)| Action::Enqueue { port: PortNumber(port), queue }),
        any::<u32>().prop_map(Action::Group),
        any::<u32>().prop_map(Action::SetQueue),
        Just(Action::PopQueue),
        select(settable).prop_flat_map(entry).prop_map(Action::SetField),
        two_parts().prop_map(|(source, destination)| Action::Move { source, destination }),
        Just(Action::PopVlan),
        Just(Action::CopyTtlOut),
        Just(Action::CopyTtlIn),
        Just(Action::CtClear),
        Just(Action::Exit),
        Just(Action::DecIpTtlFor(vec![1, 7])),
        select(vec![0x8100, 0x88a8]).prop_map(Action::PushVlan),
        select(vec![0x8847, 0x8848]).prop_map(Action::PushMpls),
        Just(Action::PushPbb(0x88e7)),
        select(vec![PacketType::ETHERNET, PacketType::MPLS, PacketType::MPLS_MULTICAST])
            .prop_map(|packet_type| Action::Encap(Encap::new(packet_type))),
        service_header().prop_map(Action::Encap),
        Just(Action::DecNshTtl),
        (0..2_u16, any::<u16>()).prop_map(|(space, kind)| {
            Action::Decap(PacketType(u32::from(space) << 16 | u32::from(kind)))
        }),
        (port(), 0..255_u8, any::<bool>()).prop_map(|(port, table, original)| Action::Resubmit {
            port,
            table,
            original
        }),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|mut note| {
            note.resize(note.len() / 8 * 8 + 6, 0);
            Action::Note(note)
        }),
        (flow, 0..4_u16, any::<u16>(), any::<u32>()).prop_map(
            |((fields, basis), algorithm, max_link, argument)| {
                let destination = Subfield::whole(Field::Reg2);
                Action::Multipath(Multipath {
                    fields,
                    basis,
                    algorithm,
                    max_link,
                    argument,
                    destination,
                })
            }
        ),
        ((0..7_u16, any::<u16>()), 0..2_u16, prop::collection::vec(port(), 1..5), any::<bool>())
            .prop_map(|((fields, basis), algorithm, members, load)| {
                let destination = load.then(|| Subfield::whole(Field::Reg2));
                Action::Bundle(Box::new(Bundle { algorithm, fields, basis, members, destination }))
            }),
        part().prop_map(|source| Action::OutputField { source, max_len: u16::MAX }),
        (1..0xff00_u32, any::<u32>()).prop_map(|(port, max_len)| Action::OutputTruncated {
            port: PortNumber(port),
            max_len
        }),
        learn(),
        any::<[u16; 2]>().prop_map(|[idle, hard]| Action::FinTimeout { idle, hard }),
        part().prop_map(Action::StackPush),
        part().prop_map(Action::StackPop),
        (1..u16::MAX, any::<[u32; 3]>(), port(), 0..3_u8).prop_map(
            |(probability, [collector_set, domain, point], port, direction)| {
                Action::Sample(Sample {
                    probability,
                    collector_set,
                    domain,
                    point,
                    port,
                    direction,
                })
            }
        ),
        (
            any::<u16>(),
            1..u16::MAX,
            any::<u32>(),
            any::<bool>(),
            prop::collection::vec(any::<u8>(), 0..9)
        )
            .prop_map(|(max_len, id, meter, pause, userdata)| {
                let reason = PacketInReason::InvalidTtl;
                Action::Controller(Box::new(Controller {
                    max_len,
                    id,
                    reason,
                    userdata,
                    pause,
                    meter,
                }))
            }),
        any::<u16>().prop_map(|length| Action::CheckLarger { length, destination: bit() }),
        ct(),
    ]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let nested = simple().prop_recursive(3, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Action::Clone)
    });
    prop::collection::vec(nested, 1..6)
}

fn flow() -> impl Strategy<Value = FlowMod> {
    let extras = prop::collection::vec(0..4_u8, 0..4);
    let numbers = (any::<[u16; 4]>(), any::<[u64; 2]>(), any::<u32>(), 0..200_u8);
    (matching(BOUND), actions(), extras, numbers, select(FlowModCommand::ALL)).prop_map(
        |(matching, actions, extras, numbers, command)| {
            let ([idle, hard, priority, importance], [one, other], meter, table) = numbers;
            let mut instructions = vec![Instruction::ApplyActions(actions)];
            if extras.contains(&0) {
                instructions.push(Instruction::ClearActions);
            }
            if extras.contains(&1) {
                let write = Action::Output { port: PortNumber(5), max_len: 0 };
                instructions.push(Instruction::WriteActions(vec![write, Action::Group(meter)]));
            }
            if extras.contains(&2) {
                instructions.push(Instruction::WriteMetadata { value: one & other, mask: other });
            }
            if extras.contains(&3) {
                instructions.push(Instruction::GotoTable(table + 1));
            }
            let flow = FlowMod::add(table, priority, matching, instructions);
            let filter = CookieFilter { value: one & other, mask: other };
            match command {
                FlowModCommand::Add => FlowMod {
                    cookie: Some(one),
                    idle_timeout: idle,
                    hard_timeout: hard,
                    importance,
                    flags: FlowFlags(importance & FlowFlags::KNOWN.0),
                    ..flow
                },
                _ if command.deletes() => FlowMod {
                    command,
                    filter,
                    cookie: None,
                    out_port: PortNumber(meter & 0xff),
                    out_group: meter,
                    instructions: Vec::new(),
                    priority: if command == FlowModCommand::Delete { 32768 } else { priority },
                    ..flow
                },
                _ => FlowMod { command, filter, cookie: None, idle_timeout: idle, ..flow },
            }
        },
    )
}

proptest! {
    #[test]
    fn flows_are_read_as_printed(version in version(), flow in flow()) {
        let syntax = Syntax::new(version);
        let text = syntax.print_flow(&flow);
        let read = syntax.flow(&text, flow.command);
        // Inconsistent actions are refused, and only those.
        if !flow.command.deletes() && flow.check().is_err() {
            prop_assert!(read.is_err(), "{}", text);
            return Ok(());
        }
        prop_assert_eq!(read.map_err(|error| format!("{error}\n{}", error.shown(&text))), Ok(flow), "{}", text);
    }

    #[test]
    fn dumped_flows_can_be_added(flow in flow()) {
        let syntax = Syntax::new(Version::V14);
        if flow.command != FlowModCommand::Add || flow.check().is_err() {
            return Ok(());
        }
        let stats = FlowStats {
            cookie: flow.cookie.unwrap_or(0),
            packets: 7,
            bytes: 448,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            importance: flow.importance,
            flags: flow.flags,
            ..FlowStats::new(flow.table, flow.priority, flow.matching.clone(), flow.instructions.clone())
        };
        let text = syntax.print_flow_stats(&stats);
        prop_assert_eq!(syntax.flow(&text, FlowModCommand::Add), Ok(flow), "{}", text);
    }

    #[test]
    fn groups_are_read_as_printed(
        version in version(),
        group in 0..1000_u32,
        buckets in prop::collection::vec((actions(), any::<u16>()), 1..4),
    ) {
        let syntax = Syntax::new(version);
        let buckets = (0..).zip(buckets).map(|(id, (actions, weight))| Bucket {
            id,
            weight,
            watch_port: PortNumber(u32::from(weight % 5 + 1)),
            watch_group: (weight % 2 == 0).then_some(7),
            ..Bucket::new(actions)
        });
        let change = GroupMod {
            command: GroupCommand::Add,
            kind: GroupType::Select,
            group,
            at: u32::MAX,
            buckets: buckets.collect(),
            selection: None,
        };
        let text = syntax.print_group_mod(&change);
        prop_assert_eq!(syntax.group(&text, GroupCommand::Add), Ok(change.clone()), "{}", text);
        let GroupMod { group, kind, buckets, selection, .. } = change.clone();
        let text = syntax.print_group(&GroupDesc { group, kind, buckets, selection });
        prop_assert_eq!(syntax.group(&text, GroupCommand::Add), Ok(change), "{}", text);
    }

    #[test]
    fn meters_are_read_as_printed(
        meter in 1..1000_u32,
        bands in prop::collection::vec((1..u32::MAX, 1..u32::MAX, any::<u8>()), 1..4),
    ) {
        let syntax = Syntax::new(Version::V13);
        let band = |(rate, burst, level)| Band {
            rate,
            burst,
            effect: if level == 0 { BandEffect::Drop } else { BandEffect::Remark(level) },
        };
        let flags = MeterFlags::PACKETS.with(MeterFlags::BURST).with(MeterFlags::STATS);
        let config = MeterConfig { meter, flags, bands: bands.into_iter().map(band).collect() };
        let text = syntax.print_meter(&config);
        let read = syntax.meter(&text, MeterCommand::Add).unwrap();
        prop_assert_eq!((read.meter, read.flags, read.bands), (meter, flags, config.bands), "{}", text);
    }

    #[test]
    fn any_text_is_taken(text in "[a-z0-9_=:,()>/+\\-\\[\\]. ]{0,60}", junk in any::<String>()) {
        let syntax = Syntax::new(Version::V13);
        for text in [text, junk] {
            for (start, end) in [("", ""), ("ip,", ",actions=drop"), ("ip,actions=ct(", ")"), ("actions=learn(", ")")] {
                let text = format!("{start}{text}{end}");
                if let Err(error) = syntax.flow(&text, FlowModCommand::Add) {
                    prop_assert!(text.get(error.at()).is_some(), "{} {:?}", text, error);
                    let _ = error.shown(&text);
                }
                let _ = syntax.request(&text);
                let _ = syntax.group(&text, GroupCommand::Add);
                let _ = syntax.meter(&text, MeterCommand::Add);
            }
        }
    }
}

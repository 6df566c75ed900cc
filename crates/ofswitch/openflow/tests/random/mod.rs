//! Random matches, for messages and texts.

use proptest::prelude::*;
use proptest::sample::select;

use linerate_openflow::wire::{Encap, EncapProperty, Entry, Field, Match, PacketType};

/// A value of a field, under a mask where it may have one.
pub(crate) fn entry(field: Field) -> impl Strategy<Value = Entry> {
    (any::<u128>(), any::<u128>(), any::<bool>()).prop_map(move |(value, mask, masked)| {
        let value = match field {
            Field::NshTtl => value & 63,
            Field::NshMdType => 1 + value % 2,
            _ => value,
        };
        if masked && field.is_maskable() {
            Entry::masked(field, value, mask | 1)
        } else {
            Entry::exact(field, value)
        }
    })
}

/// A network service header to add.
pub(crate) fn service_header() -> impl Strategy<Value = Encap> {
    let value = prop::collection::vec(any::<u8>(), 0..40);
    let property = prop_oneof![
        1 => (1..3_u8).prop_map(EncapProperty::NshMdType),
        2 => (any::<u16>(), any::<u8>(), value)
            .prop_map(|(class, kind, value)| EncapProperty::NshTlv { class, kind, value }),
    ];
    prop::collection::vec(property, 0..5)
        .prop_map(|properties| Encap { properties, ..Encap::new(PacketType::NSH) })
}

/// Matches that the fields of a protocol need.
fn stack() -> impl Strategy<Value = Match> {
    let ethernet = |kind: u128| Match::new().with(Field::EthType, kind);
    let ip = |kind, protocol: u128| ethernet(kind).with(Field::IpProto, protocol);
    select(vec![
        Match::new(),
        ethernet(0x0806),
        ethernet(0x8847),
        ethernet(0x88e7),
        ethernet(0x894f),
        ethernet(0x0800),
        ip(0x0800, 6),
        ip(0x86dd, 17),
        ip(0x0800, 132),
        ip(0x0800, 1),
        ip(0x86dd, 58),
        ip(0x86dd, 58).with(Field::Icmpv6Type, 135),
        ip(0x86dd, 58).with(Field::Icmpv6Type, 136),
        ip(0x0800, 47),
        Match::new().with(Field::VlanVid, 0x1005),
        Match::new().with_masked(Field::VlanVid, 0x1000, 0x1000),
        Match::new().with(Field::VlanVid, 0),
        Match::new().with_masked(Field::CtState, 0x22, 0x32),
        Match::new().with(Field::InPort, 7),
    ])
}

/// A match with up to eight fields more, those whose needs are met and no two of which overlap, but
/// for some: fields that are read as others or whose values depend on each other, and `others`.
pub(crate) fn matching(others: &'static [Field]) -> impl Strategy<Value = Match> {
    let bound = [Field::InPort16, Field::IpTos, Field::VlanTci, Field::VlanVid];
    let entries = prop::collection::vec(select(Field::ALL).prop_flat_map(entry), 0..8);
    (stack(), entries).prop_map(move |(stack, entries)| {
        entries.into_iter().fold(stack, |matching, entry| {
            let field = entry.field();
            let is_same = |other: &Entry| {
                other.field() == field || other.field().registers() & field.registers() != 0
            };
            // A state that is matched as a whole is the bits that are known.
            let is_whole = field == Field::CtState && entry.is_exact();
            let fits = matching.meets(field.needs()) && !matching.entries().any(is_same);
            if !fits || is_whole || bound.contains(&field) || others.contains(&field) {
                matching
            } else {
                matching.with_entry(entry)
            }
        })
    })
}

//! Actions of each kind.

use super::*;

fn learn() -> Learn {
    Learn {
        idle_timeout: 71,
        hard_timeout: 72,
        priority: 73,
        cookie: 74,
        flags: LearnFlags::SEND_FLOW_REMOVED.with(LearnFlags::WRITE_RESULT),
        table: 75,
        fin_idle_timeout: 76,
        fin_hard_timeout: 77,
        limit: 78,
        result: Some(part(Field::Reg2, 9, 1)),
        specs: vec![
            LearnSpec {
                bits: 48,
                source: LearnSource::Field(Subfield::whole(Field::EthSrc)),
                destination: LearnDestination::Match(Subfield::whole(Field::EthDst)),
            },
            LearnSpec {
                bits: 16,
                source: LearnSource::Value(0x1234),
                destination: LearnDestination::Load(part(Field::Reg0, 8, 16)),
            },
            LearnSpec {
                bits: 16,
                source: LearnSource::Field(Subfield::whole(Field::InPort16)),
                destination: LearnDestination::Output,
            },
        ],
    }
}

fn ct(version: Version) -> Ct {
    let nat = Nat {
        flags: NatFlags::SOURCE.with(NatFlags::RANDOM),
        addresses: NatAddresses::V4([10, 0, 0, 1].into(), Some([10, 0, 0, 9].into())),
        ports: Some((1024, Some(2047))),
    };
    // OpenFlow 1.0 has no set-field.
    let mark = match version {
        V10 => Action::Load { destination: Subfield::whole(Field::CtMark), value: 82 },
        _ => exact(Field::CtMark, 82),
    };
    Ct {
        commit: true,
        force: false,
        zone: Zone::Field(part(Field::Reg1, 4, 16)),
        table: Some(81),
        helper: 21,
        actions: vec![mark, Action::Nat(Box::new(nat))],
    }
}

/// Actions of the specification.
pub(super) fn standard_actions() -> Vec<Action> {
    vec![
        Action::Output { port: PortNumber::CONTROLLER, max_len: 101 },
        Action::SetQueue(103),
        Action::Group(104),
        Action::SetIpTtl(105),
        Action::DecIpTtl,
        exact(Field::Ipv4Dst, 0x0102_0304),
        Action::PushVlan(0x88a8),
        Action::PopVlan,
        Action::PushMpls(0x8848),
        exact(Field::MplsLabel, 0x6789a),
        Action::SetMplsTtl(102),
        Action::DecMplsTtl,
        Action::PopMpls(0x0800),
    ]
}

/// Actions Open vSwitch has not.
pub(super) fn rare_actions() -> Vec<Action> {
    vec![
        Action::CopyTtlOut,
        Action::CopyTtlIn,
        Action::PushPbb(0x88e7),
        exact(Field::PbbIsid, 0x01_0203),
        Action::PopPbb,
    ]
}

/// Actions of Nicira's that all versions have.
pub(super) fn nicira_actions(version: Version) -> Vec<Action> {
    let controller = Controller {
        max_len: 111,
        id: 112,
        reason: PacketInReason::InvalidTtl,
        userdata: vec![1, 2, 3],
        pause: true,
        meter: 113,
    };
    let bundle = Bundle {
        algorithm: 1,
        fields: 1,
        basis: 114,
        members: vec![PortNumber(4), PortNumber(5), PortNumber(6)],
        destination: Some(part(Field::Reg3, 0, 16)),
    };
    vec![
        Action::PopQueue,
        Action::DecIpTtlFor(vec![3, 5, 7]),
        Action::Controller(Box::new(controller)),
        Action::Controller(Box::new(Controller { id: 115, ..Controller::default() })),
        Action::Resubmit { port: PortNumber(9), table: 116, original: false },
        Action::Note(vec![1, 2, 3, 4, 5, 6]),
        Action::Multipath(Multipath {
            fields: 0,
            basis: 117,
            algorithm: 2,
            max_link: 118,
            argument: 119,
            destination: part(Field::Reg4, 3, 20),
        }),
        Action::Bundle(Box::new(bundle)),
        Action::OutputField { source: part(Field::Reg5, 16, 16), max_len: 120 },
        Action::OutputTruncated { port: PortNumber(8), max_len: 121 },
        Action::Learn(Box::new(learn())),
        Action::StackPush(part(Field::Reg6, 5, 10)),
        Action::StackPop(part(Field::Reg7, 6, 11)),
        Action::Sample(Sample {
            probability: 122,
            collector_set: 123,
            domain: 124,
            point: 125,
            port: PortNumber(12),
            direction: 2,
        }),
        Action::Ct(Box::new(ct(version))),
        Action::CtClear,
        Action::Clone(vec![output(13), Action::Exit]),
        Action::CheckLarger { length: 1500, destination: part(Field::Reg8, 17, 1) },
    ]
}

/// Actions on the first header, which OpenFlow 1.0 has not.
pub(super) fn first_header_actions() -> Vec<Action> {
    vec![
        Action::Encap(Encap::new(PacketType::MPLS)),
        Action::Encap(Encap { size: 14, ..Encap::new(PacketType::ETHERNET) }),
        Action::Decap(PacketType::NEXT),
        Action::Decap(PacketType::of_ethernet(0x0800)),
    ]
}

/// Actions on network service headers, which OpenFlow 1.0 lacks.
pub(super) fn service_header_actions() -> Vec<Action> {
    let tlv =
        |class, kind, value: &[u8]| EncapProperty::NshTlv { class, kind, value: value.to_vec() };
    let pieces = vec![
        EncapProperty::NshMdType(2),
        tlv(0x1000, 10, &[0x12, 0x34, 0x56, 0x78]),
        tlv(0x2000, 20, &[0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10, 0x0f]),
    ];
    let context = vec![EncapProperty::NshMdType(1)];
    vec![
        Action::Encap(Encap { properties: pieces, ..Encap::new(PacketType::NSH) }),
        exact(Field::NshSpi, 0x12_3456),
        Action::Encap(Encap { properties: context, ..Encap::new(PacketType::NSH) }),
        Action::SetField(Entry::masked(Field::NshC3, 0x7700, 0xff00)),
        Action::Move { source: part(Field::NshC1, 8, 16), destination: part(Field::NshC4, 0, 16) },
        Action::DecNshTtl,
        Action::Encap(Encap::new(PacketType::NSH)),
        Action::StackPush(part(Field::NshC2, 3, 4)),
        Action::OutputField { source: part(Field::NshC1, 0, 16), max_len: 126 },
    ]
}

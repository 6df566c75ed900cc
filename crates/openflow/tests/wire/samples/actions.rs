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
        Action::Encap(Encap { packet_type: PacketType::ETHERNET, size: 14 }),
        Action::Decap(PacketType::NEXT),
        Action::Decap(PacketType::of_ethernet(0x0800)),
    ]
}

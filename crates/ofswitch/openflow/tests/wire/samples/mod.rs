//! A message of each kind and form, no two numbers in it alike where that can be.

mod actions;
mod statistics;

use linerate_openflow::wire::multipart::{
    AggregateStats, Description, EthernetErrors, FeaturesCommand, FlowEvent, FlowMonitor,
    FlowMonitorCommand, FlowMonitorFlags, FlowRequest, FlowStats, FlowUpdate, FlowUpdated,
    GroupDesc, GroupFeatures, GroupStats, KindId, MeterConfig, MeterFeatures, MeterStats,
    PortStats, QueueStats, Reply, Request, TableFeatures, TableProperty, TableStats,
};
use linerate_openflow::wire::{
    ANY_GROUP, Action, AsyncConfig, AsyncKind, Band, BandEffect, Bucket, Bundle, BundleAdd,
    BundleControl, BundleFlags, BundleStep, Capabilities, Config, ConfigFlags, ConnectionFilter,
    Controller, CookieFilter, Ct, Elapsed, Encap, EncapProperty, Entry, ErrorMessage, Ethernet,
    Fault, Features, Field, FieldId, FlowFlags, FlowFormat, FlowMod, FlowModCommand, FlowRemoved,
    FlowRemovedReason, GroupCommand, GroupMod, GroupType, Hello, Instruction, Learn,
    LearnDestination, LearnFlags, LearnSource, LearnSpec, Match, Message, MeterCommand, MeterFlags,
    MeterMod, MultipartReply, MultipartRequest, Multipath, Nat, NatAddresses, NatFlags,
    NiciraMessage, PacketIn, PacketInFormat, PacketInReason, PacketOut, PacketType, Port,
    PortConfig, PortFeatures, PortMod, PortNumber, PortReason, PortState, PortStatus, Queue,
    QueueConfig, Role, RoleMessage, RoleReason, RoleStatus, Sample, Selection, Subfield,
    TableConfig, TableDesc, TableMod, TableProperties, TableReason, TableStatus, TupleFilter,
    Vacancy, Version, Zone,
};

use Version::{V10, V13, V14, V15};

use actions::{
    first_header_actions, nicira_actions, rare_actions, service_header_actions, standard_actions,
};
use statistics::{replies, requests};

/// A message, and the versions it is written in.
pub(crate) struct Given {
    pub(crate) name: &'static str,
    pub(crate) version: Version,
    pub(crate) message: Message,
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNumber(port), max_len: 0 }
}

fn exact(field: Field, value: u128) -> Action {
    Action::SetField(Entry::exact(field, value))
}

fn part(field: Field, offset: u16, bits: u16) -> Subfield {
    Subfield::new(field, offset, bits).expect("bits the field has")
}

fn tcp() -> Match {
    Match::new()
        .with(Field::InPort, 3)
        .with(Field::EthDst, 0x0607_0809_0a0b)
        .with(Field::EthSrc, 0x0001_0203_0405)
        .with(Field::EthType, 0x0800)
        .with(Field::VlanVid, 0x1007)
        .with(Field::VlanPcp, 5)
        .with(Field::IpDscp, 10)
        .with(Field::IpProto, 6)
        .with_masked(Field::Ipv4Src, 0x0a01_0200, 0xffff_ff00)
        .with(Field::Ipv4Dst, 0x0a03_0405)
        .with(Field::TcpSrc, 1001)
        .with(Field::TcpDst, 1002)
}

fn flow(version: Version) -> FlowMod {
    let actions = vec![exact(Field::EthDst, 0x0c0d_0e0f_1011), output(2)];
    FlowMod {
        command: FlowModCommand::Add,
        table: if version == V10 { 0 } else { 11 },
        cookie: Some(0x1122_3344_5566_7788),
        filter: CookieFilter::default(),
        idle_timeout: 21,
        hard_timeout: 22,
        priority: 23,
        buffer: Some(24),
        out_port: PortNumber::ANY,
        out_group: u32::MAX,
        flags: FlowFlags::SEND_FLOW_REMOVED.with(FlowFlags::CHECK_OVERLAP),
        importance: if version >= V14 { 25 } else { 0 },
        matching: tcp(),
        instructions: vec![Instruction::ApplyActions(actions)],
    }
}

fn with_actions(actions: Vec<Action>) -> Message {
    let instructions = vec![Instruction::ApplyActions(actions)];
    let tcp = Match::new().with(Field::EthType, 0x0800).with(Field::IpProto, 6);
    Message::FlowMod(FlowMod::add(1, 100, tcp, instructions))
}

fn with_match(matching: Match) -> Message {
    Message::FlowMod(FlowMod::add(1, 100, matching, Vec::new()))
}

fn port(version: Version) -> Port {
    let ethernet = Ethernet {
        current: PortFeatures::GBPS_1.with(PortFeatures::COPPER),
        advertised: PortFeatures::MBPS_100.with(PortFeatures::AUTONEGOTIATION),
        supported: PortFeatures::GBPS_10.with(PortFeatures::FIBER),
        peer: PortFeatures::GBPS_10.with(PortFeatures::PAUSE),
        current_speed: if version == V10 { 0 } else { 1_000_000 },
        greatest_speed: if version == V10 { 0 } else { 10_000_000 },
    };
    Port {
        number: PortNumber(7),
        address: [0x02, 1, 2, 3, 4, 5],
        name: "eth7".to_owned(),
        config: PortConfig::NO_RECEIVE.with(PortConfig::NO_PACKET_IN),
        state: PortState::LINK_DOWN,
        ethernet: Some(ethernet),
        others: Vec::new(),
    }
}

fn elapsed() -> Elapsed {
    Elapsed { seconds: 31, nanoseconds: 32_000_000 }
}

fn flow_stats(version: Version) -> FlowStats {
    FlowStats {
        table: 4,
        duration: elapsed(),
        priority: 33,
        idle_timeout: 34,
        hard_timeout: 35,
        flags: if version == V10 { FlowFlags::default() } else { FlowFlags::SEND_FLOW_REMOVED },
        importance: if version >= V14 { 36 } else { 0 },
        cookie: 0x37,
        packets: 38,
        bytes: 3900,
        idle: (version == V15).then_some(Elapsed { seconds: 40, nanoseconds: 0 }),
        unchanged: None,
        matching: tcp(),
        instructions: vec![Instruction::ApplyActions(vec![output(2)])],
    }
}

fn flow_request(version: Version) -> FlowRequest {
    let filter = match version {
        V10 => CookieFilter::default(),
        _ => CookieFilter { value: 0x50, mask: 0xf0 },
    };
    FlowRequest { table: 5, out_port: PortNumber(6), filter, matching: tcp(), ..FlowRequest::all() }
}

fn bucket(weight: u16, port: u32) -> Bucket {
    Bucket { weight, ..Bucket::new(vec![output(port)]) }
}

fn group(version: Version) -> GroupMod {
    let buckets = vec![bucket(5, 1), Bucket { id: 1, ..bucket(7, 2) }];
    GroupMod {
        command: GroupCommand::Add,
        kind: GroupType::Select,
        group: 51,
        at: u32::MAX,
        buckets,
        selection: matches!(version, V10 | V15).then(|| Selection {
            method: "hash".to_owned(),
            parameter: 52,
            fields: Match::new().with(Field::Ipv4Dst, 0xffff_ff00).with(Field::TcpSrc, 0xffff),
        }),
    }
}

fn table_features(version: Version) -> TableFeatures {
    let id = |field, masked| FieldId::new(field, masked, version);
    let kinds = |numbers: &[u16]| numbers.iter().map(|&kind| KindId::standard(kind)).collect();
    TableFeatures {
        table: 2,
        command: FeaturesCommand::Replace,
        features: u32::from(version == V15),
        name: "classifier".to_owned(),
        metadata_match: 0xff00,
        metadata_write: 0x00ff,
        config: if version == V13 { 3 } else { 0xc },
        max_entries: 1000,
        properties: vec![
            TableProperty::Instructions { miss: false, kinds: kinds(&[1, 3, 4, 5]) },
            TableProperty::Instructions { miss: true, kinds: kinds(&[1]) },
            TableProperty::NextTables { miss: false, tables: vec![3, 4, 5] },
            TableProperty::WriteActions { miss: false, kinds: kinds(&[0, 22]) },
            TableProperty::ApplyActions { miss: false, kinds: kinds(&[0, 21, 22, 25]) },
            TableProperty::Match(vec![id(Field::InPort, false), id(Field::EthSrc, true)]),
            TableProperty::Wildcards(vec![id(Field::EthSrc, false)]),
            TableProperty::WriteSetField { miss: false, fields: vec![id(Field::EthDst, false)] },
            TableProperty::ApplySetField { miss: false, fields: vec![id(Field::Ipv4Src, false)] },
        ],
    }
}

fn packet() -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([0x02, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    bytes.extend(0..32);
    bytes
}

fn packet_in(version: Version) -> PacketIn {
    let mut packet_in = PacketIn::new(PortNumber(3), PacketInReason::Action, packet());
    packet_in.total_len = 60;
    packet_in.buffer = Some(61);
    if version != V10 {
        packet_in.table = 62;
        packet_in.cookie = 63;
        packet_in.fields = packet_in.fields.with(Field::Metadata, 64).with(Field::TunnelId, 65);
    }
    packet_in
}

fn matches() -> Vec<(&'static str, Match)> {
    let ipv6 = Match::new()
        .with(Field::EthType, 0x86dd)
        .with_masked(Field::Ipv6Src, 0x2001_0db8 << 96, 0xffff_ffff << 96)
        .with(Field::Ipv6Dst, 0x2001_0db8 << 96 | 5)
        .with(Field::Ipv6Label, 0x12345)
        .with(Field::IpEcn, 2)
        .with(Field::IpProto, 58)
        .with(Field::Icmpv6Type, 135)
        .with(Field::Icmpv6Code, 0)
        .with(Field::NdTarget, 0xfe80 << 112 | 7)
        .with(Field::NdSll, 0x0203_0405_0607);
    let arp = Match::new()
        .with(Field::EthType, 0x0806)
        .with(Field::ArpOp, 2)
        .with(Field::ArpSpa, 0x0a00_0001)
        .with_masked(Field::ArpTpa, 0x0a00_0000, 0xff00_0000)
        .with(Field::ArpSha, 0x0001_0203_0405)
        .with(Field::ArpTha, 0x0002_0304_0506);
    let registers = Match::new()
        .with(Field::Reg0, 1)
        .with_masked(Field::Reg7, 0x20, 0xf0)
        .with(Field::Xxreg2, 3)
        .with_masked(Field::TunnelId, 0x400, 0xff00)
        .with(Field::TunnelIpv4Src, 0x0102_0304)
        .with(Field::PacketMark, 5)
        .with_masked(Field::CtState, 0x22, 0x2a)
        .with(Field::CtZone, 6)
        .with(Field::CtMark, 7)
        .with_masked(Field::CtLabel, 8, 0xff)
        .with(Field::ConjunctionId, 9);
    vec![("ipv6", ipv6), ("arp", arp), ("registers", registers)]
}

/// Fields OpenFlow 1.0 has in no form.
fn newer_match() -> Match {
    Match::new()
        .with(Field::InPort, 1)
        .with_masked(Field::Metadata, 0x300, 0xf00)
        .with(Field::EthType, 0x8847)
        .with(Field::MplsLabel, 4)
        .with(Field::MplsTc, 5)
        .with(Field::MplsBos, 1)
}

/// All fields of network service headers.
fn service_header_match() -> Match {
    Match::new()
        .with(Field::EthType, 0x894f)
        .with_masked(Field::NshFlags, 1, 3)
        .with(Field::NshTtl, 63)
        .with(Field::NshMdType, 1)
        .with(Field::NshNp, 3)
        .with(Field::NshSpi, 0x12_3456)
        .with(Field::NshSi, 255)
        .with(Field::NshC1, 0x1122_3344)
        .with_masked(Field::NshC2, 0x5500, 0xff00)
        .with(Field::NshC3, 7)
        .with(Field::NshC4, 8)
}

/// Fields Open vSwitch has not.
fn rare_match() -> Match {
    Match::new()
        .with(Field::InPort, 1)
        .with(Field::InPhyPort, 2)
        .with(Field::EthType, 0x86dd)
        .with_masked(Field::Ipv6Extensions, 0x8, 0x18)
}

fn bands() -> Vec<Band> {
    vec![
        Band { rate: 131, burst: 132, effect: BandEffect::Drop },
        Band { rate: 133, burst: 134, effect: BandEffect::Remark(2) },
    ]
}

fn table_desc() -> TableDesc {
    let vacancy = Some(Vacancy { down: 21, up: 81, now: 51 });
    TableDesc {
        table: 9,
        config: TableConfig::EVICTION.with(TableConfig::VACANCY_EVENTS),
        properties: TableProperties { eviction: Some(2), vacancy },
    }
}

fn queue_config() -> Queue {
    Queue { port: PortNumber(6), number: 141, min_rate: Some(142), max_rate: Some(943) }
}

fn of_version(version: Version) -> Vec<(&'static str, Message)> {
    let old = version == V10;
    let features = Features {
        datapath: 0x0001_0203_0405_0607,
        buffers: 256,
        tables: 254,
        auxiliary: u8::from(!old),
        capabilities: Capabilities::FLOW_STATS.with(Capabilities::QUEUE_STATS),
        actions: if old { 0xfff } else { 0 },
        ports: if old { vec![port(version)] } else { Vec::new() },
    };
    let config = Config { flags: ConfigFlags::DROP_FRAGMENTS, miss_send_len: 128 };
    let removed = FlowRemoved {
        cookie: 151,
        priority: 152,
        reason: FlowRemovedReason::HardTimeout,
        table: if old { 0 } else { 153 },
        duration: elapsed(),
        idle_timeout: 154,
        hard_timeout: if old { 0 } else { 155 },
        packets: 156,
        bytes: 157,
        matching: tcp(),
    };
    let packet_out = PacketOut {
        buffer: None,
        in_port: PortNumber(161),
        fields: match version {
            V15 => Match::new().with(Field::Metadata, 162),
            _ => Match::new(),
        },
        actions: vec![output(163)],
        data: packet(),
    };
    let port_mod = PortMod {
        number: PortNumber(171),
        address: [2, 4, 6, 8, 10, 12],
        config: PortConfig::DOWN,
        mask: PortConfig::DOWN.with(PortConfig::NO_FORWARD),
        advertise: Some(PortFeatures::GBPS_1.with(PortFeatures::COPPER)),
    };
    let error = ErrorMessage::new(Fault::TableFull, version, &[version.number(); 70]);
    let vendor = ErrorMessage::new(Fault::BadConjunction, version, &[version.number(); 70]);
    let mut all = vec![
        ("hello", Message::Hello(Hello::from_versions(&Version::ALL))),
        ("error", Message::Error(error)),
        ("error of Nicira's", Message::Error(vendor)),
        ("echo request", Message::EchoRequest(vec![1, 2, 3])),
        ("echo reply", Message::EchoReply(vec![4, 5, 6])),
        ("features request", Message::FeaturesRequest),
        ("features", Message::FeaturesReply(features)),
        ("get config", Message::GetConfigRequest),
        ("config", Message::GetConfigReply(config)),
        ("set config", Message::SetConfig(config)),
        ("packet in", Message::PacketIn(packet_in(version))),
        ("flow removed", Message::FlowRemoved(removed.clone())),
        (
            "port status",
            Message::PortStatus(PortStatus { reason: PortReason::Modify, port: port(version) }),
        ),
        ("packet out", Message::PacketOut(packet_out)),
        ("flow mod", Message::FlowMod(flow(version))),
        ("group mod", Message::GroupMod(group(version))),
        ("port mod", Message::PortMod(port_mod)),
        ("barrier", Message::BarrierRequest),
        ("barrier reply", Message::BarrierReply),
        ("Nicira's actions", with_actions(nicira_actions(version))),
        ("conjunction", with_actions(vec![Action::Conjunction { id: 181, clause: 2, clauses: 5 }])),
        ("packet in of Nicira's", nicira(NiciraMessage::PacketIn(packet_in(V13)))),
        (
            "second packet in of Nicira's",
            nicira(NiciraMessage::PacketIn2(PacketIn { userdata: vec![7, 8], ..packet_in(V13) })),
        ),
        ("role of Nicira's", nicira(NiciraMessage::RoleRequest(Role::Master))),
        ("controller id", nicira(NiciraMessage::SetControllerId(182))),
        ("form of packets", nicira(NiciraMessage::SetPacketInFormat(PacketInFormat::Nicira2))),
        ("flush", nicira(NiciraMessage::FlushZone(183))),
        ("flush by tuple", nicira(NiciraMessage::Flush(Box::new(flush())))),
    ];
    if version < V14 {
        all.push(("cancel", nicira(NiciraMessage::FlowMonitorCancel(184))));
        all.push(("paused", nicira(NiciraMessage::FlowMonitorPaused)));
        all.push(("resumed", nicira(NiciraMessage::FlowMonitorResumed)));
    }
    all.extend(matches().into_iter().map(|(name, matching)| (name, with_match(matching))));
    if old {
        let changed = FlowMod {
            command: FlowModCommand::ModifyStrict,
            filter: CookieFilter { value: 0x10, mask: 0xf0 },
            buffer: None,
            table: 3,
            ..flow(version)
        };
        let actions = vec![
            Action::SetVlanVid(191),
            Action::SetVlanPcp(6),
            Action::PopVlan,
            exact(Field::EthSrc, 0x0a0b_0c0d_0e0f),
            exact(Field::Ipv4Src, 0x0102_0304),
            exact(Field::Ipv4Dst, 0x0506_0708),
            exact(Field::IpDscp, 11),
            Action::SetTpSrc(192),
            Action::SetTpDst(193),
            Action::Enqueue { port: PortNumber(194), queue: 195 },
            exact(Field::TunnelId, 0x1_0000_0001),
            exact(Field::MplsLabel, 196),
        ];
        all.push(("flow mod of Nicira's", Message::FlowMod(changed)));
        all.push(("actions of 1.0", with_actions(actions)));
        all.push(("flow removed of Nicira's", nicira(NiciraMessage::FlowRemoved(removed))));
        all.push(("form of flows", nicira(NiciraMessage::SetFlowFormat(FlowFormat::Nicira))));
        all.push(("tables in commands", nicira(NiciraMessage::FlowModTableId(true))));
    } else {
        all.extend(since_13(version));
    }
    if version <= V13 {
        let queue = match version {
            V10 => Queue { max_rate: None, ..queue_config() },
            _ => queue_config(),
        };
        let config = QueueConfig { port: PortNumber(6), queues: vec![queue] };
        all.push(("queues request", Message::QueueGetConfigRequest(PortNumber(6))));
        all.push(("queues", Message::QueueGetConfigReply(config)));
    }
    all
}

fn flush() -> ConnectionFilter {
    let tuple = |address: [u8; 4], port| TupleFilter {
        source: Some(address.into()),
        destination: None,
        source_port: port,
        destination_port: port + 1,
        message: (0, 0, 0),
    };
    ConnectionFilter {
        protocol: 17,
        zone: Some(185),
        original: tuple([10, 0, 0, 1], 186),
        reply: tuple([10, 0, 0, 2], 188),
        mark: (0, 0),
        label: (0, 0),
    }
}

fn nicira(message: NiciraMessage) -> Message {
    Message::Nicira(message)
}

fn since_13(version: Version) -> Vec<(&'static str, Message)> {
    let role = RoleMessage {
        role: Role::Slave,
        id: if version == V15 { 201 } else { 0 },
        generation: 0x0202_0303_0404_0505,
    };
    let mut asynchronous = AsyncConfig::default()
        .with(AsyncKind::PacketIn, false, 0x7)
        .with(AsyncKind::PacketIn, true, 0x1)
        .with(AsyncKind::PortStatus, false, 0x6)
        .with(AsyncKind::PortStatus, true, 0x2)
        .with(AsyncKind::FlowRemoved, false, 0xe)
        .with(AsyncKind::FlowRemoved, true, 0x3);
    if version >= V14 {
        asynchronous = asynchronous.with(AsyncKind::RoleStatus, true, 0x5);
    }
    let meter = MeterMod {
        command: MeterCommand::Modify,
        flags: MeterFlags::PACKETS.with(MeterFlags::BURST),
        meter: 211,
        bands: bands(),
    };
    let changed = FlowMod {
        command: FlowModCommand::Delete,
        cookie: None,
        filter: CookieFilter { value: 0x20, mask: 0xf0 },
        out_port: PortNumber(212),
        out_group: 213,
        ..flow(version)
    };
    let instructions = vec![
        Instruction::Meter(214),
        Instruction::ApplyActions(vec![output(215)]),
        Instruction::ClearActions,
        Instruction::WriteActions(vec![Action::Group(216)]),
        Instruction::WriteMetadata { value: 0x0300, mask: 0x0f00 },
        Instruction::GotoTable(217),
    ];
    // The instruction became an action.
    let instructions = if version == V15 { instructions[1..].to_vec() } else { instructions };
    let table = TableMod {
        table: 218,
        config: if version == V13 { TableConfig(0) } else { TableConfig::VACANCY_EVENTS },
        properties: match version {
            V13 => TableProperties::default(),
            _ => {
                let vacancy = Some(Vacancy { down: 22, up: 82, now: 0 });
                TableProperties { eviction: None, vacancy }
            }
        },
    };
    let mut actions = standard_actions();
    actions.push(Action::Move {
        source: part(Field::Reg0, 4, 12),
        destination: part(Field::Reg1, 8, 12),
    });
    if version == V15 {
        actions.push(Action::Meter(219));
        actions.push(Action::SetField(Entry::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000)));
    } else {
        let destination = part(Field::Metadata, 16, 20);
        actions.push(Action::Load { destination, value: 0x1_2345 });
    }
    let inner = Message::FlowMod(flow(version)).encode(version, XID).expect("a message");
    let status = RoleStatus { role: Role::Slave, reason: RoleReason::Config, generation: 231 };
    let mut all = vec![
        ("role request", Message::RoleRequest(role)),
        ("role", Message::RoleReply(role)),
        ("get async", Message::GetAsyncRequest),
        ("async", Message::GetAsyncReply(asynchronous)),
        ("set async", Message::SetAsync(asynchronous)),
        ("meter mod", Message::MeterMod(meter)),
        ("delete flows", Message::FlowMod(changed)),
        ("instructions", Message::FlowMod(FlowMod::add(216, 100, Match::new(), instructions))),
        ("table mod", Message::TableMod(table)),
        ("actions", with_actions(actions)),
        ("actions on the first header", with_actions(first_header_actions())),
        ("network service headers", {
            let apply = vec![Instruction::ApplyActions(service_header_actions())];
            Message::FlowMod(FlowMod::add(1, 100, service_header_match(), apply))
        }),
        ("newer fields", with_match(newer_match())),
        ("rare actions", with_actions(rare_actions())),
        ("rare fields", with_match(rare_match())),
        (
            "bundle",
            Message::BundleControl(BundleControl {
                bundle: 221,
                step: BundleStep::CommitRequest,
                flags: BundleFlags::ATOMIC,
                properties: Vec::new(),
            }),
        ),
        (
            "bundle message",
            Message::BundleAdd(BundleAdd {
                bundle: 222,
                flags: BundleFlags::ORDERED,
                message: inner,
            }),
        ),
        ("role status", Message::RoleStatus(status)),
    ];
    if version >= V14 {
        let status = TableStatus { reason: TableReason::VacancyUp, table: table_desc() };
        let meter = MeterMod {
            command: MeterCommand::Add,
            flags: MeterFlags::KBPS,
            meter: 232,
            bands: bands(),
        };
        let forwarded = Message::MeterMod(meter).encode(version, 233).expect("a message");
        all.push(("table status", Message::TableStatus(status)));
        all.push(("forwarded", Message::RequestForward(forwarded)));
    }
    if version == V15 {
        let buckets = vec![Bucket { id: 241, ..bucket(242, 243) }];
        all.push((
            "insert bucket",
            Message::GroupMod(GroupMod {
                command: GroupCommand::InsertBucket,
                at: 0xffff_fffe,
                buckets,
                selection: None,
                ..group(version)
            }),
        ));
    }
    all
}

/// The transaction of all.
pub(crate) const XID: u32 = 0x1234_5678;

/// Every message in every version that has it.
pub(crate) fn all() -> Vec<Given> {
    let mut all = Vec::new();
    for version in Version::ALL {
        let mut add = |name, message| all.push(Given { name, version, message });
        for (name, message) in of_version(version) {
            add(name, message);
        }
        for (name, body) in requests(version) {
            add(name, Message::MultipartRequest(MultipartRequest { more: false, body }));
        }
        for (name, body) in replies(version) {
            add(name, Message::MultipartReply(MultipartReply { more: true, body }));
        }
    }
    all
}

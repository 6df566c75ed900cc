//! Requests for statistics and descriptions, and their answers.

use super::*;

pub(super) fn requests(version: Version) -> Vec<(&'static str, Request)> {
    let port = PortNumber(91);
    let mut all = vec![
        ("request desc", Request::Desc),
        ("request flow", Request::Flow(flow_request(version))),
        ("request aggregate", Request::Aggregate(flow_request(version))),
        ("request table", Request::Table),
        ("request port", Request::Port(port)),
        ("request queue", Request::Queue { port, queue: 92 }),
        ("request group", Request::Group(93)),
        ("request group desc", Request::GroupDesc(0xffff_fffc)),
        ("request group features", Request::GroupFeatures),
        ("request port desc", Request::PortDesc(PortNumber::ANY)),
    ];
    if version == V10 {
        let filter = CookieFilter { value: 0x50, mask: 0xf0 };
        let request = FlowRequest { filter, ..flow_request(version) };
        all.push(("request flow of Nicira's", Request::NiciraFlow(request.clone())));
        all.push(("request aggregate of Nicira's", Request::NiciraAggregate(request)));
    } else {
        all.push(("request meter", Request::Meter(94)));
        all.push(("request meter config", Request::MeterConfig(95)));
        all.push(("request meter features", Request::MeterFeatures));
        all.push(("request table features", Request::TableFeatures(Vec::new())));
    }
    if version >= V14 {
        all.push(("request table desc", Request::TableDesc));
        all.push(("request queue desc", Request::QueueDesc { port, queue: 96 }));
    }
    let monitor = FlowMonitor {
        id: 97,
        command: FlowMonitorCommand::Add,
        flags: FlowMonitorFlags::INITIAL.with(FlowMonitorFlags::ADD).with(FlowMonitorFlags::OWN),
        out_port: port,
        out_group: ANY_GROUP,
        table: 98,
        matching: tcp(),
    };
    let everything = FlowMonitor {
        flags: FlowMonitorFlags::REMOVED.with(FlowMonitorFlags::MODIFY),
        out_port: PortNumber::ANY,
        matching: Match::new(),
        ..monitor.clone()
    };
    let mut monitors = vec![monitor.clone(), everything];
    if version >= V14 {
        let full = monitor.flags.with(FlowMonitorFlags::NO_ABBREV);
        let full = FlowMonitor { flags: full, ..monitor.clone() };
        all.push(("request full flow monitor", Request::FlowMonitor(vec![full])));
        let command = FlowMonitorCommand::Modify;
        monitors.push(FlowMonitor { command, out_group: 99, ..monitor.clone() });
        let (command, flags) = (FlowMonitorCommand::Delete, FlowMonitorFlags::default());
        monitors.push(FlowMonitor { command, flags, ..monitor });
    }
    all.push(("request flow monitor", Request::FlowMonitor(monitors)));
    if version == V15 {
        all.push(("request counters", Request::FlowCounters(flow_request(version))));
    }
    all
}

pub(super) fn replies(version: Version) -> Vec<(&'static str, Reply)> {
    let old = version == V10;
    let duration = if old { Elapsed::default() } else { elapsed() };
    let description = Description {
        manufacturer: "maker".to_owned(),
        hardware: "hard".to_owned(),
        software: "soft".to_owned(),
        serial: "serial".to_owned(),
        datapath: "path".to_owned(),
    };
    let table = TableStats {
        table: 3,
        name: if old { "third".to_owned() } else { String::new() },
        wildcards: if old { 0x3f_ffff } else { 0 },
        max_entries: if old { 1001 } else { 0 },
        active: 1002,
        lookups: 1003,
        matches: 1004,
    };
    let stats = PortStats {
        port: PortNumber(4),
        duration,
        received: 1011,
        sent: 1012,
        received_bytes: 1013,
        sent_bytes: 1014,
        received_dropped: 1015,
        sent_dropped: 1016,
        received_errors: 1017,
        sent_errors: 1018,
        ethernet: Some(EthernetErrors { frame: 1, overrun: 2, crc: 3, collisions: 4 }),
        others: Vec::new(),
    };
    let queue = QueueStats {
        port: PortNumber(5),
        queue: 1021,
        bytes: 1022,
        packets: 1023,
        errors: 1024,
        duration,
    };
    let aggregate = AggregateStats { packets: 1031, bytes: 1032, flows: 1033 };
    let groups = GroupStats {
        group: 1041,
        references: 1042,
        packets: 1043,
        bytes: 1044,
        duration: elapsed(),
        buckets: vec![(1045, 1046), (1047, 1048)],
    };
    let description_of_group = GroupDesc {
        group: 1051,
        kind: GroupType::Select,
        buckets: group(version).buckets,
        selection: group(version).selection,
    };
    let features = GroupFeatures {
        types: 0xf,
        capabilities: 3,
        greatest: [1061, 1062, 1063, 1064],
        actions: [0x1, 0x801, 0x1001, 0x8001],
    };
    let updated = |event| FlowUpdated {
        event,
        table: 101,
        priority: 102,
        idle_timeout: 103,
        hard_timeout: 104,
        cookie: 105,
        matching: tcp(),
        instructions: flow_stats(version).instructions,
    };
    let removed = FlowEvent::Removed(FlowRemovedReason::HardTimeout);
    let mut updates = vec![
        FlowUpdate::Flow(updated(FlowEvent::Added)),
        FlowUpdate::Flow(FlowUpdated { matching: Match::new(), ..updated(FlowEvent::Modified) }),
        FlowUpdate::Flow(FlowUpdated { instructions: Vec::new(), ..updated(removed) }),
        FlowUpdate::Abbreviated { xid: 106 },
    ];
    if version >= V14 {
        updates.push(FlowUpdate::Flow(updated(FlowEvent::Initial)));
        updates.extend([FlowUpdate::Paused, FlowUpdate::Resumed]);
    }
    let mut all = vec![
        ("reply flow monitor", Reply::FlowMonitor(updates)),
        ("reply desc", Reply::Desc(description)),
        ("reply flow", Reply::Flow(vec![flow_stats(version), flow_stats(version)])),
        ("reply aggregate", Reply::Aggregate(aggregate)),
        ("reply table", Reply::Table(vec![table])),
        ("reply port", Reply::Port(vec![stats])),
        ("reply queue", Reply::Queue(vec![queue])),
        ("reply group", Reply::Group(vec![groups])),
        ("reply group desc", Reply::GroupDesc(vec![description_of_group])),
        ("reply group features", Reply::GroupFeatures(features)),
        ("reply port desc", Reply::PortDesc(vec![port(version), port(version)])),
    ];
    if old {
        let seconds = |seconds| Some(Elapsed { seconds, nanoseconds: 0 });
        let flow = FlowStats { idle: seconds(41), unchanged: seconds(42), ..flow_stats(version) };
        all.push(("reply flow of Nicira's", Reply::NiciraFlow(vec![flow])));
        all.push(("reply aggregate of Nicira's", Reply::NiciraAggregate(aggregate)));
        return all;
    }
    let bands = bands();
    let meter = MeterStats {
        meter: 1071,
        flows: 1072,
        packets: 1073,
        bytes: 1074,
        duration: elapsed(),
        bands: vec![(1075, 1076)],
    };
    let meter_features = MeterFeatures {
        greatest: 1081,
        band_types: 6,
        capabilities: MeterFlags::KNOWN,
        bands: 82,
        colors: 83,
        features: if version == V15 { 84 } else { 0 },
    };
    let config =
        MeterConfig { meter: 1084, flags: MeterFlags::KBPS.with(MeterFlags::STATS), bands };
    all.push(("reply meter", Reply::Meter(vec![meter])));
    all.push(("reply meter config", Reply::MeterConfig(vec![config])));
    let name = if version == V15 { "reply longer meter features" } else { "reply meter features" };
    all.push((name, Reply::MeterFeatures(meter_features)));
    all.push(("reply table features", Reply::TableFeatures(vec![table_features(version)])));
    if version >= V14 {
        all.push(("reply table desc", Reply::TableDesc(vec![table_desc()])));
        all.push(("reply queue desc", Reply::QueueDesc(vec![queue_config()])));
    }
    if version == V15 {
        let bare = FlowStats::new(4, 33, tcp(), Vec::new());
        let counters = FlowStats { duration: elapsed(), packets: 38, bytes: 3900, ..bare };
        all.push(("reply counters", Reply::FlowCounters(vec![counters])));
    }
    all
}

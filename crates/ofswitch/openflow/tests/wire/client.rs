//! Open vSwitch's client against a switch that has no more than our codec: it answers and
//! remembers.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use linerate_openflow::wire::multipart::{
    AggregateStats, Description, FeaturesCommand, FlowStats, GroupDesc, GroupFeatures, KindId,
    MeterConfig, MeterFeatures, Reply, Request, TableFeatures, TableProperty, TableStats,
};
use linerate_openflow::wire::{
    Action, BundleControl, BundleStep, Capabilities, Config, ConfigFlags, ErrorMessage, Ethernet,
    Fault, Features, Field, FieldId, FlowMod, GroupMod, Hello, Instruction, Message, MeterMod,
    MultipartReply, Port, PortConfig, PortNumber, PortState, Stream, Version,
};

/// Messages received, by type.
#[derive(Debug, Default)]
struct Kept {
    flows: Vec<FlowMod>,
    groups: Vec<GroupMod>,
    meters: Vec<MeterMod>,
    others: Vec<Message>,
    faults: Vec<Fault>,
}

fn port(number: u32) -> Port {
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, number as u8],
        name: format!("port{number}"),
        config: PortConfig::default(),
        state: PortState::LIVE,
        ethernet: Some(Ethernet::default()),
        others: Vec::new(),
    }
}

fn table(number: u8, version: Version) -> TableFeatures {
    let fields = |masked| {
        let all = [Field::InPort, Field::EthSrc, Field::EthDst, Field::EthType, Field::Ipv4Src];
        let id = |&field: &Field| FieldId::new(field, masked && field.is_maskable(), version);
        all.iter().map(id).collect::<Vec<_>>()
    };
    let kinds = |kinds: &[u16]| kinds.iter().map(|&kind| KindId::standard(kind)).collect();
    let miss = false;
    TableFeatures {
        table: number,
        command: FeaturesCommand::Replace,
        features: 0,
        name: format!("table{number}"),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: 0,
        max_entries: 1000,
        properties: vec![
            TableProperty::Instructions { miss, kinds: kinds(&[1, 2, 3, 4, 5]) },
            TableProperty::NextTables { miss, tables: (number + 1..3).collect() },
            TableProperty::WriteActions { miss, kinds: kinds(&[0, 22, 25]) },
            TableProperty::ApplyActions { miss, kinds: kinds(&[0, 22, 25]) },
            TableProperty::Match(fields(true)),
            TableProperty::Wildcards(fields(false)),
            TableProperty::WriteSetField { miss, fields: fields(false) },
            TableProperty::ApplySetField { miss, fields: fields(false) },
        ],
    }
}

fn answer_statistics(request: &Request, version: Version, kept: &Kept) -> Reply {
    let flows = || {
        let stats = |flow: &FlowMod| FlowStats {
            cookie: flow.cookie.unwrap_or(0),
            ..FlowStats::new(
                flow.table,
                flow.priority,
                flow.matching.clone(),
                flow.instructions.clone(),
            )
        };
        kept.flows.iter().map(stats).collect::<Vec<_>>()
    };
    let together = AggregateStats { packets: 1, bytes: 64, flows: kept.flows.len() as u32 };
    match request {
        Request::Desc => Reply::Desc(Description {
            manufacturer: "Linerate".to_owned(),
            ..Description::default()
        }),
        Request::Flow(_) | Request::FlowCounters(_) => Reply::Flow(flows()),
        Request::NiciraFlow(_) => Reply::NiciraFlow(flows()),
        Request::Aggregate(_) => Reply::Aggregate(together),
        Request::NiciraAggregate(_) => Reply::NiciraAggregate(together),
        Request::Table => Reply::Table(vec![TableStats {
            table: 0,
            name: "table0".to_owned(),
            wildcards: 0,
            max_entries: 1000,
            active: 1,
            lookups: 2,
            matches: 3,
        }]),
        Request::Port(_) => Reply::Port(Vec::new()),
        Request::Queue { .. } => Reply::Queue(Vec::new()),
        Request::Group(_) => Reply::Group(Vec::new()),
        Request::GroupDesc(_) => Reply::GroupDesc(
            kept.groups
                .iter()
                .map(|change| GroupDesc {
                    group: change.group,
                    kind: change.kind,
                    buckets: change.buckets.clone(),
                    selection: change.selection.clone(),
                })
                .collect(),
        ),
        Request::GroupFeatures => Reply::GroupFeatures(GroupFeatures {
            types: 0xf,
            capabilities: 0,
            greatest: [9; 4],
            actions: [1; 4],
        }),
        Request::Meter(_) => Reply::Meter(Vec::new()),
        Request::MeterConfig(_) => Reply::MeterConfig(
            kept.meters
                .iter()
                .map(|change| MeterConfig {
                    meter: change.meter,
                    flags: change.flags,
                    bands: change.bands.clone(),
                })
                .collect(),
        ),
        Request::MeterFeatures => Reply::MeterFeatures(MeterFeatures {
            greatest: 9,
            band_types: 6,
            capabilities: linerate_openflow::wire::MeterFlags::KNOWN,
            bands: 8,
            colors: 8,
            features: 0,
        }),
        Request::TableFeatures(_) => {
            Reply::TableFeatures((0..3).map(|number| table(number, version)).collect())
        }
        Request::PortDesc(_) => Reply::PortDesc(vec![port(1), port(2)]),
        Request::TableDesc => Reply::TableDesc(Vec::new()),
        Request::QueueDesc { .. } => Reply::QueueDesc(Vec::new()),
        Request::FlowMonitor(_) => Reply::FlowMonitor(Vec::new()),
    }
}

/// Returns the answers to a message.
fn answer(message: Message, version: Version, kept: &mut Kept) -> Vec<Message> {
    let config = Config { flags: ConfigFlags::default(), miss_send_len: 128 };
    match message {
        Message::Hello(_) => Vec::new(),
        Message::EchoRequest(data) => vec![Message::EchoReply(data)],
        Message::FeaturesRequest => vec![Message::FeaturesReply(Features {
            datapath: 0x42,
            buffers: 0,
            tables: 3,
            auxiliary: 0,
            capabilities: Capabilities::FLOW_STATS,
            actions: 0xfff,
            ports: if version == Version::V10 { vec![port(1), port(2)] } else { Vec::new() },
        })],
        Message::GetConfigRequest => vec![Message::GetConfigReply(config)],
        Message::BarrierRequest => vec![Message::BarrierReply],
        Message::MultipartRequest(request) => {
            let body = answer_statistics(&request.body, version, kept);
            vec![Message::MultipartReply(MultipartReply { more: false, body })]
        }
        Message::BundleControl(control) => {
            let step = BundleStep::from_number(control.step.number() + 1).expect("its answer");
            vec![Message::BundleControl(BundleControl { step, ..control })]
        }
        Message::BundleAdd(add) => match Message::decode(&add.message) {
            Ok((_, _, inner)) => answer(inner, version, kept),
            Err(fault) => {
                kept.faults.push(fault);
                Vec::new()
            }
        },
        Message::FlowMod(flow) => {
            kept.flows.push(flow);
            Vec::new()
        }
        Message::GroupMod(group) => {
            kept.groups.push(group);
            Vec::new()
        }
        Message::MeterMod(meter) => {
            kept.meters.push(meter);
            Vec::new()
        }
        other => {
            kept.others.push(other);
            Vec::new()
        }
    }
}

fn serve(mut client: UnixStream, version: Version, kept: &Mutex<Kept>) {
    let hello =
        Message::Hello(Hello::from_versions(&[version])).encode(version, 0).expect("a hello");
    if client.write_all(&hello).is_err() {
        return;
    }
    let (mut stream, mut buffer) = (Stream::new(), [0; 4096]);
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        stream.push(&buffer[..count]);
        while let Some(bytes) = stream.next_message().expect("a client's lengths are right") {
            let kept = &mut kept.lock().expect("nobody panicked");
            let (xid, answers) = match Message::decode(bytes) {
                Ok((_, xid, message)) => (xid, answer(message, version, kept)),
                Err(fault) => {
                    kept.faults.push(fault);
                    (0, vec![Message::Error(ErrorMessage::new(fault, version, bytes))])
                }
            };
            for answer in answers {
                let bytes = answer.encode(version, xid).expect("the version has its answers");
                if client.write_all(&bytes).is_err() {
                    return;
                }
            }
        }
    }
}

/// A switch of one version, and the messages it received.
struct Switch {
    kept: Arc<Mutex<Kept>>,
    path: PathBuf,
    version: Version,
}

impl Switch {
    fn new(folder: &Path, version: Version) -> Switch {
        let path = folder.join(format!("switch-{version}"));
        let listener = UnixListener::bind(&path).expect("a socket");
        let kept = Arc::default();
        let shared = Arc::clone(&kept);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(client, version, &shared));
            }
        });
        Switch { kept, path, version }
    }

    /// Returns the output of the client.
    #[track_caller]
    fn run(&self, command: &[&str]) -> String {
        let version = format!("OpenFlow{}", self.version.to_string().replace('.', ""));
        let socket = format!("unix:{}", self.path.display());
        let arguments = command.iter().map(|&part| if part == "SWITCH" { &socket } else { part });
        let output = Command::new(linerate_test_support::require("ovs-ofctl"))
            .args(["--timeout=20", "-O", &version])
            .args(arguments)
            .output()
            .expect("ovs-ofctl runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{version} {command:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[test]
#[ignore = "needs ovs-ofctl"]
fn open_vswitch_is_a_client() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for version in Version::ALL {
        let switch = Switch::new(folder.path(), version);
        assert!(switch.run(&["show", "SWITCH"]).contains("2(port2): addr:02:00:00:00:00:02"));
        assert!(switch.run(&["dump-desc", "SWITCH"]).contains("Manufacturer: Linerate"));
        assert!(switch.run(&["dump-tables", "SWITCH"]).contains("active=1, lookup=2, matched=3"));
        for command in ["dump-ports", "queue-stats", "dump-group-stats", "probe"] {
            switch.run(&[command, "SWITCH"]);
        }
        let flow = "table=0,priority=7,cookie=5,ip,nw_src=10.0.0.0/8,actions=output:2";
        switch.run(&["add-flow", "SWITCH", flow]);
        let dumped = switch.run(&["dump-flows", "SWITCH"]);
        let wanted = "cookie=0x5, duration=0s, table=";
        assert!(dumped.contains(wanted) && dumped.contains("ip,nw_src=10.0.0.0/8"), "{dumped}");
        assert!(switch.run(&["dump-aggregate", "SWITCH"]).contains("flow_count=1"));
        switch.run(&["add-group", "SWITCH", "group_id=3,type=all,bucket=output:1"]);
        assert!(switch.run(&["dump-groups", "SWITCH"]).contains("group_id=3,type=all"));
        switch.run(&["del-flows", "SWITCH", "tcp"]);
        switch.run(&["mod-port", "SWITCH", "2", "down"]);
        switch.run(&[
            "packet-out",
            "SWITCH",
            "in_port=1 packet=0102030405060708090a0b0c0d0e actions=flood",
        ]);
        if version != Version::V10 {
            switch.run(&["add-meter", "SWITCH", "meter=4,kbps,band=type=drop,rate=9"]);
            assert!(switch.run(&["dump-meters", "SWITCH"]).contains("meter=4 kbps"));
            switch.run(&["--bundle", "add-flow", "SWITCH", "table=1,actions=drop"]);
            let features = switch.run(&["dump-table-features", "SWITCH"]);
            assert!(features.contains("table 0 (\"table0\")"), "{features}");
        }

        let kept = switch.kept.lock().expect("nobody panicked");
        assert_eq!(kept.faults, []);
        let first = &kept.flows[0];
        let output = Action::Output { port: PortNumber(2), max_len: 0 };
        assert_eq!(first.instructions, [Instruction::ApplyActions(vec![output])]);
        assert_eq!((first.priority, first.cookie), (7, Some(5)));
        assert_eq!(kept.flows.len(), if version == Version::V10 { 2 } else { 3 });
        assert!(kept.flows[1].command.deletes());
        let of =
            |wanted: fn(&Message) -> bool| kept.others.iter().filter(|other| wanted(other)).count();
        assert_eq!(of(|message| matches!(message, Message::PortMod(_))), 1);
        assert_eq!(of(|message| matches!(message, Message::PacketOut(_))), 1);
        assert_eq!(kept.groups.len(), 1);
    }
}

//! A controller with arbitrary messages: the agent answers in messages that can be read, never more
//! than it may, and the switch keeps no more than it has room for.

use std::sync::{Arc, LazyLock};

use linerate_ofswitch::control::{Agent, AgentOptions};
use linerate_ofswitch::switch::{Switch, SwitchOptions};
use linerate_openflow::wire::group::ALL_GROUPS;
use linerate_openflow::wire::meter::ALL_METERS;
use linerate_openflow::wire::{
    ALL_TABLES, FlowMod, FlowModCommand, GroupCommand, GroupMod, GroupType, HEADER, Header, Hello,
    Match, Message, MeterCommand, MeterFlags, MeterMod, Port, PortConfig, PortNumber, PortState,
    Stream, Version,
};

/// Limits of flows per table, of groups, and of meters.
const ROOM: u32 = 64;

/// Bytes of answers at a time, at most.
const MOST: usize = 4 << 20;

static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    let options = SwitchOptions {
        tables: 4,
        flows: ROOM,
        groups: ROOM,
        meters: ROOM,
        ..SwitchOptions::default()
    };
    let switch = Switch::new(options);
    for number in 1..=4 {
        let port = Port {
            number: PortNumber(number),
            address: [2, 0, 0, 0, 0, number as u8],
            name: format!("port{number}"),
            config: PortConfig::default(),
            state: PortState::LIVE,
            ethernet: None,
            others: Vec::new(),
        };
        switch.add_port(port, 0);
    }
    Agent::start(switch, AgentOptions::default()).expect("an agent")
});

/// Sends the bytes as a controller's messages, in the version of the first. Lengths are corrected,
/// so that not all of an input is about them.
pub(crate) fn controller(bytes: &[u8]) {
    let version = bytes.first().and_then(|first| Version::from_number(*first));
    let version = version.unwrap_or(Version::V13);
    let mut conversation = AGENT.conversation().expect("files are left");
    let hello =
        Message::Hello(Hello::from_versions(&[version])).encode(version, 0).expect("a hello");
    let mut heard = Heard { stream: Stream::new(), version };
    conversation.send(&hello).expect("it begins right");
    let mut rest = bytes.to_vec();
    let mut at = 0;
    while let Some(header) = Header::read(&rest[at..]) {
        let left = rest.len() - at;
        let mut length = usize::from(header.length);
        if !(HEADER..=left).contains(&length) {
            length = left.min(usize::from(u16::MAX));
            rest[at + 2..at + 4].copy_from_slice(&(length as u16).to_be_bytes());
        }
        conversation.send(&rest[at..at + length]).expect("lengths are right");
        heard.take(&conversation.recv());
        at += length;
        // Packets to be sent are discarded.
        while AGENT.switch().next_injection().is_some() {}
    }
    conversation.send(&[]).expect("lengths are right");
    heard.take(&conversation.recv());
    drop(conversation);
    clean();
}

/// Checks answers.
struct Heard {
    stream: Stream,
    version: Version,
}

impl Heard {
    fn take(&mut self, bytes: &[u8]) {
        assert!(bytes.len() < MOST, "{} bytes of answers", bytes.len());
        self.stream.push(bytes);
        while let Some(bytes) = self.stream.next_message().expect("lengths are right") {
            if let Err(fault) = Message::decode(bytes) {
                panic!("{fault} in {}: {bytes:02x?}", self.version);
            }
        }
        assert_eq!(self.stream.waiting(), 0, "messages are whole");
    }
}

/// Deletes all flows, groups and meters, and checks that they are gone.
fn clean() {
    let switch: &Arc<Switch> = AGENT.switch();
    for table in 0..switch.options().tables {
        let flows = switch.snapshot().table(table).map_or(0, |table| table.len());
        assert!(flows <= ROOM as usize, "{flows} flows in a table");
    }
    let mut flows = FlowMod::add(ALL_TABLES, 0, Match::new(), Vec::new());
    flows.command = FlowModCommand::Delete;
    let groups = GroupMod {
        command: GroupCommand::Delete,
        kind: GroupType::All,
        group: ALL_GROUPS,
        at: u32::MAX,
        buckets: Vec::new(),
        selection: None,
    };
    let meters = MeterMod {
        command: MeterCommand::Delete,
        flags: MeterFlags::default(),
        meter: ALL_METERS,
        bands: Vec::new(),
    };
    switch.flow_mod(&flows, Version::V13, 1).expect("flows can be deleted");
    switch.group_mod(&groups, Version::V13, 1).expect("groups can be deleted");
    switch.meter_mod(&meters, 1).expect("meters can be deleted");
    let snapshot = switch.snapshot();
    let left = (0..snapshot.tables()).filter_map(|table| snapshot.table(table));
    assert_eq!(left.map(|table| table.len()).sum::<usize>(), 0);
}

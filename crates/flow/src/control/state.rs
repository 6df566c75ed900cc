//! The switch's state in a file: flows, groups, meters, and how tables and ports are set.
//!
//! The file has the messages of OpenFlow that make the state again, so whatever reads OpenFlow reads it. It
//! is written whole, beside the one before, and then takes its place: who is killed while writing loses
//! nothing but the last changes. Counters and ages begin anew.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::events::STANDALONE_COOKIE;
use super::shared::Shared;
use super::waker::{Waker, wait};
use crate::switch::Switch;
use crate::table::Flow;
use crate::wire::group::ALL_GROUPS;
use crate::wire::meter::ALL_METERS;
use crate::wire::multipart::{Reply, Request};
use crate::wire::{
    Fault, FlowFlags, FlowMod, GroupCommand, GroupMod, Message, MeterCommand, MeterMod, PortConfig,
    PortMod, Stream, TableMod, Version,
};

/// What the file begins with: what it is, as a comment that is no message.
const MAGIC: &[u8] = b"Linerate flow switch 1\n";

/// How long after a change it is written.
const PAUSE: Duration = Duration::from_secs(1);

/// Writing takes at most this part of the time.
const SHARE: u32 = 20;

/// What was read from a file.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// Settings of ports that are not there yet.
    pub(super) ports: Vec<PortMod>,
    /// Messages the switch does not take any more, as it has fewer tables now, say.
    pub(super) refused: u64,
}

/// All that makes the state again, as messages.
fn messages(switch: &Switch, ports: &[PortMod], now: u64) -> Vec<Message> {
    let snapshot = switch.snapshot();
    let mut all = Vec::new();
    for number in 0..snapshot.tables() {
        let Some(table) = snapshot.table(number) else { continue };
        let mut properties = table.properties;
        if let Some(vacancy) = &mut properties.vacancy {
            vacancy.now = 0;
        }
        let change = TableMod { table: number, config: table.config, properties };
        if change != (TableMod { table: number, ..default_table() }) {
            all.push(Message::TableMod(change));
        }
    }
    if let Ok(Reply::MeterConfig(meters)) =
        switch.answer(&Request::MeterConfig(ALL_METERS), Version::V15, now)
    {
        all.extend(meters.into_iter().map(|meter| {
            let (command, flags, bands) = (MeterCommand::Add, meter.flags, meter.bands);
            Message::MeterMod(MeterMod { command, flags, meter: meter.meter, bands })
        }));
    }
    if let Ok(Reply::GroupDesc(groups)) =
        switch.answer(&Request::GroupDesc(ALL_GROUPS), Version::V15, now)
    {
        all.extend(groups.into_iter().map(|group| {
            Message::GroupMod(GroupMod {
                command: GroupCommand::Add,
                kind: group.kind,
                group: group.group,
                at: u32::MAX,
                buckets: group.buckets,
                selection: group.selection,
            })
        }));
    }
    let tables = 0..snapshot.tables();
    let flows = tables.flat_map(|table| snapshot.flows(table));
    all.extend(flows.filter(|flow| flow.cookie != STANDALONE_COOKIE).map(|flow| again(flow)));
    for port in snapshot.ports().filter(|port| port.port.config != PortConfig::default()) {
        all.push(Message::PortMod(PortMod {
            number: port.number(),
            address: port.port.address,
            config: port.port.config,
            mask: PortConfig::KNOWN,
            advertise: None,
        }));
    }
    all.extend(ports.iter().cloned().map(Message::PortMod));
    all
}

fn default_table() -> TableMod {
    TableMod { table: 0, config: Default::default(), properties: Default::default() }
}

/// What adds a flow as it is.
fn again(flow: &Arc<Flow>) -> Message {
    let matching = flow.matching.clone();
    let mut change = FlowMod::add(flow.table, flow.priority, matching, flow.instructions.clone());
    change.cookie = Some(flow.cookie);
    change.idle_timeout = flow.idle_timeout;
    change.hard_timeout = flow.hard_timeout;
    change.importance = flow.importance;
    // It was found not to overlap when it came.
    change.flags = FlowFlags(flow.flags.0 & !FlowFlags::CHECK_OVERLAP.0);
    Message::FlowMod(change)
}

/// A message in the newest version that has it.
fn encode(message: &Message) -> Option<Vec<u8>> {
    Version::ALL.iter().rev().find_map(|&version| message.encode(version, 0).ok())
}

/// Writes the state, beside the file that is there and then in its place.
pub(super) fn save(switch: &Switch, path: &Path, ports: &[PortMod], now: u64) -> io::Result<()> {
    let mut bytes = MAGIC.to_vec();
    for message in messages(switch, ports, now) {
        if let Some(message) = encode(&message) {
            bytes.extend(message);
        }
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut file = File::create(&beside)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// Reads the state from a file, if there is one.
pub(super) fn restore(switch: &Switch, path: &Path, now: u64) -> io::Result<Restored> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Restored::default()),
        Err(error) => return Err(error),
    };
    let invalid = |problem: &str| io::Error::new(io::ErrorKind::InvalidData, problem.to_owned());
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| invalid("no state of a flow switch"))?;
    let mut stream = Stream::new();
    stream.push(rest);
    let mut wanted = Vec::new();
    loop {
        match stream.next_message().map(|message| message.map(Message::decode)) {
            Ok(Some(Ok((version, _, message)))) => wanted.push((version, message)),
            Ok(None) if stream.waiting() == 0 => break,
            Ok(None) => return Err(invalid("it is cut short")),
            Ok(Some(Err(fault))) | Err(fault) => return Err(invalid(&fault.to_string())),
        }
    }
    let mut restored = Restored::default();
    // Groups may be of groups that come later: as long as some are taken, others may be.
    loop {
        let before = wanted.len();
        wanted.retain(|(version, message)| !apply(switch, message, *version, now, &mut restored));
        if wanted.is_empty() || wanted.len() == before {
            break;
        }
    }
    restored.refused = wanted.len() as u64;
    Ok(restored)
}

/// Whether a message was taken.
fn apply(
    switch: &Switch,
    message: &Message,
    version: Version,
    now: u64,
    restored: &mut Restored,
) -> bool {
    match message {
        Message::FlowMod(flow) => switch.flow_mod(flow, version, now).is_ok(),
        Message::GroupMod(group) => {
            // It may have been kept while the switch went on.
            let made = switch.group_mod(group, version, now);
            made.is_ok() || made == Err(Fault::GroupExists)
        }
        Message::MeterMod(meter) => {
            let made = switch.meter_mod(meter, now);
            made.is_ok() || made == Err(Fault::MeterExists)
        }
        Message::TableMod(table) => switch.table_mod(table, version, now).is_ok(),
        Message::PortMod(port) => {
            restored.ports.push(port.clone());
            true
        }
        _ => false,
    }
}

/// Sets ports that have come meanwhile as they were.
pub(super) fn set_ports(switch: &Switch, ports: &mut Vec<PortMod>, now: u64) {
    let snapshot = switch.snapshot();
    // One that is another now, by its address, is left as it is.
    ports.retain(|port| {
        let here = snapshot.port(port.number).is_some();
        if here {
            let _another = switch.port_mod(port, now);
        }
        !here
    });
}

/// Writes the state whenever it has changed, until the agent stops.
pub(super) fn keep(shared: &Arc<Shared>, path: &Path, mut ports: Vec<PortMod>, waker: &Waker) {
    let mut kept = None;
    loop {
        let stops = shared.stop.is_set();
        set_ports(&shared.switch, &mut ports, shared.now());
        let version = shared.switch.version();
        let mut pause = PAUSE;
        if kept != Some(version) {
            let began = Instant::now();
            let saved = save(&shared.switch, path, &ports, shared.now());
            *shared.state_problem() =
                saved.as_ref().err().map(|error| format!("{}: {error}", path.display()));
            if saved.is_ok() {
                kept = Some(version);
            }
            pause = pause.max(SHARE * began.elapsed());
        }
        if stops {
            return;
        }
        let deadline = Instant::now() + pause;
        while !shared.stop.is_set() && Instant::now() < deadline {
            wait(waker, None, Some(deadline.saturating_duration_since(Instant::now())));
        }
    }
}

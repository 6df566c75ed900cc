//! The state of a switch as a text: to be kept over a restart.
//!
//! A line is a table, a meter, a group, a flow or a port, behind those that it refers to:
//!
//! ```text
//! # Linerate flow switch, format 1
//! fragments drop
//! table 1 miss=continue,eviction,vacancy=20/60 name=acl
//! meter 1.5 meter=1,pktps,stats,band=type=drop,rate=1000
//! group 1.5 group_id=1,type=all,bucket=bucket_id:0,actions=output:1
//! flow 1.5 priority=10,in_port=1 actions=group:1
//! port 0x20 eth1
//! ```
//!
//! Meters, groups and flows are in the syntax of `ovs-ofctl` ([`text`](crate::text)) for the
//! version of OpenFlow in the line: the newest in which the text means the same. An entry without a
//! text is a line `message 1.3 040e…`, the bytes of a message. A port is its configuration, by its
//! name, as numbers may be others the next time. Empty lines, and those that begin with `#`, are
//! skipped. Tables and ports that are set as they are at first have no line.
//!
//! Counters, ages, learnt hosts and connections are not kept: restored entries begin anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use super::edit::{Effect, check_instructions};
use super::flows::Plan;
use super::state::ControlState;
use super::{Edit, Switch, flows, journal, lock};
use crate::meter::Meter;
use crate::table::{Change, Flow, Group, Reference, Snapshot, Table, of_actions};
use crate::text::Syntax;
use crate::wire::group::{ALL_BUCKETS, ALL_GROUPS};
use crate::wire::meter::ALL_METERS;
use crate::wire::multipart::MeterConfig;
use crate::wire::{
    Fault, FlowMod, FlowModCommand, GroupCommand, GroupMod, GroupType, Message, MeterCommand,
    MeterFlags, MeterMod, PortConfig, TableConfig, TableMod, TableProperties, Vacancy, Version,
};

const HEAD: &str = "# Linerate flow switch, format 1";

/// An error in a state that was to be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// In the text.
    #[error("line {line}: {what}")]
    Line {
        /// The line, from 1 on.
        line: usize,
        /// The error.
        what: String,
    },
    /// In the journal.
    #[error("change {change} of the journal: {what}")]
    Change {
        /// The change, from 1 on.
        change: usize,
        /// The error.
        what: String,
    },
}

/// Error of an entry that neither text nor message can express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no version of OpenFlow can say this {kind}: {message}")]
pub struct SaveError {
    /// Its type: a flow, a group or a meter.
    pub kind: &'static str,
    /// The message that would add it.
    pub message: String,
}

impl From<SaveError> for io::Error {
    fn from(error: SaveError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// A line that was read.
#[derive(Debug)]
pub(super) enum SavedLine {
    Change(Message, Version),
    /// A flow that has become another.
    Modified(FlowMod),
    Table(TableMod, Option<String>),
    Port(String, u32),
    Fragments(bool),
}

/// A switch's state at one moment, to be written when there is time.
#[derive(Debug)]
pub struct Saved {
    tables: Arc<Snapshot>,
    /// Configurations of ports that have not come yet.
    ports: HashMap<String, u32>,
}

impl Saved {
    /// The tables.
    pub(crate) fn tables(&self) -> &Snapshot {
        &self.tables
    }

    /// Writes all of it, a line after the other, up to the first entry that cannot be expressed.
    pub fn write<E: From<SaveError>>(
        &self,
        mut write: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let tables = &*self.tables;
        let mut text = format!("{HEAD}\n");
        let mut flush = |text: &mut String| {
            let written = write(text);
            text.clear();
            written
        };
        if tables.drops_fragments() {
            text += &fragments_line(true);
            text.push('\n');
        }
        for number in 0..tables.tables() {
            let Some(table) = tables.table(number) else { continue };
            if !print_table(table).is_empty() {
                text += &table_line(number, table);
                text.push('\n');
            }
        }
        let mut meters: Vec<_> = tables.meters().collect();
        meters.sort_by_key(|meter| meter.number);
        for meter in meters {
            let change = meter_mod(meter);
            let (meter, flags, bands) = (change.meter, change.flags, change.bands.clone());
            let config = MeterConfig { meter, flags, bands };
            let said = |syntax: &Syntax<'_>| {
                let said = syntax.print_meter(&config);
                (syntax.meter(&said, MeterCommand::Add).ok()? == change).then_some(said)
            };
            put(&mut text, "meter", said, &Message::MeterMod(change.clone()))?;
            flush(&mut text)?;
        }
        for group in in_order(tables) {
            let change = group_mod(group);
            let said = |syntax: &Syntax<'_>| {
                let said = syntax.print_group_mod(&change);
                (syntax.group(&said, GroupCommand::Add).ok()? == change).then_some(said)
            };
            put(&mut text, "group", said, &Message::GroupMod(change.clone()))?;
            flush(&mut text)?;
        }
        for number in 0..tables.tables() {
            let mut flows: Vec<_> = tables.flows(number).collect();
            flows.sort_by_key(|flow| (std::cmp::Reverse(flow.priority), flow.number));
            for flow in flows {
                let change = flow_mod(flow);
                let said = |syntax: &Syntax<'_>| {
                    let said = syntax.print_flow(&change);
                    (syntax.flow(&said, FlowModCommand::Add).ok()? == change).then_some(said)
                };
                put(&mut text, "flow", said, &Message::FlowMod(change.clone()))?;
                flush(&mut text)?;
            }
        }
        let there = tables.ports().map(|port| (port.port.name.clone(), port.port.config.0));
        let there = there.filter(|(_, config)| *config != PortConfig::default().0);
        // Those that have not come yet are to be set so when they do.
        for (name, config) in there.chain(BTreeMap::from_iter(self.ports.clone())) {
            text += &port_line(&name, PortConfig(config));
            text.push('\n');
        }
        flush(&mut text)
    }
}

impl Switch {
    pub(super) fn saved_with(&self, state: &ControlState) -> Saved {
        Saved { tables: self.snapshot(), ports: state.port_configs.clone() }
    }

    /// Returns the state as a text, or an error about the first entry that cannot be expressed.
    pub fn save(&self) -> Result<String, SaveError> {
        let saved = self.saved_with(&lock(&self.state));
        let mut all = String::new();
        saved.write(|text| {
            all += text;
            Ok::<_, SaveError>(())
        })?;
        Ok(all)
    }

    /// Restores the state of a text and the changes of a [journal](super::Journal) after it, at a
    /// time of the steady clock in nanoseconds: all state is replaced, as one version. After an
    /// error all stays as it is. A port's configuration is restored when the port is there, or else
    /// when it comes.
    pub fn restore(&self, text: &str, journal: &[Vec<u8>], now: u64) -> Result<(), RestoreError> {
        let mut lines = Vec::new();
        for (nth, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let wrong = |what| RestoreError::Line { line: nth + 1, what };
                lines.push((nth + 1, read(line).map_err(wrong)?));
            }
        }
        let mut state = lock(&self.state);
        let mut ports = HashMap::new();
        let mut remember = |line: &SavedLine| {
            if let SavedLine::Port(name, config) = line {
                ports.insert(name.clone(), *config);
            }
        };
        self.change(&mut state, true, now, |edit| {
            let wrong = |line: usize| {
                move |fault: Fault| RestoreError::Line { line, what: fault.to_string() }
            };
            edit.clear().map_err(wrong(0))?;
            for (nth, line) in lines {
                edit.restore(&line).map_err(wrong(nth))?;
                remember(&line);
            }
            for (nth, change) in journal.iter().enumerate() {
                let wrong = |what: String| RestoreError::Change { change: nth + 1, what };
                for line in journal::read(change).map_err(wrong)? {
                    edit.replay(line, &mut remember).map_err(|fault| wrong(fault.to_string()))?;
                }
            }
            Ok(())
        })?;
        self.journals.break_off();
        let tables = self.snapshot();
        let is_there = |name: &str| tables.ports().any(|port| port.port.name == name);
        ports.retain(|name, config| *config != PortConfig::default().0 && !is_there(name));
        state.port_configs = ports;
        Ok(())
    }
}

impl Edit<'_> {
    /// Removes all flows, groups and meters, and sets tables as they are at first. No events are
    /// sent.
    fn clear(&mut self) -> Result<(), Fault> {
        for number in 0..self.tables.tables() {
            let flows: Vec<_> = self.tables.flows(number).cloned().collect();
            flows.iter().for_each(|flow| self.remove(flow, None));
            if let Some(table) = self.tables.table_mut(number) {
                table.name = None;
                table.config = TableConfig::default();
                table.properties = TableProperties::default();
            }
            self.effects.push(Effect::Table(number));
        }
        self.group_mod(&group_deletion(ALL_GROUPS), Version::V15)?;
        self.meter_mod(&meter_deletion(ALL_METERS))?;
        self.tables.set_drops_fragments(false);
        self.changes.push(Change::All);
        Ok(())
    }

    fn restore(&mut self, line: &SavedLine) -> Result<(), Fault> {
        match line {
            SavedLine::Change(Message::FlowMod(change), version)
                if change.command == FlowModCommand::Add =>
            {
                // Actions need not fit the match: those of OpenFlow 1.0 may be in another version's
                // form.
                check_instructions(self.tables, change.table, &change.instructions)?;
                self.carry_out(Plan::Add, change, *version)
            }
            SavedLine::Change(Message::FlowMod(change), version) => {
                let plan = flows::plan(self.tables, None, change, *version)?;
                self.carry_out(plan, change, *version)
            }
            SavedLine::Change(Message::GroupMod(change), version) => {
                self.group_mod(change, *version)
            }
            SavedLine::Change(Message::MeterMod(change), _) => self.meter_mod(change),
            SavedLine::Change(Message::TableMod(change), version) => {
                self.table_mod(change, *version)
            }
            SavedLine::Change(..) => Err(Fault::BadType),
            SavedLine::Modified(change) => {
                check_instructions(self.tables, change.table, &change.instructions)?;
                let flow = Flow::new(0, change, self.now);
                let before = self.tables.same_flow(&flow).map(|before| before.number);
                let number = before.unwrap_or_else(|| self.next_number());
                self.put(Arc::new(Flow { number, ..flow }), true);
                Ok(())
            }
            SavedLine::Table(change, name) => {
                self.table_mod(change, Version::V15)?;
                let table = self.tables.table_mut(change.table).ok_or(Fault::BadTableId)?;
                table.name = name.as_deref().map(Into::into);
                Ok(())
            }
            SavedLine::Port(name, config) => {
                let port = self.tables.ports().find(|port| port.port.name == *name);
                if let Some(mut port) = port.map(|port| port.port.clone()) {
                    port.config = PortConfig(*config);
                    self.add_port(port);
                }
                Ok(())
            }
            SavedLine::Fragments(drops) => {
                self.tables.set_drops_fragments(*drops);
                Ok(())
            }
        }
    }

    /// Replaces an object by its state after a change of the journal.
    fn replay(
        &mut self,
        mut line: SavedLine,
        remember: &mut impl FnMut(&SavedLine),
    ) -> Result<(), Fault> {
        match &mut line {
            SavedLine::Change(Message::GroupMod(change), _)
                if change.command == GroupCommand::Add
                    && self.tables.group(change.group).is_some() =>
            {
                change.command = GroupCommand::Modify;
            }
            SavedLine::Change(Message::MeterMod(change), _)
                if change.command == MeterCommand::Add
                    && self.tables.meter(change.meter).is_some() =>
            {
                change.command = MeterCommand::Modify;
            }
            _ => {}
        }
        self.restore(&line)?;
        remember(&line);
        Ok(())
    }
}

/// The flow as a change that adds it.
pub(super) fn flow_mod(flow: &Flow) -> FlowMod {
    FlowMod {
        cookie: Some(flow.cookie),
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        flags: flow.flags,
        importance: flow.importance,
        ..FlowMod::add(flow.table, flow.priority, flow.matching.unpack(), flow.instructions.clone())
    }
}

pub(super) fn group_deletion(group: u32) -> GroupMod {
    GroupMod {
        command: GroupCommand::Delete,
        kind: GroupType::All,
        group,
        at: ALL_BUCKETS,
        buckets: Vec::new(),
        selection: None,
    }
}

pub(super) fn meter_mod(meter: &Meter) -> MeterMod {
    let (number, flags, bands) = (meter.number, meter.flags, meter.bands.clone());
    MeterMod { command: MeterCommand::Add, flags, meter: number, bands }
}

pub(super) fn meter_deletion(meter: u32) -> MeterMod {
    let flags = MeterFlags::default();
    MeterMod { command: MeterCommand::Delete, flags, meter, bands: Vec::new() }
}

pub(super) fn group_mod(group: &Group) -> GroupMod {
    GroupMod {
        command: GroupCommand::Add,
        kind: group.kind,
        group: group.number,
        at: ALL_BUCKETS,
        buckets: group.buckets.iter().map(|bucket| bucket.bucket.clone()).collect(),
        selection: group.selection.clone(),
    }
}

/// Returns all groups, each behind those that it sends to.
fn in_order(tables: &Snapshot) -> Vec<&Group> {
    let mut numbers: Vec<u32> = tables.groups().map(|group| group.number).collect();
    numbers.sort_unstable();
    let (mut done, mut order) = (BTreeSet::new(), Vec::new());
    // A group comes up twice: first its references are put before it, then it is done.
    let mut left: Vec<(u32, bool)> =
        numbers.into_iter().rev().map(|group| (group, false)).collect();
    while let Some((number, ready)) = left.pop() {
        let Some(group) = tables.group(number) else { continue };
        if done.contains(&number) {
            continue;
        }
        if ready {
            done.insert(number);
            order.push(&**group);
            continue;
        }
        left.push((number, true));
        for bucket in &group.buckets {
            of_actions(&bucket.bucket.actions, &mut |reference| {
                if let Reference::Group(next) = reference {
                    left.push((next, false));
                }
            });
        }
    }
    order
}

/// Writes a line in the newest version whose text means the same, else as a message.
fn put(
    text: &mut String,
    kind: &'static str,
    said: impl Fn(&Syntax<'_>) -> Option<String>,
    message: &Message,
) -> Result<(), SaveError> {
    for version in Version::ALL.into_iter().rev() {
        if let Some(said) = said(&Syntax::new(version)) {
            let _ = writeln!(text, "{kind} {version} {said}");
            return Ok(());
        }
    }
    let (version, bytes) = bytes_of(kind, message)?;
    let _ = write!(text, "message {version} ");
    bytes.iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    text.push('\n');
    Ok(())
}

/// Returns a message in the newest version that can express it, and nothing else.
pub(super) fn bytes_of(
    kind: &'static str,
    message: &Message,
) -> Result<(Version, Vec<u8>), SaveError> {
    let same = |version: &Version| {
        let bytes = message.encode(*version, 0).ok()?;
        let (_, _, read) = Message::decode(&bytes).ok()?;
        (read == *message).then_some((*version, bytes))
    };
    let found = Version::ALL.iter().rev().find_map(same);
    found.ok_or_else(|| SaveError { kind, message: format!("{message:?}") })
}

pub(super) fn fragments_line(drop: bool) -> String {
    format!("fragments {}", if drop { "drop" } else { "normal" })
}

pub(super) fn port_line(name: &str, config: PortConfig) -> String {
    format!("port {:#x} {name}", config.0)
}

pub(super) fn table_line(number: u8, table: &Table) -> String {
    let said = print_table(table);
    format!("table {number} {}", if said.is_empty() { "default" } else { &said })
}

/// Prints the configuration of a table, where it is not the initial one.
fn print_table(table: &Table) -> String {
    let mut words = Vec::new();
    let flags = [
        (TableConfig::MISS_CONTINUE, "miss=continue"),
        (TableConfig::MISS_DROP, "miss=drop"),
        (TableConfig::EVICTION, "eviction"),
    ];
    let said = flags.iter().filter(|(flag, _)| table.config.contains(*flag));
    words.extend(said.map(|(_, word)| (*word).to_owned()));
    if let Some(Vacancy { down, up, .. }) = table.properties.vacancy {
        let told = table.config.contains(TableConfig::VACANCY_EVENTS);
        words.extend(told.then(|| format!("vacancy={down}/{up}")));
    }
    let mut said = words.join(",");
    if let Some(name) = &table.name {
        let space = if said.is_empty() { "" } else { " " };
        let _ = write!(said, "{space}name={name}");
    }
    said
}

pub(super) fn read(line: &str) -> Result<SavedLine, String> {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let known = |text: &str| Version::ALL.into_iter().find(|of| of.to_string() == text);
    let version = || {
        let (version, text) = rest.split_once(' ').ok_or("there is no version of OpenFlow")?;
        let version = known(version).ok_or("there is no such version of OpenFlow")?;
        Ok::<_, String>((version, text))
    };
    match kind {
        "flow" => {
            let (version, text) = version()?;
            let flow = Syntax::new(version).flow(text, FlowModCommand::Add);
            let flow = flow.map_err(|error| error.to_string())?;
            Ok(SavedLine::Change(Message::FlowMod(flow), version))
        }
        "group" => {
            let (version, text) = version()?;
            let group = Syntax::new(version).group(text, GroupCommand::Add);
            let group = group.map_err(|error| error.to_string())?;
            Ok(SavedLine::Change(Message::GroupMod(group), version))
        }
        "meter" => {
            let (version, text) = version()?;
            let meter = Syntax::new(version).meter(text, MeterCommand::Add);
            let meter = meter.map_err(|error| error.to_string())?;
            Ok(SavedLine::Change(Message::MeterMod(meter), version))
        }
        "message" => {
            let (_, text) = version()?;
            let digit =
                |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
            let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
            let bytes = bytes.ok_or("these are no bytes")?;
            let (version, _, message) =
                Message::decode(&bytes).map_err(|fault| fault.to_string())?;
            Ok(SavedLine::Change(message, version))
        }
        "table" => read_table(rest),
        "port" => {
            let (config, name) = rest.split_once(' ').ok_or("there is no name")?;
            let number =
                config.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
            let number = number.filter(|number| PortConfig(*number).is_known());
            Ok(SavedLine::Port(name.to_owned(), number.ok_or("ports cannot be set so")?))
        }
        "fragments" if matches!(rest, "drop" | "normal") => {
            Ok(SavedLine::Fragments(rest == "drop"))
        }
        _ => Err(format!("there is no `{kind}` here")),
    }
}

/// A table: how it is set, and its name.
fn read_table(text: &str) -> Result<SavedLine, String> {
    let (number, rest) = text.split_once(' ').ok_or("nothing is said of the table")?;
    let table = number.parse().map_err(|_| "there is no such table")?;
    let (words, name) = match (rest.strip_prefix("name="), rest.split_once(" name=")) {
        (Some(name), _) => ("default", Some(name)),
        (None, Some((words, name))) => (words, Some(name)),
        (None, None) => (rest, None),
    };
    let mut config = TableConfig::default();
    let mut properties = TableProperties::default();
    for word in words.split(',') {
        match (word, word.strip_prefix("vacancy=")) {
            ("default", _) => {}
            ("miss=continue", _) => config = config.with(TableConfig::MISS_CONTINUE),
            ("miss=drop", _) => config = config.with(TableConfig::MISS_DROP),
            ("eviction", _) => config = config.with(TableConfig::EVICTION),
            (_, Some(bounds)) => {
                let percent = |text: &str| text.parse().ok().filter(|percent| *percent <= 100);
                let bounds = bounds.split_once('/');
                let bounds = bounds.and_then(|(down, up)| Some((percent(down)?, percent(up)?)));
                let (down, up) = bounds.ok_or("bounds are two numbers of percent")?;
                config = config.with(TableConfig::VACANCY_EVENTS);
                properties.vacancy = Some(Vacancy { down, up, now: 0 });
            }
            _ => return Err(format!("tables cannot be set to `{word}`")),
        }
    }
    let change = TableMod { table, config, properties };
    Ok(SavedLine::Table(change, name.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::SwitchOptions;
    use crate::wire::{
        Action, Band, BandEffect, Bucket, Field, GroupType, Instruction, Match, MeterFlags, Port,
        PortNumber, PortState,
    };

    fn port(number: u32, name: &str) -> Port {
        Port {
            number: PortNumber(number),
            address: [0; 6],
            name: name.to_owned(),
            config: PortConfig::default(),
            state: PortState::default(),
            ethernet: None,
            others: Vec::new(),
        }
    }

    fn filled() -> std::sync::Arc<Switch> {
        let switch = Switch::new(SwitchOptions { tables: 4, ..SwitchOptions::default() });
        switch.add_port(port(1, "eth1"), 0);
        let meter = MeterMod {
            command: MeterCommand::Add,
            flags: MeterFlags::PACKETS.with(MeterFlags::STATS),
            meter: 3,
            bands: vec![Band { rate: 10, burst: 0, effect: BandEffect::Remark(1) }],
        };
        switch.meter_mod(&meter, 0).expect("added");
        // The one with the smaller number sends to the greater.
        for (number, action) in [(9, Action::PopVlan), (1, Action::Group(9))] {
            let bucket = Bucket { id: 4, ..Bucket::new(vec![action]) };
            let group = GroupMod {
                command: GroupCommand::Add,
                kind: GroupType::All,
                group: number,
                at: ALL_BUCKETS,
                buckets: vec![bucket],
                selection: None,
            };
            switch.group_mod(&group, Version::V15, 0).expect("added");
        }
        let add = |flow: &FlowMod, version| switch.flow_mod(flow, version, 0).expect("added");
        let tcp = Match::new().with(Field::EthType, 0x0800).with(Field::IpProto, 6);
        let flow = FlowMod {
            cookie: Some(0xfeed),
            idle_timeout: 60,
            importance: 7,
            ..FlowMod::add(
                1,
                100,
                tcp.with(Field::TcpDst, 80),
                vec![
                    Instruction::Meter(3),
                    Instruction::ApplyActions(vec![Action::DecIpTtl, Action::Group(1)]),
                    Instruction::GotoTable(2),
                ],
            )
        };
        add(&flow, Version::V15);
        let old = vec![Instruction::ApplyActions(vec![
            Action::SetVlanVid(7),
            Action::Output { port: PortNumber(2), max_len: 0 },
        ])];
        add(&FlowMod::add(0, 1, Match::new(), old), Version::V10);
        let config = TableConfig::EVICTION.with(TableConfig::VACANCY_EVENTS);
        let vacancy = Some(Vacancy { down: 20, up: 60, now: 0 });
        let properties = TableProperties { eviction: None, vacancy };
        let table = TableMod { table: 2, config, properties };
        switch.table_mod(&table, Version::V14, 0).expect("set");
        switch.set_fragments(crate::wire::ConfigFlags::DROP_FRAGMENTS).expect("set");
        switch
    }

    #[test]
    fn a_saved_state_is_restored() {
        let switch = filled();
        let text = switch.save().expect("it can be said");
        let other = Switch::new(SwitchOptions { tables: 4, ..SwitchOptions::default() });
        let junk = FlowMod::add(3, 9, Match::new(), Vec::new());
        other.flow_mod(&junk, Version::V13, 0).expect("added");
        let before = other.version();
        assert_eq!(other.restore(&text, &[], 5), Ok(()), "{text}");
        assert_eq!(other.version(), before + 1);
        assert_eq!(other.save().as_ref(), Ok(&text));
        for (table, flows) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
            assert_eq!(other.snapshot().flows(table).count(), flows);
        }
        let ours = switch.snapshot();
        for flow in (0..4).flat_map(|table| ours.flows(table)) {
            let tables = other.snapshot();
            let found = tables.same_flow(flow).expect("it is there");
            assert_eq!((&found.instructions, found.cookie), (&flow.instructions, flow.cookie));
            assert_eq!(
                (found.idle_timeout, found.importance),
                (flow.idle_timeout, flow.importance)
            );
        }
    }

    #[test]
    fn a_wrong_line_is_named_and_changes_nothing() {
        let switch = filled();
        let text = switch.save().expect("it can be said");
        for (line, wrong) in [
            "flow 1.5 priority=1,tpc actions=drop",
            "flow 1.5 table=77 actions=drop",
            "flow 1.5 actions=group:55",
            "flow 1.2 actions=drop",
            "message 1.3 04zz",
            "message 1.3 040e",
            "table 9 eviction",
            "table 1 red",
            "port green eth1",
            "something else",
        ]
        .into_iter()
        .enumerate()
        {
            let other = format!("{HEAD}\n\n{wrong}\n");
            let error = switch.restore(&other, &[], 0).expect_err(wrong);
            assert!(matches!(error, RestoreError::Line { line: 3, .. }), "{line}: {error}");
            assert_eq!(switch.save().as_ref(), Ok(&text));
        }
    }

    #[test]
    fn ports_are_set_as_they_were_when_they_come() {
        let switch = filled();
        let ports = "port 0x20 eth1\nport 0x1 eth2\n";
        switch.restore(ports, &[], 0).expect("restored");
        assert_eq!(switch.save(), Ok(format!("{HEAD}\n{ports}")));
        let config = |number| {
            let tables = switch.snapshot();
            tables.port(PortNumber(number)).expect("a port").port.config.0
        };
        assert_eq!(config(1), 0x20);
        switch.add_port(port(2, "eth2"), 0);
        assert_eq!(config(2), 1);
        assert_eq!(switch.save(), Ok(format!("{HEAD}\n{ports}")));
    }

    #[test]
    fn tables_have_their_names_and_how_they_are_set() {
        let switch = filled();
        let tables = "table 0 name=first name\ntable 1 miss=drop,eviction,vacancy=1/2 name=acl\n";
        switch.restore(tables, &[], 0).expect("restored");
        assert_eq!(switch.save(), Ok(format!("{HEAD}\n{tables}")));
    }

    /// A file of which something is missing would be taken for all there was.
    #[test]
    fn an_entry_without_a_text_is_an_error_that_names_it() {
        let mut text = String::new();
        // Longer than a message can be.
        let actions = vec![Action::PopVlan; 10_000];
        let flow = FlowMod::add(7, 1, Match::new(), vec![Instruction::ApplyActions(actions)]);
        let error = put(&mut text, "flow", |_| None, &Message::FlowMod(flow));
        let error = error.expect_err("it cannot be said").to_string();
        assert!(
            error.contains("can say this flow: FlowMod(") && error.contains("table: 7"),
            "{error}"
        );
        assert_eq!(text, "");
    }
}

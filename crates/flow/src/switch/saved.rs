//! The state of a switch as a text: to be kept over a restart.
//!
//! A line is a table, a meter, a group, a flow or a port, those before others that these refer to:
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
//! Meters, groups and flows are in the syntax of `ovs-ofctl` ([`text`](crate::text)) for the version of
//! OpenFlow that is said: the newest in which the text means the same. What no text says is a line
//! `message 1.3 040e…`, the bytes of a message. A port is how it is set, by its name, as numbers may be
//! others the next time. Empty lines, and those that begin with `#`, say nothing. Tables and ports that are
//! set as they are at first have no line.
//!
//! Counters, ages, and what is learnt of hosts and connections are not kept: what is restored begins anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::edit::Effect;
use super::{Edit, Switch, flows, lock};
use crate::table::{Change, Flow, Group, Reference, Snapshot, Table, of_actions};
use crate::text::Syntax;
use crate::wire::group::{ALL_BUCKETS, ALL_GROUPS};
use crate::wire::meter::ALL_METERS;
use crate::wire::multipart::MeterConfig;
use crate::wire::{
    Fault, FlowMod, FlowModCommand, GroupCommand, GroupMod, Message, MeterCommand, MeterMod,
    PortConfig, TableConfig, TableMod, TableProperties, Vacancy, Version,
};

const HEAD: &str = "# Linerate flow switch, format 1";

/// What is wrong with a text that was to be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RestoreError {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// What no text and no message can say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no version of OpenFlow can say this {kind}: {message}")]
pub struct SaveError {
    /// What it is: a flow, a group or a meter.
    pub kind: &'static str,
    /// The message that would add it.
    pub message: String,
}

/// A line that was read.
#[derive(Debug)]
enum Line {
    Change(Message, Version),
    Name(u8, String),
    Port(String, u32),
    Fragments,
}

impl Switch {
    /// Its state as a text: all of it, or the first thing that cannot be said.
    pub fn save(&self) -> Result<String, SaveError> {
        let tables = self.snapshot();
        let mut text = format!("{HEAD}\n");
        if tables.drops_fragments() {
            text += "fragments drop\n";
        }
        for number in 0..tables.tables() {
            let said = tables.table(number).map(|table| print_table(table));
            if let Some(said) = said.filter(|said| !said.is_empty()) {
                let _ = writeln!(text, "table {number} {said}");
            }
        }
        let mut meters: Vec<_> = tables.meters().collect();
        meters.sort_by_key(|meter| meter.number);
        for meter in meters {
            let (number, flags, bands) = (meter.number, meter.flags, meter.bands.clone());
            let config = MeterConfig { meter: number, flags, bands: bands.clone() };
            let change = MeterMod { command: MeterCommand::Add, flags, meter: number, bands };
            let said = |syntax: &Syntax<'_>| {
                let said = syntax.print_meter(&config);
                (syntax.meter(&said, MeterCommand::Add).ok()? == change).then_some(said)
            };
            put(&mut text, "meter", said, &Message::MeterMod(change.clone()))?;
        }
        for group in in_order(&tables) {
            let change = group_mod(group);
            let said = |syntax: &Syntax<'_>| {
                let said = syntax.print_group_mod(&change);
                (syntax.group(&said, GroupCommand::Add).ok()? == change).then_some(said)
            };
            put(&mut text, "group", said, &Message::GroupMod(change.clone()))?;
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
            }
        }
        let there = tables.ports().map(|port| (port.port.name.clone(), port.port.config.0));
        let there = there.filter(|(_, config)| *config != PortConfig::default().0);
        // Those that have not come yet are to be set so when they do.
        let others = lock(&self.state).port_configs.clone();
        for (name, config) in there.chain(BTreeMap::from_iter(others)) {
            let _ = writeln!(text, "port {config:#x} {name}");
        }
        Ok(text)
    }

    /// Writes its state to a file, which has the old content or the new, whatever happens in between.
    pub fn save_to(&self, path: &Path) -> io::Result<()> {
        let text =
            self.save().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut new = std::fs::File::create(&beside)?;
        io::Write::write_all(&mut new, text.as_bytes())?;
        new.sync_all()?;
        std::fs::rename(&beside, path)
    }

    /// Becomes what a text says, at a time of the steady clock in nanoseconds: all it has is replaced, as one
    /// version. If anything is wrong all stays as it is. How a port is set is restored when the port is
    /// there, or else when it comes.
    pub fn restore(&self, text: &str, now: u64) -> Result<(), RestoreError> {
        let mut lines = Vec::new();
        for (nth, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let wrong = |what| RestoreError { line: nth + 1, what };
                lines.push((nth + 1, read(line).map_err(wrong)?));
            }
        }
        let mut state = lock(&self.state);
        self.change(&mut state, true, now, |edit| {
            edit.clear().map_err(|fault| RestoreError { line: 0, what: fault.to_string() })?;
            for (nth, line) in &lines {
                let wrong = |fault: Fault| RestoreError { line: *nth, what: fault.to_string() };
                edit.restore(line).map_err(wrong)?;
            }
            Ok(())
        })?;
        let tables = self.snapshot();
        let is_there = |name: &str| tables.ports().any(|port| port.port.name == name);
        state.port_configs = lines
            .into_iter()
            .filter_map(|(_, line)| match line {
                Line::Port(name, config) if !is_there(&name) => Some((name, config)),
                _ => None,
            })
            .collect();
        Ok(())
    }
}

impl Edit<'_> {
    /// Takes all flows, groups and meters away, and sets tables as they are at first. Nobody is told.
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
        let change = GroupMod {
            command: GroupCommand::Delete,
            kind: crate::wire::GroupType::All,
            group: ALL_GROUPS,
            at: ALL_BUCKETS,
            buckets: Vec::new(),
            selection: None,
        };
        self.group_mod(&change, Version::V15)?;
        let change = MeterMod {
            command: MeterCommand::Delete,
            flags: crate::wire::MeterFlags::default(),
            meter: ALL_METERS,
            bands: Vec::new(),
        };
        self.meter_mod(&change)?;
        self.tables.set_drops_fragments(false);
        self.changes.push(Change::All);
        Ok(())
    }

    fn restore(&mut self, line: &Line) -> Result<(), Fault> {
        match line {
            Line::Change(Message::FlowMod(change), version) => {
                let plan = flows::plan(self.tables, None, change, *version)?;
                self.carry_out(plan, change, *version)
            }
            Line::Change(Message::GroupMod(change), version) => self.group_mod(change, *version),
            Line::Change(Message::MeterMod(change), _) => self.meter_mod(change),
            Line::Change(Message::TableMod(change), version) => self.table_mod(change, *version),
            Line::Change(..) => Err(Fault::BadType),
            Line::Name(number, name) => {
                let table = self.tables.table_mut(*number).ok_or(Fault::BadTableId)?;
                table.name = Some(name.as_str().into());
                Ok(())
            }
            Line::Port(name, config) => {
                let port = self.tables.ports().find(|port| port.port.name == *name);
                if let Some(mut port) = port.map(|port| port.port.clone()) {
                    port.config = PortConfig(*config);
                    self.add_port(port);
                }
                Ok(())
            }
            Line::Fragments => {
                self.tables.set_drops_fragments(true);
                Ok(())
            }
        }
    }
}

/// The flow as a change that adds it.
fn flow_mod(flow: &Flow) -> FlowMod {
    FlowMod {
        cookie: Some(flow.cookie),
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        flags: flow.flags,
        importance: flow.importance,
        ..FlowMod::add(flow.table, flow.priority, flow.matching.clone(), flow.instructions.clone())
    }
}

fn group_mod(group: &Group) -> GroupMod {
    GroupMod {
        command: GroupCommand::Add,
        kind: group.kind,
        group: group.number,
        at: ALL_BUCKETS,
        buckets: group.buckets.iter().map(|bucket| bucket.bucket.clone()).collect(),
        selection: group.selection.clone(),
    }
}

/// All groups, those first that others send to.
fn in_order(tables: &Snapshot) -> Vec<&Group> {
    let mut numbers: Vec<u32> = tables.groups().map(|group| group.number).collect();
    numbers.sort_unstable();
    let (mut done, mut order) = (BTreeSet::new(), Vec::new());
    // A group comes up twice: first what it sends to is put before it, then it is done.
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

/// Puts a line in the newest version whose text means the same, else as a message.
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
    let same = |version: &Version| {
        let bytes = message.encode(*version, 0).ok()?;
        let (_, _, read) = Message::decode(&bytes).ok()?;
        (read == *message).then_some((*version, bytes))
    };
    let found = Version::ALL.iter().rev().find_map(same);
    let (version, bytes) =
        found.ok_or_else(|| SaveError { kind, message: format!("{message:?}") })?;
    let _ = write!(text, "message {version} ");
    bytes.iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    text.push('\n');
    Ok(())
}

/// How a table is set, where that is not as it is at first.
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

fn read(line: &str) -> Result<Line, String> {
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
            Ok(Line::Change(Message::FlowMod(flow), version))
        }
        "group" => {
            let (version, text) = version()?;
            let group = Syntax::new(version).group(text, GroupCommand::Add);
            let group = group.map_err(|error| error.to_string())?;
            Ok(Line::Change(Message::GroupMod(group), version))
        }
        "meter" => {
            let (version, text) = version()?;
            let meter = Syntax::new(version).meter(text, MeterCommand::Add);
            let meter = meter.map_err(|error| error.to_string())?;
            Ok(Line::Change(Message::MeterMod(meter), version))
        }
        "message" => {
            let (_, text) = version()?;
            let digit =
                |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
            let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
            let bytes = bytes.ok_or("these are no bytes")?;
            let (version, _, message) =
                Message::decode(&bytes).map_err(|fault| fault.to_string())?;
            Ok(Line::Change(message, version))
        }
        "table" => read_table(rest),
        "port" => {
            let (config, name) = rest.split_once(' ').ok_or("there is no name")?;
            let number =
                config.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
            let number = number.filter(|number| PortConfig(*number).is_known());
            Ok(Line::Port(name.to_owned(), number.ok_or("ports cannot be set so")?))
        }
        "fragments" if rest == "drop" => Ok(Line::Fragments),
        _ => Err(format!("there is no `{kind}` here")),
    }
}

/// A table: a change of how it is set, or a name.
fn read_table(text: &str) -> Result<Line, String> {
    let (number, rest) = text.split_once(' ').ok_or("nothing is said of the table")?;
    let table = number.parse().map_err(|_| "there is no such table")?;
    if let Some(name) = rest.strip_prefix("name=") {
        return Ok(Line::Name(table, name.to_owned()));
    }
    let mut config = TableConfig::default();
    let mut properties = TableProperties::default();
    for word in rest.split(',') {
        match (word, word.strip_prefix("vacancy=")) {
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
    Ok(Line::Change(Message::TableMod(change), Version::V15))
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
    fn what_is_saved_is_restored_as_it_was() {
        let switch = filled();
        let text = switch.save().expect("it can be said");
        let other = Switch::new(SwitchOptions { tables: 4, ..SwitchOptions::default() });
        let junk = FlowMod::add(3, 9, Match::new(), Vec::new());
        other.flow_mod(&junk, Version::V13, 0).expect("added");
        let before = other.version();
        assert_eq!(other.restore(&text, 5), Ok(()), "{text}");
        assert_eq!(other.version(), before + 1);
        assert_eq!(other.save().as_ref(), Ok(&text));
        for (table, flows) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
            assert_eq!(other.snapshot().flows(table).count(), flows);
        }
        let ours = switch.snapshot();
        for flow in (0..4).flat_map(|table| ours.flows(table)) {
            let tables = other.snapshot();
            let found = tables.flow_strict(flow.table, flow.priority, &flow.key, &flow.mask);
            let found = found.expect("it is there");
            assert_eq!((&found.instructions, found.cookie), (&flow.instructions, flow.cookie));
            assert_eq!(
                (found.idle_timeout, found.importance),
                (flow.idle_timeout, flow.importance)
            );
        }
    }

    #[test]
    fn what_is_wrong_changes_nothing_and_says_where() {
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
            let error = switch.restore(&format!("{HEAD}\n\n{wrong}\n"), 0).expect_err(wrong);
            assert_eq!(error.line, 3, "{line}: {error}");
            assert_eq!(switch.save().as_ref(), Ok(&text));
        }
    }

    #[test]
    fn ports_are_set_as_they_were_when_they_come() {
        let switch = filled();
        let ports = "port 0x20 eth1\nport 0x1 eth2\n";
        switch.restore(ports, 0).expect("restored");
        assert_eq!(switch.save(), Ok(format!("{HEAD}\n{ports}")));
        let config = |number| {
            let tables = switch.snapshot();
            tables.port(PortNumber(number)).expect("a port").port.config.0
        };
        assert_eq!(config(1), 0x20);
        switch.add_port(port(2, "eth2"), 0);
        assert_eq!(config(2), 1);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state");
        switch.save_to(&path).expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(text, format!("{HEAD}\n{ports}"));
    }

    /// A file of which something is missing would be taken for all there was.
    #[test]
    fn what_cannot_be_said_is_an_error_that_names_it() {
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

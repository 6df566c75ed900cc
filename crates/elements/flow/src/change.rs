//! Flows written to handlers, in the syntax of ovs-ofctl.

use linerate_ofswitch::switch::Switch;
use linerate_ofswitch::table::Flow;
use linerate_openflow::text::{Syntax, TextError, lines};
use linerate_openflow::wire::multipart::{Reply, Request};
use linerate_openflow::wire::{
    FlowMod, FlowModCommand, GroupCommand, Message, MeterCommand, Version,
};

/// Version of OpenFlow for texts.
const VERSION: Version = Version::V13;

/// Returns the text inside the quotes that a script needs around commas.
pub(crate) fn without_quotes(text: &str) -> &str {
    let inside = text.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inside.filter(|inside| !inside.contains('"')).unwrap_or(text)
}

/// Parses each line with content.
fn read<T>(text: &str, parse: impl Fn(&str) -> Result<T, TextError>) -> Result<Vec<T>, String> {
    let parse = |line: linerate_openflow::text::TextLine<'_>| {
        parse(line.text)
            .map_err(|error| format!("line {}: {}", line.number, error.shown(line.text)))
    };
    lines(text).map(parse).collect()
}

/// Does all of it as one change.
fn at_once(
    switch: &Switch,
    messages: impl IntoIterator<Item = Message>,
    now: u64,
) -> Result<(), String> {
    let done = switch.bundle(messages.into_iter().map(Ok), VERSION, now);
    done.map_err(|(number, fault)| format!("number {}: {fault}", number + 1))
}

/// Adds flows, or runs the commands their lines begin with.
pub(crate) fn add_flows(switch: &Switch, text: &str, now: u64) -> Result<(), String> {
    let syntax = Syntax::new(VERSION);
    let flows = read(text, |line| syntax.flow_line(line, FlowModCommand::Add))?;
    at_once(switch, flows.into_iter().map(Message::FlowMod), now)
}

/// Changes or deletes flows like these.
pub(crate) fn change_flows(
    switch: &Switch,
    text: &str,
    command: FlowModCommand,
    now: u64,
) -> Result<(), String> {
    let syntax = Syntax::new(VERSION);
    let mut flows = read(text, |line| syntax.flow_line(line, command))?;
    if flows.is_empty() && command == FlowModCommand::Delete {
        let all = syntax.flow("", command);
        flows.push(all.map_err(|error| error.what().to_owned())?);
    }
    at_once(switch, flows.into_iter().map(Message::FlowMod), now)
}

/// Replaces all flows by these. Unchanged ones keep their counts.
pub(crate) fn replace(switch: &Switch, text: &str, now: u64) -> Result<(), String> {
    let syntax = Syntax::new(VERSION);
    let mut wanted = read(text, |line| syntax.flow(line, FlowModCommand::Add))?;
    let snapshot = switch.snapshot();
    let mut messages = Vec::new();
    for flow in (0..snapshot.tables()).flat_map(|table| snapshot.flows(table)) {
        match wanted.iter().position(|wanted| is_same(wanted, flow)) {
            Some(at) => drop(wanted.swap_remove(at)),
            None if wanted.iter().any(|wanted| has_place_of(wanted, flow)) => {}
            None => messages.push(Message::FlowMod(FlowMod {
                command: FlowModCommand::DeleteStrict,
                cookie: None,
                ..FlowMod::add(flow.table, flow.priority, flow.matching.unpack(), Vec::new())
            })),
        }
    }
    messages.extend(wanted.into_iter().map(Message::FlowMod));
    at_once(switch, messages, now)
}

fn has_place_of(wanted: &FlowMod, flow: &Flow) -> bool {
    wanted.table == flow.table
        && wanted.priority == flow.priority
        && wanted.matching == flow.matching.unpack()
}

fn is_same(wanted: &FlowMod, flow: &Flow) -> bool {
    has_place_of(wanted, flow)
        && wanted.instructions == flow.instructions
        && wanted.cookie.unwrap_or(0) == flow.cookie
        && (wanted.idle_timeout, wanted.hard_timeout) == (flow.idle_timeout, flow.hard_timeout)
        && wanted.flags == flow.flags
}

/// Adds groups.
pub(crate) fn add_groups(switch: &Switch, text: &str, now: u64) -> Result<(), String> {
    let syntax = Syntax::new(VERSION);
    let groups = read(text, |line| syntax.group_line(line, GroupCommand::Add))?;
    at_once(switch, groups.into_iter().map(Message::GroupMod), now)
}

/// Adds meters.
pub(crate) fn add_meters(switch: &Switch, text: &str, now: u64) -> Result<(), String> {
    let syntax = Syntax::new(VERSION);
    let meters = read(text, |line| syntax.meter(line, MeterCommand::Add))?;
    let add = |meter| switch.meter_mod(&meter, now).map_err(|fault| fault.to_string());
    meters.into_iter().try_for_each(add)
}

/// Flows as `ovs-ofctl dump-flows` shows them.
pub(crate) fn flows(switch: &Switch, like: &str, now: u64) -> Result<String, String> {
    let syntax = Syntax::new(VERSION);
    let request = syntax.request(like).map_err(|error| error.shown(like))?;
    let answer = switch.answer(&Request::Flow(request), VERSION, now);
    match answer.map_err(|fault| fault.to_string())? {
        Reply::Flow(flows) => {
            Ok(flows.iter().map(|flow| syntax.print_flow_stats(flow) + "\n").collect())
        }
        _ => Ok(String::new()),
    }
}

//! `linerate flow replace`: the flows of a switch become those of a file.

use std::collections::HashMap;

use anyhow::Result;
use linerate_openflow::{
    text::Syntax,
    wire::{
        FlowFlags, FlowMod, FlowModCommand, Match, Version,
        multipart::{FlowRequest, FlowStats},
    },
};
use serde_json::json;

use super::{
    connection::Connection,
    texts::{self, Text},
};
use crate::{
    args::{FlowAt, FlowReplace},
    exit::UsageError,
    output,
};

/// A flow is the only one of its table, priority and match.
type FlowKey = (u8, u16, Match);

/// Changes to be made.
#[derive(Debug, Default)]
struct Difference {
    /// Flows that go.
    deleted: Vec<FlowMod>,
    /// Flows that are new, or get other actions, and where they were written.
    added: Vec<(FlowMod, String)>,
    /// Flows that stay.
    same: usize,
}

pub(super) fn run(at: &FlowAt, args: &FlowReplace) -> Result<()> {
    let texts = texts::read(&args.file)?;
    let mut connection = Connection::open(at)?;
    let syntax = connection.syntax();
    let flows = texts::parse(&texts, |text| syntax.flow(text, FlowModCommand::Add))?;
    let wanted = unique(flows, &texts)?;
    let present = connection.flows(&FlowRequest::all())?;
    let difference = difference(&connection.printing(), wanted, present);
    let told = json!({
        "deleted": difference.deleted.len(),
        "added": difference.added.len(),
        "same": difference.same,
    });
    if args.dry_run {
        let printing = connection.printing();
        let deleted =
            difference.deleted.iter().map(|flow| format!("-{}\n", printing.print_flow(flow)));
        let added =
            difference.added.iter().map(|(flow, _)| format!("+{}\n", printing.print_flow(flow)));
        let text: String = deleted.chain(added).collect();
        output::data(&if at.json { format!("{told}\n") } else { text })?;
        return Ok(());
    }
    let old = connection.version() == Version::V10;
    let places: Vec<String> = difference.added.iter().map(|(_, place)| place.clone()).collect();
    let (added, deleted): (Vec<FlowMod>, Vec<FlowMod>) =
        (difference.added.into_iter().map(|(flow, _)| flow).collect(), difference.deleted);
    // Without bundles there is a flow for every packet at every time.
    let first = if old { 0 } else { deleted.len() };
    let flows: Vec<FlowMod> = if old {
        added.into_iter().chain(deleted).collect()
    } else {
        deleted.into_iter().chain(added).collect()
    };
    if !flows.is_empty() {
        let messages = connection.messages(flows)?;
        let place = |number: usize| {
            let written = number.checked_sub(first).and_then(|number| places.get(number));
            written.cloned().unwrap_or_else(|| "a flow that goes".into())
        };
        if old {
            connection.tell(&messages, place)?;
        } else {
            connection.bundle(&messages, place)?;
        }
    }
    if at.json {
        output::data(&format!("{told}\n"))?;
    }
    Ok(())
}

/// Flows by their place, each of which may be there once.
fn unique(flows: Vec<FlowMod>, texts: &[Text]) -> Result<Vec<(FlowMod, String)>, UsageError> {
    let mut seen: HashMap<FlowKey, &Text> = HashMap::new();
    let mut wanted = Vec::new();
    for (flow, text) in flows.into_iter().zip(texts) {
        let place = (flow.table, flow.priority, flow.matching.clone());
        if let Some(other) = seen.insert(place, text) {
            let (name, other) = (text.name(), other.name());
            return Err(UsageError(format!(
                "{name}: has the table, the priority and the match of {other}"
            )));
        }
        wanted.push((flow, text.name()));
    }
    Ok(wanted)
}

/// The actions and time-outs of a flow, as far as a switch tells them.
fn nature(syntax: &Syntax<'_>, flow: &FlowStats) -> String {
    // These are of the change, not of the flow.
    let of_change = FlowFlags::CHECK_OVERLAP.0 | FlowFlags::RESET_COUNTS.0;
    let old = syntax.version() == Version::V10;
    let flags = if old { 0 } else { flow.flags.0 & !of_change };
    let importance = if syntax.version() < Version::V14 { 0 } else { flow.importance };
    let times = (flow.idle_timeout, flow.hard_timeout);
    let actions = syntax.print_instructions(&flow.instructions);
    format!("{:#x} {times:?} {flags} {importance} {actions}", flow.cookie)
}

fn difference(
    syntax: &Syntax<'_>,
    wanted: Vec<(FlowMod, String)>,
    present: Vec<FlowStats>,
) -> Difference {
    let mut found: HashMap<FlowKey, FlowStats> = present
        .into_iter()
        .map(|flow| ((flow.table, flow.priority, flow.matching.clone()), flow))
        .collect();
    let mut difference = Difference::default();
    for (flow, written) in wanted {
        let place = (flow.table, flow.priority, flow.matching.clone());
        let as_told = FlowStats {
            cookie: flow.cookie.unwrap_or(0),
            flags: flow.flags,
            importance: flow.importance,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            ..FlowStats::new(flow.table, flow.priority, Match::new(), flow.instructions.clone())
        };
        match found.remove(&place) {
            Some(there) if nature(syntax, &there) == nature(syntax, &as_told) => {
                difference.same += 1;
            }
            _ => difference.added.push((flow, written)),
        }
    }
    let mut gone: Vec<FlowStats> = found.into_values().collect();
    gone.sort_by_key(|flow| (flow.table, std::cmp::Reverse(flow.priority)));
    difference.deleted = gone
        .into_iter()
        .map(|flow| FlowMod {
            command: FlowModCommand::DeleteStrict,
            cookie: if syntax.version() == Version::V10 { Some(0) } else { None },
            ..FlowMod::add(flow.table, flow.priority, flow.matching, Vec::new())
        })
        .collect();
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_different_flows_are_changed() {
        let syntax = Syntax::new(Version::V13);
        let flow = |text: &str| syntax.flow(text, FlowModCommand::Add).unwrap();
        let stats = |text: &str| {
            let flow = flow(text);
            FlowStats {
                cookie: flow.cookie.unwrap(),
                packets: 7,
                ..FlowStats::new(flow.table, flow.priority, flow.matching, flow.instructions)
            }
        };
        let texts: Vec<Text> =
            ["ip,actions=output:1", "arp,actions=output:3", "cookie=1,tcp,actions=drop"]
                .map(|text| Text { text: text.into(), place: String::new() })
                .to_vec();
        let wanted = texts.iter().map(|text| flow(&text.text)).collect();
        let wanted = unique(wanted, &texts).unwrap();
        let present =
            ["ip,actions=output:1", "arp,actions=output:2", "udp,actions=drop", "tcp,actions=drop"];
        let difference = difference(&syntax, wanted, present.map(stats).to_vec());
        assert_eq!(difference.same, 1);
        let added: Vec<_> =
            difference.added.iter().map(|(flow, _)| syntax.print_flow(flow)).collect();
        assert_eq!(added, ["arp actions=output:3", "cookie=0x1, tcp actions=drop"]);
        assert_eq!(difference.deleted.len(), 1);
        assert_eq!(syntax.print_flow(&difference.deleted[0]), "table=0, udp");
    }

    #[test]
    fn a_place_is_taken_once() {
        let syntax = Syntax::new(Version::V13);
        let texts: Vec<Text> = ["nw_proto=6,ip,actions=output:1", "tcp,actions=output:3"]
            .map(|text| Text { text: text.into(), place: String::new() })
            .to_vec();
        let flows = texts.iter().map(|text| syntax.flow(&text.text, FlowModCommand::Add).unwrap());
        let error = unique(flows.collect(), &texts).unwrap_err();
        assert!(error.0.contains("\"tcp,actions=output:3\""), "{error}");
    }
}

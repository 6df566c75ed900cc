//! `linerate flow groups` and `meters`.

use anyhow::Result;
use linerate_openflow::wire::{
    GroupCommand, Message, MeterCommand,
    group::ALL_GROUPS,
    meter::ALL_METERS,
    multipart::{GroupDesc, GroupStats, MeterConfig, MeterStats, Reply, Request},
};
use serde_json::json;

use super::{
    connection::Connection,
    texts::{self, Text},
};
use crate::{
    args::{FlowAt, FlowGroups, FlowMeters},
    output,
    units::grouped,
};

/// Texts of the command line.
fn words(words: &[String]) -> Vec<Text> {
    words.iter().map(|text| Text { text: text.clone(), place: String::new() }).collect()
}

/// Has changes made, and says whether there were any.
fn have_done<C: Copy, T>(
    connection: &mut Connection,
    wanted: [(C, &[String]); 3],
    read: impl Fn(&Connection, &str, C) -> Result<T, linerate_openflow::text::TextError>,
    message: impl Fn(T) -> Message,
) -> Result<bool> {
    let (mut messages, mut names) = (Vec::new(), Vec::new());
    for (command, given) in wanted {
        let given = words(given);
        let parsed = texts::parse(&given, |text| read(connection, text, command))?;
        messages.extend(parsed.into_iter().map(&message));
        names.extend(given.iter().map(Text::name));
    }
    if messages.is_empty() {
        return Ok(false);
    }
    connection.tell(&messages, |number| names.get(number).cloned().unwrap_or_default())?;
    Ok(true)
}

pub(super) fn groups(at: &FlowAt, args: &FlowGroups) -> Result<()> {
    let mut connection = Connection::open(at)?;
    let wanted = [
        (GroupCommand::Delete, args.del.as_slice()),
        (GroupCommand::Add, &args.add),
        (GroupCommand::Modify, &args.change),
    ];
    let read =
        |connection: &Connection, text: &str, command| connection.syntax().group(text, command);
    if have_done(&mut connection, wanted, read, Message::GroupMod)? {
        return Ok(());
    }
    let (mut groups, mut counts): (Vec<GroupDesc>, Vec<GroupStats>) = (Vec::new(), Vec::new());
    for reply in connection.ask(Request::GroupDesc(ALL_GROUPS))? {
        if let Reply::GroupDesc(more) = reply {
            groups.extend(more);
        }
    }
    // Their counts are printed where the switch knows them.
    for reply in connection.ask_if_known(Request::Group(ALL_GROUPS))? {
        if let Reply::Group(more) = reply {
            counts.extend(more);
        }
    }
    groups.sort_by_key(|group| group.group);
    let syntax = connection.printing();
    let mut text = String::new();
    for group in &groups {
        let line = syntax.print_group(group);
        let stats = counts.iter().find(|stats| stats.group == group.group);
        if at.json {
            let buckets = stats.map(|stats| {
                let bucket =
                    |&(packets, bytes): &(u64, u64)| json!({"packets": packets, "bytes": bytes});
                stats.buckets.iter().map(bucket).collect::<Vec<_>>()
            });
            let object = json!({
                "group": group.group,
                "text": line,
                "packets": stats.map(|stats| stats.packets),
                "bytes": stats.map(|stats| stats.bytes),
                "references": stats.map(|stats| stats.references),
                "buckets": buckets,
            });
            text += &format!("{object}\n");
            continue;
        }
        let (first, others) = line.split_once(",bucket=").unwrap_or((&line, ""));
        let said = stats.map(|stats| {
            format!("  {} packets, {} bytes", known(stats.packets), known(stats.bytes))
        });
        text += &format!("{first}{}\n", said.unwrap_or_default());
        let counts = stats.map(|stats| stats.buckets.as_slice()).unwrap_or_default();
        let buckets = if others.is_empty() { Vec::new() } else { buckets_of(others) };
        for (nth, bucket) in buckets.into_iter().enumerate() {
            let said = counts.get(nth).map(|(packets, bytes)| {
                format!("  {} packets, {} bytes", known(*packets), known(*bytes))
            });
            text += &format!("  bucket={bucket}{}\n", said.unwrap_or_default());
        }
    }
    if text.is_empty() && !at.json {
        text = "no groups\n".into();
    }
    Ok(output::data(&text)?)
}

/// The buckets of a group's text.
fn buckets_of(text: &str) -> Vec<&str> {
    text.split(",bucket=").collect()
}

/// A count that may not be known.
fn known(count: u64) -> String {
    if count == u64::MAX { "?".into() } else { grouped(count) }
}

pub(super) fn meters(at: &FlowAt, args: &FlowMeters) -> Result<()> {
    let mut connection = Connection::open(at)?;
    let wanted = [
        (MeterCommand::Delete, args.del.as_slice()),
        (MeterCommand::Add, &args.add),
        (MeterCommand::Modify, &args.change),
    ];
    let read =
        |connection: &Connection, text: &str, command| connection.syntax().meter(text, command);
    if have_done(&mut connection, wanted, read, Message::MeterMod)? {
        return Ok(());
    }
    let (mut meters, mut counts): (Vec<MeterConfig>, Vec<MeterStats>) = (Vec::new(), Vec::new());
    for reply in connection.ask(Request::MeterConfig(ALL_METERS))? {
        if let Reply::MeterConfig(more) = reply {
            meters.extend(more);
        }
    }
    for reply in connection.ask_if_known(Request::Meter(ALL_METERS))? {
        if let Reply::Meter(more) = reply {
            counts.extend(more);
        }
    }
    meters.sort_by_key(|meter| meter.meter);
    let syntax = connection.printing();
    let mut text = String::new();
    for meter in &meters {
        let line = syntax.print_meter(meter);
        let stats = counts.iter().find(|stats| stats.meter == meter.meter);
        if at.json {
            let bands = stats.map(|stats| {
                let band =
                    |&(packets, bytes): &(u64, u64)| json!({"packets": packets, "bytes": bytes});
                stats.bands.iter().map(band).collect::<Vec<_>>()
            });
            let object = json!({
                "meter": meter.meter,
                "text": line,
                "flows": stats.map(|stats| stats.flows),
                "packets": stats.map(|stats| stats.packets),
                "bytes": stats.map(|stats| stats.bytes),
                "bands": bands,
            });
            text += &format!("{object}\n");
            continue;
        }
        text += &line;
        if let Some(stats) = stats {
            text += &format!(
                "  {} packets, {} bytes, {} flows",
                known(stats.packets),
                known(stats.bytes),
                stats.flows
            );
            for (nth, (packets, bytes)) in stats.bands.iter().enumerate() {
                let (packets, bytes) = (known(*packets), known(*bytes));
                text += &format!("; band {}: {packets} packets, {bytes} bytes", nth + 1);
            }
        }
        text.push('\n');
    }
    if text.is_empty() && !at.json {
        text = "no meters\n".into();
    }
    Ok(output::data(&text)?)
}

//! `linerate flow ports` and `tables`.

use anyhow::Result;
use linerate_openflow::wire::{
    Port, PortConfig, PortNumber, PortState, Version,
    multipart::{PortStats, Reply, Request, TableStats},
};
use linerate_packet::MacAddr;
use serde_json::json;

use super::connection::Connection;
use crate::{
    args::{FlowAt, FlowTables},
    commands::cluster::table,
    output,
    units::grouped,
};

/// A count, where it is known.
fn known(count: u64) -> String {
    if count == u64::MAX { "-".into() } else { grouped(count) }
}

pub(super) fn ports(at: &FlowAt) -> Result<()> {
    let mut connection = Connection::open(at)?;
    let mut ports = connection.ports()?;
    ports.sort_by_key(|port| port.number);
    let mut counts: Vec<PortStats> = Vec::new();
    for reply in connection.ask(Request::Port(PortNumber::ANY))? {
        if let Reply::Port(more) = reply {
            counts.extend(more);
        }
    }
    let of = |port: &Port| counts.iter().find(|stats| stats.port == port.number);
    if at.json {
        let object = |port: &Port| {
            let stats = of(port);
            let count =
                |get: fn(&PortStats) -> u64| stats.map(get).filter(|count| *count != u64::MAX);
            json!({
                "port": port.number.to_string(),
                "name": port.name,
                "address": MacAddr(port.address).to_string(),
                "state": state(port),
                "received": count(|stats| stats.received),
                "received_bytes": count(|stats| stats.received_bytes),
                "sent": count(|stats| stats.sent),
                "sent_bytes": count(|stats| stats.sent_bytes),
                "received_dropped": count(|stats| stats.received_dropped),
                "sent_dropped": count(|stats| stats.sent_dropped),
            })
        };
        let text: String = ports.iter().map(|port| format!("{}\n", object(port))).collect();
        return Ok(output::data(&text)?);
    }
    let row = |port: &Port| {
        let mut row = vec![
            port.name.clone(),
            port.number.to_string(),
            MacAddr(port.address).to_string(),
            state(port),
        ];
        row.extend(match of(port) {
            Some(stats) => [
                stats.received,
                stats.received_bytes,
                stats.sent,
                stats.sent_bytes,
                // Counts that are not kept add nothing.
                stats.received_dropped.saturating_add(stats.sent_dropped),
            ]
            .map(known),
            None => std::array::from_fn(|_| "-".to_owned()),
        });
        row
    };
    let titles =
        ["name", "port", "address", "state", "received", "bytes", "sent", "bytes", "dropped"];
    Ok(output::data(&table(&titles, ports.iter().map(row).collect()))?)
}

/// State of a port, and its configuration.
fn state(port: &Port) -> String {
    let mut words = Vec::new();
    if port.config.contains(PortConfig::DOWN) {
        words.push("off");
    } else if port.state.contains(PortState::LINK_DOWN) {
        words.push("no link");
    } else {
        words.push("up");
    }
    for (flag, word) in [
        (PortConfig::NO_RECEIVE, "no receive"),
        (PortConfig::NO_FORWARD, "no forward"),
        (PortConfig::NO_FLOOD, "no flood"),
        (PortConfig::NO_PACKET_IN, "no packet-in"),
    ] {
        if port.config.contains(flag) {
            words.push(word);
        }
    }
    words.join(", ")
}

pub(super) fn tables(at: &FlowAt, args: &FlowTables) -> Result<()> {
    let mut connection = Connection::open(at)?;
    let mut tables: Vec<TableStats> = Vec::new();
    for reply in connection.ask(Request::Table)? {
        if let Reply::Table(more) = reply {
            tables.extend(more);
        }
    }
    let all = tables.len();
    tables.retain(|table| args.all || table.active > 0 || known_count(table.lookups) > 0);
    let old = connection.version() == Version::V10;
    if at.json {
        let object = |table: &TableStats| {
            json!({
                "table": table.table,
                "name": old.then_some(&table.name),
                "flows": table.active,
                "lookups": (table.lookups != u64::MAX).then_some(table.lookups),
                "matched": (table.matches != u64::MAX).then_some(table.matches),
            })
        };
        let text: String = tables.iter().map(|table| format!("{}\n", object(table))).collect();
        return Ok(output::data(&text)?);
    }
    let row = |table: &TableStats| {
        let missed = known_count(table.lookups).saturating_sub(known_count(table.matches));
        vec![
            table.table.to_string(),
            grouped(table.active.into()),
            known(table.lookups),
            known(table.matches),
            grouped(missed),
        ]
    };
    let titles = ["table", "flows", "lookups", "matched", "missed"];
    let mut text = self::table(&titles, tables.iter().map(row).collect());
    if tables.len() < all {
        text += &format!("{} other tables have no flows; --all shows them\n", all - tables.len());
    }
    Ok(output::data(&text)?)
}

fn known_count(count: u64) -> u64 {
    if count == u64::MAX { 0 } else { count }
}

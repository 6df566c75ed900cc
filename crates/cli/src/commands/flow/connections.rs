//! `linerate flow connections`: the connection table of a switch of ours.

use anyhow::Result;
use serde_json::{Map, Value};

use super::ask::{ask, tell};
use crate::{
    args::{
        FlowAt, FlowConnections, FlowConnectionsCommand, FlowConnectionsFlush,
        FlowConnectionsFragments, FlowConnectionsLimit, FlowConnectionsList,
        FlowConnectionsTimeout, FlowControl,
    },
    output,
};

pub(super) fn run(at: &FlowAt, args: &FlowConnections) -> Result<()> {
    match &args.command {
        None => list(at, &args.list),
        Some(FlowConnectionsCommand::List(args)) => list(at, args),
        Some(FlowConnectionsCommand::Flush(args)) => flush(at, args),
        Some(FlowConnectionsCommand::Limit(args)) => limit(at, args),
        Some(FlowConnectionsCommand::Timeout(args)) => timeout(at, args),
        Some(FlowConnectionsCommand::Fragments(args)) => fragments(at, args),
    }
}

fn list(at: &FlowAt, args: &FlowConnectionsList) -> Result<()> {
    let parameter = format!("limit={} {}", args.limit, args.like.trim());
    print(at, &args.asked, "connections", Some(&parameter))
}

fn flush(at: &FlowAt, args: &FlowConnectionsFlush) -> Result<()> {
    tell(at, &args.asked, "flush_connections", args.like.as_deref().unwrap_or_default())
}

fn limit(at: &FlowAt, args: &FlowConnectionsLimit) -> Result<()> {
    if args.limits.is_empty() {
        return print(at, &args.asked, "connection_limits", None);
    }
    tell(at, &args.asked, "connection_limits", &args.limits.join(" "))
}

fn timeout(at: &FlowAt, args: &FlowConnectionsTimeout) -> Result<()> {
    let Some(zone) = &args.zone else {
        return print(at, &args.asked, "connection_timeouts", None);
    };
    let said = format!("zone={zone} {}", args.timeouts.join(" "));
    tell(at, &args.asked, "connection_timeouts", &said)
}

fn fragments(at: &FlowAt, args: &FlowConnectionsFragments) -> Result<()> {
    let limits =
        [("most", args.most), ("shortest_v4", args.shortest_v4), ("shortest_v6", args.shortest_v6)];
    let said = limits.iter().filter_map(|(name, limit)| limit.map(|limit| (name, limit)));
    let said: Vec<String> = said.map(|(name, limit)| format!("{name}={limit}")).collect();
    if said.is_empty() {
        return print(at, &args.asked, "fragments", None);
    }
    tell(at, &args.asked, "fragments", &said.join(" "))
}

/// Prints the text of a handler, or each of its lines as an object.
fn print(at: &FlowAt, asked: &FlowControl, handler: &str, parameter: Option<&str>) -> Result<()> {
    let text = ask(at, asked, handler, parameter)?;
    if !at.json {
        return Ok(output::data(&text)?);
    }
    // The line of those left out is no connection.
    let lines = text.lines().filter(|line| !line.starts_with('…'));
    let text: String = lines.map(|line| format!("{}\n", Value::Object(object(line)))).collect();
    Ok(output::data(&text)?)
}

/// A line as an object: `tcp,orig=(src=10.0.0.1,sport=1),zone=5` has a protocol, an object, and a number.
fn object(line: &str) -> Map<String, Value> {
    let mut object = Map::new();
    let mut rest = line;
    while !rest.is_empty() {
        let (part, behind) = first_part(rest);
        rest = behind;
        match part.split_once('=') {
            None => drop(object.insert("protocol".into(), part.into())),
            Some((name, value)) => {
                let inside = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
                let value = match (inside, value.parse::<u64>()) {
                    (Some(inside), _) => Value::Object(self::object(inside)),
                    (None, Ok(number)) => number.into(),
                    (None, Err(_)) => value.into(),
                };
                object.insert(name.into(), value);
            }
        }
    }
    object
}

/// Splits a text at the first comma outside of parentheses.
fn first_part(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_objects() {
        let line = "udp,orig=(src=10.0.0.1,dst=2001:db8::1,sport=1,dport=2),zone=5,labels=0x7,\
                    protoinfo=(state=SYN_SENT),timeout=30";
        let expected = serde_json::json!({
            "protocol": "udp",
            "orig": {"src": "10.0.0.1", "dst": "2001:db8::1", "sport": 1, "dport": 2},
            "zone": 5,
            "labels": "0x7",
            "protoinfo": {"state": "SYN_SENT"},
            "timeout": 30,
        });
        assert_eq!(Value::Object(object(line)), expected);
        assert!(object("").is_empty());
    }
}

//! `linerate flow monitor`: messages of a switch to controllers.

use std::time::{Duration, Instant};

use anyhow::Result;
use linerate_ofswitch::key::{Key, extract::extract};
use linerate_openflow::{
    text::Syntax,
    wire::{
        Config, ConfigFlags, Field, FlowRemovedReason, Match, Message, NiciraMessage, PacketIn,
        PacketInReason, PortReason,
    },
};
use linerate_packet::MacAddr;
use serde_json::{Value, json};

use super::connection::Connection;
use crate::{
    args::{FlowAt, FlowMonitor},
    output,
    session::stop_on_signals,
};

/// Interval of looking for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn run(at: &FlowAt, args: &FlowMonitor) -> Result<()> {
    let mut connection = Connection::open(at)?;
    // A controller that sets a length for packets gets asynchronous messages.
    let config = Config { flags: ConfigFlags::default(), miss_send_len: u16::MAX };
    connection.tell(&[Message::SetConfig(config)], |_| "setting a length for packets".into())?;
    let stop = stop_on_signals()?;
    let end = args.duration.map(|duration| Instant::now() + duration);
    let mut count = 0;
    while !stop.is_raised() && args.count.is_none_or(|most| count < most) {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let wait = left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
        let Some(message) = connection.next(wait)? else { continue };
        let Some((text, object)) = tell(&connection.printing(), message) else { continue };
        output::data(&if at.json { format!("{object}\n") } else { format!("{text}\n") })?;
        count += 1;
    }
    Ok(())
}

/// A message for people and for programs, where it is one that comes unasked.
fn tell(syntax: &Syntax<'_>, message: Message) -> Option<(String, Value)> {
    match message {
        Message::PacketIn(packet)
        | Message::Nicira(NiciraMessage::PacketIn(packet) | NiciraMessage::PacketIn2(packet)) => {
            Some(packet_in(syntax, &packet))
        }
        Message::FlowRemoved(flow) | Message::Nicira(NiciraMessage::FlowRemoved(flow)) => {
            let reason = match flow.reason {
                FlowRemovedReason::IdleTimeout => "idle time-out",
                FlowRemovedReason::HardTimeout => "hard time-out",
                FlowRemovedReason::Delete => "deleted",
                FlowRemovedReason::GroupDelete => "its group was deleted",
                FlowRemovedReason::MeterDelete => "its meter was deleted",
                FlowRemovedReason::Eviction => "the table was full",
            };
            let matching = syntax.print_match(&flow.matching);
            let text = format!(
                "flow ended ({reason}): table={}, cookie={:#x}, n_packets={}, n_bytes={}, priority={},{matching}",
                flow.table, flow.cookie, flow.packets, flow.bytes, flow.priority
            );
            let object = json!({
                "event": "flow-removed",
                "reason": reason,
                "table": flow.table,
                "priority": flow.priority,
                "cookie": format!("{:#x}", flow.cookie),
                "packets": flow.packets,
                "bytes": flow.bytes,
                "match": matching,
            });
            Some((text.trim_end_matches(',').to_owned(), object))
        }
        Message::PortStatus(status) => {
            let reason = match status.reason {
                PortReason::Add => "added",
                PortReason::Delete => "deleted",
                PortReason::Modify => "changed",
            };
            let port = &status.port;
            let address = MacAddr(port.address);
            let up = !port.state.contains(linerate_openflow::wire::PortState::LINK_DOWN);
            let link = if up { "up" } else { "no link" };
            let text = format!("port {reason}: {} {} {address} {link}", port.number, port.name);
            let object = json!({
                "event": "port-status",
                "reason": reason,
                "port": port.number.to_string(),
                "name": port.name,
                "address": address.to_string(),
                "link": up,
            });
            Some((text, object))
        }
        _ => None,
    }
}

fn packet_in(syntax: &Syntax<'_>, packet: &PacketIn) -> (String, Value) {
    let reason = match packet.reason {
        PacketInReason::NoMatch => "no flow matched",
        PacketInReason::Action => "an action",
        PacketInReason::InvalidTtl => "its time to live ended",
        PacketInReason::ActionSet => "an action at the end",
        PacketInReason::Group => "a group",
        PacketInReason::PacketOut => "a controller",
    };
    let mut key = Key::default();
    extract(&packet.data, &mut key);
    // The fields that the switch sends, and those of the headers.
    let told = packet.fields.entries().map(|entry| (entry.field(), *entry));
    let headers = key.fields();
    let headers = headers.entries().map(|entry| (entry.field(), *entry));
    let told_fields: Vec<Field> = packet.fields.entries().map(|entry| entry.field()).collect();
    let headers = headers.filter(|(field, _)| !told_fields.contains(field));
    let fields: Match = told.chain(headers).map(|(_, entry)| entry).collect();
    let fields = syntax.print_match(&fields);
    let cookie = (packet.cookie != u64::MAX).then(|| format!("{:#x}", packet.cookie));
    let from = cookie.as_ref().map(|cookie| format!(", cookie={cookie}")).unwrap_or_default();
    let text = format!(
        "packet ({reason}): table={}{from}, {} bytes: {fields}",
        packet.table, packet.total_len
    );
    let hex: String = packet.data.iter().map(|byte| format!("{byte:02x}")).collect();
    let object = json!({
        "event": "packet-in",
        "reason": reason,
        "table": packet.table,
        "cookie": cookie,
        "length": packet.total_len,
        "fields": fields,
        "data": hex,
    });
    (text, object)
}

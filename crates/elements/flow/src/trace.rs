//! Trace of a packet, for a handler.

use linerate_ofswitch::cache::FlowCache;
use linerate_ofswitch::key::{Key, extract::extract};
use linerate_ofswitch::pipeline;
use linerate_ofswitch::switch::Switch;
use linerate_openflow::text::{Names, Syntax};
use linerate_openflow::wire::{Field, Match, PortNumber, Version};

/// The bytes of a packet behind its fields.
const LONGEST: usize = 1 << 16;
/// The prefix of a state that a connection is assumed to be in.
const STATE: &str = "ct-next=";

use crate::dump;

/// Traces a packet with these fields, or with these bytes: `in_port=1,tcp,nw_dst=10.0.0.1`, or
/// `in_port=1 0102...`; before them come states of connections, `ct-next=est|trk`. The first worker
/// traces it through the tables, and each its own entry for the packet.
pub(crate) fn trace(
    switch: &Switch,
    names: &[String],
    packet: &str,
    fast: &FlowCache,
    (worker, is_first): (usize, bool),
    now: u64,
) -> Result<String, String> {
    let mut known = Names::new();
    for (number, name) in (1..).zip(names) {
        known.add_port(name, PortNumber(number));
    }
    let syntax = Syntax::with_names(Version::V15, &known);
    let mut packet = packet.trim();
    let mut states = Vec::new();
    while let Some(rest) = packet.strip_prefix(STATE) {
        let (state, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        states.push(state_of(&syntax, state)?);
        packet = rest.trim();
    }
    let (fields, bytes) = match packet.trim().rsplit_once(' ') {
        Some((fields, hex)) => (fields, bytes(hex)),
        None => ("", bytes(packet.trim())),
    };
    let (fields, bytes) = if bytes.is_some() { (fields, bytes) } else { (packet, None) };
    let said =
        syntax.matching(fields).map_err(|error| format!("{error}\n{}", error.shown(fields)))?;
    let key = key(&said, bytes.as_deref());
    let mut told = String::new();
    if is_first {
        let (snapshot, shared_state) = (switch.snapshot(), switch.shared_state());
        told = pipeline::follow(&snapshot, shared_state, &key, bytes.as_deref(), &states, now);
    }
    if let Some(entry) = fast.entry_of(&key) {
        told += &format!("fast path of worker {worker}: {}", dump::entry(&entry, now));
    }
    Ok(told)
}

/// A state of a connection, in the words of a match: `est|trk`, `+est+trk`, or as Open vSwitch has
/// it `est,trk`.
fn state_of(syntax: &Syntax<'_>, text: &str) -> Result<u32, String> {
    let wanted = format!("ct_state={}", text.replace(',', "|"));
    let said = syntax.matching(&wanted).map_err(|error| error.shown(&wanted))?;
    let state = said.get(Field::CtState).map(|entry| entry.value() as u32);
    state.ok_or_else(|| format!("{STATE}{text}: write states of a connection, as in est|trk"))
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let whole = hex.len() >= 28 && hex.len().is_multiple_of(2) && hex.len() <= 2 * LONGEST;
    if !whole || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).ok();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Returns the key of a packet. Given fields override those of its bytes.
fn key(said: &Match, bytes: Option<&[u8]>) -> Key {
    let mut key = Key::default();
    if let Some(bytes) = bytes {
        extract(bytes, &mut key);
    }
    for entry in said.entries() {
        key.set_entry(entry);
    }
    // A packet of IP has a time to live that has not ended, by default.
    let ip = matches!(key.get(Field::EthType), 0x0800 | 0x86dd);
    if bytes.is_none() && ip && said.get(Field::IpTtl).is_none() {
        key.set(Field::IpTtl, 64);
    }
    key
}

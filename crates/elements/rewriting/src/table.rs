//! Tables of flows as Click shows them.

use std::{fmt::Write as _, net::Ipv4Addr};

use linerate_graph::{Scope, TcpPort, Value, lang::config::words};
use linerate_packet::{FlowV4, IpProtocol};
use linerate_tables::exact::Entry;

use super::{
    flow_set::FlowSet,
    mapping::{Ends, Mapping},
    rewriter_type::RewriterKind,
};

/// A line for each direction of each flow of a rewriter, or of one of its maps, in the order Click
/// shows them when none has gone: that of its hash table.
pub(super) fn text(set: &FlowSet, rewriter: u16, map: Option<IpProtocol>, now: u64) -> String {
    let all = set
        .table
        .iter()
        .filter(|(_, key, _)| key.vlan == rewriter && map.is_none_or(|map| map == key.protocol));
    let mut all: Vec<(Entry, &FlowV4, &Mapping)> = all.collect();
    all.sort_unstable_by_key(|(entry, _, mapping)| {
        (entry.number().max(mapping.peer.number()), mapping.is_reply())
    });
    let mut text = String::new();
    for at in in_click_order(&all.iter().map(|(_, key, _)| hash(key)).collect::<Vec<_>>()) {
        let (entry, key, mapping) = all[at];
        line(&mut text, set, entry, key, mapping, now);
    }
    text
}

/// The order of entries with these hashes, added two by two, in a table of Click's: new ones come
/// first in their bucket, and when there are more than two to a bucket all move to more of them.
fn in_click_order(hashes: &[u32]) -> Vec<usize> {
    let mut buckets = vec![Vec::new()];
    // The last of a bucket is its first.
    let place = |buckets: &mut Vec<Vec<usize>>, entry: usize| {
        let bucket = hashes[entry] as usize % buckets.len();
        buckets[bucket].push(entry);
    };
    for entry in 0..hashes.len() {
        place(&mut buckets, entry);
        if entry % 2 == 1 && entry + 1 > 2 * buckets.len() {
            let old = std::mem::take(&mut buckets);
            buckets = vec![Vec::new(); 2 * old.len() + 1];
            old.into_iter().flat_map(|bucket| bucket.into_iter().rev()).for_each(|entry| {
                place(&mut buckets, entry);
            });
        }
    }
    buckets.into_iter().flat_map(|bucket| bucket.into_iter().rev()).collect()
}

/// Click's hash of a flow.
fn hash(key: &FlowV4) -> u32 {
    let address = |address: Ipv4Addr| u32::from_le_bytes(address.octets());
    let src = address(key.src).rotate_left(u32::from(key.src_port % 16) + 1);
    let dst = address(key.dst).rotate_left(31 - u32::from(key.dst_port % 16));
    src ^ dst ^ (u32::from(key.dst_port) << 16 | u32::from(key.src_port))
}

fn line(text: &mut String, set: &FlowSet, entry: Entry, key: &FlowV4, mapping: &Mapping, now: u64) {
    let Some(rewriter) = set.rewriters.get(usize::from(key.vlan)) else { return };
    let (from, to) = (Ends::from_key(key), mapping.to);
    let reply = mapping.is_reply();
    let _ = match rewriter.kind {
        RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {
            write!(text, "{} => {}", flow_text(from), flow_text(to))
        }
        // The direction's own side, and the far end of the other.
        RewriterKind::Address => write!(text, "{} => {}", from.src, to.src),
        RewriterKind::Pair => {
            write!(text, "({}, {}) => ({}, {})", from.src, from.dst, to.src, to.dst)
        }
        RewriterKind::Ping => {
            let triple = |ends: Ends| format!("({}, {}, {})", ends.src, ends.dst, ends.src_port);
            write!(text, "{} => {}", triple(from), triple(to))
        }
    };
    let shift = set.shift_now(mapping);
    if shift != 0 {
        let _ = write!(text, " seq {shift:+}");
    }
    let other = if mapping.is_both() {
        rewriter.specs.get(usize::from(mapping.input)).and_then(|it| it.action.forward())
    } else {
        set.table.get(mapping.peer).map(|peer| peer.output)
    };
    let other = other.unwrap_or(mapping.output);
    let (forward, back) = if reply { (other, mapping.output) } else { (mapping.output, other) };
    let (one, two) = if reply { ("", "*") } else { ("*", "") };
    let left = (set.lapse(entry) + 500).saturating_sub(now) / 1000;
    let _ = writeln!(text, " [{one}{forward} {two}{back}] i{} exp{left}", mapping.input);
}

fn flow_text(ends: Ends) -> String {
    let Ends { src, dst, src_port, dst_port } = ends;
    format!("({src}, {src_port}, {dst}, {dst_port})")
}

/// An address that has a stand-in.
struct Host(Ipv4Addr);

impl Default for Host {
    fn default() -> Host {
        Host(Ipv4Addr::UNSPECIFIED)
    }
}

impl Value for Host {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Host, String> {
        Ipv4Addr::parse(text, scope).map(Host)
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}

/// Reads `SADDR SPORT DADDR DPORT`; errors are a line each.
pub(super) fn flow(text: &str, scope: &Scope<'_>) -> Result<Ends, String> {
    let words = words(text);
    let mut errors = Vec::new();
    fn take<T: Value + Default>(
        word: Option<&&str>,
        name: &str,
        scope: &Scope<'_>,
        errors: &mut Vec<String>,
    ) -> T {
        let value =
            word.map_or(Err("required argument missing".into()), |word| T::parse(word, scope));
        value.unwrap_or_else(|error| {
            errors.push(format!("{name}: {error}"));
            T::default()
        })
    }
    let Host(src) = take(words.first(), "SADDR", scope, &mut errors);
    let TcpPort(src_port) = take(words.get(1), "SPORT", scope, &mut errors);
    let Host(dst) = take(words.get(2), "DADDR", scope, &mut errors);
    let TcpPort(dst_port) = take(words.get(3), "DPORT", scope, &mut errors);
    if words.len() > 4 {
        errors.push("too many arguments".into());
    }
    if errors.is_empty() {
        Ok(Ends { src, dst, src_port, dst_port })
    } else {
        Err(errors.join("\n"))
    }
}

/// Returns the rewritten form of a TCP flow, as [`flow`] reads it; nothing when there is no
/// mapping.
pub(super) fn rewritten(set: &FlowSet, rewriter: u16, ends: Ends) -> String {
    let found = set.find(rewriter, IpProtocol::TCP, ends);
    let to = found.and_then(|entry| set.table.get(entry)).map(|mapping| mapping.to);
    to.map_or_else(String::new, |Ends { src, dst, src_port, dst_port }| {
        format!("{src} {src_port} {dst} {dst_port}")
    })
}

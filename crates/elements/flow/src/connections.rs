//! Handlers for connections: listing, forgetting, and limits.
//!
//! They read the table that workers share, so that no packet waits while thousands of connections
//! are listed.

use std::fmt::Write as _;
use std::sync::Arc;

use linerate_graph::{HandlerError, HandlerResult, OffWorker, Scope};
use linerate_ofswitch::conntrack::{ConnectionInfo, FragmentLimits, TimeoutPolicy, Tracker};
use linerate_ofswitch::key::{Key, Mask, of_match};
use linerate_openflow::text::Syntax;
use linerate_openflow::wire::{Field, Version};

use crate::{change::without_quotes, switches::SwitchHandle};

/// Connections that are listed by default.
const MAX_LISTED: usize = 10_000;

/// The match that is a prerequisite of matches on connections.
const TRACKED: &str = "ct_state=+trk-inv";

/// The handlers of a switch's connections.
pub(crate) struct Connections(pub(crate) Arc<SwitchHandle>);

impl OffWorker for Connections {
    fn read(&self, _: &Scope<'_>, handler: &str, parameter: &str) -> HandlerResult {
        let switch = self.0.switch();
        let tracker = &switch.shared_state().tracker;
        match handler {
            "connections" => list(tracker, parameter, self.0.now()).map_err(HandlerError::refused),
            "connection_count" => Ok(tracker.len().to_string()),
            "connection_limits" => Ok(limits(tracker)),
            "connection_timeouts" => Ok(timeouts(tracker)),
            "fragments" => Ok(fragments(tracker)),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&self, _: &Scope<'_>, handler: &str, value: &str) -> HandlerResult {
        let switch = self.0.switch();
        let tracker = &switch.shared_state().tracker;
        let value = without_quotes(value);
        let done = match handler {
            "flush_connections" => flush(tracker, value),
            "connection_limits" => set_limits(tracker, value),
            "connection_timeouts" => set_timeouts(tracker, value),
            "fragments" => set_fragments(tracker, value),
            _ => return Err(HandlerError::missing(handler)),
        };
        done.map_err(HandlerError::refused)?;
        Ok(String::new())
    }
}

/// Parses a filter of connections.
fn filter(text: &str) -> Result<(Key, Mask), String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok((Key::default(), Mask::default()));
    }
    let whole = format!("{TRACKED},{text}");
    let syntax = Syntax::new(Version::V15);
    let wanted = syntax.matching(&whole).map_err(|error| error.shown(&whole))?;
    for entry in wanted.entries() {
        let field = entry.field();
        let known = matches!(
            field,
            Field::CtState
                | Field::CtZone
                | Field::CtMark
                | Field::CtLabel
                | Field::CtProto
                | Field::CtIpv4Src
                | Field::CtIpv4Dst
                | Field::CtIpv6Src
                | Field::CtIpv6Dst
                | Field::CtTpSrc
                | Field::CtTpDst
        );
        if !known {
            return Err(format!(
                "{} is not of connections; ct_zone, ct_mark, ct_label, ct_nw_proto, ct_nw_src, ct_nw_dst, \
                 ct_ipv6_src, ct_ipv6_dst, ct_tp_src and ct_tp_dst are",
                field.name()
            ));
        }
    }
    Ok(of_match(&wanted))
}

fn list(tracker: &Tracker, text: &str, now: u64) -> Result<String, String> {
    let (most, text) = match text.trim().strip_prefix("limit=") {
        Some(rest) => {
            let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let wrong = || format!("limit={number}: write a number of connections");
            (number.parse().map_err(|_| wrong())?, rest)
        }
        None => (MAX_LISTED, text),
    };
    let filter = filter(text)?;
    let (shown, others) = tracker.list(now, most, |info| info.is_like(&filter));
    let line = |info: &ConnectionInfo| format!("{info},timeout={}\n", info.seconds(now));
    let mut lines: Vec<String> = shown.iter().map(line).collect();
    lines.sort_unstable();
    let mut told = lines.concat();
    if others > 0 {
        let _ = writeln!(told, "… and {others} more");
    }
    Ok(told)
}

fn flush(tracker: &Tracker, text: &str) -> Result<(), String> {
    let filter = filter(text)?;
    tracker.flush(|info| info.is_like(&filter));
    Ok(())
}

fn limits(tracker: &Tracker) -> String {
    let (default, zones) = tracker.limits();
    let default = default.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let mut told = format!("zone=default,limit={default}\n");
    for zone in zones {
        let _ = writeln!(told, "zone={},limit={},count={}", zone.zone, zone.limit, zone.count);
    }
    told
}

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',', '\n']).filter(|word| !word.is_empty())
}

/// The words of a text, `NAME=NUMBER` each.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let pair = |word| -> Result<_, String> {
        let wrong = || format!("{word}: write NAME=NUMBER");
        str::split_once(word, '=').ok_or_else(wrong)
    };
    words(text).map(pair).collect()
}

/// A zone by its number, or with `default` those without a setting of their own.
fn zone(text: &str) -> Result<Option<u16>, String> {
    let wrong = |_| format!("{text}: write the number of a zone, 0 to 65535, or default");
    if text == "default" { Ok(None) } else { text.parse().map(Some).map_err(wrong) }
}

fn set_limits(tracker: &Tracker, text: &str) -> Result<(), String> {
    let mut wanted = Vec::new();
    for (of, limit) in pairs(text)? {
        let zone = zone(of)?;
        let limit = match limit {
            "none" => None,
            number => Some(
                number
                    .parse::<u32>()
                    .map_err(|_| format!("{number}: write a number of connections, or none"))?,
            ),
        };
        wanted.push((zone, limit));
    }
    wanted.into_iter().for_each(|(zone, limit)| tracker.set_limit(zone, limit));
    Ok(())
}

fn timeouts(tracker: &Tracker) -> String {
    let (default, zones) = tracker.timeouts();
    let line = |zone: &str, policy: &TimeoutPolicy| {
        let seconds = policy.seconds().map(|(name, seconds)| format!(",{name}={seconds}"));
        format!("zone={zone}{}\n", seconds.collect::<String>())
    };
    let zones = zones.iter().map(|(zone, policy)| line(&zone.to_string(), policy));
    line("default", &default) + &zones.collect::<String>()
}

/// Sets time-outs. Each `zone=` begins those of a zone: the others of it are the defaults; with
/// `none` the zone has none of its own any more.
fn set_timeouts(tracker: &Tracker, text: &str) -> Result<(), String> {
    const FORM: &str = "write zone=ZONE, and behind it time-outs like udp_first=30, or none";
    let mut wanted: Vec<(&str, Option<u16>, Option<TimeoutPolicy>, bool)> = Vec::new();
    for word in words(text) {
        if let Some(of) = word.strip_prefix("zone=") {
            wanted.push((word, zone(of)?, Some(TimeoutPolicy::default()), false));
            continue;
        }
        let Some((_, _, policy, is_said)) = wanted.last_mut() else {
            return Err(format!("{word}: {FORM}"));
        };
        if word == "none" && !*is_said {
            *policy = None;
        } else {
            let pair = word.split_once('=').zip(policy.as_mut());
            let ((name, seconds), policy) = pair.ok_or_else(|| format!("{word}: {FORM}"))?;
            let wrong = |_| format!("{word}: write a number of seconds");
            policy.set(name, seconds.parse().map_err(wrong)?)?;
        }
        *is_said = true;
    }
    if let Some((word, ..)) = wanted.iter().find(|(.., is_said)| !is_said) {
        return Err(format!("{word}: {FORM}"));
    }
    wanted.into_iter().for_each(|(_, zone, policy, _)| tracker.set_timeouts(zone, policy));
    Ok(())
}

fn fragments(tracker: &Tracker) -> String {
    let (limits, counts) = (tracker.fragment_limits(), tracker.fragment_counts());
    let mut told = format!("most={}\n", limits.most);
    for (version, (shortest, counts)) in limits.shortest.iter().zip(counts).enumerate() {
        let version = ["v4", "v6"][version];
        let _ = writeln!(
            told,
            "version={version},shortest={shortest},waiting={},accepted={},completed={},expired={},short={},\
             overlapping={},refused={}",
            counts.waiting,
            counts.accepted,
            counts.completed,
            counts.expired,
            counts.short,
            counts.overlapping,
            counts.refused,
        );
    }
    for packet in tracker.incomplete_packets() {
        let has = match (packet.has_first, packet.has_last) {
            (true, true) => "both",
            (true, false) => "first",
            (false, true) => "last",
            (false, false) => "none",
        };
        let _ = writeln!(
            told,
            "src={},dst={},number={},zone={},protocol={},fragments={},ends={has}",
            packet.source,
            packet.destination,
            packet.number,
            packet.zone,
            packet.protocol,
            packet.fragments,
        );
    }
    told
}

fn set_fragments(tracker: &Tracker, text: &str) -> Result<(), String> {
    let FragmentLimits { mut most, mut shortest } = tracker.fragment_limits();
    for (name, number) in pairs(text)? {
        let number = number.parse().map_err(|_| format!("{name}={number}: write a number"))?;
        match name {
            "most" => most = number,
            "shortest_v4" => shortest[0] = number,
            "shortest_v6" => shortest[1] = number,
            _ => return Err(format!("{name}: write most, shortest_v4 or shortest_v6")),
        }
    }
    tracker.set_fragment_limits(FragmentLimits { most, shortest })
}

//! Single actions, from texts.

use super::super::error::{Fail, Parsed};
use super::super::scan::{Pair, Pairs, parts};
use super::super::{fields, number};
use super::{Scope, choose, connection, header, learn, parse_actions, set};
use crate::wire::{Action, Controller, PacketInReason, PortNumber, Sample, Subfield, Version};

/// The names of actions, for suggestions.
const NAMES: [&str; 73] = [
    "output",
    "controller",
    "enqueue",
    "drop",
    "normal",
    "flood",
    "all",
    "local",
    "in_port",
    "table",
    "group",
    "bundle",
    "bundle_load",
    "set_field",
    "load",
    "move",
    "push",
    "pop",
    "mod_vlan_vid",
    "set_vlan_vid",
    "mod_vlan_pcp",
    "set_vlan_pcp",
    "strip_vlan",
    "pop_vlan",
    "push_vlan",
    "push_mpls",
    "pop_mpls",
    "push_pbb",
    "pop_pbb",
    "encap",
    "decap",
    "mod_dl_src",
    "mod_dl_dst",
    "mod_nw_src",
    "mod_nw_dst",
    "mod_nw_tos",
    "mod_nw_ecn",
    "mod_nw_ttl",
    "set_nw_ttl",
    "mod_tp_src",
    "mod_tp_dst",
    "dec_ttl",
    "copy_ttl_out",
    "copy_ttl_in",
    "set_mpls_label",
    "set_mpls_tc",
    "set_mpls_ttl",
    "dec_mpls_ttl",
    "dec_nsh_ttl",
    "set_tunnel",
    "set_tunnel64",
    "set_queue",
    "pop_queue",
    "resubmit",
    "learn",
    "conjunction",
    "multipath",
    "note",
    "exit",
    "sample",
    "ct",
    "ct_clear",
    "nat",
    "clone",
    "check_pkt_larger",
    "fin_timeout",
    "meter",
    "clear_actions",
    "write_actions",
    "write_metadata",
    "goto_table",
    "apply_actions",
    "output_reg",
];

/// Actions of Open vSwitch that the codec does not have.
const ABSENT: [&str; 4] = ["delete_field", "unroll_xlate", "debug_recirc", "debug_slow"];

/// Reads an action, which may become several.
pub(super) fn action<'t>(
    pair: &Pair<'t>,
    scope: &mut Scope<'_>,
    actions: &mut Vec<Action>,
) -> Parsed<'t, ()> {
    let names = scope.syntax.names;
    let key = pair.key.to_ascii_lowercase();
    let alone = |action: Action| {
        if pair.value.is_empty() {
            return Ok(action);
        }
        Err(Fail::new(pair.whole, format!("{} has no argument", pair.key)))
    };
    let argument = pair.value;
    let none = crate::text::Names::new();
    let names = names.unwrap_or(&none);
    let action = match key.as_str() {
        "output" | "output_reg" => output(pair, scope)?,
        "controller" => controller(argument)?,
        "enqueue" => enqueue(pair, scope)?,
        "group" => Action::Group(number::u32(pair.wanted()?, "the number of a group")?),
        "meter" if scope.version() == Version::V15 => {
            Action::Meter(number::u32(pair.wanted()?, "the number of a meter")?)
        }
        "bundle" | "bundle_load" => choose::bundle(pair, scope, key == "bundle_load")?,
        "multipath" => choose::multipath(pair)?,
        "move" => {
            let (source, destination) = set::arrow(pair)?;
            let (source, destination) = (fields::subfield(source)?, settable(destination)?);
            if source.bits() != destination.bits() {
                let (from, to) = (source.bits(), destination.bits());
                return Err(Fail::new(pair.value, format!("{from} bits are moved to {to}")));
            }
            Action::Move { source, destination }
        }
        "push" => Action::StackPush(fields::subfield(pair.wanted()?)?),
        "pop" => Action::StackPop(settable(pair.wanted()?)?),
        "strip_vlan" | "pop_vlan" => {
            scope.tagged = false;
            alone(Action::PopVlan)?
        }
        "push_vlan" => {
            scope.tagged = true;
            Action::PushVlan(ethernet(pair, scope, &[0x8100, 0x88a8])?)
        }
        "push_mpls" => Action::PushMpls(ethernet(pair, scope, &[0x8847, 0x8848])?),
        "pop_mpls" => Action::PopMpls(ethernet(pair, scope, &[])?),
        "push_pbb" => Action::PushPbb(ethernet(pair, scope, &[0x88e7])?),
        "pop_pbb" => alone(Action::PopPbb)?,
        "encap" => header::encap(pair, scope)?,
        "decap" => header::decap(pair, scope)?,
        "copy_ttl_out" => alone(Action::CopyTtlOut)?,
        "copy_ttl_in" => alone(Action::CopyTtlIn)?,
        "set_mpls_ttl" => Action::SetMplsTtl(number::u8(pair.wanted()?, "a time to live")?),
        "dec_mpls_ttl" => alone(Action::DecMplsTtl)?,
        "dec_nsh_ttl" => {
            header::check_version(pair, scope)?;
            alone(Action::DecNshTtl)?
        }
        "mod_nw_ttl" | "set_nw_ttl" => {
            Action::SetIpTtl(number::u8(pair.wanted()?, "a time to live")?)
        }
        "dec_ttl" if argument.trim().is_empty() => Action::DecIpTtl,
        "dec_ttl" => {
            let id = |part| number::u16(part, "the identifier of a controller");
            Action::DecIpTtlFor(parts(argument).map(id).collect::<Result<_, _>>()?)
        }
        "set_queue" => Action::SetQueue(number::u32(pair.wanted()?, "the number of a queue")?),
        "pop_queue" => alone(Action::PopQueue)?,
        "resubmit" => resubmit(pair, scope)?,
        "learn" => learn::parse(pair, scope)?,
        "conjunction" => conjunction(pair)?,
        "note" => {
            let mut note = number::bytes(argument)?;
            // Padding cannot be told from the note.
            while (note.len() + 10) % 8 != 0 {
                note.push(0);
            }
            Action::Note(note)
        }
        "exit" => alone(Action::Exit)?,
        "sample" => sample(pair, scope)?,
        "ct" => connection::ct(pair, scope)?,
        "ct_clear" => alone(Action::CtClear)?,
        "nat" if scope.connection => connection::nat(pair)?,
        "nat" => {
            return Err(
                Fail::new(pair.whole, "nat is an argument of ct").help("ct(commit,nat(src=…))")
            );
        }
        "clone" => {
            let mut inside = scope.deeper(pair.key, false)?;
            Action::Clone(parse_actions(argument, &mut inside)?)
        }
        "check_pkt_larger" => check_larger(pair)?,
        "fin_timeout" => fin_timeout(argument)?,
        "write_metadata" => {
            let (value, mask) = metadata(pair)?;
            Action::WriteMetadata { value, mask }
        }
        _ if set::parse(&key, pair, scope, actions)? => return check_place(pair, scope, actions),
        _ if argument.is_empty() && names.is_port(pair.key) => {
            to_port(names.port(pair.key)?, pair.key)?
        }
        _ if ABSENT.contains(&key.as_str()) => {
            return Err(Fail::new(pair.key, format!("there is no action \"{key}\" here yet")));
        }
        _ => return Err(Fail::unknown(pair.key, "action", NAMES)),
    };
    actions.push(action);
    check_place(pair, scope, actions)
}

/// Inside of `ct` there are only changes of the connection, which can be nowhere else.
fn check_place<'t>(pair: &Pair<'t>, scope: &Scope<'_>, actions: &[Action]) -> Parsed<'t, ()> {
    use crate::wire::Field;
    let set = match actions.last() {
        Some(Action::SetField(entry)) => Some(entry.field()),
        Some(Action::Load { destination, .. } | Action::Move { destination, .. }) => {
            Some(destination.field())
        }
        _ => None,
    };
    let nat = matches!(actions.last(), Some(Action::Nat(_)));
    let of_connection = nat || matches!(set, Some(Field::CtMark | Field::CtLabel));
    match (scope.connection, of_connection) {
        (true, false) => Err(Fail::new(pair.whole, "ct does nothing but set ct_mark and ct_label")),
        (false, true) => {
            let fail = Fail::new(pair.whole, "a connection is changed when it is remembered");
            Err(fail.help(format!("ct(commit,exec({}))", pair.whole)))
        }
        _ => Ok(()),
    }
}

/// A part of a field that actions may set.
pub(super) fn settable(text: &str) -> Parsed<'_, Subfield> {
    let part = fields::subfield(text)?;
    if part.field().is_settable() {
        return Ok(part);
    }
    Err(Fail::new(text, format!("{text} cannot be set")))
}

/// A type of Ethernet, one of these where there are any.
fn ethernet<'t>(pair: &Pair<'t>, scope: &Scope<'_>, known: &[u16]) -> Parsed<'t, u16> {
    if scope.version() == Version::V10 && !matches!(known, [] | [0x8847, ..]) {
        return Err(Fail::new(pair.key, format!("OpenFlow 1.0 has no {}", pair.key)));
    }
    let kind = number::u16(pair.wanted()?, "a type of Ethernet")?;
    if known.is_empty() || known.contains(&kind) {
        return Ok(kind);
    }
    let known: Vec<_> = known.iter().map(|kind| format!("{kind:#06x}")).collect();
    Err(Fail::new(pair.value, format!("{} adds {}", pair.key, known.join(" or "))))
}

fn to_port(port: PortNumber, at: &str) -> Parsed<'_, Action> {
    port.checked_output().map_err(|_| Fail::new(at, "packets cannot be sent to this port"))?;
    let max_len = if port == PortNumber::CONTROLLER { u16::MAX } else { 0 };
    Ok(Action::Output { port, max_len })
}

fn output<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    let (argument, names) = (pair.wanted()?, scope.syntax.names());
    if argument.contains("max_len") {
        let (mut port, mut length) = (None, None);
        for pair in Pairs::new(argument) {
            let pair = pair?;
            match pair.key {
                "port" => {
                    let number = names.port(pair.wanted()?)?;
                    to_port(number, pair.value)?;
                    port = Some(number);
                }
                "max_len" => length = Some(number::u32(pair.wanted()?, "a length")?),
                key => return Err(Fail::unknown(key, "argument of output", ["port", "max_len"])),
            }
        }
        return match (port, length) {
            (Some(port), Some(max_len)) => Ok(Action::OutputTruncated { port, max_len }),
            _ => Err(Fail::new(argument, "output(port=…,max_len=…) needs both")),
        };
    }
    let port = names.port(argument);
    if let Ok(port) = port {
        return to_port(port, argument);
    }
    match fields::subfield(argument) {
        Ok(source) => Ok(Action::OutputField { source, max_len: u16::MAX }),
        Err(fail) if argument.contains('[') => Err(fail),
        Err(_) => port.and_then(|port| to_port(port, argument)),
    }
}

fn controller(argument: &str) -> Parsed<'_, Action> {
    const NAMES: [&str; 6] = ["max_len", "id", "reason", "userdata", "pause", "meter_id"];
    let mut controller = Controller::default();
    if argument.bytes().all(|digit| digit.is_ascii_digit()) {
        if !argument.is_empty() {
            controller.max_len = number::u16(argument, "max_len")?;
        }
    } else {
        for pair in Pairs::new(argument) {
            let pair = pair?;
            match pair.key {
                "max_len" => controller.max_len = number::u16(pair.wanted()?, "max_len")?,
                "id" => controller.id = number::u16(pair.wanted()?, "the id of a controller")?,
                "reason" => controller.reason = reason(pair.wanted()?)?,
                "userdata" => controller.userdata = number::bytes(pair.value)?,
                "pause" => controller.pause = true,
                "meter_id" => {
                    controller.meter = number::u32(pair.wanted()?, "the number of a meter")?;
                }
                key => return Err(Fail::unknown(key, "argument of controller", NAMES)),
            }
        }
    }
    let plain = Controller { max_len: controller.max_len, ..Controller::default() };
    Ok(if controller == plain {
        Action::Output { port: PortNumber::CONTROLLER, max_len: controller.max_len }
    } else {
        Action::Controller(Box::new(controller))
    })
}

/// Why packets are sent to controllers.
pub(super) const REASONS: [(&str, PacketInReason); 6] = [
    ("no_match", PacketInReason::NoMatch),
    ("action", PacketInReason::Action),
    ("invalid_ttl", PacketInReason::InvalidTtl),
    ("action_set", PacketInReason::ActionSet),
    ("group", PacketInReason::Group),
    ("packet_out", PacketInReason::PacketOut),
];

fn reason(text: &str) -> Parsed<'_, PacketInReason> {
    let known = REASONS.iter().find(|(name, _)| *name == text);
    known
        .map(|&(_, reason)| reason)
        .ok_or_else(|| Fail::unknown(text, "reason", REASONS.iter().map(|&(name, _)| name)))
}

fn enqueue<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    let wrong =
        || Fail::new(pair.whole, "enqueue needs a port and a queue").help("enqueue:PORT:QUEUE");
    let (port, queue) = pair.value.split_once([':', ',']).ok_or_else(wrong)?;
    let port = scope.syntax.names().port(port.trim())?;
    if !port.is_port() && port != PortNumber::IN_PORT && port != PortNumber::LOCAL {
        return Err(Fail::new(pair.value, "this port has no queues"));
    }
    let queue = queue.trim();
    let queue = number::u32(queue.strip_prefix('q').unwrap_or(queue), "the number of a queue")?;
    Ok(Action::Enqueue { port, queue })
}

fn resubmit<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    let names = scope.syntax.names();
    let mut parts = parts(pair.value);
    let mut next = || parts.next().filter(|part| !part.is_empty());
    let port = next().map_or(Ok(PortNumber::IN_PORT), |part| names.port(part))?;
    let table = next().map_or(Ok(255), |part| names.table(part))?;
    let original = match next() {
        None => false,
        Some("ct") => true,
        Some(other) => return Err(Fail::unknown(other, "argument of resubmit", ["ct"])),
    };
    if port == PortNumber::IN_PORT && table == 255 {
        let fail = Fail::new(pair.whole, "resubmit needs a port or a table");
        return Err(fail.help("resubmit(,TABLE)"));
    }
    Ok(Action::Resubmit { port, table, original })
}

fn conjunction<'t>(pair: &Pair<'t>) -> Parsed<'t, Action> {
    let wrong = || Fail::new(pair.whole, "not a conjunction").help("conjunction(ID,1/2)");
    let (id, clause) = pair.value.split_once(',').ok_or_else(wrong)?;
    let (clause, clauses) = clause.split_once('/').ok_or_else(wrong)?;
    let id = number::u32(id.trim(), "the number of a conjunction")?;
    let clause = number::u8(clause.trim(), "a dimension")?;
    let clauses = number::u8(clauses.trim(), "the number of dimensions")?;
    if !(2..=64).contains(&clauses) {
        return Err(Fail::new(pair.value, "a conjunction has 2 to 64 dimensions"));
    }
    if clause < 1 || clause > clauses {
        return Err(Fail::new(pair.value, format!("dimensions go from 1 to {clauses}")));
    }
    Ok(Action::Conjunction { id, clause: clause - 1, clauses })
}

fn sample<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    const NAMES: [&str; 7] = [
        "probability",
        "collector_set_id",
        "obs_domain_id",
        "obs_point_id",
        "sampling_port",
        "ingress",
        "egress",
    ];
    let mut sample = Sample {
        probability: 0,
        collector_set: 0,
        domain: 0,
        point: 0,
        port: PortNumber::ANY,
        direction: 0,
    };
    for pair in Pairs::new(pair.value) {
        let pair = pair?;
        match pair.key {
            "probability" => sample.probability = number::u16(pair.wanted()?, "a probability")?,
            "collector_set_id" => sample.collector_set = number::u32(pair.wanted()?, pair.key)?,
            "obs_domain_id" => sample.domain = number::u32(pair.wanted()?, pair.key)?,
            "obs_point_id" => sample.point = number::u32(pair.wanted()?, pair.key)?,
            "sampling_port" => sample.port = scope.syntax.names().port(pair.wanted()?)?,
            "ingress" => sample.direction = 1,
            "egress" => sample.direction = 2,
            key => return Err(Fail::unknown(key, "argument of sample", NAMES)),
        }
    }
    if sample.probability == 0 {
        return Err(Fail::new(pair.whole, "sample needs a probability, of 65535 packets how many"));
    }
    Ok(Action::Sample(sample))
}

fn check_larger<'t>(pair: &Pair<'t>) -> Parsed<'t, Action> {
    let wrong = || Fail::new(pair.whole, "not a check").help("check_pkt_larger(1500)->reg0[0]");
    let (length, bit) = pair.value.split_once("->").ok_or_else(wrong)?;
    let length = number::u16(length.strip_suffix(')').unwrap_or(length).trim(), "a length")?;
    let destination = settable(bit)?;
    if destination.bits() != 1 {
        return Err(Fail::new(bit, "the answer is one bit").help("reg0[0]"));
    }
    Ok(Action::CheckLarger { length, destination })
}

fn fin_timeout(argument: &str) -> Parsed<'_, Action> {
    let (mut idle, mut hard) = (0, 0);
    for pair in Pairs::new(argument) {
        let pair = pair?;
        let seconds = || number::u16(pair.wanted()?, "a number of seconds");
        match pair.key {
            "idle_timeout" => idle = seconds()?,
            "hard_timeout" => hard = seconds()?,
            key => {
                let names = ["idle_timeout", "hard_timeout"];
                return Err(Fail::unknown(key, "argument of fin_timeout", names));
            }
        }
    }
    Ok(Action::FinTimeout { idle, hard })
}

/// Metadata and their mask.
pub(super) fn metadata<'t>(pair: &Pair<'t>) -> Parsed<'t, (u64, u64)> {
    let text = pair.wanted()?;
    let (value, mask) =
        text.split_once('/').map_or((text, None), |(value, mask)| (value, Some(mask)));
    let value = number::u64(value, "metadata")?;
    let mask = mask.map_or(Ok(u64::MAX), |mask| number::u64(mask, "a mask of metadata"))?;
    Ok((value & mask, mask))
}

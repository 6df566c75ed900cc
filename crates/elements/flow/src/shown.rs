//! Entries of the fast path, for people.

use std::fmt::Write as _;

use linerate_flow::cache::Shown;
use linerate_flow::key::{Key, Mask};
use linerate_flow::pipeline::{Decision, Step};
use linerate_flow::wire::Field;

/// An entry in a line.
pub(crate) fn entry(shown: &Shown, now: u64) -> String {
    let age = now.saturating_sub(shown.made) as f64 / 1e9;
    let rate = if age > 0.0 { shown.packets as f64 / age } else { 0.0 };
    format!(
        "{}, packets:{}, bytes:{}, rate:{rate:.0}, used:{:.1}s, actions:{}\n",
        matching(&shown.key, &shown.mask),
        shown.packets,
        shown.bytes,
        now.saturating_sub(shown.used) as f64 / 1e9,
        actions(&shown.decision),
    )
}

/// The fields packets have in common.
fn matching(key: &Key, mask: &Mask) -> String {
    let mut text = String::new();
    let mut seen = Mask::default();
    for &field in Field::ALL {
        let bits = mask.get(field);
        let mut own = Mask::default();
        own.add(field, bits);
        if bits == 0 || seen.covers(&own) || !is_of(field, key) {
            continue;
        }
        seen.join(&own);
        if !text.is_empty() {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{}={:#x}", field.name(), key.get(field) & bits);
        if bits != field.all_bits() {
            let _ = write!(text, "/{bits:#x}");
        }
    }
    if key.continuation() != 0 {
        let _ = write!(text, ",recirc_id={}", key.continuation());
    }
    text
}

/// Whether a packet of this key has the field, of several at one place.
fn is_of(field: Field, key: &Key) -> bool {
    let (kind, protocol) = (key.get(Field::EthType), key.get(Field::IpProto));
    match field {
        Field::InPort16 => false,
        Field::Ipv4Src | Field::Ipv4Dst => !matches!(kind, 0x0806 | 0x8035),
        Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha => {
            matches!(kind, 0x0806 | 0x8035)
        }
        Field::TcpSrc | Field::TcpDst => !matches!(protocol, 1 | 17 | 58 | 132),
        Field::UdpSrc | Field::UdpDst => protocol == 17,
        Field::SctpSrc | Field::SctpDst => protocol == 132,
        Field::Icmpv4Type | Field::Icmpv4Code => protocol == 1,
        Field::Icmpv6Type | Field::Icmpv6Code => protocol == 58,
        _ => field.registers().count_ones() <= 1,
    }
}

/// What becomes of packets, in short.
fn actions(decision: &Decision) -> String {
    if decision.steps.is_empty() {
        return "drop".to_owned();
    }
    let one = |step: &Step| match step {
        Step::Output { port, .. } => port.to_string(),
        Step::Set(entry) => format!("set({}={:#x})", entry.field().name(), entry.value()),
        Step::PushVlan { tci, .. } => format!("push_vlan({tci:#x})"),
        Step::PopVlan => "pop_vlan".to_owned(),
        Step::PushMpls { .. } => "push_mpls".to_owned(),
        Step::PopMpls(_) => "pop_mpls".to_owned(),
        Step::CopyTtlOut => "copy_ttl_out".to_owned(),
        Step::CopyTtlIn => "copy_ttl_in".to_owned(),
        Step::PushPbb { .. } => "push_pbb".to_owned(),
        Step::PopPbb => "pop_pbb".to_owned(),
        Step::Meter(meter) => format!("meter({})", meter.number),
        Step::Count(_) => "count".to_owned(),
        Step::Select(select) => format!("select({} ways)", select.ways.len()),
        Step::Copy(steps) => format!("clone({} steps)", steps.len()),
        Step::Controller(_) => "controller".to_owned(),
        Step::Track { zone, .. } => format!("ct(zone={zone})"),
        Step::ClearTrack => "ct_clear".to_owned(),
        Step::Continue(next) => format!("recirc({})", next.number),
        Step::Larger { length, .. } => format!("check_pkt_larger({length})"),
        Step::Sample(_) => "sample".to_owned(),
    };
    decision.steps.iter().map(one).collect::<Vec<_>>().join(",")
}

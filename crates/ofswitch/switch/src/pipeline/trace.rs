//! Trace of a packet's way.

use std::fmt::Write as _;

use super::{Decision, Step};
use crate::key::{ENTRY_WORDS, Key, Mask, position_of};
use crate::table::Flow;
use crate::text::Syntax;
use crate::wire::field::Needs;
use crate::wire::{Action, Entry, Field, Match, Version};

/// Lines of the trace so far.
#[derive(Debug)]
pub(super) struct Trace {
    text: String,
    came: Key,
}

/// A flow that matched.
pub(super) fn flow(flow: &Flow) -> String {
    let matching = print(&flow.matching.unpack());
    let (table, priority, cookie) = (flow.table, flow.priority, flow.cookie);
    let mut line = format!("table {table}: priority {priority}");
    if !matching.is_empty() {
        let _ = write!(line, ", {matching}");
    }
    if cookie != 0 {
        let _ = write!(line, ", cookie {cookie:#x}");
    }
    if flow.instructions.is_empty() {
        line.push_str(": does nothing");
    }
    line
}

/// Actions that are done.
pub(super) fn actions(actions: &[Action]) -> String {
    syntax().print_actions(actions)
}

impl Trace {
    pub(super) fn new(key: &Key) -> Trace {
        let mut trace = Trace { text: String::new(), came: *key };
        trace.line(0, format!("packet: {}", print(&fields_of(key, &all_of(key)))));
        trace
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    /// A line, so deep.
    pub(super) fn line(&mut self, depth: usize, line: impl AsRef<str>) {
        let _ = writeln!(self.text, "{:width$}{}", "", line.as_ref(), width = 4 * depth);
    }

    pub(super) fn end(&mut self, now: &Key, written: &Mask, decision: &Decision) {
        let mut became = *now;
        // Without the fields that only the pipeline has.
        became.words_mut()[ENTRY_WORDS..].fill(0);
        if became == self.came || written.words()[..ENTRY_WORDS].iter().all(|word| *word == 0) {
            self.line(0, "packet in the end: as it came");
        } else {
            let fields = fields_of(&became, &all_of(&became));
            self.line(0, format!("packet in the end: {}", print(&fields)));
        }
        let registers = fields_of(now, &pipeline(now));
        if !registers.is_empty() {
            self.line(0, format!("registers: {}", print(&registers)));
        }
        self.line(0, format!("looked at: {}", print(&looked_at(&self.came, &decision.mask))));
        if decision.steps.is_empty() {
            self.line(0, "steps: drop");
        } else {
            self.line(0, format!("steps: {}", steps(&decision.steps)));
        }
        if !decision.holds {
            self.line(0, "(for this packet alone)");
        }
    }
}

fn syntax() -> Syntax<'static> {
    Syntax::new(Version::V13)
}

fn print(matching: &Match) -> String {
    syntax().print_match(matching)
}

/// Returns the bits that were looked at, with the packet's values.
#[must_use]
pub fn looked_at(key: &Key, mask: &Mask) -> Match {
    fields_of(key, mask)
}

/// Returns a mask of all bits of words that are not zero, and of fields every packet has.
fn all_of(key: &Key) -> Mask {
    let mut mask = Mask::default();
    let words = mask.words_mut().iter_mut().zip(key.words()).take(ENTRY_WORDS);
    for (mask, word) in words {
        *mask = if *word == 0 { 0 } else { u64::MAX };
    }
    mask.add_all(Field::EthDst);
    mask.add_all(Field::EthSrc);
    mask.add_all(Field::EthType);
    mask.add_all(Field::InPort);
    // Of the connection's fields only its state.
    let state = position_of(Field::CtState);
    mask.words_mut()[state.word] &= !(u64::from(u32::MAX) << state.shift);
    mask.add(Field::CtState, key.get(Field::CtState));
    mask
}

fn pipeline(key: &Key) -> Mask {
    let mut mask = Mask::default();
    for (mask, word) in mask.words_mut().iter_mut().zip(key.words()).skip(ENTRY_WORDS) {
        *mask = if *word == 0 { 0 } else { u64::MAX };
    }
    mask
}

/// Bits of a key as fields, under the names a packet with this key has for them.
fn fields_of(key: &Key, mask: &Mask) -> Match {
    let mut matching = Match::new();
    let ethernet = key.get(Field::EthType);
    let (v4, v6) = (ethernet == 0x0800, ethernet == 0x86dd);
    let protocol = key.get(Field::IpProto);
    let carries = |number: u128| (v4 || v6) && protocol == number;
    let discovery = v6 && protocol == 58 && matches!(key.get(Field::Icmpv6Type), 135 | 136);
    for &field in Field::ALL {
        let bits = mask.get(field);
        let own = position_of(field).word >= ENTRY_WORDS && key.get(field) == 0;
        if bits == 0 || own || field.registers().count_ones() > 1 {
            continue;
        }
        let word = position_of(field).word;
        let has = match field {
            Field::InPort16 | Field::IpTos | Field::VlanTci | Field::ActionSetOutput => false,
            Field::IpDscp | Field::IpEcn | Field::IpProto | Field::IpTtl | Field::IpFrag => {
                v4 || v6
            }
            Field::Ipv4Src | Field::Ipv4Dst => v4,
            Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6Label | Field::Ipv6Extensions => v6,
            Field::ArpOp | Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha => {
                matches!(ethernet, 0x0806 | 0x8035)
            }
            Field::TcpSrc | Field::TcpDst | Field::TcpFlags => carries(6),
            Field::UdpSrc | Field::UdpDst => carries(17),
            Field::SctpSrc | Field::SctpDst => carries(132),
            Field::Icmpv4Type | Field::Icmpv4Code => v4 && protocol == 1,
            Field::Icmpv6Type | Field::Icmpv6Code => v6 && protocol == 58,
            Field::NdTarget => discovery,
            Field::NdSll => discovery && key.get(Field::Icmpv6Type) == 135,
            Field::NdTll => discovery && key.get(Field::Icmpv6Type) == 136,
            Field::MplsLabel | Field::MplsTc | Field::MplsBos | Field::MplsTtl => {
                matches!(ethernet, 0x8847 | 0x8848)
            }
            Field::PbbIsid | Field::PbbUca => ethernet == 0x88e7,
            _ if field.needs() == Needs::Nsh => ethernet == 0x894f,
            Field::VlanPcp => key.get(Field::VlanVid) & 0x1000 != 0,
            Field::PacketType | Field::InPhyPort => key.get(field) != 0,
            Field::CtProto | Field::CtTpSrc | Field::CtTpDst => key.get(Field::CtState) != 0,
            Field::CtIpv4Src | Field::CtIpv4Dst | Field::CtIpv6Src | Field::CtIpv6Dst => {
                key.get(field) != 0 && key.get(Field::CtState) != 0
            }
            _ => true,
        };
        // Fields outside of headers are shown only if they are not zero.
        let plain = (16..ENTRY_WORDS).contains(&word) && bits == field.all_bits();
        if has && !(plain && key.get(field) == 0 && word != 23 && word >= 16) {
            matching = matching.with_entry(Entry::masked(field, key.get(field), bits));
        }
    }
    matching
}

/// Steps in words.
fn steps(all: &[Step]) -> String {
    let texts: Vec<String> = all.iter().map(step).collect();
    texts.join(", ")
}

fn set(entry: &Entry) -> String {
    print(&Match::new().with_entry(*entry))
}

fn step(step: &Step) -> String {
    match step {
        Step::Output { port, max_len, queue } => {
            let mut text = format!("output {}", crate::wire::PortNumber(*port));
            if *queue != 0 {
                let _ = write!(text, " by queue {queue}");
            }
            if let Some(max_len) = max_len {
                let _ = write!(text, " cut to {max_len}");
            }
            text
        }
        Step::Set(entry) => format!("set {}", set(entry)),
        Step::PushVlan { kind, tci } => {
            format!("push_vlan {kind:#06x} vid={} pcp={}", tci & 0xfff, tci >> 13)
        }
        Step::PopVlan => "pop_vlan".into(),
        Step::PushMpls { kind, entry, .. } => {
            format!("push_mpls {kind:#06x} label={} ttl={}", entry >> 12, entry & 0xff)
        }
        Step::PopMpls(kind) => format!("pop_mpls {kind:#06x}"),
        Step::EncapMpls { kind, entry } => {
            format!("encap_mpls {kind:#06x} label={} ttl={}", entry >> 12, entry & 0xff)
        }
        Step::DecapMpls => "decap_mpls".into(),
        Step::EncapNsh { header, .. } => {
            format!("encap_nsh md_type={} np={}, {} bytes", header[2], header[3], header.len())
        }
        Step::DecapNsh => "decap_nsh".into(),
        Step::PushPbb { kind, service } => format!("push_pbb {kind:#06x} isid={service}"),
        Step::PopPbb => "pop_pbb".into(),
        Step::CopyTtlOut => "copy_ttl_out".into(),
        Step::CopyTtlIn => "copy_ttl_in".into(),
        Step::Meter(meter) => format!("meter {}", meter.number),
        Step::Count(_) => "count".into(),
        Step::Select(select) => {
            let way = |(weight, _, way): &(u32, _, Vec<Step>)| {
                let way = if way.is_empty() { "drop".into() } else { steps(way) };
                format!("{weight}: ({way})")
            };
            let ways: Vec<String> = select.ways.iter().map(way).collect();
            format!("one of ({})", ways.join(", "))
        }
        Step::Copy(inner) => format!("with a copy ({})", steps(inner)),
        Step::Controller(punt) => format!("to controllers ({:?})", punt.reason),
        Step::Track { action, zone } => {
            let mut text = format!("track in zone {zone}");
            if action.commit {
                text.push_str(", remember");
            }
            if !action.actions.is_empty() {
                let _ = write!(text, ", {}", syntax().print_actions(&action.actions));
            }
            text
        }
        Step::ClearTrack => "forget connection".into(),
        Step::Continue(next) => format!("look up again as {}", next.number),
        Step::Larger { length, larger, other } => format!(
            "longer than {length}: look up again as {}, else as {}",
            larger.number, other.number
        ),
        Step::Sample(_) => "sample".into(),
    }
}

/// Prints the steps of a decision.
#[must_use]
pub fn print_steps(all: &[Step]) -> String {
    if all.is_empty() { "drop".into() } else { steps(all) }
}

//! Random sets of rules, over the fields and actions that both sides have.

use fastrand::Rng;
use linerate_openflow::wire::{
    Action, Bucket, Entry, Field, FlowMod, GroupCommand, GroupMod, GroupType, Instruction, Match,
    Message, PortNumber, Subfield,
};

use crate::PORTS;
use crate::packets::{Values, one_in, pick};

/// Tables that rules are in.
const TABLES: u8 = 5;

/// Groups that rules name.
const GROUPS: u32 = 3;

/// A set: groups first, then flows.
pub(crate) fn random(rng: &mut Rng) -> Vec<Message> {
    let mut set = Vec::new();
    let (groups, cuts) = (one_in(rng, 3), one_in(rng, 8));
    let labels = if cuts { Labels::Stay } else { *pick(rng, &[Labels::Come, Labels::Go]) };
    if groups {
        for group in 1..=GROUPS {
            let kind = *pick(rng, &[GroupType::All, GroupType::All, GroupType::Indirect]);
            let buckets = if kind == GroupType::Indirect { 1 } else { rng.usize(0..=3) };
            let buckets = (0..buckets).map(|_| {
                let kind = RuleHeaders { cuts, labels, ..RuleHeaders::any(rng) };
                Bucket::new(actions(rng, 0, &kind, true))
            });
            set.push(Message::GroupMod(GroupMod {
                command: GroupCommand::Add,
                kind,
                group,
                at: 0,
                buckets: buckets.collect(),
                selection: None,
            }));
        }
    }
    let rules = if rng.bool() { rng.usize(1..=8) } else { rng.usize(1..=50) };
    // Of flows that overlap with one priority any may be taken.
    let mut priorities: Vec<u16> = (1..=rules as u16 + 1).map(|rank| rank * 10).collect();
    priorities[rules] = 0xffff;
    rng.shuffle(&mut priorities);
    priorities.truncate(rules);
    for (number, priority) in priorities.into_iter().enumerate() {
        let table = if number == 0 || rng.bool() { 0 } else { rng.u8(..TABLES) };
        let mut kind = RuleHeaders::random(rng);
        (kind.groups, kind.cuts, kind.labels) = (groups, cuts, labels);
        kind.bottom = rng.bool();
        let matching = kind.matching(rng);
        let instructions = instructions(rng, table, &kind);
        set.push(Message::FlowMod(FlowMod::add(table, priority, matching, instructions)));
    }
    if one_in(rng, 5) {
        set.extend(conjunctions(rng));
    }
    set
}

/// Fields that Open vSwitch does not set, or not to all values.
fn unsaid(field: Field) -> bool {
    matches!(field, Field::MplsBos | Field::ArpOp)
}

/// Returns true if a rule adds labels.
pub(crate) fn adds_labels(rule: &Message) -> bool {
    format!("{rule:?}").contains("PushMpls")
}

/// Flows that match in several dimensions, and those that match the result.
fn conjunctions(rng: &mut Rng) -> Vec<Message> {
    let table = rng.u8(..2);
    let mut flows = Vec::new();
    for id in 1..=rng.u32(1..=2) {
        let clauses = rng.u8(2..=3);
        let priority = rng.u16(1..25) * 20 + 5 * id as u16;
        let dimensions = [
            [Field::Ipv4Src, Field::Ipv4Dst, Field::IpTtl],
            [Field::EthSrc, Field::EthDst, Field::InPort],
        ];
        let fields = pick(rng, &dimensions);
        for clause in 0..clauses {
            for _ in 0..rng.u32(1..=3) {
                let field = fields[usize::from(clause)];
                let mut matching = Match::new().with(Field::EthType, 0x0800);
                matching = match field {
                    Field::InPort => matching.with(field, u128::from(rng.u32(1..=PORTS))),
                    _ => matching.with_entry(entry(rng, field)),
                };
                let actions = vec![Action::Conjunction { id, clause, clauses }];
                flows.push((priority, matching, vec![Instruction::ApplyActions(actions)]));
            }
        }
        let matching = Match::new().with(Field::EthType, 0x0800);
        let matching = matching.with(Field::ConjunctionId, u128::from(id));
        let kind = RuleHeaders { network: 0x0800, ..RuleHeaders::any(rng) };
        let kind = RuleHeaders { tagged: false, ..kind };
        flows.push((priority, matching, instructions(rng, table, &kind)));
    }
    rng.shuffle(&mut flows);
    let flows = flows.into_iter().map(|(priority, matching, instructions)| {
        Message::FlowMod(FlowMod::add(table, priority, matching, instructions))
    });
    flows.collect()
}

/// Headers that a rule takes packets to have, for its match and actions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleHeaders {
    network: u16,
    protocol: u8,
    /// The type of a message of `ICMPv6`.
    message: u8,
    tagged: bool,
    /// Whether there are groups.
    groups: bool,
    /// Whether packets are cut. Open vSwitch cuts them to a length they have before tags are added
    /// that were added since the last time it was sent, so it is one or the other.
    cuts: bool,
    labels: Labels,
    /// Set if a packet with a label has only one, where labels are popped: Open vSwitch pops all
    /// when a flow gives the wrong type of the payload.
    bottom: bool,
}

/// Use of labels: one of these, since Open vSwitch does not set the type of Ethernet where one is
/// popped that was pushed just before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Labels {
    Stay,
    Come,
    Go,
}

impl RuleHeaders {
    fn any(rng: &mut Rng) -> RuleHeaders {
        RuleHeaders {
            network: 0,
            protocol: 0,
            message: 0,
            tagged: one_in(rng, 4),
            groups: false,
            cuts: false,
            labels: Labels::Stay,
            bottom: false,
        }
    }

    fn random(rng: &mut Rng) -> RuleHeaders {
        let mut kind = RuleHeaders::any(rng);
        kind.network =
            *pick(rng, &[0, 0x0800, 0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8847, 0x8848]);
        kind.protocol = match kind.network {
            0x0800 => *pick(rng, &[0, 6, 6, 17, 132, 1]),
            0x86dd => *pick(rng, &[0, 6, 17, 132, 58, 58]),
            _ => 0,
        };
        if kind.protocol == 58 {
            kind.message = *pick(rng, &[0, 135, 136]);
        }
        kind
    }

    /// With another type of Ethernet, and an unknown payload.
    fn carrying(self, network: u16) -> RuleHeaders {
        RuleHeaders { network, protocol: 0, message: 0, ..self }
    }

    /// Returns the fields of headers of this kind, without those that determine the kind.
    fn fields(self) -> Vec<Field> {
        let mut fields = vec![Field::EthDst, Field::EthSrc];
        if self.tagged {
            fields.extend([Field::VlanVid, Field::VlanPcp]);
        }
        match self.network {
            0x0800 => fields.extend([Field::Ipv4Src, Field::Ipv4Dst]),
            0x86dd => fields.extend([Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label]),
            0x0806 => fields.extend([
                Field::ArpOp,
                Field::ArpSpa,
                Field::ArpTpa,
                Field::ArpSha,
                Field::ArpTha,
            ]),
            0x8847 | 0x8848 => {
                fields.extend([Field::MplsLabel, Field::MplsTc, Field::MplsBos, Field::MplsTtl]);
            }
            _ => {}
        }
        if matches!(self.network, 0x0800 | 0x86dd) {
            fields.extend([Field::IpDscp, Field::IpEcn, Field::IpTtl, Field::IpFrag]);
        }
        match self.protocol {
            6 => fields.extend([Field::TcpSrc, Field::TcpDst, Field::TcpFlags]),
            17 => fields.extend([Field::UdpSrc, Field::UdpDst]),
            132 => fields.extend([Field::SctpSrc, Field::SctpDst]),
            1 => fields.extend([Field::Icmpv4Type, Field::Icmpv4Code]),
            58 if self.message != 0 => {
                fields.extend([Field::NdTarget, Field::Icmpv6Code]);
                let address = if self.message == 135 { Field::NdSll } else { Field::NdTll };
                fields.push(address);
            }
            58 => fields.extend([Field::Icmpv6Type, Field::Icmpv6Code]),
            _ => {}
        }
        fields
    }

    fn matching(self, rng: &mut Rng) -> Match {
        let mut matching = Match::new();
        if one_in(rng, 5) {
            matching = matching.with(Field::InPort, u128::from(rng.u32(1..=PORTS)));
        }
        if one_in(rng, 6) {
            let field = *pick(rng, &STATE);
            matching = matching.with_entry(entry(rng, field));
        }
        if self.network != 0 {
            matching = matching.with(Field::EthType, u128::from(self.network));
        }
        if self.protocol != 0 {
            matching = matching.with(Field::IpProto, u128::from(self.protocol));
        }
        if matches!(self.network, 0x8847 | 0x8848) && self.labels == Labels::Go {
            matching = matching.with(Field::MplsBos, u128::from(self.bottom));
        }
        if self.message != 0 {
            matching = matching.with(Field::Icmpv6Type, u128::from(self.message));
        }
        if self.tagged || one_in(rng, 10) {
            // Tagged with a number, tagged at all, or not tagged.
            matching = match rng.u32(..4) {
                0 if !self.tagged => matching.with(Field::VlanVid, 0),
                1 => matching.with_masked(Field::VlanVid, 0x1000, 0x1000),
                _ => matching.with(Field::VlanVid, u128::from(0x1000 | Values::vlan(rng) & 0xfff)),
            };
        }
        let fields = self.fields();
        for _ in 0..*pick(rng, &[0, 0, 1, 1, 1, 2, 3]) {
            let field = *pick(rng, &fields);
            if matches!(field, Field::VlanVid | Field::MplsBos) {
                continue;
            }
            matching = matching.with_entry(entry(rng, field));
        }
        matching
    }
}

/// Fields outside of headers.
const STATE: [Field; 4] = [Field::Metadata, Field::Reg0, Field::Reg1, Field::TunnelId];

fn value(rng: &mut Rng, field: Field) -> u128 {
    let value = match field {
        Field::EthDst
        | Field::EthSrc
        | Field::ArpSha
        | Field::ArpTha
        | Field::NdSll
        | Field::NdTll => u128::from(Values::mac(rng)),
        Field::VlanVid => u128::from(Values::vlan(rng) | 0x1000),
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => {
            u128::from(Values::ipv4(rng))
        }
        Field::Ipv6Src | Field::Ipv6Dst | Field::NdTarget => Values::ipv6(rng),
        Field::Ipv6Label => u128::from(Values::flow_label(rng)),
        Field::IpTtl | Field::MplsTtl => u128::from(Values::ttl(rng)),
        Field::IpDscp => u128::from(Values::tos(rng) >> 2),
        Field::MplsLabel => u128::from(Values::label(rng)),
        Field::TcpSrc
        | Field::TcpDst
        | Field::UdpSrc
        | Field::UdpDst
        | Field::SctpSrc
        | Field::SctpDst => u128::from(Values::port(rng)),
        Field::ArpOp => u128::from(rng.u8(1..4)),
        Field::IpFrag => *pick(rng, &[0, 1, 3]),
        Field::Icmpv6Type => u128::from(rng.u8(128..130)),
        Field::Icmpv4Type => *pick(rng, &[0, 3, 8]),
        Field::Icmpv4Code | Field::Icmpv6Code | Field::MplsBos => u128::from(rng.u8(..2)),
        Field::TcpFlags => *pick(rng, &[2, 16, 17, 4]),
        _ => u128::from(rng.u8(..4)),
    };
    value & field.all_bits()
}

/// A match on a field: a value, or bits of it.
fn entry(rng: &mut Rng, field: Field) -> Entry {
    let wanted = value(rng, field);
    if !field.is_maskable() || rng.bool() {
        return Entry::exact(field, wanted);
    }
    let mask = match field.bits() {
        // A prefix, most of the time.
        bits if !one_in(rng, 4) => {
            let rest = field.all_bits().checked_shr(rng.u32(1..=bits)).unwrap_or_default();
            field.all_bits() & !rest
        }
        _ => rng.u128(..) & field.all_bits(),
    };
    let mask = if mask == 0 { field.all_bits() } else { mask };
    Entry::masked(field, wanted & mask, mask)
}

fn instructions(rng: &mut Rng, table: u8, kind: &RuleHeaders) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    let apply = actions(rng, table, kind, false);
    if !apply.is_empty() {
        instructions.push(Instruction::ApplyActions(apply));
    }
    if one_in(rng, 10) {
        instructions.push(Instruction::ClearActions);
    }
    if one_in(rng, 4) {
        let set = actions(rng, table, kind, true);
        instructions.push(Instruction::WriteActions(set));
    }
    if one_in(rng, 6) {
        let mask = *pick(rng, &[u64::MAX, 3, 1]);
        instructions.push(Instruction::WriteMetadata { value: rng.u64(..4) & mask, mask });
    }
    if table + 1 < TABLES && one_in(rng, 3) {
        instructions.push(Instruction::GotoTable(rng.u8(table + 1..TABLES)));
    }
    instructions
}

/// Actions, of an action set or a bucket where `set` is true: there, each only once, and none that
/// depends on where it stands.
fn actions(rng: &mut Rng, table: u8, kind: &RuleHeaders, set: bool) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    let fields = kind.fields();
    let mut kind = *kind;
    for _ in 0..*pick(rng, &[0, 1, 1, 2, 3, 5]) {
        let action = match rng.u32(..28) {
            0..6 => {
                let fields = if set { &fields } else { &kind.fields() };
                let field = *pick(rng, fields);
                if !field.is_settable() || unsaid(field) {
                    continue;
                }
                Action::SetField(Entry::exact(field, value(rng, field)))
            }
            6 => {
                let field = *pick(rng, &STATE);
                Action::SetField(Entry::exact(field, value(rng, field)))
            }
            7 if !set => {
                let field = *pick(rng, &kind.fields());
                let all = u32::from(u16::try_from(field.bits()).unwrap_or(64)).min(64) as u16;
                let (offset, bits) = (rng.u16(..all), rng.u16(1..=all));
                let Some(destination) = Subfield::new(field, offset, bits.min(all - offset)) else {
                    continue;
                };
                if !field.is_settable() || unsaid(field) {
                    continue;
                }
                let value = rng.u64(..) & (u64::MAX >> (64 - destination.bits()));
                Action::Load { destination, value }
            }
            8 if !set => {
                let fields = [&kind.fields()[..], &STATE].concat();
                let (source, destination) = (*pick(rng, &fields), *pick(rng, &fields));
                let bits = rng.u32(1..=source.bits().min(destination.bits())) as u16;
                let part = |rng: &mut Rng, field: Field| {
                    Subfield::new(field, rng.u16(..=field.bits() as u16 - bits), bits)
                };
                let (Some(source), Some(destination)) = (part(rng, source), part(rng, destination))
                else {
                    continue;
                };
                if !destination.field().is_settable() || unsaid(destination.field()) {
                    continue;
                }
                Action::Move { source, destination }
            }
            9 if !kind.cuts && kind.network | u16::from(!set) != 0 => {
                kind.tagged |= !set;
                Action::PushVlan(*pick(rng, &[0x8100, 0x8100, 0x88a8]))
            }
            10 if kind.tagged && !kind.cuts => {
                kind.tagged = set;
                Action::PopVlan
            }
            11 if matches!(kind.network, 0x0800 | 0x86dd) => Action::DecIpTtl,
            // Where there is no label any more, Open vSwitch ends everything.
            11 | 12
                if matches!(kind.network, 0x8847 | 0x8848)
                    && !(set && kind.labels == Labels::Go) =>
            {
                Action::DecMplsTtl
            }
            12 if matches!(kind.network, 0x0800 | 0x86dd) => Action::SetIpTtl(Values::ttl(rng)),
            13 if kind.labels == Labels::Come => {
                let label = *pick(rng, &[0x8847, 0x8848]);
                kind = if set { kind } else { kind.carrying(label) };
                Action::PushMpls(label)
            }
            14 if kind.labels == Labels::Go && matches!(kind.network, 0x8847 | 0x8848) => {
                let network =
                    if kind.bottom { *pick(rng, &[0x0800, 0x86dd, 0x0806]) } else { 0x8847 };
                kind.labels = Labels::Stay;
                kind = if set { kind } else { kind.carrying(network) };
                Action::PopMpls(network)
            }
            15 if !set => {
                // Upwards, except now and then: in circles nothing comes of a packet.
                let least = table + u8::from(!one_in(rng, 30));
                if least >= TABLES {
                    continue;
                }
                Action::Resubmit {
                    port: PortNumber(*pick(rng, &[PortNumber::IN_PORT.0, 1, 2])),
                    table: rng.u8(least..TABLES),
                    original: false,
                }
            }
            16 if !set => Action::Note(vec![1, 2, 3, 4, 5, 6]),
            17 if kind.groups => Action::Group(rng.u32(1..=GROUPS)),
            18 if !set && one_in(rng, 3) => Action::Exit,
            19 if !set => {
                let field = *pick(rng, &STATE);
                let part = Subfield::new(field, rng.u16(..16), rng.u16(1..=16)).expect("bits");
                if rng.bool() { Action::StackPush(part) } else { Action::StackPop(part) }
            }
            20 if !set => {
                let source = Subfield::new(*pick(rng, &STATE), 0, 16).expect("bits");
                Action::OutputField { source, max_len: 0 }
            }
            21 if !set && kind.cuts => Action::OutputTruncated {
                port: PortNumber(rng.u32(1..=PORTS)),
                max_len: *pick(rng, &[14, 33, 64, 1500]),
            },
            23 if !set && one_in(rng, 2) => {
                let inner = RuleHeaders { groups: false, ..kind };
                let mut inner = self::actions(rng, table, &inner, false);
                // Actions of a copy that look up again have no others behind.
                inner.retain(|action| {
                    !matches!(
                        action,
                        Action::Clone(_) | Action::StackPop(_) | Action::CheckLarger { .. }
                    )
                });
                Action::Clone(inner)
            }
            _ => {
                let port = match rng.u32(..12) {
                    0 => PortNumber::IN_PORT,
                    1 => PortNumber::ALL,
                    2 => PortNumber::FLOOD,
                    _ => PortNumber(rng.u32(1..=PORTS)),
                };
                Action::Output { port, max_len: 0 }
            }
        };
        let same = |other: &Action| match (other, &action) {
            (Action::SetField(one), Action::SetField(other)) => one.field() == other.field(),
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        };
        // In one set, Open vSwitch writes the label over the second tag of packets that have two.
        let is_mixed = |other: &Action| {
            matches!(
                (other, &action),
                (Action::PushMpls(_), Action::PopVlan) | (Action::PopVlan, Action::PushMpls(_))
            )
        };
        if !(set && actions.iter().any(|other| same(other) || is_mixed(other))) {
            actions.push(action);
        }
    }
    actions
}

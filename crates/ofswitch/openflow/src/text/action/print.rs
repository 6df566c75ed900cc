//! Actions and instructions, as texts.

use super::super::{Syntax, fields, number, value};
use super::choose::{BUNDLES, FIELDS, MULTIPATHS};
use super::connection::HELPERS;
use super::header::{print_decap, print_encap};
use super::parse::REASONS;
use crate::wire::{
    Action, Bundle, Controller, Ct, Entry, Field, Instruction, Learn, LearnDestination, LearnFlags,
    LearnSource, LearnSpec, Nat, NatAddresses, NatFlags, PacketInReason, PortNumber, Sample,
    Subfield, Version, Zone,
};

/// Actions with commas between them; `drop` for none.
pub(in crate::text) fn print_actions(actions: &[Action], syntax: &Syntax<'_>) -> String {
    if actions.is_empty() { "drop".to_owned() } else { list(actions, syntax) }
}

fn list(actions: &[Action], syntax: &Syntax<'_>) -> String {
    actions.iter().map(|action| print(action, syntax)).collect::<Vec<_>>().join(",")
}

/// Instructions, in the order they are done; `drop` for none.
pub(in crate::text) fn print_instructions(
    instructions: &[Instruction],
    syntax: &Syntax<'_>,
) -> String {
    let order = |instruction: &&Instruction| match instruction {
        Instruction::Meter(_) => 0,
        Instruction::ApplyActions(_) => 1,
        Instruction::ClearActions => 2,
        Instruction::WriteActions(_) => 3,
        Instruction::WriteMetadata { .. } => 4,
        Instruction::GotoTable(_) => 5,
    };
    let mut sorted: Vec<&Instruction> = instructions.iter().collect();
    sorted.sort_by_key(order);
    let parts = sorted.into_iter().map(|instruction| match instruction {
        Instruction::Meter(meter) => format!("meter:{meter}"),
        Instruction::ApplyActions(actions) => list(actions, syntax),
        Instruction::ClearActions => "clear_actions".to_owned(),
        Instruction::WriteActions(actions) => {
            format!("write_actions({})", print_actions(actions, syntax))
        }
        Instruction::WriteMetadata { value, mask } => metadata(*value, *mask),
        Instruction::GotoTable(table) => {
            format!("goto_table:{}", syntax.names().print_table(*table))
        }
    });
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "drop".to_owned() } else { parts.join(",") }
}

fn metadata(value: u64, mask: u64) -> String {
    if mask == u64::MAX {
        format!("write_metadata:{value:#x}")
    } else {
        format!("write_metadata:{value:#x}/{mask:#x}")
    }
}

fn print(action: &Action, syntax: &Syntax<'_>) -> String {
    let names = syntax.names();
    let port = |port: PortNumber| names.print_port(port);
    let part = fields::print_subfield;
    match action {
        Action::Output { port: PortNumber::CONTROLLER, max_len } => format!("CONTROLLER:{max_len}"),
        Action::Output { port: to, .. } if to.is_port() => format!("output:{}", port(*to)),
        Action::Output { port: to, .. } => to.to_string(),
        Action::Enqueue { port: to, queue } => format!("enqueue:{}:{queue}", port(*to)),
        Action::Group(group) => format!("group:{group}"),
        Action::SetQueue(queue) => format!("set_queue:{queue}"),
        Action::PopQueue => "pop_queue".to_owned(),
        Action::Meter(meter) => format!("meter:{meter}"),
        Action::SetField(entry) => set_field(entry, syntax),
        Action::Load { destination, value } => format!("load:{value:#x}->{}", part(*destination)),
        Action::Move { source, destination } => {
            format!("move:{}->{}", part(*source), part(*destination))
        }
        Action::SetVlanVid(number) => format!("mod_vlan_vid:{number}"),
        Action::SetVlanPcp(priority) => format!("mod_vlan_pcp:{priority}"),
        Action::SetTpSrc(port) => format!("mod_tp_src:{port}"),
        Action::SetTpDst(port) => format!("mod_tp_dst:{port}"),
        Action::PushVlan(kind) => format!("push_vlan:{kind:#06x}"),
        Action::PopVlan => "strip_vlan".to_owned(),
        Action::PushMpls(kind) => format!("push_mpls:{kind:#06x}"),
        Action::PopMpls(kind) => format!("pop_mpls:{kind:#06x}"),
        Action::PushPbb(kind) => format!("push_pbb:{kind:#06x}"),
        Action::PopPbb => "pop_pbb".to_owned(),
        Action::Encap(encap) => print_encap(encap),
        Action::Decap(behind) => print_decap(*behind),
        Action::CopyTtlOut => "copy_ttl_out".to_owned(),
        Action::CopyTtlIn => "copy_ttl_in".to_owned(),
        Action::SetMplsTtl(ttl) => format!("set_mpls_ttl({ttl})"),
        Action::DecMplsTtl => "dec_mpls_ttl".to_owned(),
        Action::DecNshTtl => "dec_nsh_ttl".to_owned(),
        Action::SetIpTtl(ttl) => format!("mod_nw_ttl:{ttl}"),
        Action::DecIpTtl => "dec_ttl".to_owned(),
        Action::DecIpTtlFor(ids) => {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            format!("dec_ttl({})", ids.join(","))
        }
        Action::Controller(controller) => print_controller(controller),
        Action::Resubmit { port: from, table: 255, original: false }
            if *from != PortNumber::IN_PORT =>
        {
            format!("resubmit:{}", port(*from))
        }
        Action::Resubmit { port: from, table, original } => {
            let from = if *from == PortNumber::IN_PORT { String::new() } else { port(*from) };
            let table = if *table == 255 { String::new() } else { names.print_table(*table) };
            format!("resubmit({from},{table}{})", if *original { ",ct" } else { "" })
        }
        Action::WriteMetadata { value, mask } => metadata(*value, *mask),
        Action::Note(note) => format!("note:{}", number::print_bytes(note)),
        Action::Multipath(multipath) => format!(
            "multipath({},{},{},{},{},{})",
            named(&FIELDS, multipath.fields),
            multipath.basis,
            named(&MULTIPATHS, multipath.algorithm),
            u32::from(multipath.max_link) + 1,
            multipath.argument,
            part(multipath.destination),
        ),
        Action::Bundle(bundle) => print_bundle(bundle, syntax),
        Action::OutputField { source, .. } => format!("output:{}", part(*source)),
        Action::OutputTruncated { port: to, max_len } => {
            format!("output(port={},max_len={max_len})", port(*to))
        }
        Action::Learn(learn) => print_learn(learn, syntax),
        Action::Exit => "exit".to_owned(),
        Action::FinTimeout { idle, hard } => {
            let seconds = |name, seconds: u16| (seconds != 0).then(|| format!("{name}={seconds}"));
            let parts = [seconds("idle_timeout", *idle), seconds("hard_timeout", *hard)];
            format!("fin_timeout({})", parts.into_iter().flatten().collect::<Vec<_>>().join(","))
        }
        Action::StackPush(from) => format!("push:{}", part(*from)),
        Action::StackPop(to) => format!("pop:{}", part(*to)),
        Action::Sample(sample) => print_sample(sample, syntax),
        Action::Conjunction { id, clause, clauses } => {
            format!("conjunction({id},{}/{clauses})", u16::from(*clause) + 1)
        }
        Action::Ct(ct) => print_ct(ct, syntax),
        Action::Nat(nat) => print_nat(nat),
        Action::CtClear => "ct_clear".to_owned(),
        Action::Clone(actions) => format!("clone({})", print_actions(actions, syntax)),
        Action::CheckLarger { length, destination } => {
            format!("check_pkt_larger({length})->{}", part(*destination))
        }
    }
}

fn named(names: &[&'static str], number: u16) -> &'static str {
    names.get(usize::from(number)).copied().unwrap_or("unknown")
}

fn set_field(entry: &Entry, syntax: &Syntax<'_>) -> String {
    // OpenFlow 1.0 has actions of their own for these.
    if syntax.version() == Version::V10 && entry.is_exact() {
        match (entry.field(), entry.value()) {
            (Field::TunnelId, id @ 0..=0xffff_ffff) => return format!("set_tunnel:{id:#x}"),
            (Field::TunnelId, id) => return format!("set_tunnel64:{id:#x}"),
            (Field::MplsLabel, label) => return format!("set_mpls_label:{label}"),
            (Field::MplsTc, class) => return format!("set_mpls_tc:{class}"),
            _ => {}
        }
    }
    let known = fields::for_field(entry.field());
    let value = value::print(known, entry.value(), entry.mask(), syntax.names());
    format!("set_field:{value}->{}", known.name())
}

fn print_controller(controller: &Controller) -> String {
    let mut parts = Vec::new();
    if controller.reason != PacketInReason::Action {
        let known = REASONS.iter().find(|(_, reason)| *reason == controller.reason);
        parts.extend(known.map(|(name, _)| format!("reason={name}")));
    }
    if controller.max_len != u16::MAX {
        parts.push(format!("max_len={}", controller.max_len));
    }
    if controller.id != 0 {
        parts.push(format!("id={}", controller.id));
    }
    if !controller.userdata.is_empty() {
        parts.push(format!("userdata={}", number::print_bytes(&controller.userdata)));
    }
    if controller.pause {
        parts.push("pause".to_owned());
    }
    if controller.meter != 0 {
        parts.push(format!("meter_id={}", controller.meter));
    }
    format!("controller({})", parts.join(","))
}

fn print_bundle(bundle: &Bundle, syntax: &Syntax<'_>) -> String {
    let members = bundle.members.iter().map(|&port| syntax.names().print_port(port));
    let members = members.collect::<Vec<_>>().join(",");
    let destination = bundle.destination.map(|part| format!("{},", fields::print_subfield(part)));
    format!(
        "{}({},{},{},ofport,{}members:{members})",
        if bundle.destination.is_some() { "bundle_load" } else { "bundle" },
        named(&FIELDS, bundle.fields),
        bundle.basis,
        named(&BUNDLES, bundle.algorithm),
        destination.unwrap_or_default(),
    )
}

fn print_sample(sample: &Sample, syntax: &Syntax<'_>) -> String {
    let mut text = format!(
        "sample(probability={},collector_set_id={},obs_domain_id={},obs_point_id={}",
        sample.probability, sample.collector_set, sample.domain, sample.point
    );
    if sample.port != PortNumber::ANY {
        text += &format!(",sampling_port={}", syntax.names().print_port(sample.port));
    }
    text += match sample.direction {
        1 => ",ingress)",
        2 => ",egress)",
        _ => ")",
    };
    text
}

fn print_ct(ct: &Ct, syntax: &Syntax<'_>) -> String {
    let mut parts = Vec::new();
    if ct.commit {
        parts.push("commit".to_owned());
    }
    if ct.force {
        parts.push("force".to_owned());
    }
    if let Some(table) = ct.table {
        parts.push(format!("table={}", syntax.names().print_table(table)));
    }
    match ct.zone {
        Zone::Number(0) => {}
        Zone::Number(zone) => parts.push(format!("zone={zone}")),
        Zone::Field(part) => parts.push(format!("zone={}", fields::print_subfield(part))),
    }
    let mut actions = ct.actions.as_slice();
    if let [Action::Nat(nat), rest @ ..] = actions {
        parts.push(print_nat(nat));
        actions = rest;
    }
    if !actions.is_empty() {
        parts.push(format!("exec({})", list(actions, syntax)));
    }
    if ct.helper != 0 {
        let known = HELPERS.iter().find(|&&(_, port)| port == ct.helper);
        let helper = known.map_or_else(|| ct.helper.to_string(), |(name, _)| (*name).to_owned());
        parts.push(format!("alg={helper}"));
    }
    format!("ct({})", parts.join(","))
}

fn print_nat(nat: &Nat) -> String {
    if nat.flags.0 == 0 {
        return "nat".to_owned();
    }
    let mut text = String::from("nat(");
    text += if nat.flags.contains(NatFlags::SOURCE) { "src" } else { "dst" };
    let ports = nat.ports.map(|(first, last)| {
        format!(":{first}{}", last.map(|last| format!("-{last}")).unwrap_or_default())
    });
    match nat.addresses {
        NatAddresses::Unchanged => {}
        NatAddresses::V4(first, last) => {
            text += &format!("={first}");
            text += &last.map(|last| format!("-{last}")).unwrap_or_default();
        }
        NatAddresses::V6(first, last) if ports.is_some() => {
            text += &format!("=[{first}]");
            text += &last.map(|last| format!("-[{last}]")).unwrap_or_default();
        }
        NatAddresses::V6(first, last) => {
            text += &format!("={first}");
            text += &last.map(|last| format!("-{last}")).unwrap_or_default();
        }
    }
    text += &ports.unwrap_or_default();
    for (flag, name) in [
        (NatFlags::PERSISTENT, ",persistent"),
        (NatFlags::HASH, ",hash"),
        (NatFlags::RANDOM, ",random"),
    ] {
        text += if nat.flags.contains(flag) { name } else { "" };
    }
    text + ")"
}

fn print_learn(learn: &Learn, syntax: &Syntax<'_>) -> String {
    let mut parts = vec![format!("table={}", syntax.names().print_table(learn.table))];
    for (name, seconds) in [
        ("idle_timeout", learn.idle_timeout),
        ("hard_timeout", learn.hard_timeout),
        ("fin_idle_timeout", learn.fin_idle_timeout),
        ("fin_hard_timeout", learn.fin_hard_timeout),
    ] {
        if seconds != 0 {
            parts.push(format!("{name}={seconds}"));
        }
    }
    if learn.priority != 32768 {
        parts.push(format!("priority={}", learn.priority));
    }
    if learn.flags.contains(LearnFlags::SEND_FLOW_REMOVED) {
        parts.push("send_flow_rem".to_owned());
    }
    if learn.flags.contains(LearnFlags::DELETE_LEARNED) {
        parts.push("delete_learned".to_owned());
    }
    if learn.cookie != 0 {
        parts.push(format!("cookie={:#x}", learn.cookie));
    }
    if learn.limit != 0 {
        parts.push(format!("limit={}", learn.limit));
    }
    if let Some(part) = learn.result {
        parts.push(format!("result_dst={}", fields::print_subfield(part)));
    }
    parts.extend(learn.specs.iter().map(|spec| print_spec(spec, syntax)));
    format!("learn({})", parts.join(","))
}

fn print_spec(spec: &LearnSpec, syntax: &Syntax<'_>) -> String {
    let part = fields::print_subfield;
    match (spec.destination, spec.source) {
        (LearnDestination::Match(to), LearnSource::Field(from)) if to == from => part(to),
        (LearnDestination::Match(to), LearnSource::Field(from)) => {
            format!("{}={}", part(to), part(from))
        }
        (LearnDestination::Match(to), LearnSource::Value(value)) => {
            let known = fields::for_field(to.field());
            if to != Subfield::whole(to.field()) {
                return format!("{}={value:#x}", part(to));
            }
            let value = value::print(known, value, to.field().all_bits(), syntax.names());
            format!("{}={value}", known.name())
        }
        (LearnDestination::Load(to), LearnSource::Field(from)) => {
            format!("load:{}->{}", part(from), part(to))
        }
        (LearnDestination::Load(to), LearnSource::Value(value)) => {
            format!("load:{value:#x}->{}", part(to))
        }
        (LearnDestination::Output, LearnSource::Field(from)) => format!("output:{}", part(from)),
        (LearnDestination::Output, LearnSource::Value(port)) => format!("output:{port}"),
    }
}

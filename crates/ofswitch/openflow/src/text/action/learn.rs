//! `learn`.

use super::super::error::{Fail, Parsed};
use super::super::scan::{Pair, Pairs};
use super::super::{fields, number, value};
use super::parse::settable;
use super::{Scope, set};
use crate::wire::{Action, Learn, LearnDestination, LearnFlags, LearnSource, LearnSpec, Subfield};

/// Arguments that are no parts of the flow.
const NAMES: [&str; 14] = [
    "table",
    "idle_timeout",
    "hard_timeout",
    "fin_idle_timeout",
    "fin_hard_timeout",
    "priority",
    "cookie",
    "send_flow_rem",
    "delete_learned",
    "limit",
    "result_dst",
    "load",
    "output",
    "dl_type",
];

pub(super) fn parse<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, Action> {
    let mut learn = Learn {
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 32768,
        cookie: 0,
        flags: LearnFlags::default(),
        table: 1,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        limit: 0,
        result: None,
        specs: Vec::new(),
    };
    for pair in Pairs::new(pair.value) {
        let pair = pair?;
        let seconds = || number::u16(pair.wanted()?, "a number of seconds");
        match pair.key {
            "table" => {
                learn.table = scope.syntax.names().table(pair.wanted()?)?;
                if learn.table == 255 {
                    return Err(Fail::new(pair.value, "there is no table 255"));
                }
            }
            "idle_timeout" => learn.idle_timeout = seconds()?,
            "hard_timeout" => learn.hard_timeout = seconds()?,
            "fin_idle_timeout" => learn.fin_idle_timeout = seconds()?,
            "fin_hard_timeout" => learn.fin_hard_timeout = seconds()?,
            "priority" => learn.priority = number::u16(pair.wanted()?, "a priority")?,
            "cookie" => learn.cookie = number::u64(pair.wanted()?, "a cookie")?,
            "send_flow_rem" => learn.flags = learn.flags.with(LearnFlags::SEND_FLOW_REMOVED),
            "delete_learned" => learn.flags = learn.flags.with(LearnFlags::DELETE_LEARNED),
            "limit" => learn.limit = number::u32(pair.wanted()?, "a number of flows")?,
            "result_dst" => {
                let part = settable(pair.wanted()?)?;
                if part.bits() != 1 {
                    return Err(Fail::new(pair.value, "the result is one bit").help("reg0[0]"));
                }
                learn.flags = learn.flags.with(LearnFlags::WRITE_RESULT);
                learn.result = Some(part);
            }
            _ => learn.specs.push(spec(&pair, scope)?),
        }
    }
    Ok(Action::Learn(Box::new(learn)))
}

/// A part of the flow to make.
fn spec<'t>(pair: &Pair<'t>, scope: &Scope<'_>) -> Parsed<'t, LearnSpec> {
    match pair.key {
        "load" => {
            let (source, destination) = set::arrow(pair)?;
            let part = settable(destination)?;
            let source = match number::integer(source) {
                Some(value) => immediate(source, value, part)?,
                None => field(source, part)?,
            };
            Ok(LearnSpec { bits: part.bits(), source, destination: LearnDestination::Load(part) })
        }
        "output" => {
            let part = fields::subfield(pair.wanted()?)?;
            let (source, destination) = (LearnSource::Field(part), LearnDestination::Output);
            Ok(LearnSpec { bits: part.bits(), source, destination })
        }
        key => {
            let name = key.split_once('[').map_or(key, |(name, _)| name);
            if fields::by_name(name).is_none() {
                return Err(Fail::unknown(
                    name,
                    "argument of learn",
                    NAMES.into_iter().chain(fields::names()),
                ));
            }
            let part = fields::subfield(key)?;
            let destination = LearnDestination::Match(part);
            let source = if pair.value.is_empty() {
                LearnSource::Field(part)
            } else {
                matched(pair.value, part, scope)?
            };
            Ok(LearnSpec { bits: part.bits(), source, destination })
        }
    }
}

/// Parses the value to match a field with: another field, or a value in the field's form.
fn matched<'t>(text: &'t str, part: Subfield, scope: &Scope<'_>) -> Parsed<'t, LearnSource> {
    let name = text.split_once('[').map_or(text, |(name, _)| name);
    if fields::by_name(name).is_some() {
        return field(text, part);
    }
    if part == Subfield::whole(part.field()) {
        let known = fields::for_field(part.field());
        return value::parse_exact(known, text, scope.syntax.names()).map(LearnSource::Value);
    }
    match number::integer(text) {
        Some(value) => immediate(text, value, part),
        None => Err(Fail::new(text, "neither a field nor a number")),
    }
}

fn field(text: &str, part: Subfield) -> Parsed<'_, LearnSource> {
    let source = fields::subfield(text)?;
    if source.bits() != part.bits() {
        let (from, to) = (source.bits(), part.bits());
        return Err(Fail::new(text, format!("{from} bits are taken for {to}")));
    }
    Ok(LearnSource::Field(source))
}

fn immediate(text: &str, value: u128, part: Subfield) -> Parsed<'_, LearnSource> {
    let bits = u32::from(part.bits());
    if value & !(u128::MAX >> (128 - bits)) != 0 {
        return Err(Fail::new(text, format!("{text} does not fit into {bits} bits")));
    }
    Ok(LearnSource::Value(value))
}

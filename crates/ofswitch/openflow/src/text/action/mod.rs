//! Actions and instructions.

mod choose;
mod connection;
mod header;
mod learn;
mod parse;
mod print;
mod set;

pub(super) use print::{print_actions, print_instructions};

use super::Syntax;
use super::error::{Fail, Parsed};
use super::number;
use super::scan::{Pair, Pairs};
use crate::wire::matching::VLAN_PRESENT;
use crate::wire::{Action, Field, Instruction, Match, Version};

/// Depth of nested actions at most, as in the codec.
const DEPTH: u8 = 16;

/// Context of actions: syntax, and packets of the match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'n> {
    pub(super) syntax: Syntax<'n>,
    /// The type of Ethernet that is matched.
    ethernet: Option<u128>,
    /// The protocol of IP that is matched.
    protocol: Option<u128>,
    /// Whether packets have a tag, as far as is known.
    tagged: bool,
    depth: u8,
    /// Inside of `ct`.
    connection: bool,
}

impl<'n> Scope<'n> {
    pub(super) fn new(syntax: Syntax<'n>, matching: &Match) -> Scope<'n> {
        let tag = |field| matching.get(field).is_some_and(|tag| tag.value() & VLAN_PRESENT != 0);
        Scope {
            syntax,
            ethernet: matching.exact(Field::EthType),
            protocol: matching.exact(Field::IpProto),
            tagged: tag(Field::VlanVid) || tag(Field::VlanTci),
            depth: 0,
            connection: false,
        }
    }

    fn version(&self) -> Version {
        self.syntax.version
    }

    /// The scope inside of an action.
    fn deeper<'t>(&self, at: &'t str, connection: bool) -> Parsed<'t, Scope<'n>> {
        if self.depth == DEPTH {
            return Err(Fail::new(at, "actions are too deep in each other"));
        }
        Ok(Scope { depth: self.depth + 1, connection, ..*self })
    }
}

/// Actions, and instructions where they are allowed.
#[derive(Debug, Default)]
struct Program<'t> {
    actions: Vec<Action>,
    meter: Option<u32>,
    clear: bool,
    write: Option<Vec<Action>>,
    metadata: Option<(u64, u64)>,
    goto: Option<u8>,
    drop: Option<&'t str>,
}

impl Program<'_> {
    fn is_empty(&self) -> bool {
        self.actions.is_empty()
            && self.meter.is_none()
            && !self.clear
            && self.write.is_none()
            && self.metadata.is_none()
            && self.goto.is_none()
    }
}

fn program<'t>(
    pairs: impl Iterator<Item = Parsed<'t, Pair<'t>>>,
    scope: &mut Scope<'_>,
    instructions: bool,
) -> Parsed<'t, Program<'t>> {
    let mut program = Program::default();
    for pair in pairs {
        let pair = pair?;
        if pair.key.eq_ignore_ascii_case("drop") && pair.value.is_empty() {
            program.drop = Some(pair.key);
        } else if !instruction(&pair, scope, instructions, &mut program)? {
            parse::action(&pair, scope, &mut program.actions)?;
        }
    }
    match program.drop {
        Some(at) if !program.is_empty() => {
            Err(Fail::new(at, "\"drop\" stands alone: what is sent nowhere is dropped anyway"))
        }
        _ => Ok(program),
    }
}

/// Takes an instruction, and says whether it is one.
fn instruction<'t>(
    pair: &Pair<'t>,
    scope: &Scope<'_>,
    allowed: bool,
    program: &mut Program<'t>,
) -> Parsed<'t, bool> {
    const NAMES: [&str; 6] = [
        "meter",
        "clear_actions",
        "write_actions",
        "write_metadata",
        "goto_table",
        "apply_actions",
    ];
    let Some(name) = NAMES.into_iter().find(|name| name.eq_ignore_ascii_case(pair.key)) else {
        return Ok(false);
    };
    let (old, newest) = (scope.version() == Version::V10, scope.version() == Version::V15);
    match name {
        // An action in OpenFlow 1.5, and so is the next in Nicira's extension of 1.0.
        "meter" if newest => return Ok(false),
        "write_metadata" if old => return Ok(false),
        "apply_actions" => {
            return Err(Fail::new(pair.key, "actions are applied as they stand, without a word"));
        }
        _ => {}
    }
    if old {
        let fail = Fail::new(pair.key, format!("OpenFlow 1.0 has no {name}"));
        let go_on = "resubmit(,TABLE) goes on in a table there";
        return Err(if name == "goto_table" { fail.help(go_on) } else { fail });
    }
    if !allowed {
        return Err(Fail::new(
            pair.whole,
            format!("{name} is an instruction, and not allowed here"),
        ));
    }
    let again = match name {
        "meter" => {
            let meter = number::u32(pair.wanted()?, "the number of a meter")?;
            program.meter.replace(meter).is_some()
        }
        "clear_actions" => std::mem::replace(&mut program.clear, true),
        "write_actions" => {
            let mut inside = scope.deeper(pair.key, false)?;
            let actions = parse_actions(pair.value, &mut inside)?;
            if !actions.iter().all(Action::fits_a_set) {
                return Err(Fail::new(pair.value, "not all of these can be done at the end"));
            }
            program.write.replace(actions).is_some()
        }
        "write_metadata" => program.metadata.replace(parse::metadata(pair)?).is_some(),
        _ => {
            let table = scope.syntax.names().table(pair.wanted()?)?;
            if table == 255 {
                return Err(Fail::new(pair.value, "there is no table 255"));
            }
            program.goto.replace(table).is_some()
        }
    };
    if again {
        return Err(Fail::new(pair.whole, format!("{name} is there twice")));
    }
    Ok(true)
}

/// Actions without instructions.
pub(super) fn parse_actions<'t>(text: &'t str, scope: &mut Scope<'_>) -> Parsed<'t, Vec<Action>> {
    parse_pairs(Pairs::new(text), scope)
}

/// Likewise for pairs.
pub(super) fn parse_pairs<'t>(
    pairs: impl Iterator<Item = Parsed<'t, Pair<'t>>>,
    scope: &mut Scope<'_>,
) -> Parsed<'t, Vec<Action>> {
    Ok(program(pairs, scope, false)?.actions)
}

/// Actions and instructions, in the order instructions are done.
pub(super) fn parse_instructions<'t>(
    text: &'t str,
    scope: &mut Scope<'_>,
) -> Parsed<'t, Vec<Instruction>> {
    let program = program(Pairs::new(text), scope, true)?;
    if program.is_empty() && program.drop.is_none() {
        return Err(Fail::new(text, "there are no actions").help("actions=drop drops packets"));
    }
    let conjunction = |action: &Action| matches!(action, Action::Conjunction { .. });
    let beside = |action: &Action| !conjunction(action) && !matches!(action, Action::Note(_));
    if program.actions.iter().any(conjunction) && program.actions.iter().any(beside) {
        return Err(Fail::new(text, "beside a conjunction there are only others, and notes"));
    }
    let mut instructions = Vec::new();
    instructions.extend(program.meter.map(Instruction::Meter));
    if !program.actions.is_empty() {
        instructions.push(Instruction::ApplyActions(program.actions));
    }
    if program.clear {
        instructions.push(Instruction::ClearActions);
    }
    instructions.extend(program.write.map(Instruction::WriteActions));
    let metadata = |(value, mask)| Instruction::WriteMetadata { value, mask };
    instructions.extend(program.metadata.map(metadata));
    instructions.extend(program.goto.map(Instruction::GotoTable));
    Ok(instructions)
}

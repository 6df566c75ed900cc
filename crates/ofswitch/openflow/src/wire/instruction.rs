//! Instructions of a flow: lists of actions, and steps around them.

use super::action::{self, Action};
use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::port_number::PortNumber;
use super::unencodable::Unencodable;
use super::version::Version;

/// Instruction of a flow; each kind may be there once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Goes on in a later table.
    GotoTable(u8),
    /// Writes the metadata that go with the packet.
    WriteMetadata {
        /// Bits to write.
        value: u64,
        /// Bits that are written.
        mask: u64,
    },
    /// Adds actions to those done at the end.
    WriteActions(Vec<Action>),
    /// Does actions at once; in OpenFlow 1.0 all there is.
    ApplyActions(Vec<Action>),
    /// Forgets the actions to be done at the end.
    ClearActions,
    /// Lets a meter decide.
    Meter(u32),
}

const GOTO_TABLE: u16 = 1;
const WRITE_METADATA: u16 = 2;
const WRITE_ACTIONS: u16 = 3;
const APPLY_ACTIONS: u16 = 4;
const CLEAR_ACTIONS: u16 = 5;
const METER: u16 = 6;
const STAT_TRIGGER: u16 = 7;
const EXPERIMENTER: u16 = 0xffff;

impl Instruction {
    /// The type of this instruction.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            Instruction::GotoTable(_) => GOTO_TABLE,
            Instruction::WriteMetadata { .. } => WRITE_METADATA,
            Instruction::WriteActions(_) => WRITE_ACTIONS,
            Instruction::ApplyActions(_) => APPLY_ACTIONS,
            Instruction::ClearActions => CLEAR_ACTIONS,
            Instruction::Meter(_) => METER,
        }
    }
}

/// Reads instructions up to the end; in OpenFlow 1.0 they are actions.
pub(crate) fn decode_list(reader: Reader<'_>, version: Version) -> Result<Vec<Instruction>, Fault> {
    if version == Version::V10 {
        let actions = action::decode_list(reader, version)?;
        let some = !actions.is_empty();
        return Ok(some.then_some(Instruction::ApplyActions(actions)).into_iter().collect());
    }
    let mut reader = reader.with_fault(Fault::InstructionBadLength);
    let mut instructions: Vec<Instruction> = Vec::new();
    while !reader.is_empty() {
        let mut header = reader;
        let (kind, length) = (header.u16()?, usize::from(header.u16()?));
        if length < 8 || length % 8 != 0 {
            return Err(Fault::InstructionBadLength);
        }
        let mut body = reader.part(length)?;
        body.skip(4)?;
        let instruction = decode(kind, body, version)?;
        if instructions.iter().any(|other| other.number() == kind) {
            return Err(Fault::DuplicateInstruction);
        }
        instructions.push(instruction);
    }
    Ok(instructions)
}

fn decode(kind: u16, mut body: Reader<'_>, version: Version) -> Result<Instruction, Fault> {
    let instruction = match kind {
        GOTO_TABLE => {
            let table = body.u8()?;
            body.skip(3)?;
            if table == 255 {
                return Err(Fault::InstructionBadTableId);
            }
            Instruction::GotoTable(table)
        }
        WRITE_METADATA => {
            body.skip(4)?;
            let (value, mask) = (body.u64()?, body.u64()?);
            Instruction::WriteMetadata { value: value & mask, mask }
        }
        WRITE_ACTIONS | APPLY_ACTIONS => {
            body.skip(4)?;
            let actions = action::decode_list(body, version)?;
            if kind == WRITE_ACTIONS && !actions.iter().all(Action::fits_a_set) {
                return Err(Fault::ActionBadType);
            }
            return Ok(if kind == WRITE_ACTIONS {
                Instruction::WriteActions(actions)
            } else {
                Instruction::ApplyActions(actions)
            });
        }
        CLEAR_ACTIONS => {
            body.skip(4)?;
            Instruction::ClearActions
        }
        METER => Instruction::Meter(body.u32()?),
        STAT_TRIGGER if version == Version::V15 => return Err(Fault::UnsupportedInstruction),
        EXPERIMENTER => return Err(Fault::InstructionBadExperimenter),
        _ => return Err(Fault::UnknownInstruction),
    };
    body.finish()?;
    Ok(instruction)
}

pub(crate) fn encode_list(
    instructions: &[Instruction],
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    if version == Version::V10 {
        return instructions.iter().try_for_each(|instruction| encode_10(instruction, out));
    }
    for instruction in instructions {
        let start = out.len();
        out.u16(instruction.number());
        out.u16(0);
        match instruction {
            Instruction::GotoTable(table) => {
                out.u8(*table);
                out.zeros(3);
            }
            Instruction::WriteMetadata { value, mask } => {
                out.zeros(4);
                out.u64(*value);
                out.u64(*mask);
            }
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
                out.zeros(4);
                action::encode_list(actions, version, out)?;
            }
            Instruction::ClearActions => out.zeros(4),
            Instruction::Meter(meter) => out.u32(*meter),
        }
        out.length(start + 2, start)?;
    }
    Ok(())
}

/// An instruction as an action of OpenFlow 1.0, or of Nicira.
fn encode_10(instruction: &Instruction, out: &mut Writer) -> Result<(), Unencodable> {
    let action = match *instruction {
        Instruction::ApplyActions(ref actions) => {
            return action::encode_list(actions, Version::V10, out);
        }
        Instruction::GotoTable(table) => {
            Action::Resubmit { port: PortNumber::IN_PORT, table, original: false }
        }
        Instruction::WriteMetadata { value, mask } => Action::WriteMetadata { value, mask },
        Instruction::WriteActions(_) | Instruction::ClearActions => {
            return Err(Unencodable::Absent("a set of actions"));
        }
        Instruction::Meter(_) => return Err(Unencodable::Absent("a meter")),
    };
    action::encode_list(&[action], Version::V10, out)
}

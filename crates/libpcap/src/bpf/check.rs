//! Checker of programs: every instruction is looked at, also unreachable ones.
//!
//! It refuses programs that Linux's `bpf_check_classic` (`net/core/filter.c`) or libpcap's
//! `bpf_validate` (`bpf_filter.c`) refuses, of which the kernel's rules are the stricter ones. Two
//! of its limits do not hold here, because libpcap then decides for itself and the kernel is not
//! asked:
//!
//! - A program may be longer than 4,096 instructions: a list of hosts easily is.
//! - Unconditional jumps may lead backwards: `ip6 protochain 6` goes through headers in a loop. A
//!   packet that turns back more often than [`TURNS_MAX`] times is not wanted.
//!
//! Metadata of a packet is loaded by [ancillary loads](super::metadata): those that the kernel has are accepted,
//! and all others refused, as by the kernel.

use linerate_filter::{Instruction, code};

use super::{
    metadata::Ancillary,
    operation::{
        InstructionIndex, Operand, Operation, Operator, Register, Relation, Returned, Width,
    },
};

/// The most instructions of a program.
pub const INSTRUCTIONS_MAX: usize = 1 << 20;
/// `SKF_AD_ALU_XOR_X` of `linux/filter.h`, which is no load but an operation with both registers.
const XOR_X: u32 = 40;
/// Most backward jumps of a packet in a program, more than headers fit in a packet.
pub(super) const TURNS_MAX: u32 = 1 << 16;

/// Why a program is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// It has no instructions.
    #[error("BPF program is not valid: it is empty")]
    Empty,
    /// It has more instructions than [`INSTRUCTIONS_MAX`].
    #[error("BPF program is not valid: it has more than {INSTRUCTIONS_MAX} instructions")]
    TooLong,
    /// Its last instruction does not end it.
    #[error("BPF program is not valid: its last instruction does not return")]
    NoEnd,
    /// There is no such instruction.
    #[error("BPF program is not valid: ({at:03}) there is no instruction {code:#06x}")]
    Unknown {
        /// Index of the instruction.
        at: usize,
        /// Its code.
        code: u16,
    },
    /// A jump leads out of the program.
    #[error("BPF program is not valid: ({at:03}) jumps out of it")]
    Jump {
        /// Index of the instruction.
        at: usize,
    },
    /// Division by a constant zero.
    #[error("BPF program is not valid: ({at:03}) divides by zero")]
    Zero {
        /// Index of the instruction.
        at: usize,
    },
    /// A constant number of bits that leaves nothing.
    #[error("BPF program is not valid: ({at:03}) shifts by {bits} bits")]
    Shift {
        /// Index of the instruction.
        at: usize,
        /// Number of bits.
        bits: u32,
    },
    /// Scratch memory that is not there.
    #[error("BPF program is not valid: ({at:03}) has no word {word} of scratch memory")]
    Memory {
        /// Index of the instruction.
        at: usize,
        /// Word of scratch memory.
        word: u32,
    },
    /// Scratch memory that may not have been written before it is read.
    #[error("BPF program is not valid: ({at:03}) may read M[{word}] before it is written")]
    Unwritten {
        /// Index of the instruction.
        at: usize,
        /// Word of scratch memory.
        word: u32,
    },
    /// An ancillary load that the kernel does not have.
    #[error("BPF program is not valid: ({at:03}) there is no ancillary load {which}")]
    Ancillary {
        /// Index of the instruction.
        at: usize,
        /// Number of the load: none of `SKF_AD_…` of `linux/filter.h`.
        which: u32,
    },
}

/// Checks a program and reads its instructions.
pub(super) fn check(program: &[Instruction]) -> Result<Vec<Operation>, Invalid> {
    if program.len() > INSTRUCTIONS_MAX {
        return Err(Invalid::TooLong);
    }
    let length = program.len() as InstructionIndex;
    let operations: Vec<_> =
        (0..length).zip(program).map(|(at, it)| read(at, it, length)).collect::<Result<_, _>>()?;
    match operations.last() {
        None => return Err(Invalid::Empty),
        Some(Operation::Return(_)) => {}
        Some(_) => return Err(Invalid::NoEnd),
    }
    check_memory(&operations)?;
    Ok(operations)
}

/// Returns true if some jump leads backwards.
pub(super) fn turns(operations: &[Operation]) -> bool {
    (0..).zip(operations).any(|(at, it)| matches!(it, Operation::Jump(to) if *to <= at))
}

/// Reads an instruction of a program of that length.
fn read(
    place: InstructionIndex,
    instruction: &Instruction,
    length: InstructionIndex,
) -> Result<Operation, Invalid> {
    const ABSOLUTE: u16 = code::LOAD | code::ABSOLUTE;
    const ABSOLUTE_WORD: u16 = ABSOLUTE | code::WORD;
    const ABSOLUTE_HALF: u16 = ABSOLUTE | code::HALF;
    const ABSOLUTE_BYTE: u16 = ABSOLUTE | code::BYTE;
    const INDEXED_WORD: u16 = code::LOAD | code::INDEXED | code::WORD;
    const INDEXED_HALF: u16 = code::LOAD | code::INDEXED | code::HALF;
    const INDEXED_BYTE: u16 = code::LOAD | code::INDEXED | code::BYTE;
    const HEADER_LENGTH: u16 = code::LOAD_X | code::HEADER_LENGTH | code::BYTE;
    const LENGTH: u16 = code::LOAD | code::LENGTH;
    const LENGTH_X: u16 = code::LOAD_X | code::LENGTH;
    const CONSTANT: u16 = code::LOAD | code::CONSTANT;
    const CONSTANT_X: u16 = code::LOAD_X | code::CONSTANT;
    const MEMORY: u16 = code::LOAD | code::MEMORY;
    const MEMORY_X: u16 = code::LOAD_X | code::MEMORY;
    const NEGATE: u16 = code::CALCULATE | code::NEGATE;
    const RETURN_A: u16 = code::RETURN | code::FROM_A;

    let at = place as usize;
    let Instruction { code, jt, jf, k } = *instruction;
    let unknown = Invalid::Unknown { at, code };
    let word = |word: u32| {
        if word < code::WORDS { Ok(word as u8) } else { Err(Invalid::Memory { at, word }) }
    };
    let jump = |skipped: u32| {
        let to = place.wrapping_add(1).wrapping_add(skipped);
        if to < length { Ok(to) } else { Err(Invalid::Jump { at }) }
    };
    let operand = if code & code::FROM_X == 0 { Operand::Constant(k) } else { Operand::X };
    let kind = code & code::KIND;
    Ok(match code {
        ABSOLUTE_WORD | ABSOLUTE_HALF | ABSOLUTE_BYTE if k >= code::ANCILLARY => {
            match k - code::ANCILLARY {
                XOR_X => Operation::Calculate(Operator::Xor, Operand::X),
                which => Ancillary::numbered(which)
                    .map(Operation::Ancillary)
                    .ok_or(Invalid::Ancillary { at, which })?,
            }
        }
        ABSOLUTE_WORD => Operation::Load(Width::Word, k),
        ABSOLUTE_HALF => Operation::Load(Width::Half, k),
        ABSOLUTE_BYTE => Operation::Load(Width::Byte, k),
        INDEXED_WORD => Operation::LoadBehind(Width::Word, k),
        INDEXED_HALF => Operation::LoadBehind(Width::Half, k),
        INDEXED_BYTE => Operation::LoadBehind(Width::Byte, k),
        HEADER_LENGTH => Operation::HeaderLength(k),
        LENGTH => Operation::Length(Register::A),
        LENGTH_X => Operation::Length(Register::X),
        CONSTANT => Operation::Constant(Register::A, k),
        CONSTANT_X => Operation::Constant(Register::X, k),
        MEMORY => Operation::Memory(Register::A, word(k)?),
        MEMORY_X => Operation::Memory(Register::X, word(k)?),
        code::STORE => Operation::Store(Register::A, word(k)?),
        code::STORE_X => Operation::Store(Register::X, word(k)?),
        NEGATE => Operation::Negate,
        _ if kind == code::CALCULATE => {
            let operator = operator(code & !code::KIND & !code::FROM_X).ok_or(unknown)?;
            match (operator, operand) {
                (Operator::Divide | Operator::Remainder, Operand::Constant(0)) => {
                    return Err(Invalid::Zero { at });
                }
                (Operator::Left | Operator::Right, Operand::Constant(bits @ u32::BITS..)) => {
                    return Err(Invalid::Shift { at, bits });
                }
                _ => Operation::Calculate(operator, operand),
            }
        }
        code::JUMP => Operation::Jump(jump(k)?),
        _ if kind == code::JUMP => {
            let relation = relation(code & !code::KIND & !code::FROM_X).ok_or(unknown)?;
            let (yes, no) = (jump(jt.into())?, jump(jf.into())?);
            Operation::Branch { relation, operand, yes, no }
        }
        code::RETURN => Operation::Return(Returned::Constant(k)),
        RETURN_A => Operation::Return(Returned::A),
        code::A_TO_X => Operation::AToX,
        code::X_TO_A => Operation::XToA,
        _ => return Err(unknown),
    })
}

fn operator(code: u16) -> Option<Operator> {
    Some(match code {
        code::ADD => Operator::Add,
        code::SUBTRACT => Operator::Subtract,
        code::MULTIPLY => Operator::Multiply,
        code::DIVIDE => Operator::Divide,
        code::OR => Operator::Or,
        code::AND => Operator::And,
        code::LEFT => Operator::Left,
        code::RIGHT => Operator::Right,
        code::REMAINDER => Operator::Remainder,
        code::XOR => Operator::Xor,
        _ => return None,
    })
}

fn relation(code: u16) -> Option<Relation> {
    Some(match code {
        code::EQUAL => Relation::Equal,
        code::GREATER => Relation::Greater,
        code::AT_LEAST => Relation::AtLeast,
        code::ANY_BITS => Relation::AnyBits,
        _ => return None,
    })
}

/// Refuses to read scratch memory that may not have been written: in the interpreters of the kernel
/// and of older libpcaps it holds old bytes of the stack. As in the kernel's check, the code behind
/// a `ret` is taken to know as much as the `ret`.
fn check_memory(operations: &[Operation]) -> Result<(), Invalid> {
    // For each instruction, a bit for each word that has been written on all ways to it.
    let mut written = vec![u16::MAX; operations.len()];
    written[0] = 0;
    loop {
        let mut turned_back = false;
        for (at, operation) in operations.iter().enumerate() {
            let here = written[at];
            let after = match operation {
                Operation::Store(_, word) => here | 1 << word,
                _ => here,
            };
            let falls = matches!(operation, Operation::Return(_)).then_some(at + 1);
            for to in operation.next(at as InstructionIndex).places().chain(falls) {
                let Some(there) = written.get_mut(to) else { continue };
                turned_back |= to <= at && *there & !after != 0;
                *there &= after;
            }
        }
        if !turned_back {
            break;
        }
    }
    for (at, (operation, written)) in operations.iter().zip(&written).enumerate() {
        if let Operation::Memory(_, word) = operation
            && written & 1 << word == 0
        {
            return Err(Invalid::Unwritten { at, word: (*word).into() });
        }
    }
    Ok(())
}

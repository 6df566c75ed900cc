//! The form that runs on every processor: steps of twelve bytes, in safe Rust.
//!
//! Filters mostly load something and compare it with a constant, so that is one step, unless something
//! else jumps to the comparison.

use std::hint::black_box;

use super::{
    check::TURNS_MAX,
    metadata::{Ancillary, Metadata},
    operation::{
        InstructionIndex, Operand, Operation, Operator, Register, Relation, Returned, Width,
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Word(u32),
    Half(u32),
    Byte(u32),
    WordBehind(u32),
    HalfBehind(u32),
    ByteBehind(u32),
    HeaderLength(u32),
    Length(Register),
    Ancillary(Ancillary),
    Constant(Register, u32),
    Memory(Register, u8),
    Store(Register, u8),
    And(u32),
    Calculate(Operator, Operand),
    Negate,
    AToX,
    XToA,
    /// To that step.
    Jump(u32),
    /// To that step, backwards.
    Turn(u32),
    /// Steps to skip when A is the constant, and when it is not.
    Equal(BranchOffsets, u32),
    Branch(Relation, BranchOffsets, u32),
    BranchX(Relation, BranchOffsets),
    /// The place in the packet, and the value expected there.
    WordEqual(BranchOffsets, u32, u32),
    HalfEqual(BranchOffsets, u32, u32),
    ByteEqual(BranchOffsets, u32, u32),
    Return(u32),
    ReturnA,
}

const _: () = assert!(size_of::<Step>() == 12);

/// Steps to skip when a condition holds, and when it does not: as many as an instruction can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BranchOffsets {
    yes: u8,
    no: u8,
}

impl BranchOffsets {
    #[inline]
    fn when(self, holds: bool) -> usize {
        if holds {
            // So that it stays a branch, which is predicted: a choice without one would have each step
            // wait for the comparison of the one before.
            black_box(());
            usize::from(self.yes)
        } else {
            usize::from(self.no)
        }
    }
}

/// A program as steps.
#[derive(Debug, Clone)]
pub(super) struct Steps(Box<[Step]>);

impl Steps {
    pub(super) fn new(operations: &[Operation]) -> Steps {
        let merged = merged(operations);
        // The number of the step that each instruction is in.
        let numbers: Vec<u32> = merged
            .iter()
            .scan(0, |count, merged| {
                *count += u32::from(!merged);
                Some(*count - 1)
            })
            .collect();
        let mut steps: Vec<Step> = Vec::with_capacity(operations.len());
        for (at, operation) in operations.iter().enumerate() {
            let step = step(*operation, numbers[at], &numbers);
            match (steps.last_mut(), step) {
                (Some(load), Step::Equal(skips, constant)) if merged[at] => {
                    *load = match *load {
                        Step::Word(place) => Step::WordEqual(skips, place, constant),
                        Step::Half(place) => Step::HalfEqual(skips, place, constant),
                        Step::Byte(place) => Step::ByteEqual(skips, place, constant),
                        other => other,
                    };
                }
                _ => steps.push(step),
            }
        }
        Steps(steps.into())
    }

    /// Runs the program on a packet that had this length on its link; `None` where it loads bytes that are not
    /// there, divides by zero, or does not end.
    pub(super) fn run(&self, packet: &[u8], length: u32, about: &Metadata) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
        let mut turns = 0;
        let mut at = 0;
        loop {
            let step = *self.0.get(at)?;
            at += 1;
            match step {
                Step::Word(place) => a = word(packet, place)?,
                Step::Half(place) => a = half(packet, place)?,
                Step::Byte(place) => a = byte(packet, place)?,
                Step::WordBehind(place) => a = word(packet, x.checked_add(place)?)?,
                Step::HalfBehind(place) => a = half(packet, x.checked_add(place)?)?,
                Step::ByteBehind(place) => a = byte(packet, x.checked_add(place)?)?,
                Step::HeaderLength(place) => x = (byte(packet, place)? & 0x0f) << 2,
                Step::Length(Register::A) => a = length,
                Step::Length(Register::X) => x = length,
                Step::Ancillary(which) => a = which.load(packet, about, a, x),
                Step::Constant(Register::A, constant) => a = constant,
                Step::Constant(Register::X, constant) => x = constant,
                Step::Memory(Register::A, word) => a = memory[usize::from(word & 15)],
                Step::Memory(Register::X, word) => x = memory[usize::from(word & 15)],
                Step::Store(Register::A, word) => memory[usize::from(word & 15)] = a,
                Step::Store(Register::X, word) => memory[usize::from(word & 15)] = x,
                Step::And(constant) => a &= constant,
                Step::Calculate(operator, Operand::Constant(constant)) => {
                    a = calculate(operator, a, constant)?;
                }
                Step::Calculate(operator, Operand::X) => a = calculate(operator, a, x)?,
                Step::Negate => a = a.wrapping_neg(),
                Step::AToX => x = a,
                Step::XToA => a = x,
                Step::Jump(to) => at = to as usize,
                Step::Turn(to) => {
                    turns += 1;
                    if turns > TURNS_MAX {
                        return None;
                    }
                    at = to as usize;
                }
                Step::Equal(skips, constant) => at += skips.when(a == constant),
                Step::Branch(relation, skips, constant) => {
                    at += skips.when(holds(relation, a, constant));
                }
                Step::BranchX(relation, skips) => at += skips.when(holds(relation, a, x)),
                Step::WordEqual(skips, place, constant) => {
                    a = word(packet, place)?;
                    at += skips.when(a == constant);
                }
                Step::HalfEqual(skips, place, constant) => {
                    a = half(packet, place)?;
                    at += skips.when(a == constant);
                }
                Step::ByteEqual(skips, place, constant) => {
                    a = byte(packet, place)?;
                    at += skips.when(a == constant);
                }
                Step::Return(constant) => return Some(constant),
                Step::ReturnA => return Some(a),
            }
        }
    }
}

/// The instructions that are done in one step with the one before.
fn merged(operations: &[Operation]) -> Vec<bool> {
    let mut merged = vec![false; operations.len()];
    for at in 1..operations.len() {
        merged[at] = matches!(operations[at - 1], Operation::Load(..))
            && matches!(
                operations[at],
                Operation::Branch { relation: Relation::Equal, operand: Operand::Constant(_), .. }
            );
    }
    for operation in operations {
        if let Operation::Jump(_) | Operation::Branch { .. } = operation {
            for to in operation.next(0).places() {
                merged[to] = false;
            }
        }
    }
    merged
}

/// The step with that number, of one instruction alone; `numbers` are those of all instructions.
fn step(operation: Operation, number: u32, numbers: &[u32]) -> Step {
    let step = |to: InstructionIndex| numbers[to as usize];
    let skip = |to: InstructionIndex| (step(to) - number - 1) as u8;
    match operation {
        Operation::Load(Width::Word, place) => Step::Word(place),
        Operation::Load(Width::Half, place) => Step::Half(place),
        Operation::Load(Width::Byte, place) => Step::Byte(place),
        Operation::LoadBehind(Width::Word, place) => Step::WordBehind(place),
        Operation::LoadBehind(Width::Half, place) => Step::HalfBehind(place),
        Operation::LoadBehind(Width::Byte, place) => Step::ByteBehind(place),
        Operation::HeaderLength(place) => Step::HeaderLength(place),
        Operation::Length(register) => Step::Length(register),
        Operation::Ancillary(which) => Step::Ancillary(which),
        Operation::Constant(register, constant) => Step::Constant(register, constant),
        Operation::Memory(register, word) => Step::Memory(register, word),
        Operation::Store(register, word) => Step::Store(register, word),
        Operation::Calculate(Operator::And, Operand::Constant(constant)) => Step::And(constant),
        Operation::Calculate(operator, operand) => Step::Calculate(operator, operand),
        Operation::Negate => Step::Negate,
        Operation::AToX => Step::AToX,
        Operation::XToA => Step::XToA,
        Operation::Jump(to) if step(to) > number => Step::Jump(step(to)),
        Operation::Jump(to) => Step::Turn(step(to)),
        Operation::Branch { relation, operand, yes, no } => {
            let skips = BranchOffsets { yes: skip(yes), no: skip(no) };
            match (relation, operand) {
                (Relation::Equal, Operand::Constant(constant)) => Step::Equal(skips, constant),
                (_, Operand::Constant(constant)) => Step::Branch(relation, skips, constant),
                (_, Operand::X) => Step::BranchX(relation, skips),
            }
        }
        Operation::Return(Returned::Constant(constant)) => Step::Return(constant),
        Operation::Return(Returned::A) => Step::ReturnA,
    }
}

#[inline]
fn byte(packet: &[u8], place: u32) -> Option<u32> {
    packet.get(place as usize).copied().map(u32::from)
}

#[inline]
fn half(packet: &[u8], place: u32) -> Option<u32> {
    let bytes = packet.get(place as usize..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes).into())
}

#[inline]
fn word(packet: &[u8], place: u32) -> Option<u32> {
    let bytes = packet.get(place as usize..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

#[inline]
fn calculate(operator: Operator, a: u32, with: u32) -> Option<u32> {
    Some(match operator {
        Operator::Add => a.wrapping_add(with),
        Operator::Subtract => a.wrapping_sub(with),
        Operator::Multiply => a.wrapping_mul(with),
        Operator::Divide => a.checked_div(with)?,
        Operator::Or => a | with,
        Operator::And => a & with,
        Operator::Left => a.checked_shl(with).unwrap_or(0),
        Operator::Right => a.checked_shr(with).unwrap_or(0),
        Operator::Remainder => a.checked_rem(with)?,
        Operator::Xor => a ^ with,
    })
}

#[inline]
fn holds(relation: Relation, a: u32, with: u32) -> bool {
    match relation {
        Relation::Equal => a == with,
        Relation::Greater => a > with,
        Relation::AtLeast => a >= with,
        Relation::AnyBits => a & with != 0,
    }
}

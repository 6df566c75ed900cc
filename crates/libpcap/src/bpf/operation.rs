//! Operations of a checked program, with nothing in it that is not allowed.

use super::metadata::Ancillary;

/// Place of an instruction: its number in the program.
pub(super) type InstructionIndex = u32;

/// Operation of an instruction. A is the accumulator, X the other register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// A from the packet.
    Load(Width, u32),
    /// A from the packet, so many bytes behind X.
    LoadBehind(Width, u32),
    /// X becomes the length of the IPv4 header that begins there.
    HeaderLength(u32),
    /// The length the packet had on its link.
    Length(Register),
    /// A from the packet's metadata.
    Ancillary(Ancillary),
    Constant(Register, u32),
    /// A word of scratch memory.
    Memory(Register, u8),
    Store(Register, u8),
    /// With A.
    Calculate(Operator, Operand),
    Negate,
    AToX,
    XToA,
    Jump(InstructionIndex),
    Branch {
        relation: Relation,
        operand: Operand,
        yes: InstructionIndex,
        no: InstructionIndex,
    },
    Return(Returned),
}

/// Width of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Byte,
    Half,
    Word,
}

impl Width {
    pub(super) fn bytes(self) -> u32 {
        match self {
            Width::Byte => 1,
            Width::Half => 2,
            Width::Word => 4,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    A,
    X,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Constant(u32),
    X,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Returned {
    Constant(u32),
    A,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    /// By zero: the packet is not wanted.
    Divide,
    Or,
    And,
    /// By 32 bits or more: nothing is left.
    Left,
    Right,
    Remainder,
    Xor,
}

/// Relations of A to an operand, unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Greater,
    AtLeast,
    AnyBits,
}

impl Operation {
    /// Returns true if it reads A.
    pub(super) fn reads_a(self) -> bool {
        match self {
            Operation::Store(Register::A, _)
            | Operation::Calculate(..)
            | Operation::Negate
            | Operation::AToX
            | Operation::Branch { .. }
            | Operation::Return(Returned::A) => true,
            Operation::Ancillary(which) => which.reads_registers(),
            Operation::Load(..)
            | Operation::LoadBehind(..)
            | Operation::HeaderLength(_)
            | Operation::Length(_)
            | Operation::Constant(..)
            | Operation::Memory(..)
            | Operation::Store(Register::X, _)
            | Operation::XToA
            | Operation::Jump(_)
            | Operation::Return(Returned::Constant(_)) => false,
        }
    }

    /// Returns true if it writes A.
    pub(super) fn writes_a(self) -> bool {
        matches!(
            self,
            Operation::Load(..)
                | Operation::LoadBehind(..)
                | Operation::Length(Register::A)
                | Operation::Ancillary(_)
                | Operation::Constant(Register::A, _)
                | Operation::Memory(Register::A, _)
                | Operation::Calculate(..)
                | Operation::Negate
                | Operation::XToA
        )
    }

    /// Returns true if it reads X.
    pub(super) fn reads_x(self) -> bool {
        match self {
            Operation::Ancillary(which) => which.reads_registers(),
            Operation::LoadBehind(..)
            | Operation::Store(Register::X, _)
            | Operation::Calculate(_, Operand::X)
            | Operation::XToA
            | Operation::Branch { operand: Operand::X, .. } => true,
            _ => false,
        }
    }

    /// Returns true if it writes X.
    pub(super) fn writes_x(self) -> bool {
        matches!(
            self,
            Operation::HeaderLength(_)
                | Operation::Length(Register::X)
                | Operation::Constant(Register::X, _)
                | Operation::Memory(Register::X, _)
                | Operation::AToX
        )
    }

    /// Places behind the instruction at `at`: none, one or two.
    pub(super) fn next(self, at: InstructionIndex) -> Successors {
        Successors(match self {
            Operation::Return(_) => [None, None],
            Operation::Jump(to) => [Some(to), None],
            Operation::Branch { yes, no, .. } => [Some(yes), Some(no)],
            _ => [Some(at + 1), None],
        })
    }
}

/// Places behind an instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Successors([Option<InstructionIndex>; 2]);

impl Successors {
    pub(super) fn places(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().flatten().map(|place| place as usize)
    }
}

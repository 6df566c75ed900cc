//! Writes BPF instructions with named jump targets.
//!
//! Has only the instructions of the redirect program. Encodings are those of the kernel's
//! `Documentation/bpf/standardization/instruction-set.rst` (RFC 9669).

use std::os::fd::{AsRawFd, BorrowedFd};

use linerate_linux::bpf::Instruction;

/// A register: 0 answers, 1 to 5 are arguments, 6 to 9 survive calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register(pub(super) u8);

/// A place to jump to, before or after it is known where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Bytes that a load reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

/// Comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Equal = 0x10,
    NotEqual = 0x50,
    /// Unsigned.
    Greater = 0x20,
}

/// Operation on a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Add = 0x00,
    And = 0x50,
    ShiftLeft = 0x60,
    Set = 0xb0,
}

const LOAD: u8 = 0x61;
const JUMP: u8 = 0x05;
const ALU: u8 = 0x07;
/// The operand is a register, not the immediate.
const FROM_REGISTER: u8 = 0x08;

/// A program being written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// Position of each label.
    labels: Vec<Option<usize>>,
    /// Jumps whose distance is still to be filled in.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `to = *(width *)(from + offset)`.
    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(LOAD | width as u8, to, from, offset, 0);
    }

    /// A two-byte load of a field in network order.
    pub(super) fn load_network(&mut self, to: Register, from: Register, offset: i16) {
        self.load(Width::Half, to, from, offset);
        // Convert between host and big-endian order, 16 bits.
        self.emit(0xdc, to, Register(0), 0, 16);
    }

    /// `to = to (change) value`.
    pub(super) fn change(&mut self, change: Change, to: Register, value: i32) {
        self.emit(ALU | change as u8, to, Register(0), 0, value);
    }

    /// `to = to (change) from`.
    pub(super) fn change_by(&mut self, change: Change, to: Register, from: Register) {
        self.emit(ALU | FROM_REGISTER | change as u8, to, from, 0, 0);
    }

    /// Jumps when `left (test) right`.
    pub(super) fn jump_if(&mut self, left: Register, test: Test, right: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(JUMP | test as u8, left, Register(0), 0, right);
    }

    /// Jumps when `left (test) right`, both registers.
    pub(super) fn jump_if_registers(
        &mut self,
        left: Register,
        test: Test,
        right: Register,
        to: Label,
    ) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(JUMP | FROM_REGISTER | test as u8, left, right, 0, 0);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(JUMP, Register(0), Register(0), 0, 0);
    }

    /// `to = map`.
    pub(super) fn load_map(&mut self, to: Register, map: BorrowedFd<'_>) {
        // A 64-bit immediate takes two instructions; source register 1 says
        // that it is a map's file descriptor.
        self.emit(0x18, to, Register(1), 0, map.as_raw_fd());
        self.emit(0, Register(0), Register(0), 0, 0);
    }

    /// Calls a helper function of the kernel.
    pub(super) fn call(&mut self, helper: i32) {
        self.emit(0x85, Register(0), Register(0), 0, helper);
    }

    pub(super) fn exit(&mut self) {
        self.emit(0x95, Register(0), Register(0), 0, 0);
    }

    /// The finished program.
    ///
    /// # Panics
    ///
    /// When a label that is jumped to was not bound.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label is bound");
            // Distances count from the next instruction.
            let distance = target as isize - at as isize - 1;
            self.instructions[at].offset =
                i16::try_from(distance).expect("programs are short, see `TERMS_MAX`");
        }
        self.instructions
    }

    fn emit(&mut self, code: u8, to: Register, from: Register, offset: i16, immediate: i32) {
        let registers =
            if cfg!(target_endian = "little") { to.0 | from.0 << 4 } else { to.0 << 4 | from.0 };
        self.instructions.push(Instruction { code, registers, offset, immediate });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_reach_their_labels_in_both_directions() {
        let mut asm = Assembler::default();
        let (start, end) = (asm.label(), asm.label());
        asm.bind(start);
        asm.jump_if(Register(2), Test::Equal, 7, end);
        asm.change(Change::Add, Register(2), 1);
        asm.jump(start);
        asm.bind(end);
        asm.exit();
        let offsets: Vec<i16> = asm.finish().iter().map(|i| i.offset).collect();
        assert_eq!(offsets, [2, 0, -3, 0]);
    }

    #[test]
    fn encodes_as_the_instruction_set_says() {
        let mut asm = Assembler::default();
        asm.load(Width::Word, Register(7), Register(1), 4);
        asm.load_network(Register(9), Register(7), 12);
        asm.change(Change::Set, Register(0), 2);
        asm.change_by(Change::Set, Register(2), Register(7));
        asm.exit();
        let bytes: Vec<[u8; 2]> = asm.finish().iter().map(|i| [i.code, i.registers]).collect();
        // ldxw r7,[r1+4]; ldxh r9,[r7+12]; be16 r9; mov r0,2; mov r2,r7; exit
        assert_eq!(
            bytes,
            [[0x61, 0x17], [0x69, 0x79], [0xdc, 0x09], [0xb7, 0x00], [0xbf, 0x72], [0x95, 0x00]]
        );
    }
}

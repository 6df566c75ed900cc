//! The few instructions of x86-64 that filters need, and jumps as short as they can be.
//!
//! Source: the processors' manuals (Intel's, volume 2; AMD's, volume 3).

/// A register of 32 bits; its number in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gpr {
    Eax = 0,
    Ecx = 1,
    Edx = 2,
    Esi = 6,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
}

impl Gpr {
    fn low(self) -> u8 {
        self as u8 & 7
    }

    fn is_high(self) -> bool {
        self as u8 >= 8
    }
}

/// A place in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// So many bytes behind rdi.
    Packet(u32),
    /// So many bytes behind the sum of rdi and rcx.
    Behind(u32),
    /// So many bytes below rsp, where no signal handler writes: at most 128.
    BelowStack(u8),
}

/// Arithmetic on eax and another operand; its number in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// When a jump is taken, after an unsigned comparison or a test; its number in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Below = 2,
    NotBelow = 3,
    Equal = 4,
    NotEqual = 5,
    NotAbove = 6,
    Above = 7,
}

impl Condition {
    pub(super) fn not(self) -> Condition {
        match self {
            Condition::Below => Condition::NotBelow,
            Condition::NotBelow => Condition::Below,
            Condition::Equal => Condition::NotEqual,
            Condition::NotEqual => Condition::Equal,
            Condition::NotAbove => Condition::Above,
            Condition::Above => Condition::NotAbove,
        }
    }
}

/// A place in the code that is jumped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A place in the code: so many bytes of instructions, and so many jumps, are before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    bytes: usize,
    jumps: usize,
}

#[derive(Debug, Clone, Copy)]
struct Jump {
    /// Bytes of instructions that are before it.
    at: usize,
    /// Always, without.
    condition: Option<Condition>,
    to: Label,
    /// Whether the target is too far for a byte.
    is_long: bool,
}

impl Jump {
    fn bytes(&self) -> usize {
        match (self.is_long, self.condition) {
            (false, _) => 2,
            (true, None) => 5,
            (true, Some(_)) => 6,
        }
    }
}

/// Code that is being written. Jumps are apart until all places are known.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    bytes: Vec<u8>,
    jumps: Vec<Jump>,
    labels: Vec<Option<Position>>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(super) fn is_bound(&self, label: Label) -> bool {
        self.labels[label.0].is_some()
    }

    /// Binds a label to the next instruction.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(Position { bytes: self.bytes.len(), jumps: self.jumps.len() });
    }

    pub(super) fn jump(&mut self, condition: Option<Condition>, to: Label) {
        self.jumps.push(Jump { at: self.bytes.len(), condition, to, is_long: false });
    }

    pub(super) fn return_(&mut self) {
        self.put(&[0xc3]);
    }

    /// Copies a register.
    pub(super) fn copy(&mut self, to: Gpr, from: Gpr) {
        if from.is_high() || to.is_high() {
            self.put(&[0x40 | u8::from(from.is_high()) << 2 | u8::from(to.is_high())]);
        }
        self.put(&[0x89, 0xc0 | from.low() << 3 | to.low()]);
    }

    pub(super) fn constant(&mut self, to: Gpr, constant: u32) {
        if constant == 0 && !to.is_high() {
            self.put(&[0x31, 0xc0 | to.low() << 3 | to.low()]);
            return;
        }
        if to.is_high() {
            self.put(&[0x41]);
        }
        self.put(&[0xb8 | to.low()]);
        self.put(&constant.to_le_bytes());
    }

    /// Loads four bytes as they lie.
    pub(super) fn load_word(&mut self, to: Gpr, from: Address) {
        self.put(&[0x8b]);
        self.operand(to.low(), from);
    }

    /// Loads two bytes as they lie; the others become 0.
    pub(super) fn load_half(&mut self, to: Gpr, from: Address) {
        self.put(&[0x0f, 0xb7]);
        self.operand(to.low(), from);
    }

    pub(super) fn load_byte(&mut self, to: Gpr, from: Address) {
        self.put(&[0x0f, 0xb6]);
        self.operand(to.low(), from);
    }

    pub(super) fn store_word(&mut self, to: Address, from: Gpr) {
        self.put(&[0x89]);
        self.operand(from.low(), to);
    }

    /// Turns the four bytes of eax round.
    pub(super) fn swap_word(&mut self) {
        self.put(&[0x0f, 0xc8]);
    }

    /// Turns the lower two bytes of eax round.
    pub(super) fn swap_half(&mut self) {
        self.put(&[0x66, 0xc1, 0xc0, 0x08]);
    }

    /// With a constant; for comparisons, any register.
    pub(super) fn alu_constant(&mut self, alu: Alu, register: Gpr, constant: u32) {
        let alu = alu as u8;
        match (i8::try_from(constant as i32), register) {
            (Ok(small), _) => {
                self.put(&[0x83, 0xc0 | alu << 3 | register.low(), small as u8]);
            }
            (Err(_), Gpr::Eax) => self.put(&[alu << 3 | 0x05]),
            (Err(_), _) => self.put(&[0x81, 0xc0 | alu << 3 | register.low()]),
        }
        if i8::try_from(constant as i32).is_err() {
            self.put(&constant.to_le_bytes());
        }
    }

    /// eax with ecx.
    pub(super) fn alu_ecx(&mut self, alu: Alu) {
        self.put(&[(alu as u8) << 3 | 0x01, 0xc8]);
    }

    /// Compares bytes in memory with constants.
    pub(super) fn compare_byte(&mut self, with: Address, constant: u8) {
        self.put(&[0x80]);
        self.operand(Alu::Cmp as u8, with);
        self.put(&[constant]);
    }

    /// A constant that takes two bytes would make decoders wait, so there is only this.
    pub(super) fn compare_half(&mut self, with: Address, constant: i8) {
        self.put(&[0x66, 0x83]);
        self.operand(Alu::Cmp as u8, with);
        self.put(&[constant as u8]);
    }

    pub(super) fn compare_word(&mut self, with: Address, constant: u32) {
        if let Ok(small) = i8::try_from(constant as i32) {
            self.put(&[0x83]);
            self.operand(Alu::Cmp as u8, with);
            self.put(&[small as u8]);
        } else {
            self.put(&[0x81]);
            self.operand(Alu::Cmp as u8, with);
            self.put(&constant.to_le_bytes());
        }
    }

    /// Tests whether a byte in memory has any of these bits.
    pub(super) fn test_byte(&mut self, of: Address, bits: u8) {
        self.put(&[0xf6]);
        self.operand(0, of);
        self.put(&[bits]);
    }

    pub(super) fn test_word(&mut self, of: Address, bits: u32) {
        self.put(&[0xf7]);
        self.operand(0, of);
        self.put(&bits.to_le_bytes());
    }

    /// Tests whether eax has any of these bits.
    pub(super) fn test(&mut self, bits: u32) {
        if let Ok(low) = u8::try_from(bits) {
            self.put(&[0xa8, low]);
        } else {
            self.put(&[0xa9]);
            self.put(&bits.to_le_bytes());
        }
    }

    pub(super) fn test_ecx(&mut self) {
        self.put(&[0x85, 0xc8]);
    }

    pub(super) fn is_ecx_zero(&mut self) {
        self.put(&[0x85, 0xc9]);
    }

    pub(super) fn multiply_constant(&mut self, constant: u32) {
        if let Ok(small) = i8::try_from(constant as i32) {
            self.put(&[0x6b, 0xc0, small as u8]);
        } else {
            self.put(&[0x69, 0xc0]);
            self.put(&constant.to_le_bytes());
        }
    }

    pub(super) fn multiply_ecx(&mut self) {
        self.put(&[0x0f, 0xaf, 0xc1]);
    }

    /// Divides eax by a register: the remainder is in edx.
    pub(super) fn divide(&mut self, by: Gpr) {
        self.constant(Gpr::Edx, 0);
        if by.is_high() {
            self.put(&[0x41]);
        }
        self.put(&[0xf7, 0xf0 | by.low()]);
    }

    pub(super) fn negate(&mut self) {
        self.put(&[0xf7, 0xd8]);
    }

    pub(super) fn shift_left(&mut self, register: Gpr, bits: u8) {
        self.put(&[0xc1, 0xe0 | register.low(), bits]);
    }

    pub(super) fn shift_right(&mut self, bits: u8) {
        self.put(&[0xc1, 0xe8, bits]);
    }

    /// By as many bits as ecx says; of 32 bits and more nothing is left.
    pub(super) fn shift_ecx(&mut self, left: bool) {
        self.put(&[0xd3, if left { 0xe0 } else { 0xe8 }]);
        self.alu_constant(Alu::Cmp, Gpr::Ecx, u32::BITS);
        // r11 becomes all ones when ecx is below, else 0.
        self.put(&[0x45, 0x19, 0xdb]);
        self.put(&[0x44, 0x21, 0xd8]);
    }

    /// Compares the sum of rcx and a constant of at most 31 bits, which does not wrap, with rsi.
    pub(super) fn compare_behind(&mut self, more: u32) {
        if let Ok(small) = i8::try_from(more) {
            self.put(&[0x4c, 0x8d, 0x59, small as u8]);
        } else {
            self.put(&[0x4c, 0x8d, 0x99]);
            self.put(&more.to_le_bytes());
        }
        self.put(&[0x49, 0x39, 0xf3]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A register, or the number of an operation, and a place in memory.
    fn operand(&mut self, register: u8, address: Address) {
        const BEHIND_RDI: u8 = 0x07;
        /// Its base and index are in another byte.
        const BY_SIB: u8 = 0x04;
        const RDI_RCX: u8 = 0x0f;
        const RSP: u8 = 0x24;
        const SMALL: u8 = 0x40;
        const LARGE: u8 = 0x80;
        let (mode, sib, distance) = match address {
            Address::Packet(distance) => (BEHIND_RDI, None, distance as i32),
            Address::Behind(distance) => (BY_SIB, Some(RDI_RCX), distance as i32),
            Address::BelowStack(distance) => (BY_SIB, Some(RSP), -i32::from(distance)),
        };
        let size = match i8::try_from(distance) {
            Ok(0) => 0,
            Ok(_) => SMALL,
            Err(_) => LARGE,
        };
        self.put(&[size | register << 3 | mode]);
        self.bytes.extend(sib);
        match size {
            0 => {}
            SMALL => self.put(&[distance as u8]),
            _ => self.put(&distance.to_le_bytes()),
        }
    }

    /// The code, with all jumps as short as they can be.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // A jump that grows makes others longer, never shorter.
        let mut lengths = self.jump_lengths();
        loop {
            let mut has_grown = false;
            for number in 0..self.jumps.len() {
                let jump = self.jumps[number];
                if !jump.is_long && i8::try_from(self.distance(number, &lengths)).is_err() {
                    self.jumps[number].is_long = true;
                    has_grown = true;
                }
            }
            if !has_grown {
                break;
            }
            lengths = self.jump_lengths();
        }
        let mut code = Vec::with_capacity(self.bytes.len() + lengths[self.jumps.len()]);
        let mut copied = 0;
        for (number, jump) in self.jumps.iter().enumerate() {
            code.extend_from_slice(&self.bytes[copied..jump.at]);
            copied = jump.at;
            let distance = self.distance(number, &lengths) as i32;
            match (jump.is_long, jump.condition) {
                (false, None) => code.extend([0xeb, distance as u8]),
                (false, Some(condition)) => code.extend([0x70 | condition as u8, distance as u8]),
                (true, None) => code.push(0xe9),
                (true, Some(condition)) => code.extend([0x0f, 0x80 | condition as u8]),
            }
            if jump.is_long {
                code.extend(distance.to_le_bytes());
            }
        }
        code.extend_from_slice(&self.bytes[copied..]);
        code
    }

    /// Bytes of the first jumps together, for each number of them.
    fn jump_lengths(&self) -> Vec<usize> {
        let mut lengths = Vec::with_capacity(self.jumps.len() + 1);
        let mut sum = 0;
        lengths.push(0);
        for jump in &self.jumps {
            sum += jump.bytes();
            lengths.push(sum);
        }
        lengths
    }

    /// From behind a jump to its target.
    fn distance(&self, number: usize, lengths: &[usize]) -> i64 {
        let jump = &self.jumps[number];
        let to = self.labels[jump.to.0].expect("all labels are bound");
        let from = jump.at + lengths[number] + jump.bytes();
        (to.bytes + lengths[to.jumps]) as i64 - from as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_as_short_as_they_can_be() {
        for (between, expected) in [(127, 2), (128, 6)] {
            let mut code = Assembler::default();
            let label = code.label();
            code.jump(Some(Condition::Equal), label);
            for _ in 0..between {
                code.return_();
            }
            code.bind(label);
            assert_eq!(code.finish().len(), expected + between);
        }
    }

    #[test]
    fn one_that_grows_makes_another_grow() {
        let mut code = Assembler::default();
        let [near, far] = [code.label(), code.label()];
        code.jump(None, near);
        code.jump(None, far);
        for _ in 0..125 {
            code.return_();
        }
        code.bind(near);
        for _ in 0..10 {
            code.return_();
        }
        code.bind(far);
        let code = code.finish();
        assert_eq!(code.len(), 10 + 135);
        assert_eq!(code[..10], [0xe9, 130, 0, 0, 0, 0xe9, 135, 0, 0, 0]);
    }
}

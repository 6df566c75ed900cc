//! Code for x86-64 from a checked program whose jumps lead forward.
//!
//! It is called as a C function: rdi is the packet's first byte, rsi the number of its bytes (at
//! most [`PACKET_MAX`]), edx its length on the link, ecx its metadata, packed. In it
//!
//! - A is eax and X is ecx, whose upper half is always 0; X has to be there for shifts;
//! - the length stays in edx, or is in r8 where a division needs edx; the metadata is in r10 where
//!   it is asked for;
//! - the first words of scratch memory are in r8 (if it is free), r9 and r10 (if that is), the
//!   others below the stack pointer; r11 is for temporary values.
//!
//! It relies on the promise of [`bounds`](super::super::bounds): on all paths to a load, the code
//! has checked that the packet has enough bytes.

use crate::bpf::{
    bounds::{BoundsCheck, looks},
    metadata::{Ancillary, PRESENT_SHIFT, TAG_MASK, TYPE_SHIFT},
    operation::{
        InstructionIndex, Operand, Operation, Operator, Register, Relation, Returned, Width,
    },
};

#[cfg(doc)]
use crate::bpf::bounds::PACKET_MAX;

use super::{
    assembler::{Address, Alu, Assembler, Condition, Gpr, Label},
    order::{Order, orders},
};

/// Makes the code of a program.
pub(super) fn translate(operations: &[Operation]) -> Vec<u8> {
    let mut translation = Translation::new(operations);
    translation.begin();
    let mut at = 0;
    while at < operations.len() {
        at += translation.next(at);
    }
    translation.end()
}

/// Register of the metadata, in programs that ask for it.
const ABOUT: Gpr = Gpr::R10;

/// Places of the words of scratch memory and of the length.
#[derive(Debug)]
struct Locations {
    length: Gpr,
    words: [Location; 16],
}

#[derive(Debug, Clone, Copy)]
enum Location {
    Register(Gpr),
    Memory(Address),
}

impl Locations {
    fn new(operations: &[Operation]) -> Locations {
        let divides = operations.iter().any(|operation| {
            matches!(operation, Operation::Calculate(Operator::Divide | Operator::Remainder, _))
        });
        let free = [(Gpr::R8, !divides), (Gpr::R9, true), (ABOUT, !asks(operations))];
        let mut free = free.iter().filter(|(_, is_free)| *is_free).map(|(register, _)| register);
        let mut words =
            std::array::from_fn(|word| Location::Memory(Address::BelowStack(4 * (word as u8 + 1))));
        let mut seen = [false; 16];
        for operation in operations {
            if let Operation::Store(_, word) = operation
                && !std::mem::replace(&mut seen[usize::from(*word)], true)
                && let Some(register) = free.next()
            {
                words[usize::from(*word)] = Location::Register(*register);
            }
        }
        Locations { length: if divides { Gpr::R8 } else { Gpr::Edx }, words }
    }
}

/// Whether the registers matter before each instruction.
#[derive(Debug, Clone, Copy, Default)]
struct LiveRegisters {
    a: bool,
    x: bool,
}

fn lives(operations: &[Operation]) -> Vec<LiveRegisters> {
    let mut lives = vec![LiveRegisters::default(); operations.len()];
    for (at, operation) in operations.iter().enumerate().rev() {
        let next = operation.next(at as InstructionIndex).places();
        let behind = next.fold(LiveRegisters::default(), |live, to| LiveRegisters {
            a: live.a || lives[to].a,
            x: live.x || lives[to].x,
        });
        lives[at] = LiveRegisters {
            a: operation.reads_a() || behind.a && !operation.writes_a(),
            x: operation.reads_x() || behind.x && !operation.writes_x(),
        };
    }
    lives
}

struct Translation<'a> {
    operations: &'a [Operation],
    looks: Vec<BoundsCheck>,
    orders: Vec<Order>,
    lives: Vec<LiveRegisters>,
    /// Instructions that something jumps to.
    targets: Vec<bool>,
    homes: Locations,
    code: Assembler,
    /// One for each instruction.
    labels: Vec<Label>,
    /// Labels of the code that returns constants.
    returns: Vec<(u32, Label)>,
    /// Whether the last instruction written goes on at the next one.
    falls: bool,
}

impl<'a> Translation<'a> {
    fn new(operations: &'a [Operation]) -> Translation<'a> {
        let mut code = Assembler::default();
        let mut targets = vec![false; operations.len()];
        for operation in operations {
            if let Operation::Jump(_) | Operation::Branch { .. } = operation {
                for to in operation.next(0).places() {
                    targets[to] = true;
                }
            }
        }
        Translation {
            operations,
            looks: looks(operations),
            orders: orders(operations),
            lives: lives(operations),
            targets,
            homes: Locations::new(operations),
            labels: operations.iter().map(|_| code.label()).collect(),
            code,
            returns: Vec::new(),
            falls: true,
        }
    }

    /// Gives the registers their first values.
    fn begin(&mut self) {
        if self.looks[0] == BoundsCheck::Never {
            return;
        }
        let asks_length =
            self.operations.iter().any(|operation| matches!(operation, Operation::Length(_)));
        if self.homes.length != Gpr::Edx && asks_length {
            self.code.copy(self.homes.length, Gpr::Edx);
        }
        if asks(self.operations) {
            self.code.copy(ABOUT, Gpr::Ecx);
        }
        if self.lives[0].a {
            self.code.constant(Gpr::Eax, 0);
        }
        if self.lives[0].x {
            self.code.constant(Gpr::Ecx, 0);
        }
    }

    /// Writes the returns that nothing has led to without a jump.
    fn end(mut self) -> Vec<u8> {
        for (constant, label) in std::mem::take(&mut self.returns) {
            if !self.code.is_bound(label) {
                self.code.bind(label);
                self.code.constant(Gpr::Eax, constant);
                self.code.return_();
            }
        }
        self.code.finish()
    }

    fn return_label(&mut self, constant: u32) -> Label {
        if let Some((_, label)) = self.returns.iter().find(|(known, _)| *known == constant) {
            return *label;
        }
        let label = self.code.label();
        self.returns.push((constant, label));
        label
    }

    fn refuse(&mut self) -> Label {
        self.return_label(0)
    }

    /// The constant that the program returns at a place, when it does nothing else there.
    fn returned(&self, at: usize) -> Option<u32> {
        match self.operations[at] {
            _ if self.looks[at] == BoundsCheck::Never => Some(0),
            Operation::Return(Returned::Constant(constant)) => Some(constant),
            _ => None,
        }
    }

    /// Jump target for a place in the program.
    fn label(&mut self, to: InstructionIndex) -> Label {
        let mut to = to as usize;
        while let (None, Operation::Jump(further)) = (self.returned(to), self.operations[to]) {
            to = further as usize;
        }
        match self.returned(to) {
            Some(constant) => self.return_label(constant),
            None => self.labels[to],
        }
    }

    /// Writes an instruction; returns how many have been.
    fn next(&mut self, at: usize) -> usize {
        if let Some(constant) = self.returned(at) {
            if std::mem::replace(&mut self.falls, false) {
                let label = self.return_label(constant);
                if !self.code.is_bound(label) {
                    self.code.bind(label);
                }
                self.code.constant(Gpr::Eax, constant);
                self.code.return_();
            }
            return 1;
        }
        if self.looks[at] == BoundsCheck::Unreached {
            return 1;
        }
        if let Operation::Jump(to) = self.operations[at] {
            if std::mem::replace(&mut self.falls, false) {
                let label = self.label(to);
                self.code.jump(None, label);
            }
            return 1;
        }
        self.code.bind(self.labels[at]);
        self.falls = true;
        self.look(at);
        if self.compare_in_place(at) {
            return 2;
        }
        self.operation(at);
        1
    }

    fn look(&mut self, at: usize) {
        match self.looks[at] {
            BoundsCheck::Packet(bytes) => {
                let refuse = self.refuse();
                self.code.alu_constant(Alu::Cmp, Gpr::Esi, bytes);
                self.code.jump(Some(Condition::Below), refuse);
            }
            BoundsCheck::Behind(bytes) => {
                let refuse = self.refuse();
                self.code.compare_behind(bytes);
                self.code.jump(Some(Condition::Above), refuse);
            }
            BoundsCheck::Nothing | BoundsCheck::Never | BoundsCheck::Unreached => {}
        }
    }

    /// Compares the operand of a load in place, when A is not needed any more.
    fn compare_in_place(&mut self, at: usize) -> bool {
        let (width, address) = match self.operations[at] {
            Operation::Load(width, place) => (width, Address::Packet(place)),
            Operation::LoadBehind(width, place) => (width, Address::Behind(place)),
            _ => return false,
        };
        let Some(Operation::Branch { relation, operand: Operand::Constant(constant), yes, no }) =
            self.operations.get(at + 1).copied()
        else {
            return false;
        };
        let is_read = self.lives[yes as usize].a || self.lives[no as usize].a;
        if self.targets[at + 1]
            || self.looks[at + 1] != BoundsCheck::Nothing
            || is_read
            || yes == no
        {
            return false;
        }
        let order = self.orders[at];
        match relation {
            Relation::Equal => {
                let Some(turned) = order.turned(constant) else { return false };
                match (width, order) {
                    (Width::Byte, _) => {
                        let Ok(byte) = u8::try_from(constant) else { return false };
                        self.code.compare_byte(address, byte);
                    }
                    (Width::Half, Order::Half) => {
                        let Ok(half) = i8::try_from(turned as u16 as i16) else { return false };
                        self.code.compare_half(address, half);
                    }
                    (Width::Word, Order::Word) => self.code.compare_word(address, turned),
                    _ => return false,
                }
            }
            Relation::AnyBits => match (width, order, address) {
                (Width::Byte, _, _) => self.code.test_byte(address, constant as u8),
                (Width::Half, Order::Half, Address::Packet(place))
                    if u8::try_from(constant as u16).is_ok() =>
                {
                    self.code.test_byte(Address::Packet(place + 1), constant as u8);
                }
                (Width::Word, Order::Word, _) => {
                    self.code.test_word(address, order.turned_bits(constant));
                }
                _ => return false,
            },
            _ => return false,
        }
        self.branch(at + 1, condition(relation), yes, no);
        true
    }

    fn operation(&mut self, at: usize) {
        match self.operations[at] {
            Operation::Load(width, place) => self.load(at, width, Address::Packet(place)),
            Operation::LoadBehind(width, place) => self.load(at, width, Address::Behind(place)),
            Operation::HeaderLength(place) => {
                self.code.load_byte(Gpr::Ecx, Address::Packet(place));
                self.code.alu_constant(Alu::And, Gpr::Ecx, 0x0f);
                self.code.shift_left(Gpr::Ecx, 2);
            }
            Operation::Length(register) => self.code.copy(gpr(register), self.homes.length),
            Operation::Ancillary(which) => self.ancillary(which),
            Operation::Constant(register, constant) => {
                self.code.constant(gpr(register), constant);
            }
            Operation::Memory(register, word) => match self.homes.words[usize::from(word)] {
                Location::Register(home) => self.code.copy(gpr(register), home),
                Location::Memory(home) => self.code.load_word(gpr(register), home),
            },
            Operation::Store(register, word) => match self.homes.words[usize::from(word)] {
                Location::Register(home) => self.code.copy(home, gpr(register)),
                Location::Memory(home) => self.code.store_word(home, gpr(register)),
            },
            Operation::Calculate(operator, Operand::Constant(constant)) => {
                self.calculate(operator, constant, self.orders[at]);
            }
            Operation::Calculate(operator, Operand::X) => self.calculate_x(operator),
            Operation::Negate => self.code.negate(),
            Operation::AToX => self.code.copy(Gpr::Ecx, Gpr::Eax),
            Operation::XToA => self.code.copy(Gpr::Eax, Gpr::Ecx),
            Operation::Branch { yes, no, .. } if yes == no => {
                let to = self.label(yes);
                if yes as usize != at + 1 {
                    self.code.jump(None, to);
                    self.falls = false;
                }
            }
            Operation::Branch { relation, operand: Operand::Constant(constant), yes, no } => {
                self.compare(at, relation, constant, yes, no);
            }
            Operation::Branch { relation, operand: Operand::X, yes, no } => {
                match relation {
                    Relation::AnyBits => self.code.test_ecx(),
                    _ => self.code.alu_ecx(Alu::Cmp),
                }
                self.branch(at, condition(relation), yes, no);
            }
            // Constants and jumps have been seen to.
            Operation::Jump(_) | Operation::Return(_) => {
                self.code.return_();
                self.falls = false;
            }
        }
    }

    /// Loads A with metadata.
    fn ancillary(&mut self, which: Ancillary) {
        self.code.copy(Gpr::Eax, ABOUT);
        match which {
            Ancillary::Tag => self.code.alu_constant(Alu::And, Gpr::Eax, TAG_MASK),
            Ancillary::TagPresent => {
                self.code.shift_right(PRESENT_SHIFT);
                self.code.alu_constant(Alu::And, Gpr::Eax, 1);
            }
            // The others are not packed, and programs that ask for them do not come here.
            _ => self.code.shift_right(TYPE_SHIFT),
        }
    }

    /// Loads A, if it is read later.
    fn load(&mut self, at: usize, width: Width, from: Address) {
        if !self.lives[at + 1].a {
            return;
        }
        match width {
            Width::Byte => self.code.load_byte(Gpr::Eax, from),
            Width::Half => self.code.load_half(Gpr::Eax, from),
            Width::Word => self.code.load_word(Gpr::Eax, from),
        }
        match (width, self.orders[at]) {
            (Width::Half, Order::Native) => self.code.swap_half(),
            (Width::Word, Order::Native) => self.code.swap_word(),
            _ => {}
        }
    }

    fn calculate(&mut self, operator: Operator, constant: u32, order: Order) {
        match operator {
            Operator::Add => self.code.alu_constant(Alu::Add, Gpr::Eax, constant),
            Operator::Subtract => self.code.alu_constant(Alu::Sub, Gpr::Eax, constant),
            Operator::Or => self.code.alu_constant(Alu::Or, Gpr::Eax, constant),
            Operator::And => {
                self.code.alu_constant(Alu::And, Gpr::Eax, order.turned_bits(constant));
            }
            Operator::Xor => self.code.alu_constant(Alu::Xor, Gpr::Eax, constant),
            Operator::Multiply => self.code.multiply_constant(constant),
            Operator::Left => self.code.shift_left(Gpr::Eax, constant as u8),
            Operator::Right => self.code.shift_right(constant as u8),
            Operator::Divide if constant.is_power_of_two() => {
                self.code.shift_right(constant.trailing_zeros() as u8);
            }
            Operator::Remainder if constant.is_power_of_two() => {
                self.code.alu_constant(Alu::And, Gpr::Eax, constant - 1);
            }
            Operator::Divide | Operator::Remainder => {
                self.code.constant(Gpr::R11, constant);
                self.divide(operator, Gpr::R11);
            }
        }
    }

    fn calculate_x(&mut self, operator: Operator) {
        match operator {
            Operator::Add => self.code.alu_ecx(Alu::Add),
            Operator::Subtract => self.code.alu_ecx(Alu::Sub),
            Operator::Or => self.code.alu_ecx(Alu::Or),
            Operator::And => self.code.alu_ecx(Alu::And),
            Operator::Xor => self.code.alu_ecx(Alu::Xor),
            Operator::Multiply => self.code.multiply_ecx(),
            Operator::Left => self.code.shift_ecx(true),
            Operator::Right => self.code.shift_ecx(false),
            Operator::Divide | Operator::Remainder => {
                let refuse = self.refuse();
                self.code.is_ecx_zero();
                self.code.jump(Some(Condition::Equal), refuse);
                self.divide(operator, Gpr::Ecx);
            }
        }
    }

    fn divide(&mut self, operator: Operator, by: Gpr) {
        self.code.divide(by);
        if operator == Operator::Remainder {
            self.code.copy(Gpr::Eax, Gpr::Edx);
        }
    }

    /// Compares A with a constant.
    fn compare(
        &mut self,
        at: usize,
        relation: Relation,
        constant: u32,
        yes: InstructionIndex,
        no: InstructionIndex,
    ) {
        let order = self.orders[at];
        match (relation, order.turned(constant)) {
            (Relation::AnyBits, _) => self.code.test(order.turned_bits(constant)),
            (_, Some(turned)) => self.code.alu_constant(Alu::Cmp, Gpr::Eax, turned),
            // Orders other than the processor's are compared for equality only.
            (_, None) => {
                if no as usize != at + 1 {
                    let to = self.label(no);
                    self.code.jump(None, to);
                    self.falls = false;
                }
                return;
            }
        }
        self.branch(at, condition(relation), yes, no);
    }

    /// Goes on after a comparison that is instruction `at`.
    fn branch(
        &mut self,
        at: usize,
        condition: Condition,
        yes: InstructionIndex,
        no: InstructionIndex,
    ) {
        let (to_yes, to_no) = (self.label(yes), self.label(no));
        let next = at + 1;
        // Something is written there when anything leads to it.
        let is_next = |translation: &mut Self, label: Label| {
            translation.looks.get(next).is_some_and(|look| *look != BoundsCheck::Unreached)
                && translation.label(next as InstructionIndex) == label
        };
        self.falls = true;
        if to_yes == to_no {
            if !is_next(self, to_yes) {
                self.code.jump(None, to_yes);
                self.falls = false;
            }
        } else if is_next(self, to_yes) {
            self.code.jump(Some(condition.not()), to_no);
        } else if is_next(self, to_no) {
            self.code.jump(Some(condition), to_yes);
        } else {
            self.code.jump(Some(condition), to_yes);
            self.code.jump(None, to_no);
            self.falls = false;
        }
    }
}

/// Returns true if a program asks for metadata.
fn asks(operations: &[Operation]) -> bool {
    operations.iter().any(|operation| matches!(operation, Operation::Ancillary(_)))
}

fn gpr(register: Register) -> Gpr {
    match register {
        Register::A => Gpr::Eax,
        Register::X => Gpr::Ecx,
    }
}

/// When a relation holds after a comparison, or a test.
fn condition(relation: Relation) -> Condition {
    match relation {
        Relation::Equal => Condition::Equal,
        Relation::Greater => Condition::Above,
        Relation::AtLeast => Condition::NotBelow,
        Relation::AnyBits => Condition::NotEqual,
    }
}

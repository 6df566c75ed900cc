//! A filter as a program of classic BPF, which the kernel runs on each packet
//! before a socket gets a copy of it, or an interpreter.
//!
//! The program decides as the tree does: its parts are looked at in the same order, and a packet
//! too short for a load is refused, as the kernel refuses it. It is made from its end to its
//! beginning, since jumps only lead forward: the targets of a jump are known when it is written.
//! Source: Linux's `Documentation/networking/filter.rst`.

use std::{collections::HashMap, mem::offset_of};

use crate::{
    chain::{
        AUTHENTICATION, Chain, DESTINATION, FRAGMENT, HOP_BY_HOP, IPV6_HEADER, NOTHING, ROUTING,
    },
    code::{
        self, A_TO_X, BYTE, CALCULATE, FROM_X, HALF, JUMP, RETURN, STORE, STORE_X, WORD, WORDS,
        X_TO_A,
    },
    offset_slots::Offset,
    tree::{
        BRIDGED, Base, ETHERNET_HEADER, ETHERNET_TYPE, GENEVE_HEADER, Number, Operator, Relation,
        Tree, Tunnel, UDP_HEADER, VLAN_TAG_LENGTH,
    },
};

/// An instruction of classic BPF, laid out as the kernel's `struct sock_filter` and libpcap's `struct
/// bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Instructions to skip when a condition holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

const _: () = assert!(size_of::<Instruction>() == 8 && offset_of!(Instruction, k) == 4);

/// The most instructions of a program: as many as the memory of a socket's options has room for by
/// default (`optmem_max`, 20 KiB before Linux 6.7).
pub const INSTRUCTIONS_MAX: usize = 2048;

const LOAD_ABSOLUTE: u16 = code::LOAD | code::ABSOLUTE;
const LOAD_INDEXED: u16 = code::LOAD | code::INDEXED;
const LOAD_LENGTH: u16 = code::LOAD | code::LENGTH;
const LOAD_CONSTANT: u16 = code::LOAD | code::CONSTANT;
const LOAD_MEMORY: u16 = code::LOAD | code::MEMORY;
const LOAD_MEMORY_X: u16 = code::LOAD_X | code::MEMORY;
const LOAD_HEADER_LENGTH_X: u16 = code::LOAD_X | code::HEADER_LENGTH | code::BYTE;
const JUMP_EQUAL: u16 = code::JUMP | code::EQUAL;
const JUMP_GREATER: u16 = code::JUMP | code::GREATER;
const JUMP_AT_LEAST: u16 = code::JUMP | code::AT_LEAST;

impl Instruction {
    /// Ends the program: so many bytes of the packet are wanted.
    pub const fn give(bytes: u32) -> Instruction {
        Instruction::plain(RETURN, bytes)
    }

    /// Loads a word that the kernel knows of the packet besides its bytes, as
    /// `SKF_AD_VLAN_TAG_PRESENT` of `linux/filter.h`.
    pub const fn load_ancillary(which: u32) -> Instruction {
        Instruction::plain(LOAD_ABSOLUTE, code::ANCILLARY + which)
    }

    /// Loads the length of the packet.
    pub const fn load_length() -> Instruction {
        Instruction::plain(LOAD_LENGTH, 0)
    }

    /// Skips so many instructions where the word loaded is above `value`, and so many where it is
    /// not.
    pub const fn skip_above(value: u32, above: u8, else_: u8) -> Instruction {
        Instruction { code: JUMP_GREATER, jt: above, jf: else_, k: value }
    }

    /// Skips so many instructions where the word loaded is `value`, and so many
    /// where it is not.
    pub const fn skip(value: u32, equal: u8, unequal: u8) -> Instruction {
        Instruction { code: JUMP_EQUAL, jt: equal, jf: unequal, k: value }
    }

    const fn plain(code: u16, k: u32) -> Instruction {
        Instruction { code, jt: 0, jf: 0, k }
    }
}

/// Interpreter that is going to run a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Target {
    /// With as many instructions as there is memory for, forward jumps, and shifts by less than 32.
    #[default]
    Kernel,
    /// libpcap's interpreter, or an equivalent one.
    Interpreter,
}

/// The program of a tree whose conditions find so many places, which gives so many bytes of the
/// packets wanted; `None` when it would be too long for the kernel, or has calculations that the
/// kernel does otherwise or not at all, or wants more scratch memory than there is.
///
/// Places are in the scratch memory, from its first word on. They are 0 at first: the kernel
/// refuses a program that may read words it has not written.
pub(crate) fn program(
    tree: &Tree,
    places: u8,
    bytes: u32,
    target: Target,
) -> Option<Vec<Instruction>> {
    let mut backward = Backward { places: places.into(), target, ..Backward::default() };
    let refuse = backward.push(Instruction::give(0));
    let accept = backward.push(Instruction::give(bytes));
    let start = backward.condition(tree, accept, refuse)?;
    backward.reach(start);
    for place in 0..backward.places {
        backward.push(Instruction::plain(STORE, place));
    }
    if places > 0 {
        backward.push(Instruction::plain(LOAD_CONSTANT, 0));
    }
    backward.finish()
}

/// A place in a program, counted from its end.
type InstructionIndex = usize;

/// Scratch memory that is not in use: from a word on.
#[derive(Debug, Clone, Copy)]
struct Free {
    from: u32,
    target: Target,
}

/// A program being written.
#[derive(Debug, Default)]
struct Backward {
    /// The last one first.
    instructions: Vec<Instruction>,
    /// The newest place that only goes on at another.
    stones: HashMap<InstructionIndex, InstructionIndex>,
    /// Words of scratch memory that are in use all the time.
    places: u32,
    target: Target,
}

impl Backward {
    /// The scratch memory that may be used in between.
    fn free(&self) -> Free {
        Free { from: self.places, target: self.target }
    }

    fn push(&mut self, instruction: Instruction) -> InstructionIndex {
        self.instructions.push(instruction);
        self.instructions.len() - 1
    }

    fn finish(mut self) -> Option<Vec<Instruction>> {
        self.instructions.reverse();
        let fits =
            self.target == Target::Interpreter || self.instructions.len() <= INSTRUCTIONS_MAX;
        fits.then_some(self.instructions)
    }

    /// Instructions that one written next has to skip to get to `to`.
    fn distance(&self, to: InstructionIndex) -> usize {
        self.instructions.len() - to - 1
    }

    /// Makes the instruction written next go on at `to`.
    fn reach(&mut self, to: InstructionIndex) {
        let skipped = self.distance(to);
        if skipped > 0 {
            self.push(Instruction::plain(JUMP, skipped as u32));
        }
    }

    /// A place that goes on at `to` and that a condition written after at most
    /// one more such place can jump to.
    fn near(&mut self, to: InstructionIndex) -> InstructionIndex {
        let is_near = |place: &InstructionIndex| self.distance(*place) < usize::from(u8::MAX) - 1;
        if let Some(near) =
            [Some(to), self.stones.get(&to).copied()].into_iter().flatten().find(is_near)
        {
            return near;
        }
        let stone = self.stone(to);
        self.stones.insert(to, stone);
        stone
    }

    /// A new place that goes on at `to`.
    fn stone(&mut self, to: InstructionIndex) -> InstructionIndex {
        let skipped = self.distance(to);
        self.push(Instruction::plain(JUMP, skipped as u32))
    }

    /// Writes a condition; returns where it begins.
    fn condition(
        &mut self,
        tree: &Tree,
        holds: InstructionIndex,
        fails: InstructionIndex,
    ) -> Option<InstructionIndex> {
        match tree {
            Tree::Constant(value) => Some(if *value { holds } else { fails }),
            Tree::Not(of) => self.condition(of, fails, holds),
            Tree::All(parts) => {
                parts.iter().rev().try_fold(holds, |next, part| self.condition(part, next, fails))
            }
            Tree::Any(parts) => {
                parts.iter().rev().try_fold(fails, |next, part| self.condition(part, holds, next))
            }
            Tree::Compare { relation, left, right } => {
                let (code, holds, fails) = match relation {
                    Relation::Equal => (JUMP_EQUAL, holds, fails),
                    Relation::Unequal => (JUMP_EQUAL, fails, holds),
                    Relation::Greater => (JUMP_GREATER, holds, fails),
                    Relation::AtMost => (JUMP_GREATER, fails, holds),
                    Relation::AtLeast => (JUMP_AT_LEAST, holds, fails),
                    Relation::Less => (JUMP_AT_LEAST, fails, holds),
                };
                self.compare(code, left, right, holds, fails)
            }
            Tree::Enter(tunnel) => {
                let mut entering = Vec::new();
                enter(*tunnel, &mut entering);
                self.reach(holds);
                Some(self.push_all(entering))
            }
            Tree::PassTag(place) => {
                let place = u32::from(*place);
                self.reach(holds);
                Some(self.push_all(vec![
                    Instruction::plain(LOAD_MEMORY, place),
                    Instruction::plain(CALCULATE | code(Operator::Add), VLAN_TAG_LENGTH),
                    Instruction::plain(STORE, place),
                ]))
            }
            Tree::Chain(_) if self.target == Target::Kernel => None,
            Tree::Chain(chain) => self.chain(*chain, holds, fails),
        }
    }

    /// Writes the loop that goes through a chain of headers. The type of the next one stays in A,
    /// and its offset behind the network header in X.
    fn chain(
        &mut self,
        chain: Chain,
        holds: InstructionIndex,
        fails: InstructionIndex,
    ) -> Option<InstructionIndex> {
        let next = self.places;
        let at = chain.network;
        let calculate =
            |operator: Operator, k: u32| Instruction::plain(CALCULATE | code(operator), k);
        // Offsets of the type of the next header, and of a header's length in units.
        let read = [
            Instruction::plain(LOAD_INDEXED | BYTE, at),
            Instruction::plain(STORE, next),
            Instruction::plain(LOAD_INDEXED | BYTE, at.checked_add(1)?),
        ];
        let add_x = Instruction::plain(CALCULATE | code(Operator::Add) | FROM_X, 0);
        let go_on = [Instruction::plain(A_TO_X, 0), Instruction::plain(LOAD_MEMORY, next)];
        let again = Instruction::plain(JUMP, 0);
        (next < WORDS).then_some(())?;

        let (holds, fails) = (self.stone(holds), self.stone(fails));
        let mut turns = vec![self.push(again)];
        // Counted from the network header instead of from this one.
        let units = [calculate(Operator::Add, 2), calculate(Operator::Multiply, 4)];
        let authentication = self.push_all([&read[..], &units, &go_on].concat());
        let mut kinds = vec![(AUTHENTICATION, authentication)];
        if chain.six {
            turns.push(self.push(again));
            let units = [calculate(Operator::Add, 1), calculate(Operator::Multiply, 8), add_x];
            let option = self.push_all([&read[..], &units, &go_on].concat());
            kinds.extend([HOP_BY_HOP, DESTINATION, ROUTING, FRAGMENT].map(|kind| (kind, option)));
        }
        kinds.extend([(NOTHING, fails), (chain.protocol, holds)]);
        let mut start = fails;
        for (kind, to) in kinds {
            let (jt, jf) = (self.distance(to) as u8, self.distance(start) as u8);
            start = self.push(Instruction { code: JUMP_EQUAL, jt, jf, k: kind });
        }
        for turn in turns {
            self.instructions[turn].k = (turn as u32).wrapping_sub(start as u32 + 1);
        }
        let first = if chain.six {
            [
                Instruction::plain(code::LOAD_X | code::CONSTANT, IPV6_HEADER),
                Instruction::plain(LOAD_ABSOLUTE | BYTE, at.checked_add(6)?),
            ]
        } else {
            [
                Instruction::plain(LOAD_HEADER_LENGTH_X, at),
                Instruction::plain(LOAD_ABSOLUTE | BYTE, at.checked_add(9)?),
            ]
        };
        Some(self.push_all(first.into()))
    }

    /// Writes instructions that follow each other; returns where they begin.
    fn push_all(&mut self, instructions: Vec<Instruction>) -> InstructionIndex {
        for instruction in instructions.into_iter().rev() {
            self.push(instruction);
        }
        self.instructions.len() - 1
    }

    fn compare(
        &mut self,
        code: u16,
        left: &Number,
        right: &Number,
        holds: InstructionIndex,
        fails: InstructionIndex,
    ) -> Option<InstructionIndex> {
        let mut before = Vec::new();
        let (code, k) = match right {
            Number::Constant(value) => {
                number(left, self.free(), &mut before)?;
                (code, *value)
            }
            _ => {
                both(left, right, self.free(), &mut before)?;
                (code | FROM_X, 0)
            }
        };
        let holds = self.near(holds);
        let fails = self.near(fails);
        let (jt, jf) = (self.distance(holds), self.distance(fails));
        let jump = Instruction { code, jt: u8::try_from(jt).ok()?, jf: u8::try_from(jf).ok()?, k };
        self.push(jump);
        Some(self.push_all(before))
    }
}

/// Writes instructions that leave a number in A, in their order.
fn number(number: &Number, free: Free, to: &mut Vec<Instruction>) -> Option<()> {
    match number {
        Number::Constant(value) => to.push(Instruction::plain(LOAD_CONSTANT, *value)),
        Number::Length => to.push(Instruction::plain(LOAD_LENGTH, 0)),
        Number::Found(place) => to.push(Instruction::plain(LOAD_MEMORY, (*place).into())),
        Number::Ancillary(which) => to.push(Instruction::load_ancillary(*which)),
        Number::Load { base, index, size } => load(*base, index, width(*size)?, free, to)?,
        Number::Calculate { operator, left, right } => {
            let code = CALCULATE | code(*operator);
            let shifts = matches!(operator, Operator::Left | Operator::Right);
            match right.constant() {
                // The kernel refuses this shift: nothing is left.
                Some(bits) if shifts && bits >= u32::BITS => {
                    self::number(left, free, to)?;
                    to.push(Instruction::plain(CALCULATE | self::code(Operator::And), 0));
                }
                // No packet is left by this, and the kernel refuses it.
                Some(0) if matches!(operator, Operator::Divide | Operator::Remainder) => {
                    (free.target == Target::Interpreter).then_some(())?;
                    both(left, right, free, to)?;
                    to.push(Instruction::plain(code | FROM_X, 0));
                }
                Some(value) => {
                    self::number(left, free, to)?;
                    to.push(Instruction::plain(code, value));
                }
                // The kernel shifts by the lower bits of a number that is too large.
                _ if shifts && free.target == Target::Kernel => return None,
                _ => {
                    both(left, right, free, to)?;
                    to.push(Instruction::plain(code | FROM_X, 0));
                }
            }
        }
    }
    Some(())
}

/// Leaves one number in A and the other in X.
fn both(a: &Number, x: &Number, free: Free, to: &mut Vec<Instruction>) -> Option<()> {
    number(x, free, to)?;
    save(free, to)?;
    number(a, Free { from: free.from + 1, ..free }, to)?;
    to.push(Instruction::plain(LOAD_MEMORY_X, free.from));
    Some(())
}

fn save(free: Free, to: &mut Vec<Instruction>) -> Option<()> {
    to.push(Instruction::plain(STORE, free.from));
    (free.from < WORDS).then_some(())
}

fn load(
    base: Base,
    index: &Number,
    width: u16,
    free: Free,
    to: &mut Vec<Instruction>,
) -> Option<()> {
    // Places beyond any packet, which the kernel would count from elsewhere.
    let place = |at: u32| at.min(i32::MAX as u32);
    match (base, index) {
        (Base::At(Offset { from: None, at }), Number::Constant(index)) => {
            let at = place(at.saturating_add(*index));
            to.push(Instruction::plain(LOAD_ABSOLUTE | width, at));
        }
        (Base::At(Offset { from: None, at }), _) => {
            number(index, free, to)?;
            to.push(Instruction::plain(A_TO_X, 0));
            to.push(Instruction::plain(LOAD_INDEXED | width, at));
        }
        (Base::At(Offset { from: Some(found), at }), Number::Constant(index)) => {
            to.push(Instruction::plain(LOAD_MEMORY_X, found.into()));
            to.push(Instruction::plain(LOAD_INDEXED | width, at.wrapping_add(*index)));
        }
        (Base::At(Offset { from: Some(found), at }), _) => {
            number(index, free, to)?;
            to.push(Instruction::plain(LOAD_MEMORY_X, found.into()));
            to.push(Instruction::plain(CALCULATE | code(Operator::Add) | FROM_X, 0));
            to.push(Instruction::plain(A_TO_X, 0));
            to.push(Instruction::plain(LOAD_INDEXED | width, at));
        }
        // A number that stands for something negative leads into the header.
        (Base::BehindIpv4(offset), Number::Constant(index)) if *index <= u32::from(u16::MAX) => {
            behind_ipv4(offset, to);
            to.push(Instruction::plain(LOAD_INDEXED | width, place(offset.at + *index)));
        }
        (Base::BehindIpv4(offset), _) => {
            number(index, free, to)?;
            save(free, to)?;
            behind_ipv4(offset, to);
            to.push(Instruction::plain(X_TO_A, 0));
            to.push(Instruction::plain(LOAD_MEMORY_X, free.from));
            to.push(Instruction::plain(CALCULATE | code(Operator::Add) | FROM_X, 0));
            to.push(Instruction::plain(A_TO_X, 0));
            to.push(Instruction::plain(LOAD_INDEXED | width, offset.at));
        }
    }
    Some(())
}

/// Leaves in X the number to add to a place in front of an IPv4 header for the one behind it.
fn behind_ipv4(header: Offset, to: &mut Vec<Instruction>) {
    let Some(found) = header.from else {
        to.push(Instruction::plain(LOAD_HEADER_LENGTH_X, header.at));
        return;
    };
    to.push(Instruction::plain(LOAD_MEMORY_X, found.into()));
    to.push(Instruction::plain(LOAD_INDEXED | BYTE, header.at));
    to.push(Instruction::plain(CALCULATE | code(Operator::And), 15));
    to.push(Instruction::plain(CALCULATE | code(Operator::Left), 2));
    to.push(Instruction::plain(CALCULATE | code(Operator::Add) | FROM_X, 0));
    to.push(Instruction::plain(A_TO_X, 0));
}

/// Writes instructions that find the inside of a tunnel.
fn enter(tunnel: Tunnel, to: &mut Vec<Instruction>) {
    let [kind_at, link, payload] = [0, 1, 2].map(|place| u32::from(tunnel.first) + place);
    let calculate = |operator: Operator, k: u32| Instruction::plain(CALCULATE | code(operator), k);
    let add_x = Instruction::plain(CALCULATE | code(Operator::Add) | FROM_X, 0);
    let offset = match tunnel.udp {
        Base::At(offset) => {
            to.push(match offset.from {
                Some(found) => Instruction::plain(LOAD_MEMORY, found.into()),
                None => Instruction::plain(LOAD_CONSTANT, 0),
            });
            offset
        }
        Base::BehindIpv4(offset) => {
            behind_ipv4(offset, to);
            to.push(Instruction::plain(X_TO_A, 0));
            offset
        }
    };
    to.extend([
        // Its header is in X.
        calculate(Operator::Add, offset.at.wrapping_add(UDP_HEADER)),
        Instruction::plain(A_TO_X, 0),
        calculate(Operator::Add, 2),
        Instruction::plain(STORE, kind_at),
        // Its options are counted in words of four bytes.
        Instruction::plain(LOAD_INDEXED | BYTE, 0),
        calculate(Operator::And, 0x3f),
        calculate(Operator::Left, 2),
        calculate(Operator::Add, GENEVE_HEADER),
        add_x,
        Instruction::plain(STORE, link),
        Instruction::plain(LOAD_INDEXED | HALF, 2),
        Instruction::plain(LOAD_MEMORY_X, link),
        Instruction::skip(BRIDGED, 0, 5),
        Instruction::plain(X_TO_A, 0),
        calculate(Operator::Add, ETHERNET_TYPE),
        Instruction::plain(STORE, kind_at),
        calculate(Operator::Add, ETHERNET_HEADER - ETHERNET_TYPE),
        Instruction::plain(A_TO_X, 0),
        Instruction::plain(STORE_X, payload),
    ]);
}

fn width(size: usize) -> Option<u16> {
    match size {
        1 => Some(BYTE),
        2 => Some(HALF),
        4 => Some(WORD),
        _ => None,
    }
}

fn code(operator: Operator) -> u16 {
    match operator {
        Operator::Add => code::ADD,
        Operator::Subtract => code::SUBTRACT,
        Operator::Multiply => code::MULTIPLY,
        Operator::Divide => code::DIVIDE,
        Operator::Or => code::OR,
        Operator::And => code::AND,
        Operator::Left => code::LEFT,
        Operator::Right => code::RIGHT,
        Operator::Remainder => code::REMAINDER,
        Operator::Xor => code::XOR,
    }
}

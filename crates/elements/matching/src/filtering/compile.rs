//! Compiler from trees to formulas: tests of packets' words for primitives.

use super::{
    kind::{Sides, protocol},
    tree::{Comparison, Condition, Header, Primitive, Tree},
};
use crate::decision::{Formula, Headers, Test};

/// The word with the protocol, and where it is in it.
const PROTOCOL: usize = Headers::IP + 8;
const PROTOCOL_SHIFT: u32 = 16;
/// The word with the fragment's offset.
const FRAGMENT: usize = Headers::IP + 4;
const SOURCE: usize = Headers::IP + 12;
const DESTINATION: usize = Headers::IP + 16;
const PORTS: usize = Headers::TRANSPORT;
const TCP_FLAGS: usize = Headers::TRANSPORT + 12;

/// Returns the rank of a test: the protocol is tested early.
pub(super) fn place(offset: usize) -> usize {
    if offset == PROTOCOL { Headers::IP + 3 } else { offset }
}

/// Returns the condition of a tree.
pub(super) fn formula(tree: &Tree) -> Formula {
    let all = |parts: &[Tree]| parts.iter().map(formula).collect();
    match tree {
        Tree::Constant(true) => Formula::Test(Test::ALWAYS),
        Tree::Constant(false) => Formula::Not(Box::new(Formula::Test(Test::ALWAYS))),
        Tree::Primitive(primitive) => primitive_formula(primitive),
        Tree::Not(of) => Formula::Not(Box::new(formula(of))),
        Tree::All(parts) => Formula::All(all(parts)),
        Tree::Any(parts) => Formula::Any(all(parts)),
        Tree::Choose(parts) => Formula::Choose(all(parts)),
    }
}

fn primitive_formula(primitive: &Primitive) -> Formula {
    let Primitive { protocol, what, negated } = *primitive;
    let mut parts = Vec::new();
    parts.extend(protocol.map(one_of));
    let first_fragment = matches!(
        what,
        Condition::Port { .. }
            | Condition::TcpFlags(_)
            | Condition::Field { header: Header::Transport, .. }
    );
    if first_fragment {
        parts.push(test(FRAGMENT, 0x1fff, 0));
    }
    let rest = match what {
        Condition::Protocols(number) => one_of(number),
        Condition::ProtocolNumber(number) => compare(PROTOCOL, PROTOCOL_SHIFT, number),
        Condition::Host { sides, address, mask } => {
            on_sides(sides, || test(SOURCE, mask, address), || test(DESTINATION, mask, address))
        }
        Condition::Ethernet { sides, address, mask } => {
            on_sides(sides, || ethernet(8, address, mask), || ethernet(2, address, mask))
        }
        Condition::Port { sides, number } => {
            on_sides(sides, || compare(PORTS, 16, number), || compare(PORTS, 0, number))
        }
        Condition::TcpFlags(flags) => test(TCP_FLAGS, u32::from(flags) << 16, u32::MAX),
        Condition::Fragment => opposite(test(FRAGMENT, 0x3fff, 0)),
        Condition::Field { header, offset, length, value } => {
            let start = match header {
                Header::Network => Headers::IP,
                Header::Transport => Headers::TRANSPORT,
            };
            let word = (offset / 32 * 4) as usize;
            compare(start + word, 32 - (offset % 32 + length), value)
        }
    };
    parts.push(if negated { opposite(rest) } else { rest });
    Formula::All(parts)
}

fn test(offset: usize, mask: u32, value: u32) -> Formula {
    Formula::Test(Test::new(offset, mask, value))
}

/// Negates a formula for packets long enough; those too short do not fulfil the result either.
fn opposite(formula: Formula) -> Formula {
    Formula::NotIfWhole(Box::new(formula))
}

/// A protocol, or one of those a number beyond 255 stands for.
fn one_of(number: u32) -> Formula {
    let protocol = |number: u32| test(PROTOCOL, 0xff << PROTOCOL_SHIFT, number << PROTOCOL_SHIFT);
    match number {
        protocol::TCP_OR_UDP => {
            Formula::Any(vec![protocol(protocol::TCP), protocol(protocol::UDP)])
        }
        one @ ..256 => protocol(one),
        _ => Formula::EMPTY,
    }
}

fn on_sides(
    sides: Sides,
    source: impl Fn() -> Formula,
    destination: impl Fn() -> Formula,
) -> Formula {
    let mut parts = Vec::new();
    parts.extend(sides.source().then(source));
    parts.extend(sides.destination().then(destination));
    if sides == Sides::Either { Formula::Any(parts) } else { Formula::All(parts) }
}

/// The six bytes of an address at an offset, word by word.
fn ethernet(offset: usize, address: [u8; 6], mask: [u8; 6]) -> Formula {
    let first = offset & !3;
    let bytes_at = |from: usize, bytes: [u8; 6]| {
        u32::from_be_bytes(std::array::from_fn(|at| {
            (from + at).checked_sub(offset).and_then(|at| bytes.get(at)).copied().unwrap_or(0)
        }))
    };
    let word = |at: usize| test(at, bytes_at(at, mask), bytes_at(at, address));
    Formula::All(vec![word(first), word(first + 4)])
}

/// A condition on a number whose lowest bit has `shift` more behind it in the
/// word.
///
/// Greater than a value: bit by bit from the top, as long as the bits are those of
/// the value, it is decided where they differ. Bits of the value that are the same
/// one after the other are tested at once.
fn compare(offset: usize, shift: u32, number: Comparison) -> Formula {
    let Comparison { greater, mut value, mut mask } = number;
    if !greater {
        return test(offset, mask << shift, value << shift);
    }
    let mut parts = Vec::new();
    while value < mask {
        // The highest bits of the mask that the value has none of, or all.
        let ones = value > mask >> 1;
        let rest = if ones { !value.wrapping_add(1) & mask } else { value };
        let below = 32 - rest.leading_zeros();
        let upper = match rest {
            0 => mask,
            _ => mask & u32::MAX.checked_shl(below).unwrap_or(0),
        };
        let part = if ones {
            test(offset, upper << shift, upper << shift)
        } else {
            opposite(test(offset, upper << shift, 0))
        };
        parts.push((ones, part));
        mask &= !upper;
        value &= mask;
    }
    let mut rest: Option<Formula> = None;
    for (ones, part) in parts.into_iter().rev() {
        let both = [Some(part), rest.take()].into_iter().flatten().collect();
        rest = Some(if ones { Formula::All(both) } else { Formula::Any(both) });
    }
    rest.unwrap_or(Formula::EMPTY)
}

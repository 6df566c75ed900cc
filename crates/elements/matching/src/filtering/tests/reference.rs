//! Reference for trees on packets that are long enough, field by field.

use super::super::{
    kind::Sides,
    rules::Rule,
    tree::{Comparison, Condition, Header, Primitive, Tree},
};
use crate::decision::To;

/// The output of an Ethernet frame; the greatest number for none.
pub(super) fn output(rules: &[Rule], packet: &[u8]) -> u32 {
    let holds = |rule: &&Rule| rule.tree.as_ref().is_none_or(|tree| holds(tree, packet));
    match rules.iter().find(holds).map(|rule| rule.to) {
        Some(To::Output(output)) => output as u32,
        _ => u32::MAX,
    }
}

fn holds(tree: &Tree, packet: &[u8]) -> bool {
    match tree {
        Tree::Constant(answer) => *answer,
        Tree::Primitive(primitive) => fulfils(primitive, packet),
        Tree::Not(of) => !holds(of, packet),
        Tree::All(parts) => parts.iter().all(|part| holds(part, packet)),
        Tree::Any(parts) => parts.iter().any(|part| holds(part, packet)),
        Tree::Choose(parts) => match parts.as_slice() {
            [otherwise] => holds(otherwise, packet),
            [condition, then, ..] if holds(condition, packet) => holds(then, packet),
            [_, _, rest @ ..] => holds(&Tree::Choose(rest.to_vec()), packet),
            [] => true,
        },
    }
}

fn fulfils(primitive: &Primitive, packet: &[u8]) -> bool {
    let ip = &packet[14..];
    let transport = &ip[usize::from(ip[0] & 15) * 4..];
    let is_protocol = |number: u32| match number {
        256 => matches!(ip[9], 6 | 17),
        257.. => true,
        number => u32::from(ip[9]) == number,
    };
    let fragment = u16::from_be_bytes([ip[6], ip[7]]);
    let first_fragment = fragment & 0x1fff == 0;
    let port = |at: usize| u32::from(u16::from_be_bytes([transport[at], transport[at + 1]]));
    let address = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let on_sides = |sides: Sides, source: bool, destination: bool| match sides {
        Sides::Source => source,
        Sides::Destination => destination,
        Sides::Both => source && destination,
        Sides::Either => source || destination,
    };
    let of_transport = match primitive.what {
        Condition::Port { .. } | Condition::TcpFlags(_) => true,
        Condition::Field { header, .. } => header == Header::Transport,
        _ => false,
    };
    if !primitive.protocol.is_none_or(is_protocol) || of_transport && !first_fragment {
        return false;
    }
    let said = match primitive.what {
        Condition::Protocols(number) => is_protocol(number),
        Condition::ProtocolNumber(number) => compares(number, u32::from(ip[9])),
        Condition::Host { sides, address: wanted, mask } => {
            let is = |at: usize| address(at) & mask == wanted & mask;
            on_sides(sides, is(12), is(16))
        }
        Condition::Ethernet { sides, address: wanted, mask } => {
            let is = |at: usize| (0..6).all(|k| (packet[at + k] ^ wanted[k]) & mask[k] == 0);
            on_sides(sides, is(6), is(0))
        }
        Condition::Port { sides, number } => {
            on_sides(sides, compares(number, port(0)), compares(number, port(2)))
        }
        Condition::TcpFlags(flags) => transport[13] & flags == flags,
        Condition::Fragment => fragment & 0x3fff != 0,
        Condition::Field { header, offset, length, value } => {
            let bytes = if header == Header::Network { ip } else { transport };
            let bit = |at: u32| bytes[at as usize / 8] >> (7 - at % 8) & 1;
            let number = (offset..offset + length).fold(0, |n, at| n << 1 | u32::from(bit(at)));
            compares(value, number)
        }
    };
    said != primitive.negated
}

fn compares(with: Comparison, number: u32) -> bool {
    let number = number & with.mask;
    if with.greater { number > with.value } else { number == with.value & with.mask }
}

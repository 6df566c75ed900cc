//! Byte order of loads: those that leave their bytes as they lie in the packet.
//!
//! Packets have the highest byte first, x86-64 the lowest. Mostly a loaded value is only compared
//! for equality, or some of its bits are looked at: then the constant is swapped instead, when the
//! code is made.
//!
//! For programs whose jumps lead forward.

use crate::bpf::operation::{InstructionIndex, Operand, Operation, Operator, Relation, Width};

/// Byte order of the value of A in its register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As the processor calculates.
    Native,
    /// Its lower two bytes are turned round, and the others are 0.
    Half,
    /// Its four bytes are turned round.
    Word,
    /// Different on the paths to here: then the value is not used.
    Mixed,
}

impl Order {
    /// Swaps a number into this order; `None` when A cannot be that number.
    pub(super) fn turned(self, number: u32) -> Option<u32> {
        match self {
            Order::Half => Some(u16::try_from(number).ok()?.swap_bytes().into()),
            Order::Word => Some(number.swap_bytes()),
            Order::Native | Order::Mixed => Some(number),
        }
    }

    /// Swaps bits into this order, without those that A cannot have.
    pub(super) fn turned_bits(self, bits: u32) -> u32 {
        match self {
            Order::Half => (bits as u16).swap_bytes().into(),
            _ => self.turned(bits).unwrap_or(0),
        }
    }

    fn merged(self, other: Order) -> Order {
        if self == other { self } else { Order::Mixed }
    }
}

/// The order of A behind each instruction.
pub(super) fn orders(operations: &[Operation]) -> Vec<Order> {
    // Instructions that want A in the processor's order because it comes in several.
    let mut wants = vec![false; operations.len()];
    loop {
        let native = native(operations, &wants);
        let (orders, mixed) = forward(operations, &native);
        if mixed.is_empty() {
            return orders;
        }
        for at in mixed {
            wants[at] = true;
        }
    }
}

/// Returns true if an instruction may have A in any order. A conjunction leaves it in it.
fn takes_any(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Branch {
            relation: Relation::Equal | Relation::AnyBits,
            operand: Operand::Constant(_),
            ..
        } | Operation::Calculate(Operator::And, Operand::Constant(_))
    )
}

/// For each instruction, whether A has to be in the processor's order behind it.
fn native(operations: &[Operation], wants: &[bool]) -> Vec<bool> {
    let mut before = vec![false; operations.len()];
    let mut behind = vec![false; operations.len()];
    for (at, operation) in operations.iter().enumerate().rev() {
        behind[at] = operation.next(at as InstructionIndex).places().any(|to| before[to]);
        before[at] = match operation {
            _ if takes_any(*operation) => behind[at] || wants[at],
            _ if operation.reads_a() => true,
            _ => behind[at] && !operation.writes_a(),
        };
    }
    behind
}

/// The order of A behind each instruction, and the instructions that read it in several.
fn forward(operations: &[Operation], native: &[bool]) -> (Vec<Order>, Vec<usize>) {
    let mut before: Vec<Option<Order>> = vec![None; operations.len()];
    before[0] = Some(Order::Native);
    let mut behind = vec![Order::Native; operations.len()];
    let mut mixed = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let Some(here) = before[at] else { continue };
        if here == Order::Mixed && operation.reads_a() {
            mixed.push(at);
        }
        let after = match *operation {
            Operation::Load(Width::Half, _) | Operation::LoadBehind(Width::Half, _)
                if !native[at] =>
            {
                Order::Half
            }
            Operation::Load(Width::Word, _) | Operation::LoadBehind(Width::Word, _)
                if !native[at] =>
            {
                Order::Word
            }
            _ if takes_any(*operation) => here,
            _ if operation.writes_a() => Order::Native,
            _ => here,
        };
        behind[at] = after;
        for to in operation.next(at as InstructionIndex).places() {
            before[to] = Some(before[to].map_or(after, |there| there.merged(after)));
        }
    }
    (behind, mixed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::operation::Returned;

    fn branch(relation: Relation, yes: InstructionIndex, no: InstructionIndex) -> Operation {
        Operation::Branch { relation, operand: Operand::Constant(7), yes, no }
    }

    #[test]
    fn words_that_are_only_compared_stay_in_network_order() {
        let program = [
            Operation::Load(Width::Half, 12),
            branch(Relation::Equal, 3, 2),
            branch(Relation::AnyBits, 3, 3),
            Operation::Load(Width::Half, 20),
            branch(Relation::Greater, 5, 5),
            Operation::Return(Returned::Constant(0)),
        ];
        let orders = orders(&program);
        assert_eq!((orders[0], orders[3]), (Order::Half, Order::Native));
    }

    #[test]
    fn words_in_several_orders_are_swapped() {
        let program = [
            Operation::Load(Width::Half, 12),
            branch(Relation::Equal, 2, 3),
            Operation::Load(Width::Word, 20),
            branch(Relation::Equal, 4, 4),
            Operation::Return(Returned::Constant(0)),
        ];
        let orders = orders(&program);
        assert_eq!((orders[0], orders[2]), (Order::Native, Order::Native));
    }

    #[test]
    fn numbers_that_do_not_fit_are_never_there() {
        assert_eq!(Order::Half.turned(0x1234), Some(0x3412));
        assert_eq!(Order::Half.turned(0x1_0000), None);
        assert_eq!(Order::Half.turned_bits(0x1_0001), 0x100);
        assert_eq!(Order::Word.turned(1), Some(0x100_0000));
    }
}

//! Length checks of loads: the loads that need one, and the length each checks.
//!
//! A load beyond the end of a packet ends the program with 0. So where all paths lead to such
//! loads, or to 0 anyway, one check at the beginning does for all of them, with the same result. It
//! is found backwards: the bytes that *must* be there for any result but 0. Then, forwards, the
//! lengths that have been checked on all paths to a load. Both for offsets in the packet and for
//! offsets behind X, which begin anew whenever X changes.
//!
//! For programs whose jumps lead forward.

use super::operation::{InstructionIndex, Operation, Returned, Width};

/// Packets have at most so many bytes here; longer ones are for the portable form.
pub(super) const PACKET_MAX: u32 = i32::MAX as u32;

/// More bytes than any packet has: only 0 comes out from there.
pub(super) const NEVER: u32 = PACKET_MAX + 1;

/// Bytes of a packet, and bytes behind X.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    packet: u32,
    behind: u32,
}

const NOTHING: Reach = Reach { packet: 0, behind: 0 };
const ALL: Reach = Reach { packet: NEVER, behind: NEVER };

impl Reach {
    fn least(self, other: Reach) -> Reach {
        Reach { packet: self.packet.min(other.packet), behind: self.behind.min(other.behind) }
    }
}

/// Check before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoundsCheck {
    /// Nothing leads to it.
    Unreached,
    /// None is needed.
    Nothing,
    /// The packet has to have so many bytes.
    Packet(u32),
    /// There have to be so many bytes behind X.
    Behind(u32),
    /// Only 0 can come out.
    Never,
}

/// Finds out where to look.
pub(super) fn looks(operations: &[Operation]) -> Vec<BoundsCheck> {
    let needed = needed(operations);
    // Nothing is known yet of any instruction.
    let mut known: Vec<Option<Reach>> = vec![None; operations.len()];
    known[0] = Some(NOTHING);
    let mut looks = Vec::with_capacity(operations.len());
    for (at, operation) in operations.iter().enumerate() {
        let Some(mut here) = known[at] else {
            looks.push(BoundsCheck::Unreached);
            continue;
        };
        let look = match *operation {
            _ if needed[at].packet == NEVER => BoundsCheck::Never,
            Operation::Load(width, place) if here.packet < end(width, place) => {
                here.packet = needed[at].packet;
                BoundsCheck::Packet(here.packet)
            }
            Operation::HeaderLength(place) if here.packet < end(Width::Byte, place) => {
                here.packet = needed[at].packet;
                BoundsCheck::Packet(here.packet)
            }
            Operation::LoadBehind(width, place) if here.behind < end(width, place) => {
                here.behind = needed[at].behind;
                here.packet = here.packet.max(here.behind);
                BoundsCheck::Behind(here.behind)
            }
            _ => BoundsCheck::Nothing,
        };
        looks.push(look);
        if look == BoundsCheck::Never {
            continue;
        }
        if operation.writes_x() {
            here.behind = 0;
        }
        for to in operation.next(at as InstructionIndex).places() {
            known[to] = Some(known[to].map_or(here, |there| there.least(here)));
        }
    }
    looks
}

/// Bytes of a packet that have to be there before each instruction for any result but 0.
fn needed(operations: &[Operation]) -> Vec<Reach> {
    let mut needed = vec![NOTHING; operations.len()];
    for (at, operation) in operations.iter().enumerate().rev() {
        let next = operation.next(at as InstructionIndex).places().map(|to| needed[to]);
        let mut here = next.reduce(Reach::least).unwrap_or(match operation {
            Operation::Return(Returned::Constant(0)) => ALL,
            _ => NOTHING,
        });
        if operation.writes_x() && here.behind < NEVER {
            here.behind = 0;
        }
        match *operation {
            Operation::Load(width, place) => here.packet = here.packet.max(end(width, place)),
            Operation::HeaderLength(place) => {
                here.packet = here.packet.max(end(Width::Byte, place));
            }
            Operation::LoadBehind(width, place) => {
                here.behind = here.behind.max(end(width, place));
            }
            _ => {}
        }
        if here.packet == NEVER || here.behind == NEVER {
            here = ALL;
        }
        needed[at] = here;
    }
    needed
}

/// End of the bytes of a load.
fn end(width: Width, place: u32) -> u32 {
    place.saturating_add(width.bytes()).min(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::operation::{Operand, Register, Relation};

    const WANTED: Operation = Operation::Return(Returned::Constant(9));
    const REFUSED: Operation = Operation::Return(Returned::Constant(0));

    fn equal(constant: u32, yes: InstructionIndex, no: InstructionIndex) -> Operation {
        Operation::Branch {
            relation: Relation::Equal,
            operand: Operand::Constant(constant),
            yes,
            no,
        }
    }

    #[test]
    fn one_look_does_for_all_that_follows() {
        let program = [
            Operation::Load(Width::Half, 12),
            equal(0x800, 2, 5),
            Operation::Load(Width::Byte, 23),
            equal(6, 4, 5),
            WANTED,
            REFUSED,
        ];
        let mut expected = [BoundsCheck::Nothing; 6];
        expected[0] = BoundsCheck::Packet(24);
        expected[5] = BoundsCheck::Never;
        assert_eq!(looks(&program), expected);
    }

    #[test]
    fn nothing_is_asked_for_that_one_way_does_without() {
        let program = [
            Operation::Load(Width::Half, 12),
            equal(0x800, 2, 4),
            Operation::Load(Width::Byte, 23),
            equal(6, 4, 5),
            WANTED,
            REFUSED,
        ];
        assert_eq!(
            looks(&program)[..3],
            [BoundsCheck::Packet(14), BoundsCheck::Nothing, BoundsCheck::Packet(24)]
        );
    }

    #[test]
    fn a_new_x_is_looked_behind_anew() {
        let program = [
            Operation::HeaderLength(14),
            Operation::LoadBehind(Width::Half, 14),
            Operation::LoadBehind(Width::Half, 16),
            Operation::AToX,
            Operation::LoadBehind(Width::Byte, 0),
            Operation::Return(Returned::A),
        ];
        let expected = [
            BoundsCheck::Packet(15),
            BoundsCheck::Behind(18),
            BoundsCheck::Nothing,
            BoundsCheck::Nothing,
            BoundsCheck::Behind(1),
            BoundsCheck::Nothing,
        ];
        assert_eq!(looks(&program), expected);
    }

    #[test]
    fn loads_beyond_every_packet_never_succeed() {
        let program = [
            Operation::Constant(Register::A, 1),
            Operation::Load(Width::Word, PACKET_MAX - 3),
            Operation::Load(Width::Word, u32::MAX),
            WANTED,
        ];
        assert_eq!(looks(&program)[0], BoundsCheck::Never);
        assert_eq!(looks(&program)[1], BoundsCheck::Unreached);
        let last = [Operation::Load(Width::Word, PACKET_MAX - 4), WANTED];
        assert_eq!(looks(&last)[0], BoundsCheck::Packet(PACKET_MAX));
    }
}

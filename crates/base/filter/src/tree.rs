//! Tree of an expression: its conditions on a packet.

use super::{
    chain::Chain,
    offset_slots::{Metadata, NoMetadata, Offset},
};

/// A condition. Parts are looked at from left to right, as far as needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Constant(bool),
    Not(Box<Tree>),
    All(Vec<Tree>),
    Any(Vec<Tree>),
    Compare {
        relation: Relation,
        left: Number,
        right: Number,
    },
    /// Holds, and notes where the inside of a tunnel begins.
    Enter(Tunnel),
    /// Holds, and moves a place that was found behind a VLAN tag.
    PassTag(u8),
    /// Whether a header is in the chain of those behind an IP header.
    Chain(Chain),
}

/// A header of Geneve in UDP in IP (RFC 8926).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tunnel {
    /// Start of the UDP header.
    pub(super) udp: Base,
    /// The number of the first of three places: of the type of the inner packet, of its link's
    /// header, and of the end of that. Without such a header the latter two are the same.
    pub(super) first: u8,
}

/// Bytes of a UDP header, of a Geneve header without its options, and of an Ethernet header up to
/// the type and as a whole; and the type that stands for Ethernet frames.
pub(super) const UDP_HEADER: u32 = 8;
pub(super) const GENEVE_HEADER: u32 = 8;
pub(super) const ETHERNET_TYPE: u32 = 12;
pub(super) const ETHERNET_HEADER: u32 = 14;
pub(super) const BRIDGED: u32 = 0x6558;
/// Bytes of a VLAN tag.
pub(super) const VLAN_TAG_LENGTH: u32 = 4;

/// A number of 32 bits found out about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Number {
    Constant(u32),
    /// The length of the packet.
    Length,
    /// A place that was found.
    Found(u8),
    /// Metadata of a packet: an ancillary load, as
    /// [`VLAN_TAG`](crate::code::VLAN_TAG).
    Ancillary(u32),
    Load {
        base: Base,
        index: Box<Number>,
        /// Bytes: 1, 2 or 4.
        size: usize,
    },
    Calculate {
        operator: Operator,
        left: Box<Number>,
        right: Box<Number>,
    },
}

/// Base of the offset of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// A place in the packet.
    At(Offset),
    /// The end of the IPv4 header that begins there.
    BehindIpv4(Offset),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    Unequal,
    Greater,
    AtLeast,
    Less,
    AtMost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
    Left,
    Right,
}

impl Tree {
    /// Returns true if it holds; `None` when the packet is too short to say.
    pub(super) fn holds(&self, packet: &[u8], metadata: impl Metadata) -> Option<bool> {
        match self {
            Tree::Constant(value) => Some(*value),
            Tree::Not(of) => of.holds(packet, metadata).map(|holds| !holds),
            Tree::All(parts) => {
                for part in parts {
                    if !part.holds(packet, metadata)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Tree::Any(parts) => {
                for part in parts {
                    if part.holds(packet, metadata)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Tree::Compare { relation, left, right } => {
                let (left, right) =
                    (left.evaluate(packet, metadata)?, right.evaluate(packet, metadata)?);
                Some(match relation {
                    Relation::Equal => left == right,
                    Relation::Unequal => left != right,
                    Relation::Greater => left > right,
                    Relation::AtLeast => left >= right,
                    Relation::Less => left < right,
                    Relation::AtMost => left <= right,
                })
            }
            Tree::Enter(tunnel) => tunnel.enter(packet, metadata).map(|()| true),
            Tree::PassTag(place) => {
                metadata.found(*place, metadata.place(*place).wrapping_add(VLAN_TAG_LENGTH));
                Some(true)
            }
            Tree::Chain(chain) => chain.holds(packet),
        }
    }

    /// A number of some bytes at a place, of which the bits in `mask` count,
    /// is `value`.
    pub(super) fn equal(at: Offset, size: usize, mask: u32, value: u32) -> Tree {
        Number::load(Base::At(at), size).masked(mask).is(Relation::Equal, value)
    }
}

impl Tunnel {
    /// Finds its inside; `None` when the packet is too short to say.
    fn enter(self, packet: &[u8], metadata: impl Metadata) -> Option<()> {
        let header = self.udp.place(packet, metadata)?.checked_add(UDP_HEADER)?;
        let load = |at: u32, size| bytes(packet, at, size);
        let options = (load(header, 1)? & 0x3f) * 4;
        let kind = load(header.checked_add(2)?, 2)?;
        // No overflow: the header is in the packet.
        let link = header + GENEVE_HEADER + options;
        let (kind_at, payload) = match kind {
            BRIDGED => (link + ETHERNET_TYPE, link + ETHERNET_HEADER),
            _ => (header + 2, link),
        };
        for (number, at) in (self.first..).zip([kind_at, link, payload]) {
            metadata.found(number, at);
        }
        Some(())
    }
}

impl Number {
    /// Some bytes.
    pub(super) fn load(base: Base, size: usize) -> Number {
        Number::load_at(base, 0, size)
    }

    /// Some bytes so far behind.
    pub(super) fn load_at(base: Base, offset: u32, size: usize) -> Number {
        Number::Load { base, index: Box::new(Number::Constant(offset)), size }
    }

    /// Some of its bits.
    pub(super) fn masked(self, mask: u32) -> Number {
        match mask {
            u32::MAX => self,
            mask => Number::calculate(Operator::And, self, Number::Constant(mask)),
        }
    }

    pub(super) fn calculate(operator: Operator, left: Number, right: Number) -> Number {
        Number::Calculate { operator, left: Box::new(left), right: Box::new(right) }
    }

    pub(super) fn is(self, relation: Relation, value: u32) -> Tree {
        Tree::Compare { relation, left: self, right: Number::Constant(value) }
    }

    /// Its value, if it is equal for every packet and known beforehand.
    pub(super) fn constant(&self) -> Option<u32> {
        match self {
            Number::Constant(value) => Some(*value),
            Number::Calculate { left, right, .. } => {
                left.constant().and(right.constant()).and_then(|_| self.evaluate(&[], NoMetadata))
            }
            Number::Length | Number::Found(_) | Number::Ancillary(_) | Number::Load { .. } => None,
        }
    }

    /// The value of its first load, if that is a constant: libpcap takes it for the number when it
    /// looks for divisors and shifts that cannot be.
    pub(super) fn first_constant(&self) -> Option<u32> {
        match self {
            Number::Constant(value) => Some(*value),
            Number::Length | Number::Found(_) | Number::Ancillary(_) => None,
            Number::Load { index, .. } => index.first_constant(),
            Number::Calculate { left, .. } => left.first_constant(),
        }
    }

    pub(super) fn evaluate(&self, packet: &[u8], metadata: impl Metadata) -> Option<u32> {
        match self {
            Number::Constant(value) => Some(*value),
            Number::Length => Some(metadata.length(packet)),
            Number::Found(number) => Some(metadata.place(*number)),
            Number::Ancillary(which) => Some(metadata.ancillary(*which)),
            Number::Load { base, index, size } => {
                let index = index.evaluate(packet, metadata)?;
                bytes(packet, base.place_behind(index, packet, metadata)?, *size)
            }
            Number::Calculate { operator, left, right } => {
                let (left, right) =
                    (left.evaluate(packet, metadata)?, right.evaluate(packet, metadata)?);
                match operator {
                    Operator::Add => Some(left.wrapping_add(right)),
                    Operator::Subtract => Some(left.wrapping_sub(right)),
                    Operator::Multiply => Some(left.wrapping_mul(right)),
                    Operator::Divide => left.checked_div(right),
                    Operator::Remainder => left.checked_rem(right),
                    Operator::And => Some(left & right),
                    Operator::Or => Some(left | right),
                    Operator::Xor => Some(left ^ right),
                    Operator::Left => Some(left.checked_shl(right).unwrap_or(0)),
                    Operator::Right => Some(left.checked_shr(right).unwrap_or(0)),
                }
            }
        }
    }
}

impl Base {
    /// Offset of it in a packet.
    fn place(self, packet: &[u8], metadata: impl Metadata) -> Option<u32> {
        self.place_behind(0, packet, metadata)
    }

    /// Offset `index` bytes behind it. Numbers that stand for something negative lead to before it
    /// as far as libpcap's programs have them do so: where they add them to a value they have found
    /// in the packet.
    fn place_behind<K: Metadata>(self, index: u32, packet: &[u8], metadata: K) -> Option<u32> {
        match self {
            Base::At(offset) if K::FINDS && offset.from.is_some() => {
                Some(offset.resolve(metadata).wrapping_add(index))
            }
            Base::At(offset) => index.checked_add(offset.at),
            Base::BehindIpv4(offset) => {
                let start = offset.resolve(metadata);
                let length = (bytes(packet, start, 1)? & 15) * 4;
                index.wrapping_add(length).checked_add(start)
            }
        }
    }
}

/// A number of some bytes at a place; `None` behind the packet's end.
fn bytes(packet: &[u8], at: u32, size: usize) -> Option<u32> {
    let bytes = packet.get(at as usize..)?.get(..size)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

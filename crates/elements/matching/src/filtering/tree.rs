//! Expressions as trees of primitives.

use super::kind::Sides;

/// A condition on packets, as written. Empty parts do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Constant(bool),
    Primitive(Primitive),
    Not(Box<Tree>),
    All(Vec<Tree>),
    Any(Vec<Tree>),
    /// A condition, a tree for packets that fulfil it, another condition, and so on; the last tree
    /// is for the rest.
    Choose(Vec<Tree>),
}

/// Something true of a packet. A packet that is of another protocol, or too short,
/// or a later fragment where that matters, does not fulfil it, even if it is
/// negated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Primitive {
    /// The protocol packets must have; one beyond 255 stands for several.
    pub(super) protocol: Option<u32>,
    pub(super) what: Condition,
    /// Set if `what` is negated for packets of the protocol.
    pub(super) negated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// One of the protocols that number stands for.
    Protocols(u32),
    /// The number of the protocol.
    ProtocolNumber(Comparison),
    Host {
        sides: Sides,
        address: u32,
        mask: u32,
    },
    Ethernet {
        sides: Sides,
        address: [u8; 6],
        mask: [u8; 6],
    },
    Port {
        sides: Sides,
        number: Comparison,
    },
    TcpFlags(u8),
    Fragment,
    Field {
        header: Header,
        offset: u32,
        length: u32,
        value: Comparison,
    },
}

/// The header a field is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Network,
    Transport,
}

/// A condition on a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Greater than the value; else equal to it.
    pub(super) greater: bool,
    pub(super) value: u32,
    /// The bits of the number that count.
    pub(super) mask: u32,
}

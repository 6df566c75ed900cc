//! Actions on packets that match.
//!
//! One list is for all versions. Actions that differ between versions in their encoding alone are
//! one action here: OpenFlow 1.0's `SET_DL_SRC`, a set-field and Nicira's `SET_TUNNEL` are all a
//! [`Action::SetField`]. Those that differ in meaning are several: OpenFlow 1.0 adds a tag where
//! there is none to set the number of ([`Action::SetVlanVid`]), and sets ports of any transport
//! protocol ([`Action::SetTpSrc`]).

mod connection;
mod controller;
mod learn;
mod nicira;
mod standard;

pub use connection::{Ct, Nat, NatAddresses, NatFlags, Zone};
pub use controller::Controller;
pub use learn::{Learn, LearnDestination, LearnFlags, LearnSource, LearnSpec};
pub use nicira::{Bundle, Encap, EncapProperty, Multipath, Sample};

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::field::Field;
use super::oxm::Entry;
use super::packet_type::PacketType;
use super::port_number::PortNumber;
use super::subfield::Subfield;
use super::unencodable::Unencodable;
use super::version::Version;

/// Depth of nested actions (`clone`, `ct`) at most: real ones have less, and reading them is
/// recursive.
const DEPTH: u8 = 16;

/// The type of actions of experimenters.
const EXPERIMENTER: u16 = 0xffff;

/// Something to do with a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends the packet to a port.
    Output {
        /// Destination.
        port: PortNumber,
        /// Bytes of the packet for controllers; `0xffff` is all.
        max_len: u16,
    },
    /// Sends the packet to a queue of a port (OpenFlow 1.0).
    Enqueue {
        /// Destination.
        port: PortNumber,
        /// By which queue.
        queue: u32,
    },
    /// Lets a group decide.
    Group(u32),
    /// Chooses a queue for later outputs.
    SetQueue(u32),
    /// Forgets the queue again (Nicira).
    PopQueue,
    /// Lets a meter decide (OpenFlow 1.5, where it is no instruction).
    Meter(u32),
    /// Sets a field, or bits of it.
    SetField(Entry),
    /// Sets bits of a field (Nicira); said as a set-field in OpenFlow 1.5.
    Load {
        /// Bits to set.
        destination: Subfield,
        /// Their value.
        value: u64,
    },
    /// Copies bits of a field to another, which are as many.
    Move {
        /// Bits to copy.
        source: Subfield,
        /// Bits to set.
        destination: Subfield,
    },
    /// Sets the number of the VLAN, in a new tag where there is none (OpenFlow 1.0).
    SetVlanVid(u16),
    /// Sets the priority in the tag, in a new one where there is none (OpenFlow 1.0).
    SetVlanPcp(u8),
    /// Sets the source port of any transport protocol (OpenFlow 1.0).
    SetTpSrc(u16),
    /// Sets the destination port of any transport protocol (OpenFlow 1.0).
    SetTpDst(u16),
    /// Adds a tag of this type.
    PushVlan(u16),
    /// Takes the outer tag away.
    PopVlan,
    /// Adds a label; the type of Ethernet becomes this.
    PushMpls(u16),
    /// Takes the outer label away; the type of Ethernet becomes this.
    PopMpls(u16),
    /// Adds a tag of provider backbone bridging, of this type.
    PushPbb(u16),
    /// Takes it away.
    PopPbb,
    /// Copies the time to live outwards.
    CopyTtlOut,
    /// Copies the time to live inwards.
    CopyTtlIn,
    /// Sets the label's time to live.
    SetMplsTtl(u8),
    /// Counts the label's time to live down.
    DecMplsTtl,
    /// Sets IP's time to live.
    SetIpTtl(u8),
    /// Counts IP's time to live down.
    DecIpTtl,
    /// Counts it down, and tells controllers with these identifiers when it ends (Nicira).
    DecIpTtlFor(Vec<u16>),
    /// Sends the packet to controllers, saying more than [`Action::Output`] can (Nicira).
    Controller(Box<Controller>),
    /// Looks the packet up again (Nicira).
    Resubmit {
        /// As if it came from here; `IN_PORT` leaves the port as it is.
        port: PortNumber,
        /// In which table; 255 is the one it is in.
        table: u8,
        /// With source and destination of the connection's first packet.
        original: bool,
    },
    /// Writes the metadata that go with the packet (Nicira; an instruction since OpenFlow 1.1).
    WriteMetadata {
        /// Bits to write.
        value: u64,
        /// Bits that are written.
        mask: u64,
    },
    /// Does nothing, and is kept (Nicira).
    Note(Vec<u8>),
    /// Puts a number that depends on the flow into a field (Nicira).
    Multipath(Multipath),
    /// Chooses a port of several (Nicira).
    Bundle(Box<Bundle>),
    /// Sends the packet to the port a field names (Nicira).
    OutputField {
        /// The field.
        source: Subfield,
        /// Bytes of the packet, when that is the port of the controllers.
        max_len: u16,
    },
    /// Sends the first bytes of the packet to a port (Nicira).
    OutputTruncated {
        /// Destination.
        port: PortNumber,
        /// Bytes of the packet.
        max_len: u32,
    },
    /// Makes a flow of the packet (Nicira).
    Learn(Box<Learn>),
    /// Ends here (Nicira).
    Exit,
    /// Shortens the flow's time-outs when a connection of TCP ends (Nicira).
    FinTimeout {
        /// Without packets, in seconds; 0 leaves it.
        idle: u16,
        /// In any case, in seconds; 0 leaves it.
        hard: u16,
    },
    /// Puts bits of a field on a stack (Nicira).
    StackPush(Subfield),
    /// Takes them from it (Nicira).
    StackPop(Subfield),
    /// Makes flow records of some packets (Nicira).
    Sample(Sample),
    /// This flow is a part of a match in several dimensions (Nicira).
    Conjunction {
        /// Of which, which flows match by `conj_id`.
        id: u32,
        /// Number of its dimension, from 0 on.
        clause: u8,
        /// Number of dimensions, 2 to 64.
        clauses: u8,
    },
    /// Has the packet's connection looked up (Nicira).
    Ct(Box<Ct>),
    /// Translates addresses, inside of [`Action::Ct`] (Nicira).
    Nat(Box<Nat>),
    /// Forgets the packet's connection (Nicira).
    CtClear,
    /// Does this with a copy (Nicira).
    Clone(Vec<Action>),
    /// Whether the packet is longer than this goes into a bit (Nicira).
    CheckLarger {
        /// In bytes.
        length: u16,
        /// The bit.
        destination: Subfield,
    },
    /// Decrements the time to live of the network service header (Nicira).
    DecNshTtl,
    /// Adds a header in front of all others (Nicira).
    Encap(Encap),
    /// Takes the first header away; the packet then is of this type (Nicira).
    Decap(PacketType),
}

impl Action {
    /// Returns true if it can be among the actions done at the end, which have an order of their
    /// own: actions that depend on their place cannot.
    #[must_use]
    pub fn fits_a_set(&self) -> bool {
        match self {
            Action::Output { .. }
            | Action::Group(_)
            | Action::SetQueue(_)
            | Action::SetField(_)
            | Action::Load { .. }
            | Action::Move { .. }
            | Action::SetVlanVid(_)
            | Action::SetVlanPcp(_)
            | Action::SetTpSrc(_)
            | Action::SetTpDst(_)
            | Action::PushVlan(_)
            | Action::PopVlan
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::PushPbb(_)
            | Action::PopPbb
            | Action::CopyTtlOut
            | Action::CopyTtlIn
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::SetIpTtl(_)
            | Action::DecIpTtl
            | Action::DecIpTtlFor(_)
            | Action::Resubmit { .. }
            | Action::Ct(_)
            | Action::CtClear
            | Action::DecNshTtl
            | Action::Encap(_)
            | Action::Decap(_)
            | Action::Meter(_) => true,
            Action::Enqueue { .. }
            | Action::PopQueue
            | Action::Controller(_)
            | Action::WriteMetadata { .. }
            | Action::Note(_)
            | Action::Multipath(_)
            | Action::Bundle(_)
            | Action::OutputField { .. }
            | Action::OutputTruncated { .. }
            | Action::Learn(_)
            | Action::Exit
            | Action::FinTimeout { .. }
            | Action::StackPush(_)
            | Action::StackPop(_)
            | Action::Sample(_)
            | Action::Conjunction { .. }
            | Action::Nat(_)
            | Action::Clone(_)
            | Action::CheckLarger { .. } => false,
        }
    }
}

/// List or action that contains actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnclosingAction {
    /// In a flow, a bucket or a packet-out.
    Nothing,
    /// In [`Action::Ct`].
    Ct,
    /// In [`Action::Clone`].
    Clone,
}

/// Context of reading actions.
#[derive(Debug, Clone, Copy)]
struct ActionContext {
    version: Version,
    enclosing: EnclosingAction,
    depth: u8,
}

impl ActionContext {
    fn deeper(self, enclosing: EnclosingAction) -> Result<ActionContext, Fault> {
        if self.depth == DEPTH {
            return Err(Fault::TooManyActions);
        }
        Ok(ActionContext { version: self.version, enclosing, depth: self.depth + 1 })
    }
}

/// Reads actions up to the end of `reader`.
pub(crate) fn decode_list(reader: Reader<'_>, version: Version) -> Result<Vec<Action>, Fault> {
    decode_inside(reader, ActionContext { version, enclosing: EnclosingAction::Nothing, depth: 0 })
}

fn decode_inside(reader: Reader<'_>, context: ActionContext) -> Result<Vec<Action>, Fault> {
    let mut reader = reader.with_fault(Fault::ActionBadLength);
    let mut actions = Vec::new();
    while !reader.is_empty() {
        let mut header = reader;
        let (kind, length) = (header.u16()?, usize::from(header.u16()?));
        if length < 8 || length % 8 != 0 {
            return Err(Fault::ActionBadLength);
        }
        let mut body = reader.part(length)?;
        body.skip(4)?;
        let action = if kind == EXPERIMENTER {
            nicira::decode(body, context)?
        } else {
            standard::decode(kind, body, context.version)?
        };
        check_place(&action, context.enclosing)?;
        actions.push(action);
    }
    check_conjunctions(&actions)?;
    Ok(actions)
}

/// Checks that an action is allowed in its place.
fn check_place(action: &Action, enclosing: EnclosingAction) -> Result<(), Fault> {
    let set = match action {
        Action::SetField(entry) => Some(entry.field()),
        Action::Load { destination, .. } | Action::Move { destination, .. } => {
            Some(destination.field())
        }
        _ => None,
    };
    let of_connection = matches!(set, Some(Field::CtMark | Field::CtLabel));
    let translation = matches!(action, Action::Nat(_));
    match enclosing {
        EnclosingAction::Ct if translation || of_connection => Ok(()),
        EnclosingAction::Ct => Err(Fault::ActionBadArgument),
        _ if translation || of_connection => Err(Fault::BadSetArgument),
        _ => Ok(()),
    }
}

/// A conjunction stands alone, but for others and notes.
fn check_conjunctions(actions: &[Action]) -> Result<(), Fault> {
    let conjunction = |action: &Action| matches!(action, Action::Conjunction { .. });
    let beside = |action: &Action| !conjunction(action) && !matches!(action, Action::Note(_));
    if actions.iter().any(conjunction) && actions.iter().any(beside) {
        return Err(Fault::BadConjunction);
    }
    Ok(())
}

/// Writes actions.
pub(crate) fn encode_list(
    actions: &[Action],
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    actions.iter().try_for_each(|action| {
        if !standard::encode(action, version, out)? {
            nicira::encode(action, version, out)?;
        }
        Ok(())
    })
}

/// Writes an action of the specification: its header, the bytes of `body`, and padding.
fn write(
    out: &mut Writer,
    kind: u16,
    body: impl FnOnce(&mut Writer) -> Result<(), Unencodable>,
) -> Result<(), Unencodable> {
    let start = out.len();
    out.u16(kind);
    out.u16(0);
    body(out)?;
    out.pad(start);
    out.length(start + 2, start)
}

//! Nicira's actions, which Open vSwitch documents in ovs-actions(7), and ONF's copy-field for 1.3.

mod decode;
mod encap;
mod encode;

pub(super) use decode::decode;
pub use encap::{Encap, EncapProperty};
pub(super) use encode::{encode, write_nicira};

use crate::wire::port_number::PortNumber;
use crate::wire::subfield::Subfield;

/// The header of Nicira's field for input ports, which bundles have as the type of members.
const MEMBER_TYPE: u32 = 0x0000_0002;

/// A number that depends on the flow (`multipath`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Multipath {
    /// Fields that make a flow.
    pub fields: u16,
    /// Basis of their hash.
    pub basis: u16,
    /// Mapping of the hash to a number.
    pub algorithm: u16,
    /// The greatest number.
    pub max_link: u16,
    /// An argument of the algorithm.
    pub argument: u32,
    /// Destination of the number.
    pub destination: Subfield,
}

/// A port of several (`bundle`, `bundle_load`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bundle {
    /// Selection: 0 the first that is up, 1 by highest random weight.
    pub algorithm: u16,
    /// Fields that make a flow.
    pub fields: u16,
    /// Basis of their hash.
    pub basis: u16,
    /// The ports.
    pub members: Vec<PortNumber>,
    /// Destination of the port's number; without it, the packet goes to the port.
    pub destination: Option<Subfield>,
}

/// Flow records of some packets (`sample`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Of 65,535 packets how many.
    pub probability: u16,
    /// Set of collectors.
    pub collector_set: u32,
    /// The observation domain of records.
    pub domain: u32,
    /// The observation point of records.
    pub point: u32,
    /// The port packets are sampled at; `ANY` is none.
    pub port: PortNumber,
    /// 0 not said, 1 as they come in, 2 as they go out.
    pub direction: u8,
}

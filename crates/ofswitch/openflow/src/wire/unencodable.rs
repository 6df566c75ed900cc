//! Errors of messages that a version of the protocol lacks.

use super::field::Field;
use super::port_number::PortNumber;

/// Why a message cannot be written in the version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unencodable {
    /// It is too long for the length in its header, or a part is.
    #[error("longer than 65,535 bytes")]
    TooLong,
    /// The version lacks such a message, action, instruction or field.
    #[error("{0} cannot be said in this version of OpenFlow")]
    Absent(&'static str),
    /// The version's match has no such field, or not with such a mask.
    #[error("the field {} cannot be matched so in this version of OpenFlow", .0.name())]
    Field(Field),
    /// OpenFlow 1.0 has port numbers of 16 bits.
    #[error("port {0} has no number in this version of OpenFlow")]
    Port(PortNumber),
}

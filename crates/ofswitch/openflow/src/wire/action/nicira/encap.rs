//! `encap` and its properties, which only network service headers have.
//!
//! Sources: Open vSwitch's `ofp-ed-props.h` for messages, RFC 8300 section 2.5 for packets.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::packet_type::PacketType;
use crate::wire::unencodable::Unencodable;

/// Property class of network service headers.
const NSH: u16 = 4;
/// Property of the type of metadata.
const MD_TYPE: u8 = 1;
/// Its length.
const MD_TYPE_BYTES: u8 = 5;
/// Property of a piece of metadata.
const TLV: u8 = 2;
/// Length of a property's header.
const HEADER: usize = 4;
/// Length of a piece's class, type and length.
const TLV_HEADER: usize = 4;
/// Longest metadata: the header's length has six bits, in words, and counts two words before them.
const MOST: usize = 4 * 63 - 8;
/// Length of metadata of type 1: four words of context.
const CONTEXT: usize = 16;

/// A header to add (`encap`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Encap {
    /// The header's type, which becomes the packet type.
    pub packet_type: PacketType,
    /// Length of the header in bytes; 0 leaves it open.
    pub size: u16,
    /// Properties; empty for other headers than network service headers.
    pub properties: Vec<EncapProperty>,
}

/// A property of a network service header to add.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EncapProperty {
    /// Type of metadata: 1 for four words of context, 2 for any pieces.
    NshMdType(u8),
    /// A piece of metadata; ignored with metadata of type 1.
    NshTlv {
        /// Class of the type.
        class: u16,
        /// Type of the piece.
        kind: u8,
        /// Value, of at most 127 bytes.
        value: Vec<u8>,
    },
}

impl EncapProperty {
    /// Longest value of a piece of metadata, in bytes: the length has seven bits.
    pub const NSH_TLV_LONGEST: usize = 127;

    /// Returns true if a header can have the property.
    fn is_valid(&self) -> bool {
        match self {
            EncapProperty::NshMdType(kind) => matches!(kind, 1 | 2),
            EncapProperty::NshTlv { value, .. } => value.len() <= EncapProperty::NSH_TLV_LONGEST,
        }
    }

    /// Length of the metadata that the property becomes.
    fn metadata_bytes(&self) -> usize {
        match self {
            EncapProperty::NshMdType(_) => 0,
            EncapProperty::NshTlv { value, .. } => TLV_HEADER + value.len().next_multiple_of(4),
        }
    }
}

impl Encap {
    /// A header whose length follows from its type, without properties.
    #[must_use]
    pub const fn new(packet_type: PacketType) -> Encap {
        Encap { packet_type, size: 0, properties: Vec::new() }
    }

    /// Returns true if the header can have the properties, all together.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let all = &self.properties;
        (all.is_empty() || self.packet_type == PacketType::NSH)
            && all.iter().all(EncapProperty::is_valid)
            && all.iter().map(EncapProperty::metadata_bytes).sum::<usize>() <= MOST
    }

    /// Type of a network service header's metadata: that of the last such property, or 1.
    #[must_use]
    pub fn nsh_md_type(&self) -> u8 {
        let last = self.properties.iter().rev().find_map(|property| match property {
            EncapProperty::NshMdType(kind) => Some(*kind),
            EncapProperty::NshTlv { .. } => None,
        });
        last.unwrap_or(1)
    }

    /// Metadata of a network service header as in a packet, a multiple of four bytes.
    #[must_use]
    pub fn nsh_metadata(&self) -> Vec<u8> {
        if self.nsh_md_type() == 1 {
            return vec![0; CONTEXT];
        }
        let mut metadata = Vec::new();
        for property in &self.properties {
            let EncapProperty::NshTlv { class, kind, value } = property else { continue };
            metadata.extend(class.to_be_bytes());
            metadata.extend([*kind, value.len() as u8]);
            metadata.extend(value);
            metadata.resize(metadata.len().next_multiple_of(4), 0);
        }
        metadata
    }
}

/// Reads properties up to the end of an action.
pub(super) fn decode_properties(
    packet_type: PacketType,
    mut body: Reader<'_>,
) -> Result<Vec<EncapProperty>, Fault> {
    let mut encap = Encap::new(packet_type);
    while !body.is_empty() {
        let mut header = body;
        let (class, kind, length) = (header.u16()?, header.u8()?, usize::from(header.u8()?));
        if length < HEADER {
            return Err(Fault::ActionBadLength);
        }
        let mut value = body.part(length.next_multiple_of(8))?;
        value.skip(HEADER)?;
        if packet_type != PacketType::NSH || class != NSH {
            return Err(Fault::UnknownEncapProperty);
        }
        encap.properties.push(match kind {
            MD_TYPE => decode_md_type(value, length)?,
            TLV => decode_tlv(value, length)?,
            _ => return Err(Fault::UnknownEncapProperty),
        });
    }
    if encap.is_valid() { Ok(encap.properties) } else { Err(Fault::BadEncapProperty) }
}

/// Reads a type of metadata, whose length may count padding.
fn decode_md_type(mut value: Reader<'_>, length: usize) -> Result<EncapProperty, Fault> {
    let kind = value.u8()?;
    if !(usize::from(MD_TYPE_BYTES)..=8).contains(&length) {
        return Err(Fault::BadEncapProperty);
    }
    Ok(EncapProperty::NshMdType(kind))
}

/// Reads a piece of metadata, whose length counts the padding.
fn decode_tlv(mut value: Reader<'_>, length: usize) -> Result<EncapProperty, Fault> {
    let (class, kind, bytes) = (value.u16()?, value.u8()?, usize::from(value.u8()?));
    if length != HEADER + TLV_HEADER + bytes.next_multiple_of(8) {
        return Err(Fault::BadEncapProperty);
    }
    Ok(EncapProperty::NshTlv { class, kind, value: value.take(bytes)?.to_vec() })
}

/// Writes the properties of a header.
pub(super) fn encode_properties(encap: &Encap, out: &mut Writer) -> Result<(), Unencodable> {
    if !encap.is_valid() {
        return Err(Unencodable::Absent("these properties of a header to add"));
    }
    for property in &encap.properties {
        out.u16(NSH);
        match property {
            EncapProperty::NshMdType(kind) => {
                out.bytes(&[MD_TYPE, MD_TYPE_BYTES, *kind]);
                out.zeros(3);
            }
            EncapProperty::NshTlv { class, kind, value } => {
                // At most 136 bytes: the value is checked above.
                let padded = value.len().next_multiple_of(8);
                out.bytes(&[TLV, (HEADER + TLV_HEADER + padded) as u8]);
                out.u16(*class);
                out.bytes(&[*kind, value.len() as u8]);
                out.bytes(value);
                out.zeros(padded - value.len());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(length: usize) -> EncapProperty {
        EncapProperty::NshTlv { class: 0x1000, kind: 10, value: vec![0x5a; length] }
    }

    fn nsh(properties: Vec<EncapProperty>) -> Encap {
        Encap { properties, ..Encap::new(PacketType::NSH) }
    }

    #[test]
    fn metadata_are_as_in_a_packet() {
        assert_eq!(nsh(Vec::new()).nsh_metadata(), [0; 16]);
        let two = nsh(vec![EncapProperty::NshMdType(2), tlv(1), tlv(0)]);
        assert_eq!(two.nsh_md_type(), 2);
        assert_eq!(two.nsh_metadata(), [0x10, 0, 10, 1, 0x5a, 0, 0, 0, 0x10, 0, 10, 0]);
        // The last type counts; metadata of type 1 have no pieces.
        let one = nsh(vec![EncapProperty::NshMdType(2), tlv(5), EncapProperty::NshMdType(1)]);
        assert_eq!(one.nsh_metadata(), [0; 16]);
        assert_eq!(nsh(vec![EncapProperty::NshMdType(2)]).nsh_metadata(), [0; 0]);
    }

    #[test]
    fn properties_longer_than_a_header_are_refused() {
        let valid = |properties: &[EncapProperty]| nsh(properties.to_vec()).is_valid();
        assert!(valid(&[tlv(127), tlv(108)]), "244 bytes");
        assert!(!valid(&[tlv(127), tlv(109)]));
        assert!(!valid(&[tlv(128)]));
        assert!(!valid(&[EncapProperty::NshMdType(3)]));
        let ethernet = Encap { properties: vec![tlv(1)], ..Encap::new(PacketType::ETHERNET) };
        assert!(!ethernet.is_valid());
    }
}

//! Part of a field, as actions of Nicira and those of OpenFlow 1.5 name it.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::field::Field;
use super::oxm::{FieldId, IN_ACTION};
use super::unencodable::Unencodable;
use super::version::Version;

/// Version whose numbers of fields Nicira's actions have in all versions.
pub(crate) const NXM: Version = Version::V10;

/// Bits of a field that lie beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subfield {
    field: Field,
    offset: u16,
    bits: u16,
}

impl Subfield {
    /// `bits` bits of `field` from bit `offset` on, when the field has them.
    #[must_use]
    pub fn new(field: Field, offset: u16, bits: u16) -> Option<Subfield> {
        let fits = bits > 0 && u32::from(offset) + u32::from(bits) <= field.bits();
        fits.then_some(Subfield { field, offset, bits })
    }

    /// Returns all bits of a field.
    #[must_use]
    pub fn whole(field: Field) -> Subfield {
        Subfield { field, offset: 0, bits: field.bits() as u16 }
    }

    /// The field.
    #[must_use]
    pub fn field(&self) -> Field {
        self.field
    }

    /// The lowest bit; bit 0 is the least significant.
    #[must_use]
    pub fn offset(&self) -> u16 {
        self.offset
    }

    /// Returns the number of bits.
    #[must_use]
    pub fn bits(&self) -> u16 {
        self.bits
    }

    pub(crate) fn checked(field: Field, offset: u16, bits: u16) -> Result<Subfield, Fault> {
        Subfield::new(field, offset, bits).ok_or(Fault::BadSetLength)
    }

    /// Checks that actions may change it.
    pub(crate) fn settable(self) -> Result<Subfield, Fault> {
        if self.field.is_settable() { Ok(self) } else { Err(Fault::BadSetArgument) }
    }

    /// Makes a subfield from offset and size in one number, and a field.
    pub(crate) fn from_packed(packed: u16, field: Field) -> Result<Subfield, Fault> {
        Subfield::checked(field, packed >> 6, (packed & 0x3f) + 1)
    }

    /// Offset and size in one number: ten bits and six.
    pub(crate) fn packed(&self) -> Result<u16, Unencodable> {
        if self.bits > 64 {
            return Err(Unencodable::Absent("a part of more than 64 bits in this action"));
        }
        Ok(self.offset << 6 | (self.bits - 1))
    }
}

/// Reads the header of a field without a value.
pub(crate) fn decode_header(reader: &mut Reader<'_>) -> Result<Field, Fault> {
    let id = FieldId::decode(reader, &IN_ACTION)?;
    let field = id.field().ok_or(Fault::BadSetType)?;
    if id.masked {
        return Err(Fault::BadSetMask);
    }
    if usize::from(id.length) != field.bytes() {
        return Err(Fault::BadSetLength);
    }
    Ok(field)
}

/// As [`decode_header`], for a header of four bytes, where zero is no field.
pub(crate) fn decode_short_header(reader: &mut Reader<'_>) -> Result<Option<Field>, Fault> {
    let bytes = reader.array::<4>()?;
    if bytes == [0; 4] {
        return Ok(None);
    }
    // An experimenter's header does not fit, and the number behind it is absent.
    decode_header(&mut Reader::new(&bytes, Fault::BadSetType)).map(Some)
}

pub(crate) fn encode_header(field: Field, version: Version, out: &mut Writer) {
    FieldId::new(field, false, version).encode(out);
}

/// Writes a header of four bytes, in Nicira's form.
pub(crate) fn encode_short_header(field: Field, out: &mut Writer) -> Result<(), Unencodable> {
    if !field.is_short() {
        return Err(Unencodable::Field(field));
    }
    encode_header(field, NXM, out);
    Ok(())
}

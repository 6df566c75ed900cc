//! Fields with their values, each behind a header of four or eight bytes.
//!
//! OpenFlow calls them OXM, Nicira's older format of the same shape NXM. The header has a class, a
//! number in it, whether a mask follows, and a length; in the class of experimenters it goes on
//! with the number of the experimenter, which the length counts. Source: OpenFlow 1.3.5 section
//! 7.2.3.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::field::{EXPERIMENTER, Field};
use super::version::Version;

/// The header of a field, as tables list those they can match and set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldId {
    /// The class of the number.
    pub class: u16,
    /// The number in it, of seven bits.
    pub number: u8,
    /// Whether a mask follows a value; in a list, whether it may.
    pub masked: bool,
    /// Bytes of value and mask.
    pub length: u8,
    /// Number of the experimenter, in their class (`0xffff`).
    pub experimenter: Option<u32>,
}

impl FieldId {
    /// The header of a field.
    #[must_use]
    pub fn new(field: Field, masked: bool, version: Version) -> FieldId {
        let form = field.form(version);
        FieldId {
            class: form.class,
            number: form.number,
            masked,
            length: (field.bytes() << u32::from(masked)) as u8,
            experimenter: (form.class == EXPERIMENTER).then_some(form.experimenter),
        }
    }

    /// The field, when it is known here.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        Field::from_number(self.class, self.number, self.experimenter.unwrap_or(0))
    }

    pub(crate) fn decode(reader: &mut Reader<'_>, faults: &FieldFaults) -> Result<FieldId, Fault> {
        let class = reader.u16()?;
        let low = reader.u8()?;
        let mut length = reader.u8()?;
        let mut experimenter = None;
        if class == EXPERIMENTER {
            experimenter = Some(reader.u32()?);
            length = length.checked_sub(4).ok_or(faults.length)?;
        }
        Ok(FieldId { class, number: low >> 1, masked: low & 1 == 1, length, experimenter })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u16(self.class);
        out.u8(self.number << 1 | u8::from(self.masked));
        match self.experimenter {
            Some(experimenter) => {
                out.u8(self.length.saturating_add(4));
                out.u32(experimenter);
            }
            None => out.u8(self.length),
        }
    }
}

/// The fault each mistake is, which depends on where the field is.
#[derive(Debug)]
pub(crate) struct FieldFaults {
    pub(crate) unknown: Fault,
    pub(crate) length: Fault,
    pub(crate) value: Fault,
    /// A mask on a field that is matched as a whole; `None` where that is no matter.
    pub(crate) mask: Option<Fault>,
    pub(crate) beside_mask: Fault,
}

/// In a match.
pub(crate) const IN_MATCH: FieldFaults = FieldFaults {
    unknown: Fault::BadField,
    length: Fault::MatchBadLength,
    value: Fault::BadValue,
    mask: Some(Fault::BadMask),
    beside_mask: Fault::BadWildcards,
};

/// In an action that sets a field.
pub(crate) const IN_ACTION: FieldFaults = FieldFaults {
    unknown: Fault::BadSetType,
    length: Fault::BadSetLength,
    value: Fault::BadSetArgument,
    mask: None,
    beside_mask: Fault::BadSetArgument,
};

/// A field and its value, under a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    field: Field,
    value: u128,
    mask: u128,
}

impl Entry {
    /// The whole field has this value, of which bits the field does not have are dropped.
    #[must_use]
    pub fn exact(field: Field, value: u128) -> Entry {
        Entry::masked(field, value, u128::MAX)
    }

    /// Bits of the field that the mask has are those of the value.
    #[must_use]
    pub fn masked(field: Field, value: u128, mask: u128) -> Entry {
        let mask = mask & field.all_bits();
        Entry { field, value: value & mask, mask }
    }

    /// The field.
    #[must_use]
    #[inline]
    pub fn field(&self) -> Field {
        self.field
    }

    /// The value, zero where the mask is.
    #[must_use]
    #[inline]
    pub fn value(&self) -> u128 {
        self.value
    }

    /// Returns the bits to compare.
    #[must_use]
    #[inline]
    pub fn mask(&self) -> u128 {
        self.mask
    }

    /// Returns true if all bits of the field count.
    #[must_use]
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.mask == self.field.all_bits()
    }

    /// Reads a field with its header; `None` for a mask without bits.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        faults: &FieldFaults,
    ) -> Result<Option<Entry>, Fault> {
        let (id, value) = Entry::split(reader, faults)?;
        Entry::read(id, value, faults)
    }

    /// The header of the next field, and the bytes of its value and mask.
    pub(crate) fn split<'a>(
        reader: &mut Reader<'a>,
        faults: &FieldFaults,
    ) -> Result<(FieldId, Reader<'a>), Fault> {
        let id = FieldId::decode(reader, faults)?;
        Ok((id, reader.part(usize::from(id.length))?))
    }

    /// Returns the entry of a header and its value.
    pub(crate) fn read(
        id: FieldId,
        mut value: Reader<'_>,
        faults: &FieldFaults,
    ) -> Result<Option<Entry>, Fault> {
        let field = id.field().ok_or(faults.unknown)?;
        if usize::from(id.length) != field.bytes() << u32::from(id.masked) {
            return Err(faults.length);
        }
        let (number, mut mask) = (value.number(field.bytes())?, field.all_bits());
        if id.masked {
            mask &= value.number(field.bytes())?;
        }
        if number & !field.all_bits() != 0 {
            return Err(faults.value);
        }
        if number & !mask != 0 {
            return Err(faults.beside_mask);
        }
        if mask == 0 {
            return Ok(None);
        }
        if !field.allows(number) {
            return Err(faults.value);
        }
        if mask == field.all_bits() {
            return Ok(Some(Entry { field, value: number, mask }));
        }
        match faults.mask {
            Some(fault) if !field.is_maskable() => return Err(fault),
            _ => {}
        }
        Ok(Some(Entry { field, value: number & mask, mask }))
    }

    /// Writes the field with its header, and its mask where it is not all bits.
    pub(crate) fn encode(&self, version: Version, out: &mut Writer) {
        let masked = !self.is_exact();
        FieldId::new(self.field, masked, version).encode(out);
        out.number(self.value, self.field.bytes());
        if masked {
            out.number(self.mask, self.field.bytes());
        }
    }
}

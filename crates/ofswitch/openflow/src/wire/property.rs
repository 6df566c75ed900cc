//! Properties: a type, a length, a value, padding to eight bytes.
//!
//! OpenFlow 1.3 has them in features of tables, 1.4 nearly everywhere.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::unencodable::Unencodable;

/// The type of properties of experimenters.
pub(crate) const EXPERIMENTER: u16 = 0xffff;

/// Reads the next property, if one is left: its type, and its value without padding.
///
/// A wrong length of a value is [`Fault::PropertyBadLength`]. Padding may be absent behind the last
/// property, as some messages end without it.
pub(crate) fn next<'a>(reader: &mut Reader<'a>) -> Result<Option<(u16, Reader<'a>)>, Fault> {
    if reader.is_empty() {
        return Ok(None);
    }
    let mut inside = reader.with_fault(Fault::PropertyBadLength);
    let (kind, length) = (inside.u16()?, usize::from(inside.u16()?));
    let value = inside.part(length.checked_sub(4).ok_or(Fault::PropertyBadLength)?)?;
    let padding = length.next_multiple_of(8) - length;
    inside.skip(padding.min(inside.len()))?;
    reader.skip(reader.len() - inside.len())?;
    Ok(Some((kind, value)))
}

/// Returns the fault of an unknown property.
pub(crate) fn unknown(kind: u16) -> Fault {
    if kind == EXPERIMENTER { Fault::PropertyBadExperimenter } else { Fault::PropertyBadType }
}

/// Writes a property.
pub(crate) fn put(
    out: &mut Writer,
    kind: u16,
    value: impl FnOnce(&mut Writer),
) -> Result<(), Unencodable> {
    let start = out.len();
    out.u16(kind);
    out.u16(0);
    value(out);
    out.length(start + 2, start)?;
    out.pad(start);
    Ok(())
}

/// A value of two bytes, which has two more of padding within its length.
pub(crate) fn u16(value: &mut Reader<'_>) -> Result<u16, Fault> {
    let number = value.u16()?;
    value.skip(2)?;
    Ok(number)
}

/// Writes such a value.
pub(crate) fn put_u16(out: &mut Writer, kind: u16, number: u16) -> Result<(), Unencodable> {
    put(out, kind, |out| {
        out.u16(number);
        out.zeros(2);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked() {
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes, Fault::BadLength);
            next(&mut reader)
                .map(|found| found.map(|(kind, value)| (kind, value.len(), reader.len())))
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[0, 7, 0, 6, 1, 2, 0, 0, 9]), Ok(Some((7, 2, 1))));
        assert_eq!(read(&[0, 7, 0, 6, 1, 2]), Ok(Some((7, 2, 0))));
        assert_eq!(read(&[0, 7, 0]), Err(Fault::PropertyBadLength));
        assert_eq!(read(&[0, 7, 0, 3, 1, 2, 3, 4]), Err(Fault::PropertyBadLength));
        assert_eq!(read(&[0, 7, 0, 9, 1, 2, 3, 4]), Err(Fault::PropertyBadLength));
    }
}

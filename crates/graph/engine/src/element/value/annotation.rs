//! Place of a value in a packet's annotation area, by name or by number.

use super::{Value, integer_in, or_parse_error};
use crate::element::Scope;

/// Bytes of the annotation area.
const AREA: u8 = 48;

/// Name, offset and size of the annotations that Click names.
const NAMES: &[(&str, u8, u8)] = &[
    ("AGGREGATE", 20, 4),
    ("DST_IP", 0, 4),
    ("DST_IP6", 0, 16),
    ("EXTRA_LENGTH", 28, 4),
    ("EXTRA_PACKETS", 24, 4),
    ("FIRST_TIMESTAMP", 32, 8),
    ("FIX_IP_SRC", 19, 1),
    ("FWD_RATE", 20, 4),
    ("GRID_ROUTE_CB", 27, 1),
    ("ICMP_PARAMPROB", 17, 1),
    ("IPREASSEMBLER", 28, 4),
    ("IPSEC_SA_DATA_REFERENCE", 40, 8),
    ("IPSEC_SPI", 32, 4),
    ("MISC_IP", 20, 4),
    ("PACKET_NUMBER", 32, 4),
    ("PAINT", 16, 1),
    ("PERFCTR", 40, 8),
    ("REV_RATE", 24, 4),
    ("SEQUENCE_NUMBER", 36, 4),
    ("VLAN", 20, 2),
    ("VLAN_TCI", 20, 2),
    ("WIFI_EXTRA", 16, 24),
];

/// A place in the annotation area that `SIZE` bytes are read from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotation<const SIZE: u8> {
    /// Its first byte.
    pub offset: u8,
}

impl<const SIZE: u8> Value for Annotation<SIZE> {
    fn parse(text: &str, _: &Scope<'_>) -> Result<Annotation<SIZE>, String> {
        let named = NAMES.iter().find(|(name, ..)| *name == text);
        let (offset, size) = match named {
            Some(&(_, offset, size)) => (Some(offset), size),
            None => (integer_in(text, 0, true).and_then(|at| u8::try_from(at).ok()), SIZE),
        };
        let fits = |offset: &u8| size == SIZE && offset.saturating_add(SIZE) <= AREA;
        or_parse_error(offset.filter(fits).map(|offset| Annotation { offset }))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.offset.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::value::tests::read;

    #[test]
    fn by_name_and_by_number() {
        assert_eq!(read("PAINT"), Ok(Annotation::<1> { offset: 16 }));
        assert_eq!(read("47"), Ok(Annotation::<1> { offset: 47 }));
        assert_eq!(read("AGGREGATE"), Ok(Annotation::<4> { offset: 20 }));
        for text in ["AGGREGATE", "48", "-1", "paint", ""] {
            assert_eq!(read::<Annotation<1>>(text), Err("parse error".into()), "{text}");
        }
    }
}

//! Annotations of one and of several bytes by the numbers Click gives their bytes.
//!
//! Elements that take an `ANNO` argument may use any byte of Click's 48. Those
//! that share bytes in Click share them here:
//!
//! | Click's bytes | annotation | [`Meta`] |
//! |---|---|---|
//! | 0-15 | destination address | `destination` |
//! | 16 | paint | `paint` |
//! | 17 | byte an ICMP parameter problem is about | `user[13]` |
//! | 19 | whether the source address is to be set | `user[12]` |
//! | 20-23 | aggregate | `user[0..4]` |
//! | 24-27 | packets it stands for | `user[4..8]` |
//! | 28-31 | extra length | `user[8..12]` |
//! | 32-39 | first timestamp; packet number | `user[16..24]` |
//!
//! There is no room for the others. `user[14..16]` is the place of the Ethernet header
//! ([`mac_header`](crate::mac_header)), which in Click is no annotation but a pointer of the packet. See
//! also [`annotations`](crate::annotations).

use linerate_graph::{Annotation, Scope, Value};
use linerate_memory::Meta;

/// Click's byte of the paint annotation.
const PAINT: u8 = 16;

/// Click's bytes that have a place.
const PLACES: [std::ops::Range<u8>; 2] = [0..18, 19..40];

fn has_place(byte: u8) -> bool {
    PLACES.iter().any(|places| places.contains(&byte))
}

/// An annotation of one byte, by Click's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Byte(u8);

impl Byte {
    /// The byte of the paint.
    pub const PAINT: Byte = Byte(PAINT);

    /// The byte Click has there; nothing when there is no room for it.
    pub fn from_annotation(Annotation { offset }: Annotation<1>) -> Option<Byte> {
        has_place(offset).then_some(Byte(offset))
    }

    #[inline]
    /// Returns a packet's value of it.
    pub fn get(self, meta: &Meta) -> u8 {
        let at = usize::from(self.0);
        match self.0 {
            PAINT => meta.paint,
            17 => meta.user[13],
            19 => meta.user[12],
            20..32 => meta.user[at - 20],
            32..40 => meta.user[at - 16],
            _ => meta.destination[at & 15],
        }
    }

    #[inline]
    /// Sets a packet's value of it.
    pub fn set(self, meta: &mut Meta, value: u8) {
        let at = usize::from(self.0);
        match self.0 {
            PAINT => meta.paint = value,
            17 => meta.user[13] = value,
            19 => meta.user[12] = value,
            20..32 => meta.user[at - 20] = value,
            32..40 => meta.user[at - 16] = value,
            _ => meta.destination[at & 15] = value,
        }
    }
}

impl Value for Byte {
    const KIND: &'static str = "annotation";

    fn parse(text: &str, scope: &Scope<'_>) -> Result<Byte, String> {
        let annotation = Annotation::parse(text, scope)?;
        Byte::from_annotation(annotation)
            .ok_or_else(|| format!("no room for byte {}", annotation.offset))
    }

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}

/// An annotation of several bytes, by Click's number of the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes<const N: usize>(u8);

/// One of two bytes, such as a VLAN's tag.
pub type Short = Bytes<2>;

/// One of four bytes, such as an IPv4 address.
pub type Word = Bytes<4>;

impl<const N: usize> Bytes<N> {
    /// The bytes at `offset`; the error when there is no room for them.
    fn at(offset: u8) -> Result<Bytes<N>, String> {
        match (offset..offset.saturating_add(N as u8)).find(|byte| !has_place(*byte)) {
            Some(missing) => Err(format!("no room for byte {missing}")),
            None => Ok(Bytes(offset)),
        }
    }

    #[inline]
    /// Returns a packet's value of them.
    pub fn get(self, meta: &Meta) -> [u8; N] {
        let mut value = [0; N];
        for (place, byte) in value.iter_mut().zip(self.0..) {
            *place = Byte(byte).get(meta);
        }
        value
    }

    #[inline]
    /// Sets a packet's value of them.
    pub fn set(self, meta: &mut Meta, value: [u8; N]) {
        if self.0 == 0 && N <= meta.destination.len() {
            meta.destination[..N].copy_from_slice(&value);
            return;
        }
        for (byte, value) in (self.0..).zip(value) {
            Byte(byte).set(meta, value);
        }
    }
}

macro_rules! values {
    ($($size:literal)*) => {$(
        impl Value for Bytes<$size> {
            const KIND: &'static str = "annotation";

            fn parse(text: &str, scope: &Scope<'_>) -> Result<Bytes<$size>, String> {
                Bytes::at(Annotation::<$size>::parse(text, scope)?.offset)
            }

            fn unparse(&self, _: &Scope<'_>) -> String {
                self.0.to_string()
            }
        }
    )*};
}

values!(2 4 6);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations;

    #[test]
    fn every_byte_is_in_a_place_of_its_own() {
        let bytes: Vec<Byte> = (0..18).chain(19..40).map(Byte).collect();
        let mut meta = Meta::EMPTY;
        for byte in &bytes {
            byte.set(&mut meta, byte.0 + 1);
        }
        for byte in &bytes {
            assert_eq!(byte.get(&meta), byte.0 + 1);
        }
        assert_eq!(meta.paint, 17);
        assert_eq!(annotations::aggregate(&meta), u32::from_ne_bytes([21, 22, 23, 24]));
        assert_eq!(annotations::extra_length(&meta), u32::from_ne_bytes([29, 30, 31, 32]));
        assert_eq!(
            (annotations::problem_offset(&meta), annotations::fix_ip_source(&meta)),
            (18, 20)
        );
        let first = u64::from_ne_bytes([33, 34, 35, 36, 37, 38, 39, 40]);
        assert_eq!(annotations::first_time(&meta), first);
    }

    #[test]
    fn words_are_bytes_in_a_row() {
        for at in (0..13).chain(20..37) {
            let (mut words, mut bytes) = (Meta::EMPTY, Meta::EMPTY);
            Bytes(at).set(&mut words, [1, 2, 3, 4]);
            (at..).zip(1..=4).for_each(|(at, value)| Byte(at).set(&mut bytes, value));
            assert_eq!(words, bytes, "{at}");
        }
    }
}

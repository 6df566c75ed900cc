//! Flow key: header and metadata fields of a packet, in words, as tables match them.
//!
//! A [`Key`] has every field at a fixed place, so a match is a few words to compare under a mask.
//! The first [`ENTRY_WORDS`] are the fields of an arriving packet: its port, headers, tunnel and
//! connection. The others, metadata and registers, are zero when it comes and are the pipeline's.
//! Fields that no packet has together share a place: addresses of IPv4 and ARP and network service
//! headers, ports and ICMP's types.

mod compose;
pub mod extension;
pub mod extract;
mod fields;

use std::ops::Range;

use crate::wire::{Entry, Field, Match};

pub use compose::compose;
pub use extract::{Needed, extract, extract_needed};
pub use fields::{Value, is_of_headers};

/// Words of a key.
pub const WORDS: usize = 43;

/// Words of a key that a packet comes with.
pub const ENTRY_WORDS: usize = 33;

/// Words of a key that are read from a packet's headers.
pub const HEADERS: Range<usize> = 1..extract::HEADER_WORDS;

/// Words of a key with the fields of a packet's connection.
pub(crate) const CONNECTION: Range<usize> = 23..32;

/// The place of a bit for a connection that the last `ct` found and left as it is: no field.
pub(crate) const FOUND: FieldPosition = FieldPosition { word: 23, shift: 8 };

/// Place of a field: the word of its last bit, and the distance from that word's end. A field of
/// more than 64 bits has its upper half in the word before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldPosition {
    /// The word.
    pub word: usize,
    /// Bits the field is shifted by in it.
    pub shift: u32,
}

/// Defines a type with a place for each field.
macro_rules! words {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name {
            words: [u64; WORDS],
        }

        impl $name {
            /// Returns all words.
            #[must_use]
            pub fn words(&self) -> &[u64; WORDS] {
                &self.words
            }

            /// Returns all words, for writing.
            pub fn words_mut(&mut self) -> &mut [u64; WORDS] {
                &mut self.words
            }

            /// Returns the value of a field.
            #[must_use]
            pub fn get(&self, field: Field) -> u128 {
                collect(field, &self.words)
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name { words: [0; WORDS] }
            }
        }
    };
}

words! {
    /// Header and metadata fields of a packet.
    Key
}

words! {
    /// Bits of keys.
    Mask
}

/// Returns the place of a field in a key.
#[must_use]
pub const fn position_of(field: Field) -> FieldPosition {
    let (word, shift) = match field {
        Field::InPort | Field::InPort16 => (0, 32),
        Field::EthDst => (1, 16),
        Field::EthType => (1, 0),
        Field::EthSrc => (2, 16),
        Field::VlanTci | Field::VlanVid => (2, 0),
        Field::VlanPcp => (2, 13),
        Field::IpProto => (3, 56),
        Field::IpTos | Field::IpEcn => (3, 48),
        Field::IpDscp => (3, 50),
        Field::IpTtl => (3, 40),
        Field::IpFrag => (3, 32),
        Field::Ipv6Extensions => (3, 0),
        Field::Ipv4Src | Field::ArpSpa => (4, 32),
        Field::Ipv4Dst | Field::ArpTpa => (4, 0),
        Field::NshFlags => (4, 56),
        Field::NshTtl => (4, 48),
        Field::NshMdType => (4, 40),
        Field::NshNp => (4, 32),
        Field::NshSpi => (4, 8),
        Field::NshSi => (4, 0),
        Field::NshC1 => (6, 32),
        Field::NshC2 => (6, 0),
        Field::NshC3 => (7, 32),
        Field::NshC4 => (7, 0),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => (5, 48),
        Field::Icmpv4Type | Field::Icmpv6Type => (5, 48),
        Field::TcpDst | Field::UdpDst | Field::SctpDst => (5, 32),
        Field::Icmpv4Code | Field::Icmpv6Code => (5, 32),
        Field::TcpFlags => (5, 16),
        Field::ArpOp => (5, 0),
        Field::Ipv6Src => (7, 0),
        Field::Ipv6Dst => (9, 0),
        Field::Ipv6Label => (10, 32),
        Field::MplsLabel => (10, 12),
        Field::MplsTc => (10, 9),
        Field::MplsBos => (10, 8),
        Field::MplsTtl => (10, 0),
        Field::NdTarget => (12, 0),
        Field::NdSll | Field::ArpSha => (13, 16),
        Field::NdTll | Field::ArpTha => (14, 16),
        Field::PbbIsid => (15, 8),
        Field::PbbUca => (15, 0),
        Field::TunnelId => (16, 0),
        Field::TunnelIpv4Src => (17, 32),
        Field::TunnelIpv4Dst => (17, 0),
        Field::TunnelIpv6Src => (19, 0),
        Field::TunnelIpv6Dst => (21, 0),
        Field::PacketMark => (22, 32),
        Field::TunnelGbpId => (22, 16),
        Field::TunnelGbpFlags => (22, 8),
        Field::TunnelFlags => (22, 0),
        Field::CtState => (23, 32),
        Field::CtZone => (23, 16),
        Field::CtProto => (23, 0),
        Field::CtTpSrc => (24, 48),
        Field::CtTpDst => (24, 32),
        Field::CtMark => (24, 0),
        Field::CtLabel => (26, 0),
        Field::CtIpv4Src => (27, 32),
        Field::CtIpv4Dst => (27, 0),
        Field::CtIpv6Src => (29, 0),
        Field::CtIpv6Dst => (31, 0),
        Field::PacketType => (32, 32),
        Field::InPhyPort => (32, 0),
        // The pipeline's own.
        Field::Metadata => (33, 0),
        Field::ConjunctionId => (34, 32),
        Field::ActionSetOutput => (34, 0),
        _ => return register(field),
    };
    FieldPosition { word, shift }
}

/// The place of the continuation a packet goes on with, 0 for one that comes in: no field.
pub const CONTINUATION: FieldPosition = FieldPosition { word: 0, shift: 0 };

/// The place of the tag behind the outer one, with the bit for its presence: no field.
///
/// The type of Ethernet of a packet with two tags is that of the inner one, `0x8100` or `0x88a8`,
/// as it is for Open vSwitch.
pub const INNER_TCI: FieldPosition = FieldPosition { word: 3, shift: 16 };

/// The first word of registers; each has two, the even one first.
const REGISTERS: usize = 35;

const fn register(field: Field) -> FieldPosition {
    let first = field.registers().trailing_zeros() as usize;
    match field.bits() {
        32 => FieldPosition {
            word: REGISTERS + first / 2,
            shift: if first.is_multiple_of(2) { 32 } else { 0 },
        },
        64 => FieldPosition { word: REGISTERS + first / 2, shift: 0 },
        _ => FieldPosition { word: REGISTERS + first / 2 + 1, shift: 0 },
    }
}

/// Bits of a field, at its place: those of the word before, and those of its word.
pub(crate) const fn spread(field: Field, bits: u128) -> (u64, u64) {
    let bits = bits & field.all_bits();
    if field.bits() > 64 {
        ((bits >> 64) as u64, bits as u64)
    } else {
        (0, (bits as u64) << position_of(field).shift)
    }
}

const fn collect(field: Field, words: &[u64; WORDS]) -> u128 {
    let place = position_of(field);
    if field.bits() > 64 {
        (words[place.word - 1] as u128) << 64 | words[place.word] as u128
    } else {
        (words[place.word] >> place.shift) as u128 & field.all_bits()
    }
}

impl Key {
    /// Sets those bits of a field that the mask has.
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        let (word, (value_high, value), (mask_high, mask)) =
            (position_of(field).word, spread(field, value), spread(field, mask));
        self.words[word] = self.words[word] & !mask | value & mask;
        if mask_high != 0 {
            let word = word - 1;
            self.words[word] = self.words[word] & !mask_high | value_high & mask_high;
        }
    }

    /// Sets a field.
    pub fn set(&mut self, field: Field, value: u128) {
        self.set_masked(field, value, u128::MAX);
    }

    /// Sets the field of an entry.
    pub fn set_entry(&mut self, entry: &Entry) {
        self.set_masked(entry.field(), entry.value(), entry.mask());
    }

    /// The number of the continuation the packet goes on with; 0 for one that comes in.
    #[must_use]
    pub fn continuation(&self) -> u32 {
        self.words[CONTINUATION.word] as u32
    }

    /// Sets it.
    pub fn set_continuation(&mut self, number: u32) {
        let word = &mut self.words[CONTINUATION.word];
        *word = *word & !0xffff_ffff | u64::from(number);
    }

    /// Returns true if it has the same bits as another under a mask.
    #[must_use]
    pub fn agrees(&self, other: &Key, mask: &Mask) -> bool {
        let words = self.words.iter().zip(&other.words).zip(&mask.words);
        words.fold(0, |differ, ((one, other), mask)| differ | (one ^ other) & mask) == 0
    }

    /// Returns the key without bits that the mask lacks.
    #[must_use]
    pub fn under(&self, mask: &Mask) -> Key {
        let mut key = *self;
        key.words.iter_mut().zip(&mask.words).for_each(|(word, mask)| *word &= mask);
        key
    }
}

impl Mask {
    /// Returns a mask of all bits of a field.
    #[must_use]
    pub fn from_field(field: Field) -> Mask {
        let mut mask = Mask::default();
        mask.add_all(field);
        mask
    }

    /// Returns a mask of all bits of [`INNER_TCI`].
    pub(crate) const fn inner_tag() -> Mask {
        let mut words = [0; WORDS];
        words[INNER_TCI.word] = 0xffff << INNER_TCI.shift;
        Mask { words }
    }

    /// Adds bits of a field.
    pub fn add(&mut self, field: Field, bits: u128) {
        let word = position_of(field).word;
        let (high, low) = spread(field, bits);
        self.words[word] |= low;
        if high != 0 {
            self.words[word - 1] |= high;
        }
    }

    /// Adds a whole field.
    pub fn add_all(&mut self, field: Field) {
        self.add(field, u128::MAX);
    }

    /// Adds all bits of another.
    pub fn join(&mut self, other: &Mask) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Returns true if it has all bits of another.
    #[must_use]
    pub fn covers(&self, other: &Mask) -> bool {
        self.words.iter().zip(&other.words).all(|(word, other)| other & !word == 0)
    }

    /// Returns true if it has no bit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

/// Returns the key and mask of a match.
#[must_use]
pub fn of_match(matching: &Match) -> (Key, Mask) {
    let (mut key, mut mask) = (Key::default(), Mask::default());
    for entry in matching.entries() {
        key.set_entry(entry);
        mask.add(entry.field(), entry.mask());
    }
    (key, mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that packets have together, and no two of which may be at one place.
    #[test]
    fn fields_are_where_no_other_is() {
        let narrower = [
            Field::InPort16,
            Field::VlanTci,
            Field::IpTos,
            Field::ArpSpa,
            Field::ArpTpa,
            Field::ArpSha,
            Field::ArpTha,
            Field::NshFlags,
            Field::NshTtl,
            Field::NshMdType,
            Field::NshNp,
            Field::NshSpi,
            Field::NshSi,
            Field::NshC1,
            Field::NshC2,
            Field::NshC3,
            Field::NshC4,
            Field::UdpSrc,
            Field::UdpDst,
            Field::SctpSrc,
            Field::SctpDst,
            Field::Icmpv4Type,
            Field::Icmpv4Code,
            Field::Icmpv6Type,
            Field::Icmpv6Code,
        ];
        let wide = |field: &Field| field.registers().count_ones() > 1;
        let mut all = Mask::default();
        for &field in Field::ALL {
            let mut own = Mask::default();
            own.add_all(field);
            assert_eq!(own.get(field), field.all_bits(), "{}", field.name());
            let mut key = Key::default();
            key.set(field, u128::MAX);
            assert_eq!(key.words(), own.words());
            if wide(&field) || narrower.contains(&field) {
                assert!(matches!(field, Field::InPort16) || wide(&field) || !own.is_empty());
                continue;
            }
            let shared = all.words().iter().zip(own.words()).any(|(all, own)| all & own != 0);
            assert!(!shared, "{}", field.name());
            all.join(&own);
        }
    }
}

//! What differs between the two families of addresses.

use std::{
    hash::Hash,
    net::{Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use linerate_lookup::prefix::Address;

use linerate_kit::address6;

/// A family of addresses: `u32` for IPv4, `u128` for IPv6.
pub(super) trait Family: Address + Hash + Default {
    /// Words a next hop takes.
    const WORDS: usize;

    /// Whether it is the address of zeros, which as a gateway means none.
    fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// The address in a destination annotation.
    fn read(annotation: &[u8; 16]) -> Self;

    /// Puts the address into a destination annotation.
    fn write(self, annotation: &mut [u8; 16]);

    /// Writes a next hop where readers see it.
    fn store(words: &[AtomicU64], gateway: Self, output: u32);

    /// Reads it.
    fn load(words: &[AtomicU64]) -> (Self, u32);

    /// As Click writes addresses.
    fn text(self) -> String;

    /// As Click writes the mask behind a slash: a length, or the mask itself
    /// when it has none.
    fn mask_text(self) -> String;
}

impl Family for u32 {
    const WORDS: usize = 1;

    #[inline(always)]
    fn read(annotation: &[u8; 16]) -> u32 {
        let [a, b, c, d, ..] = *annotation;
        u32::from_be_bytes([a, b, c, d])
    }

    #[inline(always)]
    fn write(self, annotation: &mut [u8; 16]) {
        annotation[..4].copy_from_slice(&self.to_be_bytes());
    }

    fn store(words: &[AtomicU64], gateway: u32, output: u32) {
        words[0].store(u64::from(gateway) << 32 | u64::from(output), Relaxed);
    }

    #[inline(always)]
    fn load(words: &[AtomicU64]) -> (u32, u32) {
        let word = words.first().map_or(0, |word| word.load(Relaxed));
        ((word >> 32) as u32, word as u32)
    }

    fn text(self) -> String {
        Ipv4Addr::from(self).to_string()
    }

    fn mask_text(self) -> String {
        match self.leading_ones() {
            length if u32::mask(length) == self => length.to_string(),
            _ => self.text(),
        }
    }
}

impl Family for u128 {
    const WORDS: usize = 3;

    #[inline(always)]
    fn read(annotation: &[u8; 16]) -> u128 {
        u128::from_be_bytes(*annotation)
    }

    #[inline(always)]
    fn write(self, annotation: &mut [u8; 16]) {
        *annotation = self.to_be_bytes();
    }

    fn store(words: &[AtomicU64], gateway: u128, output: u32) {
        words[0].store((gateway >> 64) as u64, Relaxed);
        words[1].store(gateway as u64, Relaxed);
        words[2].store(output.into(), Relaxed);
    }

    #[inline(always)]
    fn load(words: &[AtomicU64]) -> (u128, u32) {
        let [high, low, output] = words else { return (0, 0) };
        let gateway = u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed));
        (gateway, output.load(Relaxed) as u32)
    }

    fn text(self) -> String {
        address6::text(Ipv6Addr::from(self))
    }

    fn mask_text(self) -> String {
        self.leading_ones().to_string()
    }
}

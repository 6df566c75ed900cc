//! Address family: the differences between IPv4 and IPv6.

use std::{
    hash::Hash,
    iter,
    net::{Ipv4Addr, Ipv6Addr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use linerate_memory::{Arena, Frame, HeaderCache, LANES, PreservedFields};
use linerate_tables::prefix::Address;

use linerate_element_support::address6;

/// A family of addresses: `u32` for IPv4, `u128` for IPv6.
pub(super) trait Family: Address + Hash + Default {
    /// Words a next hop takes.
    const WORDS: usize;

    /// Returns true if it is the address of zeros, which as a gateway means none.
    fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// The address in a destination annotation.
    fn read(annotation: &[u8; 16]) -> Self;

    /// Reads those of a frame, if they are known without a look at its packets.
    fn known(
        arena: &Arena,
        frame: &Frame,
        header_cache: &HeaderCache,
        addresses: &mut [Self],
    ) -> bool {
        let _ = (arena, frame, header_cache, addresses);
        false
    }

    /// Puts addresses into the destination annotations of a frame's packets, but none of zeros.
    fn annotate(arena: &Arena, frame: &mut Frame, header_cache: &mut HeaderCache, with: &[Self]);

    /// As `annotate`, with one address, not of zeros, for all of them.
    fn annotate_all(arena: &Arena, frame: &mut Frame, header_cache: &mut HeaderCache, with: Self);

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

    #[inline]
    fn known(
        arena: &Arena,
        frame: &Frame,
        header_cache: &HeaderCache,
        addresses: &mut [u32],
    ) -> bool {
        let Some(mut columns) = header_cache.destinations(arena, frame) else { return false };
        let (groups, rest) = addresses.as_chunks_mut::<LANES>();
        for (addresses, column) in groups.iter_mut().zip(&mut columns) {
            *addresses = column.map(u32::swap_bytes);
        }
        for (address, word) in rest.iter_mut().zip(columns.next().into_iter().flatten()) {
            *address = word.swap_bytes();
        }
        true
    }

    #[inline]
    fn annotate(arena: &Arena, frame: &mut Frame, header_cache: &mut HeaderCache, with: &[u32]) {
        let (eights, rest) = with.as_chunks::<LANES>();
        let mut last = [0; LANES];
        last[..rest.len()].copy_from_slice(rest);
        let columns = eights.iter().chain(iter::once(&last));
        arena.set_destinations(
            frame,
            header_cache,
            columns.map(|column| column.map(u32::swap_bytes)),
        );
    }

    #[inline]
    fn annotate_all(arena: &Arena, frame: &mut Frame, header_cache: &mut HeaderCache, with: u32) {
        arena.set_destinations(frame, header_cache, iter::repeat([with.swap_bytes(); LANES]));
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

    #[inline]
    fn annotate(arena: &Arena, frame: &mut Frame, header_cache: &mut HeaderCache, with: &[u128]) {
        arena.for_each_meta_mut(
            frame,
            header_cache,
            PreservedFields::HEADERS,
            with,
            |meta, address| {
                if *address != 0 {
                    meta.destination = address.to_be_bytes();
                }
            },
        );
    }

    #[inline]
    fn annotate_all(arena: &Arena, frame: &mut Frame, header_cache: &mut HeaderCache, with: u128) {
        let with = iter::repeat(with.to_be_bytes());
        arena.for_each_meta_mut(
            frame,
            header_cache,
            PreservedFields::HEADERS,
            with,
            |meta, address| {
                meta.destination = address;
            },
        );
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

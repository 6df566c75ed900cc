//! Fast hash of flow keys, for tables and balancers in software.
//!
//! Multiply two 64-bit words to 128 bits and fold the halves together: each bit of the product
//! depends on nearly all bits of both factors, for the price of one multiplication (the step at the
//! heart of wyhash and foldhash). Two dependent steps for IPv4 and three for IPv6 leave no bit of
//! the result that does not depend on every bit of the key, so any bits of it can be used as an index.
//!
//! Not a cryptographic hash. Tables whose keys come from outside take a random seed, so that a
//! sender cannot prepare keys that collide. Where the hash must be the one a network card computes,
//! use [`toeplitz`](crate::toeplitz).

use crate::flow::{FlowKey, FlowV4, FlowV6};

/// Odd constants without structure: the first fractional digits of pi, in hexadecimal.
const PI: [u64; 5] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
];

/// The product's halves, folded.
#[inline(always)]
const fn mix(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Ports, VLAN and protocol as one word. The low byte is zero, and PI has no zero low byte, so the
/// word with a constant added is never zero unless the seed makes it so.
#[inline(always)]
const fn rest(src_port: u16, dst_port: u16, vlan: u16, protocol: u8) -> u64 {
    (src_port as u64) << 48 | (dst_port as u64) << 32 | (vlan as u64) << 16 | (protocol as u64) << 8
}

/// The hash of a number, for packets kept together by something else than their flow; another seed
/// gives an independent one.
#[inline]
#[must_use]
pub const fn number_hash(number: u32, seed: u64) -> u64 {
    let turned = seed.rotate_left(32);
    let first = mix(number as u64 ^ seed ^ PI[0], turned ^ PI[1]);
    // Once more, as above.
    mix(first ^ PI[2], (number as u64) << 8 ^ PI[3])
}

impl FlowV4 {
    /// The flow's hash; another seed gives an independent one.
    #[inline]
    #[must_use]
    pub const fn hash64(&self, seed: u64) -> u64 {
        let addresses = (self.src.to_bits() as u64) << 32 | self.dst.to_bits() as u64;
        let rest = rest(self.src_port, self.dst_port, self.vlan, self.protocol.0);
        let first = mix(addresses ^ seed ^ PI[0], rest ^ seed.rotate_left(32) ^ PI[1]);
        // The rest once more: a zero factor in the first step must not make all keys with it equal.
        mix(first ^ PI[2], rest ^ PI[3])
    }
}

impl FlowV6 {
    /// The flow's hash; another seed gives an independent one.
    #[inline]
    #[must_use]
    pub const fn hash64(&self, seed: u64) -> u64 {
        let (src, dst) = (self.src.to_bits(), self.dst.to_bits());
        let rest = rest(self.src_port, self.dst_port, self.vlan, self.protocol.0);
        let turned = seed.rotate_left(32);
        // Independent of each other, so they run side by side.
        let source = mix((src >> 64) as u64 ^ seed ^ PI[0], src as u64 ^ turned ^ PI[1]);
        let destination = mix((dst >> 64) as u64 ^ seed ^ PI[2], dst as u64 ^ turned ^ PI[3]);
        let first = mix(source ^ PI[4], destination.rotate_left(32) ^ rest ^ seed);
        mix(first ^ PI[2], rest ^ PI[3])
    }
}

impl FlowKey {
    /// The flow's hash; another seed gives an independent one. For a hash that both directions
    /// share: `key.symmetric().hash64(seed)`.
    #[inline]
    #[must_use]
    pub const fn hash64(&self, seed: u64) -> u64 {
        match self {
            FlowKey::V4(flow) => flow.hash64(seed),
            FlowKey::V6(flow) => flow.hash64(seed),
        }
    }
}

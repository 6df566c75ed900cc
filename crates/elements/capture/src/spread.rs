//! Hash map keyed by aggregate.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// A map from aggregates to state.
pub(super) type ByAggregate<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

/// Multiplicative hash of an aggregate. It has no key: aggregates are flow numbers or parts of
/// addresses, and chosen collisions only slow down the measurement they are part of.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        let product = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

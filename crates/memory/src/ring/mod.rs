//! Bounded queues between workers, with burst operations.
//!
//! [`spsc`] is the fast case: one producer, one consumer. [`Mpmc`] is for
//! several of each. Both keep order, never allocate after they are made, and
//! hold a power of two of elements.

mod cells;
mod mpmc;
mod spsc;

pub use mpmc::Mpmc;
pub use spsc::{Consumer, Producer, spsc};

/// Most elements a ring can hold: positions are 32 bits and must be able to
/// tell a full ring from an empty one.
pub const RING_LIMIT: usize = 1 << 30;

/// Capacity for a ring that is to hold `wanted` elements.
///
/// # Panics
///
/// When `wanted` is zero or above [`RING_LIMIT`].
fn capacity_for(wanted: usize) -> u32 {
    assert!((1..=RING_LIMIT).contains(&wanted), "ring of {wanted} elements not in 1..=2^30");
    wanted.next_power_of_two() as u32
}

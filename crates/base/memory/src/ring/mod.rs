//! Bounded queues between workers, with burst operations.
//!
//! [`spsc`](spsc()) is the fast case: one producer, one consumer. [`Mpmc`] is for
//! several of each. Both keep order, never allocate after they are made, and
//! hold a power of two of elements.

mod bell;
mod cells;
mod mpmc;
mod need_wakeup;
mod spsc;
#[cfg(all(test, not(loom)))]
mod tests;

pub use bell::{Bell, Event};
pub use mpmc::Mpmc;
pub use need_wakeup::NeedWakeup;
pub use spsc::{Consumer, Producer, spsc, spsc_with};

/// Most elements a ring can hold: [`spsc()`]'s positions are 32 bits and must be
/// able to tell a full ring from an empty one.
pub const RING_LIMIT: usize = 1 << 30;

/// Capacity for a ring that is to hold `wanted` elements.
///
/// # Panics
///
/// When `wanted` is zero or above [`RING_LIMIT`].
fn capacity_for(wanted: usize) -> usize {
    assert!((1..=RING_LIMIT).contains(&wanted), "ring of {wanted} elements not in 1..=2^30");
    wanted.next_power_of_two()
}

/// The length of a burst for which there are fewer elements, or less room, than
/// asked for: `available`.
///
/// A cold call, so that `min(wanted, available)` is a branch and not a
/// conditional move. The branch is predicted, and the copy of a whole burst
/// starts without waiting for the other side's position; a conditional move
/// would make its length depend on that load. At one element per burst this
/// halves the cost of a ring.
#[cold]
#[inline(never)]
fn short_burst(available: usize) -> usize {
    available
}

/// Rings shortly before their positions wrap, for the models.
#[cfg(loom)]
pub mod wrapping {
    use super::{Consumer, Mpmc, Producer};

    /// As [`spsc`](super::spsc()), with `before` positions left.
    pub fn spsc<T: Send>(capacity: usize, before: u32) -> (Producer<T>, Consumer<T>) {
        super::spsc::starting_at(capacity, before.wrapping_neg(), None)
    }

    /// As [`Mpmc::new`], with `before` positions left.
    pub fn mpmc<T: Send>(capacity: usize, before: u64) -> Mpmc<T> {
        Mpmc::starting_at(capacity, before.wrapping_neg())
    }
}

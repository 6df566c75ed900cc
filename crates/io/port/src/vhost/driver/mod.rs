//! The driver: the role of a guest towards a virtual switch, and of DPDK's `virtio_user`.
//!
//! We make the memory, announce the places of queues, offer buffers and take them back as the
//! device uses them ([`ring`]). Memory is made anew for each connection: writes of a former device
//! to its memory do no harm then. It has the queues, and buffers that packets are copied to and
//! from ([`posted`]): a queue of ours is made to look like the device's view of one, so the code
//! that copies packets is shared by both roles ([`copy_in`](super::copy_in),
//! [`copy_out`](super::copy_out)).
//!
//! With `zero-copy` a second region is our arena, and buffers in it are lent ([`in_flight`]).

#[allow(unsafe_code, reason = "buffers lent to a peer, which has all of them mapped")]
mod in_flight;
mod posted;
mod ring;
mod session;
mod zero_copy_rx;
mod zero_copy_tx;

use linerate_memory::Arena;

pub(super) use self::session::{DriverSession, Settings as DriverSettings};

/// Returns true if an arena's buffers can be lent: there is place for a header in front of packets.
pub(super) fn fits(arena: &Arena) -> bool {
    arena.headroom() >= session::HEADER
}

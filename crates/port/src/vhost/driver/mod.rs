//! The driver: what a guest is to a virtual switch, and what DPDK's `virtio_user` is.
//!
//! We make the memory, say where queues are, offer buffers and take them back as the device uses
//! them ([`ring`]). Memory is made anew for each connection: what a former device may still do to its
//! memory is nobody's business then. It has the queues, and buffers that packets are copied to and
//! from ([`posted`]): a queue of ours is made to look like the device's view of one, so what copies
//! packets is the same code in either role ([`copy_in`](super::copy_in),
//! [`copy_out`](super::copy_out)).
//!
//! With `zero-copy` a second region is our arena, and buffers in it are lent ([`lent`]).

#[allow(unsafe_code, reason = "buffers lent to a peer, which has all of them mapped")]
mod lent;
mod lent_in;
mod lent_out;
mod posted;
mod ring;
mod session;

use linerate_memory::Arena;

pub(super) use self::session::{DriverSession, Settings as DriverSettings};

/// Whether an arena's buffers can be lent: there is place for a header in front of packets.
pub(super) fn fits(arena: &Arena) -> bool {
    arena.headroom() >= session::HEADER
}

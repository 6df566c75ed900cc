//! The device: the role of a virtual switch towards a guest.
//!
//! The other side, a virtual machine's process or DPDK's `virtio_user`, announces its memory and
//! the places of the queues in it. Of each pair the first queue takes packets to it, the second has
//! those from it.

mod session;

pub(super) use self::session::{DeviceSession, Offer, Settings as DeviceSettings};

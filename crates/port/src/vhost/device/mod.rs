//! The device: what a virtual switch is to a guest.
//!
//! The other side, a virtual machine's process or DPDK's `virtio_user`, says where its memory is and
//! where in it the queues are. Of each pair the first queue takes packets to it, the second has those
//! from it.

mod session;

pub(super) use self::session::{DeviceSession, Offer, Settings as DeviceSettings};

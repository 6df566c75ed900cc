//! The port traits and one driver per kind of port.
//!
//! A port is named by a [`PortUri`] and opened with [`open()`] on a [`Context`]
//! that holds the arena all ports share. It comes as queues of a [`Receive`]
//! and a [`Transmit`] side, which move frames of packets and never wait.
//!
//! # Where things are
//!
//! The drivers: `af_packet` (`packet:`), `memif`, [`pcap`], `null`, [`ring`], `tap` (`tap:` and
//! `tun:`), `vhost`, `xdp`. Each has a file for opening (`mod.rs`, `driver.rs` or the only one),
//! and one or two for the calls per burst, `receive` and `transmit`.
//!
//! Below the drivers: `error`, `uri` (names), `options` (their declaration, and options taken by it),
//! `devices` (names of other frameworks), [`counters`] (packets, and drops by reason), `link` (state
//! of the peer), `shared_state` (of the ports of a process), `port` (the traits, and waiting),
//! `driver` (declarations), `offload` (checksums and segmentation that a sender on this host left
//! undone), [`peer`] (sockets and events of ports whose peer is a process), `fill` (frames of
//! packets that are copied), `kernel` (opening an interface).
//!
//! Above them: `filtered` (receiving by a filter), `carrier` (links of interfaces), `open` (the list
//! of drivers), `lease` (one port for several users).

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "a ring shared with the kernel, and sendmmsg(2)")]
mod af_packet;
mod carrier;
pub mod counters;
mod devices;
mod driver;
mod error;
mod fill;
mod filtered;
mod kernel;
mod lease;
mod link;
mod memif;
mod null;
mod offload;
mod open;
mod options;
pub mod pcap;
pub mod peer;
mod port;
mod ring;
mod shared_state;
mod tap;
mod uri;
mod vhost;
#[allow(unsafe_code, reason = "rings and packet memory shared with the kernel")]
mod xdp;

pub use counters::{Counters, Counts, DropReason};
pub use devices::{Devices, parse_device};
pub use driver::Driver;
pub use error::{OpenError, PortError, PortFault, UriError};
pub use lease::{LeasedPort, Leases};
pub use link::{Link, LinkObserver};
pub use open::{DRIVERS, open, packets_kept, probe};
pub use options::{OptionGroup, Options, PortOption, Value};
pub use port::{
    Context, Copies, DRAIN_LIMIT, Direction, Interest, Port, PortInfo, Queue, Receive, Transmit,
    Wake, drain, wait_any,
};
pub use shared_state::SharedState;
pub use uri::PortUri;

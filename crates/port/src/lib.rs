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
//! Shared parts: `port` (the traits, and waiting), `uri` (names), `driver` (declarations),
//! `options` (options taken as declared), `open` (the list of drivers), `lease` (one port for
//! several users), `link` (state of the peer), [`counters`] (packets, and drops by reason),
//! `offload` (checksums and segmentation that a sender on this host left undone), [`peer`] (sockets
//! and events of ports whose peer is a process), `filtered` (receiving by a filter), `fill` (frames
//! of packets that are copied), `kernel` (opening an interface), `devices` (names of other
//! frameworks), `error`.

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
pub mod ring;
mod tap;
mod uri;
mod vhost;
#[allow(unsafe_code, reason = "rings and packet memory shared with the kernel")]
mod xdp;

pub use counters::{Counters, Counts, DropReason};
pub use devices::{Devices, parse_device};
pub use driver::{Driver, OptionGroup, PortOption, Value};
pub use error::{OpenError, PortError, PortFault, UriError};
pub use lease::{LeasedPort, Leases};
pub use link::{Link, LinkObserver};
pub use open::{DRIVERS, open, packets_kept, probe};
pub use options::Options;
pub use port::{
    Context, Copies, DRAIN_LIMIT, Direction, Interest, Port, PortInfo, Queue, Receive, Transmit,
    Wake, drain, wait_any,
};
pub use uri::PortUri;

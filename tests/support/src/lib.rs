//! Support of end-to-end tests: isolated networks and peer programs.
//!
//! A [`Lab`] makes network namespaces with unique names, joins them by veth pairs that carry frames
//! exactly as sent (all offloads off, no background IPv6 chatter), runs programs inside them, and
//! removes everything when it is dropped, also while a test panics. Remains of a killed test are
//! removed by the next lab.
//!
//! ```no_run
//! use linerate_test_support::Lab;
//!
//! let lab = Lab::new();
//! let (left, right) = (lab.namespace("left"), lab.namespace("right"));
//! lab.veth(&left, "l0", &right, "r0");
//! left.add_address("l0", "198.18.0.1/24");
//! right.add_address("r0", "198.18.0.2/24");
//! left.expect(["ping", "-c", "1", "198.18.0.2"]);
//! assert!(right.counters("r0").rx_packets >= 2); // the ARP request and the echo request
//! ```
//!
//! This crate is for tests only: its functions panic with the reason instead of returning errors,
//! because a test that cannot set up its network must fail, never pass by doing nothing. It never
//! touches an interface outside its own namespaces. Namespaces need root, so tests that use a lab
//! are marked `#[ignore = "needs root"]`; `cargo xtask test` runs them when it may.
//!
//! Namespaces, links and addresses are made by `ip` from iproute2 rather than by netlink messages
//! of our own: a test of a packet framework should not depend on that framework's idea of netlink.
#![forbid(unsafe_code)]

pub mod authority;
pub mod cluster;
pub mod controllers;
mod counters;
pub mod descriptors;
pub mod extremes;
pub mod guest;
pub mod hostile;
mod lab;
pub mod memif;
mod namespace;
pub mod openvswitch;
mod process;
pub mod programs;
mod stale;
pub mod stalling;
pub mod testpmd;
pub mod tunnels;
pub mod unit;
pub mod vhost;
pub mod vhost_device;
pub mod vhost_driver;

pub use counters::Counters;
pub use lab::Lab;
pub use namespace::Namespace;
pub use process::{Running, await_waiting, is_by_itself, is_waiting, thread_number, wait_until};
pub use programs::require;

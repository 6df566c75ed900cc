//! What end-to-end tests stand on: isolated networks and the programs they are checked against.
//!
//! A `Lab` makes network namespaces with unique names, joins them by veth
//! pairs that carry frames exactly as sent (all offloads off, no background IPv6 chatter), runs
//! programs inside them, and removes everything when it is dropped, also while a test panics. What
//! a killed test left behind is removed by the next lab.
//!
//! This crate is for tests only: its functions panic with the reason instead of returning errors,
//! because a test that cannot set up its network must fail, never pass by doing nothing. It never
//! touches an interface outside its own namespaces. Namespaces need root, so tests that use a lab
//! are marked `#[ignore = "needs root"]`; `cargo xtask test` runs them when it may.
//!
//! Namespaces, links and addresses are made by `ip` from iproute2 rather than by netlink messages
//! of our own: a test of a packet framework should not depend on that framework's idea of netlink.
#![forbid(unsafe_code)]

pub mod programs;

pub use programs::require;

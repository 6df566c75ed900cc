//! libpcap's interface on Linerate's ports: a shared library that takes libpcap's place.
//!
//! Programs that are linked with libpcap run as they are. Where the device that one opens is a port of
//! ours ([`names`]), its packets come from there and go there; everything else is done by the system's
//! libpcap ([`system`](mod@system)), which is loaded when it is needed first.
//!
//! # Where things are
//!
//! `functions` is the list of libpcap's functions, with the implementation of each; [`exports`] exports
//! them, and calls of the system's library are in [`system`](mod@system). A handle of ours is `handle`:
//! its first word tells it from one of libpcap's. Calls on it are in `calls`, a module for each kind of
//! function; packets come from `source`, go to `inject`, and are filtered by [`bpf`]. `no_libpcap` has
//! the functions where the system has no libpcap, and [`compile`](mod@compile) compiles filters there.
//!
//! # Threads and signals
//!
//! None is started to serve a handle. Ports that have helpers of their own (a `memif:` negotiates in
//! one) start them with all signals blocked, so a program's handlers run in its own threads.
//! `pcap_breakloop` may be called by any thread and by handlers.

pub mod abi;
pub mod bpf;
mod calls;
pub mod compile;
pub mod exports;
mod functions;
mod handle;
mod inject;
pub mod names;
mod no_libpcap;
mod source;
pub mod system;

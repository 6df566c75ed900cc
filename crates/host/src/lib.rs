//! The host: its network interfaces and the machine itself.
//!
//! [`interface`] asks and tells the kernel about interfaces, routes and
//! neighbours; [`machine`] says what the machine offers to packet processing,
//! and puts threads on its cores. Nothing here is for the packet path, and
//! nothing knows what a packet is.

#![deny(unsafe_code)]

pub mod interface;
pub mod machine;
mod suggest;

pub use suggest::closest;

//! The flow switch: a switch whose behaviour is a set of flow tables that a controller writes.
//!
//! What is here is the language controllers speak, [`wire`]. Tables, their fast path and the channel
//! to a controller are built on it; nothing here moves a packet.

#![forbid(unsafe_code)]

pub mod wire;

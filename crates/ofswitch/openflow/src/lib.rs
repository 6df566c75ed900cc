//! OpenFlow's messages and Nicira's, and flows as texts.
//!
//! [`wire`] has one model of messages for all versions, and reads and writes it. [`text`] is the
//! syntax of `ovs-ofctl`. The switch itself is the crate `linerate-ofswitch`.

#![forbid(unsafe_code)]

pub mod text;
pub mod wire;

//! The language of controllers: OpenFlow's messages and Nicira's, and flows as people write them.
//!
//! [`wire`] has one model of messages for all versions, and reads and writes it. [`text`] is the syntax of
//! `ovs-ofctl`. What a switch does with flows is the crate `linerate-flow`.

#![forbid(unsafe_code)]

pub mod text;
pub mod wire;

//! The flow switch: a switch whose behaviour is a set of flow tables that a controller writes.
//!
//! Controllers speak OpenFlow ([`linerate_openflow::wire`]). A packet is a [`key`] to the [`table`]s, which only
//! ever change as a whole; the [`pipeline`] walks them and decides.

#![forbid(unsafe_code)]

pub mod cache;
pub mod conntrack;
pub mod control;
pub mod counters;
pub mod edit;
pub mod export;
pub mod key;
pub mod mac_learning;
pub mod meter;
pub mod pipeline;
pub mod switch;
pub mod table;

use linerate_openflow::{text, wire};

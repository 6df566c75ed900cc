//! What becomes of a packet: the way through the tables, and what it comes to.
//!
//! [`decide`] is the slow path. It walks the tables of a [`Snapshot`](crate::table::Snapshot) for one
//! key and returns a [`Decision`]: steps that are simple to carry out, and which bits of the key they
//! depend on, so that they hold for every packet with the same ones.

mod decision;

pub use decision::{Continuation, Decision, Depends, Punt, Rest, Select, Step};

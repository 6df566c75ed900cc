//! The OpenFlow channel: controllers of ours that behave and that do not, and those of others.

mod channel;
mod controller;
mod tls;

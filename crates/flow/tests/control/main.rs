//! The OpenFlow channel: controllers of ours that behave and that do not, and those of others.

mod beside;
mod channel;
mod clients;
mod controller;
#[path = "../exercise/controller.rs"]
mod exercise;
mod protocol;
mod tls;

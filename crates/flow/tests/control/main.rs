//! The OpenFlow channel: controllers of ours that behave and that do not, and those of others.

mod beside;
mod channel;
mod clients;
mod controller;
#[path = "../exercise/controller.rs"]
mod exercise;
mod hostile_switch;
mod monitors;
mod protocol;
mod strangers;
mod tls;
mod trust;

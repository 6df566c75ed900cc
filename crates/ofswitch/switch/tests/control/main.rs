//! The OpenFlow channel: controllers of ours that behave and that do not, and those of others.

mod beside;
mod channel;
mod clients;
mod controller;
#[path = "../exercise/controller.rs"]
mod exercise;
mod half_open;
mod hostile_switch;
mod monitors;
mod packets;
mod protocol;
mod tls;
mod trust;

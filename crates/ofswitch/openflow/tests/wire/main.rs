//! The codec beside others: messages that other programs wrote, and their reading of ours.

mod client;
#[path = "../exercise/mod.rs"]
mod exercise;
mod faults;
mod golden;
mod properties;
#[path = "../random/mod.rs"]
mod random;
mod readers;
mod samples;
mod versions;

//! Packets: what is read of their headers, and what becomes of them when those are changed.

mod edits;
#[path = "../exercise/packet.rs"]
mod exercise;
mod export;
mod extraction;
mod generate;
mod open_vswitch;
mod pcap;

//! Packets: extraction of header fields, and changes of headers.

mod edits;
#[path = "../exercise/packet.rs"]
mod exercise;
mod export;
mod extraction;
mod generate;
mod open_vswitch;
mod pcap;

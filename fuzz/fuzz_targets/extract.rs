//! Packets of the flow switch: the headers read from them, and the packets with those changed. The
//! first bytes choose the changes, the rest is a packet.
//!
//! The work and its assertions are those of the flow crate's tests.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/ofswitch/switch/tests/exercise/packet.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| {
    if let Some(packet) = data.get(33..) {
        exercise::packet(packet);
        exercise::set(data);
    }
});

//! OpenFlow's messages: whatever comes on a connection, and as one message whose header is right, so
//! that not all of an input is about finding one.
//!
//! The work and its assertions are those of the flow crate's property tests.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/openflow/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| {
    exercise::framed(data);
    exercise::stream(data);
});

//! OpenFlow's messages: any bytes on a connection, and as one message with a right header, so that
//! not all of an input is about finding one.
//!
//! The work and its assertions are those of the flow crate's property tests.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/ofswitch/openflow/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| {
    exercise::framed(data);
    exercise::stream(data);
});

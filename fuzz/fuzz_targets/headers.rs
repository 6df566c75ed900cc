//! Every header view, accessor and setter, flow keys, rewrites and checksums on arbitrary bytes.
//!
//! The work and its assertions are those of the packet crate's property tests. The input is taken as
//! a frame, and again from each place where a header could begin, so that the fuzzer reaches inner
//! headers without having to build valid outer ones.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/base/packet/tests/exercise/mod.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| {
    for offset in [0, 14, 18, 34, 54] {
        exercise::exercise(data.get(offset..).unwrap_or(&[]));
    }
});

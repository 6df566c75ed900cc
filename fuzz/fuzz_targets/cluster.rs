//! Malicious consumer of a cluster, driven by the bytes of an input, sharing memory or in memory of
//! its own, beside consumers that do as they should.
//!
//! The assertions are documented with the world, which tests use too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{isolate, show};

#[path = "../../crates/cluster/client/tests/hostile/mod.rs"]
mod hostile;

fuzz_target!(init: isolate(), |data: &[u8]| {
    show(format!("{data:?}"));
    hostile::World::new("@foul-cluster").run(data);
});

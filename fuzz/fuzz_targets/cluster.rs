//! A consumer of a cluster that plays foul, as the bytes of an input say, sharing memory or in memory of
//! its own, beside consumers that do as they should.
//!
//! What is asserted is said where the world is made, which tests have too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{isolate, show};

#[path = "../../crates/client/tests/hostile/mod.rs"]
mod hostile;

fuzz_target!(init: isolate(), |data: &[u8]| {
    show(format!("{data:?}"));
    hostile::World::new("@foul-cluster").run(data);
});

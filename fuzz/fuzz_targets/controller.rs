//! A controller that says anything to the agent of a small switch: nothing panics, answers can be read and
//! are bounded, and the switch keeps no more than it has room for.
//!
//! The work and its assertions are those of the flow crate's tests.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/ofswitch/switch/tests/exercise/controller.rs"]
mod exercise;

fuzz_target!(|data: &[u8]| exercise::controller(data));

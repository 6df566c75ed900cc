//! Programs of all kinds: the two forms beside each other, and beside the system's libpcap and kernel.

#![allow(unsafe_code, reason = "the system's libpcap is called, and memory is forbidden")]

mod corpus;
mod examples;
mod exercise;
mod expressions;
mod generate;
mod random;
mod system;

use super::{Instruction, Invalid, Metadata, Program};
use exercise::{Both, Edge};

/// A valid program in both forms.
#[track_caller]
fn both(instructions: &[Instruction]) -> Both {
    Both::new(instructions).expect("a valid program")
}

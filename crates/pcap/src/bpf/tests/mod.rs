//! Programs of all kinds: the two forms beside each other, and beside the system's libpcap and kernel.

#![allow(unsafe_code, reason = "the system's libpcap is called")]

mod corpus;
mod examples;
mod generate;
mod random;
mod system;

use linerate_filter::Instruction;

use super::Program;

/// A program in both forms.
#[derive(Debug)]
struct Both {
    program: Program,
    portable: Program,
}

impl Both {
    fn new(instructions: &[Instruction]) -> Both {
        let program = Program::new(instructions).expect("a valid program");
        let portable = Program::portable(instructions).expect("a valid program");
        Both { program, portable }
    }

    /// What both give.
    #[track_caller]
    fn accepts(&self, packet: &[u8], length: u32) -> u32 {
        let given = self.program.accepts(packet, length);
        let portable = self.portable.accepts(packet, length);
        assert_eq!(
            given, portable,
            "machine code, and portable: {self:02x?} on {packet:02x?} of {length}"
        );
        given
    }
}

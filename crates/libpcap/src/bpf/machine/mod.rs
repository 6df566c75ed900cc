//! The form for x86-64: machine code.

mod assembler;
mod memory;
mod order;
mod translate;

use super::{bounds::PACKET_MAX, check, metadata::Metadata, operation::Operation};
use memory::Executable;

/// A program as machine code.
#[derive(Debug)]
pub(super) struct Code(Executable);

impl Code {
    /// `None` where code cannot be made executable, for programs with loops, and for those with
    /// rare ancillary loads.
    pub(super) fn new(operations: &[Operation]) -> Option<Code> {
        let is_rare =
            |it: &Operation| matches!(it, Operation::Ancillary(which) if !which.is_packed());
        if check::turns(operations) || operations.iter().any(is_rare) {
            return None;
        }
        Executable::new(&translate::translate(operations)).map(Code)
    }

    /// Runs the program on a packet that had this length on its link; `None` for packets that are too
    /// long.
    #[inline]
    #[allow(unsafe_code, reason = "machine code is called")]
    pub(super) fn run(&self, packet: &[u8], length: u32, about: &Metadata) -> Option<u32> {
        if packet.len() > PACKET_MAX as usize {
            return None;
        }
        // SAFETY: the code is made by `translate`, of operations that come from the checker alone, and
        // the packet is short enough.
        Some(unsafe { self.0.run(packet, length, about.packed()) })
    }

    /// The instructions of the processor.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

//! The form for x86-64: machine code.

mod assembler;
mod memory;
mod order;
mod translate;

use super::{bounds::PACKET_MAX, check, operation::Operation};
use memory::Executable;

/// A program as machine code.
#[derive(Debug)]
pub(super) struct Code(Executable);

impl Code {
    /// `None` where code cannot be made executable, and for programs with loops.
    pub(super) fn new(operations: &[Operation]) -> Option<Code> {
        if check::turns(operations) {
            return None;
        }
        Executable::new(&translate::translate(operations)).map(Code)
    }

    /// What the program returns for a packet of this kind that had this length on its link; `None` for
    /// packets that are too long.
    #[inline]
    #[allow(unsafe_code, reason = "machine code is called")]
    pub(super) fn run(&self, packet: &[u8], length: u32, kind: u8) -> Option<u32> {
        if packet.len() > PACKET_MAX as usize {
            return None;
        }
        // SAFETY: the code is made by `translate`, of operations that come from the checker alone, and
        // the packet is short enough.
        Some(unsafe { self.0.run(packet, length, kind) })
    }

    /// The instructions of the processor.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

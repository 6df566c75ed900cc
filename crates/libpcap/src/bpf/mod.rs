//! Filters as programs of classic BPF: checked once, translated once, and run on each packet.
//!
//! A program decides as libpcap's `bpf_filter` does, on every packet. It is checked before, and a
//! program that the kernel or libpcap would not run is not run either, with two exceptions and one
//! restriction that [`Invalid`] and the checker say. Then it has one of two forms:
//!
//! - machine code for x86-64, in memory that can no longer be written, which looks as rarely as can
//!   be whether a packet is long enough;
//! - steps in safe Rust elsewhere, where a system gives no executable memory, and for programs with loops.
//!
//! `cargo test -p linerate-pcap bpf` compares both with each other and, as root, with the system's
//! libpcap and kernel.

#![deny(unsafe_code)]

mod bounds;
mod check;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "machine code is put in memory and called")]
mod machine;
mod metadata;
mod operation;
mod portable;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use check::{INSTRUCTIONS_MAX, Invalid};
pub use linerate_filter::Instruction;
pub use metadata::{Metadata, VlanTag};
use portable::Steps;

/// A program that has been checked.
#[derive(Debug, Clone)]
pub struct Program(Arc<Forms>);

#[derive(Debug)]
struct Forms {
    #[cfg(target_arch = "x86_64")]
    code: Option<machine::Code>,
    steps: Steps,
}

impl Program {
    /// Checks and translates a program. Takes some microseconds, and a page of memory where it becomes
    /// machine code.
    ///
    /// # Errors
    ///
    /// When it must not be run.
    pub fn new(instructions: &[Instruction]) -> Result<Program, Invalid> {
        let operations = check::check(instructions)?;
        Ok(Program(Arc::new(Forms {
            #[cfg(target_arch = "x86_64")]
            code: machine::Code::new(&operations),
            steps: Steps::new(&operations),
        })))
    }

    /// As [`Program::new`], but never as machine code.
    ///
    /// # Errors
    ///
    /// As of [`Program::new`].
    pub fn portable(instructions: &[Instruction]) -> Result<Program, Invalid> {
        let operations = check::check(instructions)?;
        Ok(Program(Arc::new(Forms {
            #[cfg(target_arch = "x86_64")]
            code: None,
            steps: Steps::new(&operations),
        })))
    }

    /// Bytes of a packet that are wanted: 0 when it is not. `packet` are the bytes there are of the
    /// packet, which had `wire_len` on its link; it has no metadata. Costs some nanoseconds and
    /// allocates nothing.
    #[inline]
    pub fn accepts(&self, packet: &[u8], wire_len: u32) -> u32 {
        self.accepts_with(packet, wire_len, &Metadata::default())
    }

    /// Does [`accepts`](Self::accepts) with the packet's metadata, which `inbound`, `vlan` and other filters
    /// of an interface load.
    #[inline]
    pub fn accepts_with(&self, packet: &[u8], wire_len: u32, metadata: &Metadata) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if let Some(code) = &self.0.code
            && let Some(bytes) = code.run(packet, wire_len, metadata)
        {
            return bytes;
        }
        self.0.steps.run(packet, wire_len, metadata).unwrap_or(0)
    }

    /// The machine code it has become, if it has.
    pub fn machine_code(&self) -> Option<&[u8]> {
        #[cfg(target_arch = "x86_64")]
        return self.0.code.as_ref().map(machine::Code::bytes);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

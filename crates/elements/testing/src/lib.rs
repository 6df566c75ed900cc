//! Runs configurations for tests, with the elements that a crate's tests need.
//!
//! [`Run`] has this crate's own elements and those given by [`Run::with`]; a crate whose tests share
//! a library names it once, as a [`TestLibrary`]. Time is simulated.
//!
//! Elements for tests: `Packets` sends packets given in hexadecimal digits, one a word and `-` for an
//! empty one, all at once or one an `INTERVAL`, and ends the run. `Collect` keeps the bytes of
//! packets: its handler `packets` shows each as a line of hexadecimal digits, `lengths` its length,
//! `times` the time of its arrival, in nanoseconds since simulated time began. `MarkNetwork` marks the
//! place of the network header, `Destination` sets the destination annotation.
//!
//! ```
//! use linerate_elements_testing::Run;
//! use linerate_graph::{Arguments, Class, PacketMut, Step, Verdict};
//!
//! const FIRST_BYTE: Class = Class { name: "FirstByte", ports: "1/1", ..FirstByte::CLASS };
//!
//! #[derive(Arguments)]
//! struct FirstByte {
//!     /// the byte
//!     #[arg(kind = "0 to 255")]
//!     byte: u8,
//! }
//!
//! impl Step for FirstByte {
//!     fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
//!         packet.bytes_mut()[0] = self.byte;
//!         Ok(())
//!     }
//! }
//!
//! let mut run = Run::new("Packets(0102 0304) -> FirstByte(255) -> c :: Collect").with(&[&FIRST_BYTE]);
//! run.run();
//! assert_eq!(run.read("c.packets"), "ff02\nff04");
//! ```
#![forbid(unsafe_code)]

mod classes;
mod conversation;
mod documented;
mod run;
mod scratch;

pub use conversation::{connect, conversation, talk};
pub use documented::assert_documented;
pub use run::{Run, RunWith, TestLibrary, from_families};
pub use scratch::Scratch;

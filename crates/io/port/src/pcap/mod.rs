//! Capture files: reading and writing pcap and pcapng.
//!
//! [`Reader`] delivers the records of either format one by one from a file or a pipe, in bounded
//! memory. [`Writer`] writes either format; [`Rotating`] splits the records written over several
//! files.
//!
//! The port `pcap:FILE` replays and records such files.
//!
//! Unless asked otherwise ([`ReadOptions`]) only Ethernet is read: a file of another link type is
//! refused with an error that says so. Compressed files are recognised and refused. Name resolution, secrets and statistics blocks are
//! passed over.
//!
//! Written here rather than taken from a library: pcap-file has had no release since 2023, and
//! pcap-parser leaves to its caller the parts that matter most for replay and for error texts (byte
//! offsets of corruption, a cut-off tail told apart from the end, per-section byte order and
//! clocks). The tests read the same files with pcap-parser, tshark and tcpdump and compare.

mod classic;
mod cooked;
mod driver;
mod error;
mod ng;
mod order;
mod pace;
mod reader;
mod record;
mod replay;
mod rotate;
mod source;
mod time;
mod window;
mod writer;

use std::path::Path;

pub(crate) use driver::DRIVER;
pub use error::{Corruption, Error, Fault};
pub use reader::{Interface, ReadOptions, Reader, Record, Tail};
pub use rotate::{Limits, Naming, Rotating};
pub use writer::{Counts, Options, Precision, Writer};

/// The registered link type of Ethernet.
pub const ETHERNET: u32 = 1;
/// The registered link type of Linux's cooked captures, version 2.
pub const LINUX_SLL2: u32 = 276;
/// The longest packet read or written: libpcap's largest snap length.
pub const MAX_PACKET: u32 = 262_144;
/// The most interfaces a file may describe.
pub const MAX_INTERFACES: usize = 65_536;

/// A capture file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The classic format, which every program reads.
    Pcap,
    /// The newer format, which also records interface names and drop counts.
    Pcapng,
}

impl Format {
    /// The format that a file name's extension asks for: `.pcapng` or `.ntar`, else pcap.
    pub fn from_path(path: &Path) -> Self {
        match path.extension() {
            Some(extension)
                if extension.eq_ignore_ascii_case("pcapng")
                    || extension.eq_ignore_ascii_case("ntar") =>
            {
                Self::Pcapng
            }
            _ => Self::Pcap,
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
        })
    }
}

impl std::str::FromStr for Format {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "pcap" => Ok(Self::Pcap),
            "pcapng" => Ok(Self::Pcapng),
            _ => Err(UnknownName { known: "pcap or pcapng" }),
        }
    }
}

impl std::str::FromStr for Precision {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "nano" => Ok(Self::Nano),
            "micro" => Ok(Self::Micro),
            _ => Err(UnknownName { known: "nano or micro" }),
        }
    }
}

/// A format or precision that there is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {known}")]
pub struct UnknownName {
    known: &'static str,
}

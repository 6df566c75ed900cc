//! Errors of capture files, by the action that is left to the caller.
//!
//! A file that merely stops in the middle of a record is not an error: see
//! [`Reader::tail`](super::Reader::tail).

use std::io;
use std::path::{Path, PathBuf};

/// A capture file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", file.display())]
pub struct Error {
    /// The file as the caller named it (`-` for standard input or output).
    pub file: PathBuf,
    /// The fault.
    #[source]
    pub fault: Fault,
}

impl Error {
    pub(super) fn new(file: &Path, fault: impl Into<Fault>) -> Self {
        Self { file: file.to_owned(), fault: fault.into() }
    }
}

/// The advice for a file that could not be opened, where the error has none.
fn opening_advice(error: &io::Error) -> &'static str {
    use io::ErrorKind::{NotFound, PermissionDenied};
    match error.kind() {
        NotFound | PermissionDenied => "; check the path and its permissions",
        _ => "",
    }
}

/// Fault of a capture file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file could not be opened or created.
    #[error("cannot open: {0}{advice}", advice = opening_advice(.0))]
    Open(#[source] io::Error),
    /// The operating system failed to deliver bytes.
    #[error("cannot read at byte {offset}: {source}")]
    Read {
        /// Bytes read before the failure.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The operating system failed to take bytes.
    #[error("cannot write after byte {offset}: {source}; what was written before is intact")]
    Write {
        /// Bytes written before the failing write.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// A write was tried after an earlier one had failed.
    #[error("writing stopped after an earlier error; open a new file to go on")]
    Stopped,
    /// The file has no bytes at all.
    #[error("the file is empty; a capture has at least a file header, so record it again")]
    Empty,
    /// The file is compressed.
    #[error("the file is compressed with {program}; pipe it in: {program} -dc FILE | ... -")]
    Compressed {
        /// The program that unpacks it.
        program: &'static str,
    },
    /// The file does not start like a capture.
    #[error(
        "neither pcap nor pcapng (the first bytes are {start:02x?}); \
         convert it with: editcap -F pcapng FILE NEW"
    )]
    NotACapture {
        /// The first bytes, at most four.
        start: Vec<u8>,
    },
    /// The file ends inside its own header, so there is not one record to read.
    #[error("the file ends inside its header ({have} of {need} bytes); record it again")]
    ShortHeader {
        /// Bytes there are.
        have: u64,
        /// Bytes the header takes.
        need: u64,
    },
    /// The header names a version of the format that this reader does not know.
    #[error(
        "format version {major}.{minor} is not supported; \
         convert it with: editcap -F pcapng FILE NEW"
    )]
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// The packets are not Ethernet frames.
    #[error(
        "interface {interface} recorded link type {link}{}, not Ethernet (1); \
         capture on an Ethernet interface or convert the file",
        link_name(*link)
    )]
    Link {
        /// Interface number within the file.
        interface: u32,
        /// The registered link type.
        link: u32,
    },
    /// A field contradicts the format. Nothing from this byte on was delivered.
    #[error(
        "corrupt at byte {offset}: {what}; everything before is intact, \
         keep it with: head -c {offset} FILE > NEW"
    )]
    Corrupt {
        /// Start of the record or block that is corrupt.
        offset: u64,
        /// The contradiction.
        what: Corruption,
    },
    /// Files cannot be rotated as asked for.
    #[error("{reason}")]
    Rotation {
        /// The reason, and the next step.
        reason: &'static str,
    },
    /// A timestamp does not fit into the format being written.
    #[error("timestamp {ts_ns} ns is after the year 2106, the end of pcap; write pcapng instead")]
    Timestamp {
        /// The timestamp that was to be written.
        ts_ns: u64,
    },
}

/// The contradiction found in a corrupt record or block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    /// A packet is larger than any capture program records.
    #[error("a packet of {length} bytes (at most {} are possible)", super::MAX_PACKET)]
    PacketLength {
        /// The captured length found.
        length: u32,
    },
    /// More bytes were captured than the packet had.
    #[error("{captured} bytes captured of a packet of {original}")]
    LongerThanOriginal {
        /// The captured length found.
        captured: u32,
        /// The original length found.
        original: u32,
    },
    /// The fraction of a timestamp is more than a second.
    #[error("a timestamp fraction of {value} where {limit} make a second")]
    Fraction {
        /// The fraction found.
        value: u32,
        /// The largest value met in sound files.
        limit: u32,
    },
    /// A timestamp is before 1970 or after 2554.
    #[error("a timestamp outside the years 1970 to 2554")]
    Timestamp,
    /// A block length is too small, too large or not a multiple of four.
    #[error("a block of type {kind:#x} with the impossible length {length}")]
    BlockLength {
        /// The block type.
        kind: u32,
        /// The total length found.
        length: u32,
    },
    /// The two copies of a block's length differ.
    #[error("block length {head} at its start, {tail} at its end")]
    LengthMismatch {
        /// Length at the start of the block.
        head: u32,
        /// Length at its end.
        tail: u32,
    },
    /// A packet claims more bytes than its block has.
    #[error("a packet of {captured} bytes in a block with room for {room}")]
    PacketOutsideBlock {
        /// The captured length found.
        captured: u32,
        /// Bytes the block has for it.
        room: u32,
    },
    /// The options after a block's fixed part run past its end.
    #[error("an option that runs past the end of its block")]
    Options,
    /// A section header has no valid byte-order mark.
    #[error("a section with byte-order mark {magic:#010x}")]
    ByteOrder {
        /// The mark found.
        magic: u32,
    },
    /// A packet names an interface that was not described before it.
    #[error("a packet of interface {id} where {known} are described")]
    UnknownInterface {
        /// The interface found.
        id: u32,
        /// Interfaces described so far in this section.
        known: u32,
    },
    /// More interfaces than any real capture has.
    #[error("more than {} interfaces", super::MAX_INTERFACES)]
    TooManyInterfaces,
    /// A timestamp resolution that 64-bit timestamps cannot have.
    #[error("timestamp resolution {value:#04x}")]
    Resolution {
        /// The option's value.
        value: u8,
    },
}

/// The names of the link types people meet most, for the error text.
fn link_name(link: u32) -> &'static str {
    match link {
        0 => " (BSD loopback)",
        9 => " (PPP)",
        101 => " (raw IP)",
        105 => " (IEEE 802.11)",
        113 => " (Linux cooked, from the device \"any\")",
        127 => " (IEEE 802.11 with radiotap)",
        195 | 230 => " (IEEE 802.15.4)",
        220 | 189 => " (USB)",
        228 => " (raw IPv4)",
        229 => " (raw IPv6)",
        276 => " (Linux cooked version 2, from the device \"any\")",
        _ => "",
    }
}

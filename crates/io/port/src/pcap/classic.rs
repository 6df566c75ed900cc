//! Reading the classic pcap format: a 24-byte file header, then records.
//!
//! Source: draft-ietf-opsawg-pcap; for old files libpcap's description of versions before 2.4, which
//! stored the two lengths the other way round, and of the "modified" format of old Linux patches,
//! whose record headers carry eight more bytes.
//!
//! The format has neither checksums nor record marks, so after a corrupt length everything that
//! follows is misread. Each record header is therefore held to all that a true one must satisfy.

use super::MAX_PACKET;
use super::error::{Corruption, Fault};
use super::order::Order;
use super::reader::{Head, Interface, ReadOptions, Step};
use super::window::Window;

/// Bytes of the file header.
pub(super) const FILE_HEADER: usize = 24;

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// Order of the two length fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    /// Captured first: version 2.4.
    CapturedFirst,
    /// Original first: versions before 2.3.
    OriginalFirst,
    /// Version 2.3 had writers of both kinds; the smaller one is the captured length.
    Smaller,
}

/// Layout of the records of one file.
#[derive(Debug)]
pub(super) struct Classic {
    order: Order,
    /// Units of the timestamp fraction in a second.
    fraction_limit: u32,
    /// Nanoseconds per unit of the fraction.
    fraction_ns: u64,
    record_header: usize,
    lengths: Lengths,
    /// Whether a captured length above the original one is cut to it.
    overlong: bool,
}

/// Recognises the magic number: byte order, units per second, record header size.
fn recognise(start: [u8; 4]) -> Option<(Order, u32, usize)> {
    [Order::Little, Order::Big].into_iter().find_map(|order| match order.u32(&start, 0) {
        MICRO => Some((order, 1_000_000, 16)),
        NANO => Some((order, 1_000_000_000, 16)),
        MODIFIED => Some((order, 1_000_000, 24)),
        _ => None,
    })
}

/// Returns true if a file that starts with these bytes is a classic pcap file.
pub(super) fn is_classic(start: [u8; 4]) -> bool {
    recognise(start).is_some()
}

impl Classic {
    /// Reads the file header, which starts with a magic number [`is_classic`] has accepted.
    pub(super) fn open(
        window: &mut Window,
        options: &ReadOptions,
    ) -> Result<(Self, Interface), Fault> {
        if !window.need(FILE_HEADER).map_err(|source| Fault::Read { offset: 0, source })? {
            let have = window.bytes().len() as u64;
            return Err(Fault::ShortHeader { have, need: FILE_HEADER as u64 });
        }
        let header = &window.bytes()[..FILE_HEADER];
        let start = [header[0], header[1], header[2], header[3]];
        let Some((order, fraction_limit, record_header)) = recognise(start) else {
            return Err(Fault::NotACapture { start: start.to_vec() });
        };
        let (major, minor) = (order.u16(header, 4), order.u16(header, 6));
        let lengths = match (major, minor) {
            (2, 4) => Lengths::CapturedFirst,
            (2, 3) => Lengths::Smaller,
            (2, 0..=2) => Lengths::OriginalFirst,
            _ => return Err(Fault::Version { major, minor }),
        };
        let snaplen = order.u32(header, 16);
        let network = order.u32(header, 20);
        // Link type in the low 26 bits, then "FCS length is known", then that length in 16-bit words.
        let link = network & 0x03ff_ffff;
        let fcs_length = if network & 0x0400_0000 != 0 { (network >> 28) as u8 * 2 } else { 0 };
        if !options.takes(link) {
            return Err(Fault::Link { interface: 0, link });
        }
        window.consume(FILE_HEADER);
        let fraction_ns = u64::from(1_000_000_000 / fraction_limit);
        let overlong = options.overlong;
        let layout = Self { order, fraction_limit, fraction_ns, record_header, lengths, overlong };
        Ok((layout, Interface { name: None, link, snaplen, fcs_length }))
    }

    /// Reads the next record header and makes the whole record available.
    pub(super) fn step(&self, window: &mut Window) -> Result<Step, Fault> {
        let offset = window.offset();
        let read = |source| Fault::Read { offset, source };
        let corrupt = |what| Err(Fault::Corrupt { offset, what });
        if !window.need(self.record_header).map_err(read)? {
            return Ok(Step::End { need: self.record_header as u64 });
        }
        let Some(header) = window.bytes().first_chunk::<16>() else {
            return Ok(Step::End { need: self.record_header as u64 });
        };
        let seconds = self.order.u32(header, 0);
        let fraction = self.order.u32(header, 4);
        let (first, second) = (self.order.u32(header, 8), self.order.u32(header, 12));
        let (captured, original) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::OriginalFirst => (second, first),
            Lengths::Smaller => (first.min(second), first.max(second)),
        };
        if captured > MAX_PACKET {
            return corrupt(Corruption::PacketLength { length: captured });
        }
        if captured > original && !self.overlong {
            return corrupt(Corruption::LongerThanOriginal { captured, original });
        }
        // Equal is a whole second: scapy writes that where it rounds up.
        if fraction > self.fraction_limit {
            return corrupt(Corruption::Fraction { value: fraction, limit: self.fraction_limit });
        }
        let size = self.record_header + captured as usize;
        if !window.need(size).map_err(read)? {
            return Ok(Step::End { need: size as u64 });
        }
        Ok(Step::Record(Head {
            ts_ns: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * self.fraction_ns,
            original,
            interface: 0,
            data: self.record_header..self.record_header + captured.min(original) as usize,
            size,
        }))
    }
}

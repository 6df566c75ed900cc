//! Packets as lines of text, as tcpdump writes them.
//!
//! `link` has frames, tags and ARP, `cooked` packets of several interfaces, `network` IPv4 and
//! IPv6, `extensions` the extension headers of IPv6, `transport` their payloads, and `application`
//! requests and answers of DNS and HTTP, `dhcp` those of DHCP; `neighbors` has neighbour discovery,
//! `multicast` multicast listener discovery. `conversations` has the first sequence numbers, to which
//! later ones are relative. `printer` writes a line for each packet on its way to a port. Numbers are
//! never looked up: the text is that of `tcpdump -n`.

mod application;
mod conversations;
mod cooked;
mod dhcp;
mod extensions;
mod link;
mod multicast;
mod neighbors;
mod network;
mod printer;
mod transport;

use std::fmt::Write as _;

use conversations::Conversations;
use cooked::{Arrival, Interfaces};
pub(crate) use printer::printing;

/// Options of the text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Shows Ethernet addresses and types.
    pub(crate) link: bool,
    /// Format of the time: the number of `-t`.
    pub(crate) time: u8,
    /// Bytes of the packet that are shown.
    pub(crate) bytes: Bytes,
    /// For programs: an object a line.
    pub(crate) json: bool,
    /// Level of decoding: the number of `-v`.
    pub(crate) verbose: u8,
    /// Shows sequence numbers as packets have them, not relative to the first.
    pub(crate) absolute: bool,
}

/// Bytes of a packet that are written below its line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// None.
    #[default]
    None,
    /// All behind the Ethernet header, in hexadecimal.
    Hex,
    /// In hexadecimal digits, and as text.
    HexAndText,
    /// As text alone, with its tabs and ends of lines.
    Text,
}

/// Writes packets in a style, one after the other.
#[derive(Debug, Default)]
pub(crate) struct View {
    style: Style,
    conversations: Conversations,
    interfaces: Interfaces,
}

impl View {
    pub(crate) fn new(style: Style) -> View {
        View { style, ..View::default() }
    }

    /// Writes the line of a packet that had so many bytes more when it was captured, without its end;
    /// lines, where more is decoded. `arrival` is that of one among several interfaces.
    pub(crate) fn line(
        &mut self,
        packet: &[u8],
        missing: usize,
        arrival: Option<Arrival>,
        to: &mut String,
    ) {
        self.text(packet, missing, arrival, to);
        if self.style.bytes != Bytes::None {
            bytes(packet.get(link::HEADER..).unwrap_or_default(), self.style.bytes, to);
        }
    }

    /// Writes the line without the packet's bytes.
    fn text(&mut self, packet: &[u8], missing: usize, arrival: Option<Arrival>, to: &mut String) {
        match arrival {
            None => link::write(packet, missing, self, to),
            Some(arrival) => cooked::write(packet, missing, arrival, self, to),
        }
    }
}

/// Sixteen bytes a line, or lines as they are in the text.
fn bytes(bytes: &[u8], which: Bytes, to: &mut String) {
    if which == Bytes::Text {
        to.push('\n');
        to.extend(text(bytes));
        return;
    }
    for (row, bytes) in bytes.chunks(16).enumerate() {
        let pairs = pairs(bytes);
        let _ = write!(to, "\n\t0x{:04x}: {pairs}", 16 * row);
        if which == Bytes::HexAndText {
            let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
            let text: String = bytes.iter().map(shown).collect();
            let _ = write!(to, "{:width$}{text}", "", width = 42 - pairs.len());
        }
    }
}

/// Bytes in hexadecimal, sixteen a line, each line behind `before`.
fn dump(bytes: &[u8], before: &str, to: &mut String) {
    for (row, bytes) in bytes.chunks(16).enumerate() {
        let _ = write!(to, "{before}0x{:04x}: {}", 16 * row, pairs(bytes));
    }
}

fn pairs(bytes: &[u8]) -> String {
    bytes.chunks(2).map(|pair| format!(" {}", hexadecimal(pair))).collect()
}

/// Bytes as text, without the carriage returns in front of its ends of lines.
fn text(bytes: &[u8]) -> impl Iterator<Item = char> {
    bytes.iter().enumerate().filter_map(|(at, byte)| match byte {
        b'\r' if bytes.get(at + 1).is_none_or(|next| *next == b'\n') => None,
        b'\t' | b'\n' | b' ' => Some(char::from(*byte)),
        byte if byte.is_ascii_graphic() => Some(char::from(*byte)),
        _ => Some('.'),
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number in network order at a place, if it is there.
fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<SIZE>()?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests;

//! Packets as lines of text, as tcpdump writes them.
//!
//! `link` has frames, tags and ARP, `network` IPv4 and IPv6, `transport` what they carry; what
//! is inside of TCP and UDP is not looked at. `printer` writes a line for each packet on its way
//! to a port. Numbers are never looked up, and sequence numbers are the packets' own: the text
//! is that of `tcpdump -n -S`.

mod link;
mod network;
mod printer;
mod transport;

use std::fmt::Write as _;

pub(crate) use printer::printing;

/// How packets are written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// With Ethernet addresses and types.
    pub(crate) link: bool,
    /// With the time: how often `-t` was given.
    pub(crate) time: u8,
    /// With the packet's bytes.
    pub(crate) bytes: Bytes,
}

/// Which bytes of a packet are written below its line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// None.
    #[default]
    None,
    /// All behind the Ethernet header, in hexadecimal.
    Hex,
    /// The same, and as text.
    HexAndText,
    /// The same as text alone, with its tabs and ends of lines.
    Text,
}

/// Writes the line of a packet that had so many bytes more when it was captured, without its end.
pub(crate) fn line(packet: &[u8], missing: usize, style: Style, to: &mut String) {
    link::write(packet, missing, style.link, to);
    if style.bytes != Bytes::None {
        bytes(packet.get(link::HEADER..).unwrap_or_default(), style.bytes, to);
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
        let pairs: String = bytes.chunks(2).map(|pair| format!(" {}", hexadecimal(pair))).collect();
        let _ = write!(to, "\n\t0x{:04x}: {pairs}", 16 * row);
        if which == Bytes::HexAndText {
            let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
            let text: String = bytes.iter().map(shown).collect();
            let _ = write!(to, "{:width$}{text}", "", width = 42 - pairs.len());
        }
    }
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

//! Filters in tcpdump's language (pcap-filter(7)), for Ethernet frames.
//!
//! An expression becomes a tree that is walked for each packet, and not a program of
//! `IPFilter`: this language finds headers by Ethertype and refuses packets too short for
//! a load even below `not`, where that one wants headers found before. What it accepts is
//! what libpcap's program for a capture file accepts: a packet too short for
//! something that is asked for is refused, also below a `not`. What needs a name
//! server, the state of an interface, or another link than Ethernet is refused when
//! it is read, by name.
//!
//! Behind the first `vlan`, in the order of writing, everything else is looked for
//! behind the tag, as libpcap has it.

mod calculate;
mod lex;
mod parse;
mod primitives;
#[cfg(test)]
mod tests;
mod tree;

pub(super) use parse::Names;
use tree::Tree;

/// A filter that has been read.
#[derive(Debug)]
pub(super) struct CaptureFilter(Tree);

impl CaptureFilter {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or cannot be had.
    pub(super) fn new(text: &str, names: Names<'_>) -> Result<CaptureFilter, String> {
        parse::parse(lex::words(text)?, names).map(CaptureFilter)
    }

    /// Whether a packet is wanted.
    pub(super) fn accepts(&self, packet: &[u8]) -> bool {
        self.0.holds(packet).unwrap_or(false)
    }
}

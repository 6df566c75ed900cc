//! Filters in tcpdump's language (pcap-filter(7)), for Ethernet frames and packets of IP alone:
//! decided on packets in memory, by the kernel as a program of classic BPF, or by an interpreter of
//! one.
//!
//! An expression becomes a tree that is walked for each packet, and not a program of `IPFilter`:
//! this language finds headers by Ethertype and refuses packets too short for a load even below
//! `not`, where that one wants headers found before. It accepts the packets that libpcap's program
//! for a capture file accepts: a packet too short for bytes that are asked for is refused, also
//! below a `not`. Primitives that need the state of a socket (`inbound`, `ifindex`) or yet another
//! link are refused when they are read, in libpcap's words. The caller resolves names ([`Names`]).
//!
//! Behind the first `vlan`, in the order of writing, everything else is looked for behind the tag,
//! as libpcap has it, and so behind a label of `mpls`, inside of a session of `pppoes`, and inside
//! of a tunnel of `geneve`. Where that tag is known besides the packet ([`Link::Untagged`]) they
//! are looked for at their offsets without it. A filter that has tests of the inside beside
//! `geneve` (`geneve or ip`) has no tunnel to look into: then all places are 0.
//!
//! Of libpcap's language for Ethernet, `byte N & M` and `byte N | M` are missing, which there look
//! at no packet.

#![forbid(unsafe_code)]

mod calculate;
mod calculation;
mod chain;
pub mod code;
mod encapsulation;
#[cfg(test)]
mod examples;
mod lex;
#[cfg(test)]
mod links;
mod names;
mod offset_slots;
mod parse;
mod primitives;
mod program;
mod refused;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_tcpdump;
#[cfg(test)]
mod tests_tunnels;
mod tree;

pub use calculation::Calculation;
pub use names::Names;
use offset_slots::{NoMetadata, PacketMetadata};
use parse::Parsed;
use program::Target;
pub use program::{INSTRUCTIONS_MAX, Instruction};
use tree::Tree;

/// First header of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A header of Ethernet.
    Ethernet,
    /// A header of Ethernet without its outer VLAN tag, which is metadata: as Linux gives frames to the filter of a
    /// socket. Of a frame in memory with its tag in it [`Filter::accepts_tagged`] says what a socket would.
    Untagged,
    /// A header of IPv4 or IPv6 (`DLT_RAW`).
    Raw,
}

/// A filter that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    tree: Tree,
    calculates: bool,
    /// Number of places in a packet that its conditions find.
    places: u8,
    /// Whether the outer tag of frames is known besides.
    has_tag_beside: bool,
}

/// Types of the tags that Linux takes out of frames.
const TAKEN_OUT: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
/// Offset of the outer tag of an Ethernet frame, and of its end.
const TAG: usize = 12;
const BEHIND_TAG: usize = TAG + tree::VLAN_TAG_LENGTH as usize;

impl Filter {
    /// Reads an expression about Ethernet frames.
    ///
    /// # Errors
    ///
    /// The fault of the expression, or the feature that cannot be had.
    pub fn new(text: &str, names: Names<'_>) -> Result<Filter, String> {
        Filter::on(Link::Ethernet, text, names)
    }

    /// Reads an expression about packets of a link.
    ///
    /// # Errors
    ///
    /// As of [`Filter::new`], and primitives that do not exist on that link.
    pub fn on(link: Link, text: &str, names: Names<'_>) -> Result<Filter, String> {
        let Parsed { tree, calculates, places } = parse::parse(lex::words(text)?, link, names)?;
        Ok(Filter { tree, calculates, places, has_tag_beside: link == Link::Untagged })
    }

    /// Returns true if a packet is wanted.
    pub fn accepts(&self, packet: &[u8]) -> bool {
        if self.places > 0 {
            return self.accepts_cut(packet, packet.len() as u32);
        }
        self.tree.holds(packet, NoMetadata).unwrap_or(false)
    }

    /// Returns true if a packet is wanted that had `length` bytes before a capture cut it.
    pub fn accepts_cut(&self, packet: &[u8], length: u32) -> bool {
        self.tree.holds(packet, &PacketMetadata::new(length)).unwrap_or(false)
    }

    /// Returns true if it is for frames whose outer tag is known besides them ([`Link::Untagged`]).
    pub fn has_tag_beside(&self) -> bool {
        self.has_tag_beside
    }

    /// Returns true if a frame with its outer tag in it is wanted, for a filter of frames that have
    /// it besides; `length` is that of the frame before a capture cut it. The frame is afterwards
    /// as it was.
    pub fn accepts_tagged(&self, frame: &mut [u8], length: u32) -> bool {
        let tag = frame.get(TAG..).and_then(|rest| rest.first_chunk::<4>().copied());
        let tag = tag.filter(|tag| self.has_tag_beside && TAKEN_OUT.contains(&[tag[0], tag[1]]));
        let Some(tag) = tag else { return self.accepts_cut(frame, length) };
        // Moving the addresses up to the bytes behind the tag makes a frame without it.
        let shift = BEHIND_TAG - TAG;
        frame.copy_within(..TAG, shift);
        let control = u16::from_be_bytes([tag[2], tag[3]]);
        let known = PacketMetadata::without_tag(length.saturating_sub(shift as u32), control);
        let is_wanted = self.tree.holds(&frame[shift..], &known).unwrap_or(false);
        frame.copy_within(shift..BEHIND_TAG, 0);
        frame[TAG..BEHIND_TAG].copy_from_slice(&tag);
        is_wanted
    }

    /// Returns true if it calculates with a packet's length or bytes, as `less 100` or
    /// `tcp[13] & 8 != 0` does: then it may decide otherwise on a packet than on several merged into
    /// one.
    pub fn calculates(&self) -> bool {
        self.calculates
    }

    /// The filter as a program for the kernel, where it can be one: where the kernel has enough
    /// instructions, and they calculate as the filter does. `protochain` goes through headers in a
    /// loop, which it does not have.
    pub fn program(&self) -> Option<Vec<Instruction>> {
        program::program(&self.tree, self.places, u32::MAX, Target::Kernel)
    }

    /// The filter as a program for an interpreter like libpcap's, which gives so many bytes of the
    /// packets wanted. It may be of any length, and goes backwards for `protochain`. `None` where
    /// it would need more scratch memory than there is.
    pub fn bytecode(&self, bytes: u32) -> Option<Vec<Instruction>> {
        program::program(&self.tree, self.places, bytes, Target::Interpreter)
    }
}

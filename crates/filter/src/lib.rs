//! Filters in tcpdump's language (pcap-filter(7)), for Ethernet frames: decided on packets in
//! memory, or by the kernel as a program of classic BPF.
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
//! behind the tag, as libpcap has it, and so behind a label of `mpls` and inside of a
//! session of `pppoes`.
//!
//! Of what libpcap takes for Ethernet there is no `geneve`, no `protochain`, no `ip
//! broadcast`, no `l1` and its kin, no hosts of `DECnet`, and no names of hosts and networks.

#![forbid(unsafe_code)]

#[cfg(test)]
mod beside_tcpdump;
mod calculate;
mod lex;
mod parse;
mod primitives;
mod program;
#[cfg(test)]
mod tests;
mod tree;

pub use parse::Names;
pub use program::{INSTRUCTIONS_MAX, Instruction};
use tree::Tree;

/// A filter that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    tree: Tree,
    calculates: bool,
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or cannot be had.
    pub fn new(text: &str, names: Names<'_>) -> Result<Filter, String> {
        let (tree, calculates) = parse::parse(lex::words(text)?, names)?;
        Ok(Filter { tree, calculates })
    }

    /// Whether a packet is wanted.
    pub fn accepts(&self, packet: &[u8]) -> bool {
        self.tree.holds(packet).unwrap_or(false)
    }

    /// Whether it calculates with a packet's length or bytes, as `less 100` and `tcp[13] & 8 != 0`:
    /// then it may decide otherwise on a packet than on several merged into one.
    pub fn calculates(&self) -> bool {
        self.calculates
    }

    /// The same as a program for the kernel, where it can be one: where the
    /// kernel has enough instructions, and they calculate what is asked for.
    pub fn program(&self) -> Option<Vec<Instruction>> {
        program::program(&self.tree)
    }
}

//! What makes an IPv4 header sound, and what is noted of one that is.

use std::net::Ipv4Addr;

use linerate_graph::{Ipv4OrPrefix, Make, Scope, Value};
use linerate_memory::PacketMut;
use linerate_packet::checksum;

use super::header::{DESTINATION, LEAST, SOURCE, TOTAL_LENGTH, get_four};

/// What is wrong with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Tiny,
    Version,
    HeaderLength,
    Length,
    Checksum,
    Source,
}

impl Reason {
    pub(super) const COUNT: usize = 6;
    /// In the order of their numbers.
    pub(super) const ALL: [Reason; Reason::COUNT] = [
        Reason::Tiny,
        Reason::Version,
        Reason::HeaderLength,
        Reason::Length,
        Reason::Checksum,
        Reason::Source,
    ];
    /// Drop reasons: theirs, and one more.
    pub(super) const DROPS: &[&str] = &[
        "tiny packet",
        "bad IP version",
        "bad IP header length",
        "bad IP length",
        "bad IP checksum",
        "bad source address",
        "no buffer",
    ];
    pub(super) const NO_BUFFER: usize = Reason::COUNT;

    pub(super) fn text(self) -> &'static str {
        Reason::DROPS[self as usize]
    }
}

/// Addresses and prefixes with spaces between them: sources they make bad, and
/// destinations they make good.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    bad_sources: Vec<Ipv4Addr>,
    good_destinations: Vec<Ipv4Addr>,
}

impl Value for Interfaces {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<Interfaces, String> {
        let mut interfaces = Interfaces::default();
        for word in text.split_ascii_whitespace() {
            let Ipv4OrPrefix(prefix) = Ipv4OrPrefix::parse(word, scope)?;
            let broadcast = (prefix.address & prefix.mask) | !prefix.mask;
            interfaces.bad_sources.push(broadcast);
            interfaces.good_destinations.push(prefix.address);
        }
        interfaces.bad_sources.extend(NOBODY);
        Ok(interfaces)
    }
}

/// No packet comes from these.
const NOBODY: [Ipv4Addr; 2] = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST];

/// Source addresses to refuse, with those of nobody.
#[derive(Debug, Default)]
pub(super) struct OldBadSources(pub(super) Vec<Ipv4Addr>);

impl Value for OldBadSources {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<OldBadSources, String> {
        let mut sources = Vec::<Ipv4Addr>::parse(text, scope)?;
        sources.extend(NOBODY);
        Ok(OldBadSources(sources))
    }
}

/// What a header must be like.
#[derive(Debug)]
pub(super) struct Rules {
    checksum: bool,
    bad_sources: Vec<[u8; 4]>,
    good_destinations: Vec<[u8; 4]>,
    /// A bit per hash of a bad source: most good ones are told by it alone.
    hashes: u64,
}

/// One of 64 bits for an address.
#[inline(always)]
fn hash(address: [u8; 4]) -> u64 {
    1 << (u32::from_ne_bytes(address).wrapping_mul(0x9e37_79b1) >> 26)
}

impl Rules {
    /// From `INTERFACES`, `BADSRC`, `GOODDST` and, where the class has it,
    /// `CHECKSUM`.
    pub(super) fn from_args(make: &mut Make<'_>, checksum: bool) -> Rules {
        let checksum = make.or("CHECKSUM", checksum);
        Rules::with_old_sources(make, checksum, Vec::new())
    }

    /// The same, of a class that takes bad sources by their place as well.
    pub(super) fn with_old_sources(
        make: &mut Make<'_>,
        checksum: bool,
        old: Vec<Ipv4Addr>,
    ) -> Rules {
        let mut bad = old;
        let mut good = Vec::new();
        // The later of two that say the same thing counts.
        if let Some(interfaces) = make.get::<Interfaces>("INTERFACES") {
            bad = interfaces.bad_sources;
            good = interfaces.good_destinations;
        }
        if let Some(sources) = make.get::<Vec<Ipv4Addr>>("BADSRC") {
            bad = sources;
        }
        if let Some(destinations) = make.get::<Vec<Ipv4Addr>>("GOODDST") {
            good = destinations;
        }
        let bad_sources: Vec<[u8; 4]> = bad.iter().map(Ipv4Addr::octets).collect();
        let hashes = bad_sources.iter().fold(0, |bits, address| bits | hash(*address));
        let good_destinations = good.iter().map(Ipv4Addr::octets).collect();
        Rules { checksum, bad_sources, good_destinations, hashes }
    }

    /// Checks the header at `offset`, cuts off what is behind the IP packet, and
    /// notes the header's place and the destination.
    #[inline(always)]
    pub(super) fn check(&self, packet: &mut PacketMut<'_>, offset: usize) -> Result<(), Reason> {
        let bytes = packet.bytes();
        let rest = bytes.get(offset..).ok_or(Reason::Tiny)?;
        let head: &[u8; LEAST] = rest.first_chunk().ok_or(Reason::Tiny)?;
        let mut header = LEAST;
        // Nearly all begin like this.
        if head[0] != 0x45 {
            header = usize::from(head[0] & 15) * 4;
            if head[0] >> 4 != 4 {
                return Err(Reason::Version);
            } else if header < LEAST {
                return Err(Reason::HeaderLength);
            }
        }
        let length = usize::from(u16::from_be_bytes([head[TOTAL_LENGTH], head[TOTAL_LENGTH + 1]]));
        if length > rest.len() || length < header {
            return Err(Reason::Length);
        }
        if self.checksum {
            // Of a fixed length, for which the sum has no loop.
            let sound = match header {
                LEAST => checksum::verify(head),
                _ => checksum::verify(&rest[..header]),
            };
            if !sound {
                return Err(Reason::Checksum);
            }
        }
        let (source, destination) = (get_four(head, SOURCE), get_four(head, DESTINATION));
        if self.hashes & hash(source) != 0 && self.is_bad(source, destination) {
            return Err(Reason::Source);
        }
        packet.truncate(offset + length);
        let (_, meta) = packet.parts();
        meta.network = offset as u16;
        meta.transport = (offset + header) as u16;
        meta.destination[..4].copy_from_slice(&destination);
        Ok(())
    }

    #[cold]
    fn is_bad(&self, source: [u8; 4], destination: [u8; 4]) -> bool {
        self.bad_sources.contains(&source) && !self.good_destinations.contains(&destination)
    }
}

//! IP headers that are put in front of packets.

use std::net::Ipv4Addr;

use linerate_graph::{IpProtocol, Make, Scope, Value};
use linerate_memory::PacketMut;

use crate::ip::{CHECKSUM, DESTINATION, IDENT, LEAST, SOURCE, TOTAL_LENGTH};

/// A protocol by name or number; what is wrong with it is said as of a number.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProtocolNumber(pub i32);

impl Value for ProtocolNumber {
    fn parse(text: &str, scope: &Scope<'_>) -> Result<ProtocolNumber, String> {
        let known = IpProtocol::parse(text, scope).ok();
        match known.and_then(|IpProtocol(number)| i32::try_from(number).ok()) {
            Some(number) => Ok(ProtocolNumber(number)),
            None => i32::parse(text, scope).map(ProtocolNumber),
        }
    }
}

/// A header of which some fields differ between packets.
#[derive(Debug)]
pub struct Template {
    /// Its words of four bytes, as numbers: the fields that differ are zero.
    words: [u32; 5],
    /// Sum of its words of two bytes, without those that differ.
    sum: u32,
    /// Whether the destination is the annotation.
    annotated: bool,
    ident: u16,
}

impl Template {
    /// `head` without length, identification and checksum; without a
    /// destination where that is to be the annotation.
    pub fn new(make: &Make<'_>, head: [u8; LEAST], annotated: bool) -> Template {
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(head.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        // Replicas count from different numbers on.
        let replica = make.replica();
        let ident = (replica.index << 16) / replica.count.max(1);
        Template { words, sum: sum(&words), annotated, ident: ident as u16 }
    }

    /// The source address.
    pub fn source(&self) -> [u8; 4] {
        self.words[SOURCE / 4].to_be_bytes()
    }

    /// The destination address, unless it is the annotation.
    pub fn destination(&self) -> Option<[u8; 4]> {
        (!self.annotated).then_some(self.words[DESTINATION / 4].to_be_bytes())
    }

    /// Another source or destination.
    pub fn set_address(&mut self, at: usize, address: Option<[u8; 4]>) {
        self.words[at / 4] = u32::from_be_bytes(address.unwrap_or_default());
        if at == DESTINATION {
            self.annotated = address.is_none();
        }
        self.sum = sum(&self.words);
    }

    /// Identifications go on from those of another.
    pub fn take_ident(&mut self, other: &Template) {
        self.ident = other.ident;
    }

    /// Puts the header in front of a packet, `between` bytes before what was its first, and
    /// says where it is; `None` when there is no room. Source and destination come back.
    #[inline(always)]
    pub fn put(&mut self, packet: &mut PacketMut<'_>, between: usize) -> Option<[Ipv4Addr; 2]> {
        if !packet.prepend(LEAST + between) {
            return None;
        }
        packet.mark_headers(0, LEAST);
        let length = packet.len() as u16;
        let (bytes, meta) = packet.parts();
        let words = self.next(length, &mut meta.destination);
        // Word by word from registers: a header put together in memory would be read from there
        // before its fields have arrived.
        let head = bytes.first_chunk_mut::<LEAST>()?.as_chunks_mut().0;
        head.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_be_bytes());
        Some([SOURCE, DESTINATION].map(|at| Ipv4Addr::from_bits(words[at / 4])))
    }

    /// The header of a packet of that length. `annotation` is its destination
    /// annotation, which is set unless it is the destination.
    #[inline(always)]
    fn next(&mut self, length: u16, annotation: &mut [u8; 16]) -> [u32; 5] {
        let mut words = self.words;
        let mut sum = self.sum + u32::from(length) + u32::from(self.ident);
        words[TOTAL_LENGTH / 4] |= u32::from(length);
        words[IDENT / 4] |= u32::from(self.ident) << 16;
        self.ident = self.ident.wrapping_add(1);
        let [destination, ..] = annotation.as_chunks_mut::<4>().0 else { return words };
        if self.annotated {
            let address = u32::from_be_bytes(*destination);
            words[DESTINATION / 4] = address;
            sum += (address >> 16) + (address & 0xffff);
        } else {
            *destination = words[DESTINATION / 4].to_be_bytes();
        }
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        words[CHECKSUM / 4] |= u32::from(!(sum as u16));
        words
    }
}

/// The sum of all halves of words.
fn sum(words: &[u32; 5]) -> u32 {
    words.iter().map(|word| (word >> 16) + (word & 0xffff)).sum()
}

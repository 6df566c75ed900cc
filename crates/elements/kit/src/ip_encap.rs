//! IP headers that are put in front of packets.

use linerate_graph::{IpProtocol, Make, Scope, Value};
use linerate_memory::PacketMut;

use crate::ip::{CHECKSUM, DESTINATION, IDENT, LEAST, SOURCE, TOTAL_LENGTH, get_four, put16};

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
    head: [u8; LEAST],
    /// Sum of its words, without those that differ.
    sum: u32,
    /// Whether the destination is the annotation.
    annotated: bool,
    ident: u16,
}

impl Template {
    /// `head` without length, identification and checksum; without a
    /// destination where that is to be the annotation.
    pub fn new(make: &Make<'_>, head: [u8; LEAST], annotated: bool) -> Template {
        let words = head.chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
        // Replicas count from different numbers on.
        let replica = make.replica();
        let ident = (replica.index << 16) / replica.count.max(1);
        Template { head, sum: words.sum(), annotated, ident: ident as u16 }
    }

    /// The source address.
    pub fn source(&self) -> [u8; 4] {
        get_four(&self.head, SOURCE)
    }

    /// The destination address, unless it is the annotation.
    pub fn destination(&self) -> Option<[u8; 4]> {
        let given = get_four(&self.head, DESTINATION);
        (!self.annotated).then_some(given)
    }

    /// Another source or destination.
    pub fn set_address(&mut self, at: usize, address: Option<[u8; 4]>) {
        self.head[at..at + 4].copy_from_slice(&address.unwrap_or_default());
        if at == DESTINATION {
            self.annotated = address.is_none();
        }
        let words = self.head.chunks_exact(2);
        self.sum = words.map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    }

    /// Identifications go on from those of another.
    pub fn take_ident(&mut self, other: &Template) {
        self.ident = other.ident;
    }

    /// Puts the header in front of a packet, `between` bytes before what was its first, and
    /// says where it is; `None` when there is no room.
    #[inline(always)]
    pub fn put(&mut self, packet: &mut PacketMut<'_>, between: usize) -> Option<[u8; LEAST]> {
        if !packet.prepend(LEAST + between) {
            return None;
        }
        packet.mark_headers(0, LEAST);
        let length = packet.len() as u16;
        let (bytes, meta) = packet.parts();
        let head = self.next(length, &mut meta.destination);
        *bytes.first_chunk_mut()? = head;
        Some(head)
    }

    /// The header of a packet of that length. `annotation` is its destination
    /// annotation, which is set unless it is the destination.
    #[inline(always)]
    fn next(&mut self, length: u16, annotation: &mut [u8; 16]) -> [u8; LEAST] {
        let mut head = self.head;
        let mut sum = self.sum + u32::from(length) + u32::from(self.ident);
        put16(&mut head, TOTAL_LENGTH, length);
        put16(&mut head, IDENT, self.ident);
        self.ident = self.ident.wrapping_add(1);
        let destination = &mut head[DESTINATION..];
        if self.annotated {
            destination.copy_from_slice(&annotation[..4]);
            let [a, b, c, d, ..] = annotation.map(u32::from);
            sum += (a << 8 | b) + (c << 8 | d);
        } else {
            annotation[..4].copy_from_slice(destination);
        }
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        put16(&mut head, CHECKSUM, !(sum as u16));
        head
    }
}

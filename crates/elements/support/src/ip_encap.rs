//! Encapsulation: IP headers that are put in front of packets.

use linerate_graph::{ElementBuilder, IpProtocol, Scope, Value};
use linerate_memory::PacketMut;

use crate::ip::{CHECKSUM, DESTINATION, IDENT, LEAST, TOTAL_LENGTH, get_four};

/// A protocol by name or number; errors are those of a number.
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

    fn unparse(&self, _: &Scope<'_>) -> String {
        self.0.to_string()
    }
}

/// A header of which some fields differ between packets. Its bytes are in numbers whose lowest
/// byte is the first, so that a packet's fields are put into them and whole words are written.
#[derive(Debug)]
pub struct Template {
    /// The fields that differ are zero.
    words: [u64; 2],
    destination: u32,
    /// Sum of all pairs of bytes, without those that differ.
    sum: u32,
    /// Whether the destination is the annotation.
    annotated: bool,
    ident: u16,
}

/// Source and destination of a header that was put in front of a packet, as they lie in it, and the
/// packet behind the header.
#[derive(Debug)]
pub struct Put<'p> {
    /// The addresses.
    pub addresses: [[u8; 4]; 2],
    /// The packet behind the header.
    pub rest: &'p mut [u8],
}

impl Template {
    /// `head` without length, identification and checksum; without a
    /// destination where that is to be the annotation.
    pub fn new(make: &ElementBuilder<'_>, head: [u8; LEAST], annotated: bool) -> Template {
        let mut words = [0; 2];
        for (word, bytes) in words.iter_mut().zip(head.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        // Replicas count from different numbers on.
        let replica = make.replica();
        let ident = (replica.index << 16) / replica.count.max(1);
        let destination = u32::from_le_bytes(get_four(&head, DESTINATION));
        let mut template = Template { words, destination, sum: 0, annotated, ident: ident as u16 };
        template.sum_up();
        template
    }

    /// The source address.
    pub fn source(&self) -> [u8; 4] {
        ((self.words[1] >> 32) as u32).to_le_bytes()
    }

    /// The destination address, unless it is the annotation.
    pub fn destination(&self) -> Option<[u8; 4]> {
        (!self.annotated).then_some(self.destination.to_le_bytes())
    }

    /// Another source.
    pub fn set_source(&mut self, address: [u8; 4]) {
        let source = u64::from(u32::from_le_bytes(address));
        self.words[1] = self.words[1] & 0xffff_ffff | source << 32;
        self.sum_up();
    }

    /// Another destination; `None` for the annotation.
    pub fn set_destination(&mut self, address: Option<[u8; 4]>) {
        self.destination = u32::from_le_bytes(address.unwrap_or_default());
        self.annotated = address.is_none();
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let [first, second] = self.words;
        let words = [first, first >> 32, second, second >> 32].map(|word| word as u32);
        self.sum = words.into_iter().chain([self.destination]).map(halves).sum();
    }

    /// Identifications go on from those of another.
    pub fn take_ident(&mut self, other: &Template) {
        self.ident = other.ident;
    }

    /// Puts the header in front of a packet, `between` bytes before its old first byte, and returns
    /// its addresses and the rest; `None` when there is no room.
    #[inline(always)]
    pub fn put<'p>(&mut self, packet: &'p mut PacketMut<'_>, between: usize) -> Option<Put<'p>> {
        if !packet.prepend(LEAST + between) {
            return None;
        }
        packet.mark_headers(0, LEAST);
        let length = packet.len() as u16;
        let (bytes, meta) = packet.parts();
        let ([first, second], destination) = self.next(length, &mut meta.destination);
        // Whole words from registers: a header put together in memory would be read from there
        // before its fields have arrived.
        let (head, rest) = bytes.split_first_chunk_mut::<LEAST>()?;
        let (head, last) = head.split_first_chunk_mut::<{ DESTINATION }>()?;
        let [to_first, to_second] = head.as_chunks_mut().0 else { return None };
        (*to_first, *to_second) = (first.to_le_bytes(), second.to_le_bytes());
        *last.first_chunk_mut()? = destination.to_le_bytes();
        let source = (second >> 32) as u32;
        Some(Put { addresses: [source, destination].map(u32::to_le_bytes), rest })
    }

    /// The header of a packet of that length. `annotation` is its destination
    /// annotation, which is set unless it is the destination.
    #[inline(always)]
    fn next(&mut self, length: u16, annotation: &mut [u8; 16]) -> ([u64; 2], u32) {
        let [mut first, mut second] = self.words;
        let mut destination = self.destination;
        let [length, ident] = [length, self.ident].map(|field| u32::from(field.to_be().to_le()));
        self.ident = self.ident.wrapping_add(1);
        first |= u64::from(length) << (8 * TOTAL_LENGTH) | u64::from(ident) << (8 * IDENT);
        let mut sum = self.sum + length + ident;
        if let Some(address) = annotation.first_chunk_mut() {
            if self.annotated {
                destination = u32::from_le_bytes(*address);
                sum += halves(destination);
            } else {
                *address = destination.to_le_bytes();
            }
        }
        // The upper half of this is the sum of both halves and of its carry.
        let check = !(sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
        second |= u64::from(check) << (8 * (CHECKSUM - 8));
        ([first, second], destination)
    }
}

/// The sum of two pairs of bytes.
fn halves(word: u32) -> u32 {
    (word >> 16) + (word & 0xffff)
}

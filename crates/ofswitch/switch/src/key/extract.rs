//! Reading a packet's headers into a key.
//!
//! Headers are recognised as by Open vSwitch (`flow_extract` in its `lib/flow.c`), so that flows
//! match the same packets there and here: a header that is cut off or whose lengths contradict each
//! other has no fields, and nothing behind it has; of tags one is read, and a second stays the
//! type; a fragment but the first has no ports; of a network service header with metadata of
//! another type than 1 the first eight bytes are read. Beyond that, fields of OpenFlow that Open
//! vSwitch lacks: the flags of extension headers of IPv6, and provider backbone bridging.
//!
//! A packet with IPv4 and UDP takes one check of its length for each header and no loop.

use super::{INNER_TCI, Key, Mask, extension};

/// Words of a key that headers are read into, with the first, which they leave alone.
pub const HEADER_WORDS: usize = 16;

/// Words of a key to be read, by their cost.
///
/// Words that are not wanted are left as they are, so keys that are compared must be of the same
/// `Needed`, or compared under masks it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Needed(u8);

impl Needed {
    /// Nothing of the headers.
    pub const NOTHING: Needed = Needed(0);
    /// Ethernet and the outer tag.
    pub const LINK: Needed = Needed(1);
    /// Also those of IPv4 and ARP.
    pub const NETWORK: Needed = Needed(LINK | NETWORK);
    /// Also those of IPv6, MPLS and network service headers.
    pub const WIDE_NETWORK: Needed = Needed(LINK | NETWORK | WIDE);
    /// Ports and the like beside, but no addresses of IPv6.
    pub const TRANSPORT: Needed = Needed(LINK | NETWORK | TRANSPORT);
    /// All there is.
    pub const EVERYTHING: Needed = Needed(LINK | NETWORK | TRANSPORT | WIDE | REST);

    /// Returns the words that keys under a mask need.
    #[must_use]
    pub const fn for_mask(mask: &Mask) -> Needed {
        /// The operation of ARP, in the word of ports.
        const ARP_OP: u64 = 0xffff;
        let words = &mask.words;
        let mut any = [false; 5];
        let mut word = 1;
        while word < HEADER_WORDS {
            let kind = match word {
                1 | 2 => 0,
                3 | 4 => 1,
                5 => 2,
                6..=10 => 3,
                _ => 4,
            };
            any[kind] |= words[word] & !(if word == 5 { ARP_OP } else { 0 }) != 0;
            word += 1;
        }
        any[1] |= words[5] & ARP_OP != 0;
        let mut needed = 0;
        if any[4] {
            needed |= LINK | NETWORK | TRANSPORT | REST;
        }
        if any[3] {
            needed |= LINK | NETWORK | WIDE;
        }
        if any[2] {
            needed |= LINK | NETWORK | TRANSPORT;
        }
        if any[1] {
            needed |= LINK | NETWORK;
        }
        if any[0] {
            needed |= LINK;
        }
        Needed(needed)
    }

    /// Returns the words that either needs.
    #[must_use]
    pub const fn and(self, other: Needed) -> Needed {
        Needed(self.0 | other.0)
    }

    /// Returns true if no header is read.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Drops the words behind those of [`TRANSPORT`](Self::TRANSPORT).
    #[inline(always)]
    const fn near(self) -> Needed {
        Needed(self.0 & (LINK | NETWORK | TRANSPORT))
    }

    #[inline(always)]
    const fn has(self, part: u8) -> bool {
        self.0 & part != 0
    }
}

/// The last word that is read without `WIDE` and `REST`.
const NEAR_WORDS: usize = 5;

/// Words 1 and 2.
const LINK: u8 = 1;
/// Words 3 and 4, and ARP's operation in word 5.
const NETWORK: u8 = 2;
/// Word 5.
const TRANSPORT: u8 = 4;
/// Words 6 to 10: fields of IPv6, MPLS and network service headers.
const WIDE: u8 = 8;
/// Words 11 to 15: neighbour discovery, hardware addresses of ARP, backbone bridging.
const REST: u8 = 16;

/// The type of a frame that has a length in its place and no type behind it.
pub const NO_TYPE: u16 = 0x05ff;

/// A fragment, also the first.
pub const FRAGMENT: u64 = 1;
/// A fragment but the first.
pub const LATER_FRAGMENT: u64 = 2;

pub(crate) const VLAN: u16 = 0x8100;
pub(crate) const SERVICE_VLAN: u16 = 0x88a8;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const RARP: u16 = 0x8035;
pub(crate) const MPLS: u16 = 0x8847;
pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
pub(crate) const BACKBONE: u16 = 0x88e7;
pub(crate) const NSH: u16 = 0x894f;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

/// Reads all headers of an Ethernet frame into the words of a key that are for them.
///
/// The words of ports, tunnels, connections and the pipeline are left alone.
#[inline]
pub fn extract(bytes: &[u8], key: &mut Key) {
    extract_needed(bytes, Needed::EVERYTHING, key);
}

/// Reads those headers of an Ethernet frame that are needed; other words are left as they are.
#[inline]
pub fn extract_needed(bytes: &[u8], needed: Needed, key: &mut Key) {
    let Some(words) = key.words.first_chunk_mut::<HEADER_WORDS>() else { return };
    extract_words(bytes, needed, words);
}

/// As [`extract_needed`], into the first words of a key: all of headers, or fewer where no more are
/// needed.
#[inline(always)]
pub fn extract_words<const W: usize>(bytes: &[u8], needed: Needed, words: &mut [u64; W]) {
    const { assert!(W > NEAR_WORDS) };
    // Known when this is compiled, so there is no code for words there are not.
    let needed = if W < HEADER_WORDS { needed.near() } else { needed };
    if needed.is_nothing() {
        return;
    }
    if needed.has(NETWORK) {
        words[3] = 0;
        words[4] = 0;
        words[5] = 0;
    }
    if needed.has(WIDE) {
        words[6..11].fill(0);
    }
    if needed.has(REST) {
        words[11..16].fill(0);
    }
    let Some(head) = bytes.first_chunk::<14>() else {
        words[1] = 0;
        words[2] = 0;
        return;
    };
    let (mut kind, mut behind) = (be16(head, 12), &bytes[14..]);
    let mut tag = 0;
    if is_tag(kind) {
        // A type must follow, or it is no tag.
        if let Some(inner) = behind.first_chunk::<4>() {
            tag = u64::from(be16(inner, 0) | PRESENT);
            kind = be16(inner, 2);
            behind = &behind[4..];
            if is_tag(kind) && needed.has(NETWORK) {
                inner_tag(behind, words);
            }
        }
    }
    if kind < FIRST_TYPE {
        (kind, behind) = snap(behind);
    }
    words[1] = be64(head, 0) & !0xffff | u64::from(kind);
    words[2] = be64(head, 6) & !0xffff | tag;
    if !needed.has(NETWORK) {
        return;
    }
    match kind {
        IPV4 => ipv4(behind, needed, words),
        IPV6 => ipv6(behind, needed, words),
        ARP | RARP => arp(behind, needed, words),
        MPLS | MPLS_MULTICAST if needed.has(WIDE) => {
            if let Some(entry) = behind.first_chunk::<4>() {
                words[10] = u64::from(be32(entry, 0));
            }
        }
        _ if kind > MPLS_MULTICAST => rare(kind, behind, needed, words),
        _ => {}
    }
}

/// Reads headers of rare types, in a branch of their own: other types pay no comparison for them.
#[cold]
#[inline(never)]
fn rare<const W: usize>(kind: u16, behind: &[u8], needed: Needed, words: &mut [u64; W]) {
    match kind {
        BACKBONE if needed.has(REST) => {
            if let Some(tag) = behind.first_chunk::<4>() {
                let tag = u64::from(be32(tag, 0));
                words[15] = (tag & 0x00ff_ffff) << 8 | tag >> 27 & 1;
            }
        }
        NSH => nsh(behind, needed, words),
        _ => {}
    }
}

/// The bit for the presence of a tag.
const PRESENT: u16 = 0x1000;

/// Lower numbers in a type's place are lengths.
pub(crate) const FIRST_TYPE: u16 = 0x0600;

#[inline(always)]
pub(crate) const fn is_tag(kind: u16) -> bool {
    kind == VLAN || kind == SERVICE_VLAN
}

/// Reads the second tag, which is not one of the fields.
#[cold]
fn inner_tag<const W: usize>(behind: &[u8], words: &mut [u64; W]) {
    if let Some(tag) = behind.first_chunk::<4>() {
        words[INNER_TCI.word] |= u64::from(be16(tag, 0) | PRESENT) << INNER_TCI.shift;
    }
}

/// The header of LLC and SNAP with the organisation for types of Ethernet.
pub(crate) const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// Returns the type of a frame that has a length in the type's place, and the bytes behind it.
#[cold]
fn snap(behind: &[u8]) -> (u16, &[u8]) {
    match behind.split_first_chunk::<8>() {
        Some((head, rest)) if head.starts_with(&SNAP) => (be16(head, 6).max(NO_TYPE), rest),
        _ => (NO_TYPE, behind),
    }
}

#[inline(always)]
fn ipv4<const W: usize>(bytes: &[u8], needed: Needed, words: &mut [u64; W]) {
    let Some(head) = bytes.first_chunk::<20>() else { return };
    let header = usize::from(head[0] & 0xf) * 4;
    let total = usize::from(be16(head, 2));
    // Bytes behind the packet are padding.
    let Some(behind) = bytes.get(header..total) else { return };
    if header < 20 || bytes.len() - total > usize::from(u16::MAX) {
        return;
    }
    let fragment = fragment_v4(be16(head, 6));
    let protocol = head[9];
    words[3] = u64::from(protocol) << 56
        | u64::from(head[1]) << 48
        | u64::from(head[8]) << 40
        | fragment << 32;
    words[4] = be64(head, 12);
    if needed.has(TRANSPORT) && fragment & LATER_FRAGMENT == 0 {
        transport(protocol, behind, needed, words);
    }
}

/// Returns the bits of a fragment from the word of flags and offset.
#[inline(always)]
pub(crate) const fn fragment_v4(word: u16) -> u64 {
    let later = word & 0x1fff != 0;
    let any = word & 0x3fff != 0;
    (any as u64 * FRAGMENT) | (later as u64 * LATER_FRAGMENT)
}

#[inline(always)]
fn transport<const W: usize>(protocol: u8, bytes: &[u8], needed: Needed, words: &mut [u64; W]) {
    words[5] = match protocol {
        UDP => match bytes.first_chunk::<8>() {
            Some(head) => u64::from(be32(head, 0)) << 32,
            None => 0,
        },
        TCP => match bytes.first_chunk::<20>() {
            Some(head) if tcp_header(head).is_some_and(|header| header <= bytes.len()) => {
                u64::from(be32(head, 0)) << 32 | u64::from(be16(head, 12) & 0xfff) << 16
            }
            _ => 0,
        },
        SCTP => match bytes.first_chunk::<12>() {
            Some(head) => u64::from(be32(head, 0)) << 32,
            None => 0,
        },
        ICMP => match bytes.first_chunk::<8>() {
            Some(head) => types(head),
            None => 0,
        },
        ICMPV6 => match bytes.first_chunk::<8>() {
            Some(head) => {
                if needed.has(REST) && is_discovery(head[0], head[1]) {
                    discovery(&bytes[8..], words);
                }
                types(head)
            }
            None => 0,
        },
        _ => 0,
    };
}

/// Type and code of ICMP where ports have their numbers.
#[inline(always)]
fn types(head: &[u8; 8]) -> u64 {
    u64::from(head[0]) << 48 | u64::from(head[1]) << 32
}

/// Returns the length of a TCP header by its field, if it is valid.
#[inline(always)]
pub(crate) fn tcp_header(head: &[u8; 20]) -> Option<usize> {
    let header = usize::from(head[12] >> 4) * 4;
    (header >= 20).then_some(header)
}

/// Returns true if a message of `ICMPv6` is a solicitation or an advertisement of neighbours.
#[inline(always)]
pub(crate) const fn is_discovery(kind: u8, code: u8) -> bool {
    (kind == 135 || kind == 136) && code == 0
}

/// Reads a message of neighbour discovery, behind the first eight bytes. Two options of a kind are
/// a mistake that leaves no fields.
fn discovery<const W: usize>(bytes: &[u8], words: &mut [u64; W]) {
    let Some((target, options)) = bytes.split_first_chunk::<16>() else { return };
    let (mut source, mut destination) = (0, 0);
    for (kind, option) in Options(options) {
        let Ok(option) = <&[u8; 8]>::try_from(option) else { continue };
        let address = be64(option, 0) << 16;
        let place = match kind {
            SOURCE_ADDRESS => &mut source,
            TARGET_ADDRESS => &mut destination,
            _ => continue,
        };
        if *place != 0 {
            return;
        }
        *place = address;
    }
    words[11] = be64(target, 0);
    words[12] = be64(target, 8);
    words[13] = source;
    words[14] = destination;
}

/// The option of neighbour discovery with the sender's link-layer address.
pub(crate) const SOURCE_ADDRESS: u8 = 1;
/// The option with the target's link-layer address.
pub(crate) const TARGET_ADDRESS: u8 = 2;

/// Options of neighbour discovery, each with its kind and all its bytes, up to one whose length is
/// zero or exceeds the rest.
pub(crate) struct Options<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let head = self.0.first_chunk::<8>()?;
        let length = usize::from(head[1]) * 8;
        if length == 0 {
            return None;
        }
        let (option, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((head[0], option))
    }
}

#[inline]
fn ipv6<const W: usize>(bytes: &[u8], needed: Needed, words: &mut [u64; W]) {
    let Some((head, behind)) = bytes.split_first_chunk::<40>() else { return };
    // Bytes behind the packet are padding.
    let length = usize::from(be16(head, 4));
    let Some((payload, padding)) = behind.split_at_checked(length) else { return };
    if padding.len() > usize::from(u16::MAX) {
        return;
    }
    if needed.has(WIDE) {
        words[6] = be64(head, 8);
        words[7] = be64(head, 16);
        words[8] = be64(head, 24);
        words[9] = be64(head, 32);
    }
    let next = head[6];
    let chain = if is_extension(next) {
        let Some(chain) = Chain::read(next, payload) else { return };
        chain
    } else {
        Chain::without(next, payload)
    };
    let flow = be32(head, 0);
    if needed.has(WIDE) {
        words[10] = u64::from(flow & 0x000f_ffff) << 32;
    }
    words[3] = u64::from(chain.protocol) << 56
        | u64::from(flow >> 20 & 0xff) << 48
        | u64::from(head[7]) << 40
        | chain.fragment << 32
        | u64::from(chain.seen);
    if needed.has(TRANSPORT) && chain.fragment & LATER_FRAGMENT == 0 {
        transport(chain.protocol, chain.payload, needed, words);
    }
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT_HEADER: u8 = 44;
const ENCRYPTED: u8 = 50;
pub(crate) const AUTHENTICATION: u8 = 51;
const NO_NEXT: u8 = 59;
const DESTINATION: u8 = 60;

/// Returns true for an extension header of IPv6.
#[inline(always)]
pub(crate) const fn is_extension(protocol: u8) -> bool {
    const KINDS: u64 = 1 << HOP_BY_HOP
        | 1 << ROUTING
        | 1 << FRAGMENT_HEADER
        | 1 << ENCRYPTED
        | 1 << AUTHENTICATION
        | 1 << NO_NEXT
        | 1 << DESTINATION;
    protocol < 64 && KINDS >> protocol & 1 != 0
}

/// The extension headers of an IPv6 packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain<'a> {
    /// Protocol of the payload; in a fragment but the first, that of fragments.
    pub(crate) protocol: u8,
    /// Whether it is a fragment.
    pub(crate) fragment: u64,
    /// Headers that were met, as bits of `Ipv6Extensions`.
    pub(crate) seen: u16,
    /// Whether the destination in the header is not where the packet goes to in the end.
    pub(crate) routed: bool,
    /// Bytes behind the headers.
    pub(crate) payload: &'a [u8],
}

impl<'a> Chain<'a> {
    /// Makes the chain of a packet without extension headers.
    #[inline(always)]
    pub(crate) const fn without(protocol: u8, payload: &'a [u8]) -> Chain<'a> {
        Chain { protocol, fragment: 0, seen: 0, routed: false, payload }
    }

    /// Reads them; `None` where one is cut off.
    #[inline(never)]
    pub(crate) fn read(first: u8, payload: &'a [u8]) -> Option<Chain<'a>> {
        let mut chain = Chain::without(first, payload);
        let mut order = Order::default();
        loop {
            order.meet(chain.protocol);
            let length = match chain.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => {
                    8 + usize::from(*chain.payload.first_chunk::<8>()?.get(1)?) * 8
                }
                AUTHENTICATION => 8 + usize::from(chain.payload.first_chunk::<8>()?[1]) * 4,
                FRAGMENT_HEADER => 8,
                _ => break,
            };
            let head = chain.payload.first_chunk::<8>()?;
            if chain.protocol == ROUTING {
                chain.routed |= head[3] != 0;
            }
            let fragmented = chain.protocol == FRAGMENT_HEADER;
            let word = be16(head, 2);
            chain.protocol = head[0];
            chain.payload = chain.payload.get(length..)?;
            if fragmented && word != 0 {
                chain.fragment = FRAGMENT;
                if word & 0xfff8 != 0 {
                    chain.fragment |= LATER_FRAGMENT;
                    chain.protocol = FRAGMENT_HEADER;
                    break;
                }
            }
        }
        chain.seen = order.seen;
        Some(chain)
    }
}

/// Headers that were met, and whether in the order of RFC 8200 section 4.1.
#[derive(Default)]
struct Order {
    seen: u16,
    /// The rank of the last.
    rank: u8,
    destinations: u8,
}

impl Order {
    fn meet(&mut self, kind: u8) {
        // Options for the destination come before a routing header, where stations on the way read
        // them, and behind all others.
        let (flag, rank) = match kind {
            HOP_BY_HOP => (extension::HOP, 1),
            DESTINATION if self.rank < 2 => (extension::DESTINATION, 2),
            ROUTING => (extension::ROUTER, 3),
            FRAGMENT_HEADER => (extension::FRAGMENT, 4),
            AUTHENTICATION => (extension::AUTHENTICATION, 5),
            ENCRYPTED => (extension::ENCRYPTED, 6),
            DESTINATION => (extension::DESTINATION, 7),
            NO_NEXT => (extension::NO_NEXT, 8),
            _ => return,
        };
        let again = self.seen & flag != 0;
        let many = if kind == DESTINATION {
            self.destinations = self.destinations.saturating_add(1);
            self.destinations > 2
        } else {
            again
        };
        if many {
            self.seen |= extension::REPEATED;
        } else if rank < self.rank {
            self.seen |= extension::UNORDERED;
        }
        // One behind the first place for it is not there as the first.
        if kind != HOP_BY_HOP || self.rank == 0 {
            self.seen |= flag;
        }
        self.rank = self.rank.max(rank);
    }
}

fn arp<const W: usize>(bytes: &[u8], needed: Needed, words: &mut [u64; W]) {
    let Some(head) = bytes.first_chunk::<28>() else { return };
    if !head.starts_with(&ARP_OF_IPV4) {
        return;
    }
    words[4] = u64::from(be32(head, 14)) << 32 | u64::from(be32(head, 24));
    let operation = be16(head, 6);
    if operation <= 0xff {
        words[5] = u64::from(operation);
    }
    if needed.has(REST) {
        words[13] = be64(head, 8) & !0xffff;
        words[14] = be64(head, 18) & !0xffff;
    }
}

/// Form of a network service header (RFC 8300, section 2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nsh {
    /// Length in bytes, with metadata.
    pub(crate) length: usize,
    /// True for metadata of type 1: four words of context.
    pub(crate) context: bool,
}

impl Nsh {
    /// Length of the part before the metadata.
    pub(crate) const BASE: usize = 8;

    /// Form of the header at the start of `bytes`; `None` if it is cut off, has another version, or
    /// a length that does not fit its type of metadata.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Nsh> {
        const CONTEXT: usize = Nsh::BASE + 16;
        let head = bytes.first_chunk::<{ Nsh::BASE }>()?;
        let length = usize::from(head[1] & 0x3f) * 4;
        let context = head[2] == 1;
        let is_sane = match head[2] {
            1 => length == CONTEXT,
            2 => length >= Nsh::BASE,
            _ => true,
        };
        (head[0] >> 6 == 0 && is_sane && length <= bytes.len()).then_some(Nsh { length, context })
    }
}

fn nsh<const W: usize>(bytes: &[u8], needed: Needed, words: &mut [u64; W]) {
    let (Some(header), Some(head)) = (Nsh::parse(bytes), bytes.first_chunk::<{ Nsh::BASE }>())
    else {
        return;
    };
    let base = be16(head, 0);
    let (flags, ttl) = (base >> 12 & 3, base >> 6 & 0x3f);
    words[4] =
        u64::from(flags) << 56 | u64::from(ttl) << 48 | be64(head, 0) & 0x0000_ffff_ffff_ffff;
    if needed.has(WIDE)
        && header.context
        && let Some(context) = bytes[Nsh::BASE..].first_chunk::<16>()
    {
        words[6] = be64(context, 0);
        words[7] = be64(context, 8);
    }
}

/// First bytes of ARP for IPv4 on Ethernet.
pub(crate) const ARP_OF_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

#[inline(always)]
pub(crate) fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
pub(crate) fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(value)
}

#[inline(always)]
pub(crate) fn be64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(value)
}

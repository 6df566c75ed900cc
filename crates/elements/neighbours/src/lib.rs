//! Neighbours on a link, for elements that send packets to them: ARP (RFC 826) and neighbour
//! discovery (RFC 4861).
#![forbid(unsafe_code)]

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, Ipv6Addr},
};

use linerate_graph::{Context, DropReason, Rank, Value};
use linerate_memory::{Arena, Meta, Slot};
use linerate_packet::MacAddr;
use linerate_tables::exact::Key;

use self::neighbour_cache::CacheKey;
use linerate_element_support::{address6, ether::HEADER, headroom};

pub mod neighbour_cache;
pub mod querier;
pub mod shared;
pub mod table;

/// An address neighbours have.
pub trait Address: Value + Copy + Ord + Send + Sync + 'static {
    /// Its key in the table.
    type Key: Key + Send + std::fmt::Debug;
    /// Its key in the cache.
    type Bits: CacheKey + std::fmt::Debug;
    /// Queries for an address in quick succession, before they become rare.
    const QUICK: u8;
    /// Milliseconds between them.
    const QUICK_INTERVAL: u64;
    /// Milliseconds between those that follow.
    const SLOW_INTERVAL: u64;
    /// Whether a table shown has their ages.
    const AGES: bool;
    /// The Ethernet address shown for a neighbour that is not known.
    const UNKNOWN: MacAddr;
    /// Click's name of queries for it.
    const QUERIES: &str;

    /// The next hop of a packet, as its key in the cache.
    fn destination(meta: &Meta) -> Self::Bits;

    /// Its key in the table.
    fn key(self) -> Self::Key;

    /// Its key in the cache.
    fn bits(self) -> Self::Bits;

    /// The address as Click writes it.
    fn text(self) -> String;
}

impl Address for Ipv4Addr {
    type Key = u64;
    type Bits = u32;
    const QUICK: u8 = 10;
    const QUICK_INTERVAL: u64 = 100;
    const SLOW_INTERVAL: u64 = 2000;
    const AGES: bool = true;
    const UNKNOWN: MacAddr = MacAddr::BROADCAST;
    const QUERIES: &str = "ARP queries";

    #[inline(always)]
    fn destination(meta: &Meta) -> u32 {
        meta.destination.first_chunk().map_or(0, |ip| u32::from_be_bytes(*ip))
    }

    fn key(self) -> u64 {
        u64::from(self.to_bits())
    }

    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn text(self) -> String {
        self.to_string()
    }
}

/// Times are those of RFC 4861 section 10.
impl Address for Ipv6Addr {
    type Key = u128;
    type Bits = u128;
    const QUICK: u8 = 3;
    const QUICK_INTERVAL: u64 = 1000;
    const SLOW_INTERVAL: u64 = 3000;
    const AGES: bool = false;
    const UNKNOWN: MacAddr = MacAddr::ZERO;
    const QUERIES: &str = "ND Solicitation Message";

    #[inline(always)]
    fn destination(meta: &Meta) -> u128 {
        u128::from_be_bytes(meta.destination)
    }

    fn key(self) -> u128 {
        self.to_bits()
    }

    fn bits(self) -> u128 {
        self.to_bits()
    }

    fn text(self) -> String {
        address6::text(self)
    }
}

/// Puts an Ethernet header in front of a packet that is not shared.
#[inline(always)]
pub fn put_header(arena: &Arena, slot: &mut Slot, header: &[u8; HEADER]) -> bool {
    if !headroom::push(arena, slot, HEADER) {
        return false;
    }
    if let Some(mut packet) = arena.writable(slot) {
        packet.mark_network(HEADER);
        if let Some(to) = packet.bytes_mut().first_chunk_mut() {
            *to = *header;
        }
    }
    true
}

/// Packets that have waited for a neighbour, the header for it, and the place of the
/// message that says so.
pub type Released = (VecDeque<Slot>, [u8; HEADER], Rank);

/// Sends packets that have waited by output 0, where there is room for a header.
pub fn send_released<R: DropReason>(cx: &mut Context, released: Vec<Released>, too_long: R) {
    let mut packets = Vec::new();
    for (waited, header, rank) in released {
        let waited = waited.into_iter().enumerate();
        packets.extend(waited.map(|(at, slot)| (cx.let_go(&slot, rank, at), slot, header)));
    }
    packets.sort_by_key(|(rank, ..)| *rank);
    for (_, mut slot, header) in packets {
        if put_header(cx.pool.arena(), &mut slot, &header) {
            cx.out.emit(0, slot);
        } else {
            cx.drop_packet(slot, too_long);
        }
    }
}

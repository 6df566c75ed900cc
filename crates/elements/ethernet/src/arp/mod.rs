//! ARP: resolves IPv4 addresses of the link to Ethernet addresses (RFC 826).

use std::net::Ipv4Addr;

use linerate_graph::{Class, Context};
use linerate_memory::{Meta, Slot};
use linerate_packet::{
    MacAddr,
    arp::{Arp, Operation},
};

use linerate_element_support::ether::{self, HEADER};

mod check;
mod faker;
mod print;
mod querier;
mod responder;
mod table;

pub(super) const CHECK: Class = check::CLASS;
pub(super) const FAKER: Class = faker::CLASS;
pub(super) const PRINT: Class = print::CLASS;
pub(super) const QUERIER: Class = querier::CLASS;
pub(super) const RESPONDER: Class = responder::CLASS;
pub(super) const TABLE: Class = table::CLASS;

/// Bytes of an ARP packet with its Ethernet header.
const LENGTH: usize = HEADER + linerate_packet::arp::HEADER_LEN;

/// Milliseconds an address is good for unless told otherwise.
const TIMEOUT: u64 = 300_000;

/// Contents of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    operation: Operation,
    sender: (MacAddr, Ipv4Addr),
    target: (MacAddr, Ipv4Addr),
}

impl Message {
    /// Reads an Ethernet packet, if it is ARP for Ethernet and IPv4.
    #[inline]
    fn parse(bytes: &[u8]) -> Option<Message> {
        let header = bytes.get(..HEADER)?;
        let arp = Arp::new_checked(bytes.get(HEADER..LENGTH)?).ok()?;
        (header[12..] == [0x08, 0x06]).then(|| Message {
            operation: arp.operation(),
            sender: (arp.sender_mac(), arp.sender_ip()),
            target: (arp.target_mac(), arp.target_ip()),
        })
    }

    /// Writes it, with its Ethernet header, to the first [`LENGTH`] bytes.
    #[inline]
    fn write(&self, destination: MacAddr, bytes: &mut [u8]) {
        let Some((header, rest)) = bytes.split_first_chunk_mut::<HEADER>() else { return };
        *header = ether::bytes(destination, self.sender.0, 0x0806);
        let Ok(mut arp) = Arp::init(rest) else { return };
        arp.set_operation(self.operation);
        arp.set_sender_mac(self.sender.0);
        arp.set_sender_ip(self.sender.1);
        arp.set_target_mac(self.target.0);
        arp.set_target_ip(self.target.1);
    }

    /// Makes a packet of it, with the annotations of packet `like`.
    fn packet(&self, cx: &mut Context, destination: MacAddr, like: &Meta) -> Option<Slot> {
        let mut slot = cx.pool.take_one(LENGTH)?;
        let arena = cx.pool.arena();
        self.write(destination, arena.packet_mut(&mut slot)?);
        if cx.world().annotated
            && let Some(mut packet) = arena.writable(&mut slot)
        {
            let &Meta { timestamp, vlan, port, queue, .. } = like;
            *packet.meta_mut() = Meta { timestamp, vlan, port, queue, ..Meta::EMPTY };
            packet.mark_network(HEADER);
        }
        Some(slot)
    }
}

//! Neighbour discovery: Ethernet addresses of IPv6 neighbours (RFC 4861), and detection of
//! duplicate addresses (RFC 4862).

use std::net::Ipv6Addr;

use linerate_graph::{Class, Context};
use linerate_memory::{Meta, Slot};
use linerate_packet::{
    EtherType, Icmpv6, IpProtocol, Ipv6, MacAddr,
    icmpv6::{Icmpv6Type, NEIGHBOUR_LEN, NeighbourOption},
};

use super::header::{DESTINATION, HOPS, ICMP_CHECKSUM, LEAST, LENGTH, NEXT, SOURCE, put16};
use linerate_element_support::ether::{self, HEADER};

mod advertiser;
mod dad;
mod solicitor;

pub(super) const ADVERTISER: Class = advertiser::CLASS;
pub(super) const SOLICITOR: Class = solicitor::CLASS;

/// Bytes of an option with an Ethernet address.
const OPTION: usize = 8;
/// Types of options: the link-layer address of the sender, and that of the target.
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;
/// Hop limit of packets that no router has forwarded.
const UNROUTED: u8 = 255;
/// Flags of an advertisement: from a router, an answer, overrides earlier ones.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// All hosts of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Group that a solicitation for an address goes to: this and its last 24 bits.
const SOLICITED_NODE: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
const NODE: u128 = 0xff_ffff;

/// Returns the group of hosts with an address that ends as `target` does.
fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(SOLICITED_NODE | target.to_bits() & NODE)
}

/// The Ethernet address of a group (RFC 2464 section 7).
fn group(address: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = address.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// Type of a message, and its own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageType {
    Solicitation,
    Advertisement { flags: u8 },
}

/// A solicitation or advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    what: MessageType,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    /// Link-layer address of the sender, or of the target.
    mac: Option<MacAddr>,
    /// Source of the Ethernet packet.
    sender: MacAddr,
}

impl Message {
    /// Parses an Ethernet packet, if it is such a message and valid by RFC 4861 sections 7.1.1 and
    /// 7.1.2.
    fn parse(bytes: &[u8]) -> Option<Message> {
        let (link, packet) = bytes.split_first_chunk::<HEADER>()?;
        if link[12..] != EtherType::IPV6.0.to_be_bytes() {
            return None;
        }
        let sender = MacAddr(*link[6..].first_chunk()?);
        let ip = Ipv6::new_checked(packet).ok()?;
        let icmp = ip.payload().get(..usize::from(ip.payload_len()))?;
        let is_message = ip.next_header() == IpProtocol::ICMPV6
            && ip.hop_limit() == UNROUTED
            && icmp.len() >= NEIGHBOUR_LEN;
        if !is_message {
            return None;
        }
        let message = Icmpv6::new_checked(icmp).ok()?;
        let option = match message.kind() {
            Icmpv6Type::NEIGHBOUR_SOLICITATION => SOURCE_OPTION,
            Icmpv6Type::NEIGHBOUR_ADVERTISEMENT => TARGET_OPTION,
            _ => return None,
        };
        let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, icmp.len() as u32);
        let target = message.target()?;
        if message.code() != 0 || target.is_multicast() || !message.verify_checksum(pseudo) {
            return None;
        }
        let mut mac = None;
        for found in message.neighbour_options() {
            match (found.ok()?, option) {
                (NeighbourOption::SourceLinkLayer(found), SOURCE_OPTION)
                | (NeighbourOption::TargetLinkLayer(found), TARGET_OPTION) => {
                    mac = mac.or(Some(found));
                }
                _ => {}
            }
        }
        let (source, destination) = (ip.src(), ip.dst());
        let what = match option {
            SOURCE_OPTION => MessageType::Solicitation,
            _ => MessageType::Advertisement { flags: message.rest().to_be_bytes()[0] },
        };
        let allowed = match what {
            // A host without an address asks a group, and omits its own.
            MessageType::Solicitation if source.is_unspecified() => {
                mac.is_none() && destination.to_bits() & !NODE == SOLICITED_NODE
            }
            MessageType::Solicitation => true,
            MessageType::Advertisement { flags } => {
                !destination.is_multicast() || flags & SOLICITED == 0
            }
        };
        let single = |mac: MacAddr| !mac.is_multicast() && mac != MacAddr::ZERO;
        let sound = allowed && !source.is_multicast() && mac.is_none_or(single);
        sound.then_some(Message { what, source, destination, target, mac, sender })
    }

    /// Bytes of it with its headers.
    fn length(&self) -> usize {
        HEADER + LEAST + NEIGHBOUR_LEN + self.mac.map_or(0, |_| OPTION)
    }

    /// Writes it, with its headers, to bytes as many as it has.
    fn write(&self, to: MacAddr, bytes: &mut [u8]) {
        bytes.fill(0);
        let Some((link, packet)) = bytes.split_at_mut_checked(HEADER) else { return };
        link.copy_from_slice(&ether::bytes(to, self.sender, EtherType::IPV6.0));
        let Some((header, icmp)) = packet.split_at_mut_checked(LEAST) else { return };
        header[0] = 0x60;
        put16(header, LENGTH, icmp.len() as u16);
        (header[NEXT], header[HOPS]) = (IpProtocol::ICMPV6.0, UNROUTED);
        header[SOURCE..DESTINATION].copy_from_slice(&self.source.octets());
        header[DESTINATION..].copy_from_slice(&self.destination.octets());
        let (kind, option) = match self.what {
            MessageType::Solicitation => (Icmpv6Type::NEIGHBOUR_SOLICITATION, SOURCE_OPTION),
            MessageType::Advertisement { flags } => {
                icmp[4] = flags;
                (Icmpv6Type::NEIGHBOUR_ADVERTISEMENT, TARGET_OPTION)
            }
        };
        icmp[0] = kind.0;
        icmp[8..NEIGHBOUR_LEN].copy_from_slice(&self.target.octets());
        if let Some(mac) = self.mac {
            let bytes = &mut icmp[NEIGHBOUR_LEN..];
            (bytes[0], bytes[1]) = (option, (OPTION / 8) as u8);
            bytes[2..].copy_from_slice(&mac.0);
        }
        super::header::fill_checksum(header, IpProtocol::ICMPV6.0, icmp, ICMP_CHECKSUM);
    }

    /// Makes a packet of the message, with the annotations of packet `like`.
    fn packet(&self, cx: &mut Context, to: MacAddr, like: &Meta) -> Option<Slot> {
        let mut slot = cx.pool.take_one(self.length())?;
        let arena = cx.pool.arena();
        self.write(to, arena.packet_mut(&mut slot)?);
        if cx.world().annotated
            && let Some(mut packet) = arena.writable(&mut slot)
        {
            let &Meta { timestamp, vlan, port, queue, .. } = like;
            *packet.meta_mut() = Meta { timestamp, vlan, port, queue, ..Meta::EMPTY };
            super::header::mark(&mut packet, HEADER);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests;

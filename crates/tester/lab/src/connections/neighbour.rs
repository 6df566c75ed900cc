//! Address resolution on the link: questions asked and answered, by ARP and by neighbour discovery.
//!
//! An endpoint asks for one address per group and answers for those that are its own; it keeps no
//! table. Source: RFC 826, RFC 4861.

use std::net::{IpAddr, Ipv6Addr};

use linerate_packet::{
    Arp, EtherType, Icmpv6, IpProtocol, Ipv6, MacAddr,
    arp::Operation,
    build::{ArpFrame, BuildError, Link, Tagging},
    checksum::Sum,
    icmpv6::{Icmpv6Type, NEIGHBOUR_LEN, NeighbourOption},
    ipv6,
};

use super::segment::{Arrival, MIN_FRAME};

/// Length of an option with an Ethernet address.
const OPTION_LEN: usize = 8;
/// Length of a neighbour solicitation or advertisement with such an option.
const DISCOVERY_LEN: usize = NEIGHBOUR_LEN + OPTION_LEN;
/// Hop limit of a message that was not routed (RFC 4861, 7.1).
const HOP_LIMIT: u8 = 255;
/// Flags of an advertisement that answers a question and replaces known addresses (RFC 4861, 4.4).
const SOLICITED_OVERRIDE: u32 = 0x6000_0000;

/// A question or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// A request for the Ethernet address of `target`.
    Question {
        target: IpAddr,
        /// Its sender.
        asker: (MacAddr, IpAddr),
        tags: Tagging,
    },
    /// A reply: `mac` has the address.
    Answer { address: IpAddr, mac: MacAddr },
}

/// Reads an ARP message.
pub(super) fn of_arp(arp: &Arp<&[u8]>, tags: Tagging) -> Option<Message> {
    let sender = (arp.sender_mac(), arp.sender_ip().into());
    match arp.operation() {
        Operation::REQUEST => {
            Some(Message::Question { target: arp.target_ip().into(), asker: sender, tags })
        }
        Operation::REPLY => Some(Message::Answer { address: sender.1, mac: sender.0 }),
        _ => None,
    }
}

/// Reads an `ICMPv6` message, whose answers go by `link`.
pub(super) fn of_icmp(
    message: &[u8],
    pseudo: Sum,
    ip: &Ipv6<&[u8]>,
    link: Link,
) -> Arrival<'static> {
    let Ok(icmp) = Icmpv6::new_checked(message) else { return Arrival::Malformed };
    let Some(target) = icmp.target() else { return Arrival::Other };
    if ip.hop_limit() != HOP_LIMIT || !icmp.verify_checksum(pseudo) {
        return Arrival::Malformed;
    }
    if icmp.kind() == Icmpv6Type::NEIGHBOUR_SOLICITATION {
        let asker = (link.dst, ip.src().into());
        return Arrival::Neighbour(Message::Question {
            target: target.into(),
            asker,
            tags: link.tags,
        });
    }
    let mac = icmp.neighbour_options().find_map(|option| match option {
        Ok(NeighbourOption::TargetLinkLayer(mac)) => Some(mac),
        _ => None,
    });
    // Without the option it comes from whom it is about.
    let mac = mac.unwrap_or(link.dst);
    Arrival::Neighbour(Message::Answer { address: target.into(), mac })
}

/// A question or an answer that goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    Arp(ArpFrame),
    Discovery(Discovery),
}

/// A message of neighbour discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Discovery {
    link: Link,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    kind: Icmpv6Type,
    target: Ipv6Addr,
}

impl Notice {
    /// Asks for `target` from an address of ours; nothing when the two are of different families.
    pub(super) fn question(
        own: (MacAddr, IpAddr),
        target: IpAddr,
        tags: Tagging,
    ) -> Option<Notice> {
        match (own.1, target) {
            (IpAddr::V4(ip), IpAddr::V4(target)) => {
                let request = ArpFrame::request(own.0, ip, target);
                Some(Notice::Arp(ArpFrame { link: Link { tags, ..request.link }, ..request }))
            }
            (IpAddr::V6(src), IpAddr::V6(target)) => {
                let group = solicited_node(target);
                let link = Link { src: own.0, dst: multicast_mac(group), tags };
                let kind = Icmpv6Type::NEIGHBOUR_SOLICITATION;
                Some(Notice::Discovery(Discovery { link, src, dst: group, kind, target }))
            }
            _ => None,
        }
    }

    /// Says that `mac` has the requested address; `None` when the asker cannot be answered.
    pub(super) fn answer(
        mac: MacAddr,
        target: IpAddr,
        asker: (MacAddr, IpAddr),
        tags: Tagging,
    ) -> Option<Notice> {
        let link = Link { src: mac, dst: asker.0, tags };
        match (target, asker.1) {
            (IpAddr::V4(target), IpAddr::V4(ip)) => Some(Notice::Arp(ArpFrame {
                link,
                operation: Operation::REPLY,
                sender: (mac, target),
                target: (asker.0, ip),
            })),
            // A question from no address looks for duplicates of a tentative one.
            (IpAddr::V6(target), IpAddr::V6(ip)) if !ip.is_unspecified() => {
                let kind = Icmpv6Type::NEIGHBOUR_ADVERTISEMENT;
                Some(Notice::Discovery(Discovery { link, src: target, dst: ip, kind, target }))
            }
            _ => None,
        }
    }

    /// Length of its frame.
    pub(super) fn frame_len(&self) -> usize {
        match self {
            Notice::Arp(arp) => arp.frame_len().max(MIN_FRAME),
            Notice::Discovery(discovery) => {
                discovery.link.header_len() + ipv6::HEADER_LEN + DISCOVERY_LEN
            }
        }
    }

    /// Writes its frame, which fills `frame`.
    ///
    /// # Errors
    ///
    /// When the frame is not as long as [`Notice::frame_len`] says.
    pub(super) fn write(&self, frame: &mut [u8]) -> Result<(), BuildError> {
        match self {
            Notice::Arp(arp) => {
                let len = arp.emit(frame)?;
                frame[len..].fill(0);
                Ok(())
            }
            Notice::Discovery(discovery) => discovery.write(frame),
        }
    }
}

impl Discovery {
    fn write(&self, frame: &mut [u8]) -> Result<(), BuildError> {
        let at = self.link.emit_header(frame, EtherType::IPV6)?;
        let (need, have) = (at + ipv6::HEADER_LEN + DISCOVERY_LEN, frame.len());
        let short = BuildError::Buffer { need, have };
        let packet = frame.get_mut(at..need).ok_or(short)?;
        let mut ip = Ipv6::init(packet).map_err(|_| short)?;
        ip.set_payload_len(DISCOVERY_LEN as u16);
        ip.set_next_header(IpProtocol::ICMPV6);
        ip.set_hop_limit(HOP_LIMIT);
        ip.set_src(self.src);
        ip.set_dst(self.dst);
        let pseudo = ip.pseudo_header(IpProtocol::ICMPV6, DISCOVERY_LEN as u32);
        let mut icmp = Icmpv6::init(ip.payload_mut()).map_err(|_| short)?;
        icmp.set_kind(self.kind);
        let advertises = self.kind == Icmpv6Type::NEIGHBOUR_ADVERTISEMENT;
        icmp.set_rest(if advertises { SOLICITED_OVERRIDE } else { 0 });
        let body = icmp.payload_mut();
        body[..16].copy_from_slice(&self.target.octets());
        // The sender's address: the target's in an advertisement, the source's in a solicitation.
        body[16] = if advertises { 2 } else { 1 };
        body[17] = 1;
        body[18..].copy_from_slice(&self.link.src.octets());
        icmp.fill_checksum(pseudo);
        Ok(())
    }
}

/// The group of the nodes with an address (RFC 4291, 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).to_bits();
    Ipv6Addr::from_bits(group | address.to_bits() & 0xff_ffff)
}

/// The Ethernet address of a group (RFC 2464, 7).
fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use linerate_packet::vlan::Tci;

    use super::{super::segment::read, *};

    const MINE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const YOURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn arrived(notice: Notice) -> Message {
        let mut frame = vec![0xaa; notice.frame_len()];
        notice.write(&mut frame).unwrap();
        assert!(frame.len() >= MIN_FRAME);
        let Arrival::Neighbour(message) = read(&frame) else { panic!("{frame:x?}") };
        message
    }

    /// Both families, with and without a tag.
    #[test]
    fn a_question_is_answered() {
        for tags in [Tagging::Untagged, Tagging::Single(Tci::new(0, false, 5))] {
            for (mine, yours) in [("198.18.0.1", "198.18.0.2"), ("2001:2::1", "2001:2::2:3")] {
                let [mine, yours]: [IpAddr; 2] = [mine, yours].map(|text| text.parse().unwrap());
                let question = arrived(Notice::question((MINE, mine), yours, tags).unwrap());
                let asker = (MINE, mine);
                assert_eq!(question, Message::Question { target: yours, asker, tags });
                let answer = arrived(Notice::answer(YOURS, yours, asker, tags).unwrap());
                assert_eq!(answer, Message::Answer { address: yours, mac: YOURS });
            }
        }
    }

    #[test]
    fn a_solicitation_goes_to_the_group_of_its_target() {
        let group = solicited_node("2001:db8::1234:5678".parse().unwrap());
        assert_eq!(group, "ff02::1:ff34:5678".parse::<Ipv6Addr>().unwrap());
        assert_eq!(multicast_mac(group), MacAddr([0x33, 0x33, 0xff, 0x34, 0x56, 0x78]));
    }

    #[test]
    fn families_are_not_mixed() {
        let [four, six]: [IpAddr; 2] =
            ["198.18.0.1", "2001:2::1"].map(|text| text.parse().unwrap());
        assert_eq!(Notice::question((MINE, four), six, Tagging::Untagged), None);
        assert_eq!(Notice::answer(MINE, six, (YOURS, four), Tagging::Untagged), None);
    }
}

//! Frames of an endpoint: reads those that arrive, writes those that go out.
//!
//! Headers are read and written by `linerate_packet`. Checksums of arriving segments are verified,
//! because they end here; fragments are not put together.

use std::net::{IpAddr, Ipv6Addr};

use linerate_packet::{
    Arp, EtherType, Ethernet, IpProtocol, Ipv4, Ipv6, MacAddr, Tcp,
    build::{BuildError, Ip, Layout, Link, Tagging, TcpFrame},
    ipv4, ipv6,
    tcp::{self, Flags, TcpOption},
    vlan::{self, Tags},
};

use super::{
    neighbour::{self, Message},
    payload::{RequestHeader, fill, fill_asking, fill_given},
};

/// Shortest frame on Ethernet, without FCS.
pub(super) const MIN_FRAME: usize = 60;
/// Largest segment to a peer that has named no size (RFC 9293, 3.7.1).
pub(super) const DEFAULT_MSS: u16 = 536;
/// Window that is announced. Arriving data is checked and forgotten, so it is always open.
pub(super) const WINDOW: u16 = u16::MAX;

/// Both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) local: IpAddr,
    pub(super) peer: IpAddr,
    pub(super) local_port: u16,
    pub(super) peer_port: u16,
    /// The outermost VLAN, or 0.
    pub(super) vlan: u16,
}

/// Both ends, for the table: addresses as those of IPv6, then ports and VLAN.
pub(super) type Key = [u64; 5];

impl Ends {
    pub(super) fn key(&self) -> Key {
        let [local, peer] = [bits(self.local), bits(self.peer)];
        let ports = u64::from(self.local_port) << 48 | u64::from(self.peer_port) << 32;
        let halves = |bits: u128| ((bits >> 64) as u64, bits as u64);
        let ((a, b), (c, d)) = (halves(local), halves(peer));
        [a, b, c, d, ports | u64::from(self.vlan)]
    }

    pub(super) fn from_key([a, b, c, d, rest]: Key) -> Ends {
        let address = |high: u64, low: u64| {
            Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).to_canonical()
        };
        Ends {
            local: address(a, b),
            peer: address(c, d),
            local_port: (rest >> 48) as u16,
            peer_port: (rest >> 32) as u16,
            vlan: rest as u16,
        }
    }

    fn ip(&self) -> Ip {
        match (self.local, self.peer) {
            (IpAddr::V4(local), IpAddr::V4(peer)) => Ip::v4(local, peer),
            (local, peer) => Ip::v6(as_v6(local), as_v6(peer)),
        }
    }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn bits(address: IpAddr) -> u128 {
    as_v6(address).to_bits()
}

/// A segment that has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming<'a> {
    /// The link of answers to it.
    pub(super) link: Link,
    /// As its receiver sees them.
    pub(super) ends: Ends,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) window: u16,
    /// The largest segment its sender takes, when it says so.
    pub(super) mss: Option<u16>,
    pub(super) payload: &'a [u8],
}

impl Incoming<'_> {
    pub(super) fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }

    /// Number of sequence numbers it takes.
    pub(super) fn span(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.has(Flags::SYN))
            + u32::from(self.has(Flags::FIN))
    }
}

/// Classes of arriving frames.
#[derive(Debug)]
pub(super) enum Arrival<'a> {
    Segment(Incoming<'a>),
    /// A message of ARP or of neighbour discovery.
    Neighbour(Message),
    /// Nothing for an endpoint.
    Other,
    /// A header or a checksum is wrong.
    Malformed,
}

/// Looks at a frame.
pub(super) fn read(frame: &[u8]) -> Arrival<'_> {
    let (Ok(ethernet), Ok(tags)) = (Ethernet::new_checked(frame), vlan::walk(frame)) else {
        return Arrival::Malformed;
    };
    let Some(tagging) = tagging(&tags) else { return Arrival::Other };
    let from = ethernet.src();
    let link = Link { src: ethernet.dst(), dst: from, tags: tagging };
    let packet = frame.get(tags.payload..).unwrap_or(&[]);
    match tags.ether_type {
        EtherType::ARP => match Arp::new_checked(packet) {
            Ok(arp) => neighbour::of_arp(&arp, tagging).map_or(Arrival::Other, Arrival::Neighbour),
            Err(_) => Arrival::Malformed,
        },
        EtherType::IPV4 => read_v4(packet, link),
        EtherType::IPV6 => read_v6(packet, link),
        _ => Arrival::Other,
    }
}

fn read_v4(packet: &[u8], link: Link) -> Arrival<'_> {
    let Ok(ip) = Ipv4::new_checked(packet) else { return Arrival::Malformed };
    if ip.protocol() != IpProtocol::TCP || ip.is_fragment() {
        return Arrival::Other;
    }
    // Not by `ip.payload()`, which borrows the view.
    let to = usize::from(ip.total_len()).min(packet.len());
    let segment = packet.get(ip.header_len()..to).unwrap_or(&[]);
    let Ok(tcp) = Tcp::new_checked(segment) else { return Arrival::Malformed };
    if !ip.verify_checksum() || !tcp.verify_checksum(ip.pseudo_header()) {
        return Arrival::Malformed;
    }
    incoming(&tcp, segment, link, ip.dst().into(), ip.src().into())
}

fn read_v6(packet: &[u8], link: Link) -> Arrival<'_> {
    let Ok(ip) = Ipv6::new_checked(packet) else { return Arrival::Malformed };
    let Ok(upper) = ip.upper_layer() else { return Arrival::Malformed };
    if upper.is_fragment() {
        return Arrival::Other;
    }
    let from = ipv6::HEADER_LEN;
    let to = (from + usize::from(ip.payload_len())).min(packet.len());
    let rest = packet.get(from + upper.offset..to).unwrap_or(&[]);
    let pseudo = ip.pseudo_header(upper.protocol, rest.len() as u32);
    match upper.protocol {
        IpProtocol::TCP => {
            let Ok(tcp) = Tcp::new_checked(rest) else { return Arrival::Malformed };
            if !tcp.verify_checksum(pseudo) {
                return Arrival::Malformed;
            }
            incoming(&tcp, rest, link, ip.dst().into(), ip.src().into())
        }
        IpProtocol::ICMPV6 => neighbour::of_icmp(rest, pseudo, &ip, link),
        _ => Arrival::Other,
    }
}

fn incoming<'a>(
    tcp: &Tcp<&'a [u8]>,
    segment: &'a [u8],
    link: Link,
    local: IpAddr,
    peer: IpAddr,
) -> Arrival<'a> {
    // A connection has two ends; a frame to a group belongs to none.
    if !link.src.is_unicast() || !link.dst.is_unicast() {
        return Arrival::Other;
    }
    let mss = || {
        tcp.options().find_map(|option| match option {
            Ok(TcpOption::MaxSegmentSize(size)) => Some(size),
            _ => None,
        })
    };
    let flags = tcp.flags();
    let ends = Ends {
        local,
        peer,
        local_port: tcp.dst_port(),
        peer_port: tcp.src_port(),
        vlan: vlan_of(link.tags),
    };
    Arrival::Segment(Incoming {
        link,
        ends,
        seq: tcp.seq(),
        ack: tcp.ack(),
        flags,
        window: tcp.window(),
        mss: if flags.contains(Flags::SYN) { mss() } else { None },
        payload: segment.get(tcp.header_len()..).unwrap_or(&[]),
    })
}

/// The tags of an answer to a frame with these; nothing when it has more than we write.
fn tagging(tags: &Tags) -> Option<Tagging> {
    match (tags.depth, tags.outer, tags.inner) {
        (0, ..) => Some(Tagging::Untagged),
        (1, Some(outer), _) => Some(Tagging::Single(outer)),
        (2, Some(outer), Some(inner)) => Some(Tagging::Double { outer, inner }),
        _ => None,
    }
}

/// The outermost VLAN, or 0.
pub(super) fn vlan_of(tags: Tagging) -> u16 {
    match tags {
        Tagging::Untagged => 0,
        Tagging::Single(tag) | Tagging::Double { outer: tag, .. } => tag.id(),
    }
}

/// Content of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// There are none.
    None,
    /// Bytes of a stream from this place on.
    Plain(u64),
    /// Bytes of a client's stream, which has the header in front.
    Asking(u64, RequestHeader),
    /// Bytes given to this group, from this place of a request on.
    Given(u64, u16),
}

/// A segment that goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) link: Link,
    pub(super) ends: Ends,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    /// The largest segment we take, where that is said.
    pub(super) mss: Option<u16>,
    pub(super) data: Data,
    /// Bytes of data.
    pub(super) len: u16,
}

impl Segment {
    /// Length of its frame.
    pub(super) fn frame_len(&self) -> usize {
        let options = if self.mss.is_some() { 4 } else { 0 };
        let len = headers(&self.link, &self.ends) + options + usize::from(self.len);
        len.max(MIN_FRAME)
    }

    /// Writes its frame, which fills `frame`. The bytes of a [`Data::Given`] are `given`.
    ///
    /// # Errors
    ///
    /// When the frame is not as long as [`Segment::frame_len`] says.
    pub(super) fn write(&self, frame: &mut [u8], given: &[u8]) -> Result<(), BuildError> {
        let [high, low] = self.mss.unwrap_or(0).to_be_bytes();
        // Kind 2, four bytes with kind and length (RFC 9293, 3.2).
        let option = [2, 4, high, low];
        let tcp = TcpFrame {
            link: self.link,
            ip: self.ends.ip(),
            src_port: self.ends.local_port,
            dst_port: self.ends.peer_port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: WINDOW,
            options: if self.mss.is_some() { &option } else { &[] },
            payload_len: self.len.into(),
        };
        let Layout { payload, len, .. } = tcp.layout();
        let have = frame.len();
        let bytes = frame.get_mut(payload..len).ok_or(BuildError::Buffer { need: len, have })?;
        match self.data {
            Data::None => {}
            Data::Plain(offset) => fill(bytes, offset),
            Data::Asking(offset, ask) => fill_asking(bytes, offset, ask),
            Data::Given(offset, _) => fill_given(bytes, offset, given),
        }
        tcp.emit(frame)?;
        frame[len..].fill(0);
        Ok(())
    }
}

/// Length of the headers of a segment without options.
fn headers(link: &Link, ends: &Ends) -> usize {
    link.header_len() + ends.ip().header_len() + tcp::HEADER_LEN
}

/// The largest segment whose frame, with a tag where there is one, is at most `frame` bytes long.
pub(super) fn mss_within(frame: usize, ipv6: bool, tags: Tagging) -> usize {
    let link = Link { src: MacAddr::ZERO, dst: MacAddr::ZERO, tags };
    let ip = if ipv6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    frame.saturating_sub(link.header_len() + ip + tcp::HEADER_LEN)
}

#[cfg(test)]
mod tests {
    use linerate_packet::{ethernet, vlan::Tci};

    use super::*;

    const LINK: Link = Link::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));

    fn ends(local: &str, peer: &str) -> Ends {
        let [local, peer] = [local, peer].map(|text| text.parse().unwrap());
        Ends { local, peer, local_port: 1024, peer_port: 80, vlan: 0 }
    }

    fn written(segment: &Segment) -> Vec<u8> {
        let mut frame = vec![0xaa; segment.frame_len()];
        segment.write(&mut frame, b"hello").unwrap();
        frame
    }

    #[test]
    fn keys_are_both_ends() {
        for (local, peer) in [("198.18.0.1", "198.19.0.1"), ("2001:2::1", "2001:2::2")] {
            let ends = Ends { vlan: 7, ..ends(local, peer) };
            assert_eq!(Ends::from_key(ends.key()), ends);
            let other = Ends { local_port: 1025, ..ends };
            assert_ne!(ends.key(), other.key());
        }
    }

    /// A segment is read as it was written, with tags and without, over IPv4 and IPv6.
    #[test]
    fn a_segment_is_read_as_it_was_written() {
        let tagged = Link { tags: Tagging::Single(Tci::new(3, false, 9)), ..LINK };
        let ask = RequestHeader { request: 100, response: 1 };
        for (link, local, peer) in [
            (LINK, "198.18.0.1", "198.19.0.1"),
            (tagged, "198.18.0.1", "198.19.0.1"),
            (LINK, "2001:2::1", "2001:2::2"),
        ] {
            let ends = Ends { vlan: vlan_of(link.tags), ..ends(local, peer) };
            for (mss, data, len) in [
                (Some(1460), Data::None, 0),
                (None, Data::Asking(0, ask), 100),
                (None, Data::Given(2, 0), 9),
                (None, Data::Plain(5000), 1400),
            ] {
                let flags = if mss.is_some() { Flags::SYN } else { Flags::ACK | Flags::PSH };
                let segment = Segment { link, ends, seq: 7, ack: 8, flags, mss, data, len };
                let frame = written(&segment);
                assert!(frame.len() >= MIN_FRAME);
                let Arrival::Segment(read) = read(&frame) else { panic!("{segment:?}") };
                let Ends { local, peer, local_port, peer_port, vlan } = ends;
                let turned = Ends {
                    local: peer,
                    peer: local,
                    local_port: peer_port,
                    peer_port: local_port,
                    vlan,
                };
                assert_eq!(read.ends, turned);
                assert_eq!((read.seq, read.ack, read.flags, read.mss), (7, 8, flags, mss));
                assert_eq!(read.payload.len(), usize::from(len));
                assert_eq!((read.link.src, read.link.dst), (LINK.dst, LINK.src));
                assert_eq!(read.link.tags, link.tags);
                match data {
                    Data::Given(..) => assert_eq!(read.payload, b"llohelloh"),
                    Data::Plain(offset) => {
                        assert!(super::super::payload::is_right(read.payload, offset));
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let ends = ends("198.18.0.1", "198.19.0.1");
        let segment = Segment {
            link: LINK,
            ends,
            seq: 1,
            ack: 1,
            flags: Flags::ACK,
            mss: None,
            data: Data::Plain(0),
            len: 200,
        };
        let frame = written(&segment);
        // Behind the Ethernet header, which no checksum covers.
        for at in ethernet::HEADER_LEN..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 4;
            assert!(!matches!(read(&changed), Arrival::Segment(_)), "byte {at}");
        }
    }

    #[test]
    fn the_largest_segment_fills_its_frame() {
        assert_eq!(mss_within(1514, false, Tagging::Untagged), 1460);
        assert_eq!(mss_within(1514, true, Tagging::Untagged), 1440);
        assert_eq!(mss_within(1518, false, Tagging::Single(Tci(1))), 1460);
        assert_eq!(mss_within(10, false, Tagging::Untagged), 0);
    }
}

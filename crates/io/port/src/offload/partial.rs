//! Partial checksums (`CHECKSUM_PARTIAL`) of packets that come without a virtio
//! header: an XDP program gets a packet of this host without being told that its
//! checksum is still to be computed.
//!
//! A packet has at most one. Of a packet in a tunnel it is the innermost transport
//! checksum where the sender left that to the interface, whatever tunnels follow: the kernel
//! computes their checksums as if the inner one were there (local checksum offload). Where
//! the inner packet is complete (ICMP, or forwarded), it is the checksum of the tunnel.
//!
//! A partial checksum is the sum of the pseudo header alone, which for GRE and SCTP is zero, and
//! is recognised by that value. A complete checksum that happens to be equal is taken for one, too;
//! computing it again gives the same value, so no correct checksum is changed. A checksum inside
//! of a tunnel that has one itself is computed only if the tunnel's becomes right by it: a
//! datagram may carry any bytes. Tunnels over UDP are recognised by the form of their headers,
//! because their ports are configuration: VXLAN and its generic extension, Geneve, and IP.

use linerate_packet::{
    EtherType, IpProtocol, Ipv4, Ipv6,
    checksum::{Sum, checksum, udp_nonzero},
    ipv6, udp, vxlan,
};
use smallvec::SmallVec;

use super::{
    crc32c,
    headers::{BRIDGED, DEPTH, Gre, half, link},
};

/// Offsets of the checksums of TCP, UDP, GRE and SCTP.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const GRE_CHECKSUM: usize = 4;
const SCTP_CHECKSUM: usize = 8;

/// VXLAN: flags that there is a network identifier, and that there is a protocol number; those that
/// neither it nor its extensions have, and the one of a checksum that is to stay partial.
const VXLAN_VALID: u8 = 0x08;
const VXLAN_PROTOCOL: u8 = 0x04;
const VXLAN_UNKNOWN: u8 = 0x70;
const VXLAN_REMOTE_CHECKSUM: u8 = 0x20;
/// Geneve: version, options' length in words, and reserved bits.
const GENEVE_VERSION: u8 = 0xc0;
const GENEVE_OPTIONS: u8 = 0x3f;
const GENEVE_RESERVED: u8 = 0x3f;

/// Finishes the checksum of a packet that has only the sum of its pseudo header. Returns whether there
/// was one to finish.
#[inline]
pub(crate) fn complete_partial(frame: &mut [u8]) -> bool {
    let Some(Unfinished { start, end, offset, .. }) = find(frame) else { return false };
    let Some(covered) = frame.get_mut(start..end) else { return false };
    match offset {
        Some(offset) => {
            let sum = checksum(covered);
            covered[offset..offset + 2].copy_from_slice(&udp_nonzero(sum).to_be_bytes());
            true
        }
        None => crc32c::complete(covered).is_some(),
    }
}

/// A checksum that is to be computed.
#[derive(Debug, Clone, Copy)]
struct Unfinished {
    /// The bytes that it covers.
    start: usize,
    end: usize,
    /// Offset of the checksum in those bytes; `None` for SCTP's.
    offset: Option<usize>,
    /// The sum over all it covers, once it is there.
    finished: u16,
}

/// The payload of an IP packet.
#[derive(Debug, Clone, Copy)]
struct Payload {
    start: usize,
    end: usize,
    protocol: IpProtocol,
    pseudo: Sum,
}

impl Payload {
    /// Of the IP header at a place; of fragments there is none.
    #[inline]
    fn parse(frame: &[u8], at: usize, ethertype: EtherType) -> Option<Payload> {
        let packet = frame.get(at..)?;
        match ethertype {
            EtherType::IPV4 => {
                let ip = Ipv4::new_checked(packet).ok().filter(|ip| !ip.is_fragment())?;
                Some(Payload {
                    start: at + ip.header_len(),
                    end: at + usize::from(ip.total_len()),
                    protocol: ip.protocol(),
                    pseudo: ip.pseudo_header(),
                })
            }
            EtherType::IPV6 => {
                let ip = Ipv6::new_checked(packet).ok()?;
                let upper = ip.upper_layer().ok().filter(|upper| !upper.is_fragment())?;
                let start = at + ipv6::HEADER_LEN + upper.offset;
                let end = at + ipv6::HEADER_LEN + usize::from(ip.payload_len());
                let length = end.checked_sub(start)?;
                let pseudo = ip.pseudo_header(upper.protocol, length as u32);
                Some(Payload { start, end, protocol: upper.protocol, pseudo })
            }
            _ => None,
        }
    }

    /// Its checksum, if the field has only the sum of the pseudo header.
    #[inline]
    fn partial(&self, frame: &[u8], offset: usize) -> Option<Unfinished> {
        let field = half(frame.get(self.start..self.end)?, offset)?;
        let finished = self.pseudo.finish();
        (field == !finished).then_some(Unfinished {
            start: self.start,
            end: self.end,
            offset: Some(offset),
            finished,
        })
    }
}

#[inline]
fn find(frame: &[u8]) -> Option<Unfinished> {
    let (network, ethertype) = link(frame)?;
    let payload = Payload::parse(frame, network, ethertype)?;
    match payload.protocol {
        IpProtocol::TCP => payload.partial(frame, TCP_CHECKSUM),
        IpProtocol::UDP => {
            payload.partial(frame, UDP_CHECKSUM).or_else(|| find_inside(frame, payload))
        }
        IpProtocol::GRE | IpProtocol::IPV4 | IpProtocol::IPV6 | IpProtocol::SCTP => {
            find_inside(frame, payload)
        }
        _ => None,
    }
}

/// Looks into tunnels.
#[inline(never)]
fn find_inside(frame: &[u8], mut payload: Payload) -> Option<Unfinished> {
    // Where the checksums of tunnels begin, and their pseudo headers.
    let mut around = SmallVec::<[(usize, Sum); DEPTH]>::new();
    for _ in 0..DEPTH {
        let covered = frame.get(payload.start..payload.end)?;
        let (at, ethertype) = match payload.protocol {
            IpProtocol::TCP => {
                return payload
                    .partial(frame, TCP_CHECKSUM)
                    .filter(|found| is_missing(frame, &around, found));
            }
            IpProtocol::UDP => {
                if let Some(found) = payload.partial(frame, UDP_CHECKSUM) {
                    return is_missing(frame, &around, &found).then_some(found);
                }
                if half(covered, UDP_CHECKSUM)? != 0 {
                    around.push((payload.start, payload.pseudo));
                }
                let (at, ethertype) = tunnel(covered.get(udp::HEADER_LEN..)?)?;
                (udp::HEADER_LEN + at, ethertype)
            }
            IpProtocol::GRE => {
                let gre = Gre::from_flags(half(covered, 0)?)?;
                if gre.has_checksum {
                    if half(covered, GRE_CHECKSUM)? == 0 {
                        let Payload { start, end, .. } = payload;
                        let offset = Some(GRE_CHECKSUM);
                        let found = Unfinished { start, end, offset, finished: u16::MAX };
                        return is_missing(frame, &around, &found).then_some(found);
                    }
                    around.push((payload.start, Sum::default()));
                }
                network(covered, gre.length, EtherType(half(covered, 2)?))?
            }
            IpProtocol::IPV4 => (0, EtherType::IPV4),
            IpProtocol::IPV6 => (0, EtherType::IPV6),
            IpProtocol::SCTP => {
                let field = covered.get(SCTP_CHECKSUM..SCTP_CHECKSUM + 4)?;
                let Payload { start, end, .. } = payload;
                // It is no part of a sum, so a tunnel around it has none.
                return (field == [0; 4] && around.is_empty()).then_some(Unfinished {
                    start,
                    end,
                    offset: None,
                    finished: 0,
                });
            }
            _ => return None,
        };
        // The checksum inside covers all to the end of the packet.
        let inside = Payload::parse(frame.get(..payload.end)?, payload.start + at, ethertype)?;
        payload = Some(inside).filter(|inside| inside.end == payload.end)?;
    }
    None
}

/// Returns true if the checksums around an unfinished one are right once it is there.
fn is_missing(frame: &[u8], around: &[(usize, Sum)], found: &Unfinished) -> bool {
    around.iter().all(|(start, pseudo)| {
        let mut sum = *pseudo;
        sum.add_bytes(&frame[*start..found.start]);
        sum.add_bytes(&found.finished.to_be_bytes());
        sum.is_valid()
    })
}

/// Offset of the IP header of a tunnel in a UDP datagram's payload, and its type.
fn tunnel(payload: &[u8]) -> Option<(usize, EtherType)> {
    let header = payload.first_chunk::<{ vxlan::HEADER_LEN }>()?;
    let ethertype = EtherType(u16::from_be_bytes([header[2], header[3]]));
    let is_geneve = header[0] & GENEVE_VERSION == 0
        && header[1] & GENEVE_RESERVED == 0
        && header[7] == 0
        && matches!(ethertype, EtherType::IPV4 | EtherType::IPV6 | BRIDGED);
    if is_geneve {
        let options = usize::from(header[0] & GENEVE_OPTIONS) * 4;
        return network(payload, header.len() + options, ethertype);
    }
    let is_vxlan = header[0] & (VXLAN_VALID | VXLAN_UNKNOWN) == VXLAN_VALID
        && header[1] & VXLAN_REMOTE_CHECKSUM == 0
        && header[7] == 0;
    if is_vxlan {
        let ethertype = match header[3] {
            _ if header[0] & VXLAN_PROTOCOL == 0 => BRIDGED,
            1 => EtherType::IPV4,
            2 => EtherType::IPV6,
            3 => BRIDGED,
            _ => return None,
        };
        return network(payload, header.len(), ethertype);
    }
    match header[0] >> 4 {
        4 => Some((0, EtherType::IPV4)),
        6 => Some((0, EtherType::IPV6)),
        _ => None,
    }
}

/// Offset of the network header of a packet at a place, which may be Ethernet.
fn network(bytes: &[u8], at: usize, ethertype: EtherType) -> Option<(usize, EtherType)> {
    if ethertype != BRIDGED {
        return Some((at, ethertype));
    }
    let (network, ethertype) = link(bytes.get(at..)?)?;
    Some((at + network, ethertype))
}

#[cfg(test)]
mod tests {
    use linerate_packet::{
        MacAddr,
        build::{Ip, Link, TcpFrame, UdpFrame},
        tcp::Flags,
    };
    use linerate_test_support::tunnels::{
        Head, PendingChecksums, SegmentPart, Transport, packet, stacks, transport_of,
    };
    use proptest::prelude::*;

    use super::*;

    const LINK: Link = Link::new(MacAddr([2; 6]), MacAddr([4; 6]));

    fn ips() -> [Ip; 2] {
        [
            Ip::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            Ip::v6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()),
        ]
    }

    /// A frame with the range of a checksum.
    struct Sample {
        frame: Vec<u8>,
        /// Start of the transport header, end of the packet.
        covered: (usize, usize),
        /// The checksum field.
        field: usize,
    }

    /// UDP and TCP over both families, with padding behind the packet.
    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for ip in ips() {
            let mut frame = vec![0x5a; 300];
            let udp = UdpFrame { link: LINK, ip, src_port: 7, dst_port: 9, payload_len: 33 };
            let layout = udp.emit(&mut frame).unwrap();
            frame.truncate(layout.len + 3);
            let covered = (layout.transport, layout.len);
            samples.push(Sample { frame, covered, field: layout.transport + 6 });
            let mut frame = vec![0x5a; 300];
            let tcp = TcpFrame {
                link: LINK,
                ip,
                src_port: 7,
                dst_port: 9,
                seq: 1,
                ack: 2,
                flags: Flags::ACK,
                window: 3,
                options: &[],
                payload_len: 32,
            };
            let layout = tcp.emit(&mut frame).unwrap();
            frame.truncate(layout.len + 2);
            let covered = (layout.transport, layout.len);
            samples.push(Sample { frame, covered, field: layout.transport + 16 });
        }
        samples
    }

    #[test]
    fn a_finished_checksum_stays() {
        for Sample { frame, .. } in samples() {
            let mut touched = frame.clone();
            complete_partial(&mut touched);
            assert_eq!(touched, frame);
        }
    }

    #[test]
    fn an_unfinished_one_is_finished() {
        for Sample { frame, covered: (start, end), field } in samples() {
            let mut touched = frame.clone();
            touched[field..field + 2].fill(0);
            // The finished checksum is the complement of pseudo header and
            // rest together; take the rest out of it again.
            let rest = checksum(&touched[start..end]);
            let finished = u16::from_be_bytes([frame[field], frame[field + 1]]);
            let pseudo = (u32::from(!finished) + u32::from(rest)) % 0xffff;
            touched[field..field + 2].copy_from_slice(&(pseudo as u16).to_be_bytes());
            assert!(complete_partial(&mut touched), "{touched:02x?}");
            assert_eq!(touched, frame);
        }
    }

    #[test]
    fn anything_else_is_left_alone() {
        for length in 0..120 {
            let mut frame = vec![0x45; length];
            assert!(!complete_partial(&mut frame));
            assert_eq!(frame, vec![0x45; length]);
        }
    }

    /// All packets that the kernel may send over a virtual link, with the checksum it may have left
    /// undone.
    fn tunnels() -> impl Iterator<Item = (Vec<Head>, Transport)> {
        let is_known = |heads: &Vec<Head>| {
            let gre_in_udp =
                heads.windows(2).any(|pair| matches!(pair, [Head::Udp { .. }, Head::Gre { .. }]));
            !gre_in_udp && !heads.contains(&Head::Mpls)
        };
        let kinds = |heads: Vec<Head>| [(heads.clone(), Transport::Tcp), (heads, Transport::Udp)];
        stacks().into_iter().filter(is_known).flat_map(kinds)
    }

    const PART: SegmentPart<'_> =
        SegmentPart { payload: b"some bytes", index: 0, done: 0, is_last: true };

    #[test]
    fn one_inside_of_tunnels_is_finished() {
        for (heads, transport) in tunnels() {
            let finished = packet(&heads, transport, &PART, PendingChecksums::Nothing);
            let mut touched = finished.clone();
            complete_partial(&mut touched);
            assert_eq!(touched, finished, "{heads:?}");
            for undone in [PendingChecksums::Transport, PendingChecksums::Tunnel] {
                let mut touched = packet(&heads, transport, &PART, undone);
                let is_undone = touched != finished;
                assert_eq!(complete_partial(&mut touched), is_undone, "{undone:?} {heads:?}");
                assert_eq!(touched, finished, "{undone:?} {heads:?}");
            }
        }
    }

    /// Bytes of a datagram that look like an unfinished packet are its sender's.
    #[test]
    fn one_that_a_tunnels_checksum_has_as_it_is_stays() {
        for (heads, transport) in tunnels() {
            let Some(at) =
                heads.iter().position(|head| matches!(head, Head::Udp { checksum: true }))
            else {
                continue;
            };
            let start = transport_of(&heads[..at]);
            let mut sent = packet(&heads, transport, &PART, PendingChecksums::Transport);
            let network = link(&sent).unwrap();
            let outer = Payload::parse(&sent, network.0, network.1).unwrap();
            sent[start + UDP_CHECKSUM..start + UDP_CHECKSUM + 2].fill(0);
            let mut sum = outer.pseudo;
            sum.add_bytes(&sent[start..]);
            let sum = udp_nonzero(sum.finish());
            sent[start + UDP_CHECKSUM..start + UDP_CHECKSUM + 2]
                .copy_from_slice(&sum.to_be_bytes());
            let mut touched = sent.clone();
            assert!(!complete_partial(&mut touched), "{heads:?}");
            assert_eq!(touched, sent, "{heads:?}");
        }
    }

    #[test]
    fn that_of_sctp_is_a_crc() {
        let heads = [Head::Ethernet, Head::V4 { id: 7, atomic: true, options: false }];
        let mut frame = packet(&heads, Transport::Udp, &PART, PendingChecksums::Nothing);
        frame[23] = 132;
        frame[42..46].fill(0);
        let sum = crc32c::crc32c(&frame[34..]);
        assert!(complete_partial(&mut frame));
        assert_eq!(frame[42..46], sum.to_le_bytes());
        assert!(!complete_partial(&mut frame));
    }

    proptest! {
        #[test]
        fn any_bytes_are_finished_or_left_alone(
            heads in proptest::sample::select(stacks()),
            changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
            length in any::<u16>(),
        ) {
            let mut frame = packet(&heads, Transport::Tcp, &PART, PendingChecksums::Transport);
            for (at, value) in changes {
                let at = usize::from(at) % frame.len();
                frame[at] = value;
            }
            frame.truncate(frame.len() - usize::from(length) % frame.len());
            let before = frame.clone();
            prop_assert!(complete_partial(&mut frame) || frame == before);
        }
    }
}

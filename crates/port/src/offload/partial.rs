//! Partial checksums (`CHECKSUM_PARTIAL`) of packets that come without a virtio
//! header: an XDP program gets a packet of this host without being told that its
//! checksum is still to be computed.
//!
//! A partial checksum is the sum of the pseudo header alone, and is recognised by
//! that value. A complete checksum that happens to be equal is taken for one, too;
//! computing it again gives the same value, so no correct checksum is changed.

use linerate_packet::{
    IpProtocol, Ipv4, Ipv6,
    checksum::{checksum, udp_nonzero},
    flow::{self, FlowKey, VlanRule},
    ipv6,
};

/// Finishes the checksum of a TCP or UDP packet that has only the sum of its
/// pseudo header. Returns whether there was one to finish.
#[inline]
pub(crate) fn complete_partial(frame: &mut [u8]) -> bool {
    find(frame).is_some_and(|(start, end, offset)| {
        let covered = &mut frame[start..end];
        let sum = checksum(covered);
        covered[offset..offset + 2].copy_from_slice(&udp_nonzero(sum).to_be_bytes());
        true
    })
}

/// Start of the transport header, end of the packet, and the offset of the
/// checksum field in the transport header.
#[inline]
fn find(frame: &[u8]) -> Option<(usize, usize, usize)> {
    let flow = flow::extract(frame, VlanRule::Ignore).ok()?;
    let protocol = flow.key.protocol();
    let offset = match protocol {
        IpProtocol::TCP => 16,
        IpProtocol::UDP => 6,
        _ => return None,
    };
    if flow.fragment {
        return None;
    }
    let (network, start) = (usize::from(flow.network), usize::from(flow.transport));
    let packet = frame.get(network..)?;
    let (pseudo, end) = match flow.key {
        FlowKey::V4(_) => {
            let ip = Ipv4::new_checked(packet).ok()?;
            (ip.pseudo_header(), network + usize::from(ip.total_len()))
        }
        FlowKey::V6(_) => {
            let ip = Ipv6::new_checked(packet).ok()?;
            let end = network + ipv6::HEADER_LEN + usize::from(ip.payload_len());
            (ip.pseudo_header(protocol, end.checked_sub(start)? as u32), end)
        }
    };
    let field = frame.get(start..end)?.get(offset..offset + 2)?;
    let unfinished = !pseudo.finish();
    (field == unfinished.to_be_bytes()).then_some((start, end, offset))
}

#[cfg(test)]
mod tests {
    use linerate_packet::{
        MacAddr,
        build::{Ip, Link, TcpFrame, UdpFrame},
        tcp::Flags,
    };

    use super::*;

    const LINK: Link = Link::new(MacAddr([2; 6]), MacAddr([4; 6]));

    fn ips() -> [Ip; 2] {
        [
            Ip::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            Ip::v6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()),
        ]
    }

    /// A frame with what a checksum is about.
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
}

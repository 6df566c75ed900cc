//! `VXLANEncap`, `VXLANDecap`: Ethernet over UDP (RFC 7348).

use std::net::Ipv4Addr;

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, Exit, Handler, HandlerResult, NoBuffer, Step,
    Verdict, Writes,
};
use linerate_memory::{Frame, HeaderStart, PacketMut};
use linerate_packet::{
    IpProtocol,
    checksum::{checksum, pseudo_v4},
    flow::{VlanRule, extract},
    vxlan,
};

use super::{FAMILY, header, mac_table::keys_of, tag::Bounded, written};
use linerate_element_support::ether::HEADER;

/// Bytes of the headers: IPv4, UDP, VXLAN.
const IP: usize = 20;
const UDP: usize = 8;
const OUTER: usize = IP + UDP + vxlan::HEADER_LEN;
/// The largest network identifier.
const VNI_LIMIT: i32 = 0xff_ffff;
/// Source ports of tunnels: those for private use.
const PORTS: u16 = 49_152;

/// The flag that says that there is a network identifier.
const VALID: u8 = 0x08;

pub(super) const ENCAP: Class = Class {
    name: "VXLANEncap",
    family: FAMILY,
    summary: "puts Ethernet packets into a VXLAN tunnel",
    description: "In front of each Ethernet packet come a VXLAN header with the network `VNI`, a \
        UDP header, and an IPv4 header from `SRC` to `DST`, which is also the destination \
        annotation: an ARPQuerier can be behind. The UDP source port depends on the addresses and \
        ports of the packet inside, so that networks on the way that balance by flow spread them; \
        `SPORT` sets it. The UDP checksum is zero, as the standard wants it. Packets are not cut: \
        the network on the way must carry 50 bytes more than the longest.",
    ports: "1/1",
    annotates: true,
    drops: header::Reason::REASONS,
    cost: "The headers of the packet inside are read for the port, 36 \
        bytes are written, and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> VXLANEncap(10.0.0.1, 10.0.0.2, 7) -> Discard;",
    ..Class::for_element::<Encap>()
};

pub(super) const DECAP: Class = Class {
    name: "VXLANDecap",
    family: FAMILY,
    summary: "takes Ethernet packets out of a VXLAN tunnel",
    description: "Packets begin with their IPv4 header, which was checked, as by CheckIPHeader. \
        What is VXLAN over UDP for port `DPORT`, of the network `VNI` where that is given, loses \
        its outer headers, and padding behind them. All else leaves by output 1, or is dropped \
        where it is not used: other protocols and networks, fragments, lengths that do not fit, and \
        UDP checksums that are wrong, which have a drop reason of their own; zero means none.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "Outer headers are read. A checksum, where there is one, \
        costs a pass over the packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> VXLANEncap(10.0.0.1, 10.0.0.2, 7) \
        -> VXLANDecap(7) -> Discard;",
    ..Decap::CLASS
};

/// Reasons for which packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum Reason {
    /// not of this tunnel
    Other,
    #[from(NoBuffer)]
    NoBuffer,
    /// wrong UDP checksum
    WrongChecksum,
}

#[derive(Arguments)]
#[arguments(handlers = [Handler::value("vni", "the network")])]
struct Encap {
    /// this end of the tunnel
    #[arg(kind = "IPv4 address", stand_in = Ipv4Addr::UNSPECIFIED)]
    #[handler(value)]
    src: Ipv4Addr,
    /// the other end
    #[arg(kind = "IPv4 address", stand_in = Ipv4Addr::UNSPECIFIED)]
    #[handler(value)]
    dst: Ipv4Addr,
    /// the network
    #[arg(kind = "0 to 0xFFFFFF", stand_in = Bounded(0))]
    vni: Bounded<0, VNI_LIMIT>,
    /// the source port
    #[arg(keyword, kind = "0 to 65535", default = 0, shown = "0: by flow")]
    sport: u16,
    /// the destination port
    #[arg(keyword, kind = "0 to 65535", default = vxlan::UDP_PORT, shown = "4789")]
    dport: u16,
    /// how many routers may be on the way
    #[arg(keyword, kind = "0 to 255", default = 64)]
    ttl: u8,
    /// the type of service
    #[arg(keyword, kind = "0 to 255", default = 0)]
    tos: u8,
    /// The next packet's identification.
    identification: u16,
}

impl Encap {
    /// The headers of all packets; fields that differ are zero.
    fn template(&self) -> [u8; OUTER] {
        let mut bytes = [0; OUTER];
        (bytes[0], bytes[1], bytes[8], bytes[9]) = (0x45, self.tos, self.ttl, IpProtocol::UDP.0);
        bytes[12..16].copy_from_slice(&self.src.octets());
        bytes[16..20].copy_from_slice(&self.dst.octets());
        bytes[22..24].copy_from_slice(&self.dport.to_be_bytes());
        bytes[28] = VALID;
        bytes[32..36].copy_from_slice(&(self.vni.0 << 8).to_be_bytes());
        bytes
    }

    /// Fills the headers of a packet that begins with them.
    #[inline]
    fn fill(&mut self, template: &[u8; OUTER], bytes: &mut [u8]) {
        let Some((outer, inner)) = bytes.split_first_chunk_mut::<OUTER>() else { return };
        // Buffers are shorter than an IPv4 packet can be.
        let length = (OUTER + inner.len()) as u16;
        let sport = if self.sport == 0 { source_port(inner) } else { self.sport };
        *outer = *template;
        outer[2..4].copy_from_slice(&length.to_be_bytes());
        outer[4..6].copy_from_slice(&self.identification.to_be_bytes());
        self.identification = self.identification.wrapping_add(1);
        let sum = checksum(&outer[..IP]);
        outer[10..12].copy_from_slice(&sum.to_be_bytes());
        outer[20..22].copy_from_slice(&sport.to_be_bytes());
        outer[24..26].copy_from_slice(&(length - IP as u16).to_be_bytes());
    }
}

/// A port that is the same for all packets of a flow.
fn source_port(inner: &[u8]) -> u16 {
    let hash = match extract(inner, VlanRule::Ignore) {
        Ok(flow) => flow.key.hash64(0),
        Err(_) => {
            let (destination, source) = keys_of(inner);
            destination.wrapping_add(source.rotate_left(16)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }
    };
    PORTS | (hash >> 50) as u16
}

impl Element for Encap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        header::open(cx, frame, OUTER, 0);
        let template = self.template();
        let arena = cx.pool.arena();
        arena.for_each_mut(frame, |bytes| self.fill(&template, bytes));
        for mut packet in frame.slots_mut().iter_mut().filter_map(|slot| arena.writable(slot)) {
            packet.mark_headers(0, IP);
            packet.meta_mut().destination[..4].copy_from_slice(&self.dst.octets());
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "vni" => Ok(self.vni.0.to_string()),
            _ => self.read_field(&cx.scope(), handler),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "vni" => self.vni = written(cx, "VNI", value)?,
            _ => return self.write_field(&cx.scope(), handler, value),
        }
        Ok(String::new())
    }
}

#[derive(Arguments)]
struct Decap {
    /// the network
    #[arg(optional, kind = "0 to 0xFFFFFF", shown = "any")]
    vni: Option<Bounded<0, VNI_LIMIT>>,
    /// the port tunnels come to
    #[arg(keyword, kind = "0 to 65535", default = vxlan::UDP_PORT, shown = "4789")]
    dport: u16,
}

impl Decap {
    /// Returns start and end of the inner packet, or the reason for which it is not decapsulated.
    #[inline]
    fn inside(&self, bytes: &[u8]) -> Result<(usize, usize), Reason> {
        let outer = self.outer(bytes).ok_or(Reason::Other)?;
        if outer.is_right() {
            Ok((outer.udp + UDP + vxlan::HEADER_LEN, outer.udp + outer.datagram.len()))
        } else {
            Err(Reason::WrongChecksum)
        }
    }

    /// The outer headers of a packet of the tunnel.
    #[inline]
    fn outer<'a>(&self, bytes: &'a [u8]) -> Option<Outer<'a>> {
        let ip = bytes.first_chunk::<IP>()?;
        let number = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let length = usize::from(ip[0] & 15) * 4;
        let total = usize::from(number(ip, 2));
        let fragment = number(ip, 6) & 0x3fff != 0;
        if ip[0] >> 4 != 4 || length < IP || ip[9] != IpProtocol::UDP.0 || fragment {
            return None;
        }
        let udp = bytes.get(length..total)?;
        let headers = udp.first_chunk::<{ UDP + vxlan::HEADER_LEN }>()?;
        let udp_length = usize::from(number(headers, 4));
        let datagram = udp.get(..udp_length)?;
        if number(headers, 2) != self.dport
            || udp_length < headers.len() + HEADER
            || headers[8] & VALID == 0
        {
            return None;
        }
        let vni = u32::from_be_bytes([0, headers[12], headers[13], headers[14]]);
        if self.vni.is_some_and(|Bounded(wanted)| wanted as u32 != vni) {
            return None;
        }
        Some(Outer { ip, udp: length, datagram, checksum: number(headers, 6) })
    }
}

/// The outer headers.
struct Outer<'a> {
    ip: &'a [u8; IP],
    /// Offset of the UDP header.
    udp: usize,
    datagram: &'a [u8],
    checksum: u16,
}

impl Outer<'_> {
    /// Returns true if the UDP checksum is that of the datagram, or none.
    #[inline]
    fn is_right(&self) -> bool {
        self.checksum == 0 || is_right(self.ip, self.datagram)
    }
}

/// Returns true if the checksum of a UDP datagram is that of its bytes.
fn is_right(ip: &[u8; IP], datagram: &[u8]) -> bool {
    let address = |at: usize| Ipv4Addr::from(ip[at..].first_chunk().copied().unwrap_or([0; 4]));
    let length = datagram.len() as u16;
    let mut sum = pseudo_v4(address(12), address(16), IpProtocol::UDP, length);
    sum.add_bytes(datagram);
    sum.is_valid()
}

impl Step<Writes, Reason> for Decap {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let (start, end) = self.inside(packet.bytes()).map_err(Exit::ErrorOutput)?;
        packet.truncate(end);
        packet.pull(start);
        packet.mark_network(HEADER);
        packet.meta_mut().transport = HeaderStart::UNKNOWN;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    use super::*;
    use crate::testing::Run;

    fn bytes_of(hex: &str) -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn others_read_the_headers_and_we_take_them_off() {
        let mut random = fastrand::Rng::with_seed(4);
        for length in [14, 15, 60, 200, 1400] {
            let inner: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let mut run = Run::new(&format!(
                "Packets({} {}) -> VXLANEncap(10.0.0.1, 10.0.0.2, 0x123456, TTL 9, TOS 3)
                    -> t :: Tee -> o :: Collect; t [1] -> VXLANDecap(0x123456) -> i :: Collect;
                 t [2] -> d :: VXLANDecap(7) -> Discard; d [1] -> other :: Collect;",
                hex(&inner),
                hex(&inner)
            ));
            run.run();
            let packets = run.read("o.packets");
            for (at, line) in packets.lines().enumerate() {
                let bytes = bytes_of(line);
                let packet = SlicedPacket::from_ip(&bytes).unwrap();
                let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("{line}") };
                let header = ip.header().to_header();
                assert_eq!(header.calc_header_checksum(), header.header_checksum);
                assert_eq!((header.source, header.destination), ([10, 0, 0, 1], [10, 0, 0, 2]));
                assert_eq!((header.time_to_live, header.identification), (9, at as u16));
                let Some(TransportSlice::Udp(udp)) = &packet.transport else { panic!("{line}") };
                assert_eq!((udp.destination_port(), udp.checksum()), (4789, 0));
                assert!(udp.source_port() >= PORTS);
                assert_eq!(usize::from(udp.length()), length + 16);
                assert_eq!(udp.payload()[..8], [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
                assert_eq!(udp.payload()[8..], inner);
            }
            assert_eq!(run.read("i.packets"), format!("{0}\n{0}", hex(&inner)));
            assert_eq!(run.read("other.packets"), packets);
        }
    }

    #[test]
    fn malformed_packets_stay_in_the_tunnel() {
        let inner = [7; 20];
        let encap = Encap {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            vni: Bounded(5),
            sport: 50_000,
            dport: 4789,
            ttl: 64,
            tos: 0,
            identification: 0,
        };
        let mut good = [&[0; OUTER][..], &inner].concat();
        let template = encap.template();
        { encap }.fill(&template, &mut good);
        let decap = Decap { vni: Some(Bounded(5)), dport: 4789 };
        assert_eq!(decap.inside(&good), Ok((36, 56)));
        let padded = [&good[..], &[0; 9]].concat();
        assert_eq!(decap.inside(&padded), Ok((36, 56)));
        for (at, value) in [
            (0, 0x65), // version
            (0, 0x4f), // header length
            (3, 55),   // total length
            (6, 0x20), // more fragments
            (7, 1),    // fragment offset
            (9, 6),    // TCP
            (23, 0),   // port
            (25, 37),  // UDP length, too long
            (25, 20),  // too short for an Ethernet header
            (28, 0),   // no network
            (34, 6),   // another one
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(decap.inside(&bytes), Err(Reason::Other), "byte {at}");
        }
        (0..good.len())
            .for_each(|length| assert_eq!(decap.inside(&good[..length]), Err(Reason::Other)));
        let mut bytes = good.clone();
        bytes[27] = 1;
        assert_eq!(decap.inside(&bytes), Err(Reason::WrongChecksum));
    }
}

//! `TCPMSSClamp`: TCP connections whose segments fit the path.

use std::ops::Range;

use linerate_graph::{Arguments, Class, ElementBuilder, PacketMut, Step, Verdict, Writes};
use linerate_packet::{
    IpProtocol, ipv4,
    ipv4::Ipv4,
    ipv6,
    ipv6::Ipv6,
    tcp,
    tcp::{Flags, Tcp, TcpOption},
};

use super::FAMILY;
use linerate_element_support::ip::{HeaderReason, NoHeader};

pub(super) const CLASS: Class = Class {
    name: "TCPMSSClamp",
    family: FAMILY,
    summary: "lowers the maximum segment size that TCP connections begin with",
    description: "The first segments of a connection (SYN) say how large segments may be that the \
        other side sends. A size above `MSS`, or above that whose segments fill packets of `MTU` \
        bytes (40 less with IPv4, 60 less with IPv6), is replaced, for paths where larger packets \
        are lost without a message, such as tunnels and PPPoE. Checksums stay right. A segment \
        without the option means 536 bytes with IPv4 and 1220 with IPv6 (RFC 9293, section 3.7.1) \
        and goes on as it is, and so do packets that are no TCP. The IP header must be known \
        (`CheckIPHeader`, `CheckIP6Header`). Not in Click.",
    ports: "1/1",
    annotates: true,
    cost: "A look at the header of each packet; in one with SYN a walk over its options.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto tcp_flags tcp_opt, \
        DATA \"1.0.0.1 T S mss1460\")\n  -> CheckIPHeader -> TCPMSSClamp(MTU 1492) -> Discard;",
    ..TcpMssClamp::CLASS
};

#[derive(Arguments)]
#[arguments(check = TcpMssClamp::check)]
struct TcpMssClamp {
    /// largest segment size that goes on
    #[arg(optional, kind = "bytes", shown = "that of the MTU")]
    #[handler(value)]
    mss: Option<u16>,
    /// MTU of the path
    #[arg(keyword, kind = "bytes", shown = "none")]
    #[handler(value)]
    mtu: Option<u16>,
    /// segments whose size was lowered
    #[handler(count, kept)]
    clamped: u64,
}

impl TcpMssClamp {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if self.mss.is_none() && self.mtu.is_none() {
            make.error("MSS or MTU must be given");
        }
    }

    /// Returns the largest segment size behind headers of so many bytes.
    fn limit(&self, headers: usize) -> u16 {
        let fitting = |mtu: u16| mtu.saturating_sub(headers as u16);
        self.mss.unwrap_or(u16::MAX).min(self.mtu.map_or(u16::MAX, fitting))
    }
}

/// Place of the TCP segment in an IP packet, and the bytes of both headers without options; `None` in
/// packets without a TCP header, such as fragments other than the first.
#[inline(always)]
fn segment(ip: &[u8]) -> Option<(Range<usize>, usize)> {
    if ip[0] >> 4 == 6 {
        let header = Ipv6::new_checked(ip).ok()?;
        let upper = header.upper_layer().ok()?;
        let end = ipv6::HEADER_LEN + usize::from(header.payload_len());
        let found = upper.protocol == IpProtocol::TCP && upper.has_header();
        let headers = ipv6::HEADER_LEN + tcp::HEADER_LEN;
        return found.then_some((ipv6::HEADER_LEN + upper.offset..end, headers));
    }
    let header = Ipv4::new_checked(ip).ok()?;
    let found = header.protocol() == IpProtocol::TCP && header.fragment_offset() == 0;
    let end = usize::from(header.total_len());
    found.then_some((header.header_len()..end, ipv4::HEADER_LEN + tcp::HEADER_LEN))
}

impl Step<Writes, HeaderReason> for TcpMssClamp {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<HeaderReason> {
        let network = packet.network();
        let ip = packet.bytes_mut().get_mut(network..).filter(|ip| !ip.is_empty());
        let ip = ip.ok_or(NoHeader)?;
        let Some((place, headers)) = segment(ip) else { return Ok(()) };
        let Some(Ok(mut tcp)) = ip.get_mut(place).map(Tcp::new_checked) else { return Ok(()) };
        if !tcp.flags().contains(Flags::SYN) {
            return Ok(());
        }
        let limit = self.limit(headers);
        let large = tcp.options().with_offsets().find_map(|(at, option)| match option {
            Ok(TcpOption::MaxSegmentSize(size)) if size > limit => Some(at),
            _ => None,
        });
        if let Some(at) = large
            && tcp.set_option(at, &TcpOption::MaxSegmentSize(limit))
        {
            self.clamped += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep, TcpHeader, TcpOptionElement};

    use crate::testing::Run;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn version4() -> PacketBuilderStep<IpHeaders> {
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    }

    fn version6() -> PacketBuilderStep<IpHeaders> {
        PacketBuilder::ipv6([0x20; 16], [0x30; 16], 64)
    }

    /// A segment with right checksums.
    fn packet(ip: PacketBuilderStep<IpHeaders>, syn: bool, options: &[TcpOptionElement]) -> String {
        let mut header = TcpHeader::new(5, 80, 7, 1000);
        (header.syn, header.ack) = (syn, true);
        header.set_options(options).unwrap();
        let mut bytes = Vec::new();
        ip.tcp_header(header).write(&mut bytes, b"data").unwrap();
        hex(&bytes)
    }

    fn with_size(ip: PacketBuilderStep<IpHeaders>, size: u16) -> String {
        // At an odd offset.
        let options = [
            TcpOptionElement::Noop,
            TcpOptionElement::MaximumSegmentSize(size),
            TcpOptionElement::WindowScale(7),
        ];
        packet(ip, true, &options)
    }

    /// Packets behind the element, and the segments it has changed.
    fn clamped(arguments: &str, packets: &[String]) -> (Vec<String>, String) {
        let mut found = Vec::new();
        for frame_limit in [1, 256] {
            let mut run = Run::new(&format!(
                "Packets({}) -> MarkNetwork(0) -> t :: TCPMSSClamp({arguments}) -> c :: Collect",
                packets.join(" ")
            ))
            .frame_limit(frame_limit);
            run.run();
            let lines = run.read("c.packets").lines().map(String::from).collect();
            found.push((lines, run.read("t.clamped")));
        }
        assert_eq!(found[0], found[1]);
        found.remove(0)
    }

    #[test]
    fn larger_sizes_are_lowered_and_checksums_stay_right() {
        for (arguments, limits) in [
            ("1400", [1400, 1400]),
            ("MTU 1492", [1452, 1432]),
            ("1436, MTU 1492", [1436, 1432]),
            ("MTU 30", [0, 0]),
        ] {
            let sizes = [536, 1400, 1432, 1433, 1460, 9000, 65535];
            let sent: Vec<_> = sizes
                .iter()
                .flat_map(|size| [with_size(version4(), *size), with_size(version6(), *size)])
                .collect();
            let expected: Vec<_> = sizes
                .iter()
                .flat_map(|size| {
                    let [four, six] = limits.map(|limit| limit.min(*size));
                    [with_size(version4(), four), with_size(version6(), six)]
                })
                .collect();
            let changed = sent.iter().zip(&expected).filter(|(a, b)| a != b).count();
            assert_eq!(clamped(arguments, &sent), (expected, changed.to_string()), "{arguments}");
        }
    }

    #[test]
    fn other_packets_go_on_as_they_are() {
        let size = [TcpOptionElement::MaximumSegmentSize(9000)];
        let mut udp = Vec::new();
        version4().udp(5, 53).write(&mut udp, b"data").unwrap();
        let whole = with_size(version4(), 9000);
        let packets = [
            packet(version4(), false, &size),
            packet(version4(), true, &[]),
            packet(version6(), true, &[TcpOptionElement::WindowScale(7)]),
            hex(&udp),
            // Cut off within the TCP header, and within the IP header.
            whole[..2 * 39].into(),
            whole[..2 * 12].into(),
            "60".into(),
            "ff00".into(),
            // A fragment other than the first.
            format!("{}0001{}", &whole[..12], &whole[16..]),
        ];
        assert_eq!(clamped("100", &packets), (packets.to_vec(), "0".into()));
    }

    /// Behind extension headers, too.
    #[test]
    fn extension_headers_are_walked_over() {
        let segment = with_size(version6(), 9000);
        let (head, tcp) = segment.split_at(80);
        let options = "0600010400000000";
        let length = u16::from_str_radix(&head[8..12], 16).unwrap() + 8;
        let extended =
            |tcp: &str| format!("{}{length:04x}00{}{options}{tcp}", &head[..8], &head[14..]);
        let lowered = with_size(version6(), 1220);
        let sent = [extended(tcp)];
        assert_eq!(clamped("MTU 1280", &sent), (vec![extended(&lowered[80..])], "1".into()));
    }

    #[test]
    fn settings_are_read_and_written() {
        let mut run = Run::new("Packets(45) -> t :: TCPMSSClamp(MTU 1500) -> Collect");
        assert_eq!((run.read("t.mtu"), run.read("t.mss")), ("1500".into(), String::new()));
        run.write("t.mss", "1200").unwrap();
        run.write("t.mtu", "").unwrap();
        assert_eq!((run.read("t.mtu"), run.read("t.mss")), (String::new(), "1200".into()));
        let error = run.write("t.mss", "65536").unwrap_err().to_string();
        assert_eq!(error, "expected integer");
        let errors = Run::errors("Packets(45) -> TCPMSSClamp -> Collect");
        assert!(errors.contains("MSS or MTU must be given"), "{errors}");
    }
}

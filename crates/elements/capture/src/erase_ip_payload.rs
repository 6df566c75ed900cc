//! `EraseIPPayload`: zeroes the payload of TCP and UDP packets.

use linerate_graph::{Arguments, Class, DropReason, Exit, NoBuffer, Step, Verdict, Writes};
use linerate_memory::PacketMut;

use super::FAMILY;
use linerate_element_support::ip::{NoHeader, PROTOCOL, header_length, ip_mut, is_first_fragment};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// neither TCP, UDP nor ICMP
    Other,
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

pub(super) const CLASS: Class = Class {
    name: "EraseIPPayload",
    family: FAMILY,
    summary: "overwrites what TCP and UDP carry with zeros",
    description: "Packets keep their length and their headers; the checksum of TCP or UDP becomes \
        zero. Of fragments but the first all behind the IP header is erased. ICMP is left as it is, \
        and packets of other protocols are dropped. The IP header must be known (`MarkIPHeader`).",
    ports: "1/1",
    annotates: true,
    cost: "Writes all bytes of a packet behind its headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto, DATA \"1.0.0.1 U\") \
        -> EraseIPPayload -> Discard;",
    ..EraseIpPayload::CLASS
};

#[derive(Arguments)]
struct EraseIpPayload {}

impl Step<Writes, Reason> for EraseIpPayload {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let network = packet.network();
        let ip = ip_mut(packet.bytes_mut(), network).ok_or(Exit::Drop(Reason::NoHeader))?;
        let (protocol, is_first) = (ip[PROTOCOL], is_first_fragment(ip));
        let start = header_length(ip);
        let behind = &mut ip[start..];
        let (header, checksum) = match (protocol, is_first) {
            (TCP, true) => (behind.get(12).map_or(20, |offset| usize::from(offset >> 4) * 4), 16),
            (UDP, true) => (8, 6),
            (TCP | UDP, false) => (0, usize::MAX),
            (ICMP, _) => return Ok(()),
            _ => return Err(Exit::Drop(Reason::Other)),
        };
        if let Some(payload) = behind.get_mut(header..) {
            payload.fill(0);
        }
        if let Some([high, low]) =
            behind.get_mut(checksum..).and_then(|rest| rest.first_chunk_mut::<2>())
        {
            (*high, *low) = (0, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// An IPv4 header of that protocol and fragment offset.
    fn header(protocol: u8, fragment: u16) -> String {
        format!("450000280001{fragment:04x}40{protocol:02x}ffff0100000102000002")
    }

    #[test]
    fn payload_and_checksum_become_zero() {
        let tcp = "0005000600000001000000025018ffff11112222";
        let cleared = "0005000600000001000000025018ffff00002222";
        let longer = tcp.replace("5018", "6018");
        let longer_cleared = cleared.replace("5018", "6018");
        let udp = "00050006000c1111";
        for (protocol, fragment, before, after) in [
            (6, 0, format!("{tcp}61626364"), format!("{cleared}00000000")),
            (6, 0x2000, format!("{tcp}6162"), format!("{cleared}0000")),
            (6, 0, format!("{longer}0101080061"), format!("{longer_cleared}0101080000")),
            // A later fragment is payload from its IP header on.
            (6, 1, tcp.into(), "00".repeat(20)),
            (6, 0, tcp[..34].into(), tcp[..34].into()),
            (6, 0, tcp[..20].into(), tcp[..20].into()),
            // A data offset of zero.
            (6, 0, tcp.replace("5018", "0018"), "00".repeat(20)),
            (17, 0, format!("{udp}6162"), "00050006000c00000000".into()),
            (17, 0x4000, udp[..14].into(), udp[..14].into()),
            (1, 0, "0800f7ff61626364".into(), "0800f7ff61626364".into()),
        ] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets({0}{before} {0}{before}) -> MarkIPHeader -> EraseIPPayload
                        -> c :: Collect",
                    header(protocol, fragment)
                ))
                .frame_limit(frame_limit);
                run.run();
                let expected = format!("{}{after}", header(protocol, fragment));
                assert_eq!(run.read("c.packets"), [&*expected; 2].join("\n"), "{before}");
            }
        }
    }

    #[test]
    fn copies_keep_their_payload() {
        let mut run = Run::new(&format!(
            "Packets({}00050006000c11116162) -> MarkIPHeader -> t :: Tee -> EraseIPPayload
                -> c :: Collect; t [1] -> d :: Collect",
            header(17, 0)
        ));
        run.run();
        assert!(run.read("c.packets").ends_with("00000000"));
        assert!(run.read("d.packets").ends_with("11116162"));
    }

    #[test]
    fn other_packets_are_dropped() {
        let mut run = Run::new(&format!(
            "Packets({}00 4500 45) -> MarkIPHeader -> e :: EraseIPPayload -> c :: Collect",
            header(47, 0)
        ));
        run.run();
        assert_eq!(run.read("c.packets"), "");
        assert_eq!(
            run.read("e.drops"),
            "0\tno buffer\n2\tno IP header\n1\tneither TCP, UDP nor ICMP\n"
        );
    }
}

//! `TruncateIPPayload`: truncates packets to their headers and a length of payload.

use linerate_graph::{Arguments, Class, Context, ElementBuilder, NoBuffer, Reads, Step, Verdict};
use linerate_memory::{Arena, Frame, Packet, Slot};

use super::FAMILY;
use linerate_element_support::{
    annotations,
    ip::{LEAST, PROTOCOL},
};

/// ICMP types timestamp and timestamp reply.
const ICMP_TIMESTAMPS: [u8; 2] = [13, 14];
/// Length of these messages.
const ICMP_TIMESTAMP_LENGTH: usize = 20;
const ICMP_HEADER: usize = 8;
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;

pub(super) const CLASS: Class = Class {
    name: "TruncateIPPayload",
    family: FAMILY,
    summary: "cuts what IP packets carry to a length",
    description: "What is behind the header of TCP, UDP or ICMP, or, with `TRANSPORT false` and \
        in packets of other protocols, behind that of IP, is cut to `LENGTH` bytes. Packets whose IP \
        header is not known are cut to as many. The extra length annotation grows by what is cut \
        off, where the graph uses annotations.",
    ports: "1/1",
    annotates: true,
    cost: "Reads a line of annotations and the headers of a packet; writes annotations of those \
        that are cut.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto ip_len, DATA \"1.0.0.1 U 100\") \
        -> TruncateIPPayload(8) -> Discard;",
    ..TruncateIpPayload::CLASS
};

#[derive(Arguments)]
#[arguments(check = TruncateIpPayload::check_annotations)]
struct TruncateIpPayload {
    /// most bytes of payload
    #[arg(optional, kind = "bytes", default = 0)]
    length: u16,
    /// whether it begins behind TCP, UDP and ICMP
    #[arg(optional, default = true)]
    transport: bool,
    /// whether to remember what was cut off
    #[arg(keyword, name = "EXTRA_LENGTH", default = true)]
    keeps_extra_length: bool,
}

/// Returns the length of an IP packet's headers by their length fields, at least the minimum of each.
#[inline]
fn headers(ip: &[u8], transport: bool) -> usize {
    let length = ip.first().map_or(0, |first| usize::from(first & 15) * 4);
    if length < LEAST {
        return LEAST;
    }
    let protocol = ip.get(PROTOCOL).filter(|_| transport);
    let behind = ip.get(length..).unwrap_or_default();
    length
        + match protocol {
            Some(6) => {
                let stated = behind.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
                stated.max(TCP_HEADER)
            }
            Some(17) => UDP_HEADER,
            Some(1) if behind.len() < ICMP_HEADER => 0,
            Some(1) if ICMP_TIMESTAMPS.contains(&behind[0]) => ICMP_TIMESTAMP_LENGTH,
            Some(1) => ICMP_HEADER,
            _ => 0,
        }
}

impl TruncateIpPayload {
    fn check_annotations(&mut self, make: &mut ElementBuilder<'_>) {
        self.keeps_extra_length &= make.world.annotated;
    }

    /// Returns the length that a packet is cut to: headers and payload, or payload alone without a
    /// known IP header.
    #[inline]
    fn kept_length(&self, bytes: &[u8], network: usize) -> usize {
        let ip = bytes.get(network..).filter(|ip| !ip.is_empty());
        let kept = ip.map_or(0, |ip| network + headers(ip, self.transport));
        kept + usize::from(self.length)
    }

    #[inline]
    fn is_cut(&self, arena: &Arena, slot: &Slot) -> bool {
        slot.len() > self.kept_length(arena.packet(slot), arena.network(slot))
    }
}

impl Step<Reads, NoBuffer> for TruncateIpPayload {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let arena = cx.pool.arena();
        let written = |slot: &Slot| slot.is_shared() && self.is_cut(arena, slot);
        if self.keeps_extra_length && frame.has_shared() && frame.slots().iter().any(written) {
            cx.unshare::<NoBuffer>(frame);
        }
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict {
        let kept = self.kept_length(packet.bytes(), packet.network());
        let Some(cut) = packet.len().checked_sub(kept).filter(|cut| *cut > 0) else {
            return Ok(());
        };
        if self.keeps_extra_length
            && let Some(packet) = packet.writable()
        {
            let meta = packet.meta_mut();
            let extra = annotations::extra_length(meta).wrapping_add(cut as u32);
            annotations::set_extra_length(meta, extra);
        }
        packet.truncate(kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// An IP packet of that first byte and protocol, with 60 bytes behind its header.
    fn packet(first: u8, protocol: u8, behind: &[u8]) -> String {
        let mut bytes = [0; 80];
        (bytes[0], bytes[9]) = (first, protocol);
        bytes[20..20 + behind.len()].copy_from_slice(behind);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn lengths(arguments: &str, packets: &str, frame_limit: usize) -> String {
        let mut run = Run::new(&format!(
            "Packets({packets}) -> MarkIPHeader -> TruncateIPPayload({arguments}) -> c :: Collect"
        ))
        .frame_limit(frame_limit);
        run.run();
        run.read("c.lengths").replace('\n', " ")
    }

    #[test]
    fn headers_and_a_length_of_payload_stay() {
        let mut tcp = [0; 20];
        tcp[12] = 0x80;
        let packets = [
            packet(0x45, 17, &[]),
            packet(0x45, 6, &tcp),
            // A TCP header cannot be that short.
            packet(0x45, 6, &[0; 20]),
            packet(0x46, 17, &[]),
            packet(0x45, 1, &[8]),
            packet(0x45, 1, &[13]),
            packet(0x45, 1, &[14]),
            packet(0x45, 47, &[]),
            packet(0x44, 17, &[]),
            packet(0x45, 17, &[])[..44].into(),
            packet(0x45, 1, &[13])[..54].into(),
            "45".into(),
        ];
        let packets = packets.join(" ");
        for frame_limit in [1, 7, 256] {
            let found = lengths("", &packets, frame_limit);
            assert_eq!(found, "28 52 40 32 28 40 40 20 20 22 20 1");
            let found = lengths("10", &packets, frame_limit);
            assert_eq!(found, "38 62 50 42 38 50 50 30 30 22 27 1");
            let found = lengths("10, false", &packets, frame_limit);
            assert_eq!(found, "30 30 30 34 30 30 30 30 30 22 27 1");
        }
    }

    #[test]
    fn packets_other_than_ip_are_cut_as_a_whole() {
        let mut run =
            Run::new("Packets(010203 0102 -) -> TruncateIPPayload(2, true) -> c :: Collect");
        run.run();
        assert_eq!(run.read("c.packets"), "0102\n0102\n");
    }

    #[test]
    fn the_length_cut_off_is_remembered() {
        let packet = packet(0x45, 17, &[1; 60]);
        for (arguments, length) in [("4", 80), ("4, EXTRA_LENGTH false", 32), ("100", 80)] {
            let mut run = Run::new(&format!(
                "Packets({packet}) -> MarkIPHeader -> t :: Tee -> TruncateIPPayload({arguments})
                    -> Pad -> c :: Collect; t [1] -> d :: Collect"
            ));
            run.run();
            assert_eq!(run.read("c.lengths"), length.to_string(), "{arguments}");
            assert_eq!(run.read("d.packets"), packet);
        }
    }
}

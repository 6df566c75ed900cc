//! `TCPReflector`: answers as a TCP server would, without any state.

use linerate_graph::{Arguments, Class, DropReason, Exit, NoBuffer, Step, Verdict, Writes};
use linerate_memory::PacketMut;
use linerate_packet::{IpProtocol, checksum};

use super::FAMILY;
use linerate_element_support::{
    ip::{
        DESTINATION, LEAST, SOURCE, TOTAL_LENGTH, TTL, fill_checksum, get_four, get16,
        header_length, is_first_fragment, protocol, put16,
    },
    random::Random,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// not a segment that is answered
    Unanswered,
}

/// TTL of an answer.
const HOPS: u8 = 250;
const WINDOW: u16 = 60 * 1024;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PUSH: u8 = 8;
const ACK: u8 = 16;

pub(super) const CLASS: Class = Class {
    name: "TCPReflector",
    family: FAMILY,
    summary: "answers TCP segments as a server would",
    description: "Each becomes its answer: a SYN is answered with SYN and ACK and a random sequence \
        number, data with an ACK, a FIN with FIN and ACK. Nothing is remembered of connections, and \
        data stay in the answer. The packet begins with its IP header, and ends with its data: \
        `CheckIPHeader` in front cuts off what Ethernet has padded. Where the answer goes to is the \
        destination annotation. Acknowledgements alone, resets, packets that are no TCP and \
        fragments are dropped.",
    ports: "1/1",
    annotates: true,
    cost: "A pass over each packet, for its checksum.",
    example: "InfiniteSource(DATA \\<45000028 00000000 40060000 01000001 02000002 04000050 00000001 \
        00000000 50020000 00000000>, LIMIT 10, STOP true) -> TCPReflector -> Discard;",
    ..TcpReflector::CLASS
};

#[derive(Arguments)]
struct TcpReflector {
    #[init(Random::new(make))]
    random: Random,
}

/// Flags, sequence number and acknowledgement of an answer.
type ReplyHeader = (u8, u32, u32);

fn number(segment: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(get_four(segment, at))
}

/// The answer to a segment with `data` bytes of data; `None` if there is none.
fn answer(segment: &[u8], data: u32, first: impl FnOnce() -> u32) -> Option<ReplyHeader> {
    let (sequence, acknowledged) = (number(segment, 4), number(segment, 8));
    // All other bits count, too, as in Click: a SYN with ECE, for instance, is not answered.
    match segment[13] & !PUSH {
        SYN => Some((SYN | ACK, first(), sequence.wrapping_add(1))),
        flags if flags & (SYN | RST) != 0 => None,
        flags if flags & FIN != 0 => {
            let behind = sequence.wrapping_add(data).wrapping_add(1);
            Some((ACK | FIN, acknowledged, behind))
        }
        _ if data > 0 => Some((ACK, acknowledged, sequence.wrapping_add(data))),
        _ => None,
    }
}

/// Turns a packet into its answer; returns `false` and changes nothing if there is none.
fn reflect(ip: &mut [u8], first: impl FnOnce() -> u32) -> bool {
    if ip.len() < LEAST || ip[0] >> 4 != 4 || ip[0] & 15 < 5 {
        return false;
    }
    let start = usize::from(ip[0] & 15) * 4;
    if ip.len() < start + LEAST || protocol(ip) != IpProtocol::TCP || !is_first_fragment(ip) {
        return false;
    }
    debug_assert_eq!(start, header_length(ip));
    let length = ip.len();
    let header = usize::from(ip[start + 12] >> 4) * 4;
    if header < LEAST || start + header > length {
        return false;
    }
    let data = (length - start - header) as u32;
    let Some((flags, sequence, acknowledged)) = answer(&ip[start..], data, first) else {
        return false;
    };
    let (source, destination) = (get_four(ip, SOURCE), get_four(ip, DESTINATION));
    ip[SOURCE..DESTINATION].copy_from_slice(&destination);
    ip[DESTINATION..LEAST].copy_from_slice(&source);
    ip[TTL] = HOPS;
    put16(ip, TOTAL_LENGTH, length as u16);
    fill_checksum(ip);
    let segment = &mut ip[start..];
    let ports = [get16(segment, 0), get16(segment, 2)];
    put16(segment, 0, ports[1]);
    put16(segment, 2, ports[0]);
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    segment[8..12].copy_from_slice(&acknowledged.to_be_bytes());
    segment[13] = flags;
    put16(segment, 14, WINDOW);
    put16(segment, 16, 0);
    let (source, destination) = (source.into(), destination.into());
    let bytes = (length - start) as u16;
    let mut sum = checksum::pseudo_v4(destination, source, IpProtocol::TCP, bytes);
    sum.add_bytes(segment);
    put16(segment, 16, sum.finish());
    true
}

impl Step<Writes, Reason> for TcpReflector {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let random = &mut self.random;
        let (ip, meta) = packet.parts();
        if !reflect(ip, || random.below(1 << 32) as u32) {
            return Err(Exit::Drop(Reason::Unanswered));
        }
        meta.destination[..4].copy_from_slice(&get_four(ip, DESTINATION));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;
    use etherparse::{Ipv4Header, PacketBuilder, TcpHeader};
    use proptest::prelude::*;

    use super::*;

    const FROM: [u8; 4] = [1, 0, 0, 1];
    const TO: [u8; 4] = [2, 0, 0, 2];

    /// A segment of sequence number 1,000 that acknowledges 500.
    fn segment(flags: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ipv4(FROM, TO, 9).tcp(4000, 80, 1000, 100).ack(500);
        builder.write(&mut bytes, data).unwrap();
        bytes[LEAST + 13] = flags;
        bytes
    }

    /// Flags, sequence number and acknowledgement of the answer, which is right otherwise.
    fn answered(flags: u8, data: &[u8]) -> Option<ReplyHeader> {
        let mut bytes = segment(flags, data);
        let before = bytes.clone();
        if !reflect(&mut bytes, || 77) {
            assert_eq!(bytes, before);
            return None;
        }
        let (ip, rest) = Ipv4Header::from_slice(&bytes).unwrap();
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        assert_eq!((ip.source, ip.destination, ip.time_to_live), (TO, FROM, HOPS));
        let (tcp, payload) = TcpHeader::from_slice(rest).unwrap();
        assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, payload).unwrap());
        assert_eq!((tcp.source_port, tcp.destination_port, tcp.window_size), (80, 4000, WINDOW));
        assert_eq!(payload, data);
        Some((rest[13], tcp.sequence_number, tcp.acknowledgment_number))
    }

    /// The answers are those of Click's `TCPReflector`.
    #[test]
    fn segments_are_answered_by_their_flags() {
        assert_eq!(answered(SYN, &[]), Some((SYN | ACK, 77, 1001)));
        assert_eq!(answered(SYN | PUSH, &[]), Some((SYN | ACK, 77, 1001)));
        assert_eq!(answered(ACK | PUSH, b"data"), Some((ACK, 500, 1004)));
        assert_eq!(answered(ACK | FIN, b""), Some((ACK | FIN, 500, 1001)));
        assert_eq!(answered(ACK | FIN, b"data"), Some((ACK | FIN, 500, 1005)));
        for flags in [ACK, SYN | ACK, SYN | 0x40, RST, RST | ACK, 0] {
            assert_eq!(answered(flags, &[]), None, "{flags}");
        }
    }

    proptest! {
        /// Arbitrary bytes do no harm, and packets other than TCP stay unchanged.
        #[test]
        fn anything_may_come(mut bytes in prop::collection::vec(any::<u8>(), 0..90), sound: bool) {
            if sound && bytes.len() > 9 {
                (bytes[0], bytes[6], bytes[7], bytes[9]) = (0x40 | bytes[0] & 15, 0, 0, 6);
            }
            let before = bytes.clone();
            let answered = reflect(&mut bytes, || 0);
            prop_assert_eq!(bytes.len(), before.len());
            prop_assert!(answered || bytes == before);
        }
    }

    #[test]
    fn the_answer_is_for_the_sender() {
        let hex = |bytes: Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let (data, alone) = (hex(segment(ACK, b"x")), hex(segment(ACK, b"")));
        for frame_limit in [1, 256] {
            let mut run = Run::new(&format!(
                "Packets({data} {alone} {data} 45) -> TCPReflector -> c :: Collect"
            ))
            .frame_limit(frame_limit);
            run.run();
            let packets = run.read("c.packets");
            assert_eq!(packets.lines().count(), 2);
            assert!(packets.lines().all(|line| line[24..40] == *"0200000201000001"));
        }
    }
}

//! `TCPFragmenter`: splits TCP segments that are longer than an MTU allows.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, HandlerResult, NoBuffer, Right,
};
use linerate_memory::{Frame, Meta, Slot};
use linerate_packet::{IpProtocol, checksum};

use super::FAMILY;
use linerate_element_support::{
    annotation_byte::Short,
    ip::{
        DESTINATION, FRAGMENT, LEAST, MORE_FRAGMENTS, NoHeader, PROTOCOL, SOURCE, TOTAL_LENGTH,
        fill_checksum, get_four, get16, header_length, is_first_fragment, put16,
    },
    mac_header,
};

/// Length of a TCP header without options, and offsets in it.
const TCP: usize = 20;
const SEQUENCE: usize = 4;
const OFFSET: usize = 12;
const FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const FIN: u8 = 1;
/// Bytes of the longest headers of IP and TCP.
const MOST: usize = 120;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
}

pub(super) const CLASS: Class = Class {
    name: "TCPFragmenter",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "takes TCP segments apart that are longer than a link allows",
    description: "A segment whose IP packet is as long as `MTU` or longer becomes several, of at most \
        as many bytes each. `MTU_ANNO` is an annotation of two bytes that says less for single \
        packets, when it is not zero. At least one of both must be given. Pieces have the headers of \
        the segment, and all that is in front of them, with lengths, sequence numbers and checksums \
        of their own; the last alone has a FIN. What is behind the IP packet is left out. Segments of \
        which the MTU leaves no room for data, fragments and other packets pass. The IP header must be \
        known (`CheckIPHeader`).",
    ports: "1/1",
    processing: "h/h",
    annotates: true,
    multiplies: |plan, at, longest| {
        let mtu = plan.argument(at, "MTU").and_then(|text| text.trim().parse::<usize>().ok());
        let mtu = mtu.filter(|_| !plan.is_given(at, "MTU_ANNO")).unwrap_or(0);
        longest.div_ceil(mtu.saturating_sub(MOST).max(1)).max(1)
    },
    drops: Reason::REASONS,
    cost: "Reads a line of annotations and the headers of each packet. A segment that is taken apart \
        is copied, and its checksums are computed.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_proto ip_len, DATA \"1.0.0.1 T 1400\") \
        -> CheckIPHeader -> TCPFragmenter(MTU 576) -> Discard;",
    ..Class::for_element::<TcpFragmenter>()
};

#[derive(Arguments)]
#[arguments(check = TcpFragmenter::check)]
struct TcpFragmenter {
    /// longest packet, from the IP header on
    #[arg(keyword, kind = "bytes", default = 0, shown = "")]
    mtu: u16,
    /// annotation that says so of a packet
    #[arg(keyword, name = "MTU_ANNO", kind = "annotation", shown = "")]
    annotation: Option<Short>,
    /// pieces made
    #[handler(count)]
    fragments: u64,
    /// packets that were taken apart
    #[handler(count)]
    fragmented_count: u64,
    /// packets that came
    #[handler(count)]
    count: u64,
    /// Scratch vector for the packets of a frame.
    slots: Vec<Slot>,
}

/// Layout of a segment to split.
struct Cut {
    /// Offsets of the IP header, the TCP header and the data.
    network: usize,
    transport: usize,
    data: usize,
    /// Bytes of data in all, and at most in a piece.
    length: usize,
    most: usize,
}

impl TcpFragmenter {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if self.mtu == 0 && self.annotation.is_none() {
            make.error("At least one of MTU and MTU_ANNO must be set");
        }
    }

    /// MTU of a packet with these annotations; 0 for none.
    #[inline]
    fn mtu(&self, meta: &Meta) -> usize {
        let said = self.annotation.map_or(0, |at| u16::from_ne_bytes(at.get(meta)));
        usize::from(match (self.mtu, said) {
            (mtu, 0) => mtu,
            (0, said) => said,
            (mtu, said) => mtu.min(said),
        })
    }

    /// Layout of a packet to split; `None` for packets that pass.
    #[inline]
    fn cut(&self, bytes: &[u8], network: usize, mtu: usize) -> Option<Cut> {
        let ip = bytes.get(network..).filter(|ip| ip.len() >= LEAST)?;
        let total = usize::from(get16(ip, TOTAL_LENGTH));
        if mtu == 0 || total < mtu || ip[PROTOCOL] != IpProtocol::TCP.0 {
            return None;
        }
        let header = header_length(ip);
        let tcp: &[u8; TCP] = ip.get(header..)?.first_chunk()?;
        let options = usize::from(tcp[OFFSET] >> 4) * 4;
        let headers = header + options;
        let most = mtu.checked_sub(headers).filter(|most| *most > 0)?;
        let length = total.min(ip.len()).checked_sub(headers).filter(|length| *length > 0)?;
        let whole = get16(ip, FRAGMENT) & MORE_FRAGMENTS == 0;
        let can_be = whole && is_first_fragment(ip) && options >= TCP;
        let (transport, data) = (network + header, network + headers);
        can_be.then_some(Cut { network, transport, data, length, most })
    }

    /// Sends the pieces of a segment.
    #[cold]
    fn send(&mut self, cx: &mut Context, slot: Slot, cut: &Cut) {
        let rank = cx.rank_of(&slot);
        self.fragmented_count += 1;
        for (part, from) in (0..cut.length).step_by(cut.most).enumerate() {
            let size = cut.most.min(cut.length - from);
            let Some(mut piece) = cx.pool.take_one(cut.data + size) else {
                cx.count_drops(Reason::NoBuffer, 1);
                continue;
            };
            let arena = cx.pool.arena();
            let (whole, meta) = (arena.packet(&slot), *arena.meta(&slot));
            let (headers, data) = whole.split_at(cut.data);
            if let Some(to) = arena.packet_mut(&mut piece) {
                let (to_headers, to_data) = to.split_at_mut(cut.data);
                to_headers.copy_from_slice(headers);
                to_data.copy_from_slice(&data[from..from + size]);
                finish(to, cut, from, size);
            }
            if let Some(mut piece) = arena.writable(&mut piece) {
                let headroom = piece.headroom();
                *piece.meta_mut() = meta;
                mac_header::copied(piece.meta_mut(), slot.headroom(), headroom);
                piece.mark_headers(cut.network, cut.transport);
            }
            cx.take_part(&piece, rank, part);
            cx.out.emit(0, piece);
            self.fragments += 1;
        }
        cx.pool.give_one(slot);
    }
}

/// Writes the fields in which pieces differ: length, sequence number, FIN and checksums.
fn finish(packet: &mut [u8], cut: &Cut, from: usize, size: usize) {
    let (head, tcp) = packet.split_at_mut(cut.transport);
    let ip = &mut head[cut.network..];
    put16(ip, TOTAL_LENGTH, (ip.len() + tcp.len()) as u16);
    fill_checksum(ip);
    let sequence = u32::from_be_bytes(get_four(tcp, SEQUENCE)).wrapping_add(from as u32);
    tcp[SEQUENCE..SEQUENCE + 4].copy_from_slice(&sequence.to_be_bytes());
    if from + size < cut.length {
        tcp[FLAGS] &= !FIN;
    }
    put16(tcp, TCP_CHECKSUM, 0);
    let [source, destination] = [SOURCE, DESTINATION].map(|at| get_four(ip, at).into());
    let mut sum = checksum::pseudo_v4(source, destination, IpProtocol::TCP, tcp.len() as u16);
    sum.add_bytes(tcp);
    put16(tcp, TCP_CHECKSUM, sum.finish());
}

impl Element for TcpFragmenter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.count += frame.len() as u64;
        let mut slots = std::mem::take(&mut self.slots);
        // Packets leave one by one, in order.
        frame.drain_front(frame.len(), |slot| slots.push(slot));
        for slot in slots.drain(..) {
            let arena = cx.pool.arena();
            let (bytes, network) = (arena.packet(&slot), arena.network(&slot));
            if bytes.get(network..).is_none_or(|ip| ip.len() < LEAST) {
                cx.drop_packet(slot, Reason::NoHeader);
                continue;
            }
            match self.cut(bytes, network, self.mtu(arena.meta(&slot))) {
                Some(cut) => self.send(cx, slot, &cut),
                None => cx.out.emit(0, slot),
            }
        }
        self.slots = slots;
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<TcpFragmenter>() {
            self.fragments = old.fragments;
            self.fragmented_count = old.fragmented_count;
            self.count = old.count;
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// A segment with `data` numbered bytes of data, behind six bytes.
    fn segment(flags: u8, data: usize) -> String {
        let data: String = (0..data).map(|byte| format!("{:02x}", byte as u8)).collect();
        format!(
            "aabbccddeeff45000028000140004006000001000001020000020005000600000064000000005\
             0{flags:02x}ffff00000000{data}"
        )
    }

    fn cut(arguments: &str, packets: &str, frame_limit: usize) -> Run {
        let mut run = Run::new(&format!(
            "Packets({packets}) -> MarkIPHeader(6) -> f :: TCPFragmenter({arguments})
                -> CheckTCPHeader(VERBOSE true) -> c :: Collect"
        ))
        .frame_limit(frame_limit);
        run.run();
        run
    }

    /// Sets the total length in the IP header.
    fn with_length(packet: &str) -> String {
        let length = packet.len() / 2 - 6;
        format!("{}{length:04x}{}", &packet[..16], &packet[20..])
    }

    #[test]
    fn pieces_have_headers_of_their_own() {
        // FIN, PSH, ACK.
        let whole = with_length(&segment(0x19, 25));
        for frame_limit in [1, 7, 256] {
            let mut run = cut("MTU 50", &format!("{whole} {whole}"), frame_limit);
            let packets = run.read("c.packets");
            let pieces: Vec<&str> = packets.lines().collect();
            assert_eq!(pieces.len(), 6, "{}", run.output());
            for (at, piece) in pieces.iter().enumerate() {
                let (at, size) = (at % 3, if at % 3 == 2 { 5 } else { 10 });
                assert_eq!(piece[..16], whole[..16], "what is in front, and the first bytes");
                assert_eq!(piece[16..20], format!("{:04x}", 40 + size));
                assert_eq!(piece[20..32], whole[20..32], "the identification too");
                assert_eq!(piece[60..68], format!("{:08x}", 100 + 10 * at), "sequence number");
                assert_eq!(&piece[78..80], if at == 2 { "19" } else { "18" }, "flags");
                assert_eq!(piece[92..], whole[92 + 20 * at..][..2 * size]);
            }
            let counts = ["count", "fragmented_count", "fragments"];
            assert_eq!(counts.map(|name| run.read(&format!("f.{name}"))), ["2", "2", "6"]);
        }
    }

    /// As in Click, a segment exactly as long as the MTU is rebuilt as one piece, and counted.
    #[test]
    fn segments_that_are_short_pass() {
        let whole = with_length(&segment(0x18, 10));
        for (arguments, counts) in [
            ("MTU 50", ["1", "1", "1"]),
            ("MTU 51", ["1", "0", "0"]),
            ("MTU 40", ["1", "0", "0"]),
            ("MTU 20", ["1", "0", "0"]),
            ("MTU_ANNO 20", ["1", "0", "0"]),
            ("MTU_ANNO 20, MTU 45", ["1", "1", "2"]),
        ] {
            let mut run = Run::new(&format!(
                "Packets({whole}) -> MarkIPHeader(6) -> f :: TCPFragmenter({arguments}) -> Discard"
            ));
            run.run();
            let names = ["count", "fragmented_count", "fragments"];
            assert_eq!(names.map(|name| run.read(&format!("f.{name}"))), counts, "{arguments}");
        }
    }

    #[test]
    fn a_packet_may_have_an_mtu_of_its_own() {
        let whole = with_length(&segment(0x18, 10));
        let tag = 45_u16.to_ne_bytes().map(|byte| format!("{byte:02x}")).concat();
        for (arguments, pieces) in [("", 2), (", MTU 42", 5), (", MTU 60", 2)] {
            let mut run = Run::new(&format!(
                "Packets({whole}) -> MarkIPHeader(6) -> Paint(ANNO 20, COLOR {})
                    -> Paint(ANNO 21, COLOR {}) -> f :: TCPFragmenter(MTU_ANNO 20{arguments})
                    -> Discard",
                u8::from_str_radix(&tag[..2], 16).unwrap(),
                u8::from_str_radix(&tag[2..], 16).unwrap(),
            ));
            run.run();
            assert_eq!(run.read("f.fragments"), pieces.to_string(), "{arguments}");
        }
    }

    #[test]
    fn other_packets_pass_and_bytes_behind_the_packet_do_not() {
        let whole = with_length(&segment(0x18, 20));
        let other =
            |at: usize, text: &str| format!("{}{text}{}", &whole[..at], &whole[at + text.len()..]);
        let packets = [
            other(30, "11"),
            other(24, "2000"),
            other(24, "0001"),
            other(76, "10"),
            other(76, "f0"),
            whole[..40 + 12].into(),
        ];
        let mut run = Run::new(&format!(
            "Packets({} {whole}0000) -> MarkIPHeader(6) -> f :: TCPFragmenter(MTU 45)
                -> c :: Collect",
            packets.join(" ")
        ));
        run.run();
        let found = run.read("c.packets");
        let (passed, pieces): (Vec<_>, Vec<_>) =
            found.lines().enumerate().partition(|(at, _)| *at < 6);
        assert!(passed.iter().zip(&packets).all(|((_, found), packet)| found == packet), "{found}");
        assert_eq!(pieces.len(), 4);
        assert!(pieces.iter().all(|(_, piece)| piece.len() == 2 * 51), "{found}");
        let mut run = Run::new("Packets(4500) -> f :: TCPFragmenter(MTU 9) -> Discard");
        run.run();
        assert!(run.read("f.drops").ends_with("1\tno IP header\n"));
    }

    /// The error messages are those of Click.
    #[test]
    fn an_mtu_must_be_given() {
        for arguments in ["", "MTU 0"] {
            let errors = Run::errors(&format!("Idle -> TCPFragmenter({arguments}) -> Discard"));
            let text = "\n  At least one of MTU and MTU_ANNO must be set\n";
            assert!(errors.ends_with(text), "{errors}");
        }
    }
}

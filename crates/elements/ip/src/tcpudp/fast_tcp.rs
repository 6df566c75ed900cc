//! `FastTCPFlows`: generates TCP segments of many flows.

use std::net::Ipv4Addr;

use linerate_graph::{Class, Context, Element, ElementBuilder, HandlerResult};
use linerate_memory::Frame;
use linerate_packet::{
    IpProtocol,
    checksum::{self, update16},
};

use super::{
    FAMILY,
    fast::{self, ACTIVE, DSTETH, DSTIP, FLOWS, FLOWSIZE, LENGTH, LIMIT, RATE, SRCETH, SRCIP},
    quota::{HANDLERS, Quota},
};
use linerate_element_support::{
    ip::{ETHERNET, LEAST, TOTAL_LENGTH, fill_checksum, put16},
    random::Random,
};

/// Shortest packet.
const SHORTEST: usize = 60;
/// Fewest packets of a flow: the first, one with data, and the last.
const FEWEST: u32 = 3;
/// Offset of the TCP header.
const TCP: usize = ETHERNET + LEAST;

pub(super) const CLASS: Class = Class {
    name: "FastTCPFlows",
    family: FAMILY,
    summary: "makes TCP segments of many flows",
    description: "Each packet is of one of `FLOWS` flows, chosen at random. The first of a flow is a \
        SYN, the last of its `FLOWSIZE`, at least 3, is a FIN, those between have PSH and ACK and \
        zeros as data; then the flow gets other random ports. Sequence numbers are random and do \
        not advance. At most `RATE` packets per second, as many as are pulled when that is zero, and \
        `LIMIT` in all, any number when that is below zero; behind the limit there is a FIN of \
        each flow that has not ended, which counts, too. Packets have `LENGTH` bytes with their \
        Ethernet header, at least 60 and at most what a buffer holds. The IP header's place \
        becomes known to the elements behind. There are at most 1,048,576 flows.",
    ports: "0/1",
    processing: "l/l",
    args: &[RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE, ACTIVE],
    handlers: HANDLERS,
    annotates: true,
    cost: "Copies a template into each packet: some ten cycles for 64 bytes.",
    example: "FastTCPFlows(0, 100, 60, 2:0:0:0:0:1, 1.0.0.1, 2:0:0:0:0:2, 2.0.0.1, 10, 5) \
        -> Discard;",
    make: |make| Box::new(FastTcp::new(make)),
    ..Class::here()
};

/// Kinds of segments, and the TCP flags of each.
const FIRST: usize = 0;
const DATA: usize = 1;
const LAST: usize = 2;
const FLAGS: [u16; 3] = [0x02, 0x18, 0x01];

/// Sequence number, acknowledgement and checksum of a flow's segments of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    sequence: u32,
    acknowledged: u32,
    sum: u16,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    ports: [u16; 2],
    segments: [Segment; 3],
    packets: u32,
}

struct FastTcp {
    /// A packet with zeros in the fields that differ between packets.
    template: Vec<u8>,
    destination: Ipv4Addr,
    /// TCP checksum of the template.
    sum: u16,
    quota: Quota,
    flows: Vec<Flow>,
    /// Packets of a flow.
    size: u32,
    /// Index up to which all flows have ended, once the limit is reached.
    ended: usize,
    /// Whether all flows have ended, once the limit is reached.
    closed: bool,
    random: Random,
}

impl FastTcp {
    fn new(make: &mut ElementBuilder<'_>) -> FastTcp {
        let quota = Quota::new(make);
        let length = make.need::<u32>("LENGTH");
        let flows = fast::flows(make);
        let size = make.need::<u32>("FLOWSIZE");
        if make.is_given("FLOWSIZE") && size < FEWEST {
            make.tell("warning: flow size < 3, defaulting to 3");
        }
        let length = fast::length(make, length.into(), SHORTEST);
        let (mut template, [source, destination]) = fast::ipv4(make, IpProtocol::TCP, length);
        let ip = &mut template[ETHERNET..];
        put16(ip, TOTAL_LENGTH, (length - ETHERNET) as u16);
        fill_checksum(ip);
        let segment = &mut template[TCP..];
        segment[12] = 0x50;
        put16(segment, 14, u16::MAX);
        let bytes = (length - TCP) as u16;
        let mut sum = checksum::pseudo_v4(source, destination, IpProtocol::TCP, bytes);
        sum.add_bytes(segment);
        let mut element = FastTcp {
            template,
            destination,
            sum: sum.finish(),
            quota,
            flows: vec![Flow::default(); flows],
            size: size.max(FEWEST),
            ended: 0,
            closed: false,
            random: Random::new(make),
        };
        for at in 0..element.flows.len() {
            for kind in [FIRST, DATA, LAST] {
                let segment = &mut element.flows[at].segments[kind];
                segment.sequence = element.random.below(1 << 32) as u32;
                segment.acknowledged = element.random.below(1 << 32) as u32;
            }
            element.begin_flow(at);
        }
        element
    }

    /// Draws other ports for a flow; its sequence numbers stay, as in Click.
    fn begin_flow(&mut self, at: usize) {
        let ports = [self.random.below(0xffff) as u16, self.random.below(0xffff) as u16];
        let flow = &mut self.flows[at];
        (flow.ports, flow.packets) = (ports, 0);
        for (segment, flags) in flow.segments.iter_mut().zip(FLAGS) {
            let halves = |number: u32| [(number >> 16) as u16, number as u16];
            let [a, b] = halves(segment.sequence);
            let [c, d] = halves(segment.acknowledged);
            let words = [ports[0], ports[1], a, b, c, d].into_iter();
            let sum = words.fold(self.sum, |sum, word| update16(sum, 0, word));
            segment.sum = update16(sum, 0x5000, 0x5000 | flags);
        }
    }

    /// Flow and segment kind of the next packet, `left` packets before the limit.
    #[inline]
    fn next(&mut self, left: usize) -> Option<(usize, usize)> {
        if left == 0 {
            return self.next_end().map(|flow| (flow, LAST));
        }
        self.ended = 0;
        let at = self.random.below(self.flows.len());
        if self.flows[at].packets == self.size {
            self.begin_flow(at);
        }
        self.flows[at].packets += 1;
        let kind = match self.flows[at].packets {
            1 => FIRST,
            packets if packets == self.size => LAST,
            _ => DATA,
        };
        Some((at, kind))
    }

    /// Ends the next open flow, and returns its index.
    fn next_end(&mut self) -> Option<usize> {
        let open = |flow: &Flow| flow.packets != self.size;
        let found = self.flows[self.ended..].iter().position(open);
        let Some(found) = found.filter(|_| !self.closed) else {
            self.closed = true;
            return None;
        };
        let at = self.ended + found;
        self.flows[at].packets = self.size;
        self.ended = at + 1;
        Some(at)
    }
}

impl Element for FastTcp {
    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        let now = cx.steady();
        let before_limit = self.quota.left();
        let ends = if self.closed { 0 } else { self.flows.len() };
        let count = count.min(self.quota.due(now)).min(before_limit.saturating_add(ends));
        cx.pool.take(frame, count, self.template.len());
        let arena = cx.pool.arena();
        let destination = self.destination.octets();
        let mut made = 0;
        for slot in frame.slots_mut() {
            let Some((at, kind)) = self.next(before_limit.saturating_sub(made)) else { break };
            made += 1;
            let Flow { ports, segments, .. } = &self.flows[at];
            let Segment { sequence, acknowledged, sum } = segments[kind];
            if let Some(bytes) = arena.packet_mut(slot) {
                bytes.copy_from_slice(&self.template);
                let segment = &mut bytes[TCP..];
                put16(segment, 0, ports[0]);
                put16(segment, 2, ports[1]);
                segment[4..8].copy_from_slice(&sequence.to_be_bytes());
                segment[8..12].copy_from_slice(&acknowledged.to_be_bytes());
                put16(segment, 12, 0x5000 | FLAGS[kind]);
                put16(segment, 16, sum);
            }
            if let Some(mut packet) = arena.writable(slot) {
                packet.meta_mut().reset();
                packet.mark_headers(ETHERNET, TCP);
                packet.meta_mut().destination[..4].copy_from_slice(&destination);
            }
        }
        if made < frame.len() {
            let pool = &mut cx.pool;
            let mut at = 0..;
            frame.retain(|_| at.next() < Some(made), |slot| pool.give_one(slot));
        }
        self.quota.made(made, now);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<FastTcp>() {
            self.quota.take_state(&old.quota);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.quota.read(handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if self.quota.write(cx, handler, value)? {
            (self.ended, self.closed) = (0, false);
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::testing::Run;
    use etherparse::{SlicedPacket, TransportSlice};

    const ENDS: &str = "2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 10.0.0.2";

    fn run(arguments: &str, frame_limit: usize) -> Run {
        let mut run = Run::new(&format!(
            "f :: FastTCPFlows({arguments}) -> Unqueue -> c :: Collect; Script(wait 1s, stop)"
        ))
        .frame_limit(frame_limit);
        run.run();
        run
    }

    /// Ports and flags of packets that are right otherwise.
    fn segments(run: &mut Run, length: usize) -> Vec<((u16, u16), u8)> {
        let packets = run.read("c.packets");
        let segment = |line: &str| {
            let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..line.len()).step_by(2).map(digit).collect();
            assert_eq!(bytes.len(), length);
            let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
            let ip = packet.net.as_ref().and_then(|net| net.ipv4_ref()).unwrap().header();
            assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
            assert_eq!((ip.ttl(), usize::from(ip.total_len())), (250, length - 14));
            let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
            let header = tcp.to_header();
            let expected = header.calc_checksum_ipv4(&ip.to_header(), tcp.payload());
            assert_eq!((tcp.checksum(), tcp.window_size()), (expected.unwrap(), 65535));
            ((tcp.source_port(), tcp.destination_port()), tcp.slice()[13])
        };
        packets.lines().map(segment).collect()
    }

    #[test]
    fn a_flow_is_a_first_some_data_and_a_last() {
        let mut run = run(&format!("0, 9, 64, {ENDS}, 1, 4"), 256);
        let found = segments(&mut run, 64);
        let flags: Vec<u8> = found.iter().map(|(_, flags)| *flags).collect();
        // Click's flags; after the limit of nine packets, a FIN ends the third flow.
        assert_eq!(flags, [2, 0x18, 0x18, 1, 2, 0x18, 0x18, 1, 2, 1]);
        assert!(found[..4].iter().all(|(ports, _)| *ports == found[0].0));
        assert_ne!(found[0].0, found[4].0);
        assert_eq!(run.read("f.count"), "10");
    }

    #[test]
    fn flows_that_have_not_ended_end_behind_the_limit() {
        let first = run(&format!("0, 100, 60, {ENDS}, 10, 5"), 1);
        let first = segments(&mut { first }, 60);
        for frame_limit in [7, 256] {
            let mut other = run(&format!("0, 100, 60, {ENDS}, 10, 5"), frame_limit);
            assert_eq!(segments(&mut other, 60), first, "{frame_limit}");
        }
        // Each flow has as many SYNs as FINs, except flows that only end.
        let mut open: HashMap<(u16, u16), i32> = HashMap::new();
        for (ports, flags) in &first {
            *open.entry(*ports).or_default() += match flags {
                2 => 1,
                1 => -1,
                _ => 0,
            };
        }
        assert!(open.values().all(|open| *open <= 0), "{open:?}");
        assert!((101..=110).contains(&first.len()), "{}", first.len());
    }

    #[test]
    fn it_begins_anew_when_that_is_written() {
        let mut run = Run::new(&format!(
            "f :: FastTCPFlows(0, 3, 60, {ENDS}, 1, 3) -> Unqueue -> c :: Counter -> Discard; \
             Script(wait 1s, write f.reset, wait 1s, write f.limit 9, wait 1s, write f.rate 5, \
                    write f.active false, wait 1s, stop)"
        ));
        run.run();
        assert_eq!(run.read("c.count"), "12");
        assert_eq!(run.read("f.count"), "9");
        let error = run.write("f.rate", "1000001").unwrap_err().to_string();
        assert_eq!(error, "rate too large; max is 1000000");
    }

    #[test]
    fn a_rate_holds_for_all_packets() {
        let mut run = run(&format!("10, -1, 60, {ENDS}, 2, 3"), 256);
        assert!((10..=11).contains(&segments(&mut run, 60).len()));
    }

    #[test]
    fn too_small_arguments_become_larger() {
        let run = run(&format!("0, 1, 20, {ENDS}, 1, 1"), 256);
        let output = run.output();
        for text in ["flow size < 3, defaulting to 3", "packet length < 60, defaulting to 60"] {
            assert!(output.contains(text), "{output}");
        }
        let errors = Run::errors(&format!("FastTCPFlows(0, 1, 60, {ENDS}, 0, 3) -> Discard"));
        assert!(errors.contains("FLOWS must be between 1 and 1048576"), "{errors}");
    }
}

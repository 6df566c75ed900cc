//! `AggregateIPAddrPair`: sets the aggregate annotation by host pair.

use std::collections::HashMap;

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Seconds, Writes,
};
use linerate_memory::{Frame, PacketMut};

use super::{FAMILY, listeners::Listeners};
use linerate_element_support::{
    annotations,
    ip::{DESTINATION, SOURCE, get_four, ip_mut},
    log_once::LogOnce,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
}

/// Default of `CAPACITY`.
const CAPACITY: usize = 1 << 20;
const SECOND: u64 = 1_000_000_000;

pub(super) const CLASS: Class = Class {
    name: "AggregateIPAddrPair",
    family: FAMILY,
    summary: "numbers pairs of hosts",
    description: "The number of the two hosts that a packet's source and destination are becomes \
        its aggregate, whichever of them is the source; its direction becomes its paint: 0 as the \
        first packet between them, 1 the other way. Numbers begin with 1. After `TIMEOUT` without \
        packets two hosts are forgotten and get another number. The packet's IP header must be known \
        (`MarkIPHeader`); packets without it leave by output 1.\n\n\
        At most `CAPACITY` pairs are known at a time; packets of others leave by output 1 and are \
        counted as `refused`. Workers number by themselves.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Reason::REASONS,
    annotates: true,
    cost: "A look-up in a hash table.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.0.0.1 1.0.0.2\") \
        -> AggregateIPAddrPair -> AggregateCounter -> Discard;",
    ..Class::for_element::<AggregateIpAddrPair>()
};

#[derive(Arguments)]
#[arguments(check = AggregateIpAddrPair::set_capacity, handlers = [
    Handler::button("clear", "forgets all pairs"),
    Handler::count("refused", "packets of pairs there was no room for"),
])]
struct AggregateIpAddrPair {
    /// life of a pair without packets
    #[arg(keyword, kind = "seconds", default = Seconds(0), shown = "for ever")]
    timeout: Seconds<0>,
    /// how often pairs that are over are removed
    #[arg(keyword, kind = "seconds", default = Seconds(1200), shown = "1200")]
    reap: Seconds<0>,
    /// most pairs
    #[arg(keyword, kind = "pairs", default = CAPACITY, shown = "1048576")]
    capacity: usize,
    /// State by address pair, the smaller address first.
    pairs: HashMap<(u32, u32), Pair>,
    #[init(1)]
    next: u32,
    /// Time of the next reaping, in seconds; zero before the first packet.
    reap_at: u32,
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
    refused: u64,
    listeners: Listeners,
}

/// State of a host pair.
struct Pair {
    number: u32,
    /// Whether the first packet came from the greater address.
    reverse: bool,
    /// Time of the last packet, in seconds.
    last: u32,
}

/// Returns true if `one` is before `other`, in seconds that wrap around.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

impl AggregateIpAddrPair {
    fn set_capacity(&mut self, _: &mut ElementBuilder<'_>) {
        self.capacity = self.capacity.max(1);
    }

    /// Sets aggregate and paint of a packet; adds an aggregate that timed out to `ended`.
    #[inline]
    fn number(
        &mut self,
        packet: &mut PacketMut<'_>,
        now: u64,
        ended: &mut Vec<u32>,
    ) -> Result<(), Exit<Reason>> {
        let network = packet.network();
        let (bytes, meta) = packet.parts();
        let ip = ip_mut(bytes, network).ok_or(Exit::Output(1))?;
        let [source, destination] =
            [SOURCE, DESTINATION].map(|at| u32::from_be_bytes(get_four(ip, at)));
        let reversed = source > destination;
        let hosts = if reversed { (destination, source) } else { (source, destination) };
        let timeout = self.timeout.0;
        if timeout > 0 && meta.timestamp == 0 {
            meta.timestamp = now;
        }
        let second = (meta.timestamp / SECOND) as u32;
        if timeout > 0
            && let Some(pair) = self.pairs.get(&hosts)
            && is_before(pair.last, second.wrapping_sub(timeout))
        {
            ended.push(pair.number);
            self.pairs.remove(&hosts);
        }
        if self.pairs.len() >= self.capacity && !self.pairs.contains_key(&hosts) {
            self.refused += 1;
            return Err(Exit::Output(1));
        }
        let next = &mut self.next;
        let pair = self.pairs.entry(hosts).or_insert_with(|| {
            let number = *next;
            *next = number.wrapping_add(1).max(1);
            Pair { number, reverse: reversed, last: second }
        });
        pair.last = second;
        annotations::set_aggregate(meta, pair.number);
        meta.paint = u8::from(pair.reverse != reversed);
        if timeout > 0 && second > self.reap_at {
            self.remove_ended(second, ended);
        }
        Ok(())
    }

    /// Removes pairs that timed out, and adds their aggregates to `ended`.
    #[cold]
    fn remove_ended(&mut self, now: u32, ended: &mut Vec<u32>) {
        if self.reap_at > 0 {
            let oldest = now.wrapping_sub(self.timeout.0);
            let before = ended.len();
            let over = self.pairs.extract_if(|_, pair| is_before(pair.last, oldest));
            ended.extend(over.map(|(_, pair)| pair.number));
            ended[before..].sort_unstable();
        }
        self.reap_at = now.saturating_add(self.reap.0);
    }
}

impl Element for AggregateIpAddrPair {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.listeners.go_on(cx);
        let mut ended = self.listeners.take();
        let now = cx.now();
        let arena = cx.pool.arena();
        let lacks_time = |slot: &linerate_memory::Slot| arena.meta(slot).timestamp == 0;
        if self.timeout.0 > 0 && frame.slots().iter().any(lacks_time) && self.said.first() {
            let name = cx.name();
            let text = format!("{name}: warning: packet received without timestamp\n");
            cx.console().report(&text);
        }
        cx.retain::<Writes, Reason>(frame, |packet| self.number(packet, now, &mut ended));
        self.listeners.tell(cx, ended);
    }

    fn idle(&mut self, cx: &mut Context) {
        self.listeners.go_on(cx);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.listeners = Listeners::for_notifier(cx.plan(), cx.element());
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AggregateIpAddrPair>() {
            self.listeners.take_state(cx, &mut old.listeners);
            self.pairs = std::mem::take(&mut old.pairs);
            (self.next, self.reap_at, self.refused) = (old.next, old.reap_at, old.refused);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "refused" => Ok(self.refused.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "clear" => {
                let mut ended = self.listeners.take();
                ended.extend(self.pairs.drain().map(|(_, pair)| pair.number));
                ended.sort_unstable();
                self.listeners.tell(cx, ended);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    /// Aggregate and paint of each packet.
    fn numbered(arguments: &str, frame_limit: usize, packets: &str) -> String {
        let scratch = Scratch::new(&format!("pairs-{frame_limit}-{}", packets.len()));
        let out = scratch.path("out");
        let mut run = Run::new(&format!(
            "FromIPSummaryDump(STOP true, FIELDS timestamp ip_src ip_dst, DATA \"{packets}\")
                -> p :: AggregateIPAddrPair({arguments})
                -> ToIPSummaryDump({out}, FIELDS aggregate link, HEADER false)"
        ))
        .frame_limit(frame_limit);
        run.run();
        run.close();
        fs::read_to_string(&out).unwrap().trim().replace('\n', ", ")
    }

    const PACKETS: &str = "1 1.0.0.2 1.0.0.1\n2 1.0.0.1 1.0.0.2\n3 1.0.0.1 1.0.0.3\n\
        4 1.0.0.2 1.0.0.1\n20 1.0.0.1 1.0.0.2\n25 1.0.0.3 1.0.0.1\n31 1.0.0.1 1.0.0.2\n\
        31 9.9.9.9 9.9.9.9";

    #[test]
    fn pairs_have_numbers_and_directions() {
        for frame_limit in [1, 2, 7, 256] {
            let found = numbered("", frame_limit, PACKETS);
            assert_eq!(found, "1 0, 1 1, 2 0, 1 0, 1 1, 2 1, 1 1, 3 0");
            // 16 seconds without packets, 22 of the other pair, and then 11.
            let found = numbered("TIMEOUT 11", frame_limit, PACKETS);
            assert_eq!(found, "1 0, 1 1, 2 0, 1 0, 3 0, 4 0, 3 0, 5 0");
            let found = numbered("TIMEOUT 11, REAP 1", frame_limit, PACKETS);
            assert_eq!(found, "1 0, 1 1, 2 0, 1 0, 3 0, 4 0, 3 0, 5 0");
            assert_eq!(numbered("CAPACITY 1", frame_limit, PACKETS), "1 0, 1 1, 1 0, 1 1, 1 1");
        }
    }

    #[test]
    fn packets_without_a_header_leave_by_output_1() {
        let mut run = Run::new(
            "Packets(4500 01) -> p :: AggregateIPAddrPair -> c :: Collect; p [1] -> d :: Collect",
        );
        run.run();
        assert_eq!((run.read("c.packets"), run.read("d.packets")), ("".into(), "4500\n01".into()));
    }

    #[test]
    fn a_packet_without_time_is_said_once() {
        let mut run = Run::new(
            "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.0.0.1 1.0.0.2\n\
                1.0.0.2 1.0.0.1\") -> p :: AggregateIPAddrPair(TIMEOUT 5) -> Discard",
        );
        run.run();
        assert_eq!(run.output(), "p: warning: packet received without timestamp\n");
    }

    #[test]
    fn pairs_that_are_cleared_get_other_numbers() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 2) -> IPEncap(17, 1.0.0.1, 1.0.0.2)
                -> p :: AggregateIPAddrPair -> c :: AggregateCounter -> Discard;
             DriverManager(wait 1s, write p.clear, write p.clear, stop)",
        );
        run.run();
        assert_eq!(run.read("c.nagg"), "1");
        assert_eq!(run.read("p.refused"), "0");
    }
}

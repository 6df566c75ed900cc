//! `AggregateIPFlows`: numbers the flows of TCP and UDP.

use std::{collections::HashMap, io::BufWriter, mem};

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, ElementRef, Handler,
    HandlerError, HandlerRef, HandlerResult, NoBuffer, Rank, Seconds,
};
use linerate_memory::{Frame, Slot};

use super::{
    FAMILY,
    flow_header::FlowHeader,
    flows::{Flow, Fragment, OVER, Pair, SYN, Trace},
    listeners::Listeners,
    output::Output,
};
use linerate_element_support::{annotations, log_once::LogOnce, output::reason};

pub(super) const CLASS: Class = Class {
    name: "AggregateIPFlows",
    family: FAMILY,
    summary: "numbers the flows of TCP and UDP",
    description: "The number of a packet's flow becomes its aggregate, its direction its paint: \
        0 as the flow's first packet, 1 the other way. Flows end after a time without packets, \
        after both FINs or a RST sooner. The packet's IP header must be known \
        (`MarkIPHeader`). Other packets leave by output 1.\n\n\
        With `FRAGMENTS`, fragments and what follows them between the same two hosts are held \
        until it is known which flow they belong to, at most `FRAGMENT_TIMEOUT`; those of \
        which this does not become known are dropped. The handler `clear` sends on what is held. \
        With `ICMP`, ICMP errors get the number of the flow they are about, and paint 2 or 3.\n\n\
        At most `CAPACITY` flows and pairs of hosts are known at a time; packets of others leave by \
        output 1 and are counted as `refused`. Of fragments and what waits behind them at most 4,096 \
        packets are held.\n\n\
        `TRACEINFO` writes an XML file with a line for each flow that has ended.",
    ports: "1/1-2",
    processing: "a/ah",
    handlers: &[
        Handler::write("clear", "ends all flows and sends on what is held"),
        Handler::count("flows", "flows and pairs of hosts known"),
        Handler::count("refused", "packets of flows there was no room for"),
    ],
    drops: Reason::REASONS,
    // Packets that waited for another go with it.
    multiplies: |_, _, _| usize::MAX,
    annotates: true,
    cost: "A look-up by hosts in a hash table and a walk over the flows between them.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_dst dport ip_proto, \
        DATA \"1.0.0.1 5 1.0.0.2 6 U\") -> AggregateIPFlows -> AggregateCounter -> Discard;",
    ..Class::for_element::<AggregateIpFlows>()
};

/// Default number of flows and pairs of hosts.
const CAPACITY: usize = 1 << 20;
/// Packets held at most: their buffers are needed by all elements.
const MOST_HELD: usize = 4096;
/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
    /// fragment of an unknown flow
    UnknownFlow,
    /// too many packets held
    TooManyHeld,
}

#[derive(Arguments)]
#[arguments(check = AggregateIpFlows::set_times)]
struct AggregateIpFlows {
    /// file flows are described in; - for standard output
    #[arg(name = "TRACEINFO", keyword, kind = "path", shown = "")]
    trace_path: Option<String>,
    /// whose file positions are in the description
    #[arg(keyword, kind = "element", shown = "")]
    source: Option<ElementRef>,
    /// life of a TCP flow without packets
    #[arg(keyword, kind = "seconds", default = Seconds(86_400), shown = "86400")]
    tcp_timeout: Seconds<0>,
    /// the same, of a completed one
    #[arg(keyword, kind = "seconds", default = Seconds(30), shown = "30")]
    tcp_done_timeout: Seconds<0>,
    /// the same, of a UDP flow
    #[arg(keyword, kind = "seconds", default = Seconds(60), shown = "60")]
    udp_timeout: Seconds<0>,
    /// how long fragments are held
    #[arg(keyword, kind = "seconds", default = Seconds(30), shown = "30")]
    fragment_timeout: Seconds<0>,
    /// how often flows that have ended are removed
    #[arg(keyword, kind = "seconds", default = Seconds(1200), shown = "1200")]
    reap: Seconds<0>,
    /// whether ICMP errors get numbers
    #[arg(keyword, default = false)]
    icmp: bool,
    /// whether fragments get numbers
    #[arg(keyword, default = !make.input_is_pull(0), shown = "true if pushed to")]
    fragments: bool,
    /// most flows and pairs of hosts
    #[arg(keyword, kind = "flows", default = CAPACITY, shown = "1048576")]
    capacity: usize,
    /// Tables of TCP and of UDP.
    tables: [Table; 2],
    #[init(1)]
    next: u32,
    /// Time of the last packet and of the next removal, in seconds.
    now: u32,
    reap_at: u32,
    /// Whether a packet without a time has been reported.
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
    trace: Option<Trace>,
    /// Packets held, in all.
    held: usize,
    /// Rank of the current packet, and the number of packets released by it.
    rank: (Rank, usize),
    /// Packets of flows there was no room for.
    refused: u64,
    /// When it was last looked for flows that have ended because there was none.
    searched_at: u32,
    scratch: Vec<Slot>,
    listeners: Listeners,
}

/// The flows of a protocol.
#[derive(Default)]
struct Table {
    places: HashMap<(u32, u32), usize>,
    /// Pairs in the order they were first seen.
    pairs: Vec<Pair>,
    /// Flows of all pairs.
    flows: usize,
    timeout: u32,
    done_timeout: u32,
}

impl Table {
    fn pair(&mut self, hosts: (u32, u32)) -> usize {
        let pairs = &mut self.pairs;
        *self.places.entry(hosts).or_insert_with(|| {
            pairs.push(Pair::new(hosts));
            pairs.len() - 1
        })
    }

    /// Returns the life-time of a flow without packets, in seconds.
    fn life(&self, flow: &Flow) -> u32 {
        if flow.over == OVER { self.done_timeout } else { self.timeout }
    }
}

/// Verdict on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Other,
    /// It waits with the fragments of this table and pair.
    Hold(usize, usize, Fragment),
}

impl AggregateIpFlows {
    fn set_times(&mut self, _: &mut ElementBuilder<'_>) {
        let [tcp, udp] = &mut self.tables;
        (tcp.timeout, tcp.done_timeout) = (self.tcp_timeout.0, self.tcp_done_timeout.0);
        (udp.timeout, udp.done_timeout) = (self.udp_timeout.0, self.udp_timeout.0);
        self.capacity = self.capacity.max(1);
    }

    /// Reads a handler of the source.
    fn ask_source(&self, cx: &mut Context, handler: &str) -> Option<String> {
        let handler = HandlerRef { element: Some(self.source?.0), handler: handler.into() };
        cx.read_handler(&handler, "").ok().map(|answer| answer.trim().to_owned())
    }

    /// Numbers a packet, which is not shared.
    fn judge(&mut self, cx: &mut Context, slot: &mut Slot) -> Verdict {
        let mut time = cx.pool.arena().meta(slot).timestamp;
        if time == 0 {
            if self.said.first() {
                let name = cx.name().to_owned();
                let text = format!("{name}: warning: packet received without timestamp\n");
                cx.console().report(&text);
            }
            time = cx.now();
        }
        let arena = cx.pool.arena();
        let header = FlowHeader::parse(arena, slot, self.icmp);
        if let Some(meta) = arena.meta_mut(slot) {
            meta.timestamp = time;
        }
        let Some(header) = header else { return Verdict::Other };
        let table = usize::from(!header.is_tcp);
        let reversed = header.source > header.destination;
        let hosts = if reversed {
            (header.destination, header.source)
        } else {
            (header.source, header.destination)
        };
        if self.is_full() {
            self.make_room(cx, (time / 1_000_000_000) as u32);
        }
        if self.is_full() && !self.tables[table].places.contains_key(&hosts) {
            self.refused += 1;
            return Verdict::Other;
        }
        let pair = self.tables[table].pair(hosts);
        let (number, direction) = if header.is_first() {
            let Some(ports) = header.ports else { return Verdict::Other };
            // A host's flows with itself are told apart by the greater port.
            let reversed = reversed ^ (hosts.0 == hosts.1 && ports >> 16 > ports & 0xffff);
            let ports = if reversed { ports.rotate_left(16) } else { ports };
            let (number, reverse) =
                self.find_flow(cx, (table, pair), ports, reversed, time, &header);
            (number, reversed ^ reverse)
        } else {
            (0, reversed)
        };
        let paint = u8::from(direction) + if header.is_error { 2 } else { 0 };
        if let Some(meta) = cx.pool.arena().meta_mut(slot) {
            meta.paint = paint;
            annotations::set_aggregate(meta, number);
        }
        let of = &mut self.tables[table].pairs[pair];
        if self.fragments && header.is_fragment() || !of.held.is_empty() {
            let (id, is_fragment) = (header.id, header.is_fragment());
            return Verdict::Hold(table, pair, Fragment { id, is_fragment, flags: header.flags });
        }
        if number == 0 {
            return Verdict::Other;
        }
        self.now = (time / 1_000_000_000) as u32;
        if let Some(flow) = of.find(|flow| flow.number == number) {
            flow.account(time, paint, header.flags);
        }
        Verdict::Pass
    }

    /// The number of a flow, and whether it began in the other direction.
    fn find_flow(
        &mut self,
        cx: &mut Context,
        (table, pair): (usize, usize),
        ports: u32,
        reversed: bool,
        time: u64,
        header: &FlowHeader,
    ) -> (u32, bool) {
        let seconds = (time / 1_000_000_000) as u32;
        let of = &mut self.tables[table];
        let hosts = of.pairs[pair].hosts;
        if let Some(at) = of.pairs[pair].flows.iter().position(|flow| flow.ports == ports) {
            let flow = &of.pairs[pair].flows[at];
            let age = seconds.wrapping_sub(flow.seconds()) as i32;
            let starts = header.flags.is_some_and(|flags| flags & SYN != 0);
            let died = age > of.life(flow).min(i32::MAX as u32) as i32;
            let restarts = flow.over == OVER && starts;
            if !died && !restarts {
                let found = (flow.number, flow.reverse);
                of.pairs[pair].flows[..=at].rotate_right(1);
                return found;
            }
            let flow = of.pairs[pair].flows.remove(at);
            of.flows -= 1;
            self.end(cx, hosts, &flow);
        }
        if self.is_full() {
            self.refused += 1;
            return (0, reversed);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1).max(1);
        self.tables[table].flows += 1;
        let position = match self.trace {
            Some(_) => self.ask_source(cx, "packet_filepos").and_then(|text| text.parse().ok()),
            None => None,
        };
        let flow = Flow {
            ports,
            number,
            first: time,
            last: time,
            over: 0,
            reverse: reversed,
            packets: [0; 2],
            position: position.unwrap_or(0),
        };
        self.tables[table].pairs[pair].flows.insert(0, flow);
        (number, reversed)
    }

    /// Writes about a flow that has ended.
    fn describe(&mut self, cx: &Context, hosts: (u32, u32), flow: &Flow) {
        if let Some(trace) = &mut self.trace
            && let Err(error) = trace.flow(hosts, flow)
        {
            self.trace = None;
            cx.console().report(&format!("{}: {}\n", cx.name(), reason(&error)));
        }
    }

    /// Ends a flow, and notifies the listeners.
    fn end(&mut self, cx: &mut Context, hosts: (u32, u32), flow: &Flow) {
        self.describe(cx, hosts, flow);
        let mut ended = self.listeners.take();
        ended.push(flow.number);
        self.listeners.tell(cx, ended);
    }

    /// Holds a packet, and releases those that need not be held any longer.
    fn hold(&mut self, cx: &mut Context, slot: Slot, place: (usize, usize), about: Fragment) {
        self.now = (cx.pool.arena().meta(&slot).timestamp / 1_000_000_000) as u32;
        if self.held >= MOST_HELD {
            self.release(cx, place);
            return cx.drop_packet(slot, Reason::TooManyHeld);
        }
        self.tables[place.0].pairs[place.1].held.push_back((slot, about));
        self.held += 1;
        self.release(cx, place);
    }

    /// Sends on packets that are no fragments, and old fragments.
    fn release(&mut self, cx: &mut Context, (table, pair): (usize, usize)) {
        let limit = i64::from(self.now) - i64::from(self.fragment_timeout.0);
        while let Some((slot, about)) = self.tables[table].pairs[pair].held.front() {
            let time = cx.pool.arena().meta(slot).timestamp / 1_000_000_000;
            if about.is_fragment && time as i64 >= limit {
                return;
            }
            self.release_first(cx, (table, pair));
        }
    }

    fn release_first(&mut self, cx: &mut Context, (table, pair): (usize, usize)) {
        let of = &mut self.tables[table].pairs[pair];
        let Some((mut slot, about)) = of.held.pop_front() else { return };
        self.held -= 1;
        let arena = cx.pool.arena();
        let named = |slot: &Slot| {
            let meta = arena.meta(slot);
            (annotations::aggregate(meta), meta.paint)
        };
        let rename = |slot: &mut Slot, (number, paint)| {
            if let Some(meta) = arena.meta_mut(slot) {
                meta.paint = paint;
                annotations::set_aggregate(meta, number);
            }
        };
        let mut name = named(&slot);
        let same = |other: &&(Slot, Fragment)| other.1.id == about.id;
        if name.0 == 0 {
            let others = of.held.iter().filter(same).map(|(slot, _)| named(slot));
            match others.into_iter().find(|(number, _)| *number != 0) {
                Some(found) => name = found,
                None => return cx.drop_packet(slot, Reason::UnknownFlow),
            }
            rename(&mut slot, name);
        } else {
            let others = of.held.iter_mut().filter(|(_, other)| other.id == about.id);
            others.for_each(|(slot, _)| rename(slot, name));
        }
        // The flow may have ended while the packet was held.
        let time = arena.meta(&slot).timestamp;
        if let Some(flow) = of.find(|flow| flow.number == name.0) {
            flow.account(time, name.1, about.flags);
        }
        cx.take_part(&slot, self.rank.0, self.rank.1);
        self.rank.1 += 1;
        cx.out.emit(0, slot);
    }

    /// Flows and pairs of hosts.
    fn known(&self) -> usize {
        self.tables.iter().map(|table| table.flows + table.pairs.len()).sum()
    }

    fn is_full(&self) -> bool {
        self.known() >= self.capacity
    }

    /// Removes flows that have ended and pairs of hosts without any, at most
    /// once a second.
    #[cold]
    fn make_room(&mut self, cx: &mut Context, now: u32) {
        if self.searched_at == now {
            return;
        }
        (self.searched_at, self.now) = (now, now);
        self.remove_ended(cx);
        for table in &mut self.tables {
            table.pairs.retain(|pair| !pair.flows.is_empty() || !pair.held.is_empty());
            let places = table.pairs.iter().enumerate().map(|(at, pair)| (pair.hosts, at));
            table.places = places.collect();
        }
    }

    /// Removes flows that have ended, when it is time to.
    fn reap(&mut self, cx: &mut Context) {
        if self.now < self.reap_at {
            return;
        }
        if self.reap_at != 0 {
            self.remove_ended(cx);
        }
        self.reap_at = self.now.saturating_add(self.reap.0);
    }

    fn remove_ended(&mut self, cx: &mut Context) {
        for table in 0..self.tables.len() {
            for pair in 0..self.tables[table].pairs.len() {
                self.release(cx, (table, pair));
                let of = &self.tables[table];
                if !of.pairs[pair].held.is_empty() {
                    continue;
                }
                let now = self.now;
                let ended: Vec<bool> = of.pairs[pair]
                    .flows
                    .iter()
                    .map(|flow| {
                        (flow.seconds().wrapping_sub(now.wrapping_sub(of.life(flow))) as i32) < 0
                    })
                    .collect();
                let of = &mut self.tables[table].pairs[pair];
                let hosts = of.hosts;
                let mut ended = ended.into_iter();
                let gone: Vec<Flow> =
                    of.flows.extract_if(.., |_| ended.next() == Some(true)).collect();
                self.tables[table].flows -= gone.len();
                gone.iter().for_each(|flow| self.end(cx, hosts, flow));
            }
        }
    }
}

impl Element for AggregateIpFlows {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.listeners.go_on(cx);
        cx.unshare::<Reason>(frame);
        let mut slots = mem::take(&mut self.scratch);
        frame.drain_front(frame.len(), |slot| slots.push(slot));
        for mut slot in slots.drain(..) {
            self.rank = (cx.rank_of(&slot), 0);
            match self.judge(cx, &mut slot) {
                Verdict::Pass if self.fragments => cx.out.emit(0, slot),
                Verdict::Pass => {
                    // There is room: it has come out of this frame.
                    if let Err(slot) = frame.push(slot) {
                        cx.pool.give_one(slot);
                    }
                }
                Verdict::Other => cx.out.emit(1, slot),
                Verdict::Hold(table, pair, about) => self.hold(cx, slot, (table, pair), about),
            }
            self.reap(cx);
        }
        self.rank = (Rank::default(), 0);
        self.scratch = slots;
    }

    fn idle(&mut self, cx: &mut Context) {
        self.listeners.go_on(cx);
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        self.listeners = Listeners::for_notifier(cx.plan(), cx.element());
        if let Some(path) = self.trace_path.clone() {
            let said = |error| format!("{path}: {}", reason(&error));
            let sink = Output::open(&path).and_then(Output::claim).map_err(said)?;
            let file = self.ask_source(cx, "filename");
            let trace = Trace::new(Box::new(BufWriter::new(sink)), file.as_deref());
            self.trace = Some(trace.map_err(said)?);
        }
        let pulled = cx.plan().elements[cx.element()].inputs.first();
        if self.fragments && pulled == Some(&linerate_graph::Processing::Pull) {
            return Err("'FRAGMENTS true' is incompatible with pull; run this element in a push \
                        context"
                .into());
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AggregateIpFlows>() {
            self.listeners.take_state(cx, &mut old.listeners);
            for (table, old) in self.tables.iter_mut().zip(&mut old.tables) {
                table.places = mem::take(&mut old.places);
                table.pairs = mem::take(&mut old.pairs);
                table.flows = mem::take(&mut old.flows);
            }
            (self.next, self.now, self.reap_at) = (old.next, old.now, old.reap_at);
            self.refused = old.refused;
            self.held = mem::take(&mut old.held);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        for table in 0..self.tables.len() {
            for mut pair in mem::take(&mut self.tables[table].pairs) {
                pair.held.drain(..).for_each(|(slot, _)| cx.pool.give_one(slot));
                pair.flows.iter().for_each(|flow| self.describe(cx, pair.hosts, flow));
            }
            self.tables[table].places.clear();
            self.tables[table].flows = 0;
        }
        if let Some(trace) = self.trace.take()
            && let Err(error) = trace.finish()
        {
            cx.console().report(&format!("{}: {}\n", cx.name(), reason(&error)));
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "flows" => Ok(self.known().to_string()),
            "refused" => Ok(self.refused.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        if handler != "clear" {
            return Err(HandlerError::missing(handler));
        }
        let now = mem::replace(&mut self.now, 0x7fff_ffff);
        self.remove_ended(cx);
        self.now = now;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::test_files::data;
    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    const FIELDS: &str = "aggregate paint ip_src sport ip_dst dport ip_id ip_fragoff ip_proto";

    #[test]
    fn flows_are_those_of_click() {
        let scratch = Scratch::new("flows");
        let (file, xml) = (data("flows.pcap"), scratch.path("xml"));
        let (out, others) = (scratch.path("out"), scratch.path("others"));
        for limit in [256, 1] {
            let text = format!(
                "f :: FromDump({file}, STOP true, FORCE_IP true)
                 -> a :: AggregateIPFlows(TRACEINFO {xml}, SOURCE f, FRAGMENTS false)
                 -> ToIPSummaryDump({out}, FIELDS {FIELDS});
                 a [1] -> ToIPSummaryDump({others}, FIELDS {FIELDS})"
            );
            Run::new(&text).frame_limit(limit).run();
            let read = |path: &str| fs::read_to_string(path).unwrap();
            assert_eq!(read(&out), read(&data("flows.txt")), "{limit}");
            assert_eq!(read(&others), read(&data("flows-others.txt")), "{limit}");
        }
        // As Click's, but for the order, and for packets of a flow that had the
        // same ports before, which Click counts again.
        let text = fs::read_to_string(xml).unwrap();
        assert!(text.starts_with("<?xml version='1.0' standalone='yes'?>\n<trace file='"));
        for flow in [
            "<flow aggregate='1' src='10.0.0.9' sport='1000' dst='10.0.0.1' dport='80' \
             begin='1700000000.500000000' duration='3.000000000' filepos='24'>\n  \
             <stream dir='0' packets='3' /><stream dir='1' packets='2' />\n</flow>\n",
            "<flow aggregate='3' src='10.0.0.9' sport='1000' dst='10.0.0.1' dport='80' \
             begin='1700000004.000000000' duration='146.500000000' filepos='492'>\n  \
             <stream dir='0' packets='2' /><stream dir='1' packets='0' />\n</flow>\n",
            "<flow aggregate='2' src='10.0.0.1' sport='53' dst='10.0.0.9' dport='3000' \
             begin='1700000002.000000000' duration='0.500000000' filepos='234'>\n  \
             <stream dir='0' packets='1' /><stream dir='1' packets='1' />\n</flow>\n",
        ] {
            assert!(text.contains(flow), "{flow}\n{text}");
        }
        assert_eq!(text.matches("<flow ").count(), 10);
        assert!(text.ends_with("</flow>\n</trace>\n"));
    }

    #[test]
    fn fragments_wait_for_their_first() {
        let scratch = Scratch::new("flows-fragments");
        let (file, out) = (data("flows.pcap"), scratch.path("out"));
        for limit in [1, 256] {
            let mut run = Run::new(&format!(
                "FromDump({file}, STOP true, FORCE_IP true) -> a :: AggregateIPFlows
                 -> c :: Collect; a [1] -> d :: Discard"
            ))
            .frame_limit(limit);
            run.run();
            run.write("a.clear", "").unwrap();
            // All but the ICMP and GRE packets and the lonely fragment.
            assert_eq!(run.read("c.lengths").lines().count(), 21, "{limit}");
            assert_eq!(run.read("d.count"), "2");
        }
        let text = format!(
            "FromDump({file}, STOP true, FORCE_IP true, START 1700000005, END 1700000008)
             -> a :: AggregateIPFlows(FRAGMENT_TIMEOUT 0)
             -> ToIPSummaryDump({out}, FIELDS aggregate paint ip_id ip_fragoff, HEADER false)"
        );
        let mut run = Run::new(&text);
        run.run();
        run.write("a.clear", "").unwrap();
        drop(run);
        let order: Vec<String> =
            fs::read_to_string(&out).unwrap().lines().map(str::to_owned).collect();
        // The second fragment was released when the first came; the third is held, with the packets
        // behind it.
        assert_eq!(order, ["1 0 10 0", "2 0 78 0", "3 0 77 0+", "3 0 77 48", "3 1 79 0"]);
    }
}

//! `ICMPPingSource`: pings a host, and listens for its answers.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError,
    HandlerResult, NoBuffer, Seconds,
};
use linerate_memory::{Frame, Slot};
use linerate_packet::{IpProtocol, checksum};

use super::{FAMILY, ping_report::Report};
use linerate_element_support::{
    handler_values,
    ip::{
        DESTINATION, IDENT, LEAST, PROTOCOL, SOURCE, TOTAL_LENGTH, TTL, fill_checksum, get_four,
        get16, header_length, protocol, put16,
    },
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// answers heard
    Heard,
    #[from(NoBuffer)]
    NoBuffer,
}

const TIMER: u32 = 0;
const MILLISECOND: u64 = 1_000_000;
/// Bytes in front of the data.
const HEADERS: usize = LEAST + 8;
/// Hops a request gets.
const HOPS: u8 = 200;
const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;

pub(super) const CLASS: Class = Class {
    name: "ICMPPingSource",
    family: FAMILY,
    summary: "sends ICMP echo requests",
    description: "One per `INTERVAL`, the first after one interval, or one whenever it is pulled, \
        `LIMIT` in all. Sequence number and IP identification are the same and count up from 1; \
        `DST` is the destination annotation. `STOP true` asks for the end of the run when the \
        limit has been made, an interval after the last.\n\n\
        Where the input is used, answers are for it: IP packets whose headers are known. With \
        `VERBOSE`, a line is written about each, and a summary when the element goes, as ping(8) \
        does. Times are from the request's timestamp to the answer's; an answer without one came \
        now. There are more handlers then: `summary`, the same summary, and `rtt_min`, `rtt_avg` and \
        `rtt_max`, the times. With `MIRROR` every answer becomes the next request, whatever the limit.",
    ports: "0-1/1",
    processing: "h/a",
    handlers: &[
        Handler::value("active", "whether it makes requests").flags("c"),
        Handler::value("src", "source address").flags("."),
        Handler::value("dst", "destination address").flags("."),
        Handler::read("count", "requests made"),
        Handler::write("limit", "requests to make in all").flags("."),
        Handler::write("interval", "time between requests"),
        Handler::button("reset_counts", "sets all counts to zero"),
    ],
    annotates: true,
    drops: Reason::REASONS,
    prints: true,
    cost: "A timer per request, a lock per frame of answers, a megabyte for the times of \
        requests.",
    example: "p :: ICMPPingSource(1.0.0.1, 2.0.0.1, INTERVAL 10ms, LIMIT 3, STOP true)\n  \
        -> ICMPPingResponder -> p;",
    ..Class::for_element::<PingSource>()
};

/// Handlers where the input is used.
static LISTENING: [Handler; 4] = [
    Handler::read("summary", "requests, answers and times, as ping(8) shows them"),
    Handler::read("rtt_min", "shortest time an answer took"),
    Handler::read("rtt_avg", "mean time answers took"),
    Handler::read("rtt_max", "longest time an answer took"),
];

/// The class by its old name.
pub(super) const OLD: Class = Class {
    name: "ICMPSendPings",
    example: "ICMPSendPings(1.0.0.1, 2.0.0.2, LIMIT 1, STOP true) -> Discard;",
    ..CLASS
};

/// State shared by the replicas.
#[derive(Debug)]
struct State {
    count: u32,
    limit: i32,
    report: Option<Report>,
}

#[derive(Arguments)]
#[arguments(check = PingSource::check)]
struct PingSource {
    /// source address
    #[arg(name = "SRC", stand_in = Ipv4Addr::UNSPECIFIED)]
    source: Ipv4Addr,
    /// destination address
    #[arg(name = "DST", stand_in = Ipv4Addr::UNSPECIFIED)]
    destination: Ipv4Addr,
    /// time between requests
    #[arg(keyword, kind = "time", default = Seconds(1000), shown = "1s")]
    interval: Seconds<3>,
    /// their identifier, in this machine's byte order
    #[arg(name = "IDENTIFIER", keyword, kind = "number", default = 0)]
    ident: u16,
    /// requests to make in all
    #[arg(name = "LIMIT", keyword, kind = "packets", shown = "-1: no limit", with = state)]
    state: Arc<Mutex<State>>,
    /// the requests' data
    #[arg(keyword, kind = "string", default = Vec::new(), shown = "nothing")]
    data: Vec<u8>,
    /// whether it makes requests
    #[arg(keyword, default = true)]
    active: bool,
    /// whether answers and the summary are written
    #[arg(keyword, default = true)]
    verbose: bool,
    /// whether the end of the limit ends the run
    #[arg(keyword, default = false)]
    stop: bool,
    /// whether an answer becomes the next request
    #[arg(keyword, default = false)]
    mirror: bool,
    /// Whether it is pushed out, and by this replica.
    #[init(make.output_is_push(0) && make.replica().index == 0)]
    timed: bool,
    #[init(make.inputs() > 0)]
    listens: bool,
    /// Answers that go no further.
    heard: Vec<Slot>,
}

fn state(make: &mut ElementBuilder<'_>, name: &str) -> Arc<Mutex<State>> {
    let (limit, listens) = (make.or(name, -1), make.inputs() > 0);
    make.shared(|| Mutex::new(State { count: 0, limit, report: listens.then(Report::new) }))
}

impl PingSource {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        let pushes = make.output_is_push(0);
        let room = make.world.arena().room().min(usize::from(u16::MAX));
        if HEADERS + self.data.len() > room {
            make.error(format!("packets longer than a buffer ({room} bytes)"));
        }
        if self.interval.0 == 0 {
            make.warn("INTERVAL so small that it is zero");
        }
        if !pushes && make.is_given("INTERVAL") {
            make.warn("element is pull, INTERVAL parameter will be ignored");
        }
        if !pushes && self.mirror {
            make.error("MIRROR invalid on pull element");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a packet that has room for the headers a request.
    fn write_request(&self, cx: &Context, state: &mut State, slot: &mut Slot) {
        let arena = cx.pool.arena();
        let now = cx.now();
        let number = (state.count % 0xffff) as u16 + 1;
        state.count = state.count.wrapping_add(1);
        let length = slot.len() as u16;
        let Some(bytes) = arena.packet_mut(slot) else { return };
        bytes[..HEADERS].fill(0);
        (bytes[0], bytes[TTL], bytes[PROTOCOL]) = (0x45, HOPS, IpProtocol::ICMP.0);
        put16(bytes, TOTAL_LENGTH, length);
        put16(bytes, IDENT, number);
        bytes[SOURCE..DESTINATION].copy_from_slice(&self.source.octets());
        bytes[DESTINATION..LEAST].copy_from_slice(&self.destination.octets());
        fill_checksum(bytes);
        let message = &mut bytes[LEAST..];
        message[0] = ECHO;
        message[4..6].copy_from_slice(&self.ident.to_ne_bytes());
        put16(message, 6, number);
        let sum = checksum::checksum(message);
        put16(message, 2, sum);
        if let Some(mut packet) = arena.writable(slot) {
            packet.mark_headers(0, LEAST);
            let meta = packet.meta_mut();
            meta.destination[..4].copy_from_slice(&self.destination.octets());
            meta.timestamp = now;
        }
        if let Some(report) = &mut state.report {
            report.sent(number, now);
        }
    }

    /// Adds requests to a frame, at most `count` and as many as the limit allows.
    fn make_requests(&mut self, cx: &mut Context, count: usize, frame: &mut Frame) {
        let shared = Arc::clone(&self.state);
        let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let left = match u32::try_from(state.limit) {
            Ok(limit) => limit.saturating_sub(state.count) as usize,
            Err(_) => usize::MAX,
        };
        cx.pool.take(frame, count.min(left), HEADERS + self.data.len());
        cx.begin_packets(frame);
        for slot in frame.slots_mut() {
            if let Some(bytes) = cx.pool.arena().packet_mut(slot) {
                bytes[HEADERS..].copy_from_slice(&self.data);
            }
            self.write_request(cx, &mut state, slot);
        }
    }

    fn is_at_limit(&self) -> bool {
        let state = self.state();
        u32::try_from(state.limit).is_ok_and(|limit| state.count >= limit)
    }

    fn set_timer(&self, cx: &mut Context) {
        let interval = (u64::from(self.interval.0) * MILLISECOND).max(1);
        cx.set_timer(TIMER, cx.steady().saturating_add(interval));
    }

    /// Sets the timer again, if a written value allows it.
    fn go_on(&self, cx: &mut Context) {
        if self.timed && self.active && !self.is_at_limit() && cx.timer(TIMER).is_none() {
            self.set_timer(cx);
        }
    }

    /// Returns true if a packet is an answer to a request, and writes a line about it.
    fn listen(&self, cx: &Context, state: &mut State, slot: &Slot) -> bool {
        let meta = cx.pool.arena().meta(slot);
        let Some(ip) = linerate_element_support::ip::ip(cx.pool.arena(), slot) else {
            return false;
        };
        let message = &ip[header_length(ip)..];
        let answers = protocol(ip) == IpProtocol::ICMP
            && message.len() >= 8
            && message[0] == ECHO_REPLY
            && message[4..6] == self.ident.to_ne_bytes();
        if !answers {
            return false;
        }
        let came = if meta.timestamp == 0 { cx.now() } else { meta.timestamp };
        let number = get16(message, 6);
        let took = state.report.as_mut().and_then(|report| report.answered(number, came));
        if let Some(micros) = took.filter(|_| self.verbose) {
            let length = i32::from(get16(ip, TOTAL_LENGTH)) - header_length(ip) as i32 - 8;
            let (name, ttl) = (cx.name(), ip[TTL]);
            let from = Ipv4Addr::from(get_four(ip, SOURCE));
            let (whole, rest) = (micros / 1000, micros % 1000);
            cx.console().report(&format!(
                "{name} :: ICMPPingSource: {length} bytes from {from}: icmp_seq={number} ttl={ttl} \
                 time={whole}.{rest:03} ms\n"
            ));
        }
        true
    }

    /// Makes an answer the next request.
    fn mirror(&self, cx: &mut Context, state: &mut State, mut slot: Slot) {
        if !cx.unshare_one(&mut slot) {
            return cx.drop_packet(slot, Reason::NoBuffer);
        }
        // Bytes in front of the IP header go; a header in the room in front of the packet was
        // stripped on purpose.
        let network = cx.pool.arena().network(&slot);
        if network < slot.len() {
            slot.pull(network);
        }
        self.write_request(cx, state, &mut slot);
        cx.out.emit(0, slot);
    }

    fn summary(&self) -> String {
        let state = self.state();
        state.report.as_ref().map(|report| report.summary(state.count)).unwrap_or_default()
    }
}

impl Element for PingSource {
    fn timer(&mut self, cx: &mut Context, _: u32, frame: &mut Frame) {
        if !self.active {
            return;
        }
        if self.is_at_limit() {
            if self.stop {
                cx.driver.stop();
            }
            return;
        }
        self.make_requests(cx, 1, frame);
        self.set_timer(cx);
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if self.is_at_limit() {
            if std::mem::take(&mut self.stop) {
                cx.driver.stop();
            }
            return;
        }
        self.make_requests(cx, count, frame);
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let shared = Arc::clone(&self.state);
        let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut heard = std::mem::take(&mut self.heard);
        frame.drain_front(frame.len(), |slot| heard.push(slot));
        for slot in heard.drain(..) {
            let answers = self.listen(cx, &mut state, &slot);
            if answers && self.mirror {
                self.mirror(cx, &mut state, slot);
            } else {
                cx.drop_packet(slot, Reason::Heard);
            }
        }
        self.heard = heard;
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.timed && self.active && self.state().limit != 0 {
            self.set_timer(cx);
        }
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<PingSource>() else { return };
        // The successor writes the summary.
        old.verbose = false;
        if !Arc::ptr_eq(&self.state, &old.state) && self.timed {
            let (count, report) = {
                let mut state = old.state();
                (state.count, state.report.take())
            };
            let mut state = self.state();
            state.count = count;
            if let (Some(mine), Some(report)) = (&mut state.report, report) {
                *mine = report;
            }
        }
    }

    fn close(&mut self, cx: &mut Context) {
        if self.listens && self.verbose && self.timed {
            let name = cx.name().to_owned();
            for line in self.summary().lines() {
                cx.console().report(&format!("{name} :: ICMPPingSource: {line}\n"));
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "active" => return Ok(self.active.to_string()),
            "src" => return Ok(self.source.to_string()),
            "dst" => return Ok(self.destination.to_string()),
            "count" => return Ok(self.state().count.to_string()),
            "summary" if self.listens => return Ok(self.summary()),
            _ => {}
        }
        let state = self.state();
        let Some(report) = &state.report else { return Err(HandlerError::missing(handler)) };
        match handler {
            "rtt_min" => Ok(report.shortest()),
            "rtt_avg" => Ok(report.mean()),
            "rtt_max" => Ok(report.longest()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let address = || {
            let address = handler_values::address(cx, value);
            address.map_err(|_| HandlerError::refused("syntax error"))
        };
        match handler {
            "active" => {
                self.active = handler_values::boolean_or(value, "type mismatch")?;
                if !self.active {
                    cx.clear_timer(TIMER);
                } else if self.timed && cx.timer(TIMER).is_none() {
                    cx.set_timer(TIMER, cx.steady());
                }
            }
            "src" => self.source = address()?,
            "dst" => self.destination = address()?,
            "limit" => {
                self.state().limit =
                    handler_values::integer_or(value, "'limit' should be integer")?;
                self.go_on(cx);
            }
            "interval" => {
                let interval =
                    linerate_element_support::handler_values::value_of::<Seconds<3>>(cx, value);
                let wrong = |_| HandlerError::refused("'interval' should be an interval");
                self.interval = interval.map_err(wrong)?;
            }
            "reset_counts" => {
                {
                    let mut state = self.state();
                    state.count = 0;
                    state.report = state.report.take().map(|_| Report::new());
                }
                self.go_on(cx);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        LISTENING.iter().find(|handler| self.listens && handler.name == name)
    }

    fn handler_names(&self) -> Vec<String> {
        let names = LISTENING.iter().map(|handler| handler.name.to_owned());
        if self.listens { names.collect() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    const ANSWERED: &str = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.1, LIMIT 3, STOP true";

    #[test]
    fn requests_are_answered_and_summed_up() {
        let mut run = Run::new(&format!(
            "{ANSWERED}, DATA abc) -> t :: Tee -> ICMPPingResponder -> Queue
             -> DelayUnqueue(0.0105) -> p; t [1] -> out :: Collect;"
        ));
        run.run();
        // As Click has them.
        let packets = run.read("out.packets");
        let first = "4500001f00010000c801efda01000001020000020800339c000000 01616263";
        assert_eq!(packets.lines().next(), Some(&*first.replace(' ', "")));
        assert_eq!(run.read("out.times"), "100000000\n200000000\n300000000");
        let summary = "3 packets transmitted, 3 received, 0% packet loss\n\
            rtt min/avg/max/mdev = 10.500/10.500/10.500/0.000\n";
        assert_eq!(run.read("p.summary"), summary);
        assert_eq!(run.read("p.rtt_avg"), "0.0105s");
        let line = "p :: ICMPPingSource: 3 bytes from 2.0.0.2: icmp_seq=2 ttl=255 time=10.500 ms\n";
        assert!(run.output().contains(line), "{}", run.output());
    }

    #[test]
    fn lost_and_doubled_answers_are_counted() {
        let mut run = Run::new(&format!(
            "{ANSWERED}, VERBOSE false) -> r :: RoundRobinSwitch -> Discard;
             r [1] -> t :: Tee -> ICMPPingResponder -> p; t [1] -> ICMPPingResponder -> p;"
        ));
        run.run();
        let summary = run.read("p.summary");
        let line = "3 packets transmitted, 1 received, +1 duplicates, 66% packet loss\n";
        assert!(summary.starts_with(line), "{summary}");
        assert_eq!(run.output(), "");
    }

    #[test]
    fn others_answers_are_none() {
        let mut run = Run::new(&format!(
            "{ANSWERED}, IDENTIFIER 7) -> Discard;
             q :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.1, IDENTIFIER 8)
             -> ICMPPingResponder -> p; InfiniteSource(LIMIT 1) -> p;"
        ));
        run.run();
        let summary = "3 packets transmitted, 0 received, 100% packet loss\n";
        assert_eq!(run.read("p.summary"), summary);
    }

    #[test]
    fn requests_are_pulled() {
        let mut run = Run::new(
            "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 5, STOP true) -> Unqueue
             -> CheckIPHeader -> CheckICMPHeader -> out :: Collect;",
        );
        run.run();
        assert_eq!(run.read("out.lengths"), "28\n28\n28\n28\n28");
    }

    #[test]
    fn an_answer_is_the_next_request() {
        let mut run = Run::new(
            "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.1, LIMIT 1, MIRROR true, \
                VERBOSE false, DATA abcdef)
             -> CheckIPHeader -> CheckICMPHeader -> c :: Counter -> ICMPPingResponder -> Queue
             -> DelayUnqueue(0.01) -> p; Script(wait 0.155, stop);",
        );
        run.run();
        assert_eq!(run.read("c.count"), "6");
        let summary = run.read("p.summary");
        assert!(summary.starts_with("6 packets transmitted, 5 received"), "{summary}");
    }
}

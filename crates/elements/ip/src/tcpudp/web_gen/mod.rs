//! `WebGen`: HTTP load generator that requests random pages of a web server.
//!
//! A TCP client as simple as Click's: a request is one segment with a FIN, retransmitted until
//! acknowledged; received data are acknowledged in any order, and discarded.

mod connections;
mod segment;
#[cfg(test)]
mod tests;

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use linerate_element_support::{ip::LEAST, random::Random};
use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Ipv4OrPrefix, Ipv4Prefix, NoBuffer,
};
use linerate_memory::{Frame, Slot};

use self::{
    connections::{Connection, Connections, Counts},
    segment::{ACK, FIN, PUSH, RST, SYN, Segment, Sent, request_length},
};
use super::FAMILY;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// segment that is not answered
    Used,
}

const TIMER: u32 = 0;
/// Period of the timer.
const TICK: u64 = 1_000_000;
/// Period of reports.
const REPORT: u64 = 5_000_000_000;
/// Retransmission timeout, and the count of retransmissions above which a connection is given up.
const PATIENCE: u64 = 1_000_000_000;
const RESENDS: u8 = 5;
/// The port of HTTP.
const HTTP: u16 = 80;
/// Highest `RATE`, in connections per second.
const MOST_RATE: i32 = 100_000;

pub(super) const CLASS: Class = Class {
    name: "WebGen",
    family: FAMILY,
    summary: "asks a web server for random pages over and over",
    description: "Opens `RATE` connections per second to port 80 of `DST`, from random ports of \
        random addresses in `PREFIX`, and asks for `/spec/A/A-B-C` by HTTP 1.0, A from 0 to 9, B from \
        0 to 2, C from 0 to 8. A segment is sent again when nothing has come for a second, six \
        times. The input is for IP packets to the addresses of `PREFIX`, each of which begins with its \
        header; segments of no connection are answered with a RST. Every 5 s and at the end it \
        reports how many connections were begun, completed, given up and reset since. There are \
        places for the connections of ten seconds.",
    ports: "1/1",
    processing: "h/h",
    args: &[
        Arg::required("PREFIX", "IP prefix", "addresses to ask from"),
        Arg::required("DST", "IP address", "the server"),
        Arg::required("RATE", "connections per second", "at most 100,000"),
    ],
    drops: Reason::REASONS,
    annotates: true,
    prints: true,
    cost: "A timer every millisecond; a lock per frame, and a look at a table per packet.",
    example: "Idle -> WebGen(11.11.0.0/16, 10.0.0.1, 500) \
        -> Counter(COUNT_CALL 10 stop) -> Discard;",
    make: |make| Box::new(WebGen::new(make)),
    ..Class::here()
};

/// State that all replicas share.
struct State {
    connections: Connections,
    /// IP identification of the next packet.
    ident: u16,
    server: Ipv4Addr,
    /// Scheduled start of the last connection, and time of the last report.
    begun: u64,
    reported: u64,
    /// Whether a full table was reported since the last report.
    said_full: bool,
}

struct WebGen {
    state: Arc<Mutex<State>>,
    prefix: Ipv4Prefix,
    random: Random,
    /// Nanoseconds between connections.
    interval: u64,
    /// Whether this replica opens connections and reports.
    leads: bool,
    /// Scratch vector for the packets of a frame.
    came: Vec<Slot>,
}

/// Returns true if a sequence number comes after another, modulo 2^32.
fn is_behind(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 > 0
}

impl State {
    /// Opens a connection and returns its SYN; `None` if the table is full. `below` draws a random
    /// number below its argument.
    fn begin(
        &mut self,
        prefix: Ipv4Prefix,
        now: u64,
        mut below: impl FnMut(usize) -> usize,
    ) -> Option<Sent> {
        let random = below(1 << 32) as u32;
        let mask = u32::from(prefix.mask);
        let first = below(1 << 28) as u32;
        let connection = Connection {
            source: Some(Ipv4Addr::from(random & !mask | u32::from(prefix.address) & mask)),
            port: 1024 + below(60_000) as u16,
            page: [10, 3, 9].map(|end| below(end) as u8),
            first,
            unacknowledged: first,
            next: first,
            ..Connection::default()
        };
        let place = self.connections.add(connection)?;
        self.connections.counts.begun += 1;
        self.send(place, now)
    }

    /// The segment that a connection sends now, if one is due.
    fn send(&mut self, place: u32, now: u64) -> Option<Sent> {
        let server = (self.server, HTTP);
        self.connections.sent(place, now);
        let connection = self.connections.get(place);
        let acknowledged = connection.unacknowledged.wrapping_sub(connection.first);
        let asks = connection.is_connected && acknowledged.wrapping_sub(1) < request_length();
        let sequence = if asks {
            let sequence = connection.first.wrapping_add(1);
            connection.next = sequence.wrapping_add(request_length());
            sequence
        } else {
            connection.next.wrapping_add(connection.sent_fin.into())
        };
        if connection.is_connected && !connection.must_send && !asks {
            return None;
        }
        connection.must_send = false;
        let mut flags = if connection.is_connected { ACK } else { SYN };
        if asks {
            flags |= PUSH | FIN;
        }
        if connection.got_fin {
            flags |= FIN;
        }
        connection.sent_fin |= flags & FIN != 0;
        let sent = Sent {
            from: (connection.source?, connection.port),
            to: server,
            sequence,
            acknowledged: if connection.is_connected { connection.expected } else { 0 },
            flags,
            page: asks.then_some(connection.page),
        };
        if connection.sent_fin && connection.got_fin {
            self.connections.counts.completed += 1;
            self.connections.remove(place);
        }
        Some(sent)
    }

    /// Processes a received segment and returns the answer, if any.
    fn answer(&mut self, segment: &Segment, now: u64) -> Option<Sent> {
        let Segment { from, to, sequence, acknowledged, flags, data } = *segment;
        let found = self.connections.find(to.0, to.1).filter(|_| from.1 == HTTP);
        let Some(place) = found else {
            let reset = Sent {
                from: to,
                to: from,
                sequence: acknowledged,
                acknowledged: sequence,
                flags: RST,
                page: None,
            };
            // A RST gets no answer: two ends that answer resets would never stop.
            return Some(reset).filter(|_| flags & RST == 0);
        };
        let connection = self.connections.get(place);
        let behind = sequence.wrapping_add(data);
        let opens = flags & (ACK | RST) == ACK
            && !connection.is_connected
            && acknowledged == connection.first.wrapping_add(1);
        if opens {
            connection.is_connected = true;
            connection.must_send = true;
            connection.next = acknowledged;
            connection.unacknowledged = acknowledged;
            connection.expected = sequence.wrapping_add(1);
        } else if data > 0 {
            connection.must_send = true;
            if is_behind(behind, connection.expected) {
                connection.expected = behind;
            }
        }
        if flags & ACK != 0 && is_behind(acknowledged, connection.unacknowledged) {
            connection.unacknowledged = acknowledged;
        }
        if flags & FIN != 0 && behind == connection.expected && !connection.got_fin {
            connection.got_fin = true;
            connection.must_send = true;
            connection.expected = connection.expected.wrapping_add(1);
        }
        if flags & RST != 0 {
            self.connections.counts.reset += 1;
            self.connections.remove(place);
            return None;
        }
        self.send(place, now)
    }

    /// Handles one retransmission timeout: returns the segment, if any, or gives the connection up.
    /// `None` if no connection has timed out.
    fn resend(&mut self, now: u64) -> Option<Option<Sent>> {
        let place = self.connections.oldest()?;
        let connection = self.connections.get(place);
        if now.saturating_sub(connection.sent_at) <= PATIENCE {
            return None;
        }
        if connection.resends > RESENDS {
            self.connections.counts.given_up += 1;
            self.connections.remove(place);
            return Some(None);
        }
        connection.resends += 1;
        Some(self.send(place, now))
    }

    /// Formats a report and resets its counters.
    fn report(&mut self, now: u64) -> String {
        (self.reported, self.said_full) = (now, false);
        let Counts { begun, completed, given_up, reset } =
            std::mem::take(&mut self.connections.counts);
        format!("init: {begun}  comp: {completed:5}  tmo: {given_up:5}  rst: {reset:5}\n")
    }

    /// Writes a segment into a packet of its length.
    fn write(&mut self, cx: &Context, slot: &mut Slot, sent: &Sent) {
        let Some(mut packet) = cx.pool.arena().writable(slot) else { return };
        let (bytes, meta) = packet.parts();
        sent.write(bytes, self.ident);
        self.ident = self.ident.wrapping_add(1);
        meta.destination[..4].copy_from_slice(&sent.to.0.octets());
        packet.mark_headers(0, LEAST);
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // No code panics while the lock is held.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WebGen {
    fn new(make: &mut ElementBuilder<'_>) -> WebGen {
        let Ipv4OrPrefix(prefix) = make.need("PREFIX");
        let server = make.get("DST").unwrap_or(Ipv4Addr::UNSPECIFIED);
        let rate = make.need::<i32>("RATE");
        if make.is_given("RATE") && !(1..=MOST_RATE).contains(&rate) {
            make.error(format!("RATE must be between 1 and {MOST_RATE}"));
        }
        // Click counts microseconds.
        let interval = 1_000_000 / u64::from(rate.clamp(1, MOST_RATE).unsigned_abs());
        let most = 10 * (1_000_000 / interval) as usize;
        let random = Random::new(make);
        let state = make.shared(|| {
            Mutex::new(State {
                connections: Connections::new(most),
                ident: 0,
                server,
                begun: 0,
                reported: 0,
                said_full: false,
            })
        });
        let leads = make.replica().index == 0;
        WebGen { state, prefix, random, interval: interval * 1000, leads, came: Vec::new() }
    }

    /// Sends a segment in a new packet.
    fn send(cx: &mut Context, state: &mut State, frame: &mut Frame, sent: &Sent) {
        if cx.pool.take(frame, 1, sent.length()) == 0 {
            return cx.count_drops(Reason::NoBuffer, 1);
        }
        cx.begin_packets(frame);
        for slot in frame.slots_mut() {
            state.write(cx, slot, sent);
        }
        cx.out.emit_frame(0, frame);
    }
}

impl Element for WebGen {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        if self.leads {
            let now = cx.steady();
            let mut state = locked(&self.state);
            (state.begun, state.reported) = (now, now);
            let most = state.connections.most();
            cx.console().report(&format!("Allocated {most} CBs\n"));
            cx.set_timer(TIMER, now);
        }
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, frame: &mut Frame) {
        let shared = Arc::clone(&self.state);
        let mut state = locked(&shared);
        let now = cx.steady();
        while now.saturating_sub(state.begun) > self.interval {
            state.begun += self.interval;
            match state.begin(self.prefix, now, |end| self.random.below(end)) {
                Some(sent) => WebGen::send(cx, &mut state, frame, &sent),
                None if !std::mem::replace(&mut state.said_full, true) => {
                    cx.console().report("out of available CBs\n");
                }
                None => {}
            }
        }
        while let Some(sent) = state.resend(now) {
            if let Some(sent) = sent {
                WebGen::send(cx, &mut state, frame, &sent);
            }
        }
        if now.saturating_sub(state.reported) > REPORT {
            let line = state.report(now);
            cx.console().report(&line);
        }
        cx.set_timer(TIMER, now + TICK);
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let shared = Arc::clone(&self.state);
        let mut state = locked(&shared);
        let now = cx.steady();
        let mut came = std::mem::take(&mut self.came);
        frame.drain_front(frame.len(), |slot| came.push(slot));
        for mut slot in came.drain(..) {
            let segment = Segment::parse(cx.pool.arena().packet(&slot));
            let Some(sent) = segment.and_then(|segment| state.answer(&segment, now)) else {
                cx.drop_packet(slot, Reason::Used);
                continue;
            };
            if !cx.unshare_one(&mut slot) || !cx.pool.arena().resize(&mut slot, sent.length()) {
                cx.drop_packet(slot, Reason::NoBuffer);
                continue;
            }
            state.write(cx, &mut slot, &sent);
            cx.out.emit(0, slot);
        }
        self.came = came;
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<WebGen>() else { return };
        // Only the new element reports when it closes.
        let led = std::mem::take(&mut old.leads);
        if led && self.leads && !Arc::ptr_eq(&self.state, &old.state) {
            let (mut old, mut state) = (locked(&old.state), locked(&self.state));
            let server = state.server;
            std::mem::swap(&mut *state, &mut *old);
            state.server = server;
        }
    }

    fn close(&mut self, cx: &mut Context) {
        if self.leads {
            let line = locked(&self.state).report(cx.steady());
            cx.console().report(&line);
        }
    }
}

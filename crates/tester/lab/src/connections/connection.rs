//! One TCP connection of either side, as a pure machine: segments and time in, segments out.
//!
//! It is TCP as RFC 9293 has it, as far as is needed to load the device between two ends and to see
//! its effect on connections: the handshake, windows, slow start, retransmission by a timer, FIN
//! both ways, resets. It sends from the oldest unacknowledged byte again when its timer runs out,
//! and drops data behind a gap. There is no fast retransmission, no selective acknowledgement and
//! no estimate of the round-trip time, so that loss shows plainly: as retransmissions and
//! time-outs.
//!
//! Places in both streams are counted from the SYN, which is at 0, in 64 bits. Times are ticks of a
//! millisecond.

use linerate_packet::{build::Link, ethernet, tcp::Flags};

use super::{
    payload::{HeaderState, RequestHeader, is_right},
    segment::{DEFAULT_MSS, Data, Incoming},
};

/// Segments a connection sends before it has heard of one (RFC 6928).
const INITIAL_WINDOW: u32 = 10;
/// Largest window, also of slow start: the limit of a header without scaling.
const WINDOW_MAX: u32 = u16::MAX as u32;

/// Bytes a stream may have: places in it and distances between them are numbers with a sign, too.
const STREAM_MAX: u64 = 1 << 62;

/// Options of a side that hold for all its connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) role: Role,
    /// The largest segment we send and say that we take.
    pub(super) mss: u16,
    /// First retransmission timeout, in ticks.
    pub(super) retransmit: u64,
    /// Most retransmissions of a segment, each after twice the time.
    pub(super) retries: u8,
    /// Longest silence of the other side when it is its turn, in ticks.
    pub(super) timeout: u64,
}

/// The end that opens connections, or the one that answers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Client(Client),
    Server,
}

/// Options of the client in a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    /// Bytes of its request and of the answer it asks for.
    pub(super) ask: RequestHeader,
    /// Number of requests.
    pub(super) requests: u64,
    /// Pause behind each answer, in ticks.
    pub(super) think: u64,
    /// The group whose bytes it sends, if those are given: its answers are not known then.
    pub(super) given: Option<u16>,
}

/// The reason for a failed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The server does not want it.
    Refused,
    /// The other side has reset it.
    Reset,
    /// The other side did not answer, or no more.
    TimedOut,
    /// The server ended it before it had answered.
    ClosedEarly,
    /// Other bytes came than were sent.
    Mismatched,
}

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Failed(Failure),
}

/// Effects of a received segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Both sides know now that it is open.
    pub(super) opened: bool,
    /// Bytes of ours that have arrived.
    pub(super) acked: u64,
    /// Bytes that came, in order.
    pub(super) taken: u64,
    /// Something came behind a gap.
    pub(super) out_of_order: bool,
    /// The segment is of a connection that the other side should forget.
    pub(super) stale: bool,
    pub(super) ended: Option<End>,
}

/// A segment to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentPlan {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: Flags,
    pub(super) mss: Option<u16>,
    pub(super) data: Data,
    pub(super) len: u16,
    /// Set for a retransmission.
    pub(super) again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Until our SYN is acknowledged.
    Opening,
    Open,
    /// To be reset.
    Resetting,
    /// All is done but for an acknowledgement.
    Over,
}

/// One side of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// Index of its rules among the endpoint's.
    pub(super) rules: u16,
    pub(super) link: Link,
    /// Time of its begin, in nanoseconds.
    pub(super) began: u64,
    /// Tick of its timer.
    pub(super) deadline: u64,
    /// Tick at which the wheel looks at it; the largest value when the wheel does not.
    pub(super) scheduled: u64,
    /// Set while it is in the queue of those that may have something to send.
    pub(super) queued: bool,
    phase: Phase,
    /// Our first sequence number, and theirs.
    iss: u32,
    irs: u32,
    /// Up to where we have been acknowledged.
    una: u64,
    /// Place of the next byte to be sent.
    nxt: u64,
    /// Up to where anything was sent.
    high: u64,
    /// Place of the next expected byte; 0 before their SYN has come.
    received: u64,
    /// Bytes of ours that may be sent by now, of the whole stream.
    allowed: u64,
    /// Requests begun.
    begun: u64,
    /// The other side's window, and our own of slow start.
    window: u32,
    slow: u32,
    /// The largest segment to be sent.
    mss: u16,
    retries: u8,
    ack_due: bool,
    /// Their FIN has come.
    peer_closed: bool,
    /// Set when our FIN follows the allowed bytes.
    closing: bool,
    thinking: bool,
    /// Set when a byte is sent in spite of a closed window.
    probing: bool,
    heard: HeaderState,
}

impl Connection {
    /// A client's, about to send its SYN.
    pub(super) fn client(rules: u16, of: &Rules, link: Link, iss: u32, time: u64) -> Connection {
        Connection {
            rules,
            link,
            began: time,
            deadline: super::tick(time) + of.retransmit,
            scheduled: u64::MAX,
            queued: false,
            phase: Phase::Opening,
            iss,
            irs: 0,
            una: 0,
            nxt: 0,
            high: 0,
            received: 0,
            allowed: 0,
            begun: 0,
            window: WINDOW_MAX,
            slow: 0,
            mss: of.mss,
            retries: 0,
            ack_due: false,
            peer_closed: false,
            closing: false,
            thinking: false,
            probing: false,
            heard: HeaderState::NOTHING,
        }
    }

    /// A server's, about to answer a SYN.
    pub(super) fn server(
        rules: u16,
        of: &Rules,
        syn: &Incoming<'_>,
        iss: u32,
        time: u64,
    ) -> Connection {
        let mut connection = Connection::client(rules, of, syn.link, iss, time);
        // The client's tags are in the frames that go back, in the place of data.
        let tags = syn.link.header_len() - ethernet::HEADER_LEN;
        connection.mss = of.mss.saturating_sub(tags as u16);
        connection.meet(syn);
        connection
    }

    /// Takes the other side's SYN.
    fn meet(&mut self, syn: &Incoming<'_>) {
        self.irs = syn.seq;
        self.received = 1;
        self.window = syn.window.into();
        self.mss = self.mss.min(syn.mss.unwrap_or(DEFAULT_MSS)).max(1);
        self.slow = INITIAL_WINDOW * u32::from(self.mss);
    }

    /// Returns true if it has ended and has nothing more to send.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over && !self.ack_due
    }

    /// Returns true if its end has been counted.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Over | Phase::Resetting)
    }

    /// The sequence numbers that are expected of the other side: its next, and what it may
    /// acknowledge.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> (u32, u32) {
        let expected = self.irs.wrapping_add(self.received as u32);
        (expected, self.iss.wrapping_add(self.high as u32))
    }

    /// Ends it; the other side is told of a failure unless the failure came from it.
    pub(super) fn finish(&mut self, end: End) {
        match end {
            End::Completed => self.phase = Phase::Over,
            End::Failed(Failure::Refused | Failure::Reset) => {
                self.ack_due = false;
                self.phase = Phase::Over;
            }
            End::Failed(_) => self.reset(),
        }
    }

    /// Gives it up; the other side is told, if it can know of it.
    pub(super) fn reset(&mut self) {
        self.ack_due = false;
        self.phase = if self.high > 0 { Phase::Resetting } else { Phase::Over };
    }

    /// A segment has come.
    pub(super) fn receive(&mut self, rules: &Rules, segment: &Incoming<'_>, tick: u64) -> Progress {
        let mut progress = Progress::default();
        if self.has_ended() {
            // A FIN that comes again shows that its acknowledgement was lost.
            self.ack_due |=
                self.phase == Phase::Over && self.peer_closed && segment.has(Flags::FIN);
            return progress;
        }
        let waited = self.una < self.nxt;
        let una = self.una;
        if self.received == 0 {
            if !self.receive_first(segment, &mut progress) {
                return progress;
            }
        } else if !self.receive_later(rules, segment, &mut progress) {
            return progress;
        }
        if self.phase == Phase::Open {
            self.advance(rules, tick, &mut progress);
            if !self.thinking {
                self.wait_on(rules, tick, waited && self.una == una);
            }
        }
        progress
    }

    /// The answer to a client's SYN. Says whether the connection is open now.
    fn receive_first(&mut self, segment: &Incoming<'_>, progress: &mut Progress) -> bool {
        let ours =
            segment.has(Flags::ACK) && self.high > 0 && segment.ack == self.iss.wrapping_add(1);
        if !ours {
            // Of a connection before this one, which is to be forgotten (RFC 9293, 3.10.7.3).
            progress.stale = segment.has(Flags::ACK) && !segment.has(Flags::RST);
            return false;
        }
        if segment.has(Flags::RST) {
            progress.ended = Some(End::Failed(Failure::Refused));
            return false;
        }
        if !segment.has(Flags::SYN) {
            return false;
        }
        self.meet(segment);
        (self.una, self.nxt, self.retries) = (1, 1, 0);
        self.ack_due = true;
        self.phase = Phase::Open;
        progress.opened = true;
        true
    }

    /// Takes a segment of a connection whose other side is known. Returns true if it counts.
    fn receive_later(
        &mut self,
        rules: &Rules,
        segment: &Incoming<'_>,
        progress: &mut Progress,
    ) -> bool {
        // By distances from the expected number, which are far below half of all numbers.
        let expected = self.irs.wrapping_add(self.received as u32);
        let at = self.received as i64 + i64::from(segment.seq.wrapping_sub(expected) as i32);
        let received = self.received as i64;
        if segment.has(Flags::RST) {
            if at == received {
                // A peer with all data that has forgotten us resets where it would acknowledge our
                // FIN.
                let done = self.closing && self.peer_closed && self.una + 1 == self.end();
                let end = if done { End::Completed } else { End::Failed(Failure::Reset) };
                progress.ended = Some(end);
            } else if at > received && at - received <= i64::from(WINDOW_MAX) {
                // A peer that means the reset repeats it (RFC 5961, 3.2).
                self.ack_due = true;
            }
            return false;
        }
        if segment.has(Flags::SYN) {
            if self.una == 0 && at == 0 {
                // Our answer was lost.
                self.nxt = 0;
            } else {
                self.ack_due = true;
            }
            return false;
        }
        if !segment.has(Flags::ACK) || !self.receive_ack(segment, progress) {
            return false;
        }
        self.receive_data(rules, segment, at, progress)
    }

    /// Takes an acknowledgement. Says whether the connection is open.
    fn receive_ack(&mut self, segment: &Incoming<'_>, progress: &mut Progress) -> bool {
        let first = self.iss.wrapping_add(self.una as u32);
        let acked = self.una as i64 + i64::from(segment.ack.wrapping_sub(first) as i32);
        let una = self.una as i64;
        if acked > self.high as i64 {
            // It acknowledges bytes that were never sent.
            progress.stale = self.una == 0;
            self.ack_due = self.una > 0;
            return false;
        }
        if acked > una {
            let before = self.data_acked();
            self.una = acked as u64;
            self.nxt = self.nxt.max(self.una);
            progress.acked = self.data_acked() - before;
            self.retries = 0;
            self.slow = (self.slow + u32::from(self.mss)).min(WINDOW_MAX);
            if self.phase == Phase::Opening {
                self.phase = Phase::Open;
                progress.opened = true;
            }
        }
        if acked >= una {
            self.window = segment.window.into();
            if self.window == 0 {
                // It is there and wants to be asked again.
                self.retries = 0;
            }
        }
        self.una > 0
    }

    /// Takes data and FIN of a segment that begins at `at`. Says whether they are right.
    fn receive_data(
        &mut self,
        rules: &Rules,
        segment: &Incoming<'_>,
        at: i64,
        progress: &mut Progress,
    ) -> bool {
        let (len, received) = (segment.payload.len() as i64, self.received as i64);
        let counts = len > 0 || segment.has(Flags::FIN);
        self.ack_due |= counts;
        progress.out_of_order = counts && at > received;
        if len > 0 && !self.peer_closed && (0..len).contains(&(received - at)) {
            let new = &segment.payload[(received - at) as usize..];
            if !self.take(rules, new) {
                progress.ended = Some(End::Failed(Failure::Mismatched));
                return false;
            }
            self.received += new.len() as u64;
            progress.taken = new.len() as u64;
        }
        if segment.has(Flags::FIN) && !self.peer_closed && at + len == self.received as i64 {
            self.received += 1;
            self.peer_closed = true;
        }
        true
    }

    /// Takes bytes in order; `false` when they are not those that were sent.
    fn take(&mut self, rules: &Rules, new: &[u8]) -> bool {
        let offset = self.received - 1;
        match rules.role {
            Role::Client(Client { given: Some(_), .. }) => true,
            Role::Client(_) => is_right(new, offset),
            Role::Server => self.heard.take(new, offset),
        }
    }

    /// Bytes of ours that have arrived.
    fn data_acked(&self) -> u64 {
        self.una.saturating_sub(1).min(self.allowed)
    }

    /// Bytes that have come.
    fn data_received(&self) -> u64 {
        self.received.saturating_sub(1 + u64::from(self.peer_closed))
    }

    /// The place behind our FIN, once it is known where that is.
    fn end(&self) -> u64 {
        self.allowed + 2
    }

    /// Decides what may be sent, from the data received.
    fn advance(&mut self, rules: &Rules, tick: u64, progress: &mut Progress) {
        match &rules.role {
            Role::Client(client) => {
                if self.begun == 0 {
                    self.begin(client);
                }
                if self.has_answers(client) && !self.closing && !self.thinking {
                    if client.think > 0 && !self.peer_closed {
                        self.thinking = true;
                        self.deadline = tick + client.think;
                    } else {
                        self.begin(client);
                    }
                }
                if self.peer_closed && !self.closing {
                    if self.begun < client.requests || !self.has_answers(client) {
                        progress.ended = Some(End::Failed(Failure::ClosedEarly));
                        return;
                    }
                    self.thinking = false;
                    self.closing = true;
                }
            }
            Role::Server => {
                if let HeaderState::Complete(ask) = self.heard {
                    let requests = self.data_received() / u64::from(ask.request);
                    let answers = requests.saturating_mul(ask.response.into());
                    self.allowed = answers.min(STREAM_MAX);
                }
                self.closing = self.peer_closed;
            }
        }
        if self.closing && self.peer_closed && self.una == self.end() {
            progress.ended = Some(End::Completed);
        }
    }

    /// Returns true if all requests begun have been answered.
    fn has_answers(&self, client: &Client) -> bool {
        let RequestHeader { request, response } = client.ask;
        let answered = match response {
            0 => self.data_acked() / u64::from(request),
            response => self.data_received() / u64::from(response),
        };
        answered >= self.begun
    }

    /// A client's next request, or the end.
    fn begin(&mut self, client: &Client) {
        if self.begun < client.requests {
            self.begun += 1;
            self.allowed = (self.allowed + u64::from(client.ask.request)).min(STREAM_MAX);
        } else {
            self.closing = true;
        }
    }

    /// Sets the deadline for the data or the acknowledgement that is due. With `as_before`, the
    /// timer of an acknowledgement goes on.
    fn wait_on(&mut self, rules: &Rules, tick: u64, as_before: bool) {
        if self.una == self.nxt && !self.is_blocked() {
            self.deadline = tick + rules.timeout;
        } else if !as_before {
            self.deadline = tick + (rules.retransmit << self.retries);
        }
    }

    /// Returns true if there is something to send, the window is closed, and nothing is on the way
    /// whose acknowledgement could open it.
    fn is_blocked(&self) -> bool {
        self.window == 0 && self.una == self.nxt && self.nxt <= self.allowed
    }

    /// The deadline has come. Says why it has failed, if it has; it may have something to send
    /// otherwise.
    pub(super) fn expire(&mut self, rules: &Rules, tick: u64) -> Option<Failure> {
        if self.has_ended() {
            return None;
        }
        if self.thinking {
            self.thinking = false;
            if let Role::Client(client) = &rules.role {
                self.begin(client);
            }
            self.wait_on(rules, tick, false);
            return None;
        }
        let waits = self.phase == Phase::Opening || self.una < self.nxt || self.is_blocked();
        if !waits || self.retries >= rules.retries {
            return Some(Failure::TimedOut);
        }
        self.retries += 1;
        self.nxt = self.una;
        self.slow = self.mss.into();
        self.probing = true;
        self.deadline = tick + (rules.retransmit << self.retries);
        None
    }

    /// The segment to be sent now, if there is one.
    pub(super) fn send(&mut self, rules: &Rules, tick: u64) -> Option<SegmentPlan> {
        if self.phase == Phase::Resetting {
            self.phase = Phase::Over;
            return Some(self.piece(self.high, Flags::RST, Data::None, 0));
        }
        let was_idle = self.una == self.nxt;
        let from = self.nxt;
        let mut piece = if self.phase == Phase::Opening {
            self.send_syn(rules)?
        } else if let Some(piece) = self.send_data(rules) {
            piece
        } else if self.ack_due {
            self.piece(self.nxt, Flags::ACK, Data::None, 0)
        } else {
            return None;
        };
        self.ack_due = false;
        if self.nxt > from {
            piece.again = from < self.high;
            self.high = self.high.max(self.nxt);
            if was_idle {
                self.deadline = tick + (rules.retransmit << self.retries);
            }
        }
        Some(piece)
    }

    fn send_syn(&mut self, rules: &Rules) -> Option<SegmentPlan> {
        if self.nxt > 0 {
            return None;
        }
        self.nxt = 1;
        Some(SegmentPlan { mss: Some(rules.mss), ..self.piece(0, Flags::SYN, Data::None, 0) })
    }

    fn send_data(&mut self, rules: &Rules) -> Option<SegmentPlan> {
        if self.phase != Phase::Open {
            return None;
        }
        let window = self.window.min(self.slow).max(self.probing.into());
        let room = (self.una + u64::from(window)).saturating_sub(self.nxt);
        let behind = self.allowed + 1;
        let left = behind.saturating_sub(self.nxt);
        let len = left.min(room).min(self.mss.into()) as u16;
        let at = self.nxt;
        let last = at + u64::from(len) == behind;
        let closes = self.closing && last;
        if len == 0 && !closes {
            return None;
        }
        self.probing = false;
        self.nxt += u64::from(len) + u64::from(closes);
        let mut flags = Flags::ACK;
        if len > 0 && last {
            flags = flags | Flags::PSH;
        }
        if closes {
            flags = flags | Flags::FIN;
        }
        let data = if len == 0 { Data::None } else { data_at(rules, at - 1) };
        Some(self.piece(at, flags, data, len))
    }

    /// A segment at a place of our stream; it acknowledges the data received, if there is any.
    fn piece(&self, at: u64, flags: Flags, data: Data, len: u16) -> SegmentPlan {
        let (ack, flags) = match self.received {
            0 => (0, flags),
            received => (self.irs.wrapping_add(received as u32), flags | Flags::ACK),
        };
        let seq = self.iss.wrapping_add(at as u32);
        SegmentPlan { seq, ack, flags, mss: None, data, len, again: false }
    }
}

/// The bytes of our stream from `offset` on.
fn data_at(rules: &Rules, offset: u64) -> Data {
    match rules.role {
        Role::Client(Client { given: Some(group), ask, .. }) => {
            Data::Given(offset % u64::from(ask.request), group)
        }
        Role::Client(Client { ask, .. }) => Data::Asking(offset, ask),
        Role::Server => Data::Plain(offset),
    }
}

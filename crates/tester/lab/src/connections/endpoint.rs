//! All connections of one side, client or server: their table and their timers.
//!
//! A segment costs one lookup. A connection's frames are made when there is room for them: it waits
//! in a queue of those that may have something, each in it once, so that they take turns segment by
//! segment and nothing is sent that the port has no place for.

use std::{collections::VecDeque, net::IpAddr};

use linerate_linux::machine::Memory;
use linerate_memory::MemoryError;
use linerate_packet::{
    MacAddr,
    build::{BuildError, Link, Tagging},
    tcp::Flags,
};
use linerate_tables::{
    exact::{Backing, Entry, Table},
    wheel::Wheel,
};

use super::{
    TICK,
    connection::{Connection, End, Progress, Role, Rules},
    group::{ConnectionSource, Group, Hosts, Timeouts},
    neighbour::{Message, Notice},
    report::ConnectionReport,
    segment::{Arrival, Data, Ends, Incoming, Key, Segment, read},
    tick,
};
use crate::Pattern;

/// Connections begun, and timers looked at, before frames are received again.
const BATCH: usize = 1024;
/// Most replies to segments without a connection that wait to be sent; further ones are dropped.
const REPLIES: usize = 1024;
/// Combinations of addresses and ports that are tried for one that is free.
const TRIES: usize = 64;
/// Connections that may wait for their last acknowledgement to be sent, besides those open.
const LEAVING: usize = 1024;
/// Bytes of a connection's entry in the index, the timers and the queue, at most.
const BESIDES: u64 = 64;

/// Connections that a server answers.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its addresses, which no host on the link may have.
    pub addresses: Vec<Hosts>,
    /// Ethernet address it says they are at.
    pub mac: MacAddr,
    /// Connections at a time, at most.
    pub concurrent: u64,
    /// The largest segment over IPv4, in bytes of data; over IPv6 it is 20 shorter, and behind tags
    /// by their length.
    pub mss: u16,
    /// Times after which a connection has failed.
    pub timeouts: Timeouts,
}

/// The reason why an endpoint cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The machine is short of memory.
    #[error(
        "{connections} connections at a time need {} MiB: at most half of the {} MiB of memory \
         available is taken; allow fewer",
        bytes >> 20,
        available >> 20
    )]
    TooMany {
        /// Most connections of the configuration.
        connections: u64,
        /// Bytes they need.
        bytes: u64,
        /// Bytes available.
        available: u64,
    },
    /// The tables could not be made.
    #[error("no table for connections")]
    Tables(#[from] MemoryError),
}

/// A frame that is to go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing(FrameContent);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameContent {
    Segment(Segment),
    Notice(Notice),
}

impl Outgoing {
    /// Its length, without FCS.
    pub fn frame_len(&self) -> usize {
        match &self.0 {
            FrameContent::Segment(segment) => segment.frame_len(),
            FrameContent::Notice(notice) => notice.frame_len(),
        }
    }
}

/// One side of many connections.
#[derive(Debug)]
pub struct Endpoint {
    connection_sources: Vec<ConnectionSource>,
    service: Option<Service>,
    /// The rules of each group, then the server's for IPv4 and IPv6.
    rules: Vec<Rules>,
    table: Table<Key, Connection>,
    wheel: Wheel,
    /// Connections that may have something to send.
    ready: VecDeque<u32>,
    replies: VecDeque<Outgoing>,
    /// Connections whose deadline has come.
    expired: Vec<u32>,
    /// Connections still to be begun by a client, or to end at a server; no end when `None`.
    left: Option<u64>,
    report: ConnectionReport,
}

impl Endpoint {
    /// A client that opens `count` connections of these groups in all, or never ends. Equal seeds
    /// open equal connections.
    ///
    /// # Errors
    ///
    /// When the machine has not the memory for its tables.
    pub fn client(
        groups: Vec<Group>,
        pattern: Pattern,
        seed: u64,
        count: Option<u64>,
        now: u64,
    ) -> Result<Endpoint, EndpointError> {
        let most = groups.iter().fold(0u64, |sum, group| sum.saturating_add(group.concurrent));
        let rules = (0..).zip(&groups).map(|(number, group)| group.rules(number)).collect();
        let seeded = groups.into_iter().enumerate();
        let connection_sources = seeded
            .map(|(at, group)| ConnectionSource::new(group, pattern, seed.wrapping_add(at as u64)))
            .collect();
        Endpoint::new(connection_sources, None, rules, most, count, now)
    }

    /// A server that ends after `count` connections have, or never.
    ///
    /// # Errors
    ///
    /// When the machine has not the memory for its tables.
    pub fn server(
        service: Service,
        count: Option<u64>,
        now: u64,
    ) -> Result<Endpoint, EndpointError> {
        let mss = [service.mss, service.mss.saturating_sub(20)];
        let rules = mss.map(|mss| service.timeouts.rules(Role::Server, mss.max(1)));
        let most = service.concurrent;
        Endpoint::new(Vec::new(), Some(service), rules.into(), most, count, now)
    }

    fn new(
        connection_sources: Vec<ConnectionSource>,
        service: Option<Service>,
        rules: Vec<Rules>,
        most: u64,
        left: Option<u64>,
        now: u64,
    ) -> Result<Endpoint, EndpointError> {
        check_memory(most, Memory::inspect().available)?;
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_add(LEAVING);
        let table: Table<Key, Connection> = Table::new(most, Backing::Ready)?;
        let most = table.limit();
        Ok(Endpoint {
            connection_sources,
            service,
            rules,
            wheel: Wheel::new(tick(now), most, Backing::Ready)?,
            table,
            ready: VecDeque::with_capacity(most),
            replies: VecDeque::with_capacity(REPLIES),
            expired: Vec::with_capacity(BATCH),
            left,
            report: ConnectionReport::default(),
        })
    }

    /// Counts and latencies of its connections.
    pub fn report(&self) -> &ConnectionReport {
        &self.report
    }

    /// Returns true if all connections it was to open or answer are over.
    pub fn is_finished(&self) -> bool {
        if !self.replies.is_empty() || !self.ready.is_empty() {
            return false;
        }
        if self.service.is_some() {
            return self.left.is_some_and(|left| self.report.counts.ended() >= left);
        }
        let silent = self.connection_sources.iter().all(ConnectionSource::is_silent);
        self.table.is_empty() && (self.left == Some(0) || silent)
    }

    /// A frame has come at a time.
    pub fn receive(&mut self, frame: &[u8], time: u64) {
        match read(frame) {
            Arrival::Segment(segment) => self.receive_segment(&segment, time),
            Arrival::Neighbour(message) => self.receive_notice(message),
            Arrival::Other => self.report.counts.foreign += 1,
            Arrival::Malformed => self.report.counts.malformed += 1,
        }
    }

    fn receive_segment(&mut self, segment: &Incoming<'_>, time: u64) {
        let Some(entry) = self.table.lookup(&segment.ends.key()) else {
            return self.receive_unmatched(segment, time);
        };
        let Some(connection) = self.table.get_mut(entry) else { return };
        self.report.counts.segments_received += 1;
        let rules = &self.rules[usize::from(connection.rules)];
        let progress = connection.receive(rules, segment, tick(time));
        self.account(entry, segment, &progress, time);
    }

    /// Counts the effects of a segment, and sees to the connection.
    fn account(&mut self, entry: Entry, segment: &Incoming<'_>, progress: &Progress, time: u64) {
        let report = &mut self.report;
        report.counts.bytes_sent += progress.acked;
        report.counts.bytes_received += progress.taken;
        report.counts.out_of_order += u64::from(progress.out_of_order);
        if progress.opened
            && let Some(connection) = self.table.get(entry)
        {
            report.counts.opened += 1;
            report.handshake.record(time - connection.began);
        }
        if progress.stale {
            self.deny(segment);
        }
        match progress.ended {
            Some(end) => self.finish(entry, end, time),
            None => self.follow(entry),
        }
    }

    /// A connection has ended. It is taken out of the table when it has said so.
    fn finish(&mut self, entry: Entry, end: End, time: u64) {
        let Some(connection) = self.table.get_mut(entry) else { return };
        connection.finish(end);
        let report = &mut self.report;
        match end {
            End::Completed => {
                report.counts.completed += 1;
                report.whole.record(time - connection.began);
            }
            End::Failed(failure) => report.counts.fail(failure),
        }
        report.counts.open -= 1;
        if let Some(source) = self.connection_sources.get_mut(usize::from(connection.rules)) {
            source.open -= 1;
        }
        self.follow(entry);
    }

    /// Has a connection looked at for something to send, and at its deadline.
    fn follow(&mut self, entry: Entry) {
        let Some(connection) = self.table.get_mut(entry) else { return };
        let number = entry.number() as u32;
        if !connection.queued {
            connection.queued = true;
            self.ready.push_back(number);
        }
        if connection.deadline < connection.scheduled {
            connection.scheduled = connection.deadline;
            self.wheel.schedule(number, connection.deadline);
        }
    }

    /// A segment of no connection that is known.
    fn receive_unmatched(&mut self, segment: &Incoming<'_>, time: u64) {
        if !self.is_own(segment.ends.local) {
            self.report.counts.foreign += 1;
            return;
        }
        self.report.counts.segments_received += 1;
        let opens = segment.has(Flags::SYN)
            && !segment.has(Flags::ACK)
            && !segment.has(Flags::RST)
            && self.service.is_some();
        if opens {
            self.accept(segment, time);
            return;
        }
        self.report.counts.strays += 1;
        // Our last acknowledgement was lost: a connection is forgotten when that has been sent.
        let ends = segment.has(Flags::FIN) && segment.has(Flags::ACK) && !segment.has(Flags::SYN);
        if ends && segment.payload.is_empty() && !segment.has(Flags::RST) {
            let ack = segment.seq.wrapping_add(1);
            self.reply(segment, segment.ack, ack, Flags::ACK);
        } else {
            self.deny(segment);
        }
    }

    /// Tells the other side that there is no such connection (RFC 9293, 3.10.7.1).
    fn deny(&mut self, segment: &Incoming<'_>) {
        if segment.has(Flags::RST) {
            return;
        }
        if segment.has(Flags::ACK) {
            self.reply(segment, segment.ack, 0, Flags::RST);
        } else {
            let ack = segment.seq.wrapping_add(segment.span());
            self.reply(segment, 0, ack, Flags::RST | Flags::ACK);
        }
    }

    fn reply(&mut self, to: &Incoming<'_>, seq: u32, ack: u32, flags: Flags) {
        let (link, ends) = (to.link, to.ends);
        let segment = Segment { link, ends, seq, ack, flags, mss: None, data: Data::None, len: 0 };
        self.queue_reply(FrameContent::Segment(segment));
    }

    /// Queues a reply; one without room is lost, as it may be on any link.
    fn queue_reply(&mut self, reply: FrameContent) {
        if self.replies.len() < REPLIES {
            self.replies.push_back(Outgoing(reply));
        }
    }

    /// Begins a connection with the sender of a SYN.
    fn accept(&mut self, syn: &Incoming<'_>, time: u64) {
        let Some(service) = &self.service else { return };
        if self.report.counts.open >= service.concurrent {
            // The client sends its SYN again.
            self.report.counts.listen_overflows += 1;
            return;
        }
        let rules = u16::from(syn.ends.local.is_ipv6());
        let key = syn.ends.key();
        let first = first_number(&key, time);
        let of = &self.rules[usize::from(rules)];
        let connection = Connection::server(rules, of, syn, first, time);
        match self.table.insert(key, connection) {
            Ok((entry, _)) => {
                self.report.counts.begun += 1;
                self.report.counts.open += 1;
                self.follow(entry);
            }
            Err(_) => self.report.counts.listen_overflows += 1,
        }
    }

    /// Returns true if an address is one of this endpoint's.
    fn is_own(&self, address: IpAddr) -> bool {
        let served = self.service.iter().flat_map(|service| &service.addresses);
        let sources = self.connection_sources.iter().map(|source| &source.group().sources);
        served.chain(sources).any(|hosts| hosts.contain(address))
    }

    /// The Ethernet address that one of this endpoint's addresses is at.
    fn mac_of(&self, address: IpAddr) -> Option<MacAddr> {
        let serves =
            |service: &&Service| service.addresses.iter().any(|hosts| hosts.contain(address));
        let opens = |source: &&ConnectionSource| source.group().sources.contain(address);
        let served = self.service.as_ref().filter(serves).map(|service| service.mac);
        served
            .or_else(|| self.connection_sources.iter().find(opens).map(|source| source.group().mac))
    }

    fn receive_notice(&mut self, message: Message) {
        match message {
            Message::Question { target, asker, tags } => {
                let Some(mac) = self.mac_of(target) else {
                    self.report.counts.foreign += 1;
                    return;
                };
                self.answer(mac, target, asker, tags);
            }
            Message::Answer { address, mac } => {
                self.connection_sources.iter_mut().for_each(|source| source.learn(address, mac));
            }
        }
    }

    fn answer(&mut self, mac: MacAddr, target: IpAddr, asker: (MacAddr, IpAddr), tags: Tagging) {
        if let Some(notice) = Notice::answer(mac, target, asker, tags) {
            self.queue_reply(FrameContent::Notice(notice));
        }
    }

    /// Looks at the timers that have run out, and begins the connections that are due.
    pub fn advance(&mut self, time: u64) {
        self.expire(time);
        if self.left == Some(0) || self.service.is_some() {
            return;
        }
        for number in 0..self.connection_sources.len() {
            self.open(number, time);
        }
    }

    fn expire(&mut self, time: u64) {
        let Endpoint { wheel, table, expired, .. } = self;
        wheel.advance(tick(time), BATCH, |number, now| {
            let entry = table.entry(number as usize)?;
            let connection = table.get_mut(entry)?;
            if connection.deadline > now {
                connection.scheduled = connection.deadline;
                return Some(connection.deadline);
            }
            connection.scheduled = u64::MAX;
            expired.push(number);
            None
        });
        while let Some(number) = self.expired.pop() {
            let Some(entry) = self.table.entry(number as usize) else { continue };
            let Some(connection) = self.table.get_mut(entry) else { continue };
            let rules = &self.rules[usize::from(connection.rules)];
            if connection.queued {
                // Its own segments could not be sent: the other side is not late.
                connection.deadline = tick(time) + rules.retransmit;
                self.follow(entry);
                continue;
            }
            match connection.expire(rules, tick(time)) {
                Some(failure) => self.finish(entry, End::Failed(failure), time),
                None => self.follow(entry),
            }
        }
    }

    /// Begins the connections of a group that are due.
    fn open(&mut self, number: usize, time: u64) {
        let source = &mut self.connection_sources[number];
        match source.ask(time) {
            Ok(Some(question)) => self.queue_reply(FrameContent::Notice(question)),
            Ok(None) => {}
            Err(silent) => self.report.unreachable.push(silent),
        }
        let source = &mut self.connection_sources[number];
        let Some(link) = source.link() else { return };
        let left = self.left.unwrap_or(u64::MAX);
        let due = source.due(time, left, BATCH as u64);
        let begun = (0..due.begin).take_while(|_| self.begin(number, link, time)).count() as u64;
        let counts = &mut self.report.counts;
        counts.due += due.due.unwrap_or(begun);
        if due.due.is_some() {
            counts.skipped += due.skipped + due.begin - begun;
        }
    }

    /// Begins a connection of a group; `false` when there is no room for one.
    fn begin(&mut self, number: usize, link: Link, time: u64) -> bool {
        let Some(key) = self.free_ends(number) else { return false };
        let of = &self.rules[number];
        let first = first_number(&key, time);
        let connection = Connection::client(number as u16, of, link, first, time);
        let Ok((entry, _)) = self.table.insert(key, connection) else { return false };
        self.connection_sources[number].open += 1;
        self.report.counts.begun += 1;
        self.report.counts.open += 1;
        self.left = self.left.map(|left| left - 1);
        self.follow(entry);
        true
    }

    /// The next ends of a group that no connection has.
    fn free_ends(&mut self, number: usize) -> Option<Key> {
        let source = &mut self.connection_sources[number];
        let mut keys = (0..TRIES).map(|_| source.next_ends().key());
        keys.find(|key| self.table.lookup(key).is_none())
    }

    /// The next frame to be sent, if there is one. A frame that the caller does not send is lost,
    /// as it may be on any link.
    pub fn next(&mut self, time: u64) -> Option<Outgoing> {
        if let Some(reply) = self.replies.pop_front() {
            self.report.counts.segments_sent +=
                u64::from(matches!(reply.0, FrameContent::Segment(_)));
            return Some(reply);
        }
        while let Some(number) = self.ready.pop_front() {
            let Some(entry) = self.table.entry(number as usize) else { continue };
            let Some(&key) = self.table.key(entry) else { continue };
            let Some(connection) = self.table.get_mut(entry) else { continue };
            if !connection.queued {
                continue;
            }
            connection.queued = false;
            let rules = &self.rules[usize::from(connection.rules)];
            let piece = connection.send(rules, tick(time));
            let (link, over) = (connection.link, connection.is_over());
            if over {
                self.wheel.cancel(number);
                self.table.remove_entry(entry);
            } else if piece.is_some() {
                // There may be more.
                self.follow(entry);
            }
            let Some(piece) = piece else { continue };
            self.report.counts.segments_sent += 1;
            self.report.counts.retransmitted += u64::from(piece.again);
            return Some(Outgoing(FrameContent::Segment(Segment {
                link,
                ends: Ends::from_key(key),
                seq: piece.seq,
                ack: piece.ack,
                flags: piece.flags,
                mss: piece.mss,
                data: piece.data,
                len: piece.len,
            })));
        }
        None
    }

    /// Writes a frame, which fills `frame`.
    ///
    /// # Errors
    ///
    /// When the frame is not as long as [`Outgoing::frame_len`] says.
    pub fn write(&self, outgoing: &Outgoing, frame: &mut [u8]) -> Result<(), BuildError> {
        match &outgoing.0 {
            FrameContent::Segment(segment) => segment.write(frame, self.given(segment.data)),
            FrameContent::Notice(notice) => notice.write(frame),
        }
    }

    /// The bytes that were given for a segment.
    fn given(&self, data: Data) -> &[u8] {
        match data {
            Data::Given(_, group) => &self.connection_sources[usize::from(group)].group().payload,
            _ => &[],
        }
    }

    /// Time of the next thing to be done without a frame, if there is one.
    pub fn wake(&self, time: u64) -> Option<u64> {
        if !self.replies.is_empty() || !self.ready.is_empty() {
            return Some(time);
        }
        let timer = self.wheel.next().map(|tick| tick.saturating_mul(TICK));
        let connection_sources = self.connection_sources.iter().filter(|_| self.left != Some(0));
        connection_sources.filter_map(|source| source.wake(time)).chain(timer).min()
    }

    /// Gives up all connections that are open; the frames of [`Endpoint::next`] tell the other
    /// side.
    pub fn abort(&mut self) {
        self.left = Some(0);
        let open: Vec<Entry> = self.table.iter().map(|(entry, ..)| entry).collect();
        for entry in open {
            let Some(connection) = self.table.get_mut(entry) else { continue };
            if !connection.has_ended() {
                connection.reset();
                self.report.counts.aborted += 1;
                self.report.counts.open -= 1;
            }
            self.follow(entry);
        }
    }
}

/// Refuses connections that need over half of the memory: the kernel would kill a process.
fn check_memory(connections: u64, available: Option<u64>) -> Result<(), EndpointError> {
    let each = (size_of::<Key>() + size_of::<Connection>()) as u64 + BESIDES;
    let bytes = connections.saturating_mul(each);
    match available {
        Some(available) if bytes > available / 2 => {
            Err(EndpointError::TooMany { connections, bytes, available })
        }
        _ => Ok(()),
    }
}

/// The first sequence number of a connection: it goes up with the time, so that one with the same
/// ends that the other side still remembers is known to be older (RFC 6528).
fn first_number(key: &Key, time: u64) -> u32 {
    let ends = key.iter().fold(0u64, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ((time >> 8) as u32).wrapping_add((ends >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_connections_than_memory_are_refused() {
        assert!(check_memory(1_000_000, Some(1 << 30)).is_ok());
        assert!(check_memory(u64::MAX, None).is_ok());
        for connections in [10_000_000, u64::MAX] {
            let error = check_memory(connections, Some(1 << 30)).unwrap_err().to_string();
            assert!(error.contains("of the 1024 MiB of memory available"), "{error}");
        }
    }
}

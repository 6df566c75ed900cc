//! `IPReassembler`: reassembles packets from fragments.
//!
//! RFC 791 section 3.2 and RFC 815. A packet is reassembled in one buffer; bytes that arrive twice
//! must be the same both times (RFC 5722 for IPv6, and RFC 1858 why), so that no filter in front
//! can be deceived about the whole packet.

use std::collections::{HashMap, VecDeque};

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError,
    HandlerResult, NoBuffer, Rank, Seconds,
};
use linerate_memory::{Frame, Meta, Slot};

use super::{
    FAMILY,
    reassembly::{Contradiction, Datagram, Key},
};
use linerate_element_support::{
    annotation_byte::Short,
    ip::{
        FRAGMENT, FRAGMENT_OFFSET, LEAST, MORE_FRAGMENTS, NoHeader, TOTAL_LENGTH, fill_checksum,
        get16, header_length, ip, put16,
    },
    mac_header,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// bad fragment
    Bad,
    /// fragments that contradict each other
    Overlap,
    /// not complete in time
    TimedOut,
    /// too many fragments
    TooMany,
    /// longer than a buffer
    TooLong,
}

/// Default time to wait for the rest of a packet, in seconds.
const PATIENCE: u32 = 30;
/// Longest time between searches for expired packets, in seconds.
const REAP: u64 = 10;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
const TIMER: u32 = 0;
/// Packets no longer under way that the order may hold.
const SLACK: usize = 1024;
/// Memory of a packet besides its bytes.
const OVERHEAD: usize = 40;
/// Packets under way of any size, at most.
const DATAGRAMS: usize = 65_536;

pub(super) const CLASS: Class = Class {
    name: "IPReassembler",
    family: FAMILY,
    summary: "puts packets together from their fragments",
    description: "Fragments are held until their packet is complete, which then leaves by output \
        0 with what was in front of its first fragment; other packets pass. The IP header must \
        be known and sound (`CheckIPHeader`).\n\n\
        When no fragment of a packet has arrived for `TIMEOUT` it is given up, 10 seconds later \
        at most, or another `TIMEOUT` when that is less. When those held \
        need more than `HIMEM` bytes, the oldest are given up until they need three quarters of \
        that. What there is of a packet that is given up leaves by output 1, for an \
        `ICMPError(.., timeexceeded, reassembly)`, where it is used, with zeros for what is \
        missing; unless its first fragment is.\n\n\
        Fragments that overlap with others and differ from them make their whole packet be \
        dropped. A packet longer than a buffer cannot be put together.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    // Several may be given up for the room that one takes.
    multiplies: |plan, at, _| match plan.elements[at].targets.len() {
        1 => 1,
        _ => usize::MAX,
    },
    drops: Reason::REASONS,
    cost: "Reads the header of each packet. Fragments are looked up by addresses, protocol and \
        identification, and copied.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_len, DATA \"1.0.0.1 100\") \
        -> CheckIPHeader -> IPFragmenter(68) -> IPReassembler -> Discard;",
    ..Class::for_element::<IpReassembler>()
};

#[derive(Arguments)]
#[arguments(handlers = [
    Handler::read("dump", "what has arrived, and which parts of packets under way"),
    Handler::count("held", "packets under way"),
    Handler::count("memory", "bytes they need"),
])]
struct IpReassembler {
    /// most bytes that fragments held may need
    #[arg(name = "HIMEM", keyword, kind = "bytes", default = 262_144, shown = "262144")]
    most: u32,
    /// how long the rest of a packet is waited for
    #[arg(name = "TIMEOUT", keyword, kind = "seconds", shown = "30", with = patience)]
    patience: u64,
    /// gets the length of the longest fragment
    #[arg(name = "MAX_MTU_ANNO", keyword, kind = "annotation", shown = "")]
    annotation: Option<Short>,
    table: HashMap<Key, Datagram>,
    /// In the order of their first fragments; those gone are skipped.
    order: VecDeque<(Key, u64)>,
    memory: usize,
    /// Tells datagrams with the same key, one after the other, apart.
    number: u64,
    reap_at: u64,
    seen: u64,
    good: u64,
    failed: u64,
    bad: u64,
    done: Vec<Slot>,
    /// Rank of the current fragment.
    rank: Rank,
}

/// Seconds, at least one.
fn patience(make: &mut ElementBuilder<'_>, name: &str) -> u64 {
    let Seconds::<0>(patience) = make.or(name, Seconds(PATIENCE));
    u64::from(patience.max(1))
}

impl IpReassembler {
    /// Returns the time between searches for expired packets, in seconds.
    fn interval(&self) -> u64 {
        self.patience.min(REAP)
    }

    /// Takes a fragment, at a time of day in nanoseconds. A completed packet is put into `done`.
    fn fragment(&mut self, cx: &mut Context, slot: Slot, now: u64) {
        self.seen += 1;
        self.rank = cx.rank_of(&slot);
        let meta = *cx.pool.arena().meta(&slot);
        let time = if meta.timestamp == 0 { now } else { meta.timestamp };
        let seconds = time / 1_000_000_000;
        if seconds >= self.reap_at {
            let patience = self.patience;
            self.reap(cx, |datagram| datagram.time.saturating_add(patience) < seconds);
            self.reap_at = seconds + self.interval();
        }
        if self.memory > self.most as usize || self.table.len() >= DATAGRAMS {
            self.make_room(cx, seconds);
        }
        let arena = cx.pool.arena();
        let Some(packet) = ip(arena, &slot) else {
            return cx.drop_packet(slot, Reason::NoHeader);
        };
        let header = header_length(packet);
        let flags = get16(packet, FRAGMENT);
        let more = flags & MORE_FRAGMENTS != 0;
        let from = usize::from(flags & FRAGMENT_OFFSET) * 8;
        let data = packet.get(header..usize::from(get16(packet, TOTAL_LENGTH)));
        let data = data.filter(|data| {
            let to = from + data.len();
            !data.is_empty() && to + LEAST <= 0xffff && (!more || to.is_multiple_of(8))
        });
        let Some(data) = data else {
            self.bad += 1;
            return cx.drop_packet(slot, Reason::Bad);
        };
        if header + from + data.len() > arena.room() {
            return cx.drop_packet(slot, Reason::TooLong);
        }
        // Packets that have been put together are still in it.
        if self.order.len() > 2 * self.table.len() + SLACK {
            let table = &self.table;
            let held = |(key, number): &(Key, u64)| {
                table.get(key).is_some_and(|found| found.number == *number)
            };
            self.order.retain(held);
        }
        let key = Key::new(packet);
        let number = &mut self.number;
        let order = &mut self.order;
        let datagram = self.table.entry(key).or_insert_with(|| {
            *number += 1;
            order.push_back((key, *number));
            Datagram::new(*number, meta, seconds)
        });
        let before = cost(datagram);
        if datagram.data.is_empty() {
            self.memory += before;
        }
        if from == 0 {
            let start = arena.network(&slot);
            datagram.front = arena.packet(&slot)[..start + header].to_vec();
            datagram.start = start;
            datagram.meta = meta;
            mac_header::copied(&mut datagram.meta, slot.headroom(), 0);
            datagram.time = seconds;
        }
        datagram.heard = cx.clock.steady();
        datagram.longest = datagram.longest.max((header + data.len()) as u16);
        let whole = datagram.add(from, data, !more);
        self.memory = (self.memory + cost(datagram)).saturating_sub(before);
        cx.pool.give_one(slot);
        match whole {
            Ok(false) => {}
            Ok(true) => {
                if let Some(datagram) = self.remove(key) {
                    self.good += 1;
                    if let Some(made) = self.build(cx, &datagram, time) {
                        cx.take_place(&made, self.rank);
                        self.done.push(made);
                    }
                }
            }
            Err(Contradiction) => {
                self.remove(key);
                self.bad += 1;
                cx.count_drops(Reason::Overlap, 1);
            }
        }
        if !self.table.is_empty() && cx.timer(TIMER).is_none() {
            cx.set_timer(TIMER, cx.steady() + self.interval() * SECOND);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Datagram> {
        let datagram = self.table.remove(&key)?;
        self.memory = self.memory.saturating_sub(cost(&datagram));
        Some(datagram)
    }

    /// Builds the packet, as far as it has come.
    fn build(&self, cx: &mut Context, datagram: &Datagram, time: u64) -> Option<Slot> {
        let (front, data) = (&datagram.front, &datagram.data);
        let Some(mut slot) = cx.pool.take_one(front.len() + data.len()) else {
            cx.count_drops(Reason::NoBuffer, 1);
            return None;
        };
        let arena = cx.pool.arena();
        if let Some(bytes) = arena.packet_mut(&mut slot) {
            bytes[..front.len()].copy_from_slice(front);
            bytes[front.len()..].copy_from_slice(data);
            let ip = &mut bytes[datagram.start..];
            let flags = get16(ip, FRAGMENT) & !(MORE_FRAGMENTS | FRAGMENT_OFFSET);
            put16(ip, FRAGMENT, flags);
            let length = ip.len() as u16;
            put16(ip, TOTAL_LENGTH, length);
            fill_checksum(ip);
        }
        if let Some(mut made) = arena.writable(&mut slot) {
            *made.meta_mut() = Meta { timestamp: time, ..datagram.meta };
            let headroom = made.headroom();
            mac_header::copied(made.meta_mut(), 0, headroom);
            made.mark_headers(datagram.start, front.len());
            let meta = made.meta_mut();
            if let Some(annotation) = self.annotation {
                annotation.set(meta, datagram.longest.to_ne_bytes());
            }
        }
        Some(slot)
    }

    /// Gives up a packet.
    fn give_up(&mut self, cx: &mut Context, key: Key, reason: Reason) {
        let Some(datagram) = self.remove(key) else { return };
        self.failed += 1;
        // No error is sent for a packet whose first fragment is missing: RFC 1122 section 3.3.2.
        if cx.out.count() > 1 && !datagram.front.is_empty() {
            if let Some(slot) = self.build(cx, &datagram, datagram.meta.timestamp) {
                cx.put_before(&slot, self.rank);
                cx.out.emit(1, slot);
            }
        } else {
            cx.count_drops(reason, 1);
        }
    }

    /// Gives up packets that were waited for too long.
    #[cold]
    fn reap(&mut self, cx: &mut Context, late: impl Fn(&Datagram) -> bool) {
        let mut order = std::mem::take(&mut self.order);
        order.retain(|(key, number)| {
            let Some(datagram) = self.table.get(key).filter(|found| found.number == *number) else {
                return false;
            };
            let late = late(datagram);
            if late {
                self.give_up(cx, *key, Reason::TimedOut);
            }
            !late
        });
        self.order = order;
    }

    /// Gives up packets, the oldest first, until a quarter of the memory is
    /// free.
    #[cold]
    fn make_room(&mut self, cx: &mut Context, now: u64) {
        let enough = self.most as usize / 4 * 3;
        for patience in [10, 5] {
            if self.memory > enough {
                self.reap(cx, |datagram| datagram.time.saturating_add(patience) < now);
            }
        }
        while self.memory > enough || self.table.len() >= DATAGRAMS {
            let Some((key, number)) = self.order.pop_front() else { return };
            if self.table.get(&key).is_some_and(|datagram| datagram.number == number) {
                self.give_up(cx, key, Reason::TooMany);
            }
        }
    }
}

/// Returns the memory that a packet under way is charged.
fn cost(datagram: &Datagram) -> usize {
    OVERHEAD + datagram.data.len()
}

impl Element for IpReassembler {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        let is_fragment = |slot: &Slot| {
            let packet = ip(arena, slot);
            packet.is_none_or(|ip| get16(ip, FRAGMENT) & (FRAGMENT_OFFSET | MORE_FRAGMENTS) != 0)
        };
        if !frame.slots().iter().any(is_fragment) {
            return;
        }
        let now = cx.now();
        let mut slots = std::mem::take(&mut self.done);
        frame.drain_front(frame.len(), |slot| slots.push(slot));
        for slot in slots.drain(..) {
            let arena = cx.pool.arena();
            let packet = ip(arena, &slot);
            let whole = packet
                .is_some_and(|ip| get16(ip, FRAGMENT) & (FRAGMENT_OFFSET | MORE_FRAGMENTS) == 0);
            if whole {
                self.done.push(slot);
            } else {
                self.fragment(cx, slot, now);
            }
        }
        self.rank = Rank::default();
        std::mem::swap(&mut slots, &mut self.done);
        for slot in slots.drain(..) {
            if let Err(slot) = frame.push(slot) {
                cx.out.emit(0, slot);
            }
        }
        if self.done.is_empty() {
            self.done = slots;
        }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        let now = cx.steady();
        let patience = self.patience * SECOND;
        self.reap(cx, |datagram| datagram.heard.saturating_add(patience) < now);
        if !self.table.is_empty() {
            cx.set_timer(TIMER, now + self.interval() * SECOND);
        }
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<IpReassembler>() {
            self.table = std::mem::take(&mut old.table);
            self.order = std::mem::take(&mut old.order);
            self.memory = std::mem::take(&mut old.memory);
            self.number = old.number;
            (self.seen, self.good) = (old.seen, old.good);
            (self.failed, self.bad) = (old.failed, old.bad);
            if !self.table.is_empty() {
                cx.set_timer(TIMER, cx.steady() + self.interval() * SECOND);
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "dump" => Ok(self.dump()),
            "held" => Ok(self.table.len().to_string()),
            "memory" => Ok(self.memory.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

impl IpReassembler {
    fn dump(&self) -> String {
        let mut text = format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\n\
             bad fragments seen:  {}\ncached chunk data:\n",
            self.seen, self.good, self.failed, self.bad
        );
        for (key, number) in &self.order {
            let Some(datagram) = self.table.get(key).filter(|found| found.number == *number) else {
                continue;
            };
            let [source, destination] = key.addresses();
            let port = |at| get16(&datagram.data, at);
            text += &format!(" ({source}, {}, {destination}, {}) {}", port(0), port(2), key.ident);
            for (from, to) in datagram.ranges.iter() {
                text += &format!(" ({from},{to})");
            }
            text.push('\n');
        }
        text
    }
}

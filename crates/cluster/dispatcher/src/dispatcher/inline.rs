//! Inline consumers: packets wait for a verdict, in order, with head-of-line blocking.
//!
//! They wait in the order they came in and leave in that order, each when its verdict is known: the
//! consumer's answer, its answer for the flow before, or, at the time limit, the configured one. So
//! the oldest without an answer holds up those behind it, for its time at most.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use linerate_memory::{
    Arena, Frame, HeaderStart, PoolCache, Slot,
    shared::{Access, Server, WORDS},
};
use linerate_packet::flow::{FlowKey, VlanRule, extract};

use super::link::{Answer, Link};
use crate::figures::Figures;

/// Configuration of an inline consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlineConfig {
    /// Time limit of an answer.
    pub limit: Duration,
    /// Whether packets without an answer pass.
    pub open: bool,
    /// Most packets that wait.
    pub most: usize,
    /// Most flows that are remembered.
    pub flows: usize,
    /// Least time that a flow without packets is remembered.
    pub flow_time: Duration,
}

/// Packets that were dropped, by why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DropCounts {
    /// The consumer has said so, of it or of its flow.
    pub denied: usize,
    /// No consumer was attached, or it went.
    pub absent: usize,
    /// The consumer does not answer: the time was over, or it has let another packet's run out and
    /// has been silent since.
    pub silent: usize,
    /// There was no room for more.
    pub full: usize,
}

/// Result of draining a queue of packets that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DrainResult {
    /// Packets that were dropped.
    pub refused: DropCounts,
    /// Whether there are more that can leave.
    pub more: bool,
    /// When the first of those that wait has waited for long enough.
    pub due: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DropReason {
    Denied,
    Absent,
    Silent,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketState {
    Asked,
    Passes,
    Dropped(DropReason),
}

#[derive(Debug)]
struct Waiting {
    /// The packet to send on without the consumer; `None` where the consumer has the only one.
    slot: Option<Slot>,
    state: PacketState,
    /// The buffer that the consumer was lent.
    index: u32,
    due: Instant,
    key: Option<FlowKey>,
}

/// The packets of one element.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The number of the first: they are counted from 0 as they come.
    first: u64,
    /// Number of packets at the front that have their verdict.
    ready: usize,
}

impl Queue {
    fn advance(&mut self) {
        while self.waiting.get(self.ready).is_some_and(|packet| packet.state != PacketState::Asked)
        {
            self.ready += 1;
        }
    }
}

/// Answer that is expected of a consumer about a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// An answer for the packet of that number in a queue.
    For(usize, u64),
    /// An answer that is of no use any more.
    Late,
}

/// All packets that wait for one consumer.
#[derive(Debug)]
pub(crate) struct Inline {
    pub(super) terms: InlineConfig,
    queues: Vec<Option<Queue>>,
    /// By buffer.
    asked: Vec<Asked>,
    flows: Flows,
    /// Whether it has let a packet's time run out and said nothing since: it is not asked until it does.
    stalled: bool,
    /// Packets to be lent.
    out: Frame,
}

impl Inline {
    pub(super) fn new(terms: InlineConfig) -> Inline {
        Inline {
            terms,
            queues: Vec::new(),
            asked: Vec::new(),
            flows: Flows::default(),
            stalled: false,
            out: Frame::new(linerate_memory::FRAME_LIMIT),
        }
    }

    /// A queue for one more element.
    pub(crate) fn join(&mut self) -> usize {
        let free = self.queues.iter().position(Option::is_none);
        let at = free.unwrap_or(self.queues.len());
        if at == self.queues.len() {
            self.queues.push(None);
        }
        self.queues[at] = Some(Queue::default());
        at
    }

    /// The element of a queue ends.
    pub(super) fn leave(&mut self, at: usize, pool: &mut PoolCache) {
        let Some(queue) = self.queues[at].take() else { return };
        for packet in queue.waiting {
            if packet.state == PacketState::Asked {
                self.asked[packet.index as usize] = Asked::Late;
            }
            packet.slot.into_iter().for_each(|slot| pool.give_one(slot));
        }
    }

    pub(crate) fn waiting(&self, at: usize) -> usize {
        self.queues[at].as_ref().map_or(0, |queue| queue.waiting.len())
    }

    /// Forgets all flows.
    pub(crate) fn forget(&mut self) {
        self.flows = Flows::default();
    }

    pub(crate) fn flows(&self) -> usize {
        self.flows.young.len() + self.flows.old.len()
    }

    /// Starts with a consumer that has attached.
    pub(super) fn begin(&mut self) {
        self.stalled = false;
        self.asked.clear();
    }

    /// Decides packets without an answer, after the consumer went.
    pub(super) fn abandon(&mut self, figures: &mut Figures) {
        for queue in self.queues.iter_mut().flatten() {
            for packet in &mut queue.waiting {
                if packet.state == PacketState::Asked {
                    decide(&self.terms, packet, DropReason::Absent);
                    figures.unanswered += 1;
                    self.asked[packet.index as usize] = Asked::Late;
                }
            }
            queue.advance();
        }
    }

    /// Queues packets, and asks the consumer about those without a known verdict. Packets without
    /// room stay in the frame.
    pub(super) fn ask(
        &mut self,
        at: usize,
        mut link: Option<&mut Link>,
        server: &mut Server,
        pool: &mut PoolCache,
        frame: &mut Frame,
        figures: &mut Figures,
    ) {
        let now = Instant::now();
        let due = now + self.terms.limit;
        let mut room = match &mut link {
            Some(link) if !self.stalled => link.room(server, frame.len()),
            _ => 0,
        };
        let Inline { terms, queues, asked, flows, stalled, out } = self;
        let Some(queue) = &mut queues[at] else { return };
        let count = frame.len().min(terms.most.saturating_sub(queue.waiting.len()));
        frame.drain_front(count, |slot| {
            let arena = pool.arena();
            let key = (terms.flows > 0)
                .then(|| extract(arena.packet(&slot), VlanRule::Outer).ok())
                .flatten()
                .map(|flow| flow.key.symmetric());
            let known = key.as_ref().and_then(|key| flows.get(key));
            let (state, index, slot) = match (known, &mut link) {
                (Some(true), _) => (PacketState::Passes, 0, Some(slot)),
                (Some(false), _) => (PacketState::Dropped(DropReason::Denied), 0, Some(slot)),
                (None, Some(link)) if room > 0 => {
                    let number = queue.first + queue.waiting.len() as u64;
                    match prepare(link, server, pool, slot, terms.open, asked, figures) {
                        Ok(Prepared { index, lent, kept }) => {
                            room -= 1;
                            *expected(asked, index) = Asked::For(at, number);
                            let full = lent.and_then(|slot| out.push(slot).err());
                            debug_assert!(full.is_none(), "a frame holds a frame");
                            (PacketState::Asked, index, kept)
                        }
                        Err(slot) => (unasked(terms, DropReason::Full), 0, Some(slot)),
                    }
                }
                (None, None) => (unasked(terms, DropReason::Absent), 0, Some(slot)),
                (None, Some(_)) if *stalled => (unasked(terms, DropReason::Silent), 0, Some(slot)),
                (None, Some(_)) => (unasked(terms, DropReason::Full), 0, Some(slot)),
            };
            match (known, state) {
                (None, PacketState::Asked) => {}
                (None, _) => figures.unasked += 1,
                (Some(true), _) => figures.passed += 1,
                (Some(false), _) => figures.denied += 1,
            }
            queue.waiting.push_back(Waiting { slot, state, index, due, key });
        });
        figures.unasked += frame.len() as u64;
        if let Some(link) = link {
            hand_over(link, server, pool, out);
        }
        queue.advance();
        // Those that can leave have half of the queue.
        if terms.open {
            while queue.waiting.len() - queue.ready > terms.most / 2 {
                let packet = &mut queue.waiting[queue.ready];
                decide(terms, packet, DropReason::Full);
                figures.unanswered += 1;
                asked[packet.index as usize] = Asked::Late;
                queue.advance();
            }
        }
    }

    /// Takes the consumer's answers. Returns true if there may be more.
    pub(super) fn receive_answers(
        &mut self,
        link: &mut Link,
        server: &mut Server,
        pool: &mut PoolCache,
        figures: &mut Figures,
    ) -> bool {
        let Inline { terms, queues, asked, flows, stalled, .. } = self;
        let mut each = |pool: &mut PoolCache, answer: Answer| {
            let Answer { index, flow, sends, packet, reads } = answer;
            let was = asked.get_mut(index as usize);
            let was = was.map_or(Asked::Nothing, |was| std::mem::replace(was, Asked::Nothing));
            let found = match was {
                Asked::For(at, number) => {
                    *stalled = false;
                    queues[at].as_mut().and_then(|queue| {
                        let place = number.checked_sub(queue.first)?;
                        queue.waiting.get_mut(place as usize)
                    })
                }
                Asked::Late => {
                    figures.late += 1;
                    *stalled = false;
                    None
                }
                // A buffer whose answer has come: the consumer only returns it.
                Asked::Nothing => None,
            };
            let Some(waiting) = found else {
                packet.into_iter().for_each(|slot| pool.give_one(slot));
                return;
            };
            let mut kept = waiting.slot.take();
            if let (true, Some(key)) = (flow, waiting.key.take()) {
                flows.insert(key, sends, terms.flows);
            }
            waiting.state = match (sends, packet) {
                (true, Some(mut packet)) => {
                    keep_meta(pool.arena(), kept.as_ref(), &mut packet);
                    waiting.slot = Some(packet);
                    figures.passed += 1;
                    PacketState::Passes
                }
                // Its copy of the packet is not taken.
                (true, None) if reads => {
                    waiting.slot = kept.take();
                    figures.passed += 1;
                    PacketState::Passes
                }
                // There is no buffer for the consumer's version of the packet.
                (true, None) => {
                    figures.unanswered += 1;
                    waiting.slot = kept.take();
                    without_answer(terms, waiting, DropReason::Full)
                }
                (false, _) => {
                    figures.denied += 1;
                    PacketState::Dropped(DropReason::Denied)
                }
            };
            kept.into_iter().for_each(|slot| pool.give_one(slot));
        };
        let words = link.answers(server, pool, WORDS, &mut each);
        *stalled &= link.held(server) > 0;
        queues.iter_mut().flatten().for_each(Queue::advance);
        words.is_ok_and(|words| words == WORDS)
    }

    /// Packets of a queue whose time is over are decided; those that can leave do, as many as the frame
    /// has room for.
    pub(super) fn drain(
        &mut self,
        at: usize,
        pool: &mut PoolCache,
        frame: &mut Frame,
        figures: &mut Figures,
    ) -> DrainResult {
        let mut settled = DrainResult::default();
        let Some(queue) = &mut self.queues[at] else { return settled };
        let now = Instant::now();
        while let Some(packet) = queue.waiting.get_mut(queue.ready).filter(|of| of.due <= now) {
            decide(&self.terms, packet, DropReason::Silent);
            figures.unanswered += 1;
            self.asked[packet.index as usize] = Asked::Late;
            self.stalled = true;
            queue.advance();
        }
        while queue.ready > 0 && frame.room() > 0 {
            let Some(packet) = queue.waiting.pop_front() else { break };
            queue.first += 1;
            queue.ready -= 1;
            let refused = &mut settled.refused;
            let counter = match packet.state {
                PacketState::Passes => {
                    let full = packet.slot.and_then(|slot| frame.push(slot).err());
                    full.into_iter().for_each(|slot| pool.give_one(slot));
                    continue;
                }
                PacketState::Dropped(DropReason::Denied) => &mut refused.denied,
                PacketState::Dropped(DropReason::Absent) => &mut refused.absent,
                PacketState::Dropped(DropReason::Silent) => &mut refused.silent,
                PacketState::Dropped(DropReason::Full) | PacketState::Asked => &mut refused.full,
            };
            *counter += 1;
            packet.slot.into_iter().for_each(|slot| pool.give_one(slot));
        }
        settled.more = queue.ready > 0;
        settled.due = queue.waiting.get(queue.ready).map(|packet| packet.due);
        self.flows.age(now, self.terms.flow_time);
        settled
    }
}

/// Decides about a packet that there is no answer for.
fn decide(terms: &InlineConfig, packet: &mut Waiting, why: DropReason) {
    packet.state = without_answer(terms, packet, why);
}

/// State of a packet that was asked about and not answered: one that the consumer alone has, from
/// before the terms changed, cannot pass.
fn without_answer(terms: &InlineConfig, packet: &Waiting, why: DropReason) -> PacketState {
    if packet.slot.is_some() { unasked(terms, why) } else { PacketState::Dropped(why) }
}

fn unasked(terms: &InlineConfig, why: DropReason) -> PacketState {
    if terms.open { PacketState::Passes } else { PacketState::Dropped(why) }
}

/// The expectation about a buffer; the table grows up to it.
fn expected(asked: &mut Vec<Asked>, index: u32) -> &mut Asked {
    let index = index as usize;
    if asked.len() <= index {
        asked.resize(index + 1, Asked::Nothing);
    }
    &mut asked[index]
}

/// A packet that a consumer is going to be asked about.
struct Prepared {
    /// The buffer it is lent.
    index: u32,
    /// Packet to put on its ring.
    lent: Option<Slot>,
    /// Packet to send on without it.
    kept: Option<Slot>,
}

/// Lends a packet, or makes it such that it can be. The packet is given back where there is no buffer
/// for a copy that it takes.
fn prepare(
    link: &mut Link,
    server: &mut Server,
    pool: &mut PoolCache,
    mut slot: Slot,
    open: bool,
    asked: &mut Vec<Asked>,
    figures: &mut Figures,
) -> Result<Prepared, Slot> {
    let id = match link {
        Link::Sharing(id) => *id,
        Link::Isolated(isolated) => {
            let (packet, meta) = (pool.arena().packet(&slot), pool.arena().meta(&slot));
            return match isolated.enqueue(packet, meta.timestamp) {
                Some(index) => Ok(Prepared { index, lent: None, kept: Some(slot) }),
                None => Err(slot),
            };
        }
    };
    let Some(mut index) = server.new_to(id, &mut slot, pool) else { return Err(slot) };
    if matches!(expected(asked, index), Asked::For(..)) {
        // Another packet of this frame is in that buffer, too.
        if !pool.unshare(&mut slot) {
            return Err(slot);
        }
        figures.copied += slot.len() as u64;
        index = pool.arena().index_of(&slot) as u32;
    }
    // Shared packets are not written: it can be sent on from here.
    if slot.is_shared() || server.access(id) == Access::Read {
        return match pool.share(&mut slot) {
            kept @ Some(_) => Ok(Prepared { index, lent: Some(slot), kept }),
            None => Err(slot),
        };
    }
    if !open {
        return Ok(Prepared { index, lent: Some(slot), kept: None });
    }
    let Some(mut kept) = pool.share(&mut slot) else { return Err(slot) };
    let copied = pool.unshare(&mut kept);
    if !copied {
        pool.give_one(kept);
        // The only one again.
        pool.unshare(&mut slot);
        return Err(slot);
    }
    pool.unshare(&mut slot);
    figures.copied += slot.len() as u64;
    Ok(Prepared { index, lent: Some(slot), kept: Some(kept) })
}

/// Lends the packets that are to be put on a ring, for which there is room.
fn hand_over(link: &mut Link, server: &mut Server, pool: &mut PoolCache, out: &mut Frame) {
    match link {
        Link::Sharing(id) => {
            let _ = server.enqueue_shared(&[*id], out);
            // Of a consumer with a broken ring, which is ended.
            pool.give(out);
        }
        Link::Isolated(isolated) => isolated.publish(),
    }
}

/// Copies the metadata of a packet to the consumer's version of it.
fn keep_meta(arena: &Arena, kept: Option<&Slot>, packet: &mut Slot) {
    let Some(kept) = kept else { return };
    let mut meta = *arena.meta(kept);
    if kept.headroom() != packet.headroom() {
        // Header places count from the start of the buffer.
        (meta.network, meta.transport) = (HeaderStart::UNKNOWN, HeaderStart::UNKNOWN);
    }
    if let Some(to) = arena.meta_mut(packet) {
        *to = meta;
    }
}

/// Verdicts of a consumer on flows, in both directions of each. Flows without a packet while the
/// table was turned over twice are forgotten, and the table is turned over when it is half full.
#[derive(Debug, Default)]
struct Flows {
    young: HashMap<FlowKey, bool>,
    old: HashMap<FlowKey, bool>,
    turned: Option<Instant>,
}

impl Flows {
    fn get(&mut self, key: &FlowKey) -> Option<bool> {
        if let Some(known) = self.young.get(key) {
            return Some(*known);
        }
        let known = self.old.remove(key)?;
        self.young.insert(*key, known);
        Some(known)
    }

    fn insert(&mut self, key: FlowKey, passes: bool, most: usize) {
        if most == 0 {
            return;
        }
        if self.young.len() >= (most / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, passes);
    }

    fn age(&mut self, now: Instant, time: Duration) {
        if self.young.is_empty() && self.old.is_empty() {
            return;
        }
        let turned = *self.turned.get_or_insert(now);
        if now.duration_since(turned) >= time {
            self.old = std::mem::take(&mut self.young);
            self.turned = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_packet::flow::FlowV4;

    use super::*;

    fn key(number: u16) -> FlowKey {
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let protocol = linerate_packet::IpProtocol::UDP;
        FlowKey::V4(FlowV4 { src, dst, src_port: number, dst_port: 53, vlan: 0, protocol })
    }

    #[test]
    fn flows_are_few_and_forgotten_when_nothing_comes_of_them() {
        let mut flows = Flows::default();
        for number in 0..100 {
            flows.insert(key(number), number % 2 == 0, 10);
            assert!(flows.young.len() + flows.old.len() <= 10);
            assert_eq!(flows.get(&key(0)), Some(true), "it is in use");
        }
        assert_eq!((flows.get(&key(99)), flows.get(&key(7))), (Some(false), None));
        let (time, start) = (Duration::from_secs(60), Instant::now());
        flows.age(start, time);
        flows.age(start + time, time);
        assert_eq!(flows.get(&key(99)), Some(false));
        flows.age(start + 2 * time, time);
        flows.age(start + 3 * time, time);
        assert_eq!(flows.get(&key(99)), None);
        flows.insert(key(1), true, 0);
        assert_eq!(flows.get(&key(1)), None, "none are remembered");
    }
}

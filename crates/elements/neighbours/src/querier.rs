//! Querier: sends packets to neighbours and asks for them, as `ARPQuerier` and `IP6NDSolicitor` do.
//!
//! Addresses in use are remembered here ([`NeighbourCache`]), so that a packet on its way
//! takes no lock. One is good until its neighbour must be asked for again, or its
//! address may have changed.

use std::sync::Arc;

use linerate_graph::{
    Context, DropReason, ElementBuilder, HandlerError, HandlerResult, NoBuffer, Rank, Seconds,
};
use linerate_memory::{Arena, Frame, HeaderCache, PacketMut, PreservedFields, Slot};

use super::{Address, neighbour_cache::NeighbourCache, shared::Shared};
use linerate_element_support::{ether::HEADER, headroom};

/// Milliseconds after which an address is asked for again unless told otherwise.
const POLL_TIMEOUT: u32 = 60_000;

/// Puts headers in front of the packets for whose destinations they are found; the others are
/// missed, as are all where one has no room.
#[inline(always)]
fn put_headers<'a, A: Address>(
    arena: &Arena,
    frame: &mut Frame,
    header_cache: &mut HeaderCache,
    missed: &mut Vec<(usize, Slot)>,
    find: impl Fn(A::Bits) -> Option<&'a [u8; HEADER]>,
) {
    let mut has_room = arena.unstrip_packets(frame, header_cache, HEADER);
    if !has_room {
        headroom::make(arena, frame, HEADER);
        has_room = arena.unstrip_packets(frame, header_cache, HEADER);
    }
    if !has_room {
        let count = frame.len();
        let mut places = 0..count;
        frame.drain_front(count, |slot| missed.extend(places.next().map(|place| (place, slot))));
        return;
    }
    let preserved = PreservedFields { headers: false, destination: true };
    let encapsulate = move |packet: &mut PacketMut<'_>| {
        let header = find(A::destination(packet.meta())).ok_or(())?;
        if let Some(to) = packet.bytes_mut().first_chunk_mut() {
            *to = *header;
        }
        packet.mark_network(HEADER);
        Ok(())
    };
    arena.retain_cached(frame, header_cache, preserved, encapsulate, |place, mut slot, ()| {
        slot.pull(HEADER);
        missed.push((place, slot));
    });
}

/// One replica's table, its cache of that, and its counts.
#[derive(Debug)]
pub struct Querier<A: Address> {
    /// The table, unless there was no memory for it.
    pub shared: Option<Arc<Shared<A>>>,
    /// Milliseconds after which an address is asked for again; 0 for never.
    pub poll_timeout: u64,
    /// Whether this replica has the timers.
    pub first: bool,
    /// Whether there is an output for packets without an answer.
    pub returns: bool,
    query_output: usize,
    cache: NeighbourCache<A::Bits>,
    /// Packets of a frame for addresses that are not remembered, and their places there.
    pub missed: Vec<(usize, Slot)>,
    /// Queries sent.
    pub queries: u64,
    /// Answers received.
    pub responses: u64,
    /// Packets dropped that did not wait.
    pub drops: u64,
    /// Unsolicited or spoofed replies.
    pub spoofed: u64,
}

impl<A: Address> Querier<A> {
    /// One that asks this table.
    pub fn new(make: &mut ElementBuilder<'_>, shared: Option<Arc<Shared<A>>>) -> Querier<A> {
        let Seconds::<3>(poll_timeout) = make.or("POLL_TIMEOUT", Seconds(POLL_TIMEOUT));
        Querier {
            shared,
            poll_timeout: u64::from(poll_timeout),
            first: make.replica().index == 0,
            returns: make.outputs() > 2,
            query_output: make.outputs().saturating_sub(1).min(1),
            cache: NeighbourCache::default(),
            missed: Vec::new(),
            queries: 0,
            responses: 0,
            drops: 0,
            spoofed: 0,
        }
    }

    /// Puts headers in front of the packets of a frame with remembered neighbours. Returns true if
    /// there are others, which are among the [`missed`](Querier::missed) then.
    #[inline(always)]
    pub fn forward<R: DropReason + From<NoBuffer>>(
        &mut self,
        cx: &mut Context,
        frame: &mut Frame,
        now: u64,
    ) -> bool {
        cx.unshare::<R>(frame);
        let Querier { shared: Some(shared), cache, missed, .. } = self else {
            cx.discard(frame);
            return false;
        };
        let Context { pool, header_cache, .. } = cx;
        let (arena, generations) = (pool.arena(), shared.generations());
        let settled = cache.settle(frame.len(), now, generations);
        let finder = cache.finder();
        if settled {
            let find = move |address| finder.find_good(address);
            put_headers::<A>(arena, frame, header_cache, missed, find);
        } else {
            if cache.is_far() {
                let ask = |slot| finder.ask(A::destination(arena.meta(slot)));
                frame.slots().iter().for_each(ask);
            }
            let find = move |address| finder.find(address, now, generations);
            put_headers::<A>(arena, frame, header_cache, missed, find);
        }
        !missed.is_empty()
    }

    /// Sends the packets of a frame by output 0 one by one, and those that were missed between them
    /// by `send`: in their order and that of the queries for them.
    pub fn send_missed(
        cx: &mut Context,
        frame: &mut Frame,
        missed: &mut Vec<(usize, Slot)>,
        mut send: impl FnMut(&mut Context, Slot),
    ) {
        let mut missed = missed.drain(..).peekable();
        let mut place = 0;
        let count = frame.len();
        frame.drain_front(count, |slot| {
            while let Some((_, slot)) = missed.next_if(|(at, _)| *at == place) {
                send(cx, slot);
                place += 1;
            }
            cx.out.emit(0, slot);
            place += 1;
        });
        missed.for_each(|(_, slot)| send(cx, slot));
    }

    /// Remembers the header for a neighbour until some time, unless its generation has changed
    /// since the table was asked.
    pub fn remember(&mut self, ip: A, header: [u8; HEADER], good: (u64, u32), now: u64) {
        if let Some(shared) = &self.shared {
            self.cache.insert(ip.bits(), header, good, (now, shared.generations()));
        }
    }

    /// Sends a query, before the packet of that rank goes.
    pub fn send_query<R: DropReason + From<NoBuffer>>(
        &mut self,
        cx: &mut Context,
        query: Option<Slot>,
        rank: Rank,
    ) {
        match query {
            Some(slot) => {
                self.queries += 1;
                cx.put_before(&slot, rank);
                cx.out.emit(self.query_output, slot);
            }
            None => cx.count_drops(R::from(NoBuffer), 1),
        }
    }

    /// The element takes the place of another that had the same address.
    pub fn take_counts(&mut self, old: &Querier<A>) {
        self.queries += old.queries;
        self.responses += old.responses;
        self.drops += old.drops;
        self.spoofed += old.spoofed;
    }

    /// The element goes.
    pub fn close(&self, cx: &mut Context) {
        if let Some(shared) = &self.shared {
            shared.leave(cx);
        }
    }

    /// Handlers that are read.
    pub fn read(&self, cx: &Context, handler: &str) -> HandlerResult {
        let Some(shared) = &self.shared else { return Err(HandlerError::missing(handler)) };
        let count = match handler {
            "stats" => {
                let (killed, queries) = (self.drops + shared.lock().drops, self.queries);
                return Ok(format!("{killed} packets killed\n{queries} {} sent\n", A::QUERIES));
            }
            "queries" => self.queries,
            "responses" => self.responses,
            "drops" => self.drops,
            "spoofed" => self.spoofed,
            _ => return shared.read(cx, handler),
        };
        Ok(count.to_string())
    }

    /// Handlers that are written.
    pub fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        if handler == "clear" {
            (self.queries, self.responses, self.drops, self.spoofed) = (0, 0, 0, 0);
        }
        match &self.shared {
            Some(shared) => shared.write(cx, handler, value),
            None => Err(HandlerError::missing(handler)),
        }
    }
}

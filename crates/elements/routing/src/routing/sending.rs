//! Lookup of destinations to outputs, a frame at a time.

use linerate_graph::{Context, DropReason, NoBuffer};
use linerate_memory::{Arena, Frame, Slot};
use linerate_packet::flow::extract_ip;
use linerate_tables::prefix::NextHop;

use super::{
    family::Family,
    hops::NO_OUTPUT,
    table::{RouteSnapshot, Table},
};

/// Returns the hash that chooses among several next hops; `None` for a packet that is not IP.
#[cold]
fn flow_hash(arena: &Arena, slot: &Slot) -> Option<u32> {
    let flow = extract_ip(arena.packet(slot).get(arena.network(slot)..)?).ok()?;
    Some((flow.key.hash64(0) >> 32) as u32)
}

/// Drop reason, the same in all classes.
#[derive(Clone, Copy, DropReason)]
pub(super) enum Reason {
    /// no route
    NoRoute,
    #[from(NoBuffer)]
    NoBuffer,
}

/// Buffers for the lookups of a frame.
#[derive(Debug)]
pub(super) struct Sending<A> {
    addresses: Vec<A>,
    hops: Vec<NextHop>,
    gateways: Vec<A>,
    outputs: Vec<u32>,
    shown: RouteSnapshot<A>,
    /// Gateway and output of all, where they are the same: often there is one
    /// way out, and then there is nothing to do for each.
    same: Option<(A, u32)>,
    /// Whether there is no route for some.
    has_unrouted: bool,
}

impl<A: Family> Sending<A> {
    pub(super) fn new(limit: usize) -> Sending<A> {
        Sending {
            addresses: Vec::with_capacity(limit),
            hops: Vec::with_capacity(limit),
            gateways: Vec::with_capacity(limit),
            outputs: Vec::with_capacity(limit),
            shown: RouteSnapshot::default(),
            same: None,
            has_unrouted: false,
        }
    }

    /// Looks the destinations of all packets up, and gives them the gateways
    /// for destinations.
    #[inline]
    pub(super) fn look_up(&mut self, cx: &mut Context, frame: &mut Frame, table: &Table<A>) {
        self.answer(cx, frame, table);
        let any = match self.same {
            Some((gateway, _)) => gateway,
            None => self.gateways.iter().fold(A::default(), |any, gateway| any.or(*gateway)),
        };
        if any.is_zero() {
            return;
        }
        if frame.has_shared() {
            // It may be others' destination too.
            cx.unshare::<Reason>(frame);
            self.answer(cx, frame, table);
        }
        let arena = cx.pool.arena();
        match self.same {
            Some((gateway, _)) => A::annotate_all(arena, frame, &mut cx.header_cache, gateway),
            None => A::annotate(arena, frame, &mut cx.header_cache, &self.gateways),
        }
    }

    #[inline]
    fn answer(&mut self, cx: &mut Context, frame: &mut Frame, table: &Table<A>) {
        let count = frame.len();
        self.addresses.resize(count, A::default());
        self.hops.resize(count, NextHop::NONE);
        self.gateways.resize(count, A::default());
        self.outputs.resize(count, NO_OUTPUT);
        let arena = cx.pool.arena();
        if !A::known(arena, frame, &cx.header_cache, &mut self.addresses) {
            let mut addresses = self.addresses.iter_mut();
            arena.for_each_meta(frame, &mut cx.header_cache, |meta| {
                if let Some(address) = addresses.next() {
                    *address = A::read(&meta.destination);
                }
            });
        }
        let Sending { addresses, hops, gateways, outputs, shown, .. } = self;
        let flow_hash = |at: usize| {
            let slot = frame.slots().get(at);
            slot.and_then(|slot| flow_hash(arena, slot)).unwrap_or_else(|| addresses[at].hash())
        };
        self.same = table.lookup_many(addresses, shown, hops, gateways, outputs, flow_hash);
        self.has_unrouted = match self.same {
            Some((_, output)) => output == NO_OUTPUT,
            // Without an early end, which would be a branch for each packet.
            None => outputs.iter().fold(false, |any, output| any | (*output == NO_OUTPUT)),
        };
    }

    /// Returns true if there is no route for some.
    #[inline]
    pub(super) fn has_unrouted(&self) -> bool {
        self.has_unrouted
    }

    /// Their destinations.
    pub(super) fn unrouted(&self) -> impl Iterator<Item = A> + '_ {
        let output = |own: &u32| self.same.map_or(*own, |(_, output)| output);
        let answers = self.addresses.iter().zip(&self.outputs);
        answers.filter(move |(_, own)| output(own) == NO_OUTPUT).map(|(address, _)| *address)
    }

    /// Sends the packets where their routes lead.
    #[inline]
    pub(super) fn send(&mut self, cx: &mut Context, frame: &mut Frame) {
        let Context { pool, out, .. } = cx;
        match self.same {
            // Those of output 0 leave by it if they are left in the frame.
            Some((_, 0)) => return,
            Some((_, NO_OUTPUT)) => {
                let dropped = frame.len();
                pool.give(frame);
                return cx.count_drops(Reason::NoRoute, dropped);
            }
            Some((_, output)) => return out.emit_frame(output as usize, frame),
            None if !self.has_unrouted => return out.distribute(frame, &self.outputs),
            None => {}
        }
        let mut outputs = self.outputs.iter();
        let mut dropped = 0;
        frame.drain_front(frame.len(), |slot| match outputs.next() {
            Some(&output) if output != NO_OUTPUT => out.emit(output as usize, slot),
            _ => {
                dropped += 1;
                pool.give_one(slot);
            }
        });
        cx.count_drops(Reason::NoRoute, dropped);
    }
}

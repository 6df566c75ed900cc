//! From destinations to outputs, a frame at a time.

use linerate_graph::Context;
use linerate_lookup::prefix::NextHop;
use linerate_memory::{Frame, Slot};

use super::{family::Family, hops::NO_OUTPUT, table::Table};

/// Drop reasons, the same in all classes.
const NO_ROUTE: usize = 0;
const NO_BUFFER: usize = 1;

/// Room for what is looked up for a frame.
#[derive(Debug)]
pub(super) struct Sending<A> {
    addresses: Vec<A>,
    hops: Vec<NextHop>,
    gateways: Vec<A>,
    outputs: Vec<u32>,
}

impl<A: Family> Sending<A> {
    pub(super) fn new(limit: usize) -> Sending<A> {
        Sending {
            addresses: Vec::with_capacity(limit),
            hops: Vec::with_capacity(limit),
            gateways: Vec::with_capacity(limit),
            outputs: Vec::with_capacity(limit),
        }
    }

    /// Looks the destinations of all packets up, and gives them the gateways
    /// for destinations.
    #[inline]
    pub(super) fn look_up(&mut self, cx: &mut Context, frame: &mut Frame, table: &Table<A>) {
        self.answer(cx, frame, table);
        if self.gateways.iter().all(|gateway| gateway.is_zero()) {
            return;
        }
        if frame.slots().iter().any(Slot::is_shared) {
            // It may be others' destination too.
            cx.unshare(frame, NO_BUFFER);
            self.answer(cx, frame, table);
        }
        let arena = cx.pool.arena();
        for (slot, gateway) in frame.slots_mut().iter_mut().zip(&self.gateways) {
            if !gateway.is_zero()
                && let Some(meta) = arena.meta_mut(slot)
            {
                gateway.write(&mut meta.destination);
            }
        }
    }

    #[inline]
    fn answer(&mut self, cx: &Context, frame: &Frame, table: &Table<A>) {
        let arena = cx.pool.arena();
        let destination = |slot| A::read(&arena.meta(slot).destination);
        self.addresses.clear();
        self.addresses.extend(frame.slots().iter().map(destination));
        let count = self.addresses.len();
        self.hops.resize(count, NextHop::NONE);
        self.gateways.resize(count, A::default());
        self.outputs.resize(count, NO_OUTPUT);
        table.lookup_many(&self.addresses, &mut self.hops, &mut self.gateways, &mut self.outputs);
    }

    /// Whether there is no route for some.
    #[inline]
    pub(super) fn has_unrouted(&self) -> bool {
        self.outputs.contains(&NO_OUTPUT)
    }

    /// Their destinations.
    pub(super) fn unrouted(&self) -> impl Iterator<Item = A> + '_ {
        let answers = self.addresses.iter().zip(&self.outputs);
        answers.filter(|(_, output)| **output == NO_OUTPUT).map(|(address, _)| *address)
    }

    /// Sends the packets where their routes lead.
    #[inline]
    pub(super) fn send(&mut self, cx: &mut Context, frame: &mut Frame) {
        if !self.has_unrouted() {
            return cx.out.distribute(frame, &self.outputs);
        }
        let mut outputs = self.outputs.iter();
        let Context { pool, out, .. } = cx;
        let mut dropped = 0;
        frame.drain_front(frame.len(), |slot| match outputs.next() {
            Some(&output) if output != NO_OUTPUT => out.emit(output as usize, slot),
            _ => {
                dropped += 1;
                pool.give_one(slot);
            }
        });
        cx.count_drops(NO_ROUTE, dropped);
    }
}

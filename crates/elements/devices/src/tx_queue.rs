//! The sending half of an element on a port: its queue, packets that wait for place, its counts,
//! and failures of the port.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_graph::{Context, ElementBuilder, Replica};
use linerate_memory::{FRAME_DEFAULT, Frame};
use linerate_port::{Counts, DropReason, LeasedPort, PortError, PortUri, Transmit, Wake};

use super::{
    port_users::PortUsers,
    rx_queue::{add_drops, announce, counters_text, leave, report_failure, report_return},
};

/// Time until a queue that another element still has is requested again.
const RETRY: Duration = Duration::from_millis(1);
/// Interval of checks for outstanding transmissions while asleep, in ns.
const OUTSTANDING: u64 = 1_000_000;

pub(super) struct TxQueue {
    uri: PortUri,
    replica: Replica,
    port: Option<Arc<LeasedPort>>,
    queue: usize,
    side: Option<Box<dyn Transmit>>,
    /// Set if it counts the port's drops: one of the sharers of a queue does.
    counts: bool,
    /// The queue's counts when they were last looked at.
    seen: Counts,
    /// Packets the port had no place for.
    held: Frame,
    /// Whether packets wait for place instead of being dropped.
    waits: bool,
    /// Whether a call when idle was requested.
    unflushed: bool,
    packets: u64,
    bytes: u64,
    /// Counts at the last reset.
    reset: (u64, u64),
    drops: [u64; DropReason::ALL.len()],
}

impl TxQueue {
    pub(super) fn new(make: &mut ElementBuilder<'_>, uri: PortUri, waits: bool) -> TxQueue {
        let most = make.world.frame_limit.max(FRAME_DEFAULT);
        TxQueue::holding(make, uri, if waits { most } else { 0 })
    }

    /// Makes one with a place for so many packets that wait.
    pub(super) fn holding(make: &mut ElementBuilder<'_>, uri: PortUri, most: usize) -> TxQueue {
        let replica = make.replica();
        make.world.common::<PortUsers>().sends(&uri, make.element(), replica);
        TxQueue {
            uri,
            replica,
            port: None,
            queue: 0,
            side: None,
            counts: false,
            seen: Counts::default(),
            held: Frame::new(most.max(make.world.frame_limit)),
            waits: most > 0,
            unflushed: false,
            packets: 0,
            bytes: 0,
            reset: (0, 0),
            drops: Default::default(),
        }
    }

    pub(super) fn uri(&self) -> &PortUri {
        &self.uri
    }

    pub(super) fn port(&self) -> Option<&LeasedPort> {
        self.port.as_deref()
    }

    /// Opens the port.
    pub(super) fn open(&mut self, cx: &mut Context) -> Result<(), String> {
        let world = Arc::clone(cx.world());
        let share = world.common::<PortUsers>().sender(&self.uri, cx.element(), self.replica);
        let (port, opened) = share.open(&self.uri, &world, LeasedPort::transmits, "sent to");
        self.port = Some(port);
        opened?;
        announce(cx, self.port());
        self.attach(cx);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn attach(&mut self, cx: &Context) {
        let Some(port) = self.port.as_ref().filter(|port| !port.is_lost()) else { return };
        let share = cx.world().common::<PortUsers>().sender(&self.uri, cx.element(), self.replica);
        let queues = port.transmits();
        if queues == 0 {
            return;
        }
        self.queue = share.number % queues;
        self.counts = share.number < queues;
        self.side = port.take_transmit(self.queue, share.users <= queues);
        if let Some(side) = &self.side {
            self.seen = side.counters().read();
        }
    }

    /// Returns true if packets wait for place.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the packets that find a place for sure: none while others wait.
    pub(super) fn room(&self) -> usize {
        if self.held.is_empty() { self.held.limit() } else { 0 }
    }

    /// Sends the packets of `frame`, which is then empty: packets that the port has no place for
    /// wait or are dropped.
    #[inline]
    pub(super) fn send(&mut self, cx: &mut Context, frame: &mut Frame) {
        if self.held.is_empty() {
            self.transmit(cx, frame);
        } else {
            self.send_behind(cx, frame);
        }
        if !frame.is_empty() {
            self.keep(cx, frame);
        }
    }

    /// Sends the waiting packets, then those of `frame`.
    #[cold]
    #[inline(never)]
    fn send_behind(&mut self, cx: &mut Context, frame: &mut Frame) {
        self.retry(cx);
        if self.held.is_empty() {
            self.transmit(cx, frame);
        }
    }

    /// Sends the waiting packets. Returns true if some were sent.
    pub(super) fn retry(&mut self, cx: &mut Context) -> bool {
        let mut held = std::mem::replace(&mut self.held, Frame::new(1));
        let before = held.len();
        self.transmit(cx, &mut held);
        let sent = held.len() < before;
        self.held = held;
        sent
    }

    #[inline]
    fn transmit(&mut self, cx: &mut Context, frame: &mut Frame) {
        if self.side.is_none() {
            self.attach(cx);
        }
        let Some(side) = &mut self.side else { return };
        let (packets, bytes) = (frame.len() as u64, frame.bytes());
        let outcome = side.transmit(&mut cx.pool, frame);
        self.packets += packets;
        self.bytes += bytes;
        if !frame.is_empty() {
            self.packets -= frame.len() as u64;
            self.bytes -= frame.bytes();
        }
        if let Err(error) = outcome {
            self.failed(cx, &error);
        } else if !self.unflushed {
            self.unflushed = true;
            cx.when_idle();
        }
    }

    #[cold]
    #[inline(never)]
    fn failed(&mut self, cx: &mut Context, error: &PortError) {
        report_failure(cx, self.port.as_deref(), error);
        self.give_back(cx);
    }

    /// Keeps packets that were not sent, or drops them.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, cx: &mut Context, frame: &mut Frame) {
        let is_lost = self.port().is_none_or(LeasedPort::is_lost);
        if is_lost {
            self.drop_all(cx, frame, DropReason::LinkDown);
            return;
        }
        // A queue that is another element's still is so for a moment only.
        if self.waits || self.side.is_none() {
            self.held.append(frame, usize::MAX);
        }
        self.drop_all(cx, frame, DropReason::QueueFull);
    }

    fn drop_all(&mut self, cx: &mut Context, frame: &mut Frame, reason: DropReason) {
        self.drops[reason as usize] += frame.len() as u64;
        cx.drop_frame(frame, reason);
    }

    /// Flushes outstanding packets, as there is nothing else to do.
    pub(super) fn idle(&mut self, cx: &mut Context, timer: u32) {
        self.unflushed = false;
        let Some(side) = &mut self.side else { return };
        match side.flush(&mut cx.pool) {
            Ok(0) => {}
            Ok(_) => {
                self.unflushed = true;
                cx.when_idle();
                if cx.timer(timer).is_none() {
                    // The worker must not sleep long now.
                    let at = cx.steady() + OUTSTANDING;
                    cx.set_timer(timer, at);
                }
            }
            Err(error) => self.failed(cx, &error),
        }
    }

    /// Returns the event to wait for until waiting packets can be sent.
    pub(super) fn wake(&mut self) -> Wake<'_> {
        match &mut self.side {
            Some(side) => side.wake(),
            None => Wake::At(Instant::now() + RETRY),
        }
    }

    /// Brings drop counters up to date; looks after a port that was lost.
    pub(super) fn tick(&mut self, cx: &mut Context) {
        let is_lost = self.port().is_some_and(LeasedPort::is_lost);
        if is_lost {
            self.give_back(cx);
            let mut held = std::mem::replace(&mut self.held, Frame::new(1));
            self.drop_all(cx, &mut held, DropReason::LinkDown);
            self.held = held;
            self.reopen(cx);
        }
        if let Some(side) = &mut self.side {
            side.refresh();
            self.count_drops(cx);
            if !self.unflushed {
                // A port with nothing to send learns here that it has failed.
                self.unflushed = true;
                cx.when_idle();
            }
        }
    }

    #[cold]
    fn reopen(&mut self, cx: &mut Context) {
        let world = Arc::clone(cx.world());
        let share = world.common::<PortUsers>().sender(&self.uri, cx.element(), self.replica);
        let Some(port) = self.port.clone() else { return };
        if port.open(&share.context(&world.ports)).is_ok() && !port.is_lost() {
            report_return(cx, &port);
            self.attach(cx);
        }
    }

    fn count_drops(&mut self, cx: &Context) {
        if let Some(side) = self.side.as_ref().filter(|_| self.counts) {
            add_drops(cx, &mut self.drops, &mut self.seen, side.counters().read());
        }
    }

    fn give_back(&mut self, cx: &mut Context) {
        self.count_drops(cx);
        if let (Some(port), Some(side)) = (&self.port, self.side.take()) {
            port.give_transmit(self.queue, side, &mut cx.pool);
        }
    }

    /// Takes over the waiting packets and the counts of the predecessor.
    pub(super) fn take_state(&mut self, old: &mut TxQueue) {
        self.held.append(&mut old.held, usize::MAX);
        self.packets += old.packets;
        self.bytes += old.bytes;
        self.reset = (self.reset.0 + old.reset.0, self.reset.1 + old.reset.1);
        self.drops.iter_mut().zip(old.drops).for_each(|(drops, old)| *drops += old);
    }

    pub(super) fn close(&mut self, cx: &mut Context) {
        if !self.held.is_empty() {
            self.retry(cx);
        }
        let mut held = std::mem::replace(&mut self.held, Frame::new(1));
        self.drop_all(cx, &mut held, DropReason::QueueFull);
        if let Some(side) = &mut self.side {
            side.refresh();
        }
        self.give_back(cx);
        if let Some(port) = self.port.take() {
            leave(cx, &port);
        }
    }

    /// Returns the packets and bytes sent.
    pub(super) fn sent(&self) -> (u64, u64) {
        (self.packets - self.reset.0, self.bytes - self.reset.1)
    }

    /// Likewise, without resets.
    pub(super) fn ever(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    /// Returns the packets it has dropped, for the reasons that `counts` selects.
    pub(super) fn dropped(&mut self, cx: &mut Context, counts: fn(DropReason) -> bool) -> u64 {
        self.tick(cx);
        let reasons = DropReason::ALL.into_iter().zip(self.drops);
        reasons.filter(|(reason, _)| counts(*reason)).map(|(_, dropped)| dropped).sum()
    }

    pub(super) fn reset_counts(&mut self) {
        self.reset = (self.packets, self.bytes);
    }

    /// The counts, a line each.
    pub(super) fn counters(&mut self, cx: &mut Context) -> String {
        self.tick(cx);
        let (packets, bytes) = self.sent();
        counters_text(packets, bytes, &self.drops)
    }
}

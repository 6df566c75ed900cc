//! Forwarder (DPDK's l2fwd): receives bursts on one port and transmits them on another.

use std::time::{Duration, Instant};

use linerate_memory::{Frame, PoolCache};
use linerate_packet::{
    MacAddr,
    rewrite::{MacPair, mac_pair, set_dst_mac, set_macs, set_src_mac, swap_macs},
};
use linerate_port::{DRAIN_LIMIT, DropReason, PortError, Receive, Transmit, Wake, drain};
use smallvec::SmallVec;

use crate::{
    budget::Budget,
    idle::{Idle, Sleeper},
    meter::{Meter, Stage, UsageReader},
    stop::Stop,
};

/// Change of a packet on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rewrite {
    /// Nothing: its bytes are not looked at.
    #[default]
    None,
    /// Source and destination Ethernet address change places.
    Swap,
    /// Ethernet addresses are overwritten.
    Set {
        /// New destination; the old one stays when `None`.
        destination: Option<MacAddr>,
        /// New source; the old one stays when `None`.
        source: Option<MacAddr>,
    },
}

/// Treatment of packets the transmitting port has no room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFull {
    /// They are dropped and counted, as a switch does: no packet waits behind
    /// a slow receiver.
    #[default]
    Drop,
    /// They wait, and reception with them: nothing is lost as long as the receiving port has room
    /// for new packets.
    Wait,
}

/// One direction of forwarding: receiving queues and the transmitting queue
/// their packets go to.
pub struct Path {
    receives: Vec<Box<dyn Receive>>,
    transmit: Box<dyn Transmit>,
    action: Action,
    on_full: OnFull,
    /// Packets on the way. Empty between rounds unless `on_full` is `Wait`.
    frame: Frame,
    /// Packets still to be received; all there are when `None`. None within a budget, which says it.
    left: Option<u64>,
    budget: Option<Budget>,
}

/// A worker that forwards over some paths until told to stop.
pub struct Forwarder {
    paths: Vec<Path>,
    pool: PoolCache,
    sleeper: Sleeper,
    meter: Meter,
    refresh_at: Instant,
}

/// Queues a worker may watch without allocating to go to sleep.
const WAKES_INLINE: usize = 16;
/// Interval at which completed transmissions are reaped while asleep.
const OUTSTANDING: Duration = Duration::from_millis(1);
/// Interval at which the kernel's counters are read.
const REFRESH: Duration = Duration::from_millis(500);

impl Path {
    /// A path that moves at most `burst` packets at a time and ends after
    /// `count` of them.
    ///
    /// # Panics
    ///
    /// When `burst` is not in 1..=[`FRAME_LIMIT`](linerate_memory::FRAME_LIMIT).
    pub fn new(
        receives: Vec<Box<dyn Receive>>,
        transmit: Box<dyn Transmit>,
        burst: usize,
        count: Option<u64>,
    ) -> Path {
        Path {
            receives,
            transmit,
            action: Action::None,
            on_full: OnFull::default(),
            frame: Frame::new(burst),
            left: count,
            budget: None,
        }
    }

    /// Returns the path with an end when it and all others within `budget` have moved that many packets,
    /// in place of a count of its own.
    pub fn within(self, budget: Budget) -> Path {
        Path { left: Some(0), budget: Some(budget), ..self }
    }

    /// Sets the change of packets on the path.
    pub fn rewriting(self, rewrite: Rewrite) -> Path {
        Path { action: Action::from_rewrite(rewrite), ..self }
    }

    /// Sets the path's treatment of a full port.
    pub fn on_full(self, on_full: OnFull) -> Path {
        Path { on_full, ..self }
    }

    /// Returns true if nothing more will come.
    fn ended(&self) -> bool {
        self.frame.is_empty()
            && (self.is_done() || self.receives.iter().all(|receive| receive.ended()))
    }

    /// Returns true if no more packets are to be moved.
    fn is_done(&self) -> bool {
        match &self.budget {
            Some(budget) => budget.is_spent(),
            None => self.left == Some(0),
        }
    }

    /// Moves a burst from each receiving queue; returns how many bursts and
    /// packets were received or, when some had waited, sent.
    #[inline]
    fn step(
        &mut self,
        pool: &mut PoolCache,
        meter: &mut Meter,
        measured: bool,
    ) -> Result<(usize, usize), PortError> {
        if !self.frame.is_empty() {
            return self.send(pool).map(|sent| (usize::from(sent > 0), sent));
        }
        let (mut bursts, mut packets) = (0, 0);
        for queue in 0..self.receives.len() {
            let moved = self.burst(queue, pool, meter, measured)?;
            packets += moved;
            bursts += usize::from(moved > 0);
            if !self.frame.is_empty() {
                break;
            }
        }
        Ok((bursts, packets))
    }

    /// Moves a burst from one receiving queue.
    #[inline]
    fn burst(
        &mut self,
        queue: usize,
        pool: &mut PoolCache,
        meter: &mut Meter,
        measured: bool,
    ) -> Result<usize, PortError> {
        if self.left.is_some_and(|left| left < self.frame.limit() as u64) {
            return self.last_burst(queue, pool);
        }
        let received = self.receives[queue].receive(pool, &mut self.frame)?;
        if measured {
            meter.stage(Stage::Receive);
        }
        if received == 0 {
            return Ok(0);
        }
        if let Some(left) = &mut self.left {
            *left -= received as u64;
        }
        self.action.apply(pool, &mut self.frame);
        if measured {
            meter.stage(Stage::Task);
        }
        self.send(pool)?;
        if measured {
            meter.stage(Stage::Transmit);
        }
        Ok(received)
    }

    /// Sends the packets of the frame; treats the rest as `on_full` says.
    #[inline]
    fn send(&mut self, pool: &mut PoolCache) -> Result<usize, PortError> {
        let sent = self.transmit.transmit(pool, &mut self.frame)?;
        if !self.frame.is_empty() && self.on_full == OnFull::Drop {
            self.transmit.counters().dropped(DropReason::QueueFull, self.frame.len());
            pool.give(&mut self.frame);
        }
        Ok(sent)
    }

    /// A burst that must not be a whole one: comes at the end of a counted run, and always within a
    /// budget.
    #[cold]
    fn last_burst(&mut self, queue: usize, pool: &mut PoolCache) -> Result<usize, PortError> {
        let whole = self.frame.limit();
        let left = match &self.budget {
            Some(budget) => budget.claim(whole as u64),
            None => self.left.unwrap_or(0),
        };
        if left == 0 {
            return Ok(0);
        }
        self.frame.set_limit(left as usize);
        let outcome = self.receives[queue].receive(pool, &mut self.frame);
        self.frame.set_limit(whole);
        let moved = self.frame.len();
        match &self.budget {
            Some(budget) => budget.settle(left, moved as u64),
            None => self.left = Some(left - moved as u64),
        }
        outcome?;
        if moved > 0 {
            self.action.apply(pool, &mut self.frame);
            self.send(pool)?;
        }
        Ok(moved)
    }
}

/// A [`Rewrite`] as it is carried out.
#[derive(Debug, Clone, Copy)]
enum Action {
    None,
    Swap,
    SetBoth(MacPair),
    SetDestination(MacAddr),
    SetSource(MacAddr),
}

impl Action {
    fn from_rewrite(rewrite: Rewrite) -> Action {
        match rewrite {
            Rewrite::None | Rewrite::Set { destination: None, source: None } => Action::None,
            Rewrite::Swap => Action::Swap,
            Rewrite::Set { destination: Some(destination), source: Some(source) } => {
                Action::SetBoth(mac_pair(destination, source))
            }
            Rewrite::Set { destination: Some(mac), source: None } => Action::SetDestination(mac),
            Rewrite::Set { destination: None, source: Some(mac) } => Action::SetSource(mac),
        }
    }

    /// A frame too short for the addresses goes on as it is. Where there is nothing to do, no call
    /// is made.
    #[inline(always)]
    fn apply(&self, pool: &PoolCache, frame: &mut Frame) {
        if !matches!(self, Action::None) {
            self.change(pool, frame);
        }
    }

    /// A loop of its own for each action.
    #[inline(never)]
    fn change(&self, pool: &PoolCache, frame: &mut Frame) {
        let arena = pool.arena();
        match *self {
            Action::None => {}
            Action::Swap => arena.for_each_mut(frame, |bytes| {
                let _ = swap_macs(bytes);
            }),
            Action::SetBoth(pair) => arena.for_each_mut(frame, |bytes| {
                let _ = set_macs(bytes, pair);
            }),
            Action::SetDestination(mac) => arena.for_each_mut(frame, |bytes| {
                let _ = set_dst_mac(bytes, mac);
            }),
            Action::SetSource(mac) => arena.for_each_mut(frame, |bytes| {
                let _ = set_src_mac(bytes, mac);
            }),
        }
    }
}

impl Forwarder {
    /// A worker over `paths`.
    pub fn new(paths: Vec<Path>, pool: PoolCache, idle: Idle) -> Forwarder {
        Forwarder {
            paths,
            pool,
            sleeper: Sleeper::new(idle),
            meter: Meter::new(),
            refresh_at: Instant::now() + REFRESH,
        }
    }

    /// The worker's figures, for readers in other threads.
    pub fn usage(&self) -> UsageReader {
        self.meter.reader()
    }

    /// Publishes that the worker lives before its first round, for a start that waits until readers know.
    pub fn announce(&mut self) {
        self.meter.slept();
    }

    /// Forwards until told to stop or until every path has ended; then sends the packets still on
    /// the way and gives all buffers back.
    ///
    /// # Errors
    ///
    /// The first failure of a port. The other ports are closed in order all the same.
    pub fn run(mut self, stop: &Stop) -> Result<(), PortError> {
        let outcome = self.forward(stop);
        let closed = self.close();
        self.meter.finish();
        outcome.and(closed)
    }

    fn forward(&mut self, stop: &Stop) -> Result<(), PortError> {
        while !stop.is_raised() {
            let measured = self.meter.round();
            let (mut bursts, mut packets) = (0, 0);
            for path in &mut self.paths {
                let moved = path.step(&mut self.pool, &mut self.meter, measured)?;
                bursts += moved.0;
                packets += moved.1;
            }
            self.meter.done(bursts, packets, measured);
            if packets > 0 {
                self.sleeper.busy();
            } else {
                if self.paths.iter().all(Path::ended) {
                    break;
                }
                self.idle()?;
            }
            if measured {
                self.refresh();
            }
        }
        Ok(())
    }

    /// A round found nothing to do.
    fn idle(&mut self) -> Result<(), PortError> {
        let mut outstanding = 0;
        for path in &mut self.paths {
            outstanding += path.transmit.flush(&mut self.pool)?;
        }
        if !self.sleeper.should_sleep() {
            return Ok(());
        }
        // In place: going to sleep may happen for every packet, and must
        // not allocate each time.
        let mut wakes: SmallVec<[Wake<'_>; WAKES_INLINE]> = SmallVec::new();
        if outstanding > 0 {
            wakes.push(Wake::At(Instant::now() + OUTSTANDING));
        }
        for path in &mut self.paths {
            match (path.frame.is_empty(), path.is_done()) {
                (false, _) => wakes.push(path.transmit.wake()),
                (true, true) => {}
                (true, false) => {
                    wakes.extend(path.receives.iter_mut().map(|receive| receive.wake()));
                }
            }
        }
        self.sleeper.sleep(&wakes);
        drop(wakes);
        self.meter.slept();
        self.refresh();
        Ok(())
    }

    /// Brings the ports' counters up to date when it is time to.
    fn refresh(&mut self) {
        let now = Instant::now();
        if now < self.refresh_at {
            return;
        }
        self.refresh_at = now + REFRESH;
        for path in &mut self.paths {
            path.refresh();
        }
    }

    /// Sends the packets on the way, for a while at most, and gives buffers back.
    fn close(&mut self) -> Result<(), PortError> {
        let Forwarder { paths, pool, .. } = self;
        let deadline = Instant::now() + DRAIN_LIMIT;
        let mut outcome = Ok(());
        for path in paths {
            let drained = drain(&mut *path.transmit, pool, &mut path.frame, deadline);
            if outcome.is_ok() {
                outcome = drained;
            }
            path.transmit.counters().dropped(DropReason::QueueFull, path.frame.len());
            pool.give(&mut path.frame);
            path.refresh();
            path.receives.iter_mut().for_each(|receive| receive.close(pool));
            path.transmit.close(pool);
        }
        outcome
    }
}

impl Path {
    fn refresh(&mut self) {
        self.receives.iter_mut().for_each(|receive| receive.refresh());
        self.transmit.refresh();
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Path").field("action", &self.action).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarder").field("paths", &self.paths).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::{Arena, ArenaOptions};
    use linerate_port::{Context, Counters, Port, open};
    use std::sync::Arc;

    use super::*;

    fn arena() -> Arena {
        ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }.create().unwrap()
    }

    fn port(context: &Context, uri: &str) -> Port {
        open(&uri.parse().unwrap(), context).unwrap()
    }

    /// A path between the first queues of two ports, and both counters.
    fn path(from: &mut Port, to: &mut Port, count: Option<u64>) -> (Path, [Arc<Counters>; 2]) {
        let receive = from.queues[0].receive.take().unwrap();
        let transmit = to.queues[0].transmit.take().unwrap();
        let counters = [Arc::clone(receive.counters()), Arc::clone(transmit.counters())];
        (Path::new(vec![receive], transmit, 32, count), counters)
    }

    #[test]
    fn forwards_until_the_source_ends_and_the_books_balance() {
        let context = Context::new(arena());
        let (mut a, mut b) = (port(&context, "null:?count=1000"), port(&context, "null:"));
        let (path, [received, sent]) = path(&mut a, &mut b, None);
        let forwarder = Forwarder::new(vec![path], context.arena.cache(64), Idle::Block);
        let usage = forwarder.usage();
        forwarder.run(&Stop::new()).unwrap();
        assert_eq!((received.read().packets, sent.read().packets), (1000, 1000));
        assert_eq!(usage.read().packets, 1000);
        assert_eq!(context.arena.accounting().held, 0);
    }

    #[test]
    fn a_count_is_exact() {
        for count in [1, 31, 32, 33, 100] {
            let context = Context::new(arena());
            let (mut a, mut b) = (port(&context, "null:"), port(&context, "null:"));
            let (path, [received, sent]) = path(&mut a, &mut b, Some(count));
            let pool = context.arena.cache(64);
            Forwarder::new(vec![path], pool, Idle::Poll).run(&Stop::new()).unwrap();
            assert_eq!((received.read().packets, sent.read().packets), (count, count));
            assert_eq!(context.arena.accounting().held, 0);
        }
    }

    /// Packets come by one of two queues only: it moves all that both are to.
    #[test]
    fn a_count_that_paths_have_in_common_is_exact() {
        for (count, of_the_first) in [(1, 0), (33, 7), (100, 1000)] {
            let context = Context::new(arena());
            let (silent, mut endless) =
                (format!("null:?count={of_the_first}"), port(&context, "null:"));
            let (mut first, mut a, mut b) =
                (port(&context, &silent), port(&context, "null:"), port(&context, "null:"));
            let budget = Budget::new(count);
            let (one, [received, _]) = path(&mut first, &mut a, None);
            let (two, [others, _]) = path(&mut endless, &mut b, None);
            let paths = vec![one.within(budget.clone()), two.within(budget)];
            Forwarder::new(paths, context.arena.cache(64), Idle::Poll).run(&Stop::new()).unwrap();
            assert_eq!(received.read().packets + others.read().packets, count);
            assert_eq!(context.arena.accounting().held, 0);
        }
    }

    #[test]
    fn a_full_port_drops_and_counts_or_waits() {
        for (on_full, dropped) in [(OnFull::Drop, 92), (OnFull::Wait, 0)] {
            let context = Context::new(arena());
            let mut from = port(&context, "null:?count=100");
            let mut to = port(&context, "ring:x?slots=8");
            let mut far = port(&context, "ring:x?slots=8");
            let (path, [_, sent]) = path(&mut from, &mut to, None);
            let pool = context.arena.cache(64);
            let forwarder = Forwarder::new(vec![path.on_full(on_full)], pool, Idle::Adaptive);
            let mut receive = far.queues[0].receive.take().unwrap();
            let mut pool = context.arena.cache(64);
            let mut got = 0;
            std::thread::scope(|scope| {
                let done = scope.spawn(|| forwarder.run(&Stop::new()));
                while on_full == OnFull::Wait && got < 100 {
                    let mut frame = Frame::new(16);
                    got += receive.receive(&mut pool, &mut frame).unwrap();
                    pool.give(&mut frame);
                }
                done.join().unwrap().unwrap();
            });
            assert_eq!(sent.read().dropped_for(DropReason::QueueFull), dropped);
            assert_eq!(sent.read().packets + dropped, 100);
            receive.close(&mut pool);
            assert_eq!(context.arena.accounting().held, 0);
        }
    }

    #[test]
    fn addresses_are_rewritten() {
        let (one, two) = (MacAddr([1; 6]), MacAddr([2; 6]));
        let cases = [
            (Rewrite::None, [[0xff; 6], [2, 0, 0, 0, 0, 1]]),
            (Rewrite::Swap, [[2, 0, 0, 0, 0, 1], [0xff; 6]]),
            (Rewrite::Set { destination: Some(one), source: Some(two) }, [[1; 6], [2; 6]]),
            (Rewrite::Set { destination: None, source: Some(two) }, [[0xff; 6], [2; 6]]),
        ];
        for (rewrite, expected) in cases {
            let context = Context::new(arena());
            let mut from = port(&context, "null:?count=1&copy");
            let mut to = port(&context, "ring:x");
            let mut far = port(&context, "ring:x");
            let (path, _) = path(&mut from, &mut to, None);
            let mut pool = context.arena.cache(64);
            let forwarder =
                Forwarder::new(vec![path.rewriting(rewrite)], context.arena.cache(64), Idle::Poll);
            forwarder.run(&Stop::new()).unwrap();
            let mut frame = Frame::new(4);
            let receive = far.queues[0].receive.as_mut().unwrap();
            assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 1);
            assert_eq!(&context.arena.packet(&frame.slots()[0])[..12], expected.as_flattened());
            pool.give(&mut frame);
        }
    }

    #[test]
    fn stops_when_told_while_asleep() {
        let context = Context::new(arena());
        let (mut a, mut b) = (port(&context, "ring:x"), port(&context, "null:"));
        let (path, _) = path(&mut a, &mut b, None);
        let stop = Stop::new();
        std::thread::scope(|scope| {
            let forwarder = Forwarder::new(vec![path], context.arena.cache(64), Idle::Block);
            let worker = scope.spawn(|| forwarder.run(&stop));
            // The scenario: time to fall asleep.
            std::thread::sleep(Duration::from_millis(20));
            stop.raise();
            worker.join().unwrap().unwrap();
        });
    }
}

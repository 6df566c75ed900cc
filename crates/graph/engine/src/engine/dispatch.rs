//! Dispatch of packets from element to element.

use std::sync::Arc;

use linerate_memory::Frame;

use crate::{
    element::{Context, Element, Next, NodeRuntime},
    runtime::{
        account::{ENGINE, WorkerStats},
        node::{Input, Limit, SendLimit},
        outputs::{InputId, NOWHERE},
        tasks::TaskState,
    },
};

/// Steps of packets on the way before they are taken to go round in circles: more
/// than any graph has for the packets of a frame, a few milliseconds.
const CIRCLE: u32 = 1 << 20;

/// Depth, in queues, to which readers run to make room for those that make room.
const READERS: usize = 4;

impl Context {
    pub(crate) fn stats(&self) -> &Arc<WorkerStats> {
        self.account.stats()
    }

    /// Sets the node at work; returns the account charged before.
    #[inline(always)]
    pub(crate) fn enter(&mut self, node: usize) -> usize {
        self.node = node;
        self.out.enter(self.runtimes[node].outputs);
        self.account.switch(node)
    }

    /// Calls an element with the packets of `frame`, which become those it has
    /// left there; returns the input its output 0 leads to.
    #[inline(always)]
    fn step(&mut self, to: Input, frame: &mut Frame) -> InputId {
        let Input { node, port } = to;
        let node = node as usize;
        let runtime = &mut self.runtimes[node];
        let Some(mut element) = runtime.take() else { return self.drop_reentrant(node, frame) };
        runtime.stats.called(frame.len());
        self.node = node;
        self.out.enter(runtime.outputs);
        let meets_again = runtime.meets_again;
        self.account.switch(node);
        // In most graphs the first is all there is to ask.
        if self.order.is_used() && (meets_again || self.order.is_numbered()) {
            self.number(frame, meets_again);
        }
        element.push(self, port as usize, frame);
        let runtime = &mut self.runtimes[node];
        runtime.put(element);
        let next = runtime.next;
        if self.out.is_touched() {
            self.collect();
        }
        next
    }

    /// Numbers the packets that an element is given. Packets it is about to make are made for one
    /// of them: it is unknown for which, but often there is one only.
    #[inline(never)]
    fn number(&mut self, frame: &Frame, meets_again: bool) {
        if meets_again {
            self.order.number(frame, self.pool.arena());
        }
        let first = frame.slots().first();
        let number = first.and_then(|slot| self.order.number_of(slot, self.pool.arena()));
        self.pending.cause = number.unwrap_or(0);
    }

    /// Packets have come round to an element that is still at work.
    #[cold]
    #[inline(never)]
    fn drop_reentrant(&mut self, node: usize, frame: &mut Frame) -> InputId {
        self.runtimes[node].stats.nowhere(frame.len());
        self.pool.give(frame);
        NOWHERE
    }

    /// Queues the packets that have been put on outputs.
    #[inline(never)]
    pub(crate) fn collect(&mut self) {
        self.pending.next_call();
        let mark = self.pending.mark();
        let Context { out, pending, pool, runtimes, node, order, .. } = self;
        out.collect(|out, to, mut frame| {
            if to.0 == NOWHERE {
                runtimes[*node].stats.nowhere(frame.len());
                pool.give(&mut frame);
                out.recycle(frame);
            } else {
                pending.add(to, frame, order, pool.arena(), out);
            }
        });
        self.pending.reverse_from(mark);
    }

    /// Queues the packets that a pulled element has put on push outputs; a packet at a time, each
    /// goes as far as it gets before the packet pulled goes on, as in Click. Packets for an element
    /// that is pulling wait for that to end.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_before_pulled(&mut self) {
        let mark = self.pending.mark();
        self.collect();
        if !self.out.is_exact() {
            return;
        }
        let mut kept = Vec::new();
        let mut steps = 0;
        while self.pending.mark() > mark {
            let Some((mut to, mut frame)) = self.take_pending() else { break };
            while to != NOWHERE && !frame.is_empty() {
                steps += 1;
                if steps > CIRCLE {
                    self.break_circle(&mut frame, mark);
                    continue;
                }
                let input = self.inputs[to as usize];
                if self.runtimes[input.node as usize].element.is_none() {
                    let waiting = std::mem::replace(&mut frame, self.out.fresh());
                    kept.push((to, waiting));
                } else {
                    self.go_alone(to, &mut frame);
                    to = self.step(input, &mut frame);
                }
            }
            if !frame.is_empty() {
                self.runtimes[self.node].stats.nowhere(frame.len());
                self.pool.give(&mut frame);
            }
            self.out.recycle(frame);
        }
        for (to, frame) in kept {
            self.add_pending((to, 0), frame);
        }
        self.pending.reverse_from(mark);
    }

    fn take_pending(&mut self) -> Option<(InputId, Frame)> {
        self.pending.take(&mut self.order, self.pool.arena(), &mut self.out)
    }

    pub(super) fn add_pending(&mut self, to: (InputId, u32), frame: Frame) {
        self.pending.add(to, frame, &mut self.order, self.pool.arena(), &mut self.out);
    }

    /// Queues the packets of a frame behind the first, where packets go one by one, until it has
    /// gone all the way.
    #[inline(always)]
    fn go_alone(&mut self, to: InputId, frame: &mut Frame) {
        if frame.len() > 1 && self.out.is_exact() {
            self.set_aside(to, frame);
        }
    }

    /// Returns true if the rest of a frame of several packets may go on to an input, where not all
    /// frames go on as they are.
    #[inline(never)]
    fn divide(&mut self, to: InputId, frame: &mut Frame) -> bool {
        self.go_alone(to, frame);
        self.out.is_exact() || !self.pending.is_single(to)
    }

    #[cold]
    #[inline(never)]
    fn set_aside(&mut self, to: InputId, frame: &mut Frame) {
        let mark = self.pending.mark();
        let mut first = self.out.fresh();
        first.append(frame, 1);
        while !frame.is_empty() {
            let mut one = self.out.fresh();
            one.append(frame, 1);
            self.add_pending((to, 0), one);
        }
        self.pending.reverse_from(mark);
        std::mem::swap(frame, &mut first);
        self.out.recycle(first);
    }

    /// Packets that the element at work has left in `frame` go on to `next`,
    /// and all packets on the way go as far as they get.
    pub(super) fn flow(&mut self, mut next: InputId, frame: &mut Frame) {
        for _ in 0..CIRCLE {
            // There is none where the packets lead nowhere.
            let mut input = self.inputs.get(next as usize).copied();
            let goes_on = input.is_some()
                && !frame.is_empty()
                && self.pending.is_next(next)
                && (frame.len() == 1 || self.pending.keeps_frames() || self.divide(next, frame));
            if !goes_on {
                if frame.is_empty() && self.pending.is_empty() {
                    return;
                }
                let turn = self.turn(next, frame);
                input = turn.map(|to| self.inputs[to as usize]);
            }
            let Some(input) = input else { return };
            next = self.step(input, frame);
        }
        self.break_circle(frame, 0);
    }

    /// Packets would be on the way for ever: those that are, are dropped where they
    /// are, in exact mode those behind `mark`.
    #[cold]
    #[inline(never)]
    fn break_circle(&mut self, frame: &mut Frame, mark: usize) {
        let mut dropped = frame.len();
        self.pool.give(frame);
        while mark == 0 || self.pending.mark() > mark {
            let Some((_, mut waiting)) = self.take_pending() else { break };
            dropped += waiting.len();
            self.pool.give(&mut waiting);
            self.out.recycle(waiting);
        }
        self.runtimes[self.node].stats.nowhere(dropped);
        if std::mem::replace(&mut self.nodes[self.node].circled, true) {
            return;
        }
        let text = format!("{}: packets go round in circles, dropped\n", self.name());
        self.console().report(&text);
    }

    /// Queues the packets in `frame`, which cannot go on to `next` now, or frees them if it leads
    /// nowhere. Puts into `frame` the packets that go on instead and returns their input; `None`
    /// when nothing waits.
    #[inline(never)]
    fn turn(&mut self, next: InputId, frame: &mut Frame) -> Option<InputId> {
        if next == NOWHERE {
            self.runtimes[self.node].stats.nowhere(frame.len());
            self.pool.give(frame);
        } else if !frame.is_empty() {
            let waiting = std::mem::replace(frame, self.out.fresh());
            let edge = self.runtimes[self.node].outputs.first;
            self.pending.next_call();
            self.add_pending((next, edge), waiting);
        }
        let (to, mut waiting) = self.take_pending()?;
        std::mem::swap(frame, &mut waiting);
        self.out.recycle(waiting);
        self.go_alone(to, frame);
        Some(to)
    }

    /// Sends a frame by output 0 and returns when its packets have gone as far as they get, for an
    /// element that measures the cost of that. `false` when other packets wait, which it could
    /// overtake: nothing is sent then.
    pub fn send_ahead(&mut self, frame: &mut Frame) -> bool {
        if !self.pending.is_empty() || self.out.is_touched() {
            return false;
        }
        let (node, place) = (self.node, self.out.place());
        self.flow(self.runtimes[node].next, frame);
        self.node = node;
        self.out.enter(place);
        self.account.switch(node);
        true
    }

    /// Sends a frame by output 0 that more is to follow in this run, which leaves it
    /// empty. Where packets go all the way one by one, they do so at once.
    pub fn send_on(&mut self, frame: &mut Frame) {
        if !(self.out.is_exact() && self.send_ahead(frame)) {
            self.out.emit_frame(0, frame);
        }
    }

    /// All packets on the way go as far as they get.
    pub(crate) fn drain(&mut self) {
        if !self.pending.is_empty() {
            let mut frame = self.out.fresh();
            self.flow(NOWHERE, &mut frame);
            self.out.recycle(frame);
        }
    }

    /// Calls `f` with an element of this worker and it as the one at work; packets that `f` makes
    /// it send wait for [`Context::drain`]. `None` when it is already at work.
    pub(crate) fn call<R>(
        &mut self,
        element: usize,
        f: impl FnOnce(&mut dyn Element, &mut Context) -> R,
    ) -> Option<R> {
        let mut taken = self.runtimes.get_mut(element)?.take()?;
        let (node, place) = (self.node, self.out.place());
        self.node = element;
        self.out.enter(self.runtimes[element].outputs);
        let result = f(&mut *taken, self);
        // A handler may have been written.
        self.runtimes[element].install(taken);
        if self.out.is_touched() {
            self.collect();
        }
        self.node = node;
        self.out.enter(place);
        Some(result)
    }

    /// Calls `f` with an element as the one at work and an empty frame, then sends on the packets
    /// it left in the frame.
    #[inline(always)]
    fn with<R>(
        &mut self,
        element: usize,
        one_by_one: bool,
        frame: &mut Frame,
        f: impl FnOnce(&mut dyn Element, &mut Context, &mut Frame) -> R,
    ) -> Option<R> {
        if one_by_one != self.out.is_exact() {
            self.go_one_by_one(one_by_one);
        }
        let runtime = &mut self.runtimes[element];
        let mut taken = runtime.take()?;
        self.node = element;
        self.out.enter(runtime.outputs);
        self.account.switch(element);
        self.begin_round();
        let result = f(&mut *taken, self, frame);
        if self.out.is_touched() {
            if self.nodes[element].sources.is_empty() {
                self.runtimes[element].stats.called(self.out.put());
            }
            if one_by_one {
                // Behind those that it has sent before.
                self.out.emit_frame(0, frame);
            }
            self.collect();
        }
        let runtime = &mut self.runtimes[element];
        runtime.put(taken);
        let next = runtime.next;
        // An element that leads nowhere keeps the packets it pulls.
        let moved = if next == NOWHERE { self.pulled } else { frame.len() };
        if moved > 0 {
            runtime.stats.called(moved);
        }
        if !self.deferred_writes.is_empty() {
            self.write_late();
        }
        self.on_the_way = true;
        self.flow(next, frame);
        self.arrived();
        self.account.switch(ENGINE);
        Some(result)
    }

    /// Ends the order between packets sent before and packets sent from now on.
    #[inline(always)]
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
        if self.order.begin() {
            self.pending.cause = 0;
        }
    }

    /// Switches to packets that go all the way one by one, or back. Packets that an element has
    /// sent besides its task go first, as they set out.
    #[cold]
    pub(super) fn go_one_by_one(&mut self, one_by_one: bool) {
        self.drain();
        self.pending.set_exact(one_by_one);
        self.out.set_exact(one_by_one);
    }

    /// Runs the next task that is ready; `None` when there is none, else
    /// whether it did something. `frame` is empty before and after.
    #[inline]
    pub(crate) fn run_task(&mut self, frame: &mut Frame) -> Option<bool> {
        let element = self.tasks.next()?;
        if self.runtimes[element].is_independent {
            return Some(self.run_turns(element, usize::MAX, true, frame));
        }
        Some(self.run_among_others(element, frame))
    }

    /// Runs the task of an element that others make room for, or whose turns depend on theirs.
    #[inline(never)]
    fn run_among_others(&mut self, element: usize, frame: &mut Frame) -> bool {
        let mut worked = false;
        if self.runtimes[element].asks_for_room {
            worked = self.make_room(element, frame);
            // A handler that was called meanwhile may have stopped it.
            if !self.tasks.is_ready(element) {
                return true;
            }
        }
        worked |= if self.runtimes[element].has_companions {
            self.run_together(element, frame)
        } else {
            self.run_turns(element, usize::MAX, false, frame)
        };
        worked
    }

    /// Runs a task that takes turns with others, when none of them do so now.
    #[inline(never)]
    pub(super) fn run_apart(&mut self, element: usize, most: usize, frame: &mut Frame) -> bool {
        self.run_turns(element, most, false, frame)
    }

    /// Runs a task, for at most `most` turns where it takes many; returns whether it did
    /// something. One that is `independent` needs no look at others. `frame` is empty before and
    /// after.
    #[inline(always)]
    fn run_turns(
        &mut self,
        element: usize,
        most: usize,
        independent: bool,
        frame: &mut Frame,
    ) -> bool {
        let NodeRuntime { counted, one_by_one, bound, keeps_step, sifts, .. } =
            self.runtimes[element];
        let (room, calls) = self.room_for_turns(element, counted, bound);
        let mut room = room.min(most);
        if !independent && keeps_step && !counted {
            room = room.min(self.turns_in_step(element));
        }
        self.delivered = false;
        self.looks_again = false;
        (self.task, self.pulled, self.taken) = (element, 0, 0);
        self.account.begin();
        let mut moved = 0;
        let alone = one_by_one || calls || !independent && sifts && counted;
        let next = self.with(element, alone, frame, |element, cx, frame| {
            let limit = frame.limit();
            if room < limit {
                frame.set_limit(room);
            }
            let next = element.run(cx, frame);
            if room < limit {
                frame.set_limit(limit);
            }
            moved = frame.len();
            if cx.out.is_touched() {
                moved += cx.out.put();
            }
            next
        });
        self.task = usize::MAX;
        let moved = moved.max(self.pulled).max(self.taken);
        let turns = if counted { 1 } else { moved.max(1) as u32 };
        let next = next.unwrap_or(Next::Sleep);
        let worked = if independent {
            self.answered(element, next, turns)
        } else {
            self.ran(element, next, turns)
        };
        // One that rests now may have had packets before.
        self.account.end(worked | (moved > 0));
        worked
    }

    /// Runs those tasks first that make room for the packets of a task that brings them from
    /// outside, where there is not enough for a whole frame: when such packets come is chance, so
    /// it changes no result, and else a queue that is full once has packets come and go one at a
    /// time. A task that can make none now does not run, and the queue overflows. Returns true if
    /// any did something.
    #[inline(never)]
    fn make_room(&mut self, element: usize, frame: &mut Frame) -> bool {
        let NodeRuntime { counted, bound, .. } = self.runtimes[element];
        self.room_for_turns(element, counted, bound).0 < frame.limit()
            && self.run_readers(element, element, READERS, frame)
    }

    /// Runs the tasks that read from where `of` sends, but for `task`, which is to run next. Where
    /// they have no room for a packet themselves, they would only lose it there: first those behind
    /// them run.
    fn run_readers(&mut self, task: usize, of: usize, deep: usize, frame: &mut Frame) -> bool {
        let mut worked = false;
        for at in 0..self.nodes[of].limits.len() {
            let Limit { element: at, copies, store } = self.nodes[of].limits[at];
            let holds_some = |held: &dyn Element| {
                held.room() / copies < frame.limit() && held.ready() != Some(0)
            };
            if !store || !self.runtimes[at].element.as_deref().is_some_and(holds_some) {
                continue;
            }
            for reader in 0..self.nodes[at].pullers.here.len() {
                let reader = self.nodes[at].pullers.here[reader];
                if reader == task || !self.tasks.is_ready(reader) {
                    continue;
                }
                if deep > 0 && self.would_overrun(reader) {
                    worked |= self.run_readers(task, reader, deep - 1, frame);
                }
                if self.tasks.is_ready(reader) && !self.would_overrun(reader) {
                    self.tasks.take(reader);
                    worked |= self.run_apart(reader, usize::MAX, frame);
                }
            }
        }
        worked
    }

    /// Returns true if a packet of a task would come to a queue that has no room.
    fn would_overrun(&self, task: usize) -> bool {
        self.nodes[task].limits.iter().any(|limit| {
            let store = self.runtimes[limit.element].element.as_deref();
            limit.store && store.is_some_and(|store| store.room() < limit.copies)
        })
    }

    /// Records the answer of a task that has run; returns true if it did something.
    #[inline(always)]
    pub(super) fn ran(&mut self, element: usize, next: Next, mut turns: u32) -> bool {
        if self.runtimes[element].keeps_pace {
            turns = self.keep_pace(element, turns);
        }
        self.answered(element, next, turns)
    }

    /// As `ran`, for a task that keeps pace with no others.
    #[inline(always)]
    fn answered(&mut self, element: usize, next: Next, turns: u32) -> bool {
        if next == Next::Again {
            self.tasks.again(element, turns);
            return true;
        }
        self.rests(element, next, turns);
        false
    }

    #[inline(never)]
    fn rests(&mut self, element: usize, next: Next, turns: u32) {
        let state = match next {
            Next::Again => TaskState::Ready,
            Next::Idle => {
                let keeps_step = self.runtimes[element].keeps_step;
                let before = if keeps_step { self.turn_of_feeders(element) } else { None };
                return self.tasks.idled(element, before);
            }
            Next::Wait => TaskState::Waiting,
            Next::Sleep => TaskState::Asleep,
        };
        self.tasks.done(element, state, turns);
    }

    /// Returns the number of turns a task has taken at least when it has had the last packet that
    /// it took ([`arrival_times`](crate::runtime::arrival_times)).
    #[cold]
    #[inline(never)]
    fn keep_pace(&mut self, task: usize, mut turns: u32) -> u32 {
        let Context { nodes, runtimes, tasks, .. } = self;
        let waiting = |store: usize| {
            let element = runtimes[store].element.as_ref();
            element.and_then(|element| element.ready()).unwrap_or(0)
        };
        for at in 0..nodes[task].drains.len() {
            let store = nodes[task].drains[at];
            if let Some(came) = nodes[store].arrivals.went(waiting(store)) {
                turns = turns.max(tasks.turns_to(task, came));
            }
        }
        let (first, last) = (tasks.pass_of_turn(task, 1), tasks.pass_of_turn(task, turns));
        for at in 0..nodes[task].feeds.len() {
            let store = nodes[task].feeds[at];
            nodes[store].arrivals.came(waiting(store), first, last);
        }
        turns
    }

    /// Returns the number of packets a task may send in this run, as if each were sent in a run of
    /// its own and other tasks ran in between: its share of the room where they come to wait to be
    /// pulled, and one where there is none any more; and none together with one at which handlers
    /// are called. The second value tells if there is such a one among them.
    #[inline(always)]
    pub(super) fn room_for_turns(
        &self,
        task: usize,
        counted: bool,
        bound: SendLimit,
    ) -> (usize, bool) {
        match bound {
            SendLimit::Store(at) if !counted => {
                let element = &self.runtimes[at as usize].element;
                (element.as_ref().map_or(usize::MAX, |element| element.room().max(1)), false)
            }
            SendLimit::Limits => {
                let (room, alone) = self.least_room(task);
                (room.max(1), alone)
            }
            SendLimit::Open | SendLimit::Store(_) => (usize::MAX, false),
        }
    }

    /// As `room_for_turns`, where several things limit it, and zero where its share of the room is
    /// less than a packet.
    #[inline(never)]
    pub(super) fn least_room(&self, task: usize) -> (usize, bool) {
        let burst = self.runtimes[task].element.as_ref().and_then(|element| element.burst());
        let mut least = usize::MAX;
        let mut alone = false;
        for &Limit { element: at, copies, store } in &self.nodes[task].limits {
            let Some(element) = &self.runtimes[at].element else { continue };
            if store {
                if burst.is_some() {
                    continue;
                }
                least = least.min(element.room() / copies);
                if self.nodes[at].beside {
                    // Packets behind those that wait are not visible yet.
                    least = least.min(element.ready().unwrap_or(0));
                }
            } else {
                let until = element.until_call();
                alone |= until <= burst.unwrap_or(1).saturating_mul(copies);
                least = least.min(until.saturating_sub(1) / copies);
            }
        }
        let least = if burst.is_some() { usize::MAX } else { least };
        (least, alone)
    }

    /// Calls the timers that are due; returns whether there was one. `frame`
    /// is empty before and after.
    pub(crate) fn run_timers(&mut self, now: u64, frame: &mut Frame) -> bool {
        let mut any = false;
        // Those set meanwhile wait for the next round: time may stand still.
        let set_until = self.timers.settings();
        // One of them may end the run.
        while self.driver.count() > 0
            && let Some((element, timer)) = self.timers.due(now, set_until)
        {
            any = true;
            self.account.begin();
            let element = element as usize;
            let alone = self.runtimes[element].one_by_one;
            (self.task, self.pulled) = (element, 0);
            self.with(element, alone, frame, |element, cx, frame| element.timer(cx, timer, frame));
            self.task = usize::MAX;
            self.account.end(true);
        }
        any
    }
}

//! Context: one worker's half of the graph, and its services for elements.
//!
//! Here are its data and the services that touch nothing else. Those that call elements, or ask
//! other workers, are methods that the engine adds: [`Context::pull`], [`Context::send_ahead`],
//! [`Context::read_handler`] and their like.

use std::{any::Any, collections::HashMap, fmt, sync::Arc};

use linerate_memory::{Arena, Frame, HeaderCache, Meta, PoolCache, Slot};

use super::{BuildContext, Element, Exits, Next, NodeRuntime, Plan, RouterHandle, Scope};
use crate::{
    console::Console,
    drop_reason::{DropReason, NoBuffer},
    right::Right,
    runtime::{
        Clock, Driver, Outputs, Rank, Replica,
        account::Account,
        hub::Hub,
        node::{Input, Listeners, Node},
        order::{Number, Order},
        pacing::Search,
        pending::Pending,
        placement::Placement,
        tasks::{TaskState, Tasks},
        timers::Timers,
        waiting::Lists,
    },
};

/// The elements one worker runs and everything they share. Passed to every
/// method of an element; `pool` and `out` are fields of their own so that both
/// can be used while packets of the arena are looked at.
pub struct Context {
    /// The worker's buffers.
    pub pool: PoolCache,
    /// The outputs of the element at work.
    pub out: Outputs,
    /// Time.
    pub clock: Clock,
    /// The end of the run, and the element that decides on it.
    pub driver: Driver,
    pub(crate) plan: Arc<Plan>,
    /// By their place in the plan.
    pub(crate) runtimes: Vec<NodeRuntime>,
    /// By their place in the plan.
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) pending: Pending,
    pub(crate) order: Order,
    pub(crate) tasks: Tasks,
    /// Sources that take their turns together now.
    pub(crate) party: Vec<usize>,
    pub(crate) search: Search,
    pub(crate) timers: Timers,
    pub(crate) account: Account,
    /// Handlers to be written when their elements are no longer at work.
    pub(crate) deferred_writes: Vec<LateWrite>,
    /// The right of the call that an element handles.
    pub(crate) right: Right,
    /// The element at work.
    pub(crate) node: usize,
    /// Set when any element pulled a packet since the current task started.
    pub(crate) delivered: bool,
    /// Whether it is to poll again though nothing was pulled ([`Context::look_again`]).
    pub(crate) looks_again: bool,
    /// Whether packets are on the way that a task or a timer has sent.
    pub(crate) on_the_way: bool,
    /// Tasks to wake when they have arrived, behind the number of the packet for which.
    pub(crate) woken: Vec<(Number, usize)>,
    /// The element whose task runs.
    pub(crate) task: usize,
    /// Packets it has pulled itself.
    pub(crate) pulled: usize,
    /// Packets that were pulled out of where they waited, also those dropped since: turns.
    pub(crate) taken: usize,
    /// Number of the current round.
    pub(crate) round: u64,
    /// Header cache of the packets of the frame that was gone over last.
    pub header_cache: HeaderCache,
    /// Packets that do not go on by output 0, during a [`Step`](crate::Step).
    pub(crate) exits: Exits,
    pub(crate) limit: usize,
    pub(crate) worker: usize,
    pub(crate) hub: Hub<Context>,
    pub(crate) world: Arc<BuildContext>,
    /// The element that is asked to decide when the run count is used up.
    pub(crate) manager: Option<usize>,
    pub(crate) placement: Arc<Placement>,
    pub(crate) replicas: Vec<Option<Replica>>,
    /// Elements to be told when there is nothing to do.
    pub(crate) idlers: Vec<usize>,
    /// Buffers for looking at the events that elements wait for.
    pub(crate) lists: Lists,
    /// Threads of tasks that were written since the start.
    pub(crate) homes: HashMap<usize, usize>,
    /// Configuration strings written since the start.
    pub(crate) configs: HashMap<usize, String>,
    /// The router to ask for another graph; `None` while this one is being made.
    pub(crate) router: Option<Arc<dyn RouterHandle>>,
}

/// A handler written while its element was at work.
pub(crate) struct LateWrite {
    pub(crate) element: usize,
    pub(crate) name: String,
    pub(crate) value: String,
    /// The right of the call that wrote it.
    pub(crate) right: Right,
}

impl Context {
    /// The arena all packets are in.
    #[inline]
    pub fn arena(&self) -> &Arena {
        self.pool.arena()
    }

    /// Most packets in a frame.
    #[inline]
    pub fn frame_limit(&self) -> usize {
        self.limit
    }

    /// The graph being run.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The place of the element at work in the plan.
    pub fn element(&self) -> usize {
        self.node
    }

    /// The name of the element at work.
    pub fn name(&self) -> &str {
        &self.plan.elements[self.node].name
    }

    /// The configuration string of the element at work.
    pub fn config(&self) -> &str {
        self.configs.get(&self.node).unwrap_or(&self.plan.elements[self.node].config)
    }

    /// Changes the configuration string of the element at work, which has already taken the change:
    /// a handler was written that stands for an argument.
    pub fn set_config(&mut self, config: String) {
        self.configs.insert(self.node, config);
    }

    /// Scope of names in a value written to the element at work.
    pub fn scope(&self) -> Scope<'_> {
        Scope { plan: &self.plan, names: &self.world.names, name: self.name() }
    }

    /// This worker's number.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// State that all elements share.
    pub fn world(&self) -> &Arc<BuildContext> {
        &self.world
    }

    /// Console for elements' text for people.
    pub fn console(&self) -> &Console {
        &self.world.console
    }

    /// An empty frame of the largest size.
    pub fn new_frame(&self) -> Frame {
        Frame::new(self.limit)
    }

    /// The time of day in nanoseconds since the epoch. A system clock reading,
    /// some 60 cycles and more: once per frame, not per packet.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// A time in nanoseconds that never goes back, for timers and rates.
    pub fn steady(&self) -> u64 {
        self.clock.steady()
    }

    /// The right of the call that the element handles.
    pub fn right(&self) -> Right {
        self.right
    }

    /// Calls `f` with no more than `right`, which its own calls inherit.
    pub fn with_right<R>(&mut self, right: Right, f: impl FnOnce(&mut Context) -> R) -> R {
        let before = self.right;
        self.right = before.min(right);
        let result = f(self);
        self.right = before;
        result
    }

    /// Calls `f` with every right: it does not act for the caller.
    pub(crate) fn for_another<R>(&mut self, f: impl FnOnce(&mut Context) -> R) -> R {
        let before = std::mem::replace(&mut self.right, Right::ALL);
        let result = f(self);
        self.right = before;
        result
    }

    // Packets

    /// Gives all packets of a frame back. For those that have arrived where
    /// they were meant to.
    #[inline]
    pub fn discard(&mut self, frame: &mut Frame) {
        self.pool.give(frame);
    }

    /// Drops a packet, counted under a reason of the element's class.
    pub fn drop_packet<R: DropReason>(&mut self, slot: Slot, reason: R) {
        self.count_drops(reason, 1);
        self.pool.give_one(slot);
    }

    /// Drops all packets of a frame, counted under a reason of the element's
    /// class.
    pub fn drop_frame<R: DropReason>(&mut self, frame: &mut Frame, reason: R) {
        self.count_drops(reason, frame.len());
        self.pool.give(frame);
    }

    /// Counts packets as dropped that the element has given back itself.
    pub fn count_drops<R: DropReason>(&self, reason: R, packets: usize) {
        let number = if self.declares::<R>() { reason.index() } else { usize::MAX };
        self.account.dropped(self.node, number, packets);
    }

    /// As [`Context::count_drops`], for several reasons: the packets dropped for each, in the order
    /// of [`DropReason::REASONS`].
    pub fn count_drops_by_reason<R: DropReason>(&self, packets: &[usize]) {
        for (number, packets) in packets.iter().enumerate().filter(|(_, packets)| **packets > 0) {
            let number = if self.declares::<R>() { number } else { usize::MAX };
            self.account.dropped(self.node, number, *packets);
        }
    }

    /// Whether these are the drop reasons that the class of the element at work declares. Checked in
    /// debug builds: the reasons of another class count as undeclared, which no test gets by.
    #[inline(always)]
    pub(crate) fn declares<R: DropReason>(&self) -> bool {
        !cfg!(debug_assertions) || self.plan.elements[self.node].class.drops == R::REASONS
    }

    /// Makes every packet of a frame writable; those no buffer can be had for
    /// are dropped for that reason. Packets that are not shared, nearly all,
    /// cost a test each.
    #[inline]
    pub fn unshare<R: DropReason + From<NoBuffer>>(&mut self, frame: &mut Frame) {
        self.unshare_for(frame, R::from(NoBuffer));
    }

    /// As [`Context::unshare`], with the reason.
    #[inline]
    pub(crate) fn unshare_for<R: DropReason>(&mut self, frame: &mut Frame, reason: R) {
        if frame.has_shared() {
            self.unshare_some(frame, reason);
        }
    }

    #[cold]
    fn unshare_some<R: DropReason>(&mut self, frame: &mut Frame, reason: R) {
        let mut failed = Vec::new();
        frame.retain(|slot| self.unshare_one(slot), |slot| failed.push(slot));
        failed.into_iter().for_each(|slot| self.drop_packet(slot, reason));
    }

    /// Makes a packet writable; `false` when no buffer can be had for it.
    #[inline]
    pub fn unshare_one(&mut self, slot: &mut Slot) -> bool {
        if !slot.is_shared() {
            return true;
        }
        let rank = self.rank_of(slot);
        let done = self.pool.unshare(slot);
        self.take_place(slot, rank);
        done
    }

    /// A packet of its own with the same bytes and metadata; `None` when no
    /// buffer is free. Changes `slot` to a shared one.
    pub fn copy(&mut self, slot: &mut Slot) -> Option<Slot> {
        let mut copy = self.pool.share(slot)?;
        if self.unshare_one(&mut copy) {
            return Some(copy);
        }
        self.pool.give_one(copy);
        None
    }

    /// A copy of a packet that is sent before it, by another output. It shares the packet's buffer,
    /// but where ways meet again both have buffers of their own, as far as there are any, and so
    /// places of their own: the copy and packets made of it are in front. For elements that say
    /// [`Copies::Placed`](crate::Copies). `None` when a packet is shared too often.
    #[inline]
    pub fn copy_before(&mut self, slot: &mut Slot) -> Option<Slot> {
        let rank = self.rank_of(slot);
        let mut copy = self.pool.share(slot)?;
        // One by one, all that comes of the copy has arrived before the packet goes on.
        if rank != Rank::default() && !self.out.is_exact() {
            self.place_apart(&mut copy, slot, rank);
        }
        Some(copy)
    }

    #[cold]
    fn place_apart(&mut self, copy: &mut Slot, slot: &mut Slot, rank: Rank) {
        if !self.pool.unshare(copy) {
            return;
        }
        // Others may share the packet's buffer, which keeps its number for them.
        let (first, second) =
            if self.pool.unshare(slot) { rank.pair() } else { (rank.before(), rank) };
        self.take_place(copy, first);
        self.take_place(slot, second);
    }

    /// Resets the annotations of packets that are new in the graph. Costs nothing when no element
    /// of the graph uses annotations.
    #[inline]
    pub fn begin_packets(&mut self, frame: &mut Frame) {
        if self.world.annotated {
            let arena = self.pool.arena();
            let metas = frame.slots_mut().iter_mut().filter_map(|slot| arena.meta_mut(slot));
            metas.for_each(Meta::reset);
        }
    }

    /// The run of the task counts as `turns` at least, also without packets: work that takes as
    /// long as so many packets of other tasks do.
    pub fn take_turns(&mut self, turns: usize) {
        self.taken = self.taken.max(turns);
    }

    /// The number of the round: packets that a task pushes, and all made of them, are in one. Where
    /// frames are not whole, packets that an element has sent on in a round are still on their way
    /// when it gets more of the same round.
    #[inline]
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Packets that are [ready](Element::ready) behind input `port`; elements in between may drop
    /// some of them. `None` when the number is unknown.
    pub fn ready(&self, port: usize) -> Option<usize> {
        let mut sources = &self.nodes[self.node].sources;
        let (mut at, _) = (*sources.get(port)?)?;
        // Packets may be pulled in circles.
        for _ in 0..self.nodes.len() {
            sources = &self.nodes[at].sources;
            match sources[..] {
                [Some((source, _))] if self.plan.elements[at].class.processing == "a/a" => {
                    at = source;
                }
                _ => break,
            }
        }
        self.runtimes[at].element.as_ref()?.ready()
    }

    /// Returns true if no packet comes to wait on this worker before the task at work has had all
    /// packets of its turn: its configuration sets how many these are, and it sends none to where it
    /// takes them from.
    pub fn is_one_turn(&self) -> bool {
        let runtime = self.runtimes.get(self.task);
        runtime.is_some_and(|runtime| runtime.counted) && !self.nodes[self.task].refills
    }

    /// Packets that are [ready](Element::ready) in another element of this worker. `None` when the
    /// number is unknown.
    pub fn ready_in(&self, element: usize) -> Option<usize> {
        self.runtimes.get(element)?.element.as_ref()?.ready()
    }

    // Tasks, timers and signals

    /// Makes the task of the element at work run.
    pub fn schedule(&mut self) {
        self.tasks.wake(self.node);
    }

    /// Makes the task of another element run.
    pub fn schedule_other(&mut self, element: usize) {
        if self.tasks.state(element) != TaskState::Absent {
            self.tasks.wake(element);
        }
    }

    /// Stops the task of the element at work until it is scheduled.
    pub fn unschedule(&mut self) {
        self.tasks.sleep(self.node);
    }

    /// Returns true if the task of the element at work is to run.
    pub fn is_scheduled(&self) -> bool {
        self.tasks.state(self.node) == TaskState::Ready
    }

    /// Calls [`Element::idle`] of the element at work once, when this worker next has nothing to
    /// do: work that can wait until then is done for many frames at a time. Ask once until it
    /// comes.
    pub fn when_idle(&mut self) {
        self.idlers.push(self.node);
    }

    /// Sets how often the task of the element at work runs, relative to
    /// others.
    pub fn set_tickets(&mut self, tickets: u32) {
        self.tasks.set_tickets(self.node, tickets);
    }

    /// Calls [`Element::timer`] of the element at work at `at`, a
    /// [`Context::steady`] time; each element has as many timers as it numbers.
    pub fn set_timer(&mut self, timer: u32, at: u64) {
        self.timers.set(self.node as u32, timer, at);
    }

    /// When that timer is due.
    pub fn timer(&self, timer: u32) -> Option<u64> {
        self.timers.when(self.node as u32, timer)
    }

    /// Forgets a timer.
    pub fn clear_timer(&mut self, timer: u32) {
        self.timers.clear(self.node as u32, timer);
    }

    /// Wakes the tasks that pull from the element at work, also through other elements: there is
    /// something to pull that was not there before.
    #[inline]
    pub fn notify(&mut self) {
        if self.order.is_numbered() && self.on_the_way && !self.out.is_exact() {
            return self.wake_later();
        }
        let Context { nodes, tasks, node, .. } = self;
        nodes[*node].pullers.here.iter().for_each(|task| tasks.wake(*task));
    }

    /// Wakes them when all packets on the way are where they go, in the order of the
    /// packets for which they are woken.
    #[inline(never)]
    fn wake_later(&mut self) {
        let pullers = &self.nodes[self.node].pullers;
        let cause = self.pending.cause;
        self.woken.extend(pullers.here.iter().map(|task| (cause, *task)));
    }

    /// All packets are where they go.
    #[inline(always)]
    pub(crate) fn arrived(&mut self) {
        self.on_the_way = false;
        if !self.woken.is_empty() {
            self.woken.sort_by_key(|(cause, _)| *cause);
            self.woken.drain(..).for_each(|(_, task)| self.tasks.wake(task));
        }
    }

    /// As [`Context::notify`], for those on other workers, which costs a lock
    /// and a system call: only when they are known to sleep.
    #[cold]
    pub fn notify_others(&mut self) {
        self.wake_others(|node| &node.pullers);
    }

    /// Wakes the tasks of other workers that wait for room here.
    #[cold]
    pub fn room_for_others(&mut self) {
        self.wake_others(|node| &node.feeders);
    }

    fn wake_others(&self, of: impl Fn(&Node) -> &Listeners) {
        for &(worker, task) in &of(&self.nodes[self.node]).elsewhere {
            let plan = Arc::clone(&self.plan);
            let wake = move |cx: &mut Context| {
                if Arc::ptr_eq(&plan, &cx.plan) {
                    cx.schedule_other(task);
                } else {
                    // One of the two workers has changed over to another graph
                    // and the other not yet: the number means another task.
                    cx.tasks.wake_all();
                }
            };
            self.hub.post(worker, Box::new(wake));
        }
    }

    /// Marks the element at work as full, or as no longer full, which wakes the tasks that wait for
    /// room.
    #[inline]
    pub fn set_full(&mut self, full: bool) {
        let node = &mut self.nodes[self.node];
        if std::mem::replace(&mut node.full, full) == full || full {
            return;
        }
        let Context { nodes, tasks, node, .. } = self;
        nodes[*node].feeders.here.iter().for_each(|task| tasks.wake(*task));
    }

    /// Returns true if every element that the element at work could push to is full. Never when one
    /// of them does not say so.
    #[inline]
    pub fn is_downstream_full(&self) -> bool {
        let fulls = &self.nodes[self.node].fulls;
        let mut elements = fulls.iter().filter_map(|at| self.runtimes[*at].element.as_ref());
        !fulls.is_empty() && elements.all(|element| element.room() == 0)
    }

    /// Returns the place of a packet among those of its round.
    #[inline]
    pub fn rank_of(&self, slot: &Slot) -> Rank {
        Rank(self.order.number_of(slot, self.pool.arena()))
    }

    /// A packet that the element at work has just made goes right before the one of that
    /// rank, for which it was made, where ways meet again.
    #[inline]
    pub fn put_before(&mut self, made: &Slot, rank: Rank) {
        self.take_place(made, rank.before());
    }

    /// A packet that the element at work has made because of the one of that rank goes in
    /// its place.
    #[inline]
    pub fn take_place(&mut self, made: &Slot, rank: Rank) {
        self.order.keep(rank.0, made, self.pool.arena());
    }

    /// One of several packets that the element at work sends because of the one of that
    /// rank goes in its place among these, counted from 0.
    #[inline]
    pub fn take_part(&mut self, made: &Slot, rank: Rank, part: usize) {
        self.take_place(made, rank.part(part));
    }

    /// As `take_place`, for one that was held, but in its own place when that is behind the one it
    /// waited for: a single packet would have found that there already. Returns the place. Packets
    /// that are let go together are to be sent in the order of their ranks.
    #[inline]
    pub fn let_go(&mut self, held: &Slot, rank: Rank, part: usize) -> Rank {
        let later = self.rank_of(held).max(rank.part(part));
        self.take_place(held, later);
        later
    }

    /// A packet that was made because of another goes on instead of it.
    #[inline]
    pub fn replace(&mut self, slot: &mut Slot, made: Slot) {
        let rank = self.rank_of(slot);
        self.take_place(&made, rank);
        self.pool.give_one(std::mem::replace(slot, made));
    }

    /// Returns the state of a task that found nothing to pull: it sleeps when everything it pulls
    /// from wakes it, unless packets were pulled and lost on the way, behind which there may be
    /// more.
    #[inline]
    pub fn nothing_pulled(&self) -> Next {
        match self.nodes[self.node].may_sleep {
            _ if self.delivered => Next::Again,
            true if !self.looks_again => Next::Sleep,
            _ => Next::Idle,
        }
    }

    /// Lets the task that pulls go on polling: the element at work gives nothing, though there may
    /// be something behind it, and no notifier says when it does.
    pub fn look_again(&mut self) {
        self.looks_again = true;
    }

    /// Makes the element at work the manager of the run: it is asked when the run count is used up
    /// ([`Element::run_ended`]).
    pub fn manage_run(&mut self) {
        self.manager = Some(self.node);
        self.driver.manage();
    }

    // Other elements

    /// Calls `f` with another element of this worker, as its own type. `None` when it is of another
    /// class, on another worker, or at work.
    pub fn with_element<T: Element, R>(
        &mut self,
        element: usize,
        f: impl FnOnce(&mut T, &mut Context) -> R,
    ) -> Option<R> {
        let mut taken = self.runtimes.get_mut(element)?.take()?;
        let node = std::mem::replace(&mut self.node, element);
        let any: &mut dyn Any = &mut *taken;
        let result = any.downcast_mut().map(|element| f(element, self));
        self.node = node;
        self.runtimes[element].put(taken);
        result
    }

    /// Whether this worker has a part of another element.
    pub fn has_element(&self, element: usize) -> bool {
        self.replicas.get(element).is_some_and(Option::is_some)
    }

    /// Calls `f` with another element, as what it is, on each other worker that has a part of it, as
    /// soon as that looks at its mailbox: costs a lock and a system call each. A worker that has changed
    /// over to another graph has the element of the same name there, or none.
    #[cold]
    pub fn with_element_elsewhere<T: Element>(
        &self,
        element: usize,
        f: impl FnOnce(&mut T, &mut Context) + Clone + Send + 'static,
    ) {
        let others = self.placement.workers_of(element).filter(|worker| *worker != self.worker);
        for worker in others {
            let (plan, f) = (Arc::clone(&self.plan), f.clone());
            let call = move |cx: &mut Context| {
                let at = if Arc::ptr_eq(&plan, &cx.plan) {
                    Some(element)
                } else {
                    cx.plan.find(&plan.elements[element].name)
                };
                if let Some(at) = at {
                    cx.with_element(at, f);
                }
            };
            self.hub.post(worker, Box::new(call));
        }
    }

    /// Calls `f` with `element`, which is at work, in its place among the
    /// others, so that it can be called again meanwhile: handlers that it calls
    /// may call its own.
    pub fn stand_in<T: Element + Default, R>(
        &mut self,
        element: &mut T,
        f: impl FnOnce(&mut Context) -> R,
    ) -> R {
        let node = self.node;
        self.runtimes[node].put(Box::new(std::mem::take(element)));
        let result = f(self);
        let back = self.runtimes[node].take().map(|back| -> Box<dyn Any> { back });
        if let Some(Ok(back)) = back.map(Box::<dyn Any>::downcast) {
            *element = *back;
        }
        result
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("worker", &self.worker)
            .field("elements", &self.runtimes.len())
            .finish_non_exhaustive()
    }
}

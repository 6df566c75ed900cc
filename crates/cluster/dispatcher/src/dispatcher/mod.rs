//! Dispatcher: enqueues packets to consumers and reclaims the buffers they return.

mod clients;
mod declare;
mod endpoint;
mod inline;
mod link;
#[cfg(test)]
mod tests;

use std::{cell::Cell, io, os::fd::OwnedFd, sync::Arc};

use linerate_memory::{
    Arena, Frame, PoolCache,
    shared::{AttachError, Server},
};
use linerate_port::peer::event;

pub(crate) use self::{clients::AttachedConsumer, declare::Use};
use self::{
    declare::{Balancer, Target},
    endpoint::Endpoint,
    link::Link,
};
pub use self::{
    endpoint::Granted,
    inline::{DrainResult, DropCounts, InlineConfig},
};
use crate::{
    figures::{FigureBoard, Figures},
    wire::Access,
};

/// Buffers that the broker's thread keeps at hand.
const CACHE: usize = 64;
/// Batch size for freeing packets without a recipient.
const UNHEARD: usize = 64;
/// Buffers that a consumer may hold before the server looks for returned ones, if that is not more
/// than half of its limit. A look reads a word that another processor writes: it takes some hundred
/// cycles. The broker's thread looks now and then besides.
const OUT: usize = 160;

/// Recipients of each packet of a frame, as a bitmap over all balancers.
#[derive(Debug)]
pub struct Recipients<'a> {
    /// For each packet the bits of consumers, counted through all balancers, of which there are 64 at
    /// most.
    pub by: &'a [u64],
    /// Packets that are not wanted by the consumers that would get them.
    pub unwanted: &'a mut Frame,
}

/// The server's side of all consumers of an arena.
#[derive(Debug)]
pub struct Dispatcher {
    server: Server,
    pool: PoolCache,
    endpoints: Vec<Option<Endpoint>>,
    balancers: Vec<Option<Balancer>>,
    board: FigureBoard,
    /// Configurations that are not whole yet: no client is attached meanwhile, and none told to go.
    holds: usize,
    /// Wakes the broker's thread.
    alarm: Arc<OwnedFd>,
    /// For each packet of a frame which members are to get it, and which endpoints are to get a
    /// copy.
    to: Vec<u64>,
    copies: Vec<u64>,
    /// The endpoints without a consumer that would have got it.
    missing: Vec<u64>,
    unheard: Frame,
}

impl Dispatcher {
    pub(crate) fn new(arena: &Arena, alarm: Arc<OwnedFd>) -> Result<Dispatcher, AttachError> {
        Ok(Dispatcher {
            server: Server::new(arena)?,
            pool: arena.cache(CACHE),
            endpoints: Vec::new(),
            balancers: Vec::new(),
            board: FigureBoard::create(arena.count())?,
            holds: 0,
            alarm,
            to: Vec::new(),
            copies: Vec::new(),
            missing: Vec::new(),
            unheard: Frame::new(UNHEARD),
        })
    }

    pub(crate) fn arena(&self) -> &Arena {
        self.pool.arena()
    }

    pub(crate) fn figures_file(&self) -> io::Result<OwnedFd> {
        self.board.file()
    }

    /// Returns true if an element grants its consumer writing packets in place.
    fn grants_writing(&self) -> bool {
        let mut endpoints = self.endpoints.iter().flatten().filter(|endpoint| endpoint.users > 0);
        endpoints.any(|endpoint| endpoint.granted().access == Access::Write)
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds > 0
    }

    pub(crate) fn hold(&mut self) {
        self.holds += 1;
    }

    pub(crate) fn let_go(&mut self) {
        self.holds -= 1;
        event::set(&self.alarm);
    }

    pub(crate) fn endpoint(&mut self, endpoint: usize) -> &mut Endpoint {
        self.endpoints[endpoint].as_mut().expect("an endpoint in use")
    }

    // Packets that are shared out

    /// Gives each packet of a frame to a consumer of each of these balancers, chosen by `hashes`.
    /// Packets with a recipient leave the frame. Packets for which no consumer is attached go to
    /// `absent`, those for which no consumer had room stay. With `all` it ends at the first packet
    /// that not all of its consumers have room for, and returns how many have left the frame
    /// because they were too long for all of theirs.
    pub fn share_out(
        &mut self,
        balancers: &[usize],
        hashes: &[u64],
        all: bool,
        pool: &mut PoolCache,
        frame: &mut Frame,
        absent: &mut Frame,
    ) -> usize {
        self.share_out_wanted(balancers, hashes, None, all, pool, frame, absent)
    }

    /// As [`Dispatcher::share_out`], for packets of which some are not wanted by all consumers.
    #[allow(
        clippy::too_many_arguments,
        reason = "what is shared out, among whom, and what is left"
    )]
    pub fn share_out_wanted(
        &mut self,
        balancers: &[usize],
        hashes: &[u64],
        wanted: Option<Recipients<'_>>,
        all: bool,
        pool: &mut PoolCache,
        frame: &mut Frame,
        absent: &mut Frame,
    ) -> usize {
        self.take_back(balancers, pool, frame.len());
        let (by, unwanted) = wanted.map_or((&[][..], None), |of| (of.by, Some(of.unwanted)));
        let chosen = self.choose(balancers, hashes, by, frame.len());
        if chosen.missing != 0 || unwanted.is_some() {
            self.set_aside(pool, frame, absent, unwanted);
        }
        let (copies, mut too_long) = (chosen.copies != 0, 0);
        if copies {
            if all {
                self.hold_back(frame.len());
            }
            too_long = self.copy_out(all, pool, frame);
        }
        self.server.enqueue_batch(&mut self.to, all, pool, frame);
        if chosen.missing != 0 {
            self.count_missing(all);
        }
        if copies {
            // Some of the packets left, in their order, have gone out as copies.
            let left = self.to.iter().zip(&self.copies).filter(|(to, _)| **to == 0);
            let mut left = left.map(|(_, copies)| *copies == 0);
            frame.retain(|_| left.next().unwrap_or(true), |slot| pool.give_one(slot));
        }
        self.after(balancers);
        too_long
    }

    /// Chooses the recipients of each of so many packets. Returns the union of their targets.
    fn choose(
        &mut self,
        balancers: &[usize],
        hashes: &[u64],
        wanted: &[u64],
        count: usize,
    ) -> Target {
        let Dispatcher { to, copies, missing, balancers: all, .. } = self;
        for list in [&mut *to, &mut *copies, &mut *missing] {
            list.clear();
            list.resize(count, 0);
        }
        let mut any = Target::default();
        let mut before = 0;
        for &at in balancers {
            let Some(balancer) = &mut all[at] else { continue };
            // Bits of its consumers among all.
            let first = before;
            before += balancer.endpoints.len();
            let there = balancer.targets.iter().fold(Target::default(), |any, of| any.with(*of));
            // All are there and share memory: the usual case.
            let only_lent = there.copies | there.missing == 0;
            if let ([target], true, true) = (&balancer.targets[..], only_lent, wanted.is_empty()) {
                to.iter_mut().for_each(|to| *to |= target.to);
            } else if only_lent && wanted.is_empty() && hashes.len() >= count {
                for (to, &hash) in to.iter_mut().zip(hashes) {
                    *to |= balancer.choose(Some(hash)).1.to;
                }
            } else {
                let lists = to.iter_mut().zip(&mut *copies).zip(&mut *missing);
                for (number, ((to, copies), missing)) in lists.enumerate() {
                    let wanted = wanted.get(number).map_or(u64::MAX, |wanted| wanted >> first);
                    // A packet that none of them wants takes no turn.
                    if wanted & u64::MAX >> (64 - balancer.endpoints.len().max(1)) == 0 {
                        continue;
                    }
                    let (consumer, target) = balancer.choose(hashes.get(number).copied());
                    if wanted >> consumer & 1 == 0 {
                        continue;
                    }
                    *to |= target.to;
                    *copies |= target.copies;
                    *missing |= target.missing;
                }
            }
            any = any.with(there);
        }
        any
    }

    /// Moves packets out of the frame whose consumer is absent, or that are not wanted.
    fn set_aside(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        absent: &mut Frame,
        mut unwanted: Option<&mut Frame>,
    ) {
        let is_for_somebody = |(to, copies): (&u64, &u64)| to | copies != 0;
        let chosen = self.to.iter().zip(&self.copies).map(is_for_somebody);
        if chosen.clone().all(|there| there) {
            return;
        }
        let mut left = chosen.zip(&self.missing);
        let is_missing = Cell::new(false);
        frame.retain(
            |_| {
                let (stays, missing) = left.next().unwrap_or((true, &0));
                is_missing.set(*missing != 0);
                stays
            },
            |slot| {
                let to = unwanted.as_deref_mut().filter(|_| !is_missing.get());
                let _ = to.unwrap_or(absent).push(slot).map_err(|slot| pool.give_one(slot));
            },
        );
        let mut kept = 0;
        for at in 0..self.to.len() {
            if self.to[at] | self.copies[at] != 0 {
                self.to.swap(kept, at);
                self.copies.swap(kept, at);
                self.missing.swap(kept, at);
                kept += 1;
            } else {
                count_missing(&mut self.endpoints, self.missing[at]);
            }
        }
        for list in [&mut self.to, &mut self.copies, &mut self.missing] {
            list.truncate(kept);
        }
    }

    /// Counts packets for endpoints without a consumer: with `all` those that stay in the frame
    /// will come again.
    fn count_missing(&mut self, all: bool) {
        for ((to, copies), missing) in self.to.iter().zip(&self.copies).zip(&self.missing) {
            if !all || to | copies != 0 {
                count_missing(&mut self.endpoints, *missing);
            }
        }
    }

    /// Clears the recipients of the first packet that one of its consumers has no room for, and of
    /// those behind it.
    fn hold_back(&mut self, count: usize) {
        let mut sharing = [usize::MAX; 64];
        let mut isolated = [usize::MAX; 64];
        for (at, endpoint) in self.endpoints.iter_mut().enumerate() {
            let Some(link) = endpoint.as_mut().and_then(|endpoint| endpoint.consumer_slot.taken())
            else {
                continue;
            };
            // A consumer that is to be ended does not delay the others.
            let room = link.room(&mut self.server, count);
            let room = if link.is_broken(&self.server) { usize::MAX } else { room };
            match link {
                Link::Sharing(id) => sharing[id.bit().trailing_zeros() as usize] = room,
                Link::Isolated(_) => isolated[at] = room,
            }
        }
        let takes = |rooms: &mut [usize; 64], bits: u64| {
            let of_them = |at: &usize| bits >> at & 1 != 0;
            let fits = (0..64).filter(of_them).all(|at| rooms[at] > 0);
            (0..64).filter(of_them).for_each(|at| rooms[at] = rooms[at].saturating_sub(1));
            fits
        };
        let fit =
            |(to, copies): (&u64, &u64)| takes(&mut sharing, *to) & takes(&mut isolated, *copies);
        let stop = self.to.iter().zip(&self.copies).map(fit).position(|fits| !fits);
        let stop = stop.unwrap_or(self.to.len());
        self.to[stop..].fill(0);
        self.copies[stop..].fill(0);
    }

    /// Copies packets to isolated consumers, and leaves in `copies` the bits of those that have got
    /// one. With `all` also of those for whose buffers a packet is too long: they would wait for it
    /// for ever. Returns how many packets were too long for all of their consumers.
    fn copy_out(&mut self, all: bool, pool: &PoolCache, frame: &mut Frame) -> usize {
        let (mut anybody, mut too_long) = (0, 0);
        let arena = pool.arena();
        for ((slot, to), copies) in frame.slots_mut().iter_mut().zip(&self.to).zip(&mut self.copies)
        {
            anybody |= *copies;
            let mut got = 0;
            for at in endpoints_of(*copies) {
                let Some(endpoint) = self.endpoints[at].as_mut() else { continue };
                let Some(Link::Isolated(isolated)) = endpoint.consumer_slot.taken() else {
                    continue;
                };
                let packet = arena.packet(slot);
                if let Some(index) = isolated.enqueue(packet, arena.meta(slot).timestamp) {
                    got |= 1 << at;
                    let original = endpoint.originals.get_mut(index as usize);
                    if let Some(original) = original.filter(|_| endpoint.listeners > 0) {
                        *original = pool.share(slot);
                    }
                } else if !all || packet.len() <= isolated.longest() {
                    *copies &= !(1 << at);
                }
            }
            too_long += usize::from(*copies != 0 && got | *to == 0);
        }
        for at in endpoints_of(anybody) {
            let link =
                self.endpoints[at].as_mut().and_then(|endpoint| endpoint.consumer_slot.taken());
            if let Some(Link::Isolated(isolated)) = link {
                isolated.publish();
            }
        }
        too_long
    }

    /// Takes back the buffers returned by consumers that no element receives from, where `count`
    /// packets more would make them [many](OUT).
    fn take_back(&mut self, balancers: &[usize], pool: &mut PoolCache, count: usize) {
        for &at in balancers {
            let endpoints =
                self.balancers[at].as_ref().map_or(0, |balancer| balancer.endpoints.len());
            for number in 0..endpoints {
                let Some(balancer) = &self.balancers[at] else { continue };
                let at = balancer.endpoints[number];
                let Some(endpoint) = &mut self.endpoints[at] else { continue };
                let cells = endpoint.cells;
                let Some(link) = endpoint.consumer_slot.link() else { continue };
                link.expect(&self.server, count / endpoints);
                if link.held(&self.server) + count > OUT.min(cells / 2) {
                    self.take_unheard(at, Some(pool));
                }
            }
        }
    }

    /// Takes back the buffers a consumer has returned, unless there is an element that does.
    fn take_unheard(&mut self, at: usize, pool: Option<&mut PoolCache>) {
        let Some(endpoint) = self.endpoints[at].as_mut().filter(|endpoint| endpoint.listeners == 0)
        else {
            return;
        };
        let Some(link) = endpoint.consumer_slot.link() else { return };
        let pool = pool.unwrap_or(&mut self.pool);
        let (server, unheard) = (&mut self.server, &mut self.unheard);
        let (unheard, lost) = link.receive(server, &mut endpoint.originals, pool, unheard);
        if unheard + lost > 0 {
            endpoint.figures.sent += (unheard + lost) as u64;
            endpoint.figures.sent_bytes += self.unheard.bytes();
            endpoint.figures.unheard += (unheard + lost) as u64;
            pool.give(&mut self.unheard);
        }
    }

    // Figures

    /// Figures behind a frame, and an alarm where a ring was found broken.
    fn after(&mut self, balancers: &[usize]) {
        for &at in balancers {
            let endpoints =
                self.balancers[at].as_ref().map_or(0, |balancer| balancer.endpoints.len());
            for number in 0..endpoints {
                let Some(balancer) = &self.balancers[at] else { continue };
                self.publish_as(balancer.endpoints[number], Link::waiting_at_most);
            }
        }
    }

    /// The figures of an endpoint's consumers, up to date.
    pub(crate) fn figures(&mut self, at: usize) -> Figures {
        self.publish(at);
        self.endpoint(at).figures
    }

    /// Brings the figures of an endpoint up to date.
    fn publish(&mut self, at: usize) {
        self.publish_as(at, |link, server, _| link.waiting(server));
    }

    /// Brings the figures of an endpoint up to date, with waiting packets counted by `waiting`.
    fn publish_as(&mut self, at: usize, waiting: impl Fn(&mut Link, &mut Server, usize) -> usize) {
        let Some(endpoint) = &mut self.endpoints[at] else { return };
        let (server, cells) = (&mut self.server, endpoint.cells);
        let stays = endpoint.consumer_slot.taken().is_some();
        if let Some(link) = endpoint.consumer_slot.link() {
            let (held, waiting) = (link.held(server) as u64, waiting(link, server, cells) as u64);
            if stays && link.is_broken(server) {
                event::set(&self.alarm);
            }
            let tally = link.tally(server);
            endpoint.count(tally);
            (endpoint.figures.held, endpoint.figures.waiting) = (held, waiting);
        }
        self.board.set_figures(at, &endpoint.figures);
    }

    // Packets that consumers send

    /// Packets that the consumer of an endpoint has sent go to the end of `frame`, as many as there
    /// is room for; returns how many. It gets buffers for more. Those of the last time have been
    /// taken on by now.
    pub fn receive(&mut self, at: usize, pool: &mut PoolCache, frame: &mut Frame) -> usize {
        let server = &mut self.server;
        let endpoint = self.endpoints[at].as_mut().expect("an endpoint in use");
        endpoint.has_arrived();
        let Some(link) = endpoint.consumer_slot.link() else { return 0 };
        let before = frame.bytes();
        let (received, lost) = link.receive(server, &mut endpoint.originals, pool, frame);
        let is_broken = link.is_broken(server);
        endpoint.on_the_way = received > 0;
        endpoint.figures.sent += (received + lost) as u64;
        endpoint.figures.unheard += lost as u64;
        endpoint.figures.sent_bytes += frame.bytes() - before;
        endpoint.owed = endpoint.spare.min(endpoint.owed + (received + lost) as u32);
        let owed = endpoint.owed;
        if let Some(link) = endpoint.consumer_slot.taken().filter(|_| owed > 0) {
            endpoint.owed -= link.supply(server, pool, owed);
        }
        if received + lost > 0 || is_broken {
            self.publish(at);
        }
        received
    }

    /// Arms the wake-up of the element that receives from an endpoint: `false` when there is
    /// something.
    pub fn arm(&mut self, at: usize) -> bool {
        let endpoint = self.endpoints[at].as_mut().expect("an endpoint in use");
        let Some(link) = endpoint.consumer_slot.taken() else { return true };
        let sleeps = link.arm(&mut self.server);
        if link.is_broken(&self.server) {
            event::set(&self.alarm);
        }
        sleeps
    }

    // Packets that consumers are asked about

    /// Queues packets of an element that wait for the verdict of an endpoint's consumer. Packets without
    /// room stay in the frame.
    pub(crate) fn ask_consumer(
        &mut self,
        at: usize,
        queue: usize,
        pool: &mut PoolCache,
        frame: &mut Frame,
    ) {
        let Endpoint { consumer_slot, inline, figures, .. } =
            self.endpoints[at].as_mut().expect("an endpoint in use");
        let inline = inline.as_mut().expect("as long as somebody uses it");
        inline.ask(queue, consumer_slot.taken(), &mut self.server, pool, frame, figures);
    }

    /// Removes the queue of an element that ends; its packets are given back.
    pub(crate) fn leave_queue(&mut self, at: usize, queue: usize) {
        let endpoint = self.endpoints[at].as_mut().expect("an endpoint in use");
        if let Some(inline) = &mut endpoint.inline {
            inline.leave(queue, &mut self.pool);
        }
    }

    /// Takes the consumer's answers. Packets of a queue with a verdict, or whose time is over,
    /// leave by `frame`, as far as it has room.
    pub(crate) fn drain_queue(
        &mut self,
        at: usize,
        queue: usize,
        pool: &mut PoolCache,
        frame: &mut Frame,
    ) -> DrainResult {
        let Endpoint { consumer_slot, inline, figures, .. } =
            self.endpoints[at].as_mut().expect("an endpoint in use");
        let inline = inline.as_mut().expect("as long as somebody uses it");
        if let Some(link) = consumer_slot.link() {
            inline.receive_answers(link, &mut self.server, pool, figures);
        }
        let settled = inline.drain(queue, pool, frame, figures);
        self.publish(at);
        settled
    }
}

/// Counts a packet at endpoints without a consumer.
fn count_missing(endpoints: &mut [Option<Endpoint>], missing: u64) {
    for at in endpoints_of(missing) {
        if let Some(endpoint) = &mut endpoints[at] {
            endpoint.figures.lost_absent += 1;
        }
    }
}

/// The endpoints that bits are of.
fn endpoints_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        at
    })
}

/// The first place that is free in a list with a limit.
fn free<T>(list: &mut Vec<Option<T>>, limit: usize) -> Option<usize> {
    let at = list.iter().position(Option::is_none).unwrap_or(list.len());
    if at == list.len() {
        if at == limit {
            return None;
        }
        list.push(None);
    }
    Some(at)
}

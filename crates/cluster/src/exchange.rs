//! What goes to which consumer, and what has come back.

use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
};

use linerate_memory::{
    Arena, Frame, PoolCache,
    shared::{Access, AttachError, CELLS_MAX, Files, MemberId, Server, Tally},
};
use linerate_port::peer::event::{self, Gathered};

use crate::{
    balance::Balance,
    broker::Broker,
    figures::{BALANCERS, FigureBoard, Figures, LINES, Share},
    wire::{Reason, WEIGHTS_MAX, is_name},
};

/// Buffers that the broker's thread keeps at hand.
const CACHE: usize = 64;
/// Packets nobody receives that are given back in one go.
const UNHEARD: usize = 64;

/// What a consumer of some name gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Whether it may write to packets that are its alone.
    pub access: Access,
    /// Most buffers it holds at a time.
    pub cells: u32,
}

/// Who is in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seat {
    Empty,
    Taken(MemberId),
    /// Was told to go; may write to what it holds until its process has ended.
    Leaving(MemberId),
}

impl Seat {
    fn member(self) -> Option<MemberId> {
        match self {
            Seat::Empty => None,
            Seat::Taken(id) | Seat::Leaving(id) => Some(id),
        }
    }
}

/// A name that a program can attach as.
#[derive(Debug)]
struct Place {
    name: String,
    /// What elements that send to it have said; nothing where it only sends.
    granted: Option<Granted>,
    /// Elements that send to it or receive from it, and those that receive.
    users: usize,
    listeners: usize,
    seat: Seat,
    /// Empty buffers it is to have for packets of its own, and those of them it has yet to get.
    spare: u32,
    owed: u32,
    /// What of its member's tally is in the figures.
    seen: Tally,
    figures: Figures,
    /// Wakes whoever receives from it: that somebody was attached, or has sent.
    news: OwnedFd,
    events: Arc<Gathered>,
}

/// Several places among which packets are shared out.
#[derive(Debug)]
struct Balancer {
    name: String,
    users: usize,
    places: Vec<usize>,
    balance: Balance,
    /// The weights its element was configured with: others may have been chosen since.
    configured: Vec<u32>,
    /// Whether hashes choose, or the turn.
    by_hash: bool,
    turn: u64,
}

/// The server's side of all consumers of an arena.
#[derive(Debug)]
pub struct Exchange {
    server: Server,
    pool: PoolCache,
    places: Vec<Option<Place>>,
    balancers: Vec<Option<Balancer>>,
    board: FigureBoard,
    /// Wakes the broker's thread.
    alarm: Arc<OwnedFd>,
    /// For each packet of a frame who is to get it.
    to: Vec<u64>,
    unheard: Frame,
}

impl Exchange {
    pub(crate) fn new(arena: &Arena, alarm: Arc<OwnedFd>) -> Result<Exchange, AttachError> {
        Ok(Exchange {
            server: Server::new(arena)?,
            pool: arena.cache(CACHE),
            places: Vec::new(),
            balancers: Vec::new(),
            board: FigureBoard::create(arena.count())?,
            alarm,
            to: Vec::new(),
            unheard: Frame::new(UNHEARD),
        })
    }

    pub(crate) fn arena(&self) -> &Arena {
        self.pool.arena()
    }

    pub(crate) fn figures_file(&self) -> io::Result<OwnedFd> {
        self.board.file()
    }

    fn place(&mut self, place: usize) -> &mut Place {
        self.places[place].as_mut().expect("a place somebody uses")
    }

    // Declarations

    /// A place of that name for one more element.
    fn join(&mut self, name: &str, granted: Option<Granted>) -> Result<usize, String> {
        if !is_name(name) {
            return Err(format!("`{name}` is no name: 1 to 63 letters, digits, and -_./@"));
        }
        let found = self
            .places
            .iter()
            .position(|place| place.as_ref().is_some_and(|place| place.name == name));
        let at = match found {
            Some(at) => at,
            None => self.add_place(name)?,
        };
        let place = self.place(at);
        place.users += 1;
        place.granted = granted.or(place.granted);
        Ok(at)
    }

    fn add_place(&mut self, name: &str) -> Result<usize, String> {
        let failed = |error: io::Error| format!("consumer `{name}`: {error}");
        let news = event::new().map_err(failed)?;
        let events = Arc::new(Gathered::of(&[&news]).map_err(failed)?);
        let at =
            free(&mut self.places, LINES).ok_or_else(|| format!("more than {LINES} consumers"))?;
        self.places[at] = Some(Place {
            name: name.into(),
            granted: None,
            users: 0,
            listeners: 0,
            seat: Seat::Empty,
            spare: 0,
            owed: 0,
            seen: Tally::default(),
            figures: Figures::default(),
            news,
            events,
        });
        self.board.set_figures(at, &Figures::default());
        self.board.set_line(at, name);
        Ok(at)
    }

    fn leave(&mut self, at: usize) {
        let place = self.place(at);
        place.users -= 1;
        if place.users == 0 {
            event::set(&self.alarm);
        }
    }

    fn join_balancer(
        &mut self,
        name: &str,
        places: &[usize],
        weights: &[u32],
        by_hash: bool,
    ) -> Result<usize, String> {
        let found = self
            .balancers
            .iter()
            .position(|balancer| balancer.as_ref().is_some_and(|balancer| balancer.name == name));
        if let Some(at) = found {
            let balancer = self.balancers[at].as_mut().expect("found above");
            balancer.users += 1;
            balancer.by_hash = by_hash;
            if balancer.places != places {
                balancer.places = places.to_vec();
                balancer.balance = Balance::new(weights);
            } else if balancer.configured != weights {
                balancer.balance.weigh(weights);
            }
            balancer.configured = weights.to_vec();
            self.settle(at);
            return Ok(at);
        }
        if !is_name(name) {
            return Err(format!("`{name}` is no name: 1 to 63 letters, digits, and -_./@"));
        }
        let at = free(&mut self.balancers, BALANCERS)
            .ok_or_else(|| format!("more than {BALANCERS} balancers"))?;
        self.balancers[at] = Some(Balancer {
            name: name.into(),
            users: 1,
            places: places.to_vec(),
            balance: Balance::new(weights),
            configured: weights.to_vec(),
            by_hash,
            turn: 0,
        });
        self.settle(at);
        Ok(at)
    }

    fn leave_balancer(&mut self, at: usize) {
        let Some(balancer) = &mut self.balancers[at] else { return };
        balancer.users -= 1;
        if balancer.users == 0 {
            self.balancers[at] = None;
            self.board.set_balancer(at, "", &[]);
        }
    }

    /// Tells a balancer who is there.
    fn settle(&mut self, at: usize) {
        let Some(balancer) = &mut self.balancers[at] else { return };
        for (number, &place) in balancer.places.iter().enumerate() {
            let seat = self.places[place].as_ref().map(|place| place.seat);
            balancer.balance.set_present(number, matches!(seat, Some(Seat::Taken(_))));
        }
        self.show(at);
    }

    /// Shows what a balancer does.
    fn show(&self, at: usize) {
        let Some(balancer) = &self.balancers[at] else { return };
        let weights = balancer.balance.weights().iter().zip(balancer.balance.shares());
        let share = |(&line, (&weight, buckets)): (&usize, (&u32, usize))| {
            // A line is a place.
            Share { line, weight, buckets }
        };
        let shares: Vec<Share> = balancer.places.iter().zip(weights).map(share).collect();
        self.board.set_balancer(at, &balancer.name, &shares);
    }

    /// Somebody has come to a place, or gone from it.
    fn seat(&mut self, at: usize, seat: Seat) {
        self.place(at).seat = seat;
        let of_it = |balancer: &Option<Balancer>| {
            balancer.as_ref().is_some_and(|balancer| balancer.places.contains(&at))
        };
        for number in 0..self.balancers.len() {
            if of_it(&self.balancers[number]) {
                self.settle(number);
            }
        }
        event::set(&self.place(at).news);
    }

    // Clients

    /// Takes in a client as the consumer of that name. What is to be handed to it, its place and what it
    /// may do.
    pub(crate) fn admit(
        &mut self,
        name: &str,
        wanted: Option<Access>,
        socket: BorrowedFd<'_>,
        process: u64,
    ) -> Result<Admitted, (Reason, String)> {
        let found = self.places.iter().position(|place| {
            place.as_ref().is_some_and(|place| place.users > 0 && place.name == name)
        });
        let at = found.ok_or_else(|| (Reason::Unknown, self.names()))?;
        let place = self.place(at);
        if place.seat != Seat::Empty {
            let text = format!("process {} has it", place.figures.process);
            return Err((Reason::Taken, text));
        }
        let mut granted = place.granted.unwrap_or(Granted { access: Access::Write, cells: 1 });
        if granted.access == Access::Write {
            granted.cells = granted.cells.saturating_add(place.spare).min(CELLS_MAX);
        }
        if wanted == Some(Access::Write) && granted.access == Access::Read {
            return Err((Reason::NotGranted, "consumers of that name only read".into()));
        }
        let access = wanted.unwrap_or(granted.access);
        let admitted = match self.server.admit_from(socket, access, granted.cells) {
            // Who takes what there is may read.
            Err(AttachError::Stranger(_)) if wanted.is_none() => {
                let read = self.server.admit_from(socket, Access::Read, granted.cells);
                read.map(|(id, files)| (id, files, Access::Read))
            }
            admitted => admitted.map(|(id, files)| (id, files, access)),
        };
        let (id, files, access) = admitted.map_err(|error| {
            let reason = match &error {
                AttachError::Stranger(_) => Reason::Stranger,
                AttachError::Memory(linerate_memory::MemoryError::Option { .. }) => Reason::Full,
                _ => Reason::System,
            };
            (reason, error.to_string())
        })?;
        let place = self.places[at].as_mut().expect("found above");
        if let Err(error) = place.events.add(self.server.event(id)) {
            self.server.remove(id, &mut self.pool);
            return Err((Reason::System, error.to_string()));
        }
        place.seen = Tally::default();
        place.owed = if access == Access::Write { place.spare } else { 0 };
        let figures = &mut place.figures;
        figures.state = 1;
        figures.process = process;
        figures.writes = u64::from(access == Access::Write);
        figures.cells = u64::from(granted.cells.next_power_of_two());
        figures.attached += 1;
        let spare = place.owed;
        self.seat(at, Seat::Taken(id));
        self.supply(at, id);
        self.publish(at);
        Ok(Admitted { place: at, id, files, access, spare })
    }

    /// The names there are, for who asked for another.
    fn names(&self) -> String {
        let names: Vec<&str> =
            self.places.iter().flatten().map(|place| place.name.as_str()).collect();
        match names.len() {
            0 => "there are none".into(),
            _ => format!("there are {}", names.join(", ")),
        }
    }

    /// The process of a consumer has ended, or can do no harm: all it held is taken back.
    pub(crate) fn remove(&mut self, at: usize, id: MemberId) {
        let held = self.server.held(id);
        self.count(at, id);
        self.server.remove(id, &mut self.pool);
        let place = self.place(at);
        let figures = &mut place.figures;
        (figures.state, figures.held, figures.waiting) = (0, 0, 0);
        figures.died += u64::from(held > 0);
        figures.reclaimed += held as u64;
        self.seat(at, Seat::Empty);
        let place = self.place(at);
        let figures = place.figures;
        self.board.set_figures(at, &figures);
    }

    /// Lends a consumer nothing more. Returns whether it could write: then it has to end before it can be
    /// [removed](Exchange::remove).
    pub(crate) fn end(&mut self, at: usize, id: MemberId) -> bool {
        self.place(at).figures.state = 2;
        self.seat(at, Seat::Leaving(id));
        self.publish(at);
        self.place(at).figures.writes == 1
    }

    /// Consumers that are to be ended, and why: their rings are broken, or no element uses them.
    pub(crate) fn to_end(&self) -> Vec<(usize, MemberId, Reason)> {
        let reason = |(at, place): (usize, &Option<Place>)| {
            let place = place.as_ref()?;
            let Seat::Taken(id) = place.seat else { return None };
            let reason = match () {
                () if self.server.is_broken(id) => Reason::Broken,
                () if place.users == 0 => Reason::Gone,
                () => return None,
            };
            Some((at, id, reason))
        };
        self.places.iter().enumerate().filter_map(reason).collect()
    }

    /// Everybody that is attached.
    pub(crate) fn attached(&self) -> Vec<(usize, MemberId)> {
        let member =
            |(at, place): (usize, &Option<Place>)| Some((at, place.as_ref()?.seat.member()?));
        self.places.iter().enumerate().filter_map(member).collect()
    }

    /// The consumers there can be, and the process that is each of them.
    pub fn consumers(&self) -> Vec<(String, Option<u64>)> {
        let consumer = |place: &Place| {
            let process = (place.seat != Seat::Empty).then_some(place.figures.process);
            (place.name.clone(), process)
        };
        self.places.iter().flatten().filter(|place| place.users > 0).map(consumer).collect()
    }

    /// Whether somebody is attached as that consumer.
    pub fn is_attached(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The place of that name, if somebody is attached there.
    pub(crate) fn find(&self, name: &str) -> Option<(usize, MemberId)> {
        self.attached()
            .into_iter()
            .find(|&(at, _)| self.places[at].as_ref().is_some_and(|place| place.name == name))
    }

    /// What is to be done now and then: buffers that have come back and that no element takes, figures,
    /// and places that nobody needs any more.
    pub(crate) fn look_after(&mut self) {
        for at in 0..self.places.len() {
            let Some(place) = &self.places[at] else { continue };
            match place.seat.member() {
                Some(id) => {
                    self.take_unheard(at, id, None);
                    self.publish(at);
                }
                None if place.users == 0 => {
                    self.places[at] = None;
                    self.board.set_line(at, "");
                }
                None => {}
            }
        }
    }

    /// Changes the weights of a balancer. Returns how many buckets have moved.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or it has another number of consumers.
    pub fn weigh(&mut self, name: &str, weights: &[u32]) -> Result<usize, (Reason, String)> {
        let found = self
            .balancers
            .iter()
            .position(|balancer| balancer.as_ref().is_some_and(|balancer| balancer.name == name));
        let Some(at) = found else {
            let names: Vec<&str> =
                self.balancers.iter().flatten().map(|other| other.name.as_str()).collect();
            return Err((Reason::Unknown, format!("the balancers are: {}", names.join(", "))));
        };
        let balancer = self.balancers[at].as_mut().expect("found above");
        let consumers = balancer.places.len();
        if weights.len() != consumers {
            let text = format!("{} weights for {consumers} consumers", weights.len());
            return Err((Reason::Protocol, text));
        }
        let moved = balancer.balance.weigh(weights);
        self.show(at);
        Ok(moved)
    }

    // Packets

    /// Gives each packet of a frame to a consumer of each of these balancers, `hashes` saying to which.
    /// What somebody got is gone from the frame. Packets for which nobody is attached go to `absent`,
    /// those that nobody had room for stay. With `all` it ends at the first that not all of its consumers
    /// have room for.
    pub fn share_out(
        &mut self,
        balancers: &[usize],
        hashes: &[u64],
        all: bool,
        pool: &mut PoolCache,
        frame: &mut Frame,
        absent: &mut Frame,
    ) {
        self.take_back(balancers, pool);
        self.to.clear();
        self.to.resize(frame.len(), 0);
        for &at in balancers {
            let Some(balancer) = &mut self.balancers[at] else { continue };
            for (number, to) in self.to.iter_mut().enumerate() {
                let bucket = if balancer.by_hash {
                    balancer.balance.bucket(hashes[number])
                } else {
                    balancer.turn = balancer.turn.wrapping_add(1);
                    balancer.turn as usize
                };
                let there = balancer.balance.owner(bucket);
                let place = balancer.places[there.unwrap_or_else(|| balancer.balance.home(bucket))];
                let Some(place) = &mut self.places[place] else { continue };
                match place.seat {
                    Seat::Taken(id) => *to |= id.bit(),
                    _ => place.figures.lost_absent += 1,
                }
            }
        }
        if self.to.contains(&0) {
            let mut to = self.to.iter();
            frame.sift(
                |_| to.next().is_some_and(|to| *to != 0),
                |slot| {
                    let _ = absent.push(slot).map_err(|slot| pool.give_one(slot));
                },
            );
            self.to.retain(|to| *to != 0);
        }
        self.server.lend_each(&self.to, all, pool, frame);
        self.after(balancers);
    }

    /// Takes back what has been returned by consumers that no element receives from.
    fn take_back(&mut self, balancers: &[usize], pool: &mut PoolCache) {
        for &at in balancers {
            let places = self.balancers[at].as_ref().map_or(0, |balancer| balancer.places.len());
            for number in 0..places {
                let Some(balancer) = &self.balancers[at] else { continue };
                let place = balancer.places[number];
                let seat = self.places[place].as_ref().map(|place| place.seat);
                if let Some(id) = seat.and_then(Seat::member) {
                    self.take_unheard(place, id, Some(pool));
                }
            }
        }
    }

    /// Takes back what a consumer has returned, unless there is an element that does.
    fn take_unheard(&mut self, at: usize, id: MemberId, pool: Option<&mut PoolCache>) {
        let Some(place) = self.places[at].as_mut().filter(|place| place.listeners == 0) else {
            return;
        };
        let pool = pool.unwrap_or(&mut self.pool);
        let unheard = self.server.receive(id, pool, &mut self.unheard).unwrap_or(0);
        if unheard > 0 {
            place.figures.sent += unheard as u64;
            place.figures.sent_bytes += self.unheard.bytes();
            place.figures.unheard += unheard as u64;
            pool.give(&mut self.unheard);
        }
    }

    /// Figures behind a frame, and an alarm where a ring was found broken.
    fn after(&mut self, balancers: &[usize]) {
        for &at in balancers {
            let places = self.balancers[at].as_ref().map_or(0, |balancer| balancer.places.len());
            for number in 0..places {
                let Some(balancer) = &self.balancers[at] else { continue };
                let place = balancer.places[number];
                self.publish(place);
            }
        }
    }

    /// Brings the figures of a place up to date.
    fn count(&mut self, at: usize, id: MemberId) {
        let now = self.server.tally(id);
        let place = self.place(at);
        let (figures, seen) = (&mut place.figures, place.seen);
        figures.packets += now.packets - seen.packets;
        figures.bytes += now.bytes - seen.bytes;
        figures.lost_full += now.missed - seen.missed;
        figures.malformed += now.malformed - seen.malformed;
        place.seen = now;
    }

    fn publish(&mut self, at: usize) {
        let Some(place) = &self.places[at] else { return };
        if let Some(id) = place.seat.member() {
            let (held, waiting) = (self.server.held(id) as u64, self.server.waiting(id) as u64);
            if self.server.is_broken(id) && matches!(place.seat, Seat::Taken(_)) {
                event::set(&self.alarm);
            }
            self.count(at, id);
            let figures = &mut self.place(at).figures;
            (figures.held, figures.waiting) = (held, waiting);
        }
        let figures = self.place(at).figures;
        self.board.set_figures(at, &figures);
    }

    /// Packets that the consumer of a place has sent go to the end of `frame`, as many as there is room
    /// for; returns how many. It gets buffers for more.
    pub fn receive(&mut self, at: usize, pool: &mut PoolCache, frame: &mut Frame) -> usize {
        let Some(id) = self.place(at).seat.member() else { return 0 };
        let before = frame.bytes();
        let received = self.server.receive(id, pool, frame).unwrap_or(0);
        let place = self.place(at);
        place.figures.sent += received as u64;
        place.figures.sent_bytes += frame.bytes() - before;
        if place.figures.writes == 1 && matches!(place.seat, Seat::Taken(_)) {
            place.owed = place.spare.min(place.owed + received as u32);
            let owed = place.owed;
            if owed > 0 {
                let got = self.server.supply(id, pool, owed as usize).unwrap_or(0);
                self.place(at).owed -= got as u32;
            }
        }
        if received > 0 || self.server.is_broken(id) {
            self.publish(at);
        }
        received
    }

    /// Lends a new consumer its first empty buffers.
    fn supply(&mut self, at: usize, id: MemberId) {
        let owed = self.place(at).owed;
        if owed > 0 {
            let got = self.server.supply(id, &mut self.pool, owed as usize).unwrap_or(0);
            self.place(at).owed -= got as u32;
        }
    }

    /// Who receives from a place is going to sleep until there is something: `false` when there is.
    pub fn arm(&mut self, at: usize) -> bool {
        match self.place(at).seat {
            Seat::Taken(id) => self.server.arm(id) || self.server.is_broken(id),
            _ => true,
        }
    }
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

/// A client that was taken in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) place: usize,
    pub(crate) id: MemberId,
    pub(crate) files: Files,
    pub(crate) access: Access,
    pub(crate) spare: u32,
}

/// An element's use of a place: as long as there is one, programs can attach there.
#[derive(Debug)]
pub struct PlaceUse {
    broker: Arc<Broker>,
    place: usize,
    listens: bool,
    events: Arc<Gathered>,
}

impl PlaceUse {
    /// To send to it.
    ///
    /// # Errors
    ///
    /// When that is no name, or there are too many consumers.
    pub fn to_send(broker: &Arc<Broker>, name: &str, granted: Granted) -> Result<PlaceUse, String> {
        PlaceUse::join(broker, name, Some(granted), None)
    }

    /// To receive from it: its consumer gets `spare` empty buffers for packets of its own.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn to_receive(broker: &Arc<Broker>, name: &str, spare: u32) -> Result<PlaceUse, String> {
        PlaceUse::join(broker, name, None, Some(spare))
    }

    fn join(
        broker: &Arc<Broker>,
        name: &str,
        granted: Option<Granted>,
        spare: Option<u32>,
    ) -> Result<PlaceUse, String> {
        let mut exchange = broker.exchange();
        let place = exchange.join(name, granted)?;
        let at = exchange.place(place);
        if let Some(spare) = spare {
            at.listeners += 1;
            at.spare = spare;
        }
        let events = Arc::clone(&at.events);
        drop(exchange);
        Ok(PlaceUse { broker: Arc::clone(broker), place, listens: spare.is_some(), events })
    }

    /// Which.
    pub fn place(&self) -> usize {
        self.place
    }

    /// What can be read when there is something to be received, for who has [armed](Exchange::arm) it.
    pub fn events(&self) -> &Gathered {
        &self.events
    }

    /// The figures of its consumers.
    pub fn figures(&self) -> Figures {
        let mut exchange = self.broker.exchange();
        exchange.publish(self.place);
        exchange.place(self.place).figures
    }
}

impl Drop for PlaceUse {
    fn drop(&mut self) {
        let mut exchange = self.broker.exchange();
        if self.listens {
            exchange.place(self.place).listeners -= 1;
        }
        exchange.leave(self.place);
    }
}

/// An element's use of a balancer, and of its places.
#[derive(Debug)]
pub struct BalancerUse {
    broker: Arc<Broker>,
    balancer: usize,
    places: Vec<PlaceUse>,
}

impl BalancerUse {
    /// A balancer of these consumers. One of that name and of the same consumers goes on as it is.
    ///
    /// # Errors
    ///
    /// When something is no name, one is there twice, or there are too many.
    pub fn new(
        broker: &Arc<Broker>,
        name: &str,
        consumers: &[(String, u32)],
        granted: Granted,
        by_hash: bool,
    ) -> Result<BalancerUse, String> {
        if consumers.len() > WEIGHTS_MAX {
            return Err(format!("more than {WEIGHTS_MAX} consumers"));
        }
        let mut places: Vec<PlaceUse> = Vec::new();
        for (consumer, _) in consumers {
            let place = PlaceUse::to_send(broker, consumer, granted)?;
            if places.iter().any(|other| other.place == place.place) {
                return Err(format!("`{consumer}` is there twice"));
            }
            places.push(place);
        }
        let at: Vec<usize> = places.iter().map(|place| place.place).collect();
        let weights: Vec<u32> = consumers.iter().map(|(_, weight)| *weight).collect();
        let balancer = broker.exchange().join_balancer(name, &at, &weights, by_hash)?;
        Ok(BalancerUse { broker: Arc::clone(broker), balancer, places })
    }

    /// Which.
    pub fn balancer(&self) -> usize {
        self.balancer
    }

    /// Its consumers.
    pub fn places(&self) -> &[PlaceUse] {
        &self.places
    }

    /// The weight of each consumer, and the buckets it has now.
    pub fn shares(&self) -> Vec<(u32, usize)> {
        let exchange = self.broker.exchange();
        exchange.balancers[self.balancer].as_ref().map_or_else(Vec::new, |balancer| {
            let weights = balancer.balance.weights().iter().copied();
            weights.zip(balancer.balance.shares()).collect()
        })
    }
}

impl Drop for BalancerUse {
    fn drop(&mut self) {
        self.broker.exchange().leave_balancer(self.balancer);
    }
}

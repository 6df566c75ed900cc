//! Attachment and detachment of consumers.

use linerate_memory::{
    Arena, MemoryError,
    shared::{
        self, AttachError, CELLS_MAX, Files, Invitation, Isolated, Joining, PeerRights, Tally,
        WORDS,
    },
};
use linerate_port::peer::event;

use super::{
    Exchange,
    link::Link,
    place::{Place, Seat},
};
use crate::wire::{Access, Reason};

/// A client that may come, before there are files for it.
#[derive(Debug)]
pub(crate) struct Invited {
    place: usize,
    name: String,
    access: Access,
    cells: u32,
    /// Whether the server takes packets that it sends, if it is isolated.
    sends: bool,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Sharing(Invitation),
    Isolated(Arena),
}

/// A consumer with its files, before it is attached.
#[derive(Debug)]
pub(crate) struct Ready {
    place: usize,
    name: String,
    access: Access,
    cells: u32,
    sends: bool,
    link: Joins,
}

#[derive(Debug)]
enum Joins {
    Sharing(Joining),
    Isolated(Box<Isolated>),
}

impl Invited {
    /// Bytes of memory that will be made for it alone, of packets.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.way {
            Way::Sharing(_) => 0,
            Way::Isolated(like) => Isolated::bytes(like.buffer_size(), self.cells),
        }
    }

    /// Makes the files to hand out, for which nothing of the exchange is needed.
    pub(crate) fn make(self) -> Result<(Ready, Files), (Reason, String)> {
        let Invited { place, name, access, cells, sends, way } = self;
        let (link, files) = match way {
            Way::Sharing(invitation) => {
                let (joining, files) = invitation.make().map_err(refusal)?;
                (Joins::Sharing(joining), files)
            }
            Way::Isolated(like) => {
                let (isolated, files) = Isolated::create(&like, cells, sends).map_err(refusal)?;
                (Joins::Isolated(Box::new(isolated)), files)
            }
        };
        Ok((Ready { place, name, access, cells, sends, link }, files))
    }
}

/// A client that was taken in.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) place: usize,
    pub(crate) access: Access,
    pub(crate) spare: u32,
    pub(crate) asked: bool,
}

fn refusal(error: AttachError) -> (Reason, String) {
    let reason = match &error {
        AttachError::Memory(MemoryError::Option { .. }) => Reason::Full,
        _ => Reason::System,
    };
    (reason, error.to_string())
}

fn name_of(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "read and write",
        Access::Isolated => "get copies in memory of their own",
    }
}

impl Exchange {
    /// The first of three steps that attach a client as the consumer of a name: its files are made between this
    /// and [`Exchange::admit`]. A client with fewer rights than this process, with which memory cannot be shared,
    /// is isolated.
    pub(crate) fn invite(
        &mut self,
        name: &str,
        wanted: Option<Access>,
        rights: PeerRights,
    ) -> Result<Invited, (Reason, String)> {
        let found = self.places.iter().position(|place| {
            place.as_ref().is_some_and(|place| place.users > 0 && place.name == name)
        });
        let at = found.ok_or_else(|| (Reason::Unknown, self.names()))?;
        let place = self.place(at);
        if !place.seat.is_empty() {
            let text = format!("process {} has it", place.figures.process);
            return Err((Reason::Taken, text));
        }
        let granted = place.granted();
        // A consumer that may write may be content with reading.
        let fits = match (wanted, granted.access) {
            (None, _) | (Some(Access::Read), Access::Write) => true,
            (Some(wanted), granted) => wanted == granted,
        };
        if !fits {
            let text = format!("consumers of that name {}", name_of(granted.access));
            return Err((Reason::NotGranted, text));
        }
        let spare = if granted.access == Access::Read { 0 } else { place.spare };
        let cells = granted.cells.saturating_add(spare).min(CELLS_MAX);
        let access = wanted.unwrap_or(granted.access);
        let sends = access != Access::Read;
        if access == Access::Read && !rights.can_write() && !self.grants_writing() {
            // It is isolated where that fails.
            let _ = self.server.seal();
        }
        let shares = match access {
            Access::Isolated => None,
            Access::Read => Some(shared::Access::Read),
            Access::Write => Some(shared::Access::Write),
        };
        let invited = shares.map(|shares| self.server.invite_from(rights, shares, cells));
        let (access, way) = match invited {
            None | Some(Err(AttachError::FewerRights)) => {
                (Access::Isolated, Way::Isolated(self.arena().clone()))
            }
            Some(invited) => (access, Way::Sharing(invited.map_err(refusal)?)),
        };
        Ok(Invited { place: at, name: name.into(), access, cells, sends, way })
    }

    /// Takes in a client that was invited, and for which there are files.
    pub(crate) fn admit(
        &mut self,
        ready: Ready,
        process: u64,
    ) -> Result<Admitted, (Reason, String)> {
        let Ready { place: at, name, access, cells, sends, link } = ready;
        let place = self.places.get_mut(at).and_then(Option::as_mut);
        let is_free =
            |place: &&mut Place| place.name == name && place.users > 0 && place.seat.is_empty();
        let Some(place) = place.filter(is_free) else {
            return Err((Reason::Gone, "the configuration has changed meanwhile".into()));
        };
        // Elements may have come since it was invited.
        if !place.granted().access.includes(access) {
            let text = format!("consumers of that name {} now", name_of(place.granted().access));
            return Err((Reason::NotGranted, text));
        }
        let link = match link {
            Joins::Sharing(joining) => {
                Link::Sharing(self.server.welcome(joining).map_err(refusal)?)
            }
            Joins::Isolated(isolated) => Link::Isolated(isolated),
        };
        if let Err(error) = place.events.add(link.event(&self.server)) {
            if let Link::Sharing(id) = link {
                self.server.remove(id, &mut self.pool);
            }
            return Err((Reason::System, error.to_string()));
        }
        // The consumer before is not taken for this one.
        place.attachment.set(false, "");
        place.seen = Tally::default();
        place.owed = if sends { place.spare } else { 0 };
        let figures = &mut place.figures;
        figures.state = 1;
        figures.process = process;
        figures.access = match access {
            Access::Read => 0,
            Access::Write => 1,
            Access::Isolated => 2,
        };
        place.access = access;
        place.cells = cells.next_power_of_two() as usize;
        figures.cells = place.cells as u64;
        let only_reads = access == Access::Isolated && !sends;
        place.originals.resize_with(if only_reads { place.cells } else { 0 }, || None);
        figures.attached += 1;
        if let Some(inline) = &mut place.inline {
            inline.begin();
        }
        let (spare, asked) = (place.owed, place.inline.is_some());
        self.sit(at, Seat::Taken(link));
        self.place(at).tell();
        let place = self.places[at].as_mut().expect("found above");
        if let Some(link) = place.seat.taken() {
            place.owed -= link.supply(&mut self.server, &mut self.pool, spare);
        }
        self.publish(at);
        Ok(Admitted { place: at, access, spare, asked })
    }

    /// The names there are, for the refusal of another.
    fn names(&self) -> String {
        let names: Vec<&str> =
            self.places.iter().flatten().map(|place| place.name.as_str()).collect();
        match names.len() {
            0 => "there are none".into(),
            _ => format!("there are {}", names.join(", ")),
        }
    }

    /// Puts a consumer into an endpoint, or takes it out; returns the seat before.
    fn sit(&mut self, at: usize, seat: Seat) -> Seat {
        let place = self.places[at].as_mut().expect("a place somebody uses");
        let mut before = std::mem::replace(&mut place.seat, seat);
        if let Some(inline) = place.inline.as_mut().filter(|_| place.seat.taken().is_none()) {
            if let Some(link) = before.taken() {
                // All of its answers, and no more than fit on its ring.
                for _ in 0..place.cells.div_ceil(WORDS) {
                    if !inline.hear(link, &mut self.server, &mut self.pool, &mut place.figures) {
                        break;
                    }
                }
            }
            inline.abandon(&mut place.figures);
        }
        event::set(&place.news);
        self.settle_balancers_of(at);
        before
    }

    /// Takes back all buffers of a consumer whose process has ended or can do no harm. Returns the
    /// memory of its own, which takes a while to drop.
    pub(crate) fn remove(&mut self, at: usize) -> Option<Box<Isolated>> {
        self.publish(at);
        let (Seat::Taken(link) | Seat::Leaving(link)) = self.sit(at, Seat::Empty) else {
            return None;
        };
        self.place(at).tell();
        let held = link.held(&self.server);
        let place = self.places[at].as_mut().expect("somebody is there");
        let own = match link {
            Link::Sharing(id) => {
                self.server.remove(id, &mut self.pool);
                None
            }
            Link::Isolated(own) => Some(own),
        };
        for slot in place.originals.drain(..).flatten() {
            self.pool.give_one(slot);
        }
        let figures = &mut place.figures;
        (figures.state, figures.held, figures.waiting) = (0, 0, 0);
        figures.died += u64::from(held > 0);
        figures.reclaimed += held as u64;
        self.board.set_figures(at, &place.figures);
        own
    }

    /// Stops lending to a consumer. Returns true if it could write to others' packets: then it has
    /// to end before it can be [removed](Exchange::remove).
    pub(crate) fn end(&mut self, at: usize) -> bool {
        self.place(at).figures.state = 2;
        if let Seat::Taken(link) = self.sit(at, Seat::Empty) {
            let floods = link.floods(&self.server);
            let place = self.places[at].as_mut().expect("somebody is there");
            // Its doorbell wakes no thread any more.
            place.events.remove(link.event(&self.server));
            place.figures.floods += u64::from(floods);
            place.seat = Seat::Leaving(link);
        }
        self.publish(at);
        self.place(at).figures.access == 1
    }

    /// Consumers that are to be ended, and why: their rings are broken, no element uses them, or they have
    /// more access than elements grant them now.
    pub(crate) fn due_to_end(&mut self) -> Vec<(usize, Reason)> {
        let mut list = Vec::new();
        let is_held = self.is_held();
        for (at, place) in self.places.iter_mut().enumerate() {
            let Some(place) = place else { continue };
            let (unused, too_much) = (place.users == 0, place.has_too_much());
            let Some(link) = place.seat.taken() else { continue };
            if link.floods(&self.server) {
                list.push((at, Reason::Flood));
            } else if link.is_broken(&self.server) {
                list.push((at, Reason::Broken));
            } else if unused {
                list.push((at, Reason::Gone));
            } else if too_much && !is_held {
                list.push((at, Reason::NotGranted));
            }
        }
        list
    }

    /// The consumers there can be, and the process that is each of them.
    pub fn consumers(&self) -> Vec<(String, Option<u64>)> {
        let consumer = |place: &Place| {
            let process = (!place.seat.is_empty()).then_some(place.figures.process);
            (place.name.clone(), process)
        };
        self.places.iter().flatten().filter(|place| place.users > 0).map(consumer).collect()
    }

    /// Returns true if a program is attached as that consumer.
    pub fn is_attached(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The endpoint of that name, if a program is attached there.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|place| {
            place.as_ref().is_some_and(|place| place.name == name && !place.seat.is_empty())
        })
    }

    /// Periodic work: takes returned buffers that no element takes, updates figures, and removes
    /// unused endpoints.
    pub(crate) fn look_after(&mut self) {
        for at in 0..self.places.len() {
            let Some(place) = &self.places[at] else { continue };
            if !place.seat.is_empty() {
                self.take_unheard(at, None);
                self.publish(at);
            } else if place.users == 0 {
                self.places[at] = None;
                self.board.set_line(at, "");
            }
        }
    }
}

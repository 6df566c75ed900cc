//! Attachment and detachment of consumers.

use linerate_memory::{
    Arena, MemoryError,
    shared::{
        self, AttachError, AttachOffer, CELLS_MAX, Files, Isolated, PeerRights, PendingMember,
        Tally, WORDS,
    },
};
use linerate_port::peer::event;

use super::{
    Dispatcher,
    endpoint::{Endpoint, EndpointSlot},
    link::Link,
};
use crate::wire::{Access, Reason};

/// A client that may come, before there are files for it.
#[derive(Debug)]
pub(crate) struct ConsumerOffer {
    endpoint: usize,
    name: String,
    access: Access,
    cells: u32,
    /// Whether the server takes packets that it sends, if it is isolated.
    sends: bool,
    way: OfferedLink,
}

#[derive(Debug)]
enum OfferedLink {
    Sharing(AttachOffer),
    Isolated(Arena),
}

/// A consumer with its files, before it is attached.
#[derive(Debug)]
pub(crate) struct PendingConsumer {
    endpoint: usize,
    name: String,
    access: Access,
    cells: u32,
    sends: bool,
    link: PendingLink,
}

#[derive(Debug)]
enum PendingLink {
    Sharing(PendingMember),
    Isolated(Box<Isolated>),
}

impl ConsumerOffer {
    /// Bytes of memory that will be made for it alone, of packets.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.way {
            OfferedLink::Sharing(_) => 0,
            OfferedLink::Isolated(like) => Isolated::bytes(like.buffer_size(), self.cells),
        }
    }

    /// Makes the files to hand out, for which nothing of the dispatcher is needed.
    pub(crate) fn make(self) -> Result<(PendingConsumer, Files), (Reason, String)> {
        let ConsumerOffer { endpoint, name, access, cells, sends, way } = self;
        let (link, files) = match way {
            OfferedLink::Sharing(invitation) => {
                let (joining, files) = invitation.make().map_err(refusal)?;
                (PendingLink::Sharing(joining), files)
            }
            OfferedLink::Isolated(like) => {
                let (isolated, files) = Isolated::create(&like, cells, sends).map_err(refusal)?;
                (PendingLink::Isolated(Box::new(isolated)), files)
            }
        };
        Ok((PendingConsumer { endpoint, name, access, cells, sends, link }, files))
    }
}

/// A client that was taken in.
#[derive(Debug)]
pub(crate) struct AttachedConsumer {
    pub(crate) endpoint: usize,
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

impl Dispatcher {
    /// The first of three steps that attach a client as the consumer of a name: its files are made between this
    /// and [`Dispatcher::admit`]. A client with fewer rights than this process, with which memory
    /// cannot be shared, is isolated.
    pub(crate) fn invite(
        &mut self,
        name: &str,
        wanted: Option<Access>,
        rights: PeerRights,
    ) -> Result<ConsumerOffer, (Reason, String)> {
        let found = self.endpoints.iter().position(|endpoint| {
            endpoint.as_ref().is_some_and(|endpoint| endpoint.users > 0 && endpoint.name == name)
        });
        let at = found.ok_or_else(|| (Reason::Unknown, self.names()))?;
        let endpoint = self.endpoint(at);
        if !endpoint.consumer_slot.is_empty() {
            let text = format!("process {} has it", endpoint.figures.process);
            return Err((Reason::Taken, text));
        }
        let granted = endpoint.granted();
        // A consumer that may write may be content with reading.
        let fits = match (wanted, granted.access) {
            (None, _) | (Some(Access::Read), Access::Write) => true,
            (Some(wanted), granted) => wanted == granted,
        };
        if !fits {
            let text = format!("consumers of that name {}", name_of(granted.access));
            return Err((Reason::NotGranted, text));
        }
        let spare = if granted.access == Access::Read { 0 } else { endpoint.spare };
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
                (Access::Isolated, OfferedLink::Isolated(self.arena().clone()))
            }
            Some(invited) => (access, OfferedLink::Sharing(invited.map_err(refusal)?)),
        };
        Ok(ConsumerOffer { endpoint: at, name: name.into(), access, cells, sends, way })
    }

    /// Takes in a client that was invited, and for which there are files.
    pub(crate) fn admit(
        &mut self,
        ready: PendingConsumer,
        process: u64,
    ) -> Result<AttachedConsumer, (Reason, String)> {
        let PendingConsumer { endpoint: at, name, access, cells, sends, link } = ready;
        let endpoint = self.endpoints.get_mut(at).and_then(Option::as_mut);
        let is_free = |endpoint: &&mut Endpoint| {
            endpoint.name == name && endpoint.users > 0 && endpoint.consumer_slot.is_empty()
        };
        let Some(endpoint) = endpoint.filter(is_free) else {
            return Err((Reason::Gone, "the configuration has changed meanwhile".into()));
        };
        // Elements may have come since it was invited.
        if !endpoint.granted().access.includes(access) {
            let text = format!("consumers of that name {} now", name_of(endpoint.granted().access));
            return Err((Reason::NotGranted, text));
        }
        let link = match link {
            PendingLink::Sharing(joining) => {
                Link::Sharing(self.server.welcome(joining).map_err(refusal)?)
            }
            PendingLink::Isolated(isolated) => Link::Isolated(isolated),
        };
        if let Err(error) = endpoint.events.add(link.event(&self.server)) {
            if let Link::Sharing(id) = link {
                self.server.remove(id, &mut self.pool);
            }
            return Err((Reason::System, error.to_string()));
        }
        // The consumer before is not taken for this one.
        endpoint.attachment.set(false, "");
        endpoint.seen = Tally::default();
        endpoint.owed = if sends { endpoint.spare } else { 0 };
        let figures = &mut endpoint.figures;
        figures.state = 1;
        figures.process = process;
        figures.access = match access {
            Access::Read => 0,
            Access::Write => 1,
            Access::Isolated => 2,
        };
        endpoint.access = access;
        endpoint.cells = cells.next_power_of_two() as usize;
        figures.cells = endpoint.cells as u64;
        let only_reads = access == Access::Isolated && !sends;
        endpoint.originals.resize_with(if only_reads { endpoint.cells } else { 0 }, || None);
        figures.attached += 1;
        if let Some(inline) = &mut endpoint.inline {
            inline.begin();
        }
        let (spare, asked) = (endpoint.owed, endpoint.inline.is_some());
        self.set_consumer(at, EndpointSlot::Taken(link));
        self.endpoint(at).tell();
        let endpoint = self.endpoints[at].as_mut().expect("found above");
        if let Some(link) = endpoint.consumer_slot.taken() {
            endpoint.owed -= link.supply(&mut self.server, &mut self.pool, spare);
        }
        self.publish(at);
        Ok(AttachedConsumer { endpoint: at, access, spare, asked })
    }

    /// The names there are, for the refusal of another.
    fn names(&self) -> String {
        let names: Vec<&str> =
            self.endpoints.iter().flatten().map(|endpoint| endpoint.name.as_str()).collect();
        match names.len() {
            0 => "there are none".into(),
            _ => format!("there are {}", names.join(", ")),
        }
    }

    /// Puts a consumer into an endpoint, or takes it out; returns the slot before.
    fn set_consumer(&mut self, at: usize, consumer_slot: EndpointSlot) -> EndpointSlot {
        let endpoint = self.endpoints[at].as_mut().expect("an endpoint in use");
        let mut before = std::mem::replace(&mut endpoint.consumer_slot, consumer_slot);
        if let Some(inline) =
            endpoint.inline.as_mut().filter(|_| endpoint.consumer_slot.taken().is_none())
        {
            if let Some(link) = before.taken() {
                // All of its answers, and no more than fit on its ring.
                for _ in 0..endpoint.cells.div_ceil(WORDS) {
                    if !inline.receive_answers(
                        link,
                        &mut self.server,
                        &mut self.pool,
                        &mut endpoint.figures,
                    ) {
                        break;
                    }
                }
            }
            inline.abandon(&mut endpoint.figures);
        }
        event::set(&endpoint.news);
        self.settle_balancers_of(at);
        before
    }

    /// Takes back all buffers of a consumer whose process has ended or can do no harm. Returns the
    /// memory of its own, which takes a while to drop.
    pub(crate) fn remove(&mut self, at: usize) -> Option<Box<Isolated>> {
        self.publish(at);
        let (EndpointSlot::Taken(link) | EndpointSlot::Leaving(link)) =
            self.set_consumer(at, EndpointSlot::Empty)
        else {
            return None;
        };
        self.endpoint(at).tell();
        let held = link.held(&self.server);
        let endpoint = self.endpoints[at].as_mut().expect("somebody is there");
        let own = match link {
            Link::Sharing(id) => {
                self.server.remove(id, &mut self.pool);
                None
            }
            Link::Isolated(own) => Some(own),
        };
        for slot in endpoint.originals.drain(..).flatten() {
            self.pool.give_one(slot);
        }
        let figures = &mut endpoint.figures;
        (figures.state, figures.held, figures.waiting) = (0, 0, 0);
        figures.died += u64::from(held > 0);
        figures.reclaimed += held as u64;
        self.board.set_figures(at, &endpoint.figures);
        own
    }

    /// Stops lending to a consumer. Returns true if it could write to others' packets: then it has
    /// to end before it can be [removed](Dispatcher::remove).
    pub(crate) fn end(&mut self, at: usize) -> bool {
        self.endpoint(at).figures.state = 2;
        if let EndpointSlot::Taken(link) = self.set_consumer(at, EndpointSlot::Empty) {
            let floods = link.floods(&self.server);
            let endpoint = self.endpoints[at].as_mut().expect("somebody is there");
            // Its doorbell wakes no thread any more.
            endpoint.events.remove(link.event(&self.server));
            endpoint.figures.floods += u64::from(floods);
            endpoint.consumer_slot = EndpointSlot::Leaving(link);
        }
        self.publish(at);
        self.endpoint(at).figures.access == 1
    }

    /// Consumers that are to be ended, and why: their rings are broken, no element uses them, or they have
    /// more access than elements grant them now.
    pub(crate) fn due_to_end(&mut self) -> Vec<(usize, Reason)> {
        let mut list = Vec::new();
        let is_held = self.is_held();
        for (at, endpoint) in self.endpoints.iter_mut().enumerate() {
            let Some(endpoint) = endpoint else { continue };
            let (unused, too_much) = (endpoint.users == 0, endpoint.has_too_much());
            let Some(link) = endpoint.consumer_slot.taken() else { continue };
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
        let consumer = |endpoint: &Endpoint| {
            let process = (!endpoint.consumer_slot.is_empty()).then_some(endpoint.figures.process);
            (endpoint.name.clone(), process)
        };
        self.endpoints
            .iter()
            .flatten()
            .filter(|endpoint| endpoint.users > 0)
            .map(consumer)
            .collect()
    }

    /// Returns true if a program is attached as that consumer.
    pub fn is_attached(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The endpoint of that name, if a program is attached there.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.endpoints.iter().position(|endpoint| {
            endpoint
                .as_ref()
                .is_some_and(|endpoint| endpoint.name == name && !endpoint.consumer_slot.is_empty())
        })
    }

    /// Periodic work: takes returned buffers that no element takes, updates figures, and removes
    /// unused endpoints.
    pub(crate) fn housekeeping(&mut self) {
        for at in 0..self.endpoints.len() {
            let Some(endpoint) = &self.endpoints[at] else { continue };
            if !endpoint.consumer_slot.is_empty() {
                self.take_unheard(at, None);
                self.publish(at);
            } else if endpoint.users == 0 {
                self.endpoints[at] = None;
                self.board.set_line(at, "");
            }
        }
    }
}

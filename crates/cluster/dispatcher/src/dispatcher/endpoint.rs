//! Endpoints: names that programs attach as, with their consumer.

use std::{os::fd::OwnedFd, sync::Arc};

use linerate_memory::{Slot, shared::Tally};
use linerate_port::{Link as Attachment, peer::event::EventSet};

use super::{inline::Inline, link::Link};
use crate::{figures::Figures, wire::Access};

/// Rights granted to a consumer of some name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Access to packets.
    pub access: Access,
    /// Most buffers it holds at a time.
    pub cells: u32,
}

/// Rights that one element grants to a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) access: Access,
    /// Most buffers that it holds, where the element lends it any.
    pub(super) cells: Option<u32>,
}

/// Consumer of an endpoint.
#[derive(Debug, Default)]
pub(super) enum EndpointSlot {
    #[default]
    Empty,
    Taken(Link),
    /// Was told to go; may write to what it holds until its process has ended.
    Leaving(Link),
}

impl EndpointSlot {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, EndpointSlot::Empty)
    }

    /// The consumer, going or not.
    pub(super) fn link(&mut self) -> Option<&mut Link> {
        match self {
            EndpointSlot::Empty => None,
            EndpointSlot::Taken(link) | EndpointSlot::Leaving(link) => Some(link),
        }
    }

    /// The consumer, unless it was told to go.
    pub(super) fn taken(&mut self) -> Option<&mut Link> {
        match self {
            EndpointSlot::Taken(link) => Some(link),
            EndpointSlot::Empty | EndpointSlot::Leaving(_) => None,
        }
    }
}

/// A name that a program can attach as.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(super) name: String,
    /// Rights granted by each element that uses it, in the order they came.
    pub(super) grants: Vec<Grant>,
    /// Elements that send to it or receive from it, and those that receive.
    pub(crate) users: usize,
    pub(super) listeners: usize,
    pub(super) consumer_slot: EndpointSlot,
    /// Whether a consumer is attached, for its observers.
    pub(crate) attachment: Arc<Attachment>,
    /// Whether packets of it are on their way: the receiving element passes them on before it comes
    /// for more.
    pub(super) on_the_way: bool,
    /// Access of the attached consumer to packets, and the cells of its rings.
    pub(super) access: Access,
    pub(super) cells: usize,
    /// Packets that a consumer has copies of that only reads: it sends these, where an element receives
    /// from it. By its buffers, and empty for every other consumer.
    pub(super) originals: Vec<Option<Slot>>,
    /// Packets that wait for its verdict, where it is inline.
    pub(crate) inline: Option<Inline>,
    /// Empty buffers it is to have for packets of its own, and those of them it has yet to get.
    pub(super) spare: u32,
    pub(super) owed: u32,
    /// The part of its link's tally that is in the figures.
    pub(super) seen: Tally,
    pub(super) figures: Figures,
    /// Wakes the element that receives from it: a consumer was attached, or has sent.
    pub(super) news: OwnedFd,
    pub(crate) events: Arc<EventSet>,
}

impl Endpoint {
    /// Rights of a consumer: those that all elements agree to, for an element that isolates it does
    /// so from the packets that others lend it, too. Of elements that follow one another the last
    /// says how many buffers.
    pub(super) fn granted(&self) -> Granted {
        let access = self.grants.iter().map(|grant| grant.access).reduce(Access::stricter);
        let cells = self.grants.iter().rev().find_map(|grant| grant.cells);
        Granted { access: access.unwrap_or(Access::Isolated), cells: cells.unwrap_or(1) }
    }

    /// Returns true if the consumer has more access than it would get now.
    pub(super) fn has_too_much(&mut self) -> bool {
        self.consumer_slot.taken().is_some() && !self.granted().access.includes(self.access)
    }

    /// Tells the observers whether a consumer is attached: one that was told to go is, as long as
    /// packets of its own may come, and so is one that has gone, as long as some are on their way.
    /// An observer may forget the state of a consumer that goes, and would create it again by those
    /// packets.
    pub(super) fn tell(&self) {
        if !self.consumer_slot.is_empty() {
            self.attachment.set(true, "");
        } else if !self.on_the_way {
            self.attachment.set(false, "");
        }
    }

    /// Notes that the packets received before have been passed on.
    #[inline]
    pub(super) fn has_arrived(&mut self) {
        if std::mem::take(&mut self.on_the_way) {
            self.tell();
        }
    }

    /// Adds the difference of its link's counts to the figures.
    pub(super) fn count(&mut self, now: Tally) {
        let (figures, seen) = (&mut self.figures, self.seen);
        figures.packets += now.packets - seen.packets;
        figures.bytes += now.bytes - seen.bytes;
        figures.copied += now.copied - seen.copied;
        figures.lost_full += now.missed - seen.missed;
        figures.malformed += now.malformed - seen.malformed;
        self.seen = now;
    }
}

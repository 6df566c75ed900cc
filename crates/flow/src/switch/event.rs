//! What happens to a switch, for who wants to hear of it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use crate::key::Key;
use crate::pipeline::Punt;
use crate::wire::{FlowRemoved, Message, PortStatus, TableStatus, Version};

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A flow went that wanted its end told.
    FlowRemoved(Arc<FlowRemoved>),
    /// A port came, went or changed.
    PortStatus(Arc<PortStatus>),
    /// A table fills or empties.
    TableStatus(Arc<TableStatus>),
    /// A packet is for controllers.
    PacketIn(Arc<Punted>),
    /// A controller changed a group or a meter, which others may want to hear of.
    Changed(Version, Arc<Message>),
}

/// A packet for controllers.
#[derive(Debug)]
pub struct Punted {
    /// Why, and what is said with it.
    pub punt: Arc<Punt>,
    /// What it came with: port, tunnel, connection and headers.
    pub key: Key,
    /// The packet, or as much of it as is wanted.
    pub packet: Vec<u8>,
    /// How long it is.
    pub length: usize,
}

/// What a subscriber hears.
#[derive(Debug)]
pub struct Subscription {
    /// Where it comes.
    pub events: Receiver<Event>,
}

impl Subscription {
    pub(crate) fn none() -> Subscription {
        Subscription { events: sync_channel(0).1 }
    }
}

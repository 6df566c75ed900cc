//! Events of a switch, and subscriptions to them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use crate::key::Key;
use crate::pipeline::Punt;
use crate::wire::{FlowRemoved, PortStatus, TableStatus};

/// An event.
#[derive(Debug, Clone)]
pub enum Event {
    /// A flow was removed that asks for this message.
    FlowRemoved(Arc<FlowRemoved>),
    /// A port came, went or changed.
    PortStatus(Arc<PortStatus>),
    /// A table fills or empties.
    TableStatus(Arc<TableStatus>),
    /// A packet is for controllers.
    PacketIn(Arc<Punted>),
}

/// A packet for controllers.
#[derive(Debug)]
pub struct Punted {
    /// Its reason, and the fields of the packet-in.
    pub punt: Arc<Punt>,
    /// Its fields at arrival: port, tunnel, connection and headers.
    pub key: Key,
    /// The packet, or as much of it as is wanted.
    pub packet: Vec<u8>,
    /// Bytes of the whole packet.
    pub length: usize,
    /// Number of waiting packets of its port: dropping this one takes it off.
    pub(super) waiting: Arc<AtomicU32>,
}

impl Drop for Punted {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Receiving end of a subscriber.
#[derive(Debug)]
pub struct Subscription {
    /// Queue of events. Dropping it ends the subscription.
    pub events: Receiver<Event>,
    lost: Arc<AtomicU64>,
}

impl Subscription {
    /// Returns the number of events lost for lack of room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Subscriber {
    events: SyncSender<Event>,
    lost: Arc<AtomicU64>,
}

/// Subscribers to events.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    all: RwLock<Vec<Subscriber>>,
}

impl Subscribers {
    pub(super) fn add(&self, room: usize) -> Subscription {
        let (sender, events) = sync_channel(room);
        let lost = Arc::new(AtomicU64::new(0));
        let subscriber = Subscriber { events: sender, lost: Arc::clone(&lost) };
        self.all.write().unwrap_or_else(PoisonError::into_inner).push(subscriber);
        Subscription { events, lost }
    }

    /// Sends an event to all subscribers, and removes those that are gone.
    pub(super) fn publish(&self, event: &Event) {
        let gone = {
            let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter(|subscriber| !subscriber.publish(event)).count() > 0
        };
        if gone {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.retain(|subscriber| Arc::strong_count(&subscriber.lost) > 1);
        }
    }

    /// Likewise from a worker, which does not wait for a subscription in progress. Returns true if
    /// there is a subscriber.
    pub(super) fn try_tell(&self, event: &Event) -> bool {
        let all = match self.all.try_read() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(all)) => all.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        all.iter().for_each(|subscriber| {
            subscriber.publish(event);
        });
        !all.is_empty()
    }
}

impl Subscriber {
    /// Sends an event; returns true if the subscriber is still there.
    fn publish(&self, event: &Event) -> bool {
        match self.events.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

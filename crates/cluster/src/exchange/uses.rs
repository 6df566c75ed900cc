//! Handles of elements on the dispatcher: consumer, balancer, inline consumer.

use std::sync::Arc;

use linerate_port::{Link as Attachment, peer::event::Gathered};

use super::{declare::Use, inline::Terms, place::Granted};
use crate::{
    broker::Broker,
    figures::Figures,
    wire::{Access, WEIGHTS_MAX},
};

/// An element's use of a place: as long as there is one, programs can attach there.
#[derive(Debug)]
pub struct PlaceUse {
    broker: Arc<Broker>,
    place: usize,
    how: Use,
    events: Arc<Gathered>,
}

impl PlaceUse {
    /// To send to it.
    ///
    /// # Errors
    ///
    /// When that is no name, or there are too many consumers.
    pub fn to_send(broker: &Arc<Broker>, name: &str, granted: Granted) -> Result<PlaceUse, String> {
        PlaceUse::join(broker, name, Use::Sends(granted))
    }

    /// To receive from it: its consumer gets `spare` empty buffers for packets of its own, and no more
    /// access than this.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn to_receive(
        broker: &Arc<Broker>,
        name: &str,
        access: Access,
        spare: u32,
    ) -> Result<PlaceUse, String> {
        PlaceUse::join(broker, name, Use::Receives(access, spare))
    }

    fn join(broker: &Arc<Broker>, name: &str, how: Use) -> Result<PlaceUse, String> {
        let mut exchange = broker.exchange();
        let place = exchange.join(name, how)?;
        let events = Arc::clone(&exchange.place(place).events);
        drop(exchange);
        Ok(PlaceUse { broker: Arc::clone(broker), place, how, events })
    }

    /// Index of the endpoint.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Descriptors that are readable when there is something to be received, once the receiver has
    /// [armed](super::Exchange::arm) it.
    pub fn events(&self) -> &Gathered {
        &self.events
    }

    /// Up while a consumer is attached there.
    pub fn attachment(&self) -> Arc<Attachment> {
        Arc::clone(&self.broker.exchange().place(self.place).attachment)
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
        self.broker.exchange().leave(self.place, self.how);
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
    /// A balancer of these consumers, each with its weight, which are granted the same. One of that name
    /// and of the same consumers goes on as it is.
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
        let granted = |(name, weight): &(String, u32)| (name.clone(), *weight, granted);
        let consumers: Vec<_> = consumers.iter().map(granted).collect();
        BalancerUse::granting(broker, name, &consumers, by_hash)
    }

    /// A balancer of these consumers, each with its weight and its own grant.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn granting(
        broker: &Arc<Broker>,
        name: &str,
        consumers: &[(String, u32, Granted)],
        by_hash: bool,
    ) -> Result<BalancerUse, String> {
        if consumers.len() > WEIGHTS_MAX {
            return Err(format!("more than {WEIGHTS_MAX} consumers"));
        }
        let mut places: Vec<PlaceUse> = Vec::new();
        for (consumer, _, granted) in consumers {
            let place = PlaceUse::to_send(broker, consumer, *granted)?;
            if places.iter().any(|other| other.place == place.place) {
                return Err(format!("`{consumer}` is there twice"));
            }
            places.push(place);
        }
        let at: Vec<usize> = places.iter().map(|place| place.place).collect();
        let weights: Vec<u32> = consumers.iter().map(|(_, weight, _)| *weight).collect();
        let balancer = broker.exchange().join_balancer(name, &at, &weights, by_hash)?;
        Ok(BalancerUse { broker: Arc::clone(broker), balancer, places })
    }

    /// Index of the balancer.
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

/// An element's use of a consumer that it asks about packets, and its queue of those that wait, which
/// ends with it.
#[derive(Debug)]
pub struct InlineUse {
    place: PlaceUse,
    queue: usize,
}

impl InlineUse {
    /// To ask a consumer.
    ///
    /// # Errors
    ///
    /// When that is no name, there are too many consumers, or another element sends to that one or
    /// receives from it.
    pub fn new(
        broker: &Arc<Broker>,
        name: &str,
        granted: Granted,
        terms: Terms,
    ) -> Result<InlineUse, String> {
        let place = PlaceUse::join(broker, name, Use::Asks(granted, terms))?;
        let mut exchange = broker.exchange();
        let inline = &mut exchange.place(place.place).inline;
        let queue = inline.as_mut().expect("it was made above").join();
        drop(exchange);
        Ok(InlineUse { place, queue })
    }

    /// The place.
    pub fn place(&self) -> usize {
        self.place.place
    }

    pub(super) fn queue(&self) -> usize {
        self.queue
    }

    /// As of [`PlaceUse`].
    pub fn events(&self) -> &Gathered {
        self.place.events()
    }

    /// The figures of its consumers.
    pub fn figures(&self) -> Figures {
        self.place.figures()
    }

    /// Flows that are remembered.
    pub fn flows(&self) -> usize {
        let mut exchange = self.place.broker.exchange();
        exchange.place(self.place.place).inline.as_ref().map_or(0, |inline| inline.flows())
    }

    /// Forgets all flows.
    pub fn forget(&self) {
        let mut exchange = self.place.broker.exchange();
        if let Some(inline) = &mut exchange.place(self.place.place).inline {
            inline.forget();
        }
    }

    /// Elements that ask this consumer, besides this.
    pub fn others(&self) -> usize {
        self.place.broker.exchange().place(self.place.place).users - 1
    }

    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        let mut exchange = self.place.broker.exchange();
        let inline = &exchange.place(self.place.place).inline;
        inline.as_ref().map_or(0, |inline| inline.waiting(self.queue))
    }

    /// Swaps the queues of packets that wait with another element: `false` when they ask different
    /// consumers.
    pub fn take_over(&mut self, other: &mut InlineUse) -> bool {
        let is_same = Arc::ptr_eq(&self.place.broker, &other.place.broker)
            && self.place.place == other.place.place;
        if is_same {
            std::mem::swap(&mut self.queue, &mut other.queue);
        }
        is_same
    }
}

impl Drop for InlineUse {
    fn drop(&mut self) {
        self.place.broker.exchange().leave_queue(self.place.place, self.queue);
    }
}

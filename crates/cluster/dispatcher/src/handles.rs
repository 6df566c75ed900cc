//! Handles of elements on the dispatcher: consumer, balancer, inline consumer.

use std::sync::Arc;

use linerate_memory::{Frame, PoolCache};
use linerate_port::{Link as Attachment, peer::event::EventSet};

use crate::{
    broker::Broker,
    dispatcher::{Dispatcher, DrainResult, Granted, InlineConfig, Use},
    figures::Figures,
    wire::{Access, WEIGHTS_MAX},
};

/// An element's use of an endpoint: as long as there is one, programs can attach there.
#[derive(Debug)]
pub struct ConsumerHandle {
    broker: Arc<Broker>,
    endpoint: usize,
    how: Use,
    events: Arc<EventSet>,
}

impl ConsumerHandle {
    /// To send to it.
    ///
    /// # Errors
    ///
    /// When that is no name, or there are too many consumers.
    pub fn to_send(
        broker: &Arc<Broker>,
        name: &str,
        granted: Granted,
    ) -> Result<ConsumerHandle, String> {
        ConsumerHandle::join(broker, name, Use::Sends(granted))
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
    ) -> Result<ConsumerHandle, String> {
        ConsumerHandle::join(broker, name, Use::Receives(access, spare))
    }

    fn join(broker: &Arc<Broker>, name: &str, how: Use) -> Result<ConsumerHandle, String> {
        let mut dispatcher = broker.dispatcher();
        let endpoint = dispatcher.join(name, how)?;
        let events = Arc::clone(&dispatcher.endpoint(endpoint).events);
        drop(dispatcher);
        Ok(ConsumerHandle { broker: Arc::clone(broker), endpoint, how, events })
    }

    /// Index of the endpoint.
    pub fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// Descriptors that are readable when there is something to be received, once the receiver has
    /// [armed](Dispatcher::arm) it.
    pub fn events(&self) -> &EventSet {
        &self.events
    }

    /// Up while a consumer is attached there.
    pub fn attachment(&self) -> Arc<Attachment> {
        Arc::clone(&self.broker.dispatcher().endpoint(self.endpoint).attachment)
    }

    /// The figures of its consumers.
    pub fn figures(&self) -> Figures {
        self.broker.dispatcher().figures(self.endpoint)
    }
}

impl Drop for ConsumerHandle {
    fn drop(&mut self) {
        self.broker.dispatcher().leave(self.endpoint, self.how);
    }
}

/// An element's use of a balancer, and of its endpoints.
#[derive(Debug)]
pub struct BalancerHandle {
    broker: Arc<Broker>,
    balancer: usize,
    endpoints: Vec<ConsumerHandle>,
}

impl BalancerHandle {
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
    ) -> Result<BalancerHandle, String> {
        let granted = |(name, weight): &(String, u32)| (name.clone(), *weight, granted);
        let consumers: Vec<_> = consumers.iter().map(granted).collect();
        BalancerHandle::granting(broker, name, &consumers, by_hash)
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
    ) -> Result<BalancerHandle, String> {
        if consumers.len() > WEIGHTS_MAX {
            return Err(format!("more than {WEIGHTS_MAX} consumers"));
        }
        let mut endpoints: Vec<ConsumerHandle> = Vec::new();
        for (consumer, _, granted) in consumers {
            let endpoint = ConsumerHandle::to_send(broker, consumer, *granted)?;
            if endpoints.iter().any(|other| other.endpoint == endpoint.endpoint) {
                return Err(format!("`{consumer}` is there twice"));
            }
            endpoints.push(endpoint);
        }
        let at: Vec<usize> = endpoints.iter().map(|endpoint| endpoint.endpoint).collect();
        let weights: Vec<u32> = consumers.iter().map(|(_, weight, _)| *weight).collect();
        let balancer = broker.dispatcher().join_balancer(name, &at, &weights, by_hash)?;
        Ok(BalancerHandle { broker: Arc::clone(broker), balancer, endpoints })
    }

    /// Index of the balancer.
    pub fn balancer(&self) -> usize {
        self.balancer
    }

    /// Its consumers.
    pub fn endpoints(&self) -> &[ConsumerHandle] {
        &self.endpoints
    }

    /// The weight of each consumer, and the buckets it has now.
    pub fn shares(&self) -> Vec<(u32, usize)> {
        self.broker.dispatcher().shares(self.balancer)
    }
}

impl Drop for BalancerHandle {
    fn drop(&mut self) {
        self.broker.dispatcher().leave_balancer(self.balancer);
    }
}

/// An element's use of a consumer that it asks about packets, and its queue of those that wait, which
/// ends with it.
#[derive(Debug)]
pub struct InlineHandle {
    endpoint: ConsumerHandle,
    queue: usize,
}

impl InlineHandle {
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
        terms: InlineConfig,
    ) -> Result<InlineHandle, String> {
        let endpoint = ConsumerHandle::join(broker, name, Use::Asks(granted, terms))?;
        let mut dispatcher = broker.dispatcher();
        let inline = &mut dispatcher.endpoint(endpoint.endpoint).inline;
        let queue = inline.as_mut().expect("it was made above").join();
        drop(dispatcher);
        Ok(InlineHandle { endpoint, queue })
    }

    /// Index of the endpoint.
    pub fn endpoint(&self) -> usize {
        self.endpoint.endpoint
    }

    /// As of [`ConsumerHandle`].
    pub fn events(&self) -> &EventSet {
        self.endpoint.events()
    }

    /// The figures of its consumers.
    pub fn figures(&self) -> Figures {
        self.endpoint.figures()
    }

    /// Flows that are remembered.
    pub fn flows(&self) -> usize {
        let mut dispatcher = self.endpoint.broker.dispatcher();
        dispatcher
            .endpoint(self.endpoint.endpoint)
            .inline
            .as_ref()
            .map_or(0, |inline| inline.flows())
    }

    /// Forgets all flows.
    pub fn forget(&self) {
        let mut dispatcher = self.endpoint.broker.dispatcher();
        if let Some(inline) = &mut dispatcher.endpoint(self.endpoint.endpoint).inline {
            inline.forget();
        }
    }

    /// Elements that ask this consumer, besides this.
    pub fn others(&self) -> usize {
        self.endpoint.broker.dispatcher().endpoint(self.endpoint.endpoint).users - 1
    }

    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        let mut dispatcher = self.endpoint.broker.dispatcher();
        let inline = &dispatcher.endpoint(self.endpoint.endpoint).inline;
        inline.as_ref().map_or(0, |inline| inline.waiting(self.queue))
    }

    /// Swaps the queues of packets that wait with another element: `false` when they ask different
    /// consumers.
    pub fn take_over(&mut self, other: &mut InlineHandle) -> bool {
        let is_same = Arc::ptr_eq(&self.endpoint.broker, &other.endpoint.broker)
            && self.endpoint.endpoint == other.endpoint.endpoint;
        if is_same {
            std::mem::swap(&mut self.queue, &mut other.queue);
        }
        is_same
    }
}

impl Drop for InlineHandle {
    fn drop(&mut self) {
        self.endpoint.broker.dispatcher().leave_queue(self.endpoint.endpoint, self.queue);
    }
}

/// Packets that consumers are asked about.
impl Dispatcher {
    /// Queues packets that wait for the consumer's verdict. Packets without room stay in the frame.
    pub fn ask(&mut self, of: &InlineHandle, pool: &mut PoolCache, frame: &mut Frame) {
        self.ask_consumer(of.endpoint(), of.queue, pool, frame);
    }

    /// Takes the consumer's answers. Packets of a queue with a verdict, or whose time is over,
    /// leave by `frame`, as far as it has room.
    pub fn drain(
        &mut self,
        of: &InlineHandle,
        pool: &mut PoolCache,
        frame: &mut Frame,
    ) -> DrainResult {
        self.drain_queue(of.endpoint(), of.queue, pool, frame)
    }
}

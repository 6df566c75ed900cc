//! Declarations of elements: endpoints for consumers, and balancers of them.

use std::{io, sync::Arc};

use linerate_memory::shared::Tally;
use linerate_port::{
    Link as Attachment,
    peer::event::{self, EventSet},
};

use super::{
    Dispatcher,
    endpoint::{Endpoint, EndpointSlot, Grant, Granted},
    free,
    inline::{Inline, InlineConfig},
    link::Link,
};
use crate::{
    balance::Balance,
    figures::{BALANCERS, Figures, LINES, Share},
    wire::{Access, Reason, is_name},
};

/// Destination of a packet for an endpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Target {
    /// The bit of the member that it is lent to.
    pub(super) to: u64,
    /// The bit of the endpoint that gets a copy.
    pub(super) copies: u64,
    /// The bit of the endpoint without a consumer.
    pub(super) missing: u64,
}

impl Target {
    fn new(at: usize, consumer_slot: Option<&EndpointSlot>) -> Target {
        match consumer_slot {
            None => Target::default(),
            Some(EndpointSlot::Taken(Link::Sharing(id))) => {
                Target { to: id.bit(), ..Target::default() }
            }
            Some(EndpointSlot::Taken(Link::Isolated(_))) => {
                Target { copies: 1 << at, ..Target::default() }
            }
            Some(EndpointSlot::Empty | EndpointSlot::Leaving(_)) => {
                Target { missing: 1 << at, ..Target::default() }
            }
        }
    }

    pub(super) fn with(self, other: Target) -> Target {
        Target {
            to: self.to | other.to,
            copies: self.copies | other.copies,
            missing: self.missing | other.missing,
        }
    }
}

/// Several endpoints among which packets are shared out.
#[derive(Debug)]
pub(super) struct Balancer {
    name: String,
    users: usize,
    pub(super) endpoints: Vec<usize>,
    /// The target of each of these endpoints, as of the last attachment or detachment.
    pub(super) targets: Vec<Target>,
    pub(super) balance: Balance,
    /// The weights its element was configured with: others may have been chosen since.
    configured: Vec<u32>,
    /// Whether hashes choose, or the turn.
    by_hash: bool,
    turn: u64,
}

impl Balancer {
    /// Chooses the consumer of a packet with that hash: its place in the list, and its target.
    #[inline]
    pub(super) fn choose(&mut self, hash: Option<u64>) -> (usize, Target) {
        let bucket = match hash {
            Some(hash) if self.by_hash => self.balance.bucket(hash),
            _ => {
                self.turn = self.turn.wrapping_add(1);
                self.turn as usize
            }
        };
        let consumer = self.balance.owner(bucket).unwrap_or_else(|| self.balance.home(bucket));
        (consumer, self.targets[consumer])
    }
}

/// An element's use of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Use {
    /// Sends to it.
    Sends(Granted),
    /// Receives from it; its consumer has at most that access, and so many buffers for packets of its
    /// own.
    Receives(Access, u32),
    /// Asks it about packets.
    Asks(Granted, InlineConfig),
}

impl Use {
    /// Rights of the consumer, as far as this element is concerned.
    fn grant(self) -> Grant {
        match self {
            Use::Sends(Granted { access, cells }) | Use::Asks(Granted { access, cells }, _) => {
                Grant { access, cells: Some(cells) }
            }
            Use::Receives(access, _) => Grant { access, cells: None },
        }
    }

    fn listens(self) -> bool {
        !matches!(self, Use::Sends(_))
    }
}

impl Dispatcher {
    /// An endpoint of that name for one more element.
    pub(crate) fn join(&mut self, name: &str, how: Use) -> Result<usize, String> {
        if !is_name(name) {
            return Err(format!("`{name}` is no name: 1 to 63 letters, digits, and -_./@"));
        }
        let found = self
            .endpoints
            .iter()
            .position(|endpoint| endpoint.as_ref().is_some_and(|endpoint| endpoint.name == name));
        let at = match found {
            Some(at) => at,
            None => self.add_endpoint(name)?,
        };
        let endpoint = self.endpoint(at);
        let asks = matches!(how, Use::Asks(..));
        if endpoint.users > 0 && endpoint.inline.is_some() != asks {
            return Err(format!(
                "`{name}` is asked about packets by an element: no other sends to it or receives \
                 from it"
            ));
        }
        endpoint.users += 1;
        endpoint.listeners += usize::from(how.listens());
        endpoint.grants.push(how.grant());
        match how {
            Use::Sends(_) => {}
            Use::Receives(_, spare) => endpoint.spare = spare,
            Use::Asks(_, terms) => {
                endpoint.spare = 0;
                endpoint.inline.get_or_insert_with(|| Inline::new(terms)).terms = terms;
            }
        }
        if endpoint.has_too_much() {
            event::set(&self.alarm);
        }
        Ok(at)
    }

    fn add_endpoint(&mut self, name: &str) -> Result<usize, String> {
        let failed = |error: io::Error| format!("consumer `{name}`: {error}");
        let news = event::new().map_err(failed)?;
        let events = Arc::new(EventSet::new(&[&news]).map_err(failed)?);
        let at = free(&mut self.endpoints, LINES)
            .ok_or_else(|| format!("more than {LINES} consumers"))?;
        self.endpoints[at] = Some(Endpoint {
            name: name.into(),
            grants: Vec::new(),
            users: 0,
            listeners: 0,
            consumer_slot: EndpointSlot::Empty,
            attachment: Arc::new(Attachment::new("")),
            on_the_way: false,
            access: Access::Isolated,
            cells: 0,
            originals: Vec::new(),
            inline: None,
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

    pub(crate) fn leave(&mut self, at: usize, how: Use) {
        let endpoint = self.endpoint(at);
        endpoint.users -= 1;
        endpoint.listeners -= usize::from(how.listens());
        let grant = how.grant();
        let found = endpoint.grants.iter().position(|other| *other == grant);
        endpoint.grants.remove(found.expect("it came with this use"));
        if how.listens() {
            endpoint.has_arrived();
        }
        if endpoint.users == 0 {
            // Its queues have ended before.
            endpoint.inline = None;
            event::set(&self.alarm);
        }
    }

    /// A balancer for one more element. One of another element is shared only if both say the same of it: a
    /// configuration that is made beside the one that runs, and may yet be refused, changes nothing for that,
    /// and an element's consumers are in its own order as long as it is there.
    pub(crate) fn join_balancer(
        &mut self,
        name: &str,
        endpoints: &[usize],
        weights: &[u32],
        by_hash: bool,
    ) -> Result<usize, String> {
        let is_of = |of: &Balancer| of.name == name && of.endpoints == endpoints;
        let is_same =
            |of: &Balancer| is_of(of) && of.configured == weights && of.by_hash == by_hash;
        let all = self.balancers.iter_mut().enumerate();
        let mut all = all.filter_map(|(at, of)| Some((at, of.as_mut()?)));
        if let Some((at, same)) = all.find(|(_, of)| is_same(of)) {
            same.users += 1;
            return Ok(at);
        }
        let other = self.balancers.iter().flatten().find(|of| is_of(of));
        let balance = other.map_or_else(
            || Balance::new(weights),
            // As few flows move as may be.
            |of| {
                let mut balance = of.balance.clone();
                if of.configured != weights {
                    balance.weigh(weights);
                }
                balance
            },
        );
        if !is_name(name) {
            return Err(format!("`{name}` is no name: 1 to 63 letters, digits, and -_./@"));
        }
        let at = free(&mut self.balancers, BALANCERS)
            .ok_or_else(|| format!("more than {BALANCERS} balancers"))?;
        self.balancers[at] = Some(Balancer {
            name: name.into(),
            users: 1,
            endpoints: endpoints.to_vec(),
            targets: Vec::new(),
            balance,
            configured: weights.to_vec(),
            by_hash,
            turn: 0,
        });
        self.settle_balancer(at);
        Ok(at)
    }

    /// The weight of each consumer of a balancer, and the buckets it has now.
    pub(crate) fn shares(&self, at: usize) -> Vec<(u32, usize)> {
        self.balancers[at].as_ref().map_or_else(Vec::new, |balancer| {
            let weights = balancer.balance.weights().iter().copied();
            weights.zip(balancer.balance.shares()).collect()
        })
    }

    pub(crate) fn leave_balancer(&mut self, at: usize) {
        let Some(balancer) = &mut self.balancers[at] else { return };
        balancer.users -= 1;
        if balancer.users == 0 {
            self.balancers[at] = None;
            self.board.set_balancer(at, "", &[]);
        }
    }

    /// Tells the balancers of an endpoint which consumers are present.
    pub(super) fn settle_balancers_of(&mut self, endpoint: usize) {
        for number in 0..self.balancers.len() {
            if self.balancers[number].as_ref().is_some_and(|of| of.endpoints.contains(&endpoint)) {
                self.settle_balancer(number);
            }
        }
    }

    fn settle_balancer(&mut self, at: usize) {
        let Some(balancer) = &mut self.balancers[at] else { return };
        balancer.targets.clear();
        for (number, &endpoint) in balancer.endpoints.iter().enumerate() {
            let consumer_slot =
                self.endpoints[endpoint].as_ref().map(|endpoint| &endpoint.consumer_slot);
            balancer
                .balance
                .set_present(number, matches!(consumer_slot, Some(EndpointSlot::Taken(_))));
            balancer.targets.push(Target::new(endpoint, consumer_slot));
        }
        self.show_balancer(at);
    }

    /// Shows the shares of a balancer in the figures.
    fn show_balancer(&self, at: usize) {
        let Some(balancer) = &self.balancers[at] else { return };
        let weights = balancer.balance.weights().iter().zip(balancer.balance.shares());
        let share = |(&line, (&weight, buckets)): (&usize, (&u32, usize))| {
            // A line is an endpoint.
            Share { line, weight, buckets }
        };
        let shares: Vec<Share> = balancer.endpoints.iter().zip(weights).map(share).collect();
        self.board.set_balancer(at, &balancer.name, &shares);
    }

    /// Changes the weights of a balancer. Returns how many buckets have moved.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or it has another number of consumers.
    pub fn weigh(&mut self, name: &str, weights: &[u32]) -> Result<usize, (Reason, String)> {
        let (mut moved, mut consumers) = (None, None);
        // While a configuration takes another's place there are two.
        for at in 0..self.balancers.len() {
            let Some(balancer) = self.balancers[at].as_mut().filter(|of| of.name == name) else {
                continue;
            };
            if balancer.endpoints.len() == weights.len() {
                moved = moved.max(Some(balancer.balance.weigh(weights)));
                self.show_balancer(at);
            } else {
                consumers = Some(balancer.endpoints.len());
            }
        }
        match (moved, consumers) {
            (Some(moved), _) => Ok(moved),
            (None, Some(consumers)) => {
                let text = format!("{} weights for {consumers} consumers", weights.len());
                Err((Reason::Protocol, text))
            }
            (None, None) => {
                let names: Vec<&str> =
                    self.balancers.iter().flatten().map(|other| other.name.as_str()).collect();
                Err((Reason::Unknown, format!("the balancers are: {}", names.join(", "))))
            }
        }
    }
}

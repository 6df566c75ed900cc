//! `ToConsumer`, `ConsumerBalancer` and `ConsumerFanOut`: enqueue packets to other programs.

mod classes;
mod key;
mod selector;
mod written;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_cluster::{BalancerHandle, Broker, ConsumerHandle, Granted, dispatcher::Recipients};
use linerate_graph::{Context, DropReason, Element, HandlerError, HandlerResult, Next};
use linerate_memory::Frame;
use linerate_port::Wake;

pub(super) use self::{
    classes::{BALANCER, FAN_OUT, TO_CONSUMER},
    selector::names,
};
use self::{key::Key, selector::PacketSelector};
use super::{
    place::{BrokerState, Expected, broker},
    weights,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no program attached
    Absent,
    /// programs did not keep up
    Full,
    /// no filter lets it through
    Unwanted,
}

/// Interval at which a consumer without room is tried again.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// A program.
struct Program {
    name: String,
    weight: u32,
    granted: Granted,
    /// Filter of its own, on the packets for it.
    selector: PacketSelector,
}

/// Programs among which packets are balanced.
struct Application {
    name: String,
    programs: Vec<Program>,
    /// Filter of the packets for them.
    selector: PacketSelector,
}

pub(super) struct Sharing {
    applications: Vec<Application>,
    /// Set if one of them has a filter; the recipients of each packet of a frame, by bit.
    has_selectors: bool,
    wanted: Vec<u64>,
    /// Affinity key; none where programs take turns.
    key: Option<Key>,
    /// Whether packets wait for programs, and whether they are pulled for them.
    waits: bool,
    pulls: bool,
    /// Packets of a turn, where it was given.
    burst: Option<usize>,
    expected: Option<Expected>,
    broker: Option<Arc<Broker>>,
    balancers: Vec<BalancerHandle>,
    /// Their numbers.
    ids: Vec<usize>,
    hashes: Vec<u64>,
    /// Packets that wait, and the frame in their place while they are enqueued.
    held: Frame,
    stand_in: Option<Frame>,
    /// Packets for absent programs, and those without a recipient.
    absent: Frame,
    unwanted: Frame,
    packets: u64,
}

impl Sharing {
    /// Enqueues packets to programs, and drops those for absent ones. Packets without room stay.
    fn share_out(&mut self, cx: &mut Context, frame: &mut Frame) {
        self.choose(cx, frame);
        let Some(broker) = &self.broker else { return };
        if let Some(key) = &self.key {
            let hashes = &mut self.hashes;
            hashes.clear();
            cx.pool.arena().for_each(frame, |packet| hashes.push(key.hash(packet)));
        }
        let before = frame.len();
        let (pool, absent, unwanted) = (&mut cx.pool, &mut self.absent, &mut self.unwanted);
        let too_long = broker.dispatcher().share_out_wanted(
            &self.ids,
            &self.hashes,
            self.has_selectors.then_some(Recipients { by: &self.wanted, unwanted }),
            self.waits,
            pool,
            frame,
            absent,
        );
        let aside = self.absent.len() + self.unwanted.len();
        self.packets += (before - frame.len() - aside - too_long) as u64;
        if too_long > 0 {
            cx.count_drops(Reason::Full, too_long);
        }
        if !self.absent.is_empty() {
            cx.drop_frame(&mut self.absent, Reason::Absent);
        }
        if !self.unwanted.is_empty() {
            cx.drop_frame(&mut self.unwanted, Reason::Unwanted);
        }
    }

    /// Determines the recipients of each packet, where there are filters.
    fn choose(&mut self, cx: &Context, frame: &Frame) {
        if !self.has_selectors {
            return;
        }
        let applications = &self.applications;
        let bits = |packet: &[u8]| {
            let (mut bits, mut number) = (0, 0);
            for Application { programs, selector, .. } in applications {
                let wanted = selector.accepts(packet);
                for program in programs {
                    bits |= u64::from(wanted && program.selector.accepts(packet)) << number;
                    number += 1;
                }
            }
            bits
        };
        self.wanted.clear();
        self.wanted.extend(cx.pool.arena().packets(frame).map(bits));
    }

    /// Enqueues the waiting packets.
    fn retry(&mut self, cx: &mut Context) {
        // Not a frame made for each look.
        let Some(stand_in) = self.stand_in.take() else { return };
        let mut held = std::mem::replace(&mut self.held, stand_in);
        self.share_out(cx, &mut held);
        self.stand_in = Some(std::mem::replace(&mut self.held, held));
        if self.held.is_empty() {
            cx.set_full(false);
        }
    }

    fn places(&self) -> impl Iterator<Item = (&str, &ConsumerHandle)> {
        let applications = self.applications.iter().zip(&self.balancers);
        applications.flat_map(|(application, balancer)| {
            let names = application.programs.iter().map(|program| program.name.as_str());
            names.zip(balancer.endpoints())
        })
    }
}

impl Element for Sharing {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let broker = broker(&Arc::clone(cx.world()))?;
        let place = cx.world().common::<BrokerState>();
        for Application { name, programs, .. } in &self.applications {
            let consumer = |Program { name, weight, granted, .. }: &Program| {
                let granted = Granted { access: place.granted(name), ..*granted };
                (name.clone(), *weight, granted)
            };
            let consumers: Vec<_> = programs.iter().map(consumer).collect();
            let balancer = BalancerHandle::granting(&broker, name, &consumers, self.key.is_some())?;
            self.ids.push(balancer.balancer());
            self.balancers.push(balancer);
        }
        self.broker = Some(broker);
        self.expected = None;
        if self.pulls {
            cx.schedule();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.held.is_empty() {
            self.retry(cx);
        }
        if self.held.is_empty() {
            self.share_out(cx, frame);
        }
        if self.waits && !frame.is_empty() {
            self.held.append(frame, usize::MAX);
        }
        if !frame.is_empty() {
            cx.drop_frame(frame, Reason::Full);
        }
        if !self.held.is_empty() {
            cx.set_full(true);
            cx.schedule();
        }
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let before = self.held.len();
        if before > 0 {
            self.retry(cx);
        }
        if !self.held.is_empty() {
            return if self.held.len() < before { Next::Again } else { Next::Idle };
        }
        if !self.pulls {
            return Next::Sleep;
        }
        let burst = self.burst.unwrap_or(frame.limit());
        let mut left = burst;
        loop {
            let pulled = cx.pull(0, left.min(frame.limit()), frame);
            left -= pulled;
            if pulled == 0 {
                break;
            }
            self.push(cx, 0, frame);
            if left == 0 || self.burst.is_none() || !self.held.is_empty() {
                break;
            }
        }
        if left == burst { cx.nothing_pulled() } else { Next::Again }
    }

    fn burst(&self) -> Option<usize> {
        self.burst.filter(|_| self.pulls)
    }

    fn room(&self) -> usize {
        match (self.waits, self.held.is_empty()) {
            (false, _) => usize::MAX,
            (true, true) => self.held.limit(),
            (true, false) => 0,
        }
    }

    fn wake(&mut self) -> Wake<'_> {
        Wake::At(Instant::now() + LOOK_AGAIN)
    }

    fn take_state(&mut self, cx: &mut Context, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Sharing>() else { return };
        self.packets += old.packets;
        self.held.append(&mut old.held, usize::MAX);
        if !self.held.is_empty() {
            cx.schedule();
        }
    }

    fn close(&mut self, cx: &mut Context) {
        cx.drop_frame(&mut self.held, Reason::Full);
        self.balancers.clear();
        self.ids.clear();
        self.broker = None;
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        let words = |numbers: Vec<String>| Ok(numbers.join(" "));
        let shares = || self.balancers.first().map(BalancerHandle::shares).unwrap_or_default();
        match handler {
            "count" => Ok(self.packets.to_string()),
            "weights" => words(shares().iter().map(|(weight, _)| weight.to_string()).collect()),
            "shares" => words(shares().iter().map(|(_, buckets)| buckets.to_string()).collect()),
            "consumers" => {
                let lines = self.places().map(|(name, place)| {
                    let of = place.figures();
                    let process = if of.state == 0 { "-".into() } else { of.process.to_string() };
                    let (packets, full) = (of.packets, of.lost_full);
                    format!("{name} {process} {packets} {full} {} {}", of.lost_absent, of.held)
                });
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match (handler, self.applications.first(), &self.broker) {
            ("reset_counts", ..) => self.packets = 0,
            ("weights", Some(Application { name, programs, .. }), Some(broker)) => {
                let weights =
                    weights::parse(value, programs.len()).map_err(HandlerError::Refused)?;
                let weighed = broker.dispatcher().weigh(name, &weights);
                weighed.map_err(|(_, text)| HandlerError::Refused(text))?;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

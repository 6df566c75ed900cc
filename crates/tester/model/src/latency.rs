//! Latency against load of a loop that takes waiting packets, processes them, and sends them on.

use serde::{Deserialize, Serialize};

use crate::{
    costs::{Costs, Scenario},
    units::{Cycles, Packets, PacketsPerSecond, Seconds, SecondsPerPacket},
};

/// A polling loop: each round takes at most `burst` waiting packets, lasts
/// `per_burst` plus `per_packet` for each of them, and sends them at its end.
///
/// With Poisson arrivals at the rate `lambda` and `r = lambda a`, as long as
/// the limit `B` of a round is not reached:
///
/// ```text
/// mean burst    n = lambda b / (1 - r), at most B
/// mean round    E[T] = b / (1 - r)
/// its variance  Var[T] = a^2 lambda E[T] / (1 - r^2)
/// mean latency  L0 + a + b + (1/2 + r) E[T^2] / E[T]
/// ```
///
/// A packet waits for the rest of the round it arrives in, on average half of
/// a round weighted by length, and then for its own round, which processes all
/// packets that arrived in the round before. The equations agree with a simulation of the loop
/// within 1.1 % up to 0.9 of the saturation and within 2.8 % up to 0.95
/// (`tests/latency.rs`); packets that arrive at even intervals wait less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// `a`: time of a packet.
    pub per_packet: SecondsPerPacket,
    /// `b`: time of a round without packets.
    pub per_burst: Seconds,
    /// `B`: the most packets of a round.
    pub burst: Packets,
    /// `L0`: latency outside of the loop.
    pub fixed: Seconds,
    /// `Q`: length of the queue in front of the loop; further packets are lost.
    pub queue: Packets,
}

impl Costs {
    /// Returns the loop of one worker that runs a scenario. `fixed` and `queue` are not part of a packet's
    /// cost: they are measured at low load and under overload.
    pub fn service(&self, scenario: &Scenario, fixed: Seconds, queue: Packets) -> Loop {
        let visits = scenario.elements.iter();
        let per_burst: Cycles = [
            (scenario.receive, self.receive.per_burst),
            (scenario.transmit, self.transmit.per_burst),
        ]
        .into_iter()
        .filter_map(|(used, cycles)| used.then_some(cycles))
        .chain(visits.filter_map(|visit| {
            self.elements.get(&visit.element).map(|cost| cost.per_burst * visit.times)
        }))
        .sum();
        let penalty = self.scaling.penalty(f64::from(scenario.workers));
        let per_burst = per_burst / scenario.clock * penalty;
        let total = self.per_packet(scenario).total();
        Loop {
            per_packet: total - per_burst / scenario.burst,
            per_burst,
            burst: scenario.burst,
            fixed,
            queue,
        }
    }
}

impl Loop {
    /// Returns `mu`: the highest rate, at which every round is full.
    pub fn capacity(&self) -> PacketsPerSecond {
        self.burst / self.longest_round()
    }

    fn longest_round(&self) -> Seconds {
        self.per_burst + self.per_packet * self.burst
    }

    /// Returns `r`: the share of time spent per packet, not per round.
    pub fn utilisation(&self, load: PacketsPerSecond) -> f64 {
        load / self.per_packet.rate()
    }

    /// Mean packets of a round.
    pub fn mean_vector(&self, load: PacketsPerSecond) -> Packets {
        let share = self.utilisation(load);
        if share >= 1.0 || load >= self.capacity() {
            return self.burst;
        }
        (load * (self.per_burst / (1.0 - share))).min(self.burst)
    }

    /// Mean time of a round.
    pub fn mean_round(&self, load: PacketsPerSecond) -> Seconds {
        self.per_burst + self.per_packet * self.mean_vector(load)
    }

    /// Variance of the time of a round, in square seconds. Zero past
    /// saturation, where all rounds are full.
    pub fn round_variance(&self, load: PacketsPerSecond) -> f64 {
        if load >= self.capacity() {
            return 0.0;
        }
        let share = self.utilisation(load);
        let packet = self.per_packet.get();
        packet * packet * load.get() * self.mean_round(load).get() / (1.0 - share * share)
    }

    /// Mean latency at a load. At and past saturation it is that of the full
    /// queue, [`overload_latency`](Self::overload_latency).
    pub fn mean_latency(&self, load: PacketsPerSecond) -> Seconds {
        if load >= self.capacity() {
            return self.overload_latency();
        }
        let mean = self.mean_round(load).get();
        let square = self.round_variance(load) + mean * mean;
        let waiting = (0.5 + self.utilisation(load)) * square / mean;
        let own = self.per_packet * Packets::new(1.0) + self.per_burst;
        self.fixed + own + Seconds::new(if mean > 0.0 { waiting } else { 0.0 })
    }

    /// The plateau of latency under overload: `L0 + Q / mu`.
    pub fn overload_latency(&self) -> Seconds {
        self.fixed + self.queue / self.capacity()
    }

    /// `Q` from the latency measured under overload: the inverse of
    /// [`overload_latency`](Self::overload_latency).
    pub fn queue_from_overload(&self, latency: Seconds) -> Packets {
        self.capacity() * (latency - self.fixed).max(Seconds::ZERO)
    }

    /// The share of packets lost at a load: `1 - mu / lambda` past
    /// saturation, else none.
    pub fn loss(&self, load: PacketsPerSecond) -> f64 {
        (1.0 - self.capacity() / load).max(0.0)
    }

    /// Returns the longest burst at `rate` without loss: `Q R / (R - mu)`.
    /// `None` if the rate can be kept up for ever.
    pub fn back_to_back(&self, rate: PacketsPerSecond) -> Option<Packets> {
        let capacity = self.capacity();
        (rate > capacity).then(|| self.queue * (rate / (rate - capacity)))
    }

    /// `Q` from the longest burst without loss: the inverse of
    /// [`back_to_back`](Self::back_to_back).
    pub fn queue_from_burst(&self, rate: PacketsPerSecond, burst: Packets) -> Packets {
        burst * (1.0 - self.capacity() / rate).max(0.0)
    }
}

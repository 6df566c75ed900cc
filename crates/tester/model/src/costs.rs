//! The extended model: cost of a packet, and the throughput that follows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    limits::{Limit, Limits},
    memory::{Access, Memory},
    scaling::Scaling,
    units::{
        Bytes, Cycles, CyclesPerPacket, Hertz, Packets, PacketsPerSecond, SecondsPerByte,
        SecondsPerPacket,
    },
};

/// Cores of two threads that hand packets to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// One core, in turns.
    SameCore,
    /// Two hardware threads of one core.
    Sibling,
    /// Two cores of one NUMA node.
    SameNode,
    /// Cores of different nodes.
    OtherNode,
}

/// A part that costs cycles for each packet and for each burst: `a + b / B`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// `a`.
    pub per_packet: CyclesPerPacket,
    /// `b`: paid once, however many packets the burst has.
    pub per_burst: Cycles,
}

impl Cost {
    /// Both parts, in cycles.
    pub const fn new(per_packet: f64, per_burst: f64) -> Self {
        Cost { per_packet: CyclesPerPacket::new(per_packet), per_burst: Cycles::new(per_burst) }
    }

    /// Cost of each packet in bursts of this many.
    pub fn at(self, burst: Packets) -> CyclesPerPacket {
        self.per_packet + self.per_burst / burst
    }
}

/// The parameters of the extended model: one machine, one framework.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    /// Receiving (`a_rx`, `b_rx`).
    pub receive: Cost,
    /// Transmitting (`a_tx`, `b_tx`).
    pub transmit: Cost,
    /// Elements by name (`a_k`, `b_k`).
    pub elements: BTreeMap<String, Cost>,
    /// Time of each packet that does not scale with the clock (`u`).
    pub stall: SecondsPerPacket,
    /// Accesses to memory (`l`, `m`).
    pub memory: Memory,
    /// Time for each byte touched (`g`).
    pub per_byte: SecondsPerByte,
    /// Several workers (`s`, `c`).
    pub scaling: Scaling,
    /// Handing packets to another thread (`h`).
    pub handover: BTreeMap<Placement, Cost>,
}

/// An element on a packet's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Its name in [`Costs::elements`].
    pub element: String,
    /// Visits of a packet, on average.
    pub times: f64,
}

/// Work on each packet, and its conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scenario {
    /// The clock of the cores (`f`).
    pub clock: Hertz,
    /// Packets in a burst (`B`); 1 or more.
    pub burst: Packets,
    /// Whether packets are received from a port.
    pub receive: bool,
    /// Whether packets are sent to a port.
    pub transmit: bool,
    /// Elements passed.
    pub elements: Vec<Visit>,
    /// Cycles of a task that is not one of the elements (`W`).
    pub work: CyclesPerPacket,
    /// Accesses to memory (`S`, `WS`).
    pub accesses: Vec<Access>,
    /// Bytes of the packet that are read or written.
    pub touched: Bytes,
    /// The frame's length, with its checksum (`L`).
    pub frame: Bytes,
    /// Threads that do the same (`N`); 1 or more.
    pub workers: u32,
    /// Link, card and bus.
    pub limits: Limits,
}

impl Default for Scenario {
    /// Defaults: one worker at 1 GHz forwards minimal frames in bursts of 64 and does nothing with
    /// them.
    fn default() -> Self {
        Scenario {
            clock: Hertz::new(1e9),
            burst: Packets::new(64.0),
            receive: true,
            transmit: true,
            elements: Vec::new(),
            work: CyclesPerPacket::ZERO,
            accesses: Vec::new(),
            touched: Bytes::ZERO,
            frame: Bytes::new(64.0),
            workers: 1,
            limits: Limits::default(),
        }
    }
}

/// Time of a packet by cause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Receiving.
    pub receive: SecondsPerPacket,
    /// Transmitting.
    pub transmit: SecondsPerPacket,
    /// All elements.
    pub elements: SecondsPerPacket,
    /// The task's own work.
    pub work: SecondsPerPacket,
    /// Time that does not scale with the clock.
    pub stall: SecondsPerPacket,
    /// Accesses to memory.
    pub memory: SecondsPerPacket,
    /// Bytes touched.
    pub bytes: SecondsPerPacket,
    /// Waiting for other workers.
    pub contention: SecondsPerPacket,
}

impl Breakdown {
    /// Time that a faster clock shortens, without contention.
    pub fn cycles(&self) -> SecondsPerPacket {
        self.receive + self.transmit + self.elements + self.work
    }

    /// Time that it does not shorten, without contention.
    pub fn fixed(&self) -> SecondsPerPacket {
        self.stall + self.memory + self.bytes
    }

    /// All of it.
    pub fn total(&self) -> SecondsPerPacket {
        self.cycles() + self.fixed() + self.contention
    }

    /// The largest of cycles, memory and contention.
    pub fn dominant(&self) -> Limit {
        let parts = [
            (self.cycles(), Limit::Cycles),
            (self.fixed(), Limit::Memory),
            (self.contention, Limit::Contention),
        ];
        let largest =
            parts.into_iter().max_by(|(one, _), (other, _)| one.get().total_cmp(&other.get()));
        largest.map_or(Limit::Cycles, |(_, limit)| limit)
    }
}

/// A throughput, its limit, and the cost of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Packets per second.
    pub throughput: PacketsPerSecond,
    /// The limit of the throughput.
    pub limit: Limit,
    /// Time per packet of one worker.
    pub per_packet: Breakdown,
}

impl Costs {
    /// The elements of a scenario that have no cost here. They count as free
    /// in a prediction, which is then too high.
    pub fn unknown<'a>(&self, scenario: &'a Scenario) -> Vec<&'a str> {
        let known = |visit: &&Visit| !self.elements.contains_key(&visit.element);
        scenario.elements.iter().filter(known).map(|visit| visit.element.as_str()).collect()
    }

    /// The cycles of a packet, apart from the scenario's work.
    pub fn overhead(&self, scenario: &Scenario) -> CyclesPerPacket {
        let [receive, transmit, elements] = self.parts(scenario);
        receive + transmit + elements
    }

    fn parts(&self, scenario: &Scenario) -> [CyclesPerPacket; 3] {
        let port = |used: bool, cost: Cost| {
            if used { cost.at(scenario.burst) } else { CyclesPerPacket::ZERO }
        };
        let element = |visit: &Visit| match self.elements.get(&visit.element) {
            Some(cost) => cost.at(scenario.burst) * visit.times,
            None => CyclesPerPacket::ZERO,
        };
        [
            port(scenario.receive, self.receive),
            port(scenario.transmit, self.transmit),
            scenario.elements.iter().map(element).sum(),
        ]
    }

    /// The time of a packet by cause.
    pub fn per_packet(&self, scenario: &Scenario) -> Breakdown {
        let [receive, transmit, elements] = self.parts(scenario);
        let mut breakdown = Breakdown {
            receive: receive / scenario.clock,
            transmit: transmit / scenario.clock,
            elements: elements / scenario.clock,
            work: scenario.work / scenario.clock,
            stall: self.stall,
            memory: scenario.accesses.iter().map(|access| self.memory.time(access)).sum(),
            bytes: (self.per_byte * scenario.touched).per_packet(),
            contention: SecondsPerPacket::ZERO,
        };
        let penalty = self.scaling.penalty(f64::from(scenario.workers));
        breakdown.contention = breakdown.total() * (penalty - 1.0);
        breakdown
    }

    /// The throughput of a scenario run to completion on its workers.
    ///
    /// It holds for bursts that are full, which they are under the load that
    /// reaches this throughput, and for workers that share the traffic evenly.
    pub fn predict(&self, scenario: &Scenario) -> Prediction {
        let per_packet = self.per_packet(scenario);
        let possible = per_packet.total().rate() * f64::from(scenario.workers);
        let (throughput, limit) =
            scenario.limits.bound(possible, per_packet.dominant(), scenario.frame);
        Prediction { throughput, limit, per_packet }
    }
}

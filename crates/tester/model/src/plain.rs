//! The published model: `F = T * (C_IO + C_task + C_busy)`.
//!
//! Gallenmüller, "Comparison of Memory Mapping Techniques for High-Speed Packet Processing" (2014).
//! A framework costs `C_IO` cycles for each packet of any size, the application `C_task`; the rest
//! of the clock is `C_busy`, spent on polling with nothing to do. It holds for one core, large
//! bursts, and packets whose data are in the cache; [`Costs`](crate::Costs) says more.

use serde::{Deserialize, Serialize};

use crate::{
    limits::{Limit, Limits},
    units::{BitsPerSecond, Bytes, CyclesPerPacket, Hertz, PacketsPerSecond, PercentPerGbit},
};

/// The published model of one framework.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plain {
    /// `C_IO`: receiving and sending one packet.
    pub io: CyclesPerPacket,
}

impl Plain {
    /// `C_IO` from one measurement past the knee, where no cycle is spent on
    /// polling in vain: `F / T - C_task`.
    pub fn measured(clock: Hertz, throughput: PacketsPerSecond, task: CyclesPerPacket) -> Self {
        Plain { io: clock / throughput - task }
    }

    /// The throughput of a task of so many cycles on one core.
    pub fn throughput(
        self,
        clock: Hertz,
        task: CyclesPerPacket,
        limits: &Limits,
        frame: Bytes,
    ) -> (PacketsPerSecond, Limit) {
        limits.bound(clock / (self.io + task), Limit::Cycles, frame)
    }

    /// `C_busy`: cycles per packet left for polling at this throughput; none
    /// past the knee.
    pub fn busy(
        self,
        clock: Hertz,
        throughput: PacketsPerSecond,
        task: CyclesPerPacket,
    ) -> CyclesPerPacket {
        (clock / throughput - self.io - task).max(CyclesPerPacket::ZERO)
    }

    /// `c_equal`, the knee: the dearest task at which `rate` is still reached.
    /// `None` if input and output alone are too slow for it.
    pub fn knee(self, clock: Hertz, rate: PacketsPerSecond) -> Option<CyclesPerPacket> {
        let left = clock / rate - self.io;
        (left >= CyclesPerPacket::ZERO).then_some(left)
    }

    /// The slowest clock at which a task of so many cycles reaches `rate`.
    pub fn clock(self, rate: PacketsPerSecond, task: CyclesPerPacket) -> Hertz {
        rate * (self.io + task)
    }
}

/// The indicator rho: percent of one processor's time for each Gbit/s moved.
///
/// Wang, He, Wang, "Comparison of High-Performance Packet Processing
/// Frameworks on NUMA" (2016). `busy` is the share of processors' time spent
/// (2.0 for two processors fully busy), `moved` the frames' bits without
/// preamble and gap.
pub fn cpu_per_gbit(busy: f64, moved: BitsPerSecond) -> PercentPerGbit {
    PercentPerGbit::new(busy * 100.0 / (moved.get() / 1e9))
}

//! Peers of measurements: DPDK's testpmd, plain C loops on DPDK's libraries, a forwarder on
//! libpcap, a program that the kernel balances to, and Open vSwitch.
//!
//! This module installs, compiles, starts, reads and stops them, so that a measurement can
//! alternate between them and ours. It does not measure anything of ours and prints no tables.
//!
//! Peers get the settings that make them fast: huge pages where the machine grants them, a core of
//! their own, processor-specific code, and no telemetry.

mod c_programs;
mod memory;
pub(crate) mod open_vswitch;
mod packages;
mod process;
mod terminal;
mod testpmd;

pub(crate) use c_programs::{OpCase, PcapOptions, PcapTask, Programs};
pub(crate) use memory::Memory;
pub(crate) use open_vswitch::OpenVswitch;
pub(crate) use packages::{Peer, ensure};
pub(crate) use process::{Process, command_in};
pub(crate) use testpmd::{Mode, Ports, Testpmd, start_time};

/// The core the peer's main thread, and ours, may use.
pub(crate) const MAIN_CORE: usize = 0;
/// The core packets are forwarded on.
pub(crate) const FORWARDING_CORE: usize = 1;

/// Work of a forwarder between two readings of its counters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Packets it sent.
    pub(crate) packets: u64,
    /// Packets it had and did not send, mostly for want of place; zero where it does not say.
    pub(crate) dropped: u64,
    /// Time between the readings.
    pub(crate) seconds: f64,
    /// Processor time its forwarding thread used in that time. Less than `seconds` for a polling
    /// forwarder means that the machine gave its core to another program.
    pub(crate) cpu_seconds: f64,
    /// TSC cycles it spent in rounds that found packets, where it counts them.
    pub(crate) busy_cycles: Option<u64>,
}

impl Sample {
    /// Packets per second, in millions.
    pub(crate) fn mpps(&self) -> f64 {
        self.packets as f64 / self.seconds / 1e6
    }

    /// Cycles per packet of processor time at `rate` cycles per second.
    pub(crate) fn cpu_cycles(&self, rate: f64) -> f64 {
        self.cpu_seconds * rate / self.packets as f64
    }

    /// Cycles per packet in rounds that found packets, where the forwarder counts them.
    pub(crate) fn busy_cycles(&self) -> Option<f64> {
        self.busy_cycles.map(|cycles| cycles as f64 / self.packets as f64)
    }

    /// Share of its time that such rounds took, at `rate` cycles per second.
    pub(crate) fn busy(&self, rate: f64) -> Option<f64> {
        self.busy_cycles.map(|cycles| cycles as f64 / (self.seconds * rate))
    }

    /// Share of the packets it had that it did not send.
    pub(crate) fn dropped(&self) -> f64 {
        self.dropped as f64 / (self.packets + self.dropped).max(1) as f64
    }
}

/// Result of a C program: TSC cycles per packet or object.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub(crate) struct Cycles {
    /// Lowest of its samples.
    #[serde(rename = "cycles_best")]
    pub(crate) best: f64,
    /// Median of its samples.
    #[serde(rename = "cycles_median")]
    pub(crate) median: f64,
    /// Rate of the time-stamp counter, cycles per second.
    pub(crate) tsc_hz: f64,
}

/// Cost of a table of exact matches, in TSC cycles per key.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub(crate) struct TableCycles {
    /// Looking keys up that are there.
    #[serde(flatten)]
    pub(crate) lookup: Cycles,
    /// Adding a key, on average over filling the table.
    #[serde(rename = "add_cycles")]
    pub(crate) add: f64,
}

/// Cost of longest-prefix lookups, in TSC cycles per address.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub(crate) struct LookupCycles {
    #[serde(flatten)]
    pub(crate) cycles: Cycles,
    /// Sum of the next hops of all addresses.
    pub(crate) sum: u64,
    /// Time all routes took to be inserted.
    pub(crate) insert_seconds: f64,
}

/// Cost of running a filter.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub(crate) struct FilterCycles {
    #[serde(flatten)]
    pub(crate) cycles: Cycles,
    /// Number of packets it passes.
    pub(crate) sum: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_converts_to_rates_and_cycles() {
        let sample = Sample {
            packets: 2_000_000,
            dropped: 2_000_000,
            seconds: 0.5,
            cpu_seconds: 0.25,
            busy_cycles: Some(3_000_000),
        };
        assert_eq!(sample.mpps(), 4.0);
        assert_eq!(sample.cpu_cycles(2e9), 250.0);
        assert_eq!(sample.busy_cycles(), Some(1.5));
        assert_eq!((sample.busy(12e6), sample.dropped()), (Some(0.5), 0.5));
    }
}

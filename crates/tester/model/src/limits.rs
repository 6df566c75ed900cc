//! Bounds of a rate besides the processor: the link, the card, the bus.

use serde::{Deserialize, Serialize};

use crate::units::{BitsPerSecond, Bytes, PacketsPerSecond};

/// Bytes of an Ethernet link for each frame besides itself: preamble, start delimiter and
/// inter-frame gap. The frame check sequence is part of the frame.
pub const FRAME_OVERHEAD: Bytes = Bytes::new(20.0);

/// The highest rate of frames on a link: `bandwidth / (8 (frame + 20))`.
///
/// ```
/// use linerate_model::{line_rate, units::{BitsPerSecond, Bytes}};
/// let rate = line_rate(BitsPerSecond::new(10e9), Bytes::new(64.0));
/// assert_eq!(rate.to_string(), "14.88 Mpps");
/// ```
pub fn line_rate(bandwidth: BitsPerSecond, frame: Bytes) -> PacketsPerSecond {
    PacketsPerSecond::new(bandwidth.get() / (8.0 * (frame + FRAME_OVERHEAD).get()))
}

/// The limit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The processor: cycles of receiving, transmitting, elements and work.
    Cycles,
    /// Time that no faster clock shortens: stalls, memory accesses, bytes.
    Memory,
    /// Workers that wait for each other.
    Contention,
    /// One stage of a pipeline, counted from 0.
    Stage(usize),
    /// The network card's own packet rate.
    Nic,
    /// The link's bandwidth.
    Link,
    /// The bus between card and memory.
    Bus,
    /// Sources, or elements that let packets pass, go by the clock.
    Sources,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Limit::Cycles => "processor cycles",
            Limit::Memory => "memory latency",
            Limit::Contention => "contention between workers",
            Limit::Stage(stage) => return write!(formatter, "pipeline stage {stage}"),
            Limit::Nic => "network card",
            Limit::Link => "link",
            Limit::Bus => "bus",
            Limit::Sources => "rate of the sources",
        })
    }
}

/// The bounds that do not depend on the program. An unknown one does not bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The most packets the card moves, measured with an empty application
    /// and large bursts.
    pub nic: Option<PacketsPerSecond>,
    /// The link's bandwidth.
    pub link: Option<BitsPerSecond>,
    /// The most packets the bus moves.
    pub bus: Option<PacketsPerSecond>,
    /// The most packets that come: sources and shapers that go by the clock bring no more.
    pub sources: Option<PacketsPerSecond>,
}

impl Limits {
    /// A card that moves so many packets.
    pub fn nic(rate: PacketsPerSecond) -> Self {
        Limits { nic: Some(rate), ..Limits::default() }
    }

    /// A link this wide.
    pub fn link(bandwidth: BitsPerSecond) -> Self {
        Limits { link: Some(bandwidth), ..Limits::default() }
    }

    /// The tightest of them for frames of this size.
    pub fn tightest(&self, frame: Bytes) -> Option<(PacketsPerSecond, Limit)> {
        [
            self.nic.map(|rate| (rate, Limit::Nic)),
            self.link.map(|bandwidth| (line_rate(bandwidth, frame), Limit::Link)),
            self.bus.map(|rate| (rate, Limit::Bus)),
            self.sources.map(|rate| (rate, Limit::Sources)),
        ]
        .into_iter()
        .flatten()
        .min_by(|(one, _), (other, _)| one.get().total_cmp(&other.get()))
    }

    /// The smaller of a rate with its limit and the tightest bound.
    pub fn bound(
        &self,
        rate: PacketsPerSecond,
        limit: Limit,
        frame: Bytes,
    ) -> (PacketsPerSecond, Limit) {
        match self.tightest(frame) {
            Some((tightest, by)) if tightest < rate => (tightest, by),
            _ => (rate, limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_timed_sources_is_a_bound() {
        let limits = Limits {
            sources: Some(PacketsPerSecond::new(1000.0)),
            ..Limits::link(BitsPerSecond::new(10e9))
        };
        let frame = Bytes::new(64.0);
        let bound = |rate| limits.bound(PacketsPerSecond::new(rate), Limit::Cycles, frame);
        assert_eq!(bound(1e6), (PacketsPerSecond::new(1000.0), Limit::Sources));
        assert_eq!(bound(900.0), (PacketsPerSecond::new(900.0), Limit::Cycles));
        // Nothing comes, however fast it would be forwarded.
        let nothing = Limits { sources: Some(PacketsPerSecond::ZERO), ..Limits::default() };
        let any = PacketsPerSecond::new(f64::INFINITY);
        let (rate, _) = nothing.bound(any, Limit::Cycles, frame);
        assert_eq!(rate, PacketsPerSecond::ZERO);
    }
}

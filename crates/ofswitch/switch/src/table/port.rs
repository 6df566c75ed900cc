//! A port of the switch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::wire::{Port, PortConfig, PortNumber, PortState};

/// A port of the switch. It never changes: one that is set otherwise is another, with the same
/// counters.
#[derive(Debug, Clone)]
pub struct SwitchPort {
    /// Its description: number, name, address, configuration and state.
    pub port: Port,
    /// When it was added, in nanoseconds of the steady clock.
    pub added: u64,
    /// Packets and bytes of the port.
    pub counters: Arc<PortCounters>,
}

impl SwitchPort {
    /// Returns its number.
    #[must_use]
    pub fn number(&self) -> PortNumber {
        self.port.number
    }

    /// Returns true if packets that go out by it arrive: it is not configured down, and there is a
    /// link.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let blocked = PortState::LINK_DOWN.0 | PortState::BLOCKED.0;
        self.port.state.0 & blocked == 0 && !self.port.config.contains(PortConfig::DOWN)
    }

    /// Returns true if packets may come in by it.
    #[must_use]
    pub fn receives(&self) -> bool {
        self.port.config.0 & (PortConfig::DOWN.0 | PortConfig::NO_RECEIVE.0) == 0
    }

    /// Returns true if packets may go out by it.
    #[must_use]
    pub fn forwards(&self) -> bool {
        self.port.config.0 & (PortConfig::DOWN.0 | PortConfig::NO_FORWARD.0) == 0
    }

    /// Returns true if `FLOOD` includes it.
    #[must_use]
    pub fn floods(&self) -> bool {
        self.forwards() && !self.port.config.contains(PortConfig::NO_FLOOD)
    }
}

/// Counters of a port. Workers add their own counts now and then.
#[derive(Debug, Default)]
pub struct PortCounters {
    counts: [AtomicU64; PortCount::ALL.len()],
}

/// Index of a port's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortCount {
    /// Packets that came in.
    Received,
    /// Their bytes.
    ReceivedBytes,
    /// Packets that went out.
    Sent,
    /// Their bytes.
    SentBytes,
    /// Packets that came in and were dropped as the port is set so.
    ReceivedDropped,
    /// Packets that should go out and were dropped.
    SentDropped,
    /// Packets that came in and could not be decided: misses over the port's budget.
    ReceivedErrors,
    /// Packets for controllers over the port's bound.
    PuntsDropped,
}

impl PortCount {
    /// Every one.
    pub const ALL: [PortCount; 8] = [
        PortCount::Received,
        PortCount::ReceivedBytes,
        PortCount::Sent,
        PortCount::SentBytes,
        PortCount::ReceivedDropped,
        PortCount::SentDropped,
        PortCount::ReceivedErrors,
        PortCount::PuntsDropped,
    ];
}

impl PortCounters {
    /// Adds to a count.
    pub fn add(&self, count: PortCount, more: u64) {
        self.counts[count as usize].fetch_add(more, Relaxed);
    }

    /// A count so far.
    #[must_use]
    pub fn get(&self, count: PortCount) -> u64 {
        self.counts[count as usize].load(Relaxed)
    }
}

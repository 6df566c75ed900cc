//! Life times of flows.

use linerate_graph::{ElementBuilder, Seconds};

use super::mapping::{Mapping, flags};

/// Times of the flows of one protocol, in milliseconds since their last packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// A flow is not given up for another before.
    pub(super) guarantee: u64,
    /// A flow lives unless one of the others holds.
    pub(super) idle: u64,
    /// TCP with payload both ways; or three packets, both ways seen.
    pub(super) busy: u64,
    /// TCP closed both ways.
    pub(super) done: u64,
}

/// Those of a rewriter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AllTimes {
    pub(super) tcp: Times,
    pub(super) other: Times,
}

impl Times {
    pub(super) const GUARANTEE: u64 = 5_000;

    /// One time for all states of a flow.
    pub(super) const fn plain(idle: u64, guarantee: u64) -> Times {
        Times { guarantee, idle, busy: idle, done: idle }
    }

    /// For how long after its last packet a flow lives.
    pub(super) fn timeout(&self, forward: &Mapping, reply: &Mapping) -> u64 {
        // Where both are one, its first packet went forward.
        let (seen, before) = if reply.is_both() {
            (reply.flags >> flags::FIRST, 0)
        } else {
            (forward.flags, forward.packets)
        };
        let both = |flag: u8| seen & reply.flags & flag != 0;
        let is_tcp = forward.flags & flags::TCP != 0;
        let streaming = || reply.packets > 0 && before + reply.packets >= 3;
        match is_tcp {
            true if both(flags::DONE) => self.done,
            true if both(flags::DATA) => self.busy,
            false if streaming() => self.busy,
            _ => self.idle,
        }
    }
}

impl AllTimes {
    /// Before a flow was silent for longer than this in one direction, it has not ended.
    pub(super) fn shortest(&self) -> u64 {
        let shortest = |it: &Times| it.guarantee.max(it.idle.min(it.busy).min(it.done));
        shortest(&self.tcp).min(shortest(&self.other))
    }
}

/// An argument that is a time.
pub(super) fn milliseconds(make: &mut ElementBuilder<'_>, name: &str) -> Option<u64> {
    make.get::<Seconds<0>>(name).map(|Seconds(seconds)| u64::from(seconds) * 1000)
}

/// As `milliseconds`, by several names. Where more than one is given, Click takes the last of
/// these.
pub(super) fn last(make: &mut ElementBuilder<'_>, names: &[&str], default: u64) -> u64 {
    names.iter().filter_map(|name| milliseconds(make, name)).last().unwrap_or(default)
}

//! Selected part of a trace: from a start to an end, each absolute or measured from the first
//! packet.

use linerate_graph::ElementBuilder;

use super::stamp::Stamp;

/// Base of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeOrigin {
    Epoch,
    FirstPacket,
    Start,
}

/// Position of a packet relative to a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Before,
    Within,
    Behind,
}

/// A start and an end.
#[derive(Debug)]
pub(super) struct Span {
    start: Stamp,
    start_base: TimeOrigin,
    end: Stamp,
    end_base: TimeOrigin,
    /// Whether packets are still compared with the start.
    has_start: bool,
    /// Whether packets are compared with the end.
    has_end: bool,
    /// Whether a packet has been seen and the times are absolute.
    begun: bool,
}

impl Span {
    /// Reads `START`, `START_AFTER`, `END`, `END_AFTER` and `INTERVAL`.
    pub(super) fn from_args(make: &mut ElementBuilder<'_>) -> Span {
        let mut time = |name: &str| make.get(name).filter(|time: &Stamp| *time != Stamp(0));
        let (start, start_after) = (time("START"), time("START_AFTER"));
        let ends = [
            (time("END"), TimeOrigin::Epoch),
            (time("END_AFTER"), TimeOrigin::FirstPacket),
            (time("INTERVAL"), TimeOrigin::Start),
        ];
        if start.is_some() && start_after.is_some() {
            make.error("START and START_AFTER are mutually exclusive");
        } else if ends.iter().filter(|(time, _)| time.is_some()).count() > 1 {
            make.error("END, END_AFTER, and INTERVAL are mutually exclusive");
        }
        let end = ends.into_iter().find_map(|(time, base)| Some((time?, base)));
        Span {
            start: start.or(start_after).unwrap_or_default(),
            start_base: if start.is_some() { TimeOrigin::Epoch } else { TimeOrigin::FirstPacket },
            end: end.unwrap_or((Stamp(0), TimeOrigin::Epoch)).0,
            end_base: end.map_or(TimeOrigin::Epoch, |(_, base)| base),
            has_start: start.or(start_after).is_some(),
            has_end: end.is_some(),
            begun: false,
        }
    }

    pub(super) fn has_end(&self) -> bool {
        self.has_end
    }

    /// Returns true if a packet has been seen.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Fixes the times measured from the first packet.
    #[cold]
    pub(super) fn begin(&mut self, time: Stamp) {
        if self.start_base == TimeOrigin::FirstPacket {
            self.start = self.start.plus(time);
        }
        match self.end_base {
            TimeOrigin::Epoch => {}
            TimeOrigin::FirstPacket => self.end = self.end.plus(time),
            TimeOrigin::Start => self.end = self.end.plus(self.start),
        }
        self.begun = true;
    }

    /// Returns the position of a packet of this time. Once one is within, no later one is before.
    #[inline]
    pub(super) fn place(&mut self, time: Stamp) -> Position {
        if self.has_start {
            if time < self.start {
                return Position::Before;
            }
            self.has_start = false;
        }
        if self.has_end && time >= self.end { Position::Behind } else { Position::Within }
    }

    /// The end has been reached and acted upon: it ends nothing any more.
    pub(super) fn forget_end(&mut self) {
        self.has_end = false;
    }

    /// Moves the end; where `again` it counts again.
    pub(super) fn extend(&mut self, by: Stamp, again: bool) {
        self.end = self.end.plus(by);
        self.has_end |= again;
    }

    /// Forgets packets seen so far, but keeps the times as they have become.
    pub(super) fn restart(&mut self) {
        (self.start_base, self.end_base) = (TimeOrigin::Epoch, TimeOrigin::Epoch);
        self.begun = false;
    }
}

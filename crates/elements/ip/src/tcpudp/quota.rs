//! Rate, limit and counters of a source, shared by `FastUDPSource` and its variants.

use linerate_element_support::{
    handler_values::{boolean_or, integer_or},
    rate::Gap,
};
use linerate_graph::{Context, ElementBuilder, Handler, HandlerError, HandlerResult, Merge};

/// Highest `RATE`, in packets per second, as in Click.
const MOST_RATE: u32 = 1_000_000;
/// A hundredth of a second, in nanoseconds.
const JIFFY: u64 = 10_000_000;

pub(super) const HANDLERS: &[Handler] = &[
    Handler::count("count", "packets made"),
    Handler::value("rate", "packets per second there were up to the limit; written: those wanted")
        .merged(Merge::Sum),
    Handler::button("reset", "begins to count anew"),
    Handler::write("active", "whether there are packets").flags("c"),
    Handler::write("limit", "how many in all"),
];

/// The arguments `RATE`, `LIMIT` and `ACTIVE`, and the count of packets.
pub(super) struct Quota {
    active: bool,
    /// Packets to make in all; negative for no limit.
    limit: i64,
    count: i64,
    gap: Option<Gap>,
    /// Times of the first packet and of the packet that met the limit, in hundredths of seconds.
    first: u64,
    last: u64,
}

impl Quota {
    pub(super) fn new(make: &mut ElementBuilder<'_>) -> Quota {
        let rate = make.need::<u32>("RATE");
        Quota {
            active: make.or("ACTIVE", true),
            limit: make.need::<i32>("LIMIT").into(),
            count: 0,
            gap: (rate != 0).then(|| Gap::new(rate.min(MOST_RATE).into())),
            first: 0,
            last: 0,
        }
    }

    /// Returns the packets made.
    pub(super) fn count(&self) -> i64 {
        self.count
    }

    /// Returns the packets that may be made until the limit.
    pub(super) fn left(&self) -> usize {
        match self.limit {
            limit if limit < 0 => usize::MAX,
            limit => usize::try_from((limit - self.count).max(0)).unwrap_or(usize::MAX),
        }
    }

    /// Returns the packets that the rate allows now, regardless of the limit; zero while inactive.
    pub(super) fn due(&mut self, now: u64) -> usize {
        let due = self.gap.as_mut().map_or(u64::MAX, |gap| gap.due(now));
        if self.active { usize::try_from(due).unwrap_or(usize::MAX) } else { 0 }
    }

    /// Accounts for packets made at time `now`.
    pub(super) fn made(&mut self, packets: usize, now: u64) {
        if packets == 0 {
            return;
        }
        if let Some(gap) = &mut self.gap {
            gap.add(packets as u64);
        }
        if self.count == 0 {
            self.first = now / JIFFY;
        }
        self.count += packets as i64;
        if self.left() == 0 {
            self.last = now / JIFFY;
        }
    }

    /// Resets the count.
    pub(super) fn reset(&mut self) {
        (self.count, self.first, self.last) = (0, 0, 0);
    }

    pub(super) fn take_state(&mut self, old: &Quota) {
        (self.count, self.first, self.last) = (old.count, old.first, old.last);
    }

    fn measured_rate(&self) -> i64 {
        match self.last.saturating_sub(self.first).max(1) {
            _ if self.last == 0 => 0,
            passed => self.count.saturating_mul(100) / passed as i64,
        }
    }

    pub(super) fn read(&self, handler: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.to_string()),
            "rate" => Ok(self.measured_rate().to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    /// Executes a write handler; returns whether it reset the count.
    pub(super) fn write(
        &mut self,
        cx: &Context,
        handler: &str,
        value: &str,
    ) -> Result<bool, HandlerError> {
        match handler {
            "reset" => self.reset(),
            "active" => {
                self.active = boolean_or(value, "active parameter must be boolean")?;
                if !self.active {
                    return Ok(false);
                }
                self.reset();
            }
            "limit" => {
                let limit: i32 = integer_or(value, "limit parameter must be integer >= 0")?;
                self.limit = limit.into();
                return Ok(false);
            }
            "rate" => {
                let rate: u32 = integer_or(value, "rate parameter must be integer >= 0")?;
                if rate > MOST_RATE {
                    return Err(HandlerError::refused(format!(
                        "rate too large; max is {MOST_RATE}"
                    )));
                }
                if let Some(gap) = &mut self.gap {
                    gap.change(rate.into(), cx.steady());
                }
                return Ok(false);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(true)
    }
}

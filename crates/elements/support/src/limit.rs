//! Rate limit of ICMP errors, and of other packets that report on a packet.

use std::cell::Cell;

use linerate_graph::{Arguments, Context, DropReason, ElementBuilder};
use linerate_memory::{Frame, Slot};

const SECOND: u64 = 1_000_000_000;

/// Token bucket for errors. `R` is the type of the element's drop reasons.
#[derive(Debug, Arguments)]
#[arguments(check = Limit::fill)]
pub struct Limit<R: DropReason> {
    /// most errors per second; 0 for any number
    #[arg(keyword, kind = "errors per second", default = 0)]
    rate: u32,
    /// most errors at once, where RATE is given
    #[arg(keyword, kind = "errors", default = 50)]
    burst: u32,
    /// Tokens in the bucket, in billionths of an error.
    tokens: u64,
    /// Steady time at which they were counted, in nanoseconds.
    since: u64,
    /// Packets of the current frame to be dropped, with the reason.
    unreported: Vec<(Slot, R)>,
}

impl<R: DropReason> Default for Limit<R> {
    fn default() -> Limit<R> {
        Limit { rate: 0, burst: 0, tokens: 0, since: 0, unreported: Vec::new() }
    }
}

impl<R: DropReason> Limit<R> {
    /// Fills the bucket.
    fn fill(&mut self, _: &mut ElementBuilder<'_>) {
        self.burst = self.burst.max(1);
        self.tokens = u64::from(self.burst) * SECOND;
    }

    /// Takes the state of the limit that the element had before a reconfiguration, if rate and burst
    /// are unchanged.
    pub fn take_state(&mut self, old: &mut Limit<R>) {
        if (old.rate, old.burst) == (self.rate, self.burst) {
            std::mem::swap(self, old);
        }
    }

    /// Replaces each packet by the error that `report` makes about it, within the limit. Other packets
    /// are dropped, for the reason that `report` returns, or for `too_many` beyond the limit.
    pub fn replace(
        &mut self,
        cx: &mut Context,
        frame: &mut Frame,
        too_many: R,
        mut report: impl FnMut(&mut Context, &Slot) -> Result<Slot, R>,
    ) {
        let now = if self.rate == 0 { 0 } else { cx.steady() };
        let (allowed, mut made) = (self.allowance(now), 0);
        let reason = Cell::new(too_many);
        frame.retain(
            |slot| {
                let error = if made < allowed { report(cx, slot) } else { Err(too_many) };
                match error {
                    Ok(error) => {
                        made += 1;
                        cx.replace(slot, error);
                        true
                    }
                    Err(error) => {
                        reason.set(error);
                        false
                    }
                }
            },
            |slot| self.unreported.push((slot, reason.get())),
        );
        self.spend(made);
        self.unreported.drain(..).for_each(|(slot, reason)| cx.drop_packet(slot, reason));
    }

    /// Refills the bucket, and returns the number of errors that may be sent at `now`, a steady time
    /// in nanoseconds.
    fn allowance(&mut self, now: u64) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let capacity = u64::from(self.burst) * SECOND;
        let elapsed = now.saturating_sub(self.since);
        let earned = elapsed.saturating_mul(u64::from(self.rate));
        self.tokens = self.tokens.saturating_add(earned).min(capacity);
        self.since = now;
        self.tokens / SECOND
    }

    /// Takes `count` errors out of the bucket.
    fn spend(&mut self, count: u64) {
        if self.rate != 0 {
            self.tokens = self.tokens.saturating_sub(count.saturating_mul(SECOND));
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_graph::NoDrop;

    use super::*;

    fn limit(rate: u32, burst: u32) -> Limit<NoDrop> {
        Limit { rate, burst, tokens: u64::from(burst) * SECOND, ..Limit::default() }
    }

    #[test]
    fn no_more_errors_than_allowed() {
        let mut limit_of_five = limit(10, 5);
        assert_eq!(limit_of_five.allowance(SECOND), 5);
        limit_of_five.spend(5);
        assert_eq!(limit_of_five.allowance(SECOND), 0);
        assert_eq!(limit_of_five.allowance(SECOND + 100_000_000), 1);
        assert_eq!(limit_of_five.allowance(100 * SECOND), 5);
        assert_eq!(limit(0, 0).allowance(0), u64::MAX);
    }
}

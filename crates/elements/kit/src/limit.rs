//! Rate limit of packets that are sent about others, such as ICMP errors.

use std::cell::Cell;

use linerate_graph::{Arguments, Context, DropReason, ElementBuilder};
use linerate_memory::{Frame, Slot};

const SECOND: u64 = 1_000_000_000;

/// So many errors per second, and so many at once. `R` are the reasons for which the element drops
/// packets.
#[derive(Debug, Arguments)]
#[arguments(check = Limit::fill)]
pub struct Limit<R: DropReason> {
    /// most errors per second; 0 for any number
    #[arg(keyword, kind = "errors per second", default = 0)]
    rate: u32,
    /// most errors at once, where RATE is given
    #[arg(keyword, kind = "errors", default = 50)]
    burst: u32,
    /// Billionths of errors that may be sent now.
    credit: u64,
    /// When that was.
    since: u64,
    /// Packets of a frame that nothing is sent about, and why.
    silent: Vec<(Slot, R)>,
}

impl<R: DropReason> Default for Limit<R> {
    fn default() -> Limit<R> {
        Limit { rate: 0, burst: 0, credit: 0, since: 0, silent: Vec::new() }
    }
}

impl<R: DropReason> Limit<R> {
    /// All of a burst may be sent now.
    fn fill(&mut self, _: &mut ElementBuilder<'_>) {
        self.burst = self.burst.max(1);
        self.credit = u64::from(self.burst) * SECOND;
    }

    /// Goes on where a limit of the same element has been.
    pub fn go_on(&mut self, old: &mut Limit<R>) {
        if (old.rate, old.burst) == (self.rate, self.burst) {
            std::mem::swap(self, old);
        }
    }

    /// Replaces each packet by the one that `about` makes of it while that is allowed. The others
    /// are dropped, for the reason that it returns, or because there are `too_many`.
    pub fn replace(
        &mut self,
        cx: &mut Context,
        frame: &mut Frame,
        too_many: R,
        mut about: impl FnMut(&mut Context, &Slot) -> Result<Slot, R>,
    ) {
        let now = if self.rate == 0 { 0 } else { cx.steady() };
        let (allowed, mut made) = (self.allowance(now), 0);
        let reason = Cell::new(too_many);
        frame.retain(
            |slot| {
                let error = if made < allowed { about(cx, slot) } else { Err(too_many) };
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
            |slot| self.silent.push((slot, reason.get())),
        );
        self.spend(made);
        self.silent.drain(..).for_each(|(slot, reason)| cx.drop_packet(slot, reason));
    }

    /// Returns the number of packets that may be sent now, a steady time in nanoseconds.
    fn allowance(&mut self, now: u64) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let most = u64::from(self.burst) * SECOND;
        let passed = now.saturating_sub(self.since);
        let earned = passed.saturating_mul(u64::from(self.rate));
        self.credit = self.credit.saturating_add(earned).min(most);
        self.since = now;
        self.credit / SECOND
    }

    /// So many were sent.
    fn spend(&mut self, count: u64) {
        if self.rate != 0 {
            self.credit = self.credit.saturating_sub(count.saturating_mul(SECOND));
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_graph::NoDrop;

    use super::*;

    fn limit(rate: u32, burst: u32) -> Limit<NoDrop> {
        Limit { rate, burst, credit: u64::from(burst) * SECOND, ..Limit::default() }
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

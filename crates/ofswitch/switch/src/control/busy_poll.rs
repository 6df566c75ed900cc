//! Busy polling of a controller's socket.
//!
//! One that waits for each answer, as `ovs-ofctl` does with a barrier behind each flow, costs two
//! threads that fall asleep and are woken per message, and that takes longer than all it asks for
//! (`bench switch --only tables`). So the socket of a controller that sent right after the last answer is polled
//! for a moment after the next.
//!
//! Between two looks the core is offered to others. Where some program takes it for a time slice,
//! the controller waits for that program and this thread, which would be woken at once if it slept:
//! then it sleeps for a while.

use std::time::{Duration, Instant};

/// Longest time between an answer and a prompt message, and time of polling.
const MOMENT: Duration = Duration::from_micros(200);

/// A core that stays away for so long is used by another program.
const WANTED: Duration = Duration::from_micros(500);

/// Time without polling after that.
const BUSY: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct BusyPoll {
    /// When the last message received was first answered. Later writes do not extend the polling.
    answered: Option<Instant>,
    /// Whether the last message received came right after an answer.
    is_prompt: bool,
    /// Until when others want the core.
    busy_until: Option<Instant>,
}

impl BusyPoll {
    /// Notes that bytes were written.
    pub(super) fn wrote(&mut self, now: Instant) {
        self.answered.get_or_insert(now);
    }

    /// Notes that bytes were received.
    pub(super) fn received(&mut self, now: Instant) {
        self.is_prompt = self.is_right_after(now);
        self.answered = None;
    }

    /// Returns true if more is expected any moment.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        let is_busy = self.busy_until.is_some_and(|until| now < until);
        self.is_prompt && !is_busy && self.is_right_after(now)
    }

    /// The core was offered to others, and came back.
    pub(super) fn offered(&mut self, from: Instant, to: Instant) {
        if to.duration_since(from) >= WANTED {
            self.busy_until = Some(to + BUSY);
        }
    }

    fn is_right_after(&self, now: Instant) -> bool {
        self.answered.is_some_and(|at| now.duration_since(at) < MOMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_requester_is_polled_for_a_moment() {
        let (mut busy_poll, start) = (BusyPoll::default(), Instant::now());
        let at = |nth: u32| start + MOMENT / 4 * nth;
        busy_poll.received(at(0));
        busy_poll.wrote(at(1));
        assert!(!busy_poll.is_on(at(1)), "who has asked once may be done");
        busy_poll.received(at(2));
        assert!(!busy_poll.is_on(at(2)), "what is not answered is not waited for");
        busy_poll.wrote(at(3));
        assert!(busy_poll.is_on(at(6)));
        busy_poll.wrote(at(6));
        assert!(!busy_poll.is_on(at(7)), "what is written later does not count");
        busy_poll.received(at(20));
        busy_poll.wrote(at(21));
        assert!(!busy_poll.is_on(at(21)), "it took its time");
        busy_poll.received(at(22));
        busy_poll.received(at(23));
        busy_poll.wrote(at(23));
        assert!(!busy_poll.is_on(at(23)), "it does not wait for answers");
    }

    #[test]
    fn controllers_are_not_polled_where_others_want_the_core() {
        let (mut busy_poll, start) = (BusyPoll::default(), Instant::now());
        let asked_at = |busy_poll: &mut BusyPoll, now: Instant| {
            busy_poll.received(now);
            busy_poll.wrote(now);
            busy_poll.received(now);
            busy_poll.wrote(now);
            busy_poll.is_on(now)
        };
        busy_poll.offered(start, start + WANTED / 2);
        assert!(asked_at(&mut busy_poll, start + WANTED));
        let back = start + 2 * WANTED;
        busy_poll.offered(start, back);
        assert!(!asked_at(&mut busy_poll, back));
        assert!(!asked_at(&mut busy_poll, back + BUSY / 2));
        assert!(asked_at(&mut busy_poll, back + BUSY));
    }
}

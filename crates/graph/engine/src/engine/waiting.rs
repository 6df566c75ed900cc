//! Waiting of a worker for the descriptors and times of its elements.

use std::time::{Duration, Instant};

use linerate_port::{Interest, Wake};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{element::Context, runtime::waiting::Lists};

impl Context {
    /// Waits, at most for `timeout`, for the descriptors of the waiting and the idle tasks; wakes
    /// those that are ready. Returns true if there was any.
    pub(crate) fn poll_descriptors(&mut self, timeout: Duration) -> bool {
        let mut lists = std::mem::take(&mut self.lists);
        self.collect_ready(&mut lists, timeout);
        let any = !lists.ready.is_empty();
        lists.ready.drain(..).for_each(|at| self.tasks.wake(at));
        self.lists = lists;
        any
    }

    /// Lists the elements that are ready.
    fn collect_ready(&mut self, lists: &mut Lists, mut timeout: Duration) {
        let Lists { asked, ready, due, polled, owners } = lists;
        // A graph to change to may be waiting whose ring was taken already, while an element was at
        // work.
        if self.hub.has_jobs(self.worker) {
            timeout = Duration::ZERO;
        }
        let sleeping = !timeout.is_zero();
        asked.clear();
        asked.resize(self.runtimes.len(), false);
        self.tasks.waiting().for_each(|at| asked[at] = true);
        if sleeping {
            self.tasks.queued().for_each(|at| asked[at] = true);
        }
        due.clear();
        owners.clear();
        owners.push(usize::MAX);
        let mut waiting: Vec<PollFd<'_>> = std::mem::take(polled);
        waiting.push(PollFd::from_borrowed_fd(self.hub.bell(self.worker), PollFlags::IN));
        for (at, runtime) in self.runtimes.iter_mut().enumerate() {
            let Some(element) = runtime.element.as_mut().filter(|_| asked[at]) else { continue };
            element.wakes(&mut |wake| match wake {
                Wake::Now => {
                    ready.push(at);
                    timeout = Duration::ZERO;
                }
                Wake::Fd(fd, interest) => {
                    let flags = match interest {
                        Interest::Read => PollFlags::IN,
                        Interest::Write => PollFlags::OUT,
                    };
                    waiting.push(PollFd::from_borrowed_fd(fd, flags));
                    owners.push(at);
                }
                Wake::At(time) => {
                    let left = time.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        ready.push(at);
                    } else {
                        due.push((time, at));
                    }
                    timeout = timeout.min(left);
                }
                Wake::Never => {}
            });
        }
        let timespec =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // An error is an interruption by a signal: the loop comes back here.
        if poll(&mut waiting, Some(&timespec)).is_ok_and(|count| count > 0) {
            let events = waiting.iter().zip(&*owners);
            let with_events = events.filter(|(fd, _)| !fd.revents().is_empty());
            ready.extend(with_events.map(|(_, owner)| *owner).filter(|at| *at != usize::MAX));
        }
        // The same memory for descriptors that live longer: there are none.
        waiting.clear();
        *polled = waiting.into_iter().map(|_| unreachable!("it has been emptied")).collect();
        if sleeping && !due.is_empty() {
            let now = Instant::now();
            ready.extend(due.iter().filter(|(time, _)| *time <= now).map(|(_, at)| *at));
        }
    }
}

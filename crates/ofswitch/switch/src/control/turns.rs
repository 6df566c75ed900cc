//! A fair lock for changes of the switch.
//!
//! A mutex is often taken again by the thread that has just released it, so one controller that
//! makes changes all the time would starve the others. Here threads get their turn in the order
//! they asked.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A lock that is granted in the order of the requests.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
    next: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    last: u64,
    /// Tickets in order; the first has its turn.
    waiting: VecDeque<u64>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn, behind the threads that asked before, once each.
    pub(super) fn wait(&self) -> Turn<'_> {
        let mut queue = self.lock();
        queue.last += 1;
        let number = queue.last;
        queue.waiting.push_back(number);
        while queue.waiting.front() != Some(&number) {
            queue = self.next.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        Turn { turns: self }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().waiting.pop_front();
        self.turns.next.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn turns_are_taken_in_order() {
        let (turns, (send, order)) = (Turns::default(), channel());
        std::thread::scope(|scope| {
            let first = turns.wait();
            for number in 0..4 {
                let (turns, send) = (&turns, send.clone());
                scope.spawn(move || {
                    let _turn = turns.wait();
                    send.send(number).expect("a receiver");
                });
                while turns.lock().waiting.len() < number + 2 {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}

//! Turns at changing the switch.
//!
//! A lock is often had again by the thread that has just given it up, so one controller that changes
//! something all the time would keep the others from it. Here they take turns in the order they came.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A queue for what one at a time may do.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
    next: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    last: u64,
    /// The first has its turn.
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

    /// Waits for a turn: for those who came before, once each.
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

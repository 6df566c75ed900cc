//! Messages that wait to be sent to a controller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::waker::Waker;

/// Messages for one controller, in order.
///
/// Answers always find room: a controller is not read while more than [`Outbox::FULL`] bytes of
/// them wait, so there is never more than that and one answer. Asynchronous messages find room up
/// to a limit of their own, and are dropped and counted behind it.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    waker: Arc<Waker>,
    limit: usize,
}

/// The class of a message, which has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Asked for.
    Answer,
    /// Unsolicited.
    Unasked,
    /// An update of a flow monitor.
    Update,
}

type Waiting = (Vec<u8>, Class);

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Waiting>,
    /// Bytes of answers.
    answers: usize,
    /// Bytes of others.
    unasked: usize,
    /// Bytes of updates of flow monitors.
    updates: usize,
    dropped: u64,
    is_given_up: bool,
}

/// Memory of a message beside its bytes.
const OVERHEAD: usize = 32;

impl Outbox {
    /// While so many bytes of answers wait, nothing is read.
    pub(super) const FULL: usize = 1 << 18;

    /// `limit` is how many bytes of packets may wait; as many again of other messages may.
    pub(super) fn new(waker: Arc<Waker>, limit: usize) -> Outbox {
        Outbox { queue: Mutex::default(), waker, limit }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer, by the connection's own thread.
    pub(super) fn answer(&self, message: Vec<u8>) {
        let mut queue = self.lock();
        queue.answers += message.len() + OVERHEAD;
        queue.messages.push_back((message, Class::Answer));
    }

    /// Adds an asynchronous message, by any thread, if there is room. Packets leave room to others.
    pub(super) fn offer(&self, message: Vec<u8>, packet: bool) -> bool {
        let mut queue = self.lock();
        let limit = if packet { self.limit } else { 2 * self.limit };
        let size = message.len() + OVERHEAD;
        if queue.unasked + size > limit {
            queue.dropped += 1;
            return false;
        }
        queue.unasked += size;
        // The sending thread is awake, or was woken, while something waits.
        let first = queue.messages.is_empty();
        queue.messages.push_back((message, Class::Unasked));
        drop(queue);
        if first {
            self.waker.wake();
        }
        true
    }

    /// Adds an update of a flow monitor, by any thread. Monitors pause where many bytes of them
    /// [wait](Outbox::updates).
    pub(super) fn update(&self, message: Vec<u8>) {
        let mut queue = self.lock();
        queue.updates += message.len() + OVERHEAD;
        let first = queue.messages.is_empty();
        queue.messages.push_back((message, Class::Update));
        drop(queue);
        if first {
            self.waker.wake();
        }
    }

    /// Bytes of updates that wait.
    pub(super) fn updates(&self) -> usize {
        self.lock().updates
    }

    /// Ends the connection, as messages for the controller are lost.
    pub(super) fn give_up(&self) {
        self.lock().is_given_up = true;
        self.waker.wake();
    }

    /// Returns true if it ends.
    pub(super) fn is_given_up(&self) -> bool {
        self.lock().is_given_up
    }

    /// Returns true if as many answers wait as may.
    pub(super) fn is_full(&self) -> bool {
        self.lock().answers > Outbox::FULL
    }

    /// Moves messages to the end of `bytes` until that has `enough`.
    pub(super) fn take(&self, bytes: &mut Vec<u8>, enough: usize) {
        let mut queue = self.lock();
        while bytes.len() < enough
            && let Some((message, class)) = queue.messages.pop_front()
        {
            let size = message.len() + OVERHEAD;
            match class {
                Class::Answer => queue.answers -= size,
                Class::Unasked => queue.unasked -= size,
                Class::Update => queue.updates -= size,
            }
            bytes.extend_from_slice(&message);
        }
    }

    /// Returns the number of messages dropped for lack of room.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asynchronous_messages_are_bounded() {
        let outbox = Outbox::new(Arc::new(Waker::new().expect("an eventfd")), 1000);
        let offered = (0..100).filter(|_| outbox.offer(vec![0; 68], true)).count();
        assert_eq!((offered, outbox.dropped()), (10, 90));
        assert!(outbox.offer(vec![0; 68], false), "what is no packet has room of its own");
        outbox.answer(vec![1; 5]);
        let mut bytes = Vec::new();
        outbox.take(&mut bytes, 100);
        assert_eq!(bytes.len(), 136, "whole messages until there is enough");
        outbox.take(&mut bytes, usize::MAX);
        assert_eq!((bytes.len(), bytes.last()), (753, Some(&1)));
        assert!(outbox.offer(vec![0; 68], true), "there is room again");
    }

    #[test]
    fn answers_find_room_and_stop_reading() {
        let outbox = Outbox::new(Arc::new(Waker::new().expect("an eventfd")), 1 << 20);
        assert!(outbox.offer(vec![0; 1 << 19], true));
        assert!(!outbox.is_full(), "packets keep no controller from being read");
        outbox.answer(vec![0; Outbox::FULL]);
        assert!(outbox.is_full());
        outbox.take(&mut Vec::new(), usize::MAX);
        assert!(!outbox.is_full());
    }
}

//! What waits to be sent to a controller.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::waker::Waker;

/// Messages for one controller, in order.
///
/// Answers always find room: who asks is not read while more than [`Outbox::FULL`] bytes of them wait, so
/// there is never more than that and one answer. Messages nobody asked for find room up to a limit of
/// their own, and are dropped and counted behind it.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    waker: Arc<Waker>,
    limit: usize,
}

/// A message, and whether it was asked for.
type Waiting = (Vec<u8>, bool);

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Waiting>,
    /// Bytes of answers.
    answers: usize,
    /// Bytes of others.
    unasked: usize,
    dropped: u64,
}

/// What a message takes beside its bytes.
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
        queue.messages.push_back((message, true));
    }

    /// Adds a message nobody asked for, by any thread, if there is room. Packets leave room to others.
    pub(super) fn offer(&self, message: Vec<u8>, packet: bool) -> bool {
        let mut queue = self.lock();
        let limit = if packet { self.limit } else { 2 * self.limit };
        let size = message.len() + OVERHEAD;
        if queue.unasked + size > limit {
            queue.dropped += 1;
            return false;
        }
        queue.unasked += size;
        // Who sends is awake, or was woken, while something waits.
        let first = queue.messages.is_empty();
        queue.messages.push_back((message, false));
        drop(queue);
        if first {
            self.waker.wake();
        }
        true
    }

    /// Whether as many answers wait as may.
    pub(super) fn is_full(&self) -> bool {
        self.lock().answers > Outbox::FULL
    }

    /// Moves messages to the end of `bytes` until that has `enough`.
    pub(super) fn take(&self, bytes: &mut Vec<u8>, enough: usize) {
        let mut queue = self.lock();
        while bytes.len() < enough
            && let Some((message, answer)) = queue.messages.pop_front()
        {
            let size = message.len() + OVERHEAD;
            if answer {
                queue.answers -= size;
            } else {
                queue.unasked -= size;
            }
            bytes.extend_from_slice(&message);
        }
    }

    /// How many messages found no room.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asked_for_is_bounded() {
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
        assert!(!outbox.is_full(), "packets stop nobody from being heard");
        outbox.answer(vec![0; Outbox::FULL]);
        assert!(outbox.is_full());
        outbox.take(&mut Vec::new(), usize::MAX);
        assert!(!outbox.is_full());
    }
}

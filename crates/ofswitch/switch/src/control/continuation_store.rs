//! Paused packets: continuations until a controller resumes them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::pipeline::Continuation;

/// Continuations kept at most; a further one drops the oldest.
const ROOM: usize = 1024;

/// The property of a continuation with its number: type and length, 16 bytes, are those of Open
/// vSwitch's property for the bridge of a packet, since its `ovs-ofctl` parses continuations.
const WHICH: [u8; 4] = [0x80, 0, 0, 20];

/// Continuations sent to controllers lately.
///
/// A controller gets a number with a secret, so that no other can resume the packet.
#[derive(Debug)]
pub(super) struct ContinuationStore {
    secret: u64,
    known: Mutex<VecDeque<Arc<Continuation>>>,
}

impl ContinuationStore {
    pub(super) fn new() -> ContinuationStore {
        ContinuationStore { secret: fastrand::u64(..), known: Mutex::default() }
    }

    /// Keeps a continuation, and returns its encoding for the controller.
    pub(super) fn keep(&self, continuation: &Arc<Continuation>) -> Vec<u8> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().any(|one| one.number == continuation.number) {
            if known.len() >= ROOM {
                known.pop_front();
            }
            known.push_back(Arc::clone(continuation));
        }
        let mut told = WHICH.to_vec();
        told.extend(self.secret.to_be_bytes());
        told.extend(u64::from(continuation.number).to_be_bytes());
        // Properties are padded to eight bytes.
        told.resize(told.len().next_multiple_of(8), 0);
        told
    }

    /// Returns the continuation of an encoding.
    pub(super) fn find(&self, told: &[u8]) -> Option<Arc<Continuation>> {
        let (secret, number) = told.strip_prefix(&WHICH)?.split_first_chunk::<8>()?;
        if u64::from_be_bytes(*secret) != self.secret {
            return None;
        }
        let number = u64::from_be_bytes(*number.first_chunk()?);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|one| u64::from(one.number) == number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Suspended;

    #[test]
    fn a_stored_continuation_is_found_by_its_name() {
        let store = ContinuationStore::new();
        let one = |number| Arc::new(Continuation { number, state: Suspended::default() });
        let told: Vec<_> = (1..=ROOM as u32 + 1).map(|nth| store.keep(&one(nth))).collect();
        assert!(store.find(&told[0]).is_none(), "the oldest is gone");
        assert_eq!(store.find(&told[1]).map(|one| one.number), Some(2));
        assert!(store.find(&[]).is_none());
        let mut guessed = told[1].clone();
        guessed[4] ^= 1;
        assert!(store.find(&guessed).is_none());
    }
}

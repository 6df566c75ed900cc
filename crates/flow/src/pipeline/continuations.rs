//! Continuations that are the same have the same number.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Continuation, Suspended};

/// How many there may be at a time unless said otherwise.
const ROOM: usize = 65_536;

/// All continuations decisions have, so that what is the same has the same number.
///
/// They live as long as decisions that lead to them; a number is never used again, so that an entry of
/// a cache that has the number of one that is gone matches nothing.
#[derive(Debug)]
pub struct Continuations {
    inside: Mutex<Inside>,
    hasher: RandomState,
    room: usize,
}

#[derive(Debug, Default)]
struct Inside {
    known: HashMap<u64, Vec<Weak<Continuation>>>,
    count: usize,
    last: u32,
}

impl Default for Continuations {
    fn default() -> Continuations {
        Continuations::with_room(ROOM)
    }
}

impl Continuations {
    /// With room for so many.
    #[must_use]
    pub fn with_room(room: usize) -> Continuations {
        Continuations { inside: Mutex::default(), hasher: RandomState::new(), room }
    }

    /// The one with this state, and whether it is known from now on. Without room it is not, and a
    /// decision with it should be forgotten.
    pub fn intern(&self, state: Suspended) -> (Arc<Continuation>, bool) {
        let hash = self.hasher.hash_one(&state);
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &Weak<Continuation>| known.upgrade().filter(|one| one.state == state);
        if let Some(one) = inside.known.get(&hash).and_then(|all| all.iter().find_map(same)) {
            return (one, true);
        }
        if inside.count >= self.room {
            inside.forget_the_dead();
        }
        inside.last = inside.last.wrapping_add(1).max(1);
        let one = Arc::new(Continuation { number: inside.last, state });
        let fits = inside.count < self.room;
        if fits {
            inside.count += 1;
            inside.known.entry(hash).or_default().push(Arc::downgrade(&one));
        }
        (one, fits)
    }
}

impl Inside {
    fn forget_the_dead(&mut self) {
        self.known.retain(|_, all| {
            all.retain(|one| one.strong_count() > 0);
            !all.is_empty()
        });
        self.count = self.known.values().map(Vec::len).sum();
    }
}

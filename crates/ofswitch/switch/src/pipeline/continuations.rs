//! Interning of continuations: equal ones have one number.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Continuation, Suspended};

/// Continuations at a time, unless set otherwise.
const ROOM: usize = 65_536;

/// All continuations of decisions, with one number for equal ones.
///
/// They live as long as decisions that lead to them. A number is used again after four thousand
/// million others, if it is free then: long after a cache has forgotten unused entries, so that an
/// entry with the number of a former continuation matches nothing.
#[derive(Debug)]
pub struct Continuations {
    inner: Mutex<Inner>,
    hasher: RandomState,
    room: usize,
}

#[derive(Debug, Default)]
struct Inner {
    known: HashMap<u64, Vec<Weak<Continuation>>>,
    /// Numbers of those, for when numbers begin again.
    numbers: HashSet<u32>,
    last: u32,
    /// Failed insertions left before dead continuations are searched for.
    patience: usize,
}

impl Default for Continuations {
    fn default() -> Continuations {
        Continuations::with_room(ROOM)
    }
}

impl Continuations {
    /// Creates a table with room for so many.
    #[must_use]
    pub fn with_room(room: usize) -> Continuations {
        Continuations { inner: Mutex::default(), hasher: RandomState::new(), room }
    }

    /// The one with this state, and whether it is known from now on. Without room it is not, and a
    /// decision with it should be forgotten.
    pub fn intern(&self, state: Suspended) -> (Arc<Continuation>, bool) {
        let hash = self.hasher.hash_one(&state);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &Weak<Continuation>| known.upgrade().filter(|one| one.state == state);
        if let Some(one) = inner.known.get(&hash).and_then(|all| all.iter().find_map(same)) {
            return (one, true);
        }
        if inner.numbers.len() >= self.room {
            inner.make_room(self.room);
        }
        let number = inner.next();
        let one = Arc::new(Continuation { number, state });
        let fits = inner.numbers.len() < self.room;
        if fits {
            inner.numbers.insert(number);
            inner.known.entry(hash).or_default().push(Arc::downgrade(&one));
        }
        (one, fits)
    }
}

impl Inner {
    /// Returns a free number.
    fn next(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1).max(1);
            if !self.numbers.contains(&self.last) {
                return self.last;
            }
        }
    }

    /// Looks at all, but not for each that finds no room while nearly all are alive.
    fn make_room(&mut self, room: usize) {
        if self.patience > 0 {
            self.patience -= 1;
            return;
        }
        self.forget_the_dead();
        if room - self.numbers.len() < room / 8 {
            self.patience = room / 8;
        }
    }

    fn forget_the_dead(&mut self) {
        let numbers = &mut self.numbers;
        numbers.clear();
        self.known.retain(|_, all| {
            all.retain(|one| one.upgrade().is_some_and(|one| numbers.insert(one.number)));
            !all.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_use_is_not_given_again() {
        let all = Continuations::with_room(8);
        let state = |queue| Suspended { queue, ..Suspended::default() };
        let (first, known) = all.intern(state(1));
        assert_eq!((first.number, known), (1, true));
        assert_eq!(all.intern(state(1)).0.number, 1, "the same");
        // So many later that numbers begin again.
        all.inner.lock().expect("nobody panicked").last = u32::MAX;
        let (second, _) = all.intern(state(2));
        assert_eq!(second.number, 2);
        drop(first);
        for queue in 3..20 {
            assert!(all.intern(state(queue)).1, "the dead make room");
        }
    }

    #[test]
    fn a_full_table_is_seldom_searched() {
        let all = Continuations::with_room(80);
        let intern = |queue| all.intern(Suspended { queue, ..Suspended::default() });
        let mut alive: Vec<_> = (0..80).map(|queue| intern(queue).0).collect();
        assert!(!intern(100).1, "all are alive");
        alive.truncate(40);
        let fits: Vec<bool> = (101..113).map(|queue| intern(queue).1).collect();
        assert_eq!(fits.iter().filter(|fits| !**fits).count(), 10);
        assert!(fits[10] && fits[11]);
    }
}

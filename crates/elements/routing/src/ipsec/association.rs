//! Security associations: the keys of tunnels and their protection against replayed packets.
//!
//! A packet carries the number of its association. Numbers of another graph than this one belong to
//! none: packets that wait while a graph is replaced are dropped rather than handled with other
//! keys.

use std::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use aes::{Aes128, cipher::KeyInit as _};
use des::Des;
use hmac::Hmac;
use linerate_graph::ElementBuilder;
use linerate_memory::Meta;
use sha1::Sha1;

use linerate_element_support::annotations::association;

/// Bytes of each key.
pub(crate) const KEY: usize = 16;

/// The keys of a tunnel.
pub(crate) struct Association {
    pub(crate) encryption_key: [u8; KEY],
    pub(crate) authentication_key: [u8; KEY],
    pub(super) aes: Aes128,
    pub(super) des: Des,
    /// With the key taken in.
    pub(super) hmac: Hmac<Sha1>,
    /// The first sequence number.
    start: u32,
    /// Replay window: distance that packets may be behind the newest.
    window: u64,
    /// The next to be sent.
    next: AtomicU32,
    seen: Mutex<ReplayWindow>,
}

/// Sequence numbers that have come.
struct ReplayWindow {
    newest: u32,
    /// A bit for each of the last 64, the newest lowest.
    bits: u64,
}

/// Judgement of a packet by its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    New,
    /// Zero, which is never sent first.
    Zero,
    TooOld,
    Seen,
}

impl Association {
    pub(crate) fn new(
        encryption_key: [u8; KEY],
        authentication_key: [u8; KEY],
        start: u32,
        window: u8,
    ) -> Association {
        let half: [u8; 8] = encryption_key.first_chunk().copied().unwrap_or_default();
        Association {
            encryption_key,
            authentication_key,
            aes: Aes128::new(&encryption_key.into()),
            des: Des::new(&half.into()),
            hmac: Hmac::new_from_slice(&authentication_key).expect("any length is one of HMAC's"),
            start,
            window: window.into(),
            next: AtomicU32::new(start),
            seen: Mutex::new(ReplayWindow { newest: start, bits: 0 }),
        }
    }

    /// The sequence number of the next packet; behind the last comes zero, and
    /// then the first again.
    pub(super) fn next(&self) -> u32 {
        let after = |now: u32| Some(if now == 0 { self.start } else { now.wrapping_add(1) });
        self.next.fetch_update(Relaxed, Relaxed, after).unwrap_or_default()
    }

    /// Whether a packet with that sequence number is new, which it then no longer
    /// is.
    pub(super) fn receive(&self, sequence: u32) -> Replay {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if sequence == 0 {
            return Replay::Zero;
        }
        if sequence == self.start && seen.newest != self.start {
            // The other side has begun anew.
            *seen = ReplayWindow { newest: sequence, bits: 0 };
            return Replay::New;
        }
        if let Some(ahead) = sequence.checked_sub(seen.newest).filter(|ahead| *ahead > 0) {
            let kept = u64::from(ahead) < self.window;
            let before = seen.bits.checked_shl(ahead).filter(|_| kept);
            *seen = ReplayWindow { newest: sequence, bits: before.unwrap_or(0) | 1 };
            return Replay::New;
        }
        let behind = seen.newest - sequence;
        let Some(bit) = 1u64.checked_shl(behind).filter(|_| u64::from(behind) < self.window) else {
            return Replay::TooOld;
        };
        if seen.bits & bit != 0 {
            return Replay::Seen;
        }
        seen.bits |= bit;
        Replay::New
    }
}

/// The associations of a graph.
pub(crate) struct Associations {
    /// In the upper half of numbers.
    graph: u32,
    all: RwLock<Vec<Arc<Association>>>,
}

impl Default for Associations {
    fn default() -> Associations {
        static GRAPHS: AtomicU32 = AtomicU32::new(0);
        let graph = GRAPHS.fetch_add(1 << 16, Relaxed);
        Associations { graph, all: RwLock::default() }
    }
}

impl Associations {
    /// Adds one and returns its number; `None` when there are too many.
    pub(crate) fn add(&self, association: Association) -> Option<u32> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let place = u16::try_from(all.len() + 1).ok()?;
        all.push(Arc::new(association));
        Some(self.graph | u32::from(place))
    }

    /// Returns the association of a number.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Association>> {
        let place = (number & 0xffff).checked_sub(1)? as usize;
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(place).filter(|_| number & !0xffff == self.graph).cloned()
    }
}

/// An element's way to the associations packets name.
pub(super) struct AssociationCache {
    all: Arc<Associations>,
    /// The last that was asked for: packets of a tunnel come together.
    last: (u32, Option<Arc<Association>>),
}

impl AssociationCache {
    pub(super) fn new(make: &ElementBuilder<'_>) -> AssociationCache {
        AssociationCache { all: make.world.common(), last: (0, None) }
    }

    /// Returns the association of a packet.
    #[inline]
    pub(super) fn for_packet(&mut self, meta: &Meta) -> Option<&Association> {
        let number = association(meta);
        if number != self.last.0 {
            self.last = (number, self.all.get(number));
        }
        self.last.1.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn association(start: u32, window: u8) -> Association {
        Association::new([1; KEY], [2; KEY], start, window)
    }

    #[test]
    fn sequence_numbers_skip_nothing_and_begin_anew() {
        let from = association(u32::MAX - 1, 32);
        let sent: Vec<u32> = (0..5).map(|_| from.next()).collect();
        assert_eq!(sent, [u32::MAX - 1, u32::MAX, 0, u32::MAX - 1, u32::MAX]);
    }

    #[test]
    fn each_packet_is_taken_once_within_the_window() {
        let by = association(5, 8);
        for (sequence, expected) in [
            (0, Replay::Zero),
            (5, Replay::New),
            (5, Replay::Seen),
            (8, Replay::New),
            (6, Replay::New),
            (6, Replay::Seen),
            (7, Replay::New),
            (100, Replay::New),
            (93, Replay::New),
            (92, Replay::TooOld),
            (93, Replay::Seen),
            (100, Replay::Seen),
            (5, Replay::New),
            (6, Replay::New),
        ] {
            assert_eq!(by.receive(sequence), expected, "{sequence}");
        }
    }

    #[test]
    fn numbers_of_other_graphs_name_no_association() {
        let (one, other) = (Associations::default(), Associations::default());
        let number = one.add(association(1, 2)).unwrap();
        assert!(one.get(number).is_some() && one.get(0).is_none());
        assert!(other.add(association(1, 2)).is_some() && other.get(number).is_none());
    }
}

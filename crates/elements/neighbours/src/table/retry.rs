//! Queries sent again, and neighbours given up that do not answer (RFC 4861
//! section 7.2.2, RFC 1122 section 2.3.2).

use linerate_memory::Slot;

use super::Neighbours;
use crate::Address;

/// Queries without an answer before a neighbour is given up, and milliseconds from
/// one to the next, and from the last until then.
const TRIES: u8 = 3;
const INTERVAL: u64 = 1000;
/// Entries looked at, and queries sent, at a time.
const LOOKS: usize = 1024;
const QUERIES: usize = 64;

/// Work that is due now.
#[derive(Debug)]
pub struct RetryWork<A> {
    /// Addresses to ask for again.
    pub again: Vec<A>,
    /// Packets without an answer.
    pub unanswered: Vec<Slot>,
}

impl<A: Address> Neighbours<A> {
    /// The addresses packets wait for that are to be asked for again, and the
    /// packets for those that were asked for often enough, which are forgotten.
    /// Meant for about once a second.
    pub fn retry(&mut self, now: u64) -> RetryWork<A> {
        let mut round = RetryWork { again: Vec::new(), unanswered: Vec::new() };
        let mut failed = Vec::new();
        for ip in self.unknown.values().take(LOOKS) {
            let entry = self.table.lookup(&ip.key());
            let Some(neighbour) = entry.and_then(|entry| self.table.get_mut(entry)) else {
                continue;
            };
            let since = neighbour.polled.map_or(0, |polled| now.saturating_sub(polled));
            if neighbour.polls >= TRIES || neighbour.packets.is_empty() {
                failed.extend((since >= INTERVAL).then_some(*ip));
            } else if round.again.len() < QUERIES && neighbour.poll::<A>(now) {
                round.again.push(*ip);
            }
        }
        for ip in failed {
            if let Some(neighbour) = self.table.remove(&ip.key()) {
                self.ages.remove(&neighbour.age);
                self.unknown.remove(&neighbour.age);
                self.packets -= neighbour.packets.len();
                round.unanswered.extend(neighbour.packets);
            }
        }
        round
    }
}

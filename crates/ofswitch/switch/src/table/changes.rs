//! Changes between versions, to check decisions of an older version against.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Flow;

/// A difference between a version and the next.
#[derive(Debug, Clone)]
pub enum Change {
    /// This flow came to a table, went from it, or has other instructions now. Its match tells the
    /// packets that it may concern.
    Flow(Arc<Flow>),
    /// A group has other buckets, is gone, or is alive or not.
    Group(u32),
    /// A meter is another one, or gone.
    Meter(u32),
    /// `NORMAL` sends packets to this address to another port.
    Host {
        /// The number of the VLAN.
        vlan: u16,
        /// The address.
        address: u64,
    },
    /// Any difference: of ports, of the configuration, or too many to list.
    All,
}

/// Changes in a chunk.
const CHUNK: usize = 32;
/// Chunks that are kept.
const CHUNKS: usize = 128;

type Chunk = Vec<(u64, Change)>;

/// The last changes: some 4,000.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Changes up to this version are forgotten.
    forgotten: u64,
    full: Arc<VecDeque<Arc<Chunk>>>,
    last: Arc<Chunk>,
}

impl Changes {
    /// Changes that led to a version.
    pub(crate) fn push(&mut self, version: u64, change: Change) {
        if self.last.len() == CHUNK {
            let full = Arc::make_mut(&mut self.full);
            full.push_back(std::mem::take(&mut self.last));
            if full.len() > CHUNKS {
                let oldest = full.pop_front();
                let last = oldest.and_then(|chunk| chunk.last().map(|(version, _)| *version));
                self.forgotten = self.forgotten.max(last.unwrap_or_default());
            }
        }
        Arc::make_mut(&mut self.last).push((version, change));
    }

    /// Anything is different at this version.
    pub(crate) fn all(&mut self, version: u64) {
        self.full = Arc::default();
        self.last = Arc::default();
        self.forgotten = version.saturating_sub(1);
        self.push(version, Change::All);
    }

    /// Changes kept at most.
    pub(crate) const fn capacity() -> usize {
        CHUNK * CHUNKS
    }

    /// Changes after a version, the oldest first; `None` when they are not all known any more.
    pub(crate) fn since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        if version < self.forgotten {
            return None;
        }
        let old = |chunk: &Chunk| chunk.last().is_some_and(|(last, _)| *last <= version);
        let first = self.full.partition_point(|chunk| old(chunk));
        let full = self.full.range(first..).flat_map(|chunk| chunk.iter());
        let all = full.chain(self.last.iter());
        Some(all.filter(move |(of, _)| *of > version).map(|(_, change)| change))
    }
}

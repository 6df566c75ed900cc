//! Work with packets between reception and transmission.

use std::hint::black_box;

use linerate_elements_measuring::Burner;
use linerate_memory::{Frame, PoolCache};
use linerate_packet::{
    MacAddr,
    checksum::checksum,
    rewrite::{MacPair, mac_pair, set_macs},
};

use super::{Failure, instrument::no_memory};
use crate::{
    instruments::PointerChase,
    point::{Pages, Touch},
};

/// Work of one worker.
pub(super) struct Work {
    burner: Burner,
    per_packet: u64,
    per_burst: u64,
    memory: Option<(PointerChase, u64)>,
    touch: Touch,
    macs: MacPair,
    copy: Vec<u8>,
}

impl Work {
    pub(super) fn new(per_packet: u32, per_burst: u32, touch: Touch) -> Work {
        Work {
            burner: Burner::new(),
            per_packet: per_packet.into(),
            per_burst: per_burst.into(),
            memory: None,
            touch,
            macs: mac_pair(MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 8])),
            copy: vec![0; 1 << 16],
        }
    }

    /// Adds dependent accesses to a working set, per packet.
    pub(super) fn accessing(
        mut self,
        accesses: u32,
        (bytes, pages): (u64, Pages),
        seed: u64,
    ) -> Result<Work, Failure> {
        if accesses > 0 {
            let mut chase = PointerChase::new(bytes, pages, 1, seed).map_err(no_memory)?;
            chase.walk(bytes / 64);
            self.memory = Some((chase, accesses.into()));
        }
        Ok(self)
    }

    /// Does it to a burst.
    #[inline]
    pub(super) fn apply(&mut self, pool: &PoolCache, frame: &mut Frame) {
        let packets = frame.len() as u64;
        match self.touch {
            Touch::None => {}
            Touch::Mac => {
                let macs = self.macs;
                pool.arena().for_each_mut(frame, |bytes| {
                    let _ = set_macs(bytes, macs);
                });
            }
            Touch::Read => pool.arena().for_each(frame, |bytes| {
                for line in bytes.chunks(64) {
                    black_box(line[0]);
                }
            }),
            Touch::Copy => {
                let copy = &mut self.copy;
                pool.arena().for_each(frame, |bytes| {
                    copy[..bytes.len()].copy_from_slice(bytes);
                    black_box(&copy);
                });
            }
            Touch::Checksum => pool.arena().for_each(frame, |bytes| {
                black_box(checksum(bytes));
            }),
        }
        if self.per_packet + self.per_burst > 0 {
            self.burner.burn(self.per_burst + self.per_packet * packets);
        }
        if let Some((chase, accesses)) = &mut self.memory {
            black_box(chase.walk(*accesses * packets));
        }
    }
}

//! Meters: packets over a rate are dropped or marked.

use std::sync::Arc;

use crate::table::Counters;
use crate::wire::{Band, MeterFlags};

/// A meter. It never changes: one that is modified is another.
#[derive(Debug)]
pub struct Meter {
    /// Its number.
    pub number: u32,
    /// What its rates are of.
    pub flags: MeterFlags,
    /// From which rate on it does what.
    pub bands: Vec<Band>,
    /// When it was added, in nanoseconds of the steady clock.
    pub added: u64,
    /// What came to it.
    pub counters: Arc<Counters>,
    /// What each band was done to.
    pub band_counters: Vec<Arc<Counters>>,
}

impl Meter {
    /// A meter, added at a time of the steady clock in nanoseconds.
    #[must_use]
    pub fn new(number: u32, flags: MeterFlags, bands: Vec<Band>, now: u64) -> Meter {
        Meter {
            number,
            flags,
            added: now,
            counters: Arc::new(Counters::new(now)),
            band_counters: bands.iter().map(|_| Arc::new(Counters::new(now))).collect(),
            bands,
        }
    }
}

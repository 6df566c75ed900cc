//! Meters: packets over a rate are dropped or marked.

use crate::wire::{Band, MeterFlags};

/// A meter.
#[derive(Debug)]
pub struct Meter {
    /// Its number.
    pub number: u32,
    /// What its rates are of.
    pub flags: MeterFlags,
    /// From which rate on it does what.
    pub bands: Vec<Band>,
}

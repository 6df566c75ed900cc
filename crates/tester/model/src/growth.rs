//! A table whose lookups get dearer with its size.

use serde::{Deserialize, Serialize};

use crate::units::SecondsPerPacket;

/// Time per packet against the number of entries in use:
/// `t = base + step * log2(min(n, saturation))`.
///
/// Each doubling of the entries in use pushes the same part of the lookups one
/// step out of a cache; past `saturation` everything comes from the last
/// level. The values hold for one table, one machine and entries used alike
/// often.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableGrowth {
    /// Time with one entry.
    pub base: SecondsPerPacket,
    /// More time for each doubling.
    pub step: SecondsPerPacket,
    /// The number of entries past which nothing changes.
    pub saturation: f64,
}

impl TableGrowth {
    /// Time per packet with so many entries in use.
    pub fn time(self, entries: f64) -> SecondsPerPacket {
        self.base + self.step * entries.min(self.saturation).max(1.0).log2()
    }
}

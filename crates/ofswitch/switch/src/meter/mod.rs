//! Meters: packets over a rate are dropped or marked.

mod bucket;

use std::sync::Arc;

use crate::counters::Counters;
use crate::wire::{Band, BandEffect, MeterFlags};
use bucket::Bucket;

/// Verdict of a meter on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// The packet is dropped.
    Drop,
    /// The drop precedence is raised by so much.
    Remark(u8),
}

/// A meter. It never changes: one that is modified is another.
#[derive(Debug)]
pub struct Meter {
    /// Its number.
    pub number: u32,
    /// Unit of the rates, and options.
    pub flags: MeterFlags,
    /// Bands: a rate, and the effect above it.
    pub bands: Vec<Band>,
    /// When it was added, in nanoseconds of the steady clock.
    pub added: u64,
    /// Packets and bytes metered.
    pub counters: Arc<Counters>,
    /// Packets and bytes of each band.
    pub band_counters: Vec<Arc<Counters>>,
    /// The tokens of each band.
    buckets: Vec<Bucket>,
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
            buckets: bands
                .iter()
                .map(|band| {
                    let has_burst = flags.contains(MeterFlags::BURST);
                    Bucket::new(band.rate, if has_burst { band.burst } else { 0 })
                })
                .collect(),
            band_counters: bands.iter().map(|_| Arc::new(Counters::new(now))).collect(),
            bands,
        }
    }

    /// Meters a packet of so many bytes at a time of the steady clock in nanoseconds. Of the bands
    /// whose rates are exceeded the one of the greatest rate has it.
    pub fn pass(&self, length: usize, now: u64) -> Verdict {
        let length = length as u64;
        self.counters.add(1, length, now);
        let is_packets = self.flags.contains(MeterFlags::PACKETS);
        let thousandths = if is_packets { 1000 } else { length * 8 };
        let since = now.saturating_sub(self.added);
        let exceeded = self.buckets.iter().zip(&self.bands).zip(&self.band_counters);
        let exceeded = exceeded.filter(|((bucket, _), _)| !bucket.take(thousandths, since));
        let Some(((_, band), counters)) = exceeded.max_by_key(|((_, band), _)| band.rate) else {
            return Verdict::Pass;
        };
        counters.add(1, length, now);
        match band.effect {
            BandEffect::Drop => Verdict::Drop,
            BandEffect::Remark(levels) => Verdict::Remark(levels),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_rate_that_is_exceeded_counts() {
        let band = |rate, burst, effect| Band { rate, burst, effect };
        let bands = vec![band(10, 2, BandEffect::Remark(1)), band(20, 4, BandEffect::Drop)];
        let flags = MeterFlags(MeterFlags::PACKETS.0 | MeterFlags::BURST.0);
        let meter = Meter::new(1, flags, bands, 1_000);
        let said: Vec<_> = (0..6).map(|_| meter.pass(100, 1_000)).collect();
        let (pass, remark, drop) = (Verdict::Pass, Verdict::Remark(1), Verdict::Drop);
        assert_eq!(said, [pass, pass, remark, remark, drop, drop]);
        let had = |counters: &Counters| (counters.packets(), counters.bytes());
        assert_eq!(had(&meter.counters), (6, 600));
        assert_eq!(had(&meter.band_counters[0]), (2, 200));
        assert_eq!(had(&meter.band_counters[1]), (2, 200));
    }
}

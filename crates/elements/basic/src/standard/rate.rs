//! Rates of packets and bytes as Click estimates them: an exponentially
//! weighted moving average over milliseconds, in fixed-point numbers, in which
//! the last one has a weight of a sixteenth.
//!
//! Click reads the clock for every packet. Here that happens in simulated time
//! only, where it is free and gives Click's figures; else the cycle counter is
//! looked at after [`BATCH`] packets, the clock when a millisecond has gone
//! by, and packets are taken to have come evenly since the look before.

use std::fmt::Write;

use linerate_graph::Context;
use linerate_memory::clock::{cycles, cycles_per_second};

/// Packets between two looks at the cycle counter.
const BATCH: u64 = 1024;
/// Milliseconds per second.
const FREQUENCY: i128 = 1000;
/// Binary digits behind the point.
const PACKET_SCALE: u32 = 10;
const BYTE_SCALE: u32 = 4;
/// Milliseconds after which nothing is left of older values.
const FORGOTTEN: u64 = 100;

/// The rates of one stream of packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Rates {
    /// The millisecond of the last look.
    epoch: u64,
    /// Counted since.
    packets: u64,
    bytes: u64,
    /// Packets since the last look at the cycle counter.
    unseen: u64,
    /// Cycle counter at which the clock is looked at.
    due: u64,
    packet_rate: Average<PACKET_SCALE>,
    byte_rate: Average<BYTE_SCALE>,
}

impl Rates {
    pub(super) fn new(cx: &Context) -> Rates {
        Rates { epoch: milliseconds(cx), ..Rates::default() }
    }

    /// Packets have come.
    #[inline]
    pub(super) fn add(&mut self, cx: &Context, packets: u64, bytes: u64) {
        self.unseen += packets;
        if cx.clock.is_simulated() {
            self.look(cx);
        } else if self.unseen >= BATCH {
            self.unseen = 0;
            if cycles() >= self.due {
                self.look(cx);
            }
        }
        self.packets += packets;
        self.bytes += bytes;
    }

    #[cold]
    #[inline(never)]
    fn look(&mut self, cx: &Context) {
        let now = milliseconds(cx);
        let simulated = cx.clock.is_simulated();
        if !simulated {
            self.due = cycles() + (cycles_per_second() / 1000.0) as u64;
        }
        let passed = now.saturating_sub(self.epoch);
        if passed == 0 {
            return;
        }
        self.epoch = now;
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        if simulated {
            self.packet_rate.update(packets, 1, 1);
            self.byte_rate.update(bytes, 1, 1);
            self.packet_rate.update(0, 1, passed - 1);
            self.byte_rate.update(0, 1, passed - 1);
        } else {
            self.packet_rate.update(packets, passed, passed);
            self.byte_rate.update(bytes, passed, passed);
        }
    }

    /// Packets per second.
    pub(super) fn packet_rate(&mut self, cx: &Context) -> String {
        self.look(cx);
        real(self.packet_rate.per_second(), PACKET_SCALE)
    }

    /// Bytes per second.
    pub(super) fn byte_rate(&mut self, cx: &Context) -> String {
        self.look(cx);
        real(self.byte_rate.per_second(), BYTE_SCALE)
    }

    /// Bits per second.
    pub(super) fn bit_rate(&mut self, cx: &Context) -> String {
        self.look(cx);
        real(self.byte_rate.per_second(), BYTE_SCALE - 3)
    }
}

fn milliseconds(cx: &Context) -> u64 {
    cx.steady() / 1_000_000
}

/// An average per millisecond, with `SCALE` binary digits behind the point.
#[derive(Debug, Clone, Copy, Default)]
struct Average<const SCALE: u32>(i128);

impl<const SCALE: u32> Average<SCALE> {
    /// `count` came in `over` milliseconds, evenly, and `times` of them are to
    /// be added.
    fn update(&mut self, count: u64, over: u64, times: u64) {
        let each = (i128::from(count) << SCALE) / i128::from(over.max(1));
        if times >= FORGOTTEN {
            self.0 = each;
            return;
        }
        for _ in 0..times {
            // The eight makes up for the rounding down of the shift.
            self.0 += (each + 8 - self.0) >> 4;
        }
    }

    fn per_second(self) -> i128 {
        self.0 * FREQUENCY
    }
}

/// Formats a fixed-point number with as few decimal digits as tell it from its neighbours, as TeX
/// prints them (Knuth, "A simple program whose proof isn't", 1990).
fn real(value: i128, scale: u32) -> String {
    let value = value.max(0);
    let one = 1i128 << scale;
    let mut text = (value >> scale).to_string();
    let mut rest = value & (one - 1);
    if rest == 0 {
        return text;
    }
    text.push('.');
    let mut rounder = 5;
    while rounder < one >> 1 {
        rounder *= 10;
    }
    rest = 10 * rest + 5;
    let mut inexact = 10;
    loop {
        if inexact > one {
            rest += (one >> 1) - rounder;
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{}", rest >> scale);
        rest = 10 * (rest & (one - 1));
        inexact *= 10;
        if rest <= inexact {
            return text;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_point_numbers_are_short() {
        for (value, scale, text) in [
            (0, 10, "0"),
            (1 << 10, 10, "1"),
            (8000, 10, "7.8125"),
            (1_017_000, 10, "993.164"),
            (8000, 4, "500"),
            (1_593_000, 4, "99562.5"),
            (1_593_000, 1, "796500"),
        ] {
            assert_eq!(real(value, scale), text);
        }
    }

    /// Figures are those of Click 2.1 for 1,000 packets of 100 bytes in each
    /// of five seconds, one per millisecond.
    #[test]
    fn an_even_stream_has_the_rates_of_click() {
        let (mut packets, mut bytes) =
            (Average::<PACKET_SCALE>::default(), Average::<BYTE_SCALE>::default());
        for _ in 0..5000 {
            packets.update(1, 1, 1);
            bytes.update(100, 1, 1);
        }
        assert_eq!(real(packets.per_second(), PACKET_SCALE), "993.164");
        assert_eq!(real(bytes.per_second(), BYTE_SCALE), "99562.5");
        assert_eq!(real(bytes.per_second(), BYTE_SCALE - 3), "796500");
        packets.update(0, 1, 99);
        let left = packets.per_second();
        assert!(left < 20_000, "{left}");
        packets.update(0, 1, FORGOTTEN);
        assert_eq!(real(packets.per_second(), PACKET_SCALE), "0");
    }

    #[test]
    fn a_long_gap_is_averaged_over() {
        let mut packets = Average::<PACKET_SCALE>::default();
        packets.update(500, 1000, 1000);
        assert_eq!(real(packets.per_second(), PACKET_SCALE), "500");
    }
}

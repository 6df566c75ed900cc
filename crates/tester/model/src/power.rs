//! Power against utilisation.

use serde::{Deserialize, Serialize};

use crate::{
    latency::Loop,
    units::{PacketsPerSecond, Seconds, Watts},
};

/// `P = P_idle + (P_busy - P_idle) * util^g`, for the reading of a meter of the package or the
/// whole machine. One clock and one number of cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Power with the worker asleep.
    pub idle: Watts,
    /// Power with the worker busy all the time.
    pub busy: Watts,
    /// `g`: 1 if power rises evenly.
    pub exponent: f64,
}

impl Power {
    /// Power at a utilisation from 0 to 1.
    pub fn at(self, utilisation: f64) -> Watts {
        self.idle + (self.busy - self.idle) * utilisation.clamp(0.0, 1.0).powf(self.exponent)
    }
}

/// The utilisation of a loop that sleeps for `pause` after every round without
/// packets: `r + b / T'`, where `T' = (b + pause * p) / (1 - r)` is the mean
/// round with its pauses, and `p` the share of rounds without packets.
///
/// Packets arrive at random, and rounds are not limited. 1 without a pause (a
/// polling loop is always busy) and past saturation.
pub fn sleeping_utilisation(service: &Loop, load: PacketsPerSecond, pause: Seconds) -> f64 {
    let share = service.utilisation(load);
    if load >= service.capacity() || service.per_burst + pause == Seconds::ZERO {
        return 1.0;
    }
    let empty = empty_rounds(share, (load * service.per_burst).get(), (load * pause).get());
    let round = (service.per_burst + pause * empty) / (1.0 - share);
    share + service.per_burst / round
}

/// The share of rounds without packets, where `poll` and `pause` packets arrive on average during
/// an empty round and a pause.
///
/// The packets of a round are Poisson around the arrivals of the one before, so their generating
/// function obeys `G(z) = exp(-poll (1-z)) (G(z') + p (exp(-pause (1-z)) - 1))` with `z' =
/// exp(-share (1-z))` and `p = G(0)`. From 0, `z` goes to 1, where `G` is 1: the terms collected on
/// the way are linear in `p`.
fn empty_rounds(share: f64, poll: f64, pause: f64) -> f64 {
    let (mut factor, mut slope) = (1.0, 0.0);
    // 1 - z, which shrinks by the factor `share` in the end.
    let mut rest: f64 = 1.0;
    while rest > 1e-12 {
        factor *= (-poll * rest).exp();
        slope += factor * (-pause * rest).exp_m1();
        rest = -(-share * rest).exp_m1();
    }
    factor / (1.0 - slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Packets, SecondsPerPacket};

    fn service() -> Loop {
        Loop {
            per_packet: SecondsPerPacket::new(50e-9),
            per_burst: Seconds::new(100e-9),
            burst: Packets::new(64.0),
            fixed: Seconds::ZERO,
            queue: Packets::new(512.0),
        }
    }

    #[test]
    fn polling_is_always_busy() {
        for load in [0.0, 1e6, 1e7, 1e8] {
            let busy = sleeping_utilisation(&service(), PacketsPerSecond::new(load), Seconds::ZERO);
            assert!((busy - 1.0).abs() < 1e-9, "{load}: {busy}");
        }
    }

    #[test]
    fn sleeping_saves_at_low_load_only() {
        let busy = |load| {
            let pause = Seconds::new(10e-6);
            sleeping_utilisation(&service(), PacketsPerSecond::new(load), pause)
        };
        assert!((busy(0.0) - 100.0 / 10_100.0).abs() < 1e-6);
        assert!(busy(1e6) < 0.2);
        assert!(busy(15e6) > 0.75);
        assert!(busy(1e5) < busy(1e6) && busy(1e6) < busy(1e7));
    }

    #[test]
    fn power_lies_between_idle_and_busy() {
        let power = Power { idle: Watts::new(40.0), busy: Watts::new(60.0), exponent: 0.5 };
        assert_eq!(power.at(0.0), Watts::new(40.0));
        assert_eq!(power.at(0.25), Watts::new(50.0));
        assert_eq!(power.at(2.0), Watts::new(60.0));
    }
}

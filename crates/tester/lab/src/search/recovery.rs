//! Recovery from overload (RFC 2544, section 26.5) and from a reset (RFC
//! 6201).

use linerate_model::units::{PacketsPerSecond, Seconds};

/// The two loads of the recovery test: 110 % of the throughput, or the line
/// rate if that is less, for at least 60 s; then half of it.
pub fn recovery_loads(
    throughput: PacketsPerSecond,
    line_rate: PacketsPerSecond,
) -> (PacketsPerSecond, PacketsPerSecond) {
    let overload = (throughput * 1.1).min(line_rate);
    (overload, overload * 0.5)
}

/// Time for which frames were lost after the load was halved at `reduced`, where `last_lost` is the
/// sending time of the last lost frame. No time if none was, or none after that.
pub fn recovery_time(reduced: Seconds, last_lost: Option<Seconds>) -> Seconds {
    last_lost.map_or(Seconds::ZERO, |lost| (lost - reduced).max(Seconds::ZERO))
}

/// Time for which a device was out of service after a reset, from frames lost at a steady rate
/// below its throughput (RFC 6201's method by frame loss).
pub fn reset_time(lost: u64, rate: PacketsPerSecond) -> Seconds {
    if rate > PacketsPerSecond::ZERO {
        Seconds::new(lost as f64 / rate.get())
    } else {
        Seconds::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_stay_on_the_link() {
        let rate = PacketsPerSecond::new;
        let (overload, half) = recovery_loads(rate(5e6), rate(14.88e6));
        assert!((overload.get() - 5.5e6).abs() < 1e-3 && (half.get() - 2.75e6).abs() < 1e-3);
        assert_eq!(recovery_loads(rate(14e6), rate(14.88e6)), (rate(14.88e6), rate(7.44e6)));
    }

    #[test]
    fn recovery_lasts_from_the_step_to_the_last_loss() {
        let time = Seconds::new;
        assert_eq!(recovery_time(time(60.0), Some(time(60.25))), time(0.25));
        assert_eq!(recovery_time(time(60.0), Some(time(59.0))), Seconds::ZERO);
        assert_eq!(recovery_time(time(60.0), None), Seconds::ZERO);
    }

    #[test]
    fn an_outage_is_the_lost_packets_by_the_rate() {
        assert_eq!(reset_time(3_000_000, PacketsPerSecond::new(1e6)), Seconds::new(3.0));
        assert_eq!(reset_time(5, PacketsPerSecond::ZERO), Seconds::ZERO);
    }
}

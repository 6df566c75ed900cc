//! Summary of the turns of all rounds.

use linerate_model::quantile;
use serde::Serialize;

use super::Turn;

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quartiles {
    /// A quarter is below.
    pub low: f64,
    /// Half is below.
    pub median: f64,
    /// A quarter is above.
    pub high: f64,
}

impl Quartiles {
    /// Quartiles of these values; `None` if there are none.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share| quantile(&sorted, share);
        Some(Quartiles { low: at(0.25)?, median: at(0.5)?, high: at(0.75)? })
    }
}

/// A contender over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Rounds in which it was measured.
    pub rounds: usize,
    /// Frames forwarded per second.
    pub forwarded_pps: Quartiles,
    /// The rate of the first contender in the same round, as a multiple of this one's.
    pub ratio: Option<Quartiles>,
    /// Share lost while overloaded.
    pub loss_ratio: f64,
    /// Less than a hundredth was lost in most rounds: the tester was the limit,
    /// and the contender could do more.
    pub generator_limited: bool,
    /// Median latency at the low load.
    pub latency_p50_ns: Option<f64>,
    /// Its 99th percentile.
    pub latency_p99_ns: Option<f64>,
}

/// A row for each contender, in the order of their first turns; ratios are the
/// first named one's to theirs.
pub fn rows(names: &[&str], turns: &[Turn]) -> Vec<Row> {
    let of = |name: &str| turns.iter().filter(|turn| turn.name == name).collect::<Vec<_>>();
    let reference = names.first().map(|name| of(name)).unwrap_or_default();
    let row = |name: &&str| {
        let own = of(name);
        let all = |of: fn(&Turn) -> f64| own.iter().map(|turn| of(turn)).collect::<Vec<f64>>();
        let median = |values: Vec<f64>| Quartiles::from_values(&values).map(|found| found.median);
        let ratios: Vec<f64> = own
            .iter()
            .filter_map(|turn| {
                let same = reference.iter().find(|other| other.round == turn.round)?;
                (turn.forwarded_pps > 0.0).then(|| same.forwarded_pps / turn.forwarded_pps)
            })
            .collect();
        let latency = |of: fn(&Turn) -> Option<u64>| {
            median(own.iter().filter_map(|turn| of(turn)).map(|latency| latency as f64).collect())
        };
        let loss_ratio = median(all(|turn| turn.loss_ratio))?;
        Some(Row {
            name: (*name).into(),
            rounds: own.len(),
            forwarded_pps: Quartiles::from_values(&all(|turn| turn.forwarded_pps))?,
            ratio: Quartiles::from_values(&ratios),
            loss_ratio,
            generator_limited: loss_ratio < 0.01,
            latency_p50_ns: latency(|turn| turn.latency_p50_ns),
            latency_p99_ns: latency(|turn| turn.latency_p99_ns),
        })
    };
    names.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(name: &str, round: usize, forwarded: f64, loss: f64) -> Turn {
        Turn {
            name: name.into(),
            round,
            sent_pps: forwarded / (1.0 - loss),
            forwarded_pps: forwarded,
            loss_ratio: loss,
            latency_p50_ns: Some(1000 * (round as u64 + 1)),
            latency_p99_ns: None,
        }
    }

    /// A machine at half speed in the second round halves both: the ratio does
    /// not see it.
    #[test]
    fn ratios_are_within_rounds() {
        let mut turns = Vec::new();
        for (round, speed) in [(0, 1.0), (1, 0.5), (2, 1.0)] {
            turns.push(turn("ours", round, 2e6 * speed, 0.0));
            turns.push(turn("theirs", round, 1e6 * speed, 0.3));
        }
        // The third round of this one failed.
        turns.push(turn("other", 0, 4e6, 0.0));
        let found = rows(&["ours", "theirs", "absent", "other"], &turns);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].ratio, Some(Quartiles { low: 1.0, median: 1.0, high: 1.0 }));
        assert_eq!(found[1].ratio, Some(Quartiles { low: 2.0, median: 2.0, high: 2.0 }));
        assert_eq!(found[1].forwarded_pps, Quartiles { low: 0.75e6, median: 1e6, high: 1e6 });
        assert_eq!((found[1].generator_limited, found[0].generator_limited), (false, true));
        assert_eq!(found[1].latency_p50_ns, Some(2000.0));
        assert_eq!((found[2].name.as_str(), found[2].rounds), ("other", 1));
        assert_eq!(found[2].ratio.map(|ratio| ratio.median), Some(0.5));
    }
}

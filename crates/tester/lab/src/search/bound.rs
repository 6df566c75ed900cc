//! Classification of a load by its trials: RFC 9971's appendices A and B.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::{Deserialize, Serialize};

use super::{goal::Goal, trial::Trial};

/// A load's relation to a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Sure to meet the goal.
    Lower,
    /// Sure to miss it.
    Upper,
    /// More trials will tell.
    Undecided,
}

/// All trials at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTrials {
    /// The load.
    pub load: PacketsPerSecond,
    /// Its trials, in any order.
    pub trials: Vec<Trial>,
}

/// Durations of a load's trials, as a goal sees them.
struct Sums {
    full_low: f64,
    full_high: f64,
    short_low: f64,
    short_high: f64,
}

impl LoadTrials {
    /// A load that was not measured yet.
    pub const fn new(load: PacketsPerSecond) -> Self {
        LoadTrials { load, trials: Vec::new() }
    }

    /// Classifies the load as a bound for the goal.
    ///
    /// Short trials with much loss count as far as short ones with little do not balance them;
    /// short ones with little loss count for nothing else. Of the time still missing to the
    /// duration sum, the pessimistic view takes all as bad and the optimistic one all as good.
    pub fn classify(&self, goal: &Goal) -> Bound {
        let sums = self.sums(goal);
        let coefficient = goal.exceed_ratio / (1.0 - goal.exceed_ratio);
        let balancing = sums.short_low * coefficient;
        let excess = (sums.short_high - balancing).max(0.0);
        let high = sums.full_high + excess;
        let whole = (sums.full_low + high).max(goal.duration_sum.get());
        let allowed = whole * goal.exceed_ratio;
        let pessimistic = whole - sums.full_low <= allowed;
        let optimistic = high <= allowed;
        match (pessimistic, optimistic) {
            (true, true) => Bound::Lower,
            (false, false) => Bound::Upper,
            _ => Bound::Undecided,
        }
    }

    fn sums(&self, goal: &Goal) -> Sums {
        let mut sums = Sums { full_low: 0.0, full_high: 0.0, short_low: 0.0, short_high: 0.0 };
        for trial in &self.trials {
            let full = trial.duration >= goal.final_trial;
            let high = trial.loss_ratio > goal.loss_ratio;
            let sum = match (full, high) {
                (true, false) => &mut sums.full_low,
                (true, true) => &mut sums.full_high,
                (false, false) => &mut sums.short_low,
                (false, true) => &mut sums.short_high,
            };
            *sum += trial.effective.get();
        }
        sums
    }

    /// Conditional throughput: the rate forwarded in the worst of those trials
    /// that the goal asks to be good. `None` before the first full-length
    /// trial.
    pub fn conditional_throughput(&self, goal: &Goal) -> Option<PacketsPerSecond> {
        let mut full: Vec<&Trial> =
            self.trials.iter().filter(|trial| trial.duration >= goal.final_trial).collect();
        full.sort_by(|one, other| one.loss_ratio.total_cmp(&other.loss_ratio));
        let measured: Seconds = full.iter().map(|trial| trial.effective).sum();
        let mut remaining = measured.max(goal.duration_sum).get() * (1.0 - goal.exceed_ratio);
        let mut loss = full.first()?.loss_ratio;
        for trial in full {
            if remaining <= 0.0 {
                break;
            }
            loss = trial.loss_ratio;
            remaining -= trial.effective.get();
        }
        // Time that was never measured may have been lost altogether.
        if remaining > 0.0 {
            loss = 1.0;
        }
        Some(self.load * (1.0 - loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Bound::{Lower, Undecided, Upper};

    /// RFC 9971, appendix C: four goals, and one load of a million frames per
    /// second at six points in time.
    fn goals() -> [Goal; 4] {
        let goal = |length, sum, loss_ratio, exceed_ratio| Goal {
            final_trial: Seconds::new(length),
            duration_sum: Seconds::new(sum),
            loss_ratio,
            exceed_ratio,
            ..Goal::rfc2544()
        };
        [
            goal(60.0, 60.0, 0.0, 0.0),
            goal(60.0, 120.0, 0.0, 0.5),
            goal(1.0, 120.0, 0.005, 0.5),
            goal(60.0, 60.0, 0.005, 0.2),
        ]
    }

    /// Trials added before each point: number, duration and loss.
    const ADDED: [(usize, f64, f64); 6] = [
        (59, 1.0, 0.0),
        (1, 1.0, 0.01),
        (59, 1.0, 0.01),
        (1, 1.0, 0.0),
        (1, 60.0, 0.001),
        (1, 60.0, 0.0),
    ];

    fn at(point: usize) -> LoadTrials {
        let mut load = LoadTrials::new(PacketsPerSecond::new(1e6));
        for &(count, duration, loss) in &ADDED[..point] {
            load.trials.extend(vec![Trial::new(Seconds::new(duration), loss); count]);
        }
        load
    }

    /// Classified by the RFC's pseudocode. Its printed tables call the load a lower bound for the
    /// fourth goal at points 5 and 6, beside exceed ratios of 43 % and 27 %, which are above that
    /// goal's 20 %.
    #[test]
    fn the_rfcs_example_is_classified_as_its_pseudocode_does() {
        let results = [
            [Undecided, Undecided, Undecided, Undecided],
            [Upper, Undecided, Undecided, Undecided],
            [Upper, Undecided, Undecided, Upper],
            [Upper, Undecided, Lower, Upper],
            [Upper, Undecided, Lower, Upper],
            [Upper, Lower, Lower, Upper],
        ];
        for (point, wanted) in results.into_iter().enumerate() {
            let found = goals().map(|goal| at(point + 1).classify(&goal));
            assert_eq!(found, wanted, "point {}", point + 1);
        }
        // The presets are two of those goals.
        assert_eq!(at(6).classify(&Goal::rfc2544()), Upper);
        assert_eq!(at(6).classify(&Goal::tst009()), Lower);
    }

    #[test]
    fn the_rfcs_conditional_throughput() {
        let [_, goals @ ..] = goals();
        let found =
            goals.map(|goal| at(6).conditional_throughput(&goal).unwrap().get().round() as u64);
        assert_eq!(found, [1_000_000, 1_000_000, 999_000]);
    }

    #[test]
    fn a_load_without_trials_is_undecided() {
        let load = at(0);
        for goal in goals() {
            assert_eq!(load.classify(&goal), Undecided);
            assert_eq!(load.conditional_throughput(&goal), None);
        }
    }

    #[test]
    fn missing_time_counts_as_lost() {
        // One good trial of 1 s of the 120 s that half of must be good.
        let load = LoadTrials {
            load: PacketsPerSecond::new(5e6),
            trials: vec![Trial::new(Seconds::new(1.0), 0.0)],
        };
        let found = load.conditional_throughput(&goals()[2]).unwrap();
        assert_eq!(found, PacketsPerSecond::ZERO);
    }

    #[test]
    fn the_effective_duration_counts() {
        // One trial of 60 s that counts for 120 s decides a sum of 120 s.
        let mut trial = Trial::new(Seconds::new(60.0), 0.0);
        let mut load = LoadTrials { load: PacketsPerSecond::new(1e6), trials: vec![trial] };
        let goal = Goal { exceed_ratio: 0.1, ..goals()[1] };
        assert_eq!(load.classify(&goal), Undecided);
        trial.effective = Seconds::new(120.0);
        load.trials = vec![trial];
        assert_eq!(load.classify(&goal), Lower);
    }
}

//! The steps to a goal: coarse ones in short trials first.

use linerate_model::units::Seconds;

use super::goal::Goal;

/// Goals to reach one after the other, the last of which is the goal itself.
///
/// Each step before doubles the width. Its trials are short where the goal's
/// are long, and one of them is enough to go on: later steps measure its
/// bounds again.
pub(super) fn steps(goal: &Goal, coarse: u32) -> Vec<Goal> {
    let longer = goal.final_trial / goal.initial_trial;
    let step = |index: u32| {
        let share = f64::from(index) / f64::from(coarse);
        let duration: Seconds = (goal.initial_trial * longer.powf(share)).min(goal.final_trial);
        Goal {
            final_trial: duration,
            duration_sum: duration,
            width: (goal.width * 2f64.powi((coarse - index) as i32)).min(0.5),
            ..*goal
        }
    };
    (0..coarse).map(step).chain([*goal]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_get_longer_and_narrower() {
        let steps = steps(&Goal::rfc2544(), 2);
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[0].final_trial, Seconds::new(1.0));
        assert!((steps[1].final_trial.get() - 60f64.sqrt()).abs() < 1e-9);
        assert_eq!(steps[2], Goal::rfc2544());
        let widths: Vec<f64> = steps.iter().map(|step| step.width).collect();
        assert_eq!(widths, [0.02, 0.01, 0.005]);
    }

    #[test]
    fn without_coarse_steps_there_is_the_goal() {
        assert_eq!(steps(&Goal::ndr(), 0), [Goal::ndr()]);
    }
}

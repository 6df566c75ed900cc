//! The controller of MLRsearch (RFC 9971): which trial comes next.
//!
//! The choice of loads is left to implementations. This one goes through the goals in order, each
//! in steps from coarse to fine, and shares all trials. The first trial is at the highest load; the
//! second at the rate that the device forwarded then. Bounds of one step are measured again by the
//! next, the lower one first. Without a bound on one side it goes there in strides that double;
//! between bounds it takes the geometric mean.
//!
//! Equal results give equal trials, so that a search that was broken off goes on after those it had
//! are told again.

use linerate_model::units::{PacketsPerSecond, Seconds};
use serde::{Deserialize, Serialize};

use super::{
    bound::{Bound, LoadTrials},
    goal::{Goal, GoalError},
    target::steps,
    trial::{Frames, Input, Trial, Unsent},
};

/// Limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The lowest load tried: at least one frame in the shortest trial.
    pub lowest: PacketsPerSecond,
    /// The highest load tried: the limit of link and generator.
    pub highest: PacketsPerSecond,
    /// Treatment of unsent frames.
    pub unsent: Unsent,
    /// Most repetitions of a void trial.
    pub retries: u32,
    /// Coarse steps before each goal.
    pub coarse: u32,
    /// The search ends when trials have taken this long together.
    pub longest: Option<Seconds>,
}

impl Settings {
    /// Between these loads, with two coarse steps, and with every trial void
    /// that did not send all its frames.
    pub const fn between(lowest: PacketsPerSecond, highest: PacketsPerSecond) -> Self {
        Settings {
            lowest,
            highest,
            unsent: Unsent::Void(0.0),
            retries: 1,
            coarse: 2,
            longest: None,
        }
    }
}

/// A search that cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// No goal, and so nothing to do.
    #[error("a search needs a goal")]
    NoGoal,
    /// One of the goals is impossible.
    #[error("goal {0}: {1}")]
    Goal(usize, GoalError),
    /// The loads are not in order, or not above zero.
    #[error("the lowest load must be above zero and below the highest")]
    Loads,
}

/// Judgement on a trial's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The trial counts.
    Counted,
    /// The generator did not send all frames: the result counts for nothing. The trial is asked for
    /// again.
    Void,
    /// Void once too often: loads as high as this one are not tried again.
    GeneratorLimit,
}

/// The reason for the end of a goal's search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Both bounds were found, close enough: RFC 9971's regular result.
    Found,
    /// The highest load meets the goal; the lower bound is that load.
    AtHighest,
    /// The lowest load misses the goal.
    AtLowest,
    /// The generator cannot send at loads that would have to be tried.
    GeneratorLimit,
    /// Time ran out.
    OutOfTime,
    /// The search has not ended.
    Unfinished,
}

/// Result for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// The relevant lower bound; without an upper bound the largest load that
    /// meets the goal.
    pub lower: Option<PacketsPerSecond>,
    /// The relevant upper bound: the smallest load that misses the goal.
    pub upper: Option<PacketsPerSecond>,
    /// Conditional throughput at the lower bound.
    pub conditional_throughput: Option<PacketsPerSecond>,
    /// The reason for the end of its search. Only [`Ended::Found`] is regular.
    pub ended: Ended,
}

/// A search for several goals.
#[derive(Clone, Debug)]
pub struct Search {
    settings: Settings,
    goals: Vec<Goal>,
    ended: Vec<Option<Ended>>,
    /// All trials, by load.
    loads: Vec<LoadTrials>,
    /// The goal looked for, and its step.
    goal: usize,
    step: usize,
    steps: Vec<Goal>,
    /// Bounds of the step before, to be measured first.
    hints: Vec<PacketsPerSecond>,
    /// Length of the next stride outside of a bound, in widths.
    stride: f64,
    /// The trial asked for.
    asked: Option<Input>,
    voids: u32,
    /// Loads above this are beyond the generator.
    ceiling: PacketsPerSecond,
    /// Times that the generator was found to be the limit, up to 9.
    limited: u32,
    spent: Seconds,
}

impl Search {
    /// A search for these goals, in this order.
    ///
    /// # Errors
    ///
    /// When a goal or the limits are out of range.
    pub fn new(goals: Vec<Goal>, settings: Settings) -> Result<Self, SearchError> {
        let first = *goals.first().ok_or(SearchError::NoGoal)?;
        for (index, goal) in goals.iter().enumerate() {
            goal.check().map_err(|error| SearchError::Goal(index, error))?;
        }
        let (lowest, highest) = (settings.lowest.get(), settings.highest.get());
        if !(lowest > 0.0 && lowest < highest && highest.is_finite()) {
            return Err(SearchError::Loads);
        }
        Ok(Search {
            settings,
            ended: vec![None; goals.len()],
            goals,
            loads: Vec::new(),
            goal: 0,
            step: 0,
            steps: steps(&first, settings.coarse),
            hints: vec![settings.highest],
            stride: 1.0,
            asked: None,
            voids: 0,
            ceiling: settings.highest,
            limited: 0,
            spent: Seconds::ZERO,
        })
    }

    /// The next trial to run, or `None` at the end. Asking again without a
    /// result gives the same trial.
    pub fn next_trial(&mut self) -> Option<Input> {
        if self.asked.is_none() {
            self.asked = self.choose();
        }
        self.asked
    }

    /// Tells the result of the trial asked for; nothing if none was.
    ///
    /// `effective` is for how long the trial counts, if not for its duration.
    pub fn record(&mut self, frames: Frames, effective: Option<Seconds>) -> Recorded {
        let Some(input) = self.asked else { return Recorded::Void };
        self.spent += input.duration;
        if frames.is_void(self.settings.unsent) {
            return self.record_void(input, &frames);
        }
        self.asked = None;
        self.voids = 0;
        let trial = Trial {
            duration: input.duration,
            effective: effective.unwrap_or(input.duration),
            loss_ratio: frames.loss_ratio(),
        };
        self.at(input.load).trials.push(trial);
        // The rate forwarded at the highest load says where to look first.
        let forwarded = input.load * (1.0 - trial.loss_ratio);
        if self.loads.len() == 1 && forwarded >= self.settings.lowest && trial.loss_ratio > 0.0 {
            self.hints.push(forwarded);
        }
        Recorded::Counted
    }

    fn record_void(&mut self, input: Input, frames: &Frames) -> Recorded {
        self.voids += 1;
        if self.voids <= self.settings.retries {
            return Recorded::Void;
        }
        self.voids = 0;
        self.asked = None;
        let sent = input.load * (1.0 - frames.unsent_ratio());
        // At least some way below the load, and further each time: a generator
        // that drops a frame at any load must not hold the search up.
        let back_off = 0.001 * 2f64.powi(self.limited as i32);
        self.limited = (self.limited + 1).min(9);
        self.ceiling = self.ceiling.min(sent).min(input.load * (1.0 - back_off));
        self.hints.retain(|hint| *hint < input.load);
        if self.loads.is_empty() && self.ceiling > self.settings.lowest {
            self.hints.push(self.ceiling);
        }
        Recorded::GeneratorLimit
    }

    /// Time that trials have taken, without the time between them.
    pub fn spent(&self) -> Seconds {
        self.spent
    }

    /// Returns true if the generator could not send at loads that were tried.
    pub fn generator_limited(&self) -> bool {
        self.limited > 0
    }

    /// All loads measured, with their trials, from the lowest.
    pub fn loads(&self) -> &[LoadTrials] {
        &self.loads
    }

    /// The result for each goal, in their order.
    pub fn results(&self) -> Vec<GoalResult> {
        let result = |(goal, ended): (&Goal, &Option<Ended>)| {
            let (lower, upper) = self.bounds(goal);
            let trials = lower.and_then(|load| self.loads.iter().find(|known| known.load == load));
            let ended = ended.unwrap_or(Ended::Unfinished);
            // Trials for other goals may have moved a bound since.
            let apart = |low, high| width(low, high) > goal.width * (1.0 + 1e-9);
            let ended = match (ended, lower, upper) {
                (Ended::Found, Some(low), Some(high)) if apart(low, high) => Ended::Unfinished,
                (Ended::Found, None, _) | (Ended::Found, _, None) => Ended::Unfinished,
                _ => ended,
            };
            GoalResult {
                goal: *goal,
                lower,
                upper,
                conditional_throughput: trials
                    .and_then(|trials| trials.conditional_throughput(goal)),
                ended,
            }
        };
        self.goals.iter().zip(&self.ended).map(result).collect()
    }

    /// The relevant bounds: the smallest upper one, and the largest lower one
    /// below it.
    fn bounds(&self, goal: &Goal) -> (Option<PacketsPerSecond>, Option<PacketsPerSecond>) {
        let mut lower = None;
        for known in &self.loads {
            match known.classify(goal) {
                Bound::Upper => return (lower, Some(known.load)),
                Bound::Lower => lower = Some(known.load),
                Bound::Undecided => (),
            }
        }
        (lower, None)
    }

    fn at(&mut self, load: PacketsPerSecond) -> &mut LoadTrials {
        let place = self.loads.partition_point(|known| known.load < load);
        if self.loads.get(place).is_none_or(|known| known.load != load) {
            self.loads.insert(place, LoadTrials::new(load));
        }
        &mut self.loads[place]
    }

    fn choose(&mut self) -> Option<Input> {
        while self.goal < self.goals.len() {
            let step = self.steps[self.step];
            if self.settings.longest.is_some_and(|longest| self.spent >= longest) {
                self.ended[self.goal..].fill(Some(Ended::OutOfTime));
                self.goal = self.goals.len();
                return None;
            }
            match self.choose_load(&step) {
                Ok(load) => return Some(Input { load, duration: step.final_trial }),
                Err(ended) => self.go_on(&step, ended),
            }
        }
        None
    }

    /// Ends a step, and the goal with its last one.
    fn go_on(&mut self, step: &Goal, ended: Ended) {
        let (lower, upper) = self.bounds(step);
        // Taken from the end: the lower bound is measured again first.
        self.hints = [upper, lower].into_iter().flatten().collect();
        self.stride = 1.0;
        self.step += 1;
        if self.step < self.steps.len() {
            return;
        }
        self.ended[self.goal] = Some(ended);
        self.goal += 1;
        self.step = 0;
        if let Some(goal) = self.goals.get(self.goal) {
            self.steps = steps(goal, self.settings.coarse);
        }
    }

    /// The load to measure for a step, or why it has ended.
    fn choose_load(&mut self, step: &Goal) -> Result<PacketsPerSecond, Ended> {
        let (lower, upper) = self.bounds(step);
        // A load that was begun and can still become a relevant bound is
        // decided first.
        let open = self.loads.iter().find(|known| {
            let begun = known.trials.iter().any(|trial| trial.duration >= step.final_trial);
            begun
                && known.load <= self.ceiling
                && inside(known.load, lower, upper)
                && known.classify(step) == Bound::Undecided
        });
        if let Some(open) = open {
            return Ok(open.load);
        }
        while let Some(hint) = self.hints.pop() {
            if inside(hint, lower, upper) {
                return Ok(hint);
            }
        }
        match (lower, upper) {
            (Some(lower), Some(upper)) if width(lower, upper) <= step.width => Err(Ended::Found),
            _ if self.ceiling < self.settings.lowest => Err(Ended::GeneratorLimit),
            (Some(lower), Some(upper)) => self.between(lower, upper),
            (None, Some(upper)) => self.below(upper, step),
            (Some(lower), None) => self.above(lower, step),
            (None, None) => Ok(self.ceiling),
        }
    }

    fn between(
        &self,
        lower: PacketsPerSecond,
        upper: PacketsPerSecond,
    ) -> Result<PacketsPerSecond, Ended> {
        let middle = PacketsPerSecond::new((lower.get() * upper.get()).sqrt());
        if middle <= self.ceiling {
            return Ok(middle);
        }
        // The generator may still reach a load above the lower bound.
        let reachable = self.ceiling > lower * (1.0 + 1e-6);
        if reachable { Ok(self.ceiling) } else { Err(Ended::GeneratorLimit) }
    }

    fn below(&mut self, upper: PacketsPerSecond, step: &Goal) -> Result<PacketsPerSecond, Ended> {
        if upper <= self.settings.lowest {
            return Err(Ended::AtLowest);
        }
        let next = upper * (1.0 - (step.width * self.stride).min(0.5));
        self.stride *= 2.0;
        Ok(next.max(self.settings.lowest).min(self.ceiling))
    }

    fn above(&mut self, lower: PacketsPerSecond, step: &Goal) -> Result<PacketsPerSecond, Ended> {
        if lower >= self.ceiling {
            let limited = self.ceiling < self.settings.highest;
            return Err(if limited { Ended::GeneratorLimit } else { Ended::AtHighest });
        }
        let next = lower / (1.0 - (step.width * self.stride).min(0.5));
        self.stride *= 2.0;
        Ok(next.min(self.ceiling))
    }
}

fn width(lower: PacketsPerSecond, upper: PacketsPerSecond) -> f64 {
    1.0 - lower / upper
}

fn inside(
    load: PacketsPerSecond,
    lower: Option<PacketsPerSecond>,
    upper: Option<PacketsPerSecond>,
) -> bool {
    lower.is_none_or(|lower| lower < load) && upper.is_none_or(|upper| load < upper)
}

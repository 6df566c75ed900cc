//! MLRsearch on simulated devices of known capacity.

use linerate_lab::search::{
    Bound, Ended, Frames, Goal, GoalError, Input, Recorded, Search, SearchError, Settings, Unsent,
};
use linerate_model::units::{PacketsPerSecond, Seconds};
use proptest::prelude::*;

const LINE: PacketsPerSecond = PacketsPerSecond::new(14.88e6);
const LOWEST: PacketsPerSecond = PacketsPerSecond::new(10e3);

/// The device between the ports, and the generator before it.
struct Device {
    capacity: f64,
    /// The chance of a second in which something else takes a share of the
    /// frames.
    disturbed: f64,
    share: f64,
    /// Most by which the capacity of a trial differs from the device's.
    jitter: f64,
    /// The most the generator sends.
    generator: f64,
    random: fastrand::Rng,
}

impl Device {
    fn new(capacity: f64) -> Self {
        Device {
            capacity,
            disturbed: 0.0,
            share: 0.0,
            jitter: 0.0,
            generator: f64::INFINITY,
            random: fastrand::Rng::with_seed(1),
        }
    }

    fn run(&mut self, input: Input) -> Frames {
        let seconds = input.duration.get();
        let intended = input.frames();
        let accepted = intended.min((self.generator * seconds) as u64);
        let capacity = self.capacity * (1.0 + self.jitter * (2.0 * self.random.f64() - 1.0));
        let forwarded = (accepted as f64).min((capacity * seconds).ceil());
        let mut lost = 0.0;
        for _ in 0..seconds.ceil() as usize {
            if self.random.f64() < self.disturbed {
                lost += (forwarded / seconds * self.share).max(1.0);
            }
        }
        let received = (forwarded - lost).max(0.0) as u64;
        Frames { intended, offered: accepted, accepted, received }
    }
}

/// Runs a search to its end; gives it back with the number of trials.
fn find(device: &mut Device, goals: &[Goal], settings: Settings) -> (Search, usize) {
    let mut search = Search::new(goals.to_vec(), settings).unwrap();
    let mut trials = 0;
    while let Some(input) = search.next_trial() {
        assert_eq!(search.next_trial(), Some(input));
        assert!(input.load <= settings.highest && input.load >= settings.lowest, "{input:?}");
        let frames = device.run(input);
        search.record(frames, None);
        trials += 1;
        assert!(trials < 5000, "{:?}", search.results());
    }
    (search, trials)
}

#[test]
fn a_device_without_noise_is_found_by_all_presets() {
    for capacity in [12e3, 0.7e6, 3.2e6, 9.99e6, 14.7e6] {
        let goals = [Goal::ndr(), Goal::pdr(), Goal::rfc2544()];
        let (search, trials) =
            find(&mut Device::new(capacity), &goals, Settings::between(LOWEST, LINE));
        for result in search.results() {
            assert_eq!(result.ended, Ended::Found, "{capacity}: {result:?}");
            let (lower, upper) = (result.lower.unwrap().get(), result.upper.unwrap().get());
            // The highest load whose loss is still small enough.
            let edge = capacity / (1.0 - result.goal.loss_ratio);
            // A trial of a second rounds to whole frames.
            assert!(lower <= edge + 2.0 && edge - 2.0 <= upper, "{capacity}: {result:?}");
            assert!(1.0 - lower / upper <= result.goal.width + 1e-9);
            let forwarded = result.conditional_throughput.unwrap().get();
            assert!(forwarded <= capacity + 2.0 && forwarded >= capacity * 0.994);
        }
        assert!(trials < 250, "{capacity}: {trials} trials");
    }
}

/// Every tenth second a neighbour takes one frame of ten thousand. The median
/// of the trials does not see it.
#[test]
fn noise_is_tolerated_within_the_width() {
    for seed in 0..30_u32 {
        let capacity = 2e6 + f64::from(seed) * 0.37e6;
        let mut device = Device {
            disturbed: 0.1,
            share: 1e-4,
            random: fastrand::Rng::with_seed(u64::from(seed)),
            ..Device::new(capacity)
        };
        let goals = [Goal::ndr(), Goal::pdr()];
        let (search, _) = find(&mut device, &goals, Settings::between(LOWEST, LINE));
        for result in search.results() {
            assert_eq!(result.ended, Ended::Found, "{capacity}: {result:?}");
            let edge = capacity / (1.0 - result.goal.loss_ratio);
            let (lower, upper) = (result.lower.unwrap().get(), result.upper.unwrap().get());
            assert!(lower <= edge * (1.0 + 1e-5), "{capacity}: {result:?}");
            assert!(upper >= edge * (1.0 - result.goal.width), "{capacity}: {result:?}");
            assert!(1.0 - lower / upper <= result.goal.width + 1e-9);
        }
    }
}

/// A capacity that is another in every trial, 1 % up or down: the rate that most trials reach is
/// found. The loads tried are decided by 11 to 21 trials each, so that their order is uncertain
/// near the middle.
#[test]
fn a_trembling_capacity_is_found_by_its_median() {
    let mut worst: f64 = 0.0;
    for seed in 0..100 {
        let mut device =
            Device { jitter: 0.01, random: fastrand::Rng::with_seed(seed), ..Device::new(6e6) };
        let (search, _) = find(&mut device, &[Goal::ndr()], Settings::between(LOWEST, LINE));
        let result = search.results()[0];
        assert_eq!(result.ended, Ended::Found, "{result:?}");
        let middle = (result.lower.unwrap() + result.upper.unwrap()).get() / 2.0;
        worst = worst.max((middle / 6e6 - 1.0).abs());
    }
    assert!(worst < 0.01, "{worst}");
}

/// Losses of a neighbour leave nothing of a goal that allows no second to lose a frame: that is its
/// result for such a device.
#[test]
fn rfc_2544_sees_every_lost_frame() {
    let mut device = Device { disturbed: 0.1, share: 1e-4, ..Device::new(5e6) };
    let (search, _) = find(&mut device, &[Goal::rfc2544()], Settings::between(LOWEST, LINE));
    let result = search.results()[0];
    assert_eq!(result.ended, Ended::AtLowest);
    assert_eq!((result.lower, result.upper), (None, Some(LOWEST)));
}

#[test]
fn a_generator_at_its_limit_makes_trials_void() {
    // The device could do 10 Mpps, the generator does 4.
    let mut device = Device { generator: 4e6, ..Device::new(10e6) };
    let settings = Settings::between(LOWEST, LINE);
    let mut search = Search::new(vec![Goal::ndr()], settings).unwrap();
    let first = search.next_trial().unwrap();
    assert_eq!(first.load, LINE);
    let frames = device.run(first);
    assert_eq!(search.record(frames, None), Recorded::Void);
    assert_eq!(search.next_trial(), Some(first), "it is tried once more");
    let frames = device.run(first);
    assert_eq!(search.record(frames, None), Recorded::GeneratorLimit);
    assert!(search.generator_limited() && search.loads().is_empty());

    let (search, trials) = find(&mut device, &[Goal::ndr(), Goal::pdr()], settings);
    for result in search.results() {
        assert_eq!(result.ended, Ended::GeneratorLimit, "{result:?}");
        assert_eq!(result.upper, None);
        let lower = result.lower.unwrap().get();
        assert!((3.9e6..=4e6).contains(&lower), "{lower}");
    }
    assert!(search.generator_limited());
    assert!(trials < 100, "{trials}");
}

#[test]
fn unsent_frames_can_be_counted_as_lost_instead() {
    let mut device = Device { generator: 4e6, ..Device::new(10e6) };
    let settings = Settings { unsent: Unsent::Loss, ..Settings::between(LOWEST, LINE) };
    let (search, _) = find(&mut device, &[Goal::ndr()], settings);
    let result = search.results()[0];
    assert_eq!(result.ended, Ended::Found);
    assert!(result.lower.unwrap().get() <= 4e6 && result.upper.unwrap().get() >= 4e6);
    assert!(!search.generator_limited());
}

/// A generator that misses a frame in every trial, at any load.
#[test]
fn a_generator_that_never_sends_all_ends_the_search() {
    let one_short = |input: Input| {
        let intended = input.frames();
        let sent = intended - 1;
        Frames { intended, offered: sent, accepted: sent, received: sent }
    };
    let settings = Settings::between(LOWEST, LINE);
    let mut search = Search::new(vec![Goal::ndr()], settings).unwrap();
    let mut trials = 0;
    while let Some(input) = search.next_trial() {
        assert_ne!(search.record(one_short(input), None), Recorded::Counted);
        trials += 1;
        assert!(trials < 100);
    }
    assert_eq!(search.results()[0].ended, Ended::GeneratorLimit);
    // With some tolerance the frame is merely lost.
    let settings = Settings { unsent: Unsent::Void(0.001), ..settings };
    let mut search = Search::new(vec![Goal::pdr()], settings).unwrap();
    while let Some(input) = search.next_trial() {
        assert_eq!(search.record(one_short(input), None), Recorded::Counted);
    }
    assert_eq!(search.results()[0].ended, Ended::AtHighest);
}

#[test]
fn devices_beyond_the_loads_are_said_to_be() {
    let settings = Settings::between(LOWEST, LINE);
    let (search, trials) = find(&mut Device::new(100e6), &[Goal::ndr()], settings);
    let result = search.results()[0];
    assert_eq!((result.ended, result.lower, result.upper), (Ended::AtHighest, Some(LINE), None));
    assert_eq!(result.conditional_throughput, Some(LINE));
    // Eleven good trials of 21 settle it, and none is made elsewhere.
    assert_eq!(trials, 11);

    let (search, _) = find(&mut Device::new(0.0), &[Goal::ndr()], settings);
    let result = search.results()[0];
    assert_eq!((result.ended, result.lower, result.upper), (Ended::AtLowest, None, Some(LOWEST)));
}

#[test]
fn time_can_run_out() {
    let settings =
        Settings { longest: Some(Seconds::new(10.0)), ..Settings::between(LOWEST, LINE) };
    let (search, trials) = find(&mut Device::new(5e6), &[Goal::ndr(), Goal::pdr()], settings);
    assert_eq!(trials, 10);
    assert!(search.results().iter().all(|result| result.ended == Ended::OutOfTime));
    assert_eq!(search.spent(), Seconds::new(10.0));
}

/// Broken off after some trials and told their results again.
#[test]
fn a_search_is_resumed_from_its_results() {
    let goals = vec![Goal::ndr(), Goal::rfc2544()];
    let settings = Settings::between(LOWEST, LINE);
    let start = || Search::new(goals.clone(), settings).unwrap();
    let mut device = Device { jitter: 0.002, ..Device::new(3e6) };
    let mut whole = start();
    let mut told = Vec::new();
    while let Some(input) = whole.next_trial() {
        let frames = device.run(input);
        whole.record(frames, None);
        told.push((input, frames));
    }
    let text = serde_json::to_string(&told).unwrap();
    let told: Vec<(Input, Frames)> = serde_json::from_str(&text).unwrap();
    let mut again = start();
    for (_, frames) in told {
        assert!(again.next_trial().is_some());
        again.record(frames, None);
    }
    assert_eq!(again.next_trial(), None);
    assert_eq!(again.results(), whole.results());
}

#[test]
fn coarse_steps_save_time() {
    let time = |coarse| {
        let settings = Settings { coarse, ..Settings::between(LOWEST, LINE) };
        find(&mut Device::new(6.3e6), &[Goal::rfc2544()], settings).0.spent()
    };
    assert!(time(2) < time(0) * 0.75, "{} {}", time(2), time(0));
}

#[test]
fn impossible_searches_are_refused() {
    let settings = Settings::between(LOWEST, LINE);
    let refused = |goal| Search::new(vec![Goal::ndr(), goal], settings).unwrap_err();
    let wrong = |goal, error| assert_eq!(refused(goal), SearchError::Goal(1, error));
    wrong(Goal { loss_ratio: 1.0, ..Goal::ndr() }, GoalError::Loss);
    wrong(Goal { exceed_ratio: -0.1, ..Goal::ndr() }, GoalError::Exceed);
    wrong(Goal { width: 0.0, ..Goal::ndr() }, GoalError::Width);
    wrong(Goal { width: f64::NAN, ..Goal::ndr() }, GoalError::Width);
    wrong(Goal { final_trial: Seconds::ZERO, ..Goal::ndr() }, GoalError::Duration);
    wrong(Goal { initial_trial: Seconds::new(2.0), ..Goal::ndr() }, GoalError::Duration);
    assert_eq!(Search::new(vec![], settings).unwrap_err(), SearchError::NoGoal);
    let upside_down = Settings::between(LINE, LOWEST);
    assert_eq!(Search::new(vec![Goal::ndr()], upside_down).unwrap_err(), SearchError::Loads);
}

proptest! {
    /// For any capacity and goal, the bounds hold the capacity between them.
    #[test]
    fn bounds_hold_the_capacity(
        capacity in 20e3..14e6_f64,
        loss in prop_oneof![Just(0.0), 1e-4..0.05],
        exceed in 0.0..0.9,
        width in 0.001..0.1,
        trials in 1..30_u32,
        length in 1.0..60.0,
        coarse in 0..4_u32,
    ) {
        let goal = Goal {
            final_trial: Seconds::new(length),
            duration_sum: Seconds::new(length * f64::from(trials)),
            loss_ratio: loss,
            exceed_ratio: exceed,
            initial_trial: Seconds::new(1.0),
            width,
        };
        let settings = Settings { coarse, ..Settings::between(LOWEST, LINE) };
        let (search, _) = find(&mut Device::new(capacity), &[goal], settings);
        let result = search.results()[0];
        let edge = capacity / (1.0 - loss);
        prop_assert!(matches!(result.ended, Ended::Found | Ended::AtHighest), "{:?}", result);
        prop_assert!(result.lower.unwrap().get() <= edge + 2.0);
        if let Some(upper) = result.upper {
            prop_assert!(upper.get() >= edge - 2.0);
            prop_assert!(1.0 - result.lower.unwrap() / upper <= width + 1e-9);
        }
        // The bounds agree with the RFC's classification of their trials.
        for known in search.loads() {
            if Some(known.load) == result.lower {
                prop_assert_eq!(known.classify(&goal), Bound::Lower);
            }
            if Some(known.load) == result.upper {
                prop_assert_eq!(known.classify(&goal), Bound::Upper);
            }
        }
    }

    /// Trials that come out at random do not keep a search from ending.
    #[test]
    fn chaos_ends(seed: u64, exceed in 0.0..0.9) {
        let mut random = fastrand::Rng::with_seed(seed);
        let goals = vec![Goal { exceed_ratio: exceed, ..Goal::ndr() }, Goal::pdr()];
        let mut search = Search::new(goals, Settings::between(LOWEST, LINE)).unwrap();
        let mut trials = 0;
        while let Some(input) = search.next_trial() {
            let intended = input.frames();
            let received = if random.bool() { intended } else { random.u64(..=intended) };
            let accepted = if random.u8(..20) == 0 { intended / 2 } else { intended };
            search.record(Frames { intended, offered: intended, accepted, received }, None);
            trials += 1;
            prop_assert!(trials < 20_000, "{:?}", search.results());
        }
    }
}

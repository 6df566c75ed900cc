//! The benchmarks on simulated devices of known capacity and buffer, noise and
//! generator.

use std::time::Duration;

use linerate_lab::{
    procedures::{
        BurstsOptions, LossAt, RecoveryOptions, Report, TrialOptions, TrialStatus, back_to_back,
        latency, loss, platform, recovery, throughput,
    },
    search::{Ended, Frames, Goal, Settings, Unsent},
    trials::{Order, Outcome, RunError, Runner},
};
use linerate_model::units::{PacketsPerSecond, Seconds};

const OPTIONS: TrialOptions =
    TrialOptions { residual: Duration::ZERO, unsent: Unsent::Void(0.0), retries: 3 };

fn rate(rate: f64) -> PacketsPerSecond {
    PacketsPerSecond::new(rate)
}

fn time(seconds: f64) -> Seconds {
    Seconds::new(seconds)
}

/// A device with a queue in front of a server, and the generator before it.
struct Simulated {
    /// Frames per second that it forwards.
    capacity: f64,
    /// Frames that wait at most.
    queue: f64,
    /// The most the generator sends.
    generator: f64,
    /// The share of trials in which the generator misses some frames.
    hiccups: f64,
    /// The share of trials in which something else takes frames, and of these
    /// the share taken.
    disturbed: (f64, f64),
    /// Whether the generator stands still in each fifth window.
    stalls: bool,
    random: fastrand::Rng,
}

impl Simulated {
    fn new(capacity: f64) -> Self {
        Simulated {
            capacity,
            queue: 0.0,
            generator: 20e6,
            hiccups: 0.0,
            disturbed: (0.0, 0.0),
            stalls: false,
            random: fastrand::Rng::with_seed(7),
        }
    }
}

impl Runner for Simulated {
    fn run(&mut self, order: &Order) -> Result<Outcome, RunError> {
        let (mut frames, mut waiting, mut sending) = (Frames::default(), 0.0_f64, 0.0);
        let mut lost = 0.0;
        let (mut begun, mut windows, mut last_loss) = (Vec::new(), Vec::new(), None);
        for phase in &order.phases {
            begun.push(time(sending));
            let wanted = phase.load.map_or(self.generator, PacketsPerSecond::get);
            let sent = wanted.min(self.generator);
            let seconds = phase.frames as f64 / wanted;
            let mut accepted = (sent * seconds).round() as u64;
            if self.random.f64() < self.hiccups {
                accepted -= accepted.min(100);
            }
            frames.intended += phase.frames;
            frames.accepted += accepted;
            let count = (seconds / 0.01) as usize;
            windows
                .extend((0..count).map(|at| if self.stalls && at % 5 == 0 { 0.0 } else { sent }));
            // The queue fills or empties at the difference of the rates.
            let growth = sent - self.capacity;
            let before = waiting;
            waiting = (waiting + growth * seconds).max(0.0);
            if waiting > self.queue {
                lost += waiting - self.queue;
                waiting = self.queue;
                last_loss = Some(time(sending + seconds));
            } else if growth < 0.0 && before > 0.0 && last_loss.is_some() {
                // Frames that came while the queue was still full were lost.
                last_loss = Some(time(sending + 1.0 / sent));
            }
            sending += seconds;
        }
        frames.offered = frames.accepted;
        let (chance, share) = self.disturbed;
        if self.random.f64() < chance {
            lost += (frames.accepted as f64 * share).max(1.0);
        }
        frames.received = frames.accepted - (lost.round() as u64).min(frames.accepted);
        let sending = time(sending);
        Ok(Outcome { frames, sending, begun, windows, last_loss, ..Outcome::default() })
    }
}

/// A quick form of the no-drop rate with the structure of the real one.
fn goal() -> Goal {
    Goal { width: 0.01, ..Goal::ndr() }
}

fn search(
    device: &mut Simulated,
    goals: Vec<Goal>,
) -> (Vec<Report>, linerate_lab::procedures::Throughput) {
    let settings = Settings::between(rate(1e3), rate(14.88e6));
    let mut reports = Vec::new();
    let mut observe = |report: &Report| reports.push(report.clone());
    let found = throughput(device, goals, settings, &OPTIONS, &mut observe).unwrap();
    (reports, found)
}

#[test]
fn known_capacities_are_found_within_the_width_despite_noise() {
    for capacity in [30e3, 1.2e6, 5.5e6, 12e6] {
        for disturbed in [(0.0, 0.0), (0.2, 1e-3), (0.15, 0.02)] {
            let mut device = Simulated { disturbed, ..Simulated::new(capacity) };
            let goals = vec![goal(), Goal { loss_ratio: 0.005, ..goal() }];
            let (_, found) = search(&mut device, goals);
            assert!(!found.generator_limited);
            for result in found.goals {
                assert_eq!(result.ended, Ended::Found, "{capacity} {disturbed:?}: {result:?}");
                let edge = capacity / (1.0 - result.goal.loss_ratio);
                let (lower, upper) = (result.lower.unwrap().get(), result.upper.unwrap().get());
                // Loads are measured often enough that a disturbance of a
                // fifth of the trials moves no bound by more than a width.
                assert!(lower <= edge * 1.01 && upper >= edge * 0.99, "{capacity}: {result:?}");
                assert!(1.0 - lower / upper <= 0.01 + 1e-9, "{result:?}");
            }
        }
    }
}

/// Not one trial that the generator did not send in full is taken for the device's: all are void,
/// and loads beyond its rate are said to be the limit.
#[test]
fn generator_limited_trials_are_flagged_and_no_result() {
    let mut device = Simulated { generator: 3e6, ..Simulated::new(9e6) };
    let (reports, found) = search(&mut device, vec![goal()]);
    assert!(found.generator_limited);
    assert_eq!(found.goals[0].ended, Ended::GeneratorLimit);
    assert_eq!(found.goals[0].upper, None);
    let lower = found.goals[0].lower.unwrap().get();
    assert!((2.9e6..3.000001e6).contains(&lower), "{lower}");
    for report in &reports {
        let complete = report.frames.accepted == report.frames.intended;
        assert_eq!(report.taken == TrialStatus::Counted, complete, "{report:?}");
    }
    // Three repetitions, then the limit.
    let taken: Vec<TrialStatus> = reports[..4].iter().map(|report| report.taken).collect();
    assert_eq!(
        taken,
        [TrialStatus::Void, TrialStatus::Void, TrialStatus::Void, TrialStatus::GeneratorLimit]
    );
}

#[test]
fn hiccups_of_the_generator_do_not_change_the_result() {
    let mut device = Simulated { hiccups: 0.2, ..Simulated::new(4e6) };
    let (reports, found) = search(&mut device, vec![goal()]);
    assert!(reports.iter().any(|report| report.taken == TrialStatus::Void));
    let result = found.goals[0];
    assert_eq!(result.ended, Ended::Found, "{result:?}");
    assert!(result.lower.unwrap().get() <= 4e6 && result.upper.unwrap().get() >= 4e6 * 0.99);
}

#[test]
fn the_platform_reports_its_own_loss() {
    let mut ignore = |_: &Report| ();
    let quiet = platform(&mut Simulated::new(50e6), 0.1, None, None, &OPTIONS, &mut ignore)
        .unwrap()
        .unwrap();
    assert!(quiet.steady && quiet.limits.own_loss == 0.0);
    assert!((quiet.highest.get() / 20e6 - 1.0).abs() < 1e-6, "{quiet:?}");
    assert!(quiet.resolves(&Goal::ndr()));

    // The losses of a slow device are not the platform's.
    let most = Some(rate(1e6));
    let slow =
        platform(&mut Simulated::new(50e3), 0.01, most, None, &OPTIONS, &mut ignore).unwrap();
    let slow = slow.unwrap();
    assert_eq!((slow.slow, slow.limits.own_loss), (rate(1e4), 0.0));

    let mut noisy = Simulated { disturbed: (0.9, 0.004), ..Simulated::new(50e6) };
    let noisy = platform(&mut noisy, 0.1, None, None, &OPTIONS, &mut ignore).unwrap().unwrap();
    assert!((noisy.limits.own_loss - 0.004).abs() < 1e-4, "{noisy:?}");
    assert!(!noisy.resolves(&Goal::ndr()) && !noisy.resolves(&Goal::pdr()));
    assert!(noisy.resolves(&Goal { loss_ratio: 0.02, ..Goal::pdr() }));

    // A busy machine keeps the generator from its core in each fifth window.
    let mut busy = Simulated { stalls: true, ..Simulated::new(50e6) };
    let busy = platform(&mut busy, 0.1, None, None, &OPTIONS, &mut ignore).unwrap().unwrap();
    assert_eq!((busy.limits.unloaded.low, busy.steady), (0.0, false));
    assert!(busy.highest.get() > 1e6 && busy.limits.own_loss == 0.0, "{busy:?}");

    // Two trials at full speed, then as many as settle that no loss cannot be told.
    let mut noisy = Simulated { disturbed: (1.0, 0.004), ..Simulated::new(50e6) };
    let mut trials = 0;
    let mut count = |_: &Report| trials += 1;
    let noisy = platform(&mut noisy, 0.1, None, Some(0.0), &OPTIONS, &mut count).unwrap().unwrap();
    assert!(!noisy.resolves(&Goal::ndr()), "{noisy:?}");
    assert_eq!(trials, 2 + 6);

    assert_eq!(
        platform(&mut Simulated::new(0.0), 0.1, None, None, &OPTIONS, &mut ignore).unwrap(),
        None
    );
}

fn loss_points(device: &mut dyn Runner) -> Vec<LossAt> {
    let found = loss(device, rate(10e6), 0.1, time(1.0), &OPTIONS, &mut |_| ()).unwrap();
    assert!(!found.interrupted);
    found.points
}

/// A runner that breaks off after so many trials.
struct AbortingRunner(Simulated, u32);

impl Runner for AbortingRunner {
    fn run(&mut self, order: &Order) -> Result<Outcome, RunError> {
        self.1 = self.1.checked_sub(1).ok_or(RunError::Interrupted)?;
        self.0.run(order)
    }
}

#[test]
fn an_interrupted_search_has_its_results_so_far() {
    let settings = Settings::between(rate(1e3), rate(14.88e6));
    let mut bounds = Vec::new();
    for trials in [1, 20] {
        let mut runner = AbortingRunner(Simulated::new(5e6), trials);
        let found = throughput(&mut runner, vec![goal()], settings, &OPTIONS, &mut |_| ()).unwrap();
        assert!(found.interrupted && found.goals[0].ended == Ended::Unfinished);
        let tried: usize = found.loads.len();
        assert!(tried > 0);
        bounds.push((found.goals[0].lower, found.goals[0].upper));
    }
    assert_ne!(bounds[0], bounds[1], "more is known after more trials");
    let mut runner = AbortingRunner(Simulated::new(5e6), 3);
    let found = loss(&mut runner, rate(10e6), 0.1, time(1.0), &OPTIONS, &mut |_| ()).unwrap();
    assert_eq!((found.points.len(), found.interrupted), (3, true));
    let mut runner = AbortingRunner(Simulated::new(5e6), 2);
    let shares = [0.1, 0.5, 0.9];
    let found = latency(&mut runner, rate(5e6), &shares, time(1.0), &OPTIONS, &mut |_| ()).unwrap();
    assert_eq!((found.points.len(), found.interrupted), (2, true));
    let options = RecoveryOptions {
        throughput: rate(4e6),
        line_rate: rate(10e6),
        overload: time(2.0),
        after: time(1.0),
        repetitions: 3,
    };
    let mut runner = AbortingRunner(Simulated { queue: 1000.0, ..Simulated::new(4e6) }, 1);
    let found = recovery(&mut runner, &options, &OPTIONS, &mut |_| ()).unwrap();
    assert_eq!((found.points.len(), found.interrupted), (1, true));
    let options = BurstsOptions {
        line_rate: rate(10e6),
        throughput: rate(4e6),
        longest: time(0.1),
        resolution: 1,
        repetitions: 1000,
    };
    let mut runner = AbortingRunner(Simulated { queue: 100.0, ..Simulated::new(4e6) }, 100);
    let found = back_to_back(&mut runner, &options, &OPTIONS, &mut |_| ()).unwrap();
    assert!(found.interrupted && found.result.is_some(), "{found:?}");
    assert!((1..100).contains(&found.bursts.len()), "{found:?}");
    // Nothing was found before the first trial has ended.
    let mut runner = AbortingRunner(Simulated::new(5e6), 0);
    let none = loss(&mut runner, rate(10e6), 0.1, time(1.0), &OPTIONS, &mut |_| ());
    assert!(matches!(none, Err(RunError::Interrupted)));
}

#[test]
fn loss_is_measured_from_the_top() {
    let mut device = Simulated::new(6.5e6);
    let points = loss_points(&mut device);
    let found: Vec<f64> = points.iter().map(|point| (point.loss_ratio * 1e3).round()).collect();
    assert_eq!(found, [350.0, 278.0, 188.0, 71.0, 0.0, 0.0]);

    // The generator does 5 Mpps: that nothing is lost of those says nothing of
    // 10 Mpps, and the curve goes on.
    let mut device = Simulated { generator: 5e6, ..Simulated::new(6.5e6) };
    let points = loss_points(&mut device);
    let limited = points.iter().filter(|point| point.generator_limited).count();
    assert_eq!((limited, points.len()), (5, 7), "{points:?}");
    assert!(points[0].sent.get() <= 5e6 + 1.0);
}

#[test]
fn the_buffer_is_found_by_bursts() {
    for queue in [100.0, 4096.0] {
        let mut device = Simulated { queue, ..Simulated::new(4e6) };
        let options = BurstsOptions {
            line_rate: rate(10e6),
            throughput: rate(4e6),
            longest: time(2.0),
            resolution: 1,
            repetitions: 5,
        };
        let found = back_to_back(&mut device, &options, &OPTIONS, &mut |_| ()).unwrap();
        assert_eq!((found.unbounded, found.generator_limited), (0, 0));
        let frames = (found.result.unwrap().corrected * options.line_rate).get();
        assert!((frames - queue).abs() <= 2.0, "{frames} of {queue}");
    }
    // A generator that cannot send at line rate is named.
    let mut device = Simulated { queue: 100.0, generator: 5e6, ..Simulated::new(4e6) };
    let options = BurstsOptions {
        line_rate: rate(10e6),
        throughput: rate(4e6),
        longest: time(0.1),
        resolution: 1,
        repetitions: 1,
    };
    let found = back_to_back(&mut device, &options, &OPTIONS, &mut |_| ()).unwrap();
    assert_eq!((found.generator_limited, found.bursts.len(), found.result), (1, 0, None));
    // One that can for half of the bursts gives the result of those.
    let mut device = Simulated { queue: 100.0, hiccups: 0.5, ..Simulated::new(4e6) };
    let options = BurstsOptions { repetitions: 20, ..options };
    let found = back_to_back(&mut device, &options, &OPTIONS, &mut |_| ()).unwrap();
    assert!(found.generator_limited > 0 && !found.bursts.is_empty(), "{found:?}");
    assert_eq!(found.generator_limited as usize + found.bursts.len(), 20);
    assert!(found.result.unwrap().deviation.get() < 1.0, "{found:?}");
}

#[test]
fn recovery_counts_from_the_step() {
    let options = RecoveryOptions {
        throughput: rate(4e6),
        line_rate: rate(10e6),
        overload: time(2.0),
        after: time(1.0),
        repetitions: 3,
    };
    let mut device = Simulated { queue: 1000.0, ..Simulated::new(4e6) };
    let found = recovery(&mut device, &options, &OPTIONS, &mut |_| ()).unwrap();
    assert_eq!((found.points.len(), found.interrupted), (3, false));
    for one in found.points {
        assert!(one.overloaded && !one.generator_limited);
        assert!((one.overload.get() - 4.4e6).abs() < 1.0);
        assert!((0.0..1e-5).contains(&one.time.unwrap().get()), "{one:?}");
    }
    // No overload, no recovery.
    let mut device = Simulated::new(8e6);
    let found = recovery(&mut device, &options, &OPTIONS, &mut |_| ()).unwrap();
    assert!(found.points.iter().all(|one| !one.overloaded && one.time == Some(Seconds::ZERO)));
    // A load that was not sent is no result.
    let mut device = Simulated { generator: 3e6, ..Simulated::new(4e6) };
    let found = recovery(&mut device, &options, &OPTIONS, &mut |_| ()).unwrap();
    assert!(found.points.iter().all(|one| one.generator_limited && one.time.is_none()));
}

#[test]
fn latency_is_asked_for_at_shares_of_the_throughput() {
    let mut device = Simulated { generator: 3e6, ..Simulated::new(9e6) };
    let found = latency(&mut device, rate(5e6), &[0.1, 0.5, 0.9], time(1.0), &OPTIONS, &mut |_| ())
        .unwrap();
    let loads: Vec<f64> = found.points.iter().map(|point| point.load.get().round()).collect();
    assert_eq!(loads, [0.5e6, 2.5e6, 4.5e6]);
    let limited: Vec<bool> = found.points.iter().map(|point| point.generator_limited).collect();
    assert_eq!(limited, [false, false, true]);
}

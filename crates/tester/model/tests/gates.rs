//! The gates of the model on a synthetic machine with noise: fitted on one grid, it predicts a
//! disjoint one, better than the plain model, and its intervals hold their promise.

use linerate_model::{
    Access, Calibration, Cost, Costs, LatencyCurve, Limit, Limits, Memory, Scaling, Scenario,
    fit::{
        Bootstrap, Comparison, FitError, Loss, Observation, PlainModel, Quality, Term,
        ThroughputModel, bootstrap, compare, effective_clock, fit,
    },
    units::{
        BitsPerSecond, Bytes, CyclesPerPacket, Hertz, Packets, PacketsPerSecond, Seconds,
        SecondsPerByte, SecondsPerPacket,
    },
};

/// The latency of random accesses in a machine of three caches: each holds its
/// share of the working set.
fn hierarchy(size: f64) -> f64 {
    let levels = [(32e3, 1.5e-9), (1e6, 4.5e-9), (24e6, 18e-9), (f64::INFINITY, 85e-9)];
    let mut held = 0.0;
    let mut time = 0.0;
    for (capacity, latency) in levels {
        let share = (capacity / size).min(1.0);
        time += (share - held) * latency;
        held = share;
    }
    time
}

fn latency(power: i32) -> (Bytes, Seconds) {
    let size = 2f64.powi(power);
    (Bytes::new(size), Seconds::new(hierarchy(size)))
}

/// The machine. The fit gets none of these numbers, apart from those that instruments measure
/// beforehand: memory at every other power of two.
fn truth() -> Costs {
    Costs {
        receive: Cost::new(45.0, 180.0),
        transmit: Cost::new(33.0, 140.0),
        stall: SecondsPerPacket::new(6e-9),
        memory: Memory {
            latency: LatencyCurve::new((8..34).map(latency)),
            serial: 0.2,
            scale: 1.0,
        },
        per_byte: SecondsPerByte::new(0.08e-9),
        scaling: Scaling { contention: 0.05, coherence: 0.008 },
        ..Costs::default()
    }
}

fn measured_memory() -> Memory {
    let curve = LatencyCurve::new((14..30).step_by(2).map(latency));
    Memory { latency: curve, ..Memory::default() }
}

fn base() -> Scenario {
    Scenario {
        clock: Hertz::new(3.0e9),
        limits: Limits {
            nic: Some(PacketsPerSecond::new(36e6)),
            link: Some(BitsPerSecond::new(40e9)),
            ..Limits::default()
        },
        ..Scenario::default()
    }
}

struct Noise(fastrand::Rng);

impl Noise {
    /// Normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.f64()).cos()
    }

    fn measure(&mut self, scenario: Scenario, spread: f64) -> Observation<Scenario> {
        let rate = truth().predict(&scenario).throughput.get();
        Observation::new(scenario, rate * (spread * self.normal()).exp())
    }
}

/// Every combination of these, twice each.
fn grid(
    noise: &mut Noise,
    bursts: &[f64],
    works: &[f64],
    accesses: &[(f64, f64)],
    frames: &[f64],
    workers: &[u32],
) -> Vec<Observation<Scenario>> {
    let mut points = Vec::new();
    for &burst in bursts {
        for &work in works {
            for &(count, size) in accesses {
                for &frame in frames {
                    for &workers in workers {
                        let access = Access { count, working_set: Bytes::new(size), parallel: 2.0 };
                        let scenario = Scenario {
                            burst: Packets::new(burst),
                            work: CyclesPerPacket::new(work),
                            accesses: vec![access],
                            touched: Bytes::new(frame),
                            frame: Bytes::new(frame),
                            workers,
                            ..base()
                        };
                        points.push(noise.measure(scenario.clone(), 0.03));
                        points.push(noise.measure(scenario, 0.03));
                    }
                }
            }
        }
    }
    points
}

fn everything() -> ThroughputModel {
    ThroughputModel {
        base: Costs { memory: measured_memory(), ..Costs::default() },
        free: vec![
            Term::ReceivePerPacket,
            Term::ReceivePerBurst,
            Term::TransmitPerPacket,
            Term::TransmitPerBurst,
            Term::Stall,
            Term::PerByte,
            Term::Serial,
            Term::Contention,
            Term::Coherence,
        ],
    }
}

fn training(noise: &mut Noise) -> Vec<Observation<Scenario>> {
    let sizes = [(0.0, 4096.0), (2.0, 65536.0), (8.0, 8e6)];
    let mut points =
        grid(noise, &[1.0, 4.0, 16.0, 64.0], &[0.0, 200.0, 800.0], &sizes, &[64.0, 1024.0], &[1]);
    points.extend(grid(noise, &[16.0, 64.0], &[400.0], &[(0.0, 1.0)], &[64.0], &[1, 2, 4, 6]));
    // One direction at a time, and another clock.
    for burst in [1.0, 4.0, 16.0, 64.0] {
        let one = |receive, clock| Scenario {
            burst: Packets::new(burst),
            work: CyclesPerPacket::new(100.0),
            receive,
            transmit: !receive,
            clock: Hertz::new(clock),
            ..base()
        };
        for clock in [1.2e9, 3.0e9] {
            points.push(noise.measure(one(true, clock), 0.03));
            points.push(noise.measure(one(false, clock), 0.03));
        }
    }
    points
}

fn gate(held_out: &[Observation<Scenario>], seed: u64) -> Comparison {
    let mut noise = Noise(fastrand::Rng::with_seed(seed));
    let train = training(&mut noise);
    let result = compare(&everything(), &PlainModel, &train, held_out, Loss::Huber).unwrap();
    assert!(result.is_better(), "{:?} {:?}", result.held_out, result.other_held_out);
    result
}

#[test]
fn bursts_and_load() {
    let mut noise = Noise(fastrand::Rng::with_seed(100));
    let works = [100.0, 500.0, 1200.0];
    let points = grid(
        &mut noise,
        &[2.0, 8.0, 32.0, 128.0],
        &works,
        &[(0.0, 1.0)],
        &[128.0, 512.0, 1518.0],
        &[1],
    );
    let quality = gate(&points, 1).held_out;
    assert!(quality.mape <= 0.10 && quality.r_squared > 0.95, "{quality:?}");
}

#[test]
fn memory_and_cores() {
    let mut noise = Noise(fastrand::Rng::with_seed(200));
    let sizes = [(1.0, 16384.0), (4.0, 500e3), (1.0, 3e6), (6.0, 40e6), (2.0, 200e6)];
    let memory = grid(&mut noise, &[8.0, 32.0], &[100.0, 500.0], &sizes, &[64.0, 512.0], &[1]);
    let quality = gate(&memory, 2).held_out;
    assert!(quality.mape <= 0.15, "{quality:?}");

    let cores = grid(&mut noise, &[8.0, 32.0], &[600.0], &sizes, &[64.0], &[2, 3, 5, 8]);
    let quality = gate(&cores, 3).held_out;
    assert!(quality.mape <= 0.15, "{quality:?}");
}

/// A few points that went wrong altogether do not move the robust fit.
#[test]
fn outliers_do_not_matter() {
    let mut noise = Noise(fastrand::Rng::with_seed(7));
    let mut train = training(&mut noise);
    let clean = train.clone();
    for spoiled in train.iter_mut().step_by(20) {
        spoiled.value *= 0.4;
    }
    let error = |train: &[_], loss| {
        let fitted = fit(&everything(), train, loss).unwrap();
        Quality::evaluate(&everything(), &fitted, &clean).mape
    };
    let (robust, squares) = (error(&train, Loss::Huber), error(&train, Loss::Square));
    assert!(robust < 0.05, "{robust}");
    assert!(robust < squares, "{robust} {squares}");
}

fn small() -> ThroughputModel {
    ThroughputModel {
        base: Costs { scaling: truth().scaling, ..Costs::default() },
        free: vec![Term::ReceivePerPacket, Term::ReceivePerBurst, Term::Stall],
    }
}

fn receiving(burst: f64, work: f64, clock: f64) -> Scenario {
    Scenario {
        burst: Packets::new(burst),
        work: CyclesPerPacket::new(work),
        clock: Hertz::new(clock),
        transmit: false,
        limits: Limits::default(),
        ..Scenario::default()
    }
}

fn small_grid(noise: &mut Noise, spread: f64) -> Vec<Observation<Scenario>> {
    let mut points = Vec::new();
    for clock in [1e9, 2e9, 3e9] {
        for burst in [1.0, 2.0, 8.0, 32.0, 128.0] {
            for work in [0.0, 300.0] {
                points.push(noise.measure(receiving(burst, work, clock), spread));
            }
        }
    }
    points
}

/// Nine of ten 90 % intervals of many repetitions hold the truth.
#[test]
fn intervals_cover_at_their_nominal_rate() {
    let model = small();
    let mut noise = Noise(fastrand::Rng::with_seed(42));
    let wanted = [("receive per packet", 45.0), ("receive per burst", 180.0), ("stall", 6e-9)];
    let held_out = receiving(16.0, 150.0, 2.5e9);
    let mean = truth().predict(&held_out).throughput.get();
    let repetitions = 250;
    let mut covered = [0; 5];
    for repetition in 0..repetitions {
        let points = small_grid(&mut noise, 0.03);
        let settings = Bootstrap { samples: 120, seed: repetition };
        let sampled = bootstrap(&model, &points, Loss::Square, settings).unwrap();
        for (count, (name, truth)) in covered.iter_mut().zip(wanted) {
            *count += i32::from(sampled.parameter(name, 0.9).unwrap().contains(&truth));
        }
        covered[3] += i32::from(sampled.mean(&model, &held_out, 0.9).contains(&mean));
        let measured = noise.measure(held_out.clone(), 0.03).value;
        covered[4] += i32::from(sampled.measurement(&model, &held_out, 0.9).contains(&measured));
    }
    for count in covered {
        let share = f64::from(count) / repetitions as f64;
        // Three standard deviations of a binomial count are 0.057.
        assert!((0.83..=0.96).contains(&share), "{covered:?}");
    }
}

/// Intervals of one calibration of everything hold for the points of a grid it has not seen.
/// Working sets are ones whose latency the measured curve hits: known terms have no interval.
#[test]
fn intervals_cover_held_out_points() {
    let mut noise = Noise(fastrand::Rng::with_seed(77));
    let train = training(&mut noise);
    let model = everything();
    let settings = Bootstrap { samples: 50, seed: 1 };
    let sampled = bootstrap(&model, &train, Loss::Huber, settings).unwrap();
    let sizes = [(0.0, 1.0), (3.0, 500e3), (4.0, 128e6)];
    let points =
        grid(&mut noise, &[2.0, 8.0, 32.0], &[100.0, 500.0], &sizes, &[64.0, 512.0], &[1, 3]);
    let covered = points
        .iter()
        .filter(|point| sampled.measurement(&model, &point.input, 0.9).contains(&point.value))
        .count();
    let share = covered as f64 / points.len() as f64;
    // Three standard deviations of a binomial count are 0.075.
    assert!((0.82..=0.98).contains(&share), "{share}");
}

#[test]
fn the_seed_decides_the_intervals() {
    let points = small_grid(&mut Noise(fastrand::Rng::with_seed(1)), 0.03);
    let with = |seed| {
        let settings = Bootstrap { samples: 20, seed };
        bootstrap(&small(), &points, Loss::Huber, settings).unwrap()
    };
    assert_eq!(with(3), with(3));
    assert_ne!(with(3).samples, with(4).samples);
}

#[test]
fn an_undetermined_parameter_is_named() {
    let one_clock: Vec<_> = small_grid(&mut Noise(fastrand::Rng::with_seed(1)), 0.03)
        .into_iter()
        .filter(|point| point.input.clock == Hertz::new(1e9))
        .collect();
    let error = fit(&small(), &one_clock, Loss::Huber).unwrap_err();
    assert_eq!(error, FitError::Undetermined("stall".to_string()));
    let error = fit(&small(), &one_clock[..2], Loss::Huber).unwrap_err();
    assert_eq!(error, FitError::TooFew { observations: 2, parameters: 3 });
    let mut broken = one_clock;
    broken[4].value = f64::NAN;
    assert_eq!(fit(&small(), &broken, Loss::Huber).unwrap_err(), FitError::Range(4));
}

/// Where the card is the limit in all points, costs are not determined.
#[test]
fn points_on_a_limit_determine_nothing() {
    let limited = |burst| Scenario {
        limits: Limits::nic(PacketsPerSecond::new(1e6)),
        ..receiving(burst, 0.0, 3e9)
    };
    let points: Vec<_> =
        (5..9).map(|power| Observation::new(limited(2f64.powi(power)), 1e6)).collect();
    let error = fit(&PlainModel, &points, Loss::Square).unwrap_err();
    assert_eq!(error, FitError::Undetermined("io".to_string()));
}

#[test]
fn the_effective_clock_is_the_slope() {
    let points: Vec<_> = [200.0, 400.0, 600.0, 800.0, 1000.0]
        .into_iter()
        .map(|work| {
            let rate = 2.9e9 / (work + 140.0);
            (CyclesPerPacket::new(work), PacketsPerSecond::new(rate))
        })
        .collect();
    let (clock, plain, line) = effective_clock(&points).unwrap();
    assert!((clock.get() / 2.9e9 - 1.0).abs() < 1e-6);
    assert!((plain.io.get() - 140.0).abs() < 1e-3);
    assert!(line.r_squared > 0.999_999);
}

/// From measurements to answers, with the interval and the limit.
#[test]
fn a_calibration_answers() {
    let mut noise = Noise(fastrand::Rng::with_seed(5));
    let model = small();
    let points = small_grid(&mut noise, 0.02);
    let sampled = bootstrap(&model, &points, Loss::Huber, Bootstrap::default()).unwrap();
    let calibration = Calibration::from_fit(&model, &sampled);
    let scenario = receiving(64.0, 120.0, 3e9);

    let (prediction, interval) = calibration.predict(&scenario, 0.95);
    assert_eq!(prediction.limit, Limit::Cycles);
    assert!(interval.contains(&truth().predict(&scenario).throughput), "{interval}");
    assert!(interval.contains(&prediction.throughput));

    let rate = PacketsPerSecond::new(14.88e6);
    let clock = calibration.clock_for(&scenario, rate, 0.95).unwrap();
    let needed = truth().overhead(&scenario) + scenario.work;
    let exact = needed / (rate.period() - truth().stall);
    assert!(clock.needed.contains(&exact), "{} not {exact}", clock.needed);
    assert_eq!(clock.limit, Limit::Cycles);

    let budget = calibration.budget_for(&scenario, rate, 0.95).unwrap();
    let exact = (rate.period() - truth().stall) * scenario.clock - truth().overhead(&scenario);
    assert!(budget.needed.contains(&exact), "{} not {exact}", budget.needed);

    let dear = Scenario { work: CyclesPerPacket::new(600.0), ..scenario.clone() };
    let workers = calibration.workers_for(&dear, rate, 0.95).unwrap();
    assert_eq!(workers.needed.value, 5.0);

    // Six nanoseconds do not shrink with the clock.
    let beyond = PacketsPerSecond::new(200e6);
    let error = calibration.clock_for(&scenario, beyond, 0.95).unwrap_err();
    assert_eq!(error.limit, Limit::Memory);
    assert!((error.at_most.get() / 166.7e6 - 1.0).abs() < 0.15, "{error}");
    let error = calibration.workers_for(&dear, beyond, 0.95).unwrap_err();
    assert!(error.at_most < beyond);
    let narrow = Scenario { limits: Limits::link(BitsPerSecond::new(1e9)), ..scenario };
    let error = calibration.clock_for(&narrow, rate, 0.95).unwrap_err();
    assert_eq!(error.to_string(), "out of reach: the link allows 1.488 Mpps");

    // It is kept in a file.
    let text = serde_json::to_string(&calibration).unwrap();
    let kept: Calibration = serde_json::from_str(&text).unwrap();
    assert_eq!(kept.samples.len(), calibration.samples.len());
    let (again, _) = kept.predict(&dear, 0.95);
    let (before, _) = calibration.predict(&dear, 0.95);
    assert!((again.throughput / before.throughput - 1.0).abs() < 1e-12);
}

//! Measuring for minutes: honest traffic alone, while a decoy is attacked, and under attack.
//!
//! The decoy is another process of the same command with hosts of its own. Its attack takes as much
//! of the machine (cores, caches, the kernel's locks) as an attack on the measured process: the
//! difference between the two is the effect of the listener's clients on the traffic.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::{
    ClientFigures, Listener, Outcome, TrafficFigures, Trial,
    figures::Ending,
    trial::{Measured, Placement},
};

/// Between two looks at the clock, and between two lines of progress.
const LOOK: Duration = Duration::from_millis(20);
const PROGRESS: Duration = Duration::from_secs(10);
/// The longest that a program may take to end.
const END: Duration = Duration::from_secs(1);
/// A program is ended at a random moment within this time from the start of the attacks.
const MOMENT: Duration = Duration::from_secs(3);

/// The plan of a measurement.
#[derive(Debug)]
pub struct Plan<'a> {
    /// All of it but the endings: a sixth alone, a quarter while the decoy is attacked, the rest under attack.
    pub time: Duration,
    /// Number of programs that are ended at random moments of an attack.
    pub endings: u32,
    /// Of chance.
    pub seed: u64,
    /// Ends the measurement early, with the results so far.
    pub stop: &'a AtomicBool,
}

/// Honest traffic and honest clients during one part of a measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Phase {
    /// Its length, in seconds.
    pub seconds: f64,
    /// Honest traffic.
    pub traffic: TrafficFigures,
    /// Honest clients.
    pub clients: Vec<ClientFigures>,
}

/// The measurement of a listener.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Soaked {
    /// Its name.
    pub listener: String,
    /// Without anything beside it.
    pub alone: Phase,
    /// While the same attacks go to the decoy.
    pub decoy: Phase,
    /// Under attack, and how the program ended.
    pub attacked: Phase,
    /// The verdict on the attacked phase.
    pub outcome: Outcome,
    /// Ends of the programs that were ended at random moments.
    pub endings: Vec<Ending>,
    /// Its failures.
    pub faults: Vec<String>,
    /// Whether it was ended early.
    pub interrupted: bool,
}

impl Soaked {
    /// The 99th percentile under attack, divided by that while the decoy is attacked: of traffic, else of the first
    /// honest client.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        Soaked::p99(&self.attacked) / Soaked::p99(&self.decoy)
    }

    /// The 99th percentile of a phase in microseconds: of traffic, else of the first honest client.
    #[must_use]
    pub fn p99(phase: &Phase) -> f64 {
        phase.judge().p99
    }
}

impl Phase {
    /// The latency that counts: that of traffic, where there is any, else of the first honest client.
    #[must_use]
    pub fn judge(&self) -> super::Latency {
        match self.clients.first() {
            Some(client) if self.traffic.sent == 0 => client.latency,
            _ => self.traffic.latency,
        }
    }
}

/// Measures a listener; `progress` is told about each step.
///
/// # Panics
///
/// When the program does not start, or the machine cannot make the networks it needs.
pub fn soak(
    listener: &Listener,
    linerate: &Path,
    plan: &Plan<'_>,
    progress: &mut dyn FnMut(&str),
) -> Soaked {
    // The hostile client has a core of its own where there are two, so that its processor time is
    // not taken from the traffic's senders and receivers.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let core = (cores > 1).then_some(cores - 1);
    let [quarter, sixth] = [4, 6].map(|part| plan.time / part);
    let placement = Placement { time: plan.time - quarter - sixth, core, seed: plan.seed };
    let mut trial = Trial::start(listener, linerate);
    // It runs from the beginning to the end, so that all phases have the same processes.
    let mut decoy = Trial::start(listener, linerate);
    let mut wait = |what: &str, time: Duration| {
        let begun = Instant::now();
        let mut told = begun;
        progress(&format!("{}: {what}, {} s", listener.name, time.as_secs()));
        while begun.elapsed() < time && !plan.stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                let (past, all) = (begun.elapsed().as_secs(), time.as_secs());
                progress(&format!("{}: {what}, {past} of {all} s", listener.name));
            }
        }
    };
    let phase = |measured: &Measured, begun: Instant| Phase {
        seconds: begun.elapsed().as_secs_f64(),
        traffic: measured.traffic,
        clients: measured.clients.clone(),
    };

    let begun = Instant::now();
    let alone = phase(&trial.measure(|| wait("alone", sixth)), begun);

    let assault = decoy.attack(&Placement { time: quarter, ..placement.clone() });
    let begun = Instant::now();
    let beside = phase(&trial.measure(|| wait("while the decoy is attacked", quarter)), begun);
    assault.stop();

    let before = trial.size();
    let assault = trial.attack(&placement);
    let begun = Instant::now();
    let measured = trial.measure(|| wait("under attack", placement.time));
    let attacked = phase(&measured, begun);
    let ending = trial.end();
    let (attacks, broken) = assault.stop();
    let before = before.unwrap_or_default();
    let outcome = Outcome {
        traffic: measured.traffic,
        clients: measured.clients,
        growth: measured.largest.since(before),
        bounds: trial.bounds(),
        attacks,
        broken,
        survived: measured.survived,
        ending,
        stderr: trial.stderr(),
    };
    decoy.end();
    drop((trial, decoy));
    let mut faults = outcome.faults();
    let mut endings = Vec::new();
    let mut rng = Rng::with_seed(plan.seed);
    for number in 1..=plan.endings {
        if plan.stop.load(Ordering::Relaxed) {
            break;
        }
        progress(&format!("{}: ending {number} of {}", listener.name, plan.endings));
        let mut trial = Trial::start(listener, linerate);
        let turns = Placement { time: Duration::ZERO, seed: rng.u64(..), ..placement.clone() };
        let assault = trial.attack(&turns);
        thread::sleep(MOMENT.mul_f64(rng.f64()));
        let ending = trial.end();
        let (_, broken) = assault.stop();
        faults.extend(broken.into_iter().chain(ending.faults()));
        endings.push(ending);
    }
    let late = |ending: &&Ending| ending.milliseconds > END.as_secs_f64() * 1e3;
    faults.extend(endings.iter().chain([&outcome.ending]).filter(late).map(|ending| {
        format!("it took {:.0} ms to end on SIGTERM, of {END:?}", ending.milliseconds)
    }));
    let interrupted = plan.stop.load(Ordering::Relaxed);
    let listener = listener.name.to_owned();
    Soaked { listener, alone, decoy: beside, attacked, outcome, endings, faults, interrupted }
}

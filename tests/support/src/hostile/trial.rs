//! A trial: the program is started, attacked while honest traffic passes, and ended.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    process::Signal,
    thread::{CpuSet, sched_setaffinity},
};

use super::{
    Attack, Case, ClientFigures, Growth, Honest, Listener, Outcome, Scene, TrafficFigures, Turn,
    figures::Ending, honest, traffic::Hosts,
};
use crate::{Namespace, Running, wait_until};

/// Time limit of a program's start.
const START: Duration = Duration::from_secs(60);
/// Shortest and longest turn of an attack.
const TURN: [Duration; 2] = [Duration::from_millis(150), Duration::from_secs(2)];
/// Interval between two measurements of the process's size.
const SAMPLE: Duration = Duration::from_millis(50);
/// Bytes of standard error that are kept.
const STDERR: usize = 4096;

/// Attacks a listener for this long, and returns the result. It takes longer if there are many attacks, as each
/// has a turn.
///
/// # Panics
///
/// When the program does not start, or the machine cannot make the networks it needs.
#[must_use]
#[track_caller]
pub fn run(listener: &Listener, linerate: &Path, time: Duration) -> Outcome {
    let mut trial = Trial::start(listener, linerate);
    let before = trial.size().expect("the program has just answered");
    let assault = trial.attack(&Placement { time, ..Placement::default() });
    let measured = trial.measure(|| assault.wait_round(time));
    let ending = trial.end();
    let (attacks, broken) = assault.stop();
    let Measured { traffic, clients, largest, survived } = measured;
    let (growth, bounds) = (largest.since(before), trial.bounds());
    let stderr = trial.stderr();
    Outcome { traffic, clients, growth, bounds, attacks, broken, survived, ending, stderr }
}

/// A program that is ready, honest traffic passing.
#[derive(Debug)]
pub struct Trial {
    // Ended before the scene goes.
    program: Running,
    case: Case,
    hosts: Hosts,
    scene: Scene,
}

/// Measurements of a period.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) traffic: TrafficFigures,
    pub(super) clients: Vec<ClientFigures>,
    /// Largest size of the process.
    pub(super) largest: Growth,
    pub(super) survived: bool,
}

impl Trial {
    /// Starts the program, and waits until traffic passes and each honest client was served.
    ///
    /// # Panics
    ///
    /// When one of these does not happen in time.
    #[must_use]
    #[track_caller]
    pub fn start(listener: &Listener, linerate: &Path) -> Trial {
        let scene = Scene::new(linerate);
        let mut case = (listener.prepare)(&scene);
        let streams = ["stdout", "stderr"].map(|name| scene.stream(name).expect("a file"));
        let [stdout, stderr] = streams.map(Stdio::from);
        case.command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        // Ctrl-C ends the trial, which ends the program.
        case.command.process_group(0);
        let command = std::mem::replace(&mut case.command, Command::new("true"));
        let mut program = Running::start(command);
        let hosts = Hosts::new(&scene, case.traffic);
        let passes = hosts.wait(START, || program.is_running());
        let complaint = || format!("{}: {}", listener.name, scene.written("stderr"));
        assert!(passes && program.is_running(), "no datagram passes through {}", complaint());
        for socket in &case.open {
            let everybody = fs::Permissions::from_mode(0o666);
            let opened =
                wait_until(|| fs::set_permissions(socket, everybody.clone()).is_ok(), START);
            assert!(opened, "no socket {}: {}", socket.display(), complaint());
        }
        for client in &mut case.honest {
            let mut reason = String::new();
            let served = || match inside(scene.middle(), || client.step()) {
                Ok(()) => true,
                Err(error) => {
                    reason = error;
                    !program.is_running()
                }
            };
            let served = wait_until(served, START) && program.is_running();
            assert!(served, "{} is not served: {reason}\n{}", client.name(), complaint());
        }
        Trial { program, case, hosts, scene }
    }

    /// Resources of the process now; `None` when it has ended.
    #[must_use]
    pub fn size(&mut self) -> Option<Growth> {
        self.program.is_running().then(|| Growth::of_process(self.program.id()))?
    }

    /// Starts the hostile client.
    pub(super) fn attack(&self, placement: &Placement) -> AttackRun {
        AttackRun::start(self.scene.middle(), &self.case.attacks, self.case.lanes, placement)
    }

    /// Measures honest traffic and honest clients while `wait` runs.
    pub(super) fn measure(&mut self, wait: impl FnOnce()) -> Measured {
        let over = AtomicBool::new(false);
        let goes_on = || !over.load(Ordering::Relaxed);
        let (process, middle) = (self.program.id(), self.scene.middle().clone());
        let (honest, hosts) = (&mut self.case.honest, &mut self.hosts);
        let (traffic, clients, largest) = thread::scope(|scope| {
            let clients: Vec<_> = honest
                .iter_mut()
                .map(|client| {
                    let middle = &middle;
                    scope.spawn(move || serve(middle, client.as_mut(), goes_on))
                })
                .collect();
            let sizes = scope.spawn(|| {
                let mut largest = Growth::default();
                while goes_on() {
                    largest = Growth::of_process(process).map_or(largest, |size| largest.max(size));
                    thread::sleep(SAMPLE);
                }
                largest
            });
            let traffic = hosts.measure(wait);
            over.store(true, Ordering::Relaxed);
            let clients =
                clients.into_iter().map(|client| client.join().expect("it says what fails"));
            (traffic, clients.collect(), sizes.join().expect("reading of /proc"))
        });
        Measured { traffic, clients, largest, survived: self.program.is_running() }
    }

    /// Ends the program by SIGTERM, by SIGKILL where that does not do, and returns how it ended.
    pub(super) fn end(&mut self) -> Ending {
        let begun = Instant::now();
        self.program.signal_unless_ended(Signal::TERM);
        let ended = wait_until(|| !self.program.is_running(), Ending::DEADLINE);
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        if !ended {
            self.program.signal_unless_ended(Signal::KILL);
        }
        let status = self.program.wait(START);
        Ending { code: status.code(), milliseconds }
    }

    /// The network of the trial.
    #[must_use]
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Bounds on the growth of the program.
    pub(super) fn bounds(&self) -> Growth {
        self.case.bounds
    }

    /// The end of the program's standard error.
    #[must_use]
    pub fn stderr(&self) -> String {
        let all = self.scene.written("stderr");
        let cut =
            (all.len().saturating_sub(STDERR)..all.len()).find(|at| all.is_char_boundary(*at));
        all[cut.unwrap_or(0)..].to_owned()
    }

    /// The standard output of the program.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.scene.written("stdout")
    }
}

/// Does this in a thread of the namespace.
fn inside<R: Send>(namespace: &Namespace, function: impl FnOnce() -> R + Send) -> R {
    namespace.enter(function)
}

fn serve(
    middle: &Namespace,
    client: &mut dyn Honest,
    goes_on: impl Fn() -> bool + Send,
) -> ClientFigures {
    inside(middle, || honest::serve(client, goes_on))
}

/// Placement of attacks: core, duration, and seed.
#[derive(Debug, Clone, Default)]
pub(super) struct Placement {
    /// Duration of all of them together.
    pub(super) time: Duration,
    /// The core they run on; the system chooses when there is none.
    pub(super) core: Option<usize>,
    /// Of chance.
    pub(super) seed: u64,
}

/// The hostile client at work.
#[derive(Debug)]
pub(super) struct AttackRun {
    stop: Arc<AtomicBool>,
    done: Arc<LaneCounts>,
    lanes: Vec<JoinHandle<()>>,
}

/// Counts of the lanes' actions.
#[derive(Debug, Default)]
struct LaneCounts {
    counts: Mutex<BTreeMap<String, u64>>,
    broken: Mutex<Vec<String>>,
    /// Turns that have ended in the first lane.
    turns: Mutex<usize>,
    /// Turns of a round.
    round: usize,
}

impl AttackRun {
    /// Starts lanes, each of which has all attacks in turn, and which begin at different ones.
    pub(super) fn start(
        namespace: &Namespace,
        attacks: &[Attack],
        all: usize,
        placement: &Placement,
    ) -> AttackRun {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = attacks.iter().map(|attack| (attack.name.to_owned(), 0)).collect();
        let done = LaneCounts {
            counts: Mutex::new(counts),
            round: attacks.len(),
            ..LaneCounts::default()
        };
        let done = Arc::new(done);
        let share = placement.time / u32::try_from(attacks.len().max(1)).expect("few attacks");
        let length = share.clamp(TURN[0], TURN[1]);
        let lanes = (0..all.min(attacks.len())).map(|lane| {
            let (namespace, attacks, placement) =
                (namespace.clone(), attacks.to_vec(), placement.clone());
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                let mut at = lane * attacks.len() / all;
                let mut seed = placement.seed << 32 | lane as u64;
                while !stop.load(Ordering::Relaxed) {
                    let attack = &attacks[at % attacks.len()];
                    take_turn(&namespace, attack, &placement, length, seed, &stop, &done);
                    if lane == 0 {
                        *done.turns.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                    }
                    (at, seed) = (at + 1, seed.wrapping_add(all as u64));
                }
            })
        });
        AttackRun { stop: Arc::clone(&stop), lanes: lanes.collect(), done }
    }

    /// Waits for this long, and until each attack has had a turn.
    pub(super) fn wait_round(&self, time: Duration) {
        let until = Instant::now() + time;
        let turns = || *self.done.turns.lock().unwrap_or_else(PoisonError::into_inner);
        while Instant::now() < until || turns() < self.done.round {
            thread::sleep(SAMPLE);
        }
    }

    /// Ends the attacks; returns the counts of their actions, and which of them broke.
    pub(super) fn stop(self) -> (BTreeMap<String, u64>, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        for lane in self.lanes {
            lane.join().expect("attacks that panic are caught");
        }
        let take = |broken: &Mutex<Vec<String>>| {
            std::mem::take(&mut *broken.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let counts = self.done.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (counts, take(&self.done.broken))
    }
}

/// Runs a turn of an attack in a thread of its own, as a thread cannot take its credentials back.
fn take_turn(
    namespace: &Namespace,
    attack: &Attack,
    placement: &Placement,
    length: Duration,
    seed: u64,
    stop: &AtomicBool,
    done: &LaneCounts,
) {
    let mut turn = Turn::new(Instant::now() + length, stop, seed);
    let attempt = || {
        inside(namespace, || {
            if let Some(core) = placement.core {
                let mut cores = CpuSet::new();
                cores.set(core);
                sched_setaffinity(None, &cores).expect("a core that there is");
            }
            attack.account.assume().expect("root becomes any user");
            (attack.run)(&mut turn);
        });
    };
    // The namespace was entered in a thread that has ended; only the turn's figures are looked at.
    let ended = catch_unwind(AssertUnwindSafe(attempt));
    let mut counts = done.counts.lock().unwrap_or_else(PoisonError::into_inner);
    *counts.entry(attack.name.to_owned()).or_default() += turn.counted();
    if let Err(panic) = ended {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let said = format!("the attack `{}` broke: {}", attack.name, said.unwrap_or_default());
        let mut broken = done.broken.lock().unwrap_or_else(PoisonError::into_inner);
        if !broken.contains(&said) {
            broken.push(said);
        }
    }
}

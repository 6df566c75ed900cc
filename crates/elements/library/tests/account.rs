//! The cycles a worker accounts are the cycles it has spent.
//!
//! Other processes take the cores from a worker at any moment, and that time is charged to the
//! worker's current task. So bounds that hold of any schedule are tested here; the unit tests of
//! the account, whose clock is simulated, test the division into work and waiting.

mod common;

use std::{panic::resume_unwind, thread, time::Duration};

use common::{load_text, numbered_library};
use linerate_graph::{
    Class, Context, Control, Element, Idle, Library, Next, Options, Role, Router, Usage,
};
use linerate_memory::{ArenaOptions, Frame, clock::cycles};

/// Stops a run, also when its observer fails.
struct Stop(Control);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn router(text: &str, options: Options) -> Router {
    let memory = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
    let numbered = numbered_library();
    let library = Library::new(numbered.iter().chain([&NOW_AND_THEN]));
    let plan = load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
    let ports = linerate_port::Context::new(memory.create().unwrap());
    Router::new(plan, &library, ports, &options).unwrap()
}

/// Runs a configuration on one worker; its figures, and the cycles the run
/// took seen from outside.
fn run(text: &str, idle: Idle) -> (Usage, u64) {
    let mut router = router(text, Options { idle, ..Options::default() });
    let start = cycles();
    router.run();
    let taken = cycles() - start;
    let usage = router.control().usage().1.swap_remove(0);
    router.close();
    (usage, taken)
}

/// The counters of two cores differ by little.
fn tolerance(cycles: u64) -> u64 {
    cycles / 50
}

fn assert_is_within((usage, taken): &(Usage, u64)) {
    let (io, task) = usage.io_and_task();
    let accounted = usage.work + usage.wait;
    assert!(accounted <= taken + tolerance(*taken), "{accounted} of {taken}");
    let work = usage.work as f64;
    assert!((io + task - work).abs() <= 1e-6 * work, "{io} io and {task} task of {work}");
    assert_all_is_somebodys(usage);
}

fn assert_all_is_somebodys(usage: &Usage) {
    let elements: f64 = usage.elements.iter().map(|element| element.cycles).sum();
    let work = usage.work as f64;
    assert!((elements + usage.engine - work).abs() <= 1e-6 * work, "{usage:?}");
}

#[test]
fn a_busy_worker() {
    let text = "Numbered(LIMIT 20000000) -> c :: Counter -> q :: Queue -> u :: Unqueue -> Discard";
    let ran = run(text, Idle::Poll);
    assert_is_within(&ran);
    assert!(ran.0.elements.iter().all(|element| element.cycles > 0.0), "{:?}", ran.0.elements);
    assert!(ran.0.elements.iter().all(|element| element.role == Role::Task));
}

#[test]
fn a_worker_with_nothing_to_do_most_of_the_time() {
    let text = "Idle -> Discard; Numbered(LIMIT 500, BURST 1, EVERY 100us) -> Discard";
    for idle in Idle::ALL {
        let ran = run(text, idle);
        assert_is_within(&ran);
        assert!(ran.0.wait > 0 && ran.0.work > 0, "{idle}: {} {}", ran.0.wait, ran.0.work);
    }
}

/// Has something to do every other time, and always as much.
const NOW_AND_THEN: Class = Class {
    name: "NowAndThen",
    ports: "0/0",
    make: |_| Box::new(NowAndThen { runs: 0 }),
    ..Class::here()
};

struct NowAndThen {
    runs: u64,
}

impl NowAndThen {
    const RUNS: u64 = 4_000;
    const WORK: u64 = 20_000;
}

impl Element for NowAndThen {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        self.runs += 1;
        if self.runs == Self::RUNS {
            cx.driver.stop();
        }
        if self.runs.is_multiple_of(2) {
            return Next::Idle;
        }
        let start = cycles();
        while cycles() - start < Self::WORK {}
        Next::Again
    }
}

/// Work and waiting are told apart also where every round that works stands alone between others
/// that do not.
#[test]
fn a_worker_that_works_every_other_round() {
    let ran = run("NowAndThen", Idle::Poll);
    assert_is_within(&ran);
    let worked = NowAndThen::RUNS / 2 * NowAndThen::WORK;
    assert!(ran.0.work >= worked && ran.0.wait > 0, "{} {}", ran.0.work, ran.0.wait);
}

/// An interval's cycles are those that went by, and each belongs to a task: also where next to
/// nothing was measured in it.
#[test]
fn every_interval_adds_up() {
    let busy = "Numbered(LIMIT 1000000000) -> Counter -> Queue -> Unqueue -> Discard";
    let rare = "Numbered(LIMIT 1000000000, BURST 1, EVERY 3ms) -> Counter -> Discard";
    let none = "Idle -> Discard";
    for (text, idle) in
        [busy, rare, none].into_iter().flat_map(|text| Idle::ALL.map(|idle| (text, idle)))
    {
        let Usage { work, wait, .. } = read_intervals(text, idle, text != none);
        match text {
            text if text == busy => assert!(work > wait, "{idle}: {work} {wait}"),
            text if text == none => assert!(work == 0 && wait > 0, "{idle}: {work} {wait}"),
            _ => assert!(work + wait > 0, "{idle}: {work} {wait}"),
        }
    }
}

/// Reads a worker's figures every now and then, from its first round on, or from the first that
/// `works`; each interval has the cycles of the time that went by. Returns the figures of all
/// intervals.
fn read_intervals(text: &'static str, idle: Idle, works: bool) -> Usage {
    let mut router = router(text, Options { idle, ..Options::default() });
    let control = router.control();
    let reader = thread::spawn(move || {
        let stop = Stop(control);
        let read = || (cycles(), stop.0.usage().1.swap_remove(0), cycles());
        let mut before = read();
        while before.1.work + before.1.wait == 0 || works && before.1.work == 0 {
            before = read();
        }
        let first = before.1.clone();
        for _ in 0..30 {
            thread::sleep(Duration::from_millis(5));
            let now = read();
            let since = now.1.since(&before.1);
            assert_all_is_somebodys(&since);
            // The thread may have been kept waiting before and behind a reading.
            let sum = since.work + since.wait;
            let (least, most) = (now.0 - before.2, now.2 - before.0);
            let around = least - tolerance(least)..=most + tolerance(most);
            assert!(around.contains(&sum), "{text}: {sum} is not in {around:?}");
            before = now;
        }
        before.1.since(&first)
    });
    router.run();
    let usage = reader.join().unwrap_or_else(|panic| resume_unwind(panic));
    router.close();
    usage
}

/// Where packets are rare, each of them is measured.
#[test]
fn the_cost_of_rare_packets_is_measured() {
    for idle in [Idle::Adaptive, Idle::Block] {
        let text =
            "Numbered(LIMIT 5, BURST 1, EVERY 5ms) -> Counter -> Queue -> Unqueue -> Discard";
        for element in run(text, idle).0.elements {
            let cost = element.cycles_per_packet();
            assert!(cost.is_some_and(|cost| cost > 0.0), "{idle}: {element:?}");
        }
    }
}

/// A sink that pulls has taken the packets it pulled, a source has brought those it sent.
#[test]
fn packets_of_the_ends_are_counted() {
    let every_way = "DriverManager(wait 1s);
        InfiniteSource(LIMIT 1000) -> Queue -> Discard;
        InfiniteSource(LIMIT 1000) -> Queue -> Counter -> Discard(BURST 7);
        InfiniteSource(LIMIT 1000) -> Queue -> ToPort(null:);
        InfiniteSource(LIMIT 1000) -> Queue -> Unqueue -> Discard;
        InfiniteSource(LIMIT 1000) -> Queue(2000) -> TimedSink(1us);
        InfiniteSource(LIMIT 1000) -> Discard";
    let mut router = router(every_way, Options { simulated: true, ..Options::default() });
    router.run();
    let (plan, mut usage) = router.control().usage();
    let elements = usage.swap_remove(0).elements;
    for (element, usage) in plan.elements.iter().zip(elements).skip(1) {
        assert_eq!(usage.packets, 1000, "{} {usage:?}", element.name);
        assert!((1..=1000).contains(&usage.frames), "{} {usage:?}", element.name);
    }
    router.close();
}

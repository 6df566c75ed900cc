//! Frames of several packets have the effects of packets one at a time, for every class of the
//! library, with small queues of every kind behind it and in front.
//!
//! Classes are those of the library's declarations, so that a new one is tried, too. The output of
//! each of them, its order, and the drops are the same for all frame limits.

#[path = "common/classes.rs"]
mod classes;

use classes::{Outcome, Subject, graph, run};
use linerate_memory::{Arena, ArenaOptions};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};

thread_local! {
    static ARENA: Arena = {
        let options = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
        options.create().expect("16 MiB")
    };
}

const LIMITS: [usize; 4] = [7, 32, 256, 2048];

/// Classes that are not tried between queues, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("DriverManager", "there is one in each graph"),
    ("ErrorElement", "it is in no configuration that is run"),
    ("EtherSpanTree", "it goes with suppressors and a switch, between which it is in a circle"),
    ("FTPPortMapper", "it goes with rewriters, which have packets themselves"),
    ("ICMPRewriter", "it goes with rewriters, which have packets themselves"),
    ("TimestampDiff", "it goes with a RecordTimestamp, which has packets itself"),
];

fn outcome(text: &str, frame_limit: usize) -> Result<Outcome, String> {
    ARENA.with(|arena| run(text, frame_limit, arena))
}

/// Draws from a list of numbers, and zeros behind it.
fn chooser(choices: &[u8]) -> impl FnMut(usize) -> usize {
    let mut choices = choices.iter().copied();
    move |bound| usize::from(choices.next().unwrap_or(0)) % bound
}

/// A class of which a graph is run, if it can be.
fn can_be_tried(subject: &Subject) -> Result<(), String> {
    let text = graph(subject, &mut chooser(&[]));
    outcome(&text, 1).map(|_| ()).map_err(|why| format!("{why}\n{text}"))
}

fn compare(subject: &Subject, choices: &[u8]) -> Result<(), String> {
    let text = graph(subject, &mut chooser(choices));
    let single = outcome(&text, 1)?;
    for frame_limit in LIMITS {
        if let Some(found) = single.difference(&outcome(&text, frame_limit)?) {
            return Err(format!("frames of {frame_limit}: {found}\n{text}"));
        }
    }
    Ok(())
}

/// The `at`-th of four parts of all classes.
fn try_classes(part: usize) {
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|(class, _)| *class == name);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let cases = number("PROPTEST_CASES").unwrap_or(6);
    let only = std::env::var("CLASS").ok();
    let mut found = Vec::new();
    for (at, subject) in Subject::all().into_iter().enumerate() {
        let Ok(subject) = subject else { continue };
        let name = subject.class.name;
        if at % 4 != part || is_left_out(name) || only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let config =
            Config { cases, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
        // The same every time; the fuzzer has others.
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&u64::from(number("SEED").unwrap_or(1)).to_le_bytes());
        let mut runner =
            TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let choices = proptest::collection::vec(any::<u8>(), 30..120);
        let result = runner
            .run(&choices, |choices| compare(&subject, &choices).map_err(TestCaseError::fail));
        match result {
            Ok(()) => {}
            Err(TestError::Fail(reason, _)) => found.push(format!("{name}: {reason}")),
            Err(error) => found.push(format!("{name}: {error}")),
        }
    }
    assert!(found.is_empty(), "{} classes:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_first_part_of_the_classes() {
    try_classes(0);
}

#[test]
fn a_second_part_of_the_classes() {
    try_classes(1);
}

#[test]
fn a_third_part_of_the_classes() {
    try_classes(2);
}

#[test]
fn a_fourth_part_of_the_classes() {
    try_classes(3);
}

/// Graphs found by the fuzzer.
const FOUND: &[&str] = &[
    // The header in front of a packet was another's.
    "InfiniteSource(LIMIT 40) -> Vary(ip) -> EnsureEther -> Queue(5) -> Unqueue -> Record",
    // The reader of the second queue looked too seldom.
    "InfiniteSource(LIMIT 143) -> Vary(ether) -> SimpleQueue(5) -> Unqueue -> IP6Fragmenter(80)
        -> SimpleQueue(5) -> Unqueue -> Record",
    // What one RED drops was waiting in the queue, for another in front of it.
    "c :: AdaptiveRED(20, 0.1); InfiniteSource(LIMIT 36, BURST 40) -> v1 :: Vary(ip);
        v1 -> [0] c; q2 :: FrontDropQueue(30);
        c [0] -> RED(2, 5, 0.3) -> q2 -> Unqueue() -> r3 :: Record",
    "c :: RED(5, 20, 0.1); InfiniteSource(LIMIT 27, BURST 40) -> v1 :: Vary(ip);
        v1 -> [0] c; q2 :: FrontDropQueue(30);
        c [0] -> RED(2, 5, 0.3) -> q2 -> Unqueue() -> r3 :: Record",
    // A packet longer than all before had another pulled behind it, and a source found room for that.
    "c :: DRRSched(); InfiniteSource(LIMIT 32, BURST 2) -> v1 :: Vary(ip6);
        q2 :: FullNoteQueue(2); v1 -> q2; q2 -> [0] c;
        RatedSource(RATE 1000, LIMIT 2) -> v3 :: Vary(ip); q4 :: FrontDropQueue(1); v3 -> q4;
        q4 -> [1] c; c [0] -> u5 :: Unqueue(BURST 2); q6 :: FrontDropQueue(1);
        u5 -> q6 -> Unqueue() -> r7 :: Record",
    // A burst ended with its first packet where packets went one by one.
    "c :: TimedUnqueue(10ms, 5); TimedSource(1ms, LIMIT 34) -> v1 :: Vary(ip);
        q2 :: FrontDropQueue(2); v1 -> q2; q2 -> CheckLength(100) -> [0] c;
        q3 :: FrontDropQueue(1); c [0] -> q3 -> Unqueue() -> r4 :: Record",
];

#[test]
fn differences_found_before_are_gone() {
    for text in FOUND {
        let text = format!("{text}; DriverManager(wait 20s, stop)");
        let single = outcome(&text, 1).expect("it runs");
        for frame_limit in LIMITS {
            let found = single.difference(&outcome(&text, frame_limit).expect("it runs"));
            assert_eq!(found, None, "frames of {frame_limit}: {text}");
        }
    }
}

/// Each class that is left out is named with a reason, and could not be tried.
#[test]
fn every_class_is_tried_or_named() {
    let mut wrong = Vec::new();
    for subject in Subject::all() {
        let (class, why) = match subject {
            Ok(subject) => (subject.class, can_be_tried(&subject)),
            Err((class, why)) => (class, Err(why)),
        };
        let named = LEFT_OUT.iter().any(|(name, _)| *name == class.name);
        match why {
            Ok(()) if named => wrong.push(format!("{} can be tried", class.name)),
            Err(why) if !named && !class.external_input => {
                wrong.push(format!("{}: {why}", class.name));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} classes:\n{}", wrong.len(), wrong.join("\n"));
}

//! Frames of several packets have the effects of packets one at a time.
//!
//! Random graphs of sources, splitters, meetings, cycles, small queues and rated elements are run
//! with frames of one packet and of several. Where tasks limit the packets of a turn, everything is
//! the same: packets, their order, counts, drops and printed lines. Where they do not, the same
//! packets come by the same ways in the order of their source, and queues drop only where they do,
//! or nearly do, with single ones. On several workers packets come by the same ways in the same
//! order, too. Between ports the time of packets is chance, and so is the first of several sources:
//! packets that no queue drops come out as they would with queues of any length.

#[path = "common/graphs.rs"]
mod graphs;

use graphs::{Outcome, Turns, difference, graph, loss, run, run_apart};
use linerate_memory::{Arena, ArenaOptions};
use proptest::{prelude::*, test_runner::Config};

thread_local! {
    static ARENA: Arena = {
        let options = ArenaOptions { size: 48 << 20, huge: false, ..Default::default() };
        options.create().expect("48 MiB")
    };
}

/// Draws from a list of numbers, over and over.
fn chooser(choices: &[u8]) -> impl FnMut(usize) -> usize {
    let mut choices = choices.iter().copied();
    move |bound| usize::from(choices.next().unwrap_or(0)) % bound
}

fn compare(turns: Turns, choices: &[u8]) -> Result<(), String> {
    let text = graph(turns, &mut chooser(choices));
    let run = |frame_limit| ARENA.with(|arena| run(&text, frame_limit, arena));
    let single = run(1);
    for frame_limit in [7, 32, 256, 2048] {
        if let Some(difference) = difference(&single, &run(frame_limit), turns) {
            return Err(format!("frames of {frame_limit}: {difference}\n{text}"));
        }
    }
    Ok(())
}

/// Replaces all queues of a graph by ones that are never full.
fn with_room(text: &str) -> String {
    let mut parts = text.split("Queue(");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        let (_, rest) = part.split_once(')').expect("an argument");
        all + "Queue(100000)" + rest
    })
}

/// Compares a graph between ports with single packets and with frames of several: returns the
/// outcome with queues that are large enough.
fn compare_between_ports(text: &str) -> Result<Outcome, String> {
    let run = |text: &str, frame_limit| ARENA.with(|arena| run(text, frame_limit, arena));
    let (roomy, single) = (run(&with_room(text), 1), run(text, 1));
    if let Some(loss) = loss(&roomy, &single) {
        return Err(format!("single packets: {loss}\n{text}"));
    }
    for frame_limit in [7, 32, 256] {
        let frames = run(text, frame_limit);
        let found = difference(&single, &frames, Turns::Live).or_else(|| loss(&roomy, &frames));
        if let Some(found) = found {
            return Err(format!("frames of {frame_limit}: {found}\n{text}"));
        }
    }
    Ok(roomy)
}

fn cases() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    Config {
        cases: cases.unwrap_or(96),
        max_shrink_iters: 3000,
        failure_persistence: None,
        ..Config::default()
    }
}

/// A copy wakes the second task by itself before another wakes it through the first, though
/// the first has packets of both.
#[test]
fn copies_wake_tasks_in_their_order() {
    let text = "
        TimedSource(10ms, LIMIT 9) -> e1 :: Number(0) -> Queue(250) -> Unqueue(BURST 2)
            -> e2 :: Via(2) -> e3 :: Tee;
        e3 [0] -> Null -> Truncate(60) -> e5 :: CheckPaint(1);
        e6p :: PrioSched; e3 [1] -> Queue(8) -> [0] e6p; e5 [0] -> Queue(5) -> [1] e6p;
        e3 [2] -> Queue(64) -> [2] e6p; e6p -> Unqueue(BURST 5) -> e6 :: Via(6);
        e7p :: DRRSched; e5 [1] -> Queue(30) -> [0] e7p; e6 -> Queue(2) -> [1] e7p;
        e7p -> Unqueue(BURST 300) -> e7 :: Via(7) -> Queue(5000) -> e9 :: Passing
            -> Discard(BURST 40);
        DriverManager(wait 1s, stop);";
    all_is_the_same(text);
}

/// On one way some of them are numbered, because it parts and meets again; on the other all
/// come in the order they had.
#[test]
fn copies_come_in_the_order_of_their_packets() {
    all_is_the_same(
        "InfiniteSource(LIMIT 153, BURST 40) -> Number(1) -> copies :: Tee;
        copies [1] -> Null -> Passing -> Discard;
        copies [0] -> a :: Classifier(7/00%03, 7/01%03, 7/02%03, -);
        a [3] -> b :: Classifier(7/00%03, 7/01%03, 7/02%03, -);
        b [1] -> c :: Classifier(7/00%03, 7/01%03, 7/02%03, -);
        a [2] -> Queue(1000) -> Discard(BURST 1);
        c [3] -> Queue(1) -> Discard(BURST 1);
        b [2] -> q :: Queue(2) -> Discard(BURST 16); b [0] -> q; c [1] -> q;
        c [0] -> Discard; b [3] -> Discard; a [1] -> Discard; a [0] -> Discard;
        c [2] -> Discard; DriverManager(wait 1s, stop);",
    );
}

/// Where there is room for one packet more, one source gets it and the others wait. Which one is a
/// matter of when they run.
#[test]
fn sources_that_meet_stop_at_a_full_queue() {
    for (capacity, sources) in [1, 2, 3, 8, 30].into_iter().flat_map(|room| [(room, 2), (room, 3)])
    {
        let mut text = format!("q :: Queue({capacity}) -> Unqueue -> Record;");
        for source in 0..sources {
            text += &format!("InfiniteSource(LIMIT 40) -> Number({source}) -> q;");
        }
        text += "DriverManager(wait 1s, stop);";
        let run = |frame_limit| ARENA.with(|arena| run(&text, frame_limit, arena));
        let single = run(1);
        for frame_limit in [2, 3, 5, 7, 32, 256] {
            let found = difference(&single, &run(frame_limit), Turns::Open);
            assert!(found.is_none(), "frames of {frame_limit}: {}\n{text}", found.unwrap());
        }
    }
}

/// A reader that makes room for a port does not overrun the next queue instead.
#[test]
fn readers_make_room_for_ports_where_they_have_some() {
    let mut text = String::from(
        "q :: Queue(8) -> Unqueue -> Queue(2) -> ToPort(ring:out?loop);
         FromPort(ring:out?loop) -> Record; DriverManager(wait 1s, stop);",
    );
    for source in 0..3 {
        text += &format!(
            "InfiniteSource(LIMIT 50) -> ToPort(ring:{source}?loop);
             FromPort(ring:{source}?loop) -> Number({source}) -> q;"
        );
    }
    for frame_limit in [7, 32, 256] {
        let outcome = ARENA.with(|arena| run(&text, frame_limit, arena));
        assert_eq!((outcome.records[0].1.len(), outcome.drops), (150, 0), "{frame_limit}");
    }
}

/// A port that alone fills a queue loses nothing there, however small it is.
#[test]
fn ports_have_the_room_that_readers_make() {
    for capacity in [1, 2, 8, 60] {
        let text = format!(
            "InfiniteSource(LIMIT 500) -> ToPort(ring:a?loop); FromPort(ring:a?loop) -> Number(0)
                -> q :: Queue({capacity}) -> Unqueue -> Via(1) -> Queue({capacity}) -> ToPort(ring:b?loop);
             FromPort(ring:b?loop) -> Record; DriverManager(wait 1s, stop);"
        );
        let outcome = compare_between_ports(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.records[0].1.len(), 500);
        for frame_limit in [1, 7, 32, 256] {
            let outcome = ARENA.with(|arena| run(&text, frame_limit, arena));
            assert_eq!(outcome.drops, 0, "frames of {frame_limit}, {capacity} places");
        }
    }
}

fn all_is_the_same(text: &str) {
    let run = |frame_limit| ARENA.with(|arena| run(text, frame_limit, arena));
    let single = run(1);
    for frame_limit in [2, 7, 32, 256, 2048] {
        let found = difference(&single, &run(frame_limit), Turns::Said);
        assert!(found.is_none(), "frames of {frame_limit}: {}", found.unwrap());
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn with_turns_that_are_said_all_is_the_same(
        choices in proptest::collection::vec(any::<u8>(), 20..200)
    ) {
        compare(Turns::Said, &choices).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn many_turns_at_once_change_no_result(
        choices in proptest::collection::vec(any::<u8>(), 20..200)
    ) {
        compare(Turns::Open, &choices).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn frames_between_ports_change_no_result(
        choices in proptest::collection::vec(any::<u8>(), 20..200)
    ) {
        let text = graph(Turns::Live, &mut chooser(&choices));
        compare_between_ports(&text).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn several_workers_keep_the_order_of_each_way(
        choices in proptest::collection::vec(any::<u8>(), 20..200)
    ) {
        let text = graph(Turns::Apart, &mut chooser(&choices));
        let single = ARENA.with(|arena| run(&text, 1, arena));
        for frame_limit in [1, 7, 256] {
            let apart = ARENA.with(|arena| run_apart(&text, frame_limit, arena, &single));
            let found = difference(&single, &apart, Turns::Apart);
            prop_assert!(found.is_none(), "frames of {frame_limit}: {}\n{text}", found.unwrap());
        }
    }
}

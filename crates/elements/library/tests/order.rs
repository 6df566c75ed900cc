//! Packets keep the order of their flow where they take different ways and
//! meet again.

mod common;

use common::{load_text, numbered_library};
use linerate_graph::{Options, Router};
use linerate_memory::ArenaOptions;

/// Runs a configuration with a `sink :: Check` and returns the packets it has seen and the number
/// of wrong ones.
fn check(text: &str, frame_limit: usize) -> (u64, u64) {
    run(text, frame_limit, |read| {
        let mut read = |name: &str| read(name).parse().unwrap();
        (read("sink.seen"), read("sink.wrong"))
    })
}

/// Packets per frame that an element `t` is given.
fn frame_size(text: &str) -> f64 {
    run(text, 256, |read| {
        let cycles = read("t.cycles");
        let mut said = cycles.lines().filter_map(|line| line.split_once(' '));
        let mut next = |name| {
            let (_, value) = said.find(|(said, _)| *said == name).unwrap();
            value.parse::<f64>().unwrap()
        };
        next("packets") / next("frames")
    })
}

fn run<R>(
    text: &str,
    frame_limit: usize,
    ask: impl FnOnce(&mut dyn FnMut(&str) -> String) -> R,
) -> R {
    let options = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
    let arena = options.create().unwrap();
    let library = numbered_library();
    let plan = load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
    let ports = linerate_port::Context::new(arena.clone());
    let options = Options { frame_limit, ..Options::default() };
    let mut router = Router::new(plan, &library, ports, &options).unwrap();
    router.run();
    let result = ask(&mut |name| router.read(name, "").unwrap());
    router.close();
    drop(router);
    assert_eq!(arena.accounting().held, 0);
    result
}

#[test]
fn branches_of_different_length() {
    let text = "Numbered(LIMIT 10000) -> t :: TakeTurns -> sink :: Check;
        t [1] -> Null -> Null -> sink; t [2] -> Counter -> sink;";
    for frame_limit in [1, 2, 3, 7, 32, 256, 2048] {
        assert_eq!(check(text, frame_limit), (10_000, 0), "frames of {frame_limit}");
    }
}

#[test]
fn a_branch_that_splits_again() {
    let text = "Numbered(LIMIT 10000) -> t :: TakeTurns -> s :: TakeTurns -> Null -> sink :: Check;
        s [1] -> j :: Null -> sink; t [1] -> j; s [2] -> sink; t [2] -> Null -> Null -> j;";
    for frame_limit in [1, 5, 256] {
        assert_eq!(check(text, frame_limit), (10_000, 0), "frames of {frame_limit}");
    }
}

#[test]
fn branches_that_meet_in_front_of_a_queue() {
    let text = "Numbered(LIMIT 10000) -> t :: TakeTurns -> q :: Queue -> Unqueue(BURST 9)
        -> t2 :: TakeTurns -> sink :: Check; t [1] -> q; t2 [1] -> Null -> sink";
    let (seen, wrong) = check(text, 256);
    assert_eq!(wrong, 0);
    assert!(seen > 9_000, "{seen}");
}

#[test]
fn copies_follow_their_packet() {
    // Both copies of each packet reach the sink; the second is not the next of
    // its flow, every first one is.
    let text = "Numbered(LIMIT 1000) -> t :: Tee -> Null -> sink :: Check; t [1] -> sink;";
    for frame_limit in [1, 256] {
        assert_eq!(check(text, frame_limit), (2_000, 1_000), "frames of {frame_limit}");
    }
}

/// A third of the packets is copied, and each copy comes right before its packet.
#[test]
fn few_copies_leave_frames_whole() {
    let text =
        "Numbered(LIMIT 8190) -> s :: TakeTurns -> Paint(1) -> j :: Null; s [1] -> j; s [2] -> j;
        j -> t :: PaintTee(1) -> Null -> sink :: Check; t [1] -> Null -> Null -> sink";
    for frame_limit in [1, 2, 7, 256, 2048] {
        assert_eq!(check(text, frame_limit), (10_920, 2_730), "frames of {frame_limit}");
    }
    assert!(frame_size(text) > 200.0, "{}", frame_size(text));
}

/// The grouping of packets from outside is chance; of others a queue drops as many as of single
/// ones.
#[test]
fn copies_that_come_round_leave_live_frames_whole() {
    let behind = "-> Paint(1) -> m :: Null -> t :: PaintTee(1) -> Queue -> Discard;
        t [1] -> Paint(2) -> m; DriverManager(wait 20ms, stop)";
    let live = frame_size(&format!("FromPort(null:?size=64) {behind}"));
    assert!(live > 16.0, "{live}");
    let repeatable = frame_size(&format!("InfiniteSource {behind}"));
    assert!(repeatable < 1.5, "{repeatable}");
}

#[test]
fn packets_lost_on_one_branch_leave_the_others_in_order() {
    let text = "Numbered(LIMIT 10000) -> t :: TakeTurns -> Lose(5) -> sink :: Check(GAPS true);
        t [1] -> Null -> sink";
    assert_eq!(check(text, 256), (9_999, 0));
}

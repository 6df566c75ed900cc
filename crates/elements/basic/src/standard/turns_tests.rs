//! Tests that frames do not overrun queues: Click's answers at every frame limit.

use crate::testing::Run;

const LIMITS: [usize; 5] = [1, 7, 32, 256, 2048];

/// Runs a configuration with a queue `q` and a counter `c` at each frame limit; all
/// packets arrive and none is dropped.
fn all_arrive(text: &str, packets: &str) {
    for limit in LIMITS {
        let mut run =
            Run::new(&format!("{text}; DriverManager(wait 100s, stop)")).frame_limit(limit);
        run.run();
        let seen = (run.read("c.count"), run.read("q.drops"));
        assert_eq!(seen, (packets.into(), "0".into()), "frames of {limit}: {text}");
    }
}

/// Click drops none of them.
#[test]
fn queues_behind_something_are_not_overrun() {
    let end = "q :: Queue(64) -> Unqueue -> c :: Counter -> Discard";
    all_arrive(
        &format!("InfiniteSource(LIMIT 10000) -> s :: Switch(0) -> {end}; s [1] -> Discard"),
        "10000",
    );
    all_arrive(
        &format!("InfiniteSource(LIMIT 10000) -> t :: Tee -> {end}; t [1] -> Discard"),
        "10000",
    );
    all_arrive(&format!("RatedSource(RATE 1000000, LIMIT 10000) -> n :: Null -> {end}"), "10000");
    all_arrive(
        "InfiniteSource(LIMIT 3000) -> Queue(150) -> Unqueue -> t :: Tee \
            -> q :: Queue(8) -> Unqueue -> c :: Counter -> Discard; t [1] -> Discard",
        "3000",
    );
}

/// Of eight packets that a source sends, the last becomes five, as many as fit into a queue `q` whose
/// reader is not told when there is one.
fn five_of_eight(source: &str) -> String {
    let discards: String = (0..7).map(|output| format!("r [{output}] -> Discard; ")).collect();
    let copies: String = (1..5).map(|output| format!("; t [{output}] -> q")).collect();
    format!(
        "{source} -> Unqueue -> r :: RoundRobinSwitch; {discards} r [7] -> t :: Tee; \
            t [0] -> q :: SimpleQueue(5) -> Unqueue -> c :: Counter -> Discard{copies}"
    )
}

/// The source takes five turns at once, and the reader of the second queue finds nothing in between.
#[test]
fn readers_that_poll_look_behind_those_that_bring_packets() {
    all_arrive(&five_of_eight("InfiniteSource(LIMIT 800) -> SimpleQueue(5)"), "500");
}

/// Likewise where the task that brings packets sleeps, and another one takes many turns.
#[test]
fn readers_that_poll_look_behind_those_that_wake_others() {
    let path = five_of_eight("InfiniteSource(LIMIT 800, BURST 1) -> Queue(5)");
    let beside = "InfiniteSource(LIMIT 800) -> Queue(200) -> Unqueue -> Discard";
    all_arrive(&format!("{path}; {beside}"), "500");
}

/// Both copies of a packet come to one queue.
#[test]
fn copies_need_room_too() {
    for limit in LIMITS {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 1000) -> t :: Tee -> q :: Queue(8) -> Unqueue(BURST 2) \
                -> c :: Counter -> Discard; t [1] -> q; t [2] -> Discard; \
                DriverManager(wait 100s, stop)",
        )
        .frame_limit(limit);
        run.run();
        let seen = (run.read("c.count"), run.read("q.drops"));
        assert_eq!(seen, ("2000".into(), "0".into()), "frames of {limit}");
    }
}

/// As Click does: it was asked for.
#[test]
fn a_burst_that_is_asked_for_overruns_a_queue() {
    for limit in LIMITS {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 1000, BURST 100) -> q :: Queue(64) -> Unqueue(BURST 100) \
                -> c :: Counter -> Discard; DriverManager(wait 100s, stop)",
        )
        .frame_limit(limit);
        run.run();
        let seen = (run.read("c.count"), run.read("q.drops"));
        assert_eq!(seen, ("640".into(), "360".into()), "frames of {limit}");
    }
}

/// Every packet has gone all the way when the handler is called, and none more.
#[test]
fn a_handler_is_called_at_its_packet() {
    for limit in LIMITS {
        let mut run = Run::new(
            "i :: InfiniteSource(LIMIT 1000) -> Counter(COUNT_CALL 100 s.switch 1) \
                -> s :: Switch(0) -> a :: Counter -> Discard; s [1] -> b :: Counter -> Discard; \
                DriverManager(wait 100s, stop)",
        )
        .frame_limit(limit);
        run.run();
        let seen = (run.read("a.count"), run.read("b.count"));
        assert_eq!(seen, ("99".into(), "901".into()), "frames of {limit}");
    }
}

/// The letters of printed lines, in order.
fn letters(text: &str, limit: usize) -> String {
    let mut run = Run::new(text).frame_limit(limit);
    run.run();
    run.read("out.packets").lines().map(|line| char::from(hex(line))).collect()
}

fn hex(line: &str) -> u8 {
    u8::from_str_radix(&line[..2], 16).unwrap()
}

/// As Click's come.
#[test]
fn sources_in_front_of_a_queue_take_turns() {
    let text = "InfiniteSource(DATA \\<61>, LIMIT 5) -> q :: Queue(20) -> Unqueue -> out :: Collect; \
        InfiniteSource(DATA \\<62>, LIMIT 3) -> n :: Null -> q; \
        InfiniteSource(DATA \\<63>, LIMIT 9) -> n; DriverManager(wait 1s, stop)";
    for limit in LIMITS {
        assert_eq!(letters(text, limit), "abcabcabcacaccccc", "frames of {limit}");
    }
}

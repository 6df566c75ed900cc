//! Ports behind whose packets queues fill up: frames stay whole.

mod common;

use common::load_text;
use linerate_graph::{ElementUsage, Idle, Options, Router};
use linerate_memory::ArenaOptions;

/// Runs a configuration until it stops itself; returns the figures of the elements of these names,
/// and the values of the handlers.
fn run<const N: usize, const M: usize>(
    text: &str,
    names: [&str; N],
    handlers: [&str; M],
) -> ([ElementUsage; N], [u64; M]) {
    let library = linerate_elements::library();
    let plan = load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
    let memory = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
    let ports = linerate_port::Context::new(memory.create().unwrap());
    let options = Options { idle: Idle::Poll, ..Options::default() };
    let mut router = Router::new(plan, &library, ports, &options).unwrap();
    router.run();
    let (plan, mut usage) = router.control().usage();
    let usage = usage.swap_remove(0);
    let counts = handlers.map(|handler| router.read(handler, "").unwrap().parse().unwrap());
    router.close();
    (names.map(|name| usage.elements[plan.find(name).unwrap()].clone()), counts)
}

/// Three sources, each as fast as the reader of the queue: it is full, but for the frame the reader
/// has just taken.
#[test]
fn a_queue_that_several_ports_fill_is_filled_with_frames() {
    let text = "FromPort(null:a?size=64) -> a :: Counter -> q :: Queue;
        FromPort(null:b?size=64) -> b :: Counter -> q;
        FromPort(null:c?size=64) -> c :: Counter -> q;
        q -> u :: Unqueue -> out :: Counter(COUNT_CALL 300000 stop) -> ToPort(null:out)";
    let counters = ["a.count", "b.count", "c.count", "q.drops"];
    let (frames, [a, b, c, lost]) = run(text, ["a", "b", "c", "out"], counters);
    for frames in &frames {
        assert!(frames.mean_frame() > 100.0, "{frames:?}");
    }
    // Sources that wait for room get it in turn.
    let (least, most) = (a.min(b).min(c), a.max(b).max(c));
    assert!(most < least + least / 2, "{a} {b} {c}");
    assert_eq!(lost, 0);
}

/// Copies come to several queues, one of them from both sides.
#[test]
fn copies_come_in_frames() {
    let text = "FromPort(null:a?size=64) -> a :: Tee -> Queue -> ToPort(null:b);
        FromPort(null:b?size=64) -> b :: Tee -> Queue -> ToPort(null:a);
        a [1] -> copies :: Queue -> Unqueue -> out :: Counter(COUNT_CALL 300000 stop) -> Discard;
        b [1] -> copies";
    let (frames, []) = run(text, ["a", "b", "out"], []);
    for frames in &frames {
        assert!(frames.mean_frame() > 50.0, "{frames:?}");
    }
}

/// No source waits for a reader that makes no room now: packets are dropped at the queue, as they
/// would be if they came one at a time.
#[test]
fn a_queue_without_a_reader_overflows() {
    let text = "FromPort(null:a?size=64) -> in :: Counter(COUNT_CALL 300000 stop)
            -> q :: Queue(100) -> RatedUnqueue(1000) -> Discard";
    let (_, [lost, came]) = run(text, [], ["q.drops", "in.count"]);
    assert!(came >= 300_000 && lost > 250_000, "{lost} of {came}");
}

/// It counts what it lets through.
#[test]
fn frames_stay_whole_through_red_in_front_of_a_queue() {
    let text = "FromPort(null:a?size=64) -> r :: RED(200, 500, 0.1) -> q :: Queue
            -> Unqueue -> out :: Counter(COUNT_CALL 300000 stop) -> ToPort(null:out)";
    let (frames, []) = run(text, ["r", "q", "out"], []);
    for frames in &frames {
        assert!(frames.mean_frame() > 100.0, "{frames:?}");
    }
}

/// Another drops it: the queue never has more packets than the frame of 256 that finds it empty, and
/// a few. Frames stay whole in front of both.
#[test]
fn red_does_not_count_what_another_drops() {
    let text = "FromPort(null:a?size=64) -> in :: Counter(COUNT_CALL 300000 stop)
            -> r :: RED(300, 600, 0.1) -> RED(2, 5, 0.5) -> q :: Queue -> RatedUnqueue(1000)
            -> Discard";
    let ([frames], [early, lost]) = run(text, ["in"], ["r.drops", "q.drops"]);
    assert_eq!([early, lost], [0, 0]);
    assert!(frames.mean_frame() > 100.0, "{frames:?}");
}

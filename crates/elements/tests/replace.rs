//! Replacing a graph while packets flow through it: none is lost, none is out
//! of order, and a wrong configuration changes nothing.

mod common;

use std::thread;

use common::{load_text, numbered_library};
use linerate_graph::{BuildError, Control, Options, Router};
use linerate_memory::{Arena, ArenaOptions};

/// Configurations that a test changes between.
const VARIANTS: [&str; 4] = [
    "source :: Numbered -> q :: Queue(500) -> u :: Unqueue -> c :: Counter -> sink :: Check",
    "source :: Numbered -> Null -> q :: Queue(300) -> u :: Unqueue -> sink :: Check",
    "source :: Numbered -> before :: Counter -> q :: Queue(500) -> PullNull -> u :: Unqueue
        -> c :: Counter -> Null -> sink :: Check",
    "source :: Numbered -> t :: Tee -> q :: Queue(700) -> u :: Unqueue(BURST 7)
        -> sink :: Check; t [1] -> Discard",
];

fn arena() -> Arena {
    ArenaOptions { size: 16 << 20, huge: false, ..Default::default() }.create().unwrap()
}

/// Replaces the graph `times` times while it runs and returns what the sink
/// has seen.
fn replace_under_load(workers: usize, prefix: &'static str, times: usize) -> u64 {
    let arena = arena();
    let library = numbered_library();
    let text = move |at: usize| format!("{prefix}{}", VARIANTS[at % VARIANTS.len()]);
    let plan = load_text(&text(0), &library).unwrap();
    let ports = linerate_port::Context::new(arena.clone());
    let options = Options { workers, ..Options::default() };
    let mut router = Router::new(plan, &library, ports, &options).unwrap();
    let control: Control = router.control();
    let changer = thread::spawn(move || {
        for at in 1..=times {
            let before = seen(&control);
            control.replace(load_text(&text(at), &library).unwrap()).unwrap();
            if at % 10 == 0 {
                let broken = load_text("source :: Numbered(1, 2) -> sink :: Check", &library);
                let error = control.replace(broken.unwrap()).unwrap_err();
                let BuildError::Configuration(found) = error else { panic!("{error}") };
                assert!(found.click().contains("too many arguments"), "{}", found.click());
            }
            // Packets flow between two changes.
            while seen(&control) == before {
                thread::yield_now();
            }
        }
        control.stop();
    });
    router.run();
    changer.join().unwrap();
    let control = router.control();
    let read = |router: &mut Router, name: &str| {
        let handler = control.find(name).unwrap();
        router.read(&handler, "").unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(read(&mut router, "sink.wrong"), 0, "packets lost or out of order");
    let (made, seen) = (read(&mut router, "source.made"), read(&mut router, "sink.seen"));
    let held = read(&mut router, "q.length");
    assert_eq!(made, seen + held, "every packet is counted");
    router.close();
    drop(router);
    assert_eq!(arena.accounting().held, 0);
    seen
}

fn seen(control: &Control) -> u64 {
    let handler = control.find("sink.seen").unwrap();
    control.read(&handler, "").unwrap().parse().unwrap()
}

#[test]
fn one_worker_loses_nothing_in_a_thousand_changes() {
    assert!(replace_under_load(1, "", 1000) > 1000);
}

#[test]
fn two_workers_lose_nothing_in_a_thousand_changes() {
    assert!(replace_under_load(2, "Pin(u 1); ", 1000) > 1000);
}

#[test]
fn the_sink_notices_what_is_missing() {
    // The test's own instrument: a packet taken out is noticed.
    let arena = arena();
    let library = numbered_library();
    let text = "source :: Numbered(LIMIT 100) -> Lose(50) -> sink :: Check";
    let plan = load_text(text, &library).unwrap();
    let ports = linerate_port::Context::new(arena);
    let mut router = Router::new(plan, &library, ports, &Options::default()).unwrap();
    router.run();
    let handler = router.control().find("sink.wrong").unwrap();
    assert_eq!(router.read(&handler, "").unwrap(), "1");
    router.close();
}

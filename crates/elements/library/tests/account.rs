//! The cycles a worker accounts are the cycles it has spent.

mod common;

use common::{load_text, numbered_library};
use linerate_graph::{Idle, Options, Role, Router, Usage};
use linerate_memory::{ArenaOptions, clock::cycles};

/// Runs a configuration on one worker; its figures, and the cycles the run
/// took seen from outside.
fn run(text: &str, idle: Idle) -> (Usage, u64) {
    let options = ArenaOptions { size: 16 << 20, huge: false, ..Default::default() };
    let library = numbered_library();
    let plan = load_text(text, &library).unwrap_or_else(|errors| panic!("{errors}"));
    let ports = linerate_port::Context::new(options.create().unwrap());
    let options = Options { idle, ..Options::default() };
    let mut router = Router::new(plan, &library, ports, &options).unwrap();
    let start = cycles();
    router.run();
    let taken = cycles() - start;
    let usage = router.control().usage().1.swap_remove(0);
    router.close();
    (usage, taken)
}

fn assert_adds_up((usage, taken): &(Usage, u64)) {
    let (io, task) = usage.io_and_task();
    let accounted = io + task + usage.wait as f64;
    let off = (accounted - *taken as f64).abs() / *taken as f64;
    assert!(off < 0.02, "{io} io, {task} task, {} busy of {taken}: off by {off}", usage.wait);
    let elements: f64 = usage.elements.iter().map(|element| element.cycles).sum();
    let work = usage.work as f64;
    assert!((elements + usage.engine - work).abs() <= 1e-6 * work);
}

#[test]
fn a_busy_worker() {
    let ran = run(
        "Numbered(LIMIT 20000000) -> c :: Counter -> q :: Queue -> u :: Unqueue -> Discard",
        Idle::Poll,
    );
    assert_adds_up(&ran);
    assert!(ran.0.elements.iter().all(|element| element.cycles > 0.0), "{:?}", ran.0.elements);
    assert!(ran.0.elements.iter().all(|element| element.role == Role::Task));
}

#[test]
fn a_worker_with_nothing_to_do_most_of_the_time() {
    let text = "Idle -> Discard; Numbered(LIMIT 500, BURST 1, EVERY 100us) -> Discard";
    for idle in Idle::ALL {
        let ran = run(text, idle);
        assert_adds_up(&ran);
        assert!(ran.0.wait > ran.0.work, "{idle}: {} {}", ran.0.wait, ran.0.work);
    }
}

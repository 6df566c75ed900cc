//! The tester over rings, and a configuration as the device between two.

use std::time::Duration;

use linerate_graph::{Idle, Options, Router, lang::Globals, load};
use linerate_lab::{
    Traffic,
    trials::{Device, LatencyFigures, Order, Phase, RunError, Runner, Tester, TesterOptions, Wire},
};
use linerate_memory::ArenaOptions;
use linerate_model::units::{PacketsPerSecond, Seconds};
use linerate_port::{Context, Direction, open};
use linerate_test_support::wait_until;
use linerate_worker::Stop;

/// Long enough for the slowest machine; trials end when all is back.
const RESIDUAL: Duration = Duration::from_secs(10);

fn traffic() -> Traffic {
    Traffic::new("64".parse().unwrap(), false)
}

/// A tester whose device is a configuration between `ring:in` and `ring:out`,
/// whose rings hold so many frames.
fn bed(text: &str, slots: usize, late: Duration, stop: &Stop) -> (Tester, Device) {
    let context = Context::new(ArenaOptions::default().create().unwrap());
    let port = |name: &str, direction| {
        let uri = format!("ring:{name}?slots={slots}").parse().unwrap();
        open(&uri, &context.toward(direction)).unwrap().queues.remove(0)
    };
    let transmit = port("in", Direction::Transmit).transmit.unwrap();
    let receive = port("out", Direction::Receive).receive.unwrap();
    let options = TesterOptions { traffic: traffic(), burst: 32, late, stop: stop.clone() };
    let wire = Box::new(Wire::new(transmit));
    let tester = Tester::new(options, &context.arena, wire, vec![receive]).unwrap();
    let library = linerate_elements::library();
    let loaded =
        load("device", text, &library, &Globals::default(), &mut |_: &str, _: &str| Err(None));
    let plan = loaded.plan.unwrap_or_else(|| panic!("{}", loaded.found.click()));
    let options = Options { idle: Idle::Adaptive, ..Options::default() };
    let router = Router::new(plan, &library, context, &options).unwrap();
    (tester, Device::start(router).unwrap())
}

fn at(rate: f64, frames: u64) -> Phase {
    Phase { load: Some(PacketsPerSecond::new(rate)), frames }
}

/// Later than any trial: nothing is given up.
const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn every_frame_is_accounted_for() {
    let text = "FromPort(ring:in) -> ToPort(ring:out)";
    let (mut tester, device) = bed(text, 16384, NEVER, &Stop::new());
    for frames in [1, 31, 1000] {
        let order = Order { phases: vec![at(50e3, frames)], residual: RESIDUAL };
        let outcome = tester.run(&order).unwrap();
        let counts = outcome.frames;
        assert_eq!(
            [counts.intended, counts.offered, counts.accepted, counts.received],
            [frames; 4]
        );
        assert_eq!((outcome.duplicates, outcome.reordered, outcome.foreign), (0, 0, 0));
        assert_eq!(outcome.last_loss, None);
        let latency = LatencyFigures::from_latency(&outcome.latency).unwrap();
        assert_eq!(latency.frames, frames);
        assert!(latency.min_ns > 0 && latency.min_ns <= latency.p50_ns);
        // Frames at equal gaps take the time of those gaps at least.
        assert!(outcome.sending.get() >= (frames - 1) as f64 / 50e3, "{:?}", outcome.sending);
    }
    assert_eq!(device.failure(), None);
    assert!(device.usage().work_cycles > 0.0);
}

/// Every tenth frame is lost, and one comes twice: neither passes for another.
#[test]
fn losses_and_doubles_are_the_devices() {
    let text = "FromPort(ring:in) -> r :: RoundRobinSwitch; \
                r[0] -> Discard; r[1] -> t :: Tee; t[0] -> out :: ToPort(ring:out); t[1] -> out; \
                r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9] => out";
    let text = text.replace(
        "r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9] => out",
        &(2..10).map(|output| format!("r[{output}] -> out;")).collect::<String>(),
    );
    let (mut tester, _device) = bed(&text, 16384, NEVER, &Stop::new());
    let order = Order { phases: vec![at(50e3, 1000)], residual: Duration::from_secs(1) };
    let outcome = tester.run(&order).unwrap();
    assert_eq!((outcome.frames.accepted, outcome.frames.received), (1000, 900));
    assert_eq!(outcome.duplicates, 100);
    assert!((outcome.frames.loss_ratio() - 0.1).abs() < 1e-9);
    assert!(outcome.last_loss.is_some());
}

/// A device that takes nothing loses the frames that its port does not hold; the generator is not
/// slowed down, and the next trial is not told of the frames of the last.
#[test]
fn a_full_device_loses_frames_and_does_not_stop_the_generator() {
    let text = "FromPort(ring:in, ACTIVE false) -> Discard; FromPort(ring:out) -> Discard";
    let text = text.replace("FromPort(ring:out) -> Discard", "Idle -> ToPort(ring:out)");
    let (mut tester, _device) = bed(&text, 128, NEVER, &Stop::new());
    for _ in 0..2 {
        let phases = vec![Phase { load: None, frames: 5000 }];
        let outcome = tester.run(&Order { phases, residual: Duration::from_millis(1) }).unwrap();
        let frames = outcome.frames;
        assert_eq!([frames.intended, frames.accepted, frames.received], [5000, 5000, 0]);
    }
}

#[test]
fn a_generator_that_is_late_gives_frames_up() {
    let text = "FromPort(ring:in) -> ToPort(ring:out)";
    // No generator sends a frame every nanosecond.
    let (mut tester, _device) = bed(text, 128, Duration::ZERO, &Stop::new());
    let order = Order { phases: vec![at(1e9, 10_000_000)], residual: Duration::ZERO };
    let frames = tester.run(&order).unwrap().frames;
    assert_eq!(frames.intended, 10_000_000);
    assert!(frames.accepted < frames.intended, "{frames:?}");
    assert!(frames.unsent_ratio() > 0.0);
}

#[test]
fn phases_follow_each_other() {
    let text = "FromPort(ring:in) -> ToPort(ring:out)";
    let (mut tester, _device) = bed(text, 16384, NEVER, &Stop::new());
    let order = Order { phases: vec![at(40e3, 2000), at(20e3, 1000)], residual: RESIDUAL };
    let outcome = tester.run(&order).unwrap();
    assert_eq!((outcome.frames.intended, outcome.frames.received), (3000, 3000));
    assert_eq!(outcome.begun.len(), 2);
    assert!(outcome.begun[1] >= Seconds::new(0.0499), "{:?}", outcome.begun);
}

#[test]
fn a_raised_flag_ends_a_trial() {
    let stop = Stop::new();
    let (mut tester, device) = bed("FromPort(ring:in) -> ToPort(ring:out)", 128, NEVER, &stop);
    stop.raise();
    let order = Order { phases: vec![at(1e3, 1_000_000)], residual: RESIDUAL };
    assert!(matches!(tester.run(&order), Err(RunError::Interrupted)));
    drop(device);
}

#[test]
fn a_device_that_stops_is_noticed() {
    let text = "FromPort(ring:in) -> ToPort(ring:out); DriverManager(stop)";
    let (_tester, device) = bed(text, 128, NEVER, &Stop::new());
    assert!(wait_until(|| device.failure().is_some(), Duration::from_secs(60)));
}

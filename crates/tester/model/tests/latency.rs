//! The latency formulas against a simulation of the loop they describe.

use linerate_model::{
    Cost, Costs, Loop, Power, Scenario, Visit,
    fit::{FixedLatency, Loss, Model, Observation, PowerModel, Term, ThroughputModel, fit},
    sleeping_utilisation,
    units::{Hertz, Packets, PacketsPerSecond, Seconds, SecondsPerPacket, Watts},
};

/// Measurements of a simulated loop.
struct Simulated {
    vector: f64,
    round: f64,
    variance: f64,
    latency: f64,
    loss: f64,
    busy: f64,
}

/// Plays `packets` Poisson arrivals through the loop, event by event, with a
/// pause after each round without packets. A packet leaves at its round's end.
fn simulate(service: &Loop, load: f64, packets: usize, pause: f64, seed: u64) -> Simulated {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut gap = || -(1.0 - random.f64()).ln() / load;
    let (a, b) = (service.per_packet.get(), service.per_burst.get());
    let limit = service.burst.get() as usize;
    let mut waiting = std::collections::VecDeque::new();
    let mut arrival = gap();
    let (mut now, mut arrived, mut lost, mut done) = (0.0, 0_usize, 0_usize, 0_usize);
    let (mut rounds, mut rounds_sum, mut rounds_square) = (0_usize, 0.0, 0.0);
    let (mut delay, mut paused) = (0.0, 0.0);
    while arrived < packets {
        while arrival <= now {
            arrived += 1;
            if waiting.len() < service.queue.get() as usize {
                waiting.push_back(arrival);
            } else {
                lost += 1;
            }
            arrival += gap();
        }
        let taken = waiting.len().min(limit);
        let round = b + a * taken as f64;
        now += round;
        delay += waiting.drain(..taken).map(|came| now - came).sum::<f64>();
        done += taken;
        rounds += 1;
        rounds_sum += round;
        rounds_square += round * round;
        if taken == 0 {
            now += pause;
            paused += pause;
        }
    }
    let mean = rounds_sum / rounds as f64;
    Simulated {
        vector: done as f64 / rounds as f64,
        round: mean,
        variance: rounds_square / rounds as f64 - mean * mean,
        latency: service.fixed.get() + delay / done as f64,
        loss: lost as f64 / arrived as f64,
        busy: 1.0 - paused / now,
    }
}

/// The C driver at 3.3 GHz, and a loop with dear packets and a small vector.
fn loops() -> [Loop; 3] {
    let service = |a: f64, b: f64, burst: f64| Loop {
        per_packet: SecondsPerPacket::new(a / 3.3e9),
        per_burst: Seconds::new(b / 3.3e9),
        burst: Packets::new(burst),
        fixed: Seconds::new(2e-6),
        queue: Packets::new(1e9),
    };
    [service(78.0, 318.0, 64.0), service(78.0, 318.0, 256.0), service(400.0, 600.0, 256.0)]
}

fn at(service: &Loop, share: f64) -> PacketsPerSecond {
    service.capacity() * share
}

const PACKETS: usize = 1_000_000;

#[test]
fn mean_latency_agrees_up_to_saturation() {
    for service in loops() {
        // Without the fixed part, which would hide errors of the rest.
        let service = Loop { fixed: Seconds::ZERO, ..service };
        for (share, stated) in
            [(0.1, 0.011), (0.3, 0.011), (0.5, 0.011), (0.8, 0.011), (0.9, 0.011), (0.95, 0.028)]
        {
            let load = at(&service, share);
            let simulated = simulate(&service, load.get(), PACKETS, 0.0, 7);
            let error = service.mean_latency(load).get() / simulated.latency - 1.0;
            assert!(error.abs() < stated, "{service:?} at {share}: {error}");
        }
    }
}

#[test]
fn vector_and_round_agree() {
    for service in loops() {
        for share in [0.1, 0.5, 0.9] {
            let load = at(&service, share);
            let simulated = simulate(&service, load.get(), PACKETS, 0.0, 11);
            let near = |found: f64, wanted: f64, tolerance: f64| {
                let error = found / wanted - 1.0;
                assert!(error.abs() < tolerance, "{service:?} at {share}: {error}");
            };
            near(service.mean_vector(load).get(), simulated.vector, 0.02);
            near(service.mean_round(load).get(), simulated.round, 0.02);
            near(service.round_variance(load), simulated.variance, 0.05);
        }
    }
}

#[test]
fn overload_pins_the_vector_and_fills_the_queue() {
    let service = Loop { queue: Packets::new(2048.0), ..loops()[0] };
    for share in [1.1, 1.5, 3.0] {
        let load = at(&service, share);
        let simulated = simulate(&service, load.get(), PACKETS, 0.0, 3);
        assert_eq!(service.mean_vector(load), service.burst);
        assert!((simulated.vector / 64.0 - 1.0).abs() < 0.01, "{}", simulated.vector);
        assert!((service.loss(load) - simulated.loss).abs() < 0.01, "{}", simulated.loss);
        // The queue is emptied a vector at a time, so that on average it is
        // not quite full.
        let error = service.mean_latency(load).get() / simulated.latency - 1.0;
        assert!(error.abs() < 0.03, "at {share}: {error}");
    }
}

#[test]
fn bursts_up_to_the_formulas_length_lose_nothing() {
    let service = Loop { queue: Packets::new(1024.0), ..loops()[2] };
    let rate = service.capacity() * 4.0;
    let longest = service.back_to_back(rate).unwrap();
    assert!((longest.get() - 1024.0 * 4.0 / 3.0).abs() < 1e-6);
    assert_eq!(service.back_to_back(service.capacity()), None);
    let queue = service.queue_from_burst(rate, longest);
    assert!((queue.get() - 1024.0).abs() < 1e-6);
}

#[test]
fn only_the_fixed_part_is_fitted() {
    let truth = loops()[0];
    let points: Vec<_> = [0.1, 0.2, 0.3]
        .into_iter()
        .map(|share| {
            let load = at(&truth, share);
            Observation::new(load, simulate(&truth, load.get(), PACKETS, 0.0, 5).latency)
        })
        .collect();
    let model = FixedLatency { service: Loop { fixed: Seconds::ZERO, ..truth } };
    let fitted = fit(&model, &points, Loss::Huber).unwrap();
    assert!((fitted.values[0] / 2e-6 - 1.0).abs() < 0.01, "{fitted:?}");
}

#[test]
fn sleeping_loops_are_as_busy_as_simulated() {
    let service = loops()[0];
    for (share, pause) in [(0.01, 1e-6), (0.1, 1e-6), (0.1, 1e-5), (0.5, 1e-7), (0.9, 1e-6)] {
        let load = at(&service, share);
        let simulated = simulate(&service, load.get(), PACKETS, pause, 9).busy;
        let busy = sleeping_utilisation(&service, load, Seconds::new(pause));
        assert!((busy - simulated).abs() < 0.005, "{share} {pause}: {busy}, not {simulated}");
    }
}

/// The loop of a scenario costs as much as the scenario says.
#[test]
fn full_rounds_are_the_predicted_throughput() {
    let costs = Costs {
        receive: Cost::new(50.0, 200.0),
        transmit: Cost::new(28.0, 118.0),
        elements: [("Check".to_string(), Cost::new(20.0, 30.0))].into(),
        stall: SecondsPerPacket::new(5e-9),
        ..Costs::default()
    };
    let visit = Visit { element: "Check".to_string(), times: 0.5 };
    let scenario = Scenario { elements: vec![visit], ..Scenario::default() };
    let service = costs.service(&scenario, Seconds::ZERO, Packets::new(512.0));
    let predicted = costs.predict(&scenario).throughput;
    assert!((service.capacity() / predicted - 1.0).abs() < 1e-12);
    assert!((service.per_burst.get() - 333e-9).abs() < 1e-15);
}

/// Sends frames of one burst at even distances; the number that find the
/// queue full.
fn lost_of_burst(service: &Loop, rate: f64, frames: usize) -> usize {
    let (a, b) = (service.per_packet.get(), service.per_burst.get());
    let (mut sent, mut waiting, mut lost, mut now) = (0, 0, 0, 0.0);
    while sent < frames {
        while sent < frames && sent as f64 / rate <= now {
            sent += 1;
            if waiting < service.queue.get() as usize { waiting += 1 } else { lost += 1 }
        }
        let taken = waiting.min(service.burst.get() as usize);
        waiting -= taken;
        now += b + a * taken as f64;
    }
    lost
}

/// The queue's length, found from the longest burst without loss and from the
/// latency under overload.
#[test]
fn both_ways_to_the_queue_agree() {
    let service = Loop { queue: Packets::new(4096.0), ..loops()[0] };
    let rate = service.capacity() * 1.6;
    let (mut kept, mut lost) = (0, 1 << 20);
    while lost - kept > 1 {
        let frames = (kept + lost) / 2;
        if lost_of_burst(&service, rate.get(), frames) == 0 { kept = frames } else { lost = frames }
    }
    let by_burst = service.queue_from_burst(rate, Packets::new(f64::from(kept as u32))).get();
    let latency = simulate(&service, rate.get(), PACKETS, 0.0, 17).latency;
    let by_latency = service.queue_from_overload(Seconds::new(latency)).get();
    for found in [by_burst, by_latency] {
        assert!((found / 4096.0 - 1.0).abs() < 0.03, "{by_burst} {by_latency}");
    }
}

/// The gate: costs fitted to noisy throughput, the fixed part to one latency
/// at low load, predict mean latency up to 0.9 of saturation within 20 %.
#[test]
fn latency_follows_from_throughput() {
    let truth = loops()[0];
    let mut random = fastrand::Rng::with_seed(8);
    let scenario = |burst: f64, clock: f64| Scenario {
        clock: Hertz::new(clock),
        burst: Packets::new(burst),
        transmit: false,
        ..Scenario::default()
    };
    let mut points = Vec::new();
    for burst in [1.0, 4.0, 16.0, 64.0, 256.0] {
        for _ in 0..3 {
            let rate = 3.3e9 / (78.0 + 318.0 / burst) * (0.95 + 0.1 * random.f64());
            points.push(Observation::new(scenario(burst, 3.3e9), rate));
        }
    }
    let driver = ThroughputModel {
        base: Costs::default(),
        free: vec![Term::ReceivePerPacket, Term::ReceivePerBurst],
    };
    let costs = driver.with(&fit(&driver, &points, Loss::Huber).unwrap().values);
    let service = costs.service(&scenario(64.0, 3.3e9), Seconds::ZERO, Packets::new(2048.0));
    let simulated = |share| simulate(&truth, at(&truth, share).get(), PACKETS, 0.0, 13).latency;
    let low = [Observation::new(at(&truth, 0.1), simulated(0.1))];
    let model = FixedLatency { service };
    let service = model.with(&fit(&model, &low, Loss::Square).unwrap().values);
    for share in [0.2, 0.4, 0.6, 0.8, 0.9] {
        let error = service.mean_latency(at(&truth, share)).get() / simulated(share) - 1.0;
        assert!(error.abs() < 0.2, "at {share}: {error}");
    }
}

#[test]
fn power_is_fitted() {
    let truth = Power { idle: Watts::new(35.0), busy: Watts::new(62.0), exponent: 0.6 };
    let points: Vec<_> = (0..=10)
        .map(|tenth| f64::from(tenth) / 10.0)
        .map(|share| Observation::new(share, truth.at(share).get()))
        .collect();
    let found = PowerModel.with(&fit(&PowerModel, &points, Loss::Huber).unwrap().values);
    assert!((found.idle - truth.idle).get().abs() < 0.01, "{found:?}");
    assert!((found.busy - truth.busy).get().abs() < 0.01, "{found:?}");
    assert!((found.exponent - truth.exponent).abs() < 0.01, "{found:?}");
}

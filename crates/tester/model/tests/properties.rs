//! Properties of any costs: more work is never faster, inversions are inverse, quantities survive
//! their text.

use linerate_model::{
    Access, Calibration, Cost, Costs, LatencyCurve, Limits, Loop, Memory, Plain, Scaling, Scenario,
    TableGrowth, Visit, line_rate, quantile,
    units::{
        BitsPerSecond, Bytes, Cycles, CyclesPerPacket, Hertz, Packets, PacketsPerSecond,
        PercentPerGbit, Seconds, SecondsPerByte, SecondsPerPacket, Watts,
    },
};
use proptest::prelude::*;

fn cost() -> impl Strategy<Value = Cost> {
    (1.0..500.0, 0.0..2000.0).prop_map(|(packet, burst)| Cost::new(packet, burst))
}

prop_compose! {
    fn costs()(
        receive in cost(),
        transmit in cost(),
        element in cost(),
        stall in 0.0..50e-9,
        times in proptest::collection::vec(1e-9..100e-9, 4),
        serial in 0.0..1.0,
        per_byte in 0.0..1e-9,
        contention in 0.0..0.3,
        coherence in 0.0..0.02,
    ) -> Costs {
        let mut times = times;
        times.sort_by(f64::total_cmp);
        let curve = times.iter().enumerate();
        let curve = curve.map(|(level, &time)| {
            (Bytes::new(1024.0 * 16f64.powi(level as i32)), Seconds::new(time))
        });
        Costs {
            receive,
            transmit,
            elements: [("Check".to_string(), element)].into(),
            stall: SecondsPerPacket::new(stall),
            memory: Memory { latency: LatencyCurve::new(curve), serial, scale: 1.0 },
            per_byte: SecondsPerByte::new(per_byte),
            scaling: Scaling { contention, coherence },
            ..Costs::default()
        }
    }
}

prop_compose! {
    fn scenarios()(
        clock in 1e9..5e9,
        burst in 1.0..256.0,
        work in 0.0..2000.0,
        count in 0.0..8.0,
        size in 1e3..1e9,
        frame in 64.0..1518.0,
        workers in 1..8_u32,
        times in 0.0..3.0,
    ) -> Scenario {
        Scenario {
            clock: Hertz::new(clock),
            burst: Packets::new(burst),
            work: CyclesPerPacket::new(work),
            accesses: vec![Access { count, working_set: Bytes::new(size), parallel: 2.0 }],
            touched: Bytes::new(frame),
            frame: Bytes::new(frame),
            workers,
            elements: vec![Visit { element: "Check".to_string(), times }],
            ..Scenario::default()
        }
    }
}

fn rate(costs: &Costs, scenario: &Scenario) -> f64 {
    costs.predict(scenario).throughput.get()
}

proptest! {
    #[test]
    fn throughput_is_monotonic(costs in costs(), scenario in scenarios(), by in 1.01..4.0) {
        let now = rate(&costs, &scenario) * (1.0 - 1e-12);
        let with = |change: &dyn Fn(&mut Scenario)| {
            let mut changed = scenario.clone();
            change(&mut changed);
            rate(&costs, &changed)
        };
        // Better conditions.
        prop_assert!(with(&|s| s.clock = s.clock * by) >= now);
        prop_assert!(with(&|s| s.burst = s.burst * by) >= now);
        prop_assert!(with(&|s| s.transmit = false) >= now);
        // Worse ones.
        let now = now * (1.0 + 1e-11);
        prop_assert!(with(&|s| s.work += CyclesPerPacket::new(by)) <= now);
        prop_assert!(with(&|s| s.touched = s.touched * by) <= now);
        prop_assert!(with(&|s| s.accesses[0].count *= by) <= now);
        prop_assert!(with(&|s| s.accesses[0].working_set = s.accesses[0].working_set * by) <= now);
        prop_assert!(with(&|s| s.elements[0].times += by) <= now);
        prop_assert!(with(&|s| s.limits.nic = Some(PacketsPerSecond::new(1e6))) <= now);
        // A faster clock does not help more than in proportion.
        prop_assert!(with(&|s| s.clock = s.clock * by) <= now * by);
    }

    #[test]
    fn the_breakdown_is_the_whole(costs in costs(), scenario in scenarios()) {
        let prediction = costs.predict(&scenario);
        let parts = prediction.per_packet;
        let one = parts.total().get() / f64::from(scenario.workers);
        prop_assert!((one * prediction.throughput.get() - 1.0).abs() < 1e-9);
        prop_assert!(parts.contention >= SecondsPerPacket::ZERO);
    }

    #[test]
    fn inversions_are_inverse(costs in costs(), scenario in scenarios()) {
        let prediction = costs.predict(&scenario);
        let reached = prediction.throughput;
        let exact = Calibration::exact(costs.clone());
        let same = |found: f64, wanted: f64| (found - wanted).abs() <= 1e-6 * wanted.abs().max(1.0);

        let clock = exact.clock_for(&scenario, reached, 0.9).unwrap();
        prop_assert!(same(clock.needed.value.get(), scenario.clock.get()));
        prop_assert_eq!(clock.limit, prediction.limit);
        // Rounding may ask for a hair more than the task's zero cycles leave.
        let budget = exact.budget_for(&scenario, reached * (1.0 - 1e-9), 0.9).unwrap();
        prop_assert!((budget.needed.value - scenario.work).get().abs() < 1e-2);

        let workers = exact.workers_for(&scenario, reached * (1.0 - 1e-9), 0.9).unwrap();
        let needed = workers.needed.value as u32;
        prop_assert!(needed <= scenario.workers);
        let fewer = Scenario { workers: needed - 1, ..scenario.clone() };
        prop_assert!(needed == 1 || rate(&costs, &fewer) < reached.get());
    }

    #[test]
    fn the_plain_model_is_the_extended_one_without_its_terms(
        io in 1.0..1000.0, work in 0.0..1000.0, clock in 1e9..5e9, frame in 64.0..1518.0,
    ) {
        let limits = Limits::link(BitsPerSecond::new(10e9));
        let costs = Costs { receive: Cost::new(io, 0.0), ..Costs::default() };
        let scenario = Scenario {
            clock: Hertz::new(clock),
            work: CyclesPerPacket::new(work),
            frame: Bytes::new(frame),
            limits,
            ..Scenario::default()
        };
        let plain = Plain { io: CyclesPerPacket::new(io) };
        let (rate, limit) =
            plain.throughput(scenario.clock, scenario.work, &limits, scenario.frame);
        let prediction = costs.predict(&scenario);
        prop_assert!((prediction.throughput / rate - 1.0).abs() < 1e-12);
        prop_assert_eq!(prediction.limit, limit);
    }

    #[test]
    fn latency_rises_with_load(a in 1e-9..1e-6, b in 0.0..1e-5, burst in 1.0..256.0) {
        let service = Loop {
            per_packet: SecondsPerPacket::new(a),
            per_burst: Seconds::new(b),
            burst: Packets::new(burst),
            fixed: Seconds::new(1e-6),
            queue: Packets::new(4096.0),
        };
        let mut before = Seconds::ZERO;
        for percent in (0..100).step_by(5) {
            let load = service.capacity() * (f64::from(percent) / 100.0);
            let latency = service.mean_latency(load);
            prop_assert!(latency >= before);
            prop_assert!(service.mean_vector(load) <= service.burst);
            prop_assert_eq!(service.loss(load), 0.0);
            before = latency;
        }
        let over = service.capacity() * 1.5;
        prop_assert!((service.loss(over) - 1.0 / 3.0).abs() < 1e-9);
        let burst = service.back_to_back(over).unwrap();
        prop_assert!((service.queue_from_burst(over, burst) / service.queue - 1.0).abs() < 1e-9);
    }

    #[test]
    fn workers_help_up_to_the_best_number(contention in 0.0..0.9, coherence in 0.0001..0.1) {
        let scaling = Scaling { contention, coherence };
        let best = scaling.best().unwrap();
        let at = |workers: u32| scaling.speedup(f64::from(workers));
        prop_assert!(at(best) >= at(best + 1));
        prop_assert!(best == 1 || at(best) >= at(best - 1));
        prop_assert!((at(1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn tables_grow_until_saturation(base in 1e-9..1e-6, step in 0.0..1e-7, full in 2.0..1e6) {
        let table = TableGrowth {
            base: SecondsPerPacket::new(base),
            step: SecondsPerPacket::new(step),
            saturation: full,
        };
        prop_assert_eq!(table.time(1.0), table.base);
        prop_assert_eq!(table.time(full * 3.0), table.time(full));
        prop_assert!(table.time(full) >= table.time(full / 2.0));
    }

    #[test]
    fn curves_stay_between_their_points(
        points in proptest::collection::vec((1.0..1e9, 1e-9..1e-7), 1..10), size in 1.0..2e9,
    ) {
        let points: Vec<_> =
            points.into_iter().map(|(size, time)| (Bytes::new(size), Seconds::new(time))).collect();
        let curve = LatencyCurve::new(points.clone());
        let times = || points.iter().map(|(_, time)| time.get());
        let (low, high) =
            (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        let found = curve.at(Bytes::new(size)).get();
        prop_assert!(low * (1.0 - 1e-9) <= found && found <= high * (1.0 + 1e-9));
        for &(size, time) in curve.points() {
            prop_assert!((curve.at(size) - time).get().abs() < 1e-15);
            prop_assert!(curve.covers(size));
        }
    }

    #[test]
    fn quantities_survive_their_text(value in 1e-11..1e14_f64) {
        // Four digits are printed.
        let near = |found: f64, unit: &str| -> Result<(), TestCaseError> {
            prop_assert!((found / value - 1.0).abs() < 5.1e-4, "{found} {unit} not {value}");
            Ok(())
        };
        near(Hertz::new(value).to_string().parse::<Hertz>().unwrap().get(), "Hz")?;
        near(Seconds::new(value).to_string().parse::<Seconds>().unwrap().get(), "s")?;
        near(Watts::new(value).to_string().parse::<Watts>().unwrap().get(), "W")?;
        near(BitsPerSecond::new(value).to_string().parse::<BitsPerSecond>().unwrap().get(), "b")?;
        near(
            PacketsPerSecond::new(value).to_string().parse::<PacketsPerSecond>().unwrap().get(),
            "pps",
        )?;
        near(Cycles::new(value).to_string().parse::<Cycles>().unwrap().get(), "cycles")?;
        near(Packets::new(value).to_string().parse::<Packets>().unwrap().get(), "packets")?;
        near(Bytes::new(value).to_string().parse::<Bytes>().unwrap().get(), "B")?;
        near(
            PercentPerGbit::new(value).to_string().parse::<PercentPerGbit>().unwrap().get(),
            "%/Gbit/s",
        )?;
        // In files they keep their digits, but for the last bit.
        let text = serde_json::to_string(&Hertz::new(value)).unwrap();
        let found = serde_json::from_str::<Hertz>(&text).unwrap();
        prop_assert!((found / Hertz::new(value) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn reading_a_quantity_does_not_panic(text in "\\PC{0,12}") {
        let _ = text.parse::<Hertz>();
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<CyclesPerPacket>();
    }

    #[test]
    fn quantiles_are_ordered(
        mut values in proptest::collection::vec(-1e6..1e6, 1..40), one in 0.0..1.0, other in 0.0..1.0,
    ) {
        values.sort_by(f64::total_cmp);
        let (low, high) = if one < other { (one, other) } else { (other, one) };
        prop_assert!(quantile(&values, low) <= quantile(&values, high));
        prop_assert_eq!(quantile(&values, 0.0), values.first().copied());
        prop_assert_eq!(quantile(&values, 1.0), values.last().copied());
    }

    #[test]
    fn wider_links_and_shorter_frames_carry_more_frames(
        bandwidth in 1e6..4e11, frame in 64.0..9000.0, by in 1.01..10.0,
    ) {
        let at = |bandwidth, frame| line_rate(BitsPerSecond::new(bandwidth), Bytes::new(frame));
        prop_assert!(at(bandwidth * by, frame) > at(bandwidth, frame));
        prop_assert!(at(bandwidth, frame * by) < at(bandwidth, frame));
    }
}

//! Calibration, criteria and report on the records of a made-up machine: its parameters are found,
//! the criteria it was made to meet hold, and one that it is made to miss does not.

use std::{collections::BTreeMap, fs};

use linerate_lab::{
    calibration::{CalibrationError, LOOP, calibrate},
    criteria::{Verdict, judge},
    point::{
        Driver, Element, Forward, Graph, Idle, Inline, InlinePath, Latency, Load, Outcome, Pages,
        Pipeline, Placement, Point, Record, Side, Spec, Touch, Values, Walk, value,
    },
    report::{html, report},
    store::{MACHINE, Store},
};

const CLOCK: f64 = 2.5e9;

/// The machine: cycles per packet and burst of receiving, sending and the loop around them.
struct Machine {
    receive: (f64, f64),
    transmit: (f64, f64),
    around: (f64, f64),
    contention: f64,
    /// Whether bursts help.
    batching: bool,
    random: fastrand::Rng,
    records: Vec<Record>,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            receive: (20.0, 60.0),
            transmit: (12.0, 90.0),
            around: (3.0, 25.0),
            contention: 0.04,
            batching: true,
            random: fastrand::Rng::with_seed(11),
            records: Vec::new(),
        }
    }

    fn noise(&mut self) -> f64 {
        // The sum of uniform ones is near enough to a normal one; 2 %.
        let sum: f64 = (0..12).map(|_| self.random.f64()).sum();
        (0.02 * (sum - 6.0)).exp()
    }

    fn add(&mut self, kind: Point, values: &[(&str, f64)]) {
        for repetition in 0..3 {
            let mut all = Values::from([(value::COUNTER.to_owned(), CLOCK)]);
            for (name, value) in values {
                let noise = self.noise();
                all.insert((*name).into(), value * noise);
            }
            let spec = Spec { repetition, ..Spec::new(kind.clone()) };
            let record = Record::new(spec, kind.name(), "made-up", (Outcome::Measured, None, all));
            self.records.push(record);
        }
    }

    fn unsupported(&mut self, kind: Point, reason: &str) {
        let outcome = (Outcome::Unsupported, Some(reason.to_owned()), Values::new());
        self.records.push(Record::new(Spec::new(kind), "x", "made-up", outcome));
    }

    fn io(&self, (per_packet, per_burst): (f64, f64), burst: u32) -> f64 {
        per_packet + per_burst / if self.batching { f64::from(burst) } else { 1.0 }
    }

    /// Nanoseconds of an access.
    fn access(bytes: f64, pages: Pages) -> f64 {
        let far = if pages == Pages::Huge { 60.0 } else { 90.0 };
        let mut held = 0.0;
        [(32e3, 1.5), (1e6, 5.0), (24e6, 18.0), (f64::INFINITY, far)]
            .into_iter()
            .map(|(capacity, time): (f64, f64)| {
                let share = (capacity / bytes).min(1.0);
                let part = (share - held) * time;
                held = share;
                part
            })
            .sum()
    }

    fn forward(&mut self, forward: Forward) {
        let factor = if forward.driver == Driver::Null { 0.4 } else { 1.0 };
        let io = [self.receive, self.transmit, self.around];
        let io: f64 = io.into_iter().map(|cost| self.io(cost, forward.burst)).sum();
        let touched = match forward.touch {
            Touch::None | Touch::Mac => 0.0,
            _ => f64::from(forward.frame),
        };
        let accesses = f64::from(forward.accesses);
        let memory = accesses * Machine::access(forward.working_set.max(64) as f64, forward.pages);
        let large = if forward.slots > 4096 { 40.0 } else { 0.0 };
        let cycles = factor * io
            + f64::from(forward.work)
            + large
            + 0.1 * touched
            + 1.1 * memory * 1e-9 * CLOCK;
        let workers = f64::from(forward.workers);
        let rate = workers * CLOCK / cycles / (1.0 + self.contention * (workers - 1.0));
        self.add(Point::Forward(forward), &[(value::RATE, rate), (value::CYCLES, cycles)]);
    }

    fn everything(mut self) -> Vec<Record> {
        let usual = Forward::default();
        for driver in [Driver::Null, Driver::Ring] {
            let usual = Forward { driver, ..usual.clone() };
            for burst in [1, 2, 4, 8, 16, 64, 128, 256] {
                self.forward(Forward { burst, ..usual.clone() });
                self.forward(Forward { burst, touch: Touch::Mac, ..usual.clone() });
            }
            for work in [0, 100, 200, 400, 600, 800, 1000] {
                self.forward(Forward { work, ..usual.clone() });
            }
        }
        for burst in [1, 4, 16, 64, 256] {
            let side = Side { burst, ..Side::default() };
            let rate = |cycles: f64| [(value::RATE, CLOCK / cycles)];
            let (receive, transmit) = (self.io(self.receive, burst), self.io(self.transmit, burst));
            self.add(Point::Receive(side.clone()), &rate(receive));
            self.add(Point::Transmit(side), &rate(transmit));
        }
        for frame in [128, 256, 512, 1518] {
            self.forward(Forward { frame, ..usual.clone() });
            self.forward(Forward { frame, touch: Touch::Checksum, ..usual.clone() });
        }
        for power in 14..28 {
            let bytes = 1u64 << power;
            for pages in [Pages::Small, Pages::Huge] {
                let time = Machine::access(bytes as f64, pages);
                self.add(Point::Walk(Walk { bytes, pages, chains: 1 }), &[(value::ACCESS, time)]);
                let point =
                    Forward { accesses: 1, working_set: bytes, pages, work: 100, ..usual.clone() };
                self.forward(point);
            }
            let time = Machine::access(bytes as f64, Pages::Small) * (1.0 + 0.25 * 3.0) / 4.0;
            let walk = Walk { bytes, pages: Pages::Small, chains: 4 };
            self.add(Point::Walk(walk), &[(value::ACCESS, time)]);
        }
        for work in [200, 400, 600] {
            self.forward(Forward { work, workers: 2, ..usual.clone() });
            self.forward(Forward { work, burst: 8, workers: 2, ..usual.clone() });
            self.forward(Forward { work, burst: 8, ..usual.clone() });
        }
        for slots in [256, 1024, 4096, 65536] {
            self.forward(Forward { slots, touch: Touch::Mac, ..usual.clone() });
        }
        for cycles in [0, 100, 500, 1000] {
            let burnt = f64::from(cycles) + 12.0;
            self.add(Point::Load(Load { cycles }), &[(value::BURNT, burnt)]);
        }
        for (class, cost) in [("Null", (0.1, 8.0)), ("IPFilter", (25.0, 60.0))] {
            for vector in [1, 4, 32, 256] {
                let element = Element { class: class.into(), vector, arguments: None };
                let cycles = cost.0 + cost.1 / f64::from(vector);
                self.add(Point::Element(element), &[(value::CYCLES, cycles)]);
            }
        }
        for vector in [4, 16, 64, 256, 1024] {
            let graph = Graph { configuration: "a -> b".into(), vector, ..Graph::default() };
            let rate = CLOCK / (40.0 + 200.0 / f64::from(vector));
            self.add(
                Point::Graph(graph),
                &[(value::RATE, rate), (value::VECTOR, f64::from(vector))],
            );
        }
        self.latencies();
        for (placement, hand) in [(Placement::OtherCore, 40.0), (Placement::OtherNode, 90.0)] {
            for burst in [8, 32, 128] {
                let pipeline = Pipeline { placement, burst, ..Pipeline::default() };
                let cycles = self.io(self.transmit, burst) + hand + 100.0 / f64::from(burst);
                let rate = CLOCK / cycles;
                self.add(Point::Pipeline(pipeline), &[(value::RATE, rate), (value::BUSY, 2.0)]);
            }
        }
        for frame in [64, 256, 1024, 1518] {
            for (path, most) in [(InlinePath::Kernel, 0.6e6), (InlinePath::Ours, 2.0e6)] {
                let inline = Inline { path, frame, ..Inline::default() };
                let offered = 1e9 / (8.0 * (f64::from(frame) + 20.0));
                let lost = 1.0 - (most / (1.0 + f64::from(frame) / 2000.0) / offered).min(1.0);
                self.add(Point::Inline(inline), &[(value::LOST, lost)]);
            }
        }
        let slow = Forward { clock_khz: 1_200_000, ..usual };
        self.unsupported(Point::Forward(slow), "the clock cannot be set");
        self.records
    }

    /// A loop in accordance with the equations of the model.
    fn latencies(&mut self) {
        let usual = Latency::default();
        let per_packet =
            (self.receive.0 + self.transmit.0 + self.around.0 + f64::from(usual.work)) / CLOCK;
        let per_burst =
            (self.receive.1 + self.transmit.1 + self.around.1 + f64::from(usual.burst_work))
                / CLOCK;
        let limit = f64::from(usual.burst);
        let capacity = limit / (per_burst + per_packet * limit);
        for slots in [256, 1024] {
            for load_percent in [10, 30, 50, 60, 70, 80, 90, 120] {
                for idle in [Idle::Poll, Idle::Block] {
                    let offered = capacity * f64::from(load_percent) / 100.0;
                    let share = offered * per_packet;
                    let round = per_burst / (1.0 - share);
                    let square = per_packet * per_packet * offered * round / (1.0 - share * share)
                        + round * round;
                    let mean = 2e-6 + per_packet + per_burst + (0.5 + share) * square / round;
                    let over = load_percent > 100;
                    let queue = f64::from(slots) / capacity;
                    let late = if idle == Idle::Block { 5e-6 } else { 0.0 };
                    let mean = if over { 2e-6 + queue } else { mean + late };
                    let vector = offered * round;
                    let vector = if over { limit } else { vector / (1.0 - (-vector).exp()) };
                    let latency = Latency { load_percent, slots, idle, ..usual.clone() };
                    self.add(
                        Point::Latency(latency),
                        &[
                            (value::OFFERED, offered),
                            (value::LATENCY_TYPICAL, mean * 1e9),
                            (value::VECTOR, vector.min(limit)),
                        ],
                    );
                }
            }
        }
    }
}

#[track_caller]
fn near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found - wanted).abs() <= tolerance, "{found}, not {wanted}");
}

#[test]
fn the_parameters_of_the_machine_are_found() {
    let records = Machine::new().everything();
    let found = calibrate(&records, &BTreeMap::new()).unwrap();
    near(found.cycles().get() / CLOCK, 1.0, 0.02);
    let ring = found.costs("ring").unwrap();
    near(ring.receive.per_packet.get(), 20.0, 1.5);
    near(ring.receive.per_burst.get(), 60.0, 4.0);
    near(ring.transmit.per_packet.get(), 12.0, 1.5);
    near(ring.transmit.per_burst.get(), 90.0, 5.0);
    near(ring.elements[LOOP].per_packet.get(), 3.0, 2.0);
    near(ring.elements[LOOP].per_burst.get(), 25.0, 8.0);
    near(found.memory.serial, 0.25, 0.03);
    near(found.memory.scale, 1.1, 0.08);
    near(found.scaling.as_ref().unwrap().estimate.value, 0.04, 0.02);
    near(found.per_byte[&Touch::Checksum].estimate.value, 0.1 / CLOCK, 0.01 / CLOCK);
    let filter = &found.elements["IPFilter"];
    near(filter.cost.per_packet.get(), 25.0, 1.0);
    near(filter.cost.per_burst.get(), 60.0, 3.0);
    near(found.latency.as_ref().unwrap().service.fixed.get(), 2e-6, 0.2e-6);
    let handover = found.handover.values().next().unwrap();
    near(handover.per_packet.get(), 40.0, 3.0);

    let names: Vec<&str> = found.gates.iter().map(|gate| &*gate.name).collect();
    for gate in &found.gates {
        assert!(gate.passes(), "{gate:?}");
    }
    for wanted in
        ["burst and load, ring ports", "accesses to memory, small pages", "several workers"]
    {
        assert!(names.contains(&wanted), "{names:?}");
    }
    assert!(found.missing.iter().any(|line| line.contains("xdp ports: not measured")));
}

#[track_caller]
fn assert_alike(one: &serde_json::Value, other: &serde_json::Value) {
    use serde_json::Value;
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()));
            one.values().zip(other.values()).for_each(|(one, other)| assert_alike(one, other));
        }
        (Value::Array(one), Value::Array(other)) => {
            assert_eq!(one.len(), other.len());
            one.iter().zip(other).for_each(|(one, other)| assert_alike(one, other));
        }
        (Value::Number(one), Value::Number(other)) => {
            let [one, other] = [one, other].map(|number| number.as_f64().unwrap());
            assert!((one - other).abs() <= 1e-12 * one.abs(), "{one} {other}");
        }
        _ => assert!(one == other, "{one} {other}"),
    }
}

#[test]
fn a_calibration_is_read_as_written() {
    let found = calibrate(&Machine::new().everything(), &BTreeMap::new()).unwrap();
    let text = serde_json::to_string(&found).unwrap();
    let read: linerate_lab::calibration::Calibrated = serde_json::from_str(&text).unwrap();
    // Numbers are read to within their last digit.
    let [found_json, read_json] = [&found, &read].map(|one| serde_json::to_value(one).unwrap());
    assert_alike(&found_json, &read_json);
    let error = calibrate(&[], &BTreeMap::new()).unwrap_err();
    assert!(matches!(error, CalibrationError::Empty));
}

fn verdicts(records: &[Record]) -> BTreeMap<u32, (Verdict, String)> {
    let calibrated = calibrate(records, &BTreeMap::new()).unwrap();
    let judged = judge(records, &calibrated);
    judged.into_iter().map(|one| (one.number, (one.verdict, one.evidence))).collect()
}

#[test]
fn criteria_hold_where_the_machine_is_as_it_should_be() {
    let found = verdicts(&Machine::new().everything());
    assert_eq!(found.len(), 11);
    for (number, (verdict, evidence)) in &found {
        let wanted = if *number == 3 { Verdict::CannotShow } else { Verdict::Pass };
        assert_eq!(*verdict, wanted, "{number}: {evidence}");
    }
    assert!(found[&3].1.contains("the clock cannot be set"), "{}", found[&3].1);
}

#[test]
fn criteria_fail_where_it_is_not() {
    let odd = Machine { batching: false, contention: 0.9, ..Machine::new() };
    let mut records = odd.everything();
    for record in &mut records {
        let spec = record.spec.clone();
        let mut change = |name: &str, to: f64| {
            record.values.insert(name.into(), to);
        };
        match spec.kind {
            Point::Walk(_) => change(value::ACCESS, 5.0),
            Point::Graph(graph) => change(value::RATE, 1e5 * f64::from(graph.vector)),
            Point::Latency(this) if this.idle == Idle::Block => change(value::LATENCY_TYPICAL, 1.0),
            Point::Latency(_) => change(value::VECTOR, 3.0),
            Point::Forward(this) if this.frame > 64 => change(value::RATE, 1e6),
            Point::Forward(this) if this.slots > 4096 => change(value::RATE, 1e9),
            Point::Pipeline(this) if this.placement == Placement::OtherNode => {
                change(value::RATE, 1e9);
            }
            Point::Inline(this) => change(value::LOST, f64::from(this.frame) / 1518.0),
            _ => {}
        }
    }
    let found = verdicts(&records);
    for number in [1, 4, 5, 6, 7, 8, 9, 10, 11] {
        let (verdict, evidence) = &found[&number];
        assert_eq!(*verdict, Verdict::Fail, "{number}: {evidence}");
        assert!(evidence.contains("not so: "), "{number}: {evidence}");
    }
}

#[test]
fn repetitions_that_contradict_one_another_show_nothing() {
    let mut records = Machine::new().everything();
    let rate = |record: &Record| record.values.get(value::RATE).copied();
    let bursts = records.iter().filter(|one| matches!(one.spec.kind, Point::Forward(_)));
    let spoilt: Vec<Record> = bursts
        .filter_map(|record| {
            let mut spoilt = record.clone();
            spoilt.values.insert(value::RATE.into(), rate(record)? / 1000.0);
            Some(spoilt)
        })
        .collect();
    records.extend(spoilt);
    let (verdict, evidence) = &verdicts(&records)[&1];
    assert_eq!(*verdict, Verdict::CannotShow, "{evidence}");
    assert!(evidence.contains("repetitions of a point differ"), "{evidence}");
}

#[test]
fn criteria_without_measurements_are_not_judged() {
    let mut machine = Machine::new();
    machine.forward(Forward::default());
    for (number, (verdict, evidence)) in verdicts(&machine.records) {
        assert_eq!(verdict, Verdict::NotMeasured, "{number}: {evidence}");
        assert!(evidence.contains("not measured"), "{number}: {evidence}");
    }
}

/// A report of one experiment has its results, first the figures, and nothing of the untried
/// experiments.
#[test]
fn a_part_becomes_a_report_of_that_part() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let mut machine = Machine::new();
    for burst in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        machine.forward(Forward { burst, touch: Touch::Mac, ..Forward::default() });
        machine.forward(Forward { burst, driver: Driver::Ring, ..Forward::default() });
        let touch = Touch::Mac;
        machine.forward(Forward { burst, touch, driver: Driver::Ring, ..Forward::default() });
    }
    for record in &machine.records {
        store.append(record).unwrap();
    }
    store.write_json(MACHINE, &serde_json::json!({ "id": "made-up" })).unwrap();
    let (made, _) = report(dir.path()).unwrap();
    assert!(made.summary[0].contains("cycles per packet"), "{:?}", made.summary);
    let (page, text) = (html(&made).unwrap(), made.markdown());
    for text in [&page, &text] {
        assert!(!text.contains("cannot be shown"), "{text}");
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in {text}"));
        assert!(at("What was found") < at("What any machine must show") || text == &page);
        assert!(at("Throughput against burst") < at("Not measured here"));
        assert!(at("Not measured here") < at("Residuals"));
    }
}

#[test]
fn a_directory_becomes_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    for record in Machine::new().everything() {
        store.append(&record).unwrap();
    }
    let machine = serde_json::json!({ "id": "made-up", "cpu": { "model": "none <at all>" },
        "caches": [49152, 1048576] });
    store.write_json(MACHINE, &machine).unwrap();
    let quartiles = |median: f64| serde_json::json!({ "low": 0.9 * median, "median": median, "high": 1.1 * median });
    let row = serde_json::json!({ "name": "testpmd", "rounds": 5, "ratio": quartiles(1.25),
        "forwarded_pps": quartiles(2.5e6), "generator_limited": false });
    let result =
        serde_json::json!({ "rows": [row], "missing": [{ "name": "ovs", "reason": "no" }] });
    store.write("compare.json", format!("{{\"command\": 1}}\n{result}\n").as_bytes()).unwrap();
    let (made, _) = report(dir.path()).unwrap();
    let ids: Vec<&str> = made.figures.iter().map(|figure| &*figure.id).collect();
    for wanted in
        ["burst", "load", "stack", "frame", "memory", "chains", "access", "vector-limit", "latency"]
    {
        assert!(ids.contains(&wanted), "{wanted}: {ids:?}");
    }
    for criterion in made.criteria.iter().filter(|one| one.verdict == Verdict::Pass) {
        assert!(criterion.figure.is_some(), "{}: no figure among {ids:?}", criterion.number);
    }
    let page = html(&made).unwrap();
    for text in [
        "cpu: model",
        "none &lt;at all&gt;",
        "testpmd",
        "2.5 M",
        "1.25",
        "Not measured: ovs (no)",
        "48 KiB",
        "linerate lab run forward",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let text = made.markdown();
    assert!(text.contains("| 1 | Throughput rises with the burst"), "{text}");
    fs::remove_file(dir.path().join(MACHINE)).unwrap();
    assert!(report(dir.path()).unwrap_err().to_string().contains("machine.json"));
}

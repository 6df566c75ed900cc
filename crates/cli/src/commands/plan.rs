//! `linerate plan`: what a configuration will reach, and what a rate needs.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use linerate_graph::Library;
use linerate_lab::{
    FrameMaker,
    calibration::{self, Calibrated, ElementFit},
    instruments,
    measure::{Bench, element_classes, has_probe},
    plan::{
        Line, Ports, Question, SampleError, SampleRun, Visit, estimate, reached, unlike,
        unmeasured, visits, with_arguments,
    },
    point::{Arguments, Destinations, Element, Kind, Outcome, Spec, value},
    report::Table,
};
use linerate_model::{
    Answer, Calibration, Estimate, Limits, Prediction, Scenario, Unreachable,
    fit::Observation,
    units::{Bytes, CyclesPerPacket, Hertz, Packets, PacketsPerSecond},
};
use linerate_port::pcap;
use serde::Serialize;
use serde_json::json;

use crate::{
    args::{Format, Plan},
    configuration::{Parsed, check_variables, click_path},
    exit::{ConfigurationError, UsageError, cannot_read, cannot_write},
};

/// Sizes of frames at which a class is measured now.
const VECTORS: [u32; 4] = [1, 8, 64, 256];
/// How often, and how long.
const REPETITIONS: u32 = 3;
const DURATION_MS: u64 = 120;
/// Destinations of the traffic that elements are measured with.
const ADDRESSES: u32 = 4096;
/// Most packets of a capture file that are looked at.
const SAMPLE_LIMIT: usize = 1 << 16;
/// How long a configuration runs to be checked.
const CHECKED: Duration = Duration::from_millis(600);
/// A share of packets dropped at one element that is worth a word.
const DROPPED: f64 = 0.1;
/// The driver that is charged where there is no configuration.
const USUAL: &str = "ring";

pub(crate) fn run(args: &Plan, library: &Library) -> Result<()> {
    let path = if args.calibration.is_dir() {
        args.calibration.join(calibration::FILE)
    } else {
        args.calibration.clone()
    };
    let text = fs::read_to_string(&path)
        .map_err(|error| cannot_read(&path.display().to_string(), error))?;
    let mut calibrated: Calibrated = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a calibration", path.display()))?;
    // Elements were measured in cycles of the counter; ports and loads in those
    // that packets see.
    let clock = if args.has_configuration() { calibrated.counter } else { calibrated.cycles() };
    let scenario = Scenario {
        clock: args.clock.unwrap_or(clock),
        burst: Packets::new(args.burst.into()),
        work: CyclesPerPacket::new(args.work.into()),
        frame: Bytes::new(args.frame.into()),
        workers: args.cores,
        limits: Limits { link: args.link, ..Limits::default() },
        ..calibration::forwarder()
    };
    let answer = if args.has_configuration() {
        configuration(args, library, scenario, &mut calibrated, &path)?
    } else {
        parameters(args, scenario, &calibrated)?
    };
    answer.show(args)
}

/// Ports and a task, without a configuration.
fn parameters(args: &Plan, scenario: Scenario, calibrated: &Calibrated) -> Result<Found> {
    let driver = args.port.as_deref().unwrap_or(USUAL);
    let Some(fitted) = calibrated.drivers.get(driver) else {
        let known: Vec<&str> = calibrated.drivers.keys().map(String::as_str).collect();
        let advice = if known.is_empty() {
            "`linerate lab run burst` measures some".into()
        } else {
            format!("there are {}", known.join(", "))
        };
        return Err(UsageError(format!("{driver} ports were not measured: {advice}")).into());
    };
    Ok(Found::new(args, fitted.calibration.clone(), scenario, Vec::new()))
}

fn configuration(
    args: &Plan,
    library: &Library,
    scenario: Scenario,
    calibrated: &mut Calibrated,
    path: &Path,
) -> Result<Found> {
    let visits = try_out(args, library, |parsed, sample, sample_run| {
        visits(parsed.flat.clone(), library, sample, sample_run)
    })?;
    for visit in visits.iter().filter(|visit| visit.dropped >= DROPPED) {
        eprintln!(
            "note: {:.0} % of the sample packets are dropped at {}: others may fare better \
             (--packets, --write)",
            visit.dropped * 100.0,
            visit.name
        );
    }
    let ports = match &args.port {
        _ if args.check => Ports::Samples,
        Some(driver) => Ports::Driver(driver.clone()),
        None => Ports::Nothing,
    };
    if args.measure && measure(calibrated, library, &visits, &ports)? {
        let text = serde_json::to_string(calibrated)? + "\n";
        fs::write(path, text).map_err(|error| cannot_write(path, error))?;
    }
    for (class, Arguments { config, .. }) in unlike(calibrated, &visits) {
        eprintln!(
            "note: {class}({}) is charged what {class} cost with other arguments; --measure \
             measures it with these",
            shortened(&config)
        );
    }
    let question = Question { ports, scenario };
    let found = estimate(calibrated, &question, &visits).map_err(|error| {
        let missing = unmeasured(calibrated, &visits, &question.ports);
        let can = |class: &String| {
            // Else it was tried.
            !args.measure && library.find(class).is_some_and(has_probe)
                || element_classes().any(|known| known == class)
        };
        let advice = match missing.iter().filter(|class| can(class)).count() {
            0 => "",
            count if count == missing.len() => "; --measure measures them now",
            _ => "; --measure measures some of them now",
        };
        anyhow!("{error}{advice}")
    })?;
    let mut unknown: Vec<&str> =
        found.lines.iter().filter(|line| !line.known).map(|line| line.visit.class).collect();
    unknown.sort_unstable();
    unknown.dedup();
    for class in unknown {
        let advice = if !args.measure && library.find(class).is_some_and(has_probe) {
            "; --measure measures it"
        } else {
            ""
        };
        eprintln!(
            "note: nobody has measured what {class} costs: it may be as little or as much as any \
             element that was, and the interval is as wide{advice}"
        );
    }
    let mut found = Found::new(args, found.calibration, found.scenario, found.lines);
    if args.check {
        let bench = Bench::new(library.clone());
        let reached = try_out(args, library, |parsed, sample, sample_run| {
            reached(parsed.flat.clone(), library, sample, sample_run, (&bench, CHECKED))
        })?;
        found.checked = Some(PacketsPerSecond::new(reached.rate));
    }
    Ok(found)
}

/// The first words of a long text.
fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Does something with the configuration and its sample packets.
fn try_out<T>(
    args: &Plan,
    library: &Library,
    run: impl FnOnce(&Parsed, &mut FrameMaker, &SampleRun) -> Result<T, SampleError>,
) -> Result<T> {
    let (source, globals) = args.configuration.source()?;
    let text = source.read().map_err(|error| cannot_read(source.name(), error))?;
    let parsed = Parsed::new(source.name(), &text, &globals, library, &click_path());
    check_variables(&globals, &parsed.sources)?;
    if parsed.found.has_errors() {
        return Err(ConfigurationError::new(&parsed.found, &parsed.sources).into());
    }
    let sample_run =
        SampleRun { vector: args.burst.into(), writes: args.write.clone(), ..SampleRun::default() };
    let mut sample = match &args.packets {
        Some(file) => captured(file)?,
        None => {
            let frames = instruments::frames(Destinations::Uniform, ADDRESSES, args.frame, 1);
            FrameMaker::of_frames(frames.map_err(UsageError)?)?
        }
    };
    run(&parsed, &mut sample, &sample_run).map_err(|error| match error {
        SampleError::Configuration(found) => {
            ConfigurationError::new(&found, &parsed.sources).into()
        }
        other => other.into(),
    })
}

/// The packets of a capture file.
fn captured(file: &Path) -> Result<FrameMaker> {
    let mut reader = pcap::Reader::open(file)?;
    let mut frames = Vec::new();
    while frames.len() < SAMPLE_LIMIT
        && let Some(record) = reader.next()?
    {
        frames.push(record.data.to_vec());
    }
    FrameMaker::of_frames(frames).with_context(|| file.display().to_string())
}

/// Measures what visited elements cost that have no cost yet, in small
/// configurations; says whether there were any.
fn measure(
    calibrated: &mut Calibrated,
    library: &Library,
    visits: &[Visit],
    ports: &Ports,
) -> Result<bool> {
    let bench = Bench::new(library.clone());
    let mut wanted: Vec<(String, Element)> = unlike(calibrated, visits)
        .into_iter()
        .map(|(class, arguments)| {
            let name = with_arguments(class, &arguments.config);
            (name, Element { class: class.into(), vector: 1, arguments: Some(arguments) })
        })
        .collect();
    // Those there is no configuration for, as they are in this one.
    let mut others = BTreeMap::new();
    let own = |visit: &Visit| {
        let Visit { class, config, outputs, .. } = visit.clone();
        let name = with_arguments(class, &config);
        let arguments = Some(Arguments { config, outputs });
        (name, Element { class: class.into(), vector: 1, arguments })
    };
    for class in unmeasured(calibrated, visits, ports) {
        // Whichever case there is first; what depends on arguments is there.
        let is_case = |known: &&str| *known == class || known.split(':').next() == Some(&class);
        let case = element_classes().find(is_case);
        match case {
            _ if wanted.iter().any(|(_, one)| one.class == class) => {}
            Some(case) => {
                let element = Element { class: case.into(), vector: 1, arguments: None };
                wanted.push((case.into(), element));
            }
            None => others.extend(visits.iter().filter(|visit| visit.class == class).map(own)),
        }
    }
    for (name, element) in &wanted {
        eprintln!("measuring {}", shortened(name));
        calibrated.elements.insert(name.clone(), one(&bench, element)?);
    }
    // What they need of the packets is not known: some cannot be measured so.
    for (name, element) in &others {
        eprintln!("measuring {}", shortened(name));
        match one(&bench, element) {
            Ok(fitted) => drop(calibrated.elements.insert(name.clone(), fitted)),
            Err(error) => eprintln!("note: not measured: {error:#}"),
        }
    }
    Ok(!wanted.is_empty() || !others.is_empty())
}

fn one(bench: &Bench, element: &Element) -> Result<ElementFit> {
    let mut points = Vec::new();
    for repetition in 0..REPETITIONS {
        for vector in VECTORS {
            let kind = Kind::Element(Element { vector, ..element.clone() });
            let spec = Spec { repetition, duration_ms: DURATION_MS, ..Spec::new(kind) };
            let (outcome, reason, values) = bench.measure(&spec);
            if outcome != Outcome::Measured {
                return Err(anyhow!("{}: {}", element.class, reason.unwrap_or_default()));
            }
            let at = values.get(value::VECTOR).copied().unwrap_or(vector.into());
            if let Some(cycles) = values.get(value::CYCLES) {
                points.push(Observation { input: at, value: *cycles, weight: at.sqrt() });
            }
        }
    }
    calibration::element(&points).with_context(|| element.class.clone())
}

/// What was found.
struct Found {
    scenario: Scenario,
    prediction: Prediction,
    interval: Estimate<PacketsPerSecond>,
    cycles: CyclesPerPacket,
    lines: Vec<Line>,
    wanted: Option<Wanted>,
    /// What the configuration reached.
    checked: Option<PacketsPerSecond>,
}

/// What a rate needs.
#[derive(Serialize)]
struct Wanted {
    rate: PacketsPerSecond,
    #[serde(serialize_with = "answered")]
    clock: Result<Answer<Hertz>, Unreachable>,
    #[serde(serialize_with = "answered")]
    cores: Result<Answer<f64>, Unreachable>,
    #[serde(serialize_with = "answered")]
    task_cycles: Result<Answer<CyclesPerPacket>, Unreachable>,
}

fn answered<T: Serialize, S: serde::Serializer>(
    answer: &Result<Answer<T>, Unreachable>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match answer {
        Ok(answer) => answer.serialize(serializer),
        Err(Unreachable { limit, at_most }) => {
            json!({ "unreachable": { "limit": limit, "at_most": at_most } }).serialize(serializer)
        }
    }
}

impl Found {
    fn new(args: &Plan, calibration: Calibration, scenario: Scenario, lines: Vec<Line>) -> Found {
        let level = f64::from(args.confidence) / 100.0;
        let (prediction, interval) = calibration.predict(&scenario, level);
        let wanted = args.rate.map(|rate| Wanted {
            rate,
            clock: calibration.clock_for(&scenario, rate, level),
            cores: calibration.workers_for(&scenario, rate, level),
            task_cycles: calibration.budget_for(&scenario, rate, level),
        });
        let cycles = calibration.costs.overhead(&scenario) + scenario.work;
        Found { scenario, prediction, interval, cycles, lines, wanted, checked: None }
    }

    fn show(&self, args: &Plan) -> Result<()> {
        let mut out = std::io::stdout().lock();
        match args.format {
            Format::Json => writeln!(out, "{}", self.json())?,
            Format::Text => out.write_all(self.text(args.confidence).as_bytes())?,
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "throughput_pps": self.interval,
            "limit": self.prediction.limit,
            "cycles_per_packet": self.cycles,
            "clock_hz": self.scenario.clock,
            "cores": self.scenario.workers,
            "elements": self.lines,
            "wanted": self.wanted,
            "measured_pps": self.checked,
            "error": self.error(),
        })
    }

    /// How much more was predicted than measured, as a share.
    fn error(&self) -> Option<f64> {
        self.checked.map(|measured| self.prediction.throughput.get() / measured.get() - 1.0)
    }

    fn text(&self, confidence: u8) -> String {
        let mut text = String::new();
        if !self.lines.is_empty() {
            let columns = [
                "element",
                "class",
                "visits",
                "vector",
                "cycles/visit",
                "cycles/packet",
                "dropped",
            ];
            let mut table = Table::new("elements", "", "", &columns);
            for Line { visit, cycles_per_visit, cycles_per_packet, .. } in &self.lines {
                table.push([
                    visit.name.clone(),
                    visit.class.into(),
                    format!("{:.3}", visit.times),
                    format!("{:.1}", visit.mean_vector),
                    format!("{cycles_per_visit:.1}"),
                    format!("{cycles_per_packet:.1}"),
                    format!("{:.1} %", visit.dropped * 100.0),
                ]);
            }
            text += &table.text();
            text.push('\n');
        }
        let Scenario { clock, workers, .. } = self.scenario;
        let plural = if workers == 1 { "" } else { "s" };
        let Estimate { low, high, .. } = self.interval;
        text += &format!(
            "{} ({low} to {high} with {confidence} % confidence) at {clock} on {workers} core{plural}: \
             {:.1} cycles per packet\nlimited by {}\n",
            self.prediction.throughput,
            self.cycles.get(),
            self.prediction.limit
        );
        if let (Some(measured), Some(error)) = (self.checked, self.error()) {
            text += &format!("measured {measured}: the answer is {:+.1} % off\n", error * 100.0);
        }
        if let Some(wanted) = &self.wanted {
            text += &format!("\nfor {}:\n", wanted.rate);
            text += &needs("clock", &wanted.clock, |clock| clock.to_string());
            text += &needs("cores", &wanted.cores, |cores| format!("{cores:.0}"));
            text += &needs("task", &wanted.task_cycles, |cycles| cycles.to_string());
        }
        text
    }
}

fn needs<T>(
    name: &str,
    answer: &Result<Answer<T>, Unreachable>,
    write: impl Fn(&T) -> String,
) -> String {
    match answer {
        Ok(Answer { needed: Estimate { value, low, high }, .. }) => {
            format!("  {name}: {} ({} to {})\n", write(value), write(low), write(high))
        }
        Err(error) => format!("  {name}: {error}\n"),
    }
}

//! `linerate plan`: the throughput of a configuration, and the needs of a rate.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use linerate_graph::{Library, lang::SourceMap};
use linerate_lab::{
    FrameMaker,
    calibration::{self, Calibrated},
    instruments,
    measure::{Bench, element_classes, has_probe},
    plan::{
        ConfigEstimate, ElementCost, EstimateError, EstimateInputs, NoDriver, Ports, SampleError,
        SampleRun, Trial, Visit, estimate, measured_otherwise, unmeasured,
    },
    point::{Destinations, Driver},
    report::Table,
};
use linerate_linux::files;
use linerate_model::{
    Calibration, Estimate, Limit, Limits, Prediction, Requirement, Scenario, Unreachable,
    units::{Bytes, CyclesPerPacket, Hertz, Packets, PacketsPerSecond},
};
use linerate_port::pcap;
use serde::Serialize;
use serde_json::json;

use crate::{
    args::Plan,
    configuration::{Parsed, click_path},
    exit::{ConfigurationError, UsageError, cannot_read, cannot_write},
};

/// Destinations of the traffic that elements are measured with.
const ADDRESSES: u32 = 4096;
/// Most packets of a capture file that are looked at.
const SAMPLE_LIMIT: usize = 1 << 16;
/// Time for which a configuration runs to be checked.
const CHECKED: Duration = Duration::from_millis(600);
/// A share of packets dropped at one element that is worth a word.
const DROPPED: f64 = 0.1;
/// Error of the timers that decide how fast packets come, as a share.
const PUNCTUALITY: f64 = 0.05;
/// Advice where there is no calibration.
const MAKES_ONE: &str = "`linerate lab run elements --dir results` makes one, to be asked as in \
                         `linerate plan results router.click`";
/// The driver that is charged where there is no configuration.
const USUAL: &str = "ring";

pub(crate) fn run(args: &Plan, library: &Library) -> Result<()> {
    let (path, mut calibrated) = calibration(&args.calibration)?;
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
        parameters(args, scenario, &calibrated, &path)?
    };
    answer.show(args)
}

/// The command that measures an experiment, for a calibration in that file.
fn lab_run(experiment: &str, calibration: &Path) -> String {
    let folder = calibration.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    format!("`linerate lab run {experiment} --dir {}`", folder.display())
}

/// The error for a driver that was not measured, with the command that does, if there is one.
fn not_measured(error: &NoDriver, path: &Path) -> UsageError {
    const DRIVERS: [Driver; 4] = [Driver::Null, Driver::Ring, Driver::Packet, Driver::Xdp];
    if DRIVERS.iter().any(|driver| driver.name() == error.driver) {
        return UsageError(format!("{error}; {} measures them", lab_run("burst", path)));
    }
    let names = DRIVERS.map(Driver::name).join(", ");
    UsageError(format!("{error}; {} measures {names}", lab_run("burst", path)))
}

/// Path and content of a calibration, in a file or a directory of results.
fn calibration(given: &Path) -> Result<(PathBuf, Calibrated)> {
    let path = if given.is_dir() { given.join(calibration::FILE) } else { given.into() };
    let shown = path.display();
    let text = fs::read_to_string(&path).map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        let error = cannot_read(&shown.to_string(), error);
        if is_missing {
            error.context(format!("there is no calibration; {MAKES_ONE}"))
        } else {
            error
        }
    })?;
    let calibrated = serde_json::from_str(&text).map_err(|error| {
        UsageError(format!("{shown} is not a calibration ({error}); {MAKES_ONE}"))
    })?;
    Ok((path, calibrated))
}

/// Ports and a task, without a configuration.
fn parameters(
    args: &Plan,
    scenario: Scenario,
    calibrated: &Calibrated,
    path: &Path,
) -> Result<PlanResult> {
    let driver = args.port.as_deref().unwrap_or(USUAL);
    let Some(fitted) = calibrated.drivers.get(driver) else {
        let measured = calibrated.drivers.keys().cloned().collect();
        return Err(not_measured(&NoDriver { driver: driver.into(), measured }, path).into());
    };
    Ok(PlanResult::new(args, fitted.calibration.clone(), scenario, Vec::new()))
}

fn configuration(
    args: &Plan,
    library: &Library,
    scenario: Scenario,
    calibrated: &mut Calibrated,
    path: &Path,
) -> Result<PlanResult> {
    let (trial, sources) = trial(args, library)?;
    let told = |error: SampleError| told(error, &sources);
    let sampled = trial.sample().map_err(told)?;
    let assumed = trial.assumed(&sampled);
    eprintln!("note: assumed that {assumed}");
    for visit in sampled.visits.iter().filter(|visit| visit.dropped >= DROPPED) {
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
    let bench = Bench::new(library.clone()).with_pace(calibrated.pace);
    if args.measure {
        let mut tell = |text: String| eprintln!("{text}");
        if trial.measure(&bench, calibrated, &sampled, &ports, &mut tell) {
            let text = serde_json::to_string(calibrated)? + "\n";
            files::replace(path, text.as_bytes()).map_err(|error| cannot_write(path, error))?;
        }
    }
    let limits = Limits { sources: sampled.most.map(PacketsPerSecond::new), ..scenario.limits };
    let inputs = EstimateInputs { ports, scenario: Scenario { limits, ..scenario } };
    let estimated = estimated(args, library, calibrated, path, &inputs, &sampled.visits)?;
    let checked = if args.check {
        let reached = trial.measured_rate(&bench, CHECKED, sampled.most).map_err(told)?;
        Some(PacketsPerSecond::new(reached.rate))
    } else {
        None
    };
    let ConfigEstimate { calibration, if_known, scenario, lines } = estimated;
    let mut found = PlanResult::new(args, calibration, scenario, lines);
    found.if_known = Some(found.interval_of(args, &if_known));
    found.print_unknown_costs(args, library, calibrated, &sampled.visits);
    Ok(PlanResult { assumed: Some(assumed), checked, ..found })
}

/// The summed cost of the elements.
fn estimated(
    args: &Plan,
    library: &Library,
    calibrated: &Calibrated,
    path: &Path,
    inputs: &EstimateInputs,
    visits: &[Visit],
) -> Result<ConfigEstimate> {
    estimate(calibrated, inputs, visits).map_err(|error| {
        if let EstimateError::NoDriver(error) = &error {
            return not_measured(error, path).into();
        }
        if calibrated.elements.is_empty() {
            let elements = lab_run("elements", path);
            return anyhow!(
                "{error}: {} has costs of no element; {elements} measures those of all, --measure \
                 those of this configuration",
                path.display()
            );
        }
        let missing = unmeasured(calibrated, visits, &inputs.ports);
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
    })
}

/// The first words of a long text.
fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// The configuration on its sample packets, and the texts it was made from.
fn trial(args: &Plan, library: &Library) -> Result<(Trial, SourceMap)> {
    let (source, globals) = args.configuration.source()?;
    let text = source.read().map_err(|error| cannot_read(source.name(), error))?;
    let parsed = Parsed::new(source.name(), &text, &globals, library, &click_path());
    parsed.check_variables(&globals)?;
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
    let Parsed { sources, flat, .. } = parsed;
    match Trial::new(flat, library, &mut sample, sample_run) {
        Ok(trial) => Ok((trial, sources)),
        Err(error) => Err(told(error, &sources)),
    }
}

/// An error of a trial, marked in the text where it is about that.
fn told(error: SampleError, sources: &SourceMap) -> anyhow::Error {
    match error {
        SampleError::Configuration(found) => ConfigurationError::new(&found, sources).into(),
        other => other.into(),
    }
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

/// Result of a plan.
struct PlanResult {
    scenario: Scenario,
    prediction: Prediction,
    interval: Estimate<PacketsPerSecond>,
    cycles: CyclesPerPacket,
    lines: Vec<ElementCost>,
    wanted: Option<RateNeeds>,
    /// The interval if all costs were known.
    if_known: Option<Estimate<PacketsPerSecond>>,
    /// The assumed rate of the sources, in words.
    assumed: Option<String>,
    /// The measured rate of the configuration.
    checked: Option<PacketsPerSecond>,
}

/// The throughput of a scenario, and the interval it is in.
fn predicted(
    args: &Plan,
    calibration: &Calibration,
    scenario: &Scenario,
) -> (Prediction, Estimate<PacketsPerSecond>) {
    let level = f64::from(args.confidence) / 100.0;
    let (prediction, mut interval) = calibration.predict(scenario, level);
    if prediction.limit == Limit::Sources {
        interval.low = interval.low.min(interval.value * (1.0 - PUNCTUALITY));
        interval.high = interval.high.max(interval.value * (1.0 + PUNCTUALITY));
    }
    (prediction, interval)
}

/// Needs of a rate.
#[derive(Serialize)]
struct RateNeeds {
    rate: PacketsPerSecond,
    #[serde(serialize_with = "answered")]
    clock: Result<Requirement<Hertz>, Unreachable>,
    #[serde(serialize_with = "answered")]
    cores: Result<Requirement<f64>, Unreachable>,
    #[serde(serialize_with = "answered")]
    task_cycles: Result<Requirement<CyclesPerPacket>, Unreachable>,
}

fn answered<T: Serialize, S: serde::Serializer>(
    answer: &Result<Requirement<T>, Unreachable>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match answer {
        Ok(answer) => answer.serialize(serializer),
        Err(Unreachable { limit, at_most }) => {
            json!({ "unreachable": { "limit": limit, "at_most": at_most } }).serialize(serializer)
        }
    }
}

impl PlanResult {
    fn new(
        args: &Plan,
        calibration: Calibration,
        scenario: Scenario,
        lines: Vec<ElementCost>,
    ) -> PlanResult {
        let level = f64::from(args.confidence) / 100.0;
        let (prediction, interval) = predicted(args, &calibration, &scenario);
        let wanted = args.rate.map(|rate| RateNeeds {
            rate,
            clock: calibration.clock_for(&scenario, rate, level),
            cores: calibration.workers_for(&scenario, rate, level),
            task_cycles: calibration.budget_for(&scenario, rate, level),
        });
        let cycles = calibration.costs.overhead(&scenario) + scenario.work;
        PlanResult {
            scenario,
            prediction,
            interval,
            cycles,
            lines,
            wanted,
            if_known: None,
            assumed: None,
            checked: None,
        }
    }

    /// The interval of other costs.
    fn interval_of(&self, args: &Plan, costs: &Calibration) -> Estimate<PacketsPerSecond> {
        predicted(args, costs, &self.scenario).1
    }

    /// Prints the costs that were never measured, or not as here, and their effect on the interval.
    fn print_unknown_costs(
        &self,
        args: &Plan,
        library: &Library,
        calibrated: &Calibrated,
        visits: &[Visit],
    ) {
        let measured_otherwise = measured_otherwise(calibrated, visits);
        for (class, config) in &measured_otherwise {
            eprintln!(
                "note: {class}({}) is charged what {class} cost with other arguments; --measure \
                 measures it with these",
                shortened(config)
            );
        }
        let mut unknown: Vec<&str> =
            self.lines.iter().filter(|line| !line.known).map(|line| line.visit.class).collect();
        unknown.sort_unstable();
        unknown.dedup();
        for class in &unknown {
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
        if let Some(Estimate { low, high, .. }) = self.if_known
            && !(measured_otherwise.is_empty() && unknown.is_empty())
        {
            let Estimate { low: least, high: most, .. } = self.interval;
            eprintln!(
                "note: for what is not known the interval is {least} to {most}; with that known and as \
                 assumed it would be {low} to {high}"
            );
        }
    }

    fn show(&self, args: &Plan) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if args.json {
            writeln!(out, "{}", self.json())?;
        } else {
            out.write_all(self.text(args.confidence).as_bytes())?;
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "throughput_pps": self.interval,
            "interval_if_all_were_known_pps": self.if_known,
            "limit": self.prediction.limit,
            "assumed": self.assumed,
            "cycles_per_packet": self.cycles,
            "clock_hz": self.scenario.clock,
            "cores": self.scenario.workers,
            "elements": self.lines,
            "wanted": self.wanted,
            "measured_pps": self.checked,
            "error": self.error(),
        })
    }

    /// Excess of the predicted rate over the measured one, as a share.
    fn error(&self) -> Option<f64> {
        let (predicted, measured) = (self.prediction.throughput, self.checked?);
        // Nothing was said to come, and nothing came.
        let right = predicted == measured;
        Some(if right { 0.0 } else { predicted.get() / measured.get() - 1.0 })
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
            for ElementCost { visit, cycles_per_visit, cycles_per_packet, .. } in &self.lines {
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
    answer: &Result<Requirement<T>, Unreachable>,
    write: impl Fn(&T) -> String,
) -> String {
    match answer {
        Ok(Requirement { needed: Estimate { value, low, high }, .. }) => {
            format!("  {name}: {} ({} to {})\n", write(value), write(low), write(high))
        }
        Err(error) => format!("  {name}: {error}\n"),
    }
}

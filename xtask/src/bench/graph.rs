//! `cargo xtask bench graph`: cost of a graph of elements.
//!
//! The cases are those other routers publish figures for. DPDK's testpmd, which has no graph, is
//! measured in turns with them: the cost of moving packets from port to port in the same minute.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::baseline::Baseline;
use super::capture::{CAPTURED, MemoryFolder, Pages, write_capture};
use super::ours::Ours;
use super::peers::{Memory, Mode, Peer, Ports, Testpmd, ensure};
use super::priority::Priority;
use super::results;
use super::row::{Row, median, row};
use crate::shell;

/// Frame limits of the sweep.
const LIMITS: [u32; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048];
/// Elements added to a path to find the cost of one of them.
const CHAIN: usize = 16;

/// Runs into which a repetition is cut where the difference is small.
const SHORT_RUNS: u32 = 8;

/// A UDP packet of 64 bytes, as the `DATA` of a source.
pub(super) const UDP: &str = "\\<00000000 00020000 00000001 08004500 00320000 00004011 66c70a00 00010a00 \
    00020007 0007001e 00000000 00000000 00000000 00000000 00000000 00000000>";

/// Arguments of `cargo xtask bench graph`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 7)]
    repetitions: u32,
    /// Length of one measurement in milliseconds.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Only these cases: source, cross-connect, queue, classifier, capture, dispatch,
    /// accounting, simtime, sweep.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Give both sides 4 KiB pages even where huge pages can be had.
    #[arg(long)]
    no_huge: bool,
    /// Keep the figures in bench/results, in the file of this processor.
    #[arg(long)]
    keep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The measurement in progress.
struct Bench<'a> {
    args: &'a Args,
    window: Duration,
    ours: Ours,
    testpmd: Option<Testpmd>,
    rows: Vec<Row>,
    missing: Vec<String>,
    baseline: Baseline,
    /// Cycles per packet by case and frame limit.
    sweep: BTreeMap<&'static str, Vec<(u32, f64)>>,
    /// Speed of the simulated clock, as a multiple of the machine's.
    faster: Vec<f64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let ours = Ours::build()?;
    let dpdk = ensure(Peer::Dpdk);
    let _priority = Priority::raise();
    let memory = if args.no_huge { Memory::small() } else { Memory::reserve() };
    let window = Duration::from_millis(args.ms);
    let mut baseline = Baseline::new(dpdk.as_ref().err().map(ToString::to_string))?;
    baseline.sample(&memory, args.repetitions, window)?;
    let mut missing = Vec::new();
    let testpmd = match dpdk {
        Ok(()) => Some(Testpmd::start(&memory, Ports::Null)?),
        Err(refusal) => {
            missing.push(refusal.to_string());
            None
        }
    };
    let (rows, sweep, faster) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut bench = Bench { args, window, ours, testpmd, rows, missing, baseline, sweep, faster };
    bench.cases()?;
    bench.dispatch()?;
    bench.capture()?;
    bench.accounting()?;
    bench.simulated_time()?;
    bench.frame_limits()?;
    bench.print()
}

/// Port, two elements, port.
fn cross_connect() -> String {
    "FromPort(null:?size=64) -> Counter -> Null -> end :: ToPort(null:?size=64)".into()
}

/// Source, counter, sink.
fn source() -> String {
    "InfiniteSource -> Counter -> end :: Discard".into()
}

/// A source and `count` elements that do nothing.
fn chain(count: usize) -> String {
    let nulls = "Null -> ".repeat(count);
    format!("InfiniteSource(BURST 1) -> {nulls} end :: Discard")
}

impl Bench<'_> {
    fn wants(&self, case: &str) -> bool {
        self.args.only.is_empty() || self.args.only.iter().any(|only| only == case)
    }

    /// Prints the progress for the user while it runs.
    fn progress(&self, text: &str) {
        if !self.args.json {
            eprintln!("measuring {text}");
        }
    }

    /// Measures a case after the peer.
    fn measure(&mut self, case: &'static str, text: &str, burst: u32) -> Result<()> {
        let theirs = self.peer(burst)?;
        let ours = self.cycles(text, burst)?;
        let row = row(&mut self.rows, case, burst, "testpmd, no graph");
        row.theirs.push(theirs);
        row.ours.push(ours);
        Ok(())
    }

    /// Cycles per packet of testpmd from null port to null port.
    fn peer(&mut self, burst: u32) -> Result<f64> {
        let Some(testpmd) = &mut self.testpmd else { return Ok(f64::NAN) };
        let sample = testpmd.measure(Mode::Io, burst.clamp(1, 256), self.window)?;
        Ok(sample.cpu_cycles(linerate_memory::clock::cycles_per_second()))
    }

    fn cycles(&self, text: &str, burst: u32) -> Result<f64> {
        cycles_of(&self.ours.graph(text, burst, Some(self.window))?)
    }

    fn cases(&mut self) -> Result<()> {
        let cases: [(&'static str, String, &[u32]); 4] = [
            ("source", source(), &[1, 32, 256]),
            ("cross-connect", cross_connect(), &[1, 32, 256]),
            ("queue", "InfiniteSource -> Queue -> Unqueue -> end :: Discard".into(), &[1, 32, 256]),
            (
                "classifier",
                format!(
                    "InfiniteSource(DATA {UDP})
                        -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
                    c [0] -> Discard; c [1] -> Discard; c [2] -> end :: Discard; c [3] -> Discard"
                ),
                &[32, 256],
            ),
        ];
        for (case, text, bursts) in cases {
            if !self.wants(case) {
                continue;
            }
            self.progress(case);
            for _ in 0..self.args.repetitions {
                for burst in bursts {
                    self.measure(case, &text, *burst)?;
                }
            }
        }
        Ok(())
    }

    /// Measures the cost of one element more when every frame holds one packet.
    fn dispatch(&mut self) -> Result<()> {
        if !self.wants("dispatch") {
            return Ok(());
        }
        self.progress("dispatch");
        for _ in 0..self.args.repetitions {
            let theirs = self.peer(1)?;
            // Frames that could hold more, so that the engine works as it does under load.
            let short = self.cycles(&chain(1), 256)?;
            let long = self.cycles(&chain(1 + CHAIN), 256)?;
            let row = row(&mut self.rows, "dispatch", 1, "testpmd, no graph");
            row.theirs.push(theirs);
            row.ours.push((long - short) / CHAIN as f64);
        }
        Ok(())
    }

    /// Capture file to capture file, both in memory: on a file system that takes large pages, and
    /// on one of 4 KiB pages, where allocating them costs more than all the rest.
    fn capture(&mut self) -> Result<()> {
        if !self.wants("capture") {
            return Ok(());
        }
        for (case, pages) in [("capture", Pages::Large), ("capture, 4 KiB", Pages::Small)] {
            self.progress(case);
            let folder = match MemoryFolder::new(pages) {
                Ok(folder) => folder,
                Err(error) => {
                    self.missing.push(format!("{case}: {error:#}"));
                    continue;
                }
            };
            let (from, to) = (folder.path().join("from.pcap"), folder.path().join("to.pcap"));
            write_capture(&from)?;
            let (from, to) = (from.display(), to.display());
            let text = format!("FromDump({from}, STOP true) -> end :: ToDump({to})");
            for _ in 0..self.args.repetitions {
                let theirs = self.peer(256)?;
                let line = self.ours.graph(&text, 256, None)?;
                let packets = line["packets"].as_u64();
                anyhow::ensure!(packets == Some(CAPTURED as u64), "packets are missing: {line}");
                let ours = cycles_of(&line)?;
                let row = row(&mut self.rows, case, 256, "testpmd, no graph");
                row.theirs.push(theirs);
                row.ours.push(ours);
            }
        }
        Ok(())
    }

    /// Measures one graph with the account of its cycles and without, in turns; in short runs,
    /// since the machine's other load changes within tenths of a second, and is to meet both.
    fn accounting(&mut self) -> Result<()> {
        if !self.wants("accounting") {
            return Ok(());
        }
        self.progress("accounting");
        let window = Some(self.window / SHORT_RUNS);
        for _ in 0..self.args.repetitions * SHORT_RUNS {
            for burst in [1, 256] {
                let run = |flags: &[&str]| {
                    cycles_of(&self.ours.graph_with(&cross_connect(), burst, window, flags)?)
                };
                let (theirs, ours) = (run(&["--no-cycles"])?, run(&[])?);
                let row = row(&mut self.rows, "accounting", burst, "without");
                row.theirs.push(theirs);
                row.ours.push(ours);
            }
        }
        Ok(())
    }

    /// Ten packets in a simulated second, a thousand seconds long.
    fn simulated_time(&mut self) -> Result<()> {
        if !self.wants("simtime") {
            return Ok(());
        }
        self.progress("simulated time");
        let text = "RatedSource(RATE 10, LIMIT 10000, STOP true) -> Queue -> Unqueue -> Counter
            -> end :: Discard";
        for _ in 0..self.args.repetitions {
            let line = self.ours.graph_with(text, 256, None, &["--simulated"])?;
            anyhow::ensure!(
                line["packets"].as_u64() == Some(10_000),
                "packets are missing: {line}"
            );
            let seconds = line["seconds"].as_f64().context("no seconds")?;
            self.faster.push(1000.0 / seconds);
        }
        Ok(())
    }

    fn frame_limits(&mut self) -> Result<()> {
        if !self.wants("sweep") {
            return Ok(());
        }
        self.progress("frames of 1 to 2048");
        for (case, text) in [("source", source()), ("cross-connect", cross_connect())] {
            for limit in LIMITS {
                let repeated: Result<Vec<f64>> =
                    (0..3).map(|_| self.cycles(&text, limit)).collect();
                self.sweep.entry(case).or_default().push((limit, median(&repeated?)));
            }
        }
        Ok(())
    }

    fn print(&self) -> Result<()> {
        if self.args.keep {
            results::store("graph", results::named_figures(&self.rows), &self.baseline)?;
        }
        let plot = shell::root().join("target/bench/frame-limit.svg");
        if !self.sweep.is_empty() {
            fs::create_dir_all(plot.parent().context("a folder")?)?;
            fs::write(&plot, svg(&self.sweep))?;
        }
        if self.args.json {
            let report = json!({
                "machine": self.ours.machine()?,
                "yardstick": self.baseline.json(),
                "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
                "frame_limits": self.sweep,
                "simulated_time": self.faster,
                "missing": self.missing,
            });
            println!("{report}");
            return Ok(());
        }
        let (repetitions, ms) = (self.args.repetitions, self.args.ms);
        println!("TSC cycles per packet, {repetitions} repetitions of {ms} ms");
        self.baseline.print();
        Row::print_header();
        let reference = self.baseline.figure();
        self.rows.iter().for_each(|row| row.print(reference));
        if !self.faster.is_empty() {
            println!("simulated time: {:.0} times as fast as the machine's", median(&self.faster));
        }
        for (case, points) in &self.sweep {
            println!("{case}: median cycles per packet by most packets in a frame");
            let most = points.iter().map(|(_, cycles)| *cycles).fold(0.0, f64::max);
            for (limit, cycles) in points {
                let bar = "#".repeat((cycles / most * 50.0).ceil() as usize);
                println!("{limit:>6} {cycles:>8.2} {bar}");
            }
        }
        if !self.sweep.is_empty() {
            println!("plotted in {}", plot.display());
        }
        self.missing.iter().for_each(|missing| println!("NOT MEASURED: {missing}"));
        Ok(())
    }
}

fn cycles_of(line: &Value) -> Result<f64> {
    line["cycles"].as_f64().with_context(|| format!("no cycles in {line}"))
}

/// Cycles per packet against the frame limit, both axes logarithmic.
fn svg(sweep: &BTreeMap<&str, Vec<(u32, f64)>>) -> String {
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 400.0;
    const MARGIN: f64 = 60.0;
    const COLOURS: [&str; 2] = ["#1f6feb", "#d1242f"];
    let values = sweep.values().flatten().map(|(_, cycles)| *cycles);
    let (low, high) = values.fold((f64::INFINITY, 1.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let (low, high) = (low.log2().floor(), high.log2().ceil());
    let last = f64::from(LIMITS[LIMITS.len() - 1]).log2();
    let x = |limit: f64| MARGIN + limit.log2() / last * (WIDTH - 2.0 * MARGIN);
    let y = |cycles: f64| {
        HEIGHT - MARGIN - (cycles.log2() - low) / (high - low) * (HEIGHT - 2.0 * MARGIN)
    };
    let mut text = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
    );
    for limit in LIMITS {
        let (at, bottom) = (x(f64::from(limit)), HEIGHT - MARGIN);
        let _ = writeln!(text, "<path d='M{at:.1} {MARGIN}V{bottom}' stroke='#ddd'/>");
        let under = bottom + 18.0;
        let _ = writeln!(text, "<text x='{at:.1}' y='{under}' text-anchor='middle'>{limit}</text>");
    }
    for power in low as i32..=high as i32 {
        let cycles = f64::from(power).exp2();
        let (at, right, left) = (y(cycles), WIDTH - MARGIN, MARGIN - 8.0);
        let _ = writeln!(text, "<path d='M{MARGIN} {at:.1}H{right}' stroke='#ddd'/>");
        let _ = writeln!(text, "<text x='{left}' y='{at:.1}' text-anchor='end'>{cycles}</text>");
    }
    for ((case, points), (number, colour)) in sweep.iter().zip(COLOURS.iter().enumerate()) {
        let line: Vec<String> = points
            .iter()
            .map(|(limit, cycles)| format!("{:.1},{:.1}", x(f64::from(*limit)), y(*cycles)))
            .collect();
        let line = line.join(" ");
        let _ = writeln!(
            text,
            "<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'/>"
        );
        let (at, row) = (WIDTH - MARGIN - 120.0, MARGIN + 18.0 * number as f64);
        let _ = writeln!(text, "<text x='{at}' y='{row}' fill='{colour}'>{case}</text>");
    }
    let (middle, bottom) = (WIDTH / 2.0, HEIGHT - 16.0);
    let _ = writeln!(
        text,
        "<text x='{middle}' y='{bottom}' text-anchor='middle'>most packets in a frame</text>\n\
         <text x='16' y='{}' text-anchor='middle' transform='rotate(-90 16 {})'>TSC cycles per \
         packet</text>\n</svg>",
        HEIGHT / 2.0,
        HEIGHT / 2.0
    );
    text
}

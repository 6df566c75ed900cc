//! A configuration in Click's language, with the cost of its elements by the engine's own account.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use linerate_graph::{
    BuildError, Console, Idle, Library, Options, Plan, Router, Usage, lang::Globals, load,
};
use linerate_memory::clock::cycles_per_second;
use linerate_port::{
    Context,
    pcap::{Format, Options as CaptureOptions, Writer},
};
use tempfile::TempDir;

use super::{Failure, arena, burst};
use crate::{
    instruments::{
        frames,
        pace::{WAITING, waited_of},
    },
    point::{Graph, Spec, Values, value},
};

/// A window of the measurement: longer than the interval in which workers publish their counts.
const WINDOW: Duration = Duration::from_millis(25);
/// Longest time until the first packet.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which tables fill and caches warm up before.
const WARM: Duration = Duration::from_millis(15);

/// A configuration to run.
pub(super) struct Run<'a> {
    pub(super) configuration: &'a str,
    pub(super) variables: Vec<(String, String)>,
    /// The element whose packets count.
    pub(super) at: &'a str,
    pub(super) vector: u32,
    pub(super) time: Duration,
    pub(super) context: Context,
}

/// The figures at the ends of windows.
pub(super) struct Windows {
    pub(super) plan: std::sync::Arc<Plan>,
    /// The number of the element whose packets count.
    pub(super) at: usize,
    ends: Vec<End>,
}

/// A router's accounts at a moment.
pub(crate) struct End {
    pub(crate) at: Instant,
    /// Time for which it had had its core by then.
    pub(crate) on_core: Duration,
    /// Usage, without the time in which other load had the core.
    pub(crate) usage: Usage,
}

/// Windows by their ends; the whole time as one where other load had the core, since its window is
/// not known.
pub(crate) fn windows(ends: &[End]) -> Vec<(&End, &End)> {
    let Some((first, last)) = ends.first().zip(ends.last()) else { return Vec::new() };
    let had = last.on_core.saturating_sub(first.on_core).as_secs_f64();
    if had < (1.0 - WAITING) * (last.at - first.at).as_secs_f64() {
        return vec![(first, last)];
    }
    ends.windows(2).map(|pair| (&pair[0], &pair[1])).collect()
}

impl Windows {
    /// The median over the windows of a difference between their ends.
    pub(super) fn median(&self, of: impl Fn(&Usage, &Usage, f64) -> Option<f64>) -> Option<f64> {
        let found = windows(&self.ends).into_iter().filter_map(|(before, after)| {
            let seconds = after.on_core.saturating_sub(before.on_core).as_secs_f64();
            (seconds > 0.0).then(|| of(&before.usage, &after.usage, seconds)).flatten()
        });
        middle(found.collect())
    }

    /// The median over the windows of cycles per packet of an element.
    pub(super) fn per_packet(&self, element: usize, cycles: impl Fn(&Usage) -> f64) -> Option<f64> {
        self.median(|before, after, _| {
            let packets = packets(before, after, element);
            (packets > 0.0).then(|| (cycles(after) - cycles(before)) / packets)
        })
    }

    /// Cycles of an element for each of its packets in rounds that were measured: without a share
    /// of the time between rounds.
    pub(super) fn own(&self, element: usize) -> Option<f64> {
        let of = |pair: &[End]| {
            let since = pair[1].usage.since(&pair[0].usage);
            since.elements[element]
                .cycles_per_packet()
                .filter(|_| since.elements[element].packets > 0)
        };
        middle(self.ends.windows(2).filter_map(of).collect())
    }

    /// Cycles of a round that belong to no element, for each packet of one.
    pub(super) fn around(&self, element: usize) -> Option<f64> {
        let per_packet = |cycles: f64, since: &Usage| {
            let packets = since.elements[element].packets;
            (packets > 0).then(|| cycles / packets as f64)
        };
        let all = self.median(|before, after, _| {
            let since = after.since(before);
            per_packet(since.work as f64, &since)
        })?;
        let elements = (0..self.plan.elements.len()).filter_map(|one| {
            let times = self.median(|before, after, _| {
                let since = after.since(before);
                per_packet(since.elements[one].packets as f64, &since)
            })?;
            Some(times * self.own(one)?)
        });
        Some((all - elements.sum::<f64>()).max(0.0))
    }

    /// Packets of an element per second.
    pub(super) fn rate(&self, element: usize) -> Option<f64> {
        self.median(|before, after, seconds| Some(packets(before, after, element) / seconds))
            .filter(|rate| *rate > 0.0)
    }

    /// Packets per call of an element, over all windows.
    pub(super) fn mean_vector(&self, element: usize) -> f64 {
        let (first, last) = (&self.ends[0].usage, &self.ends[self.ends.len() - 1].usage);
        let frames = last.elements[element].frames - first.elements[element].frames;
        packets(first, last, element) / (frames as f64).max(1.0)
    }
}

fn packets(before: &Usage, after: &Usage, element: usize) -> f64 {
    (after.elements[element].packets - before.elements[element].packets) as f64
}

/// Runs a configuration on this thread.
pub(super) fn run(library: &Library, run: Run<'_>) -> Result<Windows, Failure> {
    let globals = Globals { variables: run.variables };
    let mut no_libraries = |_: &str, _: &str| -> Result<_, Option<_>> { Err(None) };
    let loaded = load("point", run.configuration, library, &globals, &mut no_libraries);
    let Some(plan) = loaded.plan else { return Err(Failure::void(loaded.found.click())) };
    let at = plan.find(run.at);
    let at = at.ok_or_else(|| Failure::void(format!("no element is called {}", run.at)))?;
    let run_options = RunOptions { vector: run.vector, time: run.time, context: run.context };
    run_plan(library, plan, at, run_options, &[])
}

/// Options of running a checked configuration.
pub(super) struct RunOptions {
    pub(super) vector: u32,
    pub(super) time: Duration,
    pub(super) context: Context,
}

/// Runs a checked configuration on this thread, after writing handlers; the calls of element `at`
/// count.
pub(super) fn run_plan(
    library: &Library,
    plan: Plan,
    at: usize,
    run_options: RunOptions,
    writes: &[(String, String)],
) -> Result<Windows, Failure> {
    let RunOptions { vector, time, context } = run_options;
    // The output of elements is not read here.
    let console = Console::new(io::sink(), io::sink());
    let (frame_limit, idle) = (burst(vector)?, Idle::Poll);
    let options = Options { frame_limit, idle, console, ..Options::default() };
    let made = Router::new(plan, library, context, &options);
    let mut router = made.map_err(|error| match error {
        BuildError::Configuration(found) => Failure::void(found.click()),
        error => Failure::void(error),
    })?;
    for (handler, value) in writes {
        router
            .write(handler, value)
            .map_err(|error| Failure::void(format!("{handler}: {error}")))?;
    }
    let ends = drive(&mut router, time, move |usage| usage.elements[at].frames)?;
    let plan = router.control().plan();
    router.close();
    Ok(Windows { plan, at, ends })
}

/// Runs a router on this thread until it has had its core for some time, and reads its accounts at
/// the ends of windows; goes on for a while if others have the core, or if `came` has not grown by
/// two: a window may end within a call, whose packets have come to some elements and not to others.
pub(crate) fn drive(
    router: &mut Router,
    time: Duration,
    came: impl Fn(&Usage) -> u64 + Send + 'static,
) -> Result<Vec<End>, Failure> {
    let control = router.control();
    let count = (time.as_millis() / WINDOW.as_millis()).clamp(1, 40) as u32;
    let window = time / count;
    let router_thread = rustix::thread::gettid();
    let timer = thread::spawn(move || {
        thread::sleep(WARM);
        let (start, before) = (Instant::now(), waited_of(router_thread));
        let now = || {
            let waited = waited_of(router_thread).saturating_sub(before);
            let (at, mut usage) = (Instant::now(), control.usage().1.swap_remove(0));
            leave_out(&mut usage, waited);
            End { at, on_core: (at - start).saturating_sub(waited), usage }
        };
        let mut ends = vec![now()];
        let is_enough = |ends: &[End]| {
            let came = |end: &End| came(&end.usage);
            let last = ends.last().filter(|last| last.on_core >= time);
            ends.len() > count as usize && last.is_some_and(|last| came(last) > came(&ends[0]) + 1)
        };
        while !is_enough(&ends) && (ends.len() <= count as usize || start.elapsed() < TIMEOUT) {
            thread::sleep(window);
            ends.push(now());
        }
        control.stop();
        ends
    });
    router.run();
    timer.join().map_err(|_| Failure::void("the timer died"))
}

/// The figure in the middle.
pub(crate) fn middle(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

/// Takes time that others had the core for out of that of a worker that was always ready: as much of
/// its work as of its waiting.
fn leave_out(usage: &mut Usage, others: Duration) {
    let all = (usage.work + usage.wait) as f64;
    if all > 0.0 {
        let left = (1.0 - others.as_secs_f64() * cycles_per_second() / all).max(0.0);
        let of = |cycles: u64| (cycles as f64 * left) as u64;
        (usage.work, usage.wait) = (of(usage.work), of(usage.wait));
    }
}

/// A capture file to receive over and over.
pub(super) struct Capture {
    _dir: TempDir,
    /// The port's name.
    pub(super) uri: String,
}

impl Capture {
    pub(super) fn from_frames(frames: &[Vec<u8>]) -> Result<Capture, Failure> {
        let dir = tempfile::tempdir().map_err(Failure::void)?;
        let file = dir.path().join("frames.pcap");
        let made = Writer::create(&file, &CaptureOptions::new(Format::Pcap));
        let mut writer = made.map_err(Failure::void)?;
        for frame in frames {
            writer.write(0, frame.len() as u32, frame).map_err(Failure::void)?;
        }
        writer.finish().map_err(Failure::void)?;
        Ok(Capture { uri: format!("pcap:{}?loop=0", file.display()), _dir: dir })
    }
}

pub(super) fn measure(library: &Library, point: &Graph, spec: &Spec) -> Result<Values, Failure> {
    let frames = frames(point.destinations, point.addresses, point.frame, spec.seed);
    let capture = Capture::from_frames(&frames.map_err(Failure::unsupported)?)?;
    let mut variables: Vec<_> = point.variables.clone().into_iter().collect();
    variables.push(("FRAMES".into(), capture.uri.clone()));
    let point = Run {
        configuration: &point.configuration,
        variables,
        at: &point.at,
        vector: point.vector,
        time: Duration::from_millis(spec.duration_ms),
        context: Context::new(arena(8192, point.frame)?),
    };
    let windows = run(library, point)?;
    values(&windows)
}

/// The figures of a whole graph, per packet of the element that counts. Sources
/// (elements without inputs) are counted apart: they stand for ports.
pub(super) fn values(windows: &Windows) -> Result<Values, Failure> {
    let at = windows.at;
    let nothing = || Failure::void("no packet came through");
    let plan = &windows.plan;
    let is_source = |element: usize| plan.elements[element].inputs.is_empty();
    let sum = |sources: bool| {
        move |usage: &Usage| {
            let elements = usage.elements.iter().enumerate();
            let counted = elements.filter(|(element, _)| is_source(*element) == sources);
            counted.map(|(_, element)| element.cycles).sum::<f64>()
        }
    };
    let path = |usage: &Usage| sum(false)(usage) + usage.engine;
    let cycles = windows.per_packet(at, path).ok_or_else(nothing)?;
    let vector = windows.mean_vector(at);
    let mut values = Values::from([
        (value::RATE.into(), windows.rate(at).ok_or_else(nothing)?),
        (value::CYCLES.into(), cycles),
        (value::CYCLES_PER_VECTOR.into(), cycles * vector),
        (value::VECTOR.into(), vector),
    ]);
    let more = [
        ("source_cycles_per_packet", windows.per_packet(at, sum(true))),
        ("engine_cycles_per_packet", windows.per_packet(at, |usage| usage.engine)),
        ("work_cycles_per_packet", windows.per_packet(at, |usage| usage.work as f64)),
    ];
    values.extend(more.into_iter().filter_map(|(name, value)| Some((name.into(), value?))));
    for (number, element) in plan.elements.iter().enumerate() {
        if let Some(cycles) = windows.per_packet(at, |usage| usage.elements[number].cycles) {
            values.insert(format!("element.{}.cycles_per_packet", element.name), cycles);
        }
    }
    Ok(values)
}

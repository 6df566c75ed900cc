//! `linerate run`: a configuration, with where its cycles go.

mod figures;
mod screen;
mod watch;

use std::{
    sync::Arc,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use linerate_graph::{
    self as graph, Console, Control, Library, Options, Plan, Router,
    lang::{Diagnostics, Globals, SourceMap},
};
use serde_json::json;
use signal_hook::consts;

use crate::{
    args::{GraphRunning, Run},
    configuration::{self, Parsed, Source, control_socket},
    exit::{ConfigurationError, UsageError, cannot_read},
    session,
    signals::end_run,
};
use figures::Figures;
use screen::Screen;
use watch::Watch;

/// Buffers a worker keeps at hand.
const CACHE: usize = 1024;
/// How soon a signal or a changed file is acted upon.
const ALERT: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Run, library: &Library) -> Result<()> {
    let running = &args.running;
    let (source, globals) = args.configuration.source()?;
    let mut watch = match (&source, args.watch) {
        (_, false) => None,
        (Source::File(path), true) => Some(Watch::new(path)),
        _ => return Err(UsageError("--watch needs a FILE to watch".into()).into()),
    };
    let (library, control) = (library.clone(), args.control.clone());
    let loader = Arc::new(PlanLoader { source, globals, library, control });
    let (plan, sources) = loader.plan()?;

    let cores = running.cores()?;
    let workers = running.workers.map_or(cores.len().max(1), usize::from);
    if args.simtime && workers > 1 {
        return Err(UsageError("--simtime needs one worker: there is one clock".into()).into());
    }
    let screen = Screen::new(running.showing.json, running.showing.quiet);
    let options = Options {
        workers,
        frame_limit: running.vector.into(),
        idle: running.idle,
        simulated: args.simtime,
        cache: CACHE,
        cores,
        console: Console::new(screen.out(), screen.err()),
        reader: args.allow_reconfigure.then(|| {
            let loader = Arc::clone(&loader);
            graph::ConfigReader::new(move |text| loader.plan_of_text(text))
        }),
        ..Options::default()
    };
    let arena = session::arena_for(&running.memory, plan.packets_held())?;
    let ports = linerate_port::Context {
        devices: args.configuration.devices(),
        ..linerate_port::Context::new(arena.clone())
    };
    let mut router = Router::new(plan, &loader.library, ports, &options)
        .map_err(|error| ConfigurationError::of(error, &sources))?;
    let control = router.control();
    screen.start(
        &[
            session::describe_arena(&arena, &running.memory),
            format!(
                "{workers} worker{}, at most {} packets per frame, idle strategy {}",
                if workers == 1 { "" } else { "s" },
                running.vector,
                running.idle
            ),
        ],
        json!({
            "command": "run",
            "configuration": loader.source.name(),
            "workers": workers,
            "vector": running.vector,
            "idle": running.idle.name(),
            "pages": arena.pages().to_string(),
            "buffers": arena.count(),
            "cycles_per_second": linerate_memory::clock::cycles_per_second(),
        }),
    )?;

    let signals = [consts::SIGINT, consts::SIGTERM, consts::SIGHUP];
    let watched = end_run(control.clone(), &signals).context("cannot watch for signals")?;
    let started = Instant::now();
    let until = running.duration.map(|duration| started + duration);
    let (ended, end) = mpsc::channel::<()>();
    let worker = thread::Builder::new().name("worker-0".into()).spawn(move || {
        router.run();
        drop(ended);
        router
    });
    let worker = worker.context("cannot start a worker thread")?;

    let mut next = started + running.showing.interval;
    let mut last = (started, Figures::read(&control));
    let mut shown = Ok(());
    loop {
        let now = Instant::now();
        if until.is_some_and(|until| now >= until) || shown.is_err() {
            control.stop();
        }
        if now >= next && shown.is_ok() {
            let figures = Figures::read(&control);
            shown = screen.interval(now - started, &figures.since(&last.1), now - last.0);
            last = (now, figures);
            next += running.showing.interval * (1 + late(now - next, running.showing.interval));
        }
        if let Some(watch) = &mut watch
            && watch.has_changed()
        {
            replace(&control, &loader, &screen);
        }
        let left = until.map_or(ALERT, |until| until.saturating_duration_since(now));
        let wait = ALERT.min(left).min(next.saturating_duration_since(now));
        if end.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    let mut router = worker.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    let took = started.elapsed();
    drop(watched);
    router.close();
    let figures = Figures::read(&control);
    drop(router);
    shown?;
    screen.total(took, &figures, arena.accounting().held)?;
    match control.driver().failure() {
        Some(reason) => Err(anyhow::anyhow!("{reason}")),
        None => Ok(()),
    }
}

/// Whole intervals that have been missed.
fn late(by: Duration, interval: Duration) -> u32 {
    u32::try_from(by.as_nanos() / interval.as_nanos().max(1)).unwrap_or(0)
}

/// Puts what the file says now in the place of what runs; when that cannot be,
/// says why and leaves it.
fn replace(control: &Control, loader: &PlanLoader, screen: &Screen) {
    let replaced = loader.plan().and_then(|(plan, sources)| {
        control.replace(plan).map_err(|error| ConfigurationError::of(error, &sources))
    });
    match replaced {
        Ok(()) => screen.note(&format!("{} has changed and runs now", loader.source.name())),
        Err(error) => screen.note(&format!("{error:#}; the old configuration goes on")),
    }
}

/// Reads the configuration, as often as need be.
struct PlanLoader {
    source: Source,
    globals: Globals,
    library: Library,
    control: Vec<String>,
}

impl PlanLoader {
    fn plan(&self) -> Result<(Plan, SourceMap)> {
        let name = self.source.name();
        let text = self.source.read().map_err(|error| cannot_read(name, error))?;
        let parsed = self.parse(name, &text);
        configuration::check_variables(&self.globals, &parsed.sources)?;
        parsed.into_plan(&self.library)
    }

    /// What a client has written to `hotconfig`.
    fn plan_of_text(&self, text: &str) -> Result<(Plan, Diagnostics), String> {
        self.parse("config", text).into_plan_as_click(&self.library)
    }

    fn parse(&self, name: &str, text: &str) -> Parsed {
        let path = configuration::click_path();
        let mut parsed = Parsed::new(name, text, &self.globals, &self.library, &path);
        for (number, address) in self.control.iter().enumerate() {
            parsed.add_control_socket(number, control_socket(address));
        }
        parsed
    }
}

impl GraphRunning {
    fn cores(&self) -> Result<Vec<u32>> {
        let Some(text) = &self.cores else { return Ok(Vec::new()) };
        Ok(session::usable_cores(text)?)
    }
}

//! Running a configuration, with the cycles of its workers by use: for `linerate run`, and for a
//! program that `linerate compile` has made.

mod figures;
mod screen;
mod watch;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use linerate_graph::{
    self as graph, Console, Control, Library, Options, Plan, Router,
    lang::{Diagnostics, Globals, SourceMap},
};
use linerate_port::{Devices, Leases};
use serde_json::json;
use signal_hook::consts;

use crate::{
    configuration::{self, Parsed, Source, find_library},
    control::ControlSockets,
    exit::{ConfigurationError, UsageError, cannot_read, text_of},
    library_text::LibraryText,
    links::{self, PortLink},
    options::{Configuration, GraphRunning, Operation},
    resources,
    service::Service,
    signals::{end_run, end_run_or_tell},
    watchdog::{Liveness, readiness},
};
use figures::Figures;
pub(crate) use screen::Rows;
use screen::Screen;
use watch::Watch;

/// Buffers a worker keeps at hand.
const CACHE: usize = 1024;

/// A configuration to be run, with the options of its run.
pub(crate) struct Subject {
    pub(crate) source: Source,
    pub(crate) globals: Globals,
    pub(crate) devices: Devices,
    /// The elements there are.
    pub(crate) library: Library,
    /// Libraries that are in this program; others are in files.
    pub(crate) texts: &'static [LibraryText],
    /// Set if it is replaced whenever its file changes.
    pub(crate) watch: bool,
    /// Address where consumers attach, besides those it declares itself.
    pub(crate) socket: Option<String>,
    /// The rows of the table: elements or ports.
    pub(crate) rows: Rows,
    /// Lines for the start, for people.
    pub(crate) notes: Vec<String>,
    /// Changes to be made to it before it runs.
    pub(crate) prepare: Option<Prepare>,
    /// Work that goes on beside it, until the router is dropped: it may replace the configuration.
    pub(crate) side_task: Option<SideTask>,
}

pub(crate) type Prepare = Box<dyn FnOnce(&mut Router)>;
pub(crate) type SideTask = Box<dyn FnOnce(&RunningHandle<'_>) + Send>;

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("source", &self.source).finish_non_exhaustive()
    }
}

/// The running configuration, for the work that goes on beside it.
pub(crate) struct RunningHandle<'a> {
    control: &'a Control,
    loader: &'a PlanLoader,
    screen: &'a Screen,
}

impl RunningHandle<'_> {
    /// Has the configuration of this text run in the place of the one that does.
    ///
    /// # Errors
    ///
    /// When it cannot be; the old one goes on.
    pub(crate) fn replace(&self, text: &str) -> Result<()> {
        let (plan, sources) = self.loader.parse("config", text).into_plan(&self.loader.library)?;
        self.control
            .replace(plan)
            .map_err(|error| ConfigurationError::from_build_error(error, &sources))
    }

    /// Tells of something that happened.
    pub(crate) fn note(&self, text: &str) {
        self.screen.note(text);
    }
}

impl Subject {
    /// The configuration that a command line names.
    pub(crate) fn from_configuration(
        configuration: &Configuration,
        library: &Library,
        watch: bool,
    ) -> Result<Subject> {
        let (source, globals) = configuration.source()?;
        Ok(Subject {
            source,
            globals,
            devices: configuration.devices(),
            library: library.clone(),
            texts: &[],
            watch,
            socket: None,
            rows: Rows::default(),
            notes: Vec::new(),
            prepare: None,
            side_task: None,
        })
    }
}

/// Runs it until it ends, or a signal or a client ends it. `sockets` are there for as long as it
/// runs.
pub(crate) fn run(subject: Subject, mut sockets: ControlSockets, args: &Operation) -> Result<()> {
    let begun = Instant::now();
    let mut service = Service::new(args.readiness.ready_fd)?;
    let running = &args.running;
    let Subject {
        source,
        globals,
        devices,
        library,
        texts,
        watch,
        socket,
        rows,
        mut notes,
        prepare,
        side_task,
    } = subject;
    let mut watch = match (&source, watch) {
        (_, false) => None,
        (Source::File(path), true) => Some(Watch::new(path)),
        _ => return Err(UsageError("--watch needs a FILE to watch".into()).into()),
    };
    let control = sockets.configs();
    let loader = Arc::new(PlanLoader { source, globals, library, texts, socket, control });
    let _guard = loader.source.guard();
    let (plan, sources) = loader.plan()?;
    if plan.elements.iter().all(|element| element.class.name == "ControlSocket") {
        notes.push(
            "the configuration has no elements for packets: nothing runs; Ctrl-C ends it".into(),
        );
    }

    let cores = running.cores()?;
    let workers = running.workers()?;
    if args.simtime && workers > 1 {
        return Err(UsageError("--simtime needs one worker: there is one clock".into()).into());
    }
    let screen = Screen::new(&running.showing, rows);
    let options = Options {
        workers,
        frame_limit: running.vector.into(),
        idle: running.idle,
        simulated: args.simtime,
        cache: CACHE,
        cores,
        surveys: !running.no_surveys,
        console: Console::new(screen.out(), screen.err()),
        reader: args.allow_reconfigure.then(|| {
            let loader = Arc::clone(&loader);
            graph::ConfigReader::new(move |text| loader.plan_of_text(text))
        }),
        // A program beside the router, as of `linerate switch`, adds ports by replacing the configuration.
        grants_replace: side_task.is_some(),
        ..Options::default()
    };
    service.status("taking memory and opening ports");
    let arena = resources::arena_for(&running.memory, plan.packets_needed(&devices))?;
    let ports = linerate_port::Context {
        devices,
        disconnect: running.host.disconnect,
        ..linerate_port::Context::new(arena.clone())
    };
    let leases = ports.shared.get::<Leases>();
    let mut router = Router::new(plan, &loader.library, ports, &options)
        .map_err(|error| ConfigurationError::from_build_error(error, &sources))?;
    sockets.bound(&mut router)?;
    service.listens_at(sockets.addresses());
    if let Some(prepare) = prepare {
        prepare(&mut router);
    }
    let control = router.control();
    // Before the announcement, whose reader may end the run at once. Without a terminal to hang up,
    // that signal has the file read again, as service managers expect.
    let reload = Arc::new(AtomicBool::new(false));
    let reloads = [(consts::SIGHUP, Arc::clone(&reload))];
    let ends = [consts::SIGINT, consts::SIGTERM, consts::SIGHUP];
    let watched = match (Service::is_managed(), &loader.source) {
        (true, Source::File(_)) => end_run_or_tell(control.clone(), &ends[..2], &reloads),
        _ => end_run(control.clone(), &ends),
    };
    let watched = watched.context("cannot watch for signals")?;
    let mut lines = vec![
        resources::describe_arena(&arena, &running.memory),
        format!(
            "{workers} worker{}, at most {} packets per frame, idle strategy {}",
            if workers == 1 { "" } else { "s" },
            running.vector,
            running.idle
        ),
    ];
    lines.extend(sockets.lines());
    lines.extend(notes);
    screen.start(
        &lines,
        json!({
            "command": "run",
            "configuration": loader.source.name(),
            "workers": workers,
            "vector": running.vector,
            "idle": running.idle.name(),
            "control": sockets.json(),
            "pages": arena.pages().to_string(),
            "buffers": arena.count(),
            "cycles_per_second": linerate_memory::clock::cycles_per_second(),
        }),
    )?;

    let teller = screen.clone();
    let links = {
        let leases = Arc::clone(&leases);
        links::follow(move || PortLink::of_graph(&leases), move |news| teller.link(news))
    };
    let side_task = side_task.map(|side_task| {
        let (control, loader, screen) = (control.clone(), Arc::clone(&loader), screen.clone());
        let task = move || {
            side_task(&RunningHandle { control: &control, loader: &loader, screen: &screen });
        };
        thread::Builder::new().name("changes".into()).spawn(task)
    });
    let side_task = side_task.transpose().context("cannot start a thread for changes")?;
    let started = Instant::now();
    let until = running.duration.map(|duration| started + duration);
    let (ended, end) = mpsc::channel::<()>();
    // Workers are asked for a sign of life before they run: also a short run gives it.
    let mut liveness = Liveness::new(control.clone());
    let worker = thread::Builder::new().name("worker-0".into()).spawn(move || {
        router.run();
        drop(ended);
        router
    });
    let worker = worker.context("cannot start a worker thread")?;

    let mut next = started + running.showing.interval;
    let first = Figures::read(&control);
    let mut last = (started, first.clone());
    let mut shown = Ok(());
    let ready = |status: &str| {
        let (text, object) = readiness(begun, status);
        screen.ready(&text, object)
    };
    loop {
        let now = Instant::now();
        if shown.is_ok() {
            shown = liveness.look(&mut service, now, ready);
        }
        if until.is_some_and(|until| now >= until) || shown.is_err() {
            control.stop();
        }
        if now >= next && shown.is_ok() {
            let figures = Figures::read(&control);
            let links = PortLink::of_graph(&leases);
            let since = figures.since(&last.1);
            shown = screen.interval(now - started, &since, now - last.0, &links);
            last = (now, figures);
            next += running.showing.interval * (1 + late(now - next, running.showing.interval));
        }
        let changed = watch.as_mut().is_some_and(Watch::has_changed);
        if reload.swap(false, Ordering::AcqRel) || changed {
            service.reloading();
            let replaced = replace(&control, &loader, &screen);
            let status = liveness.status();
            service.ready(&if replaced { status } else { format!("{status}; {REFUSED}") });
        }
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
        // The end comes by the channel; files that change, and signals to read one again, do not.
        let alert = if liveness.is_at_rest() && watch.is_none() {
            Duration::MAX
        } else {
            liveness.interval()
        };
        let wait = alert.min(left).min(next.saturating_duration_since(now));
        if end.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    if shown.is_ok() && control.driver().failure().is_none() {
        shown = liveness.look(&mut service, Instant::now(), ready);
    }
    service.stopping();
    drop(links);
    let mut router = worker.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    // A configuration that has ended is not replaced any more.
    control.stop();
    let took = started.elapsed();
    drop(watched);
    router.close();
    let figures = Figures::read(&control);
    drop(router);
    if let Some(side_task) = side_task {
        side_task.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    }
    shown?;
    let counted = if figures.is_of(&first) { took } else { figures.span().min(took) };
    screen.total(took, counted, &figures, arena.accounting().held)?;
    match control.driver().failure() {
        Some(reason) => Err(anyhow::anyhow!("{reason}")),
        None => Ok(()),
    }
}

/// The checked graph of it, of which nothing is made.
#[cfg(feature = "commands")]
pub(crate) fn plan(subject: Subject) -> Result<Plan> {
    let Subject { source, globals, library, texts, socket, .. } = subject;
    // A control socket holds no packets.
    let control = Vec::new();
    let loader = PlanLoader { source, globals, library, texts, socket, control };
    Ok(loader.plan()?.0)
}

/// Whole intervals that have been missed.
fn late(by: Duration, interval: Duration) -> u32 {
    u32::try_from(by.as_nanos() / interval.as_nanos().max(1)).unwrap_or(0)
}

/// Message when the new text of a file cannot be run.
const REFUSED: &str = "the old configuration goes on";

/// Replaces the running configuration by the file's, and returns whether it could; when that cannot
/// be, prints why and leaves it.
fn replace(control: &Control, loader: &PlanLoader, screen: &Screen) -> bool {
    let replaced = loader.plan().and_then(|(plan, sources)| {
        control.replace(plan).map_err(|error| ConfigurationError::from_build_error(error, &sources))
    });
    match &replaced {
        Ok(()) => screen.note(&format!("{} has changed and runs now", loader.source.name())),
        Err(error) => {
            screen.note(&text_of(error));
            screen.note(REFUSED);
        }
    }
    replaced.is_ok()
}

/// Reads the configuration, as often as need be.
struct PlanLoader {
    source: Source,
    globals: Globals,
    library: Library,
    texts: &'static [LibraryText],
    socket: Option<String>,
    /// The arguments of the control sockets of the command line.
    control: Vec<String>,
}

impl PlanLoader {
    fn plan(&self) -> Result<(Plan, SourceMap)> {
        let name = self.source.name();
        let text = self.source.read().map_err(|error| cannot_read(name, error))?;
        let parsed = self.parse(name, &text);
        parsed.check_variables(&self.globals)?;
        parsed.into_plan(&self.library)
    }

    /// The plan of a text that a client has written to `hotconfig`.
    fn plan_of_text(&self, text: &str) -> Result<(Plan, Diagnostics), String> {
        self.parse("config", text).into_plan_as_click(&self.library)
    }

    fn parse(&self, name: &str, text: &str) -> Parsed {
        let path = configuration::click_path();
        let mut loader = |wanted: &str, asking: &str| {
            let own = self.texts.iter().find(|text| text.is_wanted(wanted, asking));
            own.map_or_else(|| find_library(wanted, asking, &path), |text| Ok(text.to_library()))
        };
        let (globals, library) = (&self.globals, &self.library);
        let mut parsed = Parsed::with_libraries(name, text, globals, library, &mut loader);
        for (number, config) in self.control.iter().enumerate() {
            parsed.add_control_socket(number, config.clone());
        }
        if let Some(address) = &self.socket {
            parsed.add_cluster_socket(address);
        }
        parsed
    }
}

impl GraphRunning {
    /// Number of workers.
    pub(crate) fn workers(&self) -> Result<usize> {
        Ok(self.workers.map_or(self.cores()?.len().max(1), usize::from))
    }

    fn cores(&self) -> Result<Vec<u32>> {
        let Some(text) = &self.cores else { return Ok(Vec::new()) };
        Ok(resources::usable_cores(text)?)
    }
}

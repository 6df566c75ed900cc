//! A configuration run as `linerate run` does it, and the processor time it
//! takes.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use linerate_graph::{BuildError, Control, Idle, Options, Router, Usage, lang::Globals, load};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::{ArenaOptions, clock::cycles_per_second};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration.
    #[arg(short = 'e', long, conflicts_with = "file")]
    expression: Option<String>,
    /// File with the configuration.
    file: Option<PathBuf>,
    /// The element whose packets count.
    #[arg(long, default_value = "end")]
    at: String,
    /// Most packets in a frame.
    #[arg(long, default_value_t = 256)]
    burst: usize,
    /// How long to run; a configuration may end by itself before.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// How long to run before that without measuring: tables fill meanwhile.
    #[arg(long, default_value_t = 0, value_name = "MS", conflicts_with_all = ["count", "simulated"])]
    warm: u64,
    /// Packets to move instead: given to the configuration as `$COUNT`.
    #[arg(long)]
    count: Option<u64>,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
    /// Cores to run on, a worker each: packets of all of them count.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["core", "count"])]
    cores: Vec<u32>,
    /// Idle strategy: poll, adaptive, block.
    #[arg(long, default_value_t = Idle::Poll)]
    idle: Idle,
    /// Do not measure what cycles elements cost.
    #[arg(long)]
    no_cycles: bool,
    /// Simulate time.
    #[arg(long)]
    simulated: bool,
    /// Memory for packets in MiB.
    #[arg(long, default_value_t = 16)]
    arena: usize,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    let text = match (&args.expression, &args.file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => std::fs::read_to_string(file)?,
        (None, None) => bail!("give a configuration with -e, or a file"),
    };
    let count = args.count.map_or("-1".into(), |count| count.to_string());
    let globals = Globals { variables: vec![("COUNT".into(), count)] };
    let library = linerate_elements::library();
    let loaded = load("config", &text, &library, &globals, &mut |_: &str, _: &str| Err(None));
    let Some(plan) = loaded.plan else { bail!("{}", loaded.found.click()) };
    let at = plan.find(&args.at).with_context(|| format!("no element is called {}", args.at))?;
    let arena = ArenaOptions { size: args.arena << 20, ..ArenaOptions::default() }.create()?;
    let ports = linerate_port::Context::new(arena);
    let options = Options {
        workers: args.cores.len().max(1),
        threads: args.cores.len().max(2),
        cores: args.cores.clone(),
        frame_limit: args.burst,
        idle: args.idle,
        cycles: !args.no_cycles,
        simulated: args.simulated,
        ..Options::default()
    };
    let mut router = Router::new(plan, &library, ports, &options).map_err(|error| match error {
        BuildError::Configuration(found) => anyhow::anyhow!("{}", found.click()),
        error => error.into(),
    })?;
    if let Some(core) = args.core {
        pin_current_thread(core)?;
    }
    let control = router.control();
    let (warm, time) = (Duration::from_millis(args.warm), Duration::from_millis(args.ms));
    let usage_of = |control: &Control| control.usage().1;
    // When the measurement began, and what had been done by then.
    let mut begin = (Instant::now(), usage_of(&control));
    let timer = args.count.is_none().then(|| {
        thread::spawn(move || {
            thread::sleep(warm);
            let begin = (Instant::now(), usage_of(&control));
            thread::sleep(time);
            control.stop();
            begin
        })
    });
    let before = processor_seconds();
    router.run();
    let mut processor = processor_seconds() - before;
    if let Some(timer) = timer.filter(|_| args.warm > 0) {
        begin = timer.join().map_err(|_| anyhow!("the timer died"))?;
    }
    let (started, begin) = begin;
    let wall = started.elapsed().as_secs_f64();
    let (plan, usage) = router.control().usage();
    router.close();
    // Of all workers, without what they had done before.
    let spent = |figure: &dyn Fn(&Usage) -> f64| -> f64 {
        usage.iter().zip(&begin).map(|(end, begin)| figure(end) - figure(begin)).sum()
    };
    let packets = spent(&|usage| usage.elements[at].packets as f64);
    let elements: serde_json::Map<String, Value> = plan
        .elements
        .iter()
        .enumerate()
        .map(|(at, element)| {
            (element.name.clone(), (spent(&|usage| usage.elements[at].cycles) / packets).into())
        })
        .collect();
    if args.warm > 0 {
        // By the workers' own account: part of the thread's time was before.
        processor = spent(&|usage| (usage.work + usage.wait) as f64) / cycles_per_second();
    }
    Ok(json!({
        "packets": packets as u64,
        "seconds": wall,
        "cpu_seconds": processor,
        "cycles": processor * cycles_per_second() / packets,
        "elements": elements,
        "engine_cycles": spent(&|usage| usage.engine) / packets,
    }))
}

/// Processor time of this thread so far.
pub(crate) fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

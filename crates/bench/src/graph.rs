//! A configuration run as `linerate run` does it, and the processor time it
//! takes.

use std::{path::PathBuf, thread, time::Duration};

use anyhow::{Context as _, Result, bail};
use linerate_graph::{BuildError, Idle, Options, Router, lang::Globals, load};
use linerate_memory::{ArenaOptions, clock::cycles_per_second};
use linerate_port::machine::pin_current_thread;
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
    /// Packets to move instead: given to the configuration as `$COUNT`.
    #[arg(long)]
    count: Option<u64>,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
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
        frame_limit: args.burst,
        idle: Idle::Poll,
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
    let time = Duration::from_millis(args.ms);
    if args.count.is_none() {
        thread::spawn(move || {
            thread::sleep(time);
            control.stop();
        });
    }
    let before = (seconds(ClockId::Monotonic), seconds(ClockId::ThreadCPUTime));
    router.run();
    let wall = seconds(ClockId::Monotonic) - before.0;
    let processor = seconds(ClockId::ThreadCPUTime) - before.1;
    let (plan, mut usage) = router.control().usage();
    let usage = usage.swap_remove(0);
    router.close();
    let packets = usage.elements[at].packets;
    let elements: serde_json::Map<String, Value> = plan
        .elements
        .iter()
        .zip(&usage.elements)
        .map(|(element, usage)| (element.name.clone(), usage.cycles_per_packet().into()))
        .collect();
    Ok(json!({
        "packets": packets,
        "seconds": wall,
        "cpu_seconds": processor,
        "cycles": processor * cycles_per_second() / packets as f64,
        "elements": elements,
        "engine_cycles": usage.engine / packets as f64,
    }))
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

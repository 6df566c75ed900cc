//! A worker that forwards while its table of routes is written from another
//! thread: what is lost, what goes wrong, and the longest time it stands still.
//!
//! The first eight bits of an address say by which of two outputs its packets
//! may leave, whatever is done to the routes, so that the sink knows without a
//! table of its own. The gap is the time from one burst of the source to the
//! next; all that happens to a burst lies in between. Other programs make gaps
//! too, and so does the kernel: they are what there is without updates.

use std::{
    fmt::Write as _,
    net::Ipv4Addr,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use linerate_graph::{
    Class, Context, Control, Element, Idle, Library, Next, Options, Router, lang::Globals, load,
};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::{
    ArenaOptions, Frame,
    clock::{cycles, cycles_per_second},
};
use linerate_tables::prefix::{Address as _, Prefix};
use serde_json::{Value, json};

use crate::lookup::tables::internet4;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long each phase is.
    #[arg(long, default_value_t = 1000)]
    ms: u64,
    /// Changes of routes per second.
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Packets in a frame.
    #[arg(long, default_value_t = 256)]
    burst: usize,
    /// Core to forward on.
    #[arg(long)]
    core: Option<u32>,
    /// Core to write the table from.
    #[arg(long)]
    writer_core: Option<u32>,
}

/// Destinations packets go to.
const DESTINATIONS: usize = 1 << 16;
/// Outputs of an address: this by its parity, or two more.
const PARITIES: u32 = 2;
/// Where what no packet takes leads.
const ELSEWHERE: u32 = 4;

/// Updates of the table while packets are looked up.
const PHASES: [&str; 3] = ["quiet", "updates", "reload"];

/// Counts of a phase.
struct Phase {
    packets: AtomicU64,
    wrong: AtomicU64,
    longest: AtomicU64,
    /// Gaps of more than a millisecond.
    long: AtomicU64,
}

static COUNTS: [Phase; PHASES.len()] = [const {
    Phase {
        packets: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
        longest: AtomicU64::new(0),
        long: AtomicU64::new(0),
    }
}; PHASES.len()];
/// The phase there is; none at first.
static NOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static SENT: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static TO: std::sync::OnceLock<Vec<u32>> = std::sync::OnceLock::new();

fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed) + by, Relaxed);
}

fn parity(address: u32) -> u32 {
    (address >> 24) % PARITIES
}

const SOURCE: Class = Class {
    name: "UpdatesSource",
    ports: "0/1",
    processing: "h/h",
    annotates: true,
    make: |_| Box::new(Source { next: 0, last: 0, phase: usize::MAX }),
    ..Class::here()
};

struct Source {
    next: usize,
    last: u64,
    phase: usize,
}

impl Element for Source {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let (now, phase) = (cycles(), NOW.load(Relaxed));
        if let Some(count) = COUNTS.get(phase).filter(|_| phase == self.phase) {
            let gap = now.wrapping_sub(self.last);
            count.longest.fetch_max(gap, Relaxed);
            add(&count.long, u64::from(gap > cycles_per_second() as u64 / 1000));
        }
        (self.last, self.phase) = (now, phase);
        let limit = cx.frame_limit();
        cx.pool.take(frame, limit, 60);
        cx.begin_packets(frame);
        let to = TO.get().map_or(&[][..], Vec::as_slice);
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            let address = to.get(self.next % DESTINATIONS).copied().unwrap_or(0);
            if let Some(meta) = arena.meta_mut(slot) {
                meta.destination[..4].copy_from_slice(&address.to_be_bytes());
            }
            self.next += 1;
        }
        add(&SENT, frame.len() as u64);
        Next::Again
    }
}

const SINK: Class = Class {
    name: "UpdatesSink",
    ports: "-/0",
    processing: "h/h",
    annotates: true,
    make: |_| Box::new(Sink),
    ..Class::here()
};

struct Sink;

impl Element for Sink {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        let mut wrong = 0;
        for slot in frame.slots() {
            let [a, ..] = arena.meta(slot).destination;
            let right = port as u32 % PARITIES == parity(u32::from(a) << 24);
            wrong += u64::from(!right || port as u32 >= ELSEWHERE);
        }
        add(&SEEN, frame.len() as u64);
        if let Some(count) = COUNTS.get(NOW.load(Relaxed)) {
            add(&count.packets, frame.len() as u64);
            add(&count.wrong, wrong);
        }
        cx.discard(frame);
    }
}

/// All routes, each by the first or the second of its outputs.
fn text(prefixes: &[Prefix<u32>], second: bool) -> String {
    let mut text = String::from("0/0 4\n");
    for prefix in prefixes {
        let output = parity(prefix.first()) + PARITIES * u32::from(second);
        let _ = writeln!(text, "{prefix} {output}");
    }
    text
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    let prefixes: Vec<Prefix<u32>> = internet4()?.into_keys().collect();
    let mut random = fastrand::Rng::with_seed(4);
    let mut inside = || {
        let prefix = prefixes[random.usize(..prefixes.len())];
        prefix.first() | random.u32(..) & !u32::mask(prefix.length().into())
    };
    let to: Vec<u32> = (0..DESTINATIONS).map(|_| inside()).collect();
    let _ = TO.set(to);
    let config = "s :: UpdatesSource -> r :: RadixIPLookup; a :: UpdatesSink;
        r -> a; r [1] -> [1] a; r [2] -> [2] a; r [3] -> [3] a; r [4] -> [4] a;";
    let library = linerate_elements::library();
    let library = Library::new(library.iter().chain([&SOURCE, &SINK]));
    let globals = Globals::default();
    let loaded = load("config", config, &library, &globals, &mut |_: &str, _: &str| Err(None));
    let Some(plan) = loaded.plan else { bail!("{}", loaded.found.click()) };
    let arena = ArenaOptions { size: 16 << 20, ..ArenaOptions::default() }.create()?;
    let options = Options { frame_limit: args.burst, idle: Idle::Poll, ..Options::default() };
    let ports = linerate_port::Context::new(arena);
    let mut router = Router::new(plan, &library, ports, &options)?;
    let reload = [text(&prefixes, false), text(&prefixes, true)];
    router.write("r.reload", &reload[0])?;
    let control = router.control();
    let writer = thread::scope(|scope| {
        let (prefixes, reload) = (&prefixes, &reload);
        let writer = scope.spawn(move || {
            let _stop = StopAtEnd(&control);
            if let Some(core) = args.writer_core {
                pin_current_thread(core)?;
            }
            write(args, &control, prefixes, reload)
        });
        if let Some(core) = args.core {
            pin_current_thread(core)?;
        }
        router.run();
        writer.join().map_err(|_| anyhow::anyhow!("the writer has failed"))?
    })?;
    let drops = router.read("r.drops", "")?;
    router.close();
    let per_us = cycles_per_second() / 1e6;
    let phases = PHASES.iter().zip(&COUNTS).map(|(name, count)| {
        json!({
            "phase": name,
            "packets": count.packets.load(Relaxed),
            "wrong": count.wrong.load(Relaxed),
            "longest_gap_us": count.longest.load(Relaxed) as f64 / per_us,
            "gaps_over_1ms": count.long.load(Relaxed),
        })
    });
    Ok(json!({
        "phases": phases.collect::<Vec<_>>(),
        "lost": SENT.load(Relaxed) - SEEN.load(Relaxed),
        "no_route": drops.lines().next().and_then(|line| line.split('\t').next()?.parse::<u64>().ok()),
        "routes": prefixes.len() + 1,
        "writer": writer,
    }))
}

struct StopAtEnd<'c>(&'c Control);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Goes through the phases; what the writing took.
fn write(
    args: &Args,
    control: &Control,
    prefixes: &[Prefix<u32>],
    reload: &[String; 2],
) -> Result<Value> {
    let phase = Duration::from_millis(args.ms);
    thread::sleep(phase / 4);
    NOW.store(0, Relaxed);
    thread::sleep(phase);
    let mut random = fastrand::Rng::with_seed(5);
    NOW.store(1, Relaxed);
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < phase {
        let due = begun + Duration::from_secs(times.len() as u64) / args.rate;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let prefix = prefixes[random.usize(..prefixes.len())];
        let output = parity(prefix.first()) + PARITIES * random.u32(..2);
        let value = match times.len() % 50 {
            0 => format!("set 0/0 10.0.0.{} 4", random.u8(..)),
            1 => format!("remove {prefix}\nadd {prefix} {output}"),
            2 => {
                // A longer one comes and goes.
                let host = Ipv4Addr::from(prefix.first());
                format!("set {host}/32 {output}")
            }
            // The gateway becomes the destination, by which the sink judges.
            3 => format!("set {prefix} {}.0.0.1 {output}", 10 + parity(prefix.first())),
            _ => format!("set {prefix} {output}"),
        };
        let started = Instant::now();
        control.write("r.ctrl", &value)?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let updates = times.len();
    let seconds = begun.elapsed().as_secs_f64();
    NOW.store(2, Relaxed);
    let started = Instant::now();
    control.write("r.reload", &reload[1])?;
    let reloaded = started.elapsed();
    NOW.store(usize::MAX, Relaxed);
    times.sort_by(f64::total_cmp);
    Ok(json!({
        "updates": updates,
        "updates_per_second": updates as f64 / seconds,
        "update_us_median": times.get(updates / 2),
        "update_us_longest": times.last(),
        "reload_seconds": reloaded.as_secs_f64(),
    }))
}

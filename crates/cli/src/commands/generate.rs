//! `linerate generate`: traffic after a description, at a rate.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use linerate_lab::{
    FCS, FrameMaker, Generator, LINE_OVERHEAD, Progress, ProgressReader, Protocol, Schedule,
    Traffic,
};
use linerate_packet::MacAddr;
use linerate_port::{Context, Counters, Counts, Direction, Port, open, pcap::Reader, probe};
use linerate_worker::{Stage, Usage, UsageReader};
use serde_json::json;

use crate::{
    args::Generate,
    exit::UsageError,
    live::{self, Cell, Live},
    output::Output,
    session::{self, CACHE, Job, drive},
    units::{grouped, short},
};

pub(crate) fn run(args: &Generate) -> Result<()> {
    let started = Instant::now();
    let running = &args.running;
    let stop = session::stop_on_signals()?;
    probe(&args.port)?;
    let context = Context::new(session::arena(&running.memory)?);
    let port = open(&args.port, &context.toward(Direction::Transmit))?;
    let output = Output::new(running.showing.json).beside(&args.port);
    let mut live = Live::new(output, running.showing.quiet);

    let source = Source::new(args, &port)?;
    let probe = source.maker(0, 0)?;
    check_length(args, &port, &context, &probe)?;
    let mean = probe.mean_len() + FCS as f64;
    let rate = args
        .rate
        .packets_per_second(mean, port.info.speed)
        .map_err(|reason| UsageError(format!("--rate {}: {reason}", args.rate)))?;
    announce(args, &port, &context, rate, mean, &mut live)?;

    let (_, transmits) = session::split(port);
    if transmits.is_empty() {
        return Err(UsageError(format!("{} cannot send", args.port)).into());
    }
    let cores = session::cores(running)?;
    let workers = cores.len().min(transmits.len());
    // A generator of its own for every run, so that a sink that goes on tells
    // two runs apart.
    let run = (linerate_lab::now() / 1000 % 256) as u16;
    let mut readers = Readers::default();
    let mut jobs: Vec<(Option<u32>, Job<()>)> = Vec::new();
    for (index, (core, transmit)) in cores.into_iter().zip(transmits).enumerate() {
        readers.counters.push(Arc::clone(transmit.counters()));
        let share = |n: u64| n / workers as u64 + if index == 0 { n % workers as u64 } else { 0 };
        let generator = Generator::new(
            source.maker(run, index)?,
            Schedule::new(rate.map(|rate| rate / workers as f64), args.pattern, args.seed),
            transmit,
            context.arena.cache(CACHE),
            running.burst.into(),
            running.idle,
            running.count.map(share),
        );
        readers.progress.push(generator.progress());
        readers.usage.push(generator.usage());
        jobs.push((core, Box::new(move |stop| Ok(generator.run(stop)?))));
    }

    let until = running.duration.map(|duration| Instant::now() + duration);
    let mut last = (Duration::ZERO, Figures::default());
    let outcomes = drive(jobs, running.showing.interval, until, &stop, |time| {
        let now = readers.read();
        let span = time.saturating_sub(last.0);
        if span >= running.showing.interval / 2 {
            live.row(time, &now.cells(&last.1, span))?;
        }
        last = (time, now);
        Ok(())
    })?;
    let (time, figures) = last;
    figures.print(time, started, &mut live)?;
    outcomes.into_iter().collect()
}

/// Where the frames come from.
enum Source {
    Description(Traffic),
    Capture(FrameMaker),
}

impl Source {
    fn new(args: &Generate, port: &Port) -> Result<Source> {
        match &args.pcap {
            Some(path) => {
                let frames =
                    frames_of(path).with_context(|| format!("--pcap {}", path.display()))?;
                let maker = FrameMaker::of_frames(frames)
                    .with_context(|| format!("--pcap {}", path.display()))?;
                Ok(Source::Capture(maker))
            }
            None => Ok(Source::Description(describe(args, port.info.mac)?)),
        }
    }

    /// The frames of one worker of one run. What is random differs between
    /// workers, and not between runs.
    fn maker(&self, run: u16, worker: usize) -> Result<FrameMaker> {
        match self {
            Source::Description(traffic) => {
                let seed = traffic.seed ^ (worker as u64) << 32;
                let traffic = Traffic { seed, ..traffic.clone() };
                traffic
                    .maker(run << 8 | worker as u16)
                    .map_err(|error| UsageError(error.to_string()).into())
            }
            Source::Capture(maker) => Ok(maker.clone()),
        }
    }
}

/// All frames of a capture file. One that was cut when captured goes out as
/// long as it is.
fn frames_of(path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut reader = Reader::open(path)?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next()? {
        frames.push(record.data.to_vec());
    }
    Ok(frames)
}

/// The traffic asked for.
fn describe(args: &Generate, mac: Option<MacAddr>) -> Result<Traffic, UsageError> {
    let mut traffic = args.flows.traffic(mac)?;
    traffic.variation.vlans = args.vlan;
    Ok(Traffic {
        protocol: args.protocol.0,
        traffic_class: args.tos,
        ttl: args.ttl,
        outer_vlan: args.outer_vlan,
        priority: args.priority,
        order: args.order.0,
        signed: !args.unsigned,
        seed: args.seed,
        ..traffic
    })
}

/// The longest frame must fit the buffers and the port.
fn check_length(
    args: &Generate,
    port: &Port,
    context: &Context,
    maker: &FrameMaker,
) -> Result<(), UsageError> {
    let (longest, room) = (maker.longest(), context.arena.room());
    if longest > room {
        let needed = longest + context.arena.headroom();
        return Err(UsageError(format!(
            "frames of {} bytes do not fit packet buffers of {}: add --buffer-size {needed}",
            longest + FCS,
            context.arena.buffer_size()
        )));
    }
    match port.info.frame_limit {
        Some(limit) if longest > limit => Err(UsageError(format!(
            "frames of {} bytes are longer than the {} that {} carries: choose smaller ones or \
             raise the interface's MTU",
            longest + FCS,
            limit + FCS,
            args.port
        ))),
        _ => Ok(()),
    }
}

fn announce(
    args: &Generate,
    port: &Port,
    context: &Context,
    rate: Option<f64>,
    mean: f64,
    live: &mut Live,
) -> Result<()> {
    let running = &args.running;
    let what = match (&args.pcap, args.protocol.0) {
        (Some(path), _) => format!("frames of {}", path.display()),
        (None, Protocol::Raw(ether_type)) => {
            format!("{} bytes, ethertype {ether_type:#06x}", args.flows.size)
        }
        (None, protocol) => {
            format!("{} bytes, {}", args.flows.size, format!("{protocol:?}").to_lowercase())
        }
    };
    let how_fast = rate.map_or("as fast as possible".into(), |rate| {
        let line = rate * 8.0 * (mean + LINE_OVERHEAD as f64);
        format!("{}pps ({}bit/s on the wire), {}", short(rate), short(line), args.pattern)
    });
    let lines = [
        session::describe_port(port),
        session::describe_arena(&context.arena, &running.memory),
        format!("{what}; {how_fast}"),
    ];
    let object = json!({
        "command": "generate",
        "port": args.port.to_string(),
        "sizes": args.flows.size.to_string(),
        "mean_size": mean,
        "intended_pps": rate,
        "pattern": args.pattern.to_string(),
        "burst": running.burst,
        "idle": running.idle.name(),
        "cycles_per_second": linerate_memory::clock::cycles_per_second(),
    });
    Ok(live.start(&lines, object)?)
}

/// Where the workers' figures are read.
#[derive(Default)]
struct Readers {
    progress: Vec<ProgressReader>,
    counters: Vec<Arc<Counters>>,
    usage: Vec<UsageReader>,
}

/// Figures at a moment.
#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    progress: Progress,
    sent: Counts,
    usage: Usage,
}

impl Readers {
    fn read(&self) -> Figures {
        let mut figures = Figures {
            sent: self.counters.iter().map(|counters| counters.read()).sum(),
            ..Figures::default()
        };
        for reader in &self.progress {
            let progress = reader.read();
            figures.progress.intended += progress.intended;
            figures.progress.offered += progress.offered;
            figures.progress.accepted += progress.accepted;
        }
        self.usage.iter().for_each(|reader| figures.usage += reader.read());
        figures
    }
}

impl Figures {
    fn cells(&self, before: &Figures, span: Duration) -> Vec<Cell> {
        let rate = |now: u64, then: u64| (now - then) as f64 / span.as_secs_f64();
        let (now, then) = (&self.progress, &before.progress);
        let sent = self.sent - before.sent;
        let usage = self.usage - before.usage;
        // Each frame's FCS and the line's overhead, which the port does not count.
        let line = sent.bytes + sent.packets * (FCS + LINE_OVERHEAD) as u64;
        vec![
            Cell::count("intended_pps", "intended", rate(now.intended, then.intended)),
            Cell::count("offered_pps", "offered", rate(now.offered, then.offered)),
            Cell::count("accepted_pps", "accepted", rate(now.accepted, then.accepted)),
            Cell::count("line_bps", "wire bit/s", rate(line, 0) * 8.0),
            Cell::count("unsent", "unsent", now.unsent() as f64),
            Cell::count("dropped_pps", "drop/s", rate(sent.dropped(), 0)),
            Cell::cycles("cycles_per_packet", "cyc/pkt", usage.cycles_per_packet()),
            Cell::cycles("make_cycles", "make", usage.stage_cycles(Stage::Task)),
            Cell::cycles("transmit_cycles", "transmit", usage.stage_cycles(Stage::Transmit)),
            Cell::count("mean_burst", "burst", usage.mean_burst()),
            Cell::percent("idle", "idle", usage.waiting()),
            Cell::hidden("transmit_drops", live::drops(&sent)),
        ]
    }

    fn print(&self, time: Duration, started: Instant, live: &mut Live) -> Result<()> {
        let seconds = time.as_secs_f64();
        let Figures { progress, sent, usage } = self;
        let line = sent.bytes + sent.packets * (FCS + LINE_OVERHEAD) as u64;
        let per_second = |count: u64| short(count as f64 / seconds);
        let mut lines = vec![
            format!(
                "sent {} frames in {seconds:.2} s: {}pps, {}bit/s on the wire{}",
                grouped(sent.packets),
                per_second(sent.packets),
                per_second(line * 8),
                usage
                    .cycles_per_packet()
                    .map_or(String::new(), |cycles| format!(", {cycles:.1} cycles per frame")),
            ),
            format!(
                "  intended {} ({}pps), offered {} ({}pps), accepted {} ({}pps)",
                grouped(progress.intended),
                per_second(progress.intended),
                grouped(progress.offered),
                per_second(progress.offered),
                grouped(progress.accepted),
                per_second(progress.accepted),
            ),
        ];
        if progress.unsent() > 0 {
            lines.push(format!(
                "  {} frames came due and were not sent: the port or this machine was too slow",
                grouped(progress.unsent())
            ));
        }
        lines.extend(live::drop_lines(sent, "on transmission"));
        let object = json!({
            "seconds": seconds,
            "total_seconds": started.elapsed().as_secs_f64(),
            "intended": progress.intended,
            "offered": progress.offered,
            "accepted": progress.accepted,
            "unsent": progress.unsent(),
            "sent_packets": sent.packets,
            "sent_bytes": sent.bytes,
            "transmit_drops": live::drops(sent),
            "cycles_per_packet": usage.cycles_per_packet(),
        });
        Ok(live.summary(&lines, object)?)
    }
}

//! `linerate generate`: traffic after a description, at a rate.

mod control;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use linerate_lab::{
    FCS, FrameMaker, Frames, Generator, LINE_OVERHEAD, Mix, Pattern, Progress, ProgressReader,
    Rate, Schedule, Sizes, Traffic,
};
use linerate_memory::Arena;
use linerate_packet::MacAddr;
use linerate_port::{
    Context, Counters, Counts, Direction, Port, PortUri, open, pcap::Reader, probe,
};
use linerate_worker::{Stage, Usage, UsageReader};
use serde_json::json;

use super::connections;
use crate::{
    args::{self, Generate},
    control::ControlSockets,
    exit::UsageError,
    links::{self, PortLink},
    live::{self, Cell, Live},
    output::Output,
    profile::{self, Profile, ProfileStream, Share},
    readiness::ReadinessReporter,
    remote::Remote,
    resources,
    session::{self, CACHE, Job, drive},
    units::{grouped, with_unit},
};
use control::GeneratorCommands;

pub(crate) fn run(args: &Generate) -> Result<()> {
    let streams = match args.profile.as_deref().map(profile::read).transpose()? {
        Some(Profile::Connections(groups)) => return connections::generate(args, &groups),
        Some(Profile::Streams(streams)) => Some(streams),
        None => None,
    };
    if args.host.disconnect {
        let reason = "--disconnect is for connections: what sends frames takes none from the host";
        return Err(UsageError(reason.into()).into());
    }
    let started = Instant::now();
    let running = &args.running;
    let stop = session::stop_on_signals()?;
    let output = Output::new(running.showing.json).beside(&args.port);
    let mut live = Live::new(output, &running.showing);
    let mut reporter = ReadinessReporter::new(&running.readiness, output, &running.showing)?;
    probe(&args.port)?;
    let context = Context::new(resources::arena(&running.memory)?);
    let port = open(&args.port, &context.toward(Direction::Transmit))?;

    let sources = Sources::new(args, streams, &port)?;
    let room = FrameLimits::new(args, &port, &context);
    room.check(sources.frames(0, 0)?.longest())?;
    let remote = Remote::listen(&args.controlled, "generate", &control::CLASS, &context.arena)?;
    let none = ControlSockets::default();
    let sockets = remote.as_ref().map_or(&none, Remote::sockets);
    reporter.listens_at(sockets.addresses());
    announce(args, &port, &context, &sources, sockets, &mut live)?;
    let link = PortLink::from_info(&port.info);
    let following = links::report_links(link.iter().cloned().collect(), output);

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
    let mut generators = Vec::new();
    let mut jobs: Vec<(Option<u32>, Job<()>)> = Vec::new();
    for (index, (core, transmit)) in cores.into_iter().zip(transmits).enumerate() {
        readers.counters.push(Arc::clone(transmit.counters()));
        let share = |n: u64| n / workers as u64 + if index == 0 { n % workers as u64 } else { 0 };
        let frames = sources.frames(run, index)?;
        if let Frames::Mix(mix) = &frames {
            readers.made.push(mix.made());
        }
        let generator = Generator::new(
            frames,
            sources.schedule(workers, args.pattern, args.seed),
            transmit,
            context.arena.cache(CACHE),
            running.burst.into(),
            running.idle,
            running.count.map(share),
        );
        readers.progress.push(generator.progress());
        readers.usage.push(generator.usage());
        generators.push(generator.control());
        jobs.push((core, Box::new(move |stop| Ok(generator.run(stop)?))));
    }

    let readers = Arc::new(readers);
    reporter.workers(readers.usage.clone(), format!("generate {}", args.port));
    let streams = sources.names();
    let handlers =
        GeneratorCommands::new(args, sources, room, run, generators, Arc::clone(&readers));
    let server = remote.map(|remote| remote.serve(Arc::new(handlers), &stop)).transpose()?;
    let until = running.duration.map(|duration| Instant::now() + duration);
    let mut last = (Duration::ZERO, Figures::default());
    let (interval, look) = (running.showing.interval, |now| reporter.look(now));
    let outcomes = drive(jobs, interval, until, &stop, look, |time| {
        let now = readers.read();
        let span = time.saturating_sub(last.0);
        if span >= interval / 2 {
            let mut cells = now.cells(&last.1, span);
            cells.extend(live::link_cell(std::slice::from_ref(&link)));
            live.row(time, &cells)?;
        }
        last = (time, now);
        Ok(())
    })?;
    let (time, figures) = last;
    reporter.ends();
    drop((following, server));
    let streams = readers.streams(&streams);
    figures.print(time, started, &streams, &mut live)?;
    outcomes.into_iter().collect()
}

/// The streams to be sent.
#[derive(Clone)]
struct Sources {
    streams: Vec<Stream>,
    /// The rate asked for; none where the streams have rates of their own.
    asked: Option<Rate>,
    /// The link's, in bits per second.
    speed: Option<u64>,
    /// Frames per second of all; none for as fast as possible.
    rate: Option<f64>,
    mean: f64,
    /// Whether they are of a profile, and counted each.
    named: bool,
    random: Option<u64>,
}

/// A stream and its share of the frames.
#[derive(Clone)]
struct Stream {
    name: String,
    frames: Source,
    weight: f64,
}

/// Source of a stream's frames.
#[derive(Clone)]
enum Source {
    Description(Traffic),
    Capture(FrameMaker),
}

impl Sources {
    /// The streams of a profile, or the one of the command line.
    fn new(args: &Generate, streams: Option<Vec<ProfileStream>>, port: &Port) -> Result<Sources> {
        let speed = port.info.speed;
        let per_second = |rate: Rate, mean: f64| {
            let reason = |reason| UsageError(format!("--rate {rate}: {reason}"));
            rate.packets_per_second(mean, speed).map_err(reason)
        };
        let random = (args.pattern == Pattern::Poisson).then_some(args.seed);
        let (Some(path), Some(profile)) = (&args.profile, streams) else {
            let frames = Source::new(&args.stream, args.seed, port.info.mac)?;
            let mean = wire(frames.maker(0, 0)?.mean_len());
            let asked = Some(args.stream.rate);
            let rate = per_second(args.stream.rate, mean)?;
            let streams = vec![Stream { name: String::new(), frames, weight: 1.0 }];
            return Ok(Sources { streams, asked, speed, rate, mean, named: false, random });
        };
        let mut streams = Vec::new();
        let mut sum = None;
        for ProfileStream { name, stream, share } in profile {
            let of_stream = || format!("{}: stream {name}", path.display());
            let frames = Source::new(&stream, args.seed, port.info.mac).with_context(of_stream)?;
            let mean = wire(frames.maker(0, 0).with_context(of_stream)?.mean_len());
            let weight = match share {
                Share::Weight(weight) => weight,
                Share::Rate => {
                    let rate = per_second(stream.rate, mean).with_context(of_stream)?;
                    let needed = || UsageError("rate max leaves nothing for others".into());
                    let rate = rate.ok_or_else(needed).with_context(of_stream)?;
                    *sum.get_or_insert(0.0) += rate;
                    rate
                }
            };
            streams.push(Stream { name, frames, weight });
        }
        if sum.is_some() && args.stream.rate != Rate::Max {
            let reason = "the streams of the profile have rates: --rate is for those with weights";
            return Err(UsageError(reason.into()).into());
        }
        let asked = sum.is_none().then_some(args.stream.rate);
        let (mean, named) = (0.0, true);
        let mut sources = Sources { streams, asked, speed, rate: sum, mean, named, random };
        sources.mean = wire(sources.frames(0, 0)?.mean_len());
        if sum.is_none() {
            sources.rate = per_second(args.stream.rate, sources.mean)?;
        }
        Ok(sources)
    }

    /// The streams at another rate.
    fn at(&self, asked: Rate) -> Result<Sources, String> {
        if self.asked.is_none() {
            return Err("the streams of the profile have rates".into());
        }
        let rate = asked.packets_per_second(self.mean, self.speed)?;
        Ok(Sources { asked: Some(asked), rate, ..self.clone() })
    }

    /// The streams with frames of other sizes.
    fn sized(&self, sizes: Sizes) -> Result<Sources, String> {
        let (false, [Stream { frames: Source::Description(traffic), .. }], Some(asked)) =
            (self.named, &*self.streams, self.asked)
        else {
            return Err("frames of a capture or a profile have the sizes they have".into());
        };
        let traffic = Traffic { sizes, ..traffic.clone() };
        let maker = traffic.maker(0).map_err(|error| error.to_string())?;
        let mut other = self.clone();
        other.mean = wire(maker.mean_len());
        other.streams[0].frames = Source::Description(traffic);
        other.at(asked)
    }

    /// The names of the streams of a profile.
    fn names(&self) -> Vec<String> {
        let named = self.streams.iter().filter(|_| self.named);
        named.map(|stream| stream.name.clone()).collect()
    }

    /// The schedule of one of so many workers.
    fn schedule(&self, workers: usize, pattern: Pattern, seed: u64) -> Schedule {
        Schedule::new(self.rate.map(|rate| rate / workers as f64), pattern, seed)
    }

    /// The frames of one worker of one run. Random values differ between workers, and not between
    /// runs.
    fn frames(&self, run: u16, worker: usize) -> Result<Frames> {
        // A sink tells streams and workers apart by a number.
        let number = |at: usize| worker * self.streams.len() + at;
        if number(self.streams.len()) > 256 {
            let reason = "more than 256 streams and workers: a sink could not tell them apart";
            return Err(UsageError(reason.into()).into());
        }
        let makers = self.streams.iter().enumerate().map(|(at, stream)| {
            let maker = stream.frames.maker(run << 8 | number(at) as u16, number(at))?;
            Ok((maker, stream.weight))
        });
        let mut makers = makers.collect::<Result<Vec<_>>>()?;
        Ok(match makers.pop() {
            Some((maker, _)) if !self.named => maker.into(),
            last => {
                makers.extend(last);
                let random = self.random.map(|seed| seed ^ (worker as u64) << 32);
                Frames::Mix(Mix::new(makers, random))
            }
        })
    }
}

impl Source {
    fn new(stream: &args::Stream, seed: u64, mac: Option<MacAddr>) -> Result<Source> {
        match &stream.pcap {
            Some(path) => {
                let frames =
                    frames_of(path).with_context(|| format!("--pcap {}", path.display()))?;
                let maker = FrameMaker::of_frames(frames)
                    .with_context(|| format!("--pcap {}", path.display()))?;
                Ok(Source::Capture(maker))
            }
            None => Ok(Source::Description(stream.traffic(mac, seed)?)),
        }
    }

    /// The frames that are signed with a number; random values go by another.
    fn maker(&self, number: u16, random: usize) -> Result<FrameMaker> {
        match self {
            Source::Description(traffic) => {
                let seed = traffic.seed ^ (random as u64) << 32;
                let traffic = Traffic { seed, ..traffic.clone() };
                traffic.maker(number).map_err(|error| UsageError(error.to_string()).into())
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

/// Bytes of frames on the wire without preamble and gap.
fn wire(frames: f64) -> f64 {
    frames + FCS as f64
}

/// Limits on the longest frame: the buffers and the port.
struct FrameLimits {
    arena: Arena,
    port: PortUri,
    frame_limit: Option<usize>,
}

impl FrameLimits {
    fn new(args: &Generate, port: &Port, context: &Context) -> FrameLimits {
        let (arena, frame_limit) = (context.arena.clone(), port.info.frame_limit);
        FrameLimits { arena, port: args.port.clone(), frame_limit }
    }

    fn check(&self, longest: usize) -> Result<(), UsageError> {
        if longest > self.arena.room() {
            let needed = longest + self.arena.headroom();
            return Err(UsageError(format!(
                "frames of {} bytes do not fit packet buffers of {}: add --buffer-size {needed}",
                longest + FCS,
                self.arena.buffer_size()
            )));
        }
        match self.frame_limit {
            Some(limit) if longest > limit => Err(UsageError(format!(
                "frames of {} bytes are longer than the {} that {} carries: choose smaller ones \
                 or raise the interface's MTU",
                longest + FCS,
                limit + FCS,
                self.port
            ))),
            _ => Ok(()),
        }
    }
}

fn announce(
    args: &Generate,
    port: &Port,
    context: &Context,
    sources: &Sources,
    sockets: &ControlSockets,
    live: &mut Live,
) -> Result<()> {
    let running = &args.running;
    let &Sources { rate, mean, .. } = sources;
    let what = match &args.profile {
        Some(path) => format!("{} streams of {}", sources.streams.len(), path.display()),
        None => args.stream.describe(),
    };
    let how_fast = rate.map_or("as fast as possible".into(), |rate| {
        let line = rate * 8.0 * (mean + LINE_OVERHEAD as f64);
        format!(
            "{} ({} on the wire), {}",
            with_unit(rate, "pps"),
            with_unit(line, "bit/s"),
            args.pattern
        )
    });
    let mut lines = vec![
        session::describe_port(port),
        resources::describe_arena(&context.arena, &running.memory),
        format!("{what}; {how_fast}"),
    ];
    lines.extend(sockets.lines());
    let object = json!({
        "command": "generate",
        "port": args.port.to_string(),
        "sizes": args.profile.is_none().then(|| args.stream.flows.size.to_string()),
        "profile": args.profile,
        "mean_size": mean,
        "intended_pps": rate,
        "pattern": args.pattern.to_string(),
        "burst": running.burst,
        "idle": running.idle.name(),
        "control": sockets.json(),
        "cycles_per_second": linerate_memory::clock::cycles_per_second(),
    });
    Ok(live.start(&lines, object)?)
}

/// Readers of the workers' figures.
#[derive(Default)]
struct Readers {
    /// Number of frames made, by worker and by stream of a profile.
    made: Vec<Vec<Arc<AtomicU64>>>,
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
    /// Number of frames made, by stream of a profile.
    fn streams<'a>(&self, names: &'a [String]) -> Vec<(&'a str, u64)> {
        let made = |at: usize| -> u64 {
            self.made.iter().map(|of_worker| of_worker[at].load(Ordering::Relaxed)).sum()
        };
        names.iter().enumerate().map(|(at, name)| (&**name, made(at))).collect()
    }

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
            figures.progress.caught_up += progress.caught_up;
            let longest = &mut figures.progress.longest_catch_up;
            *longest = progress.longest_catch_up.max(*longest);
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

    fn print(
        &self,
        time: Duration,
        started: Instant,
        streams: &[(&str, u64)],
        live: &mut Live,
    ) -> Result<()> {
        let seconds = time.as_secs_f64();
        let Figures { progress, sent, usage } = self;
        let line = sent.bytes + sent.packets * (FCS + LINE_OVERHEAD) as u64;
        let per_second = |count: u64| with_unit(count as f64 / seconds, "pps");
        let mut lines = vec![
            format!(
                "sent {} frames in {seconds:.2} s: {}, {} on the wire{}",
                grouped(sent.packets),
                per_second(sent.packets),
                with_unit((line * 8) as f64 / seconds, "bit/s"),
                usage
                    .cycles_per_packet()
                    .map_or(String::new(), |cycles| format!(", {cycles:.1} cycles per frame")),
            ),
            format!(
                "  intended {} ({}), offered {} ({}), accepted {} ({})",
                grouped(progress.intended),
                per_second(progress.intended),
                grouped(progress.offered),
                per_second(progress.offered),
                grouped(progress.accepted),
                per_second(progress.accepted),
            ),
        ];
        if progress.caught_up > 0 {
            lines.push(format!(
                "  {} frames were late and sent as fast as the port takes them, at most {} at a time: \
                 this machine was busy, or the port full",
                grouped(progress.caught_up),
                grouped(progress.longest_catch_up),
            ));
        }
        if progress.unsent() > 0 {
            lines.push(format!(
                "  {} frames came due and were not sent: the port or this machine was too slow",
                grouped(progress.unsent())
            ));
        }
        let stream =
            |(name, made): &(&str, u64)| format!("  stream {name}: {} frames made", grouped(*made));
        lines.extend(streams.iter().map(stream));
        lines.extend(live::drop_lines(sent, "on transmission"));
        let object = json!({
            "seconds": seconds,
            "total_seconds": started.elapsed().as_secs_f64(),
            "intended": progress.intended,
            "offered": progress.offered,
            "accepted": progress.accepted,
            "unsent": progress.unsent(),
            "caught_up": progress.caught_up,
            "longest_catch_up": progress.longest_catch_up,
            "sent_packets": sent.packets,
            "sent_bytes": sent.bytes,
            "streams": streams
                .iter()
                .map(|(name, made)| json!({ "name": name, "made": made }))
                .collect::<Vec<_>>(),
            "transmit_drops": live::drops(sent),
            "cycles_per_packet": usage.cycles_per_packet(),
        });
        Ok(live.summary(&lines, object)?)
    }
}

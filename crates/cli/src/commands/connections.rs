//! TCP connections over a port: `linerate generate` with a profile of them, and `linerate sink
//! --answer`, which is their server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use linerate_lab::{
    Rate,
    connections::{ConnectionReport, ConnectionWorker, Endpoint, Failure, Service, Timeouts},
};
use linerate_linux::interface;
use linerate_memory::Arena;
use linerate_packet::ethernet;
use linerate_port::{Context, Counters, Counts, PortInfo, PortUri, open, packets_kept, probe};
use linerate_worker::{Stage, Usage};
use serde_json::{Map, Value, json};

use crate::{
    args::{Connections, Generate, Host, Running, SinkAddresses, SinkArgs},
    exit::UsageError,
    links::{self, PortLink},
    live::{self, Cell, Live},
    output::Output,
    readiness::ReadinessReporter,
    resources,
    session::{self, CACHE, Job, drive},
    units::{grouped, short, with_unit},
};

/// Timeouts of a server: long ones, for clients that pause.
const SERVER: Timeouts = Timeouts {
    retransmit: Duration::from_millis(200),
    retries: 5,
    timeout: Duration::from_secs(300),
};

/// Bytes that a frame needs when it has no data: headers with tags, or a question by neighbour
/// discovery, and some to spare.
const LEAST_ROOM: usize = 128;

/// Opens the connections of a profile.
pub(crate) fn generate(args: &Generate, profile: &[(String, Connections)]) -> Result<()> {
    if args.stream.rate != Rate::Max {
        let reason = "the connections of the profile have rates: --rate is for frames";
        return Err(UsageError(reason.into()).into());
    }
    if !args.controlled.control.is_empty() {
        let reason = "--control: connections cannot be controlled while they run; leave it out";
        return Err(UsageError(reason.into()).into());
    }
    let running = &args.running;
    let make = |port: &PortInfo, room: usize| -> Result<Side> {
        let mut groups = Vec::new();
        let mut lines = Vec::new();
        for (name, connections) in profile {
            let group = connections.group(port, room);
            let group = group.with_context(|| format!("connections {name}"))?;
            lines.push(format!("{name}: {}", Connections::describe(&group)));
            groups.push(group);
        }
        let (pattern, now) = (args.pattern, linerate_lab::now());
        let endpoint = Endpoint::client(groups, pattern, args.seed, running.count, now)?;
        let object = json!({
            "profile": args.profile,
            "connections": profile.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "pattern": pattern.to_string(),
        });
        Ok(Side { endpoint, lines, object })
    };
    converse("generate", &args.port, args.host, running, make)
}

/// Answers connections to some addresses.
pub(crate) fn answer(args: &SinkArgs, addresses: &SinkAddresses) -> Result<()> {
    let running = &args.running;
    let make = |port: &PortInfo, room: usize| -> Result<Side> {
        let service = Service {
            addresses: addresses.hosts(),
            mac: SinkAddresses::mac(port),
            concurrent: args.concurrent,
            mss: SinkAddresses::mss(room),
            timeouts: SERVER,
        };
        let lines = vec![format!(
            "answers TCP connections to {addresses}, {} at a time",
            grouped(args.concurrent)
        )];
        let object = json!({ "answer": addresses.to_string(), "concurrent": args.concurrent });
        let endpoint = Endpoint::server(service, running.count, linerate_lab::now())?;
        Ok(Side { endpoint, lines, object })
    };
    converse("sink", &args.port, args.host, running, make)
}

/// One side of connections, and its description at the start.
struct Side {
    endpoint: Endpoint,
    lines: Vec<String>,
    object: Value,
}

/// Runs an endpoint over a port until its end, and reports its connections. It is made for the
/// port, and frames of so many bytes.
fn converse(
    command: &str,
    uri: &PortUri,
    host: Host,
    running: &Running,
    make: impl FnOnce(&PortInfo, usize) -> Result<Side>,
) -> Result<()> {
    let started = Instant::now();
    let stop = session::stop_on_signals()?;
    let output = Output::new(running.showing.json).beside(uri);
    let mut live = Live::new(output, &running.showing);
    let mut reporter = ReadinessReporter::new(&running.readiness, output, &running.showing)?;
    probe(uri)?;
    let arena = resources::arena_for(&running.memory, packets_kept(uri))?;
    arena.forget_template();
    let context = Context { disconnect: host.disconnect, ..Context::new(arena) };
    let port = open(uri, &context)?;
    let room = room(&port.info, &context.arena)?;
    let Side { endpoint, lines, object } = make(&port.info, room)?;
    let memory = resources::describe_arena(&context.arena, &running.memory);
    let said = [vec![session::describe_port(&port), memory], lines].concat();
    live.start(&said, start_object(command, uri, running, object))?;
    let link = PortLink::from_info(&port.info);
    let following = links::report_links(link.iter().cloned().collect(), output);

    let (receives, transmits) = session::split(port);
    if receives.is_empty() {
        return Err(UsageError(format!("{uri} cannot receive")).into());
    }
    let Some(transmit) = transmits.into_iter().next() else {
        return Err(UsageError(format!("{uri} cannot send")).into());
    };
    let received: Vec<Arc<Counters>> =
        receives.iter().map(|receive| Arc::clone(receive.counters())).collect();
    let sent = Arc::clone(transmit.counters());
    let (pool, burst) = (context.arena.cache(CACHE), running.burst.into());
    let worker = ConnectionWorker::new(endpoint, receives, transmit, pool, burst, running.idle);
    let (reader, usage) = (worker.reader(), worker.usage());
    let read = || Figures {
        report: reader.read(),
        received: received.iter().map(|counters| counters.read()).sum(),
        sent: sent.read(),
        usage: usage.read(),
    };
    let core = session::cores(running)?[0];
    let job: Job<()> = Box::new(move |stop| Ok(worker.run(stop)?));
    reporter.workers(vec![usage.clone()], format!("{command} {uri}"));
    let until = running.duration.map(|duration| Instant::now() + duration);
    let mut last = (Duration::ZERO, Figures::default());
    let (interval, look) = (running.showing.interval, |now| reporter.look(now));
    let outcomes = drive(vec![(core, job)], interval, until, &stop, look, |time| {
        let now = read();
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
    drop(following);
    figures.print(time, started, &mut live)?;
    outcomes.into_iter().collect::<Result<()>>()?;
    if let Some(silent) = figures.report.unreachable.first() {
        bail!(
            "nobody answers for {silent}, so that it is not known where to send: is it up and on \
             this link? Give the connections a gateway that is, or a dst_mac"
        );
    }
    Ok(())
}

/// Bytes of the longest frame without a tag, without FCS. The limit of a port may count a tag,
/// in the place of which an interface takes no data.
fn room(port: &PortInfo, arena: &Arena) -> Result<usize> {
    let limit = port.frame_limit.unwrap_or(usize::MAX).min(arena.room());
    let room = match &port.interface {
        Some(name) => limit.min(interface::find(name)?.mtu as usize + ethernet::HEADER_LEN),
        None => limit,
    };
    if room < LEAST_ROOM {
        return Err(UsageError(format!(
            "frames of {room} bytes are too short for connections, which need {LEAST_ROOM}: raise \
             --buffer-size or the interface's MTU"
        ))
        .into());
    }
    Ok(room)
}

fn start_object(command: &str, uri: &PortUri, running: &Running, side: Value) -> Value {
    let mut object = json!({
        "command": command,
        "port": uri.to_string(),
        "burst": running.burst,
        "idle": running.idle.name(),
        "cycles_per_second": linerate_memory::clock::cycles_per_second(),
    });
    if let (Value::Object(object), Value::Object(side)) = (&mut object, side) {
        object.extend(side);
    }
    object
}

/// Figures at a moment.
#[derive(Debug, Default)]
struct Figures {
    report: ConnectionReport,
    received: Counts,
    sent: Counts,
    usage: Usage,
}

impl Figures {
    fn cells(&self, before: &Figures, span: Duration) -> Vec<Cell> {
        let rate = |now: u64, then: u64| (now - then) as f64 / span.as_secs_f64();
        let (now, then) = (&self.report.counts, &before.report.counts);
        let (received, sent) = (self.received - before.received, self.sent - before.sent);
        let usage = self.usage - before.usage;
        let handshake = self.report.handshake.since(&before.report.handshake);
        let whole = self.report.whole.since(&before.report.whole);
        let percentile = |times: &linerate_lab::Latency, percent| {
            (times.count() > 0).then(|| times.percentile(percent))
        };
        let dropped = received.dropped() + sent.dropped();
        vec![
            Cell::count("begun_cps", "begun/s", rate(now.begun, then.begun)),
            Cell::count("completed_cps", "done/s", rate(now.completed, then.completed)),
            Cell::count("open", "open", now.open as f64),
            Cell::count("failed", "failed", (now.failed() - then.failed()) as f64),
            Cell::count(
                "retransmitted_pps",
                "again/s",
                rate(now.retransmitted, then.retransmitted),
            ),
            Cell::count("sent_pps", "out pps", rate(sent.packets, 0)),
            Cell::count("received_pps", "in pps", rate(received.packets, 0)),
            Cell::count(
                "payload_sent_bps",
                "out bit/s",
                rate(now.bytes_sent, then.bytes_sent) * 8.0,
            ),
            Cell::count(
                "payload_received_bps",
                "in bit/s",
                rate(now.bytes_received, then.bytes_received) * 8.0,
            ),
            Cell::time("handshake_p50_ns", "syn p50", percentile(&handshake, 50.0)),
            Cell::time("connection_p50_ns", "all p50", percentile(&whole, 50.0)),
            Cell::time("connection_p99_ns", "all p99", percentile(&whole, 99.0)),
            Cell::count("dropped_pps", "drop/s", rate(dropped, 0)),
            Cell::cycles("cycles_per_packet", "cyc/pkt", usage.cycles_per_packet()),
            Cell::percent("idle", "idle", usage.waiting()),
            Cell::hidden("skipped", now.skipped),
            Cell::hidden("receive_cycles", usage.stage_cycles(Stage::Receive)),
            Cell::hidden("task_cycles", usage.stage_cycles(Stage::Task)),
            Cell::hidden("transmit_cycles", usage.stage_cycles(Stage::Transmit)),
            Cell::hidden("receive_drops", live::drops(&received)),
            Cell::hidden("transmit_drops", live::drops(&sent)),
        ]
    }

    fn print(&self, time: Duration, started: Instant, live: &mut Live) -> Result<()> {
        let lines = self.lines(time.as_secs_f64());
        let Figures { report, received, sent, usage } = self;
        let counts = &report.counts;
        let failed: Map<String, Value> = Failure::ALL
            .into_iter()
            .filter(|failure| counts.failed_for(*failure) > 0)
            .map(|failure| (failure.name().into(), counts.failed_for(failure).into()))
            .collect();
        let object = json!({
            "seconds": time.as_secs_f64(),
            "total_seconds": started.elapsed().as_secs_f64(),
            "due": counts.due,
            "skipped": counts.skipped,
            "begun": counts.begun,
            "opened": counts.opened,
            "completed": counts.completed,
            "failed": counts.failed(),
            "failures": failed,
            "aborted": counts.aborted,
            "open": counts.open,
            "listen_overflows": counts.listen_overflows,
            "segments_sent": counts.segments_sent,
            "segments_received": counts.segments_received,
            "retransmitted": counts.retransmitted,
            "out_of_order": counts.out_of_order,
            "strays": counts.strays,
            "bytes_sent": counts.bytes_sent,
            "bytes_received": counts.bytes_received,
            "malformed": counts.malformed,
            "foreign": counts.foreign,
            "handshake_ns": live::latency_object(&report.handshake),
            "connection_ns": live::latency_object(&report.whole),
            "unreachable": report.unreachable,
            "sent_packets": sent.packets,
            "received_packets": received.packets,
            "receive_drops": live::drops(received),
            "transmit_drops": live::drops(sent),
            "cycles_per_packet": usage.cycles_per_packet(),
        });
        Ok(live.summary(&lines, object)?)
    }

    /// The lines for people at the end.
    fn lines(&self, seconds: f64) -> Vec<String> {
        let Figures { report, received, sent, usage } = self;
        let counts = &report.counts;
        let mut lines = vec![
            format!(
                "{} connections in {seconds:.2} s, {}: {} completed, {} failed, {} given up at \
                 the end",
                grouped(counts.begun),
                per_second(counts.begun, seconds),
                grouped(counts.completed),
                grouped(counts.failed()),
                grouped(counts.aborted),
            ),
            format!(
                "  data: {} bytes sent and acknowledged ({}), {} received ({})",
                grouped(counts.bytes_sent),
                with_unit(counts.bytes_sent as f64 * 8.0 / seconds, "bit/s"),
                grouped(counts.bytes_received),
                with_unit(counts.bytes_received as f64 * 8.0 / seconds, "bit/s"),
            ),
            format!(
                "  segments: {} sent, {} of them again, {} received, {} behind a gap{}",
                grouped(counts.segments_sent),
                grouped(counts.retransmitted),
                grouped(counts.segments_received),
                grouped(counts.out_of_order),
                usage
                    .cycles_per_packet()
                    .map_or(String::new(), |cycles| format!(", {cycles:.1} cycles each")),
            ),
        ];
        for failure in Failure::ALL.into_iter().filter(|failure| counts.failed_for(*failure) > 0) {
            let times = grouped(counts.failed_for(failure));
            lines.push(format!("  {times} failed: {}", failure.meaning()));
        }
        for (count, meaning) in [
            (counts.skipped, "came due and were not begun: too many open, or no free port"),
            (counts.listen_overflows, "SYNs were dropped, as no more connections were allowed"),
            (counts.malformed, "frames came with a wrong header or checksum"),
        ] {
            if count > 0 {
                lines.push(format!("  {} {meaning}", grouped(count)));
            }
        }
        for (what, times) in [("handshakes", &report.handshake), ("connections", &report.whole)] {
            if times.count() > 0 {
                lines.push(format!("  {what}: {}", live::latency_text(times)));
            }
        }
        lines.extend(live::drop_lines(received, "on reception"));
        lines.extend(live::drop_lines(sent, "on transmission"));
        lines
    }
}

fn per_second(count: u64, seconds: f64) -> String {
    format!("{} per second", short(count as f64 / seconds))
}

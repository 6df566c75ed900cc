//! `linerate sink`: counts arriving frames, and measures loss and latency.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use linerate_lab::{Arrivals, Sink};
use linerate_port::{Context, Counters, Counts, Direction, open, packets_kept, probe};
use linerate_worker::{Stage, Usage};
use serde_json::json;

use super::connections;
use crate::{
    args::SinkArgs,
    exit::UsageError,
    links::{self, PortLink},
    live::{self, Cell, Live},
    output::Output,
    readiness::ReadinessReporter,
    resources,
    session::{self, CACHE, Job, drive},
    units::{grouped, with_unit},
};

pub(crate) fn run(args: &SinkArgs) -> Result<()> {
    if let Some(addresses) = &args.answer {
        return connections::answer(args, addresses);
    }
    let running = &args.running;
    let stop = session::stop_on_signals()?;
    let output = Output::new(running.showing.json);
    let mut reporter = ReadinessReporter::new(&running.readiness, output, &running.showing)?;
    probe(&args.port)?;
    let arena = resources::arena_for(&running.memory, packets_kept(&args.port))?;
    let context = Context { disconnect: args.host.disconnect, ..Context::new(arena) };
    let port = open(&args.port, &context.toward(Direction::Receive))?;
    let mut live = Live::new(output, &running.showing);
    let lines =
        [session::describe_port(&port), resources::describe_arena(&context.arena, &running.memory)];
    let start = json!({
        "command": "sink",
        "port": args.port.to_string(),
        "burst": running.burst,
        "idle": running.idle.name(),
        "cycles_per_second": linerate_memory::clock::cycles_per_second(),
    });
    live.start(&lines, start)?;
    let link = PortLink::from_info(&port.info);
    let following = links::report_links(link.iter().cloned().collect(), output);

    let (receives, _) = session::split(port);
    if receives.is_empty() {
        return Err(UsageError(format!("{} cannot receive", args.port)).into());
    }
    let counters: Vec<Arc<Counters>> =
        receives.iter().map(|receive| Arc::clone(receive.counters())).collect();
    let sink = Sink::new(
        receives,
        context.arena.cache(CACHE),
        running.burst.into(),
        running.idle,
        running.count,
    );
    let (reader, usage) = (sink.reader(), sink.usage());
    let read = || Figures {
        arrivals: reader.read(),
        received: counters.iter().map(|counters| counters.read()).sum(),
        usage: usage.read(),
    };
    let core = session::cores(running)?[0];
    let job: Job<()> = Box::new(move |stop| Ok(sink.run(stop)?));
    reporter.workers(vec![usage.clone()], format!("sink {}", args.port));
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
    figures.print(time, &mut live)?;
    outcomes.into_iter().collect()
}

/// Figures at a moment.
#[derive(Debug, Default)]
struct Figures {
    arrivals: Arrivals,
    received: Counts,
    usage: Usage,
}

impl Figures {
    fn cells(&self, before: &Figures, span: Duration) -> Vec<Cell> {
        let rate = |count: u64| count as f64 / span.as_secs_f64();
        let received = self.received - before.received;
        let (now, then) = (self.arrivals.total(), before.arrivals.total());
        let usage = self.usage - before.usage;
        let latency = self.arrivals.latency.since(&before.arrivals.latency);
        let time = |key, title: &str, nanoseconds: u64| {
            Cell::time(key, title, (latency.count() > 0).then_some(nanoseconds))
        };
        // A late frame turns up after it was counted as lost.
        let lost = now.lost as i64 - then.lost as i64;
        vec![
            Cell::count("received_pps", "in pps", rate(received.packets)),
            Cell::count("received_bps", "bit/s", rate(received.bytes) * 8.0),
            Cell::new("lost", "lost", lost.to_string(), lost),
            Cell::count("duplicates", "dup", (now.duplicates - then.duplicates) as f64),
            Cell::count("reordered", "late", (now.reordered - then.reordered) as f64),
            time("latency_min_ns", "min", latency.min()),
            time("latency_p50_ns", "p50", latency.percentile(50.0)),
            time("latency_p99_ns", "p99", latency.percentile(99.0)),
            time("latency_max_ns", "max", latency.max()),
            Cell::count("dropped_pps", "drop/s", rate(received.dropped())),
            Cell::cycles("cycles_per_packet", "cyc/pkt", usage.cycles_per_packet()),
            Cell::cycles("receive_cycles", "receive", usage.stage_cycles(Stage::Receive)),
            Cell::percent("idle", "idle", usage.waiting()),
            Cell::hidden("receive_drops", live::drops(&received)),
        ]
    }

    fn print(&self, time: Duration, live: &mut Live) -> Result<()> {
        let seconds = time.as_secs_f64();
        let Figures { arrivals, received, usage } = self;
        let total = arrivals.total();
        let expected = total.received + total.lost;
        let loss = if expected == 0 { 0.0 } else { total.lost as f64 / expected as f64 };
        let mut lines = vec![format!(
            "received {} frames in {seconds:.2} s: {}, {}{}",
            grouped(received.packets),
            with_unit(received.packets as f64 / seconds, "pps"),
            with_unit(received.bytes as f64 * 8.0 / seconds, "bit/s"),
            usage
                .cycles_per_packet()
                .map_or(String::new(), |cycles| format!(", {cycles:.1} cycles per frame")),
        )];
        lines.extend(live::drop_lines(received, "on reception"));
        if arrivals.streams.is_empty() {
            lines.push("  no signed frames: loss and latency need `linerate generate`".into());
        } else {
            lines.push(format!(
                "  signed {} in {} streams, unsigned {}: lost {} ({:.4} %), duplicated {}, \
                 late {} (by {} at most), too late to tell {}",
                grouped(total.received + total.duplicates + total.stale),
                arrivals.streams.len(),
                grouped(arrivals.unsigned),
                grouped(total.lost),
                loss * 100.0,
                grouped(total.duplicates),
                grouped(total.reordered),
                grouped(total.reorder_extent),
                grouped(total.stale),
            ));
            lines.push(format!("  latency: {}", live::latency_text(&arrivals.latency)));
        }
        let object = json!({
            "seconds": seconds,
            "received_packets": received.packets,
            "received_bytes": received.bytes,
            "receive_drops": live::drops(received),
            "unsigned": arrivals.unsigned,
            "streams": arrivals.streams.len(),
            "unique": total.received,
            "lost": total.lost,
            "loss_ratio": loss,
            "duplicates": total.duplicates,
            "reordered": total.reordered,
            "reorder_extent": total.reorder_extent,
            "stale": total.stale,
            "latency_ns": live::latency_object(&arrivals.latency),
            "cycles_per_packet": usage.cycles_per_packet(),
        });
        Ok(live.summary(&lines, object)?)
    }
}

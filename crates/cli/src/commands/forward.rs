//! `linerate forward`: from port to port, with the cost of each packet.

mod control;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use linerate_filter::Filter;
use linerate_memory::Arena;
use linerate_port::{
    Context, Counters, Counts, Direction, Link, OpenError, PortError, PortUri, Receive, Transmit,
    open, packets_kept, probe,
};
use linerate_worker::{Budget, Forwarder, OnFull, Path, Rewrite, Stage, Stop, Usage, UsageReader};
use serde_json::json;

use crate::{
    args::{Controlled, Forward, Running},
    control::ControlSockets,
    exit::UsageError,
    links::{self, PortLink},
    live::{self, Cell, Live},
    output::Output,
    readiness::ReadinessReporter,
    remote::{ControlServer, Remote},
    resources,
    session::{self, CACHE, Job, drive},
    units::{grouped, with_unit},
    view::{Style, printing},
};
use control::ForwardCommands;

/// Interval of looking for a port that has gone.
const RETRY: Duration = Duration::from_millis(250);

/// Ports and options of forwarding: of `forward` itself, and of `capture` and `replay`, which
/// forward to and from a file.
pub(crate) struct Plan<'a> {
    pub(crate) command: &'static str,
    /// Participle for the packets in the summary: `forwarded`.
    pub(crate) verb: &'static str,
    pub(crate) from: PortUri,
    pub(crate) to: PortUri,
    pub(crate) bidirectional: bool,
    pub(crate) rewrite: Rewrite,
    pub(crate) on_full: OnFull,
    /// Whether ports may be taken from the host that uses them.
    pub(crate) disconnect: bool,
    /// Whether a port that goes away ends the run.
    pub(crate) exit_on_loss: bool,
    /// The filter of packets, if there is one.
    pub(crate) filter: Option<Arc<Filter>>,
    /// Style of the packets on standard output, if they are printed.
    pub(crate) view: Option<Style>,
    /// The control socket of clients, if there is one.
    pub(crate) controlled: Option<&'a Controlled>,
    pub(crate) running: &'a Running,
}

pub(crate) fn run(args: &Forward) -> Result<()> {
    if args.bidirectional && args.from == args.to {
        let reason = format!("--bidirectional needs two ports, and both are {}", args.from);
        return Err(UsageError(reason).into());
    }
    let rewrite = match (args.swap_mac, args.set_dst, args.set_src) {
        (true, ..) => Rewrite::Swap,
        (false, None, None) => Rewrite::None,
        (false, destination, source) => Rewrite::Set { destination, source },
    };
    carry_out(&Plan {
        command: "forward",
        verb: "forwarded",
        from: args.from.clone(),
        to: args.to.clone(),
        bidirectional: args.bidirectional,
        rewrite,
        on_full: if args.wait { OnFull::Wait } else { OnFull::Drop },
        disconnect: args.host.disconnect,
        exit_on_loss: args.exit_on_loss,
        filter: None,
        view: None,
        controlled: Some(&args.controlled),
        running: &args.running,
    })
    .map(drop)
}

/// Forwards after a plan until its end; returns the counts of all packets.
pub(crate) fn carry_out(args: &Plan<'_>) -> Result<FlowCounts> {
    let started = Instant::now();
    let stop = session::stop_on_signals()?;
    let showing = &args.running.showing;
    let mut output = Output::new(showing.json).beside(&args.to);
    // Objects of packets are among those of the run.
    if args.view.is_some_and(|style| !style.json) {
        output = output.beside_data();
    }
    let mut live = Live::new(output, showing);
    let mut reporter = ReadinessReporter::new(&args.running.readiness, output, showing)?;
    let until = args.running.duration.map(|duration| started + duration);
    let handlers = Arc::new(ForwardCommands::new(&stop));
    let mut server = None;
    let mut first = true;
    let mut following = None;
    // They go on when ports are opened again.
    let links: [Arc<Link>; 2] = Default::default();
    session::cores(args.running)?;
    // Before memory is filled for them.
    probe(&args.from)?;
    probe(&args.to)?;
    let kept = packets_kept(&args.from) + packets_kept(&args.to);
    let arena = resources::arena_for(&args.running.memory, kept)?;
    loop {
        let total = handlers.now();
        let wait = || {
            reporter.waits();
            !stop.is_raised() && until.is_none_or(|until| Instant::now() < until)
        };
        let Some(run) = Run::open(args, &arena, &links, &total, first, wait, &live)? else { break };
        if first {
            if let Some(controlled) = args.controlled {
                let remote = Remote::listen(controlled, args.command, &control::CLASS, &arena)?;
                let serve = |remote: Remote| remote.serve(handlers.clone(), &stop);
                server = remote.map(serve).transpose()?;
            }
            let none = ControlSockets::default();
            let sockets = server.as_ref().map_or(&none, ControlServer::sockets);
            reporter.listens_at(sockets.addresses());
            run.announce(args, sockets, &mut live)?;
            let links = run.links.iter().flatten().cloned().collect();
            following = Some(links::report_links(links, live.output()));
        }
        first = false;
        let offset = started.elapsed();
        match run.drive(args, &stop, until, offset, &handlers, &mut reporter, &mut live)? {
            None => break,
            Some(gone) if args.exit_on_loss => return Err(gone.into()),
            Some(gone) => live.note(&format!("{gone}; opening it again")),
        }
    }
    reporter.ends();
    drop((following, server));
    let total = handlers.now();
    total.print(args.verb, started.elapsed(), arena.accounting().held, &mut live)?;
    Ok(total.sum())
}

/// One direction: its ports and their counters.
struct Flow {
    ends: [String; 2],
    received: Vec<Arc<Counters>>,
    sent: Vec<Arc<Counters>>,
}

/// The ports, open, and the workers' paths over them.
struct Run {
    context: Context,
    ports: Vec<String>,
    /// Link states of the ports.
    links: Vec<Option<PortLink>>,
    flows: Vec<Flow>,
    paths: Vec<Path>,
}

/// Figures of one direction, or of all.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FlowCounts {
    pub(crate) received: Counts,
    pub(crate) sent: Counts,
}

/// Figures of the whole run, over reopened ports.
#[derive(Debug, Default)]
struct Totals {
    ends: Vec<[String; 2]>,
    flows: Vec<FlowCounts>,
    usage: Usage,
}

impl Run {
    /// Opens the ports; `None` when `wait` says that one that has gone is not to be
    /// waited for any longer.
    fn open(
        args: &Plan<'_>,
        arena: &Arena,
        links: &[Arc<Link>; 2],
        total: &Totals,
        first: bool,
        mut wait: impl FnMut() -> bool,
        live: &Live,
    ) -> Result<Option<Run>> {
        loop {
            match Run::try_open(args, arena, links, total) {
                Ok(run) => {
                    if !first {
                        live.note("all ports are back");
                    }
                    return Ok(Some(run));
                }
                Err(error) if first || !may_come_back(&error) => return Err(error),
                Err(_) if !wait() => return Ok(None),
                Err(_) => thread::sleep(RETRY),
            }
        }
    }

    fn try_open(
        args: &Plan<'_>,
        arena: &Arena,
        [link_a, link_b]: &[Arc<Link>; 2],
        total: &Totals,
    ) -> Result<Run> {
        // The memory stays, and the buffers of lost ports come back to it; ports that are only
        // memory are made anew.
        let context = Context { disconnect: args.disconnect, ..Context::new(arena.clone()) };
        if args.rewrite != Rewrite::None {
            arena.forget_template();
        }
        let toward = |direction| {
            if args.bidirectional || args.from == args.to {
                context.toward(Direction::Both)
            } else {
                context.toward(direction)
            }
        };
        let wanted = Context {
            filter: args.filter.clone(),
            link: Some(Arc::clone(link_a)),
            ..toward(Direction::Receive)
        };
        let a = open(&args.from, &wanted)?;
        // An interface named twice is one port.
        let same = args.from == args.to && a.info.interface.is_some();
        let mut ports = vec![session::describe_port(&a)];
        let mut links = vec![PortLink::from_info(&a.info)];
        let (from_a, to_a) = session::split(a);
        let mut joins = Vec::new();
        if same {
            joins.push(([&args.from, &args.to], from_a, to_a));
        } else {
            let link = Some(Arc::clone(link_b));
            let b = open(&args.to, &Context { link, ..toward(Direction::Transmit) })?;
            // Packets that are only shown go nowhere.
            if args.view.is_none() || args.to.driver() != "null" {
                ports.push(session::describe_port(&b));
            }
            links.push(PortLink::from_info(&b.info));
            let (from_b, mut to_b) = session::split(b);
            if let Some(style) = args.view {
                to_b = to_b.into_iter().map(|side| printing(side, style)).collect();
            }
            joins.push(([&args.from, &args.to], from_a, to_b));
            if args.bidirectional {
                joins.push(([&args.to, &args.from], from_b, to_a));
            }
        }

        let mut flows = Vec::new();
        let mut paths = Vec::new();
        for (index, (ends, receives, transmits)) in joins.into_iter().enumerate() {
            let so_far = total.flows.get(index).map_or(0, |flow| flow.received.packets);
            let left = args.running.count.map(|count| count.saturating_sub(so_far));
            let flow = Flow::new(ends.map(PortUri::to_string), &receives, &transmits);
            let joined = join(&direction(&flow.ends), receives, transmits)?;
            let budget = left.filter(|_| joined.len() > 1).map(Budget::new);
            for (receives, transmit) in joined {
                // One path counts by itself; several have a count in common.
                let path = Path::new(receives, transmit, args.running.burst.into(), left);
                let path = match &budget {
                    Some(budget) => path.within(budget.clone()),
                    None => path,
                };
                paths.push(path.rewriting(args.rewrite).on_full(args.on_full));
            }
            flows.push(flow);
        }
        Ok(Run { context, ports, links, flows, paths })
    }

    fn announce(&self, args: &Plan<'_>, sockets: &ControlSockets, live: &mut Live) -> Result<()> {
        let running = args.running;
        let mut lines = self.ports.clone();
        lines.push(resources::describe_arena(&self.context.arena, &running.memory));
        lines.push(format!(
            "burst {}, idle strategy {}, cores {}",
            running.burst,
            running.idle,
            running.cores.as_deref().unwrap_or("not bound"),
        ));
        lines.extend(sockets.lines());
        let object = json!({
            "command": args.command,
            "from": args.from.to_string(),
            "to": args.to.to_string(),
            "bidirectional": args.bidirectional,
            "burst": running.burst,
            "idle": running.idle.name(),
            "control": sockets.json(),
            "pages": self.context.arena.pages().to_string(),
            "buffers": self.context.arena.count(),
            "cycles_per_second": linerate_memory::clock::cycles_per_second(),
        });
        Ok(live.start(&lines, object)?)
    }

    /// Forwards until the end, from a time behind the start on. Returns the error
    /// when a port has gone and may come back.
    #[expect(clippy::too_many_arguments, reason = "what a whole run has, once")]
    fn drive(
        self,
        args: &Plan<'_>,
        stop: &Stop,
        until: Option<Instant>,
        offset: Duration,
        handlers: &ForwardCommands,
        reporter: &mut ReadinessReporter,
        live: &mut Live,
    ) -> Result<Option<PortError>> {
        let Run { context, flows, paths, links, .. } = self;
        let cores = session::cores(args.running)?;
        let mut shares: Vec<Vec<Path>> = cores.iter().map(|_| Vec::new()).collect();
        for (index, path) in paths.into_iter().enumerate() {
            shares[index % cores.len()].push(path);
        }
        // Packets that are printed come behind the line about readiness.
        let start = args.view.is_some().then(|| reporter.start_signal());
        let mut readers = Vec::new();
        let mut jobs: Vec<(Option<u32>, Job<()>)> = Vec::new();
        for (core, paths) in cores.into_iter().zip(shares).filter(|(_, paths)| !paths.is_empty()) {
            let pool = context.arena.cache(CACHE);
            let mut forwarder = Forwarder::new(paths, pool, args.running.idle);
            readers.push(forwarder.usage());
            let start = start.clone();
            let job: Job<()> = Box::new(move |stop| {
                if let Some(start) = &start {
                    forwarder.announce();
                    start.wait(stop);
                }
                Ok(forwarder.run(stop)?)
            });
            jobs.push((core, job));
        }

        let ports = flows.iter().map(|flow| direction(&flow.ends)).collect::<Vec<_>>();
        reporter.workers(readers.clone(), format!("{} {}", args.command, ports.join(", ")));
        handlers.begin(flows, readers);
        let mut last = (Duration::ZERO, handlers.now());
        let (interval, look) = (args.running.showing.interval, |now| reporter.look(now));
        let outcomes = drive(jobs, interval, until, stop, look, |time| {
            let now = handlers.now();
            let span = time.saturating_sub(last.0);
            // The rest of an interval at the end is too short to divide by. Nor is a table read
            // between the lines of packets.
            if span >= interval / 2 && args.view.is_none() {
                let mut cells = now.cells(&last.1, span);
                cells.extend(live::link_cell(&links));
                live.row(offset + time, &cells)?;
            }
            last = (time, now);
            Ok(())
        })?;
        handlers.end();

        let mut gone = None;
        for outcome in outcomes {
            match outcome.map_err(|error| error.downcast::<PortError>()) {
                Ok(()) => {}
                Err(Ok(error)) if error.comes_back() => gone = Some(error),
                Err(Ok(error)) => return Err(error.into()),
                Err(Err(error)) => return Err(error),
            }
        }
        Ok(gone)
    }
}

/// Returns true if a port that could not be opened again may be had later.
fn may_come_back(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(OpenError::NoInterface { .. } | OpenError::Busy { .. } | OpenError::System { .. })
    )
}

/// Receiving queues, and the one transmitting queue they share.
type Joined = Vec<(Vec<Box<dyn Receive>>, Box<dyn Transmit>)>;

/// Spreads receiving queues over transmitting queues, so that each
/// transmitting queue has one worker.
fn join(
    name: &str,
    receives: Vec<Box<dyn Receive>>,
    transmits: Vec<Box<dyn Transmit>>,
) -> Result<Joined> {
    if receives.is_empty() {
        bail!(UsageError(format!("{name}: the first port cannot receive")));
    }
    if transmits.is_empty() {
        bail!(UsageError(format!("{name}: the second port cannot send")));
    }
    let used = receives.len().min(transmits.len());
    let mut joined: Joined =
        transmits.into_iter().take(used).map(|transmit| (Vec::new(), transmit)).collect();
    for (index, receive) in receives.into_iter().enumerate() {
        joined[index % used].0.push(receive);
    }
    Ok(joined)
}

/// A direction, for people.
fn direction([from, to]: &[String; 2]) -> String {
    format!("{from} > {to}")
}

impl Flow {
    fn new(
        ends: [String; 2],
        receives: &[Box<dyn Receive>],
        transmits: &[Box<dyn Transmit>],
    ) -> Flow {
        Flow {
            ends,
            received: receives.iter().map(|side| Arc::clone(side.counters())).collect(),
            sent: transmits.iter().map(|side| Arc::clone(side.counters())).collect(),
        }
    }
}

impl Totals {
    /// These figures plus those of the counters.
    fn now(&self, flows: &[Flow], readers: &[UsageReader]) -> Totals {
        let sum = |counters: &[Arc<Counters>]| counters.iter().map(|c| c.read()).sum::<Counts>();
        let mut now =
            Totals { ends: self.ends.clone(), flows: self.flows.clone(), usage: self.usage };
        for (index, flow) in flows.iter().enumerate() {
            if index == now.flows.len() {
                now.ends.push(flow.ends.clone());
                now.flows.push(FlowCounts::default());
            }
            // Sent first: it never gets ahead of the received count.
            now.flows[index].sent += sum(&flow.sent);
            now.flows[index].received += sum(&flow.received);
        }
        readers.iter().for_each(|reader| now.usage += reader.read());
        now
    }

    fn sum(&self) -> FlowCounts {
        let mut sum = FlowCounts::default();
        for flow in &self.flows {
            sum.received += flow.received;
            sum.sent += flow.sent;
        }
        sum
    }

    /// A row of the table: the counts since `before`, over `span`.
    fn cells(&self, before: &Totals, span: Duration) -> Vec<Cell> {
        let rate = |count: u64| count as f64 / span.as_secs_f64();
        let (now, then) = (self.sum(), before.sum());
        let (received, sent) = (now.received - then.received, now.sent - then.sent);
        let usage = self.usage - before.usage;
        let drops = received.dropped() + sent.dropped();
        let mut cells = vec![Cell::count("received_pps", "in pps", rate(received.packets))];
        if self.flows.len() > 1 {
            for (flow, then) in self.flows.iter().zip(&before.flows) {
                let name = if cells.len() == 1 { "A>B pps" } else { "B>A pps" };
                let key = if cells.len() == 1 { "forward_pps" } else { "backward_pps" };
                cells.push(Cell::count(key, name, rate(flow.sent.packets - then.sent.packets)));
            }
        }
        cells.extend([
            Cell::count("sent_pps", "out pps", rate(sent.packets)),
            Cell::count("sent_bps", "bit/s", rate(sent.bytes) * 8.0),
            Cell::count("dropped_pps", "drop/s", rate(drops)),
            Cell::cycles("cycles_per_packet", "cyc/pkt", usage.cycles_per_packet()),
            Cell::cycles("receive_cycles", "receive", usage.stage_cycles(Stage::Receive)),
            Cell::cycles("task_cycles", "task", usage.stage_cycles(Stage::Task)),
            Cell::cycles("transmit_cycles", "transmit", usage.stage_cycles(Stage::Transmit)),
            Cell::count("mean_burst", "burst", usage.mean_burst()),
            Cell::percent("idle", "idle", usage.waiting()),
            Cell::hidden("receive_drops", live::drops(&received)),
            Cell::hidden("transmit_drops", live::drops(&sent)),
        ]);
        cells
    }

    /// The summary of the run.
    fn print(&self, verb: &str, elapsed: Duration, held: usize, live: &mut Live) -> Result<()> {
        let sum = self.sum();
        let seconds = elapsed.as_secs_f64();
        let (packets, bytes) = (sum.sent.packets, sum.sent.bytes);
        let mut lines = vec![format!(
            "{verb} {} packets in {seconds:.2} s: {}, {}{}",
            grouped(packets),
            with_unit(packets as f64 / seconds, "pps"),
            with_unit(bytes as f64 * 8.0 / seconds, "bit/s"),
            self.usage.cycles_per_packet().map_or(String::new(), |cycles| format!(
                ", {cycles:.1} cycles per packet, idle {:.1} % of the time",
                self.usage.waiting() * 100.0
            )),
        )];
        let mut flows = Vec::new();
        for (ends, flow) in self.ends.iter().zip(&self.flows) {
            let name = direction(ends);
            lines.push(format!(
                "  {name}  received {}, sent {}, dropped {}",
                grouped(flow.received.packets),
                grouped(flow.sent.packets),
                grouped(flow.received.dropped() + flow.sent.dropped()),
            ));
            lines.extend(live::drop_lines(&flow.received, "on reception"));
            lines.extend(live::drop_lines(&flow.sent, "on transmission"));
            flows.push(json!({
                "name": name,
                "received_packets": flow.received.packets,
                "received_bytes": flow.received.bytes,
                "sent_packets": flow.sent.packets,
                "sent_bytes": flow.sent.bytes,
                "receive_drops": live::drops(&flow.received),
                "transmit_drops": live::drops(&flow.sent),
            }));
        }
        if held > 0 {
            lines.push(format!("  {held} packet buffers were not given back"));
        }
        let object = json!({
            "seconds": seconds,
            "flows": flows,
            "cycles_per_packet": self.usage.cycles_per_packet(),
            "idle": self.usage.waiting(),
            "mean_burst": self.usage.mean_burst(),
            "buffers_held": held,
        });
        Ok(live.summary(&lines, object)?)
    }
}

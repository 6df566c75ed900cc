//! `linerate forward`: from port to port, with what each packet costs.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use linerate_memory::Accounting;
use linerate_port::{
    Context, Counters, Counts, Direction, DropReason, OpenError, Port, PortError, Receive, open,
};
use linerate_worker::{
    Forwarder, OnFull, Path, Rewrite, Stage, Stop, Usage, UsageReader,
};
use serde_json::{Value, json};

use crate::{
    args::Forward,
    exit::UsageError,
    live::{Cell, Live},
    session::{self, CACHE, Job, drive},
    units::{grouped, short},
};

/// How often a port that has gone is looked for.
const RETRY: Duration = Duration::from_millis(250);

pub(crate) fn run(args: &Forward) -> Result<()> {
    let started = Instant::now();
    if args.bidirectional && args.from == args.to {
        let reason = format!("--bidirectional needs two ports, and both are {}", args.from);
        return Err(UsageError(reason).into());
    }
    let stop = session::stop_on_signals()?;
    let mut live = Live::new(args.running.json, args.running.quiet);
    let until = args.running.duration.map(|duration| started + duration);
    let mut total = Totals::default();
    let mut first = true;
    loop {
        let Some(run) = Run::open(args, &total, first, &stop, until, &mut live)? else { break };
        if first {
            run.announce(args, &mut live)?;
        }
        first = false;
        match run.drive(args, &stop, until, started, &mut total, &mut live)? {
            None => break,
            Some(gone) if args.exit_on_loss => return Err(gone.into()),
            Some(gone) => live.note(&format!("{gone}; waiting for it to come back")),
        }
    }
    total.print(started.elapsed(), &mut live)?;
    Ok(())
}

/// One direction: its name and where its figures are read.
struct Flow {
    name: String,
    received: Vec<Arc<Counters>>,
    sent: Vec<Arc<Counters>>,
}

/// The ports, open, and the workers' paths over them.
struct Run {
    context: Context,
    ports: Vec<String>,
    flows: Vec<Flow>,
    paths: Vec<Path>,
}

/// Figures of one direction.
#[derive(Debug, Default, Clone, Copy)]
struct FlowCounts {
    received: Counts,
    sent: Counts,
}

/// Figures of the whole run, over reopened ports.
#[derive(Debug, Default)]
struct Totals {
    names: Vec<String>,
    flows: Vec<FlowCounts>,
    usage: Usage,
    buffers: Option<Accounting>,
}

impl Run {
    /// Opens the ports; `None` when told to stop while waiting for one that
    /// has gone to come back.
    fn open(
        args: &Forward,
        total: &Totals,
        first: bool,
        stop: &Stop,
        until: Option<Instant>,
        live: &mut Live,
    ) -> Result<Option<Run>> {
        loop {
            match Run::try_open(args, total) {
                Ok(run) => {
                    if !first {
                        live.note("all ports are back");
                    }
                    return Ok(Some(run));
                }
                Err(error) if first || !may_come_back(&error) => return Err(error),
                Err(_) if stop.is_raised() => return Ok(None),
                Err(_) if until.is_some_and(|until| Instant::now() >= until) => return Ok(None),
                Err(_) => thread::sleep(RETRY),
            }
        }
    }

    fn try_open(args: &Forward, total: &Totals) -> Result<Run> {
        let context = Context::new(session::arena(&args.running.memory)?);
        let both = args.bidirectional || args.from == args.to;
        let toward = |direction| context.toward(if both { Direction::Both } else { direction });
        let mut a = open(&args.from, &toward(Direction::Receive))?;
        let mut b = match args.from == args.to {
            true => None,
            false => Some(open(&args.to, &toward(Direction::Transmit))?),
        };
        let mut ports = vec![describe(&a)];
        ports.extend(b.as_ref().map(describe));

        let rewrite = match (args.swap_mac, args.set_dst, args.set_src) {
            (true, ..) => Rewrite::Swap,
            (false, None, None) => Rewrite::None,
            (false, destination, source) => Rewrite::Set { destination, source },
        };
        let on_full = if args.wait { OnFull::Wait } else { OnFull::Drop };
        let mut flows = Vec::new();
        let mut paths = Vec::new();
        let mut join = |from: Port2<'_>, to: Port2<'_>| -> Result<()> {
            let index = flows.len();
            let left = total.flows.get(index).map_or(0, |flow| flow.received.packets);
            let count = args.running.count.map(|count| count.saturating_sub(left));
            let (flow, made) = join(from, to, args.running.burst.into(), count)?;
            flows.push(flow);
            paths.extend(made.into_iter().map(|path| path.rewriting(rewrite).on_full(on_full)));
            Ok(())
        };
        match &mut b {
            None => {
                let mut back = take_transmits(&mut a);
                join(Port2::from(&mut a), Port2 { transmits: &mut back, ..Port2::named(&a) })?;
            }
            Some(b) => todo!(),
        }
        Ok(Run { context, ports, flows, paths })
    }
}

//! Forwarders beside each other: ours and others', in one run, in turns, between the same two
//! links, with the same generator.
//!
//! ```text
//!   tester --- device0 [ forwarder ] device1 --- tester
//! ```
//!
//! Each turn makes two veth pairs in a namespace of its own, starts one [`Contender`] between them,
//! and has the tester send as fast as it can. Turns go round: in each round every contender has
//! one, in an order that changes, so that a machine that slows down for a while slows all. Only
//! ratios within a round are compared.
//!
//! Everything made is removed when it is dropped; the leftovers of a killed run are removed by the
//! next.
//! removed by the next.

mod contender;
mod network;
mod peers;
mod process;
mod summary;

use std::{fs::File, io, os::fd::AsFd, thread, time::Duration};

use linerate_memory::Arena;
use linerate_model::units::{PacketsPerSecond, Seconds};
use linerate_port::{Context, Direction, OpenError, Receive, Transmit, open};
use linerate_worker::Stop;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;

pub use contender::{Contender, Layer, contenders};
pub use network::Network;
pub use summary::{Quartiles, Row, rows};

use crate::{
    Traffic, Values,
    trials::{Order, Phase, RunError, Runner, Tester, TesterOptions},
};

/// Longest time a forwarder may take until its first frame comes through.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Frames of one try to get something through.
const PROBE: u64 = 16;
/// Trial and residual of a try.
const TRY: Duration = Duration::from_millis(50);

/// Driver, traffic, loads and times of the measurement of a contender.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The driver of the tester's ports: `packet` or `xdp`.
    pub driver: String,
    /// The frames; their destination becomes the router where there is one.
    pub traffic: Traffic,
    /// Most frames sent at a time.
    pub burst: usize,
    /// Time for which each is overloaded.
    pub window: Seconds,
    /// A low load, at which latency is measured as long.
    pub calm: PacketsPerSecond,
    /// Raised when the user wants no more.
    pub stop: Stop,
}

/// Result of one turn.
#[derive(Clone, Debug, Serialize)]
pub struct Turn {
    /// The contender.
    pub name: String,
    /// The round, from 0.
    pub round: usize,
    /// Rate of the tester sending as fast as it could.
    pub sent_pps: f64,
    /// Rate of the frames that came through meanwhile.
    pub forwarded_pps: f64,
    /// The share of the frames sent that was lost.
    pub loss_ratio: f64,
    /// Median latency at the low load, in nanoseconds; none if nothing came.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile of it.
    pub latency_p99_ns: Option<u64>,
}

/// The reason why a turn has no result.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The network cannot be made.
    #[error("{0}")]
    Network(String),
    /// The forwarder did not start.
    #[error("{name} does not start: {reason}")]
    Start {
        /// The contender.
        name: String,
        /// The output of its process.
        reason: String,
    },
    /// Nothing comes through it.
    #[error("{name} runs, and no frame comes through it: {output}")]
    Nothing {
        /// The contender.
        name: String,
        /// The output of its process.
        output: String,
    },
    /// The namespace cannot be entered.
    #[error("cannot enter a network namespace: {0}")]
    Enter(#[from] io::Error),
    /// The tester's ports cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A trial failed, or the user wants no more.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Gives a contender its turn.
///
/// # Errors
///
/// When it cannot be measured; the others still can.
pub fn turn(
    contender: &Contender,
    round: usize,
    arena: &Arena,
    options: &CompareOptions,
) -> Result<Turn, TurnError> {
    let network = Network::new()?;
    let name = contender.name();
    let start = || contender.start(&network);
    let join = || tester(&network, contender, arena, options);
    let (mut running, mut tester) = if contender.shares_memory() {
        let tester = join()?;
        (start()?, tester)
    } else {
        (start()?, join()?)
    };
    wait(&mut tester, name, &mut running, &options.stop)?;

    // About as many frames as the window takes are sent at first to learn the
    // rate; they warm caches and tables as well.
    let residual = Duration::from_millis(20);
    let fast = |tester: &mut Tester, frames: u64| {
        tester.run(&Order { phases: vec![Phase { load: None, frames }], residual })
    };
    let rate = fast(&mut tester, 20_000)?.sent_rate();
    let outcome = fast(&mut tester, ((rate * options.window).get() as u64).max(1000))?;
    let frames = outcome.frames;
    let seconds = outcome.sending.get();
    let calm = tester.run(&Order::steady(options.calm, options.window, residual))?.latency;
    let percentile = |percent| (calm.count() > 0).then(|| calm.percentile(percent));
    Ok(Turn {
        name: name.into(),
        round,
        sent_pps: frames.accepted as f64 / seconds,
        forwarded_pps: frames.received as f64 / seconds,
        loss_ratio: frames.accepted.saturating_sub(frames.received) as f64
            / frames.accepted.max(1) as f64,
        latency_p50_ns: percentile(50.0),
        latency_p99_ns: percentile(99.0),
    })
}

/// Both sides of a tester: its transmitter and its receivers.
type Sides = (Box<dyn Transmit>, Vec<Box<dyn Receive>>);

/// A tester at the outer ends of the network.
fn tester(
    network: &Network,
    contender: &Contender,
    arena: &Arena,
    options: &CompareOptions,
) -> Result<Tester, TurnError> {
    let handle = File::open(network.path())?;
    let open_inside = || -> Result<Sides, TurnError> {
        move_into_link_name_space(handle.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(io::Error::from)?;
        let context = Context::new(arena.clone());
        let port = |side, direction| {
            let uri = contender.tester_port(side, &options.driver);
            let uri = uri.parse().map_err(OpenError::Uri)?;
            open(&uri, &context.toward(direction))
        };
        let sending = port(0, Direction::Transmit)?;
        let receiving = port(1, Direction::Receive)?;
        let transmit = sending.queues.into_iter().find_map(|queue| queue.transmit);
        let transmit = transmit.ok_or_else(|| io::Error::other("the port cannot send"))?;
        let receives = receiving.queues.into_iter().filter_map(|queue| queue.receive).collect();
        Ok((transmit, receives))
    };
    // Sockets belong to the namespace they were opened in for good.
    let opened = thread::scope(|scope| scope.spawn(open_inside).join());
    let (transmit, receives) = opened.unwrap_or_else(|cause| std::panic::resume_unwind(cause))?;
    let mut traffic = options.traffic.clone();
    if contender.layer() == Layer::Three {
        traffic.variation.destination_macs = Values::one(network.router().to_u64().into());
    }
    let options = TesterOptions {
        traffic,
        burst: options.burst,
        late: Duration::from_millis(2),
        stop: options.stop.clone(),
    };
    Ok(Tester::new(options, arena, transmit, receives)?)
}

/// Waits until frames come through.
fn wait(
    tester: &mut Tester,
    name: &str,
    running: &mut contender::Running,
    stop: &Stop,
) -> Result<(), TurnError> {
    let order = Order { phases: vec![Phase { load: None, frames: PROBE }], residual: TRY };
    let begin = std::time::Instant::now();
    loop {
        if tester.run(&order)?.frames.received == PROBE {
            return Ok(());
        }
        if stop.is_raised() {
            return Err(RunError::Interrupted.into());
        }
        if let Some(reason) = running.ended() {
            return Err(TurnError::Start { name: name.into(), reason });
        }
        if begin.elapsed() > TIMEOUT {
            return Err(TurnError::Nothing { name: name.into(), output: running.output() });
        }
    }
}

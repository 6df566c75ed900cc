//! The tester: generator and sink in one loop.
//!
//! One thread does both, so that a device that runs in the same process has the
//! other core of a small machine to itself, and so that a trial ends when its
//! last frame has come back.

use std::time::Duration;

use linerate_memory::Arena;
use linerate_model::units::Seconds;
use linerate_port::{Receive, Transmit};
use linerate_worker::Stop;

use super::{Order, Outcome, Phase, RunError, Runner};
use crate::{
    clock::now,
    rate::{Pattern, Schedule},
    rx_queues::RxQueues,
    search::Frames,
    traffic::Traffic,
    tx_queue::{Progress, TxQueue},
};

/// Buffers kept at hand.
const CACHE: usize = 512;
/// Length of the windows in which rates are taken, in nanoseconds.
const WINDOW: u64 = 10_000_000;
/// A port that takes nothing for so long is given up on, in nanoseconds.
const STUCK: u64 = 1_000_000_000;
/// Streams whose frames are told apart: as many trials as can be on the way.
const STREAMS: u16 = 1 << 15;

/// Options of a tester.
#[derive(Clone, Debug)]
pub struct TesterOptions {
    /// The frames.
    pub traffic: Traffic,
    /// Most frames sent or received at a time.
    pub burst: usize,
    /// Being late by less than this is made up for; frames that came due before
    /// are given up, and the trial is short of them.
    pub late: Duration,
    /// Raised when the user wants no more.
    pub stop: Stop,
}

/// Called about a hundred times a second during a trial.
type Tick = Box<dyn FnMut(&Progress)>;

/// Sends by one port and receives by another, one trial after the other.
pub struct Tester {
    options: TesterOptions,
    tx_queue: TxQueue,
    rx_queues: RxQueues,
    stream: u16,
    tick: Option<Tick>,
}

/// Times and counts during one trial.
struct Watch {
    start: u64,
    window: u64,
    taken: u64,
    windows: Vec<f64>,
}

impl Tester {
    /// A tester between these two sides of ports.
    ///
    /// # Errors
    ///
    /// When the traffic makes no sense.
    ///
    /// # Panics
    ///
    /// When the burst is not in 1..=[`FRAME_LIMIT`](linerate_memory::FRAME_LIMIT).
    pub fn new(
        options: TesterOptions,
        arena: &Arena,
        transmit: Box<dyn Transmit>,
        receives: Vec<Box<dyn Receive>>,
    ) -> Result<Self, RunError> {
        let maker = options.traffic.maker(0)?;
        let tx_queue = TxQueue::new(maker, transmit, arena.cache(CACHE), options.burst);
        let rx_queues = RxQueues::new(receives, arena.cache(CACHE), options.burst);
        // Runs that follow each other are told apart, too.
        let stream = (now() / 1000) as u16 % STREAMS;
        Ok(Tester { options, tx_queue, rx_queues, stream, tick: None })
    }

    /// Has a function called about a hundred times a second while a trial runs.
    pub fn on_tick(&mut self, tick: impl FnMut(&Progress) + 'static) {
        self.tick = Some(Box::new(tick));
    }

    /// Mean length of the frames, without FCS.
    pub fn mean_len(&self) -> f64 {
        self.options.traffic.maker(0).map_or(0.0, |maker| maker.mean_len())
    }

    fn send(&mut self, phase: &Phase, watch: &mut Watch) -> Result<(), RunError> {
        let rate = phase.load.map(linerate_model::units::PacketsPerSecond::get);
        let mut schedule = Schedule::new(rate, Pattern::Constant, 0);
        let late = self.options.late.as_nanos() as f64;
        let late = schedule.expected(late).map_or(u64::MAX, |frames| frames as u64);
        let burst = self.tx_queue.burst();
        // Not come due yet; due and not made.
        let (mut left, mut owed) = (phase.frames, 0);
        let begin = now();
        let mut taken = begin;
        loop {
            let time = now();
            if self.tx_queue.is_empty() {
                let due = schedule.due(time - begin).unwrap_or_else(|| burst - owed).min(left);
                self.tx_queue.intend(due);
                left -= due;
                // Too late is given up: a hiccup must not become a burst.
                owed = (owed + due).min(late.max(burst));
                let made = self.tx_queue.make(owed.min(burst), time);
                owed -= made;
                self.tx_queue.count_offered(made);
            }
            let sent = self.tx_queue.offer()?;
            self.take()?;
            if left == 0 && owed == 0 && self.tx_queue.is_empty() {
                return Ok(());
            }
            if sent > 0 || (self.tx_queue.is_empty() && owed == 0) {
                taken = time;
            } else {
                self.tx_queue.flush()?;
                if time - taken > STUCK {
                    self.tx_queue.intend(left);
                    self.tx_queue.give_up();
                    return Ok(());
                }
            }
            self.watch(time, watch)?;
        }
    }

    /// Takes the frames that have come back.
    #[inline]
    fn take(&mut self) -> Result<(), RunError> {
        for queue in 0..self.rx_queues.queues() {
            if self.rx_queues.receive(queue)? > 0 {
                self.rx_queues.analyse();
            }
        }
        Ok(())
    }

    /// Closes a window that is over, and sees whether to go on.
    #[inline]
    fn watch(&mut self, time: u64, watch: &mut Watch) -> Result<(), RunError> {
        if time < watch.window + WINDOW {
            return Ok(());
        }
        let progress = self.tx_queue.progress();
        let frames = progress.accepted - watch.taken;
        watch.windows.push(frames as f64 * 1e9 / (time - watch.window) as f64);
        (watch.window, watch.taken) = (time, progress.accepted);
        if let Some(tick) = &mut self.tick {
            tick(&progress);
        }
        if self.options.stop.is_raised() { Err(RunError::Interrupted) } else { Ok(()) }
    }

    /// Waits for frames on the way.
    fn settle(&mut self, residual: Duration) -> Result<(), RunError> {
        let end = now() + residual.as_nanos() as u64;
        while now() < end
            && self.rx_queues.received(self.stream) < self.tx_queue.progress().accepted
        {
            self.tx_queue.flush()?;
            self.take()?;
            if self.options.stop.is_raised() {
                return Err(RunError::Interrupted);
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Runner for Tester {
    fn run(&mut self, order: &Order) -> Result<Outcome, RunError> {
        self.stream = (self.stream + 1) % STREAMS;
        self.take()?;
        self.rx_queues.begin(self.stream);
        self.tx_queue.begin(self.options.traffic.maker(self.stream)?);
        let start = now();
        let mut watch = Watch { start, window: start, taken: 0, windows: Vec::new() };
        let seconds = |time: u64| Seconds::new(time.saturating_sub(start) as f64 * 1e-9);
        let mut begun = Vec::new();
        for phase in &order.phases {
            begun.push(seconds(now()));
            self.send(phase, &mut watch)?;
        }
        let sending = seconds(now());
        self.settle(order.residual)?;
        self.tx_queue.refresh();
        let progress = self.tx_queue.progress();
        let stream = self.stream;
        let arrivals = self.rx_queues.arrivals();
        let own = arrivals.streams.get(&stream).copied().unwrap_or_default();
        Ok(Outcome {
            frames: Frames {
                intended: progress.intended,
                offered: progress.offered,
                accepted: progress.accepted,
                received: own.received,
            },
            sending,
            begun,
            duplicates: own.duplicates,
            reordered: own.reordered,
            foreign: arrivals.unsigned,
            latency: arrivals.latency.clone(),
            last_loss: arrivals.last_gap.map(|sent| {
                // The clock of signatures has 48 bits.
                seconds(start + (sent.wrapping_sub(watch.start) & ((1 << 48) - 1)))
            }),
            windows: watch.windows,
        })
    }
}

impl Drop for Tester {
    fn drop(&mut self) {
        // Frames that cannot be taken back any more are lost with the port.
        let _ = self.tx_queue.close();
        self.rx_queues.close();
    }
}

impl std::fmt::Debug for Tester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tester").field("stream", &self.stream).finish_non_exhaustive()
    }
}

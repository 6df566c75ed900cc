//! A program on a cluster that counts packets: the consumer's side of `cargo xtask bench cluster`.

use std::{
    hint::spin_loop,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use linerate_client::{ClientError, Consumer};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::{
    FRAME_LIMIT, Frame,
    clock::{cycles, cycles_per_second},
};
use serde_json::{Value, json};

use crate::graph::processor_seconds;

/// Packets in a sample, as many as in one of `operations` on two cores.
const BLOCK: u64 = 1 << 18;
/// Time for the server to start.
const ATTACH_LIMIT: Duration = Duration::from_secs(5);
/// How often it is asked meanwhile.
const ASK_AGAIN: Duration = Duration::from_millis(2);
/// Longest time to sleep, after which the clock is looked at.
const WAIT_LIMIT: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Socket of the cluster.
    address: String,
    /// The name to attach as.
    name: String,
    /// Most packets at once.
    #[arg(long, default_value_t = 256)]
    burst: usize,
    /// How long to count without measuring.
    #[arg(long, default_value_t = 200, value_name = "MS")]
    warm: u64,
    /// How long to measure then; counting goes on until the server ends.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Sleep while there are no packets.
    #[arg(long)]
    wait: bool,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    let burst = args.burst;
    ensure!((1..=FRAME_LIMIT).contains(&burst), "--burst {burst}: choose 1 to {FRAME_LIMIT}");
    if let Some(core) = args.core {
        pin_current_thread(core)?;
    }
    let mut counting = Counting {
        consumer: attach(args)?,
        frame: Frame::new(burst),
        waits: args.wait,
        packets: 0,
        bytes: 0,
        idle: 0,
        idle_since: None,
    };
    let warm = Instant::now() + Duration::from_millis(args.warm);
    while Instant::now() < warm {
        counting.round()?;
    }
    let line = counting
        .measure(Duration::from_millis(args.ms))
        .context("the server ended before everything was measured")?;
    // It measures, too, and is to have its packets taken to its end.
    loop {
        match counting.round() {
            Ok(()) => {}
            Err(error) if error.is_end() => return Ok(line),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Attaches as soon as the server is there and knows the name.
fn attach(args: &Args) -> Result<Consumer> {
    let until = Instant::now() + ATTACH_LIMIT;
    loop {
        match Consumer::attach(&args.address, &args.name) {
            Err(ClientError::Connect { .. } | ClientError::Refused { .. })
                if Instant::now() < until =>
            {
                thread::sleep(ASK_AGAIN);
            }
            attached => return Ok(attached?),
        }
    }
}

/// The consumer, and what it has counted.
struct Counting {
    consumer: Consumer,
    frame: Frame,
    waits: bool,
    packets: u64,
    bytes: u64,
    /// Cycles from a round that found nothing to the next that found packets.
    idle: u64,
    idle_since: Option<u64>,
}

impl Counting {
    /// Takes what there is, counts it, and gives it back. The time is read only where there is nothing,
    /// so that it costs nothing where this side is the slower one.
    fn round(&mut self) -> Result<(), ClientError> {
        let received = self.consumer.receive_into(&mut self.frame)?;
        if received == 0 {
            self.idle_since.get_or_insert_with(cycles);
            if self.waits {
                self.consumer.wait(Some(WAIT_LIMIT))?;
            } else {
                spin_loop();
            }
            return Ok(());
        }
        if let Some(since) = self.idle_since.take() {
            self.idle += cycles() - since;
        }
        self.packets += received as u64;
        self.bytes += self.frame.bytes();
        self.consumer.release(&mut self.frame)
    }

    /// Counts for about `time`, in blocks of packets whose cycles are taken one by one.
    fn measure(&mut self, time: Duration) -> Result<Value> {
        let (started, processor) = (Instant::now(), processor_seconds());
        let (begin, packets, bytes, idle) = (cycles(), self.packets, self.bytes, self.idle);
        let mut blocks = Vec::new();
        while blocks.is_empty() || started.elapsed() < time {
            let (start, before) = (cycles(), self.packets);
            while self.packets < before + BLOCK {
                self.round()?;
            }
            blocks.push((cycles() - start) as f64 / (self.packets - before) as f64);
        }
        let all = cycles() - begin;
        let (seconds, processor) =
            (started.elapsed().as_secs_f64(), processor_seconds() - processor);
        blocks.sort_by(f64::total_cmp);
        let packets = self.packets - packets;
        let figures = self.consumer.figures();
        Ok(json!({
            "packets": packets,
            "bytes": self.bytes - bytes,
            "seconds": seconds,
            "cpu_seconds": processor,
            "cycles": processor * cycles_per_second() / packets as f64,
            "work_cycles": all.saturating_sub(self.idle - idle),
            "cycles_best": blocks[0],
            "cycles_median": blocks[blocks.len() / 2],
            "samples": blocks.len(),
            "lost": figures.lost_full,
            "copied_bytes": figures.copied,
            "tsc_hz": cycles_per_second(),
        }))
    }
}

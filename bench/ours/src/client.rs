//! A program on a switch: it sends frames to another and counts what comes, the client's side of
//! `cargo xtask bench switch`.
//!
//! Several share a core, so each lets the next one run after every round.

use std::{
    io::{BufRead, Write},
    sync::mpsc::{TryRecvError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::{ArenaOptions, FRAME_LIMIT, Frame, clock::cycles_per_second};
use linerate_packet::MacAddr;
use linerate_port::{Context, Direction, PortUri, Receive, Transmit, open};
use serde_json::{Value, json};

use crate::graph::processor_seconds;

/// Bytes of each frame that are written.
const WRITTEN: usize = 64;
/// Buffers in the cache of the pool.
const CACHE: usize = 512;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port that leads to the switch.
    port: PortUri,
    /// Its own Ethernet address.
    #[arg(long)]
    own: MacAddr,
    /// The address of whom it sends to.
    #[arg(long)]
    to: MacAddr,
    /// Bytes of a frame, without FCS.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Most packets at once.
    #[arg(long, default_value_t = 256)]
    burst: usize,
    /// How long to measure, from when a line comes on standard input.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
}

/// An Ethernet frame of an IPv4 packet, of zeros behind its addresses.
fn template(args: &Args) -> [u8; WRITTEN] {
    let mut bytes = [0; WRITTEN];
    bytes[..6].copy_from_slice(&args.to.0);
    bytes[6..12].copy_from_slice(&args.own.0);
    bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    let length = (args.size - 14) as u16;
    bytes[16..18].copy_from_slice(&length.to_be_bytes());
    // Time to live, and UDP.
    bytes[22..24].copy_from_slice(&[64, 17]);
    bytes[26..34].copy_from_slice(&[198, 18, 0, args.own.0[5], 198, 18, 0, args.to.0[5]]);
    let length = (args.size - 34) as u16;
    bytes[34..40].copy_from_slice(&[0x10, 0x00, 0x20, 0x00, (length >> 8) as u8, length as u8]);
    bytes
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    ensure!((1..=FRAME_LIMIT).contains(&args.burst), "--burst: choose 1 to {FRAME_LIMIT}");
    ensure!(args.size >= WRITTEN, "--size: choose {WRITTEN} or more");
    if let Some(core) = args.core {
        pin_current_thread(core)?;
    }
    let context = Context::new(ArenaOptions { size: 16 << 20, ..Default::default() }.create()?);
    let mut port = open(&args.port, &context.toward(Direction::Both))?;
    // A switch may send by any of its queues.
    let mut receives: Vec<Box<dyn Receive>> =
        port.queues.iter_mut().filter_map(|queue| queue.receive.take()).collect();
    let queue = port.queues.first_mut().context("the port has no queue")?;
    let mut transmit = queue.transmit.take().context("the port cannot send")?;
    let mut pool = context.arena.cache(CACHE);
    let (mut out, mut into) = (Frame::new(args.burst), Frame::new(args.burst));
    let bytes = template(args);

    let (said, lines) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if said.send(line).is_err() {
                return;
            }
        }
    });
    let counts = |receives: &[Box<dyn Receive>], transmit: &dyn Transmit| {
        let received = receives.iter().map(|receive| receive.counters().read().packets);
        (received.sum::<u64>(), transmit.counters().read().packets)
    };
    let mut since: Option<(Instant, f64, (u64, u64))> = None;
    loop {
        for receive in &mut receives {
            receive.receive(&mut pool, &mut into)?;
            pool.give(&mut into);
        }
        let missing = args.burst - out.len();
        let before = out.len();
        pool.take(&mut out, missing, args.size);
        for slot in &mut out.slots_mut()[before..] {
            if let Some(packet) = pool.arena().packet_mut(slot) {
                packet[..WRITTEN].copy_from_slice(&bytes);
            }
        }
        transmit.transmit(&mut pool, &mut out)?;
        transmit.flush(&mut pool)?;
        thread::yield_now();
        match &since {
            None => match lines.try_recv() {
                Ok(_) => {
                    let counted = counts(&receives, &*transmit);
                    since = Some((Instant::now(), processor_seconds(), counted));
                }
                Err(TryRecvError::Empty) => {}
                // Nobody wants anything more.
                Err(TryRecvError::Disconnected) => {
                    return Ok(json!({"tsc_hz": cycles_per_second()}));
                }
            },
            Some((start, processor, (received, sent)))
                if start.elapsed() >= Duration::from_millis(args.ms) =>
            {
                let now = counts(&receives, &*transmit);
                let line = json!({
                    "received": now.0 - received,
                    "sent": now.1 - sent,
                    "seconds": start.elapsed().as_secs_f64(),
                    "cpu_seconds": processor_seconds() - processor,
                });
                println!("{line}");
                std::io::stdout().flush()?;
                since = None;
            }
            Some(_) => {}
        }
    }
}

//! A filter's program on packets of a capture, as `bench/peers/pcap_filter.c` runs it by libpcap's
//! interpreter.

use std::{
    fs,
    hint::black_box,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use linerate_linux::machine::pin_current_thread;
use linerate_memory::clock::{cycles, cycles_per_second};
use linerate_pcap::bpf::{Instruction, Program};
use linerate_port::pcap::Reader;
use serde_json::{Value, json};

/// Packets that are read.
const PACKETS: usize = 4096;
/// How often they are looked at for a sample.
const ROUNDS: usize = 4;
/// Samples taken at most.
const SAMPLES: usize = 4096;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program: instructions as they are in memory.
    program: PathBuf,
    /// The capture.
    packets: PathBuf,
    /// As steps, also where it can be machine code.
    #[arg(long)]
    portable: bool,
    /// How long to run.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Core to run on.
    #[arg(long)]
    core: Option<u32>,
}

pub(crate) fn run(args: &Args) -> Result<Value> {
    let bytes = fs::read(&args.program).context("no program")?;
    let instruction = |bytes: &[u8]| {
        let bytes: [u8; 8] = bytes.try_into().ok()?;
        let [code_0, code_1, jt, jf, k @ ..] = bytes;
        let code = u16::from_ne_bytes([code_0, code_1]);
        Some(Instruction { code, jt, jf, k: u32::from_ne_bytes(k) })
    };
    let instructions: Option<Vec<_>> = bytes.chunks(8).map(instruction).collect();
    let instructions = instructions.context("not a whole number of instructions")?;
    let program = if args.portable {
        Program::portable(&instructions)?
    } else {
        Program::new(&instructions)?
    };
    let mut reader = Reader::open(&args.packets)?;
    let mut packets = Vec::new();
    while let Some(record) = reader.next()? {
        if packets.len() == PACKETS {
            break;
        }
        packets.push(record.data.to_vec());
    }
    ensure!(!packets.is_empty(), "an empty capture");
    if let Some(core) = args.core {
        pin_current_thread(core)?;
    }
    let mut samples = Vec::with_capacity(SAMPLES);
    let mut wanted = 0;
    let end = Instant::now() + Duration::from_millis(args.ms);
    while samples.len() < SAMPLES && (samples.is_empty() || Instant::now() < end) {
        let start = cycles();
        wanted = 0;
        for _ in 0..ROUNDS {
            for packet in &packets {
                wanted += u64::from(program.accepts(packet, packet.len() as u32) != 0);
            }
        }
        black_box(wanted);
        samples.push((cycles() - start) as f64 / (packets.len() * ROUNDS) as f64);
    }
    samples.sort_by(f64::total_cmp);
    Ok(json!({
        "cycles_best": samples[0],
        "cycles_median": samples[samples.len() / 2],
        "samples": samples.len(),
        "tsc_hz": cycles_per_second(),
        "sum": wanted / ROUNDS as u64,
        "instructions": instructions.len(),
        "code_bytes": program.machine_code().map(<[u8]>::len),
    }))
}

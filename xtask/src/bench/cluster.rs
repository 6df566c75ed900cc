//! `cargo xtask bench cluster`: packets handed to a thread and to another process, beside DPDK.
//!
//! One side is on one core, the other on the other; both look for work all the time, so cycles per
//! packet are those that pass from one packet to the next, of the slower side. Our packets come
//! from a source that writes each of them, 64 bytes, and go back to its pool. DPDK's two measures
//! are the bare ring, whose pointers point to nothing, and the same ring with buffers that the one
//! core allocates and the other frees, and that no core writes either.

use std::cell::Cell;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure as hold};
use serde_json::{Value, json};

use super::baseline::Baseline;
use super::graph::UDP;
use super::live_frames::Generator;
use super::ours::{Ours, ProgramPlacement};
use super::peers::{
    FORWARDING_CORE, MAIN_CORE, Memory, Mode, OpCase, Peer, Ports, Programs, Sample, Testpmd,
    ensure,
};
use super::priority::Priority;
use super::restore::unique_name;
use super::results;
use super::row::{Row, median, row};
use super::shared::null;
use super::veth::{FORWARDER, GENERATOR, Network};
use crate::shell;

/// Packets in a burst of either side.
const BURSTS: [u32; 2] = [32, 256];
/// Bytes of packets, without checksum.
const SIZE: u32 = 64;
/// Packets between the two sides at most, on all rings.
const RING: u32 = 1024;
/// Time for both sides to find into their pace.
const SETTLE: Duration = Duration::from_millis(200);
/// Time for which the server runs before it measures itself: a program attaches meanwhile.
const WARM: Duration = Duration::from_millis(500);
/// Runs of a case until one is measured in which packets came through.
const TRIES: u32 = 4;
/// The name that a program attaches as.
const NAME: &str = "counter";

const BARE: &str = "rte_ring";
const BUFFERS: &str = "rte_ring and mbufs";
const MEMIF: &str = "testpmd memif";
const MEMIF_ZC: &str = "testpmd memif-zc";
const FANOUT: &str = "PACKET_FANOUT";

/// The balancing element.
const BALANCER: &str = "ConsumerBalancer(counter, WAIT true)";

/// Arguments of `cargo xtask bench cluster`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Cases, each at bursts of 32 and 256:
  ring        the bare rings: ours beside rte_ring
  thread      from a source through a Queue to another worker; wanted: at most 1.0 of rte_ring
  process     from a source through ToConsumer to a program that counts; wanted: at most 1.1
  write       the same with ACCESS write
  balance     from a source through ConsumerBalancer, beside two testpmd over net_memif, copying and
              not; wanted: at least 1.2 times their rate
  veth        from an interface through ConsumerBalancer, server and program on one core, the
              kernel and who sends on the other, beside a process of a PACKET_FANOUT group on that
              core; wanted: at least 2 times its rate; at 256 only, and only as root

Examples:
  cargo xtask bench cluster --json
  cargo xtask bench cluster --only process,thread --repetitions 11")]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Length of one measurement in milliseconds.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Only these cases.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Case>,
    /// Keep the figures in bench/results, in the file of this processor.
    #[arg(long)]
    keep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    Ring,
    Thread,
    Process,
    Write,
    Balance,
    Veth,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Ring => "ring",
            Case::Thread => "thread",
            Case::Process => "process",
            Case::Write => "process, write",
            Case::Balance => "balance",
            Case::Veth => "veth",
        }
    }
}

/// Cost of a hand-over of ours.
#[derive(Debug)]
struct HandOver {
    /// Cycles from one packet to the next.
    cycles: f64,
    mpps: f64,
    /// Cycles per packet that each part works.
    parts: Vec<(&'static str, f64)>,
}

/// The parts of a case over repetitions.
#[derive(Debug)]
struct Parts {
    case: &'static str,
    burst: u32,
    parts: Vec<(&'static str, Vec<f64>)>,
}

/// The measurement in progress.
#[derive(Debug)]
struct Bench<'a> {
    args: &'a Args,
    ours: Ours,
    programs: Programs,
    memory: Memory,
    window: Duration,
    rows: Vec<Row>,
    parts: Vec<Parts>,
    /// Runs of threads in which no packet came through all the time.
    stood_still: Cell<u32>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let ours = Ours::build()?;
    if let Err(refusal) = ensure(Peer::Dpdk) {
        bail!("{refusal}: there is nobody to hand packets over beside");
    }
    let programs = Programs::build(Peer::Dpdk)?;
    let _priority = Priority::raise();
    let memory = Memory::reserve_for_two();
    let window = Duration::from_millis(args.ms);
    let mut baseline = Baseline::new(None)?;
    baseline.sample(&memory, args.repetitions, window)?;
    let (rows, parts) = (Vec::new(), Vec::new());
    let stood_still = Cell::new(0);
    let mut bench = Bench { args, ours, programs, memory, window, rows, parts, stood_still };
    for repetition in 1..=args.repetitions {
        if !args.json {
            eprintln!("measuring, {repetition} of {}", args.repetitions);
        }
        for burst in BURSTS {
            bench.hand_over(burst)?;
            if bench.wants(Case::Balance) {
                bench.balance(burst)?;
            }
        }
        if bench.wants(Case::Veth) && shell::is_root() {
            bench.veth(BURSTS[1])?;
        }
    }
    bench.print(&baseline)
}

impl Bench<'_> {
    fn wants(&self, case: Case) -> bool {
        self.args.only.is_empty() || self.args.only.contains(&case)
    }

    /// All cases beside rings, once.
    fn hand_over(&mut self, burst: u32) -> Result<()> {
        let cases = [Case::Ring, Case::Thread, Case::Process, Case::Write];
        let cases: Vec<Case> = cases.into_iter().filter(|case| self.wants(*case)).collect();
        if cases.is_empty() {
            return Ok(());
        }
        let theirs = |case| self.programs.rte_ops(&self.memory, case, burst, self.window);
        let bare = theirs(OpCase::RingSpscTwoCores)?.median;
        let buffers = theirs(OpCase::RingMbufTwoCores)?.median;
        for case in cases {
            let found = match case {
                Case::Ring => {
                    let ring = self.ours.operation(OpCase::RingSpscTwoCores, burst, self.window)?;
                    HandOver { cycles: ring.median, mpps: f64::NAN, parts: Vec::new() }
                }
                Case::Thread => self.thread(burst)?,
                Case::Process => self.process(&format!("ToConsumer({NAME}, WAIT true)"), burst)?,
                Case::Write => {
                    let sharing = format!("ToConsumer({NAME}, ACCESS write, WAIT true)");
                    self.process(&sharing, burst)?
                }
                Case::Balance | Case::Veth => continue,
            };
            let peers = [(BARE, bare), (BUFFERS, buffers)];
            // The bare ring of ours has no buffers either.
            let peers = if case == Case::Ring { &peers[..1] } else { &peers[..] };
            for &(peer, theirs) in peers {
                let row = row(&mut self.rows, case.name(), burst, peer);
                row.ours.push(found.cycles);
                row.theirs.push(theirs);
            }
            self.keep_parts(case, burst, found.parts);
        }
        Ok(())
    }

    fn keep_parts(&mut self, case: Case, burst: u32, parts: Vec<(&'static str, f64)>) {
        let case = case.name();
        let same = |parts: &Parts| (parts.case, parts.burst) == (case, burst);
        let at = self.parts.iter().position(same).unwrap_or_else(|| {
            let none = parts.iter().map(|(name, _)| (*name, Vec::new())).collect();
            self.parts.push(Parts { case, burst, parts: none });
            self.parts.len() - 1
        });
        for ((_, kept), (_, value)) in self.parts[at].parts.iter_mut().zip(parts) {
            kept.push(value);
        }
    }

    /// From one worker to another of one process.
    fn thread(&self, burst: u32) -> Result<HandOver> {
        let text = format!(
            "source :: InfiniteSource({UDP}, TIMESTAMP false) -> queue :: Queue({RING}) \
             -> unqueue :: Unqueue -> end :: Discard; StaticThreadSched(source 0, unqueue 1);"
        );
        let cores = [MAIN_CORE as u32, FORWARDING_CORE as u32];
        let run =
            || self.ours.graph_text_on(&text, "end", burst, SETTLE, self.window, &cores)?.finish();
        let mut line = run()?;
        for _ in 1..TRIES {
            if number(&line, "packets")? > 0.0 {
                break;
            }
            // No figure is left out silently: this one is none of cycles.
            self.stood_still.set(self.stood_still.get() + 1);
            line = run()?;
        }
        let (packets, seconds) = (number(&line, "packets")?, number(&line, "seconds")?);
        hold!(packets > 0.0, "no packet came through: {line}");
        let mpps = packets / seconds / 1e6;
        let names = ["source", "queue", "unqueue", "end"];
        let parts = names.into_iter().map(|name| Ok((name, number(&line["elements"], name)?)));
        Ok(HandOver { cycles: cycles_at(mpps), mpps, parts: parts.collect::<Result<_>>()? })
    }

    /// From a server, each packet of which comes from a source, to a program that counts.
    fn process(&self, sharing: &str, burst: u32) -> Result<HandOver> {
        let source = format!("InfiniteSource({UDP}, TIMESTAMP false)");
        let on = |core| ProgramPlacement { namespace: None, core, sleeps: false };
        self.serve(&source, sharing, burst, [on(MAIN_CORE), on(FORWARDING_CORE)])
    }

    /// From a server to a program that counts, which run in those places.
    fn serve(
        &self,
        source: &str,
        sharing: &str,
        burst: u32,
        [server, consumer]: [ProgramPlacement<'_>; 2],
    ) -> Result<HandOver> {
        let socket = format!("@{}", unique_name());
        let text = format!("ClusterSocket({socket}); source :: {source} -> share :: {sharing};");
        // Where both share a core, all takes longer.
        let warm = if server.sleeps { 2 * WARM } else { WARM };
        let server = self.ours.serve(server, &text, "share", burst, warm, self.window)?;
        let consumer = self.ours.consume(consumer, (&socket, NAME), burst, SETTLE, self.window);
        // Its error is the cause where the program found no server.
        let server = server.finish()?;
        let consumer = consumer?;
        hold!(
            consumer["lost"] == 0 && consumer["copied_bytes"] == 0,
            "packets that wait are not lost, and shared ones not copied: {consumer}"
        );
        let packets = number(&consumer, "packets")?;
        Ok(HandOver {
            cycles: number(&consumer, "cycles_median")?,
            mpps: packets / number(&consumer, "seconds")? / 1e6,
            parts: vec![
                ("source", number(&server["elements"], "source")?),
                ("share", number(&server["elements"], "share")?),
                ("consumer", number(&consumer, "work_cycles")? / packets),
            ],
        })
    }

    /// A balancer beside two testpmd, once.
    fn balance(&mut self, burst: u32) -> Result<()> {
        let copying = self.testpmd(false, burst)?;
        let zero_copy = self.testpmd(true, burst)?;
        let found = self.process(BALANCER, burst)?;
        self.add_rates(Case::Balance, burst, found, &[(MEMIF, copying), (MEMIF_ZC, zero_copy)]);
        Ok(())
    }

    /// A balancer on an interface beside a process that the kernel balances to, once.
    fn veth(&mut self, burst: u32) -> Result<()> {
        let theirs = {
            let network = Network::new()?;
            network.receive_by_polling(true)?;
            let name = network.namespace();
            let generator = Generator::start(Some(name), GENERATOR, MAIN_CORE, &frame())?;
            let interface = FORWARDER[0];
            let counted = self.programs.packet_fanout(name, interface, SETTLE, self.window);
            generator.stop()?;
            counted?
        };
        let network = Network::new()?;
        let name = Some(network.namespace());
        // The kernel's receive side is on the other core, with the generator.
        let place = ProgramPlacement { namespace: name, core: FORWARDING_CORE, sleeps: true };
        let source = format!("FromPort(xdp:{})", FORWARDER[0]);
        let generator = Generator::start(name, GENERATOR, MAIN_CORE, &frame())?;
        let found = self.serve(&source, BALANCER, burst, [place, place]);
        generator.stop()?;
        self.add_rates(Case::Veth, burst, found?, &[(FANOUT, theirs)]);
        Ok(())
    }

    fn add_rates(
        &mut self,
        case: Case,
        burst: u32,
        found: HandOver,
        peers: &[(&'static str, Sample)],
    ) {
        for (peer, theirs) in peers {
            let row = row(&mut self.rows, case.name(), burst, peer);
            // Between processes that share a core, blocks are of one or the other.
            row.ours.push(cycles_at(found.mpps));
            row.theirs.push(cycles_at(theirs.mpps()));
            row.rates.push((found.mpps, theirs.mpps()));
        }
        self.keep_parts(case, burst, found.parts);
    }

    /// A testpmd that receives by memif the packets of another.
    fn testpmd(&self, zero_copy: bool, burst: u32) -> Result<Sample> {
        let socket = unique_name();
        let memif = |role: &str| {
            format!("net_memif0,id=0,socket={socket},socket-abstract=yes,rsize=10,role={role}")
        };
        let start = |devices: Vec<String>, core| -> Result<Testpmd> {
            let mut testpmd = Testpmd::start_on(&self.memory, Ports::Shared(devices), core)?;
            testpmd.begin(Mode::Io, burst)?;
            Ok(testpmd)
        };
        let receives = vec![null(SIZE, false), memif("server")];
        let mut receives = start(receives, FORWARDING_CORE)?;
        let client = if zero_copy { "client,zero-copy=yes" } else { "client" };
        let _sends = start(vec![null(SIZE, true), memif(client)], MAIN_CORE)?;
        sleep(SETTLE);
        let sample = receives.sample(self.window)?;
        hold!(sample.packets > 0, "nothing came from one testpmd to the other");
        Ok(sample)
    }

    fn print(&self, baseline: &Baseline) -> Result<()> {
        if self.args.keep {
            results::store("cluster", results::named_figures(&self.rows), baseline)?;
        }
        if self.args.json {
            let report = json!({
                "machine": self.ours.machine()?,
                "yardstick": baseline.json(),
                "rows": self.rows.iter().map(row_json).collect::<Vec<_>>(),
                "stood_still": self.stood_still.get(),
                "parts": self.parts.iter().map(Parts::json).collect::<Vec<_>>(),
            });
            println!("{report}");
            return Ok(());
        }
        let pages = if self.memory.is_huge() { "2 MiB" } else { "4 KiB" };
        println!(
            "TSC cycles from packet to packet, and their ratios, of rates where there are any; \
             {} repetitions of {} ms, {pages} pages for DPDK",
            self.args.repetitions, self.args.ms
        );
        baseline.print();
        Row::print_header();
        let reference = baseline.figure();
        self.rows.iter().for_each(|row| row.print(reference));
        println!("Mpps, of the medians:");
        for row in &self.rows {
            let [ours, theirs] = mpps_of(row);
            println!(
                "{:<16} {:>5} {ours:>9.1}   {:<20} {theirs:>9.1}",
                row.case, row.burst, row.peer
            );
        }
        println!("cycles per packet that each part of ours works, medians:");
        self.parts.iter().for_each(Parts::print);
        println!("bytes copied for programs: 0");
        let stood_still = self.stood_still.get();
        if stood_still > 0 {
            println!("STOOD STILL: {stood_still} runs of thread, in which no packet came through");
        }
        if self.wants(Case::Veth) && !shell::is_root() {
            println!("NOT MEASURED: veth: network namespaces need root");
        }
        Ok(())
    }
}

impl Parts {
    fn medians(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.parts.iter().map(|(name, values)| (*name, median(values)))
    }

    fn print(&self) {
        let parts: Vec<_> =
            self.medians().map(|(name, cycles)| format!("{name} {cycles:.1}")).collect();
        if !parts.is_empty() {
            println!("{:<16} {:>5}   {}", self.case, self.burst, parts.join(", "));
        }
    }

    fn json(&self) -> Value {
        let parts: serde_json::Map<String, Value> =
            self.medians().map(|(name, cycles)| (name.to_owned(), cycles.into())).collect();
        json!({"case": self.case, "burst": self.burst, "cycles_median": parts})
    }
}

/// A row, with the rates that its cycles are.
fn row_json(row: &Row) -> Value {
    let mut line = row.json();
    let [ours, theirs] = mpps_of(row);
    line["mpps_of_median"] = ours.into();
    line["peer_mpps_of_median"] = theirs.into();
    line
}

/// Rates of ours and of the peer, in Mpps, by the medians of their cycles.
fn mpps_of(row: &Row) -> [f64; 2] {
    let per_microsecond = linerate_memory::clock::cycles_per_second() / 1e6;
    [&row.ours, &row.theirs].map(|cycles| per_microsecond / median(cycles))
}

/// The frame that comes over veth: that of our source.
fn frame() -> Vec<u8> {
    let digits: Vec<u8> =
        UDP.chars().filter_map(|letter| Some(letter.to_digit(16)? as u8)).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Cycles from packet to packet at a rate in Mpps.
fn cycles_at(mpps: f64) -> f64 {
    linerate_memory::clock::cycles_per_second() / 1e6 / mpps
}

fn number(line: &Value, key: &str) -> Result<f64> {
    line[key].as_f64().with_context(|| format!("no {key} in {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_over_veth_are_those_of_the_source() {
        let frame = frame();
        assert_eq!(frame.len(), SIZE as usize);
        assert_eq!(frame[12..15], [0x08, 0x00, 0x45]);
    }

    #[test]
    fn rates_are_those_of_cycles() {
        let mut rows = Vec::new();
        let row = row(&mut rows, "thread", 32, BARE);
        (row.ours, row.theirs) = (vec![cycles_at(50.0)], vec![cycles_at(25.0)]);
        let [ours, theirs] = mpps_of(row);
        assert!((ours - 50.0).abs() < 1e-6 && (theirs - 25.0).abs() < 1e-6, "{ours} {theirs}");
        assert!((row.ratio() - 0.5).abs() < 1e-9);
    }
}

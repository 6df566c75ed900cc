//! `cargo xtask bench pcap`: programs on libpcap with our library in its place, beside the system's.
//!
//! One program, in C and written against libpcap's interface, runs with either library in
//! turns. It counts the packets that a filter lets through, lets through nothing, sends, or sends
//! on the packets it captures (a bridge), so many packets per call. The system's has veth pairs;
//! ours has the same by `xdp:`, and ports in memory. There is no port in memory for the system's,
//! so ours is beside the veth of the same repetition.
//!
//! Filters are run apart from that: the same program of one, by libpcap's interpreter and by ours.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure as hold};
use serde_json::json;

use super::capture::{MemoryFolder, Pages};
use super::frames::Capture;
use super::live_frames::{Counters, Generator};
use super::ours::{Ours, pcap_library};
use super::peers::{MAIN_CORE, PcapOptions, PcapTask, Peer, Programs, Sample, ensure};
use super::priority::Priority;
use super::row::{Row, median, row};
use super::veth::{FORWARDER, GENERATOR, Network, SINK};
use crate::shell;

/// Packets per call, as in the paper on netmap's library.
const BATCHES: [u32; 9] = [1, 2, 3, 5, 10, 20, 50, 100, 500];
/// Those of capture and injection.
const FEW_BATCHES: [u32; 2] = [1, 50];
/// Filter of the packets that are counted.
const WANTED: &str = "udp and not port 53 and not net 192.168.0.0/16";
/// Filters that no packet passes, as the kernel of a packet socket can decide it, and as it cannot.
const UNWANTED: [(&str, &str); 2] =
    [("in the kernel", "tcp port 80"), ("here", "tcp port 80 and greater 0")];
/// UDP from 10.0.0.1 to 10.0.0.2, without its checksum.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    let headers = [
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xcb,
        10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 7, 0, 26,
    ];
    let mut at = 0;
    while at < headers.len() {
        frame[at] = headers[at];
        at += 1;
    }
    frame
};
/// Frames that circulate between the rings of the bridge in memory, in each.
const CIRCULATING: u32 = 512;
/// Time for a program to get going.
const SETTLE: Duration = Duration::from_millis(150);

const SYSTEM: &str = "libpcap, veth";

/// Names of rows and filters.
const FILTERS: [(&str, &str); 10] = [
    ("ip", "ip"),
    ("tcp", "tcp"),
    ("tcp port 80", "tcp port 80"),
    ("udp port 53", "udp port 53"),
    ("not port 22", "not port 22"),
    ("host", "host 10.0.0.1"),
    (
        "conversation",
        "(src host 10.0.0.1 and dst host 10.0.0.2) or (src host 10.0.0.2 and dst host 10.0.0.1)",
    ),
    ("flags", "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0"),
    ("http", "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)"),
    (
        "16 ports",
        "tcp port 20 or tcp port 21 or tcp port 22 or tcp port 23 or tcp port 25 or tcp port 80 or tcp port 110 or tcp port 143 or tcp port 443 or tcp port 445 or tcp port 993 or tcp port 995 or tcp port 1433 or tcp port 3306 or tcp port 3389 or tcp port 5432",
    ),
];

/// Arguments of `cargo xtask bench pcap`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Cases; all but filter need root:
  filter   ten filters on a mix of packets: ours beside libpcap's interpreter, wanted: a fifth of its
           cycles; and ours without machine code
  capture  a filter and a callback that counts
  refuse   a filter that wants nothing, by packet sockets: how many packets the interface takes; ours
           where the filter is one that the kernel is given, and where it is not
  inject   pcap_inject
  bridge   pcap_dispatch into pcap_inject, by 1 to 500 packets; wanted: on veth at least 1.5 times the
           system's at 50 and no less at 1; in memory 10 Mpps at 50, and 20 times the system's on veth

Examples:
  cargo xtask bench pcap --json
  cargo xtask bench pcap --only bridge --repetitions 11")]
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
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    Filter,
    Capture,
    Refuse,
    Inject,
    Bridge,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Filter => "filter",
            Case::Capture => "capture",
            Case::Refuse => "refuse",
            Case::Inject => "inject",
            Case::Bridge => "bridge",
        }
    }
}

/// The measurement in progress.
#[derive(Debug)]
struct Bench<'a> {
    args: &'a Args,
    ours: Ours,
    /// Folder of our library.
    library: PathBuf,
    programs: Programs,
    window: Duration,
    folder: MemoryFolder,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !shell::is_root() {
        bail!("network namespaces and a file system in memory need root");
    }
    if let Err(refusal) = ensure(Peer::Libpcap) {
        bail!("{refusal}: there is nobody to measure beside");
    }
    let (ours, library) = (Ours::build()?, pcap_library()?);
    let programs = Programs::build(Peer::Libpcap)?;
    let _priority = Priority::raise();
    let window = Duration::from_millis(args.ms);
    let folder = MemoryFolder::new(Pages::Large)?;
    let rows = Vec::new();
    let mut bench = Bench { args, ours, library, programs, window, folder, rows };
    for repetition in 1..=args.repetitions {
        if !args.json {
            eprintln!("repetition {repetition} of {}", args.repetitions);
        }
        bench.filters()?;
        bench.refused()?;
        for (case, batches) in [
            (Case::Capture, &FEW_BATCHES[..]),
            (Case::Inject, &FEW_BATCHES),
            (Case::Bridge, &BATCHES),
        ] {
            if bench.wants(case) {
                batches.iter().try_for_each(|batch| bench.calls(case, *batch))?;
            }
        }
    }
    bench.print()
}

impl Bench<'_> {
    fn wants(&self, case: Case) -> bool {
        self.args.only.is_empty() || self.args.only.contains(&case)
    }

    fn filters(&mut self) -> Result<()> {
        if !self.wants(Case::Filter) {
            return Ok(());
        }
        let packets = mix(self.folder.path())?;
        let program = self.folder.path().join("program");
        for (name, filter) in FILTERS {
            let theirs = self.programs.pcap_filter(filter, &packets, &program, self.window)?;
            for (portable, form) in [(false, ""), (true, ", portable")] {
                let ours = self.ours.filter(&program, &packets, portable, self.window)?;
                hold!(
                    ours.sum == theirs.sum,
                    "{filter}: ours wants {} packets, libpcap {}",
                    ours.sum,
                    theirs.sum
                );
                let row = row(&mut self.rows, format!("filter {name}{form}"), 1, "bpf_filter");
                row.ours.push(ours.cycles.median);
                row.theirs.push(theirs.cycles.median);
            }
        }
        Ok(())
    }

    /// Packets that no filter passes.
    fn refused(&mut self) -> Result<()> {
        if !self.wants(Case::Refuse) {
            return Ok(());
        }
        for (place, filter) in UNWANTED {
            let theirs = self.over_veth(Case::Refuse, 50, Some(filter), None)?;
            let ours = self.over_veth(Case::Refuse, 50, Some(filter), Some(&self.library))?;
            let rate = linerate_memory::clock::cycles_per_second();
            let row = row(&mut self.rows, format!("refuse, {place}"), 50, SYSTEM);
            row.ours.push(ours.seconds * rate / ours.packets as f64);
            row.theirs.push(theirs.seconds * rate / theirs.packets as f64);
            row.rates.push((ours.mpps(), theirs.mpps()));
        }
        Ok(())
    }

    /// A case with so many packets per call: the system's, ours on the same, and ours in memory.
    fn calls(&mut self, case: Case, batch: u32) -> Result<()> {
        let wanted = (case == Case::Capture).then_some(WANTED);
        let theirs = self.over_veth(case, batch, wanted, None)?;
        let ours = self.over_veth(case, batch, wanted, Some(&self.library))?;
        let memory = self.in_memory(case, batch)?;
        for (place, ours) in [("veth", ours), ("memory", memory)] {
            let rate = linerate_memory::clock::cycles_per_second();
            let row = row(&mut self.rows, format!("{}, {place}", case.name()), batch, SYSTEM);
            row.ours.push(ours.cpu_cycles(rate));
            row.theirs.push(theirs.cpu_cycles(rate));
            row.rates.push((ours.mpps(), theirs.mpps()));
        }
        Ok(())
    }

    fn options(&self, case: Case, batch: u32, interfaces: [String; 2]) -> PcapOptions {
        PcapOptions {
            task: match case {
                Case::Capture | Case::Refuse => PcapTask::Capture,
                Case::Inject => PcapTask::Inject,
                Case::Bridge | Case::Filter => PcapTask::Bridge,
            },
            filter: (case == Case::Capture).then(|| WANTED.to_owned()),
            library: None,
            namespace: None,
            interfaces,
            burst: batch,
            immediate: true,
            limit: self.window * 10 + Duration::from_secs(10),
        }
    }

    /// Between the kernel that sends all it can and one that counts arriving packets. A packet that
    /// is sent counts when it arrives, not when the program was told so, and one that is refused
    /// when the interface has it.
    fn over_veth(
        &self,
        case: Case,
        batch: u32,
        filter: Option<&str>,
        library: Option<&Path>,
    ) -> Result<Sample> {
        let network = Network::new()?;
        network.receive_by_polling(true)?;
        let namespace = Some(network.namespace());
        let interfaces = FORWARDER.map(|interface| match library {
            None => interface.to_owned(),
            Some(_) if case == Case::Refuse => format!("packet:{interface}"),
            Some(_) => format!("xdp:{interface}"),
        });
        let mut program = self.programs.pcap_forward(&PcapOptions {
            library: library.map(Path::to_owned),
            filter: filter.map(str::to_owned),
            namespace: namespace.map(str::to_owned),
            ..self.options(case, batch, interfaces)
        })?;
        let generator = (case != Case::Inject)
            .then(|| Generator::start(namespace, GENERATOR, MAIN_CORE, &FRAME))
            .transpose()?;
        sleep(SETTLE);
        let place = if case == Case::Refuse { FORWARDER[0] } else { SINK };
        let (start, before) = (Instant::now(), Counters::read(namespace, place)?.received);
        let mut sample = program.measure(self.window)?;
        let seconds = start.elapsed().as_secs_f64();
        if case != Case::Capture {
            let arrived = Counters::read(namespace, place)?.received - before;
            sample.packets = (arrived as f64 * sample.seconds / seconds) as u64;
        }
        hold!(sample.packets > 0, "{}: nothing came through", case.name());
        if let Some(generator) = generator {
            generator.stop()?;
        }
        Ok(sample)
    }

    fn in_memory(&self, case: Case, batch: u32) -> Result<Sample> {
        let ring = |name| format!("ring:{name}?loop&size=60&seed={CIRCULATING}");
        let packets = same(self.folder.path())?;
        let interfaces = match case {
            Case::Capture => [format!("pcap:{}?loop=0", packets.display()), "null:".into()],
            Case::Inject => ["null:".into(), "null:?copy".into()],
            Case::Bridge | Case::Filter | Case::Refuse => ["a", "b"].map(ring),
        };
        let options = self.options(case, batch, interfaces);
        let task = if case == Case::Bridge { PcapTask::Circle } else { options.task };
        let library = Some(self.library.clone());
        let mut program = self.programs.pcap_forward(&PcapOptions { task, library, ..options })?;
        sleep(SETTLE);
        program.measure(self.window)
    }

    fn print(&self) -> Result<()> {
        if self.args.json {
            let report = json!({
                "machine": self.ours.machine()?,
                "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            });
            println!("{report}");
            return Ok(());
        }
        println!(
            "TSC cycles per packet, {} repetitions of {} ms",
            self.args.repetitions, self.args.ms
        );
        Row::print_header();
        self.rows.iter().for_each(|row| row.print(None));
        if self.wants(Case::Bridge) {
            self.print_bridge();
        }
        Ok(())
    }

    /// Prints the paper's table: rates of the bridge by packets per call.
    fn print_bridge(&self) {
        println!("\nbridge, Mpps        packets per call");
        print!("{:<18}", "");
        BATCHES.iter().for_each(|batch| print!("{batch:>8}"));
        let rates = |place: &str, side: fn(&(f64, f64)) -> f64| {
            BATCHES.map(|batch| {
                let case = format!("bridge, {place}");
                let row = self.rows.iter().find(|row| row.case == case && row.burst == batch);
                row.map_or(f64::NAN, |row| median(&row.rates.iter().map(side).collect::<Vec<_>>()))
            })
        };
        for (name, rates) in [
            ("libpcap, veth", rates("veth", |rates| rates.1)),
            ("ours, veth", rates("veth", |rates| rates.0)),
            ("ours, in memory", rates("memory", |rates| rates.0)),
        ] {
            print!("\n{name:<18}");
            rates.iter().for_each(|rate| print!("{rate:>8.2}"));
        }
        println!();
    }
}

/// A capture of packets like those of a network: its path. Half are those one of the filters is
/// about.
fn mix(folder: &Path) -> Result<PathBuf> {
    let mut capture = Capture::new();
    for number in 0..4096u32 {
        // Spread, and the same each time.
        let random = number.wrapping_mul(0x9e37_79b1);
        let [host, peer, kind, port] = random.to_le_bytes();
        let from = [10, 0, 0, host % 4].into();
        let to = [10, 0, 0, peer % 4].into();
        let well_known = [22, 53, 80, 443, 8080, 1234][usize::from(port % 6)];
        let own = 1024 + (random >> 12) as u16 % 60000;
        if kind % 4 == 0 {
            capture.udp(from, own, to, well_known);
        } else {
            capture.tcp(from, own, to, well_known, kind & 0x1b);
        }
    }
    capture.write(folder, "mix")
}

/// A capture of packets like the frame on veth.
fn same(folder: &Path) -> Result<PathBuf> {
    let mut capture = Capture::new();
    (0..4096).for_each(|_| capture.udp([10, 0, 0, 1].into(), 7, [10, 0, 0, 2].into(), 7));
    capture.write(folder, "same")
}

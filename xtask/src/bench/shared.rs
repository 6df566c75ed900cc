//! `cargo xtask bench shared`: ports in memory that is shared with another process.
//!
//! A testpmd, the *peer*, is on one core, and on the other, in turns, a testpmd and ours, with one
//! task: *receive* takes packets that the peer sends and frees them, *transmit* sends packets that
//! no core has written, *forward* writes both addresses of the peer's packets and sends them back.
//! Rates are of packets passed on in the end. Where the peer is the slower one it is the same for
//! both, so each row has the cycles per packet, too, that the measured side spends in rounds with
//! packets.
//!
//! Where the peer is the slower one that says little about the measured side. So each row has the
//! share of its time that the measured side spent in those rounds, the share of its packets that
//! found no place, and both of the other end: where a peer that sends has a place for all of them,
//! or one that receives is busy all the time, it bounds the rate. And there are *pairs*, too: a
//! testpmd with a testpmd for its peer, and ours with ours.
//!
//! The shared memory is a [`Wire`]: the devices of both sides and the name of our port. Another
//! kind of port is another function that makes one.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use super::baseline::Baseline;
use super::ours::{Ours, Running};
use super::peers::{
    FORWARDING_CORE, MAIN_CORE, Memory, Mode, Peer, Ports, Sample, Testpmd, ensure,
};
use super::priority::Priority;
use super::restore::unique_name;
use super::results;
use super::row::{Load, Row, row};

/// Packets in a burst of either side.
const BURST: u32 = 32;
/// Bytes of packets, without checksum.
const SIZES: [u32; 2] = [64, 1500];
/// Time for both sides to find into their pace.
const SETTLE: Duration = Duration::from_millis(200);

/// Arguments of `cargo xtask bench shared`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Cases are named TASK SIZE WIRE, as in `forward 64 memif-server`. Wires are
  memif-server       the measured side listens, its peer copies
  memif-server-zc    the measured side listens, its peer is a zero-copy client
  memif-client       the measured side connects, and copies
  memif-client-zc    the measured side connects, and its own buffers are the shared memory
  memif-pair         as memif-server, and ours has ours for its peer
  memif-pair-zc      as memif-server-zc, likewise
  vhost-split, vhost-packed
                     the measured side is a device, its peer a virtio_user with such queues
  vhost-driver       the measured side is a driver with split queues, its peer a net_vhost
  vhost-driver-zc    the same with packed queues; ours shares its own buffers, as virtio_user does

Examples:
  cargo xtask bench shared --json
  cargo xtask bench shared --only forward --only 64,memif-server
                             those of which the words of one --only are all in the name")]
pub(crate) struct Args {
    /// How often each case is measured.
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Length of one measurement in milliseconds.
    #[arg(long, default_value_t = 300)]
    ms: u64,
    /// Only cases with all these words; may be repeated.
    #[arg(long, value_name = "WORD,...")]
    only: Vec<String>,
    /// Keep the figures in bench/results, in the file of this processor.
    #[arg(long)]
    keep: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Task of the measured side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Receive,
    Transmit,
    Forward,
}

impl Task {
    const ALL: [Task; 3] = [Task::Receive, Task::Transmit, Task::Forward];

    fn name(self) -> &'static str {
        match self {
            Task::Receive => "receive",
            Task::Transmit => "transmit",
            Task::Forward => "forward",
        }
    }

    /// Returns the peer's device beside the wire.
    fn peer_null(self, size: u32) -> String {
        null(size, self != Task::Transmit)
    }

    /// Returns the device of the measured testpmd beside the wire.
    fn null(self, size: u32) -> Option<String> {
        match self {
            Task::Receive => Some(null(size, false)),
            Task::Transmit => Some(null(size, true)),
            Task::Forward => None,
        }
    }

    fn mode(self) -> Mode {
        if self == Task::Forward { Mode::Mac } else { Mode::Io }
    }
}

/// A testpmd's `net_null`, which takes packets, and makes some without end if it is a source.
pub(super) fn null(size: u32, is_source: bool) -> String {
    format!("net_null0,size={size},copy=0,no-rx={}", u8::from(!is_source))
}

/// Two ends of a piece of shared memory.
#[derive(Debug)]
struct Wire {
    name: &'static str,
    /// The peer of the measured side, in tables.
    against: &'static str,
    /// The device of the peer.
    peer: String,
    /// The device of the testpmd that is measured.
    theirs: String,
    /// Our port.
    ours: String,
    /// Our port in the place of the peer, where ours is measured against ours.
    our_peer: Option<String>,
    /// Whether the measured side has to be there before its peer.
    first: bool,
    /// The file of its socket, which a testpmd leaves behind and does not remove.
    file: Option<String>,
}

impl Wire {
    fn clean(&self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The wires of memif: roles, and copying or not.
fn memif() -> [Wire; 6] {
    let socket = format!("linerate-bench-{}", unique_name());
    let device = |options: &str| {
        format!("net_memif0,id=0,socket={socket},socket-abstract=yes,rsize=10,{options}")
    };
    let port = |options: &str| format!("memif:@{socket}?wait=20&{options}");
    let wire = |name, peer: &str, theirs: &str, ours: &str, first| Wire {
        name,
        against: "testpmd net_memif",
        peer: device(peer),
        theirs: device(theirs),
        ours: port(ours),
        our_peer: None,
        first,
        file: None,
    };
    let pair = |name, theirs: &str, ours: &str| Wire {
        our_peer: Some(port(ours)),
        ..wire(name, theirs, "role=server", "role=server", true)
    };
    let (client, zero_copy) = ("role=client", "role=client,zero-copy=yes");
    [
        wire("memif-server", client, "role=server", "role=server", true),
        wire("memif-server-zc", zero_copy, "role=server", "role=server", true),
        wire("memif-client", "role=server", client, "role=client", false),
        wire("memif-client-zc", "role=server", zero_copy, "role=client&zero-copy", false),
        pair("memif-pair", client, "role=client"),
        pair("memif-pair-zc", zero_copy, "role=client&zero-copy"),
    ]
}

/// The wires of vhost-user: roles, and formats of queues.
fn vhost() -> [Wire; 4] {
    let socket = format!("/tmp/linerate-bench-{}.sock", unique_name());
    let driver = |packed: bool| {
        let packed = u8::from(packed);
        format!("net_virtio_user0,path={socket},packed_vq={packed},mrg_rxbuf=1")
    };
    let device = format!("net_vhost0,iface={socket}");
    let port = |options: &str| format!("vhost:{socket}?wait=20{options}");
    let of_device = |name, packed| Wire {
        name,
        against: "testpmd net_vhost",
        peer: driver(packed),
        theirs: device.clone(),
        ours: port(""),
        our_peer: None,
        first: true,
        file: Some(socket.clone()),
    };
    let of_driver = |name, packed, options: &str| Wire {
        name,
        against: "testpmd virtio_user",
        peer: device.clone(),
        theirs: driver(packed),
        ours: port(options),
        our_peer: None,
        first: false,
        file: Some(socket.clone()),
    };
    [
        of_device("vhost-split", false),
        of_device("vhost-packed", true),
        of_driver("vhost-driver", false, "&role=driver&packed=no"),
        of_driver("vhost-driver-zc", true, "&role=driver&zero-copy"),
    ]
}

fn wires() -> Vec<Wire> {
    memif().into_iter().chain(vhost()).collect()
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let ours = Ours::build()?;
    if let Err(refusal) = ensure(Peer::Dpdk) {
        bail!("{refusal}: there is nobody to share memory with");
    }
    let _priority = Priority::raise();
    let memory = Memory::reserve_for_two();
    let window = Duration::from_millis(args.ms);
    let mut baseline = Baseline::new(None)?;
    baseline.sample(&memory, args.repetitions, window)?;
    let bench = Bench { ours, memory, window };
    let mut cases = Vec::new();
    for wire in wires() {
        for task in Task::ALL {
            for size in SIZES {
                let name = format!("{} {size} {}", task.name(), wire.name);
                if wanted(&args.only, &name) {
                    cases.push((name, task, size, wire.name));
                }
            }
        }
    }
    let tsc = linerate_memory::clock::cycles_per_second();
    let load = |Measured { sample, far }: &Measured| Load {
        busy: sample.busy(tsc).unwrap_or(f64::NAN),
        dropped: sample.dropped(),
        far_busy: far.as_ref().and_then(|far| far.busy(tsc)).unwrap_or(f64::NAN),
        far_dropped: far.as_ref().map_or(f64::NAN, Sample::dropped),
    };
    let mut rows = Vec::new();
    for _ in 0..args.repetitions {
        for (name, task, size, wire) in &cases {
            if !args.json {
                eprintln!("measuring {name}");
            }
            // With sockets of their own: the measurement before may not have let go of its own yet.
            let mut wires = wires().into_iter().filter(|other| other.name == *wire);
            let wire = wires.next().expect("one of them");
            let theirs = bench.theirs(&wire, *task, *size)?;
            let ours = bench.ours(&wire, *task, *size)?;
            wire.clean();
            let row = row(&mut rows, name.clone(), BURST, wire.against);
            row.theirs.push(theirs.sample.busy_cycles().unwrap_or(f64::NAN));
            row.ours.push(ours.sample.busy_cycles().unwrap_or(f64::NAN));
            row.rates.push((ours.sample.mpps(), theirs.sample.mpps()));
            row.loads.push([load(&ours), load(&theirs)]);
        }
    }
    print(args, &bench, &rows, &baseline)
}

/// Returns true if `name` has all words of one of these, or there are none.
fn wanted(only: &[String], name: &str) -> bool {
    let words: Vec<&str> = name.split(' ').collect();
    let has_all = |wanted: &String| wanted.split(',').all(|word| words.contains(&word));
    only.is_empty() || only.iter().any(has_all)
}

fn print(args: &Args, bench: &Bench, rows: &[Row], baseline: &Baseline) -> Result<()> {
    if args.keep {
        results::store("shared", results::named_figures(rows), baseline)?;
    }
    if args.json {
        let report = json!({
            "machine": bench.ours.machine()?,
            "yardstick": baseline.json(),
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        println!("{report}");
        return Ok(());
    }
    let pages = if bench.memory.is_huge() { "2 MiB" } else { "4 KiB" };
    println!(
        "TSC cycles per packet in rounds with packets, and ratios of rates; {} repetitions of {} ms, \
         {pages} pages for DPDK",
        args.repetitions, args.ms
    );
    baseline.print();
    Row::print_header();
    rows.iter().for_each(|row| row.print(baseline.figure()));
    Ok(())
}

/// The program at the other end during a measurement.
#[derive(Debug)]
enum PeerProgram {
    Testpmd(Testpmd),
    #[expect(dead_code, reason = "it is there until it is dropped")]
    Ours(Running),
}

impl PeerProgram {
    /// Measures, and first reads the load of this one, if it has any: it loses its counts with its
    /// peer.
    fn measured(
        &mut self,
        window: Duration,
        measure: impl FnOnce() -> Result<Sample>,
    ) -> Result<Measured> {
        let far = match self {
            PeerProgram::Testpmd(peer) => Some(peer.sample(window)?),
            PeerProgram::Ours(_) => None,
        };
        Ok(Measured { sample: measure()?, far })
    }
}

/// Result of a side, and that of its other end.
#[derive(Debug)]
struct Measured {
    sample: Sample,
    far: Option<Sample>,
}

/// The measurement in progress.
#[derive(Debug)]
struct Bench {
    ours: Ours,
    memory: Memory,
    window: Duration,
}

impl Bench {
    /// Starts the peer, forwarding.
    fn peer(&self, wire: &Wire, task: Task, size: u32) -> Result<PeerProgram> {
        let devices = vec![task.peer_null(size), wire.peer.clone()];
        let mut peer = Testpmd::start_on(&self.memory, Ports::Shared(devices), MAIN_CORE)?;
        peer.begin(Mode::Io, BURST)?;
        Ok(PeerProgram::Testpmd(peer))
    }

    /// Starts our peer.
    fn our_peer(&self, port: &str, task: Task, size: u32) -> Result<PeerProgram> {
        let null = format!("null:?size={size}");
        // Packets of the measured side are freed; those it receives, and sends back, were made
        // here.
        let (ports, flags): ([&str; 2], &[&str]) = match task {
            Task::Transmit => ([port, &null], &[]),
            Task::Receive => ([&null, port], &[]),
            Task::Forward => ([&null, port], &["--bidirectional"]),
        };
        let core = MAIN_CORE;
        self.ours.start_forward(&ports, flags, BURST, self.window, core).map(PeerProgram::Ours)
    }

    /// Starts both in the order they need.
    fn both<P, T>(
        wire: &Wire,
        peer: impl FnOnce() -> Result<P>,
        start: impl FnOnce() -> Result<T>,
    ) -> Result<(P, T)> {
        wire.clean();
        if wire.first {
            let measured = start()?;
            return Ok((peer()?, measured));
        }
        let peer = peer()?;
        Ok((peer, start()?))
    }

    /// A testpmd as the measured side.
    fn theirs(&self, wire: &Wire, task: Task, size: u32) -> Result<Measured> {
        let devices = task.null(size).into_iter().chain([wire.theirs.clone()]).collect();
        let (mut peer, mut measured) = Self::both(
            wire,
            || self.peer(wire, task, size),
            || {
                let mut measured = Testpmd::start(&self.memory, Ports::Shared(devices))?;
                measured.begin(task.mode(), BURST)?;
                Ok(measured)
            },
        )?;
        sleep(SETTLE);
        peer.measured(self.window, || measured.sample(self.window))
    }

    /// Ours in its place.
    fn ours(&self, wire: &Wire, task: Task, size: u32) -> Result<Measured> {
        let null = format!("null:?size={size}");
        let (ports, flags): (&[&str], &[&str]) = match task {
            Task::Receive => (&[&wire.ours, &null], &[]),
            Task::Transmit => (&[&null, &wire.ours], &[]),
            Task::Forward => (&[&wire.ours], &["--rewrite"]),
        };
        let peer = || match &wire.our_peer {
            None => self.peer(wire, task, size),
            Some(port) => self.our_peer(port, task, size),
        };
        let (mut peer, measured) = Self::both(wire, peer, || {
            let core = FORWARDING_CORE;
            let measured = self.ours.start_forward(ports, flags, BURST, self.window, core)?;
            if wire.first {
                // It listens within this time; a testpmd takes longer to start.
                sleep(SETTLE);
            }
            Ok(measured)
        })?;
        sleep(SETTLE * 2);
        peer.measured(self.window, || measured.measure())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_words() {
        let only = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(wanted(&[], "receive 64 memif-server"));
        assert!(wanted(&only(&["64,receive"]), "receive 64 memif-server"));
        assert!(!wanted(&only(&["64,transmit"]), "receive 64 memif-server"));
        assert!(wanted(&only(&["1500", "memif-server"]), "receive 64 memif-server"));
        assert!(!wanted(&only(&["memif-server"]), "receive 64 memif-server-zc"));
    }
}

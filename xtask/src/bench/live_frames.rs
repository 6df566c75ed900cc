//! Packet generator in the kernel: XDP "live frames", several times faster than any socket.
//!
//! `BPF_PROG_TEST_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES` runs an XDP program on frames from a page
//! pool and treats each frame as the program says. The program here redirects each to one
//! interface; frames sent into one end of a veth pair are received by the other. Only the kernel's
//! side works in the calling thread's time, on its core, the receiver's softirq included.
//!
//! The receiving end takes such frames only when it polls its queue: while an XDP program is
//! attached to it (an `AF_XDP` socket's, or [`Sink`]) or with `ethtool -K IF gro on`.
//!
//! Frames that find the receiver's queue full are dropped and not counted here: compare
//! [`Counters`]. Frames are taken from the pool again without being reset, so the program writes
//! the first 64 bytes on every pass.
//!
//! Source: `net/bpf/test_run.c` and `include/uapi/linux/bpf.h` of Linux (5.18 and later). The
//! programs are a few instructions long, so they are written as instructions: no compiler, no
//! library.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail};
use linerate_linux::bpf::{self, Hook, Instruction};
use rustix::net::{AddressFamily, SocketType};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

/// Frames per system call. A call costs about 25 ms for setting up and tearing down, so it must be
/// many; a generator stops only between calls, so it must not be too many.
const REPEAT: u32 = 2_000_000;
/// Frames per turn of the kernel's loop, its maximum.
const BATCH: u32 = 256;
/// The kernel refuses shorter frames.
const ETHERNET_HEADER: usize = 14;
/// Bytes the program writes on every pass.
const REWRITTEN: usize = 64;
/// One page, less the part the kernel keeps in it.
const LONGEST: usize = 3072;

/// Sends one frame over and over into an interface, from its own thread, until dropped or stopped.
#[derive(Debug)]
pub(crate) struct Generator {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Generator {
    /// Starts sending `frame` (without its checksum) into `interface` of a namespace, or of ours,
    /// on `core`.
    pub(crate) fn start(
        namespace: Option<&str>,
        interface: &str,
        core: usize,
        frame: &[u8],
    ) -> Result<Self> {
        if !(ETHERNET_HEADER..=LONGEST).contains(&frame.len()) {
            bail!("a frame of {} bytes: expected {ETHERNET_HEADER} to {LONGEST}", frame.len());
        }
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let (ready, started) = mpsc::channel();
        let thread = {
            let (stop, sent) = (stop.clone(), sent.clone());
            let (namespace, interface) = (namespace.map(str::to_owned), interface.to_owned());
            let frame = frame.to_vec();
            thread::Builder::new().name("live-frames".to_owned()).spawn(move || {
                let program = prepare(namespace.as_deref(), &interface, core, &frame);
                let failed = program.is_err();
                let program = program.map_err(|error| ready.send(Err(error)));
                let (Ok(program), false) = (program, failed) else { return Ok(()) };
                // The starting thread waits for this message, so it is there to take it.
                let _ = ready.send(Ok(()));
                while !stop.load(Ordering::Relaxed) {
                    bpf::run_live_frames(program.as_fd(), &frame, REPEAT, BATCH)?;
                    sent.fetch_add(REPEAT.into(), Ordering::Relaxed);
                }
                Ok(())
            })?
        };
        started.recv().context("the generator's thread has ended")??;
        Ok(Generator { stop, sent, thread: Some(thread) })
    }

    /// Stops, and returns how many frames the program sent, received or not.
    pub(crate) fn stop(mut self) -> Result<u64> {
        self.finish()?;
        Ok(self.sent.load(Ordering::Relaxed))
    }

    fn finish(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result.context("live frames"),
            Some(Err(_)) => bail!("the generator's thread has panicked"),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            eprintln!("{error:#}");
        }
    }
}

/// Takes and drops every frame that arrives at an interface, at the earliest place the kernel has,
/// until dropped.
#[derive(Debug)]
pub(crate) struct Sink {
    _link: OwnedFd,
}

impl Sink {
    /// Attaches to an interface of a namespace, or of ours.
    pub(crate) fn attach(namespace: Option<&str>, interface: &str) -> Result<Self> {
        let link = in_namespace(namespace, || {
            let index = interface_index(interface)?;
            let program = bpf::load(&[instruction(MOV64_K, 0, 0, 0, XDP_DROP), exit()], false)
                .context("cannot load an XDP program")?;
            bpf::attach(program.as_fd(), index, Hook::Native)
                .with_context(|| format!("cannot attach an XDP program to {interface}"))
        })?;
        Ok(Sink { _link: link })
    }
}

/// An interface's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Packets it received.
    pub(crate) received: u64,
    /// Packets it sent.
    pub(crate) sent: u64,
}

impl Counters {
    /// Reads those of an interface of a namespace, or of ours.
    pub(crate) fn read(namespace: Option<&str>, interface: &str) -> Result<Self> {
        let text = in_namespace(namespace, || {
            // Not /proc/net, which is the network of the process's first thread.
            fs::read_to_string("/proc/thread-self/net/dev").context("cannot read net/dev")
        })?;
        counters_of(&text, interface).with_context(|| format!("no counters of {interface}"))
    }
}

/// Column 2 counts received packets, column 10 sent ones.
fn counters_of(text: &str, interface: &str) -> Option<Counters> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let column = |number: usize| line.split_whitespace().nth(number - 1)?.parse().ok();
    Some(Counters { received: column(2)?, sent: column(10)? })
}

fn prepare(namespace: Option<&str>, interface: &str, core: usize, frame: &[u8]) -> Result<OwnedFd> {
    if let Some(namespace) = namespace {
        enter(namespace)?;
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot run on core {core}"))?;
    let index = interface_index(interface)?;
    bpf::load(&redirect_program(frame, index), false).context("cannot load an XDP program")
}

fn enter(namespace: &str) -> Result<()> {
    let path = format!("/run/netns/{namespace}");
    let file = File::open(&path).with_context(|| format!("cannot open {path}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter the namespace {namespace}"))
}

/// Runs `work` in a namespace, which a thread of its own enters so that the caller's stays.
fn in_namespace<T: Send>(
    namespace: Option<&str>,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let Some(namespace) = namespace else { return work() };
    let result = thread::scope(|scope| {
        scope
            .spawn(|| {
                enter(namespace)?;
                work()
            })
            .join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn interface_index(interface: &str) -> Result<u32> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    rustix::net::netdevice::name_to_index(&socket, interface)
        .with_context(|| format!("no interface {interface}"))
}

// Instructions of the kernel's virtual machine: include/uapi/linux/bpf.h, bpf_common.h.
const LDX_MEM_W: u8 = 0x61;
const STX_MEM_B: u8 = 0x73;
const STX_MEM_DW: u8 = 0x7b;
const LD_IMM64: u8 = 0x18;
const MOV64_K: u8 = 0xb7;
const MOV64_X: u8 = 0xbf;
const ADD64_K: u8 = 0x07;
const JGT_X: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const REDIRECT: i32 = 23;
const XDP_ABORTED: i32 = 0;
const XDP_DROP: i32 = 1;

fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    // Two bit fields, of which the first is the lower half on little-endian machines only.
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    Instruction { code, registers, offset, immediate }
}

fn exit() -> Instruction {
    instruction(EXIT, 0, 0, 0, 0)
}

/// Writes the start of `frame` over the frame it is run on and redirects that to an interface.
fn redirect_program(frame: &[u8], index: u32) -> Vec<Instruction> {
    let written = frame.len().min(REWRITTEN);
    let mut program = vec![
        instruction(LDX_MEM_W, 2, 1, 0, 0), // r2 = start of the frame
        instruction(LDX_MEM_W, 3, 1, 4, 0), // r3 = its end
        instruction(MOV64_X, 4, 2, 0, 0),
        instruction(ADD64_K, 4, 0, 0, written as i32),
        instruction(JGT_X, 4, 3, 0, 0), // to the end of the program, filled in below
    ];
    let check = program.len() - 1;
    let mut at = 0;
    while at < written {
        let (code, bytes) = match frame[at..written].first_chunk::<8>() {
            Some(bytes) => (STX_MEM_DW, *bytes),
            None => (STX_MEM_B, [frame[at], 0, 0, 0, 0, 0, 0, 0]),
        };
        let value = match code {
            STX_MEM_DW => u64::from_ne_bytes(bytes),
            _ => bytes[0].into(),
        };
        program.push(instruction(LD_IMM64, 5, 0, 0, value as i32));
        program.push(instruction(0, 0, 0, 0, (value >> 32) as i32));
        program.push(instruction(code, 2, 5, at as i16, 0));
        at += if code == STX_MEM_DW { 8 } else { 1 };
    }
    program.extend([
        instruction(MOV64_K, 1, 0, 0, index as i32),
        instruction(MOV64_K, 2, 0, 0, 0),
        instruction(CALL, 0, 0, 0, REDIRECT),
        exit(),
    ]);
    program[check].offset = (program.len() - check - 1) as i16;
    program.extend([instruction(MOV64_K, 0, 0, 0, XDP_ABORTED), exit()]);
    program
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::veth::{FORWARDER, GENERATOR, Network};

    #[test]
    fn program_writes_all_bytes_and_jumps_to_its_end() {
        for length in [14, 15, 60, 64, 100] {
            let program = redirect_program(&vec![7; length], 3);
            let jump = program[4];
            assert_eq!(jump.code, JGT_X);
            let target = program[4 + 1 + jump.offset as usize];
            assert_eq!(target, instruction(MOV64_K, 0, 0, 0, XDP_ABORTED), "length {length}");
            let written: usize = program
                .iter()
                .map(|instruction| match instruction.code {
                    STX_MEM_DW => 8,
                    STX_MEM_B => 1,
                    _ => 0,
                })
                .sum();
            assert_eq!(written, length.min(REWRITTEN));
        }
    }

    #[test]
    fn counters_of_the_interface_with_this_exact_name() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo:     100       1    0    0    0     0          0         0      100       1    0
  eth01: 2000      20    0    0    0     0          0         0     3000      30    0
  eth0:1000      10    0    0    0     0          0         0     4000      40    0
";
        let expected = Counters { received: 10, sent: 40 };
        assert_eq!(counters_of(text, "eth0"), Some(expected));
        assert_eq!(counters_of(text, "eth"), None);
    }

    #[test]
    #[ignore = "needs root"]
    fn generated_frames_arrive_at_the_other_end() {
        let network = Network::new().expect("a network");
        let name = Some(network.namespace());
        let _sink = Sink::attach(name, FORWARDER[0]).expect("a sink");
        let before = Counters::read(name, FORWARDER[0]).expect("counters");
        let generator = Generator::start(name, GENERATOR, 0, &[0xff; 60]).expect("a generator");
        std::thread::sleep(Duration::from_millis(200));
        let sent = generator.stop().expect("its count");
        let after = Counters::read(name, FORWARDER[0]).expect("counters");
        let received = after.received - before.received;
        assert!(sent >= u64::from(REPEAT), "sent {sent}");
        assert!(received > 0 && received <= sent + 100, "{received} of {sent} arrived");
    }

    #[test]
    #[ignore = "needs root"]
    fn unknown_interface_is_named() {
        let error = Generator::start(None, "no-such-if", 0, &[0; 60]).expect_err("no interface");
        assert!(format!("{error:#}").contains("no-such-if"), "{error:#}");
    }
}

//! A configuration that is tried on sample packets: ports are replaced, time is simulated or real.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use linerate_graph::{
    BuildError, Console, DuplicateClass, HandlerError, Idle, Library, Options, Plan, Router, Usage,
    lang::{Diagnostics, Flat, FlatConnection, Landmark, PortRef, Span},
};
use linerate_memory::{ArenaOptions, MemoryError};
use linerate_port::pcap;
use tempfile::TempDir;

use crate::{
    FrameMaker,
    packet_trace::{self, PacketTrace, TraceStore},
    stand_in::{NO_LIMIT, Replaced, has_limit, name_devices, put_behind, replace_ports},
};

/// Least and most bytes of a buffer, and bytes for the headers that elements put around a packet.
const BUFFERS: [usize; 2] = [2112, 16384];
const ROOM: usize = 512;
/// Bytes of the shortest packet that a port delivers.
const ETHERNET: usize = 14;
/// Longest time of a run in simulated time.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Times that a port brings the samples in one at least, and packets: the beginning, while queues
/// fill and tables learn, is to be a small part of it.
const PASSES: u64 = 8;
const PACKETS: u64 = 1 << 17;

/// Options of a run on samples.
#[derive(Debug, Clone)]
pub struct SampleRun {
    /// Most packets in a frame.
    pub vector: usize,
    /// Packets that each source brings.
    pub packets: u64,
    /// Handlers written before the run, in place of learning.
    pub writes: Vec<(String, String)>,
}

impl Default for SampleRun {
    fn default() -> SampleRun {
        SampleRun { vector: 256, packets: 4096, writes: Vec::new() }
    }
}

/// The reason why a configuration could not be run on samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The configuration is wrong.
    #[error("{}", .0.click().trim_end())]
    Configuration(Diagnostics),
    /// The sample packets could not be kept in a file.
    #[error("the sample packets: {0}")]
    Sample(#[from] pcap::Error),
    /// The folder for them could not be made.
    #[error("a folder for the sample packets: {0}")]
    Folder(#[from] io::Error),
    /// There is no memory for packets.
    #[error("{0}")]
    Memory(#[from] MemoryError),
    /// The library has a class of the lab's own.
    #[error("{0}")]
    Library(#[from] DuplicateClass),
    /// A router could not be made.
    #[error("{0}")]
    Build(BuildError),
    /// The configuration could not be measured.
    #[error("{0}")]
    Measure(String),
    /// A handler could not be written.
    #[error("{handler}: {reason}")]
    Write {
        /// Its name.
        handler: String,
        /// The reason.
        reason: String,
    },
}

/// A configuration, and the samples that its ports bring.
#[derive(Debug)]
pub struct Trial {
    pub(super) library: Library,
    /// As it is where packets come from a file some times, and over and over.
    some: Flat,
    endless: Flat,
    /// The replaced elements of both.
    pub(super) parts: Vec<Option<Replaced>>,
    /// The configuration on samples that come some times, checked.
    pub(super) plan: Plan,
    samples: Samples,
    pub(super) run: SampleRun,
}

/// Result of a run in simulated time.
pub(super) struct SimulatedRun {
    pub(super) usage: Usage,
    /// Set when the run was cut off before its end.
    pub(super) is_cut: bool,
    /// The packets of each element's inputs, if the run recorded them.
    pub(super) traces: Vec<PacketTrace>,
}

/// The event that ends a run in simulated time before the time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopCondition {
    /// Never.
    Over,
    /// As soon as an element that makes packets has made all.
    First,
}

impl Trial {
    /// Takes a configuration, and the packets that all its ports bring.
    ///
    /// # Errors
    ///
    /// When it is wrong, or the samples cannot be kept.
    pub fn new(
        flat: Flat,
        library: &Library,
        sample: &mut FrameMaker,
        run: SampleRun,
    ) -> Result<Trial, SampleError> {
        let library = packet_trace::with_own(library)?;
        let samples = Samples::create(sample, &run)?;
        let checked = |flat: &Flat| {
            let plan = Plan::new(flat.clone(), String::new(), &library);
            plan.map_err(SampleError::Configuration)
        };
        let written = checked(&flat)?;
        let (mut some, mut endless) = (flat.clone(), flat);
        let parts = replace_ports(
            &mut some,
            &written,
            &samples.uri(&format!("?loop={}", samples.passes())),
        );
        replace_ports(&mut endless, &written, &samples.uri("?loop=0"));
        for flat in [&mut some, &mut endless] {
            name_devices(flat, &parts);
        }
        let plan = checked(&some)?;
        Ok(Trial { library, some, endless, parts, plan, samples, run })
    }

    /// Number of its elements without those that the lab adds.
    pub(super) fn count(&self) -> usize {
        self.plan.elements.len()
    }

    /// The element that number `at` replaces in the configuration as it was written, if it replaces
    /// one.
    pub(super) fn replaced(&self, at: usize) -> Option<&Replaced> {
        self.parts.get(at).and_then(Option::as_ref)
    }

    /// The elements in the order of the plan, with ports that bring the samples over and over.
    pub(super) fn flat(&self) -> &Flat {
        &self.endless
    }

    /// A number that other samples do not have.
    pub(super) fn fingerprint(&self) -> u64 {
        self.samples.fingerprint
    }

    /// Number of packets for each element that makes some in a run, so that there are as many of
    /// theirs as of ports.
    pub(super) fn most_made(&self) -> u64 {
        self.samples.passes() * self.run.packets
    }

    /// Number of packets that a source has to bring, if each element that makes some makes `limit`.
    pub(super) fn has(&self, source: usize, limit: u64) -> u64 {
        if self.replaced(source).is_some() {
            self.samples.passes() * self.samples.packets
        } else {
            limit
        }
    }

    /// Elements that bring packets.
    pub(super) fn sources(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count()).filter(move |at| {
            let element = &self.plan.elements[*at];
            element.inputs.is_empty() && !element.outputs.is_empty()
        })
    }

    /// Sources that make packets, to a limit that can be written.
    pub(super) fn makers(&self) -> impl Iterator<Item = usize> + '_ {
        self.sources().filter(|at| has_limit(&self.plan.elements[*at]))
    }

    /// Runs it for some simulated time, which stands still while there is something to do, or `until`
    /// something before. Elements that make packets make at most so many.
    pub(super) fn simulate(
        &self,
        time: Duration,
        limit: u64,
        until: StopCondition,
        record: bool,
    ) -> Result<SimulatedRun, SampleError> {
        let mut flat = self.some.clone();
        let stores = if record { self.add_recorders(&mut flat) } else { Vec::new() };
        if until == StopCondition::First {
            for element in self.makers() {
                let output = PortRef { element, port: 0 };
                put_behind(&mut flat, output, packet_trace::END_OF_RUN.name, &limit.to_string());
            }
        }
        let landmark = nowhere(&flat);
        flat.elements.push(packet_trace::run_timer(Some(time), landmark));
        let mut router = self.router(flat, self.run.vector, true)?;
        self.fill_tables(&mut router, false)?;
        self.limit_sources(&mut router, limit)?;
        // A source without end and without a limit would go on while time stands still.
        let (control, (running, over)) = (router.control(), mpsc::channel::<()>());
        let watch = thread::spawn(move || {
            let is_cut = over.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout);
            if is_cut {
                control.stop();
            }
            is_cut
        });
        router.run();
        drop(running);
        let is_cut = watch.join().unwrap_or(true);
        let usage = router.control().usage().1.swap_remove(0);
        router.close();
        Ok(SimulatedRun { usage, is_cut, traces: stores.iter().map(TraceStore::take).collect() })
    }

    /// A router that runs in real time until it is stopped, its packets without end.
    pub(super) fn endless(&self) -> Result<Router, SampleError> {
        let mut flat = self.endless.clone();
        let landmark = nowhere(&flat);
        flat.elements.push(packet_trace::run_timer(None, landmark));
        let mut router = self.router(flat, self.run.vector, false)?;
        self.fill_tables(&mut router, false)?;
        self.limit_sources(&mut router, NO_LIMIT)?;
        Ok(router)
    }

    /// Elements that make packets, for ever or to a limit of their own, make so many.
    fn limit_sources(&self, router: &mut Router, packets: u64) -> Result<(), SampleError> {
        for at in self.makers() {
            let name = &self.plan.elements[at].name;
            write(router, &format!("{name}.limit"), &packets.to_string())?;
        }
        Ok(())
    }

    /// Puts a recorder in front of each input. The traces, by element.
    fn add_recorders(&self, flat: &mut Flat) -> Vec<TraceStore> {
        let stores: Vec<TraceStore> =
            (0..self.count()).map(|_| TraceStore::with(PacketTrace::default())).collect();
        for (element, at) in self.plan.elements.iter().zip(0..) {
            for port in 0..element.inputs.len() {
                let (input, landmark) = (PortRef { element: at, port }, nowhere(flat));
                let recorder = PortRef { element: flat.elements.len(), port: 0 };
                let name = format!("lab@@{at}@@{port}");
                let declared = packet_trace::recorder(name, &stores[at], port, landmark.clone());
                flat.elements.push(declared);
                for connection in flat.connections.iter_mut().filter(|one| one.to == input) {
                    connection.to = recorder;
                }
                flat.connections.push(FlatConnection { from: recorder, to: input, landmark });
            }
        }
        stores
    }

    /// Writes the table entries of the run; of a part of the configuration, those of its elements.
    pub(super) fn fill_tables(&self, router: &mut Router, part: bool) -> Result<(), SampleError> {
        for (handler, value) in &self.run.writes {
            let element = handler.rsplit_once('.').map_or("", |(element, _)| element);
            if !part || router.plan().find(element).is_some() {
                write(router, handler, value)?;
            }
        }
        Ok(())
    }

    /// A router for a part of the configuration, or all of it; so many packets are in a frame at most.
    pub(super) fn router(
        &self,
        flat: Flat,
        frame_limit: usize,
        simulated: bool,
    ) -> Result<Router, SampleError> {
        let plan = Plan::new(flat, String::new(), &self.library);
        let plan = plan.map_err(SampleError::Configuration)?;
        let arena = ArenaOptions {
            size: (plan.packets_held() + 16 * 1024) * self.samples.buffer,
            buffer_size: self.samples.buffer,
            huge: false,
            ..ArenaOptions::default()
        };
        let options = Options {
            frame_limit,
            simulated,
            threads: 256,
            cycles: !simulated,
            idle: Idle::Poll,
            // The output of elements is not read here.
            console: Console::new(io::sink(), io::sink()),
            ..Options::default()
        };
        let ports = linerate_port::Context::new(arena.create()?);
        let made = Router::new(plan, &self.library, ports, &options);
        made.map_err(|error| match error {
            BuildError::Configuration(found) => SampleError::Configuration(found),
            other => SampleError::Build(other),
        })
    }
}

/// A place in no text, for elements that the lab adds.
pub(super) fn nowhere(flat: &Flat) -> Landmark {
    match flat.elements.first() {
        Some(first) => first.landmark.clone(),
        None => {
            let span = Span { file: flat.file, start: 0, end: 0 };
            Landmark { span, file: "lab".into(), line: 0 }
        }
    }
}

pub(super) fn write(router: &mut Router, handler: &str, value: &str) -> Result<(), SampleError> {
    let failed = |error: HandlerError| SampleError::Write {
        handler: handler.into(),
        reason: error.to_string(),
    };
    router.write(handler, value).map(drop).map_err(failed)
}

/// Sample packets in a file.
#[derive(Debug)]
struct Samples {
    path: PathBuf,
    buffer: usize,
    /// Number of packets that a port brings of them.
    packets: u64,
    fingerprint: u64,
    /// Removed with its files when dropped.
    _folder: TempDir,
}

impl Samples {
    fn create(sample: &mut FrameMaker, run: &SampleRun) -> Result<Samples, SampleError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("sample.pcap");
        let longest = sample.longest() + ROOM;
        let buffer = if longest <= BUFFERS[0] { BUFFERS[0] } else { BUFFERS[1] };
        let mut writer = pcap::Writer::create(&path, &pcap::Options::new(pcap::Format::Pcap))?;
        let mut frame = vec![0; sample.longest()];
        let (mut packets, mut hasher) = (0, DefaultHasher::new());
        for _ in 0..run.packets {
            let length = sample.next_len();
            sample.make(&mut frame[..length], 0);
            // No port would deliver others.
            if (ETHERNET..=buffer - ROOM).contains(&length) {
                frame[..length].hash(&mut hasher);
                writer.write(0, length as u32, &frame[..length])?;
                packets += 1;
            }
        }
        writer.finish()?;
        let fingerprint = hasher.finish();
        Ok(Samples { path, buffer, packets, fingerprint, _folder: folder })
    }

    /// Times that a port brings them.
    fn passes(&self) -> u64 {
        PASSES.max(PACKETS.div_ceil(self.packets.max(1)))
    }

    /// The port, as an argument.
    fn uri(&self, options: &str) -> String {
        format!("\"pcap:{}{options}\"", self.path.display())
    }
}

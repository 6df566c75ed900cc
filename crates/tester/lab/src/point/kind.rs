//! The kinds of points and their parameters.
//!
//! Cycles are ticks of the cycle counter ([`linerate_memory::clock`]); sizes of
//! frames count the FCS.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// A point of measurement: one experiment with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Point {
    /// Frames from a port to a port, with emulated work in between.
    Forward(Forward),
    /// Reception alone.
    Receive(Side),
    /// Transmission alone.
    Transmit(Side),
    /// A configuration in Click's language.
    Graph(Graph),
    /// One class of element.
    Element(Element),
    /// A receiver, and workers it hands packets to.
    Pipeline(Pipeline),
    /// Equal work run to completion, and handed over to threads or to processes.
    Cluster(Cluster),
    /// A walk along a linked list in memory.
    Walk(Walk),
    /// Accuracy of a busy loop: cycles measured against cycles requested.
    Load(Load),
    /// Forwarding by a worker that polls at a limited rate.
    PollRate(PollRate),
    /// Latency at a share of the highest throughput.
    Latency(Latency),
    /// Inspection of frames between two interfaces.
    Inline(Inline),
    /// An application at one batch size.
    BatchCase(BatchCase),
}

impl Point {
    /// Returns its name in a spec.
    pub fn name(&self) -> &'static str {
        match self {
            Point::Forward(_) => "forward",
            Point::Receive(_) => "receive",
            Point::Transmit(_) => "transmit",
            Point::Graph(_) => "graph",
            Point::Element(_) => "element",
            Point::Pipeline(_) => "pipeline",
            Point::Cluster(_) => "cluster",
            Point::Walk(_) => "walk",
            Point::Load(_) => "load",
            Point::PollRate(_) => "poll-rate",
            Point::Latency(_) => "latency",
            Point::Inline(_) => "inline",
            Point::BatchCase(_) => "batch-case",
        }
    }
}

/// A driver of ports.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// No device: buffers are allocated and freed.
    Null,
    /// A ring in memory around which frames circulate.
    #[default]
    Ring,
    /// `AF_PACKET` over a veth pair.
    Packet,
    /// `AF_XDP` over a veth pair.
    Xdp,
}

impl Driver {
    /// Its name in a spec and in port names.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Null => "null",
            Driver::Ring => "ring",
            Driver::Packet => "packet",
            Driver::Xdp => "xdp",
        }
    }

    /// Returns true if it needs interfaces, and so the privilege to make them.
    pub fn needs_interfaces(self) -> bool {
        matches!(self, Driver::Packet | Driver::Xdp)
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Page size of memory.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// 4 KiB.
    #[default]
    Small,
    /// Transparent huge pages, as far as the kernel forms them.
    Transparent,
    /// 2 MiB, reserved at boot or by sysctl.
    Huge,
}

/// Access to a packet's bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Touch {
    /// None.
    #[default]
    None,
    /// Both Ethernet addresses are written.
    Mac,
    /// Every cache line is read.
    Read,
    /// All bytes are copied to another buffer.
    Copy,
    /// The Internet checksum of all bytes is computed.
    Checksum,
}

/// Parameters of [`Point::Forward`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forward {
    /// The ports' driver.
    pub driver: Driver,
    /// Most packets at once, 1 to 2048.
    pub burst: u32,
    /// Bytes of a frame.
    pub frame: u32,
    /// Cycles burnt per packet.
    pub work: u32,
    /// Cycles burnt per burst.
    pub burst_work: u32,
    /// Dependent accesses per packet to a working set.
    pub accesses: u32,
    /// Bytes of the working set.
    pub working_set: u64,
    /// Pages of the working set.
    pub pages: Pages,
    /// Access to a packet's bytes.
    pub touch: Touch,
    /// Forward in both directions.
    pub bidirectional: bool,
    /// Workers, each with ports of its own.
    pub workers: u32,
    /// Slots of a ring; ignored by other drivers.
    pub slots: u32,
    /// Clock to run the core at; 0 leaves it alone.
    pub clock_khz: u32,
}

impl Default for Forward {
    fn default() -> Forward {
        Forward {
            driver: Driver::default(),
            burst: 32,
            frame: 64,
            work: 0,
            burst_work: 0,
            accesses: 0,
            working_set: 0,
            pages: Pages::default(),
            touch: Touch::default(),
            bidirectional: false,
            workers: 1,
            slots: 1024,
            clock_khz: 0,
        }
    }
}

/// Parameters of [`Point::Receive`] and [`Point::Transmit`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Side {
    /// The port's driver.
    pub driver: Driver,
    /// Most packets at once, 1 to 2048.
    pub burst: u32,
    /// Bytes of a frame.
    pub frame: u32,
}

impl Default for Side {
    fn default() -> Side {
        Side { driver: Driver::default(), burst: 32, frame: 64 }
    }
}

/// Order in which a source goes through destination addresses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Destinations {
    /// One address only.
    #[default]
    Static,
    /// One after the other.
    RoundRobin,
    /// Each as likely as any.
    Uniform,
}

/// Parameters of [`Point::Graph`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Graph {
    /// The configuration. `$FRAMES` in it is a port that receives the traffic
    /// over and over, `$NAME` a variable.
    pub configuration: String,
    /// Its variables.
    pub variables: BTreeMap<String, String>,
    /// Name of the element at which packets are counted.
    pub at: String,
    /// Most packets in a frame, 1 to 2048.
    pub vector: u32,
    /// Bytes of a frame.
    pub frame: u32,
    /// Order of destination addresses.
    pub destinations: Destinations,
    /// Destination addresses, from 198.19.0.0 on, unless the order is static.
    pub addresses: u32,
}

impl Default for Graph {
    fn default() -> Graph {
        Graph {
            configuration: String::new(),
            variables: BTreeMap::new(),
            at: "end".into(),
            vector: 256,
            frame: 64,
            destinations: Destinations::default(),
            addresses: 4096,
        }
    }
}

/// Parameters of [`Point::Element`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// The class; where it is measured in several cases, `CLASS:CASE`.
    pub class: String,
    /// Most packets in a frame, 1 to 2048.
    #[serde(default = "vector")]
    pub vector: u32,
    /// Arguments in place of those of the class's small configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arguments>,
}

/// Arguments of an element.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// Its configuration, as between the parentheses.
    pub config: String,
    /// Number of outputs with these arguments.
    pub outputs: u32,
}

const fn vector() -> u32 {
    32
}

/// Cores of the two sides of a hand-over.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On one core, taking turns.
    SameCore,
    /// On two hardware threads of one core.
    Sibling,
    /// On two cores of a NUMA node.
    #[default]
    OtherCore,
    /// On two NUMA nodes.
    OtherNode,
}

/// Parameters of [`Point::Pipeline`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pipeline {
    /// Workers behind the receiver.
    pub workers: u32,
    /// Cores of the workers, seen from the receiver.
    pub placement: Placement,
    /// Most packets at once, 1 to 2048.
    pub burst: u32,
    /// Bytes of a frame.
    pub frame: u32,
    /// Cycles a worker burns per packet.
    pub work: u32,
    /// The worker's access to a packet's bytes.
    pub touch: Touch,
    /// Slots of the ring between receiver and worker.
    pub slots: u32,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline {
            workers: 1,
            placement: Placement::default(),
            burst: 32,
            frame: 64,
            work: 0,
            touch: Touch::default(),
            slots: 1024,
        }
    }
}

/// Division of the work on a packet among cores.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// Each core runs packets to completion.
    #[default]
    Completion,
    /// One core receives and hands over to threads on the others.
    Threads,
    /// One core receives and hands over to processes on the others.
    Processes,
}

/// Parameters of [`Point::Cluster`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// Division of the work among cores.
    pub way: Division,
    /// Cores in all, the receiver's included.
    pub cores: u32,
    /// Most packets at once, 1 to 2048.
    pub burst: u32,
    /// Bytes of a frame.
    pub frame: u32,
    /// Cycles burnt per packet.
    pub work: u32,
    /// Access to a packet's bytes.
    pub touch: Touch,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            way: Division::default(),
            cores: 2,
            burst: 32,
            frame: 64,
            work: 0,
            touch: Touch::default(),
        }
    }
}

/// Parameters of [`Point::Walk`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Bytes of the working set.
    pub bytes: u64,
    /// Its pages.
    #[serde(default)]
    pub pages: Pages,
    /// Independent chains walked at once.
    #[serde(default = "one")]
    pub chains: u32,
}

const fn one() -> u32 {
    1
}

/// Parameters of [`Point::Load`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Cycles to burn.
    pub cycles: u32,
}

/// Parameters of [`Point::PollRate`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PollRate {
    /// The ports' driver.
    pub driver: Driver,
    /// Most packets at once, 1 to 2048.
    pub burst: u32,
    /// Bytes of a frame.
    pub frame: u32,
    /// Polls per second; 0 does not limit them.
    pub polls_per_s: u32,
}

impl Default for PollRate {
    fn default() -> PollRate {
        PollRate { driver: Driver::default(), burst: 32, frame: 64, polls_per_s: 0 }
    }
}

/// The worker's behaviour without packets.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// Polls again at once.
    #[default]
    Poll,
    /// Polls for a while, then sleeps.
    Adaptive,
    /// Sleeps.
    Block,
}

/// Parameters of [`Point::Latency`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latency {
    /// Offered load in percent of the highest throughput.
    pub load_percent: u32,
    /// The worker's behaviour without packets.
    pub idle: Idle,
    /// Most packets at once, 1 to 2048.
    pub burst: u32,
    /// Cycles burnt per packet.
    pub work: u32,
    /// Cycles burnt per burst.
    pub burst_work: u32,
    /// Slots of the ring in front of the worker.
    pub slots: u32,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            load_percent: 50,
            idle: Idle::default(),
            burst: 32,
            work: 2000,
            burst_work: 1000,
            slots: 1024,
        }
    }
}

/// The path of packets to and from an inspecting application.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum InlinePath {
    /// One at a time through the kernel's sockets.
    #[default]
    Kernel,
    /// In bursts through `AF_XDP`.
    Ours,
    /// In bursts through a ring in memory: the cost without any kernel.
    Memory,
}

/// Parameters of [`Point::Inline`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Inline {
    /// The path of packets.
    pub path: InlinePath,
    /// Bytes of a frame.
    pub frame: u32,
    /// Offered load on the wire, in Mbit/s.
    pub offered_mbit_s: u32,
}

impl Default for Inline {
    fn default() -> Inline {
        Inline { path: InlinePath::default(), frame: 64, offered_mbit_s: 1000 }
    }
}

/// The application of a [`BatchCase`].
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// A learning Ethernet switch.
    #[default]
    Switch,
    /// Packets from port to port through a graph that counts and classifies.
    Click,
}

/// Parameters of [`Point::BatchCase`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchCase {
    /// The application.
    pub case: Case,
    /// The ports' driver.
    pub driver: Driver,
    /// Most packets at once, 1 to 2048.
    pub batch: u32,
    /// Bytes of a frame.
    pub frame: u32,
}

impl Default for BatchCase {
    fn default() -> BatchCase {
        BatchCase { case: Case::default(), driver: Driver::default(), batch: 32, frame: 64 }
    }
}

//! Options: the settings of a router.

use linerate_memory::FRAME_DEFAULT;
use linerate_worker::Idle;

use crate::{console::Console, engine::ConfigReader, runtime::clock::SIMULATED_START};

/// Options of a run of a graph.
#[derive(Debug, Clone)]
pub struct Options {
    /// Workers.
    pub workers: usize,
    /// Workers the configuration may name; at least those there are. In
    /// simulated time one worker does the work of all.
    pub threads: usize,
    /// Most packets in a frame.
    pub frame_limit: usize,
    /// Behaviour of a worker when there is nothing to do.
    pub idle: Idle,
    /// Whether time is simulated.
    pub simulated: bool,
    /// When simulated time begins, in nanoseconds since the epoch.
    pub simulated_start: u64,
    /// Buffers each worker keeps at hand.
    pub cache: usize,
    /// Cores to run on, by worker; a worker without one is not bound.
    pub cores: Vec<u32>,
    /// Whether cycles are measured per element. Frames and packets are counted in any case.
    pub cycles: bool,
    /// Whether the cache of packet headers of a frame
    /// ([`HeaderCache`](linerate_memory::HeaderCache)) passes from element to element. Without,
    /// each element finds the headers itself.
    pub surveys: bool,
    /// Destination of elements' text for people.
    pub console: Console,
    /// Answer of the `version` handler.
    pub version: String,
    /// Reads the configurations written to the `hotconfig` handler, which there
    /// is not without.
    pub reader: Option<ConfigReader>,
    /// Whether connections that may write have [`Right::Replace`](crate::Right::Replace) even
    /// without a `reader`.
    pub grants_replace: bool,
    /// Whether every control connection has every right, as in Click.
    pub insecure_control: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: 1,
            threads: 1,
            frame_limit: FRAME_DEFAULT,
            idle: Idle::default(),
            simulated: false,
            simulated_start: SIMULATED_START,
            cache: 1024,
            cores: Vec::new(),
            cycles: true,
            surveys: true,
            console: Console::default(),
            version: env!("CARGO_PKG_VERSION").into(),
            reader: None,
            grants_replace: false,
            insecure_control: false,
        }
    }
}

//! How an agent is set.

use std::path::PathBuf;
use std::time::Duration;

use super::{Limits, Target, Trust};
use crate::wire::Version;

/// What a switch does that has no controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailMode {
    /// What its flows say.
    #[default]
    Secure,
    /// It forwards like any switch: when there has been no controller for three times the probe
    /// interval, no flow is asked until there is one again.
    Standalone,
}

/// A private key and certificates for TLS, as files in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The private key.
    pub key: PathBuf,
    /// The certificate of this switch, and perhaps those between it and its authority.
    pub certificate: PathBuf,
    /// CA certificates for controllers.
    pub authorities: PathBuf,
}

/// How many packets controllers get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRate {
    /// So many a second.
    pub per_second: u32,
    /// So many at once after a pause.
    pub burst: u32,
}

/// How an agent is set. `default()` has no controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentOptions {
    /// Where controllers are, or come to.
    pub targets: Vec<Target>,
    /// The versions that may be spoken.
    pub versions: Vec<Version>,
    /// What TLS needs.
    pub credentials: Option<Credentials>,
    /// A controller that says nothing for so long is asked whether it is there, and given up after as
    /// long again. Zero never asks.
    pub probe_interval: Duration,
    /// How long to wait before connecting again: at first, and doubled with each failure up to this.
    /// A random part of up to a quarter is taken off, so that many switches do not come at once.
    pub backoff: (Duration, Duration),
    /// What is done without a controller.
    pub fail_mode: FailMode,
    /// At most so many packets for controllers; `None` is as many as come.
    pub packet_rate: Option<PacketRate>,
    /// How many bytes of messages nobody asked for may wait for a controller that does not read.
    pub send_limit: usize,
    /// A bundle nothing is said of for so long is discarded, and the controller told. Zero never discards.
    pub bundle_idle: Duration,
    /// Limits of each listener's connections.
    pub limits: Limits,
    /// Which peers without TLS may control the switch.
    pub trust: Trust,
    /// A file the switch's flows, groups, meters and settings are read from at first, and kept in.
    pub state: Option<PathBuf>,
    /// What is added to the kernel's monotonic clock for the time workers go by, in nanoseconds.
    pub clock_offset: u64,
}

impl Default for AgentOptions {
    fn default() -> AgentOptions {
        AgentOptions {
            targets: Vec::new(),
            versions: Version::ALL.to_vec(),
            credentials: None,
            probe_interval: Duration::from_secs(5),
            backoff: (Duration::from_secs(1), Duration::from_secs(8)),
            fail_mode: FailMode::Secure,
            packet_rate: None,
            send_limit: 1 << 20,
            bundle_idle: Duration::from_secs(10),
            limits: Limits::default(),
            trust: Trust::default(),
            state: None,
            clock_offset: 0,
        }
    }
}

//! Options of an agent.

use std::path::PathBuf;
use std::time::Duration;

use super::{Limits, Target, Trust};
use crate::wire::Version;

/// Forwarding of a switch without a controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailMode {
    /// By its flows.
    #[default]
    Secure,
    /// It forwards by `NORMAL`: after three times the probe interval without a controller, tables
    /// are not looked up until there is one again.
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

/// Rate limit of packet-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRate {
    /// Packets per second.
    pub per_second: u32,
    /// Packets at once after a pause.
    pub burst: u32,
}

/// Options of an agent. `default()` has no controllers.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentOptions {
    /// Active and passive connections to controllers.
    pub targets: Vec<Target>,
    /// The versions that may be spoken.
    pub versions: Vec<Version>,
    /// Credentials for TLS.
    pub credentials: Option<Credentials>,
    /// Time of silence after which a controller is sent an echo request, and is given up after as
    /// long again. Zero never asks.
    pub probe_interval: Duration,
    /// Time to wait before connecting again: at first, and doubled with each failure up to the
    /// second. A random part of up to a quarter is taken off, so that many switches do not connect
    /// at once.
    pub backoff: (Duration, Duration),
    /// Forwarding without a controller.
    pub fail_mode: FailMode,
    /// Rate limit of packets for controllers; `None` is no limit.
    pub packet_rate: Option<PacketRate>,
    /// Bytes of unsolicited messages that may wait for a controller that does not read.
    pub send_limit: usize,
    /// Time without messages after which a bundle is discarded, with an error to the controller.
    /// Zero never discards.
    pub bundle_idle: Duration,
    /// Limits of each listener's connections.
    pub limits: Limits,
    /// Peers without TLS that may control the switch.
    pub trust: Trust,
    /// A file the switch's flows, groups, meters and settings are read from at first, and kept in.
    pub state: Option<PathBuf>,
    /// Offset of the workers' time from the kernel's monotonic clock, in nanoseconds.
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

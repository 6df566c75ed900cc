//! Options of the export.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Options of the export to collectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Flow records.
    pub ipfix: Option<IpfixOptions>,
    /// Samples of packets, and counters of ports.
    pub sflow: Option<SflowOptions>,
    /// Offset of the clock of packets' times from `CLOCK_MONOTONIC`, in nanoseconds, with wrapping.
    pub clock_offset: u64,
}

/// Flow records by IPFIX over UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpfixOptions {
    /// Collectors of records of all packets.
    pub collectors: Vec<SocketAddr>,
    /// Collectors of packets that flows sample, by the number of a set.
    pub sets: Vec<(u32, Vec<SocketAddr>)>,
    /// The observation domain of records of all packets.
    pub domain: u32,
    /// Sampling: one packet of so many is looked at; 1 is all.
    pub sampling: u32,
    /// Time without packets after which a flow ends.
    pub idle: Duration,
    /// Time after which an active flow is exported.
    pub active: Duration,
    /// Interval of templates.
    pub refresh: Duration,
    /// Flows that are known at once, for each worker. Each takes about 190 bytes.
    pub capacity: usize,
    /// Bytes of a message, which should fit in a packet on the way.
    pub message: usize,
}

impl Default for IpfixOptions {
    fn default() -> IpfixOptions {
        IpfixOptions {
            collectors: Vec::new(),
            sets: Vec::new(),
            domain: 0,
            sampling: 1,
            idle: Duration::from_secs(15),
            active: Duration::from_secs(60),
            refresh: Duration::from_secs(60),
            capacity: 16_384,
            message: 1400,
        }
    }
}

/// Samples by sFlow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SflowOptions {
    /// Addresses of the collectors.
    pub collectors: Vec<SocketAddr>,
    /// Address of the agent in datagrams.
    pub agent: IpAddr,
    /// Sampling: one packet of so many is picked, by chance.
    pub rate: u32,
    /// Interval of counters; zero is never.
    pub polling: Duration,
    /// Bytes of a datagram, which should fit in a packet on the way.
    pub datagram: usize,
}

impl Default for SflowOptions {
    fn default() -> SflowOptions {
        SflowOptions {
            collectors: Vec::new(),
            agent: IpAddr::V4(Ipv4Addr::LOCALHOST),
            rate: 400,
            polling: Duration::from_secs(30),
            datagram: 1400,
        }
    }
}

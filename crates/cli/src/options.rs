//! Options that commands have in common, and all those of a running configuration: by `linerate
//! run`, or as a program of its own.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use linerate_graph::lang::Globals;
use linerate_port::{Devices, PortUri, parse_device};
use linerate_worker::Idle;

use crate::{
    configuration::{Source, variable},
    control_address::{ControlAddress, parse_mode},
    exit::UsageError,
    units::{parse_duration, parse_interval, parse_size, whole},
};

/// Where a configuration is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Configuration {
    /// The file, - for standard input, and variables: NAME=VALUE
    #[arg(value_name = "FILE | NAME=VALUE")]
    pub(crate) words: Vec<String>,

    /// The configuration itself, instead of a file
    #[arg(long, short = 'e', value_name = "CONFIGURATION")]
    pub(crate) expression: Option<String>,

    #[command(flatten)]
    pub(crate) named: NamedDevices,
}

/// Ports of devices that have names of the configuration's own.
#[derive(Debug, Clone, Args)]
pub(crate) struct NamedDevices {
    /// The port a device of the configuration stands for, as in 0=xdp:eth0; may be repeated
    #[arg(long, value_name = "NAME=PORT", value_parser = parse_device)]
    pub(crate) device: Vec<(String, PortUri)>,
}

impl Configuration {
    /// The ports its devices stand for.
    pub(crate) fn devices(&self) -> Devices {
        self.named.device.iter().cloned().collect()
    }

    /// The text's place and the values of its variables.
    pub(crate) fn source(&self) -> Result<(Source, Globals)> {
        let mut globals = Globals::default();
        let mut files = Vec::new();
        for word in &self.words {
            match variable(word) {
                Some(variable) => globals.variables.push(variable),
                None => files.push(word),
            }
        }
        let source = match (&self.expression, files.as_slice()) {
            (Some(text), []) => Source::Expression(text.clone()),
            (None, [file]) => Source::file(file),
            (None, []) => {
                let advice = "no configuration: name a FILE, - for standard input, or use -e";
                return Err(UsageError(advice.into()).into());
            }
            _ => return Err(UsageError("more than one configuration".into()).into()),
        };
        Ok((source, globals))
    }
}

/// Options of a configuration that runs, wherever its text is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Operation {
    #[command(flatten)]
    pub(crate) running: GraphRunning,

    /// Run in simulated time: the same on every run, and as fast as can be
    #[arg(long, help_heading = "Running")]
    pub(crate) simtime: bool,

    #[command(flatten)]
    pub(crate) controlled: Controlled,

    #[command(flatten)]
    pub(crate) readiness: Readiness,

    /// Let control connections that may write also replace the configuration (the `hotconfig`
    /// handler), run scripts, and call handlers that open files or ports
    #[arg(long, short = 'R', help_heading = "Running")]
    pub(crate) allow_reconfigure: bool,
}

/// How a graph runs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct GraphRunning {
    /// Stop after this time [default: run until the configuration ends or Ctrl-C]
    #[arg(long, short = 't', value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,

    /// Workers [default: one for each of --cores, else one]
    #[arg(long, short = 'j', value_name = "WORKERS",
          value_parser = whole(1u16..=256))]
    pub(crate) workers: Option<u16>,

    /// Cores to run workers on, as in 1 or 0,2-5 [default: the system chooses]
    #[arg(long, short = 'c', value_name = "CORES")]
    pub(crate) cores: Option<String>,

    /// Most packets in a frame
    #[arg(long, short = 'b', value_name = "PACKETS", default_value_t = 256,
          value_parser = whole(1u16..=2048))]
    pub(crate) vector: u16,
    /// Have every element find for itself where packets and their headers are, instead of knowing
    /// it from those in front of it: to see what that is worth.
    #[arg(long)]
    pub(crate) no_surveys: bool,

    /// Idle strategy: poll, adaptive (poll, then sleep) or block
    #[arg(long, short = 'i', value_name = "STRATEGY", default_value_t = Idle::Adaptive)]
    pub(crate) idle: Idle,

    #[command(flatten)]
    pub(crate) host: Host,

    #[command(flatten)]
    pub(crate) showing: Showing,

    #[command(flatten)]
    pub(crate) memory: Memory,
}

/// Receivers of the word that a command is ready, besides people and service managers.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct Readiness {
    /// Write a line to this open file descriptor when packets would be handled
    #[arg(long, value_name = "NUMBER", value_parser = whole(0u32..=i32::MAX as u32))]
    pub(crate) ready_fd: Option<u32>,
}

/// Where a command that runs is controlled.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct Controlled {
    /// Listen for control connections: at a UNIX socket that `linerate call NAME` finds [default
    /// NAME: the configuration's], at the PATH of one (./router.sock), or at a TCP port, of this host
    /// (7777) or an address (192.0.2.1:7777). At a UNIX socket this account and root can read and
    /// write handlers; at a port every client can read, and write with the token. May be repeated
    #[arg(long, value_name = "NAME|PATH|[ADDRESS:]PORT", num_args = 0..=1, default_missing_value = "")]
    pub(crate) control: Vec<ControlAddress>,

    /// File with the token that gives clients the right to write [default: the token in the variable
    /// `LINERATE_CONTROL_TOKEN`, else one made for each TCP port, which `linerate call PORT` of this
    /// account finds]; the connection is not encrypted
    #[arg(long, value_name = "FILE", requires = "control")]
    pub(crate) token_file: Option<String>,

    /// Permissions of UNIX sockets: 0660 lets the group connect and read handlers, 0666 every account
    /// [default: 0600]
    #[arg(long, value_name = "MODE", requires = "control", value_parser = parse_mode)]
    pub(crate) control_mode: Option<u32>,
}

/// Permission to disturb the host's own traffic.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct Host {
    /// Take packets away from the host although its addresses or its default route are on the
    /// interface: its connections there, SSH too, stand still meanwhile
    #[arg(long)]
    pub(crate) disconnect: bool,
}

/// Output of a run.
#[derive(Debug, Clone, Args)]
pub(crate) struct Showing {
    /// Time between two updates of the table
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub(crate) interval: Duration,

    /// Print no table, only the summary
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,

    /// Say under the table what its columns mean
    #[arg(long)]
    pub(crate) explain: bool,

    /// Print JSON on standard output, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of the packet memory.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Packet memory")]
pub(crate) struct Memory {
    /// Memory for packets (4M, 1G) [default: 16M, for `run` with room for full
    /// queues up to 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) arena: Option<usize>,

    /// Bytes of one packet buffer, headroom included [default: 2112, and the most there is for
    /// `capture -r`]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) buffer_size: Option<usize>,

    /// Do not try for 2 MiB pages
    #[arg(long)]
    pub(crate) no_huge: bool,

    /// Take the memory from this NUMA node [default: the kernel's choice]
    #[arg(long, value_name = "NODE", value_parser = whole(0u32..=1023))]
    pub(crate) numa_node: Option<u32>,
}

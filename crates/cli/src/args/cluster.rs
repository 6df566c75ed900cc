//! Arguments of `linerate cluster`.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use crate::{
    options::{Configuration, Operation, Showing},
    units::{parse_count, parse_duration, parse_interval, parse_size, whole},
};

/// Share packets with other processes, without a copy
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate cluster serve -e 'FromPort(xdp:eth1) -> ConsumerFanOut(ids0 ids1, recorder)' \\
      --socket /run/cluster.sock
      an intrusion detector in two processes, flows balanced between them, and a recorder
  linerate cluster attach /run/cluster.sock recorder --write trace.pcapng
  linerate cluster status /run/cluster.sock
  linerate cluster weights /run/cluster.sock lb 1 1 2

Programs attach by the client library, or by `attach`, under the names that the configuration has
in its elements ToConsumer, ConsumerBalancer, ConsumerFanOut and FromConsumer (`linerate elements
ToConsumer`). One that dies loses its place and nothing else.")]
pub(crate) struct Cluster {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Serve(Box<Serve>),
    Status(Status),
    Top(Top),
    Attach(Attach),
    Balance(Balance),
    Weights(Weights),
    Detach(Detach),
}

/// Run a configuration that programs attach to
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate cluster serve -e 'FromPort(xdp:eth1) -> ConsumerBalancer(w0, w1, w2, w3)' \\
      --socket /run/cluster.sock
      eight programs can be as many as cores; each gets whole flows, in both directions
  linerate cluster serve cluster.click DEV=eth1 --socket @cluster
      a file, and a socket without one
  linerate cluster serve cluster.click --precompute
      what memory it will take, and what for; nothing is opened

It is `linerate run` with a ClusterSocket at --socket: the same table, options and control sockets.
Packet memory has room for what queues and programs may hold. When it ends, programs are told, and
nothing is left: the socket's file is removed, memory goes with the last process that has it.")]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) configuration: Configuration,

    /// Where programs attach: a UNIX socket's file, or @NAME for one without a file [default: where
    /// the configuration says]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) socket: Option<String>,

    /// Say what packet memory it will need, and open nothing
    #[arg(long)]
    pub(crate) precompute: bool,

    /// Replace the configuration, without losing packets, whenever its file changes
    #[arg(long, help_heading = "Running")]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) operation: Operation,
}

/// Show the programs of a cluster, and what each got and lost
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate cluster status /run/cluster.sock
  linerate cluster status /run/cluster.sock --json | jq 'select(.consumer).lost_slow'")]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) asked: Asked,
}

/// Clusters to show, and the form of their figures.
#[derive(Debug, Args)]
pub(crate) struct Asked {
    /// The cluster's socket
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,

    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the programs of a cluster again and again, with rates
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate cluster top /run/cluster.sock
  linerate cluster top /run/cluster.sock --interval 200ms --duration 10s")]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) asked: Asked,

    /// Time between two tables
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub(crate) interval: Duration,

    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, short = 't', value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
}

/// Attach to a cluster: count packets, record them, or send them back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate cluster attach /run/cluster.sock ids0
      count them
  linerate cluster attach /run/cluster.sock recorder --write trace.pcapng
  linerate cluster attach /run/cluster.sock recorder --write trace.pcapng --rotate-size 100M --keep 10
      the last gigabyte; what is lost meanwhile is in each file's statistics
  linerate cluster attach /run/cluster.sock wire --send
      all go back to where the server's configuration has them by FromConsumer(wire); where an
      InlineConsumer(wire) asks what is to become of packets, all pass

When the server ends so does this, with exit code 7; --again attaches to the next one.")]
pub(crate) struct Attach {
    /// The cluster's socket
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,

    /// The name to attach as
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Write packets to this file, pcapng when its name ends so, else pcap
    #[arg(long, short = 'w', value_name = "FILE", conflicts_with = "again")]
    pub(crate) write: Option<PathBuf>,

    /// Begin a new file when one has this size; a number and the time are in the names of all
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "write")]
    pub(crate) rotate_size: Option<usize>,

    /// Begin a new file after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "write")]
    pub(crate) rotate_time: Option<Duration>,

    /// Keep only the last files
    #[arg(long, value_name = "FILES", requires = "write")]
    pub(crate) keep: Option<NonZeroUsize>,

    /// Send packets back, as they are
    #[arg(long)]
    pub(crate) send: bool,

    /// When the server has ended, attach to the next
    #[arg(long)]
    pub(crate) again: bool,

    /// Stop after this many packets (10k, 5M)
    #[arg(long, short = 'n', value_name = "PACKETS", value_parser = parse_count)]
    pub(crate) count: Option<u64>,

    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, short = 't', value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,

    #[command(flatten)]
    pub(crate) showing: Showing,
}

/// Show how flows are balanced
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  linerate cluster balance /run/cluster.sock
      each balancer's programs, their weights, and the buckets of flows, of 1024, they have now")]
pub(crate) struct Balance {
    #[command(flatten)]
    pub(crate) asked: Asked,
}

/// Change the weights of a balancer; as few flows move as can be
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate cluster weights /run/cluster.sock lb 1 1 2
  linerate cluster weights /run/cluster.sock lb 1 0 1
      the second gets no flows any more")]
pub(crate) struct Weights {
    /// The cluster's socket
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,

    /// The balancer, as `linerate cluster balance` calls it: its element's name
    #[arg(value_name = "BALANCER")]
    pub(crate) balancer: String,

    /// A weight for each of its programs
    #[arg(value_name = "WEIGHT", required = true, value_parser = whole(0u32..=u32::MAX))]
    pub(crate) weights: Vec<u32>,
}

/// Have a program go: it gets nothing more and is told so
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  linerate cluster detach /run/cluster.sock ids0
      its flows go to the others of its balancer; another can attach by that name")]
pub(crate) struct Detach {
    /// The cluster's socket
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,

    /// The name it has attached as
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

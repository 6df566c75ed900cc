//! Arguments of the commands about configurations.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::{
    options::{Configuration, Operation},
    units::{parse_duration, whole},
};

/// Run a configuration in Click's language and show where the cycles go
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate run -e 'InfiniteSource -> Counter -> Discard' --duration 3s
      needs no network and no privileges
  linerate run router.click DEV=eth1
      with the variable $DEV set
  linerate run router.click --workers 2 --cores 1,2 --idle poll
  linerate run dpdk.click --device 0=xdp:eth0 --device 1=packet:eth1
      what was written for DPDK ports 0 and 1
  linerate run router.click --json | jq .workers
      one object per interval
  linerate run router.click --control
  linerate call router list
      ask and tell it what its handlers are for, while it runs

The table is on standard error; standard output is the configuration's.

Control sockets without a path are in the runtime directory: /run/linerate for root, else
$XDG_RUNTIME_DIR/linerate, else /tmp/linerate-UID. One is called as the file, without .click, with
the number of the process behind it where another instance is called so.

When ports are open and workers run, a line says that it is ready. Scripts wait for that by
`linerate call ADDRESS --ready`, by --ready-fd, or for the event \"ready\" of --json; a service
manager is told (Type=notify or notify-reload, WatchdogSec=), and its SIGHUP reads the file again.")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) configuration: Configuration,

    /// Replace the configuration, without losing packets, whenever its file changes
    #[arg(long, help_heading = "Running")]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) operation: Operation,
}

/// Check a configuration, or show the graph it makes
///
/// Its elements are made, and its devices opened, as in a run; the files it would write stay as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate check router.click
      what is wrong with it, else its elements and connections
  linerate check router.click --format svg > router.svg
  linerate check router.click --format dot | dot -Tpdf > router.pdf
  linerate check router.click --workers 2
      which worker runs what")]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) configuration: Configuration,

    /// How to show the graph
    #[arg(long, short = 'f', value_name = "FORMAT", default_value = "text")]
    pub(crate) format: GraphFormat,

    /// Print the graph as JSON
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Workers to distribute it over
    #[arg(long, short = 'j', value_name = "WORKERS", default_value_t = 1,
          value_parser = whole(1u16..=256))]
    pub(crate) workers: u16,

    /// Read only: make no elements, so that devices need not be there
    #[arg(long)]
    pub(crate) dry: bool,
}

/// How a graph is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// For reading
    Text,
    /// For Graphviz
    Dot,
    /// A picture
    Svg,
}

/// Explain the elements there are
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate elements
      all, with a line on each
  linerate elements Queue
      everything about one")]
pub(crate) struct Elements {
    /// Elements to explain [default: list all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// How to show them
    #[arg(long, short = 'f', value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ReferenceFormat,

    /// Print them as JSON, one object per line
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Write the reference, a page for each element and an index, to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["names", "format", "json"])]
    pub(crate) write: Option<PathBuf>,
}

/// How an element's reference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferenceFormat {
    /// For reading
    Text,
    /// For documentation
    Markdown,
}

/// Read or write handlers of what runs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate call router c.count
      read, from what was started by `linerate run router.click --control`
  linerate call router q.capacity 2000
      write
  linerate call
      the names of the instances there are
  linerate call ./router.sock list
  linerate call 7777 list
      of one started with --control 7777 or click -p 7777
  linerate call otherhost:7777 config
  linerate call router
      a command on each line, typed or from a script: c.count, q.capacity 2000, help
  linerate call router --ready --timeout 30s && echo it runs
      wait until it is ready; the exit code says whether

A name is that of an instance of this account, else of root's. At a UNIX socket of this account, this
account and root can write. For a socket of another account give its path: it can only be read, and
`linerate call` sends no token to it.")]
pub(crate) struct Call {
    /// The control socket: an instance's name, a UNIX socket's path, a TCP port of this host, or
    /// HOST:PORT [default: list the instances]
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<String>,

    /// The handler: ELEMENT.HANDLER, or HANDLER for a global one [default: as many as standard
    /// input names, one a line]
    #[arg(value_name = "HANDLER")]
    pub(crate) handler: Option<String>,

    /// Value to write to it; - for standard input [default: read it]
    #[arg(value_name = "VALUE")]
    pub(crate) value: Option<String>,

    /// Write even though there is no value
    #[arg(long, short = 'w', requires = "handler")]
    pub(crate) write: bool,

    /// Parameter of a read handler that takes one
    #[arg(long, short = 'p', value_name = "TEXT", requires = "handler",
          conflicts_with_all = ["value", "write"])]
    pub(crate) parameter: Option<String>,

    /// Wait until the router is ready: its ports are open and it handles packets
    #[arg(long, conflicts_with_all = ["handler", "value", "write", "parameter"])]
    pub(crate) ready: bool,

    /// File with the token that gives the right to write [default: the token in the variable
    /// `LINERATE_CONTROL_TOKEN`, else the one made for a TCP port of this host]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Time limit of each command and its whole answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

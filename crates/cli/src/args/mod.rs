//! The command line: the one source of the help, the man pages and the shell
//! completions.

mod capture;
mod cluster;
mod compile;
mod connections;
#[cfg(test)]
pub(crate) mod extremes;
mod flow;
mod graph;
#[cfg(test)]
mod guide;
mod lab;
mod pcap;
mod plan;
mod switch;
mod traffic;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use linerate_lab::Pattern;
use linerate_packet::MacAddr;
use linerate_port::PortUri;
use linerate_worker::Idle;

use crate::{
    exit,
    units::{parse_count, parse_duration, whole},
};

pub(crate) use crate::options::{Configuration, Controlled, Host, Memory, Readiness, Showing};
pub(crate) use capture::Capture;
pub(crate) use cluster::{Attach, Balance, Cluster, ClusterCommand, Serve, Status, Top};
pub(crate) use compile::Compile;
use connections::parse_at_least_one;
pub(crate) use connections::{Connections, SinkAddresses};
pub(crate) use flow::{
    Flow, FlowAdd, FlowAt, FlowCache, FlowChange, FlowCommand, FlowConnections,
    FlowConnectionsCommand, FlowConnectionsFlush, FlowConnectionsFragments, FlowConnectionsLimit,
    FlowConnectionsList, FlowConnectionsTimeout, FlowControl, FlowDel, FlowDump, FlowGroups,
    FlowMeters, FlowMonitor, FlowReplace, FlowSort, FlowTables, FlowTexts, FlowTop, FlowTrace,
    SwitchTarget,
};
pub(crate) use graph::{Call, Check, Elements, GraphFormat, ReferenceFormat, Run};
pub(crate) use lab::{
    BackToBack, Bench, Calibrate, Compare, Form, Known, Lab, LabCommand, LabList, LabPoint, LabRun,
    LatencyArgs, Loss, MEASURE, Ndr, Output, Preset, Recovery, ReportArgs, WORK,
};
pub(crate) use pcap::Pcap;
pub(crate) use plan::Plan;
pub(crate) use switch::{
    Collector, OpenFlowTarget, Switch, SwitchAdd, SwitchAt, SwitchCommand, SwitchExport,
    SwitchFailMode, SwitchList, SwitchRemove, SwitchServe, SwitchShow,
};
pub(crate) use traffic::{Flows, Stream};

/// Move packets at the speed of the link and see what each of them costs
#[derive(Debug, Parser)]
#[command(name = "linerate", version, max_term_width = 100, after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Check(Check),
    Compile(Compile),
    Cluster(Cluster),
    Switch(Box<Switch>),
    Flow(Box<Flow>),
    Elements(Elements),
    Call(Call),
    Forward(Forward),
    Generate(Generate),
    Sink(SinkArgs),
    Ports(Ports),
    Doctor(Doctor),
    Lab(Lab),
    Plan(Plan),
    Capture(Capture),
    Replay(Replay),
    Pcap(Pcap),
    Completions(Completions),
    Man(Man),
}

/// Options of every command that runs ports.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub(crate) struct Running {
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, short = 't', value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,

    /// Stop after this many packets (10k, 5M)
    #[arg(long, short = 'n', value_name = "PACKETS", value_parser = parse_count)]
    pub(crate) count: Option<u64>,

    /// Cores to run workers on, one worker each, as in 1 or 0,2-5 [default: one worker, on a core
    /// the system chooses]
    #[arg(long, short = 'c', value_name = "CORES")]
    pub(crate) cores: Option<String>,

    /// Most packets to move at once
    #[arg(long, short = 'b', value_name = "PACKETS", default_value_t = 32,
          value_parser = whole(1u16..=2048))]
    pub(crate) burst: u16,

    /// Idle strategy: poll, adaptive (poll, then sleep) or block
    #[arg(long, short = 'i', value_name = "STRATEGY", default_value_t = Idle::Adaptive)]
    pub(crate) idle: Idle,

    #[command(flatten)]
    pub(crate) readiness: Readiness,

    #[command(flatten)]
    pub(crate) showing: Showing,

    #[command(flatten)]
    pub(crate) memory: Memory,
}

/// Forward packets from port A to port B
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate forward null: null:
      what moving a packet costs, without any network
  linerate forward --bidirectional packet:eth1 packet:eth2
      join two networks like a cable (AF_PACKET)
  linerate forward --bidirectional --idle poll --cores 1 xdp:eth1 xdp:eth2
      the same over AF_XDP, on a core of its own
  linerate forward --swap-mac xdp:eth1 xdp:eth1
      send everything back to where it came from
  linerate forward pcap:in.pcap tap:tap0
  linerate forward xdp:eth1 xdp:eth2 --control
  linerate call forward forward.counts
  linerate call forward forward.clear -w

A control socket has these handlers, besides those every one has (`linerate call ADDRESS` and
`help`):
  forward.counts         a line for each direction and port: the port, received or sent, packets,
                         bytes, packets dropped
  forward.count, forward.received, forward.dropped
  forward.clear          has these counts begin at zero; the table goes on
  forward.stop           ends it, as Ctrl-C does

Run `linerate ports` for the interfaces there are and `linerate help` for all commands.")]
pub(crate) struct Forward {
    /// Port to take packets from
    #[arg(value_name = "A")]
    pub(crate) from: PortUri,

    /// Port to give them to
    #[arg(value_name = "B")]
    pub(crate) to: PortUri,

    /// Forward from B to A as well; each direction stops at its own --count
    #[arg(long, short = 'B')]
    pub(crate) bidirectional: bool,

    /// Exchange source and destination Ethernet address
    #[arg(long, conflicts_with_all = ["set_dst", "set_src"])]
    pub(crate) swap_mac: bool,

    /// Write this destination Ethernet address
    #[arg(long, value_name = "MAC")]
    pub(crate) set_dst: Option<MacAddr>,

    /// Write this source Ethernet address
    #[arg(long, value_name = "MAC")]
    pub(crate) set_src: Option<MacAddr>,

    /// Wait when the sending port is full, instead of dropping
    #[arg(long)]
    pub(crate) wait: bool,

    /// End when an interface goes away, instead of waiting for it to come back
    #[arg(long)]
    pub(crate) exit_on_loss: bool,

    #[command(flatten)]
    pub(crate) controlled: Controlled,

    #[command(flatten)]
    pub(crate) host: Host,

    #[command(flatten)]
    pub(crate) running: Running,
}

/// Send generated traffic to a port
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate generate xdp:eth1
      64-byte UDP frames as fast as possible
  linerate generate packet:eth1 --rate 100kpps --pattern poisson --duration 60s
  linerate generate xdp:eth1 --size imix --rate 40% --sport 1000-1999 --dst 198.19.0.0/24
  linerate generate packet:eth1 --size 64-1518/64 --protocol tcp --vlan 10-19
  linerate generate packet:eth1 --pcap trace.pcap --rate 10kpps
  linerate generate xdp:eth1 --profile office.toml
  linerate generate packet:eth1 --profile examples/connections.toml --count 100k
      TCP connections, against `linerate sink --answer` or any other server

A profile is a TOML file with a table for each stream, whose keys are the options above (without
dashes, numbers and lists as text), a name, and either a rate of its own or a weight, its share of
--rate:
  [[stream]]
  name = \"voice\"
  size = \"200\"
  dport = \"5060-5070\"
  rate = \"5kpps\"
  [[stream]]
  name = \"rest\"
  size = \"imix\"
  src = \"198.18.0.0/24\"
  rate = \"100Mbit/s\"

Or it has tables of TCP connections, which are opened and answered:
  [[connections]]
  name = \"web\"
  rate = 2000                 # begun per second, default max
  ramp = \"10s\"              # until that rate is reached
  concurrent = 5000           # open at a time, at most
  request = 300               # bytes
  response = \"16k\"
  requests = 3                # in each connection
  think = \"500ms\"           # pause behind each answer
  src = \"198.18.0.0/24\"
  dst = \"198.19.0.1\"
Its other keys are sport, dport, ipv6, src_mac, dst_mac or gateway (asked for by ARP or neighbour
discovery; without both the first of dst is), vlan, mss, payload (for servers other than a sink),
retransmit, retries and timeout. The host must not have the addresses of src itself, or it resets
their connections. --count counts connections then, and --pattern is the rhythm they begin in.

What sends frames is controlled where --control says, by `linerate call ADDRESS HANDLER [VALUE]`;
start, stop and clear have no value and are written with -w:
  generate.rate 1Mpps    another rate; without a value, the rate that was asked for
  generate.size imix     other sizes of frames
  generate.stop, generate.start, generate.active
                         sends nothing, sends again, says whether it sends
  generate.counts, generate.count, generate.clear
                         frames intended, offered, accepted, unsent, sent, bytes, dropped; frames
                         sent alone; has these begin at zero, and the table goes on
  stop                   ends it, as Ctrl-C does

When this machine was busy, frames that are late are sent as fast as the port takes them until the
rate is made up for, at most those of a second; the summary says how many and in how long bursts.

Frames carry a sequence number and the time of sending in their payload, from which
`linerate sink` finds loss, duplication, reordering and latency. Sizes count the four bytes
of FCS. The default addresses are those set aside for tests (RFC 2544, RFC 5180).")]
pub(crate) struct Generate {
    /// Port to send to
    #[arg(value_name = "PORT")]
    pub(crate) port: PortUri,

    #[command(flatten)]
    pub(crate) stream: Stream,

    /// Send the streams of this file instead, or open its connections, see below
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "protocol", "ipv6", "src",
          "dst", "sport", "dport", "vlan", "outer_vlan", "src_mac", "dst_mac", "order", "pcap",
          "payload", "priority", "ttl", "tos", "unsigned"])]
    pub(crate) profile: Option<PathBuf>,

    /// Rhythm: cbr (equal gaps), poisson, or bursts:N (N back to back)
    #[arg(long, value_name = "PATTERN", default_value = "cbr")]
    pub(crate) pattern: Pattern,

    /// Seed of everything random: equal seeds make equal traffic
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) controlled: Controlled,

    #[command(flatten)]
    pub(crate) host: Host,

    #[command(flatten)]
    pub(crate) running: Running,
}

/// Receive, and report rate, loss, reordering and latency
#[derive(Debug, Args)]
#[command(
    name = "sink",
    after_help = "\
Examples:
  linerate sink xdp:eth2
  linerate sink packet:eth2 --duration 60s --json | tail -n 1
      only the summary, for a script
  linerate sink --answer packet:eth2
      the server for connections of `linerate generate --profile`

Loss, duplication, reordering and latency are found in frames that `linerate generate`
signed. Latency means something only when both run on the same machine. What arrives at an xdp:
port is taken away from the host meanwhile, at a packet: port it is copied.

With --answer it is the server of all TCP connections to its addresses, on every port, and says by
ARP and neighbour discovery that they are here: no other host on the link may have them. What it
answers is in the first bytes of a connection; to clients other than `linerate generate` it
answers nothing. --count counts connections that have ended then."
)]
pub(crate) struct SinkArgs {
    /// Port to receive from
    #[arg(value_name = "PORT")]
    pub(crate) port: PortUri,

    /// Be a TCP server at these addresses: a list of single ones, A-B and prefixes [default: some
    /// of those set aside for tests, 198.19.0.0/16 and `2001:2::/96`]
    #[arg(long, value_name = "ADDRESSES", num_args = 0..=1, require_equals = true,
          default_missing_value = SinkAddresses::TEST)]
    pub(crate) answer: Option<SinkAddresses>,

    /// Connections at a time, at most, with --answer
    #[arg(long, value_name = "COUNT", default_value = "65536",
          value_parser = parse_at_least_one, requires = "answer")]
    pub(crate) concurrent: u64,

    #[command(flatten)]
    pub(crate) host: Host,

    #[command(flatten)]
    pub(crate) running: Running,
}

/// List the interfaces there are and what ports can do with them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate ports
      all interfaces of this network namespace
  linerate ports eth1 --json
      everything known about one
  linerate ports --help-uri
      the kinds of port there are
  linerate ports --help-uri xdp
      what an xdp: port is, and all its options")]
pub(crate) struct Ports {
    /// Interfaces to show, or sockets, as `memif:/run/m.sock` [default: all]
    #[arg(value_name = "INTERFACE|PORT")]
    pub(crate) interfaces: Vec<String>,

    /// Explain a kind of port and its options [default: list the kinds]
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "",
          conflicts_with = "interfaces")]
    pub(crate) help_uri: Option<String>,

    /// Write the reference, a page for each kind and an index, to this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["interfaces", "help_uri", "json"])]
    pub(crate) write: Option<PathBuf>,

    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say what this machine offers, what it lacks, and what to do about it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate doctor
  sudo linerate doctor
      what it looks like with all privileges
  linerate doctor --json
      the findings, and the facts behind them")]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Send a capture file to a port
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate replay trace.pcap xdp:eth1
      with the gaps that were recorded
  linerate replay trace.pcap xdp:eth1 --rate max --loop 0
      as fast as possible, until Ctrl-C
  linerate replay trace.pcapng packet:eth1 --speed 10 --loop 3

Every packet of the file is sent, in order: when the port is full, replay waits. Merged segments of
TCP, as captures of hosts have them, are cut as an interface with the port's MTU does. Packets that
cannot be sent, as they are longer than a packet buffer or the port carries, make it end with an
error behind all others.")]
pub(crate) struct Replay {
    /// File to read, pcap or pcapng; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Port to send to
    #[arg(value_name = "PORT")]
    pub(crate) port: PortUri,

    /// When to send: recorded (the gaps of the file), max, or packets per second as in 10kpps
    #[arg(long, short = 'r', value_name = "RATE", default_value = "recorded")]
    pub(crate) rate: String,

    /// Divide the recorded gaps by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) speed: f64,

    /// Send the file this many times; 0 for ever
    #[arg(long = "loop", value_name = "TIMES", default_value_t = 1)]
    pub(crate) times: u64,

    #[command(flatten)]
    pub(crate) running: Running,
}

/// Print the completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate completions bash > /etc/bash_completion.d/linerate
  linerate completions zsh > \"${fpath[1]}/_linerate\"
  linerate completions fish > ~/.config/fish/completions/linerate.fish")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Write the man pages to a folder
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  linerate man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// The folder; it must exist
    pub(crate) folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_documented() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                let name = argument.get_id();
                assert!(argument.get_help().is_some(), "{} {name}", command.get_name());
            }
        }
    }

    /// Calls `each` with the words of each command, and with the command.
    fn visit(
        command: &clap::Command,
        words: &[String],
        each: &mut impl FnMut(&[String], &clap::Command),
    ) {
        each(words, command);
        for below in command.get_subcommands() {
            let words = [words, &[below.get_name().to_owned()]].concat();
            visit(below, &words, each);
        }
    }

    /// Errors about numbers have no range in Rust's words, for any value.
    #[test]
    fn ranges_are_said_in_words() {
        const VALUES: [&str; 3] = ["99999999999999999999", "4294967296", "-1"];
        let (mut refused, mut wrong) = (0, Vec::new());
        visit(&Cli::command(), &["linerate".into()], &mut |words, command| {
            for argument in command.get_arguments().filter(|it| it.get_action().takes_values()) {
                let option = argument.get_long().map(|name| format!("--{name}="));
                let option = option.or_else(|| argument.get_short().map(|name| format!("-{name}")));
                for value in VALUES {
                    let value = format!("{}{value}", option.clone().unwrap_or_default());
                    // In front of one without a name are others: they are given the same.
                    let line = words.iter().cloned().chain(std::iter::repeat_n(value, 3));
                    let Err(error) = Cli::try_parse_from(line) else { continue };
                    let said = error.to_string();
                    refused += 1;
                    wrong.extend(said.contains("..=").then(|| format!("{words:?}: {said}")));
                }
            }
        });
        assert!(refused > 200 && wrong.is_empty(), "{refused}: {wrong:#?}");
    }

    #[test]
    fn addresses_answered_by_a_sink_follow_an_equals_sign() {
        let answer = |words: &[&str]| {
            let line = ["linerate", "sink"].iter().chain(words);
            let Command::Sink(args) = Cli::try_parse_from(line).unwrap().command else {
                panic!("{words:?}")
            };
            (args.port.to_string(), args.answer.map(|answered| answered.hosts().len()))
        };
        assert_eq!(answer(&["null:"]), ("null:".into(), None));
        assert_eq!(answer(&["--answer", "null:"]), ("null:".into(), Some(2)));
        assert_eq!(answer(&["null:", "--answer=10.0.0.1"]), ("null:".into(), Some(1)));
        let alone = ["linerate", "sink", "null:", "--concurrent", "5"];
        assert!(Cli::try_parse_from(alone).is_err());
    }

    #[test]
    fn bad_values_are_refused_when_parsed() {
        for bad in [
            &["--burst", "0"][..],
            &["--burst", "2049"],
            &["--idle", "sleep"],
            &["--arena", "lots"],
            &["--duration", "soon"],
            &["--interval", "0s"],
            &["--swap-mac", "--set-dst", "02:00:00:00:00:01"],
        ] {
            let line = ["linerate", "forward", "null:", "null:"].iter().chain(bad);
            assert!(Cli::try_parse_from(line).is_err(), "{bad:?}");
        }
    }

    /// Commands that receive from a port, and may take it from the host, have the option for that.
    #[test]
    fn only_receiving_commands_may_disconnect() {
        for (line, may) in [
            (&["forward", "null:", "null:"][..], true),
            (&["sink", "null:"], true),
            (&["capture", "null:", "x.pcap"], true),
            (&["run", "x.click"], true),
            (&["generate", "null:"], true),
            (&["replay", "x.pcap", "null:"], false),
        ] {
            let line = [&["linerate"][..], line, &["--disconnect"]].concat();
            assert_eq!(Cli::try_parse_from(&line).is_ok(), may, "{line:?}");
        }
    }
}

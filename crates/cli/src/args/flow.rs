//! Arguments of `linerate flow`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use linerate_linux::RuntimeDirectory;
use linerate_ofswitch::control::Target;
use linerate_openflow::wire::Version;

use crate::units::{parse_duration, parse_interval, parse_size, whole};

/// Read and change the flows of a switch that speaks OpenFlow
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow add 'priority=10,tcp,tp_dst=80,actions=output:2' 'actions=normal'
  linerate flow dump
  linerate flow dump tcp --sort rate --limit 20
  linerate flow del ip
  linerate flow replace flows.txt
  linerate flow trace 'in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80'
  linerate flow --switch tcp:192.0.2.1 dump
      of any switch that listens for controllers, of Open vSwitch by
      --switch unix:/var/run/openvswitch/br0.mgmt

Flows, groups and meters are written as for ovs-ofctl; `man ovs-fields` and `man ovs-actions` have all
words. Without --switch it is the switch that `linerate switch --openflow` runs here.")]
pub(crate) struct Flow {
    #[command(flatten)]
    pub(crate) at: FlowAt,

    #[command(subcommand)]
    pub(crate) command: FlowCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowCommand {
    Add(FlowAdd),
    Mod(FlowChange),
    Del(FlowDel),
    Replace(FlowReplace),
    Dump(FlowDump),
    Trace(FlowTrace),
    Groups(FlowGroups),
    Meters(FlowMeters),
    Tables(FlowTables),
    Ports(FlowPorts),
    Cache(FlowCache),
    Connections(FlowConnections),
    Monitor(FlowMonitor),
    Top(FlowTop),
}

/// The address of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SwitchTarget {
    /// The name of an instance in the runtime directory.
    Named(String),
    At(Target),
}

fn parse_switch(text: &str) -> Result<SwitchTarget, String> {
    if RuntimeDirectory::is_name(text) {
        return Ok(SwitchTarget::Named(text.into()));
    }
    let target = text.parse().map_err(|error| format!("{error}; or write the name of a switch"))?;
    Ok(SwitchTarget::At(target))
}

/// Which switch, and how it is spoken with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Switch")]
pub(crate) struct FlowAt {
    /// Address to connect to, tcp:HOST:PORT, ssl:HOST:PORT or unix:PATH; or to listen at, ptcp:PORT,
    /// pssl:PORT or punix:PATH; without PORT 6653; or the NAME of a switch of this account
    /// [default: switch, the name of `linerate switch --openflow`]
    #[arg(long, short = 's', value_name = "TARGET|NAME", global = true, value_parser = parse_switch)]
    pub(crate) switch: Option<SwitchTarget>,

    /// Versions that may be spoken, as in 1.3 or 1.0,1.3; the greatest both sides have is
    #[arg(long, short = 'O', value_name = "VERSIONS", global = true, value_delimiter = ',',
          value_parser = parse_version, default_value = "1.0,1.3,1.4,1.5")]
    pub(crate) of: Vec<Version>,

    /// The private key for ssl: and pssl:, a file in PEM
    #[arg(long, value_name = "FILE", global = true, requires_all = ["certificate", "ca_cert"])]
    pub(crate) private_key: Option<PathBuf>,

    /// The certificate of the key
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) certificate: Option<PathBuf>,

    /// CA certificates for the switch, a file in PEM
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca_cert: Option<PathBuf>,

    /// Time limit of each whole answer, and of connecting and reading the names of ports
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, global = true)]
    pub(crate) timeout: Duration,

    /// Size limit of an answer on the connection; in memory it takes several times as much
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size, global = true)]
    pub(crate) max_answer: usize,

    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Print ports by number, not by name
    #[arg(long, short = 'n', global = true)]
    pub(crate) numbers: bool,
}

/// Where flows come from.
#[derive(Debug, Args)]
pub(crate) struct FlowTexts {
    /// Flows
    #[arg(value_name = "FLOW")]
    pub(crate) flows: Vec<String>,

    /// A file with a flow in each line, - for standard input; what is behind a # is a comment, and a line
    /// may begin with add, modify, `modify_strict`, delete or `delete_strict`
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) file: Option<String>,

    /// All at once, or none where one is refused (a bundle; OpenFlow 1.3 and later)
    #[arg(long)]
    pub(crate) atomic: bool,
}

/// Add flows; one with the same match and priority is replaced
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow add 'table=0,priority=10,in_port=1,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,output:2'
  linerate flow add --file flows.txt --atomic
  echo 'actions=normal' | linerate flow add --file -")]
pub(crate) struct FlowAdd {
    #[command(flatten)]
    pub(crate) texts: FlowTexts,
}

/// Have flows that are matched do something else
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow mod 'tcp,actions=output:3'
      all flows that match TCP packets, or some of them
  linerate flow mod --strict 'priority=10,tcp,actions=output:3'")]
pub(crate) struct FlowChange {
    #[command(flatten)]
    pub(crate) texts: FlowTexts,

    /// Only the flow with exactly this match and priority
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Delete flows that are matched
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow del 'table=1,tcp'
  linerate flow del 'cookie=0x5/-1' 'out_port=3'
  linerate flow del --all")]
pub(crate) struct FlowDel {
    #[command(flatten)]
    pub(crate) texts: FlowTexts,

    /// Only the flow with exactly this match and priority
    #[arg(long)]
    pub(crate) strict: bool,

    /// Every flow of every table
    #[arg(long, conflicts_with_all = ["flows", "file"])]
    pub(crate) all: bool,
}

/// Make the flows of a switch those of a file, in one step where the switch can
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow replace flows.txt
  linerate flow replace flows.txt --dry-run
      print what would be deleted (-) and added (+)

Flows that stay as they are keep their counters. Without bundles (OpenFlow 1.0) flows are added before
others are deleted, one after the other.")]
pub(crate) struct FlowReplace {
    /// A file with a flow in each line, - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// Print the difference, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// By what flows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowSort {
    /// The order in which they are asked
    Priority,
    /// Packets per second
    Rate,
    /// Packets
    Packets,
    /// Bytes
    Bytes,
    /// How long they have been there, the newest first
    Age,
}

/// Print flows, grouped by table
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow dump
  linerate flow dump 'table=0,ip' --sort packets --limit 20
  linerate flow dump --sort rate --interval 2s
  linerate flow dump --plain
      as ovs-ofctl dump-flows: what can be given to `add --file` again

Columns: packets and bytes that matched; pkt/s: packets per second since the flow was added, or over
--interval; age: since then. A flow matches the packets in `match`; empty is all.")]
pub(crate) struct FlowDump {
    /// Only flows whose match this covers, of table=…, with `cookie=…/…`, `out_port=…` or `out_group=…`
    #[arg(value_name = "MATCH", default_value = "")]
    pub(crate) like: String,

    /// In which order, within a table
    #[arg(long, value_enum, default_value_t = FlowSort::Priority)]
    pub(crate) sort: FlowSort,

    /// Print so many flows of each table at most
    #[arg(long, value_name = "FLOWS")]
    pub(crate) limit: Option<usize>,

    /// Measure rates over this time, instead of since the flow was added
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub(crate) interval: Option<Duration>,

    /// In the form of ovs-ofctl dump-flows
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Requests to a switch of ours by its control socket.
#[derive(Debug, Clone, Args)]
pub(crate) struct FlowControl {
    /// The switch's control socket, as for `linerate call` [default: that of the switch called switch]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) control: Option<String>,

    /// File with the token that gives the right to write [default: the token in the variable
    /// `LINERATE_CONTROL_TOKEN`, else the one made for a TCP port of this host]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// The `FlowSwitch` element of the configuration
    #[arg(long, value_name = "NAME", default_value = "flows")]
    pub(crate) element: String,
}

/// Say what becomes of a packet: which flows match, and what they do
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow trace 'in_port=1,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80'
  linerate flow trace --pcap trace.pcap --packet 3 in_port=2
  linerate flow trace 'in_port=1,icmp' --ct-next 'est|trk'

It asks a switch of ours; nothing is sent, learnt or counted. Where a packet is looked up again, as behind
ct(table=1), it goes on with that.")]
pub(crate) struct FlowTrace {
    /// The packet's fields, as in a match; what is not said is zero
    #[arg(value_name = "FIELDS", required_unless_present = "pcap", default_value = "")]
    pub(crate) fields: String,

    /// Take the packet from a capture file; FIELDS say what is not in it, `in_port` above all
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,

    /// Which packet of the file
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "pcap",
          value_parser = whole(1u64..=u64::MAX))]
    pub(crate) packet: u64,

    /// State that a connection is taken to be in when ct(table=) looks it up, as in est|trk; may be repeated,
    /// for the next that is looked up [default: new|trk]
    #[arg(long, value_name = "STATE")]
    pub(crate) ct_next: Vec<String>,

    #[command(flatten)]
    pub(crate) asked: FlowControl,
}

/// Print the groups of a switch and what they did, or change some
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow groups
  linerate flow groups --add 'group_id=1,type=select,bucket=weight:2,output:1,bucket=output:2'
  linerate flow groups --del group_id=1")]
pub(crate) struct FlowGroups {
    /// Add a group; may be repeated
    #[arg(long, value_name = "GROUP")]
    pub(crate) add: Vec<String>,

    /// Have a group do something else
    #[arg(long = "mod", value_name = "GROUP")]
    pub(crate) change: Vec<String>,

    /// Delete a group; `group_id=all` is every one
    #[arg(long, value_name = "GROUP")]
    pub(crate) del: Vec<String>,
}

/// Print the meters of a switch and what they did, or change some
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow meters
  linerate flow meters --add 'meter=1,kbps,burst,band=type=drop,rate=10000,burst_size=1000'
  linerate flow meters --del meter=1")]
pub(crate) struct FlowMeters {
    /// Add a meter; may be repeated
    #[arg(long, value_name = "METER")]
    pub(crate) add: Vec<String>,

    /// Have a meter do something else
    #[arg(long = "mod", value_name = "METER")]
    pub(crate) change: Vec<String>,

    /// Delete a meter; meter=all is every one
    #[arg(long, value_name = "METER")]
    pub(crate) del: Vec<String>,
}

/// Print how many flows tables have, and how many packets they were asked for
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow tables
  linerate flow tables --all")]
pub(crate) struct FlowTables {
    /// Those without flows that were never asked, too
    #[arg(long)]
    pub(crate) all: bool,
}

/// Print the ports of a switch, and what came and went
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  linerate flow ports")]
pub(crate) struct FlowPorts {}

/// Print the entries of a switch's fast path, those with most packets first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow cache
  linerate flow cache --limit 1000

It asks a switch of ours. An entry has the fields, and the bits of them, that a decision depends on,
and what becomes of all packets that have them.")]
pub(crate) struct FlowCache {
    /// Print so many entries at most
    #[arg(long, value_name = "ENTRIES", default_value_t = 50)]
    pub(crate) limit: usize,

    #[command(flatten)]
    pub(crate) asked: FlowControl,
}

/// Print the connections that a switch remembers, forget some, limit them, or set their time-outs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow connections
  linerate flow connections list ct_zone=5,ct_nw_src=10.0.0.0/8 --json
  linerate flow connections flush ct_zone=5
  linerate flow connections limit 5=1000 default=100000
  linerate flow connections timeout 5 udp_first=10 icmp_reply=5

It asks a switch of ours. Connections are those that flows remember by ct(commit).")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct FlowConnections {
    #[command(subcommand)]
    pub(crate) command: Option<FlowConnectionsCommand>,

    #[command(flatten)]
    pub(crate) list: FlowConnectionsList,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowConnectionsCommand {
    List(FlowConnectionsList),
    Flush(FlowConnectionsFlush),
    Limit(FlowConnectionsLimit),
    Timeout(FlowConnectionsTimeout),
    Fragments(FlowConnectionsFragments),
}

/// Print connections, a line each, in the form of ovs-appctl dpctl/dump-conntrack
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow connections list ct_zone=5
  linerate flow connections list ct_nw_proto=6,ct_tp_dst=443 --limit 100")]
pub(crate) struct FlowConnectionsList {
    /// Only those whose zone, mark, label or first packet is like this: `ct_zone`, `ct_mark`, `ct_label`,
    /// `ct_nw_proto`, `ct_nw_src`, `ct_nw_dst`, `ct_ipv6_src`, `ct_ipv6_dst`, `ct_tp_src`, `ct_tp_dst`, as in a
    /// match
    #[arg(value_name = "MATCH", default_value = "")]
    pub(crate) like: String,

    /// Print so many connections at most
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 10_000)]
    pub(crate) limit: usize,

    #[command(flatten)]
    pub(crate) asked: FlowControl,
}

/// Forget connections: their next packets are new
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow connections flush ct_nw_src=10.1.1.1,ct_nw_dst=10.1.1.2,ct_nw_proto=17
  linerate flow connections flush --all")]
pub(crate) struct FlowConnectionsFlush {
    /// Those whose zone, mark, label or first packet is like this, as for list
    #[arg(value_name = "MATCH", required_unless_present = "all")]
    pub(crate) like: Option<String>,

    /// All
    #[arg(long, conflicts_with = "like")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) asked: FlowControl,
}

/// Print how many connections zones may have, or change it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow connections limit
  linerate flow connections limit 5=1000
  linerate flow connections limit default=100000 5=none

Connections beyond a limit are not remembered; those that are there stay.")]
pub(crate) struct FlowConnectionsLimit {
    /// A zone and its limit, none to take it away; default is that of zones without one
    #[arg(value_name = "ZONE=LIMIT")]
    pub(crate) limits: Vec<String>,

    #[command(flatten)]
    pub(crate) asked: FlowControl,
}

/// Print how long connections of zones are remembered after a packet, or change it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow connections timeout
  linerate flow connections timeout 5 udp_first=10 icmp_reply=5
  linerate flow connections timeout default tcp_established=3600
  linerate flow connections timeout 5 none

The names are those of ovs-vsctl add-zone-tp: tcp_syn_sent, tcp_syn_recv, tcp_established,
tcp_fin_wait, tcp_time_wait, tcp_close, udp_first, udp_single, udp_multiple, icmp_first,
icmp_reply. Those that are not given are Open vSwitch's. Connections that are there keep the
time-outs they began with.")]
pub(crate) struct FlowConnectionsTimeout {
    /// The zone; default is all zones without time-outs of their own
    #[arg(requires = "timeouts")]
    pub(crate) zone: Option<String>,

    /// Its time-outs in seconds; none to take them away
    #[arg(value_name = "NAME=SECONDS")]
    pub(crate) timeouts: Vec<String>,

    #[command(flatten)]
    pub(crate) asked: FlowControl,
}

/// Print what became of fragments in `ct()`, or change what they are allowed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow connections fragments
  linerate flow connections fragments --shortest-v4 500 --most 2000

Fragments wait 15 s for the others of their packet, a quarter of --most of one source.")]
pub(crate) struct FlowConnectionsFragments {
    /// How many fragments may wait, 5000 at most
    #[arg(long, value_name = "FRAGMENTS", value_parser = whole(0u32..=u32::MAX))]
    pub(crate) most: Option<u32>,

    /// How short a fragment of IPv4 may be that is not the last of its packet, 400 at least
    #[arg(long, value_name = "BYTES", value_parser = whole(0u32..=u32::MAX))]
    pub(crate) shortest_v4: Option<u32>,

    /// How short a fragment of IPv6 may be that is not the last of its packet, 400 at least
    #[arg(long, value_name = "BYTES", value_parser = whole(0u32..=u32::MAX))]
    pub(crate) shortest_v6: Option<u32>,

    #[command(flatten)]
    pub(crate) asked: FlowControl,
}

/// Print what a switch tells controllers: packets, flows that end, ports that change
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow monitor
  linerate flow monitor --count 1 --json")]
pub(crate) struct FlowMonitor {
    /// End after so many messages
    #[arg(long, value_name = "MESSAGES")]
    pub(crate) count: Option<u64>,

    /// End after this time
    #[arg(long, short = 't', value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
}

/// Show the flows with most packets, again and again
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate flow top
  linerate flow top tcp --limit 10 --interval 500ms --count 5")]
pub(crate) struct FlowTop {
    /// Only flows whose match this covers
    #[arg(value_name = "MATCH", default_value = "")]
    pub(crate) like: String,

    /// Show so many flows
    #[arg(long, value_name = "FLOWS", default_value_t = 20)]
    pub(crate) limit: usize,

    /// Time between two updates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub(crate) interval: Duration,

    /// End after so many updates
    #[arg(long, value_name = "UPDATES")]
    pub(crate) count: Option<u64>,
}

fn parse_version(text: &str) -> Result<Version, String> {
    let bare = text.trim_start_matches("OpenFlow");
    let known = Version::ALL.into_iter().find(|version| {
        let name = version.to_string();
        name == bare || name.replace('.', "") == bare
    });
    known.ok_or_else(|| "versions are 1.0, 1.3, 1.4 and 1.5".into())
}

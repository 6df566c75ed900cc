//! Arguments of `linerate switch`.

use std::{
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
    time::Duration,
};

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum};
use linerate_ofswitch::control::Target;
use linerate_packet::MacAddr;

use crate::{
    options::{Controlled, GraphRunning, Readiness},
    port_spec::PortSpec,
    units::{parse_duration, whole},
};

/// Join programs and machines that do not trust each other by a learning switch
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  linerate switch a=memif:/run/a.sock b=vhost:/run/b.sock host=tap:sw0 up=xdp:eth1
      a program, a virtual machine, this machine and a cable
  linerate switch --socket /run/switch.sock ids=consumer:
      a program of the client library, which attaches there by the port's name
  linerate switch add c=memif:/run/c.sock
  linerate switch list
  linerate switch show
  linerate switch remove c
  linerate switch --openflow tcp:192.0.2.9 --tables 8 --port a=xdp:eth1 --port b=memif:/run/b.sock
      a switch that does what a controller says: its flows are shown by `linerate flow`
  linerate switch --openflow local --ipfix 192.0.2.7 --sflow 192.0.2.7 --port a=xdp:eth1 --port b=xdp:eth2
      one that tells collectors of its packets

Each port has a socket of its own, and each program memory of its own, which it shares with the
switch alone: packets are copied in and out, and all that comes is checked. One that plays foul, or
goes, is the only one to notice. A program that does not read loses what is for it. One that floods
gets its share of the switch, and of the port that it floods: the packets of each port wait apart,
and take turns. With more than 9 ports some share a queue, with --arena 288M with more than 16. Queues
are bounded together by --arena, so that there is room for 80 ports, or as many as --room says. There
are at most 1024 ports, 63 of them consumer:.

memif: ports are servers here and vhost: ports devices, unless they say otherwise. What bridges say
to each other (spanning tree, LLDP) does not pass. Who may connect to a socket is a matter of the
permissions of its folder, and with memif: of `secret=`."
)]
pub(crate) struct Switch {
    #[command(subcommand)]
    pub(crate) command: Option<SwitchCommand>,

    #[command(flatten)]
    pub(crate) serve: SwitchServe,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SwitchCommand {
    Add(SwitchAdd),
    Remove(SwitchRemove),
    List(SwitchList),
    Show(SwitchShow),
}

/// The ports of a switch, in the order of the command line.
#[derive(Debug)]
pub(crate) struct SwitchPorts(pub(crate) Vec<PortSpec>);

#[derive(Debug, Args)]
struct SwitchPortArgs {
    /// A port, as `linerate ports --help-uri` has them, or consumer: for an isolated program of a
    /// cluster; NAME is letters, digits and _ [default names: port1, port2 ...]
    #[arg(value_name = "[NAME=]PORT")]
    ports: Vec<PortSpec>,

    /// A port, as without --port; may be repeated. Ports of OpenFlow have numbers from 1 on, in the order
    /// of the command line
    #[arg(long, value_name = "[NAME=]PORT")]
    port: Vec<PortSpec>,
}

impl Args for SwitchPorts {
    fn augment_args(command: Command) -> Command {
        SwitchPortArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        SwitchPortArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for SwitchPorts {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SwitchPorts, clap::Error> {
        let SwitchPortArgs { ports, port } = SwitchPortArgs::from_arg_matches(matches)?;
        let places = |id| matches.indices_of(id).into_iter().flatten();
        let mut all: Vec<(usize, PortSpec)> =
            places("ports").zip(ports).chain(places("port").zip(port)).collect();
        all.sort_by_key(|(place, _)| *place);
        Ok(SwitchPorts(all.into_iter().map(|(_, spec)| spec).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = SwitchPorts::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Options with which a switch starts.
#[derive(Debug, Args)]
pub(crate) struct SwitchServe {
    #[command(flatten)]
    pub(crate) ports: SwitchPorts,

    /// Where isolated programs attach: a UNIX socket's file, or @NAME for one without a file
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) socket: Option<String>,

    /// The VLANs of a port: NAME='access 10', or NAME='trunk 10 20-29 native 1', or NAME='trunk all'
    #[arg(long, value_name = "NAME=VLANS", value_parser = parse_of_port)]
    pub(crate) vlan: Vec<(String, String)>,

    /// Have VLANs, where no --vlan says so: ports without one are in VLAN 1, with no tags
    #[arg(long)]
    pub(crate) vlans: bool,

    /// An address that is this port's: others cannot send from it, nor can this port from any that
    /// is not its own; may be repeated
    #[arg(long, value_name = "NAME=MAC", value_parser = parse_mac_of_port)]
    pub(crate) mac: Vec<(String, MacAddr)>,

    /// How long a silent host is remembered
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = parse_duration)]
    pub(crate) ageing: Duration,

    /// Most hosts remembered at one port: who invents more of them takes no room from others
    #[arg(long, value_name = "HOSTS", default_value_t = 1024,
          value_parser = whole(1u32..=65536))]
    pub(crate) hosts: u32,

    /// Have room for so many ports, however they come: for more than 80 in the same memory some share
    /// queues earlier
    #[arg(long, value_name = "PORTS", value_parser = whole(1u16..=1024))]
    pub(crate) room: Option<u16>,

    /// Give packets to ports as they come, without taking turns: faster, for programs that do not
    /// flood each other
    #[arg(long)]
    pub(crate) direct: bool,

    #[command(flatten)]
    pub(crate) open_flow: SwitchOpenFlow,

    #[command(flatten)]
    pub(crate) export: SwitchExport,

    #[command(flatten)]
    pub(crate) running: GraphRunning,

    #[command(flatten)]
    pub(crate) controlled: Controlled,

    #[command(flatten)]
    pub(crate) readiness: Readiness,
}

/// A switch whose flow tables a controller writes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "OpenFlow")]
pub(crate) struct SwitchOpenFlow {
    /// Forward by the flows of controllers, instead of learning: connect to one (tcp:HOST:PORT,
    /// ssl:HOST:PORT, unix:PATH), listen for some (ptcp:PORT:ADDRESS, pssl:, punix:PATH), or local: only
    /// the socket that `linerate flow` finds, NAME.openflow in the runtime directory, which is always made
    /// without --control; may be repeated
    #[arg(long = "openflow", value_name = "TARGET", value_parser = parse_openflow)]
    pub(crate) targets: Vec<OpenFlowTarget>,

    /// How many flow tables there are
    #[arg(long, value_name = "TABLES", default_value_t = 8, requires = "targets",
          value_parser = whole(1u8..=254))]
    pub(crate) tables: u8,

    /// The number by which controllers know the switch, up to twelve hexadecimal digits
    #[arg(long, value_name = "ID", default_value = "020000000001", requires = "targets",
          value_parser = parse_datapath)]
    pub(crate) datapath_id: MacAddr,

    /// Treatment of packets without controllers: by its flows, or as any learning switch
    #[arg(long, value_name = "MODE", value_enum, default_value_t = SwitchFailMode::Secure,
          requires = "targets")]
    pub(crate) fail_mode: SwitchFailMode,

    /// Flows, a line each, that are there from the start, unless there is a --state to go on from
    #[arg(long, value_name = "FILE", requires = "targets")]
    pub(crate) flows: Option<PathBuf>,

    /// A file in which flows, groups, meters, and how tables and ports are set, are kept, a second after each
    /// change and at the end: they are there again when the switch is started with it once more
    #[arg(long, value_name = "FILE", requires = "targets")]
    pub(crate) state: Option<PathBuf>,

    /// Packets for controllers: so many a second at most [default: as many as come]
    #[arg(long, value_name = "PACKETS", requires = "targets",
          value_parser = whole(0u32..=u32::MAX))]
    pub(crate) packet_rate: Option<u32>,

    /// Discard a bundle that its controller says nothing of for so long; 0 never does
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "targets",
          value_parser = parse_duration)]
    pub(crate) bundle_idle: Duration,

    /// User of this machine, by name or number, whose programs may control the switch without TLS, in
    /// addition to root and the user the switch runs as; may be repeated
    #[arg(long = "openflow-user", value_name = "USER", requires = "targets")]
    pub(crate) users: Vec<String>,

    /// Accept every controller that reaches ptcp: or punix:, from other machines, too, without TLS
    #[arg(long = "insecure-openflow", requires = "targets")]
    pub(crate) insecure: bool,

    /// The private key for ssl: and pssl:, a file in PEM
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "ca_cert"])]
    pub(crate) private_key: Option<PathBuf>,

    /// The certificate of the key
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,

    /// The certificates of those who vouch for controllers
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) ca_cert: Option<PathBuf>,
}

/// Whom a switch under controllers tells of its packets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Export (with --openflow)")]
pub(crate) struct SwitchExport {
    /// Tell a collector of each connection, by IPFIX over UDP [default PORT: 4739]; may be repeated
    #[arg(long, value_name = "HOST[:PORT]", requires = "targets", value_parser = parse_ipfix)]
    pub(crate) ipfix: Vec<Collector>,

    /// Tell a collector of what `sample(collector_set_id=NUMBER,...)` actions of flows pick; may be repeated
    #[arg(long, value_name = "NUMBER=HOST[:PORT]", requires = "targets", value_parser = parse_ipfix_set)]
    pub(crate) ipfix_set: Vec<(u32, Collector)>,

    /// A connection without packets for so long is over, and told of
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    pub(crate) ipfix_idle: Duration,

    /// One that goes on is told of so often
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) ipfix_active: Duration,

    /// Of so many packets one is counted by --ipfix
    #[arg(long, value_name = "PACKETS", default_value_t = 1,
          value_parser = whole(1u32..=u32::MAX))]
    pub(crate) ipfix_sampling: u32,

    /// Tell a collector of single packets, by sFlow, and of the counters of ports [default PORT: 6343];
    /// may be repeated
    #[arg(long, value_name = "HOST[:PORT]", requires = "targets", value_parser = parse_sflow)]
    pub(crate) sflow: Vec<Collector>,

    /// Of so many packets one is a sample, by chance
    #[arg(long, value_name = "PACKETS", default_value_t = 400,
          value_parser = whole(1u32..=u32::MAX))]
    pub(crate) sflow_rate: u32,

    /// Counters of ports are told so often; 0s never
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) sflow_polling: Duration,

    /// The address that samples say they are of [default: that which they are sent from]
    #[arg(long, value_name = "ADDRESS", requires = "sflow")]
    pub(crate) sflow_agent: Option<IpAddr>,
}

/// Address of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collector {
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A place of controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenFlowTarget {
    /// The socket where our own commands look.
    Local,
    At(Target),
}

/// Treatment of packets by a switch without controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchFailMode {
    /// By its flows
    Secure,
    /// As any learning switch
    Standalone,
}

fn parse_openflow(text: &str) -> Result<OpenFlowTarget, String> {
    if text == "local" {
        return Ok(OpenFlowTarget::Local);
    }
    text.parse().map(OpenFlowTarget::At).map_err(|error| format!("{error}; or it is local"))
}

fn parse_ipfix(text: &str) -> Result<Collector, String> {
    parse_collector(text, 4739)
}

fn parse_sflow(text: &str) -> Result<Collector, String> {
    parse_collector(text, 6343)
}

fn parse_ipfix_set(text: &str) -> Result<(u32, Collector), String> {
    let (number, place) =
        text.split_once('=').ok_or("write a set's number, = and the collector")?;
    match number.parse() {
        Ok(number) if number > 0 => Ok((number, parse_ipfix(place)?)),
        _ => Err("numbers of sets are 1 and more".into()),
    }
}

/// HOST, HOST:PORT, an address of IPv6 alone, or in brackets with a port.
fn parse_collector(text: &str, port: u16) -> Result<Collector, String> {
    let is_ip6 = text.parse::<Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':').filter(|_| !is_ip6 && !text.ends_with(']')) {
        Some((host, port)) => {
            (host, port.parse().map_err(|_| format!("{port} is no port of UDP"))?)
        }
        None => (text, port),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    if host.is_empty() || port == 0 || (host.contains(':') && host.parse::<Ipv6Addr>().is_err()) {
        return Err(
            "write a name or an address, and a port behind a colon, as in [::1]:4739".into()
        );
    }
    Ok(Collector { host: host.to_owned(), port })
}

fn parse_datapath(text: &str) -> Result<MacAddr, String> {
    let digits: String = text.chars().filter(|letter| *letter != ':').collect();
    let digits = digits.trim_start_matches("0x");
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits, 16).ok().filter(|number| plain && number >> 48 == 0);
    let number =
        number.ok_or("a number of up to twelve hexadecimal digits, as in 1 or 020000000001")?;
    let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
    Ok(MacAddr([a, b, c, d, e, f]))
}

/// Where a switch that runs is asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct SwitchAt {
    /// The switch's control socket, as for `linerate call` [default: that of the switch called switch]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) control: Option<String>,

    /// File with the token that gives the right to write [default: the token in the variable
    /// `LINERATE_CONTROL_TOKEN`, else the one made for a TCP port of this host]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Give up after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

/// Add a port to a switch that runs; the others notice nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate switch add c=memif:/run/c.sock
  linerate switch add c=vhost:/run/c.sock --vlan 'access 10' --mac 02:00:00:00:00:0c
  linerate switch add ids=consumer:
      for a switch that was started with --socket")]
pub(crate) struct SwitchAdd {
    /// The port
    #[arg(value_name = "[NAME=]PORT")]
    pub(crate) port: PortSpec,

    /// Its VLANs: 'access 10', 'trunk 10 20-29 native 1', 'trunk all'
    #[arg(long, value_name = "VLANS")]
    pub(crate) vlan: Option<String>,

    /// An address that is this port's alone; may be repeated
    #[arg(long, value_name = "MAC")]
    pub(crate) mac: Vec<MacAddr>,

    #[command(flatten)]
    pub(crate) at: SwitchAt,
}

/// Take a port out of a switch that runs; hosts behind it are forgotten
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  linerate switch remove c")]
pub(crate) struct SwitchRemove {
    /// The port's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) at: SwitchAt,
}

/// List the ports of a switch, with what came and went
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate switch list
  linerate switch list --json | jq 'select(.full > 0).name'
      ports whose programs did not keep up

Columns: received and sent count packets; full: packets for it that it had no room for; absent: for
it while its other end was not there; refused: what came and made no sense; forged: what came from an
address that is another port's; hosts: addresses known behind it.")]
pub(crate) struct SwitchList {
    /// Print JSON, one object per port
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) at: SwitchAt,
}

/// Show the hosts a switch has learnt: address, VLAN where it has them, and port
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate switch show
  linerate switch show a --json")]
pub(crate) struct SwitchShow {
    /// Only those behind this port
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Print JSON, one object per host
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) at: SwitchAt,
}

/// Splits `NAME=VALUE`.
fn parse_of_port(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    let (name, value) = parts.ok_or("write the port's name, = and the value")?;
    Ok((name.into(), value.into()))
}

fn parse_mac_of_port(text: &str) -> Result<(String, MacAddr), String> {
    let (name, mac) = parse_of_port(text)?;
    let mac = mac.parse().map_err(|error| format!("{mac}: {error}"))?;
    Ok((name, mac))
}

//! Arguments of `linerate pcap`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;
use linerate_port::{PortUri, parse_device};

use crate::units::whole;

/// Run a program that is written for libpcap on ports
#[derive(Debug, Args)]
#[command(
    override_usage = "linerate pcap [OPTIONS] -- <PROGRAM>...
       linerate pcap [OPTIONS] --print [-- <PROGRAM>...]",
    after_help = "\
Examples:
  linerate pcap -- tcpdump -n -i eth1
      captures by packet:eth1; the host has its packets as well
  linerate pcap -- tcpdump -n -i memif:/run/m.sock
      a port by its name: any that `linerate ports` has
  linerate pcap --take -- nmap -e eth1 10.1.0.0/24
      by xdp:eth1: while it runs, the host does not see what eth1 receives
  linerate pcap --map eth1=cluster:/run/cluster.sock?name=ids -- snort -i eth1 -c snort.conf
      what a cluster gives its consumer ids, beside others who capture the same packets
  linerate pcap --print
      variables for a shell or a service that starts programs itself

The program runs as it is: its libpcap is ours, which does what is live on a port and has the
system's libpcap do the rest (files, compiling of filters, interfaces that are not mapped). Its exit
code and how signals end it are the program's own; what is opened is said on standard error, and so it
is when the program has loaded a libpcap of its own, of which ours cannot take the place.

A program that gets more rights than who starts it (set-user-ID, capabilities of its file) ignores
all this, as the loader's rules are: start it as root, or take a copy without them."
)]
pub(crate) struct Pcap {
    /// Have the device NAME be PORT, for this program; may be given several times. PORT is any port,
    /// or cluster:SOCKET?name=CONSUMER
    #[arg(long, short = 'm', value_name = "NAME=PORT", value_parser = mapping)]
    pub(crate) map: Vec<String>,

    /// Have other Ethernet interfaces be taken (xdp:), not copied from (packet:). Refused
    /// where the host has addresses
    #[arg(long)]
    pub(crate) take: bool,

    /// Take interfaces although the host has addresses on them
    #[arg(long, requires = "take")]
    pub(crate) disconnect: bool,

    /// Leave other interfaces to the system's libpcap
    #[arg(long, conflicts_with = "take")]
    pub(crate) only_mapped: bool,

    /// Our library [default: the one that was built or installed with this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,

    /// The system's libpcap [default: where distributions have it]
    #[arg(long, value_name = "FILE")]
    pub(crate) system: Option<PathBuf>,

    /// Say nothing about what is opened
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,

    /// Print the variables that a program would be run with, and run none; PROGRAM, if there is one, is
    /// looked at for a libpcap of its own and for rights with which it ignores these variables
    #[arg(long)]
    pub(crate) print: bool,

    /// Look what libpcap a process has loaded, and say so where it is none of ours
    #[arg(long, hide = true, value_name = "PROCESS", requires = "library",
          value_parser = whole(1u32..=u32::MAX))]
    pub(crate) watch: Option<u32>,

    /// Look at it, and have no other process do so
    #[arg(long, hide = true, requires = "watch")]
    pub(crate) detached: bool,

    /// The program, and its arguments
    #[arg(
        last = true,
        required_unless_present_any = ["print", "watch"],
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

/// A name and its port, as the library reads them.
fn mapping(text: &str) -> Result<String, String> {
    if text.contains(',') {
        return Err("a comma ends an entry; write it as %2C".into());
    }
    match text.split_once('=') {
        Some((name, port)) if port.starts_with("cluster:") && !name.is_empty() => {
            let port: PortUri = port.parse().map_err(|error| format!("{error}"))?;
            match port.written() {
                [(key, Some(_))] if key == "name" => Ok(text.into()),
                _ => Err("a cluster is written cluster:SOCKET?name=CONSUMER".into()),
            }
        }
        _ => parse_device(text).map(|_| text.into()).map_err(|error| error.to_string()),
    }
}

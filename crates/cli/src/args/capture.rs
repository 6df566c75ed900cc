//! Arguments of `linerate capture`: names are tcpdump's where it has one.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args};
use linerate_worker::Idle;

use super::{Host, Memory, Readiness, Running, Showing};
use crate::units::{parse_count, parse_duration, parse_file_size, parse_size, whole};

/// Record or show the packets of an interface, as tcpdump does: a copy, nothing is taken away
#[derive(Debug, Args)]
#[command(
    override_usage = "\
linerate capture [OPTIONS] PORT FILE [EXPRESSION]...
       linerate capture [OPTIONS] PORT --print [EXPRESSION]...
       linerate capture [OPTIONS] -i PORT [-w FILE] [EXPRESSION]...
       linerate capture [OPTIONS] -r FILE [-w FILE] [EXPRESSION]...
       linerate capture -D",
    after_help = "\
Examples:
  linerate capture eth1 trace.pcapng
      a copy of what eth1 sends and receives; the host goes on using it
  linerate capture -i eth1 -n tcp port 443 and not host 10.0.0.1
      a line for each such packet, as from tcpdump
  linerate capture eth1 trace.pcap -s 128 --duration 60s 'icmp or arp'
  linerate capture eth1 trace.pcapng --rotate-size 100M --keep 10
      the last gigabyte
  linerate capture -i eth1 -w trace-%H%M.pcap -G 600
      a file for each ten minutes, the name as from tcpdump
  linerate capture eth1 - | tcpdump -r -
  linerate capture -r trace.pcapng -c 20 -e vlan
  linerate capture xdp:eth1 trace.pcap --take
      takes all that arrives away from the host, at the speed of AF_XDP

PORT is any port, and an interface's name means packet:NAME. xdp:NAME, too, is copied from with
a packet: port unless --take is given. EXPRESSION is in tcpdump's language (pcap-filter(7), for
Ethernet), and decided before a packet is copied, by the kernel where the port has it. An expression
that asks for what merging and unfinished checksums change (less 100, tcp[13] = 2) is decided behind
the copy. The outer VLAN tag of what an interface has is beside a packet, as for tcpdump: ip is IP with
and without a tag, ip and not vlan IP without one; in a file tags are in packets. It may be in one word or several. The names in it are those the system has: of hosts (which may ask a name
server), networks, stations, ports and protocols. Numbers are never turned into names.

The format is pcapng when FILE ends in .pcapng, else pcap with nanoseconds. What was dropped
before it could be recorded is in the table and the summary. Times of day are those of UTC, but
for the names of files with -G, which are those of this machine's zone. A file is complete when the
next one is begun."
)]
pub(crate) struct Capture {
    /// The port, the file and the expression: without the port behind -i or -r, without the file
    /// behind these, -w or --print, and the expression alone behind -d
    #[arg(value_name = "PORT | FILE | EXPRESSION")]
    pub(crate) words: Vec<String>,

    /// List the interfaces that can be captured from, with their numbers for -i, and stop
    #[arg(short = 'D', long = "list-interfaces")]
    pub(crate) list: bool,

    /// Port to receive from, or an interface's number in the list of -D, and print packets unless
    /// there is -w
    #[arg(long, short = 'i', value_name = "PORT", conflicts_with = "read")]
    pub(crate) interface: Option<String>,

    /// Read packets from this file instead of a port, and print them unless there is -w
    #[arg(long, short = 'r', value_name = "FILE")]
    pub(crate) read: Option<PathBuf>,

    /// File to write; - is standard output
    #[arg(long, short = 'w', value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,

    /// Print a line for each packet on standard output, also when a file is written
    #[arg(long)]
    pub(crate) print: bool,

    /// Read the expression from this file
    #[arg(long, short = 'F', value_name = "FILE")]
    pub(crate) filter_file: Option<PathBuf>,

    /// Print the expression's program, as a kernel that is given it would run it, and stop
    #[arg(short = 'd', long = "dump-filter")]
    pub(crate) dump: bool,

    /// Stop after this many packets (10k, 5M) of those wanted
    #[arg(long, short = 'c', value_name = "PACKETS", value_parser = parse_count)]
    pub(crate) count: Option<u64>,

    /// Packets of which direction, for a port on an interface: in, out or inout
    #[arg(long, short = 'Q', value_name = "DIRECTION", default_value = "inout",
          value_parser = ["in", "out", "inout"])]
    pub(crate) direction: String,

    /// Do not make the interface promiscuous
    #[arg(long, short = 'p')]
    pub(crate) no_promiscuous_mode: bool,

    /// Take packets away from the host instead of copying them, as far as the port does
    #[arg(long)]
    pub(crate) take: bool,

    /// Print Ethernet addresses and types as well
    #[arg(short = 'e', long = "link-header", help_heading = "Printing")]
    pub(crate) link: bool,

    /// Decode more: lifetimes, identifications, options and checksums of headers, and all lines of
    /// requests in text; twice: also checksums of UDP over IPv4
    #[arg(short = 'v', long = "verbose", action = ArgAction::Count, help_heading = "Printing")]
    pub(crate) verbose: u8,

    /// Print TCP's sequence numbers as they are, not relative to the connection's first
    #[arg(short = 'S', long = "absolute-tcp-sequence-numbers", help_heading = "Printing")]
    pub(crate) absolute: bool,

    /// Print no time; twice: seconds since 1970; three times: since the packet before; four times:
    /// with the date; five times: since the first packet
    #[arg(short = 't', action = ArgAction::Count, help_heading = "Printing")]
    pub(crate) time: u8,

    /// Print the bytes behind the Ethernet header, too
    #[arg(short = 'x', long = "hex", help_heading = "Printing")]
    pub(crate) hex: bool,

    /// Print these bytes, and as text
    #[arg(short = 'X', long = "hex-text", help_heading = "Printing")]
    pub(crate) hex_text: bool,

    /// Print these bytes as text alone
    #[arg(short = 'A', long = "text", help_heading = "Printing")]
    pub(crate) text: bool,

    /// Turn no number into a name: always so
    #[arg(short = 'n', long = "no-names", action = ArgAction::Count, help_heading = "Printing")]
    pub(crate) no_names: u8,

    /// Write each line as soon as no more packets wait: always so
    #[arg(short = 'l', long = "line-buffered", help_heading = "Printing")]
    pub(crate) line_buffered: bool,

    /// Keep at most this many bytes of each packet; 0: all
    #[arg(long, short = 's', alias = "snapshot-length", value_name = "SIZE",
          value_parser = parse_size, help_heading = "Files")]
    pub(crate) snaplen: Option<usize>,

    /// Write each packet as soon as no more packets wait: always so
    #[arg(short = 'U', long = "packet-buffered", help_heading = "Files")]
    pub(crate) packet_buffered: bool,

    /// File format: pcap or pcapng [default: by the file's name]
    #[arg(long, value_name = "FORMAT", value_parser = ["pcap", "pcapng"], help_heading = "Files")]
    pub(crate) format: Option<String>,

    /// Begin a new file when one is larger than this: millions of bytes, or with k, m or g behind
    /// it KiB, MiB or GiB. Files are named as tcpdump names them: FILE, FILE1, FILE2
    #[arg(short = 'C', value_name = "SIZE", value_parser = parse_file_size, help_heading = "Files",
          conflicts_with_all = ["rotate_size", "rotate_time", "rotate_packets", "keep"])]
    pub(crate) file_size: Option<u64>,

    /// Begin a new file after so many seconds; FILE has conversions of strftime(3) for the time, as
    /// in trace-%H%M%S.pcap
    #[arg(short = 'G', value_name = "SECONDS", help_heading = "Files",
          value_parser = whole(1u32..=31_622_400),
          conflicts_with_all = ["rotate_size", "rotate_time", "rotate_packets", "keep"])]
    pub(crate) file_seconds: Option<u32>,

    /// With -C write so many files, and begin with the first again; with -G alone stop after so
    /// many
    #[arg(short = 'W', value_name = "FILES", help_heading = "Files",
          value_parser = whole(1u32..=1_000_000))]
    pub(crate) file_count: Option<u32>,

    /// Begin a new file when one has this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Files")]
    pub(crate) rotate_size: Option<usize>,

    /// Begin a new file after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Files")]
    pub(crate) rotate_time: Option<Duration>,

    /// Begin a new file after this many packets
    #[arg(long, value_name = "PACKETS", value_parser = parse_count, help_heading = "Files")]
    pub(crate) rotate_packets: Option<u64>,

    /// Keep only the last files
    #[arg(long, value_name = "FILES", help_heading = "Files",
          value_parser = whole(0u32..=u32::MAX))]
    pub(crate) keep: Option<u32>,

    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Running")]
    duration: Option<Duration>,

    /// Core to run on [default: one the system chooses]
    #[arg(long, value_name = "CORE", help_heading = "Running")]
    cores: Option<String>,

    /// Most packets to move at once
    #[arg(long, value_name = "PACKETS", default_value_t = 32, help_heading = "Running",
          value_parser = whole(1u16..=2048))]
    burst: u16,

    /// Idle strategy: poll, adaptive (poll, then sleep) or block
    #[arg(long, value_name = "STRATEGY", default_value_t = Idle::Adaptive,
          help_heading = "Running")]
    idle: Idle,

    #[command(flatten)]
    pub(crate) host: Host,

    #[command(flatten)]
    readiness: Readiness,

    #[command(flatten)]
    showing: Showing,

    #[command(flatten)]
    memory: Memory,
}

impl Capture {
    /// The options of a command that runs ports, with packet buffers of that size unless another was
    /// asked for.
    pub(crate) fn running(&self, buffer_size: Option<usize>) -> Running {
        // The files of -G are full after so much time, with packets or without.
        let files = match (self.file_size, self.file_seconds, self.file_count) {
            (None, Some(seconds), Some(files)) => {
                Some(Duration::from_secs(u64::from(seconds) * u64::from(files)))
            }
            _ => None,
        };
        let buffer_size = self.memory.buffer_size.or(buffer_size);
        Running {
            duration: self.duration.into_iter().chain(files).min(),
            count: self.count,
            cores: self.cores.clone(),
            burst: self.burst,
            idle: self.idle,
            readiness: self.readiness,
            showing: self.showing.clone(),
            memory: Memory { buffer_size, ..self.memory.clone() },
        }
    }
}

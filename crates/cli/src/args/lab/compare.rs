//! Arguments of `linerate lab compare`.

use std::time::Duration;

use clap::Args;
use linerate_lab::{Rate, Sizes};

use super::bench::Output;
use crate::units::{parse_duration, whole};

/// Compare forwarders in one run: ours, DPDK's, Open vSwitch, libpcap, Linux
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo linerate lab compare
      all that this machine has, in turns, with ratios and their quartiles
  sudo linerate lab compare --only testpmd,bridge --rounds 11
  sudo linerate lab compare --json | jq 'select(.event == \"result\").rows'

Every turn has two new veth pairs in a network namespace of its own; nothing outside is
touched, and all is removed at the end, also after Ctrl-C. What is missing is named, with the
Debian package that has it. Ratios are ours to theirs within a round.")]
pub(crate) struct Compare {
    /// Only forwarders with one of these in their name, besides the first
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Rounds: each forwarder has a turn in each
    #[arg(long, short = 'n', value_name = "ROUNDS", default_value_t = 5,
          value_parser = whole(1u16..=u16::MAX))]
    pub(crate) rounds: u16,

    /// How long each is overloaded in a turn, and measured at a low load
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub(crate) window: Duration,

    /// The low load at which latency is measured
    #[arg(long, value_name = "RATE", default_value = "10kpps")]
    pub(crate) calm: Rate,

    /// Frame sizes: 64, a list 64,128,1518, a sweep 64-1518/64, or imix
    #[arg(long, short = 's', value_name = "SIZES", default_value = "64")]
    pub(crate) size: Sizes,

    /// Driver of the tester's own ports
    #[arg(long, value_name = "DRIVER", default_value = "xdp", value_parser = ["xdp", "packet"])]
    pub(crate) driver: String,

    /// Most frames the tester sends at once
    #[arg(long, value_name = "FRAMES", default_value_t = 32,
          value_parser = whole(1u16..=1024))]
    pub(crate) burst: u16,

    /// Two cores: the tester's and the forwarders' [default: the first and the last]
    #[arg(long, short = 'c', value_name = "CORES")]
    pub(crate) cores: Option<String>,

    #[command(flatten)]
    pub(crate) output: Output,
}

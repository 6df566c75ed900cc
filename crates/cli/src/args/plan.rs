//! Arguments of `linerate plan`.

use std::path::PathBuf;

use clap::Args;
use linerate_model::units::{BitsPerSecond, Hertz, PacketsPerSecond};

use super::Configuration;
use crate::{configuration::variable, units::whole};

/// Say what a configuration will reach, or what hardware a rate needs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate plan results router.click --port ring
      the throughput on this machine, with its interval and what limits it
  linerate plan results router.click --clock 3.5GHz --cores 4 --link 10Gbit/s
      on a faster one with four workers and a link
  linerate plan results firewall.click --packets trace.pcap --rate 14.88Mpps
      clock and cores that forward as much; rules see the packets of the file
  linerate plan results router.click --measure --check
      rules and routes measured as they are; then run, to see how far off the answer is
  linerate plan results --work 300 --rate 10Mpps
      without a configuration: ports and a task of 300 cycles

The configuration runs on sample packets in simulated time to learn how often each of its
elements is visited; no interface is touched. Ports and sources bring packets as fast as they are
taken, timers at their rate. Each element is then charged what it cost when `linerate lab run
elements` measured its class. What that does not say, --measure measures, in seconds: an element
alone, with its arguments (rules, routes, outputs) and on the packets that come to it, or where it
needs others its class in the example of its documentation. For graphs of five elements and more it
measures besides, once, what elements take more among many, which takes half a minute. Without it the
answer says what is not known, and how much wider the interval is for that.")]
pub(crate) struct Plan {
    /// The calibration, or the directory that has it
    #[arg(value_name = "CALIBRATION")]
    pub(crate) calibration: PathBuf,

    #[command(flatten)]
    pub(crate) configuration: Configuration,

    /// Driver whose cost is charged for ports: null, ring, packet or xdp [default: none, packets
    /// come from nowhere; without a configuration ring]
    #[arg(long, value_name = "DRIVER")]
    pub(crate) port: Option<String>,

    /// Clock of the cores [default: that of the calibration]
    #[arg(long, value_name = "CLOCK")]
    pub(crate) clock: Option<Hertz>,

    /// Workers that share the packets
    #[arg(long, value_name = "CORES", default_value_t = 1,
          value_parser = whole(1u32..=1024))]
    pub(crate) cores: u32,

    /// Most packets at once
    #[arg(long, short = 'b', value_name = "PACKETS", default_value_t = 256,
          value_parser = whole(1u16..=2048))]
    pub(crate) burst: u16,

    /// Bytes of a frame with its checksum, for the link
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = whole(64u32..=16000))]
    pub(crate) frame: u32,

    /// The link's bandwidth, as in 10Gbit/s [default: none that limits]
    #[arg(long, value_name = "BANDWIDTH")]
    pub(crate) link: Option<BitsPerSecond>,

    /// Cycles of a task that is not in the configuration
    #[arg(long, value_name = "CYCLES", default_value_t = 0,
          value_parser = whole(0u32..=u32::MAX))]
    pub(crate) work: u32,

    /// Say what clock and how many cores reach this rate, as in 14.88Mpps
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<PacketsPerSecond>,

    /// Capture file with the packets the configuration is tried on [default: UDP to 198.19.0.1]
    #[arg(long, value_name = "FILE")]
    pub(crate) packets: Option<PathBuf>,

    /// Handler to write before: what tables would have learnt, as in 'arp.insert=1.2.3.4 2:0:0:0:0:1'
    #[arg(long, value_name = "HANDLER=VALUE", value_parser = written)]
    pub(crate) write: Vec<(String, String)>,

    /// Measure now what elements cost here that were not measured with these arguments and packets,
    /// each alone, and keep it in the calibration
    #[arg(long)]
    pub(crate) measure: bool,

    /// Then run the configuration on the samples, which come from memory as fast as it takes
    /// them, and say how far off the answer is
    #[arg(long, conflicts_with_all = ["clock", "cores", "link", "work"])]
    pub(crate) check: bool,

    /// Confidence of intervals, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 90,
          value_parser = whole(1u8..=99))]
    pub(crate) confidence: u8,

    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn written(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("{text:?} is not HANDLER=VALUE");
    text.split_once('=').map(|(name, value)| (name.into(), value.into())).ok_or_else(wrong)
}

impl Plan {
    /// Returns true if there is a configuration to plan.
    pub(crate) fn has_configuration(&self) -> bool {
        let words = &self.configuration.words;
        self.configuration.expression.is_some() || words.iter().any(|word| variable(word).is_none())
    }
}

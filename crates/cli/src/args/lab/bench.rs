//! Arguments of the benchmarks of a device.

use std::time::Duration;

use clap::{Args, ValueEnum};
use linerate_lab::{Rate, search::Goal};
use linerate_port::PortUri;
use linerate_worker::Idle;

use super::super::{Configuration, Flows, Memory};
use crate::units::{parse_count, parse_duration, whole};

/// The device under test and the traffic through it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Device and traffic")]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) device: Configuration,

    /// Port to send by, when the device is outside of this process
    #[arg(long, value_name = "PORT", requires = "rx",
          conflicts_with_all = ["expression", "words"])]
    pub(crate) tx: Option<PortUri>,

    /// Port by which the device sends frames back
    #[arg(long, value_name = "PORT", requires = "tx")]
    pub(crate) rx: Option<PortUri>,

    #[command(flatten)]
    pub(crate) flows: Flows,

    /// Allow high rates to addresses not set aside for tests: the network is isolated (RFC 6815)
    #[arg(long)]
    pub(crate) isolated: bool,

    /// Highest load to try, as 1.5Mpps, 100Mbit/s or 25% [default: what the generator can send, or
    /// the link's rate]
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,

    /// Workers of the configuration
    #[arg(long, short = 'j', value_name = "WORKERS", default_value_t = 1,
          value_parser = whole(1u16..=256), help_heading = "Running")]
    pub(crate) workers: u16,

    /// Cores: the first for generator and sink, then one for each of the configuration's workers
    /// [default: the system chooses]
    #[arg(long, short = 'c', value_name = "CORES", help_heading = "Running")]
    pub(crate) cores: Option<String>,

    /// Most packets in a frame of the configuration
    #[arg(long, short = 'b', value_name = "PACKETS", default_value_t = 256,
          value_parser = whole(1u16..=2048), help_heading = "Running")]
    pub(crate) vector: u16,

    /// Idle strategy of the configuration: poll, adaptive or block
    #[arg(long, short = 'i', value_name = "STRATEGY", default_value_t = Idle::Poll,
          help_heading = "Running")]
    pub(crate) idle: Idle,

    /// Frames the device's ports hold in each direction before they lose some
    #[arg(long, value_name = "FRAMES", default_value_t = 1024,
          value_parser = whole(64u32..=65536), help_heading = "Running")]
    pub(crate) queue: u32,

    /// Most frames the generator sends at once
    #[arg(long, value_name = "FRAMES", default_value_t = 32,
          value_parser = whole(1u16..=1024), help_heading = "Running")]
    pub(crate) burst: u16,

    /// How late a frame may be sent; later ones are given up, and make the trial void
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_duration,
          help_heading = "Trials")]
    pub(crate) late: Duration,

    /// How long frames on the way are waited for after a trial (RFC 2544: 2s)
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration,
          help_heading = "Trials")]
    pub(crate) residual: Duration,

    /// Share of frames the generator may fail to send before a trial is void
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_share,
          help_heading = "Trials")]
    pub(crate) void_above: f64,

    /// How often a void trial is repeated before the generator is called the limit
    #[arg(long, value_name = "TIMES", default_value_t = 3, help_heading = "Trials",
          value_parser = whole(0u32..=u32::MAX))]
    pub(crate) retries: u32,

    /// Go on although this platform loses more by itself than can be told apart
    #[arg(long, help_heading = "Trials")]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) output: Output,

    #[command(flatten)]
    pub(crate) memory: Memory,
}

/// How a benchmark prints.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Print JSON on standard output, one object per line
    #[arg(long, help_heading = "Showing")]
    pub(crate) json: bool,

    /// Show only results, not what leads to them
    #[arg(long, short = 'q', help_heading = "Showing")]
    pub(crate) quiet: bool,
}

/// Known properties of a device that is to be measured.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Known {
    /// The device's throughput [default: it is searched for first]
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    pub(crate) throughput: Option<Rate>,
}

/// A goal with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// No loss in most of 21 trials of 1 s
    Ndr,
    /// At most 0.5 % loss in most of 21 trials of 1 s
    Pdr,
    /// No loss in a trial of 60 s (RFC 2544)
    Rfc2544,
    /// No loss in one of two trials of 60 s (ETSI GS NFV-TST 009)
    Tst009,
}

impl Preset {
    pub(crate) fn goal(self) -> Goal {
        match self {
            Preset::Ndr => Goal::ndr(),
            Preset::Pdr => Goal::pdr(),
            Preset::Rfc2544 => Goal::rfc2544(),
            Preset::Tst009 => Goal::tst009(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Preset::Ndr => "NDR",
            Preset::Pdr => "PDR",
            Preset::Rfc2544 => "RFC 2544",
            Preset::Tst009 => "TST 009",
        }
    }
}

/// Find the rates a device forwards with no or little loss (MLRsearch, RFC 9971)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab ndr -e 'FromPort($IN) -> EtherMirror -> ToPort($OUT)'
      a configuration, run in this process: it receives from $IN and sends to $OUT
  linerate lab ndr router.click --dst 198.19.0.0/24 --cores 0,1
      a file with $IN and $OUT in it; generator and sink on core 0, its worker on core 1
  linerate lab ndr --goal rfc2544 --tx xdp:eth1 --rx xdp:eth2
      any device between two interfaces; trials of 60 s
  linerate lab ndr -e 'FromPort($IN) -> ToPort($OUT)' --trial 200ms --sum 2s --width 0.05
      a quick look
  linerate lab ndr router.click --json | jq 'select(.event == \"result\")'

First generator and sink are measured without the device. A trial that the generator did not
send in full is void and never a result.")]
pub(crate) struct Ndr {
    #[command(flatten)]
    pub(crate) bench: Bench,

    /// Goal of the search
    #[arg(
        long,
        short = 'g',
        value_name = "GOALS",
        value_delimiter = ',',
        default_value = "ndr,pdr",
        help_heading = "Search"
    )]
    pub(crate) goal: Vec<Preset>,

    /// Length of full trials [default: the goal's]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Search")]
    pub(crate) trial: Option<Duration>,

    /// How long a load is measured to be decided [default: the goal's]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Search")]
    pub(crate) sum: Option<Duration>,

    /// Share of frames that may be lost [default: the goal's]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Search")]
    pub(crate) loss: Option<f64>,

    /// Share of trials that may lose more than that [default: the goal's]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Search")]
    pub(crate) exceed: Option<f64>,

    /// How close the bounds must come, as a share of the upper [default: the goal's]
    #[arg(long, value_name = "SHARE", value_parser = parse_share, help_heading = "Search")]
    pub(crate) width: Option<f64>,

    /// End the search when trials have taken this long together
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Search")]
    pub(crate) longest: Option<Duration>,
}

/// Measure a device's frame loss against load (RFC 2544, 26.3)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab loss -e 'FromPort($IN) -> ToPort($OUT)'
      from the highest load down until two trials lose nothing
  linerate lab loss --tx packet:eth1 --rx packet:eth2 --max-rate 200kpps --step 0.05")]
pub(crate) struct Loss {
    #[command(flatten)]
    pub(crate) bench: Bench,

    /// Step between loads as a share of the highest, 0.001 to 0.1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = parse_step,
          help_heading = "Search")]
    pub(crate) step: f64,

    /// Length of a trial
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration,
          help_heading = "Search")]
    pub(crate) trial: Duration,
}

/// Find the longest burst a device takes without loss (RFC 2544, 26.4; RFC 9004)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab back-to-back -e 'FromPort($IN) -> Queue(500) -> RatedUnqueue(10000) -> ToPort($OUT)' \\
      --max-rate 200kpps --throughput 10kpps
  linerate lab back-to-back --tx xdp:eth1 --rx xdp:eth2 --repetitions 50")]
pub(crate) struct BackToBack {
    #[command(flatten)]
    pub(crate) bench: Bench,

    #[command(flatten)]
    pub(crate) known: Known,

    /// The longest burst, as time at the highest rate
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration,
          help_heading = "Search")]
    pub(crate) longest: Duration,

    /// How close a search comes, in frames
    #[arg(long, value_name = "FRAMES", default_value = "1", value_parser = parse_count,
          help_heading = "Search")]
    pub(crate) resolution: u64,

    /// Searches to average over (RFC 2544: 50)
    #[arg(long, value_name = "TIMES", default_value_t = 10,
          value_parser = whole(1u32..=u32::MAX), help_heading = "Search")]
    pub(crate) repetitions: u32,
}

/// Measure how long a device loses frames after an overload (RFC 2544, 26.5)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab recovery -e 'FromPort($IN) -> Queue(500) -> RatedUnqueue(10000) -> ToPort($OUT)' \\
      --throughput 10kpps
  linerate lab recovery --tx xdp:eth1 --rx xdp:eth2 --overload 60s --repetitions 20")]
pub(crate) struct Recovery {
    #[command(flatten)]
    pub(crate) bench: Bench,

    #[command(flatten)]
    pub(crate) known: Known,

    /// How long the device is overloaded (RFC 2544: 60s)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration,
          help_heading = "Search")]
    pub(crate) overload: Duration,

    /// How long half of that load follows
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration,
          help_heading = "Search")]
    pub(crate) after: Duration,

    /// How often
    #[arg(long, value_name = "TIMES", default_value_t = 5,
          value_parser = whole(1u32..=u32::MAX), help_heading = "Search")]
    pub(crate) repetitions: u32,
}

/// Measure a device's latency against load (RFC 8219)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  linerate lab latency -e 'FromPort($IN) -> EtherMirror -> ToPort($OUT)'
      at 10 % to 95 % of the throughput, which is searched for first
  linerate lab latency --tx xdp:eth1 --rx xdp:eth2 --throughput 1Mpps --shares 0.1,0.5,0.9

Every frame carries its time of sending. Generator and sink must be the same machine, as they
are here.")]
pub(crate) struct LatencyArgs {
    #[command(flatten)]
    pub(crate) bench: Bench,

    #[command(flatten)]
    pub(crate) known: Known,

    /// Shares of it to measure at
    #[arg(long, value_name = "SHARES", value_delimiter = ',',
          default_value = "0.1,0.25,0.5,0.75,0.9,0.95", value_parser = parse_share,
          help_heading = "Search")]
    pub(crate) shares: Vec<f64>,

    /// Length of a trial (RFC 8219: 60s or more)
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration,
          help_heading = "Search")]
    pub(crate) trial: Duration,
}

/// Parses a share of a whole: a number from 0 to 1, or a percentage.
fn parse_share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = match text.strip_suffix('%') {
        Some(percent) => number(percent).map(|percent| percent / 100.0),
        None => number(text),
    };
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is not a share: write 0.05 or 5%"))
}

/// Parses a step of a loss curve, for which RFC 2544 allows a tenth at most.
fn parse_step(text: &str) -> Result<f64, String> {
    let step = parse_share(text)?;
    let fits = (0.001..=0.1).contains(&step);
    fits.then_some(step).ok_or_else(|| format!("{text:?} is no step: write 0.001 to 0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(parse_share("0.05"), Ok(0.05));
        assert_eq!(parse_share("5 %"), Ok(0.05));
        for wrong in ["", "-0.1", "1.5", "150%", "half", "NaN"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_step("10%"), Ok(0.1));
        for wrong in ["0", "0.2", "0.01%", "x"] {
            assert!(parse_step(wrong).is_err(), "{wrong}");
        }
    }
}

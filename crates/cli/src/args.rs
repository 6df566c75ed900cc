//! The command line: the one source of the help, the man pages and the shell
//! completions.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use linerate_packet::MacAddr;
use linerate_port::PortUri;
use linerate_worker::Idle;

use crate::{
    exit,
    units::{parse_count, parse_duration, parse_size},
};

/// Move packets at the speed of the link and see what each of them costs
#[derive(Debug, Parser)]
#[command(name = "linerate", version, max_term_width = 100, after_help = exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(crate) enum Command {
    Forward(Forward),
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

    /// Stop after this many packets (10k, 5M) in each direction
    #[arg(long, short = 'n', value_name = "PACKETS", value_parser = parse_count)]
    pub(crate) count: Option<u64>,

    /// Cores to run workers on, one worker each, as in 1 or 0,2-5 [default: one worker, on a core
    /// the system chooses]
    #[arg(long, short = 'c', value_name = "CORES")]
    pub(crate) cores: Option<String>,

    /// Most packets to move at once
    #[arg(long, short = 'b', value_name = "PACKETS", default_value_t = 32,
          value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub(crate) burst: u16,

    /// What to do when there is nothing to do: poll, adaptive (poll, then sleep) or block
    #[arg(long, short = 'i', value_name = "STRATEGY", default_value_t = Idle::Adaptive)]
    pub(crate) idle: Idle,

    /// Time between two lines of the table
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,

    /// Print no table, only the summary
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,

    /// Print JSON, one object per line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: Memory,
}

/// Options of the packet memory.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Packet memory")]
pub(crate) struct Memory {
    /// Memory for packets (4M, 1G)
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    pub(crate) arena: usize,

    /// Bytes of one packet buffer, headroom included
    #[arg(long, value_name = "SIZE", default_value = "2112", value_parser = parse_size)]
    pub(crate) buffer_size: usize,

    /// Do not try for 2 MiB pages
    #[arg(long)]
    pub(crate) no_huge: bool,

    /// Take the memory from this NUMA node [default: the kernel's choice]
    #[arg(long, value_name = "NODE")]
    pub(crate) numa_node: Option<u32>,
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

Run `linerate ports` for the interfaces there are and `linerate help` for all commands.")]
pub(crate) struct Forward {
    /// Port to take packets from
    #[arg(value_name = "A")]
    pub(crate) from: PortUri,

    /// Port to give them to
    #[arg(value_name = "B")]
    pub(crate) to: PortUri,

    /// Forward from B to A as well
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

    #[test]
    fn bad_values_are_refused_when_parsed() {
        for bad in [
            &["--burst", "0"][..],
            &["--burst", "2049"],
            &["--idle", "sleep"],
            &["--arena", "lots"],
            &["--duration", "soon"],
            &["--swap-mac", "--set-dst", "02:00:00:00:00:01"],
        ] {
            let line = ["linerate", "forward", "null:", "null:"].iter().chain(bad);
            assert!(Cli::try_parse_from(line).is_err(), "{bad:?}");
        }
    }
}

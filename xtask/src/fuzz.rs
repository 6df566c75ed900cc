//! `cargo xtask fuzz`: libFuzzer on the stable toolchain.
//!
//! cargo-fuzz wants a nightly compiler; libFuzzer itself wants only code compiled with LLVM's
//! coverage instrumentation, which the stable compiler can insert by code generation flags (the
//! list below is that of clang's `-fsanitize=fuzzer`). Only a C++ compiler is needed, for
//! libFuzzer's own sources. The targets are the programs of the separate workspace `fuzz/`:
//! `fuzz/seeds/TARGET` holds inputs kept in the repository, `fuzz/dictionaries/TARGET.dict` words
//! to make inputs of, `fuzz/corpus/TARGET` the inputs found here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use linerate_test_support::programs;
use serde::Deserialize;

use crate::{apart, shell};

/// Edge coverage with inline counters, a table of program counters, and comparisons with their
/// operands, in one code generation unit so that edges are not counted twice.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// Options of libFuzzer beside the usual ones, by target. An input of `classes` is a list of choices, of
/// which a graph takes up to some hundred; libFuzzer alone tries short ones for long.
const OPTIONS: &[(&str, &[&str])] = &[("classes", &["-len_control=0", "-max_len=160"])];

/// Arguments of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask fuzz                            each target for five minutes
  cargo xtask fuzz --list                     the targets
  cargo xtask fuzz headers --seconds 60
  cargo xtask fuzz control                    clients of a control socket; likewise script,
                                              and configuration: any graph on any packets
  cargo xtask fuzz memif --sanitize           a peer in shared memory that plays foul; likewise vhost,
                                              shared: a member of a shared arena, and cluster: a
                                              consumer, sharing memory or in memory of its own
  cargo xtask fuzz filter                     programs of classic BPF, by both forms they are run in
  cargo xtask fuzz expression                 texts of filters, and the programs they become
  cargo xtask fuzz openflow                   messages of a controller; controller: an agent that
                                              is told them
  cargo xtask fuzz extract                    headers of packets, read and changed by the flow switch
  cargo xtask fuzz vectors                    whole frames beside single packets; likewise classes: every
                                              class of the library between small queues
  cargo xtask fuzz headers --reproduce fuzz/artifacts/headers/crash-0123...")]
pub(crate) struct Args {
    /// A program of fuzz/Cargo.toml, or all of them in turn.
    #[arg(default_value = "all")]
    target: String,
    /// How long to fuzz each target. With 0 only the seeds and the corpus are run.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// With the address sanitizer, as `cargo xtask sanitize address` has it.
    #[arg(long)]
    sanitize: bool,
    /// Run this one input instead.
    #[arg(long, value_name = "FILE", conflicts_with = "seconds")]
    reproduce: Option<PathBuf>,
    /// List the targets.
    #[arg(long)]
    list: bool,
}

/// The part of `fuzz/Cargo.toml` that names the targets.
#[derive(Debug, Deserialize)]
struct Manifest {
    #[serde(default)]
    bin: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

/// The manifest of the fuzz workspace.
pub(crate) fn manifest() -> PathBuf {
    directory().join("Cargo.toml")
}

fn directory() -> PathBuf {
    shell::root().join("fuzz")
}

/// A subcommand of cargo there, for what is not to be fuzzed: compiled without instrumentation.
pub(crate) fn cargo(subcommand: &str, arguments: &[&str]) -> Result<Command> {
    apart::cargo(&directory(), "fuzz-check", subcommand, arguments)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let all = targets()?;
    if args.list {
        println!("{}", all.join("\n"));
        return Ok(());
    }
    let chosen: Vec<_> =
        all.iter().filter(|name| args.target == "all" || args.target == **name).collect();
    if chosen.is_empty() {
        bail!("no fuzz target `{}`; there are: {}", args.target, all.join(", "));
    }
    if programs::find("c++").is_none() {
        bail!("fuzzing needs a C++ compiler: install the Debian package g++");
    }
    let host = shell::host_triple()?;
    if let Some(input) = &args.reproduce {
        let [target] = chosen[..] else { bail!("name the one target `--reproduce` is for") };
        // Targets work in a directory of their own.
        let input = input.canonicalize().with_context(|| format!("no {}", input.display()))?;
        let program = build(target, &host, args.sanitize)?;
        return shell::run(Command::new(program).arg(input));
    }
    let mut found = Vec::new();
    for target in chosen {
        let program = build(target, &host, args.sanitize)?;
        if let Err(error) = fuzz(target, &program, args.seconds) {
            found.push(format!("{target}: {error:#}{}", artefacts(target)?));
        }
    }
    if !found.is_empty() {
        bail!("fuzzing found something\n{}", found.join("\n"));
    }
    println!("no finding");
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let text = fs::read_to_string(manifest()).context("cannot read fuzz/Cargo.toml")?;
    let manifest: Manifest = toml::from_str(&text).context("fuzz/Cargo.toml is not valid")?;
    Ok(manifest.bin.into_iter().map(|target| target.name).collect())
}

fn build(target: &str, host: &str, sanitize: bool) -> Result<PathBuf> {
    let mut command = shell::cargo(&["build", "--release", "--bin", target, "--target", host]);
    command.arg("--manifest-path").arg(manifest());
    // Named, so that the caller's settings cannot put the program elsewhere.
    let programs = directory().join(if sanitize { "target/asan" } else { "target" });
    command.arg("--target-dir").arg(&programs);
    if sanitize {
        let flags = format!("{FLAGS} -Zsanitizer=address");
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
    } else {
        command.env("RUSTFLAGS", FLAGS);
    }
    shell::run(&mut command)?;
    Ok(programs.join(host).join("release").join(target))
}

fn fuzz(target: &str, program: &Path, seconds: u64) -> Result<()> {
    let [corpus, seeds, artefacts] =
        ["corpus", "seeds", "artifacts"].map(|kind| directory().join(kind).join(target));
    for made in [&corpus, &artefacts] {
        fs::create_dir_all(made).with_context(|| format!("cannot create {}", made.display()))?;
    }
    let mut command = Command::new(program);
    command.arg(format!("-artifact_prefix={}/", artefacts.display()));
    if seconds == 0 {
        command.arg("-runs=0");
    } else {
        command.arg(format!("-max_total_time={seconds}"));
    }
    // One execution that takes longer than this, or needs more memory than this, is a finding. A
    // configuration may ask for half a gigabyte in an argument, more than once.
    command.args(["-timeout=10", "-rss_limit_mb=4096", "-print_final_stats=1"]);
    let options = OPTIONS.iter().filter(|(name, _)| *name == target);
    command.args(options.flat_map(|(_, options)| *options));
    let words = directory().join("dictionaries").join(format!("{target}.dict"));
    if words.is_file() {
        command.arg(format!("-dict={}", words.display()));
    }
    // New inputs go to the first directory; the others are only read.
    command.arg(corpus);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    shell::run(&mut command)
}

/// Returns the commands that run each kept finding again.
fn artefacts(target: &str) -> Result<String> {
    let directory = directory().join("artifacts").join(target);
    let mut text = String::new();
    for entry in
        fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?
    {
        let name = entry.context("cannot list findings")?.file_name();
        text.push_str(&format!(
            "\n  cargo xtask fuzz {target} --reproduce fuzz/artifacts/{target}/{}",
            name.to_string_lossy()
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_targets() {
        let targets = targets().unwrap();
        for (name, _) in OPTIONS {
            assert!(targets.iter().any(|target| target == name), "{name}");
        }
    }
}

//! Our side of a measurement: the program `linerate-bench`, built and run.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::peers::{
    Cycles, FORWARDING_CORE, FilterCycles, LookupCycles, MAIN_CORE, OpCase, Sample, TableCycles,
    command_in,
};
use crate::shell;

/// The built program.
#[derive(Debug)]
pub(crate) struct Ours {
    program: PathBuf,
}

/// The program `linerate` as users have it, built.
pub(crate) fn linerate() -> Result<PathBuf> {
    build("linerate")
}

/// The library that stands for libpcap, built, in a folder of its own under the name that programs look
/// for: that folder.
pub(crate) fn pcap_library() -> Result<PathBuf> {
    let library = build_with("linerate-pcap", &["--lib"], "liblinerate_pcap.so")?;
    let folder = shell::root().join("target/peers/libpcap");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let link = folder.join("libpcap.so.0.8");
    // There from an earlier run, mostly.
    let _ = fs::remove_file(&link);
    symlink(&library, &link).with_context(|| format!("cannot make {}", link.display()))?;
    Ok(folder)
}

/// Builds a program of the package of its name, optimised.
fn build(program: &str) -> Result<PathBuf> {
    build_with(program, &["--bin", program], program)
}

/// Builds a part of a package, optimised: where the file with that name is.
pub(super) fn build_with(package: &str, part: &[&str], file: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", package])
        .args(part)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cannot build {package}");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(PathBuf::from(target).join("release").join(file).canonicalize()?)
}

/// Forwarding that goes on until it has been measured.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// Measures it, which ends it.
    pub(crate) fn measure(mut self) -> Result<Sample> {
        // When it has ended by itself its errors say more.
        let _ = self.0.stdin.take().context("a program without standard input")?.write_all(b"\n");
        let (mut line, mut errors) = (String::new(), String::new());
        self.0.stdout.take().context("no standard output")?.read_to_string(&mut line)?;
        self.0.stderr.take().context("no standard errors")?.read_to_string(&mut errors)?;
        anyhow::ensure!(self.0.wait()?.success(), "linerate-bench forward: {}", errors.trim());
        let line: Value = serde_json::from_str(&line).context("linerate-bench printed no JSON")?;
        let mut sample = sample(&line)?;
        let work = line["work_cycles"].as_u64();
        sample.busy_cycles = Some(work.with_context(|| format!("no work_cycles in {line}"))?);
        Ok(sample)
    }
}

/// Place of a program: namespace and core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramPlacement<'a> {
    /// A network namespace, or the caller's.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) core: usize,
    /// Whether it sleeps while there is nothing to do.
    pub(crate) sleeps: bool,
}

/// A run that ends by itself.
#[derive(Debug)]
pub(crate) struct FiniteRun(Child);

impl FiniteRun {
    fn start(mut command: Command) -> Result<FiniteRun> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(FiniteRun(command.spawn().context("cannot run linerate-bench")?))
    }

    /// Its line, when it has ended.
    pub(crate) fn finish(self) -> Result<Value> {
        let output = self.0.wait_with_output().context("cannot wait for linerate-bench")?;
        if !output.status.success() {
            bail!("linerate-bench: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("linerate-bench printed no JSON")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended, which is their purpose.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Options of a graph with a worker on each of some cores.
fn graph_options(
    at: &str,
    burst: u32,
    warm: Duration,
    time: Duration,
    cores: &[u32],
) -> Vec<String> {
    let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
    let [warm, ms] = [warm, time].map(|time| time.as_millis().to_string());
    let options = [
        ("--at", at.to_owned()),
        ("--burst", burst.to_string()),
        ("--warm", warm),
        ("--ms", ms),
        ("--cores", cores.join(",")),
    ];
    options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
}

/// Reads the result of forwarding from its line.
fn sample(line: &Value) -> Result<Sample> {
    let number = |key: &str| line[key].as_f64().with_context(|| format!("no {key} in {line}"));
    Ok(Sample {
        packets: number("packets")? as u64,
        dropped: line["dropped"].as_u64().unwrap_or(0),
        seconds: number("seconds")?,
        cpu_seconds: number("cpu_seconds")?,
        busy_cycles: None,
    })
}

impl Ours {
    /// Builds it, optimised.
    pub(crate) fn build() -> Result<Ours> {
        Ok(Ours { program: build("linerate-bench")? })
    }

    /// The program, to be run by something else.
    pub(crate) fn program(&self) -> &PathBuf {
        &self.program
    }

    /// Runs it in a network namespace and reads its line.
    fn run(&self, namespace: Option<&str>, arguments: &[&str]) -> Result<Value> {
        let mut command = match namespace {
            None => Command::new(&self.program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(&self.program);
                command
            }
        };
        let output = command.args(arguments).output().context("cannot run linerate-bench")?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("linerate-bench {}: {}", arguments.join(" "), error.trim());
        }
        serde_json::from_slice(&output.stdout).context("linerate-bench printed no JSON")
    }

    /// Describes this machine.
    pub(crate) fn machine(&self) -> Result<Value> {
        self.run(None, &["machine"])
    }

    /// Forwards for about `time`; returns the median of the cost of a packet in short blocks, in
    /// TSC cycles, as the peers' plain loops measure themselves.
    pub(crate) fn forward_in_blocks(
        &self,
        ports: [&str; 2],
        flags: &[&str],
        burst: u32,
        time: Duration,
    ) -> Result<f64> {
        let line = self.forward_line(None, ports, flags, burst, time)?;
        let median = line["cycles_median"].as_f64();
        median.with_context(|| format!("nothing was forwarded: is the machine busy? {line}"))
    }

    /// Forwards for about `time`.
    pub(crate) fn forward(
        &self,
        namespace: Option<&str>,
        ports: [&str; 2],
        flags: &[&str],
        burst: u32,
        time: Duration,
    ) -> Result<Sample> {
        sample(&self.forward_line(namespace, ports, flags, burst, time)?)
    }

    /// Starts to forward on a core, to be measured when the peer is there, too.
    pub(crate) fn start_forward(
        &self,
        ports: &[&str],
        flags: &[&str],
        burst: u32,
        time: Duration,
        core: usize,
    ) -> Result<Running> {
        let (burst, ms) = (burst.to_string(), time.as_millis().to_string());
        let core = core.to_string();
        let mut command = Command::new(&self.program);
        command.arg("forward").args(ports).args(flags);
        command.args(["--on-line", "--burst", &burst, "--ms", &ms, "--core", &core]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().context("cannot run linerate-bench")?;
        Ok(Running(child))
    }

    fn forward_line(
        &self,
        namespace: Option<&str>,
        ports: [&str; 2],
        flags: &[&str],
        burst: u32,
        time: Duration,
    ) -> Result<Value> {
        let (burst, ms) = (burst.to_string(), time.as_millis().to_string());
        let core = FORWARDING_CORE.to_string();
        let mut arguments = vec!["forward", ports[0], ports[1], "--burst", &burst, "--ms", &ms];
        arguments.extend(["--core", &core]);
        arguments.extend(flags);
        self.run(namespace, &arguments)
    }

    /// Runs a configuration for about `time`, or until it ends by itself.
    pub(crate) fn graph(&self, text: &str, burst: u32, time: Option<Duration>) -> Result<Value> {
        self.graph_with(text, burst, time, &[])
    }

    /// As `graph`, with more arguments.
    pub(crate) fn graph_with(
        &self,
        text: &str,
        burst: u32,
        time: Option<Duration>,
        flags: &[&str],
    ) -> Result<Value> {
        let (burst, core) = (burst.to_string(), FORWARDING_CORE.to_string());
        let mut arguments = vec!["graph", "-e", text, "--burst", &burst, "--core", &core];
        let limit = match time {
            Some(time) => ["--ms".to_owned(), time.as_millis().to_string()],
            // The configuration says when it ends.
            None => ["--count".to_owned(), "0".to_owned()],
        };
        arguments.extend(limit.iter().map(String::as_str));
        arguments.extend(flags);
        self.run(None, &arguments)
    }

    /// Runs the configuration in a file for `warm` and then measures it for about `time`; `at` is the
    /// element whose packets count. The file may be of any length.
    pub(crate) fn graph_file(
        &self,
        file: &Path,
        at: &str,
        burst: u32,
        warm: Duration,
        time: Duration,
    ) -> Result<Value> {
        let (burst, core) = (burst.to_string(), FORWARDING_CORE.to_string());
        let (warm, ms) = (warm.as_millis().to_string(), time.as_millis().to_string());
        let file = file.to_string_lossy();
        let options =
            ["--at", at, "--burst", &burst, "--warm", &warm, "--ms", &ms, "--core", &core];
        self.run(None, &[&["graph", &file][..], &options].concat())
    }

    /// Runs the configuration in a file until it ends by itself.
    pub(crate) fn graph_to_end(&self, file: &Path, burst: u32) -> Result<Value> {
        let (burst, core) = (burst.to_string(), FORWARDING_CORE.to_string());
        let file = file.to_string_lossy();
        self.run(None, &["graph", &file, "--burst", &burst, "--core", &core, "--count", "0"])
    }

    /// Starts the same with a worker on each of some cores; packets of all of them count.
    pub(crate) fn graph_on(
        &self,
        file: &Path,
        at: &str,
        burst: u32,
        warm: Duration,
        time: Duration,
        cores: &[u32],
    ) -> Result<FiniteRun> {
        self.start_graph(&[file.as_os_str()], at, burst, warm, time, cores)
    }

    /// As [`Ours::graph_on`], with a configuration given as text.
    pub(crate) fn graph_text_on(
        &self,
        text: &str,
        at: &str,
        burst: u32,
        warm: Duration,
        time: Duration,
        cores: &[u32],
    ) -> Result<FiniteRun> {
        self.start_graph(&["-e".as_ref(), text.as_ref()], at, burst, warm, time, cores)
    }

    fn start_graph(
        &self,
        configuration: &[&OsStr],
        at: &str,
        burst: u32,
        warm: Duration,
        time: Duration,
        cores: &[u32],
    ) -> Result<FiniteRun> {
        let mut command = Command::new(&self.program);
        command.arg("graph").args(configuration);
        command.args(graph_options(at, burst, warm, time, cores));
        FiniteRun::start(command)
    }

    /// Starts a configuration that programs attach to.
    pub(crate) fn serve(
        &self,
        place: ProgramPlacement<'_>,
        text: &str,
        at: &str,
        burst: u32,
        warm: Duration,
        time: Duration,
    ) -> Result<FiniteRun> {
        let mut command = command_in(place.namespace, &self.program);
        command.args(["graph", "-e", text]);
        command.args(graph_options(at, burst, warm, time, &[place.core as u32]));
        command.args(["--idle", if place.sleeps { "block" } else { "poll" }]);
        FiniteRun::start(command)
    }

    /// Counts packets for about `time` as a program of that name on the cluster at a socket, which it
    /// waits for; `warm` without measuring first. It ends when the cluster's server does.
    pub(crate) fn consume(
        &self,
        place: ProgramPlacement<'_>,
        (socket, name): (&str, &str),
        burst: u32,
        warm: Duration,
        time: Duration,
    ) -> Result<Value> {
        let (burst, core) = (burst.to_string(), place.core.to_string());
        let (warm, ms) = (warm.as_millis().to_string(), time.as_millis().to_string());
        let mut arguments = vec!["consume", socket, name, "--burst", &burst, "--core", &core];
        arguments.extend(["--warm", &warm, "--ms", &ms]);
        arguments.extend(place.sleeps.then_some("--wait"));
        self.run(place.namespace, &arguments)
    }

    /// Fills a table of exact matches with `keys` keys and looks them up for about `time`.
    pub(crate) fn exact(&self, keys: u32, burst: u32, time: Duration) -> Result<TableCycles> {
        let (keys, burst) = (keys.to_string(), burst.to_string());
        let (ms, core) = (time.as_millis().to_string(), FORWARDING_CORE.to_string());
        let arguments = ["exact", "--keys", &keys, "--burst", &burst, "--ms", &ms];
        let line = self.run(None, &[&arguments[..], &["--core", &core]].concat())?;
        serde_json::from_value(line).context("linerate-bench printed something else")
    }

    /// Writes tables of routes and addresses into a folder.
    pub(crate) fn tables(&self, folder: &Path) -> Result<()> {
        self.run(None, &["tables", &folder.to_string_lossy()]).map(drop)
    }

    /// Looks up the addresses of the second file in the routes of the first for about `time`,
    /// the routes inserted at once or one by one.
    pub(crate) fn lookup(
        &self,
        ipv6: bool,
        files: &[PathBuf; 2],
        burst: u32,
        time: Duration,
        one_by_one: bool,
    ) -> Result<LookupCycles> {
        let [routes, addresses] = files.each_ref().map(|file| file.to_string_lossy());
        let (burst, ms) = (burst.to_string(), time.as_millis().to_string());
        let core = FORWARDING_CORE.to_string();
        let mut arguments = vec!["lookup", &routes, &addresses, "--burst", &burst, "--ms", &ms];
        arguments.extend(["--core", &core]);
        arguments.extend(ipv6.then_some("--ipv6"));
        arguments.extend(one_by_one.then_some("--one-by-one"));
        serde_json::from_value(self.run(None, &arguments)?)
            .context("linerate-bench printed something else")
    }

    /// Runs a program of a filter on the packets of a capture for about `time`.
    pub(crate) fn filter(
        &self,
        program: &Path,
        packets: &Path,
        portable: bool,
        time: Duration,
    ) -> Result<FilterCycles> {
        let [program, packets] = [program, packets].map(Path::to_string_lossy);
        let (ms, core) = (time.as_millis().to_string(), FORWARDING_CORE.to_string());
        let mut arguments = vec!["filter", &program, &packets, "--ms", &ms, "--core", &core];
        arguments.extend(portable.then_some("--portable"));
        serde_json::from_value(self.run(None, &arguments)?)
            .context("linerate-bench printed something else")
    }

    /// Forwards by a table of a million routes, for about `time` each as it is and while routes are
    /// changed, and then while all are replaced.
    pub(crate) fn updates(&self, time: Duration) -> Result<Value> {
        let (ms, core, writer) =
            (time.as_millis().to_string(), FORWARDING_CORE.to_string(), MAIN_CORE.to_string());
        let arguments = ["updates", "--ms", &ms, "--core", &core, "--writer-core", &writer];
        self.run(None, &arguments)
    }

    /// Repeats a ring or pool operation for about `time`.
    pub(crate) fn operation(&self, case: OpCase, burst: u32, time: Duration) -> Result<Cycles> {
        let (burst, ms) = (burst.to_string(), time.as_millis().to_string());
        let (core, other) = (FORWARDING_CORE.to_string(), MAIN_CORE.to_string());
        let arguments = ["operations", case.name(), "--burst", &burst, "--ms", &ms];
        let cores = ["--core", &core, "--producer-core", &other];
        let line = self.run(None, &[&arguments[..], &cores[..]].concat())?;
        serde_json::from_value(line).context("linerate-bench printed something else")
    }
}

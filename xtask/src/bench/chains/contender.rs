//! Contenders: programs that run a configuration, and their commands.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use linerate_bench_chains::delivered;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The user-level program of Click or FastClick, `NAME=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PeerProgram {
    name: String,
    path: PathBuf,
}

impl FromStr for PeerProgram {
    type Err = String;

    fn from_str(text: &str) -> Result<PeerProgram, String> {
        let wanted = "give NAME=PATH, as in click=/opt/click/bin/click";
        let (name, path) = text.split_once('=').ok_or(wanted)?;
        if name.is_empty() || path.is_empty() {
            return Err(wanted.into());
        }
        let path = Path::new(path);
        // Without a slash it would be looked for along PATH and not here.
        let path =
            fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(PeerProgram { name: name.into(), path })
    }
}

/// Makes the command that runs the configuration in a file, with so many packets in a frame.
type MakeCommand = Box<dyn Fn(&Path, u32) -> Result<Command>>;

/// One of the programs that take turns.
pub(super) struct Contender {
    pub(super) name: String,
    command: MakeCommand,
}

/// All of them: our forms, a line each, the first of which is the base of ratios; then the peers.
pub(super) fn contenders(
    linerate: &Path,
    apart: bool,
    compiled: Option<&str>,
    peers: &[PeerProgram],
) -> Result<Vec<Contender>> {
    let mut all = vec![ours(linerate, "ours", &[])];
    all.extend(apart.then(|| ours(linerate, "apart", &["--no-surveys"])));
    all.extend(compiled.map(|processor| programs_of_ours(linerate, processor)));
    for PeerProgram { name, path } in peers {
        ensure!(all.iter().all(|other| other.name != *name), "two contenders are called {name}");
        let path = path.clone();
        let command = move |file: &Path, _| {
            let mut command = Command::new(&path);
            command.arg(file);
            Ok(command)
        };
        all.push(Contender { name: name.clone(), command: Box::new(command) });
    }
    Ok(all)
}

/// `linerate run`, with these options.
fn ours(linerate: &Path, name: &str, more: &'static [&'static str]) -> Contender {
    let linerate = linerate.to_owned();
    let command = move |file: &Path, burst: u32| {
        let mut command = Command::new(&linerate);
        command.arg("run").args(options(burst)).args(more).arg(file);
        Ok(command)
    };
    Contender { name: name.into(), command: Box::new(command) }
}

/// The program that `linerate compile` makes of a configuration for a processor, beside its file.
fn programs_of_ours(linerate: &Path, processor: &str) -> Contender {
    let (linerate, processor) = (linerate.to_owned(), processor.to_owned());
    let made = RefCell::new(HashSet::new());
    let command = move |file: &Path, burst: u32| {
        let program = file.with_extension("program");
        if !made.borrow().contains(&program) {
            let mut compile = Command::new(&linerate);
            compile.args(["compile", "--quiet", "--target-cpu", &processor, "-o"]);
            let status = compile.arg(&program).arg(file).status().context("cannot be compiled")?;
            ensure!(status.success(), "cannot be compiled: {status}");
            made.borrow_mut().insert(program.clone());
        }
        let mut command = Command::new(&program);
        command.args(options(burst));
        Ok(command)
    };
    Contender { name: "compiled".into(), command: Box::new(command) }
}

/// Options of a run of ours.
fn options(burst: u32) -> [String; 5] {
    ["--quiet", "--idle", "poll", "--vector", &burst.to_string()].map(String::from)
}

impl Contender {
    /// The command for a configuration.
    pub(super) fn command(&self, file: &Path, burst: u32) -> Result<Command> {
        (self.command)(file, burst)
    }
}

/// Runs a command to its end and returns the processor time it took, in seconds, with that of all its
/// threads and in the kernel; fails unless at least so many packets were delivered.
pub(super) fn processor_seconds(command: &mut Command, least: u64) -> Result<f64> {
    let before = children()?;
    let output = command.stdin(Stdio::null()).output().context("cannot be started")?;
    let seconds = children()? - before;
    check(output.status, &output.stdout, &output.stderr, least)?;
    Ok(seconds)
}

/// The instructions of a run, counted by callgrind.
pub(super) fn instructions(command: &Command, least: u64) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .output()
        .context("cannot run valgrind")?;
    check(output.status, &output.stdout, &output.stderr, least)?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected :")).map(|(_, n)| n.trim());
    line.and_then(|n| n.parse().ok()).with_context(|| format!("callgrind said:\n{text}"))
}

/// Checks that a run delivered its packets; else the error is its output.
fn check(status: ExitStatus, stdout: &[u8], stderr: &[u8], least: u64) -> Result<()> {
    let said = String::from_utf8_lossy(stderr);
    if !status.success() {
        let lines = said.lines().filter(|line| !line.starts_with("==")).map(str::trim);
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        bail!("{status}: {}", lines.join("; "));
    }
    match delivered(&String::from_utf8_lossy(stdout)) {
        None => bail!("did not say how many packets it delivered: {}", said.trim()),
        Some(packets) if packets < least => {
            bail!("delivered {packets} packets and not {least}: others would be too cheap")
        }
        Some(_) => Ok(()),
    }
}

/// Processor time of all processes this one has waited for, in seconds.
fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read the processor time")?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.num_microseconds() as f64 * 1e-6)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn peers_are_a_name_and_a_program() {
        let peer: PeerProgram = "click=/proc/self/exe".parse().unwrap();
        assert_eq!(peer.name, "click");
        assert!(peer.path.is_absolute() && peer.path != Path::new("/proc/self/exe"));
        for text in ["click", "=/proc/self/exe", "click=", "click=/nowhere/click"] {
            assert!(text.parse::<PeerProgram>().is_err(), "{text}");
        }
    }

    #[test]
    fn contenders_have_names_of_their_own() {
        let peer = |name: &str| PeerProgram { name: name.into(), path: "/bin/true".into() };
        let of = |names: &[&str]| {
            let peers: Vec<_> = names.iter().map(|name| peer(name)).collect();
            contenders(Path::new("linerate"), true, Some("native"), &peers)
        };
        let names: Vec<_> = of(&["click", "fast"]).unwrap().into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["ours", "apart", "compiled", "click", "fast"]);
        assert!(of(&["click", "click"]).is_err());
        assert!(of(&["ours"]).is_err());
        assert!(of(&["compiled"]).is_err());
    }

    #[test]
    fn a_run_that_loses_packets_does_not_count() {
        let [well, badly] = [0, 256].map(ExitStatus::from_raw);
        assert!(check(well, b"a table\ndelivered 10\n", b"", 10).is_ok());
        assert!(check(well, b"delivered 9\n", b"", 10).is_err());
        assert!(check(well, b"nothing", b"", 0).is_err());
        let error = check(badly, b"delivered 10\n", b"==7== x\nno such element\n", 10);
        assert_eq!(error.unwrap_err().to_string(), "exit status: 1: no such element");
    }

    #[test]
    fn processor_time_of_a_child_is_its_own() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo delivered 3";
        let seconds = processor_seconds(Command::new("sh").args(["-c", script]), 3).unwrap();
        assert!(seconds > 0.0);
    }
}

//! Building a program, in a folder that stays: compiled crates are there the next time.

use std::{
    env,
    fs::{self, File, TryLockError},
    io::{BufRead, BufReader, Read, Write as _},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use linerate_worker::Stop;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::{
    generate::{GeneratedFile, NAME},
    origin::Origin,
    place,
    toolchain::Toolchain,
};
use crate::{args::Compile, exit::cannot_write, terminal};

/// Interval of looking for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of progress lines where lines cannot be written anew.
const NEWS: Duration = Duration::from_secs(10);

/// A program that was built. The folder is locked as long as this lives.
#[derive(Debug)]
pub(super) struct BuildResult {
    folder: PathBuf,
    program: PathBuf,
    outcome: Result<(), String>,
    _lock: File,
}

impl BuildResult {
    /// The versions of dependencies it was built with.
    pub(super) fn lock_file(&self) -> PathBuf {
        self.folder.join("Cargo.lock")
    }

    /// The program, if it could be built.
    pub(super) fn program(&self) -> Result<&Path> {
        match &self.outcome {
            Ok(()) => Ok(&self.program),
            Err(why) => Err(anyhow!("{why}")),
        }
    }
}

/// Builds the crate.
pub(super) fn build(
    args: &Compile,
    toolchain: &Toolchain,
    origin: &Origin,
    files: &[GeneratedFile],
    stop: &Stop,
    say: &dyn Fn(&str),
) -> Result<BuildResult> {
    let own = cache()?.join("linerate/compile").join(&toolchain.key);
    let (folder, target) = (own.join("crate"), own.join("target"));
    fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, error))?;
    let lock = lock(&own.join("lock"), stop, say)?;
    place::write(&folder, files)?;
    if let Some(versions) = origin.lock_file() {
        take_versions(&versions, &folder.join("Cargo.lock"))?;
    }
    let mut cargo = toolchain.cargo(&args.target_cpu);
    // Flags are for crates compiled for the target, which build scripts and macros are not.
    cargo.args(["build", "--target", &toolchain.host, "--target-dir"]).arg(&target);
    let profile = if args.unoptimized { "debug" } else { "release" };
    if !args.unoptimized {
        cargo.arg("--release");
    }
    if args.offline {
        cargo.arg("--offline");
    }
    cargo.current_dir(&folder).stdin(Stdio::null());
    if args.verbose {
        cargo.arg("--verbose");
    } else {
        cargo.args(["--message-format", "json-render-diagnostics"]);
        cargo.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    say(&format!("building for {}, with the source in {origin}", toolchain.processor));
    // In a group of its own, so that it can be ended with all it has started.
    let mut child = cargo.process_group(0).spawn().context("cannot start cargo")?;
    let (status, complaint) = watch(&mut child, args, stop)?;
    let program = target.join(&toolchain.host).join(profile).join(NAME);
    let outcome = if status.success() { Ok(()) } else { Err(explained(&complaint, origin)) };
    Ok(BuildResult { folder, program, outcome, _lock: lock })
}

/// The user's folder for files that can be made again.
fn cache() -> Result<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let said = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache")).filter(absolute);
    said.or_else(home).context("there is no folder to build in: set HOME or XDG_CACHE_HOME")
}

/// Waits for the lock of the folder.
fn lock(path: &Path, stop: &Stop, say: &dyn Fn(&str)) -> Result<File> {
    let file = File::create(path).map_err(|error| cannot_write(path, error))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(cannot_write(path, error)),
            Err(TryLockError::WouldBlock) if stop.is_raised() => bail!(INTERRUPTED),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut told, true) {
                    say("waiting until another `linerate compile` is done");
                }
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

const INTERRUPTED: &str = "interrupted; nothing was written";

/// Has cargo begin with the versions that the library was tested with. Its own file is kept while
/// it was made from the same: then nothing has to be resolved again.
fn take_versions(from: &Path, to: &Path) -> Result<()> {
    let taken = to.with_extension("from");
    let versions = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if to.is_file() && fs::read(&taken).is_ok_and(|before| before == versions) {
        return Ok(());
    }
    let write = |path: &Path| fs::write(path, &versions).map_err(|e| cannot_write(path, e));
    write(to)?;
    write(&taken)
}

/// Follows cargo to its end, which comes at once when the user wants it. Returns its errors, unless
/// the user has seen them.
fn watch(child: &mut Child, args: &Compile, stop: &Stop) -> Result<(ExitStatus, String)> {
    let (tell, news) = mpsc::channel();
    let complaints = child.stderr.take().map(|mut stderr| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // Output that cannot be read any more is not missed.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    match child.stdout.take() {
        Some(stdout) => drop(thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(name) = compiled(&line) {
                    // The receiver is gone only at the end.
                    let _ = tell.send(name);
                }
            }
        })),
        None => drop(tell),
    }
    let mut progress = Progress::new(!args.quiet && !args.verbose);
    let status = loop {
        if stop.is_raised() {
            progress.clear();
            // It may have ended by itself.
            let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
            child.wait().context("cannot wait for cargo")?;
            bail!(INTERRUPTED);
        }
        match news.recv_timeout(POLL_INTERVAL) {
            Ok(name) => progress.tell(&name),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL_INTERVAL / 5),
        }
        if let Some(status) = child.try_wait().context("cannot wait for cargo")? {
            break status;
        }
    };
    progress.clear();
    let complaints = complaints.and_then(|thread| thread.join().ok());
    Ok((status, complaints.unwrap_or_default()))
}

/// The crate whose compilation a line of cargo's messages tells of.
fn compiled(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_news = message["reason"] == "compiler-artifact" && message["fresh"] == false;
    message["target"]["name"].as_str().filter(|_| is_news).map(str::to_owned)
}

/// Progress of the compilation, on standard error.
struct Progress {
    shown: bool,
    count: usize,
    begun: Instant,
    next: Instant,
    /// Whether there is a line to be written anew.
    drawn: bool,
}

impl Progress {
    fn new(shown: bool) -> Progress {
        let begun = Instant::now();
        Progress { shown, count: 0, begun, next: begun + NEWS, drawn: false }
    }

    fn tell(&mut self, name: &str) {
        self.count += 1;
        if !self.shown {
            return;
        }
        let seconds = self.begun.elapsed().as_secs();
        let line = format!("{seconds:>4} s  {} crates compiled, {name}", self.count);
        let mut err = std::io::stderr().lock();
        // An unread line ends nothing.
        if terminal::moves() {
            let _ = write!(err, "\r\x1b[K{line}");
            self.drawn = true;
        } else if Instant::now() >= self.next {
            let _ = writeln!(err, "{line}");
            self.next += NEWS;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The error of a build, with advice where the cause is known.
fn explained(complaint: &str, origin: &Origin) -> String {
    let has = |text: &str| complaint.contains(text);
    let advice = if has("linker `") && has("not found") {
        "there is no C linker: install gcc (apt-get install gcc, dnf install gcc)".into()
    } else if has("--offline") {
        match origin {
            Origin::Folder(folder) => format!(
                "not all dependencies are here: `cargo fetch --manifest-path {}/Cargo.toml` gets \
                 them, once",
                folder.display()
            ),
            Origin::Git { .. } => "not all of it is here: try once without --offline".into(),
        }
    } else if has("Could not resolve host") || has("failed to get") || has("download") {
        "cargo could not get what it needs from the network; --source DIR takes the library from a \
         folder"
            .into()
    } else {
        "this should not happen; --verbose shows all of it, --keep DIR keeps what was generated"
            .into()
    };
    format!("cargo could not build it: {advice}\n\n{}", complaint.trim_end()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_freshly_compiled_crates_alone() {
        let line = |fresh| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"target\":{{\"name\":\"x\"}},\"fresh\":{fresh}}}"
            )
        };
        assert_eq!(compiled(&line(false)), Some("x".into()));
        assert_eq!(compiled(&line(true)), None);
        assert_eq!(compiled("{\"reason\":\"build-finished\",\"success\":true}"), None);
        assert_eq!(compiled("no JSON"), None);
    }

    #[test]
    fn errors_that_users_can_mend_come_with_advice() {
        let folder = Origin::Folder("/src".into());
        let explained = |complaint: &str| explained(complaint, &folder);
        assert!(explained("error: linker `cc` not found\n").contains("install gcc"));
        let offline = "error: no matching package\nhelp: you are using --offline";
        assert!(explained(offline).contains("cargo fetch --manifest-path /src/Cargo.toml"));
        assert!(explained("error[E0432]: x").ends_with("\n\nerror[E0432]: x"));
    }
}

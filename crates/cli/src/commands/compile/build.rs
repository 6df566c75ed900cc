//! Build of the generated crate, in a cache folder: later builds reuse the crates compiled there.

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

/// Interval of checks for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of progress lines where the terminal cannot overwrite the last one.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Result of a build. Its folder is locked until this is dropped.
#[derive(Debug)]
pub(super) struct BuildResult {
    folder: PathBuf,
    program: PathBuf,
    outcome: Result<(), String>,
    _lock: File,
}

impl BuildResult {
    /// Returns the path of the `Cargo.lock` that the program was built with.
    pub(super) fn lock_file(&self) -> PathBuf {
        self.folder.join("Cargo.lock")
    }

    /// Returns the path of the program, or the errors of the build.
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
    report: &dyn Fn(&str),
) -> Result<BuildResult> {
    let cache = cache_folder()?.join("linerate/compile").join(&toolchain.key);
    let (folder, target) = (cache.join("crate"), cache.join("target"));
    fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, error))?;
    let lock = lock(&cache.join("lock"), stop, report)?;
    place::write(&folder, files)?;
    if let Some(versions) = origin.lock_file() {
        copy_lock_file(&versions, &folder.join("Cargo.lock"))?;
    }
    let mut cargo = toolchain.cargo(&args.target_cpu);
    // With a target named, flags apply to its crates only, not to build scripts and macros.
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
    report(&format!("building for {}, with the source in {origin}", toolchain.processor));
    // A process group of its own, which a signal ends with all that cargo has started.
    let mut child = cargo.process_group(0).spawn().context("cannot start cargo")?;
    let (status, errors) = wait_for(&mut child, args, stop)?;
    let program = target.join(&toolchain.host).join(profile).join(NAME);
    let outcome = if status.success() { Ok(()) } else { Err(with_advice(&errors, origin)) };
    Ok(BuildResult { folder, program, outcome, _lock: lock })
}

/// Returns the user's cache folder.
fn cache_folder() -> Result<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let configured = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache")).filter(absolute);
    configured.or_else(home).context("there is no folder to build in: set HOME or XDG_CACHE_HOME")
}

/// Waits for the lock of the folder.
fn lock(path: &Path, stop: &Stop, report: &dyn Fn(&str)) -> Result<File> {
    let file = File::create(path).map_err(|error| cannot_write(path, error))?;
    let mut reported = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(cannot_write(path, error)),
            Err(TryLockError::WouldBlock) if stop.is_raised() => bail!(INTERRUPTED),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut reported, true) {
                    report("waiting until another `linerate compile` is done");
                }
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

const INTERRUPTED: &str = "interrupted; nothing was written";

/// Copies the library's `Cargo.lock`, so that cargo begins with the versions that the library was
/// tested with. A lock file that cargo has made from the same copy stays: then nothing has to be
/// resolved again.
fn copy_lock_file(from: &Path, to: &Path) -> Result<()> {
    let copied = to.with_extension("from");
    let versions = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if to.is_file() && fs::read(&copied).is_ok_and(|before| before == versions) {
        return Ok(());
    }
    let write = |path: &Path| fs::write(path, &versions).map_err(|e| cannot_write(path, e));
    write(to)?;
    write(&copied)
}

/// Waits for cargo to end, and shows progress meanwhile. A signal to this program ends cargo. Returns
/// cargo's errors, unless they went to the terminal.
fn wait_for(child: &mut Child, args: &Compile, stop: &Stop) -> Result<(ExitStatus, String)> {
    let (sender, compiled_crates) = mpsc::channel();
    let errors = child.stderr.take().map(|mut stderr| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // After a read error the text so far is shown.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    match child.stdout.take() {
        Some(stdout) => drop(thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(name) = compiled_crate(&line) {
                    // Fails only after the receiver is dropped, at the end.
                    let _ = sender.send(name);
                }
            }
        })),
        None => drop(sender),
    }
    let mut progress = Progress::new(!args.quiet && !args.verbose);
    let status = loop {
        if stop.is_raised() {
            progress.clear();
            // Fails if cargo has already ended.
            let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
            child.wait().context("cannot wait for cargo")?;
            bail!(INTERRUPTED);
        }
        match compiled_crates.recv_timeout(POLL_INTERVAL) {
            Ok(name) => progress.add(&name),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(POLL_INTERVAL / 5),
        }
        if let Some(status) = child.try_wait().context("cannot wait for cargo")? {
            break status;
        }
    };
    progress.clear();
    let errors = errors.and_then(|thread| thread.join().ok());
    Ok((status, errors.unwrap_or_default()))
}

/// Returns the crate that a line of cargo's messages reports as compiled just now.
fn compiled_crate(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_compiled = message["reason"] == "compiler-artifact" && message["fresh"] == false;
    message["target"]["name"].as_str().filter(|_| is_compiled).map(str::to_owned)
}

/// Progress of the compilation, on standard error.
struct Progress {
    shown: bool,
    count: usize,
    begun: Instant,
    next: Instant,
    /// Whether the terminal shows a line that the next one overwrites.
    drawn: bool,
}

impl Progress {
    fn new(shown: bool) -> Progress {
        let begun = Instant::now();
        Progress { shown, count: 0, begun, next: begun + PROGRESS_INTERVAL, drawn: false }
    }

    fn add(&mut self, name: &str) {
        self.count += 1;
        if !self.shown {
            return;
        }
        let seconds = self.begun.elapsed().as_secs();
        let line = format!("{seconds:>4} s  {} crates compiled, {name}", self.count);
        let mut err = std::io::stderr().lock();
        // A failed write must not end the build.
        if terminal::moves() {
            let _ = write!(err, "\r\x1b[K{line}");
            self.drawn = true;
        } else if Instant::now() >= self.next {
            let _ = writeln!(err, "{line}");
            self.next += PROGRESS_INTERVAL;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Returns the error of a build, with advice where the cause is known.
fn with_advice(errors: &str, origin: &Origin) -> String {
    let has = |text: &str| errors.contains(text);
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
    format!("cargo could not build it: {advice}\n\n{}", errors.trim_end()).trim_end().to_owned()
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
        assert_eq!(compiled_crate(&line(false)), Some("x".into()));
        assert_eq!(compiled_crate(&line(true)), None);
        assert_eq!(compiled_crate("{\"reason\":\"build-finished\",\"success\":true}"), None);
        assert_eq!(compiled_crate("no JSON"), None);
    }

    #[test]
    fn errors_that_users_can_mend_come_with_advice() {
        let folder = Origin::Folder("/src".into());
        let with_advice = |errors: &str| with_advice(errors, &folder);
        assert!(with_advice("error: linker `cc` not found\n").contains("install gcc"));
        let offline = "error: no matching package\nhelp: you are using --offline";
        assert!(with_advice(offline).contains("cargo fetch --manifest-path /src/Cargo.toml"));
        assert!(with_advice("error[E0432]: x").ends_with("\n\nerror[E0432]: x"));
    }
}

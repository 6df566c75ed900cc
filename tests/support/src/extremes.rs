//! Extreme values for durations, sizes and counts, and processes in which definitions are tried with them.
//!
//! A fault may end the process: an allocation beyond all memory, a stack that overflows, a loop
//! without an end. So values are tried in a process of its own with a bounded address space
//! ([`tried_in_processes`]), which records each attempt before it is made ([`Record`]). When it
//! dies, the attempt is reported and another process goes on behind the definition that killed it.
//! Processes have a network of their own where the kernel grants one, so that no value reaches an
//! interface of the machine.

use std::{
    env,
    fmt::Display,
    fs::{self, File},
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    panic::{self, AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Command, Stdio, abort},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{Running, wait_until};

/// Texts that are no numbers, and values at the ends of numbers, the largest last.
pub const VALUES: &[&str] = &[
    "",
    "word",
    "NaN",
    "inf",
    "1e-400",
    "1us",
    "100%",
    "0",
    "-1",
    "-9223372036854775808",
    "1",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "8784h",
    "1000000000G",
    "99999999999T",
    "99999999999h",
];

/// The variable that makes a test process try a share of the definitions: `FIRST STEP`.
const SHARE: &str = "LINERATE_TEST_EXTREMES";
/// Address space of such a process in kibibytes: a larger allocation fails as on a machine without the memory.
const MEMORY: u64 = 4 << 20;
/// The bound on one attempt, and on all of a process.
const STUCK: Duration = Duration::from_secs(120);
const TIMEOUT: Duration = Duration::from_secs(1800);
/// The file of a process with its attempts and findings.
const FILE: &str = "attempts";

/// The attempts of a process and the faults they showed.
#[derive(Debug)]
pub struct Record {
    file: File,
    /// Attempts so far, for the thread that notices when there are no more.
    attempts: Arc<AtomicU64>,
    panics: Arc<Mutex<Vec<String>>>,
    first: usize,
    step: usize,
}

impl Record {
    /// Returns the record of this process, or `None` in a process that is to start others
    /// ([`tried_in_processes`]).
    ///
    /// # Panics
    ///
    /// When the process was started by other means.
    #[must_use]
    pub fn of_this_process() -> Option<Record> {
        let share = env::var(SHARE).ok()?;
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let mut words = share.split(' ');
        let (first, step) = (number(words.next()), number(words.next()));
        let panics: Arc<Mutex<Vec<String>>> = Arc::default();
        let found = Arc::clone(&panics);
        // Panics of all threads, also those that nothing waits for.
        panic::set_hook(Box::new(move |info| {
            found.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
        }));
        let attempts: Arc<AtomicU64> = Arc::default();
        let watched = Arc::clone(&attempts);
        thread::spawn(move || {
            loop {
                let last = watched.load(Ordering::Relaxed);
                if !wait_until(|| watched.load(Ordering::Relaxed) != last, STUCK) {
                    eprintln!("no end within {STUCK:?}");
                    abort();
                }
            }
        });
        Some(Record {
            file: File::options().create(true).append(true).open(FILE).expect("a writable folder"),
            attempts,
            panics,
            first: first.expect("the share begins with a number"),
            step: step.expect("the share has a step"),
        })
    }

    /// The definitions of this process's share, each recorded as it is begun.
    pub fn share<'a, T>(&'a self, all: &'a [T]) -> impl Iterator<Item = &'a T> + 'a {
        let mine = (self.first..all.len()).step_by(self.step);
        mine.map(|at| {
            self.write("begin", at);
            &all[at]
        })
    }

    /// Tries something; the result is `None` after a panic, which is recorded.
    pub fn attempt<T>(&self, what: impl Display, try_it: impl FnOnce() -> T) -> Option<T> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let what = what.to_string();
        self.write("try", &what);
        let result = catch_unwind(AssertUnwindSafe(try_it));
        for panic in self.panics.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            self.write("fault", format!("{what}: {panic}"));
        }
        result.ok()
    }

    /// Records a fault that is no panic.
    pub fn fault(&self, what: impl Display) {
        self.write("fault", what);
    }

    /// Records that the share has been tried.
    pub fn finish(self) {
        self.write("end", self.attempts.load(Ordering::Relaxed));
    }

    /// One write per line: written lines are there when the process has died.
    fn write(&self, kind: &str, text: impl Display) {
        let text = text.to_string().replace('\n', "\\n");
        let line = format!("{kind} {text}\n");
        (&self.file).write_all(line.as_bytes()).expect("the record can be written");
    }
}

/// Runs the test of that name in a process per core, which try `definitions` between them. Returns the number of
/// attempts, and the faults.
///
/// # Panics
///
/// When a process cannot be started, or tries nothing.
#[track_caller]
#[must_use]
pub fn tried_in_processes(test: &str, definitions: usize) -> (u64, Vec<String>) {
    let step = thread::available_parallelism().map_or(1, usize::from).min(definitions);
    let (next, all) = (AtomicUsize::new(0), Mutex::new((0, Vec::new())));
    thread::scope(|scope| {
        for _ in 0..step {
            scope.spawn(|| {
                let mut first = next.fetch_add(1, Ordering::Relaxed);
                while first < definitions {
                    let tried = ProcessOutcome::run(test, first, step);
                    let mut all = all.lock().expect("no panic while held");
                    all.0 += tried.attempts;
                    all.1.extend(tried.faults);
                    first = tried.killed_at.map_or(definitions, |at| at + step);
                }
            });
        }
    });
    all.into_inner().expect("no panic while held")
}

/// The outcome of one process.
struct ProcessOutcome {
    attempts: u64,
    faults: Vec<String>,
    /// The definition that killed it.
    killed_at: Option<usize>,
}

impl ProcessOutcome {
    fn run(test: &str, first: usize, step: usize) -> ProcessOutcome {
        let folder = Folder::new(test, first);
        let output = folder.0.join("output");
        let mut command = isolated(&env::current_exe().expect("a test has a program"));
        command.args(["--exact", test, "--nocapture"]).env(SHARE, format!("{first} {step}"));
        command.env("RUST_BACKTRACE", "0").current_dir(&folder.0).stdin(Stdio::null());
        let said = File::create(&output).expect("a file in a new folder");
        command.stdout(Stdio::null()).stderr(said);
        let status = Running::start(command).wait(TIMEOUT);
        let record = fs::read(folder.0.join(FILE)).unwrap_or_default();
        let record = String::from_utf8_lossy(&record);
        let lines = || record.lines().filter_map(|line| line.split_once(' '));
        let of =
            |kind: &'static str| lines().filter(move |(of, _)| *of == kind).map(|(_, text)| text);
        let mut faults: Vec<String> = of("fault").map(str::to_owned).collect();
        let attempts = of("try").count() as u64;
        let ended = of("end").count() == 1 && status.success();
        let killed_at = of("begin").next_back().and_then(|at| at.parse().ok()).filter(|_| !ended);
        if !ended {
            let said = String::from_utf8_lossy(&fs::read(&output).unwrap_or_default()).into_owned();
            let at = of("try").next_back();
            let signal =
                status.signal().map_or(String::new(), |signal| format!(" by signal {signal}"));
            let at = at.unwrap_or_else(|| panic!("{test}: nothing was tried ({status}): {said}"));
            faults.push(format!("{at}: the process ended{signal}: {}", said.trim()));
        }
        ProcessOutcome { attempts, faults, killed_at }
    }
}

/// A process with a bounded address space, and with a network of its own where the kernel grants one. Without
/// privileges it may refuse, and then they are missing for any harm, too.
fn isolated(program: &Path) -> Command {
    let limited = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let own_network = ["--map-root-user", "--net"];
    let granted = Command::new("unshare")
        .args(own_network)
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let mut command = if granted {
        let mut command = Command::new("unshare");
        command.args(own_network).args(["sh", "-c"]);
        command.arg(format!("ip link set lo up; {limited}"));
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &limited]);
        command
    };
    command.arg(program);
    command
}

/// An empty folder, removed with everything in it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str, number: usize) -> Folder {
        let test = test.replace("::", "-");
        let name = format!("linerate-{test}-{number}-{}", std::process::id());
        let path = env::temp_dir().join(name);
        let made = fs::create_dir(&path);
        made.unwrap_or_else(|error: io::Error| panic!("{}: {error}", path.display()));
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

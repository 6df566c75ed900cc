//! Running `linerate`: its output goes to files, its JSON is parsed, and it must not panic in any
//! test.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use linerate_test_support::{Namespace, Running, wait_until};
use serde_json::Value;

/// Longest time that anything may take before a test gives up: a bound, not a measurement.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The program under test.
pub(crate) const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");

/// Drivers of ports on interfaces: statements about one are true of all.
pub(crate) const DRIVERS: [&str; 2] = ["packet", "xdp"];

/// A directory of a test's own, removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-e2e-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Scratch { path }
    }

    /// The path of a file in it, as text.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("a UTF-8 path").to_owned()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Exit code and output of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` when a signal killed it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Its JSON output, which must be nothing else.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        parse(&self.stdout)
    }

    /// The last JSON object: the summary of a run that ended well.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:#?}");
        let last = self.json().pop().unwrap_or_else(|| panic!("it printed nothing: {self:#?}"));
        assert_eq!(last["event"], "summary", "{last}");
        last
    }

    /// Asserts that it failed with this documented code and a message that holds all of `parts`,
    /// without a panic.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, parts: &[&str]) {
        self.orderly();
        assert_eq!(self.code, Some(code), "{self:#?}");
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        }
        // A person reads it: one line, which names the program.
        let last = self.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("linerate: error: "), "{self:#?}");
    }

    /// Nothing panicked.
    #[track_caller]
    pub(crate) fn orderly(&self) {
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
    }
}

/// The words of a command line. One with spaces in it is in single quotes.
pub(crate) fn words(line: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').expect("a quote at the end"),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word);
        rest = behind.trim_start();
    }
    words
}

/// Runs `linerate` to its end in this process's own network, for at most a minute.
#[track_caller]
pub(crate) fn linerate(line: &str) -> Ended {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", LINERATE]).args(words(line));
    let output = command.stdin(Stdio::null()).output().expect("timeout, of coreutils, runs");
    let ended = Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert_ne!(ended.code, Some(124), "did not end: linerate {line}\n{ended:#?}");
    ended.orderly();
    ended
}

/// Runs `linerate` to its end in a namespace.
#[track_caller]
pub(crate) fn linerate_in(namespace: &Namespace, line: &str) -> Ended {
    Program::start(namespace, line).end()
}

/// A `linerate` in the background.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) running: Running,
    line: String,
    scratch: Scratch,
}

impl Program {
    /// Starts it in a namespace; arguments that no test varies are added: JSON, and no rows.
    #[track_caller]
    pub(crate) fn start(namespace: &Namespace, line: &str) -> Program {
        let all = [&[LINERATE][..], &words(line), &["--json", "--quiet"]].concat();
        Program::start_command(namespace, namespace.command(all), line)
    }

    /// Starts it in a namespace, and waits until its ports are open.
    #[track_caller]
    pub(crate) fn ready(namespace: &Namespace, line: &str) -> Program {
        let mut program = Program::start(namespace, line);
        program.wait_ready();
        program
    }

    /// Starts a prepared command that runs it.
    #[track_caller]
    pub(crate) fn start_command(
        namespace: &Namespace,
        mut command: Command,
        line: &str,
    ) -> Program {
        let scratch = Scratch::new();
        let file = |name| File::create(scratch.path().join(name)).unwrap();
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        let running = namespace.spawn_command(command);
        Program { running, line: line.into(), scratch }
    }

    /// Waits until its ports are open, which is when it announces itself.
    #[track_caller]
    pub(crate) fn wait_ready(&mut self) {
        let up = wait_until(
            || self.stdout().contains("\"start\"") || !self.running.is_running(),
            TIMEOUT,
        );
        // One that had little to do may have ended since.
        let started = up && self.stdout().contains("\"start\"");
        assert!(started, "`{}` did not start: {}", self.line, self.stderr());
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.scratch.path().join("stdout")).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.scratch.path().join("stderr")).unwrap()
    }

    /// Waits until it has said something on standard error.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let said =
            wait_until(|| self.stderr().contains(text) || !self.running.is_running(), TIMEOUT);
        let stderr = self.stderr();
        assert!(said && stderr.contains(text), "`{}` did not say {text:?}: {stderr}", self.line);
    }

    /// Ends it as Ctrl-C does, and returns its summary.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Value {
        self.running.signal(rustix::process::Signal::INT);
        self.end().summary()
    }

    /// Kills it without a warning.
    pub(crate) fn kill(mut self) {
        self.running.signal(rustix::process::Signal::KILL);
        let _killed = self.running.wait(TIMEOUT);
    }

    /// Waits for it to end by itself.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let status = self.running.wait(TIMEOUT);
        let ended = Ended { code: status.code(), stdout: self.stdout(), stderr: self.stderr() };
        ended.orderly();
        ended
    }
}

#[track_caller]
fn parse(text: &str) -> Vec<Value> {
    let object = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"))
    };
    text.lines().map(object).collect()
}

/// A number of a summary.
#[track_caller]
pub(crate) fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no number {key:?} in {object}"))
}

/// All drops of one side of a flow, over all reasons.
#[track_caller]
pub(crate) fn drops(object: &Value, key: &str) -> u64 {
    let reasons = object[key].as_object().unwrap_or_else(|| panic!("no {key:?} in {object}"));
    reasons.values().map(|count| count.as_u64().expect("a count")).sum()
}

/// The output of each flow is its input, less the drops counted.
#[track_caller]
pub(crate) fn assert_balanced(summary: &Value) {
    for flow in summary["flows"].as_array().expect("flows") {
        let (received, sent) = (number(flow, "received_packets"), number(flow, "sent_packets"));
        assert_eq!(received, sent + drops(flow, "transmit_drops"), "{flow}");
    }
    assert_eq!(number(summary, "buffers_held"), 0, "{summary}");
}

//! Programs that a test runs: always with a deadline, always ended.

use std::env;
use std::fs;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at something that is waited for.
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until a condition holds, and returns true if it came to hold within `timeout`.
///
/// For events in another process or in the kernel. The timeout is a bound on how long a broken test
/// hangs, not a measurement: give seconds, not the time it takes.
#[must_use]
pub fn wait_until(mut condition: impl FnMut() -> bool, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(INTERVAL);
    }
}

/// System calls in which a program waits for input.
#[cfg(target_arch = "x86_64")]
const WAITING: &[&str] =
    &["0", "7", "23", "45", "47", "61", "230", "232", "247", "270", "271", "281", "441"];
/// The numbers of these system calls on other architectures.
#[cfg(not(target_arch = "x86_64"))]
const WAITING: &[&str] = &["22", "63", "72", "73", "95", "115", "207", "212", "260", "441"];

/// Returns true if a program waits for something to come: its first thread, and those of its
/// children, are in `poll`, `select`, `epoll`, `recv`, `read`, `wait` or `sleep`. A program that
/// says nothing when it is ready, and does not poll, is ready when it does.
///
/// It needs root, for a program of another user.
#[must_use]
pub fn is_waiting(process: u32) -> bool {
    let first = format!("/proc/{process}/task/{process}");
    // Where the kernel does not say which they are, there are none.
    let children = fs::read_to_string(format!("{first}/children")).unwrap_or_default();
    is_in_waiting_call(&first)
        && children.split_whitespace().all(|child| child.parse().is_ok_and(is_waiting))
}

/// Returns true if the thread of that folder of procfs is in a system call that waits for input.
fn is_in_waiting_call(folder: &str) -> bool {
    fs::read_to_string(format!("{folder}/syscall")).is_ok_and(|call| {
        call.split_whitespace().next().is_some_and(|number| WAITING.contains(&number))
    })
}

/// Number of the calling thread, for [`await_waiting`].
#[must_use]
pub fn thread_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Waits until a thread of this process waits for input, in one of the calls of [`is_waiting`].
///
/// # Panics
///
/// When it does not within a minute.
#[track_caller]
pub fn await_waiting(thread: i32) {
    let waits = || is_in_waiting_call(&format!("/proc/self/task/{thread}"));
    assert!(wait_until(waits, Duration::from_secs(60)), "thread {thread} does not wait");
}

/// Returns true if this process runs nothing but the test of that name, as libtest lists it. Else
/// one that does has been started, and has passed: the caller has nothing left to do.
///
/// For tests that count the open files of their process: others of their program open and close
/// some, too.
///
/// # Panics
///
/// When it fails there, or there is no such test.
#[track_caller]
#[must_use]
pub fn is_by_itself(test: &str) -> bool {
    const BY_ITSELF: &str = "LINERATE_TEST_BY_ITSELF";
    if env::var_os(BY_ITSELF).is_some() {
        return true;
    }
    let mut command = Command::new(env::current_exe().expect("a test has a program"));
    command.args(["--exact", test, "--include-ignored", "--nocapture"]).env(BY_ITSELF, "1");
    let output = command.output().expect("a test's program can be started again");
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{test} by itself: {errors}");
    false
}

/// A program running in the background. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    shown: String,
    child: Child,
}

impl Running {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let shown = describe(&command);
        match command.spawn() {
            Ok(child) => Self { shown, child },
            Err(error) => panic!("cannot start `{shown}`: {error}"),
        }
    }

    /// Its process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has not ended yet.
    ///
    /// # Panics
    ///
    /// When the kernel does not tell.
    pub fn is_running(&mut self) -> bool {
        self.try_status().is_none()
    }

    /// Its standard output, where that was piped and not taken before.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Sends it a signal, for example `Signal::INT` so that it ends as if by Ctrl-C.
    ///
    /// # Panics
    ///
    /// When it has ended already.
    #[track_caller]
    pub fn signal(&mut self, signal: rustix::process::Signal) {
        assert!(self.is_running(), "`{}` ended before it was to get a signal", self.shown);
        // Not reaped yet, so the number still belongs to this child.
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap_or_else(|error| panic!("cannot signal `{}`: {error}", self.shown));
    }

    /// Sends a signal, unless the process has ended by itself.
    pub fn signal_unless_ended(&mut self, signal: rustix::process::Signal) {
        if self.is_running() {
            // Not reaped yet, so the number still belongs to this child, which may have ended since.
            let child = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(child, signal);
        }
    }

    /// Waits for it to end by itself.
    ///
    /// # Panics
    ///
    /// When it does not end within `timeout`.
    #[track_caller]
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        if !wait_until(|| !self.is_running(), timeout) {
            panic!("`{}` did not end within {timeout:?}", self.shown);
        }
        self.try_status().expect("it has ended")
    }

    /// Waits for it to end by itself, and returns its output.
    ///
    /// # Panics
    ///
    /// When it does not end within `timeout`.
    #[must_use]
    #[track_caller]
    pub fn output(mut self, timeout: Duration) -> Output {
        // Read on the side: a program blocks when its pipe is full.
        let stdout = reader(self.child.stdout.take());
        let stderr = reader(self.child.stderr.take());
        let status = self.wait(timeout);
        let collect = |handle: thread::JoinHandle<Vec<u8>>| handle.join().expect("reader ended");
        Output { status, stdout: collect(stdout), stderr: collect(stderr) }
    }

    #[track_caller]
    fn try_status(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .unwrap_or_else(|error| panic!("cannot wait for `{}`: {error}", self.shown))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Either may fail because it has ended: that is the purpose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end with its output collected.
#[track_caller]
pub(crate) fn collect(mut command: Command, timeout: Duration) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::start(command).output(timeout)
}

/// Returns the standard output of a program, or panics with all it printed.
#[track_caller]
pub(crate) fn expect(command: Command, timeout: Duration) -> String {
    let shown = describe(&command);
    let output = collect(command, timeout);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "`{shown}` failed ({})\n--- stdout\n{stdout}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout.into_owned()
}

fn reader(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // Bytes read before an error are all there is to show.
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_thread_that_reads_is_seen_to_wait() {
        let reader = thread_number();
        let (mut from, mut to) = std::io::pipe().unwrap();
        let writer = thread::spawn(move || {
            await_waiting(reader);
            std::io::Write::write_all(&mut to, b"x").unwrap();
        });
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap();
        writer.join().unwrap();
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn output_larger_than_a_pipe_is_collected() {
        let script = "head -c 300000 /dev/zero; echo bad >&2; exit 3";
        let output = collect(sh(script), Duration::from_secs(30));
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout.len(), 300_000);
        assert_eq!(output.stderr, b"bad\n");
    }

    #[test]
    #[should_panic(expected = "did not end within")]
    fn a_program_that_hangs_is_an_error() {
        let _ = collect(sh("sleep 60"), Duration::from_millis(50));
    }

    #[test]
    #[should_panic(expected = "the reason")]
    fn a_failed_program_is_shown_with_its_reason() {
        expect(sh("echo the reason >&2; false"), Duration::from_secs(30));
    }

    #[test]
    fn a_dropped_program_is_gone() {
        let running = Running::start(sh("exec sleep 60"));
        let entry = format!("/proc/{}", running.id());
        assert!(std::path::Path::new(&entry).exists());
        drop(running);
        assert!(!std::path::Path::new(&entry).exists());
    }

    #[test]
    fn a_signal_ends_it_as_asked() {
        use std::os::unix::process::ExitStatusExt;
        let mut running = Running::start(sh("exec sleep 60"));
        running.signal(rustix::process::Signal::TERM);
        assert_eq!(running.wait(Duration::from_secs(30)).signal(), Some(15));
    }

    #[test]
    fn a_program_waits_when_its_children_do() {
        // The shell of the second waits for its child, which does not.
        let [waits, works] =
            ["sleep 60", "while :; do :; done & wait"].map(|script| Running::start(sh(script)));
        assert!(wait_until(|| is_waiting(waits.id()), Duration::from_secs(30)));
        let children = || {
            let process = works.id();
            fs::read_to_string(format!("/proc/{process}/task/{process}/children"))
                .unwrap_or_default()
        };
        assert!(wait_until(|| !children().is_empty(), Duration::from_secs(30)));
        let child: u32 = children().trim().parse().unwrap();
        assert!(!is_waiting(child) && !is_waiting(works.id()));
        let child = rustix::process::Pid::from_raw(child as i32).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    }

    #[test]
    fn waiting_tells_whether_it_came_true() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            looks == 3
        };
        assert!(wait_until(third, Duration::from_secs(30)));
        assert!(!wait_until(|| false, Duration::ZERO));
    }
}

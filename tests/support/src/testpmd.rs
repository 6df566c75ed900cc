//! DPDK's testpmd, with a port that is the peer of ours in shared memory.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Time that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One of these at a time: each wants all processors there are, and the open files of a process are
/// counted.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Setup of a testpmd.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Tells those of one test from others.
    pub name: &'a str,
    /// Its `--vdev`.
    pub device: &'a str,
    /// Its memory.
    pub megabytes: &'a str,
    /// More arguments, of testpmd's own.
    pub arguments: &'a [&'a str],
    /// Its queues, of each direction.
    pub queues: usize,
    /// Its forwarding engine.
    pub engine: &'a str,
}

/// A testpmd with one port, forwarding. Killed when it is dropped.
#[derive(Debug)]
pub struct Testpmd {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    readers: Vec<JoinHandle<()>>,
}

impl Testpmd {
    /// Starts it. It may take a moment to be there.
    ///
    /// # Panics
    ///
    /// When it cannot be started.
    pub fn start(setup: &Setup<'_>) -> Testpmd {
        let program = crate::require("dpdk-testpmd");
        let Setup { name, device, megabytes, arguments, queues, engine } = setup;
        // Into a pipe it would write nothing before it ends.
        let mut child = Command::new("stdbuf")
            .arg("--output=L")
            .arg(program)
            .args(["-l", "0,1", "--no-huge", "-m", megabytes, "--no-pci"])
            .args(["--single-file-segments", "--no-telemetry"])
            .args(["--file-prefix", &format!("{name}-{}", unique())])
            .arg(format!("--vdev={device}"))
            .args(["--", "--interactive", "--nb-cores=1"])
            .args(["--port-topology=loop", "--no-mlockall"])
            .args([format!("--forward-mode={engine}")])
            .args([format!("--rxq={queues}"), format!("--txq={queues}")])
            .args(*arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let (send, lines) = mpsc::channel();
        let readers = vec![
            read_lines(child.stdout.take().unwrap(), send.clone()),
            read_lines(child.stderr.take().unwrap(), send),
        ];
        let mut testpmd = Testpmd { child, input, lines, readers };
        testpmd.send_command("start");
        testpmd
    }

    /// Has it carry out a command.
    ///
    /// # Panics
    ///
    /// When it has ended.
    #[track_caller]
    pub fn send_command(&mut self, line: &str) {
        if let Err(error) = self.try_send_command(line) {
            let said: Vec<_> = self.lines.try_iter().collect();
            panic!("testpmd: {error}: {:?}\n{}", self.child.wait(), said.join("\n"));
        }
    }

    fn try_send_command(&mut self, line: &str) -> std::io::Result<()> {
        writeln!(self.input, "{line}")?;
        self.input.flush()
    }

    /// Stops its port and starts it again, if it is still there to do so.
    pub fn restart_port(&mut self) {
        for line in ["stop", "port stop 0", "port start 0", "start"] {
            let _ = self.try_send_command(line);
        }
    }

    /// The signal it died of.
    ///
    /// # Panics
    ///
    /// When the kernel does not say.
    pub fn died_of(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().and_then(|status| status.signal())
    }

    /// Asks, and returns the numbers behind these labels in the answer, in their order.
    #[track_caller]
    fn ask<const N: usize>(&mut self, line: &str, labels: [&str; N]) -> [u64; N] {
        self.send_command(line);
        let until = Instant::now() + TIMEOUT;
        labels.map(|label| {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                let Ok(answer) = self.lines.recv_timeout(left) else {
                    panic!("testpmd does not answer `{line}`");
                };
                if let Some((_, rest)) = answer.split_once(label) {
                    let number: String =
                        rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
                    break number.parse().unwrap();
                }
            }
        })
    }

    /// Packets received and sent.
    ///
    /// # Panics
    ///
    /// When it does not answer.
    #[track_caller]
    pub fn counts(&mut self) -> (u64, u64) {
        let [received, sent] = self.ask("show port stats 0", ["RX-packets:", "TX-packets:"]);
        (received, sent)
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
    }
}

fn read_lines(from: impl Read + Send + 'static, to: Sender<String>) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = to.send(line);
        }
    })
}

/// Tells the processes of one socket apart: a killed one leaves its files behind.
fn unique() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

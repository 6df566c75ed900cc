//! A control socket whose clients take all they can.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A program that listens at a TCP port and at a UNIX socket.
struct Listening {
    program: Child,
    port: u16,
    socket: String,
    _folder: tempfile::TempDir,
}

impl Listening {
    /// `before` is done by the shell that starts it.
    fn start(before: &str) -> Listening {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control.sock").to_str().unwrap().to_owned();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Idle -> c :: Counter -> Discard; ControlSocket(TCP, {port}, LOCALHOST true);
            ControlSocket(UNIX, {socket})"
        );
        let mut command = Command::new("sh");
        let line = format!("{before}exec \"$0\" run --quiet --expression \"$1\"");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_linerate"), &config]);
        let program = command.stdin(Stdio::null()).spawn().unwrap();
        let listening = Listening { program, port, socket, _folder: folder };
        let until = Instant::now() + TIMEOUT;
        while UnixStream::connect(&listening.socket).is_err() {
            assert!(Instant::now() < until, "it does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        listening
    }

    fn tcp(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    fn unix(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }

    fn is_running(&mut self) -> bool {
        self.program.try_wait().unwrap().is_none()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The code that answers a command.
fn ask(stream: impl Into<OwnedFd>, command: &[u8]) -> String {
    let mut stream = UnixStream::from(stream.into());
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let command = command.to_vec();
    // The other side may have had enough of it.
    let said = thread::spawn(move || drop(writer.write_all(&command)));
    let mut answers = BufReader::new(&mut stream).lines();
    assert!(answers.next().unwrap().unwrap().starts_with("Click::ControlSocket/1."));
    let answer = answers.next().unwrap().unwrap();
    drop(answers);
    drop(stream);
    said.join().unwrap();
    answer[..3].to_owned()
}

#[test]
fn silent_clients_keep_no_others_out() {
    let listening = Listening::start("");
    let silent: Vec<TcpStream> = (0..300).map(|_| listening.tcp()).collect();
    assert_eq!(ask(listening.tcp(), b"READ c.count\r\n"), "200");
    assert_eq!(ask(listening.unix(), b"WRITE c.reset\r\n"), "200");
    // Nor do those that have begun a command, and those that have had an answer.
    for mut stream in silent.iter().rev().take(60) {
        // It may have been sent away.
        let _ = stream.write_all(b"READ c.count\r\nREAD c.c");
    }
    let more: Vec<TcpStream> = (0..100).map(|_| listening.tcp()).collect();
    assert_eq!(ask(listening.tcp(), b"READ c.count\r\n"), "200");
    drop((silent, more));
}

#[test]
fn it_goes_on_when_descriptors_run_out() {
    let mut listening = Listening::start("ulimit -n 40; ");
    let silent: Vec<TcpStream> = (0..60).map(|_| listening.tcp()).collect();
    assert_eq!(ask(listening.tcp(), b"READ c.count\r\n"), "200");
    drop(silent);
    let silent: Vec<TcpStream> = (0..60).map(|_| listening.tcp()).collect();
    drop(silent);
    assert_eq!(ask(listening.unix(), b"WRITE c.reset\r\n"), "200");
    assert!(listening.is_running());
}

#[test]
fn the_soft_limit_of_descriptors_is_raised() {
    let listening = Listening::start("ulimit -Sn 200; ulimit -Hn 300; ");
    let limits = fs::read_to_string(format!("/proc/{}/limits", listening.program.id())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().collect::<Vec<_>>(), ["300", "300", "files"]);
}

#[test]
fn a_command_that_memory_is_short_for_ends_alone() {
    let mut listening = Listening::start("");
    let id = listening.program.id();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let size: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = Some((size << 10) + (100 << 20));
    let pid = Pid::from_raw(id as i32).unwrap();
    prlimit(Some(pid), Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
    let large = [b"WRITEDATA c.reset 60000000\r\n".to_vec(), vec![b'x'; 60_000_000]].concat();
    assert_eq!(ask(listening.unix(), &large), "521");
    assert_eq!(ask(listening.unix(), b"READ c.count\r\n"), "200");
    // Clients that only read send no such command at all.
    assert_eq!(ask(listening.tcp(), &large), "530");
    assert!(listening.is_running());
}

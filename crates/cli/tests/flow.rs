//! `linerate flow` beside a switch that only asks whether the client is there: it ends in its time,
//! gives the reason, and stays small.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const LINERATE: &str = env!("CARGO_BIN_EXE_linerate");

/// Longest time of a command that should take a second.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Resident bytes that a command never needs.
const MUCH: u64 = 200 << 20;

/// The most memory a process had, in bytes.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

#[test]
fn commands_end_though_the_switch_goes_on_asking() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            thread::spawn(move || {
                // A hello of OpenFlow 1.3, and echo requests without end.
                let echo = [4, 2, 0, 8, 0, 0, 0, 1];
                let mut bytes = vec![4, 0, 0, 8, 0, 0, 0, 0];
                while stream.write_all(&bytes).is_ok() {
                    bytes = echo.repeat(20_000);
                }
            });
        }
    });
    for words in [
        &["dump"][..],
        &["ports"],
        &["tables"],
        &["groups"],
        &["meters"],
        &["top", "--count", "2"],
        &["monitor", "--count", "1"],
        &["add", "actions=drop"],
        &["add", "--atomic", "actions=drop"],
        &["del", "--all"],
    ] {
        let mut command = Command::new(LINERATE);
        command.args(["flow", "--timeout", "1s", "--switch"]);
        command.arg(format!("tcp:{address}")).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("linerate runs");
        let began = Instant::now();
        let mut most = 0;
        while child.try_wait().expect("a child").is_none() {
            most = most.max(peak(child.id()));
            if began.elapsed() > TIMEOUT || most > MUCH {
                let _gone = child.kill();
                panic!("{words:?}: {:?}, {most} bytes", began.elapsed());
            }
            thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().expect("it has ended");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
        assert!(errors.contains("--timeout gives it more"), "{words:?}: {errors}");
    }
}

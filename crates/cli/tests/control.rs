//! Who can control a configuration that runs, and how that is refused.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

const FOREVER: &str = "InfiniteSource -> c :: Counter -> Discard";
const VARIABLE: &str = "LINERATE_CONTROL_TOKEN";

fn linerate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments).stdin(Stdio::null()).env_remove(VARIABLE);
    command
}

fn run(options: &[&str]) -> Command {
    linerate(&[&["run", "-q", "-e", FOREVER][..], options].concat())
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file with a token, which is removed at the end.
struct TokenFile(PathBuf);

impl TokenFile {
    fn new(name: &str, token: &str) -> TokenFile {
        let path = std::env::temp_dir().join(format!("linerate-{name}-{}", std::process::id()));
        fs::write(&path, format!("{token}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        TokenFile(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A port nobody listens on.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The addresses that somebody listens on at a port.
fn listening(port: u16) -> Vec<String> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let addresses = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, at) = words[1].split_once(':')?;
        (words[3] == "0A" && u16::from_str_radix(at, 16) == Ok(port)).then(|| address.to_owned())
    });
    addresses.collect()
}

#[test]
fn a_port_is_of_this_host_alone() {
    let port = free_port();
    let run = run(&["--control", &port.to_string()]).stderr(Stdio::null()).spawn().unwrap();
    let _run = Running(run);
    let port_text = port.to_string();
    assert!(linerate(&["call", &port_text, "--ready"]).status().unwrap().success());
    assert_eq!(listening(port), ["0100007F"]);
}

#[test]
fn whoever_listens_to_others_wants_a_token() {
    let refused = run(&["--control", "0.0.0.0:7777"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(error(&refused).contains("--token-file FILE"), "{}", error(&refused));

    let (right, wrong) = (TokenFile::new("right", "s3cret"), TokenFile::new("wrong", "s3cres"));
    let port = free_port();
    let control = format!("0.0.0.0:{port}");
    let mut command = run(&["--control", &control, "--token-file", right.name()]);
    let mut run = Running(command.stderr(Stdio::null()).spawn().unwrap());
    let address = format!("127.0.0.1:{port}");
    let with = |options: &[&str]| linerate(&[&["call", &address][..], options].concat());
    assert!(with(&["--ready", "--token-file", right.name()]).status().unwrap().success());
    for mut command in [
        with(&["stop", "-w"]),
        with(&["c.count"]),
        with(&["stop", "-w", "--token-file", wrong.name()]),
    ] {
        let output = command.output().unwrap();
        assert!(!output.status.success() && error(&output).contains("(530)"), "{output:?}");
    }
    // What clients can read does not tell them.
    let config = with(&["config"]).env(VARIABLE, "s3cret").output().unwrap();
    assert!(config.status.success() && !String::from_utf8_lossy(&config.stdout).contains("s3cret"));
    assert!(with(&["stop", "-w"]).env(VARIABLE, "s3cret").status().unwrap().success());
    assert!(run.0.wait().unwrap().success());
}

#[test]
fn a_wrong_address_is_not_the_configurations_fault() {
    for (address, said) in [("99999", "is no TCP port"), ("router", "./router.sock")] {
        let output = run(&["--control", address]).output().unwrap();
        assert!(output.status.code() == Some(2) && error(&output).contains(said), "{output:?}");
    }
    assert!(!PathBuf::from("99999").exists());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["--control", &port]).output().unwrap();
    let expected = format!("cannot listen on 127.0.0.1:{port} for control connections: Address");
    let err = error(&output);
    assert!(err.starts_with(&format!("linerate: error: {expected}")), "{err}");
    assert!(output.status.code() == Some(7) && !err.contains("-->"), "{err}");
}

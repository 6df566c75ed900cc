//! Who can control a configuration that runs, and how that is refused.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixListener},
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

/// What a conversation of `lines` with a router says, and how it ends.
fn conversation(address: &str, lines: &str) -> Output {
    let mut command = linerate(&["call", address]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut call = command.spawn().unwrap();
    call.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    call.wait_with_output().unwrap()
}

#[test]
fn a_script_calls_handlers_line_by_line() {
    let port = free_port().to_string();
    let config = "InfiniteSource -> c :: Counter -> q :: Queue(10) -> Unqueue -> Discard";
    let mut command = linerate(&["run", "-q", "-e", config, "--control", &port]);
    let mut run = Running(command.stderr(Stdio::null()).spawn().unwrap());
    assert!(linerate(&["call", &port, "--ready"]).status().unwrap().success());
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();

    let script = "# the queue\n\nq.capacity 20\nq.capacity\nread q.name\nc.reset\nquit\nx.y\n";
    let done = conversation(&port, script);
    assert!(done.status.success(), "{}", error(&done));
    assert_eq!((said(&done), error(&done)), ("20\nq\n".into(), String::new()));
    let help = conversation(&port, "help");
    assert!(help.status.success() && said(&help).contains("HANDLER VALUE"));

    let what = linerate(&["call", &port, "--write"]).output().unwrap();
    assert_eq!(what.status.code(), Some(2), "{}", error(&what));
    let button = linerate(&["call", &port, "c.reset"]).output().unwrap();
    assert_eq!(button.status.code(), Some(1));
    assert!(error(&button).contains("--write if it takes none"), "{}", error(&button));
    let wrong = conversation(&port, "q.name\nx.count\nq.name\n");
    assert_eq!((wrong.status.code(), said(&wrong)), (Some(1), "q\n".into()));
    assert!(error(&wrong).contains("line 2: "), "{}", error(&wrong));
    assert!(conversation(&port, "stop\n").status.success());
    assert!(run.0.wait().unwrap().success());
}

/// The codes are those of files where it is a file that is missing, and else its own.
#[test]
fn a_router_that_cannot_be_reached_has_a_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("router.sock");
    let socket = path.to_str().unwrap();
    let port = free_port().to_string();
    for (address, code) in [(socket, 5), (&*port, 1)] {
        let output = linerate(&["call", address, "list"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", error(&output));
        assert!(error(&output).contains("cannot reach a router at"), "{}", error(&output));
    }
    // Somebody listens and says nothing, goes, and is gone.
    let listener = UnixListener::bind(&path).unwrap();
    let silent = linerate(&["call", socket, "list", "--timeout", "50ms"]).output().unwrap();
    assert_eq!(silent.status.code(), Some(1));
    assert!(error(&silent).contains("no answer in time"), "{}", error(&silent));
    let gone = std::thread::spawn(move || {
        // The one from before, and this one.
        for _ in 0..2 {
            drop(listener.accept().unwrap());
        }
        drop(listener);
    });
    let left = linerate(&["call", socket, "list"]).output().unwrap();
    assert_eq!(left.status.code(), Some(1), "{}", error(&left));
    gone.join().unwrap();
    let nobody = linerate(&["call", socket, "list"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1), "{}", error(&nobody));
}

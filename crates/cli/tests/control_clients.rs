//! Clients of control sockets: instances found by name, tokens found by port, and servers that are
//! another account's, slow, endless or silent.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{DirBuilderExt as _, PermissionsExt as _, chown},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Gid, Pid, Signal, Uid};
use serde_json::Value;

const FOREVER: &str = "c :: Counter; InfiniteSource -> c -> Discard";
const VARIABLE: &str = "LINERATE_CONTROL_TOKEN";
/// Longest time that a test waits for something.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A private directory in which accounts other than root have their runtime directory.
struct Account {
    folder: tempfile::TempDir,
}

impl Account {
    fn new() -> Account {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Account { folder }
    }

    fn linerate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(arguments).stdin(Stdio::null()).env_remove(VARIABLE);
        command.env("XDG_RUNTIME_DIR", self.folder.path());
        command
    }

    fn call(&self, arguments: &[&str]) -> Output {
        self.linerate(&[&["call"], arguments].concat()).output().unwrap()
    }

    /// The runtime directory: root's is not in the environment.
    fn directory(&self) -> PathBuf {
        if rustix::process::geteuid().is_root() {
            return "/run/linerate".into();
        }
        self.folder.path().join("linerate")
    }
}

/// A program that runs, with the object it has printed at its start.
struct Running {
    child: Child,
    start: Value,
}

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut object = || -> Value {
            let line = lines.next().expect("it has not ended").unwrap();
            serde_json::from_str(&line).unwrap()
        };
        let start = object();
        assert_eq!(start["event"], "start");
        while object()["event"] != "ready" {}
        // It goes on printing.
        thread::spawn(move || lines.for_each(drop));
        Running { child, start }
    }

    fn control(&self, key: &str) -> String {
        self.start["control"][0][key].as_str().unwrap_or_default().to_owned()
    }

    fn ends(&mut self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// A name that no other test has, in a directory that root's tests share.
fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[test]
fn an_instance_is_found_by_the_name_of_its_configuration() {
    let account = Account::new();
    let name = unique("named");
    let file = account.folder.path().join(format!("{name}.click"));
    fs::write(&file, FOREVER).unwrap();
    let run = || Running::start(account.linerate(&["run", file.to_str().unwrap(), "--control"]));
    let mut first = run();
    let path = account.directory().join(format!("{name}.sock"));
    assert_eq!(first.control("name"), name);
    assert_eq!(Path::new(&first.control("address")), path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(text(&account.call(&[&name, "c.name"]).stdout), "c");
    // The second has the number of its process.
    let mut second = run();
    assert_eq!(second.control("name"), format!("{name}-{}", second.child.id()));
    assert_eq!(text(&account.call(&[&second.control("name"), "c.name"]).stdout), "c");
    let listed = text(&account.call(&[]).stdout);
    for instance in [&first, &second] {
        assert!(listed.lines().any(|line| line == instance.control("name")), "{listed}");
    }
    // A name that is not there names those that are.
    let unknown = account.call(&["nowhere", "list"]);
    let error = text(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(5), "{error}");
    assert!(error.contains("no instance is called nowhere; there are: "), "{error}");
    assert!(error.contains(&name), "{error}");
    // The leftovers of killed processes are no obstacle, and go, also those of names that no other takes.
    let other = account.directory().join(second.control("name") + ".sock");
    for instance in [&mut first, &mut second] {
        instance.ends(Signal::KILL);
    }
    assert!(path.exists() && other.exists());
    let mut third = run();
    assert_eq!(third.control("name"), name);
    assert!(!other.exists() && !other.with_extension("lock").exists());
    third.ends(Signal::TERM);
    assert!(!path.exists() && !path.with_extension("lock").exists());
}

#[test]
fn commands_have_names_too() {
    let account = Account::new();
    let name = unique("traffic");
    let control = format!("--control={name}");
    let generator = account.linerate(&["generate", "null:", "--rate", "1kpps", &control]);
    let generator = Running::start(generator);
    assert_eq!(generator.control("name"), name);
    assert_eq!(text(&account.call(&[&name, "generate.rate"]).stdout), "1000pps");
    drop(generator);
    let forwarder = Running::start(account.linerate(&["forward", "null:", "null:", "--control"]));
    let name = forwarder.control("name");
    assert!(name.starts_with("forward"), "{name}");
    assert!(account.call(&[&name, "forward.clear", "-w"]).status.success());
    let expression = Running::start(account.linerate(&["run", "-e", FOREVER, "--control"]));
    assert!(expression.control("name").starts_with("run"));
}

#[test]
fn an_option_without_a_value_takes_no_other_argument() {
    let account = Account::new();
    let file = account.folder.path().join("router.click");
    fs::write(&file, FOREVER).unwrap();
    for words in [
        &["run", "--control", "router.click"][..],
        &["run", "--control", file.to_str().unwrap()],
        &["run", "--control", "DEV=eth1", "router.click"],
        &["forward", "--control", "null:", "null:"],
        &["switch", "--control", "a=memif:/run/a.sock"],
    ] {
        let output = account.linerate(words).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains("write --control behind"), "{words:?}: {error}");
    }
}

/// The port of a program that listens at one.
fn port(run: &Running) -> String {
    run.control("address").rsplit_once(':').unwrap().1.to_owned()
}

#[test]
fn a_token_is_made_for_a_port_and_found_by_it() {
    let account = Account::new();
    let mut run = Running::start(account.linerate(&["run", "-e", FOREVER, "--control", "0"]));
    let port = port(&run);
    let file = run.control("token_file");
    assert_eq!(Path::new(&file), account.directory().join(format!("control-{port}.token")));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(text(&account.call(&[]).stdout).lines().any(|line| line == port));
    // Without it nothing can be written.
    let mut raw = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    raw.write_all(b"WRITE c.reset\r\nWRITE stop\r\nREAD c.name\r\nQUIT\r\n").unwrap();
    let mut said = String::new();
    raw.read_to_string(&mut said).unwrap();
    assert_eq!(said.matches("530").count(), 2, "{said}");
    assert!(said.contains("DATA 1\r\nc"), "{said}");
    assert!(account.call(&[&port, "c.reset", "-w"]).status.success());
    assert!(account.call(&[&port, "stop", "-w"]).status.success());
    assert!(run.child.wait().unwrap().success());
    assert!(!Path::new(&file).exists());
}

/// Two commands that wait for the same port: the one that does not get it leaves the token alone.
#[test]
fn a_port_that_is_taken_leaves_its_token_alone() {
    let account = Account::new();
    let run = Running::start(account.linerate(&["run", "-e", FOREVER, "--control", "0"]));
    let (port, file) = (port(&run), run.control("token_file"));
    let token = fs::read_to_string(&file).unwrap();
    let second = account.linerate(&["run", "-e", FOREVER, "--control", &port]).output().unwrap();
    assert_eq!(second.status.code(), Some(7), "{}", text(&second.stderr));
    assert_eq!(fs::read_to_string(&file).unwrap(), token);
    assert!(account.call(&[&port, "c.reset", "-w"]).status.success());
}

#[test]
fn scripts_are_told_where_the_sockets_are() {
    let account = Account::new();
    let name = unique("told");
    let control = format!("--control={name}");
    let mut command = account.linerate(&["run", "-qe", FOREVER, &control, "--ready-fd", "1"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let path = account.directory().join(format!("{name}.sock"));
    assert_eq!(line, format!("ready {}\n", path.display()));
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_file(path).unwrap();
}

/// A server at a UNIX socket that serves one client by `serve`.
fn server(folder: &Path, serve: impl FnOnce(UnixStream) + Send + 'static) -> String {
    let path = folder.join("server.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    path.to_str().unwrap().to_owned()
}

/// The end of a client that read something from such a server, within a time.
fn against(limit: &str, serve: impl FnOnce(UnixStream) + Send + 'static) -> (Output, Duration) {
    let account = Account::new();
    let socket = server(account.folder.path(), serve);
    let began = Instant::now();
    let output = account.call(&[&socket, "c.count", "--timeout", limit]);
    (output, began.elapsed())
}

const GREETING: &[u8] = b"Click::ControlSocket/1.3\r\n";

#[test]
fn a_server_that_is_slow_or_silent_is_given_up() {
    let slow = |mut stream: UnixStream| {
        stream.write_all(GREETING).unwrap();
        stream.write_all(b"200 OK\r\nDATA 1000000\r\n").unwrap();
        // A byte now and then, for longer than anything waits.
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    let silent = |mut stream: UnixStream| {
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let lines = |mut stream: UnixStream| {
        stream.write_all(GREETING).unwrap();
        while stream.write_all(b"200-x\r\n").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    };
    let limit = "500ms";
    let all = [against(limit, slow), against(limit, silent), against(limit, lines)];
    for (output, took) in all {
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("no answer in time"), "{error}");
        assert!(took < TIMEOUT, "{took:?}");
    }
}

#[test]
fn a_server_that_floods_is_given_up() {
    fn flood(begin: &'static [u8], piece: &'static [u8]) -> impl FnOnce(UnixStream) + Send {
        move |mut stream| {
            stream.write_all(&[GREETING, begin].concat()).unwrap();
            let more = piece.repeat(8192);
            while stream.write_all(&more).is_ok() {}
        }
    }
    for (begin, piece, expected) in [
        (&b""[..], &b"200-more\r\n"[..], "answer is longer than"),
        (b"", b"endless", "has no code"),
        (b"200 OK\r\nDATA 99999999999\r\n", b"x", "99999999999 bytes, more than"),
        (b"200 OK\r\nDATA 99999999999999999999999\r\n", b"x", "expected data"),
    ] {
        // Its length ends it, on a busy machine as well.
        let (output, _) = against("60s", flood(begin, piece));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// A listener that never accepts: its queue is full, and connecting waits.
#[test]
fn a_listener_that_never_accepts_is_given_up() {
    let account = Account::new();
    let path = account.folder.path().join("full.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            rustix::net::SocketFlags::NONBLOCK,
            None,
        );
        let socket = socket.unwrap();
        let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::AGAIN);
                break;
            }
        }
    }
    let began = Instant::now();
    let output = account.call(&[path.to_str().unwrap(), "list", "--timeout", "300ms"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no answer in time"), "{error}");
    assert!(began.elapsed() < TIMEOUT);
}

/// Accounts without a name, which nothing else on the machine has.
const VICTIM: u32 = 64_211;
const ATTACKER: u32 = 64_212;

/// The program where every account can reach it.
fn reachable(folder: &Path) -> PathBuf {
    let program = folder.join("linerate");
    fs::copy(env!("CARGO_BIN_EXE_linerate"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// A command as an account without a group, home or session.
fn as_account(uid: u32, program: &Path, arguments: &[&str]) -> Command {
    let uid = uid.to_string();
    let mut command = Command::new(linerate_test_support::require("setpriv"));
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]).arg(program);
    command.args(arguments).stdin(Stdio::null());
    command.env_remove("XDG_RUNTIME_DIR").env(VARIABLE, "s3cret").current_dir("/");
    command
}

/// A listener of another account. It greets, and returns the bytes that each client sent.
fn listener_of(uid: u32, path: &Path) -> mpsc::Receiver<Vec<u8>> {
    let (told, heard) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let path = path.to_owned();
    thread::spawn(move || {
        // Of this thread alone.
        rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
        rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        ready.send(()).unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let _ = stream.write_all(GREETING);
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                bytes.extend(&buffer[..count]);
                // As if every command had succeeded.
                let _ = stream.write_all(b"200 OK\r\nDATA 1\r\nx");
            }
            if told.send(bytes).is_err() {
                return;
            }
        }
    });
    is_ready.recv().unwrap();
    heard
}

#[test]
#[ignore = "needs root"]
fn a_listener_of_another_account_gets_no_byte_by_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = reachable(folder.path());
    let directory = PathBuf::from(format!("/tmp/linerate-{VICTIM}"));
    let _ = fs::remove_dir_all(&directory);
    let run = |arguments: &[&str]| as_account(VICTIM, &program, arguments).output().unwrap();
    let commands = [
        &["call", "switch", "list", "--timeout", "2s"][..],
        &["switch", "list", "--timeout", "2s"],
        &["flow", "dump", "--timeout", "2s"],
        &["flow", "cache", "--timeout", "2s"],
    ];
    // The directory is another account's: made before the victim needed it.
    fs::DirBuilder::new().mode(0o755).create(&directory).unwrap();
    chown(&directory, Some(ATTACKER), Some(ATTACKER)).unwrap();
    let heard = listener_of(ATTACKER, &directory.join("switch.sock"));
    let flows = listener_of(ATTACKER, &directory.join("switch.openflow"));
    for arguments in commands {
        let output = run(arguments);
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}: {error}");
        assert!(error.contains(&format!("belongs to uid {ATTACKER}")), "{arguments:?}: {error}");
    }
    let server =
        as_account(VICTIM, &program, &["run", "-e", "Idle", "--control"]).output().unwrap();
    assert!(text(&server.stderr).contains("belongs to uid"), "{}", text(&server.stderr));
    assert!(heard.try_recv().is_err() && flows.try_recv().is_err());
    // Nor does a link to a directory of the victim's own lead anywhere.
    fs::rename(&directory, directory.with_extension("aside")).unwrap();
    let own = folder.path().join("own");
    fs::DirBuilder::new().mode(0o700).create(&own).unwrap();
    chown(&own, Some(VICTIM), Some(VICTIM)).unwrap();
    std::os::unix::fs::symlink(&own, &directory).unwrap();
    let error = text(&run(commands[1]).stderr);
    assert!(error.contains("it is not a directory"), "{error}");
    fs::remove_file(&directory).unwrap();
    // A socket of another account's in a directory of the victim's own: it is not trusted either.
    fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
    chown(&directory, Some(VICTIM), Some(VICTIM)).unwrap();
    let aside = directory.with_extension("aside");
    fs::rename(aside.join("switch.sock"), directory.join("switch.sock")).unwrap();
    let output = run(commands[1]);
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("nothing is sent to it"), "{error}");
    let sent = heard.recv_timeout(TIMEOUT).unwrap();
    assert!(sent.is_empty(), "{}", String::from_utf8_lossy(&sent));
    fs::remove_dir_all(directory).unwrap();
    fs::remove_dir_all(aside).unwrap();
}

#[test]
#[ignore = "needs root"]
fn a_socket_of_another_account_gets_no_token_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let program = reachable(folder.path());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = folder.path().join("theirs.sock");
    let heard = listener_of(ATTACKER, &path);
    let socket = path.to_str().unwrap();
    let output = as_account(VICTIM, &program, &["call", socket, "list"]).output().unwrap();
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(error.contains(&format!("uid {ATTACKER}, so no token is sent")), "{error}");
    let sent = String::from_utf8(heard.recv_timeout(TIMEOUT).unwrap()).unwrap();
    assert_eq!(sent, "READ list\r\n");
}

/// Another account reads as far as the mode lets it, and writes nothing; at a port it has no token.
#[test]
#[ignore = "needs root"]
fn another_account_only_reads() {
    let folder = tempfile::tempdir().unwrap();
    let program = reachable(folder.path());
    let path = folder.path().join("open.sock");
    let socket = path.to_str().unwrap();
    let account = Account::new();
    let arguments = ["run", "-e", FOREVER, "--control", socket, "--control-mode", "0666"];
    let by_socket = Running::start(account.linerate(&arguments));
    let by_port = Running::start(account.linerate(&["run", "-e", FOREVER, "--control", "0"]));
    let port = port(&by_port);
    for address in [socket, &port] {
        let run = |arguments: &[&str]| {
            let arguments = [&["call", address], arguments].concat();
            as_account(VICTIM, &program, &arguments).env_remove(VARIABLE).output().unwrap()
        };
        let read = run(&["c.name"]);
        assert_eq!(text(&read.stdout), "c", "{address}: {}", text(&read.stderr));
        for write in [&["c.reset", "-w"][..], &["stop", "-w"], &["c.config", "x"]] {
            let output = run(write);
            assert!(text(&output.stderr).contains("530"), "{write:?}: {}", text(&output.stderr));
        }
    }
    drop((by_socket, by_port));
    let private = Running::start(account.linerate(&["run", "-e", FOREVER, "--control", socket]));
    let refused = as_account(VICTIM, &program, &["call", socket, "list"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
    drop(private);
}

/// A port of this host that is not the one a token was made for gets none.
#[test]
fn a_token_is_of_one_port() {
    let account = Account::new();
    let _run = Running::start(account.linerate(&["run", "-e", FOREVER, "--control", "0"]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap().port().to_string();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(GREETING).unwrap();
        stream.write_all(b"200 OK\r\nDATA 1\r\nx").unwrap();
        let mut sent = String::new();
        stream.read_to_string(&mut sent).unwrap();
        sent
    });
    assert!(account.call(&[&other, "list"]).status.success());
    assert_eq!(served.join().unwrap(), "READ list\r\n");
}

/// Another account listens at the port of an instance, at another address of this host.
#[test]
#[ignore = "needs root"]
fn a_port_of_another_account_gets_no_token() {
    let account = Account::new();
    let run = Running::start(account.linerate(&["run", "-e", FOREVER, "--control", "0"]));
    let port = port(&run);
    assert!(Path::new(&run.control("token_file")).exists());
    let address = format!("[::1]:{port}");
    let (ready, is_ready) = mpsc::channel();
    let at = address.clone();
    let served = thread::spawn(move || {
        rustix::thread::set_thread_uid(Uid::from_raw(ATTACKER)).unwrap();
        let listener = TcpListener::bind(at).unwrap();
        ready.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[GREETING, b"200 OK\r\nDATA 1\r\nx"].concat()).unwrap();
        let mut sent = String::new();
        stream.read_to_string(&mut sent).unwrap();
        sent
    });
    is_ready.recv().unwrap();
    // Its own socket is its own alone.
    assert!(account.call(&[&port, "c.reset", "-w"]).status.success());
    let output = account.call(&[&address, "list"]);
    assert_eq!(served.join().unwrap(), "READ list\r\n");
    assert!(text(&output.stderr).contains("so no token is sent"), "{}", text(&output.stderr));
}

//! Rights to control a running configuration, and their refusal.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
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

/// A port without a listener.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The addresses with a listener at a port.
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
fn clients_of_a_port_write_with_the_token_alone() {
    let (right, wrong) = (TokenFile::new("right", "s3cret"), TokenFile::new("wrong", "s3cres"));
    let port = free_port();
    let control = format!("0.0.0.0:{port}");
    let mut command = run(&["--control", &control, "--token-file", right.name()]);
    let mut run = Running(command.stderr(Stdio::null()).spawn().unwrap());
    let address = format!("127.0.0.1:{port}");
    let with = |options: &[&str]| linerate(&[&["call", &address][..], options].concat());
    assert!(with(&["--ready"]).status().unwrap().success());
    assert!(with(&["c.count"]).status().unwrap().success());
    for mut command in [with(&["stop", "-w"]), with(&["stop", "-w", "--token-file", wrong.name()])]
    {
        let output = command.output().unwrap();
        assert!(!output.status.success() && error(&output).contains("(530)"), "{output:?}");
    }
    // Handlers do not show the token to clients.
    let config = with(&["config"]).env(VARIABLE, "s3cret").output().unwrap();
    assert!(config.status.success() && !String::from_utf8_lossy(&config.stdout).contains("s3cret"));
    assert!(with(&["stop", "-w"]).env(VARIABLE, "s3cret").status().unwrap().success());
    assert!(run.0.wait().unwrap().success());
}

#[test]
fn a_wrong_address_is_not_the_configurations_fault() {
    for (address, said) in [("99999", "is not a TCP port"), ("router.click", "./router.sock")] {
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

/// Output and exit code of a conversation of `lines` with a router.
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
    let replace = linerate(&["call", &port, "hotconfig", "Idle -> Discard"]).output().unwrap();
    assert_eq!(replace.status.code(), Some(1));
    assert!(error(&replace).contains("--allow-reconfigure"), "{}", error(&replace));
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
    for (address, code) in [(socket, 5), (&*port, 5)] {
        let output = linerate(&["call", address, "list"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", error(&output));
        assert!(error(&output).contains("cannot reach a router at"), "{}", error(&output));
    }
    // A listener says nothing, goes, and is gone.
    let listener = UnixListener::bind(&path).unwrap();
    let silent = linerate(&["call", socket, "list", "--timeout", "50ms"]).output().unwrap();
    assert_eq!(silent.status.code(), Some(1));
    assert!(error(&silent).contains("no answer in time"), "{}", error(&silent));
    let gone = thread::spawn(move || {
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
    assert_eq!(nobody.status.code(), Some(5), "{}", error(&nobody));
}

/// A command with a control socket in a folder of its own.
struct ControlledCommand {
    run: Running,
    address: String,
    _folder: tempfile::TempDir,
}

impl ControlledCommand {
    fn start(words: &[&str]) -> ControlledCommand {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().join("control.sock").to_str().unwrap().to_owned();
        let mut command = linerate(&[words, &["-q", "--control", &address]].concat());
        let run = Running(command.stderr(Stdio::piped()).spawn().unwrap());
        assert!(linerate(&["call", &address, "--ready"]).status().unwrap().success());
        ControlledCommand { run, address, _folder: folder }
    }

    fn call(&self, words: &[&str]) -> Output {
        linerate(&[&["call", &self.address], words].concat()).output().unwrap()
    }

    /// The value of a handler.
    fn read(&self, handler: &str) -> String {
        let output = self.call(&[handler]);
        assert!(output.status.success(), "{handler}: {}", error(&output));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn number(&self, handler: &str) -> u64 {
        self.read(handler).parse().unwrap()
    }

    fn write(&self, handler: &str, value: &str) {
        let output = self.call(&["-w", handler, value]);
        assert!(output.status.success(), "{handler}: {}", error(&output));
    }

    /// Waits until a handler's number is above another.
    fn exceeds(&self, handler: &str, number: u64) {
        let began = Instant::now();
        while self.number(handler) <= number {
            assert!(began.elapsed() < Duration::from_secs(60), "{handler} <= {number}");
        }
    }

    /// Waits for the end; returns its standard error.
    fn ends(mut self) -> String {
        let mut said = String::new();
        self.run.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.run.0.wait().unwrap().success(), "{said}");
        said
    }
}

#[test]
fn a_generator_is_controlled_while_it_runs() {
    let generator = ControlledCommand::start(&["generate", "null:", "--rate", "1kpps"]);
    assert_eq!(generator.read("generate.rate"), "1000pps");
    assert_eq!(generator.read("generate.size"), "64");
    assert_eq!(generator.read("generate.active"), "true");
    generator.exceeds("generate.count", 0);
    generator.write("generate.size", "128,256");
    generator.write("generate.rate", "max");
    assert_eq!(generator.read("generate.rate"), "max");
    assert_eq!(generator.read("generate.size"), "128,256");
    generator.exceeds("generate.count", 100_000);
    // A refused value changes nothing.
    for (handler, value, why) in [
        ("generate.rate", "fast", "is not a rate"),
        ("generate.rate", "50%", "no link speed"),
        ("generate.size", "9000", "do not fit packet buffers"),
        ("generate.size", "1", "are 64 to"),
        ("generate.size", "64", ""),
    ] {
        let output = generator.call(&[handler, value]);
        assert_eq!(output.status.code(), Some(i32::from(!why.is_empty())), "{}", error(&output));
        assert!(error(&output).contains(why), "{}", error(&output));
    }
    assert_eq!(generator.read("generate.rate"), "max");
    assert_eq!(generator.read("generate.size"), "64");
    generator.write("generate.stop", "");
    assert_eq!(generator.read("generate.active"), "false");
    // It learns of that between two bursts: until then some are sent behind the clearing.
    let began = Instant::now();
    loop {
        generator.write("generate.clear", "");
        let counts = generator.read("generate.counts");
        if counts.contains("accepted\t0\n") && counts.contains("bytes\t0\n") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{counts}");
    }
    assert_eq!(generator.number("generate.count"), 0);
    generator.write("generate.start", "");
    generator.exceeds("generate.count", 0);
    generator.write("stop", "");
    let said = generator.ends();
    assert!(said.contains("sent ") && said.contains(" frames in "), "{said}");
}

#[test]
fn a_forwarder_is_asked_and_stopped() {
    let forwarder = ControlledCommand::start(&["forward", "null:", "null:"]);
    forwarder.exceeds("forward.count", 1000);
    let counts = forwarder.read("forward.counts");
    let lines: Vec<Vec<&str>> = counts.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), 2, "{counts}");
    for (line, way) in lines.iter().zip(["received", "sent"]) {
        assert_eq!((line.len(), line[0], line[1]), (5, "null:", way), "{counts}");
        assert!(line[2].parse::<u64>().unwrap() > 0, "{counts}");
    }
    forwarder.write("forward.clear", "");
    let sent = forwarder.number("forward.count");
    assert!(forwarder.number("forward.received") >= sent);
    assert_eq!(forwarder.read("forward.dropped"), "0");
    let refused = forwarder.call(&["forward.rate", "1Mpps"]);
    assert_eq!(refused.status.code(), Some(1), "{}", error(&refused));
    forwarder.write("forward.stop", "");
    assert!(forwarder.ends().contains("forwarded "));
}

#[test]
fn commands_listen_as_runs_do() {
    for words in [&["generate", "null:"][..], &["forward", "null:", "null:"]] {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let output = linerate(&[words, &["--control", &port]].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", error(&output));
        assert!(error(&output).contains("cannot listen on 127.0.0.1"), "{}", error(&output));
    }
}

/// A terminal: the side that people are at.
struct Terminal {
    master: fs::File,
    shown: String,
}

impl Terminal {
    /// A command at one.
    fn start(command: &mut Command) -> (Terminal, Running) {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let other = || -> fs::File {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(&*name, flags, Mode::empty()).unwrap().into()
        };
        command.env("TERM", "xterm").stdin(other()).stdout(other()).stderr(other());
        let running = Running(command.spawn().unwrap());
        (Terminal { master: master.into(), shown: String::new() }, running)
    }

    fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until a text is shown that was not before.
    fn shows(&mut self, text: &str) {
        while !self.shown.contains(text) {
            let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
            let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
            let any = poll(&mut ready, Some(&minute)).unwrap();
            assert!(any > 0, "no {text:?} in {:?}", self.shown);
            let mut bytes = [0; 4096];
            let length = self.master.read(&mut bytes).unwrap();
            self.shown += &String::from_utf8_lossy(&bytes[..length]);
        }
        self.shown.clear();
    }
}

#[test]
fn names_are_completed_and_lines_remembered_at_a_terminal() {
    let port = free_port().to_string();
    let config = "InfiniteSource -> c :: Counter -> q :: Queue(10) -> Unqueue -> Discard";
    let mut command = linerate(&["run", "-q", "-e", config, "--control", &port]);
    let _run = Running(command.stderr(Stdio::null()).spawn().unwrap());
    assert!(linerate(&["call", &port, "--ready"]).status().unwrap().success());

    let (mut terminal, mut call) = Terminal::start(&mut linerate(&["call", &port]));
    terminal.shows(&format!("{port}> "));
    terminal.types("q.capac\t");
    terminal.shows("q.capacity");
    terminal.types(" 20\r");
    terminal.shows("> ");
    // The line before, from which its value is taken away.
    terminal.types("\x1b[A");
    terminal.shows("q.capacity 20");
    terminal.types("\x7f\x7f\x7f\r");
    terminal.shows("20\r\n");
    // A refusal of the router ends nothing.
    terminal.types("x.y\r");
    terminal.shows("(510)");
    terminal.types("quit\r");
    assert!(call.0.wait().unwrap().success());
}

/// A switch for changes of flows, with two ports that lead nowhere.
struct FlowSwitch {
    folder: tempfile::TempDir,
    _running: Running,
}

impl FlowSwitch {
    fn start() -> FlowSwitch {
        let folder = tempfile::tempdir().unwrap();
        let name = |file: &str| folder.path().join(file).to_str().unwrap().to_owned();
        let ring = |port: &str| format!("{port}=ring:flow-{port}-{}", std::process::id());
        let mut command = linerate(&["switch", "-q", "--no-huge", "--tables", "3"]);
        command.args(["--openflow", &format!("punix:{}", name("of"))]);
        command.args(["--control", &name("control"), "--port", &ring("a"), "--port", &ring("b")]);
        let running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let switch = FlowSwitch { folder, _running: running };
        let end = Instant::now() + Duration::from_secs(60);
        while !switch.flow(&["tables"]).status.success() {
            assert!(Instant::now() < end, "{}", error(&switch.flow(&["tables"])));
            thread::sleep(Duration::from_millis(50));
        }
        switch
    }

    fn name(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().unwrap().to_owned()
    }

    fn flow(&self, words: &[&str]) -> Output {
        let socket = format!("unix:{}", self.name("of"));
        linerate(&[&["flow", "--switch", &socket][..], words].concat()).output().unwrap()
    }

    /// Its output, when it succeeds.
    #[track_caller]
    fn says(&self, words: &[&str]) -> String {
        let output = self.flow(words);
        assert!(output.status.success(), "{words:?}: {}", error(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn flows_of_a_switch_are_read_and_changed() {
    let switch = FlowSwitch::start();
    switch.says(&["add", "priority=9,tcp,tp_dst=80,actions=output:b", "arp,actions=normal"]);
    let dumped = switch.says(&["dump"]);
    assert!(dumped.starts_with("table 0: 2 flows, 0 packets\n"), "{dumped}");
    assert!(dumped.contains("tcp,tp_dst=80  output:b\n"), "{dumped}");
    let plain = switch.says(&["-n", "dump", "--plain", "tcp"]);
    assert!(plain.contains("table=0, n_packets=0, n_bytes=0, "), "{plain}");
    assert!(plain.ends_with("priority=9,tcp,tp_dst=80 actions=output:2\n"), "{plain}");

    // Only differences are changed.
    let file = switch.name("flows");
    let flows = "# what is wanted\npriority=9,tcp,tp_dst=80,actions=output:b\n\
                 table=1,udp,actions=drop # none\n";
    fs::write(&file, flows).unwrap();
    let difference = switch.says(&["replace", "--dry-run", &file]);
    assert_eq!(difference, "-table=0, arp\n+table=1, udp actions=drop\n");
    let told = switch.says(&["--json", "replace", &file]);
    assert_eq!(told, "{\"added\":1,\"deleted\":1,\"same\":1}\n");
    assert_eq!(switch.says(&["replace", "--dry-run", &file]), "");
    let objects = switch.says(&["--json", "dump"]);
    let matches: Vec<String> = objects
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["match"].to_string())
        .collect();
    assert_eq!(matches, ["\"tcp,tp_dst=80\"", "\"udp\""]);

    switch.says(&["mod", "--file", &file]);
    switch.says(&["add", "--atomic", "ip,actions=drop", "ipv6,actions=drop"]);
    switch.says(&["del", "ip", "--strict"]);
    switch.says(&["del", "table=1"]);
    assert_eq!(switch.says(&["dump", "--plain"]).lines().count(), 2);

    switch.says(&["groups", "--add", "group_id=1,type=all,bucket=output:a,bucket=output:b"]);
    switch.says(&["meters", "--add", "meter=1,kbps,band=type=drop,rate=1000"]);
    let groups = switch.says(&["groups"]);
    assert!(groups.starts_with("group_id=1,type=all"), "{groups}");
    assert!(groups.contains("\n  bucket="), "{groups}");
    assert!(switch.says(&["meters"]).starts_with("meter=1,kbps,band=type=drop,rate=1000"));
    let ports = switch.says(&["ports"]);
    assert!(ports.contains("\na ") && ports.contains("\nb "), "{ports}");
    let top = switch.says(&["top", "--count", "1", "--interval", "100ms"]);
    assert!(top.contains("2 flows, "), "{top}");

    let control = switch.name("control");
    let traced = switch.says(&["trace", "--control", &control, "in_port=a,tcp,tp_dst=80"]);
    assert!(traced.contains("table 0: priority 9") && traced.contains("steps: "), "{traced}");
    assert!(switch.says(&["cache", "--control", &control]).contains("no entries"));

    switch.says(&["del", "--all"]);
    assert_eq!(switch.says(&["dump"]), "no flows\n");
}

#[test]
fn errors_of_flows_are_marked_in_their_text() {
    let switch = FlowSwitch::start();
    let output = switch.flow(&["add", "ip,nw_dts=10.0.0.1,actions=drop"]);
    assert_eq!(output.status.code(), Some(2));
    let said = error(&output);
    assert!(said.contains("unknown field \"nw_dts\""), "{said}");
    assert!(said.contains("   ^^^^^^\n") && said.contains("did you mean \"nw_dst\"?"), "{said}");

    let file = switch.name("flows");
    fs::write(&file, "ip,actions=drop\nip,actions=output:9999\n\nip,actions=dorp\n").unwrap();
    let said = error(&switch.flow(&["add", "--file", &file]));
    assert!(said.contains("flows:4: unknown action \"dorp\""), "{said}");
    // Nothing of it was done.
    assert_eq!(switch.says(&["dump"]), "no flows\n");

    let bad = "table=9,ip,actions=drop";
    let output = switch.flow(&["add", "arp,actions=drop", bad]);
    let said = error(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(bad) && said.contains("the switch refuses it"), "{said}");
    assert_eq!(switch.says(&["dump", "--plain"]).lines().count(), 1);
    let said = error(&switch.flow(&["add", "--atomic", "tcp,actions=drop", bad]));
    assert!(said.contains("nothing is changed"), "{said}");
    assert_eq!(switch.says(&["dump", "--plain"]).lines().count(), 1);

    let output = linerate(&["flow", "--switch", "unix:/nowhere/of", "dump"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", error(&output));
    assert!(error(&output).contains("cannot reach the switch at unix:/nowhere/of"));
    let output = linerate(&["switch", "--openflow", "ptcp:x", "ring:z"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", error(&output));
}

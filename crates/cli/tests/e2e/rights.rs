//! Other users can do nothing to a program by its control sockets but read.
//!
//! Programs run an element of each class, and a user without rights tries every handler of every
//! one of them, with values that name files, ports, scripts and handlers.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpStream,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::Path,
    time::Duration,
};

use linerate_elements_testing::{RunWith, TestLibrary};
use linerate_graph::Library;
use linerate_test_support::{Lab, Namespace, Running, wait_until};

use crate::support::{LINERATE, Scratch, TIMEOUT};

/// A run with the whole library.
type Run = RunWith<Whole>;

struct Whole;

impl TestLibrary for Whole {
    fn library() -> Library {
        linerate_elements::library()
    }
}

/// A user that the program does not run as.
const NOBODY: u32 = 65534;
const PORT: u16 = 17_780;

/// Classes whose examples need missing things: devices, files, peers.
const WITHOUT_EXAMPLE: &[&str] = &["EnsureEther"];

/// Handlers that say how much there is to do. Numbers are not written there: a run with all there is to
/// do takes its time.
const PACE: &[&str] = &[
    "limit",
    "burst",
    "burstsize",
    "active",
    "rate",
    "interval",
    "reset",
    "cycles",
    "frame_cycles",
    "accesses",
    "timewarp",
    "stop",
    "length",
    "datasize",
];

/// A client of a control socket.
struct Client {
    answers: BufReader<UnixStream>,
}

/// The code of an answer, and its data.
type Answer = (u16, String);

impl Client {
    fn new(stream: impl Into<OwnedFd>) -> Client {
        let stream = UnixStream::from(stream.into());
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut client = Client { answers: BufReader::new(stream) };
        client.line().expect("a greeting");
        client
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.answers.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => Some(String::from_utf8_lossy(&line).trim_end().to_owned()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Says a command; `None` when the conversation has ended.
    fn request(&mut self, command: &str, handler: &str, text: &str) -> Option<Answer> {
        let said = format!("{command}DATA {handler} {}\r\n{text}", text.len());
        self.answers.get_mut().write_all(said.as_bytes()).ok()?;
        let line = loop {
            let line = self.line()?;
            if line.as_bytes().get(3) == Some(&b' ') {
                break line;
            }
        };
        let code: u16 = line[..3].parse().unwrap_or_else(|_| panic!("no code: {line}"));
        let mut data = Vec::new();
        if code == 200 && command == "READ" {
            let length = self.line()?;
            let length = length.strip_prefix("DATA ").and_then(|length| length.parse().ok());
            data = vec![0; length.expect("a length")];
            self.answers.read_exact(&mut data).ok()?;
        }
        Some((code, String::from_utf8_lossy(&data).into_owned()))
    }

    fn read(&mut self, handler: &str) -> String {
        let (code, data) = self.request("READ", handler, "").expect("an answer");
        assert_eq!(code, 200, "{handler}");
        data
    }
}

/// A handler of a running element, and its listed access.
struct ListedHandler {
    name: String,
    access: String,
    /// Set if its value stays when nothing is done to it.
    stays: bool,
}

/// All handlers of an element of each class.
fn handlers(client: &mut Client) -> Vec<ListedHandler> {
    let list = client.read("list");
    let mut found = Vec::new();
    let mut classes = HashSet::new();
    for element in list.lines().skip(1) {
        let class = client.read(&format!("{element}.class"));
        // Spanning trees open the ports of a `Suppressor` after a while.
        let stays = class != "Suppressor";
        if !classes.insert(class) {
            continue;
        }
        for line in client.read(&format!("{element}.handlers")).lines() {
            let (name, access) = line.split_once('\t').unwrap();
            let (name, access) = (format!("{element}.{name}"), access.to_owned());
            found.push(ListedHandler { name, access, stays });
        }
        // A proxy does not list the handlers it passes on.
        if element.ends_with("proxy") {
            let name = format!("{element}.script.run");
            found.push(ListedHandler { name, access: "rw+".into(), stays });
        }
    }
    for name in ["stop", "hotconfig", "timewarp"] {
        found.push(ListedHandler { name: name.into(), access: "w".into(), stays: false });
    }
    found
}

/// Values that could make a program do something: `file` must not come to be.
fn values(file: &str) -> Vec<String> {
    vec![
        String::new(),
        "0".into(),
        "1".into(),
        "true".into(),
        "99999999999999999999".into(),
        file.into(),
        format!("pcap:{file}"),
        format!("\"{file}\""),
        format!("1 made.script.run {file}"),
        "made.script.run".into(),
        format!("print >{file} text"),
        format!("Script(print >{file} text, wait 1, loop)"),
        format!("END_CALL made.script.run {file}"),
        format!("COUNT_CALL 1 made.script.run {file}"),
        "TCP, 17799".into(),
        "0\nticket 1".into(),
    ]
}

/// Handlers that tests call besides, and a loop that keeps a run from ending.
const HEAD: &str = "elementclass Made { script :: Script(TYPE PASSIVE, print >$1 ran); proxy :: HandlerProxy }\n\
    made :: Made;\nDriverManager(label again, pause 1000000, goto again);\n";

/// Configurations with an element of each class whose example can run, in compounds of their own.
/// Those that cannot be together are in several.
fn configurations() -> Vec<String> {
    let library = linerate_elements::library();
    let mut left_out = Vec::new();
    let mut parts = Vec::new();
    for (number, class) in library.iter().enumerate() {
        if Run::new(class.example).real_time().refused().is_empty() {
            // There is one driver.
            let example = class.example.replace("DriverManager(", "Script(TYPE PASSIVE, ");
            let name = format!("part{number}");
            let text = format!("elementclass P{name} {{\n{example}\n}}\n{name} :: P{name};\n");
            parts.push((name, text));
        } else if !WITHOUT_EXAMPLE.contains(&class.name) {
            left_out.push(class.name);
        }
    }
    assert_eq!(left_out, [""; 0], "their examples do not run here");
    let mut texts = Vec::new();
    while !parts.is_empty() {
        let mut others = Vec::new();
        let text = loop {
            let text = parts.iter().fold(HEAD.to_owned(), |text, (_, part)| text + part);
            let refused = Run::new(&text).real_time().refused();
            if refused.is_empty() {
                break text;
            }
            let before = others.len();
            others.extend(parts.extract_if(.., |(name, _)| refused.contains(&format!("'{name}/"))));
            assert!(others.len() > before && !parts.is_empty(), "{refused}");
        };
        texts.push(text);
        parts = others;
    }
    texts
}

/// A program with these control sockets, where the user may connect.
struct Victim {
    program: Running,
    namespace: Namespace,
    scratch: Scratch,
    socket: String,
    /// A folder of the program's user alone.
    own: String,
}

impl Victim {
    fn start(text: &str, more: &[&str]) -> Victim {
        let namespace = Lab::new().namespace("rights");
        let scratch = Scratch::new();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let own = scratch.file("own");
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        let socket = scratch.file("control");
        let sockets =
            format!("ControlSocket(TCP, {PORT}); ControlSocket(UNIX, {socket}, MODE 0666);");
        let file = scratch.file("all.click");
        fs::write(&file, text.to_owned() + &sockets).unwrap();
        let words = [&[LINERATE, "run", "--quiet", &file][..], more].concat();
        let mut program = namespace.spawn(words);
        let listens = || UnixStream::connect(&socket).is_ok() || !program.is_running();
        assert!(wait_until(listens, TIMEOUT), "the program does not listen");
        assert!(program.is_running(), "{:?}", program.output(TIMEOUT));
        Victim { program, namespace, scratch, socket, own }
    }

    fn file(&self) -> String {
        format!("{}/f", self.own)
    }

    /// A connection by TCP, or by the UNIX socket, of a user.
    fn connect(&self, user: u32, tcp: bool) -> Client {
        self.namespace.enter(|| {
            become_user(user);
            if tcp {
                Client::new(TcpStream::connect(("127.0.0.1", PORT)).unwrap())
            } else {
                Client::new(UnixStream::connect(&self.socket).unwrap())
            }
        })
    }

    /// The traces of the program in the system: listening sockets, files and interfaces.
    fn traces(&self) -> (String, Vec<String>, Vec<String>) {
        let listening =
            self.namespace.expect(["ss", "--listening", "--numeric", "--no-header", "-xtuw"]);
        // The third column counts bytes that wait to be read.
        let place = |line: &str| {
            let columns = line.split_whitespace().enumerate();
            let kept: Vec<&str> =
                columns.filter(|(at, _)| *at != 2).map(|(_, word)| word).collect();
            kept.join(" ")
        };
        let mut listening: Vec<String> = listening.lines().map(place).collect();
        listening.sort_unstable();
        let links = self.namespace.expect(["ip", "-brief", "link"]);
        (links, listening, files(Path::new(&self.own)))
    }
}

/// This thread is one of a user's from now on.
fn become_user(user: u32) {
    let user = rustix::process::Uid::from_raw(user);
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<String> = entries.map(|path| path.display().to_string()).collect();
    all.sort();
    all
}

/// The values of handlers that can be written, as far as packets do not change them.
fn written(client: &mut Client, found: &[ListedHandler]) -> BTreeMap<String, String> {
    let writable = found
        .iter()
        .filter(|one| one.stays && one.access.starts_with("rw") && !one.access.contains('+'));
    writable
        .filter_map(|one| {
            let (code, data) = client.request("READ", &one.name, "")?;
            (code == 200).then(|| (one.name.clone(), data))
        })
        .collect()
}

/// As another user: all writes that could change anything are refused, and nothing changes.
fn assert_nothing_changes(text: &str, more: &[&str]) -> usize {
    let mut victim = Victim::start(text, more);
    let mut root = victim.connect(0, false);
    let found = handlers(&mut root);
    let first = written(&mut root, &found);
    // The scenario: time in which values that change by themselves do.
    std::thread::sleep(Duration::from_millis(300));
    let second = written(&mut root, &found);
    let steady = |(name, value): (&String, &String)| {
        (second.get(name) == Some(value)).then(|| (name.clone(), value.clone()))
    };
    let before: BTreeMap<String, String> = first.iter().filter_map(steady).collect();
    let traces = victim.traces();
    let file = victim.file();
    for tcp in [true, false] {
        let mut client = victim.connect(NOBODY, tcp);
        let mut attempts = 0;
        for one in &found {
            for value in values(&file) {
                if one.access.contains('w') {
                    let (code, _) = client.request("WRITE", &one.name, &value).expect("an answer");
                    assert!([530, 511].contains(&code), "{} {value:?}: {code}", one.name);
                    attempts += 1;
                }
                if one.access.starts_with('r') && one.access.contains('+') {
                    client.request("READ", &one.name, &value).expect("an answer");
                    attempts += 1;
                }
            }
        }
        assert!(attempts > 100, "{attempts} attempts");
        assert_eq!(victim.traces(), traces);
    }
    assert!(victim.program.is_running());
    let mut after = written(&mut root, &found);
    after.retain(|name, _| before.contains_key(name));
    assert_eq!(after, before);
    assert_eq!(files(Path::new(&victim.own)), [""; 0]);
    drop(victim.scratch);
    found.len()
}

/// In all configurations, which are made where their devices and files can be opened.
fn assert_no_configuration_changes(more: &[&str]) {
    let texts = Lab::new().namespace("examples").enter(configurations);
    let handlers: usize = texts.iter().map(|text| assert_nothing_changes(text, more)).sum();
    assert!(handlers > 2000, "{handlers} handlers");
}

/// Neither where the configuration may be replaced. One after the other: examples name files.
#[test]
#[ignore = "needs root"]
fn another_user_changes_nothing() {
    for more in [&[][..], &["--allow-reconfigure"]] {
        assert_no_configuration_changes(more);
    }
}

/// The right to write is none to open anything: no file comes to be, no port, and no script runs.
#[test]
#[ignore = "needs root"]
fn a_writer_opens_no_file_or_port() {
    let texts = Lab::new().namespace("examples").enter(configurations);
    let done: u32 = texts.iter().map(|text| a_writer_opens_nothing(text)).sum();
    assert!(done > 300, "{done} handlers were called");
}

fn a_writer_opens_nothing(text: &str) -> u32 {
    let mut victim = Victim::start(text, &[]);
    let found = handlers(&mut victim.connect(0, false));
    let traces = victim.traces();
    let mut client = victim.connect(0, false);
    let file = victim.file();
    let mut done = 0;
    // The end of the run takes the socket away, which is the client's right.
    for one in found.iter().filter(|one| one.name != "stop") {
        let name = one.name.rsplit('.').next().unwrap();
        let is_pace = PACE.contains(&name);
        for value in values(&file).into_iter().filter(|value| !is_pace || value.contains('/')) {
            let commands =
                [("WRITE", one.access.contains('w')), ("READ", one.access.contains('+'))];
            for (command, _) in commands.iter().filter(|(_, can)| *can) {
                let answer = client.request(command, &one.name, &value);
                let (code, _) =
                    answer.unwrap_or_else(|| panic!("{command} {} {value:?}", one.name));
                done += u32::from(code == 200);
            }
        }
        assert!(victim.program.is_running(), "{}", one.name);
        assert_eq!(files(Path::new(&victim.own)), [""; 0], "{}", one.name);
    }
    assert_eq!(victim.traces(), traces);
    done
}

/// Where a UNIX socket lets others connect they may read, and write with the token.
#[test]
#[ignore = "needs root"]
fn a_unix_socket_is_its_users() {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let [own, open, token] = ["own", "open", "token"].map(|name| scratch.file(name));
    fs::write(&token, "s3cret\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "Idle -> c :: Counter -> Discard; ControlSocket(UNIX, {own});
         ControlSocket(UNIX, {open}, MODE 0666, TOKEN file:{token})"
    );
    let namespace = Lab::new().namespace("socket");
    let _program = namespace.spawn([LINERATE, "run", "--quiet", "--expression", &config]);
    assert!(wait_until(|| UnixStream::connect(&open).is_ok(), TIMEOUT), "it does not listen");
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o600);
    let as_nobody = |path: &str| {
        namespace.enter(|| {
            become_user(NOBODY);
            UnixStream::connect(path)
        })
    };
    assert_eq!(as_nobody(&own).unwrap_err().kind(), ErrorKind::PermissionDenied);
    let mut nobody = Client::new(as_nobody(&open).unwrap());
    assert_eq!(nobody.read("c.count"), "0");
    assert_eq!(nobody.request("WRITE", "c.reset", "").unwrap().0, 530);
    nobody.answers.get_mut().write_all(b"AUTH s3cret\r\n").unwrap();
    assert_eq!(nobody.line().unwrap(), "200 AUTH OK");
    assert_eq!(nobody.request("WRITE", "c.reset", "").unwrap().0, 200);
    let mut root = Client::new(UnixStream::connect(&own).unwrap());
    assert_eq!(root.request("WRITE", "c.reset", "").unwrap().0, 200);
}

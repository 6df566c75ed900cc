//! The packaged units with their users, groups and capabilities: root and the unit's user change
//! the configuration, members of the group only read it, and other accounts cannot even connect.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use linerate_test_support::{
    Running, require,
    unit::{Stage, Unit},
    wait_until,
};

/// Numbers of accounts and a group that nothing else on the machine has.
const USER: u32 = 64_201;
const GROUP: u32 = 64_202;
const MEMBER: u32 = 64_203;
const OTHER: u32 = 64_204;
/// Longest time that a test waits for something.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A machine with the units' directories.
struct Machine {
    _folder: tempfile::TempDir,
    stage: Stage,
}

impl Machine {
    fn new() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        open(folder.path());
        let directory = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            open(&path);
            path
        };
        let [runtime, state, configurations] = ["run", "lib", "etc"].map(directory);
        let program = folder.path().join("linerate");
        fs::copy(env!("CARGO_BIN_EXE_linerate"), &program).unwrap();
        open(&program);
        let stage = Stage { program, runtime, state, configurations, user: USER, group: GROUP };
        Machine { _folder: folder, stage }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.stage.configurations.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    /// Starts an instance of a unit.
    fn start(&self, unit: &str, instance: &str, variables: &[(&str, &str)]) -> Running {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        let mut command = Unit::read(&folder.join(unit)).command(instance, variables, &self.stage);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Running::start(command)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.stage.runtime.join(name)
    }

    /// The program, run by an account of some groups.
    fn linerate(&self, uid: u32, groups: &[u32], words: &[&str]) -> Output {
        let mut command = Command::new(require("setpriv"));
        let text = |number: u32| number.to_string();
        command.args(["--reuid", &text(uid), "--regid", &text(uid)]);
        match groups {
            [] => command.arg("--clear-groups"),
            some => {
                let list: Vec<String> = some.iter().map(|group| text(*group)).collect();
                command.args(["--groups", &list.join(",")])
            }
        };
        command.arg(&self.stage.program).args(words).stdin(Stdio::null());
        command.env_remove("XDG_RUNTIME_DIR").env_remove("LINERATE_CONTROL_TOKEN");
        command.output().unwrap()
    }

    /// Waits until root is answered at a control socket.
    fn is_ready(&self, socket: &str) {
        let ready = self.linerate(0, &[], &["call", socket, "--ready", "--timeout", "60s"]);
        assert!(ready.status.success(), "{}", error(&ready));
    }

    /// Demands that a member of the group can read a handler and write none of these, and that another
    /// account cannot connect.
    fn only_reads(&self, socket: &str, handler: &str, writes: &[&[&str]]) {
        let call = |uid: u32, groups: &[u32], words: &[&str]| {
            self.linerate(uid, groups, &[&["call", socket], words].concat())
        };
        let read = call(MEMBER, &[GROUP], &[handler]);
        assert!(read.status.success() && !read.stdout.is_empty(), "{}", error(&read));
        for words in writes {
            let refused = call(MEMBER, &[GROUP], words);
            assert_eq!(refused.status.code(), Some(1), "{words:?}");
            assert!(error(&refused).contains("(530)"), "{words:?}: {}", error(&refused));
        }
        let stranger = call(OTHER, &[], &[handler]);
        assert_eq!(stranger.status.code(), Some(3), "{}", error(&stranger));
        assert!(error(&stranger).contains("Permission denied"), "{}", error(&stranger));
    }
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
#[ignore = "needs root"]
fn a_router_is_changed_by_its_user_and_root_alone() {
    let machine = Machine::new();
    machine.write("router.click", "s :: RatedSource(RATE 100) -> c :: Counter -> Discard");
    let mut router = machine.start("linerate@.service", "router", &[]);
    let path = machine.socket("linerate/router/control");
    let socket = text(&path);
    machine.is_ready(socket);
    let writes: &[&[&str]] =
        &[&["stop", "-w"], &["c.reset", "-w"], &["s.rate", "7"], &["s.config", "RATE 7"]];
    machine.only_reads(socket, "c.count", writes);
    for uid in [USER, 0] {
        let rate = (100 + uid % 7).to_string();
        let written = machine.linerate(uid, &[], &["call", socket, "s.rate", &rate]);
        assert!(written.status.success(), "uid {uid}: {}", error(&written));
        let read = machine.linerate(MEMBER, &[GROUP], &["call", socket, "s.rate"]);
        assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), rate);
    }
    let stop = machine.linerate(USER, &[], &["call", socket, "stop", "-w"]);
    assert!(stop.status.success(), "{}", error(&stop));
    assert!(router.wait(TIMEOUT).success());
    assert!(!path.exists());
}

/// With a token, which `OPTIONS` has, a port lets clients of root and of the user write, too.
#[test]
#[ignore = "needs root"]
fn a_router_with_a_token_is_changed_by_those_that_say_it() {
    let machine = Machine::new();
    machine.write("router.click", "s :: RatedSource(RATE 100) -> c :: Counter -> Discard");
    let token = machine.stage.configurations.join("token");
    machine.write("token", "s3cret\n");
    chown(&token, Some(USER), None).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let own = machine.stage.configurations.join("own");
    machine.write("own", "s3cret\n");
    chown(&own, Some(OTHER), None).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port = port.to_string();
    let options = format!("--control {port} --token-file {}", text(&token));
    let _router = machine.start("linerate@.service", "router", &[("OPTIONS", &options)]);
    machine.is_ready(text(&machine.socket("linerate/router/control")));
    let call = |words: &[&str]| machine.linerate(OTHER, &[], &[&["call", &port], words].concat());
    assert!(call(&["c.name"]).status.success());
    let refused = call(&["s.rate", "7"]);
    assert!(error(&refused).contains("(530)"), "{}", error(&refused));
    let written = call(&["s.rate", "7", "--token-file", text(&own)]);
    assert!(written.status.success(), "{}", error(&written));
}

#[test]
#[ignore = "needs root"]
fn ports_of_a_switch_come_and_go_by_its_user_and_root_alone() {
    let machine = Machine::new();
    let a = machine.socket("linerate-switch/lan/a.sock");
    let options = format!("a=memif:{}", text(&a));
    let _switch = machine.start("linerate-switch@.service", "lan", &[("OPTIONS", &options)]);
    let path = machine.socket("linerate-switch/lan/control");
    let socket = text(&path);
    machine.is_ready(socket);
    let writes: &[&[&str]] =
        &[&["switch.add", "b=memif:/nonexistent/b"], &["switch.remove", "a"], &["stop", "-w"]];
    machine.only_reads(socket, "switch.ports", writes);
    let switch = |uid: u32, groups: &[u32], words: &[&str]| {
        machine.linerate(uid, groups, &[&["switch"], words, &["--control", socket]].concat())
    };
    let b = format!("b=memif:{}", text(&machine.socket("linerate-switch/lan/b.sock")));
    let refused = switch(MEMBER, &[GROUP], &["add", &b]);
    assert!(error(&refused).contains("(530)"), "{}", error(&refused));
    let refused = switch(MEMBER, &[GROUP], &["remove", "a"]);
    assert!(error(&refused).contains("(530)"), "{}", error(&refused));
    for (uid, words) in [(USER, ["add", b.as_str()]), (0, ["remove", "b"])] {
        let done = switch(uid, &[], &words);
        assert!(done.status.success(), "uid {uid}: {}", error(&done));
    }
    let listed = switch(MEMBER, &[GROUP], &["list", "--json"]);
    assert!(listed.status.success(), "{}", error(&listed));
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 1);
}

/// The packaged consumer has the server's user and none of its capabilities, and gets packets.
#[test]
#[ignore = "needs root"]
fn a_consumer_is_served_and_the_group_only_reads() {
    let machine = Machine::new();
    machine.write("ids.click", "s :: RatedSource(RATE 1000) -> to :: ToConsumer(recorder)");
    let _cluster = machine.start("linerate-cluster@.service", "ids", &[]);
    let path = machine.socket("linerate-cluster/ids/control");
    let socket = text(&path);
    machine.is_ready(socket);
    let options = "--count 100 --write packets.pcap";
    let variables = [("CLUSTER", "ids"), ("OPTIONS", options)];
    let mut consumer = machine.start("linerate-consumer@.service", "recorder", &variables);
    assert!(consumer.wait(TIMEOUT).success());
    let file = machine.stage.state.join("linerate-consumer/recorder/packets.pcap");
    // A header of 24 bytes, and 16 in front of each packet.
    let recorded = fs::metadata(file).unwrap().len();
    assert!(recorded >= 24 + 100 * 16, "{recorded}");
    let writes: &[&[&str]] = &[&["stop", "-w"], &["s.rate", "7"]];
    machine.only_reads(socket, "to.count", writes);
    let stop = machine.linerate(USER, &[], &["call", socket, "stop", "-w"]);
    assert!(stop.status.success(), "{}", error(&stop));
    assert!(wait_until(|| !path.exists(), TIMEOUT));
}

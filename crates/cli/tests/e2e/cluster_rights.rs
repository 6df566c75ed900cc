//! Rights to share a cluster's memory: processes with the users and capabilities that packaged ones
//! have.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use linerate_test_support::{Running, wait_until};

use crate::support::{LINERATE, Scratch, TIMEOUT, linerate};

/// A user without a name.
const USER: &str = "4711";
/// The capabilities of the server; programs have fewer or more.
const SERVER: &str = "net_raw,sys_nice";

/// A command of the user, with these ambient capabilities and no others.
fn command(capabilities: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    let plus: String = capabilities
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| format!(",+{name}"))
        .collect();
    command.args([format!("--inh-caps=-all{plus}"), format!("--ambient-caps=-all{plus}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A server of that configuration, and its socket, which every user may connect to.
struct Server {
    running: Running,
    socket: String,
    _scratch: Scratch,
}

impl Server {
    fn start(mut command: Command, config: &str) -> Server {
        let scratch = Scratch::new();
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(scratch.path(), all.clone()).unwrap();
        let socket = scratch.file("socket");
        command.args(["cluster", "serve", "--quiet", "--no-huge", "-e", config]);
        command.args(["--socket", &socket]);
        let running = Running::start(command);
        let opened = || fs::set_permissions(&socket, all.clone()).is_ok();
        assert!(wait_until(opened, TIMEOUT), "the server does not listen");
        Server { running, socket, _scratch: scratch }
    }

    /// The access of a program that is started by this command and attaches by that name.
    #[track_caller]
    fn access(&self, mut command: Command, name: &str) -> String {
        command.args([LINERATE, "cluster", "attach", &self.socket, name, "--quiet"]);
        let shown = || {
            let objects = linerate(&format!("cluster status {} --json", self.socket)).json();
            objects.into_iter().find(|object| object["consumer"] == name).expect("it is listed")
        };
        assert!(wait_until(|| shown()["state"] == "absent", TIMEOUT), "{name} is taken");
        let mut program = Running::start(command);
        let attached = || shown()["state"] == "attached" || !program.is_running();
        assert!(wait_until(attached, TIMEOUT) && program.is_running(), "{name} is not attached");
        shown()["access"].as_str().unwrap().to_owned()
    }
}

fn serving(capabilities: &str) -> Command {
    let mut command = command(capabilities);
    command.arg(LINERATE);
    command
}

/// Returns true if the kernel lets a program of this command write to a process's memory.
fn may_write(mut command: Command, process: u32) -> bool {
    command.args(["sh", "-c", &format!("exec 3<>/proc/{process}/mem")]).stderr(Stdio::null());
    command.status().unwrap().success()
}

/// A program in a user namespace of its own, in which it has all capabilities.
fn contained() -> Command {
    let mut command = command("");
    let user = [format!("--map-user={USER}"), format!("--map-group={USER}")];
    command.args(["unshare", "--user", "--keep-caps"]).args(user);
    command
}

const WRITES: &str = "Idle -> ToConsumer(w, ACCESS write); Idle -> ToConsumer(r)";

/// Memory is shared with those programs that the kernel lets write to the server's, and no others.
#[test]
#[ignore = "needs root"]
fn memory_is_shared_for_writing_with_programs_that_could_write_anyway() {
    let server = Server::start(serving(SERVER), WRITES);
    let process = server.running.id();
    for (rights, shares) in [("", false), ("net_raw", false), (SERVER, true)] {
        assert_eq!(may_write(command(rights), process), shares, "the kernel, of `{rights}`");
        let [w, r] = ["w", "r"].map(|name| server.access(command(rights), name));
        let expected = if shares { ["write", "read"] } else { ["isolated"; 2] };
        assert_eq!([w.as_str(), &r], expected, "{rights}");
    }
    assert!(!may_write(contained(), process));
    assert_eq!(server.access(contained(), "w"), "isolated", "capabilities of another namespace");
    drop(server);
    // Without capabilities the user is enough.
    let server = Server::start(serving(""), WRITES);
    assert!(may_write(command(""), server.running.id()));
    assert_eq!(server.access(command(""), "w"), "write");
    assert_eq!(server.access(contained(), "w"), "isolated");
}

/// A server whose program cannot be read cannot be dumped, nor written to by its own user.
#[test]
#[ignore = "needs root"]
fn a_server_that_cannot_be_dumped_shares_nothing_for_writing() {
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = scratch.file("linerate");
    fs::copy(LINERATE, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711)).unwrap();
    let mut serving = command("");
    // `setpriv` itself can read every file until it has become the shell.
    serving.args(["sh", "-c", "exec \"$0\" \"$@\"", &program]);
    let server = Server::start(serving, WRITES);
    assert!(!may_write(command(""), server.running.id()));
    assert_eq!(server.access(command(""), "w"), "isolated");
}

/// The superuser's number without the server's capabilities is not enough.
#[test]
#[ignore = "needs root"]
fn root_without_capabilities_is_isolated() {
    let server = Server::start(Command::new(LINERATE), WRITES);
    let less = || {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    assert!(!may_write(less(), server.running.id()));
    assert_eq!(server.access(less(), "w"), "isolated");
    let mut same = Command::new("env");
    same.stdin(Stdio::null()).stdout(Stdio::null());
    assert_eq!(server.access(same, "w"), "write");
}

/// Where nothing may be written memory is sealed, and programs with fewer rights share it.
#[test]
#[ignore = "needs root"]
fn memory_that_is_only_read_is_shared_with_programs_with_fewer_rights() {
    let config = "Idle -> ToConsumer(r); Idle -> ToConsumer(own, ACCESS isolated)";
    let server = Server::start(serving(SERVER), config);
    assert_eq!(server.access(command(""), "r"), "read");
    assert_eq!(server.access(command(""), "own"), "isolated");
    assert_eq!(server.access(command(SERVER), "r"), "read");
}

//! Replacing the configuration of `click -R` over a control socket and by a
//! script. The answers expected are those of Click 2.1.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// `click` with a control socket; ended with the test.
struct Click {
    child: Child,
    socket: PathBuf,
}

impl Click {
    fn start(name: &str, options: &[&str], config: &str) -> Click {
        let file = format!("linerate-hotconfig-{}-{name}", std::process::id());
        let socket = std::env::temp_dir().join(file);
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(env!("CARGO_BIN_EXE_click"));
        command.arg("-u").arg(&socket).args(options).args(["-e", config]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Click { child, socket }
    }

    fn connect(&self) -> UnixStream {
        for _ in 0..2000 {
            if let Ok(stream) = UnixStream::connect(&self.socket) {
                return stream;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("nobody listens at {}", self.socket.display());
    }

    /// The answers to `commands` on one connection.
    fn talk(&self, commands: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(commands.as_bytes()).unwrap();
        stream.write_all(b"QUIT\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer = answer.replace("\r\n", "\n");
        let answer = answer.strip_prefix("Click::ControlSocket/1.3\n").unwrap();
        answer.strip_suffix("200 Goodbye!\n").unwrap().to_owned()
    }
}

impl Drop for Click {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.socket);
    }
}

const CONFIG: &str = "InfiniteSource -> c :: Counter -> Discard";

#[test]
fn a_client_replaces_the_configuration_and_goes_on() {
    let click = Click::start("replace", &["-R", "A=7"], CONFIG);
    let answer = click.talk(
        "WRITE hotconfig Idle -> Foo -> Discard\n\
         WRITE hotconfig Idle -> c::Counter(1,2,3,4) -> Discard\n\
         WRITE hotconfig Idle -> Discard -> Discard\n\
         WRITEDATA hotconfig 30\nIdle -> Discard;\nIdle -> Dis(;\nREAD hotconfig\n\
         CHECKWRITE hotconfig\n",
    );
    let expected = "520-Write handler 'hotconfig' error:\n\
        520 config:1: undeclared element 'Foo'\n\
        520-Write handler 'hotconfig' error:\n\
        520-config:1: While configuring 'c :: Counter':\n\
        520-  too many arguments\n\
        520 Router could not be initialized!\n\
        520-Write handler 'hotconfig' error:\n\
        520-config:1: 'Discard@2 :: Discard' has no output 0\n\
        520 Router could not be initialized!\n\
        520-Write handler 'hotconfig' error:\n\
        520-config:2: expected ')'\n\
        520 config:2: undeclared element 'Dis'\n\
        530 Handler 'hotconfig' write-only\n\
        200 Write handler 'hotconfig' OK\n";
    assert_eq!(answer, expected);
    // The old one has gone on, and its counts stay.
    let answer = click.talk(
        "WRITE hotconfig s :: InfiniteSource(LIMIT $A) -> new :: Counter -> c :: Counter -> Discard\n\
         READ list\nREAD s.limit\nREAD c.count\n",
    );
    let expected = "200 Write handler 'hotconfig' OK\n200 Read handler 'list' OK\nDATA 48\n\
        5\ns\nnew\nc\nDiscard@4\nclick_driver@@ControlSocket\n200 Read handler 's.limit' OK\n\
        DATA 1\n7200 Read handler 'c.count' OK\nDATA ";
    let count = answer.strip_prefix(expected).unwrap_or_else(|| panic!("{answer}"));
    let count: u64 = count.lines().nth(1).unwrap().parse().unwrap();
    assert!(count > 7, "{count} packets");
    // A warning does not keep the new one from running.
    let answer = click.talk(
        "WRITE hotconfig Idle -> c :: Classifier(-, 12/0800) => Discard, Discard\nREAD c.class\n",
    );
    let expected = "220-Write handler 'hotconfig' OK with warnings:\n\
        220-config:1: While configuring 'c :: Classifier':\n\
        220   warning: output 1 matches no packets\n\
        200 Read handler 'c.class' OK\nDATA 10\nClassifier";
    assert_eq!(answer, expected);
    // Without anything but the control socket the router goes on, too.
    let answer = click.talk("WRITE hotconfig\nREAD list\n");
    let list = "200 Read handler 'list' OK\nDATA 30\n1\nclick_driver@@ControlSocket\n";
    assert_eq!(answer, format!("200 Write handler 'hotconfig' OK\n{list}"));
}

/// The new configuration decides on the elements there are: a client whose own socket is not in it
/// is answered before it closes.
#[test]
fn the_answer_comes_before_the_socket_goes() {
    let file = std::env::temp_dir().join(format!("linerate-hotconfig-own-{}", std::process::id()));
    let _ = fs::remove_file(&file);
    let config = format!("ControlSocket(UNIX, {}); {CONFIG}", file.display());
    let click = Click::start("goes", &["-R"], &config);
    let ready = click.connect();
    let mut own = UnixStream::connect(&file).unwrap();
    own.write_all(b"WRITE hotconfig Idle -> Discard\n").unwrap();
    let mut answer = String::new();
    own.read_to_string(&mut answer).unwrap();
    let expected = "Click::ControlSocket/1.3\r\n200 Write handler 'hotconfig' OK\r\n";
    assert_eq!(answer, expected);
    assert!(!file.exists());
    drop(ready);
}

/// Output of a `click -R` that finds the texts of `new` in files `new0`, `new1` and so on. One that
/// does not end is ended.
fn printed(name: &str, options: &[&str], config: &str, new: &[&str]) -> String {
    let folder = std::env::temp_dir().join(format!("linerate-hot-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (number, text) in new.iter().enumerate() {
        fs::write(folder.join(format!("new{number}")), text).unwrap();
    }
    let mut command = Command::new("timeout");
    command.args(["30", env!("CARGO_BIN_EXE_click"), "-R"]).args(options).args(["-e", config]);
    let output = command.current_dir(&folder).stdin(Stdio::null()).output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A script that replaces the configuration does so at once: it gets the errors, and the run of the
/// new one begins where its own would have ended.
#[test]
fn a_script_replaces_the_configuration_before_it_goes_on() {
    for options in [&["--simtime"][..], &[]] {
        // A run that is managed, then one that is, with a count of its own.
        let source = "RatedSource(RATE 100, LIMIT 3) -> c :: Counter -> Discard;
            DriverManager(wait .1s, print \"old $(c.count)\", write hotconfig $(cat new0),
                print \"after $(c.count)\")";
        let new = "s :: RatedSource(RATE 100, LIMIT 4, STOP true) -> d :: Counter -> Discard;
            DriverManager(pause, print \"new $(d.count)\")";
        assert_eq!(printed("managed", options, source, &[new]), "old 3\nafter 3\nnew 4\n");
        // One that is not: it does not wait for a manager that is gone.
        let new = "Script(wait .1s, print \"new\", stop)";
        for source in [
            "DriverManager(write hotconfig $(cat new0))",
            "DriverManager(wait .01s, write hotconfig $(cat new0))",
            "Script(write hotconfig $(cat new0), stop)",
        ] {
            assert_eq!(printed("unmanaged", options, source, &[new]), "new\n", "{source}");
        }
        let source = "DriverManager(write hotconfig $(cat new0), print $?,
            write hotconfig $(cat new1), print $?, write hotconfig $(cat new2), print $?)";
        let wrong = ["Foo -> Discard", "Idle -> Counter(1, 2, 3, 4) -> Discard"];
        let all = [wrong[0], wrong[1], new];
        assert_eq!(printed("wrong", options, source, &all), "-22\n-22\n0\nnew\n");
    }
}

#[test]
fn without_leave_there_is_no_such_handler() {
    let click = Click::start("leave", &[], CONFIG);
    let answer = click.talk("WRITE hotconfig Idle -> Discard\nREAD version\n");
    let expected = "511 No handler named 'hotconfig'\n200 Read handler 'version' OK\nDATA 3\n2.1";
    assert_eq!(answer, expected);
}

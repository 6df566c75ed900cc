//! `linerate compile` from end to end: a program behaves as `linerate run` does.
//!
//! It is built without optimisation, in a folder that stays for the next time.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn linerate(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    output
}

/// Name, packets and drops of each element at the end of a run, and its other output.
fn account(output: &Output) -> (String, Vec<Value>) {
    let stdout = text(&output.stdout);
    let lines = || stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let summary = lines().find(|line| line["event"] == "summary").unwrap_or_else(|| {
        panic!("no summary: {stdout}{}", text(&output.stderr));
    });
    let elements =
        summary["elements"].as_array().unwrap().iter().map(|element| {
            serde_json::json!([element["name"], element["packets"], element["drops"]])
        });
    (text(&output.stderr), elements.collect())
}

const CONFIGURATION: &str = "require(library half.click);
define($COUNT 3000)
i :: InfiniteSource(LIMIT $COUNT, BURST 7, STOP true) -> c :: Counter -> Half -> d :: Discard;
DriverManager(wait, print c.count, print d.count, stop)";
const LIBRARY: &str =
    "elementclass Half { input -> r :: RoundRobinSwitch -> output; r[1] -> Discard }";

#[test]
fn a_program_acts_as_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("count.click"), CONFIGURATION).unwrap();
    fs::write(here.join("half.click"), LIBRARY).unwrap();
    let options = ["--simtime", "--json", "--quiet"];
    let run = |variable: &str| {
        let arguments = [&["run", "count.click", variable], &options[..]].concat();
        account(&output(&mut linerate(here, &arguments)))
    };
    let interpreted = ["COUNT=500", "COUNT=90"].map(run);

    let arguments = ["compile", "count.click", "COUNT=500", "--unoptimized", "--offline"];
    let built = output(&mut linerate(here, &arguments));
    assert!(text(&built.stderr).contains("linerate: ./count is made of count.click"));
    // It needs neither of the texts.
    fs::remove_file(here.join("count.click")).unwrap();
    fs::remove_file(here.join("half.click")).unwrap();
    let program = |arguments: &[&str]| {
        let mut command = Command::new(here.join("count"));
        command.args(arguments).current_dir(here);
        command
    };
    let compiled = account(&output(&mut program(&options)));
    assert_eq!(compiled, interpreted[0]);
    let other = [&["COUNT=90"], &options[..]].concat();
    assert_eq!(account(&output(&mut program(&other))), interpreted[1]);

    // Its command line, and its exit codes, are those of `linerate run`.
    let wrong = program(&["--idle", "sleep"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let unknown = program(&["CUONT=1"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    let told = text(&unknown.stderr);
    assert!(told.starts_with("count: error: ") && told.contains("did you mean COUNT=1?"), "{told}");

    without_a_linker(here);
    assert_eq!(fs::read_dir(here).unwrap().count(), 1, "something is left behind");
    controlled_and_ended(here);
}

/// Where all is compiled but nothing can be linked, the error names the package to install.
fn without_a_linker(here: &Path) {
    let arguments = ["compile", "-e", "Idle", "-o", "x", "--unoptimized", "--offline"];
    let output = linerate(here, &arguments).env("PATH", "/nowhere").output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("there is no C linker: install gcc"), "{told}");
}

/// A program that runs for ever answers at its control socket and ends on SIGINT; so does its
/// compilation, which leaves nothing.
fn controlled_and_ended(here: &Path) {
    let endless = ["compile", "-e", "InfiniteSource -> c :: Counter -> Discard"];
    let building = ["--unoptimized", "--offline", "-o", "endless"];
    let mut command = linerate(here, &[&endless[..], &building].concat());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("building"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let told: String = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{told}");
    assert!(told.contains("interrupted; nothing was written"), "{told}");
    assert_eq!(fs::read_dir(here).unwrap().count(), 1, "something is left behind");

    // Two at the same time wait for each other.
    thread::scope(|scope| {
        let build = |name: &'static str| {
            let building = ["--unoptimized", "--offline", "-o", name];
            output(&mut linerate(here, &[&endless[..], &building].concat()))
        };
        scope.spawn(move || build("one"));
        scope.spawn(move || build("endless"));
    });
    let mut command = Command::new(here.join("endless"));
    command.args(["--control", "./socket", "--quiet"]).current_dir(here);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    output(&mut linerate(here, &["call", "./socket", "--ready"]));
    let count = output(&mut linerate(here, &["call", "./socket", "c.count"]));
    assert!(text(&count.stdout).trim().parse::<u64>().unwrap() > 0);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert!(text(&ended.stderr).contains("InfiniteSource"), "no table at the end");
}

#[test]
fn impossible_programs_are_refused_before_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["-e", "Idle"], 2, "-o PROGRAM"),
        (&["-e", "Idle", "-o", "."], 2, "a folder of that name"),
        (&["-e", "Idle", "-o", "no/where"], 5, "cannot write no/where"),
        (&["-e", "Idle -> Queue(few) -> Discard", "-o", "x"], 8, "invalid number"),
        (&["-e", "Idle", "-o", "x", "--target-cpu", "z80"], 2, "no such processor"),
        (&["-e", "Idle", "-o", "x", "--source", "."], 2, "no source of Linerate"),
    ];
    for (arguments, code, told) in cases {
        let arguments = [&["compile"], arguments].concat();
        let output = linerate(folder.path(), &arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
    }
    let mut command = linerate(folder.path(), &["compile", "-e", "Idle", "-o", "x"]);
    command.env_remove("CARGO").env("PATH", "/nowhere").env("HOME", "/nowhere");
    let output = command.env_remove("CARGO_HOME").output().unwrap();
    let told = text(&output.stderr);
    assert!(told.contains("there is no Rust toolchain") && told.contains("rustup.rs"), "{told}");

    let cargo = folder.path().join("cargo");
    fs::write(&cargo, "").unwrap();
    let output = command.env("CARGO", cargo).env_remove("RUSTC").output().unwrap();
    assert!(text(&output.stderr).contains("no rustc beside it"), "{}", text(&output.stderr));
}

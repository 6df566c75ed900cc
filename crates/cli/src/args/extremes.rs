//! Tests that every option of every command takes any value without a panic, in its parser and in its use.
//!
//! The options come from the definitions, so that a new one is tried, too. A number that its parser accepts is also
//! used: the command runs for a moment, on ports that need no interface, in a process of its own, which may end in
//! any way but by a panic, an abort or a fault.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use clap::{Arg, CommandFactory, Parser, error::ErrorKind};
use linerate_test_support::{Running, extremes::VALUES, wait_until};
use rustix::process::Signal;

use super::Cli;
use crate::{click, commands, library};

/// Environment variables that make the test process run a command line instead of tests.
const WORDS: &str = "LINERATE_TEST_EXTREME";
/// The programs of command lines, their first words.
const LINERATE: &str = "linerate";
pub(crate) const CLICK: &str = "click";
/// The separator of the words there.
const BETWEEN: char = '\u{1f}';
/// Time after which a command is interrupted, and then killed.
const GRACE_PERIOD: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(60);

/// A source of a few packets, and a device that forwards.
const SOURCE: &str = "InfiniteSource(LIMIT 5, STOP true) -> Discard";
const DEVICE: &str = "FromPort(ring:a) -> ToPort(ring:b)";

/// Commands that are run for a moment: the command, the option that this line is for (all others,
/// when it is empty), and the words besides that option: an option with `=` gives way to itself.
/// Where one does not go with the rest, it has a line of its own.
const LINES: &[(&str, &str, &str)] = &[
    ("run", "", "-q --expression=SOURCE"),
    ("run", "token_file", "-q --expression=SOURCE --control=./c"),
    ("check", "", "--expression=SOURCE"),
    ("forward", "", "-q --count=100 --duration=10ms null: null:"),
    ("generate", "", "-q --count=100 --duration=10ms null:"),
    ("generate", "outer_vlan", "-q --count=100 --duration=10ms --vlan=1 null:"),
    ("sink", "", "-q --count=100 --duration=10ms null:"),
    ("sink", "concurrent", "-q --duration=10ms --answer null:"),
    ("sink", "answer", "-q --duration=10ms null:"),
    ("capture", "", "-q --interface=null: --write=o.pcap --count=100 --duration=10ms"),
    (
        "capture",
        "file_count",
        "-q --interface=null: --write=o.pcap --count=100 --duration=10ms -G 31622400",
    ),
    ("replay", "", "-q in.pcap null:"),
    ("replay", "times", "-q --duration=10ms in.pcap null:"),
    ("switch", "", "-q --duration=10ms --socket=./s a=null:"),
    ("switch", "tables", OPENFLOW),
    ("switch", "datapath_id", OPENFLOW),
    ("switch", "fail_mode", OPENFLOW),
    ("switch", "packet_rate", OPENFLOW),
    ("switch", "bundle_idle", OPENFLOW),
    ("switch", "ipfix", OPENFLOW),
    ("switch", "ipfix_set", OPENFLOW),
    ("switch", "ipfix_idle", OPENFLOW),
    ("switch", "ipfix_active", OPENFLOW),
    ("switch", "ipfix_sampling", OPENFLOW),
    ("switch", "sflow", "-q --duration=10ms --socket=./s a=null: --openflow=punix:./o"),
    ("switch", "sflow_rate", OPENFLOW),
    ("switch", "sflow_polling", OPENFLOW),
    ("switch", "sflow_agent", OPENFLOW),
    ("cluster serve", "", "-q --socket=./s --expression=SOURCE"),
    ("cluster attach", "", "./none name --write=o.pcap"),
    ("cluster weights", "", "./none name"),
    ("call", "", "./none c.count"),
    (
        "lab ndr",
        "",
        "--expression=DEVICE --isolated --force --max-rate=1kpps --goal=pdr --trial=2ms --sum=4ms",
    ),
    ("lab loss", "", "--expression=DEVICE --isolated --force --max-rate=1kpps --trial=2ms"),
    (
        "lab back-to-back",
        "",
        "--expression=DEVICE --isolated --force --max-rate=1kpps --longest=2ms --repetitions=1",
    ),
    (
        "lab recovery",
        "",
        "--expression=DEVICE --isolated --force --max-rate=1kpps --overload=2ms --after=2ms --repetitions=1",
    ),
    ("lab latency", "", "--expression=DEVICE --isolated --force --max-rate=1kpps --trial=2ms"),
];

const OPENFLOW: &str = "-q --duration=10ms --socket=./s a=null: --openflow=punix:./o --sflow=127.0.0.1 --ipfix=127.0.0.1";

/// Commands that are not run here, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("compile", "builds a program, which takes minutes; its options are files and names"),
    ("switch add", "asks a switch that runs"),
    ("switch remove", "asks a switch that runs"),
    ("switch list", "asks a switch that runs"),
    ("switch show", "asks a switch that runs"),
    ("cluster status", "has no number"),
    ("cluster top", "asks a cluster that runs"),
    ("cluster balance", "has no number"),
    ("cluster detach", "has no number"),
    ("flow", "asks a switch that runs"),
    ("elements", "has no number"),
    ("ports", "has no number"),
    ("doctor", "has no number"),
    ("lab run", "measures for minutes; has no number"),
    ("lab point", "measures for seconds; its numbers are in a specification"),
    ("lab list", "has no number"),
    ("lab work", "is started by measurements of the lab; its numbers are in their JSON"),
    ("lab calibrate", "has no number"),
    ("lab report", "has no number"),
    ("lab compare", "runs forwarders of others, as root"),
    ("plan", "needs results of measurements"),
    ("pcap", "has no number"),
    ("completions", "has no number"),
    ("man", "has no number"),
];

/// An option or an argument of a command.
struct OptionCase {
    /// The words that lead to its command.
    command: Vec<String>,
    arg: Arg,
    /// Number of arguments without a name in front of it, for one without.
    before: Option<usize>,
}

impl OptionCase {
    fn command(&self) -> String {
        self.command.join(" ")
    }

    /// The words of the option with a value.
    fn words(&self, value: &str) -> Vec<String> {
        match (self.arg.get_long(), self.arg.get_short()) {
            (Some(long), _) => vec![format!("--{long}={value}")],
            (None, Some(short)) => vec![format!("-{short}={value}")],
            (None, None) => vec!["--".into(), value.into()],
        }
    }

    /// Returns true if the parser takes a value. Bad values are refused before missing arguments.
    fn takes(&self, line: &mut clap::Command, value: &str) -> bool {
        let fillers = |filler: &str| vec![filler.to_owned(); self.before.unwrap_or(0)];
        let tries = ["null:", "1"].map(fillers);
        tries.into_iter().any(|fillers| {
            let mut words = vec![LINERATE.to_owned()];
            words.extend(self.command.iter().cloned().chain(fillers).chain(self.words(value)));
            match line.try_get_matches_from_mut(words) {
                Ok(_) => true,
                Err(error) => !matches!(
                    error.kind(),
                    ErrorKind::ValueValidation | ErrorKind::InvalidValue | ErrorKind::NoEquals
                ),
            }
        })
    }

    /// Returns true if it is a number, or has one in it.
    fn is_numeric(&self, line: &mut clap::Command) -> bool {
        let in_text = ["cores", "rate"].contains(&self.arg.get_id().as_str());
        in_text || !self.takes(line, "word")
    }
}

/// The command line, to be parsed again and again.
fn command_line() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// All options of all commands.
fn options() -> Vec<OptionCase> {
    fn collect(command: &clap::Command, path: &[String], found: &mut Vec<OptionCase>) {
        let positional = |arg: &&Arg| arg.is_positional();
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let before = arg.is_positional().then(|| {
                let all = command.get_arguments().filter(positional);
                all.take_while(|other| other.get_id() != arg.get_id()).count()
            });
            found.push(OptionCase { command: path.to_vec(), arg: arg.clone(), before });
        }
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            collect(sub, &[path, &[sub.get_name().to_owned()]].concat(), found);
        }
    }
    let mut found = Vec::new();
    collect(&command_line(), &[], &mut found);
    found
}

#[test]
fn no_value_makes_a_parser_panic() {
    let options = options();
    assert!(options.len() > 150, "{} options", options.len());
    let mut line = command_line();
    for option in &options {
        let refused = VALUES.iter().filter(|value| !option.takes(&mut line, value)).count();
        let (command, name) = (option.command(), option.arg.get_id());
        // Of values that are no number some are refused, too.
        let is_text = option.takes(&mut line, "word");
        assert!(is_text || refused > 5, "{command} {name} takes nearly everything");
    }
}

#[test]
fn commands_are_run_or_it_is_said_why_not() {
    for option in options() {
        let command = option.command();
        let is_run = LINES.iter().any(|(name, _, _)| *name == command);
        let is_not = NOT_RUN.iter().any(|(name, _)| command.starts_with(name));
        let is_group = ["switch", "lab", "cluster"].contains(&&*command);
        assert!(is_run || is_not || is_group, "`{command}` is neither run nor said to be not");
    }
}

/// The process in which a command line runs for the other tests; without one it is no test.
#[test]
fn one_line() {
    let Ok(words) = env::var(WORDS) else { return };
    let mut words = words.split(BETWEEN);
    let program = words.next().unwrap();
    if program == CLICK {
        click::start(program, words.map(str::to_owned), &[]);
        return;
    }
    let Ok(cli) = Cli::try_parse_from(std::iter::once(program).chain(words)) else { return };
    if let Err(error) = commands::run(cli.command, &library(&[]).unwrap()) {
        eprintln!("{error:#}");
    }
}

/// The words of the command line that an option is tried with, if its command is run.
fn line_for(option: &OptionCase) -> Option<Vec<String>> {
    let (command, name) = (option.command(), option.arg.get_id().as_str());
    let line = |id: &str| LINES.iter().find(|(at, of, _)| *at == command && *of == id);
    let (_, _, words) = line(name).or_else(|| line(""))?;
    let word = |word: &str| word.replace("SOURCE", SOURCE).replace("DEVICE", DEVICE);
    let own = option.arg.get_long().map(|long| format!("--{long}="));
    let others = |word: &&str| own.as_ref().is_none_or(|own| !word.starts_with(own.as_str()));
    Some(words.split(' ').filter(others).map(word).collect())
}

/// Runs a command line, which begins with its program; returns the harm it did.
fn harm(words: &[String], folder: &Path) -> Option<String> {
    let (out, err) = (folder.join("stdout"), folder.join("stderr"));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "args::extremes::one_line", "--nocapture"]);
    command.env(WORDS, words.join(&BETWEEN.to_string())).env("RUST_BACKTRACE", "0");
    command.current_dir(folder).stdin(Stdio::null());
    command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let mut running = Running::start(command);
    for (signal, patience) in [(Signal::INT, GRACE_PERIOD), (Signal::KILL, TIMEOUT)] {
        if !wait_until(|| !running.is_running(), patience) {
            running.signal_unless_ended(signal);
        }
    }
    let status = running.wait(TIMEOUT);
    let said = String::from_utf8_lossy(&fs::read(&err).unwrap()).into_owned();
    let killed = status.signal().filter(|signal| *signal != 2);
    let is_harm = killed.is_some()
        || ["panicked", "memory allocation of", "overflowed its stack"]
            .iter()
            .any(|bad| said.contains(bad));
    is_harm.then(|| format!("{}: {status}: {said}", words.join(" ")))
}

/// Runs command lines, several at a time; returns the harm they did.
pub(crate) fn harms(lines: &[Vec<String>]) -> Vec<String> {
    let (next, harms) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME * thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let folder = tempfile::tempdir().unwrap();
                let made = [LINERATE, "generate", "-q", "-n", "3", "pcap:in.pcap"];
                assert_eq!(harm(&made.map(str::to_owned), folder.path()), None);
                while let Some(words) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Not in one statement, which would hold the lock while the line runs.
                    let found = harm(words, folder.path());
                    harms.lock().unwrap().extend(found);
                }
            });
        }
    });
    harms.into_inner().unwrap()
}

/// Commands that run at a time for each processor: most of them sleep until they are interrupted.
const AT_A_TIME: usize = 4;
/// Values of an option that a command runs with: the first and the last that its parser takes.
const TRIED: usize = 1;

/// The values with which an option is run, of those its parser takes.
fn at_the_ends<'a>(taken: &[&'a str]) -> Vec<&'a str> {
    let last = taken.len().saturating_sub(TRIED).max(TRIED.min(taken.len()));
    [&taken[..TRIED.min(taken.len())], &taken[last..]].concat()
}

/// The largest packet memory that is tried: more is there or not, which the machine says, and takes its time.
fn is_too_large_to_try(name: &str, value: &str) -> bool {
    name == "arena" && ["4294967295", "4294967296"].contains(&value)
}

#[test]
fn no_number_makes_a_command_panic() {
    let mut lines = Vec::new();
    let mut tried = BTreeMap::new();
    let mut line = command_line();
    for option in options() {
        if !option.is_numeric(&mut line) {
            continue;
        }
        let Some(rest) = line_for(&option) else { continue };
        let name = option.arg.get_id().as_str();
        let taken: Vec<&str> = VALUES
            .iter()
            .copied()
            .filter(|value| !is_too_large_to_try(name, value) && option.takes(&mut line, value))
            .collect();
        for value in at_the_ends(&taken) {
            let value = option.words(value);
            let words = match option.before {
                // Arguments without a name come behind those that are in front of them.
                Some(_) => [option.command.clone(), rest.clone(), value].concat(),
                None => [option.command.clone(), value, rest.clone()].concat(),
            };
            let words = [vec![LINERATE.to_owned()], words].concat();
            if let Err(error) = line.try_get_matches_from_mut(&words) {
                let usual = [ErrorKind::ValueValidation, ErrorKind::InvalidValue];
                assert!(
                    usual.contains(&error.kind()) || option.before.is_some(),
                    "`{}` needs a line of its own for {name}: {error}",
                    option.command()
                );
                continue;
            }
            *tried.entry(option.command()).or_insert(0) += 1;
            lines.push(words);
        }
    }
    for (command, _, _) in LINES {
        assert!(tried.contains_key(*command), "no number of `{command}` was tried: {tried:?}");
    }
    let harms = harms(&lines);
    assert!(harms.is_empty(), "of {} lines {}:\n{}", lines.len(), harms.len(), harms.join("\n"));
}

//! The command line of `click`.

use std::num::NonZero;

use linerate_graph::lang::Globals;
use linerate_memory::FRAME_LIMIT;
use linerate_port::{PortUri, parse_device};

use super::options::{Item, OptionType, Options, Quotes, Spec, Value};
use crate::configuration::{Source, variable};

/// Options of a run.
#[derive(Debug, Clone)]
pub(super) struct CommandLine {
    pub(super) source: Source,
    pub(super) globals: Globals,
    pub(super) output: Option<String>,
    pub(super) handlers: Vec<String>,
    pub(super) exit_handler: Option<String>,
    pub(super) quit: bool,
    /// Whether there is a `hotconfig` handler.
    pub(super) reconfigure: bool,
    pub(super) times: bool,
    pub(super) warnings: bool,
    pub(super) threads: usize,
    /// The first core to bind threads to.
    affinity: Option<u32>,
    /// Begin of simulated time, in seconds.
    pub(super) simulated: Option<f64>,
    /// Whether every control connection may do everything.
    pub(super) insecure_control: bool,
    /// Configurations of the control sockets asked for.
    pub(super) sockets: Vec<String>,
    pub(super) click_path: Option<String>,
    /// Most packets in a frame.
    pub(super) vector: Option<usize>,
    /// Ports that devices of the configuration stand for.
    pub(super) devices: Vec<(String, PortUri)>,
    /// Messages to be written first.
    pub(super) remarks: String,
}

/// A command line that is done with at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EarlyExit {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) code: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    Affinity,
    ClickPath,
    Device,
    Dpdk,
    ExitHandler,
    Expression,
    File,
    Handler,
    Help,
    InsecureControl,
    NoWarnings,
    Output,
    Port,
    Quit,
    Reconfigure,
    Simulated,
    Socket,
    Threads,
    Time,
    UnixSocket,
    Vector,
    Version,
    Warnings,
}

const fn spec(long: &'static str, short: char, id: Id, value: OptionType) -> Spec<Id> {
    let short = if short == ' ' { None } else { Some(short) };
    Spec { long, short, id, value, negate: false, whole: false }
}

const fn negatable(spec: Spec<Id>) -> Spec<Id> {
    Spec { negate: true, ..spec }
}

/// In Click's order, which is that of its messages. `--device`, `--vector` and
/// `--insecure-control` are ours; they are not abbreviated, so that no abbreviation of
/// Click's becomes ambiguous.
static SPECS: &[Spec<Id>] = &[
    negatable(spec("allow-reconfigure", 'R', Id::Reconfigure, OptionType::Flag)),
    spec("clickpath", 'C', Id::ClickPath, OptionType::Text),
    spec("expression", 'e', Id::Expression, OptionType::Text),
    spec("dpdk", ' ', Id::Dpdk, OptionType::Flag),
    spec("file", 'f', Id::File, OptionType::Text),
    spec("handler", 'h', Id::Handler, OptionType::Text),
    spec("help", ' ', Id::Help, OptionType::Flag),
    spec("output", 'o', Id::Output, OptionType::Text),
    spec("socket", ' ', Id::Socket, OptionType::Integer),
    spec("port", 'p', Id::Port, OptionType::Text),
    spec("quit", 'q', Id::Quit, OptionType::Flag),
    spec("simtime", ' ', Id::Simulated, OptionType::MaybeReal),
    spec("simulation-time", ' ', Id::Simulated, OptionType::MaybeReal),
    spec("threads", 'j', Id::Threads, OptionType::Integer),
    negatable(spec("cpu", ' ', Id::Affinity, OptionType::MaybeInteger)),
    negatable(spec("affinity", 'a', Id::Affinity, OptionType::MaybeInteger)),
    spec("time", 't', Id::Time, OptionType::Flag),
    spec("unix-socket", 'u', Id::UnixSocket, OptionType::Text),
    spec("version", 'v', Id::Version, OptionType::Flag),
    negatable(spec("warnings", ' ', Id::Warnings, OptionType::Flag)),
    spec("exit-handler", 'x', Id::ExitHandler, OptionType::Text),
    spec("", 'w', Id::NoWarnings, OptionType::Flag),
    Spec { whole: true, ..spec("device", ' ', Id::Device, OptionType::Text) },
    Spec { whole: true, ..spec("vector", ' ', Id::Vector, OptionType::Integer) },
    Spec { whole: true, ..spec("insecure-control", ' ', Id::InsecureControl, OptionType::Flag) },
];

impl CommandLine {
    /// Reads a command line without the program's name.
    pub(super) fn parse(
        program: &str,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<CommandLine, EarlyExit> {
        let quotes = Quotes::from_env();
        let mut options = Options::new(SPECS, arguments, quotes);
        let mut line = CommandLine {
            source: Source::Input,
            globals: Globals::default(),
            output: None,
            handlers: Vec::new(),
            exit_handler: None,
            quit: false,
            reconfigure: false,
            times: false,
            warnings: true,
            threads: 1,
            affinity: None,
            simulated: None,
            insecure_control: false,
            sockets: Vec::new(),
            click_path: None,
            vector: None,
            devices: Vec::new(),
            remarks: String::new(),
        };
        let mut source = None;
        let mut unix = Vec::new();
        let mut given = Vec::new();
        while let Some(item) = options.next() {
            let remarks = line.remarks.clone();
            let wrong = |message: String| wrong(program, remarks.clone() + &message);
            let item = item.map_err(|message| wrong(prefixed(program, &message)))?;
            let (id, written, value, negated) = match item {
                Item::Option { id, written, value, negated } => (id, written, value, negated),
                Item::Argument(word) => {
                    match variable(&word) {
                        Some((name, _)) if line.globals.variables.iter().any(|v| v.0 == name) => {
                            let remark = format!("parameter '{name}' multiply defined\n");
                            line.remarks += &remark;
                        }
                        Some(variable) => line.globals.variables.push(variable),
                        None if source.is_some() => return Err(wrong(TWO_SOURCES.into())),
                        None => source = Some(Source::file(&word)),
                    }
                    continue;
                }
            };
            match id {
                Id::File | Id::Expression if source.is_some() => {
                    return Err(wrong(TWO_SOURCES.into()));
                }
                Id::File => source = Some(Source::file(&value.text())),
                Id::Expression => source = Some(Source::Expression(value.text())),
                Id::Output if line.output.is_some() => {
                    return Err(wrong("output file specified twice".into()));
                }
                Id::Output => line.output = Some(value.text()),
                Id::Handler => line.handlers.push(value.text()),
                Id::ExitHandler if line.exit_handler.is_some() => {
                    return Err(wrong("--exit-handler specified twice".into()));
                }
                Id::ExitHandler => line.exit_handler = Some(value.text()),
                Id::Port => {
                    let text = value.text();
                    let Some(port) = tcp_port(&text) else {
                        let message = options.expects(&written, "a TCP port number", &text);
                        return Err(wrong(prefixed(program, &message)));
                    };
                    line.sockets.push(format!("TCP, {port}"));
                }
                Id::UnixSocket => unix.push(format!("UNIX, {}", value.text())),
                Id::Socket => {
                    if let Value::Integer(descriptor) = value {
                        given.push(format!("SOCKET, {descriptor}"));
                    }
                }
                Id::Quit => line.quit = true,
                Id::Time => line.times = true,
                Id::Warnings => line.warnings = !negated,
                Id::NoWarnings => line.warnings = false,
                Id::Threads => {
                    let Value::Integer(threads) = value else { continue };
                    // As in Click, a number below 1 is 1.
                    let Some(threads) = threads.max(1).try_into().ok().filter(|n| *n <= THREADS)
                    else {
                        let range = format!("a number up to {THREADS}");
                        let message = options.expects(&written, &range, &threads.to_string());
                        return Err(wrong(prefixed(program, &message)));
                    };
                    line.threads = threads;
                }
                Id::Affinity => {
                    line.affinity = match value {
                        _ if negated => None,
                        Value::Integer(core) => {
                            let Some(core) = core.try_into().ok().filter(|core| *core <= CORE)
                            else {
                                let range = format!("a number from 0 to {CORE}");
                                let message = options.expects(&written, &range, &core.to_string());
                                return Err(wrong(prefixed(program, &message)));
                            };
                            Some(core)
                        }
                        _ => Some(0),
                    }
                }
                Id::Simulated => {
                    line.simulated = Some(match value {
                        Value::Real(start) if !(0.0..=SIMULATED).contains(&start) => {
                            let range = format!("a number from 0 to {SIMULATED}");
                            let message = options.expects(&written, &range, &format!("{start:?}"));
                            return Err(wrong(prefixed(program, &message)));
                        }
                        Value::Real(start) => start,
                        _ => 1e9,
                    });
                }
                Id::ClickPath => line.click_path = Some(value.text()),
                Id::Device => match parse_device(&value.text()) {
                    Ok(device) => line.devices.push(device),
                    Err(error) => return Err(wrong(prefixed(program, &error.to_string()))),
                },
                Id::Vector => {
                    let Value::Integer(limit) = value else { continue };
                    let valid = usize::try_from(limit).ok().filter(|n| *n <= FRAME_LIMIT);
                    let Some(limit) = valid.and_then(NonZero::new) else {
                        let range = format!("a number from 1 to {FRAME_LIMIT}");
                        let message = options.expects(&written, &range, &limit.to_string());
                        return Err(wrong(prefixed(program, &message)));
                    };
                    line.vector = Some(limit.get());
                }
                Id::Reconfigure => line.reconfigure = !negated,
                Id::InsecureControl => line.insecure_control = true,
                // There are no DPDK arguments here.
                Id::Dpdk => {}
                Id::Help => return Err(done(remarks, help(program))),
                Id::Version => return Err(done(remarks, version())),
            }
        }
        line.sockets.append(&mut unix);
        line.sockets.append(&mut given);
        if let Some(source) = source {
            line.source = source;
        }
        Ok(line)
    }

    /// The cores to run on.
    pub(super) fn cores(&self) -> Vec<u32> {
        self.affinity.map_or(Vec::new(), |first| (first..).take(self.threads).collect())
    }
}

const TWO_SOURCES: &str = "router configuration specified twice";
/// Most workers, as of `linerate run`.
const THREADS: usize = 256;
/// The last core that workers can be bound to.
const CORE: u32 = 65_535 - THREADS as u32;
/// The latest start of simulated time, in seconds: in the year 2255, before times end.
const SIMULATED: f64 = 9e9;

/// A TCP port number, or one with `+`: the next that is free.
fn tcp_port(text: &str) -> Option<&str> {
    let number: u16 = text.strip_suffix('+').unwrap_or(text).parse().ok()?;
    (number > 0 || !text.ends_with('+')).then_some(text)
}

/// Each line of a message with the program's name.
pub(super) fn prefixed(program: &str, message: &str) -> String {
    let lines: Vec<String> = message.lines().map(|line| format!("{program}: {line}")).collect();
    lines.join("\n")
}

/// Message and exit code for a command line that is wrong.
pub(super) fn wrong(program: &str, message: String) -> EarlyExit {
    let err = format!(
        "{message}\nUsage: {program} [OPTION]... [ROUTERFILE]\n\
         Try '{program} --help' for more information.\n"
    );
    EarlyExit { out: String::new(), err, code: 1 }
}

pub(super) fn done(err: String, out: String) -> EarlyExit {
    EarlyExit { out, err, code: 0 }
}

fn version() -> String {
    format!("click (Linerate) {}, compatible with Click 2.1\n", env!("CARGO_PKG_VERSION"))
}

fn help(program: &str) -> String {
    format!(
        "\
Runs a Click configuration: reports what is wrong with it on standard error, or
runs it until it ends or is interrupted. Takes the options of Click 2.1.

Usage: {program} [OPTION]... [ROUTERFILE] [VARIABLE=VALUE]...

The configuration (standard input when none is named):
  -f, --file FILE               from this file
  -e, --expression EXPR         from the command line
  -C, --clickpath PATH          search libraries here instead of in CLICKPATH

Running:
  -q, --quit                    only check and initialize
  -j, --threads N               this many workers (default 1, at most {THREADS})
  -a, --affinity[=N]            bind workers to cores, from core N (default 0)
      --simtime[=SECONDS]       in simulated time, beginning then (0 to {SIMULATED})
      --vector N                at most N packets at a time (1 to {FRAME_LIMIT}); by
                                default 1 where order can be seen, else 256
      --device NAME=PORT        the port a device of the configuration stands for, as
                                in 0=xdp:eth0; may be repeated
  -p, --port PORT               control connections at this TCP port, for reading
  -u, --unix-socket FILE        control connections at this UNIX socket, of the user
                                that runs the program and of root
      --socket FD               a control connection at this file descriptor
      --insecure-control        as in Click, every control connection may do
                                everything: stop the run, write any handler, run
                                scripts and so write files with this program's rights
  -R, --allow-reconfigure       control connections that may write also replace the
                                configuration (`hotconfig`), run scripts, open files

Output:
  -h, --handler ELEMENT.H       print this read handler after the run
  -x, --exit-handler ELEMENT.H  the value of this handler is the exit code
  -o, --output FILE             write the configuration without compounds
  -t, --time                    print the time the run took
  -w, --no-warnings             print no warnings
      --help                    print this and exit
  -v, --version                 print the version and exit
"
    )
}

#[cfg(test)]
mod tests {
    use linerate_test_support::extremes::VALUES;

    use super::*;
    use crate::args::extremes::{CLICK, harms};

    fn parse(line: &[&str]) -> Result<CommandLine, EarlyExit> {
        CommandLine::parse("click", line.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn everything_at_once() {
        let line = parse(&[
            "-qRte",
            "Idle",
            "A=1",
            "-h",
            "a.b",
            "-j4",
            "-a2",
            "-p",
            "77+",
            "-u",
            "/x",
            "--vector=8",
            "--insecure-control",
            "--device",
            "0=null:",
            "--simtime=5",
            "-w",
            "-x",
            "e",
            "-o",
            "-",
            "-C",
            "/lib",
        ])
        .unwrap();
        assert!(line.quit && line.reconfigure && line.times && !line.warnings);
        assert_eq!(line.source, Source::Expression("Idle".into()));
        assert_eq!(line.globals.variables, [("A".into(), "1".into())]);
        assert_eq!(line.handlers, ["a.b"]);
        assert_eq!(line.cores(), [2, 3, 4, 5]);
        assert_eq!(line.sockets, ["TCP, 77+", "UNIX, /x"]);
        assert!(line.insecure_control);
        assert_eq!((line.vector, line.simulated), (Some(8), Some(5.0)));
        assert_eq!(line.devices, [("0".into(), "null:".parse().unwrap())]);
        assert_eq!(line.exit_handler.as_deref(), Some("e"));
        assert_eq!(line.output.as_deref(), Some("-"));
        assert_eq!(line.click_path.as_deref(), Some("/lib"));
    }

    #[test]
    fn wrong_ones_end_with_the_usage() {
        for (line, message) in [
            (&["-Z"][..], "click: unrecognized option"),
            (&["-e", "a", "-e", "b"], "router configuration specified twice\n"),
            (&["a", "b"], "router configuration specified twice\n"),
            (&["-o", "a", "-o", "b"], "output file specified twice\n"),
            (&["-x", "a", "-x", "b"], "--exit-handler specified twice\n"),
            (&["-p", "foo"], "click: "),
            (&["--vector", "0"], "click: "),
            (&["--vector", "2049"], "click: "),
            (&["--device", "eth0"], "click: \"eth0\" is not NAME=PORT"),
        ] {
            let ending = parse(line).unwrap_err();
            assert!(ending.err.starts_with(message), "{line:?}: {}", ending.err);
            assert!(ending.err.ends_with("Try 'click --help' for more information.\n"));
            assert_eq!(ending.code, 1);
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_with_the_range() {
        for (word, range) in [
            ("-j257", "a number up to 256"),
            ("-a65280", "a number from 0 to 65279"),
            ("--affinity=-1", "a number from 0 to 65279"),
            ("--simtime=1e10", "a number from 0 to 9000000000"),
            ("--simtime=NaN", "a number from 0 to 9000000000"),
            ("--vector=2049", "a number from 1 to 2048"),
        ] {
            let ending = parse(&[word]).unwrap_err();
            assert!(ending.err.contains(&format!(" expects {range}, not ")), "{}", ending.err);
        }
    }

    /// Options with any value: the parser refuses it, or the program runs.
    #[test]
    fn no_value_makes_the_program_panic() {
        const REST: &[&str] = &["-qe", "RatedSource(RATE 1000, LIMIT 5, STOP true) -> Discard"];
        let mut lines = Vec::new();
        for spec in SPECS.iter().filter(|spec| spec.value != OptionType::Flag) {
            let option = |value: &&str| format!("--{}={value}", spec.long);
            let is_taken = |option: &String| parse(&[option.as_str()]).is_ok();
            let taken: Vec<String> = VALUES.iter().map(option).filter(is_taken).collect();
            if spec.value == OptionType::Text && spec.id != Id::Port {
                continue;
            }
            let refused = VALUES.len() - taken.len();
            assert!(taken.len() > 1 && refused > 5, "{}: {refused} refused", spec.long);
            for option in taken {
                // Initialized only, and run.
                for rest in [REST, &["-e", REST[1]]] {
                    let words = [&[CLICK, &option], rest].concat();
                    lines.push(words.into_iter().map(str::to_owned).collect());
                }
            }
        }
        let harms = harms(&lines);
        assert!(harms.is_empty(), "{} of {}:\n{}", harms.len(), lines.len(), harms.join("\n"));
    }
}

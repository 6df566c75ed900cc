//! Handlers: their declarations, those that every element and the router have, and the rules by
//! which they may be called.
//!
//! Every element has its class's handlers and these: `name`, `class`,
//! `config`, `ports`, `handlers`, `icounts`, `ocounts`, `cycles`, `drops`,
//! `scheduled`, `tickets`, `home_thread`.
//! Global ones belong to the router.

use std::{fmt::Write as _, time::Duration};

use crate::{error::HandlerError, right::Right};

/// One handler.
#[derive(Debug, Clone, Copy)]
pub struct Handler {
    /// Its name.
    pub name: &'static str,
    /// Whether it is read, written or both.
    pub access: Access,
    /// The value that is read or written, in a line.
    pub help: &'static str,
    /// Merging of the answers of several workers' replicas of the element.
    pub merge: Merge,
    /// Whether reading takes a parameter (`rate 5`).
    pub parameter: bool,
    /// Whether writing needs no value (a button).
    pub button: bool,
    /// Click's flags besides that, as its listings show them ([`Handler::flags`]).
    pub flags: &'static str,
    /// The right that reading it needs.
    pub read_right: Right,
    /// The right that writing it needs.
    pub write_right: Right,
    /// Whether it is kept from clients of control sockets.
    pub private: bool,
    /// Whether it needs no worker
    /// ([`Element::off_worker`](crate::Element::off_worker)).
    pub off_worker: bool,
}

impl Handler {
    const fn new(name: &'static str, access: Access, help: &'static str) -> Handler {
        Handler {
            name,
            access,
            help,
            merge: Merge::First,
            parameter: false,
            button: false,
            flags: "",
            read_right: Right::Read,
            write_right: Right::Write,
            private: false,
            off_worker: false,
        }
    }

    /// A value that can be read.
    pub const fn read(name: &'static str, help: &'static str) -> Handler {
        Handler::new(name, Access::Read, help)
    }

    /// A number that can be read and is summed over replicas.
    pub const fn count(name: &'static str, help: &'static str) -> Handler {
        Handler { merge: Merge::Sum, ..Handler::read(name, help) }
    }

    /// A value that can be written.
    pub const fn write(name: &'static str, help: &'static str) -> Handler {
        Handler::new(name, Access::Write, help)
    }

    /// Something that can be done: written without a value.
    pub const fn button(name: &'static str, help: &'static str) -> Handler {
        Handler { button: true, ..Handler::write(name, help) }
    }

    /// A value that can be read and written.
    pub const fn value(name: &'static str, help: &'static str) -> Handler {
        Handler::new(name, Access::ReadWrite, help)
    }

    /// Returns the handler with Click's flags, in this order: `%` for raw text, `.` for a value that is
    /// calm (changes seldom), `$` for one that is expensive to read, `U` for one that is seldom of use,
    /// `D` for an older name, and `c` for a check box.
    pub const fn flags(self, flags: &'static str) -> Handler {
        Handler { flags, ..self }
    }

    /// Lets the handler take a parameter when it is read.
    pub const fn with_parameter(self) -> Handler {
        Handler { parameter: true, ..self }
    }

    /// Returns the handler with the right that reading it needs, where reading does more than answer.
    pub const fn read_needs(self, right: Right) -> Handler {
        Handler { read_right: right, ..self }
    }

    /// Returns the handler with the right that writing it needs: [`Right::Replace`] where it opens files or ports, runs
    /// scripts, or keeps handler calls that run later.
    pub const fn write_needs(self, right: Right) -> Handler {
        Handler { write_right: right, ..self }
    }

    /// Hides the handler from clients of control sockets.
    pub const fn private(self) -> Handler {
        Handler { private: true, ..self }
    }

    /// Runs the handler on the caller's thread, by the element's
    /// [`Element::off_worker`](crate::Element::off_worker).
    pub const fn off_worker(self) -> Handler {
        Handler { off_worker: true, ..self }
    }

    /// Replaces the way answers of replicas are merged.
    pub const fn merged(self, merge: Merge) -> Handler {
        Handler { merge, ..self }
    }
}

/// Access to a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Returns true if it can be read.
    pub fn reads(self) -> bool {
        self != Access::Write
    }

    /// Returns true if it can be written.
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// Merging of the answers of several replicas. Writes go to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// They are the same everywhere: the first is taken.
    First,
    /// Numbers are added.
    Sum,
    /// The greatest number is taken.
    Max,
    /// They are put one below the other.
    Lines,
}

/// Time that another worker may take to answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);

/// Handlers every element has. `config` can be written where the class says so.
const COMMON: &[Handler] = &[
    Handler::read("name", "the element's name").flags("."),
    Handler::read("class", "the element's class").flags("."),
    Handler::read(CONFIG, "the configuration string").flags("."),
    Handler::read("ports", "its ports: push or pull (with ~ if agnostic) and what they lead to")
        .flags("."),
    Handler::read(
        "handlers",
        "its handlers: r and w, + if reading takes parameters, and Click's flags: % if text is kept \
        as it is, . if it changes seldom, $ if reading it is dear, U if it is seldom of use, D for an \
        older name, b for a button, c for a check box",
    )
    .flags("."),
    Handler::count("icounts", "packets that have arrived, a line per input, ?? if not counted"),
    Handler::count("ocounts", "packets that have left, a line per output, ?? if not counted"),
    Handler::read("cycles", "packets, calls and cycles it has cost"),
    Handler::read("drops", "packets dropped, by reason"),
    Handler::read("scheduled", "whether its task is to run"),
    Handler::read(TICKETS, "the share of its task: 1024 unless ScheduleInfo says otherwise"),
    Handler::read(HOME_THREAD, "the worker it is on, from 0"),
];

pub(crate) const TICKETS: &str = "tickets";
pub(crate) const HOME_THREAD: &str = "home_thread";
/// Those of elements that have a task.
pub(crate) static WRITTEN_TICKETS: Handler =
    Handler::value(TICKETS, "the share of its task: 1024 unless ScheduleInfo says otherwise");
pub(crate) static WRITTEN_HOME_THREAD: Handler =
    Handler::value(HOME_THREAD, "the worker its task is on, from 0");

pub(crate) const CONFIG: &str = "config";
/// The handler `config` of classes that can be reconfigured while they run, with the right that writing
/// it needs.
static WRITTEN_CONFIG: Handler =
    Handler::value(CONFIG, "the configuration string; writing it reconfigures the element")
        .flags(".");
static REPLACED_CONFIG: Handler = WRITTEN_CONFIG.write_needs(Right::Replace);

/// Handlers of the router as a whole.
pub const GLOBAL: &[Handler] = &[
    Handler::read("version", "the version of this program"),
    Handler::read("driver", "where the router runs: userlevel"),
    Handler::read("config", "the configuration as it was written"),
    Handler::read("flatconfig", "the configuration with compounds taken apart"),
    Handler::read(
        "requirements",
        "what the configuration requires, kind and name on lines of their own",
    ),
    Handler::read("handlers", "the global handlers, with r and w"),
    Handler::read("list", "how many elements there are, then their names, one a line"),
    Handler::write("stop", "takes away from the run count, one without a value"),
    Handler::read("classes", "the classes a configuration can use, one a line"),
    Handler::read("packages", "packages loaded: none, all elements are built in"),
    Handler::read("cycles", "cycles of all workers: input and output, task, idle"),
    Handler::value(
        TIMEWARP,
        "how many seconds pass in a second, nowait if nobody waits, or simulation",
    ),
    Handler::write(HOTCONFIG, "replaces the configuration, where that is allowed")
        .write_needs(Right::Replace),
];

/// The handler that replaces the graph; not there unless the router was made
/// to allow that.
pub(crate) const HOTCONFIG: &str = "hotconfig";

/// The handler that bends time.
pub(crate) const TIMEWARP: &str = "timewarp";

/// One answer from those of an element's replicas, as the handler says.
pub(crate) fn merge(handler: Option<&Handler>, mut answers: Vec<String>) -> String {
    let merge = handler.map_or(Merge::First, |handler| handler.merge);
    if answers.len() < 2 {
        return answers.pop().unwrap_or_default();
    }
    let numbers = || answers.iter().map(|answer| answer.trim().parse::<f64>().unwrap_or(0.0));
    match merge {
        Merge::First => answers.swap_remove(0),
        Merge::Sum if answers[0].contains('\n') => sum_lines(&answers),
        Merge::Sum => numbers().sum::<f64>().to_string(),
        Merge::Max => numbers().fold(f64::MIN, f64::max).to_string(),
        Merge::Lines => answers.join("\n"),
    }
}

/// Adds the numbers on the same line of several answers; a line that is no number stays.
fn sum_lines(answers: &[String]) -> String {
    let mut text = String::new();
    for (at, first) in answers[0].lines().enumerate() {
        let number = |answer: &String| answer.lines().nth(at)?.parse::<f64>().ok();
        let _ = match answers.iter().map(number).sum::<Option<f64>>() {
            Some(sum) => writeln!(text, "{sum}"),
            None => writeln!(text, "{first}"),
        };
    }
    text
}

/// The handlers that all elements have, for one whose configuration can be written with this right.
pub(crate) fn common(
    reconfigured: Option<Right>,
) -> impl DoubleEndedIterator<Item = &'static Handler> + use<> {
    let config = reconfigured.map(|right| match right {
        Right::Read | Right::Write => &WRITTEN_CONFIG,
        Right::Replace => &REPLACED_CONFIG,
    });
    COMMON.iter().map(move |handler| config.filter(|_| handler.name == CONFIG).unwrap_or(handler))
}

/// Checks that a handler can be read with this parameter and this right.
pub(crate) fn check_read(
    handler: Option<&Handler>,
    element: &str,
    name: &str,
    parameter: &str,
    right: Right,
) -> Result<(), HandlerError> {
    let handler = handler.ok_or_else(|| HandlerError::missing(name))?;
    if !handler.access.reads() {
        return Err(HandlerError::NotReadable(name.into()));
    }
    if !parameter.is_empty() && !handler.parameter {
        let text = format!("read handler '{element}.{name}' does not take parameters");
        return Err(HandlerError::refused(text));
    }
    check_right(name, handler.read_right, right)
}

/// Checks that a handler can be written with this right.
pub(crate) fn check_write(
    handler: Option<&Handler>,
    name: &str,
    right: Right,
) -> Result<(), HandlerError> {
    let handler = handler.ok_or_else(|| HandlerError::missing(name))?;
    if !handler.access.writes() {
        return Err(HandlerError::NotWritable(name.into()));
    }
    check_right(name, handler.write_right, right)
}

fn check_right(name: &str, needs: Right, right: Right) -> Result<(), HandlerError> {
    if right >= needs { Ok(()) } else { Err(HandlerError::denied(name, needs)) }
}

/// The text of a `handlers` handler: last declared first, as Click has it.
pub fn listing<'a>(
    handlers: impl DoubleEndedIterator<Item = (impl AsRef<str>, &'a Handler)>,
) -> String {
    let mut text = String::new();
    for (name, handler) in handlers.rev().filter(|(_, handler)| !handler.private) {
        let access = match handler.access {
            Access::Read => "r",
            Access::Write => "w",
            Access::ReadWrite => "rw",
        };
        let parameter = if handler.parameter { "+" } else { "" };
        let button = if handler.button { "b" } else { "" };
        // In Click's order, in which the one for a check box is the last.
        let (flags, last) = match handler.flags.strip_suffix('c') {
            Some(flags) => (flags, "c"),
            None => (handler.flags, ""),
        };
        let _ = writeln!(text, "{}\t{access}{parameter}{flags}{button}{last}", name.as_ref());
    }
    text
}

//! `Script` and `DriverManager`: small programs that call handlers.
//!
//! [`program`] reads instructions, [`run`] carries them out, [`numbers`] and
//! [`sprintf`] are the handlers that compute. Source: Click's documentation of
//! the two elements, and its answers to the same scripts.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::Read as _,
};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    Next, Right, Role, Text,
    lang::config::{quote, shift_word, split, uncomment, words},
    parse_integer,
};
use linerate_memory::{Frame, Slot};
use linerate_port::{Interest, Wake};

pub(super) mod numbers;
mod program;
mod run;
mod signals;
mod sprintf;

use super::FAMILY;
use program::{End, Instruction, Op, RETURNED, Target};
use run::{CUTTING, Errors, Rest, Step, count_work};
use signals::Signals;

use linerate_element_support::output::reason;

/// Bytes a script's variables hold in all, and how many there are.
const MEMORY: usize = 16 << 20;
const VARIABLES: usize = 4096;
/// Most bytes `cat` reads.
const FILE: u64 = 16 << 20;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// script gave no output
    Nowhere,
}

const HANDLERS: &[Handler] = &[
    Handler::write("step", "goes past that many waiting instructions, one without a value")
        .write_needs(Right::Replace),
    Handler::write("goto", "goes on at a label").write_needs(Right::Replace),
    Handler::value("run", "runs the script; reading gives what it returns")
        .with_parameter()
        .read_needs(Right::Replace)
        .write_needs(Right::Replace),
    Handler::read("add", "the sum of numbers").with_parameter(),
    Handler::read("sub", "the first number less the others").with_parameter(),
    Handler::read("min", "the least number").with_parameter(),
    Handler::read("max", "the greatest number").with_parameter(),
    Handler::read("avg", "the mean of numbers, cut for integers (FastClick's)").with_parameter(),
    Handler::read("count", "how many numbers there are (FastClick's)").with_parameter(),
    Handler::read("mul", "the product of numbers").with_parameter(),
    Handler::read("div", "the first number divided by the others").with_parameter(),
    Handler::read("idiv", "the same, cut to an integer").with_parameter(),
    Handler::read("mod", "the remainder of two integers").with_parameter(),
    Handler::read("rem", "the remainder of two numbers").with_parameter(),
    Handler::read("neg", "a number's negative").with_parameter(),
    Handler::read("abs", "a number's absolute value").with_parameter(),
    Handler::read("eq", "whether two numbers or strings are equal").with_parameter(),
    Handler::read("ne", "whether they differ").with_parameter(),
    Handler::read("gt", "whether the first is greater").with_parameter(),
    Handler::read("ge", "whether the first is greater or equal").with_parameter(),
    Handler::read("lt", "whether the first is less").with_parameter(),
    Handler::read("le", "whether the first is less or equal").with_parameter(),
    Handler::read("not", "the negation of a truth value").with_parameter(),
    Handler::read("sprintf", "words formatted as C's function does").with_parameter(),
    Handler::read("first", "the first word").with_parameter(),
    Handler::read("random", "a random number; below N, or between two").with_parameter(),
    Handler::read("and", "whether all are true").with_parameter(),
    Handler::read("or", "whether one is true").with_parameter(),
    Handler::read("nand", "whether not all are true").with_parameter(),
    Handler::read("nor", "whether none is true").with_parameter(),
    Handler::read("if", "the second word if the first is true, else the third").with_parameter(),
    Handler::read("in", "whether the first word is among the others").with_parameter(),
    Handler::read("now", "the time"),
    Handler::read("readable", "whether all handlers named can be read").with_parameter(),
    Handler::read("writable", "whether all handlers named can be written").with_parameter(),
    Handler::read("length", "the length of the text").with_parameter(),
    Handler::read("unquote", "the text without a layer of quotes").with_parameter(),
    Handler::read("htons", "16 bits in network order").with_parameter(),
    Handler::read("htonl", "32 bits in network order").with_parameter(),
    Handler::read("ntohs", "16 bits in the order of this machine").with_parameter(),
    Handler::read("ntohl", "32 bits in the order of this machine").with_parameter(),
    Handler::read("cat", "a file's contents").with_parameter().private().read_needs(Right::Replace),
    Handler::read("catq", "the same, quoted").with_parameter().private().read_needs(Right::Replace),
    Handler::read("kill", "sends a signal to processes")
        .with_parameter()
        .private()
        .read_needs(Right::Replace),
    Handler::read("get", "a variable's value").with_parameter(),
    Handler::write("set", "sets a variable: name, value").write_needs(Right::Replace),
    Handler::read("shift", "takes the first word off a variable, args if none is named")
        .with_parameter()
        .read_needs(Right::Replace),
];

/// Handler that reads an exported variable.
const EXPORTED: Handler = Handler::read("VARIABLE", "an exported variable's value");
/// Handler for all other names of a proxy.
const PROXIED: Handler = Handler::value("ANY", "runs the script")
    .with_parameter()
    .read_needs(Right::Replace)
    .write_needs(Right::Replace);

pub(super) const SCRIPT: Class = Class {
    name: "Script",
    family: FAMILY,
    summary: "runs a script that calls handlers",
    description: "Each argument is an instruction.\n\n\
        `set VAR TEXT`, `init VAR TEXT` (once, at the start), `export VAR [TEXT]` (as `init`, and \
        a read handler); `print [>FILE|>>FILE] [TEXT|HANDLER]`, `printn` (no newline), `save \
        HANDLER [FILE]`, `append HANDLER [FILE]`, `read HANDLER [ARGS]` (to standard error), \
        `write HANDLER [ARGS]` (its status is `$?`); `wait TIME`, `pause [COUNT]` (until stepped; \
        also `wait`, `wait_step`, `wait_stop`); `label L`, `goto L [CONDITION]`, `loop`; `end`, \
        `exit`, `stop` (asks for the end of the run), `return [VALUE]`, `error [TEXT]`. Those with \
        text also exist with a `q` at the end, which takes a layer of quotes off.\n\n\
        In texts `$name` is a variable's value and `$(handler args)` a handler's. `$args`, `$1`, \
        `$#` are what `run` was given, `$0` and `$write` how it was called, `$input` the port of a \
        packet, `$$` the process.\n\n\
        A script is `ACTIVE` (starts by itself), `PASSIVE` (run by the handler `run`), `PACKET` \
        (run by each packet; what it returns is the output), `PROXY` (run by any handler not \
        listed here), `DRIVER` (stepped when something asks for the end of the run, which ends \
        when the script does) or `SIGNAL NAME...`. A script that jumps 1000 times or \
        handles 16 MiB of text without waiting is given up.",
    ports: "-/-",
    processing: "ah/ah",
    args: &[
        Arg::keyword(
            "TYPE",
            "ACTIVE, PASSIVE, PACKET, PROXY, DRIVER or SIGNAL NAME...",
            "PACKET with ports, else ACTIVE",
            "when it runs",
        ),
        Arg::rest("INSTRUCTION", "instruction", "what to do"),
    ],
    handlers: HANDLERS,
    drops: Reason::REASONS,
    role: Role::Information,
    // It is run for each packet.
    calls: |plan, at| !plan.elements[at].inputs.is_empty(),
    cost: "About a microsecond per instruction, so also per packet for a PACKET script.",
    example: "s :: Script(set x 0, label again, print $x, set x $(add $x 1), \
        goto again $(lt $x 3), stop);",
    make: |make| Box::new(Script::new(make)),
    ..Class::here()
};

pub(super) const DRIVER_MANAGER: Class = Class {
    name: "DriverManager",
    summary: "a script that decides when the run ends",
    description: "A `Script` whose `TYPE` is `DRIVER` unless another is given. Each time something \
        asks for the end of the run, the script is stepped past the instruction it waits at; the \
        run ends when it reaches its end or `stop`.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard; \
        DriverManager(wait_stop, print c.count);",
    ..SCRIPT
};

/// When a script runs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ScriptKind {
    #[default]
    Active,
    Driver,
    Signal,
    Passive,
    Proxy,
    Packet,
}

/// One script. Its default value does nothing and stands in for one at work.
#[derive(Default)]
pub(super) struct Script {
    kind: ScriptKind,
    program: Vec<Instruction>,
    variables: HashMap<String, String>,
    exported: BTreeMap<String, ()>,
    /// The next instruction.
    at: usize,
    /// Steps taken so far.
    steps: i64,
    /// Steps requested while the script runs; `None` while it does not.
    more_steps: Option<i64>,
    /// The right of the call that started it, which it keeps after waiting.
    caller: Option<Right>,
    /// Result of the handler written last.
    status: i32,
    called_as: String,
    called_to_write: bool,
    arguments: String,
    numbers: Vec<i32>,
    signals: Option<Signals>,
    /// Set if signals run the script rather than their default action.
    installed: bool,
    random: Option<fastrand::Rng>,
    packets: Vec<Slot>,
}

impl Script {
    fn new(make: &mut ElementBuilder<'_>) -> Script {
        let mut script = Script::default();
        let Text(kind) = make.or("TYPE", Text::default());
        match script.read_kind(&kind) {
            Ok(Some(kind)) => script.kind = kind,
            Ok(None) if is_driver(make, make.element()) => script.kind = ScriptKind::Driver,
            Ok(None) if make.inputs() + make.outputs() > 0 => script.kind = ScriptKind::Packet,
            Ok(None) => {}
            Err(error) => {
                make.error(error);
                return script;
            }
        }
        let kind = script.kind;
        if kind == ScriptKind::Driver && (0..make.element()).any(|other| is_driver(make, other)) {
            make.error("router has more than one driver script");
        } else if kind == ScriptKind::Packet && make.inputs() == 0 {
            make.error("PACKET script must have inputs");
        } else if kind != ScriptKind::Packet && make.inputs() + make.outputs() > 0 {
            make.error("ports allowed only on PACKET scripts");
        } else {
            script.load(make, &make.rest());
        }
        script
    }

    /// A script that starts by itself and has no other arguments.
    pub(super) fn active(make: &mut ElementBuilder<'_>, instructions: &[String]) -> Script {
        let mut script = Script::default();
        script.load(make, instructions);
        script
    }

    fn load(&mut self, make: &mut ElementBuilder<'_>, instructions: &[String]) {
        match program::parse(instructions, self.kind == ScriptKind::Driver) {
            Ok(program) => self.program = program,
            Err(errors) => errors.into_iter().for_each(|error| make.error(error)),
        }
        // Every variable there can be exists from the start, empty.
        for instruction in &self.program {
            match &instruction.op {
                Op::Set { variable, .. } | Op::Init { variable, .. } => {
                    self.variables.insert(variable.clone(), String::new());
                }
                Op::Return { .. } => {
                    self.variables.insert(RETURNED.into(), String::new());
                }
                _ => {}
            }
            if let Op::Init { variable, export: true, .. } = &instruction.op {
                self.exported.insert(variable.clone(), ());
            }
        }
    }

    /// The `TYPE` argument.
    fn read_kind(&mut self, text: &str) -> Result<Option<ScriptKind>, &'static str> {
        let (word, rest) = shift_word(text);
        if word == "SIGNAL" {
            let numbers: Option<Vec<i32>> = words(rest).into_iter().map(signals::number).collect();
            self.numbers = numbers.filter(|all| !all.is_empty()).ok_or("bad signal number")?;
            return Ok(Some(ScriptKind::Signal));
        }
        if !rest.is_empty() {
            return Err("bad TYPE");
        }
        match word {
            "" => Ok(None),
            "ACTIVE" => Ok(Some(ScriptKind::Active)),
            "PASSIVE" => Ok(Some(ScriptKind::Passive)),
            "PACKET" | "PUSH" => Ok(Some(ScriptKind::Packet)),
            "PROXY" => Ok(Some(ScriptKind::Proxy)),
            "DRIVER" => Ok(Some(ScriptKind::Driver)),
            _ => Err("bad TYPE"),
        }
    }

    fn set_variable(&mut self, cx: &Context, name: &str, value: String, errors: &mut Errors) {
        count_work(self.variables.len());
        let others = self.variables.iter().filter(|(other, _)| *other != name);
        let bytes: usize = others.map(|(other, value)| other.len() + value.len()).sum();
        let new = !self.variables.contains_key(name);
        if bytes + name.len() + value.len() > MEMORY || (new && self.variables.len() >= VARIABLES) {
            errors.add(cx, "variables take too much memory");
            return;
        }
        self.variables.insert(name.to_owned(), value);
    }

    /// Runs the script from its start, as the handler `name` called with `arguments`, or steps it.
    /// Returns its state at rest.
    fn activate(
        &mut self,
        cx: &mut Context,
        name: &str,
        write: bool,
        text: &str,
        errors: &mut Errors,
    ) -> Rest {
        self.caller = Some(cx.right());
        self.called_as = name.to_owned();
        self.called_to_write = write;
        count_work(text.len());
        let (steps, kind) = match name {
            "goto" => {
                let Some(Target::At(to)) = program::label(&self.program, &uncomment(text)) else {
                    errors.add(cx, "jump to nonexistent label");
                    return Rest::Waiting;
                };
                self.jump(to, self.program.len());
                (0, Step::Jump)
            }
            "step" => match uncomment(text).as_str() {
                "router" => (1, Step::Router),
                "" => (1, Step::Normal),
                number => match parse_integer(number).and_then(|n| i32::try_from(n).ok()) {
                    Some(number) => (i64::from(number), Step::Normal),
                    None => {
                        errors.add(cx, "syntax error");
                        return Rest::Waiting;
                    }
                },
            },
            _ => {
                self.at = 0;
                self.arguments = text.to_owned();
                (0, Step::Jump)
            }
        };
        if let Some(more) = &mut self.more_steps {
            if name == "step" {
                *more = more.saturating_add(steps);
            }
        } else {
            self.go(cx, steps, kind, errors);
        }
        let rest = self.finish(cx);
        self.called_as = String::new();
        self.called_to_write = false;
        if matches!(rest, Rest::Ended(End::Error { .. } | End::Stop)) {
            self.arguments = String::new();
        }
        rest
    }

    /// Steps, and again as long as the script is stepped meanwhile.
    fn go(&mut self, cx: &mut Context, mut steps: i64, mut kind: Step, errors: &mut Errors) {
        let mut jumps = 0;
        while steps >= 0 {
            self.more_steps = Some(-1);
            jumps = self.step(cx, steps, kind, jumps, errors);
            steps = self.more_steps.take().unwrap_or(-1);
            kind = Step::Normal;
        }
    }

    /// The script has come to rest.
    fn finish(&mut self, cx: &mut Context) -> Rest {
        let rest = self.rest();
        if self.kind == ScriptKind::Signal && rest == Rest::Ended(End::Plain) {
            self.install(cx, true);
        }
        rest
    }

    fn install(&mut self, cx: &Context, installed: bool) {
        if self.installed == installed {
            return;
        }
        self.installed = installed;
        for number in &self.numbers {
            signals::count_script(*number, installed);
            cx.driver.handle_signal(*number, signals::runs_script(*number));
        }
    }

    /// Runs the script for signals that have come, or takes their default action, as a program
    /// without scripts for them.
    fn look_at_signals(&mut self, cx: &mut Context) {
        let raised = self.signals.as_mut().map(Signals::take).unwrap_or_default();
        if raised.is_empty() {
            return;
        }
        if self.installed {
            raised.iter().for_each(|number| cx.driver.take_signal(*number));
            self.install(cx, false);
            self.activate(cx, "run", true, "", &mut Errors::console());
            return;
        }
        // The program itself handles these.
        let own = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
        let by_default = |number: &i32| !own.contains(number) && !signals::runs_script(*number);
        raised.into_iter().filter(by_default).for_each(signals::default_action);
    }

    /// Returns the result of a run.
    fn returned(&self, rest: &Rest) -> String {
        match rest {
            Rest::Returned => self.variables.get(RETURNED).cloned().unwrap_or_default(),
            Rest::Ended(End::Plain) if self.kind == ScriptKind::Packet => "0".into(),
            _ => String::new(),
        }
    }

    /// The output a packet leaves by.
    fn output(&mut self, cx: &mut Context, port: usize) -> Option<usize> {
        let mut errors = Errors::console();
        self.variables.insert("input".into(), port.to_string());
        self.at = 0;
        self.step(cx, 0, Step::Jump, 0, &mut errors);
        let rest = self.finish(cx);
        let output = parse_integer(&self.returned(&rest))?;
        usize::try_from(output).ok().filter(|output| *output < cx.out.count().max(1))
    }

    fn dispatch(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let mut packets = std::mem::take(&mut self.packets);
        frame.drain_front(frame.len(), |slot| packets.push(slot));
        let outputs = cx.plan().elements[cx.element()].outputs.len();
        for slot in packets.drain(..) {
            match self.output(cx, port) {
                Some(0) if outputs > 0 => drop(frame.push(slot)),
                Some(output) if output < outputs => cx.out.emit(output, slot),
                _ => cx.drop_packet(slot, Reason::Nowhere),
            }
        }
        self.packets = packets;
    }

    /// Carries a handler out that runs the script.
    fn run_handler(
        &mut self,
        cx: &mut Context,
        name: &str,
        write: bool,
        text: &str,
    ) -> HandlerResult {
        let mut errors = Errors::caller();
        let rest = self.activate(cx, name, write, text, &mut errors);
        match errors {
            Errors::Caller { text, count }
                if count > 0 || matches!(rest, Rest::Ended(End::Error { .. })) =>
            {
                Err(HandlerError::Refused(text))
            }
            _ => Ok(self.returned(&rest)),
        }
    }

    fn random(&mut self, cx: &Context, parameter: &str) -> Result<String, String> {
        let number = |word: &&str| parse_integer(word).and_then(|n| u32::try_from(n).ok());
        let words = words(parameter);
        let numbers: Option<Vec<u32>> = words.iter().map(number).collect();
        let range = match numbers.ok_or("syntax error")?[..] {
            [] => 0..=i32::MAX as u32,
            [below] if below > 0 => 0..=below - 1,
            [from, to] if from <= to => from..=to,
            _ => return Err("bad N".into()),
        };
        let simulated = cx.world().simulated;
        // In simulated time the same on every run.
        let random = self.random.get_or_insert_with(|| {
            if simulated { fastrand::Rng::with_seed(1) } else { fastrand::Rng::new() }
        });
        Ok(random.u32(range).to_string())
    }

    /// Returns true if all handlers named can be read, or written.
    fn usable(&mut self, cx: &mut Context, names: &str, write: bool) -> bool {
        cx.stand_in(self, |cx| {
            words(names).into_iter().all(|name| {
                let handler = cx.find_handler(name).ok();
                let access = handler.and_then(|found| cx.handler(&found)).map(|found| found.access);
                access.is_some_and(|access| if write { access.writes() } else { access.reads() })
            })
        })
    }

    /// Returns the variable with a name; `args` has the arguments of the script.
    fn variable(&mut self, name: &str) -> Result<&mut String, String> {
        match name {
            "" => Err("no variable".into()),
            "args" => {
                count_work(self.arguments.len());
                Ok(&mut self.arguments)
            }
            _ => {
                let found = self.variables.get_mut(name);
                count_work(found.as_ref().map_or(0, |value| value.len()));
                found.ok_or_else(|| format!("undefined variable '{name}'"))
            }
        }
    }
}

/// Returns true if an element is a script that manages the run.
fn is_driver(make: &ElementBuilder<'_>, element: usize) -> bool {
    let element = &make.plan().elements[element];
    let mut kinds = split(&element.config).into_iter().filter_map(|argument| {
        let (word, rest) = shift_word(&argument);
        (word == "TYPE").then(|| rest.to_owned())
    });
    matches!(
        (element.class.name, kinds.next_back().as_deref()),
        ("Script" | "DriverManager", Some("DRIVER")) | ("DriverManager", None)
    )
}

/// The only word of a parameter; nothing when there is none.
fn one_word(parameter: &str) -> Result<&str, String> {
    count_work(CUTTING * parameter.len());
    match shift_word(parameter) {
        (word, "") => Ok(word),
        _ => Err("too many arguments".into()),
    }
}

impl Element for Script {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        let mut errors = Errors::caller();
        for at in 0..self.program.len() {
            let Instruction { op: Op::Init { variable, unquote, .. }, text } =
                self.program[at].clone()
            else {
                continue;
            };
            let value = self.expanded(cx, &text, &mut errors);
            let value = if unquote { linerate_graph::unquoted(&value) } else { value };
            self.set_variable(cx, &variable, value, &mut errors);
        }
        match (self.kind, self.program.first_mut().map(|first| &mut first.op)) {
            (ScriptKind::Signal, _) => {
                let signals = Signals::new(&self.numbers);
                self.signals =
                    Some(signals.map_err(|error| format!("signal: {}", reason(&error)))?);
                self.install(cx, true);
                cx.schedule();
            }
            (ScriptKind::Passive | ScriptKind::Packet | ScriptKind::Proxy, _) => {}
            (_, Some(Op::Wait)) => {
                let text = self.program[0].text.clone();
                let text = self.expanded(cx, &text, &mut errors);
                match linerate_graph::parse_time(&text).filter(|time| *time >= 0.0) {
                    Some(time) => cx.set_timer(0, cx.steady().saturating_add(time as u64)),
                    None => errors.add(cx, "syntax error at 'wait'"),
                }
            }
            (kind, Some(Op::Initial { first })) => {
                *first = true;
                match kind {
                    // The stop at once asks for the next instruction.
                    ScriptKind::Driver => cx.driver.stop(),
                    _ => cx.set_timer(0, cx.steady()),
                }
            }
            _ => {}
        }
        if self.kind == ScriptKind::Driver {
            cx.manage_run();
        }
        match errors {
            Errors::Caller { text, count: 1.. } => Err(text),
            _ => Ok(()),
        }
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.with_right(self.caller.unwrap_or(Right::ALL), |cx| {
            self.go(cx, 1, Step::Timer, &mut Errors::console());
            self.finish(cx);
        });
    }

    /// Steps until the run is to go on or the script has ended.
    fn run_ended(&mut self, cx: &mut Context) {
        let mut errors = Errors::Plain { count: 0 };
        for _ in 0..1000 {
            let rest = self.activate(cx, "step", true, "router", &mut errors);
            let over = matches!(rest, Rest::Ended(End::Stop | End::Error { .. }));
            if over || cx.driver.count() > 0 {
                return;
            }
        }
    }

    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        self.dispatch(cx, port, frame);
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        cx.pull(0, count, frame);
        self.dispatch(cx, 0, frame);
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        if self.signals.is_none() {
            return Next::Sleep;
        }
        self.look_at_signals(cx);
        Next::Wait
    }

    fn wake(&mut self) -> Wake<'_> {
        match &self.signals {
            Some(signals) => Wake::Fd(signals.wake(), Interest::Read),
            None => Wake::Never,
        }
    }

    fn close(&mut self, cx: &mut Context) {
        // Another script has ended the run for a signal that is this one's as
        // well.
        if self.installed {
            self.look_at_signals(cx);
        }
        self.install(cx, false);
        self.signals = None;
    }

    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        // Variables of Click's scripts are called so, which has no such handlers.
        let own = matches!(handler, "avg" | "count") && self.exported.contains_key(handler);
        if !own && let Some(answer) = numbers::compute(handler, parameter) {
            return answer.map_err(HandlerError::Refused);
        }
        let answer = match handler {
            "run" => return self.run_handler(cx, handler, false, parameter),
            "sprintf" => sprintf::sprintf(parameter),
            "random" => self.random(cx, parameter),
            "now" => {
                let now = cx.now();
                Ok(format!("{}.{:09}", now / 1_000_000_000, now % 1_000_000_000))
            }
            "readable" => Ok(self.usable(cx, parameter, false).to_string()),
            "writable" => Ok(self.usable(cx, parameter, true).to_string()),
            "cat" => cat(parameter).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            "catq" => cat(parameter).map(|bytes| quote(&bytes)),
            "kill" => kill(parameter),
            "get" => one_word(parameter).and_then(|name| self.variable(name).cloned()),
            "shift" => one_word(parameter).and_then(|name| {
                self.variable(if name.is_empty() { "args" } else { name }).map(|value| {
                    let (first, rest) = shift_word(value);
                    count_work(CUTTING * value.len());
                    let (first, rest) = (first.to_owned(), rest.to_owned());
                    *value = rest;
                    first
                })
            }),
            _ if self.exported.contains_key(handler) => self.variable(handler).cloned(),
            _ if self.kind == ScriptKind::Proxy => {
                return self.run_handler(cx, handler, false, parameter);
            }
            _ => return Err(HandlerError::missing(handler)),
        };
        answer.map_err(HandlerError::Refused)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "set" => {
                let (name, value) = shift_word(value);
                match name {
                    "" => return Err(HandlerError::refused("no variable")),
                    "args" => value.clone_into(&mut self.arguments),
                    _ => {
                        let mut errors = Errors::caller();
                        self.set_variable(cx, name, value.to_owned(), &mut errors);
                        if errors.count() > 0 {
                            return Err(HandlerError::refused("variables take too much memory"));
                        }
                    }
                }
                Ok(String::new())
            }
            "step" | "goto" | "run" => self.run_handler(cx, handler, true, value),
            _ if self.kind == ScriptKind::Proxy => self.run_handler(cx, handler, true, value),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        match self.kind {
            _ if self.exported.contains_key(name) => Some(&EXPORTED),
            ScriptKind::Proxy => Some(&PROXIED),
            _ => None,
        }
    }

    fn handler_names(&self) -> Vec<String> {
        self.exported.keys().cloned().collect()
    }
}

/// The contents of a regular file: others may have none for a long time.
fn cat(parameter: &str) -> Result<Vec<u8>, String> {
    let name = linerate_graph::unquoted(parameter);
    if name.is_empty() {
        return Err("bad FILE".into());
    }
    let wrong = |error: std::io::Error| format!("{name}: {}", reason(&error));
    let about = std::fs::metadata(&name).map_err(wrong)?;
    if !about.is_file() {
        return Err(format!("{name}: not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(&name).and_then(|file| file.take(FILE).read_to_end(&mut bytes)).map_err(wrong)?;
    Ok(bytes)
}

fn kill(parameter: &str) -> Result<String, String> {
    let mut words = words(parameter).into_iter();
    let number = words.next().and_then(signals::number).ok_or("bad SIGNO")?;
    for word in words {
        let process = parse_integer(word).and_then(|process| i32::try_from(process).ok());
        let process = process.and_then(rustix::process::Pid::from_raw).ok_or("bad PID")?;
        let sent = match rustix::process::Signal::from_named_raw(number) {
            Some(signal) => rustix::process::kill_process(process, signal),
            None => rustix::process::test_kill_process(process),
        };
        sent.map_err(|error| {
            let why = reason(&error.into());
            format!("kill({}, {number}): {why}", process.as_raw_nonzero())
        })?;
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests;

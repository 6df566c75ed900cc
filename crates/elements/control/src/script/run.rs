//! Interpreter of scripts.
//!
//! A script is run in steps: it goes on until an instruction waits for more
//! steps than there are. It never blocks the worker: waiting for a time is a
//! timer, and an activation that jumps too often, runs too long or has scripts
//! call each other too deeply is given up.

use std::{
    cell::{Cell, RefCell},
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt,
};

use linerate_graph::{
    Context, HandlerError, HandlerRef, Right,
    lang::config::{Form, Variables, expand, shift_word, words},
    parse_time, unquoted,
};

use super::{
    Script,
    program::{End, Op, RETURNED, Target},
    reason,
};

/// Jumps in one activation, as in Click.
const JUMPS: u32 = 1000;
/// Work of one activation and of all scripts it calls, in bytes of text, and that of an
/// instruction.
const WORK: usize = 4 << 20;
const INSTRUCTION: usize = 64;
/// Work of a byte where words are cut, which takes that much longer than copying it.
pub(super) const CUTTING: usize = 8;
/// Scripts that call each other.
const DEPTH: u32 = 32;
/// Bytes a text may grow to by substitution.
const TEXT: usize = 1 << 20;

thread_local! {
    /// Scripts at work on this thread, one called by the other, and the work
    /// they have done.
    static ACTIVE: Cell<(u32, usize)> = const { Cell::new((0, 0)) };
}

/// Counts text a script has looked at or written.
pub(super) fn count_work(bytes: usize) {
    let (depth, work) = ACTIVE.get();
    ACTIVE.set((depth, work.saturating_add(bytes)));
}

/// Returns true if scripts have done all the work they may: no more lookups and calls are made
/// then, also for instructions in progress.
fn is_exhausted() -> bool {
    let (depth, work) = ACTIVE.get();
    depth > 0 && work > WORK
}

/// Cause of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Normal,
    /// The run count is used up.
    Router,
    Timer,
    Jump,
}

/// State in which an activation stops.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Waiting,
    Returned,
    Ended(End),
}

/// Destination of errors.
pub(super) enum Errors {
    /// To the console, below a line that names the script.
    Console { named: bool, count: usize },
    /// To the caller of a handler: their lines, as far as [`TEXT`] goes.
    Caller { text: String, count: usize },
    /// To the console as they are: the call is by the run's end alone.
    Plain { count: usize },
}

impl Errors {
    pub(super) fn console() -> Errors {
        Errors::Console { named: false, count: 0 }
    }

    pub(super) fn caller() -> Errors {
        Errors::Caller { text: String::new(), count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Errors::Console { count, .. }
            | Errors::Plain { count }
            | Errors::Caller { count, .. } => *count,
        }
    }

    pub(super) fn add(&mut self, cx: &Context, text: &str) {
        match self {
            Errors::Caller { text: lines, count } => {
                if lines.len() < TEXT {
                    lines.push_str(if *count > 0 { "\n" } else { "" });
                    lines.push_str(text);
                }
                *count += 1;
            }
            Errors::Plain { count } => {
                *count += 1;
                cx.console().report(&format!("{text}\n"));
            }
            Errors::Console { named, count } => {
                *count += 1;
                if !std::mem::replace(named, true) {
                    cx.console().report(&format!("While executing '{}':\n", declaration(cx)));
                }
                for line in text.lines() {
                    cx.console().report(&format!("  {line}\n"));
                }
            }
        }
    }
}

/// `name :: class` of the element at work.
fn declaration(cx: &Context) -> String {
    let element = &cx.plan().elements[cx.element()];
    format!("{} :: {}", element.name, element.class.name)
}

impl Script {
    /// Gives a script `steps` more steps; returns the jumps made so far.
    pub(super) fn step(
        &mut self,
        cx: &mut Context,
        steps: i64,
        kind: Step,
        mut jumps: u32,
        errors: &mut Errors,
    ) -> u32 {
        let (depth, work) = ACTIVE.get();
        if depth >= DEPTH {
            errors.add(cx, "scripts call each other too deeply");
            return jumps + 1;
        }
        ACTIVE.set((depth + 1, if depth == 0 { 0 } else { work }));
        let steps = steps.saturating_add(self.steps);
        let ended = loop {
            count_work(INSTRUCTION);
            if is_exhausted() {
                jumps = JUMPS;
            }
            if steps < self.steps || self.at >= self.program.len() || jumps >= JUMPS {
                break false;
            }
            let at = self.at;
            self.at += 1;
            match self.instruction(cx, at, steps, kind, errors) {
                Flow::On => {}
                Flow::Blocked => break false,
                Flow::Ended => break true,
            }
            if self.at != at + 1 {
                jumps += 1;
            }
        };
        ACTIVE.set((depth, ACTIVE.get().1));
        if ended {
            return jumps + 1;
        }
        if jumps >= JUMPS {
            cx.console().report(&format!("{}: too many jumps, giving up\n", declaration(cx)));
            self.at = self.program.len();
            cx.clear_timer(0);
        }
        if kind == Step::Router {
            cx.driver.adjust(1);
        }
        jumps + 1
    }

    fn instruction(
        &mut self,
        cx: &mut Context,
        at: usize,
        steps: i64,
        kind: Step,
        errors: &mut Errors,
    ) -> Flow {
        let text = self.program[at].text.clone();
        match &mut self.program[at].op {
            Op::Initial { first } => {
                if std::mem::take(first) {
                    self.steps += 1;
                }
            }
            Op::Pause { steps: wanted, done } => {
                let missing = i64::from(wanted.saturating_sub(*done));
                let taken = missing.min((steps - self.steps).max(0));
                *done += taken as u32;
                self.steps += taken;
                if taken < missing {
                    self.at = at;
                    return Flow::Blocked;
                }
            }
            Op::Wait => {
                if self.steps == steps {
                    let text = self.expanded(cx, &text, errors);
                    match parse_time(&text).filter(|time| *time >= 0.0) {
                        Some(time) => {
                            cx.set_timer(0, cx.steady().saturating_add(time as u64));
                            self.at = at;
                        }
                        None => errors.add(cx, "syntax error at 'wait'"),
                    }
                    return Flow::Blocked;
                }
                self.steps += 1;
                cx.clear_timer(0);
            }
            Op::Print { newline, unquote } => {
                let (newline, unquote) = (*newline, *unquote);
                let (place, text) = redirection(&text);
                self.print(cx, place, text, newline, unquote, errors);
            }
            Op::Save { append } => {
                let append = *append;
                let (what, file) = shift_word(&text);
                let file = shift_word(file).0;
                let place = (!file.is_empty() && file != "-").then_some((file, append));
                self.print(cx, place, what, true, false, errors);
            }
            Op::Read { unquote } => {
                let unquote = *unquote;
                let text = self.expanded(cx, &text, errors);
                if let Some((name, answer)) = self.call_read(cx, &text, unquote, true, errors) {
                    cx.console().report(&format!("{name}:\n{answer}\n"));
                }
            }
            Op::Write { unquote } => {
                let unquote = *unquote;
                let text = self.expanded(cx, &text, errors);
                self.call_write(cx, &text, unquote, errors);
            }
            Op::Set { variable, unquote } => {
                let (variable, unquote) = (variable.clone(), *unquote);
                let value = self.value(cx, &text, unquote, errors);
                self.set_variable(cx, &variable, value, errors);
            }
            Op::Return { unquote } => {
                let unquote = *unquote;
                let value = self.value(cx, &text, unquote, errors);
                self.set_variable(cx, RETURNED, value, errors);
                if self.at == at + 1 {
                    self.at = at;
                    return Flow::Blocked;
                }
            }
            Op::Init { .. } | Op::Label => {}
            Op::Goto(target) => {
                let target = *target;
                let condition = self.expanded(cx, &text, errors);
                match super::numbers::truth(&condition) {
                    None if !condition.is_empty() => {
                        errors.add(cx, &format!("bad condition '{condition}'"));
                    }
                    Some(false) => {}
                    _ => match target {
                        Target::End(_) => {
                            self.at = at;
                            return Flow::Ended;
                        }
                        Target::At(to) => self.jump(to, at),
                    },
                }
            }
            Op::End(end) => {
                let end = *end;
                match end {
                    End::Stop => {
                        self.steps += 1;
                        if kind != Step::Router {
                            cx.driver.stop();
                        }
                    }
                    End::Error { unquote } => {
                        let text = self.value(cx, &text, unquote, errors);
                        if !text.is_empty() {
                            errors.add(cx, &text);
                        }
                    }
                    End::Plain | End::Exit => {}
                }
                self.at = at;
                return Flow::Ended;
            }
        }
        Flow::On
    }

    /// Continues at `to`; pauses between it and `until` begin anew.
    pub(super) fn jump(&mut self, to: usize, until: usize) {
        for instruction in self.program.iter_mut().take(until).skip(to) {
            if let Op::Pause { done, .. } = &mut instruction.op {
                *done = 0;
            }
        }
        self.at = to;
    }

    /// Returns the state of the script.
    pub(super) fn rest(&self) -> Rest {
        match self.program.get(self.at).map(|at| &at.op) {
            Some(Op::End(end) | Op::Goto(Target::End(end))) => Rest::Ended(*end),
            Some(Op::Return { .. }) => Rest::Returned,
            _ => Rest::Waiting,
        }
    }

    fn value(
        &mut self,
        cx: &mut Context,
        text: &str,
        unquote: bool,
        errors: &mut Errors,
    ) -> String {
        let text = self.expanded(cx, text, errors);
        if unquote { unquoted(&text) } else { text }
    }

    /// `text` with variables and handlers substituted.
    pub(super) fn expanded(&mut self, cx: &mut Context, text: &str, errors: &mut Errors) -> String {
        self.expand_as(cx, text, false, errors)
    }

    fn expand_as(
        &mut self,
        cx: &mut Context,
        text: &str,
        quotes: bool,
        errors: &mut Errors,
    ) -> String {
        let values =
            Values { inner: RefCell::new((self, cx, errors)), left: Cell::new(TEXT), quotes };
        let expanded = expand(text, &values, 0);
        if values.left.get() == 0 {
            let (_, cx, errors) = &mut *values.inner.borrow_mut();
            errors.add(cx, "text too long");
        }
        expanded
    }

    fn print(
        &mut self,
        cx: &mut Context,
        place: Option<(&str, bool)>,
        text: &str,
        newline: bool,
        unquote: bool,
        errors: &mut Errors,
    ) {
        if place.is_some() && cx.right() < Right::Replace {
            errors.add(cx, &HandlerError::denied("print", Right::Replace).to_string());
            return;
        }
        let file = match place.map(|(name, append)| (name, open(name, append))) {
            Some((name, Err(error))) => {
                errors.add(cx, &format!("{name}: {}", reason(&error)));
                return;
            }
            Some((_, Ok(file))) => Some(file),
            None => None,
        };
        let before = errors.count();
        let named = |c: char| c.is_ascii_alphabetic() || c == '@' || c == '_';
        let mut result = if text.starts_with(named) {
            let text = self.expanded(cx, text, errors);
            let answer = self.call_read(cx, &text, unquote, true, errors);
            answer.map_or(String::new(), |(_, answer)| answer)
        } else {
            unquoted(&self.expand_as(cx, text, true, errors))
        };
        if errors.count() == before && newline && !result.ends_with('\n') {
            result.push('\n');
        }
        match file {
            // The reader may be gone.
            Some(mut file) => drop(file.write_all(result.as_bytes())),
            None => cx.console().print(&result),
        }
    }

    /// Reads the handler named in a text; returns its full name and its answer. On failure the
    /// error has been added. `told` names the call in it.
    fn call_read(
        &mut self,
        cx: &mut Context,
        text: &str,
        unquote: bool,
        told: bool,
        errors: &mut Errors,
    ) -> Option<(String, String)> {
        if is_exhausted() {
            return None;
        }
        let (name, parameter) = shift_word(text);
        count_work(parameter.len());
        let parameter = if unquote { unquoted(parameter) } else { parameter.to_owned() };
        let called = cx.stand_in(self, |cx| -> Result<_, String> {
            let handler = cx.find_handler(name).map_err(|error| error.to_string())?;
            let name = cx.handler_name(&handler);
            known(cx, &handler, &name, Call::Read(&parameter))?;
            let answer = cx.read_handler(&handler, &parameter);
            count_work(parameter.len() + answer.as_ref().map_or(0, String::len));
            Ok((answer, name))
        });
        match called {
            Ok((Ok(answer), name)) => Some((name, answer)),
            Ok((Err(error), name)) => {
                let text = error.of_call(&name, false);
                // A script may fail without a word.
                if !text.is_empty() {
                    errors.add(cx, &if told { told_call(&name, &parameter, &text) } else { text });
                }
                // A handler that has failed has been called.
                Some((name, String::new()))
            }
            Err(text) => {
                errors.add(cx, &text);
                None
            }
        }
    }

    fn call_write(&mut self, cx: &mut Context, text: &str, unquote: bool, errors: &mut Errors) {
        let (name, value) = shift_word(text);
        count_work(value.len());
        let value = if unquote { unquoted(value) } else { value.to_owned() };
        let called = cx.stand_in(self, |cx| -> Result<_, String> {
            let handler = cx.find_handler(name).map_err(|error| error.to_string())?;
            let name = cx.handler_name(&handler);
            known(cx, &handler, &name, Call::Write)?;
            Ok((cx.write_handler(&handler, &value), handler, name))
        });
        match called {
            Ok((Ok(_), ..)) => self.status = 0,
            Ok((Err(error), handler, name)) => {
                // A script that is run has a status of its own.
                let run = !matches!(handler.handler.as_str(), "set" | "step" | "goto");
                self.status = if run && is_script(cx, &handler) { -1 } else { -22 };
                // A script may fail without a word.
                let text = error.of_call(&name, true);
                if !text.is_empty() {
                    errors.add(cx, &told_call(&name, &value, &text));
                }
            }
            Err(text) => errors.add(cx, &text),
        }
    }

    /// Returns the value of `$name`, besides `$(...)`.
    fn variable_value(&self, name: &str) -> Option<String> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        if is_exhausted() {
            return None;
        }
        count_work(self.arguments.len());
        Some(match name {
            "?" => self.status.to_string(),
            "args" => self.arguments.clone(),
            "$" => std::process::id().to_string(),
            "0" => self.called_as.clone(),
            "#" => {
                count_work(CUTTING * self.arguments.len());
                words(&self.arguments).len().to_string()
            }
            "write" => self.called_to_write.to_string(),
            _ => {
                let digits = name.starts_with(|c: char| matches!(c, '1'..='9'));
                let at = name.parse().ok().filter(|_| digits)?;
                self.argument(at)
            }
        })
    }

    /// The argument number `at`, from 1; empty without one.
    fn argument(&self, at: usize) -> String {
        let mut rest = self.arguments.as_str();
        for _ in 1..at {
            if rest.is_empty() {
                break;
            }
            rest = shift_word(rest).1;
        }
        let (word, after) = shift_word(rest);
        count_work(CUTTING * (self.arguments.len() - after.len()));
        word.to_owned()
    }
}

/// Result of an instruction.
enum Flow {
    On,
    Blocked,
    Ended,
}

enum Call<'a> {
    Read(&'a str),
    Write,
}

/// Checks that a handler can be called, as far as that is known here.
fn known(cx: &Context, handler: &HandlerRef, name: &str, call: Call<'_>) -> Result<(), String> {
    let about = cx.handler(handler);
    let missing = |write| HandlerError::missing(name).of_call(name, write);
    match (call, about) {
        (Call::Read(parameter), Some(about)) if about.access.reads() => {
            if parameter.is_empty() || about.parameter {
                return Ok(());
            }
            Err(format!("read handler '{name}' does not take parameters"))
        }
        (Call::Write, Some(about)) if about.access.writes() => Ok(()),
        (Call::Read(_), _) => Err(missing(false)),
        (Call::Write, _) => Err(missing(true)),
    }
}

fn is_script(cx: &Context, handler: &HandlerRef) -> bool {
    let class = handler.element.map(|at| cx.plan().elements[at].class.name);
    matches!(class, Some("Script" | "DriverManager"))
}

fn told_call(name: &str, parameter: &str, text: &str) -> String {
    let space = if parameter.is_empty() { "" } else { " " };
    let mut told = format!("While calling '{name}{space}{parameter}':");
    for line in text.lines() {
        told.push_str("\n  ");
        told.push_str(line);
    }
    told
}

/// Splits off `>FILE` or `>>FILE` in front of the text to print: the file and whether it is
/// appended to.
fn redirection(text: &str) -> (Option<(&str, bool)>, &str) {
    let Some(rest) = text.strip_prefix('>') else { return (None, text) };
    let (rest, append) = match rest.strip_prefix('>') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let (file, text) = shift_word(rest);
    ((!file.is_empty() && file != "-").then_some((file, append)), text)
}

/// Opens a file to print to. Nonblocking: it may be a pipe without a reader.
fn open(name: &str, append: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(!append).append(append);
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(name)
}

/// Values for substitution in a script.
struct Values<'a, 'b> {
    inner: RefCell<(&'a mut Script, &'a mut Context, &'b mut Errors)>,
    /// Bytes that may still be written.
    left: Cell<usize>,
    /// Whether values are to stay one string when quotes are taken off.
    quotes: bool,
}

impl Variables for Values<'_, '_> {
    fn value(&self, reference: &str, form: Form, _: usize) -> Option<String> {
        let (script, cx, errors) = &mut *self.inner.borrow_mut();
        match form {
            Form::Parentheses => {
                let called = script.call_read(cx, reference, false, false, errors);
                called.map(|(_, answer)| answer)
            }
            _ => script.variable_value(reference),
        }
    }

    fn spend(&self, bytes: usize) -> bool {
        count_work(bytes);
        let left = self.left.get().checked_sub(bytes).filter(|_| !is_exhausted());
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    fn quotes(&self) -> bool {
        self.quotes
    }
}

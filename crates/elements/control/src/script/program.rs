//! Parser of scripts: from arguments to instructions.
//!
//! Nothing is run here. The instructions and their error texts are Click's.

use linerate_graph::{lang::config::shift_word, parse_integer};

/// One instruction and its operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) op: Op,
    /// Text that is substituted in when it is run.
    pub(super) text: String,
}

/// Operation of an instruction. `unquote` is that of the `q` forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    /// The start of a script that does not start with waiting; whether it is
    /// to be passed by the first step.
    Initial {
        first: bool,
    },
    /// Waits for steps: how many, and how many have come.
    Pause {
        steps: u32,
        done: u32,
    },
    /// Waits for a time.
    Wait,
    Print {
        newline: bool,
        unquote: bool,
    },
    /// Prints to a file that comes last instead of first.
    Save {
        append: bool,
    },
    Read {
        unquote: bool,
    },
    Write {
        unquote: bool,
    },
    Set {
        variable: String,
        unquote: bool,
    },
    /// Is carried out when the element is initialized.
    Init {
        variable: String,
        unquote: bool,
        export: bool,
    },
    Label,
    Goto(Target),
    Return {
        unquote: bool,
    },
    End(End),
}

/// Target of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    At(usize),
    End(End),
}

/// End of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// `end`, or there is nothing more.
    Plain,
    Exit,
    Stop,
    Error {
        unquote: bool,
    },
}

impl End {
    fn from_word(word: &str) -> Option<End> {
        Some(match word {
            "end" => End::Plain,
            "exit" => End::Exit,
            "stop" => End::Stop,
            "error" => End::Error { unquote: false },
            "errorq" => End::Error { unquote: true },
            _ => return None,
        })
    }
}

/// The variable a returned value is in.
pub(super) const RETURNED: &str = "_";

/// Reads a script. `driver` is whether it manages the run.
///
/// # Errors
///
/// Everything that is wrong with it.
pub(super) fn parse(arguments: &[String], driver: bool) -> Result<Vec<Instruction>, Vec<String>> {
    let mut program: Vec<Instruction> = Vec::new();
    let mut errors = Vec::new();
    for argument in arguments {
        let (word, rest) = shift_word(argument);
        if word.is_empty() {
            continue;
        }
        match instruction(word, rest) {
            Some(instruction) => add(&mut program, instruction),
            None => errors.push(format!("syntax error at '{word}'")),
        }
    }
    for at in 0..program.len() {
        if !matches!(program[at].op, Op::Goto(_)) || program[at].text.is_empty() {
            continue;
        }
        let (word, condition) = shift_word(&program[at].text);
        match label(&program, word) {
            Some(target) => {
                let text = condition.to_owned();
                program[at] = Instruction { op: Op::Goto(target), text };
            }
            None => errors.push(format!("no such label '{word}'")),
        }
    }
    if program.is_empty() && driver {
        add(&mut program, plain(Op::Pause { steps: 1, done: 0 }));
    }
    add(&mut program, plain(Op::End(if driver { End::Stop } else { End::Plain })));
    if errors.is_empty() { Ok(program) } else { Err(errors) }
}

fn plain(op: Op) -> Instruction {
    Instruction { op, text: String::new() }
}

/// Adds an instruction. A script begins with one that waits, so that it can be started.
fn add(program: &mut Vec<Instruction>, instruction: Instruction) {
    if program.is_empty() && !matches!(instruction.op, Op::Pause { .. } | Op::Wait) {
        program.push(plain(Op::Initial { first: false }));
    }
    program.push(instruction);
}

fn instruction(word: &str, rest: &str) -> Option<Instruction> {
    let (name, unquote) = match word {
        // Not the quoted form of another one.
        "errorq" => ("error", true),
        _ => match word.strip_suffix('q') {
            Some(name) => (name, true),
            None => (word, false),
        },
    };
    let text = |op| Some(Instruction { op, text: rest.to_owned() });
    let with_variable = |op: &dyn Fn(String) -> Op, needs_value: bool| {
        let (variable, value) = shift_word(rest);
        let given = !(variable.is_empty() || needs_value && value.is_empty());
        let op = op(variable.to_owned());
        given.then(|| Instruction { op, text: value.to_owned() })
    };
    match name {
        "print" => return text(Op::Print { newline: true, unquote }),
        "printn" => return text(Op::Print { newline: false, unquote }),
        "read" => return text(Op::Read { unquote }),
        "write" => return text(Op::Write { unquote }),
        "return" => return text(Op::Return { unquote }),
        "set" => return with_variable(&|variable| Op::Set { variable, unquote }, true),
        "init" => {
            return with_variable(&|variable| Op::Init { variable, unquote, export: false }, false);
        }
        "export" => {
            return with_variable(&|variable| Op::Init { variable, unquote, export: true }, false);
        }
        _ => {}
    }
    match word {
        "wait" if rest.is_empty() => Some(plain(Op::Pause { steps: 1, done: 0 })),
        "wait" | "wait_for" | "wait_time" => text(Op::Wait),
        "pause" | "wait_step" | "wait_stop" => {
            let steps = if rest.is_empty() { Some(1) } else { parse_integer(rest) };
            let steps = u32::try_from(steps?).ok()?;
            Some(plain(Op::Pause { steps, done: 0 }))
        }
        "save" => text(Op::Save { append: false }),
        "append" => text(Op::Save { append: true }),
        "goto" => text(Op::Goto(Target::At(0))),
        "loop" if rest.is_empty() => Some(plain(Op::Goto(Target::At(0)))),
        "label" => {
            let (label, more) = shift_word(rest);
            let good = !label.is_empty() && more.is_empty();
            good.then(|| Instruction { op: Op::Label, text: label.to_owned() })
        }
        _ => {
            let end = End::from_word(word)?;
            let good = rest.is_empty() || matches!(end, End::Error { .. });
            good.then(|| Instruction { op: Op::End(end), text: rest.to_owned() })
        }
    }
}

/// Returns the place of a label; the ends of a script are labels too.
pub(super) fn label(program: &[Instruction], name: &str) -> Option<Target> {
    let is_it = |at: &Instruction| at.op == Op::Label && at.text == name;
    if let Some(at) = program.iter().position(is_it) {
        return Some(Target::At(at));
    }
    match name {
        "begin" | "loop" => Some(Target::At(0)),
        _ => End::from_word(name).map(Target::End),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Instruction>, Vec<String>> {
        parse(&linerate_graph::lang::config::split(text), false)
    }

    #[test]
    fn jumps_find_labels_and_ends() {
        let program = read("label a, goto a $x, goto stop, loop").unwrap();
        let ops: Vec<&Op> = program.iter().map(|at| &at.op).collect();
        assert_eq!(
            ops,
            [
                &Op::Initial { first: false },
                &Op::Label,
                &Op::Goto(Target::At(1)),
                &Op::Goto(Target::End(End::Stop)),
                &Op::Goto(Target::At(0)),
                &Op::End(End::Plain),
            ]
        );
        assert_eq!(program[2].text, "$x");
    }

    #[test]
    fn everything_wrong_is_found_at_once() {
        let errors = read("bar, goto x, pause -1, label, set, set x, end 3, wait_stop x, loopq");
        let expected = [
            "syntax error at 'bar'",
            "syntax error at 'pause'",
            "syntax error at 'label'",
            "syntax error at 'set'",
            "syntax error at 'set'",
            "syntax error at 'end'",
            "syntax error at 'wait_stop'",
            "syntax error at 'loopq'",
            "no such label 'x'",
        ];
        assert_eq!(errors.unwrap_err(), expected);
    }
}

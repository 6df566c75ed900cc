//! Answers to clients of a control socket.

use linerate_graph::{
    HandlerError, HandlerResult,
    lang::{Diagnostics, Severity},
};

use super::{
    client::{Called, Client},
    protocol::code,
};

/// Answers a command to write a handler.
pub(super) fn answer_write(client: &mut Client, full: &str, written: Result<(), HandlerError>) {
    match written {
        Ok(()) => client.message(code::OK, &format!("Write handler '{full}' OK"), false),
        Err(error) => {
            let text = format!("Write handler '{full}' error");
            failed(client, code::HANDLER, &text, &error);
        }
    }
}

/// Answers a command to read a handler.
pub(super) fn answer_read(client: &mut Client, full: &str, read: HandlerResult) {
    match read {
        Ok(data) => {
            client.data(&format!("Read handler '{full}' OK"), &data);
        }
        Err(error) => {
            let text = format!("Read handler '{full}' error");
            failed(client, code::UNSPECIFIED, &text, &error);
        }
    }
}

/// Answers a client whose handler has been called elsewhere; `None` while that is outstanding.
pub(super) fn answer_called(client: &mut Client) -> Option<()> {
    let (full, called) = client.called.take()?;
    let done = match &called {
        Called::Replacement(replacement) => replacement.outcome().map(|outcome| match outcome {
            Ok(told) => replaced(client, &full, &told),
            Err(wrong) => answer_write(client, &full, Err(HandlerError::Refused(wrong))),
        }),
        Called::Read(answer) => answer.outcome().map(|read| answer_read(client, &full, read)),
        Called::Write(answer) => {
            answer.outcome().map(|written| answer_write(client, &full, written.map(drop)))
        }
    };
    if done.is_none() {
        client.called = Some((full, called));
    }
    done
}

/// Answers that the configuration has been replaced, with the diagnostics of the new one.
fn replaced(client: &mut Client, full: &str, told: &Diagnostics) {
    let warns = told.iter().any(|found| found.severity == Severity::Warning);
    let (code, with) = if warns { (code::WARNING, " with warnings") } else { (code::OK, "") };
    explained(client, code, &format!("Write handler '{full}' OK{with}"), &told.click());
}

/// Answers that a handler has failed, and why.
fn failed(client: &mut Client, code: u16, text: &str, error: &HandlerError) {
    let denied = matches!(error, HandlerError::Denied { .. });
    let code = if denied { code::PERMISSION } else { code };
    explained(client, code, text, &error.to_string());
}

/// Answers with a text, and with lines that explain it where there are any.
fn explained(client: &mut Client, code: u16, text: &str, why: &str) {
    let lines: Vec<&str> = why.lines().collect();
    if lines.is_empty() {
        client.message(code, text, false);
        return;
    }
    client.message(code, &format!("{text}:"), true);
    for (at, line) in lines.iter().enumerate() {
        client.message(code, line, at + 1 < lines.len());
    }
}

/// Ends the connection of a client that failed to authenticate.
pub(super) fn refuse(client: &mut Client, text: &str) {
    client.message(code::PERMISSION, text, false);
    client.end();
}

pub(super) fn help(client: &mut Client) {
    const LINES: [&str; 11] = [
        "Commands supported:",
        "READ handler [arg...]   call read handler, return DATA",
        "READDATA handler len    call read handler with len data bytes, return DATA",
        "READUNTIL handler term  call read handler, take data until term, return DATA",
        "WRITE handler [arg...]  call write handler",
        "WRITEDATA handler len   call write handler, pass len data bytes",
        "WRITEUNTIL handler term call write handler, take data until term",
        "CHECKREAD handler       check if read handler is valid",
        "CHECKWRITE handler      check if write handler is valid",
        "LLRPC elt#number [len]  call LLRPC, pass len data bytes, return DATA",
        "QUIT                    close connection",
    ];
    for (at, line) in LINES.iter().enumerate() {
        client.message(code::OK, line, at + 1 < LINES.len());
    }
}

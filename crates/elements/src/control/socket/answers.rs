//! What clients of a control socket are told.

use linerate_graph::HandlerError;

use super::{client::Client, protocol::code};

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

/// Answers a client whose configuration now runs, or does not; `None` when that
/// is not known yet.
pub(super) fn answer_replacement(client: &mut Client) -> Option<()> {
    let outcome = client.replacing.as_ref()?.1.outcome()?;
    let (full, _) = client.replacing.take()?;
    answer_write(client, &full, outcome.map_err(HandlerError::Refused));
    Some(())
}

/// Answers that a handler has failed, and why.
pub(super) fn failed(client: &mut Client, code: u16, text: &str, error: &HandlerError) {
    let why = error.to_string();
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

//! `linerate call`: handlers of a running router, read and written over its control socket.

mod client;
mod dialogue;
mod editor;
mod locate;

use std::{
    io::{self, IsTerminal, Read},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};

use crate::{args::Call, output};
pub(in crate::commands) use client::{Client, Refusal};
use dialogue::Dialogue;

/// Interval of asking whether a router is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Call) -> Result<()> {
    let Some(address) = &args.address else { return list() };
    if args.ready {
        return wait_until_ready(args, address);
    }
    let mut client = Client::connect(address, args.token_file.as_deref(), args.timeout)
        .with_context(|| format!("cannot reach a router at {address}"))?;
    let Some(handler) = &args.handler else {
        let mut dialogue = Dialogue::new(client);
        // The prompt is no value that belongs into a file.
        return if io::stdin().is_terminal() && io::stdout().is_terminal() {
            editor::converse(dialogue, address)
        } else {
            dialogue.with_script(io::stdin().lock())
        };
    };
    let value = match args.value.as_deref() {
        Some("-") => {
            let mut value = Vec::new();
            io::stdin().lock().read_to_end(&mut value)?;
            Some(value)
        }
        Some(value) => Some(value.as_bytes().to_vec()),
        None => args.write.then(Vec::new),
    };
    match value {
        Some(value) => {
            tell(&client.write(handler, &value).map_err(|error| unwritten(error, handler))?);
        }
        None => show(client.read(handler, args.parameter.as_deref()).map_err(unread)?)?,
    }
    Ok(())
}

/// The error for a value that cannot be read. Asking for a value never writes a handler.
fn unread(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(refusal) if Refusal::is_write_only(refusal) => {
            anyhow!("{refusal}: give it a value, or --write if it takes none")
        }
        _ => error,
    }
}

/// The error for a value that cannot be written.
fn unwritten(error: anyhow::Error, handler: &str) -> anyhow::Error {
    match error.downcast_ref() {
        Some(refusal) if handler == "hotconfig" && Refusal::is_no_handler(refusal) => {
            anyhow!("{refusal}: start the program with --allow-reconfigure")
        }
        _ => error,
    }
}

/// Prints a value.
fn show(mut data: Vec<u8>) -> io::Result<()> {
    if data.last().is_some_and(|last| *last != b'\n') {
        data.push(b'\n');
    }
    output::bytes(&data)
}

/// Prints the messages of a written handler.
fn tell(told: &str) {
    if !told.is_empty() {
        eprintln!("{told}");
    }
}

/// Prints the instances, one a line.
fn list() -> Result<()> {
    let instances = locate::instances()?;
    if instances.is_empty() {
        eprintln!(
            "no instance has a control socket in the runtime directory: start one with --control"
        );
    }
    Ok(output::data(&instances.iter().map(|name| format!("{name}\n")).collect::<String>())?)
}

/// Waits until a router answers. Its ports are open when its control socket is, and the answer
/// comes from a running worker, or from one beside those that move packets.
fn wait_until_ready(args: &Call, address: &str) -> Result<()> {
    let end = Instant::now().checked_add(args.timeout);
    loop {
        let left = end.map_or(args.timeout, |end| end.saturating_duration_since(Instant::now()));
        let answer = Client::connect(address, args.token_file.as_deref(), left.max(LOOK_AGAIN))
            .and_then(|mut client| client.read("version", None));
        let Err(error) = answer else { return Ok(()) };
        if end.is_some_and(|end| Instant::now() >= end) {
            return Err(error.context(format!("{address} is not ready")));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

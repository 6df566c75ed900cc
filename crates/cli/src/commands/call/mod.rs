//! `linerate call`: handlers of what runs, read and written over its control socket.

mod client;
mod dialogue;
mod editor;

use std::{
    env, fs,
    io::{self, IsTerminal, Read},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};

use crate::{args::Call, control_address::TOKEN_VARIABLE, exit::cannot_read, output};
pub(in crate::commands) use client::{Client, Refusal};
use dialogue::Dialogue;

/// How often it is asked whether a router is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Call) -> Result<()> {
    let token = token(args.token_file.as_deref())?;
    if args.ready {
        return wait_until_ready(args, token.as_deref());
    }
    let mut client = Client::connect(&args.address, args.timeout)
        .and_then(|client| client.authenticate(token.as_deref()))
        .with_context(|| format!("cannot reach a router at {}", args.address))?;
    let Some(handler) = &args.handler else {
        let mut dialogue = Dialogue::new(client);
        // The prompt is no value that belongs into a file.
        return if io::stdin().is_terminal() && io::stdout().is_terminal() {
            editor::converse(dialogue, &args.address)
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
        Some(value) => tell(&client.write(handler, &value)?),
        None => show(client.read(handler, args.parameter.as_deref()).map_err(unread)?)?,
    }
    Ok(())
}

/// Why there is nothing to show. What has an effect is not brought about by who asks for a value.
fn unread(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(refusal) if Refusal::is_write_only(refusal) => {
            anyhow!("{refusal}: give it a value, or --write if it takes none")
        }
        _ => error,
    }
}

/// Prints what was read.
fn show(mut data: Vec<u8>) -> io::Result<()> {
    if data.last().is_some_and(|last| *last != b'\n') {
        data.push(b'\n');
    }
    output::bytes(&data)
}

/// Prints what there is to be told of what was written.
fn tell(told: &str) {
    if !told.is_empty() {
        eprintln!("{told}");
    }
}

/// The token to be said, if there is one.
pub(in crate::commands) fn token(file: Option<&Path>) -> Result<Option<String>> {
    let text = match file {
        Some(name) => Some(
            fs::read_to_string(name)
                .map_err(|error| cannot_read(&name.to_string_lossy(), error))?,
        ),
        None => env::var(TOKEN_VARIABLE).ok(),
    };
    Ok(text.map(|text| text.trim().to_owned()))
}

/// Waits until a router answers. Its ports are open when its control socket is, and what
/// answers is a worker that runs, or one beside those that move packets.
fn wait_until_ready(args: &Call, token: Option<&str>) -> Result<()> {
    let end = Instant::now() + args.timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now()).max(LOOK_AGAIN);
        let answer = Client::connect(&args.address, left)
            .and_then(|client| client.authenticate(token)?.read("version", None));
        let Err(error) = answer else { return Ok(()) };
        if Instant::now() >= end {
            return Err(error.context(format!("{} is not ready", args.address)));
        }
        thread::sleep(LOOK_AGAIN);
    }
}

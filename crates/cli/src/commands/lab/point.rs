//! `linerate lab point`: one point, one line.

use std::{
    env, fs,
    io::{self, Read, Write as _},
    process::Command,
};

use anyhow::{Context as _, Result};
use linerate_graph::Library;
use linerate_lab::{
    machine::Description,
    measure::{self, ALLOWANCE, Guarded, serve},
    point::{Record, Spec},
    store::{Store, read},
};

use super::run::print;
use crate::{
    args::{LabPoint, MEASURE, WORK},
    exit::cannot_read,
};

pub(crate) fn run(args: &LabPoint) -> Result<()> {
    let spec = Spec::parse(&text(&args.spec)?)?;
    let machine = Description::here();
    let Some(dir) = &args.dir else {
        return Ok(print(&measure(spec, &machine)?)?);
    };
    let mut store = Store::open(dir)?;
    machine.keep(&store)?;
    let key = spec.key();
    let known = read(dir)?.into_iter().find(|record| record.key == key);
    if let Some(known) = known.filter(Record::is_measured) {
        return Ok(print(&known)?);
    }
    let record = measure(spec, &machine)?;
    store.append(&record)?;
    Ok(print(&record)?)
}

fn measure(spec: Spec, machine: &Description) -> Result<Record> {
    // A signal ends this process and, with it, the one that measures.
    let measured = guarded()?.measure(&spec, || false).context("cannot start what measures")?;
    let measured = measured.context("the point was given up")?;
    Ok(Record::new(spec, "", &machine.id, measured))
}

/// The measuring process: this program again.
pub(super) fn guarded() -> Result<Guarded> {
    let program = env::current_exe().context("this program has no path")?;
    let mut command = Command::new(program);
    command.args(["lab", MEASURE]);
    Ok(Guarded::new(command, ALLOWANCE))
}

/// The other process.
pub(super) fn answer(library: &Library) -> Result<()> {
    let program = env::current_exe().context("this program has no path")?;
    let worker = vec![program.into(), "lab".into(), WORK.into()];
    Ok(serve(library.clone(), worker)?)
}

/// A process that the other one hands packets to.
pub(super) fn work(task: &str) -> Result<()> {
    let account = measure::work(task)?;
    Ok(writeln!(io::stdout(), "{account}")?)
}

/// The JSON text: the argument itself, a file's, or standard input's.
fn text(argument: &str) -> Result<String> {
    if argument.trim_start().starts_with('{') {
        return Ok(argument.into());
    }
    if argument == "-" {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(argument).map_err(|error| cannot_read(argument, error))
}

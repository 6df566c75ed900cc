//! `linerate lab point`: one point, one line.

use std::{
    fs,
    io::{self, Read},
};

use anyhow::Result;
use linerate_lab::{
    machine::Description,
    measure::Bench,
    point::{Record, Spec},
    store::{Store, read},
};

use super::run::print;
use crate::{args::LabPoint, exit::cannot_read};

pub(crate) fn run(args: &LabPoint) -> Result<()> {
    let spec = Spec::parse(&text(&args.spec)?)?;
    let machine = Description::here();
    let Some(dir) = &args.dir else {
        return Ok(print(&measure(spec, &machine))?);
    };
    let mut store = Store::open(dir)?;
    machine.keep(&store)?;
    let key = spec.key();
    if let Some(known) = read(dir)?.into_iter().find(|record| record.key == key) {
        return Ok(print(&known)?);
    }
    let record = measure(spec, &machine);
    store.append(&record)?;
    Ok(print(&record)?)
}

fn measure(spec: Spec, machine: &Description) -> Record {
    let outcome = Bench::new().measure(&spec);
    Record::new(spec, "", &machine.id, outcome)
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

//! `linerate compile`: a configuration becomes a program.
//!
//! The configuration is read and checked as by `linerate check`, but for devices, which are not
//! opened. [`generate`] writes a crate whose only statement is its [`Program`](crate::Program);
//! [`origin`] finds its dependencies, [`toolchain`] the compiler, [`build`] has cargo build it in a
//! folder that stays, and [`place`] puts the program where it is wanted.

mod build;
mod chains;
mod generate;
mod origin;
mod place;
mod toolchain;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Result;
use linerate_graph::{Library, Options, Plan, Router, lang::SourceMap};
use linerate_memory::ArenaOptions;

use crate::{
    args::Compile,
    configuration::{self, Parsed, Source, find_library},
    exit::{ConfigurationError, UsageError, cannot_read},
    output::Output,
    session, terminal,
};
use generate::{Description, Text};
use origin::Origin;
use place::Destination;
use toolchain::Toolchain;

/// Packet memory of elements that are made and not run.
const ARENA: usize = 2 << 20;

pub(crate) fn run(args: &Compile, library: &Library) -> Result<()> {
    let begun = Instant::now();
    let (source, globals) = args.configuration.source()?;
    let text = source.read().map_err(|error| cannot_read(source.name(), error))?;
    let path = configuration::click_path();
    let mut texts = Vec::new();
    let mut loader = |wanted: &str, asking: &str| {
        let found = find_library(wanted, asking, &path)?;
        texts.push(Text {
            wanted: wanted.into(),
            asking: asking.into(),
            path: found.path.clone(),
            text: found.text.clone(),
        });
        Ok(found)
    };
    let parsed = Parsed::with_libraries(source.name(), &text, &globals, library, &mut loader);
    parsed.check_variables(&globals)?;
    let (plan, sources) = parsed.into_plan(library)?;
    let devices = args.configuration.named.device.iter();
    let description = Description {
        configuration: source.name().into(),
        text,
        libraries: texts,
        variables: globals.variables.clone(),
        devices: devices.map(|(name, port)| (name.clone(), port.to_string())).collect(),
        crates: generate::crates_of(&plan, args.all_elements)?,
        chains: chains::chains(&plan),
        elements: plan.elements.len(),
        processor: args.target_cpu.clone(),
    };
    check(plan, &sources, library, args)?;

    let destination = Destination::new(&wanted(args, &source)?, &source)?;
    let keep = args.keep.as_deref().map(place::CrateFolder::new).transpose()?;
    let toolchain = Toolchain::find(&args.target_cpu)?;
    let origin = Origin::find(args.source.as_deref())?;
    let files = generate::files(&description, &origin);
    // From here on something could be left behind.
    let stop = session::stop_on_signals()?;
    let say = |text: &str| {
        if !args.quiet {
            Output::new(false).line(&format!("linerate: {text}"));
        }
    };
    let built = build::build(args, &toolchain, &origin, &files, &stop, &say)?;
    if let Some(keep) = keep {
        keep.write(&files, &built.lock_file())?;
    }
    let size = destination.put(built.program()?)?;
    say(&format!(
        "{} is made of {}: {:.1} MB, for {}, after {:.1} s",
        destination.called(),
        description.configuration,
        size as f64 / 1e6,
        toolchain.processor,
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Checks the arguments of elements.
fn check(plan: Plan, sources: &SourceMap, library: &Library, args: &Compile) -> Result<()> {
    let options = ArenaOptions { size: ARENA, gradual: true, ..ArenaOptions::default() };
    let ports = linerate_port::Context {
        devices: args.configuration.devices(),
        ..linerate_port::Context::new(options.create()?)
    };
    let warnings = match Router::check(plan, library, ports, &Options::default()) {
        Ok(warnings) => warnings,
        Err(error) => {
            let error = ConfigurationError::from_build_error(error, sources);
            let known = error.downcast_ref::<ConfigurationError>();
            let Some(missing) = known.and_then(ConfigurationError::missing_here) else {
                return Err(error);
            };
            let text = format!(
                "note: {missing}. What needs it was not checked; the program wants it where it runs"
            );
            Output::new(false).line(&text);
            return Ok(());
        }
    };
    eprint!("{}", warnings.rich(sources, terminal::colours()));
    Ok(())
}

/// The path of the program.
fn wanted(args: &Compile, source: &Source) -> Result<PathBuf, UsageError> {
    if let Some(output) = &args.output {
        return Ok(output.clone());
    }
    let stem = match source {
        Source::File(name) => Path::new(name).file_stem(),
        _ => None,
    };
    let stem = stem.ok_or_else(|| UsageError("what is it to be called? -o PROGRAM".into()))?;
    Ok(stem.into())
}

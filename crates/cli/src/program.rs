//! A configuration as a program: `linerate compile` generates a crate with one of these.

use std::{
    env,
    ffi::OsStr,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser};
use linerate_graph::{Class, Library, lang::Globals};
use linerate_linux::{allocator, descriptors, processor};
use linerate_port::parse_device;

use crate::{
    configuration::{self, Source},
    exit::{self, UsageError},
    library_text::LibraryText,
    options::{NamedDevices, Operation},
    run::{self, Subject},
};

/// A configuration that runs as a program of its own, as `linerate run` runs it: with the same
/// options, handlers and control sockets, and the same table.
///
/// ```no_run
/// use linerate_cli::Program;
///
/// static PROGRAM: Program = Program {
///     configuration: "count.click",
///     text: "InfiniteSource -> Counter -> Discard",
///     libraries: &[],
///     variables: &[],
///     devices: &[],
///     elements: &[],
///     processor: "native",
/// };
///
/// fn main() -> std::process::ExitCode {
///     PROGRAM.main()
/// }
/// ```
#[derive(Debug)]
pub struct Program {
    /// Name of the configuration in messages: that of its file.
    pub configuration: &'static str,
    /// The configuration.
    pub text: &'static str,
    /// The libraries that it requires.
    pub libraries: &'static [LibraryText],
    /// Values of its variables, unless others are given on the command line.
    pub variables: &'static [(&'static str, &'static str)],
    /// Ports that its devices stand for, likewise.
    pub devices: &'static [(&'static str, &'static str)],
    /// The elements there are, by crate and family.
    pub elements: &'static [&'static [&'static [&'static Class]]],
    /// Name of the processor it was compiled for, as the compiler has it.
    pub processor: &'static str,
}

/// The command line of such a program.
#[derive(Debug, Parser)]
#[command(name = "program", max_term_width = 100)]
struct CommandLine {
    /// Variables of the configuration
    #[arg(value_name = "NAME=VALUE", value_parser = parse_variable)]
    variables: Vec<(String, String)>,

    #[command(flatten)]
    devices: NamedDevices,

    #[command(flatten)]
    operation: Operation,
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    let advice = "write NAME=VALUE; the configuration is in the program";
    configuration::variable(text).ok_or_else(|| advice.into())
}

/// Writes a piece of a message, with code of the standard library alone.
#[inline(never)]
fn say(piece: &str) {
    // An error has no other reader.
    let _ = io::stderr().write_all(piece.as_bytes());
}

impl Program {
    /// Carries out the command line, and returns the exit code of the program.
    pub fn main(&'static self) -> ExitCode {
        // Until this is known nothing may be done that is not simple: see `processor`.
        match processor::missing() {
            None => self.start(),
            Some(missing) => self.refuse(missing),
        }
    }

    /// Prints why it cannot run here, a piece at a time: code that puts pieces together could need
    /// the missing instructions.
    #[cold]
    #[inline(never)]
    fn refuse(&self, missing: &str) -> ExitCode {
        say("error: this program was made of ");
        say(self.configuration);
        say(" for a processor (");
        say(self.processor);
        say(") that has ");
        say(missing);
        say(
            ", which this one has not; make it here, or for any: linerate compile --target-cpu x86-64\n",
        );
        exit::Code::Failure.into()
    }

    #[inline(never)]
    fn start(&'static self) -> ExitCode {
        allocator::bound_kept_memory();
        descriptors::raise_limit();
        let called = env::args_os().next().unwrap_or_default();
        let name = Path::new(&called).file_name().unwrap_or(OsStr::new("program"));
        let name = name.to_string_lossy();
        let matches = self.command(&name).get_matches();
        let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        exit::end(&name, self.run(line))
    }

    /// Its command line, where it is called `name`.
    fn command(&self, name: &str) -> clap::Command {
        let examples = format!(
            "Examples:\n  {name} --duration 3s\n  {name} --workers 2 --cores 1,2 --idle poll \
             --control 7777\n\nThe table is on standard error; standard output is the \
             configuration's.\n\n"
        );
        CommandLine::command()
            .display_name(name.to_owned())
            .bin_name(name.to_owned())
            .about(format!("Run {}, which was compiled into this program", self.configuration))
            .version(concat!(env!("CARGO_PKG_VERSION"), " of linerate"))
            .after_help(examples + exit::HELP)
    }

    fn run(&'static self, line: CommandLine) -> Result<()> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        // The last value given holds.
        let variables = self
            .variables
            .iter()
            .map(own)
            .filter(|(name, _)| !line.variables.iter().any(|(given, _)| given == name));
        let variables = variables.chain(line.variables.iter().cloned()).collect();
        let device = |(name, port): &(&str, &str)| {
            parse_device(&format!("{name}={port}")).map_err(|error| UsageError(error.to_string()))
        };
        let devices =
            self.devices.iter().map(device).chain(line.devices.device.into_iter().map(Ok));
        let classes = self.elements.iter().copied().flatten().copied().flatten().copied();
        let subject = Subject {
            source: Source::Program { name: self.configuration, text: self.text },
            globals: Globals { variables },
            devices: devices.collect::<Result<_, _>>()?,
            library: Library::default().with(classes)?,
            texts: self.libraries,
            watch: false,
            socket: None,
            prepare: None,
            rows: run::Rows::default(),
            notes: Vec::new(),
            side_task: None,
        };
        let controlled = &line.operation.controlled;
        let sockets = controlled.sockets(&subject.source.instance("program"))?;
        run::run(subject, sockets, &line.operation)
    }
}

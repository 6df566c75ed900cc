//! The programs `linerate`, `click` and `click-flatten`, for a `main` of a line.
//!
//! A crate with elements of its own makes programs that know them, besides all there are:
//!
//! ```no_run
//! # mod my_elements { pub const CLASSES: &[&linerate_graph::Class] = &[]; }
//! fn main() -> std::process::ExitCode {
//!     linerate_cli::linerate(my_elements::CLASSES)
//! }
//! ```
//!
//! and similarly with [`click()`]. [`click_flatten`] needs no elements.
//!
//! A configuration that `linerate compile` has made a program of is a [`Program`]. It needs none of
//! the commands, so these can be left out: they are the feature `commands`.
//!
//! This crate parses arguments, sets up memory and ports, starts workers, and prints; packets are
//! moved by the library crates.
//!
//! # Where things are
//!
//! `linerate`: `args` declares the command line (help, completions and man pages come from it) with
//! those of `options` that several commands have, `commands` has a module per command. Shared by
//! commands: `resources` (memory and cores), `session` (workers and the clock that drives the
//! table), `live` (output of a running command), `links` (changes of link states), `terminal`
//! (abilities of the terminal), `exit` (exit codes and errors), `service` (readiness for a service
//! manager), `watchdog` (liveness of workers), `readiness` (both, for commands between ports),
//! `signals`, `units` and `ranges` (typed numbers), `profile` (streams and connections in a file).
//!
//! Configurations: `configuration` reads them, `run` runs them, `program` those that were compiled,
//! `control` has the sockets where they are controlled, at a `control_address`, `remote` controls commands without one,
//! `archive` unpacks them, `graph` draws them, `reference` writes the pages of elements
//! (`linerate elements`), `port_reference` those of ports (`linerate ports --help-uri`).
//!
//! Packets as text, for `capture`: `view`.
//!
//! `click` and `click-flatten`: `click`, with a command line of its own.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "commands"),
    allow(dead_code, reason = "what a module has for the other commands, too")
)]

mod absent;
mod archive;
#[cfg(feature = "commands")]
mod args;
#[cfg(feature = "commands")]
mod click;
#[cfg(feature = "commands")]
mod commands;
mod configuration;
mod control;
mod control_address;
mod exit;
#[cfg(feature = "commands")]
mod graph;
mod library_text;
mod links;
#[cfg(feature = "commands")]
mod live;
mod options;
mod output;
#[cfg(feature = "commands")]
mod port_reference;
#[cfg(feature = "commands")]
mod port_spec;
#[cfg(feature = "commands")]
mod profile;
mod program;
#[cfg(feature = "commands")]
mod ranges;
#[cfg(feature = "commands")]
mod readiness;
#[cfg(feature = "commands")]
mod reference;
#[cfg(feature = "commands")]
mod remote;
mod resources;
mod run;
mod service;
#[cfg(feature = "commands")]
mod session;
mod signals;
mod terminal;
mod units;
#[cfg(feature = "commands")]
mod view;
mod watchdog;

#[cfg(feature = "commands")]
use std::process::ExitCode;

#[cfg(feature = "commands")]
use clap::Parser;
#[cfg(feature = "commands")]
use linerate_graph::{Class, DuplicateClass, Library};

#[cfg(feature = "commands")]
pub use click::{click, click_flatten};
pub use library_text::LibraryText;
pub use program::Program;

/// The program `linerate`, with `elements` beside those of the library.
///
/// It ends at once, and says why, when two elements have the same name.
#[cfg(feature = "commands")]
pub fn linerate(elements: &[&'static Class]) -> ExitCode {
    linerate_linux::allocator::bound_kept_memory();
    let cli = args::Cli::parse();
    let done = library(elements)
        .map_err(anyhow::Error::from)
        .and_then(|library| commands::run(cli.command, &library));
    exit::end("linerate", done)
}

/// The library's elements, and more.
#[cfg(feature = "commands")]
fn library(more: &[&'static Class]) -> Result<Library, DuplicateClass> {
    linerate_elements::library().with(more.iter().copied())
}

#[cfg(all(test, feature = "commands"))]
mod tests {
    use super::*;

    #[test]
    fn elements_of_others_have_other_names() {
        const MINE: Class = Class { name: "Mine", ..Class::here() };
        const STRIP: Class = Class { name: "Strip", file: "src/strip.rs", ..MINE };
        assert!(library(&[&MINE]).unwrap().find("Mine").is_some());
        let error = library(&[&MINE, &STRIP]).unwrap_err().to_string();
        assert!(error.starts_with("two element classes are called Strip, in "), "{error}");
        assert!(
            error.contains("src/packets/strip.rs") && error.contains(" src/strip.rs:"),
            "{error}"
        );
    }
}

//! The programs `linerate`, `click` and `click-flatten`, for a `main` of a line.
//!
//! Whoever has elements of their own makes programs that know them, besides all there are:
//!
//! ```no_run
//! # mod my_elements { pub const CLASSES: &[&linerate_graph::Class] = &[]; }
//! fn main() -> std::process::ExitCode {
//!     linerate_cli::linerate(my_elements::CLASSES)
//! }
//! ```
//!
//! and the same with [`click()`]. [`click_flatten`] asks nobody what elements there are.
//!
//! This crate parses arguments, sets up memory and ports, starts workers, and
//! prints; what moves packets is in the library crates.
//!
//! # Where things are
//!
//! `linerate`: `args` declares the command line (help, completions and man pages come from
//! it), `commands` has a module per command. What they share: `session` (memory, workers,
//! the clock that drives the table), `live` (what a running command prints), `links` (which
//! interfaces are down), `terminal` (what can be shown), `exit` (exit codes and errors), `service`
//! (a service manager is told that all is ready), `life` (whether workers are), `attendance` (both,
//! for commands between ports), `signals`, `units` and `ranges` (what people type), `profile`
//! (streams and connections in a file).
//!
//! Configurations: `configuration` reads them, `control_address` says where they are controlled,
//! `remote` controls commands without one,
//! `archive` unpacks them, `graph` draws them, `reference` writes the pages of elements
//! (`docs/elements`, `linerate elements`); `port_reference` those of ports (`docs/ports`,
//! `linerate ports --help-uri`).
//!
//! Packets as text, for `capture`: `view`.
//!
//! `click` and `click-flatten`: `click`, with a command line of its own.
#![forbid(unsafe_code)]

mod archive;
mod args;
mod attendance;
mod click;
mod commands;
mod configuration;
mod control_address;
mod exit;
mod graph;
mod life;
mod links;
mod live;
mod output;
mod port_reference;
mod profile;
mod ranges;
mod reference;
mod remote;
mod service;
mod session;
mod signals;
mod terminal;
mod units;
mod view;

use std::process::ExitCode;

use clap::Parser;
use linerate_graph::{Class, DuplicateClass, Library};

pub use click::{click, click_flatten};

/// The program `linerate`, with `elements` beside those of the library.
///
/// It ends at once, and says why, when two elements have the same name.
pub fn linerate(elements: &[&'static Class]) -> ExitCode {
    let cli = args::Cli::parse();
    let done = library(elements)
        .map_err(anyhow::Error::from)
        .and_then(|library| commands::run(cli.command, &library));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("linerate: error: {error:#}");
            exit::code_of(&error).into()
        }
    }
}

/// The library's elements, and more.
fn library(more: &[&'static Class]) -> Result<Library, DuplicateClass> {
    linerate_elements::library().with(more.iter().copied())
}

#[cfg(test)]
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

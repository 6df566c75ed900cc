//! The programs `linerate`, `click` and `click-flatten`.
//!
//! This crate parses arguments, sets up memory and ports, starts workers, and
//! prints; what moves packets is in the library crates.
//!
//! # Where things are
//!
//! `linerate`: `args` declares the command line (help, completions and man pages come from
//! it), `commands` has a module per command. What they share: `session` (memory, workers,
//! the clock that drives the table), `live` (what a running command prints), `exit` (exit
//! codes and errors), `signals`, `units` and `ranges` (what people type).
//!
//! Configurations: `configuration` reads them, `archive` unpacks them, `graph` draws them,
//! `reference` writes the pages of elements (`docs/elements`, `linerate elements`).
//!
//! `click` and `click-flatten`: `click`, with a command line of its own.
#![forbid(unsafe_code)]

mod archive;
mod args;
mod click;
mod commands;
mod configuration;
mod exit;
mod graph;
mod live;
mod output;
mod ranges;
mod reference;
mod session;
mod signals;
mod units;

use std::process::ExitCode;

use clap::Parser;

pub use click::{click, click_flatten};

/// The program `linerate`.
pub fn linerate() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if exit::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("linerate: error: {error:#}");
            exit::code_of(&error).into()
        }
    }
}

//! The `linerate` command.
//!
//! This crate parses arguments, sets up memory and ports, starts workers, and
//! prints; what moves packets is in the library crates.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod live;
mod ranges;
mod session;
mod units;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
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

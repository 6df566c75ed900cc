//! Clippy as the compiler of a workspace's own crates, so that they are compiled once.
//!
//! `cargo clippy` is a `cargo check` whose compiler for the workspace's own crates is another. What another
//! command compiles of them is compiled anew, although it is the same, unless it has the same compiler,
//! with the same arguments: by the variables that are set here as `cargo clippy` sets them.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::shell;

/// Arguments of `cargo clippy` for the compiler.
pub(crate) const ARGUMENTS: [&str; 3] = ["--", "--deny", "warnings"];

/// Lets a cargo compile as `cargo clippy` does with these arguments; without clippy, as ever.
pub(crate) fn compile_with(command: &mut Command) -> Result<()> {
    let folder = shell::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let driver = Path::new(folder.trim()).join("bin/clippy-driver");
    if driver.exists() {
        let arguments = ARGUMENTS[1..].iter().map(|word| format!("{word}__CLIPPY_HACKERY__"));
        command.env("RUSTC_WORKSPACE_WRAPPER", driver);
        command.env("CLIPPY_ARGS", arguments.collect::<String>());
    }
    Ok(())
}

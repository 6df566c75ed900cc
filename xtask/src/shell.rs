//! Running programs: shown before they run, checked after.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from))
}

/// `cargo`, started at the root of the repository, by the toolchain that built this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    without_package(&mut command);
    command
}

/// Removes the variables that describe the xtask package itself, which `cargo run` has set. They
/// would leak into the build of others, causing needless rebuilds in build scripts that read them.
pub(crate) fn without_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(&name);
        }
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
}

/// Returns the words for a shell that run the command, without the environment.
pub(crate) fn describe(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let name = program.rsplit('/').next().unwrap_or(&program).to_owned();
    let words = command.get_args().map(|word| {
        let word = word.to_string_lossy();
        if word.is_empty() || word.contains([' ', '*', '\'', '"', '$']) {
            format!("'{word}'")
        } else {
            word.into_owned()
        }
    });
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

/// Shows a command, runs it with this program's terminal, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    eprintln!("\n$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a command and returns its output, or fails with its errors.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}): {}", output.status, complaint.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns true if this process is root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The target triple of this machine, as `rustc` names it. Naming it explicitly keeps `RUSTFLAGS`
/// away from build scripts and procedural macros.
pub(crate) fn host_triple() -> Result<String> {
    let verbose = output(Command::new("rustc").arg("-vV"))?;
    verbose
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("`rustc -vV` names no host")
}

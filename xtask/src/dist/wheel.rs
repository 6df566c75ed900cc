//! Wheel of the client library for Python: `pip wheel`, with a module without debugging symbols.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use linerate_test_support::programs;

use super::{Release, source, target};
use crate::shell;

/// Makes the wheel.
pub(super) fn make(release: &Release) -> Result<PathBuf> {
    let mut build = shell::cargo(&["build", "--release", "--locked"]);
    shell::run(build.args(["--package", "linerate-client-python"]))?;
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let library = "liblinerate_client_python.so";
    let stripped = scratch.path().join(library);
    let mut strip = Command::new("strip");
    strip.args(["--strip-unneeded", "-o"]).arg(&stripped);
    shell::run(strip.arg(target().join("release").join(library)))?;
    let wheels = scratch.path().join("wheels");
    let python = programs::find("python3").context("a wheel is made by python3 with pip")?;
    let mut wheel = pip(&python);
    wheel.args(["wheel", "--no-index", "--no-deps", "--wheel-dir"]).arg(&wheels);
    shell::run(
        wheel.arg(source("crates/cluster/client-python")).env("LINERATE_LIBRARY", &stripped),
    )?;
    let made = fs::read_dir(&wheels)?.next().context("pip has made no wheel")??;
    let path = release.path(&made.file_name().to_string_lossy());
    fs::copy(made.path(), &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// pip, without the user's configuration; `--no-index` is each command's own.
pub(super) fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "--isolated", "--disable-pip-version-check"]);
    pip
}

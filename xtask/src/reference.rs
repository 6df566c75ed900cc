//! `cargo xtask reference`: the pages in `docs/elements`, written anew from the elements.

use anyhow::Result;

use crate::shell;

pub(crate) fn run() -> Result<()> {
    let arguments = ["run", "--quiet", "--package", "linerate", "--bin", "linerate", "--"];
    shell::run(shell::cargo(&arguments).args(["elements", "--write", "docs/elements"]))
}

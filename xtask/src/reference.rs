//! `cargo xtask reference`: the pages in `docs/elements` and `docs/ports`, written anew from the
//! elements and the drivers.

use anyhow::Result;

use crate::shell;

pub(crate) fn run() -> Result<()> {
    let arguments = ["run", "--quiet", "--package", "linerate", "--bin", "linerate", "--"];
    for (command, folder) in [("elements", "docs/elements"), ("ports", "docs/ports")] {
        shell::run(shell::cargo(&arguments).args([command, "--write", folder]))?;
    }
    Ok(())
}

//! Build of the project in `examples/elements`, as projects outside the repository are built.
//!
//! It is compiled once: clippy is the compiler of its own crate, in tests as in `cargo xtask check`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::apart::{self, LOCK, Package, lock};
use crate::{clippy, shell};

const FOLDER: &str = "examples/elements";

/// Its manifest.
pub(crate) fn manifest() -> PathBuf {
    folder().join("Cargo.toml")
}

/// A subcommand of cargo in that folder.
pub(crate) fn cargo(subcommand: &str, arguments: &[&str]) -> Result<Command> {
    let mut command = apart::cargo(&folder(), "outsider", subcommand, arguments)?;
    clippy::compile_with(&mut command)?;
    Ok(command)
}

fn folder() -> PathBuf {
    shell::root().join(FOLDER)
}

/// Whether its lock file is in step with ours.
pub(crate) fn check_lock() -> Result<()> {
    let stale = |reason: String| {
        format!(
            "{FOLDER}/{LOCK} is not in step with {LOCK}: {reason}. Make it anew:\n  \
             cp {LOCK} {FOLDER}/ && cargo metadata --format-version 1 --manifest-path \
             {FOLDER}/Cargo.toml >/dev/null"
        )
    };
    let ours = lock(&shell::root().join(LOCK))?;
    let theirs = lock(&folder().join(LOCK))?;
    let other = theirs.iter().find(|package| package.source.is_some() && !ours.contains(package));
    if let Some(Package { name, version, .. }) = other {
        bail!(stale(format!("{name} {version} is in one only")));
    }
    if shell::output(&mut cargo("metadata", &["--format-version", "1", "--locked"])?).is_err() {
        bail!(stale("our crates have other dependencies now".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use toml::Table;

    use super::*;

    /// The page that tells how the project came about.
    const PAGE: &str = "docs/guide/write-an-element.md";

    /// Blocks of the page that are in one of those languages.
    fn blocks(page: &str) -> Vec<&str> {
        let blocks = page.split("\n```").skip(1).step_by(2);
        let languages = ["rust\n", "toml\n", "click\n", "click project\n"];
        blocks
            .filter_map(|block| languages.iter().find_map(|name| block.strip_prefix(name)))
            .collect()
    }

    #[test]
    fn the_code_of_the_page_is_that_of_the_project() {
        let names = [
            "../../crates/elements/ip/src/tcpudp/tcp_mss_clamp.rs",
            "Cargo.toml",
            "neighbour.click",
            "programs/Cargo.toml",
            "programs/src/bin/click.rs",
            "programs/src/bin/linerate.rs",
            "programs/tests/programs.rs",
            "src/drop_duplicates.rs",
            "src/failover.rs",
            "src/lib.rs",
            "src/min_ttl.rs",
            "src/ttl_security.rs",
        ];
        let files = names.map(|name| (name, fs::read_to_string(folder().join(name)).unwrap()));
        let page = fs::read_to_string(shell::root().join(PAGE)).unwrap();
        let blocks = blocks(&page);
        for block in &blocks {
            assert!(files.iter().any(|(_, text)| text.contains(block)), "{PAGE} has\n{block}");
        }
        for (name, text) in &files {
            assert!(
                blocks.iter().any(|block| text.contains(block)),
                "{PAGE} has nothing of {name}"
            );
        }
    }
    /// Packages that a package of the lock file needs, directly or by others.
    fn needs(package: &str) -> BTreeSet<String> {
        let text = fs::read_to_string(folder().join(LOCK)).unwrap();
        let lock: Table = toml::from_str(&text).unwrap();
        let packages = lock["package"].as_array().unwrap();
        let mut found = BTreeSet::new();
        let mut open = vec![package.to_owned()];
        while let Some(name) = open.pop() {
            let package =
                packages.iter().find(|package| package["name"].as_str() == Some(name.as_str()));
            let needed = package.and_then(|package| package.get("dependencies")?.as_array());
            for needed in needed.into_iter().flatten() {
                // A name, and a version where there are several.
                let needed = needed.as_str().unwrap().split(' ').next().unwrap();
                if found.insert(needed.to_owned()) {
                    open.push(needed.into());
                }
            }
        }
        found
    }

    /// Neither the elements nor their tests wait for the library or a program.
    #[test]
    fn elements_of_others_need_the_interface_and_the_harness_alone() {
        let needed = needs("example-elements");
        assert!(needed.contains("linerate-graph") && needed.contains("linerate-elements-testing"));
        let ours = needed.iter().filter(|name| name.starts_with("linerate"));
        let elements: Vec<_> =
            ours.filter(|name| name.contains("elements") || *name == "linerate").collect();
        assert_eq!(elements, ["linerate-elements-testing"]);
        assert!(needs("programs").contains("linerate-elements"));
    }
}

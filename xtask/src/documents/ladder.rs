//! The ladder of crates: a crate depends on crates of its own folder of `crates` and of folders on lower steps.
//!
//! Tests may use any crate: their dependencies are left out. Crates for tests alone are below `tests`, on no step.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::{Result, bail};

use super::workspace::{Crate, Workspace};

/// Folders of `crates`, the lowest step first. Folders on one step do not know each other.
const LADDER: [&[&str]; 6] = [
    &["base"],
    &["io"],
    &["graph", "ofswitch", "cluster"],
    &["elements", "libpcap"],
    &["tester"],
    &["cli"],
];

impl Crate {
    /// Its folder below `crates`; none for a crate of tests.
    fn layer(&self) -> Option<&str> {
        self.folder.strip_prefix("crates/")?.split('/').next()
    }

    /// The step of its folder, counted from the lowest.
    fn step(&self) -> Option<usize> {
        let layer = self.layer()?;
        LADDER.iter().position(|step| step.contains(&layer))
    }

    /// Its place among all crates: from the lowest step up, and those on no step last.
    pub(super) fn place(&self) -> (usize, &str) {
        (self.step().unwrap_or(LADDER.len()), &self.folder)
    }
}

impl Workspace {
    /// The folders with those that each uses, as a picture with the highest step on top.
    ///
    /// # Errors
    ///
    /// When a crate breaks the rule.
    pub(super) fn ladder(&self) -> Result<String> {
        let violations = self.violations();
        if !violations.is_empty() {
            bail!("{}", violations.join("\n"));
        }
        let mut picture = String::from("```text\n");
        for (step, layers) in LADDER.iter().enumerate().rev() {
            for (at, layer) in layers.iter().enumerate() {
                let number = if at == 0 { (step + 1).to_string() } else { String::new() };
                let used = self.used(layer);
                let line = if used.is_empty() {
                    format!("{number:>2}  {layer}")
                } else {
                    format!("{number:>2}  {layer:<8} ─▶ {}", used.join("  "))
                };
                writeln!(picture, "{line}")?;
            }
        }
        Ok(picture + "```")
    }

    /// The other folders that the crates of one depend on, the highest first.
    fn used(&self, layer: &str) -> Vec<&str> {
        let own = self.0.iter().filter(|one| one.layer() == Some(layer));
        let used: BTreeSet<&str> =
            own.flat_map(|one| self.dependencies(one)).filter_map(Crate::layer).collect();
        let layers = LADDER.iter().rev().copied().flatten().copied();
        layers.filter(|other| *other != layer && used.contains(other)).collect()
    }

    /// The crates of the workspace that one is compiled with.
    fn dependencies<'a>(&'a self, one: &'a Crate) -> impl Iterator<Item = &'a Crate> {
        self.0.iter().filter(|other| one.dependencies.contains(&other.package))
    }

    /// Dependencies and folders that break the rule, each with its remedy.
    pub(super) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for one in &self.0 {
            let (folder, Some(layer)) = (&one.folder, one.layer()) else { continue };
            let Some(step) = one.step() else {
                found.push(format!(
                    "{folder}: the folder crates/{layer} is on no step of the ladder: enter it in \
                     LADDER of xtask/src/documents/ladder.rs, above the folders that it uses"
                ));
                continue;
            };
            for other in self.dependencies(one) {
                let is_lower = other.step().is_some_and(|other| other < step);
                if other.layer() == Some(layer) || is_lower {
                    continue;
                }
                found.push(match other.layer() {
                    Some(name) => format!(
                        "{folder} depends on {}, but crates/{name} is on no lower step than \
                         crates/{layer}: move what it needs to a lower folder, let the caller pass \
                         it in, or move the crate to a higher folder; what only tests need is a \
                         dev-dependency",
                        other.folder
                    ),
                    None => format!(
                        "{folder} depends on {}, which is for tests: make it a dev-dependency",
                        other.folder
                    ),
                });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in a folder, whose package is named by the folder.
    fn one(folder: &str, dependencies: &[&str]) -> Crate {
        Crate {
            package: folder.into(),
            folder: folder.into(),
            description: format!("Content of {folder}"),
            documents: Vec::new(),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn crates_depend_on_their_own_and_lower_folders() {
        let found = Workspace::read().expect("the workspace").violations();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn a_dependency_upward_beside_or_on_tests_is_found() {
        let workspace = Workspace::new(vec![
            one("crates/base/memory", &["libc"]),
            one("crates/graph/worker", &["crates/base/memory", "crates/graph/engine"]),
            one("crates/graph/engine", &["crates/cli", "crates/ofswitch/switch"]),
            one("crates/ofswitch/switch", &["crates/base/memory", "tests/support"]),
            one("crates/cli", &["crates/graph/engine", "crates/ofswitch/switch"]),
            one("crates/unknown/new", &["crates/base/memory"]),
            one("tests/support", &["crates/base/memory"]),
        ]);
        let found = workspace.violations();
        let beginnings = [
            "crates/graph/engine depends on crates/ofswitch/switch,",
            "crates/graph/engine depends on crates/cli,",
            "crates/ofswitch/switch depends on tests/support, which is for tests",
            "crates/unknown/new: the folder crates/unknown is on no step",
        ];
        assert_eq!(found.len(), beginnings.len(), "{found:#?}");
        for (text, beginning) in found.iter().zip(beginnings) {
            assert!(text.starts_with(beginning), "{text}");
        }
        let fault = workspace.ladder().expect_err("a broken rule").to_string();
        assert_eq!(fault, found.join("\n"));
    }

    #[test]
    fn the_picture_has_the_folders_that_each_uses() {
        let workspace = Workspace::new(vec![
            one("crates/cli", &["crates/graph/worker", "crates/base/memory"]),
            one("crates/graph/worker", &["crates/graph/engine", "crates/base/memory"]),
            one("crates/graph/engine", &["crates/io/port"]),
            one("crates/io/port", &["crates/base/memory"]),
            one("crates/base/memory", &[]),
        ]);
        let picture = workspace.ladder().expect("a picture");
        let lines: Vec<&str> = picture.lines().filter(|line| line.contains('▶')).collect();
        assert_eq!(
            lines,
            [" 6  cli      ─▶ graph  base", " 3  graph    ─▶ io  base", " 2  io       ─▶ base"]
        );
        assert!(picture.ends_with("\n 1  base\n```") && picture.contains("\n    ofswitch\n"));
    }
}

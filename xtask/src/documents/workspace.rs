//! The crates of the workspace, as their manifests describe them: the ladder of dependencies, and the table.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{layers, shell};

/// Columns of a drawn line.
const WIDTH: usize = 140;
/// Layers of modules below which a crate is not drawn.
const LAYERS: usize = 5;

/// The answer of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    description: Option<String>,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    metadata: Option<Tools>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`, or none.
    kind: Option<String>,
}

/// The tables below `package.metadata`.
#[derive(Deserialize)]
struct Tools {
    linerate: Option<Ours>,
}

#[derive(Deserialize)]
struct Ours {
    /// Documents about the crate, as paths in the repository.
    documents: Vec<String>,
}

/// A crate below `crates` or `tests`.
struct Crate {
    /// Its folder in the repository.
    folder: String,
    description: String,
    documents: Vec<String>,
    /// The line of the ladder it is on: the one above its highest dependency.
    line: usize,
}

impl Crate {
    /// Its folder as documents name it: `elements/support`.
    fn name(&self) -> &str {
        self.folder.strip_prefix("crates/").unwrap_or(&self.folder)
    }
}

/// The crates below `crates` and `tests`, from the lowest line of the ladder up, by name on each.
pub(super) struct Workspace(Vec<Crate>);

impl Workspace {
    /// Reads the manifests.
    pub(super) fn read() -> Result<Workspace> {
        let arguments = ["metadata", "--format-version=1", "--no-deps", "--offline"];
        let json = shell::output(&mut shell::cargo(&arguments))?;
        let metadata: Metadata =
            serde_json::from_str(&json).context("cannot read cargo's metadata")?;
        Workspace::new(metadata.packages)
    }

    fn new(packages: Vec<Package>) -> Result<Workspace> {
        let lines = lines(&packages);
        let mut crates = Vec::new();
        for package in packages {
            let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
            let folder = folder.strip_prefix(shell::root())?.display().to_string();
            if !["crates/", "tests/"].iter().any(|top| folder.starts_with(top)) {
                continue;
            }
            let documents = package.metadata.and_then(|tools| tools.linerate);
            crates.push(Crate {
                folder,
                description: package
                    .description
                    .with_context(|| format!("{} has no description", package.name))?,
                documents: documents.map_or(Vec::new(), |ours| ours.documents),
                line: lines[&package.name],
            });
        }
        crates.sort_by(|one, other| (one.line, &one.folder).cmp(&(other.line, &other.folder)));
        Ok(Workspace(crates))
    }

    /// The crates by line, as a picture with the highest on top.
    pub(super) fn ladder(&self) -> Result<String> {
        let mut picture = String::from("```text\n");
        let highest = self.0.last().map_or(0, |last| last.line);
        for line in (1..=highest).rev() {
            let names = self.0.iter().filter(|one| one.line == line);
            let names: Vec<&str> = names.map(Crate::name).collect();
            picture += &wrapped(&format!("{line:2}  "), &names, "  ");
        }
        Ok(picture + "```")
    }

    /// A row for each crate.
    pub(super) fn table(&self) -> Result<String> {
        let mut table = String::from("| crate | content | document |\n|---|---|---|");
        for one in &self.0 {
            let (name, Crate { folder, description, .. }) = (one.name(), one);
            table += &format!("\n| [`{name}`]({folder}/src/lib.rs) | {description} |");
            for (at, path) in one.documents.iter().enumerate() {
                let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".md");
                let separator = if at == 0 { " " } else { ", " };
                table += &format!("{separator}[{}]({path})", name.replace('-', " "));
            }
            table += " |";
        }
        Ok(table)
    }

    /// The top-level modules of crates with many layers of them, the highest layer first.
    pub(super) fn modules(&self) -> Result<String> {
        let mut picture = String::from("```text\n");
        let column = self.0.iter().map(|one| one.name().len()).max().unwrap_or(0) + 2;
        for one in &self.0 {
            let layers = layers::layers(&shell::root().join(&one.folder))?;
            if layers.len() >= LAYERS {
                let layers: Vec<String> = layers.iter().map(|layer| layer.join(" ")).collect();
                let words = layers.join(" > ");
                let words: Vec<&str> = words.split(' ').collect();
                picture += &wrapped(&format!("{:column$}", one.name()), &words, " ");
            }
        }
        Ok(picture + "```")
    }

    #[cfg(test)]
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| one.folder.as_str())
    }

    #[cfg(test)]
    pub(super) fn documents(&self) -> BTreeSet<&str> {
        self.0.iter().flat_map(|one| &one.documents).map(String::as_str).collect()
    }
}

/// Words in lines of at most [`WIDTH`] columns, the first behind a head, the others below its end.
fn wrapped(head: &str, words: &[&str], separator: &str) -> String {
    let mut text = head.to_owned();
    let mut column = head.len();
    for (at, word) in words.iter().enumerate() {
        if at > 0 && column + separator.len() + word.len() > WIDTH {
            text = format!("{}\n{:2$}", text.trim_end(), "", head.len());
            column = head.len();
        } else if at > 0 {
            text += separator;
            column += separator.len();
        }
        text += word;
        column += word.len();
    }
    text + "\n"
}

/// The line of the ladder of each package, by its dependencies but those of tests and build scripts.
fn lines(packages: &[Package]) -> BTreeMap<String, usize> {
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut lines = BTreeMap::new();
    // A package is placed when those it depends on are, of which cargo allows no cycle.
    while lines.len() < packages.len() {
        for package in packages {
            let below = package.dependencies.iter();
            let below = below.filter(|one| one.kind.is_none() && names.contains(one.name.as_str()));
            let below: Option<Vec<usize>> =
                below.map(|one| lines.get(&one.name).copied()).collect();
            if let Some(below) = below {
                lines.insert(package.name.clone(), 1 + below.into_iter().max().unwrap_or(0));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependency = |(name, kind): &(&str, Option<&str>)| Dependency {
            name: (*name).into(),
            kind: kind.map(str::to_owned),
        };
        Package {
            name: format!("linerate-{name}"),
            description: Some(format!("Content of {name}")),
            manifest_path: shell::root().join("crates").join(name).join("Cargo.toml"),
            dependencies: dependencies.iter().map(dependency).collect(),
            metadata: Some(Tools {
                linerate: Some(Ours { documents: vec!["docs/design/cost-model.md".into()] }),
            }),
        }
    }

    #[test]
    fn a_crate_is_above_its_dependencies() {
        let test = Some("dev");
        let packages = vec![
            package("top", &[("linerate-middle", None), ("linerate-base", None)]),
            package("middle", &[("linerate-base", None), ("linerate-top", test), ("libc", None)]),
            package("base", &[]),
            package("aside", &[("linerate-middle", test)]),
        ];
        let workspace = Workspace::new(packages).unwrap();
        assert_eq!(
            workspace.ladder().unwrap(),
            "```text\n 3  top\n 2  middle\n 1  aside  base\n```"
        );
        let table = workspace.table().unwrap();
        let row = "| [`top`](crates/top/src/lib.rs) | Content of top | [cost model](docs/design/cost-model.md) |";
        assert!(table.ends_with(row), "{table}");
    }

    #[test]
    fn long_lines_are_wrapped() {
        let word = "x".repeat(80);
        let text = wrapped("a ", &[&word, &word, "y"], "  ");
        assert_eq!(text, format!("a {word}\n  {word}  y\n"));
    }
}

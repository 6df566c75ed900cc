//! The crates of the workspace, as their manifests describe them: their table and the layers of their modules.

use std::{collections::BTreeSet, path::PathBuf};

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
pub(super) struct Crate {
    pub(super) package: String,
    /// Its folder in the repository.
    pub(super) folder: String,
    pub(super) description: String,
    pub(super) documents: Vec<String>,
    /// Packages that it or its build script is compiled with, not those of its tests.
    pub(super) dependencies: BTreeSet<String>,
}

impl Crate {
    /// The crate of a package; none for a package in other folders.
    fn new(package: Package) -> Result<Option<Crate>> {
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        let folder = folder.strip_prefix(shell::root())?.display().to_string();
        if !["crates/", "tests/"].iter().any(|top| folder.starts_with(top)) {
            return Ok(None);
        }
        let no_description = || format!("{} has no description", package.name);
        let compiled = package.dependencies.into_iter();
        let compiled = compiled.filter(|one| one.kind.as_deref() != Some("dev"));
        Ok(Some(Crate {
            folder,
            description: package.description.with_context(no_description)?,
            documents: package
                .metadata
                .and_then(|tools| tools.linerate)
                .map_or(Vec::new(), |ours| ours.documents),
            dependencies: compiled.map(|one| one.name).collect(),
            package: package.name,
        }))
    }

    /// Its folder as documents name it: `elements/support`.
    fn name(&self) -> &str {
        self.folder.strip_prefix("crates/").unwrap_or(&self.folder)
    }
}

/// The crates below `crates` and `tests`, from the lowest step of the ladder up, by folder on each.
pub(super) struct Workspace(pub(super) Vec<Crate>);

impl Workspace {
    /// Reads the manifests.
    pub(super) fn read() -> Result<Workspace> {
        let arguments = ["metadata", "--format-version=1", "--no-deps", "--offline"];
        let json = shell::output(&mut shell::cargo(&arguments))?;
        let metadata: Metadata =
            serde_json::from_str(&json).context("cannot read cargo's metadata")?;
        let crates = metadata.packages.into_iter().filter_map(|one| Crate::new(one).transpose());
        Ok(Workspace::new(crates.collect::<Result<_>>()?))
    }

    pub(super) fn new(mut crates: Vec<Crate>) -> Workspace {
        crates.sort_by(|one, other| one.place().cmp(&other.place()));
        Workspace(crates)
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
                picture += &wrapped(&format!("{:column$}", one.name()), &words);
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
fn wrapped(head: &str, words: &[&str]) -> String {
    let mut text = head.to_owned();
    let mut column = head.len();
    for (at, word) in words.iter().enumerate() {
        if at > 0 && column + 1 + word.len() > WIDTH {
            text = format!("{}\n{:2$}", text.trim_end(), "", head.len());
            column = head.len();
        } else if at > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += word.len();
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str) -> Package {
        let dependency = |name: &str, kind: Option<&str>| Dependency {
            name: name.into(),
            kind: kind.map(str::to_owned),
        };
        Package {
            name: "linerate-top".into(),
            description: Some("Content of top".into()),
            manifest_path: shell::root().join(folder).join("Cargo.toml"),
            dependencies: vec![
                dependency("libc", None),
                dependency("cc", Some("build")),
                dependency("proptest", Some("dev")),
            ],
            metadata: Some(Tools {
                linerate: Some(Ours { documents: vec!["docs/design/cost-model.md".into()] }),
            }),
        }
    }

    #[test]
    fn a_crate_has_the_dependencies_it_is_compiled_with_and_a_row() {
        let found = Crate::new(package("crates/base/top")).unwrap().expect("a crate");
        assert_eq!(Vec::from_iter(&found.dependencies), ["cc", "libc"]);
        let table = Workspace::new(vec![found]).table().unwrap();
        let row = "| [`base/top`](crates/base/top/src/lib.rs) | Content of top | [cost model](docs/design/cost-model.md) |";
        assert!(table.ends_with(row), "{table}");
        assert!(Crate::new(package("xtask")).unwrap().is_none());
    }

    #[test]
    fn long_lines_are_wrapped() {
        let word = "x".repeat(80);
        let text = wrapped("a ", &[&word, &word, "y"]);
        assert_eq!(text, format!("a {word}\n  {word} y\n"));
    }
}

//! Origin of the crates that a program is made of.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use toml::{Table, Value};

use crate::exit::UsageError;

/// The workspace this program was built in.
const BUILT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The variable of the environment with another place.
const VARIABLE: &str = "LINERATE_SOURCE";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Place of the crates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// In the workspace in this folder, which is named from the root.
    Folder(PathBuf),
    /// In a repository, under a tag or as it is now.
    Git { url: String, tag: Option<String> },
}

impl Origin {
    /// The place that the user names; else the origin of this program.
    pub(super) fn find(said: Option<&str>) -> Result<Origin, UsageError> {
        let variable = env::var(VARIABLE).ok().filter(|value| !value.is_empty());
        let (by, said) = match said {
            Some(said) => ("--source", Some(said)),
            None => (VARIABLE, variable.as_deref()),
        };
        match said {
            Some(url) if url.contains("://") => Ok(Origin::Git { url: url.into(), tag: None }),
            Some(folder) => {
                let wrong = |why: String| UsageError(format!("{by} {folder}: {why}"));
                let (folder, version) = workspace(Path::new(folder)).map_err(wrong)?;
                if version != VERSION {
                    let why = format!("it is of version {version}, this program of {VERSION}");
                    return Err(wrong(why));
                }
                Ok(Origin::Folder(folder))
            }
            None => Ok(match workspace(Path::new(BUILT_IN)) {
                Ok((folder, version)) if version == VERSION => Origin::Folder(folder),
                _ => Origin::Git { url: REPOSITORY.into(), tag: Some(format!("v{VERSION}")) },
            }),
        }
    }

    /// The place of a crate, in the words of a manifest.
    pub(super) fn dependency(&self, name: &str) -> String {
        match self {
            Origin::Folder(folder) => {
                let path = match name.strip_prefix("linerate-elements-") {
                    Some(family) => folder.join("crates/elements").join(family),
                    None => folder.join("crates/cli"),
                };
                format!("path = {}", quoted(&path.to_string_lossy()))
            }
            Origin::Git { url, tag } => {
                let tag = tag.as_ref().map(|tag| format!(", tag = {}", quoted(tag)));
                format!("git = {}{}", quoted(url), tag.unwrap_or_default())
            }
        }
    }

    /// The versions of dependencies that it was tested with, if they are known.
    pub(super) fn lock_file(&self) -> Option<PathBuf> {
        match self {
            Origin::Folder(folder) => Some(folder.join("Cargo.lock")),
            Origin::Git { .. } => None,
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Folder(folder) => folder.display().fmt(f),
            Origin::Git { url, tag: None } => f.write_str(url),
            Origin::Git { url, tag: Some(tag) } => write!(f, "{url}, {tag}"),
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The folder as it is named from the root, and the version of the workspace in it.
fn workspace(folder: &Path) -> Result<(PathBuf, String), String> {
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let version = version(&manifest).filter(|_| folder.join("crates/cli/Cargo.toml").is_file());
    let version = version.ok_or("there is no source of Linerate, whose root has crates/cli")?;
    Ok((folder, version))
}

/// The version in the manifest of a workspace.
fn version(manifest: &str) -> Option<String> {
    let manifest: Table = toml::from_str(manifest).ok()?;
    let version = manifest.get("workspace")?.get("package")?.get("version")?;
    version.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_workspace_or_an_address() {
        let ours = Origin::find(None).unwrap();
        let Origin::Folder(folder) = &ours else { panic!("{ours}") };
        assert!(folder.join("crates/cli/src").is_dir() && ours.lock_file().unwrap().is_file());
        assert_eq!(Origin::find(folder.to_str()).unwrap(), ours);
        let other = Origin::find(Some("/")).unwrap_err().to_string();
        assert!(other.starts_with("--source /: there is no source of Linerate"), "{other}");
        assert!(Origin::find(Some("/nowhere")).unwrap_err().to_string().contains("No such file"));
        let git = Origin::find(Some("https://example.org/x")).unwrap();
        assert_eq!(git.dependency("linerate"), "git = \"https://example.org/x\"");
    }
}

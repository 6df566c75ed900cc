//! Licence check of every dependency against `deny.toml`.
//!
//! cargo-deny does this and more, and is used when it is installed. Building it takes longer than
//! everything else in the check together, so this module applies the same sections of the same
//! file itself: targets, licences (with exceptions), bans by name, and sources. It does not read licence
//! texts: it trusts the `license` field. Security advisories are for cargo-deny alone, which needs their database
//! from the network: where either is missing, the check says so and goes on.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use linerate_test_support::programs;
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};

use crate::shell;

const FILE: &str = "deny.toml";

/// The part of `deny.toml` that is checked here. cargo-deny reads the rest.
#[derive(Debug, Deserialize)]
struct Policy {
    graph: Graph,
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Graph {
    /// Targets of our programs: a package that only others need is in none of them.
    targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

/// The answer of `cargo metadata`: the packages in use.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

/// Checks the dependencies of the workspace whose manifest is given.
pub(crate) fn check(manifest: &Path) -> Result<()> {
    let shown = manifest.display();
    let manifest = manifest.to_str().context("the path of the repository is not UTF-8")?;
    if programs::find("cargo-deny").is_some() {
        let arguments = ["deny", "--manifest-path", manifest, "check", "licenses", "bans"];
        return shell::run(shell::cargo(&arguments).arg("sources"));
    }
    let text = fs::read_to_string(shell::root().join(FILE)).context("cannot read deny.toml")?;
    let policy: Policy = toml::from_str(&text).context("deny.toml is not valid")?;
    let mut command =
        shell::cargo(&["metadata", "--format-version=1", "--locked", "--all-features"]);
    command.args(["--manifest-path", manifest]);
    for target in &policy.graph.targets {
        command.arg("--filter-platform").arg(target);
    }
    let json = shell::output(&mut command)?;
    let metadata: Metadata = serde_json::from_str(&json).context("cannot read cargo's metadata")?;

    let complaints: Vec<_> =
        metadata.packages.iter().flat_map(|package| policy.complaints(package)).collect();
    if !complaints.is_empty() {
        bail!("dependencies of {shown} that {FILE} does not allow:\n  {}", complaints.join("\n  "));
    }
    println!(
        "{} packages of {shown} satisfy the licences, bans and sources of {FILE}",
        metadata.packages.len()
    );
    Ok(())
}

/// Checks the dependencies of these workspaces against RUSTSEC's advisories, if cargo-deny and its database are
/// here.
pub(crate) fn check_advisories(manifests: &[PathBuf]) -> Result<()> {
    if programs::find("cargo-deny").is_none() {
        eprintln!(
            "NOT CHECKED: advisories on dependencies, which need cargo-deny: `cargo install --locked cargo-deny`"
        );
        return Ok(());
    }
    if let Err(error) = shell::run(&mut shell::cargo(&["deny", "fetch", "db"])) {
        eprintln!(
            "NOT CHECKED: advisories on dependencies, whose database is not to be had: {error:#}"
        );
        return Ok(());
    }
    for manifest in manifests {
        let mut command = shell::cargo(&["deny", "--manifest-path"]);
        shell::run(command.arg(manifest).args(["check", "--disable-fetch", "advisories"]))?;
    }
    Ok(())
}

impl Policy {
    /// Returns the violations of a package, each as a sentence.
    fn complaints(&self, package: &Package) -> Vec<String> {
        let Package { name, version, .. } = package;
        let mut complaints = Vec::new();
        if let Some(ban) = self.bans.deny.iter().find(|ban| ban.name == *name) {
            complaints.push(format!("{name} {version} is banned: {}", ban.reason));
        }
        if let Some(source) = &package.source {
            let registry = source.strip_prefix("registry+");
            if !registry.is_some_and(|url| self.sources.allow_registry.iter().any(|a| a == url)) {
                complaints.push(format!("{name} {version} comes from {source}"));
            }
        }
        match &package.license {
            None => complaints.push(format!("{name} {version} names no licence")),
            Some(licence) => match self.allows(name, licence) {
                Ok(true) => {}
                Ok(false) => complaints.push(format!("{name} {version} is licensed {licence}")),
                Err(error) => complaints.push(format!("{name} {version}: {error:#}")),
            },
        }
        complaints
    }

    /// Whether a package's licence expression can be satisfied with allowed licences only.
    fn allows(&self, name: &str, licence: &str) -> Result<bool> {
        // LAX reads the old `MIT/Apache-2.0` as a choice, as cargo defined it.
        let expression = Expression::parse_mode(licence, ParseMode::LAX)
            .map_err(|error| anyhow::anyhow!("licence `{licence}`: {}", error.reason))?;
        let exceptions = self.licenses.exceptions.iter().filter(|entry| entry.name == name);
        let allowed: Vec<_> = exceptions
            .flat_map(|entry| &entry.allow)
            .chain(&self.licenses.allow)
            .map(|text| requirement(text))
            .collect::<Result<_>>()?;
        Ok(expression.evaluate(|wanted| allowed.contains(wanted)))
    }
}

/// A single licence of an allow list.
fn requirement(text: &str) -> Result<LicenseReq> {
    let expression = Expression::parse(text)
        .map_err(|error| anyhow::anyhow!("{FILE} allows `{text}`: {}", error.reason))?;
    let mut requirements = expression.requirements();
    match (requirements.next(), requirements.next()) {
        (Some(only), None) => Ok(only.req.clone()),
        _ => bail!("{FILE} allows `{text}`, which is not a single licence"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Policy {
        toml::from_str(
            r#"
            [graph]
            targets = ["x86_64-unknown-linux-gnu"]
            [licenses]
            allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
            exceptions = [{ crate = "special", allow = ["NCSA"] }]
            [bans]
            deny = [{ crate = "tokio", reason = "workers poll" }]
            [sources]
            allow-registry = ["https://github.com/rust-lang/crates.io-index"]
            "#,
        )
        .expect("the policy is valid")
    }

    fn package(name: &str, license: Option<&str>) -> Package {
        Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.map(Into::into),
            source: Some("registry+https://github.com/rust-lang/crates.io-index".into()),
        }
    }

    #[test]
    fn licences_are_judged_as_expressions() {
        let cases = [
            ("a", "MIT", true),
            ("a", "MIT OR GPL-3.0-only", true),
            ("a", "MIT/Apache-2.0", true),
            ("a", "Apache-2.0 WITH LLVM-exception", true),
            ("a", "MIT AND GPL-3.0-only", false),
            ("a", "GPL-3.0-only", false),
            ("a", "MIT AND NCSA", false),
            ("special", "MIT AND NCSA", true),
            ("a", "my own words", false),
        ];
        for (name, licence, good) in cases {
            let complaints = policy().complaints(&package(name, Some(licence)));
            assert_eq!(complaints.is_empty(), good, "{name} {licence}: {complaints:?}");
        }
        assert!(!policy().complaints(&package("a", None)).is_empty());
    }

    #[test]
    fn bans_and_sources() {
        assert!(policy().complaints(&package("tokio", Some("MIT")))[0].contains("workers poll"));
        let mut package = package("a", Some("MIT"));
        package.source = Some("git+https://example.org/a".into());
        assert!(policy().complaints(&package)[0].contains("example.org"));
        package.source = Some("registry+https://example.org/index".into());
        assert!(!policy().complaints(&package).is_empty());
        package.source = None;
        assert!(policy().complaints(&package).is_empty());
    }

    #[test]
    fn the_policy_of_the_repository_can_be_read() {
        let text = fs::read_to_string(shell::root().join(FILE)).expect("deny.toml is there");
        let policy: Policy = toml::from_str(&text).expect("deny.toml is valid");
        for text in &policy.licenses.allow {
            requirement(text).expect("each allowed entry is one licence");
        }
    }
}

//! Test programs of the workspace, as cargo names them when it has built them.
//!
//! Cargo runs test programs one after the other, whatever they wait for. It is asked for the programs
//! alone (`cargo test --no-run --message-format=json`), and they are started as it would start them:
//! in the folder of their package, with the folders of its libraries, which this program has from
//! `cargo run`. Other variables that cargo sets describe a package to its build; tests have them by `env!`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::shell;

/// Beginnings of the sources of programs that take longest. They are started first, so that none of
/// them is left to run alone at the end.
const LONGEST: [&str; 6] = [
    "crates/tester/lab/src/",
    "crates/elements/library/",
    "crates/cli/",
    "crates/io/port/",
    "crates/ofswitch/switch/",
    "crates/graph/worker/",
];

/// Test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Its main source file, from the root of the repository, by which it is called.
    pub(super) source: String,
    /// Options of `cargo test` that choose it.
    pub(super) options: String,
    executable: PathBuf,
    /// Folder of its package.
    folder: PathBuf,
}

impl Program {
    /// The command that runs its tests.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        shell::without_package(&mut command);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// The program of xtask's own tests, which runs this.
    #[cfg(test)]
    pub(super) fn this() -> Self {
        Self {
            source: "xtask/src/main.rs".into(),
            options: "-p xtask --bin xtask".into(),
            executable: std::env::current_exe().expect("a program"),
            folder: shell::root().join("xtask"),
        }
    }
}

/// Message of cargo, one in a line.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact(Artifact),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Artifact {
    package_id: String,
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all test programs, and returns them in the order they are to be started in.
pub(super) fn build() -> Result<Vec<Program>> {
    // Errors of the compiler go to the terminal, as text.
    let format = "--message-format=json-render-diagnostics";
    let mut command = shell::cargo(&["test", "--workspace", "--no-run", "--quiet", format]);
    let shown = shell::describe(&command);
    eprintln!("\n$ {shown}");
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    let programs = read(&String::from_utf8_lossy(&output.stdout), &shell::root())?;
    if programs.is_empty() {
        bail!("`{shown}` named no test program");
    }
    Ok(programs)
}

/// The test programs that cargo's messages name; `root` is the folder of the workspace.
fn read(messages: &str, root: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    // A line that is none of cargo's was printed by what it runs.
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message =
            serde_json::from_str(line).with_context(|| format!("not as known: {line}"))?;
        let Message::CompilerArtifact(artifact) = message else { continue };
        let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else {
            continue;
        };
        let source = &artifact.target.src_path;
        let folder = artifact.manifest_path.parent().context("a manifest without a folder")?;
        programs.push(Program {
            source: source.strip_prefix(root).unwrap_or(source).display().to_string(),
            options: options(&artifact.package_id, &artifact.target),
            executable,
            folder: folder.to_owned(),
        });
    }
    programs.sort_by_key(|program| {
        let rank = LONGEST.iter().position(|beginning| program.source.starts_with(beginning));
        rank.unwrap_or(LONGEST.len())
    });
    Ok(programs)
}

/// Options of `cargo test` for one target of a package.
fn options(package_id: &str, target: &Target) -> String {
    let package = package_name(package_id);
    let name = &target.name;
    match target.kind.first().map(String::as_str) {
        Some(kind @ ("test" | "bin" | "example" | "bench")) => {
            format!("-p {package} --{kind} {name}")
        }
        _ => format!("-p {package} --lib"),
    }
}

/// Name in a package's identifier: `path+file:///FOLDER#NAME@VERSION`, or `path+file:///FOLDER#VERSION`
/// where the folder is called as the package is.
fn package_name(id: &str) -> &str {
    let Some((url, fragment)) = id.rsplit_once('#') else { return id };
    match fragment.split_once('@') {
        Some((name, _version)) => name,
        None => url.rsplit('/').next().unwrap_or(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as cargo 1.95 writes it.
    fn artifact(id: &str, folder: &str, kind: &str, source: &str, test: bool) -> String {
        let name = source.rsplit('/').next().unwrap().trim_end_matches(".rs");
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/w/{folder}/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"{name}","src_path":"/w/{folder}/{source}","edition":"2024","doc":false,"doctest":false,"test":true}},"profile":{{"opt_level":"1","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":{test}}},"features":[],"filenames":["/w/target/debug/deps/{name}-0a"],"executable":"/w/target/debug/deps/{name}-0a","fresh":true}}"#
        )
    }

    #[test]
    fn programs_are_those_that_were_built_as_tests() {
        let messages = [
            r#"{"reason":"build-script-executed","package_id":"path+file:///w/crates/libpcap#linerate-pcap@0.1.0","linked_libs":[],"linked_paths":[],"cfgs":[],"env":[],"out_dir":"/w/target/debug/build/x/out"}"#.to_owned(),
            artifact("path+file:///w/xtask#0.0.0", "xtask", "bin", "src/main.rs", true),
            artifact("path+file:///w/crates/cli#linerate@0.1.0", "crates/cli", "bin", "src/main.rs", false),
            "a word of a build script".to_owned(),
            artifact("path+file:///w/crates/io/port#linerate-port@0.1.0", "crates/io/port", "test", "tests/extremes.rs", true),
            artifact("path+file:///w/crates/tester/lab#linerate-lab@0.1.0", "crates/tester/lab", "lib", "src/lib.rs", true),
            r#"{"reason":"compiler-artifact","package_id":"registry+https://github.com/rust-lang/crates.io-index#libc@0.2.191","manifest_path":"/r/libc/Cargo.toml","target":{"kind":["lib"],"crate_types":["lib"],"name":"libc","src_path":"/r/libc/src/lib.rs","edition":"2021","doc":true,"doctest":true,"test":true},"profile":{"opt_level":"1","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":false},"features":[],"filenames":["/w/target/debug/deps/liblibc.rlib"],"executable":null,"fresh":true}"#.to_owned(),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let programs = read(&messages.join("\n"), Path::new("/w")).expect("messages");
        let seen: Vec<_> =
            programs.iter().map(|program| (&*program.source, &*program.options)).collect();
        assert_eq!(
            seen,
            [
                ("crates/tester/lab/src/lib.rs", "-p linerate-lab --lib"),
                ("crates/io/port/tests/extremes.rs", "-p linerate-port --test extremes"),
                ("xtask/src/main.rs", "-p xtask --bin main"),
            ]
        );
        assert_eq!(programs[1].command().get_current_dir(), Some(Path::new("/w/crates/io/port")));
    }

    #[test]
    fn a_message_that_lacks_something_is_an_error() {
        assert!(read(r#"{"reason":"compiler-artifact"}"#, Path::new("/w")).is_err());
    }

    /// A rule for a folder that is elsewhere now would order nothing.
    #[test]
    fn the_longest_are_there() {
        for folder in LONGEST {
            assert!(shell::root().join(folder).is_dir(), "{folder}");
        }
    }
}

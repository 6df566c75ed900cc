//! `cargo xtask dist`: installable packages, made from this checkout.
//!
//! A Debian package, a tarball of static programs that needs no distribution at all, and a
//! container image of the same with nothing else in it. All three hold the same files, collected
//! once in a [`Tree`]; Debian's own part is in `packaging/`. And a wheel of the client library for
//! Python.

mod archive;
mod check;
mod deb;
mod image;
mod tree;
mod wheel;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use toml::Table;

use crate::shell::{self, target};
use tree::Tree;

/// The programs there are.
const PROGRAMS: [&str; 3] = ["linerate", "click", "click-flatten"];

/// Units of systemd, in `packaging`.
const UNITS: [&str; 4] = [
    "linerate@.service",
    "linerate-cluster@.service",
    "linerate-consumer@.service",
    "linerate-switch@.service",
];

/// Arguments of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask dist                  package, tarball, image and wheel, in target/dist
  cargo xtask dist --only tarball   one of them
  cargo xtask dist --check          make all, then install and use each, and what `cargo install`
                                    makes (as root)
  cargo xtask dist --check --only wheel

The package is made by Debian's own tools (dpkg-dev) and depends on the C library of this machine or
a later one. Tarball and image need no library: they are for the musl target, which rustup installs.
They are slower where packets are copied, because of its memcpy.

  apt install ./target/dist/linerate_VERSION_amd64.deb
  podman load -i target/dist/linerate-VERSION-image.tar
  pip install target/dist/linerate-VERSION-cp311-abi3-linux_x86_64.whl

The wheel needs the C library of this machine or a later one, as the package does.")]
pub(crate) struct Args {
    /// Only this one, or these.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    only: Vec<PackageFormat>,
    /// Where they go [default: dist in the target folder].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Install each, where nothing of this machine changes, and run the README's first command.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PackageFormat {
    /// A package for Debian, Ubuntu and their like.
    Deb,
    /// Static programs, manual pages, completions, examples, and the guide with the reference.
    Tarball,
    /// A container image (OCI), from scratch.
    Image,
    /// The client library for Python.
    Wheel,
}

/// The release that is made.
struct Release {
    version: String,
    /// When, in seconds since 1970: that of the last commit, so that the same sources make the
    /// same files, or `SOURCE_DATE_EPOCH`.
    time: u64,
    out: PathBuf,
}

impl Release {
    /// Of a file: its name in the folder for all.
    fn path(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |kind| args.only.is_empty() || args.only.contains(&kind);
    if args.check && !shell::is_root() {
        bail!("--check installs in a root of its own: run it as root");
    }
    let out = args.out.clone().unwrap_or_else(|| target().join("dist"));
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let release = Release { version: version()?, time: time()?, out: fs::canonicalize(out)? };
    let mut made = Vec::new();
    if wanted(PackageFormat::Deb) {
        let built = build(None)?;
        made.push((PackageFormat::Deb, deb::make(&release, &Tree::new(&built)?, &built)?));
    }
    if wanted(PackageFormat::Tarball) || wanted(PackageFormat::Image) {
        let tree = Tree::new(&build(Some(&static_target()?))?)?;
        if wanted(PackageFormat::Tarball) {
            made.push((PackageFormat::Tarball, archive::make(&release, &tree)?));
        }
        if wanted(PackageFormat::Image) {
            made.push((PackageFormat::Image, image::make(&release, &tree)?));
        }
    }
    if wanted(PackageFormat::Wheel) {
        made.push((PackageFormat::Wheel, wheel::make(&release)?));
    }
    if args.check {
        for (kind, path) in &made {
            match kind {
                PackageFormat::Deb => check::deb(path)?,
                PackageFormat::Tarball => check::tarball(path)?,
                PackageFormat::Image => check::image(path)?,
                // With programs that are made already, where there is a package.
                PackageFormat::Wheel => check::wheel(path, &build(None)?)?,
            }
        }
        if args.only.is_empty() {
            check::cargo_install()?;
        }
    }
    for (_, path) in &made {
        let size = fs::metadata(path)?.len();
        println!("{} ({:.1} MB)", path.display(), size as f64 / 1e6);
    }
    Ok(())
}

/// Builds the programs, for another target or this machine; the folder they are in.
fn build(triple: Option<&str>) -> Result<PathBuf> {
    let mut command = shell::cargo(&["build", "--release", "--locked", "--package", "linerate"]);
    match triple {
        Some(triple) => command.args(["--target", triple]),
        // Only with the C library of the machine there are shared ones.
        None => command.args(["--package", "linerate-client-c", "--package", "linerate-pcap"]),
    };
    shell::run(&mut command)?;
    Ok(triple.map_or(target(), |triple| target().join(triple)).join("release"))
}

/// The target of static programs, installed if it can be.
fn static_target() -> Result<String> {
    let triple = shell::host_triple()?.replace("-gnu", "-musl");
    let installed = shell::output(Command::new("rustup").args(["target", "list", "--installed"]));
    if !installed.is_ok_and(|list| list.lines().any(|line| line == triple)) {
        shell::run(Command::new("rustup").args(["target", "add", &triple]))
            .with_context(|| format!("static programs need the standard library for {triple}"))?;
    }
    Ok(triple)
}

/// The version of the workspace.
fn version() -> Result<String> {
    let manifest: Table = toml::from_str(&fs::read_to_string(shell::root().join("Cargo.toml"))?)?;
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = package.and_then(|package| package.get("version"));
    version.and_then(|text| text.as_str()).map(str::to_owned).context("no version in Cargo.toml")
}

fn time() -> Result<u64> {
    if let Ok(given) = env::var("SOURCE_DATE_EPOCH") {
        return given.parse().context("SOURCE_DATE_EPOCH is not a number of seconds");
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(shell::root());
    // A source archive has no history.
    Ok(shell::output(&mut git).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0))
}

/// A file of the repository.
fn source(name: &str) -> PathBuf {
    shell::root().join(name)
}

/// Debian's and container engines' name of the architecture that programs are for.
fn architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packaging(name: &str) -> String {
        String::from_utf8(read(&source("packaging").join(name)).unwrap()).unwrap()
    }

    /// Members of the group, services and users of `linerate doctor` may do the same.
    #[test]
    fn capabilities_are_the_same_everywhere() {
        let script = packaging("postinst");
        let words = script.split_whitespace().find_map(|word| word.strip_suffix("+ep"));
        let granted: Vec<String> = words.unwrap().split(',').map(str::to_uppercase).collect();
        for unit in UNITS.iter().filter(|unit| !unit.starts_with("linerate-consumer")) {
            let text = packaging(unit);
            for key in ["AmbientCapabilities=", "CapabilityBoundingSet="] {
                let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
                assert_eq!(line.split(' ').collect::<Vec<_>>(), granted, "{unit}: {key}");
            }
        }
        let advice = packaging("../crates/base/linux/src/machine/privilege.rs");
        assert!(advice.contains(&format!("setcap {}+ep", granted.join(",").to_lowercase())));
    }

    #[test]
    fn what_is_made_twice_is_the_same() {
        let file = |path: &str| tree::File { path: path.into(), bytes: path.into() };
        let tree = Tree {
            programs: PROGRAMS.map(file).into(),
            manual: vec![file("linerate.1")],
            completions: vec![],
            examples: vec![file("first.click")],
            documents: vec![file("README.md"), file("guide/README.md")],
        };
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [one, other] = folders.each_ref().map(|folder| {
            let out = folder.path().to_owned();
            let release = Release { version: "1.2.3".into(), time: 1_000_000_000, out };
            let made = [archive::make(&release, &tree), image::make(&release, &tree)];
            made.map(|path| read(&path.unwrap()).unwrap())
        });
        assert!(one == other);
    }
}

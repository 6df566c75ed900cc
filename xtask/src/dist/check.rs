//! Check of a release: installs and uses it, where nothing of this machine changes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use linerate_test_support::programs;
use serde_json::Value;

use crate::shell;

/// Installs the package on this machine's system, on top of which it writes to memory only: in a
/// mount namespace of its own, with an overlay for its root.
pub(super) fn deb(package: &Path) -> Result<()> {
    let name = package.file_name().context("a package has a name")?.to_string_lossy();
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let script = super::source("xtask/src/dist/check-deb.sh");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--propagation", "private", "sh"]).arg(script);
    shell::run(command.arg(scratch.path()).arg(package).arg(&*name).current_dir("/"))
}

/// Unpacks the tarball, and runs it where there is nothing else.
pub(super) fn tarball(archive: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let mut unpack = Command::new("tar");
    shell::run(unpack.arg("-xzf").arg(archive).arg("-C").arg(scratch.path()))?;
    let top = fs::read_dir(scratch.path())?.next().context("an empty archive")??.path();
    let page = top.join("guide/elements/Queue.md");
    if !page.exists() {
        bail!("the tarball has no {}", page.display());
    }
    first(&top, "/", "/bin/linerate")
}

/// Unpacks the image as a container engine does, and runs its command.
pub(super) fn image(archive: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let (layout, root) = (scratch.path().join("layout"), scratch.path().join("root"));
    fs::create_dir(&layout)?;
    fs::create_dir(&root)?;
    shell::run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&layout))?;
    let index = json(&layout.join("index.json"))?;
    let manifest = json(&blob(&layout, &index["manifests"][0])?)?;
    let config = json(&blob(&layout, &manifest["config"])?)?;
    for layer in manifest["layers"].as_array().context("no layers")? {
        let layer = blob(&layout, layer)?;
        shell::run(Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(&root))?;
    }
    let text = |value: &Value| value.as_str().map(str::to_owned).context("no text");
    let start = text(&config["config"]["Entrypoint"][0])?;
    first(&root, &text(&config["config"]["WorkingDir"])?, &start)
}

/// A program in Python for an environment that has the wheel and nothing else: it gets packets of a
/// server.
const PROGRAM: &str = "\
import linerate, sys, time
for attempt in range(500):
    try:
        consumer = linerate.Consumer(sys.argv[1], 'check')
        break
    except linerate.Error:
        time.sleep(0.02)
with consumer:
    batch = next(iter(consumer))
    assert len(batch) > 0 and len(batch[0]) == 60, batch
print('a program in Python gets packets')
";

/// Installs the wheel where there is nothing else, and has a server share packets with a program.
pub(super) fn wheel(wheel: &Path, built: &Path) -> Result<()> {
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let python = programs::find("python3").context("no python3")?;
    let environment = scratch.path().join("environment");
    shell::run(Command::new(python).args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    shell::run(super::wheel::pip(&python).args(["install", "--no-index"]).arg(wheel))?;
    let socket = scratch.path().join("socket");
    let mut serve = Command::new(built.join("linerate"));
    serve.args(["cluster", "serve", "--quiet", "--duration", "60s", "--no-huge", "-e"]);
    serve.arg("RatedSource(LENGTH 60, RATE 1000, LIMIT -1) -> ToConsumer(check)");
    let mut server = serve.arg("--socket").arg(&socket).spawn().context("no server")?;
    let used = shell::run(Command::new(python).args(["-c", PROGRAM]).arg(&socket));
    server.kill()?;
    server.wait()?;
    used
}

/// Installs with a toolchain, by `cargo install`.
pub(super) fn cargo_install() -> Result<()> {
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let mut install = shell::cargo(&["install", "--locked", "--path", "crates/cli", "--root"]);
    shell::run(install.arg(scratch.path()))?;
    let mut run = Command::new(scratch.path().join("bin/linerate"));
    run.args(["run", "examples/first.click", "--duration", "1s"]).current_dir(shell::root());
    shell::run(&mut run)
}

/// The file a descriptor names, with the contents it says.
fn blob(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().context("no digest")?;
    let digest = digest.strip_prefix("sha256:").context("another digest")?;
    let path = layout.join("blobs/sha256").join(digest);
    let sum = shell::output(Command::new("sha256sum").arg(&path))?;
    let size = fs::metadata(&path)?.len();
    if !sum.starts_with(digest) || Some(size) != descriptor["size"].as_u64() {
        bail!("{} is not what it is called", path.display());
    }
    Ok(path)
}

fn json(path: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&super::read(path)?)?)
}

/// Runs the README's first command as the user nobody, in a root with nothing but the unpacked
/// files. `folder` has its examples.
fn first(root: &Path, folder: &str, program: &str) -> Result<()> {
    let example = format!("{}/examples/first.click", folder.trim_end_matches('/'));
    let chroot = programs::find("chroot").context("no chroot")?;
    let mut command = Command::new(chroot);
    command.arg("--userspec=65534:65534").arg(root);
    command.args([program, "run", &example, "--duration", "1s"]);
    shell::run(command.env_clear().stdin(Stdio::null()))
}

//! Debian package, made by Debian's tools.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use linerate_test_support::programs;

use super::{
    PROGRAMS, Release, UNITS, architecture,
    archive::gzipped,
    read, source,
    tree::{Tree, files},
};
use crate::shell;

/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Folder of our libpcap.
const PCAP: &str = "usr/lib/linerate/pcap";

/// Folder of libraries, below the root.
fn library_folder() -> String {
    format!("usr/lib/{}-linux-gnu", env::consts::ARCH)
}

/// Makes the package, with the libraries in a folder.
pub(super) fn make(release: &Release, tree: &Tree, built: &Path) -> Result<PathBuf> {
    if programs::find("dpkg-shlibdeps").is_none() || programs::find("dpkg-deb").is_none() {
        bail!("a Debian package is made by Debian's tools: apt-get install dpkg-dev");
    }
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let root = scratch.path().join("root");
    stage(&root, tree)?;
    stage_client(&root, built)?;
    stage_pcap(&root, built)?;
    let control = root.join("DEBIAN");
    let depends = libraries(scratch.path(), &root)?;
    write(&control.join("control"), 0o644, text(release, &root, &depends)?.as_bytes())?;
    for script in SCRIPTS {
        write(&control.join(script), 0o755, &read(&source("packaging").join(script))?)?;
    }
    write(&control.join("triggers"), 0o644, b"activate-noawait ldconfig\n")?;
    let path = release.path(&format!("linerate_{}_{}.deb", release.version, architecture()));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", release.time.to_string());
    shell::run(build.args(["--root-owner-group", "--build"]).args([&root, &path]))?;
    Ok(path)
}

/// Puts the files where the package has them.
fn stage(root: &Path, tree: &Tree) -> Result<()> {
    let own = root.join("usr/lib/linerate");
    for program in &tree.programs {
        write(&own.join(&program.path), 0o755, &program.bytes)?;
    }
    write(&own.join("run"), 0o755, &read(&source("packaging/run"))?)?;
    fs::create_dir_all(root.join("usr/bin"))?;
    for program in PROGRAMS {
        symlink("../lib/linerate/run", root.join("usr/bin").join(program))?;
    }
    fs::create_dir_all(root.join("etc/linerate"))?;
    for unit in UNITS {
        let text = read(&source("packaging").join(unit))?;
        write(&root.join("usr/lib/systemd/system").join(unit), 0o644, &text)?;
    }
    let share = root.join("usr/share");
    for page in &tree.manual {
        let path = share.join("man/man1").join(format!("{}.gz", page.path));
        write(&path, 0o644, &gzipped(&page.bytes)?)?;
    }
    for completion in &tree.completions {
        write(&share.join(&completion.path), 0o644, &completion.bytes)?;
    }
    let documents = share.join("doc/linerate");
    for example in &tree.examples {
        write(&documents.join("examples").join(&example.path), 0o644, &example.bytes)?;
    }
    // Debian's names for these.
    let mut copyright = Vec::new();
    for document in &tree.documents {
        match &*document.path {
            "CHANGELOG.md" => {
                write(&documents.join("changelog.gz"), 0o644, &gzipped(&document.bytes)?)?;
            }
            licence if licence.starts_with("LICENSE") => {
                copyright.extend_from_slice(&document.bytes);
                copyright.extend_from_slice(b"\n");
            }
            other => write(&documents.join(other), 0o644, &document.bytes)?,
        }
    }
    write(&documents.join("copyright"), 0o644, &copyright)
}

/// Adds the files for programs of others: the C library of consumers, and examples.
fn stage_client(root: &Path, built: &Path) -> Result<()> {
    let client = source("crates/cluster/client-c");
    let folder = library_folder();
    let mut install = Command::new("sh");
    install.arg(client.join("install.sh")).arg(built).arg("/usr").arg(format!("/{folder}"));
    shell::run(install.env("DESTDIR", root))?;
    for (library, what) in
        [("liblinerate_client.so.0", "--strip-unneeded"), ("liblinerate_client.a", "--strip-debug")]
    {
        shell::run(Command::new("strip").arg(what).arg(root.join(&folder).join(library)))?;
    }
    let pages = root.join("usr/share/man/man3");
    for page in files(&pages)? {
        fs::remove_file(pages.join(&page.path))?;
        write(&pages.join(format!("{}.gz", page.path)), 0o644, &gzipped(&page.bytes)?)?;
    }
    let examples = root.join("usr/share/doc/linerate/examples/client");
    for from in [client.join("examples"), source("crates/cluster/client-python/examples")] {
        for example in files(&from)? {
            write(&examples.join(&example.path), 0o644, &example.bytes)?;
        }
    }
    Ok(())
}

/// Adds the libpcap of `linerate pcap`, in a folder that the loader does not look into.
fn stage_pcap(root: &Path, built: &Path) -> Result<()> {
    let folder = root.join(PCAP);
    write(&folder.join("libpcap.so.0.8"), 0o644, &read(&built.join("liblinerate_pcap.so"))?)?;
    shell::run(Command::new("strip").arg("--strip-unneeded").arg(folder.join("libpcap.so.0.8")))?;
    for name in ["libpcap.so.1", "libpcap.so"] {
        symlink("libpcap.so.0.8", folder.join(name))?;
    }
    Ok(())
}

fn write(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let fail = || format!("cannot write {}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).with_context(fail)?;
    fs::write(path, bytes).with_context(fail)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(fail)
}

/// The packages with the libraries that the programs are linked with.
fn libraries(scratch: &Path, root: &Path) -> Result<String> {
    // It wants to be called in a source package.
    write(
        &scratch.join("debian/control"),
        0o644,
        b"Source: linerate\n\nPackage: linerate\nArchitecture: any\n",
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.current_dir(scratch).arg("-O");
    command.args(PROGRAMS.map(|program| root.join("usr/lib/linerate").join(program)));
    command.arg(root.join(library_folder()).join("liblinerate_client.so.0"));
    command.arg(root.join(PCAP).join("libpcap.so.0.8"));
    let found = shell::output(&mut command)?;
    let found = found.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    found.map(str::to_owned).context("dpkg-shlibdeps named no libraries")
}

/// The control file.
fn text(release: &Release, root: &Path, libraries: &str) -> Result<String> {
    let size = shell::output(Command::new("du").args(["-sk", "--exclude=DEBIAN"]).arg(root))?;
    let size = size.split_whitespace().next().unwrap_or("0");
    Ok(format!(
        "Package: linerate
Version: {}
Architecture: {}
Maintainer: The Linerate developers <linerate@users.noreply.github.com>
Installed-Size: {size}
Depends: {libraries}, libcap2-bin, passwd
Conflicts: click
Section: net
Priority: optional
Homepage: https://github.com/linerate/linerate
Description: packet processing in user space at the speed of the link
 Moves network packets in user space, runs them through a graph of elements
 written in the language of Click, and tells what every packet costs. It needs
 no kernel module and no special driver. Programs of others get packets by a
 library, whose header and static version are here, too.
 .
 Members of the group linerate may use network interfaces without being root.
",
        release.version,
        architecture()
    ))
}

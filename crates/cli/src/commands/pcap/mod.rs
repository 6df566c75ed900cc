//! `linerate pcap`: runs a program with our library in the place of libpcap.
//!
//! It becomes the program, so exit codes, signals and terminals are between that and who started it.

use std::{
    env,
    ffi::OsString,
    fs, io,
    os::unix::{fs::MetadataExt, fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use linerate_pcap::{names, system};

use crate::{
    args::Pcap,
    exit::UsageError,
    output::{self, Output},
};

/// The name of the library as cargo builds it.
const BUILT: &str = "liblinerate_pcap.so";
/// The names by which programs ask for libpcap, and its file has in our folder.
const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];
/// Where the loader looks first.
const PATH: &str = "LD_LIBRARY_PATH";

pub(crate) fn run(args: &Pcap) -> Result<()> {
    let folder = match &args.library {
        Some(library) => folder_of(library)?,
        None => folder()?,
    };
    let variables = variables(args, &folder)?;
    if args.print {
        let lines = variables.iter().map(|(name, value)| match value {
            // In quotes, as a shell reads them.
            Some(value) => {
                let value = value.to_string_lossy().replace('\'', "'\\''");
                format!("export {name}='{value}'\n")
            }
            None => format!("unset {name}\n"),
        });
        return Ok(output::data(&lines.collect::<String>())?);
    }
    let [program, rest @ ..] = &args.program[..] else {
        return Err(UsageError("no program is named".into()).into());
    };
    if let Some(path) = find(program)
        && let Some(why) = why_ignored(&path)
        && !args.quiet
    {
        let text = format!(
            "{} {why}: it will be run without our library, if it gets more rights by that",
            path.display(),
        );
        Output::new(false).line(&text);
    }
    if !args.quiet {
        Output::new(false).line(effect(args));
    }
    let mut command = Command::new(program);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let error = command.args(rest).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// What the program is started with, and without: what somebody has set before is not meant for it.
fn variables(args: &Pcap, folder: &Path) -> Result<Vec<(&'static str, Option<OsString>)>> {
    let mut path = OsString::from(folder);
    if let Some(before) = env::var_os(PATH).filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    let map = Some(args.map.join(",")).filter(|map| !map.is_empty());
    let plain = match (args.take, args.disconnect) {
        (true, true) => Some("xdp:?disconnect=on"),
        (true, false) => Some("xdp:"),
        (false, _) => Some("packet:").filter(|_| !args.only_mapped),
    };
    let mut variables = vec![
        (PATH, Some(path)),
        (names::MAP, map.map(OsString::from)),
        (names::PLAIN, plain.map(OsString::from)),
        (names::SAY, (!args.quiet).then(|| "1".into())),
    ];
    if let Some(library) = &args.system {
        let file = fs::canonicalize(library)
            .with_context(|| format!("there is no {}", library.display()))?;
        variables.push((system::VARIABLE, Some(file.into())));
    }
    Ok(variables)
}

/// What becomes of the packets of interfaces that are named as they are.
fn effect(args: &Pcap) -> &'static str {
    match (args.take, args.only_mapped) {
        (true, _) => {
            "Ethernet interfaces are taken by AF_XDP: what they receive, the host does not see"
        }
        (false, false) => "Ethernet interfaces are copied from: the host has their packets as well",
        (false, true) => "interfaces that are not mapped are the system's libpcap's",
    }
}

/// The folder that belongs to this program: where both were built, or where both are installed.
fn folder() -> Result<PathBuf> {
    let program = env::current_exe().context("this program's own file")?;
    let here = program.parent().unwrap_or(Path::new("/"));
    // Installed beside it, or below the prefix that it is in.
    let installed = ["pcap", "../pcap", "../lib/linerate/pcap", "../../lib/linerate/pcap"];
    for place in installed {
        let folder = here.join(place);
        if folder.join(NAMES[0]).exists() {
            return Ok(folder);
        }
    }
    // What was built for this program is there; beside it is what somebody has built alone.
    for place in [here.join("deps").join(BUILT), here.join(BUILT)] {
        if place.exists() {
            return folder_of(&place);
        }
    }
    bail!(
        "there is no {BUILT} beside {} or where it is installed: build it with `cargo build --release \
         -p linerate-pcap`, or name it with --library",
        program.display(),
    )
}

/// A folder in which a library has the names of libpcap: its own, or one that is made beside it.
fn folder_of(library: &Path) -> Result<PathBuf> {
    let library =
        fs::canonicalize(library).with_context(|| format!("there is no {}", library.display()))?;
    let beside = library.parent().unwrap_or(Path::new("/"));
    let is_it = |name: &str| beside.join(name).canonicalize().is_ok_and(|file| file == library);
    if is_it(NAMES[0]) {
        return Ok(beside.into());
    }
    let folder = beside.join("pcap");
    let make = || -> io::Result<()> {
        fs::create_dir_all(&folder)?;
        for name in NAMES {
            let link = folder.join(name);
            if fs::read_link(&link).is_ok_and(|to| to == library) {
                continue;
            }
            // Another program may do the same: the last one's stays.
            let fresh = folder.join(format!(".{name}.{}", std::process::id()));
            symlink(&library, &fresh)?;
            fs::rename(&fresh, &link)?;
        }
        Ok(())
    };
    make().with_context(|| format!("cannot make links to the library in {}", folder.display()))?;
    Ok(folder)
}

/// The file of a program, as it will be found.
fn find(program: &OsString) -> Option<PathBuf> {
    let named = Path::new(program);
    if named.components().count() > 1 {
        return Some(named.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(named)).find(|file| file.is_file())
}

/// Why the loader and the library ignore what whoever starts the program says, if they do.
fn why_ignored(program: &Path) -> Option<&'static str> {
    const SET_ID: u32 = 0o6000;
    let file = fs::metadata(program).ok()?;
    if file.mode() & SET_ID != 0 && !rustix::process::geteuid().is_root() {
        return Some("is set-user-ID or set-group-ID");
    }
    let mut none = [0; 64];
    let capable = rustix::fs::getxattr(program, "security.capability", &mut none).is_ok();
    (capable && !rustix::process::geteuid().is_root()).then_some("has capabilities of its own")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever installs a library of another name gets the names that programs ask for.
    #[test]
    fn a_library_gets_the_names_that_programs_ask_for() {
        let scratch = tempfile::tempdir().unwrap();
        let library = scratch.path().join("any.so");
        fs::write(&library, "").unwrap();
        for _ in 0..2 {
            let folder = folder_of(&library).unwrap();
            for name in NAMES {
                assert_eq!(fs::canonicalize(folder.join(name)).unwrap(), library);
            }
            assert_eq!(fs::read_dir(&folder).unwrap().count(), NAMES.len());
            assert_eq!(folder_of(&folder.join(NAMES[0])).unwrap(), folder);
        }
        assert!(folder_of(Path::new("/nonesuch.so")).is_err());
    }
}

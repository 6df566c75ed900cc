//! `linerate pcap`: runs a program with our library in the place of libpcap.
//!
//! It becomes the program, so exit codes, signals and terminals are between that and its parent. Another
//! process looks meanwhile whether the program has loaded a libpcap of its own, which ours does not replace.

mod folder;
mod own;
mod watch;

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use linerate_pcap::{names, system};

use crate::{
    args::Pcap,
    exit::UsageError,
    output::{self, Output},
};

/// Variable of the directories where the loader looks first.
const PATH: &str = "LD_LIBRARY_PATH";

pub(crate) fn run(args: &Pcap) -> Result<()> {
    if let (Some(process), Some(library)) = (args.watch, &args.library) {
        return watch::run(process, library, args.detached);
    }
    let folder = match &args.library {
        Some(library) => folder::for_library(library)?,
        None => folder::find()?,
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
        if let Some(text) = args.program.first().and_then(|program| warning(args, program)) {
            Output::new(false).line(&text);
        }
        return Ok(output::data(&lines.collect::<String>())?);
    }
    let [program, rest @ ..] = &args.program[..] else {
        return Err(UsageError("no program is named".into()).into());
    };
    if !args.quiet {
        let output = Output::new(false);
        match warning(args, program) {
            Some(text) => output.line(&text),
            // A program that cannot be watched is run all the same.
            None => watch::start(&folder).unwrap_or_default(),
        }
        output.line(effect(args));
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

/// The variables the program is started with, and without: inherited ones are not meant for it.
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
            .with_context(|| format!("cannot use the library {}", library.display()))?;
        variables.push((system::VARIABLE, Some(file.into())));
    }
    Ok(variables)
}

/// The effect on the packets of interfaces that are not mapped.
fn effect(args: &Pcap) -> &'static str {
    match (args.take, args.only_mapped) {
        (true, _) => {
            "Ethernet interfaces are taken by AF_XDP: what they receive, the host does not see"
        }
        (false, false) => "Ethernet interfaces are copied from: the host has their packets as well",
        (false, true) => "interfaces that are not mapped are the system's libpcap's",
    }
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

/// The warning for a program that would be found, unless none are wanted.
fn warning(args: &Pcap, program: &OsString) -> Option<String> {
    find(program).filter(|_| !args.quiet).and_then(|path| why_passed_by(&path))
}

/// The warning for a program that does not load our library, as far as its file shows that.
fn why_passed_by(program: &Path) -> Option<String> {
    let name = program.display();
    if let Some(why) = why_ignored(program) {
        return Some(format!(
            "{name} {why}: it will be run without our library, if it gets more rights by that"
        ));
    }
    own::is_inside(program).then(|| {
        format!(
            "{name} has a libpcap inside of it: what it captures and sends goes by that, and not by \
             ports; one that is linked with libpcap.so does"
        )
    })
}

/// The reason why the loader and the library ignore the variables of the environment, if they do.
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

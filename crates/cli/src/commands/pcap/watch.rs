//! Watch for a foreign libpcap that a program has loaded, which is reported: one that came with a
//! wheel, that is linked into a module, or that a program asks for by its path.
//!
//! The launcher becomes the program, so this is done by another process: not by a child of the
//! program, which may wait for all of its children, but by one whose parent has ended. It goes when
//! the program does.

use std::{
    collections::HashSet,
    env, fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Result;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{folder, own};
use crate::output::Output;

/// Time after the start in which libraries that are loaded are noticed.
const WATCHED: Duration = Duration::from_secs(30);
/// Time until the first look, and longest between later ones.
const FIRST: Duration = Duration::from_millis(20);
const RARE: Duration = Duration::from_secs(1);
/// Directories of the distribution's libraries: of these, none but libpcap has one inside.
const SYSTEM: [&str; 4] = ["/usr/lib/", "/lib/", "/usr/lib64/", "/lib64/"];

/// Starts a watch of this process, also of the program it becomes, which is to load our library
/// from a folder.
///
/// # Errors
///
/// When no process can be made.
pub(super) fn start(folder: &Path) -> io::Result<()> {
    let library = folder.join(folder::NAMES[0]).canonicalize()?;
    spawn(std::process::id(), &library, false)?.wait().map(drop)
}

fn spawn(process: u32, library: &Path, detached: bool) -> io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["pcap", "--watch", &process.to_string(), "--library"]).arg(library);
    if detached {
        command.arg("--detached");
    }
    // A reader of the program's output waits for its end alone.
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
}

/// Watches a process that is to have our library, or has another do it.
///
/// # Errors
///
/// When no process can be made.
pub(super) fn run(process: u32, library: &Path, detached: bool) -> Result<()> {
    if !detached {
        spawn(process, library, true)?;
        return Ok(());
    }
    let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) else { return Ok(()) };
    // It may have ended.
    let Ok(ends) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
    let mut watch = Watch::for_library(library);
    let (until, mut wait) = (Instant::now() + WATCHED, FIRST);
    while Instant::now() < until {
        let limit = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let mut polled = [PollFd::new(&ends, PollFlags::IN)];
        match poll(&mut polled, Some(&limit)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            _ => break,
        }
        for found in watch.look(process) {
            Output::new(false).line(&found);
        }
        // Its own libpcap is ours, and its children have our variables.
        if watch.covered.contains(&process) {
            break;
        }
        wait = (2 * wait).min(RARE);
    }
    Ok(())
}

/// The processes of a program and its descendants, and the libraries found in them.
#[derive(Debug)]
struct Watch {
    /// Our library.
    library: PathBuf,
    /// Processes with our library.
    covered: HashSet<u32>,
    /// Processes of which something was said.
    told: HashSet<u32>,
    /// Files that have been looked into, and have no libpcap inside.
    without: HashSet<PathBuf>,
}

impl Watch {
    fn for_library(library: &Path) -> Watch {
        Watch {
            library: library.into(),
            covered: HashSet::new(),
            told: HashSet::new(),
            without: HashSet::new(),
        }
    }

    /// The warnings for processes that load a libpcap of their own since the last call.
    fn look(&mut self, process: u32) -> Vec<String> {
        let mut found = Vec::new();
        for process in family(process) {
            if self.covered.contains(&process) || self.told.contains(&process) {
                continue;
            }
            let files = loaded(process);
            if files.contains(&self.library) {
                self.covered.insert(process);
            } else if let Some(file) = files.into_iter().find(|file| self.is_libpcap(file)) {
                self.told.insert(process);
                let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
                found.push(format!(
                    "warning: {} (process {process}) has loaded a libpcap of its own, {}: what it \
                     captures and sends goes by that, and not by ports; a program that is linked \
                     with libpcap.so, or asks for libpcap.so.0.8 by its name, has ours",
                    name.trim_end(),
                    file.display(),
                ));
            }
        }
        found
    }

    fn is_libpcap(&mut self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libpcap") && name.contains(".so") {
            return true;
        }
        let is_the_systems = SYSTEM.iter().any(|folder| file.starts_with(folder));
        if is_the_systems && !name.contains("pcap") || self.without.contains(file) {
            return false;
        }
        let inside = own::is_inside(file);
        if !inside {
            self.without.insert(file.into());
        }
        inside
    }
}

/// A process, and those that it has started, and so on.
fn family(process: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<_> = processes.filter_map(|child| Some((child, parent(child)?))).collect();
    let mut family = vec![process];
    let mut at = 0;
    while let Some(member) = family.get(at).copied() {
        at += 1;
        family.extend(parents.iter().filter(|(_, of)| *of == member).map(|(child, _)| *child));
    }
    family
}

/// The process that has started another.
fn parent(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, in which anything may be, and the state.
    let (_, rest) = status.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// The files whose code a process has in its memory.
fn loaded(process: u32) -> HashSet<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    code_files(&maps)
}

fn code_files(maps: &str) -> HashSet<PathBuf> {
    let files = maps.lines().filter_map(|line| {
        // Range, rights, offset, device and inode, and the path.
        let mut fields = line.splitn(6, ' ');
        let rights = fields.nth(1)?;
        let path = fields.nth(3)?.trim_start();
        (rights.contains('x') && path.starts_with('/')).then(|| PathBuf::from(path))
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_code_are_those_that_may_be_executed() {
        let maps = "\
55d0-55d1 r--p 00000000 fe:01 123                        /usr/bin/python3.11
55d1-55d9 r-xp 00001000 fe:01 123                        /usr/bin/python3.11
7f00-7f01 r-xp 00000000 fe:01 9                          /home/a b/site/libpcap-1c8e.so.1.10.4
7f01-7f02 r-xp 00000000 00:00 0                          [vdso]
7f02-7f03 rw-p 00000000 00:00 0
";
        let expected = ["/usr/bin/python3.11", "/home/a b/site/libpcap-1c8e.so.1.10.4"];
        assert_eq!(code_files(maps), expected.into_iter().map(PathBuf::from).collect());
    }

    #[test]
    fn libpcap_is_told_from_other_libraries() {
        let is = |path: &str| Watch::for_library(Path::new("/ours.so")).is_libpcap(Path::new(path));
        assert!(is("/usr/lib/x86_64-linux-gnu/libpcap.so.1.10.3"));
        assert!(is("/home/a/site/x.libs/libpcap-1c8e.so.1.10.4"));
        assert!(!is("/usr/lib/x86_64-linux-gnu/libc.so.6") && !is("/nonesuch/module.so"));
    }

    #[test]
    fn a_family_has_the_children_of_its_members() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(family(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

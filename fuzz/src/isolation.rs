//! Isolation of the process from the machine it runs on.
//!
//! Made-up inputs may send signals, write files and open network interfaces. A target that can do
//! so is moved to an empty network and an empty directory first, without standard input and output,
//! and the kernel refuses it signals and the kind of file a script writes.

use std::{
    cell::RefCell,
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process,
};

use linerate_linux::interface::set_up;
use rustix::{
    stdio::{dup2_stdin, dup2_stdout},
    thread::{UnshareFlags, unshare_unsafe},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

thread_local! {
    static DIRECTORY: RefCell<Option<Directory>> = const { RefCell::new(None) };
}

/// A directory that goes with the process.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // A fuzzer that ends with a finding leaves it behind too.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Isolates the process; for the start of a target, before there are threads.
///
/// # Panics
///
/// When the kernel does not allow it: nothing is fuzzed then.
pub fn isolate() {
    let own_network = |flags| {
        // SAFETY: descriptors stay shared.
        unsafe { unshare_unsafe(flags) }
    };
    own_network(UnshareFlags::NEWNET)
        .or_else(|_| own_network(UnshareFlags::NEWUSER | UnshareFlags::NEWNET))
        .expect("a network of its own, which the kernel may refuse to all but root");
    set_up("lo", true).expect("the loopback interface of an own network can be used");
    let nothing = File::options().read(true).write(true).open("/dev/null").expect("/dev/null");
    dup2_stdin(&nothing).and_then(|()| dup2_stdout(&nothing)).expect("standard streams");
    apply_filter(&filter()).expect("the kernel filters system calls");

    let directory = env::temp_dir().join(format!("linerate-fuzz-{}", process::id()));
    fs::create_dir_all(&directory).expect("a directory for temporary files");
    env::set_current_dir(&directory).expect("the directory is there");
    DIRECTORY.set(Some(Directory(directory)));
}

/// The directory an isolated process is in.
pub fn directory() -> PathBuf {
    DIRECTORY.with_borrow(|directory| {
        directory.as_ref().map_or_else(|| Path::new(".").into(), |found| found.0.clone())
    })
}

/// Refuses kill(2), and open(2) as scripts do it to write a file.
fn filter() -> BpfProgram {
    let flags = (libc::O_CREAT | libc::O_NONBLOCK) as u64;
    let op = SeccompCmpOp::MaskedEq(flags);
    let written = SeccompCondition::new(2, SeccompCmpArgLen::Dword, op, flags)
        .and_then(|condition| SeccompRule::new(vec![condition]));
    let rules = [
        (libc::SYS_kill, Vec::new()),
        (libc::SYS_openat, vec![written.expect("a rule of one condition")]),
    ];
    let arch = env::consts::ARCH.try_into().expect("a processor seccompiler knows");
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules.into(), SeccompAction::Allow, refused, arch)
        .and_then(TryInto::try_into)
        .expect("the filter is short")
}

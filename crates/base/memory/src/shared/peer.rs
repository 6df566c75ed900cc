//! Rights of the process at the other end of a UNIX socket over this process's memory.
//!
//! Memory is shared for writing only with a process that could write to this process's memory without it.
//! The kernel permits that, by `process_vm_writev` and `/proc/PID/mem`, when both processes have the same
//! users and groups, the peer has all capabilities of this process, in the same user namespace, and this
//! process can be dumped (ptrace(2), "Ptrace access mode checking"). Security modules such as Yama may
//! narrow that and are not asked: they forbid ptrace, but not other ways for a process of the same user.
//!
//! User id 0 alone gives no right: only its capabilities count. `CAP_SYS_PTRACE` does not replace other
//! capabilities. A credential that cannot be read counts as no right.

use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::DumpableBehavior,
};

/// Rights of the process at the other end of a socket over this process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRights {
    can_write: bool,
}

impl PeerRights {
    /// The rights of the process that connected.
    ///
    /// They follow from the credentials it has now and those the kernel recorded when it connected. A
    /// process that has ended has none, even if another process holds its socket. Before Linux 6.5 no
    /// process has any: the kernel reports a process number, which may be reused, and no pidfd.
    pub fn from_socket(socket: BorrowedFd<'_>) -> PeerRights {
        let dumpable = rustix::process::dumpable_behavior();
        let dumpable = matches!(dumpable, Ok(DumpableBehavior::Dumpable));
        let own = Process::of_number("self");
        let peer = process_at(socket).ok().and_then(|process| Process::of_descriptor(&process));
        let connected = rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| {
            peer.uid == rustix::process::geteuid() && peer.gid == rustix::process::getegid()
        });
        let can_write = matches!((own, peer), (Some(own), Some(peer)) if peer.may_write_to(&own));
        PeerRights { can_write: dumpable && connected && can_write }
    }

    /// Returns true if it could write to this process's memory without shared memory.
    pub fn can_write(self) -> bool {
        self.can_write
    }
}

/// Credentials of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    /// Real, effective and saved.
    users: [u32; 3],
    groups: [u32; 3],
    permitted: u64,
    /// Device and number of the namespace that the capabilities count in.
    namespace: (u64, u64),
}

impl Process {
    /// Reads the credentials of a process, by the name of its folder in `/proc`.
    fn of_number(number: &str) -> Option<Process> {
        let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
        // After the capabilities: a process that enters a new namespace gets all capabilities in it,
        // and cannot return.
        let namespace = fs::metadata(format!("/proc/{number}/ns/user")).ok()?;
        Process::parse(&status, (namespace.dev(), namespace.ino()))
    }

    /// Reads the credentials of a process; `None` if it ended before all was read.
    fn of_descriptor(process: &OwnedFd) -> Option<Process> {
        // The number as this /proc has it, which may be that of another PID namespace.
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd())).ok()?;
        let number: u32 = field(&info, "Pid:")?.trim().parse().ok()?;
        let read = Process::of_number(&number.to_string())?;
        is_running(process).then_some(read)
    }

    fn parse(status: &str, namespace: (u64, u64)) -> Option<Process> {
        let ids = |name| {
            let mut ids = field(status, name)?.split_whitespace().map(|id| id.parse().ok());
            Some([ids.next()??, ids.next()??, ids.next()??])
        };
        let permitted = u64::from_str_radix(field(status, "CapPrm:")?.trim(), 16).ok()?;
        Some(Process { users: ids("Uid:")?, groups: ids("Gid:")?, permitted, namespace })
    }

    /// Returns true if the kernel lets it write to the memory of another process that can be dumped.
    fn may_write_to(&self, other: &Process) -> bool {
        let same = |mine: [u32; 3], theirs: [u32; 3]| mine == theirs && theirs == [theirs[0]; 3];
        same(self.users, other.users)
            && same(self.groups, other.groups)
            && self.namespace == other.namespace
            && other.permitted & !self.permitted == 0
    }
}

/// The rest of the line with a prefix.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

/// The pidfd of the process that connected.
fn process_at(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut process: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the socket is open; the kernel writes at most `length` bytes to `process`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut process).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has opened it for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(process) })
}

/// Returns true if a process has not ended: its pidfd becomes readable at its end.
fn is_running(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    const STATUS: &str =
        "Name:\tx\nUid:\t1\t1\t1\t1\nGid:\t2\t2\t2\t2\nCapPrm:\t0000000000003000\n";

    fn process() -> Process {
        Process::parse(STATUS, (4, 5)).unwrap()
    }

    #[test]
    fn credentials_are_read_as_the_kernel_writes_them() {
        let read = Process { users: [1; 3], groups: [2; 3], permitted: 0x3000, namespace: (4, 5) };
        assert_eq!(process(), read);
        for missing in ["Uid:", "Gid:", "CapPrm:"] {
            assert_eq!(Process::parse(&STATUS.replace(missing, "No:"), (4, 5)), None, "{missing}");
        }
        assert_eq!(Process::parse(&STATUS.replace("\t1\t1\t1\t1", "\t1\t1"), (4, 5)), None);
    }

    #[test]
    fn rights_need_the_users_the_groups_the_capabilities_and_the_namespace() {
        let server = process();
        assert!(process().may_write_to(&server));
        assert!(Process { permitted: u64::MAX, ..process() }.may_write_to(&server));
        let less = [
            Process { permitted: 0x1000, ..process() },
            Process { permitted: 0, ..process() },
            // CAP_SYS_PTRACE alone.
            Process { permitted: 1 << 19, ..process() },
            Process { users: [1, 3, 1], ..process() },
            Process { users: [0; 3], permitted: u64::MAX, ..process() },
            Process { groups: [2, 2, 3], ..process() },
            Process { namespace: (4, 6), permitted: u64::MAX, ..process() },
        ];
        for peer in less {
            assert!(!peer.may_write_to(&server), "{peer:?}");
        }
        // User id 0 without capabilities has no more rights than another user.
        let root = Process { users: [0; 3], groups: [0; 3], ..process() };
        assert!(!Process { permitted: 0, ..root.clone() }.may_write_to(&root));
        // A server with another saved user can change to it: no peer has all its rights.
        let changed = Process { users: [1, 1, 0], ..process() };
        assert!(!changed.may_write_to(&changed));
    }

    #[test]
    fn a_process_has_rights_over_itself() {
        let (here, there) = UnixStream::pair().unwrap();
        assert!(PeerRights::from_socket(here.as_fd()).can_write());
        drop(there);
        assert!(PeerRights::from_socket(here.as_fd()).can_write(), "it still runs");
        let unconnected = UnixDatagram::unbound().unwrap();
        assert!(!PeerRights::from_socket(unconnected.as_fd()).can_write());
    }
}

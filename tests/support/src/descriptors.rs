//! Descriptors of every kind, to send where one of a certain kind is expected.

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::{EventfdFlags, epoll},
    fs::{MemfdFlags, SealFlags},
    io,
    net::{AddressFamily, SocketFlags, SocketType},
    pipe::PipeFlags,
    time::{TimerfdClockId, TimerfdFlags},
};

/// The largest file whose mapping the address space of a process can just not hold twice.
pub const HUGE: u64 = 1 << 47;
/// Bytes of a file of ordinary size.
const ORDINARY: u64 = 1 << 20;

/// A kind of descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorType {
    /// An eventfd in blocking mode, with room: a write succeeds, a read blocks.
    EventEmpty,
    /// An eventfd in blocking mode, full: a write blocks for ever.
    EventFull,
    /// A full eventfd in nonblocking mode, which another holder can make blocking at any time.
    EventFullNonblocking,
    /// An eventfd as a semaphore, full: a read takes one of 2^64 - 2.
    EventSemaphore,
    /// The read end of an empty pipe.
    PipeRead,
    /// The write end of a full pipe in blocking mode.
    PipeWrite,
    /// The write end of a pipe without a reader: a write raises SIGPIPE.
    PipeBroken,
    /// A directory.
    Directory,
    /// `/dev/null`.
    Null,
    /// An unconnected socket.
    Socket,
    /// An epoll instance.
    Epoll,
    /// A timer that never expires.
    Timer,
    /// A memfd of 0 bytes.
    MemoryEmpty,
    /// A memfd of 0 bytes, sealed against growing, shrinking and other seals.
    MemoryEmptySealed,
    /// A memfd of 128 TiB without a page.
    MemoryHuge,
    /// A memfd of 128 TiB without a page, sealed.
    MemoryHugeSealed,
    /// A memfd of 1 MiB.
    Memory,
    /// A memfd of 1 MiB, sealed against shrinking and growing.
    MemorySealed,
    /// A memfd of 1 MiB that is cut to 0 bytes by [`Descriptor::sent`].
    MemoryCut,
    /// A sealed memfd of 1 MiB, opened for reading alone.
    MemoryReadOnly,
}

/// Every kind.
pub const KINDS: &[DescriptorType] = &[
    DescriptorType::EventEmpty,
    DescriptorType::EventFull,
    DescriptorType::EventFullNonblocking,
    DescriptorType::EventSemaphore,
    DescriptorType::PipeRead,
    DescriptorType::PipeWrite,
    DescriptorType::PipeBroken,
    DescriptorType::Directory,
    DescriptorType::Null,
    DescriptorType::Socket,
    DescriptorType::Epoll,
    DescriptorType::Timer,
    DescriptorType::MemoryEmpty,
    DescriptorType::MemoryEmptySealed,
    DescriptorType::MemoryHuge,
    DescriptorType::MemoryHugeSealed,
    DescriptorType::Memory,
    DescriptorType::MemorySealed,
    DescriptorType::MemoryCut,
    DescriptorType::MemoryReadOnly,
];

/// A descriptor of some kind, and the descriptor that keeps its state.
#[derive(Debug)]
pub struct Descriptor {
    kind: DescriptorType,
    descriptor: OwnedFd,
    /// The other end of a pipe.
    _other: Option<OwnedFd>,
}

impl Descriptor {
    /// Makes a descriptor.
    ///
    /// # Errors
    ///
    /// When the kernel refuses, for example because this process has as many as it may.
    pub fn new(kind: DescriptorType) -> io::Result<Descriptor> {
        let mut other = None;
        let descriptor = match kind {
            DescriptorType::EventEmpty => event(EventfdFlags::empty(), false)?,
            DescriptorType::EventFull => event(EventfdFlags::empty(), true)?,
            DescriptorType::EventFullNonblocking => event(EventfdFlags::NONBLOCK, true)?,
            DescriptorType::EventSemaphore => event(EventfdFlags::SEMAPHORE, true)?,
            DescriptorType::PipeRead => {
                let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                other = Some(write);
                read
            }
            DescriptorType::PipeWrite => {
                let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(&write, true)?;
                while rustix::io::write(&write, &[0; 4096]).is_ok() {}
                rustix::io::ioctl_fionbio(&write, false)?;
                other = Some(read);
                write
            }
            DescriptorType::PipeBroken => rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?.1,
            DescriptorType::Directory => open("/")?,
            DescriptorType::Null => open("/dev/null")?,
            DescriptorType::Socket => {
                let flags = SocketFlags::CLOEXEC;
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?
            }
            DescriptorType::Epoll => epoll::create(epoll::CreateFlags::CLOEXEC)?,
            DescriptorType::Timer => {
                let flags = TimerfdFlags::CLOEXEC;
                rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?
            }
            DescriptorType::MemoryEmpty => memory(0, false)?,
            DescriptorType::MemoryEmptySealed => memory(0, true)?,
            DescriptorType::MemoryHuge => memory(HUGE, false)?,
            DescriptorType::MemoryHugeSealed => memory(HUGE, true)?,
            DescriptorType::Memory | DescriptorType::MemoryCut => memory(ORDINARY, false)?,
            DescriptorType::MemorySealed => memory(ORDINARY, true)?,
            DescriptorType::MemoryReadOnly => {
                use std::os::fd::AsRawFd;
                let memory = memory(ORDINARY, true)?;
                open(&format!("/proc/self/fd/{}", memory.as_raw_fd()))?
            }
        };
        Ok(Descriptor { kind, descriptor, _other: other })
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> DescriptorType {
        self.kind
    }

    /// Notes that it was sent: a memfd that is to be cut short is cut now, when it may be mapped.
    pub fn sent(&self) {
        if self.kind == DescriptorType::MemoryCut {
            // It may be sealed by its receiver, as it should be.
            let _ = rustix::fs::ftruncate(&self.descriptor, 0);
        }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A memfd without a page.
///
/// # Errors
///
/// When the kernel refuses.
pub fn memory(bytes: u64, sealed: bool) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("hostile", flags)?;
    rustix::fs::ftruncate(&memory, bytes)?;
    if sealed {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals)?;
    }
    Ok(memory)
}

fn event(flags: EventfdFlags, full: bool) -> io::Result<OwnedFd> {
    let event = rustix::event::eventfd(0, flags | EventfdFlags::CLOEXEC)?;
    if full {
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes())?;
    }
    Ok(event)
}

fn open(path: &str) -> io::Result<OwnedFd> {
    let failed = |error: std::io::Error| io::Errno::from_io_error(&error).unwrap_or(io::Errno::IO);
    File::open(path).map(OwnedFd::from).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_made() {
        for kind in KINDS {
            let made = Descriptor::new(*kind);
            assert!(made.is_ok(), "{kind:?}: {made:?}");
        }
    }

    #[test]
    fn memory_is_cut_when_it_was_sent() {
        let memory = Descriptor::new(DescriptorType::MemoryCut).unwrap();
        let bytes = || rustix::fs::fstat(&memory).unwrap().st_size as u64;
        assert_eq!(bytes(), ORDINARY);
        memory.sent();
        assert_eq!(bytes(), 0);
    }
}

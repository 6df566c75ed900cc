//! The files handed to a member: their layout and their checks.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    fs::{MemfdFlags, SealFlags},
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
};

use super::{
    ledger::MEMBERS_MAX,
    ring::{CELLS_MAX, RingMemory, words_of},
};
use crate::{
    MemoryError,
    arena::Geometry,
    foreign::{ForeignError, ForeignRegion},
    sync::AtomicU64,
};

/// `LRDIRECT`, `LRCHANNL` as bytes in memory.
const DIRECTORY: u64 = u64::from_le_bytes(*b"LRDIRECT");
const CHANNEL: u64 = u64::from_le_bytes(*b"LRCHANNL");
const VERSION: u32 = 1;
/// Bytes of a directory's header, and of a channel's.
const DIRECTORY_HEADER: usize = 128;
const CHANNEL_HEADER: usize = 64;

/// Whether a member may write to buffers that are its alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All its packets are read-only, and its mapping is.
    Read,
    /// It gets buffers of its own, too.
    Write,
}

/// Files handed to a member, by `SCM_RIGHTS(7)` or inheritance.
#[derive(Debug)]
pub struct Files {
    /// Header and ledger, which only the server can write.
    pub directory: OwnedFd,
    /// The arena.
    pub packets: OwnedFd,
    /// Both rings of this member.
    pub channel: OwnedFd,
    /// One end of a pair of sockets: a byte from the other end wakes the member, one to it the server.
    pub doorbell: OwnedFd,
}

/// Why a member could not attach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// A file is not one of ours, or of a version this program does not know.
    #[error("{0} has another magic number or version")]
    Version(&'static str),
    /// A field of a header makes no sense.
    #[error("the header of {0} is not possible")]
    Header(&'static str),
    /// A file could be changed by others than the server, or cut short.
    #[error("{0} is not sealed")]
    Seals(&'static str),
    /// A file could not be mapped.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// The arena could not be mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The server is of another user, and not the superuser's.
    #[error(
        "the server runs as user {0}: programs attach only to servers of their own user or root"
    )]
    Stranger(u32),
    /// The memory is not shared with a process that has fewer rights.
    #[error("the program has fewer rights than the server: it needs memory of its own")]
    FewerRights,
}

/// A region as the place of rings and of the ledger.
#[derive(Debug, Clone)]
pub(super) struct Region(pub(super) Arc<ForeignRegion>);

impl RingMemory for Region {
    #[inline]
    fn words(&self, at: usize, count: usize) -> &[AtomicU64] {
        self.0.words(at * 8, count).expect("inside: lengths were checked at the start")
    }
}

/// Offset of the ledger, in words.
pub(super) const LEDGER: usize = DIRECTORY_HEADER / 8;
/// Offset of the ring to the member, in words.
pub(super) const TO_MEMBER: usize = CHANNEL_HEADER / 8;

/// Offset of the ring to the server, in words.
pub(super) fn to_server(cells: u32) -> usize {
    TO_MEMBER + words_of(cells)
}

/// Header of a channel, with the member it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) member: u32,
    pub(super) cells: u32,
    pub(super) access: Access,
}

impl Channel {
    pub(super) fn len(self) -> u64 {
        8 * (to_server(self.cells) + words_of(self.cells)) as u64
    }
}

fn system(step: &'static str) -> impl Fn(rustix::io::Errno) -> MemoryError {
    move |errno| MemoryError::System { step, source: errno.into() }
}

/// A region that begins with a header, and its file.
pub(super) fn create(
    name: &str,
    header: &[u8],
    len: u64,
    seals: SealFlags,
) -> Result<(Region, OwnedFd), AttachError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags).map_err(system("memfd_create"))?;
    rustix::fs::ftruncate(&file, len).map_err(system("ftruncate"))?;
    let region = ForeignRegion::map(&file, len)?;
    assert!(region.write(0, header), "a header is shorter than its file");
    let seals = seals | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(system("sealing"))?;
    Ok((Region(Arc::new(region)), file))
}

/// Bytes of the directory of an arena of so many buffers.
pub(super) fn directory_len(count: u32) -> u64 {
    DIRECTORY_HEADER as u64 + 8 * u64::from(count)
}

/// The directory of an arena. No mapping but this one can write it (Linux 5.1).
pub(super) fn create_directory(geometry: &Geometry) -> Result<(Region, OwnedFd), AttachError> {
    let mut header = [0; DIRECTORY_HEADER];
    let Geometry { count, stride, headroom, size, meta, buffers } = *geometry;
    header[..8].copy_from_slice(&DIRECTORY.to_ne_bytes());
    let small = [VERSION, DIRECTORY_HEADER as u32, count, stride, headroom, MEMBERS_MAX as u32];
    for (at, field) in small.into_iter().enumerate() {
        header[8 + 4 * at..][..4].copy_from_slice(&field.to_ne_bytes());
    }
    for (at, field) in [size, meta, buffers].into_iter().enumerate() {
        header[32 + 8 * at..][..8].copy_from_slice(&field.to_ne_bytes());
    }
    create("linerate-directory", &header, directory_len(count), SealFlags::FUTURE_WRITE)
}

/// The channel of a member.
pub(super) fn create_channel(channel: Channel) -> Result<(Region, OwnedFd), AttachError> {
    let mut header = [0; CHANNEL_HEADER];
    header[..8].copy_from_slice(&CHANNEL.to_ne_bytes());
    let access = u32::from(channel.access == Access::Write);
    for (at, field) in [VERSION, channel.member, channel.cells, access].into_iter().enumerate() {
        header[8 + 4 * at..][..4].copy_from_slice(&field.to_ne_bytes());
    }
    create("linerate-channel", &header, channel.len(), SealFlags::empty())
}

/// Both ends of a doorbell: a byte from one wakes the waiter at the other.
///
/// An eventfd would be one file of both sides, and whether writing to it waits the other's choice
/// as much as ours. The ends of a pair of sockets are files of their own, and hang up when the
/// other side has ended.
pub(super) fn create_doorbell() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Wakes the other end. A full socket wakes it as well.
pub(super) fn ring(doorbell: &OwnedFd) {
    let _ = rustix::net::send(doorbell, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Bytes of a doorbell that are read at once, and make a flood. The other side sends one byte each time its
/// flag was set, so an honest one has two there at most.
const FLOOD: usize = 64;

/// Empties the doorbell, by one system call. Returns true if the other side floods it.
pub(super) fn drain(doorbell: &OwnedFd) -> bool {
    let mut bytes = [0; FLOOD];
    rustix::net::recv(doorbell, &mut bytes, RecvFlags::DONTWAIT)
        .is_ok_and(|(read, _)| read == FLOOD)
}

fn u32_at(header: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(header: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(header[at..at + 8].try_into().expect("eight bytes"))
}

fn sealed(file: impl AsFd, seals: SealFlags, what: &'static str) -> Result<u64, AttachError> {
    let got = rustix::fs::fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
    if !got.contains(seals) {
        return Err(AttachError::Seals(what));
    }
    let status = rustix::fs::fstat(&file).map_err(system("fstat"))?;
    Ok(u64::try_from(status.st_size).unwrap_or(0))
}

/// Maps a file that only its owner can write, and that cannot be cut short; returns its length.
pub(super) fn open_readable(
    file: impl AsFd,
    what: &'static str,
) -> Result<(Region, u64), AttachError> {
    let len = sealed(&file, SealFlags::SHRINK | SealFlags::FUTURE_WRITE, what)?;
    Ok((Region(Arc::new(ForeignRegion::map_readable(file, len)?)), len))
}

/// Checks a directory, on a copy of its header.
pub(super) fn open_directory(file: &OwnedFd) -> Result<(Region, Geometry), AttachError> {
    const WHAT: &str = "the directory";
    let (region, len) = open_readable(file, WHAT)?;
    let mut header = [0; DIRECTORY_HEADER];
    if !region.0.read(0, &mut header) {
        return Err(AttachError::Header(WHAT));
    }
    if u64_at(&header, 0) != DIRECTORY || u32_at(&header, 8) != VERSION {
        return Err(AttachError::Version(WHAT));
    }
    let geometry = Geometry {
        count: u32_at(&header, 16),
        stride: u32_at(&header, 20),
        headroom: u32_at(&header, 24),
        size: u64_at(&header, 32),
        meta: u64_at(&header, 40),
        buffers: u64_at(&header, 48),
    };
    let exact = len == DIRECTORY_HEADER as u64 + 8 * u64::from(geometry.count);
    let fixed = u32_at(&header, 12) == DIRECTORY_HEADER as u32
        && u32_at(&header, 28) == MEMBERS_MAX as u32
        && header[56..].iter().all(|&byte| byte == 0);
    if !geometry.is_possible() || !exact || !fixed {
        return Err(AttachError::Header(WHAT));
    }
    Ok((region, geometry))
}

/// Checks a channel, on a copy of its header.
pub(super) fn open_channel(file: &OwnedFd) -> Result<(Region, Channel), AttachError> {
    const WHAT: &str = "the channel";
    let len = sealed(file, SealFlags::SHRINK, WHAT)?;
    let region = ForeignRegion::map(file, len)?;
    let mut header = [0; CHANNEL_HEADER];
    if !region.read(0, &mut header) {
        return Err(AttachError::Header(WHAT));
    }
    if u64_at(&header, 0) != CHANNEL || u32_at(&header, 8) != VERSION {
        return Err(AttachError::Version(WHAT));
    }
    let (member, cells) = (u32_at(&header, 12), u32_at(&header, 16));
    let access = match u32_at(&header, 20) {
        0 => Access::Read,
        1 => Access::Write,
        _ => return Err(AttachError::Header(WHAT)),
    };
    let channel = Channel { member, cells, access };
    let possible = (1..=MEMBERS_MAX as u32).contains(&member)
        && cells.is_power_of_two()
        && cells <= CELLS_MAX
        && header[24..].iter().all(|&byte| byte == 0)
        && len == channel.len();
    if !possible {
        return Err(AttachError::Header(WHAT));
    }
    Ok((Region(Arc::new(region)), channel))
}

/// The arena's file is its user's alone: no other can open it once more for writing.
pub(super) fn make_private(file: BorrowedFd<'_>) -> Result<(), AttachError> {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    Ok(rustix::fs::fchmod(file, mode).map_err(system("fchmod"))?)
}

/// The user at the other end of a UNIX socket, unless it is this process's user or the superuser.
pub(super) fn stranger_at(socket: BorrowedFd<'_>) -> Result<Option<u32>, AttachError> {
    let peer = rustix::net::sockopt::socket_peercred(socket).map_err(system("SO_PEERCRED"))?;
    let trusted = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
    Ok((!trusted).then(|| peer.uid.as_raw()))
}

/// The file once more, opened for reading: it cannot be mapped for writing.
pub(super) fn read_only(file: BorrowedFd<'_>) -> Result<OwnedFd, AttachError> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty());
    Ok(opened.map_err(system("opening for reading"))?)
}

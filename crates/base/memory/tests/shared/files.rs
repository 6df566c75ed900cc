//! The files that members are handed, and figures: their checks and who may have them.

use std::os::fd::{AsFd, OwnedFd};

use linerate_memory::{
    ForeignRegion, Frame,
    shared::{Access, AttachError, Member, PeerRights, Server, StatsSegment, StatsView},
};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags};

use crate::arena;

fn copy_of(file: &OwnedFd, change: impl FnOnce(&mut Vec<u8>), seals: SealFlags) -> OwnedFd {
    let len = rustix::fs::fstat(file).unwrap().st_size as usize;
    let mut bytes = vec![0; len];
    assert_eq!(rustix::io::pread(file, &mut bytes, 0).unwrap(), len);
    change(&mut bytes);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let copy = rustix::fs::memfd_create("copy", flags).unwrap();
    assert_eq!(rustix::io::write(&copy, &bytes).unwrap_or(0), bytes.len());
    rustix::fs::fcntl_add_seals(&copy, seals).unwrap();
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Headers, lengths and seals that are not right are errors.
    #[test]
    fn whatever_is_attached_is_checked(
        changes in prop::collection::vec((0..64usize, any::<u8>()), 0..4),
        which in any::<bool>(),
        cut in 0..3usize,
        sealed in any::<bool>(),
    ) {
        let arena = arena();
        let mut server = Server::new(&arena).unwrap();
        // SAFETY: nothing is written.
        let (_, mut files) = unsafe { server.admit(Access::Write, 4).unwrap() };
        let seals = if sealed { SealFlags::SHRINK | SealFlags::FUTURE_WRITE } else { SealFlags::GROW };
        // Bytes of which another value is never right; others may be, such as those of a headroom.
        let is_fixed = |at: usize| {
            if which { !matches!(at, 20..28 | 40..56) } else { !matches!(at, 12..16 | 20..24) }
        };
        let (mut changed, mut is_wrong) = (false, false);
        let change = |bytes: &mut Vec<u8>| {
            let before = bytes.clone();
            for &(at, byte) in &changes {
                bytes[at] = byte;
            }
            changed = *bytes != before;
            is_wrong = (0..64).any(|at| is_fixed(at) && bytes[at] != before[at]);
            bytes.truncate(bytes.len() - cut);
        };
        // A channel is written by its member.
        if which {
            files.directory = copy_of(&files.directory, change, seals);
        } else {
            files.channel = copy_of(&files.channel, change, seals & !SealFlags::FUTURE_WRITE);
        }
        // SAFETY: nothing is lent, so there is nothing that could be written.
        let attached = unsafe { Member::attach(files) };
        prop_assert!(attached.is_err() || (sealed && cut == 0 && !is_wrong));
        prop_assert!(attached.is_ok() || changed || !sealed || cut > 0);
    }
}

#[test]
fn rights_at_a_socket_decide_about_sharing() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let arena = arena();
    let mut server = Server::new(&arena).unwrap();
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let rights = PeerRights::from_socket(near.as_fd());
    let (joining, files) = server.invite_from(rights, Access::Write, 4).unwrap().make().unwrap();
    let (second, _) = server.invite_from(rights, Access::Read, 4).unwrap().make().unwrap();
    server.welcome(joining).unwrap();
    assert!(server.welcome(second).is_err(), "it was invited to the same place");
    let status = rustix::fs::fstat(&files.packets).unwrap();
    assert_eq!(status.st_mode & 0o777, 0o600, "others could open it once more");
    assert!(Member::attach_from(far.as_fd(), files).is_ok());
}

/// The rights of a peer without credentials.
fn no_rights() -> PeerRights {
    let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
    PeerRights::from_socket(socket.as_fd())
}

/// A descriptor opened for reading is opened for writing by any process of the same user, until the memory
/// is sealed.
#[test]
fn sealed_memory_is_written_by_its_server_alone() {
    use std::os::fd::AsRawFd;
    let arena = arena();
    let mut server = Server::new(&arena).unwrap();
    let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    let rights = PeerRights::from_socket(near.as_fd());
    for access in [Access::Read, Access::Write] {
        let refused = server.invite_from(no_rights(), access, 4);
        assert!(matches!(refused, Err(AttachError::FewerRights)), "{access:?}");
    }
    server.seal().unwrap();
    server.seal().unwrap();
    let refused = server.invite_from(rights, Access::Write, 4);
    assert!(matches!(refused, Err(AttachError::FewerRights)));
    let (joining, files) =
        server.invite_from(no_rights(), Access::Read, 4).unwrap().make().unwrap();
    let id = server.welcome(joining).unwrap();
    let path = format!("/proc/self/fd/{}", files.packets.as_raw_fd());
    if let Ok(again) = std::fs::OpenOptions::new().read(true).write(true).open(path) {
        assert!(ForeignRegion::map(&again, 4096).is_err(), "it can be mapped for writing");
        assert!(std::os::unix::fs::FileExt::write_at(&again, &[1], 0).is_err());
        let holes = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&again, holes, 0, 4096).is_err());
    }
    // SAFETY: nothing is written.
    assert!(unsafe { arena.fd() }.is_err(), "a port could share it");
    // SAFETY: the returned packets are not looked at.
    let mut member = unsafe { Member::attach(files).unwrap() };
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let (mut frame, mut got) = (Frame::new(4), Frame::new(4));
    pool.take(&mut frame, 1, 60);
    arena.packet_mut(&mut frame.slots_mut()[0]).unwrap().fill(5);
    server.enqueue_shared(&[id], &mut frame).unwrap();
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(1));
    assert_eq!(member.arena().packets(&got).next(), Some(&[5; 60][..]));
}

#[test]
fn memory_that_a_port_shares_is_not_sealed() {
    let arena = arena();
    let server = Server::new(&arena).unwrap();
    // SAFETY: nothing is written by it.
    unsafe { arena.fd() }.unwrap();
    assert!(server.seal().is_err());
    assert!(server.invite_from(no_rights(), Access::Read, 4).is_err());
}

#[test]
fn figures_are_read_while_their_writer_lives_and_after() {
    let board = StatsSegment::create("figures", 4).unwrap();
    let file = board.file().unwrap();
    let view = StatsView::open(&file, 4).unwrap();
    board.set(2, u64::MAX);
    assert_eq!((view.get(1), view.get(2)), (0, u64::MAX));
    assert!(StatsView::open(&file, 5).is_err());
    assert!(ForeignRegion::map(&file, 32).is_err(), "others could write it");
    drop(board);
    assert_eq!(view.get(2), u64::MAX);
}

//! An arena in several processes: members that are killed, lie, or attach to what is no arena.
#![cfg(not(any(loom, miri)))]
#![allow(missing_docs, reason = "a test program")]

use std::{
    env,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use linerate_memory::{
    Arena, ArenaOptions, ForeignRegion, Frame, PoolCache,
    shared::{Access, Board, BoardView, Files, Isolated, Member, MemberId, Sent, Server},
};
use proptest::prelude::*;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, SealFlags},
    io::FdFlags,
    pipe::{PipeFlags, pipe_with},
};

const FILES: &str = "LINERATE_TEST_FILES";
const CELLS: u32 = 64;
/// Of the last packet.
const END: usize = 1;

fn arena() -> Arena {
    ArenaOptions { size: 2 << 20, huge: false, ..ArenaOptions::default() }.create().unwrap()
}

/// Numbers without a pattern (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) % limit
    }
}

/// A member in a process of its own: this program once more.
struct Process {
    id: MemberId,
    child: Child,
    /// Hung up when the process has ended, however.
    alive: OwnedFd,
}

impl Process {
    fn start(server: &mut Server, role: &str) -> Process {
        // SAFETY: `member_process` keeps to it.
        let (id, files) = unsafe { server.admit(Access::Write, CELLS).unwrap() };
        let (alive, theirs) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let handed = [files.directory, files.packets, files.channel, files.doorbell, theirs];
        let mut text = role.to_string();
        for file in &handed {
            rustix::io::fcntl_setfd(file, FdFlags::empty()).unwrap();
            text += &format!(" {}", file.as_raw_fd());
        }
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "member_process", "--nocapture", "--test-threads=1"])
            .env(FILES, text)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Process { id, child, alive }
    }

    fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.alive, PollFlags::empty())];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: what the member processes of the one below do.
#[test]
fn member_process() {
    let Ok(text) = env::var(FILES) else { return };
    let mut words = text.split(' ');
    let role = words.next().unwrap();
    // SAFETY: numbers of files that were left open for this process, which owns them.
    let mut next = || unsafe { OwnedFd::from_raw_fd(words.next().unwrap().parse().unwrap()) };
    let files = Files { directory: next(), packets: next(), channel: next(), doorbell: next() };
    let _alive = next();
    // SAFETY: they come from `Process::start`.
    let member = unsafe { Member::attach(files).unwrap() };
    match role {
        "steady" => steady(member),
        _ => reckless(member),
    }
}

/// Sends each packet back, in order, until the last has come.
fn steady(mut member: Member) {
    let arena = member.arena().clone();
    let mut pool = arena.cache(16);
    let (mut frame, mut end) = (Frame::new(32), false);
    while !end {
        if member.receive(&mut pool, &mut frame).unwrap() == 0 && member.arm() {
            let mut polled = [PollFd::from_borrowed_fd(member.event(), PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 })).unwrap();
        }
        end = arena.packets(&frame).any(|packet| packet.len() == END);
        check_packets(&arena, &frame);
        while !frame.is_empty() {
            member.send(&mut pool, &mut frame).unwrap();
            member.give_back(&mut pool, 16).unwrap();
        }
    }
    assert_eq!(member.malformed(), 0);
    member.give_back(&mut pool, CELLS as usize).unwrap();
}

/// Whole packets consist of their number.
fn check_packets(arena: &Arena, frame: &Frame) {
    for packet in arena.packets(frame) {
        let number = packet[..packet.len().min(8)].to_vec();
        assert!(packet.chunks(8).all(|piece| *piece == number[..piece.len()]), "{packet:?}");
    }
}

/// Takes, writes, holds, shares, sends and returns, in no order, until it is killed.
fn reckless(mut member: Member) {
    let mut random = Random(std::process::id().into());
    let arena = member.arena().clone();
    let mut pool = arena.cache(8);
    let mut held = Frame::new(64);
    let mut out = Frame::new(64);
    loop {
        member.receive(&mut pool, &mut held).unwrap();
        arena.for_each_mut(&mut held, |bytes| bytes.fill(0xee));
        for _ in 0..random.below(12) {
            let Some(mut slot) = held.pop().or_else(|| pool.take_one(60)) else { break };
            match random.below(4) {
                0 => pool.give_one(slot),
                1 => {
                    let copy = pool.share(&mut slot).unwrap();
                    held.push(slot).unwrap();
                    out.push(copy).unwrap();
                }
                2 => out.push(slot).unwrap(),
                _ => held.push(slot).unwrap(),
            }
        }
        member.send(&mut pool, &mut out).unwrap();
        pool.give(&mut out);
        let count = random.below(8) as usize;
        member.give_back(&mut pool, count).unwrap();
    }
}

struct World {
    arena: Arena,
    pool: PoolCache,
    server: Server,
    random: Random,
    /// Packets sent to the steady member, and got back.
    sent: u64,
    got: u64,
    /// Packets from the other.
    others: u64,
}

impl World {
    fn packets(&mut self, count: usize) -> Frame {
        let mut frame = Frame::new(32);
        for at in 0..count {
            let length = 8 + self.random.below(1500) as usize;
            let Some(mut slot) = self.pool.take_one(length) else { break };
            let number = (self.sent + at as u64).to_le_bytes();
            for piece in self.arena.packet_mut(&mut slot).unwrap().chunks_mut(8) {
                piece.copy_from_slice(&number[..piece.len()]);
            }
            frame.push(slot).unwrap();
        }
        frame
    }

    fn turn(&mut self, steady: MemberId, other: Option<MemberId>) {
        let count = self.random.below(8) as usize;
        if self.server.held(steady) + count <= CELLS as usize {
            let mut frame = self.packets(count);
            let both: Vec<MemberId> =
                [steady].into_iter().chain(other.filter(|_| count.is_multiple_of(2))).collect();
            let lent = self.server.lend(&both, &mut frame).unwrap();
            assert!(frame.is_empty(), "there was room for all");
            self.sent += lent.packets as u64;
        }
        self.receive(steady);
        let Some(other) = other else { return };
        let mut frame = self.packets(count);
        self.server.lend(&[other], &mut frame).unwrap();
        self.pool.give(&mut frame);
        self.server.supply(other, &mut self.pool, count).unwrap();
        let mut frame = Frame::new(32);
        self.others += self.server.receive(other, &mut self.pool, &mut frame).unwrap() as u64;
        self.pool.give(&mut frame);
        assert_eq!(self.server.malformed(other), 0);
    }

    /// What comes back from the steady member is whole and in order.
    fn receive(&mut self, steady: MemberId) {
        let mut frame = Frame::new(32);
        self.server.receive(steady, &mut self.pool, &mut frame).unwrap();
        check_packets(&self.arena, &frame);
        for packet in self.arena.packets(&frame) {
            assert_eq!(packet[..8], self.got.to_le_bytes(), "order");
            self.got += 1;
        }
        self.pool.give(&mut frame);
        assert_eq!(self.server.malformed(steady), 0);
    }
}

/// What this thread has had of processors: others may have them when a process is noticed to end.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `LINERATE_KILLS=1000` says how often.
#[test]
fn what_a_killed_member_held_comes_back_and_others_notice_nothing() {
    let kills: u32 = env::var("LINERATE_KILLS").map_or(50, |text| text.parse().unwrap());
    let arena = arena();
    let server = Server::new(&arena).unwrap();
    let pool = arena.cache(32);
    let mut world =
        World { pool, server, random: Random(7), sent: 0, got: 0, others: 0, arena: arena.clone() };
    let mut steady = Process::start(&mut world.server, "steady");
    let (mut slowest, mut costliest, mut lost) = (Duration::ZERO, Duration::ZERO, 0);
    for kill in 0..kills {
        let mut other = Process::start(&mut world.server, "reckless");
        let before = world.others;
        // Some are killed while they start.
        while !kill.is_multiple_of(8) && world.others == before {
            world.turn(steady.id, Some(other.id));
            assert!(!other.has_ended() && !steady.has_ended(), "a member has failed");
        }
        let until = Instant::now() + Duration::from_micros(world.random.below(3000));
        while Instant::now() < until {
            world.turn(steady.id, Some(other.id));
        }
        other.child.kill().unwrap();
        while !other.has_ended() {
            world.turn(steady.id, Some(other.id));
        }
        let (noticed, worked) = (Instant::now(), processor_time());
        lost += world.server.remove(other.id, &mut world.pool);
        costliest = costliest.max(processor_time() - worked);
        slowest = slowest.max(noticed.elapsed());
        world.turn(steady.id, None);
    }
    let mut last = Frame::new(1);
    last.push(world.pool.take_one(END).unwrap()).unwrap();
    while world.got < world.sent {
        world.receive(steady.id);
        assert!(!steady.has_ended(), "the steady member has failed");
    }
    world.arena.for_each_mut(&mut last, |bytes| bytes.fill(world.got as u8));
    while world.server.lend(&[steady.id], &mut last).unwrap().packets == 0 {
        world.receive(steady.id);
    }
    let status = steady.child.wait().unwrap();
    assert!(status.success(), "{status}");
    world.server.remove(steady.id, &mut world.pool);
    println!(
        "{kills} kills: {lost} buffers were held, back within {slowest:?}, {costliest:?} of \
         which the processor was ours; {} packets of the other in order",
        world.got
    );
    assert!(world.got > u64::from(kills) && lost > 0, "nothing was tried");
    drop((world.pool, world.server));
    assert_eq!(arena.accounting().free, arena.count(), "buffers are lost");
}

/// One member in this process: the same memory, mapped twice.
fn pair(access: Access) -> (Arena, Server, MemberId, Member) {
    let arena = arena();
    let mut server = Server::new(&arena).unwrap();
    // SAFETY: the tests write to nothing that they returned.
    let (id, member) = unsafe {
        let (id, files) = server.admit(access, CELLS).unwrap();
        (id, Member::attach(files).unwrap())
    };
    (arena, server, id, member)
}

#[test]
fn a_packet_goes_there_and_back_without_a_copy() {
    let (arena, mut server, id, mut member) = pair(Access::Write);
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let mut frame = Frame::new(4);
    pool.take(&mut frame, 1, 100);
    let index = arena.index_of(&frame.slots()[0]);
    arena.for_each_mut(&mut frame, |bytes| bytes.fill(1));
    server.lend(&[id], &mut frame).unwrap();
    assert!(!member.arm());
    let mut got = Frame::new(4);
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(1));
    assert!(member.arm());
    assert_eq!(member.arena().index_of(&got.slots()[0]), index);
    let inside = member.arena().clone();
    inside.for_each_mut(&mut got, |bytes| {
        assert_eq!(bytes, [1; 100]);
        bytes.fill(2);
    });
    member.send(&mut theirs, &mut got).unwrap();
    assert_eq!(server.receive(id, &mut pool, &mut frame), Ok(1));
    assert_eq!(arena.packet(&frame.slots()[0]), [2; 100]);
    assert_eq!(arena.index_of(&frame.slots()[0]), index);
    pool.give(&mut frame);
    assert_eq!(server.held(id), 0);
}

#[test]
fn a_reader_can_neither_write_nor_map_for_writing() {
    let (arena, mut server, id, mut member) = pair(Access::Read);
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    assert_eq!(server.supply(id, &mut pool, 4), Ok(0));
    let mut frame = Frame::new(4);
    pool.take(&mut frame, 2, 100);
    server.lend(&[id], &mut frame).unwrap();
    let mut got = Frame::new(4);
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(2));
    let inside = member.arena().clone();
    for slot in got.slots_mut() {
        assert!(slot.is_shared() && inside.packet_mut(slot).is_none() && !theirs.unshare(slot));
    }
    theirs.give(&mut got);
    assert_eq!(member.give_back(&mut theirs, 0), Ok(2));
    server.receive(id, &mut pool, &mut frame).unwrap();
    assert_eq!((server.held(id), arena.accounting().held), (0, 0));
    // SAFETY: nothing is written, that is what is tested.
    let (_, files) = unsafe { server.admit(Access::Read, 1).unwrap() };
    assert!(ForeignRegion::map(&files.packets, 4096).is_err());
    assert!(ForeignRegion::map(&files.directory, 128).is_err());
}

#[test]
fn a_buffer_with_several_holders_is_free_when_the_last_has_gone() {
    let (arena, mut server, first, mut member) = pair(Access::Write);
    // SAFETY: as in `pair`.
    let (second, files) = unsafe { server.admit(Access::Read, CELLS).unwrap() };
    // SAFETY: likewise.
    let mut reader = unsafe { Member::attach(files).unwrap() };
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let mut readers = reader.arena().cache(8);
    let mut frame = Frame::new(4);
    pool.take(&mut frame, 1, 100);
    server.lend(&[first, second], &mut frame).unwrap();
    let (mut one, mut two) = (Frame::new(1), Frame::new(1));
    member.receive(&mut theirs, &mut one).unwrap();
    reader.receive(&mut readers, &mut two).unwrap();
    // Sent on by one, lent to nobody who has it.
    member.send(&mut theirs, &mut one).unwrap();
    member.give_back(&mut theirs, 0).unwrap();
    assert_eq!(server.receive(first, &mut pool, &mut frame), Ok(1));
    assert_eq!(server.lend(&[second], &mut frame).unwrap().packets, 0);
    assert_eq!((server.held(first), server.held(second)), (0, 1));
    pool.give(&mut frame);
    assert_eq!(arena.accounting().held, 1);
    drop((reader, two));
    assert_eq!(server.remove(second, &mut pool), 1);
    assert_eq!(arena.accounting().held, 0);
}

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

    /// A member that writes anything anywhere into its rings gets nothing that it does not hold, and
    /// nothing is lost.
    #[test]
    fn a_lying_member_harms_nobody(
        lies in prop::collection::vec(
            (prop_oneof![Just(0usize), Just(8), Just(16), 24..28usize], any::<bool>(),
             prop_oneof![0..9u64, (0..40u64, 0..4u64).prop_map(|(n, flags)| n | flags << 30), any::<u64>()]),
            0..60),
    ) {
        let arena = arena();
        let mut server = Server::new(&arena).unwrap();
        // SAFETY: the rings are written, no packet.
        let (id, files) = unsafe { server.admit(Access::Write, 4).unwrap() };
        // SAFETY: as in `pair`.
        let (good, theirs) = unsafe { server.admit(Access::Write, 4).unwrap() };
        // SAFETY: likewise.
        let mut member = unsafe { Member::attach(theirs).unwrap() };
        let mut members = member.arena().cache(8);
        let channel = rustix::fs::fstat(&files.channel).unwrap().st_size as u64;
        let channel = ForeignRegion::map(&files.channel, channel).unwrap();
        let mut pool = arena.cache(8);
        let (mut frame, mut got) = (Frame::new(8), Frame::new(8));
        let mut sent = 0;
        for (at, to_member, word) in lies {
            let base = if to_member { 8 } else { 8 + 32 };
            channel.words((base + at) * 8, 1).unwrap()[0].store(word, std::sync::atomic::Ordering::Relaxed);
            pool.take(&mut frame, 2, 60);
            let _ = server.lend(&[id], &mut frame);
            pool.give(&mut frame);
            let _ = server.supply(id, &mut pool, 1);
            let _ = server.receive(id, &mut pool, &mut frame);
            prop_assert!(arena.packets(&frame).all(|packet| packet.len() <= arena.buffer_size()));
            pool.give(&mut frame);
            prop_assert!(server.held(id) <= 4);
            pool.take(&mut frame, 1, 60);
            arena.for_each_mut(&mut frame, |bytes| bytes.fill(sent));
            sent = sent.wrapping_add(1);
            prop_assert_eq!(server.lend(&[good], &mut frame).unwrap().packets, 1);
            prop_assert_eq!(member.receive(&mut members, &mut got), Ok(1));
            member.send(&mut members, &mut got).unwrap();
            prop_assert_eq!(server.receive(good, &mut pool, &mut frame), Ok(1));
            prop_assert_eq!(arena.packet(&frame.slots()[0]), [sent.wrapping_sub(1); 60]);
            pool.give(&mut frame);
        }
        server.remove(id, &mut pool);
        prop_assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
fn each_packet_goes_to_members_of_its_own() {
    let (arena, mut server, first, mut member) = pair(Access::Write);
    // SAFETY: as in `pair`.
    let (second, files) = unsafe { server.admit(Access::Read, 2).unwrap() };
    // SAFETY: likewise.
    let mut reader = unsafe { Member::attach(files).unwrap() };
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let mut readers = reader.arena().cache(8);
    let mut frame = Frame::new(8);
    pool.take(&mut frame, 8, 60);
    for (at, slot) in frame.slots_mut().iter_mut().enumerate() {
        arena.packet_mut(slot).unwrap().fill(at as u8);
    }
    // The second holds two at most, so it misses the packets 4 and 6, and nobody gets 1 and 6.
    let (one, two) = (first.bit(), second.bit());
    let mut to = [one, 0, two, one | two, one | two, one, two, one];
    server.lend_each(&mut to, false, &mut pool, &mut frame);
    assert_eq!(to, [one, 0, two, one | two, one, one, 0, one]);
    let firsts = |arena: &Arena, frame: &Frame| -> Vec<u8> {
        arena.packets(frame).map(|packet| packet[0]).collect()
    };
    assert_eq!(firsts(&arena, &frame), [1, 6]);
    assert_eq!((server.tally(first).packets, server.tally(first).missed), (5, 0));
    assert_eq!((server.tally(second).bytes, server.tally(second).missed), (120, 2));
    assert_eq!((server.waiting(first), server.waiting(second)), (5, 2));
    let (mut got, mut read) = (Frame::new(8), Frame::new(8));
    member.receive(&mut theirs, &mut got).unwrap();
    reader.receive(&mut readers, &mut read).unwrap();
    assert_eq!(firsts(member.arena(), &got), [0, 3, 4, 5, 7]);
    assert_eq!(firsts(reader.arena(), &read), [2, 3]);
    let shared: Vec<bool> = got.slots().iter().map(|slot| slot.is_shared()).collect();
    assert_eq!(shared, [false, true, false, false, false]);
    assert_eq!((server.waiting(first), server.waiting(second)), (0, 0));
    // All or none: the second has no room, so that all behind its packet waits.
    pool.give(&mut frame);
    pool.take(&mut frame, 3, 60);
    server.lend_each(&mut [one, one | two, one], true, &mut pool, &mut frame);
    assert_eq!((frame.len(), server.held(first), server.tally(second).missed), (2, 6, 2));
    readers.give(&mut read);
    reader.give_back(&mut readers, 0).unwrap();
    assert_eq!(server.receive(second, &mut pool, &mut Frame::new(1)), Ok(0));
    server.lend_each(&mut [one | two, one], true, &mut pool, &mut frame);
    assert_eq!((frame.len(), server.held(first), server.held(second)), (0, 8, 1));
    server.remove(first, &mut pool);
    server.remove(second, &mut pool);
    assert_eq!(arena.accounting().held, 0);
}

/// Bursts of one member and of two, more than are looked at at once: what each has got, and in what order.
#[test]
fn bursts_come_in_order_and_go_back_whole() {
    for access in [Access::Write, Access::Read] {
        let (arena, mut server, first, mut member) = pair(access);
        // SAFETY: as in `pair`.
        let (second, files) = unsafe { server.admit(Access::Read, 256).unwrap() };
        // SAFETY: likewise.
        let mut reader = unsafe { Member::attach(files).unwrap() };
        let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
        let mut readers = reader.arena().cache(8);
        let mut number = 0u8;
        for round in 0..20 {
            let mut frame = Frame::new(256);
            pool.take(&mut frame, 30 + 5 * round, 60);
            for slot in frame.slots_mut() {
                arena.packet_mut(slot).unwrap().fill(number);
                number = number.wrapping_add(1);
            }
            let (one, two) = (first.bit(), second.bit());
            // All to one, by turns, and with some for nobody.
            let mut to: Vec<u64> = (0..frame.len())
                .map(|at| match round % 3 {
                    0 => two,
                    1 => [one, two, two][at % 3],
                    _ => [two, 0, one, two][at % 4],
                })
                .collect();
            let all: Vec<u8> = arena.packets(&frame).map(|packet| packet[0]).collect();
            let wanted = to.clone();
            server.lend_each(&mut to, false, &mut pool, &mut frame);
            assert_eq!(to, wanted);
            let of = |bit: u64| -> Vec<u8> {
                let all = all.iter().zip(&to).filter(|(_, to)| **to == bit);
                all.map(|(number, _)| *number).collect()
            };
            let firsts = |arena: &Arena, frame: &Frame| -> Vec<u8> {
                arena.packets(frame).map(|packet| packet[0]).collect()
            };
            assert_eq!(firsts(&arena, &frame), of(0));
            pool.give(&mut frame);
            let (mut got, mut read) = (Frame::new(256), Frame::new(256));
            member.receive(&mut theirs, &mut got).unwrap();
            reader.receive(&mut readers, &mut read).unwrap();
            assert_eq!(firsts(member.arena(), &got), of(one));
            assert_eq!(firsts(reader.arena(), &read), of(two));
            assert_eq!((member.held(), reader.held()), (got.len(), read.len()));
            member.give_back_frame(&mut theirs, &mut got, 0).unwrap();
            reader.give_back_frame(&mut readers, &mut read, 0).unwrap();
            for id in [first, second] {
                assert_eq!(server.receive(id, &mut pool, &mut frame), Ok(0));
                assert_eq!((server.held(id), server.malformed(id)), (0, 0));
            }
            assert_eq!((member.held(), member.malformed(), reader.malformed()), (0, 0, 0));
            assert_eq!(arena.accounting().held, 0, "round {round}");
        }
    }
}

#[test]
fn what_a_program_has_more_slots_of_stays_until_they_are_gone() {
    for access in [Access::Write, Access::Read] {
        let (arena, mut server, id, mut member) = pair(access);
        let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
        let mut frame = Frame::new(16);
        for round in 0..40 {
            pool.take(&mut frame, 8, 60);
            server.lend(&[id], &mut frame).unwrap();
            let mut got = Frame::new(16);
            member.receive(&mut theirs, &mut got).unwrap();
            let inside = member.arena().clone();
            let share = |slot| theirs.share(slot).unwrap();
            let mut kept: Vec<_> = got.slots_mut()[2..4].iter_mut().map(share).collect();
            assert!(inside.packets(&got).count() == 8);
            member.give_back_frame(&mut theirs, &mut got, 0).unwrap();
            server.receive(id, &mut pool, &mut frame).unwrap();
            assert_eq!((server.held(id), member.held()), (2, 2), "{access:?} {round}");
            kept.drain(..).for_each(|slot| theirs.give_one(slot));
            let free = if access == Access::Write { 2 } else { 0 };
            assert_eq!(member.give_back(&mut theirs, free), Ok(2));
            server.receive(id, &mut pool, &mut frame).unwrap();
            assert_eq!((server.held(id), member.held()), (0, 0), "{access:?} {round}");
        }
        assert_eq!((member.malformed(), server.malformed(id)), (0, 0));
        assert_eq!(arena.accounting().held, 0);
    }
}

/// Buffers that a program wants for packets of its own stay with it, and while there is more to take the
/// server is told of those that have gone back by the dozen.
#[test]
fn a_program_keeps_what_it_wants_to_and_tells_of_the_rest_by_and_by() {
    let (arena, mut server, id, mut member) = pair(Access::Write);
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let (mut frame, mut got) = (Frame::new(16), Frame::new(4));
    pool.take(&mut frame, 16, 60);
    server.lend(&[id], &mut frame).unwrap();
    member.receive(&mut theirs, &mut got).unwrap();
    member.give_back_frame(&mut theirs, &mut got, 3).unwrap();
    assert_eq!(member.arena().accounting().free, 3);
    server.receive(id, &mut pool, &mut frame).unwrap();
    assert_eq!((server.held(id), member.held()), (16, 3), "it is told of one when more go back");
    for _ in 0..3 {
        member.receive(&mut theirs, &mut got).unwrap();
        member.give_back_frame(&mut theirs, &mut got, 0).unwrap();
    }
    server.receive(id, &mut pool, &mut frame).unwrap();
    assert_eq!((server.held(id), member.held()), (3, 3));
    member.give_back(&mut theirs, 3).unwrap();
    drop(member);
    server.receive(id, &mut pool, &mut frame).unwrap();
    assert_eq!((server.held(id), arena.accounting().held), (0, 0));
}

/// Two slots of a buffer would be two owners of its bytes, so that nothing a ring says can make them.
#[test]
fn no_word_makes_a_second_slot_of_a_buffer() {
    use std::sync::atomic::Ordering;
    for access in [Access::Write, Access::Read] {
        let arena = arena();
        let mut server = Server::new(&arena).unwrap();
        // SAFETY: the tests write to nothing that they returned.
        let (id, files) = unsafe { server.admit(access, 8).unwrap() };
        let len = rustix::fs::fstat(&files.channel).unwrap().st_size as u64;
        let channel = ForeignRegion::map(&files.channel, len).unwrap();
        // SAFETY: likewise.
        let mut member = unsafe { Member::attach(files).unwrap() };
        let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
        let (mut frame, mut got) = (Frame::new(8), Frame::new(8));
        pool.take(&mut frame, 2, 60);
        server.lend(&[id], &mut frame).unwrap();
        // Both once more, and the position behind them.
        let ring = channel.words(8 * 8, 24 + 8).unwrap();
        for at in 0..2 {
            ring[24 + 2 + at].store(ring[24 + at].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        ring[0].store(4, Ordering::Release);
        assert_eq!(member.receive(&mut theirs, &mut got), Ok(2));
        assert_eq!((member.malformed(), member.held()), (2, 2));
        theirs.give(&mut got);
        server.remove(id, &mut pool);
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
fn a_packet_that_a_member_has_already_is_copied_for_it() {
    let (arena, mut server, id, mut member) = pair(Access::Read);
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let mut frame = Frame::new(4);
    pool.take(&mut frame, 1, 60);
    arena.for_each_mut(&mut frame, |bytes| bytes.fill(5));
    for _ in 0..3 {
        let copy = pool.share(&mut frame.slots_mut()[0]).unwrap();
        frame.push(copy).unwrap();
    }
    server.lend_each(&mut [id.bit(), id.bit(), 0, id.bit()], false, &mut pool, &mut frame);
    assert_eq!((frame.len(), server.tally(id).packets, server.tally(id).missed), (1, 3, 0));
    let headroom = frame.slots()[0].headroom() as u64;
    assert_eq!(server.tally(id).copied, 2 * (headroom + 60));
    let mut got = Frame::new(4);
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(3));
    assert!(member.arena().packets(&got).all(|packet| *packet == [5; 60]));
    let places: Vec<usize> = got.slots().iter().map(|slot| member.arena().index_of(slot)).collect();
    assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2]);
    pool.give(&mut frame);
    server.remove(id, &mut pool);
    assert_eq!(arena.accounting().held, 0);
}

/// An answer is one word, whether the packet is the member's alone or others have it too.
#[test]
fn a_member_answers_for_each_packet_and_has_none_of_them_any_more() {
    for access in [Access::Write, Access::Read] {
        let (arena, mut server, id, mut member) = pair(access);
        let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
        let mut frame = Frame::new(4);
        pool.take(&mut frame, 4, 60);
        for (at, slot) in frame.slots_mut().iter_mut().enumerate() {
            arena.packet_mut(slot).unwrap().fill(at as u8);
            assert!(server.new_to(id, slot, &mut pool).is_some());
        }
        assert!(server.room_of(id, 2) == 2 && server.room_of(id, 100) < 100);
        assert_eq!(server.lend(&[id], &mut frame).unwrap().packets, 4);
        let mut got = Frame::new(4);
        member.receive(&mut theirs, &mut got).unwrap();
        let answers = |packet: &[u8]| (packet[0].is_multiple_of(2), packet[0] >= 2);
        assert_eq!(member.answer(&mut theirs, &mut got, answers), Ok(2));
        assert!(got.is_empty());
        let mut said = Vec::new();
        let taken = server.receive_each(id, &mut pool, 3, |pool, back| {
            said.push((back.packet.as_ref().map(|slot| arena.packet(slot)[0]), back.flow));
            back.packet.into_iter().for_each(|slot| pool.give_one(slot));
        });
        assert_eq!(taken, Ok(3), "no more than it was asked for");
        server.receive_each(id, &mut pool, 9, |_, back| said.push((None, back.flow))).unwrap();
        assert_eq!(said, [(Some(0), false), (None, false), (Some(2), true), (None, true)]);
        assert_eq!((server.held(id), server.malformed(id)), (0, 0));
        server.remove(id, &mut pool);
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
fn a_member_with_a_broken_ring_keeps_nobody_waiting() {
    let (arena, mut server, first, mut member) = pair(Access::Write);
    // SAFETY: only the ring is written.
    let (second, files) = unsafe { server.admit(Access::Write, 4).unwrap() };
    let len = rustix::fs::fstat(&files.channel).unwrap().st_size as u64;
    let channel = ForeignRegion::map(&files.channel, len).unwrap();
    // More taken than was ever sent.
    channel.words((8 + 8) * 8, 1).unwrap()[0].store(77, std::sync::atomic::Ordering::Relaxed);
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let mut frame = Frame::new(8);
    pool.take(&mut frame, 8, 60);
    let both = first.bit() | second.bit();
    server.lend_each(&mut [both; 8], true, &mut pool, &mut frame);
    assert!(server.is_broken(second) && !server.is_broken(first));
    assert_eq!((frame.len(), server.held(first), server.held(second)), (0, 8, 0));
    let mut got = Frame::new(8);
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(8));
    server.remove(second, &mut pool);
    server.remove(first, &mut pool);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
fn who_is_at_a_socket_decides_who_may_write() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let arena = arena();
    let mut server = Server::new(&arena).unwrap();
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (joining, files) =
        server.invite_from(near.as_fd(), Access::Write, 4).unwrap().make().unwrap();
    let (second, _) = server.invite_from(near.as_fd(), Access::Read, 4).unwrap().make().unwrap();
    server.welcome(joining).unwrap();
    assert!(server.welcome(second).is_err(), "it was invited to the same place");
    let status = rustix::fs::fstat(&files.packets).unwrap();
    assert_eq!(status.st_mode & 0o777, 0o600, "others could open it once more");
    assert!(Member::attach_from(far.as_fd(), files).is_ok());
}

#[test]
fn figures_are_read_while_their_writer_lives_and_after() {
    let board = Board::create("figures", 4).unwrap();
    let file = board.file().unwrap();
    let view = BoardView::open(&file, 4).unwrap();
    board.set(2, u64::MAX);
    assert_eq!((view.get(1), view.get(2)), (0, u64::MAX));
    assert!(BoardView::open(&file, 5).is_err());
    assert!(ForeignRegion::map(&file, 32).is_err(), "others could write it");
    drop(board);
    assert_eq!(view.get(2), u64::MAX);
}

/// To the member its memory is an arena like any other; what it says is checked against the ledger.
#[test]
fn an_isolated_member_has_copies_and_what_it_says_is_checked() {
    let like = arena();
    let (mut isolated, files) = Isolated::create(&like, 3).unwrap();
    let len = rustix::fs::fstat(&files.channel).unwrap().st_size as u64;
    let channel = ForeignRegion::map(&files.channel, len).unwrap();
    // SAFETY: they come from a server of this process, and only `member` uses them.
    let mut member = unsafe { Member::attach(files).unwrap() };
    let mut theirs = member.arena().cache(4);
    assert_eq!((isolated.room(9), isolated.longest()), (4, like.room()));
    assert!(isolated.lend(&vec![0; like.room() + 1], 0).is_none());
    for length in [60, like.room(), 0, 1] {
        assert!(isolated.lend(&vec![length as u8; length], 7).is_some());
    }
    assert!(isolated.lend(&[1], 0).is_none(), "it holds as many as it may");
    isolated.publish();
    let mut got = Frame::new(8);
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(4));
    let lengths: Vec<usize> = member.arena().packets(&got).map(<[u8]>::len).collect();
    assert_eq!(lengths, [60, like.room(), 0, 1]);
    assert!(got.slots().iter().all(|slot| member.arena().meta(slot).timestamp == 7));
    assert!(
        member.arena().packets(&got).all(|packet| packet.iter().all(|b| *b == packet.len() as u8))
    );
    member.arena().packet_mut(&mut got.slots_mut()[0]).unwrap().fill(7);
    let decide = |packet: &[u8]| (packet.len() == 60, packet.len() == 1);
    assert_eq!(member.answer(&mut theirs, &mut got, decide), Ok(1));
    let mut said = Vec::new();
    let each = |sent: Sent<'_>| {
        let mut bytes = vec![0; sent.packet.map_or(0, |packet| packet.len())];
        assert!(sent.packet.is_none_or(|packet| packet.read(&mut bytes)));
        said.push((sent.flow, bytes));
        60
    };
    assert_eq!(isolated.receive_each(9, each), Ok(4));
    let none = Vec::new;
    assert_eq!(said, [(false, vec![7; 60]), (false, none()), (false, none()), (true, none())]);
    let tally = isolated.tally();
    assert_eq!((tally.packets, tally.missed, tally.malformed), (4, 2, 0));
    assert_eq!(tally.copied, 60 + like.room() as u64 + 1 + 4 * 60);
    assert_eq!((isolated.held(), isolated.waiting(), isolated.supply(9)), (0, 0, 4));
    // Besides a true one: what it says it keeps, what is outside, and what it does not hold any more.
    let words = [0, 1 << 31, 9, u64::from(u16::MAX) << 48, 1 << 30];
    let to_server = 8 + 24 + 8;
    isolated.receive_each(0, |_| 0).unwrap();
    let word = |at: usize, word: u64| {
        let words = channel.words(8 * at, 1).unwrap();
        words[0].store(word, std::sync::atomic::Ordering::Release);
    };
    for (at, lie) in words.into_iter().enumerate() {
        word(to_server + 24 + (4 + at) % 4, lie);
        word(to_server, 5 + at as u64);
        isolated.receive_each(9, |_| 0).unwrap();
    }
    // The true one sent an empty buffer as a packet of no bytes.
    assert_eq!((isolated.tally().malformed, isolated.held()), (4, 3));
    word(to_server, 3);
    assert!(isolated.receive_each(9, |_| 0).is_err() && isolated.is_broken());
    assert_eq!((isolated.room(1), isolated.lend(&[1], 0)), (0, None));
}

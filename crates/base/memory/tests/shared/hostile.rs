//! Words and positions that are not true.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use linerate_memory::{
    ForeignRegion, Frame,
    shared::{Access, Isolated, Member, Server, WORDS},
};
use proptest::prelude::*;
use rustix::net::SendFlags;

use crate::{arena, pair};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A member that writes anything anywhere into its rings gets nothing that it does not hold, and
    /// nothing is lost.
    #[test]
    fn a_lying_member_harms_no_other(
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
            let _ = server.enqueue_shared(&[id], &mut frame);
            pool.give(&mut frame);
            let _ = server.supply(id, &mut pool, 1);
            let _ = server.receive(id, &mut pool, &mut frame);
            prop_assert!(arena.packets(&frame).all(|packet| packet.len() <= arena.buffer_size()));
            pool.give(&mut frame);
            prop_assert!(server.held(id) <= 4);
            pool.take(&mut frame, 1, 60);
            arena.for_each_mut(&mut frame, |bytes| bytes.fill(sent));
            sent = sent.wrapping_add(1);
            prop_assert_eq!(server.enqueue_shared(&[good], &mut frame).unwrap().packets, 1);
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

/// Two slots of a buffer would be two owners of its bytes, so that nothing a ring says can make them.
#[test]
fn no_word_makes_a_second_slot_of_a_buffer() {
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
        server.enqueue_shared(&[id], &mut frame).unwrap();
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
fn a_member_with_a_broken_ring_delays_no_other() {
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
    server.enqueue_batch(&mut [both; 8], true, &mut pool, &mut frame);
    assert!(server.is_broken(second) && !server.is_broken(first));
    assert_eq!((frame.len(), server.held(first), server.held(second)), (0, 8, 0));
    let mut got = Frame::new(8);
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(8));
    server.remove(second, &mut pool);
    server.remove(first, &mut pool);
    assert_eq!(arena.accounting().held, 0);
}

/// Rings without end on another thread until it is dropped.
fn flood(doorbell: OwnedFd) -> impl Drop {
    struct Flood(Arc<AtomicBool>, Option<JoinHandle<()>>);
    impl Drop for Flood {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
            self.1.take().unwrap().join().unwrap();
        }
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    let thread = thread::spawn(move || {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // A server that is kept is let go some day.
        let end = Instant::now() + Duration::from_secs(25);
        while !until.load(Ordering::Relaxed) && Instant::now() < end {
            let _ = rustix::net::send(&doorbell, &[1; 1 << 16], flags);
        }
    });
    Flood(is_over, Some(thread))
}

/// A doorbell costs the server one system call however often it is rung, and one that is rung without end
/// breaks the member.
#[test]
fn a_flooded_doorbell_delays_no_other() {
    let arena = arena();
    let mut server = Server::new(&arena).unwrap();
    // SAFETY: nothing maps the packets.
    let (id, files) = unsafe { server.admit(Access::Write, 8).unwrap() };
    assert!(server.arm(id) && !server.floods(id));
    rustix::net::send(&files.doorbell, &[1; 2], SendFlags::empty()).unwrap();
    assert!(server.arm(id) && !server.floods(id), "an honest one may be late");
    let flood = flood(files.doorbell);
    let until = Instant::now() + Duration::from_secs(20);
    while !server.floods(id) {
        server.arm(id);
        assert!(Instant::now() < until, "it is not noticed");
    }
    assert!(server.is_broken(id));
    // Unread, there are some hundred kilobytes.
    for _ in 0..100_000 {
        server.arm(id);
    }
    drop(flood);
    server.remove(id, &mut arena.cache(8));
    let (mut isolated, files) = Isolated::create(&arena, 8, true).unwrap();
    let flood = self::flood(files.doorbell);
    while !isolated.floods() {
        isolated.arm();
        assert!(Instant::now() < until, "it is not noticed");
    }
    assert!(isolated.is_broken());
    drop(flood);
}

/// Words that say nothing are taken a thousand at a time, however many there are.
#[test]
fn words_are_taken_so_many_at_a_time() {
    const CELLS: u64 = 1 << 14;
    let arena = arena();
    let mut server = Server::new(&arena).unwrap();
    // SAFETY: nothing maps the packets, and the rings may be written with anything.
    let (id, files) = unsafe { server.admit(Access::Write, CELLS as u32).unwrap() };
    let len = rustix::fs::fstat(&files.channel).unwrap().st_size as u64;
    let channel = ForeignRegion::map(&files.channel, len).unwrap();
    let tail = 8 * (8 + 24 + CELLS as usize);
    channel.words(tail, 1).unwrap()[0].store(CELLS, Ordering::Release);
    let (mut pool, mut frame) = (arena.cache(8), Frame::new(8));
    for turn in 1..=CELLS / WORDS as u64 {
        assert_eq!(server.receive(id, &mut pool, &mut frame), Ok(0));
        assert_eq!(server.malformed(id), turn * WORDS as u64);
    }
    assert_eq!(server.receive(id, &mut pool, &mut frame), Ok(0));
    assert_eq!(server.malformed(id), CELLS);
}

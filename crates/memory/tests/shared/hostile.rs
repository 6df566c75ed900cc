//! Words and positions that are not true.

use linerate_memory::{
    ForeignRegion, Frame,
    shared::{Access, Member, Server},
};
use proptest::prelude::*;

use crate::{arena, pair};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

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

//! Packets that go to members and come back, and their holders meanwhile.

use linerate_memory::{
    Arena, ForeignRegion, Frame,
    shared::{Access, Member},
};

use crate::{CELLS, pair};

#[test]
fn a_packet_goes_there_and_back_without_a_copy() {
    let (arena, mut server, id, mut member) = pair(Access::Write);
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let mut frame = Frame::new(4);
    pool.take(&mut frame, 1, 100);
    let index = arena.index_of(&frame.slots()[0]);
    arena.for_each_mut(&mut frame, |bytes| bytes.fill(1));
    server.enqueue_shared(&[id], &mut frame).unwrap();
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
    server.enqueue_shared(&[id], &mut frame).unwrap();
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
    // SAFETY: nothing is written, which is tested here.
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
    server.enqueue_shared(&[first, second], &mut frame).unwrap();
    let (mut one, mut two) = (Frame::new(1), Frame::new(1));
    member.receive(&mut theirs, &mut one).unwrap();
    reader.receive(&mut readers, &mut two).unwrap();
    // Sent on by one, lent to no member that has it.
    member.send(&mut theirs, &mut one).unwrap();
    member.give_back(&mut theirs, 0).unwrap();
    assert_eq!(server.receive(first, &mut pool, &mut frame), Ok(1));
    assert_eq!(server.enqueue_shared(&[second], &mut frame).unwrap().packets, 0);
    assert_eq!((server.held(first), server.held(second)), (0, 1));
    pool.give(&mut frame);
    assert_eq!(arena.accounting().held, 1);
    drop((reader, two));
    assert_eq!(server.remove(second, &mut pool), 1);
    assert_eq!(arena.accounting().held, 0);
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
    // The second holds two at most, so it misses the packets 4 and 6, and no member gets 1 and 6.
    let (one, two) = (first.bit(), second.bit());
    let mut to = [one, 0, two, one | two, one | two, one, two, one];
    server.enqueue_batch(&mut to, false, &mut pool, &mut frame);
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
    server.enqueue_batch(&mut [one, one | two, one], true, &mut pool, &mut frame);
    assert_eq!((frame.len(), server.held(first), server.tally(second).missed), (2, 6, 2));
    readers.give(&mut read);
    reader.give_back(&mut readers, 0).unwrap();
    assert_eq!(server.receive(second, &mut pool, &mut Frame::new(1)), Ok(0));
    server.enqueue_batch(&mut [one | two, one], true, &mut pool, &mut frame);
    assert_eq!((frame.len(), server.held(first), server.held(second)), (0, 8, 1));
    server.remove(first, &mut pool);
    server.remove(second, &mut pool);
    assert_eq!(arena.accounting().held, 0);
}

/// Bursts of one member and of two, more than are looked at at once: the packets of each, in order.
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
            // All to one, by turns, and with some for no member.
            let mut to: Vec<u64> = (0..frame.len())
                .map(|at| match round % 3 {
                    0 => two,
                    1 => [one, two, two][at % 3],
                    _ => [two, 0, one, two][at % 4],
                })
                .collect();
            let all: Vec<u8> = arena.packets(&frame).map(|packet| packet[0]).collect();
            let wanted = to.clone();
            server.enqueue_batch(&mut to, false, &mut pool, &mut frame);
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
    server.enqueue_batch(&mut [id.bit(), id.bit(), 0, id.bit()], false, &mut pool, &mut frame);
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

//! Members give back, keep and answer packets.

use linerate_memory::{Frame, shared::Access};

use crate::pair;

#[test]
fn a_buffer_stays_until_its_last_slot_is_returned() {
    for access in [Access::Write, Access::Read] {
        let (arena, mut server, id, mut member) = pair(access);
        let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
        let mut frame = Frame::new(16);
        for round in 0..40 {
            pool.take(&mut frame, 8, 60);
            server.enqueue_shared(&[id], &mut frame).unwrap();
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
fn a_program_keeps_wanted_buffers_and_reports_the_rest_in_batches() {
    let (arena, mut server, id, mut member) = pair(Access::Write);
    let (mut pool, mut theirs) = (arena.cache(8), member.arena().cache(8));
    let (mut frame, mut got) = (Frame::new(16), Frame::new(4));
    pool.take(&mut frame, 16, 60);
    server.enqueue_shared(&[id], &mut frame).unwrap();
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
        assert_eq!(server.enqueue_shared(&[id], &mut frame).unwrap().packets, 4);
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

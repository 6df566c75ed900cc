//! Arenas of all sizes, and their figures.
#![cfg(not(loom))]
#![allow(missing_docs, reason = "a test program")]

use linerate_memory::{ArenaOptions, Frame, MemoryError, PageKind};
use proptest::prelude::*;

fn small(size: usize) -> ArenaOptions {
    ArenaOptions { size, huge: false, ..ArenaOptions::default() }
}

/// The option that is refused, and the text.
fn refused(options: &ArenaOptions) -> (&'static str, String) {
    match options.create() {
        Err(error @ MemoryError::Option { option, .. }) => (option, error.to_string()),
        other => panic!("{options:?} gave {other:?}"),
    }
}

#[test]
fn small_arenas_work() {
    for size in [64 << 10, 4 << 20] {
        let arena = small(size).create().unwrap();
        assert_eq!((arena.size(), arena.pages()), (size, PageKind::Small));
        // Metadata and share counts cost 68 bytes for each buffer of 2,112.
        assert!(arena.count() * (arena.buffer_size() + 68) > size - 8192, "{}", arena.count());
        let mut pool = arena.cache(256);
        let mut frame = Frame::new(2048);
        assert_eq!(pool.take(&mut frame, usize::MAX, 1500), arena.count());
        let mut numbers = 0u32..;
        arena.for_each_mut(&mut frame, |bytes| {
            bytes.fill(numbers.next().unwrap_or(0) as u8);
        });
        for (n, bytes) in arena.packets(&frame).enumerate() {
            // Not byte by byte: Miri then remembers each borrow of each byte.
            assert!(bytes == vec![n as u8; bytes.len()]);
        }
        pool.give(&mut frame);
        assert_eq!(arena.accounting().held, 0);
    }
}

/// Packets are visited by fours, with the remainder behind.
#[test]
fn every_packet_of_a_frame_is_visited_once_and_in_order() {
    let arena = small(256 << 10).create().unwrap();
    let mut pool = arena.cache(32);
    for count in 0..=13u8 {
        let mut frame = Frame::new(16);
        pool.take(&mut frame, count.into(), 60);
        let mut number = 0;
        arena.for_each_mut(&mut frame, |bytes| {
            bytes[0] = number;
            number += 1;
        });
        let mut seen = Vec::new();
        arena.for_each(&frame, |bytes| seen.push(bytes[0]));
        assert_eq!(seen, (0..count).collect::<Vec<_>>());
        pool.give(&mut frame);
    }
}

#[test]
fn packets_are_sifted_with_all_of_them_at_hand() {
    let arena = small(1 << 20).create().unwrap();
    let mut pool = arena.cache(64);
    let mut frame = Frame::new(64);
    assert_eq!(pool.take(&mut frame, 40, 100), 40);
    for (n, slot) in (0..).zip(frame.slots_mut()) {
        arena.packet_mut(slot).unwrap()[0] = n;
        arena.meta_mut(slot).unwrap().paint = n;
    }
    // Shared packets are kept as they are.
    let copies: Vec<_> =
        frame.slots_mut().iter_mut().skip(30).map(|slot| pool.share(slot).unwrap()).collect();
    let mut out = Vec::new();
    arena.retain_packets(
        &mut frame,
        |packet| {
            let n = packet.meta().paint;
            assert_eq!((packet.bytes()[0], packet.len(), packet.is_empty()), (n, 100, false));
            let (bytes, meta) = packet.parts();
            bytes[99] = n;
            meta.port = n.into();
            assert!(packet.pull(10) && packet.push(5) && !packet.pull(96));
            packet.truncate(90);
            if n.is_multiple_of(3) { Err(n) } else { Ok(()) }
        },
        |place, slot, n| {
            assert_eq!((arena.meta(&slot).paint, place), (n, n.into()));
            out.push(slot);
        },
    );
    let first = |slot: &linerate_memory::Slot| arena.meta(slot).paint;
    let expected: Vec<u8> = (0..40).filter(|n| *n >= 30 || n % 3 != 0).collect();
    assert_eq!(frame.slots().iter().map(first).collect::<Vec<_>>(), expected);
    assert_eq!(out.iter().map(first).collect::<Vec<_>>(), [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]);
    for slot in out.iter().chain(frame.slots()) {
        let (n, length) = (first(slot), slot.len());
        assert_eq!(length, if n < 30 { 90 } else { 100 });
        assert_eq!(arena.meta(slot).port, if n < 30 { u16::from(n) } else { 0 });
    }
    out.into_iter().chain(copies).for_each(|slot| pool.give_one(slot));
    pool.give(&mut frame);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
fn the_region_covers_all_buffers() {
    let arena = small(64 << 10).create().unwrap();
    let (start, length) = arena.region();
    assert_eq!((start.as_ptr() as usize % 4096, length % 4096), (0, 0));
    let mut pool = arena.cache(4);
    let mut frame = Frame::new(64);
    pool.take(&mut frame, 64, 10);
    for slot in frame.slots() {
        let position = arena.position(slot);
        assert!(position - arena.headroom() + arena.buffer_size() <= length);
        assert_eq!(arena.packet(slot).as_ptr() as usize, start.as_ptr() as usize + position);
        let (buffer, offset) = arena.locate(position).unwrap();
        assert_eq!(offset as usize, slot.headroom());
        assert_eq!(arena.locate(position - offset as usize), Some((buffer, 0)));
    }
    assert_eq!(arena.locate(arena.count() * arena.buffer_size()), None);
    assert_eq!(arena.locate(usize::MAX), None);
    pool.give(&mut frame);
}

#[test]
fn options_out_of_range_are_refused_with_the_option() {
    let good = small(1 << 20);
    for (options, option) in [
        (ArenaOptions { size: 0, ..good.clone() }, "size"),
        (ArenaOptions { size: (64 << 10) - 1, ..good.clone() }, "size"),
        // No room for one buffer, though the size is in range.
        (ArenaOptions { size: 64 << 10, buffer_size: 65_000, ..good.clone() }, "size"),
        (ArenaOptions { buffer_size: 63, ..good.clone() }, "buffer_size"),
        (ArenaOptions { buffer_size: 65_473, ..good.clone() }, "buffer_size"),
        // The stride of this one would overflow.
        (ArenaOptions { buffer_size: usize::MAX, headroom: 60_000, ..good.clone() }, "buffer_size"),
        (ArenaOptions { headroom: 2112, ..good.clone() }, "headroom"),
        (ArenaOptions { headroom: usize::MAX, ..good.clone() }, "headroom"),
    ] {
        assert_eq!(refused(&options).0, option);
    }
    let least = ArenaOptions { size: 64 << 10, buffer_size: 65_000, ..good };
    let (_, text) = refused(&least);
    assert!(text.contains("choose at least 68 KiB"), "{text}");
    assert_eq!(ArenaOptions { size: 68 << 10, ..least }.create().unwrap().count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 64 }))]
    /// With any options: an arena that keeps its promises, or an error.
    #[test]
    fn any_options_give_an_arena_or_an_error(
        size in prop_oneof![0..(1usize << 20), (1usize << 47)..usize::MAX],
        buffer_size in prop_oneof![60..70_000usize, any::<usize>()],
        headroom in prop_oneof![0..300usize, any::<usize>()],
        gradual in any::<bool>(),
    ) {
        let options =
            ArenaOptions { size, buffer_size, headroom, huge: false, gradual, ..Default::default() };
        match options.create() {
            Ok(arena) => {
                prop_assert!(arena.count() >= 1 && arena.size() >= size);
                prop_assert!(arena.buffer_size() >= buffer_size);
                prop_assert_eq!(arena.room() + arena.headroom(), arena.buffer_size());
                prop_assert_eq!(arena.buffer_size() / 64 % 2, 1);
                let mut pool = arena.cache(1);
                let mut slot = pool.take_one(arena.room()).unwrap();
                arena.packet_mut(&mut slot).unwrap().fill(1);
                pool.give_one(slot);
            }
            Err(MemoryError::TooLarge { .. }) => prop_assert!(size >= 1 << 47),
            Err(MemoryError::Option { .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no machine")]
fn more_than_the_machine_has_is_refused_with_both_figures() {
    for (size, huge) in [(1 << 45, false), (1 << 45, true), (usize::MAX, true)] {
        let error = ArenaOptions { huge, ..small(size) }.create().unwrap_err();
        let MemoryError::TooLarge { wanted, available } = error else { panic!("{error}") };
        assert_eq!(wanted, size as u64 >> 20);
        assert!(available > 0 && available < wanted);
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no NUMA nodes")]
fn the_first_node_can_be_asked_for_and_a_missing_one_is_named() {
    let arena = ArenaOptions { node: Some(0), ..small(1 << 20) }.create().unwrap();
    assert_eq!(arena.size(), 1 << 20);
    for node in [63, 64, u32::MAX] {
        let (option, text) = refused(&ArenaOptions { node: Some(node), ..small(1 << 20) });
        assert!(option == "node" && text.contains("lscpu"), "{text}");
    }
}

#[test]
fn buffer_numbers_in_use_outlive_the_arena() {
    let make = || ArenaOptions { buffer_size: 320, ..small(96 << 10) }.create().unwrap();
    let first = make();
    let mut pool = first.cache(4);
    let slot = pool.take_one(1).unwrap();
    drop((pool, first));
    // A hundred arenas of that size later, the slot still belongs to none of them.
    for _ in 0..if cfg!(miri) { 3 } else { 100 } {
        let later = make();
        let mut slot = Some(&slot);
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            later.position(slot.take().unwrap())
        }));
        assert!(found.is_err(), "the slot names a buffer of another arena");
    }
    let _ = slot.into_raw();
}

#[test]
fn packets_are_visited_with_their_metadata() {
    let arena = small(1 << 20).create().unwrap();
    let mut pool = arena.cache(64);
    for count in [0, 1, 3, 4, 5, 17] {
        let mut frame = Frame::new(32);
        assert_eq!(pool.take(&mut frame, count, 1), count);
        for (at, slot) in frame.slots_mut().iter_mut().enumerate() {
            arena.packet_mut(slot).unwrap()[0] = at as u8;
            arena.meta_mut(slot).unwrap().port = at as u16;
        }
        // Shared packets are visited as well.
        let mut copies = Frame::new(32);
        if let Some(copy) = frame.slots_mut().first_mut().and_then(|slot| pool.share(slot)) {
            assert!(copies.push(copy).is_ok());
        }
        let mut seen = Vec::new();
        arena.for_each_described(&frame, |_, bytes, meta| seen.push((bytes[0], meta.port)));
        assert_eq!(seen, (0..count).map(|at| (at as u8, at as u16)).collect::<Vec<_>>());
        pool.give(&mut copies);
        pool.give(&mut frame);
    }
}

/// A packet with its addresses at hand has the bytes and metadata that arena and slot give, and
/// only a sole holder may write it.
#[test]
fn packets_at_hand_are_read_by_all_and_written_by_one() {
    let arena = small(256 << 10).create().unwrap();
    let mut pool = arena.cache(8);
    let mut frame = Frame::new(4);
    let mut slot = pool.take_one(4).unwrap();
    arena.packet_mut(&mut slot).unwrap().copy_from_slice(b"abcd");
    arena.meta_mut(&mut slot).unwrap().paint = 7;
    let copy = pool.share(&mut slot).unwrap();
    frame.push(slot).unwrap();
    frame.push(copy).unwrap();
    let mut seen = 0;
    arena.retain_read(
        &mut frame,
        |packet| {
            assert_eq!((packet.bytes(), packet.meta().paint), (&b"abcd"[..], 7));
            assert!(packet.writable().is_none() && packet.pull(1 + seen) && packet.push(1));
            assert_eq!(packet.bytes(), &b"abcd"[seen..]);
            seen += 1;
            if seen == 1 { Ok(()) } else { Err(()) }
        },
        |_, slot, ()| pool.give_one(slot),
    );
    // The other holder is gone.
    let slot = &mut frame.slots_mut()[0];
    assert!(pool.unshare(slot));
    let mut packet = arena.writable(slot).unwrap();
    packet.bytes_mut()[0] = b'x';
    packet.meta_mut().paint = 8;
    assert!(packet.prepend(2) && packet.append(1));
    assert_eq!((packet.len(), &packet.bytes()[2..6]), (7, &b"xbcd"[..]));
    let all = arena.buffer_size();
    assert!(!packet.prepend(all) && packet.append(all - 7));
    assert_eq!((packet.headroom(), &packet.bytes()[2..6]), (0, &b"xbcd"[..]));
    assert_eq!(packet.meta().paint, 8);
    pool.give(&mut frame);
    assert_eq!(arena.accounting().held, 0);
}

/// Header places stay right, both when only the start of a packet moves and when all of its bytes
/// do.
#[test]
fn header_starts_move_with_their_bytes() {
    let arena = small(256 << 10).create().unwrap();
    let mut pool = arena.cache(8);
    let mut slot = pool.take_one(6).unwrap();
    arena.packet_mut(&mut slot).unwrap().copy_from_slice(b"abcdef");
    let mut packet = arena.writable(&mut slot).unwrap();
    packet.mark_headers(2, 4);
    let headers = |packet: &linerate_memory::PacketMut<'_>| {
        [packet.network(), packet.transport()].map(|at| packet.bytes().get(at).copied())
    };
    assert!(packet.pull(1));
    assert_eq!(headers(&packet), [Some(b'c'), Some(b'e')]);
    assert!(packet.pull(2));
    assert_eq!(headers(&packet), [None, Some(b'e')]);
    assert!(packet.push(3));
    // No room in front, and none behind.
    let front = packet.headroom() + 3;
    assert!(packet.prepend(front));
    assert_eq!((packet.network(), headers(&packet)), (front + 2, [Some(b'c'), Some(b'e')]));
    assert!(packet.pull(front));
    let room = arena.buffer_size() - packet.headroom() - packet.len();
    assert!(packet.append(room + 2));
    assert_eq!((packet.network(), headers(&packet)), (2, [Some(b'c'), Some(b'e')]));
    pool.give_one(slot);
}

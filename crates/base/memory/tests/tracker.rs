//! Debug builds notice what a driver's unsafe code can get wrong.
#![cfg(all(debug_assertions, not(loom)))]
#![allow(missing_docs, reason = "a test program")]

use linerate_memory::{Arena, ArenaOptions, Frame, PoolCache, RawSlot, Slot};

fn pool() -> (Arena, PoolCache) {
    let options = ArenaOptions { size: 64 << 10, huge: false, ..Default::default() };
    let arena = options.create().unwrap();
    let pool = arena.cache(4);
    (arena, pool)
}

/// A second slot for a buffer, as a driver that got a name twice would make.
fn forge(raw: RawSlot) -> Slot {
    // SAFETY: breaks the contract of `from_raw` on purpose; debug builds stop
    // before the slot is used for anything but a look at the tracker.
    unsafe { Slot::from_raw(raw) }
}

#[test]
#[should_panic(expected = "was given back twice")]
fn giving_back_twice() {
    let (_arena, mut pool) = pool();
    let raw = pool.take_one(1).unwrap().into_raw();
    pool.give_one(forge(raw));
    pool.give_one(forge(raw));
}

#[test]
#[should_panic(expected = "was given back twice")]
fn giving_back_twice_in_a_frame() {
    let (_arena, mut pool) = pool();
    let raw = pool.take_one(1).unwrap().into_raw();
    let mut frame = Frame::new(4);
    frame.push(forge(raw)).unwrap();
    frame.push(forge(raw)).unwrap();
    pool.give(&mut frame);
}

#[test]
#[should_panic(expected = "used after given back")]
fn reading_after_giving_back() {
    let (arena, mut pool) = pool();
    let raw = pool.take_one(1).unwrap().into_raw();
    pool.give_one(forge(raw));
    let _ = arena.packet(&forge(raw));
}

#[test]
#[should_panic(expected = "used after given back")]
fn writing_after_giving_back() {
    let (arena, mut pool) = pool();
    let raw = pool.take_one(1).unwrap().into_raw();
    pool.give_one(forge(raw));
    let _ = arena.packet_mut(&mut forge(raw));
}

#[test]
#[should_panic(expected = "used after given back")]
fn metadata_after_giving_back() {
    let (arena, mut pool) = pool();
    let raw = pool.take_one(1).unwrap().into_raw();
    pool.give_one(forge(raw));
    let _ = arena.meta_mut(&mut forge(raw));
}

#[test]
#[should_panic(expected = "does not exist")]
fn an_index_behind_the_last_buffer() {
    let (arena, mut pool) = pool();
    let slot = pool.take_one(1).unwrap();
    let (first, _) = arena.locate(0).unwrap();
    // The range of numbers is a power of two, the count is not.
    assert!(!arena.count().is_power_of_two());
    let _ =
        arena.packet(&forge(RawSlot { buffer: first + arena.count() as u32, ..slot.into_raw() }));
}

#[test]
#[should_panic(expected = "belongs to another arena")]
fn an_index_of_another_arena() {
    let (arena, mut pool) = pool();
    let other = self::pool();
    let slot = pool.take_one(1).unwrap();
    let (foreign, _) = other.0.locate(0).unwrap();
    let _ = arena.packet(&forge(RawSlot { buffer: foreign, ..slot.into_raw() }));
}

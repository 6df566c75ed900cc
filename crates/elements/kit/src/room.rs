//! Making packets longer at either end.
//!
//! A packet that has no room left at that end is moved inside its buffer, which
//! is rare: the pool leaves room in front, and buffers are larger than frames.

use linerate_memory::{Arena, Slot};

/// Adds `count` bytes in front, which hold what was there, or zero where the
/// packet had to be moved. `false`, changing nothing, when the buffer is too
/// small, or the packet would have to be moved and is shared.
#[inline]
pub fn push(arena: &Arena, slot: &mut Slot, count: usize) -> bool {
    slot.push(count) || push_moving(arena, slot, count)
}

#[cold]
fn push_moving(arena: &Arena, slot: &mut Slot, count: usize) -> bool {
    let (length, headroom) = (slot.len(), slot.headroom());
    let Some(lack) = count.checked_sub(headroom) else { return false };
    if slot.is_shared() || !arena.resize(slot, length + lack) {
        return false;
    }
    if let Some(bytes) = arena.packet_mut(slot) {
        bytes.copy_within(..length, lack);
        bytes[..lack].fill(0);
    }
    slot.push(headroom)
}

/// Adds `count` bytes at the end, which hold anything. `false`, changing
/// nothing, when the buffer is too small or the packet is shared.
#[inline]
pub fn put(arena: &Arena, slot: &mut Slot, count: usize) -> bool {
    let length = slot.len() + count;
    !slot.is_shared() && (arena.resize(slot, length) || put_moving(arena, slot, count))
}

#[cold]
fn put_moving(arena: &Arena, slot: &mut Slot, count: usize) -> bool {
    let (length, headroom) = (slot.len(), slot.headroom());
    let room = arena.buffer_size() - headroom - length;
    let Some(lack) = count.checked_sub(room) else { return false };
    if !slot.push(lack) {
        return false;
    }
    if let Some(bytes) = arena.packet_mut(slot) {
        bytes.copy_within(lack.., 0);
    }
    arena.resize(slot, length + count)
}

/// Moves the packet's bytes so that its first is `offset` bytes behind a
/// multiple of `modulus`. `false` when there is no room or it is shared.
pub fn align(arena: &Arena, slot: &mut Slot, modulus: usize, offset: usize) -> bool {
    let start = arena.packet(slot).as_ptr() as usize;
    let up = (offset + modulus - start % modulus) % modulus;
    if up == 0 {
        return true;
    }
    if slot.is_shared() {
        return false;
    }
    let length = slot.len();
    if arena.resize(slot, length + up) {
        if let Some(bytes) = arena.packet_mut(slot) {
            bytes.copy_within(..length, up);
        }
        return slot.pull(up);
    }
    let down = modulus - up;
    if !slot.push(down) {
        return false;
    }
    if let Some(bytes) = arena.packet_mut(slot) {
        bytes.copy_within(down.., 0);
    }
    slot.truncate(length);
    true
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    /// A packet `abcdef` with 10 bytes in front of it in a buffer of 64.
    fn with_packet(test: impl FnOnce(&Arena, &mut Slot)) {
        let options = ArenaOptions {
            size: 64 << 10,
            buffer_size: 64,
            headroom: 10,
            huge: false,
            ..ArenaOptions::default()
        };
        let mut pool = options.create().unwrap().cache(4);
        let mut slot = pool.take_one(6).unwrap();
        let arena = pool.arena().clone();
        arena.packet_mut(&mut slot).unwrap().copy_from_slice(b"abcdef");
        test(&arena, &mut slot);
        pool.give_one(slot);
    }

    #[test]
    fn pushing_beyond_the_headroom_moves_the_packet() {
        with_packet(|arena, slot| {
            assert!(push(arena, slot, 4));
            assert_eq!((slot.headroom(), slot.len()), (6, 10));
            assert!(slot.pull(4));
            assert!(push(arena, slot, 13));
            assert_eq!((slot.headroom(), slot.len()), (0, 19));
            assert_eq!(arena.packet(slot)[10..], *b"\0\0\0abcdef");
            let size = arena.buffer_size();
            assert!(!push(arena, slot, size));
            assert_eq!(slot.len(), 19);
            assert!(push(arena, slot, size - 19));
            assert_eq!(arena.packet(slot)[size - 6..], *b"abcdef");
        });
    }

    #[test]
    fn putting_beyond_the_end_moves_the_packet() {
        with_packet(|arena, slot| {
            let size = arena.buffer_size();
            assert!(!put(arena, slot, size - 5));
            assert!(put(arena, slot, size - 6));
            assert_eq!((slot.headroom(), slot.len()), (0, size));
            assert_eq!(arena.packet(slot)[..6], *b"abcdef");
        });
    }

    #[test]
    fn aligning_keeps_the_bytes() {
        for modulus in [2, 4, 8] {
            for offset in 0..modulus {
                for full in [false, true] {
                    with_packet(|arena, slot| {
                        if full {
                            let all = arena.buffer_size() - slot.headroom();
                            assert!(arena.resize(slot, all));
                        }
                        let before = arena.packet(slot).to_vec();
                        assert!(align(arena, slot, modulus, offset));
                        assert_eq!(arena.packet(slot).as_ptr() as usize % modulus, offset);
                        assert_eq!(arena.packet(slot), before);
                    });
                }
            }
        }
    }
}

//! Headroom and tailroom: making packets longer at either end.
//!
//! A packet that has no room left at that end is moved inside its buffer, which
//! is rare: the pool leaves room in front, and buffers are larger than frames.

use linerate_memory::{Arena, Frame, PacketMut, Slot};

/// Adds `count` bytes in front, which keep their old contents, or are zero where the packet had to
/// be moved. `false`, changing nothing, when the buffer is too small, or the packet would have to
/// be moved and is shared.
#[inline]
pub fn push(arena: &Arena, slot: &mut Slot, count: usize) -> bool {
    slot.push(count) || arena.writable(slot).is_some_and(|mut packet| packet.prepend(count))
}

/// Moves those packets inside their buffers that have less than `length` bytes in
/// front, where that can be. They are not shared.
#[inline]
pub fn make(arena: &Arena, frame: &mut Frame, length: usize) {
    // Nearly always there is room; without an early end, which would be a branch
    // for each packet.
    let lacks = |any, slot: &Slot| any | (slot.headroom() < length);
    if frame.slots().iter().fold(false, lacks) {
        for slot in frame.slots_mut() {
            if slot.headroom() < length && push(arena, slot, length) {
                slot.pull(length);
            }
        }
    }
}

/// Puts a header in front of a packet, behind which the network header begins; `false`
/// when there is no room.
#[inline(always)]
pub fn put_header<const N: usize>(
    packet: &mut PacketMut<'_>,
    header: &[u8; N],
    annotated: bool,
) -> bool {
    if !packet.push(N) {
        return false;
    }
    if let Some(to) = packet.bytes_mut().first_chunk_mut() {
        *to = *header;
    }
    if annotated {
        packet.mark_network(N);
    }
    true
}

/// Adds `count` bytes at the end, which hold anything. `false`, changing
/// nothing, when the buffer is too small or the packet is shared.
#[inline]
pub fn put(arena: &Arena, slot: &mut Slot, count: usize) -> bool {
    arena.writable(slot).is_some_and(|mut packet| packet.append(count))
}

/// Moves the packet's bytes inside its buffer: `up` towards its end, or `down` towards its
/// start where there is no room for that. `false` when there is none for either.
pub fn shift(packet: &mut PacketMut<'_>, up: usize, down: usize) -> bool {
    let length = packet.len();
    if packet.resize(length + up) {
        let (bytes, meta) = packet.parts();
        bytes.copy_within(..length, up);
        meta.bytes_moved(up.cast_signed());
        return packet.pull(up);
    }
    if !packet.push(down) {
        return false;
    }
    let (bytes, meta) = packet.parts();
    bytes.copy_within(down.., 0);
    meta.bytes_moved(-down.cast_signed());
    packet.truncate(length);
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
    fn shifting_keeps_the_bytes() {
        for up in 1..8 {
            for full in [false, true] {
                with_packet(|arena, slot| {
                    if full {
                        let all = arena.buffer_size() - slot.headroom();
                        assert!(arena.resize(slot, all));
                    }
                    let (start, before) = (slot.headroom(), arena.packet(slot).to_vec());
                    assert!(shift(&mut arena.writable(slot).unwrap(), up, 8 - up));
                    assert_eq!(slot.headroom(), if full { start + up - 8 } else { start + up });
                    assert_eq!(arena.packet(slot), before);
                });
            }
        }
    }
}

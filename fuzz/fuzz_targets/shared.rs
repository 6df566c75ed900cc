//! Malicious member of a shared arena, which writes the bytes of the input into the words it shares
//! with the server, beside a member that does as it should.
//!
//! Asserted besides the absence of panics: the server is given no packet that it has already, or
//! that the good member has to itself; packets of the good member are whole, in order and complete;
//! the next member gets on; and when both are gone every buffer is back.

#![no_main]

use std::{collections::BTreeSet, sync::atomic::Ordering};

use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{Bytes, show};
use linerate_memory::{
    Arena, ArenaOptions, ForeignRegion, Frame, PoolCache,
    shared::{Access, Member, MemberId, Server, Word},
};

const CELLS: u32 = 8;
/// Words of a ring in front of its cells, and where each of its words is (`docs/shared-memory.md`).
const RING: usize = 24;
const TAIL: usize = 0;
const HEAD: usize = 8;
const SLEEPS: usize = 16;
/// Words of a channel in front of its rings: to the member, then to the server.
const TO_MEMBER: usize = 8;
const TO_SERVER: usize = TO_MEMBER + RING + CELLS as usize;
/// Bytes of packets.
const LENGTH: usize = 60;

/// A member of which only the words it shares are there.
struct MaliciousMember {
    id: MemberId,
    channel: ForeignRegion,
    /// Words it has put on its ring.
    tail: u64,
}

impl MaliciousMember {
    fn join(server: &mut Server, access: Access) -> MaliciousMember {
        // SAFETY: nothing maps the packets, and the rings may be written with anything.
        let (id, files) = unsafe { server.admit(access, CELLS).expect("a place is free") };
        let words = TO_SERVER + RING + CELLS as usize;
        let channel = ForeignRegion::map(&files.channel, 8 * words as u64).expect("a channel");
        MaliciousMember { id, channel, tail: 0 }
    }

    fn write(&self, at: usize, word: u64) {
        let words = self.channel.words(8 * at, 1).expect("inside of the channel");
        words[0].store(word, Ordering::Release);
    }

    /// Writes something, mostly where it matters.
    fn lie(&mut self, bytes: &mut Bytes<'_>, count: usize) {
        let word = match bytes.below(4) {
            // As a member that has the buffer would.
            0 | 1 => Word {
                index: bytes.below(count) as u32,
                offset: 128 + u16::from(bytes.byte()),
                length: u16::from(bytes.byte()),
                kept: bytes.one_in(3),
                empty: bytes.one_in(3),
                flow: bytes.one_in(3),
            }
            .pack(),
            2 => u64::from(bytes.byte()),
            _ => (0..8).fold(0, |word, _| word << 8 | u64::from(bytes.byte())),
        };
        match bytes.below(8) {
            0 => self.write(TO_SERVER + TAIL, word),
            1 => self.write(TO_SERVER + HEAD, word),
            2 => self.write(TO_MEMBER + HEAD, word),
            3 => self.write(TO_MEMBER + [TAIL, SLEEPS][bytes.below(2)], word),
            4 => self.write(TO_MEMBER + bytes.below(RING + CELLS as usize), word),
            _ => {
                self.write(TO_SERVER + RING + (self.tail % u64::from(CELLS)) as usize, word);
                self.tail += 1;
                self.write(TO_SERVER + TAIL, self.tail);
            }
        }
    }
}

struct World {
    arena: Arena,
    server: Server,
    pool: PoolCache,
    good: HonestMember,
    /// Packets of members that the server has.
    had: Frame,
}

/// The one that does as it should.
struct HonestMember {
    id: MemberId,
    member: Member,
    pool: PoolCache,
    frame: Frame,
    /// Packets lent to it, come back from it.
    lent: u8,
    back: u8,
}

impl World {
    fn new() -> World {
        let options = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        let arena = options.create().expect("a megabyte can be had");
        let mut server = Server::new(&arena).expect("a directory");
        // SAFETY: `Member` keeps to it.
        let (id, files) = unsafe { server.admit(Access::Write, CELLS).expect("a place is free") };
        // SAFETY: they come from a server of this process.
        let member = unsafe { Member::attach(files).expect("the files of a server") };
        let good = HonestMember {
            id,
            pool: member.arena().cache(16),
            member,
            frame: Frame::new(16),
            lent: 0,
            back: 0,
        };
        World { pool: arena.cache(16), server, good, arena, had: Frame::new(64) }
    }

    fn packets(&mut self, count: usize, first: u8) -> Frame {
        let mut frame = Frame::new(8);
        self.pool.take(&mut frame, count, LENGTH);
        for (at, slot) in frame.slots_mut().iter_mut().enumerate() {
            let packet = self.arena.packet_mut(slot).expect("a buffer of ours");
            packet.fill(first.wrapping_add(at as u8));
        }
        frame
    }

    /// A round of the good member: packets to it, and from it.
    fn honest(&mut self) {
        let mut frame = self.packets(3, self.good.lent);
        let lent =
            self.server.enqueue_shared(&[self.good.id], &mut frame).expect("a whole ring").packets;
        self.pool.give(&mut frame);
        let HonestMember { id, member, pool, frame, lent: all, back } = &mut self.good;
        *all = all.wrapping_add(lent as u8);
        member.receive(pool, frame).expect("a whole ring");
        member.send(pool, frame).expect("a whole ring");
        member.give_back(pool, 16).expect("a whole ring");
        let mut got = Frame::new(16);
        self.server.receive(*id, &mut self.pool, &mut got).expect("a whole ring");
        for packet in self.arena.packets(&got) {
            assert!(packet.len() == LENGTH && packet.iter().all(|byte| byte == back), "{packet:?}");
            *back = back.wrapping_add(1);
        }
        self.pool.give(&mut got);
        assert_eq!((member.malformed(), self.server.malformed(*id)), (0, 0));
    }

    /// Receives from the malicious one; `false` when its ring is broken.
    fn take_from(&mut self, id: MemberId) -> bool {
        let taken = self.server.receive(id, &mut self.pool, &mut self.had);
        let mut alone = BTreeSet::new();
        for slot in self.had.slots() {
            let position = self.arena.position(slot) - slot.headroom();
            assert!(slot.headroom() + slot.len() <= self.arena.buffer_size());
            assert!(alone.insert(position) || slot.is_shared(), "one buffer is two packets");
        }
        // All of it can be read.
        let _ = self.arena.packets(&self.had).flatten().fold(0u8, |sum, byte| sum ^ byte);
        if self.had.room() < 16 {
            self.pool.give(&mut self.had);
        }
        taken.is_ok()
    }

    fn run(&mut self, bytes: &mut Bytes<'_>) {
        let access = *bytes.choice(&[Access::Write, Access::Read]);
        let mut attacker = MaliciousMember::join(&mut self.server, access);
        while !bytes.0.is_empty() {
            let mut is_whole = true;
            match bytes.below(8) {
                0 | 1 => attacker.lie(bytes, self.arena.count()),
                2 => is_whole = self.take_from(attacker.id),
                3 => {
                    let (count, both) = (1 + bytes.below(4), bytes.one_in(2));
                    let mut frame = self.packets(count, 0xee);
                    let ids = [attacker.id, self.good.id];
                    // Nothing of these is the good one's alone: its numbers go on without them.
                    is_whole = self.server.enqueue_shared(&ids[..1], &mut frame).is_ok();
                    if both && is_whole && !self.had.is_empty() {
                        is_whole = self.server.enqueue_shared(&ids[..1], &mut self.had).is_ok();
                    }
                    self.pool.give(&mut frame);
                }
                4 => {
                    let count = bytes.below(6);
                    is_whole = self.server.supply(attacker.id, &mut self.pool, count).is_ok();
                }
                5 => drop(self.server.arm(attacker.id)),
                6 => self.pool.give(&mut self.had),
                _ => self.honest(),
            }
            if !is_whole || bytes.one_in(32) {
                self.server.remove(attacker.id, &mut self.pool);
                attacker = MaliciousMember::join(&mut self.server, access);
            }
        }
        self.server.remove(attacker.id, &mut self.pool);
        self.pool.give(&mut self.had);
        // Buffers underway are back after this.
        (0..3).for_each(|_| self.honest());
        assert_eq!(self.good.lent, self.good.back, "packets of the other are lost");
        assert_eq!(self.server.held(self.good.id), 0);
    }
}

fuzz_target!(|data: &[u8]| {
    show(format!("{data:?}"));
    let mut world = World::new();
    world.run(&mut Bytes(data));
    let World { arena, server, pool, good, had } = world;
    drop((server, pool, good, had));
    assert_eq!(arena.accounting().held, 0, "buffers are lost");
});

//! Member: the side that maps another process's arena.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{
    files::{self, Access, AttachError, Files, LEDGER, Region, TO_MEMBER},
    ledger::Ledger,
    ring::{Broken, Receiver, Sender},
    word::{KEPT, Word},
};
use crate::{
    arena::Arena,
    frame::Frame,
    pool::PoolCache,
    slot::{SHARED, Slot},
};

/// Most buffers returned before the server is told of them: telling it is a barrier here, and one
/// look of the server at this process's position then finds them all.
const RETURNED: usize = 64;

/// Ownership of a buffer by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    Nothing,
    /// This process alone has it.
    Alone,
    /// Other processes may hold it as well: it is returned when no slot of it is left here.
    Pinned,
    /// Pinned, and seen on the current pass over the list of those.
    Seen,
}

/// A process's place in another's arena.
///
/// Its [`Arena`] is one like any other: pools, graphs and ports work on it, with the buffers that the
/// server has lent. Packets that others hold too are shared ones there.
#[derive(Debug)]
pub struct Member {
    arena: Arena,
    ledger: Ledger<Region>,
    number: usize,
    access: Access,
    from_server: Receiver<Region>,
    to_server: Sender<Region>,
    doorbell: OwnedFd,
    /// By buffer.
    have: Vec<Ownership>,
    /// Buffers that this process has, and those of them that are pinned.
    held: usize,
    pins: usize,
    /// The pinned ones, and some that were: those are removed on the next pass over it.
    pinned: Vec<u32>,
    /// Buffers that are returned until the server is told of them, as long as there are packets.
    publish_batch: usize,
    malformed: u64,
}

impl Member {
    /// Maps the files that a server has handed out. Headers are checked on copies: all ranges used
    /// from them are inside the files, which cannot be made shorter.
    ///
    /// # Errors
    ///
    /// When a file is not what it should be, or the kernel refuses.
    ///
    /// # Safety
    ///
    /// The files come from [`Server::admit`](super::Server::admit) of a server that is trusted to lend
    /// no buffer that it, or a member it lets write, goes on writing to. They are attached once.
    pub unsafe fn attach(files: Files) -> Result<Member, AttachError> {
        // SAFETY: the caller's promise.
        unsafe { Member::map(files) }
    }

    /// Maps files that have come by a UNIX socket from a program of the same user, or of the
    /// superuser. Those could write to this process's memory anyway; so the promise to
    /// [`Member::attach`] is as true as it is of this process by itself.
    ///
    /// # Errors
    ///
    /// As there, and when the program at the other end has another user.
    pub fn attach_from(socket: BorrowedFd<'_>, files: Files) -> Result<Member, AttachError> {
        match files::stranger_at(socket)? {
            Some(user) => Err(AttachError::Stranger(user)),
            // SAFETY: as above; a server of our own kind hands out what `Server::admit` makes, once.
            None => unsafe { Member::map(files) },
        }
    }

    /// # Safety
    ///
    /// As [`Member::attach`].
    unsafe fn map(files: Files) -> Result<Member, AttachError> {
        let (directory, geometry) = files::open_directory(&files.directory)?;
        let (region, channel) = files::open_channel(&files.channel)?;
        let writable = channel.access == Access::Write;
        // SAFETY: the geometry was checked; the rest is the caller's promise. Only words that are
        // kept are adopted where it is read-only, see `receive`.
        let arena = unsafe { Arena::attach(files.packets, &geometry, writable)? };
        Ok(Member {
            ledger: Ledger::new(directory, LEDGER, geometry.count),
            number: channel.member as usize,
            access: channel.access,
            from_server: Receiver::new(region.clone(), TO_MEMBER, channel.cells),
            to_server: Sender::new(region, files::to_server(channel.cells), channel.cells),
            doorbell: files.doorbell,
            have: vec![Ownership::Nothing; geometry.count as usize],
            held: 0,
            pins: 0,
            pinned: Vec::with_capacity(4 * channel.cells as usize),
            publish_batch: RETURNED.min(channel.cells as usize / 8),
            malformed: 0,
            arena,
        })
    }

    /// The arena, with this process's part of it.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Access of this process to packets that are its alone.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Words of the server's that named no buffer it has lent.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Buffers that this process has of the server's.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes the buffers that the server has lent: packets go to the end of `frame`, as many as
    /// there is room for, empty buffers to `pool`. Returns how many packets there were.
    ///
    /// # Errors
    ///
    /// When the ring is broken.
    pub fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, Broken> {
        let before = frame.len();
        self.from_server.ready()?;
        let most = self.from_server.left().min(frame.room());
        if self.pinned.len() + most > self.pinned.capacity() {
            self.compact_pinned();
        }
        while frame.room() > 0 {
            if self.access == Access::Write {
                self.receive_front(frame, 0);
            }
            self.receive_front(frame, KEPT);
            if frame.room() == 0 {
                break;
            }
            let Some(word) = self.from_server.take() else { break };
            self.receive_one(word, pool, frame);
        }
        self.from_server.release();
        let received = frame.len() - before;
        if received == 0 {
            self.publish();
        }
        Ok(received)
    }

    /// Takes packets as long as each is one like most are, with these flags. The remaining words
    /// are looked at one by one.
    #[inline(always)]
    fn receive_front(&mut self, frame: &mut Frame, flags: u64) {
        let Member { arena, have, from_server, pinned, .. } = self;
        let stride = arena.buffer_size() as u32;
        let (mut cells, mut taken) = (from_server.cells(), 0);
        let limit = from_server.left().min(frame.room());
        let spare = &mut frame.spare()[..limit];
        for place in spare.iter_mut() {
            let word = cells.take();
            let Some((index, false)) = Word::plain(word, flags, stride) else { break };
            let Some(have) = have.get_mut(index) else { break };
            if *have != Ownership::Nothing {
                break;
            }
            let (index, offset, length) = (index as u32, (word >> 32) as u16, (word >> 48) as u16);
            // SAFETY: `plain` has checked the place, and this process has nothing of the buffer. The
            // server lends nothing again before it was returned (see `attach`).
            place.write(unsafe {
                if flags == KEPT {
                    *have = Ownership::Pinned;
                    pinned.push(index);
                    arena.adopt_pinned(index, offset, length)
                } else {
                    *have = Ownership::Alone;
                    arena.adopt(index, offset, length)
                }
            });
            taken += 1;
        }
        from_server.advance(taken);
        self.held += taken;
        self.pins += if flags == KEPT { taken } else { 0 };
        // SAFETY: so many were written above.
        unsafe { frame.grow(taken) };
    }

    fn receive_one(&mut self, word: u64, pool: &mut PoolCache, frame: &mut Frame) {
        let (count, stride) = (self.arena.count() as u32, self.arena.buffer_size() as u32);
        let word = Word::unpack(word, count, stride);
        let ours = |word: &Word| {
            self.ledger.holds(self.number, word.index)
                && (word.kept || self.access == Access::Write)
                && !word.flow
                && self.have[word.index as usize] == Ownership::Nothing
        };
        let Some(word) = word.filter(ours) else {
            self.malformed += 1;
            return;
        };
        // SAFETY: `unpack` has checked the place, and this process has nothing of the buffer. The server
        // lends nothing again before it was returned (see `attach`).
        let mut slot = unsafe { self.arena.adopt(word.index, word.offset, word.length) };
        self.have[word.index as usize] = Ownership::Alone;
        self.held += 1;
        if word.empty {
            pool.give_one(slot);
            return;
        }
        if word.kept {
            self.pin(&mut slot);
        }
        let _ = frame.push(slot).map_err(|slot| pool.give_one(slot));
    }

    /// Leaves each buffer in the list of pinned ones once, and none that is not.
    #[cold]
    fn compact_pinned(&mut self) {
        let have = &mut self.have;
        self.pinned.retain(|&index| {
            let have = &mut have[index as usize];
            let is_new = *have == Ownership::Pinned;
            if is_new {
                *have = Ownership::Seen;
            }
            is_new
        });
        self.pinned.iter().for_each(|&index| have[index as usize] = Ownership::Pinned);
    }

    fn pin(&mut self, slot: &mut Slot) {
        let index = self.arena.index_of(slot);
        if self.have[index] != Ownership::Pinned {
            self.arena.pin(slot);
            self.have[index] = Ownership::Pinned;
            self.pinned.push(index as u32);
            self.pins += 1;
        }
    }

    /// Returns true if a buffer that others hold can be returned: this process has no slot of it
    /// any more.
    fn try_unpin(&mut self, index: u32) -> bool {
        let unpinned = self.arena.try_unpin(index);
        if unpinned {
            self.pins -= 1;
            self.transfer_out(index);
        }
        unpinned
    }

    /// A buffer goes back to the server.
    fn transfer_out(&mut self, index: u32) {
        self.have[index as usize] = Ownership::Nothing;
        self.held -= 1;
        if self.pins == 0 {
            self.pinned.clear();
        }
    }

    /// Sends packets from the front of `frame` to the server, as many as fit; returns how many. One
    /// that is shared in this process stays here as well.
    ///
    /// # Errors
    ///
    /// When the ring is broken.
    pub fn send(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, Broken> {
        let sent = self.to_server.room(frame.len())?.min(frame.len());
        for at in 0..sent {
            let slot = &mut frame.slots_mut()[at];
            if slot.is_shared() {
                self.arena.reclaim_share(slot);
            }
            let slot = std::mem::replace(slot, Slot::compose(0, 0, 0));
            self.put(pool, slot, false);
        }
        // SAFETY: those slots have been sent, and their places hold none.
        unsafe { frame.forget_front(sent) };
        self.publish();
        Ok(sent)
    }

    /// Gives packets and buffers back, up to `count` of those free in `pool` and all shared ones that
    /// this process has no slot of any more. Returns how many. Call it every now and then: the server
    /// lends no more than the ring has cells.
    ///
    /// # Errors
    ///
    /// When the ring is broken.
    pub fn give_back(&mut self, pool: &mut PoolCache, count: usize) -> Result<usize, Broken> {
        let room = self.to_server.room(self.pins + count)?;
        let mut given = 0;
        let mut at = 0;
        while at < self.pinned.len() && given < room {
            let index = self.pinned[at];
            let is_pinned = self.have[index as usize] == Ownership::Pinned;
            if is_pinned && !self.arena.try_unpin(index) {
                at += 1;
                continue;
            }
            self.pinned.swap_remove(at);
            if is_pinned {
                self.to_server.put(returned(index));
                self.pins -= 1;
                self.transfer_out(index);
                given += 1;
            }
        }
        for _ in 0..count.min(room - given) {
            let Some(slot) = pool.take_one(0) else { break };
            self.put(pool, slot, true);
            given += 1;
        }
        self.publish();
        Ok(given)
    }

    /// Gives the packets of a frame back, for which there is always room: it is empty then. Those that
    /// this process has other slots of are returned by [`Member::give_back`] when those are gone, and as
    /// many as `keep` buffers of its own go to `pool`. Less work for each than by way of the pool.
    ///
    /// While more packets wait to be [received](Member::receive) the server is told of up to 64 at once.
    ///
    /// # Errors
    ///
    /// When the ring is broken.
    pub fn give_back_frame(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        mut keep: usize,
    ) -> Result<(), Broken> {
        let room = self.to_server.room(frame.len())?;
        let Member { arena, have, to_server, held, pins, .. } = self;
        let tag = arena.tag();
        let (mut cells, mut given) = (to_server.cells(), 0);
        frame.drain_front(frame.len(), |slot| {
            let index = (slot.buffer & !SHARED) ^ tag;
            let has = have.get(index as usize).copied().unwrap_or(Ownership::Nothing);
            let goes = given < room
                && match has {
                    Ownership::Pinned => arena.is_last_pinned(tag | index),
                    Ownership::Alone => keep == 0 && !slot.is_shared(),
                    Ownership::Nothing | Ownership::Seen => false,
                };
            if !goes {
                keep -= usize::from(has == Ownership::Alone && keep > 0);
                return pool.give_one(slot);
            }
            *pins -= usize::from(has == Ownership::Pinned);
            have[index as usize] = Ownership::Nothing;
            cells.put(returned(arena.transfer_out(slot)));
            given += 1;
        });
        *held -= given;
        to_server.advance(given);
        if self.pins == 0 {
            self.pinned.clear();
        }
        if self.from_server.left() == 0 || self.to_server.unpublished() >= self.publish_batch {
            self.publish();
        }
        Ok(())
    }

    /// Answers for packets, as many from the front of `frame` as fit: each is sent, or returned without
    /// being sent, and whether that holds for all of its flow, as `decide` says. This process has none of
    /// them any more. Returns how many were sent.
    ///
    /// # Errors
    ///
    /// When the ring is broken.
    pub fn answer(
        &mut self,
        pool: &mut PoolCache,
        frame: &mut Frame,
        mut decide: impl FnMut(&[u8]) -> (bool, bool),
    ) -> Result<usize, Broken> {
        let count = self.to_server.room(frame.len())?.min(frame.len());
        let mut sent = 0;
        frame.drain_front(count, |mut slot| {
            let (sends, flow) = decide(self.arena.packet(&slot));
            sent += usize::from(sends);
            let (offset, length) = (slot.headroom() as u16, slot.len() as u16);
            let is_ours = !slot.is_shared() || self.arena.reclaim_share(&mut slot);
            let (index, is_last) = if is_ours {
                let index = self.arena.transfer_out(slot);
                self.transfer_out(index);
                (index, true)
            } else {
                self.pin(&mut slot);
                let index = self.arena.index_of(&slot) as u32;
                pool.give_one(slot);
                (index, self.try_unpin(index))
            };
            // One that this process has another slot of is returned when that has gone.
            if is_last || sends {
                let (kept, empty) = (!is_last, !sends);
                self.to_server.put(Word { index, offset, length, kept, empty, flow }.pack());
            }
        });
        self.publish();
        Ok(sent)
    }

    /// Puts a slot on the ring, which has room.
    fn put(&mut self, pool: &mut PoolCache, mut slot: Slot, empty: bool) {
        let (offset, length, kept) = (slot.headroom() as u16, slot.len() as u16, slot.is_shared());
        let index = if kept {
            self.pin(&mut slot);
            let index = self.arena.index_of(&slot) as u32;
            pool.give_one(slot);
            index
        } else {
            let index = self.arena.transfer_out(slot);
            self.transfer_out(index);
            index
        };
        self.to_server.put(Word { index, offset, length, kept, empty, flow: false }.pack());
    }

    fn publish(&mut self) {
        if self.to_server.publish() {
            files::ring(&self.doorbell);
        }
    }

    /// Says that this process is going to sleep until the server lends something: `false` when it has.
    /// Waited for is [`Member::event`].
    pub fn arm(&mut self) -> bool {
        self.publish();
        files::drain(&self.doorbell);
        self.from_server.arm();
        let sleeps = matches!(self.from_server.ready(), Ok(0));
        if !sleeps {
            self.from_server.disarm();
        }
        sleeps
    }

    /// Descriptor that is readable once the server has lent something to a member that sleeps, and
    /// hangs up when the server has ended. [`Member::arm`] empties it.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

/// The word by which a buffer goes back.
fn returned(index: u32) -> u64 {
    let (kept, empty, flow) = (false, true, false);
    Word { index, offset: 0, length: 0, kept, empty, flow }.pack()
}

impl Drop for Member {
    fn drop(&mut self) {
        self.publish();
    }
}

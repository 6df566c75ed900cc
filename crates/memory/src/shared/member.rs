//! The side that maps another process's arena.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{
    files::{self, Access, AttachError, Files, LEDGER, Region, TO_MEMBER},
    ledger::Ledger,
    ring::{Broken, Receiver, Sender},
    word::Word,
};
use crate::{arena::Arena, frame::Frame, pool::PoolCache, slot::Slot};

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
    /// Buffers that other processes hold as well and this one has not returned.
    anchored: Vec<u32>,
    /// By buffer its place among those, counted from 1; 0 when it is none of them.
    anchors: Vec<u32>,
    malformed: u64,
}

impl Member {
    /// Maps what a server has handed out. Headers are checked on copies: all that is used of them is
    /// inside the files, which nobody can make shorter.
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

    /// The same with files that have come by a UNIX socket from a program of the same user, or of the
    /// superuser. Those could write to this process's memory anyway; so what is promised to
    /// [`Member::attach`] is as true as it is of this process by itself.
    ///
    /// # Errors
    ///
    /// As there, and when whoever is at the other end is somebody else.
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
            anchored: Vec::with_capacity(channel.cells as usize),
            anchors: vec![0; geometry.count as usize],
            malformed: 0,
            arena,
        })
    }

    /// The arena, with what this process has of it.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Whether this process may write to packets that are its alone.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Words of the server's that named no buffer it has lent.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Takes what the server has lent: packets go to the end of `frame`, as many as there is room
    /// for, empty buffers to `pool`. Returns how many packets there were.
    ///
    /// # Errors
    ///
    /// When the ring is broken.
    pub fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, Broken> {
        let (count, stride) = (self.arena.count() as u32, self.arena.buffer_size() as u32);
        let before = frame.len();
        self.from_server.ready()?;
        while frame.room() > 0 {
            let Some(word) = self.from_server.take() else { break };
            let word = Word::unpack(word, count, stride);
            let ours = |word: &Word| {
                self.ledger.holds(self.number, word.index)
                    && (word.kept || self.access == Access::Write)
                    && !word.flow
                    && !self.is_anchored(word.index)
            };
            let Some(word) = word.filter(ours) else {
                self.malformed += 1;
                continue;
            };
            // SAFETY: `unpack` has checked the place. The ledger says that it is lent to this process,
            // and the server lends nothing again before it was returned (see `attach`).
            let mut slot = unsafe { self.arena.adopt(word.index, word.offset, word.length) };
            if word.empty {
                pool.give_one(slot);
                continue;
            }
            if word.kept {
                self.anchor(&mut slot);
            }
            let _ = frame.push(slot).map_err(|slot| pool.give_one(slot));
        }
        self.from_server.release();
        Ok(frame.len() - before)
    }

    fn is_anchored(&self, index: u32) -> bool {
        self.anchors[index as usize] != 0
    }

    fn anchor(&mut self, slot: &mut Slot) {
        let index = self.arena.index_of(slot);
        if !self.is_anchored(index as u32) {
            self.arena.anchor(slot);
            self.anchored.push(index as u32);
            self.anchors[index] = self.anchored.len() as u32;
        }
    }

    /// Whether a buffer that others hold can be returned: this process has no slot of it any more.
    fn weigh_anchor(&mut self, index: u32) -> bool {
        let weighed = self.arena.weigh_anchor(index);
        if weighed {
            let at = std::mem::take(&mut self.anchors[index as usize]) as usize - 1;
            self.anchored.swap_remove(at);
            if let Some(&moved) = self.anchored.get(at) {
                self.anchors[moved as usize] = at as u32 + 1;
            }
        }
        weighed
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
        // SAFETY: those slots have been sent, and what is in their places is none.
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
        let room = self.to_server.room(self.anchored.len() + count)?;
        let mut given = 0;
        let mut at = 0;
        while at < self.anchored.len() && given < room {
            let index = self.anchored[at];
            if !self.weigh_anchor(index) {
                at += 1;
                continue;
            }
            let (kept, empty, flow) = (false, true, false);
            self.to_server.put(Word { index, offset: 0, length: 0, kept, empty, flow }.pack());
            given += 1;
        }
        for _ in 0..count.min(room - given) {
            let Some(slot) = pool.take_one(0) else { break };
            self.put(pool, slot, true);
            given += 1;
        }
        self.publish();
        Ok(given)
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
                (self.arena.part_with(slot), true)
            } else {
                self.anchor(&mut slot);
                let index = self.arena.index_of(&slot) as u32;
                pool.give_one(slot);
                (index, self.weigh_anchor(index))
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
            self.anchor(&mut slot);
            let index = self.arena.index_of(&slot) as u32;
            pool.give_one(slot);
            index
        } else {
            self.arena.part_with(slot)
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
        files::hush(&self.doorbell);
        self.from_server.arm();
        let sleeps = matches!(self.from_server.ready(), Ok(0));
        if !sleeps {
            self.from_server.disarm();
        }
        sleeps
    }

    /// What can be read once the server has lent something to a member that sleeps, and hangs up when
    /// it has ended. [`Member::arm`] empties it.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

//! Reception of packets and buffers from members.

use super::{
    super::{ring::Broken, word::Word},
    MemberId, Server,
};
use crate::{frame::Frame, pool::PoolCache, slot::Slot, sync::Ordering};

/// Most buffers that are freed to the pool at once.
const RUN: usize = 64;
/// Most words of a member's ring that one [`Server::receive`] takes. A member can write invalid words as fast
/// as they are taken, and other members wait meanwhile.
pub const WORDS: usize = 1024;

/// A packet or buffer that came from a member.
#[derive(Debug)]
pub struct Returned {
    /// The buffer.
    pub index: u32,
    /// Whether the member's verdict holds for the packet's whole flow.
    pub flow: bool,
    /// The packet that the member sent; `None` if it returned the buffer alone.
    pub packet: Option<Slot>,
}

impl Server {
    /// Dequeues at most [`WORDS`] words of a member: packets go to the end of `frame`, as long as
    /// it has room, and buffers without a holder to `pool`. Returns the number of packets.
    ///
    /// # Errors
    ///
    /// If the ring is broken: end the member's process and [remove](Server::remove) the member.
    pub fn receive(
        &mut self,
        id: MemberId,
        pool: &mut PoolCache,
        frame: &mut Frame,
    ) -> Result<usize, Broken> {
        let before = frame.len();
        self.begin_receiving(id)?;
        let left = self.peer(id).to_server.left();
        let end = left.saturating_sub(WORDS);
        while frame.room() > 0 {
            self.take_back_front(id, pool, frame, end);
            if frame.room() == 0 || self.peer(id).to_server.left() <= end {
                break;
            }
            let Some(word) = self.peer(id).to_server.take() else { break };
            if let Some(slot) = self.take_back(id, word, pool).and_then(|back| back.packet) {
                let _ = frame.push(slot).map_err(|slot| pool.give_one(slot));
            }
        }
        self.peer(id).to_server.release();
        Ok(frame.len() - before)
    }

    /// Dequeues at most `limit` words of a member, and calls `each` with every valid one. Returns
    /// the number of words.
    ///
    /// # Errors
    ///
    /// As [`Server::receive`].
    pub fn receive_each(
        &mut self,
        id: MemberId,
        pool: &mut PoolCache,
        limit: usize,
        mut each: impl FnMut(&mut PoolCache, Returned),
    ) -> Result<usize, Broken> {
        self.begin_receiving(id)?;
        let mut taken = 0;
        while taken < limit {
            let Some(word) = self.peer(id).to_server.take() else { break };
            taken += 1;
            if let Some(back) = self.take_back(id, word, pool) {
                each(pool, back);
            }
        }
        self.peer(id).to_server.release();
        Ok(taken)
    }

    fn begin_receiving(&mut self, id: MemberId) -> Result<(), Broken> {
        let peer = self.peer(id);
        if peer.to_server.ready().is_err() {
            peer.broken = true;
        }
        if peer.broken { Err(Broken) } else { Ok(()) }
    }

    /// Fast path: dequeues words until `end` are left, while the member is the only holder of the
    /// buffer and the frame has room. Nearly all words qualify; `take_back` handles the others.
    fn take_back_front(
        &mut self,
        id: MemberId,
        pool: &mut PoolCache,
        frame: &mut Frame,
        end: usize,
    ) {
        let Server { arena, ledger, members, shared, .. } = self;
        let peer = members[id.0].as_mut().expect("a member that was not removed");
        let (tag, stride) = (arena.tag(), arena.buffer_size() as u32);
        let holders = ledger.words();
        // The lengths are equal, so that one bounds check covers both arrays.
        let shared = &shared[..holders.len()];
        loop {
            let limit = RUN.min(peer.to_server.left().saturating_sub(end));
            let (mut cells, mut taken) = (peer.to_server.cells(), 0);
            let (mut numbers, mut empty) = ([0; RUN], 0);
            while taken < limit {
                let word = cells.take();
                let Some((index, is_empty)) = Word::plain(word, 0, stride) else { break };
                let Some(holder) = holders.get(index) else { break };
                if holder.load(Ordering::Relaxed) != id.bit() || shared[index] {
                    break;
                }
                let buffer = tag | index as u32;
                if is_empty {
                    numbers[empty] = buffer;
                    empty += 1;
                } else {
                    let slot = Slot::compose(buffer, (word >> 32) as u16, (word >> 48) as u16);
                    // A slot that does not fit is discarded: the ledger still names the holder.
                    if frame.push(slot).is_err() {
                        break;
                    }
                }
                // The holder is cleared at once, so that a second word for the buffer is refused.
                holder.store(0, Ordering::Relaxed);
                taken += 1;
            }
            peer.to_server.advance(taken);
            peer.held -= taken as u32;
            // SAFETY: the ledger said of each that the member held it, alone, so that its slot was lent
            // out, and unshared; and says now that it has no holder.
            unsafe { pool.give_numbers(&numbers[..empty]) };
            if taken < RUN {
                break;
            }
        }
    }

    /// Validates and executes a word of a member; counts an invalid one as malformed and returns
    /// `None`. A buffer without a holder and a packet is freed to `pool`.
    pub(super) fn take_back(
        &mut self,
        id: MemberId,
        word: u64,
        pool: &mut PoolCache,
    ) -> Option<Returned> {
        let (count, stride) = (self.arena.count() as u32, self.arena.buffer_size() as u32);
        let word = Word::unpack(word, count, stride);
        let Some(word) = word.filter(|word| self.ledger.holds(id.0, word.index)) else {
            self.peer(id).tally.malformed += 1;
            return None;
        };
        let Word { index, kept, empty, flow, .. } = word;
        let left = if kept {
            self.ledger.holders(index)
        } else {
            self.peer(id).held -= 1;
            self.ledger.release(id.0, index)
        };
        // SAFETY: `unpack` has checked the place, and the ledger that the slot is lent out.
        let mut lent = unsafe {
            let shared = self.shared[index as usize];
            self.shared[index as usize] &= left != 0;
            self.arena.restore(index, shared, (word.offset, word.length))
        };
        let packet = match (left, empty) {
            (0, true) => {
                pool.give_one(lent);
                None
            }
            (0, false) => Some(lent),
            (_, true) => None,
            (_, false) => {
                // The ledger keeps one share for all members.
                let packet = pool.share(&mut lent);
                self.shared[index as usize] = lent.is_shared();
                packet
            }
        };
        Some(Returned { index, flow, packet })
    }
}

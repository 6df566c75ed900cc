//! Links to consumers: packets are shared in place, or copied.

use std::os::fd::BorrowedFd;

use linerate_memory::{
    Frame, PoolCache, Slot,
    shared::{Broken, Isolated, MemberId, Sent, Server, Tally, WORDS},
};

/// Path of packets to a consumer.
#[derive(Debug)]
pub(super) enum Link {
    /// Packets stay where they were received.
    Sharing(MemberId),
    /// Packets are copied into memory of its own.
    Isolated(Box<Isolated>),
}

/// A consumer's answer about a packet.
#[derive(Debug)]
pub(super) struct Answer {
    /// The buffer, by the number that it was lent under.
    pub(super) index: u32,
    pub(super) flow: bool,
    /// Whether it sends the packet, and the packet: `None` if there was no buffer for it, or the consumer
    /// only reads.
    pub(super) sends: bool,
    pub(super) packet: Option<Slot>,
    pub(super) reads: bool,
}

impl Link {
    pub(super) fn held(&self, server: &Server) -> usize {
        match self {
            Link::Sharing(id) => server.held(*id),
            Link::Isolated(isolated) => isolated.held(),
        }
    }

    pub(super) fn tally(&self, server: &Server) -> Tally {
        match self {
            Link::Sharing(id) => server.tally(*id),
            Link::Isolated(isolated) => isolated.tally(),
        }
    }

    /// Returns true if it floods its doorbell.
    pub(super) fn floods(&self, server: &Server) -> bool {
        match self {
            Link::Sharing(id) => server.floods(*id),
            Link::Isolated(isolated) => isolated.floods(),
        }
    }

    pub(super) fn is_broken(&self, server: &Server) -> bool {
        match self {
            Link::Sharing(id) => server.is_broken(*id),
            Link::Isolated(isolated) => isolated.is_broken(),
        }
    }

    pub(super) fn waiting(&mut self, server: &mut Server) -> usize {
        match self {
            Link::Sharing(id) => server.waiting(*id),
            Link::Isolated(isolated) => isolated.waiting(),
        }
    }

    /// Announces that it is going to be lent so many packets.
    pub(super) fn expect(&self, server: &Server, count: usize) {
        if let Link::Sharing(id) = self {
            server.expect(*id, count);
        }
    }

    /// An upper bound of the waiting packets, known to an eighth of the ring's cells: reading a
    /// word that another processor writes takes longer each time than all else that is counted.
    pub(super) fn waiting_at_most(&mut self, server: &mut Server, cells: usize) -> usize {
        let seen = match self {
            Link::Sharing(id) => server.seen_waiting(*id),
            Link::Isolated(isolated) => isolated.seen_waiting(),
        };
        if seen > cells / 8 { self.waiting(server) } else { seen }
    }

    /// Packets it can be lent now, at most `wanted`.
    pub(super) fn room(&mut self, server: &mut Server, wanted: usize) -> usize {
        match self {
            Link::Sharing(id) => server.room_of(*id, wanted),
            Link::Isolated(isolated) => isolated.room(wanted),
        }
    }

    pub(super) fn event<'a>(&'a self, server: &'a Server) -> BorrowedFd<'a> {
        match self {
            Link::Sharing(id) => server.event(*id),
            Link::Isolated(isolated) => isolated.event(),
        }
    }

    pub(super) fn arm(&mut self, server: &mut Server) -> bool {
        match self {
            Link::Sharing(id) => server.arm(*id) || server.is_broken(*id),
            Link::Isolated(isolated) => isolated.arm() || isolated.is_broken(),
        }
    }

    /// Lends `count` empty buffers at most; returns how many.
    pub(super) fn supply(&mut self, server: &mut Server, pool: &mut PoolCache, count: u32) -> u32 {
        let lent = match self {
            Link::Sharing(id) => server.supply(*id, pool, count as usize).unwrap_or(0),
            Link::Isolated(isolated) => isolated.supply(count as usize),
        };
        lent as u32
    }

    /// Takes packets that it has sent, as many as the frame has room for, and [`WORDS`] words at most;
    /// returns how many packets, and how many more were lost: there was no buffer, or it only reads and
    /// `originals` has no packet for it. These are the packets that its copies were made of, by buffer.
    pub(super) fn receive(
        &mut self,
        server: &mut Server,
        originals: &mut [Option<Slot>],
        pool: &mut PoolCache,
        frame: &mut Frame,
    ) -> (usize, usize) {
        let before = frame.len();
        match self {
            Link::Sharing(id) => (server.receive(*id, pool, frame).unwrap_or(0), 0),
            Link::Isolated(isolated) => {
                // Words without a packet leave the frame its room.
                let (mut left, mut lost) = (WORDS, 0);
                while left > 0 && frame.room() > 0 {
                    let limit = frame.room().min(left);
                    let words = isolated.receive_each(limit, |sent| {
                        let original =
                            originals.get_mut(sent.index as usize).and_then(Option::take);
                        let (slot, bytes) = match original {
                            Some(slot) if sent.passes => (slot, 0),
                            Some(slot) => {
                                pool.give_one(slot);
                                return 0;
                            }
                            None => {
                                let Some(slot) = copied(&sent, pool) else {
                                    lost += usize::from(sent.passes);
                                    return 0;
                                };
                                let bytes = slot.len() as u64;
                                (slot, bytes)
                            }
                        };
                        let _ = frame.push(slot).map_err(|slot| pool.give_one(slot));
                        bytes
                    });
                    match words {
                        Ok(words) if words == limit => left -= words,
                        _ => break,
                    }
                }
                (frame.len() - before, lost)
            }
        }
    }

    /// Takes its answers about packets, `limit` words at most.
    pub(super) fn answers(
        &mut self,
        server: &mut Server,
        pool: &mut PoolCache,
        limit: usize,
        mut each: impl FnMut(&mut PoolCache, Answer),
    ) -> Result<usize, Broken> {
        match self {
            Link::Sharing(id) => server.receive_each(*id, pool, limit, |pool, back| {
                let (index, flow, packet) = (back.index, back.flow, back.packet);
                each(pool, Answer { index, flow, sends: packet.is_some(), packet, reads: false });
            }),
            Link::Isolated(isolated) => {
                let reads = !isolated.sends();
                isolated.receive_each(limit, |sent| {
                    let packet = copied(&sent, pool);
                    let bytes = packet.as_ref().map_or(0, |slot| slot.len() as u64);
                    let (index, flow, sends) = (sent.index, sent.flow, sent.passes);
                    each(pool, Answer { index, flow, sends, packet, reads });
                    bytes
                })
            }
        }
    }
}

/// Copies a packet that an isolated consumer has sent into a buffer of ours; `None` when it sent
/// nothing, or there is no buffer, or none that is so long.
fn copied(sent: &Sent<'_>, pool: &mut PoolCache) -> Option<Slot> {
    let bytes = sent.packet?;
    if bytes.len() > pool.arena().room() {
        return None;
    }
    let mut slot = pool.take_one(bytes.len())?;
    let read = pool.arena().packet_mut(&mut slot).is_some_and(|to| bytes.read(to));
    debug_assert!(read, "a buffer of ours that is as long");
    Some(slot)
}

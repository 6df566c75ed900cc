//! A consumer: packets in bursts.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use linerate_cluster::{
    figures::{FigureView, Figures},
    wire::{Access, Reason, Reply, Request},
};
use linerate_memory::{
    Arena, Frame, PoolCache,
    shared::{self, Files, Member},
};
use linerate_port::peer::{self, event::EventSet};

use crate::{ClientError, Connection};

/// Packets of a burst.
const BURST: usize = 64;
/// Number of empty bursts after which a consumer looks whether the server is still there.
const LOOK: u32 = 256;

/// Verdict on a packet, given by an inline consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The packet goes on, changed or not.
    Pass,
    /// The packet is dropped.
    Drop,
    /// The packet goes on, and so do from now on all of its flow, in both directions, unasked.
    PassFlow,
    /// The packet is dropped, and so are from now on all of its flow, in both directions, unasked.
    DropFlow,
}

/// A consumer that is attached to a cluster, until it is dropped.
///
/// Packets lie in the server's memory. They belong to this program until it sends them, or until
/// the next [`receive`](Consumer::receive), which gives them back: so a slow program loses packets
/// of its own and keeps no packets of others. When it ends, in any way, the server takes its
/// packets back.
#[derive(Debug)]
pub struct Consumer {
    member: Member,
    access: Access,
    asked: bool,
    pool: PoolCache,
    burst: Frame,
    out: Frame,
    /// Empty buffers that are kept for packets of our own.
    spare: usize,
    events: EventSet,
    figures: FigureView,
    line: usize,
    /// The next burst, where packets have come with empty buffers that were looked for.
    ahead: Frame,
    /// Times nothing was found, since the last look at the server.
    idle: u32,
    /// The reason the server has given for the end of this consumer.
    ended: Option<Reason>,
    /// Closed last: it tells the server that the memory is let go.
    connection: Connection,
}

impl Consumer {
    /// Attaches to the cluster at a socket as the consumer of that name, with the access it grants.
    ///
    /// # Errors
    ///
    /// When no server listens there, the name is not known or taken, or the memory cannot be had.
    pub fn attach(address: &str, name: &str) -> Result<Consumer, ClientError> {
        Consumer::attach_for(address, name, None)
    }

    /// Attaches as [`Consumer::attach`], with this access.
    ///
    /// # Errors
    ///
    /// As there, and when that is not granted.
    pub fn attach_for(
        address: &str,
        name: &str,
        access: Option<Access>,
    ) -> Result<Consumer, ClientError> {
        let connection = Connection::open(address)?;
        let (reply, files) = connection.ask(&Request::Attach { name: name.into(), access })?;
        let Reply::Attached { line, access, spare, asked } = reply else {
            return Err(ClientError::Protocol("that is no answer"));
        };
        let Ok([directory, packets, channel, doorbell, figures]) = <[_; 5]>::try_from(files) else {
            return Err(ClientError::Protocol("it hands over too little"));
        };
        let figures = FigureView::open(figures)?;
        let files = Files { directory, packets, channel, doorbell };
        let member = Member::attach_from(connection.as_fd(), files)?;
        let events = EventSet::new(&[])?;
        events.add(member.event())?;
        events.add(&connection)?;
        let pool = member.arena().cache(2 * BURST);
        Ok(Consumer {
            pool,
            member,
            access,
            asked,
            burst: Frame::new(BURST),
            out: Frame::new(BURST),
            spare: spare as usize,
            events,
            figures,
            line: line as usize % linerate_cluster::figures::LINES,
            ahead: Frame::new(BURST),
            idle: 0,
            ended: None,
            connection,
        })
    }

    /// The access of this program: [`Access::Write`] lets it write packets that have no other
    /// owner, [`Access::Isolated`] all, for they are copies.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Number of empty buffers that the server lets it have for packets of its own: none where it
    /// may only read, or its packets have no receiver.
    pub fn spare(&self) -> usize {
        self.spare
    }

    /// Returns true if the server asks this program for verdicts on packets, see
    /// [`Consumer::answer`].
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Gives back the rest of the last burst and takes the next, up to 64 packets; returns how
    /// many. Never waits.
    ///
    /// # Errors
    ///
    /// When the server is gone or has ended this consumer, which is noticed when there are no
    /// packets.
    pub fn receive(&mut self) -> Result<usize, ClientError> {
        self.receive_at_most(BURST)
    }

    /// As [`Consumer::receive`], at most `limit` packets: those behind them stay with the server,
    /// for programs that take a certain number and end.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn receive_at_most(&mut self, limit: usize) -> Result<usize, ClientError> {
        self.give_back()?;
        let limit = limit.min(BURST);
        if limit == 0 {
            return Ok(0);
        }
        if !self.ahead.is_empty() {
            if self.ahead.len() <= limit {
                std::mem::swap(&mut self.burst, &mut self.ahead);
            } else {
                self.burst.append(&mut self.ahead, limit);
            }
            return Ok(self.burst.len());
        }
        self.burst.set_limit(limit);
        let received = self.member.receive(&mut self.pool, &mut self.burst);
        self.burst.set_limit(BURST);
        let received = received?;
        if received == 0 {
            self.idle += 1;
            if self.idle >= LOOK {
                self.look_at_server()?;
            }
        }
        Ok(received)
    }

    /// Takes packets into a frame of the caller's, behind those it has, as many as it has room for;
    /// returns how many. They are the caller's until [`release`](Consumer::release) or
    /// [`send_from`](Consumer::send_from), also when the burst is over; a caller that keeps them
    /// long gets no others once it has as many as the server lends it. Never waits.
    ///
    /// # Errors
    ///
    /// As [`Consumer::receive`].
    pub fn receive_into(&mut self, frame: &mut Frame) -> Result<usize, ClientError> {
        self.give_back()?;
        let limit = frame.room().min(self.ahead.len());
        let mut received = frame.append(&mut self.ahead, limit);
        if self.ahead.is_empty() {
            received += self.member.receive(&mut self.pool, frame)?;
        }
        if received == 0 {
            self.idle += 1;
            if self.idle >= LOOK {
                self.look_at_server()?;
            }
        }
        Ok(received)
    }

    /// Gives back the packets of a frame that [`Consumer::receive_into`] has filled.
    ///
    /// # Errors
    ///
    /// When the server is gone.
    pub fn release(&mut self, frame: &mut Frame) -> Result<(), ClientError> {
        give_back(&mut self.member, &mut self.pool, self.spare, frame)
    }

    /// The memory that packets lie in, with which those of [`Consumer::receive_into`] are read.
    pub fn arena(&self) -> &Arena {
        self.member.arena()
    }

    /// The packets of the burst, oldest first.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.member.arena().packets(&self.burst)
    }

    /// The packets of the burst with the time of reception in nanoseconds since the epoch, or 0 if
    /// not taken.
    pub fn timed_packets(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let (arena, slots) = (self.member.arena(), self.burst.slots().iter());
        slots.map(|slot| (arena.meta(slot).timestamp, arena.packet(slot)))
    }

    /// A packet of the burst, for writing; `None` where others have it too, or this consumer only reads.
    ///
    /// # Panics
    ///
    /// When there are not so many.
    pub fn packet_mut(&mut self, at: usize) -> Option<&mut [u8]> {
        self.member.arena().packet_mut(&mut self.burst.slots_mut()[at])
    }

    /// Sends those packets of the burst that `choose` wants to the server, without a copy: they go on
    /// where a `FromConsumer` of its configuration has them. They and the others leave the burst. Returns
    /// how many were sent.
    ///
    /// # Errors
    ///
    /// When the server is gone.
    pub fn send(&mut self, choose: impl FnMut(&[u8]) -> bool) -> Result<usize, ClientError> {
        let sent = send(&mut self.member, &mut self.pool, &mut self.out, &mut self.burst, choose)?;
        self.give_back()?;
        Ok(sent)
    }

    /// Sends the packets of a frame that [`Consumer::receive_into`] has filled. It is empty then.
    ///
    /// # Errors
    ///
    /// When the server is gone.
    pub fn send_from(
        &mut self,
        frame: &mut Frame,
        choose: impl FnMut(&[u8]) -> bool,
    ) -> Result<usize, ClientError> {
        let sent = send(&mut self.member, &mut self.pool, &mut self.out, frame, choose)?;
        self.release(frame)?;
        Ok(sent)
    }

    /// Gives the verdict on each packet of the burst, where an `InlineConsumer` of the server's
    /// configuration asks. They leave the burst. To [send](Consumer::send) a packet passes it, too,
    /// and to give it back drops it. Returns how many pass.
    ///
    /// # Errors
    ///
    /// When the server is gone.
    pub fn answer(&mut self, decide: impl FnMut(&[u8]) -> Verdict) -> Result<usize, ClientError> {
        give_verdicts(&mut self.member, &mut self.pool, &mut self.burst, decide)
    }

    /// Gives the verdicts on a frame that [`Consumer::receive_into`] has filled. It is empty then.
    ///
    /// # Errors
    ///
    /// When the server is gone.
    pub fn answer_from(
        &mut self,
        frame: &mut Frame,
        decide: impl FnMut(&[u8]) -> Verdict,
    ) -> Result<usize, ClientError> {
        give_verdicts(&mut self.member, &mut self.pool, frame, decide)
    }

    /// Sends a packet of this program's own: `false` when there is no buffer for it now, or it is longer
    /// than one. The server's configuration says how many there are (`SPARE` of a `FromConsumer`).
    ///
    /// # Errors
    ///
    /// When the server is gone.
    pub fn transmit(&mut self, packet: &[u8]) -> Result<bool, ClientError> {
        if packet.len() > self.member.arena().room() {
            return Ok(false);
        }
        let mut slot = self.pool.take_one(packet.len());
        if slot.is_none() {
            self.fetch()?;
            slot = self.pool.take_one(packet.len());
        }
        let Some(mut slot) = slot else { return Ok(false) };
        let arena = self.member.arena();
        let Some(bytes) = arena.packet_mut(&mut slot) else {
            self.pool.give_one(slot);
            return Ok(false);
        };
        bytes.copy_from_slice(packet);
        let _ = self.out.push(slot).map_err(|slot| self.pool.give_one(slot));
        let sent = self.member.send(&mut self.pool, &mut self.out)?;
        self.pool.give(&mut self.out);
        Ok(sent > 0)
    }

    /// Waits until there are packets, at most for so long: `false` when there are none by then. The burst
    /// is given back first.
    ///
    /// # Errors
    ///
    /// When the server is gone or has ended this consumer.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<bool, ClientError> {
        // One that is too far away to be a time is none.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        while self.prepare_wait()? {
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(false);
            }
            // Nothing is as long as an hour without any packet, and then it is another one.
            let until = until.unwrap_or(now + Duration::from_secs(3600));
            peer::wait([self.events.as_fd()].into_iter(), until)?;
        }
        Ok(true)
    }

    /// Says that this program is going to wait by itself for [its descriptor](AsFd) to be readable:
    /// `false` when there are packets and nothing to wait for. To be called each time before. The burst
    /// is given back.
    ///
    /// # Errors
    ///
    /// When the server is gone or has ended this consumer.
    pub fn prepare_wait(&mut self) -> Result<bool, ClientError> {
        self.give_back()?;
        while !self.fetch()? {
            self.events.forget();
            self.look_at_server()?;
            if self.ahead.is_empty() && self.member.arm() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes all there is, empty buffers too. Returns true if there are packets for the next burst.
    fn fetch(&mut self) -> Result<bool, ClientError> {
        if self.ahead.is_empty() {
            self.member.receive(&mut self.pool, &mut self.ahead)?;
        }
        Ok(!self.ahead.is_empty())
    }

    /// The figures of this consumer, as the server has them.
    pub fn figures(&self) -> Figures {
        self.figures.figures(self.line)
    }

    /// Words of the server's that made no sense: there are none.
    pub fn malformed(&self) -> u64 {
        self.member.malformed()
    }

    fn give_back(&mut self) -> Result<(), ClientError> {
        give_back(&mut self.member, &mut self.pool, self.spare, &mut self.burst)
    }

    /// Fails when the server has ended, or has ended this consumer, and no packets are left: the last
    /// ones may have come since the caller looked for them.
    fn look_at_server(&mut self) -> Result<(), ClientError> {
        self.idle = 0;
        let end = match self.ended {
            Some(reason) => ClientError::Ended(reason),
            None => match self.connection.receive_reply() {
                Ok(None) => return Ok(()),
                Ok(Some((Reply::Ended(reason), _))) => {
                    self.ended = Some(reason);
                    ClientError::Ended(reason)
                }
                Ok(Some(_)) => return Err(ClientError::Protocol("nothing was asked")),
                Err(error) => error,
            },
        };
        if end.is_end() && self.fetch()? { Ok(()) } else { Err(end) }
    }
}

/// Gives back a frame, and buffers that became free besides, but for `spare` of them.
fn give_back(
    member: &mut Member,
    pool: &mut PoolCache,
    spare: usize,
    frame: &mut Frame,
) -> Result<(), ClientError> {
    // A reader owns no buffers, and most writers keep none: they need no count.
    let writes = member.access() == shared::Access::Write;
    let free = |member: &Member| member.arena().accounting().free;
    let keep = if writes && spare > 0 { spare.saturating_sub(free(member)) } else { 0 };
    member.give_back_frame(pool, frame, keep)?;
    if member.held() > 0 {
        let free = if writes { free(member).saturating_sub(spare) } else { 0 };
        member.give_back(pool, free)?;
    }
    Ok(())
}

/// Sends those packets of a frame that are chosen; the others stay in it.
fn send(
    member: &mut Member,
    pool: &mut PoolCache,
    out: &mut Frame,
    frame: &mut Frame,
    mut choose: impl FnMut(&[u8]) -> bool,
) -> Result<usize, ClientError> {
    if out.limit() < frame.len() {
        *out = Frame::new(frame.len());
    }
    let arena = member.arena();
    frame.retain(
        |slot| !choose(arena.packet(slot)),
        |slot| {
            let _ = out.push(slot).map_err(|slot| pool.give_one(slot));
        },
    );
    let sent = member.send(pool, out)?;
    // As the ring has room for all that is held, these are sent packets that others hold, too.
    pool.give(out);
    Ok(sent)
}

/// Answers for the packets of a frame.
fn give_verdicts(
    member: &mut Member,
    pool: &mut PoolCache,
    frame: &mut Frame,
    mut decide: impl FnMut(&[u8]) -> Verdict,
) -> Result<usize, ClientError> {
    let passed = member.answer(pool, frame, |packet| match decide(packet) {
        Verdict::Pass => (true, false),
        Verdict::Drop => (false, false),
        Verdict::PassFlow => (true, true),
        Verdict::DropFlow => (false, true),
    })?;
    // As the ring has room for all that is held, nothing is left.
    pool.give(frame);
    Ok(passed)
}

impl AsFd for Consumer {
    /// The descriptor that is readable once there are packets or the server is gone, after
    /// [`Consumer::prepare_wait`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // Packets not given back are taken back. To give one back would be an answer for it.
        if self.asked {
            return;
        }
        self.spare = 0;
        self.pool.give(&mut self.ahead);
        let _ = self.give_back();
    }
}

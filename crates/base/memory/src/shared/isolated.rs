//! Memory of one untrusted member, into and out of which packets are copied.
//!
//! To the member it is an arena like any other that it may write to, with the same files and rings
//! ([the format](super)). To the server it is foreign memory: there are no slots of it, no free
//! list in it and no reference to any of its bytes; they are copied in and out. The member's
//! buffers are in a ledger that only the server can write, and every word on its ring is checked
//! against that.

use std::{
    mem::offset_of,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{
    files::{self, Access, AttachError, Channel, Files, LEDGER, Region, TO_MEMBER},
    ledger::Ledger,
    ring::{Broken, CELLS_MAX, Receiver, Sender},
    server::Tally,
    word::Word,
};
use crate::{
    MemoryError,
    arena::{Arena, Geometry},
    foreign::{ForeignBytes, ForeignRegion},
    meta::Meta,
    pages::PAGE,
};

/// The bit that its one member has in the ledger.
const MEMBER: usize = 1;

/// The server's side of one member's own memory.
#[derive(Debug)]
pub struct Isolated {
    region: ForeignRegion,
    geometry: Geometry,
    ledger: Ledger<Region>,
    /// Buffers that it does not hold.
    free: Vec<u32>,
    to_member: Sender<Region>,
    to_server: Receiver<Region>,
    doorbell: OwnedFd,
    tally: Tally,
    broken: bool,
    floods: bool,
    /// Whether the server takes packets that it sends.
    sends: bool,
}

/// The meaning of a word of an isolated member.
#[derive(Debug)]
pub struct Sent<'a> {
    /// The buffer.
    pub index: u32,
    /// Whether the decision on the packet holds for all of its flow.
    pub flow: bool,
    /// Whether it has sent the packet, or returned the buffer.
    pub passes: bool,
    /// The packet it has sent, which it can still write; `None` for a member that only reads.
    pub packet: Option<ForeignBytes<'a>>,
}

/// Layout of memory with room for so many buffers: their number rounded up to a power of two.
fn geometry(stride: u32, headroom: u32, cells: u32) -> Geometry {
    let count = cells.next_power_of_two();
    let buffers = (count as usize * size_of::<Meta>()).next_multiple_of(PAGE);
    let size = (buffers + count as usize * stride as usize).next_multiple_of(PAGE);
    Geometry { count, stride, headroom, size: size as u64, meta: 0, buffers: buffers as u64 }
}

impl Isolated {
    /// Memory for one member that holds at most `cells` buffers (rounded up to a power of two), each as
    /// large as those of `like`, and the files to hand to it. The server reads no byte of a member that does
    /// not [send](Sent::passes).
    ///
    /// # Errors
    ///
    /// When there are too many cells, or the kernel refuses.
    pub fn create(like: &Arena, cells: u32, sends: bool) -> Result<(Isolated, Files), AttachError> {
        if !(1..=CELLS_MAX).contains(&cells) {
            let (option, value) = ("cells", cells.into());
            let reason = "choose 1 to 65536".into();
            return Err(MemoryError::Option { option, value, reason }.into());
        }
        let Geometry { stride, headroom, .. } = like.geometry();
        let geometry = geometry(stride, headroom, cells);
        let count = geometry.count;
        let (region, packets) = ForeignRegion::create("linerate-isolated", geometry.size as usize)?;
        let (ledger, directory) = files::create_directory(&geometry)?;
        let access = Access::Write;
        let (channel, file) =
            files::create_channel(Channel { member: MEMBER as u32, cells: count, access })?;
        let system = |source| MemoryError::System { step: "socketpair", source };
        let (doorbell, theirs) = files::create_doorbell().map_err(system)?;
        let isolated = Isolated {
            region,
            geometry,
            ledger: Ledger::new(ledger, LEDGER, count),
            free: (0..count).rev().collect(),
            to_member: Sender::new(channel.clone(), TO_MEMBER, count),
            to_server: Receiver::new(channel, files::to_server(count), count),
            doorbell,
            tally: Tally::default(),
            broken: false,
            floods: false,
            sends,
        };
        Ok((isolated, Files { directory, packets, channel: file, doorbell: theirs }))
    }

    /// Bytes of memory for a member that holds at most `cells` buffers of that
    /// [size](Arena::buffer_size), all of its files together.
    pub fn bytes(buffer_size: usize, cells: u32) -> u64 {
        let Geometry { count, size, .. } =
            geometry(buffer_size as u32, 0, cells.clamp(1, CELLS_MAX));
        let channel = Channel { member: MEMBER as u32, cells: count, access: Access::Write };
        let files = [size, files::directory_len(count), channel.len()];
        files.into_iter().map(|len| len.next_multiple_of(PAGE as u64)).sum()
    }

    /// Packets it can be lent now, at most `wanted`; none once its ring is broken.
    pub fn room(&mut self, wanted: usize) -> usize {
        if self.broken {
            return 0;
        }
        match self.to_member.room(wanted) {
            Ok(room) => room.min(self.free.len()).min(wanted),
            Err(Broken) => {
                self.broken = true;
                0
            }
        }
    }

    /// Longest packet that it can be lent.
    pub fn longest(&self) -> usize {
        (self.geometry.stride - self.geometry.headroom) as usize
    }

    /// Copies a packet into a buffer and puts it on the ring; the member is told by
    /// [`Isolated::publish`]. Besides its bytes the member learns when it was received, as
    /// [`Meta::timestamp`] has it, and nothing else. Returns the buffer; `None`, and the packet is missed,
    /// where there is no room or it is too long.
    pub fn enqueue(&mut self, packet: &[u8], time: u64) -> Option<u32> {
        let headroom = self.geometry.headroom as usize;
        let (offset, length) = (headroom as u16, packet.len() as u16);
        let lent = if packet.len() <= self.longest() && self.room(1) > 0 {
            let index = self.free.pop().expect("there is room");
            let meta = index as usize * size_of::<Meta>() + offset_of!(Meta, timestamp);
            let write = |at, bytes: &[u8]| {
                self.region.bytes(at, bytes.len()).is_some_and(|to| to.write(bytes))
            };
            let written =
                write(self.at(index) + headroom, packet) && write(meta, &time.to_ne_bytes());
            debug_assert!(written, "a buffer is inside of the region");
            self.put(index, (offset, length), false);
            Some(index)
        } else {
            None
        };
        match lent {
            Some(_) => {
                self.tally.packets += 1;
                self.tally.bytes += packet.len() as u64;
                self.tally.copied += packet.len() as u64;
            }
            None => self.tally.missed += 1,
        }
        lent
    }

    /// Lends empty buffers to a member that sends packets of its own, `count` at most; returns how many.
    pub fn supply(&mut self, count: usize) -> usize {
        let count = if self.sends { self.room(count) } else { 0 };
        for _ in 0..count {
            let index = self.free.pop().expect("there is room");
            self.put(index, (0, 0), true);
        }
        self.publish();
        count
    }

    /// Offset of a buffer.
    fn at(&self, index: u32) -> usize {
        self.geometry.buffers as usize + index as usize * self.geometry.stride as usize
    }

    fn put(&mut self, index: u32, (offset, length): (u16, u16), empty: bool) {
        // First, so that a reader of the word is a holder.
        self.ledger.set(index, 1 << MEMBER);
        let (kept, flow) = (false, false);
        self.to_member.put(Word { index, offset, length, kept, empty, flow }.pack());
    }

    /// Publishes the words put on the member's ring.
    pub fn publish(&mut self) {
        if self.to_member.publish() {
            files::ring(&self.doorbell);
        }
    }

    /// Takes the packets it sent and the buffers it returned, `limit` words at most, and calls
    /// `each` with the meaning of every one of them: it copies bytes that are to be kept, for the
    /// buffer is free behind that, and returns how many bytes those were. Returns how many words
    /// there were.
    ///
    /// # Errors
    ///
    /// When the ring is broken.
    pub fn receive_each(
        &mut self,
        limit: usize,
        mut each: impl FnMut(Sent<'_>) -> u64,
    ) -> Result<usize, Broken> {
        self.broken |= self.to_server.ready().is_err();
        if self.broken {
            return Err(Broken);
        }
        let mut taken = 0;
        while taken < limit {
            let Some(word) = self.to_server.take() else { break };
            taken += 1;
            let word = Word::unpack(word, self.geometry.count, self.geometry.stride);
            // There are no other holders here, so there is nothing to keep.
            let Some(word) =
                word.filter(|word| !word.kept && self.ledger.holds(MEMBER, word.index))
            else {
                self.tally.malformed += 1;
                continue;
            };
            self.ledger.release(MEMBER, word.index);
            let at = self.at(word.index) + usize::from(word.offset);
            let passes = !word.empty;
            let packet =
                (passes && self.sends).then(|| self.region.bytes(at, word.length.into())).flatten();
            self.tally.copied += each(Sent { index: word.index, flow: word.flow, passes, packet });
            self.free.push(word.index);
        }
        self.to_server.release();
        Ok(taken)
    }

    /// Buffers that it holds.
    pub fn held(&self) -> usize {
        self.geometry.count as usize - self.free.len()
    }

    /// Words on its ring that it has not taken.
    pub fn waiting(&mut self) -> usize {
        let cells = self.geometry.count as usize;
        self.to_member.room(cells).map_or(0, |room| cells - room)
    }

    /// Words on its ring that it had not taken when there was last no room.
    pub fn seen_waiting(&self) -> usize {
        self.to_member.waiting()
    }

    /// Counts of packets to it and from it.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// As [`Server::floods`](super::Server::floods).
    pub fn floods(&self) -> bool {
        self.floods
    }

    /// Returns true if the server takes packets that it sends.
    pub fn sends(&self) -> bool {
        self.sends
    }

    /// Returns true if one of its rings was found broken.
    pub fn is_broken(&self) -> bool {
        self.broken || self.region.is_broken()
    }

    /// As [`Server::arm`](super::Server::arm).
    pub fn arm(&mut self) -> bool {
        if files::drain(&self.doorbell) {
            (self.broken, self.floods) = (true, true);
        }
        self.to_server.arm();
        let sleeps = matches!(self.to_server.ready(), Ok(0));
        if !sleeps {
            self.to_server.disarm();
        }
        sleeps
    }

    /// As [`Server::event`](super::Server::event).
    pub fn event(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // Its process may keep the files.
        self.region.discard();
        self.to_server.place().0.discard();
    }
}

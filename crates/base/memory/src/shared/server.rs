//! Server: the side that has the arena, with its members and the buffers lent to them.

mod receive;

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{
    files::{self, Access, AttachError, Channel, Files, LEDGER, Region, TO_MEMBER},
    ledger::{Ledger, MEMBERS_MAX},
    peer::PeerRights,
    ring::{Broken, CELLS_MAX, Receiver, Sender},
    word::{KEPT, Word},
};
use crate::{MemoryError, arena::Arena, frame::Frame, pool::PoolCache, slot::Slot, sync::Ordering};

pub use self::receive::{Returned, WORDS};

/// A member, by the bit that it has in the ledger. Another may have it when this one was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemberId(usize);

impl MemberId {
    /// Its bit.
    pub fn bit(self) -> u64 {
        1 << self.0
    }
}

/// The result of lending packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnqueueResult {
    /// Packets that at least one member got; they are gone from the front of the frame.
    pub packets: usize,
    /// Times a member missed one of these because its ring was full or it held too many.
    pub missed: usize,
}

/// Counts of packets to a member and from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets it was lent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets it was to be lent and was not, because its ring was full or it held too many.
    pub missed: u64,
    /// Bytes that were copied for it.
    pub copied: u64,
    /// Words from it that named no buffer it holds.
    pub malformed: u64,
}

/// State of a member in the server.
#[derive(Debug)]
struct Peer {
    to_member: Sender<Region>,
    to_server: Receiver<Region>,
    doorbell: OwnedFd,
    access: Access,
    /// Buffers it holds, at most as many as its rings have cells: so it can always return them.
    held: u32,
    quota: u32,
    tally: Tally,
    /// Whether one of its rings was found broken, or its doorbell is flooded.
    broken: bool,
    floods: bool,
}

impl Peer {
    /// Packets it can be lent now, of `wanted`; none once it is broken.
    fn room(&mut self, wanted: usize) -> u32 {
        if self.broken {
            return 0;
        }
        match self.to_member.room(wanted) {
            Ok(room) => (room as u32).min(self.quota - self.held),
            Err(Broken) => {
                self.broken = true;
                0
            }
        }
    }
}

/// A place for a member, before its files are there.
#[derive(Debug)]
pub struct AttachOffer {
    arena: Arena,
    directory: OwnedFd,
    channel: Channel,
}

/// A member whose files are made, before [`Server::welcome`].
#[derive(Debug)]
pub struct PendingMember {
    bit: usize,
    peer: Peer,
}

impl AttachOffer {
    /// Makes the files to hand out.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn make(self) -> Result<(PendingMember, Files), AttachError> {
        let AttachOffer { arena, directory, channel } = self;
        let (region, file) = files::create_channel(channel)?;
        let (doorbell, theirs) = files::create_doorbell().map_err(system("socketpair"))?;
        let packets = arena.file();
        let packets = match channel.access {
            Access::Write => packets.try_clone_to_owned().map_err(system("dup"))?,
            Access::Read => files::read_only(packets)?,
        };
        let handed = Files { directory, packets, channel: file, doorbell: theirs };
        let peer = Peer {
            to_member: Sender::new(region.clone(), TO_MEMBER, channel.cells),
            to_server: Receiver::new(region, files::to_server(channel.cells), channel.cells),
            doorbell,
            access: channel.access,
            held: 0,
            quota: channel.cells,
            tally: Tally::default(),
            broken: false,
            floods: false,
        };
        Ok((PendingMember { bit: channel.member as usize, peer }, handed))
    }
}

fn system(step: &'static str) -> impl Fn(io::Error) -> MemoryError {
    move |source| MemoryError::System { step, source }
}

/// The bits of a word, by their places.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        bit
    })
}

/// An arena and its members.
#[derive(Debug)]
pub struct Server {
    arena: Arena,
    ledger: Ledger<Region>,
    directory: OwnedFd,
    /// By bit; there is none for bit 0.
    members: Vec<Option<Peer>>,
    /// Of a buffer that is lent: whether its slot was shared in this process. Of others: not.
    shared: Vec<bool>,
}

impl Server {
    /// Makes the directory of an arena. Its buffers are used as before by all of this process.
    ///
    /// # Errors
    ///
    /// When the kernel refuses: sealing needs Linux 5.1.
    pub fn new(arena: &Arena) -> Result<Server, AttachError> {
        files::make_private(arena.file())?;
        let geometry = arena.geometry();
        let (region, directory) = files::create_directory(&geometry)?;
        Ok(Server {
            ledger: Ledger::new(region, LEDGER, geometry.count),
            directory,
            members: (0..=MEMBERS_MAX).map(|_| None).collect(),
            shared: vec![false; geometry.count as usize],
            arena: arena.clone(),
        })
    }

    /// Takes in a member, which is to hold at most `cells` buffers at a time (rounded up to a power
    /// of two), and makes the files to hand to it.
    ///
    /// # Errors
    ///
    /// When there are too many members or cells, or the kernel refuses.
    ///
    /// # Safety
    ///
    /// The process that gets the files maps the arena as `access` says and writes only to buffers
    /// that it got by its ring unshared and has not given back. A process that cannot be trusted
    /// with that gets an arena of its own and copies.
    pub unsafe fn admit(
        &mut self,
        access: Access,
        cells: u32,
    ) -> Result<(MemberId, Files), AttachError> {
        let (joining, files) = self.invite(access, cells)?.make()?;
        Ok((self.welcome(joining)?, files))
    }

    /// Begins to attach a process with these rights. Attaching has three steps: this one and the last,
    /// [`Server::welcome`], are quick; [`AttachOffer::make`] between them makes files and needs no
    /// server.
    ///
    /// A process that can write to this process's memory may get the packets for writing: it could break
    /// the contract of [`Server::admit`] without them. Any other may read them once they are
    /// [sealed](Server::seal), when the kernel refuses its writes. A descriptor opened for reading is not
    /// enough before: a process of the same user can reopen it for writing.
    ///
    /// # Errors
    ///
    /// [`AttachError::FewerRights`] when the process needs memory of its own. When there are too many
    /// members or cells, and when the kernel refuses.
    pub fn invite_from(
        &self,
        rights: PeerRights,
        access: Access,
        cells: u32,
    ) -> Result<AttachOffer, AttachError> {
        let is_sealed = self.arena.is_sealed();
        let shares = match access {
            Access::Read => rights.can_write() || is_sealed,
            Access::Write => rights.can_write() && !is_sealed,
        };
        if shares { self.invite(access, cells) } else { Err(AttachError::FewerRights) }
    }

    /// Seals the packets for good: from now on no process can map them for writing. Mappings that exist,
    /// such as this process's, stay writable.
    ///
    /// # Errors
    ///
    /// When a port has shared them with a trusted peer (`zero-copy`), and when the kernel refuses.
    pub fn seal(&self) -> Result<(), AttachError> {
        Ok(self.arena.seal()?)
    }

    fn invite(&self, access: Access, cells: u32) -> Result<AttachOffer, AttachError> {
        let bad = |option, value, reason: &str| {
            AttachError::from(MemoryError::Option { option, value, reason: reason.into() })
        };
        let free = (1..=MEMBERS_MAX).find(|&bit| self.members[bit].is_none());
        let bit = free.ok_or_else(|| bad("members", 64, "at most 63 at a time"))?;
        if !(1..=CELLS_MAX).contains(&cells) {
            return Err(bad("cells", cells.into(), "choose 1 to 65536"));
        }
        let channel = Channel { member: bit as u32, cells: cells.next_power_of_two(), access };
        let directory = self.directory.try_clone().map_err(system("dup"))?;
        Ok(AttachOffer { arena: self.arena.clone(), directory, channel })
    }

    /// Takes in the member that was invited.
    ///
    /// # Errors
    ///
    /// When another has its place by now: to take in several at a time, invite them anew.
    pub fn welcome(&mut self, joining: PendingMember) -> Result<MemberId, AttachError> {
        let PendingMember { bit, peer } = joining;
        if self.members[bit].is_some() {
            let reason = "another has taken that place".into();
            let (option, value) = ("members", bit as u64);
            return Err(MemoryError::Option { option, value, reason }.into());
        }
        self.members[bit] = Some(peer);
        Ok(MemberId(bit))
    }

    fn peer(&mut self, id: MemberId) -> &mut Peer {
        self.members[id.0].as_mut().expect("a member that was not removed")
    }

    /// Buffers that a member holds.
    ///
    /// # Panics
    ///
    /// As all methods that take one, when the member was removed.
    pub fn held(&self, id: MemberId) -> usize {
        self.members[id.0].as_ref().expect("a member that was not removed").held as usize
    }

    /// Access of a member to buffers that it alone holds.
    pub fn access(&self, id: MemberId) -> Access {
        self.members[id.0].as_ref().expect("a member that was not removed").access
    }

    /// Counts of packets to a member and from it.
    pub fn tally(&self, id: MemberId) -> Tally {
        self.members[id.0].as_ref().expect("a member that was not removed").tally
    }

    /// Words from a member that named no buffer it holds.
    pub fn malformed(&self, id: MemberId) -> u64 {
        self.tally(id).malformed
    }

    /// Returns true if one of a member's rings was found broken: end its process and
    /// [remove](Server::remove) it. It is lent nothing more.
    pub fn is_broken(&self, id: MemberId) -> bool {
        self.members[id.0].as_ref().expect("a member that was not removed").broken
    }

    /// Returns true if a member has flooded its doorbell; it is broken then.
    pub fn floods(&self, id: MemberId) -> bool {
        self.members[id.0].as_ref().expect("a member that was not removed").floods
    }

    /// Words on the ring to a member that it has not taken.
    pub fn waiting(&mut self, id: MemberId) -> usize {
        let peer = self.peer(id);
        let cells = peer.quota as usize;
        peer.to_member.room(cells).map_or(0, |room| cells - room)
    }

    /// Words on the ring to a member that it has not taken, as far as known without reading the
    /// position that the member writes: the server reads that when it finds no room.
    pub fn seen_waiting(&self, id: MemberId) -> usize {
        self.members[id.0].as_ref().expect("a member that was not removed").to_member.waiting()
    }

    /// Lends the packets at the front of `frame` to members, each to all that have room for it: to
    /// one, which may write unless it attached for reading, or to several, none of which may. Ends
    /// at the first packet for which none of them has room, or which all of them hold already.
    ///
    /// # Errors
    ///
    /// When the ring of a member is broken. Nothing was lent then.
    pub fn enqueue_shared(
        &mut self,
        ids: &[MemberId],
        frame: &mut Frame,
    ) -> Result<EnqueueResult, Broken> {
        self.hand_out(ids, frame, false)
    }

    /// Lends empty buffers to a member that may write, `count` of them at most; returns how many.
    ///
    /// # Errors
    ///
    /// When its ring is broken.
    pub fn supply(
        &mut self,
        id: MemberId,
        pool: &mut PoolCache,
        count: usize,
    ) -> Result<usize, Broken> {
        if self.peer(id).access == Access::Read {
            return Ok(0);
        }
        let mut frame = Frame::new(count.clamp(1, crate::FRAME_LIMIT));
        pool.take(&mut frame, count, 0);
        let lent = self.hand_out(&[id], &mut frame, true);
        pool.give(&mut frame);
        lent.map(|lent| lent.packets)
    }

    fn hand_out(
        &mut self,
        ids: &[MemberId],
        frame: &mut Frame,
        empty: bool,
    ) -> Result<EnqueueResult, Broken> {
        let to = ids.iter().fold(0, |to, id| to | id.bit());
        let mut room = self.room(to, frame.len());
        if ids.iter().any(|&id| self.is_broken(id)) {
            return Err(Broken);
        }
        let mut lent = EnqueueResult::default();
        for slot in frame.slots() {
            let added = self.enqueue_one(slot, to, &mut room, empty);
            if added == 0 {
                break;
            }
            lent.missed += (to & !added).count_ones() as usize;
            lent.packets += 1;
        }
        // SAFETY: those slots are the ledger's now, and there were as many.
        unsafe { frame.forget_front(lent.packets) };
        self.publish(to);
        Ok(lent)
    }

    /// Lends each packet of a frame to members of its own: those whose [bits](MemberId::bit) `to`
    /// has at its place, and has then of those that got it. Packets that a member got leave the
    /// frame, the rest stays, in order; a member that missed a packet has it in its [`Tally`]. With
    /// `all` a packet is lent to all its members or to none, and nothing behind one that was not. A
    /// member with a broken ring gets nothing, and delays no other.
    ///
    /// A buffer is lent once to a member. Of a buffer that it has already, from a packet that was
    /// shared in this process, it gets a copy, as far as `pool` has a buffer for it.
    ///
    /// # Panics
    ///
    /// When `to` is shorter than the frame, or a bit is that of no member.
    pub fn enqueue_batch(
        &mut self,
        to: &mut [u64],
        all: bool,
        pool: &mut PoolCache,
        frame: &mut Frame,
    ) {
        let any = to[..frame.len()].iter().fold(0, |all, to| all | to);
        let mut room = self.room(any, frame.len());
        let broken = bits(any)
            .filter(|&bit| self.peer(MemberId(bit)).broken)
            .fold(0, |broken, bit| broken | 1 << bit);
        let first = self.enqueue_front(&to[..frame.len()], &mut room, frame);
        let (mut wanted, mut stopped) = (to[first..].iter_mut(), false);
        frame.retain(
            |slot| {
                let Some(got) = wanted.next() else { return true };
                let to = std::mem::take(got) & !broken;
                if !stopped && self.enqueue_exclusive(slot, to, &mut room) {
                    *got = to;
                    return false;
                }
                stopped |= all && bits(to).any(|bit| room[bit] == 0);
                if stopped {
                    return true;
                }
                self.make_new_to(to, slot, pool);
                *got = self.enqueue_one(slot, to, &mut room, false);
                for bit in bits(to & !*got) {
                    self.peer(MemberId(bit)).tally.missed += 1;
                }
                *got == 0
            },
            // It is the ledger's now.
            |_| (),
        );
        self.publish(any);
    }

    /// Lends packets from the front of a frame as long as each goes to the same single member, which has
    /// room, and has no other holder: nearly all are. Returns how many.
    fn enqueue_front(
        &mut self,
        to: &[u64],
        room: &mut [u32; MEMBERS_MAX + 1],
        frame: &mut Frame,
    ) -> usize {
        let Some((&bits, rest)) = to.split_first() else { return 0 };
        if bits.count_ones() != 1 {
            return 0;
        }
        let bit = bits.trailing_zeros() as usize;
        let same = 1 + rest.iter().take_while(|other| **other == bits).count();
        let Server { arena, ledger, members, .. } = self;
        let Some(peer) = members[bit].as_mut() else { return 0 };
        let flags = if peer.access == Access::Write { 0 } else { KEPT };
        let (tag, holders) = (u64::from(arena.tag()), ledger.words());
        let most = same.min(room[bit] as usize);
        let (mut cells, mut lent, mut bytes) = (peer.to_member.cells(), 0, 0);
        for slot in &frame.slots()[..most] {
            // Without the arena's tag it is the word to be. The number of one that is shared, or another
            // arena's, is too high then.
            let word = slot.word() ^ tag;
            let Some(holder) = holders.get(word as u32 as usize) else { break };
            if holder.load(Ordering::Relaxed) != 0 {
                break;
            }
            // First, so that a member that finds the word is a holder: it is published behind all of them.
            holder.store(bits, Ordering::Relaxed);
            cells.put(word | flags);
            bytes += word >> 48;
            lent += 1;
        }
        peer.to_member.advance(lent);
        peer.held += lent as u32;
        peer.tally.packets += lent as u64;
        peer.tally.bytes += bytes;
        room[bit] -= lent as u32;
        // SAFETY: those slots are the ledger's now, and there were as many.
        unsafe { frame.forget_front(lent) };
        lent
    }

    /// Lends a packet that goes to a single member, which has room, and has no other holder: `false` where that
    /// is not so.
    #[inline(always)]
    fn enqueue_exclusive(
        &mut self,
        slot: &Slot,
        to: u64,
        room: &mut [u32; MEMBERS_MAX + 1],
    ) -> bool {
        let Server { arena, ledger, members, .. } = self;
        let bit = to.trailing_zeros() as usize;
        if !to.is_power_of_two() || room[bit] == 0 {
            return false;
        }
        // As in `enqueue_front`.
        let word = slot.word() ^ u64::from(arena.tag());
        let Some(peer) = members[bit].as_mut() else { return false };
        let Some(holder) = ledger.words().get(word as u32 as usize) else { return false };
        if holder.load(Ordering::Relaxed) != 0 {
            return false;
        }
        holder.store(to, Ordering::Relaxed);
        let flags = if peer.access == Access::Write { 0 } else { KEPT };
        peer.to_member.put(word | flags);
        peer.held += 1;
        peer.tally.packets += 1;
        peer.tally.bytes += word >> 48;
        room[bit] -= 1;
        true
    }

    /// Copies a packet that one of these members holds already, as far as `pool` has a buffer for it.
    fn make_new_to(&mut self, to: u64, slot: &mut Slot, pool: &mut PoolCache) {
        let before = self.arena.strip(slot).0;
        let have = self.ledger.holders(before) & to;
        if have != 0 && pool.unshare(slot) && self.arena.strip(slot).0 != before {
            let bytes = (slot.headroom() + slot.len()) as u64;
            bits(have).for_each(|bit| self.peer(MemberId(bit)).tally.copied += bytes);
        }
    }

    /// Makes the packet one that a member does not hold, by a copy where it has the packet already,
    /// and returns its buffer. `None` when there is no buffer for that.
    pub fn new_to(&mut self, id: MemberId, slot: &mut Slot, pool: &mut PoolCache) -> Option<u32> {
        self.make_new_to(id.bit(), slot, pool);
        let index = self.arena.strip(slot).0;
        (!self.ledger.holds(id.0, index)).then_some(index)
    }

    /// Packets that a member can be lent now, at most `wanted`.
    pub fn room_of(&mut self, id: MemberId, wanted: usize) -> usize {
        (self.peer(id).room(wanted) as usize).min(wanted)
    }

    /// Announces that a member is going to be lent so many packets: the processor fetches the cells
    /// of its ring, which the member's core has, during other work.
    #[inline]
    pub fn expect(&self, id: MemberId, count: usize) {
        if let Some(peer) = &self.members[id.0] {
            peer.to_member.prefetch(count);
        }
    }

    /// Packets that each of these members can be lent, of so many.
    fn room(&mut self, to: u64, wanted: usize) -> [u32; MEMBERS_MAX + 1] {
        let mut room = [0; MEMBERS_MAX + 1];
        for bit in bits(to) {
            room[bit] = self.peer(MemberId(bit)).room(wanted);
        }
        room
    }

    /// Lends a packet to those members that have room and do not hold it. Returns their bits; with one
    /// the slot is the ledger's.
    fn enqueue_one(
        &mut self,
        slot: &Slot,
        to: u64,
        room: &mut [u32; MEMBERS_MAX + 1],
        empty: bool,
    ) -> u64 {
        let (index, shared) = self.arena.strip(slot);
        let before = self.ledger.holders(index);
        let (mut added, mut may_write) = (0u64, true);
        for bit in bits(to & !before).filter(|&bit| room[bit] > 0) {
            added |= 1 << bit;
            may_write &= self.peer(MemberId(bit)).access == Access::Write;
        }
        if added == 0 {
            return 0;
        }
        let holders = before | added;
        let kept = shared || !may_write || holders.count_ones() > 1;
        let (offset, length) = (slot.headroom() as u16, slot.len() as u16);
        let empty = empty && !kept;
        let word = Word { index, offset, length, kept, empty, flow: false }.pack();
        if before == 0 {
            self.shared[index as usize] = shared;
        } else {
            // The ledger has a share of it already, and one is enough.
            self.arena.forget_share(slot);
        }
        // First, so that a member that finds the word is a holder.
        self.ledger.set(index, holders);
        for bit in bits(added) {
            room[bit] -= 1;
            let peer = self.peer(MemberId(bit));
            peer.held += 1;
            if !empty {
                peer.tally.packets += 1;
                peer.tally.bytes += u64::from(length);
            }
            peer.to_member.put(word);
        }
        added
    }

    /// Publishes the words put on the members' rings.
    fn publish(&mut self, to: u64) {
        for bit in bits(to) {
            let peer = self.peer(MemberId(bit));
            if peer.to_member.publish() {
                files::ring(&peer.doorbell);
            }
        }
    }

    /// Takes a member off everything, after its process has ended: the buffers it has returned,
    /// those underway to it and those it held. Packets it has sent and that were not received are
    /// given back, too. Returns how many buffers it held. A reading member may live on: the bytes
    /// it sees then are of no use to it.
    ///
    /// That its socket was hung up says that no thread of it has the memory any more: the kernel
    /// takes memory from a process before its files. Its process number does not: children may have
    /// both.
    pub fn remove(&mut self, id: MemberId, pool: &mut PoolCache) -> usize {
        let held = self.held(id);
        if self.peer(id).to_server.ready().is_ok() {
            while let Some(word) = self.peer(id).to_server.take() {
                if let Some(slot) = self.take_back(id, word, pool).and_then(|back| back.packet) {
                    pool.give_one(slot);
                }
            }
        }
        let rest = std::mem::take(&mut self.peer(id).held);
        let (arena, shared) = (&self.arena, &mut self.shared);
        self.ledger.sweep(id.0, rest, |index| {
            let shared = std::mem::take(&mut shared[index as usize]);
            // SAFETY: the buffer was lent out, and has no holder now; an empty packet is inside.
            pool.give_one(unsafe { arena.restore(index, shared, (0, 0)) });
        });
        if let Some(peer) = self.members[id.0].take() {
            // The files of one that lives on are not to take memory for ever.
            peer.to_server.place().0.discard();
        }
        held
    }

    /// Says that the server is going to sleep until a member sends: `false` when it has, and there is
    /// no time to sleep. Waited for is [`Server::event`].
    pub fn arm(&mut self, id: MemberId) -> bool {
        let peer = self.peer(id);
        if files::drain(&peer.doorbell) {
            (peer.broken, peer.floods) = (true, true);
        }
        peer.to_server.arm();
        let sleeps = matches!(peer.to_server.ready(), Ok(0));
        if !sleeps {
            peer.to_server.disarm();
        }
        sleeps
    }

    /// Descriptor that is readable once a member has sent to a server that sleeps. [`Server::arm`]
    /// empties it.
    pub fn event(&self, id: MemberId) -> BorrowedFd<'_> {
        self.members[id.0].as_ref().expect("a member that was not removed").doorbell.as_fd()
    }
}

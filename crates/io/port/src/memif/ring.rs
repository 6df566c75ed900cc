//! A ring in shared memory: layout, and the state that its two ends share.
//!
//! | offset | bytes | field | written by |
//! |---|---|---|---|
//! | 0 | 4 | cookie, 0x03E31F20 | the client, before it announces the ring |
//! | 4 | 2 | flags; bit 0: the consumer polls, no interrupts | the consumer of the ring |
//! | 6 | 2 | head, counts on and on | the client |
//! | 64 | 2 | tail, counts on and on | the server |
//! | 128 | 16 each | descriptors, two to the power of 0 to 14 | see below |
//!
//! A descriptor is `flags u16` (bit 0: the packet goes on in the next one), `region u16`, `length
//! u32`, `offset u32` into the region, and 32 unused bits. In a ring *to the server* the client
//! writes descriptors of packets and moves the head past them; the server takes the packets and
//! moves the tail. In a ring *to the client* the client writes descriptors of free buffers, their
//! capacity as length, and moves the head past them; the server writes packets into the buffers,
//! changes lengths and flags, and moves the tail.
//!
//! Nothing of that is believed. Each side keeps the count it writes for itself, reads the other's
//! once per burst and finds it out of range when it is further away than the ring is large; the
//! client knows the places of its buffers and reads back only flags and lengths; a descriptor is
//! read once.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence},
    },
};

use linerate_memory::{ForeignBytes, ForeignRegion};

use super::{message::LOG2_MAX, zero_copy::Parked};
use crate::peer::{event, interrupt::Interrupt};

/// First word of every ring.
pub(super) const COOKIE: u32 = 0x03E3_1F20;
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
/// Bytes in front of the descriptors.
pub(super) const HEADER: usize = 128;
/// Bytes of a descriptor.
pub(super) const DESCRIPTOR: usize = 16;
/// Rings begin at multiples of this.
pub(super) const ALIGN: usize = 64;
/// Flag of a ring: its consumer polls.
pub(super) const MASK_INTERRUPT: u16 = 1;
/// Flag of a descriptor: the packet continues in the next.
pub(super) const NEXT: u16 = 1;
const WORDS: usize = DESCRIPTOR / 8;

/// Role of a side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Listens, and never owns memory.
    Server,
    /// Connects, and owns all memory.
    Client,
}

/// Fault of a peer that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its count of a ring is not between ours and the end of the ring.
    Index,
    /// All descriptors of a ring are one packet without an end.
    Endless,
    /// A buffer it wants a packet in is not in its memory.
    Buffer,
    /// It cut the file of a region short.
    Region,
}

impl Fault {
    pub(super) fn text(self) -> &'static str {
        match self {
            Fault::Index => "ring index out of range",
            Fault::Endless => "chain without end",
            Fault::Buffer => "buffer outside of its region",
            Fault::Region => "region was cut short",
        }
    }
}

/// A ring in shared memory, known to be inside its region.
#[derive(Debug, Clone)]
pub(super) struct Ring {
    memory: Arc<ForeignRegion>,
    at: usize,
    size: u16,
}

impl Ring {
    /// Checks the place of a ring; `Err` names its fault.
    pub(super) fn new(
        memory: &Arc<ForeignRegion>,
        at: usize,
        log2: u8,
    ) -> Result<Ring, &'static str> {
        if log2 > LOG2_MAX {
            return Err("ring size too large");
        }
        if !at.is_multiple_of(ALIGN) {
            return Err("ring not aligned");
        }
        let size = 1 << log2;
        if !memory.contains(at, HEADER + DESCRIPTOR * usize::from(size)) {
            return Err("ring outside of its region");
        }
        Ok(Ring { memory: Arc::clone(memory), at, size })
    }

    /// Descriptors in it.
    #[inline]
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU16 {
        self.memory.word16(self.at + at).expect("checked when it was made")
    }

    pub(super) fn cookie(&self) -> &AtomicU32 {
        self.memory.word32(self.at).expect("checked when it was made")
    }

    #[inline]
    pub(super) fn flags(&self) -> &AtomicU16 {
        self.word(FLAGS_AT)
    }

    #[inline]
    pub(super) fn head(&self) -> &AtomicU16 {
        self.word(HEAD_AT)
    }

    #[inline]
    pub(super) fn tail(&self) -> &AtomicU16 {
        self.word(TAIL_AT)
    }

    /// The count that the other side writes.
    #[inline]
    pub(super) fn theirs(&self, us: Role) -> &AtomicU16 {
        match us {
            Role::Server => self.head(),
            Role::Client => self.tail(),
        }
    }

    /// The count that we write.
    #[inline]
    pub(super) fn ours(&self, us: Role) -> &AtomicU16 {
        match us {
            Role::Server => self.tail(),
            Role::Client => self.head(),
        }
    }

    #[inline]
    pub(super) fn descriptors(&self) -> Descriptors<'_> {
        let count = usize::from(self.size) * WORDS;
        let words = self.memory.words(self.at + HEADER, count).expect("checked when it was made");
        Descriptors { words, mask: self.size - 1 }
    }
}

/// A private copy of a descriptor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) flags: u16,
    pub(super) region: u16,
    pub(super) length: u32,
    pub(super) offset: u32,
}

/// The descriptors of a ring, by counts that go on and on.
#[derive(Clone, Copy)]
pub(super) struct Descriptors<'a> {
    words: &'a [AtomicU64],
    mask: u16,
}

impl Descriptors<'_> {
    #[inline]
    fn place(&self, count: u16) -> usize {
        usize::from(count & self.mask) * WORDS
    }

    /// Reads one, once: later writes of the other side do not matter any more.
    #[inline]
    pub(super) fn load(&self, count: u16) -> Descriptor {
        let at = self.place(count);
        let [f0, f1, r0, r1, length @ ..] = self.words[at].load(Ordering::Relaxed).to_ne_bytes();
        let [offset @ .., _, _, _, _] = self.words[at + 1].load(Ordering::Relaxed).to_ne_bytes();
        Descriptor {
            flags: u16::from_ne_bytes([f0, f1]),
            region: u16::from_ne_bytes([r0, r1]),
            length: u32::from_ne_bytes(length),
            offset: u32::from_ne_bytes(offset),
        }
    }

    #[inline]
    pub(super) fn store(&self, count: u16, value: Descriptor) {
        let at = self.place(count);
        for (word, value) in self.words[at..at + WORDS].iter().zip(value.words()) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Writes one, unless it is there already, as that of a buffer mostly is which has its place for
    /// good: the line then stays with both.
    #[inline]
    pub(super) fn store_changed(&self, count: u16, value: Descriptor) {
        let at = self.place(count);
        for (word, value) in self.words[at..at + WORDS].iter().zip(value.words()) {
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }
    }
}

impl Descriptor {
    /// As it is in a ring.
    #[inline]
    fn words(self) -> [u64; WORDS] {
        let ([f0, f1], [r0, r1]) = (self.flags.to_ne_bytes(), self.region.to_ne_bytes());
        let [l0, l1, l2, l3] = self.length.to_ne_bytes();
        let [o0, o1, o2, o3] = self.offset.to_ne_bytes();
        let first = u64::from_ne_bytes([f0, f1, r0, r1, l0, l1, l2, l3]);
        let second = u64::from_ne_bytes([o0, o1, o2, o3, 0, 0, 0, 0]);
        [first, second]
    }
}

/// The most descriptors that are looked at together, since their lines come from another processor:
/// those behind are underway while the first is waited for.
pub(super) const BATCH: usize = 32;

/// Place of the client's buffers of a ring, one per descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buffers {
    pub(super) at: usize,
    pub(super) stride: usize,
    /// Bytes of each.
    pub(super) size: u32,
}

impl Buffers {
    /// The descriptor of an empty buffer.
    #[inline]
    pub(super) fn free(&self, count: u16, size: u16) -> Descriptor {
        let offset = self.place(count, size) as u32;
        Descriptor { flags: 0, region: 0, length: self.size, offset }
    }

    #[inline]
    pub(super) fn place(&self, count: u16, size: u16) -> usize {
        self.at + usize::from(count & (size - 1)) * self.stride
    }
}

/// Tells the consumer of a ring of new packets, unless it polls.
#[inline]
pub(super) fn interrupt(lane: &Lane) {
    // Pairs with the fence of a consumer between its flags and its last look at the ring: it
    // sees the packets, or we see that it wants to be told.
    fence(Ordering::SeqCst);
    if lane.ring.flags().load(Ordering::Relaxed) & MASK_INTERRUPT == 0 {
        lane.interrupt.raise();
    }
}

/// A ring as it was negotiated.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) ring: Ring,
    pub(super) interrupt: Interrupt,
    /// The buffers of a client's ring that has some of its own.
    pub(super) buffers: Option<Buffers>,
    /// Buffers of our arena that the peer has, while no worker uses the ring.
    pub(super) parked: Parked,
}

/// Negotiated state of a connection. Dropped when neither the negotiator nor a worker has it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) role: Role,
    pub(super) regions: Vec<Arc<ForeignRegion>>,
    pub(super) to_server: Vec<Arc<Lane>>,
    pub(super) to_client: Vec<Arc<Lane>>,
    /// Fault of the peer that a worker has found.
    fault: OnceLock<Fault>,
    /// Wakes the negotiator.
    control: Arc<OwnedFd>,
}

impl Connection {
    pub(super) fn new(
        role: Role,
        regions: Vec<Arc<ForeignRegion>>,
        to_server: Vec<Arc<Lane>>,
        to_client: Vec<Arc<Lane>>,
        control: &Arc<OwnedFd>,
    ) -> Connection {
        let control = Arc::clone(control);
        Connection { role, regions, to_server, to_client, fault: OnceLock::new(), control }
    }

    /// The lanes packets come in by.
    pub(super) fn rx(&self) -> &[Arc<Lane>] {
        match self.role {
            Role::Server => &self.to_server,
            Role::Client => &self.to_client,
        }
    }

    /// The lanes packets go out by.
    pub(super) fn tx(&self) -> &[Arc<Lane>] {
        match self.role {
            Role::Server => &self.to_client,
            Role::Client => &self.to_server,
        }
    }

    /// The bytes that a descriptor names; none if it makes no sense.
    #[inline]
    pub(super) fn locate(&self, lane: &Lane, count: u16, named: &Descriptor) -> ForeignBytes<'_> {
        let len = named.length as usize;
        let bytes = match &lane.buffers {
            // The place of our own buffer is known without the peer.
            Some(buffers) => {
                let place = buffers.place(count, lane.ring.size());
                self.regions[0].bytes(place, len).filter(|_| named.length <= buffers.size)
            }
            None => {
                let region = self.regions.get(usize::from(named.region));
                region.and_then(|region| region.bytes(named.offset as usize, len))
            }
        };
        bytes.unwrap_or_default()
    }

    /// Has the peer given up: by the negotiator, for a worker does no such things.
    #[cold]
    pub(super) fn report(&self, fault: Fault) {
        if self.fault.set(fault).is_ok() {
            event::set(&self.control);
        }
    }

    /// Event that wakes the negotiator when a worker has left a ring to be dropped: it may have
    /// nothing else to do for long. Not through the connection, of which the worker then has
    /// nothing.
    pub(super) fn control(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.control)
    }

    /// Fault of the peer, if there is one.
    pub(super) fn fault(&self) -> Option<Fault> {
        let broken = || self.regions.iter().any(|region| region.is_broken());
        self.fault.get().copied().or_else(|| broken().then_some(Fault::Region))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(len: usize) -> Arc<ForeignRegion> {
        Arc::new(ForeignRegion::create("test", len).unwrap().0)
    }

    #[test]
    fn a_ring_is_inside_of_its_region() {
        let memory = region(8192);
        assert!(Ring::new(&memory, 0, 8).is_ok());
        assert!(Ring::new(&memory, 4096 - 128, 8).is_ok());
        assert_eq!(Ring::new(&memory, 4096 - 64, 8).unwrap_err(), "ring outside of its region");
        assert_eq!(
            Ring::new(&memory, usize::MAX - 63, 0).unwrap_err(),
            "ring outside of its region"
        );
        assert_eq!(Ring::new(&memory, 32, 0).unwrap_err(), "ring not aligned");
        assert_eq!(Ring::new(&memory, 0, 15).unwrap_err(), "ring size too large");
        assert_eq!(Ring::new(&memory, 0, 255).unwrap_err(), "ring size too large");
    }

    #[test]
    fn descriptors_lie_as_the_protocol_has_them() {
        let memory = region(4096);
        let ring = Ring::new(&memory, 64, 1).unwrap();
        let descriptor =
            Descriptor { flags: 1, region: 0x0203, length: 0x0405_0607, offset: 0x0809_0a0b };
        ring.descriptors().store(3, descriptor);
        assert_eq!(ring.descriptors().load(65_535), descriptor);
        let mut bytes = [0; 16];
        assert!(memory.read(64 + 128 + 16, &mut bytes));
        let mut expected = Vec::new();
        expected.extend(1u16.to_ne_bytes());
        expected.extend(0x0203u16.to_ne_bytes());
        expected.extend(0x0405_0607u32.to_ne_bytes());
        expected.extend(0x0809_0a0bu32.to_ne_bytes());
        expected.extend([0; 4]);
        assert_eq!(bytes[..], expected);
    }
}

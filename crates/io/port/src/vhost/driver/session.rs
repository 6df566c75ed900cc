//! Requests to a device over the socket, and its answers.
//!
//! The device is asked for its features, told the places of the memory and of each pair of queues,
//! and asked once more after each: its answer says that it has done all requests before. Then
//! workers get the queues. It sends no messages of its own.

use std::{
    fmt::Write,
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use linerate_linux::close::Closer;
use linerate_memory::{Arena, ForeignRegion, stride_for};

use super::{
    in_flight::{self, InFlight},
    posted::{Buffers, Filled, Posted},
    ring::{PackedRing, Ring, SplitRing},
    zero_copy_rx::{Negotiated, ZeroCopyRx},
    zero_copy_tx::{TABLE, ZeroCopyTx},
};
use crate::{
    link::Link,
    peer::{
        MESSAGE_TIMEOUT, NEGOTIATION_TIMEOUT, POLL_INTERVAL, event,
        interrupt::{Interrupt, Interrupts},
        limit::Permit,
        wait,
    },
    vhost::{
        copy_in::CopyIn,
        copy_out::CopyOut,
        device::Offer,
        memory::{Area, Memory, RegionSpec},
        message::{self, Message, RingAddress, feature, protocol},
        negotiator::{End, Session},
        packed::{PackedAreas, ROUND},
        queue::{DESCRIPTOR, Fault, Piece},
        queue_slot::{QueueSlot, QueueSlots, RxQueue, TxQueue},
        split::SplitAreas,
        transport::{self, Incoming, Received},
    },
};

/// Features that our driver can use, with any options.
const FEATURES: u64 =
    feature::EVENT_IDX | feature::PROTOCOL_FEATURES | feature::VERSION_1 | feature::MQ;
/// Offloads that the device may leave undone.
const OFFLOADS: u64 = feature::GUEST_CSUM;
/// Offloads besides, where a packet may take several buffers.
const MERGED: u64 = feature::GUEST_TSO4 | feature::GUEST_TSO6 | feature::GUEST_ECN;
/// Bytes in front of each packet, with virtio 1.
pub(in super::super) const HEADER: usize = 12;
/// The addresses, of the guest and of this process, at which the device is told the regions are.
/// They are names: nothing is there.
const OWN: u64 = 1 << 40;
const LENT: u64 = 1 << 44;
/// Time for a worker of a device that has closed its end to finish its burst.
const GRACE: Duration = Duration::from_millis(10);
const ALIGN: usize = 64;

/// Settings of a driver.
#[derive(Debug)]
pub(in super::super) struct Settings {
    /// Places in each queue, a power of two.
    pub(in super::super) slots: u16,
    pub(in super::super) offer: Offer,
    /// Bytes of the longest packet.
    pub(in super::super) longest: usize,
    /// The arena that is lent to the device.
    pub(in super::super) lent: Option<Arena>,
}

/// Answer that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Features,
    Protocol,
    Queues,
    /// The device knows so many pairs of queues.
    Ready(usize),
    Up,
}

/// The queues of a pair, before workers have them.
type Pair = (Box<dyn RxQueue>, Box<dyn TxQueue>, [Arc<Interrupt>; 2], OwnedFd);

/// A connection.
pub(in super::super) struct DriverSession {
    socket: Arc<OwnedFd>,
    closer: Closer,
    places: Arc<QueueSlots>,
    link: Arc<Link>,
    slots: u16,
    wanted: u64,
    longest: usize,
    lent: Option<Arena>,
    stage: Stage,
    features: u64,
    protocol: u64,
    /// Pairs of queues that are used.
    count: usize,
    memory: Arc<Memory>,
    pairs: Vec<Pair>,
    /// Interrupts from the device, of each pair that workers have.
    calls: Vec<OwnedFd>,
    interrupts: Interrupts,
    begun: Instant,
    deadline: Instant,
}

impl DriverSession {
    pub(in super::super) fn begin(
        socket: &Arc<OwnedFd>,
        permit: &Arc<Permit>,
        places: &Arc<QueueSlots>,
        link: &Arc<Link>,
        settings: &Settings,
        closer: &Closer,
    ) -> Result<DriverSession, End> {
        let when = |condition: bool, bits: u64| if condition { bits } else { 0 };
        let Offer { offloads, packed, mergeable, indirect } = settings.offer;
        let wanted = FEATURES
            | when(packed, feature::PACKED)
            | when(mergeable, feature::MRG_RXBUF)
            | when(indirect, feature::INDIRECT)
            | when(offloads, OFFLOADS)
            | when(offloads && mergeable, MERGED);
        let begun = Instant::now();
        let session = DriverSession {
            socket: Arc::clone(socket),
            closer: closer.clone(),
            places: Arc::clone(places),
            link: Arc::clone(link),
            slots: settings.slots,
            wanted,
            longest: settings.longest,
            lent: settings.lent.clone(),
            stage: Stage::Features,
            features: 0,
            protocol: 0,
            count: 1,
            memory: Arc::default(),
            pairs: Vec::new(),
            calls: Vec::new(),
            interrupts: Interrupts::new(&places.control, Arc::clone(permit) as _),
            begun,
            deadline: begun + MESSAGE_TIMEOUT,
        };
        session.say(message::SET_OWNER)?;
        session.say(message::GET_FEATURES)?;
        Ok(session)
    }

    fn say(&self, request: u32) -> Result<(), End> {
        self.send(&Message::new(request, Vec::new()))
    }

    fn send(&self, message: &Message) -> Result<(), End> {
        transport::send(&self.socket, message)
            .map_err(|error| End::from(format!("the device does not read: {error}")))
    }

    fn has(&self, bits: u64) -> bool {
        self.features & bits != 0
    }

    /// Asks something, the answer to which is waited for.
    fn ask(&mut self, request: u32, stage: Stage) -> Result<(), End> {
        self.stage = stage;
        self.deadline = (Instant::now() + MESSAGE_TIMEOUT).min(self.begun + NEGOTIATION_TIMEOUT);
        self.say(request)
    }

    fn answer(&mut self, message: &Message) -> Result<(), End> {
        let number = message.number()?;
        match (self.stage, message.request) {
            (Stage::Features, message::GET_FEATURES) => {
                if number & feature::VERSION_1 == 0 {
                    return Err("a device older than virtio 1".into());
                }
                self.features = number & self.wanted;
                if self.places.rx.len() == 1 {
                    self.features &= !feature::MQ;
                }
                if !self.has(feature::PROTOCOL_FEATURES) {
                    return self.prepare();
                }
                self.ask(message::GET_PROTOCOL_FEATURES, Stage::Protocol)
            }
            (Stage::Protocol, message::GET_PROTOCOL_FEATURES) => {
                self.protocol = number & protocol::MQ;
                self.send(&Message::of_u64(message::SET_PROTOCOL_FEATURES, self.protocol))?;
                if self.protocol & protocol::MQ == 0 {
                    return self.prepare();
                }
                self.ask(message::GET_QUEUE_NUM, Stage::Queues)
            }
            (Stage::Queues, message::GET_QUEUE_NUM) => {
                let most = usize::try_from(number).unwrap_or(usize::MAX);
                self.count = most.clamp(1, self.places.rx.len());
                self.prepare()
            }
            (Stage::Ready(pairs), message::GET_FEATURES) if pairs < self.count => {
                self.add_pair(pairs)
            }
            (Stage::Ready(_), message::GET_FEATURES) => self.go_up(),
            _ => Err(format!("an answer to no question, of request {}", message.request).into()),
        }
    }

    fn layout(&self) -> Layout {
        let stride = match self.lent {
            Some(_) => 0,
            None => stride_for(ALIGN + self.longest),
        };
        Layout { slots: self.slots.into(), stride }
    }

    /// Makes the memory and tells of it.
    fn prepare(&mut self) -> Result<(), End> {
        self.send(&Message::of_u64(message::SET_FEATURES, self.features))?;
        let no_memory = |error: String| End::from(format!("no memory for queues: {error}"));
        let size = self.layout().ring(2 * self.count);
        let (own, file) = ForeignRegion::create("linerate-vhost", size)
            .map_err(|error| no_memory(error.to_string()))?;
        let mut memory = Memory::default();
        let mut files = vec![file];
        let spec =
            |at: u64, size: usize| RegionSpec { guest: at, size: size as u64, user: at, offset: 0 };
        let mut regions = vec![spec(OWN, size)];
        memory.add(regions[0], Arc::new(own));
        if let Some(arena) = &self.lent {
            let file = in_flight::file(arena).map_err(|error| no_memory(error.to_string()))?;
            regions.push(spec(LENT, arena.size()));
            let mapped = ForeignRegion::map(&file, arena.size() as u64);
            memory.add(regions[1], Arc::new(mapped.map_err(|error| no_memory(error.to_string()))?));
            files.push(file);
        }
        self.memory = Arc::new(memory);
        let mut message = Message::of_regions(&regions);
        message.descriptors = files;
        self.send(&message)?;
        self.ask(message::GET_FEATURES, Stage::Ready(0))
    }

    /// Makes a pair of queues and tells of it: the first is for packets to us.
    fn add_pair(&mut self, pair: usize) -> Result<(), End> {
        let packed = self.has(feature::PACKED);
        let layout = self.layout();
        let mut kicks = Vec::new();
        let mut calls = Vec::new();
        for index in [2 * pair, 2 * pair + 1] {
            let number = index as u32;
            let at = OWN + layout.ring(index) as u64;
            let address = RingAddress {
                index: number,
                descriptors: at,
                available: at + layout.available() as u64,
                used: at + layout.used() as u64,
            };
            let base = if packed { ROUND.into() } else { 0 };
            let [kick, call] = [event::new(), event::new()]
                .map(|event| event.map_err(|error| End::from(format!("no event: {error}"))));
            let (kick, call) = (kick?, call?);
            let copy = |event: &OwnedFd| {
                event.try_clone().map_err(|error| End::from(format!("no event: {error}")))
            };
            self.send(&Message::of_state(message::SET_VRING_NUM, number, self.slots.into()))?;
            self.send(&Message::of_state(message::SET_VRING_BASE, number, base))?;
            self.send(&Message::of_address(&address))?;
            self.send(&Message::of_event(message::SET_VRING_CALL, number, Some(copy(&call)?)))?;
            self.send(&Message::of_event(message::SET_VRING_KICK, number, Some(copy(&kick)?)))?;
            let kick = self.interrupts.add(kick);
            kicks.push(Arc::new(kick.map_err(|error| End::from(error.to_string()))?));
            calls.push(call);
            if self.has(feature::PROTOCOL_FEATURES) {
                self.send(&Message::of_state(message::SET_VRING_ENABLE, number, 1))?;
            }
        }
        let kicks = [Arc::clone(&kicks[0]), Arc::clone(&kicks[1])];
        let (rx, tx) = if packed {
            let ring = |index| self.ring(index, PackedAreas::lengths(self.slots), PackedAreas::new);
            let event = self.has(feature::EVENT_IDX);
            let [a, b] = [ring(2 * pair)?, ring(2 * pair + 1)?];
            self.queues(pair, (PackedRing::new(a, event), PackedRing::new(b, event)), &kicks)
        } else {
            let ring = |index| self.ring(index, SplitAreas::lengths(self.slots), SplitAreas::new);
            let event = self.has(feature::EVENT_IDX);
            let [a, b] = [ring(2 * pair)?, ring(2 * pair + 1)?];
            self.queues(pair, (SplitRing::new(a, event), SplitRing::new(b, event)), &kicks)
        };
        self.pairs.push((rx, tx, kicks, calls.swap_remove(0)));
        self.ask(message::GET_FEATURES, Stage::Ready(pair + 1))
    }

    /// The parts of a queue, in our memory.
    fn ring<A>(
        &self,
        index: usize,
        lengths: [usize; 3],
        make: impl Fn(u16, Option<Area>, Option<Area>, Option<Area>) -> Result<A, &'static str>,
    ) -> Result<A, End> {
        let layout = self.layout();
        let at = OWN + layout.ring(index) as u64;
        let places = [0, layout.available(), layout.used()];
        let [a, b, c] = [0, 1, 2].map(|n| self.memory.area(at + places[n] as u64, lengths[n]));
        make(self.slots, a, b, c).map_err(End::from)
    }

    /// Queues of a pair, for workers.
    fn queues<R: Ring>(
        &self,
        pair: usize,
        (to_us, from_us): (R, R),
        kicks: &[Arc<Interrupt>; 2],
    ) -> (Box<dyn RxQueue>, Box<dyn TxQueue>) {
        let layout = self.layout();
        let behind = |index: usize| OWN + (layout.ring(index) + layout.rest()) as u64;
        let mergeable = self.has(feature::MRG_RXBUF);
        let offloads = self.has(OFFLOADS | MERGED);
        let memory = || Arc::clone(&self.memory);
        let [to_us_kick, from_us_kick] = kicks.each_ref().map(Arc::clone);
        if let Some(arena) = &self.lent {
            let lent = || InFlight::new(arena, LENT, self.slots);
            let said = Negotiated { header: HEADER, mergeable, offloads };
            let header = Piece { at: behind(2 * pair + 1), len: HEADER as u32 };
            let tables = self.has(feature::INDIRECT).then(|| header.at + ALIGN as u64);
            let form = (tables, self.has(feature::PACKED));
            let tx = ZeroCopyTx::new(from_us, from_us_kick, lent(), memory(), header, form);
            (Box::new(ZeroCopyRx::new(to_us, to_us_kick, lent(), memory(), &said)), Box::new(tx))
        } else {
            let buffers = |index: usize| Buffers {
                memory: memory(),
                // Packets begin with a line. That of the header stays with both: it is hardly written.
                at: behind(index) + (ALIGN - HEADER) as u64,
                stride: layout.stride as u64,
                len: (HEADER + self.longest) as u32,
            };
            let posted = Posted::new(to_us, buffers(2 * pair), mergeable);
            let filled = Filled::new(from_us, buffers(2 * pair + 1));
            (
                Box::new(CopyIn::new(posted, Some(to_us_kick), HEADER, offloads, true)),
                Box::new(CopyOut::new(filled, Some(from_us_kick), HEADER, false, true)),
            )
        }
    }

    /// Workers have the queues.
    fn go_up(&mut self) -> Result<(), End> {
        for (pair, (rx, tx, kicks, call)) in self.pairs.drain(..).enumerate() {
            let events = self.places.rx[pair].events();
            events.add(&call).map_err(|error| error.to_string())?;
            self.calls.push(call);
            // This first: an element that answers the first packet that comes in has a way for the
            // answer.
            self.places.tx[pair].put(Some(tx));
            self.places.rx[pair].put(Some(rx));
            // It may have looked before there were buffers.
            kicks.iter().for_each(|kick| kick.raise());
        }
        self.places.set_active(self.count);
        self.stage = Stage::Up;
        let format = if self.has(feature::PACKED) { "packed" } else { "split" };
        let (count, slots) = (self.count, self.slots);
        let mut detail = format!("a device: {count} pairs of queues of {slots}, {format}");
        for (bits, text) in [
            (feature::MRG_RXBUF, "mergeable"),
            (feature::INDIRECT, "indirect"),
            (feature::EVENT_IDX, "event index"),
            (OFFLOADS | MERGED, "offloads"),
        ] {
            if self.has(bits) {
                let _ = write!(detail, ", {text}");
            }
        }
        if self.lent.is_some() {
            detail.push_str(", zero-copy");
        }
        self.link.set(true, detail);
        Ok(())
    }
}

impl Session for DriverSession {
    fn receive(&mut self, message: &mut Message) -> Result<(), End> {
        if !message.is_reply() {
            return Err(format!("request {} of a device", message.request).into());
        }
        self.answer(message)
    }

    fn look(&mut self) -> Result<(), End> {
        self.interrupts.look();
        if self.memory.is_broken() {
            return Err(Fault::Region.text().into());
        }
        if self.stage != Stage::Up && Instant::now() >= self.deadline {
            return Err("it says nothing".into());
        }
        Ok(())
    }

    fn next_look(&self) -> Duration {
        POLL_INTERVAL
    }
}

impl Drop for DriverSession {
    fn drop(&mut self) {
        self.places.set_active(0);
        let rx: Vec<_> = self.places.rx.iter().map(QueueSlot::take).collect();
        let tx: Vec<_> = self.places.tx.iter().map(QueueSlot::take).collect();
        for (place, call) in self.places.rx.iter().zip(&self.calls) {
            place.events().remove(call);
        }
        if self.lent.is_some() && self.stage == Stage::Up {
            let (socket, queues) = (Arc::clone(&self.socket), 2 * self.count as u32);
            self.closer.close(Halt { socket, queues, _rx: rx, _tx: tx });
        }
    }
}

/// Queues whose buffers the device has; dropping this takes them back.
struct Halt {
    socket: Arc<OwnedFd>,
    queues: u32,
    _rx: Vec<Option<Box<dyn RxQueue>>>,
    _tx: Vec<Option<Box<dyn TxQueue>>>,
}

impl Drop for Halt {
    /// Makes the device stop its queues, and waits until it has, its time is over, or it is gone.
    fn drop(&mut self) {
        let until = Instant::now() + POLL_INTERVAL;
        let asked = (0..self.queues).all(|index| {
            let question = Message::of_state(message::GET_VRING_BASE, index, 0);
            transport::send(&self.socket, &question).is_ok()
        });
        let (mut incoming, mut answers) = (Incoming::new(), 0);
        while asked && answers < self.queues && Instant::now() < until {
            match incoming.receive(&self.socket) {
                Received::Message(_) => answers += 1,
                Received::Nothing => {
                    if wait(crate::peer::all(&[&self.socket]), until).is_err() {
                        break;
                    }
                }
                Received::Closed | Received::Malformed(_) => break,
            }
        }
        if answers < self.queues {
            thread::sleep(GRACE);
        }
    }
}

/// Layout of the region: for each queue its areas, and behind them its buffers, or with zero-copy a
/// header and tables.
struct Layout {
    slots: usize,
    /// From one buffer to the next; none with zero-copy.
    stride: usize,
}

impl Layout {
    /// Offset of the available ring, or of the driver's event.
    fn available(&self) -> usize {
        (DESCRIPTOR * self.slots).next_multiple_of(ALIGN)
    }

    /// Offset of the used ring, or of the device's event.
    fn used(&self) -> usize {
        let [_, available, _] = SplitAreas::lengths(self.slots as u16);
        (self.available() + available).next_multiple_of(ALIGN)
    }

    /// Offset of the rest.
    fn rest(&self) -> usize {
        let [_, _, used] = SplitAreas::lengths(self.slots as u16);
        (self.used() + used).next_multiple_of(ALIGN)
    }

    /// Offset of a queue, by its number among all.
    fn ring(&self, index: usize) -> usize {
        let rest = match self.stride {
            0 => ALIGN + TABLE * self.slots,
            stride => stride * self.slots,
        };
        index * (self.rest() + rest).next_multiple_of(ALIGN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_and_buffers_do_not_overlap() {
        for (slots, stride) in [(1, 64), (2, 0), (256, 2112), (1 << 15, 0)] {
            let layout = Layout { slots, stride };
            let [a, b, c] = SplitAreas::lengths(slots as u16);
            assert!(a <= layout.available() && layout.available() + b <= layout.used());
            assert!(layout.used() + c <= layout.rest());
            let rest = if stride == 0 { ALIGN + TABLE * slots } else { stride * slots };
            for index in 0..4 {
                assert!(layout.ring(index) + layout.rest() + rest <= layout.ring(index + 1));
                assert!(layout.ring(index).is_multiple_of(ALIGN));
            }
        }
    }
}

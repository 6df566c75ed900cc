//! Requests of the driver's side over the socket, and their effects.
//!
//! Everything is checked when a queue is started, which the message with its kick does: a queue
//! that is not inside of the memory ends the connection. Messages may come while workers use the
//! queues they are about; the negotiator has a queue to itself then.

use std::{
    fmt::Write,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use linerate_memory::{ForeignError, ForeignRegion, MapLimit, MapQuota};

use crate::{
    link::Link,
    peer::{
        MESSAGE_TIMEOUT, POLL_INTERVAL, event,
        interrupt::{Interrupt, Interrupts},
        limit::Permit,
    },
    vhost::{
        copy_in::CopyIn,
        copy_out::CopyOut,
        inflight::Inflight,
        memory::Memory,
        message::{self, InflightSpec, Message, RingAddress, feature, protocol},
        negotiator::{End, Session},
        packed::{Packed, PackedAreas},
        queue::{Fault, Queue},
        queue_slot::{Control, QueueSlots},
        split::{Split, SplitAreas},
        transport,
    },
};

/// Features of our device.
const FEATURES: u64 = feature::MRG_RXBUF
    | feature::CTRL_VQ
    | feature::CTRL_RX
    | feature::GUEST_ANNOUNCE
    | feature::INDIRECT
    | feature::EVENT_IDX
    | feature::PROTOCOL_FEATURES
    | feature::VERSION_1
    | feature::IN_ORDER;
const OFFLOADS: u64 =
    feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 | feature::HOST_ECN | feature::HOST_USO;
const PROTOCOL: u64 =
    protocol::MQ | protocol::REPLY_ACK | protocol::INFLIGHT | protocol::RESET_DEVICE;

/// Features offered to the peer, or accepted of it.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Offer {
    pub(in super::super) offloads: bool,
    pub(in super::super) packed: bool,
    pub(in super::super) mergeable: bool,
    pub(in super::super) indirect: bool,
}

/// Most regions of a memory table.
const REGIONS: usize = 8;
/// Most in-flight memory that a device makes for all its frontends together, as they may keep it.
const INFLIGHT: u64 = 64 << 20;

/// Parameters and quotas of a device.
#[derive(Debug)]
pub(in super::super) struct Settings {
    offer: Offer,
    /// Quota of the frontend's memory: the current table, the next one, and one that is being unmapped; and
    /// in-flight memory, twice.
    quota: Arc<MapQuota>,
    /// Quota of one table.
    table: MapLimit,
    /// Bytes of in-flight memory that were made.
    inflight: AtomicU64,
}

impl Settings {
    /// A device whose frontends may each have so much memory.
    pub(in super::super) fn new(offer: Offer, bytes: u64) -> Result<Settings, ForeignError> {
        let table = MapLimit { regions: REGIONS, bytes };
        let most =
            MapLimit { regions: 3 * REGIONS + 2, bytes: 3 * bytes + 2 * Inflight::MOST as u64 };
        Ok(Settings { offer, quota: MapQuota::reserve(most)?, table, inflight: AtomicU64::new(0) })
    }

    /// Counts in-flight memory that is about to be made; `false` when it exceeds the limit.
    fn has_inflight(&self, bytes: u64) -> bool {
        let more = |made: u64| made.checked_add(bytes).filter(|total| *total <= INFLIGHT);
        self.inflight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// A queue, as far as it was said.
#[derive(Debug, Default)]
struct Vring {
    size: u32,
    base: u32,
    address: Option<RingAddress>,
    kick: Option<OwnedFd>,
    call: Option<Arc<Interrupt>>,
    enabled: bool,
    started: bool,
}

/// A connection.
pub(in super::super) struct DeviceSession<'a> {
    socket: Arc<OwnedFd>,
    places: Arc<QueueSlots>,
    link: Arc<Link>,
    settings: &'a Settings,
    offer: Offer,
    features: u64,
    protocol: u64,
    memory: Option<Arc<Memory>>,
    inflight: Option<Inflight>,
    rings: Vec<Vring>,
    interrupts: Interrupts,
    /// Until when something has to be said.
    deadline: Option<Instant>,
    /// Whether the link was said to be up.
    was_up: bool,
}

impl DeviceSession<'_> {
    pub(in super::super) fn begin<'a>(
        socket: &Arc<OwnedFd>,
        permit: &Arc<Permit>,
        places: &Arc<QueueSlots>,
        link: &Arc<Link>,
        settings: &'a Settings,
    ) -> DeviceSession<'a> {
        let queues = places.rx.len();
        DeviceSession {
            socket: Arc::clone(socket),
            places: Arc::clone(places),
            link: Arc::clone(link),
            settings,
            offer: settings.offer,
            features: 0,
            protocol: 0,
            memory: None,
            inflight: None,
            rings: (0..2 * queues).map(|_| Vring::default()).collect(),
            interrupts: Interrupts::new(&places.control, Arc::clone(permit) as _),
            deadline: Some(Instant::now() + MESSAGE_TIMEOUT),
            was_up: false,
        }
    }

    fn offered(&self) -> u64 {
        let when = |condition: bool, bits: u64| if condition { bits } else { 0 };
        let without = when(!self.offer.mergeable, feature::MRG_RXBUF)
            | when(!self.offer.indirect, feature::INDIRECT);
        FEATURES & !without
            | when(self.offer.offloads, OFFLOADS)
            | when(self.offer.packed, feature::PACKED)
            | when(self.rings.len() > 2, feature::MQ)
    }

    fn has(&self, bits: u64) -> bool {
        self.features & bits != 0
    }

    fn ring(&mut self, index: u32) -> Result<&mut Vring, End> {
        let known = self.rings.len();
        let ring = self.rings.get_mut(index as usize);
        ring.ok_or_else(|| End::from(format!("queue {index} of {known}")))
    }

    fn reply(&self, to: &Message, payload: Vec<u8>) -> Result<(), End> {
        self.send(&to.answered(payload))
    }

    fn send(&self, message: &Message) -> Result<(), End> {
        transport::send(&self.socket, message)
            .map_err(|error| End::from(format!("the peer does not read: {error}")))
    }

    /// Handles a message. Returns whether it was answered.
    fn obey(&mut self, message: &mut Message) -> Result<bool, End> {
        match message.request {
            message::GET_FEATURES => {
                self.reply(message, self.offered().to_ne_bytes().into())?;
                return Ok(true);
            }
            message::GET_PROTOCOL_FEATURES => {
                self.reply(message, PROTOCOL.to_ne_bytes().into())?;
                return Ok(true);
            }
            message::GET_QUEUE_NUM => {
                let queues = self.places.rx.len() as u64;
                self.reply(message, queues.to_ne_bytes().into())?;
                return Ok(true);
            }
            message::GET_VRING_BASE => {
                let (index, _) = message.state()?;
                self.ring(index)?;
                self.stop(index as usize);
                let base = self.ring(index)?.base;
                self.reply(message, [index, base].map(u32::to_ne_bytes).concat())?;
                return Ok(true);
            }
            message::GET_INFLIGHT_FD => {
                let asked = message.inflight()?;
                if usize::from(asked.queues) > self.rings.len() {
                    return Err("in-flight memory of more queues than there are".into());
                }
                if !self.settings.has_inflight(Inflight::size(&asked)) {
                    // The frontend continues without in-flight tracking.
                    let none = InflightSpec { size: 0, offset: 0, ..asked };
                    let none = Message::of_inflight(message.request, &none);
                    self.send(&message.answered(none.payload))?;
                    return Ok(true);
                }
                let (spec, file) = Inflight::make(&asked, self.has(feature::PACKED))?;
                let made = Message::of_inflight(message.request, &spec);
                let mut answer = message.answered(made.payload);
                answer.descriptors.push(file);
                self.send(&answer)?;
                return Ok(true);
            }
            message::SET_INFLIGHT_FD => {
                let spec = message.inflight()?;
                let file = message.descriptors.first().ok_or("no file of in-flight memory")?;
                self.inflight = Some(Inflight::map(&self.settings.quota, &spec, file)?);
                // It is a memory file, so closing it does not block.
                message.descriptors.remove(0);
            }
            message::SET_FEATURES => self.set_features(message.number()?)?,
            message::SET_PROTOCOL_FEATURES => {
                let features = message.number()?;
                if features & !PROTOCOL != 0 {
                    return Err("protocol features that were not offered".into());
                }
                self.protocol = features;
            }
            message::SET_OWNER | message::SEND_RARP => {}
            message::RESET_OWNER => self.stop_all(),
            message::RESET_DEVICE => {
                self.stop_all();
                self.features = 0;
            }
            message::SET_MEM_TABLE => self.set_memory(message)?,
            message::SET_VRING_NUM => {
                let (index, size) = message.state()?;
                self.ring(index)?.size = size;
            }
            message::SET_VRING_BASE => {
                let (index, base) = message.state()?;
                self.ring(index)?.base = base;
            }
            message::SET_VRING_ADDR => {
                let address = message.address()?;
                self.ring(address.index)?.address = Some(address);
                self.restart(address.index as usize)?;
            }
            message::SET_VRING_KICK => {
                let (index, event) = self.event(message)?;
                self.stop(index);
                self.rings[index].kick = event;
                self.start(index)?;
            }
            message::SET_VRING_CALL => {
                let (index, event) = self.event(message)?;
                let call = event.map(|event| self.interrupts.add(event)).transpose();
                let call = call.map_err(|error| error.to_string())?;
                self.rings[index].call = call.map(Arc::new);
                self.adjust(index);
            }
            message::SET_VRING_ERR => {
                self.event(message)?;
            }
            message::SET_VRING_ENABLE => {
                let (index, enabled) = message.state()?;
                self.ring(index)?.enabled = enabled != 0;
                self.adjust(index as usize);
            }
            other => return Err(format!("request {other}, which was not offered").into()),
        }
        Ok(false)
    }

    fn set_features(&mut self, features: u64) -> Result<(), End> {
        if features & !self.offered() != 0 {
            return Err("features that were not offered".into());
        }
        if self.rings.iter().any(|ring| ring.started) && features != self.features {
            return Err("other features while queues are used".into());
        }
        self.features = features;
        if features & feature::PROTOCOL_FEATURES == 0 {
            // Then there is nothing to enable them by.
            self.rings.iter_mut().for_each(|ring| ring.enabled = true);
        }
        Ok(())
    }

    /// The queue an event is of, and the event.
    fn event(&self, message: &mut Message) -> Result<(usize, Option<OwnedFd>), End> {
        let (index, has) = message.event()?;
        if index as usize >= self.rings.len() {
            return Err(format!("queue {index} of {}", self.rings.len()).into());
        }
        if !has {
            return Ok((index as usize, None));
        }
        match message.descriptors.pop_if(|event| event::is_one(event)) {
            None => Err("no eventfd".into()),
            event => Ok((index as usize, event)),
        }
    }

    fn set_memory(&mut self, message: &mut Message) -> Result<(), End> {
        let regions = message.regions()?;
        if message.descriptors.len() != regions.len() {
            return Err("not a file for each region".into());
        }
        let mut memory = Memory::default();
        let quota = self.settings.quota.within(self.settings.table);
        for (spec, file) in regions.into_iter().zip(&message.descriptors) {
            let end = spec.offset.checked_add(spec.size).filter(|_| spec.size > 0);
            let ends = [spec.guest.checked_add(spec.size), spec.user.checked_add(spec.size)];
            let (Some(end), [Some(_), Some(_)]) = (end, ends) else {
                return Err("a region that goes round".into());
            };
            let bytes = ForeignRegion::map_within(&quota, file, end);
            let bytes = bytes.map_err(|error| match error {
                ForeignError::Bytes { .. } => format!("{error}, by the option `memory`"),
                _ => error.to_string(),
            })?;
            memory.add(spec, Arc::new(bytes));
        }
        // They are memory files, so closing them does not block.
        message.descriptors.clear();
        self.memory = Some(Arc::new(memory));
        // Queues that are used go on where they are, in the new memory.
        (0..self.rings.len()).try_for_each(|index| self.restart(index))
    }

    /// Has the queue in a place, if there is one, to itself.
    fn control<T>(&self, index: usize, with: impl FnOnce(&mut dyn Control) -> T) -> Option<T> {
        let pair = index / 2;
        if takes_packets(index) {
            let mut state = self.places.tx[pair].lock();
            state.queue.as_deref_mut().map(|queue| with(queue))
        } else {
            let mut state = self.places.rx[pair].lock();
            state.queue.as_deref_mut().map(|queue| with(queue))
        }
    }

    fn adjust(&self, index: usize) {
        let ring = &self.rings[index];
        self.control(index, |queue| queue.adjust(ring.call.as_ref(), ring.enabled));
        if let Some(call) = &ring.call {
            // The side told by it now may have missed earlier events.
            call.raise();
        }
    }

    /// A queue is not used any more. Where it stands is kept.
    fn stop(&mut self, index: usize) {
        if !self.rings[index].started {
            return;
        }
        let position = self.control(index, |queue| queue.position());
        let ring = &mut self.rings[index];
        let kick = ring.kick.take();
        ring.started = false;
        ring.base = position.unwrap_or(ring.base);
        if takes_packets(index) {
            self.places.tx[index / 2].put(None);
        } else {
            let place = &self.places.rx[index / 2];
            if let Some(kick) = &kick {
                place.events().remove(kick);
            }
            place.put(None);
        }
    }

    fn stop_all(&mut self) {
        (0..self.rings.len()).for_each(|index| self.stop(index));
        self.rings.iter_mut().for_each(|ring| ring.enabled = false);
    }

    /// A queue that is used goes on where it is, but elsewhere in memory.
    fn restart(&mut self, index: usize) -> Result<(), End> {
        if !self.rings[index].started {
            return Ok(());
        }
        let kick = self.rings[index].kick.as_ref().map(OwnedFd::try_clone);
        self.stop(index);
        self.rings[index].kick = kick.transpose().map_err(|error| error.to_string())?;
        self.start(index)
    }

    /// A queue is used from now on.
    fn start(&mut self, index: usize) -> Result<(), End> {
        let of = |what: &str| End::from(format!("queue {index}: {what}"));
        let ring = &self.rings[index];
        let memory = self.memory.as_ref().ok_or_else(|| of("no memory"))?;
        let address = ring.address.ok_or_else(|| of("no addresses"))?;
        let size = u16::try_from(ring.size).ok().filter(|size| (1..=1 << 15).contains(size));
        let size = size.ok_or_else(|| of("a size that is not 1 to 32,768"))?;
        let event_index = self.has(feature::EVENT_IDX);
        let area = |user: u64, len: usize| memory.area(user, len);
        let RingAddress { descriptors, available, used, .. } = address;
        if self.has(feature::PACKED) {
            let [a, b, c] = PackedAreas::lengths(size);
            let areas =
                PackedAreas::new(size, area(descriptors, a), area(available, b), area(used, c));
            let record = self.inflight.as_ref().and_then(|inflight| inflight.record(index));
            let areas = areas.map_err(of)?;
            let packed = Packed::new(memory, areas, event_index, ring.base as u16, record);
            self.enter(index, packed.map_err(of)?)?;
        } else {
            let [a, b, c] = SplitAreas::lengths(size);
            let areas =
                SplitAreas::new(size, area(descriptors, a), area(available, b), area(used, c));
            let split = Split::new(memory, areas.map_err(of)?, event_index);
            self.enter(index, split)?;
        }
        let ring = &mut self.rings[index];
        ring.started = true;
        if let Some(call) = &ring.call {
            // A device before us may have died between giving something back and telling of it.
            call.raise();
        }
        Ok(())
    }

    /// Workers have it.
    fn enter(&self, index: usize, queue: impl Queue) -> Result<(), End> {
        let ring = &self.rings[index];
        let (call, enabled) = (ring.call.clone(), ring.enabled);
        // Before virtio 1 the header was shorter, unless buffers are mergeable.
        let long = self.has(feature::VERSION_1 | feature::MRG_RXBUF);
        let header = if long { 12 } else { 10 };
        if takes_packets(index) {
            let mergeable = self.has(feature::MRG_RXBUF);
            let queue = CopyOut::new(queue, call, header, mergeable, enabled);
            self.places.tx[index / 2].put(Some(Box::new(queue)));
        } else {
            let place = &self.places.rx[index / 2];
            if let Some(kick) = &ring.kick {
                place.events().add(kick).map_err(|error| error.to_string())?;
            }
            let queue = CopyIn::new(queue, call, header, self.has(OFFLOADS), enabled);
            place.put(Some(Box::new(queue)));
        }
        Ok(())
    }

    /// Says whether packets can go anywhere.
    fn tell(&mut self) {
        let is_used = |ring: &Vring| ring.started && ring.enabled;
        let used = |start: usize| {
            self.rings.iter().skip(start).step_by(2).take_while(|ring| is_used(ring)).count()
        };
        let (to, from) = (used(0), used(1));
        self.places.set_active(to);
        let up = to > 0 || from > 0;
        if up {
            let mut detail = format!(
                "a driver: {to} queues of {} to it, {from} of {} from it, {}",
                self.rings[0].size,
                self.rings[1].size,
                if self.has(feature::PACKED) { "packed" } else { "split" },
            );
            for (bits, text) in [
                (feature::MRG_RXBUF, "mergeable"),
                (feature::INDIRECT, "indirect"),
                (feature::EVENT_IDX, "event index"),
                (OFFLOADS, "offloads"),
            ] {
                if self.has(bits) {
                    let _ = write!(detail, ", {text}");
                }
            }
            if self.inflight.is_some() {
                detail.push_str(", in-flight tracking");
            }
            if !self.memory.as_ref().is_none_or(|memory| memory.is_sealed()) {
                detail.push_str("; its memory is not sealed");
            }
            self.link.set(true, detail);
        } else if self.was_up {
            self.link.set(false, "the driver has stopped its queues");
        }
        self.was_up = up;
    }
}

/// Returns true if packets for the driver go into a queue: into the first of each pair.
fn takes_packets(index: usize) -> bool {
    index.is_multiple_of(2)
}

impl Session for DeviceSession<'_> {
    fn receive(&mut self, message: &mut Message) -> Result<(), End> {
        self.deadline = None;
        if message.is_reply() {
            return Err("an answer to no question".into());
        }
        let acknowledge = message.needs_reply() && self.protocol & protocol::REPLY_ACK != 0;
        let answered = self.obey(message)?;
        if acknowledge && !answered {
            self.reply(message, 0u64.to_ne_bytes().into())?;
        }
        self.tell();
        Ok(())
    }

    fn look(&mut self) -> Result<(), End> {
        self.interrupts.look();
        if self.memory.as_ref().is_some_and(|memory| memory.is_broken()) {
            return Err(Fault::Region.text().into());
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err("it says nothing".into()),
            _ => Ok(()),
        }
    }

    fn next_look(&self) -> Duration {
        POLL_INTERVAL
    }
}

impl Drop for DeviceSession<'_> {
    fn drop(&mut self) {
        self.stop_all();
        self.places.set_active(0);
    }
}

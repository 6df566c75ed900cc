//! `ring:NAME` joins two parts of one process.
//!
//! The first port opened under a name is one end and the second the other; packets that one end
//! transmits the other receives, in order, without a copy. With `loop` there is one end only, which
//! receives the packets it transmits.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use linerate_memory::{
    Arena, Frame, PoolCache, Slot,
    ring::{Bell, Consumer, Event, Producer, spsc_with},
};
use rustix::event::EventfdFlags;

use crate::{
    counters::{Counters, DropReason},
    driver::Driver,
    error::{OpenError, PortError},
    null::template,
    options::{OptionGroup, PortOption, QUEUES, Value},
    port::{Context, Copies, Interest, Port, PortInfo, Queue, Receive, Transmit, Wake},
    uri::PortUri,
};

/// Declaration of the driver: name, help and options.
pub(crate) const DRIVER: Driver = Driver {
    name: "ring",
    object: "NAME",
    summary: "joins two parts of one process, without a copy",
    description: "\
The first port opened under a name is one end and the second the other; what one end transmits the
other receives, in order. With `loop` there is one end only, which receives what it transmits.",
    needs: "It needs no privileges and no interface.",
    examples: &[
        ("ring:a", "one end; whoever opens it next has the other"),
        ("ring:a?loop&seed=256", "256 frames that circulate"),
    ],
    options: &[OptionGroup {
        when: "",
        options: &[
            PortOption {
                name: "slots",
                value: Value::Number { least: 1, most: 1 << 20 },
                default: "1024",
                help: "Places in each direction, rounded up to a power of two.",
            },
            PortOption {
                name: "loop",
                value: Value::Switch,
                default: "off",
                help: "There is one end only, which receives what it transmits.",
            },
            PortOption {
                name: "seed",
                value: Value::Number { least: 0, most: 1 << 20 },
                default: "0",
                help: "Frames that are put in at the start, to circulate; at most as many as \
                       there are slots.",
            },
            PortOption {
                name: "size",
                value: Value::Number { least: 14, most: u64::MAX },
                default: "60",
                help: "Length of those frames in bytes, without FCS; at most what fits a buffer.",
            },
            QUEUES,
        ],
    }],
    interface: false,
    open,
};

/// Interval at which a sender looks at a full ring.
const FULL_RETRY: Duration = Duration::from_micros(50);

/// Buffers kept at hand where packets are given back.
const CACHE: usize = 64;

/// The rings of a process whose second end has not been opened, by name.
#[derive(Default)]
struct Registry {
    ends: Mutex<HashMap<String, Option<End>>>,
}

/// One end: a receiving and a transmitting side per queue.
type End = Vec<(RingReceive, RingTransmit)>;

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let mut options = uri.options(DRIVER.options);
    let slots = options.number("slots")?.unwrap_or(options.default_of("slots")) as usize;
    let queues = options.number("queues")?.map(|n| n as usize);
    let single = options.is_on("loop")?;
    let seed = options.number_to("seed", slots as u64)?.unwrap_or(options.default_of("seed"));
    let seed = seed as usize;
    let room = context.arena.room() as u64;
    let size = options.number_to("size", room)?.unwrap_or(options.default_of("size")) as usize;
    options.finish()?;
    let queues = queues.or(context.queues).unwrap_or(1);
    let system = |step| move |source| OpenError::System { port: uri.to_string(), step, source };

    let registry = context.shared.get::<Registry>();
    let mut end = {
        let mut ends = registry.ends.lock().expect("no panic while held");
        match ends.get_mut(uri.name()) {
            None => {
                let (first, second) = if single {
                    (loops(queues, slots, &context.arena).map_err(system("eventfd"))?, None)
                } else {
                    let (first, second) =
                        pairs(queues, slots, &context.arena).map_err(system("eventfd"))?;
                    (first, Some(second))
                };
                ends.insert(uri.name().into(), second);
                first
            }
            Some(second) => second.take().ok_or_else(|| OpenError::Busy {
                port: uri.to_string(),
                reason: "this ring's ends are both open; choose another name".into(),
            })?,
        }
    };
    for (_, transmit) in &mut end {
        seed_ring(transmit, &context.arena, seed, size).ok_or_else(|| OpenError::Unsupported {
            port: uri.to_string(),
            reason: format!("the arena has not {seed} buffers to seed the ring with"),
        })?;
    }
    let queues: Vec<Queue> = end
        .into_iter()
        .map(|(receive, transmit)| Queue {
            receive: context.direction.receives().then(|| Box::new(receive) as _),
            transmit: context.direction.transmits().then(|| Box::new(transmit) as _),
        })
        .collect();
    Ok(Port {
        info: PortInfo {
            link: None,
            uri: uri.clone(),
            interface: None,
            mac: None,
            frame_limit: None,
            speed: None,
            copies: Copies::None,
            stamps: false,
            types: false,
            mode: format!(
                "{} slots{}",
                slots.next_power_of_two(),
                if single { ", looped" } else { "" }
            ),
        },
        queues,
    })
}

/// Puts frames into a ring; `None` when there are not enough buffers.
fn seed_ring(transmit: &mut RingTransmit, arena: &Arena, count: usize, size: usize) -> Option<()> {
    let mut pool = arena.cache(64);
    let template = template(size);
    for _ in 0..count {
        let mut slot = pool.take_one(size)?;
        arena.packet_mut(&mut slot)?.copy_from_slice(&template);
        transmit.producer.as_mut()?.push(slot).ok()?;
    }
    Some(())
}

/// Two ends, joined crosswise.
fn pairs(queues: usize, slots: usize, arena: &Arena) -> std::io::Result<(End, End)> {
    let (mut first, mut second) = (End::new(), End::new());
    for _ in 0..queues {
        let (to_second, from_first) = channel(slots, arena)?;
        let (to_first, from_second) = channel(slots, arena)?;
        first.push((from_second, to_second));
        second.push((from_first, to_first));
    }
    Ok((first, second))
}

/// One end, joined to itself.
fn loops(queues: usize, slots: usize, arena: &Arena) -> std::io::Result<End> {
    (0..queues)
        .map(|_| channel(slots, arena).map(|(transmit, receive)| (receive, transmit)))
        .collect()
}

fn channel(slots: usize, arena: &Arena) -> std::io::Result<(RingTransmit, RingReceive)> {
    let home = arena.clone();
    let (producer, consumer) = spsc_with(slots, move |slots: Vec<Slot>| {
        let mut pool = home.cache(CACHE);
        slots.into_iter().for_each(|slot| pool.give_one(slot));
    });
    let bell = Arc::new(Bell::new(Eventfd::new()?));
    Ok((
        RingTransmit {
            producer: Some(producer),
            bell: Arc::clone(&bell),
            counters: Counters::shared(),
        },
        RingReceive { consumer, bell, counters: Counters::shared(), arena: arena.clone() },
    ))
}

/// Event a receiver sleeps on.
struct Eventfd(OwnedFd);

impl Eventfd {
    fn new() -> std::io::Result<Eventfd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Eventfd(rustix::event::eventfd(0, flags)?))
    }
}

impl Event for Eventfd {
    fn set(&self) {
        // Full is as good as set.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

struct RingReceive {
    consumer: Consumer<Slot>,
    bell: Arc<Bell<Eventfd>>,
    counters: Arc<Counters>,
    /// Arena that packets left in the ring go to when this end is closed.
    arena: Arena,
}

impl Drop for RingReceive {
    /// Gives back the packets in the ring: sent to an end that does not receive, or was never
    /// opened. Its sender may notice late or never that there is no receiver.
    fn drop(&mut self) {
        let mut pool = self.arena.cache(CACHE);
        self.close(&mut pool);
    }
}

impl Receive for RingReceive {
    fn receive(&mut self, _: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        self.bell.disarm();
        match self.consumer.known().min(frame.room()) {
            1 => Ok(self.take_one(frame)),
            _ => Ok(self.take_burst(frame)),
        }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        let armed = self.bell.arm();
        if !self.consumer.is_empty() {
            Wake::Now
        } else if armed {
            Wake::Fd(self.bell.event().0.as_fd(), Interest::Read)
        } else {
            Wake::At(Instant::now() + FULL_RETRY)
        }
    }

    fn ended(&self) -> bool {
        self.consumer.is_abandoned() && self.consumer.is_empty()
    }

    fn close(&mut self, pool: &mut PoolCache) {
        while let Some(slot) = self.consumer.pop() {
            pool.give_one(slot);
        }
    }
}

/// One packet is received and sent apart from bursts, without choosing a loop.
impl RingReceive {
    #[inline(always)]
    fn take_one(&mut self, frame: &mut Frame) -> usize {
        let Some(slot) = self.consumer.pop() else { return 0 };
        self.counters.passed(1, slot.len() as u64);
        let fits = frame.push(slot);
        debug_assert!(fits.is_ok(), "no more is ready than fits");
        1
    }

    #[inline(always)]
    fn take_burst(&mut self, frame: &mut Frame) -> usize {
        let before = frame.len();
        let taken = self.consumer.pop_frame(frame, usize::MAX);
        if taken > 0 {
            self.counters.passed(taken, Slot::total_len(&frame.slots()[before..]));
        }
        taken
    }
}

struct RingTransmit {
    /// `None` when it has been noticed that there is no receiver any more.
    producer: Option<Producer<Slot>>,
    bell: Arc<Bell<Eventfd>>,
    counters: Arc<Counters>,
}

impl Transmit for RingTransmit {
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        match &mut self.producer {
            Some(producer) if !producer.is_abandoned() => {}
            _ => return self.refuse(pool, frame),
        }
        if frame.len() == 1 { Ok(self.send_one(frame)) } else { Ok(self.send_burst(frame)) }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        match &self.producer {
            Some(producer) if producer.len() == producer.capacity() => {
                Wake::At(Instant::now() + FULL_RETRY)
            }
            _ => Wake::Now,
        }
    }
}

impl RingTransmit {
    #[inline(always)]
    fn send_one(&mut self, frame: &mut Frame) -> usize {
        let (Some(producer), Some(slot)) = (&mut self.producer, frame.pop()) else { return 0 };
        let bytes = slot.len() as u64;
        if let Err(slot) = producer.push(slot) {
            let fits = frame.push(slot);
            debug_assert!(fits.is_ok(), "it was there");
            return 0;
        }
        self.counters.passed(1, bytes);
        self.bell.ring();
        1
    }

    #[inline(always)]
    fn send_burst(&mut self, frame: &mut Frame) -> usize {
        let Some(producer) = &mut self.producer else { return 0 };
        let bytes = frame.bytes();
        let sent = producer.push_frame(frame);
        let left = if frame.is_empty() { 0 } else { frame.bytes() };
        self.counters.passed(sent, bytes - left);
        self.bell.ring();
        sent
    }

    /// The receiver is gone: packets it left in the ring go home, and packets sent now are dropped.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        self.producer = None;
        let count = frame.len();
        self.counters.dropped(DropReason::LinkDown, count);
        pool.give(frame);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;
    use crate::port::Direction;

    fn context() -> Context {
        let options = ArenaOptions { size: 1 << 20, huge: false, ..Default::default() };
        Context::new(options.create().unwrap())
    }

    fn open_ring(context: &Context, text: &str) -> Port {
        open(&text.parse().unwrap(), context).unwrap()
    }

    #[test]
    fn unreceived_packets_come_home() {
        let context = context();
        let arena = context.arena.clone();
        let mut pool = arena.cache(64);
        let mut a = open_ring(&context, "ring:x");
        let mut frame = Frame::new(8);
        pool.take(&mut frame, 6, 60);
        a.queues[0].transmit.as_mut().unwrap().transmit(&mut pool, &mut frame).unwrap();
        drop(open_ring(&context.toward(Direction::Transmit), "ring:y?seed=3"));
        drop((a, context, pool));
        assert_eq!(arena.accounting().held, 0);
    }

    #[test]
    fn packets_of_one_end_arrive_at_the_other() {
        let context = context();
        let mut pool = context.arena.cache(64);
        let mut a = open_ring(&context, "ring:x?slots=4");
        let mut b = open_ring(&context, "ring:x?slots=4");
        let mut frame = Frame::new(8);
        pool.take(&mut frame, 6, 60);
        let transmit = a.queues[0].transmit.as_mut().unwrap();
        assert_eq!(transmit.transmit(&mut pool, &mut frame).unwrap(), 4);
        assert_eq!((frame.len(), transmit.counters().read().bytes), (2, 240));
        let mut got = Frame::new(8);
        let receive = b.queues[0].receive.as_mut().unwrap();
        assert_eq!(receive.receive(&mut pool, &mut got).unwrap(), 4);
        assert_eq!(transmit.transmit(&mut pool, &mut frame).unwrap(), 2);
        pool.give(&mut got);
        receive.close(&mut pool);
        drop((a, b));
        assert_eq!(pool.arena().accounting().held, 0);
    }

    #[test]
    fn a_third_end_is_refused() {
        let context = context();
        let _ends = (open_ring(&context, "ring:x"), open_ring(&context, "ring:x"));
        let error = open(&"ring:x".parse().unwrap(), &context).unwrap_err();
        assert!(matches!(error, OpenError::Busy { .. }), "{error}");
    }

    #[test]
    fn a_seeded_loop_circulates() {
        let context = context();
        let mut pool = context.arena.cache(64);
        let mut port = open_ring(&context, "ring:x?loop&seed=16&size=64");
        let queue = &mut port.queues[0];
        let (receive, transmit) =
            (queue.receive.as_mut().unwrap(), queue.transmit.as_mut().unwrap());
        let mut frame = Frame::new(32);
        for _ in 0..3 {
            assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 16);
            assert_eq!(context.arena.packet(&frame.slots()[3]), template(64));
            assert_eq!(transmit.transmit(&mut pool, &mut frame).unwrap(), 16);
        }
        receive.close(&mut pool);
        assert_eq!(context.arena.accounting().held, 0);
    }

    #[test]
    fn packets_for_a_closed_end_are_dropped_with_the_reason() {
        let context = context();
        let mut pool = context.arena.cache(64);
        let mut a = open_ring(&context, "ring:x?slots=4");
        drop(open_ring(&context, "ring:x"));
        let mut frame = Frame::new(8);
        pool.take(&mut frame, 8, 60);
        let transmit = a.queues[0].transmit.as_mut().unwrap();
        assert_eq!(transmit.transmit(&mut pool, &mut frame).unwrap(), 8);
        let counts = transmit.counters().read();
        assert_eq!((counts.packets, counts.dropped_for(DropReason::LinkDown)), (0, 8));
        assert!(a.queues[0].receive.as_ref().unwrap().ended());
        assert_eq!(context.arena.accounting().held, 0);
    }

    /// A receiver goes at any moment of its sender: packets that were sent and not received come
    /// home when the second end is closed.
    #[test]
    fn a_receiver_that_goes_away_while_it_is_sent_to_leaves_nothing_behind() {
        let context = context();
        for round in 0..200 {
            let mut a = open_ring(&context, &format!("ring:{round}?slots=64"));
            let b = open_ring(&context, &format!("ring:{round}?slots=64"));
            let gone = std::thread::spawn(move || drop(b));
            let mut pool = context.arena.cache(64);
            let mut frame = Frame::new(8);
            let transmit = a.queues[0].transmit.as_mut().unwrap();
            for _ in 0..round % 16 {
                pool.take(&mut frame, 4, 60);
                transmit.transmit(&mut pool, &mut frame).unwrap();
                pool.give(&mut frame);
            }
            gone.join().unwrap();
            drop(a);
            drop(pool);
            assert_eq!(context.arena.accounting().held, 0, "round {round}");
        }
    }

    #[test]
    fn a_sleeping_receiver_is_woken() {
        let context = context();
        let mut a = open_ring(&context, "ring:x");
        let mut b = open_ring(&context, "ring:x");
        let mut receive = b.queues[0].receive.take().unwrap();
        let arena = context.arena.clone();
        let (sender, number) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            sender.send(linerate_test_support::thread_number()).unwrap();
            let mut pool = arena.cache(64);
            let mut frame = Frame::new(8);
            while frame.is_empty() {
                assert!(receive.wait(Duration::from_secs(20)).unwrap(), "never woken");
                receive.receive(&mut pool, &mut frame).unwrap();
            }
            pool.give(&mut frame);
        });
        linerate_test_support::await_waiting(number.recv().unwrap());
        let mut pool = context.arena.cache(64);
        let mut frame = Frame::new(8);
        pool.take(&mut frame, 1, 60);
        a.queues[0].transmit.as_mut().unwrap().transmit(&mut pool, &mut frame).unwrap();
        sleeper.join().unwrap();
    }
}

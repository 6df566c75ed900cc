//! `null:` generates frames and discards the packets sent to it.
//!
//! For measuring everything but a port: the remaining cost is that of taking buffers, passing slots
//! on and giving buffers back.
//!
//! A port receives one frame, its own, over and over. Where `null:` ports alone write into the arena it
//! is in every buffer from the start, and no packet is touched; where others write, too, each frame is
//! written.

use std::{hint::black_box, sync::Arc};

use linerate_memory::{Frame, PoolCache};

use crate::{
    counters::{Counters, DropReason},
    driver::Driver,
    error::{OpenError, PortError},
    options::{OptionGroup, PortOption, QUEUES, Value},
    port::{Context, Copies, Port, PortInfo, Queue, Receive, Transmit, Wake},
    uri::PortUri,
};

/// Declaration of the driver: name, help and options.
pub(crate) const DRIVER: Driver = Driver {
    name: "null",
    object: "",
    summary: "frames out of nothing; discards what it is sent",
    description: "\
For measuring everything but a port: what is left is the cost of taking buffers, passing packets
on and giving buffers back. All frames are alike: broadcasts of an EtherType for experiments, zeros
behind the header. Where nothing but `null:` ports writes packets, as in `linerate forward null:
null:`, they are in the buffers from the start; where another port or an element may have written
into a buffer, each frame is written anew.",
    needs: "It needs no privileges and no interface.",
    examples: &[
        ("null:", "frames of 60 bytes without end"),
        ("null:?size=1514&count=1000", "a thousand of the longest that plain Ethernet carries"),
        ("null:?copy", "frames that are really written and read"),
        ("null:?count=0", "no frames: stays open, and discards what it is sent"),
    ],
    options: &[OptionGroup {
        when: "",
        options: &[
            PortOption {
                name: "size",
                value: Value::Number { least: 14, most: u64::MAX },
                // The shortest Ethernet frame.
                default: "60",
                help: "Length of the frames in bytes, without FCS; at most what fits a buffer.",
            },
            PortOption {
                name: "copy",
                value: Value::Switch,
                default: "off",
                help: "Writes every frame that is received, and reads every frame that is sent.",
            },
            PortOption {
                name: "count",
                value: Value::Number { least: 0, most: u64::MAX },
                default: "endless",
                help: "Ends after that many frames; with 0 there are none, and the port stays open.",
            },
            QUEUES,
        ],
    }],
    interface: false,
    open,
};

fn open(uri: &PortUri, context: &Context) -> Result<Port, OpenError> {
    let mut options = uri.options(DRIVER.options);
    let room = context.arena.room() as u64;
    let size = options.number_to("size", room)?.unwrap_or(options.default_of("size")) as usize;
    let copy = options.is_on("copy")?;
    let count = options.number("count")?;
    let queues = options.number("queues")?.map(|n| n as usize);
    options.finish()?;

    // One template for all sizes: the frames of a size are its beginning.
    let written =
        context.direction.receives() && context.arena.set_template(&template(context.arena.room()));
    let template: Arc<[u8]> = template(size).into();
    let queues = queues.or(context.queues).unwrap_or(1);
    // A remainder goes to the first queue.
    let share = |queue: u64| {
        count.map(|n| n / queues as u64 + if queue == 0 { n % queues as u64 } else { 0 })
    };
    let queue = |index: usize| Queue {
        receive: context.direction.receives().then(|| {
            Box::new(NullReceive {
                template: Arc::clone(&template),
                copy: copy || !written,
                silent: count == Some(0),
                left: share(index as u64).unwrap_or(u64::MAX),
                counters: Counters::shared(),
            }) as Box<dyn Receive>
        }),
        transmit: context
            .direction
            .transmits()
            .then(|| Box::new(NullTransmit { copy, counters: Counters::shared() }) as _),
    };
    Ok(Port {
        info: PortInfo {
            link: None,
            uri: uri.clone(),
            interface: None,
            mac: None,
            frame_limit: None,
            speed: None,
            copies: if copy { Copies::Driver } else { Copies::None },
            stamps: false,
            types: false,
            mode: format!("{size}-byte frames{}", if copy { ", copied" } else { "" }),
        },
        queues: (0..queues).map(queue).collect(),
    })
}

/// A broadcast frame of the IEEE 802 local experimental EtherType (IEEE Std
/// 802, 9.2.3), which no host acts on.
pub(crate) fn template(size: usize) -> Vec<u8> {
    let mut frame = vec![0; size];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

struct NullReceive {
    template: Arc<[u8]>,
    /// Whether frames are written in any case, also into buffers that hold the template.
    copy: bool,
    /// Whether there are no frames and no end of them.
    silent: bool,
    left: u64,
    counters: Arc<Counters>,
}

impl Receive for NullReceive {
    #[inline]
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let wanted = frame.room().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let before = frame.len();
        let size = self.template.len();
        let taken = pool.take(frame, wanted, size);
        if self.copy || !pool.arena().has_template() {
            self.write(pool, frame, before);
        }
        if taken < wanted {
            // No buffer is free. Nothing is lost, and so no drop is counted: the
            // stream has no schedule to fall behind.
            self.counters.dropped(DropReason::NoBuffer, usize::from(taken == 0));
        }
        if self.left != u64::MAX {
            self.left -= taken as u64;
        }
        self.counters.passed(taken, (taken * size) as u64);
        Ok(taken)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        if self.left == 0 { Wake::Never } else { Wake::Now }
    }

    fn ended(&self) -> bool {
        self.left == 0 && !self.silent
    }
}

impl NullReceive {
    /// Writes the packets of a frame behind the first `before`.
    #[cold]
    #[inline(never)]
    fn write(&self, pool: &PoolCache, frame: &mut Frame, before: usize) {
        for slot in &mut frame.slots_mut()[before..] {
            if let Some(bytes) = pool.arena().packet_mut(slot) {
                bytes.copy_from_slice(&self.template);
            }
        }
    }
}

struct NullTransmit {
    copy: bool,
    counters: Arc<Counters>,
}

impl Transmit for NullTransmit {
    #[inline]
    fn transmit(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        let sent = frame.len();
        if self.copy {
            for bytes in pool.arena().packets(frame) {
                for line in bytes.chunks(64) {
                    black_box(line[0]);
                }
            }
        }
        self.counters.passed(sent, frame.bytes());
        pool.give(frame);
        Ok(sent)
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use linerate_memory::ArenaOptions;

    use super::*;

    fn open_null(text: &str) -> (Port, PoolCache) {
        let arena =
            ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }.create().unwrap();
        let pool = arena.cache(64);
        (open(&text.parse().unwrap(), &Context::new(arena)).unwrap(), pool)
    }

    #[test]
    fn makes_the_frames_asked_for_and_ends() {
        let (mut port, mut pool) = open_null("null:?count=40&size=100&copy");
        let queue = &mut port.queues[0];
        let receive = queue.receive.as_mut().unwrap();
        let mut frame = Frame::new(32);
        assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 32);
        assert_eq!(pool.arena().packet(&frame.slots()[31]), template(100));
        let transmit = queue.transmit.as_mut().unwrap();
        assert_eq!(transmit.transmit(&mut pool, &mut frame).unwrap(), 32);
        assert!(!receive.ended());
        assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 8);
        assert!(receive.ended());
        assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 0);
        pool.give(&mut frame);
        assert_eq!(receive.counters().read().bytes, 4000);
        assert_eq!(transmit.counters().read().packets, 32);
        assert_eq!(pool.arena().accounting().held, 0);
    }

    /// All packets of an arena, received by a port.
    fn receive_all(port: &mut Port, pool: &mut PoolCache) -> Frame {
        let mut frame = Frame::new(2048);
        let receive = port.queues[0].receive.as_mut().unwrap();
        assert_eq!(receive.receive(pool, &mut frame).unwrap(), pool.arena().count());
        frame
    }

    #[test]
    fn frames_are_the_ports_own_whatever_the_buffers_held() {
        let (mut port, mut pool) = open_null("null:?size=100");
        let arena = pool.arena().clone();
        let mut frame = receive_all(&mut port, &mut pool);
        assert!(arena.packets(&frame).all(|packet| packet == template(100)), "from the start");
        // A port that writes: its packets come round.
        let ring = crate::open(&"ring:x".parse().unwrap(), &Context::new(arena.clone())).unwrap();
        arena.for_each_mut(&mut frame, |packet| packet.fill(0xaa));
        pool.give(&mut frame);
        let mut frame = receive_all(&mut port, &mut pool);
        assert!(arena.packets(&frame).all(|packet| packet == template(100)), "beside a ring");
        pool.give(&mut frame);
        drop(ring);
    }

    #[test]
    fn a_port_that_is_opened_later_sends_its_own_frames_too() {
        let arena =
            ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }.create().unwrap();
        let mut pool = arena.cache(64);
        let mut frame = Frame::new(2048);
        pool.take(&mut frame, usize::MAX, 1500);
        arena.for_each_mut(&mut frame, |packet| packet.fill(0xaa));
        let mut port = open(&"null:".parse().unwrap(), &Context::new(arena.clone())).unwrap();
        pool.give(&mut frame);
        let mut frame = receive_all(&mut port, &mut pool);
        assert!(arena.packets(&frame).all(|packet| packet == template(60)));
        pool.give(&mut frame);
    }

    #[test]
    fn without_frames_it_stays_open() {
        let (mut port, mut pool) = open_null("null:?count=0&queues=2");
        let mut frame = Frame::new(32);
        for queue in &mut port.queues {
            let receive = queue.receive.as_mut().unwrap();
            assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 0);
            assert!(!receive.ended() && matches!(receive.wake(), Wake::Never));
        }
        let (mut port, _) = open_null("null:?count=1&queues=2");
        assert!(port.queues[1].receive.as_mut().unwrap().ended(), "no share of a count");
    }

    #[test]
    fn a_count_is_shared_by_the_queues() {
        let (mut port, mut pool) = open_null("null:?count=7&queues=2");
        let mut frame = Frame::new(32);
        let counts = port.queues.iter_mut().map(|queue| {
            let got = queue.receive.as_mut().unwrap().receive(&mut pool, &mut frame).unwrap();
            pool.give(&mut frame);
            got
        });
        assert_eq!(counts.collect::<Vec<_>>(), [4, 3]);
    }

    #[test]
    fn an_empty_pool_is_counted() {
        let (mut port, mut pool) = open_null("null:");
        let total = pool.arena().count();
        let mut frame = Frame::new(2048);
        let receive = port.queues[0].receive.as_mut().unwrap();
        assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), total);
        assert_eq!(receive.receive(&mut pool, &mut frame).unwrap(), 0);
        assert_eq!(receive.counters().read().dropped_for(DropReason::NoBuffer), 1);
        pool.give(&mut frame);
    }
}

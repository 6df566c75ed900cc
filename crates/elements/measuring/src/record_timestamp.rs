//! `RecordTimestamp`: when numbered packets came.
//!
//! Not in Click; in `FastClick`, whose defaults these are.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use linerate_element_support::log_once::LogOnce;
use linerate_graph::{Arg, Class, Context, Element, ElementBuilder, ElementRef, Plan, parse_bool};
use linerate_memory::Frame;

use super::{FAMILY, chunks::Chunks};

/// Default of `N`.
const SIZE: u32 = 65_536;
/// Most times that are recorded without being asked for by `N`.
const MOST: u32 = 1 << 26;
/// Most times that `N` can ask for.
const MOST_ASKED: u32 = 1 << 28;
/// Bytes of a number.
const NUMBER: usize = 8;

pub(super) const CLASS: Class = Class {
    name: "RecordTimestamp",
    family: FAMILY,
    summary: "records when packets came, by their number",
    description: "A TimestampDiff behind finds out by this how long packets took. With an `OFFSET` the time \
        is recorded under the number that NumberPacket has written there, else under the number of \
        packets that came before. `COUNTER` names the NumberPacket, whose `NET_ORDER` holds then. The \
        packets of a frame have one time.\n\n\
        With an `OFFSET`, times of numbers below `N` are recorded; with `DYNAMIC true`, or without an \
        `OFFSET`, those below 67,108,864 or a greater `N`. A packet with another number goes on without a \
        record, and a message says so once, where FastClick ends. Memory is taken for 65,536 times at \
        once, for the first of them at the start.",
    ports: "1/1",
    processing: "h/h",
    args: &[
        Arg::keyword("COUNTER", "element", "", "the NumberPacket that numbers the packets"),
        Arg::keyword("N", "packets", "65536", "how many times are recorded"),
        Arg::keyword(
            "OFFSET",
            "bytes",
            "-1: packets are counted",
            "where packets have their number",
        ),
        Arg::keyword("DYNAMIC", "bool", "false", "whether more times are recorded than N"),
        Arg::keyword(
            "NET_ORDER",
            "bool",
            "false",
            "whether the first byte of a number is the highest",
        ),
    ],
    cost: "One reading of the clock per frame; with an OFFSET a line of each packet, and a line of the record.",
    example: "InfiniteSource(LENGTH 60, LIMIT 10, STOP true) -> NumberPacket(40) \
        -> r :: RecordTimestamp(OFFSET 40) -> TimestampDiff(r) -> Discard;",
    make: |make| Box::new(RecordTimestamp::new(make)),
    writes: false,
    ..Class::here()
};

/// The record of an element, which all its replicas and the elements that look at it share.
#[derive(Default)]
pub(super) struct Record(OnceLock<Recorded>);

pub(super) struct Recorded {
    times: Chunks<AtomicU64>,
    /// Packets that came, where these are counted.
    count: AtomicU64,
    /// Whether the first byte of a number is the highest.
    pub(super) big: bool,
}

/// A time that has been taken out of the record.
const TAKEN: u64 = u64::MAX;

/// Time recorded under a number, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A time, in nanoseconds: the record has it no longer.
    Time(u64),
    /// Nothing: no packet of this number has come.
    Nothing,
    /// Nothing any more: the time has been taken.
    Taken,
}

impl Record {
    /// Returns the recorded times; `None` before the element is made.
    pub(super) fn get(&self) -> Option<&Recorded> {
        self.0.get()
    }
}

impl Recorded {
    /// Records a time. Returns true if there is room for that number.
    #[inline]
    fn record(&self, number: u64, time: u64) -> bool {
        let place = self.times.place(number);
        if let Some(place) = place {
            // Zero is for what is not there.
            place.store(time.max(1), Relaxed);
        }
        place.is_some()
    }

    /// Takes over what another has recorded.
    fn take_state(&self, old: &Recorded) {
        self.count.store(old.count.load(Relaxed), Relaxed);
        old.times.for_each(|number, time| {
            let time = time.load(Relaxed);
            if time != 0
                && let Some(place) = self.times.place(number)
            {
                place.store(time, Relaxed);
            }
        });
    }

    /// Takes a time out of the record.
    #[inline]
    pub(super) fn take(&self, number: u64) -> Found {
        let Some(place) = self.times.get(number) else { return Found::Nothing };
        // A packet that comes in vain writes nothing.
        match place.load(Relaxed) {
            0 => Found::Nothing,
            TAKEN => Found::Taken,
            _ => match place.swap(TAKEN, Relaxed) {
                TAKEN => Found::Taken,
                time => Found::Time(time),
            },
        }
    }
}

/// The number that a packet has at an offset, if it is long enough.
#[inline]
pub(super) fn number_at(packet: &[u8], offset: usize, big: bool) -> Option<u64> {
    let number = *packet.get(offset..)?.first_chunk::<NUMBER>()?;
    Some(if big { u64::from_be_bytes(number) } else { u64::from_le_bytes(number) })
}

struct RecordTimestamp {
    /// Where packets have their numbers; `None` when they are counted.
    offset: Option<usize>,
    record: Arc<Record>,
    said: LogOnce,
}

/// Whether a `NumberPacket` writes the highest byte first.
fn writes_big(plan: &Plan, counter: usize) -> bool {
    plan.argument(counter, "NET_ORDER").is_some_and(|text| parse_bool(&text) == Some(true))
}

impl RecordTimestamp {
    fn new(make: &mut ElementBuilder<'_>) -> RecordTimestamp {
        let size = match make.or("N", SIZE) {
            0 => SIZE,
            size if size > MOST_ASKED => {
                make.error(format!("N: out of range, bound {MOST_ASKED}"));
                SIZE
            }
            size => size,
        };
        let offset = usize::try_from(make.or("OFFSET", -1i32)).ok();
        let grows = make.or("DYNAMIC", false) || offset.is_none();
        let mut big = make.or("NET_ORDER", false);
        if let Some(ElementRef(counter)) = make.get("COUNTER") {
            if make.plan().elements[counter].class.name == "NumberPacket" {
                big = writes_big(make.plan(), counter);
            } else {
                make.error("COUNTER must be a valid NumberPacket element");
            }
        }
        let limit = if grows { size.max(MOST) } else { size };
        let record = make.shared(Record::default);
        record.0.get_or_init(|| Recorded {
            times: Chunks::new(limit as usize),
            count: AtomicU64::new(0),
            big,
        });
        RecordTimestamp { offset, record, said: LogOnce::for_element(make) }
    }

    #[cold]
    fn report(&self, cx: &Context, number: u64) {
        if self.said.first() {
            let name = cx.name();
            cx.console().report(&format!(
                "{name}: no room for the time of packet {number}: N and DYNAMIC make more\n"
            ));
        }
    }
}

impl Element for RecordTimestamp {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let now = cx.steady();
        let Some(recorded) = self.record.get() else { return };
        let mut beyond = None;
        match self.offset {
            None => {
                let packets = frame.len() as u64;
                let first = recorded.count.fetch_add(packets, Relaxed);
                for number in first..first + packets {
                    if !recorded.record(number, now) {
                        beyond = Some(number);
                    }
                }
            }
            Some(offset) => {
                let arena = cx.pool.arena();
                for slot in frame.slots() {
                    if let Some(number) = number_at(arena.packet(slot), offset, recorded.big)
                        && !recorded.record(number, now)
                    {
                        beyond = Some(number);
                    }
                }
            }
        }
        if let Some(number) = beyond {
            self.report(cx, number);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<RecordTimestamp>()
            && let (Some(new), Some(old)) = (self.record.get(), old.record.get())
        {
            new.take_state(old);
        }
    }
}

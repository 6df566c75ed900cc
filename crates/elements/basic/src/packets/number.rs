//! `NumberPacket`, `CheckNumberPacket`: packets that carry their number.
//!
//! Not in Click; in `FastClick`, whose defaults, messages and handlers these are.

use std::{
    iter,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Reads, Writes,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::handler_values::integer_or;

/// Drop reason of `NumberPacket`.
#[derive(Clone, Copy, DropReason)]
enum NumberReason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

/// Drop reason of `CheckNumberPacket`.
#[derive(Clone, Copy, DropReason)]
enum CheckReason {
    /// not one of the numbers
    Other,
}

/// Bytes of a number.
const NUMBER: usize = 8;

/// Most numbers that are counted.
const MOST: u32 = 1 << 26;

const OFFSET: Arg = Arg::optional("OFFSET", "bytes", "40", "where the number is");
const NET_ORDER: Arg =
    Arg::keyword("NET_ORDER", "bool", "false", "whether its first byte is the highest");

pub(super) const NUMBER_PACKET: Class = Class {
    name: "NumberPacket",
    family: FAMILY,
    summary: "writes into packets which they are",
    description: "The first packet is number 0, and no number is given twice, whichever worker \
        gives it. Numbers have 64 bits. Packets that are too short grow, with zeros in front of \
        the number, and their IP header, if they have one, says so.",
    ports: "1/1",
    args: &[OFFSET, NET_ORDER],
    handlers: &[Handler::read("count", "packets numbered")],
    annotates: true,
    drops: NumberReason::REASONS,
    cost: "One pass: the line the number goes to.",
    example: "InfiniteSource(LENGTH 60, LIMIT 10, STOP true) -> NumberPacket(42) -> Discard;",
    make: |make| Box::new(NumberPacket::new(make)),
    ..Class::here()
};

pub(super) const CHECK: Class = Class {
    name: "CheckNumberPacket",
    family: FAMILY,
    summary: "counts packets by the number NumberPacket has written",
    description: "How often each number below `COUNT` has come is counted, which shows packets that \
        are lost, and those that came twice; several workers count together. Packets with another number, and those too short for \
        one, leave by output 1, or are dropped when there is none.",
    ports: "1/1-2",
    processing: "h/h",
    args: &[
        OFFSET,
        Arg::optional("COUNT", "packets", "0", "how many numbers there are"),
        NET_ORDER,
    ],
    handlers: &[
        Handler::value("count", "how many numbers there are"),
        Handler::read("max", "the number that came most often, and how often"),
        Handler::read("min", "the number that came least often, and how often"),
        Handler::read("dump", "how often each number came"),
    ],
    prints: true,
    drops: CheckReason::REASONS,
    cost: "The line of the number, and the counter of that number.",
    example: "InfiniteSource(LENGTH 60, LIMIT 10, STOP true) -> NumberPacket -> \
        CheckNumberPacket(40, 10) -> Discard;",
    make: |make| Box::new(CheckNumberPacket::new(make)),
    ..Class::here()
};

struct NumberPacket {
    offset: usize,
    big: bool,
    /// The next packet's number, for all replicas.
    count: Arc<AtomicU64>,
}

impl NumberPacket {
    fn new(make: &mut ElementBuilder<'_>) -> NumberPacket {
        let offset = usize::try_from(make.or("OFFSET", 40i32)).unwrap_or_else(|_| {
            make.error("Offset must be >= 0");
            0
        });
        let count = make.shared(AtomicU64::default);
        NumberPacket { offset, big: make.or("NET_ORDER", false), count }
    }
}

impl Element for NumberPacket {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let NumberPacket { offset, big, ref count } = *self;
        let end = offset + NUMBER;
        cx.retain::<Writes, NumberReason>(frame, |packet| {
            let before = packet.len();
            let lack = end.saturating_sub(before);
            if lack == 0 {
                return Ok(());
            }
            if !packet.append(lack) {
                return Err(Exit::Drop(NumberReason::TooLong));
            }
            packet.bytes_mut()[before..].fill(0);
            let network = packet.network();
            if let Some([_, _, a, b, ..]) = packet.bytes_mut().get_mut(network..) {
                [*a, *b] = (end as u16).to_be_bytes();
            }
            Ok(())
        });
        let arena = cx.pool.arena();
        // Those that are dropped have no number.
        let first = count.fetch_add(frame.len() as u64, Relaxed);
        for (number, slot) in (first..).zip(frame.slots_mut()) {
            let number = if big { number.to_be_bytes() } else { number.to_le_bytes() };
            if let Some(bytes) = arena.packet_mut(slot) {
                bytes[offset..end].copy_from_slice(&number);
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "count" => Ok(self.count.load(Relaxed).to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

/// Packets counted by number, for all replicas together.
type Counts = Arc<[AtomicU32]>;

/// The counts there are now.
type Current = Mutex<Option<Counts>>;

struct CheckNumberPacket {
    offset: usize,
    big: bool,
    counts: Counts,
    current: Arc<Current>,
}

impl CheckNumberPacket {
    fn new(make: &mut ElementBuilder<'_>) -> CheckNumberPacket {
        let mut count: u32 = make.or("COUNT", 0);
        if count > MOST {
            make.error(format!("COUNT: out of range, bound {MOST}"));
            count = 0;
        }
        let current = make.shared(Current::default);
        // A new configuration begins anew.
        if make.replica().index == 0 {
            *current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        CheckNumberPacket {
            offset: make.or::<u32>("OFFSET", 40) as usize,
            big: make.or("NET_ORDER", false),
            counts: resized(&current, count),
            current,
        }
    }
}

/// The counts of so many numbers: those there are, if they are as many, or else new ones with the
/// old values.
fn resized(current: &Current, count: u32) -> Counts {
    let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
    let old = current.as_deref().unwrap_or_default();
    if old.len() != count as usize || current.is_none() {
        let counted = old.iter().map(|count| count.load(Relaxed)).chain(iter::repeat(0));
        *current = Some(counted.take(count as usize).map(AtomicU32::new).collect());
    }
    current.clone().unwrap_or_default()
}

impl Element for CheckNumberPacket {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let CheckNumberPacket { offset, big, ref counts, .. } = *self;
        let mut text = String::new();
        let refused = cx.retain::<Reads, CheckReason>(frame, |packet| {
            let number = packet.bytes().get(offset..).and_then(<[u8]>::first_chunk);
            let number = number.ok_or(Exit::ErrorOutput(CheckReason::Other))?;
            let number = if big { u64::from_be_bytes } else { u64::from_le_bytes }(*number);
            match usize::try_from(number).ok().and_then(|place| counts.get(place)) {
                Some(count) => {
                    count.fetch_add(1, Relaxed);
                    Ok(())
                }
                None => {
                    let count = counts.len();
                    text += &format!("{number} out of scope (count is {count}) !\n");
                    Err(Exit::ErrorOutput(CheckReason::Other))
                }
            }
        });
        if !refused {
            return;
        }
        let class = cx.plan().elements[cx.element()].class.name;
        let who = format!("{} :: {class}: ", cx.name());
        let text: String = text.lines().map(|line| format!("{who}{line}\n")).collect();
        cx.console().report(&text);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        // The first of those that came equally often.
        let show = |found: Option<(usize, u32)>, none: &str| {
            found.map_or(none.to_owned(), |(place, count)| format!("[{place}] : {count}"))
        };
        let numbered = self.counts.iter().map(|count| count.load(Relaxed)).enumerate();
        match handler {
            "count" => Ok(self.counts.len().to_string()),
            "max" => {
                let most = numbered.rev().max_by_key(|(_, count)| *count);
                Ok(show(most, "[-1] : -1"))
            }
            "min" => {
                let least = numbered.min_by_key(|(_, count)| *count);
                Ok(show(least, &format!("[-1] : {}", i32::MAX)))
            }
            "dump" => Ok(numbered.map(|(place, count)| format!("{place}: {count}\n")).collect()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "count" => {
                let refusal = "expected unsigned integer";
                let count = integer_or(value, refusal)?;
                if count > MOST {
                    return Err(HandlerError::refused(refusal));
                }
                self.counts = resized(&self.current, count);
                Ok(String::new())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn packets_carry_their_number_and_grow_for_it() {
        for limit in [1, 7, 32, 256] {
            for (order, second) in [("false", "0100000000000000"), ("true", "0000000000000001")] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(DATA abcd, LIMIT 2, STOP true) -> t :: Tee \
                        -> n :: NumberPacket(2, NET_ORDER {order}) -> c :: Collect; \
                        t [1] -> d :: Collect"
                ))
                .frame_limit(limit);
                run.run();
                assert_eq!(run.read("c.packets"), format!("61620000000000000000\n6162{second}"));
                assert_eq!(run.read("d.packets"), "61626364\n61626364");
                assert_eq!(run.read("n.count"), "2");
            }
        }
    }

    /// Buffers are used again.
    #[test]
    fn bytes_in_front_of_the_number_are_not_another_packets() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 600) -> Discard;
                 s :: InfiniteSource(DATA abc, LIMIT 2, ACTIVE false) -> NumberPacket(6) -> c :: Collect;
                 DriverManager(wait 1ms, write s.active true, wait 1ms, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(
                run.read("c.packets"),
                "6162630000000000000000000000\n6162630000000100000000000000"
            );
        }
    }

    #[test]
    fn lost_and_doubled_packets_show() {
        for limit in [1, 7, 32, 256] {
            let mut run = Run::new(
                "InfiniteSource(LENGTH 60, LIMIT 12, STOP true) -> NumberPacket \
                    -> k :: RoundRobinSwitch -> t :: Tee -> n :: CheckNumberPacket(40, 10) \
                    -> good :: Counter -> Discard; t [1] -> n; n [1] -> bad :: Counter -> Discard; \
                    k [1] -> n; k [2] -> Discard",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!((run.read("good.count"), run.read("bad.count")), ("11".into(), "1".into()));
            assert_eq!(
                run.read("n.dump"),
                "0: 2\n1: 1\n2: 0\n3: 2\n4: 1\n5: 0\n6: 2\n7: 1\n8: 0\n9: 2\n"
            );
            assert_eq!(
                (run.read("n.max"), run.read("n.min")),
                ("[0] : 2".into(), "[2] : 0".into())
            );
            assert!(run.output().contains("10 out of scope (count is 10) !"));
        }
    }

    /// As in `FastClick` no number is given twice, and one is counted wherever it comes.
    #[test]
    fn several_workers_number_and_count_together() {
        let mut run = Run::new(
            "a :: InfiniteSource(LENGTH 60, LIMIT 300) -> n :: NumberPacket
                -> c :: CheckNumberPacket(40, 500) -> Discard;
             b :: InfiniteSource(LENGTH 60, LIMIT 200) -> n;
             StaticThreadSched(a 0, b 1); DriverManager(wait 0.3s, stop)",
        )
        .workers(2);
        run.run();
        assert_eq!(run.read("n.count"), "500");
        let once: String = (0..500).map(|number| format!("{number}: 1\n")).collect();
        assert_eq!(run.read("c.dump"), once);
        // Earlier counts stay.
        run.write("c.count", "0x1f5").unwrap();
        assert_eq!(run.read("c.dump"), once + "500: 0\n");
        assert_eq!((run.read("c.max"), run.read("c.min")), ("[0] : 1".into(), "[500] : 0".into()));
    }

    #[test]
    fn impossible_numbers_are_refused() {
        for (element, error) in [
            ("NumberPacket(-1)", "Offset must be >= 0"),
            ("CheckNumberPacket(40, 4294967295)", "COUNT: out of range, bound 67108864"),
        ] {
            let errors = Run::errors(&format!("Idle -> {element} -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
        let mut run = Run::new("Idle -> c :: CheckNumberPacket -> Discard");
        for wrong in ["-1", "x", "4294967295"] {
            let error = run.write("c.count", wrong).unwrap_err().to_string();
            assert_eq!(error, "expected unsigned integer", "{wrong}");
        }
    }
}

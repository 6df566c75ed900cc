//! `NumberPacket`, `CheckNumberPacket`: packets that carry their number.
//!
//! Not in Click; in `FastClick`, whose defaults, messages and handlers these are.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Merge};
use linerate_memory::{Frame, Slot};

use super::{FAMILY, room};

/// Drop reasons.
const NO_BUFFER: usize = 0;
const TOO_LONG: usize = 1;

/// Bytes of a number.
const NUMBER: usize = 8;

const OFFSET: Arg = Arg::optional("OFFSET", "bytes", "40", "where the number is");
const NET_ORDER: Arg =
    Arg::keyword("NET_ORDER", "bool", "false", "whether its first byte is the highest");

pub(super) const NUMBER_PACKET: Class = Class {
    name: "NumberPacket",
    family: FAMILY,
    summary: "writes into packets which they are",
    description: "The first packet is number 0. Numbers have 64 bits. Packets that are too short \
        grow, and their IP header, if they have one, says so.",
    ports: "1/1",
    args: &[OFFSET, NET_ORDER],
    handlers: &[Handler::count("count", "packets numbered")],
    annotates: true,
    drops: &["no buffer", "longer than a buffer"],
    cost: "One pass: the line the number goes to.",
    example: "InfiniteSource(LENGTH 60, LIMIT 10, STOP true) -> NumberPacket(42) -> Discard;",
    make: |make| {
        Box::new(NumberPacket {
            offset: make.or::<u32>("OFFSET", 40) as usize,
            big: make.or("NET_ORDER", false),
            count: 0,
            failed: Vec::new(),
        })
    },
    ..Class::EMPTY
};

pub(super) const CHECK: Class = Class {
    name: "CheckNumberPacket",
    family: FAMILY,
    summary: "counts packets by the number NumberPacket has written",
    description: "How often each number below `COUNT` has come is counted, which shows packets that \
        are lost, and those that came twice. Packets with another number, and those too short for \
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
        Handler::read("max", "the number that came most often, and how often").merged(Merge::First),
        Handler::read("min", "the number that came least often, and how often")
            .merged(Merge::First),
        Handler::read("dump", "how often each number came").merged(Merge::First),
    ],
    drops: &["not one of the numbers"],
    cost: "The line of the number, and the counter of that number.",
    example: "InfiniteSource(LENGTH 60, LIMIT 10, STOP true) -> NumberPacket -> \
        CheckNumberPacket(40, 10) -> Discard;",
    make: |make| {
        let count: u32 = make.or("COUNT", 0);
        Box::new(CheckNumberPacket {
            offset: make.or::<u32>("OFFSET", 40) as usize,
            big: make.or("NET_ORDER", false),
            counts: vec![0; count as usize],
            others: Vec::new(),
        })
    },
    ..Class::EMPTY
};

struct NumberPacket {
    offset: usize,
    big: bool,
    count: u64,
    failed: Vec<Slot>,
}

impl Element for NumberPacket {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let NumberPacket { offset, big, ref mut count, ref mut failed } = *self;
        let arena = cx.pool.arena();
        let end = offset + NUMBER;
        let number = |slot: &mut Slot| {
            let lack = end.saturating_sub(slot.len());
            if lack > 0 && !room::put(arena, slot, lack) {
                return false;
            }
            let network = usize::from(arena.meta(slot).network);
            let Some(bytes) = arena.packet_mut(slot) else { return false };
            if lack > 0
                && let Some(length) = bytes[..end].get_mut(network + 2..network + 4)
            {
                length.copy_from_slice(&(end as u16).to_be_bytes());
            }
            let number = if big { count.to_be_bytes() } else { count.to_le_bytes() };
            bytes[offset..end].copy_from_slice(&number);
            *count += 1;
            true
        };
        frame.sift(number, |slot| failed.push(slot));
        failed.drain(..).for_each(|slot| cx.drop_packet(slot, TOO_LONG));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

struct CheckNumberPacket {
    offset: usize,
    big: bool,
    /// How often each number came.
    counts: Vec<u32>,
    others: Vec<Slot>,
}

impl Element for CheckNumberPacket {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let CheckNumberPacket { offset, big, ref mut counts, ref mut others } = *self;
        let arena = cx.pool.arena();
        let mut text = String::new();
        let known = |slot: &mut Slot| {
            let number = arena.packet(slot).get(offset..).and_then(<[u8]>::first_chunk);
            let Some(number) = number else { return false };
            let number = if big { u64::from_be_bytes } else { u64::from_le_bytes }(*number);
            let place = usize::try_from(number).ok().and_then(|place| counts.get_mut(place));
            match place {
                Some(place) => *place += 1,
                None => {
                    let count = counts.len();
                    text += &format!("{number} out of scope (count is {count}) !\n");
                    return false;
                }
            }
            true
        };
        frame.sift(known, |slot| others.push(slot));
        if others.is_empty() {
            return;
        }
        let class = cx.plan().elements[cx.element()].class.name;
        let who = format!("{} :: {class}: ", cx.name());
        let text: String = text.lines().map(|line| format!("{who}{line}\n")).collect();
        cx.console().report(&text);
        for slot in self.others.drain(..) {
            if cx.out.count() > 1 {
                cx.out.emit(1, slot);
            } else {
                cx.drop_packet(slot, 0);
            }
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        // The first of those that came equally often.
        let show = |found: Option<(usize, u32)>, none: &str| {
            found.map_or(none.to_owned(), |(place, count)| format!("[{place}] : {count}"))
        };
        let numbered = self.counts.iter().copied().enumerate();
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

    fn write(
        &mut self,
        _: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match handler {
            "count" => {
                let count: u32 = value
                    .trim()
                    .parse()
                    .map_err(|_| HandlerError::refused("expected unsigned integer"))?;
                self.counts.resize(count as usize, 0);
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
}

//! `AggregatePacketCounter`: counts packets by aggregate and packet number.

use std::{collections::HashMap, fmt::Write as _};

use linerate_graph::{
    Arguments, Class, Context, Element, ElementBuilder, ElementRef, Handler, HandlerError,
    HandlerResult, Text, parse_integer, unquoted,
};
use linerate_memory::Frame;

use super::{FAMILY, spread::ByAggregate};
use linerate_element_support::{annotation_byte::Word, annotations::aggregate};

/// Default of `CAPACITY`.
const CAPACITY: usize = 1 << 20;

pub(super) const CLASS: Class = Class {
    name: "AggregatePacketCounter",
    family: FAMILY,
    summary: "counts packets by aggregate and packet number",
    description: "For each aggregate but 0 it counts which numbers packets have, and by which input \
        they come; they leave by the output of the same number. `ANNO` is the annotation that has \
        the number, one of four bytes, or `NONE`: then all packets have the number 0. The handlers \
        tell of an aggregate, which is written behind their name, which packets have come, and \
        which have come by input 0 more often than by input 1: were lost on the way.\n\n\
        At most `CAPACITY` counts are kept, one for each number of an aggregate and each input it came \
        by; packets that would need another one go on, are not counted, and are counted as `refused`. \
        Workers count by themselves: give each input the same worker.",
    ports: "1-/=",
    flow: "#/#",
    annotates: true,
    cost: "A look-up in a hash table by aggregate, and another by number.",
    example: "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"1\") \
        -> AggregatePacketCounter -> Discard;",
    ..Class::for_element::<AggregatePacketCounter>()
};

#[derive(Arguments)]
#[arguments(check = AggregatePacketCounter::check, handlers = [
    Handler::count("count", "packets that were counted"),
    Handler::read("received", "numbers of packets of an aggregate that have come").with_parameter(),
    Handler::read("undelivered", "numbers of those that came by input 0 and not by input 1")
        .with_parameter(),
    Handler::count("refused", "packets there was no room for a count of"),
    Handler::button("clear", "forgets all counts"),
])]
struct AggregatePacketCounter {
    /// has no effect, as in Click
    #[arg(keyword, name = "NOTIFIER", kind = "element", shown = "")]
    _notifier: Option<ElementRef>,
    /// where the number is, or NONE
    #[arg(keyword, kind = "annotation or NONE", default = Text("PACKET_NUMBER".into()),
        shown = "PACKET_NUMBER")]
    anno: Text,
    /// most counts
    #[arg(keyword, kind = "counts", default = CAPACITY, shown = "1048576")]
    capacity: usize,
    place: Option<Word>,
    /// Packets by aggregate, input and packet number.
    counts: ByAggregate<Vec<HashMap<u32, u32>>>,
    /// Counts in there.
    kept: usize,
    refused: u64,
    #[init(make.inputs())]
    inputs: usize,
    /// All packets, including those without an aggregate.
    total: u64,
    /// Whether any packet had an aggregate.
    any: bool,
}

impl AggregatePacketCounter {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        self.capacity = self.capacity.max(1);
        let name = unquoted(&self.anno.0);
        if name == "NONE" {
            return;
        }
        match make.parse::<Word>(&name) {
            Ok(place) => self.place = Some(place),
            Err(_) => make.error("bad ANNO"),
        }
    }

    /// Counts a packet; `false` when there is no count of its aggregate and number by that input,
    /// and no room for another.
    #[inline]
    fn count(&mut self, aggregate: u32, port: usize, number: u32) -> bool {
        let full = self.kept >= self.capacity;
        let inputs = self.inputs;
        let by_input = if full {
            self.counts.get_mut(&aggregate)
        } else {
            Some(self.counts.entry(aggregate).or_insert_with(|| vec![HashMap::new(); inputs]))
        };
        let Some(counts) = by_input.and_then(|counts| counts.get_mut(port)) else { return false };
        if let Some(count) = counts.get_mut(&number) {
            *count = count.wrapping_add(1);
        } else if full {
            return false;
        } else {
            counts.insert(number, 1);
            self.kept += 1;
        }
        true
    }

    /// Counts of the aggregate that a handler's parameter names, by input.
    fn counts_of(&self, parameter: &str) -> Result<Option<&[HashMap<u32, u32>]>, HandlerError> {
        let text = unquoted(parameter.trim());
        if text.is_empty() {
            return Ok(None);
        }
        let number = parse_integer(&text).and_then(|number| u32::try_from(number).ok());
        let refused = || HandlerError::refused("argument should be aggregate number");
        Ok(self.counts.get(&number.ok_or_else(refused)?).map(Vec::as_slice))
    }
}

/// Formats distinct numbers in ascending order, one per line.
fn lines(numbers: impl Iterator<Item = u32>) -> String {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{number}");
        text
    })
}

impl Element for AggregatePacketCounter {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        let arena = cx.pool.arena();
        for slot in frame.slots() {
            let meta = arena.meta(slot);
            self.total += 1;
            let aggregate = aggregate(meta);
            if aggregate == 0 {
                continue;
            }
            self.any = true;
            let number = self.place.map_or(0, |place| u32::from_ne_bytes(place.get(meta)));
            if !self.count(aggregate, port, number) {
                self.refused += 1;
            }
        }
        if port > 0 {
            cx.out.emit_frame(port, frame);
        }
    }

    fn close(&mut self, cx: &mut Context) {
        if self.total > 0 && !self.any {
            let (name, class) = (cx.name(), CLASS.name);
            let text =
                format!("{name} :: {class}: warning: saw no packets with aggregate annotations\n");
            cx.console().report(&text);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AggregatePacketCounter>()
            && old.inputs == self.inputs
        {
            self.counts = std::mem::take(&mut old.counts);
            (self.kept, self.refused) = (std::mem::take(&mut old.kept), old.refused);
            (self.total, self.any) = (old.total, old.any);
            old.total = 0;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        match handler {
            "count" => {
                let all = self.counts.values().flatten().flat_map(HashMap::values);
                Ok(all.map(|count| u64::from(*count)).sum::<u64>().to_string())
            }
            "refused" => Ok(self.refused.to_string()),
            "received" => {
                let counts = self.counts_of(parameter)?.unwrap_or_default();
                Ok(lines(counts.iter().flat_map(HashMap::keys).copied()))
            }
            "undelivered" if self.inputs < 2 => {
                Err(HandlerError::refused("there is no input 1 to compare with"))
            }
            "undelivered" => {
                let Some([sent, received, ..]) = self.counts_of(parameter)? else {
                    return Ok(String::new());
                };
                let came = |number: &u32| received.get(number).copied().unwrap_or(0);
                let lost = sent.iter().filter(|(number, count)| **count > came(number));
                Ok(lines(lost.map(|(number, _)| *number)))
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "clear" => {
                self.counts.clear();
                self.kept = 0;
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// The packet numbers are ports that `GetIPAddress` copies into the annotation.
    #[test]
    fn numbers_that_do_not_arrive_are_known() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "a :: FromIPSummaryDump(STOP true, FIELDS aggregate sport, DATA \"9 1\n9 2\n9 3\n\
                        9 3\n7 5\n0 6\n\");
                 b :: FromIPSummaryDump(STOP true, FIELDS aggregate sport, DATA \"9 3\n9 1\n9 8\n\
                        7 5\n\");
                 c :: AggregatePacketCounter(ANNO DST_IP);
                 a -> GetIPAddress(20) -> [0] c [0] -> x :: Counter -> Discard;
                 b -> GetIPAddress(20) -> [1] c [1] -> y :: Counter -> Discard;
                 DriverManager(wait_stop, wait_stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!((run.read("x.count"), run.read("y.count")), ("6".into(), "4".into()));
            assert_eq!(run.read("c.count"), "9");
            let number = |port: u32| u32::from_ne_bytes([0, port as u8, 0, 0]);
            let text = |ports: &[u32]| {
                let mut numbers: Vec<u32> = ports.iter().map(|port| number(*port)).collect();
                numbers.sort_unstable();
                numbers.iter().map(|number| format!("{number}\n")).collect::<String>()
            };
            assert_eq!(run.read_with("c.received", "9"), text(&[1, 2, 3, 8]));
            assert_eq!(run.read_with("c.undelivered", "9"), text(&[2, 3]));
            assert_eq!(run.read_with("c.received", "7"), text(&[5]));
            for (handler, aggregate) in
                [("undelivered", "7"), ("undelivered", "5"), ("received", ""), ("received", "0")]
            {
                assert_eq!(run.read_with(&format!("c.{handler}"), aggregate), "");
            }
            run.write("c.clear", "").unwrap();
            assert_eq!(
                (run.read("c.count"), run.read_with("c.received", "9")),
                ("0".into(), String::new())
            );
        }
    }

    #[test]
    fn without_an_annotation_all_have_one_number() {
        let mut run = Run::new(
            "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"9\n9\n8\")
                -> c :: AggregatePacketCounter(ANNO NONE) -> Queue -> Unqueue -> Discard",
        );
        run.run();
        assert_eq!(
            (run.read("c.count"), run.read_with("c.received", "9")),
            ("3".into(), "0\n".into())
        );
    }

    #[test]
    fn packets_beyond_the_capacity_go_on_and_are_refused() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "a :: FromIPSummaryDump(STOP true, FIELDS aggregate,
                     DATA \"1\\n2\\n3\\n1\\n4\\n2\\n\");
                 b :: FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"5\\n2\\n1\\n2\\n\");
                 c :: AggregatePacketCounter(ANNO NONE, CAPACITY 3);
                 a -> [0] c [0] -> x :: Counter -> Discard;
                 b -> q :: Queue -> u :: Unqueue(ACTIVE false) -> [1] c [1] -> y :: Counter -> Discard;
                 DriverManager(wait_stop, wait_stop, write u.active true, wait 1ms, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!((run.read("x.count"), run.read("y.count")), ("6".into(), "4".into()));
            // 1, 2 and 3 by input 0 take all room.
            assert_eq!((run.read("c.count"), run.read("c.refused")), ("5".into(), "5".into()));
            assert_eq!(run.read_with("c.received", "3"), "0\n");
            for aggregate in ["4", "5"] {
                assert_eq!(run.read_with("c.received", aggregate), "");
            }
            run.write("c.clear", "").unwrap();
            assert_eq!((run.read("c.count"), run.read("c.refused")), ("0".into(), "5".into()));
        }
    }

    #[test]
    fn packets_are_counted_when_they_are_pulled_and_none_with_an_aggregate_is_said() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 3, STOP true) -> Queue -> c :: AggregatePacketCounter -> Unqueue
                -> d :: Counter -> Discard; DriverManager(wait_stop, wait 1ms)",
        );
        run.run();
        assert_eq!((run.read("c.count"), run.read("d.count")), ("0".into(), "3".into()));
        run.close();
        assert_eq!(
            run.output(),
            "c :: AggregatePacketCounter: warning: saw no packets with aggregate annotations\n"
        );
    }

    /// The error messages are those of Click.
    #[test]
    fn an_annotation_has_four_bytes() {
        for annotation in ["PAINT", "x", "100"] {
            let text = format!("Idle -> AggregatePacketCounter(ANNO {annotation}) -> Discard");
            let errors = Run::errors(&text);
            assert!(errors.ends_with("\n  bad ANNO\n"), "{errors}");
        }
    }
}

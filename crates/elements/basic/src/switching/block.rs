//! `Block`: drops packets above a rate.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    lang::config::split,
};
use linerate_memory::Frame;

use super::{FAMILY, split as split_frame};
use linerate_element_support::{annotations::aggregate, handler_values::integer_or};

pub(super) const CLASS: Class = Class {
    name: "Block",
    family: FAMILY,
    summary: "sends packets away whose rate is above a threshold",
    description: "The rate is that of packets to the same address, which IPRateMonitor has noted on \
        them. Up to `THRESH` they leave by output 0, above by output 1; with a threshold of 0 all \
        leave by output 0.",
    ports: "1/2",
    args: &[Arg::required("THRESH", "packets per second", "the highest rate that passes")],
    handlers: &[Handler::value("thresh", "the highest rate that passes")],
    annotates: true,
    cost: "Reads a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> b :: Block(100) -> Discard; b [1] -> Discard;",
    make: |make| Box::new(Block::new(make)),
    ..Class::here()
};

struct Block {
    threshold: i32,
}

impl Block {
    fn new(make: &mut ElementBuilder<'_>) -> Block {
        Block { threshold: make.need("THRESH") }
    }
}

impl Element for Block {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let threshold = self.threshold;
        if threshold != 0 {
            split_frame(cx, frame, |arena, slot| {
                usize::from(aggregate(arena.meta(slot)).cast_signed() > threshold)
            });
        }
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        Ok(self.threshold.to_string())
    }

    fn write(&mut self, _: &mut Context, _: &str, value: &str) -> HandlerResult {
        let arguments = split(value);
        let [number] = &arguments[..] else {
            return Err(HandlerError::refused("expecting 1 integer"));
        };
        self.threshold = integer_or(number, "not an integer")?;
        Ok(String::new())
    }
}

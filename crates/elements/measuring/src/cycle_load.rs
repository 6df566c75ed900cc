//! `CycleLoad`: burns cycles, in place of work whose cost is to be studied.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult,
    parse_integer,
};
use linerate_memory::Frame;

use super::{FAMILY, burner::Burner};

pub(super) const CLASS: Class = Class {
    name: "CycleLoad",
    family: FAMILY,
    summary: "burns cycles for every packet",
    description: "Emulates work that takes `CYCLES` ticks of the cycle counter per packet and \
        `FRAME_CYCLES` per frame, without touching memory. Packets pass unchanged.",
    ports: "1/1",
    args: &[
        Arg::optional("CYCLES", "cycles", "0", "cycles per packet"),
        Arg::optional("FRAME_CYCLES", "cycles", "0", "cycles per frame"),
    ],
    handlers: &[
        Handler::value("cycles", "cycles per packet"),
        Handler::value("frame_cycles", "cycles per frame"),
    ],
    cost: "What it is told to.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> CycleLoad(100) -> Discard;",
    make: |make| Box::new(CycleLoad::new(make)),
    ..Class::here()
};

/// Most cycles per packet or frame, about a second: a frame cannot block a
/// worker for good.
const LIMIT: u32 = 1 << 31;

struct CycleLoad {
    per_packet: u64,
    per_frame: u64,
    burner: Burner,
}

impl CycleLoad {
    fn new(make: &mut ElementBuilder<'_>) -> CycleLoad {
        let mut cycles = |name: &str| {
            let cycles: u32 = make.or(name, 0);
            if cycles > LIMIT {
                make.error(format!("{name}: out of range, bound {LIMIT}"));
            }
            u64::from(cycles.min(LIMIT))
        };
        let (per_packet, per_frame) = (cycles("CYCLES"), cycles("FRAME_CYCLES"));
        CycleLoad { per_packet, per_frame, burner: Burner::new() }
    }
}

impl Element for CycleLoad {
    fn push(&mut self, _: &mut Context, _: usize, frame: &mut Frame) {
        self.burner.burn(self.per_frame + self.per_packet * frame.len() as u64);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "cycles" => Ok(self.per_packet.to_string()),
            "frame_cycles" => Ok(self.per_frame.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let number = parse_integer(value).filter(|number| (0..=i128::from(LIMIT)).contains(number));
        let number = number.ok_or_else(|| HandlerError::refused("invalid number"))? as u64;
        match handler {
            "cycles" => self.per_packet = number,
            "frame_cycles" => self.per_frame = number,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn packets_pass_and_cycles_can_be_set() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 500, STOP true) -> l :: CycleLoad(10, FRAME_CYCLES 20)
                    -> d :: Discard",
            )
            .frame_limit(limit);
            assert_eq!(run.read("l.cycles"), "10");
            assert_eq!(run.read("l.frame_cycles"), "20");
            run.write("l.cycles", "30").unwrap();
            assert!(run.write("l.cycles", "-1").is_err());
            assert_eq!(run.read("l.cycles"), "30");
            run.run();
            assert_eq!(run.read("d.count"), "500");
        }
    }
}

//! `CheckLength`: packets of at most a length.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make, parse_integer};
use linerate_memory::{Frame, Slot};

use super::FAMILY;

/// Drop reason.
const TOO_LONG: usize = 0;

pub(super) const CLASS: Class = Class {
    name: "CheckLength",
    family: FAMILY,
    summary: "passes packets of at most a length",
    description: "Longer ones leave by output 1, or are dropped where there is none.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[Arg::required("LENGTH", "bytes", "most bytes of a packet")],
    handlers: &[Handler::value("length", "most bytes of a packet")],
    drops: &["too long"],
    cost: "About a cycle per packet, which is not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> CheckLength(1500) -> Discard;",
    make: |make| Box::new(CheckLength::new(make)),
    ..Class::EMPTY
};

struct CheckLength {
    length: u32,
    has_other: bool,
    failed: Vec<Slot>,
}

impl CheckLength {
    fn new(make: &mut Make<'_>) -> CheckLength {
        let has_other = make.outputs() > 1;
        CheckLength { length: make.need("LENGTH"), has_other, failed: Vec::new() }
    }
}

impl Element for CheckLength {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let length = self.length as usize;
        let fits = |slot: &mut Slot| slot.len() <= length;
        if self.has_other {
            frame.sift(fits, |slot| cx.out.emit(1, slot));
        } else {
            frame.sift(fits, |slot| self.failed.push(slot));
            self.failed.drain(..).for_each(|slot| cx.drop_packet(slot, TOO_LONG));
        }
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(self.length.to_string())
    }

    fn write(&mut self, _: &mut Context, _: &str, value: &str) -> Result<String, HandlerError> {
        let length = parse_integer(value.trim()).and_then(|length| u32::try_from(length).ok());
        self.length = length.ok_or_else(|| HandlerError::refused("expected integer"))?;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn longer_packets_go_elsewhere() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "Packets(0102 - 010203 01020304 01) -> l :: CheckLength(2) -> c :: Collect;
                 l [1] -> d :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.lengths"), "2\n0\n1");
            assert_eq!(run.read("d.lengths"), "3\n4");
        }
    }

    #[test]
    fn what_is_pulled_is_checked_and_nobody_sleeps_over_it() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "s :: InfiniteSource(LENGTH 9, LIMIT 20) -> q :: Queue -> l :: CheckLength(2)
                    -> c :: Collect;
                 Script(wait 1s, write s.length 2, write s.reset, wait 1s, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.lengths").lines().count(), 20);
            assert_eq!(run.read("l.drops"), "20\ttoo long\n");
        }
    }

    #[test]
    fn the_length_can_be_changed() {
        let mut run = Run::new("Packets(0102 010203) -> l :: CheckLength(2) -> c :: Collect");
        let error = run.write("l.length", "-1").unwrap_err().to_string();
        assert_eq!(error, "expected integer");
        run.write("l.length", "3").unwrap();
        run.run();
        assert_eq!((run.read("c.lengths"), run.read("l.length")), ("2\n3".into(), "3".into()));
    }
}

//! `Truncate`: packets of at most a length.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_kit::{annotations, written::integer};

/// Drop reason.
const NO_BUFFER: usize = 0;

pub(super) const CLASS: Class = Class {
    name: "Truncate",
    family: FAMILY,
    summary: "cuts packets to a length",
    description: "The extra length annotation grows by what is cut off, where the graph uses \
        annotations: Pad without a length makes packets as long as they were, and captures say \
        how long they were.",
    ports: "1/1",
    args: &[
        Arg::required("LENGTH", "bytes", "most bytes of a packet"),
        Arg::keyword("EXTRA_LENGTH", "bool", "true", "whether to remember what was cut off"),
    ],
    handlers: &[Handler::value("nbytes", "most bytes of a packet")],
    drops: &["no buffer"],
    cost: "About a cycle per packet: only its slot is changed. Where the graph uses annotations, \
        a line of them for those that are cut.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Truncate(32) -> Discard;",
    make: |make| Box::new(Truncate::new(make)),
    ..Class::EMPTY
};

struct Truncate {
    length: u32,
    remembers: bool,
}

impl Truncate {
    fn new(make: &mut Make<'_>) -> Truncate {
        let remembers = make.or("EXTRA_LENGTH", true) && make.world.annotated;
        Truncate { length: make.need("LENGTH"), remembers }
    }
}

impl Element for Truncate {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let length = self.length as usize;
        if self.remembers {
            if frame.slots().iter().any(|slot| slot.is_shared() && slot.len() > length) {
                cx.unshare(frame, NO_BUFFER);
            }
            let arena = cx.pool.arena();
            for slot in frame.slots_mut().iter_mut().filter(|slot| slot.len() > length) {
                let cut = (slot.len() - length) as u32;
                if let Some(meta) = arena.meta_mut(slot) {
                    let extra = annotations::extra_length(meta).wrapping_add(cut);
                    annotations::set_extra_length(meta, extra);
                }
            }
        }
        frame.slots_mut().iter_mut().for_each(|slot| slot.truncate(length));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "nbytes" => Ok(self.length.to_string()),
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
            "nbytes" => self.length = integer(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn packets_are_cut_and_made_as_long_again() {
        for (path, packet) in [
            ("Truncate(3)", "616263"),
            ("Truncate(6)", "6162636465"),
            ("Truncate(0)", ""),
            ("Truncate(4) -> Truncate(3) -> Pad", "6162630000"),
            ("Truncate(3) -> Pad -> Pad", "6162630000"),
            ("Truncate(3, EXTRA_LENGTH false) -> Pad", "616263"),
            ("Truncate(3) -> Pad(4)", "61626300"),
            ("Truncate(3) -> Pad(4) -> Pad", "61626300"),
            ("t :: Tee -> Truncate(3) -> Pad", "6162630000"),
        ] {
            for frame_limit in [1, 256] {
                let more =
                    if path.contains("Tee") { "; t [1] -> Truncate(1) -> Discard" } else { "" };
                let mut run = Run::new(&format!(
                    "InfiniteSource(DATA abcde, LIMIT 2, STOP true) -> {path} -> c :: Collect{more}"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), [packet; 2].join("\n"), "{path}");
            }
        }
    }

    #[test]
    fn the_length_can_be_changed() {
        let mut run = Run::new(
            "InfiniteSource(DATA abcde, LIMIT 1, STOP true) -> t :: Truncate(3) -> c :: Collect",
        );
        assert_eq!(run.write("t.nbytes", "x").unwrap_err().to_string(), "expected integer");
        run.write("t.nbytes", "2").unwrap();
        run.run();
        assert_eq!((run.read("c.packets"), run.read("t.nbytes")), ("6162".into(), "2".into()));
    }
}

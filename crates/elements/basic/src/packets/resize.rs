//! `Resize`: bytes on or off either end.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_kit::{
    room,
    start::{moving_starts, start_moved},
    written::integer,
};

/// Drop reasons.
const NO_BUFFER: usize = 0;
const TOO_LONG: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "Resize",
    family: FAMILY,
    summary: "adds bytes to packets, or takes them off, at either end",
    description: "`HEAD` bytes in front and `TAIL` bytes at the end; negative numbers take bytes \
        off, as far as there are any. New bytes hold anything, also bytes of other packets.",
    ports: "1/1",
    args: &[
        Arg::optional("HEAD", "bytes", "0", "bytes to add in front"),
        Arg::optional("TAIL", "bytes", "0", "bytes to add at the end"),
    ],
    handlers: &[
        Handler::value("head", "bytes to add in front"),
        Handler::value("tail", "bytes to add at the end"),
    ],
    drops: &["no buffer", "longer than a buffer"],
    cost: "A few cycles per packet: only its slot is changed. Where the graph uses annotations, \
        a line of them as well; a packet with too little room is moved.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Resize(-14, 4) -> Discard;",
    make: |make| Box::new(Resize::new(make)),
    ..Class::EMPTY
};

struct Resize {
    head: i32,
    tail: i32,
    failed: Vec<Slot>,
}

impl Resize {
    fn new(make: &mut Make<'_>) -> Resize {
        Resize { head: make.or("HEAD", 0), tail: make.or("TAIL", 0), failed: Vec::new() }
    }
}

impl Element for Resize {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Resize { head, tail, ref mut failed } = *self;
        let annotated = head != 0 && moving_starts(cx, frame, NO_BUFFER);
        // What lies behind the packet may be another holder's.
        if tail > 0 || frame.slots().iter().any(|slot| slot.headroom() as i64 <= i64::from(head)) {
            cx.unshare(frame, NO_BUFFER);
        }
        let arena = cx.pool.arena();
        let size = |count: i32| count.unsigned_abs() as usize;
        let fits = |slot: &mut Slot| {
            let before = slot.len();
            if head < 0 {
                slot.pull(size(head).min(before));
            } else if !room::push(arena, slot, size(head)) {
                return false;
            }
            let start = before as i32 - slot.len() as i32;
            if tail < 0 {
                slot.truncate(slot.len().saturating_sub(size(tail)));
            } else if tail > 0 && !room::put(arena, slot, size(tail)) {
                return false;
            }
            if annotated && let Some(meta) = arena.meta_mut(slot) {
                start_moved(meta, start);
            }
            true
        };
        frame.sift(fits, |slot| failed.push(slot));
        failed.drain(..).for_each(|slot| cx.drop_packet(slot, TOO_LONG));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "head" => Ok(self.head.to_string()),
            "tail" => Ok(self.tail.to_string()),
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
            "head" => self.head = integer(value)?,
            "tail" => self.tail = integer(value)?,
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn either_end_grows_or_shrinks() {
        for (path, packet) in [
            ("Resize", "6162636465"),
            ("Resize(-2, -1)", "6364"),
            ("Resize(-9)", ""),
            ("Resize(0, -9)", ""),
            ("Resize(-3, -3)", ""),
            ("Resize(-2) -> Resize(2)", "6162636465"),
            ("Resize(0, -2) -> Resize(-1, 1)", "626364"),
            ("Resize(300) -> Resize(-300)", "6162636465"),
            ("Resize(0, 2100) -> Resize(0, -2100)", "6162636465"),
        ] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(DATA abcde, LIMIT 2, STOP true) -> {path} -> c :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), [packet; 2].join("\n"), "{path}");
            }
        }
    }

    #[test]
    fn what_no_buffer_holds_is_dropped_and_sizes_can_be_changed() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 2, STOP true) -> r :: Resize(2147483647, -2147483648)
                -> c :: Collect",
        );
        run.run();
        assert_eq!(run.read("r.drops"), "0\tno buffer\n2\tlonger than a buffer\n");
        run.write("r.head", "-3").unwrap();
        run.write("r.tail", "7").unwrap();
        assert_eq!((run.read("r.head"), run.read("r.tail")), ("-3".into(), "7".into()));
        assert_eq!(run.write("r.head", "x").unwrap_err().to_string(), "expected integer");
    }
}

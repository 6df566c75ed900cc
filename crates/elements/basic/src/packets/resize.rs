//! `Resize`: adds or removes bytes at either end.

use linerate_element_support::mac_header::Starts;
use linerate_graph::{
    Arguments, Class, Context, DropReason, Exit, NoBuffer, Reads, Right, Step, Verdict,
};
use linerate_memory::{Frame, Packet};

use super::FAMILY;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

pub(super) const CLASS: Class = Class {
    name: "Resize",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "adds bytes to packets, or takes them off, at either end",
    description: "`HEAD` bytes in front and `TAIL` bytes at the end; negative numbers take bytes \
        off, as far as there are any. New bytes hold anything, also bytes of other packets.",
    ports: "1/1",
    cost: "A few cycles per packet: only its slot is changed; a packet with too little room is \
        moved.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Resize(-14, 4) -> Discard;",
    ..Resize::CLASS
};

#[derive(Arguments)]
struct Resize {
    /// bytes to add in front
    #[arg(optional, kind = "bytes", default = 0)]
    #[handler(value)]
    head: i32,
    /// bytes to add at the end
    #[arg(optional, kind = "bytes", default = 0)]
    #[handler(value)]
    tail: i32,
    #[init(Starts::of(make.plan()))]
    starts: Starts,
}

impl Step<Reads, Reason> for Resize {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let Resize { head, tail, starts } = *self;
        starts.note(cx, frame);
        // Bytes behind the packet may be another holder's.
        if tail > 0 || frame.slots().iter().any(|slot| slot.headroom() as i64 <= i64::from(head)) {
            cx.unshare::<Reason>(frame);
        }
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        let Resize { head, tail, .. } = *self;
        let [front, end] = [head, tail].map(|count| count.unsigned_abs() as usize);
        let fits = if head < 0 {
            packet.pull(front.min(packet.len()))
        } else {
            packet.push(front) || packet.writable().is_some_and(|packet| packet.prepend(front))
        };
        if !fits {
            return Err(Exit::Drop(Reason::TooLong));
        }
        if tail < 0 {
            packet.truncate(packet.len().saturating_sub(end));
        } else if tail > 0 && !packet.writable().is_some_and(|packet| packet.append(end)) {
            return Err(Exit::Drop(Reason::TooLong));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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
    fn packets_beyond_a_buffer_are_dropped_and_sizes_can_be_changed() {
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

//! `Truncate`: cuts packets to a length.

use linerate_graph::{
    Arguments, Class, Context, ElementBuilder, NoBuffer, Reads, Right, Step, Verdict,
};
use linerate_memory::{Frame, Packet};

use super::FAMILY;
use linerate_element_support::annotations;

pub(super) const CLASS: Class = Class {
    name: "Truncate",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "cuts packets to a length",
    description: "The extra length annotation grows by what is cut off, where the graph uses \
        annotations: Pad without a length makes packets as long as they were, and captures say \
        how long they were.",
    ports: "1/1",
    cost: "About a cycle per packet: only its slot is changed. Where the graph uses annotations, \
        a line of them for those that are cut.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Truncate(32) -> Discard;",
    ..Truncate::CLASS
};

#[derive(Arguments)]
#[arguments(check = Truncate::look_at)]
struct Truncate {
    /// most bytes of a packet
    #[arg(kind = "bytes")]
    #[handler(value, name = "nbytes")]
    length: u32,
    /// whether to remember what was cut off
    #[arg(keyword, name = "EXTRA_LENGTH", default = true)]
    remembers: bool,
}

impl Truncate {
    fn look_at(&mut self, make: &mut ElementBuilder<'_>) {
        self.remembers &= make.world.annotated;
    }
}

impl Step<Reads, NoBuffer> for Truncate {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let length = self.length as usize;
        if !self.remembers {
            frame.slots_mut().iter_mut().for_each(|slot| slot.truncate(length));
            return false;
        }
        if frame.slots().iter().any(|slot| slot.is_shared() && slot.len() > length) {
            cx.unshare::<NoBuffer>(frame);
        }
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict {
        let length = self.length as usize;
        if let Some(cut) = packet.len().checked_sub(length).filter(|cut| *cut > 0)
            && let Some(packet) = packet.writable()
        {
            let meta = packet.meta_mut();
            let extra = annotations::extra_length(meta).wrapping_add(cut as u32);
            annotations::set_extra_length(meta, extra);
        }
        packet.truncate(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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

//! `BPDUGuard`: what bridges say to each other does not pass.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::Frame;

use super::{FAMILY, sift};

/// Drop reason.
const RESERVED: usize = 0;

/// The addresses no bridge forwards but for their last four bits (IEEE 802.1Q,
/// table 8-1).
const PREFIX: u64 = 0x0180_c200_0000;

pub(super) const CLASS: Class = Class {
    name: "BPDUGuard",
    family: FAMILY,
    summary: "keeps packets between neighbouring bridges from passing",
    description: "Packets to 01:80:c2:00:00:00 to 0f (spanning tree, pause frames, link \
        aggregation, 802.1X, LLDP) are meant for the next bridge and forwarded by none. They leave \
        by output 1, for who answers them, or are dropped where it is not used. In front of each \
        port of an EtherSwitch, hosts can then neither play bridge nor learn about ours. With \
        `BPDU_ONLY` just those of spanning trees (address 00) are kept.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[Arg::keyword("BPDU_ONLY", "bool", "false", "whether only spanning trees are kept out")],
    handlers: &[Handler::count("count", "packets that have not passed")],
    drops: &["address reserved for bridges"],
    cost: "Touches the packet's first line.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> BPDUGuard -> Discard;",
    make: |make| Box::new(BpduGuard::new(make)),
    ..Class::EMPTY
};

struct BpduGuard {
    /// Bits of an address that need not be those of the first one.
    free: u64,
    count: u64,
}

impl BpduGuard {
    fn new(make: &mut Make<'_>) -> BpduGuard {
        BpduGuard { free: if make.or("BPDU_ONLY", false) { 0 } else { 15 }, count: 0 }
    }
}

impl Element for BpduGuard {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let free = self.free;
        let reserved = |bytes: &[u8]| {
            let head = bytes.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
            (head >> 16) & !free == PREFIX
        };
        let mut any = false;
        cx.pool.arena().for_each(frame, |bytes| any |= reserved(bytes));
        if any {
            self.count +=
                sift(cx, frame, RESERVED, |arena, slot| !reserved(arena.packet(slot))) as u64;
        }
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if cx.pull(0, count, frame) > 0 {
            self.push(cx, 0, frame);
            if frame.is_empty() {
                // There may be more where those came from.
                cx.notify();
            }
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<BpduGuard>() {
            self.count += std::mem::take(&mut old.count);
        }
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(self.count.to_string())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn only_reserved_addresses_are_kept_out() {
        let packets = "0180c2000000aaaa 0180c200000eaaaa 0180c2000010aaaa 0180c3000000aaaa \
            0180c20000 - 0180c200000faaaa 010000000000aaaa";
        for (config, passed, kept) in [("", 5, 3), ("BPDU_ONLY true", 7, 1)] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets({packets}) -> g :: BPDUGuard({config}) -> c :: Collect;
                     g [1] -> d :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                let count = |text: String| text.lines().count();
                assert_eq!(count(run.read("c.lengths")), passed, "{config}");
                assert_eq!(count(run.read("d.lengths")), kept, "{config}");
                assert_eq!(run.read("g.count"), kept.to_string());
            }
        }
    }
}

//! `DropBroadcasts`: only what was sent to one station.

use linerate_graph::{Class, Context, Element, Handler, HandlerError};
use linerate_memory::Frame;

use super::{FAMILY, sift};
use linerate_kit::annotations::is_link_broadcast;

/// Drop reason.
const BROADCAST: usize = 0;

pub(super) const CLASS: Class = Class {
    name: "DropBroadcasts",
    family: FAMILY,
    summary: "drops packets that came by broadcast or multicast of the link",
    description: "Routers must not forward them. Goes by the packet type, which FromDevice, \
        FromPort, HostEtherFilter and SetPacketType set. They leave by output 1 where it is used. The first one is reported.",
    ports: "1/1-2",
    processing: "a/ah",
    handlers: &[Handler::count("drops", "packets dropped, or sent by output 1")],
    annotates: true,
    asks_type: true,
    drops: &["broadcast or multicast"],
    shows_order: |_, _| true,
    cost: "Reads a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> HostEtherFilter(1:1:1:1:1:1, DROP_OTHER false) \
        -> DropBroadcasts -> Discard;",
    make: |_| Box::new(DropBroadcasts { drops: 0 }),
    ..Class::EMPTY
};

struct DropBroadcasts {
    drops: u64,
}

impl DropBroadcasts {
    #[cold]
    #[inline(never)]
    fn sift_out(&mut self, cx: &mut Context, frame: &mut Frame) {
        let gone = sift(cx, frame, BROADCAST, |arena, slot| !is_link_broadcast(arena.meta(slot)));
        if gone > 0 && self.drops == 0 {
            cx.console().report("DropBroadcasts: dropped a packet\n");
        }
        self.drops += gone as u64;
    }
}

impl Element for DropBroadcasts {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        // Most frames have none, and are left as they are.
        let mut any = false;
        cx.pool.arena().for_each_meta(frame, |meta| any |= is_link_broadcast(meta));
        if any {
            self.sift_out(cx, frame);
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
        if let Some(old) = old.downcast_mut::<DropBroadcasts>() {
            self.drops += std::mem::take(&mut old.drops);
        }
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(self.drops.to_string())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn only_packets_to_one_station_pass() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "Packets(010101010101020202020202aa ffffffffffff020202020202bb
                         020202020202030303030303cc 040404040404020202020202dd)
                    -> HostEtherFilter(2:2:2:2:2:2, DROP_OTHER false)
                    -> d :: DropBroadcasts -> c :: Collect; d [1] -> e :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(
                run.read("c.packets"),
                "020202020202030303030303cc\n040404040404020202020202dd"
            );
            assert_eq!(run.read("e.lengths"), "13\n13");
            assert_eq!(run.read("d.drops"), "2");
            assert_eq!(run.output(), "DropBroadcasts: dropped a packet\n");
        }
    }
}

//! `DropBroadcasts`: drops packets sent by broadcast or multicast.

use linerate_graph::{Arguments, Class, Context, DropReason, Exit, Reads, Step, Verdict};
use linerate_memory::{Frame, Packet};

use super::FAMILY;
use linerate_element_support::{annotations::is_link_broadcast, log_once::LogOnce};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// broadcast or multicast
    Broadcast,
}

pub(super) const CLASS: Class = Class {
    name: "DropBroadcasts",
    family: FAMILY,
    summary: "drops packets that came by broadcast or multicast of the link",
    description: "Routers must not forward them. Goes by the packet type, which FromDevice, \
        FromPort, HostEtherFilter and SetPacketType set. They leave by output 1 where it is used. The first one is reported.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    needs_packet_type: true,
    shows_order: |_, _| true,
    cost: "Reads a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> HostEtherFilter(1:1:1:1:1:1, DROP_OTHER false) \
        -> DropBroadcasts -> Discard;",
    ..DropBroadcasts::CLASS
};

#[derive(Arguments)]
struct DropBroadcasts {
    /// packets dropped, or sent by output 1
    #[handler(count, kept)]
    drops: u64,
    /// Whether there was none before.
    none_yet: bool,
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
}

impl Step<Reads, Reason> for DropBroadcasts {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        // Most frames have none, and are left as they are.
        let mut any = false;
        let Context { pool, header_cache, .. } = cx;
        pool.arena().for_each_meta(frame, header_cache, |meta| any |= is_link_broadcast(meta));
        self.none_yet = self.drops == 0;
        any
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        if !is_link_broadcast(packet.meta()) {
            return Ok(());
        }
        self.drops += 1;
        Err(Exit::ErrorOutput(Reason::Broadcast))
    }

    fn end(&mut self, cx: &mut Context) {
        if self.none_yet && self.said.first() {
            cx.console().report("DropBroadcasts: dropped a packet\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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

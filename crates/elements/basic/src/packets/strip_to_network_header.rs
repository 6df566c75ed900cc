//! `StripToNetworkHeader`: removes all bytes in front of the network header.

use linerate_element_support::mac_header::Starts;
use linerate_graph::{Arguments, Class, Context, NoDrop, Reads, Step, Verdict};
use linerate_memory::{Frame, Packet};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "StripToNetworkHeader",
    family: FAMILY,
    summary: "makes packets begin with their network header",
    description: "Takes off what is in front of the network header, or puts back what was taken \
        off it. Packets whose network header is not known pass unchanged.",
    ports: "1/1",
    annotates: true,
    cost: "Reads a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StripToNetworkHeader -> Discard;",
    ..StripToNetworkHeader::CLASS
};

#[derive(Arguments)]
struct StripToNetworkHeader {
    #[init(Starts::of(make.plan()))]
    starts: Starts,
}

impl Step<Reads> for StripToNetworkHeader {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        self.starts.note(cx, frame);
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<NoDrop> {
        match packet.meta().network.offset(packet.headroom()) {
            Some(offset @ 0..) => packet.pull(offset.unsigned_abs().min(packet.len())),
            // In the buffer, so there is as much in front of the packet.
            Some(offset) => packet.push(offset.unsigned_abs()),
            None => true,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn packets_begin_with_their_network_header() {
        for (path, packet) in [
            ("MarkNetwork(2) -> StripToNetworkHeader", "636465"),
            ("MarkNetwork(2) -> Strip(4) -> StripToNetworkHeader", "636465"),
            ("MarkNetwork(2) -> Strip(4) -> Unstrip(3) -> StripToNetworkHeader", "636465"),
            ("MarkNetwork(9) -> StripToNetworkHeader", ""),
            ("Strip(1) -> StripToNetworkHeader", "62636465"),
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
    fn copies_know_their_own_offsets() {
        let mut run = Run::new(
            "InfiniteSource(DATA abcde, LIMIT 1, STOP true) -> MarkNetwork(2) -> t :: Tee
                -> Strip(4) -> StripToNetworkHeader -> a :: Collect;
             t [1] -> Strip(1) -> StripToNetworkHeader -> b :: Collect;",
        );
        run.run();
        assert_eq!(
            (run.read("a.packets"), run.read("b.packets")),
            ("636465".into(), "636465".into())
        );
    }
}

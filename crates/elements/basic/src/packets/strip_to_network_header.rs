//! `StripToNetworkHeader`: whatever precedes the network header goes.

use linerate_graph::{Arguments, Class, Context, Exit, Reads, Step, Way};
use linerate_memory::{Frame, Packet};

use super::FAMILY;
use linerate_kit::start::{from_start, moving_starts, packet_moved};

/// Drop reasons.
const NO_BUFFER: usize = 0;
const TOO_LONG: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "StripToNetworkHeader",
    family: FAMILY,
    summary: "makes packets begin with their network header",
    description: "Takes off what is in front of the network header, or puts back what was taken \
        off it. Packets whose network header is not known pass unchanged.",
    ports: "1/1",
    annotates: true,
    drops: &["no buffer", "longer than a buffer"],
    cost: "Reads a line of annotations per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StripToNetworkHeader -> Discard;",
    ..StripToNetworkHeader::CLASS
};

#[derive(Arguments)]
struct StripToNetworkHeader;

impl Step<Reads> for StripToNetworkHeader {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        moving_starts(cx, frame, NO_BUFFER);
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Way {
        let Some(offset) = from_start(packet.meta().network) else { return Ok(()) };
        let before = offset.unsigned_abs() as usize;
        let moved = if offset >= 0 {
            packet.pull(before.min(packet.len()))
        } else {
            packet.push(before) || packet.writable().is_some_and(|packet| packet.prepend(before))
        };
        if !moved {
            return Err(Exit::Drop(TOO_LONG));
        }
        packet_moved(packet, offset);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

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

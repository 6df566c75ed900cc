//! `EtherMirror`: swaps source and destination.

use linerate_graph::{Arguments, Class, Step, Verdict};
use linerate_memory::PacketMut;
use linerate_packet::rewrite::swap_macs;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "EtherMirror",
    family: FAMILY,
    summary: "swaps the Ethernet addresses of packets",
    description: "Source becomes destination and the other way round: a packet goes back to where \
        it came from. Packets too short to have both stay as they are.",
    ports: "1/1",
    cost: "Touches the packet's first line.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> EtherMirror -> Discard;",
    ..EtherMirror::CLASS
};

#[derive(Arguments)]
struct EtherMirror;

impl Step for EtherMirror {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        // One that is too short stays as it is.
        let _ = swap_macs(packet.bytes_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn addresses_are_swapped_and_short_packets_left() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "Packets(000102030405060708090a0b0c0d0e 000102030405060708090a0b 0001020304 -)
                    -> EtherMirror -> c :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            let lines = "060708090a0b0001020304050c0d0e\n060708090a0b000102030405\n0001020304\n";
            assert_eq!(run.read("c.packets"), lines);
        }
    }
}

//! `TTLSecurity`: only packets from near pass (RFC 5082).

use linerate_graph::{Arguments, Class, DropReason, Exit, Packet, Reads, Step, Verdict};

/// Offset of the time to live in an IPv4 header.
const TTL: usize = 8;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// too far away
    TooFar,
}

pub(crate) const CLASS: Class = Class {
    name: "TTLSecurity",
    family: "example",
    summary: "passes IPv4 packets that came over at most so many hops",
    description: "Neighbours send with a time to live of 255, which no host further away can have \
        left on arrival. Other packets leave by output 1, or are dropped when there is none. \
        Packets begin with their IP header.",
    ports: "1/1-2",
    processing: "a/ah",
    cost: "A look at one byte of each packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> TTLSecurity(1) -> Discard;",
    ..TtlSecurity::CLASS
};

#[derive(Arguments)]
struct TtlSecurity {
    /// most hops on the way
    #[arg(kind = "0 to 255")]
    hops: u8,
}

impl Step<Reads, Reason> for TtlSecurity {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        match packet.bytes().get(TTL) {
            Some(ttl) if *ttl >= 255 - self.hops => Ok(()),
            _ => Err(Exit::ErrorOutput(Reason::TooFar)),
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn packets_from_far_leave_by_the_second_output() {
        let mut run = Run::new(
            "Packets(4500001400000000ff 4500001400000000fe 4500001400000000fd 45)
                -> t :: TTLSecurity(1) -> near :: Collect; t [1] -> far :: Collect",
        )
        .with(crate::CLASSES);
        run.run();
        assert_eq!(run.read("near.packets"), "4500001400000000ff\n4500001400000000fe");
        assert_eq!(run.read("far.packets"), "4500001400000000fd\n45");
    }
}

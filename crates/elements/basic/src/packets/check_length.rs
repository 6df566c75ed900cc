//! `CheckLength`: greatest length of packets.

use linerate_graph::{Arguments, Class, DropReason, Exit, Reads, Step, Verdict};
use linerate_memory::Packet;

use super::FAMILY;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// too long
    TooLong,
}

pub(super) const CLASS: Class = Class {
    name: "CheckLength",
    family: FAMILY,
    summary: "passes packets of at most a length",
    description: "Longer ones leave by output 1, or are dropped where there is none.",
    ports: "1/1-2",
    processing: "a/ah",
    cost: "About a cycle per packet, which is not touched.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> CheckLength(1500) -> Discard;",
    ..CheckLength::CLASS
};

#[derive(Arguments)]
struct CheckLength {
    /// most bytes of a packet
    #[arg(kind = "bytes")]
    #[handler(value)]
    length: u32,
}

impl Step<Reads, Reason> for CheckLength {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        if packet.len() <= self.length as usize {
            Ok(())
        } else {
            Err(Exit::ErrorOutput(Reason::TooLong))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn longer_packets_go_elsewhere() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "Packets(0102 - 010203 01020304 01) -> l :: CheckLength(2) -> c :: Collect;
                 l [1] -> d :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.lengths"), "2\n0\n1");
            assert_eq!(run.read("d.lengths"), "3\n4");
        }
    }

    #[test]
    fn pulled_packets_are_checked_and_the_puller_stays_awake() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "s :: InfiniteSource(LENGTH 9, LIMIT 20) -> q :: Queue -> l :: CheckLength(2)
                    -> c :: Collect;
                 Script(wait 1s, write s.length 2, write s.reset, wait 1s, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.lengths").lines().count(), 20);
            assert_eq!(run.read("l.drops"), "20\ttoo long\n");
        }
    }

    #[test]
    fn the_length_can_be_changed() {
        let mut run = Run::new("Packets(0102 010203) -> l :: CheckLength(2) -> c :: Collect");
        let error = run.write("l.length", "-1").unwrap_err().to_string();
        assert_eq!(error, "expected integer");
        run.write("l.length", "3").unwrap();
        run.run();
        assert_eq!((run.read("c.lengths"), run.read("l.length")), ("2\n3".into(), "3".into()));
    }
}

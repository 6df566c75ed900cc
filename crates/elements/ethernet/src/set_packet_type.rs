//! `SetPacketType`: sets the packet type.

use linerate_graph::{Arguments, Class, ElementBuilder, Right, Step, Verdict, Word};
use linerate_memory::{Meta, PacketMut};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "SetPacketType",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets the packet type",
    description: "How packets were addressed on their link, which DropBroadcasts, ICMPError, \
        ICMP6Error and IPOutputCombo go by: `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, \
        `OUTGOING` or `LOOPBACK`, in any case.",
    ports: "1/1",
    annotates: true,
    cost: "Writes a line of annotations per packet; copies of packets become copies of their own.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetPacketType(HOST) -> Discard;",
    ..SetPacketType::CLASS
};

/// The types' names, by their numbers.
const TYPES: [(&str, u8); 6] = [
    ("HOST", Meta::TO_HOST),
    ("BROADCAST", Meta::BROADCAST),
    ("MULTICAST", Meta::MULTICAST),
    ("OTHERHOST", Meta::OTHER_HOST),
    ("OUTGOING", Meta::OUTGOING),
    ("LOOPBACK", Meta::LOOPBACK),
];

#[derive(Arguments)]
struct SetPacketType {
    /// the type
    #[arg(name = "TYPE", kind = "word", with = number)]
    kind: u8,
}

/// The number of a type.
fn number(make: &mut ElementBuilder<'_>, name: &str) -> u8 {
    let Word(word) = make.need(name);
    let known = TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&word));
    if known.is_none() && !word.is_empty() {
        make.error(format!("unrecognized packet type '{word}'"));
    }
    known.map_or(Meta::TO_HOST, |(_, kind)| *kind)
}

impl Step for SetPacketType {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        packet.meta_mut().packet_type = self.kind;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn the_packet_type_decides_for_drop_broadcasts() {
        let types = [
            ("HOST", "10"),
            ("broadcast", "0"),
            ("MultiCast", "0"),
            ("OTHERHOST", "10"),
            ("OUTGOING", "10"),
            ("LOOPBACK", "10"),
        ];
        for (kind, passed) in types {
            for frame_limit in [1, 7, 32, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LIMIT 10, STOP true) -> t :: Tee -> SetPacketType({kind})
                        -> DropBroadcasts -> c :: Counter -> Discard;
                     t [1] -> DropBroadcasts -> other :: Counter -> Discard"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(
                    (run.read("c.count"), run.read("other.count")),
                    (passed.into(), "10".into())
                );
            }
        }
    }

    #[test]
    fn an_unknown_type_is_refused() {
        assert_eq!(
            Run::errors("Idle -> s :: SetPacketType(FASTROUTE) -> Discard"),
            "config:1: While configuring 's :: SetPacketType':\n  \
             unrecognized packet type 'FASTROUTE'\n"
        );
    }
}

//! `StoreTimestamp`: writes the timestamp annotation into the packet.

use linerate_graph::{
    Arguments, Class, DropReason, ElementBuilder, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::PacketMut;

use super::FAMILY;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// longer than a buffer
    TooLong,
}

/// Bytes of a timestamp.
const LENGTH: usize = 8;

pub(super) const CLASS: Class = Class {
    name: "StoreTimestamp",
    family: FAMILY,
    summary: "writes the timestamp into packets",
    description: "As nanoseconds in the byte order of the machine, in eight bytes: at `OFFSET`, or \
        with `TAIL true` behind the packet. One of both must be given. Packets that end before \
        them become longer; bytes between are zero.",
    ports: "1/1",
    annotates: true,
    cost: "A line of annotations and one of the packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> SetTimestamp -> StoreTimestamp(TAIL true) \
        -> Discard;",
    ..StoreTimestamp::CLASS
};

#[derive(Arguments)]
#[arguments(check = StoreTimestamp::check)]
struct StoreTimestamp {
    /// where it goes
    #[arg(optional, kind = "bytes", shown = "")]
    offset: Option<i32>,
    /// whether it goes behind the packet
    #[arg(keyword, default = false)]
    tail: bool,
    place: Option<usize>,
}

impl StoreTimestamp {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        self.place = self.offset.and_then(|offset| usize::try_from(offset).ok());
        if self.place.is_some() == self.tail {
            make.error("supply exactly one of 'OFFSET' and 'TAIL'");
        }
    }
}

impl Step<Writes, Reason> for StoreTimestamp {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let length = packet.len();
        let at = self.place.unwrap_or(length);
        let lacks = (at + LENGTH).saturating_sub(length);
        if lacks > 0 && !packet.append(lacks) {
            return Err(Exit::Drop(Reason::TooLong));
        }
        let (bytes, meta) = packet.parts();
        if lacks > LENGTH {
            bytes[length..].fill(0);
        }
        if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = meta.timestamp.to_ne_bytes();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn times_are_written_over_bytes_and_behind_them() {
        let time = 1_500_000_123_u64.to_ne_bytes().map(|byte| format!("{byte:02x}")).concat();
        for frame_limit in [1, 7, 256] {
            for (arguments, first, second) in [
                ("0", format!("{time}09"), time.clone()),
                ("OFFSET 1", format!("01{time}"), format!("01{time}")),
                ("4", format!("01020304{time}"), format!("01020000{time}")),
                ("TAIL true", format!("010203040506070809{time}"), format!("0102{time}")),
            ] {
                let mut run = Run::new(&format!(
                    "Packets(010203040506070809 0102) -> SetTimestamp(1.500000123)
                        -> StoreTimestamp({arguments}) -> c :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), format!("{first}\n{second}"), "{arguments}");
            }
        }
    }

    #[test]
    fn a_packet_that_does_not_fit_its_buffer_is_dropped() {
        for offset in [100_000, i32::MAX] {
            let mut run =
                Run::new(&format!("Packets(01) -> s :: StoreTimestamp({offset}) -> c :: Collect"));
            run.run();
            assert_eq!(run.read("c.packets"), "");
            assert_eq!(run.read("s.drops"), "0\tno buffer\n1\tlonger than a buffer\n");
        }
    }

    /// The error messages are those of Click.
    #[test]
    fn one_place_must_be_given() {
        for arguments in ["", "0, TAIL true", "TAIL false", "-1"] {
            let errors = Run::errors(&format!("Idle -> StoreTimestamp({arguments}) -> Discard"));
            let text = "\n  supply exactly one of 'OFFSET' and 'TAIL'\n";
            assert!(errors.ends_with(text), "{errors}");
        }
    }
}

//! `MoveData`: copies bytes of a packet to another place of it.
//!
//! Not in Click; in `FastClick`.

use linerate_graph::{Arguments, Class, DropReason, Exit, NoBuffer, Step, Verdict, Writes};
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

pub(super) const CLASS: Class = Class {
    name: "MoveData",
    family: FAMILY,
    summary: "copies bytes of a packet to another place of it",
    description: "`LENGTH` bytes at `SRC_OFFSET` are copied to `DST_OFFSET`. Packets that end at or \
        before the end of the bytes stay as they are, and so do those in which there is no room for \
        the copy, unless `GROW` makes it; bytes between are zero then.",
    ports: "1/1",
    cost: "One pass: the lines of the bytes and of their copy.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MoveData(0, 6, 6) -> Discard;",
    ..MoveData::CLASS
};

#[derive(Arguments)]
struct MoveData {
    /// where the bytes go
    #[arg(name = "DST_OFFSET", kind = "bytes")]
    to: u32,
    /// where they are
    #[arg(name = "SRC_OFFSET", kind = "bytes")]
    from: u32,
    /// how many they are
    #[arg(kind = "bytes")]
    length: u32,
    /// whether packets grow for them
    #[arg(keyword, default = false)]
    grow: bool,
}

impl Step<Writes, Reason> for MoveData {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let [to, from, length] = [self.to, self.from, self.length].map(|bytes| bytes as usize);
        if packet.len() <= from + length {
            return Ok(());
        }
        let before = packet.len();
        let lack = (to + length).saturating_sub(before);
        if lack > 0 && !(self.grow && packet.append(lack)) {
            return if self.grow { Err(Exit::Drop(Reason::TooLong)) } else { Ok(()) };
        }
        if lack > length {
            packet.bytes_mut()[before..].fill(0);
        }
        packet.bytes_mut().copy_within(from..from + length, to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn bytes_are_copied_where_there_is_room() {
        for frame_limit in [1, 7, 32, 256] {
            for (config, expected) in [
                ("0, 2, 2", "0304030405\n0102\n"),
                // The byte behind them has to be there too.
                ("0, 3, 2", "0102030405\n0102\n"),
                ("4, 0, 2", "0102030405\n0102\n"),
                ("4, 0, 2, GROW true", "010203040102\n0102\n"),
                ("3, 0, 1", "0102030105\n0102\n"),
            ] {
                // A copy elsewhere keeps its bytes.
                let mut run = Run::new(&format!(
                    "Packets(0102030405 0102) -> t :: Tee -> MoveData({config}) -> c :: Collect; \
                        t [1] -> d :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), expected.trim_end(), "{config}");
                assert_eq!(run.read("d.packets"), "0102030405\n0102");
            }
        }
    }

    /// Buffers are used again.
    #[test]
    fn bytes_between_are_not_another_packets() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 600) -> Discard;
                 s :: InfiniteSource(DATA abc, LIMIT 2, ACTIVE false) -> MoveData(8, 0, 2, GROW true) -> c :: Collect;
                 DriverManager(wait 1ms, write s.active true, wait 1ms, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.packets"), "61626300000000006162\n61626300000000006162");
        }
    }
}

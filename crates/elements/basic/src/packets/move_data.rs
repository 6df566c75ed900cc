//! `MoveData`: bytes of a packet at another place of it.
//!
//! Not in Click; in `FastClick`.

use linerate_graph::{Arg, Class, Context, Element, Make};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_kit::room;

/// Drop reasons.
const NO_BUFFER: usize = 0;
const TOO_LONG: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "MoveData",
    family: FAMILY,
    summary: "copies bytes of a packet to another place of it",
    description: "`LENGTH` bytes at `SRC_OFFSET` are copied to `DST_OFFSET`. Packets that end at or \
        before the end of the bytes stay as they are, and so do those in which there is no room for \
        the copy, unless `GROW` makes it.",
    ports: "1/1",
    args: &[
        Arg::required("DST_OFFSET", "bytes", "where the bytes go"),
        Arg::required("SRC_OFFSET", "bytes", "where they are"),
        Arg::required("LENGTH", "bytes", "how many they are"),
        Arg::keyword("GROW", "bool", "false", "whether packets grow for them"),
    ],
    drops: &["no buffer", "longer than a buffer"],
    cost: "One pass: the lines of the bytes and of their copy.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MoveData(0, 6, 6) -> Discard;",
    make: |make| Box::new(MoveData::new(make)),
    ..Class::EMPTY
};

struct MoveData {
    to: usize,
    from: usize,
    length: usize,
    grow: bool,
    failed: Vec<Slot>,
}

impl MoveData {
    fn new(make: &mut Make<'_>) -> MoveData {
        let mut bytes = |name| make.need::<u32>(name) as usize;
        let (to, from, length) = (bytes("DST_OFFSET"), bytes("SRC_OFFSET"), bytes("LENGTH"));
        MoveData { to, from, length, grow: make.or("GROW", false), failed: Vec::new() }
    }
}

impl Element for MoveData {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let MoveData { to, from, length, grow, ref mut failed } = *self;
        let arena = cx.pool.arena();
        let fits = |slot: &mut Slot| {
            if slot.len() <= from + length {
                return true;
            }
            let lack = (to + length).saturating_sub(slot.len());
            if lack > 0 && !(grow && room::put(arena, slot, lack)) {
                return !grow;
            }
            if let Some(bytes) = arena.packet_mut(slot) {
                bytes.copy_within(from..from + length, to);
            }
            true
        };
        frame.sift(fits, |slot| failed.push(slot));
        failed.drain(..).for_each(|slot| cx.drop_packet(slot, TOO_LONG));
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

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
}

//! `StoreData`: given bytes at a given place.

use linerate_graph::{Arg, Class, Context, Element};
use linerate_memory::Frame;

use super::FAMILY;

/// Drop reason.
const NO_BUFFER: usize = 0;

pub(super) const CLASS: Class = Class {
    name: "StoreData",
    family: FAMILY,
    summary: "writes bytes into packets",
    description: "`DATA` replaces what is at `OFFSET`. Packets do not grow: what is behind their \
        end is not written.",
    ports: "1/1",
    args: &[
        Arg::required("OFFSET", "bytes", "where they go"),
        Arg::required("DATA", "string", "the bytes"),
    ],
    drops: &["no buffer"],
    cost: "One pass: the line the bytes go to.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StoreData(2, \\<0102>) -> Discard;",
    make: |make| {
        let offset = make.need::<u32>("OFFSET") as usize;
        Box::new(StoreData { offset, data: make.need("DATA") })
    },
    ..Class::EMPTY
};

struct StoreData {
    offset: usize,
    data: Vec<u8>,
}

impl Element for StoreData {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let StoreData { offset, data } = self;
        if frame.slots().iter().any(|slot| slot.is_shared() && slot.len() > *offset) {
            cx.unshare(frame, NO_BUFFER);
        }
        cx.pool.arena().edit_packets(frame, |packet| {
            if let Some(place) = packet.parts().0.get_mut(*offset..) {
                let length = data.len().min(place.len());
                place[..length].copy_from_slice(&data[..length]);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn bytes_are_replaced_up_to_the_end() {
        for frame_limit in [1, 7, 256] {
            for (config, expected) in [
                ("0, XY", "5859030405\n5859\n58\n"),
                ("1, XYZ", "0158595a05\n0158\n01\n"),
                ("4, \\<0a0b>", "010203040a\n0102\n01\n"),
                ("9, XY", "0102030405\n0102\n01\n"),
                ("1, \"Y Z\"", "0159205a05\n0159\n01\n"),
                ("1, \"\"", "0102030405\n0102\n01\n"),
            ] {
                let mut run = Run::new(&format!(
                    "Packets(0102030405 0102 01 -) -> t :: Tee -> StoreData({config})
                        -> c :: Collect; t [1] -> d :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), expected, "{config}");
                assert_eq!(run.read("d.packets"), "0102030405\n0102\n01\n");
            }
        }
    }

    /// In Click's words.
    #[test]
    fn several_words_are_no_string() {
        let errors = Run::errors("Idle -> StoreData(0, a b) -> Discard");
        assert!(errors.ends_with("\n  DATA: parse error\n"), "{errors}");
    }
}

//! `Align`: packets at a given place modulo a word.

use linerate_graph::{Arg, Class, Context, Element, Make};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_kit::room;

/// Drop reasons.
const NO_BUFFER: usize = 0;
const NO_ROOM: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "Align",
    family: FAMILY,
    summary: "moves packets to a given alignment",
    description: "The first byte of each packet is `OFFSET` bytes behind a multiple of \
        `MODULUS`. No element here needs it: bytes are read at any address.",
    ports: "1/1",
    args: &[
        Arg::required("MODULUS", "2, 4 or 8", "bytes of a word"),
        Arg::required("OFFSET", "bytes", "bytes behind the start of a word"),
    ],
    drops: &["no buffer", "no room"],
    cost: "Two cycles for a packet that is aligned; others are moved inside their buffers.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Strip(14) -> Align(4, 0) -> Discard;",
    make: |make| Box::new(Align::new(make)),
    ..Class::EMPTY
};

struct Align {
    modulus: usize,
    offset: usize,
    failed: Vec<Slot>,
}

impl Align {
    fn new(make: &mut Make<'_>) -> Align {
        let (modulus, offset): (u32, i32) = (make.need("MODULUS"), make.need("OFFSET"));
        let mut align = Align { modulus: 4, offset: 0, failed: Vec::new() };
        if !make.is_given("MODULUS") || !make.is_given("OFFSET") {
            return align;
        }
        if !matches!(modulus, 2 | 4 | 8) {
            make.error("MODULUS must be 2, 4, or 8");
        } else if i64::from(offset) >= i64::from(modulus) {
            make.error("OFFSET must be smaller than MODULUS");
        } else {
            align.modulus = modulus as usize;
            align.offset = offset.rem_euclid(modulus.cast_signed()) as usize;
        }
        align
    }
}

impl Element for Align {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Align { modulus, offset, ref mut failed } = *self;
        let arena = cx.pool.arena();
        let aligned = |slot| arena.packet(slot).as_ptr() as usize % modulus == offset;
        if frame.slots().iter().any(|slot| slot.is_shared() && !aligned(slot)) {
            cx.unshare(frame, NO_BUFFER);
        }
        let arena = cx.pool.arena();
        frame.sift(|slot| room::align(arena, slot, modulus, offset), |slot| failed.push(slot));
        failed.drain(..).for_each(|slot| cx.drop_packet(slot, NO_ROOM));
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn bytes_stay_the_same() {
        for strip in 0..4 {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(DATA abcdefgh, LIMIT 3, STOP true) -> Strip({strip})
                        -> t :: Tee -> Align(4, 1) -> a :: Collect; t [1] -> b :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("a.packets"), run.read("b.packets"));
                assert!(run.read("a.packets").ends_with("65666768"));
            }
        }
    }

    #[test]
    fn errors_are_click_s() {
        for (config, error) in [
            ("3, 0", "MODULUS must be 2, 4, or 8"),
            ("4, 4", "OFFSET must be smaller than MODULUS"),
            ("4", "OFFSET: required argument missing"),
        ] {
            let errors = Run::errors(&format!("Idle -> Align({config}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
        assert_eq!(Run::errors("Idle -> Align(4, -1) -> Discard"), "");
    }
}

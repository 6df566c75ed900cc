//! `Align`: alignment of packets.

use linerate_graph::{
    Arguments, Class, Context, DropReason, ElementBuilder, Exit, NoBuffer, Reads, Step, Verdict,
};
use linerate_memory::{Frame, Packet};

use super::FAMILY;
use linerate_element_support::headroom;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no room
    NoRoom,
}

pub(super) const CLASS: Class = Class {
    name: "Align",
    family: FAMILY,
    summary: "moves packets to a given alignment",
    description: "The first byte of each packet is `OFFSET` bytes behind a multiple of \
        `MODULUS`. No element here needs it: bytes are read at any address.",
    ports: "1/1",
    cost: "Two cycles for a packet that is aligned; others are moved inside their buffers.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Strip(14) -> Align(4, 0) -> Discard;",
    ..Align::CLASS
};

#[derive(Arguments)]
#[arguments(check = Align::check)]
struct Align {
    /// bytes of a word
    #[arg(kind = "2, 4 or 8")]
    modulus: u32,
    /// bytes behind the start of a word
    #[arg(kind = "bytes")]
    offset: i32,
}

impl Align {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if !make.is_given("MODULUS") || !make.is_given("OFFSET") {
            return;
        }
        if !matches!(self.modulus, 2 | 4 | 8) {
            make.error("MODULUS must be 2, 4, or 8");
        } else if i64::from(self.offset) >= i64::from(self.modulus) {
            make.error("OFFSET must be smaller than MODULUS");
        } else {
            self.offset = self.offset.rem_euclid(self.modulus.cast_signed());
        }
    }

    /// Returns the number of bytes by which a packet that begins there has to move.
    fn lack(&self, bytes: &[u8]) -> usize {
        let (modulus, start) = (self.modulus as usize, bytes.as_ptr() as usize);
        (self.offset as usize + modulus - start % modulus) % modulus
    }
}

impl Step<Reads, Reason> for Align {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let arena = cx.pool.arena();
        let lacks = |slot| self.lack(arena.packet(slot)) > 0;
        if frame.slots().iter().any(|slot| slot.is_shared() && lacks(slot)) {
            cx.unshare::<Reason>(frame);
        }
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        let up = self.lack(packet.bytes());
        if up == 0 {
            return Ok(());
        }
        let down = self.modulus as usize - up;
        let moved = packet.writable().is_some_and(|packet| headroom::shift(packet, up, down));
        if moved { Ok(()) } else { Err(Exit::Drop(Reason::NoRoom)) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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

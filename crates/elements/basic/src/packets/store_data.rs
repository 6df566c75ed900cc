//! `StoreData`: writes given bytes at an offset.

use linerate_graph::{Arguments, Class, Context, NoBuffer, Reads, Step, Verdict};
use linerate_memory::{Frame, Packet};

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "StoreData",
    family: FAMILY,
    summary: "writes bytes into packets",
    description: "`DATA` replaces what is at `OFFSET`. Packets do not grow: what is behind their \
        end is not written.",
    ports: "1/1",
    cost: "One pass: the line the bytes go to.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StoreData(2, \\<0102>) -> Discard;",
    ..StoreData::CLASS
};

#[derive(Arguments)]
struct StoreData {
    /// where they go
    #[arg(kind = "bytes")]
    offset: u32,
    /// the bytes
    #[arg(kind = "string")]
    data: Vec<u8>,
}

impl Step<Reads, NoBuffer> for StoreData {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        let written = |slot: &linerate_memory::Slot| slot.len() > self.offset as usize;
        if frame.has_shared() && frame.slots().iter().any(|slot| slot.is_shared() && written(slot))
        {
            cx.unshare::<NoBuffer>(frame);
        }
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict {
        let place = packet.writable().map(|packet| packet.bytes_mut());
        if let Some(place) = place.and_then(|bytes| bytes.get_mut(self.offset as usize..)) {
            match self.data.len() {
                // Few bytes are moves of a size known here; others are a call.
                2 => copy_known::<2>(place, &self.data),
                4 => copy_known::<4>(place, &self.data),
                6 => copy_known::<6>(place, &self.data),
                8 => copy_known::<8>(place, &self.data),
                _ => copy(place, &self.data),
            }
        }
        Ok(())
    }
}

/// Copies `N` bytes to where there may be fewer.
#[inline(always)]
fn copy_known<const N: usize>(to: &mut [u8], from: &[u8]) {
    match (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        (Some(to), Some(from)) => *to = *from,
        _ => copy(to, from),
    }
}

/// Copies as many bytes as there are in both.
fn copy(to: &mut [u8], from: &[u8]) {
    let length = to.len().min(from.len());
    to[..length].copy_from_slice(&from[..length]);
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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

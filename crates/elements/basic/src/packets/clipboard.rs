//! `Clipboard`: copies bytes of one packet into another.
//!
//! In Click packets come one at a time, so a packet that is led from output 0 back to input 1 gets
//! the bytes copied from itself. With frames, all of a frame are copied before the first is pasted
//! into: so the bytes of the whole last frame are kept, and a packet that was in it gets its own.
//! Others get those of the last packet, as in Click.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, NoBuffer, Right, parse_u32,
};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "Clipboard",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "copies bytes from packets of input 0 into those of input 1",
    description: "Arguments are ranges of bytes, each `OFFSET/LENGTH`. Packets of input 0 leave \
        by output 0 unchanged, those of input 1 by output 1 with the ranges of the last packet \
        of input 0 in place of their own. A packet led from output 0 to input 1 gets its own \
        bytes: with Strip and Unstrip between, that moves bytes inside a packet. A packet too \
        short for all ranges is not pasted into; what it lacks is not copied from it.",
    ports: "2/2",
    flow: "#/#",
    args: &[Arg::rest("RANGE", "OFFSET/LENGTH", "bytes to copy")],
    drops: NoBuffer::REASONS,
    // Of pulled packets the last one depends on the turns of tasks.
    observes: |_, at| vec![at],
    cost: "Reads or writes the packets' bytes.",
    example: "c :: Clipboard(0/4); InfiniteSource(LIMIT 10, STOP true) -> c -> Strip(10) \
        -> [1] c [1] -> Discard;",
    make: |make| Box::new(Clipboard::new(make)),
    ..Class::here()
};

struct Range {
    offset: usize,
    length: usize,
}

struct Clipboard {
    ranges: Vec<Range>,
    /// Bytes of all ranges together.
    size: usize,
    /// A packet must be as long as this to be pasted into.
    reach: usize,
    /// Buffers of the packets of the last frame copied.
    copied: Vec<usize>,
    /// The round of that: in another the buffers have other packets.
    round: u64,
    /// `size` bytes for each of them. One for no packet is always there.
    bytes: Vec<u8>,
    /// By buffer: its place in `copied`, if that names it.
    places: Vec<u32>,
}

impl Clipboard {
    fn new(make: &mut ElementBuilder<'_>) -> Clipboard {
        let mut ranges = Vec::new();
        for (at, text) in make.rest().iter().enumerate() {
            let Some((offset, length)) = text
                .split_once('/')
                .filter(|(offset, length)| !offset.is_empty() && !length.is_empty())
            else {
                make.error(format!("range {at}: expected '/' between offset and length"));
                continue;
            };
            let mut number = |name: &str, text: &str| {
                let number = parse_u32(text.trim());
                number.map_err(|error| make.error(format!("{name}: {error}"))).ok()
            };
            match (number("OFFSET", offset), number("LENGTH", length)) {
                (Some(offset), Some(length)) => {
                    ranges.push(Range { offset: offset as usize, length: length as usize });
                }
                _ => make.error(format!("range {at}: invalid offset or length")),
            }
        }
        let room = make.world.arena().buffer_size();
        let reach = ranges.iter().map(|range| range.offset + range.length).max().unwrap_or(0);
        if reach > room {
            make.error(format!("ranges reach beyond a buffer ({room} bytes)"));
            ranges.clear();
        }
        let size = ranges.iter().map(|range| range.length).sum();
        let places = vec![0; make.world.arena().count()];
        let (copied, bytes, round) = (Vec::new(), vec![0; size], 0);
        Clipboard { ranges, size, reach, copied, bytes, places, round }
    }

    fn copy(&mut self, cx: &mut Context, frame: &Frame) {
        let arena = cx.pool.arena();
        // Bytes that a packet lacks stay as they were before.
        let last = self.bytes.len() - self.size;
        self.bytes.copy_within(last.., 0);
        self.copied.clear();
        self.round = cx.round();
        for (at, slot) in frame.slots().iter().enumerate() {
            let start = at * self.size;
            if at > 0 {
                self.bytes.truncate(start);
                self.bytes.extend_from_within(start - self.size..start);
            } else {
                self.bytes.truncate(self.size);
            }
            let packet = arena.packet(slot);
            let mut to = &mut self.bytes[start..];
            for range in &self.ranges {
                let (part, rest) = to.split_at_mut(range.length);
                let from = packet.get(range.offset..).unwrap_or(&[]);
                let from = &from[..from.len().min(range.length)];
                part[..from.len()].copy_from_slice(from);
                to = rest;
            }
            let buffer = arena.index_of(slot);
            self.places[buffer] = at as u32;
            self.copied.push(buffer);
        }
    }

    fn paste(&self, cx: &mut Context, frame: &mut Frame) {
        cx.unshare::<NoBuffer>(frame);
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            let buffer = arena.index_of(slot);
            let place = self.places[buffer] as usize;
            let own = self.round == cx.round() && self.copied.get(place) == Some(&buffer);
            let start = if own { place * self.size } else { self.bytes.len() - self.size };
            let Some(packet) = arena.packet_mut(slot).filter(|it| it.len() >= self.reach) else {
                continue;
            };
            let mut from = &self.bytes[start..];
            for range in &self.ranges {
                let (part, rest) = from.split_at(range.length);
                packet[range.offset..][..range.length].copy_from_slice(part);
                from = rest;
            }
        }
    }
}

impl Element for Clipboard {
    fn push(&mut self, cx: &mut Context, port: usize, frame: &mut Frame) {
        if port == 0 {
            self.copy(cx, frame);
        } else {
            self.paste(cx, frame);
            cx.out.emit_frame(1, frame);
        }
    }

    fn pull(&mut self, cx: &mut Context, port: usize, count: usize, frame: &mut Frame) {
        if cx.pull(port, count, frame) == 0 {
            return;
        }
        if port == 0 {
            self.copy(cx, frame);
        } else {
            self.paste(cx, frame);
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Clipboard>()
            && old.size == self.size
        {
            std::mem::swap(&mut self.bytes, &mut old.bytes);
            std::mem::swap(&mut self.copied, &mut old.copied);
            std::mem::swap(&mut self.places, &mut old.places);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn bytes_move_inside_a_packet_that_comes_round() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "c :: Clipboard(0/2, 3/1); j :: Null -> c -> Strip(4) -> [1] c [1] -> Unstrip(4)
                    -> o :: Collect;
                 InfiniteSource(DATA abcdefghij, LIMIT 2) -> j;
                 InfiniteSource(DATA 0123456789, LIMIT 2, STOP true) -> j;",
            )
            .frame_limit(frame_limit);
            run.run();
            let mut packets: Vec<_> = run.read("o.packets").lines().map(str::to_owned).collect();
            packets.sort();
            let (digits, letters) = ("30313233303136333839", "61626364616267646 96a");
            let letters = letters.replace(' ', "");
            assert_eq!(packets, [digits, digits, &letters, &letters]);
        }
    }

    #[test]
    fn copied_bytes_stay_when_the_element_is_configured_anew() {
        let mut run = Run::new(
            "c :: Clipboard(1/2); InfiniteSource(DATA abcd, LIMIT 1) -> c -> Discard;
             TimedSource(2, wxyz, LIMIT 1) -> [1] c [1] -> o :: Collect;
             Script(wait 1, write c.config 2/2, wait 3, stop)",
        );
        run.run();
        // "bc", from the second byte, goes to the third now.
        assert_eq!(run.read("o.packets"), "77786263");
    }

    #[test]
    fn other_packets_get_the_last_bytes_copied() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "c :: Clipboard(1/2); InfiniteSource(DATA abcd, LIMIT 5) -> c -> Discard;
                 InfiniteSource(DATA wxyz, LIMIT 3) -> q :: Queue -> [1] c [1]
                    -> Counter(COUNT_CALL 3 stop) -> o :: Collect;",
            )
            .frame_limit(frame_limit);
            run.run();
            let packets = run.read("o.packets");
            assert!(packets.ends_with("7762637a"), "{packets}");
        }
    }

    #[test]
    fn packets_too_short_are_left_alone() {
        let mut run = Run::new(
            "c :: Clipboard(1/2); InfiniteSource(DATA wx, LIMIT 2, STOP true) -> c
                -> [1] c [1] -> o :: Collect;",
        );
        run.run();
        assert_eq!(run.read("o.packets"), "7778\n7778");
    }

    #[test]
    fn ranges_must_be_ranges() {
        for (config, error) in [
            ("5", "range 0: expected '/' between offset and length"),
            ("0/1, /1", "range 1: expected '/' between offset and length"),
            ("0/x", "range 0: invalid offset or length"),
            ("0/70000", "ranges reach beyond a buffer (2112 bytes)"),
        ] {
            let errors = Run::errors(&format!(
                "c :: Clipboard({config}); Idle -> c -> Discard; Idle -> [1] c [1] -> Discard;"
            ));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}

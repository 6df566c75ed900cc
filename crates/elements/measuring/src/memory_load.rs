//! `MemoryLoad`: waits for memory, in place of work whose working set is to be
//! studied.
//!
//! The working set is a circular list of cache lines in random order: a single
//! cycle, made with Sattolo's shuffle (Information Processing Letters 22,
//! 1986), so that every line is visited before any is visited again and no
//! prefetcher guesses the next one.

use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Text,
    parse_integer,
};
use linerate_memory::Frame;

use super::FAMILY;

pub(super) const CLASS: Class = Class {
    name: "MemoryLoad",
    family: FAMILY,
    summary: "waits for memory for every packet",
    description: "Emulates work that makes `ACCESSES` dependent memory accesses per packet, each \
        to another cache line of a working set of `SIZE` bytes, in random order. Packets pass \
        unchanged and are not touched.",
    ports: "1/1",
    args: &[
        Arg::required("SIZE", "bytes", "size of the working set, at most 512M; may end in k or M"),
        Arg::optional("ACCESSES", "accesses", "1", "accesses per packet"),
    ],
    handlers: &[
        Handler::read("size", "size of the working set in bytes"),
        Handler::value("accesses", "accesses per packet"),
    ],
    cost: "For each access the latency of the cache or memory the working set fits in.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> MemoryLoad(64k, 2) -> Discard;",
    make: |make| Box::new(MemoryLoad::new(make)),
    ..Class::here()
};

const LINE: usize = 64;
/// Largest working set: beyond all caches, and of a few elements not beyond what
/// machines have.
const SIZE_LIMIT: u64 = 512 << 20;
/// Most accesses per packet.
const ACCESSES_LIMIT: u32 = 1 << 20;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheLine {
    next: u32,
}

const _: () = assert!(size_of::<CacheLine>() == LINE);

struct MemoryLoad {
    lines: Vec<CacheLine>,
    at: u32,
    accesses: u32,
}

impl MemoryLoad {
    fn new(make: &mut ElementBuilder<'_>) -> MemoryLoad {
        let Text(text) = make.need("SIZE");
        let size = parse_size(&text);
        if make.is_given("SIZE") && size.is_none() {
            make.error(format!("SIZE: must be {LINE} to {SIZE_LIMIT} bytes"));
        }
        let accesses = make.or("ACCESSES", 1);
        if accesses > ACCESSES_LIMIT {
            make.error(format!("ACCESSES: out of range, bound {ACCESSES_LIMIT}"));
        }
        let lines = size.unwrap_or(0) as usize / LINE;
        MemoryLoad { lines: circle(lines), at: 0, accesses: accesses.min(ACCESSES_LIMIT) }
    }
}

/// A number of bytes, with a binary unit.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let size = u64::try_from(parse_integer(number.trim_end())?).ok()?.checked_mul(1 << shift)?;
    (LINE as u64..=SIZE_LIMIT).contains(&size).then_some(size)
}

/// Lines that lead from one to the next in a single circle.
fn circle(count: usize) -> Vec<CacheLine> {
    let mut lines: Vec<CacheLine> = (0..count as u32).map(|next| CacheLine { next }).collect();
    // The same circle on every run.
    let mut random = fastrand::Rng::with_seed(count as u64);
    for at in (1..count).rev() {
        lines.swap(at, random.usize(..at));
    }
    lines
}

impl Element for MemoryLoad {
    fn push(&mut self, _: &mut Context, _: usize, frame: &mut Frame) {
        let accesses = frame.len() as u64 * u64::from(self.accesses);
        let mut at = self.at;
        for _ in 0..accesses {
            match self.lines.get(at as usize) {
                Some(line) => at = line.next,
                None => break,
            }
        }
        self.at = at;
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<MemoryLoad>()
            && old.lines.len() == self.lines.len()
        {
            // What the caches hold of it stays useful.
            std::mem::swap(&mut self.lines, &mut old.lines);
            self.at = old.at;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "size" => Ok((self.lines.len() * LINE).to_string()),
            "accesses" => Ok(self.accesses.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(&mut self, _: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let range = 0..=i128::from(ACCESSES_LIMIT);
        match (handler, parse_integer(value).filter(|number| range.contains(number))) {
            ("accesses", Some(number)) => self.accesses = number as u32,
            ("accesses", None) => return Err(HandlerError::refused("invalid number")),
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Run;

    #[test]
    fn the_circle_visits_every_line() {
        for count in [1, 2, 3, 100, 4096] {
            let lines = circle(count);
            let mut seen = vec![false; count];
            let mut at = 0;
            for _ in 0..count {
                assert!(!seen[at], "{at} of {count} twice");
                seen[at] = true;
                at = lines[at].next as usize;
            }
            assert_eq!(at, 0);
        }
        assert!(circle(0).is_empty());
    }

    #[test]
    fn sizes_have_units() {
        for (text, size) in [
            ("64", Some(64)),
            ("32k", Some(32 << 10)),
            ("8M", Some(8 << 20)),
            ("512 M", Some(512 << 20)),
            ("63", None),
            ("513M", None),
            ("1G", None),
            ("-1k", None),
            ("k", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), size, "{text}");
        }
    }

    #[test]
    fn packets_pass_and_accesses_can_be_set() {
        for limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 500, STOP true) -> l :: MemoryLoad(64k, 2) -> d :: Discard",
            )
            .frame_limit(limit);
            assert_eq!(run.read("l.size"), "65536");
            run.write("l.accesses", "3").unwrap();
            assert!(run.write("l.accesses", "many").is_err());
            assert_eq!(run.read("l.accesses"), "3");
            run.run();
            assert_eq!(run.read("d.count"), "500");
        }
    }

    #[test]
    fn a_size_that_is_none_is_refused() {
        for (config, error) in [
            ("", "SIZE: required argument missing"),
            ("big", "SIZE: must be 64 to 536870912 bytes"),
            ("64k, 2000000", "ACCESSES: out of range, bound 1048576"),
        ] {
            let errors = Run::errors(&format!("Idle -> MemoryLoad({config}) -> Discard"));
            assert!(errors.contains(error), "{errors}");
        }
    }
}

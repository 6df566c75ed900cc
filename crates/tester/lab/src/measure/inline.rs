//! A worker that looks through every byte of every packet on its way.
//!
//! The share of an offered load that comes through is reckoned from one core's rate with packets
//! that are always there: the cost of a packet, by the way it comes and goes.

use std::{hint::black_box, time::Duration};

use linerate_memory::{Frame, PoolCache};
use linerate_port::Context;

use super::{
    Failure, arena,
    forward::fed,
    port_pair::{PortPair, pool},
};
use crate::{
    LINE_OVERHEAD,
    instruments::Blocks,
    point::{Driver, Inline, InlinePath, Spec, Values, value},
};

/// Packets at once through our own drivers.
const BURST: usize = 64;
/// Places of a ring.
const SLOTS: u32 = 512;
/// Searched strings.
const PATTERNS: [&str; 8] = [
    "/etc/passwd",
    "cmd.exe",
    "<script>",
    "UNION SELECT",
    "../..",
    "\u{0}\u{1}\u{2}\u{3}/bin/sh",
    "User-Agent: sqlmap",
    "${jndi:",
];

pub(super) fn driver(path: InlinePath) -> Driver {
    match path {
        InlinePath::Kernel => Driver::Packet,
        InlinePath::Ours => Driver::Xdp,
        InlinePath::Memory => Driver::Ring,
    }
}

pub(super) fn measure(point: &Inline, spec: &Spec) -> Result<Values, Failure> {
    // Socket applications read and write a packet at a time.
    let burst = if point.path == InlinePath::Kernel { 1 } else { BURST };
    let context = Context::new(arena(4096, point.frame)?);
    let mut pool = pool(&context.arena, burst);
    let mut pair = PortPair::open(&context, driver(point.path), 0, point.frame, SLOTS)?;
    let scanner = Scanner::new(&PATTERNS.map(str::as_bytes));
    let mut frame = Frame::new(burst);
    let mut blocks = Blocks::new();
    let time = Duration::from_millis(spec.duration_ms);
    if pair.is_endless() {
        blocks.run(time, || {
            let received = pair.receive.receive(&mut pool, &mut frame)?;
            scanner.frame(&pool, &frame);
            pair.send(&mut pool, &mut frame)?;
            Ok::<_, Failure>(received)
        })?;
    } else {
        let look = |pool: &PoolCache, frame: &mut Frame| scanner.frame(pool, frame);
        fed(&mut pair, &mut pool, &mut frame, look, &mut blocks, time)?;
    }
    pair.close(&mut pool);
    let mut values = blocks.values().ok_or_else(|| Failure::void("no packet came through"))?;
    let bits = 8.0 * f64::from(point.frame + LINE_OVERHEAD as u32);
    let offered = f64::from(point.offered_mbit_s) * 1e6 / bits;
    values.insert(value::OFFERED.into(), offered);
    let received = (values[value::RATE] / offered).min(1.0);
    values.insert(value::LOST.into(), 1.0 - received);
    values.insert("received_percent".into(), received * 100.0);
    Ok(values)
}

/// Finds any of several patterns: a table with a state for every beginning of a
/// pattern (Aho and Corasick, 1975), a load per byte.
struct Scanner {
    /// Next state by state and byte.
    next: Vec<[u16; 256]>,
    found: Vec<bool>,
}

impl Scanner {
    fn new(patterns: &[&[u8]]) -> Scanner {
        // The trie, with 0 where nothing leads.
        let mut scanner = Scanner { next: vec![[0; 256]], found: vec![false] };
        for pattern in patterns {
            let mut state = 0;
            for byte in *pattern {
                let next = scanner.next[state][usize::from(*byte)];
                state = match next {
                    0 => {
                        scanner.next.push([0; 256]);
                        scanner.found.push(false);
                        let new = scanner.next.len() - 1;
                        scanner.next[state][usize::from(*byte)] = new as u16;
                        new
                    }
                    next => next.into(),
                };
            }
            scanner.found[state] = true;
        }
        // By length of their strings, so that the state that another falls back to is whole before
        // it.
        let mut order: Vec<(usize, usize)> = Vec::new();
        order.extend(
            scanner.next[0].iter().filter(|next| **next > 0).map(|next| (usize::from(*next), 0)),
        );
        let mut at = 0;
        while let Some(&(state, back)) = order.get(at) {
            at += 1;
            scanner.found[state] |= scanner.found[back];
            for byte in 0..256 {
                let (forward, other) = (scanner.next[state][byte], scanner.next[back][byte]);
                if forward > 0 {
                    order.push((forward.into(), other.into()));
                } else {
                    scanner.next[state][byte] = other;
                }
            }
        }
        scanner
    }

    #[inline]
    fn finds(&self, bytes: &[u8]) -> bool {
        let mut state = 0;
        let mut found = false;
        for byte in bytes {
            state = usize::from(self.next[state][usize::from(*byte)]);
            found |= self.found[state];
        }
        found
    }

    /// Looks through all packets of a frame.
    fn frame(&self, pool: &PoolCache, frame: &Frame) {
        pool.arena().for_each(frame, |bytes| {
            black_box(self.finds(bytes));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contained_patterns_are_found() {
        let patterns: [&[u8]; 4] = [b"he", b"she", b"his", b"hers"];
        let scanner = Scanner::new(&patterns);
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..5000 {
            let text: Vec<u8> =
                (0..random.usize(..12)).map(|_| *random.choice(b"hersi").unwrap()).collect();
            let expected = patterns
                .iter()
                .any(|pattern| text.windows(pattern.len()).any(|window| window == *pattern));
            assert_eq!(scanner.finds(&text), expected, "{:?}", String::from_utf8_lossy(&text));
        }
    }
}

//! Nothing panics and every invariant holds on any bytes: random ones, real frames mutated and cut,
//! and each layer of them. The fuzz target `headers` does the same for longer.

mod common;
mod exercise;

use common::seeds;
use exercise::exercise;
use proptest::prelude::*;

/// A frame and everything inside it that could be a header.
fn exercise_layers(frame: &[u8]) {
    for offset in [0, 14, 18, 22, 34, 38, 42, 50, 54, 62] {
        exercise(frame.get(offset..).unwrap_or(&[]));
    }
}

#[test]
fn every_prefix_of_every_seed() {
    for (_, frame) in seeds() {
        for len in 0..=frame.len() {
            exercise(&frame[..len]);
        }
        exercise_layers(&frame);
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes);
    }

    #[test]
    fn uniform_bytes(byte in any::<u8>(), len in 0..3000usize) {
        exercise(&vec![byte; len]);
    }

    #[test]
    fn mutated_seeds(
        (_, frame) in prop::sample::select(seeds()),
        changes in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
        cut in any::<prop::sample::Index>(),
        keep in any::<bool>(),
    ) {
        let mut frame = frame;
        for (at, value) in changes {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        if !keep {
            frame.truncate(cut.index(frame.len() + 1));
        }
        exercise_layers(&frame);
    }
}

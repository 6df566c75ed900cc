//! Rates of addresses, by prefixes of whole bytes.
//!
//! A level has a counter for each value of a byte. Where the rate of a counter is high, there is a
//! level for the byte behind it; every second levels with low rates are removed.

use std::fmt::Write as _;

use linerate_element_support::average::{Average, binary_text};

/// Milliseconds of an epoch, and epochs in a second.
const EPOCH: u64 = 8;
pub(super) const FREQUENCY: u64 = 1000 / EPOCH;
/// Each epoch has a weight of 1/32.
const STABILITY: u32 = 5;
/// Charges of a level and a counter to `MEMORY`: those of Click.
const LEVEL: u64 = 2080;
const COUNTER: u64 = 40;
/// Default limit.
const MEMORY: u64 = 64 << 20;

/// Two rates: of packets from, and to, addresses.
#[derive(Debug, Clone)]
struct Rates {
    epoch: u64,
    counts: [u64; 2],
    averages: [Average; 2],
}

impl Rates {
    fn new(epoch: u64) -> Rates {
        let average = || Average::new(STABILITY);
        Rates { epoch, counts: [0; 2], averages: [average(), average()] }
    }

    /// Time has come to `epoch`.
    #[inline]
    fn pass(&mut self, epoch: u64) {
        if epoch > self.epoch {
            for (count, average) in self.counts.iter_mut().zip(&mut self.averages) {
                average.update(std::mem::take(count));
                average.update_times(0, epoch - self.epoch - 1);
            }
            self.epoch = epoch;
        }
    }

    /// Returns the rates with ten binary digits behind the point, per epoch.
    fn scaled(&self) -> [i64; 2] {
        self.averages.each_ref().map(Average::scaled)
    }

    /// Per second.
    fn per_second(&self) -> [i64; 2] {
        self.scaled().map(|rate| rate.saturating_mul(FREQUENCY as i64) >> Average::SCALE)
    }
}

#[derive(Debug)]
struct Counter {
    rates: Rates,
    below: Option<Box<Level>>,
    /// The epoch up to which there is to be no level below.
    closed: u64,
}

#[derive(Debug)]
struct Level([Option<Box<Counter>>; 256]);

impl Level {
    fn new() -> Box<Level> {
        Box::new(Level([const { None }; 256]))
    }

    /// Returns its charge, with all below it.
    fn memory(&self) -> u64 {
        let below = |counter: &Counter| counter.below.as_ref().map_or(0, |level| level.memory());
        self.0.iter().flatten().fold(LEVEL, |sum, counter| sum + COUNTER + below(counter))
    }
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    root: Box<Level>,
    /// Packets or bytes per second from which on there is a level below.
    pub(super) threshold: i64,
    /// Limit of memory in bytes; 0 for the default.
    pub(super) limit: u64,
    pub(super) memory: u64,
    reset: u64,
    /// When low rates were looked for last.
    folded: u64,
}

/// The epoch of a steady time in nanoseconds.
pub(super) fn epoch_at(steady: u64) -> u64 {
    steady / 1_000_000 / EPOCH
}

impl Tree {
    pub(super) fn new(threshold: i64, limit: u64, epoch: u64) -> Tree {
        let root = Level::new();
        Tree { root, threshold, limit, memory: LEVEL, reset: epoch, folded: epoch }
    }

    fn most(&self) -> u64 {
        if self.limit == 0 { MEMORY } else { self.limit }
    }

    /// Adds to the rate of an address in direction `which`, unless `count` is
    /// `None`; returns its rates per second, or those of the longest prefix there
    /// is a counter for.
    #[inline]
    pub(super) fn add(
        &mut self,
        address: [u8; 4],
        which: usize,
        count: Option<u64>,
        epoch: u64,
    ) -> Option<[i64; 2]> {
        let (most, memory) = (self.most(), &mut self.memory);
        let mut level = &mut self.root;
        for (depth, byte) in address.into_iter().enumerate() {
            let place = &mut level.0[usize::from(byte)];
            if place.is_none() {
                if *memory + COUNTER > most {
                    return None;
                }
                *memory += COUNTER;
            }
            let counter = place.get_or_insert_with(|| new_counter(Rates::new(epoch)));
            if let Some(count) = count {
                counter.rates.pass(epoch);
                counter.rates.counts[which] += count;
            }
            if counter.below.is_some() {
                // Borrowed anew: the borrow above would last for the function.
                match &mut counter.below {
                    Some(below) => level = below,
                    None => return None,
                }
                continue;
            }
            let rates = counter.rates.per_second();
            let high = rates.iter().any(|rate| *rate >= self.threshold);
            if let Some(next) = address.get(depth + 1)
                && high
                && counter.closed < epoch
                && *memory + COUNTER + LEVEL <= most
            {
                let mut below = Level::new();
                below.0[usize::from(*next)] = Some(new_counter(counter.rates.clone()));
                counter.below = Some(below);
                *memory += COUNTER + LEVEL;
            }
            return Some(rates);
        }
        None
    }

    /// Takes levels with low rates away, once a second, beginning at a byte.
    #[inline]
    pub(super) fn tend(&mut self, epoch: u64, from: impl FnOnce() -> u8) {
        if epoch.saturating_sub(self.folded) >= FREQUENCY {
            self.folded = epoch;
            // Without a limit not all at once.
            let goal = if self.limit == 0 { self.memory / 10 * 9 } else { self.limit };
            let threshold = self.threshold;
            fold(&mut self.root, threshold, epoch, goal, &mut self.memory, from());
        }
    }

    /// Another limit: levels go until it holds, those with low rates first.
    pub(super) fn set_limit(&mut self, limit: u64, epoch: u64) {
        self.limit = limit;
        let mut threshold = self.threshold.max(1);
        while self.memory > self.most() {
            let goal = self.most();
            fold(&mut self.root, threshold, epoch, goal, &mut self.memory, 0);
            if threshold == i64::MAX {
                break;
            }
            threshold = threshold.saturating_mul(2);
        }
    }

    /// Forbids a level below that of the byte `depth` of an address, up to an epoch.
    pub(super) fn close(&mut self, address: [u8; 4], depth: usize, until: u64) {
        let mut level = &mut self.root;
        for (at, byte) in address.into_iter().enumerate() {
            let Some(counter) = &mut level.0[usize::from(byte)] else { return };
            if at == depth {
                counter.closed = until;
                self.memory -= counter.below.take().map_or(0, |level| level.memory());
                return;
            }
            let Some(below) = &mut counter.below else { return };
            level = below;
        }
    }

    /// Takes over the rates of another.
    pub(super) fn take_from(&mut self, old: &mut Tree) {
        self.root = std::mem::replace(&mut old.root, Level::new());
        self.memory = std::mem::replace(&mut old.memory, LEVEL);
        (self.reset, self.folded) = (old.reset, old.folded);
        self.set_limit(self.limit, self.folded);
    }

    /// Forgets all rates.
    pub(super) fn reset(&mut self, epoch: u64) {
        *self = Tree::new(self.threshold, self.limit, epoch);
    }

    /// The rates as Click shows them: the epochs since the last reset, and a line
    /// for each address or prefix with its rates, those within it below it.
    pub(super) fn text(&mut self, epoch: u64) -> String {
        let mut text = format!("{}\n", epoch.saturating_sub(self.reset));
        show(&mut self.root, "", epoch, &mut text);
        text
    }
}

fn new_counter(rates: Rates) -> Box<Counter> {
    Box::new(Counter { rates, below: None, closed: 0 })
}

/// Removes levels with low rates until at most `goal` is charged. Returns true if that was reached.
fn fold(
    level: &mut Level,
    threshold: i64,
    epoch: u64,
    goal: u64,
    memory: &mut u64,
    from: u8,
) -> bool {
    for at in 0..=255u8 {
        let Some(counter) = &mut level.0[usize::from(at.wrapping_add(from))] else { continue };
        let Some(below) = &mut counter.below else { continue };
        counter.rates.pass(epoch);
        if counter.rates.scaled().iter().all(|rate| *rate < threshold) {
            *memory -= below.memory();
            counter.below = None;
            if *memory <= goal {
                return true;
            }
        } else if fold(below, threshold, epoch, goal, memory, from) {
            return true;
        }
    }
    false
}

fn show(level: &mut Level, prefix: &str, epoch: u64, text: &mut String) {
    for (byte, counter) in (0..=255u8).zip(&mut level.0) {
        let Some(counter) = counter else { continue };
        if counter.rates.scaled().iter().all(|rate| *rate <= 0) {
            continue;
        }
        counter.rates.pass(epoch);
        let name: String = match prefix {
            "" => u8::to_string(&byte),
            prefix => format!("{prefix}.{byte}"),
        };
        let [from, to] = counter.rates.scaled().map(|rate| {
            let rate = u64::try_from(rate).unwrap_or(0);
            binary_text(rate.saturating_mul(FREQUENCY), Average::SCALE)
        });
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}\t{from}\t{to}");
        if let Some(below) = &mut counter.below {
            show(below, &format!("\t{name}"), epoch, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a packet in each millisecond of so many epochs.
    fn fill(tree: &mut Tree, address: [u8; 4], epochs: std::ops::Range<u64>) {
        for epoch in epochs {
            for _ in 0..EPOCH {
                tree.add(address, 0, Some(1), epoch);
            }
        }
    }

    #[test]
    fn high_rates_are_looked_at_closely_and_forgotten() {
        let mut tree = Tree::new(256, 0, 0);
        fill(&mut tree, [1, 2, 3, 4], 0..300);
        let text = tree.text(300);
        let names: Vec<_> =
            text.lines().map(|line| line.trim().split('\t').next().unwrap()).collect();
        assert_eq!(names, ["300", "1", "1.2", "1.2.3", "1.2.3.4"]);
        assert_eq!(tree.memory, 4 * (LEVEL + COUNTER));
        assert_eq!(tree.memory, tree.root.memory());
        tree.tend(900, || 7);
        assert_eq!(tree.memory, LEVEL + COUNTER);
        assert_eq!(tree.memory, tree.root.memory());
        assert_eq!(tree.add([1, 2, 3, 4], 0, None, 900), Some([0, 0]));
    }

    #[test]
    fn memory_is_bounded() {
        let limit = 100 << 10;
        let mut tree = Tree::new(0, limit, 0);
        for number in 0..200_000u32 {
            let address = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            tree.add(address, 0, Some(1), 1 + u64::from(number / 100));
        }
        assert!(tree.memory <= limit && tree.memory > limit / 2, "{}", tree.memory);
        assert_eq!(tree.memory, tree.root.memory());
        tree.set_limit(20 << 10, 2001);
        assert!(tree.memory <= 20 << 10);
        assert_eq!(tree.memory, tree.root.memory());
    }

    #[test]
    fn prefixes_are_closed_for_a_time() {
        let mut tree = Tree::new(256, 0, 0);
        fill(&mut tree, [1, 2, 3, 4], 0..300);
        tree.close([1, 2, 0, 0], 1, 600);
        assert_eq!(tree.memory, tree.root.memory());
        assert_eq!(tree.text(300).lines().count(), 3);
        fill(&mut tree, [1, 2, 3, 4], 300..600);
        assert_eq!(tree.text(600).lines().count(), 3);
        fill(&mut tree, [1, 2, 3, 4], 600..700);
        assert_eq!(tree.text(700).lines().count(), 5);
        tree.reset(700);
        assert_eq!((tree.text(703), tree.memory), ("3\n".into(), LEVEL));
    }
}

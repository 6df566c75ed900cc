//! `AggregateCounterVector`: counts packets by aggregate, in a vector.
//!
//! Not in Click; in `FastClick`, whose arguments these are.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use linerate_element_support::{annotations, run_end::RunEnd};
use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, parse_bool,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    amount::{Amount, BYTES, EXTRA_LENGTH, IP_BYTES, MULTIPACKET},
};

/// Greatest `MASK`: with it the vector takes 384 MiB.
const MOST: u32 = (1 << 24) - 1;

pub(super) const CLASS: Class = Class {
    name: "AggregateCounterVector",
    family: FAMILY,
    summary: "counts packets or bytes per aggregate, of which there are not many",
    description: "Counts by the bits of the packets' aggregate that `MASK` has, which AggregateIP and its \
        like set. There is a count for each number up to `MASK` from the start, so a packet costs less than \
        by AggregateCounter. Several workers count together.\n\n\
        With the handler `advance_epoch` counts begin at zero, and the counts so far go into an average that \
        moves: two parts of a count to one of the average. In FastClick a DeviceBalancer does that, and reads the \
        counts, for which there are handlers here. `MARK`, by which a network card tells the epoch of a packet, \
        must be false.",
    ports: "1/1",
    args: &[
        Arg::required("MASK", "number", "the bits of an aggregate that are counted by"),
        Arg::keyword("MARK", "bool", "false", "accepted where it is false"),
        BYTES,
        IP_BYTES,
        MULTIPACKET,
        EXTRA_LENGTH,
    ],
    handlers: &[
        Handler::value("active", "whether it counts").flags("c"),
        Handler::button("stop", "stops counting and ends the run"),
        Handler::read("count", "packets or bytes in this epoch"),
        Handler::read("dump", "aggregates that were counted, their counts and averages").flags("$"),
        Handler::read("epoch", "how often an epoch was begun"),
        Handler::button("advance_epoch", "begins an epoch: counts go into averages"),
    ],
    annotates: true,
    cost: "A line of annotations and one of the vector for each packet, and an atomic addition.",
    example: "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"1\") \
        -> AggregateCounterVector(511) -> Discard;",
    make: |make| Box::new(AggregateCounterVector::new(make)),
    writes: false,
    ..Class::here()
};

/// The count of an aggregate.
#[derive(Debug, Default)]
struct Count {
    /// In its epoch.
    now: AtomicU64,
    /// In those before.
    average: AtomicU64,
    /// The last one that had packets.
    epoch: AtomicU32,
}

impl Count {
    /// Begins an epoch, if that is another than its own.
    #[inline]
    fn advance(&self, epoch: u32) {
        let before = self.epoch.load(Relaxed);
        // One of several workers does it.
        if before != epoch && self.epoch.compare_exchange(before, epoch, Relaxed, Relaxed).is_ok() {
            let count = self.now.swap(0, Relaxed);
            self.average.store(averaged(self.average.load(Relaxed), count), Relaxed);
        }
    }

    /// The count in an epoch, and the average of those before.
    fn at(&self, epoch: u32) -> (u64, u64) {
        let (count, average) = (self.now.load(Relaxed), self.average.load(Relaxed));
        if self.epoch.load(Relaxed) == epoch {
            (count, average)
        } else {
            (0, averaged(average, count))
        }
    }
}

/// An average with another count.
fn averaged(average: u64, count: u64) -> u64 {
    average / 3 + (u128::from(count) * 2 / 3) as u64
}

/// The counts of all replicas.
#[derive(Debug)]
struct Counts {
    counts: Box<[Count]>,
    epoch: AtomicU32,
    active: AtomicBool,
}

struct AggregateCounterVector {
    mask: u32,
    amount: Amount,
    counts: Arc<Counts>,
    /// Whether it is the first of the replicas, all of which a handler is written to.
    is_first: bool,
    run_end: RunEnd,
}

impl AggregateCounterVector {
    fn new(make: &mut ElementBuilder<'_>) -> AggregateCounterVector {
        let mut mask = make.need::<u32>("MASK");
        if mask > MOST {
            make.error(format!("MASK: out of range, bound {MOST}"));
            mask = 0;
        }
        if make.or("MARK", false) {
            make.error("MARK: no port has marks; count by aggregate");
        }
        let counts = make.shared(|| Counts {
            counts: (0..=mask).map(|_| Count::default()).collect(),
            epoch: AtomicU32::new(0),
            active: AtomicBool::new(true),
        });
        let is_first = make.replica().index == 0;
        AggregateCounterVector {
            mask,
            amount: Amount::from_args(make),
            counts,
            is_first,
            run_end: RunEnd::new(make),
        }
    }

    /// The counts of this epoch that are not zero, and averages.
    fn each(&self) -> impl Iterator<Item = (usize, (u64, u64))> + '_ {
        let epoch = self.counts.epoch.load(Relaxed);
        let counts = self.counts.counts.iter().map(move |count| count.at(epoch));
        counts.enumerate().filter(|(_, found)| *found != (0, 0))
    }
}

impl Element for AggregateCounterVector {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let Counts { counts, epoch, active } = &*self.counts;
        if !active.load(Relaxed) {
            return;
        }
        let epoch = epoch.load(Relaxed);
        let arena = cx.pool.arena();
        for slot in frame.slots() {
            let meta = arena.meta(slot);
            let aggregate = annotations::aggregate(meta) & self.mask;
            if let Some(count) = counts.get(aggregate as usize) {
                count.advance(epoch);
                count.now.fetch_add(self.amount.of(slot, meta).into(), Relaxed);
            }
        }
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AggregateCounterVector>()
            && old.mask == self.mask
        {
            self.counts = Arc::clone(&old.counts);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        Ok(match handler {
            "active" => self.counts.active.load(Relaxed).to_string(),
            "count" => self.each().map(|(_, (count, _))| count).sum::<u64>().to_string(),
            "dump" => {
                let line =
                    |(aggregate, (count, average))| format!("{aggregate} {count} {average}\n");
                self.each().map(line).collect()
            }
            "epoch" => self.counts.epoch.load(Relaxed).to_string(),
            _ => return Err(HandlerError::missing(handler)),
        })
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        match handler {
            "active" => {
                let active = parse_bool(value.trim());
                let active = active.ok_or_else(|| HandlerError::refused("type mismatch"))?;
                self.counts.active.store(active, Relaxed);
            }
            "stop" => {
                self.counts.active.store(false, Relaxed);
                self.run_end.ask_for_all(cx);
            }
            "advance_epoch" if self.is_first => {
                self.counts.epoch.fetch_add(1, Relaxed);
            }
            "advance_epoch" => {}
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    const SOURCE: &str = "FromIPSummaryDump(STOP true, FIELDS aggregate count ip_len,
        DATA \"1 1 30\n5 3 31\n1 1 32\n4294967295 1 33\n\")";

    #[test]
    fn packets_and_bytes_are_counted_by_the_bits_of_the_mask() {
        for frame_limit in [1, 2, 256] {
            for (arguments, dump) in [
                ("MASK 511", "1 2 0\n5 3 0\n511 1 0\n"),
                ("3", "1 5 0\n3 1 0\n"),
                ("6", "0 2 0\n4 3 0\n6 1 0\n"),
                ("0", "0 6 0\n"),
                ("7, MULTIPACKET false", "1 2 0\n5 1 0\n7 1 0\n"),
                ("7, BYTES true", "1 62 0\n5 31 0\n7 33 0\n"),
            ] {
                let text =
                    format!("{SOURCE} -> c :: AggregateCounterVector({arguments}) -> Discard");
                let mut run = Run::new(&text).frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.dump"), dump, "{arguments}");
            }
        }
    }

    /// Two parts of the last count to one of the average.
    #[test]
    fn an_epoch_makes_counts_averages() {
        let mut run = Run::new(
            "s :: InfiniteSource(LIMIT 90) -> Paint(3) -> AggregatePaint -> c :: AggregateCounterVector(7)
                -> Discard;
             Script(wait 1s, write c.advance_epoch, write s.limit 96, wait 1s, write c.advance_epoch,
                    wait 1s, stop)",
        );
        run.run();
        // 90 make an average of 60, and 6 with them one of 24.
        assert_eq!((run.read("c.dump"), run.read("c.epoch")), ("3 0 24\n".into(), "2".into()));
        assert_eq!(run.read("c.count"), "0");
        run.write("c.active", "false").unwrap();
        assert_eq!(run.read("c.active"), "false");
        assert!(run.write("c.active", "x").is_err());
    }

    #[test]
    fn several_workers_count_together() {
        let mut run = Run::new(
            "a :: InfiniteSource(LIMIT 300, STOP true) -> c :: AggregateCounterVector(7) -> Discard;
             b :: InfiniteSource(LIMIT 200, STOP true) -> c;
             StaticThreadSched(a 0, b 1); DriverManager(wait_stop 2, stop)",
        )
        .workers(2);
        run.run();
        assert_eq!((run.read("c.count"), run.read("c.dump")), ("500".into(), "0 500 0\n".into()));
        run.write("c.advance_epoch", "").unwrap();
        assert_eq!((run.read("c.epoch"), run.read("c.dump")), ("1".into(), "0 0 333\n".into()));
    }

    #[test]
    fn vectors_have_a_bound() {
        for (arguments, error) in [
            ("4294967295", "MASK: out of range, bound 16777215"),
            ("7, MARK true", "MARK: no port has marks; count by aggregate"),
        ] {
            let errors =
                Run::errors(&format!("Idle -> AggregateCounterVector({arguments}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }
}

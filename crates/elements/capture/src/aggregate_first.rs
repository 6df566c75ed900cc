//! `AggregateFirst`: passes the first packet of each aggregate.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use linerate_graph::{
    Arguments, Class, DropReason, ElementBuilder, ElementRef, Exit, Reads, Step, Verdict,
};
use linerate_memory::Packet;

use super::{FAMILY, notifiers::check_notifier};
use linerate_element_support::annotations::aggregate;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// not the first
    Seen,
}

pub(super) const CLASS: Class = Class {
    name: "AggregateFirst",
    family: FAMILY,
    summary: "passes the first packet of each aggregate",
    description: "Later ones leave by output 1, or are dropped where there is none. With several \
        workers they decide together. `NOTIFIER` names an AggregateIPFlows or AggregateIPAddrPair; \
        since these give no number twice, nothing need be forgotten.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    // The first packet depends on the order of packets by several ways.
    shows_order: |plan, at| plan.has_several_sources(at) || plan.has_several_ways_from("Tee", at),
    cost: "A line of annotations per packet and a line of memory, where a line has 512 aggregates; \
        8 KiB of memory for each 65,536 of which one has been seen, and so at most 512 MiB.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_dst, DATA \"1.2.3.4\") \
        -> AggregateIP(ip dst) -> AggregateFirst -> Discard;",
    ..AggregateFirst::CLASS
};

/// A bit for each of 65,536 aggregates.
type Page = [AtomicU64; 1024];

/// Aggregates that have been seen, by all replicas.
struct SeenAggregates(Box<[OnceLock<Box<Page>>]>);

impl SeenAggregates {
    fn new() -> SeenAggregates {
        SeenAggregates((0..1 << 16).map(|_| OnceLock::new()).collect())
    }

    /// Returns true for the first packet of an aggregate.
    #[inline]
    fn is_first(&self, aggregate: u32) -> bool {
        let page = self.0[(aggregate >> 16) as usize].get_or_init(empty_page);
        let word = &page[(aggregate as u16 >> 6) as usize];
        let bit = 1 << (aggregate % 64);
        word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0
    }
}

#[cold]
fn empty_page() -> Box<Page> {
    Box::new([const { AtomicU64::new(0) }; 1024])
}

#[derive(Arguments)]
#[arguments(check = AggregateFirst::check)]
struct AggregateFirst {
    /// what numbers aggregates; checked, not needed
    #[arg(keyword, kind = "element", shown = "")]
    notifier: Option<ElementRef>,
    #[init(make.shared(SeenAggregates::new))]
    seen: Arc<SeenAggregates>,
}

impl AggregateFirst {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        check_notifier(make, self.notifier);
    }
}

impl Step<Reads, Reason> for AggregateFirst {
    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<Reason> {
        if self.seen.is_first(aggregate(packet.meta())) {
            Ok(())
        } else {
            Err(Exit::ErrorOutput(Reason::Seen))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn one_of_each_passes() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "FromIPSummaryDump(STOP true, FIELDS aggregate ip_len, DATA \"1 30\n5 31\n1 32\n\
                    65537 33\n4294967295 34\n5 35\n0 36\n65 37\n4294967295 38\n\")
                    -> f :: AggregateFirst -> c :: Collect; f [1] -> d :: Collect;",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.lengths"), "30\n31\n33\n34\n36\n37");
            assert_eq!(run.read("d.lengths"), "32\n35\n38");
        }
    }

    #[test]
    fn others_are_dropped() {
        let mut run =
            Run::new("InfiniteSource(LIMIT 9, STOP true) -> f :: AggregateFirst -> c :: Collect;");
        run.run();
        assert_eq!(run.read("c.lengths").lines().count(), 1);
        assert_eq!(run.read("f.drops"), "8\tnot the first\n");
    }

    #[test]
    fn several_workers_decide_together() {
        let mut run = Run::new(
            "a :: InfiniteSource(LIMIT 900) -> f :: AggregateFirst -> c :: Counter -> Discard;
             b :: InfiniteSource(LIMIT 900) -> f; f [1] -> d :: Counter -> Discard;
             StaticThreadSched(a 0, b 1); DriverManager(wait 0.3s, stop)",
        )
        .workers(2);
        run.run();
        assert_eq!((run.read("c.count"), run.read("d.count")), ("1".into(), "1799".into()));
    }

    /// In Click's words.
    #[test]
    fn the_notifier_must_be_an_aggregate_notifier() {
        let errors = Run::errors("Idle -> AggregateFirst(NOTIFIER d) -> d :: Discard");
        assert!(errors.ends_with("\n  d is not an AggregateNotifier\n"), "{errors}");
        let right = "Idle -> AggregateFirst(NOTIFIER f) -> Discard; Idle -> f :: AggregateIPFlows -> Discard";
        assert_eq!(Run::errors(right), "");
    }
}

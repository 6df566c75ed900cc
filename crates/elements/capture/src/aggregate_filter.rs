//! `AggregateFilter`: classifies packets by their aggregate annotation.

use std::collections::BTreeMap;

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Exit, Reads, lang::config::words,
    parse_integer,
};
use linerate_memory::Frame;

use super::FAMILY;
use linerate_element_support::annotations::aggregate;

/// Reasons for which packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum Reason {
    /// filtered
    Filtered,
    /// not listed
    NotListed,
}

pub(super) const CLASS: Class = Class {
    name: "AggregateFilter",
    family: FAMILY,
    summary: "chooses packets by their aggregate",
    description: "Each filter is an action and the aggregates it is for, numbers and ranges as \
        `3 10-19`, or `all` (or `-`) for those that no filter before has. The action is an \
        output, `allow`, which is output 0, or `drop` (or `deny`). The first filter that has a \
        packet's aggregate decides; packets of others are dropped.",
    ports: "1/1-254",
    processing: "h/h",
    args: &[Arg::rest(
        "FILTER",
        "ACTION AGGREGATES",
        "an output, allow, drop or deny, and aggregates or all",
    )],
    drops: Reason::REASONS,
    annotates: true,
    cost: "A line of annotations per packet, and a search by halves among the ranges.",
    example: "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"1\") \
        -> AggregateFilter(drop 5, allow 1-9) -> Discard;",
    make: |make| Box::new(AggregateFilter::new(make)),
    ..Class::here()
};

/// Verdict on a packet: an output, or a drop reason.
type Action = Result<usize, Reason>;

struct AggregateFilter {
    ranges: Vec<Range>,
    others: Action,
}

/// An inclusive range of aggregates with one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    action: Action,
}

/// Disjoint ranges, keyed by their first aggregate.
#[derive(Default)]
struct Ranges(BTreeMap<u32, (u32, Action)>);

impl Ranges {
    /// Adds the parts of a range that no earlier range covers. `taken` is called with each overlap
    /// whose earlier action differs, and with that action.
    fn add(
        &mut self,
        (first, last): (u32, u32),
        action: Action,
        mut taken: impl FnMut((u32, u32), Action),
    ) {
        let before = self.0.range(..first).next_back().map(|(at, _)| *at);
        let mut free = Vec::new();
        let mut next = Some(first);
        for (&at, &(end, other)) in self.0.range(before.unwrap_or(first)..=last) {
            if end < first {
                continue;
            }
            if let Some(start) = next
                && start < at
            {
                free.push((start, at - 1));
            }
            if other != action {
                taken((at.max(first), end.min(last)), other);
            }
            next = end.checked_add(1);
        }
        if let Some(start) = next
            && start <= last
        {
            free.push((start, last));
        }
        self.0.extend(free.into_iter().map(|(start, end)| (start, (end, action))));
    }
}

/// An unsigned number of 32 bits.
fn number(text: &str) -> Option<u32> {
    parse_integer(text).and_then(|number| u32::try_from(number).ok())
}

/// Parses an aggregate or a range `FIRST-LAST`.
fn range(word: &str) -> Option<(u32, u32)> {
    if let Some(single) = number(word) {
        return Some((single, single));
    }
    let (first, last) = word.split_once('-')?;
    Some((number(first)?, number(last)?))
}

impl AggregateFilter {
    fn new(make: &mut ElementBuilder<'_>) -> AggregateFilter {
        let mut ranges = Ranges::default();
        let mut others = None;
        for (at, filter) in make.rest().iter().enumerate() {
            let words = words(filter);
            let Some((&word, aggregates)) = words.split_first() else {
                make.error(format!("empty pattern {at}"));
                continue;
            };
            if others.is_some() {
                make.warn(format!("pattern {at} matches no packets"));
                continue;
            }
            let output = parse_integer(word).and_then(|number| usize::try_from(number).ok());
            let action = match (word, output) {
                ("allow", _) => Ok(0),
                ("drop" | "deny", _) => Err(Reason::Filtered),
                (_, Some(output)) => Ok(output),
                _ => {
                    make.error(format!("pattern {at}: expected a port number"));
                    continue;
                }
            };
            if matches!(aggregates, ["all" | "-"]) {
                others = Some(action);
                continue;
            }
            if aggregates.is_empty() {
                make.error(format!("pattern {at} has no aggregates"));
            }
            for word in aggregates {
                let Some((first, last)) = range(word) else {
                    make.error(format!("pattern {at}: bad aggregate number '{word}'"));
                    continue;
                };
                if first > last {
                    continue;
                }
                let outputs = make.outputs();
                ranges.add((first, last), action, |(from, to), other| {
                    let output = other.unwrap_or(outputs);
                    let which = if from == to {
                        format!("aggregate {from}")
                    } else {
                        format!("aggregates {from}-{to}")
                    };
                    let text = format!("pattern {at}: {which} already filtered to output {output}");
                    make.warn(text);
                });
            }
        }
        let ranges =
            ranges.0.into_iter().map(|(first, (last, action))| Range { first, last, action });
        AggregateFilter {
            ranges: ranges.collect(),
            others: others.unwrap_or(Err(Reason::NotListed)),
        }
    }

    #[inline]
    fn action(&self, aggregate: u32) -> Action {
        let behind = self.ranges.partition_point(|range| range.first <= aggregate);
        let found = self.ranges[..behind].last().filter(|range| aggregate <= range.last);
        found.map_or(self.others, |range| range.action)
    }
}

impl Element for AggregateFilter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.retain::<Reads, Reason>(frame, |packet| match self.action(aggregate(packet.meta())) {
            Ok(0) => Ok(()),
            Ok(output) => Err(Exit::Output(output)),
            Err(reason) => Err(Exit::Drop(reason)),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    use super::*;

    #[test]
    fn the_first_filter_that_has_an_aggregate_decides() {
        for frame_limit in [1, 7, 256] {
            let mut run = Run::new(
                "FromIPSummaryDump(STOP true, FIELDS aggregate ip_len, DATA \"1 31\n5 35\n6 36\n\
                    7 37\n8 38\n9 39\n4294967295 40\n0 30\n12 32\n13 33\")
                    -> f :: AggregateFilter(drop 6, 1 5-8 12, allow 0-7, deny 9, 7 13)
                    -> a :: Collect; f [1] -> b :: Collect",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("a.lengths"), "31\n30");
            assert_eq!(run.read("b.lengths"), "35\n37\n38\n32");
            assert_eq!(run.read("f.drops"), "2\tfiltered\n1\tnot listed\n1\tunconnected output\n");
        }
    }

    #[test]
    fn all_others_have_an_action() {
        for filters in ["drop 5, allow all", "3 5, 0 -"] {
            let mut run = Run::new(&format!(
                "FromIPSummaryDump(STOP true, FIELDS aggregate ip_len, DATA \"1 31\n5 35\n6 36\")
                    -> f :: AggregateFilter({filters}) -> a :: Collect"
            ));
            run.run();
            assert_eq!(run.read("a.lengths"), "31\n36", "{filters}");
        }
    }

    /// The error messages are those of Click.
    #[test]
    fn filters_that_say_nothing_are_refused() {
        for (filters, error) in [
            ("5", "pattern 0 has no aggregates"),
            ("allow 1, x 2", "pattern 1: expected a port number"),
            ("-1 2", "pattern 0: expected a port number"),
            ("allow 1 x 3", "pattern 0: bad aggregate number 'x'"),
            ("allow 5-", "pattern 0: bad aggregate number '5-'"),
            ("allow 4294967296", "pattern 0: bad aggregate number '4294967296'"),
        ] {
            let errors = Run::errors(&format!("Idle -> AggregateFilter({filters}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
    }

    #[test]
    fn aggregates_of_earlier_patterns_are_a_warning() {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 1, STOP true)
                -> AggregateFilter(allow 3 3, drop 2-4, 1 4-6, 0 all, allow 9) -> Discard",
        );
        run.run();
        assert_eq!(
            run.output(),
            "config:2: While configuring 'AggregateFilter@2 :: AggregateFilter':\n  \
             warning: pattern 1: aggregate 3 already filtered to output 0\n  \
             warning: pattern 2: aggregate 4 already filtered to output 1\n  \
             warning: pattern 4 matches no packets\n"
        );
    }

    /// Compares ranges with a list of single aggregates.
    #[test]
    fn ranges_act_as_single_aggregates() {
        let mut draw = numbers(7);
        for _ in 0..200 {
            let (mut ranges, mut single) = (Ranges::default(), [None; 64]);
            for action in 0..8 {
                let action = if action % 3 == 0 { Err(Reason::Filtered) } else { Ok(action) };
                let (a, b) = (draw() % 64, draw() % 64);
                let (first, last) = (a.min(b), a.max(b));
                let mut expected = 0;
                for place in &mut single[first as usize..=last as usize] {
                    expected += u32::from(place.is_some_and(|other| other != action));
                    place.get_or_insert(action);
                }
                let mut told = 0;
                ranges.add((first, last), action, |(from, to), _| told += to - from + 1);
                assert_eq!(told, expected);
            }
            let ranges = ranges.0.iter().map(|(first, (last, action))| (*first, *last, *action));
            let mut found = [None; 64];
            for (first, last, action) in ranges {
                for place in &mut found[first as usize..=last as usize] {
                    assert_eq!(place.replace(action), None, "ranges overlap");
                }
            }
            assert_eq!(found, single);
        }
        let mut whole = Ranges::default();
        whole.add((5, u32::MAX), Ok(1), |_, _| panic!("nothing is taken"));
        whole.add((0, u32::MAX), Ok(1), |_, _| panic!("it is the same"));
        assert_eq!(whole.0.len(), 2);
    }

    /// A pseudo-random generator with a fixed seed.
    fn numbers(seed: u32) -> impl FnMut() -> u32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        }
    }
}

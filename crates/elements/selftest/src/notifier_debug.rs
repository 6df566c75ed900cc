//! `NotifierDebug`: what an element that waits is told.

use linerate_graph::{
    Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerRef, HandlerResult,
    Plan, Processing,
};
use linerate_memory::Frame;

use super::FAMILY;

/// Bits of a word of signals, as in Click.
const WORD: usize = 32;

pub(super) const CLASS: Class = Class {
    name: "NotifierDebug",
    family: FAMILY,
    summary: "shows what a task that pulls or pushes here is told",
    description: "Passes packets on. Where it is pulled, `signal` is about the queues that \
        packets come from: for each word of 32 such queues of the graph `empty.WORD/MASK:VALUE`, \
        in hexadecimal, with a bit in `MASK` for each queue that is upstream and the same bit in \
        `VALUE` when it has packets or had some when it was last pulled (not a \
        `QuickNoteQueue`, which tells at once that it is empty). \
        Where packets are pushed to it, it is about the queues they \
        go to: `full.WORD/MASK:VALUE`, with a bit in `VALUE` for each that has room. A `*` \
        follows where at least one bit is set, and a `+` where another word does.",
    ports: "1/1",
    handlers: &[Handler::read("signal", "the state of the queues")],
    cost: "A look at each queue that packets come from per frame; packets are not touched.",
    example: "InfiniteSource(LIMIT 5) -> Queue(10) -> n :: NotifierDebug -> TimedSink(1s);\n\
        Script(print n.signal, stop);",
    make: |make| Box::new(NotifierDebug::new(make)),
    ..Class::here()
};

struct NotifierDebug {
    pulled: bool,
    /// The queues it is about, as they are declared.
    near: Vec<Near>,
}

struct Near {
    queue: usize,
    /// Whether the pull that takes its last packet tells that it is empty, not the next one.
    quick: bool,
    /// Whether it had packets when it was last pulled.
    gave: bool,
}

impl NotifierDebug {
    fn new(make: &ElementBuilder<'_>) -> NotifierDebug {
        let pulled = make.input_is_pull(0);
        let plan = make.plan();
        let mut near = queues(plan, make.element(), pulled);
        near.sort_unstable();
        let near = near.into_iter().map(|queue| {
            let quick = plan.elements[queue].class.name == "QuickNoteQueue";
            Near { queue, quick, gave: false }
        });
        let near = near.collect();
        NotifierDebug { pulled, near }
    }
}

/// Whether an element holds packets between push and pull and tells who waits.
fn is_queue(plan: &Plan, at: usize) -> bool {
    let element = &plan.elements[at];
    let told = element.class.signals.empty || element.class.signals.full;
    told && element.inputs.contains(&Processing::Push)
        && element.outputs.contains(&Processing::Pull)
}

/// The queues that packets pulled at `start` come from, or that packets pushed to it go to.
fn queues(plan: &Plan, start: usize, up: bool) -> Vec<usize> {
    let (mut seen, mut open, mut found) = (vec![false; plan.elements.len()], vec![start], vec![]);
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        if at != start && is_queue(plan, at) {
            found.push(at);
            continue;
        }
        let element = &plan.elements[at];
        let ends = if up { &element.sources } else { &element.targets };
        open.extend(ends.iter().flatten().map(|end| end.element));
    }
    found
}

impl Element for NotifierDebug {
    fn push(&mut self, _: &mut Context, _: usize, _: &mut Frame) {}

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        for near in &mut self.near {
            near.gave = !near.quick && cx.ready_in(near.queue).is_some_and(|packets| packets > 0);
        }
        cx.pull(0, count, frame);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        if handler != "signal" {
            return Err(HandlerError::missing(handler));
        }
        let plan = cx.plan().clone();
        let all: Vec<usize> = (0..plan.elements.len()).filter(|at| is_queue(&plan, *at)).collect();
        let mut words: Vec<(usize, u32, u32)> = Vec::new();
        for near in &self.near {
            let Ok(number) = all.binary_search(&near.queue) else { continue };
            let (word, bit) = (number / WORD, 1 << (number % WORD));
            if words.last().is_none_or(|last| last.0 != word) {
                words.push((word, 0, 0));
            }
            let last = words.len() - 1;
            words[last].1 |= bit;
            if near.gave || says_yes(cx, near.queue, self.pulled) {
                words[last].2 |= bit;
            }
        }
        let name = if self.pulled { "empty" } else { "full" };
        let text = words.iter().map(|(word, mask, value)| {
            let star = if *value != 0 { "*" } else { "" };
            format!("{name}.{word}/{mask:x}:{value:x}{star}")
        });
        Ok(text.collect::<Vec<_>>().join("+"))
    }
}

/// Whether a queue has packets, or room.
fn says_yes(cx: &mut Context, queue: usize, packets: bool) -> bool {
    let mut number = |name: &str| {
        let handler = HandlerRef { element: Some(queue), handler: name.into() };
        cx.read_handler(&handler, "").ok()?.parse::<u64>().ok()
    };
    let length = number("length").unwrap_or(0);
    if packets { length > 0 } else { number("capacity").is_none_or(|most| length < most) }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn queues_tell_of_packets_and_of_room() {
        for limit in [1, 7, 32, 256] {
            let mut run = Run::new(
                "unrelated :: Queue; Idle -> unrelated -> Idle;
                i :: InfiniteSource(LIMIT 20, ACTIVE false)
                    -> d :: NotifierDebug -> Queue(5) -> u :: NotifierDebug -> Idle;
                Script(wait 1ms, print d.signal, print u.signal, write i.active true, wait 1ms,
                    print d.signal, print u.signal, stop)",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!(
                run.output(),
                "full.0/2:2*\nempty.0/2:0\nfull.0/2:0\nempty.0/2:2*\n",
                "{limit}"
            );
        }
    }

    /// The signal stays active until a pull finds the queue empty, or takes its last packet.
    #[test]
    fn a_queue_is_told_of_until_it_is_found_empty() {
        for (class, told) in [("NotifierQueue", "1*"), ("QuickNoteQueue", "0")] {
            for limit in [1, 7, 256] {
                let mut run = Run::new(&format!(
                    "InfiniteSource(LIMIT 3) -> q :: {class}(5) -> n :: NotifierDebug
                        -> Unqueue -> Counter(COUNT_CALL 3 s.run) -> Discard;
                    s :: Script(TYPE PASSIVE, print n.signal, print q.length);
                    Script(wait 1ms, print n.signal, stop)",
                ))
                .frame_limit(limit);
                run.run();
                let expected = format!("empty.0/1:{told}\n0\nempty.0/1:0\n");
                assert_eq!(run.output(), expected, "{class} {limit}");
            }
        }
    }

    #[test]
    fn words_of_many_queues() {
        let more = "Idle -> Queue -> [N] s; ";
        let more: String = (1..40).map(|n| more.replace('N', &n.to_string())).collect();
        let mut run = Run::new(&format!(
            "Idle -> Queue -> [0] s :: RoundRobinSched; {more} s -> n :: NotifierDebug -> Idle"
        ));
        assert_eq!(run.read("n.signal"), "empty.0/ffffffff:0+empty.1/ff:0");
    }
}

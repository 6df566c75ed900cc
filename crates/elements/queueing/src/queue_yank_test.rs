//! `QueueYankTest`: self-test of removing packets from any position of a queue.

use linerate_graph::{Arg, Class, Context, Element, ElementBuilder, ElementRef};
use linerate_memory::{Frame, Slot};

use crate::{
    TIMER,
    queue::{Queue, is_queue},
};

pub(super) const CLASS: Class = Class {
    name: "QueueYankTest",
    family: "selftest",
    summary: "checks that packets can be taken out of the middle of a queue",
    description: "When the run begins it puts five packets into a `Queue` and takes some out, in \
        front, behind and between others, and tells `All tests pass!`, or which test failed. The \
        queue is empty before and after.",
    ports: "0/0",
    args: &[Arg::required("QUEUE", "element", "an empty queue with room for five packets")],
    cost: "Nothing while packets are handled.",
    example: "Idle -> q :: Queue(6) -> Idle; QueueYankTest(q);\nScript(wait 1ms, stop);",
    make: |make| Box::new(QueueYankTest::new(make)),
    ..Class::here()
};

struct QueueYankTest {
    queue: usize,
}

/// Packets to remove and packets that remain, both in the order of the queue.
const TESTS: &[(&str, &str)] =
    &[("", "abcde"), ("c", "abde"), ("a", "bcde"), ("e", "abcd"), ("ade", "bc"), ("abcde", "")];

impl QueueYankTest {
    fn new(make: &mut ElementBuilder<'_>) -> QueueYankTest {
        let queue = make.element_of("QUEUE", "Queue", is_queue);
        QueueYankTest { queue: queue.map_or(0, |ElementRef(queue)| queue) }
    }
}

/// Enqueues a packet per letter; returns false if there is no room or no buffer.
fn fill(queue: &mut Queue, cx: &mut Context, letters: &str) -> bool {
    let mut frame = cx.new_frame();
    letters.bytes().all(|letter| {
        if queue.room() == 0 {
            return false;
        }
        let Some(mut slot) = cx.pool.take_one(1) else { return false };
        if let Some(bytes) = cx.pool.arena().packet_mut(&mut slot) {
            bytes[0] = letter;
        }
        let pushed = frame.push(slot);
        debug_assert!(pushed.is_ok(), "it is empty");
        queue.store(&mut frame);
        true
    })
}

/// Reads the letters of packets, and frees their buffers.
fn letters(cx: &mut Context, packets: Vec<Slot>) -> String {
    packets
        .into_iter()
        .map(|slot| {
            let letter = cx.pool.arena().packet(&slot).first().copied().unwrap_or(b'?');
            cx.pool.give_one(slot);
            char::from(letter)
        })
        .collect()
}

fn check(queue: &mut Queue, cx: &mut Context) -> Result<(), String> {
    if queue.len() > 0 {
        return Err("the queue has packets already".into());
    }
    if queue.take_out(|_, _| false).is_none() {
        return Err("the other side of the queue is on another worker".into());
    }
    for &(taken, left) in TESTS {
        let filled = fill(queue, cx, "abcde");
        let arena = cx.pool.arena().clone();
        let wanted = |slot: &Slot| taken.bytes().any(|letter| arena.packet(slot) == [letter]);
        let some = queue.take_out(|_, slot| wanted(slot)).unwrap_or_default();
        let rest = queue.take_out(|_, _| true).unwrap_or_default();
        let (some, rest) = (letters(cx, some), letters(cx, rest));
        if !filled {
            return Err("the queue has no room for five packets".into());
        }
        if some != taken || rest != left {
            return Err(format!("'{taken}' of abcde: '{some}' was taken and '{rest}' is left"));
        }
    }
    Ok(())
}

impl Element for QueueYankTest {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(TIMER, cx.steady());
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        let checked = cx.with_element(self.queue, check);
        let elsewhere = || Err("the queue is on another worker".into());
        let said = match checked.unwrap_or_else(elsewhere) {
            Ok(()) => "All tests pass!".into(),
            Err(fault) => format!("test failed: {fault}"),
        };
        cx.console().report(&format!("{} :: {}: {said}\n", cx.name(), CLASS.name));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    fn said(queue: &str) -> String {
        let text =
            format!("Idle -> q :: {queue} -> Idle; t :: QueueYankTest(q); Script(wait 1ms, stop)");
        let mut run = Run::new(&text);
        run.run();
        assert_eq!(run.read("q.length"), "0");
        run.output()
    }

    #[test]
    fn packets_are_taken_out_of_the_middle() {
        for queue in ["Queue(6)", "SimpleQueue(5)", "NotifierQueue"] {
            assert_eq!(said(queue), "t :: QueueYankTest: All tests pass!\n");
        }
    }

    #[test]
    fn a_queue_that_is_too_small_is_named() {
        let fault = "the queue has no room for five packets";
        assert_eq!(said("Queue(4)"), format!("t :: QueueYankTest: test failed: {fault}\n"));
    }
}

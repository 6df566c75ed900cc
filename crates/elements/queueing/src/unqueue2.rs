//! `Unqueue2`: pulls packets and pushes them while downstream queues have room.

use linerate_element_support::burst::move_burst;
use linerate_graph::{
    Arg, Class, Context, Element, ElementBuilder, Handler, HandlerError, HandlerResult, Next,
    unquoted,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    followed::{self, followed, nearest, stores},
};

pub(super) const CLASS: Class = Class {
    name: "Unqueue2",
    family: FAMILY,
    summary: "pulls packets and pushes them on while queues behind it have room",
    description: "Moves up to `BURST` packets in a turn, and no more than there is room for in the \
        fullest of `QUEUES`. Zero is any number, and one below zero as many as there is room for. \
        `Unqueue` is to be preferred, of which it says so unless it is `QUIET`.",
    ports: "1/1",
    processing: "l/h",
    args: &[
        Arg::optional("BURST", "packets", "1", "most packets moved in a turn"),
        Arg::keyword(
            "QUEUES",
            "elements",
            "all next ones downstream",
            "queues that must have room; none when it is empty",
        ),
        Arg::keyword("QUIET", "bool", "false", "whether nothing is said of `Unqueue`"),
    ],
    handlers: &[Handler::read("packets", "packets moved")],
    observes: |plan, at| if plan.is_live() { Vec::new() } else { followed(plan, at, false) },
    cost: "A look at each queue per turn, of which there are many at once where packets come from \
        ports; a copy of eight bytes per packet.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> Queue -> Unqueue2(QUIET true) -> Queue \
        -> Discard;",
    make: |make| Box::new(Unqueue2::new(make)),
    writes: false,
    ..Class::here()
};

struct Unqueue2 {
    /// Packets per turn, if `BURST` is given; negative for as many as there is room for.
    burst: Option<i32>,
    queues: Vec<usize>,
    count: u32,
}

impl Unqueue2 {
    fn new(make: &mut ElementBuilder<'_>) -> Unqueue2 {
        let burst = make.get::<i32>("BURST").map(|burst| if burst == 0 { i32::MAX } else { burst });
        let named = make.is_given("QUEUES").then(|| {
            let plan = make.plan();
            let queues = plan.elements_named(make.element(), &["QUEUES"]);
            let known = queues.iter().all(|queue| stores(plan.elements[*queue].class));
            let words = unquoted(&plan.argument(make.element(), "QUEUES").unwrap_or_default());
            if !known || queues.len() != words.split_whitespace().count() {
                make.error("bad QUEUES");
            }
            queues
        });
        if !make.or("QUIET", false) {
            make.tell("Unqueue2 is deprecated, you should probably use Unqueue");
        }
        let queues = named.unwrap_or_else(|| nearest(make.plan(), make.element(), false));
        Unqueue2 { burst, queues, count: 0 }
    }

    /// Room of the fullest queue, in packets; `None` without queues.
    fn room(&self, cx: &mut Context) -> Option<usize> {
        let room = |(held, capacity): (usize, usize)| capacity.saturating_sub(held);
        self.queues.iter().map(|queue| followed::length(cx, *queue).map_or(0, room)).min()
    }
}

impl Element for Unqueue2 {
    fn burst(&self) -> Option<usize> {
        self.burst.map(|burst| usize::try_from(burst).unwrap_or(usize::MAX))
    }

    fn run(&mut self, cx: &mut Context, frame: &mut Frame) -> Next {
        let room = self.room(cx);
        let burst = match self.burst.map(usize::try_from) {
            None => frame.limit(),
            Some(Ok(burst)) => burst,
            Some(Err(_)) => room.unwrap_or(0),
        };
        let burst = burst.min(room.unwrap_or(usize::MAX));
        if burst == 0 {
            // The task polls for room, as in Click.
            return Next::Idle;
        }
        let moved = move_burst(cx, burst, self.burst.is_some(), frame);
        self.count = self.count.wrapping_add(moved as u32);
        if moved == 0 { cx.nothing_pulled() } else { Next::Again }
    }

    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Unqueue2>() {
            self.count = old.count;
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "packets" => Ok(format!("{} packets\n", self.count)),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// A queue of 900, and one of 10 behind it from which nothing is taken.
    fn moved(arguments: &str, frame_limit: usize) -> (String, String, String) {
        let mut run = Run::new(&format!(
            "InfiniteSource(LIMIT 900) -> Queue -> u :: Unqueue2({arguments}) -> c :: Counter \
             -> q :: Queue(10) -> Idle; Script(wait 1s, stop)"
        ))
        .frame_limit(frame_limit);
        run.run();
        (run.read("u.packets"), run.read("q.length"), run.read("q.drops"))
    }

    fn count(packets: u32, length: u32, drops: u32) -> (String, String, String) {
        (format!("{packets} packets\n"), length.to_string(), drops.to_string())
    }

    #[test]
    fn a_queue_behind_it_does_not_overflow() {
        for frame_limit in [1, 7, 256] {
            for arguments in ["", "4", "0", "-1", "100, QUEUES q"] {
                assert_eq!(moved(arguments, frame_limit), count(10, 10, 0), "{arguments}");
            }
            // No queue needs to have room.
            assert_eq!(moved("3, QUEUES \"\"", frame_limit), count(900, 10, 890));
            assert_eq!(moved("-1, QUEUES \"\"", frame_limit), count(0, 0, 0));
        }
    }

    #[test]
    fn it_goes_on_when_there_is_room_again() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 100) -> Queue -> u :: Unqueue2(0) -> q :: Queue(10) \
                 -> RatedUnqueue(100, BURST_SIZE 1) -> c :: Counter -> Discard; \
                 Script(wait 2s, stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            let read = ["u.packets", "c.count", "q.drops"].map(|handler| run.read(handler));
            assert_eq!(read, ["100 packets\n", "100", "0"]);
        }
    }

    #[test]
    fn it_says_that_it_is_old_unless_it_is_quiet() {
        let said = |arguments: &str| {
            let text = format!("Idle -> Unqueue2({arguments}) -> Queue -> Idle; Script(stop)");
            let mut run = Run::new(&text);
            run.run();
            run.output()
        };
        let text = "Unqueue2 is deprecated, you should probably use Unqueue";
        assert!(said("").contains(text), "{}", said(""));
        assert!(!said("QUIET true").contains(text));
        let errors = Run::errors("Idle -> u :: Unqueue2(QUEUES u) -> Queue -> Idle");
        assert!(errors.contains("bad QUEUES"), "{errors}");
    }
}

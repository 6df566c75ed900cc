//! Libraries for runs that end by themselves.

use std::time::{Duration, Instant};

use linerate_graph::{Class, Context, Element, Library, Next};
use linerate_memory::Frame;

use crate::packets;

/// The simulated time a run takes, and how often the worker's tasks are run in it.
const TIME: u64 = 50_000_000;
const ROUNDS: u32 = 10_000;
/// The real time after which it is given up: the work of a script in one go takes a while, and it
/// may do it in each round.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Families with elements that name no files and interfaces.
const INSIDE: &[&str] =
    &["control", "information", "measuring", "packets", "scheduling", "standard", "switching"];

/// Declares the element below.
pub const BOUNDED: &str = "bound :: Bound;\n";

/// A library with `Packets`, and `Bound`, which ends a run after some simulated time, or when much has happened in
/// less: an element may have a timer every nanosecond.
pub fn bounded_library(classes: impl IntoIterator<Item = &'static Class>) -> Library {
    Library::new(classes.into_iter().chain([&CLASS, &packets::CLASS]))
}

/// Elements that do not reach outside the process by themselves.
pub fn inside() -> impl Iterator<Item = &'static Class> {
    let classes: Vec<_> = linerate_elements::library().iter().collect();
    classes.into_iter().filter(|class| INSIDE.contains(&class.family))
}

const CLASS: Class = Class {
    name: "Bound",
    make: |_| Box::new(Bound { rounds: 0, start: Instant::now() }),
    ..Class::here()
};

struct Bound {
    rounds: u32,
    start: Instant,
}

impl Element for Bound {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(0, cx.steady() + TIME);
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        self.rounds += 1;
        if self.rounds >= ROUNDS || self.start.elapsed() > TIMEOUT {
            cx.driver.abort();
        }
        Next::Idle
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        cx.driver.abort();
    }
}

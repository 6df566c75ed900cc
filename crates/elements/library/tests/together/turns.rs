//! Tasks without packets share a worker with tasks that move packets.

use super::Run;
use linerate_graph::{Class, Context, Element, Next};
use linerate_memory::Frame;

/// An element whose task always runs, and counts as a frame of packets; stops after 100 runs.
const BUSY: Class =
    Class { name: "Busy", ports: "0/0", make: |_| Box::new(Busy { runs: 0 }), ..Class::here() };

struct Busy {
    runs: usize,
}

const RUNS: usize = 100;
const TURNS: usize = 16;

impl Element for Busy {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.schedule();
        Ok(())
    }

    fn run(&mut self, cx: &mut Context, _: &mut Frame) -> Next {
        cx.take_turns(TURNS);
        self.runs += 1;
        if self.runs == RUNS {
            cx.driver.stop();
        }
        Next::Again
    }
}

#[test]
fn packets_go_on_beside_a_task_that_takes_turns() {
    let mut run = Run::new("Busy; InfiniteSource(BURST 1) -> c :: Counter -> Discard")
        .with(&[&BUSY])
        .frame_limit(TURNS);
    run.run();
    let packets: usize = run.read("c.count").parse().unwrap();
    let turns = TURNS * RUNS;
    assert!((turns - 2 * TURNS..=turns + 2 * TURNS).contains(&packets), "{packets} of {turns}");
}

//! Frames of several packets are treated like packets one at a time: random graphs of sources,
//! splitters, meetings, cycles, small queues and rated elements, run with frames of one packet and
//! of several, have the same results. The generator and the comparison are the property test's
//! (crates/elements/library/tests/vectors.rs).

#![no_main]

#[path = "../../crates/elements/library/tests/common/graphs.rs"]
mod graphs;

use graphs::{Turns, difference, graph, run};
use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{Bytes, show};
use linerate_memory::{Arena, ArenaOptions};

thread_local! {
    static ARENA: Arena = {
        let options = ArenaOptions { size: 48 << 20, huge: false, ..ArenaOptions::default() };
        options.create().expect("48 megabytes can be had")
    };
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let turns = *bytes.choice(&[Turns::Said, Turns::Open]);
    let limit = *bytes.choice(&[2, 7, 32, 256, 2048]);
    let text = graph(turns, &mut |bound| bytes.below(bound));
    show(format!("frame limit {limit}, turns {turns:?}\n{text}"));
    let run = |limit| ARENA.with(|arena| run(&text, limit, arena));
    if let Some(difference) = difference(&run(1), &run(limit), turns) {
        panic!("{difference}\n{text}");
    }
});

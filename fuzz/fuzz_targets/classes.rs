//! Frames of several packets are treated like packets one at a time, by every class of the library,
//! with small queues of every kind behind it and in front. The generator and the comparison are the
//! property test's (crates/elements/library/tests/classes.rs).

#![no_main]

#[path = "../../crates/elements/library/tests/common/classes.rs"]
mod classes;

use std::sync::LazyLock;

use classes::{Subject, graph, run};
use libfuzzer_sys::fuzz_target;
use linerate_fuzz::{Bytes, isolate, show};
use linerate_memory::{Arena, ArenaOptions};

thread_local! {
    static ARENA: Arena = {
        let options = ArenaOptions { size: 16 << 20, huge: false, ..ArenaOptions::default() };
        options.create().expect("16 megabytes can be had")
    };
}

/// Those of which a graph can be run.
static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    let runs =
        |subject: &Subject| ARENA.with(|arena| run(&graph(subject, &mut |_| 0), 1, arena)).is_ok();
    Subject::all().into_iter().flatten().filter(runs).collect()
});

/// Some classes write files; and each is tried once, which is no input's time.
fn prepare() {
    isolate();
    LazyLock::force(&SUBJECTS);
}

fuzz_target!(init: prepare(), |data: &[u8]| {
    let mut bytes = Bytes(data);
    let subject = &SUBJECTS[bytes.below(SUBJECTS.len())];
    let limit = *bytes.choice(&[7, 32, 256, 2048]);
    let text = graph(subject, &mut |bound| bytes.below(bound));
    show(format!("frame limit {limit}\n{text}"));
    let run = |limit| ARENA.with(|arena| run(&text, limit, arena));
    let (Ok(single), Ok(frames)) = (run(1), run(limit)) else { return };
    if let Some(difference) = single.difference(&frames) {
        panic!("{difference}\n{text}");
    }
});

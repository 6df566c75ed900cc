//! Tests of a rewriter on two workers at once, with answers that come to another worker than their
//! packets.

use std::{fmt::Write as _, fs};

use linerate_elements_testing::Scratch;

use crate::testing::Run;

/// Packets of each flow.
const TRAIN: u32 = 12;
/// Flows of each source, which begin beside packets of others. All packets fit the memory of a test.
const FLOWS: u32 = 200;

/// Packets of flows of a host, the flows in turns but some behind others.
fn flows(host: u32) -> String {
    let mut text = String::from("!data src sport dst dport proto\n");
    for step in 0..FLOWS + 40 * TRAIN {
        for packet in 0..TRAIN {
            let Some(flow) = step.checked_sub(40 * packet).filter(|flow| *flow < FLOWS) else {
                continue;
            };
            let _ = writeln!(text, "10.0.0.{host} {} 2.0.0.{} 53 U", 2000 + flow, flow % 200);
        }
    }
    text
}

#[test]
fn answers_at_another_worker_find_their_connection() {
    let folder = Scratch::new("rewriting-workers");
    let path = |name: &str| folder.path(name);
    for host in [2, 3] {
        fs::write(path(&host.to_string()), flows(host)).unwrap();
    }
    let packets = 2 * FLOWS * TRAIN;
    let text = format!(
        "rw :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);
         one :: FromIPSummaryDump({}, CHECKSUM true) -> out :: CheckIPHeader -> [0] rw;
         two :: FromIPSummaryDump({}, CHECKSUM true) -> out;
         rw [0] -> IPMirror -> Queue({packets}) -> answers :: Unqueue -> CheckIPHeader -> [1] rw;
         rw [1] -> Queue({packets}) -> last :: Unqueue
             -> ToIPSummaryDump({}, FIELDS dst dport src sport)
             -> Counter(COUNT_CALL {packets} stop) -> Discard;
         StaticThreadSched(one 0, two 1, answers 1, last 0);",
        path("2"),
        path("3"),
        path("answers"),
    );
    let mut run = Run::new(&text).workers(2).frame_limit(64);
    run.run();
    assert_eq!(run.read("rw.table_size"), (2 * FLOWS).to_string());
    assert_eq!(run.read("rw.mapping_failures"), "0");
    drop(run);
    let lines = |name: &str| {
        let text = fs::read_to_string(path(name)).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('!'));
        lines.map(|line| line.trim_end_matches(" U").to_owned()).collect::<Vec<_>>()
    };
    let mut sent = [lines("2"), lines("3")].concat();
    let mut answered = lines("answers");
    sent.sort_unstable();
    answered.sort_unstable();
    assert_eq!(sent.len(), packets as usize);
    assert!(sent == answered, "answers went to others");
}

//! Elements that write aggregate annotations, and those that read them.

use super::Run;

/// The aggregates behind `path`: their bytes are written into the packets.
fn aggregates(path: &str, frame_limit: usize) -> Vec<u32> {
    let mut run = Run::new(&format!(
        "Packets(0102030405060708 010203040506 010203040506070809) -> {path}
            -> StoreEtherAddress(OFFSET 0, ANNO 20) -> c :: Collect;"
    ))
    .frame_limit(frame_limit);
    run.run();
    let packets = run.read("c.packets");
    let swapped = |line: &str| u32::from_str_radix(&line[..8], 16).unwrap();
    packets.lines().map(|line| u32::from_ne_bytes(swapped(line).to_be_bytes())).collect()
}

#[test]
fn packets_are_grouped_by_length_and_paint() {
    for frame_limit in [1, 7, 256] {
        for (path, expected) in [
            ("AggregateLength", &[8, 6, 9][..]),
            ("Truncate(7) -> AggregateLength", &[8, 6, 9]),
            ("Truncate(7, EXTRA_LENGTH false) -> AggregateLength", &[7, 6, 7]),
            ("MarkNetwork(1) -> AggregateLength(IP true)", &[7, 5, 8]),
            ("MarkNetwork(1) -> Strip(3) -> AggregateLength(IP true) -> Unstrip(3)", &[7, 5, 8]),
            ("AggregateLength(IP true)", &[]),
            ("Paint(13) -> AggregatePaint", &[13; 3]),
            ("Paint(13) -> AggregatePaint(3)", &[5; 3]),
            (
                "AggregateLength -> Paint(13) -> AggregatePaint(4, INCREMENTAL true)",
                &[8 * 16 + 13, 6 * 16 + 13, 9 * 16 + 13],
            ),
        ] {
            assert_eq!(aggregates(path, frame_limit), expected, "{path}");
        }
    }
}

/// The rate is where the aggregate is.
const RATES: &str =
    "FromIPSummaryDump(STOP true, FIELDS aggregate, DATA \"1\n5\n6\n4000000000\n0\n\")
        -> b :: Block(5) -> a :: AggregateCounter -> Discard; b [1] -> c :: Counter -> Discard;";

#[test]
fn rates_above_the_threshold_go_elsewhere() {
    for frame_limit in [1, 7, 256] {
        for (threshold, passed) in [("5", 4), ("0", 5), ("-1", 1), ("7", 5)] {
            let mut run = Run::new(RATES).frame_limit(frame_limit);
            run.write("b.thresh", threshold).unwrap();
            run.run();
            assert_eq!(run.read("c.count"), (5 - passed).to_string(), "{threshold}");
            assert_eq!(run.read("b.thresh"), threshold);
        }
    }
}

#[test]
fn wrong_thresholds_are_refused() {
    let mut run = Run::new(RATES);
    for (value, error) in
        [("x", "not an integer"), ("1, 2", "expecting 1 integer"), ("", "expecting 1 integer")]
    {
        assert_eq!(run.write("b.thresh", value).unwrap_err().to_string(), error, "{value}");
    }
}

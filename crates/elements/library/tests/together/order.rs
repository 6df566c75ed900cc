//! Packets, messages and the calls of readers are in the order of packets one at a time.

use super::Run;

const LIMITS: [usize; 5] = [1, 7, 32, 256, 2048];

/// Click drops no packet.
#[test]
fn a_queue_behind_a_classifier_is_not_overrun() {
    for limit in LIMITS {
        let mut run = Run::new(
            "InfiniteSource(LIMIT 10000) -> s :: Classifier(0/52, -) -> q :: Queue(64) -> Unqueue
                -> c :: Counter -> Discard; s [1] -> Discard; DriverManager(wait 100s, stop)",
        )
        .frame_limit(limit);
        run.run();
        let seen = (run.read("c.count"), run.read("q.drops"));
        assert_eq!(seen, ("10000".into(), "0".into()), "frames of {limit}");
    }
}

/// The lines of several elements come in the order of the packets.
#[test]
fn printed_lines_are_in_packet_order() {
    let text = "FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_proto, \
            DATA \"1.0.0.1 1 U\\n1.0.0.1 2 U\\n1.0.0.1 3 U\\n1.0.0.1 4 U\\n1.0.0.1 5 U\") \
        -> k :: Classifier(21/01, 21/03, -) -> Print(a, 0) -> Null -> Print(b, 0) -> Discard; \
        k [1] -> Null -> Null -> Print(c, 0) -> Discard; k [2] -> Print(d, 0) -> Discard";
    let printed = |limit| {
        let mut run = Run::new(text).frame_limit(limit);
        run.run();
        run.output()
    };
    let single = printed(1);
    let labels: String = single.lines().filter_map(|line| line.chars().next()).collect();
    assert_eq!(labels, "abdcdd");
    for limit in LIMITS {
        assert_eq!(printed(limit), single, "frames of {limit}");
    }
}

/// As Click 2.1 does: each message where its packet is.
#[test]
fn messages_are_in_the_order_of_packets() {
    for frame_limit in [1, 7, 256] {
        let mut run = Run::new(
            "Packets(ffffffff 010203) -> Print(a) -> CheckCRC32 -> Print(b) -> SetCRC32
                -> StoreData(0, X) -> CheckCRC32 -> Discard",
        )
        .frame_limit(frame_limit);
        run.run();
        assert_eq!(
            run.output(),
            "a:    4 | ffffffff\nb:    0\nCRC32 failed, len 4\n\
             a:    3 | 010203\nCRC32 failed, len 3\n"
        );
    }
}

/// As Click's come: a queue is empty for a scheduler when it would have been packet by
/// packet.
#[test]
fn schedulers_see_queues_fill_packet_by_packet() {
    let kinds = "3121123312231331222133312121333121123111222333";
    let packets: Vec<String> =
        kinds.chars().zip(0..).map(|(kind, at)| format!("1.0.0.{at} {kind} U\\n")).collect();
    for (scheduler, expected) in [
        (
            "RoundRobinSched",
            "31231231231231231231231231231231231231231231231231231231231231231231231231231231231231313131",
        ),
        (
            "PrioSched",
            "31111112112211211221122111111221111111111112222222222222222223333333333333333333333333333333",
        ),
        (
            "StrideSched(1, 2, 3)",
            "33212231323321323321323321323321323321323321323321323321323321323212212212111111111111111111",
        ),
        (
            "DRRSched",
            "33111111112222222222222222233333333333333333111111111111111112222222222233333333333331111111",
        ),
    ] {
        let text = format!(
            "FromIPSummaryDump(FIELDS ip_src sport ip_proto, DATA \"{0}\") \
                -> c :: IPClassifier(src port 1, src port 2, -); \
                FromIPSummaryDump(FIELDS ip_src sport ip_proto, DATA \"{0}\") -> c; \
                c [0] -> Queue(100) -> [0] s :: {scheduler}; c [1] -> Queue(100) -> [1] s; \
                c [2] -> Queue(100) -> [2] s; s -> Unqueue -> Strip(21) -> out :: Collect; \
                DriverManager(wait 1s, stop)",
            packets.concat()
        );
        for limit in LIMITS {
            let mut run = Run::new(&text).frame_limit(limit);
            run.run();
            let kinds: String = run
                .read("out.packets")
                .lines()
                .map(|line| u8::from_str_radix(&line[..2], 16).unwrap().to_string())
                .collect();
            assert_eq!(kinds, expected, "{scheduler}, frames of {limit}");
        }
    }
}

//! Schedulers in front of queues that sources fill as fast as they are emptied.

use crate::testing::Run;

/// Returns the input of each of the first thousand packets, of three: one whose queue is small, one
/// that ends after 150 packets, and a third.
fn order(scheduler: &str, frame_limit: usize) -> String {
    let mut run = Run::new(&format!(
        "InfiniteSource(\\<0a 00 00>) -> Queue(8) -> Counter -> [0] s :: {scheduler}; \
            InfiniteSource(\\<0b 00>, LIMIT 150) -> Queue(100) -> [1] s; \
            InfiniteSource(\\<0c 00 00 00>) -> Queue -> [2] s; \
            s -> Counter(COUNT_CALL 1200 stop) -> Unqueue -> out :: Collect"
    ))
    .frame_limit(frame_limit);
    run.run();
    run.read("out.packets").lines().take(1000).map(|line| &line[1..2]).collect()
}

/// Click's answers: how the order begins, and a sum of its letters.
#[test]
fn bursts_are_in_the_order_of_click() {
    for (scheduler, start, sum) in [
        ("StrideSched(10, 20, 70)", "cccbccccbacccbccccbacccbccccba", 1_291_147_276),
        ("StrideSched(3, 5, 7)", "cbcabccbacbccbacbcabccbacbccba", 2_409_831_986),
        ("RoundRobinSched", "abcabcabcabcabcabcabcabcabcabc", 528_428_870),
        ("SimpleRoundRobinSched", "abcabcabcabcabcabcabcabcabcabc", 528_428_870),
        ("SimplePrioSched", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 904_019_584),
        ("PrioSched", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 904_019_584),
        ("DRRSched(50)", "bbbbbbbbbbbbbbbbbbbbbbbbbccccccccccccaaaaaaaaaaaaa", 319_462_110),
        ("DRRSched(500)", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", 950_570_402),
    ] {
        for frame_limit in [1, 7, 32, 256] {
            let order = order(scheduler, frame_limit);
            assert_eq!(order[..start.len()], *start, "{scheduler} by {frame_limit}");
            let add = |sum: u32, letter| sum.wrapping_mul(31).wrapping_add(u32::from(letter));
            assert_eq!(order.bytes().fold(0, add), sum, "{scheduler} by {frame_limit}: {order}");
        }
    }
}

/// A task whose configuration sets the packets of a turn takes them with no source in between:
/// inputs that have run empty miss their turns, packet by packet and in frames.
#[test]
fn a_turn_goes_on_with_the_inputs_that_have_packets() {
    for scheduler in ["StrideSched(1, 2, 7)", "RoundRobinSched", "PrioSched"] {
        for task in ["TimedUnqueue(0.1s, 20)", "Unqueue(BURST 20)", "Unqueue2(20, QUIET true)"] {
            let times = |frame_limit| {
                let mut run = Run::new(&format!(
                    "RatedSource(\\<0a>, RATE 60, LIMIT 40) -> Queue -> [0] s :: {scheduler}; \
                        RatedSource(\\<0b>, RATE 90, LIMIT 70) -> Queue -> [1] s; \
                        InfiniteSource(\\<0c>, LIMIT 90, BURST 30) -> Queue(50) -> [2] s; \
                        s -> {task} -> c :: Collect; Script(wait 3s, stop)"
                ))
                .frame_limit(frame_limit);
                run.run();
                ["c.packets", "c.times"].map(|handler| run.read(handler))
            };
            let single = times(1);
            assert!(single[0].lines().count() > 150, "{scheduler} {task}: {}", single[0]);
            for frame_limit in [7, 32, 256] {
                assert_eq!(times(frame_limit), single, "{scheduler} {task} by {frame_limit}");
            }
        }
    }
}

/// One that sends packets to where it takes them finds them there in the same turn.
#[test]
fn a_turn_takes_the_packets_that_it_has_sent_itself() {
    for scheduler in ["StrideSched(1, 3)", "RoundRobinSched", "PrioSched"] {
        let packets = |frame_limit| {
            let mut run = Run::new(&format!(
                "InfiniteSource(\\<0a>, LIMIT 3, BURST 3) -> q :: Queue(20) -> [0] s :: {scheduler}; \
                    InfiniteSource(\\<0b>, LIMIT 9, BURST 9) -> Queue(20) -> [1] s; \
                    s -> Unqueue(BURST 8, LIMIT 60) -> t :: Tee -> c :: Collect; t [1] -> q; Script(wait 1s, stop)"
            ))
            .frame_limit(frame_limit);
            run.run();
            run.read("c.packets")
        };
        let single = packets(1);
        assert_eq!(single.lines().count(), 60, "{scheduler}: {single}");
        for frame_limit in [7, 32, 256] {
            assert_eq!(packets(frame_limit), single, "{scheduler} by {frame_limit}");
        }
    }
}

/// A turn whose packets are there is one frame of each scheduler.
#[test]
fn a_turn_is_pulled_at_once() {
    for scheduler in ["StrideSched(10, 20, 70)", "RoundRobinSched"] {
        let mut run = Run::new(&format!(
            "InfiniteSource(LIMIT 240, BURST 24) -> r :: RoundRobinSwitch -> Queue(8) \
                -> [0] s :: {scheduler} -> d :: Discard(BURST 24); \
                r [1] -> Queue(8) -> [1] s; r [2] -> Queue(8) -> [2] s; Script(wait 1s, stop)"
        ));
        run.run();
        assert_eq!(run.read("d.count"), "240");
        let usage = run.read("s.cycles");
        let frames = usage.lines().find_map(|line| line.strip_prefix("frames ")).unwrap();
        // Behind each turn with packets there may be one without.
        assert!(frames.parse::<u32>().unwrap() <= 22, "{scheduler}: {usage}");
    }
}

/// A delay holds one packet, and a queue in front of it drops packets when full: Click's counts.
#[test]
fn a_delay_takes_no_more_out_of_a_queue_than_it_holds() {
    for delay in ["DelayUnqueue(0.1s)", "DelayShaper(0.1s) -> Unqueue"] {
        for frame_limit in [1, 7, 32, 256] {
            let mut run = Run::new(&format!(
                "RatedSource(RATE 30000, DATASIZE 64) -> q :: Queue -> {delay} -> c :: Counter \
                    -> Discard; Script(wait 0.3605s, print c.count, wait 1.2s, print c.count, stop)"
            ))
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.output().trim_start_matches("q :: Queue: overflow\n"), "3003\n15015\n");
        }
    }
}

/// Due packets go before a source fills the room they leave: Click's counts.
#[test]
fn all_that_is_due_goes_at_once() {
    for frame_limit in [1, 7, 32, 256] {
        let mut run = Run::new(
            "RatedSource(RATE 1000, LIMIT 500) -> q :: Queue(10) -> DelayUnqueue(0.02) \
                -> c :: Counter -> Discard; Script(wait 2s, stop)",
        )
        .frame_limit(frame_limit);
        run.run();
        let counts = ["c.count", "q.drops"].map(|handler| run.read(handler));
        assert_eq!(counts, ["275", "225"], "{frame_limit}");
    }
}

/// Counts of packets one at a time, which are Click's: a source's own bursts, fragments, copies, a
/// queue that drops at the front, and one whose length is looked at.
#[test]
fn small_queues_drop_as_with_single_packets() {
    let counted = "-> u :: Unqueue -> c :: Counter -> Discard";
    let stops = "Script(TYPE DRIVER, wait_stop, wait 0.05s);";
    for (text, count, drops) in [
        (
            format!("InfiniteSource(LIMIT 100, BURST 10, STOP true) -> q :: Queue(5) {counted};"),
            14,
            86,
        ),
        (
            format!(
                "InfiniteSource(LIMIT 200, LENGTH 400, STOP true)
                    -> UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) -> f :: IPFragmenter(100)
                    -> q :: Queue(12) {counted}; f [1] -> Discard;"
            ),
            211,
            989,
        ),
        (
            format!("InfiniteSource(LIMIT 800, STOP true) -> q :: FrontDropQueue(30) {counted};"),
            800,
            0,
        ),
        (
            format!(
                "InfiniteSource(LIMIT 800, STOP true) -> q :: MixedQueue(30) {counted}; Idle -> [1] q;"
            ),
            800,
            0,
        ),
        (
            format!(
                "InfiniteSource(LIMIT 800, STOP true) -> RED(5, 10, 0.02) -> q :: Queue(20) {counted};"
            ),
            800,
            0,
        ),
        (
            format!(
                "InfiniteSource(LIMIT 800, STOP true) -> q :: Queue(20) -> RED(5, 10, 0.02) {counted};"
            ),
            800,
            0,
        ),
        // Click counts 104: its tasks begin in another order.
        (
            format!(
                "InfiniteSource(LIMIT 100, STOP false) -> q :: FrontDropQueue(5) {counted};
                InfiniteSource(LIMIT 100, STOP true) -> q;"
            ),
            105,
            95,
        ),
        (
            format!(
                "InfiniteSource(LIMIT 100, STOP true) -> t :: Tee -> q :: Queue(5) {counted}; t [1] -> q;"
            ),
            104,
            96,
        ),
    ] {
        for frame_limit in [1, 7, 32, 256, 2048] {
            let mut run = Run::new(&format!("{text} {stops}")).frame_limit(frame_limit);
            run.run();
            let counts = ["c.count", "q.drops"].map(|handler| run.read(handler));
            assert_eq!(counts, [count.to_string(), drops.to_string()], "{frame_limit}: {text}");
        }
    }
}

/// Where bytes are rationed, packets that may not go yet stay in their queue, also when they are
/// longer than all before them.
#[test]
fn longer_packets_stay_in_their_queue() {
    let timed = "TimedUnqueue(500ms, 5)";
    for (rationed, left) in [
        (format!("[0] d :: DRRSched(2000) -> {timed}"), "7"),
        (format!("BandwidthShaper(3kBps) -> {timed}"), "6"),
        ("BandwidthRatedUnqueue(100kBps, BURST_BYTES 3000)".into(), "7"),
        ("LinkUnqueue(2s, 100kBps)".into(), "9"),
    ] {
        let beside = "InfiniteSource(LENGTH 1400, LIMIT 50) -> Queue -> [1] d;";
        let beside = if rationed.contains("DRR") { beside } else { "" };
        for frame_limit in [1, 2, 7, 32, 256] {
            let mut run = Run::new(&format!(
                "InfiniteSource(LENGTH 60, LIMIT 3) -> q :: Queue -> {rationed} -> Discard; {beside}
                    long :: InfiniteSource(LENGTH 1400, LIMIT 10, ACTIVE false) -> q;
                    Script(wait 1.499s, write long.active true, wait 3ms, print q.length, stop)"
            ))
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.output().trim_end(), left, "{rationed} by {frame_limit}");
        }
    }
}

/// A packet that is dropped between its queue and a scheduler was its input's turn: the next is that
/// of another input.
#[test]
fn a_dropped_packet_is_a_turn_of_its_input() {
    for (scheduler, start) in [
        ("RoundRobinSched", "abbabbabb"),
        ("StrideSched(1, 2)", "bbabbbbabbbbabb"),
        ("PrioSched", "ababab"),
        ("DRRSched(100)", "bbbbbbbbabbbbbbbbabbbbaa"),
        ("TimeSortedSched", "babbabbab"),
    ] {
        let drawn = "InfiniteSource(\\<0a>, LENGTH 12, LIMIT 20) -> RandomSample(0.5)";
        for first in ["q -> DropBroadcasts", "q -> Null -> CheckLength(12)", drawn] {
            let idle = if first == drawn { "q -> Idle;" } else { "" };
            for task in ["Unqueue(ACTIVE false)", "Unqueue(BURST 3, ACTIVE false)"] {
                let order = |frame_limit| {
                    let mut run = Run::new(&format!(
                        "InfiniteSource(\\<0a>, LENGTH 12, LIMIT 20) -> n :: RoundRobinSwitch;
                            n [0] -> q :: Queue; {idle} {first} -> [0] s :: {scheduler};
                            n [1] -> SetPacketType(BROADCAST) -> EtherEncap(1, 2:2:2:2:2:2, 3:3:3:3:3:3)
                            -> q; InfiniteSource(\\<0b>, LENGTH 12, LIMIT 20) -> Queue -> [1] s;
                            s -> u :: {task} -> out :: Collect;
                            Script(wait 1s, write u.active true, wait 1s, stop)"
                    ))
                    .frame_limit(frame_limit);
                    run.run();
                    let packets = run.read("out.packets");
                    packets.lines().map(|line| line[1..2].to_owned()).collect::<String>()
                };
                let single = order(1);
                if first != drawn {
                    assert_eq!((&single[..start.len()], single.len()), (start, 30), "{scheduler}");
                }
                for frame_limit in [2, 7, 256] {
                    assert_eq!(order(frame_limit), single, "{scheduler} by {frame_limit}: {first}");
                }
            }
        }
    }
}

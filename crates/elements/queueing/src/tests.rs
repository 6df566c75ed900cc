//! Schedulers in front of queues that sources fill as fast as they are emptied.

use linerate_elements_testing::Run;

/// Which of three inputs each of the first thousand packets is from: one whose queue
/// is small, one that ends after 150 packets, and a third.
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

/// A delay holds one packet, and a queue in front of it drops what does not fit: Click's counts.
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

/// What is due goes before a source fills the room it leaves: Click's counts.
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

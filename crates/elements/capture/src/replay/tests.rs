//! Packets sent by `ReplayUnqueue` and `Replay`, and their times.

use crate::testing::Run;

const THREE: &str = "FromIPSummaryDump(STOP false, FIELDS timestamp ip_len,
    DATA \"1 30\\n1.5 31\\n3 32\\n\")";

fn run(text: &str, frame_limit: usize) -> Run {
    let mut run = Run::new(text).frame_limit(frame_limit);
    run.run();
    run
}

#[test]
fn packets_are_sent_as_often_as_asked() {
    for frame_limit in [1, 7, 256] {
        for (config, times) in [("STOP 1", 1), ("STOP 4, BURST 2", 4), ("STOP 3, LIMIT 99", 3)] {
            let text = format!("{THREE} -> r :: ReplayUnqueue({config}) -> c :: Collect");
            let mut run = run(&text, frame_limit);
            assert_eq!(run.read("c.lengths"), ["30\n31\n32"; 4][..times].join("\n"), "{config}");
            assert_eq!(
                run.output(),
                "Loading r with 1 inputs.\nr : Successfully loaded 3 packets. Input 0 dried out.\n"
            );
        }
    }
}

#[test]
fn the_pace_is_that_of_the_timestamps() {
    for (pace, times) in [
        (100, "0 500 2000 2000 2500 4000"),
        (200, "0 250 1000 1000 1250 2000"),
        (50, "0 1000 4000 4000 5000 8000"),
    ] {
        for frame_limit in [1, 7, 256] {
            let text = format!("{THREE} -> ReplayUnqueue(STOP 2, TIMING {pace}) -> c :: Collect");
            let mut run = run(&text, frame_limit);
            let millis = |time: &str| (time.parse::<u64>().unwrap() / 1_000_000).to_string();
            let came: Vec<String> = run.read("c.times").lines().map(millis).collect();
            assert_eq!(came.join(" "), times, "{pace}");
        }
    }
}

#[test]
fn inputs_are_merged_by_time_until_one_is_empty() {
    for frame_limit in [1, 7, 256] {
        let text = format!(
            "{THREE} -> r :: ReplayUnqueue(STOP 2) -> c :: Collect;
             FromIPSummaryDump(STOP false, FIELDS timestamp ip_len,
                DATA \"1.2 38\\n1.7 39\\n\") -> [1] r [1] -> Discard;"
        );
        let mut run = run(&text, frame_limit);
        assert_eq!(run.read("c.lengths"), ["30\n38\n31\n39"; 2].join("\n"));
        assert_eq!(run.read("r.drops"), "0\tno buffer\n1\tleft over at another input\n");
    }
}

/// More than the arena holds, and a queue behind that is full at times.
#[test]
fn packets_wait_for_room() {
    for frame_limit in [1, 7, 256] {
        let mut run = run(
            "InfiniteSource(LENGTH 60, LIMIT 500) -> Queue(1000) -> s :: Suppressor
                -> r :: ReplayUnqueue(STOP 40, ACTIVE false) -> q :: Queue(10) -> Unqueue
                -> c :: Counter -> Discard;
             Script(wait 0.1s, write r.active true)",
            frame_limit,
        );
        let number = |text: String| text.parse::<u64>().unwrap();
        let there = number(run.read("c.count")) + number(run.read("q.length"));
        assert_eq!((there, run.read("q.drops")), (20000, "0".into()));
    }
}

/// The end of the queue is noticed, with frames of any size.
#[test]
fn a_queue_is_read_until_it_is_empty() {
    let sent = |source: &str, frame_limit| {
        let replay = "Queue(9) -> ReplayUnqueue(STOP 3) -> c :: Counter -> Discard;";
        let text = format!("{source} -> {replay}");
        run(&text, frame_limit).read("c.count")
    };
    for source in [
        "RatedSource(RATE 1000, LIMIT 10)",
        "InfiniteSource(LIMIT 10)",
        "InfiniteSource(LIMIT 10, BURST 4)",
        "InfiniteSource(LIMIT 20) -> FrontDropQueue(2) -> Unqueue(BURST 3)",
    ] {
        let single = sent(source, 1);
        for frame_limit in [2, 7, 256] {
            assert_eq!(sent(source, frame_limit), single, "{source}, frames of {frame_limit}");
        }
    }
}

#[test]
fn rounds_are_told_of_and_end_in_time() {
    let mut told =
        run(&format!("{THREE} -> r :: ReplayUnqueue(STOP 2, VERBOSE true) -> Discard"), 256);
    assert!(told.output().ends_with(
        "r :: ReplayUnqueue: Replay loop (2 loops left)\n\
         r :: ReplayUnqueue: Replay loop (1 loops left)\n\
         r :: ReplayUnqueue: stopped because there is 0 loops left\n"
    ));
    assert_eq!((told.read("r.stop"), told.read("r.active")), ("0".into(), "false".into()));
    let mut run = run(
        &format!("{THREE} -> r :: ReplayUnqueue(STOP_TIME 5, TIMING 100) -> c :: Collect"),
        256,
    );
    assert_eq!(run.read("c.lengths").lines().count(), 9);
}

#[test]
fn packets_are_pulled_as_often_as_asked() {
    for frame_limit in [1, 7, 256] {
        for (config, times) in [("STOP 1", 1), ("STOP 4, BURST 2", 4), ("STOP 3, QUEUE 1", 3)] {
            let text = format!("{THREE} -> r :: Replay({config}) -> Unqueue -> c :: Collect");
            let mut run = run(&text, frame_limit);
            assert_eq!(run.read("c.lengths"), ["30\n31\n32"; 4][..times].join("\n"), "{config}");
            assert_eq!((run.read("r.stop"), run.read("r.active")), ("0".into(), "false".into()));
            assert_eq!(
                run.output(),
                "Loading r with 1 inputs.\nr : Successfully loaded 3 packets. Input 0 dried out.\n"
            );
        }
    }
}

/// Each packet leaves once, by the output that is pulled.
#[test]
fn any_output_can_be_pulled() {
    for frame_limit in [1, 7, 256] {
        let text = format!(
            "{THREE} -> r :: Replay(STOP 2) -> c :: Counter -> s :: RoundRobinSched -> Unqueue
                -> o :: Collect; FromIPSummaryDump(STOP false, FIELDS timestamp ip_len,
                    DATA \"1.2 38\\n1.7 39\\n\") -> [1] r [1] -> d :: Counter -> [1] s;"
        );
        let mut run = run(&text, frame_limit);
        assert_eq!(run.read("o.lengths"), ["30\n38\n31\n39"; 2].join("\n"));
        assert_eq!((run.read("c.count"), run.read("d.count")), ("4".into(), "4".into()));
    }
}

/// The notices of a round come behind its packets.
#[test]
fn pulled_rounds_are_told_of() {
    for frame_limit in [1, 7, 256] {
        let text = format!(
            "{THREE} -> r :: Replay(STOP 2, VERBOSE true, LIMIT 1) -> Unqueue -> Print(p, 0)
                -> Discard"
        );
        let output = run(&text, frame_limit).output();
        let lines: Vec<&str> = output.lines().skip(2).collect();
        let [first, one, second, two, last] = lines[..] else { panic!("{output}") };
        assert!(first.starts_with("p:") && second.starts_with("p:"), "{output}");
        assert_eq!(one, "r :: Replay: Replay loop (2 loops left)");
        assert_eq!(two, "r :: Replay: Replay loop (1 loops left)");
        assert_eq!(last, "r :: Replay: stopped because there is 0 loops left");
    }
}

#[test]
fn stored_packets_are_bounded() {
    for class in ["ReplayUnqueue(STOP 2, CAPACITY 100)", "Replay(STOP 2, CAPACITY 100) -> Unqueue"]
    {
        let mut run = run(&format!("{THREE} -> {class} -> c :: Collect"), 256);
        assert_eq!(run.read("c.lengths"), "30\n30", "{class}");
        assert!(run.output().contains("loaded 1 packets. Input -1 dried out"), "{}", run.output());
    }
}

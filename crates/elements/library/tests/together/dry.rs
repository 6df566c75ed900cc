//! Copies where no buffer is free: those that cannot be made are drops with a reason, and nothing
//! else is lost, for any frame limit.
//!
//! Sharing a packet takes no buffer; writing to a shared packet takes one. So drops are counted at
//! the element that writes, and of each packet one copy is left.

use super::Run;

const PACKETS: u64 = 300;
const LIMITS: [usize; 4] = [1, 7, 32, 256];

/// Packets wait until all buffers but `free` are taken, and then come to `in`.
fn dry(data: &str, free: usize, text: &str, frame_limit: usize) -> Run {
    let mut run = Run::new(&format!(
        "InfiniteSource({data}, LIMIT {PACKETS}) -> made :: Queue({PACKETS})
            -> go :: Unqueue(ACTIVE false) -> NumberPacket(40) -> in :: Null;
         spare :: InfiniteSource(LIMIT {free}) -> kept :: Queue({free})
            -> let_go :: Unqueue(ACTIVE false) -> Discard;
         hoard :: InfiniteSource -> Queue(100000) -> Idle;
         Script(wait 1s, write hoard.active false, write let_go.active true, wait 1s,
            write go.active true, wait 1s, stop);
         {text}"
    ))
    .frame_limit(frame_limit);
    run.run();
    assert_eq!(run.read("made.length"), "0");
    assert_eq!(run.read("made.drops"), "0");
    run
}

/// Returns the count of a handler. Of drops, those for want of a buffer; there must be no others.
fn count(run: &mut Run, handler: &str) -> u64 {
    let text = run.read(handler);
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    if !handler.ends_with(".drops") {
        return number(&text);
    }
    let lines = text.lines().map(|line| line.split_once('\t').unwrap());
    lines.fold(0, |sum, (count, reason)| {
        assert!(reason == "no buffer" || count == "0", "{handler}: {text}");
        sum + number(count)
    })
}

/// A broadcast from a station; an IP header behind the addresses.
const DATA: &str =
    r"\<ffffffffffff 020000000001 0800 4500004a00000000401164950a0000010a0000020000>, LENGTH 88";

/// Packets of each output of `copies` are written to, and arrive or are dropped.
fn check(copies: &str, outputs: usize, each: u64) {
    let mut text = format!("in -> {copies};");
    for output in 0..outputs {
        text += &format!(
            "copies [{output}] -> w{output} :: StoreData(50, \\<ff>) -> c{output} :: Counter
                -> Discard;"
        );
    }
    for (frame_limit, free) in LIMITS.into_iter().flat_map(|limit| [(limit, 1), (limit, 100)]) {
        let mut run = dry(DATA, free, &text, frame_limit);
        let mut sum = |kind: char, handler: &str| {
            let names = (0..outputs).map(|output| format!("{kind}{output}.{handler}"));
            names.map(|name| count(&mut run, &name)).sum::<u64>()
        };
        let (arrived, mut dropped) = (sum('c', "count"), sum('w', "drops"));
        if copies.contains("IPOutputCombo") {
            dropped += count(&mut run, "copies.drops");
        }
        let said = format!("{copies}, frames of {frame_limit}, {free} free: {dropped} dropped");
        assert_eq!(arrived + dropped, each * PACKETS, "{said}");
        assert!(arrived >= PACKETS, "{said}");
        // Frames keep more at a time than there are buffers.
        assert!(dropped > 0 || frame_limit <= free, "{said}");
    }
}

#[test]
fn copies_by_outputs_of_their_own() {
    check("copies :: Tee", 3, 3);
    check("Paint(1) -> copies :: PaintTee(1)", 2, 2);
    check("Paint(255) -> copies :: PaintSwitch", 3, 3);
    check("copies :: Hub; Idle -> [1] copies; Idle -> [2] copies", 3, 2);
    check("copies :: EtherSwitch; Idle -> [1] copies; Idle -> [2] copies", 3, 2);
    check("copies :: ListenEtherSwitch; Idle -> [1] copies", 3, 2);
    let combo =
        "Strip(14) -> MarkIPHeader -> Paint(1) -> copies :: IPOutputCombo(1, 2.0.0.1, 1500)";
    check(&format!("{combo}; copies [2-4] => Discard, Discard, Discard"), 2, 2);
}

/// A copy that goes back to where its packet is shares its buffer where there is none for it.
#[test]
fn copies_that_meet_their_packets() {
    for copies in ["copies :: PaintTee(1)", "copies :: Tee"] {
        for (frame_limit, free) in LIMITS.into_iter().flat_map(|limit| [(limit, 1), (limit, 100)]) {
            let mut run = dry(
                DATA,
                free,
                &format!(
                    "in -> Paint(1) -> {copies}; meet :: Null -> all :: Counter -> out :: Collect;
                     copies -> w0 :: StoreData(50, \\<00>) -> meet;
                     copies [1] -> w1 :: StoreData(50, \\<01>) -> meet;"
                ),
                frame_limit,
            );
            let said = format!("{copies}, frames of {frame_limit}, {free} free");
            let dropped = count(&mut run, "w0.drops") + count(&mut run, "w1.drops");
            assert_eq!(count(&mut run, "all.count") + dropped, 2 * PACKETS, "{said}");
            // Each way has its packets in their order, and of each packet something arrives.
            let packets = run.read("out.packets");
            let mut ways = [Vec::new(), Vec::new()];
            for line in packets.lines() {
                let byte = |at: usize| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap();
                let number = (0..4).map(|at| u64::from(byte(40 + at)) << (8 * at)).sum::<u64>();
                ways[usize::from(byte(50))].push(number);
            }
            for way in &ways {
                assert!(way.windows(2).all(|pair| pair[0] < pair[1]), "{said}: {way:?}");
            }
            let arrived = |number| ways.iter().any(|way| way.binary_search(&number).is_ok());
            assert!((0..PACKETS).all(arrived), "{said}: {ways:?}");
        }
    }
}

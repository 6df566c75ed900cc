//! Inline programs, which decide about packets.

use super::*;

/// Changes and answers for all that comes, until the server ends.
fn answer_all(mut consumer: Consumer, mut decide: impl FnMut(&[u8]) -> Verdict) {
    loop {
        match consumer.wait(None) {
            Ok(_) => {}
            Err(error) if error.is_end() => return,
            Err(error) => panic!("{error}"),
        }
        let received = consumer.receive().unwrap_or(0);
        for at in 0..received {
            consumer.packet_mut(at).into_iter().for_each(|packet| packet[0] = 0xff);
        }
        let _ = consumer.answer(&mut decide);
    }
}

fn wait_for(control: &Control, handler: &str, value: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let is = control.read(handler, "").unwrap();
        if is == value {
            return;
        }
        assert!(Instant::now() < until, "{handler} is {is} and not {value}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_program_decides_on_packets_and_flows() {
    // The last byte of the source's address, which is the flow's number.
    let decide = |packet: &[u8]| match packet[29] {
        0 => Verdict::Pass,
        1 => Verdict::Drop,
        2 => Verdict::PassFlow,
        _ => Verdict::DropFlow,
    };
    for (access, fail, changed, copied) in [
        ("read", "closed", 0, 0),
        ("read", "open", 0, 0),
        ("write", "closed", 3, 0),
        ("write", "open", 3, 6),
        ("isolated", "closed", 3, 6 + 3),
    ] {
        let sources: String = (0..4)
            .map(|number| {
                let data = flow(number);
                format!(
                    "s{number} :: InfiniteSource(DATA \\<{data}>, LIMIT 1, ACTIVE false) -> i; "
                )
            })
            .collect();
        let (mut run, address) = run(&format!(
            "i :: InlineConsumer(ids, LIMIT 5s, FAIL {fail}, ACCESS {access}) -> c :: Collect; \
             {sources} Script(TYPE PASSIVE, end);"
        ));
        let control = run.control();
        let program = thread::spawn(move || {
            let consumer = attach(&address, "ids");
            let connection = Connection::open(&address).unwrap();
            let program = thread::spawn(move || answer_all(consumer, decide));
            // Of two of the flows it is not asked the second time.
            for count in 1..=2 {
                for source in 0..4 {
                    control.write(&format!("s{source}.reset"), "").unwrap();
                    control.write(&format!("s{source}.active"), "true").unwrap();
                }
                wait_for(&control, "i.count", &(4 * count).to_string());
                wait_for(&control, "i.waiting", "0");
            }
            let line = connection.figures().unwrap().figures(0);
            control.stop();
            (program, line)
        });
        run.run();
        let (program, line) = program.join().unwrap();
        let how = format!("{access} {fail}");
        let numbers = ["passed", "denied", "unanswered", "unasked", "late", "flows"]
            .map(|handler| run.read(&format!("i.{handler}")));
        assert_eq!(numbers, ["4", "4", "0", "0", "0", "2"], "{how}");
        assert_eq!((line.packets, line.copied), (6, 42 * copied), "{how}");
        assert!(run.read("i.drops").starts_with("4\tthe program says so\n"), "{how}");
        let packets = run.read("c.packets");
        assert_eq!(packets.lines().count(), 4, "{how}");
        let is_changed = packets.lines().filter(|line| line.starts_with("ff")).count();
        assert_eq!(is_changed, changed, "{how}");
        drop(run);
        program.join().unwrap();
    }
}

/// Sends numbered packets through a program that `program` runs. Returns the numbers that came out.
fn numbered(
    arguments: &str,
    program: impl FnOnce(Control, Consumer) + Send + 'static,
) -> (Run, Vec<u64>) {
    let (mut run, address) = run(&format!(
        "s :: RatedSource(LENGTH 60, RATE 20000, LIMIT -1, ACTIVE false) -> NumberPacket(0) \
         -> i :: InlineConsumer(ids, {arguments}) -> c :: Collect; Script(TYPE PASSIVE, end);"
    ));
    let control = run.control();
    let program = thread::spawn(move || {
        let consumer = attach(&address, "ids");
        control.write("s.active", "true").unwrap();
        program(control.clone(), consumer);
        control.write("s.active", "false").unwrap();
        wait_for(&control, "i.waiting", "0");
        control.stop();
    });
    run.run();
    program.join().unwrap();
    let number = |line: &str| u64::from_str_radix(&line[..16], 16).unwrap().swap_bytes();
    let numbers: Vec<u64> = run.read("c.packets").lines().map(number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "twice, or out of order");
    (run, numbers)
}

/// Lets all pass for a while, after `delay` each time.
fn pass_all(consumer: &mut Consumer, time: Duration, delay: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if consumer.wait(Some(Duration::from_millis(1))).unwrap() {
            thread::sleep(delay);
            consumer.receive().unwrap();
            consumer.answer(|_| Verdict::Pass).unwrap();
        }
    }
}

/// Lets all pass until for a while none has gone another way.
fn back_to_normal(control: &Control, consumer: &mut Consumer) {
    let read = |handler: &str| control.read(handler, "").unwrap().parse::<u64>().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let (passed, others) = (read("i.passed"), read("i.unasked") + read("i.unanswered"));
        pass_all(consumer, Duration::from_millis(30), Duration::ZERO);
        if read("i.passed") > passed && read("i.unasked") + read("i.unanswered") == others {
            return;
        }
        assert!(Instant::now() < until, "it is not as before");
    }
}

/// Checks that each packet has left once where those without an answer pass, and is counted where
/// not.
fn all_are_told_of((mut run, numbers): (Run, Vec<u64>), open: bool) {
    let mut read = |handler: &str| run.read(&format!("i.{handler}")).parse::<u64>().unwrap();
    let (count, passed, denied) = (read("count"), read("passed"), read("denied"));
    let others = read("unanswered") + read("unasked");
    assert_eq!((passed + others, denied), (count, 0));
    assert!(others > 0 && passed > 0, "{passed} {others}");
    assert_eq!(numbers.len() as u64, if open { count } else { passed });
    let drops: u64 = run.read("i.drops").lines().map(number_of).sum();
    assert_eq!(drops, if open { 0 } else { others });
}

#[test]
fn a_program_that_is_silent_holds_nothing_up_for_longer_than_the_limit() {
    for access in ["read", "write", "isolated"] {
        for open in [true, false] {
            let fail = if open { "open" } else { "closed" };
            let arguments = format!("LIMIT 20ms, FAIL {fail}, ACCESS {access}, CELLS 64");
            let got = numbered(&arguments, |control, mut consumer| {
                for _ in 0..2 {
                    pass_all(&mut consumer, Duration::from_millis(30), Duration::ZERO);
                    // Packets it has taken and not answered, and packets on its ring.
                    consumer.wait(None).unwrap();
                    consumer.receive().unwrap();
                    // The scenario: silence beyond the limit.
                    thread::sleep(Duration::from_millis(80));
                    back_to_normal(&control, &mut consumer);
                }
                assert_ne!(control.read("i.late", "").unwrap(), "0");
            });
            all_are_told_of(got, open);
        }
    }
}

#[test]
fn a_program_that_goes_takes_no_packet_with_it_and_another_takes_its_place() {
    for open in [true, false] {
        let fail = if open { "open" } else { "closed" };
        let arguments = format!("LIMIT 5s, FAIL {fail}, ACCESS read");
        let got = numbered(&arguments, |control, mut consumer| {
            let address = control.read("ClusterSocket@1.address", "").unwrap();
            for _ in 0..3 {
                pass_all(&mut consumer, Duration::from_millis(20), Duration::ZERO);
                consumer.wait(None).unwrap();
                consumer.receive().unwrap();
                drop(consumer);
                // The scenario: time without a consumer.
                thread::sleep(Duration::from_millis(20));
                consumer = attach(&address, "ids");
                back_to_normal(&control, &mut consumer);
            }
        });
        all_are_told_of(got, open);
    }
}

#[test]
fn a_slow_program_decides_about_as_many_as_it_can() {
    for open in [true, false] {
        let fail = if open { "open" } else { "closed" };
        let arguments = format!("LIMIT 1s, FAIL {fail}, CELLS 16, QUEUE 32");
        let got = numbered(&arguments, |_, mut consumer| {
            pass_all(&mut consumer, Duration::from_millis(200), Duration::from_millis(2));
            pass_all(&mut consumer, Duration::from_millis(50), Duration::ZERO);
        });
        all_are_told_of(got, open);
    }
}

#[test]
fn waiting_packets_stay_when_the_configuration_is_replaced() {
    let got = numbered("LIMIT 200ms, FAIL open", |control, mut consumer| {
        consumer.wait(None).unwrap();
        control.write("i.config", "ids, LIMIT 100ms, FAIL open, FLOWS 0").unwrap();
        assert_eq!(control.read("i.late", "").unwrap(), "0");
        pass_all(&mut consumer, Duration::from_millis(50), Duration::ZERO);
        // The scenario: silence beyond the limit.
        thread::sleep(Duration::from_millis(150));
        back_to_normal(&control, &mut consumer);
    });
    all_are_told_of(got, true);
}

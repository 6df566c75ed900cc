//! Programs that attach to a graph, here and in threads beside it.

mod inline;

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::testing::Run;
use linerate_client::{Access, ClientError, Connection, Consumer, Reason, Verdict};
use linerate_graph::{Class, Context, Control, Element};

/// A name for a socket that no other test has.
fn address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("@linerate-elements-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn run(text: &str) -> (Run, String) {
    let address = address();
    let text = format!("ClusterSocket({address}); {text}");
    (Run::new(&text).with(super::CLASSES).real_time(), address)
}

/// Attaches once the graph is there.
fn attach(address: &str, name: &str) -> Consumer {
    for _ in 0..5000 {
        match Consumer::attach(address, name) {
            Ok(consumer) => return consumer,
            Err(ClientError::Connect { .. }) => thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nobody listens at {address}");
}

/// Packets until the server ends, each as its bytes.
fn all(mut consumer: Consumer) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    loop {
        match consumer.wait(None) {
            Ok(_) => {}
            Err(error) if error.is_end() => return packets,
            Err(error) => panic!("{error}"),
        }
        while consumer.receive().is_ok_and(|received| received > 0) {
            packets.extend(consumer.packets().map(<[u8]>::to_vec));
        }
    }
}

#[test]
fn a_program_gets_packets_and_those_before_it_are_counted() {
    let (mut run, address) = run(
        "s :: RatedSource(\\<01 02 03>, RATE 2000, LIMIT -1) -> c :: Counter -> t :: ToConsumer(one); \
         Idle -> ToConsumer(two)",
    );
    let control = run.control();
    let program = thread::spawn(move || {
        let consumer = attach(&address, "one");
        let stop = thread::spawn(move || {
            let until = Instant::now() + Duration::from_secs(60);
            while control.read("t.count", "").unwrap() == "0" && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            control.stop();
        });
        let packets = all(consumer);
        stop.join().unwrap();
        packets
    });
    run.run();
    let lines = run.read("t.consumers");
    let numbers: Vec<&str> = lines.split(' ').collect();
    let count: u64 = run.read("t.count").parse().unwrap();
    let dropped: u64 = run.read("c.count").parse::<u64>().unwrap() - count;
    assert_eq!(
        run.read("t.drops"),
        format!(
            "{dropped}\tno program attached\n0\tprograms did not keep up\n\
             0\tno filter lets it through\n"
        )
    );
    assert_eq!(
        (numbers[0], numbers[2], numbers[4]),
        ("one", &*count.to_string(), &*dropped.to_string())
    );
    drop(run);
    let packets = program.join().unwrap();
    assert!(count > 0 && packets.len() as u64 == count, "{} of {count}", packets.len());
    assert!(packets.iter().all(|packet| *packet == [1, 2, 3]));
}

#[test]
fn packets_wait_for_a_slow_program_when_they_are_to() {
    for way in [
        "t :: ToConsumer(slow, CELLS 32, WAIT true)",
        "Queue(10) -> t :: ToConsumer(slow, CELLS 32)",
    ] {
        let (mut run, address) =
            run(&format!("s :: InfiniteSource(LIMIT 3000, ACTIVE false) -> {way}"));
        let control = run.control();
        let program = thread::spawn(move || {
            let mut consumer = attach(&address, "slow");
            control.write("s.active", "true").unwrap();
            let mut count = 0;
            while count < 3000 && consumer.wait(Some(Duration::from_secs(10))).unwrap() {
                thread::sleep(Duration::from_micros(50));
                count += consumer.receive().unwrap();
            }
            control.stop();
            count
        });
        run.run();
        assert_eq!(program.join().unwrap(), 3000, "{way}");
        let none = "0\tno program attached\n0\tprograms did not keep up\n\
             0\tno filter lets it through\n";
        assert_eq!(run.read("t.drops"), none);
    }
}

/// UDP from a host to another, by the flow's number.
fn flow(number: u8) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, number, 10, 0, 1, 1]);
    packet.extend([0, number, 0, 53, 0, 8, 0, 0]);
    hex(&packet)
}

#[test]
fn flows_are_balanced_inside_of_each_application() {
    let flows: Vec<String> = (0..64).map(flow).collect();
    let (mut run, address) = run(&format!(
        "f :: ConsumerFanOut(ids0 ids1, recorder); \
         b :: ConsumerBalancer(x, y, WEIGHTS 1 3); \
         p :: Packets({}) -> Paint(1) -> t :: Tee -> f; t [1] -> b",
        flows.join(" ")
    ));
    // It is made when it is first asked.
    assert_eq!(run.read("b.weights"), "1 3");
    let programs: Vec<_> = ["ids0", "ids1", "recorder", "x", "y"]
        .map(|name| attach(&address, name))
        .into_iter()
        .map(|consumer| thread::spawn(move || all(consumer)))
        .collect();
    assert_eq!(run.read("b.shares"), "256 768");
    run.run();
    let figures = Connection::open(&address).unwrap().figures().unwrap();
    assert_eq!(figures.balancers().len(), 3);
    drop(run);
    let mut got: Vec<Vec<Vec<u8>>> =
        programs.into_iter().map(|program| program.join().unwrap()).collect();
    assert_eq!(got[2].len(), 64);
    assert!(got.iter().all(|packets| !packets.is_empty()));
    got[2].sort();
    for (one, other) in [(0, 1), (3, 4)] {
        let mut both = [got[one].clone(), got[other].clone()].concat();
        both.sort();
        assert_eq!(both, got[2]);
    }
}

#[test]
fn each_application_gets_the_packets_of_its_filter_and_shares_them() {
    let flows: Vec<String> = (0..64).map(flow).collect();
    let (mut run, address) = run(&format!(
        "f :: ConsumerFanOut(all, low0 low1 if src portrange 0-9, odd if udp[1] & 1 != 0 and not src portrange 0-20, \
           ISOLATED odd); \
         o :: ConsumerFanOut(five if src port 5); \
         t :: ToConsumer(one, FILTER \"src host 10.0.0.1\"); \
         p :: Packets({}) -> s :: Tee(3) -> f; s [1] -> o; s [2] -> t",
        flows.join(" ")
    ));
    let _ = run.control();
    let programs: Vec<_> = ["all", "low0", "low1", "odd", "five", "one"]
        .map(|name| attach(&address, name))
        .into_iter()
        .map(|consumer| thread::spawn(move || all(consumer)))
        .collect();
    run.run();
    let drops = |element: &str, run: &mut Run| {
        let text = run.read(&format!("{element}.drops"));
        text.lines().map(number_of).collect::<Vec<u64>>()
    };
    assert_eq!(drops("f", &mut run), [0, 0, 0]);
    assert_eq!((drops("o", &mut run), drops("t", &mut run)), (vec![0, 0, 63], vec![0, 0, 63]));
    drop(run);
    let flows_of =
        |packets: Vec<Vec<u8>>| -> Vec<u8> { packets.iter().map(|packet| packet[29]).collect() };
    let got: Vec<Vec<u8>> =
        programs.into_iter().map(|program| flows_of(program.join().unwrap())).collect();
    assert_eq!(got[0], (0..64).collect::<Vec<u8>>());
    let mut low = [got[1].clone(), got[2].clone()].concat();
    low.sort_unstable();
    assert_eq!(low, (0..10).collect::<Vec<u8>>());
    assert_eq!(got[3], (21..64).step_by(2).collect::<Vec<u8>>());
    assert_eq!((&got[4][..], &got[5][..]), (&[5][..], &[1][..]));
}

/// The flows that programs have got, each in order.
fn flows_got(programs: Vec<thread::JoinHandle<Vec<Vec<u8>>>>) -> Vec<Vec<u8>> {
    let flows_of = |packets: Vec<Vec<u8>>| {
        let mut flows: Vec<u8> = packets.iter().map(|packet| packet[29]).collect();
        flows.sort_unstable();
        flows
    };
    programs.into_iter().map(|program| flows_of(program.join().unwrap())).collect()
}

/// A flow goes to the program that gets it without filters, or to none.
#[test]
fn filters_of_a_balancers_programs_move_no_flow() {
    let flows: Vec<String> = (0..64).map(flow).collect();
    for limit in [1, 7, 256] {
        let (run, address) = run(&format!(
            "plain :: ConsumerBalancer(p0, p1, p2); \
             b :: ConsumerBalancer(q0, q1 if src portrange 0-31 where not src port 7, \
               q2 where src port < 20, FILTER \"udp[1] != 9\", WHERE src host != 10.0.0.8, ISOLATED q2); \
             f :: ConsumerFanOut(all, low0 low1 if udp where src port < 10, mute where src host 10.0.0.3); \
             p :: Packets({}) -> s :: Tee(3) -> plain; s [1] -> b; s [2] -> f",
            flows.join(" ")
        ));
        let mut run = run.frame_limit(limit);
        let _ = run.control();
        // No program attaches as `mute`.
        let programs: Vec<_> = ["p0", "p1", "p2", "q0", "q1", "q2", "all", "low0", "low1"]
            .map(|name| attach(&address, name))
            .into_iter()
            .map(|consumer| thread::spawn(move || all(consumer)))
            .collect();
        run.run();
        let drops = |element: &str, run: &mut Run| {
            let text = run.read(&format!("{element}.drops"));
            text.lines().map(number_of).collect::<Vec<u64>>()
        };
        let dropped = drops("b", &mut run);
        let mute = run.read("f.consumers").lines().last().map(str::to_owned);
        assert_eq!(mute.as_deref(), Some("mute - 0 0 1 0"), "what it does not want is not lost");
        assert_eq!(drops("f", &mut run), [0, 0, 0]);
        drop(run);
        let got = flows_got(programs);
        let kept = |of: &[u8], wants: fn(u8) -> bool| -> Vec<u8> {
            let wanted = of.iter().filter(|flow| !matches!(**flow, 8 | 9) && wants(**flow));
            wanted.copied().collect()
        };
        assert_eq!(got[3], kept(&got[0], |_| true));
        assert_eq!(got[4], kept(&got[1], |flow| flow < 32 && flow != 7));
        assert_eq!(got[5], kept(&got[2], |flow| flow < 20));
        let count: usize = got[3..6].iter().map(Vec::len).sum();
        assert_eq!(dropped, [0, 0, 64 - count as u64], "frames of {limit}");
        assert_eq!(got[6], (0..64).collect::<Vec<u8>>());
        let mut low = [got[7].clone(), got[8].clone()].concat();
        low.sort_unstable();
        assert_eq!(low, (0..10).collect::<Vec<u8>>());
    }
}

/// Packets that a slow program wants wait for it; those it does not want pass by.
#[test]
fn unwanted_packets_do_not_wait_for_a_slow_program() {
    let (mut run, address) = run(&format!(
        "s :: InfiniteSource(DATA \\<{}>, LIMIT 2000, ACTIVE false) \
           -> t :: ConsumerFanOut(slow where false, fast, WAIT true, CELLS 32)",
        flow(1)
    ));
    let control = run.control();
    let (slow, fast) = (attach(&address, "slow"), attach(&address, "fast"));
    let program = thread::spawn(move || {
        let mut fast = fast;
        control.write("s.active", "true").unwrap();
        let mut count = 0;
        while count < 2000 && fast.wait(Some(Duration::from_secs(10))).unwrap() {
            count += fast.receive().unwrap();
        }
        control.stop();
        count
    });
    run.run();
    assert_eq!(program.join().unwrap(), 2000);
    assert_eq!(run.read("t.count"), "2000");
    drop(slow);
}

#[test]
fn filters_are_changed_while_packets_flow() {
    let (mut run, address) =
        run("RatedSource(\\<01 02 03>, RATE 5000, LIMIT -1) -> b :: ConsumerBalancer(one)");
    let control = run.control();
    let program = thread::spawn(move || {
        let mut one = attach(&address, "one");
        let mut grows = |handler: &str, number: fn(&str) -> u64| {
            let read = || number(&control.read(handler, "").unwrap());
            let (before, until) = (read(), Instant::now() + Duration::from_secs(10));
            while read() < before + 10 {
                assert!(Instant::now() < until, "{handler} stays at {before}");
                one.receive().unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        };
        let count = |text: &str| text.parse().unwrap();
        let unwanted = |text: &str| number_of(text.lines().last().unwrap());
        grows("b.count", count);
        control.write("b.config", "one where false").unwrap();
        grows("b.drops", unwanted);
        assert!(control.write("b.config", "one where fals").is_err());
        grows("b.drops", unwanted);
        control.write("b.config", "one if len = 3").unwrap();
        grows("b.count", count);
        assert_eq!(one.figures().attached, 1, "it has stayed");
        control.stop();
    });
    run.run();
    program.join().unwrap();
}

/// Also where the first of its applications would have been there.
#[test]
fn a_configuration_that_is_refused_changes_nothing() {
    let (mut run, address) =
        run("RatedSource(\\<01 02 03>, RATE 5000, LIMIT -1) -> f :: ConsumerFanOut(one, other)");
    let control = run.control();
    let program = thread::spawn(move || {
        let mut one = attach(&address, "one");
        let mut gets_more = || {
            let (before, until) = (one.figures().packets, Instant::now() + Duration::from_secs(10));
            while one.figures().packets < before + 10 {
                assert!(Instant::now() < until, "it has {before} and gets no more");
                one.receive().unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        };
        gets_more();
        for refused in ["two, other other", "one if, other", "one, other where"] {
            assert!(control.write("f.config", refused).is_err(), "{refused}");
            gets_more();
        }
        control.stop();
    });
    run.run();
    program.join().unwrap();
}

/// Packets with the same calculated number stay together, also of different flows; those without it
/// go by their flows.
#[test]
fn packets_with_the_same_number_stay_together() {
    let flows: Vec<String> = (0..64).map(flow).collect();
    let other = format!("ffffffffffff0200000000010806{}", "00".repeat(28));
    let (mut run, address) = run(&format!(
        "b :: ConsumerBalancer(a, b, c, BY ip[15] & 7); \
         f :: ConsumerFanOut(x y, BY udp[0:2] >> 4, INNER true); \
         flows :: ConsumerBalancer(k, l, BY tcp[0:4]); same :: ConsumerBalancer(m, n); \
         p :: Packets({} {other}) -> s :: Tee(4) -> b; s [1] -> f; s [2] -> flows; s [3] -> same",
        flows.join(" ")
    ));
    let _ = run.control();
    let programs: Vec<_> = ["a", "b", "c", "x", "y", "k", "l", "m", "n"]
        .map(|name| attach(&address, name))
        .into_iter()
        .map(|consumer| thread::spawn(move || all(consumer)))
        .collect();
    run.run();
    drop(run);
    let got: Vec<Vec<Vec<u8>>> =
        programs.into_iter().map(|program| program.join().unwrap()).collect();
    let flows = |of: &[Vec<u8>]| -> Vec<u8> {
        of.iter().filter(|packet| packet[13] == 0).map(|packet| packet[29]).collect()
    };
    for (of, number) in
        [(&got[..3], (|flow| flow & 7) as fn(u8) -> u8), (&got[3..5], |flow| flow >> 4)]
    {
        assert_eq!(of.iter().map(Vec::len).sum::<usize>(), 65);
        let owners = |wanted: u8| {
            let has =
                |packets: &&Vec<Vec<u8>>| flows(packets).iter().any(|&flow| number(flow) == wanted);
            of.iter().filter(has).count()
        };
        assert!((0..4).all(|wanted| owners(wanted) == 1));
        assert!(of.iter().filter(|packets| !packets.is_empty()).count() > 1, "they are shared out");
    }
    // No packet is of TCP.
    assert_eq!(got[5..7], got[7..9]);
}

#[test]
fn a_program_sends_changed_packets_and_packets_of_its_own() {
    let (mut run, address) = run(
        "InfiniteSource(DATA \\<00 00>, LIMIT 5, ACTIVE false) -> ToConsumer(one, ACCESS write); \
         FromConsumer(one, SPARE 2) -> c :: Collect; FromConsumer(two) -> d :: Collect; \
         FromConsumer(three, ACCESS isolated) -> Discard",
    );
    let control = run.control();
    let program = thread::spawn(move || {
        let (mut one, mut two) = (attach(&address, "one"), attach(&address, "two"));
        assert_eq!(two.access(), Access::Write, "it only sends");
        assert_eq!(attach(&address, "three").access(), Access::Isolated);
        assert!(two.transmit(&[9, 9]).unwrap());
        control.write("InfiniteSource@2.active", "true").unwrap();
        let mut count = 0;
        while count < 5 {
            one.wait(None).unwrap();
            let received = one.receive().unwrap();
            for at in 0..received {
                one.packet_mut(at).unwrap()[1] = 7;
            }
            count += one.send(|packet| packet[1] == 7).unwrap();
        }
        for number in 0..6 {
            while !one.transmit(&[1, number]).unwrap() {
                thread::yield_now();
            }
        }
        while control.read("FromConsumer@4.count", "").unwrap() != "11"
            || control.read("FromConsumer@6.count", "").unwrap() != "1"
        {
            thread::yield_now();
        }
        control.stop();
    });
    run.run();
    program.join().unwrap();
    let own = "0100\n0101\n0102\n0103\n0104\n0105";
    assert_eq!(run.read("c.packets"), format!("{}{own}", "0007\n".repeat(5)));
    assert_eq!(run.read("d.packets"), "0909");
}

/// Returns the frames and the packets of an element.
fn frames(control: &Control, element: &str) -> (u64, u64) {
    let (plan, usage) = control.usage();
    let at = plan.elements.iter().position(|known| known.name == element).unwrap();
    let of = &usage[0].elements[at];
    (of.frames, of.packets)
}

/// With a given size of turns, a full queue further on does not cut a program's packets into single
/// ones.
#[test]
fn turns_are_as_long_as_was_said() {
    for (burst, frame_limit, expected) in [(8, 256, 5), (8, 4, 10), (40, 256, 1)] {
        let (run, address) = run(&format!(
            "FromConsumer(one, ACCESS isolated, BURST {burst}) -> c :: Counter -> q :: Queue(1) -> Idle"
        ));
        let mut run = run.frame_limit(frame_limit);
        let control = run.control();
        let mut program = attach(&address, "one");
        for number in 0..40 {
            assert!(program.transmit(&[1, number]).unwrap());
        }
        let counted = control.clone();
        let stop = thread::spawn(move || {
            while counted.read("c.count", "").is_ok_and(|count| count != "40") {
                thread::yield_now();
            }
            counted.stop();
        });
        run.run();
        stop.join().unwrap();
        assert_eq!(frames(&control, "c"), (expected, 40), "BURST {burst}, frames of {frame_limit}");
    }
    for (burst, expected) in [("", 2), (", BURST 5", 8), (", BURST 40", 1)] {
        let (mut run, _) = run(&format!(
            "i :: InfiniteSource(LIMIT 40, BURST 40) -> Queue(40) -> t :: ToConsumer(one{burst}); \
             Script(wait 20ms, stop)"
        ));
        let control = run.control();
        run.run();
        assert_eq!(frames(&control, "t"), (expected, 40), "{burst}");
    }
}

/// Takes its time to be initialized.
const SLOW: Class = Class { name: "Slow", make: |_| Box::new(Slow), ports: "0/0", ..Class::here() };

struct Slow;

impl Element for Slow {
    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }
}

#[test]
fn an_early_program_waits_for_all_elements_and_gets_their_least_grant() {
    let address = address();
    let text = format!(
        "ClusterSocket({address}); Slow; FromConsumer(one) -> Discard; Slow; \
         Idle -> t :: ToConsumer(one, ACCESS isolated); Script(TYPE PASSIVE, end)"
    );
    let program = thread::spawn(move || attach(&address, "one").access());
    let mut run = Run::new(&text).with(super::CLASSES).with(&[&SLOW]).real_time();
    run.read("t.count");
    assert_eq!(program.join().unwrap(), Access::Isolated);
}

#[test]
fn a_grant_follows_the_configuration() {
    let (mut run, address) =
        run("Idle -> t :: ToConsumer(one, ACCESS isolated); Script(TYPE PASSIVE, end)");
    assert_eq!(run.read("t.count"), "0");
    assert_eq!(attach(&address, "one").access(), Access::Isolated);
    run.write("t.config", "one, ACCESS write").unwrap();
    let mut one = loop {
        // Until the one before has gone.
        if let Ok(one) = Consumer::attach(&address, "one") {
            break one;
        }
    };
    assert_eq!(one.access(), Access::Write);
    run.write("t.config", "one, ACCESS read").unwrap();
    let ended = one.wait(None);
    assert!(matches!(ended, Err(ClientError::Ended(Reason::NotGranted))), "{ended:?}");
}

#[test]
fn consumers_stay_when_the_configuration_is_replaced_and_go_with_their_name() {
    let (mut run, address) =
        run("Idle -> b :: ConsumerBalancer(one, two, WEIGHTS 1 2); s :: Script(TYPE PASSIVE, end)");
    assert_eq!(run.read("b.weights"), "1 2");
    let mut one = attach(&address, "one");
    let mut two = attach(&address, "two");
    run.write("b.weights", "1 1").unwrap();
    assert_eq!(run.read("b.shares"), "512 512");
    // The new configuration equals the first one: written weights stay.
    run.write("b.config", "one, two, WEIGHTS 1 2").unwrap();
    assert_eq!(run.read("b.weights"), "1 1");
    assert!(!one.wait(Some(Duration::from_millis(50))).unwrap());
    run.write("b.config", "one, three, WEIGHTS 2 1").unwrap();
    assert!(matches!(two.wait(None), Err(ClientError::Ended(Reason::Gone))));
    assert!(!one.wait(Some(Duration::ZERO)).unwrap());
    assert_eq!((run.read("b.weights"), run.read("b.shares")), ("2 1".into(), "1024 0".into()));
    assert!(run.write("b.weights", "1").is_err() && run.write("b.weights", "1 x").is_err());
}

#[test]
fn wrong_arguments_are_named() {
    for (config, error) in [
        ("Idle -> ConsumerBalancer(a, WEIGHTS 1 2)", "WEIGHTS: 2 weights for 1 consumers"),
        ("Idle -> ConsumerBalancer()", "it needs the name of a program at least"),
        ("Idle -> ConsumerFanOut(a, BY luck)", "syntax error at 'luck'"),
        ("Idle -> ToConsumer(a, ACCESS all)", "ACCESS: `read`, `write` or `isolated`"),
        ("Idle -> ToConsumer(a, CELLS 0)", "CELLS: must be between 1 and 65536"),
        ("FromConsumer(a, ACCESS all) -> Discard", "ACCESS: `read`, `write` or `isolated`"),
        ("ClusterSocket(@x)", "another element says already where programs attach"),
        ("Idle -> ConsumerBalancer(a, a)", "`a` is there twice"),
        (
            "Idle -> ConsumerFanOut(a b, c, ISOLATED \"b d\")",
            "ISOLATED: `d` is not among its programs",
        ),
        ("Idle -> ConsumerFanOut(a if tcp prot 80)", "tcp prot 80: "),
        ("Idle -> ConsumerFanOut(a, if tcp)", "`if tcp`: an application has the name of a program"),
        ("Idle -> ConsumerFanOut(a if tcp where prot 80)", "prot 80: "),
        ("Idle -> ConsumerBalancer(a, b where tcp oder udp)", "tcp oder udp: "),
        ("Idle -> ToConsumer(a, WHERE prt 80)", "prt 80: "),
        ("Idle -> ConsumerBalancer(a, BY ip[0] = 1)", "syntax error at '='"),
        ("Idle -> ConsumerBalancer(a, BY 7)", "it is 7 for all packets"),
        ("Idle -> ToConsumer(a, FILTER \"and\")", "and: "),
        ("Idle -> InlineConsumer(a, FAIL ajar) -> Discard", "FAIL: `open` or `closed`"),
        ("Idle -> InlineConsumer(a, LIMIT 2h) -> Discard", "LIMIT: at most an hour"),
        ("Idle -> InlineConsumer(a, QUEUE 1) -> Discard", "QUEUE: must be between 2 and"),
        (
            "Idle -> InlineConsumer(a) -> Discard; FromConsumer(a) -> Discard",
            "`a` is asked about packets by an element: no other sends to it or receives from it",
        ),
        (
            "Idle -> ConsumerBalancer(\"a b\")",
            "`a b` is no name: 1 to 63 letters, digits, and -_./@",
        ),
    ] {
        let errors = run(config).0.refused();
        assert!(errors.contains(error), "{config}: {errors}");
    }
    let errors = Run::new("Idle -> ToConsumer(a)").with(super::CLASSES).refused();
    assert!(errors.contains("linerate cluster serve --socket"), "{errors}");
}

fn number_of(line: &str) -> u64 {
    line.split('\t').next().unwrap().parse().unwrap()
}

//! Programs that attach to a graph, here and in threads beside it.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use linerate_client::{Access, ClientError, Connection, Consumer, Reason};
use linerate_elements_testing::Run;

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
fn all_are_documented() {
    linerate_elements_testing::assert_documented(super::CLASSES);
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
            thread::sleep(Duration::from_millis(100));
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
        format!("{dropped}\tno program attached\n0\tprograms did not keep up\n")
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
        let none = "0\tno program attached\n0\tprograms did not keep up\n";
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
fn a_program_sends_back_what_it_has_changed_and_packets_of_its_own() {
    let (mut run, address) = run(
        "InfiniteSource(DATA \\<00 00>, LIMIT 5, ACTIVE false) -> ToConsumer(one, ACCESS write); \
         FromConsumer(one, SPARE 2) -> c :: Collect; FromConsumer(two) -> d :: Collect",
    );
    let control = run.control();
    let program = thread::spawn(move || {
        let (mut one, mut two) = (attach(&address, "one"), attach(&address, "two"));
        assert_eq!(two.access(), Access::Write, "it only sends");
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

#[test]
fn consumers_stay_when_the_configuration_is_replaced_and_go_with_their_name() {
    let (mut run, address) =
        run("Idle -> b :: ConsumerBalancer(one, two, WEIGHTS 1 2); s :: Script(TYPE PASSIVE, end)");
    assert_eq!(run.read("b.weights"), "1 2");
    let mut one = attach(&address, "one");
    let mut two = attach(&address, "two");
    run.write("b.weights", "1 1").unwrap();
    assert_eq!(run.read("b.shares"), "512 512");
    // What is written anew and what it was configured with are the same: weights stay.
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
        ("Idle -> ConsumerFanOut(a, BY luck)", "BY: `flow`, `addresses`, `vlan` or `turns`"),
        ("Idle -> ToConsumer(a, ACCESS all)", "ACCESS: `read` or `write`"),
        ("Idle -> ToConsumer(a, CELLS 0)", "CELLS: must be between 1 and 65536"),
        ("ClusterSocket(@x)", "another element says already where programs attach"),
        ("Idle -> ConsumerBalancer(a, a)", "`a` is there twice"),
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

//! Replacing a graph while packets flow through it: none is lost, none is out
//! of order, and a wrong configuration changes nothing.

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use common::{load_text, numbered_library};
use linerate_elements_testing::Scratch;
use linerate_graph::{BuildError, Control, Options, Router};
use linerate_memory::{Arena, ArenaOptions};

/// Configurations that a test changes between.
const VARIANTS: [&str; 4] = [
    "source :: Numbered -> q :: Queue(500) -> u :: Unqueue -> c :: Counter -> sink :: Check",
    "source :: Numbered -> Null -> q :: Queue(300) -> u :: Unqueue -> sink :: Check",
    "source :: Numbered -> before :: Counter -> q :: Queue(500) -> PullNull -> u :: Unqueue
        -> c :: Counter -> Null -> sink :: Check",
    "source :: Numbered -> Paint(3) -> q :: Queue(700) -> u :: Unqueue(BURST 7) -> sink :: Check",
];

/// Chains that form and dissolve: ways that part and meet again in front of a queue and behind
/// it, headers that are put on, looked at and taken off, flows that are rewritten. All ways lead
/// to the queue, so the source waits where it is full.
const CHAINS: [&str; 6] = [
    "source :: Numbered -> k :: Classifier(7/00, 7/01, -) -> Paint(1) -> q :: Queue(500)
        -> u :: Unqueue -> sink :: Check; k [1] -> Strip(2) -> Unstrip(2) -> q; k [2] -> Counter -> q",
    "source :: Numbered -> Paint(1) -> Strip(4) -> Counter -> Unstrip(4) -> q :: Queue(500)
        -> u :: Unqueue -> sink :: Check",
    "source :: Numbered -> q :: Queue(500) -> u :: Unqueue -> k :: Classifier(7/00, -) -> Null
        -> sink :: Check; k [1] -> Paint(2) -> CheckPaint(2) -> Null -> sink",
    "source :: Numbered -> UDPIPEncap(10.0.0.1, 5, 10.0.0.2, 6) -> CheckIPHeader
        -> r :: RadixIPLookup(10.0.0.0/8 0, 0/0 1) -> DecIPTTL -> Strip(28) -> q :: Queue(500)
        -> u :: Unqueue -> sink :: Check; r [1] -> Strip(28) -> q",
    "source :: Numbered -> UDPIPEncap(10.0.0.1, 5, 10.0.0.2, 6) -> k :: Classifier(35/00, -)
        -> CheckIPHeader -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535# - - 0 0) -> Strip(28)
        -> q :: Queue(500) -> u :: Unqueue -> sink :: Check; k [1] -> CheckIPHeader -> nat",
    "source :: Numbered -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
        -> k :: Classifier(12/0800 21/00, 12/0800, -) -> VLANEncap(7) -> VLANDecap -> Strip(14)
        -> q :: Queue(500) -> u :: Unqueue -> sink :: Check; k [1] -> Strip(14) -> q;
        k [2] -> Strip(14) -> q",
];

fn arena() -> Arena {
    ArenaOptions { size: 16 << 20, huge: false, ..Default::default() }.create().unwrap()
}

/// Likewise with the same queue, so that two workers change over one by one.
const SAME_QUEUE: [&str; 3] = [
    "Pin(u 1); source :: Numbered -> q :: Queue(400) -> u :: Unqueue -> sink :: Check",
    "Pin(u 1); source :: Numbered -> Null -> q :: Queue(400) -> u :: Unqueue -> c :: Counter
        -> sink :: Check",
    "Pin(u 1); source :: Numbered -> q :: Queue(400) -> PullNull -> u :: Unqueue(BURST 7)
        -> sink :: Check",
];

/// Elements go from worker to worker, and queues between workers grow, shrink
/// and end.
const MOVES: [&str; 8] = [
    "Pin(u 1); source :: Numbered -> q :: Queue(500) -> u :: Unqueue -> sink :: Check",
    "source :: Numbered -> q :: Queue(900) -> u :: Unqueue -> sink :: Check",
    "Pin(source 1); source :: Numbered -> q :: Queue(300) -> u :: Unqueue -> sink :: Check",
    "Pin(source 1); source :: Numbered -> q :: Queue(20) -> u :: Unqueue -> sink :: Check",
    "Pin(source 1, u 1); source :: Numbered -> q :: Queue(500) -> u :: Unqueue -> sink :: Check",
    "Pin(u 1); source :: Numbered -> q :: Queue(1500) -> u :: Unqueue -> sink :: Check",
    "Pin(u 1); source :: Numbered -> q :: Queue(1500) -> u :: Unqueue -> sink :: Check;
        Pin(more 2); more :: InfiniteSource(LIMIT 0) -> q",
    "Pin(u 2); source :: Numbered -> q :: Queue(100) -> u :: Unqueue -> sink :: Check;
        Pin(more 1); more :: InfiniteSource(LIMIT 0) -> q",
];

/// Elements that hold packets, with other arguments and other inputs; pulling elements take few at
/// a time, so that some are held.
const HOLDERS: [[&str; 2]; 9] = [
    [
        "TimeSortedSched -> Unqueue(BURST 3)",
        "TimeSortedSched(BUFFER 5) -> Unqueue(BURST 3); Idle -> [1] x",
    ],
    ["DRRSched -> Unqueue(BURST 3)", "DRRSched(2000) -> Unqueue(BURST 3); Idle -> [1] x"],
    ["DelayUnqueue(1us)", "DelayUnqueue(3us)"],
    ["DelayShaper(1us) -> Unqueue(BURST 3)", "DelayShaper(2us) -> Unqueue(BURST 3)"],
    ["LinkUnqueue(1us, 9Gbps)", "LinkUnqueue(2us, 8Gbps)"],
    [
        "BandwidthShaper(900MBps) -> Unqueue(BURST 3)",
        "BandwidthShaper(800MBps) -> Unqueue(BURST 3)",
    ],
    ["BandwidthRatedUnqueue(900MBps)", "BandwidthRatedUnqueue(800MBps)"],
    ["RatedUnqueue(9000000)", "RatedUnqueue(8000000)"],
    ["Shaper(9000000) -> Unqueue(BURST 3)", "Shaper(8000000) -> Unqueue(BURST 3)"],
];

/// The texts of [`VARIANTS`] behind a prefix.
fn variants(prefix: &str) -> Vec<String> {
    VARIANTS.iter().map(|text| format!("{prefix}{text}")).collect()
}

/// Ends the run when its thread has done its part, or has failed at it: the run
/// would go on for ever otherwise.
struct StopAtEnd(Control);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Replaces the graph `times` times while it runs, by each of `texts` in turn, and returns the
/// sink's count.
fn replace_under_load(workers: usize, texts: Vec<String>, times: usize) -> u64 {
    let arena = arena();
    let library = numbered_library();
    let text = move |at: usize| texts[at % texts.len()].clone();
    let plan = load_text(&text(0), &library).unwrap();
    let ports = linerate_port::Context::new(arena.clone());
    let options = Options { workers, ..Options::default() };
    let mut router = Router::new(plan, &library, ports, &options).unwrap();
    let control: Control = router.control();
    let changer = thread::spawn(move || {
        let control = StopAtEnd(control);
        let control = &control.0;
        for at in 1..=times {
            let before = seen(control);
            control.replace(load_text(&text(at), &library).unwrap()).unwrap();
            if at % 10 == 0 {
                let broken = load_text("source :: Numbered(1, 2) -> sink :: Check", &library);
                let error = control.replace(broken.unwrap()).unwrap_err();
                let BuildError::Configuration(found) = error else { panic!("{error}") };
                assert!(found.click().contains("too many arguments"), "{}", found.click());
            }
            // Packets flow between two changes.
            while seen(control) == before {
                thread::yield_now();
            }
        }
    });
    router.run();
    changer.join().unwrap();
    let read =
        |router: &mut Router, name: &str| router.read(name, "").unwrap().parse::<u64>().unwrap();
    assert_eq!(read(&mut router, "sink.wrong"), 0, "packets lost or out of order");
    let (made, seen) = (read(&mut router, "source.made"), read(&mut router, "sink.seen"));
    let held = arena.accounting().held as u64;
    assert_eq!(made, seen + held, "every packet is counted");
    router.close();
    drop(router);
    assert_eq!(arena.accounting().held, 0);
    seen
}

/// Returns the sink's count; 0 while its handler fails.
fn seen(control: &Control) -> u64 {
    control.read("sink.seen", "").map_or(0, |text| text.parse().unwrap())
}

#[test]
fn one_worker_loses_nothing_in_a_thousand_changes() {
    assert!(replace_under_load(1, variants(""), 1000) > 1000);
}

#[test]
fn two_workers_lose_nothing_in_a_thousand_changes() {
    assert!(replace_under_load(2, variants("Pin(u 1); "), 1000) > 1000);
}

#[test]
fn two_workers_that_do_not_wait_for_each_other_lose_nothing() {
    assert!(replace_under_load(2, SAME_QUEUE.map(String::from).to_vec(), 1000) > 1000);
}

#[test]
fn chains_that_form_and_dissolve_lose_nothing() {
    for (workers, prefix) in [(1, ""), (2, "Pin(u 1); ")] {
        let texts = CHAINS.map(|text| format!("{prefix}{text}"));
        assert!(replace_under_load(workers, texts.to_vec(), 500) > 500);
    }
}

#[test]
fn packets_are_not_lost_when_elements_move_between_workers() {
    assert!(replace_under_load(3, MOVES.map(String::from).to_vec(), 400) > 400);
}

#[test]
fn elements_hand_on_the_packets_they_hold() {
    for texts in HOLDERS {
        let texts = texts.map(|text| {
            let (holder, more) = text.split_once("; ").unwrap_or((text, ""));
            format!(
                "source :: Numbered -> q :: Queue(500) -> x :: {holder} -> sink :: Check; {more}"
            )
        });
        assert!(replace_under_load(1, texts.to_vec(), 200) > 200);
    }
}

/// A scheduler sends the packets it holds of an input that exists no more.
#[test]
fn packets_of_an_input_that_goes_are_not_lost() {
    for scheduler in ["DRRSched", "TimeSortedSched"] {
        let arena = arena();
        let library = numbered_library();
        let texts = ["[1] x; Idle", "Unqueue"].map(|to| {
            format!(
                "a :: InfiniteSource(LENGTH 300) -> q :: Queue(500) -> x :: {scheduler}
                    -> Unqueue(BURST 3) -> sink :: Counter -> Discard;
                 b :: InfiniteSource(LENGTH 1000) -> SetTimestamp -> r :: Queue(500) -> {to}
                    -> other :: Counter -> Discard"
            )
        });
        let plan = |at: usize| load_text(&texts[at % 2], &library).unwrap();
        let ports = linerate_port::Context::new(arena.clone());
        let mut router = Router::new(plan(0), &library, ports, &Options::default()).unwrap();
        let control = router.control();
        let plans: Vec<_> = (1..=101).map(plan).collect();
        let changer = thread::spawn(move || {
            let control = StopAtEnd(control);
            for plan in plans {
                control.0.replace(plan).unwrap();
                let count = || control.0.read("sink.count", "").unwrap();
                let before = count();
                while count() == before {
                    thread::yield_now();
                }
            }
        });
        router.run();
        changer.join().unwrap();
        let mut read = |name: &str| router.read(name, "").unwrap().parse::<u64>().unwrap();
        let (made, seen) =
            (read("a.count") + read("b.count"), read("sink.count") + read("other.count"));
        assert_eq!(made, seen + arena.accounting().held as u64, "{scheduler}");
        router.close();
        drop(router);
        assert_eq!(arena.accounting().held, 0);
    }
}

/// A switch whose ports come and go between others: hosts are at the port of their name, and those
/// of a removed port at none, nor at one that comes in its place. With the same limits the table is
/// taken as it is, with others learnt again.
#[test]
fn hosts_of_a_switch_stay_at_the_port_of_their_name() {
    let library = numbered_library();
    let text = |class: &str, ports: &str, more: &str| {
        let names: Vec<&str> = ports.split(' ').collect();
        let vlans =
            if class == "VLANSwitch" { "ACCESS 5, ".repeat(names.len()) } else { "".into() };
        let mut text = format!("s :: {class}({vlans}NAMES {ports}{more});");
        for (at, name) in names.iter().enumerate() {
            let number = &name[1..];
            text += &format!(
                "{name} :: InfiniteSource(DATA \\<ffffffffffff 02000000000{number} 0800>, LIMIT 1)
                    -> [{at}] s [{at}] -> Discard;"
            );
        }
        text
    };
    for (class, vlan) in [("EtherSwitch", ""), ("VLANSwitch", "5 ")] {
        for more in ["", ", CAPACITY 5", ", PORT_CAPACITY 7"] {
            let ports = linerate_port::Context::new(arena());
            let plan =
                |ports: &str, more: &str| load_text(&text(class, ports, more), &library).unwrap();
            let options = Options::default();
            let mut router = Router::new(plan("p1 p2 p3", ""), &library, ports, &options).unwrap();
            let control = router.control();
            let plans = [plan("p0 p3 p1", more), plan("p3 p2", more)];
            let changer = thread::spawn(move || {
                let control = StopAtEnd(control);
                let table = |hosts: usize| {
                    loop {
                        let table = control.0.read("s.table", "").unwrap();
                        if table.lines().count() >= hosts {
                            return table;
                        }
                    }
                };
                let mut tables = vec![table(3)];
                for (plan, hosts) in plans.into_iter().zip([3, 2]) {
                    control.0.replace(plan).unwrap();
                    tables.push(table(hosts));
                }
                tables
            });
            router.run();
            let tables = changer.join().unwrap();
            let line = |number: u32| format!("02-00-00-00-00-0{number} {vlan}p{number}\n");
            let all = |numbers: &[u32]| numbers.iter().map(|at| line(*at)).collect::<String>();
            // A source that stays has sent its packet; one that comes sends it.
            assert_eq!(tables[0], all(&[1, 2, 3]), "{class} {more}");
            assert_eq!(tables[1], all(&[0, 1, 3]), "{class} {more}");
            assert_eq!(tables[2], all(&[2, 3]), "{class} {more}");
            router.close();
        }
    }
}

/// Its flows are in the first text alone: its successor has them, or packets would be dropped. The
/// queue has room for all packets there are.
#[test]
fn a_flow_switch_keeps_its_flows_and_loses_nothing() {
    let scratch = Scratch::new("replaced-flows");
    let flows = scratch.path("flows");
    let written =
        "in_port=1,actions=set_field:7->reg0,goto_table:1\ntable=1,reg0=7,actions=output:2\n";
    std::fs::write(&flows, written).unwrap();
    for (workers, prefix) in [(1, ""), (2, "Pin(u 1); ")] {
        let texts = [
            format!(
                "f :: FlowSwitch(TABLES 2, FILE {flows}); source :: Numbered -> f -> Discard;
                 Idle -> [1] f [1] -> q :: Queue(20000) -> u :: Unqueue -> sink :: Check"
            ),
            "f :: FlowSwitch(TABLES 2); source :: Numbered -> Null -> f -> Discard;
             Idle -> [1] f [1] -> q :: Queue(30000) -> u :: Unqueue -> c :: Counter -> sink :: Check"
                .to_owned(),
            "f :: FlowSwitch(TABLES 2, CACHE 10); source :: Numbered -> f -> Discard;
             Idle -> [1] f [1] -> Counter -> q :: Queue(20000) -> u :: Unqueue -> sink :: Check;
             Idle -> [2] f [2] -> Discard"
                .to_owned(),
        ];
        let texts = texts.map(|text| format!("{prefix}{text}"));
        assert!(replace_under_load(workers, texts.to_vec(), 300) > 300);
    }
}

/// An element calls handlers of others while they and their places in the graph change: the call
/// returns the right answer or fails, and no other handler is called instead.
#[test]
fn a_handler_call_during_replacement_gets_the_right_answer_or_none() {
    let texts = [
        "Pin(asker 1); source :: Numbered -> sink :: Check; asker :: Asks(sink.seen)",
        "Pin(asker 1); a, b, c :: Idle; a -> Discard; b -> Discard; c -> Discard;
            source :: Numbered -> sink :: Check; asker :: Asks(sink.seen)",
        "asker :: Asks(sink.seen); Pin(asker 1); source :: Numbered -> Null -> sink :: Check",
    ];
    assert!(replace_under_load(2, texts.map(String::from).to_vec(), 400) > 400);
}

/// A run that ends while the graph is replaced ends, and closes everything.
#[test]
fn a_run_may_end_while_the_graph_is_replaced() {
    for at in 0..40 {
        let arena = arena();
        let library = numbered_library();
        let ports = linerate_port::Context::new(arena.clone());
        let options = Options { workers: 3, ..Options::default() };
        let plan = load_text(MOVES[0], &library).unwrap();
        let mut router = Router::new(plan, &library, ports, &options).unwrap();
        let control = router.control();
        let (changing, ended) = (control.clone(), Arc::new(AtomicBool::new(false)));
        let changer = thread::spawn({
            let (library, ended) = (library.clone(), Arc::clone(&ended));
            move || {
                for next in at.. {
                    let plan = load_text(MOVES[next % MOVES.len()], &library).unwrap();
                    if ended.load(Ordering::Relaxed) || changing.replace(plan).is_err() {
                        break;
                    }
                }
            }
        });
        let stopper = thread::spawn(move || {
            let control = StopAtEnd(control);
            while seen(&control.0) == 0 {
                thread::yield_now();
            }
        });
        router.run();
        ended.store(true, Ordering::Relaxed);
        changer.join().unwrap();
        stopper.join().unwrap();
        // No element of a replacement that is too late is made: not even an invalid one.
        let late = load_text("Numbered(1, 2) -> Check", &library).unwrap();
        let error = router.control().replace(late).unwrap_err();
        assert!(matches!(error, BuildError::Ended), "{error}");
        assert_eq!(router.read("sink.wrong", "").unwrap(), "0");
        router.close();
        drop(router);
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
fn the_sink_notices_a_missing_packet() {
    // The test's own instrument: a packet taken out is noticed.
    let arena = arena();
    let library = numbered_library();
    let text = "source :: Numbered(LIMIT 100) -> Lose(50) -> sink :: Check";
    let plan = load_text(text, &library).unwrap();
    let ports = linerate_port::Context::new(arena);
    let mut router = Router::new(plan, &library, ports, &Options::default()).unwrap();
    router.run();
    assert_eq!(router.read("sink.wrong", "").unwrap(), "1");
    router.close();
}

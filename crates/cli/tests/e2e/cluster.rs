//! Processes that share the packets of an interface.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use linerate_client::Consumer;
use linerate_port::pcap::Reader;
use linerate_test_support::{Lab, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{DRIVERS, Program, Scratch, TIMEOUT, linerate, number};

/// Frames sent, of 64 flows.
const FRAMES: u64 = 6000;

#[test]
#[ignore = "needs root"]
fn a_killed_consumer_of_an_interface_costs_the_others_nothing() {
    let (lab, scratch) = (Lab::new(), Scratch::new());
    let (near, far) = (lab.namespace("near"), lab.namespace("far"));
    lab.veth(&near, "g0", &far, "s0");
    // Room for all frames wherever one may wait, however late a program runs.
    let config = "FromPort(packet:s0?slots=8192) -> ip :: Classifier(12/0800, -);
        ip [1] -> Discard;
        ip -> ConsumerFanOut(w0 w1, recorder, CELLS 8192);";
    let (file, socket) = (scratch.file("c.click"), scratch.file("c.sock"));
    fs::write(&file, config).unwrap();
    let server = Program::ready(&far, &format!("cluster serve {file} --socket {socket}"));
    let attach = |name: &str, more: &str| {
        Program::ready(&far, &format!("cluster attach {socket} {name} {more}"))
    };
    let trace = scratch.file("trace.pcapng");
    let (mut w0, w1) = (attach("w0", ""), attach("w1", ""));
    let recorder = attach("recorder", &format!("--write {trace}"));
    let line = format!(
        "generate packet:g0 --count {FRAMES} --rate 6kpps --size 128 --sport 1000-1063 --order random"
    );
    let generator = Program::ready(&near, &line);
    let shown = |name: &str| {
        let objects = linerate(&format!("cluster status {socket} --json")).json();
        let found = objects.into_iter().find(|object| object["consumer"] == name);
        found.expect("it is listed")
    };
    let figure = |name: &str, key: &str| number(&shown(name), key);
    assert!(wait_until(|| figure("w0", "packets") > 200, TIMEOUT));
    w0.running.signal(Signal::KILL);
    assert!(wait_until(|| shown("w0")["state"] == "absent", TIMEOUT));
    let of_w0 = figure("w0", "packets");
    let sent = number(&generator.end().summary(), "accepted");
    assert_eq!(sent, FRAMES);
    // A program has read its packets when it holds none any more.
    let has_read = |name: &str, packets: u64| {
        let shown = shown(name);
        (number(&shown, "packets"), number(&shown, "held")) == (packets, 0)
    };
    for (name, packets) in [("recorder", FRAMES), ("w1", FRAMES - of_w0)] {
        assert!(wait_until(|| has_read(name, packets), TIMEOUT), "{name}: {}", shown(name));
    }
    assert_eq!((figure("w0", "packets"), figure("w0", "lost_absent")), (of_w0, 0));
    let (w1, recorder) = (w1.stop(), recorder.stop());
    assert_eq!((number(&recorder, "packets"), number(&recorder, "lost")), (FRAMES, 0));
    assert_eq!((number(&w1, "packets"), number(&w1, "lost")), (FRAMES - of_w0, 0));
    let mut reader = Reader::open(&trace).unwrap();
    while reader.next().unwrap().is_some() {}
    assert_eq!(reader.records(), FRAMES);
    server.stop();
    assert!(!fs::exists(&socket).unwrap(), "the socket is left");
}

/// Number of times that the server is killed on each kind of port.
const KILLS: usize = 3;

/// Events of a consumer.
#[derive(Default)]
struct ConsumerEvents {
    packets: AtomicU64,
    /// Times at which it noticed that its server had gone, and attached to the next.
    lost: Mutex<Vec<Instant>>,
    again: Mutex<Vec<Instant>>,
}

/// A consumer of this process, which attaches to one server after the other until it is to end.
fn consume(address: &str, name: &str, seen: &ConsumerEvents, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let Ok(mut consumer) = Consumer::attach(address, name) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        seen.again.lock().unwrap().push(Instant::now());
        let error = loop {
            if let Err(error) = consumer.wait(Some(Duration::from_secs(60))) {
                break error;
            }
            match consumer.receive() {
                Ok(received) => {
                    // Without the frame check sequence.
                    assert!(consumer.packets().all(|packet| packet.len() == 124));
                    seen.packets.fetch_add(received as u64, Ordering::Relaxed);
                }
                Err(error) => break error,
            }
        };
        assert!(error.is_end(), "{error}");
        seen.lost.lock().unwrap().push(Instant::now());
    }
}

/// The server is killed and started anew, again and again, while packets come in: its consumers learn it
/// and are those of the next, and nothing is left of it, on interfaces or elsewhere.
#[test]
#[ignore = "needs root, alone"]
fn a_killed_server_leaves_nothing_and_its_consumers_are_those_of_the_next() {
    for driver in DRIVERS {
        let (lab, scratch) = (Lab::new(), Scratch::new());
        let (near, far) = (lab.namespace("near"), lab.namespace("far"));
        lab.veth(&near, "g0", &far, "s0");
        let (file, socket) = (scratch.file("c.click"), scratch.file("c.sock"));
        let config = format!(
            "FromPort({driver}:s0) -> c :: Classifier(12/0800, -); c [1] -> Discard;
             c -> t :: Tee -> ConsumerFanOut(reads, isolated, again, ISOLATED isolated);
             t [1] -> ToConsumer(writes, ACCESS write);"
        );
        fs::write(&file, config).unwrap();
        // All but the counts: flags, listeners, programs.
        let interface = || {
            let text = far.ip(["-j", "-d", "address", "show", "s0"]);
            let mut shown: Value = serde_json::from_str(&text).unwrap();
            shown[0].as_object_mut().unwrap().remove("stats64");
            shown
        };
        let left = || {
            let folders = ["/dev/shm", "/dev/hugepages"].map(fs::read_dir);
            let entries = folders.into_iter().flatten().flatten();
            let names: BTreeSet<_> = entries.map(|entry| entry.unwrap().path()).collect();
            (names, interface())
        };
        let before = left();
        // The kernel takes memory back a moment after the process has ended.
        let is_clean = || {
            let (names, interface) = left();
            names.is_subset(&before.0) && interface == before.1
        };
        let line = format!("cluster serve {file} --socket {socket}");
        let mut server = Program::ready(&far, &line);
        let names = ["reads", "writes", "isolated"];
        let seen: Vec<ConsumerEvents> = names.iter().map(|_| ConsumerEvents::default()).collect();
        let again = Program::ready(&far, &format!("cluster attach {socket} again --again"));
        let generator = Program::ready(
            &near,
            "generate packet:g0 --rate 5kpps --size 128 --sport 1000-1063 --order random",
        );
        let ends = AtomicBool::new(false);
        let (mut learnt, mut returned) = (Duration::ZERO, Duration::ZERO);
        thread::scope(|scope| {
            for (name, seen) in names.iter().zip(&seen) {
                let (socket, ends) = (&socket, &ends);
                scope.spawn(move || consume(socket, name, seen, ends));
            }
            for kill in 1..=KILLS {
                let all = |holds: &dyn Fn(&ConsumerEvents) -> bool| seen.iter().all(holds);
                let counted: Vec<u64> =
                    seen.iter().map(|seen| seen.packets.load(Ordering::Relaxed)).collect();
                let more = || {
                    let now = seen.iter().map(|seen| seen.packets.load(Ordering::Relaxed));
                    now.zip(&counted).all(|(now, before)| now > before + 100)
                };
                assert!(wait_until(more, TIMEOUT), "packets come");
                let killed = Instant::now();
                server.running.signal(Signal::KILL);
                let _ = server.running.wait(TIMEOUT);
                let know = |seen: &ConsumerEvents| seen.lost.lock().unwrap().len() == kill;
                assert!(wait_until(|| all(&know), TIMEOUT), "they learn it");
                let last = |times: &Mutex<Vec<Instant>>| *times.lock().unwrap().last().unwrap();
                let slowest = seen.iter().map(|seen| last(&seen.lost)).max().unwrap();
                learnt = learnt.max(slowest - killed);
                assert!(wait_until(is_clean, TIMEOUT), "{driver}: {:?}, not {before:?}", left());
                let started = Instant::now();
                server = Program::ready(&far, &line);
                let are_back = |seen: &ConsumerEvents| seen.again.lock().unwrap().len() == kill + 1;
                assert!(wait_until(|| all(&are_back), TIMEOUT), "they attach to the next");
                let slowest = seen.iter().map(|seen| last(&seen.again)).max().unwrap();
                returned = returned.max(slowest.saturating_duration_since(started));
            }
            let figure = |key: &str| {
                let objects = linerate(&format!("cluster status {socket} --json")).json();
                let found = objects.into_iter().find(|object| object["consumer"] == "again");
                found.expect("it is listed")[key].clone()
            };
            assert!(wait_until(|| figure("state") == "attached", TIMEOUT));
            assert!(wait_until(|| figure("packets").as_u64().unwrap() > 100, TIMEOUT));
            ends.store(true, Ordering::Relaxed);
            again.stop();
            server.stop();
        });
        println!(
            "{driver}: of {KILLS} kills consumers learnt within {learnt:?}, and were those of the next \
             {returned:?} behind its start"
        );
        let mut generator = generator;
        generator.running.signal(Signal::INT);
        generator.end();
        assert!(wait_until(is_clean, TIMEOUT), "{driver}: {:?}, not {before:?}", left());
        let rest: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
        assert_eq!(rest.len(), 1, "only the configuration is left: {rest:?}");
    }
}

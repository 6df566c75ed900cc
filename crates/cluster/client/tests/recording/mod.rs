//! The recorder among the examples: its files as programs of other projects read them.

use super::*;

/// The recorder among the examples, in a process of its own.
#[allow(dead_code, reason = "its `main`")]
#[path = "../../examples/record.rs"]
pub(super) mod recorder;

/// Counts printed by the recorder when its server has ended: packets recorded, their bytes, and
/// packets lost.
fn recorded(process: &mut Process) -> [u64; 3] {
    let said = process.ends();
    let last = said.lines().find(|line| line.contains(" recorded, ")).expect("a summary");
    let numbers: Vec<u64> = last.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().expect("three numbers")
}

/// Files of a folder by name, which is in the order they were begun.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Output of a program that reads capture files about one, without a complaint.
fn said_of(file: &Path, program: &str, words: &[&str]) -> String {
    let output = Command::new(require(program)).args(words).arg(file).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).replace(ROOT_WARNING, "");
    assert!(output.status.success() && complaint.trim().is_empty(), "{file:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// tshark's warning to root.
const ROOT_WARNING: &str = "Running as user \"root\" and group \"root\". This could be dangerous.";

/// Packets of a file, which capinfos finds in the order of their times.
fn packets_in_order(file: &Path) -> u64 {
    let said = said_of(file, "capinfos", &["-T", "-r", "-M", "-o", "-c", "-m"]);
    let (_, facts) = said.trim().split_once(',').unwrap_or_else(|| panic!("{said}"));
    let (count, order) = facts.split_once(',').unwrap_or_else(|| panic!("{said}"));
    assert_eq!(order, "True", "{said}");
    count.parse().unwrap()
}

/// Packets received and dropped, by the statistics at the end of a file as tshark reads them.
fn statistics(file: &Path) -> [u64; 2] {
    let words = ["-X", "read_format:MIME Files Format", "-V", "-r"];
    let said = said_of(file, "tshark", &words);
    ["Number of Received Packets", "Number of Dropped Packets"].map(|what| {
        let found = said.lines().filter_map(|line| line.split_once(what)).next_back();
        let (_, number) = found.unwrap_or_else(|| panic!("no {what} in {said}"));
        number.trim_matches([' ', '=', ':']).parse().unwrap()
    })
}

#[test]
#[ignore = "needs tshark"]
fn a_recorder_merges_ports_in_order_of_time_and_rotates() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::new();
    let file = folder.path().join("trace.pcapng").to_str().unwrap().to_owned();
    server.add("left", &["left"], READ);
    server.add("right", &["right"], READ);
    let options = ["--rotate-size", "20000", "--window", "3000"];
    let words = [&["records"], &options[..], &[&*file]].concat().join(" ");
    let mut recorder = Process::start(&words, &server.address, "left right");
    let is_there = |server: &Server| {
        ["left", "right"].iter().all(|name| server.broker.dispatcher().is_attached(name))
    };
    server.wait_for("it attaches", is_there);
    let ports = std::mem::take(&mut server.balancers);
    for _ in 0..20 {
        // Of the same time, and the one port's are there later than the other's.
        let from = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        for (at, port) in ports.iter().enumerate() {
            let mut frame = server.packets(25);
            for (number, slot) in frame.slots_mut().iter_mut().enumerate() {
                let meta = server.arena.meta_mut(slot).unwrap();
                meta.timestamp = from + 2 * number as u64 + at as u64;
            }
            server.share(&[port.balancer()], &mut frame);
            std::thread::sleep(Duration::from_millis(2));
        }
        server.wait_for("it keeps up", |_| {
            ports.iter().all(|port| port.endpoints()[0].figures().waiting == 0)
        });
    }
    let bytes: u64 = ports.iter().map(|port| port.endpoints()[0].figures().bytes).sum();
    drop(ports);
    server.finish();
    assert_eq!(recorded(&mut recorder), [1000, bytes, 0]);
    let files = files(folder.path());
    assert!(files.len() > 5, "{files:?}");
    assert_eq!(files.iter().map(|file| packets_in_order(file)).sum::<u64>(), 1000);
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().len() <= 20_000));
    // In all of them together, too: each takes turns with the other.
    let mut last = 0;
    for file in &files {
        let mut reader = Reader::open(file).unwrap();
        while let Some(record) = reader.next().unwrap() {
            check(record.data);
            assert!(record.ts_ns > last, "{file:?}: {} behind {last}", record.ts_ns);
            last = record.ts_ns;
        }
    }
    assert_eq!(statistics(files.last().unwrap()), [1000, 0]);
}

#[test]
#[ignore = "needs tshark"]
fn a_recorder_reports_losses_and_keeps_the_newest_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.pcapng").to_str().unwrap().to_owned();
    let mut server = Server::new();
    server.add("b", &["one"], READ);
    let options = ["--rotate-size", "30000", "--keep", "3"];
    let words = [&["records"], &options[..], &[&*file]].concat().join(" ");
    let mut recorder = Process::start(&words, &server.address, "one");
    server.wait_for("it attaches", |server| server.broker.dispatcher().is_attached("one"));
    let pid = Pid::from_child(&recorder.0);
    let figures = |server: &Server| server.balancers[0].endpoints()[0].figures();
    // It stands still, as behind a disk that is full for a while, and is then there again.
    kill_process(pid, Signal::STOP).unwrap();
    for _ in 0..30 {
        server.share_out(32);
    }
    assert!(figures(&server).lost_full >= 960 - 256, "{:?}", figures(&server));
    kill_process(pid, Signal::CONT).unwrap();
    server.wait_for("it goes on", |server| figures(server).waiting == 0);
    // As many as fill more than three files: on a busy machine it may be behind once more.
    let mut sent = 960;
    while sent - figures(&server).lost_full < 1200 {
        server.share_out(32);
        sent += 32;
        assert!(sent < 100_000, "{:?}", figures(&server));
        server.wait_for("it keeps up", |server| figures(server).waiting == 0);
    }
    let lost = figures(&server).lost_full;
    let bytes = figures(&server).bytes;
    server.finish();
    assert_eq!(recorded(&mut recorder), [sent - lost, bytes, lost]);
    let files = files(folder.path());
    assert_eq!(files.len(), 3, "{files:?}");
    assert!(files.iter().all(|file| packets_in_order(file) > 10));
    assert_eq!(statistics(files.last().unwrap()), [sent, lost]);
}

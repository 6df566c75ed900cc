//! DPDK's `net_memif` as the peer: testpmd sends back what it receives, on the queue it came by.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use crate::rig::{PATIENCE, Station, packets, socket, wait_for};

/// A testpmd with one port, forwarding.
struct Testpmd {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Testpmd {
    /// Starts it with a `net_memif` of these arguments and so many queues.
    fn start(socket: &str, device: &str, queues: usize) -> Testpmd {
        let program = linerate_testlab::require("dpdk-testpmd");
        let name = socket.trim_start_matches('@');
        // Into a pipe it would write nothing before it ends.
        let mut child = Command::new("stdbuf")
            .arg("--output=L")
            .arg(program)
            .args(["-l", "0,1", "--no-huge", "-m", "96", "--single-file-segments", "--no-pci"])
            .args(["--no-telemetry", "--file-prefix", &format!("{name}-{}", unique())])
            .arg(format!("--vdev=net_memif0,id=0,socket={name},socket-abstract=yes,{device}"))
            .args(["--", "--interactive", "--nb-cores=1", "--total-num-mbufs=8192"])
            .args(["--port-topology=loop", "--forward-mode=io", "--no-mlockall"])
            .args([format!("--rxq={queues}"), format!("--txq={queues}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut testpmd = Testpmd { child, input, lines };
        testpmd.say("start");
        testpmd
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    /// The number behind a label in what it answers.
    #[track_caller]
    fn ask(&mut self, line: &str, label: &str) -> u64 {
        self.say(line);
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(answer) = self.lines.recv_timeout(left) else {
                panic!("testpmd does not answer `{line}`");
            };
            if let Some((_, rest)) = answer.split_once(label) {
                let number: String =
                    rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
                return number.parse().unwrap();
            }
        }
    }

    /// Packets received and sent.
    #[track_caller]
    fn counts(&mut self) -> (u64, u64) {
        let received = self.ask("show port stats 0", "RX-packets:");
        (received, self.ask("show port stats 0", "TX-packets:"))
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tells the processes of one socket apart: a killed one leaves its files behind.
fn unique() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Sends packets, in bursts that the smallest ring holds, and expects them back.
#[track_caller]
fn echo(station: &mut Station, queue: usize, sent: &[Vec<u8>], at_a_time: usize) {
    for some in sent.chunks(at_a_time) {
        station.send(queue, some);
        let back = station.expect(queue, some.len());
        let lengths = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&back), lengths(some), "queue {queue}");
        assert!(back == some, "bytes differ, queue {queue}");
    }
}

/// Everything there is to combine with DPDK in this role.
fn combine(ours: &str, theirs: &str) {
    let lengths = [60, 61, 64, 127, 128, 1000, 1514, 2047, 2048, 2049, 4096, 4097, 9000];
    let small = packets((0..2000).map(|at| 60 + at % 1455));
    let sent = packets(lengths);
    for queues in [1, 2] {
        for log2 in [4, 10, 13] {
            let socket = socket();
            let ring =
                if ours == "client" { format!("&slots={}", 1 << log2) } else { String::new() };
            let uri = format!("memif:{socket}?role={ours}&queues={queues}{ring}");
            let mut station = Station::with(&uri, 9600);
            let device = format!("{theirs},rsize={log2}");
            let mut testpmd = Testpmd::start(&socket, &device, queues);
            station.wait_up();
            // They come up at different moments, and what is sent before is lost.
            wait_for("the first packet to come back", || {
                (0..queues).all(|queue| {
                    station.send(queue, &sent[..1]);
                    thread::sleep(Duration::from_millis(2));
                    !station.take(queue).is_empty()
                })
            });
            thread::sleep(Duration::from_millis(50));
            (0..queues).for_each(|queue| while !station.take(queue).is_empty() {});
            for queue in 0..queues {
                echo(&mut station, queue, &sent, 1);
                echo(&mut station, queue, &small, if log2 == 4 { 8 } else { 64 });
            }
            let text = format!("{uri} with {device}: {}", station.detail());
            assert!(station.detail().contains("DPDK"), "{text}");
            let (ours_in, ours_out) = (station.received(), station.sent());
            assert_eq!(ours_in.dropped(), 0, "{text}");
            assert_eq!(
                testpmd.counts(),
                (ours_out.packets, ours_in.packets),
                "{text}: {ours_out:?} {ours_in:?}"
            );
            // Client or server, the peer is noticed to be gone, and no buffer is.
            drop(testpmd);
            station.wait_down();
            let arena = station.arena.clone();
            drop(station);
            assert_eq!(arena.accounting().held, 0, "{text}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn memif_with_dpdk_as_server() {
    combine("client", "role=server");
}

#[test]
#[ignore = "needs root"]
fn memif_with_dpdk_as_client() {
    combine("server", "role=client");
}

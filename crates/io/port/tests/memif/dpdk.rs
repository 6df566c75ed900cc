//! DPDK's `net_memif` as the peer: testpmd sends back what it receives, on the queue it came by.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    is_by_itself,
    load::{Load, let_go, resources, restarts, settled},
    rig::{Station, all_come_home, packets, socket, wait_for},
    testpmd::{Setup, Testpmd, alone},
};

/// Buffers that a zero-copy client of DPDK needs: both directions' rings full, twice 8,192.
const MBUFS: [&str; 2] = ["--total-num-mbufs=8192", "--total-num-mbufs=40960"];
const MEGABYTES: [&str; 2] = ["96", "192"];

/// A testpmd with a `net_memif` of these arguments and so many queues.
fn start(socket: &str, device: &str, queues: usize, engine: &str) -> Testpmd {
    let name = socket.trim_start_matches('@');
    let zero_copy = usize::from(device.contains("zero-copy=yes"));
    Testpmd::start(&Setup {
        name,
        device: &format!("net_memif0,id=0,socket={name},socket-abstract=yes,{device}"),
        megabytes: MEGABYTES[zero_copy],
        arguments: &[MBUFS[zero_copy]],
        queues,
        engine,
    })
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

/// Opens a port of ours and a testpmd beside it, and waits until packets come back.
fn join(
    ours: &str,
    theirs: &str,
    log2: u32,
    queues: usize,
    engine: &str,
) -> (Station, Testpmd, String) {
    let socket = socket();
    let ring = if ours == "server" { String::new() } else { format!("&slots={}", 1 << log2) };
    let uri = format!("memif:{socket}?role={ours}&queues={queues}{ring}");
    let lent = if ours.contains("zero-copy") { queues << log2 } else { 0 };
    let station = Station::lending(&uri, lent, 9600);
    let device = format!("{theirs},rsize={log2}");
    let testpmd = start(&socket, &device, queues, engine);
    station.wait_up();
    let text = format!("{uri} with {device}: {}", station.detail());
    assert!(station.detail().contains("DPDK"), "{text}");
    (station, testpmd, text)
}

/// Client or server, the peer is noticed to be gone, and no buffer is.
fn part(station: Station, testpmd: Testpmd) {
    drop(testpmd);
    station.wait_down();
    let arena = station.arena.clone();
    drop(station);
    all_come_home(&arena);
}

/// Packets to DPDK and back.
fn there_and_back(ours: &str, theirs: &str, log2: u32, queues: usize) {
    let lengths = [60, 61, 64, 127, 128, 1000, 1514, 2047, 2048, 2049, 4096, 4097, 9000];
    let small = packets((0..2000).map(|at| 60 + at % 1455));
    let sent = packets(lengths);
    let (mut station, mut testpmd, text) = join(ours, theirs, log2, queues, "io");
    // They come up at different moments, and packets sent before are lost.
    wait_for("the first packet to come back", || {
        (0..queues).all(|queue| {
            station.send(queue, &sent[..1]);
            thread::sleep(Duration::from_millis(2));
            !station.take(queue).is_empty()
        })
    });
    // One of another length comes back behind all of these.
    for queue in 0..queues {
        station.send(queue, &sent[1..2]);
        let is_last = |packet: &Vec<u8>| packet.len() == lengths[1];
        wait_for("the last packet to come back", || station.take(queue).iter().any(is_last));
    }
    for queue in 0..queues {
        echo(&mut station, queue, &sent, 1);
        echo(&mut station, queue, &small, if log2 == 4 { 8 } else { 64 });
    }
    let (ours_in, ours_out) = (station.received(), station.sent());
    assert_eq!((ours_in.dropped(), ours_out.dropped()), (0, 0), "{text}");
    assert_eq!(
        testpmd.counts(),
        (ours_out.packets, ours_in.packets),
        "{text}: {ours_out:?} {ours_in:?}"
    );
    part(station, testpmd);
}

/// Packets from DPDK, as many as it can send, in one piece and in five.
fn from_there(ours: &str, theirs: &str, log2: u32, queues: usize) {
    for (pieces, length) in [("64", 64), ("1800,1800,1800,1800,1800", 9000)] {
        let (mut station, mut testpmd, text) = join(ours, theirs, log2, queues, "txonly");
        testpmd.send_command("stop");
        testpmd.send_command(&format!("set txpkts {pieces}"));
        testpmd.send_command("start");
        let mut missing = vec![1000; queues];
        let mut drain = |station: &mut Station, length: Option<usize>| {
            let mut all = 0;
            for (queue, missing) in missing.iter_mut().enumerate() {
                let got = station.take(queue);
                all += got.len();
                let right = got.iter().filter(|packet| Some(packet.len()) == length).count();
                *missing = usize::saturating_sub(*missing, right);
            }
            (all, missing.iter().all(|&missing| missing == 0))
        };
        wait_for("packets of DPDK's", || drain(&mut station, Some(length)).1);
        testpmd.send_command("stop");
        let (_, sent) = testpmd.counts();
        wait_for("all of them", || {
            drain(&mut station, None);
            let counts = station.received();
            assert_eq!(counts.dropped(), 0, "{text}");
            counts.packets >= sent
        });
        // It may still have been sending when it was asked.
        wait_for("as many as it says", || {
            let (rest, _) = drain(&mut station, None);
            rest == 0 && testpmd.counts().1 == station.received().packets
        });
        part(station, testpmd);
    }
}

/// Everything there is to combine with DPDK in this role.
fn combine(ours: &str, theirs: &str) {
    let _alone = alone();
    for queues in [1, 2] {
        for log2 in [4, 10, 13] {
            // A zero-copy client of DPDK gives a server free buffers 32 at a time, never fewer:
            // with a ring that is smaller it receives nothing, from any server.
            if theirs.contains("zero-copy") && log2 < 5 {
                from_there(ours, theirs, log2, queues);
            } else {
                there_and_back(ours, theirs, log2, queues);
            }
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
fn memif_with_dpdk_as_server_of_a_zero_copy_client() {
    combine("client&zero-copy", "role=server");
    // With buffers it has to chain.
    let _alone = alone();
    there_and_back("client&zero-copy&buffer=2048", "role=server", 10, 1);
}

#[test]
#[ignore = "needs root"]
fn memif_with_dpdk_as_client() {
    combine("server", "role=client");
}

#[test]
#[ignore = "needs root"]
fn memif_with_dpdk_as_zero_copy_client() {
    combine("server", "role=client,zero-copy=yes");
}

/// When it is disconnected, DPDK's zero-copy client (22.11) closes the descriptor of its own
/// memory, and when it connects again it sends the file that has that number by then: its new
/// socket, as it happens.
#[test]
#[ignore = "needs root"]
fn memif_zero_copy_client_of_dpdk_that_comes_again_is_refused_and_the_next_is_not() {
    let _alone = alone();
    let name = "memif_zero_copy_client_of_dpdk_that_comes_again_is_refused_and_the_next_is_not";
    if !is_by_itself(&format!("dpdk::{name}")) {
        return;
    }
    let socket = socket();
    let device = "role=client,zero-copy=yes";
    let before = resources();
    let mut station = Station::open(&format!("memif:{socket}?role=server"));
    let listening = resources();
    let mut testpmd = start(&socket, device, 1, "io");
    station.wait_up();
    testpmd.restart_port();
    wait_for("what it sends to be refused", || {
        station.detail().starts_with("the peer was refused: region 1: the file is not memory")
    });
    assert_eq!(testpmd.died_of(), None);
    // It is still there, and so is its refused connection, perhaps.
    let next = start(&socket, device, 1, "io");
    station.wait_up();
    Load::default().flow(&mut station, 1000);
    drop((testpmd, next));
    station.wait_down();
    // The scenario: the connection's own thread is done before queues let go of theirs, and no peer comes or goes
    // that would have it look again.
    thread::sleep(Duration::from_millis(300));
    while !station.take(0).is_empty() {}
    let_go(&mut station);
    wait_for("all that belonged to the connection to go", || resources() == listening);
    let arena = station.arena.clone();
    drop(station);
    all_come_home(&arena);
    drop(arena);
    wait_for("all it had to be let go", || resources() == before);
}

fn come_and_go(who: &str, ours: &str, theirs: &str) {
    let _alone = alone();
    if !is_by_itself(&format!("dpdk::memif_{who}_come_and_go")) {
        return;
    }
    let restarts = restarts();
    let socket = socket();
    let uri = format!("memif:{socket}?role={ours}");
    let is_up = |station: &Station| station.port.info.link.as_ref().unwrap().is_up();
    let before = resources();
    let mut load = Load::default();

    // Theirs is killed while packets go both ways.
    let mut station = Station::open(&uri);
    let mut steady = None;
    for _ in 0..restarts {
        let testpmd = start(&socket, theirs, 1, "io");
        load.run(&mut station, is_up);
        load.flow(&mut station, 1000);
        drop(testpmd);
        load.run(&mut station, |station| !is_up(station));
        // Packets that were on the way.
        while !station.take(0).is_empty() {}
        // A link is down before all of it is closed: buffers lent to the peer are waited for first.
        let steady = *steady.get_or_insert_with(|| settled(&mut station));
        wait_for("all that belonged to the connection to go", || {
            let_go(&mut station);
            resources() == steady
        });
    }
    let counts = station.sent();
    assert_eq!(counts.packets + counts.dropped(), load.taken);

    // Ours goes while packets go both ways. That kills DPDK now and then: it unmaps memory that its
    // worker may be copying from or to.
    let mut testpmd = None;
    let mut died = 0;
    for _ in 0..restarts {
        // A client of DPDK's connects when its port is started, and never again by itself. One that has
        // just been started finds us: to ask it again would only cut that short.
        let comes_again = ours == "server" && testpmd.is_some();
        let peer = testpmd.get_or_insert_with(|| start(&socket, theirs, 1, "io"));
        let mut asked = Instant::now();
        load.run(&mut station, |station| {
            if comes_again && asked.elapsed() > Duration::from_secs(2) {
                peer.restart_port();
                asked = Instant::now();
            }
            is_up(station) || peer.died_of().is_some()
        });
        if is_up(&station) {
            load.flow(&mut station, 100);
        }
        let arena = station.arena.clone();
        drop(station);
        all_come_home(&arena);
        // It may die of the end of the connection, and may send packets of ours to the next one. The scenario: time for
        // that; a later death ends the next round's wait for the link.
        thread::sleep(Duration::from_millis(20));
        let has_died = peer.died_of().is_some();
        died += usize::from(has_died);
        // A zero-copy client of DPDK's closes the file of its own memory when it is disconnected, and
        // has none to give to the next.
        if has_died || theirs.contains("zero-copy") {
            testpmd = None;
        }
        station = Station::open(&uri);
        if let Some(peer) = &mut testpmd
            && ours == "server"
        {
            peer.restart_port();
        }
    }
    drop((station, testpmd));
    wait_for("all it had to be let go", || resources() == before);
    println!("{uri}: {restarts} times, {} packets back; testpmd died {died} times", load.back);
}

#[test]
#[ignore = "needs root"]
fn memif_servers_of_dpdk_and_clients_of_ours_come_and_go() {
    come_and_go("servers_of_dpdk_and_clients_of_ours", "client", "role=server");
}

#[test]
#[ignore = "needs root"]
fn memif_servers_of_dpdk_and_zero_copy_clients_of_ours_come_and_go() {
    come_and_go("servers_of_dpdk_and_zero_copy_clients_of_ours", "client&zero-copy", "role=server");
}

#[test]
#[ignore = "needs root"]
fn memif_clients_of_dpdk_and_servers_of_ours_come_and_go() {
    come_and_go("clients_of_dpdk_and_servers_of_ours", "server", "role=client");
}

#[test]
#[ignore = "needs root"]
fn memif_zero_copy_clients_of_dpdk_and_servers_of_ours_come_and_go() {
    come_and_go(
        "zero_copy_clients_of_dpdk_and_servers_of_ours",
        "server",
        "role=client,zero-copy=yes",
    );
}

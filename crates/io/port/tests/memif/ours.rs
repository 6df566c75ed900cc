//! Our server and our client.

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use linerate_port::{Context, Direction, DropReason, OpenError, Wake};
use rustix::net::{self, AddressFamily, RecvFlags, SocketAddrUnix, SocketType};

use crate::rig::{Station, TIMEOUT, all_come_home, arena, packets, socket, wait_for};

/// Both ends, connected.
fn pair(server: &str, client: &str) -> (Station, Station) {
    let socket = socket();
    let server = Station::with(&format!("memif:{socket}?role=server{server}"), 9600);
    let uri = format!("memif:{socket}?role=client{client}");
    let mut client = Station::lending(&uri, 1024, 9600);
    server.wait_up();
    client.wait_up();
    // A zero-copy client gives the server its buffers when it first looks for packets.
    assert!(client.take(0).is_empty());
    (server, client)
}

/// Packets go both ways, all of them, in order.
fn exchange(server: &mut Station, client: &mut Station, sent: &[Vec<u8>], at_a_time: usize) {
    for some in sent.chunks(at_a_time) {
        client.send(0, some);
        assert_eq!(server.expect(0, some.len()), some);
        server.send(0, some);
        assert_eq!(client.expect(0, some.len()), some);
    }
}

#[test]
fn packets_of_every_length_cross_both_ways() {
    let lengths = (14..300).chain([1500, 1514, 2047, 2048, 2049, 4096, 4097, 9000]);
    let sent = packets(lengths);
    for (client, at_a_time) in [
        ("&slots=1024", 3),
        ("&slots=8", 1),
        ("&slots=256&buffer=64", 1),
        ("&slots=1&buffer=16384", 1),
        ("&slots=1024&zero-copy", 3),
        ("&slots=1&zero-copy", 1),
        ("&slots=16&buffer=1024&zero-copy", 1),
    ] {
        let (mut server, mut client) = pair("", client);
        exchange(&mut server, &mut client, &sent, at_a_time);
        let bytes: u64 = sent.iter().map(|packet| packet.len() as u64).sum();
        for counts in [server.received(), server.sent(), client.received(), client.sent()] {
            let sum = (counts.packets, counts.bytes, counts.dropped());
            assert_eq!(sum, (sent.len() as u64, bytes, 0));
        }
        let arenas = [server.arena.clone(), client.arena.clone()];
        drop((server, client));
        arenas.iter().for_each(all_come_home);
    }
}

/// A program that has nothing of ours, not even a header: that it works shows that the page it was
/// written by is complete.
#[test]
fn the_document_is_enough_for_a_client_in_c() {
    // Of this run alone: another may be about to start its own.
    let program = format!("{}/by_document-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/memif/by_document.c");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", &program]);
    assert!(compile.status().unwrap().success());
    let socket = socket();
    let mut server = Station::with(&format!("memif:{socket}?role=server&id=7&secret=psst"), 9600);
    let client = Command::new(&program).arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    server.wait_up();
    std::fs::remove_file(program).unwrap();
    let pieces = [vec![2; 256], vec![3; 44]].concat();
    assert_eq!(server.expect(0, 3), [vec![1; 60], pieces, vec![4; 14]]);
    server.send(0, &[vec![5; 61], vec![6; 300]]);
    let output = client.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*String::from_utf8_lossy(&output.stdout)),
        (Some(0), "done\n")
    );
    assert_eq!(server.received().dropped_for(DropReason::Malformed), 1);
}

#[test]
fn counts_wrap_around_and_full_rings_hold_packets_back() {
    for client in ["&slots=64", "&slots=64&zero-copy"] {
        wrap_around_and_fill(client);
    }
}

fn wrap_around_and_fill(client: &str) {
    let (mut server, mut client) = pair("", client);
    // More than 65,536, a counter's range, and a ring's size at a time.
    let sent = packets([60; 64]);
    for _ in 0..1100 {
        client.send(0, &sent);
        server.send(0, &sent);
        assert_eq!(server.expect(0, 64), sent);
        assert_eq!(client.expect(0, 64), sent);
    }
    client.send(0, &sent);
    let mut frame = linerate_memory::Frame::new(4);
    client.pool.take(&mut frame, 4, 60);
    let Station { pool, port, .. } = &mut client;
    let transmit = port.queues[0].transmit.as_mut().unwrap();
    assert_eq!(transmit.transmit(pool, &mut frame).unwrap(), 0);
    assert!(matches!(transmit.wake(), Wake::At(_)));
    assert_eq!(transmit.flush(pool).unwrap(), 64);
    pool.give(&mut frame);
    assert_eq!(server.expect(0, 64), sent);
    assert_eq!(client.transmit(0).counters().read().dropped(), 0);
}

#[test]
fn a_frame_no_ring_or_buffer_can_hold_is_too_long() {
    let socket = socket();
    // The server's buffers are the short ones, and a whole ring of the client has 512 bytes.
    let mut server = Station::with(&format!("memif:{socket}?role=server"), 2112);
    let mut client = Station::with(&format!("memif:{socket}?slots=8&buffer=512"), 9600);
    server.wait_up();
    client.wait_up();
    let sent = packets([60, 3000, 4097, 61]);
    client.send(0, &sent[..2]);
    assert_eq!(server.expect(0, 1), sent[..1]);
    server.take(0);
    client.send(0, &sent[2..]);
    assert_eq!(server.expect(0, 1), sent[3..]);
    assert_eq!(server.received().dropped_for(DropReason::TooLong), 1);
    assert_eq!(client.sent().dropped_for(DropReason::TooLong), 1);
    assert_eq!((client.sent().packets, server.received().packets), (3, 2));
}

#[test]
fn queues_are_paired_and_shared_where_a_peer_has_fewer() {
    let (mut server, mut client) = pair("&queues=3", "&queues=2");
    let sent = packets([60; 6]);
    for queue in 0..2 {
        client.send(queue, &sent[queue..=queue]);
        assert_eq!(server.expect(queue, 1), sent[queue..=queue]);
    }
    // The server's third queue shares the first ring.
    for (queue, ring) in [(0, 0), (1, 1), (2, 0)] {
        server.send(queue, &sent[queue..=queue]);
        assert_eq!(client.expect(ring, 1), sent[queue..=queue]);
    }
    assert!(server.take(2).is_empty());
    assert!(server.detail().contains("2 rings of 1024 to it, 2 of 1024"), "{}", server.detail());
}

#[test]
fn several_interfaces_share_a_socket() {
    let socket = socket();
    let open = |role: &str, id: u32| Station::open(&format!("memif:{socket}?role={role}&id={id}"));
    let mut servers: Vec<_> = [7, 0, 3].map(|id| open("server", id)).into();
    let mut clients: Vec<_> = [7, 0, 3].map(|id| open("client", id)).into();
    let sent = packets([60; 3]);
    for (at, (server, client)) in servers.iter_mut().zip(&mut clients).enumerate() {
        client.wait_up();
        server.wait_up();
        client.send(0, &sent[at..=at]);
        assert_eq!(server.expect(0, 1), sent[at..=at]);
    }
    // One goes; the others stay.
    drop(servers.remove(1));
    clients[1].wait_down();
    wait_for("the reason", || clients[1].detail().contains("unmatched interface id"));
    clients[2].send(0, &sent);
    assert_eq!(servers[1].expect(0, 3), sent);
    servers.push(open("server", 0));
    clients[1].wait_up();
}

#[test]
fn a_client_without_rights_to_an_interface_is_refused_with_the_reason() {
    let socket = socket();
    let server = format!("memif:{socket}?role=server&id=1&secret=open%20sesame");
    let server = Station::open(&server);
    for (options, reason) in [
        ("id=2&secret=x", "unmatched interface id 2"),
        ("id=1", "secret required"),
        ("id=1&secret=open%20sesam", "incorrect secret"),
    ] {
        let client = Station::open(&format!("memif:{socket}?{options}"));
        wait_for(reason, || client.detail().contains(reason));
        wait_for(reason, || server.detail().contains(reason));
        assert!(!client.port.info.link.as_ref().unwrap().is_up());
    }
    let client = Station::open(&format!("memif:{socket}?id=1&secret=open%20sesame"));
    client.wait_up();
    let second = Station::open(&format!("memif:{socket}?id=1&secret=open%20sesame"));
    wait_for("the reason", || second.detail().contains("already connected"));
    drop(client);
    second.wait_up();
}

#[test]
fn unusable_sockets_are_refused_with_advice() {
    let context = Context::new(arena(2112));
    let open = |uri: &str| match linerate_port::open(&uri.parse().unwrap(), &context) {
        Ok(port) => panic!("{port:?} was opened"),
        Err(error) => error,
    };
    let socket = socket();
    let _server = Station::open(&format!("memif:{socket}?role=server&id=4"));
    let error = open(&format!("memif:{socket}?role=server&id=4"));
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("interface 4"), "{error}");
    let error = open("memif:/nonesuch/m.sock?role=server");
    assert!(matches!(error, OpenError::File { .. }), "{error}");
    assert!(error.to_string().contains("the folder of /nonesuch/m.sock does not"), "{error}");
    for (uri, text) in [
        ("memif:", "path of a socket"),
        ("memif:@?role=server", "path of a socket"),
        ("memif:x?role=master", "expected client or server"),
        ("memif:x?role=server&buffer=100", "only when it is the client"),
        ("memif:x?secret=", "1 to 24 bytes"),
        ("memif:x?secret=0123456789012345678901234", "1 to 24 bytes"),
        ("memif:x?queues=64&slots=16384&buffer=9000", "more than 4 GiB"),
        ("memif:x?role=server&zero-copy", "only when it is the client"),
        ("memif:x?slots=4096&zero-copy", "more than half of"),
    ] {
        let error = open(uri).to_string();
        assert!(error.contains(text), "{uri}: {error}");
    }
}

#[test]
fn a_socket_that_a_dead_server_left_is_taken_over_and_a_file_is_not() {
    let folder = std::env::temp_dir().join(format!("linerate-memif-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("m.sock");
    let uri = format!("memif:{}?role=server", path.display());
    let context = Context::new(arena(2112));
    std::fs::write(&path, "precious").unwrap();
    let error = linerate_port::open(&uri.parse().unwrap(), &context).unwrap_err().to_string();
    assert!(error.contains("not a socket"), "{error}");
    std::fs::remove_file(&path).unwrap();
    // The file of a listener of the standard library is not removed.
    let alive = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = linerate_port::open(&uri.parse().unwrap(), &context).unwrap_err().to_string();
    assert!(error.contains("another process listens") || error.contains("bind"), "{error}");
    drop(alive);
    let server = Station::open(&uri);
    let client = Station::open(&format!("memif:{}", path.display()));
    client.wait_up();
    drop(server);
    assert!(!path.exists());
    drop(client);
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn an_early_client_learns_the_size_of_the_rings() {
    for _ in 0..50 {
        let socket = socket();
        std::thread::scope(|scope| {
            let early = scope.spawn(|| greeting(&socket[1..]));
            let _server = Station::open(&format!("memif:{socket}?role=server&slots=256"));
            const LOG2_AT: usize = 44;
            assert_eq!(early.join().unwrap()[LOG2_AT], 8);
        });
    }
}

/// The first message of the server at an abstract socket, once there is one.
fn greeting(name: &str) -> [u8; 128] {
    let client = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    wait_for("the server", || {
        std::iter::repeat_n((), 1000).any(|()| net::connect(&client, &address).is_ok())
    });
    let mut greeting = [0; 128];
    let (_, received) = net::recv(&client, &mut greeting, RecvFlags::empty()).unwrap();
    assert_eq!(received, greeting.len());
    greeting
}

#[test]
fn either_side_may_come_first_go_and_come_back() {
    come_and_go("client");
    come_and_go("client&zero-copy");
}

fn come_and_go(as_client: &str) {
    let socket = socket();
    let open = |role: &str| {
        let role = if role == "client" { as_client } else { role };
        Station::open(&format!("memif:{socket}?role={role}"))
    };
    let sent = packets([60; 10]);
    let mut client = open("client");
    // There is no peer yet: packets sent go nowhere, and are accounted for.
    client.send(0, &sent);
    assert_eq!(client.sent().dropped_for(DropReason::LinkDown), 10);
    let mut server = open("server");
    for round in 0..10 {
        client.wait_up();
        server.wait_up();
        assert!(client.take(0).is_empty());
        client.send(0, &sent);
        assert_eq!(server.expect(0, 10), sent, "round {round}");
        server.send(0, &sent);
        assert_eq!(client.expect(0, 10), sent, "round {round}");
        // Some are on the way when it happens: they still come.
        client.send(0, &sent);
        server.send(0, &sent);
        if round % 2 == 0 {
            drop(server);
            client.wait_down();
            assert_eq!(client.expect(0, 10), sent, "round {round}");
            assert!(client.take(0).is_empty());
            server = open("server");
        } else {
            drop(client);
            server.wait_down();
            assert_eq!(server.expect(0, 10), sent, "round {round}");
            assert!(server.take(0).is_empty());
            client = open("client");
        }
    }
    let changes = server.port.info.link.as_ref().unwrap().changes();
    assert!(changes >= 1, "{changes}");
    let arenas = [server.arena.clone(), client.arena.clone()];
    drop((server, client));
    arenas.iter().for_each(all_come_home);
}

/// A server that has put nothing into the buffers it was lent, and one with packets it has not
/// taken, goes: every buffer is back, with any holder of the queue.
#[test]
fn lent_buffers_come_home_when_the_server_goes_or_the_port() {
    let (mut server, mut client) = pair("", "&slots=256&zero-copy");
    let sent = packets([60; 100]);
    client.send(0, &sent);
    assert_eq!(client.arena.accounting().held, 256 + 100);
    server.send(0, &sent[..10]);
    assert_eq!(client.expect(0, 10), sent[..10]);
    assert_eq!(server.expect(0, 64), sent[..64]);
    assert_eq!(client.transmit(0).counters().read().packets, 100);
    drop(server);
    client.wait_down();
    client.take(0);
    client.send(0, &sent[..1]);
    wait_for("every buffer", || client.arena.accounting().held == 0);
    assert_eq!(client.sent().dropped_for(DropReason::LinkDown), 1);

    let (_server, mut client) = pair("", "&slots=256&queues=2&zero-copy");
    assert!(client.take(1).is_empty());
    client.send(1, &sent);
    let arena = client.arena.clone();
    // The one queue is not used any more, and the peer has its buffers all the same.
    drop(client.port.queues.remove(1));
    client.take(0);
    let held = arena.accounting().held;
    assert!(held == 256 + 100 || held == 512 + 100, "{held}");
    drop(client);
    all_come_home(&arena);
}

/// Sleeping receivers are woken by packets, and by a peer that comes.
#[test]
fn a_sleeping_receiver_is_woken() {
    let socket = socket();
    let mut server = Station::open(&format!("memif:{socket}?role=server"));
    let uri = format!("memif:{socket}?zero-copy");
    let sent = packets([60; 500]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Station::open(&uri);
            client.wait_up();
            for packet in &sent {
                client.send(0, std::slice::from_ref(packet));
                // Now and then long enough for the other to fall asleep.
                if packet[7] % 50 == 0 {
                    thread::sleep(Duration::from_millis(3));
                }
                let back = loop {
                    assert!(client.receive(0).wait(TIMEOUT).unwrap(), "nothing came back");
                    let back = client.take(0);
                    if !back.is_empty() {
                        break back;
                    }
                };
                assert_eq!(back, std::slice::from_ref(packet));
            }
        });
        let mut count = 0;
        while count < sent.len() {
            assert!(server.receive(0).wait(TIMEOUT).unwrap(), "nothing came");
            let got = server.take(0);
            count += got.len();
            server.send(0, &got);
        }
    });
}

#[test]
fn an_unwanted_direction_is_not_served() {
    let socket = socket();
    let mut server = Station::open(&format!("memif:{socket}?role=server"));
    let context = Context::new(arena(2112)).toward(Direction::Transmit);
    let uri = format!("memif:{socket}?slots=4&wait=20");
    let port = linerate_port::open(&uri.parse().unwrap(), &context).unwrap();
    assert!(port.info.link.as_ref().unwrap().is_up());
    assert!(port.queues[0].receive.is_none());
    server.wait_up();
    let mut frame = linerate_memory::Frame::new(4);
    server.pool.take(&mut frame, 4, 60);
    let Station { pool, port, .. } = &mut server;
    let transmit = port.queues[0].transmit.as_mut().unwrap();
    assert_eq!(transmit.transmit(pool, &mut frame).unwrap(), 0);
    pool.give(&mut frame);
}

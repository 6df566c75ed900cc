//! Packets go in and out as they are.

use linerate_memory::Frame;
use linerate_port::{Copies, Direction, wait_any};

use crate::rig::{Opened, Rig, TIMEOUT, Wire, arena, frames, open_in, send_all};

const MODES: [(&str, &str); 6] = [
    ("xdp:x0?mode=native", "native XDP, copy, need-wakeup, 1 queue"),
    ("xdp:x0?mode=generic", "generic XDP, copy, need-wakeup, 1 queue"),
    ("xdp:x0?copy", "native XDP, copy, need-wakeup, 1 queue"),
    ("xdp:x0?need-wakeup=off&ring=64", "native XDP, copy, 1 queue"),
    ("xdp:x0?busy-poll=20", "native XDP, copy, need-wakeup, busy poll 20 us, 1 queue"),
    ("xdp:x0?promisc=off&queues=all", "native XDP, copy, need-wakeup, 1 queue"),
];

#[test]
#[ignore = "needs root"]
fn frames_arrive_identical_in_every_mode() {
    for (uri, mode) in MODES {
        let rig = Rig::new(1);
        let arena = arena();
        let mut opened = rig.open(uri, &arena).unwrap();
        let taken = "; all it receives is taken from the host";
        assert_eq!(opened.port.info.mode, format!("{mode}{taken}"), "{uri}");
        assert_eq!(opened.port.info.copies, Copies::Kernel);
        let wire = Wire::open(&rig.theirs, "p0");
        let sent = frames(40);
        for round in 0..5 {
            sent.iter().for_each(|frame| wire.send(frame));
            assert!(opened.receive(sent.len()) == sent, "{uri}, round {round}");
        }
        let receive = opened.port.queues[0].receive.as_mut().unwrap();
        receive.refresh();
        let counts = receive.counters().read();
        assert_eq!((counts.packets, counts.dropped()), (200, 0), "{uri}");
        let bytes: usize = sent.iter().map(Vec::len).sum();
        assert_eq!(counts.bytes, 5 * bytes as u64);
        assert_eq!(opened.close(), 0, "{uri}: buffers are held after closing");
    }
}

#[test]
#[ignore = "needs root"]
fn frames_leave_identical_in_every_mode() {
    for (uri, _) in MODES {
        let rig = Rig::new(1);
        let arena = arena();
        let mut opened = rig.open(uri, &arena).unwrap();
        let wire = Wire::open(&rig.theirs, "p0");
        let sent = frames(300);
        opened.transmit(&sent);
        assert!(wire.receive_all(sent.len()) == sent, "{uri}");
        let counts = opened.port.queues[0].transmit.as_ref().unwrap().counters().read();
        assert_eq!((counts.packets, counts.dropped()), (300, 0), "{uri}");
        assert_eq!(counts.bytes, sent.iter().map(Vec::len).sum::<usize>() as u64);
        assert_eq!(opened.close(), 0, "{uri}: buffers are held after closing");
    }
}

#[test]
#[ignore = "needs root"]
fn a_sender_alone_needs_no_program() {
    let rig = Rig::new(1);
    let arena = arena();
    let mut opened = open_in(&rig.ours, "xdp:x0", &arena, Direction::Transmit).unwrap();
    assert_eq!(opened.port.info.mode, "no program, copy, need-wakeup, 1 queue");
    assert!(!rig.ours.ip(["link", "show", "x0"]).contains("xdp"));
    let wire = Wire::open(&rig.theirs, "p0");
    let sent = frames(10);
    opened.transmit(&sent);
    assert!(wire.receive_all(10) == sent);
    assert_eq!(opened.close(), 0);
}

/// Moves the packets that come in at one port out at the other.
fn forward(from: &mut Opened, to: &mut Opened) -> usize {
    let receive = from.port.queues[0].receive.as_mut().unwrap();
    let count = receive.receive(&mut from.pool, &mut from.frame).unwrap();
    let transmit = to.port.queues[0].transmit.as_mut().unwrap();
    send_all(transmit.as_mut(), &mut from.pool, &mut from.frame).unwrap();
    transmit.flush(&mut from.pool).unwrap();
    count
}

#[test]
#[ignore = "needs root"]
fn a_packet_crosses_from_port_to_port_where_it_lies() {
    let rig = Rig::new(1);
    let far = rig.lab.namespace("far");
    rig.lab.veth(&rig.ours, "x1", &far, "p1");
    for modes in [["native", "native"], ["native", "generic"]] {
        let arena = arena();
        let mut left = rig.open(&format!("xdp:x0?mode={}", modes[0]), &arena).unwrap();
        let mut right = rig.open(&format!("xdp:x1?mode={}", modes[1]), &arena).unwrap();
        let (near, far) = (Wire::open(&rig.theirs, "p0"), Wire::open(&far, "p1"));
        let sent = frames(200);
        for (from, to) in [(&near, &far), (&far, &near)] {
            sent.iter().for_each(|frame| from.send(frame));
            let mut crossed = 0;
            let deadline = std::time::Instant::now() + TIMEOUT;
            while crossed < sent.len() && std::time::Instant::now() < deadline {
                crossed += forward(&mut left, &mut right) + forward(&mut right, &mut left);
            }
            assert!(to.receive_all(sent.len()) == sent);
        }
        // The pools share the arena, so only after both is nothing held.
        right.close();
        assert_eq!(left.close(), 0);
    }
}

#[test]
#[ignore = "needs root"]
fn several_queues_bring_everything_once() {
    let rig = Rig::new(2);
    let arena = arena();
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    assert_eq!(opened.port.queues.len(), 2);
    assert!(opened.port.info.mode.contains(", 2 queues;"), "{}", opened.port.info.mode);
    // Through the other end's stack, whose choice of a queue follows the flow.
    rig.theirs.add_address("p0", "198.18.0.2/24");
    rig.theirs.ip(["neigh", "add", "198.18.0.1", "lladdr", "02:00:00:00:00:01", "dev", "p0"]);
    rig.theirs.enter(|| {
        for n in 0..64u16 {
            let socket = std::net::UdpSocket::bind("198.18.0.2:0").unwrap();
            socket.send_to(&n.to_be_bytes(), "198.18.0.1:9").unwrap();
        }
    });
    let deadline = std::time::Instant::now() + TIMEOUT;
    let mut seen = Vec::new();
    let mut by_queue = [0; 2];
    while seen.len() < 64 && std::time::Instant::now() < deadline {
        for (queue, count) in by_queue.iter_mut().enumerate() {
            let mut frame = Frame::new(64);
            let receive = opened.port.queues[queue].receive.as_mut().unwrap();
            receive.receive(&mut opened.pool, &mut frame).unwrap();
            for packet in arena.packets(&frame).filter(|packet| packet[12..14] == [8, 0]) {
                seen.push(u16::from_be_bytes([packet[42], packet[43]]));
                *count += 1;
            }
            opened.pool.give(&mut frame);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..64).collect::<Vec<_>>());
    assert!(by_queue.iter().all(|&count| count > 0), "{by_queue:?}");
    assert_eq!(opened.close(), 0);
}

#[test]
#[ignore = "needs root"]
fn a_sleeper_is_woken() {
    let rig = Rig::new(1);
    let arena = arena();
    let mut opened = rig.open("xdp:x0", &arena).unwrap();
    let wire = Wire::open(&rig.theirs, "p0");
    let receive = opened.port.queues[0].receive.as_mut().unwrap();
    assert!(!receive.wait(std::time::Duration::from_millis(20)).unwrap());
    wire.send(&frames(1)[0]);
    assert!(wait_any(&[receive.wake()], TIMEOUT).unwrap());
    assert_eq!(opened.receive(1).len(), 1);
    assert_eq!(opened.close(), 0);
}

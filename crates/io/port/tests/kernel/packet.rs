//! `packet:` ports against the kernel: frames as they were, hosts that talk
//! through us with their offloads on, and interfaces that go away.

use std::{net::UdpSocket, sync::Arc, thread, time::Duration};

use crate::support::{
    Forwarder, TIMEOUT, arena, assert_balanced, assortment, frame, open, put, receive, refused,
    send, sides,
};
use linerate_filter::{Filter, Names};
use linerate_linux::socket::set_option;
use linerate_memory::{ArenaOptions, Frame};
use linerate_port::{DropReason, OpenError, PortFault};
use linerate_test_support::{Lab, Namespace, wait_until};

#[test]
#[ignore = "needs root"]
fn frames_cross_unchanged() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    // With the tag offload on, the kernel keeps the tag beside the frame.
    for offload in ["off", "on"] {
        left.expect(["ethtool", "-K", "l0", "txvlan", offload]);
        right.expect(["ethtool", "-K", "r0", "rxvlan", offload]);
        let arena = arena();
        let mut pool = arena.cache(64);
        let (mut from_left, mut to_left) = sides(open(&left, &arena, "packet:l0"));
        let (mut from_right, mut to_right) = sides(open(&right, &arena, "packet:r0"));
        let frames = assortment();
        let bytes = frames.iter().map(Vec::len).sum::<usize>() as u64;
        for (to, from) in [(&mut to_left, &mut from_right), (&mut to_right, &mut from_left)] {
            send(&mut pool, &mut **to, &frames);
            assert_eq!(receive(&mut pool, &mut **from, frames.len()), frames);
            assert_eq!(to.counters().read().bytes, bytes);
            assert_eq!(from.counters().read().bytes, bytes);
        }
        // Packets sent by us did not come back.
        let mut none = Frame::new(8);
        assert_eq!(from_left.receive(&mut pool, &mut none).unwrap(), 0);
        assert_eq!(from_right.receive(&mut pool, &mut none).unwrap(), 0);
        assert_eq!(arena.accounting().held, 0);
    }
}

/// Two hosts joined by a forwarder over veth pairs, offloads as the kernel
/// has them unless turned off.
struct Joined {
    lab: Lab,
    left: Namespace,
    right: Namespace,
    middle: Namespace,
}

fn joined() -> Joined {
    let lab = Lab::new();
    let (left, middle, right) =
        (lab.namespace("left"), lab.namespace("middle"), lab.namespace("right"));
    lab.veth(&left, "l0", &middle, "m0");
    lab.veth(&right, "r0", &middle, "m1");
    for (space, interface, host) in [(&left, "l0", 1), (&right, "r0", 2)] {
        space.add_address(interface, &format!("198.18.0.{host}/24"));
        space.add_address(interface, &format!("2001:db8::{host}/64"));
    }
    Joined { lab, left, right, middle }
}

fn offloads_on(space: &Namespace, interface: &str) {
    space.expect(
        ["ethtool", "-K", interface, "tx", "on", "sg", "on", "tso", "on", "gso", "on"]
            .into_iter()
            .chain(["gro", "on", "tx-udp-segmentation", "on", "txvlan", "on", "rxvlan", "on"]),
    );
}

#[test]
#[ignore = "needs root"]
fn hosts_talk_through_a_forwarder() {
    let Joined { lab: _lab, left, right, middle } = joined();
    let arena = arena();
    let forwarder = Forwarder::start(
        &arena,
        open(&middle, &arena, "packet:m0"),
        open(&middle, &arena, "packet:m1"),
    );
    for address in ["198.18.0.2", "2001:db8::2"] {
        left.expect(["ping", "-c", "5", "-i", "0.05", "-s", "1400", address]);
    }
    let (result, counts) = forwarder.stop();
    // Not before: the interfaces between go with it.
    drop(right);
    result.unwrap();
    assert_balanced(&counts);
    assert_eq!(counts.iter().map(|side| side.dropped()).sum::<u64>(), 0, "{counts:?}");
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn streams_with_unfinished_checksums_and_segmentation_pass() {
    let Joined { lab: _lab, left, right, middle } = joined();
    for (space, interface) in [(&left, "l0"), (&right, "r0"), (&middle, "m0"), (&middle, "m1")] {
        offloads_on(space, interface);
    }
    let arena = arena();
    let forwarder = Forwarder::start(
        &arena,
        open(&middle, &arena, "packet:m0"),
        open(&middle, &arena, "packet:m1"),
    );
    let _server = right.spawn(["iperf3", "-s"]);
    let listens = || right.run(["ss", "-Hltn", "sport", "=", ":5201"]).stdout.len() > 10;
    assert!(wait_until(listens, TIMEOUT), "iperf3 does not listen");
    // The receiving host checks every checksum: a wrong one is counted.
    for extra in [&["-4"][..], &["-6"], &["-4", "-R"], &["-6", "-R"]] {
        let to = if extra[0] == "-4" { "198.18.0.2" } else { "2001:db8::2" };
        left.expect(["iperf3", "-n", "20M", "-c", to].into_iter().chain(extra.iter().copied()));
    }
    // Errors the hosts have seen: none, for every segment was as on a wire.
    for host in [&left, &right] {
        let statistics = host.expect(["nstat", "-asz", "TcpInCsumErrors", "IpInHdrErrors"]);
        for line in statistics.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split_whitespace().nth(1), Some("0"), "{line}");
        }
    }
    let (result, counts) = forwarder.stop();
    result.unwrap();
    assert_balanced(&counts);
    for side in counts {
        let bad = side.dropped_for(DropReason::Malformed) + side.dropped_for(DropReason::TooLong);
        assert_eq!(bad, 0, "{counts:?}");
    }
    // No more than a wire takes went out: the stream was segmented.
    assert!(counts[1].packets > 2 * 20_000_000 / 1448, "{counts:?}");
    assert!(counts[1].bytes / counts[1].packets <= 1514, "{counts:?}");
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn queues_share_the_packets() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    let arena = arena();
    let mut pool = arena.cache(64);
    let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
    let mut port = open(&right, &arena, "packet:r0?queues=3");
    // UDP flows: 64 source ports.
    let frames: Vec<Vec<u8>> = (0..64)
        .map(|flow| {
            let mut bytes = frame(60, &[0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17], 0);
            bytes[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 4, flow, 0, 9]);
            bytes
        })
        .collect();
    send(&mut pool, &mut *transmit, &frames);
    let mut got = Vec::new();
    let mut shares = Vec::new();
    let all = wait_until(
        || {
            shares.clear();
            for queue in &mut port.queues {
                let receive = queue.receive.as_mut().unwrap();
                let mut some = Frame::new(256);
                receive.receive(&mut pool, &mut some).unwrap();
                got.extend(arena.packets(&some).map(<[u8]>::to_vec));
                pool.give(&mut some);
                shares.push(receive.counters().read().packets);
            }
            got.len() >= frames.len()
        },
        TIMEOUT,
    );
    assert!(all, "{} of {} came", got.len(), frames.len());
    let mut sent = frames;
    got.sort();
    sent.sort();
    assert_eq!(got, sent, "each came once");
    assert!(shares.iter().filter(|&&share| share > 0).count() > 1, "{shares:?}");
}

#[test]
#[ignore = "needs root"]
fn losses_of_a_full_ring_are_counted() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    let arena = arena();
    let mut pool = arena.cache(64);
    let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
    let (mut from, _) = sides(open(&right, &arena, "packet:r0?slots=8"));
    let frames = vec![frame(60, &[0x88, 0xb5], 0); 1000];
    send(&mut pool, &mut *transmit, &frames);
    let mut got = Frame::new(2048);
    let settled = wait_until(
        || {
            from.receive(&mut pool, &mut got).unwrap();
            from.refresh();
            let counts = from.counters().read();
            counts.packets + counts.dropped_for(DropReason::Overrun) == 1000
        },
        TIMEOUT,
    );
    assert!(settled, "{:?}", from.counters().read());
    assert!(from.counters().read().dropped_for(DropReason::Overrun) > 0);
    pool.give(&mut got);
}

#[test]
#[ignore = "needs root"]
fn packets_wait_in_the_ring_while_there_is_no_buffer() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    let arena = arena();
    let mut pool = arena.cache(64);
    let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
    let (mut from, _) = sides(open(&right, &arena, "packet:r0"));
    let frames: Vec<_> = (0..50).map(|seed| frame(60, &[0x88, 0xb5], seed)).collect();
    send(&mut pool, &mut *transmit, &frames);
    let mut held = Frame::new(2048);
    pool.take(&mut held, 2048, 60);
    assert!(pool.take_one(60).is_none());
    let mut got = Frame::new(64);
    assert_eq!(from.receive(&mut pool, &mut got).unwrap(), 0);
    pool.give(&mut held);
    assert_eq!(receive(&mut pool, &mut *from, 50), frames);
}

#[test]
#[ignore = "needs root"]
fn a_frame_the_interface_refuses_does_not_stop_the_others() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    let arena = arena();
    let mut pool = arena.cache(64);
    let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
    let (mut from, _) = sides(open(&right, &arena, "packet:r0"));
    let good = frame(60, &[0x88, 0xb5], 0);
    let frames = [good.clone(), frame(1600, &[0x88, 0xb5], 0), good.clone(), vec![1; 13], good];
    let mut burst = Frame::new(8);
    put(&mut pool, &mut burst, &frames);
    assert_eq!(transmit.transmit(&mut pool, &mut burst).unwrap(), 5);
    let counts = transmit.counters().read();
    assert_eq!((counts.packets, counts.bytes), (3, 180));
    assert_eq!(counts.dropped_for(DropReason::TooLong), 1);
    assert_eq!(counts.dropped_for(DropReason::Refused), 1);
    assert_eq!(receive(&mut pool, &mut *from, 3).len(), 3);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn an_interface_set_down_and_up_goes_on() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    let arena = arena();
    let mut pool = arena.cache(64);
    let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
    let (mut from, mut other) = sides(open(&right, &arena, "packet:r0"));
    let good = vec![frame(60, &[0x88, 0xb5], 0)];
    right.link_down("r0");
    let mut burst = Frame::new(8);
    // The interface itself is down; the link of the other has no carrier.
    for transmit in [&mut other, &mut transmit] {
        put(&mut pool, &mut burst, &good);
        // The kernel tells of a lost carrier a moment after it refuses packets.
        let taken = || transmit.transmit(&mut pool, &mut burst).unwrap() == 1;
        assert!(wait_until(taken, TIMEOUT));
        assert_eq!(transmit.counters().read().dropped_for(DropReason::LinkDown), 1);
    }
    assert_eq!(from.receive(&mut pool, &mut burst).unwrap(), 0);
    // A sleep ends at once only while the socket has an error to tell.
    assert!(from.wait(TIMEOUT).unwrap());
    assert_eq!(from.receive(&mut pool, &mut burst).unwrap(), 0);
    assert!(!from.wait(std::time::Duration::from_millis(1)).unwrap());
    right.link_up("r0");
    assert!(wait_until(|| right.ip(["link", "show", "r0"]).contains("LOWER_UP"), TIMEOUT));
    assert!(wait_until(|| left.ip(["link", "show", "l0"]).contains("LOWER_UP"), TIMEOUT));
    send(&mut pool, &mut *transmit, &good);
    assert_eq!(receive(&mut pool, &mut *from, 1), good);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn a_deleted_interface_is_gone_and_a_new_one_can_be_opened() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    let arena = arena();
    let mut pool = arena.cache(64);
    for _ in 0..2 {
        lab.veth(&left, "l0", &right, "r0");
        let (mut from, mut to) = sides(open(&right, &arena, "packet:r0"));
        let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
        let good = vec![frame(60, &[0x88, 0xb5], 0)];
        send(&mut pool, &mut *transmit, &good);
        assert_eq!(receive(&mut pool, &mut *from, 1), good);
        right.delete_link("r0");
        let mut burst = Frame::new(8);
        let mut result = Ok(0);
        let gone = wait_until(
            || {
                from.wait(std::time::Duration::from_millis(10)).unwrap();
                result = from.receive(&mut pool, &mut burst);
                result.is_err()
            },
            TIMEOUT,
        );
        assert!(
            gone && result.as_ref().is_err_and(|e| matches!(e.fault(), PortFault::Gone { .. })),
            "{result:?}"
        );
        put(&mut pool, &mut burst, &good);
        let error = to.transmit(&mut pool, &mut burst).unwrap_err();
        assert!(matches!(error.fault(), PortFault::Gone { .. }), "{error}");
        assert_eq!(to.counters().read().dropped_for(DropReason::LinkDown), 1);
        // The other end went with it, and had nothing to send.
        transmit.refresh();
        let error = transmit.flush(&mut pool).unwrap_err();
        assert!(matches!(error.fault(), PortFault::Gone { .. }), "{error}");
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn errors_of_opening_come_with_advice() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "uplink0", &right, "r0");
    let arena = arena();
    let error = refused(&left, &arena, "packet:uplnik0");
    assert!(matches!(error, OpenError::NoInterface { .. }), "{error}");
    assert!(error.to_string().contains("did you mean uplink0"), "{error}");

    left.set_mtu("uplink0", 9000);
    let error = refused(&left, &arena, "packet:uplink0");
    assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
    let size = 9018 + arena.headroom();
    assert!(error.to_string().contains(&format!("--buffer-size {size}")), "{error}");
    let larger =
        ArenaOptions { size: 4 << 20, buffer_size: size, huge: false, ..Default::default() };
    let larger = larger.create().unwrap();
    open(&left, &larger, "packet:uplink0");

    left.expect(["ip", "tuntap", "add", "tun5", "mode", "tun"]);
    let error = refused(&left, &arena, "packet:tun5");
    assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");

    let error = left.enter(|| {
        // Only this thread, which ends here.
        let none = rustix::thread::CapabilitySet::empty();
        let sets =
            rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).unwrap();
        let context = linerate_port::Context::new(larger.clone());
        linerate_port::open(&"packet:uplink0".parse().unwrap(), &context).unwrap_err()
    });
    assert!(matches!(error, OpenError::Permission { .. }), "{error}");
    assert!(error.to_string().contains("cap_net_raw"), "{error}");
}

#[test]
#[ignore = "needs root"]
fn the_kernel_leaves_out_packets_that_a_program_refuses() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    left.expect(["ethtool", "-K", "l0", "txvlan", "on"]);
    let arena = arena();
    let mut pool = arena.cache(64);
    let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
    let (mut from, _) = sides(open(&right, &arena, "packet:r0"));
    let udp = |port: u8, seed| {
        let header = [8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
        let rest = [10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, port, 0, 26, 0, 0];
        frame(60, &[&header[..], &rest].concat(), seed)
    };
    let tagged = frame(64, &[0x81, 0x00, 0x00, 0x05, 0x88, 0xb5], 2);
    let frames = [udp(80, 1), tagged.clone(), udp(53, 3), frame(60, &[8, 6], 4), udp(53, 5)];
    let [http, _, one, _, other] = frames.clone();
    let program = |text: &str| Filter::new(text, Names::NONE).unwrap().program().unwrap();
    let mut crosses = |wanted: Option<&str>, expected: &[Vec<u8>]| {
        let taken = from.leave_out(wanted.map(program).as_deref());
        send(&mut pool, &mut *transmit, &frames);
        assert_eq!(receive(&mut pool, &mut *from, expected.len()), expected, "{wanted:?}");
        taken
    };
    // The kernel has the tag beside the packet.
    assert!(crosses(Some("udp port 53"), &[tagged.clone(), one.clone(), other.clone()]));
    assert!(crosses(Some("udp port 80"), &[http, tagged.clone()]));
    // Merged packets have another length.
    assert!(!crosses(Some("less 60 and udp port 53"), &frames));
    assert!(crosses(Some("udp port 53"), &[tagged, one, other]));
    assert!(!crosses(None, &frames));
    assert_eq!(from.counters().read().packets, 18);
    // One that has a filter of its own keeps it.
    let filter = Some(Arc::new(Filter::new("arp", Names::NONE).unwrap()));
    let context = linerate_port::Context { filter, ..linerate_port::Context::new(arena.clone()) };
    let port = right.enter(|| linerate_port::open(&"packet:r0".parse().unwrap(), &context));
    let (mut filtered, _) = sides(port.unwrap());
    assert!(!filtered.leave_out(Some(&program("udp port 53"))));
    assert_eq!(arena.accounting().held, 0);
}

/// Packets that the kernel has merged, has taken a tag out of or has left a checksum of unfinished
/// are decided on in the form received.
#[test]
#[ignore = "needs root"]
fn filters_decide_on_packets_as_they_are_received() {
    let lab = Lab::new();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    lab.veth(&left, "l0", &right, "r0");
    for (space, interface, host) in [(&left, "l0", 1), (&right, "r0", 2)] {
        offloads_on(space, interface);
        space.add_address(interface, &format!("198.18.0.{host}/24"));
    }
    let arena = arena();
    let mut pool = arena.cache(64);
    let (_, mut transmit) = sides(open(&left, &arena, "packet:l0"));
    let header = [0x81, 0, 0, 5, 8, 0, 0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0];
    let rest = [10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 108, 0x12, 0x34];
    let mut tagged = frame(146, &[&header[..], &rest].concat(), 1);
    *tagged.last_mut().unwrap() = 4;
    let mut received = |text: &str, count: usize| {
        let filter = Some(Arc::new(Filter::new(text, Names::NONE).unwrap()));
        let context = linerate_port::Context::new(arena.clone());
        let context = linerate_port::Context { filter, ..context };
        let port = right.enter(|| linerate_port::open(&"packet:r0".parse().unwrap(), &context));
        let mut from = port.unwrap().queues.remove(0).receive.unwrap();
        // Datagrams that cross as one, without a checksum.
        left.enter(|| {
            let socket = UdpSocket::bind("198.18.0.1:7").unwrap();
            set_option(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 100).unwrap();
            let datagrams = [[1; 100], [2; 100], [3; 100]].concat();
            socket.send_to(&datagrams, "198.18.0.2:9").unwrap();
        });
        send(&mut pool, &mut *transmit, std::slice::from_ref(&tagged));
        let packets = receive(&mut pool, &mut *from, count);
        // The scenario: time in which packets that are not wanted, and were sent before the others, would come.
        thread::sleep(Duration::from_millis(20));
        let mut more = Frame::new(8);
        assert_eq!(from.receive(&mut pool, &mut more).unwrap(), 0, "{text}");
        packets
    };
    let seen = |packets: &[Vec<u8>]| -> Vec<(usize, u8)> {
        packets.iter().map(|packet| (packet.len(), packet[packet.len() - 1])).collect()
    };
    // Once, so that the hosts know each other.
    received("udp dst port 9", 3);
    let all = received("udp dst port 9 or (vlan 5 and udp dst port 9)", 4);
    assert_eq!(seen(&all), [(142, 1), (142, 2), (142, 3), (146, 4)]);
    let mut wanted = |text: &str, expected: &[u8]| {
        let packets = received(text, expected.len());
        let last: Vec<u8> = packets.iter().map(|packet| packet[packet.len() - 1]).collect();
        assert_eq!(last, expected, "{text}");
    };
    wanted("vlan 5 and udp dst port 9 and greater 146", &[4]);
    wanted("vlan 5 and udp[6:2] = 0x1234", &[4]);
    wanted("udp dst port 9 and less 150", &[1, 2, 3]);
    let sum = u16::from_be_bytes([all[1][40], all[1][41]]);
    wanted(&format!("udp dst port 9 and udp[6:2] = {sum}"), &[2]);
}

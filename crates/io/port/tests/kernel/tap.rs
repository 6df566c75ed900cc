//! `tap:` ports against the kernel: frames as they were, its network stack at
//! the other end, and interfaces that are set down, deleted or not to be had.

use std::{collections::BTreeSet, time::Duration};

use linerate_memory::{Arena, ArenaOptions, Frame};
use linerate_port::{Counts, DropReason, OpenError, Port, PortFault};
use linerate_test_support::{Lab, Namespace, wait_until};

use crate::support::{
    Forwarder, TIMEOUT, arena, assert_balanced, assortment, frame, open, put, receive, refused,
    send, sides, try_open,
};

/// Returns true if an interface that was closed has vanished. A program another test starts just
/// then holds on to our descriptors until it runs, which is soon.
fn vanishes(space: &Namespace, interface: &str) -> bool {
    wait_until(|| !space.ip(["-brief", "link"]).contains(interface), TIMEOUT)
}

/// Opens a port whose interface was just closed, which may be busy for as long
/// as [`vanishes`] may take.
fn reopen(space: &Namespace, arena: &Arena, uri: &str) -> Port {
    let mut opened = None;
    let free = || {
        opened = match try_open(space, arena, uri) {
            Err(OpenError::Busy { .. }) => None,
            other => Some(other),
        };
        opened.is_some()
    };
    assert!(wait_until(free, TIMEOUT), "{uri} is busy for ever");
    opened.unwrap().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[ignore = "needs root"]
fn frames_cross_unchanged() {
    let lab = Lab::new();
    for options in ["", "?vnet"] {
        let space = lab.namespace("tap");
        let arena = arena();
        let mut pool = arena.cache(64);
        let port = open(&space, &arena, &format!("tap:t0{options}"));
        assert_eq!(port.info.interface.as_deref(), Some("t0"));
        assert_eq!(port.info.mac.map(|mac| mac.0), Some(space.mac("t0")));
        assert_eq!(port.info.frame_limit, Some(1518));
        let (mut from_tap, mut to_tap) = sides(port);
        let (mut from_socket, mut to_socket) = sides(open(&space, &arena, "packet:t0"));
        let frames = assortment();
        let bytes = frames.iter().map(Vec::len).sum::<usize>() as u64;
        send(&mut pool, &mut *to_socket, &frames);
        assert_eq!(receive(&mut pool, &mut *from_tap, frames.len()), frames);
        send(&mut pool, &mut *to_tap, &frames);
        assert_eq!(receive(&mut pool, &mut *from_socket, frames.len()), frames);
        for counters in [from_tap.counters(), to_tap.counters()] {
            let counts = counters.read();
            let expected = (frames.len() as u64, bytes, 0);
            assert_eq!((counts.packets, counts.bytes, counts.dropped()), expected);
        }
        // Packets sent by us did not come back, and the sleep is a sleep.
        let mut none = Frame::new(8);
        assert_eq!(from_tap.receive(&mut pool, &mut none).unwrap(), 0);
        assert!(!from_tap.wait(Duration::from_millis(1)).unwrap());
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn it_vanishes_with_the_port_unless_it_was_there_before() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    let port = open(&space, &arena, "tap:t0?mac=02:00:00:00:00:07&mtu=1400&addr=198.18.0.1/24");
    assert_eq!(port.info.frame_limit, Some(1418));
    assert_eq!(space.mac("t0"), [2, 0, 0, 0, 0, 7]);
    let shown = space.ip(["address", "show", "t0"]);
    assert!(shown.contains("mtu 1400") && shown.contains("198.18.0.1/24"), "{shown}");
    assert!(space.ip(["route"]).contains("198.18.0.0/24 dev t0"));
    drop(port);
    assert!(vanishes(&space, "t0"));

    drop(open(&space, &arena, "tap:t0?up=no"));
    assert!(vanishes(&space, "t0"));
    let port = open(&space, &arena, "tap:t0?up=no");
    assert!(!space.ip(["link", "show", "t0"]).contains(",UP"));
    drop(port);

    // Of one queue and of several: each is attached to as it is.
    for kind in [&["mode", "tap"][..], &["mode", "tap", "multi_queue"]] {
        space.expect(["ip", "tuntap", "add", "t1"].into_iter().chain(kind.iter().copied()));
        for options in ["", "?vnet", ""] {
            let port = reopen(&space, &arena, &format!("tap:t1{options}"));
            assert!(port.info.mode.contains("attached"), "{}", port.info.mode);
        }
        assert!(space.ip(["-brief", "link"]).contains("t1"));
        space.delete_link("t1");
    }
    assert_eq!(arena.accounting().held, 0);
}

/// Two hosts, each behind a tap interface, joined by a forwarder.
fn hosts(lab: &Lab, options: &str) -> (Namespace, Namespace, Arena, Forwarder) {
    let arena = arena();
    let (left, right) = (lab.namespace("left"), lab.namespace("right"));
    let mut ports = Vec::new();
    for (space, host) in [(&left, 1), (&right, 2)] {
        space.set("net/ipv6/conf/default/disable_ipv6", "0");
        let uri = format!("tap:t0?addr=198.18.0.{host}/24{options}");
        ports.push(open(space, &arena, &uri));
        space.add_address("t0", &format!("2001:db8::{host}/64"));
    }
    let (b, a) = (ports.pop().unwrap(), ports.pop().unwrap());
    let forwarder = Forwarder::start(&arena, a, b);
    (left, right, arena, forwarder)
}

#[test]
#[ignore = "needs root"]
fn streams_pass_between_two_hosts() {
    let lab = Lab::new();
    for options in ["", "&vnet"] {
        let (left, right, arena, forwarder) = hosts(&lab, options);
        for address in ["198.18.0.2", "2001:db8::2"] {
            left.expect(["ping", "-c", "5", "-i", "0.05", "-s", "1400", address]);
        }
        let _server = right.spawn(["iperf3", "-s"]);
        let listens = || right.run(["ss", "-Hltn", "sport", "=", ":5201"]).stdout.len() > 10;
        assert!(wait_until(listens, TIMEOUT), "iperf3 does not listen");
        for to in ["198.18.0.2", "2001:db8::2"] {
            left.expect(["iperf3", "-n", "20M", "-c", to]);
            left.expect(["iperf3", "-n", "2M", "-u", "-b", "200M", "-c", to]);
        }
        // The receiving host checks every checksum: a wrong one is counted.
        for host in [&left, &right] {
            let names = ["TcpInCsumErrors", "UdpInCsumErrors", "IpInHdrErrors"];
            let statistics = host.expect(["nstat", "-asz"].into_iter().chain(names));
            let mut seen = 0;
            for line in statistics.lines().filter(|line| !line.starts_with('#')) {
                assert_eq!(line.split_whitespace().nth(1), Some("0"), "{line}");
                seen += 1;
            }
            assert_eq!(seen, names.len(), "{statistics}");
        }
        let handed_over = left.counters("t0").tx_packets;
        let (result, counts) = forwarder.stop();
        result.unwrap();
        assert_balanced(&counts);
        // A loaded machine may be too slow for TCP's first burst.
        let lost = |side: &Counts| side.dropped() - side.dropped_for(DropReason::Overrun);
        assert_eq!(counts.iter().map(lost).sum::<u64>(), 0, "{counts:?}");
        // With virtio headers the kernel hands over several segments at once.
        let merged = counts[0].packets > 2 * handed_over;
        assert_eq!(merged, options == "&vnet", "{handed_over} of {counts:?}");
        // No more than a wire takes went out: the streams were segmented.
        assert!(counts[1].packets > 2 * 20_000_000 / 1448, "{counts:?}");
        assert!(counts[1].bytes / counts[1].packets <= 1514, "{counts:?}");
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn an_ipv6_address_can_be_used_at_once_or_says_why_not() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    // A namespace of the lab has no IPv6 until told.
    let error = refused(&space, &arena, "tap:t0?addr=2001:db8::1/64").to_string();
    assert!(error.contains("net.ipv6.conf.t0.disable_ipv6=0"), "{error}");
    assert!(vanishes(&space, "t0"));
    space.set("net/ipv6/conf/default/disable_ipv6", "0");
    let _port = open(&space, &arena, "tap:t0?addr=2001:db8::1/64");
    let shown = space.ip(["-6", "address", "show", "dev", "t0", "scope", "global"]);
    assert!(shown.contains("2001:db8::1/64") && !shown.contains("tentative"), "{shown}");
}

#[test]
#[ignore = "needs root"]
fn queues_share_the_packets() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    let mut pool = arena.cache(64);
    let mut port = open(&space, &arena, "tap:t0?queues=3");
    let (_, mut to_socket) = sides(open(&space, &arena, "packet:t0?qdisc=on"));
    assert_eq!(port.queues.len(), 3);
    // UDP flows: 64 source ports.
    let frames: Vec<Vec<u8>> = (0..64)
        .map(|flow| {
            let mut bytes = frame(60, &[0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17], 0);
            bytes[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 4, flow, 0, 9]);
            bytes
        })
        .collect();
    send(&mut pool, &mut *to_socket, &frames);
    let (mut got, mut shares) = (BTreeSet::new(), [0; 3]);
    let all = wait_until(
        || {
            for (queue, share) in port.queues.iter_mut().zip(&mut shares) {
                let mut some = Frame::new(256);
                let receive = queue.receive.as_mut().unwrap();
                *share += receive.receive(&mut pool, &mut some).unwrap();
                got.extend(arena.packets(&some).map(<[u8]>::to_vec));
                pool.give(&mut some);
            }
            got.len() >= frames.len()
        },
        TIMEOUT,
    );
    assert!(all, "{} of {} came", got.len(), frames.len());
    assert_eq!(shares.iter().sum::<usize>(), frames.len(), "each came once: {shares:?}");
    assert_eq!(got, frames.iter().cloned().collect());
    assert!(shares.iter().filter(|&&share| share > 0).count() > 1, "{shares:?}");

    let (mut from_socket, _) = sides(open(&space, &arena, "packet:t0"));
    for (queue, bytes) in port.queues.iter_mut().zip(&frames) {
        send(&mut pool, &mut **queue.transmit.as_mut().unwrap(), std::slice::from_ref(bytes));
    }
    assert_eq!(receive(&mut pool, &mut *from_socket, 3), frames[..3]);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn frames_wait_in_the_kernel_while_there_is_no_buffer() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    let mut pool = arena.cache(64);
    let (mut from_tap, _) = sides(open(&space, &arena, "tap:t0"));
    let (_, mut to_socket) = sides(open(&space, &arena, "packet:t0"));
    let frames: Vec<_> = (0..50).map(|seed| frame(60, &[0x88, 0xb5], seed)).collect();
    send(&mut pool, &mut *to_socket, &frames);
    let mut held = Frame::new(2048);
    pool.take(&mut held, 2048, 60);
    assert!(pool.take_one(60).is_none());
    let mut got = Frame::new(64);
    assert_eq!(from_tap.receive(&mut pool, &mut got).unwrap(), 0);
    assert_eq!(from_tap.counters().read().dropped(), 0);
    pool.give(&mut held);
    assert_eq!(receive(&mut pool, &mut *from_tap, 50), frames);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn losses_of_a_full_queue_are_counted() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    let mut pool = arena.cache(64);
    let mut port = open(&space, &arena, "tap:t0?queues=2");
    let (_, mut to_socket) = sides(open(&space, &arena, "packet:t0?qdisc=on"));
    send(&mut pool, &mut *to_socket, &vec![frame(60, &[0x88, 0xb5], 0); 3000]);
    let mut got = Frame::new(2048);
    let mut counts = Counts::default();
    let settled = wait_until(
        || {
            counts = Counts::default();
            for queue in &mut port.queues {
                let receive = queue.receive.as_mut().unwrap();
                receive.receive(&mut pool, &mut got).unwrap();
                pool.give(&mut got);
                receive.refresh();
                counts += receive.counters().read();
            }
            counts.packets + counts.dropped_for(DropReason::Overrun) == 3000
        },
        TIMEOUT,
    );
    assert!(settled && counts.dropped_for(DropReason::Overrun) > 0, "{counts:?}");
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn a_frame_longer_than_a_buffer_is_dropped_and_the_longest_is_not() {
    let lab = Lab::new();
    for options in ["", "?vnet"] {
        let space = lab.namespace("tap");
        let arena = arena();
        let mut pool = arena.cache(64);
        let (mut from_tap, _) = sides(open(&space, &arena, &format!("tap:t0{options}")));
        // Another changes the MTU under the port.
        space.set_mtu("t0", 9000);
        let larger =
            ArenaOptions { size: 4 << 20, buffer_size: 10_000, huge: false, ..Default::default() };
        let larger = larger.create().unwrap();
        let mut larger_pool = larger.cache(64);
        let (_, mut to_socket) = sides(open(&space, &larger, "packet:t0"));
        let room = arena.room();
        let lengths = [60, room, room + 1, 9014, 61];
        let frames = lengths.map(|length| frame(length, &[0x88, 0xb5], 5));
        send(&mut larger_pool, &mut *to_socket, &frames);
        let good = [frames[0].clone(), frames[1].clone(), frames[4].clone()];
        assert_eq!(receive(&mut pool, &mut *from_tap, 3), good);
        let counts = from_tap.counters().read();
        assert_eq!((counts.dropped_for(DropReason::TooLong), counts.dropped()), (2, 2));
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn a_frame_the_kernel_refuses_does_not_stop_the_others() {
    let lab = Lab::new();
    for options in ["", "?vnet"] {
        let space = lab.namespace("tap");
        let arena = arena();
        let mut pool = arena.cache(64);
        let (_, mut to_tap) = sides(open(&space, &arena, &format!("tap:t0{options}")));
        let (mut from_socket, _) = sides(open(&space, &arena, "packet:t0"));
        let good = frame(60, &[0x88, 0xb5], 0);
        let frames = [good.clone(), vec![1; 13], vec![], good.clone()];
        let mut burst = Frame::new(8);
        put(&mut pool, &mut burst, &frames);
        assert_eq!(to_tap.transmit(&mut pool, &mut burst).unwrap(), 4);
        let counts = to_tap.counters().read();
        assert_eq!((counts.packets, counts.bytes), (2, 120));
        assert_eq!((counts.dropped_for(DropReason::Malformed), counts.dropped()), (2, 2));
        assert_eq!(receive(&mut pool, &mut *from_socket, 2), [good.clone(), good]);
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn an_interface_set_down_and_up_goes_on() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    let mut pool = arena.cache(64);
    let (mut from_tap, mut to_tap) = sides(open(&space, &arena, "tap:t0"));
    let good = vec![frame(60, &[0x88, 0xb5], 0); 3];
    space.link_down("t0");
    let mut burst = Frame::new(8);
    put(&mut pool, &mut burst, &good);
    assert_eq!(to_tap.transmit(&mut pool, &mut burst).unwrap(), 3);
    assert_eq!(to_tap.counters().read().dropped_for(DropReason::LinkDown), 3);
    assert_eq!(from_tap.receive(&mut pool, &mut burst).unwrap(), 0);
    assert!(!from_tap.wait(Duration::from_millis(1)).unwrap());
    space.link_up("t0");
    let (mut from_socket, mut to_socket) = sides(open(&space, &arena, "packet:t0"));
    send(&mut pool, &mut *to_tap, &good);
    assert_eq!(receive(&mut pool, &mut *from_socket, 3), good);
    send(&mut pool, &mut *to_socket, &good);
    assert_eq!(receive(&mut pool, &mut *from_tap, 3), good);
    assert_eq!(arena.accounting().held, 0);
}

#[test]
#[ignore = "needs root"]
fn a_deleted_interface_is_gone_and_a_new_one_can_be_opened() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    let mut pool = arena.cache(64);
    for _ in 0..2 {
        let (mut from_tap, mut to_tap) = sides(open(&space, &arena, "tap:t0"));
        space.delete_link("t0");
        // A sleep ends at once, for there is something to hear.
        assert!(from_tap.wait(TIMEOUT).unwrap());
        let mut burst = Frame::new(8);
        // A sender with nothing to send learns it as well.
        assert_eq!(to_tap.flush(&mut pool).unwrap(), 0);
        to_tap.refresh();
        let error = to_tap.flush(&mut pool).unwrap_err();
        assert!(matches!(error.fault(), PortFault::Gone { .. }), "{error}");
        let error = from_tap.receive(&mut pool, &mut burst).unwrap_err();
        assert!(matches!(error.fault(), PortFault::Gone { .. }), "{error}");
        put(&mut pool, &mut burst, &[frame(60, &[0x88, 0xb5], 0)]);
        let error = to_tap.transmit(&mut pool, &mut burst).unwrap_err();
        assert!(matches!(error.fault(), PortFault::Gone { .. }), "{error}");
        assert_eq!(to_tap.counters().read().dropped_for(DropReason::LinkDown), 1);
        assert_eq!(arena.accounting().held, 0);
    }
}

#[test]
#[ignore = "needs root"]
fn a_tap_that_is_moved_to_another_namespace_works_there() {
    let lab = Lab::new();
    let (space, guest) = (lab.namespace("tap"), lab.namespace("guest"));
    let arena = arena();
    let mut pool = arena.cache(64);
    let port = open(&space, &arena, "tap:t0");
    let link = port.info.link.clone().unwrap();
    space.ip(["link", "set", "t0", "netns", guest.name()]);
    assert!(wait_until(|| link.detail().contains("another network namespace"), TIMEOUT));
    assert!(link.is_up());
    guest.ip(["link", "set", "t0", "up"]);
    let (mut from_tap, mut to_tap) = sides(port);
    let (mut from_socket, mut to_socket) = sides(open(&guest, &arena, "packet:t0"));
    let frames = assortment();
    send(&mut pool, &mut *to_socket, &frames);
    assert_eq!(receive(&mut pool, &mut *from_tap, frames.len()), frames);
    to_tap.refresh();
    send(&mut pool, &mut *to_tap, &frames);
    assert_eq!(receive(&mut pool, &mut *from_socket, frames.len()), frames);
}

#[test]
#[ignore = "needs root"]
fn errors_of_opening_come_with_advice() {
    let lab = Lab::new();
    let space = lab.namespace("tap");
    let arena = arena();
    let _port = open(&space, &arena, "tap:t0");
    let error = refused(&space, &arena, "tap:t0");
    assert!(matches!(error, OpenError::Busy { .. }), "{error}");

    let error = refused(&space, &arena, "tap:t0?queues=2");
    assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("multi_queue"), "{error}");

    for name in ["lo", "tun5"] {
        space.run(["ip", "tuntap", "add", "tun5", "mode", "tun"]);
        let error = refused(&space, &arena, &format!("tap:{name}"));
        assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("not a tap"), "{error}");
    }

    let error = refused(&space, &arena, "tap:t1?mtu=9000");
    assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
    let size = 9018 + arena.headroom();
    assert!(error.to_string().contains(&format!("--buffer-size {size}")), "{error}");
    assert!(vanishes(&space, "t1"));

    let error = space.enter(|| {
        // Only this thread, which ends here.
        let none = rustix::thread::CapabilitySet::empty();
        let sets =
            rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets).unwrap();
        let context = linerate_port::Context::new(arena.clone());
        linerate_port::open(&"tap:t1".parse().unwrap(), &context).unwrap_err()
    });
    assert!(matches!(error, OpenError::Permission { .. }), "{error}");
    assert!(error.to_string().contains("cap_net_admin"), "{error}");
}

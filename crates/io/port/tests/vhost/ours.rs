//! Our driver and our device, of one process.

use linerate_memory::Frame;
use linerate_port::{Context, Copies, DropReason};

use crate::rig::{Station, all_come_home, arena, packets, socket, wait_for};

/// A device and a driver with these options, both up.
fn pair(device: &str, driver: &str) -> [Station; 2] {
    let socket = socket();
    let open = |options: &str| Station::with(&format!("vhost:{socket}?{options}"), 9600);
    // The listening side is there first.
    let stations = if device.contains("side=client") {
        let driver = open(driver);
        [open(device), driver]
    } else {
        let device = open(device);
        [device, open(driver)]
    };
    stations.iter().for_each(Station::wait_up);
    stations
}

#[track_caller]
fn both_ways(stations: &mut [Station; 2], queue: usize, sent: &[Vec<u8>], text: &str) {
    for (from, to) in [(0, 1), (1, 0)] {
        // A side that lends buffers lends them when it looks for packets.
        assert!(stations[to].take(queue).is_empty());
        for some in sent.chunks(32) {
            stations[from].send(queue, some);
            let came = stations[to].expect(queue, some.len());
            assert!(came == some, "bytes differ, {from} to {to}, queue {queue}: {text}");
        }
    }
}

#[test]
fn every_combination_of_ours_passes_packets_both_ways() {
    let lengths = [60, 61, 64, 127, 128, 1000, 1514, 2047, 2048, 2049, 4096, 9000];
    for (number, options) in (0..16).map(|bits: usize| {
        let word = |bit: usize| if bits >> bit & 1 == 1 { "yes" } else { "no" };
        let (packed, mergeable, zero_copy, indirect) = (word(0), word(1), word(2), word(3));
        let options = format!("packed={packed}&mergeable={mergeable}&zero-copy={zero_copy}");
        (bits, format!("{options}&indirect={indirect}"))
    }) {
        let queues = 1 + number % 3 / 2;
        let side = [("server", "client"), ("client", "server")][number % 2];
        let device = format!("side={}&queues={queues}", side.0);
        let driver = format!("role=driver&side={}&queues={queues}&slots=64&{options}", side.1);
        let mut stations = pair(&device, &driver);
        let text = format!("{driver}: {}", stations[1].detail());
        assert_eq!(
            stations[1].detail().contains("packed"),
            options.contains("packed=yes"),
            "{text}"
        );
        let copies = if options.contains("zero-copy=yes") { Copies::None } else { Copies::Driver };
        assert_eq!(stations[1].port.info.copies, copies);
        let sent = packets(lengths);
        let small = packets((0..500).map(|at| 60 + at % 1455));
        for queue in 0..queues {
            both_ways(&mut stations, queue, &sent, &text);
            both_ways(&mut stations, queue, &small, &text);
        }
        for at in 0..2 {
            let counts = (stations[at].sent(), stations[1 - at].received());
            assert_eq!((counts.0.dropped(), counts.1.dropped()), (0, 0), "{text}");
            assert_eq!((counts.0.packets, counts.0.bytes), (counts.1.packets, counts.1.bytes));
        }
        let arenas = stations.each_ref().map(|station| station.arena.clone());
        // The driver first, and the device first.
        let [device, driver] = stations;
        if number % 4 < 2 {
            drop(driver);
            device.wait_down();
        } else {
            drop(device);
            driver.wait_down();
        }
        for arena in arenas {
            all_come_home(&arena);
        }
    }
}

#[test]
fn a_packet_with_two_owners_is_lent_as_it_is() {
    for (packed, indirect) in [("yes", "yes"), ("yes", "no"), ("no", "yes"), ("no", "no")] {
        let driver = format!("role=driver&zero-copy&packed={packed}&indirect={indirect}");
        let [mut device, mut driver] = pair("", &driver);
        let mut slot = driver.pool.take_one(100).unwrap();
        driver.arena.packet_mut(&mut slot).unwrap().fill(7);
        let copy = driver.pool.share(&mut slot).unwrap();
        let mut frame = Frame::new(2);
        frame.push(slot).unwrap();
        frame.push(copy).unwrap();
        let Station { pool, port, .. } = &mut driver;
        let transmit = port.queues[0].transmit.as_mut().unwrap();
        assert_eq!(transmit.transmit(pool, &mut frame).unwrap(), 2);
        assert_eq!(device.expect(0, 2), [[7; 100]; 2]);
        wait_for("the packet to come back", || {
            driver.port.queues[0].transmit.as_mut().unwrap().flush(&mut driver.pool).unwrap() == 0
        });
    }
}

/// Either side goes and comes back, and the other stays.
#[test]
fn either_of_ours_comes_back() {
    for (zero_copy, packed) in [("no", "yes"), ("yes", "no"), ("yes", "yes")] {
        let socket = socket();
        let device = || Station::open(&format!("vhost:{socket}"));
        let uri = format!("vhost:{socket}?role=driver&zero-copy={zero_copy}&packed={packed}");
        let sent = packets([60, 1514]);
        let mut stations = [device(), Station::open(&uri)];
        for round in 0..6 {
            stations.iter().for_each(Station::wait_up);
            // Some are on the way while one of them goes.
            both_ways(&mut stations, 0, &sent, &uri);
            (0..2).for_each(|at| stations[at].send(0, &sent));
            let [device_before, driver_before] = stations;
            let (kept, before) = if round % 2 == 0 {
                (driver_before, device_before)
            } else {
                (device_before, driver_before)
            };
            let gone = before.arena.clone();
            drop(before);
            all_come_home(&gone);
            kept.wait_down();
            let mut kept = kept;
            let before = kept.sent().dropped();
            kept.send(0, &sent);
            let dropped = kept.sent().dropped_for(DropReason::LinkDown);
            assert_eq!(dropped - before, sent.len() as u64);
            while !kept.take(0).is_empty() {}
            stations = if round % 2 == 0 { [device(), kept] } else { [kept, Station::open(&uri)] };
        }
    }
}

#[test]
fn impossible_options_are_refused() {
    for (options, reason) in [
        ("slots=64", "slots"),
        ("role=driver&slots=32768&zero-copy", "half"),
        ("role=guest", "role"),
        ("role=driver&slots=1", "slots"),
    ] {
        let uri = format!("vhost:{}?{options}", socket()).parse().unwrap();
        let error = linerate_port::open(&uri, &Context::new(arena(2112))).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

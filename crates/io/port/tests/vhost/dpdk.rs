//! DPDK as the peer: testpmd sends back what it receives, on the queue it came by.

use std::{thread, time::Duration};

use crate::{
    is_by_itself,
    load::{Load, let_go, resources, restarts, settled},
    rig::{Station, all_come_home, packets, socket, wait_for},
    testpmd::{Setup, Testpmd, alone},
};

/// A path: DPDK knows no abstract sockets here.
fn path() -> String {
    let name = socket();
    format!("/tmp/{}.sock", name.trim_start_matches('@'))
}

/// Frames of several pieces.
const SCATTER: &str = "--enable-scatter";

/// A testpmd with this device at a socket.
fn start(socket: &str, device: &str, queues: usize, engine: &str) -> Testpmd {
    let long = ["--total-num-mbufs=8192", "--tx-offloads=0x8000", "--max-pkt-len=9600", SCATTER];
    let arguments = match device {
        // That takes frames of any length.
        device if device.starts_with("net_vhost") => &long[..2],
        device if device.contains("mrg_rxbuf=0") => &long[..1],
        _ => &long[..],
    };
    let name = socket.trim_start_matches("/tmp/").trim_end_matches(".sock");
    Testpmd::start(&Setup { name, device, megabytes: "96", arguments, queues, engine })
}

/// Sends packets and expects them back.
#[track_caller]
fn echo(station: &mut Station, queue: usize, sent: &[Vec<u8>], at_a_time: usize) {
    for some in sent.chunks(at_a_time) {
        station.send(queue, some);
        let back = station.expect(queue, some.len());
        assert!(back == some, "bytes differ, queue {queue}");
    }
}

/// Waits until packets come back by each queue, and nothing is on its way.
#[track_caller]
fn settle(station: &mut Station, queues: usize) {
    let sent = packets([60]);
    wait_for("the first packet to come back", || {
        (0..queues).all(|queue| {
            station.send(queue, &sent);
            thread::sleep(Duration::from_millis(2));
            !station.take(queue).is_empty()
        })
    });
    // One of another length comes back behind all of these.
    let last = packets([61]);
    for queue in 0..queues {
        station.send(queue, &last);
        wait_for("the last packet to come back", || station.take(queue).contains(&last[0]));
    }
}

/// Packets to a driver of DPDK's and back.
fn to_a_driver(device: &str, queues: usize, listens: bool, indirect: bool, longest: usize) {
    let socket = path();
    let side = if listens { "server" } else { "client" };
    let indirect = if indirect { "yes" } else { "no" };
    let uri = format!("vhost:{socket}?side={side}&queues={queues}&indirect={indirect}");
    let theirs = if listens { "" } else { ",server=1" };
    let device = format!("net_virtio_user0,path={socket},queues={queues}{theirs},{device}");
    there_and_back(&socket, &uri, &device, queues, longest);
}

/// Packets to a device of DPDK's and back.
fn to_a_device(options: &str, queues: usize, listens: bool, longest: usize) {
    let socket = path();
    let side = if listens { "server" } else { "client" };
    let uri = format!("vhost:{socket}?role=driver&side={side}&queues={queues}&{options}");
    let theirs = if listens { ",client=1" } else { "" };
    let device = format!("net_vhost0,iface={socket},queues={queues}{theirs}");
    there_and_back(&socket, &uri, &device, queues, longest);
}

fn there_and_back(socket: &str, uri: &str, device: &str, queues: usize, longest: usize) {
    let mut station = Station::with(uri, 9600);
    let mut testpmd = start(socket, device, queues, "io");
    station.wait_up();
    let text = format!("{uri} with {device}: {}", station.detail());
    settle(&mut station, queues);
    let (before, ours) = (testpmd.counts(), (station.sent(), station.received()));
    let lengths = [60, 61, 64, 127, 128, 1000, 1514, 2047, 2048, 2049, 4096, 9000];
    let sent = packets(lengths.into_iter().filter(|&length| length <= longest));
    let small = packets((0..2000).map(|at| 60 + at % 1455));
    for queue in 0..queues {
        echo(&mut station, queue, &sent, 1);
        echo(&mut station, queue, &small, 32);
    }
    let (out, back) = (station.sent() - ours.0, station.received() - ours.1);
    assert_eq!((out.dropped(), back.dropped()), (0, 0), "{text}");
    let after = testpmd.counts();
    assert_eq!((after.0 - before.0, after.1 - before.1), (out.packets, back.packets), "{text}");
    drop(testpmd);
    station.wait_down();
    let arena = station.arena.clone();
    drop(station);
    all_come_home(&arena);
    let _ = std::fs::remove_file(socket);
}

/// All that four settings can be which are on or off.
fn all_of_four() -> impl Iterator<Item = [usize; 4]> {
    (0..16).map(|bits| [bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3])
}

#[test]
#[ignore = "needs root"]
fn vhost_device_with_a_driver_of_dpdk() {
    let _alone = alone();
    for [packed, mergeable, indirect, more] in all_of_four() {
        // Each with half of the others.
        let in_order = packed ^ mergeable ^ indirect ^ more;
        let listens = packed ^ mergeable;
        let device = format!("packed_vq={packed},mrg_rxbuf={mergeable},in_order={in_order}");
        let longest = if mergeable == 1 { 9000 } else { 2000 };
        to_a_driver(&device, 1 + more, listens == 1, indirect == 1, longest);
    }
}

#[test]
#[ignore = "needs root"]
fn vhost_driver_with_a_device_of_dpdk() {
    let _alone = alone();
    for [packed, mergeable, indirect, more] in all_of_four() {
        // Each with half of the others.
        let zero_copy = packed ^ mergeable ^ indirect ^ more;
        let listens = mergeable ^ indirect;
        let [packed, mergeable, indirect, zero_copy] =
            [packed, mergeable, indirect, zero_copy].map(|on| ["no", "yes"][on]);
        let options = format!("packed={packed}&mergeable={mergeable}&zero-copy={zero_copy}");
        let options = format!("{options}&indirect={indirect}&slots=128");
        to_a_device(&options, 1 + more, listens == 1, 9000);
    }
}

fn is_up(station: &Station) -> bool {
    station.port.info.link.as_ref().unwrap().is_up()
}

/// A driver of ours in the forms that differ most.
const DRIVERS: [&str; 2] = ["packed=no&zero-copy=no", "packed=yes&zero-copy=yes"];

/// testpmd is killed while packets go both ways, and another one comes. `device` names its device,
/// by the socket.
fn they_come_and_go(options: &str, device: impl Fn(&str) -> String) {
    let socket = path();
    let uri = format!("vhost:{socket}?{options}");
    let mut station = Station::open(&uri);
    let mut load = Load::default();
    let mut steady = None;
    for _ in 0..restarts() {
        let testpmd = start(&socket, &device(&socket), 1, "io");
        load.run(&mut station, is_up);
        load.flow(&mut station, 1000);
        drop(testpmd);
        load.run(&mut station, |station| !is_up(station));
        // Packets that were on the way.
        while !station.take(0).is_empty() {}
        let steady = *steady.get_or_insert_with(|| settled(&mut station));
        wait_for("all that belonged to the connection to go", || {
            let_go(&mut station);
            resources() == steady
        });
    }
    let counts = station.sent();
    assert_eq!(counts.packets + counts.dropped(), load.taken);
    let arena = station.arena.clone();
    drop(station);
    all_come_home(&arena);
    println!("{uri}, {}: {} times, {} packets back", device(""), restarts(), load.back);
}

/// Ours goes while packets go both ways, and comes back to the same peer.
fn we_come_and_go(options: &str, device: impl Fn(&str) -> String) {
    let socket = path();
    let uri = format!("vhost:{socket}?side=client&{options}");
    let mut testpmd = start(&socket, &device(&socket), 1, "io");
    let mut load = Load::default();
    for round in 0..restarts() + 1 {
        let mut station = Station::open(&uri);
        load.run(&mut station, |station| is_up(station) || testpmd.died_of().is_some());
        assert_eq!(testpmd.died_of(), None, "round {round}");
        load.flow(&mut station, 1000);
        let arena = station.arena.clone();
        drop(station);
        all_come_home(&arena);
    }
    drop(testpmd);
    let _ = std::fs::remove_file(socket);
    println!("{uri}, {}: {} times, {} packets back", device(""), restarts(), load.back);
}

#[test]
#[ignore = "needs root"]
fn vhost_drivers_of_dpdk_come_and_go() {
    let _alone = alone();
    if !is_by_itself("dpdk::vhost_drivers_of_dpdk_come_and_go") {
        return;
    }
    let before = resources();
    for packed in [0, 1] {
        they_come_and_go("", |socket| format!("net_virtio_user0,path={socket},packed_vq={packed}"));
    }
    wait_for("all they had to be let go", || resources() == before);
}

#[test]
#[ignore = "needs root"]
fn vhost_devices_of_ours_come_and_go() {
    let _alone = alone();
    for packed in [0, 1] {
        we_come_and_go("", |socket| {
            format!("net_virtio_user0,path={socket},server=1,packed_vq={packed}")
        });
    }
}

#[test]
#[ignore = "needs root"]
fn vhost_devices_of_dpdk_come_and_go() {
    let _alone = alone();
    if !is_by_itself("dpdk::vhost_devices_of_dpdk_come_and_go") {
        return;
    }
    let before = resources();
    for options in DRIVERS {
        they_come_and_go(&format!("role=driver&side=server&{options}"), |socket| {
            format!("net_vhost0,iface={socket},client=1")
        });
    }
    wait_for("all they had to be let go", || resources() == before);
}

#[test]
#[ignore = "needs root"]
fn vhost_drivers_of_ours_come_and_go() {
    let _alone = alone();
    for options in DRIVERS {
        we_come_and_go(&format!("role=driver&{options}"), |socket| {
            format!("net_vhost0,iface={socket}")
        });
    }
}

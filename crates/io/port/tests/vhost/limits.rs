//! Limits of the resources that a driver uses of a device's process, and of its messages.

use std::os::fd::AsFd;

use linerate_test_support::{
    descriptors::{Descriptor, KINDS, memory},
    stalling::{
        self,
        vhost::{Frontend, Stage},
    },
};

use crate::rig::{Station, in_time, packets, socket, wait_for};

/// The next driver gets its packets.
#[track_caller]
fn the_next_is_served(station: &mut Station, name: &str) {
    let mut driver = Station::open(&format!("vhost:{name}?role=driver&slots=64"));
    driver.wait_up();
    wait_for("the driver to be seen", || station.detail().starts_with("a driver"));
    let sent = packets([60, 1514]);
    driver.send(0, &sent);
    assert_eq!(station.expect(0, 2), sent);
    station.send(0, &sent);
    assert_eq!(driver.expect(0, 2), sent);
    drop(driver);
    station.wait_down();
}

#[test]
fn more_memory_than_a_driver_may_have_is_refused() {
    let name = socket();
    let mut station = Station::open(&format!("vhost:{name}?memory=100"));
    let file = memory(128 << 40, true).unwrap();
    let sizes: [&[u64]; 3] = [&[101 << 30], &[64 << 40], &[60 << 30, 60 << 30]];
    for sizes in sizes {
        let mut frontend = Frontend::connect(&name).unwrap();
        frontend.advance(Stage::Features).unwrap();
        let regions: Vec<_> = sizes.iter().map(|size| (0x1_0000, *size, 0x7000_0000, 0)).collect();
        frontend.set_memory(&regions, &vec![file.as_fd(); sizes.len()]).unwrap();
        assert!(frontend.channel().wait_closed());
        wait_for("the reason", || station.detail().contains("by the option `memory`"));
    }
    // As much as it may have, again and again: the memory before is given up.
    let mut frontend = Frontend::connect(&name).unwrap();
    frontend.advance(Stage::Features).unwrap();
    for _ in 0..3 {
        frontend.set_memory(&[(0x1_0000, 20 << 30, 0x7000_0000, 0)], &[file.as_fd()]).unwrap();
        frontend.ask().unwrap();
    }
    drop(frontend);
    the_next_is_served(&mut station, &name);
}

#[test]
fn descriptors_of_every_kind_are_refused_and_the_next_driver_is_served() {
    let name = socket();
    let mut station = Station::open(&format!("vhost:{name}"));
    for kind in KINDS {
        let descriptor = Descriptor::new(*kind).unwrap();
        let is = |what: &str| format!("{kind:?}").starts_with(what);
        for message in 0..3 {
            let mut frontend = Frontend::connect(&name).unwrap();
            frontend.advance(Stage::Features).unwrap();
            let region = [(0x1_0000, 4096, 0x7000_0000, 0)];
            let said = match message {
                0 => frontend.set_memory(&region, &[descriptor.as_fd()]),
                1 => frontend.set_call(0, descriptor.as_fd()),
                _ => frontend.send_request(1, &[], &[descriptor.as_fd(); 3]),
            };
            said.unwrap();
            descriptor.sent();
            let expected = match message {
                0 => is("Memory"),
                1 => is("Event"),
                _ => false,
            };
            assert!(expected || frontend.channel().wait_closed(), "{kind:?} {message}");
        }
    }
    the_next_is_served(&mut station, &name);
}

#[test]
fn a_message_without_end_is_not_waited_for() {
    let name = socket();
    let mut station = Station::open(&format!("vhost:{name}"));
    let frontend = Frontend::connect(&name).unwrap();
    frontend.ask().unwrap();
    frontend.channel().send(&[2, 0, 0, 0, 1], &[]).unwrap();
    assert!(frontend.channel().wait_closed());
    the_next_is_served(&mut station, &name);
}

#[test]
fn closing_descriptors_holds_nothing_up() {
    let name = socket();
    let mut station = Station::open(&format!("vhost:{name}"));
    let mut peers = Vec::new();
    for count in [1, 3] {
        let frontend = Frontend::connect(&name).unwrap();
        for _ in 0..count {
            let (socket, peer) = stalling::lingering_socket();
            // The first may have ended the connection already.
            let _ = frontend.set_call(0, socket.as_fd());
            stalling::close(socket);
            peers.push(peer);
        }
        assert!(frontend.channel().wait_closed());
    }
    let station = in_time("serving the next driver", move || {
        the_next_is_served(&mut station, &name);
        station
    });
    in_time("closing", move || drop(station));
    drop(peers);
}

#[test]
fn in_flight_memory_is_made_until_there_is_enough() {
    const GET_INFLIGHT_FD: u32 = 31;
    let name = socket();
    let mut station = Station::open(&format!("vhost:{name}"));
    let mut made = 0;
    let mut kept = Vec::new();
    for _ in 0..100 {
        let mut frontend = Frontend::connect(&name).unwrap();
        frontend.advance(Stage::Features).unwrap();
        // Two queues of 32,768: 2 MiB.
        let mut asked = [0; 24];
        asked[16] = 2;
        asked[18..20].copy_from_slice(&0x8000u16.to_ne_bytes());
        frontend.send_request(GET_INFLIGHT_FD, &asked, &[]).unwrap();
        let (answer, files) = frontend.channel().receive_all(12 + 24).unwrap();
        let size = u64::from_ne_bytes(*answer[12..].first_chunk().unwrap());
        assert_eq!(files.len(), usize::from(size > 0));
        made += size;
        kept.extend(files);
    }
    assert!((16 << 20..=64 << 20).contains(&made), "{made}");
    the_next_is_served(&mut station, &name);
}

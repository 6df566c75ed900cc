//! Peers that stop at any step, fill their eventfds and read nothing, in both roles: nothing waits for
//! them.

use std::os::fd::AsFd;

use linerate_test_support::stalling::{
    self,
    vhost::{Device, Frontend, Stage},
};

use crate::rig::{Station, in_time, packets, socket};

#[test]
fn a_worker_does_not_wait_for_a_drivers_eventfd() {
    let socket = socket();
    let mut station = Station::open(&format!("vhost:{socket}"));
    let mut frontend = Frontend::connect(&socket).unwrap();
    frontend.advance(Stage::Up).unwrap();
    station.wait_up();
    let mut station = in_time("sending", move || {
        for _ in 0..100 {
            station.send(0, &packets([60; 8]));
            frontend.take().unwrap();
        }
        // It exits while its eventfd is full.
        drop(frontend);
        station
    });
    station.wait_down();
    station.take(0);
    in_time("closing", move || drop(station));
}

#[test]
fn two_messages_do_not_stop_the_negotiating_thread() {
    let socket = socket();
    let station = Station::open(&format!("vhost:{socket}"));
    let frontend = Frontend::connect(&socket).unwrap();
    frontend.ask().unwrap();
    frontend.set_call(0, stalling::full_eventfd().as_fd()).unwrap();
    frontend.ask().unwrap();
    in_time("closing", move || drop(station));
}

#[test]
fn a_worker_does_not_wait_for_a_devices_eventfd() {
    for copies in ["", "&zero-copy"] {
        let socket = socket();
        let mut device = Device::listen(&socket, 8).unwrap();
        let mut station = Station::open(&format!("vhost:{socket}?role=driver&slots=64{copies}"));
        device.accept(3).unwrap();
        station.wait_up();
        let mut station = in_time("sending", move || {
            for _ in 0..100 {
                station.send(0, &packets([60; 8]));
                device.take().unwrap();
            }
            drop(device);
            station
        });
        station.wait_down();
        station.take(0);
        in_time("closing", move || drop(station));
    }
}

#[test]
fn a_device_is_closed_whatever_its_driver_is_at() {
    for stage in Stage::ALL {
        let socket = socket();
        let mut station = Station::open(&format!("vhost:{socket}"));
        let mut frontend = Frontend::connect(&socket).unwrap();
        frontend.advance(stage).unwrap();
        if stage == Stage::Up {
            station.wait_up();
            station = in_time("sending", move || {
                station.send(0, &packets([60; 8]));
                station
            });
        }
        in_time("closing", move || drop(station));
        assert!(frontend.channel().wait_closed(), "{stage:?}");
        in_time("opening", move || Station::open(&format!("vhost:{socket}")));
    }
}

#[test]
fn a_driver_is_closed_whatever_its_device_is_at() {
    for answers in 0..=3 {
        for copies in ["", "&zero-copy"] {
            let socket = socket();
            let mut device = Device::listen(&socket, 8).unwrap();
            let uri = format!("vhost:{socket}?role=driver&slots=64{copies}");
            let station = Station::open(&uri);
            device.accept(answers).unwrap();
            if answers == 3 {
                station.wait_up();
            }
            in_time("closing", move || drop(station));
        }
    }
}

#[test]
fn a_driver_does_not_wait_for_a_device_that_does_not_accept() {
    let socket = socket();
    let _device = Device::listen(&socket, 0).unwrap();
    let uri = format!("vhost:{socket}?role=driver&slots=64");
    let stations: Vec<Station> = (0..4).map(|_| Station::open(&uri)).collect();
    in_time("closing", move || drop(stations));
}

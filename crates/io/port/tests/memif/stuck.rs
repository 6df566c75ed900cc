//! Peers that stop at any step, fill their eventfds and read nothing, in both roles: nothing waits for
//! them.

use linerate_test_support::stalling::{
    self,
    memif::{Client, Server, Stage},
};

use crate::rig::{Station, in_time, packets, socket};

#[test]
fn a_worker_does_not_wait_for_a_clients_eventfd() {
    let socket = socket();
    let mut station = Station::open(&format!("memif:{socket}?role=server"));
    let mut client = Client::connect(&socket, 0).unwrap();
    client.advance(Stage::Up).unwrap();
    station.wait_up();
    let mut station = in_time("sending", move || {
        for _ in 0..100 {
            station.send(0, &packets([60; 8]));
            client.take().unwrap();
        }
        // It exits while its eventfd is full.
        drop(client);
        station
    });
    station.wait_down();
    station.take(0);
    in_time("closing", move || drop(station));
}

#[test]
fn a_worker_does_not_wait_for_a_servers_eventfd() {
    for copies in ["", "&zero-copy"] {
        let socket = socket();
        let mut server = Server::listen(&socket, 8).unwrap();
        let mut station = Station::open(&format!("memif:{socket}?slots=64{copies}"));
        server.accept(Stage::Up).unwrap();
        station.wait_up();
        // The client has made them, but the server has them, too.
        server.events().for_each(stalling::fill);
        server.ask_for_interrupts().unwrap();
        let mut station = in_time("sending", move || {
            for _ in 0..100 {
                station.send(0, &packets([60; 8]));
                server.take().unwrap();
            }
            drop(server);
            station
        });
        station.wait_down();
        station.take(0);
        in_time("closing", move || drop(station));
    }
}

#[test]
fn a_server_is_closed_whatever_its_client_is_at() {
    for stage in Stage::ALL {
        let socket = socket();
        let mut station = Station::open(&format!("memif:{socket}?role=server"));
        let mut client = Client::connect(&socket, 0).unwrap();
        client.advance(stage).unwrap();
        if stage == Stage::Up {
            station.wait_up();
            station = in_time("sending", move || {
                station.send(0, &packets([60; 8]));
                station
            });
        }
        in_time("closing", move || drop(station));
        assert!(client.channel().wait_closed(), "{stage:?}");
        // Its place is free again.
        in_time("opening", move || Station::open(&format!("memif:{socket}?role=server")));
    }
}

#[test]
fn a_client_is_closed_whatever_its_server_is_at() {
    for stage in Stage::ALL {
        for copies in ["", "&zero-copy"] {
            let socket = socket();
            let mut server = Server::listen(&socket, 8).unwrap();
            let station = Station::open(&format!("memif:{socket}?slots=64{copies}"));
            server.accept(stage).unwrap();
            if stage == Stage::Up {
                station.wait_up();
            }
            in_time("closing", move || drop(station));
        }
    }
}

#[test]
fn a_client_does_not_wait_for_a_server_that_does_not_accept() {
    let socket = socket();
    let _server = Server::listen(&socket, 0).unwrap();
    let stations: Vec<Station> =
        (0..4).map(|_| Station::open(&format!("memif:{socket}?slots=64"))).collect();
    in_time("closing", move || drop(stations));
}

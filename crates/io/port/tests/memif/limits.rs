//! Limits of the resources that clients use of a server's process, with any number and any
//! messages.

use std::{
    fs,
    os::{
        fd::AsFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    thread,
    time::Duration,
};

use linerate_linux::socket::refuse_descriptors;
use linerate_test_support::{
    descriptors::{Descriptor, KINDS, memory},
    stalling::{
        self,
        channel::Channel,
        memif::{Client, Stage},
    },
};
use rustix::net::SocketType;

use crate::rig::{Station, in_time, packets, socket, wait_for};

/// Packets go both ways between ports of ours at a new socket, or at this one.
#[track_caller]
fn others_are_served(socket: &str, id: u32) {
    let mut server = Station::open(&format!("memif:{socket}?role=server&id={id}"));
    let mut client = Station::open(&format!("memif:{socket}?id={id}&slots=64"));
    server.wait_up();
    client.wait_up();
    let sent = packets([60, 1514]);
    client.send(0, &sent);
    assert_eq!(server.expect(0, 2), sent);
    server.send(0, &sent);
    assert_eq!(client.expect(0, 2), sent);
}

/// Adds regions until one is refused, and returns why.
fn add_regions(client: &mut Client, size: u64) -> String {
    client.advance(Stage::Interface).unwrap();
    let file = memory(size, true).unwrap();
    for index in 0.. {
        if let Err(error) = client.add_region(index, size, file.as_fd()) {
            return error.to_string();
        }
    }
    unreachable!()
}

#[test]
fn regions_of_clients_that_negotiate_leave_those_of_others() {
    let name = socket();
    let _station = Station::open(&format!("memif:{name}?role=server"));
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&name, 0).unwrap()).collect();
    clients.iter_mut().for_each(|client| client.advance(Stage::Interface).unwrap());
    let mut ninth = Client::connect(&name, 0).unwrap();
    let refused = ninth.advance(Stage::Interface).unwrap_err().to_string();
    assert!(refused.contains("too many clients negotiate for this interface"), "{refused}");
    let file = memory(4096, true).unwrap();
    let mut mapped = 0;
    for client in &mut clients {
        mapped +=
            (0..256).take_while(|&at| client.add_region(at, 4096, file.as_fd()).is_ok()).count();
    }
    assert_eq!(mapped, 3 * 256);
    others_are_served(&socket(), 0);
    // Other interfaces of the same socket have places of their own.
    others_are_served(&name, 1);
}

#[test]
fn one_sparse_file_does_not_use_up_address_space() {
    let name = socket();
    let _station = Station::open(&format!("memif:{name}?role=server&memory=100"));
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&name, 0).unwrap()).collect();
    for client in &mut clients {
        let refused = add_regions(client, 40 << 30);
        assert!(refused.contains("more than") && refused.contains("`memory`"), "{refused}");
    }
    let mut vast = Client::connect(&name, 0).unwrap();
    let refused = add_regions(&mut vast, 128 << 40);
    assert!(refused.contains("more than"), "{refused}");
    assert_eq!(vec![1u8; 64 << 20].len(), 64 << 20);
    others_are_served(&socket(), 0);
}

#[test]
fn senseless_limits_are_refused() {
    let context = linerate_port::Context::new(crate::rig::arena(2112));
    for wrong in ["memory=0", "memory=16385", "mode=8", "mode=1000", "mode="] {
        let uri = format!("memif:{}?role=server&{wrong}", socket()).parse().unwrap();
        assert!(linerate_port::open(&uri, &context).is_err(), "{wrong}");
    }
}

#[test]
fn negotiating_has_an_end_although_messages_come() {
    let name = socket();
    let station = Station::open(&format!("memif:{name}?role=server"));
    let mut client = Client::connect(&name, 0).unwrap();
    client.advance(Stage::Interface).unwrap();
    let file = memory(4096, true).unwrap();
    in_time("negotiating", move || {
        let added = (0..).map(|at| {
            thread::sleep(Duration::from_millis(500));
            client.add_region(at, 4096, file.as_fd())
        });
        added.filter_map(Result::err).next().unwrap()
    });
    wait_for("the reason", || station.detail().contains("timed out"));
}

#[test]
fn descriptors_of_every_kind_are_refused_and_the_next_client_is_served() {
    let name = socket();
    let _station = Station::open(&format!("memif:{name}?role=server"));
    for kind in KINDS {
        let descriptor = Descriptor::new(*kind).unwrap();
        for stage in [Stage::Interface, Stage::Region] {
            let mut client = Client::connect(&name, 0).unwrap();
            client.advance(stage).unwrap();
            let done = match stage {
                Stage::Interface => client.add_region(0, 4096, descriptor.as_fd()),
                _ => client.add_ring(0, descriptor.as_fd()),
            };
            descriptor.sent();
            let expected = match stage {
                Stage::Interface => format!("{kind:?}").starts_with("Memory"),
                _ => format!("{kind:?}").starts_with("Event"),
            };
            assert!(done.is_err() || expected, "{kind:?}: {done:?}");
            if !expected {
                assert!(client.channel().wait_closed(), "{kind:?}");
            }
        }
    }
    others_are_served(&name, 1);
}

#[test]
fn closing_descriptors_holds_nothing_up() {
    let name = socket();
    let station = Station::open(&format!("memif:{name}?role=server"));
    let mut peers = Vec::new();
    // The first is received, and refused. The others are in the socket when it is closed.
    for count in [1, 3] {
        let client = Client::connect(&name, 0).unwrap();
        for _ in 0..count {
            let (socket, peer) = stalling::lingering_socket();
            // The first may have ended the connection already.
            let _ = client.channel().send(&[0; 128], &[socket.as_fd()]);
            stalling::close(socket);
            peers.push(peer);
        }
        assert!(client.channel().wait_closed());
    }
    let next = name.clone();
    in_time("serving the next client", move || others_are_served(&next, 1));
    in_time("closing", move || drop(station));
}

/// The server closes refused connections itself, and accepts no others meanwhile.
#[test]
fn refused_clients_hand_nothing_over() {
    let (near, _far) = UnixStream::pair().unwrap();
    if !refuse_descriptors(near) {
        println!("not tested: this kernel is older than Linux 6.16");
        return;
    }
    let name = socket();
    let _station = Station::open(&format!("memif:{name}?role=server"));
    // As many as may negotiate at a time.
    let silent: Vec<Client> = (0..64).map(|_| Client::connect(&name, 0).unwrap()).collect();
    for _ in 0..100 {
        let channel = Channel::connect(&name, SocketType::SEQPACKET).unwrap();
        let (socket, _peer) = stalling::lingering_socket();
        let sent = channel.send(&[0; 128], &[socket.as_fd()]);
        stalling::close(socket);
        assert!(sent.is_err());
        assert!(channel.wait_closed());
    }
    drop(silent);
    in_time("serving the next client", move || others_are_served(&name, 1));
}

#[test]
fn users_that_may_connect_are_those_of_the_mode() {
    let folder = std::env::temp_dir();
    let path = folder.join(format!("linerate-mode-{}.sock", std::process::id()));
    let name = path.to_str().unwrap();
    // Without the option the group may where the umask lets it, and others never.
    for (option, bits, mode) in
        [("", 0o117, 0o600 & 0o117), ("&mode=660", 0o777, 0o660), ("&mode=0606", 0o777, 0o606)]
    {
        let station = Station::open(&format!("memif:{name}?role=server{option}"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & bits, mode, "{option}");
        let context = linerate_port::Context::new(station.arena.clone());
        let other = format!("memif:{name}?role=server&id=1&mode=666").parse().unwrap();
        let refused = linerate_port::open(&other, &context).unwrap_err().to_string();
        assert!(refused.contains("another `mode`"), "{refused}");
        drop(station);
        assert!(!path.exists());
    }
}

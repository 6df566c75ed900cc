//! Destination of a packet: the port or the kernel's stack.

use std::net::UdpSocket;

use linerate_port::{Context, Direction, OpenError, open};

use crate::rig::{Rig, TIMEOUT, Wire, arena, frames, open_in};

/// A rig whose ends have addresses.
fn addressed() -> Rig {
    let rig = Rig::new(1);
    rig.ours.add_address("x0", "198.18.0.1/24");
    rig.theirs.add_address("p0", "198.18.0.2/24");
    rig
}

fn ping(rig: &Rig) -> bool {
    rig.theirs.run(["ping", "-c", "1", "-W", "1", "198.18.0.1"]).status.success()
}

#[test]
#[ignore = "needs root"]
fn without_a_choice_nothing_reaches_the_kernel() {
    let rig = addressed();
    assert!(ping(&rig));
    for mode in ["native", "generic"] {
        let arena = arena();
        let opened = rig.open(&format!("xdp:x0?disconnect&mode={mode}"), &arena).unwrap();
        assert!(!ping(&rig), "{mode}");
        assert_eq!(opened.close(), 0);
        assert!(ping(&rig), "{mode}: the kernel does not have its interface back");
    }
}

#[test]
#[ignore = "needs root"]
fn control_packets_can_stay_with_the_kernel() {
    for mode in ["native", "generic"] {
        let rig = addressed();
        let arena = arena();
        let mut opened =
            rig.open(&format!("xdp:x0?kernel=control&disconnect&mode={mode}"), &arena).unwrap();
        // Neighbour discovery and echo, over IPv4 and IPv6.
        assert!(ping(&rig), "{mode}");
        let inside = rig.ours.enter(|| UdpSocket::bind("198.18.0.1:7000").unwrap());
        inside.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        let outside = rig.theirs.enter(|| UdpSocket::bind("198.18.0.2:0").unwrap());
        outside.send_to(b"data", "198.18.0.1:7000").unwrap();
        let got = opened.receive(1);
        assert_eq!(&got[0][42..46], b"data", "{mode}");
        assert!(inside.recv(&mut [0; 16]).is_err(), "{mode}: the kernel got it too");
        assert_eq!(opened.close(), 0);
    }
}

#[test]
#[ignore = "needs root"]
fn packets_that_do_not_match_can_stay_with_the_kernel() {
    for mode in ["native", "generic"] {
        let rig = addressed();
        let arena = arena();
        let uri = format!("xdp:x0?match=udp:7001,ethertype:0x88b5&mode={mode}");
        let mut opened = rig.open(&uri, &arena).unwrap();
        assert!(ping(&rig), "{mode}");
        let inside = rig.ours.enter(|| UdpSocket::bind("198.18.0.1:7000").unwrap());
        inside.set_read_timeout(Some(TIMEOUT)).unwrap();
        let outside = rig.theirs.enter(|| UdpSocket::bind("198.18.0.2:0").unwrap());
        outside.send_to(b"ours", "198.18.0.1:7001").unwrap();
        outside.send_to(b"kernel's", "198.18.0.1:7000").unwrap();
        let mut text = [0; 16];
        let length = inside.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"kernel's", "{mode}");
        let wire = Wire::open(&rig.theirs, "p0");
        let sent = frames(8);
        sent.iter().for_each(|frame| wire.send(frame));
        let got = opened.receive(9);
        assert_eq!(&got[0][42..46], b"ours", "{mode}");
        assert!(got[1..] == sent, "{mode}");
        assert_eq!(opened.close(), 0);
    }
}

/// An open that would cut the host off is refused, and has to be confirmed.
#[test]
#[ignore = "needs root"]
fn an_interface_in_use_is_not_taken_without_confirmation() {
    let rig = addressed();
    let arena = arena();
    let refusal = |uri: &str| match rig.open(uri, &arena) {
        Err(error @ OpenError::Disconnects { .. }) => error.to_string(),
        Err(other) => panic!("{uri}: {other}"),
        Ok(_) => panic!("{uri}: it was taken"),
    };
    rig.ours.ip(["route", "add", "default", "via", "198.18.0.2"]);
    for uri in ["xdp:x0", "xdp:x0?mode=generic", "xdp:x0?kernel=control"] {
        let text = refusal(uri);
        for part in [uri, "198.18.0.1/24 on x0 and the default route on x0", "--disconnect"] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert!(refusal("xdp:x0").contains("(or xdp:x0?disconnect=on)"));
    // A bridge has the addresses of its ports.
    rig.ours.ip(["address", "flush", "dev", "x0"]);
    assert_eq!(rig.open("xdp:x0", &arena).unwrap().close(), 0);
    rig.ours.ip(["link", "add", "br0", "type", "bridge"]);
    rig.ours.ip(["link", "set", "x0", "master", "br0"]);
    rig.ours.add_address("br0", "198.18.0.1/24");
    assert!(refusal("xdp:x0").contains("198.18.0.1/24 on br0"));

    assert_eq!(rig.open("xdp:x0?disconnect", &arena).unwrap().close(), 0);
    let context = Context { disconnect: true, ..Context::new(arena.clone()) };
    drop(rig.ours.enter(|| open(&"xdp:x0".parse().unwrap(), &context)).unwrap());
    // Packets that were named one by one, and ports that only send, take nothing unawares.
    assert_eq!(rig.open("xdp:x0?match=udp:7001", &arena).unwrap().close(), 0);
    let sender = open_in(&rig.ours, "xdp:x0", &arena, Direction::Transmit).unwrap();
    assert_eq!(sender.close(), 0);
}

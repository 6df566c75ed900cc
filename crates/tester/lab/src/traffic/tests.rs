use linerate_packet::{Ethernet, Ipv4, Ipv6, Tcp, Udp, checksum, vlan};

use super::*;

fn traffic() -> Traffic {
    let mut traffic = Traffic::new("64".parse().unwrap(), false);
    traffic.variation.source_ports = Values::one(1000);
    traffic
}

fn frames(traffic: &Traffic, count: usize) -> Vec<Vec<u8>> {
    let mut maker = traffic.maker(3).unwrap();
    let mut make = || {
        let mut frame = vec![0; maker.next_len()];
        maker.make(&mut frame, 12345);
        frame
    };
    (0..count).map(|_| make()).collect()
}

/// Parses with our views and verifies every checksum.
fn assert_valid(frame: &[u8]) {
    let tags = vlan::walk(frame).unwrap();
    let packet = &frame[tags.payload..];
    let (pseudo, transport, protocol) = if tags.ether_type == EtherType::IPV6 {
        let ip = Ipv6::new_checked(packet).unwrap();
        let protocol = ip.next_header();
        (ip.pseudo_header(protocol, u32::from(ip.payload_len())), &packet[40..], protocol)
    } else {
        assert!(checksum::verify(&packet[..20]));
        let ip = Ipv4::new_checked(packet).unwrap();
        (ip.pseudo_header(), &packet[20..], ip.protocol())
    };
    let mut sum = match protocol.0 {
        1 => checksum::Sum::default(),
        _ => pseudo,
    };
    sum.add_bytes(transport);
    assert!(sum.is_valid(), "{frame:02x?}");
}

#[test]
fn the_smallest_signed_frame() {
    let frames = frames(&traffic(), 2);
    assert_eq!(frames[0].len(), 60);
    let signature = Signature::from_bytes(&frames[1][42..]).unwrap();
    assert_eq!(signature, Signature { stream: 3, sequence: 1, time: 12345 });
    frames.iter().for_each(|frame| assert_valid(frame));
    assert_eq!(Ethernet::new_checked(&frames[0][..]).unwrap().src(), MacAddr([2, 0, 0, 0, 0, 1]));
}

#[test]
fn checksums_hold_whatever_varies() {
    for protocol in [Protocol::Udp, Protocol::Tcp, Protocol::Icmp] {
        for ipv6 in [false, true] {
            for order in [Order::Sequential, Order::Random] {
                for tags in 0..3 {
                    let mut t = traffic();
                    t.protocol = protocol;
                    t.ipv6 = ipv6;
                    t.order = order;
                    t.sizes = "128,105,1518".parse().unwrap();
                    t.variation.source_ports = Values::between(1, 65535).unwrap();
                    t.variation.sources = Values::between(0xff00, 0x2_0000).unwrap();
                    t.variation.vlans = (tags > 0).then(|| Values::between(1, 9).unwrap());
                    t.outer_vlan = (tags > 1).then_some(7);
                    frames(&t, 500).iter().for_each(|frame| assert_valid(frame));
                }
            }
        }
    }
}

#[test]
fn random_traffic_follows_from_the_seed() {
    let mut t = traffic();
    t.order = Order::Random;
    t.signed = false;
    t.variation.source_ports = Values::between(1, 65535).unwrap();
    let first = frames(&t, 50);
    assert_eq!(frames(&t, 50), first);
    t.seed += 1;
    assert_ne!(frames(&t, 50), first);
}

#[test]
fn sequential_order_goes_through_all_combinations() {
    let mut t = traffic();
    t.variation.source_ports = Values::between(10, 11).unwrap();
    t.variation.destination_ports = Values::between(20, 22).unwrap();
    let pairs: Vec<(u16, u16)> = frames(&t, 7)
        .iter()
        .map(|frame| Udp::new_checked(&frame[34..]).unwrap())
        .map(|udp| (udp.src_port(), udp.dst_port()))
        .collect();
    let expected = [(10, 20), (11, 20), (10, 21), (11, 21), (10, 22), (11, 22), (10, 20)];
    assert_eq!(pairs, expected);
}

#[test]
fn tags_and_addresses_vary() {
    let mut t = traffic();
    t.sizes = "128".parse().unwrap();
    t.protocol = Protocol::Tcp;
    t.outer_vlan = Some(100);
    t.priority = 5;
    t.variation.vlans = Values::between(1, 2);
    t.variation.destination_macs = Values::between(1, 4).unwrap();
    let frames = frames(&t, 8);
    let tags = vlan::walk(&frames[1]).unwrap();
    assert_eq!(tags.outer.unwrap(), Tci::new(5, false, 100));
    assert_eq!(tags.inner.unwrap(), Tci::new(5, false, 2));
    assert_eq!(frames[7][..6], [0, 0, 0, 0, 0, 4]);
    assert_eq!(Tcp::new_checked(&frames[0][42..]).unwrap().src_port(), 1000);
}

#[test]
fn raw_frames_are_signed_behind_the_type() {
    let mut t = traffic();
    t.protocol = Protocol::Raw(0x88b5);
    let frames = frames(&t, 2);
    assert_eq!(frames[1][12..14], [0x88, 0xb5]);
    assert_eq!(Signature::from_bytes(&frames[1][14..]).unwrap().sequence, 1);
}

#[test]
fn contradictions_are_named() {
    let mut t = traffic();
    t.ipv6 = true;
    let error = t.maker(0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "frames of 64 bytes are too short: these headers and the signature need 84 bytes with FCS"
    );
    t.signed = false;
    assert!(t.maker(0).unwrap_err().to_string().contains("need 66"));
    let mut t = traffic();
    t.variation.vlans = Values::between(1, 5000);
    assert!(t.maker(0).unwrap_err().to_string().contains("vlan 5000 is above 4094"));
    assert!(FrameMaker::of_frames(Vec::new()).is_err());
}

#[test]
fn given_frames_go_out_as_they_are() {
    let mut maker = FrameMaker::of_frames(vec![vec![1; 60], vec![2; 70]]).unwrap();
    let mut frame = [0; 60];
    maker.make(&mut frame, 0);
    assert_eq!((frame, maker.next_len(), maker.longest()), ([1; 60], 70, 70));
}

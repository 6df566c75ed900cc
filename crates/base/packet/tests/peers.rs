//! Agreement with two independent implementations, smoltcp and etherparse, on random bytes and on
//! mutated real packets: acceptance, every field, every checksum.
//!
//! Where they mean something else by "valid", the difference is stated at the comparison.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr};

use common::seeds;
use etherparse::{
    ArpEthIpv4Packet, ArpPacketSlice, Ethernet2Slice, Icmpv4Slice, Icmpv6Slice, IpNumber,
    Ipv4Slice, Ipv6Slice, NetSlice, SingleVlanSlice, SlicedPacket, TcpOptionElement, TcpSlice,
    TransportSlice, UdpSlice,
};
use linerate_packet::flow::{NoFlow, VlanRule, extract};
use linerate_packet::tcp::TcpOption;
use linerate_packet::{
    Arp, EtherType, Ethernet, FlowKey, Icmp, Icmpv6, IpProtocol, Ipv4, Ipv6, MacAddr, Tcp, Udp,
    Vlan, checksum, ipv6_ext,
};
use proptest::prelude::*;
use smoltcp::wire::{
    EthernetFrame, Icmpv4Packet, Icmpv6Packet, IpAddress, Ipv4Packet, Ipv6Packet, TcpPacket,
    UdpPacket,
};

/// Compares every view over `data`, as if it began with each header in turn.
fn compare(data: &[u8]) {
    ethernet(data);
    vlan(data);
    arp(data);
    ipv4(data);
    ipv6(data);
    udp(data);
    tcp(data);
    icmp(data);
    icmpv6(data);
    flow(data);
}

fn ethernet(data: &[u8]) {
    let ours = Ethernet::new_checked(data);
    let theirs = EthernetFrame::new_checked(data);
    assert_eq!(ours.is_ok(), theirs.is_ok());
    assert_eq!(ours.is_ok(), Ethernet2Slice::from_slice_without_fcs(data).is_ok());
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    assert_eq!(ours.dst().octets(), theirs.dst_addr().0);
    assert_eq!(ours.src().octets(), theirs.src_addr().0);
    assert_eq!(ours.ether_type().0, u16::from(theirs.ethertype()));
    assert_eq!(ours.payload(), theirs.payload());
    assert_eq!(ours.src().is_multicast(), theirs.src_addr().is_multicast());
    // smoltcp calls the all-zero address unicast.
    let unicast = theirs.src_addr().is_unicast() && ours.src() != MacAddr::ZERO;
    assert_eq!(ours.src().is_unicast(), unicast);
    assert_eq!(ours.src().to_string().replace(':', "-"), theirs.src_addr().to_string());
}

fn vlan(data: &[u8]) {
    let (ours, theirs) = (Vlan::new_checked(data), SingleVlanSlice::from_slice(data));
    assert_eq!(ours.is_ok(), theirs.is_ok());
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    assert_eq!(ours.tci().id(), theirs.vlan_identifier().value());
    assert_eq!(ours.tci().priority(), theirs.priority_code_point().value());
    assert_eq!(ours.tci().drop_eligible(), theirs.drop_eligible_indicator());
    assert_eq!(ours.ether_type().0, theirs.ether_type().0);
}

fn arp(data: &[u8]) {
    let theirs = ArpPacketSlice::from_slice(data)
        .ok()
        .and_then(|arp| ArpEthIpv4Packet::try_from(arp.to_packet()).ok());
    let ours = Arp::new_checked(data);
    assert_eq!(ours.is_ok(), theirs.is_some(), "{data:x?}");
    let (Ok(ours), Some(theirs)) = (ours, theirs) else { return };
    assert_eq!(ours.operation().0, theirs.operation.0);
    assert_eq!(ours.sender_mac().octets(), theirs.sender_mac);
    assert_eq!(ours.sender_ip(), theirs.sender_ipv4_addr());
    assert_eq!(ours.target_mac().octets(), theirs.target_mac);
    assert_eq!(ours.target_ip(), theirs.target_ipv4_addr());
}

fn ipv4(data: &[u8]) {
    let ours = Ipv4::new_checked(data);
    // smoltcp leaves the version to a later step.
    let theirs = Ipv4Packet::new_checked(data).ok().filter(|ip| ip.version() == 4);
    assert_eq!(ours.is_ok(), theirs.is_some(), "{data:x?}");
    let third = Ipv4Slice::from_slice(data);
    // etherparse also parses an authentication header behind, and may refuse that.
    if data.get(9) != Some(&IpProtocol::AH.0) {
        assert_eq!(ours.is_ok(), third.is_ok(), "{data:x?}");
    }
    let (Ok(ours), Some(theirs)) = (ours, theirs) else { return };
    assert_eq!(ours.header_len(), usize::from(theirs.header_len()));
    assert_eq!((ours.dscp(), ours.ecn()), (theirs.dscp(), theirs.ecn()));
    assert_eq!((ours.total_len(), ours.ident()), (theirs.total_len(), theirs.ident()));
    assert_eq!(ours.dont_fragment(), theirs.dont_frag());
    assert_eq!(ours.more_fragments(), theirs.more_frags());
    assert_eq!(ours.fragment_offset(), theirs.frag_offset());
    assert_eq!((ours.ttl(), ours.protocol().0), (theirs.hop_limit(), theirs.next_header().into()));
    assert_eq!(
        (ours.checksum(), ours.verify_checksum()),
        (theirs.checksum(), theirs.verify_checksum())
    );
    assert_eq!((ours.src(), ours.dst()), (theirs.src_addr(), theirs.dst_addr()));
    assert_eq!(ours.payload(), theirs.payload());
    let mut refilled = data.to_vec();
    Ipv4::new_checked(&mut refilled[..]).expect("still valid").fill_checksum();
    let mut their_refilled = data.to_vec();
    Ipv4Packet::new_unchecked(&mut their_refilled[..]).fill_checksum();
    assert_eq!(refilled, their_refilled);
    if let Ok(third) = third {
        assert_eq!(ours.is_fragment(), third.is_payload_fragmented());
        let header = third.header();
        let length: usize = ours
            .options()
            .map_while(Result::ok)
            .map(|option| if option.kind == 1 { 1 } else { 2 + option.data.len() })
            .sum();
        assert!(length <= header.options().len());
    }
}

fn ipv6(data: &[u8]) {
    let ours = Ipv6::new_checked(data);
    let theirs = Ipv6Packet::new_checked(data).ok().filter(|ip| ip.version() == 6);
    assert_eq!(ours.is_ok(), theirs.is_some(), "{data:x?}");
    let (Ok(ours), Some(theirs)) = (ours, theirs) else { return };
    assert_eq!(ours.traffic_class(), theirs.traffic_class());
    assert_eq!(ours.flow_label(), theirs.flow_label());
    assert_eq!(ours.payload_len(), theirs.payload_len());
    assert_eq!(ours.next_header().0, u8::from(theirs.next_header()));
    assert_eq!(ours.hop_limit(), theirs.hop_limit());
    assert_eq!((ours.src(), ours.dst()), (theirs.src_addr(), theirs.dst_addr()));
    assert_eq!(ours.payload(), theirs.payload());
    extensions(data, &ours);
}

/// etherparse takes a payload length of zero for "unknown", knows no mobility, HIP and shim6 headers,
/// refuses hop-by-hop options that are not first and an authentication header shorter than its fixed
/// fields, reads on behind the header of a later fragment, and has no limit of depth.
fn extensions(data: &[u8], ours: &Ipv6<&[u8]>) {
    let Ok(theirs) = Ipv6Slice::from_slice(data) else {
        let kinds: Vec<_> =
            ours.extensions().map_while(Result::ok).map(|extension| extension.kind).collect();
        let stricter = ours.upper_layer().is_err()
            || ours.payload_len() == 0
            || kinds.contains(&IpProtocol::AH)
            || kinds.iter().skip(1).any(|&kind| kind == IpProtocol::HOP_BY_HOP)
            || ours.upper_layer().is_ok_and(|upper| !upper.has_header());
        assert!(stricter || kinds.iter().any(foreign), "{data:x?}");
        return;
    };
    let Ok(upper) = ours.upper_layer() else {
        let deep = ours.extensions().map_while(Result::ok).count() == ipv6_ext::MAX_EXTENSIONS;
        let unknown = ours.payload_len() == 0;
        let last = IpProtocol(theirs.payload().ip_number.0);
        assert!(deep || unknown || foreign(&last), "{data:x?}");
        return;
    };
    let alike = ours.payload_len() != 0
        && upper.has_header()
        && !ours.extensions().map_while(Result::ok).any(|extension| foreign(&extension.kind));
    if alike {
        assert_eq!(IpNumber(upper.protocol.0), theirs.payload().ip_number, "{data:x?}");
        assert_eq!(&ours.payload()[upper.offset..], theirs.payload().payload);
        assert_eq!(upper.is_fragment(), theirs.is_payload_fragmented());
    }
}

fn foreign(kind: &IpProtocol) -> bool {
    matches!(*kind, IpProtocol::MOBILITY | IpProtocol::HIP | IpProtocol::SHIM6)
}

const SRC4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DST4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const SRC6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);
const DST6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0xfffe, 0, 0, 0, 9);

fn udp(data: &[u8]) {
    let (ours, theirs) = (Udp::new_checked(data), UdpPacket::new_checked(data));
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{data:x?}");
    // etherparse takes a length of zero for "unknown".
    if data.get(4..6) != Some(&[0, 0]) {
        assert_eq!(ours.is_ok(), UdpSlice::from_slice(data).is_ok(), "{data:x?}");
    }
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    assert_eq!((ours.src_port(), ours.dst_port()), (theirs.src_port(), theirs.dst_port()));
    assert_eq!((ours.length(), ours.checksum()), (theirs.len(), theirs.checksum()));
    assert_eq!(ours.payload(), theirs.payload());
    let pseudo4 = checksum::pseudo_v4(SRC4, DST4, IpProtocol::UDP, ours.length());
    let pseudo6 = checksum::pseudo_v6(SRC6, DST6, IpProtocol::UDP, ours.length().into());
    let pairs: [(_, IpAddress, IpAddress); 2] =
        [(pseudo4, SRC4.into(), DST4.into()), (pseudo6, SRC6.into(), DST6.into())];
    for (pseudo, src, dst) in pairs {
        assert_eq!(ours.verify_checksum(pseudo), theirs.verify_checksum(&src, &dst));
        let (mut filled, mut their_filled) = (data.to_vec(), data.to_vec());
        Udp::new_checked(&mut filled[..]).expect("still valid").fill_checksum(pseudo);
        UdpPacket::new_unchecked(&mut their_filled[..]).fill_checksum(&src, &dst);
        assert_eq!(filled, their_filled);
    }
}

fn tcp(data: &[u8]) {
    let (ours, theirs) = (Tcp::new_checked(data), TcpPacket::new_checked(data));
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{data:x?}");
    assert_eq!(ours.is_ok(), TcpSlice::from_slice(data).is_ok(), "{data:x?}");
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    assert_eq!((ours.src_port(), ours.dst_port()), (theirs.src_port(), theirs.dst_port()));
    assert_eq!(ours.seq(), theirs.seq_number().0 as u32);
    assert_eq!(ours.ack(), theirs.ack_number().0 as u32);
    assert_eq!(ours.header_len(), usize::from(theirs.header_len()));
    assert_eq!((ours.window(), ours.urgent()), (theirs.window_len(), theirs.urgent_at()));
    assert_eq!((ours.checksum(), ours.payload()), (theirs.checksum(), theirs.payload()));
    let flags = [
        theirs.fin(),
        theirs.syn(),
        theirs.rst(),
        theirs.psh(),
        theirs.ack(),
        theirs.urg(),
        theirs.ece(),
        theirs.cwr(),
    ];
    let flags = flags.iter().enumerate().fold(0, |bits, (i, &set)| bits | u8::from(set) << i);
    assert_eq!(ours.flags().0, flags);
    // The length in the pseudo header has 16 bits in IPv4.
    let Ok(length) = u16::try_from(data.len()) else { return };
    let pseudo4 = checksum::pseudo_v4(SRC4, DST4, IpProtocol::TCP, length);
    let pseudo6 = checksum::pseudo_v6(SRC6, DST6, IpProtocol::TCP, length.into());
    let pairs: [(_, IpAddress, IpAddress); 2] =
        [(pseudo4, SRC4.into(), DST4.into()), (pseudo6, SRC6.into(), DST6.into())];
    for (pseudo, src, dst) in pairs {
        assert_eq!(ours.verify_checksum(pseudo), theirs.verify_checksum(&src, &dst));
        let (mut filled, mut their_filled) = (data.to_vec(), data.to_vec());
        Tcp::new_checked(&mut filled[..]).expect("still valid").fill_checksum(pseudo);
        TcpPacket::new_unchecked(&mut their_filled[..]).fill_checksum(&src, &dst);
        assert_eq!(filled, their_filled);
    }
    tcp_options(data, &ours);
}

/// etherparse stops with an error at options it does not know, and at SACK options of more than four
/// blocks, both of which we show.
fn tcp_options(data: &[u8], ours: &Tcp<&[u8]>) {
    let theirs = TcpSlice::from_slice(data).expect("accepted above");
    let mut theirs = theirs.options_iterator();
    for option in ours.options() {
        let option = match option {
            Ok(TcpOption::Other { .. }) | Err(_) => {
                assert!(theirs.next().is_none_or(|option| option.is_err()), "{data:x?}");
                return;
            }
            Ok(option) => option,
        };
        let theirs = match theirs.next() {
            Some(Ok(theirs)) => theirs,
            other => {
                let sack = matches!(option, TcpOption::Sack(blocks) if blocks.iter().count() > 4);
                assert!(sack, "{option:?} {other:?} {data:x?}");
                return;
            }
        };
        match (option, theirs) {
            (TcpOption::NoOperation, TcpOptionElement::Noop)
            | (TcpOption::SackPermitted, TcpOptionElement::SelectiveAcknowledgementPermitted) => {}
            (TcpOption::MaxSegmentSize(a), TcpOptionElement::MaximumSegmentSize(b)) => {
                assert_eq!(a, b);
            }
            (TcpOption::WindowScale(a), TcpOptionElement::WindowScale(b)) => assert_eq!(a, b),
            (TcpOption::Timestamps { value, echo }, TcpOptionElement::Timestamp(a, b)) => {
                assert_eq!((value, echo), (a, b));
            }
            (TcpOption::Sack(blocks), TcpOptionElement::SelectiveAcknowledgement(first, more)) => {
                let theirs = std::iter::once(first).chain(more.into_iter().flatten());
                assert!(blocks.iter().eq(theirs));
            }
            (ours, theirs) => panic!("{ours:?} {theirs:?}"),
        }
    }
    assert_eq!(theirs.next(), None, "{data:x?}");
}

fn icmp(data: &[u8]) {
    let (ours, theirs) = (Icmp::new_checked(data), Icmpv4Packet::new_checked(data));
    assert_eq!(ours.is_ok(), theirs.is_ok());
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    assert_eq!((ours.kind().0, ours.code()), (u8::from(theirs.msg_type()), theirs.msg_code()));
    assert_eq!((ours.ident(), ours.seq()), (theirs.echo_ident(), theirs.echo_seq_no()));
    assert_eq!(
        (ours.checksum(), ours.verify_checksum()),
        (theirs.checksum(), theirs.verify_checksum())
    );
    // etherparse knows timestamp messages to be longer.
    if let Ok(third) = Icmpv4Slice::from_slice(data) {
        assert_eq!(ours.rest().to_be_bytes(), third.bytes5to8());
    }
}

fn icmpv6(data: &[u8]) {
    let (ours, theirs) = (Icmpv6::new_checked(data), Icmpv6Slice::from_slice(data));
    assert_eq!(ours.is_ok(), theirs.is_ok());
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
    assert_eq!((ours.kind().0, ours.code()), (theirs.type_u8(), theirs.code_u8()));
    assert_eq!(ours.rest().to_be_bytes(), theirs.bytes5to8());
    assert_eq!((ours.checksum(), ours.payload()), (theirs.checksum(), theirs.payload()));
    let length = u32::try_from(data.len()).expect("small test data");
    let pseudo = checksum::pseudo_v6(SRC6, DST6, IpProtocol::ICMPV6, length);
    let valid = theirs.is_checksum_valid(SRC6.octets(), DST6.octets());
    assert_eq!(ours.verify_checksum(pseudo), valid, "{data:x?}");
    let mut filled = data.to_vec();
    Icmpv6::new_checked(&mut filled[..]).expect("still valid").fill_checksum(pseudo);
    if let Ok(third) = Icmpv6Packet::new_checked(&filled[..]) {
        assert!(third.verify_checksum(&SRC6, &DST6));
    }
}

/// Wherever etherparse finds a transport header from the Ethernet header on, so do we, and with the
/// same addresses, ports, tags and offset. It refuses more: see the headers above.
fn flow(data: &[u8]) {
    let ours = extract(data, VlanRule::Outer);
    let Ok(theirs) = SlicedPacket::from_ethernet(data) else { return };
    let (source, destination) = match &theirs.net {
        Some(NetSlice::Ipv4(ip)) => {
            (ip.header().source().to_vec(), ip.header().destination().to_vec())
        }
        Some(NetSlice::Ipv6(ip)) if ip.header().payload_length() != 0 => {
            (ip.header().source().to_vec(), ip.header().destination().to_vec())
        }
        _ => return,
    };
    let ours = match ours {
        Ok(ours) => ours,
        // Tags and extensions deeper than we look, and protocols with ports that etherparse
        // ignores.
        Err(NoFlow::Malformed(error)) => {
            assert!(theirs.transport.is_none() || theirs.is_ip_payload_fragmented(), "{error}");
            return;
        }
        // MACsec, which etherparse looks through.
        Err(NoFlow::NotIp(other)) => return assert_eq!(other, EtherType(0x88e5)),
    };
    let (src, dst) = match ours.key {
        FlowKey::V4(key) => (key.src.octets().to_vec(), key.dst.octets().to_vec()),
        FlowKey::V6(key) => (key.src.octets().to_vec(), key.dst.octets().to_vec()),
    };
    assert_eq!((src, dst), (source, destination));
    let tag = theirs.vlan_ids().first().map_or(0, |id| id.value());
    assert_eq!(ours.key.vlan(), tag, "{data:x?}");
    let (ports, header) = match &theirs.transport {
        Some(TransportSlice::Udp(udp)) => {
            ((udp.source_port(), udp.destination_port()), udp.slice())
        }
        Some(TransportSlice::Tcp(tcp)) => {
            ((tcp.source_port(), tcp.destination_port()), tcp.slice())
        }
        _ => return,
    };
    // An authentication header in IPv4 is a protocol like any other to us.
    if ours.key.protocol() == IpProtocol::AH {
        return;
    }
    assert_eq!(ours.key.ports(), ports, "{data:x?}");
    assert!(!ours.fragment);
    let offset = header.as_ptr().addr() - data.as_ptr().addr();
    assert_eq!(usize::from(ours.transport), offset);
}

#[test]
fn on_every_seed_and_its_layers() {
    let (mut flows, mut transports) = (0, 0);
    for (name, frame) in seeds() {
        for offset in 0..frame.len().min(80) {
            compare(&frame[offset..]);
        }
        let theirs = SlicedPacket::from_ethernet(&frame).unwrap_or_else(|e| panic!("{name}: {e}"));
        flows += usize::from(extract(&frame, VlanRule::Outer).is_ok());
        transports += usize::from(theirs.transport.is_some());
    }
    assert!(flows > 20 && transports > 15, "the seeds are compared in depth: {flows} {transports}");
}

/// Checksums of packets a Linux host sent are right, so that acceptance is not tested on failure only.
#[test]
fn captured_checksums_are_right() {
    let mut verified = 0;
    for (name, frame) in seeds().into_iter().filter(|(name, _)| name.starts_with("linux_")) {
        let Ok(flow) = extract(&frame, VlanRule::Outer) else { continue };
        let (network, transport) = (usize::from(flow.network), usize::from(flow.transport));
        let pseudo = match flow.key {
            FlowKey::V4(_) => {
                let ip = Ipv4::new_checked(&frame[network..]).unwrap();
                assert!(ip.verify_checksum(), "{name}");
                ip.pseudo_header()
            }
            FlowKey::V6(key) => {
                let ip = Ipv6::new_checked(&frame[network..]).unwrap();
                let length = network + 40 + usize::from(ip.payload_len()) - transport;
                ip.pseudo_header(key.protocol, length as u32)
            }
        };
        if flow.fragment {
            continue;
        }
        let payload = &frame[transport..];
        let valid = match flow.key.protocol() {
            IpProtocol::TCP => Tcp::new_checked(payload).unwrap().verify_checksum(pseudo),
            IpProtocol::UDP => Udp::new_checked(payload).unwrap().verify_checksum(pseudo),
            IpProtocol::ICMP => Icmp::new_checked(payload).unwrap().verify_checksum(),
            IpProtocol::ICMPV6 => Icmpv6::new_checked(payload).unwrap().verify_checksum(pseudo),
            other => panic!("{name}: {other}"),
        };
        assert!(valid, "{name}");
        verified += 1;
    }
    assert!(verified >= 12, "{verified}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn on_random_bytes(
        first in prop_oneof![Just(0x45u8), Just(0x60u8), Just(0x4fu8), any::<u8>()],
        mut bytes in proptest::collection::vec(any::<u8>(), 1..150),
    ) {
        bytes[0] = first;
        compare(&bytes);
        // Lengths that fit, which random ones rarely do.
        if let Some(len) = bytes.get_mut(2..6) {
            len.copy_from_slice(&[0, 40, 0, 20]);
        }
        compare(&bytes);
    }

    #[test]
    fn on_random_tcp_options(
        options in proptest::collection::vec(
            prop_oneof![0..9u8, Just(10u8), Just(18u8), any::<u8>()], 40
        ),
    ) {
        let mut segment = vec![0; 20];
        segment[12] = 0xf0;
        segment.extend(options);
        tcp(&segment);
    }

    #[test]
    fn on_mutated_seeds(
        (_, frame) in prop::sample::select(seeds()),
        changes in proptest::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut frame = frame;
        for (at, value) in changes {
            let at = at.index(frame.len().min(90));
            frame[at] = value;
        }
        if let Some(cut) = cut {
            frame.truncate(cut.index(frame.len() + 1));
        }
        for offset in [0, 14, 18, 22, 34, 38, 42, 54, 62] {
            compare(frame.get(offset..).unwrap_or(&[]));
        }
    }
}

//! Flow keys of golden frames, and the rules for VLANs, fragments and malformed packets.

mod common;

use common::hex;
use linerate_packet::flow::{FlowKey, FlowV4, FlowV6, NoFlow, VlanRule, extract};
use linerate_packet::{EtherType, Fault, Header, IpProtocol, Malformed};
use proptest::prelude::*;

fn v4(src_port: u16, dst_port: u16, vlan: u16, protocol: IpProtocol) -> FlowKey {
    let (src, dst) = ("10.0.0.1".parse().unwrap(), "192.168.1.2".parse().unwrap());
    FlowKey::V4(FlowV4 { src, dst, src_port, dst_port, vlan, protocol })
}

fn v6(src_port: u16, dst_port: u16, vlan: u16, protocol: IpProtocol) -> FlowKey {
    let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    FlowKey::V6(FlowV6 { src, dst, src_port, dst_port, vlan, protocol })
}

#[test]
fn golden_frames() {
    use IpProtocol as P;
    for (frame, key, network, transport, fragment) in [
        (common::UDP_V4_VLAN, v4(1000, 9, 100, P::UDP), 18, 38, false),
        (common::UDP_V6_QINQ, v6(1000, 9, 200, P::UDP), 22, 62, false),
        (common::TCP_V4, v4(40000, 443, 0, P::TCP), 14, 34, false),
        (common::TCP_V6, v6(40000, 443, 0, P::TCP), 14, 54, false),
        (common::ECHO_V4, v4(0, 0, 0, P::ICMP), 14, 34, false),
        (common::ECHO_V6, v6(0, 0, 0, P::ICMPV6), 14, 54, false),
        (common::VXLAN_V4, v4(50000, 4789, 0, P::UDP), 14, 34, false),
        (common::EXTENSIONS_V6, v6(5, 6, 0, P::UDP), 14, 70, false),
        (common::FRAGMENT_V4, v4(0, 0, 0, P::UDP), 14, 34, true),
        (common::FRAGMENT_V6, v6(0, 0, 0, P::UDP), 14, 62, true),
    ] {
        let flow = extract(&hex(frame), VlanRule::Outer).unwrap();
        assert_eq!(flow.key, key);
        assert_eq!((flow.network, flow.transport), (network, transport), "{key}");
        assert_eq!(flow.fragment, fragment, "{key}");
    }
    let arp = extract(&hex(common::ARP_REQUEST), VlanRule::Outer);
    assert_eq!(arp, Err(NoFlow::NotIp(EtherType::ARP)));
}

#[test]
fn the_rule_chooses_the_tag() {
    let frame = hex(common::UDP_V6_QINQ);
    for (rule, vlan) in [(VlanRule::Outer, 200), (VlanRule::Inner, 7), (VlanRule::Ignore, 0)] {
        assert_eq!(extract(&frame, rule).unwrap().key, v6(1000, 9, vlan, IpProtocol::UDP));
    }
    let mut priority_only = hex(common::UDP_V4_VLAN);
    priority_only[14..16].copy_from_slice(&[0xe0, 0x00]);
    let flow = extract(&priority_only, VlanRule::Outer).unwrap();
    assert_eq!(flow.key.vlan(), 0);
}

/// The first fragment has the ports, and must still be in the same flow as the others.
#[test]
fn all_fragments_of_a_datagram_have_one_key() {
    let whole = hex(common::UDP_V4_VLAN);
    let with_fragment_field = |high: u8, low: u8| {
        let mut frame = whole.clone();
        frame[24..26].copy_from_slice(&[high, low]);
        extract(&frame, VlanRule::Outer).unwrap()
    };
    let (first, middle, last) = (
        with_fragment_field(0x20, 0x00),
        with_fragment_field(0x20, 0x10),
        with_fragment_field(0x00, 0x20),
    );
    assert!(first.fragment && middle.fragment && last.fragment);
    assert_eq!(first.key, v4(0, 0, 100, IpProtocol::UDP));
    assert!(first.key == middle.key && middle.key == last.key);
    assert!(!with_fragment_field(0x40, 0x00).fragment, "don't fragment is no fragment");
}

#[test]
fn an_atomic_ipv6_fragment_has_ports() {
    let mut frame = hex(common::FRAGMENT_V6);
    frame[57] = 0; // no more fragments
    let flow = extract(&frame, VlanRule::Outer).unwrap();
    assert_eq!((flow.key, flow.fragment), (v6(5, 6, 0, IpProtocol::UDP), false));
}

#[test]
fn malformed_packets_have_no_key_and_say_why() {
    let malformed = |header, fault| Err(NoFlow::Malformed(Malformed { header, fault }));
    let frame = hex(common::TCP_V4);
    assert_eq!(
        extract(&frame[..10], VlanRule::Outer),
        malformed(Header::Ethernet, Fault::Truncated)
    );
    assert_eq!(extract(&frame[..20], VlanRule::Outer), malformed(Header::Ipv4, Fault::Truncated));
    assert_eq!(extract(&frame[..40], VlanRule::Outer), malformed(Header::Ipv4, Fault::Length));
    // A total length that leaves three bytes for the ports.
    let mut short = frame.clone();
    short[17] = 23;
    assert_eq!(extract(&short, VlanRule::Outer), malformed(Header::Ports, Fault::Truncated));
    let text = extract(&short, VlanRule::Outer).unwrap_err().to_string();
    assert_eq!(text, "malformed port header: the bytes end inside it");
}

#[test]
fn text_form() {
    assert_eq!(v4(1, 2, 0, IpProtocol::UDP).to_string(), "udp 10.0.0.1:1 > 192.168.1.2:2");
    assert_eq!(
        v6(1, 2, 7, IpProtocol::TCP).to_string(),
        "tcp [2001:db8::1]:1 > [2001:db8::2]:2 vlan 7"
    );
}

prop_compose! {
    fn any_key()(
        v4 in any::<bool>(),
        ips in any::<(u128, u128)>(),
        same_ip in any::<bool>(),
        ports in any::<(u16, u16)>(),
        vlan in 0..4096u16,
        protocol in any::<u8>(),
    ) -> FlowKey {
        let (src, dst) = (ips.0, if same_ip { ips.0 } else { ips.1 });
        let ((src_port, dst_port), protocol) = (ports, IpProtocol(protocol));
        if v4 {
            let (src, dst) = ((src as u32).into(), (dst as u32).into());
            FlowKey::V4(FlowV4 { src, dst, src_port, dst_port, vlan, protocol })
        } else {
            let (src, dst) = (src.into(), dst.into());
            FlowKey::V6(FlowV6 { src, dst, src_port, dst_port, vlan, protocol })
        }
    }
}

proptest! {
    #[test]
    fn symmetric_keys(key in any_key(), seed in any::<u64>()) {
        let symmetric = key.symmetric();
        prop_assert!(symmetric == key || symmetric == key.reversed());
        prop_assert_eq!(symmetric, key.reversed().symmetric());
        prop_assert_eq!(symmetric.symmetric(), symmetric);
        prop_assert_eq!(key.reversed().reversed(), key);
        prop_assert_eq!(symmetric.hash64(seed), key.reversed().symmetric().hash64(seed));
    }
}

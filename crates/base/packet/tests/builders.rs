//! Built frames are, byte for byte, those of scapy; patched frames are those built with the new
//! values.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr};

use common::hex;
use linerate_packet::build::{
    Addresses, ArpFrame, BuildError, EchoFrame, Ip, Layout, Link, Tagging, TcpFrame, UdpFrame,
    VxlanFrame,
};
use linerate_packet::tcp::Flags;
use linerate_packet::vlan::Tci;
use linerate_packet::{IpProtocol, MacAddr};
use proptest::prelude::*;

const LINK: Link = Link::new(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
const V4: Ip = Ip::v4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 168, 1, 2));
const V6: Ip = Ip::v6(
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
);
const PAYLOAD: [u8; 7] = [0, 1, 2, 3, 4, 5, 6];

/// Emits with the payload in place and compares with the golden frame.
fn assert_golden(
    golden: &str,
    layout: Layout,
    emit: impl FnOnce(&mut [u8]) -> Result<Layout, BuildError>,
) {
    let golden = hex(golden);
    let mut buffer = [0xaa; 200];
    buffer[layout.payload..layout.len].copy_from_slice(&PAYLOAD[..layout.len - layout.payload]);
    assert_eq!(emit(&mut buffer), Ok(layout));
    assert_eq!(buffer[..layout.len], golden);
    assert!(buffer[layout.len..].iter().all(|&byte| byte == 0xaa), "wrote behind the frame");
}

#[test]
fn udp() {
    let link = Link { tags: Tagging::Single(Tci::new(3, false, 100)), ..LINK };
    let udp = UdpFrame { link, ip: V4, src_port: 1000, dst_port: 9, payload_len: 7 };
    assert_golden(common::UDP_V4_VLAN, udp.layout(), |buffer| udp.emit(buffer));

    let tags = Tagging::Double { outer: Tci::new(0, false, 200), inner: Tci::new(0, true, 7) };
    let ip = Ip { traffic_class: 0xb9, flow_label: 0x12345, ttl: 9, ..V6 };
    let udp = UdpFrame { link: Link { tags, ..LINK }, ip, ..udp };
    assert_golden(common::UDP_V6_QINQ, udp.layout(), |buffer| udp.emit(buffer));
}

#[test]
fn tcp() {
    let tcp = TcpFrame {
        link: LINK,
        ip: Ip { dont_fragment: false, ident: 0x1234, ttl: 3, traffic_class: 0x10, ..V4 },
        src_port: 40000,
        dst_port: 443,
        seq: 0x1122_3344,
        ack: 0x5566_7788,
        flags: Flags::PSH | Flags::ACK,
        window: 501,
        options: &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
        payload_len: 7,
    };
    assert_golden(common::TCP_V4, tcp.layout(), |buffer| tcp.emit(buffer));

    let flags = Flags::SYN;
    let syn = TcpFrame { ip: V6, seq: 1, ack: 0, flags, window: 65535, options: &[], ..tcp };
    let syn = TcpFrame { payload_len: 0, ..syn };
    assert_golden(common::TCP_V6, syn.layout(), |buffer| syn.emit(buffer));
}

#[test]
fn echo() {
    let (ident, seq) = (0x1234, 7);
    let echo = EchoFrame { link: LINK, ip: V4, reply: false, ident, seq, payload_len: 7 };
    assert_golden(common::ECHO_V4, echo.layout(), |buffer| echo.emit(buffer));
    let echo = EchoFrame { ip: V6, reply: true, ..echo };
    assert_golden(common::ECHO_V6, echo.layout(), |buffer| echo.emit(buffer));
}

#[test]
fn vxlan() {
    let vxlan = VxlanFrame { link: LINK, ip: V4, src_port: 50000, vni: 0x123456, payload_len: 7 };
    assert_golden(common::VXLAN_V4, vxlan.layout(), |buffer| vxlan.emit(buffer));
    let vxlan = VxlanFrame { ip: V6, ..vxlan };
    assert_golden(common::VXLAN_V6, vxlan.layout(), |buffer| vxlan.emit(buffer));
}

#[test]
fn arp() {
    let (sender, target) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let arp = ArpFrame::request(LINK.src, sender, target);
    let mut buffer = [0xaa; 60];
    assert_eq!(arp.emit(&mut buffer), Ok(42));
    assert_eq!(buffer[..42], hex(common::ARP_REQUEST));
    assert_eq!(arp.emit(&mut buffer[..41]), Err(BuildError::Buffer { need: 42, have: 41 }));
}

#[test]
fn too_small_buffers_and_too_long_packets_are_refused() {
    let udp = UdpFrame { link: LINK, ip: V4, src_port: 1, dst_port: 2, payload_len: 10 };
    for have in 0..52 {
        let mut buffer = vec![0; have];
        assert_eq!(udp.emit(&mut buffer), Err(BuildError::Buffer { need: 52, have }));
    }
    let mut large = vec![0; 70_000];
    // IPv4 counts its header in the length field, IPv6 does not.
    for (ip, fits) in [(V4, 65535 - 28), (V6, 65535 - 8)] {
        let udp = UdpFrame { ip, payload_len: fits, ..udp };
        assert!(udp.emit(&mut large).is_ok());
        let udp = UdpFrame { payload_len: fits + 1, ..udp };
        assert!(matches!(udp.emit(&mut large), Err(BuildError::TooLong(_))));
        let udp = UdpFrame { payload_len: usize::MAX, ..udp };
        assert!(matches!(udp.emit(&mut large), Err(BuildError::TooLong(_))));
    }
    for len in [3, 41, 44] {
        let options = &[1; 44][..len];
        let tcp = TcpFrame {
            link: LINK,
            ip: V4,
            src_port: 1,
            dst_port: 2,
            seq: 0,
            ack: 0,
            flags: Flags::ACK,
            window: 0,
            options,
            payload_len: 0,
        };
        assert_eq!(tcp.emit(&mut large), Err(BuildError::Options(len)));
    }
}

#[test]
fn a_patch_of_a_cut_frame_changes_nothing() {
    let udp = UdpFrame { link: LINK, ip: V4, src_port: 1, dst_port: 2, payload_len: 0 };
    let mut frame = [0; 42];
    let patch = udp.emit(&mut frame).unwrap().patch();
    for len in 0..42 {
        let mut cut = frame[..len].to_vec();
        assert!(!patch.set_src_v4(&mut cut, Ipv4Addr::LOCALHOST));
        assert!(!patch.set_dst_v4(&mut cut, Ipv4Addr::LOCALHOST));
        assert!(!patch.set_src_v6(&mut cut, Ipv6Addr::LOCALHOST));
        assert!(!patch.set_src_port(&mut cut, 99));
        assert!(!patch.set_dst_port(&mut cut, 99));
        assert_eq!(cut, frame[..len]);
    }
    assert!(!patch.set_echo_ident(&mut frame, 1), "udp has no echo identifier");
    let echo = EchoFrame { link: LINK, ip: V4, reply: false, ident: 1, seq: 1, payload_len: 0 };
    let patch = echo.emit(&mut frame).unwrap().patch();
    assert!(!patch.set_src_port(&mut frame, 1), "icmp has no ports");
}

#[test]
fn an_absent_udp_checksum_stays_absent() {
    let vxlan = VxlanFrame { link: LINK, ip: V4, src_port: 1, vni: 1, payload_len: 0 };
    let mut frame = [0; 50];
    let layout = vxlan.emit(&mut frame).unwrap();
    assert!(layout.patch().set_src_port(&mut frame, 99));
    assert!(layout.patch().set_src_v4(&mut frame, Ipv4Addr::LOCALHOST));
    assert_eq!(frame[40..42], [0, 0]);
    assert_eq!(frame[34..36], [0, 99]);
}

#[test]
fn a_patch_without_transport_header_changes_the_ip_header_only() {
    let udp = UdpFrame { link: LINK, ip: V4, src_port: 1, dst_port: 2, payload_len: 0 };
    let mut frame = [0; 42];
    let layout = udp.emit(&mut frame).unwrap();
    let transport = frame[34..].to_vec();
    let patch = linerate_packet::patch::Patch::new(layout.network as u16, 34, IpProtocol::NO_NEXT);
    assert!(patch.set_dst_v4(&mut frame, Ipv4Addr::LOCALHOST));
    assert_eq!(frame[34..], transport);
    assert!(linerate_packet::Ipv4::new_checked(&frame[14..]).unwrap().verify_checksum());
}

proptest! {
    /// Emitting a description and patching a template to it give the same bytes.
    #[test]
    fn patching_equals_building(
        v4 in any::<(u32, u32, u16)>(),
        v6 in any::<(u128, u128)>(),
        ports in any::<(u16, u16)>(),
        payload in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let four = Ip {
            addresses: Addresses::V4 { src: v4.0.into(), dst: v4.1.into() },
            ident: v4.2,
            ..V4
        };
        let six = Ip { addresses: Addresses::V6 { src: v6.0.into(), dst: v6.1.into() }, ..V6 };
        for (before, after) in [(V4, four), (V6, six)] {
            let patch_ip = |layout: Layout, frame: &mut [u8]| {
                let patch = layout.patch();
                match after.addresses {
                    Addresses::V4 { src, dst } => {
                        patch.set_src_v4(frame, src)
                            && patch.set_dst_v4(frame, dst)
                            && patch.set_ident(frame, after.ident)
                    }
                    Addresses::V6 { src, dst } => {
                        patch.set_src_v6(frame, src) && patch.set_dst_v6(frame, dst)
                    }
                }
            };
            let frame_with = |layout: Layout| {
                let mut frame = vec![0; layout.len];
                frame[layout.payload..].copy_from_slice(&payload);
                frame
            };
            let payload_len = payload.len();

            let udp = UdpFrame { link: LINK, ip: before, src_port: 7, dst_port: 8, payload_len };
            let layout = udp.layout();
            let mut patched = frame_with(layout);
            udp.emit(&mut patched).unwrap();
            prop_assert!(patch_ip(layout, &mut patched));
            prop_assert!(layout.patch().set_src_port(&mut patched, ports.0));
            prop_assert!(layout.patch().set_dst_port(&mut patched, ports.1));
            let mut built = frame_with(layout);
            let udp = UdpFrame { ip: after, src_port: ports.0, dst_port: ports.1, ..udp };
            udp.emit(&mut built).unwrap();
            prop_assert_eq!(&patched, &built);

            let tcp = TcpFrame {
                link: LINK,
                ip: before,
                src_port: 7,
                dst_port: 8,
                seq: 1,
                ack: 2,
                flags: Flags::ACK,
                window: 3,
                options: &[],
                payload_len,
            };
            let layout = tcp.layout();
            let mut patched = frame_with(layout);
            tcp.emit(&mut patched).unwrap();
            prop_assert!(patch_ip(layout, &mut patched));
            prop_assert!(layout.patch().set_src_port(&mut patched, ports.0));
            prop_assert!(layout.patch().set_dst_port(&mut patched, ports.1));
            let mut built = frame_with(layout);
            let tcp = TcpFrame { ip: after, src_port: ports.0, dst_port: ports.1, ..tcp };
            tcp.emit(&mut built).unwrap();
            prop_assert_eq!(&patched, &built);

            let echo =
                EchoFrame { link: LINK, ip: before, reply: false, ident: 7, seq: 8, payload_len };
            let layout = echo.layout();
            let mut patched = frame_with(layout);
            echo.emit(&mut patched).unwrap();
            prop_assert!(patch_ip(layout, &mut patched));
            prop_assert!(layout.patch().set_echo_ident(&mut patched, ports.0));
            prop_assert!(layout.patch().set_echo_seq(&mut patched, ports.1));
            let mut built = frame_with(layout);
            let echo = EchoFrame { ip: after, ident: ports.0, seq: ports.1, ..echo };
            echo.emit(&mut built).unwrap();
            prop_assert_eq!(&patched, &built);
        }
    }
}

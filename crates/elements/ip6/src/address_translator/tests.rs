use etherparse::{IpHeaders, PacketBuilder, PacketHeaders, TransportHeader};
use proptest::prelude::*;

use super::{
    mappings::{Endpoint, Flow},
    rewrite::{Reason, rewrite},
    *,
};
use crate::testing::Run;

const INSIDE: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const OUTSIDE: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
const PEER: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 2, 0, 0, 2];

fn mappings(places: Option<Places>) -> Mappings {
    let fixed = match places {
        Some(_) => Vec::new(),
        None => vec![(end(INSIDE, 0), end(OUTSIDE, 0))],
    };
    Mappings::new(Plan { fixed, fixed_ports: false, places }).unwrap()
}

fn end(address: [u8; 16], port: u16) -> Endpoint {
    Endpoint { address: u128::from_be_bytes(address), port }
}

fn ports() -> Option<Places> {
    let ends = (1000..1010).map(|port| end(OUTSIDE, port)).collect();
    Some(Places { way: Direction::Out, ends, ports: true, timeout: 1000 })
}

/// TCP, UDP, a ping or its answer.
fn packet(kind: u8, from: ([u8; 16], u16), to: ([u8; 16], u16), data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ip = PacketBuilder::ipv6(from.0, to.0, 9);
    match kind % 4 {
        0 => ip.udp(from.1, to.1).write(&mut bytes, data),
        1 => ip.tcp(from.1, to.1, 5, 6).write(&mut bytes, data),
        2 => ip.icmpv6_echo_request(from.1, 5).write(&mut bytes, data),
        _ => ip.icmpv6_echo_reply(to.1, 5).write(&mut bytes, data),
    }
    .unwrap();
    bytes
}

proptest! {
    /// Translated packets equal those of etherparse with the other addresses, checksums included.
    #[test]
    fn packets_are_those_of_etherparse(
        kind in 0u8..3,
        port: u16,
        peer: u16,
        data in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut by_address = mappings(None);
        let out = packet(kind, (INSIDE, port), (PEER, peer), &data);
        let mut bytes = out.clone();
        prop_assert_eq!(rewrite(&mut bytes, Direction::Out, &mut by_address, 0), Ok(()));
        prop_assert_eq!(&bytes, &packet(kind, (OUTSIDE, port), (PEER, peer), &data));

        let mut by_port = mappings(ports());
        let mut bytes = out;
        prop_assert_eq!(rewrite(&mut bytes, Direction::Out, &mut by_port, 0), Ok(()));
        prop_assert_eq!(&bytes, &packet(kind, (OUTSIDE, 1000), (PEER, peer), &data));
        // And the answer.
        let answer = if kind == 2 { 3 } else { kind };
        let mut bytes = packet(answer, (PEER, peer), (OUTSIDE, 1000), &data);
        prop_assert_eq!(rewrite(&mut bytes, Direction::In, &mut by_port, 0), Ok(()));
        prop_assert_eq!(&bytes, &packet(answer, (PEER, peer), (INSIDE, port), &data));
    }

    /// An error about a packet that went out has its original source.
    #[test]
    fn errors_are_about_the_packet_before(
        kind in 0u8..3,
        port: u16,
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut by_port = mappings(ports());
        let flow = Flow {
            mapped: end(INSIDE, port),
            peer: end(PEER, if kind == 2 { 0 } else { 80 }),
            protocol: [17, 6, 58][usize::from(kind)],
        };
        by_port.map(Direction::Out, &flow, 0).unwrap();
        let error = |to, quoted: &[u8]| {
            let mut bytes = Vec::new();
            let router = [0xfe; 16];
            PacketBuilder::ipv6(router, to, 64)
                .icmpv6_raw(1, 0, [0; 4])
                .write(&mut bytes, quoted)
                .unwrap();
            bytes
        };
        let mut bytes = error(OUTSIDE, &packet(kind, (OUTSIDE, 1000), (PEER, 80), &data));
        prop_assert_eq!(rewrite(&mut bytes, Direction::In, &mut by_port, 0), Ok(()));
        let expected = error(INSIDE, &packet(kind, (INSIDE, port), (PEER, 80), &data));
        prop_assert_eq!(bytes, expected);
    }

    #[test]
    fn no_bytes_do_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..120), next in 0u8..60) {
        for places in [None, ports()] {
            let mut mappings = mappings(places);
            for way in [Direction::Out, Direction::In] {
                let _ = rewrite(&mut bytes.clone(), way, &mut mappings, 0);
                if bytes.len() > 40 {
                    let length = bytes.len() as u16 - 40;
                    (bytes[0], bytes[6]) = (0x60, next);
                    bytes[4..6].copy_from_slice(&length.to_be_bytes());
                    bytes[8..24].copy_from_slice(&INSIDE);
                    bytes[24..40].copy_from_slice(&OUTSIDE);
                }
            }
        }
    }
}

#[test]
fn packets_without_a_mapping_are_refused() {
    let mut by_port = mappings(ports());
    let mut inward = packet(0, (PEER, 80), (OUTSIDE, 1000), b"");
    assert_eq!(rewrite(&mut inward, Direction::In, &mut by_port, 0), Err(Reason::NoMapping));
    let mut other = packet(0, (INSIDE, 80), (PEER, 1000), b"");
    other[6] = 47;
    assert_eq!(rewrite(&mut other, Direction::Out, &mut by_port, 0), Err(Reason::Protocol));
    other.truncate(30);
    assert_eq!(rewrite(&mut other, Direction::Out, &mut by_port, 0), Err(Reason::Malformed));
}

#[test]
fn hosts_of_ipv6_reach_ipv4() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let ping = hex(&packet(2, (INSIDE, 7), (PEER, 0), b"data"));
    let mut run = Run::new(&format!(
        "a :: AddressTranslator(0, true, true, false, ::ffff:10.0.0.1 1024 2000);
         InfiniteSource(DATA \\<{ping}>, LIMIT 3) -> a -> ProtocolTranslator64 -> four :: Tee
         -> CheckIPHeader -> CheckICMPHeader -> ICMPPingResponder -> ProtocolTranslator46
         -> [1] a [1] -> CheckIP6Header -> back :: Collect; four [1] -> out :: Collect;
         Script(wait 1, stop);"
    ));
    run.run();
    let out = run.read("out.packets");
    let bytes: Vec<u8> = (0..out.lines().next().unwrap().len() / 2)
        .map(|at| u8::from_str_radix(&out[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let headers = PacketHeaders::from_ip_slice(&bytes).unwrap();
    assert!(matches!(headers.transport, Some(TransportHeader::Icmpv4(_))));
    let (ip, _) = IpHeaders::from_slice(&bytes).unwrap();
    assert_eq!(ip.ipv4().unwrap().0.source, [10, 0, 0, 1]);
    let mut answer = packet(3, (PEER, 0), (INSIDE, 7), b"data");
    // Hops of the answer.
    answer[7] = 255;
    let answer = hex(&answer);
    assert_eq!(run.read("back.packets"), [answer.as_str(); 3].join("\n"));
    assert_eq!((run.read("a.count"), run.read("a.refused")), ("1".into(), "0".into()));
}

#[test]
fn mappings_are_configured() {
    for (config, error) in [
        ("x", "argument 0 should be : integer"),
        ("0", "argument 1 should be : bool"),
        ("1, false, ::1 ::2 ::3, false", "argument 2 should be : <IP6Address> <IP6Address>"),
        ("0, true, false, false, x", "argument 3 should be : <IP6Address>"),
        ("0, true, true, false, ::1 9 8", "argument 3 should be : <IP6Address> <unsigned char>"),
        ("99999999, true", "too many mappings"),
    ] {
        let text = format!(
            "a :: AddressTranslator({config}); Idle -> a -> Discard; Idle -> [1] a [1] -> Discard"
        );
        assert!(Run::errors(&text).contains(error), "{config}: {}", Run::errors(&text));
    }
}

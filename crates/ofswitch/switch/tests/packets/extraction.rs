//! Extraction of header fields.

use linerate_ofswitch::key::{INNER_TCI, Key, extension, extract};
use linerate_openflow::wire::Field;
use proptest::prelude::*;

use crate::exercise;
use crate::generate::{Random, damaged, packet};

proptest! {
    #[test]
    fn any_bytes_are_a_packet(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        exercise::packet(&bytes);
        exercise::set(&bytes);
    }
}

#[test]
fn made_up_packets_are_packets() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let packet = if random.one_in(2) { packet(&mut random) } else { damaged(&mut random) };
        exercise::packet(&packet);
        let mut choice: Vec<u8> = (0..33).map(|_| random.next() as u8).collect();
        choice.extend(packet);
        exercise::set(&choice);
    }
}

fn key(parts: &[&[u8]]) -> Key {
    let mut key = Key::default();
    extract(&parts.concat(), &mut key);
    key
}

const ADDRESSES: &[u8] = &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// Returns the key of IPv6 with these headers, each with the kind of the next and seven bytes.
fn ipv6(kinds: &[u8]) -> Key {
    let mut headers = Vec::new();
    for next in &kinds[1..] {
        headers.extend([*next, 0, 0, 0, 0, 0, 0, 0]);
    }
    let head = [0x60, 0, 0, 0, 0, headers.len() as u8, kinds[0], 64];
    key(&[ADDRESSES, &[0x86, 0xdd], &head, &[0; 32], &headers])
}

#[test]
fn extension_headers_are_told_apart() {
    let seen = |kinds: &[u8]| ipv6(kinds).get(Field::Ipv6Extensions) as u16;
    use extension::*;
    assert_eq!(seen(&[6]), 0);
    assert_eq!(seen(&[59]), NO_NEXT);
    assert_eq!(seen(&[50]), ENCRYPTED);
    assert_eq!(seen(&[0, 59]), HOP | NO_NEXT);
    assert_eq!(
        seen(&[0, 60, 43, 44, 51, 60, 6]),
        HOP | DESTINATION | ROUTER | FRAGMENT | AUTHENTICATION
    );
    assert_eq!(seen(&[43, 0, 6]), ROUTER | UNORDERED);
    assert_eq!(seen(&[44, 43, 6]), FRAGMENT | ROUTER | UNORDERED);
    assert_eq!(seen(&[43, 43, 6]), ROUTER | REPEATED);
    assert_eq!(seen(&[60, 60, 6]), DESTINATION);
    assert_eq!(seen(&[60, 60, 60, 6]), DESTINATION | REPEATED);
    // The last is cut off, so nothing behind the addresses is known.
    assert_eq!(ipv6(&[0, 0]).get(Field::IpProto), 0);
}

#[test]
fn of_two_tags_the_outer_is_read() {
    let ip = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let tagged = |tags: &[u8]| key(&[ADDRESSES, tags, &[8, 0], &ip]);
    let inner = |key: &Key| key.words()[INNER_TCI.word] >> INNER_TCI.shift & 0xffff;
    let one = tagged(&[0x81, 0, 0x20, 5]);
    assert_eq!(one.get(Field::VlanTci), 0x3005);
    assert_eq!((one.get(Field::EthType), inner(&one)), (0x0800, 0));
    assert_eq!(one.get(Field::Ipv4Src), 0x0a00_0001);
    let two = tagged(&[0x88, 0xa8, 0x20, 5, 0x81, 0, 0, 6]);
    assert_eq!(two.get(Field::VlanTci), 0x3005);
    assert_eq!((two.get(Field::EthType), inner(&two)), (0x8100, 0x1006));
    assert_eq!(two.get(Field::Ipv4Src), 0);
}

#[test]
fn backbone_bridging_has_a_service() {
    let key = key(&[ADDRESSES, &[0x88, 0xe7, 0x28, 1, 2, 3], &[0; 14]]);
    assert_eq!(key.get(Field::PbbIsid), 0x01_0203);
    assert_eq!(key.get(Field::PbbUca), 1);
}

#[test]
fn network_service_headers_have_fields() {
    let header = |bytes: &[u8]| key(&[ADDRESSES, &[0x89, 0x4f], bytes]);
    let path = [0x12, 0x34, 0x56, 0xff];
    let context: Vec<u8> = (1..=16).collect();
    let base = |bytes: [u8; 4]| [&bytes[..], &path].concat();
    // Flags 2, time to live 63, six words.
    let one = [base([0x2f, 0xc6, 1, 3]), context.clone(), vec![0; 20]].concat();
    let read = header(&one);
    assert_eq!(
        read.to_string(),
        "eth_dst=02:00:00:00:00:01,eth_src=02:00:00:00:00:02,eth_type=0x894f,nsh_flags=2,\
         nsh_ttl=63,nsh_mdtype=1,nsh_np=3,nsh_spi=0x123456,nsh_si=255,nsh_c1=0x1020304,\
         nsh_c2=0x5060708,nsh_c3=0x90a0b0c,nsh_c4=0xd0e0f10"
    );
    // Metadata of type 2 have no fields, whatever their length.
    let two = header(&[base([0, 0x44, 2, 1]), vec![7; 8]].concat());
    assert_eq!((two.get(Field::NshMdType), two.get(Field::NshTtl)), (2, 1));
    assert_eq!((two.words()[6], two.words()[7]), (0, 0));
    assert_eq!(header(&base([0, 2, 3, 1])).get(Field::NshSi), 255);
    // Another version, a length that cannot be, a header that is cut off.
    let broken = [
        [base([0x40, 6, 1, 3]), context.clone()].concat(),
        [base([0, 5, 1, 3]), context.clone()].concat(),
        [base([0, 7, 1, 3]), context.clone(), vec![0; 4]].concat(),
        base([0, 1, 2, 3]),
        base([0, 3, 2, 3]),
        one[..23].to_vec(),
        one[..7].to_vec(),
    ];
    for bytes in broken {
        assert_eq!(header(&bytes).words()[3..], Key::default().words()[3..], "{bytes:02x?}");
    }
}

#[test]
fn a_key_is_shown_with_the_packets_fields() {
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let mut key = key(&[ADDRESSES, &[8, 0], &ip, &[0, 53, 0, 7, 0, 8, 0, 0]]);
    key.set(Field::InPort, 3);
    assert_eq!(
        key.to_string(),
        "in_port=3,eth_dst=02:00:00:00:00:01,eth_src=02:00:00:00:00:02,eth_type=0x0800,ip_dscp=0,\
         ip_ecn=0,ip_proto=17,ip_ttl=64,ipv4_src=10.0.0.1,ipv4_dst=10.0.0.2,udp_src=53,udp_dst=7"
    );
    let beside: Vec<_> = key.fields_beside_headers().entries().map(|entry| entry.field()).collect();
    assert_eq!(beside, [Field::InPort]);
}

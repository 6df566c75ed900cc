use etherparse::{IpHeaders, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;
use crate::testing::Run;

/// Returns the translated packet.
fn v6(packet: &[u8]) -> Result<Vec<u8>, Reason> {
    let (mut ip, mut message) = (packet.to_vec(), Vec::new());
    let outcome = to_v6::translate(&mut ip, &Prefix::MAPPED, &mut message)?;
    Ok(join(&ip, &message, outcome))
}

fn v4(packet: &[u8]) -> Result<Vec<u8>, Reason> {
    let (mut ip, mut message) = (packet.to_vec(), Vec::new());
    let outcome = to_v4::translate(&mut ip, &Prefix::MAPPED, 7, &mut message)?;
    Ok(join(&ip, &message, outcome))
}

fn join(ip: &[u8], message: &[u8], outcome: Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Header(head) => [head.bytes(), &ip[head.replaced..][..head.payload]].concat(),
        Outcome::Message(head) => [head.bytes(), message].concat(),
    }
}

fn mapped(v4: [u8; 4]) -> [u8; 16] {
    Prefix::MAPPED.join(v4)
}

/// A packet of both versions with the same in it: TCP, UDP, a ping or its answer.
fn pair(
    kind: u8,
    [from, to]: [[u8; 4]; 2],
    ids: (u16, u16),
    hops: u8,
    data: &[u8],
) -> [Vec<u8>; 2] {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let a = PacketBuilder::ipv4(from, to, hops);
    let b = PacketBuilder::ipv6(mapped(from), mapped(to), hops);
    match kind % 4 {
        0 => {
            a.udp(ids.0, ids.1).write(&mut old, data).unwrap();
            b.udp(ids.0, ids.1).write(&mut new, data).unwrap();
        }
        1 => {
            a.tcp(ids.0, ids.1, 5, 6).write(&mut old, data).unwrap();
            b.tcp(ids.0, ids.1, 5, 6).write(&mut new, data).unwrap();
        }
        2 => {
            a.icmpv4_echo_request(ids.0, ids.1).write(&mut old, data).unwrap();
            b.icmpv6_echo_request(ids.0, ids.1).write(&mut new, data).unwrap();
        }
        _ => {
            a.icmpv4_echo_reply(ids.0, ids.1).write(&mut old, data).unwrap();
            b.icmpv6_echo_reply(ids.0, ids.1).write(&mut new, data).unwrap();
        }
    }
    // May be fragmented, as packets from IPv6 may.
    let header = &mut old[..20];
    put16(header, 4, 7);
    put16(header, 6, 0);
    put16(header, 10, 0);
    let sum = checksum(header);
    put16(header, 10, sum);
    [old, new]
}

fn hosts() -> impl Strategy<Value = [[u8; 4]; 2]> {
    let host = (1u8..127, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| [a, b, c, d]);
    [host.clone(), host]
}

proptest! {
    /// Packets etherparse has made, checksums included.
    #[test]
    fn packets_are_those_of_etherparse(
        kind: u8,
        hosts in hosts(),
        ids: (u16, u16),
        hops: u8,
        data in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let [old, new] = pair(kind, hosts, ids, hops, &data);
        prop_assert_eq!(v6(&old), Ok(new.clone()));
        prop_assert_eq!(v4(&new), Ok(old));
    }

    /// Errors, with the packets they quote.
    #[test]
    fn errors_quote_the_translated_packet(
        kind: u8,
        hosts in hosts(),
        ids: (u16, u16),
        data in prop::collection::vec(any::<u8>(), 0..100),
        error in 0usize..3,
        cut in 28usize..200,
    ) {
        let [old, new] = pair(kind, hosts, ids, 9, &data);
        let (a, b) = [((3, 1), (1, 0)), ((11, 0), (3, 0)), ((3, 3), (1, 4))][error];
        let [from, to] = hosts;
        let build = |kind: (u8, u8), quoted: &[u8]| [&[kind.0, kind.1, 0, 0, 0, 0, 0, 0], quoted].concat();
        let cut = cut.min(old.len());
        let mut inner = build(a, &old[..cut]);
        let sum = checksum(&inner);
        put16(&mut inner, 2, sum);
        let mut packet = Vec::new();
        PacketBuilder::ipv4(to, from, 64).write(&mut packet, 1.into(), &inner).unwrap();
        let translated = v6(&packet).unwrap();

        let mut expected = build(b, &new[..cut + 20]);
        let header = {
            let mut header = Vec::new();
            PacketBuilder::ipv6(mapped(to), mapped(from), 64)
                .write(&mut header, 58.into(), &expected)
                .unwrap();
            header
        };
        super::super::header::fill_checksum(&header[..40], 58, &mut expected, 2);
        prop_assert_eq!(&translated[..40], &header[..40]);
        prop_assert_eq!(&translated[40..], &expected[..]);

        // And back, but for fields of IPv4 that IPv6 lacks.
        let mut back = v4(&translated).unwrap();
        let quoted = &mut back[28..];
        put16(quoted, 4, 7);
        put16(quoted, 10, 0);
        let sum = checksum(&quoted[..20]);
        put16(quoted, 10, sum);
        prop_assert_eq!(&back[28..], &old[..cut]);
        prop_assert!(checksum(&back[..20]) == 0);
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..120), next: u8) {
        let (mut old, mut new) = (bytes.clone(), bytes);
        let _ = (v6(&old), v4(&new));
        if old.len() > 60 {
            let length = old.len() as u16;
            (old[0], old[9]) = (0x45, next % 18);
            put16(&mut old, 2, length);
            put16(&mut old, 6, 0);
            (old[12], old[16]) = (1, 2);
            (new[0], new[6]) = (0x60, next % 61);
            put16(&mut new, 4, length - 40);
            new[8..20].copy_from_slice(&Prefix::MAPPED.0);
            new[24..36].copy_from_slice(&Prefix::MAPPED.0);
            let _ = (v6(&old), v4(&new));
        }
    }
}

/// A checksum that is wrong is not made right.
#[test]
fn wrong_checksums_stay_wrong() {
    for kind in 0..4 {
        let [mut old, mut new] = pair(kind, [[1, 0, 0, 1], [2, 0, 0, 2]], (5, 6), 9, b"data");
        *old.last_mut().unwrap() ^= 1;
        *new.last_mut().unwrap() ^= 1;
        assert_eq!((v6(&old), v4(&new)), (Ok(new.clone()), Ok(old.clone())));
    }
}

#[test]
fn fragments_stay_fragments() {
    let [mut first, _] = pair(0, [[1, 0, 0, 1], [2, 0, 0, 2]], (5, 6), 9, &[1; 16]);
    put16(&mut first, 6, 0x2000);
    let translated = v6(&first).unwrap();
    let fragment = [17, 0, 0, 1, 0, 0, 0, 7];
    assert_eq!((translated[6], &translated[40..48]), (44, &fragment[..]));
    let mut back = v4(&translated).unwrap();
    put16(&mut back, 10, get16(&first, 10));
    assert_eq!(back, first);

    let mut later = first.clone();
    put16(&mut later, 6, 0x0005);
    let translated = v6(&later).unwrap();
    assert_eq!(translated[40..48], [17, 0, 0, 40, 0, 0, 0, 7]);
    assert_eq!(translated[48..], later[20..], "no header is there");
    let back = v4(&translated).unwrap();
    assert_eq!((get16(&back, 6), get16(&back, 4)), (5, 7));

    // Datagrams of pieces without a checksum, and pieces of messages.
    put16(&mut first, 26, 0);
    assert_eq!(v6(&first), Err(Reason::Untranslatable));
    let [mut ping, _] = pair(2, [[1, 0, 0, 1], [2, 0, 0, 2]], (5, 6), 9, &[1; 16]);
    put16(&mut ping, 6, 0x2000);
    assert_eq!(v6(&ping), Err(Reason::Untranslatable));
}

#[test]
fn datagrams_without_a_checksum_get_one() {
    let [mut old, new] = pair(0, [[1, 0, 0, 1], [2, 0, 0, 2]], (5, 6), 9, b"odd");
    put16(&mut old, 26, 0);
    assert_eq!(v6(&old), Ok(new.clone()));
    let mut without = new;
    put16(&mut without, 46, 0);
    assert_eq!(v4(&without), Err(Reason::Malformed));
}

#[test]
fn headers_in_between_are_left_out() {
    let [old, new] = pair(0, [[1, 0, 0, 1], [2, 0, 0, 2]], (5, 6), 9, b"data");
    let with = |kind: u8, header: [u8; 8]| {
        let mut packet = [&new[..40], &header, &new[40..]].concat();
        packet[6] = kind;
        let length = get16(&packet, 4) + 8;
        put16(&mut packet, 4, length);
        v4(&packet)
    };
    for kind in [0, 60, 43] {
        assert_eq!(with(kind, [17, 0, 0, 0, 0, 0, 0, 0]), Ok(old.clone()), "{kind}");
    }
    assert_eq!(with(43, [17, 0, 0, 1, 0, 0, 0, 0]), Err(Reason::Untranslatable));
    assert_eq!(with(0, [17, 9, 0, 0, 0, 0, 0, 0]), Err(Reason::Malformed));
    // Options of IPv4, but for the way a packet is to take.
    let with = |options: [u8; 4]| {
        let mut packet = [&old[..20], &options, &old[20..]].concat();
        packet[0] = 0x46;
        let length = get16(&packet, 2) + 4;
        put16(&mut packet, 2, length);
        v6(&packet)
    };
    assert_eq!(with([1, 1, 1, 0]), Ok(new.clone()));
    assert_eq!(with([131, 3, 4, 0]), Ok(new.clone()), "at its end");
    assert_eq!(with([131, 4, 4, 0]), Err(Reason::Untranslatable));
}

#[test]
fn addresses_are_those_hosts_have() {
    for (from, to) in
        [([0; 4], [2, 0, 0, 2]), ([127, 0, 0, 1], [2, 0, 0, 2]), ([1, 0, 0, 1], [224, 0, 0, 1])]
    {
        let [old, _] = pair(0, [from, to], (5, 6), 9, b"");
        assert_eq!(v6(&old), Err(Reason::Address));
    }
    let [_, mut new] = pair(0, [[1, 0, 0, 1], [2, 0, 0, 2]], (5, 6), 9, b"");
    new[8] = 0x20;
    assert_eq!(v4(&new), Err(Reason::Address));
}

/// A long packet may not be fragmented, and a large MTU is limited to the possible one.
#[test]
fn sizes_are_kept() {
    let [_, long] = pair(1, [[1, 0, 0, 1], [2, 0, 0, 2]], (5, 6), 9, &[0; 1300]);
    let long = v4(&long).unwrap();
    assert_eq!((get16(&long, 4), get16(&long, 6)), (0, 0x4000));
    let sliced = SlicedPacket::from_ip(&long).unwrap();
    assert!(matches!(sliced.net, Some(NetSlice::Ipv4(_))));
    assert!(matches!(sliced.transport, Some(TransportSlice::Tcp(_))));
    let (headers, _) = IpHeaders::from_slice(&long).unwrap();
    assert!(headers.ipv4().is_some_and(|(ip, _)| ip.header_checksum == ip.calc_header_checksum()));
}

#[test]
fn packets_go_there_and_back() {
    let mut run = Run::new(
        "InfiniteSource(DATA abcd, LIMIT 3, STOP true) -> UDPIPEncap(1.0.0.1, 5, 2.0.0.2, 6)
         -> ProtocolTranslator46(PREFIX 64:ff9b::/96) -> CheckIP6Header -> six :: Collect;",
    );
    run.run();
    let six = run.read("six.packets");
    let addresses = "0064ff9b000000000000000001000001 0064ff9b000000000000000002000002";
    assert!(six.lines().all(|six| six.contains(&addresses.replace(' ', ""))), "{six}");
    let mut run = Run::new(
        "InfiniteSource(DATA abcd, LIMIT 3, STOP true) -> UDPIPEncap(1.0.0.1, 5, 2.0.0.2, 6)
         -> t :: Tee -> ProtocolTranslator46 -> ProtocolTranslator64 -> CheckIPHeader
         -> CheckUDPHeader -> SetIPAddress(9.9.9.9) -> out :: Collect; t [1] -> in :: Collect;
         InfiniteSource(DATA abcd, LIMIT 3) -> p :: ProtocolTranslator46 -> Discard;",
    );
    run.run();
    assert_eq!(run.read("out.lengths"), run.read("in.lengths"));
    assert!(run.read("p.drops").contains("3\tno sound packet\n"));
    assert_eq!(run.read("out.lengths"), "32\n32\n32");
}

#[test]
fn prefixes_have_96_bits() {
    let errors = Run::errors("Idle -> ProtocolTranslator46(PREFIX 64:ff9b::/64) -> Discard;");
    assert!(errors.contains("PREFIX: must have 96 bits"), "{errors}");
}

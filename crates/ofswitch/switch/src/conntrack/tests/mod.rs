//! Conversations, packet by packet.

mod display;
mod fragments;
mod tcp;

use super::*;
use crate::key;
use crate::text::Syntax;
use crate::wire::Version;

const SECOND: u64 = 1_000_000_000;
const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;

fn add(sum: &mut u32, bytes: &[u8]) {
    for pair in bytes.chunks(2) {
        *sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    }
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

type End = ([u8; 4], u16);

fn ip(protocol: u8, source: [u8; 4], destination: [u8; 4], carried: &[u8]) -> Vec<u8> {
    let mut head = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
    head[2..4].copy_from_slice(&(20 + carried.len() as u16).to_be_bytes());
    head.extend(source);
    head.extend(destination);
    let mut sum = 0;
    add(&mut sum, &head);
    head[10..12].copy_from_slice(&(!folded(sum)).to_be_bytes());
    head.extend(carried);
    head
}

fn ethernet(carried: Vec<u8>) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    packet.extend(carried);
    packet
}

fn with_checksum(protocol: u8, from: End, to: End, mut carried: Vec<u8>, at: usize) -> Vec<u8> {
    let mut sum = u32::from(protocol) + carried.len() as u32;
    add(&mut sum, &from.0);
    add(&mut sum, &to.0);
    add(&mut sum, &carried);
    carried[at..at + 2].copy_from_slice(&(!folded(sum)).to_be_bytes());
    ethernet(ip(protocol, from.0, to.0, &carried))
}

fn tcp(from: End, to: End, flags: u8, sequence: u32, acknowledged: u32, data: &[u8]) -> Vec<u8> {
    let mut carried = Vec::new();
    carried.extend(from.1.to_be_bytes());
    carried.extend(to.1.to_be_bytes());
    carried.extend(sequence.to_be_bytes());
    carried.extend(acknowledged.to_be_bytes());
    carried.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    carried.extend(data);
    with_checksum(6, from, to, carried, 16)
}

fn udp(from: End, to: End) -> Vec<u8> {
    let mut carried = Vec::new();
    carried.extend(from.1.to_be_bytes());
    carried.extend(to.1.to_be_bytes());
    carried.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    with_checksum(17, from, to, carried, 6)
}

/// The checksum of SCTP, with zero in its place (RFC 9260 appendix A).
fn crc32c(carried: &[u8]) -> [u8; 4] {
    let step = |crc: u32, _: u8| (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78);
    let bytes = carried.iter().enumerate();
    let crc = bytes.fold(u32::MAX, |crc, (at, byte)| {
        let byte = if (8..12).contains(&at) { 0 } else { u32::from(*byte) };
        (0..8).fold(crc ^ byte, step)
    });
    (!crc).to_le_bytes()
}

/// A packet of SCTP with a chunk of data, from its header on.
fn sctp_inside(from: u16, to: u16) -> Vec<u8> {
    let mut carried = Vec::new();
    carried.extend(from.to_be_bytes());
    carried.extend(to.to_be_bytes());
    carried.extend([1, 2, 3, 4, 0, 0, 0, 0, 0, 3, 0, 17, 0, 0, 0, 1, 0, 2, 0, 3, 0, 0, 0, 4, 5]);
    carried.extend([0; 3]);
    let check = crc32c(&carried);
    carried[8..12].copy_from_slice(&check);
    carried
}

fn sctp(from: End, to: End) -> Vec<u8> {
    ethernet(ip(132, from.0, to.0, &sctp_inside(from.1, to.1)))
}

/// An error about a packet, with the least of it that is quoted.
fn error(from: [u8; 4], to: [u8; 4], about: &[u8]) -> Vec<u8> {
    error_quoting(from, to, &about[14..14 + 28])
}

fn error_quoting(from: [u8; 4], to: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    let mut carried = vec![3, 1, 0, 0, 0, 0, 0, 0];
    carried.extend(quoted);
    let mut sum = 0;
    add(&mut sum, &carried);
    carried[2..4].copy_from_slice(&(!folded(sum)).to_be_bytes());
    ethernet(ip(1, from, to, &carried))
}

/// Returns true if all checksums are right, that of a quoted packet among them.
fn is_right(packet: &[u8]) -> bool {
    let head = &packet[14..34];
    let carried = &packet[34..];
    let mut of_head = 0;
    add(&mut of_head, head);
    let mut sum = 0;
    if head[9] == 132 {
        return folded(of_head) == 0xffff && carried[8..12] == crc32c(carried);
    }
    if head[9] == 1 {
        let mut inside = 0;
        add(&mut inside, &carried[8..28]);
        if carried[0] == 3 && folded(inside) != 0xffff {
            return false;
        }
    } else {
        sum = u32::from(head[9]) + carried.len() as u32;
        add(&mut sum, &head[12..20]);
    }
    add(&mut sum, carried);
    folded(of_head) == 0xffff && folded(sum) == 0xffff
}

fn ct(text: &str) -> Ct {
    let actions = Syntax::new(Version::V10).actions(text).expect(text);
    match actions.into_iter().next() {
        Some(Action::Ct(ct)) => *ct,
        other => panic!("{other:?}"),
    }
}

/// A packet after `ct`, and its state.
fn track(tracker: &Tracker, action: &str, packet: &[u8], now: u64) -> (u32, Vec<u8>, Key) {
    track_again(tracker, action, packet, Key::default(), now)
}

/// Tracks a packet with connection fields, after another `ct`.
fn track_again(
    tracker: &Tracker,
    action: &str,
    packet: &[u8],
    mut fields: Key,
    now: u64,
) -> (u32, Vec<u8>, Key) {
    let mut packet = packet.to_vec();
    key::extract(&packet, &mut fields);
    let tracked = tracker.track(&ct(action), 1, &mut fields, &mut packet, now);
    assert!(matches!(tracked, Tracked::One), "{tracked:?}");
    let mut again = Key::default();
    key::extract(&packet, &mut again);
    assert_eq!(fields.words()[1..16], again.words()[1..16], "the key is the packet's");
    assert!(is_right(&packet), "checksums");
    (fields.get(Field::CtState) as u32, packet, fields)
}

const CLIENT: End = ([10, 0, 0, 1], 1000);
const SERVER: End = ([192, 0, 2, 1], 80);

#[test]
fn a_conversation_of_tcp() {
    let tracker = Tracker::default();
    let look = |packet: &[u8]| track(&tracker, "ct(table=1,zone=1)", packet, SECOND).0;
    let keep = |packet: &[u8]| track(&tracker, "ct(commit,zone=1)", packet, SECOND).0;
    let syn = tcp(CLIENT, SERVER, SYN, 100, 0, b"");
    assert_eq!(look(&syn), TRACKED | NEW);
    assert_eq!(look(&syn), TRACKED | NEW, "nobody remembered it");
    assert_eq!(keep(&syn), TRACKED | NEW);
    assert_eq!(tracker.len(), 1);
    let back = tcp(SERVER, CLIENT, SYN | ACK, 500, 101, b"");
    assert_eq!(look(&back), TRACKED | ESTABLISHED | REPLY);
    assert_eq!(look(&tcp(CLIENT, SERVER, ACK, 101, 501, b"hello")), TRACKED | ESTABLISHED);
    assert_eq!(look(&tcp(SERVER, CLIENT, ACK, 501, 106, b"")), TRACKED | ESTABLISHED | REPLY);
    let far = tcp(CLIENT, SERVER, ACK, 1_000_000, 501, b"x");
    assert_eq!(look(&far), TRACKED | INVALID, "out of the window");
    assert_eq!(look(&tcp(CLIENT, SERVER, RST, 90_000, 0, b"")), TRACKED | INVALID);
    assert_eq!(look(&tcp(CLIENT, SERVER, FIN | ACK, 106, 501, b"")), TRACKED | ESTABLISHED);
    assert_eq!(look(&tcp(SERVER, CLIENT, FIN | ACK, 501, 107, b"")), TRACKED | ESTABLISHED | REPLY);
    assert_eq!(look(&tcp(CLIENT, SERVER, ACK, 107, 502, b"")), TRACKED | ESTABLISHED);
    // Both have ended; the next beginning is another one's.
    assert_eq!(keep(&tcp(CLIENT, SERVER, SYN, 9000, 0, b"")), TRACKED | NEW);
    assert_eq!(tracker.len(), 1);
}

#[test]
fn packets_that_cannot_begin_a_connection_are_invalid() {
    let tracker = Tracker::default();
    let look = |packet: &[u8]| track(&tracker, "ct(commit,zone=1)", packet, SECOND).0;
    assert_eq!(look(&tcp(CLIENT, SERVER, SYN | ACK, 1, 1, b"")), TRACKED | INVALID);
    assert_eq!(look(&tcp(CLIENT, SERVER, SYN | FIN, 1, 1, b"")), TRACKED | INVALID);
    assert_eq!(look(&tcp(CLIENT, SERVER, 0, 1, 1, b"")), TRACKED | INVALID);
    let about = udp(CLIENT, SERVER);
    assert_eq!(look(&error(SERVER.0, CLIENT.0, &about)), TRACKED | INVALID, "of nothing known");
    assert_eq!(tracker.len(), 0);
    // But one that is established already.
    assert_eq!(look(&tcp(CLIENT, SERVER, ACK, 7, 9, b"x")), TRACKED | NEW);
}

#[test]
fn zones_marks_and_labels() {
    let tracker = Tracker::default();
    let packet = udp(CLIENT, SERVER);
    let keep = "ct(commit,zone=1,exec(set_field:0x7->ct_mark,set_field:0x10/0xf0->ct_label))";
    let (state, _, key) = track(&tracker, keep, &packet, SECOND);
    assert_eq!(state, TRACKED | NEW);
    assert_eq!((key.get(Field::CtMark), key.get(Field::CtLabel)), (7, 0x10));
    let answer = udp(SERVER, CLIENT);
    let (state, _, key) = track(&tracker, "ct(table=1,zone=1)", &answer, SECOND);
    assert_eq!(state, TRACKED | ESTABLISHED | REPLY);
    assert_eq!(key.get(Field::CtMark), 7);
    assert_eq!(key.get(Field::CtZone), 1);
    assert_eq!(key.get(Field::CtIpv4Src), u32::from_be_bytes(CLIENT.0).into());
    assert_eq!((key.get(Field::CtTpSrc), key.get(Field::CtTpDst)), (1000, 80));
    let (mut fields, mut bytes) = (Key::default(), answer.clone());
    key::extract(&answer, &mut fields);
    let _ = tracker.track(&ct("ct(zone=2)"), 2, &mut fields, &mut bytes, SECOND);
    assert_eq!(fields.get(Field::CtState), u128::from(TRACKED | NEW), "in another zone");
    assert_eq!(fields.get(Field::CtMark), 0);
    clear(&mut fields);
    assert_eq!(fields.get(Field::CtState), 0);
    // With `force`, an answer begins the connection anew.
    let (state, ..) = track(&tracker, "ct(commit,force,zone=1)", &answer, SECOND);
    assert_eq!(state, TRACKED | NEW);
    assert_eq!(tracker.len(), 1);
    assert_eq!(tracker.flush(|connection| connection.zone == 2), 0);
    assert_eq!(tracker.len(), 1);
    assert_eq!(tracker.flush(|_| true), 1);
    assert!(tracker.is_empty());
}

#[test]
fn sources_are_translated_and_answers_back() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(src=198.51.100.1-198.51.100.1:5000-5001))";
    let (state, packet, _) = track(&tracker, keep, &udp(CLIENT, SERVER), SECOND);
    assert_eq!(state, TRACKED | NEW | SOURCE);
    assert_eq!(packet[26..30], [198, 51, 100, 1]);
    let port = u16::from_be_bytes([packet[34], packet[35]]);
    assert!((5000..=5001).contains(&port), "{port}");
    let outside = ([198, 51, 100, 1], port);
    let (state, packet, _) = track(&tracker, "ct(zone=1,nat)", &udp(SERVER, outside), SECOND);
    assert_eq!(state, TRACKED | ESTABLISHED | REPLY | DESTINATION);
    assert_eq!(packet, udp(SERVER, CLIENT));
    let (state, packet, _) = track(&tracker, "ct(zone=1,nat)", &udp(CLIENT, SERVER), SECOND);
    assert_eq!(state, TRACKED | ESTABLISHED | SOURCE);
    assert_eq!(packet, udp(outside, SERVER));
    // Without `nat` nothing is changed.
    let (state, packet, _) = track(&tracker, "ct(zone=1)", &udp(CLIENT, SERVER), SECOND);
    assert_eq!((state, packet), (TRACKED | ESTABLISHED, udp(CLIENT, SERVER)));
    // The range has two ports: a second connection gets the other, a third none.
    let second = track(&tracker, keep, &udp(([10, 0, 0, 2], 1000), SERVER), SECOND).1;
    assert_ne!(u16::from_be_bytes([second[34], second[35]]), port);
    let third = udp(([10, 0, 0, 3], 1000), SERVER);
    let (state, packet, _) = track(&tracker, keep, &third, SECOND);
    assert_eq!((state, packet), (TRACKED | NEW, third));
    assert_eq!(tracker.len(), 2);
    assert_eq!(tracker.list(SECOND, 9, |_| true).0.len(), 2);
    assert_eq!(tracker.list(SECOND, 1, |_| true).1, 1);
}

#[test]
fn destinations_are_translated_and_errors_with_them() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(dst=10.9.9.9:8080))";
    let syn = tcp(CLIENT, SERVER, SYN, 100, 0, b"");
    let inside = ([10, 9, 9, 9], 8080);
    let (state, packet, _) = track(&tracker, keep, &syn, SECOND);
    assert_eq!(state, TRACKED | NEW | DESTINATION);
    assert_eq!(packet, tcp(CLIENT, inside, SYN, 100, 0, b""));
    let back = tcp(inside, CLIENT, SYN | ACK, 500, 101, b"");
    let (state, packet, _) = track(&tracker, "ct(zone=1,nat)", &back, SECOND);
    assert_eq!(state, TRACKED | ESTABLISHED | REPLY | SOURCE);
    assert_eq!(packet, tcp(SERVER, CLIENT, SYN | ACK, 500, 101, b""));
    // The server's host reports an error: the client gets it with the address it knows.
    let about = tcp(CLIENT, inside, SYN, 100, 0, b"");
    let (state, packet, _) =
        track(&tracker, "ct(zone=1,nat)", &error(inside.0, CLIENT.0, &about), SECOND);
    assert_eq!(state, TRACKED | RELATED | REPLY | SOURCE);
    let mut expected = error(SERVER.0, CLIENT.0, &tcp(CLIENT, SERVER, SYN, 100, 0, b""));
    // The quoted part of TCP ends before its checksum.
    expected.truncate(packet.len());
    assert_eq!(packet, expected);
}

#[test]
fn of_two_connections_with_the_same_answers_the_younger_has_them() {
    let tracker = Tracker::default();
    let translated = udp(CLIENT, ([192, 0, 2, 9], 80));
    let keep = "ct(commit,zone=1,nat(dst=192.0.2.1))";
    assert_eq!(track(&tracker, keep, &translated, SECOND).0, TRACKED | NEW | DESTINATION);
    let plain = udp(CLIENT, SERVER);
    assert_eq!(track(&tracker, "ct(commit,zone=1)", &plain, SECOND).0, TRACKED | NEW);
    assert_eq!((tracker.len(), tracker.list(SECOND, 9, |_| true).0.len()), (2, 2));
    let look = |packet: &[u8]| track(&tracker, "ct(zone=1,nat)", packet, SECOND);
    let (state, packet, _) = look(&udp(SERVER, CLIENT));
    assert_eq!((state, packet), (TRACKED | ESTABLISHED | REPLY, udp(SERVER, CLIENT)));
    assert_eq!(look(&plain).0, TRACKED | ESTABLISHED);
    // The older one has them when the younger is forgotten.
    assert_eq!(tracker.flush(|info| info.original.destination == info.reply.source), 1);
    let (state, packet, _) = look(&udp(SERVER, CLIENT));
    assert_eq!(state, TRACKED | ESTABLISHED | REPLY | SOURCE);
    assert_eq!(packet, udp(([192, 0, 2, 9], 80), CLIENT));
    // One that is translated may not take them.
    let other = udp(CLIENT, ([192, 0, 2, 8], 80));
    let (state, packet, _) = track(&tracker, keep, &other, SECOND);
    assert_eq!(state, TRACKED | NEW | DESTINATION);
    assert_ne!(packet[34..36], other[34..36], "it has another port");
    assert_eq!(tracker.flush(|_| true), 2);
}

#[test]
fn a_connection_that_another_hides_is_flushed_with_it() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(src=198.51.100.1))";
    assert_eq!(track(&tracker, keep, &udp(SERVER, CLIENT), SECOND).0, TRACKED | NEW | SOURCE);
    let back = udp(CLIENT, SERVER);
    assert_eq!(track(&tracker, "ct(commit,zone=1)", &back, SECOND).0, TRACKED | NEW);
    let state = track(&tracker, "ct(zone=1)", &udp(SERVER, CLIENT), SECOND).0;
    assert_eq!(state, TRACKED | ESTABLISHED | REPLY, "of the younger");
    assert_eq!(tracker.list(SECOND, 9, |_| true).0.len(), 2);
    assert_eq!((tracker.flush(|_| true), tracker.len()), (2, 0));
    assert_eq!(track(&tracker, "ct(zone=1)", &udp(SERVER, CLIENT), SECOND).0, TRACKED | NEW);
}

#[test]
fn connections_end_with_their_time() {
    let tracker = Tracker::with_room(2);
    let keep = |port: u16, now: u64| {
        track(&tracker, "ct(commit,zone=1)", &udp((CLIENT.0, port), SERVER), now).0
    };
    let day = 86_400 * SECOND;
    keep(1, day);
    keep(2, day);
    keep(3, day);
    assert_eq!(tracker.len(), 2, "there is room for two");
    tracker.expire(day + 30 * SECOND);
    keep(2, day + 30 * SECOND);
    tracker.expire(day + 61 * SECOND);
    assert_eq!(tracker.len(), 1, "the first had 60 seconds");
    let answer = udp(SERVER, (CLIENT.0, 2));
    let now = day + 91 * SECOND;
    assert_eq!(track(&tracker, "ct(zone=1)", &answer, now).0, TRACKED | NEW, "over, if not away");
    assert_eq!(tracker.len(), 0);
    keep(4, now);
    keep(5, now);
    tracker.expire(now + 3600 * SECOND);
    assert_eq!(tracker.len(), 0);
}

#[test]
fn cut_headers_are_invalid() {
    let tracker = Tracker::default();
    let mut fields = Key::default();
    let mut short = udp(CLIENT, SERVER)[..30].to_vec();
    for length in 0..30 {
        short.truncate(30 - length);
        let _ = tracker.track(&ct("ct(commit,zone=1)"), 1, &mut fields, &mut short, 0);
        assert_eq!(fields.get(Field::CtState), u128::from(TRACKED | INVALID));
    }
}

/// An error may quote less of a header than that says it has.
#[test]
fn an_error_that_quotes_too_little_is_invalid() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(src=198.51.100.1))";
    let tunnel = ethernet(ip(47, CLIENT.0, SERVER.0, &[0; 8]));
    let (mut packet, mut fields) = (tunnel.clone(), Key::default());
    let _ = tracker.track(&ct(keep), 1, &mut fields, &mut packet, SECOND);
    assert_eq!(packet[26..30], [198, 51, 100, 1]);
    for length in 5..16 {
        let mut quoted = packet[14..34].to_vec();
        quoted[0] = 0x40 | length;
        let mut carried = vec![3, 1, 0, 0, 0, 0, 0, 0];
        carried.extend(&quoted);
        let mut error = ethernet(ip(1, SERVER.0, [198, 51, 100, 1], &carried));
        let mut fields = Key::default();
        let _ = tracker.track(&ct("ct(zone=1,nat)"), 1, &mut fields, &mut error, SECOND);
        let known = RELATED | REPLY | DESTINATION;
        let expected = TRACKED | if length == 5 { known } else { INVALID };
        assert_eq!(fields.get(Field::CtState), u128::from(expected), "{length}");
    }
}

/// Two that commit the same connection at once, many times, and one that forgets.
#[test]
fn workers_share_it() {
    let tracker = Tracker::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for port in 1..=2000 {
                    let keep = ct("ct(commit,zone=1,nat(src=198.51.100.1))");
                    let mut packet = udp((CLIENT.0, port), SERVER);
                    let mut fields = Key::default();
                    key::extract(&packet, &mut fields);
                    let _ = tracker.track(&keep, 1, &mut fields, &mut packet, u64::from(port));
                    assert_eq!(packet[26..30], [198, 51, 100, 1]);
                }
            });
        }
        scope.spawn(|| (0..100).for_each(|now| tracker.expire(now)));
    });
    assert_eq!(tracker.len(), 2000);
    assert_eq!(tracker.list(0, 9999, |_| true).0.len(), 2000);
}

/// A host is translated once in a zone, also with a second `ct` in it.
#[test]
fn a_connection_that_is_translated_is_not_translated_again() {
    let tracker = Tracker::default();
    let syn = tcp(CLIENT, SERVER, SYN, 100, 0, b"");
    let inside = ([10, 9, 9, 9], 8080);
    let first = "ct(commit,zone=1,nat(dst=10.9.9.9:8080))";
    let (state, packet, known) = track(&tracker, first, &syn, SECOND);
    assert_eq!(state, TRACKED | NEW | DESTINATION);
    let second = "ct(commit,zone=1,nat(src=198.51.100.9),exec(set_field:0xac->ct_mark))";
    let (state, packet, known) = track_again(&tracker, second, &packet, known, SECOND);
    assert_eq!(state, TRACKED | NEW | DESTINATION);
    assert_eq!(packet, tcp(CLIENT, inside, SYN, 100, 0, b""));
    assert_eq!(tracker.len(), 1, "it is the same connection");
    assert_eq!(known.get(Field::CtMark), 0xac);
    assert_eq!(known.get(Field::CtIpv4Dst), u32::from_be_bytes(SERVER.0).into());
    let back = tcp(inside, CLIENT, SYN | ACK, 500, 101, b"");
    let (state, packet, known) = track(&tracker, "ct(zone=1,nat)", &back, SECOND);
    let (again, packet, _) = track_again(&tracker, "ct(zone=1,nat)", &packet, known, SECOND);
    assert_eq!((state, again), (TRACKED | ESTABLISHED | REPLY | SOURCE, state));
    assert_eq!(packet, tcp(SERVER, CLIENT, SYN | ACK, 500, 101, b""));
}

/// A packet that is looked up twice in a zone is one packet of its connection.
#[test]
fn a_packet_is_not_the_next_one_of_its_connection() {
    let tracker = Tracker::default();
    let middle = tcp(CLIENT, SERVER, ACK, 100, 1, b"x");
    let (state, packet, known) = track(&tracker, "ct(commit,zone=1)", &middle, SECOND);
    assert_eq!(state, TRACKED | NEW);
    let (state, packet, known) = track_again(&tracker, "ct(zone=1)", &packet, known, SECOND);
    assert_eq!(state, TRACKED | NEW);
    // Elsewhere nothing is known of it, and one that comes in is another one.
    let mut elsewhere = known;
    elsewhere.set(Field::CtZone, 2);
    let (state, ..) = track_again(&tracker, "ct(zone=1)", &packet, elsewhere, SECOND);
    assert_eq!(state, TRACKED | ESTABLISHED);
    let mut cleared = known;
    clear(&mut cleared);
    assert_eq!(cleared.words()[23..32], [0; 9]);
    assert_eq!(track(&tracker, "ct(zone=1)", &middle, SECOND).0, TRACKED | ESTABLISHED);
}

/// The connection state of a packet is that of the zone it was looked up in.
#[test]
fn another_zone_knows_nothing_of_a_translation() {
    let tracker = Tracker::default();
    let keep = ct("ct(commit,zone=1,nat(src=198.51.100.1))");
    let (mut packet, mut fields) = (udp(CLIENT, SERVER), Key::default());
    key::extract(&packet, &mut fields);
    let _ = tracker.track(&keep, 1, &mut fields, &mut packet, SECOND);
    assert_eq!(fields.get(Field::CtState), u128::from(TRACKED | NEW | SOURCE));
    let again = ct("ct(commit,zone=2,nat(src=203.0.113.7))");
    let _ = tracker.track(&again, 2, &mut fields, &mut packet, SECOND);
    assert_eq!(fields.get(Field::CtState), u128::from(TRACKED | NEW | SOURCE));
    assert_eq!(packet[26..30], [203, 0, 113, 7]);
    assert_eq!(tracker.len(), 2);
}

#[test]
fn an_error_stays_related_in_its_zone() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(src=198.51.100.1))";
    let (_, sent, _) = track(&tracker, keep, &udp(CLIENT, SERVER), SECOND);
    let told = error([192, 0, 2, 254], [198, 51, 100, 1], &sent);
    let (state, packet, known) = track(&tracker, "ct(zone=1,nat)", &told, SECOND);
    assert_eq!(state, TRACKED | RELATED | REPLY | DESTINATION);
    let (again, after, _) = track_again(&tracker, "ct(commit,zone=1,nat)", &packet, known, SECOND);
    assert_eq!((again, after), (state, packet));
    // One that is told to another host than the sender is of no connection.
    let wrong = error([192, 0, 2, 254], [198, 51, 100, 2], &sent);
    assert_eq!(track(&tracker, "ct(zone=1,nat)", &wrong, SECOND).0, TRACKED | INVALID);
}

/// A destination that is in use keeps its port: another would be another service.
#[test]
fn a_destination_without_ports_keeps_its_own() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(dst=10.9.9.9))";
    let other = ([192, 0, 2, 2], SERVER.1);
    for (nth, server) in [SERVER, other].into_iter().enumerate() {
        let (state, packet, _) = track(&tracker, keep, &udp(CLIENT, server), SECOND);
        assert_eq!(state, TRACKED | NEW | DESTINATION);
        assert_eq!(packet[30..34], [10, 9, 9, 9]);
        let ports = [34, 36].map(|at| u16::from_be_bytes([packet[at], packet[at + 1]]));
        assert_eq!(ports[1], SERVER.1);
        assert_eq!(ports[0] == CLIENT.1, nth == 0, "one of them comes from another port");
        let back = udp(([10, 9, 9, 9], SERVER.1), (CLIENT.0, ports[0]));
        let (_, packet, _) = track(&tracker, "ct(zone=1,nat)", &back, SECOND);
        assert_eq!(packet, udp(server, CLIENT));
    }
}

fn echo(from: [u8; 4], to: [u8; 4], kind: u8, code: u8) -> Vec<u8> {
    let mut carried = vec![kind, code, 0, 0, 0, 7, 0, 1];
    carried.resize(28, 5);
    let mut sum = 0;
    add(&mut sum, &carried);
    carried[2..4].copy_from_slice(&(!folded(sum)).to_be_bytes());
    ethernet(ip(1, from, to, &carried))
}

/// A request in the other direction is no reply.
#[test]
fn messages_of_icmp_have_directions() {
    let tracker = Tracker::default();
    let look = |packet: &[u8]| track(&tracker, "ct(zone=1)", packet, SECOND).0;
    track(&tracker, "ct(commit,zone=1)", &echo(CLIENT.0, SERVER.0, 8, 0), SECOND);
    assert_eq!(look(&echo(SERVER.0, CLIENT.0, 8, 0)), TRACKED | NEW);
    assert_eq!(look(&echo(SERVER.0, CLIENT.0, 0, 0)), TRACKED | ESTABLISHED | REPLY);
    for (kind, code) in [(0, 1), (8, 1), (9, 0), (10, 0), (40, 0)] {
        assert_eq!(look(&echo(SERVER.0, CLIENT.0, kind, code)), TRACKED | INVALID, "{kind}");
    }
}

/// Ports are never 0, and a datagram is as long as it says.
#[test]
fn packets_without_ports_are_invalid() {
    let tracker = Tracker::default();
    let look = |packet: &[u8]| track(&tracker, "ct(zone=1)", packet, SECOND).0;
    assert_eq!(look(&udp((CLIENT.0, 0), SERVER)), TRACKED | INVALID);
    assert_eq!(look(&tcp(CLIENT, (SERVER.0, 0), SYN, 1, 0, b"")), TRACKED | INVALID);
    for length in [7, 13] {
        let mut packet = udp(CLIENT, SERVER);
        packet[39] = length;
        let mut fields = Key::default();
        let _ = tracker.track(&ct("ct(zone=1)"), 1, &mut fields, &mut packet, SECOND);
        assert_eq!(fields.get(Field::CtState), u128::from(TRACKED | INVALID), "{length}");
    }
}

/// The sender of a translated packet is told in errors of the packet that it has sent, with its
/// checksums.
#[test]
fn errors_quote_a_translated_packet_as_it_was_sent() {
    let keep = "ct(commit,zone=1,nat(src=198.51.100.7:7000))";
    let syn = tcp(CLIENT, SERVER, SYN, 100, 0, b"");
    let quotes = [
        (udp(CLIENT, SERVER), 28),
        (syn.clone(), 28),
        (syn, 40),
        (sctp(CLIENT, SERVER), 28),
        // With the checksum, cut behind it and whole.
        (sctp(CLIENT, SERVER), 32),
        (sctp(CLIENT, SERVER), 41),
        (sctp(CLIENT, SERVER), 52),
    ];
    for (sent, quoted) in quotes {
        let tracker = Tracker::default();
        let (_, translated, _) = track(&tracker, keep, &sent, SECOND);
        let translated = &translated[14..14 + quoted];
        assert_ne!(translated, &sent[14..14 + quoted]);
        let error = error_quoting(SERVER.0, [198, 51, 100, 7], translated);
        let (state, told, _) = track(&tracker, "ct(zone=1,nat)", &error, SECOND);
        assert_eq!(state, TRACKED | RELATED | REPLY | DESTINATION);
        assert_eq!(told, error_quoting(SERVER.0, CLIENT.0, &sent[14..14 + quoted]));
    }
}

fn ip6(protocol: u8, source: u8, destination: u8, carried: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((carried.len() as u16).to_be_bytes());
    bytes.extend([protocol, 64]);
    for host in [source, destination] {
        bytes.push(0xfd);
        bytes.extend([0; 14]);
        bytes.push(host);
    }
    bytes.extend(carried);
    bytes
}

fn error6(source: u8, destination: u8, quoted: &[u8]) -> Vec<u8> {
    let mut carried = vec![1, 0, 0, 0, 0, 0, 0, 0];
    carried.extend(quoted);
    let bytes = ip6(58, source, destination, &carried);
    let mut sum = 58 + carried.len() as u32;
    add(&mut sum, &bytes[8..]);
    carried[2..4].copy_from_slice(&(!folded(sum)).to_be_bytes());
    ip6(58, source, destination, &carried)
}

#[test]
fn errors_of_ipv6_quote_sctp_as_it_was_sent() {
    let tracker = Tracker::default();
    let pass = |action: &str, bytes: &[u8]| {
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        packet.extend(bytes);
        let mut fields = Key::default();
        key::extract(&packet, &mut fields);
        let _ = tracker.track(&ct(action), 1, &mut fields, &mut packet, SECOND);
        packet.split_off(14)
    };
    let sent = ip6(132, 1, 2, &sctp_inside(1000, 80));
    let translated = pass("ct(commit,zone=1,nat(src=[fd00::9]:7000))", &sent);
    assert_eq!(translated, ip6(132, 9, 2, &sctp_inside(7000, 80)));
    for quoted in [52, 61, sent.len()] {
        let told = pass("ct(zone=1,nat)", &error6(2, 9, &translated[..quoted]));
        assert_eq!(told, error6(2, 1, &sent[..quoted]), "{quoted} bytes quoted");
    }
}

/// The bytes that the checksum of a fragment is over are in others.
#[test]
fn the_checksum_of_a_quoted_fragment_of_sctp_stays() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(src=198.51.100.7:7000))";
    let (_, translated, _) = track(&tracker, keep, &sctp(CLIENT, SERVER), SECOND);
    let mut quoted = translated[14..].to_vec();
    quoted[6] = 0x20;
    quoted[10..12].fill(0);
    let mut sum = 0;
    add(&mut sum, &quoted[..20]);
    quoted[10..12].copy_from_slice(&(!folded(sum)).to_be_bytes());
    let error = error_quoting(SERVER.0, [198, 51, 100, 7], &quoted);
    let (_, told, _) = track(&tracker, "ct(zone=1,nat)", &error, SECOND);
    assert_eq!(told[62..66], [3, 232, 0, 80], "ports");
    assert_eq!(told[70..74], error[70..74], "checksum");
}

//! Conversations with servers that answer, lose packets, or are silent.

use crate::testing::Run;
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

use super::{
    segment::{End, request},
    *,
};

fn bytes(line: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
    (0..line.len()).step_by(2).map(digit).collect()
}

/// A server that answers everything: each connection is completed. The numbers are those of Click's
/// rules: a connection every 10 ms, of which the one of the last millisecond is not completed.
#[test]
fn connections_are_completed() {
    for frame_limit in [1, 256] {
        let mut run = Run::new(
            "w :: WebGen(11.11.0.0/16, 10.0.0.1, 100) -> out :: Counter -> TCPReflector -> w; \
             Script(wait 5.5s, stop)",
        )
        .frame_limit(frame_limit);
        run.run();
        // A SYN, a request, a FIN, and a RST to the answer to the FIN.
        let sent: u32 = run.read("out.count").parse().unwrap();
        assert!(sent.is_multiple_of(4) && sent / 4 >= 549, "{sent}");
        run.close();
        let output = run.output();
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(
            lines[..2],
            ["Allocated 1000 CBs", "init: 500  comp:   499  tmo:     0  rst:     0"]
        );
        assert!(lines[2].starts_with("init: ") && lines[2].ends_with("tmo:     0  rst:     0"));
        assert_eq!(lines.len(), 3);
    }
}

#[test]
fn a_silent_server_is_asked_seven_times() {
    let mut run = Run::new(
        "Idle -> w :: WebGen(11.11.0.0/16, 10.0.0.1, 1) -> c :: Collect; \
         Script(wait 10.1s, stop)",
    );
    run.run();
    let packets = run.read("c.packets");
    let mut ports = Vec::new();
    for line in packets.lines() {
        let packet = bytes(line);
        let sliced = SlicedPacket::from_ip(&packet).unwrap();
        let ip = sliced.net.as_ref().and_then(|net| net.ipv4_ref()).unwrap().header();
        assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
        assert_eq!(
            (&ip.source()[..2], ip.destination(), ip.ttl()),
            (&[11, 11][..], [10, 0, 0, 1], 250)
        );
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
        let sum = tcp.to_header().calc_checksum_ipv4(&ip.to_header(), tcp.payload());
        assert_eq!(tcp.checksum(), sum.unwrap());
        assert!(tcp.syn() && !tcp.ack() && tcp.payload().is_empty());
        assert_eq!((tcp.destination_port(), tcp.window_size()), (80, 61440));
        assert!(tcp.source_port() >= 1024 && tcp.sequence_number() < 1 << 28);
        ports.push((ip.source(), tcp.source_port()));
    }
    assert_eq!(ports.iter().filter(|port| **port == ports[0]).count(), 7);
    let idents: Vec<&str> = packets.lines().map(|line| &line[8..12]).collect();
    assert_eq!(idents[..3], ["0000", "0001", "0002"]);
    let output = run.output();
    assert_eq!(
        output,
        "Allocated 10 CBs\ninit: 5  comp:     0  tmo:     0  rst:     0\n\
         init: 5  comp:     0  tmo:     2  rst:     0\n"
    );
}

const SERVER: End = (Ipv4Addr::new(2, 0, 0, 2), 80);

/// A segment of the server, as a packet.
fn packet(to: End, sequence: u32, acknowledged: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(SERVER.0.octets(), to.0.octets(), 9)
        .tcp(SERVER.1, to.1, sequence, 100)
        .ack(acknowledged)
        .write(&mut bytes, data)
        .unwrap();
    bytes[LEAST + 13] = flags;
    bytes
}

const ONE: Ipv4Prefix =
    Ipv4Prefix { address: Ipv4Addr::new(1, 0, 0, 1), mask: Ipv4Addr::BROADCAST };

/// A client of connections from one address, and its first segment.
fn client() -> (State, Sent) {
    let mut state = State {
        connections: Connections::new(4),
        ident: 0,
        server: SERVER.0,
        begun: 0,
        reported: 0,
        said_full: false,
    };
    let sent = state.begin(ONE, 0, |end| end - 1).unwrap();
    assert_eq!((sent.flags, sent.acknowledged, sent.to), (SYN, 0, SERVER));
    (state, sent)
}

/// Flags, sequence number and acknowledgement of the answer to a segment of the server.
fn answer(state: &mut State, to: End, said: (u32, u32, u8), data: &[u8]) -> Option<(u8, u32, u32)> {
    let (sequence, acknowledged, flags) = said;
    let segment = Segment::parse(&packet(to, sequence, acknowledged, flags, data)).unwrap();
    let sent = state.answer(&segment, 0)?;
    Some((sent.flags, sent.sequence, sent.acknowledged))
}

/// Sequence numbers are relative to the client's first; those of the server begin at 500.
#[test]
fn a_page_comes_in_parts() {
    let (mut state, Sent { from, sequence: first, .. }) = client();
    let at = |number: u32| first.wrapping_add(number);
    let request = Some((ACK | PUSH | FIN, at(1), 501));
    assert_eq!(answer(&mut state, from, (500, at(1), SYN | ACK), b""), request);
    // The unacknowledged request is sent again, and acknowledges the data.
    let again = Some((ACK | PUSH | FIN, at(1), 504));
    assert_eq!(answer(&mut state, from, (501, at(1), ACK), b"one"), again);
    // Request and FIN are acknowledged; the FIN takes a sequence number.
    assert_eq!(answer(&mut state, from, (504, at(32), ACK), b""), None);
    assert_eq!(answer(&mut state, from, (504, at(32), ACK), b"two"), Some((ACK, at(32), 507)));
    let end = Some((ACK | FIN, at(32), 511));
    assert_eq!(answer(&mut state, from, (507, at(32), ACK | FIN), b"end"), end);
    assert_eq!((state.connections.counts.completed, state.connections.oldest()), (1, None));
    // The connection is gone: a segment gets a RST, and a RST gets no answer.
    let none = Some((RST, at(32), 511));
    assert_eq!(answer(&mut state, from, (511, at(32), ACK), b""), none);
    assert_eq!(answer(&mut state, from, (511, at(32), RST), b""), None);
}

#[test]
fn a_reset_ends_a_connection_and_malformed_segments_do_nothing() {
    let (mut state, Sent { from, sequence: first, .. }) = client();
    let sound = packet(from, 500, first.wrapping_add(1), SYN | ACK, b"");
    assert!(Segment::parse(&sound).is_some());
    for (at, value) in
        [(0, 0x65), (0, 0x44), (0, 0x4f), (3, 39), (3, 200), (7, 1), (9, 17), (32, 0xf0)]
    {
        let mut other = sound.clone();
        other[at] = value;
        assert_eq!(Segment::parse(&other), None, "{at}");
    }
    assert!((0..sound.len()).all(|length| Segment::parse(&sound[..length]).is_none()));
    assert_eq!(answer(&mut state, from, (500, 0, RST | ACK), b""), None);
    assert_eq!((state.connections.counts.reset, state.connections.oldest()), (1, None));
}

#[test]
fn there_are_no_more_connections_than_places() {
    let (mut state, _) = client();
    assert_eq!((0..9).filter(|_| state.begin(ONE, 0, |end| end - 1).is_some()).count(), 3);
    // A connection that is given up frees its entry.
    for second in 1..=6 {
        let now = second * (PATIENCE + 1);
        let resent = std::iter::from_fn(|| state.resend(now)).flatten().count();
        assert_eq!(resent, 4, "{second}");
    }
    let now = 7 * (PATIENCE + 1);
    assert_eq!(std::iter::from_fn(|| state.resend(now)).flatten().count(), 0);
    assert_eq!(state.connections.counts.given_up, 4);
    assert!(state.begin(ONE, now, |end| end - 1).is_some());
}

#[test]
fn requests_name_a_page() {
    assert_eq!(&request([7, 2, 8]), b"GET /spec/7/7-2-8 HTTP/1.0\r\n\r\n");
}

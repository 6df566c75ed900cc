//! Conntrack of TCP: windows, window scaling, and connections picked up mid-stream.

use super::*;

/// A segment with `data` bytes of data.
fn segment(flags: u8, numbers: (u32, u32), window: u16, scale: Option<u8>, data: usize) -> Segment {
    let mut bytes = vec![0; 4];
    bytes.extend(numbers.0.to_be_bytes());
    bytes.extend(numbers.1.to_be_bytes());
    bytes.extend([if scale.is_some() { 0x60 } else { 0x50 }, flags]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(scale.into_iter().flat_map(|scale| [1, 3, 3, scale]));
    bytes.resize(bytes.len() + data, 0);
    Segment::parse(&bytes).expect("a segment")
}

fn begin(first: &Segment) -> ProtocolState {
    let tuple = Tuple { protocol: TCP, ..Tuple::default() };
    ProtocolState::begin(&tuple, Some(first)).expect("a beginning")
}

fn see(state: &mut ProtocolState, answer: bool, segment: Segment) -> PacketRelation {
    state.see(answer, Some(&segment))
}

#[test]
fn an_answer_to_a_midstream_pickup_acknowledges_sent_bytes() {
    let far = || segment(SYN | ACK, (5000, 900_000), 4096, None, 0);
    let mut state = begin(&segment(ACK, (1_000_000, 5000), 4096, None, 10));
    assert_eq!(
        see(&mut state.clone(), true, far()),
        PacketRelation::Valid,
        "nothing is known of it yet"
    );
    // From here on, the window of the other end is known.
    let more = segment(ACK, (1_000_010, 5000), 4096, None, 10);
    assert_eq!(see(&mut state, false, more), PacketRelation::Tolerated);
    assert_eq!(see(&mut state.clone(), true, far()), PacketRelation::Invalid);
    let near = segment(SYN | ACK, (5000, 1_000_020), 4096, None, 0);
    assert_eq!(see(&mut state, true, near), PacketRelation::Valid);
}

#[test]
fn the_window_of_an_answering_syn_is_not_scaled() {
    let mut state = begin(&segment(SYN, (100, 0), 64_000, Some(7), 0));
    let back = segment(SYN | ACK, (500, 101), 64_000, Some(7), 0);
    assert_eq!(see(&mut state, true, back), PacketRelation::Valid);
    let sent = |back: u32| segment(ACK, (101_u32.wrapping_sub(back), 501), 500, None, 1);
    assert_eq!(see(&mut state.clone(), false, sent(63_000)), PacketRelation::Valid);
    assert_eq!(
        see(&mut state, false, sent(70_000)),
        PacketRelation::Invalid,
        "more than a window back"
    );
}

#[test]
fn windows_are_not_scaled_where_the_answer_does_not_say_so() {
    let mut state = begin(&segment(SYN, (100, 0), 64_000, Some(7), 0));
    let back = segment(SYN | ACK, (500, 101), 64_000, None, 0);
    assert_eq!(see(&mut state, true, back), PacketRelation::Valid);
    let data = || segment(ACK, (501, 101), 64_000, None, 1400);
    assert_eq!(see(&mut state.clone(), true, data()), PacketRelation::Valid, "within the window");
    let beyond = segment(ACK, (64_500, 101), 64_000, None, 1400);
    assert_eq!(see(&mut state, true, beyond), PacketRelation::Invalid);
}

#[test]
fn a_connection_without_an_answer_is_forgotten_soon_though_it_ends() {
    let mut state = begin(&segment(SYN, (100, 0), 64_000, None, 0));
    assert_eq!(
        see(&mut state, false, segment(FIN | ACK, (101, 0), 64_000, None, 0)),
        PacketRelation::Valid
    );
    assert_eq!(timeout(None, state.phase(PacketRelation::Valid)), 30 * SECOND);
}

#[test]
fn a_doubtful_segment_does_not_prolong_a_connection() {
    let tracker = Tracker::default();
    let seen = |action: &str, packet: &[u8], second: u64| {
        track(&tracker, action, packet, second * SECOND).0
    };
    let taken_up = tcp(CLIENT, SERVER, ACK, 1000, 5000, b"hello");
    assert_eq!(seen("ct(commit,zone=1)", &taken_up, 1), TRACKED | NEW);
    let more = tcp(CLIENT, SERVER, ACK, 1005, 5000, b"hello");
    assert_eq!(seen("ct(zone=1)", &more, 20), TRACKED | ESTABLISHED);
    let late = tcp(SERVER, CLIENT, ACK, 5000, 1010, b"");
    assert_eq!(seen("ct(zone=1)", &late, 32), TRACKED | NEW, "it had 30 seconds");
}

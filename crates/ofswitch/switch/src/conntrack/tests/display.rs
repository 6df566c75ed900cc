//! Dumps of connections, and limits of zones.

use super::*;

fn told(tracker: &Tracker, like: &str) -> Vec<String> {
    let whole = format!("ct_state=+trk-inv{like}");
    let wanted = Syntax::new(Version::V15).matching(&whole).expect(like);
    let filter = key::of_match(&wanted);
    let (shown, _) = tracker.list(SECOND, usize::MAX, |info| info.is_like(&filter));
    let mut lines: Vec<String> = shown.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn connections_are_told_of_as_open_vswitch_tells_of_them() {
    let tracker = Tracker::default();
    let syn = tcp(CLIENT, SERVER, SYN, 100, 0, b"");
    let keep = "ct(commit,zone=1,nat(src=198.51.100.1:5000),exec(set_field:5->ct_mark,\
                set_field:0x10->ct_label))";
    track(&tracker, keep, &syn, SECOND);
    track(&tracker, "ct(commit,zone=1)", &echo(CLIENT.0, SERVER.0, 8, 0), SECOND);
    let [icmp, tcp] = &told(&tracker, "")[..] else { panic!("two connections") };
    assert_eq!(
        icmp,
        "icmp,orig=(src=10.0.0.1,dst=192.0.2.1,id=7,type=8,code=0),\
         reply=(src=192.0.2.1,dst=10.0.0.1,id=7,type=0,code=0),zone=1"
    );
    assert_eq!(
        tcp,
        "tcp,orig=(src=10.0.0.1,dst=192.0.2.1,sport=1000,dport=80),\
         reply=(src=192.0.2.1,dst=198.51.100.1,sport=80,dport=5000),zone=1,mark=5,labels=0x10,\
         protoinfo=(state=SYN_SENT)"
    );
    for (like, count) in [
        (",ct_nw_proto=6", 1),
        (",ct_nw_src=10.0.0.0/8", 2),
        (",ct_nw_src=198.51.100.1", 0),
        (",ct_zone=2", 0),
        (",ct_zone=1,ct_mark=0x4/0x4", 1),
        (",ct_nw_proto=1,ct_tp_src=8", 1),
        (",ct_ipv6_src=2001:db8::1", 0),
    ] {
        assert_eq!(told(&tracker, like).len(), count, "{like}");
    }
    assert_eq!(tracker.flush(|info| info.mark == 5), 1);
    assert_eq!(told(&tracker, "").len(), 1);
    assert!(tracker.list(SECOND + 61 * SECOND, 9, |_| true).0.is_empty(), "its time is over");
}

/// A filter of `ovs-ofctl ct-flush` removes all connections that match it.
#[test]
fn connections_are_flushed_by_a_filter() {
    use crate::wire::{ConnectionFilter, TupleFilter};

    let any = ConnectionFilter::default;
    let of = |protocol| ConnectionFilter { protocol, ..any() };
    let from = |source: [u8; 4]| TupleFilter { source: Some(source.into()), ..Default::default() };
    let whole = TupleFilter {
        source: Some(CLIENT.0.into()),
        destination: Some(SERVER.0.into()),
        source_port: CLIENT.1,
        destination_port: SERVER.1,
        ..TupleFilter::default()
    };
    let answer = TupleFilter {
        source: whole.destination,
        destination: whole.source,
        source_port: whole.destination_port,
        destination_port: whole.source_port,
        ..whole
    };
    let to_icmp = |message| TupleFilter { message, ..from(CLIENT.0) };
    for (filter, gone) in [
        (any(), 4),
        (ConnectionFilter { zone: Some(1), ..any() }, 2),
        (of(6), 1),
        (of(17), 2),
        (of(132), 0),
        (ConnectionFilter { original: from(CLIENT.0), ..any() }, 4),
        (ConnectionFilter { reply: from(SERVER.0), ..of(17) }, 2),
        (ConnectionFilter { original: from(SERVER.0), ..any() }, 0),
        // All of a packet but the zone.
        (ConnectionFilter { original: whole, ..of(17) }, 1),
        (ConnectionFilter { original: whole, zone: Some(1), ..of(17) }, 1),
        (ConnectionFilter { original: whole, zone: Some(2), ..of(17) }, 0),
        (ConnectionFilter { original: answer, zone: Some(1), ..of(17) }, 1),
        (ConnectionFilter { original: answer, zone: Some(2), ..of(17) }, 0),
        (ConnectionFilter { original: TupleFilter { source_port: 0, ..answer }, ..of(17) }, 0),
        (ConnectionFilter { original: to_icmp((7, 8, 0)), ..of(1) }, 1),
        (ConnectionFilter { original: to_icmp((8, 8, 0)), ..of(1) }, 0),
        (of(1), 1),
        (ConnectionFilter { mark: (5, 0x7), ..any() }, 1),
        (ConnectionFilter { mark: (6, 0x7), ..any() }, 0),
        (ConnectionFilter { label: (0x10, u128::MAX), ..any() }, 1),
    ] {
        let tracker = Tracker::default();
        let keep = |action: &str, zone: u16, mut packet: Vec<u8>| {
            let mut key = Key::default();
            key::extract(&packet, &mut key);
            let tracked = tracker.track(&ct(action), zone, &mut key, &mut packet, SECOND);
            assert!(matches!(tracked, Tracked::One), "{tracked:?}");
        };
        let marked = "ct(commit,exec(set_field:5->ct_mark,set_field:0x10->ct_label))";
        keep(marked, 1, tcp(CLIENT, SERVER, SYN, 100, 0, b""));
        keep("ct(commit)", 1, udp(CLIENT, SERVER));
        keep("ct(commit)", 0, udp(CLIENT, SERVER));
        keep("ct(commit)", 0, echo(CLIENT.0, SERVER.0, 8, 0));
        assert_eq!(tracker.len(), 4);
        assert_eq!(tracker.flush(|info| info.passes(&filter)), gone, "{filter:?}");
        assert_eq!(tracker.len(), 4 - gone);
    }
}

#[test]
fn zones_have_limits() {
    let tracker = Tracker::default();
    let keep = |port: u16| {
        track(&tracker, "ct(commit,zone=1)", &udp((CLIENT.0, port), SERVER), SECOND);
        tracker.len()
    };
    tracker.set_limit(Some(1), Some(2));
    tracker.set_limit(Some(9), Some(7));
    assert_eq!([keep(1), keep(2), keep(3)], [1, 2, 2]);
    let limits =
        [ZoneLimit { zone: 1, limit: 2, count: 2 }, ZoneLimit { zone: 9, limit: 7, count: 0 }];
    assert_eq!(tracker.limits(), (None, limits.to_vec()));
    // One that has gone makes room.
    tracker.flush(|info| info.original.ends == Ends::Ports(1, 80));
    assert_eq!(keep(4), 2);
    tracker.set_limit(Some(1), None);
    tracker.set_limit(None, Some(3));
    assert_eq!([keep(5), keep(6)], [3, 3], "that of zones without one");
    tracker.set_limit(None, None);
    assert_eq!(keep(7), 4);
}

/// Each phase is forgotten after its own time-out, and connections keep those with which they
/// began.
#[test]
fn zones_have_timeouts() {
    let tracker = Tracker::default();
    let mut policy = TimeoutPolicy::default();
    let names: Vec<&str> = policy.seconds().map(|(name, _)| name).collect();
    for (at, name) in names.iter().enumerate() {
        policy.set(name, 2 + at as u32).expect(name);
    }
    for (name, seconds) in [("udp_last", 1), ("udp_first", 0), ("udp_first", u32::MAX)] {
        assert!(policy.set(name, seconds).is_err(), "{name}={seconds}");
    }
    tracker.set_timeouts(Some(1), Some(policy.clone()));
    assert_eq!(tracker.timeouts(), (TimeoutPolicy::default(), vec![(1, policy.clone())]));
    let of = |name: &str| {
        let (_, seconds) = policy.seconds().find(|(known, _)| *known == name).expect(name);
        u64::from(seconds)
    };
    let ping = |kind| match kind {
        8 => echo(CLIENT.0, SERVER.0, 8, 0),
        _ => echo(SERVER.0, CLIENT.0, 0, 0),
    };
    let begin = tcp(CLIENT, SERVER, SYN, 100, 0, b"");
    let accept = tcp(SERVER, CLIENT, SYN | ACK, 500, 101, b"");
    let accepted = tcp(CLIENT, SERVER, ACK, 101, 501, b"");
    let end = tcp(CLIENT, SERVER, FIN | ACK, 101, 501, b"");
    let reset = tcp(CLIENT, SERVER, RST, 101, 0, b"");
    let other_end = tcp(SERVER, CLIENT, FIN | ACK, 501, 101, b"");
    let open = [begin.clone(), accept.clone(), accepted.clone()];
    let with = |more: &[&Vec<u8>]| {
        let more = more.iter().map(|packet| (*packet).clone());
        open.iter().cloned().chain(more).collect::<Vec<_>>()
    };
    let packets = [
        ("udp_first", vec![udp(CLIENT, SERVER)]),
        ("udp_single", vec![udp(CLIENT, SERVER), udp(CLIENT, SERVER)]),
        ("udp_multiple", vec![udp(CLIENT, SERVER), udp(SERVER, CLIENT)]),
        ("icmp_first", vec![ping(8)]),
        ("icmp_reply", vec![ping(8), ping(0)]),
        ("tcp_syn_sent", vec![begin.clone()]),
        ("tcp_syn_sent", vec![begin.clone(), begin.clone()]),
        ("tcp_syn_recv", vec![begin, accept]),
        ("tcp_established", open.to_vec()),
        ("tcp_fin_wait", with(&[&end])),
        ("tcp_time_wait", with(&[&end, &other_end])),
        ("tcp_close", with(&[&reset])),
    ];
    for (name, packets) in packets {
        for packet in packets {
            track(&tracker, "ct(commit,zone=1)", &packet, SECOND);
        }
        let there = |now: u64| tracker.list(now * SECOND, 9, |_| true).0.len();
        assert_eq!((there(of(name)), there(1 + of(name))), (1, 0), "{name}");
        tracker.flush(|_| true);
    }
    // Those of other zones, and those that are there when it changes.
    let first = udp(CLIENT, SERVER);
    let there = |zone: u16, second: u64| {
        let wanted = |info: &ConnectionInfo| info.zone == zone;
        tracker.list(second * SECOND, 9, wanted).0.len()
    };
    let keep = |zone: u16| {
        let mut packet = first.clone();
        let mut fields = Key::default();
        key::extract(&packet, &mut fields);
        let _ = tracker.track(&ct("ct(commit)"), zone, &mut fields, &mut packet, SECOND);
    };
    keep(1);
    keep(2);
    tracker.set_timeouts(Some(1), None);
    let after = 1 + of("udp_first");
    assert_eq!((there(1, after), there(2, after)), (0, 1));
    tracker.flush(|_| true);
    keep(1);
    assert_eq!((there(1, 60), there(1, 61)), (1, 0), "as before");
    tracker.flush(|_| true);
    tracker.set_timeouts(None, Some(policy.clone()));
    keep(7);
    assert_eq!((there(7, after - 1), there(7, after)), (1, 0), "zones without their own");
}

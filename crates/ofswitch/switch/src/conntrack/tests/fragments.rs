//! Fragments, of both versions.

use super::*;

const PATIENCE: u64 = 15 * SECOND;

/// A datagram of so many bytes.
fn long(from: End, to: End, length: usize) -> Vec<u8> {
    let mut carried = Vec::new();
    carried.extend(from.1.to_be_bytes());
    carried.extend(to.1.to_be_bytes());
    carried.extend((8 + length as u16).to_be_bytes());
    carried.extend([0, 0]);
    carried.extend((0..length).map(|at| at as u8));
    with_checksum(17, from, to, carried, 6)
}

fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let mut sum = 0;
    add(&mut sum, header);
    header[10..12].copy_from_slice(&(!folded(sum)).to_be_bytes());
}

/// A part of a packet, from one byte behind the header of IP to another, as a fragment.
fn part(packet: &[u8], from: usize, to: usize) -> Vec<u8> {
    let carried = &packet[34..];
    let to = to.min(carried.len());
    let mut fragment = packet[..34].to_vec();
    fragment[16..18].copy_from_slice(&(20 + (to - from) as u16).to_be_bytes());
    let more = if to < carried.len() { 0x2000 } else { 0 };
    fragment[20..22].copy_from_slice(&((from / 8) as u16 | more).to_be_bytes());
    set_checksum(&mut fragment[14..34]);
    fragment.extend(&carried[from..to]);
    fragment
}

fn parts(packet: &[u8], length: usize) -> Vec<Vec<u8>> {
    let starts = (0..packet.len() - 34).step_by(length);
    starts.map(|from| part(packet, from, from + length)).collect()
}

/// Tracks a fragment, and returns the fragments that go on with their states.
fn pass(
    tracker: &Tracker,
    action: &str,
    zone: u16,
    packet: &[u8],
    now: u64,
) -> Vec<(u32, Vec<u8>)> {
    let (mut packet, mut fields) = (packet.to_vec(), Key::default());
    fields.set(Field::InPort, 3);
    key::extract(&packet, &mut fields);
    let state = |key: &Key| key.get(Field::CtState) as u32;
    match tracker.track(&ct(action), zone, &mut fields, &mut packet, now) {
        Tracked::One => vec![(state(&fields), packet)],
        Tracked::Waits => Vec::new(),
        Tracked::All(all) => {
            let one = |fragment: Fragment| {
                let mut again = Key::default();
                key::extract(&fragment.packet, &mut again);
                assert_eq!(fragment.key.words()[1..16], again.words()[1..16]);
                assert_eq!(fragment.key.get(Field::InPort), 3);
                (state(&fragment.key), fragment.packet)
            };
            all.into_iter().map(one).collect()
        }
    }
}

const KEEP: &str = "ct(commit,zone=1)";

fn states(passed: &[(u32, Vec<u8>)]) -> Vec<u32> {
    passed.iter().map(|(state, _)| *state).collect()
}

#[test]
fn they_go_on_together_as_they_came() {
    let tracker = Tracker::default();
    let whole = long(CLIENT, SERVER, 3200);
    let mut fragments = parts(&whole, 1480);
    // Padding of Ethernet is none of the packet's.
    fragments[2].extend([0x55; 4]);
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut passed = Vec::new();
        for (nth, at) in order.into_iter().enumerate() {
            assert!(passed.is_empty());
            passed = pass(&tracker, KEEP, 1, &fragments[at], SECOND);
            assert_eq!(passed.is_empty(), nth < 2);
            assert_eq!(tracker.has_fragments(), nth < 2);
        }
        let packets: Vec<_> = passed.iter().map(|(_, packet)| packet.clone()).collect();
        assert_eq!(packets, fragments, "{order:?}");
        assert_eq!(states(&passed), [TRACKED | NEW; 3]);
    }
    let back = parts(&long(SERVER, CLIENT, 1600), 1400);
    assert!(pass(&tracker, KEEP, 1, &back[0], SECOND).is_empty());
    let passed = pass(&tracker, KEEP, 1, &back[1], SECOND);
    assert_eq!(states(&passed), [TRACKED | ESTABLISHED | REPLY; 2]);
    let counts = tracker.fragment_counts();
    assert_eq!((counts[0].accepted, counts[0].completed, counts[0].waiting), (11, 11, 0));
    assert_eq!(counts[1], FragmentCounts::default());
}

#[test]
fn they_are_translated() {
    let tracker = Tracker::default();
    let keep = "ct(commit,zone=1,nat(src=198.51.100.1:5000))";
    let outside = ([198, 51, 100, 1], 5000);
    let (inner, outer) = (long(CLIENT, SERVER, 3000), long(outside, SERVER, 3000));
    let fragments = parts(&inner, 1480);
    let mut passed = Vec::new();
    for fragment in &fragments {
        passed = pass(&tracker, keep, 1, fragment, SECOND);
    }
    let packets: Vec<_> = passed.iter().map(|(_, packet)| packet.clone()).collect();
    assert_eq!(packets, parts(&outer, 1480), "with ports and checksums as if it were whole");
    assert_eq!(states(&passed), [TRACKED | NEW | SOURCE; 3]);
}

fn udp6(from: u8, to: u8, length: usize) -> Vec<u8> {
    let mut carried = vec![0x12, 0x34, 0, 80];
    carried.extend((8 + length as u16).to_be_bytes());
    carried.extend([0, 0]);
    carried.extend((0..length).map(|at| at as u8));
    let address = |host: u8| {
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, host);
        address
    };
    let mut sum = 17 + carried.len() as u32;
    [&address(from)[..], &address(to), &carried].iter().for_each(|bytes| add(&mut sum, bytes));
    carried[6..8].copy_from_slice(&(!folded(sum)).to_be_bytes());
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0];
    packet.extend((carried.len() as u16).to_be_bytes());
    packet.extend([17, 64]);
    packet.extend(address(from));
    packet.extend(address(to));
    packet.extend(carried);
    packet
}

/// With a header of options for the destination in front of that of fragments.
fn parts6(packet: &[u8], length: usize) -> Vec<Vec<u8>> {
    let carried = &packet[54..];
    let part = |from: usize| {
        let to = (from + length).min(carried.len());
        let mut fragment = packet[..54].to_vec();
        fragment[18..20].copy_from_slice(&(16 + (to - from) as u16).to_be_bytes());
        fragment[20] = 60;
        fragment.extend([44, 0, 1, 4, 0, 0, 0, 0]);
        let word = from as u16 | u16::from(to < carried.len());
        fragment.extend([17, 0]);
        fragment.extend(word.to_be_bytes());
        fragment.extend([9, 9, 9, 9]);
        fragment.extend(&carried[from..to]);
        fragment
    };
    (0..carried.len()).step_by(length).map(part).collect()
}

#[test]
fn those_of_ipv6_go_on_too() {
    let tracker = Tracker::default();
    let fragments = parts6(&udp6(1, 2, 3000), 1440);
    let keep = "ct(commit,zone=1,nat(src=fd00::9))";
    assert!(pass(&tracker, keep, 1, &fragments[1], SECOND).is_empty());
    assert!(pass(&tracker, keep, 1, &fragments[2], SECOND).is_empty());
    let passed = pass(&tracker, keep, 1, &fragments[0], SECOND);
    let packets: Vec<_> = passed.iter().map(|(_, packet)| packet.clone()).collect();
    assert_eq!(packets, parts6(&udp6(9, 2, 3000), 1440));
    assert_eq!(states(&passed), [TRACKED | NEW | SOURCE; 3]);
    assert_eq!(tracker.fragment_counts()[1].completed, 3);
}

#[test]
fn those_that_overlap_come_twice_or_are_short_are_invalid() {
    let invalid = [TRACKED | INVALID];
    let whole = long(CLIENT, SERVER, 4000);
    let tracker = Tracker::default();
    let look = |packet: &[u8]| states(&pass(&tracker, KEEP, 1, packet, SECOND));
    assert!(look(&part(&whole, 1480, 2960)).is_empty());
    for (from, to) in [(1480, 2960), (1488, 2968), (8, 1488), (0, 4000), (1472, 4008)] {
        assert_eq!(look(&part(&whole, from, to)), invalid, "{from} to {to}");
    }
    // The last is the last, and the only one.
    assert!(look(&part(&whole, 2960, 5000)).is_empty());
    let longer = long(CLIENT, SERVER, 6000);
    assert_eq!(look(&part(&longer, 4480, 5960)), invalid);
    assert_eq!(look(&part(&longer, 4480, 7000)), invalid);
    assert_eq!(look(&part(&whole, 0, 1480)).len(), 3);
    // Shorter than there is reason to be, but the last.
    assert_eq!(look(&part(&whole, 0, 1176)), invalid);
    assert!(look(&part(&whole, 0, 1184)).is_empty());
    assert!(look(&part(&whole, 4000, 4008)).is_empty());
    // One whose header is damaged, one that is not of whole units, and one without data.
    let mut damaged = part(&whole, 1480, 2960);
    damaged[22] ^= 1;
    let mut uneven = part(&whole, 1480, 2960);
    uneven.truncate(uneven.len() - 1);
    uneven[16..18].copy_from_slice(&1499_u16.to_be_bytes());
    set_checksum(&mut uneven[14..34]);
    for wrong in [damaged, uneven, part(&whole, 1480, 1480)] {
        assert_eq!(look(&wrong), invalid);
    }
    let counts = tracker.fragment_counts()[0];
    assert_eq!((counts.overlapping, counts.completed, counts.waiting), (7, 3, 2));
    assert_eq!(counts.short, 1);
}

#[test]
fn those_of_other_zones_ports_and_ways_are_others() {
    let tracker = Tracker::default();
    let fragments = parts(&long(CLIENT, SERVER, 2000), 1480);
    assert!(pass(&tracker, KEEP, 1, &fragments[0], SECOND).is_empty());
    assert!(pass(&tracker, KEEP, 2, &fragments[1], SECOND).is_empty(), "another zone");
    for (port, continuation) in [(4, 0), (3, 7)] {
        let (mut packet, mut fields) = (fragments[1].clone(), Key::default());
        fields.set(Field::InPort, port);
        fields.set_continuation(continuation);
        key::extract(&packet, &mut fields);
        let tracked = tracker.track(&ct(KEEP), 1, &mut fields, &mut packet, SECOND);
        assert!(matches!(tracked, Tracked::Waits), "{tracked:?}");
    }
    assert_eq!(pass(&tracker, KEEP, 1, &fragments[1], SECOND).len(), 2);
    assert_eq!(pass(&tracker, KEEP, 2, &fragments[0], SECOND).len(), 2);
}

#[test]
fn incomplete_fragments_are_dropped_and_counted() {
    let tracker = Tracker::default();
    let fragments = parts(&long(CLIENT, SERVER, 2000), 1480);
    assert!(pass(&tracker, KEEP, 1, &fragments[0], SECOND).is_empty());
    tracker.expire(SECOND + PATIENCE - 1);
    assert!(tracker.has_fragments());
    tracker.expire(SECOND + PATIENCE);
    assert!(!tracker.has_fragments());
    assert_eq!((tracker.take_lost_fragments(), tracker.take_lost_fragments()), (1, 0));
    assert_eq!(tracker.fragment_counts()[0].expired, 1);
    // The other one waits by itself now, and packets see to it, too.
    assert!(pass(&tracker, KEEP, 1, &fragments[1], SECOND + PATIENCE).is_empty());
    assert!(pass(&tracker, KEEP, 1, &fragments[0], SECOND + 2 * PATIENCE).is_empty());
    assert_eq!(tracker.take_lost_fragments(), 1);
}

#[test]
fn a_packet_that_would_be_too_long_is_dropped() {
    let tracker = Tracker::default();
    let whole = long(CLIENT, SERVER, 6000);
    let filler = |from: usize, length: usize, more: bool| {
        let mut fragment = part(&whole, 0, length);
        let word = (from / 8) as u16 | if more { 0x2000 } else { 0 };
        fragment[20..22].copy_from_slice(&word.to_be_bytes());
        set_checksum(&mut fragment[14..34]);
        fragment
    };
    let mut sent = 0;
    for from in (0..65_472).step_by(5456) {
        sent += 1;
        assert!(pass(&tracker, KEEP, 1, &filler(from, 5456, true), SECOND).is_empty());
    }
    assert!(pass(&tracker, KEEP, 1, &filler(65_472, 1200, false), SECOND).is_empty());
    assert_eq!(tracker.take_lost_fragments(), sent + 1);
    let again = pass(&tracker, KEEP, 1, &filler(0, 5456, true), SECOND);
    assert_eq!(states(&again), [TRACKED | INVALID], "until its time is over");
    let counts = tracker.fragment_counts()[0];
    assert_eq!((counts.waiting, counts.expired), (0, sent + 1));
    assert_eq!(tracker.len(), 0);
}

#[test]
fn they_have_bounds_in_all_and_by_source() {
    let tracker = Tracker::default();
    let limits = FragmentLimits { most: 40, shortest: [400, 400] };
    tracker.set_fragment_limits(limits).expect("in range");
    assert_eq!(tracker.fragment_limits(), limits);
    for wrong in
        [FragmentLimits { most: 5001, ..limits }, FragmentLimits { shortest: [400, 399], ..limits }]
    {
        tracker.set_fragment_limits(wrong).expect_err("out of range");
    }
    let first = |host: u8, number: u8| {
        let mut fragment = part(&long(([10, 0, 0, host], 1), SERVER, 2000), 0, 1480);
        fragment[19] = number;
        set_checksum(&mut fragment[14..34]);
        fragment
    };
    let waiting = |tracker: &Tracker| tracker.fragment_counts()[0].waiting;
    for number in 0..20 {
        let passed = pass(&tracker, KEEP, 1, &first(1, number), SECOND);
        assert_eq!(passed.is_empty(), number < 10, "a quarter is one source's");
    }
    for host in 2..30 {
        pass(&tracker, KEEP, 1, &first(host, 0), SECOND);
        pass(&tracker, KEEP, 1, &first(host, 1), SECOND);
    }
    assert_eq!(waiting(&tracker), 40);
    assert_eq!(tracker.fragment_counts()[0].refused, 10 + 26);
    tracker.expire(SECOND + PATIENCE);
    assert_eq!(waiting(&tracker), 0);
    assert!(pass(&tracker, KEEP, 1, &first(1, 0), SECOND + PATIENCE).is_empty());
    // Bytes are bounded, too.
    let tracker = Tracker::default();
    tracker.set_fragment_limits(FragmentLimits { most: 5000, ..limits }).expect("in range");
    let mut accepted = 0;
    for number in 0..1000_u16 {
        let from = ([10, 0, 0, (number % 8) as u8], 1);
        let mut fragment = part(&long(from, SERVER, 60_000), 0, 56_000);
        fragment[18..20].copy_from_slice(&number.to_be_bytes());
        set_checksum(&mut fragment[14..34]);
        accepted += usize::from(pass(&tracker, KEEP, 1, &fragment, SECOND).is_empty());
        if accepted <= usize::from(number) {
            break;
        }
    }
    assert_eq!(accepted, (4 << 20) / (56_000 + 34));
}

#[test]
fn long_fragments_of_one_source_leave_room_for_others() {
    let tracker = Tracker::default();
    let first = |host: u8, number: u8| {
        let mut fragment = part(&long(([10, 0, 0, host], 1), SERVER, 20_000), 0, 9_000);
        fragment[19] = number;
        set_checksum(&mut fragment[14..34]);
        fragment
    };
    let room = (1 << 20) / first(1, 0).len();
    for number in 0..200 {
        let passed = pass(&tracker, KEEP, 1, &first(1, number), SECOND);
        assert_eq!(passed.is_empty(), usize::from(number) < room, "a quarter is one source's");
    }
    for number in 0..100 {
        assert!(pass(&tracker, KEEP, 1, &first(2, number), SECOND).is_empty());
    }
    tracker.expire(SECOND + PATIENCE);
    assert_eq!(tracker.fragment_counts()[0].waiting, 0);
    assert!(pass(&tracker, KEEP, 1, &first(1, 0), SECOND + PATIENCE).is_empty());
}

/// Random cuts of a packet, in a random order, with some twice: the reassembled packet equals it.
#[test]
fn random_fragments_are_reassembled() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let tracker = Tracker::default();
        let limits = FragmentLimits { most: 5000, shortest: [400, 400] };
        tracker.set_fragment_limits(limits).expect("in range");
        let whole = long(CLIENT, SERVER, random.usize(1000..30_000));
        let (mut fragments, mut from) = (Vec::new(), 0);
        while from < whole.len() - 34 {
            let to = from + 8 * random.usize(48..200);
            fragments.push(part(&whole, from, to));
            from = to;
        }
        if fragments.len() < 2 {
            continue;
        }
        let mut order: Vec<usize> = (0..fragments.len()).collect();
        random.shuffle(&mut order);
        let mut passed = Vec::new();
        for (nth, at) in order.iter().enumerate() {
            passed = pass(&tracker, KEEP, 1, &fragments[*at], SECOND);
            if nth + 1 < order.len() {
                assert!(passed.is_empty(), "seed {seed}");
                let again = pass(&tracker, KEEP, 1, &fragments[*at], SECOND);
                assert_eq!(states(&again), [TRACKED | INVALID], "seed {seed}");
            }
        }
        let packets: Vec<_> = passed.into_iter().map(|(_, packet)| packet).collect();
        assert_eq!(packets, fragments, "seed {seed}");
    }
}

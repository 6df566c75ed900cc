use linerate_test_support::tunnels::{
    self, Head, IPV4, IPV6, Transport, header_of, stacks, transport_of,
};
use proptest::prelude::*;

use super::*;
use crate::offload::Checksum;

fn transport(kind: GsoKind) -> Transport {
    match kind {
        GsoKind::Tcp => Transport::Tcp,
        GsoKind::Udp => Transport::Udp,
    }
}

/// A merged frame as the kernel has it, and its virtio header.
fn merged(heads: &[Head], kind: GsoKind, payload: &[u8], size: usize) -> (Vec<u8>, Offload) {
    let offload = Offload {
        checksum: Some(Checksum { start: transport_of(heads), offset: kind.checksum() }),
        gso: Some(Gso { kind, size, first_reduces: false }),
    };
    (tunnels::merged(heads, transport(kind), payload), offload)
}

/// The segments that should become of it.
fn pieces(heads: &[Head], kind: GsoKind, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    tunnels::pieces(heads, transport(kind), payload, size)
}

fn segmented(frame: &[u8], offload: &Offload) -> Vec<Vec<u8>> {
    let mut segments = Segments::new(frame, offload).unwrap();
    let longest = segments.longest();
    let mut all = Vec::new();
    while let Some(length) = segments.next_length() {
        assert!(length <= longest);
        let mut segment = vec![0; length];
        segments.write_next(frame, &mut segment);
        all.push(segment);
    }
    all
}

/// Of any family, behind any number of tags.
fn plain(ipv6: bool, tags: usize) -> Vec<Head> {
    let mut heads = vec![Head::Ethernet];
    heads.resize(1 + tags, Head::Tag);
    heads.push(if ipv6 { IPV6 } else { IPV4 });
    heads
}

#[test]
fn tcp_segments_carry_on_where_the_one_before_ended() {
    let (mut frame, mut offload) = merged(&plain(false, 0), GsoKind::Tcp, &[7; 250], 100);
    // All of these flags.
    frame[47] = 0x99;
    offload.gso.as_mut().unwrap().first_reduces = true;
    let segments = segmented(&frame, &offload);
    let lengths: Vec<usize> = segments.iter().map(Vec::len).collect();
    assert_eq!(lengths, [166, 166, 116]);
    let field =
        |segments: &[Vec<u8>], at: usize| segments.iter().map(|s| get(s, at)).collect::<Vec<_>>();
    assert_eq!(field(&segments, 16), [152, 152, 102], "total length");
    assert_eq!(field(&segments, 18), [0xfffe, 0xffff, 0], "identification");
    let low = field(&segments, 40);
    assert_eq!(low, [0xff00, 0xff64, 0xffc8], "low half of the sequence number");
    // CWR on the first only, PSH and FIN on the last only, ACK on all.
    let flags = |segments: &[Vec<u8>]| segments.iter().map(|s| s[47]).collect::<Vec<_>>();
    assert_eq!(flags(&segments), [0x90, 0x10, 0x19]);
    // The bit of a counter is on all.
    offload.gso.as_mut().unwrap().first_reduces = false;
    assert_eq!(flags(&segmented(&frame, &offload)), [0x90, 0x90, 0x99]);
}

#[test]
fn udp_datagrams_have_their_own_length() {
    let (frame, offload) = merged(&plain(true, 1), GsoKind::Udp, &[7; 30], 20);
    let segments = segmented(&frame, &offload);
    assert_eq!(segments.iter().map(|s| get(s, 18 + 40 + 4)).collect::<Vec<_>>(), [28, 18]);
    assert_eq!(segments.iter().map(|s| get(s, 18 + 4)).collect::<Vec<_>>(), [28, 18]);
}

/// An identification of zero that says nothing stays, as the kernel has it that merged such packets.
#[test]
fn identifications_count_up_unless_they_are_of_no_use() {
    let identifications = |id: u16, atomic: bool, kind: GsoKind| {
        let heads = [Head::Ethernet, Head::V4 { id, atomic, options: false }];
        let (frame, offload) = merged(&heads, kind, &[7; 30], 10);
        segmented(&frame, &offload).iter().map(|s| get(s, 18)).collect::<Vec<_>>()
    };
    assert_eq!(identifications(0, true, GsoKind::Tcp), [0, 0, 0]);
    assert_eq!(identifications(0, false, GsoKind::Tcp), [0, 1, 2]);
    assert_eq!(identifications(9, true, GsoKind::Tcp), [9, 10, 11]);
    assert_eq!(identifications(0, true, GsoKind::Udp), [0, 1, 2]);
}

/// Datagrams that were merged with their checksums right come without a checksum to compute.
#[test]
fn checksums_that_were_not_left_undone_are_made_anew() {
    for kind in [GsoKind::Tcp, GsoKind::Udp] {
        for heads in [plain(false, 1), plain(true, 0)] {
            let (frame, offload) = merged(&heads, kind, &[7; 250], 100);
            let checked = Offload { checksum: None, ..offload };
            assert_eq!(segmented(&frame, &checked), segmented(&frame, &offload));
        }
    }
    // A datagram without a checksum has none afterwards.
    let (mut frame, offload) = merged(&plain(false, 0), GsoKind::Udp, &[7; 250], 100);
    frame[40..42].fill(0);
    let checked = Offload { checksum: None, ..offload };
    for segment in segmented(&frame, &checked) {
        assert_eq!(segment[40..42], [0, 0]);
    }
}

#[test]
fn headers_that_contradict_the_offload_are_refused() {
    let (frame, offload) = merged(&plain(false, 0), GsoKind::Tcp, &[7; 250], 100);
    let refused = |frame: &[u8], offload: &Offload| Segments::new(frame, offload) == Err(Malformed);
    assert!(refused(&frame[..66], &offload), "no payload");
    assert!(refused(&frame[..40], &offload), "cut in the header");
    assert!(refused(&frame, &offload.shifted(400)));
    assert!(refused(&frame, &offload.shifted(4)), "no header there");
    let mut other = frame.clone();
    other[13] = 0x06;
    assert!(refused(&other, &offload), "not IP");
    other[13] = 0;
    other[23] = 17;
    assert!(refused(&other, &offload), "not TCP");
    let mut short = frame;
    short[46] = 0x40;
    assert!(refused(&short, &offload), "a TCP header of 16 bytes");
    // A length, a checksum and a protocol that the inner header cannot have.
    let heads = [Head::Ethernet, IPV4, Head::Udp { checksum: false }, Head::Vxlan];
    let heads = [&heads[..], &plain(false, 0)].concat();
    let (frame, offload) = merged(&heads, GsoKind::Tcp, &[7; 250], 100);
    let inner = transport_of(&heads) - 20;
    assert!(Segments::new(&frame, &offload).is_ok());
    for at in [3, 9, 15] {
        let mut other = frame.clone();
        other[inner + at] ^= 1;
        assert!(refused(&other, &offload), "byte {at}");
    }
}

#[test]
fn segments_in_tunnels_are_as_if_they_had_been_sent_one_by_one() {
    let payload: Vec<u8> = (0..2500).map(|at| (at * 7) as u8).collect();
    for heads in stacks() {
        for kind in [GsoKind::Tcp, GsoKind::Udp] {
            let (frame, offload) = merged(&heads, kind, &payload, 999);
            let expected = pieces(&heads, kind, &payload, 999);
            assert_eq!(segmented(&frame, &offload), expected, "{kind:?} {heads:?}");
        }
    }
}

/// The longest TCP packet in a tunnel is longer than its outer headers can say.
#[test]
fn a_whole_may_be_longer_than_a_packet_can_be() {
    for outer in [IPV4, IPV6] {
        let heads = [Head::Ethernet, outer, Head::Udp { checksum: true }, Head::Vxlan];
        let heads = [&heads[..], &plain(false, 0)].concat();
        let payload = vec![7; 0xffff - 52];
        let (frame, offload) = merged(&heads, GsoKind::Tcp, &payload, 1448);
        assert_eq!(segmented(&frame, &offload), pieces(&heads, GsoKind::Tcp, &payload, 1448));
        let too_long = Gso { size: 0xffff - 52, ..offload.gso.unwrap() };
        let too_long = Offload { gso: Some(too_long), ..offload };
        assert_eq!(Segments::new(&frame, &too_long), Err(Malformed));
    }
}

proptest! {
    #[test]
    fn segments_are_valid_and_add_up(
        heads in proptest::sample::select(stacks()),
        udp: bool,
        payload in proptest::collection::vec(any::<u8>(), 1..4000),
        size in 1..1500usize,
    ) {
        let kind = if udp { GsoKind::Udp } else { GsoKind::Tcp };
        let (frame, offload) = merged(&heads, kind, &payload, size);
        let start = transport_of(&heads) + header_of(transport(kind));
        let segments = segmented(&frame, &offload);
        prop_assert_eq!(&segments, &pieces(&heads, kind, &payload, size));
        let mut together = Vec::<u8>::new();
        for segment in segments {
            together.extend(&segment[start..]);
        }
        prop_assert_eq!(together, payload);
    }

    /// Frames of any bytes, frames of tunnels with some bytes changed, and any virtio header.
    #[test]
    fn any_bytes_are_segmented_or_refused(
        mut frame in proptest::collection::vec(any::<u8>(), 0..300),
        header in any::<[u8; 10]>(),
        ethertype in prop_oneof![Just([0x08, 0x00]), Just([0x86, 0xdd]), any::<[u8; 2]>()],
        heads in proptest::sample::select(stacks()),
        changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        length in any::<u16>(),
    ) {
        let mut wholes = Vec::new();
        if let Some(at) = frame.get_mut(12..14) {
            at.copy_from_slice(&ethertype);
        }
        if let Ok(offload) = Offload::parse(&header) {
            wholes.push((frame, offload));
        }
        let (mut frame, offload) = merged(&heads, GsoKind::Tcp, &[7; 100], 30);
        for (at, value) in changes {
            let at = usize::from(at) % frame.len();
            frame[at] = value;
        }
        frame.truncate(frame.len() - usize::from(length) % frame.len());
        wholes.push((frame, offload));
        for (frame, offload) in wholes {
            let Ok(mut segments) = Segments::new(&frame, &offload) else { continue };
            while let Some(length) = segments.next_length() {
                segments.write_next(&frame, &mut vec![0; length]);
            }
        }
    }
}

/// A capture says nothing of segments: they are as long as the link's packets can be.
#[test]
fn recorded_merged_packets_are_cut_to_the_mtu() {
    let payload: Vec<u8> = (0..60_000).map(|at| (at * 7) as u8).collect();
    for heads in [plain(false, 0), plain(false, 2), plain(true, 0), plain(true, 1)] {
        let network = transport_of(&heads) - if heads.contains(&IPV6) { 40 } else { 20 };
        // A TCP header of 32 bytes.
        let size = network + 1500 - (transport_of(&heads) + 32);
        let (partial, offload) = merged(&heads, GsoKind::Tcp, &payload, size);
        let mut complete = partial.clone();
        offload.checksum.unwrap().complete(&mut complete).unwrap();
        let wanted = pieces(&heads, GsoKind::Tcp, &payload, size);
        assert_eq!(wanted[0].len(), network + 1500);
        for frame in [&partial, &complete] {
            let mut segments = Segments::of_recorded(frame, 1500, 9000).unwrap();
            let mut cut = Vec::new();
            while let Some(length) = segments.next_length() {
                let mut segment = vec![0; length];
                segments.write_next(frame, &mut segment);
                cut.push(segment);
            }
            assert_eq!(cut, wanted);
        }
        // Where a frame holds less, that is the limit.
        let short = Segments::of_recorded(&partial, 1500, 700).unwrap();
        assert_eq!(short.longest(), 700);
        assert_eq!(Segments::of_recorded(&partial, 70_000, 70_000), None, "not longer");
    }
}

#[test]
fn packets_other_than_whole_tcp_are_not_cut() {
    let (frame, _) = merged(&plain(false, 0), GsoKind::Tcp, &[7; 5000], 1448);
    let cut = |frame: &[u8]| Segments::of_recorded(frame, 1500, 2000).is_some();
    assert!(cut(&frame));
    let with = |at: usize, value: u8| {
        let mut other = frame.clone();
        other[at] = value;
        other
    };
    assert!(!cut(&frame[..4000]), "cut off by a snap length");
    assert!(!cut(&[&frame[..], &[0; 4]].concat()), "something behind it");
    assert!(!cut(&with(13, 6)), "not IP");
    assert!(!cut(&with(23, 17)), "not TCP");
    assert!(!cut(&with(20, 0x20)), "a fragment");
    assert!(!cut(&with(47, 0x12)), "SYN");
    assert!(!cut(&with(46, 0x40)), "a TCP header of 16 bytes");
    let (datagrams, _) = merged(&plain(false, 0), GsoKind::Udp, &[7; 5000], 1000);
    assert!(!cut(&datagrams), "where datagrams ended is not said");
    let heads = [Head::Ethernet, IPV4, Head::Udp { checksum: false }, Head::Vxlan];
    let heads = [&heads[..], &plain(false, 0)].concat();
    assert!(!cut(&merged(&heads, GsoKind::Tcp, &[7; 5000], 1400).0), "a tunnel");
}

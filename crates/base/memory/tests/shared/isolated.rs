//! Memory of a member's own.

use std::os::fd::OwnedFd;

use linerate_memory::{
    ForeignRegion, Frame,
    shared::{Isolated, Member, Sent},
};

use crate::arena;

/// To the member its memory is an arena like any other; its words are checked against the ledger.
#[test]
fn an_isolated_member_has_copies_and_its_words_are_checked() {
    let like = arena();
    let (mut isolated, files) = Isolated::create(&like, 3, true).unwrap();
    let len = rustix::fs::fstat(&files.channel).unwrap().st_size as u64;
    let channel = ForeignRegion::map(&files.channel, len).unwrap();
    // SAFETY: they come from a server of this process, and only `member` uses them.
    let mut member = unsafe { Member::attach(files).unwrap() };
    let mut theirs = member.arena().cache(4);
    assert_eq!((isolated.room(9), isolated.longest()), (4, like.room()));
    assert!(isolated.enqueue(&vec![0; like.room() + 1], 0).is_none());
    for length in [60, like.room(), 0, 1] {
        assert!(isolated.enqueue(&vec![length as u8; length], 7).is_some());
    }
    assert!(isolated.enqueue(&[1], 0).is_none(), "it holds as many as it may");
    isolated.publish();
    let mut got = Frame::new(8);
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(4));
    let lengths: Vec<usize> = member.arena().packets(&got).map(<[u8]>::len).collect();
    assert_eq!(lengths, [60, like.room(), 0, 1]);
    assert!(got.slots().iter().all(|slot| member.arena().meta(slot).timestamp == 7));
    assert!(
        member.arena().packets(&got).all(|packet| packet.iter().all(|b| *b == packet.len() as u8))
    );
    member.arena().packet_mut(&mut got.slots_mut()[0]).unwrap().fill(7);
    let decide = |packet: &[u8]| (packet.len() == 60, packet.len() == 1);
    assert_eq!(member.answer(&mut theirs, &mut got, decide), Ok(1));
    let mut said = Vec::new();
    let each = |sent: Sent<'_>| {
        let mut bytes = vec![0; sent.packet.map_or(0, |packet| packet.len())];
        assert!(sent.packet.is_none_or(|packet| packet.read(&mut bytes)));
        said.push((sent.flow, bytes));
        60
    };
    assert_eq!(isolated.receive_each(9, each), Ok(4));
    let none = Vec::new;
    assert_eq!(said, [(false, vec![7; 60]), (false, none()), (false, none()), (true, none())]);
    let tally = isolated.tally();
    assert_eq!((tally.packets, tally.missed, tally.malformed), (4, 2, 0));
    assert_eq!(tally.copied, 60 + like.room() as u64 + 1 + 4 * 60);
    assert_eq!((isolated.held(), isolated.waiting(), isolated.supply(9)), (0, 0, 4));
    // Besides a true one: words that keep the buffer, of packets outside, and of buffers it does
    // not hold any more.
    let words = [0, 1 << 31, 9, u64::from(u16::MAX) << 48, 1 << 30];
    let to_server = 8 + 24 + 8;
    isolated.receive_each(0, |_| 0).unwrap();
    let word = |at: usize, word: u64| {
        let words = channel.words(8 * at, 1).unwrap();
        words[0].store(word, std::sync::atomic::Ordering::Release);
    };
    for (at, lie) in words.into_iter().enumerate() {
        word(to_server + 24 + (4 + at) % 4, lie);
        word(to_server, 5 + at as u64);
        isolated.receive_each(9, |_| 0).unwrap();
    }
    // The true one sent an empty buffer as a packet of no bytes.
    assert_eq!((isolated.tally().malformed, isolated.held()), (4, 3));
    word(to_server, 3);
    assert!(isolated.receive_each(9, |_| 0).is_err() && isolated.is_broken());
    assert_eq!((isolated.room(1), isolated.enqueue(&[1], 0)), (0, None));
}

/// The process may keep the files; the packets that the server has put into them go.
#[test]
fn memory_of_a_member_that_is_gone_is_given_back() {
    let (mut isolated, files) = Isolated::create(&arena(), 64, true).unwrap();
    isolated.enqueue(&[7; 100], 0).unwrap();
    isolated.publish();
    let blocks = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_blocks;
    assert!(blocks(&files.packets) > 0 && blocks(&files.channel) > 0);
    let packets = files.packets.try_clone().unwrap();
    let channel = files.channel.try_clone().unwrap();
    // SAFETY: they come from a server of this process, and only the member uses them.
    let _member = unsafe { Member::attach(files).unwrap() };
    drop(isolated);
    assert_eq!((blocks(&packets), blocks(&channel)), (0, 0));
}

/// The copies of packets in its memory are not read: its verdicts are, and nothing else.
#[test]
fn of_a_member_that_only_reads_no_byte_is_taken() {
    let (mut isolated, files) = Isolated::create(&arena(), 4, false).unwrap();
    // SAFETY: they come from a server of this process, and only `member` uses them.
    let mut member = unsafe { Member::attach(files).unwrap() };
    let (mut theirs, mut got) = (member.arena().cache(4), Frame::new(4));
    (0..2).for_each(|number| _ = isolated.enqueue(&[number; 60], 0).unwrap());
    isolated.publish();
    assert_eq!(member.receive(&mut theirs, &mut got), Ok(2));
    assert_eq!(member.answer(&mut theirs, &mut got, |packet| (packet[0] == 1, false)), Ok(1));
    let mut said = Vec::new();
    let each = |sent: Sent<'_>| {
        said.push((sent.passes, sent.packet.is_some()));
        0
    };
    assert_eq!(isolated.receive_each(9, each), Ok(2));
    assert_eq!(said, [(false, false), (true, false)]);
    assert_eq!((isolated.tally().copied, isolated.held()), (120, 0));
}

//! The receiving side of `pcap:FILE`: a recorded file comes in as if from a wire.
//!
//! Each frame is copied once, from the file's bytes to its buffer, and carries the recorded time in
//! its metadata, and how many bytes the capture cut off. A record longer than a buffer is dropped as
//! too long, unless it is of TCP and is to be cut into segments; one shorter than an Ethernet header, unless it is asked for, one without any byte, and
//! one that the end of the file cuts off, as malformed. A record for which no buffer is free is not
//! dropped but waits.
//!
//! Reading a file may wait for the disk, and reading a pipe for its writer.

use std::{
    fmt,
    ops::RangeInclusive,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use linerate_memory::{Frame, PoolCache};

use super::cooked::{Cooked, ETHERNET_HEADER};
use super::error::{Error, Fault};
use super::pace::Pace;
use super::source::{Recorded, Source};
use crate::counters::{Counters, DropReason};
use crate::error::{PortError, PortFault};
use crate::offload::Segments;
use crate::port::{Receive, Wake};

/// Packets that links carry: from the least of IPv4 (RFC 791) to the longest that its header can say.
const PACKETS: RangeInclusive<usize> = 68..=65_535;

/// Length of the IP packets that longer TCP records are cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment {
    /// So many bytes: an MTU.
    Bytes(usize),
    /// As long as fit into a packet buffer.
    Room,
}

impl FromStr for Segment {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "room" => Ok(Segment::Room),
            bytes => match bytes.parse() {
                Ok(bytes) if PACKETS.contains(&bytes) => Ok(Segment::Bytes(bytes)),
                _ => Err(()),
            },
        }
    }
}

impl Segment {
    /// Bytes of such a packet, where a buffer has room for a frame of that length.
    fn packet(self, room: usize) -> usize {
        match self {
            Segment::Bytes(bytes) => bytes,
            Segment::Room => room.saturating_sub(ETHERNET_HEADER),
        }
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segment::Bytes(bytes) => write!(f, "long segments of TCP cut to {bytes} bytes"),
            Segment::Room => f.write_str("long segments of TCP cut to what buffers hold"),
        }
    }
}

/// Replays a file. `Now` tells the time.
pub(super) struct Replay<Now> {
    port: String,
    source: Source,
    pace: Pace,
    now: Now,
    /// When the first packet was asked for.
    start: Option<Instant>,
    /// When the next packet is due, if that was later than the last look at the clock.
    due: Option<Instant>,
    /// Bytes a record has at least.
    shortest: usize,
    /// Length of the segments that long TCP records are cut into, if they are.
    segment: Option<Segment>,
    /// The segments of the current record that are still to come.
    segments: Option<Segments>,
    /// Passes through the file still to come after this one.
    passes: u64,
    /// Whether this pass delivered anything.
    delivered: bool,
    ended: bool,
    counters: Arc<Counters>,
}

impl<Now: FnMut() -> Instant + Send> Replay<Now> {
    /// Replays `source` `passes` times, at least once.
    pub(super) fn new(port: String, source: Source, pace: Pace, passes: u64, now: Now) -> Self {
        Self {
            port,
            source,
            pace,
            now,
            start: None,
            due: None,
            // Without a header nothing can be done with a frame.
            shortest: ETHERNET_HEADER,
            segment: None,
            segments: None,
            passes: passes.saturating_sub(1),
            delivered: false,
            ended: false,
            counters: Counters::shared(),
        }
    }

    /// Accepts records shorter than an Ethernet header, too.
    pub(super) fn with_short_ones(self) -> Self {
        Self { shortest: 1, ..self }
    }

    /// Cuts long TCP records into segments, if `segment` is given.
    pub(super) fn with_segments(self, segment: Option<Segment>) -> Self {
        Self { segment, ..self }
    }

    /// Longest record that may come as it is.
    fn longest(&self, room: usize) -> usize {
        let packet = self.segment.map_or(room, |segment| segment.packet(room));
        room.min(packet.saturating_add(ETHERNET_HEADER))
    }

    /// The segments of a record that is longer, where it has some.
    #[cold]
    fn cut(&self, record: &Recorded<'_>, room: usize) -> Option<Segments> {
        let packet = self.segment?.packet(room);
        // Of a record that was cut off, not all of the packet is there.
        let is_whole = record.missing == 0 && record.cooked.is_none();
        is_whole.then(|| Segments::of_recorded(record.frame, packet, room)).flatten()
    }

    /// At the end of the file: begins again or ends.
    fn end_of_pass(&mut self) -> Result<(), Error> {
        if self.source.is_cut() {
            self.counters.dropped(DropReason::Malformed, 1);
        }
        // A file with nothing to deliver would be read forever.
        if self.passes == 0 || !self.delivered {
            self.ended = true;
            return Ok(());
        }
        if self.passes != u64::MAX {
            self.passes -= 1;
        }
        self.delivered = false;
        self.pace.again();
        self.source.rewind()
    }

    /// Fills an empty frame from memory, when all of it is due at once and can be delivered:
    /// nothing need be asked of each packet. Returns the bytes added.
    fn fill_at_once(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> u64 {
        let allowed = self.shortest..=self.longest(pool.arena().room());
        let Some((count, longest)) = self.source.ahead(allowed) else { return 0 };
        let taken = pool.take(frame, count.min(frame.room()), longest);
        let mut records = self.source.take_run(taken);
        let mut bytes = 0;
        pool.arena().edit_packets(frame, |packet| {
            // Of a run of records none was cut.
            if let Some(Recorded { ts_ns, frame, .. }) = records.next() {
                packet.truncate(frame.len());
                let (to, meta) = packet.parts();
                if to.len() == frame.len() {
                    to.copy_from_slice(frame);
                }
                meta.reset();
                meta.timestamp = ts_ns;
                bytes += frame.len() as u64;
            }
        });
        self.delivered |= taken > 0;
        bytes
    }

    /// Fills `frame` with the packets that are due. Returns the bytes added.
    fn fill(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> (u64, Result<(), Error>) {
        let mut bytes = 0;
        if frame.is_empty() && !self.ended && self.pace.is_unlimited() {
            bytes = self.fill_at_once(pool, frame);
        }
        let mut now = None;
        let room = pool.arena().room();
        let longest = self.longest(room);
        while frame.room() > 0 && !self.ended {
            let Some(record) = self.source.current() else {
                match self.end_of_pass() {
                    Ok(()) => continue,
                    Err(error) => return (bytes, Err(error)),
                }
            };
            if self.segments.is_none() && record.length() > longest {
                self.segments = self.cut(&record, room);
            }
            let segment = self.segments.as_ref().and_then(Segments::next_length);
            let length = segment.unwrap_or(record.length());
            if length < self.shortest || length > room {
                let short = length < self.shortest;
                let reason = if short { DropReason::Malformed } else { DropReason::TooLong };
                self.counters.dropped(reason, 1);
            } else {
                if let Some(due) = self.pace.due(record.ts_ns) {
                    let now = *now.get_or_insert_with(&mut self.now);
                    let start = *self.start.get_or_insert(now);
                    let due = start.checked_add(Duration::from_nanos(due)).unwrap_or(now);
                    if due > now {
                        self.due = Some(due);
                        break;
                    }
                }
                let Some(mut slot) = pool.take_one(length) else { break };
                if let Some(to) = pool.arena().packet_mut(&mut slot) {
                    match &mut self.segments {
                        Some(segments) => segments.write_next(record.frame, to),
                        None => record.write(to),
                    }
                }
                if let Some(meta) = pool.arena().meta_mut(&mut slot) {
                    meta.reset();
                    meta.timestamp = record.ts_ns;
                    if record.missing > 0 {
                        meta.set_missing(record.missing);
                    }
                    if let Some(Cooked { origin, kind, .. }) = record.cooked {
                        meta.packet_type = kind;
                        meta.set_origin(origin);
                    }
                }
                if let Err(slot) = frame.push(slot) {
                    pool.give_one(slot);
                    break;
                }
                bytes += length as u64;
                self.delivered = true;
                self.pace.sent();
                if self.segments.as_ref().is_some_and(|rest| rest.next_length().is_some()) {
                    continue;
                }
                self.segments = None;
            }
            if let Err(error) = self.source.advance() {
                return (bytes, Err(error));
            }
        }
        // Known at once, not only when the next burst is asked for.
        if !self.ended && self.passes == 0 && self.source.current().is_none() {
            return (bytes, self.end_of_pass());
        }
        (bytes, Ok(()))
    }
}

impl<Now: FnMut() -> Instant + Send> Receive for Replay<Now> {
    fn receive(&mut self, pool: &mut PoolCache, frame: &mut Frame) -> Result<usize, PortError> {
        self.due = None;
        let before = frame.len();
        let (bytes, result) = self.fill(pool, frame);
        let received = frame.len() - before;
        self.counters.passed(received, bytes);
        match result {
            Ok(()) => Ok(received),
            Err(error) => {
                self.ended = true;
                let corrupt = matches!(error.fault, Fault::Corrupt { .. });
                self.counters.dropped(DropReason::Malformed, usize::from(corrupt));
                Err(PortFault::File { port: self.port.clone(), reason: error.fault.to_string() }
                    .into())
            }
        }
    }

    fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn wake(&mut self) -> Wake<'_> {
        match self.due {
            _ if self.ended => Wake::Never,
            Some(due) => Wake::At(due),
            None => Wake::Now,
        }
    }

    fn ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Cursor;

    use linerate_memory::{Arena, ArenaOptions};
    use linerate_test_support::tunnels;

    use super::*;
    use crate::pcap::pace::Rate;
    use crate::pcap::reader::{ReadOptions, Reader};

    thread_local! {
        /// Time of this test's clock.
        static CLOCK: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    fn clock() -> Instant {
        CLOCK.get().expect("set at the start of the test")
    }

    fn arena() -> Arena {
        ArenaOptions { size: 1 << 20, huge: false, ..Default::default() }.create().unwrap()
    }

    /// A pcap file with frames at these nanoseconds, each filled with its number.
    fn pcap(frames: &[(u64, usize)]) -> Vec<u8> {
        let mut file = b"\x4d\x3c\xb2\xa1\x02\0\x04\0".to_vec();
        file.extend([0_u32, 0, 65_535, 1].map(u32::to_le_bytes).concat());
        for (index, &(ts, length)) in frames.iter().enumerate() {
            let (seconds, rest) = (ts / 1_000_000_000, ts % 1_000_000_000);
            let words = [seconds as u32, rest as u32, length as u32, length as u32];
            file.extend(words.map(u32::to_le_bytes).concat());
            file.resize(file.len() + length, index as u8);
        }
        file
    }

    /// Replays from memory or from a stream.
    fn replay(file: &[u8], preload: bool, pace: Pace, passes: u64) -> Replay<fn() -> Instant> {
        let mut reader = Reader::new(Cursor::new(file.to_vec()), "test").unwrap();
        let source = if preload {
            Source::preload(reader).unwrap()
        } else {
            reader.next().unwrap();
            let options = ReadOptions::default();
            Source::Stream { path: "test".into(), options, reader: Box::new(reader) }
        };
        Replay::new("pcap:test".into(), source, pace, passes, clock)
    }

    fn numbers(pool: &PoolCache, frame: &Frame) -> Vec<u8> {
        pool.arena().packets(frame).map(|bytes| bytes[0]).collect()
    }

    #[test]
    fn frames_come_whole_with_their_times_and_the_end_is_told_with_the_last() {
        let file = pcap(&[(1_000, 60), (2_000, 61), (3_000, 1514)]);
        for preload in [false, true] {
            let mut pool = arena().cache(64);
            let mut frame = Frame::new(2);
            let mut port = replay(&file, preload, Pace::new(Rate::Max, 1.0), 1);
            assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 2);
            let slot = &frame.slots()[1];
            assert_eq!(pool.arena().packet(slot), [1; 61]);
            assert_eq!(pool.arena().meta(slot).timestamp, 2_000);
            assert!(!port.ended() && matches!(port.wake(), Wake::Now));
            assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 0, "the frame is full");
            pool.give(&mut frame);
            assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 1);
            assert!(port.ended() && matches!(port.wake(), Wake::Never));
            assert_eq!(port.counters().read().bytes, 60 + 61 + 1514);
            pool.give(&mut frame);
            assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 0);
            assert_eq!(pool.arena().accounting().held, 0);
        }
    }

    #[test]
    fn recorded_gaps_are_waited_for_to_the_nanosecond() {
        // A microsecond, then over a minute.
        let file = pcap(&[(5_000_000_000, 60), (5_000_001_000, 60), (70_000_001_001, 60)]);
        for preload in [false, true] {
            let mut pool = arena().cache(64);
            let mut frame = Frame::new(8);
            let start = Instant::now();
            let at = |ns| CLOCK.set(Some(start + Duration::from_nanos(ns)));
            let mut port = replay(&file, preload, Pace::new(Rate::Recorded, 1.0), 1);
            // The replay starts when the first packet is asked for, not when it is opened.
            let mut steps = vec![(0, 1, 1_000), (999, 0, 1_000), (1_000, 1, 65_000_001_001)];
            steps.extend([(65_000_001_000, 0, 65_000_001_001), (65_000_001_001, 1, 0)]);
            for (now, expected, due) in steps {
                at(now);
                assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), expected, "at {now}");
                match port.wake() {
                    Wake::At(time) => assert_eq!(time, start + Duration::from_nanos(due)),
                    Wake::Never => assert_eq!(due, 0),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(numbers(&pool, &frame), [0, 1, 2]);
            pool.give(&mut frame);
        }
    }

    #[test]
    fn a_rate_is_kept_over_passes_and_caught_up_with() {
        let file = pcap(&[(0, 60), (0, 60)]);
        let mut pool = arena().cache(64);
        let mut frame = Frame::new(64);
        let start = Instant::now();
        let mut port = replay(&file, true, Pace::new(Rate::PerSecond(1_000), 1.0), u64::MAX);
        for (micros, expected) in [(0, 1), (999, 0), (1_000, 1), (1_500, 0), (10_000, 9)] {
            CLOCK.set(Some(start + Duration::from_micros(micros)));
            assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), expected, "at {micros}");
        }
        assert_eq!(numbers(&pool, &frame), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
        assert!(!port.ended());
        pool.give(&mut frame);
    }

    #[test]
    fn too_long_and_too_short_packets_are_counted_every_pass() {
        let arena = arena();
        let mut pool = arena.cache(64);
        let file = pcap(&[(0, 60), (0, arena.room() + 1), (0, 13), (0, arena.room()), (0, 14)]);
        let mut port = replay(&file[..file.len() - 1], true, Pace::new(Rate::Max, 1.0), 3);
        let mut frame = Frame::new(64);
        assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 6);
        assert_eq!(numbers(&pool, &frame), [0, 3, 0, 3, 0, 3]);
        let counts = port.counters().read();
        assert_eq!(counts.dropped_for(DropReason::TooLong), 3);
        // The short one and the one the end of the file cuts off.
        assert_eq!(counts.dropped_for(DropReason::Malformed), 6);
        assert!(port.ended());
        pool.give(&mut frame);
    }

    /// A pcap file of these frames, a microsecond apart.
    fn file_of(frames: &[&[u8]]) -> Vec<u8> {
        let times: Vec<_> =
            frames.iter().zip(1..).map(|(frame, at)| (at * 1000, frame.len())).collect();
        let mut file = pcap(&times);
        let mut at = 24;
        for frame in frames {
            file[at + 16..at + 16 + frame.len()].copy_from_slice(frame);
            at += 16 + frame.len();
        }
        file
    }

    /// A merged frame is replayed as the segments that segmentation offload sent.
    #[test]
    fn merged_segments_are_cut_as_they_were_sent() {
        let heads = [tunnels::Head::Ethernet, tunnels::IPV4];
        let payload: Vec<u8> = (0..60_000).map(|at| (at * 7) as u8).collect();
        let merged = tunnels::merged(&heads, tunnels::Transport::Tcp, &payload);
        let wanted = tunnels::pieces(&heads, tunnels::Transport::Tcp, &payload, 1448);
        assert_eq!(wanted[0].len(), 1514);
        let datagram = tunnels::merged(&heads, tunnels::Transport::Udp, &payload);
        let file = file_of(&[&[1; 60], &merged, &[3; 61], &datagram]);
        let frames = |port: &mut Replay<fn() -> Instant>, places: usize| {
            let mut pool = arena().cache(64);
            let (mut frame, mut all) = (Frame::new(places), Vec::new());
            while !port.ended() {
                port.receive(&mut pool, &mut frame).unwrap();
                let packets = frame.slots().iter().map(|slot| {
                    (pool.arena().packet(slot).to_vec(), pool.arena().meta(slot).timestamp)
                });
                all.extend(packets);
                pool.give(&mut frame);
            }
            all
        };
        let start = Instant::now();
        // At a rate the segments are packets, and come with their turn.
        CLOCK.set(Some(start + Duration::from_secs(1000)));
        for pace in [Rate::Max, Rate::Recorded, Rate::PerSecond(1000)] {
            for (preload, places) in [(true, 7), (false, 1), (true, 256)] {
                // Another pass of a stream would open the file again.
                let passes = if preload { 2 } else { 1 };
                let mut port = replay(&file, preload, Pace::new(pace, 1.0), passes);
                if pace != Rate::Max {
                    port.start = Some(start);
                }
                port = port.with_segments(Some(Segment::Bytes(1500)));
                let found = frames(&mut port, places);
                let once = [
                    vec![(vec![1; 60], 1000)],
                    wanted.iter().map(|piece| (piece.clone(), 2000)).collect(),
                    vec![(vec![3; 61], 3000)],
                ]
                .concat();
                assert!(
                    found == vec![once; passes as usize].concat(),
                    "{pace:?} {preload} {places}"
                );
                let counts = port.counters().read();
                assert_eq!(counts.packets, passes * (wanted.len() as u64 + 2));
                // Where the datagrams ended is not said.
                assert_eq!(counts.dropped_for(DropReason::TooLong), passes);
            }
        }
        let room = arena().room();
        let wanted = tunnels::pieces(&heads, tunnels::Transport::Tcp, &payload, room - 66);
        let mut port = replay(&file, true, Pace::new(Rate::Max, 1.0), 1);
        port = port.with_segments(Some(Segment::Room));
        let found: Vec<_> = frames(&mut port, 64).into_iter().map(|(packet, _)| packet).collect();
        assert!(found[1..found.len() - 1] == wanted);
        // Without being told, none is changed.
        let mut port = replay(&file, true, Pace::new(Rate::Max, 1.0), 1);
        assert_eq!(frames(&mut port, 64).len(), 2);
        assert_eq!(port.counters().read().dropped_for(DropReason::TooLong), 2);
    }

    /// Long records other than TCP that fit a buffer come whole, for the link to refuse.
    #[test]
    fn packets_that_are_not_cut_come_whole() {
        let file = pcap(&[(0, 1514), (0, 1515), (0, 1600)]);
        let mut pool = arena().cache(64);
        let mut frame = Frame::new(8);
        let mut port = replay(&file, true, Pace::new(Rate::Max, 1.0), 1)
            .with_segments(Some(Segment::Bytes(1500)));
        assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 3);
        let lengths: Vec<usize> = frame.slots().iter().map(|slot| slot.len()).collect();
        assert_eq!(lengths, [1514, 1515, 1600]);
        pool.give(&mut frame);
    }

    /// Else they would be recorded with the time of the replay.
    #[test]
    fn packets_of_the_first_moment_have_a_time() {
        for preload in [false, true] {
            let mut pool = arena().cache(64);
            let mut frame = Frame::new(8);
            let mut port =
                replay(&pcap(&[(0, 60), (1_000, 60)]), preload, Pace::new(Rate::Max, 1.0), 1);
            assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 2);
            let arena = pool.arena();
            let times = frame.slots().iter().map(|slot| arena.meta(slot).timestamp);
            assert_eq!(times.collect::<Vec<_>>(), [1, 1_000]);
            pool.give(&mut frame);
        }
    }

    /// Packets cut by a snap length, also to less than an Ethernet header, with their length.
    #[test]
    fn cut_packets_come_with_the_length_they_had() {
        let mut file = pcap(&[(1, 60), (2, 13), (3, 20), (4, 0)]);
        for (at, length) in [(24 + 16 + 60, 1500_u32), (24 + 32 + 73, 20), (24 + 48 + 93, 64)] {
            file[at + 12..at + 16].copy_from_slice(&length.to_le_bytes());
        }
        for preload in [false, true] {
            let mut pool = arena().cache(64);
            let mut frame = Frame::new(8);
            let mut port = replay(&file, preload, Pace::new(Rate::Max, 1.0), 1).with_short_ones();
            assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 3);
            let arena = pool.arena();
            let lengths = frame.slots().iter().map(|slot| {
                (arena.packet(slot).len(), arena.meta(slot).missing(), arena.meta(slot).timestamp)
            });
            assert_eq!(lengths.collect::<Vec<_>>(), [(60, 0, 1), (13, 1487, 2), (20, 0, 3)]);
            // The one without any byte.
            assert_eq!(port.counters().read().dropped_for(DropReason::Malformed), 1);
            assert!(port.ended());
            pool.give(&mut frame);
        }
    }

    #[test]
    fn a_file_with_nothing_to_deliver_ends_though_looped() {
        for frames in [&[][..], &[(0, 13), (0, 4000)]] {
            let mut pool = arena().cache(64);
            let mut port = replay(&pcap(frames), true, Pace::new(Rate::Max, 1.0), u64::MAX);
            assert_eq!(port.receive(&mut pool, &mut Frame::new(8)).unwrap(), 0);
            assert!(port.ended());
            assert_eq!(port.counters().read().dropped(), frames.len() as u64);
        }
    }

    #[test]
    fn without_buffers_packets_wait() {
        let arena = arena();
        let total = arena.count();
        let mut pool = arena.cache(64);
        let mut frame = Frame::new(2048);
        let file = pcap(&vec![(0, 60); total + 5]);
        let mut port = replay(&file, false, Pace::new(Rate::Max, 1.0), 1);
        assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), total);
        assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 0);
        pool.give(&mut frame);
        assert_eq!(port.receive(&mut pool, &mut frame).unwrap(), 5);
        assert_eq!(port.counters().read().dropped(), 0);
        pool.give(&mut frame);
    }

    #[test]
    fn corruption_ends_the_replay_behind_the_packets_before() {
        let mut file = pcap(&[(0, 60), (0, 60), (0, 60)]);
        // The third record's captured length.
        file[24 + 2 * 76 + 11] = 0xff;
        let mut pool = arena().cache(64);
        let mut frame = Frame::new(8);
        let mut port = replay(&file, false, Pace::new(Rate::Max, 1.0), 1);
        let error = port.receive(&mut pool, &mut frame).unwrap_err().to_string();
        assert!(error.starts_with("pcap:test: corrupt at byte 176: "), "{error}");
        assert_eq!(frame.len(), 2);
        assert!(port.ended());
        let counts = port.counters().read();
        assert_eq!((counts.packets, counts.dropped_for(DropReason::Malformed)), (2, 1));
        pool.give(&mut frame);
    }
}

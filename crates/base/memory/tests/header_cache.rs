//! Passes over a frame with a header cache of its packets, and without: with anything between them,
//! packets, metadata and the packets that leave are equal.
#![cfg(not(loom))]

use linerate_memory::{
    Annotations, Arena, ArenaOptions, Column, Frame, HeaderBatch, HeaderCache, HeaderKernel,
    HeaderLane, HeaderLocation, LANES, Meta, Packet, PacketMut, PoolCache, PreservedFields, Slot,
    WordAt, WordBase,
};
use proptest::{collection::vec, prelude::*};

const LIMIT: usize = 50;
/// Bytes of a header.
const HEAD: usize = 12;
/// Headers begin with it where nothing is wrong with them.
const SOUND: u8 = 0x45;

/// Checks headers at a place: the first byte is [`SOUND`] and the second, the length of the packet
/// from there on, not too much. Notes the third word as the destination, and leaves so many for those
/// behind.
struct Check<const KEPT: usize>(usize);

impl<const KEPT: usize> HeaderKernel<3> for Check<KEPT> {
    const KEPT: usize = KEPT;
    type Exit = u8;
    type LookResult = Column;

    fn at(&self) -> HeaderLocation {
        HeaderLocation::Start(self.0)
    }

    fn look(&self, heads: &mut HeaderBatch<3>) -> (Column, Column) {
        let lengths = heads.words[0].map(|word| word >> 8 & 0xff);
        let mut wrong = heads.words[0].map(|word| u32::from(word as u8 != SOUND));
        for lane in 0..LANES {
            let fits = (HEAD as u32..=heads.room[lane]).contains(&lengths[lane]);
            wrong[lane] |= u32::from(!fits);
        }
        (wrong, lengths)
    }

    fn notes(&self, heads: &HeaderBatch<3>, lengths: &Column) -> Option<Annotations> {
        Some(Annotations { lengths: *lengths, header: HEAD, destinations: Some(heads.words[2]) })
    }

    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Result<(), u8> {
        let head: &[u8] = packet.bytes().get(self.0..).unwrap_or_default();
        let [first, length, ..] = *head else { return Err(1) };
        if head.len() < HEAD || !(HEAD..=head.len()).contains(&length.into()) {
            return Err(2);
        }
        // A header that is not plain, but right.
        if first != SOUND && first & 1 != 0 {
            return Err(3);
        }
        let destination: [u8; 4] = head[8..12].try_into().unwrap();
        packet.truncate(self.0 + usize::from(length));
        packet.mark_headers(self.0, self.0 + HEAD);
        packet.meta_mut().destination[..4].copy_from_slice(&destination);
        Ok(())
    }
}

/// Takes one from the second word of the network header, unless it is less than two.
struct Less;

impl HeaderKernel<3> for Less {
    type Exit = u8;
    type LookResult = ();

    fn at(&self) -> HeaderLocation {
        HeaderLocation::Network
    }

    fn look(&self, heads: &mut HeaderBatch<3>) -> (Column, ()) {
        let left = heads.words[1].map(|word| u32::from(word < 2));
        heads.words[1] = heads.words[1].map(|word| word.wrapping_sub(1));
        (left, ())
    }

    fn finish(
        &mut self,
        heads: &HeaderBatch<3>,
        (): &(),
        lane: usize,
        head: &mut HeaderLane<'_, 3>,
    ) {
        head.words()[1] = heads.words[1][lane].to_le_bytes();
        head.meta().flow_hash += 1;
    }

    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Result<(), u8> {
        let network = packet.network();
        let (bytes, meta) = packet.parts();
        let head = bytes.get_mut(network..).filter(|rest| rest.len() >= HEAD).ok_or(4)?;
        let word = head[4..8].first_chunk_mut::<4>().ok_or(4)?;
        match u32::from_le_bytes(*word) {
            0 | 1 => Err(5),
            left => {
                *word = (left - 1).to_le_bytes();
                meta.flow_hash += 1;
                Ok(())
            }
        }
    }
}

/// Something done to a frame.
#[derive(Debug, Clone, Copy)]
enum Pass {
    Check(usize),
    Less,
    Paint(u8),
    /// Takes off as many bytes as each packet's length says, and writes a byte of the rest.
    Trim(u8),
    /// Sends away those with this first byte.
    Leave(u8),
    Read(usize),
    /// Words of packets and of their headers.
    Gather(usize),
    Pull(usize),
    Push(usize),
    Destinations(u32),
    /// Writes to a packet by its slot.
    Write(usize, u8),
    Share(usize),
    Pop,
    More(u8),
    /// Another frame is gone over meanwhile.
    Between,
    Move,
}

fn pass() -> impl Strategy<Value = Pass> {
    prop_oneof![
        4 => (0..3usize).prop_map(|at| Pass::Check(at * 5)),
        4 => Just(Pass::Less),
        2 => any::<u8>().prop_map(Pass::Paint),
        1 => (0..8u8).prop_map(Pass::Trim),
        1 => (0..8u8).prop_map(Pass::Leave),
        1 => (0..6usize).prop_map(Pass::Read),
        2 => (0..6usize).prop_map(Pass::Gather),
        2 => (0..20usize).prop_map(Pass::Pull),
        2 => (0..140usize).prop_map(Pass::Push),
        2 => any::<u32>().prop_map(Pass::Destinations),
        1 => (0..LIMIT, any::<u8>()).prop_map(|(at, byte)| Pass::Write(at, byte)),
        1 => (0..LIMIT).prop_map(Pass::Share),
        1 => Just(Pass::Pop),
        1 => any::<u8>().prop_map(Pass::More),
        1 => Just(Pass::Between),
        1 => Just(Pass::Move),
    ]
}

/// A frame with or without a header cache.
struct Side {
    pool: PoolCache,
    header_cache: HeaderCache,
    frame: Frame,
    held: Frame,
    /// Packets that left, and why.
    gone: Vec<(usize, u8, Vec<u8>)>,
    /// Values that reading passes have seen.
    seen: Vec<u64>,
}

impl Side {
    fn new(arena: &Arena, header_cache: HeaderCache) -> Side {
        let frames = [(); 2].map(|()| Frame::new(LIMIT));
        let [frame, held] = frames;
        Side {
            pool: arena.cache(64),
            header_cache,
            frame,
            held,
            gone: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// A packet with a header at each of three places, most of them sound.
    fn add(&mut self, kind: u8) {
        let length = if kind == 7 { 9 } else { 40 + usize::from(kind % 5) };
        let Some(mut slot) = self.pool.take_one(length) else { return };
        let arena = self.pool.arena().clone();
        let bytes = arena.packet_mut(&mut slot).unwrap();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = match at % 5 {
                0 if kind == 9 => 0x46,
                0 if kind == 11 => 0x47,
                0 => SOUND,
                1 if kind == 13 => 200,
                1 => 14,
                _ if kind == 15 => 0,
                _ => kind.wrapping_add(at as u8),
            };
        }
        arena.meta_mut(&mut slot).unwrap().reset();
        self.frame.push(slot).unwrap_or_else(|slot| self.pool.give_one(slot));
    }

    fn take(&mut self, pass: Pass) {
        let Side { pool, header_cache, frame, held, seen, .. } = self;
        let arena = pool.arena().clone();
        let mut left = Vec::new();
        let mut out = |at: usize, slot: Slot, why: u8| left.push((at, why, slot));
        match pass {
            Pass::Check(5) => arena.process_headers(frame, header_cache, &mut Check::<2>(5), out),
            Pass::Check(at) => arena.process_headers(frame, header_cache, &mut Check::<3>(at), out),
            Pass::Less => arena.process_headers(frame, header_cache, &mut Less, out),
            Pass::Paint(paint) => {
                let put = |packet: &mut PacketMut<'_>| {
                    packet.meta_mut().paint = paint;
                    Ok(())
                };
                arena.retain_cached(frame, header_cache, PreservedFields::ALL, put, out);
            }
            Pass::Trim(by) => {
                let trim = |packet: &mut PacketMut<'_>| {
                    packet.pull(packet.len().min(usize::from(by)));
                    packet.bytes_mut().iter_mut().take(1).for_each(|byte| *byte ^= 1);
                    packet.meta_mut().destination[1] ^= by;
                    Ok(())
                };
                arena.retain_cached(frame, header_cache, PreservedFields::NOTHING, trim, out);
            }
            Pass::Leave(kind) => {
                let judge = |packet: &mut PacketMut<'_>| {
                    let is_it = packet.bytes().get(2).is_some_and(|byte| byte & 7 == kind);
                    if is_it { Err(9) } else { Ok(()) }
                };
                arena.retain_cached(frame, header_cache, PreservedFields::ALL, judge, out);
            }
            Pass::Read(by) => {
                let read = |packet: &mut Packet<'_>| {
                    seen.push(packet.bytes().iter().map(|byte| u64::from(*byte)).sum());
                    packet.pull(packet.len().min(by));
                    // A reading pass may write to a packet without another holder.
                    if let Some(packet) = packet.writable().filter(|_| by == 5) {
                        packet.bytes_mut().iter_mut().for_each(|byte| *byte ^= 3);
                        packet.meta_mut().destination[0] ^= 1;
                    }
                    Ok(())
                };
                arena.retain_read_cached(
                    frame,
                    header_cache,
                    PreservedFields::NOTHING,
                    read,
                    &mut out,
                );
                let each = |meta: &Meta| seen.push(u64::from(meta.flow_hash));
                arena.for_each_meta(frame, header_cache, each);
            }
            Pass::Gather(offset) => {
                let at = [
                    WordAt { base: WordBase::Network, offset: 4 },
                    WordAt { base: WordBase::Network, offset },
                    WordAt { base: WordBase::Packet, offset },
                    WordAt { base: WordBase::Transport, offset: 0 },
                ];
                let turns = frame.len().div_ceil(LANES);
                let mut columns = vec![[0; LANES]; at.len() * turns];
                let mut whole = vec![[true; LANES]; turns];
                let column = |turn: usize, n: usize| turn * at.len() + n;
                arena.gather(frame, header_cache, at, (&mut *columns, column), |turn, there| {
                    whole[turn] = there;
                });
                for (columns, whole) in columns.chunks(at.len()).zip(whole) {
                    for lane in 0..LANES {
                        seen.push(u64::from(whole[lane]));
                        seen.extend(columns.iter().map(|column| u64::from(column[lane])));
                    }
                }
            }
            Pass::Pull(count) => arena.strip_packets(frame, header_cache, count),
            Pass::Push(count) => {
                let before: Vec<_> = frame.slots().iter().map(Slot::headroom).collect();
                let pushed = arena.unstrip_packets(frame, header_cache, count);
                assert_eq!(pushed, before.iter().all(|headroom| *headroom >= count));
            }
            Pass::Destinations(to) => {
                let each = |at: u32| if at.is_multiple_of(3) { 0 } else { to ^ at };
                let columns = (0..).map(|eight: u32| {
                    std::array::from_fn(|lane| each(eight * LANES as u32 + lane as u32))
                });
                arena.set_destinations(frame, header_cache, columns);
            }
            Pass::Write(at, byte) => {
                if let Some(slot) = frame.slots_mut().get_mut(at)
                    && let Some(bytes) = arena.packet_mut(slot)
                {
                    bytes.iter_mut().for_each(|old| *old ^= byte);
                }
            }
            Pass::Share(at) => {
                if held.room() > 0
                    && let Some(slot) = frame.slots_mut().get_mut(at)
                    && let Some(copy) = pool.share(slot)
                {
                    held.push(copy).unwrap();
                }
            }
            Pass::Pop => frame.pop().into_iter().for_each(|slot| pool.give_one(slot)),
            Pass::More(kind) => self.add(kind % 32),
            Pass::Between => {
                let mut other = Frame::new(LIMIT);
                std::mem::swap(frame, &mut other);
                (0..20).for_each(|_| self.add(1));
                self.take(Pass::Check(0));
                self.pool.give(&mut self.frame);
                self.frame = other;
            }
            Pass::Move => {
                let mut other = Frame::new(LIMIT);
                other.append(frame, 3);
                other.append(frame, LIMIT);
                *frame = other;
            }
        }
        for (at, why, slot) in left {
            self.gone.push((at, why, arena.packet(&slot).to_vec()));
            self.pool.give_one(slot);
        }
        if let Some(columns) = self.header_cache.destinations(&arena, &self.frame) {
            let known: Vec<u32> = columns.flatten().take(self.frame.len()).collect();
            let of = |slot: &Slot| *arena.meta(slot).destination.first_chunk().unwrap();
            let there: Vec<_> = self.frame.slots().iter().map(of).collect();
            assert_eq!(known.iter().map(|word| word.to_le_bytes()).collect::<Vec<_>>(), there);
        }
    }

    fn end(mut self) {
        self.pool.give(&mut self.frame);
        self.pool.give(&mut self.held);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 600 }))]

    #[test]
    fn passes_with_a_survey_are_as_without(
        kinds in vec(prop_oneof![6 => Just(1u8), 4 => 0..32u8], 0..LIMIT),
        usual: bool,
        passes in vec(pass(), 1..12),
    ) {
        let arenas = [(); 2].map(|()| {
            ArenaOptions { size: 1 << 18, huge: false, ..ArenaOptions::default() }.create().unwrap()
        });
        let mut sides = [
            Side::new(&arenas[0], HeaderCache::new(LIMIT)),
            Side::new(&arenas[1], HeaderCache::off()),
        ];
        for side in &mut sides {
            kinds.iter().for_each(|kind| side.add(if usual { 1 } else { *kind }));
        }
        for pass in passes {
            sides.iter_mut().for_each(|side| side.take(pass));
            let [with, without] = &sides;
            prop_assert_eq!(with.frame.len(), without.frame.len(), "{:?}", pass);
            let slots = with.frame.slots().iter().zip(without.frame.slots());
            for (one, two) in slots {
                prop_assert_eq!((one.len(), one.headroom()), (two.len(), two.headroom()));
                prop_assert_eq!(arenas[0].packet(one), arenas[1].packet(two), "{:?}", pass);
                prop_assert_eq!(arenas[0].meta(one), arenas[1].meta(two), "{:?}", pass);
            }
            prop_assert_eq!(&with.gone, &without.gone, "{:?}", pass);
            prop_assert_eq!(&with.seen, &without.seen);
        }
        sides.into_iter().for_each(Side::end);
    }
}

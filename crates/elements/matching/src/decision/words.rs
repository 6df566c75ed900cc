//! The words of packets that a program looks at.

use linerate_memory::{
    Arena, Frame, HeaderCache, HeaderStart, LANES as HALF, Slot, WordAt, WordBase,
};

use linerate_element_support::mac_header;

/// Packets side by side.
pub(super) const LANES: usize = 16;
/// Words gathered in one pass over a frame.
const WORDS_AT_ONCE: usize = 6;

/// Bases of the offsets of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Headers {
    /// The start of the packet.
    Packet,
    /// Headers: up to [`Headers::IP`] two bytes in front of the Ethernet header;
    /// from there on the network header, from [`Headers::TRANSPORT`] on that
    /// behind it.
    Ip {
        /// Whether elements of the graph mark Ethernet headers.
        marked: bool,
        /// Whether those that take headers off note where packets began.
        noted: bool,
    },
}

impl Headers {
    /// First offset into the network header.
    pub(crate) const IP: usize = 256;
    /// First offset into the transport header.
    pub(crate) const TRANSPORT: usize = 512;
    /// Bytes from the start of offsets into the Ethernet header to that header.
    pub(crate) const BEFORE_ETHERNET: usize = 2;

    /// Returns the base of an offset, and its distance from there.
    fn place(self, offset: usize) -> (Start, usize) {
        match (self, offset) {
            (Headers::Packet, _) => (Start::Packet, offset),
            (Headers::Ip { .. }, ..Headers::IP) => (Start::Ethernet, offset),
            (Headers::Ip { .. }, ..Headers::TRANSPORT) => (Start::Network, offset - Headers::IP),
            (Headers::Ip { .. }, _) => (Start::Transport, offset - Headers::TRANSPORT),
        }
    }

    /// Reads a packet's words one by one, however short it is. The headers may
    /// be in the room in front of the packet, where they are when they have been
    /// stripped.
    pub(super) fn read<R>(
        self,
        arena: &Arena,
        slot: &mut Slot,
        with: impl FnOnce(&dyn Fn(usize) -> (u32, usize)) -> R,
    ) -> R {
        if self == Headers::Packet {
            let bytes = arena.packet(slot);
            return with(&|offset| {
                (word(bytes, offset as isize), bytes.len().saturating_sub(offset))
            });
        }
        let room = slot.headroom();
        let usual = arena.headroom() as isize - room as isize;
        let (marked, noted) = match self {
            Headers::Ip { marked, noted } => (marked, noted),
            Headers::Packet => (false, false),
        };
        let link = mac_header::marked(slot, arena.meta(slot)).map(|link| link as isize);
        let revealed = slot.push(room);
        let front = if revealed { room as isize } else { 0 };
        let (bytes, meta) = (arena.packet(slot), arena.meta(slot));
        // Headers may be in front of the packet.
        let start = |header: HeaderStart| header.offset(room).map(|offset| front + offset);
        let (network, transport) = (start(meta.network), start(meta.transport));
        let ethernet = network.and_then(|network| match link {
            Some(link) if marked => Some(front + link),
            _ if network - front >= UNTAGGED => Some(front),
            // What begins before the packet did is another's.
            link if noted => {
                let began = front + link?;
                Some(stripped(bytes, network, began)).filter(|at| *at >= began)
            }
            _ => Some(stripped(bytes, network, front + usual)),
        });
        let answer = with(&|offset| {
            let (start, rest) = self.place(offset);
            let start = match start {
                Start::Packet => Some(front),
                Start::Network => network,
                Start::Transport => transport.filter(|_| network.is_some()),
                Start::Ethernet => {
                    ethernet.filter(|at| *at >= 0).map(|at| at - Headers::BEFORE_ETHERNET as isize)
                }
            };
            let Some(at) = start.map(|start| start.saturating_add_unsigned(rest)) else {
                return (0, 0);
            };
            (word(bytes, at), (bytes.len() as isize - at).max(0) as usize)
        });
        if revealed {
            slot.pull(room);
        }
        answer
    }
}

/// Bytes of an Ethernet header without VLAN tags, and of a tag.
const UNTAGGED: isize = 14;
const TAG: isize = 4;

/// Returns the place of a stripped Ethernet header in front of the network header: before its VLAN
/// tags. The packet began at `began`; a header that would begin before that has no tags, even if
/// its source address looks like some.
fn stripped(bytes: &[u8], network: isize, began: isize) -> isize {
    let is_tag = |at: isize| {
        at - (UNTAGGED - 2) >= began && matches!(word(bytes, at) >> 16, 0x8100 | 0x88a8 | 0x9100)
    };
    let inner = network - 2 - TAG;
    let tags = match (is_tag(inner), is_tag(inner - TAG)) {
        (true, true) => 2,
        (tagged, _) => isize::from(tagged),
    };
    network - UNTAGGED - tags * TAG
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Packet,
    Ethernet,
    Network,
    Transport,
}

/// Four bytes in network order, zeros where there is none.
fn word(bytes: &[u8], at: isize) -> u32 {
    let byte = |more: isize| {
        let at = usize::try_from(at.saturating_add(more)).ok();
        at.and_then(|at| bytes.get(at)).copied().unwrap_or(0)
    };
    u32::from_be_bytes([byte(0), byte(1), byte(2), byte(3)])
}

/// Returns places to gather words of eight packets together; `None` if an Ethernet header must be
/// located for each.
fn gathered<const WORDS: usize>(places: &[(Start, usize); WORDS]) -> Option<[WordAt; WORDS]> {
    let mut at = [WordAt { base: WordBase::Packet, offset: 0 }; WORDS];
    for (at, (start, offset)) in at.iter_mut().zip(places) {
        let base = match start {
            Start::Packet => WordBase::Packet,
            Start::Network => WordBase::Network,
            Start::Transport => WordBase::Transport,
            Start::Ethernet => return None,
        };
        *at = WordAt { base, offset: *offset };
    }
    Some(at)
}

/// The words of all packets of a frame at the offsets a program looks at.
#[derive(Debug)]
pub(super) struct Words {
    headers: Headers,
    /// In increasing order.
    offsets: Vec<usize>,
    places: Vec<(Start, usize)>,
    /// Words of the packets there, as this machine reads them: for each sixteen packets a row per
    /// offset.
    rows: Vec<[u32; LANES]>,
    /// Whether all words of a packet were there.
    whole: Vec<bool>,
}

impl Words {
    pub(super) fn new(headers: Headers, mut offsets: Vec<usize>, frame_limit: usize) -> Words {
        offsets.sort_unstable();
        offsets.dedup();
        let room = frame_limit.next_multiple_of(LANES);
        Words {
            headers,
            places: offsets.iter().map(|offset| headers.place(*offset)).collect(),
            rows: vec![[0; LANES]; offsets.len() * room / LANES],
            whole: vec![false; room],
            offsets,
        }
    }

    /// The row of an offset.
    pub(super) fn row(&self, offset: usize) -> usize {
        self.offsets.binary_search(&offset).unwrap_or(0)
    }

    /// The rows of each sixteen packets.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[[u32; LANES]]> {
        self.rows.chunks_exact(self.offsets.len().max(1))
    }

    /// Returns for each packet whether all its words were there.
    pub(super) fn whole(&self) -> &[bool] {
        &self.whole
    }

    /// Fills in the words; returns whether all are there.
    #[inline]
    pub(super) fn gather(
        &mut self,
        arena: &Arena,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
    ) -> bool {
        let mut all = true;
        for first in (0..self.offsets.len()).step_by(WORDS_AT_ONCE) {
            all &= match self.offsets.len() - first {
                1 => self.gather_some::<1>(arena, frame, header_cache, first),
                2 => self.gather_some::<2>(arena, frame, header_cache, first),
                3 => self.gather_some::<3>(arena, frame, header_cache, first),
                4 => self.gather_some::<4>(arena, frame, header_cache, first),
                5 => self.gather_some::<5>(arena, frame, header_cache, first),
                _ => self.gather_some::<WORDS_AT_ONCE>(arena, frame, header_cache, first),
            };
        }
        all
    }

    /// Fills in those of one row only; returns whether all are there.
    #[inline]
    pub(super) fn gather_row(
        &mut self,
        arena: &Arena,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        row: usize,
    ) -> bool {
        self.gather_some::<1>(arena, frame, header_cache, row)
    }

    /// Likewise for `WORDS` offsets from `first` on.
    #[inline(never)]
    fn gather_some<const WORDS: usize>(
        &mut self,
        arena: &Arena,
        frame: &mut Frame,
        header_cache: &mut HeaderCache,
        first: usize,
    ) -> bool {
        let stride = self.offsets.len();
        let Some(places) = self.places[first..].first_chunk::<WORDS>() else { return false };
        let places = *places;
        let Words { rows, whole, headers, .. } = self;
        let (rows, whole) = (rows.as_mut_slice(), whole.as_mut_slice());
        if first == 0 {
            whole.fill(true);
        }
        let mut all = true;
        if let Some(at) = gathered(&places).filter(|_| frame.len() >= HALF) {
            // Eight at once, half of a row.
            let halves = rows.as_flattened_mut().as_chunks_mut::<HALF>().0;
            let column = |turn: usize, n: usize| 2 * (turn / 2 * stride + first + n) + turn % 2;
            arena.gather(frame, header_cache, at, (halves, column), |turn, there| {
                if let Some(whole) = whole.as_chunks_mut::<HALF>().0.get_mut(turn) {
                    whole.iter_mut().zip(there).for_each(|(whole, there)| *whole &= there);
                }
                all = false;
            });
            return all;
        }
        let (mut at, mut block) = (0, first);
        let mut take = |bytes: &[u8], starts: [usize; 4]| {
            let mut there = true;
            if let Some(rows) =
                rows.get_mut(block..).and_then(|rows| rows.first_chunk_mut::<WORDS>())
            {
                for (row, (start, rest)) in rows.iter_mut().zip(places) {
                    let from = starts[start as usize].wrapping_add(rest);
                    let word = bytes.get(from..).and_then(|rest| rest.first_chunk());
                    there &= word.is_some();
                    row[at % LANES] = word.map_or(0, |word| u32::from_ne_bytes(*word));
                }
            }
            if !there {
                all = false;
                if let Some(whole) = whole.get_mut(at) {
                    *whole = false;
                }
            }
            at += 1;
            if at % LANES == 0 {
                block += stride;
            }
        };
        match headers {
            Headers::Packet => arena.for_each(frame, |bytes| take(bytes, [0; 4])),
            Headers::Ip { marked, .. } => arena.for_each_described(frame, |slot, bytes, meta| {
                // Unknown headers are beyond any packet's end, and so are bytes in front of the
                // packet where they are stripped.
                let [network, transport] =
                    [meta.network, meta.transport].map(|header| header.index(slot.headroom()));
                // A packet that begins with its Ethernet header has it there; for others the walk
                // of single packets locates it.
                let there = !*marked & (UNTAGGED as usize..=bytes.len()).contains(&network);
                let ethernet = if there {
                    0usize.wrapping_sub(Headers::BEFORE_ETHERNET)
                } else {
                    usize::MAX / 2
                };
                take(bytes, [0, ethernet, network, transport]);
            }),
        }
        all
    }
}

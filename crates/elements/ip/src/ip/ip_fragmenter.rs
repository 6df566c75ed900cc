//! `IPFragmenter`: fragments packets that are too long.
//!
//! RFC 791 section 3.2.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, HandlerResult, NoBuffer, Rank,
};
use linerate_memory::{Arena, Frame, HeaderStart, Meta, Slot};

use super::FAMILY;
use linerate_element_support::{
    ip::{
        DESTINATION, DONT_FRAGMENT, FRAGMENT, FRAGMENT_OFFSET, IDENT, LEAST, MORE_FRAGMENTS,
        NoHeader, SOURCE, TOTAL_LENGTH, fill_checksum, fragments, get_four, get16, header_length,
        ip, ip_mut, options, put16,
    },
    log_once::LogOnce,
    mac_header,
    random::Random,
};

/// Bytes of the longest header.
const MOST: usize = 60;
/// Packets reported without `VERBOSE`.
const REPORTED: usize = 5;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// too long and not to be taken apart
    Undivided,
}

pub(super) const CLASS: Class = Class {
    name: "IPFragmenter",
    family: FAMILY,
    summary: "takes packets apart that are longer than a link allows",
    description: "Packets of at most `MTU` bytes pass. Longer ones that must not be taken apart, \
        or whose header leaves no room for data, leave unchanged by output 1, or are dropped \
        where there is none; the first five are reported, all with `VERBOSE`. With `HONOR_DF \
        false` all are taken apart, those that must not be under a random identification. \
        Options that are for all fragments are copied to all. What is in front of the IP header \
        stays with the first fragment only. The IP header of a packet that is too long must be \
        known (`CheckIPHeader`), else it is dropped.",
    ports: "1/1-2",
    processing: "h/h",
    annotates: true,
    multiplies: |plan, at, longest| fragments(plan, at, longest, MOST),
    drops: Reason::REASONS,
    cost: "Reads a line of annotations per packet. A packet that is taken apart is copied, but \
        for its first part.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_len, DATA \"1.0.0.1 100\") \
        -> CheckIPHeader -> IPFragmenter(68) -> Discard;",
    ..Class::for_element::<IpFragmenter>()
};

#[derive(Arguments)]
struct IpFragmenter {
    /// longest packet, from the IP header on; at least 8
    #[arg(kind = "bytes", with = mtu)]
    mtu: usize,
    /// whether packets may forbid it
    #[arg(optional, default = true)]
    honor_df: bool,
    /// reports every packet that cannot be sent
    #[arg(optional, default = false)]
    verbose: bool,
    /// room in front of fragments
    #[arg(keyword, kind = "bytes", shown = "as with other packets")]
    headroom: Option<u32>,
    /// packets that were too long and could not be taken apart
    #[handler(count)]
    drops: u64,
    /// fragments made
    #[handler(count)]
    fragments: u64,
    #[init(Random::new(make))]
    random: Random,
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
    /// Packets of a frame, while it is gone over.
    slots: Vec<Slot>,
}

fn mtu(make: &mut ElementBuilder<'_>, name: &str) -> usize {
    let mtu: u32 = make.need(name);
    if mtu < 8 {
        make.error("MTU must be at least 8");
    }
    mtu as usize
}

impl IpFragmenter {
    /// Returns true if a packet of any protocol is short enough.
    #[inline]
    fn fits(&self, arena: &Arena, slot: &Slot) -> bool {
        let from_header = |len: usize| len.checked_sub(arena.network(slot));
        slot.len() <= self.mtu || from_header(slot.len()).is_some_and(|len| len <= self.mtu)
    }

    /// Fragments a packet that is too long: its pieces leave by output 0.
    #[cold]
    fn fragment(&mut self, cx: &mut Context, mut slot: Slot) {
        let arena = cx.pool.arena();
        let (start, meta) = (arena.network(&slot), *arena.meta(&slot));
        let Some(packet) = ip(arena, &slot) else { return cx.drop_packet(slot, Reason::NoHeader) };
        let header = header_length(packet);
        let length = usize::from(get16(packet, TOTAL_LENGTH)).min(packet.len());
        if length <= self.mtu {
            // Only bytes behind the IP packet are too long.
            return cx.out.emit(0, slot);
        }
        let first = self.mtu.saturating_sub(header) & !7;
        let flags = get16(packet, FRAGMENT);
        let forbidden = flags & DONT_FRAGMENT != 0;
        if forbidden && self.honor_df || first < 8 {
            if self.verbose || self.said.among(REPORTED) {
                let [source, destination] =
                    [SOURCE, DESTINATION].map(|at| Ipv4Addr::from(get_four(packet, at)));
                cx.console().report(&format!(
                    "IPFragmenter({}) DF {source} {destination} len={}\n",
                    self.mtu,
                    slot.len()
                ));
            }
            self.drops += 1;
            return if cx.out.count() > 1 {
                cx.out.emit(1, slot);
            } else {
                cx.drop_packet(slot, Reason::Undivided);
            };
        }
        if !cx.unshare_one(&mut slot) {
            return cx.drop_packet(slot, Reason::NoBuffer);
        }
        let rank = cx.rank_of(&slot);
        let arena = cx.pool.arena();
        // The buffer is not shared, and it has a header: both have just been seen.
        let packet = arena.packet_mut(&mut slot).and_then(|bytes| ip_mut(bytes, start));
        let Some(packet) = packet else { return };
        if forbidden {
            // Its identification need not tell it from others.
            put16(packet, IDENT, self.random.below(1 << 16) as u16);
        }
        let flags = flags & !DONT_FRAGMENT;
        put16(packet, TOTAL_LENGTH, (header + first) as u16);
        put16(packet, FRAGMENT, flags | MORE_FRAGMENTS);
        fill_checksum(packet);
        let Some(copy) = cx.pool.share(&mut slot) else {
            return cx.drop_packet(slot, Reason::NoBuffer);
        };
        // Sent before the pieces that are copied from its other half.
        slot.truncate(start + header + first);
        cx.take_part(&slot, rank, 0);
        cx.out.emit(0, slot);
        self.fragments += 1;
        self.rest(cx, &copy, &meta, &Cut { start, header, first, length, flags, rank });
        cx.pool.give_one(copy);
    }

    /// Sends the pieces behind the first, which are copied from `whole`: its
    /// header is that of the first piece.
    fn rest(&mut self, cx: &mut Context, whole: &Slot, meta: &Meta, cut: &Cut) {
        let start = cut.start;
        let mut options = [0; 40];
        let options =
            copied_options(cx.pool.arena().packet(whole), start, cut.header, &mut options);
        let header = LEAST + options.len();
        let data = cut.length - cut.header;
        let most = self.mtu.saturating_sub(header) & !7;
        let (mut from, mut part) = (cut.first, 0);
        while from < data && most > 0 {
            let size = most.min(data - from);
            let Some(mut piece) = self.buffer(cx, header + size) else {
                cx.count_drops(Reason::NoBuffer, 1);
                from += size;
                continue;
            };
            let arena = cx.pool.arena();
            if let (Some(to), Some(packet)) =
                (arena.packet_mut(&mut piece), arena.packet(whole).get(start..))
            {
                to[..LEAST].copy_from_slice(&packet[..LEAST]);
                to[LEAST..header].copy_from_slice(options);
                to[header..].copy_from_slice(&packet[cut.header + from..][..size]);
                to[0] = 0x40 | (header / 4) as u8;
                let last = from + size == data && cut.flags & MORE_FRAGMENTS == 0;
                let flags = if last { cut.flags } else { cut.flags | MORE_FRAGMENTS };
                let offset = flags.wrapping_add((from / 8) as u16) & FRAGMENT_OFFSET;
                put16(to, FRAGMENT, flags & !FRAGMENT_OFFSET | offset);
                put16(to, TOTAL_LENGTH, (header + size) as u16);
                fill_checksum(to);
            }
            if let Some(mut piece) = arena.writable(&mut piece) {
                *piece.meta_mut() = *meta;
                // It begins with the IP header.
                mac_header::mark(piece.meta_mut(), HeaderStart::UNKNOWN);
                piece.mark_headers(0, header);
            }
            part += 1;
            cx.take_part(&piece, cut.rank, part);
            cx.out.emit(0, piece);
            self.fragments += 1;
            from += size;
        }
    }

    /// Returns a buffer with the headroom of the argument.
    fn buffer(&self, cx: &mut Context, length: usize) -> Option<Slot> {
        let Some(headroom) = self.headroom else { return cx.pool.take_one(length) };
        let headroom = headroom as usize;
        let mut slot = cx.pool.take_one(0)?;
        let arena = cx.pool.arena();
        if arena.reserve(&mut slot, headroom) && arena.resize(&mut slot, length) {
            return Some(slot);
        }
        cx.pool.give_one(slot);
        None
    }
}

/// Returns the options of a header that are copied to all fragments, in whole words.
fn copied_options<'a>(bytes: &[u8], start: usize, header: usize, to: &'a mut [u8; 40]) -> &'a [u8] {
    let behind = bytes.get(start + LEAST..start + header).unwrap_or_default();
    let mut length = 0;
    for (_, option) in options(behind).filter(|(_, option)| option[0] & 0x80 != 0) {
        to[length..length + option.len()].copy_from_slice(option);
        length += option.len();
    }
    &to[..length.next_multiple_of(4)]
}

/// Division of a packet into fragments.
struct Cut {
    /// Offset of its header.
    start: usize,
    /// Length of that.
    header: usize,
    /// Data in the first piece.
    first: usize,
    /// Length of the IP packet.
    length: usize,
    /// Its own fragment flags and offset.
    flags: u16,
    /// Its place in the frame.
    rank: Rank,
}

impl Element for IpFragmenter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        // Nearly always all fit, with any headers in front; without an early end, which would be a
        // branch for each.
        let longest = frame.slots().iter().fold(0, |longest, slot| slot.len().max(longest));
        let arena = cx.pool.arena();
        if longest <= self.mtu || frame.slots().iter().all(|slot| self.fits(arena, slot)) {
            return;
        }
        // In order: all leave one by one.
        let mut slots = std::mem::take(&mut self.slots);
        frame.drain_front(frame.len(), |slot| slots.push(slot));
        for slot in slots.drain(..) {
            if self.fits(cx.pool.arena(), &slot) {
                cx.out.emit(0, slot);
            } else {
                self.fragment(cx, slot);
            }
        }
        self.slots = slots;
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// A packet without a known header is judged by its own length, in frames of any other packets.
    #[test]
    fn a_packet_without_a_known_header_is_judged_by_its_own_length() {
        let packets: Vec<String> = [40, 100, 60, 68, 69, 20, 300, 68]
            .iter()
            .map(|length| format!("45{}", "00".repeat(length - 1)))
            .collect();
        for frame_limit in [1, 2, 3, 7, 256] {
            let text = packets.join(" ");
            let mut run =
                Run::new(&format!("Packets({text}) -> f :: IPFragmenter(68) -> out :: Collect"))
                    .frame_limit(frame_limit);
            run.run();
            assert_eq!(
                run.read("out.lengths").replace('\n', " "),
                "40 60 68 20 68",
                "{frame_limit}"
            );
        }
    }
}

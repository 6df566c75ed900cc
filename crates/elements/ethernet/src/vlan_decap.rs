//! `VLANDecap`, `StripEtherVLANHeader`: 802.1Q tags come off.

use linerate_graph::{Arg, Class, Context, Element, Make};
use linerate_memory::{Arena, Frame, Slot};
use linerate_packet::EtherType;

use super::{ADDRESSES, FAMILY, TAG, header, sift};
use linerate_kit::{ether::HEADER, start::start_moved};

/// Drop reasons.
const NO_BUFFER: usize = 0;
const UNTAGGED: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "VLANDecap",
    family: FAMILY,
    summary: "takes the VLAN tag off Ethernet packets",
    description: "Packets without tag stay as they are. The VLAN annotation says what it was, 0 for \
        packets without. Of several tags the outermost goes.",
    ports: "1/1",
    args: &[
        Arg::optional("ANNO", "bool", "true", "whether the VLAN annotation is set"),
        Arg::keyword("ETHERTYPE", "0 to 0xFFFF", "0x8100", "what says that there is a tag"),
    ],
    drops: &["no buffer"],
    cost: "The addresses of packets with a tag are moved, in their first line; where the \
        graph uses annotations, a line of them as well.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> VLANDecap -> Discard;",
    make: |make| Box::new(VlanDecap::new(make)),
    ..Class::EMPTY
};

pub(super) const STRIP: Class = Class {
    name: "StripEtherVLANHeader",
    summary: "takes the Ethernet header with its VLAN tag off packets",
    description: "18 bytes with a tag, 14 without. The VLAN annotation says what the tag was, \
        NATIVE_VLAN for packets without. Where that is below zero, packets without tag leave by \
        output 1, or are dropped when it is not used; so do those too short for their header.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[Arg::optional(
        "NATIVE_VLAN",
        "up to 0xFFF",
        "0",
        "the VLAN of packets without tag; below zero: there are none",
    )],
    drops: &["no buffer", "no tag"],
    cost: "Reads the packet's first line; where \
        the graph uses annotations, a line of them as well.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StripEtherVLANHeader -> Discard;",
    make: |make| Box::new(Strip::new(make)),
    ..CLASS
};

/// By its old name.
pub(super) const STRIP_OLD: Class = Class {
    name: "StripEtherVlanHeader",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StripEtherVlanHeader -> Discard;",
    ..STRIP
};

/// The tag of a packet that has one of that Ethertype.
#[inline]
fn tag_of(bytes: &[u8], ethertype: u16) -> Option<u16> {
    let head = bytes.first_chunk::<{ HEADER + TAG }>()?;
    (head[ADDRESSES..HEADER] == ethertype.to_be_bytes())
        .then(|| u16::from_be_bytes([head[14], head[15]]))
}

struct VlanDecap {
    anno: bool,
    ethertype: u16,
}

impl VlanDecap {
    fn new(make: &mut Make<'_>) -> VlanDecap {
        let anno = make.or("ANNO", true);
        VlanDecap { anno, ethertype: make.or("ETHERTYPE", EtherType::VLAN.0) }
    }
}

impl Element for VlanDecap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let annotated = cx.world().annotated;
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            let tag = untag(arena, slot, self.ethertype);
            if annotated && let Some(meta) = arena.meta_mut(slot) {
                header::closed(meta, if tag.is_some() { TAG } else { 0 }, HEADER);
                if self.anno {
                    meta.vlan = tag.unwrap_or(0);
                }
            }
        }
    }
}

/// Takes the tag off a packet that has one and is not shared.
#[inline]
pub(super) fn untag(arena: &Arena, slot: &mut Slot, ethertype: u16) -> Option<u16> {
    let bytes = arena.packet_mut(slot)?;
    let tci = tag_of(bytes, ethertype)?;
    if let Some(head) = bytes.first_chunk_mut::<{ ADDRESSES + TAG }>() {
        head.copy_within(..ADDRESSES, TAG);
    }
    slot.pull(TAG);
    Some(tci)
}

struct Strip {
    native: Option<u16>,
}

impl Strip {
    fn new(make: &mut Make<'_>) -> Strip {
        let native: i32 = make.or("NATIVE_VLAN", 0);
        if native > 0xfff {
            make.error("bad NATIVE_VLAN");
        }
        Strip { native: u16::try_from(native).ok() }
    }
}

impl Element for Strip {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let annotated = cx.world().annotated;
        if annotated {
            cx.unshare(frame, NO_BUFFER);
        }
        let native = self.native;
        sift(cx, frame, UNTAGGED, |arena, slot| {
            let found = tag_of(arena.packet(slot), EtherType::VLAN.0);
            let Some(tci) = found.or(native) else { return false };
            let length = if found.is_some() { HEADER + TAG } else { HEADER };
            if !slot.pull(length) {
                return false;
            }
            if annotated && let Some(meta) = arena.meta_mut(slot) {
                start_moved(meta, length as i32);
                meta.vlan = tci;
            }
            true
        });
    }

    fn pull(&mut self, cx: &mut Context, _: usize, count: usize, frame: &mut Frame) {
        if cx.pull(0, count, frame) > 0 {
            self.push(cx, 0, frame);
            if frame.is_empty() {
                // There may be more where those came from.
                cx.notify();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    #[test]
    fn packets_without_tag_are_told_apart() {
        let packets = "01010101010102020202020281000005 0800aabb 01010101010102020202020208001122 \
            0101010101010202020202028100 0101";
        let packets = packets.replacen(" 0800aabb", "0800aabb", 1);
        for (native, kept, others) in [("", "aabb\n1122\n", 1), ("-3", "aabb", 3)] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets({packets}) -> s :: StripEtherVLANHeader({native}) -> c :: Collect;
                     s [1] -> d :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), kept, "{native}");
                assert_eq!(run.read("d.lengths").lines().count(), others, "{native}");
            }
        }
    }

    #[test]
    fn the_annotation_is_what_the_tag_was() {
        for (config, expected) in [("", "600500000000"), ("ANNO false", "003700000000")] {
            let mut run = Run::new(&format!(
                "Packets(010101010101020202020202810060050800aabb) -> SetVLANAnno(0x37) -> VLANDecap({config}) -> Print(CONTENTS NONE, PRINTANNO true)
                    -> c :: Collect"
            ));
            run.run();
            let first = run.output().lines().next().unwrap().to_owned();
            assert_eq!(first[first.len() - 56..][..12], *expected, "{first}");
        }
    }
}

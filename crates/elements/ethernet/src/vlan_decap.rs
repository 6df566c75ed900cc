//! `VLANDecap`, `StripEtherVLANHeader`: remove 802.1Q tags.

use linerate_graph::{
    Arguments, Class, Context, DropReason, ElementBuilder, Exit, NoBuffer, Reads, Right, Step,
    Verdict,
};
use linerate_memory::{Frame, Packet, PacketMut};
use linerate_packet::EtherType;

use super::{ADDRESSES, FAMILY, TAG};
use linerate_element_support::{ether::HEADER, mac_header::Starts};

/// Drop reason of `StripEtherVLANHeader`.
#[derive(Clone, Copy, DropReason)]
enum StripReason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no tag
    Untagged,
}

pub(super) const CLASS: Class = Class {
    name: "VLANDecap",
    family: FAMILY,
    summary: "takes the VLAN tag off Ethernet packets",
    description: "Packets without tag stay as they are. The VLAN annotation says what it was, 0 for \
        packets without. Of several tags the outermost goes.",
    ports: "1/1",
    cost: "The addresses of packets with a tag are moved, in their first line; where the \
        graph uses annotations, a line of them as well.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> VLANDecap -> Discard;",
    ..VlanDecap::CLASS
};

pub(super) const STRIP: Class = Class {
    name: "StripEtherVLANHeader",
    reconfigured: Some(Right::Write),
    summary: "takes the Ethernet header with its VLAN tag off packets",
    description: "18 bytes with a tag, 14 without. The VLAN annotation says what the tag was, \
        NATIVE_VLAN for packets without. Where that is below zero, packets without tag leave by \
        output 1, or are dropped when it is not used; so do those too short for their header.",
    ports: "1/1-2",
    processing: "a/ah",
    args: Strip::ARGS,
    drops: StripReason::REASONS,
    cost: "Reads the packet's first line; where \
        the graph uses annotations, a line of them as well.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> StripEtherVLANHeader -> Discard;",
    make: Strip::CLASS.make,
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

#[derive(Arguments)]
struct VlanDecap {
    /// whether the VLAN annotation is set
    #[arg(optional, default = true)]
    anno: bool,
    /// what says that there is a tag
    #[arg(keyword, kind = "0 to 0xFFFF", default = "0x8100")]
    ethertype: u16,
    #[init(make.world.annotated)]
    annotated: bool,
}

impl Step for VlanDecap {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict {
        let tag = untag(packet, self.ethertype);
        if self.annotated {
            packet.mark_network(HEADER);
            if self.anno {
                packet.meta_mut().vlan = tag.unwrap_or(0);
            }
        }
        Ok(())
    }
}

/// Takes the tag off a packet that has one.
#[inline]
pub(super) fn untag(packet: &mut PacketMut<'_>, ethertype: u16) -> Option<u16> {
    let bytes = packet.bytes_mut();
    let tci = tag_of(bytes, ethertype)?;
    if let Some(head) = bytes.first_chunk_mut::<{ ADDRESSES + TAG }>() {
        head.copy_within(..ADDRESSES, TAG);
    }
    packet.pull(TAG);
    Some(tci)
}

#[derive(Arguments)]
#[arguments(check = Strip::check)]
struct Strip {
    /// the VLAN of packets without tag; below zero: there are none
    #[arg(optional, kind = "up to 0xFFF", default = 0)]
    native_vlan: i32,
    native: Option<u16>,
    #[init(make.world.annotated)]
    annotated: bool,
    #[init(Starts::of(make.plan()))]
    starts: Starts,
}

impl Strip {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        if self.native_vlan > 0xfff {
            make.error("bad NATIVE_VLAN");
        }
        self.native = u16::try_from(self.native_vlan).ok();
    }
}

impl Step<Reads, StripReason> for Strip {
    #[inline]
    fn begin(&mut self, cx: &mut Context, frame: &mut Frame) -> bool {
        if self.annotated {
            cx.unshare::<StripReason>(frame);
        }
        self.starts.note(cx, frame);
        true
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet<'_>) -> Verdict<StripReason> {
        let found = tag_of(packet.bytes(), EtherType::VLAN.0);
        let tci = found.or(self.native).ok_or(Exit::ErrorOutput(StripReason::Untagged))?;
        let length = if found.is_some() { HEADER + TAG } else { HEADER };
        if !packet.pull(length) {
            return Err(Exit::ErrorOutput(StripReason::Untagged));
        }
        if self.annotated
            && let Some(packet) = packet.writable()
        {
            packet.meta_mut().vlan = tci;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

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
    fn the_annotation_is_the_removed_tag() {
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

//! `HostEtherFilter`: destination filter of a network card with an address.

use linerate_graph::{Arguments, Class, DropReason, Exit, NoBuffer, Right, Step, Verdict, Writes};
use linerate_memory::{Meta, PacketMut};

use super::{FAMILY, ether_encap::address};
use linerate_element_support::{annotations::packet_type, ether::Mac};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// not for this host
    Filtered,
    #[from(NoBuffer)]
    NoBuffer,
}

pub(super) const CLASS: Class = Class {
    name: "HostEtherFilter",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "drops Ethernet packets to other hosts",
    description: "Does what the card of a host with the address `ETHER` does, and sets the packet \
        type: to this host, broadcast, multicast, or to another host. What is filtered leaves by \
        output 1 where it is used. Packets too short for an Ethernet header are filtered.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "Reads its first line, and writes a line of annotations \
        where the type was another.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> HostEtherFilter(1:1:1:1:1:1) -> Discard;",
    ..HostEtherFilter::CLASS
};

#[derive(Arguments)]
struct HostEtherFilter {
    /// the host's address
    #[arg]
    #[handler(value)]
    ether: Mac,
    /// whether packets it sent itself are dropped
    #[arg(optional, default = false)]
    drop_own: bool,
    /// whether packets to others are dropped
    #[arg(optional, default = true)]
    drop_other: bool,
    /// where the Ethernet header begins
    #[arg(keyword, kind = "bytes", default = 0)]
    offset: u32,
}

impl HostEtherFilter {
    /// The type of a packet; `None` when it is the host's own and those are
    /// dropped.
    #[inline]
    fn packet_type(&self, bytes: &[u8]) -> Option<u8> {
        let Mac(mac) = self.ether;
        let header = bytes.get(self.offset as usize..).and_then(<[u8]>::first_chunk::<12>)?;
        if self.drop_own && header[6..] == mac.0 {
            return None;
        }
        let destination = address(header, 0);
        // Its own address may be one of a group.
        let own = destination == mac;
        Some(if own { Meta::TO_HOST } else { packet_type(destination, Some(mac)) })
    }
}

impl Step<Writes, Reason> for HostEtherFilter {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let kind = self.packet_type(packet.bytes()).ok_or(Exit::ErrorOutput(Reason::Filtered))?;
        let meta = packet.meta_mut();
        if meta.packet_type != kind {
            meta.packet_type = kind;
        }
        let passes = !self.drop_other || kind != Meta::OTHER_HOST;
        if passes { Ok(()) } else { Err(Exit::ErrorOutput(Reason::Filtered)) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn own_and_others_packets_are_filtered_as_asked() {
        let packets = "020202020202090909090909 040404040404020202020202 \
            ffffffffffff090909090909 010101010101020202020202 0202020202";
        for (config, kept) in [
            ("2:2:2:2:2:2", "0 2 3"),
            ("2:2:2:2:2:2, true", "0 2"),
            ("2:2:2:2:2:2, false, false", "0 1 2 3"),
            ("2:2:2:2:2:2, DROP_OWN true, DROP_OTHER false", "0 2"),
            ("2:2:2:2:2:2, OFFSET 6", ""),
        ] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets({packets}) -> h :: HostEtherFilter({config}) -> c :: Collect;
                     h [1] -> d :: Collect;"
                ))
                .frame_limit(frame_limit);
                run.run();
                let all: Vec<&str> = packets.split(' ').filter(|word| !word.is_empty()).collect();
                let kept: Vec<&str> =
                    kept.split_whitespace().map(|at| all[at.parse::<usize>().unwrap()]).collect();
                assert_eq!(run.read("c.packets"), kept.join("\n"), "{config}");
                let count = run.read("d.packets").lines().count();
                assert_eq!(count, all.len() - kept.len(), "{config}");
            }
        }
    }
}

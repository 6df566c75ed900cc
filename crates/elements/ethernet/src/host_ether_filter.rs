//! `HostEtherFilter`: what a network card with an address would take.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::{Frame, Meta};
use linerate_packet::MacAddr;

use super::{FAMILY, sift, written_mac};
use linerate_kit::{annotations::packet_type, ether::mac_text};

/// Drop reasons.
const FILTERED: usize = 0;
const NO_BUFFER: usize = 1;

pub(super) const CLASS: Class = Class {
    name: "HostEtherFilter",
    family: FAMILY,
    summary: "drops Ethernet packets to other hosts",
    description: "Does what the card of a host with the address `ETHER` does, and sets the packet \
        type: to this host, broadcast, multicast, or to another host. What is filtered leaves by \
        output 1 where it is used. Packets too short for an Ethernet header are filtered.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[
        Arg::required("ETHER", "Ethernet address", "the host's address"),
        Arg::optional("DROP_OWN", "bool", "false", "whether packets it sent itself are dropped"),
        Arg::optional("DROP_OTHER", "bool", "true", "whether packets to others are dropped"),
        Arg::keyword("OFFSET", "bytes", "0", "where the Ethernet header begins"),
    ],
    handlers: &[Handler::value("ether", "the host's address")],
    annotates: true,
    drops: &["not for this host", "no buffer"],
    cost: "Reads its first line, and writes a line of annotations \
        where the type was another.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> HostEtherFilter(1:1:1:1:1:1) -> Discard;",
    make: |make| Box::new(HostEtherFilter::new(make)),
    ..Class::EMPTY
};

struct HostEtherFilter {
    mac: MacAddr,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

impl HostEtherFilter {
    fn new(make: &mut Make<'_>) -> HostEtherFilter {
        HostEtherFilter {
            mac: make.need("ETHER"),
            drop_own: make.or("DROP_OWN", false),
            drop_other: make.or("DROP_OTHER", true),
            offset: make.or("OFFSET", 0u32) as usize,
        }
    }

    /// The type of a packet; `None` when it is the host's own and those are
    /// dropped.
    #[inline]
    fn packet_type(&self, bytes: &[u8]) -> Option<u8> {
        let header = bytes.get(self.offset..).and_then(<[u8]>::first_chunk::<12>)?;
        if self.drop_own && header[6..] == self.mac.0 {
            return None;
        }
        let destination = super::ether_encap::address(header, 0);
        // Its own address may be one of a group.
        let own = destination == self.mac;
        Some(if own { Meta::TO_HOST } else { packet_type(destination, Some(self.mac)) })
    }
}

impl Element for HostEtherFilter {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        sift(cx, frame, FILTERED, |arena, slot| {
            let Some(kind) = self.packet_type(arena.packet(slot)) else { return false };
            if let Some(meta) = arena.meta_mut(slot)
                && meta.packet_type != kind
            {
                meta.packet_type = kind;
            }
            !(self.drop_other && kind == Meta::OTHER_HOST)
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

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(mac_text(self.mac))
    }

    fn write(&mut self, cx: &mut Context, _: &str, value: &str) -> Result<String, HandlerError> {
        self.mac = written_mac(cx, value)?;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

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

//! `EnsureEther`: an Ethernet header for packets that have none.

use linerate_graph::{Arg, Class, Context, DropReason, Element, ElementBuilder};
use linerate_memory::Frame;
use linerate_packet::MacAddr;

use super::{FAMILY, header};
use linerate_element_support::{
    ether::{self, HEADER},
    mac_header::has_taken_off,
};

pub(super) const CLASS: Class = Class {
    name: "EnsureEther",
    family: FAMILY,
    summary: "gives IP packets an Ethernet header if they have none",
    description: "Goes by where the network header is said to be. At 14 bytes, behind an \
        Ethertype of IPv4 or IPv6, the packet has a header and stays as it is. At the start, after \
        an element has taken such a header off, that one is put back. Otherwise what is before the \
        network header is taken off and the header given is put there. Packets without network \
        header stay as they are.",
    ports: "1/1",
    args: &[
        Arg::optional("ETHERTYPE", "0 to 0xFFFF", "0x0800", "the Ethertype"),
        Arg::optional("SRC", "Ethernet address", "1:1:1:1:1:1", "source address"),
        Arg::optional("DST", "Ethernet address", "2:2:2:2:2:2", "destination address"),
    ],
    annotates: true,
    drops: header::Reason::REASONS,
    cost: "Reads a line of annotations and the packet's first line.",
    example: "FromIPSummaryDump(/dev/null, STOP true) -> EnsureEther -> Discard;",
    make: |make| Box::new(EnsureEther::new(make)),
    ..Class::here()
};

struct EnsureEther {
    header: [u8; HEADER],
}

impl EnsureEther {
    fn new(make: &mut ElementBuilder<'_>) -> EnsureEther {
        let ethertype: u32 = make.or("ETHERTYPE", 0x0800);
        let source = make.or("SRC", MacAddr([1; 6]));
        let destination = make.or("DST", MacAddr([2; 6]));
        let ethertype = u16::try_from(ethertype).unwrap_or_else(|_| {
            make.error("argument 1 (Ethernet encapsulation type) must be <= 0xFFFF");
            0
        });
        EnsureEther { header: ether::bytes(destination, source, ethertype) }
    }

    /// `false` when there is no room.
    fn ensure(&self, cx: &mut Context, slot: &mut linerate_memory::Slot) -> bool {
        let arena = cx.pool.arena();
        let network = arena.meta(slot).network.offset(slot.headroom());
        let Some(network) = network.and_then(|network| usize::try_from(network).ok()) else {
            return true;
        };
        if network == HEADER && is_ip(arena.packet(slot)) {
            return true;
        }
        if network > slot.len() {
            return true;
        }
        // Its metadata is changed, and soon it is written to.
        if !cx.unshare_one(slot) {
            return false;
        }
        let arena = cx.pool.arena();
        if network == 0 && has_taken_off(slot, arena.meta(slot), HEADER) && slot.push(HEADER) {
            let stripped = is_ip(arena.packet(slot));
            slot.pull(HEADER);
            if stripped {
                return header::open_one(cx, slot, HEADER, HEADER);
            }
        }
        slot.pull(network);
        if !header::open_one(cx, slot, HEADER, HEADER) {
            return false;
        }
        if let Some(to) = cx.pool.arena().packet_mut(slot).and_then(<[u8]>::first_chunk_mut) {
            *to = self.header;
        }
        true
    }
}

/// Returns true if an Ethernet header says that an IP header is behind it.
fn is_ip(bytes: &[u8]) -> bool {
    matches!(bytes.get(12..HEADER), Some([0x08, 0x00] | [0x86, 0xdd]))
}

impl Element for EnsureEther {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let mut failed = Vec::new();
        frame.retain(|slot| self.ensure(cx, slot), |slot| failed.push(slot));
        failed.into_iter().for_each(|slot| cx.drop_packet(slot, header::Reason::TooLong));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn ip_packets_have_a_header_afterwards() {
        let ethernet = "0a0a0a0a0a0a0b0b0b0b0b0b0800";
        let given = "0202020202020101010101010800";
        let ip = "4500001400000000401177d70100000102000002";
        for (front, before, after) in [
            ("Null", "4500", "4500".to_owned()),
            ("MarkNetwork(0)", "4500", format!("{given}4500")),
            ("MarkNetwork(2)", "ffff4500", format!("{given}4500")),
            ("MarkNetwork(14)", &format!("{ethernet}45"), format!("{ethernet}45")),
            ("MarkNetwork(14) -> Strip(14)", &format!("{ethernet}45"), format!("{ethernet}45")),
            ("MarkNetwork(14) -> Strip(15)", &format!("{ethernet}4567"), "67".to_owned()),
            ("MarkNetwork(14) -> Resize(-14)", &format!("{ethernet}45"), format!("{ethernet}45")),
            (
                "MarkNetwork(14) -> StripToNetworkHeader",
                &format!("{ethernet}45"),
                format!("{ethernet}45"),
            ),
            (
                "StripEtherVLANHeader -> MarkNetwork(0)",
                &format!("{ethernet}4500"),
                format!("{ethernet}4500"),
            ),
            ("IPInputCombo(1)", &format!("{ethernet}{ip}"), format!("{ethernet}{ip}")),
            // Of what has been taken off, the last.
            (
                "Strip(2) -> EtherEncap(0x0800, 9:9:9:9:9:9, 8:8:8:8:8:8) -> Strip(14)
                    -> MarkNetwork(0)",
                "ffff45",
                "080808080808090909090909080045".to_owned(),
            ),
            // What an element has said about the start stays.
            (
                "MarkMACHeader(2) -> Strip(2) -> EtherRewrite(0a:0a:0a:0a:0a:0a, 0b:0b:0b:0b:0b:0b)
                    -> MarkNetwork(14)",
                &format!("ffff{given}45"),
                "0b0b0b0b0b0b0a0a0a0a0a0a080045".to_owned(),
            ),
            ("MarkNetwork(50)", "4500", "4500".to_owned()),
        ] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets({before}) -> {front} -> EnsureEther -> c :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), after, "{front}");
            }
        }
    }

    #[test]
    fn copies_get_their_headers_back() {
        let mut run = Run::new(
            "Packets(0a0a0a0a0a0a0b0b0b0b0b0b080045) -> MarkNetwork(14) -> t :: Tee -> Strip(14)
                -> EnsureEther -> c :: Collect;
             t [1] -> Strip(14) -> EnsureEther -> d :: Collect; t [2] -> EnsureEther -> e :: Collect",
        );
        run.run();
        for copy in ["c", "d", "e"] {
            let packets = run.read(&format!("{copy}.packets"));
            assert_eq!(packets, "0a0a0a0a0a0a0b0b0b0b0b0b080045", "{copy}");
        }
    }

    /// Packets are made in buffers of earlier ones, and pieces in others than the whole.
    #[test]
    fn a_header_of_another_packet_is_not_put_back() {
        let given = "0202020202020101010101010800";
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(LIMIT 600) -> EtherEncap(0x0800, 9:9:9:9:9:9, 8:8:8:8:8:8) -> Discard;
                 s :: InfiniteSource(DATA E, LIMIT 3, ACTIVE false) -> MarkNetwork(0) -> EnsureEther
                    -> c :: Collect;
                 f :: InfiniteSource(LENGTH 100, LIMIT 1, ACTIVE false)
                    -> UDPIPEncap(1.0.0.1, 5, 1.0.0.2, 7)
                    -> EtherEncap(0x0800, 9:9:9:9:9:9, 8:8:8:8:8:8) -> Strip(14) -> MarkIPHeader
                    -> IPFragmenter(60) -> EnsureEther -> h :: Truncate(14) -> d :: Collect;
                 DriverManager(wait 1ms, write s.active true, wait 1ms, write f.active true, wait 1ms,
                    stop)",
            )
            .frame_limit(frame_limit);
            run.run();
            assert_eq!(run.read("c.packets"), vec![format!("{given}45"); 3].join("\n"));
            let packets = run.read("d.packets");
            let mut headers = packets.lines();
            // The first piece is the packet itself.
            headers.next();
            assert!(headers.clone().count() >= 2, "{packets}");
            headers.for_each(|header| assert_eq!(header, given));
        }
    }
}

//! `EtherRewrite`: sets the Ethernet addresses.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerResult, NoBuffer,
    Right, Writes,
};
use linerate_memory::Frame;
use linerate_packet::MacAddr;

use super::{ADDRESSES, FAMILY, ether_encap::address, written};
use linerate_element_support::{
    ether::{bytes, mac_text},
    handler_values::record_argument,
    mac_header::{are_marked, marked},
};

pub(super) const CLASS: Class = Class {
    name: "EtherRewrite",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets the Ethernet addresses of packets",
    description: "The Ethertype stays. The header is where MarkMACHeader says, otherwise at the \
        start. Packets too short for it stay as they are.",
    ports: "1/1",
    args: &[
        Arg::required("SRC", "Ethernet address", "source address"),
        Arg::required("DST", "Ethernet address", "destination address"),
    ],
    handlers: &[
        Handler::value("src", "the source address"),
        Handler::value("dst", "the destination address"),
    ],
    drops: NoBuffer::REASONS,
    cost: "Touches the packet's first line. In graphs \
        with a MarkMACHeader a line of annotations as well.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) \
        -> Discard;",
    make: |make| Box::new(EtherRewrite::new(make)),
    ..Class::here()
};

struct EtherRewrite {
    addresses: [u8; ADDRESSES],
    /// Whether headers may be elsewhere than at the start.
    marked: bool,
}

impl EtherRewrite {
    fn new(make: &mut ElementBuilder<'_>) -> EtherRewrite {
        let (source, destination) = (make.need("SRC"), make.need("DST"));
        let header = bytes(destination, source, 0);
        let addresses = header.first_chunk().copied().unwrap_or_default();
        EtherRewrite { addresses, marked: are_marked(make.plan()) }
    }
}

impl Element for EtherRewrite {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        if !self.marked {
            cx.retain::<Writes, NoBuffer>(frame, |packet| {
                if let Some(to) = packet.bytes_mut().first_chunk_mut() {
                    *to = self.addresses;
                }
                Ok(())
            });
            return;
        }
        cx.unshare::<NoBuffer>(frame);
        let arena = cx.pool.arena();
        for slot in frame.slots_mut() {
            let offset = marked(slot, arena.meta(slot)).unwrap_or(0);
            // A header before the start has been stripped, but is there yet.
            let before = usize::try_from(-offset).unwrap_or(0);
            let behind = usize::try_from(offset).unwrap_or(0);
            if !slot.push(before) {
                continue;
            }
            let to = arena.packet_mut(slot).and_then(|bytes| bytes.get_mut(behind..));
            if let Some(to) = to.and_then(|bytes| bytes.first_chunk_mut()) {
                *to = self.addresses;
            }
            slot.pull(before);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        Ok(mac_text(address(&self.addresses, if handler == "src" { 6 } else { 0 })))
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let (place, keyword, at) = if handler == "src" { (0, "SRC", 6) } else { (1, "DST", 0) };
        let mac: MacAddr = written(cx, keyword, value)?;
        self.addresses[at..at + 6].copy_from_slice(&mac.0);
        record_argument(cx, place, keyword, value);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn addresses_are_set_where_the_header_is() {
        for (mark, expected) in [
            ("Null", "0202020202020101010101010c0d0e0f10"),
            ("MarkMACHeader(2)", "00010202020202020101010101010e0f10"),
            ("MarkMACHeader(2) -> Strip(4)", "020202020101010101010e0f10"),
            ("MarkMACHeader(9)", "000102030405060708090a0b0c0d0e0f10"),
        ] {
            for frame_limit in [1, 256] {
                let mut run = Run::new(&format!(
                    "Packets(000102030405060708090a0b0c0d0e0f10) -> {mark}
                        -> r :: EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> c :: Collect"
                ))
                .frame_limit(frame_limit);
                run.run();
                assert_eq!(run.read("c.packets"), expected, "{mark}");
            }
        }
    }
}

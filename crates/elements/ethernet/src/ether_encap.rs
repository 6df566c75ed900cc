//! `EtherEncap`: a fixed Ethernet header in front of packets.

use linerate_graph::{
    Arg, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerResult, Right,
};
use linerate_memory::Frame;
use linerate_packet::MacAddr;

use super::{FAMILY, header, written};
use linerate_element_support::{
    ether::{HEADER, bytes, mac_text},
    handler_values::record_argument,
};

pub(super) const CLASS: Class = Class {
    name: "EtherEncap",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "puts an Ethernet header in front of packets",
    description: "The same for all. The network header is then behind it.",
    ports: "1/1",
    args: &[
        Arg::required("ETHERTYPE", "0 to 0xFFFF", "what is behind the header: 0x0800 for IPv4"),
        Arg::required("SRC", "Ethernet address", "source address"),
        Arg::required("DST", "Ethernet address", "destination address"),
    ],
    handlers: &[
        Handler::value("src", "the source address"),
        Handler::value("dst", "the destination address"),
        Handler::value("ethertype", "the Ethertype"),
        Handler::value("etht", "the Ethertype, by its old name").flags("D"),
    ],
    drops: header::Reason::REASONS,
    cost: "14 bytes are written in front of it. A packet with too \
        little room there is moved.",
    example: "InfiniteSource(LIMIT 10, STOP true) \
        -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;",
    make: |make| Box::new(EtherEncap::new(make)),
    ..Class::here()
};

struct EtherEncap {
    header: [u8; HEADER],
}

impl EtherEncap {
    fn new(make: &mut ElementBuilder<'_>) -> EtherEncap {
        let ethertype = make.need("ETHERTYPE");
        let (source, destination) = (make.need("SRC"), make.need("DST"));
        EtherEncap { header: bytes(destination, source, ethertype) }
    }
}

/// The address at `at` of a header that is long enough.
pub(super) fn address(header: &[u8], at: usize) -> MacAddr {
    MacAddr(header[at..].first_chunk().copied().unwrap_or_default())
}

impl Element for EtherEncap {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        header::put(cx, frame, &self.header);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "dst" => Ok(mac_text(address(&self.header, 0))),
            "src" => Ok(mac_text(address(&self.header, 6))),
            _ => Ok(u16::from_be_bytes([self.header[12], self.header[13]]).to_string()),
        }
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        let (place, keyword) = match handler {
            "src" => (1, "SRC"),
            "dst" => (2, "DST"),
            _ => (0, "ETHERTYPE"),
        };
        match place {
            0 => {
                let ethertype: u16 = written(cx, keyword, value)?;
                self.header[12..].copy_from_slice(&ethertype.to_be_bytes());
            }
            _ => {
                let mac: MacAddr = written(cx, keyword, value)?;
                let at = if place == 1 { 6 } else { 0 };
                self.header[at..at + 6].copy_from_slice(&mac.0);
            }
        }
        record_argument(cx, place, keyword, value);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn the_header_is_in_front() {
        for frame_limit in [1, 256] {
            let mut run = Run::new(
                "InfiniteSource(DATA abc, LIMIT 3, STOP true)
                    -> e :: EtherEncap(0x86dd, 1:2:3:4:5:6, 7:8:9:a:b:c) -> c :: Collect",
            )
            .frame_limit(frame_limit);
            run.write("e.dst", "ff:ff:ff:ff:ff:ff").unwrap();
            assert_eq!(run.read("e.config"), "0x86dd, 1:2:3:4:5:6, ff:ff:ff:ff:ff:ff");
            run.run();
            assert_eq!(run.read("c.packets"), ["ffffffffffff01020304050686dd616263"; 3].join("\n"));
        }
    }

    #[test]
    fn packets_without_room_are_moved_and_those_too_long_dropped() {
        let mut run = Run::new(
            "InfiniteSource(DATA abc, LIMIT 2, STOP true) -> Unstrip(125)
                -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> t :: Tee -> c :: Collect;
             t [1] -> Pad(1900) -> f :: EtherEncap(1, 1:1:1:1:1:1, 2:2:2:2:2:2)
                -> EtherEncap(1, 1:1:1:1:1:1, 2:2:2:2:2:2) -> d :: Collect;",
        );
        run.run();
        assert!(run.read("c.packets").ends_with("616263"));
        assert_eq!(run.read("c.lengths"), "142\n142");
        assert_eq!(run.read("d.lengths"), "1928\n1928");
    }

    #[test]
    fn copies_get_headers_of_their_own() {
        let mut run = Run::new(
            "InfiniteSource(DATA abc, LIMIT 1, STOP true) -> t :: Tee
                -> EtherEncap(1, 1:1:1:1:1:1, 2:2:2:2:2:2) -> a :: Collect;
             t [1] -> EtherEncap(2, 3:3:3:3:3:3, 4:4:4:4:4:4) -> b :: Collect;",
        );
        run.run();
        assert_eq!(run.read("a.packets"), "0202020202020101010101010001616263");
        assert_eq!(run.read("b.packets"), "0404040404040303030303030002616263");
    }
}

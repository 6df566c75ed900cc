//! `ARPFaker`: sends an ARP reply every ten seconds.

use std::net::Ipv4Addr;

use linerate_graph::{Arguments, Class, Context, DropReason, Element, NoBuffer};
use linerate_memory::{Frame, Meta};
use linerate_packet::{MacAddr, arp::Operation};

use super::Message;
use crate::FAMILY;

/// Seconds before the first reply, and between them.
const FIRST: u64 = 1;
const INTERVAL: u64 = 10;

pub(crate) const CLASS: Class = Class {
    name: "ARPFaker",
    family: FAMILY,
    summary: "sends an ARP reply every ten seconds",
    description: "To `DSTIP` at `DSTETH`, that `SRCIP` is at `SRCETH`; the first after a second. \
        To answer who asks, use ARPResponder.",
    ports: "0/1",
    processing: "h/h",
    drops: NoBuffer::REASONS,
    cost: "A timer.",
    example: "ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> Discard; \
        DriverManager(wait 0.1s, stop);",
    ..Class::for_element::<ArpFaker>()
};

#[derive(Arguments)]
struct ArpFaker {
    /// to whom
    #[arg(kind = "IPv4 address", stand_in = Ipv4Addr::UNSPECIFIED)]
    dstip: Ipv4Addr,
    /// where that is
    #[arg]
    dsteth: MacAddr,
    /// what is spoken of
    #[arg(kind = "IPv4 address", stand_in = Ipv4Addr::UNSPECIFIED)]
    srcip: Ipv4Addr,
    /// where that is said to be
    #[arg]
    srceth: MacAddr,
}

impl Element for ArpFaker {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(0, cx.steady() + FIRST * 1_000_000_000);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        let (sender, target) = ((self.srceth, self.srcip), (self.dsteth, self.dstip));
        let message = Message { operation: Operation::REPLY, sender, target };
        match message.packet(cx, self.dsteth, &Meta::EMPTY) {
            Some(slot) => cx.out.emit(0, slot),
            None => cx.count_drops(NoBuffer, 1),
        }
        cx.set_timer(0, cx.steady() + INTERVAL * 1_000_000_000);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    #[test]
    fn replies_come_every_ten_seconds() {
        let mut run = Run::new(
            "ARPFaker(1.0.0.1, 1:1:1:1:1:1, 2.0.0.2, 2:2:2:2:2:2) -> c :: Collect;
             DriverManager(wait 22s, stop)",
        );
        run.run();
        let reply = "010101010101020202020202080600010800060400020202020202020200\
            000201010101010101000001";
        assert_eq!(run.read("c.packets"), [reply; 3].join("\n"));
        assert_eq!(run.read("c.times"), "1000000000\n11000000000\n21000000000");
    }
}

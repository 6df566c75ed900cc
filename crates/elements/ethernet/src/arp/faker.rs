//! `ARPFaker`: says every ten seconds where an address is.

use std::net::Ipv4Addr;

use linerate_graph::{Arg, Class, Context, Element, Make};
use linerate_memory::{Frame, Meta};
use linerate_packet::{MacAddr, arp::Operation};

use super::Message;
use crate::FAMILY;

/// Drop reason.
const NO_BUFFER: usize = 0;
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
    args: &[
        Arg::required("DSTIP", "IPv4 address", "to whom"),
        Arg::required("DSTETH", "Ethernet address", "where that is"),
        Arg::required("SRCIP", "IPv4 address", "what is spoken of"),
        Arg::required("SRCETH", "Ethernet address", "where that is said to be"),
    ],
    drops: &["no buffer"],
    cost: "A timer.",
    example: "ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> Discard; \
        DriverManager(wait 0.1s, stop);",
    make: |make| Box::new(ArpFaker::new(make)),
    ..Class::here()
};

struct ArpFaker(Message);

impl ArpFaker {
    fn new(make: &mut Make<'_>) -> ArpFaker {
        let ip = |make: &mut Make<'_>, name| make.get(name).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let mac = |make: &mut Make<'_>, name| make.need::<MacAddr>(name);
        ArpFaker(Message {
            operation: Operation::REPLY,
            target: (mac(make, "DSTETH"), ip(make, "DSTIP")),
            sender: (mac(make, "SRCETH"), ip(make, "SRCIP")),
        })
    }
}

impl Element for ArpFaker {
    fn initialize(&mut self, cx: &mut Context) -> Result<(), String> {
        cx.set_timer(0, cx.steady() + FIRST * 1_000_000_000);
        Ok(())
    }

    fn timer(&mut self, cx: &mut Context, _: u32, _: &mut Frame) {
        match self.0.packet(cx, self.0.target.0, &Meta::EMPTY) {
            Some(slot) => cx.out.emit(0, slot),
            None => cx.count_drops(NO_BUFFER, 1),
        }
        cx.set_timer(0, cx.steady() + INTERVAL * 1_000_000_000);
    }
}

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

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

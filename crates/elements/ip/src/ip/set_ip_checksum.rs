//! `SetIPChecksum`, `ResetIPChecksum`: compute the checksum of the IP header.

use linerate_graph::{Arguments, Class, Context, Exit, Step, Verdict, Writes};
use linerate_memory::PacketMut;

use super::FAMILY;
use linerate_element_support::{
    ip::{HeaderReason, LEAST, fill_checksum},
    log_once::LogOnce,
};

pub(super) const SET: Class = Class {
    name: "SetIPChecksum",
    family: FAMILY,
    summary: "computes the checksum of the IP header",
    description: "The header is at the packet's start where it is not known (`CheckIPHeader`). \
        Packets that end inside it are dropped, and the first is reported.",
    ports: "1/1",
    annotates: true,
    cost: "One pass over the packets' headers, five additions each.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> SetIPChecksum \
        -> Discard;",
    ..SetIpChecksum::CLASS
};

pub(super) const RESET: Class = Class {
    name: "ResetIPChecksum",
    summary: "makes the checksum of the IP header right on the wire",
    description: "FastClick's element of this name leaves the sum to the network card. No port \
        here takes that from us, and a packet that leaves must have its sum: this is \
        `SetIPChecksum`.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> ResetIPChecksum \
        -> Discard;",
    ..SET
};

#[derive(Arguments)]
struct SetIpChecksum {
    /// packets without a whole IP header
    #[handler(count)]
    drops: u64,
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
}

impl Step<Writes, HeaderReason> for SetIpChecksum {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<HeaderReason> {
        let start = if packet.meta().network.is_known() { packet.network() } else { 0 };
        let ip = packet.bytes_mut().get_mut(start..).unwrap_or_default();
        let length = ip.first().map_or(0, |first| usize::from(first & 15) * 4);
        if !(LEAST..=ip.len()).contains(&length) {
            self.drops += 1;
            return Err(Exit::Drop(HeaderReason::NoHeader));
        }
        fill_checksum(ip);
        Ok(())
    }

    fn end(&mut self, cx: &mut Context) {
        if self.said.first() {
            let class = cx.plan().elements[cx.element()].class.name;
            cx.console().report(&format!("{class}: bad input packet\n"));
        }
    }
}

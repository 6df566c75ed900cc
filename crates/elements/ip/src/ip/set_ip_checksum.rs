//! `SetIPChecksum`, `ResetIPChecksum`: the checksum of the IP header, anew.

use linerate_graph::{Class, Context, Element, Handler, HandlerError};
use linerate_memory::{Frame, Meta, Slot};

use super::FAMILY;
use linerate_kit::ip::{DROPS, LEAST, NO_BUFFER, NO_HEADER, fill_checksum};

pub(super) const SET: Class = Class {
    name: "SetIPChecksum",
    family: FAMILY,
    summary: "computes the checksum of the IP header",
    description: "The header is at the packet's start where it is not known (`CheckIPHeader`). \
        Packets that end inside it are dropped, and the first is reported.",
    ports: "1/1",
    handlers: &[Handler::count("drops", "packets without a whole IP header")],
    annotates: true,
    drops: DROPS,
    cost: "One pass over the packets' headers, five additions each.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> SetIPChecksum \
        -> Discard;",
    make: |_| Box::new(SetIpChecksum { drops: 0, failed: Vec::new() }),
    ..Class::EMPTY
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

struct SetIpChecksum {
    drops: u64,
    failed: Vec<Slot>,
}

impl Element for SetIpChecksum {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        cx.pool.arena().sift_packets(
            frame,
            |packet| {
                let (bytes, meta) = packet.parts();
                let start = if meta.network == Meta::UNSET { 0 } else { meta.network };
                let ip = bytes.get_mut(usize::from(start)..).ok_or(())?;
                let length = ip.first().map_or(0, |first| usize::from(first & 15) * 4);
                if !(LEAST..=ip.len()).contains(&length) {
                    return Err(());
                }
                fill_checksum(ip);
                Ok(())
            },
            |slot, ()| self.failed.push(slot),
        );
        if !self.failed.is_empty() {
            if self.drops == 0 {
                let class = cx.plan().elements[cx.element()].class.name;
                cx.console().report(&format!("{class}: bad input packet\n"));
            }
            self.drops += self.failed.len() as u64;
            self.failed.drain(..).for_each(|slot| cx.drop_packet(slot, NO_HEADER));
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

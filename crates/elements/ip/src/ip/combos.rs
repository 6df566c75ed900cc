//! `IPInputCombo`, `IPOutputCombo`: the elements of an IP router's paths in one.

use std::net::Ipv4Addr;

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::{Frame, PacketMut, Slot};

use super::{
    FAMILY,
    check::{OldBadSources, Reason, Rules},
    dec_ip_ttl::decrement,
    fix_ip_src::fix,
    milliseconds_of_day, options,
};
use linerate_kit::{
    annotations::{is_link_broadcast, set_problem_offset},
    ip::{ETHERNET, LEAST, NO_BUFFER, NO_HEADER, ip_mut},
};

pub(super) const INPUT: Class = Class {
    name: "IPInputCombo",
    family: FAMILY,
    summary: "the input path of an IP router in one element",
    description: "`Paint(COLOR)`, `Strip(14)` and `CheckIPHeader` in one pass. Bad packets are \
        dropped and the first is reported.",
    ports: "1/1",
    args: &[
        Arg::required("COLOR", "number", "what packets are painted with"),
        Arg::optional("BADSRC*", "IP addresses", "", "source addresses to refuse"),
        Arg::keyword("INTERFACES", "address/bits list", "", "addresses and prefixes of the router"),
        Arg::keyword("BADSRC", "IP addresses", "", "source addresses to refuse"),
        Arg::keyword("GOODDST", "IP addresses", "", "destinations for which any source will do"),
    ],
    handlers: &[Handler::count("drops", "packets that were not sound")],
    annotates: true,
    drops: Reason::DROPS,
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> IPInputCombo(1) -> Discard;",
    make: |make| Box::new(IpInputCombo::new(make)),
    ..Class::here()
};

pub(super) const OUTPUT: Class = Class {
    name: "IPOutputCombo",
    family: FAMILY,
    summary: "the output path of an IP router in one element",
    description: "`DropBroadcasts`, `PaintTee(COLOR)` (copies by output 1), `IPGWOptions(IPADDR)` \
        (wrong options by output 2), `FixIPSrc(IPADDR)`, `DecIPTTL` (expired by output 3), and \
        a check for packets longer than `MTU`, which leave by output 4, in one pass. The IP \
        header must be known (`IPInputCombo`).",
    ports: "1/5",
    processing: "h/h",
    args: &[
        Arg::required("COLOR", "number", "paint of packets that go back where they came from"),
        Arg::required("IPADDR", "IP address", "the interface's address"),
        Arg::required("MTU", "bytes", "longest packet"),
    ],
    annotates: true,
    asks_type: true,
    drops: &["no buffer", "no IP header", "link-level broadcast"],
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> o :: IPOutputCombo(1, 2.0.0.1, 1500) -> Discard; o [1-4] => Discard, Discard, \
        Discard, Discard;",
    copies: true,
    make: |make| Box::new(IpOutputCombo::new(make)),
    ..Class::here()
};

struct IpInputCombo {
    color: u8,
    rules: Rules,
    drops: u64,
    failed: Vec<(Slot, Reason)>,
}

impl IpInputCombo {
    fn new(make: &mut Make<'_>) -> IpInputCombo {
        let color = make.need::<i32>("COLOR") as u8;
        let OldBadSources(old) = make.or("BADSRC*", OldBadSources::default());
        IpInputCombo {
            color,
            rules: Rules::with_old_sources(make, true, old),
            drops: 0,
            failed: Vec::new(),
        }
    }
}

impl Element for IpInputCombo {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, Reason::NO_BUFFER);
        let IpInputCombo { color, rules, failed, .. } = self;
        let judge = |packet: &mut PacketMut<'_>| {
            let checked = match packet.pull(ETHERNET) {
                true => rules.check::<true>(packet, 0),
                false => Err(Reason::Tiny),
            };
            packet.parts().1.paint = *color;
            checked
        };
        let arena = cx.pool.arena();
        arena.prefetch_packets(frame);
        arena.sift_packets(frame, judge, |slot, reason| failed.push((slot, reason)));
        if !self.failed.is_empty() {
            if self.drops == 0 {
                cx.console().report("IP checksum failed\n");
            }
            self.drops += self.failed.len() as u64;
            self.failed.drain(..).for_each(|(slot, reason)| cx.drop_packet(slot, reason as usize));
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

/// What becomes of a packet that does not leave by output 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Output(usize),
    Drop(usize),
}

/// Drop reason.
const BROADCAST: usize = 2;

struct IpOutputCombo {
    color: u8,
    address: [u8; 4],
    mtu: usize,
    leaving: Vec<(Slot, Fate)>,
}

impl IpOutputCombo {
    fn new(make: &mut Make<'_>) -> IpOutputCombo {
        IpOutputCombo {
            color: make.need::<i32>("COLOR") as u8,
            address: make.get("IPADDR").unwrap_or(Ipv4Addr::UNSPECIFIED).octets(),
            mtu: make.need::<u32>("MTU") as usize,
            leaving: Vec::new(),
        }
    }

    /// Copies of packets that go back where they came from, for redirects.
    fn tee(&self, cx: &mut Context, frame: &mut Frame) {
        let Context { pool, out, .. } = cx;
        for slot in frame.slots_mut() {
            let meta = pool.arena().meta(slot);
            if meta.paint != self.color || is_link_broadcast(meta) {
                continue;
            }
            if let Some(copy) = pool.share(slot) {
                out.emit(1, copy);
            }
        }
    }
}

impl Element for IpOutputCombo {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.tee(cx, frame);
        cx.unshare(frame, NO_BUFFER);
        let IpOutputCombo { address, mtu, leaving, .. } = self;
        let (arena, clock) = (cx.pool.arena(), &cx.clock);
        let judge = |packet: &mut PacketMut<'_>| {
            let length = packet.len();
            let (bytes, meta) = packet.parts();
            if is_link_broadcast(meta) {
                return Err(Fate::Drop(BROADCAST));
            }
            let ip = ip_mut(bytes, meta).ok_or(Fate::Drop(NO_HEADER))?;
            if ip[0] & 15 > 5
                && let Err(place) =
                    options::process(ip, &[*address], || milliseconds_of_day(clock.now()))
            {
                set_problem_offset(meta, place);
                return Err(Fate::Output(2));
            }
            fix(bytes, meta, *address);
            let head = ip_mut(bytes, meta).and_then(|ip| ip.first_chunk_mut::<LEAST>());
            if !head.is_some_and(decrement) {
                Err(Fate::Output(3))
            } else if length > *mtu {
                Err(Fate::Output(4))
            } else {
                Ok(())
            }
        };
        arena.sift_packets(frame, judge, |slot, fate| leaving.push((slot, fate)));
        // A packet at a time, the copy goes first, as in Click.
        if cx.out.is_exact() {
            cx.out.emit_frame(0, frame);
        }
        for (slot, fate) in self.leaving.drain(..) {
            match fate {
                Fate::Output(output) => cx.out.emit(output, slot),
                Fate::Drop(reason) => cx.drop_packet(slot, reason),
            }
        }
    }
}

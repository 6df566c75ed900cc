//! `IPGWOptions`: a router's part in the options of IP headers.

use std::{cell::Cell, net::Ipv4Addr};

use linerate_graph::{Arguments, Class, Context, Element, Exit, Exits, HandlerResult, Make};
use linerate_memory::Frame;

use super::{FAMILY, milliseconds_of_day, options};
use linerate_kit::{
    annotations::set_problem_offset,
    ip::{NO_BUFFER, REFUSED, known},
};

pub(super) const CLASS: Class = Class {
    name: "IPGWOptions",
    family: FAMILY,
    summary: "records the route and times in packets that ask for it",
    description: "What a router does to the Record Route and Timestamp options. Packets whose \
        options are wrong leave by output 1, or are dropped where there is none; where the \
        mistake is becomes known to `ICMPError`. The IP header must be known \
        (`CheckIPHeader`). Source routes are left alone.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    drops: &["no buffer", "no IP header", "wrong options"],
    cost: "One pass over the packets' headers; those without options, nearly all, are only looked \
        at.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> IPGWOptions(2.0.0.1) -> Discard;",
    ..Class::of::<IpGwOptions>()
};

#[derive(Arguments)]
#[arguments(check = IpGwOptions::collect)]
struct IpGwOptions {
    /// the router's address, which is recorded
    #[arg(name = "MYADDR", stand_in = Ipv4Addr::UNSPECIFIED)]
    first: Ipv4Addr,
    /// other addresses of the router
    #[arg(optional, name = "OTHERADDRS", kind = "IP addresses", default = Vec::new(), shown = "")]
    others: Vec<Ipv4Addr>,
    /// packets whose options were wrong
    #[handler(count, name = "drops")]
    wrong: u64,
    /// All of them.
    mine: Vec<[u8; 4]>,
    #[init(Exits::new(make.world.frame_limit))]
    exits: Exits,
}

impl IpGwOptions {
    fn collect(&mut self, _: &mut Make<'_>) {
        self.mine = [self.first].iter().chain(&self.others).map(Ipv4Addr::octets).collect();
    }
}

impl Element for IpGwOptions {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let IpGwOptions { mine, wrong, exits, .. } = self;
        let (arena, clock) = (cx.pool.arena(), &cx.clock);
        // The clock is read once per frame, if at all.
        let time = Cell::new(None);
        let now = || {
            let now = time.get().unwrap_or_else(|| milliseconds_of_day(clock.now()));
            time.set(Some(now));
            now
        };
        arena.sift_packets(
            frame,
            |packet| {
                let (ip, meta) = known(packet)?;
                if ip[0] & 15 <= 5 {
                    return Ok(());
                }
                options::process(ip, mine, now).map_err(|place| {
                    set_problem_offset(meta, place);
                    *wrong += 1;
                    Exit::Refuse(REFUSED)
                })
            },
            |_, slot, exit| exits.push(slot, exit),
        );
        cx.leave(exits);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(handler)
    }
}

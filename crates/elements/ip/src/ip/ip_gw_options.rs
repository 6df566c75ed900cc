//! `IPGWOptions`: a router's part in the options of IP headers.

use std::{cell::Cell, net::Ipv4Addr};

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::Frame;

use super::{FAMILY, milliseconds_of_day, options};
use linerate_kit::{
    annotations::set_problem_offset,
    ip::{NO_BUFFER, Refused, Verdict, ip_mut},
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
    args: &[
        Arg::required("MYADDR", "IP address", "the router's address, which is recorded"),
        Arg::optional("OTHERADDRS", "IP addresses", "", "other addresses of the router"),
    ],
    handlers: &[Handler::count("drops", "packets whose options were wrong")],
    annotates: true,
    drops: &["no buffer", "no IP header", "wrong options"],
    cost: "One pass over the packets' headers; those without options, nearly all, are only looked \
        at.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> IPGWOptions(2.0.0.1) -> Discard;",
    make: |make| Box::new(IpGwOptions::new(make)),
    ..Class::EMPTY
};

struct IpGwOptions {
    /// The first is recorded.
    mine: Vec<[u8; 4]>,
    wrong: u64,
    refused: Refused,
}

impl IpGwOptions {
    fn new(make: &mut Make<'_>) -> IpGwOptions {
        let first = make.get("MYADDR").unwrap_or(Ipv4Addr::UNSPECIFIED);
        let others = make.or("OTHERADDRS", Vec::<Ipv4Addr>::new());
        let mine = [first].iter().chain(&others).map(Ipv4Addr::octets).collect();
        IpGwOptions { mine, wrong: 0, refused: Refused::new(make) }
    }
}

impl Element for IpGwOptions {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let IpGwOptions { mine, wrong, refused } = self;
        let (arena, clock) = (cx.pool.arena(), &cx.clock);
        // The clock is read once per frame, if at all.
        let time = Cell::new(None);
        let now = || {
            let now = time.get().unwrap_or_else(|| milliseconds_of_day(clock.now()));
            time.set(Some(now));
            now
        };
        refused.sift_packets(arena, frame, |packet| {
            let (bytes, meta) = packet.parts();
            let Some(ip) = ip_mut(bytes, meta) else { return Verdict::Lost };
            if ip[0] & 15 <= 5 {
                return Verdict::Keep;
            }
            match options::process(ip, mine, now) {
                Ok(()) => Verdict::Keep,
                Err(place) => {
                    set_problem_offset(meta, place);
                    *wrong += 1;
                    Verdict::Refuse
                }
            }
        });
        refused.send(cx);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.wrong.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

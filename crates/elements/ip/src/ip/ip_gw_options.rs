//! `IPGWOptions`: processes the options of IP headers, as a router.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arguments, Class, Clock, Context, DropReason, Element, ElementBuilder, Exit, Exits,
    HandlerResult, NoBuffer, Verdict,
};
use linerate_memory::{Column, Frame, HeaderBatch, HeaderKernel, HeaderLocation, PacketMut};

use super::{FAMILY, milliseconds_of_day, options};
use linerate_element_support::{
    annotations::set_problem_offset,
    ip::{NoHeader, WORDS, known},
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// wrong options
    BadOptions,
}

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
    drops: Reason::REASONS,
    cost: "One pass over the packets' headers; those without options, nearly all, are only looked \
        at.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> IPGWOptions(2.0.0.1) -> Discard;",
    ..Class::for_element::<IpGwOptions>()
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
    fn collect(&mut self, _: &mut ElementBuilder<'_>) {
        self.mine = [self.first].iter().chain(&self.others).map(Ipv4Addr::octets).collect();
    }
}

/// Processing of the options of a frame's packets.
struct Options<'a> {
    mine: &'a [[u8; 4]],
    wrong: &'a mut u64,
    clock: &'a Clock,
    /// The time, which is read once, if at all.
    now: Option<u32>,
}

impl HeaderKernel<WORDS> for Options<'_> {
    type Exit = Exit<Reason>;
    type LookResult = ();

    #[inline(always)]
    fn at(&self) -> HeaderLocation {
        HeaderLocation::Network
    }

    /// Marks headers longer than the least: only these have options.
    #[inline(always)]
    fn look(&self, heads: &mut HeaderBatch<WORDS>) -> (Column, ()) {
        (heads.words[0].map(|word| u32::from(word & 15 > 5)), ())
    }

    #[inline(always)]
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let (ip, meta) = known(packet)?;
        if ip[0] & 15 <= 5 {
            return Ok(());
        }
        let Options { mine, wrong, clock, now } = self;
        let now = || *now.get_or_insert_with(|| milliseconds_of_day(clock.now()));
        options::process(ip, mine, now).map_err(|place| {
            set_problem_offset(meta, place);
            **wrong += 1;
            Exit::ErrorOutput(Reason::BadOptions)
        })
    }
}

impl Element for IpGwOptions {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare::<Reason>(frame);
        let IpGwOptions { mine, wrong, exits, .. } = self;
        let Context { pool, header_cache, clock, .. } = cx;
        let mut options = Options { mine, wrong, clock, now: None };
        pool.arena().process_headers(frame, header_cache, &mut options, |_, slot, exit| {
            exits.push(slot, exit);
        });
        cx.leave::<Reason>(exits);
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }
}

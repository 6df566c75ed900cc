//! `IPInputCombo`, `IPOutputCombo`: the elements of an IP router's paths in one.

use std::net::Ipv4Addr;

use linerate_graph::{
    Arguments, Class, Context, Copies, DropReason, Element, ElementBuilder, Exit, Exits, NoBuffer,
    Step, Verdict, Writes,
};
use linerate_memory::{
    Annotations, Column, Frame, HeaderBatch, HeaderKernel, HeaderLane, HeaderLocation, PacketMut,
};

use super::{
    FAMILY,
    check::{INVALID_SOURCES, Reason, Rules, Sources, notes},
    dec_ip_ttl::decrement,
    fix_ip_src::fix,
    milliseconds_of_day, options,
};
use linerate_element_support::{
    annotations::{is_link_broadcast, set_problem_offset},
    ip::{ETHERNET, NoHeader, WORDS, head, known},
    log_once::LogOnce,
    mac_header::Starts,
};

pub(super) const INPUT: Class = Class {
    name: "IPInputCombo",
    family: FAMILY,
    summary: "the input path of an IP router in one element",
    description: "`Paint(COLOR)`, `Strip(14)` and `CheckIPHeader` in one pass. Bad packets are \
        dropped and the first is reported.",
    ports: "1/1",
    annotates: true,
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "InfiniteSource(LIMIT 10, STOP true) -> IPInputCombo(1) -> Discard;",
    ..IpInputCombo::CLASS
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
    annotates: true,
    needs_packet_type: true,
    drops: OutputReason::REASONS,
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> o :: IPOutputCombo(1, 2.0.0.1, 1500) -> Discard; o [1-4] => Discard, Discard, \
        Discard, Discard;",
    copies: Copies::Placed,
    ..Class::for_element::<IpOutputCombo>()
};

#[derive(Arguments)]
#[arguments(check = IpInputCombo::set_rules)]
struct IpInputCombo {
    /// what packets are painted with
    #[arg(kind = "number")]
    color: i32,
    /// source addresses to refuse
    #[arg(name = "BADSRC*", optional, kind = "IP addresses", shown = "")]
    old: Option<Vec<Ipv4Addr>>,
    #[group]
    sources: Sources,
    /// packets that were not sound
    #[handler(count)]
    drops: u64,
    rules: Rules,
    #[init(LogOnce::for_element(make))]
    said: LogOnce,
    #[init(Starts::of(make.plan()))]
    starts: Starts,
}

impl IpInputCombo {
    fn set_rules(&mut self, _: &mut ElementBuilder<'_>) {
        self.sources.old = match self.old.take() {
            Some(sources) => sources.into_iter().chain(INVALID_SOURCES).collect(),
            None => Vec::new(),
        };
        self.rules = self.sources.rules(true);
    }
}

impl Step<Writes, Reason> for IpInputCombo {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let checked = if packet.pull(ETHERNET) {
            self.rules.check::<true>(packet, 0)
        } else {
            Err(Reason::Tiny)
        };
        packet.meta_mut().paint = self.color as u8;
        checked.map_err(|reason| {
            self.drops += 1;
            Exit::Drop(reason)
        })
    }

    #[inline]
    fn pass(&mut self, cx: &mut Context, frame: &mut Frame) {
        self.starts.note(cx, frame);
        if cx.process_headers(frame, self) && self.said.first() {
            cx.console().report("IP checksum failed\n");
        }
    }
}

impl HeaderKernel<WORDS> for IpInputCombo {
    type Exit = Exit<Reason>;
    /// Lengths of the IP packets.
    type LookResult = Column;

    #[inline(always)]
    fn at(&self) -> HeaderLocation {
        HeaderLocation::Start(ETHERNET)
    }

    #[inline(always)]
    fn look(&self, heads: &mut HeaderBatch<WORDS>) -> (Column, Column) {
        self.rules.look::<true>(heads)
    }

    #[inline(always)]
    fn notes(&self, heads: &HeaderBatch<WORDS>, lengths: &Column) -> Option<Annotations> {
        Some(notes(heads, lengths))
    }

    #[inline(always)]
    fn finish(
        &mut self,
        _: &HeaderBatch<WORDS>,
        _: &Column,
        _: usize,
        head: &mut HeaderLane<'_, WORDS>,
    ) {
        head.pull(ETHERNET);
        head.meta().paint = self.color as u8;
    }

    #[inline(always)]
    fn judge(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        self.step(packet)
    }
}

/// Drop reason of `IPOutputCombo`.
#[derive(Clone, Copy, DropReason)]
enum OutputReason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// link-level broadcast
    Broadcast,
}

#[derive(Arguments)]
struct IpOutputCombo {
    /// paint of packets that go back where they came from
    #[arg(kind = "number")]
    color: i32,
    /// the interface's address
    #[arg(name = "IPADDR", stand_in = Ipv4Addr::UNSPECIFIED)]
    address: Ipv4Addr,
    /// longest packet
    #[arg(kind = "bytes")]
    mtu: u32,
    #[init(Exits::new(make.world.frame_limit))]
    exits: Exits,
}

impl IpOutputCombo {
    /// Copies of packets that go back where they came from, for redirects.
    fn tee(&self, cx: &mut Context, frame: &mut Frame) {
        for slot in frame.slots_mut() {
            let meta = cx.arena().meta(slot);
            if meta.paint != self.color as u8 || is_link_broadcast(meta) {
                continue;
            }
            if let Some(copy) = cx.copy_before(slot) {
                cx.out.emit(1, copy);
            }
        }
    }
}

impl Element for IpOutputCombo {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.tee(cx, frame);
        cx.unshare::<OutputReason>(frame);
        let IpOutputCombo { exits, .. } = self;
        let (address, mtu) = (self.address.octets(), self.mtu as usize);
        let (arena, clock) = (cx.pool.arena(), &cx.clock);
        let judge = |packet: &mut PacketMut<'_>| {
            if is_link_broadcast(packet.meta()) {
                return Err(Exit::Drop(OutputReason::Broadcast));
            }
            let (ip, meta) = known(packet)?;
            if ip[0] & 15 > 5
                && let Err(place) =
                    options::process(ip, &[address], || milliseconds_of_day(clock.now()))
            {
                set_problem_offset(meta, place);
                return Err(Exit::Output(2));
            }
            fix(packet, address);
            if !decrement(head(packet)?) {
                Err(Exit::Output(3))
            } else if packet.len() > mtu {
                Err(Exit::Output(4))
            } else {
                Ok(())
            }
        };
        arena.retain_packets(frame, judge, |_, slot, exit| exits.push(slot, exit));
        // A packet at a time, the copy goes first, as in Click.
        if cx.out.is_exact() {
            cx.out.emit_frame(0, frame);
        }
        cx.leave::<OutputReason>(&mut self.exits);
    }
}

//! `ICMPError`: sends ICMP errors to the sources of packets that cannot be forwarded.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, HandlerResult, Right, Word,
};
use linerate_memory::{Frame, Slot};
use linerate_packet::checksum;

use super::{
    FAMILY, MessageType,
    error_rules::{
        PARAMETER_PROBLEM, REDIRECT, SourceRoute, SuppressReason, UNREACHABLE, allowed, is_error,
    },
};
use linerate_element_support::{
    annotations::{is_link_broadcast, problem_offset, set_fix_ip_source},
    icmp_names,
    ip::{
        DESTINATION, IDENT, LEAST, PROTOCOL, SOURCE, TOTAL_LENGTH, TTL, fill_checksum, get_four,
        ip, put16,
    },
    limit::Limit,
};

/// Length of an ICMP header.
const ICMP: usize = 8;
/// Hops Click gives an error.
const HOPS: u8 = 200;
/// Code of the error with the MTU.
const NEED_FRAGMENTATION: u8 = 4;
/// Code of the error that points at a byte.
const ERROR_AT_POINTER: u8 = 0;

pub(super) const CLASS: Class = Class {
    name: "ICMPError",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "makes ICMP errors about packets",
    description: "Each packet is replaced by an ICMP error to its sender, which quotes as much of \
        it as `MTU` allows, and has its destination annotation set. The error's source is `SRC`; \
        unless `SET_FIX_ANNO` is false, `FixIPSrc` changes it to the address of the interface it \
        leaves by.\n\n\
        `TYPE` is `unreachable`, `redirect`, `timeexceeded`, `parameterproblem`, \
        `sourcequench`, or a number; `CODE` a number or a name, such as `needfrag` (which tells \
        `PMTU`), `host`, `port`, `transit`. A redirect names the destination annotation as \
        gateway, a parameter problem the byte that `IPGWOptions` found.\n\n\
        As RFC 1812 section 4.3.2.7 demands, there is no error about an ICMP error, about a \
        fragment other than the first, about a packet to a broadcast or group address of IP \
        (`BADADDRS` lists those that cannot be told otherwise) or of the link, or from a source \
        that is no single host's. Such packets are dropped, counted by reason. A source route \
        is followed back, and no redirect is sent about one.\n\n\
        Errors cost the network more than they cost who provokes them: `RATE` and `BURST` bound \
        them, which Click leaves to a `RatedSplitter` behind.",
    ports: "1/1",
    annotates: true,
    needs_packet_type: true,
    drops: SuppressReason::REASONS,
    cost: "Builds a packet of up to `MTU` bytes and computes its checksum for each \
        error.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_ttl, DATA \"1.0.0.1 1\") \
        -> CheckIPHeader -> d :: DecIPTTL -> Discard; \
        d [1] -> ICMPError(2.0.0.1, timeexceeded, RATE 100) -> Discard;",
    ..Class::for_element::<IcmpError>()
};

/// The identification of the next error of any element.
#[derive(Debug)]
struct Idents(AtomicU16);

impl Default for Idents {
    fn default() -> Idents {
        Idents(AtomicU16::new(1))
    }
}

#[derive(Arguments)]
#[arguments(check = IcmpError::set_code)]
struct IcmpError {
    /// source address of the errors
    #[arg(stand_in = Ipv4Addr::UNSPECIFIED)]
    #[handler(value)]
    src: Ipv4Addr,
    /// type of the errors, by name or number
    #[arg(name = "TYPE", kind = "ICMP error type", with = error_type)]
    kind: u8,
    /// code of the errors, by name or number
    #[arg(name = "CODE", optional, kind = "ICMP code", shown = "0")]
    written_code: Option<Word>,
    code: u8,
    /// broadcast addresses there are
    #[arg(name = "BADADDRS", optional, kind = "IP addresses", shown = "", with = addresses)]
    bad: Vec<[u8; 4]>,
    /// longest error
    #[arg(keyword, kind = "bytes", default = 576)]
    #[handler(value)]
    mtu: u32,
    /// what `needfrag` errors say may be sent
    #[arg(keyword, kind = "bytes", default = 0)]
    #[handler(value)]
    pmtu: u32,
    /// whether `FixIPSrc` is to set the source
    #[arg(keyword, default = true)]
    set_fix_anno: bool,
    #[group]
    limit: Limit<SuppressReason>,
    #[init(make.world.common())]
    idents: Arc<Idents>,
}

fn error_type(make: &mut ElementBuilder<'_>, name: &str) -> u8 {
    let kind = make.get::<MessageType>(name).map(|MessageType(number)| number);
    match kind {
        Some(kind @ 0..=255) if is_error(kind as u8) => {}
        Some(kind @ 0..=255) => make.error(format!("ICMP type {kind} is not an error type")),
        Some(_) => make.error("ICMP type must be between 0 and 255"),
        None => {}
    }
    kind.map_or(UNREACHABLE, |kind| kind as u8)
}

fn addresses(make: &mut ElementBuilder<'_>, name: &str) -> Vec<[u8; 4]> {
    let addresses: Vec<Ipv4Addr> = make.need(name);
    addresses.iter().map(Ipv4Addr::octets).collect()
}

impl IcmpError {
    fn set_code(&mut self, make: &mut ElementBuilder<'_>) {
        let Some(Word(text)) = self.written_code.take() else { return };
        let named = icmp_names::number(Some(self.kind), &text);
        let number = named.or_else(|| make.parse::<u8>(&text).ok().map(u64::from));
        match number.and_then(|number| u8::try_from(number).ok()) {
            Some(code) => self.code = code,
            None => make.error("argument 2 takes ICMP code (integer between 0 and 255)"),
        }
    }

    /// The error about a packet.
    fn about(&self, cx: &mut Context, slot: &Slot, time: u64) -> Result<Slot, SuppressReason> {
        let arena = cx.pool.arena();
        let meta = arena.meta(slot);
        let packet = ip(arena, slot).ok_or(SuppressReason::NoHeader)?;
        allowed(packet, is_link_broadcast(meta), &self.bad)?;
        let mut route = SourceRoute::find(packet);
        if route.is_some() && self.kind == REDIRECT {
            return Err(SuppressReason::SourceRoute);
        }
        let pointer = problem_offset(meta);
        let points = (self.kind, self.code) == (PARAMETER_PROBLEM, ERROR_AT_POINTER);
        // The pointer may be to the source route itself.
        route = route.filter(|route| {
            let within = route.at..route.at + route.length;
            !(points && within.contains(&usize::from(pointer)))
        });
        let mut options = [0; 40];
        let options = route.map_or(&[][..], |route| route.reversed(packet, &mut options));
        let start = LEAST + options.len() + ICMP;
        let most = (self.mtu as usize).min(arena.room()).saturating_sub(start);
        let quoted = most.min(packet.len());
        let (destination, length) = (meta.destination, start + quoted);
        let mut error = cx.pool.take_one(length).ok_or(SuppressReason::NoBuffer)?;
        let arena = cx.pool.arena();
        let packet = ip(arena, slot).unwrap_or_default();
        if let Some(bytes) = arena.packet_mut(&mut error) {
            bytes[..start].fill(0);
            bytes[0] = 0x40 | ((start - ICMP) / 4) as u8;
            put16(bytes, TOTAL_LENGTH, length as u16);
            put16(bytes, IDENT, self.idents.0.fetch_add(1, Ordering::Relaxed));
            (bytes[TTL], bytes[PROTOCOL]) = (HOPS, 1);
            bytes[SOURCE..DESTINATION].copy_from_slice(&self.src.octets());
            bytes[DESTINATION..LEAST].copy_from_slice(&packet[SOURCE..DESTINATION]);
            bytes[LEAST..LEAST + options.len()].copy_from_slice(options);
            fill_checksum(bytes);
            let icmp = &mut bytes[start - ICMP..];
            (icmp[0], icmp[1]) = (self.kind, self.code);
            match (self.kind, self.code) {
                (PARAMETER_PROBLEM, ERROR_AT_POINTER) => icmp[4] = pointer,
                (REDIRECT, _) => icmp[4..8].copy_from_slice(&destination[..4]),
                (UNREACHABLE, NEED_FRAGMENTATION) => put16(icmp, 6, self.pmtu as u16),
                _ => {}
            }
            icmp[ICMP..].copy_from_slice(&packet[..quoted]);
            let sum = checksum::checksum(icmp);
            put16(icmp, 2, sum);
        }
        let back = get_four(packet, SOURCE);
        if let Some(mut made) = arena.writable(&mut error) {
            made.meta_mut().reset();
            made.mark_headers(0, start - ICMP);
            let meta = made.meta_mut();
            meta.destination[..4].copy_from_slice(&back);
            meta.timestamp = time;
            set_fix_ip_source(meta, self.set_fix_anno.into());
        }
        Ok(error)
    }
}

impl Element for IcmpError {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let time = cx.now();
        let mut limit = std::mem::take(&mut self.limit);
        limit.replace(cx, frame, SuppressReason::Rate, |cx, slot| self.about(cx, slot, time));
        self.limit = limit;
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<IcmpError>() {
            self.limit.take_state(&mut old.limit);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.read_field(&cx.scope(), handler)
    }

    fn write(&mut self, cx: &mut Context, handler: &str, value: &str) -> HandlerResult {
        self.write_field(&cx.scope(), handler, value)
    }
}

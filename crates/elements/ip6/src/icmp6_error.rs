//! `ICMP6Error`: sends `ICMPv6` errors to the sources of packets that cannot be forwarded.
//!
//! RFC 4443; redirects RFC 4861 section 4.5.

use std::net::Ipv6Addr;

use linerate_graph::{Arguments, Class, Context, DropReason, Element, ElementBuilder, NoBuffer};
use linerate_memory::{Frame, Slot};
use linerate_packet::{IpProtocol, icmpv6::Icmpv6Type, ipv6_ext::upper_layer};

use super::{
    FAMILY,
    header::{
        DESTINATION, HOPS, ICMP_CHECKSUM, LEAST, LENGTH, NEXT, NoHeader, SOURCE, address,
        fill_checksum, ip, mark, put16,
    },
};
use linerate_element_support::{
    annotations::{is_link_broadcast, problem_offset, set_fix_ip_source},
    limit::Limit,
};

/// Length of an `ICMPv6` header.
const ICMP: usize = 8;
/// Bytes of a redirect behind its header: target and destination.
const REDIRECTED: usize = 32;
/// Bytes of a packet that Click quotes at most.
const QUOTED: usize = 568;
/// Types.
const TOO_BIG: u8 = 2;
const PARAMETER_PROBLEM: u8 = 4;
const REDIRECT: u8 = 137;
/// The code of a parameter problem for an unknown option.
const UNKNOWN_OPTION: u8 = 2;

pub(super) const CLASS: Class = Class {
    name: "ICMP6Error",
    family: FAMILY,
    summary: "makes ICMPv6 errors about packets",
    description: "Each packet is replaced by an ICMPv6 error or redirect to its sender, which \
        quotes up to 568 bytes of it and has its destination annotation set. The error's source \
        is `SRC`. A `TYPE` of 2 (packet too big) says that `MTU` bytes may be sent, 4 (parameter \
        problem) which byte is wrong, 137 (redirect) names the destination annotation as \
        target.\n\n\
        As RFC 4443 section 2.4 demands, there is no error about an ICMPv6 error or redirect, \
        about a packet to a group (but packet too big, and a parameter problem of code 2), or \
        from a source that is no single host's. Such packets are dropped, counted by reason. \
        Click looks only at the destination.\n\n\
        Errors cost the network more than they cost who provokes them: `RATE` and `BURST` bound \
        them, which Click leaves to a `RatedSplitter` behind.",
    ports: "1/1",
    annotates: true,
    needs_packet_type: true,
    drops: SuppressReason::REASONS,
    cost: "Builds a packet of up to 616 bytes and computes its checksum for each \
        error.",
    example: "InfiniteSource(DATA \\<60000000 0000 3b01 20010db8000000000000000000000001 \
        20010db8000000000000000000000002>, LIMIT 10, STOP true) -> CheckIP6Header \
        -> d :: DecIP6HLIM -> Discard; d [1] -> ICMP6Error(2001:db8::9, 3, 0) -> Discard;",
    ..Class::for_element::<Icmp6Error>()
};

/// Drop reason: why there is no error about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum SuppressReason {
    #[from(NoHeader)]
    NoHeader,
    /// about an error
    Error,
    /// to a group
    Group,
    /// from no single host
    Source,
    #[from(NoBuffer)]
    NoBuffer,
    /// more than RATE
    Rate,
}

#[derive(Arguments)]
#[arguments(check = Icmp6Error::check)]
struct Icmp6Error {
    /// source address of the errors
    #[arg(kind = "IPv6 address", stand_in = Ipv6Addr::UNSPECIFIED)]
    src: Ipv6Addr,
    /// type of the errors: 1 to 4, or 137
    #[arg(name = "TYPE", kind = "number")]
    written_type: i32,
    kind: u8,
    /// code of the errors
    #[arg(name = "CODE", kind = "number")]
    written_code: i32,
    code: u8,
    /// what errors of type 2 say may be sent
    #[arg(keyword, kind = "bytes", default = 1500)]
    mtu: u32,
    #[group]
    limit: Limit<SuppressReason>,
    /// The fault that Click reports when it initializes the element.
    wrong: Option<String>,
}

impl Icmp6Error {
    fn check(&mut self, _: &mut ElementBuilder<'_>) {
        let (kind, code) = (self.written_type, self.written_code);
        self.wrong = match kind {
            _ if kind < 0 || code < 0 || self.src.is_unspecified() => {
                Some("not configured -a".to_owned())
            }
            1..=4 | 137 => None,
            _ => Some(format!("ICMP6 type {kind} is not an error or redirect type")),
        };
        (self.kind, self.code) = (kind as u8, code as u8);
    }

    /// Checks that there may be an error about a packet.
    fn allowed(&self, packet: &[u8], link_broadcast: bool) -> Result<(), SuppressReason> {
        let next = IpProtocol(packet[NEXT]);
        if let Ok(upper) = upper_layer(next, &packet[LEAST..])
            && upper.protocol == IpProtocol::ICMPV6
            && let Some(&kind) = packet[LEAST..].get(upper.offset)
            && (Icmpv6Type(kind).is_error() || kind == REDIRECT)
        {
            return Err(SuppressReason::Error);
        }
        let told =
            self.kind == TOO_BIG || (self.kind, self.code) == (PARAMETER_PROBLEM, UNKNOWN_OPTION);
        if (packet[DESTINATION] == 0xff || link_broadcast) && !told {
            return Err(SuppressReason::Group);
        }
        let source = address(packet, SOURCE);
        if source[0] == 0xff || source == [0; 16] { Err(SuppressReason::Source) } else { Ok(()) }
    }

    /// The error about a packet.
    fn about(&self, cx: &mut Context, slot: &Slot) -> Result<Slot, SuppressReason> {
        let arena = cx.pool.arena();
        let packet = ip(arena, slot).ok_or(SuppressReason::NoHeader)?;
        self.allowed(packet, is_link_broadcast(arena.meta(slot)))?;
        let redirects = self.kind == REDIRECT;
        let start = LEAST + ICMP + if redirects { REDIRECTED } else { 0 };
        let quoted = packet.len().min(QUOTED).min(arena.room().saturating_sub(start));
        let mut error = cx.pool.take_one(start + quoted).ok_or(SuppressReason::NoBuffer)?;
        let arena = cx.pool.arena();
        let (packet, meta) = (ip(arena, slot).unwrap_or_default(), arena.meta(slot));
        if let Some(bytes) = arena.packet_mut(&mut error) {
            bytes[..start].fill(0);
            let (header, icmp) = bytes.split_at_mut(LEAST);
            header[0] = 0x60;
            put16(header, LENGTH, icmp.len() as u16);
            (header[NEXT], header[HOPS]) = (IpProtocol::ICMPV6.0, 255);
            header[SOURCE..DESTINATION].copy_from_slice(&self.src.octets());
            header[DESTINATION..].copy_from_slice(&packet[SOURCE..DESTINATION]);
            (icmp[0], icmp[1]) = (self.kind, self.code);
            match (self.kind, self.code) {
                (TOO_BIG, _) => icmp[4..ICMP].copy_from_slice(&self.mtu.to_be_bytes()),
                (PARAMETER_PROBLEM, _) => icmp[7] = problem_offset(meta),
                (REDIRECT, _) => {
                    icmp[ICMP..ICMP + 16].copy_from_slice(&meta.destination);
                    icmp[ICMP + 16..ICMP + REDIRECTED].copy_from_slice(&packet[DESTINATION..LEAST]);
                }
                _ => {}
            }
            icmp[start - LEAST..].copy_from_slice(&packet[..quoted]);
            fill_checksum(header, IpProtocol::ICMPV6.0, icmp, ICMP_CHECKSUM);
        }
        let back = address(packet, SOURCE);
        if let Some(mut packet) = arena.writable(&mut error) {
            packet.meta_mut().reset();
            mark(&mut packet, 0);
            let meta = packet.meta_mut();
            meta.destination = back;
            set_fix_ip_source(meta, 1);
        }
        Ok(error)
    }
}

impl Element for Icmp6Error {
    fn initialize(&mut self, _: &mut Context) -> Result<(), String> {
        self.wrong.take().map_or(Ok(()), Err)
    }

    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let mut limit = std::mem::take(&mut self.limit);
        limit.replace(cx, frame, SuppressReason::Rate, |cx, slot| self.about(cx, slot));
        self.limit = limit;
    }
}

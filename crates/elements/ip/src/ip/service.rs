//! `SetIPDSCP`, `SetIPECN`, `MarkIPCE`: set bits of the type of service byte.
//!
//! RFC 2474 and RFC 3168.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Right, Step, Text, Verdict, Writes, parse_u32, unquoted,
};
use linerate_memory::{Frame, PacketMut};

use super::FAMILY;
use linerate_element_support::{
    handler_values::record_argument,
    ip::{HeaderReason, NoHeader, get16, known, update_checksum},
};

/// Drop reason of `MarkIPCE`.
#[derive(Clone, Copy, DropReason)]
enum MarkReason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// not ECN-capable
    NotCapable,
}

pub(super) const SET_DSCP: Class = Class {
    name: "SetIPDSCP",
    reconfigured: Some(Right::Write),
    family: FAMILY,
    summary: "sets the differentiated services code point",
    description: "The ECN bits stay. The checksum is updated. The IP header must be known \
        (`CheckIPHeader`).",
    ports: "1/1",
    annotates: true,
    drops: HeaderReason::REASONS,
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> SetIPDSCP(46) -> Discard;",
    ..Class::for_element::<SetIpDscp>()
};

pub(super) const SET_ECN: Class = Class {
    name: "SetIPECN",
    reconfigured: Some(Right::Write),
    summary: "sets the explicit congestion notification bits",
    description: "`ECN` is a number, or `no`, `ect1`, `ect2` (which is 2, ECT(0)) or `ce`. The code \
        point stays. The checksum is updated. The IP header must be known (`CheckIPHeader`).",
    args: SetIpEcn::ARGS,
    handlers: SetIpEcn::HANDLERS,
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> SetIPECN(ect1) -> Discard;",
    make: Class::for_element::<SetIpEcn>().make,
    ..SET_DSCP
};

pub(super) const MARK_CE: Class = Class {
    name: "MarkIPCE",
    family: FAMILY,
    summary: "marks packets as having experienced congestion",
    description: "Packets whose transport does not know of ECN are dropped, unless `FORCE` is \
        true. The checksum is updated. The IP header must be known (`CheckIPHeader`).",
    ports: "1/1",
    annotates: true,
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> MarkIPCE(true) -> Discard;",
    ..MarkIpCe::CLASS
};

/// Replaces the bits of the type of service byte that are in `mask`.
#[inline(always)]
fn set_bits(ip: &mut [u8], mask: u8, bits: u8) {
    let old = get16(ip, 0);
    ip[1] = ip[1] & !mask | bits;
    update_checksum(ip, old, get16(ip, 0));
}

#[derive(Arguments)]
#[arguments(handlers = [Handler::value("dscp", "the code point").flags(".")])]
struct SetIpDscp {
    /// the code point, 0 to 63
    #[arg(kind = "number", with = dscp)]
    dscp: u8,
}

fn code_point(number: u32) -> Result<u8, &'static str> {
    u8::try_from(number)
        .ok()
        .filter(|number| *number < 64)
        .ok_or("diffserv code point out of range")
}

fn dscp(make: &mut ElementBuilder<'_>, name: &str) -> u8 {
    code_point(make.need(name)).unwrap_or_else(|error| {
        make.error(error);
        0
    })
}

impl Step<Writes, HeaderReason> for SetIpDscp {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<HeaderReason> {
        set_bits(known(packet)?.0, 0xfc, self.dscp << 2);
        Ok(())
    }
}

impl Element for SetIpDscp {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        Ok(self.dscp.to_string())
    }

    fn write(&mut self, cx: &mut Context, _: &str, value: &str) -> HandlerResult {
        let number = parse_u32(value.trim());
        let number = number.map_err(|e| HandlerError::refused(format!("DSCP: {e}")))?;
        self.dscp = code_point(number).map_err(HandlerError::refused)?;
        record_argument(cx, 0, "DSCP", value);
        Ok(String::new())
    }
}

#[derive(Arguments)]
#[arguments(check = SetIpEcn::check, handlers = [
    Handler::value("ecn", "the bits, as they were given").flags("."),
])]
struct SetIpEcn {
    /// the bits
    #[arg(name = "ECN", kind = "0 to 3, no, ect1, ect2 or ce")]
    given: Text,
    ecn: u8,
}

/// The bits a text stands for.
fn ecn(text: &str) -> Result<u8, &'static str> {
    match text {
        "0" | "no" | "-" => Ok(0),
        "1" | "ect1" | "ECT(1)" => Ok(1),
        "2" | "ect2" | "ECT(0)" => Ok(2),
        "3" | "ce" | "CE" => Ok(3),
        _ => Err("bad ECN argument"),
    }
}

impl SetIpEcn {
    fn check(&mut self, make: &mut ElementBuilder<'_>) {
        match ecn(&unquoted(&self.given.0)) {
            Ok(ecn) => self.ecn = ecn,
            Err(error) => make.error(error),
        }
    }
}

impl Step<Writes, HeaderReason> for SetIpEcn {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<HeaderReason> {
        set_bits(known(packet)?.0, 3, self.ecn);
        Ok(())
    }
}

impl Element for SetIpEcn {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> HandlerResult {
        Ok(self.given.0.clone())
    }

    fn write(&mut self, cx: &mut Context, _: &str, value: &str) -> HandlerResult {
        self.ecn = ecn(&unquoted(value.trim())).map_err(HandlerError::refused)?;
        self.given = Text(value.trim().to_owned());
        record_argument(cx, 0, "ECN", value);
        Ok(String::new())
    }
}

#[derive(Arguments)]
struct MarkIpCe {
    /// marks all packets
    #[arg(optional, default = false)]
    force: bool,
    /// packets dropped because ECN is not for them
    #[handler(count)]
    drops: u64,
}

impl Step<Writes, MarkReason> for MarkIpCe {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<MarkReason> {
        let (ip, _) = known(packet)?;
        match ip[1] & 3 {
            0 if !self.force => {
                self.drops += 1;
                return Err(Exit::ErrorOutput(MarkReason::NotCapable));
            }
            3 => {}
            _ => set_bits(ip, 3, 3),
        }
        Ok(())
    }
}

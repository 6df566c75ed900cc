//! `SetIPDSCP`, `SetIPECN`, `MarkIPCE`: the type of service byte.
//!
//! RFC 2474 and RFC 3168.

use linerate_graph::{
    Arg, Class, Context, Element, Handler, HandlerError, Make, Text, parse_u32, unquoted,
};
use linerate_memory::{Frame, Slot};

use super::FAMILY;
use linerate_kit::{
    ip::{DROPS, Refused, Verdict, edit, get16, update_checksum},
    written::record_argument,
};

pub(super) const SET_DSCP: Class = Class {
    name: "SetIPDSCP",
    family: FAMILY,
    summary: "sets the differentiated services code point",
    description: "The ECN bits stay. The checksum is updated. The IP header must be known \
        (`CheckIPHeader`).",
    ports: "1/1",
    args: &[Arg::required("DSCP", "number", "the code point, 0 to 63")],
    handlers: &[Handler::value("dscp", "the code point")],
    annotates: true,
    drops: DROPS,
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> SetIPDSCP(46) -> Discard;",
    make: |make| Box::new(SetIpDscp::new(make)),
    ..Class::EMPTY
};

pub(super) const SET_ECN: Class = Class {
    name: "SetIPECN",
    summary: "sets the explicit congestion notification bits",
    description: "`ECN` is a number, or `no`, `ect1`, `ect2` (which is 2, ECT(0)) or `ce`. The code \
        point stays. The checksum is updated. The IP header must be known (`CheckIPHeader`).",
    args: &[Arg::required("ECN", "0 to 3, no, ect1, ect2 or ce", "the bits")],
    handlers: &[Handler::value("ecn", "the bits, as they were given")],
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> SetIPECN(ect1) -> Discard;",
    make: |make| Box::new(SetIpEcn::new(make)),
    ..SET_DSCP
};

pub(super) const MARK_CE: Class = Class {
    name: "MarkIPCE",
    family: FAMILY,
    summary: "marks packets as having experienced congestion",
    description: "Packets whose transport does not know of ECN are dropped, unless `FORCE` is \
        true. The checksum is updated. The IP header must be known (`CheckIPHeader`).",
    ports: "1/1",
    args: &[Arg::optional("FORCE", "bool", "false", "marks all packets")],
    handlers: &[Handler::count("drops", "packets dropped because ECN is not for them")],
    annotates: true,
    drops: &["no buffer", "no IP header", "not ECN-capable"],
    cost: "One pass over the packets' headers.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src, DATA \"1.0.0.1\") -> CheckIPHeader \
        -> MarkIPCE(true) -> Discard;",
    make: |make| {
        let force = make.or("FORCE", false);
        Box::new(MarkIpCe { force, drops: 0, refused: Refused::new(make) })
    },
    ..Class::EMPTY
};

/// Replaces the bits of the type of service byte that are in `mask`.
#[inline(always)]
fn set_bits(ip: &mut [u8], mask: u8, bits: u8) {
    let old = get16(ip, 0);
    ip[1] = ip[1] & !mask | bits;
    update_checksum(ip, old, get16(ip, 0));
}

struct SetIpDscp {
    dscp: u8,
    failed: Vec<Slot>,
}

fn code_point(number: u32) -> Result<u8, &'static str> {
    u8::try_from(number)
        .ok()
        .filter(|number| *number < 64)
        .ok_or("diffserv code point out of range")
}

impl SetIpDscp {
    fn new(make: &mut Make<'_>) -> SetIpDscp {
        let dscp = code_point(make.need("DSCP")).unwrap_or_else(|error| {
            make.error(error);
            0
        });
        SetIpDscp { dscp, failed: Vec::new() }
    }
}

impl Element for SetIpDscp {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let bits = self.dscp << 2;
        edit(cx, frame, &mut self.failed, |ip, _| set_bits(ip, 0xfc, bits));
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "dscp" => Ok(self.dscp.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context,
        handler: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match handler {
            "dscp" => {
                let number = parse_u32(value.trim());
                let number = number.map_err(|e| HandlerError::refused(format!("DSCP: {e}")))?;
                self.dscp = code_point(number).map_err(HandlerError::refused)?;
                record_argument(cx, 0, "DSCP", value);
            }
            _ => return Err(HandlerError::missing(handler)),
        }
        Ok(String::new())
    }
}

struct SetIpEcn {
    ecn: u8,
    /// As it was given.
    text: String,
    failed: Vec<Slot>,
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
    fn new(make: &mut Make<'_>) -> SetIpEcn {
        let Text(text) = make.need("ECN");
        let ecn = ecn(&unquoted(&text)).unwrap_or_else(|error| {
            make.error(error);
            0
        });
        SetIpEcn { ecn, text, failed: Vec::new() }
    }
}

impl Element for SetIpEcn {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let bits = self.ecn;
        edit(cx, frame, &mut self.failed, |ip, _| set_bits(ip, 3, bits));
    }

    fn read(&mut self, _: &mut Context, _: &str, _: &str) -> Result<String, HandlerError> {
        Ok(self.text.clone())
    }

    fn write(&mut self, cx: &mut Context, _: &str, value: &str) -> Result<String, HandlerError> {
        self.ecn = ecn(&unquoted(value.trim())).map_err(HandlerError::refused)?;
        self.text = value.trim().to_owned();
        record_argument(cx, 0, "ECN", value);
        Ok(String::new())
    }
}

struct MarkIpCe {
    force: bool,
    drops: u64,
    refused: Refused,
}

impl Element for MarkIpCe {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let MarkIpCe { force, drops, refused } = self;
        refused.sift(cx, frame, |ip, _| {
            match ip[1] & 3 {
                0 if !*force => {
                    *drops += 1;
                    return Verdict::Refuse;
                }
                3 => {}
                _ => set_bits(ip, 3, 3),
            }
            Verdict::Keep
        });
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

//! `CheckIPHeader`: passes only packets with a valid IPv4 header.
//!
//! RFC 1812 sections 4.2.2.5, 4.2.2.11 and 5.2.2.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Handler, HandlerResult,
    parse_integer,
};
use linerate_memory::Frame;

use super::{
    FAMILY,
    check::{Check, FAULTS, Reason, Rules, Sources},
};
use linerate_element_support::check_failures::CheckFailures;

pub(super) const CLASS: Class = Class {
    name: "CheckIPHeader",
    family: FAMILY,
    summary: "passes packets with a sound IP header and says where it is",
    description: "Checks version, header length, length and checksum, and that the source \
        address is none that no packet may come from. What follows the IP packet, such as link \
        padding, is cut off. The header's place and the destination address become known to \
        the elements behind. Other packets leave by output 1, or are dropped when there is \
        none; the first is reported, each with `VERBOSE`.\n\n\
        `INTERFACES` are the router's own addresses with their prefixes: the broadcast address \
        of each prefix, `0.0.0.0` and `255.255.255.255` are bad sources, unless the packet is \
        for one of the router's addresses.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    drops: Reason::REASONS,
    cost: "One pass: the first line of the packet and a line of annotations. \
        The checksum of a header without options is five additions.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.0.0.1 2.0.0.2\") \
        -> CheckIPHeader(INTERFACES 2.0.0.1/24) -> Discard;",
    ..Class::for_element::<CheckIpHeader>()
};

pub(super) const CLASS_2: Class = Class {
    name: "CheckIPHeader2",
    summary: "as CheckIPHeader, without looking at the checksum",
    description: "For packets whose checksum somebody has already looked at, or will. All else \
        is as with CheckIPHeader; `CHECKSUM true` makes it one.",
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.0.0.1 2.0.0.2\") \
        -> CheckIPHeader2 -> Discard;",
    ..CLASS
};

#[derive(Arguments)]
#[arguments(check = CheckIpHeader::set_rules)]
struct CheckIpHeader {
    /// where the IP header is
    #[arg(optional, kind = "bytes", shown = "0", late, with = offset)]
    offset: u32,
    #[group]
    sources: Sources,
    /// whether to check it
    #[arg(keyword, shown = "true; false for CheckIPHeader2", with = checksum)]
    checksum: bool,
    #[group]
    unsound: CheckFailures<FAULTS>,
    rules: Rules,
}

/// Reads the offset. By its place it is an argument only where it is a number, as in Click.
fn offset(make: &mut ElementBuilder<'_>, name: &str) -> u32 {
    match make.given_by_place(name) {
        Some(text) if !text.is_empty() && parse_integer(&text).is_none() => {
            make.error("too many arguments");
            0
        }
        _ => make.or(name, 0),
    }
}

fn checksum(make: &mut ElementBuilder<'_>, name: &str) -> bool {
    let class = make.plan().elements[make.element()].class;
    make.or(name, class.name == CLASS.name)
}

impl CheckIpHeader {
    fn set_rules(&mut self, _: &mut ElementBuilder<'_>) {
        self.rules = self.sources.rules(self.checksum);
    }
}

impl Element for CheckIpHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        let CheckIpHeader { rules, unsound, offset, .. } = self;
        let offset = *offset as usize;
        let refuse = |why: Reason| unsound.refuse(why);
        let refused = if rules.checksum {
            cx.process_headers(frame, &mut Check::<_, true> { rules, offset, refuse })
        } else {
            cx.process_headers(frame, &mut Check::<_, false> { rules, offset, refuse })
        };
        if refused {
            self.unsound.report(cx, || format!("{}: IP header check failed", cx.name()));
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, _: &str) -> HandlerResult {
        self.unsound.read(cx, handler)
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        self.unsound.handler(name)
    }

    fn handler_names(&self) -> Vec<String> {
        self.unsound.handler_names()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// Addresses by their place were an older way, which Click has given up.
    #[test]
    fn by_its_place_an_offset_is_a_number() {
        for (config, error) in [
            ("18.26.4.255 2.255.255.255", Some("too many arguments")),
            ("14, 5", Some("too many arguments")),
            ("OFFSET x", Some("OFFSET: invalid number")),
        ] {
            let errors = Run::errors(&format!("Idle -> CheckIPHeader({config}) -> Discard"));
            let said: Vec<&str> = errors.lines().skip(1).map(str::trim).collect();
            assert_eq!(said.first().copied(), error, "{errors}");
            assert_eq!(said.len(), 1, "{errors}");
        }
        assert_eq!(Run::errors("Idle -> CheckIPHeader(14) -> Discard"), "");
    }
}

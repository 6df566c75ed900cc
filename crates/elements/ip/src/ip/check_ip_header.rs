//! `CheckIPHeader`: only packets with a sound IPv4 header.
//!
//! RFC 1812 sections 4.2.2.5, 4.2.2.11 and 5.2.2.

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::{Frame, PacketMut, Slot};

use super::{
    FAMILY,
    check::{Reason, Rules},
};

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
    args: ARGS,
    handlers: HANDLERS,
    annotates: true,
    drops: Reason::DROPS,
    cost: "One pass: the first line of the packet and a line of annotations. \
        The checksum of a header without options is five additions.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.0.0.1 2.0.0.2\") \
        -> CheckIPHeader(INTERFACES 2.0.0.1/24) -> Discard;",
    make: |make| Box::new(CheckIpHeader::new(make, true)),
    ..Class::here()
};

pub(super) const CLASS_2: Class = Class {
    name: "CheckIPHeader2",
    summary: "as CheckIPHeader, without looking at the checksum",
    description: "For packets whose checksum somebody has already looked at, or will. All else \
        is as with CheckIPHeader; `CHECKSUM true` makes it one.",
    cost: "One pass: the first line of the packet and a line of annotations.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.0.0.1 2.0.0.2\") \
        -> CheckIPHeader2 -> Discard;",
    make: |make| Box::new(CheckIpHeader::new(make, false)),
    ..CLASS
};

const ARGS: &[Arg] = &[
    Arg::optional("OFFSET", "bytes", "0", "where the IP header is").late(),
    Arg::keyword("INTERFACES", "address/bits list", "", "addresses and prefixes of the router"),
    Arg::keyword("BADSRC", "IP addresses", "", "source addresses to refuse"),
    Arg::keyword("GOODDST", "IP addresses", "", "destinations for which any source will do"),
    Arg::keyword("CHECKSUM", "bool", "true; false for CheckIPHeader2", "whether to check it"),
    Arg::keyword("VERBOSE", "bool", "false", "reports every bad packet"),
    Arg::keyword("DETAILS", "bool", "false", "whether there is a handler drop_details"),
];

const HANDLERS: &[Handler] = &[Handler::count("drops", "packets that were not sound")];

/// The handler that `DETAILS` adds.
const DETAILS: Handler = Handler::count("drop_details", "packets that were not sound, by reason");

struct CheckIpHeader {
    rules: Rules,
    /// Where the header is.
    offset: usize,
    verbose: bool,
    details: bool,
    has_other: bool,
    /// Packets that were not sound, by reason.
    counts: [u64; Reason::COUNT],
    failed: Vec<(Slot, Reason)>,
}

impl CheckIpHeader {
    fn new(make: &mut Make<'_>, checksum: bool) -> CheckIpHeader {
        let offset = make.or::<u32>("OFFSET", 0);
        CheckIpHeader {
            rules: Rules::from_args(make, checksum),
            offset: offset as usize,
            verbose: make.or("VERBOSE", false),
            details: make.or("DETAILS", false),
            has_other: make.outputs() > 1,
            counts: [0; Reason::COUNT],
            failed: Vec::new(),
        }
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Context) {
        let mut text = String::new();
        for (slot, reason) in self.failed.drain(..) {
            if self.verbose || self.counts.iter().all(|count| *count == 0) {
                text += &format!("{}: IP header check failed: {}\n", cx.name(), reason.text());
            }
            self.counts[reason as usize] += 1;
            if self.has_other {
                cx.out.emit(1, slot);
            } else {
                cx.drop_packet(slot, reason as usize);
            }
        }
        cx.console().report(&text);
    }
}

impl Element for CheckIpHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, Reason::NO_BUFFER);
        let CheckIpHeader { ref rules, ref mut failed, offset, .. } = *self;
        let arena = cx.pool.arena();
        arena.prefetch_packets(frame);
        let out = |slot, reason| failed.push((slot, reason));
        if rules.checksum {
            let judge = |packet: &mut PacketMut<'_>| rules.check::<true>(packet, offset);
            arena.sift_packets(frame, judge, out);
        } else {
            let judge = |packet: &mut PacketMut<'_>| rules.check::<false>(packet, offset);
            arena.sift_packets(frame, judge, out);
        }
        if !self.failed.is_empty() {
            self.refuse(cx);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.counts.iter().sum::<u64>().to_string()),
            "drop_details" if self.details => Ok(Reason::ALL
                .map(|reason| format!("{}\t{}\n", self.counts[reason as usize], reason.text()))
                .concat()),
            _ => Err(HandlerError::missing(handler)),
        }
    }

    fn handler(&self, name: &str) -> Option<&'static Handler> {
        (self.details && name == DETAILS.name).then_some(&DETAILS)
    }

    fn handler_names(&self) -> Vec<String> {
        self.details.then(|| DETAILS.name.to_owned()).into_iter().collect()
    }
}

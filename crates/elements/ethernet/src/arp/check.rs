//! `CheckARPHeader`: only packets with a sound ARP header (RFC 826).

use linerate_graph::{Arg, Class, Context, Element, Handler, HandlerError, Make};
use linerate_memory::{Frame, PacketMut, Slot};

use crate::FAMILY;

/// Bytes of the fixed part.
const FIXED: usize = 8;

pub(crate) const CLASS: Class = Class {
    name: "CheckARPHeader",
    family: FAMILY,
    summary: "passes packets with a sound ARP header",
    description: "Looks for an ARP header `OFFSET` bytes into the packet: whether the packet is as \
        long as it says, and whether addresses of Ethernet, IPv4 and IPv6 have the length of \
        theirs. Where the header is is noted for the elements behind. Other packets leave by output \
        1, or are dropped when there is none; the first is reported, each with `VERBOSE`.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[
        Arg::optional("OFFSET", "bytes", "0", "where the ARP header is"),
        Arg::keyword("VERBOSE", "bool", "false", "reports every bad packet"),
        Arg::keyword("DETAILS", "bool", "false", "whether there is a handler drop_details"),
    ],
    handlers: &[Handler::count("drops", "packets that were not sound")],
    annotates: true,
    drops: &DROPS,
    cost: "The first line of the packet and a line of annotations.",
    example: "ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> CheckARPHeader(14) \
        -> Discard; DriverManager(wait 0.1s, stop);",
    make: |make| Box::new(CheckArpHeader::new(make)),
    ..Class::here()
};

/// Drop reasons: those of a header that is not sound, and one more.
const DROPS: [&str; 5] = [
    "tiny packet",
    "too small for addresses",
    "bad hardware type/length",
    "bad protocol type/length",
    "no buffer",
];
const NO_BUFFER: usize = REASONS;
const REASONS: usize = 4;

/// The handler that `DETAILS` adds.
const DETAILS: Handler = Handler::count("drop_details", "packets that were not sound, by reason");

/// What is wrong with a packet: a place in [`DROPS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Tiny,
    Short,
    Hardware,
    Protocol,
}

/// How long a header is that begins here.
fn check(bytes: &[u8]) -> Result<usize, Wrong> {
    let fixed: &[u8; FIXED] = bytes.first_chunk().ok_or(Wrong::Tiny)?;
    let [hardware_high, hardware, protocol_high, protocol, hardware_length, protocol_length, ..] =
        *fixed;
    let length = FIXED + 2 * (usize::from(hardware_length) + usize::from(protocol_length));
    if bytes.len() < length {
        return Err(Wrong::Short);
    }
    if [hardware_high, hardware] == [0, 1] && hardware_length != 6 {
        return Err(Wrong::Hardware);
    }
    match ([protocol_high, protocol], protocol_length) {
        ([0x08, 0x00], 4) | ([0x86, 0xdd], 16) => Ok(length),
        ([0x08, 0x00] | [0x86, 0xdd], _) => Err(Wrong::Protocol),
        _ => Ok(length),
    }
}

struct CheckArpHeader {
    offset: usize,
    verbose: bool,
    details: bool,
    has_other: bool,
    /// Packets that were not sound, by reason.
    counts: [u64; REASONS],
    failed: Vec<(Slot, Wrong)>,
}

impl CheckArpHeader {
    fn new(make: &mut Make<'_>) -> CheckArpHeader {
        CheckArpHeader {
            offset: make.or::<u32>("OFFSET", 0) as usize,
            verbose: make.or("VERBOSE", false),
            details: make.or("DETAILS", false),
            has_other: make.outputs() > 1,
            counts: [0; REASONS],
            failed: Vec::new(),
        }
    }

    #[cold]
    fn refuse(&mut self, cx: &mut Context) {
        let mut text = String::new();
        for (slot, wrong) in self.failed.drain(..) {
            if self.verbose || self.counts.iter().all(|count| *count == 0) {
                text += &format!("ARP header check failed: {}\n", DROPS[wrong as usize]);
            }
            self.counts[wrong as usize] += 1;
            if self.has_other {
                cx.out.emit(1, slot);
            } else {
                cx.drop_packet(slot, wrong as usize);
            }
        }
        cx.console().report(&text);
    }
}

impl Element for CheckArpHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        cx.unshare(frame, NO_BUFFER);
        let CheckArpHeader { ref mut failed, offset, .. } = *self;
        let judge = |packet: &mut PacketMut<'_>| {
            let (bytes, meta) = packet.parts();
            let length = check(bytes.get(offset..).ok_or(Wrong::Tiny)?)?;
            meta.network = offset as u16;
            meta.transport = (offset + length) as u16;
            Ok(())
        };
        cx.pool.arena().sift_packets(frame, judge, |slot, wrong| failed.push((slot, wrong)));
        if !self.failed.is_empty() {
            self.refuse(cx);
        }
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> Result<String, HandlerError> {
        match handler {
            "drops" => Ok(self.counts.iter().sum::<u64>().to_string()),
            "drop_details" if self.details => {
                let lines = self.counts.iter().zip(DROPS);
                Ok(lines.map(|(count, reason)| format!("{count}\t{reason}\n")).collect())
            }
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

#[cfg(test)]
mod tests {
    use linerate_elements_testing::Run;

    /// What Click gives for the same packets: one sound, one of each fault, one without the header,
    /// one of a protocol it does not know.
    #[test]
    fn packets_are_judged_as_click_does() {
        for limit in [1, 7, 32, 256] {
            let mut run = Run::new(
                "InfiniteSource(\\<0001 0800 0604 0001 020000000001 0a000001 000000000000 \
                    0a000002>, LIMIT 10, BURST 10) -> c :: CheckARPHeader(DETAILS true); \
                 InfiniteSource(\\<0001 0800>, LIMIT 10, BURST 10) -> c; \
                 InfiniteSource(\\<0001 0800 0604 0001 0200>, LIMIT 20, BURST 10) -> c; \
                 InfiniteSource(\\<0001 0800 0504 0001 0200000000010a0000010000000000000a000002>, \
                    LIMIT 30, BURST 10) -> c; \
                 InfiniteSource(\\<0001 0800 0605 0001 0200000000010a000001000000000000 \
                    0a0000020000>, LIMIT 40, BURST 10) -> c; \
                 InfiniteSource(\\<0001 88b5 0601 0001 020000000001 0a 000000000000 0a>, LIMIT 5) \
                    -> c; \
                 c -> good :: Counter -> Discard; c[1] -> bad :: Counter -> Discard; \
                 DriverManager(wait 0.1s, stop)",
            )
            .frame_limit(limit);
            run.run();
            assert_eq!(
                (run.read("good.count"), run.read("bad.count")),
                ("15".into(), "100".into())
            );
            assert_eq!(run.read("c.drops"), "100");
            assert_eq!(
                run.read("c.drop_details"),
                "10\ttiny packet\n20\ttoo small for addresses\n30\tbad hardware type/length\n\
                 40\tbad protocol type/length\n"
            );
            assert_eq!(run.output().matches("ARP header check failed: ").count(), 1);
        }
    }

    #[test]
    fn the_header_is_noted_where_the_offset_says() {
        let mut run = Run::new(
            "ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> CheckARPHeader(14, \
             VERBOSE true) -> StripToNetworkHeader -> c :: Counter(BYTE_COUNT_CALL 28 stop) \
             -> Discard",
        );
        run.run();
        assert_eq!(run.read("c.byte_count"), "28");
    }
}

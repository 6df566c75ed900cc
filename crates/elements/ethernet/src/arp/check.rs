//! `CheckARPHeader`: passes packets with a sound ARP header (RFC 826).

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, Handler, HandlerResult, NoBuffer, Step,
    Verdict, Writes,
};
use linerate_memory::{Frame, PacketMut};

use crate::FAMILY;
use linerate_element_support::check_failures::CheckFailures;

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
    annotates: true,
    drops: Reason::REASONS,
    cost: "The first line of the packet and a line of annotations.",
    example: "ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> CheckARPHeader(14) \
        -> Discard; DriverManager(wait 0.1s, stop);",
    ..Class::for_element::<CheckArpHeader>()
};

/// Drop reason: a fault of the header, or one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
enum Reason {
    /// tiny packet
    Tiny,
    /// too small for addresses
    Short,
    /// bad hardware type/length
    Hardware,
    /// bad protocol type/length
    Protocol,
    #[from(NoBuffer)]
    NoBuffer,
}

/// Number of faults of a header.
const FAULTS: usize = Reason::NoBuffer as usize;

/// Returns the length of the header that begins here.
fn check(bytes: &[u8]) -> Result<usize, Reason> {
    let fixed: &[u8; FIXED] = bytes.first_chunk().ok_or(Reason::Tiny)?;
    let [hardware_high, hardware, protocol_high, protocol, hardware_length, protocol_length, ..] =
        *fixed;
    let length = FIXED + 2 * (usize::from(hardware_length) + usize::from(protocol_length));
    if bytes.len() < length {
        return Err(Reason::Short);
    }
    if [hardware_high, hardware] == [0, 1] && hardware_length != 6 {
        return Err(Reason::Hardware);
    }
    match ([protocol_high, protocol], protocol_length) {
        ([0x08, 0x00], 4) | ([0x86, 0xdd], 16) => Ok(length),
        ([0x08, 0x00] | [0x86, 0xdd], _) => Err(Reason::Protocol),
        _ => Ok(length),
    }
}

#[derive(Arguments)]
struct CheckArpHeader {
    /// where the ARP header is
    #[arg(optional, kind = "bytes", default = 0)]
    offset: u32,
    #[group]
    unsound: CheckFailures<FAULTS>,
}

impl Step<Writes, Reason> for CheckArpHeader {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let offset = self.offset as usize;
        let header = packet.bytes().get(offset..).ok_or(Reason::Tiny).and_then(check);
        let length = header.map_err(|wrong| self.unsound.refuse(wrong))?;
        packet.mark_headers(offset, offset + length);
        Ok(())
    }

    fn end(&mut self, cx: &mut Context) {
        self.unsound.report(cx, || "ARP header check failed".to_owned());
    }
}

impl Element for CheckArpHeader {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
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

    /// Click's results for the same packets: one sound, one of each fault, one without the header,
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

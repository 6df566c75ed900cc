//! `TCPIPSend`: sends TCP segments by a write handler.

use std::net::Ipv4Addr;

use linerate_graph::{
    Class, Context, DropReason, Element, Handler, HandlerError, HandlerResult, NoBuffer, TcpPort,
    Value,
};
use linerate_packet::{IpProtocol, checksum};

use super::FAMILY;
use linerate_element_support::{
    handler_values::value_of,
    ip::{
        DESTINATION, DONT_FRAGMENT, FRAGMENT, LEAST, PROTOCOL, SOURCE, TOTAL_LENGTH, TTL,
        fill_checksum, put16,
    },
};

const LENGTH: usize = 2 * LEAST;
const WINDOW: u16 = 32120;
/// The arguments that must be given.
const NEEDED: [&str; 7] = ["SRC", "SPORT", "DST", "DPORT", "SEQNO", "ACKNO", "FLAGS"];

pub(super) const CLASS: Class = Class {
    name: "TCPIPSend",
    family: FAMILY,
    summary: "makes TCP segments when they are asked for",
    description: "Segments without data, in IP packets that are not to be fragmented, whose headers \
        are known. An address is written as one, or as the number that its four bytes are in \
        this machine's byte order, which is how Click reads it.",
    ports: "0/1",
    processing: "h/h",
    handlers: &[Handler::write(
        "send",
        "makes segments: `SRC SPORT DST DPORT SEQNO ACKNO FLAGS [COUNT [STOP]]`; FLAGS is the \
         byte of the header, COUNT (1) is how many are made, STOP (false) ends the run",
    )],
    drops: NoBuffer::REASONS,
    annotates: true,
    cost: "Copies 40 bytes into each packet.",
    example: "s :: TCPIPSend -> Discard; \
        Script(write s.send 1.0.0.1 1024 2.0.0.2 80 1 0 2 10 true);",
    make: |_| Box::new(TcpIpSend),
    ..Class::here()
};

struct TcpIpSend;

/// An address, which Click reads as a number in this machine's byte order.
struct Address(Ipv4Addr);

impl Value for Address {
    fn parse(text: &str, scope: &linerate_graph::Scope<'_>) -> Result<Address, String> {
        Ipv4Addr::parse(text, scope).map(Address).or_else(|error| {
            let number = u32::parse(text, scope).map_err(|_| error)?;
            Ok(Address(Ipv4Addr::from(number.to_ne_bytes())))
        })
    }

    fn unparse(&self, _: &linerate_graph::Scope<'_>) -> String {
        self.0.to_string()
    }
}

/// Parsed arguments of the handler `send`.
struct Request {
    packet: [u8; LENGTH],
    count: u32,
    stop: bool,
}

fn argument<T: Value>(cx: &Context, name: &str, word: &str) -> Result<T, HandlerError> {
    value_of(cx, word).map_err(|error| HandlerError::refused(format!("{name}: {error}")))
}

impl Request {
    fn parse(cx: &Context, text: &str) -> Result<Request, HandlerError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if let Some(missing) = NEEDED.get(words.len()) {
            return Err(HandlerError::refused(format!("{missing}: required argument missing")));
        }
        if words.len() > NEEDED.len() + 2 {
            return Err(HandlerError::refused("too many arguments"));
        }
        let Address(source) = argument(cx, "SRC", words[0])?;
        let TcpPort(from) = argument(cx, "SPORT", words[1])?;
        let Address(destination) = argument(cx, "DST", words[2])?;
        let TcpPort(to) = argument(cx, "DPORT", words[3])?;
        let sequence: u32 = argument(cx, "SEQNO", words[4])?;
        let acknowledged: u32 = argument(cx, "ACKNO", words[5])?;
        let flags: u8 = argument(cx, "FLAGS", words[6])?;
        let count = words.get(7).map_or(Ok(1), |word| argument(cx, "COUNT", word))?;
        let stop = words.get(8).map_or(Ok(false), |word| argument(cx, "STOP", word))?;

        let mut packet = [0; LENGTH];
        (packet[0], packet[TTL], packet[PROTOCOL]) = (0x45, 255, IpProtocol::TCP.0);
        put16(&mut packet, TOTAL_LENGTH, LENGTH as u16);
        put16(&mut packet, FRAGMENT, DONT_FRAGMENT);
        packet[SOURCE..DESTINATION].copy_from_slice(&source.octets());
        packet[DESTINATION..LEAST].copy_from_slice(&destination.octets());
        fill_checksum(&mut packet);
        let segment = &mut packet[LEAST..];
        put16(segment, 0, from);
        put16(segment, 2, to);
        segment[4..8].copy_from_slice(&sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&acknowledged.to_be_bytes());
        (segment[12], segment[13]) = (0x50, flags);
        put16(segment, 14, WINDOW);
        let mut sum = checksum::pseudo_v4(source, destination, IpProtocol::TCP, LEAST as u16);
        sum.add_bytes(segment);
        put16(segment, 16, sum.finish());
        Ok(Request { packet, count, stop })
    }
}

impl Element for TcpIpSend {
    /// Emits all packets of a request before anything else happens, as in Click.
    fn write(&mut self, cx: &mut Context, _: &str, value: &str) -> HandlerResult {
        let Request { packet: bytes, count, stop } = Request::parse(cx, value)?;
        let mut frame = cx.new_frame();
        let mut left = count as usize;
        while left > 0 && cx.pool.take(&mut frame, left.min(cx.frame_limit()), LENGTH) > 0 {
            cx.begin_packets(&mut frame);
            let arena = cx.pool.arena();
            for mut packet in frame.slots_mut().iter_mut().filter_map(|slot| arena.writable(slot)) {
                packet.parts().0.copy_from_slice(&bytes);
                packet.mark_headers(0, LEAST);
            }
            left -= frame.len();
            cx.out.emit_frame(0, &mut frame);
        }
        cx.count_drops(NoBuffer, left);
        if stop {
            cx.driver.stop();
        }
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// The header fields that Click's element writes.
    const SEGMENT: &str = "4500002800004000ff0678cd 01000001 02000002 \
        0400 0050 00000001 00000000 5002 7d78 2b17 0000";

    fn sent(text: &str, frame_limit: usize) -> (String, String) {
        let mut run = Run::new(
            "s :: TCPIPSend -> c :: Counter -> q :: Queue(3) -> Unqueue -> out :: Collect; \
             Script(wait 1s, stop)",
        )
        .frame_limit(frame_limit);
        run.write("s.send", text).unwrap();
        run.run();
        (run.read("c.count"), run.read("out.packets"))
    }

    #[test]
    fn a_segment_is_sent_for_each_that_is_asked_for() {
        let segment = SEGMENT.replace(' ', "");
        let (count, packets) = sent("1.0.0.1 1024 2.0.0.2 80 1 0 2", 256);
        assert_eq!((count.as_str(), packets.as_str()), ("1", segment.as_str()));
        // All packets reach a queue of three before the first is dequeued.
        for frame_limit in [1, 7, 256] {
            let (count, packets) = sent("1.0.0.1 1024 2.0.0.2 80 1 0 2 500", frame_limit);
            assert_eq!((count.as_str(), packets.lines().count()), ("500", 3));
        }
        let (count, _) = sent("1.0.0.1 1024 2.0.0.2 80 1 0 2 0", 256);
        assert_eq!(count, "0");
    }

    #[test]
    fn the_run_ends_where_that_is_asked_for() {
        let mut run = Run::new("s :: TCPIPSend -> c :: Counter -> Discard; Idle -> Discard");
        run.write("s.send", "1.0.0.1 www 2.0.0.2 http 1 0 2 5 true").unwrap();
        run.run();
        assert_eq!(run.read("c.count"), "5");
    }

    #[test]
    fn errors_name_the_argument() {
        let mut run = Run::new("s :: TCPIPSend -> Discard");
        for (text, error) in [
            ("1.0.0.1 1 2.0.0.2 80 1 0", "FLAGS: required argument missing"),
            ("1.0.0.1 1 2.0.0.2 80 1 0 256", "FLAGS: "),
            ("nowhere 1 2.0.0.2 80 1 0 2", "SRC: "),
            ("1.0.0.1 1 2.0.0.2 80 1 0 2 1 true x", "too many arguments"),
        ] {
            let said = run.write("s.send", text).unwrap_err().to_string();
            assert!(said.contains(error), "{text}: {said}");
        }
    }
}

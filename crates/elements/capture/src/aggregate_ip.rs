//! `AggregateIP`: groups packets by a field.

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Step, Text, Verdict, Writes, unquoted,
};
use linerate_memory::{Frame, PacketMut};

use super::{
    FAMILY,
    ip_field::{Header, IpField},
};
use linerate_element_support::annotations;

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    /// no buffer for a copy
    #[from(NoBuffer)]
    NoBuffer,
}

pub(super) const CLASS: Class = Class {
    name: "AggregateIP",
    family: FAMILY,
    summary: "makes a field of the IP packet its aggregate",
    description: "`FIELD` is a header and the name of a field (`ip dst`, `tcp flags`), or a place \
        in bytes (`ip[8:2]`) or bits (`ip{96-103}`), also of the transport header (`transp`) or \
        what is behind it (`payload`); `/N` takes its first bits, `& MASK` some in a row. The \
        packet's IP header must be known (`MarkIPHeader`). Packets without the field leave by \
        output 1.",
    ports: "1/1-2",
    processing: "a/ah",
    drops: Reason::REASONS,
    annotates: true,
    cost: "Four bytes of the packet and a line of metadata: some ten cycles.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_dst, DATA \"1.2.3.4\") \
        -> AggregateIP(ip dst/24) -> AggregateCounter -> Discard;",
    ..Class::for_element::<AggregateIp>()
};

#[derive(Arguments)]
#[arguments(check = AggregateIp::place, handlers = [
    Handler::read("header", "the header it is in"),
    Handler::read("bit_offset", "first bit of the field"),
    Handler::read("bit_length", "bits of the field"),
    Handler::read("field", "the field"),
])]
struct AggregateIp {
    /// the field
    #[arg(kind = "field", with = field)]
    field: IpField,
    /// appends it to the aggregate there is
    #[arg(keyword, default = false)]
    incremental: bool,
    /// leaves parts of addresses in place
    #[arg(name = "UNSHIFT_IP_ADDR", keyword, default = false)]
    unshift: bool,
    /// Offset of the word that has the field, in bytes.
    word: usize,
    shift: u32,
    mask: u32,
}

fn field(make: &mut ElementBuilder<'_>, name: &str) -> IpField {
    let text = unquoted(&make.need::<Text>(name).0);
    IpField::parse(&text).unwrap_or_else(|error| {
        make.error(error);
        IpField { header: Header::Ip, offset: 0, length: 8 }
    })
}

impl AggregateIp {
    fn place(&mut self, make: &mut ElementBuilder<'_>) {
        let IpField { offset, length, .. } = self.field;
        let last = offset + length - 1;
        if offset / 32 != last / 32 {
            make.error("field specification does not fit within a single word");
        } else if length == 32 && self.incremental {
            make.error("'INCREMENTAL' is incompatible with field length 32");
        }
        let mask = u32::MAX >> 32_u32.saturating_sub(length).min(31);
        let shift = 31 - last % 32;
        let is_address = self.field.header == Header::Ip && (96..160).contains(&offset);
        let in_place = self.unshift && is_address;
        (self.shift, self.mask) = if in_place { (0, mask << shift) } else { (shift, mask) };
        self.word = (offset / 32 * 4) as usize;
    }

    /// Returns the offset of the field's header; `None` where the packet has none.
    #[inline]
    fn start(&self, packet: &PacketMut<'_>) -> Option<usize> {
        let (bytes, network) = (packet.bytes(), packet.network());
        if self.field.header == Header::Ip {
            return Some(network);
        }
        let ip = bytes.get(network..)?.first_chunk::<10>()?;
        if ip[6] & 0x1f != 0 || ip[7] != 0 {
            return None;
        }
        let transport = packet.transport();
        match (self.field.header, ip[9]) {
            (Header::Ip | Header::Transport, _) | (Header::TcpOrUdp, 6 | 17) => Some(transport),
            (Header::Protocol(wanted), protocol) if wanted == protocol => Some(transport),
            (Header::Payload, 6) => {
                let header: &[u8; 20] = bytes.get(transport..)?.first_chunk()?;
                Some(transport + usize::from(header[12] >> 4) * 4)
            }
            (Header::Payload, 17) => transport.checked_add(8),
            _ => None,
        }
    }

    #[inline]
    fn value(&self, packet: &PacketMut<'_>) -> Option<u32> {
        let header = packet.bytes().get(self.start(packet)?..)?;
        let word = header.get(self.word..)?.first_chunk()?;
        Some(u32::from_be_bytes(*word) >> self.shift & self.mask)
    }
}

impl Step<Writes, Reason> for AggregateIp {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let value = self.value(packet).ok_or(Exit::Output(1))?;
        let meta = packet.meta_mut();
        let before =
            if self.incremental { annotations::aggregate(meta) << self.field.length } else { 0 };
        annotations::set_aggregate(meta, before.wrapping_add(value));
        Ok(())
    }
}

impl Element for AggregateIp {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn read(&mut self, _: &mut Context, handler: &str, _: &str) -> HandlerResult {
        match handler {
            "header" => Ok(self.field.header_name()),
            "bit_offset" => Ok(self.field.offset.to_string()),
            "bit_length" => Ok(self.field.length.to_string()),
            "field" => Ok(self.field.to_string()),
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::test_files::data;
    use linerate_elements_testing::Scratch;

    use crate::testing::Run;

    /// Values are those of Click for the same capture.
    #[test]
    fn aggregates_are_those_of_click() {
        let scratch = Scratch::new("aggregate-ip");
        let (out, zoo) = (scratch.path("out"), data("zoo.pcap"));
        for (field, expected) in [
            ("ip[8:2] & 0x3F0", "48 0 0 0 1 0 0 0 1 1 2 1 1 1 1 1 1 0 0 0 16 1 1 0 0"),
            ("tcp sport", "1234 1234 80 80 7 1 20 20"),
            ("tcp flags", "2 24 16 255 2 4 1"),
            (
                "payload [0:4]",
                "1195725856 1751477356 2021161080 1953658222 1879048192 805445632 1986814318",
            ),
            ("ip{96-103}", "1 1 5 5 10 10 10 10 9 9 9 9 9 9 9 9 9 9 9 9 0 9 9 9 9"),
            ("ip proto 17 [0:2]", "53 1000 7 7 7 7 7 7 7 53"),
            ("icmp type", "8 3 11"),
        ] {
            let text = format!(
                "FromDump({zoo}, STOP true, FORCE_IP true) -> AggregateIP({field})
                 -> ToIPSummaryDump({out}, FIELDS aggregate, HEADER false)"
            );
            Run::new(&text).run();
            let found = fs::read_to_string(&out).unwrap().trim().replace('\n', " ");
            assert_eq!(found, expected, "{field}");
        }
    }

    #[test]
    fn addresses_in_place_and_incremental_aggregates() {
        let scratch = Scratch::new("aggregate-ip-more");
        let out = scratch.path("out");
        for (elements, expected) in [
            ("AggregateIP(ip src/8)", "1\n"),
            ("AggregateIP(ip src/8, UNSHIFT_IP_ADDR true)", "16777216\n"),
            ("AggregateIP(ip src/8) -> AggregateIP(ip dst/8, INCREMENTAL true)", "261\n"),
        ] {
            let text = format!(
                "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.2.3.4 5.6.7.8\")
                 -> {elements} -> ToIPSummaryDump({out}, FIELDS aggregate, HEADER false)"
            );
            Run::new(&text).run();
            assert_eq!(fs::read_to_string(&out).unwrap(), expected, "{elements}");
        }
    }

    #[test]
    fn errors_are_those_of_click() {
        for (arguments, text) in [
            ("ip[0:8]", "field specification does not fit within a single word"),
            ("ip src, INCREMENTAL true", "'INCREMENTAL' is incompatible with field length 32"),
            ("ip foo", "expected 'HEADER [NAME] [{OFFSET:LENGTH}] [/PREFIX] [& MASK]'"),
        ] {
            let errors = Run::errors(&format!("Idle -> AggregateIP({arguments}) -> Discard"));
            assert!(errors.contains(text), "{errors}");
        }
    }
}

//! `AnonymizeIPAddr`: prefix-preserving anonymization of IPv4 addresses.

mod map;
mod siphash;

use std::net::Ipv4Addr;

use linerate_graph::{
    Arguments, Class, Context, DropReason, Element, ElementBuilder, Exit, Handler, HandlerError,
    HandlerResult, NoBuffer, Step, Text, Verdict, Writes, lang::config::words, parse_integer,
    unquoted,
};
use linerate_memory::{Frame, PacketMut};
use linerate_packet::checksum::update_bytes;

use self::map::Map;
use super::FAMILY;
use linerate_element_support::{
    handler_values,
    ip::{
        CHECKSUM, LEAST, PROTOCOL, SOURCE, get16, header_length, ip_mut, is_first_fragment, put16,
    },
    random,
};

/// Reasons for which packets are dropped.
#[derive(Clone, Copy, DropReason)]
enum Reason {
    #[from(NoBuffer)]
    NoBuffer,
    /// no header of IPv4
    NoHeader,
}

const ICMP: u8 = 1;
/// ICMP error types, which quote the packet they are about: unreachable, source quench, redirect,
/// time exceeded, parameter problem.
const ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// Length of the ICMP header, and least length of the quoted packet behind its IP header.
const ICMP_HEADER: usize = 8;

pub(super) const CLASS: Class = Class {
    name: "AnonymizeIPAddr",
    family: FAMILY,
    summary: "replaces addresses by others and keeps their prefixes",
    description: "Source and destination of IPv4 headers become others. Addresses that have their \
        first bits in common become addresses that have as many in common, so networks stay \
        networks: nothing else of an address is told, but such a mapping can be attacked by \
        addresses that are known. 0.0.0.0 and 255.255.255.255 stay as they are. The header's \
        checksum is updated; so are addresses and checksum of a header that an ICMP error is about. \
        Checksums of TCP and UDP are left as they are, which are then wrong. Packets without a known \
        header of IPv4 leave by output 1.\n\n\
        The mapping is another one in each run, but where random numbers are not (`RandomSeed`). All \
        workers have the same. Nothing is remembered of addresses.",
    ports: "1/1-2",
    processing: "a/ah",
    annotates: true,
    cost: "Six hashes for each of the two addresses.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"1.0.0.1 1.0.0.2\") \
        -> AnonymizeIPAddr(CLASS 4, PRESERVE_8 \"10 127\") -> Discard;",
    make: Class::for_element::<AnonymizeIpAddr>().make,
    ..AnonymizeIpAddr::CLASS
};

#[derive(Arguments)]
#[arguments(check = AnonymizeIpAddr::make_map, handlers = [
    Handler::read("map", "what an address becomes").with_parameter(),
])]
struct AnonymizeIpAddr {
    /// leading one bits that stay: 4 for the classes A to D; 0 to 32
    #[arg(keyword, kind = "number", default = 0)]
    class: i32,
    /// first bytes of addresses that stay
    #[arg(keyword, name = "PRESERVE_8", kind = "numbers", shown = "")]
    preserve: Option<Text>,
    /// has no effect, as in Click
    #[arg(keyword, name = "SEED", default = false)]
    _seed: bool,
    #[init(Map::new(random::key(make)))]
    map: Map,
}

impl AnonymizeIpAddr {
    fn make_map(&mut self, make: &mut ElementBuilder<'_>) {
        let ones = match self.class {
            // 99 stands for all 32 bits.
            99 => 32,
            ones => ones,
        };
        if ones > 32 {
            make.error("CLASS must be between 0 and 32");
        }
        self.map.keep_ones(ones.clamp(0, 32).cast_unsigned());
        let text = self.preserve.take().map(|Text(text)| unquoted(&text)).unwrap_or_default();
        for word in words(&text) {
            match parse_integer(word).and_then(|number| u8::try_from(number).ok()) {
                Some(byte) => self.map.keep_byte(byte),
                None => return make.error("PRESERVE_8 expects integer between 0 and 255"),
            }
        }
    }

    /// Replaces the addresses of a header and updates its checksum.
    #[inline]
    fn replace(&self, ip: &mut [u8; LEAST]) {
        let place: &mut [u8; 8] = match ip.last_chunk_mut() {
            Some(place) => place,
            None => return,
        };
        let old = *place;
        for address in place.as_chunks_mut().0 {
            *address = self.map.map(u32::from_be_bytes(*address)).to_be_bytes();
        }
        let new = *place;
        let checksum = update_bytes(get16(ip, CHECKSUM), &old, &new);
        put16(ip, CHECKSUM, checksum);
    }
}

const _: () = assert!(SOURCE + 8 == LEAST, "the addresses are last");

impl Step<Writes, Reason> for AnonymizeIpAddr {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<Reason> {
        let network = packet.network();
        let ip = ip_mut(packet.bytes_mut(), network).filter(|ip| ip[0] >> 4 == 4);
        let ip = ip.ok_or(Exit::ErrorOutput(Reason::NoHeader))?;
        let (start, is_first) = (header_length(ip), is_first_fragment(ip));
        let Some((head, _)) = ip.split_first_chunk_mut::<LEAST>() else { return Ok(()) };
        self.replace(head);
        if head[PROTOCOL] == ICMP && is_first {
            self.replace_in_error(&mut ip[start..]);
        }
        Ok(())
    }
}

impl AnonymizeIpAddr {
    /// Replaces the addresses in the packet an ICMP error quotes. The ICMP checksum stays valid:
    /// the checksum of the quoted header cancels the change of its addresses.
    #[inline]
    fn replace_in_error(&self, message: &mut [u8]) {
        if !message.first().is_some_and(|kind| ERRORS.contains(kind)) {
            return;
        }
        let Some(inner) = message.get_mut(ICMP_HEADER..) else { return };
        let length = inner.first().map_or(0, |first| usize::from(first & 15) * 4);
        if length >= LEAST
            && inner.len() >= length + ICMP_HEADER
            && let Some(head) = inner.first_chunk_mut()
        {
            self.replace(head);
        }
    }
}

impl Element for AnonymizeIpAddr {
    fn push(&mut self, cx: &mut Context, _: usize, frame: &mut Frame) {
        self.pass(cx, frame);
    }

    fn take_state(&mut self, _: &mut Context, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<AnonymizeIpAddr>() {
            self.map.take_key(&old.map);
        }
    }

    fn read(&mut self, cx: &mut Context, handler: &str, parameter: &str) -> HandlerResult {
        match handler {
            "map" => {
                let address = handler_values::address(cx, parameter)?;
                Ok(Ipv4Addr::from(self.map.map(address.to_bits())).to_string())
            }
            _ => Err(HandlerError::missing(handler)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Run;

    /// The addresses behind `AnonymizeIPAddr`; the checksums must be right.
    fn mapped(arguments: &str, addresses: &str, frame_limit: usize) -> Vec<String> {
        let lines = addresses.split(' ').map(|address| format!("{address} {address}"));
        let lines: Vec<String> = lines.collect();
        let mut run = Run::new(&format!(
            "FromIPSummaryDump(STOP true, FIELDS ip_src ip_dst, DATA \"{}\")
                -> SetIPChecksum -> a :: AnonymizeIPAddr({arguments}) -> CheckIPHeader -> c :: Collect",
            lines.join("\n")
        ))
        .frame_limit(frame_limit);
        run.run();
        let packets = run.read("c.packets");
        let found: Vec<String> = packets
            .lines()
            .map(|packet| {
                assert_eq!(packet[24..32], packet[32..40], "both are mapped alike");
                let bytes = u32::from_str_radix(&packet[24..32], 16).unwrap();
                std::net::Ipv4Addr::from(bytes).to_string()
            })
            .collect();
        for (address, found) in addresses.split(' ').zip(&found) {
            assert_eq!(run.read_with("a.map", address), *found);
        }
        found
    }

    #[test]
    fn addresses_of_a_network_stay_in_one() {
        let given = "18.26.4.1 18.26.4.2 18.26.5.1 18.27.0.1 19.0.0.1 18.26.4.1 10.1.2.3";
        let found = mapped("", given, 256);
        assert_eq!(mapped("", given, 1), found);
        assert_eq!(mapped("SEED true, CLASS -1", given, 7), found);
        assert_eq!(found[0], found[5]);
        assert_eq!(found[0].rsplit_once('.').unwrap().0, found[1].rsplit_once('.').unwrap().0);
        let bits: Vec<u32> = found
            .iter()
            .map(|text| text.parse::<std::net::Ipv4Addr>().unwrap().to_bits())
            .collect();
        let common = |a: usize, b: usize| (bits[a] ^ bits[b]).leading_zeros();
        assert_eq!([common(0, 2), common(0, 3), common(0, 4)], [23, 15, 7]);
        let kept = mapped("CLASS 99, PRESERVE_8 18 10", given, 256);
        assert!(kept.iter().take(4).all(|address| address.starts_with("18.")), "{kept:?}");
        assert!(kept[6].starts_with("10."), "{kept:?}");
    }

    #[test]
    fn the_unspecified_and_the_broadcast_address_stay() {
        let mut run = Run::new(
            "Packets(45000014000000004000 450000140000000040117ad800000000ffffffff) -> MarkIPHeader
                -> a :: AnonymizeIPAddr -> c :: Collect; a [1] -> d :: Collect",
        );
        run.run();
        assert_eq!(run.read("c.packets"), "450000140000000040117ad800000000ffffffff");
        assert_eq!(run.read("d.packets"), "45000014000000004000");
    }

    #[test]
    fn icmp_errors_have_the_addresses_of_their_packets() {
        let inner = "450000201234000040117a8212000001130000020005000600080000";
        for (message, length, changes) in [
            (format!("0b00000000000000{inner}"), 56, true),
            (format!("0800000000000000{inner}"), 56, false),
            (format!("0b00000000000000{}", &inner[..54]), 55, false),
            (format!("0b00000000000000{}", inner.replacen("45", "44", 1)), 56, false),
            (format!("0b00000000000000{}", inner.replacen("45", "4f", 1)), 56, false),
            ("0b000000".into(), 24, false),
            (String::new(), 20, false),
        ] {
            let mut run = Run::new(&format!(
                "Packets(4500{length:04x}0000000040010000120000090a000001{message}) -> MarkIPHeader
                    -> SetIPChecksum -> a :: AnonymizeIPAddr -> c :: Collect"
            ));
            run.run();
            let packet = run.read("c.packets");
            let address = |text: &str| {
                let octets: [u8; 4] = u32::from_str_radix(text, 16).unwrap().to_be_bytes();
                std::net::Ipv4Addr::from(octets).to_string()
            };
            assert_eq!(address(&packet[24..32]), run.read_with("a.map", "18.0.0.9"));
            if !changes {
                assert_eq!(packet[40..], message);
                continue;
            }
            assert_eq!(address(&packet[80..88]), run.read_with("a.map", "18.0.0.1"));
            assert_eq!(address(&packet[88..96]), run.read_with("a.map", "19.0.0.2"));
            let sum = |text: &str| {
                let words = (0..text.len()).step_by(4);
                let sum: u32 =
                    words.map(|at| u32::from_str_radix(&text[at..at + 4], 16).unwrap()).sum();
                sum % 0xffff
            };
            assert_eq!(sum(&packet[56..96]), sum(&inner[..40]), "the inner header's sum");
            assert_eq!(sum(&packet[40..]), sum(&message), "the message's sum");
        }
    }

    /// The error messages are those of Click.
    #[test]
    fn errors_are_those_of_click() {
        for (arguments, error) in [
            ("CLASS 33", "CLASS must be between 0 and 32"),
            ("PRESERVE_8 256", "PRESERVE_8 expects integer between 0 and 255"),
            ("PRESERVE_8 1 x", "PRESERVE_8 expects integer between 0 and 255"),
        ] {
            let errors = Run::errors(&format!("Idle -> AnonymizeIPAddr({arguments}) -> Discard"));
            assert!(errors.ends_with(&format!("\n  {error}\n")), "{errors}");
        }
        assert_eq!(Run::errors("Idle -> AnonymizeIPAddr(PRESERVE_8 \"1 2\") -> Discard"), "");
    }
}

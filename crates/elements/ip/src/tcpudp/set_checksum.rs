//! `SetTCPChecksum`, `SetUDPChecksum`: compute the transport header's checksum.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use linerate_graph::{
    Arguments, Class, Context, DropReason, Exit, NoBuffer, Step, Verdict, Writes,
};
use linerate_memory::PacketMut;
use linerate_packet::checksum::{Sum, pseudo_v4, udp_nonzero};

use super::FAMILY;
use linerate_element_support::ip::{
    DESTINATION, FRAGMENT, FRAGMENT_OFFSET, LEAST, MORE_FRAGMENTS, NoHeader, PROTOCOL, SOURCE,
    TOTAL_LENGTH, get_four, get16, header_length, known, options, protocol, put16,
};

/// Drop reason of `SetTCPChecksum`.
#[derive(Clone, Copy, DropReason)]
enum TcpReason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// bad lengths
    BadLength,
}

/// Drop reason of `SetUDPChecksum`.
#[derive(Clone, Copy, DropReason)]
enum UdpReason {
    #[from(NoBuffer)]
    NoBuffer,
    #[from(NoHeader)]
    NoHeader,
    /// fragment or short packet
    Short,
}

pub(super) const TCP: Class = Class {
    name: "SetTCPChecksum",
    family: FAMILY,
    summary: "computes the checksum of TCP segments",
    description: "The IP header must be known and sound (`CheckIPHeader`). Packets too short for \
        a TCP header, or shorter than their IP header says, are reported and dropped. With \
        `FIXOFF` a header length that cannot be is made one that can.",
    ports: "1/1",
    annotates: true,
    cost: "Sums up every packet: some cycles for each 32 bytes.",
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_proto, DATA \"1.0.0.1 5 T\") \
        -> CheckIPHeader -> SetTCPChecksum -> Discard;",
    ..SetTcpChecksum::CLASS
};

pub(super) const UDP: Class = Class {
    name: "SetUDPChecksum",
    summary: "computes the checksum of UDP datagrams",
    description: "The IP header must be known and sound (`CheckIPHeader`). Fragments, and packets \
        shorter than their UDP header says, leave by output 1, or are dropped where there is \
        none; the first of a configuration is reported then.",
    ports: "1/1-2",
    processing: "a/ah",
    args: &[],
    drops: UdpReason::REASONS,
    example: "FromIPSummaryDump(STOP true, FIELDS ip_src sport ip_proto, DATA \"1.0.0.1 5 U\") \
        -> CheckIPHeader -> SetUDPChecksum -> Discard;",
    make: SetUdpChecksum::CLASS.make,
    ..TCP
};

/// Length of a UDP header.
const UDP_LENGTH: usize = 8;
/// Place of the checksum in it.
const UDP_CHECKSUM: usize = 6;

/// Returns the bytes under the checksum of a UDP datagram, and a sum to add them to: if no options
/// are in front of it and it is as long as its length field. The addresses of the pseudo header lie
/// in front of the datagram and are one piece with it.
#[inline(always)]
pub(super) fn plain_datagram(ip: &[u8]) -> Option<(&[u8], Sum)> {
    let head = ip.first_chunk::<{ LEAST + UDP_LENGTH }>()?;
    let length = get16(head, LEAST + 4);
    if head[0] & 15 != 5 || usize::from(length) < UDP_LENGTH {
        return None;
    }
    let mut sum = Sum::default();
    sum.add_u16(u16::from(head[PROTOCOL]));
    sum.add_u16(length);
    Some((ip.get(SOURCE..LEAST + usize::from(length))?, sum))
}

/// The sum over the pseudo header of a packet. Where a source route has hops
/// left, the last of them is the destination that counts (RFC 1122 section
/// 4.1.3.4).
#[inline]
pub(super) fn pseudo_header(ip: &[u8], length: usize) -> Sum {
    let mut destination = get_four(ip, DESTINATION);
    if header_length(ip) > LEAST {
        destination = last_hop(ip).unwrap_or(destination);
    }
    let source = Ipv4Addr::from(get_four(ip, SOURCE));
    pseudo_v4(source, destination.into(), protocol(ip), length as u16)
}

/// Returns the last address of a source route that has hops left.
#[cold]
fn last_hop(ip: &[u8]) -> Option<[u8; 4]> {
    let mut end = None;
    for (_, option) in options(&ip[LEAST..header_length(ip)]) {
        // Loose and strict source routes.
        if let [131 | 137, _, pointer, addresses @ ..] = option
            && usize::from(*pointer) + 3 <= option.len()
            && let Some(last) = addresses.last_chunk()
        {
            end = Some(*last);
        }
    }
    end
}

#[derive(Arguments)]
struct SetTcpChecksum {
    /// whether to correct the header length
    #[arg(optional, default = false)]
    fixoff: bool,
    /// Packets of the frame that were reported.
    bad: usize,
}

/// Sets the checksum; returns false if that is impossible.
fn set_tcp(ip: &mut [u8], fix: bool) -> bool {
    let (start, end) = (header_length(ip), usize::from(get16(ip, TOTAL_LENGTH)));
    let Some(length) = end.checked_sub(start).filter(|length| *length >= 20 && end <= ip.len())
    else {
        return false;
    };
    if fix {
        let words = ip[start + 12] >> 4;
        let whole = get16(ip, FRAGMENT) & (FRAGMENT_OFFSET | MORE_FRAGMENTS) == 0;
        let words = match words {
            0..5 => 5,
            _ if usize::from(words) * 4 > length && whole => (length / 4) as u8,
            _ => words,
        };
        ip[start + 12] = words << 4 | ip[start + 12] & 15;
    }
    let mut sum = pseudo_header(ip, length);
    sum.add_u16(!get16(ip, start + 16));
    sum.add_bytes(&ip[start..end]);
    put16(ip, start + 16, sum.finish());
    true
}

impl Step<Writes, TcpReason> for SetTcpChecksum {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<TcpReason> {
        if set_tcp(known(packet)?.0, self.fixoff) {
            return Ok(());
        }
        self.bad += 1;
        Err(Exit::ErrorOutput(TcpReason::BadLength))
    }

    fn end(&mut self, cx: &mut Context) {
        let bad = std::mem::take(&mut self.bad);
        cx.console().report(&"SetTCPChecksum: bad lengths\n".repeat(bad));
    }
}

/// Whether the first packet that was too short has been reported.
#[derive(Debug, Default)]
struct Reported(AtomicBool);

#[derive(Arguments)]
struct SetUdpChecksum {
    #[init(make.outputs() > 1)]
    silent: bool,
    #[init(make.world.common())]
    reported: Arc<Reported>,
    bad: bool,
}

/// Sets the checksum; returns false if that is impossible.
#[inline]
fn set_udp(ip: &mut [u8]) -> bool {
    if get16(ip, FRAGMENT) & (FRAGMENT_OFFSET | MORE_FRAGMENTS) != 0 {
        return false;
    }
    let Some((datagram, mut sum)) = plain_datagram(ip) else { return set_unusual_udp(ip) };
    // The old checksum is subtracted: its words could not be read until a zero had arrived.
    sum.add_u16(!get16(ip, LEAST + UDP_CHECKSUM));
    sum.add_bytes(datagram);
    put16(ip, LEAST + UDP_CHECKSUM, udp_nonzero(sum.finish()));
    true
}

/// Likewise for a datagram behind options, or one with a wrong length field.
#[cold]
fn set_unusual_udp(ip: &mut [u8]) -> bool {
    let start = header_length(ip);
    let length = usize::from(get16(ip, start + 4));
    // A length that is too small for the header itself is taken as it is, as Click does.
    if start + length.max(UDP_LENGTH) > ip.len() {
        return false;
    }
    put16(ip, start + UDP_CHECKSUM, 0);
    let mut sum = pseudo_header(ip, length);
    sum.add_bytes(&ip[start..start + length]);
    put16(ip, start + UDP_CHECKSUM, udp_nonzero(sum.finish()));
    true
}

impl Step<Writes, UdpReason> for SetUdpChecksum {
    #[inline]
    fn step(&mut self, packet: &mut PacketMut<'_>) -> Verdict<UdpReason> {
        if set_udp(known(packet)?.0) {
            return Ok(());
        }
        self.bad = true;
        Err(Exit::ErrorOutput(UdpReason::Short))
    }

    fn end(&mut self, cx: &mut Context) {
        let bad = std::mem::take(&mut self.bad) && !self.silent;
        if bad && !self.reported.0.swap(true, Ordering::Relaxed) {
            let class = cx.plan().elements[cx.element()].class.name;
            cx.console().report(&format!("{} :: {class}: fragment or short packet\n", cx.name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::{IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv4Options, PacketBuilder};
    use proptest::prelude::*;

    use super::*;

    /// The checksum is the one that Click sets.
    #[test]
    fn a_datagram_that_says_it_has_no_bytes_has_a_sum() {
        let mut ip = [
            0x45, 0x10, 0, 0x1c, 0, 0x42, 0, 0, 0x40, 0x11, 0x45, 0x70, 0xc6, 0x33, 0x64, 8, 10, 0,
            0, 0xd4, 1, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert!(set_udp(&mut ip));
        assert_eq!(ip[20..], [1, 0, 0, 0, 0, 0, 0xca, 0xde]);
        ip[25] = 9;
        assert!(!set_udp(&mut ip));
    }

    proptest! {
        #[test]
        fn sums_are_those_of_etherparse(
            addresses in any::<[[u8; 4]; 2]>(),
            ports: (u16, u16),
            payload in prop::collection::vec(any::<u8>(), 0..300),
            wrong: u16,
            tcp: bool,
            optional: bool,
        ) {
            let length = if tcp { 20 } else { 8 } + payload.len() as u16;
            let protocol = if tcp { IpNumber::TCP } else { IpNumber::UDP };
            let [from, to] = addresses;
            let mut header = Ipv4Header::new(length, 64, protocol, from, to).unwrap();
            if optional {
                // Says nothing, and nothing of it is summed.
                header.options = Ipv4Options::from([1, 1, 1, 0]);
            }
            let start = header.header_len();
            let builder = PacketBuilder::ip(IpHeaders::Ipv4(header, Ipv4Extensions::default()));
            let mut right = Vec::new();
            if tcp {
                builder.tcp(ports.0, ports.1, 7, 8).write(&mut right, &payload).unwrap();
            } else {
                builder.udp(ports.0, ports.1).write(&mut right, &payload).unwrap();
            }
            let mut bytes = right.clone();
            put16(&mut bytes, start + if tcp { 16 } else { 6 }, wrong);
            // Padding is no part of it.
            bytes.extend([7; 3]);
            let set = if tcp { set_tcp(&mut bytes, false) } else { set_udp(&mut bytes) };
            prop_assert!(set);
            prop_assert_eq!(&bytes[..right.len()], &right);
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 20..100), fix: bool) {
            set_tcp(&mut bytes.clone(), fix);
            set_udp(&mut bytes.clone());
        }
    }
}

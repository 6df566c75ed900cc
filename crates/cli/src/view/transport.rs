//! TCP, UDP, ICMP and `ICMPv6`.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
};

use linerate_packet::{
    IpProtocol, Tcp,
    checksum::{self, Sum},
    tcp::{Flags, TcpOption},
};

use super::{
    View, application,
    conversations::SequenceBase,
    hexadecimal, multicast, neighbors,
    network::{self, Ends},
    number,
};

const UDP_HEADER: usize = 8;
/// Places of checksums.
const UDP_CHECKSUM: usize = 6;
const TCP_CHECKSUM: usize = 16;

/// Payload of an IP packet.
pub(super) struct IpPayload<'a> {
    pub(super) ends: Ends,
    /// Set if its addresses are written already, in front of extension headers.
    pub(super) introduced: bool,
    /// As far as it was captured.
    pub(super) bytes: &'a [u8],
    /// Its length.
    pub(super) length: usize,
    /// Set for a part of a packet.
    pub(super) fragmented: bool,
    /// Its last destination, which a source route may give: checksums cover that.
    pub(super) last: IpAddr,
}

impl IpPayload<'_> {
    /// Writes the addresses.
    fn write_ends(&self, to: &mut String) {
        if !self.introduced {
            self.ends.write(to);
        }
    }

    /// Writes the addresses with ports; behind extension headers the ports alone, as tcpdump does.
    fn write_ends_with(&self, ports: (u32, u32), to: &mut String) {
        if self.introduced {
            let _ = write!(to, "{} > {}: ", ports.0, ports.1);
        } else {
            self.ends.write_with(ports, to);
        }
    }

    /// The checksum at a place that is to cover all, and the right one; `None` where not all is
    /// there.
    fn sums(&self, protocol: IpProtocol, at: usize) -> Option<(u16, u16)> {
        let whole = !self.fragmented && self.bytes.len() == self.length && self.length >= at + 2;
        let pseudo = match (self.ends.source, self.last) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                checksum::pseudo_v4(source, destination, protocol, self.length.try_into().ok()?)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                checksum::pseudo_v6(source, destination, protocol, self.length as u32)
            }
            _ => return None,
        };
        whole.then(|| sums(self.bytes, at, pseudo))
    }
}

/// A checksum, and the right one, of bytes and a sum over others.
pub(super) fn sums(bytes: &[u8], at: usize, mut besides: Sum) -> (u16, u16) {
    let said = number::<2>(bytes, at).unwrap_or(0) as u16;
    let mut bytes = bytes.to_vec();
    bytes[at..at + 2].fill(0);
    besides.add_bytes(&bytes);
    (said, besides.finish())
}

pub(super) fn write(
    carried: &IpPayload<'_>,
    protocol: IpProtocol,
    view: &mut View,
    to: &mut String,
) {
    match protocol {
        IpProtocol::TCP => tcp(carried, view, to),
        IpProtocol::UDP => udp(carried, view.style.verbose, to),
        IpProtocol::ICMP => icmp(carried, view, to),
        IpProtocol::ICMPV6 => icmp6(carried, view.style.verbose, to),
        IpProtocol::NO_NEXT => {
            carried.write_ends(to);
            to.push_str("no next header");
        }
        IpProtocol(other) => {
            carried.write_ends(to);
            let _ = write!(to, " ip-proto-{other} {}", carried.length);
        }
    }
}

fn ports(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((number::<2>(bytes, 0)?, number::<2>(bytes, 2)?))
}

fn udp(carried: &IpPayload<'_>, verbose: u8, to: &mut String) {
    let (Some(ports), Some(length)) = (ports(carried.bytes), number::<2>(carried.bytes, 4)) else {
        carried.write_ends(to);
        to.push_str("[|udp]");
        return;
    };
    carried.write_ends_with(ports, to);
    let length = if length == 0 { carried.length } else { length as usize };
    let Some(data) = length.checked_sub(UDP_HEADER) else {
        let _ = write!(to, "UDP, bad length {length} < 8");
        return;
    };
    // As in tcpdump, where one of IPv4 need not be there.
    if verbose > u8::from(carried.ends.source.is_ipv4()) && !carried.fragmented {
        match carried.sums(IpProtocol::UDP, UDP_CHECKSUM) {
            _ if number::<2>(carried.bytes, UDP_CHECKSUM) == Some(0) => to.push_str("[no cksum] "),
            Some((said, computed)) if said != checksum::udp_nonzero(computed) => {
                let _ = write!(to, "[bad udp cksum 0x{said:04x} -> 0x{computed:04x}!] ");
            }
            Some(_) => to.push_str("[udp sum ok] "),
            None => {}
        }
    }
    let end = length.min(carried.bytes.len());
    let bytes = carried.bytes.get(UDP_HEADER..end).unwrap_or_default();
    if !application::datagram(bytes, data, ports, verbose, to) {
        let _ = write!(to, "UDP, length {data}");
    }
}

fn tcp(carried: &IpPayload<'_>, view: &mut View, to: &mut String) {
    let Some(ports) = ports(carried.bytes) else {
        carried.write_ends(to);
        to.push_str("[|tcp]");
        return;
    };
    carried.write_ends_with(ports, to);
    let length = number::<1>(carried.bytes, 12).map(|first| (first >> 4) * 4);
    if let Some(length @ ..20) = length {
        let _ = write!(
            to,
            " tcp {} [bad hdr length {length} - too short, < 20]",
            carried.length.saturating_sub(length as usize)
        );
        return;
    }
    let Ok(tcp) = Tcp::new_checked(carried.bytes) else {
        to.push_str(" [|tcp]");
        return;
    };
    let data = carried.length.saturating_sub(tcp.header_len());
    let flags = tcp.flags();
    let shown = if flags.0 == 0 { "none".into() } else { flags.to_string() };
    let _ = write!(to, "Flags [{shown}]");
    if view.style.verbose > 0
        && let Some((said, computed)) = carried.sums(IpProtocol::TCP, TCP_CHECKSUM)
    {
        let _ = write!(to, ", cksum 0x{said:04x} ");
        let _ = if said == computed {
            write!(to, "(correct)")
        } else {
            write!(to, "(incorrect -> 0x{computed:04x})")
        };
    }
    let base = if view.style.absolute || !flags.contains(Flags::ACK) {
        SequenceBase::default()
    } else {
        let numbers = (tcp.seq(), tcp.ack());
        view.conversations.base(carried.ends, ports, numbers, flags.contains(Flags::SYN))
    };
    let sequence = tcp.seq().wrapping_sub(base.sequence);
    let opens_or_ends = flags.0 & (Flags::SYN | Flags::FIN | Flags::RST).0 != 0;
    if data > 0 {
        let _ = write!(to, ", seq {sequence}:{}", sequence.wrapping_add(data as u32));
    } else if opens_or_ends || view.style.verbose > 1 {
        let _ = write!(to, ", seq {sequence}");
    }
    if flags.contains(Flags::ACK) {
        let _ = write!(to, ", ack {}", tcp.ack().wrapping_sub(base.acknowledged));
    }
    let _ = write!(to, ", win {}", tcp.window());
    if flags.contains(Flags::URG) {
        let _ = write!(to, ", urg {}", tcp.urgent());
    }
    options(carried.bytes.get(20..tcp.header_len()).unwrap_or_default(), &tcp, base, to);
    let _ = write!(to, ", length {data}");
    if data > 0 {
        let bytes = carried.bytes.get(tcp.header_len()..).unwrap_or_default();
        application::stream(bytes, data, ports, view.style.verbose, to);
    }
}

fn options(bytes: &[u8], tcp: &Tcp<&[u8]>, base: SequenceBase, to: &mut String) {
    if bytes.is_empty() {
        return;
    }
    let mut texts = Vec::new();
    for option in tcp.options() {
        texts.push(match option {
            Ok(TcpOption::NoOperation) => "nop".into(),
            Ok(TcpOption::MaxSegmentSize(size)) => format!("mss {size}"),
            Ok(TcpOption::WindowScale(shift)) => format!("wscale {shift}"),
            Ok(TcpOption::SackPermitted) => "sackOK".into(),
            Ok(TcpOption::Sack(blocks)) => {
                let shown = |number: u32| number.wrapping_sub(base.selective);
                let blocks: Vec<_> = blocks
                    .iter()
                    .map(|(left, right)| format!("{{{}:{}}}", shown(left), shown(right)))
                    .collect();
                format!("sack {} {}", blocks.len(), blocks.concat())
            }
            Ok(TcpOption::Timestamps { value, echo }) => format!("TS val {value} ecr {echo}"),
            Ok(TcpOption::Other { kind, data }) => {
                format!("unknown-{kind} 0x{}", hexadecimal(data))
            }
            Err(_) => "[bad opt]".into(),
        });
    }
    // The iterator ends without a word where the list does.
    if ends_early(bytes) {
        texts.push("eol".into());
    }
    let _ = write!(to, ", options [{}]", texts.join(","));
}

/// Returns true if a list of options has an end of its own.
fn ends_early(mut bytes: &[u8]) -> bool {
    loop {
        bytes = match *bytes {
            [0, ..] => return true,
            [1, ref rest @ ..] => rest,
            [_, length, ..] if length >= 2 => match bytes.get(usize::from(length)..) {
                Some(rest) => rest,
                None => return false,
            },
            _ => return false,
        };
    }
}

fn icmp(carried: &IpPayload<'_>, view: &mut View, to: &mut String) {
    carried.write_ends(to);
    let bytes = carried.bytes;
    let (Some(kind), Some(code)) = (number::<1>(bytes, 0), number::<1>(bytes, 1)) else {
        to.push_str("[|icmp]");
        return;
    };
    to.push_str("ICMP ");
    let name = match kind {
        0 => Some("echo reply"),
        8 => Some("echo request"),
        _ => None,
    };
    let _ = match (kind, name) {
        (_, Some(name)) => echo(name, bytes, to),
        (3, _) => unreachable(code, bytes, to),
        (4, _) => write!(to, "source quench"),
        (5, _) => {
            let router = number::<4>(bytes, 4).map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from);
            let about = original(bytes).map_or(Ipv4Addr::UNSPECIFIED, |about| about.destination);
            let what = ["net", "host", "tos-net", "tos-host"].get(code as usize).unwrap_or(&"?");
            write!(to, "redirect {about} to {what} {router}")
        }
        (9, _) => write!(to, "router advertisement"),
        (10, _) => write!(to, "router solicitation"),
        (11, _) => match code {
            0 => write!(to, "time exceeded in-transit"),
            1 => write!(to, "ip reassembly time exceeded"),
            _ => write!(to, "time exceeded-#{code}"),
        },
        (12, _) => write!(to, "parameter problem - code {code}"),
        (13, _) => write!(to, "time stamp query"),
        (14, _) => write!(to, "time stamp reply"),
        _ => write!(to, "type-#{kind}"),
    };
    let _ = write!(to, ", length {}", carried.length);
    if view.style.verbose == 0 {
        return;
    }
    if !carried.fragmented && bytes.len() == carried.length && bytes.len() >= 4 {
        let (said, computed) = sums(bytes, 2, Sum::default());
        if said != computed {
            let _ = write!(to, " (wrong icmp cksum {said:x} (->{computed:x})!)");
        }
    }
    if let (3 | 4 | 5 | 11 | 12, Some(about)) = (kind, bytes.get(8..)) {
        to.push_str(if view.style.link { "\n\t" } else { "\n\tIP " });
        let length = number::<2>(about, 2).map_or(0, |length| length as usize);
        network::four(about, length.saturating_sub(about.len()), view, to);
    }
}

fn echo(name: &str, bytes: &[u8], to: &mut String) -> std::fmt::Result {
    let (id, sequence) = (number::<2>(bytes, 4), number::<2>(bytes, 6));
    write!(to, "{name}, id {}, seq {}", id.unwrap_or(0), sequence.unwrap_or(0))
}

/// The packet an ICMP error is about.
struct QuotedPacket {
    destination: Ipv4Addr,
    protocol: u32,
    port: Option<u32>,
}

fn original(bytes: &[u8]) -> Option<QuotedPacket> {
    let ip = bytes.get(8..)?;
    let header = number::<1>(ip, 0)? as usize % 16 * 4;
    Some(QuotedPacket {
        destination: number::<4>(ip, 16)?.into(),
        protocol: number::<1>(ip, 9)?,
        port: number::<2>(ip, header + 2),
    })
}

fn unreachable(code: u32, bytes: &[u8], to: &mut String) -> std::fmt::Result {
    let Some(QuotedPacket { destination, protocol, port }) = original(bytes) else {
        return write!(to, "unreachable-#{code}");
    };
    match code {
        0 => write!(to, "net {destination} unreachable"),
        1 => write!(to, "host {destination} unreachable"),
        2 => write!(to, "{destination} protocol {protocol} unreachable"),
        3 => {
            let port = port.unwrap_or(0);
            match protocol {
                6 => write!(to, "{destination} tcp port {port} unreachable"),
                17 => write!(to, "{destination} udp port {port} unreachable"),
                _ => write!(to, "{destination} protocol {protocol} port {port} unreachable"),
            }
        }
        4 => {
            let mtu = number::<2>(bytes, 6).unwrap_or(0);
            write!(to, "{destination} unreachable - need to frag")?;
            if mtu > 0 { write!(to, " (mtu {mtu})") } else { Ok(()) }
        }
        9 => write!(to, "net {destination} unreachable - admin prohibited"),
        10 => write!(to, "host {destination} unreachable - admin prohibited"),
        13 => write!(to, "host {destination} unreachable - admin prohibited filter"),
        _ => write!(to, "{destination} unreachable - #{code}"),
    }
}

fn icmp6(carried: &IpPayload<'_>, verbose: u8, to: &mut String) {
    carried.write_ends(to);
    let bytes = carried.bytes;
    if carried.length == 0 {
        to.push_str("ICMP6, length 0 (invalid)");
        return;
    }
    let (Some(kind), Some(code)) = (number::<1>(bytes, 0), number::<1>(bytes, 1)) else {
        to.push_str(" [|icmp6]");
        return;
    };
    if verbose > 0
        && let Some((said, computed)) = carried.sums(IpProtocol::ICMPV6, 2)
    {
        let _ = if said == computed {
            write!(to, "[icmp6 sum ok] ")
        } else {
            write!(to, "[bad icmp6 cksum 0x{said:04x} -> 0x{computed:04x}!] ")
        };
    }
    to.push_str("ICMP6, ");
    let _ = match kind {
        1 => write!(to, "destination unreachable, code {code}"),
        2 => write!(to, "packet too big, mtu {}", number::<4>(bytes, 4).unwrap_or(0)),
        3 => match code {
            0 => write!(to, "time exceeded in-transit"),
            _ => write!(to, "time exceeded, code {code}"),
        },
        4 => write!(to, "parameter problem, code {code}"),
        128 => echo("echo request", bytes, to),
        129 => echo("echo reply", bytes, to),
        multicast::QUERY => write!(to, "multicast listener query"),
        multicast::REPORT => write!(to, "multicast listener report"),
        multicast::DONE => write!(to, "multicast listener done"),
        neighbors::ROUTER_SOLICITATION => write!(to, "router solicitation"),
        neighbors::ROUTER_ADVERTISEMENT => write!(to, "router advertisement"),
        neighbors::SOLICITATION => write!(to, "neighbor solicitation"),
        neighbors::ADVERTISEMENT => write!(to, "neighbor advertisement"),
        neighbors::REDIRECT => write!(to, "redirect"),
        multicast::REPORT_2 => write!(to, "multicast listener report v2"),
        _ => write!(to, "type-#{kind}"),
    };
    let is_whole = match kind {
        neighbors::ROUTER_SOLICITATION..=neighbors::REDIRECT => {
            if verbose > 0 {
                let _ = write!(to, ", length {}", carried.length);
            }
            neighbors::write(kind, bytes, verbose, to)
        }
        multicast::QUERY..=multicast::DONE | multicast::REPORT_2 => {
            multicast::write(kind, bytes, carried.length, verbose, to)
        }
        _ => true,
    };
    if is_whole && verbose == 0 {
        let _ = write!(to, ", length {}", carried.length);
    }
}

//! The text of a packet, byte for byte as Click's `IPPrint` writes it.

use std::{
    fmt::{Result, Write},
    net::Ipv4Addr,
};

use linerate_graph::{Arguments, ElementBuilder, Word};
use linerate_memory::{Arena, Meta, Slot};
use linerate_packet::{IpProtocol, MacAddr};

use linerate_element_support::{
    annotations::aggregate,
    ether::{HEADER, mac_text},
    icmp_names,
    ip::{
        DESTINATION, FRAGMENT, FRAGMENT_OFFSET, IDENT, LEAST, MORE_FRAGMENTS, SOURCE, TOTAL_LENGTH,
        TTL, get_four, get16, protocol,
    },
    output::Contents,
};

/// Parts of packets to print.
#[derive(Debug, Arguments)]
#[arguments(check = PrintOptions::set_contents)]
pub(super) struct PrintOptions {
    /// begins each line
    #[arg(optional, kind = "string", default = String::new(), shown = "")]
    label: String,
    /// how to show the packet
    #[arg(name = "CONTENTS", keyword, kind = "HEX, ASCII or NONE", shown = "NONE")]
    whole: Option<Word>,
    /// how to show what is behind headers
    #[arg(name = "PAYLOAD", keyword, kind = "HEX, ASCII or NO", shown = "NO")]
    part: Option<Word>,
    /// bytes to show; all when negative
    #[arg(name = "MAXLENGTH", keyword, kind = "bytes", default = 1500)]
    most: i32,
    /// an old name of MAXLENGTH
    #[arg(name = "NBYTES", keyword, kind = "bytes", shown = "1500")]
    old_most: Option<i32>,
    /// shows the identification
    #[arg(name = "ID", keyword, default = false)]
    ident: bool,
    /// shows the time stamp
    #[arg(keyword, default = true)]
    timestamp: bool,
    /// shows the paint
    #[arg(keyword, default = false)]
    paint: bool,
    /// shows the type of service
    #[arg(keyword, default = false)]
    tos: bool,
    /// shows the time to live
    #[arg(keyword, default = false)]
    ttl: bool,
    /// shows ICMP echo numbers as they are on the wire
    #[arg(keyword, default = true)]
    swap: bool,
    /// shows the length of the IP packet
    #[arg(keyword, default = false)]
    length: bool,
    /// shows the aggregate
    #[arg(keyword, default = false)]
    aggregate: bool,
    /// Bytes behind the headers, not all.
    payload: bool,
    contents: Contents,
}

impl PrintOptions {
    fn set_contents(&mut self, make: &mut ElementBuilder<'_>) {
        self.most = self.old_most.unwrap_or(self.most);
        let written = |word: &mut Option<Word>| word.take().unwrap_or_default().0;
        let (whole, part) = (written(&mut self.whole), written(&mut self.part));
        self.contents = match whole.as_str() {
            "" => Contents::None,
            word => Contents::parse(make, word).unwrap_or_default(),
        };
        let part = match part.to_ascii_uppercase().as_str() {
            "" | "NO" | "FALSE" => Contents::None,
            "YES" | "TRUE" | "HEX" => Contents::Hex,
            "ASCII" => Contents::Ascii,
            _ => {
                // Click names the other value.
                let other = if whole.is_empty() { "no".into() } else { whole.to_ascii_uppercase() };
                make.error(format!(
                    "bad payload value '{other}'; should be 'false', 'hex', or 'ascii'"
                ));
                Contents::None
            }
        };
        if part == Contents::None {
            return;
        }
        if self.contents != Contents::None {
            make.error("specify at most one of PAYLOAD and CONTENTS");
        }
        (self.payload, self.contents) = (true, part);
    }
}

/// Text of one packet.
pub(super) struct PacketLine<'a> {
    shown: &'a PrintOptions,
    bytes: &'a [u8],
    meta: &'a Meta,
    /// The Ethernet header, where it is to be shown.
    ethernet: Option<&'a [u8; HEADER]>,
    /// Bytes from the IP header on; empty where it is absent.
    ip: &'a [u8],
    /// Bytes from the transport header to the end of the buffer.
    behind: &'a [u8],
    /// Likewise to the end of the IP packet.
    transport: &'a [u8],
    /// Bytes behind the IP header, by its length.
    payload_length: i32,
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(get_four(bytes, at))
}

/// The name of a protocol.
fn protocol_name(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "icmp",
        2 => "igmp",
        4 => "ipip",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        132 => "sctp",
        _ => return None,
    })
}

const TRUNCATED_ICMP: &str = "truncated-icmp";

impl<'a> PacketLine<'a> {
    /// Prepares the line of a packet whose network header is known.
    pub(super) fn new(shown: &'a PrintOptions, arena: &'a Arena, slot: &'a Slot) -> PacketLine<'a> {
        let (bytes, meta) = (arena.packet(slot), arena.meta(slot));
        let ip = bytes.get(arena.network(slot)..).unwrap_or_default();
        let header = ip.first().map_or(0, |first| i32::from(first & 15) * 4);
        let payload_length = i32::from(get16(ip, TOTAL_LENGTH)) - header;
        let transport = meta.transport.index(slot.headroom());
        let behind = bytes.get(transport..).unwrap_or_default();
        let end = usize::try_from(payload_length).unwrap_or(0).min(behind.len());
        let transport = &behind[..end];
        PacketLine { shown, bytes, meta, ethernet: None, ip, behind, transport, payload_length }
    }

    pub(super) fn with_ethernet(self, ethernet: Option<&'a [u8; HEADER]>) -> PacketLine<'a> {
        PacketLine { ethernet, ..self }
    }

    pub(super) fn write(&self, to: &mut String) {
        // Writing to a string cannot fail.
        let _ = self.write_all(to);
    }

    fn write_all(&self, to: &mut String) -> Result {
        let (shown, meta) = (self.shown, self.meta);
        if !shown.label.is_empty() {
            write!(to, "{}: ", shown.label)?;
        }
        if shown.timestamp {
            let (seconds, rest) = (meta.timestamp / 1_000_000_000, meta.timestamp % 1_000_000_000);
            match rest % 1000 {
                0 => write!(to, "{seconds}.{:06}: ", rest / 1000)?,
                _ => write!(to, "{seconds}.{rest:09}: ")?,
            }
        }
        if shown.aggregate {
            write!(to, "#{}", aggregate(meta))?;
        }
        if shown.paint {
            let before = if shown.aggregate { "." } else { "paint " };
            write!(to, "{before}{}", meta.paint)?;
        }
        if shown.aggregate || shown.paint {
            to.push_str(": ");
        }
        if let Some([to0, to1, to2, to3, to4, to5, from @ .., _, _]) = self.ethernet {
            let destination = MacAddr([*to0, *to1, *to2, *to3, *to4, *to5]);
            write!(to, "{} > {}: ", mac_text(MacAddr(*from)), mac_text(destination))?;
        }
        if self.ip.len() < LEAST {
            to.push_str("truncated-ip");
        } else {
            self.packet(to)?;
        }
        to.push('\n');
        Ok(())
    }

    fn packet(&self, to: &mut String) -> Result {
        let (shown, ip) = (self.shown, self.ip);
        let (ident, length) = (get16(ip, IDENT), get16(ip, TOTAL_LENGTH));
        if shown.ident {
            write!(to, "id {ident} ")?;
        }
        if shown.ttl {
            write!(to, "ttl {} ", ip[TTL])?;
        }
        if shown.tos {
            write!(to, "tos {} ", ip[1])?;
        }
        if shown.length {
            write!(to, "length {length} ")?;
        }
        match protocol(ip) {
            IpProtocol::TCP => self.tcp(to)?,
            IpProtocol::UDP => self.udp(to)?,
            IpProtocol::ICMP => self.icmp(to)?,
            IpProtocol(other) => {
                self.addresses(to)?;
                write!(to, ": ip-proto-{other}")?;
            }
        }
        let fragment = get16(ip, FRAGMENT);
        if fragment & (FRAGMENT_OFFSET | MORE_FRAGMENTS) != 0 {
            let offset = u32::from(fragment & FRAGMENT_OFFSET) * 8;
            let more = if fragment & MORE_FRAGMENTS != 0 { "+" } else { "" };
            write!(to, " (frag {ident}:{}@{offset}{more})", self.payload_length)?;
        }
        self.contents(to)
    }

    fn is_first(&self) -> bool {
        get16(self.ip, FRAGMENT) & FRAGMENT_OFFSET == 0
    }

    fn addresses(&self, to: &mut String) -> Result {
        let [source, destination] =
            [SOURCE, DESTINATION].map(|at| Ipv4Addr::from(get_four(self.ip, at)));
        write!(to, "{source} > {destination}")
    }

    /// Addresses with ports; `false` where there are none.
    fn ends(&self, to: &mut String, name: &str) -> std::result::Result<bool, std::fmt::Error> {
        if self.transport.len() < 4 || !self.is_first() {
            self.addresses(to)?;
            let truncated = if self.is_first() { "truncated-" } else { "" };
            write!(to, ": {truncated}{name}")?;
            return Ok(false);
        }
        let [source, destination] =
            [SOURCE, DESTINATION].map(|at| Ipv4Addr::from(get_four(self.ip, at)));
        let (from, port) = (get16(self.transport, 0), get16(self.transport, 2));
        write!(to, "{source}.{from} > {destination}.{port}: ")?;
        Ok(true)
    }

    fn tcp(&self, to: &mut String) -> Result {
        if !self.ends(to, "tcp")? {
            return Ok(());
        }
        let tcp = self.transport;
        if tcp.len() < 14 {
            to.push_str("truncated-tcp");
            return Ok(());
        }
        let flags = tcp[13];
        let mut length = self.payload_length - i32::from(tcp[12] >> 4) * 4;
        for (bit, letter, counts) in [(2, 'S', 1), (1, 'F', 1), (4, 'R', 0), (8, 'P', 0)] {
            if flags & bit != 0 {
                to.push(letter);
                length += counts;
            }
        }
        if flags & 15 == 0 {
            to.push('.');
        }
        let first = get32(tcp, 4);
        let last = first.wrapping_add_signed(length);
        let total = get16(self.ip, TOTAL_LENGTH);
        write!(to, " {first}:{last}({length},{},{total})", self.bytes.len())?;
        if flags & 16 != 0 {
            write!(to, " ack {}", get32(tcp, 8))?;
        }
        if tcp.len() < 16 {
            to.push_str("truncated-tcp");
            return Ok(());
        }
        write!(to, " win {}", get16(tcp, 14))
    }

    fn udp(&self, to: &mut String) -> Result {
        if !self.ends(to, "udp")? {
            return Ok(());
        }
        if self.transport.len() < 8 {
            to.push_str("truncated-udp");
            return Ok(());
        }
        write!(to, "udp {}", get16(self.transport, 4))
    }

    fn icmp(&self, to: &mut String) -> Result {
        self.addresses(to)?;
        to.push_str(": ");
        let icmp = self.transport;
        if !self.is_first() {
            to.push_str("icmp");
            return Ok(());
        }
        let &[kind, code, ..] = icmp else {
            to.push_str(TRUNCATED_ICMP);
            return Ok(());
        };
        let code_name = icmp_names::name(Some(kind), code.into());
        match kind {
            0 | 8 => {
                to.push_str(if kind == 0 { "icmp echo-reply " } else { "icmp echo " });
                if icmp.len() < 8 {
                    to.push_str(TRUNCATED_ICMP);
                    return Ok(());
                }
                let number =
                    |at| if self.shown.swap { get16(icmp, at) } else { get16(icmp, at).to_be() };
                write!(to, "({}, {})", number(4), number(6))
            }
            3 => self.unreachable(to, code, code_name),
            _ => {
                to.push_str("icmp ");
                match icmp_names::name(None, kind.into()) {
                    Some(name) => to.push_str(name),
                    None => write!(to, "type {kind}")?,
                }
                match (code_name, code) {
                    (Some(name), _) => write!(to, " {name}"),
                    (None, 0) => Ok(()),
                    (None, code) => write!(to, " code {code}"),
                }
            }
        }
    }

    fn unreachable(&self, to: &mut String, code: u8, name: Option<&str>) -> Result {
        let icmp = self.transport;
        let reason = name.map_or_else(|| format!("code {code}"), str::to_owned);
        let Some(quoted) = icmp.get(8..).filter(|quoted| quoted.len() >= LEAST) else {
            return write!(to, "icmp unreachable {reason} {TRUNCATED_ICMP}");
        };
        let destination = Ipv4Addr::from(get_four(quoted, DESTINATION));
        write!(to, "icmp {destination} unreachable {reason}")?;
        let number = protocol(quoted).0;
        match (code, protocol_name(number)) {
            (2, Some(name)) => write!(to, " {name}")?,
            (2, None) => write!(to, " {number}")?,
            (3, name) => {
                match name {
                    Some(name) => write!(to, " {name}")?,
                    None => write!(to, " protocol {number}")?,
                }
                let header = usize::from(quoted[0] & 15) * 4;
                match quoted.get(header..).filter(|ports| ports.len() >= 4) {
                    Some(ports) => write!(to, "/{}", get16(ports, 2))?,
                    None => to.push_str(TRUNCATED_ICMP),
                }
            }
            (4, _) if get16(icmp, 6) != 0 => write!(to, " (mtu {})", get16(icmp, 6))?,
            _ => {}
        }
        Ok(())
    }

    /// The bytes that are shown.
    fn data(&self) -> &'a [u8] {
        if !self.shown.payload {
            return self.bytes;
        }
        let skip = match protocol(self.ip) {
            IpProtocol::TCP if self.is_first() => {
                self.behind.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4)
            }
            IpProtocol::UDP if self.is_first() => 8,
            _ => 0,
        };
        self.behind.get(skip..).unwrap_or_default()
    }

    fn contents(&self, to: &mut String) -> Result {
        let data = self.data();
        let most = usize::try_from(self.shown.most).unwrap_or(usize::MAX);
        for (at, byte) in data.iter().take(most).enumerate() {
            let (line, group) = match self.shown.contents {
                Contents::None => return Ok(()),
                Contents::Hex => (24, 4),
                Contents::Ascii => (48, 8),
            };
            if at % line == 0 {
                to.push_str("\n  ");
            } else if at % group == 0 {
                to.push(' ');
            }
            match (self.shown.contents, byte) {
                (Contents::Hex, byte) => write!(to, "{byte:02x}")?,
                (_, 32..=126) => to.push(char::from(*byte)),
                _ => to.push('.'),
            }
        }
        Ok(())
    }
}

//! BOOTP and DHCP (RFC 951, RFC 2131) in the format of tcpdump, with the options of RFC 2132 and of
//! later RFCs that tcpdump names.

use std::{fmt::Write as _, net::Ipv4Addr};

use linerate_packet::MacAddr;

use super::{dump, number};

/// Offsets of the fields `sname`, `file` and `options` (`vend` in BOOTP).
const SERVER_NAME: usize = 44;
const FILE: usize = 108;
const VENDOR: usize = 236;
/// Magic cookie in front of the options (RFC 1497).
const COOKIE: u32 = 0x6382_5363;
const PAD: u8 = 0;
const END: u8 = 255;

/// Output format of an option's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Addresses,
    /// Pairs of addresses.
    Pairs,
    Longs,
    Signed,
    Shorts,
    Bytes,
    Text,
    Flags,
    /// Integers of 4, 2 or 1 bytes, by the length of the option.
    Unknown,
    Node,
    Overload,
    Message,
    /// Option codes.
    List,
    Client,
    Classes,
    Name,
    Agent,
    Routes,
}

use Form::{
    Addresses, Agent, Bytes, Classes, Client, Flags, List, Longs, Message, Name, Node, Overload,
    Pairs, Routes, Shorts, Signed, Text, Unknown,
};

/// Option codes with their names and formats.
const OPTIONS: &[(u8, &str, Form)] = &[
    (1, "Subnet-Mask", Addresses),
    (2, "Time-Zone", Signed),
    (3, "Default-Gateway", Addresses),
    (4, "Time-Server", Addresses),
    (5, "IEN-Name-Server", Addresses),
    (6, "Domain-Name-Server", Addresses),
    (7, "LOG", Addresses),
    (8, "CS", Addresses),
    (9, "LPR-Server", Addresses),
    (10, "IM", Addresses),
    (11, "RL", Addresses),
    (12, "Hostname", Text),
    (13, "BS", Shorts),
    (14, "DP", Text),
    (15, "Domain-Name", Text),
    (16, "SS", Addresses),
    (17, "RP", Text),
    (18, "EP", Text),
    (19, "IPF", Flags),
    (20, "SRT", Flags),
    (21, "PF", Pairs),
    (22, "RSZ", Shorts),
    (23, "TTL", Bytes),
    (24, "MTU-Timeout", Longs),
    (25, "MTU-Table", Shorts),
    (26, "MTU", Shorts),
    (27, "LSN", Flags),
    (28, "BR", Addresses),
    (29, "MD", Flags),
    (30, "MS", Flags),
    (31, "Router-Discovery", Flags),
    (32, "RSA", Addresses),
    (33, "Static-Route", Pairs),
    (34, "UT", Flags),
    (35, "AT", Longs),
    (36, "IE", Flags),
    (37, "TT", Bytes),
    (38, "KI", Longs),
    (39, "KG", Flags),
    (40, "YD", Text),
    (41, "YS", Addresses),
    (42, "NTP", Addresses),
    (43, "Vendor-Option", Bytes),
    (44, "Netbios-Name-Server", Addresses),
    (45, "WDD", Addresses),
    (46, "Netbios-Node", Node),
    (47, "Netbios-Scope", Text),
    (48, "XFS", Addresses),
    (49, "XDM", Addresses),
    (50, "Requested-IP", Addresses),
    (51, "Lease-Time", Longs),
    (52, "OO", Overload),
    (53, "DHCP-Message", Message),
    (54, "Server-ID", Addresses),
    (55, "Parameter-Request", List),
    (56, "MSG", Text),
    (57, "MSZ", Shorts),
    (58, "RN", Longs),
    (59, "RB", Longs),
    (60, "Vendor-Class", Text),
    (61, "Client-ID", Client),
    (64, "N+D", Shorts),
    (65, "N+S", Addresses),
    (66, "TFTP", Text),
    (67, "BF", Text),
    (68, "MH", Addresses),
    (69, "SMTP", Addresses),
    (70, "POP3", Addresses),
    (71, "NNTP", Addresses),
    (72, "WWW", Addresses),
    (73, "FG", Addresses),
    (74, "IRC", Addresses),
    (75, "STS", Addresses),
    (76, "STDA", Addresses),
    (77, "User-Class", Classes),
    (78, "SLP-DA", Bytes),
    (79, "SLP-SCOPE", Bytes),
    (80, "SLP-NA", Text),
    (81, "FQDN", Name),
    (82, "Agent-Information", Agent),
    (83, "ARMT", Bytes),
    (88, "TZSTR", Text),
    (89, "FQDNS", Bytes),
    (90, "AUTH", Bytes),
    (91, "Last-Transaction-Time", Signed),
    (92, "Associated-IP", Addresses),
    (93, "ARCH", Shorts),
    (94, "NDI", Bytes),
    (95, "LDAP", Text),
    (97, "GUID", Bytes),
    (98, "UAP", Text),
    (100, "POSIX-TZ", Text),
    (101, "TZ-Name", Text),
    (112, "NI", Addresses),
    (113, "NITAG", Text),
    (114, "URL", Text),
    (116, "NOAUTO", Flags),
    (117, "NSSEARCH", Shorts),
    (118, "SUBNET", Addresses),
    (121, "Classless-Static-Route", Routes),
    (150, "TFTP-Server-Address", Addresses),
    (161, "MUD-URL", Text),
    (249, "Classless-Static-Route-Microsoft", Routes),
];

const MESSAGES: [&str; 13] = [
    "Discover",
    "Offer",
    "Request",
    "Decline",
    "ACK",
    "NACK",
    "Release",
    "Inform",
    "",
    "LeaseQuery",
    "LeaseUnassigned",
    "LeaseUnknown",
    "LeaseActive",
];

/// Writes a message of `length` bytes on the wire, of which `bytes` were captured.
pub(super) fn write(bytes: &[u8], length: usize, verbose: u8, to: &mut String) {
    let Some(operation) = number::<1>(bytes, 0) else {
        to.push_str("BOOTP/DHCP [|bootp]");
        return;
    };
    let mac = bytes.get(28..).and_then(<[u8]>::first_chunk::<6>).copied().map(MacAddr);
    let ethernet = number::<1>(bytes, 1) == Some(1) && number::<1>(bytes, 2) == Some(6);
    to.push_str("BOOTP/DHCP, ");
    let _ = match operation {
        1 => write!(to, "Request"),
        2 => write!(to, "Reply"),
        other => write!(to, "unknown (0x{other:02x})"),
    };
    if let (1, true, Some(mac)) = (operation, ethernet, mac) {
        let _ = write!(to, " from {mac}");
    }
    let _ = write!(to, ", length {length}");
    if verbose == 0 {
        return;
    }
    let numbers = [
        (", hops ", number::<1>(bytes, 3), false),
        (", xid ", number::<4>(bytes, 4), true),
        (", secs ", number::<2>(bytes, 8), false),
    ];
    for (name, value, hex) in numbers {
        if let Some(value @ 1..) = value {
            let _ = if hex { write!(to, "{name}{value:#x}") } else { write!(to, "{name}{value}") };
        }
    }
    let broadcast = number::<2>(bytes, 10).is_some_and(|flags| flags & 0x8000 != 0);
    let _ = write!(to, ", Flags [{}]", if broadcast { "Broadcast" } else { "none" });
    if verbose > 1 {
        let _ = write!(to, " (0x{:04x})", number::<2>(bytes, 10).unwrap_or(0));
    }
    for (name, at) in [("Client-IP", 12), ("Your-IP", 16), ("Server-IP", 20), ("Gateway-IP", 24)] {
        if let Some(address @ 1..) = number::<4>(bytes, at) {
            let _ = write!(to, "\n\t  {name} {}", Ipv4Addr::from(address));
        }
    }
    if let (true, Some(mac)) = (ethernet, mac) {
        let _ = write!(to, "\n\t  Client-Ethernet-Address {mac}");
    }
    if behind_addresses(bytes, to).is_none() {
        to.push_str(" [|bootp]");
    }
}

/// Writes server name, boot file and options; returns `None` if the message is truncated.
fn behind_addresses(bytes: &[u8], to: &mut String) -> Option<()> {
    for (name, at, end) in [("sname", SERVER_NAME, FILE), ("file", FILE, VENDOR)] {
        if *bytes.get(at)? != 0 {
            let text = bytes.get(at..end)?.split(|byte| *byte == 0).next().unwrap_or_default();
            let _ = write!(to, "\n\t  {name} \"{}\"", visible(text));
        }
    }
    match number::<4>(bytes, VENDOR)? {
        COOKIE => {
            let _ =
                write!(to, "\n\t  Vendor-rfc1048 Extensions\n\t    Magic Cookie 0x{COOKIE:08x}");
            options(bytes.get(VENDOR + 4..)?, to)
        }
        0 => Some(()),
        other => {
            let _ = write!(to, "\n\t  Vendor-#0x{other:x}");
            Some(())
        }
    }
}

/// Writes a line per option; returns `None` if the last option is truncated.
fn options(mut bytes: &[u8], to: &mut String) -> Option<()> {
    while let Some((kind, rest)) = bytes.split_first() {
        match *kind {
            PAD => bytes = rest,
            END => break,
            kind => {
                let (length, rest) = rest.split_first()?;
                let (name, form) = option(kind);
                let _ = write!(to, "\n\t    {name} ({kind}), length {length}");
                if *length > 0 {
                    to.push_str(": ");
                }
                let (data, rest) = rest.split_at_checked(usize::from(*length))?;
                let left = value(form, data, to);
                if left > 0 {
                    let _ = write!(to, "\n\t  trailing data length {left}");
                }
                bytes = rest;
            }
        }
    }
    Some(())
}

fn option(kind: u8) -> (&'static str, Form) {
    match kind {
        PAD => ("PAD", Bytes),
        END => ("END", Bytes),
        kind => {
            let found = OPTIONS.iter().find(|(known, ..)| *known == kind);
            found.map_or(("Unknown", Unknown), |(_, name, form)| (name, *form))
        }
    }
}

/// Writes the data of an option; returns the number of trailing bytes outside of its format.
fn value(form: Form, data: &[u8], to: &mut String) -> usize {
    match form {
        Addresses => list(data, ",", to, |four: [u8; 4]| Ipv4Addr::from(four).to_string()),
        Pairs => list(data, ",", to, |eight: [u8; 8]| {
            let [one, other] = [0, 4].map(|at| number::<4>(&eight, at).unwrap_or(0));
            format!("({}:{})", Ipv4Addr::from(one), Ipv4Addr::from(other))
        }),
        Longs => list(data, ",", to, |four| u32::from_be_bytes(four).to_string()),
        Signed => list(data, ",", to, |four| i32::from_be_bytes(four).to_string()),
        Shorts => list(data, ",", to, |two| u16::from_be_bytes(two).to_string()),
        Bytes => list(data, ".", to, |[byte]| byte.to_string()),
        Flags => list(data, ",", to, |[byte]| match byte {
            0 => "N".into(),
            1 => "Y".into(),
            other => format!("{other}?"),
        }),
        Unknown if data.len().is_multiple_of(4) => value(Longs, data, to),
        Unknown if data.len().is_multiple_of(2) => value(Shorts, data, to),
        Unknown => value(Bytes, data, to),
        Message if data.len() != 1 => value(Bytes, data, to),
        Agent => agent(data, to),
        Text => {
            let _ = write!(to, "\"{}\"", visible(data));
            0
        }
        _ => {
            // An error message takes the place of the malformed part.
            if let Err(wrong) = of_its_own(form, data, to) {
                let _ = write!(to, "[ERROR: {wrong}]");
            }
            // Both have one byte of data.
            if matches!(form, Node | Overload) { data.len().saturating_sub(1) } else { 0 }
        }
    }
}

/// Writes a sequence of values of `SIZE` bytes; returns the number of bytes left over.
fn list<const SIZE: usize>(
    data: &[u8],
    between: &str,
    to: &mut String,
    show: impl Fn([u8; SIZE]) -> String,
) -> usize {
    let (values, left) = data.as_chunks::<SIZE>();
    let texts: Vec<String> = values.iter().map(|value| show(*value)).collect();
    to.push_str(&texts.join(between));
    left.len()
}

/// Writes data of a format with a syntax of its own; returns an error text for malformed data.
fn of_its_own(form: Form, data: &[u8], to: &mut String) -> Result<(), String> {
    let least = match form {
        Routes => 5,
        Name => 3,
        Classes => 2,
        List => 0,
        _ => 1,
    };
    if data.len() < least {
        return Err(format!("length < {least} bytes"));
    }
    match form {
        Message => match MESSAGES.get(usize::from(data[0]).wrapping_sub(1)) {
            Some(name) if !name.is_empty() => to.push_str(name),
            _ => drop(write!(to, "Unknown ({})", data[0])),
        },
        Node => one_of(data[0], &[(1, "b-node"), (2, "p-node"), (4, "m-node"), (8, "h-node")], to),
        Overload => one_of(data[0], &[(1, "file"), (2, "sname"), (3, "file+sname")], to),
        List => {
            for (at, kind) in data.iter().enumerate() {
                to.push_str(if at % 4 == 0 { "\n\t      " } else { ", " });
                let _ = write!(to, "{} ({kind})", option(*kind).0);
            }
        }
        Client => client(data, to),
        Name => full_name(data, to),
        Classes => classes(data, to)?,
        _ => routes(data, to)?,
    }
    Ok(())
}

fn one_of(value: u8, names: &[(u8, &str)], to: &mut String) {
    match names.iter().find(|(known, _)| *known == value) {
        Some((_, name)) => to.push_str(name),
        None => drop(write!(to, "#{value}")),
    }
}

/// Writes a client identifier: a text, or a hardware type and an address.
fn client(data: &[u8], to: &mut String) {
    let (kind, rest) = (data[0], &data[1..]);
    let _ = match kind {
        0 => write!(to, "\"{}\"", visible(rest)),
        1 => write!(to, "ether {}", colons(rest)),
        6 => write!(to, "ieee802 {}", colons(rest)),
        7 => write!(to, "arcnet {}", colons(rest)),
        15 => write!(to, "frelay {}", colons(rest)),
        23 => write!(to, "strip {}", colons(rest)),
        24 => write!(to, "ieee1394 {}", colons(rest)),
        other => write!(to, "hardware-type {other}, {}", colons(rest)),
    };
}

pub(super) fn colons(bytes: &[u8]) -> String {
    let texts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    texts.join(":")
}

/// Writes a client FQDN: flags, two RCODEs and the name (RFC 4702).
fn full_name(data: &[u8], to: &mut String) {
    let flags: String = [(1, 'S'), (2, 'O'), (4, 'E'), (8, 'N')]
        .into_iter()
        .filter(|(bit, _)| data[0] & bit != 0)
        .map(|(_, letter)| letter)
        .collect();
    if !flags.is_empty() {
        let _ = write!(to, "[{flags}] ");
    }
    if data[1] != 0 || data[2] != 0 {
        let _ = write!(to, "{}/{} ", data[1], data[2]);
    }
    let _ = write!(to, "\"{}\"", visible(&data[3..]));
}

/// Writes user classes, each of them a length and a text (RFC 3004).
fn classes(mut data: &[u8], to: &mut String) -> Result<(), String> {
    for number in 1.. {
        let Some((length, rest)) = data.split_first() else { break };
        let _ = write!(to, "\n\t      instance#{number}: ");
        if *length == 0 {
            return Err("suboption length must be non-zero".into());
        }
        let text = rest.split_at_checked(usize::from(*length));
        let (text, rest) = text.ok_or("invalid option")?;
        let _ = write!(to, "\"{}\", length {length}", visible(text));
        data = rest;
    }
    Ok(())
}

/// Writes classless static routes: prefix length, significant octets, router (RFC 3442).
fn routes(mut data: &[u8], to: &mut String) -> Result<(), String> {
    let mut before = "";
    while let Some((width, rest)) = data.split_first() {
        to.push_str(before);
        before = ",";
        let width = usize::from(*width);
        if width > 32 {
            return Err(format!("Mask width ({width}) > 32"));
        }
        let octets = width.div_ceil(8);
        let Some((route, rest)) = rest.split_at_checked(octets + 4) else {
            return Err(format!("Remaining length ({}) < {} bytes", rest.len(), octets + 4));
        };
        let mut network = [0; 4];
        network[..octets].copy_from_slice(&route[..octets]);
        let router = Ipv4Addr::from(number::<4>(route, octets).unwrap_or(0));
        let _ = match width {
            0 => write!(to, "(default:{router})"),
            width => write!(to, "({}/{width}:{router})", Ipv4Addr::from(network)),
        };
        data = rest;
    }
    Ok(())
}

/// Writes the sub-options of a relay agent (RFC 3046); returns the number of bytes left over.
fn agent(mut data: &[u8], to: &mut String) -> usize {
    while let [kind, length, rest @ ..] = data {
        let name = match kind {
            1 => "Circuit-ID",
            2 => "Remote-ID",
            6 => "Subscriber-ID",
            _ => "Unknown",
        };
        let _ = write!(to, "\n\t      {name} SubOption {kind}, length {length}: ");
        let Some((option, rest)) = rest.split_at_checked(usize::from(*length)) else {
            to.push_str("length goes past end of option");
            return 0;
        };
        match kind {
            1 | 2 | 6 => to.push_str(&visible(option)),
            _ => dump(option, "\n\t\t", to),
        }
        data = rest;
    }
    data.len()
}

/// Formats bytes as text: control characters in caret notation, the high bit as `M-`.
fn visible(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if *byte >= 0x80 {
            text.push_str("M-");
        }
        match byte & 0x7f {
            plain @ b' '..=b'~' => text.push(plain.into()),
            control => text.extend(['^', (control ^ 0x40).into()]),
        }
    }
    text
}

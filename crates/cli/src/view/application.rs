//! Requests and answers of applications that are known by their ports: DNS, DHCP and HTTP.

use std::{
    fmt::Write as _,
    net::{Ipv4Addr, Ipv6Addr},
};

use super::{dhcp, number};

const DNS: u32 = 53;
const MDNS: u32 = 5353;
const DHCP: [u32; 2] = [67, 68];
const HTTP: [u32; 3] = [80, 8080, 3128];
/// Bytes of a DNS header.
const DNS_HEADER: usize = 12;
/// Names are followed through so many pointers.
const POINTERS: usize = 64;

/// Writes the data of a datagram, `length` bytes if all were there; `false` where its ports are those of
/// nothing that is known.
pub(super) fn datagram(
    bytes: &[u8],
    length: usize,
    ports: (u32, u32),
    verbose: u8,
    to: &mut String,
) -> bool {
    let has = |port: u32| ports.0 == port || ports.1 == port;
    if has(DNS) || has(MDNS) {
        dns(bytes, length, has(MDNS) && !has(DNS), verbose, to);
    } else if DHCP.into_iter().any(has) {
        dhcp::write(bytes, length, verbose, to);
    } else {
        return false;
    }
    true
}

/// Writes the application's text of a segment's data.
pub(super) fn stream(bytes: &[u8], length: usize, ports: (u32, u32), verbose: u8, to: &mut String) {
    if ports.0 == DNS || ports.1 == DNS {
        to.push(' ');
        dns_in_stream(bytes, length, verbose, to);
    } else if HTTP.into_iter().any(|port| ports.0 == port || ports.1 == port) {
        to.push_str(": HTTP");
        if is_http(bytes) {
            text_lines(bytes, length, verbose, to);
        }
    }
}

/// Returns true if text begins with a method, or a version and a status.
fn is_http(bytes: &[u8]) -> bool {
    const METHODS: [&str; 37] = [
        "GET",
        "PUT",
        "COPY",
        "HEAD",
        "LOCK",
        "MOVE",
        "POLL",
        "POST",
        "BCOPY",
        "BMOVE",
        "MKCOL",
        "TRACE",
        "LABEL",
        "MERGE",
        "DELETE",
        "SEARCH",
        "UNLOCK",
        "REPORT",
        "UPDATE",
        "NOTIFY",
        "BDELETE",
        "CONNECT",
        "OPTIONS",
        "CHECKIN",
        "PROPFIND",
        "CHECKOUT",
        "CCM_POST",
        "SUBSCRIBE",
        "PROPPATCH",
        "BPROPFIND",
        "BPROPPATCH",
        "UNCHECKOUT",
        "MKACTIVITY",
        "MKWORKSPACE",
        "UNSUBSCRIBE",
        "RPC_CONNECT",
        "VERSION-CONTROL",
    ];
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace);
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    METHODS.iter().any(|method| method.as_bytes() == first)
        || (second.len() == 3 && second.iter().all(u8::is_ascii_digit))
}

/// The first line; all of them where more is to be decoded, as far as they are text.
fn text_lines(bytes: &[u8], length: usize, verbose: u8, to: &mut String) {
    let before = if verbose > 0 { "\n\t" } else { ": " };
    if verbose > 0 {
        let _ = write!(to, ", length: {length}");
    }
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let whole = line.ends_with(b"\n");
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
            break;
        }
        to.push_str(before);
        to.extend(line.iter().copied().map(char::from));
        if !whole {
            to.push_str(" [|http]");
        }
        if verbose == 0 {
            break;
        }
    }
}

/// A message of DNS, or of multicast DNS.
fn dns(bytes: &[u8], length: usize, multicast: bool, verbose: u8, to: &mut String) {
    if length < DNS_HEADER {
        let _ = write!(to, "domain [length {length} < 12] (invalid)");
        return;
    }
    if message(bytes, multicast, verbose, to).is_none() {
        to.push_str(" [|domain]");
    }
    let _ = write!(to, " ({length})");
}

/// A message behind its length (RFC 1035 section 4.2.2), where that is all of a segment.
fn dns_in_stream(bytes: &[u8], length: usize, verbose: u8, to: &mut String) {
    let Some(data) = length.checked_sub(2) else {
        let _ = write!(to, "[DNS over TCP: length {length} < 2] (invalid)");
        return;
    };
    match (number::<2>(bytes, 0), bytes.get(2..)) {
        (Some(prefix), Some(_)) if prefix as usize != data => {
            let _ = write!(to, "[prefix length({prefix}) != length({data})] (invalid)");
        }
        (_, message) => dns(message.unwrap_or_default(), data, false, verbose, to),
    }
}

const OPERATIONS: [&str; 6] = ["", " inv_q", " stat", " op3", " notify", " update"];
const OUTCOMES: [&str; 11] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
];

/// All of a message that is shown; `None` where it ends before.
fn message(bytes: &[u8], multicast: bool, verbose: u8, to: &mut String) -> Option<()> {
    let half = |at: usize| number::<2>(bytes, at);
    let (id, flags) = (half(0)?, half(2)?);
    let [questions, answers, authorities, others] = [half(4)?, half(6)?, half(8)?, half(10)?];
    let is_answer = flags & 0x8000 != 0;
    let operation = OPERATIONS.get((flags >> 11 & 15) as usize).copied().unwrap_or(" op?");
    let outcome = OUTCOMES.get((flags & 15) as usize).copied().unwrap_or(" Resp?");
    let flag = |bit: u32, text: &'static str| if flags & bit != 0 { text } else { "" };
    let mut at = DNS_HEADER;
    if is_answer {
        let recursion = if flags & 0x80 != 0 { "" } else { "-" };
        let _ = write!(
            to,
            "{id}{operation}{outcome}{}{recursion}{}{}",
            flag(0x400, "*"),
            flag(0x200, "|"),
            flag(0x20, "$"),
        );
        if questions != 1 {
            let _ = write!(to, " [{questions}q]");
        }
        for question in 0..questions {
            if verbose > 1 {
                to.push_str(if question == 0 { " q:" } else { "," });
                at = ask(bytes, at, multicast, to)?;
            } else {
                at = name(bytes, at, &mut String::new())? + 4;
            }
        }
        let _ = write!(to, " {answers}/{authorities}/{others}");
        for (count, before, shown) in
            [(answers, "", true), (authorities, " ns:", verbose > 1), (others, " ar:", verbose > 1)]
        {
            for number in 0..if shown { count } else { 0 } {
                to.push_str(if number == 0 { before } else { "," });
                at = record(bytes, at, multicast, verbose, to)?;
            }
        }
        return Some(());
    }
    let _ = write!(to, "{id}{operation}{}{}", flag(0x100, "+"), flag(0x10, "%"));
    let odd = flags & 0x06cf;
    if odd != 0 {
        let _ = write!(to, " [b2&3=0x{odd:x}]");
    }
    for (count, usual, unit) in
        [(questions, 1, "q"), (answers, 0, "a"), (authorities, 0, "n"), (others, 0, "au")]
    {
        if count != usual {
            let _ = write!(to, " [{count}{unit}]");
        }
    }
    for question in 0..questions {
        to.push_str(if question == 0 { "" } else { "," });
        at = ask(bytes, at, multicast, to)?;
    }
    if verbose > 1 {
        for (count, before) in [(answers, " an:"), (authorities, " ns:"), (others, " ar:")] {
            for number in 0..count {
                to.push_str(if number == 0 { before } else { "," });
                at = record(bytes, at, multicast, verbose, to)?;
            }
        }
    }
    Some(())
}

/// A question; returns where it ends.
fn ask(bytes: &[u8], at: usize, multicast: bool, to: &mut String) -> Option<usize> {
    let mut asked = String::new();
    let end = name(bytes, at, &mut asked)?;
    let (kind, class) = (number::<2>(bytes, end)?, number::<2>(bytes, end + 2)?);
    let _ = write!(to, " {}", kind_name(kind));
    match class {
        _ if multicast => to.push_str(if class & 0x8000 != 0 { " (QU)" } else { " (QM)" }),
        1 => {}
        other => to.push_str(&class_name(other)),
    }
    let _ = write!(to, "? {asked}");
    Some(end + 4)
}

/// A record; returns where it ends.
fn record(bytes: &[u8], at: usize, multicast: bool, verbose: u8, to: &mut String) -> Option<usize> {
    let mut owner = String::new();
    let at = name(bytes, at, &mut owner)?;
    let (kind, class) = (number::<2>(bytes, at)?, number::<2>(bytes, at + 2)?);
    let (lifetime, length) = (number::<4>(bytes, at + 4)?, number::<2>(bytes, at + 8)? as usize);
    let (start, end) = (at + 10, at + 10 + length);
    let data = bytes.get(start..end)?;
    if verbose > 0 {
        let _ = write!(to, " {owner}");
    }
    let flush = multicast && class & 0x8000 != 0;
    if flush {
        to.push_str(" (Cache flush)");
    }
    let class = if flush { class & 0x7fff } else { class };
    if class != 1 && kind != 41 {
        to.push_str(&class_name(class));
    }
    if verbose > 2 {
        let _ = write!(to, " [{}]", lifetime_text(lifetime));
    }
    let _ = write!(to, " {}", kind_name(kind));
    let named = |at: usize| {
        let mut text = String::new();
        name(bytes, at, &mut text).map(|_| text)
    };
    let _ = match kind {
        1 => write!(to, " {}", Ipv4Addr::from(*data.first_chunk::<4>()?)),
        28 => write!(to, " {}", Ipv6Addr::from(*data.first_chunk::<16>()?)),
        2 | 5 | 12 | 39 => write!(to, " {}", named(start)?),
        15 => write!(to, " {} {}", named(start + 2)?, number::<2>(data, 0)?),
        33 => {
            let [priority, weight, port] = [0, 2, 4].map(|at| number::<2>(data, at));
            write!(to, " {}:{} {} {}", named(start + 6)?, port?, priority?, weight?)
        }
        16 => {
            let mut rest = data;
            while let Some((length, text)) = rest.split_first() {
                let text_end = usize::from(*length).min(text.len());
                let _ = write!(to, " \"{}\"", shown(&text[..text_end]));
                rest = &text[text_end..];
            }
            Ok(())
        }
        6 if verbose > 0 => {
            let mut texts = [String::new(), String::new()];
            let at = name(bytes, start, &mut texts[0])?;
            let at = name(bytes, at, &mut texts[1])?;
            let numbers = [0, 4, 8, 12, 16].map(|more| number::<4>(bytes, at + more));
            let [serial, refresh, retry, expire, least] = numbers;
            let [one, other] = texts;
            write!(to, " {one} {other} {} {} {} {} {}", serial?, refresh?, retry?, expire?, least?)
        }
        41 => write!(to, " UDPsize={class}{}", if lifetime & 0x8000 != 0 { " DO" } else { "" }),
        _ => Ok(()),
    };
    Some(end)
}

/// Writes a name with its dots and returns where it ends.
fn name(bytes: &[u8], mut at: usize, to: &mut String) -> Option<usize> {
    let mut end = None;
    let mut any = false;
    for _ in 0..POINTERS {
        match usize::from(*bytes.get(at)?) {
            0 => {
                if !any {
                    to.push('.');
                }
                return Some(end.unwrap_or(at + 1));
            }
            length @ 1..0x40 => {
                let _ = write!(to, "{}.", shown(bytes.get(at + 1..at + 1 + length)?));
                any = true;
                at += 1 + length;
            }
            length @ 0xc0.. => {
                end.get_or_insert(at + 2);
                at = (length & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?);
            }
            _ => return None,
        }
    }
    None
}

fn shown(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' })
        .collect()
}

fn class_name(class: u32) -> String {
    match class {
        3 => " CHAOS".into(),
        4 => " HS".into(),
        255 => " ANY".into(),
        other => format!(" (Class {other})"),
    }
}

fn kind_name(kind: u32) -> String {
    let name = match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        13 => "HINFO",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        35 => "NAPTR",
        39 => "DNAME",
        41 => "OPT",
        43 => "DS",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        50 => "NSEC3",
        52 => "TLSA",
        64 => "SVCB",
        65 => "HTTPS",
        252 => "AXFR",
        255 => "ANY",
        257 => "CAA",
        other => return format!("Type{other}"),
    };
    name.into()
}

/// `1h30m`: weeks, days, hours, minutes and seconds, as many as it takes.
fn lifetime_text(mut seconds: u32) -> String {
    if seconds == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    for (unit, length) in [("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
        if seconds >= length {
            let _ = write!(text, "{}{unit}", seconds / length);
            seconds %= length;
        }
    }
    text
}

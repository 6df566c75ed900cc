//! Patterns that new flows are rewritten to.

use std::{
    fmt,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use linerate_graph::{Ipv4OrPrefix, Scope, Value, lang::config::words, parse_integer};

use super::mapping::Ends;

/// Rewritten form of a flow: `SADDR SPORT DADDR DPORT`, each of which may be left as it is, and a
/// range in place of the source port or, without ports, of the source address.
#[derive(Debug)]
pub(super) struct Pattern {
    src: Ipv4Addr,
    src_port: u16,
    dst: Ipv4Addr,
    dst_port: u16,
    /// Addresses or ports in the range but one.
    top: u32,
    /// The range is one of ports.
    with_ports: bool,
    /// Those of the range are taken in turn (`#`).
    sequential: bool,
    /// The port the flow has is tried first (neither `#` nor `?`).
    same_first: bool,
    /// The next in turn.
    next: AtomicU32,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        let what = |it: &Pattern| {
            let flags = (it.with_ports, it.sequential, it.same_first);
            (it.src, it.src_port, it.dst, it.dst_port, it.top, flags)
        };
        what(self) == what(other)
    }
}

/// Patterns by name.
pub(super) trait NamedPatterns {
    /// The one of that name, as seen from an element.
    fn find(&self, name: &str, scope: &Scope<'_>) -> Option<Arc<Pattern>>;
}

/// Allocator of ends that no flow has.
pub(super) trait PortAllocator {
    /// Chooses one of `0..=range.top` such that no flow has the ends `range.ends_at` gives.
    fn choose(&mut self, range: &Range<'_>) -> Option<u32>;
}

/// Range to choose from.
pub(super) struct Range<'a> {
    pattern: &'a Pattern,
    /// The flow rewritten by everything but the range.
    ends: Ends,
    pub(super) top: u32,
    /// The first to try.
    pub(super) preferred: Option<u32>,
    /// The place to begin at in turn; anywhere, when there is none.
    pub(super) next: Option<u32>,
}

impl Range<'_> {
    /// The flow with one of the range.
    pub(super) fn ends_at(&self, value: u32) -> Ends {
        self.pattern.vary(self.ends, value)
    }

    /// The first port, when it is a range of ports.
    pub(super) fn base_port(&self) -> Option<u16> {
        self.pattern.with_ports.then_some(self.pattern.src_port)
    }
}

impl Pattern {
    /// Reads `SADDR SPORT DADDR DPORT`, `SADDR DADDR SPORT`, `SADDR DADDR`, or a name.
    pub(super) fn parse(
        texts: &[&str],
        scope: &Scope<'_>,
        named: &dyn NamedPatterns,
    ) -> Result<Arc<Pattern>, String> {
        let (src, src_port, dst, dst_port) = match *texts {
            [name] => {
                let found = named.find(name, scope);
                return found.ok_or_else(|| format!("no such pattern '{name}'"));
            }
            [src, dst] => (src, None, dst, None),
            // Click takes the port of three words from behind the addresses.
            [src, dst, port] => (src, Some(port), dst, None),
            [src, port, dst, dst_port] => (src, Some(port), dst, Some(dst_port)),
            _ => return Err("syntax error".into()),
        };
        let mut pattern = Pattern {
            src: Ipv4Addr::UNSPECIFIED,
            src_port: 0,
            dst: Ipv4Addr::UNSPECIFIED,
            dst_port: 0,
            top: 0,
            with_ports: src_port.is_some(),
            sequential: false,
            same_first: true,
            next: AtomicU32::new(0),
        };
        let address = |text: &str| Ipv4Addr::parse(text, scope).ok();
        let read =
            |text: &str| if text == "-" { Some(Ipv4Addr::UNSPECIFIED) } else { address(text) };
        let (known, ranged) = (read(src), pattern.marked(src));
        (pattern.src, pattern.top) = known
            .map(|src| (src, 0))
            .or_else(|| addresses(ranged, scope))
            .ok_or("bad source address")?;
        if let Some(text) = src_port {
            match port(text) {
                Some(port) => pattern.src_port = port,
                None => {
                    let range = ports(pattern.marked(text)).ok_or("bad source port")?;
                    (pattern.src_port, pattern.top) = range;
                }
            }
        }
        pattern.dst = read(dst).ok_or("bad destination address")?;
        if let Some(text) = dst_port {
            pattern.dst_port = port(text).ok_or("bad destination port")?;
        }
        Ok(Arc::new(pattern))
    }

    /// Takes the mark of how to choose from the end of a range.
    fn marked<'t>(&mut self, text: &'t str) -> &'t str {
        let (rest, sequential) = match (text.strip_suffix('#'), text.strip_suffix('?')) {
            (Some(rest), _) => (rest, true),
            (None, Some(rest)) => (rest, self.sequential),
            (None, None) => return text,
        };
        (self.sequential, self.same_first) = (sequential, false);
        rest
    }

    /// Returns a rewritten flow; `None` when the whole range is taken.
    pub(super) fn apply(&self, flow: Ends, taken: &mut impl PortAllocator) -> Option<Ends> {
        let given = |address: Ipv4Addr| Some(address).filter(|address| !address.is_unspecified());
        let port = |new: u16, old: u16| if new == 0 { old } else { new };
        let ends = Ends {
            src: given(self.src).unwrap_or(flow.src),
            dst: given(self.dst).unwrap_or(flow.dst),
            src_port: port(self.src_port, flow.src_port),
            dst_port: port(self.dst_port, flow.dst_port),
        };
        if self.top == 0 {
            return Some(ends);
        }
        let same = u32::from(flow.src_port.wrapping_sub(self.src_port));
        let below = flow.src_port < self.src_port;
        let preferred = self.with_ports && self.same_first && !below && same <= self.top;
        let next = self.next.load(Ordering::Relaxed);
        let next = if next > self.top { 0 } else { next };
        let range = Range {
            pattern: self,
            ends,
            top: self.top,
            preferred: preferred.then_some(same),
            next: self.sequential.then_some(next),
        };
        let value = taken.choose(&range)?;
        self.next.store(value.wrapping_add(1), Ordering::Relaxed);
        Some(self.vary(ends, value))
    }

    fn vary(&self, ends: Ends, value: u32) -> Ends {
        if self.with_ports {
            Ends { src_port: self.src_port.wrapping_add(value as u16), ..ends }
        } else {
            Ends { src: self.address(value), ..ends }
        }
    }

    fn address(&self, value: u32) -> Ipv4Addr {
        self.src.to_bits().wrapping_add(value).into()
    }
}

/// A range of addresses and how many are in it but one: `FIRST-LAST`, or a prefix, without its first
/// and last address.
fn addresses(text: &str, scope: &Scope<'_>) -> Option<(Ipv4Addr, u32)> {
    if let Some((first, last)) = text.split_once('-') {
        let (first, last) =
            (Ipv4Addr::parse(first, scope).ok()?, Ipv4Addr::parse(last, scope).ok()?);
        return Some((first, last.to_bits().checked_sub(first.to_bits())?));
    }
    let Ipv4OrPrefix(prefix) = Ipv4OrPrefix::parse(text, scope).ok()?;
    let length = prefix.length().filter(|length| *length > 0)?;
    if prefix.address.is_unspecified() {
        return None;
    }
    let network = prefix.address & prefix.mask;
    Some(match length {
        32 => (prefix.address, 0),
        31 => (network, 1),
        _ => (network | Ipv4Addr::new(0, 0, 0, 1), !prefix.mask.to_bits() - 2),
    })
}

/// A port; 0 stands for any.
fn port(text: &str) -> Option<u16> {
    if text == "-" {
        return Some(0);
    }
    parse_integer(text).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// `FIRST-LAST`.
fn ports(text: &str) -> Option<(u16, u32)> {
    let number = |text: &str| u16::try_from(parse_integer(text)?).ok();
    let (first, last) = text.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    Some((first, u32::from(last.checked_sub(first)?)))
}

impl fmt::Display for Pattern {
    /// As Click shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_dash = |address: Ipv4Addr| {
            if address.is_unspecified() { "-".to_owned() } else { address.to_string() }
        };
        match self.top {
            top if top > 0 && !self.with_ports => write!(f, "{}-{}", self.src, self.address(top))?,
            _ => write!(f, "{}", or_dash(self.src))?,
        }
        match (self.with_ports, self.src_port, self.top) {
            (false, ..) => {}
            (true, 0, _) => write!(f, " -")?,
            (true, port, 0) => write!(f, " {port}")?,
            (true, port, top) => write!(f, " {port}-{}", u32::from(port) + top)?,
        }
        write!(f, " {}", or_dash(self.dst))?;
        match (self.with_ports, self.dst_port) {
            (false, _) => Ok(()),
            (true, 0) => write!(f, " -"),
            (true, port) => write!(f, " {port}"),
        }
    }
}

/// A pattern and the outputs of flows made by it, forward and reply: `PATTERN FOUTPUT ROUTPUT`.
pub(super) fn with_outputs(
    text: &str,
    scope: &Scope<'_>,
    named: &dyn NamedPatterns,
) -> Result<(Arc<Pattern>, u32, u32), String> {
    let texts = words(text);
    let Some((pattern, ports)) = texts.split_last_chunk::<2>().filter(|(rest, _)| !rest.is_empty())
    else {
        return Err("syntax error".into());
    };
    let pattern = Pattern::parse(pattern, scope, named)?;
    let (forward, reply) = outputs(ports)?;
    Ok((pattern, forward, reply))
}

/// `FOUTPUT ROUTPUT`; numbers that no output has come out as the largest.
pub(super) fn outputs(texts: &[&str]) -> Result<(u32, u32), String> {
    let number =
        |text: &&str| parse_integer(text).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let [forward, reply] = texts else { return Err("bad forward port".into()) };
    Ok((number(forward).ok_or("bad forward port")?, number(reply).ok_or("bad reply port")?))
}

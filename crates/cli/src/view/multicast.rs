//! Multicast listener discovery in the format of tcpdump: queries, reports and "done" of version 1 (RFC
//! 2710), queries and reports of version 2 (RFC 3810).

use std::fmt::Write as _;

use super::{neighbors::address, number};

/// `ICMPv6` message types.
pub(super) const QUERY: u32 = 130;
pub(super) const REPORT: u32 = 131;
pub(super) const DONE: u32 = 132;
pub(super) const REPORT_2: u32 = 143;

/// Length of a query of version 1, and the least of one of version 2.
const QUERY_LENGTH: usize = 24;
const QUERY_2_LENGTH: usize = 28;
/// Lengths of a report in front of its records, of a record in front of its sources, and of a source.
const REPORT_2_LENGTH: usize = 8;
const RECORD: usize = 20;
const SOURCE: usize = 16;

/// Writes the body of a message of `length` bytes and type `kind`; returns `false` if it is truncated.
pub(super) fn write(kind: u32, bytes: &[u8], length: usize, verbose: u8, to: &mut String) -> bool {
    let is_whole = match kind {
        REPORT_2 => report(bytes, length, verbose, to).is_some(),
        QUERY if length >= QUERY_2_LENGTH => query(bytes, length, verbose, to).is_some(),
        QUERY if length != QUERY_LENGTH => {
            let _ = write!(to, " unknown-version (len {length}) ");
            true
        }
        _ => {
            group(bytes, to);
            true
        }
    };
    if !is_whole {
        to.push_str(" [|icmp6]");
    }
    is_whole
}

/// The body of version 1, of which tcpdump writes all, without a space, or nothing.
fn group(bytes: &[u8], to: &mut String) {
    if let (Some(delay), Some(group)) = (number::<2>(bytes, 4), address(bytes, 8)) {
        let _ = write!(to, "max resp delay: {delay} addr: {group}");
    }
}

/// The value of a code of RFC 3810, sections 5.1.3 and 5.1.9: from the highest bit on a floating-point number
/// with an exponent of three bits, and a mantissa of so many.
fn value(code: u32, mantissa: u32) -> u32 {
    if code >> (mantissa + 3) == 0 {
        return code;
    }
    let one = 1 << mantissa;
    (code & (one - 1) | one) << ((code >> mantissa & 7) + 3)
}

fn query(bytes: &[u8], length: usize, verbose: u8, to: &mut String) -> Option<()> {
    to.push_str(" v2");
    let delay = number::<2>(bytes, 4)?;
    if verbose > 0 {
        let _ = write!(to, " [max resp delay={}]", value(delay, 12));
    }
    let _ = write!(to, " [gaddr {}", address(bytes, 8)?);
    if verbose > 0 {
        let flags = number::<1>(bytes, 24)?;
        if flags & 8 != 0 {
            to.push_str(" sflag");
        }
        if flags & 7 != 0 {
            let _ = write!(to, " robustness={}", flags & 7);
        }
        let _ = write!(to, " qqi={}", value(number::<1>(bytes, 25)?, 4));
    }
    let count = number::<2>(bytes, 26)? as usize;
    if count > 0 {
        if length < QUERY_2_LENGTH + count * SOURCE {
            to.push_str(" [invalid number of sources]");
        } else {
            sources(bytes, QUERY_2_LENGTH, count, verbose, to)?;
        }
    }
    to.push(']');
    Some(())
}

fn report(bytes: &[u8], length: usize, verbose: u8, to: &mut String) -> Option<()> {
    if length < REPORT_2_LENGTH {
        let _ = write!(to, " [invalid len {length}]");
        return Some(());
    }
    let records = number::<2>(bytes, 6)?;
    let _ = write!(to, ", {records} group record(s)");
    let mut at = REPORT_2_LENGTH;
    let shown = if verbose > 0 { records } else { 0 };
    for _ in 0..shown {
        if length < at + RECORD {
            to.push_str(" [invalid number of groups]");
            return Some(());
        }
        let (kind, count) = (number::<1>(bytes, at)?, number::<2>(bytes, at + 2)? as usize);
        let names = ["is_in", "is_ex", "to_in", "to_ex", "allow", "block"];
        let name = (kind as usize).checked_sub(1).and_then(|kind| names.get(kind));
        let _ = write!(to, " [gaddr {} ", address(bytes, at + 4)?);
        let _ = match name {
            Some(name) => write!(to, "{name}"),
            None => write!(to, " [v2-report-#{kind}]"),
        };
        // tcpdump passes over no auxiliary data.
        at += RECORD;
        if length < at + count * SOURCE {
            let _ = write!(to, " [invalid number of sources {count}]");
            return Some(());
        }
        sources(bytes, at, count, verbose, to)?;
        to.push(']');
        at += count * SOURCE;
    }
    Some(())
}

/// The sources at a place: their number, or all with a higher level of decoding.
fn sources(bytes: &[u8], at: usize, count: usize, verbose: u8, to: &mut String) -> Option<()> {
    if verbose < 2 {
        let _ = write!(to, ", {count} source(s)");
        return Some(());
    }
    to.push_str(" {");
    for number in 0..count {
        let _ = write!(to, " {}", address(bytes, at + number * SOURCE)?);
    }
    to.push_str(" }");
    Some(())
}

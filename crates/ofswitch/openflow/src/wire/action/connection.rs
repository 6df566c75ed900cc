//! Connection tracking: `ct`, and translation of addresses inside of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::nicira::write_nicira;
use super::{Action, ActionContext, EnclosingAction, decode_inside, encode_list};
use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::numbered::flags;
use crate::wire::subfield::{self, Subfield};
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

const COMMIT: u16 = 1;
const FORCE: u16 = 1 << 1;
/// No table.
const NO_TABLE: u8 = 255;

/// Has the packet's connection looked up (`ct`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ct {
    /// Remembers the connection.
    pub commit: bool,
    /// Forgets one in the other direction for it.
    pub force: bool,
    /// Zone of the lookup; the same addresses may be others' in another zone.
    pub zone: Zone,
    /// Table where a copy of the packet goes on, with its connection known.
    pub table: Option<u8>,
    /// A protocol that opens further connections, by its port: 21 FTP, 69 TFTP; 0 none.
    pub helper: u16,
    /// Actions on the connection: `ct_mark` and `ct_label` set, addresses translated.
    pub actions: Vec<Action>,
}

/// The zone of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Zone {
    /// This one.
    Number(u16),
    /// The one a field has, 16 bits of it.
    Field(Subfield),
}

flags! {
    /// Options of the translation of addresses.
    pub struct NatFlags: u16 {
        /// Translates the source.
        const SOURCE = 1;
        /// Translates the destination.
        const DESTINATION = 1 << 1;
        /// Addresses of a host stay across restarts.
        const PERSISTENT = 1 << 2;
        /// Chooses by a hash of the connection.
        const HASH = 1 << 3;
        /// Chooses at random.
        const RANDOM = 1 << 4;
    }
}

/// Addresses to translate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NatAddresses {
    /// No change, or the translation that the connection has.
    Unchanged,
    /// One of IPv4, from the first to the last.
    V4(Ipv4Addr, Option<Ipv4Addr>),
    /// One of IPv6, from the first to the last.
    V6(Ipv6Addr, Option<Ipv6Addr>),
}

/// Translates addresses (`nat`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Nat {
    /// Addresses to translate, and the choice of new ones.
    pub flags: NatFlags,
    /// To which addresses.
    pub addresses: NatAddresses,
    /// To which ports, the first and the last.
    pub ports: Option<(u16, Option<u16>)>,
}

pub(super) fn decode_ct(mut body: Reader<'_>, context: ActionContext) -> Result<Action, Fault> {
    let flags = body.u16()?;
    let field = subfield::decode_short_header(&mut body)?;
    let number = body.u16()?;
    let table = body.u8()?;
    body.skip(3)?;
    let helper = body.u16()?;
    let (commit, force) = (flags & COMMIT != 0, flags & FORCE != 0);
    if force && !commit {
        return Err(Fault::ActionBadArgument);
    }
    let zone = match field {
        None => Zone::Number(number),
        Some(field) => {
            let part = Subfield::from_packed(number, field)?;
            if part.bits() != 16 {
                return Err(Fault::BadSetLength);
            }
            Zone::Field(part)
        }
    };
    let actions = decode_inside(body, context.deeper(EnclosingAction::Ct)?)?;
    // Without remembering there is nothing to set, and translations are those remembered.
    let plain = |action: &Action| match action {
        Action::Nat(nat) => nat.flags.0 == 0 && nat.addresses == NatAddresses::Unchanged,
        _ => false,
    };
    if !commit && !actions.iter().all(plain) {
        return Err(Fault::ActionBadArgument);
    }
    let table = (table != NO_TABLE).then_some(table);
    Ok(Action::Ct(Box::new(Ct { commit, force, zone, table, helper, actions })))
}

pub(super) fn encode_ct(ct: &Ct, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
    write_nicira(out, 35, |out| {
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        out.u16(flag(ct.commit, COMMIT) | flag(ct.force, FORCE));
        match ct.zone {
            Zone::Number(number) => {
                out.zeros(4);
                out.u16(number);
            }
            Zone::Field(part) => {
                subfield::encode_short_header(part.field(), out)?;
                out.u16(part.packed()?);
            }
        }
        out.u8(ct.table.unwrap_or(NO_TABLE));
        out.zeros(3);
        out.u16(ct.helper);
        encode_list(&ct.actions, version, out)
    })
}

const V4_MIN: u16 = 1;
const V4_MAX: u16 = 1 << 1;
const V6_MIN: u16 = 1 << 2;
const V6_MAX: u16 = 1 << 3;
const PORT_MIN: u16 = 1 << 4;
const PORT_MAX: u16 = 1 << 5;

/// A range of which the upper end may be absent, and may not be below the lower.
fn range<'a, T: Copy + PartialOrd>(
    body: &mut Reader<'a>,
    upper: bool,
    read: impl Fn(&mut Reader<'a>) -> Result<T, Fault>,
    none: T,
) -> Result<(T, Option<T>), Fault> {
    let first = read(body)?;
    let last = if upper { Some(read(body)?) } else { None };
    if first == none || last.is_some_and(|last| last < first) {
        return Err(Fault::ActionBadArgument);
    }
    Ok((first, last))
}

pub(super) fn decode_nat(body: Reader<'_>) -> Result<Action, Fault> {
    let mut body = body;
    body.skip(2)?;
    let flags = NatFlags(body.u16()?);
    let present = body.u16()?;
    // A missing address or port that the flags announce is a wrong argument.
    let mut body = body.with_fault(Fault::ActionBadArgument);
    let both = NatFlags::SOURCE.with(NatFlags::DESTINATION);
    let two_ways = NatFlags::HASH.with(NatFlags::RANDOM);
    if !flags.is_known() || flags.contains(both) || flags.contains(two_ways) {
        return Err(Fault::ActionBadArgument);
    }
    let has = |bit: u16| present & bit != 0;
    let addresses = match (has(V4_MIN), has(V6_MIN)) {
        (true, false) if !has(V6_MAX) => {
            let read = |body: &mut Reader<'_>| body.u32().map(Ipv4Addr::from);
            let (first, last) = range(&mut body, has(V4_MAX), read, Ipv4Addr::UNSPECIFIED)?;
            NatAddresses::V4(first, last)
        }
        (false, true) if !has(V4_MAX) => {
            let read = |body: &mut Reader<'_>| body.array::<16>().map(Ipv6Addr::from);
            let (first, last) = range(&mut body, has(V6_MAX), read, Ipv6Addr::UNSPECIFIED)?;
            NatAddresses::V6(first, last)
        }
        (false, false) if !has(V4_MAX | V6_MAX) => NatAddresses::Unchanged,
        _ => return Err(Fault::ActionBadArgument),
    };
    let ports = match (has(PORT_MIN), addresses) {
        (true, NatAddresses::Unchanged) => return Err(Fault::ActionBadArgument),
        (true, _) => Some(range(&mut body, has(PORT_MAX), Reader::u16, 0)?),
        (false, _) if has(PORT_MAX) => return Err(Fault::ActionBadArgument),
        (false, _) => None,
    };
    if body.len() >= 8 {
        return Err(Fault::ActionBadLength);
    }
    Ok(Action::Nat(Box::new(Nat { flags, addresses, ports })))
}

pub(super) fn encode_nat(nat: &Nat, out: &mut Writer) -> Result<(), Unencodable> {
    let addresses = match nat.addresses {
        NatAddresses::Unchanged => 0,
        NatAddresses::V4(_, None) => V4_MIN,
        NatAddresses::V4(_, Some(_)) => V4_MIN | V4_MAX,
        NatAddresses::V6(_, None) => V6_MIN,
        NatAddresses::V6(_, Some(_)) => V6_MIN | V6_MAX,
    };
    let ports = match nat.ports {
        None => 0,
        Some((_, None)) => PORT_MIN,
        Some((_, Some(_))) => PORT_MIN | PORT_MAX,
    };
    write_nicira(out, 36, |out| {
        out.zeros(2);
        out.u16(nat.flags.0);
        out.u16(addresses | ports);
        match nat.addresses {
            NatAddresses::Unchanged => {}
            NatAddresses::V4(first, last) => {
                out.bytes(&first.octets());
                last.iter().for_each(|last| out.bytes(&last.octets()));
            }
            NatAddresses::V6(first, last) => {
                out.bytes(&first.octets());
                last.iter().for_each(|last| out.bytes(&last.octets()));
            }
        }
        if let Some((first, last)) = nat.ports {
            out.u16(first);
            last.iter().for_each(|&last| out.u16(last));
        }
        Ok(())
    })
}

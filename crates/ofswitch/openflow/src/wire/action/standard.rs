//! Actions of the specifications: 1.0.2 section 5.2.4, 1.3.5 section 7.2.5, 1.5.1 section 7.2.6.

use super::{Action, nicira, write};
use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::field::Field;
use crate::wire::matching::VLAN_PRESENT;
use crate::wire::oxm::{Entry, IN_ACTION};
use crate::wire::port_number::PortNumber;
use crate::wire::subfield::{self, Subfield};
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

pub(super) fn decode(kind: u16, body: Reader<'_>, version: Version) -> Result<Action, Fault> {
    if version == Version::V10 { decode_10(kind, body) } else { decode_13(kind, body, version) }
}

fn decode_10(kind: u16, mut body: Reader<'_>) -> Result<Action, Fault> {
    let action = match kind {
        0 => {
            let port = PortNumber::from_short(body.u16()?).checked_output();
            Action::Output { port: port?, max_len: body.u16()? }
        }
        1 => {
            let number = body.u16()?;
            body.skip(2)?;
            if number > 0xfff {
                return Err(Fault::ActionBadArgument);
            }
            Action::SetVlanVid(number)
        }
        2 => {
            let priority = body.u8()?;
            body.skip(3)?;
            if priority > 7 {
                return Err(Fault::ActionBadArgument);
            }
            Action::SetVlanPcp(priority)
        }
        3 => {
            body.skip(4)?;
            Action::PopVlan
        }
        4 | 5 => {
            let address = body.number(6)?;
            body.skip(6)?;
            let field = if kind == 4 { Field::EthSrc } else { Field::EthDst };
            Action::SetField(Entry::exact(field, address))
        }
        6 | 7 => {
            let field = if kind == 6 { Field::Ipv4Src } else { Field::Ipv4Dst };
            Action::SetField(Entry::exact(field, body.u32()?.into()))
        }
        8 => {
            let tos = body.u8()?;
            body.skip(3)?;
            if tos & 3 != 0 {
                return Err(Fault::ActionBadArgument);
            }
            Action::SetField(Entry::exact(Field::IpDscp, u128::from(tos >> 2)))
        }
        9 | 10 => {
            let port = body.u16()?;
            body.skip(2)?;
            if kind == 9 { Action::SetTpSrc(port) } else { Action::SetTpDst(port) }
        }
        11 => {
            let port = PortNumber::from_short(body.u16()?);
            body.skip(6)?;
            if !port.is_port() && port != PortNumber::IN_PORT && port != PortNumber::LOCAL {
                return Err(Fault::BadOutPort);
            }
            Action::Enqueue { port, queue: body.u32()? }
        }
        _ => return Err(Fault::ActionBadType),
    };
    body.finish()?;
    Ok(action)
}

fn decode_13(kind: u16, mut body: Reader<'_>, version: Version) -> Result<Action, Fault> {
    let mut padding = 4;
    let action = match kind {
        0 => {
            let port = PortNumber(body.u32()?).checked_output();
            padding = 6;
            Action::Output { port: port?, max_len: body.u16()? }
        }
        11 => Action::CopyTtlOut,
        12 => Action::CopyTtlIn,
        15 => {
            padding = 3;
            Action::SetMplsTtl(body.u8()?)
        }
        16 => Action::DecMplsTtl,
        17 | 19 | 20 | 26 => {
            let ethernet = body.u16()?;
            padding = 2;
            match (kind, ethernet) {
                (17, 0x8100 | 0x88a8) => Action::PushVlan(ethernet),
                (19, 0x8847 | 0x8848) => Action::PushMpls(ethernet),
                (20, _) => Action::PopMpls(ethernet),
                (26, 0x88e7) => Action::PushPbb(ethernet),
                _ => return Err(Fault::ActionBadArgument),
            }
        }
        18 => Action::PopVlan,
        21 | 22 => {
            padding = 0;
            let number = body.u32()?;
            if kind == 21 { Action::SetQueue(number) } else { Action::Group(number) }
        }
        23 => {
            padding = 3;
            Action::SetIpTtl(body.u8()?)
        }
        24 => Action::DecIpTtl,
        25 => return decode_set_field(body, version),
        27 => Action::PopPbb,
        28 if version == Version::V15 => {
            let move_ = decode_copy(&mut body, 2)?;
            padding = body.len();
            if padding >= 8 {
                return Err(Fault::ActionBadLength);
            }
            move_
        }
        29 if version == Version::V15 => {
            padding = 0;
            Action::Meter(body.u32()?)
        }
        _ => return Err(Fault::ActionBadType),
    };
    body.skip(padding)?;
    body.finish()?;
    Ok(action)
}

/// The part of a copy-field behind its header, with `padding` bytes before the fields.
pub(super) fn decode_copy(body: &mut Reader<'_>, padding: usize) -> Result<Action, Fault> {
    let (bits, from, to) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(padding)?;
    decode_move(body, bits, from, to)
}

/// The two fields of a copy.
pub(super) fn decode_move(
    body: &mut Reader<'_>,
    bits: u16,
    from: u16,
    to: u16,
) -> Result<Action, Fault> {
    let source = Subfield::checked(subfield::decode_header(body)?, from, bits)?;
    let destination = Subfield::checked(subfield::decode_header(body)?, to, bits)?.settable()?;
    Ok(Action::Move { source, destination })
}

fn decode_set_field(mut body: Reader<'_>, version: Version) -> Result<Action, Fault> {
    // Whether a mask follows; before OpenFlow 1.5 it may not, be it all bits.
    let mut header = body;
    header.skip(2)?;
    if header.u8()? & 1 == 1 && version < Version::V15 {
        return Err(Fault::BadSetMask);
    }
    let entry = Entry::decode(&mut body, &IN_ACTION)?.ok_or(Fault::BadSetMask)?;
    if body.len() >= 8 {
        return Err(Fault::ActionBadLength);
    }
    if !may_be_set(&entry) {
        return Err(Fault::BadSetArgument);
    }
    Ok(Action::SetField(entry))
}

/// Writes an action if the version has it, and says whether it has.
pub(super) fn encode(
    action: &Action,
    version: Version,
    out: &mut Writer,
) -> Result<bool, Unencodable> {
    if version == Version::V10 { encode_10(action, out) } else { encode_13(action, version, out) }
}

fn encode_10(action: &Action, out: &mut Writer) -> Result<bool, Unencodable> {
    let address = |out: &mut Writer, value: u128| {
        out.number(value, 6);
        out.zeros(6);
        Ok(())
    };
    let short = |out: &mut Writer, number: u16| {
        out.u16(number);
        Ok(())
    };
    match *action {
        Action::Output { port, max_len } => write(out, 0, |out| {
            out.u16(port.short()?);
            short(out, max_len)
        }),
        Action::SetVlanVid(number) => write(out, 1, |out| short(out, number)),
        Action::SetVlanPcp(priority) => write(out, 2, |out| {
            out.u8(priority);
            Ok(())
        }),
        Action::PopVlan => write(out, 3, |_| Ok(())),
        Action::SetField(entry) if entry.is_exact() => {
            let value = entry.value();
            match entry.field() {
                Field::EthSrc => write(out, 4, |out| address(out, value)),
                Field::EthDst => write(out, 5, |out| address(out, value)),
                Field::Ipv4Src | Field::Ipv4Dst => {
                    let kind = if entry.field() == Field::Ipv4Src { 6 } else { 7 };
                    write(out, kind, |out| {
                        out.u32(value as u32);
                        Ok(())
                    })
                }
                Field::IpDscp => write(out, 8, |out| {
                    out.u8((value as u8) << 2);
                    Ok(())
                }),
                _ => return Ok(false),
            }
        }
        Action::SetTpSrc(port) => write(out, 9, |out| short(out, port)),
        Action::SetTpDst(port) => write(out, 10, |out| short(out, port)),
        Action::Enqueue { port, queue } => write(out, 11, |out| {
            out.u16(port.short()?);
            out.zeros(6);
            out.u32(queue);
            Ok(())
        }),
        _ => return Ok(false),
    }?;
    Ok(true)
}

fn encode_13(action: &Action, version: Version, out: &mut Writer) -> Result<bool, Unencodable> {
    let u8 = |out: &mut Writer, number: u8| {
        out.u8(number);
        Ok(())
    };
    let u16 = |out: &mut Writer, number: u16| {
        out.u16(number);
        Ok(())
    };
    let u32 = |out: &mut Writer, number: u32| {
        out.u32(number);
        Ok(())
    };
    let newest = version == Version::V15;
    match *action {
        Action::Output { port, max_len } => write(out, 0, |out| {
            out.u32(port.0);
            u16(out, max_len)
        }),
        Action::CopyTtlOut => write(out, 11, |_| Ok(())),
        Action::CopyTtlIn => write(out, 12, |_| Ok(())),
        Action::SetMplsTtl(ttl) => write(out, 15, |out| u8(out, ttl)),
        Action::DecMplsTtl => write(out, 16, |_| Ok(())),
        Action::PushVlan(kind) => write(out, 17, |out| u16(out, kind)),
        Action::PopVlan => write(out, 18, |_| Ok(())),
        Action::PushMpls(kind) => write(out, 19, |out| u16(out, kind)),
        Action::PopMpls(kind) => write(out, 20, |out| u16(out, kind)),
        Action::SetQueue(queue) => write(out, 21, |out| u32(out, queue)),
        Action::Group(group) => write(out, 22, |out| u32(out, group)),
        Action::SetIpTtl(ttl) => write(out, 23, |out| u8(out, ttl)),
        Action::DecIpTtl => write(out, 24, |_| Ok(())),
        Action::SetField(entry) if (newest || entry.is_exact()) && may_be_set(&entry) => {
            set_field(&entry, version, out)
        }
        // One action less: a set-field can express it, too.
        Action::Load { destination, value } if newest => {
            let set = Action::SetField(loaded(destination, value));
            if !encode_13(&set, version, out)? {
                nicira::encode(&set, version, out)?;
            }
            Ok(())
        }
        Action::PushPbb(kind) => write(out, 26, |out| u16(out, kind)),
        Action::PopPbb => write(out, 27, |_| Ok(())),
        Action::Move { source, destination } if newest => write(out, 28, |out| {
            out.u16(source.bits());
            out.u16(source.offset());
            out.u16(destination.offset());
            out.zeros(2);
            subfield::encode_header(source.field(), version, out);
            subfield::encode_header(destination.field(), version, out);
            Ok(())
        }),
        Action::Meter(meter) if newest => write(out, 29, |out| u32(out, meter)),
        // A queue for one packet is said by choosing it, sending and forgetting it.
        Action::Enqueue { port, queue } => {
            write(out, 21, |out| u32(out, queue))?;
            write(out, 0, |out| {
                out.u32(port.0);
                u16(out, 0)
            })?;
            nicira::encode(&Action::PopQueue, version, out)
        }
        _ => return Ok(false),
    }?;
    Ok(true)
}

/// Returns the value that a load gives to bits of a field, as the field under a mask.
pub(super) fn loaded(part: Subfield, value: u64) -> Entry {
    let mask = u128::MAX >> (128 - u32::from(part.bits())) << part.offset();
    Entry::masked(part.field(), u128::from(value) << part.offset(), mask)
}

/// Returns true if a set-field of the specification can express an entry.
fn may_be_set(entry: &Entry) -> bool {
    let field = entry.field();
    let untagged = field == Field::VlanVid && entry.value() & VLAN_PRESENT == 0;
    field.is_settable() && field != Field::InPort && !untagged
}

fn set_field(entry: &Entry, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
    write(out, 25, |out| {
        entry.encode(version, out);
        Ok(())
    })
}

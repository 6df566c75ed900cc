//! Reading Nicira's actions.

use super::{Bundle, Encap, MEMBER_TYPE, Multipath, Sample, encap};
use crate::wire::action::{
    Action, ActionContext, EnclosingAction, connection, controller, decode_inside, learn, standard,
};
use crate::wire::bytes::Reader;
use crate::wire::fault::{Fault, NICIRA, ONF};
use crate::wire::field::Field;
use crate::wire::oxm::{Entry, IN_ACTION};
use crate::wire::packet_type::PacketType;
use crate::wire::port_number::PortNumber;
use crate::wire::subfield::{self, Subfield};
use crate::wire::version::Version;

/// The last number of those that say which fields make a flow.
const HASHES: u16 = 6;
/// Ports of a bundle at most.
const MEMBERS: u16 = 2048;

pub(in crate::wire::action) fn decode(
    mut body: Reader<'_>,
    context: ActionContext,
) -> Result<Action, Fault> {
    match body.u32()? {
        NICIRA => {
            let kind = body.u16()?;
            decode_nicira(kind, body, context)
        }
        ONF => decode_onf(body),
        _ => Err(Fault::ActionBadExperimenter),
    }
}

fn decode_onf(mut body: Reader<'_>) -> Result<Action, Fault> {
    if body.u16()? != 3200 {
        return Err(Fault::ActionBadExperimenterType);
    }
    body.zeros(2, Fault::ActionMustBeZero)?;
    let action = standard::decode_copy(&mut body, 2)?;
    end(body)?;
    Ok(action)
}

/// Padding of less than eight bytes.
fn end(body: Reader<'_>) -> Result<(), Fault> {
    if body.len() < 8 { Ok(()) } else { Err(Fault::ActionBadLength) }
}

fn decode_nicira(kind: u16, mut body: Reader<'_>, context: ActionContext) -> Result<Action, Fault> {
    let zero = Fault::MustBeZero;
    // These have 24 bytes, the first ten of which have been read.
    if matches!(kind, 27 | 28 | 32 | 49) && body.len() != 14 {
        return Err(Fault::ActionBadLength);
    }
    let action = match kind {
        1 => {
            let port = PortNumber::from_short(body.u16()?);
            body.skip(4)?;
            Action::Resubmit { port, table: 255, original: false }
        }
        2 => {
            body.skip(2)?;
            Action::SetField(Entry::exact(Field::TunnelId, body.u32()?.into()))
        }
        4 => {
            body.skip(2)?;
            Action::SetQueue(body.u32()?)
        }
        5 => {
            body.skip(6)?;
            Action::PopQueue
        }
        6 => {
            let (bits, from, to) = (body.u16()?, body.u16()?, body.u16()?);
            let action = standard::decode_move(&mut body, bits, from, to)?;
            end(body)?;
            return Ok(action);
        }
        7 => {
            let packed = body.u16()?;
            let field = subfield::decode_short_header(&mut body)?.ok_or(Fault::BadSetType);
            let destination = Subfield::from_packed(packed, field?)?.settable()?;
            let value = body.u64()?;
            if destination.bits() < 64 && value >> destination.bits() != 0 {
                return Err(Fault::ActionBadArgument);
            }
            match context.version {
                Version::V15 => Action::SetField(standard::loaded(destination, value)),
                _ => Action::Load { destination, value },
            }
        }
        8 => Action::Note(body.rest().to_vec()),
        9 => {
            body.skip(6)?;
            Action::SetField(Entry::exact(Field::TunnelId, body.u64()?.into()))
        }
        10 => Action::Multipath(decode_multipath(&mut body)?),
        12 | 13 => return decode_bundle(body, kind == 13),
        14 | 44 => {
            let port = PortNumber::from_short(body.u16()?);
            let table = body.u8()?;
            body.zeros(3, Fault::ActionBadArgument)?;
            Action::Resubmit { port, table, original: kind == 44 }
        }
        15 => {
            let packed = body.u16()?;
            let field = subfield::decode_short_header(&mut body)?.ok_or(Fault::BadSetType)?;
            let max_len = body.u16()?;
            body.zeros(6, Fault::ActionBadArgument)?;
            Action::OutputField { source: Subfield::from_packed(packed, field)?, max_len }
        }
        16 | 45 => return learn::decode(body, kind == 45),
        17 => {
            body.skip(6)?;
            Action::Exit
        }
        18 => {
            body.skip(6)?;
            Action::DecIpTtl
        }
        19 => {
            let (idle, hard) = (body.u16()?, body.u16()?);
            body.skip(2)?;
            Action::FinTimeout { idle, hard }
        }
        20 => controller::decode(&mut body)?,
        21 => {
            let count = body.u16()?;
            body.zeros(4, zero)?;
            let identifiers = (0..count).map(|_| body.u16()).collect::<Result<_, _>>()?;
            end(body)?;
            return Ok(Action::DecIpTtlFor(identifiers));
        }
        22 => {
            body.zeros(6, zero)?;
            let (value, mask) = (body.u64()?, body.u64()?);
            Action::WriteMetadata { value: value & mask, mask }
        }
        23 | 24 => {
            let ethernet = body.u16()?;
            body.skip(4)?;
            match (kind, ethernet) {
                (23, 0x8847 | 0x8848) => Action::PushMpls(ethernet),
                (24, _) => Action::PopMpls(ethernet),
                _ => return Err(Fault::ActionBadArgument),
            }
        }
        25 | 31 => {
            let number = body.u8()?;
            body.skip(5)?;
            match kind {
                25 => Action::SetMplsTtl(number),
                _ if number > 7 => return Err(Fault::ActionBadArgument),
                _ => Action::SetField(Entry::exact(Field::MplsTc, number.into())),
            }
        }
        26 => {
            body.skip(6)?;
            Action::DecMplsTtl
        }
        27 | 28 => {
            let offset = body.u16()?;
            let field = subfield::decode_header(&mut body)?;
            let part = Subfield::checked(field, offset, body.u16()?)?;
            zeros(&mut body)?;
            if kind == 27 { Action::StackPush(part) } else { Action::StackPop(part.settable()?) }
        }
        29 | 38 | 41 => Action::Sample(decode_sample(&mut body, kind)?),
        30 => {
            body.skip(2)?;
            let label = body.u32()?;
            if label > 0xf_ffff {
                return Err(Fault::ActionBadArgument);
            }
            Action::SetField(Entry::exact(Field::MplsLabel, label.into()))
        }
        32 => {
            let (packed, max_len) = (body.u16()?, body.u16()?);
            let field = subfield::decode_header(&mut body)?;
            let source = Subfield::from_packed(packed, field)?;
            zeros(&mut body)?;
            Action::OutputField { source, max_len }
        }
        33 => {
            let entry = Entry::decode(&mut body, &IN_ACTION)?.ok_or(Fault::BadSetMask)?;
            if !entry.field().is_settable() {
                return Err(Fault::BadSetArgument);
            }
            end(body)?;
            return Ok(Action::SetField(entry));
        }
        34 => {
            let (clause, clauses, id) = (body.u8()?, body.u8()?, body.u32()?);
            if !(2..=64).contains(&clauses) || clause >= clauses {
                return Err(Fault::BadConjunction);
            }
            Action::Conjunction { id, clause, clauses }
        }
        35 => return connection::decode_ct(body, context),
        36 => return connection::decode_nat(body),
        37 => return controller::decode_properties(body),
        39 => {
            let port = PortNumber::from_short(body.u16()?).checked_output()?;
            Action::OutputTruncated { port, max_len: body.u32()? }
        }
        40 => {
            body.skip(2)?;
            Action::Group(body.u32()?)
        }
        42 => {
            body.skip(6)?;
            return Ok(Action::Clone(decode_inside(
                body,
                context.deeper(EnclosingAction::Clone)?,
            )?));
        }
        43 => {
            body.skip(6)?;
            Action::CtClear
        }
        49 => {
            let (length, offset) = (body.u16()?, body.u16()?);
            let field = subfield::decode_header(&mut body)?;
            let destination = Subfield::checked(field, offset, 1)?.settable()?;
            zeros(&mut body)?;
            Action::CheckLarger { length, destination }
        }
        46 if context.version > Version::V10 => {
            let size = body.u16()?;
            let packet_type = PacketType(body.u32()?);
            let known = [PacketType::ETHERNET, PacketType::NSH];
            if !known.contains(&packet_type) && !packet_type.is_mpls() {
                return Err(Fault::BadHeaderType);
            }
            let properties = encap::decode_properties(packet_type, body)?;
            return Ok(Action::Encap(Encap { packet_type, size, properties }));
        }
        47 if context.version > Version::V10 => {
            body.skip(2)?;
            let packet_type = PacketType(body.u32()?);
            if !body.is_empty() {
                return Err(Fault::UnknownEncapProperty);
            }
            Action::Decap(packet_type)
        }
        48 if context.version > Version::V10 => {
            body.skip(6)?;
            Action::DecNshTtl
        }
        _ => return Err(Fault::ActionBadExperimenterType),
    };
    body.finish()?;
    Ok(action)
}

/// The rest of an action of 24 bytes that ends with a field's header: zeros.
fn zeros(body: &mut Reader<'_>) -> Result<(), Fault> {
    body.zeros(body.len(), Fault::MustBeZero)
}

fn decode_multipath(body: &mut Reader<'_>) -> Result<Multipath, Fault> {
    let (fields, basis) = (body.u16()?, body.u16()?);
    body.skip(2)?;
    let (algorithm, max_link, argument) = (body.u16()?, body.u16()?, body.u32()?);
    body.skip(2)?;
    let packed = body.u16()?;
    let field = subfield::decode_short_header(body)?.ok_or(Fault::BadSetType)?;
    let destination = Subfield::from_packed(packed, field)?.settable()?;
    let room = destination.bits() >= 16 || u32::from(max_link) < 1 << destination.bits();
    if fields > HASHES || algorithm > 3 || !room {
        return Err(Fault::ActionBadArgument);
    }
    Ok(Multipath { fields, basis, algorithm, max_link, argument, destination })
}

fn decode_bundle(mut body: Reader<'_>, load: bool) -> Result<Action, Fault> {
    let (algorithm, fields, basis) = (body.u16()?, body.u16()?, body.u16()?);
    let (member_type, count, packed) = (body.u32()?, body.u16()?, body.u16()?);
    let field = subfield::decode_short_header(&mut body)?;
    body.zeros(4, Fault::ActionBadArgument)?;
    if fields > HASHES || algorithm > 1 || member_type != MEMBER_TYPE || count > MEMBERS {
        return Err(Fault::ActionBadArgument);
    }
    let destination = match (load, field) {
        (true, Some(field)) => Some(Subfield::from_packed(packed, field)?.settable()?),
        (true, None) => return Err(Fault::BadSetType),
        (false, None) if packed == 0 => None,
        (false, _) => return Err(Fault::ActionBadArgument),
    };
    if destination.is_some_and(|part| part.bits() < 16) {
        return Err(Fault::ActionBadArgument);
    }
    let members =
        (0..count).map(|_| body.u16().map(PortNumber::from_short)).collect::<Result<_, _>>()?;
    end(body)?;
    Ok(Action::Bundle(Box::new(Bundle { algorithm, fields, basis, members, destination })))
}

fn decode_sample(body: &mut Reader<'_>, kind: u16) -> Result<Sample, Fault> {
    let probability = body.u16()?;
    let (collector_set, domain, point) = (body.u32()?, body.u32()?, body.u32()?);
    let (mut port, mut direction) = (PortNumber::ANY, 0);
    if kind != 29 {
        port = PortNumber::from_short(body.u16()?);
        let given = body.u8()?;
        if kind == 41 {
            body.zeros(5, Fault::MustBeZero)?;
            direction = given;
        } else {
            body.skip(5)?;
        }
    }
    if probability == 0 || direction > 2 {
        return Err(Fault::ActionBadArgument);
    }
    Ok(Sample { probability, collector_set, domain, point, port, direction })
}

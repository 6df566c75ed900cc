//! Nicira's actions, which Open vSwitch documents in ovs-actions(7), and ONF's copy-field for 1.3.
//!
//! There is no `encap`, `decap` and `dec_nsh_ttl`.

use super::super::bytes::{Reader, Writer};
use super::super::fault::{Fault, NICIRA, ONF};
use super::super::field::Field;
use super::super::oxm::{Entry, FieldId, IN_ACTION};
use super::super::port_number::PortNumber;
use super::super::subfield::{self, NXM, Subfield};
use super::super::unencodable::Unencodable;
use super::super::version::Version;
use super::{
    Action, EXPERIMENTER, Inside, Place, connection, controller, decode_inside, encode_list, learn,
    standard, write,
};

/// A number that depends on the flow (`multipath`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Multipath {
    /// Which fields make a flow.
    pub fields: u16,
    /// What their hash starts from.
    pub basis: u16,
    /// How a number becomes of the hash.
    pub algorithm: u16,
    /// The greatest number.
    pub max_link: u16,
    /// An argument of the algorithm.
    pub argument: u32,
    /// Where the number goes.
    pub destination: Subfield,
}

/// A port of several (`bundle`, `bundle_load`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bundle {
    /// How one is chosen: 0 the first that is up, 1 by highest random weight.
    pub algorithm: u16,
    /// Which fields make a flow.
    pub fields: u16,
    /// What their hash starts from.
    pub basis: u16,
    /// The ports.
    pub members: Vec<PortNumber>,
    /// Where the port's number goes; without it, the packet goes to the port.
    pub destination: Option<Subfield>,
}

/// Flow records of some packets (`sample`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Of 65,535 packets how many.
    pub probability: u16,
    /// Which collectors.
    pub collector_set: u32,
    /// The observation domain of records.
    pub domain: u32,
    /// The observation point of records.
    pub point: u32,
    /// The port packets are sampled at; `ANY` is none.
    pub port: PortNumber,
    /// 0 not said, 1 as they come in, 2 as they go out.
    pub direction: u8,
}

/// How many ports a bundle may have.
const MEMBERS: u16 = 2048;
/// The header of Nicira's field for input ports, which bundles have as the type of members.
const MEMBER_TYPE: u32 = 0x0000_0002;

pub(super) fn decode(mut body: Reader<'_>, place: Place) -> Result<Action, Fault> {
    match body.u32()? {
        NICIRA => {
            let kind = body.u16()?;
            decode_nicira(kind, body, place)
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

fn decode_nicira(kind: u16, mut body: Reader<'_>, place: Place) -> Result<Action, Fault> {
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
            match place.version {
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
        35 => return connection::decode_ct(body, place),
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
            return Ok(Action::Clone(decode_inside(body, place.deeper(Inside::Clone)?)?));
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
    if algorithm > 3 || !room {
        return Err(Fault::ActionBadArgument);
    }
    Ok(Multipath { fields, basis, algorithm, max_link, argument, destination })
}

fn decode_bundle(mut body: Reader<'_>, load: bool) -> Result<Action, Fault> {
    let (algorithm, fields, basis) = (body.u16()?, body.u16()?, body.u16()?);
    let (member_type, count, packed) = (body.u32()?, body.u16()?, body.u16()?);
    let field = subfield::decode_short_header(&mut body)?;
    body.zeros(4, Fault::ActionBadArgument)?;
    if algorithm > 1 || member_type != MEMBER_TYPE || count > MEMBERS {
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

/// Writes an action of Nicira's.
pub(super) fn write_nicira(
    out: &mut Writer,
    kind: u16,
    body: impl FnOnce(&mut Writer) -> Result<(), Unencodable>,
) -> Result<(), Unencodable> {
    write(out, EXPERIMENTER, |out| {
        out.u32(NICIRA);
        out.u16(kind);
        body(out)
    })
}

/// Writes an action that the version has only as Nicira's.
pub(super) fn encode(
    action: &Action,
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    // Up to 24 bytes, the first ten of which come before `start`.
    let fill = |out: &mut Writer, start: usize| out.zeros(14 - (out.len() - start));
    match action {
        Action::Resubmit { port, table, original } => {
            write_nicira(out, if *original { 44 } else { 14 }, |out| {
                out.u16(port.short()?);
                out.u8(*table);
                Ok(())
            })
        }
        Action::SetField(entry) => encode_set_field(entry, version, out),
        Action::SetQueue(queue) => write_nicira(out, 4, |out| {
            out.zeros(2);
            out.u32(*queue);
            Ok(())
        }),
        Action::PopQueue => write_nicira(out, 5, |_| Ok(())),
        Action::Move { source, destination } => write_nicira(out, 6, |out| {
            out.u16(source.bits());
            out.u16(source.offset());
            out.u16(destination.offset());
            subfield::encode_header(source.field(), NXM, out);
            subfield::encode_header(destination.field(), NXM, out);
            Ok(())
        }),
        Action::Load { destination, value } => write_nicira(out, 7, |out| {
            out.u16(destination.packed()?);
            subfield::encode_short_header(destination.field(), out)?;
            out.u64(*value);
            Ok(())
        }),
        Action::Note(note) => write_nicira(out, 8, |out| {
            out.bytes(note);
            Ok(())
        }),
        Action::Multipath(multipath) => write_nicira(out, 10, |out| {
            out.u16(multipath.fields);
            out.u16(multipath.basis);
            out.zeros(2);
            out.u16(multipath.algorithm);
            out.u16(multipath.max_link);
            out.u32(multipath.argument);
            out.zeros(2);
            out.u16(multipath.destination.packed()?);
            subfield::encode_short_header(multipath.destination.field(), out)
        }),
        Action::Bundle(bundle) => encode_bundle(bundle, out),
        Action::OutputField { source, max_len } => {
            let short = FieldId::new(source.field(), false, NXM);
            if short.experimenter.is_none() {
                return write_nicira(out, 15, |out| {
                    out.u16(source.packed()?);
                    subfield::encode_header(source.field(), NXM, out);
                    out.u16(*max_len);
                    out.zeros(6);
                    Ok(())
                });
            }
            write_nicira(out, 32, |out| {
                let start = out.len();
                out.u16(source.packed()?);
                out.u16(*max_len);
                subfield::encode_header(source.field(), NXM, out);
                fill(out, start);
                Ok(())
            })
        }
        Action::Learn(learn) => learn::encode(learn, out),
        Action::Exit => write_nicira(out, 17, |_| Ok(())),
        Action::DecIpTtl => write_nicira(out, 18, |_| Ok(())),
        Action::FinTimeout { idle, hard } => write_nicira(out, 19, |out| {
            out.u16(*idle);
            out.u16(*hard);
            Ok(())
        }),
        Action::Controller(controller) => controller::encode(controller, out),
        Action::DecIpTtlFor(identifiers) => write_nicira(out, 21, |out| {
            out.u16(u16::try_from(identifiers.len()).map_err(|_| Unencodable::TooLong)?);
            out.zeros(4);
            identifiers.iter().for_each(|&identifier| out.u16(identifier));
            Ok(())
        }),
        Action::WriteMetadata { value, mask } => write_nicira(out, 22, |out| {
            out.zeros(6);
            out.u64(*value);
            out.u64(*mask);
            Ok(())
        }),
        Action::PushMpls(ethernet) | Action::PopMpls(ethernet) => {
            let kind = if matches!(action, Action::PushMpls(_)) { 23 } else { 24 };
            write_nicira(out, kind, |out| {
                out.u16(*ethernet);
                Ok(())
            })
        }
        Action::SetMplsTtl(ttl) => write_nicira(out, 25, |out| {
            out.u8(*ttl);
            Ok(())
        }),
        Action::DecMplsTtl => write_nicira(out, 26, |_| Ok(())),
        Action::StackPush(part) | Action::StackPop(part) => {
            let kind = if matches!(action, Action::StackPush(_)) { 27 } else { 28 };
            write_nicira(out, kind, |out| {
                let start = out.len();
                out.u16(part.offset());
                subfield::encode_header(part.field(), NXM, out);
                out.u16(part.bits());
                fill(out, start);
                Ok(())
            })
        }
        Action::Sample(sample) => encode_sample(sample, out),
        Action::Conjunction { id, clause, clauses } => write_nicira(out, 34, |out| {
            out.u8(*clause);
            out.u8(*clauses);
            out.u32(*id);
            Ok(())
        }),
        Action::Ct(ct) => connection::encode_ct(ct, version, out),
        Action::Nat(nat) => connection::encode_nat(nat, out),
        Action::OutputTruncated { port, max_len } => write_nicira(out, 39, |out| {
            out.u16(port.short()?);
            out.u32(*max_len);
            Ok(())
        }),
        Action::Group(group) => write_nicira(out, 40, |out| {
            out.zeros(2);
            out.u32(*group);
            Ok(())
        }),
        Action::Clone(actions) => write_nicira(out, 42, |out| {
            out.zeros(6);
            encode_list(actions, version, out)
        }),
        Action::CtClear => write_nicira(out, 43, |_| Ok(())),
        Action::CheckLarger { length, destination } => write_nicira(out, 49, |out| {
            let start = out.len();
            out.u16(*length);
            out.u16(destination.offset());
            subfield::encode_header(destination.field(), NXM, out);
            fill(out, start);
            Ok(())
        }),
        Action::PushVlan(_) => Err(Unencodable::Absent("adding a tag")),
        Action::PushPbb(_) | Action::PopPbb => Err(Unencodable::Absent("backbone bridging")),
        Action::CopyTtlOut | Action::CopyTtlIn => {
            Err(Unencodable::Absent("copying a time to live"))
        }
        Action::SetIpTtl(ttl) => {
            encode_set_field(&Entry::exact(Field::IpTtl, (*ttl).into()), version, out)
        }
        Action::Meter(_) => Err(Unencodable::Absent("a meter as an action")),
        Action::SetVlanVid(_) | Action::SetVlanPcp(_) => {
            Err(Unencodable::Absent("setting a tag that may not be there"))
        }
        Action::SetTpSrc(_) | Action::SetTpDst(_) => {
            Err(Unencodable::Absent("setting ports of any protocol"))
        }
        Action::Output { .. } | Action::Enqueue { .. } | Action::PopVlan => {
            Err(Unencodable::Absent("an action every version has"))
        }
    }
}

/// Sets a field where the version's own actions do not.
fn encode_set_field(entry: &Entry, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
    let old = version == Version::V10 && entry.is_exact();
    match (entry.field(), entry.value()) {
        (Field::TunnelId, id) if old && id <= u32::MAX.into() => write_nicira(out, 2, |out| {
            out.zeros(2);
            out.u32(id as u32);
            Ok(())
        }),
        (Field::TunnelId, id) if old => write_nicira(out, 9, |out| {
            out.zeros(6);
            out.u64(id as u64);
            Ok(())
        }),
        (Field::MplsLabel, label) if old => write_nicira(out, 30, |out| {
            out.zeros(2);
            out.u32(label as u32);
            Ok(())
        }),
        (Field::MplsTc, class) if old => write_nicira(out, 31, |out| {
            out.u8(class as u8);
            Ok(())
        }),
        _ => write_nicira(out, 33, |out| {
            entry.encode(version, out);
            Ok(())
        }),
    }
}

fn encode_bundle(bundle: &Bundle, out: &mut Writer) -> Result<(), Unencodable> {
    write_nicira(out, if bundle.destination.is_some() { 13 } else { 12 }, |out| {
        out.u16(bundle.algorithm);
        out.u16(bundle.fields);
        out.u16(bundle.basis);
        out.u32(MEMBER_TYPE);
        out.u16(u16::try_from(bundle.members.len()).map_err(|_| Unencodable::TooLong)?);
        match &bundle.destination {
            Some(part) => {
                out.u16(part.packed()?);
                subfield::encode_short_header(part.field(), out)?;
            }
            None => out.zeros(6),
        }
        out.zeros(4);
        for member in &bundle.members {
            out.u16(member.short()?);
        }
        Ok(())
    })
}

fn encode_sample(sample: &Sample, out: &mut Writer) -> Result<(), Unencodable> {
    let kind = match (sample.port, sample.direction) {
        (PortNumber::ANY, 0) => 29,
        (_, 0) => 38,
        _ => 41,
    };
    write_nicira(out, kind, |out| {
        out.u16(sample.probability);
        out.u32(sample.collector_set);
        out.u32(sample.domain);
        out.u32(sample.point);
        if kind != 29 {
            out.u16(sample.port.short()?);
            out.u8(sample.direction);
            out.zeros(5);
        }
        Ok(())
    })
}

//! Writing of Nicira's actions, also for actions that a version lacks.

use super::{Bundle, MEMBER_TYPE, Sample, encap};
use crate::wire::action::{
    Action, EXPERIMENTER, connection, controller, encode_list, learn, standard, write,
};
use crate::wire::bytes::Writer;
use crate::wire::fault::NICIRA;
use crate::wire::field::Field;
use crate::wire::oxm::Entry;
use crate::wire::port_number::PortNumber;
use crate::wire::subfield::{self, NXM, Subfield};
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// Writes an action of Nicira's.
pub(in crate::wire::action) fn write_nicira(
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
pub(in crate::wire::action) fn encode(
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
        // A load has no room for the header of an experimenter's field.
        Action::Load { destination, value } if !destination.field().is_short() => {
            encode_set_field(&standard::loaded(*destination, *value), version, out)
        }
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
            if source.field().is_short() {
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
        Action::Encap(_) | Action::Decap(_) if version == Version::V10 => {
            Err(Unencodable::Absent("adding and taking away the first header"))
        }
        Action::DecNshTtl if version == Version::V10 => {
            Err(Unencodable::Absent("the time to live of a network service header"))
        }
        Action::Encap(encap) => write_nicira(out, 46, |out| {
            out.u16(encap.size);
            out.u32(encap.packet_type.0);
            encap::encode_properties(encap, out)
        }),
        Action::DecNshTtl => write_nicira(out, 48, |_| Ok(())),
        Action::Decap(packet_type) => write_nicira(out, 47, |out| {
            out.zeros(2);
            out.u32(packet_type.0);
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
        // As Open vSwitch writes it. The tag's bit of presence is not one that is loaded.
        (field, value)
            if old && field.bits() <= 64 && field != Field::VlanVid && field.is_short() =>
        {
            let load = Action::Load { destination: Subfield::whole(field), value: value as u64 };
            encode(&load, version, out)
        }
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

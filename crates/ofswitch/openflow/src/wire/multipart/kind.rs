//! The types of multipart messages, and their heads.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::{Fault, NICIRA, ONF};
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// The flag of a message that others follow.
pub(super) const MORE: u16 = 1;
const EXPERIMENTER: u16 = 0xffff;

/// Types of requests, by the organisation that defines them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MultipartType {
    Standard(u16),
    Nicira(u32),
    Onf(u32),
}

pub(super) const DESC: MultipartType = MultipartType::Standard(0);
pub(super) const FLOW: MultipartType = MultipartType::Standard(1);
pub(super) const AGGREGATE: MultipartType = MultipartType::Standard(2);
pub(super) const TABLE: MultipartType = MultipartType::Standard(3);
pub(super) const PORT: MultipartType = MultipartType::Standard(4);
pub(super) const QUEUE: MultipartType = MultipartType::Standard(5);
pub(super) const GROUP: MultipartType = MultipartType::Standard(6);
pub(super) const GROUP_DESC: MultipartType = MultipartType::Standard(7);
pub(super) const GROUP_FEATURES: MultipartType = MultipartType::Standard(8);
pub(super) const METER: MultipartType = MultipartType::Standard(9);
pub(super) const METER_CONFIG: MultipartType = MultipartType::Standard(10);
pub(super) const METER_FEATURES: MultipartType = MultipartType::Standard(11);
pub(super) const TABLE_FEATURES: MultipartType = MultipartType::Standard(12);
pub(super) const PORT_DESC: MultipartType = MultipartType::Standard(13);
pub(super) const TABLE_DESC: MultipartType = MultipartType::Standard(14);
pub(super) const QUEUE_DESC: MultipartType = MultipartType::Standard(15);
pub(super) const FLOW_MONITOR: MultipartType = MultipartType::Standard(16);
pub(super) const FLOW_COUNTERS: MultipartType = MultipartType::Standard(17);
pub(super) const NICIRA_FLOW: MultipartType = MultipartType::Nicira(0);
pub(super) const NICIRA_AGGREGATE: MultipartType = MultipartType::Nicira(1);
pub(super) const NICIRA_FLOW_MONITOR: MultipartType = MultipartType::Nicira(2);
pub(super) const ONF_FLOW_MONITOR: MultipartType = MultipartType::Onf(1870);
pub(super) const NICIRA_GROUP: MultipartType = MultipartType::Nicira(7);
pub(super) const NICIRA_GROUP_DESC: MultipartType = MultipartType::Nicira(8);
pub(super) const NICIRA_GROUP_FEATURES: MultipartType = MultipartType::Nicira(9);

/// The kind of an extension to OpenFlow 1.0 or 1.3 that is another version's own, as that one.
fn unify(kind: MultipartType, version: Version) -> Result<MultipartType, Fault> {
    let of_10 = version == Version::V10;
    match kind {
        NICIRA_GROUP if of_10 => Ok(GROUP),
        NICIRA_GROUP_DESC if of_10 => Ok(GROUP_DESC),
        NICIRA_GROUP_FEATURES if of_10 => Ok(GROUP_FEATURES),
        NICIRA_FLOW_MONITOR if of_10 => Ok(FLOW_MONITOR),
        ONF_FLOW_MONITOR if version == Version::V13 => Ok(FLOW_MONITOR),
        NICIRA_FLOW | NICIRA_AGGREGATE if of_10 => Ok(kind),
        MultipartType::Nicira(_) | MultipartType::Onf(_) => Err(Fault::BadExperimenterType),
        MultipartType::Standard(number) => {
            // Open vSwitch answers for ports in OpenFlow 1.0, too, where they may be too many.
            let known = match version {
                Version::V10 => number <= 5 || kind == PORT_DESC,
                Version::V13 => number <= 13,
                Version::V14 => number <= 16,
                Version::V15 => number <= 17,
            };
            if known { Ok(kind) } else { Err(Fault::BadMultipart) }
        }
    }
}

/// The kind that is written, the other way.
fn particular(kind: MultipartType, version: Version) -> Result<MultipartType, Unencodable> {
    let kind = match (kind, version) {
        (GROUP, Version::V10) => return Ok(NICIRA_GROUP),
        (GROUP_DESC, Version::V10) => return Ok(NICIRA_GROUP_DESC),
        (GROUP_FEATURES, Version::V10) => return Ok(NICIRA_GROUP_FEATURES),
        (FLOW_MONITOR, Version::V10) => return Ok(NICIRA_FLOW_MONITOR),
        (FLOW_MONITOR, Version::V13) => return Ok(ONF_FLOW_MONITOR),
        _ => kind,
    };
    unify(kind, version).map_err(|_| Unencodable::Absent("these statistics"))
}

pub(super) fn decode_head(
    reader: &mut Reader<'_>,
    version: Version,
) -> Result<(MultipartType, bool), Fault> {
    let (number, flags) = (reader.u16()?, reader.u16()?);
    if version != Version::V10 {
        reader.skip(4)?;
    }
    let kind = if number == EXPERIMENTER {
        let kind = match (reader.u32()?, reader.u32()?) {
            (NICIRA, kind) => MultipartType::Nicira(kind),
            (ONF, kind) => MultipartType::Onf(kind),
            _ => return Err(Fault::BadExperimenter),
        };
        if version == Version::V10 {
            reader.skip(4)?;
        }
        kind
    } else {
        MultipartType::Standard(number)
    };
    Ok((unify(kind, version)?, flags & MORE != 0))
}

pub(super) fn encode_head(
    kind: MultipartType,
    more: bool,
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    let flags = if more { MORE } else { 0 };
    let old = version == Version::V10;
    let (number, extension) = match particular(kind, version)? {
        MultipartType::Standard(number) => (number, None),
        MultipartType::Nicira(number) => (EXPERIMENTER, Some((NICIRA, number))),
        MultipartType::Onf(number) => (EXPERIMENTER, Some((ONF, number))),
    };
    out.u16(number);
    out.u16(flags);
    out.zeros(if old { 0 } else { 4 });
    if let Some((experimenter, number)) = extension {
        out.u32(experimenter);
        out.u32(number);
        out.zeros(if old { 4 } else { 0 });
    }
    Ok(())
}

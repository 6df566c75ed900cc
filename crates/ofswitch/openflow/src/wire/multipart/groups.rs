//! Statistics and descriptions of groups.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::elapsed::Elapsed;
use crate::wire::fault::Fault;
use crate::wire::group::{
    Bucket, GroupType, Selection, decode_buckets, decode_selection, encode_buckets,
    encode_selection,
};
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// Statistics of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStats {
    /// Its number.
    pub group: u32,
    /// Number of flows and groups that send to it.
    pub references: u32,
    /// Its packets; `u64::MAX` is not known.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Time it has existed.
    pub duration: Elapsed,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

impl GroupStats {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<GroupStats, Fault> {
        let length = usize::from(reader.u16()?);
        let mut body = reader.part(length.checked_sub(2).ok_or(Fault::BadLength)?)?;
        body.skip(2)?;
        let (group, references) = (body.u32()?, body.u32()?);
        body.skip(4)?;
        let (packets, bytes) = (body.u64()?, body.u64()?);
        let duration = Elapsed::decode(&mut body)?;
        let mut buckets = Vec::new();
        while !body.is_empty() {
            buckets.push((body.u64()?, body.u64()?));
        }
        Ok(GroupStats { group, references, packets, bytes, duration, buckets })
    }

    pub(super) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.zeros(4);
        out.u32(self.group);
        out.u32(self.references);
        out.zeros(4);
        out.u64(self.packets);
        out.u64(self.bytes);
        self.duration.encode(out);
        for &(packets, bytes) in &self.buckets {
            out.u64(packets);
            out.u64(bytes);
        }
        out.length(start, start)
    }
}

/// Description of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDesc {
    /// Its number.
    pub group: u32,
    /// Its type.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// Method to select a bucket (OpenFlow 1.5).
    pub selection: Option<Selection>,
}

impl GroupDesc {
    pub(super) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<GroupDesc, Fault> {
        let length = usize::from(reader.u16()?);
        let mut body = reader.part(length.checked_sub(2).ok_or(Fault::BadLength)?)?;
        let kind = GroupType::from_number(body.u8()?).ok_or(Fault::GroupBadType)?;
        body.skip(1)?;
        let group = body.u32()?;
        if matches!(version, Version::V13 | Version::V14) {
            let buckets = decode_buckets(body, Some(kind), version)?;
            return Ok(GroupDesc { group, kind, buckets, selection: None });
        }
        let length = body.u16()?;
        body.skip(6)?;
        let buckets = decode_buckets(body.part(length.into())?, Some(kind), version)?;
        Ok(GroupDesc { group, kind, buckets, selection: decode_selection(body)? })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u16(0);
        out.u8(self.kind.number());
        out.zeros(1);
        out.u32(self.group);
        if matches!(version, Version::V13 | Version::V14) {
            encode_buckets(&self.buckets, self.kind, version, out)?;
        } else {
            let at = out.len();
            out.zeros(8);
            let buckets = out.len();
            encode_buckets(&self.buckets, self.kind, version, out)?;
            out.length(at, buckets)?;
            encode_selection(self.selection.as_ref(), version, out)?;
        }
        out.length(start, start)
    }
}

/// Features of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupFeatures {
    /// A bit for each type.
    pub types: u32,
    /// Bit 0 weights, 1 watching, 2 groups of groups, 3 circles are found.
    pub capabilities: u32,
    /// Groups at most, by type.
    pub greatest: [u32; 4],
    /// A bit for each type of action, by type.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    pub(super) fn decode(mut reader: Reader<'_>) -> Result<GroupFeatures, Fault> {
        let (types, capabilities) = (reader.u32()?, reader.u32()?);
        let mut four = || Ok([reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?]);
        let features = GroupFeatures { types, capabilities, greatest: four()?, actions: four()? };
        reader.finish()?;
        Ok(features)
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.u32(self.types);
        out.u32(self.capabilities);
        self.greatest.iter().chain(&self.actions).for_each(|&number| out.u32(number));
    }
}

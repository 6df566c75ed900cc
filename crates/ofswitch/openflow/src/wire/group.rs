//! Groups: lists of actions, and the selection among them.
//!
//! OpenFlow 1.5 has another form than 1.1, with numbered buckets that can be added and taken away
//! one by one. Nicira's extension has that form for OpenFlow 1.0.

use super::action::{self, Action};
use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::matching::{Dialect, Match};
use super::numbered::numbered;
use super::port_number::PortNumber;
use super::property;
use super::unencodable::Unencodable;
use super::version::Version;

/// Groups have numbers up to this one.
pub const MAX_GROUP: u32 = 0xffff_ff00;
/// All groups, in requests.
pub const ALL_GROUPS: u32 = 0xffff_fffc;
/// All buckets, in requests.
pub const ALL_BUCKETS: u32 = 0xffff_ffff;
/// The first bucket of a group.
pub const FIRST: u32 = 0xffff_fffd;
/// The last bucket of a group.
pub const LAST: u32 = 0xffff_fffe;
/// No group is watched.
const NO_GROUP: u32 = 0xffff_ffff;

numbered! {
    /// Type of a group: the buckets a packet goes to.
    pub enum GroupType: u8 {
        /// All, each with a copy.
        All = 0,
        /// One, chosen by the flow and by weights.
        Select = 1,
        /// The only one.
        Indirect = 2,
        /// The first that is alive.
        FastFailover = 3,
    }
}

numbered! {
    /// Command on a group.
    pub enum GroupCommand: u16 {
        /// It is added.
        Add = 0,
        /// It becomes another.
        Modify = 1,
        /// It is deleted, or all are.
        Delete = 2,
        /// Buckets are added (OpenFlow 1.5).
        InsertBucket = 3,
        /// Buckets are taken away (OpenFlow 1.5).
        RemoveBucket = 5,
        /// It is added, or becomes another (Open vSwitch).
        AddOrModify = 0x8000,
    }
}

/// A list of actions in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its number (OpenFlow 1.5); in others its place.
    pub id: u32,
    /// Its share of packets, relative to others.
    pub weight: u16,
    /// It is alive while this port is; `ANY` is none.
    pub watch_port: PortNumber,
    /// It is alive while this group is.
    pub watch_group: Option<u32>,
    /// Its actions.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// A bucket that watches nothing.
    #[must_use]
    pub fn new(actions: Vec<Action>) -> Bucket {
        Bucket { id: 0, weight: 0, watch_port: PortNumber::ANY, watch_group: None, actions }
    }

    fn watches(&self) -> bool {
        self.watch_port != PortNumber::ANY || self.watch_group.is_some()
    }
}

/// Method to select a bucket (an extension of Netronome that Open vSwitch has).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The name of the method, of at most 15 bytes.
    pub method: String,
    /// Its parameter.
    pub parameter: u64,
    /// The fields that make a flow, whole, each with the mask it is taken under as its value.
    pub fields: Match,
}

/// A change of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMod {
    /// Command on the group.
    pub command: GroupCommand,
    /// Its type.
    pub kind: GroupType,
    /// Its number; [`ALL_GROUPS`] to delete all.
    pub group: u32,
    /// Place where buckets are added or removed (OpenFlow 1.5): a number, or 0xfffffffd the first,
    /// 0xfffffffe the last, 0xffffffff all.
    pub at: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
    /// Method to select a bucket (OpenFlow 1.5).
    pub selection: Option<Selection>,
}

/// Returns true if groups have the form of OpenFlow 1.5.
fn is_new(version: Version) -> bool {
    matches!(version, Version::V10 | Version::V15)
}

const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;

impl GroupMod {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<GroupMod, Fault> {
        let command = reader.u16()?;
        let kind = GroupType::from_number(reader.u8()?);
        reader.skip(1)?;
        let group = reader.u32()?;
        let (mut at, mut selection) = (ALL_BUCKETS, None);
        let buckets = if is_new(version) {
            let length = usize::from(reader.u16()?);
            reader.skip(2)?;
            at = reader.u32()?;
            let buckets =
                decode_buckets(reader.with_fault(Fault::BadBucket).part(length)?, kind, version)?;
            reader.skip(length)?;
            selection = decode_selection(reader)?;
            buckets
        } else {
            decode_buckets(reader, kind, version)?
        };
        let command = GroupCommand::from_number(command)
            .filter(|command| is_new(version) || !command.is_of_buckets());
        let command = command.ok_or(Fault::GroupBadCommand)?;
        let kind = kind.ok_or(Fault::GroupBadType)?;
        let change = GroupMod { command, kind, group, at, buckets, selection };
        change.check()?;
        Ok(change)
    }

    /// Checks rules that hold for any group.
    fn check(&self) -> Result<(), Fault> {
        let at = match self.command {
            GroupCommand::InsertBucket => self.at <= MAX_GROUP || matches!(self.at, FIRST | LAST),
            GroupCommand::RemoveBucket => {
                self.at <= MAX_GROUP || matches!(self.at, FIRST | LAST | ALL_BUCKETS)
            }
            _ => self.at == ALL_BUCKETS,
        };
        if !at {
            return Err(Fault::BadBucket);
        }
        if self.command == GroupCommand::Delete {
            // One that cannot be is not there to be deleted.
            return Ok(());
        }
        if self.group > MAX_GROUP {
            return Err(Fault::InvalidGroup);
        }
        match self.command {
            GroupCommand::RemoveBucket if !self.buckets.is_empty() => return Err(Fault::BadBucket),
            _ => {}
        }
        // Commands on single buckets need not name the type.
        if self.command.is_of_buckets() {
            return Ok(());
        }
        if self.kind == GroupType::Indirect && self.buckets.len() != 1 {
            return Err(Fault::InvalidGroup);
        }
        for bucket in &self.buckets {
            match self.kind {
                GroupType::All | GroupType::Indirect if bucket.watches() => {
                    return Err(Fault::WatchUnsupported);
                }
                GroupType::FastFailover if !bucket.watches() => return Err(Fault::InvalidGroup),
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        if !is_new(version) && self.command.is_of_buckets() {
            return Err(Unencodable::Absent("a change of single buckets"));
        }
        out.u16(self.command.number());
        out.u8(self.kind.number());
        out.zeros(1);
        out.u32(self.group);
        if !is_new(version) {
            return encode_buckets(&self.buckets, self.kind, version, out);
        }
        let length = out.len();
        out.zeros(4);
        out.u32(self.at);
        let start = out.len();
        encode_buckets(&self.buckets, self.kind, version, out)?;
        out.length(length, start)?;
        encode_selection(self.selection.as_ref(), version, out)
    }
}

impl GroupCommand {
    fn is_of_buckets(self) -> bool {
        matches!(self, GroupCommand::InsertBucket | GroupCommand::RemoveBucket)
    }
}

/// Returns the default weight of a bucket (OpenFlow 1.5), as in Open vSwitch.
fn unsaid_weight(kind: Option<GroupType>) -> u16 {
    u16::from(kind == Some(GroupType::Select))
}

pub(crate) fn decode_buckets(
    reader: Reader<'_>,
    kind: Option<GroupType>,
    version: Version,
) -> Result<Vec<Bucket>, Fault> {
    let mut reader = reader.with_fault(Fault::BadBucket);
    let mut buckets = Vec::new();
    while !reader.is_empty() {
        let mut header = reader;
        let length = usize::from(header.u16()?);
        if length % 8 != 0 {
            return Err(Fault::BadBucket);
        }
        let mut body = reader.part(length)?;
        body.skip(2)?;
        buckets.push(if is_new(version) {
            decode_bucket_15(body, kind, version)?
        } else {
            let weight = body.u16()?;
            let (port, group) = (PortNumber(body.u32()?), body.u32()?);
            body.skip(4)?;
            Bucket {
                id: buckets.len() as u32,
                weight,
                watch_port: port,
                watch_group: (group != NO_GROUP).then_some(group),
                actions: action::decode_list(body, version)?,
            }
        });
    }
    Ok(buckets)
}

fn decode_bucket_15(
    mut body: Reader<'_>,
    kind: Option<GroupType>,
    version: Version,
) -> Result<Bucket, Fault> {
    let actions = usize::from(body.u16()?);
    let id = body.u32()?;
    let actions = action::decode_list(body.part(actions)?, version)?;
    let mut bucket = Bucket { id, weight: unsaid_weight(kind), ..Bucket::new(actions) };
    while let Some((kind, mut value)) = property::next(&mut body)? {
        match kind {
            WEIGHT => bucket.weight = property::u16(&mut value)?,
            WATCH_PORT => bucket.watch_port = PortNumber(value.u32()?),
            WATCH_GROUP => {
                let group = value.u32()?;
                bucket.watch_group = (group != NO_GROUP).then_some(group);
            }
            _ => return Err(property::unknown(kind)),
        }
        value.finish()?;
    }
    Ok(bucket)
}

pub(crate) fn encode_buckets(
    buckets: &[Bucket],
    kind: GroupType,
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    for bucket in buckets {
        let start = out.len();
        out.u16(0);
        if is_new(version) {
            let length = out.len();
            out.u16(0);
            out.u32(bucket.id);
            let actions = out.len();
            action::encode_list(&bucket.actions, version, out)?;
            out.length(length, actions)?;
            if bucket.weight != 0 || kind == GroupType::Select {
                property::put_u16(out, WEIGHT, bucket.weight)?;
            }
            if bucket.watch_port != PortNumber::ANY {
                property::put(out, WATCH_PORT, |out| out.u32(bucket.watch_port.0))?;
            }
            if let Some(group) = bucket.watch_group {
                property::put(out, WATCH_GROUP, |out| out.u32(group))?;
            }
        } else {
            out.u16(bucket.weight);
            out.u32(bucket.watch_port.0);
            out.u32(bucket.watch_group.unwrap_or(NO_GROUP));
            out.zeros(4);
            action::encode_list(&bucket.actions, version, out)?;
        }
        out.length(start, start)?;
    }
    Ok(())
}

const NETRONOME: u32 = 0x0000_154d;
/// The number it had before.
const NETRONOME_OLD: u32 = 0x0000_1540;
const SELECTION_METHOD: u32 = 1;
const METHOD: usize = 16;

pub(crate) fn decode_selection(mut reader: Reader<'_>) -> Result<Option<Selection>, Fault> {
    let mut found = None;
    while let Some((kind, mut value)) = property::next(&mut reader)? {
        if kind != property::EXPERIMENTER {
            return Err(property::unknown(kind));
        }
        if !matches!(value.u32()?, NETRONOME | NETRONOME_OLD) {
            return Err(Fault::PropertyBadExperimenter);
        }
        if value.u32()? != SELECTION_METHOD {
            return Err(Fault::PropertyBadExperimenterType);
        }
        value.skip(4)?;
        let (method, parameter) = (value.text(METHOD)?, value.u64()?);
        let fields = Match::decode_fields_alone(value.part(value.len())?, Dialect::List)?;
        found = Some(Selection { method, parameter, fields });
    }
    Ok(found)
}

pub(crate) fn encode_selection(
    selection: Option<&Selection>,
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    let Some(selection) = selection else { return Ok(()) };
    property::put(out, property::EXPERIMENTER, |out| {
        out.u32(NETRONOME);
        out.u32(SELECTION_METHOD);
        out.zeros(4);
        out.text(&selection.method, METHOD);
        out.u64(selection.parameter);
        selection.fields.encode_fields_alone(version, out);
    })
}

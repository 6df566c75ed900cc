//! Multipart messages: statistics, descriptions and features, in as many messages as they take.
//!
//! OpenFlow 1.0 calls them statistics. Nicira's extension has some of them for 1.0 in other forms,
//! and those of groups, which 1.0 has not; which form was asked for an answer has to have.

mod desc;
mod flows;
mod groups;
mod meters;
mod ports;
mod table_features;
mod tables;

pub use desc::Description;
pub use flows::{AggregateStats, FlowRequest, FlowStats};
pub use groups::{GroupDesc, GroupFeatures, GroupStats};
pub use meters::{MeterConfig, MeterFeatures, MeterStats};
pub use ports::{EthernetErrors, PortStats, QueueStats};
pub use table_features::{FeaturesCommand, KindId, TableFeatures, TableProperty};
pub use tables::TableStats;

use super::bytes::{Reader, Writer};
use super::fault::{Fault, NICIRA};
use super::group::ALL_GROUPS;
use super::port::Port;
use super::port_number::PortNumber;
use super::queue::Queue;
use super::table::TableDesc;
use super::unencodable::Unencodable;
use super::version::Version;

/// The flag of a message that others follow.
const MORE: u16 = 1;
const EXPERIMENTER: u16 = 0xffff;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// What the switch says of itself.
    Desc,
    /// Flows.
    Flow(FlowRequest),
    /// Flows, in Nicira's form (OpenFlow 1.0).
    NiciraFlow(FlowRequest),
    /// Counters of flows alone (OpenFlow 1.5).
    FlowCounters(FlowRequest),
    /// Flows together.
    Aggregate(FlowRequest),
    /// Flows together, in Nicira's form (OpenFlow 1.0).
    NiciraAggregate(FlowRequest),
    /// Tables.
    Table,
    /// What a port did; `ANY` is all.
    Port(PortNumber),
    /// What queues did.
    Queue {
        /// Of this port; `ANY` is all.
        port: PortNumber,
        /// This queue; [`ALL_QUEUES`](super::queue::ALL_QUEUES) is all.
        queue: u32,
    },
    /// What a group did; [`ALL_GROUPS`] is all.
    Group(u32),
    /// What a group is; all before OpenFlow 1.5.
    GroupDesc(u32),
    /// What groups can be.
    GroupFeatures,
    /// What a meter did; [`ALL_METERS`](super::meter::ALL_METERS) is all.
    Meter(u32),
    /// What a meter is.
    MeterConfig(u32),
    /// What meters can be.
    MeterFeatures,
    /// What tables can; some is what they shall.
    TableFeatures(Vec<TableFeatures>),
    /// Ports; all before OpenFlow 1.5.
    PortDesc(PortNumber),
    /// How tables are set (OpenFlow 1.4 and later).
    TableDesc,
    /// Queues of ports (OpenFlow 1.4 and later).
    QueueDesc {
        /// Of this port; `ANY` is all.
        port: PortNumber,
        /// This queue; [`ALL_QUEUES`](super::queue::ALL_QUEUES) is all.
        queue: u32,
    },
}

/// A request, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartRequest {
    /// Whether other parts follow.
    pub more: bool,
    /// What is asked for.
    pub body: Request,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// What the switch says of itself.
    Desc(Description),
    /// Flows.
    Flow(Vec<FlowStats>),
    /// Flows, in Nicira's form (OpenFlow 1.0).
    NiciraFlow(Vec<FlowStats>),
    /// Counters of flows alone (OpenFlow 1.5).
    FlowCounters(Vec<FlowStats>),
    /// Flows together.
    Aggregate(AggregateStats),
    /// Flows together, in Nicira's form (OpenFlow 1.0).
    NiciraAggregate(AggregateStats),
    /// Tables.
    Table(Vec<TableStats>),
    /// What ports did.
    Port(Vec<PortStats>),
    /// What queues did.
    Queue(Vec<QueueStats>),
    /// What groups did.
    Group(Vec<GroupStats>),
    /// What groups are.
    GroupDesc(Vec<GroupDesc>),
    /// What groups can be.
    GroupFeatures(GroupFeatures),
    /// What meters did.
    Meter(Vec<MeterStats>),
    /// What meters are.
    MeterConfig(Vec<MeterConfig>),
    /// What meters can be.
    MeterFeatures(MeterFeatures),
    /// What tables can.
    TableFeatures(Vec<TableFeatures>),
    /// Ports.
    PortDesc(Vec<Port>),
    /// How tables are set (OpenFlow 1.4 and later).
    TableDesc(Vec<TableDesc>),
    /// Queues of ports (OpenFlow 1.4 and later).
    QueueDesc(Vec<Queue>),
}

/// An answer, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartReply {
    /// Whether other parts follow.
    pub more: bool,
    /// What is answered.
    pub body: Reply,
}

/// The types, and whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Standard(u16),
    Nicira(u32),
}

const DESC: Kind = Kind::Standard(0);
const FLOW: Kind = Kind::Standard(1);
const AGGREGATE: Kind = Kind::Standard(2);
const TABLE: Kind = Kind::Standard(3);
const PORT: Kind = Kind::Standard(4);
const QUEUE: Kind = Kind::Standard(5);
const GROUP: Kind = Kind::Standard(6);
const GROUP_DESC: Kind = Kind::Standard(7);
const GROUP_FEATURES: Kind = Kind::Standard(8);
const METER: Kind = Kind::Standard(9);
const METER_CONFIG: Kind = Kind::Standard(10);
const METER_FEATURES: Kind = Kind::Standard(11);
const TABLE_FEATURES: Kind = Kind::Standard(12);
const PORT_DESC: Kind = Kind::Standard(13);
const TABLE_DESC: Kind = Kind::Standard(14);
const QUEUE_DESC: Kind = Kind::Standard(15);
const FLOW_COUNTERS: Kind = Kind::Standard(17);
const NICIRA_FLOW: Kind = Kind::Nicira(0);
const NICIRA_AGGREGATE: Kind = Kind::Nicira(1);
const NICIRA_GROUP: Kind = Kind::Nicira(7);
const NICIRA_GROUP_DESC: Kind = Kind::Nicira(8);
const NICIRA_GROUP_FEATURES: Kind = Kind::Nicira(9);

/// The kind of OpenFlow 1.0's extension that is another version's own, as that one.
fn unify(kind: Kind, version: Version) -> Result<Kind, Fault> {
    let of_10 = version == Version::V10;
    match kind {
        NICIRA_GROUP if of_10 => Ok(GROUP),
        NICIRA_GROUP_DESC if of_10 => Ok(GROUP_DESC),
        NICIRA_GROUP_FEATURES if of_10 => Ok(GROUP_FEATURES),
        NICIRA_FLOW | NICIRA_AGGREGATE if of_10 => Ok(kind),
        Kind::Nicira(_) => Err(Fault::BadExperimenterType),
        Kind::Standard(number) => {
            // Open vSwitch answers for ports in OpenFlow 1.0, too, where they may be too many.
            let known = match version {
                Version::V10 => number <= 5 || kind == PORT_DESC,
                Version::V13 => number <= 13,
                Version::V14 => number <= 15,
                Version::V15 => number <= 15 || kind == FLOW_COUNTERS,
            };
            if known { Ok(kind) } else { Err(Fault::BadMultipart) }
        }
    }
}

/// The kind that is written, the other way.
fn particular(kind: Kind, version: Version) -> Result<Kind, Unencodable> {
    let kind = match (kind, version) {
        (GROUP, Version::V10) => return Ok(NICIRA_GROUP),
        (GROUP_DESC, Version::V10) => return Ok(NICIRA_GROUP_DESC),
        (GROUP_FEATURES, Version::V10) => return Ok(NICIRA_GROUP_FEATURES),
        _ => kind,
    };
    unify(kind, version).map_err(|_| Unencodable::Absent("these statistics"))
}

fn decode_head(reader: &mut Reader<'_>, version: Version) -> Result<(Kind, bool), Fault> {
    let (number, flags) = (reader.u16()?, reader.u16()?);
    if version != Version::V10 {
        reader.skip(4)?;
    }
    let kind = if number == EXPERIMENTER {
        if reader.u32()? != NICIRA {
            return Err(Fault::BadExperimenter);
        }
        let kind = Kind::Nicira(reader.u32()?);
        if version == Version::V10 {
            reader.skip(4)?;
        }
        kind
    } else {
        Kind::Standard(number)
    };
    Ok((unify(kind, version)?, flags & MORE != 0))
}

fn encode_head(
    kind: Kind,
    more: bool,
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    let flags = if more { MORE } else { 0 };
    let old = version == Version::V10;
    let (number, nicira) = match particular(kind, version)? {
        Kind::Standard(number) => (number, None),
        Kind::Nicira(number) => (EXPERIMENTER, Some(number)),
    };
    out.u16(number);
    out.u16(flags);
    out.zeros(if old { 0 } else { 4 });
    if let Some(number) = nicira {
        out.u32(NICIRA);
        out.u32(number);
        out.zeros(if old { 4 } else { 0 });
    }
    Ok(())
}

/// The entries of a list, up to the end.
fn list<'a, T>(
    mut reader: Reader<'a>,
    decode: impl Fn(&mut Reader<'a>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut entries = Vec::new();
    while !reader.is_empty() {
        entries.push(decode(&mut reader)?);
    }
    Ok(entries)
}

/// A number and four bytes of padding.
fn padded(mut reader: Reader<'_>) -> Result<u32, Fault> {
    let number = reader.u32()?;
    reader.skip(4)?;
    reader.finish()?;
    Ok(number)
}

fn nothing(reader: Reader<'_>) -> Result<(), Fault> {
    reader.finish()
}

impl MultipartRequest {
    pub(crate) fn decode(
        mut reader: Reader<'_>,
        version: Version,
    ) -> Result<MultipartRequest, Fault> {
        let (kind, more) = decode_head(&mut reader, version)?;
        let newest = version == Version::V15;
        let body = match kind {
            DESC => nothing(reader).map(|()| Request::Desc)?,
            FLOW => Request::Flow(FlowRequest::decode(reader, version)?),
            NICIRA_FLOW => Request::NiciraFlow(FlowRequest::decode_nicira(reader)?),
            FLOW_COUNTERS => Request::FlowCounters(FlowRequest::decode(reader, version)?),
            AGGREGATE => Request::Aggregate(FlowRequest::decode(reader, version)?),
            NICIRA_AGGREGATE => Request::NiciraAggregate(FlowRequest::decode_nicira(reader)?),
            TABLE => nothing(reader).map(|()| Request::Table)?,
            PORT if version == Version::V10 => {
                let port = PortNumber::from_short(reader.u16()?);
                reader.skip(6)?;
                nothing(reader).map(|()| Request::Port(port))?
            }
            PORT => Request::Port(PortNumber(padded(reader)?)),
            QUEUE | QUEUE_DESC => {
                let port = if version == Version::V10 {
                    let port = PortNumber::from_short(reader.u16()?);
                    reader.skip(2)?;
                    // Here 1.0 says all where it says any elsewhere.
                    if port == PortNumber::ALL { PortNumber::ANY } else { port }
                } else {
                    PortNumber(reader.u32()?)
                };
                let queue = reader.u32()?;
                nothing(reader)?;
                match kind {
                    QUEUE => Request::Queue { port, queue },
                    _ => Request::QueueDesc { port, queue },
                }
            }
            GROUP => Request::Group(padded(reader)?),
            GROUP_DESC if newest || version == Version::V10 => Request::GroupDesc(padded(reader)?),
            GROUP_DESC => nothing(reader).map(|()| Request::GroupDesc(ALL_GROUPS))?,
            GROUP_FEATURES => nothing(reader).map(|()| Request::GroupFeatures)?,
            METER => Request::Meter(padded(reader)?),
            METER_CONFIG => Request::MeterConfig(padded(reader)?),
            METER_FEATURES => nothing(reader).map(|()| Request::MeterFeatures)?,
            TABLE_FEATURES => Request::TableFeatures(list(reader, |reader| {
                TableFeatures::decode(reader, version)
            })?),
            PORT_DESC if newest => Request::PortDesc(PortNumber(padded(reader)?)),
            PORT_DESC => nothing(reader).map(|()| Request::PortDesc(PortNumber::ANY))?,
            TABLE_DESC => nothing(reader).map(|()| Request::TableDesc)?,
            _ => return Err(Fault::BadMultipart),
        };
        Ok(MultipartRequest { more, body })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        encode_head(self.body.kind(), self.more, version, out)?;
        let newest = version == Version::V15;
        let padded = |out: &mut Writer, number: u32| {
            out.u32(number);
            out.zeros(4);
        };
        match &self.body {
            Request::Desc
            | Request::Table
            | Request::GroupFeatures
            | Request::MeterFeatures
            | Request::TableDesc => {}
            Request::Flow(request)
            | Request::FlowCounters(request)
            | Request::Aggregate(request) => request.encode(version, out)?,
            Request::NiciraFlow(request) | Request::NiciraAggregate(request) => {
                request.encode_nicira(out)?;
            }
            Request::Port(port) if version == Version::V10 => {
                out.u16(port.short()?);
                out.zeros(6);
            }
            Request::Port(port) => padded(out, port.0),
            Request::Queue { port, queue } | Request::QueueDesc { port, queue } => {
                if version == Version::V10 {
                    let all = if *port == PortNumber::ANY { PortNumber::ALL } else { *port };
                    out.u16(all.short()?);
                    out.zeros(2);
                } else {
                    out.u32(port.0);
                }
                out.u32(*queue);
            }
            Request::GroupDesc(group) if newest || version == Version::V10 => padded(out, *group),
            Request::PortDesc(port) if newest => padded(out, port.0),
            // One alone cannot be asked for; the answer has it, among others.
            Request::GroupDesc(_) | Request::PortDesc(_) => {}
            Request::Group(number) | Request::Meter(number) | Request::MeterConfig(number) => {
                padded(out, *number);
            }
            Request::TableFeatures(tables) => {
                tables.iter().try_for_each(|table| table.encode(version, out))?;
            }
        }
        Ok(())
    }
}

impl Request {
    fn kind(&self) -> Kind {
        match self {
            Request::Desc => DESC,
            Request::Flow(_) => FLOW,
            Request::NiciraFlow(_) => NICIRA_FLOW,
            Request::FlowCounters(_) => FLOW_COUNTERS,
            Request::Aggregate(_) => AGGREGATE,
            Request::NiciraAggregate(_) => NICIRA_AGGREGATE,
            Request::Table => TABLE,
            Request::Port(_) => PORT,
            Request::Queue { .. } => QUEUE,
            Request::Group(_) => GROUP,
            Request::GroupDesc(_) => GROUP_DESC,
            Request::GroupFeatures => GROUP_FEATURES,
            Request::Meter(_) => METER,
            Request::MeterConfig(_) => METER_CONFIG,
            Request::MeterFeatures => METER_FEATURES,
            Request::TableFeatures(_) => TABLE_FEATURES,
            Request::PortDesc(_) => PORT_DESC,
            Request::TableDesc => TABLE_DESC,
            Request::QueueDesc { .. } => QUEUE_DESC,
        }
    }
}

impl MultipartReply {
    pub(crate) fn decode(
        mut reader: Reader<'_>,
        version: Version,
    ) -> Result<MultipartReply, Fault> {
        let (kind, more) = decode_head(&mut reader, version)?;
        let body = match kind {
            DESC => Reply::Desc(Description::decode(reader)?),
            FLOW => Reply::Flow(list(reader, |reader| FlowStats::decode(reader, version))?),
            NICIRA_FLOW => Reply::NiciraFlow(list(reader, FlowStats::decode_nicira)?),
            FLOW_COUNTERS => Reply::FlowCounters(list(reader, FlowStats::decode_counters)?),
            AGGREGATE => Reply::Aggregate(AggregateStats::decode(reader, version)?),
            NICIRA_AGGREGATE => Reply::NiciraAggregate(AggregateStats::decode(reader, version)?),
            TABLE => Reply::Table(list(reader, |reader| TableStats::decode(reader, version))?),
            PORT => Reply::Port(list(reader, |reader| PortStats::decode(reader, version))?),
            QUEUE => Reply::Queue(list(reader, |reader| QueueStats::decode(reader, version))?),
            GROUP => Reply::Group(list(reader, GroupStats::decode)?),
            GROUP_DESC => {
                Reply::GroupDesc(list(reader, |reader| GroupDesc::decode(reader, version))?)
            }
            GROUP_FEATURES => Reply::GroupFeatures(GroupFeatures::decode(reader)?),
            METER => Reply::Meter(list(reader, MeterStats::decode)?),
            METER_CONFIG => Reply::MeterConfig(list(reader, MeterConfig::decode)?),
            METER_FEATURES => Reply::MeterFeatures(MeterFeatures::decode(reader, version)?),
            TABLE_FEATURES => {
                Reply::TableFeatures(list(reader, |reader| TableFeatures::decode(reader, version))?)
            }
            PORT_DESC => Reply::PortDesc(list(reader, |reader| Port::decode(reader, version))?),
            TABLE_DESC => Reply::TableDesc(list(reader, TableDesc::decode)?),
            QUEUE_DESC => Reply::QueueDesc(list(reader, Queue::decode_desc)?),
            _ => return Err(Fault::BadMultipart),
        };
        Ok(MultipartReply { more, body })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        encode_head(self.body.kind(), self.more, version, out)?;
        (0..self.body.len()).try_for_each(|nth| self.body.encode_entry(nth, version, out))
    }
}

impl Reply {
    fn kind(&self) -> Kind {
        match self {
            Reply::Desc(_) => DESC,
            Reply::Flow(_) => FLOW,
            Reply::NiciraFlow(_) => NICIRA_FLOW,
            Reply::FlowCounters(_) => FLOW_COUNTERS,
            Reply::Aggregate(_) => AGGREGATE,
            Reply::NiciraAggregate(_) => NICIRA_AGGREGATE,
            Reply::Table(_) => TABLE,
            Reply::Port(_) => PORT,
            Reply::Queue(_) => QUEUE,
            Reply::Group(_) => GROUP,
            Reply::GroupDesc(_) => GROUP_DESC,
            Reply::GroupFeatures(_) => GROUP_FEATURES,
            Reply::Meter(_) => METER,
            Reply::MeterConfig(_) => METER_CONFIG,
            Reply::MeterFeatures(_) => METER_FEATURES,
            Reply::TableFeatures(_) => TABLE_FEATURES,
            Reply::PortDesc(_) => PORT_DESC,
            Reply::TableDesc(_) => TABLE_DESC,
            Reply::QueueDesc(_) => QUEUE_DESC,
        }
    }

    /// How many entries there are; what is no list is one.
    fn len(&self) -> usize {
        match self {
            Reply::Flow(flows) | Reply::NiciraFlow(flows) | Reply::FlowCounters(flows) => {
                flows.len()
            }
            Reply::Table(tables) => tables.len(),
            Reply::Port(ports) => ports.len(),
            Reply::Queue(queues) => queues.len(),
            Reply::Group(groups) => groups.len(),
            Reply::GroupDesc(groups) => groups.len(),
            Reply::Meter(meters) => meters.len(),
            Reply::MeterConfig(meters) => meters.len(),
            Reply::TableFeatures(tables) => tables.len(),
            Reply::PortDesc(ports) => ports.len(),
            Reply::TableDesc(tables) => tables.len(),
            Reply::QueueDesc(queues) => queues.len(),
            Reply::Desc(_)
            | Reply::Aggregate(_)
            | Reply::NiciraAggregate(_)
            | Reply::GroupFeatures(_)
            | Reply::MeterFeatures(_) => 1,
        }
    }

    fn encode_entry(
        &self,
        nth: usize,
        version: Version,
        out: &mut Writer,
    ) -> Result<(), Unencodable> {
        match self {
            Reply::Desc(description) => description.encode(out),
            Reply::Flow(flows) => flows[nth].encode(version, out)?,
            Reply::NiciraFlow(flows) => flows[nth].encode_nicira(out)?,
            Reply::FlowCounters(flows) => flows[nth].encode_counters(version, out)?,
            Reply::Aggregate(stats) | Reply::NiciraAggregate(stats) => {
                stats.encode(version, out)?;
            }
            Reply::Table(tables) => tables[nth].encode(version, out),
            Reply::Port(ports) => ports[nth].encode(version, out)?,
            Reply::Queue(queues) => queues[nth].encode(version, out)?,
            Reply::Group(groups) => groups[nth].encode(out)?,
            Reply::GroupDesc(groups) => groups[nth].encode(version, out)?,
            Reply::GroupFeatures(features) => features.encode(out),
            Reply::Meter(meters) => meters[nth].encode(out)?,
            Reply::MeterConfig(meters) => meters[nth].encode(out)?,
            Reply::MeterFeatures(features) => features.encode(version, out),
            Reply::TableFeatures(tables) => tables[nth].encode(version, out)?,
            Reply::PortDesc(ports) => ports[nth].encode(version, out)?,
            Reply::TableDesc(tables) => tables[nth].encode(out)?,
            Reply::QueueDesc(queues) => queues[nth].encode_desc(out)?,
        }
        Ok(())
    }

    /// Writes the bodies of as many messages as the answer takes, of at most `room` bytes each.
    ///
    /// All but the last say that others follow.
    pub(crate) fn encode_parts(
        &self,
        version: Version,
        room: usize,
    ) -> Result<Vec<Vec<u8>>, Unencodable> {
        let mut entries: Vec<Vec<u8>> = Vec::new();
        for nth in 0..self.len() {
            let mut out = Writer::new();
            self.encode_entry(nth, version, &mut out)?;
            entries.push(out.into_bytes());
        }
        let mut head = Writer::new();
        encode_head(self.kind(), false, version, &mut head)?;
        let head = head.into_bytes();
        let mut parts = vec![head.clone()];
        for entry in entries {
            if head.len() + entry.len() > room {
                return Err(Unencodable::TooLong);
            }
            let full = parts.last().is_none_or(|part| part.len() + entry.len() > room);
            if full {
                if let Some(part) = parts.last_mut() {
                    part[3] |= MORE as u8;
                }
                parts.push(head.clone());
            }
            if let Some(part) = parts.last_mut() {
                part.extend_from_slice(&entry);
            }
        }
        Ok(parts)
    }
}

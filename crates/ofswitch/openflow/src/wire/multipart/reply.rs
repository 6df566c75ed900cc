//! Multipart replies.

use super::kind::*;
use super::{
    AggregateStats, Description, FlowStats, FlowUpdate, GroupDesc, GroupFeatures, GroupStats,
    MeterConfig, MeterFeatures, MeterStats, PortStats, QueueStats, TableFeatures, TableStats, list,
};
use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::port::Port;
use crate::wire::queue::Queue;
use crate::wire::table::TableDesc;
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// Body of a multipart reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Description of the switch.
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
    /// Statistics of ports.
    Port(Vec<PortStats>),
    /// Statistics of queues.
    Queue(Vec<QueueStats>),
    /// Statistics of groups.
    Group(Vec<GroupStats>),
    /// Descriptions of groups.
    GroupDesc(Vec<GroupDesc>),
    /// Features of groups.
    GroupFeatures(GroupFeatures),
    /// Statistics of meters.
    Meter(Vec<MeterStats>),
    /// Configurations of meters.
    MeterConfig(Vec<MeterConfig>),
    /// Features of meters.
    MeterFeatures(MeterFeatures),
    /// Features of tables.
    TableFeatures(Vec<TableFeatures>),
    /// Ports.
    PortDesc(Vec<Port>),
    /// Descriptions of tables (OpenFlow 1.4 and later).
    TableDesc(Vec<TableDesc>),
    /// Queues of ports (OpenFlow 1.4 and later).
    QueueDesc(Vec<Queue>),
    /// Updates of flow monitors.
    FlowMonitor(Vec<FlowUpdate>),
}

/// An answer, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartReply {
    /// Whether other parts follow.
    pub more: bool,
    /// Its body.
    pub body: Reply,
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
            FLOW_MONITOR => {
                Reply::FlowMonitor(list(reader, |reader| FlowUpdate::decode(reader, version))?)
            }
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
    pub(super) fn kind(&self) -> MultipartType {
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
            Reply::FlowMonitor(_) => FLOW_MONITOR,
        }
    }

    /// Returns true if it is a list of entries.
    pub(super) fn is_list(&self) -> bool {
        !matches!(
            self,
            Reply::Desc(_)
                | Reply::Aggregate(_)
                | Reply::NiciraAggregate(_)
                | Reply::GroupFeatures(_)
                | Reply::MeterFeatures(_)
        )
    }

    /// Returns the number of entries; a body that is no list is one.
    pub(super) fn len(&self) -> usize {
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
            Reply::FlowMonitor(updates) => updates.len(),
            Reply::Desc(_)
            | Reply::Aggregate(_)
            | Reply::NiciraAggregate(_)
            | Reply::GroupFeatures(_)
            | Reply::MeterFeatures(_) => 1,
        }
    }

    pub(super) fn encode_entry(
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
            Reply::FlowMonitor(updates) => updates[nth].encode(version, out)?,
        }
        Ok(())
    }
}

//! Multipart requests.

use super::kind::*;
use super::{FlowMonitor, FlowRequest, TableFeatures, list};
use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::group::ALL_GROUPS;
use crate::wire::port_number::PortNumber;
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

/// Body of a multipart request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Description of the switch.
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
    /// Statistics of a port; `ANY` is all.
    Port(PortNumber),
    /// Statistics of queues.
    Queue {
        /// Queues of this port; `ANY` is all.
        port: PortNumber,
        /// This queue; [`ALL_QUEUES`](super::super::queue::ALL_QUEUES) is all.
        queue: u32,
    },
    /// Statistics of a group; [`ALL_GROUPS`] is all.
    Group(u32),
    /// Description of a group; all before OpenFlow 1.5.
    GroupDesc(u32),
    /// Features of groups.
    GroupFeatures,
    /// Statistics of a meter; [`ALL_METERS`](super::super::meter::ALL_METERS) is all.
    Meter(u32),
    /// Configuration of a meter.
    MeterConfig(u32),
    /// Features of meters.
    MeterFeatures,
    /// Features of tables; given ones are to be set.
    TableFeatures(Vec<TableFeatures>),
    /// Ports; all before OpenFlow 1.5.
    PortDesc(PortNumber),
    /// Descriptions of tables (OpenFlow 1.4 and later).
    TableDesc,
    /// Queues of ports (OpenFlow 1.4 and later).
    QueueDesc {
        /// Queues of this port; `ANY` is all.
        port: PortNumber,
        /// This queue; [`ALL_QUEUES`](super::super::queue::ALL_QUEUES) is all.
        queue: u32,
    },
    /// Monitors of flows that are to come, change or end.
    FlowMonitor(Vec<FlowMonitor>),
}

/// A request, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartRequest {
    /// Whether other parts follow.
    pub more: bool,
    /// Its body.
    pub body: Request,
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
                    // Here 1.0 has `ALL` in the place of `ANY`.
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
            FLOW_MONITOR => {
                Request::FlowMonitor(list(reader, |reader| FlowMonitor::decode(reader, version))?)
            }
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
            // One alone cannot be requested; the answer has it, among others.
            Request::GroupDesc(_) | Request::PortDesc(_) => {}
            Request::Group(number) | Request::Meter(number) | Request::MeterConfig(number) => {
                padded(out, *number);
            }
            Request::TableFeatures(tables) => {
                tables.iter().try_for_each(|table| table.encode(version, out))?;
            }
            Request::FlowMonitor(monitors) => {
                monitors.iter().try_for_each(|monitor| monitor.encode(version, out))?;
            }
        }
        Ok(())
    }
}

impl Request {
    fn kind(&self) -> MultipartType {
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
            Request::FlowMonitor(_) => FLOW_MONITOR,
        }
    }
}

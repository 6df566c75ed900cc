//! Nicira's messages.
//!
//! There are no messages for options of Geneve; they are [`Fault::BadExperimenterType`]. Those of
//! flow monitors are the ONF's in OpenFlow 1.3.

use super::bytes::{Reader, Writer};
use super::connection_filter::ConnectionFilter;
use super::fault::Fault;
use super::flow_removed::FlowRemoved;
use super::numbered::numbered;
use super::packet_in::PacketIn;
use super::role::{AsyncConfig, Role, RoleMessage};
use super::unencodable::Unencodable;
use super::version::Version;

numbered! {
    /// The form in which packets come to a controller.
    pub enum PacketInFormat: u32 {
        /// The version's own.
        Standard = 0,
        /// Nicira's first: [`NiciraMessage::PacketIn`].
        Nicira = 1,
        /// Nicira's second: [`NiciraMessage::PacketIn2`].
        Nicira2 = 2,
    }
}

numbered! {
    /// The form in which flows come to a controller of OpenFlow 1.0.
    pub enum FlowFormat: u32 {
        /// The version's own.
        Standard = 0,
        /// Nicira's.
        Nicira = 2,
    }
}

/// A message of Nicira's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NiciraMessage {
    /// Asks for a role; never `NoChange`.
    RoleRequest(Role),
    /// Tells the role.
    RoleReply(Role),
    /// Chooses the form of flows (OpenFlow 1.0).
    SetFlowFormat(FlowFormat),
    /// The end of a flow, with its match in Nicira's form.
    FlowRemoved(FlowRemoved),
    /// Whether the commands of changes have a table in their upper byte.
    FlowModTableId(bool),
    /// Chooses the form of packets.
    SetPacketInFormat(PacketInFormat),
    /// A packet in Nicira's first form.
    PacketIn(PacketIn),
    /// Asks for the idle and unchanged times of flows.
    FlowAge,
    /// Chooses which messages come unasked, as OpenFlow 1.3's own message does.
    SetAsync(AsyncConfig),
    /// Likewise, in the form of OpenFlow 1.4.
    SetAsync2(AsyncConfig),
    /// Gives the controller an identifier.
    SetControllerId(u16),
    /// A packet in Nicira's second form.
    PacketIn2(PacketIn),
    /// Resumes a packet that was sent in that form.
    Resume(PacketIn),
    /// Forgets the connections of a zone.
    FlushZone(u16),
    /// Forgets connections by fields of their packets.
    Flush(Box<ConnectionFilter>),
    /// Ends a flow monitor (up to OpenFlow 1.3).
    FlowMonitorCancel(u32),
    /// Updates of flow monitors pause, as too much waits (up to OpenFlow 1.3).
    FlowMonitorPaused,
    /// Updates of flow monitors go on, after those of all changes in between (up to OpenFlow 1.3).
    FlowMonitorResumed,
}

const ROLE_REQUEST: u32 = 10;
const ROLE_REPLY: u32 = 11;
const SET_FLOW_FORMAT: u32 = 12;
/// A change of flows for OpenFlow 1.0, which becomes a message of its own.
pub(crate) const FLOW_MOD: u32 = 13;
const FLOW_REMOVED: u32 = 14;
const FLOW_MOD_TABLE_ID: u32 = 15;
const SET_PACKET_IN_FORMAT: u32 = 16;
const PACKET_IN: u32 = 17;
const FLOW_AGE: u32 = 18;
const SET_ASYNC: u32 = 19;
const SET_CONTROLLER_ID: u32 = 20;
pub(super) const FLOW_MONITOR_CANCEL: u32 = 21;
const FLOW_MONITOR_PAUSED: u32 = 22;
pub(super) const FLOW_MONITOR_RESUMED: u32 = 23;
const SET_ASYNC_2: u32 = 27;
const RESUME: u32 = 28;
const FLUSH_ZONE: u32 = 29;
const PACKET_IN_2: u32 = 30;
/// A change of groups for OpenFlow 1.0, which becomes a message of its own.
pub(crate) const GROUP_MOD: u32 = 31;
const FLUSH: u32 = 32;

impl NiciraMessage {
    pub(crate) fn decode(
        kind: u32,
        mut reader: Reader<'_>,
        version: Version,
    ) -> Result<NiciraMessage, Fault> {
        let message = match kind {
            ROLE_REQUEST => {
                return RoleMessage::decode_nicira(reader).map(NiciraMessage::RoleRequest);
            }
            ROLE_REPLY => return RoleMessage::decode_nicira(reader).map(NiciraMessage::RoleReply),
            SET_FLOW_FORMAT if version == Version::V10 => {
                let format = FlowFormat::from_number(reader.u32()?);
                NiciraMessage::SetFlowFormat(format.ok_or(Fault::NotPermitted)?)
            }
            FLOW_REMOVED => {
                return FlowRemoved::decode_nicira(reader).map(NiciraMessage::FlowRemoved);
            }
            FLOW_MOD_TABLE_ID => {
                let set = reader.u8()?;
                reader.skip(7)?;
                NiciraMessage::FlowModTableId(set != 0)
            }
            SET_PACKET_IN_FORMAT => {
                let format = PacketInFormat::from_number(reader.u32()?);
                NiciraMessage::SetPacketInFormat(format.ok_or(Fault::NotPermitted)?)
            }
            PACKET_IN => {
                return PacketIn::decode_nicira(reader, version).map(NiciraMessage::PacketIn);
            }
            FLOW_AGE => NiciraMessage::FlowAge,
            SET_ASYNC => return AsyncConfig::decode_fixed(reader).map(NiciraMessage::SetAsync),
            SET_CONTROLLER_ID => {
                reader.zeros(6, Fault::MustBeZero)?;
                NiciraMessage::SetControllerId(reader.u16()?)
            }
            SET_ASYNC_2 if version < Version::V14 => {
                return AsyncConfig::decode_properties(reader, true).map(NiciraMessage::SetAsync2);
            }
            RESUME => return PacketIn::decode_nicira_2(reader).map(NiciraMessage::Resume),
            FLUSH_ZONE => {
                reader.zeros(6, Fault::MustBeZero)?;
                NiciraMessage::FlushZone(reader.u16()?)
            }
            FLUSH => {
                let filter = ConnectionFilter::decode(reader)?;
                return Ok(NiciraMessage::Flush(Box::new(filter)));
            }
            PACKET_IN_2 => return PacketIn::decode_nicira_2(reader).map(NiciraMessage::PacketIn2),
            FLOW_MONITOR_CANCEL if version < Version::V14 => {
                NiciraMessage::FlowMonitorCancel(reader.u32()?)
            }
            FLOW_MONITOR_PAUSED if version < Version::V14 => NiciraMessage::FlowMonitorPaused,
            FLOW_MONITOR_RESUMED if version < Version::V14 => NiciraMessage::FlowMonitorResumed,
            _ => return Err(Fault::BadExperimenterType),
        };
        reader.finish()?;
        Ok(message)
    }

    pub(crate) fn kind(&self) -> u32 {
        match self {
            NiciraMessage::RoleRequest(_) => ROLE_REQUEST,
            NiciraMessage::RoleReply(_) => ROLE_REPLY,
            NiciraMessage::SetFlowFormat(_) => SET_FLOW_FORMAT,
            NiciraMessage::FlowRemoved(_) => FLOW_REMOVED,
            NiciraMessage::FlowModTableId(_) => FLOW_MOD_TABLE_ID,
            NiciraMessage::SetPacketInFormat(_) => SET_PACKET_IN_FORMAT,
            NiciraMessage::PacketIn(_) => PACKET_IN,
            NiciraMessage::FlowAge => FLOW_AGE,
            NiciraMessage::SetAsync(_) => SET_ASYNC,
            NiciraMessage::SetAsync2(_) => SET_ASYNC_2,
            NiciraMessage::SetControllerId(_) => SET_CONTROLLER_ID,
            NiciraMessage::PacketIn2(_) => PACKET_IN_2,
            NiciraMessage::Resume(_) => RESUME,
            NiciraMessage::FlushZone(_) => FLUSH_ZONE,
            NiciraMessage::Flush(_) => FLUSH,
            NiciraMessage::FlowMonitorCancel(_) => FLOW_MONITOR_CANCEL,
            NiciraMessage::FlowMonitorPaused => FLOW_MONITOR_PAUSED,
            NiciraMessage::FlowMonitorResumed => FLOW_MONITOR_RESUMED,
        }
    }

    /// Returns true if it is of flow monitors, and so the ONF's in OpenFlow 1.3.
    pub(super) fn is_of_monitors(&self) -> bool {
        matches!(
            self,
            NiciraMessage::FlowMonitorCancel(_)
                | NiciraMessage::FlowMonitorPaused
                | NiciraMessage::FlowMonitorResumed
        )
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        match self {
            _ if self.is_of_monitors() && version >= Version::V14 => {
                return Err(Unencodable::Absent("an extension that is in the version"));
            }
            NiciraMessage::FlowMonitorCancel(id) => out.u32(*id),
            NiciraMessage::FlowMonitorPaused | NiciraMessage::FlowMonitorResumed => {}
            NiciraMessage::RoleRequest(role) | NiciraMessage::RoleReply(role) => {
                out.u32(role.nicira()?);
            }
            NiciraMessage::SetFlowFormat(_) if version != Version::V10 => {
                return Err(Unencodable::Absent("a form of flows"));
            }
            NiciraMessage::SetFlowFormat(format) => out.u32(format.number()),
            NiciraMessage::FlowRemoved(removed) => removed.encode_nicira(out)?,
            NiciraMessage::FlowModTableId(set) => {
                out.u8(u8::from(*set));
                out.zeros(7);
            }
            NiciraMessage::SetPacketInFormat(format) => out.u32(format.number()),
            NiciraMessage::PacketIn(packet) => packet.encode_nicira(version, out)?,
            NiciraMessage::FlowAge => {}
            NiciraMessage::SetAsync(config) => config.encode_fixed(out),
            NiciraMessage::SetAsync2(_) if version >= Version::V14 => {
                return Err(Unencodable::Absent("an extension that is in the version"));
            }
            NiciraMessage::SetAsync2(config) => config.encode_properties(out)?,
            NiciraMessage::SetControllerId(number) | NiciraMessage::FlushZone(number) => {
                out.zeros(6);
                out.u16(*number);
            }
            NiciraMessage::Flush(filter) => filter.encode(out)?,
            NiciraMessage::PacketIn2(packet) | NiciraMessage::Resume(packet) => {
                packet.encode_nicira_2(version, out)?;
            }
        }
        Ok(())
    }
}

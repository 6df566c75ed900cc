//! Whole messages: header and body.

use super::bundle::{BundleAdd, BundleControl};
use super::bytes::{Reader, Writer};
use super::error_message::ErrorMessage;
use super::fault::{Fault, NICIRA, ONF};
use super::features::{Config, Features};
use super::flow_mod::FlowMod;
use super::flow_removed::FlowRemoved;
use super::group::GroupMod;
use super::hello::Hello;
use super::meter::MeterMod;
use super::multipart::{MultipartReply, MultipartRequest};
use super::nicira::{self, NiciraMessage};
use super::packet_in::PacketIn;
use super::packet_out::PacketOut;
use super::port::{PortMod, PortStatus};
use super::port_number::PortNumber;
use super::queue::{self, QueueConfig};
use super::role::{AsyncConfig, RoleMessage, RoleStatus};
use super::table::{TableMod, TableStatus};
use super::unencodable::Unencodable;
use super::version::Version;

/// Bytes of a header.
pub const HEADER: usize = 8;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of the version.
    pub version: u8,
    /// The type.
    pub kind: u8,
    /// Bytes of the message, with its header.
    pub length: u16,
    /// A number that an answer has, too.
    pub xid: u32,
}

impl Header {
    /// Reads the header of a message, of which the beginning is here.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let [version, kind, high, low, xid @ ..] = *bytes.first_chunk::<HEADER>()?;
        let length = u16::from_be_bytes([high, low]);
        Some(Header { version, kind, length, xid: u32::from_be_bytes(xid) })
    }
}

/// A message without its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Versions that a side speaks.
    Hello(Hello),
    /// An error.
    Error(ErrorMessage),
    /// Whether the other side is there.
    EchoRequest(Vec<u8>),
    /// It is; with the data of the request.
    EchoReply(Vec<u8>),
    /// Asks for the features of the switch.
    FeaturesRequest,
    /// This it is.
    FeaturesReply(Features),
    /// Asks for the configuration of the switch.
    GetConfigRequest,
    /// The configuration.
    GetConfigReply(Config),
    /// Sets the switch.
    SetConfig(Config),
    /// A packet for a controller.
    PacketIn(PacketIn),
    /// A flow ended.
    FlowRemoved(FlowRemoved),
    /// A port changed.
    PortStatus(PortStatus),
    /// A packet to send.
    PacketOut(PacketOut),
    /// Changes flows.
    FlowMod(FlowMod),
    /// Changes a group.
    GroupMod(GroupMod),
    /// Changes a port.
    PortMod(PortMod),
    /// Changes a table.
    TableMod(TableMod),
    /// Asks for statistics, descriptions or features.
    MultipartRequest(MultipartRequest),
    /// Statistics, descriptions or features.
    MultipartReply(MultipartReply),
    /// Wants everything before done.
    BarrierRequest,
    /// All messages before are done.
    BarrierReply,
    /// Asks for the queues of a port (OpenFlow 1.0 to 1.3).
    QueueGetConfigRequest(PortNumber),
    /// The queues of a port.
    QueueGetConfigReply(QueueConfig),
    /// Asks for a role.
    RoleRequest(RoleMessage),
    /// Tells it.
    RoleReply(RoleMessage),
    /// Asks for the choice of asynchronous messages.
    GetAsyncRequest,
    /// These do.
    GetAsyncReply(AsyncConfig),
    /// Chooses them.
    SetAsync(AsyncConfig),
    /// Changes a meter.
    MeterMod(MeterMod),
    /// The role changed (OpenFlow 1.4 and later).
    RoleStatus(RoleStatus),
    /// A table fills or empties (OpenFlow 1.4 and later).
    TableStatus(TableStatus),
    /// A message another controller sent, whole (OpenFlow 1.4 and later).
    RequestForward(Vec<u8>),
    /// A step of a bundle.
    BundleControl(BundleControl),
    /// A message for a bundle.
    BundleAdd(BundleAdd),
    /// A message of Nicira's.
    Nicira(NiciraMessage),
}

/// The types that are the same in all versions.
mod kinds {
    pub(super) const HELLO: u8 = 0;
    pub(super) const ERROR: u8 = 1;
    pub(super) const ECHO_REQUEST: u8 = 2;
    pub(super) const ECHO_REPLY: u8 = 3;
    pub(super) const EXPERIMENTER: u8 = 4;
    pub(super) const FEATURES_REQUEST: u8 = 5;
    pub(super) const FEATURES_REPLY: u8 = 6;
    pub(super) const GET_CONFIG_REQUEST: u8 = 7;
    pub(super) const GET_CONFIG_REPLY: u8 = 8;
    pub(super) const SET_CONFIG: u8 = 9;
    pub(super) const PACKET_IN: u8 = 10;
    pub(super) const FLOW_REMOVED: u8 = 11;
    pub(super) const PORT_STATUS: u8 = 12;
    pub(super) const PACKET_OUT: u8 = 13;
    pub(super) const FLOW_MOD: u8 = 14;
    // From here on those of OpenFlow 1.1 and later.
    pub(super) const GROUP_MOD: u8 = 15;
    pub(super) const PORT_MOD: u8 = 16;
    pub(super) const TABLE_MOD: u8 = 17;
    pub(super) const MULTIPART_REQUEST: u8 = 18;
    pub(super) const MULTIPART_REPLY: u8 = 19;
    pub(super) const BARRIER_REQUEST: u8 = 20;
    pub(super) const BARRIER_REPLY: u8 = 21;
    pub(super) const QUEUE_GET_CONFIG_REQUEST: u8 = 22;
    pub(super) const QUEUE_GET_CONFIG_REPLY: u8 = 23;
    pub(super) const ROLE_REQUEST: u8 = 24;
    pub(super) const ROLE_REPLY: u8 = 25;
    pub(super) const GET_ASYNC_REQUEST: u8 = 26;
    pub(super) const GET_ASYNC_REPLY: u8 = 27;
    pub(super) const SET_ASYNC: u8 = 28;
    pub(super) const METER_MOD: u8 = 29;
    pub(super) const ROLE_STATUS: u8 = 30;
    pub(super) const TABLE_STATUS: u8 = 31;
    pub(super) const REQUEST_FORWARD: u8 = 32;
    pub(super) const BUNDLE_CONTROL: u8 = 33;
    pub(super) const BUNDLE_ADD: u8 = 34;
}

/// The types of OpenFlow 1.0 from port-mod on, as those of later versions.
const OF_10: [(u8, u8); 7] = [
    (15, kinds::PORT_MOD),
    (16, kinds::MULTIPART_REQUEST),
    (17, kinds::MULTIPART_REPLY),
    (18, kinds::BARRIER_REQUEST),
    (19, kinds::BARRIER_REPLY),
    (20, kinds::QUEUE_GET_CONFIG_REQUEST),
    (21, kinds::QUEUE_GET_CONFIG_REPLY),
];

/// A type as later versions have it, if this version has it.
fn unify(kind: u8, version: Version) -> Option<u8> {
    match version {
        Version::V10 if kind <= kinds::FLOW_MOD => Some(kind),
        Version::V10 => OF_10.iter().find(|(old, _)| *old == kind).map(|(_, new)| *new),
        Version::V13 => (kind <= kinds::METER_MOD).then_some(kind),
        Version::V14 | Version::V15 => {
            let queues = [kinds::QUEUE_GET_CONFIG_REQUEST, kinds::QUEUE_GET_CONFIG_REPLY];
            (kind <= kinds::BUNDLE_ADD && !queues.contains(&kind)).then_some(kind)
        }
    }
}

/// The type this version has for one of later versions.
fn particular(kind: u8, version: Version) -> Result<u8, Unencodable> {
    let found = match version {
        Version::V10 if kind > kinds::FLOW_MOD => {
            OF_10.iter().find(|(_, new)| *new == kind).map(|(old, _)| *old)
        }
        _ => unify(kind, version),
    };
    found.ok_or(Unencodable::Absent("this message"))
}

/// ONF's types of messages of OpenFlow 1.4 in 1.3 (EXT-230, EXT-191, EXT-235).
const ONF_BUNDLE_CONTROL: u32 = 2300;
const ONF_BUNDLE_ADD: u32 = 2301;
const ONF_ROLE_STATUS: u32 = 1911;
const ONF_REQUEST_FORWARD: u32 = 2350;
/// The first of three that Nicira has for OpenFlow 1.0 (EXT-187).
const ONF_FLOW_MONITOR_CANCEL: u32 = 1870;
const ONF_FLOW_MONITOR_RESUMED: u32 = 1872;

impl Message {
    /// Reads a message, whole and with nothing behind it.
    ///
    /// The header must have its length, and a version that messages can be read in; hello and
    /// errors are read in any. On a fault the transaction is that in [`Header::read`].
    pub fn decode(bytes: &[u8]) -> Result<(Version, u32, Message), Fault> {
        let header = Header::read(bytes).ok_or(Fault::BadLength)?;
        if usize::from(header.length) != bytes.len() {
            return Err(Fault::BadLength);
        }
        let anyway = matches!(header.kind, kinds::HELLO | kinds::ERROR);
        let version = match Version::from_number(header.version) {
            Some(version) => version,
            // Messages of a side before a version is agreed on.
            None if anyway => Version::V10,
            None => return Err(Fault::BadVersion),
        };
        let reader = Reader::new(&bytes[HEADER..], Fault::BadLength);
        let message = Message::decode_body(header, reader, version)?;
        Ok((version, header.xid, message))
    }

    fn decode_body(header: Header, reader: Reader<'_>, version: Version) -> Result<Message, Fault> {
        use Message as M;
        let nothing = |message: Message| reader.finish().map(|()| message);
        let mut all = reader;
        Ok(match unify(header.kind, version).ok_or(Fault::BadType)? {
            kinds::HELLO => M::Hello(Hello::decode(reader)),
            kinds::ERROR => M::Error(ErrorMessage::decode(reader, version)?),
            kinds::ECHO_REQUEST => M::EchoRequest(all.rest().to_vec()),
            kinds::ECHO_REPLY => M::EchoReply(all.rest().to_vec()),
            kinds::EXPERIMENTER => Message::decode_experimenter(reader, version, header.xid)?,
            kinds::FEATURES_REQUEST => nothing(M::FeaturesRequest)?,
            kinds::FEATURES_REPLY => M::FeaturesReply(Features::decode(reader, version)?),
            kinds::GET_CONFIG_REQUEST => nothing(M::GetConfigRequest)?,
            kinds::GET_CONFIG_REPLY => M::GetConfigReply(Config::decode(reader, version)?),
            kinds::SET_CONFIG => M::SetConfig(Config::decode(reader, version)?),
            kinds::PACKET_IN => M::PacketIn(PacketIn::decode(reader, version)?),
            kinds::FLOW_REMOVED => M::FlowRemoved(FlowRemoved::decode(reader, version)?),
            kinds::PORT_STATUS => M::PortStatus(PortStatus::decode(reader, version)?),
            kinds::PACKET_OUT => M::PacketOut(PacketOut::decode(reader, version)?),
            kinds::FLOW_MOD => M::FlowMod(FlowMod::decode(reader, version)?),
            kinds::GROUP_MOD => M::GroupMod(GroupMod::decode(reader, version)?),
            kinds::PORT_MOD => M::PortMod(PortMod::decode(reader, version)?),
            kinds::TABLE_MOD => M::TableMod(TableMod::decode(reader, version)?),
            kinds::MULTIPART_REQUEST => {
                M::MultipartRequest(MultipartRequest::decode(reader, version)?)
            }
            kinds::MULTIPART_REPLY => M::MultipartReply(MultipartReply::decode(reader, version)?),
            kinds::BARRIER_REQUEST => nothing(M::BarrierRequest)?,
            kinds::BARRIER_REPLY => nothing(M::BarrierReply)?,
            kinds::QUEUE_GET_CONFIG_REQUEST => {
                M::QueueGetConfigRequest(queue::decode_request(reader, version)?)
            }
            kinds::QUEUE_GET_CONFIG_REPLY => {
                M::QueueGetConfigReply(QueueConfig::decode(reader, version)?)
            }
            kinds::ROLE_REQUEST => M::RoleRequest(RoleMessage::decode(reader, version)?),
            kinds::ROLE_REPLY => M::RoleReply(RoleMessage::decode(reader, version)?),
            kinds::GET_ASYNC_REQUEST => nothing(M::GetAsyncRequest)?,
            kinds::GET_ASYNC_REPLY => {
                M::GetAsyncReply(AsyncConfig::decode(reader, version, false)?)
            }
            kinds::SET_ASYNC => M::SetAsync(AsyncConfig::decode(reader, version, true)?),
            kinds::METER_MOD => M::MeterMod(MeterMod::decode(reader)?),
            kinds::ROLE_STATUS => M::RoleStatus(RoleStatus::decode(reader)?),
            kinds::TABLE_STATUS => M::TableStatus(TableStatus::decode(reader)?),
            kinds::REQUEST_FORWARD => decode_forwarded(reader)?,
            kinds::BUNDLE_CONTROL => M::BundleControl(BundleControl::decode(reader)?),
            kinds::BUNDLE_ADD => M::BundleAdd(BundleAdd::decode(reader, version, header.xid)?),
            _ => return Err(Fault::BadType),
        })
    }

    fn decode_experimenter(
        mut reader: Reader<'_>,
        version: Version,
        xid: u32,
    ) -> Result<Message, Fault> {
        let experimenter = reader.u32()?;
        if !matches!(experimenter, NICIRA | ONF) {
            return Err(Fault::BadExperimenter);
        }
        let kind = reader.u32()?;
        Ok(match (experimenter, kind) {
            (NICIRA, nicira::FLOW_MOD) if version == Version::V10 => {
                Message::FlowMod(FlowMod::decode_nicira(reader)?)
            }
            (NICIRA, nicira::GROUP_MOD) if version == Version::V10 => {
                Message::GroupMod(GroupMod::decode(reader, version)?)
            }
            (NICIRA, nicira::FLOW_MONITOR_CANCEL..=nicira::FLOW_MONITOR_RESUMED)
                if version != Version::V10 =>
            {
                return Err(Fault::BadExperimenterType);
            }
            (NICIRA, _) => Message::Nicira(NiciraMessage::decode(kind, reader, version)?),
            (_, ONF_FLOW_MONITOR_CANCEL..=ONF_FLOW_MONITOR_RESUMED) if version == Version::V13 => {
                let kind = kind - ONF_FLOW_MONITOR_CANCEL + nicira::FLOW_MONITOR_CANCEL;
                Message::Nicira(NiciraMessage::decode(kind, reader, version)?)
            }
            (_, ONF_BUNDLE_CONTROL) if version == Version::V13 => {
                Message::BundleControl(BundleControl::decode(reader)?)
            }
            (_, ONF_BUNDLE_ADD) if version == Version::V13 => {
                Message::BundleAdd(BundleAdd::decode(reader, version, xid)?)
            }
            (_, ONF_ROLE_STATUS) if version == Version::V13 => {
                Message::RoleStatus(RoleStatus::decode(reader)?)
            }
            (_, ONF_REQUEST_FORWARD) if version == Version::V13 => decode_forwarded(reader)?,
            _ => return Err(Fault::BadExperimenterType),
        })
    }

    /// Writes a message.
    pub fn encode(&self, version: Version, xid: u32) -> Result<Vec<u8>, Unencodable> {
        let mut out = Writer::new();
        let kind = match self.extension(version) {
            Some(_) => kinds::EXPERIMENTER,
            None => particular(self.kind(), version)?,
        };
        out.u8(version.number());
        out.u8(kind);
        out.u16(0);
        out.u32(xid);
        if let Some((experimenter, kind)) = self.extension(version) {
            out.u32(experimenter);
            out.u32(kind);
        }
        self.encode_body(version, xid, &mut out)?;
        out.length(2, 0)?;
        Ok(out.into_bytes())
    }

    /// Returns the experimenter of the message in this version and its type there, if it is an
    /// extension.
    fn extension(&self, version: Version) -> Option<(u32, u32)> {
        match (self, version) {
            (Message::Nicira(message), Version::V13) if message.is_of_monitors() => {
                let nth = message.kind() - nicira::FLOW_MONITOR_CANCEL;
                Some((ONF, ONF_FLOW_MONITOR_CANCEL + nth))
            }
            (Message::Nicira(message), _) => Some((NICIRA, message.kind())),
            (Message::FlowMod(flow), Version::V10) if !flow.is_standard() => {
                Some((NICIRA, nicira::FLOW_MOD))
            }
            (Message::GroupMod(_), Version::V10) => Some((NICIRA, nicira::GROUP_MOD)),
            (Message::BundleControl(_), Version::V13) => Some((ONF, ONF_BUNDLE_CONTROL)),
            (Message::BundleAdd(_), Version::V13) => Some((ONF, ONF_BUNDLE_ADD)),
            (Message::RoleStatus(_), Version::V13) => Some((ONF, ONF_ROLE_STATUS)),
            (Message::RequestForward(_), Version::V13) => Some((ONF, ONF_REQUEST_FORWARD)),
            _ => None,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Message::Hello(_) => kinds::HELLO,
            Message::Error(_) => kinds::ERROR,
            Message::EchoRequest(_) => kinds::ECHO_REQUEST,
            Message::EchoReply(_) => kinds::ECHO_REPLY,
            Message::FeaturesRequest => kinds::FEATURES_REQUEST,
            Message::FeaturesReply(_) => kinds::FEATURES_REPLY,
            Message::GetConfigRequest => kinds::GET_CONFIG_REQUEST,
            Message::GetConfigReply(_) => kinds::GET_CONFIG_REPLY,
            Message::SetConfig(_) => kinds::SET_CONFIG,
            Message::PacketIn(_) => kinds::PACKET_IN,
            Message::FlowRemoved(_) => kinds::FLOW_REMOVED,
            Message::PortStatus(_) => kinds::PORT_STATUS,
            Message::PacketOut(_) => kinds::PACKET_OUT,
            Message::FlowMod(_) => kinds::FLOW_MOD,
            Message::GroupMod(_) => kinds::GROUP_MOD,
            Message::PortMod(_) => kinds::PORT_MOD,
            Message::TableMod(_) => kinds::TABLE_MOD,
            Message::MultipartRequest(_) => kinds::MULTIPART_REQUEST,
            Message::MultipartReply(_) => kinds::MULTIPART_REPLY,
            Message::BarrierRequest => kinds::BARRIER_REQUEST,
            Message::BarrierReply => kinds::BARRIER_REPLY,
            Message::QueueGetConfigRequest(_) => kinds::QUEUE_GET_CONFIG_REQUEST,
            Message::QueueGetConfigReply(_) => kinds::QUEUE_GET_CONFIG_REPLY,
            Message::RoleRequest(_) => kinds::ROLE_REQUEST,
            Message::RoleReply(_) => kinds::ROLE_REPLY,
            Message::GetAsyncRequest => kinds::GET_ASYNC_REQUEST,
            Message::GetAsyncReply(_) => kinds::GET_ASYNC_REPLY,
            Message::SetAsync(_) => kinds::SET_ASYNC,
            Message::MeterMod(_) => kinds::METER_MOD,
            Message::RoleStatus(_) => kinds::ROLE_STATUS,
            Message::TableStatus(_) => kinds::TABLE_STATUS,
            Message::RequestForward(_) => kinds::REQUEST_FORWARD,
            Message::BundleControl(_) => kinds::BUNDLE_CONTROL,
            Message::BundleAdd(_) => kinds::BUNDLE_ADD,
            Message::Nicira(_) => kinds::EXPERIMENTER,
        }
    }

    fn encode_body(&self, version: Version, xid: u32, out: &mut Writer) -> Result<(), Unencodable> {
        match self {
            Message::Hello(hello) => hello.encode(out)?,
            Message::Error(error) => error.encode(version, out)?,
            Message::EchoRequest(data) | Message::EchoReply(data) => out.bytes(data),
            Message::FeaturesRequest
            | Message::GetConfigRequest
            | Message::BarrierRequest
            | Message::BarrierReply
            | Message::GetAsyncRequest => {}
            Message::FeaturesReply(features) => features.encode(version, out)?,
            Message::GetConfigReply(config) | Message::SetConfig(config) => {
                config.encode(version, out)?;
            }
            Message::PacketIn(packet) => packet.encode(version, out)?,
            Message::FlowRemoved(removed) => removed.encode(version, out)?,
            Message::PortStatus(status) => status.encode(version, out)?,
            Message::PacketOut(packet) => packet.encode(version, out)?,
            Message::FlowMod(flow) if self.extension(version).is_some() => {
                flow.encode_nicira(out)?;
            }
            Message::FlowMod(flow) => flow.encode(version, out)?,
            Message::GroupMod(group) => group.encode(version, out)?,
            Message::PortMod(port) => port.encode(version, out)?,
            Message::TableMod(table) => table.encode(version, out)?,
            Message::MultipartRequest(request) => request.encode(version, out)?,
            Message::MultipartReply(reply) => reply.encode(version, out)?,
            Message::QueueGetConfigRequest(port) => queue::encode_request(*port, version, out)?,
            Message::QueueGetConfigReply(config) => config.encode(version, out)?,
            Message::RoleRequest(role) | Message::RoleReply(role) => role.encode(version, out),
            Message::GetAsyncReply(config) | Message::SetAsync(config) => {
                config.encode(version, out)?;
            }
            Message::MeterMod(meter) => meter.encode(out)?,
            Message::RoleStatus(status) => status.encode(out),
            Message::TableStatus(status) => status.encode(out)?,
            Message::RequestForward(message) => out.bytes(message),
            Message::BundleControl(control) => control.encode(out)?,
            Message::BundleAdd(add) => add.encode(version, xid, out)?,
            Message::Nicira(message) => message.encode(version, out)?,
        }
        Ok(())
    }
}

/// The type of an answer to a multipart request.
pub(super) fn reply_kind(version: Version) -> Result<u8, Unencodable> {
    particular(kinds::MULTIPART_REPLY, version)
}

/// A message in a message, which has to be whole.
fn decode_forwarded(mut reader: Reader<'_>) -> Result<Message, Fault> {
    let message = reader.rest();
    let header = Header::read(message).ok_or(Fault::BadLength)?;
    if usize::from(header.length) != message.len() {
        return Err(Fault::BadLength);
    }
    Ok(Message::RequestForward(message.to_vec()))
}

//! Ports: descriptions, status messages, and changes.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::numbered::{flags, numbered};
use super::port_number::PortNumber;
use super::property;
use super::unencodable::Unencodable;
use super::version::Version;

/// Bytes of a port's name, with the zero behind it.
const NAME: usize = 16;
const ETHERNET: u16 = 0;

flags! {
    /// Configuration of a port.
    pub struct PortConfig: u32 {
        /// It is down.
        const DOWN = 1;
        /// No spanning tree (OpenFlow 1.0).
        const NO_STP = 1 << 1;
        /// It drops packets that come in.
        const NO_RECEIVE = 1 << 2;
        /// It drops the spanning tree's packets (OpenFlow 1.0).
        const NO_RECEIVE_STP = 1 << 3;
        /// It does not flood (OpenFlow 1.0).
        const NO_FLOOD = 1 << 4;
        /// It drops packets that go out.
        const NO_FORWARD = 1 << 5;
        /// It sends nothing to controllers.
        const NO_PACKET_IN = 1 << 6;
    }
}

flags! {
    /// State of a port. OpenFlow 1.0 has a state of the spanning tree in bits 8 and 9.
    pub struct PortState: u32 {
        /// There is no link.
        const LINK_DOWN = 1;
        /// It is blocked (OpenFlow 1.1 and later).
        const BLOCKED = 1 << 1;
        /// It can be failed over to (OpenFlow 1.1 and later).
        const LIVE = 1 << 2;
    }
}

flags! {
    /// Features of a port of Ethernet.
    pub struct PortFeatures: u32 {
        /// 10 Mbit/s, half duplex.
        const MBPS_10_HALF = 1;
        /// 10 Mbit/s.
        const MBPS_10 = 1 << 1;
        /// 100 Mbit/s, half duplex.
        const MBPS_100_HALF = 1 << 2;
        /// 100 Mbit/s.
        const MBPS_100 = 1 << 3;
        /// 1 Gbit/s, half duplex.
        const GBPS_1_HALF = 1 << 4;
        /// 1 Gbit/s.
        const GBPS_1 = 1 << 5;
        /// 10 Gbit/s.
        const GBPS_10 = 1 << 6;
        /// 40 Gbit/s (OpenFlow 1.1 and later).
        const GBPS_40 = 1 << 7;
        /// 100 Gbit/s (OpenFlow 1.1 and later).
        const GBPS_100 = 1 << 8;
        /// 1 Tbit/s (OpenFlow 1.1 and later).
        const TBPS_1 = 1 << 9;
        /// Another rate (OpenFlow 1.1 and later).
        const OTHER = 1 << 10;
        /// Copper.
        const COPPER = 1 << 11;
        /// Fibre.
        const FIBER = 1 << 12;
        /// Negotiation.
        const AUTONEGOTIATION = 1 << 13;
        /// Pause frames.
        const PAUSE = 1 << 14;
        /// Pause frames one way.
        const PAUSE_ASYMMETRIC = 1 << 15;
    }
}

/// The features of OpenFlow 1.0 that later are four bits higher: from copper on.
const LOW: u32 = 0x7f;

impl PortFeatures {
    fn decode(number: u32, version: Version) -> PortFeatures {
        match version {
            Version::V10 => PortFeatures(number & LOW | (number & 0xf80) << 4),
            _ => PortFeatures(number),
        }
    }

    fn encode(self, version: Version) -> u32 {
        match version {
            Version::V10 => self.0 & LOW | self.0 >> 4 & 0xf80,
            _ => self.0,
        }
    }
}

/// A property that is kept as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawProperty {
    /// Its type.
    pub kind: u16,
    /// Its value.
    pub value: Vec<u8>,
}

impl RawProperty {
    pub(crate) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        property::put(out, self.kind, |out| out.bytes(&self.value))
    }
}

/// Properties of a port of Ethernet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ethernet {
    /// Features in use.
    pub current: PortFeatures,
    /// Features advertised to the link partner.
    pub advertised: PortFeatures,
    /// Features it supports.
    pub supported: PortFeatures,
    /// Features of the link partner.
    pub peer: PortFeatures,
    /// Its speed now, in kbit/s; OpenFlow 1.0 lacks it.
    pub current_speed: u32,
    /// Its greatest speed, in kbit/s; OpenFlow 1.0 lacks it.
    pub greatest_speed: u32,
}

impl Ethernet {
    fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Ethernet, Fault> {
        let mut features = || Ok(PortFeatures::decode(reader.u32()?, version));
        let (current, advertised) = (features()?, features()?);
        let (supported, peer) = (features()?, features()?);
        let (mut current_speed, mut greatest_speed) = (0, 0);
        if version != Version::V10 {
            (current_speed, greatest_speed) = (reader.u32()?, reader.u32()?);
        }
        Ok(Ethernet { current, advertised, supported, peer, current_speed, greatest_speed })
    }

    fn encode(&self, version: Version, out: &mut Writer) {
        for features in [self.current, self.advertised, self.supported, self.peer] {
            out.u32(features.encode(version));
        }
        if version != Version::V10 {
            out.u32(self.current_speed);
            out.u32(self.greatest_speed);
        }
    }
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: PortNumber,
    /// Its address.
    pub address: [u8; 6],
    /// Its name, of at most 15 bytes.
    pub name: String,
    /// Its configuration.
    pub config: PortConfig,
    /// Its state.
    pub state: PortState,
    /// Properties of Ethernet; always there before OpenFlow 1.4.
    pub ethernet: Option<Ethernet>,
    /// Its other properties (OpenFlow 1.4 and later).
    pub others: Vec<RawProperty>,
}

impl Port {
    pub(crate) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Port, Fault> {
        let number = match version {
            Version::V10 => PortNumber::from_short(reader.u16()?),
            _ => PortNumber(reader.u32()?),
        };
        let mut properties = 0;
        match version {
            Version::V10 => {}
            Version::V13 => reader.skip(4)?,
            _ => {
                properties = usize::from(reader.u16()?).checked_sub(40).ok_or(Fault::BadLength)?;
                reader.skip(2)?;
            }
        }
        let address = reader.array()?;
        if version != Version::V10 {
            reader.skip(2)?;
        }
        let name = reader.text(NAME)?;
        let (config, state) = (PortConfig(reader.u32()?), PortState(reader.u32()?));
        let mut port =
            Port { number, address, name, config, state, ethernet: None, others: Vec::new() };
        if version < Version::V14 {
            port.ethernet = Some(Ethernet::decode(reader, version)?);
            return Ok(port);
        }
        let mut properties = reader.part(properties)?;
        while let Some((kind, mut value)) = property::next(&mut properties)? {
            if kind == ETHERNET && port.ethernet.is_none() {
                value.skip(4)?;
                port.ethernet = Some(Ethernet::decode(&mut value, version)?);
                value.finish()?;
            } else {
                port.others.push(RawProperty { kind, value: value.rest().to_vec() });
            }
        }
        Ok(port)
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        match version {
            Version::V10 => out.u16(self.number.short()?),
            _ => {
                out.u32(self.number.0);
                out.zeros(4);
            }
        }
        out.bytes(&self.address);
        if version != Version::V10 {
            out.zeros(2);
        }
        out.text(&self.name, NAME);
        out.u32(self.config.0);
        out.u32(self.state.0);
        if version < Version::V14 {
            self.ethernet.unwrap_or_default().encode(version, out);
            return Ok(());
        }
        if let Some(ethernet) = self.ethernet {
            property::put(out, ETHERNET, |out| {
                out.zeros(4);
                ethernet.encode(version, out);
            })?;
        }
        self.others.iter().try_for_each(|property| property.encode(out))?;
        out.length(start + 4, start)
    }
}

pub(crate) fn decode_list(mut reader: Reader<'_>, version: Version) -> Result<Vec<Port>, Fault> {
    let mut ports = Vec::new();
    while !reader.is_empty() {
        ports.push(Port::decode(&mut reader, version)?);
    }
    Ok(ports)
}

numbered! {
    /// Change of a port.
    pub enum PortReason: u8 {
        /// It came.
        Add = 0,
        /// It went.
        Delete = 1,
        /// It changed.
        Modify = 2,
    }
}

/// Status message of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortStatus {
    /// Type of the change.
    pub reason: PortReason,
    /// The port after the change, or before its removal.
    pub port: Port,
}

impl PortStatus {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<PortStatus, Fault> {
        let reason = PortReason::from_number(reader.u8()?).ok_or(Fault::BadReason)?;
        reader.skip(7)?;
        let port = Port::decode(&mut reader, version)?;
        reader.finish()?;
        Ok(PortStatus { reason, port })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        out.u8(self.reason.number());
        out.zeros(7);
        self.port.encode(version, out)
    }
}

/// A change of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMod {
    /// Number of the port.
    pub number: PortNumber,
    /// Its address, so that it is not another by now.
    pub address: [u8; 6],
    /// Its new configuration.
    pub config: PortConfig,
    /// Bits of that to be set.
    pub mask: PortConfig,
    /// Features to advertise to the link partner; `None` leaves them.
    pub advertise: Option<PortFeatures>,
}

impl PortMod {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<PortMod, Fault> {
        let number = match version {
            Version::V10 => PortNumber::from_short(reader.u16()?),
            _ => {
                let number = PortNumber(reader.u32()?);
                reader.skip(4)?;
                number
            }
        };
        let address = reader.array()?;
        if version != Version::V10 {
            reader.skip(2)?;
        }
        let (config, mask) = (PortConfig(reader.u32()?), PortConfig(reader.u32()?));
        let mut advertise = None;
        if version < Version::V14 {
            // 0 leaves it.
            let features = PortFeatures::decode(reader.u32()?, version);
            reader.skip(4)?;
            advertise = (features.0 != 0).then_some(features);
        } else {
            while let Some((kind, mut value)) = property::next(&mut reader)? {
                if kind != ETHERNET {
                    return Err(property::unknown(kind));
                }
                if advertise.is_some() {
                    return Err(Fault::DuplicateProperty);
                }
                advertise = Some(PortFeatures(value.u32()?));
                value.finish()?;
            }
        }
        reader.finish()?;
        let old = NOT_SINCE_11 & mask.0;
        if !mask.is_known() || (version != Version::V10 && old != 0) {
            return Err(Fault::PortBadConfig);
        }
        Ok(PortMod { number, address, config, mask, advertise })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        if version != Version::V10 && self.mask.0 & NOT_SINCE_11 != 0 {
            return Err(Unencodable::Absent("flooding and spanning trees of ports"));
        }
        match version {
            Version::V10 => out.u16(self.number.short()?),
            _ => {
                out.u32(self.number.0);
                out.zeros(4);
            }
        }
        out.bytes(&self.address);
        if version != Version::V10 {
            out.zeros(2);
        }
        out.u32(self.config.0);
        out.u32(self.mask.0);
        if version < Version::V14 {
            out.u32(self.advertise.map_or(0, |features| features.encode(version)));
            out.zeros(4);
        } else if let Some(features) = self.advertise {
            property::put(out, ETHERNET, |out| out.u32(features.0))?;
        }
        Ok(())
    }
}

/// Configuration that OpenFlow 1.0 alone has.
const NOT_SINCE_11: u32 =
    PortConfig::NO_STP.0 | PortConfig::NO_RECEIVE_STP.0 | PortConfig::NO_FLOOD.0;

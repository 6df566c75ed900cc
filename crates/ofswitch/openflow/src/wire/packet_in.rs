//! Packet-in messages.
//!
//! A switch sends them in the form its controller asked for: the version's own, or one of two of
//! Nicira's, the second of which also has data of the flow, and can be resumed.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::field::Field;
use super::flow_mod::{buffer, encode_buffer};
use super::matching::{Dialect, Match};
use super::numbered::numbered;
use super::port_number::PortNumber;
use super::property;
use super::unencodable::Unencodable;
use super::version::Version;

numbered! {
    /// Why a packet is sent to a controller.
    pub enum PacketInReason: u8 {
        /// No flow matched, or the one of a table that matches everything.
        NoMatch = 0,
        /// By an action of a flow.
        Action = 1,
        /// Its time to live has ended.
        InvalidTtl = 2,
        /// By an action at the end (OpenFlow 1.4 and later; an action before).
        ActionSet = 3,
        /// By a bucket of a group (OpenFlow 1.4 and later; an action before).
        Group = 4,
        /// By a packet-out (OpenFlow 1.4 and later; an action before).
        PacketOut = 5,
    }
}

/// A packet for a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketIn {
    /// Buffer in which it waits.
    pub buffer: Option<u32>,
    /// Bytes of the whole packet, of which [`PacketIn::data`] may have a part.
    pub total_len: u32,
    /// Why it is sent.
    pub reason: PacketInReason,
    /// The table it was in; OpenFlow 1.0 lacks it.
    pub table: u8,
    /// The cookie of the flow, `u64::MAX` without one; OpenFlow 1.0 lacks it.
    pub cookie: u64,
    /// Its metadata fields, at least its port; OpenFlow 1.0 has that alone.
    pub fields: Match,
    /// The packet, or the beginning of it.
    pub data: Vec<u8>,
    /// Data of the flow, in Nicira's second form.
    pub userdata: Vec<u8>,
    /// The continuation to resume it by, in Nicira's second form: properties, whose types are the
    /// switch's own. Open vSwitch's tools parse them all the same, so types and lengths should be
    /// valid ones there.
    pub continuation: Vec<u8>,
}

const PACKET: u16 = 0;
const FULL_LEN: u16 = 1;
const BUFFER: u16 = 2;
const TABLE: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const METADATA: u16 = 6;
const USERDATA: u16 = 7;
const CONTINUATION: u16 = 8;

/// The newest reason a version has.
fn newest(version: Version) -> PacketInReason {
    if version < Version::V14 { PacketInReason::InvalidTtl } else { PacketInReason::PacketOut }
}

fn reason(number: u8, version: Version) -> Result<PacketInReason, Fault> {
    let reason = PacketInReason::from_number(number);
    reason.filter(|reason| *reason <= newest(version)).ok_or(Fault::BadReason)
}

impl PacketIn {
    /// A whole packet from a port, without a buffer, table or cookie.
    #[must_use]
    pub fn new(port: PortNumber, reason: PacketInReason, data: Vec<u8>) -> PacketIn {
        PacketIn {
            buffer: None,
            total_len: data.len() as u32,
            reason,
            table: 0,
            cookie: u64::MAX,
            fields: Match::new().with(Field::InPort, port.0.into()),
            data,
            userdata: Vec::new(),
            continuation: Vec::new(),
        }
    }

    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<PacketIn, Fault> {
        let buffer = buffer(reader.u32()?);
        let total_len = reader.u16()?.into();
        if version == Version::V10 {
            let port = PortNumber::from_short(reader.u16()?);
            let reason = reason(reader.u8()?, version)?;
            reader.skip(1)?;
            let packet = PacketIn::new(port, reason, reader.rest().to_vec());
            return Ok(PacketIn { buffer, total_len, ..packet });
        }
        let (reason, table) = (reason(reader.u8()?, version)?, reader.u8()?);
        let cookie = reader.u64()?;
        let fields = Match::decode_fields_of_packet(&mut reader)?;
        reader.skip(2)?;
        let packet = PacketIn::new(PortNumber::ANY, reason, reader.rest().to_vec());
        Ok(PacketIn { buffer, total_len, table, cookie, fields, ..packet })
    }

    /// Nicira's first form.
    pub(crate) fn decode_nicira(
        mut reader: Reader<'_>,
        version: Version,
    ) -> Result<PacketIn, Fault> {
        let buffer = buffer(reader.u32()?);
        let total_len = reader.u16()?.into();
        let (reason, table) = (reason(reader.u8()?, version)?, reader.u8()?);
        let cookie = reader.u64()?;
        let length = reader.u16()?;
        reader.skip(6)?;
        let fields = Match::decode_nxm(&mut reader, length, Dialect::Packet)?;
        reader.skip(2)?;
        let packet = PacketIn::new(PortNumber::ANY, reason, reader.rest().to_vec());
        Ok(PacketIn { buffer, total_len, table, cookie, fields, ..packet })
    }

    /// Nicira's second form, in which a packet also comes back to be resumed.
    pub(crate) fn decode_nicira_2(mut reader: Reader<'_>) -> Result<PacketIn, Fault> {
        let mut packet = PacketIn::new(PortNumber::ANY, PacketInReason::NoMatch, Vec::new());
        packet.fields = Match::new();
        let mut length = None;
        while let Some((kind, mut value)) = property::next(&mut reader)? {
            match kind {
                PACKET => packet.data = value.rest().to_vec(),
                FULL_LEN => length = Some(value.u32()?),
                BUFFER => packet.buffer = buffer(value.u32()?),
                TABLE => packet.table = value.u8()?,
                COOKIE => {
                    value.skip(4)?;
                    packet.cookie = value.u64()?;
                }
                REASON => packet.reason = reason(value.u8()?, Version::V15)?,
                METADATA => {
                    packet.fields =
                        Match::decode_fields_alone(value.part(value.len())?, Dialect::Packet)?;
                }
                USERDATA => packet.userdata = value.rest().to_vec(),
                CONTINUATION => {
                    value.skip(4)?;
                    packet.continuation = value.rest().to_vec();
                }
                _ => return Err(property::unknown(kind)),
            }
            value.finish()?;
        }
        packet.total_len = length.unwrap_or(packet.data.len() as u32);
        Ok(packet)
    }

    fn reason_in(&self, version: Version) -> u8 {
        if self.reason > newest(version) {
            PacketInReason::Action.number()
        } else {
            self.reason.number()
        }
    }

    fn short_len(&self) -> u16 {
        u16::try_from(self.total_len).unwrap_or(u16::MAX)
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        out.u32(encode_buffer(self.buffer));
        out.u16(self.short_len());
        if version == Version::V10 {
            let port = self.fields.exact(Field::InPort).unwrap_or(PortNumber::ANY.0.into());
            out.u16(PortNumber(port as u32).short()?);
            out.u8(self.reason_in(version));
            out.zeros(1);
        } else {
            out.u8(self.reason_in(version));
            out.u8(self.table);
            out.u64(self.cookie);
            self.fields.encode(version, out)?;
            out.zeros(2);
        }
        out.bytes(&self.data);
        Ok(())
    }

    pub(crate) fn encode_nicira(
        &self,
        version: Version,
        out: &mut Writer,
    ) -> Result<(), Unencodable> {
        out.u32(encode_buffer(self.buffer));
        out.u16(self.short_len());
        out.u8(self.reason_in(version));
        out.u8(self.table);
        out.u64(self.cookie);
        let at = out.len();
        out.zeros(8);
        let length = self.fields.encode_nxm((0, 0), out)?;
        out.put_u16(at, length);
        out.zeros(2);
        out.bytes(&self.data);
        Ok(())
    }

    pub(crate) fn encode_nicira_2(
        &self,
        version: Version,
        out: &mut Writer,
    ) -> Result<(), Unencodable> {
        property::put(out, PACKET, |out| out.bytes(&self.data))?;
        if self.total_len as usize != self.data.len() {
            property::put(out, FULL_LEN, |out| out.u32(self.total_len))?;
        }
        if let Some(buffer) = self.buffer {
            property::put(out, BUFFER, |out| out.u32(buffer))?;
        }
        property::put(out, TABLE, |out| out.u8(self.table))?;
        if self.cookie != u64::MAX {
            property::put(out, COOKIE, |out| {
                out.zeros(4);
                out.u64(self.cookie);
            })?;
        }
        property::put(out, REASON, |out| out.u8(self.reason_in(version)))?;
        let mut fields = Writer::new();
        self.fields.encode_fields_alone(version, &mut fields);
        property::put(out, METADATA, |out| out.bytes(&fields.into_bytes()))?;
        if !self.userdata.is_empty() {
            property::put(out, USERDATA, |out| out.bytes(&self.userdata))?;
        }
        if !self.continuation.is_empty() {
            property::put(out, CONTINUATION, |out| {
                out.zeros(4);
                out.bytes(&self.continuation);
            })?;
        }
        Ok(())
    }
}

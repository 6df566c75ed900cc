//! Packet-out messages.

use super::action::{self, Action};
use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::field::Field;
use super::flow_mod::{buffer, encode_buffer};
use super::matching::Match;
use super::oxm::Entry;
use super::port_number::PortNumber;
use super::unencodable::Unencodable;
use super::version::Version;

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketOut {
    /// The packet that waits here; then there is no [`PacketOut::data`].
    pub buffer: Option<u32>,
    /// The port it is taken to come from; `CONTROLLER` or `ANY` is none.
    pub in_port: PortNumber,
    /// Its other metadata fields (OpenFlow 1.5).
    pub fields: Match,
    /// Its actions.
    pub actions: Vec<Action>,
    /// The packet.
    pub data: Vec<u8>,
}

/// Fields of the switch, not of a packet.
fn is_pipeline(field: Field) -> bool {
    (field as usize) < Field::CtState as usize
}

impl PacketOut {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<PacketOut, Fault> {
        let buffer = buffer(reader.u32()?);
        let (in_port, length, mut fields) = match version {
            Version::V10 => {
                let port = PortNumber::from_short(reader.u16()?);
                (port, reader.u16()?, Match::new())
            }
            Version::V13 | Version::V14 => {
                let port = PortNumber(reader.u32()?);
                let length = reader.u16()?;
                reader.skip(6)?;
                (port, length, Match::new())
            }
            Version::V15 => {
                let length = reader.u16()?;
                reader.skip(2)?;
                let fields = Match::decode_fields_of_packet(&mut reader)?;
                if fields.entries().any(|entry| !is_pipeline(entry.field())) {
                    return Err(Fault::PipelineFieldsOnly);
                }
                let port = fields.exact(Field::InPort).ok_or(Fault::BadPort)?;
                (PortNumber(port as u32), length, fields)
            }
        };
        fields = fields.entries().copied().filter(|entry| entry.field() != Field::InPort).collect();
        let given = [PortNumber::LOCAL, PortNumber::CONTROLLER, PortNumber::ANY].contains(&in_port);
        if !in_port.is_port() && !given {
            return Err(Fault::BadPort);
        }
        let actions = reader.with_fault(Fault::ActionBadLength).part(length.into())?;
        reader.skip(length.into())?;
        let actions = action::decode_list(actions, version)?;
        let data = if buffer.is_none() { reader.rest().to_vec() } else { Vec::new() };
        Ok(PacketOut { buffer, in_port, fields, actions, data })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        out.u32(encode_buffer(self.buffer));
        if version == Version::V10 {
            out.u16(self.in_port.short()?);
        } else if version < Version::V15 {
            out.u32(self.in_port.0);
        }
        let at = out.len();
        out.u16(0);
        match version {
            Version::V10 => {}
            Version::V13 | Version::V14 => out.zeros(6),
            Version::V15 => {
                out.zeros(2);
                let port = Entry::exact(Field::InPort, self.in_port.0.into());
                let fields: Match =
                    std::iter::once(port).chain(self.fields.entries().copied()).collect();
                fields.encode(version, out)?;
            }
        }
        let start = out.len();
        action::encode_list(&self.actions, version, out)?;
        out.length(at, start)?;
        if self.buffer.is_none() {
            out.bytes(&self.data);
        }
        Ok(())
    }
}

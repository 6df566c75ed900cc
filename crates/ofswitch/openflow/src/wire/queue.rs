//! Queues of ports, and their rates.
//!
//! Asking for them is a message of its own up to OpenFlow 1.3 and a multipart message since 1.4.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::port_number::PortNumber;
use super::property;
use super::unencodable::Unencodable;
use super::version::Version;

/// All queues, in requests.
pub const ALL_QUEUES: u32 = 0xffff_ffff;

const MIN_RATE: u16 = 1;
const MAX_RATE: u16 = 2;
const EXPERIMENTER: u16 = 0xffff;

/// A queue of a port. Rates are in tenths of a percent; above 1000 they are unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Its port; OpenFlow 1.0 sends it once for all queues.
    pub port: PortNumber,
    /// Its number.
    pub number: u32,
    /// The rate it has at least.
    pub min_rate: Option<u16>,
    /// The rate it has at most (OpenFlow 1.2 and later).
    pub max_rate: Option<u16>,
}

impl Queue {
    fn set(&mut self, kind: u16, mut value: Reader<'_>) -> Result<(), Fault> {
        match kind {
            MIN_RATE => self.min_rate = Some(value.u16()?),
            MAX_RATE => self.max_rate = Some(value.u16()?),
            // Properties of experimenters are skipped.
            EXPERIMENTER => {}
            _ => return Err(Fault::PropertyBadType),
        }
        Ok(())
    }

    fn rates(&self) -> impl Iterator<Item = (u16, u16)> {
        let rates = [(MIN_RATE, self.min_rate), (MAX_RATE, self.max_rate)];
        rates.into_iter().filter_map(|(kind, rate)| Some((kind, rate?)))
    }

    /// A queue of OpenFlow 1.4 and later.
    pub(crate) fn decode_desc(reader: &mut Reader<'_>) -> Result<Queue, Fault> {
        let (port, number) = (PortNumber(reader.u32()?), reader.u32()?);
        let length = usize::from(reader.u16()?).checked_sub(16).ok_or(Fault::BadLength)?;
        reader.skip(6)?;
        let mut properties = reader.part(length)?;
        let mut queue = Queue { port, number, min_rate: None, max_rate: None };
        while let Some((kind, value)) = property::next(&mut properties)? {
            queue.set(kind, value)?;
        }
        Ok(queue)
    }

    pub(crate) fn encode_desc(&self, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u32(self.port.0);
        out.u32(self.number);
        out.zeros(8);
        for (kind, rate) in self.rates() {
            property::put_u16(out, kind, rate)?;
        }
        out.length(start + 8, start)
    }
}

/// The queues of a port, up to OpenFlow 1.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// The port of the request.
    pub port: PortNumber,
    /// Its queues.
    pub queues: Vec<Queue>,
}

/// A request for the queues of a port.
pub(crate) fn decode_request(
    mut reader: Reader<'_>,
    version: Version,
) -> Result<PortNumber, Fault> {
    let port = if version == Version::V10 {
        let port = PortNumber::from_short(reader.u16()?);
        reader.skip(2)?;
        port
    } else {
        let port = PortNumber(reader.u32()?);
        reader.skip(4)?;
        port
    };
    reader.finish()?;
    Ok(port)
}

pub(crate) fn encode_request(
    port: PortNumber,
    version: Version,
    out: &mut Writer,
) -> Result<(), Unencodable> {
    if version == Version::V10 {
        out.u16(port.short()?);
        out.zeros(2);
    } else {
        out.u32(port.0);
        out.zeros(4);
    }
    Ok(())
}

impl QueueConfig {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<QueueConfig, Fault> {
        let old = version == Version::V10;
        let port = if old {
            let port = PortNumber::from_short(reader.u16()?);
            reader.skip(6)?;
            port
        } else {
            let port = PortNumber(reader.u32()?);
            reader.skip(4)?;
            port
        };
        let mut queues = Vec::new();
        while !reader.is_empty() {
            let number = reader.u32()?;
            let of = if old { port } else { PortNumber(reader.u32()?) };
            let header = if old { 8 } else { 16 };
            let length = usize::from(reader.u16()?).checked_sub(header).ok_or(Fault::BadLength)?;
            reader.skip(if old { 2 } else { 6 })?;
            let mut properties = reader.part(length)?;
            let mut queue = Queue { port: of, number, min_rate: None, max_rate: None };
            while !properties.is_empty() {
                let (kind, length) = (properties.u16()?, usize::from(properties.u16()?));
                properties.skip(4)?;
                queue
                    .set(kind, properties.part(length.checked_sub(8).ok_or(Fault::BadLength)?)?)?;
            }
            queues.push(queue);
        }
        Ok(QueueConfig { port, queues })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let old = version == Version::V10;
        if old {
            out.u16(self.port.short()?);
            out.zeros(6);
        } else {
            out.u32(self.port.0);
            out.zeros(4);
        }
        for queue in &self.queues {
            let start = out.len();
            out.u32(queue.number);
            if !old {
                out.u32(queue.port.0);
            }
            let length = out.len();
            out.zeros(if old { 4 } else { 8 });
            for (kind, rate) in queue.rates() {
                out.u16(kind);
                out.u16(16);
                out.zeros(4);
                out.u16(rate);
                out.zeros(6);
            }
            out.length(length, start)?;
        }
        Ok(())
    }
}

//! Statistics of ports and their queues.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::elapsed::Elapsed;
use crate::wire::fault::Fault;
use crate::wire::port::RawProperty;
use crate::wire::port_number::PortNumber;
use crate::wire::property;
use crate::wire::unencodable::Unencodable;
use crate::wire::version::Version;

const ETHERNET: u16 = 0;

/// Errors of a port of Ethernet; `u64::MAX` is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetErrors {
    /// Frames that were not aligned.
    pub frame: u64,
    /// Frames there was no room for.
    pub overrun: u64,
    /// Frames with a wrong checksum.
    pub crc: u64,
    /// Collisions.
    pub collisions: u64,
}

impl EthernetErrors {
    fn decode(reader: &mut Reader<'_>) -> Result<EthernetErrors, Fault> {
        Ok(EthernetErrors {
            frame: reader.u64()?,
            overrun: reader.u64()?,
            crc: reader.u64()?,
            collisions: reader.u64()?,
        })
    }

    fn encode(&self, out: &mut Writer) {
        for count in [self.frame, self.overrun, self.crc, self.collisions] {
            out.u64(count);
        }
    }
}

/// Statistics of a port; `u64::MAX` is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortStats {
    /// Its number.
    pub port: PortNumber,
    /// Time it has existed; OpenFlow 1.0 lacks it.
    pub duration: Elapsed,
    /// Packets that came in.
    pub received: u64,
    /// Packets that went out.
    pub sent: u64,
    /// Bytes that came in.
    pub received_bytes: u64,
    /// Bytes that went out.
    pub sent_bytes: u64,
    /// Packets that came in and were dropped.
    pub received_dropped: u64,
    /// Packets that should go out and were dropped.
    pub sent_dropped: u64,
    /// Packets that came in wrong.
    pub received_errors: u64,
    /// Packets that could not go out.
    pub sent_errors: u64,
    /// Errors of Ethernet; always there before OpenFlow 1.4.
    pub ethernet: Option<EthernetErrors>,
    /// Its other properties (OpenFlow 1.4 and later).
    pub others: Vec<RawProperty>,
}

impl PortStats {
    pub(super) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<PortStats, Fault> {
        let mut body = *reader;
        let port = match version {
            Version::V10 => {
                body = reader.part(104)?;
                let port = PortNumber::from_short(body.u16()?);
                body.skip(6)?;
                port
            }
            Version::V13 => {
                body = reader.part(112)?;
                let port = PortNumber(body.u32()?);
                body.skip(4)?;
                port
            }
            _ => {
                let length = usize::from(body.u16()?);
                body = reader.part(length)?;
                body.skip(4)?;
                PortNumber(body.u32()?)
            }
        };
        let mut duration = Elapsed::default();
        if version > Version::V13 {
            duration = Elapsed::decode(&mut body)?;
        }
        let mut stats = PortStats {
            port,
            duration,
            received: body.u64()?,
            sent: body.u64()?,
            received_bytes: body.u64()?,
            sent_bytes: body.u64()?,
            received_dropped: body.u64()?,
            sent_dropped: body.u64()?,
            received_errors: body.u64()?,
            sent_errors: body.u64()?,
            ethernet: None,
            others: Vec::new(),
        };
        if version > Version::V13 {
            while let Some((kind, mut value)) = property::next(&mut body)? {
                if kind == ETHERNET && stats.ethernet.is_none() {
                    value.skip(4)?;
                    stats.ethernet = Some(EthernetErrors::decode(&mut value)?);
                    value.finish()?;
                } else {
                    stats.others.push(RawProperty { kind, value: value.rest().to_vec() });
                }
            }
            return Ok(stats);
        }
        stats.ethernet = Some(EthernetErrors::decode(&mut body)?);
        if version == Version::V13 {
            stats.duration = Elapsed::decode(&mut body)?;
        }
        Ok(stats)
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        match version {
            Version::V10 => {
                out.u16(self.port.short()?);
                out.zeros(6);
            }
            Version::V13 => {
                out.u32(self.port.0);
                out.zeros(4);
            }
            _ => {
                out.zeros(4);
                out.u32(self.port.0);
                self.duration.encode(out);
            }
        }
        for count in [
            self.received,
            self.sent,
            self.received_bytes,
            self.sent_bytes,
            self.received_dropped,
            self.sent_dropped,
            self.received_errors,
            self.sent_errors,
        ] {
            out.u64(count);
        }
        if version > Version::V13 {
            if let Some(errors) = self.ethernet {
                property::put(out, ETHERNET, |out| {
                    out.zeros(4);
                    errors.encode(out);
                })?;
            }
            self.others.iter().try_for_each(|property| property.encode(out))?;
            return out.length(start, start);
        }
        let unknown = EthernetErrors {
            frame: u64::MAX,
            overrun: u64::MAX,
            crc: u64::MAX,
            collisions: u64::MAX,
        };
        self.ethernet.unwrap_or(unknown).encode(out);
        if version == Version::V13 {
            self.duration.encode(out);
        }
        Ok(())
    }
}

/// Statistics of a queue of a port; `u64::MAX` is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStats {
    /// The port.
    pub port: PortNumber,
    /// The queue's number.
    pub queue: u32,
    /// Bytes that went out.
    pub bytes: u64,
    /// Packets that went out.
    pub packets: u64,
    /// Packets there was no room for.
    pub errors: u64,
    /// Time it has existed; OpenFlow 1.0 lacks it.
    pub duration: Elapsed,
}

impl QueueStats {
    pub(super) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<QueueStats, Fault> {
        let mut body = *reader;
        if version > Version::V13 {
            let length = usize::from(body.u16()?);
            body = reader.part(length)?;
            body.skip(8)?;
        }
        let port = if version == Version::V10 {
            let port = PortNumber::from_short(body.u16()?);
            body.skip(2)?;
            port
        } else {
            PortNumber(body.u32()?)
        };
        let queue = body.u32()?;
        let (bytes, packets, errors) = (body.u64()?, body.u64()?, body.u64()?);
        let duration =
            if version == Version::V10 { Elapsed::default() } else { Elapsed::decode(&mut body)? };
        if version > Version::V13 {
            // There are properties of experimenters alone.
            while property::next(&mut body)?.is_some() {}
        } else {
            *reader = body;
        }
        Ok(QueueStats { port, queue, bytes, packets, errors, duration })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        match version {
            Version::V10 => {
                out.u16(self.port.short()?);
                out.zeros(2);
            }
            Version::V13 => out.u32(self.port.0),
            _ => {
                out.zeros(8);
                out.u32(self.port.0);
            }
        }
        out.u32(self.queue);
        out.u64(self.bytes);
        out.u64(self.packets);
        out.u64(self.errors);
        if version != Version::V10 {
            self.duration.encode(out);
        }
        if version > Version::V13 { out.length(start, start) } else { Ok(()) }
    }
}

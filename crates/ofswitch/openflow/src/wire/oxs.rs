//! Statistics as a list of fields, as OpenFlow 1.5 has them (section 7.2.4.2).

use super::bytes::{Reader, Writer};
use super::elapsed::Elapsed;
use super::fault::Fault;
use super::unencodable::Unencodable;

/// The class of statistics.
const CLASS: u16 = 0x8002;
const DURATION: u8 = 0;
const IDLE_TIME: u8 = 1;
const FLOW_COUNT: u8 = 3;
const PACKET_COUNT: u8 = 4;
const BYTE_COUNT: u8 = 5;

/// Statistics; absent ones were not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Time it has existed.
    pub(super) duration: Option<Elapsed>,
    /// Time without packets.
    pub(super) idle: Option<Elapsed>,
    /// Number of flows.
    pub(super) flows: Option<u32>,
    /// Number of packets.
    pub(super) packets: Option<u64>,
    /// Number of bytes.
    pub(super) bytes: Option<u64>,
}

pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Statistics, Fault> {
    reader.skip(2)?;
    let length = usize::from(reader.u16()?);
    let mut fields = reader.part(length.checked_sub(4).ok_or(Fault::BadLength)?)?;
    reader.skip(length.next_multiple_of(8) - length)?;
    let mut found = Statistics::default();
    while !fields.is_empty() {
        let class = fields.u16()?;
        let number = fields.u8()? >> 1;
        let length = fields.u8()?;
        let mut value = fields.part(length.into())?;
        if class != CLASS {
            continue;
        }
        match number {
            DURATION => found.duration = Some(Elapsed::decode(&mut value)?),
            IDLE_TIME => found.idle = Some(Elapsed::decode(&mut value)?),
            FLOW_COUNT => found.flows = Some(value.u32()?),
            PACKET_COUNT => found.packets = Some(value.u64()?),
            BYTE_COUNT => found.bytes = Some(value.u64()?),
            // Unknown statistics are skipped.
            _ => continue,
        }
        value.finish()?;
    }
    Ok(found)
}

pub(crate) fn encode(statistics: &Statistics, out: &mut Writer) -> Result<(), Unencodable> {
    let start = out.len();
    out.zeros(4);
    let header = |out: &mut Writer, number: u8, length: u8| {
        out.u16(CLASS);
        out.u8(number << 1);
        out.u8(length);
    };
    for (number, duration) in [(DURATION, statistics.duration), (IDLE_TIME, statistics.idle)] {
        if let Some(duration) = duration {
            header(out, number, 8);
            duration.encode(out);
        }
    }
    for (number, count) in [(PACKET_COUNT, statistics.packets), (BYTE_COUNT, statistics.bytes)] {
        if let Some(count) = count {
            header(out, number, 8);
            out.u64(count);
        }
    }
    if let Some(flows) = statistics.flows {
        header(out, FLOW_COUNT, 4);
        out.u32(flows);
    }
    out.length(start + 2, start)?;
    out.pad(start);
    Ok(())
}

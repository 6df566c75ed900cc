//! Tables: their configuration, and their vacancy events.

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::numbered::{flags, numbered};
use super::property;
use super::unencodable::Unencodable;
use super::version::Version;

flags! {
    /// Configuration of a table.
    pub struct TableConfig: u32 {
        /// Packets without a match go on in the next table (OpenFlow 1.1 and 1.2).
        const MISS_CONTINUE = 1;
        /// Packets without a match are dropped (OpenFlow 1.1 and 1.2).
        const MISS_DROP = 1 << 1;
        /// In a full table, flows of less importance go (OpenFlow 1.4 and later).
        const EVICTION = 1 << 2;
        /// Vacancy events are sent when it fills and empties (OpenFlow 1.4 and later).
        const VACANCY_EVENTS = 1 << 3;
    }
}

/// Limits for vacancy events, in percent of free room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vacancy {
    /// An event is sent when less is free.
    pub down: u8,
    /// An event is sent when more is free.
    pub up: u8,
    /// Free part of the table; only sent by a switch.
    pub now: u8,
}

/// Properties of a table (OpenFlow 1.4 and later).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableProperties {
    /// Order in which flows go: bit 0 as the switch likes, 1 by importance, 2 by life-time.
    pub eviction: Option<u32>,
    /// Limits for vacancy events.
    pub vacancy: Option<Vacancy>,
}

const EVICTION: u16 = 2;
const VACANCY: u16 = 3;

impl TableProperties {
    /// Reads the properties; in a `request` every one must be known.
    fn decode(mut reader: Reader<'_>, request: bool) -> Result<TableProperties, Fault> {
        let mut found = TableProperties::default();
        while let Some((kind, mut value)) = property::next(&mut reader)? {
            let twice = match kind {
                EVICTION => found.eviction.replace(value.u32()?).is_some(),
                VACANCY => {
                    let (down, up, now) = (value.u8()?, value.u8()?, value.u8()?);
                    value.skip(1)?;
                    if down > up || up > 100 || (request && now != 0) {
                        return Err(Fault::PropertyBadValue);
                    }
                    found.vacancy.replace(Vacancy { down, up, now }).is_some()
                }
                _ if request => return Err(property::unknown(kind)),
                _ => continue,
            };
            value.finish()?;
            if twice {
                return Err(Fault::DuplicateProperty);
            }
        }
        Ok(found)
    }

    fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        if let Some(flags) = self.eviction {
            property::put(out, EVICTION, |out| out.u32(flags))?;
        }
        if let Some(Vacancy { down, up, now }) = self.vacancy {
            property::put(out, VACANCY, |out| out.bytes(&[down, up, now, 0]))?;
        }
        Ok(())
    }
}

/// A change of a table, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableMod {
    /// Its number; 255 is all.
    pub table: u8,
    /// Its new configuration.
    pub config: TableConfig,
    /// Its new properties.
    pub properties: TableProperties,
}

impl TableMod {
    pub(crate) fn decode(mut reader: Reader<'_>, version: Version) -> Result<TableMod, Fault> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let config = TableConfig(reader.u32()?);
        if config.0 & !allowed(version) != 0 {
            return Err(Fault::TableBadConfig);
        }
        let properties = if version == Version::V13 {
            reader.finish()?;
            TableProperties::default()
        } else {
            TableProperties::decode(reader, true)?
        };
        Ok(TableMod { table, config, properties })
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let newer = version == Version::V13 && self.properties != TableProperties::default();
        if newer || self.config.0 & !allowed(version) != 0 {
            return Err(Unencodable::Absent("eviction and vacancy of tables"));
        }
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.config.0);
        self.properties.encode(out)
    }
}

/// The flags a version has.
fn allowed(version: Version) -> u32 {
    if version == Version::V13 { 3 } else { TableConfig::KNOWN.0 }
}

/// Description of a table (OpenFlow 1.4 and later).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableDesc {
    /// Its number.
    pub table: u8,
    /// Its configuration.
    pub config: TableConfig,
    /// Its properties.
    pub properties: TableProperties,
}

impl TableDesc {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<TableDesc, Fault> {
        let length = usize::from(reader.u16()?);
        let mut body = reader.part(length.checked_sub(2).ok_or(Fault::BadLength)?)?;
        let table = body.u8()?;
        body.skip(1)?;
        let config = TableConfig(body.u32()?);
        Ok(TableDesc { table, config, properties: TableProperties::decode(body, false)? })
    }

    pub(crate) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u16(0);
        out.u8(self.table);
        out.zeros(1);
        out.u32(self.config.0);
        self.properties.encode(out)?;
        out.length(start, start)
    }
}

numbered! {
    /// Vacancy event of a table.
    pub enum TableReason: u8 {
        /// Less room is free than the lower limit.
        VacancyDown = 3,
        /// More room is free than the upper limit.
        VacancyUp = 4,
    }
}

/// Status message of a table that fills or empties (OpenFlow 1.4 and later).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStatus {
    /// The event.
    pub reason: TableReason,
    /// The table.
    pub table: TableDesc,
}

impl TableStatus {
    pub(crate) fn decode(mut reader: Reader<'_>) -> Result<TableStatus, Fault> {
        let reason = TableReason::from_number(reader.u8()?).ok_or(Fault::BadReason)?;
        reader.skip(7)?;
        let table = TableDesc::decode(&mut reader)?;
        reader.finish()?;
        Ok(TableStatus { reason, table })
    }

    pub(crate) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        out.u8(self.reason.number());
        out.zeros(7);
        self.table.encode(out)
    }
}

//! Statistics of tables.

use crate::wire::bytes::{Reader, Writer};
use crate::wire::fault::Fault;
use crate::wire::version::Version;

const NAME: usize = 32;

/// Statistics of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStats {
    /// Its number.
    pub table: u8,
    /// Its name (OpenFlow 1.0; later it is among the features).
    pub name: String,
    /// Fields that may be wildcards, as in a match (OpenFlow 1.0).
    pub wildcards: u32,
    /// Flows at most (OpenFlow 1.0).
    pub max_entries: u32,
    /// Number of its flows.
    pub active: u32,
    /// Packets that were looked up in it.
    pub lookups: u64,
    /// Packets of these that matched.
    pub matches: u64,
}

impl TableStats {
    pub(super) fn decode(reader: &mut Reader<'_>, version: Version) -> Result<TableStats, Fault> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let (mut name, mut wildcards, mut max_entries) = (String::new(), 0, 0);
        if version == Version::V10 {
            name = reader.text(NAME)?;
            (wildcards, max_entries) = (reader.u32()?, reader.u32()?);
        }
        let (active, lookups, matches) = (reader.u32()?, reader.u64()?, reader.u64()?);
        Ok(TableStats { table, name, wildcards, max_entries, active, lookups, matches })
    }

    pub(super) fn encode(&self, version: Version, out: &mut Writer) {
        out.u8(self.table);
        out.zeros(3);
        if version == Version::V10 {
            out.text(&self.name, NAME);
            out.u32(self.wildcards);
            out.u32(self.max_entries);
        }
        out.u32(self.active);
        out.u64(self.lookups);
        out.u64(self.matches);
    }
}

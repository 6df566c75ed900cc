//! Changes of ports and tables.

use std::sync::Arc;

use super::edit::{Edit, Effect};
use crate::table::{Change, PortCounters, SwitchPort};
use crate::wire::{
    ALL_TABLES, Fault, Port, PortConfig, PortMod, PortNumber, PortReason, PortState, PortStatus,
    TableConfig, TableMod, Version,
};

/// Flows are chosen to go as the switch likes, by importance, or by life-time.
const EVICTION_KNOWN: u32 = 7;
/// Eviction as implemented: by importance, then by life-time.
pub(super) const EVICTION: u32 = 6;

impl Edit<'_> {
    /// Adds a port, or puts another in the place of one with its number.
    pub(super) fn add_port(&mut self, port: Port) -> Arc<PortCounters> {
        let ports = self.tables.ports_mut();
        let before = ports.get(&port.number.0);
        let counters = before.map_or_else(Arc::default, |before| Arc::clone(&before.counters));
        let added = before.map_or(self.now, |before| before.added);
        let reason = if before.is_some() { PortReason::Modify } else { PortReason::Add };
        let same = before.is_some_and(|before| before.port == port);
        if !same {
            self.effects.push(Effect::Port(PortStatus { reason, port: port.clone() }));
            let entry = SwitchPort { port, added, counters: Arc::clone(&counters) };
            ports.insert(entry.port.number.0, Arc::new(entry));
            self.changes.push(Change::All);
        }
        counters
    }

    pub(super) fn remove_port(&mut self, number: PortNumber) -> bool {
        let Some(gone) = self.tables.ports_mut().remove(&number.0) else { return false };
        let port = gone.port.clone();
        self.effects.push(Effect::Port(PortStatus { reason: PortReason::Delete, port }));
        self.changes.push(Change::All);
        true
    }

    /// Changes the description of a port. Returns true if it is there.
    fn set_port(&mut self, number: PortNumber, change: impl FnOnce(&mut Port)) -> bool {
        let Some(before) = self.tables.port(number).map(Arc::clone) else { return false };
        let mut port = before.port.clone();
        change(&mut port);
        self.add_port(port);
        true
    }

    pub(super) fn set_port_state(&mut self, number: PortNumber, state: PortState) -> bool {
        self.set_port(number, |port| port.state = state)
    }

    pub(super) fn port_mod(&mut self, change: &PortMod) -> Result<(), Fault> {
        let port = self.tables.port(change.number).ok_or(Fault::PortModBadPort)?;
        if port.port.address != change.address {
            return Err(Fault::BadHardwareAddress);
        }
        self.set_port(change.number, |port| {
            let kept = port.config.0 & !change.mask.0;
            port.config = PortConfig(kept | change.config.0 & change.mask.0);
            if let (Some(features), Some(ethernet)) = (change.advertise, &mut port.ethernet) {
                ethernet.advertised = features;
            }
        });
        Ok(())
    }

    pub(super) fn table_mod(&mut self, change: &TableMod, version: Version) -> Result<(), Fault> {
        let count = self.tables.tables();
        let tables = match change.table {
            ALL_TABLES => 0..count,
            table if table < count => table..table + 1,
            _ => return Err(Fault::TableModBadTable),
        };
        if change.properties.eviction.is_some_and(|flags| flags & !EVICTION_KNOWN != 0) {
            return Err(Fault::TableBadConfig);
        }
        let both = TableConfig::MISS_CONTINUE.with(TableConfig::MISS_DROP);
        if change.config.contains(both) {
            return Err(Fault::TableBadConfig);
        }
        for number in tables {
            let Some(table) = self.tables.table_mut(number) else { continue };
            // Flags that OpenFlow 1.3 lacks stay.
            let kept = if version < Version::V14 { table.config.0 & !both.0 } else { 0 };
            let before = table.config.0 & both.0;
            table.config = TableConfig(kept | change.config.0);
            if change.properties.eviction.is_some() {
                table.properties.eviction = Some(EVICTION);
            }
            if change.properties.vacancy.is_some() {
                table.properties.vacancy = change.properties.vacancy;
            }
            if before != change.config.0 & both.0 {
                self.changes.push(Change::All);
            }
            self.effects.push(Effect::Table(number));
        }
        Ok(())
    }
}

//! All tables at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Change, Changes, Counters, Flow, Group, SwitchPort};
use crate::key::{Key, Mask};
use crate::meter::Meter;
use crate::wire::{Bucket, PortNumber, TableConfig, TableProperties};

/// All tables, groups, meters and ports at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub(crate) version: u64,
    tables: Vec<Arc<Table>>,
    ports: Arc<BTreeMap<u32, Arc<SwitchPort>>>,
    changes: Changes,
    misses_to_controllers: bool,
}

/// What becomes of packets that no flow of a table matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// They are dropped.
    Drop,
    /// They go on in the next table.
    Continue,
    /// They go to controllers.
    Controller,
}

/// A table at one moment.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// How it is set.
    pub config: TableConfig,
    /// How else it is set.
    pub properties: TableProperties,
    /// Packets that were looked up.
    pub lookups: Arc<Counters>,
    /// Packets that matched.
    pub matches: Arc<Counters>,
}

impl Table {
    /// How many flows it has.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Snapshot {
    /// Its number; every change makes a greater one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many tables there are; they have the numbers from 0 on.
    #[must_use]
    pub fn tables(&self) -> u8 {
        self.tables.len() as u8
    }

    /// A table.
    #[must_use]
    pub fn table(&self, table: u8) -> Option<&Arc<Table>> {
        self.tables.get(usize::from(table))
    }

    /// The flow of a table a key goes by. Bits that were looked at are added to `mask`, as few as can be.
    ///
    /// Every key that has the same bits under what was added gets the same flow. Matches in several
    /// dimensions (`conjunction`) are done here: the flow is then the one with the `conj_id`.
    #[must_use]
    pub fn lookup(&self, _table: u8, _key: &Key, _mask: &mut Mask) -> Option<&Arc<Flow>> {
        None
    }

    /// The flow of a table with this very match and priority.
    #[must_use]
    pub fn flow_strict(
        &self,
        _table: u8,
        _priority: u16,
        _key: &Key,
        _mask: &Mask,
    ) -> Option<&Arc<Flow>> {
        None
    }

    /// What becomes of packets that no flow of a table matches.
    #[must_use]
    pub fn miss(&self, table: u8) -> Miss {
        let config = self.table(table).map_or_else(TableConfig::default, |table| table.config);
        if config.contains(TableConfig::MISS_CONTINUE) {
            Miss::Continue
        } else if self.misses_to_controllers && !config.contains(TableConfig::MISS_DROP) {
            Miss::Controller
        } else {
            Miss::Drop
        }
    }

    /// All flows of a table, in no order.
    pub fn flows(&self, _table: u8) -> impl Iterator<Item = &Arc<Flow>> {
        [].into_iter()
    }

    /// A group.
    #[must_use]
    pub fn group(&self, _number: u32) -> Option<&Arc<Group>> {
        None
    }

    /// A meter.
    #[must_use]
    pub fn meter(&self, _number: u32) -> Option<&Arc<Meter>> {
        None
    }

    /// A port.
    #[must_use]
    pub fn port(&self, number: PortNumber) -> Option<&Arc<SwitchPort>> {
        self.ports.get(&number.0)
    }

    /// All ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = &Arc<SwitchPort>> {
        self.ports.values()
    }

    /// Whether a bucket is alive: what it watches is, or it watches nothing.
    #[must_use]
    pub fn is_alive(&self, bucket: &Bucket) -> bool {
        let port = bucket.watch_port == PortNumber::ANY
            || self.port(bucket.watch_port).is_some_and(|port| port.is_live());
        let _ = bucket.watch_group;
        port
    }

    /// What became different after a version, the oldest first; `None` when that is too long ago.
    pub fn changes_since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        self.changes.since(version)
    }
}

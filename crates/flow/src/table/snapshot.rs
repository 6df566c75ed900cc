//! All tables at one moment.

use std::sync::Arc;

use super::Flow;
use crate::key::{Key, Mask};

/// All tables, groups, meters and ports at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    version: u64,
}

/// What became different from a version to the next.
#[derive(Debug, Clone)]
pub enum Change {
    /// A flow that matches this came to a table, went, or got other instructions.
    Flow {
        /// Which table.
        table: u8,
        /// What it matches.
        key: Box<Key>,
        /// Which bits of it count.
        mask: Box<Mask>,
    },
    /// A group has other buckets, or is gone.
    Group(u32),
    /// A meter is another one, or gone.
    Meter(u32),
    /// `NORMAL` sends packets to this address elsewhere.
    Host {
        /// The number of the VLAN.
        vlan: u16,
        /// The address.
        address: u64,
    },
    /// Anything may be different: ports, configuration, or too much to say.
    All,
}

/// The last changes, for who has decisions of an older version.
#[derive(Debug, Default)]
pub struct Changes;

impl Snapshot {
    /// Its number; every change makes a greater one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The flow of a table a key goes by. Bits that were looked at are added to `mask`, as few as can be.
    #[must_use]
    pub fn lookup(&self, _table: u8, _key: &Key, _mask: &mut Mask) -> Option<&Arc<Flow>> {
        None
    }
}

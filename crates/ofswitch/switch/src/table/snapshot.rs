//! All tables at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::references::{Reference, references};
use super::trie::{Ranked, Trie, mix};
use super::{Change, Changes, Flow, Group, SwitchPort, Table};
use crate::key::{Key, Mask};
use crate::meter::Meter;
use crate::wire::{Bucket, PortNumber, TableConfig};

/// Tables in a chunk: a change copies the pointers to chunks and those of one chunk.
const CHUNK: usize = 16;

/// All tables, groups, meters and ports at one moment.
///
/// Copying one copies some twenty pointers.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub(crate) version: u64,
    count: u8,
    tables: Vec<Arc<Vec<Arc<Table>>>>,
    groups: Trie<GroupEntry>,
    /// Buckets of all groups.
    buckets: usize,
    meters: Trie<MeterEntry>,
    ports: Arc<BTreeMap<u32, Arc<SwitchPort>>>,
    changes: Changes,
    misses_to_controllers: bool,
    drops_fragments: bool,
    stands_alone: bool,
}

/// Treatment of packets that no flow of a table matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// They are dropped.
    Drop,
    /// They go on in the next table.
    Continue,
    /// They go to controllers.
    Controller,
}

/// A group, and the flows that send to it.
#[derive(Debug, Clone)]
struct GroupEntry {
    group: Arc<Group>,
    users: Trie<Arc<Flow>>,
}

/// A meter, and the flows it decides for.
#[derive(Debug, Clone)]
struct MeterEntry {
    meter: Arc<Meter>,
    users: Trie<Arc<Flow>>,
}

impl Ranked for GroupEntry {}
impl Ranked for MeterEntry {}
impl Ranked for Arc<Flow> {}

fn hash(number: u32) -> u64 {
    mix(0, number.into())
}

/// Puts a flow into a set, or replaces its former version.
fn use_by(users: &mut Trie<Arc<Flow>>, flow: &Arc<Flow>) {
    let is = |other: &Arc<Flow>| other.number == flow.number;
    let hash = mix(0, flow.number);
    let replace = |other: &mut Arc<Flow>| {
        *other = Arc::clone(flow);
        true
    };
    if !users.modify(hash, is, replace) {
        users.insert(hash, Arc::clone(flow));
    }
}

fn forget(users: &mut Trie<Arc<Flow>>, flow: &Arc<Flow>) {
    users.remove(mix(0, flow.number), |other| other.number == flow.number);
}

impl Snapshot {
    /// Empty tables.
    pub(crate) fn new(tables: u8) -> Snapshot {
        let mut left = usize::from(tables);
        let mut chunks = Vec::new();
        while left > 0 {
            let chunk = (0..left.min(CHUNK)).map(|_| Arc::default()).collect();
            chunks.push(Arc::new(chunk));
            left -= left.min(CHUNK);
        }
        Snapshot { count: tables, tables: chunks, ..Snapshot::default() }
    }

    /// Returns its number; every change makes a greater one.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of tables; they have the numbers from 0 on.
    #[must_use]
    pub fn tables(&self) -> u8 {
        self.count
    }

    /// A table.
    #[must_use]
    pub fn table(&self, table: u8) -> Option<&Arc<Table>> {
        self.tables.get(usize::from(table) / CHUNK)?.get(usize::from(table) % CHUNK)
    }

    /// The flow of a table a key goes by. Bits that were looked at are added to `mask`, as few as
    /// can be.
    ///
    /// Every key that has the same bits under the added ones gets the same flow. Matches in several
    /// dimensions (`conjunction`) are done here: the flow is then the one with the `conj_id`, whose
    /// bits are in the mask, too. It costs a look at each mask flows of the table have, until one
    /// is found that has at least the priority of the rest: some 50 ns each.
    #[must_use]
    pub fn lookup(&self, table: u8, key: &Key, mask: &mut Mask) -> Option<&Arc<Flow>> {
        self.table(table)?.lookup(key, mask)
    }

    /// The flow of a table with this very match and priority.
    #[must_use]
    pub fn flow_strict(
        &self,
        table: u8,
        priority: u16,
        key: &Key,
        mask: &Mask,
    ) -> Option<&Arc<Flow>> {
        self.table(table)?.get(priority, key, mask)
    }

    /// The flow with the match and priority of another, in its table.
    #[must_use]
    pub fn same_flow(&self, flow: &Flow) -> Option<&Arc<Flow>> {
        let (key, mask) = (flow.pattern.key(), flow.pattern.mask());
        self.flow_strict(flow.table, flow.priority, &key, &mask)
    }

    /// Returns the treatment of packets that no flow of a table matches.
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

    /// Returns true if fragments are dropped before any table.
    #[must_use]
    pub fn drops_fragments(&self) -> bool {
        self.drops_fragments
    }

    /// Returns true if arriving packets are forwarded by `NORMAL`, without tables.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        self.stands_alone
    }

    /// Returns all flows of a table, in no order.
    pub fn flows(&self, table: u8) -> impl Iterator<Item = &Arc<Flow>> {
        self.table(table).into_iter().flat_map(|table| table.iter())
    }

    /// A group.
    #[must_use]
    pub fn group(&self, number: u32) -> Option<&Arc<Group>> {
        self.group_entry(number).map(|entry| &entry.group)
    }

    fn group_entry(&self, number: u32) -> Option<&GroupEntry> {
        self.groups.get(hash(number), |entry| entry.group.number == number)
    }

    /// Returns all groups, in no order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<Group>> {
        let all: Vec<_> = self.groups.iter().map(|entry| &entry.group).collect();
        all.into_iter()
    }

    /// The number of buckets of all groups.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }

    /// Flows that send to a group, in no order.
    pub fn flows_of_group(&self, number: u32) -> impl Iterator<Item = &Arc<Flow>> {
        self.group_entry(number).into_iter().flat_map(|entry| entry.users.iter())
    }

    /// A meter.
    #[must_use]
    pub fn meter(&self, number: u32) -> Option<&Arc<Meter>> {
        self.meter_entry(number).map(|entry| &entry.meter)
    }

    fn meter_entry(&self, number: u32) -> Option<&MeterEntry> {
        self.meters.get(hash(number), |entry| entry.meter.number == number)
    }

    /// Returns all meters, in no order.
    pub fn meters(&self) -> impl ExactSizeIterator<Item = &Arc<Meter>> {
        let all: Vec<_> = self.meters.iter().map(|entry| &entry.meter).collect();
        all.into_iter()
    }

    /// Flows a meter decides for, in no order.
    pub fn flows_of_meter(&self, number: u32) -> impl Iterator<Item = &Arc<Flow>> {
        self.meter_entry(number).into_iter().flat_map(|entry| entry.users.iter())
    }

    /// A port.
    #[must_use]
    pub fn port(&self, number: PortNumber) -> Option<&Arc<SwitchPort>> {
        self.ports.get(&number.0)
    }

    /// Returns all ports, by number.
    pub fn ports(&self) -> impl ExactSizeIterator<Item = &Arc<SwitchPort>> {
        self.ports.values()
    }

    /// Returns true if a bucket is alive: the port and the group it watches are, or it watches
    /// nothing. A group is alive when one of its buckets is. The groups that were asked are added
    /// to `asked`, with whether they are alive where that is known now; those that are there with
    /// it are not asked again.
    #[must_use]
    pub fn is_alive(&self, bucket: &Bucket, asked: &mut BTreeMap<u32, Option<bool>>) -> bool {
        let has_port = |bucket: &Bucket| {
            bucket.watch_port == PortNumber::ANY
                || self.port(bucket.watch_port).is_some_and(|port| port.is_live())
        };
        if !has_port(bucket) {
            return false;
        }
        let Some(first) = bucket.watch_group else { return true };
        if let Some(Some(known)) = asked.get(&first) {
            return *known;
        }
        // Each group once, also if many watch it: some way ends at a bucket that watches none.
        let (mut seen, mut left) = (BTreeSet::from([first]), vec![first]);
        let is_alive = loop {
            let Some(number) = left.pop() else { break false };
            let buckets = self.group(number).into_iter().flat_map(|group| &group.buckets);
            let mut watched =
                buckets.filter(|one| has_port(&one.bucket)).map(|one| one.bucket.watch_group);
            let is_end = |watched: Option<u32>| {
                let Some(group) = watched else { return true };
                let known = asked.get(&group).copied().flatten();
                if known.is_none() && seen.insert(group) {
                    left.push(group);
                }
                known == Some(true)
            };
            if watched.any(is_end) {
                break true;
            }
        };
        for group in seen {
            // Where no way ends, none of them is alive; else that is only known of the first.
            let known = (!is_alive || group == first).then_some(is_alive);
            asked.entry(group).and_modify(|before| *before = before.or(known)).or_insert(known);
        }
        is_alive
    }

    /// Returns the changes after a version, the oldest first; `None` when that is too long ago.
    pub fn changes_since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        self.changes.since(version)
    }
}

/// Changes, made where there is no other reference.
impl Snapshot {
    /// Makes it the next version, with these changes.
    pub(crate) fn advance(&mut self, changes: impl ExactSizeIterator<Item = Change>) {
        self.version += 1;
        if changes.len() > Changes::capacity() / 2 {
            self.changes.all(self.version);
        } else {
            changes.for_each(|change| self.changes.push(self.version, change));
        }
    }

    pub(crate) fn table_mut(&mut self, table: u8) -> Option<&mut Table> {
        let chunk = Arc::make_mut(self.tables.get_mut(usize::from(table) / CHUNK)?);
        Some(Arc::make_mut(chunk.get_mut(usize::from(table) % CHUNK)?))
    }

    /// Adds a flow, and returns the one it takes the place of.
    pub(crate) fn insert_flow(&mut self, flow: &Arc<Flow>) -> Option<Arc<Flow>> {
        let replaced = self.table_mut(flow.table)?.insert(Arc::clone(flow));
        if let Some(replaced) = &replaced {
            self.forget_user(replaced);
        }
        references(flow, &mut |reference| self.users(reference, |users| use_by(users, flow)));
        replaced
    }

    /// Removes the present version of a flow.
    pub(crate) fn remove_flow(&mut self, flow: &Flow) -> Option<Arc<Flow>> {
        let table = self.table_mut(flow.table)?;
        let removed = table.remove(flow.priority, &flow.pattern.key(), &flow.pattern.mask())?;
        self.forget_user(&removed);
        Some(removed)
    }

    /// Removes all flows of a table; the caller removes their references by
    /// [`forget_user`](Self::forget_user).
    pub(crate) fn empty_table(&mut self, table: u8) {
        if self.table(table).is_some_and(|table| !table.is_empty())
            && let Some(table) = self.table_mut(table)
        {
            table.clear();
        }
    }

    /// A flow that is gone refers to nothing any more.
    pub(crate) fn forget_user(&mut self, flow: &Arc<Flow>) {
        references(flow, &mut |reference| self.users(reference, |users| forget(users, flow)));
    }

    fn users(&mut self, reference: Reference, change: impl FnOnce(&mut Trie<Arc<Flow>>)) {
        match reference {
            Reference::Group(number) => {
                self.groups.modify(
                    hash(number),
                    |entry| entry.group.number == number,
                    |entry| {
                        change(&mut entry.users);
                        true
                    },
                );
            }
            Reference::Meter(number) => {
                self.meters.modify(
                    hash(number),
                    |entry| entry.meter.number == number,
                    |entry| {
                        change(&mut entry.users);
                        true
                    },
                );
            }
        }
    }

    /// Adds a group, or puts another in its place.
    pub(crate) fn set_group(&mut self, group: Arc<Group>) {
        let number = group.number;
        self.buckets += group.buckets.len();
        self.buckets -= self.group(number).map_or(0, |before| before.buckets.len());
        let replace = |entry: &mut GroupEntry| {
            entry.group = Arc::clone(&group);
            true
        };
        if !self.groups.modify(hash(number), |entry| entry.group.number == number, replace) {
            self.groups.insert(hash(number), GroupEntry { group, users: Trie::default() });
        }
    }

    pub(crate) fn remove_group(&mut self, number: u32) {
        self.buckets -= self.group(number).map_or(0, |group| group.buckets.len());
        self.groups.remove(hash(number), |entry| entry.group.number == number);
    }

    /// Adds a meter, or puts another in its place.
    pub(crate) fn set_meter(&mut self, meter: Arc<Meter>) {
        let number = meter.number;
        let replace = |entry: &mut MeterEntry| {
            entry.meter = Arc::clone(&meter);
            true
        };
        if !self.meters.modify(hash(number), |entry| entry.meter.number == number, replace) {
            self.meters.insert(hash(number), MeterEntry { meter, users: Trie::default() });
        }
    }

    pub(crate) fn remove_meter(&mut self, number: u32) {
        self.meters.remove(hash(number), |entry| entry.meter.number == number);
    }

    pub(crate) fn ports_mut(&mut self) -> &mut BTreeMap<u32, Arc<SwitchPort>> {
        Arc::make_mut(&mut self.ports)
    }

    pub(crate) fn misses_to_controllers(&self) -> bool {
        self.misses_to_controllers
    }

    pub(crate) fn set_misses_to_controllers(&mut self, wanted: bool) {
        self.misses_to_controllers = wanted;
    }

    pub(crate) fn set_drops_fragments(&mut self, drops: bool) {
        self.drops_fragments = drops;
    }

    pub(crate) fn set_stands_alone(&mut self, alone: bool) {
        self.stands_alone = alone;
    }
}

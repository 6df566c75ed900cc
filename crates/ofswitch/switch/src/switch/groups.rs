//! Changes of groups and meters.
//!
//! Sources: OpenFlow 1.3.5 sections 6.5 and 6.6, 1.5.1 section 6.7.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::edit::{Edit, Effect, check_meters};
use crate::counters::Counters;
use crate::meter::Meter;
use crate::table::{Change, Group, GroupBucket, Reference, of_actions};
use crate::wire::group::{ALL_BUCKETS, ALL_GROUPS, FIRST, LAST, MAX_GROUP};
use crate::wire::meter::ALL_METERS;
use crate::wire::{
    Bucket, Fault, FlowRemovedReason, GroupCommand, GroupMod, GroupType, MeterCommand, MeterFlags,
    MeterMod, Version,
};

/// Buckets of a group, at most.
pub(super) const BUCKETS: usize = 4096;

/// Bands of a meter, at most.
pub(super) const BANDS: usize = 16;

/// The groups that buckets send to.
fn sent_to<'a>(buckets: impl Iterator<Item = &'a Bucket>) -> BTreeSet<u32> {
    let mut groups = BTreeSet::new();
    for bucket in buckets {
        of_actions(&bucket.actions, &mut |reference| {
            if let Reference::Group(number) = reference {
                groups.insert(number);
            }
        });
    }
    groups
}

fn buckets_of(group: &Group) -> impl Iterator<Item = &Bucket> {
    group.buckets.iter().map(|bucket| &bucket.bucket)
}

impl Edit<'_> {
    /// Changes a group, or deletes all. A fault leaves all as it was.
    pub(super) fn group_mod(&mut self, change: &GroupMod, version: Version) -> Result<(), Fault> {
        let before = self.tables.group(change.group).map(Arc::clone);
        match (change.command, before) {
            (GroupCommand::Delete, _) if change.group == ALL_GROUPS => {
                let all: Vec<u32> = self.tables.groups().map(|group| group.number).collect();
                all.into_iter().for_each(|number| self.delete_group(number));
                Ok(())
            }
            (GroupCommand::Delete, None) => Ok(()),
            (GroupCommand::Delete, Some(_)) => {
                let sends =
                    |group: &&Arc<Group>| sent_to(buckets_of(group)).contains(&change.group);
                let others = self.tables.groups().filter(|group| group.number != change.group);
                if others.into_iter().any(|group| sends(&group)) {
                    return Err(Fault::ChainedGroup);
                }
                self.delete_group(change.group);
                Ok(())
            }
            (GroupCommand::Add, Some(_)) => Err(Fault::GroupExists),
            (GroupCommand::Add | GroupCommand::AddOrModify, None) => {
                if change.group > MAX_GROUP {
                    return Err(Fault::InvalidGroup);
                }
                if self.tables.groups().len() >= self.options.groups as usize {
                    return Err(Fault::OutOfGroups);
                }
                self.set_group(change, None, Vec::new(), version)
            }
            (GroupCommand::Modify | GroupCommand::AddOrModify, Some(before)) => {
                self.set_group(change, Some(&before), Vec::new(), version)
            }
            (GroupCommand::InsertBucket, Some(before)) => {
                let mut buckets = before.buckets.clone();
                let at = match change.at {
                    FIRST => 0,
                    LAST => buckets.len(),
                    id => position(&buckets, id).ok_or(Fault::UnknownBucket)? + 1,
                };
                let new = change.buckets.iter().map(|bucket| self.bucket(bucket.clone()));
                buckets.splice(at..at, new.collect::<Vec<_>>());
                self.set_buckets(&before, buckets, version)
            }
            (GroupCommand::RemoveBucket, Some(before)) => {
                let mut buckets = before.buckets.clone();
                match (change.at, buckets.len()) {
                    (ALL_BUCKETS, _) => buckets.clear(),
                    // As in Open vSwitch, there is none to take away.
                    (FIRST | LAST, 0) => {}
                    (FIRST, _) => drop(buckets.remove(0)),
                    (LAST, count) => drop(buckets.remove(count - 1)),
                    (id, _) => {
                        let at = position(&buckets, id).ok_or(Fault::UnknownBucket)?;
                        buckets.remove(at);
                    }
                }
                self.set_buckets(&before, buckets, version)
            }
            (_, None) => Err(Fault::UnknownGroup),
        }
    }

    fn bucket(&self, bucket: Bucket) -> GroupBucket {
        GroupBucket { bucket, counters: Arc::new(Counters::new(self.now)) }
    }

    /// The group of a message, or one that takes the place of another and goes on with its
    /// counters.
    fn set_group(
        &mut self,
        change: &GroupMod,
        before: Option<&Group>,
        mut buckets: Vec<GroupBucket>,
        version: Version,
    ) -> Result<(), Fault> {
        buckets.extend(change.buckets.iter().map(|bucket| self.bucket(bucket.clone())));
        let group = Group {
            number: change.group,
            kind: change.kind,
            buckets,
            selection: change.selection.clone(),
            added: before.map_or(self.now, |before| before.added),
            counters: before.map_or_else(
                || Arc::new(Counters::new(self.now)),
                |before| Arc::clone(&before.counters),
            ),
        };
        self.put_group(group, version)
    }

    fn set_buckets(
        &mut self,
        before: &Group,
        buckets: Vec<GroupBucket>,
        version: Version,
    ) -> Result<(), Fault> {
        self.put_group(Group { buckets, ..before.clone() }, version)
    }

    fn put_group(&mut self, group: Group, version: Version) -> Result<(), Fault> {
        self.check_group(&group, version)?;
        let group = Arc::new(group);
        self.changes.push(Change::Group(group.number));
        self.effects.push(Effect::Group(group.number, Some(Arc::clone(&group))));
        self.tables.set_group(group);
        Ok(())
    }

    fn check_group(&self, group: &Group, version: Version) -> Result<(), Fault> {
        if group.kind == GroupType::Indirect && group.buckets.len() != 1 {
            return Err(Fault::InvalidGroup);
        }
        let before = self.tables.group(group.number).map_or(0, |before| before.buckets.len());
        let all = self.tables.buckets() - before + group.buckets.len();
        if group.buckets.len() > BUCKETS || all > self.options.buckets as usize {
            return Err(Fault::OutOfBuckets);
        }
        let mut ids = BTreeSet::new();
        let has_ids = matches!(version, Version::V10 | Version::V15);
        if has_ids && !buckets_of(group).all(|bucket| ids.insert(bucket.id)) {
            return Err(Fault::BucketExists);
        }
        let next = sent_to(buckets_of(group));
        if self.leads_to(&next, group.number) {
            return Err(Fault::GroupLoop);
        }
        // As in Open vSwitch, groups that buckets send to may come later; until then the packet
        // ends there.
        for bucket in buckets_of(group) {
            check_meters(self.tables, &bucket.actions)?;
        }
        // A group that watches itself, directly or by others, would be alive because it is.
        let watched = buckets_of(group).filter_map(|bucket| bucket.watch_group).collect();
        if self.watches(&watched, group.number) { Err(Fault::BadWatch) } else { Ok(()) }
    }

    /// Returns true if packets for these groups come to one of this number.
    fn leads_to(&self, first: &BTreeSet<u32>, number: u32) -> bool {
        self.reaches(first, number, &|group| sent_to(buckets_of(group)))
    }

    fn watches(&self, first: &BTreeSet<u32>, number: u32) -> bool {
        self.reaches(first, number, &|group| {
            buckets_of(group).filter_map(|bucket| bucket.watch_group).collect()
        })
    }

    fn reaches(
        &self,
        first: &BTreeSet<u32>,
        number: u32,
        next: &dyn Fn(&Group) -> BTreeSet<u32>,
    ) -> bool {
        let (mut seen, mut left) = (first.clone(), Vec::from_iter(first.iter().copied()));
        while let Some(at) = left.pop() {
            if at == number {
                return true;
            }
            let Some(group) = self.tables.group(at) else { continue };
            left.extend(next(group).into_iter().filter(|number| seen.insert(*number)));
        }
        false
    }

    fn delete_group(&mut self, number: u32) {
        let users: Vec<_> = self.tables.flows_of_group(number).map(Arc::clone).collect();
        users.iter().for_each(|flow| self.remove(flow, Some(FlowRemovedReason::GroupDelete)));
        self.changes.push(Change::Group(number));
        self.effects.push(Effect::Group(number, None));
        self.tables.remove_group(number);
    }

    /// Changes a meter, or deletes all. A fault leaves all as it was.
    pub(super) fn meter_mod(&mut self, change: &MeterMod) -> Result<(), Fault> {
        let before = self.tables.meter(change.meter).map(Arc::clone);
        match (change.command, before) {
            (MeterCommand::Delete, _) if change.meter == ALL_METERS => {
                let all: Vec<u32> = self.tables.meters().map(|meter| meter.number).collect();
                all.into_iter().for_each(|number| self.delete_meter(number));
                Ok(())
            }
            (MeterCommand::Delete, None) => Ok(()),
            (MeterCommand::Delete, Some(meter)) => {
                self.delete_meter(meter.number);
                Ok(())
            }
            (MeterCommand::Add, Some(_)) => Err(Fault::MeterExists),
            (MeterCommand::Modify, None) => Err(Fault::UnknownMeter),
            (MeterCommand::Add, None) => {
                if self.tables.meters().len() >= self.options.meters as usize {
                    return Err(Fault::OutOfMeters);
                }
                self.put_meter(change, None)
            }
            (MeterCommand::Modify, Some(before)) => self.put_meter(change, Some(&before)),
        }
    }

    fn put_meter(&mut self, change: &MeterMod, before: Option<&Meter>) -> Result<(), Fault> {
        if change.bands.len() > BANDS {
            return Err(Fault::OutOfBands);
        }
        if change.bands.iter().any(|band| band.rate == 0) {
            return Err(Fault::BadRate);
        }
        let rates = MeterFlags::KBPS.0 | MeterFlags::PACKETS.0;
        let flags = if change.flags.0 & rates == 0 {
            change.flags.with(MeterFlags::KBPS)
        } else {
            change.flags
        };
        let mut meter = Meter::new(change.meter, flags, change.bands.clone(), self.now);
        if let Some(before) = before {
            meter.added = before.added;
            meter.counters = Arc::clone(&before.counters);
        }
        let meter = Arc::new(meter);
        self.changes.push(Change::Meter(change.meter));
        self.effects.push(Effect::Meter(change.meter, Some(Arc::clone(&meter))));
        self.tables.set_meter(meter);
        Ok(())
    }

    fn delete_meter(&mut self, number: u32) {
        let users: Vec<_> = self.tables.flows_of_meter(number).map(Arc::clone).collect();
        users.iter().for_each(|flow| self.remove(flow, Some(FlowRemovedReason::MeterDelete)));
        self.changes.push(Change::Meter(number));
        self.effects.push(Effect::Meter(number, None));
        self.tables.remove_meter(number);
    }
}

fn position(buckets: &[GroupBucket], id: u32) -> Option<usize> {
    buckets.iter().position(|bucket| bucket.bucket.id == id)
}

//! Groups.

use std::sync::Arc;

use super::{ActionOrigin, Frame, List, Translator, say, set, trimmed};
use crate::key::Mask;
use crate::pipeline::{Select, Step};
use crate::table::{Group, GroupBucket};
use crate::wire::{GroupType, PacketInReason};

impl<'a> Translator<'a> {
    pub(super) fn group(&mut self, number: u32, place: ActionOrigin<'a>) {
        self.decision.depends.groups.insert(number);
        let Some(group) = self.snapshot.group(number) else {
            return say!(self, "group {number} is not there: nothing is done");
        };
        let depth = place.depth + 1;
        if !self.count_depth(depth) {
            return;
        }
        self.commit();
        self.count(&group.counters);
        let place = ActionOrigin { depth, reason: PacketInReason::Group, ..place };
        match group.kind {
            GroupType::All | GroupType::Indirect => {
                for bucket in &group.buckets {
                    self.bucket(bucket, place);
                }
            }
            GroupType::FastFailover => {
                let alive = group.buckets.iter().find(|bucket| self.is_alive(bucket));
                match alive {
                    Some(bucket) => self.bucket(bucket, place),
                    None => say!(self, "(no bucket is alive)"),
                }
            }
            GroupType::Select => self.select(group, place),
        }
    }

    fn is_alive(&mut self, bucket: &GroupBucket) -> bool {
        self.snapshot.is_alive(&bucket.bucket, &mut self.watched)
    }

    fn bucket(&mut self, bucket: &'a GroupBucket, place: ActionOrigin<'a>) {
        let steps = self.steps_of(bucket, place, false);
        self.count(&bucket.counters);
        self.add_copy(steps);
    }

    fn steps_of(
        &mut self,
        bucket: &'a GroupBucket,
        place: ActionOrigin<'a>,
        one_of: bool,
    ) -> Vec<Step> {
        say!(self, "bucket {}:", bucket.bucket.id);
        let actions: Vec<_> = bucket.bucket.actions.iter().collect();
        let list = List::Ordered(set::in_order(&actions));
        let steps = self.scope(one_of, Vec::new(), |translator| {
            translator.frames.push(Frame::Actions { list, at: 0, place });
        });
        // As for Open vSwitch, it is the bucket's alone.
        if std::mem::take(&mut self.unsupported) {
            self.failed = false;
        }
        steps
    }

    fn select(&mut self, group: &'a Arc<Group>, place: ActionOrigin<'a>) {
        let mut alive = Vec::with_capacity(group.buckets.len());
        for bucket in &group.buckets {
            if bucket.bucket.weight > 0 && self.is_alive(bucket) {
                alive.push(bucket);
            }
        }
        match alive[..] {
            [] => say!(self, "(no bucket is alive)"),
            [bucket] => self.bucket(bucket, place),
            _ => {
                let ways = alive.into_iter().map(|bucket| {
                    let steps = trimmed(self.steps_of(bucket, place, true));
                    self.other_steps += steps.len();
                    (bucket.bucket.weight.into(), Arc::clone(&bucket.counters), steps)
                });
                let ways = ways.collect();
                let (fields, basis) = fields(group);
                self.steps.push(Step::Select(Box::new(Select { fields, basis, ways })));
            }
        }
    }
}

/// Returns the fields a bucket is selected by, and the basis of their hash.
fn fields(group: &Group) -> (Mask, u32) {
    let mut fields = Mask::default();
    let Some(selection) = &group.selection else { return (fields, 0) };
    for entry in selection.fields.entries() {
        fields.add(entry.field(), entry.value());
    }
    (fields, selection.parameter as u32)
}

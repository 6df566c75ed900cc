//! Table features (OpenFlow 1.3.5, section 7.3.5.5), the same for all tables.

use super::answer::config_of;
use crate::table::{Snapshot, Table};
use crate::wire::multipart::{FeaturesCommand, KindId, TableFeatures, TableProperty};
use crate::wire::{Field, FieldId, Version};

/// The types of actions of the specification, but for those of OpenFlow 1.5.
const ACTIONS: [u16; 16] = [0, 11, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27];
/// Actions since OpenFlow 1.5: to copy a field, and a meter.
const ACTIONS_15: [u16; 2] = [28, 29];

/// A bit for each type of action.
pub(super) fn action_bits() -> u32 {
    ACTIONS.iter().fold(0, |bits, kind| bits | 1 << kind)
}

/// The name of a table.
pub(super) fn name(table: &Table, number: u8) -> String {
    table.name.as_ref().map_or_else(|| format!("table{number}"), |name| name.to_string())
}

fn instructions(last: bool) -> Vec<KindId> {
    let kinds = 1..=6;
    kinds.filter(|kind| !last || *kind != 1).map(KindId::standard).collect()
}

fn actions(version: Version) -> Vec<KindId> {
    let newer = ACTIONS_15.iter().filter(|_| version == Version::V15);
    let all = ACTIONS.iter().chain(newer);
    all.map(|&kind| KindId::standard(kind)).collect()
}

/// Returns false for fields whose bits another field has, too.
fn is_said(field: Field) -> bool {
    !matches!(field, Field::InPort16 | Field::IpTos | Field::VlanTci)
}

fn fields(version: Version, masks: bool, has: impl Fn(Field) -> bool) -> Vec<FieldId> {
    let all = Field::ALL.iter().copied().filter(|field| is_said(*field) && has(*field));
    all.map(|field| FieldId::new(field, masks && field.is_maskable(), version)).collect()
}

/// Returns the features of a table.
pub(super) fn of_table(
    tables: &Snapshot,
    number: u8,
    limit: u32,
    version: Version,
) -> Option<TableFeatures> {
    let table = tables.table(number)?;
    let last = number + 1 == tables.tables();
    let mut properties = vec![TableProperty::Match(fields(version, true, |_| true))];
    properties.push(TableProperty::Wildcards(fields(version, false, |_| true)));
    for miss in [false, true] {
        let next = number + 1..tables.tables();
        let set = || fields(version, false, Field::is_settable);
        properties.extend([
            TableProperty::Instructions { miss, kinds: instructions(last) },
            TableProperty::NextTables { miss, tables: next.collect() },
            TableProperty::WriteActions { miss, kinds: actions(version) },
            TableProperty::ApplyActions { miss, kinds: actions(version) },
            TableProperty::WriteSetField { miss, fields: set() },
            TableProperty::ApplySetField { miss, fields: set() },
        ]);
    }
    properties.sort_by_key(order);
    Some(TableFeatures {
        table: number,
        command: FeaturesCommand::Replace,
        // Tables are ingress tables (OpenFlow 1.5).
        features: u32::from(version == Version::V15),
        name: name(table, number),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: config_of(table.config, version),
        max_entries: limit,
        properties,
    })
}

/// The number of a property.
fn order(property: &TableProperty) -> u16 {
    let (kind, miss) = match property {
        TableProperty::Instructions { miss, .. } => (0, *miss),
        TableProperty::NextTables { miss, .. } => (2, *miss),
        TableProperty::WriteActions { miss, .. } => (4, *miss),
        TableProperty::ApplyActions { miss, .. } => (6, *miss),
        TableProperty::Match(_) => (8, false),
        TableProperty::Wildcards(_) => (10, false),
        TableProperty::WriteSetField { miss, .. } => (12, *miss),
        TableProperty::ApplySetField { miss, .. } => (14, *miss),
        TableProperty::Other(_) => (u16::MAX - 1, false),
    };
    kind + u16::from(miss)
}

//! A setting of zones: a value of the zone's own, or the value of all zones that have none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

#[derive(Debug)]
struct Values<T> {
    default: Option<T>,
    zones: BTreeMap<u16, T>,
}

/// The values of all zones.
#[derive(Debug)]
pub(super) struct PerZone<T> {
    /// Whether there is a value: without one no connection takes the lock.
    any: AtomicBool,
    values: RwLock<Values<T>>,
}

impl<T> Default for PerZone<T> {
    fn default() -> PerZone<T> {
        let values = Values { default: None, zones: BTreeMap::new() };
        PerZone { any: AtomicBool::new(false), values: RwLock::new(values) }
    }
}

impl<T: Clone> PerZone<T> {
    /// Returns the value for a zone, if there is one.
    pub(super) fn get(&self, zone: u16) -> Option<T> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.zones.get(&zone).or(values.default.as_ref()).cloned()
    }

    /// Sets the value of a zone, or with `None` of zones without one of their own; or removes it.
    pub(super) fn set(&self, zone: Option<u16>, value: Option<T>) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        match (zone, value) {
            (None, value) => values.default = value,
            (Some(zone), Some(value)) => drop(values.zones.insert(zone, value)),
            (Some(zone), None) => drop(values.zones.remove(&zone)),
        }
        let any = values.default.is_some() || !values.zones.is_empty();
        self.any.store(any, Relaxed);
    }

    /// Returns the value of zones without one of their own, and those of the other zones.
    pub(super) fn all(&self) -> (Option<T>, Vec<(u16, T)>) {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let zones = values.zones.iter().map(|(&zone, value)| (zone, value.clone()));
        (values.default.clone(), zones.collect())
    }
}

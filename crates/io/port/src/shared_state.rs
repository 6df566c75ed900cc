//! State that the ports of a process share, such as the ends of rings that wait for another end.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

/// Values that the ports of one context share: one of each type, made when it is first asked for. Clones are the same.
///
/// A driver has a type of its own for its state, and the context that ports are opened with knows no driver.
///
/// ```
/// # use linerate_port::{Leases, SharedState};
/// let shared = SharedState::default();
/// assert!(!shared.clone().get::<Leases>().is_open("packet:eth0"));
/// ```
#[derive(Clone, Default)]
pub struct SharedState {
    values: Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>,
}

impl SharedState {
    /// Returns the value of a type.
    pub fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut values = self.values.lock().expect("no panic while held");
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default());
        Arc::clone(value).downcast().expect("a value of its type")
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedState").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use super::*;

    #[test]
    fn clones_have_the_same_value_of_each_type() {
        let shared = SharedState::default();
        shared.get::<AtomicU32>().store(1, Ordering::Relaxed);
        let clone = shared.clone();
        assert_eq!(clone.get::<AtomicU32>().load(Ordering::Relaxed), 1);
        assert_eq!(clone.get::<AtomicU64>().load(Ordering::Relaxed), 0);
        assert_eq!(SharedState::default().get::<AtomicU32>().load(Ordering::Relaxed), 0);
    }
}

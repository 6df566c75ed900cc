//! Debug builds watch every buffer: given back twice, or used after it was
//! given back, is a panic at the place where it happens. Safe code cannot do
//! either; a driver's unsafe code can.

use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Tracker {
    /// Whether each buffer is held by a slot.
    held: Box<[AtomicBool]>,
}

impl Tracker {
    pub(crate) fn new(count: usize) -> Tracker {
        Tracker { held: (0..count).map(|_| AtomicBool::new(false)).collect() }
    }

    pub(crate) fn taken(&self, index: u32) {
        let was = self.entry(index).swap(true, Ordering::AcqRel);
        assert!(!was, "buffer {index} was handed out twice");
    }

    pub(crate) fn given(&self, index: u32) {
        let was = self.entry(index).swap(false, Ordering::AcqRel);
        assert!(was, "buffer {index} was given back twice");
    }

    pub(crate) fn used(&self, index: u32) {
        assert!(self.entry(index).load(Ordering::Acquire), "buffer {index} used after given back");
    }

    fn entry(&self, index: u32) -> &AtomicBool {
        self.held.get(index as usize).unwrap_or_else(|| panic!("buffer {index} does not exist"))
    }
}

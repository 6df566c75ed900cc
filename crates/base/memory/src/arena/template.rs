//! State of an arena's template: whether all buffers hold the same bytes.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::Arena;

/// The template of an arena.
#[derive(Debug, Default)]
pub(super) struct Template {
    state: Mutex<TemplateState>,
    /// Set while fresh packets begin with the template.
    holds: AtomicBool,
}

#[derive(Debug, Default)]
enum TemplateState {
    /// None was asked for.
    #[default]
    Unset,
    /// The bytes in every buffer behind the headroom.
    Written(Box<[u8]>),
    /// Buffers may hold anything, for good.
    Forgotten,
}

impl Template {
    /// For an arena whose buffers other processes write.
    #[cfg(not(any(loom, miri)))]
    pub(super) fn forgotten() -> Template {
        Template { state: Mutex::new(TemplateState::Forgotten), ..Template::default() }
    }
}

impl Arena {
    /// Returns true if fresh packets begin with `bytes` from now on. The first time, `write` writes them
    /// into all buffers, and returns false if it could not.
    pub(crate) fn set_template_by(&self, bytes: &[u8], write: impl FnOnce() -> bool) -> bool {
        let template = &self.inner.template;
        let mut state = template.state.lock().expect("no panic while held");
        if matches!(*state, TemplateState::Unset) {
            *state = if self.inner.unpopulated() == 0 && write() {
                template.holds.store(true, Ordering::Relaxed);
                TemplateState::Written(bytes.into())
            } else {
                TemplateState::Forgotten
            };
        }
        matches!(&*state, TemplateState::Written(written) if written.starts_with(bytes))
    }

    /// Returns true while fresh packets begin with the template. Asked after a packet was taken it
    /// is right about that packet: writes into its buffer happened before.
    #[inline]
    pub fn has_template(&self) -> bool {
        // Relaxed: a worker that forgets it passes its buffers on by a ring, which orders the two.
        self.inner.template.holds.load(Ordering::Relaxed)
    }

    /// Says that something else will write into buffers: no template holds any more, and none can
    /// be set.
    pub fn forget_template(&self) {
        let template = &self.inner.template;
        *template.state.lock().expect("no panic while held") = TemplateState::Forgotten;
        template.holds.store(false, Ordering::Relaxed);
    }
}

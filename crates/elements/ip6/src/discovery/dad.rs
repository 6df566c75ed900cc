//! Duplicate address detection (RFC 4862 section 5.4): the state of this host's address, shared by
//! all replicas of an element.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// State of duplicate address detection for this host's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DadState {
    /// Others may have it: it is not used yet.
    Tentative,
    /// It is used.
    Valid,
    /// Another host has it: it is not used.
    Duplicate,
}

impl DadState {
    const ALL: [DadState; 3] = [DadState::Tentative, DadState::Valid, DadState::Duplicate];

    pub(super) fn name(self) -> &'static str {
        match self {
            DadState::Tentative => "tentative",
            DadState::Valid => "valid",
            DadState::Duplicate => "duplicate",
        }
    }
}

/// The address's state, and whether a conflict was reported.
#[derive(Debug)]
pub(super) struct Dad {
    state: AtomicU8,
    told: AtomicBool,
}

impl Dad {
    pub(super) fn new(tentative: bool) -> Dad {
        let state = if tentative { DadState::Tentative } else { DadState::Valid };
        Dad { state: AtomicU8::new(state as u8), told: AtomicBool::new(false) }
    }

    pub(super) fn state(&self) -> DadState {
        let at = usize::from(self.state.load(Ordering::Acquire));
        DadState::ALL.get(at).copied().unwrap_or(DadState::Valid)
    }

    pub(super) fn set(&self, state: DadState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Returns true the first time, when a duplicate is to be reported.
    pub(super) fn tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

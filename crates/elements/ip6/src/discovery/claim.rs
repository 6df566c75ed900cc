//! Duplicate address detection (RFC 4862 section 5.4): the state of this host's address, shared by
//! all replicas of an element.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// State of duplicate address detection for this host's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Others may have it: it is not used yet.
    Tentative,
    /// It is used.
    Valid,
    /// Another host has it: it is not used.
    Duplicate,
}

impl State {
    const ALL: [State; 3] = [State::Tentative, State::Valid, State::Duplicate];

    pub(super) fn name(self) -> &'static str {
        match self {
            State::Tentative => "tentative",
            State::Valid => "valid",
            State::Duplicate => "duplicate",
        }
    }
}

/// The address's state, and whether a conflict was reported.
#[derive(Debug)]
pub(super) struct Claim {
    state: AtomicU8,
    told: AtomicBool,
}

impl Claim {
    pub(super) fn new(tentative: bool) -> Claim {
        let state = if tentative { State::Tentative } else { State::Valid };
        Claim { state: AtomicU8::new(state as u8), told: AtomicBool::new(false) }
    }

    pub(super) fn state(&self) -> State {
        let at = usize::from(self.state.load(Ordering::Acquire));
        State::ALL.get(at).copied().unwrap_or(State::Valid)
    }

    pub(super) fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Returns true the first time, when a duplicate is to be reported.
    pub(super) fn tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}

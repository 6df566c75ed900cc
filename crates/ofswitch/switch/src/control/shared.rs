//! Data shared by all threads of an agent.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};

use super::admission::Admission;
use super::continuation_store::ContinuationStore;
use super::monitors::Monitors;
use super::outbox::Outbox;
use super::peers::{All, Peer, Peers};
use super::session::{HelloCheck, Session};
use super::stop_flag::StopFlag;
use super::turns::Turns;
use super::waker::Waker;
use super::{AgentOptions, Limits, Target};
use crate::switch::Switch;
use crate::wire::{ConfigFlags, Fault, PacketInReason, Version};

/// A target and its history.
#[derive(Debug)]
pub(super) struct TargetState {
    /// Its address; the port of a listener is the one it has.
    pub(super) target: Target,
    pub(super) history: Mutex<History>,
    /// Admission of connections, for a listener.
    pub(super) admission: Arc<Admission>,
}

/// Events at a target.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Connections so far.
    pub(super) connections: u64,
    /// Why the last one ended, or was not made.
    pub(super) last_error: Option<String>,
    /// Messages that found no room, of connections that have ended.
    pub(super) dropped: u64,
    /// Connections refused because of their peer's user, or for want of a place.
    pub(super) rejected: u64,
}

impl TargetState {
    pub(super) fn new(target: Target, limits: Limits) -> TargetState {
        TargetState { target, history: Mutex::default(), admission: Admission::new(limits) }
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Data shared by all threads.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) switch: Arc<Switch>,
    pub(super) options: AgentOptions,
    pub(super) places: Vec<TargetState>,
    pub(super) peers: Peers,
    pub(super) stop: StopFlag,
    pub(super) continuations: ContinuationStore,
    pub(super) monitors: Monitors,
    /// Whether a controller has set fragments to have Nicira's field: the switch has it anyway.
    matches_fragments: AtomicBool,
    /// Bytes of messages in all bundles.
    pub(super) bundled: AtomicUsize,
    /// The order of changes of the switch.
    pub(super) turns: Turns,
    /// Packets of controllers no worker took in time.
    pub(super) lost_packets: AtomicU64,
    /// Packets for controllers over their rate.
    pub(super) unsent_packets: AtomicU64,
    /// Events lost for lack of room on the way to the thread that informs controllers.
    pub(super) lost_events: AtomicU64,
    /// Why the state could not be written the last time.
    state_problem: Mutex<Option<String>>,
    /// Whether packets without a match go to controllers.
    misses: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        switch: Arc<Switch>,
        options: AgentOptions,
        places: Vec<TargetState>,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            switch,
            options,
            places,
            peers: Peers::default(),
            stop: StopFlag::default(),
            continuations: ContinuationStore::new(),
            monitors: Monitors::default(),
            matches_fragments: AtomicBool::new(false),
            bundled: AtomicUsize::new(0),
            turns: Turns::default(),
            lost_packets: AtomicU64::new(0),
            unsent_packets: AtomicU64::new(0),
            lost_events: AtomicU64::new(0),
            state_problem: Mutex::default(),
            misses: AtomicBool::new(false),
        })
    }

    /// The time of the steady clock, in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        let monotonic = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        monotonic.wrapping_add(self.options.clock_offset)
    }

    /// A controller is connected, of a target, from an address.
    pub(super) fn arrived(
        self: &Arc<Shared>,
        place: usize,
        address: String,
        dialled: bool,
        waker: Arc<Waker>,
        check: HelloCheck,
    ) -> Session {
        let outbox = Arc::new(Outbox::new(waker, self.options.send_limit));
        let mut all = self.peers.lock();
        let number = all.next();
        all.peers.push(Peer::new(number, Arc::clone(&outbox), place, address, dialled));
        drop(all);
        Session::new(Arc::clone(self), number, outbox, check)
    }

    /// Notes that a peer has sent its hello.
    pub(super) fn established(&self, number: u64, version: Version) {
        let mut all = self.peers.lock();
        let Some(peer) = all.peers.iter_mut().find(|peer| peer.number == number) else { return };
        peer.version = Some(version);
        if let Some(place) = self.places.get(peer.target) {
            place.history().connections += 1;
        }
        set_misses(self, &all);
    }

    /// Counts a connection without a place.
    pub(super) fn count_rejected(&self, number: u64) {
        let target = self.peers.with(number, |peer| peer.target);
        if let Some(place) = target.and_then(|target| self.places.get(target)) {
            place.history().rejected += 1;
        }
    }

    /// Removes a peer whose connection has ended.
    pub(super) fn left(&self, number: u64) {
        self.monitors.forget(number);
        let mut all = self.peers.lock();
        let Some(nth) = all.peers.iter().position(|peer| peer.number == number) else { return };
        let peer = all.peers.remove(nth);
        if let Some(place) = self.places.get(peer.target) {
            place.history().dropped += peer.outbox.dropped();
        }
        set_misses(self, &all);
    }

    /// Returns the treatment of fragments, as the two bits of a configuration.
    pub(super) fn fragments(&self) -> u16 {
        if self.switch.snapshot().drops_fragments() {
            ConfigFlags::DROP_FRAGMENTS.0
        } else if self.matches_fragments.load(Ordering::Relaxed) {
            ConfigFlags::DROP_FRAGMENTS.0 | ConfigFlags::REASSEMBLE.0
        } else {
            0
        }
    }

    /// Sets the treatment of fragments.
    pub(super) fn set_fragments(&self, fragments: u16) -> Result<(), Fault> {
        self.switch.set_fragments(ConfigFlags(fragments))?;
        self.matches_fragments.store(fragments == 3, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn state_problem(&self) -> MutexGuard<'_, Option<String>> {
        self.state_problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_lost_packet(&self) {
        self.lost_packets.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets whether packets without a match go to controllers, as a controller of OpenFlow 1.0 expects
/// without any flow. The lock is held, so that the last call is right.
pub(super) fn set_misses(shared: &Shared, all: &All) {
    let wants = |peer: &Peer| peer.hears_packet(PacketInReason::NoMatch) == Some(Version::V10);
    let wanted = all.peers.iter().any(wants);
    if shared.misses.swap(wanted, Ordering::Relaxed) != wanted {
        shared.switch.set_misses_to_controllers(wanted);
    }
}

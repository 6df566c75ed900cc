//! Controllers: their roles, and their choice of asynchronous messages.
//!
//! One lock has all of them, since a role is about all: where one becomes the master, the one
//! before is a slave at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::outbox::Outbox;
use crate::wire::{
    AsyncConfig, AsyncKind, Fault, FlowRemovedReason, Message, PacketInFormat, PacketInReason,
    Role, RoleReason, RoleStatus, Version,
};

/// A controller that is connected.
#[derive(Debug)]
pub(super) struct Peer {
    /// Number of the connection.
    pub(super) number: u64,
    pub(super) outbox: Arc<Outbox>,
    /// Index of its target.
    pub(super) target: usize,
    /// Its address.
    pub(super) address: String,
    /// Set if the switch connected to it. A controller on a passive connection gets no unsolicited
    /// message before it has set a length for packets, as with Open vSwitch: it may be a tool that
    /// asks one thing.
    pub(super) dialled: bool,
    /// The version, once it is agreed on.
    pub(super) version: Option<Version>,
    pub(super) role: Role,
    pub(super) format: PacketInFormat,
    /// Its controller ID, for actions that name a controller.
    pub(super) id: u16,
    pub(super) miss_send_len: u16,
    /// Its choice of asynchronous messages.
    pub(super) chosen: AsyncConfig,
}

/// Bytes of a packet sent to a controller that has set no length.
const MISS_SEND_LEN: u16 = 128;

/// Returns the asynchronous messages of a controller that has chosen none: all for masters and
/// equals but packets whose time to live has ended, and changes of ports for slaves. Messages about
/// roles and tables begin with OpenFlow 1.4.
fn default_reasons(version: Version, kind: AsyncKind, slave: bool) -> u32 {
    let newer = version >= Version::V14;
    match kind {
        AsyncKind::PacketIn if !slave => !(1 << PacketInReason::InvalidTtl.number()),
        AsyncKind::FlowRemoved if !slave => u32::MAX,
        AsyncKind::PortStatus => u32::MAX,
        AsyncKind::RoleStatus if newer => u32::MAX,
        AsyncKind::TableStatus if newer && !slave => u32::MAX,
        _ => 0,
    }
}

/// The bits of reasons a version has.
fn reasons_of(version: Version, kind: AsyncKind) -> u32 {
    match (kind, version >= Version::V14) {
        (AsyncKind::PacketIn, true) => 0x3f,
        (AsyncKind::PacketIn, false) | (AsyncKind::PortStatus, _) => 0x7,
        (AsyncKind::FlowRemoved, true) => 0x3f,
        (AsyncKind::FlowRemoved, false) if version == Version::V10 => 0x7,
        (AsyncKind::FlowRemoved, false) => 0xf,
        (AsyncKind::RoleStatus, _) => 0x7,
        (AsyncKind::TableStatus, _) => 0x18,
        (AsyncKind::RequestForward, _) => 0x3,
        _ => 0,
    }
}

impl Peer {
    pub(super) fn new(
        number: u64,
        outbox: Arc<Outbox>,
        target: usize,
        address: String,
        dialled: bool,
    ) -> Peer {
        Peer {
            number,
            outbox,
            target,
            address,
            dialled,
            version: None,
            role: Role::Equal,
            format: PacketInFormat::Standard,
            id: 0,
            miss_send_len: if dialled { MISS_SEND_LEN } else { 0 },
            chosen: AsyncConfig::default(),
        }
    }

    /// The reasons for which it gets messages of a kind, in a role.
    pub(super) fn reasons(&self, version: Version, kind: AsyncKind, slave: bool) -> u32 {
        let chosen = self.chosen.get(kind, slave);
        chosen.unwrap_or_else(|| default_reasons(version, kind, slave))
    }

    /// The version, if it gets messages of this kind for this reason.
    pub(super) fn hears(&self, kind: AsyncKind, reason: u8) -> Option<Version> {
        let version = self.version?;
        if !self.dialled && self.miss_send_len == 0 {
            return None;
        }
        let reasons = self.reasons(version, kind, self.role == Role::Slave);
        (reasons >> reason & 1 != 0).then_some(version)
    }

    /// As [`Peer::hears`], for packets. Versions that have fewer reasons send the newer ones as an
    /// action.
    pub(super) fn hears_packet(&self, reason: PacketInReason) -> Option<Version> {
        let old = self.version? < Version::V14 && reason > PacketInReason::InvalidTtl;
        let reason = if old { PacketInReason::Action } else { reason };
        self.hears(AsyncKind::PacketIn, reason.number())
    }

    /// As [`Peer::hears`], for ends of flows. Versions that have fewer reasons send the newer ones
    /// as a deletion.
    pub(super) fn hears_removed(&self, reason: FlowRemovedReason) -> Option<Version> {
        let newest = match self.version? {
            Version::V10 => FlowRemovedReason::Delete,
            Version::V13 => FlowRemovedReason::GroupDelete,
            Version::V14 | Version::V15 => FlowRemovedReason::Eviction,
        };
        let reason = if reason > newest { FlowRemovedReason::Delete } else { reason };
        self.hears(AsyncKind::FlowRemoved, reason.number())
    }

    /// Returns its choice, with the defaults for the messages it has not chosen.
    pub(super) fn asynchronous(&self, version: Version) -> AsyncConfig {
        let mut kinds = vec![AsyncKind::PacketIn, AsyncKind::PortStatus, AsyncKind::FlowRemoved];
        if version >= Version::V14 {
            kinds.extend([
                AsyncKind::RoleStatus,
                AsyncKind::TableStatus,
                AsyncKind::RequestForward,
            ]);
        }
        let mut config = AsyncConfig::default();
        for kind in kinds {
            for slave in [false, true] {
                let reasons = self.reasons(version, kind, slave) & reasons_of(version, kind);
                config = config.with(kind, slave, reasons);
            }
        }
        config
    }

    /// Sets the messages that `config` has; others stay as they are.
    pub(super) fn choose(&mut self, config: &AsyncConfig) {
        for number in 0..8 {
            let Some(kind) = AsyncKind::from_number(number) else { continue };
            for slave in [false, true] {
                if let Some(reasons) = config.get(kind, slave) {
                    self.chosen = self.chosen.with(kind, slave, reasons);
                }
            }
        }
    }

    /// Sends an unsolicited message.
    pub(super) fn send_message(&self, message: &Message, version: Version) {
        if let Ok(bytes) = message.encode(version, 0) {
            self.outbox.offer(bytes, false);
        }
    }
}

/// All controllers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    all: Mutex<All>,
}

/// Data behind the lock.
#[derive(Debug, Default)]
pub(super) struct All {
    pub(super) peers: Vec<Peer>,
    /// The newest generation of masters.
    generation: Option<u64>,
    last: u64,
}

impl Peers {
    pub(super) fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with a connected controller.
    pub(super) fn with<T>(&self, number: u64, act: impl FnOnce(&mut Peer) -> T) -> Option<T> {
        self.lock().peers.iter_mut().find(|peer| peer.number == number).map(act)
    }
}

impl All {
    /// A number no connection has had.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The newest generation of masters; all ones before there was one.
    pub(super) fn generation(&self) -> u64 {
        self.generation.unwrap_or(u64::MAX)
    }

    /// Gives a controller a role, and returns the one it has now. `generation` is that of its
    /// request where its version has one.
    pub(super) fn set_role(
        &mut self,
        number: u64,
        role: Role,
        generation: Option<u64>,
    ) -> Result<Role, Fault> {
        if let (Some(generation), Role::Master | Role::Slave) = (generation, role) {
            // Generations wrap around: an older one is less than half the range behind.
            let stale =
                self.generation.is_some_and(|newest| (generation.wrapping_sub(newest) as i64) < 0);
            if stale {
                return Err(Fault::Stale);
            }
            self.generation = Some(generation);
        }
        if role == Role::Master {
            let generation = self.generation();
            let others = self.peers.iter_mut().filter(|peer| peer.number != number);
            for other in others.filter(|peer| peer.role == Role::Master) {
                other.role = Role::Slave;
                let reason = RoleReason::MasterRequest;
                // Messages for its new role as a slave.
                if let Some(version) = other.hears(AsyncKind::RoleStatus, reason.number()) {
                    let status = RoleStatus { role: Role::Slave, reason, generation };
                    other.send_message(&Message::RoleStatus(status), version);
                }
            }
        }
        let peer = self.peers.iter_mut().find(|peer| peer.number == number);
        let peer = peer.ok_or(Fault::RoleUnsupported)?;
        if role != Role::NoChange {
            peer.role = role;
        }
        Ok(peer.role)
    }
}

#[cfg(test)]
mod tests {
    use super::super::waker::Waker;
    use super::*;

    fn all(count: u64, version: Version) -> All {
        let mut all = All::default();
        for _ in 0..count {
            let outbox = Outbox::new(Arc::new(Waker::new().expect("an eventfd")), 1 << 20);
            let number = all.next();
            let mut peer = Peer::new(number, Arc::new(outbox), 0, String::new(), true);
            peer.version = Some(version);
            all.peers.push(peer);
        }
        all
    }

    fn told(all: &All, nth: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        all.peers[nth].outbox.take(&mut bytes, usize::MAX);
        bytes
    }

    #[test]
    fn a_new_master_makes_the_old_one_a_slave() {
        let mut all = all(2, Version::V14);
        assert_eq!(all.generation(), u64::MAX);
        assert_eq!(all.set_role(1, Role::Master, Some(5)), Ok(Role::Master));
        assert_eq!(all.set_role(2, Role::Master, Some(4)), Err(Fault::Stale));
        assert!(told(&all, 0).is_empty());
        assert_eq!(all.set_role(2, Role::Master, Some(6)), Ok(Role::Master));
        let (_, _, message) = Message::decode(&told(&all, 0)).expect("a status");
        let Message::RoleStatus(status) = message else { panic!("{message:?}") };
        assert_eq!((status.role, status.generation), (Role::Slave, 6));
        assert_eq!(all.peers[0].role, Role::Slave);
        // Equals need no generation, and a request for the role returns it.
        assert_eq!(all.set_role(1, Role::NoChange, Some(0)), Ok(Role::Slave));
        assert_eq!(all.set_role(1, Role::Equal, Some(0)), Ok(Role::Equal));
        assert_eq!(all.peers[1].role, Role::Master);
    }

    #[test]
    fn generations_go_round() {
        let mut all = all(1, Version::V13);
        assert_eq!(all.set_role(1, Role::Slave, Some(u64::MAX)), Ok(Role::Slave));
        assert_eq!(all.set_role(1, Role::Slave, Some(0)), Ok(Role::Slave));
        assert_eq!(all.set_role(1, Role::Slave, Some(u64::MAX)), Err(Fault::Stale));
        assert_eq!(all.set_role(1, Role::Master, None), Ok(Role::Master), "Nicira's has none");
    }

    #[test]
    fn events_go_out_by_role_and_choice() {
        let mut all = all(1, Version::V13);
        let peer = &mut all.peers[0];
        assert_eq!(peer.hears_packet(PacketInReason::Group), Some(Version::V13));
        assert_eq!(peer.hears_packet(PacketInReason::InvalidTtl), None);
        let config = AsyncConfig::default().with(AsyncKind::PacketIn, false, 0b101);
        peer.choose(&config);
        assert_eq!(peer.hears_packet(PacketInReason::Group), None, "an action, which is off");
        assert_eq!(peer.hears_packet(PacketInReason::InvalidTtl), Some(Version::V13));
        assert_eq!(peer.hears_removed(FlowRemovedReason::Eviction), Some(Version::V13));
        peer.role = Role::Slave;
        assert_eq!(peer.hears_removed(FlowRemovedReason::Eviction), None);
        assert_eq!(peer.hears(AsyncKind::PortStatus, 2), Some(Version::V13));
        let told = peer.asynchronous(Version::V13);
        assert_eq!(told.get(AsyncKind::PacketIn, false), Some(0b101));
        assert_eq!(told.get(AsyncKind::PacketIn, true), Some(0));
        assert_eq!(told.get(AsyncKind::PortStatus, true), Some(0b111));
        // A peer on a passive connection that has asked for nothing gets no messages.
        (peer.dialled, peer.miss_send_len) = (false, 0);
        assert_eq!(peer.hears(AsyncKind::PortStatus, 2), None);
    }
}

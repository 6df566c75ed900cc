//! Connections: which packets belong together, what is remembered of them, and translation of addresses.

use crate::key::Key;
use crate::wire::Ct;

/// Connections that are known. All workers share it.
#[derive(Debug, Default)]
pub struct Tracker {}

impl Tracker {
    /// Looks the connection of a packet up, and does what the action says: its fields of `key` are set, it
    /// is remembered where that is wanted, and addresses are translated in `packet` and in `key`.
    ///
    /// `key` is what was found in `packet`, as it is now.
    pub fn track(&self, _action: &Ct, _zone: u16, _key: &mut Key, _packet: &mut [u8], _now: u64) {}

    /// Forgets connections whose time is over. Called now and then, it does a part of the work each time.
    pub fn expire(&self, _now: u64) {}
}

/// Forgets what is known of the packet's connection.
pub fn clear(_key: &mut Key) {}

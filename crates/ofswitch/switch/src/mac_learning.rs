//! `NORMAL`: MAC learning and forwarding, as by a switch without a controller.
//!
//! All ports carry all VLANs. There is no spanning tree, no bonding and no snooping of multicast:
//! packets for many, and for addresses not seen yet, go to all ports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::counters::Counters;

/// Nanoseconds for which an address is remembered after its last packet.
const AGE: u64 = 300 * 1_000_000_000;
/// Addresses remembered per port.
const ROOM: usize = 65_536;
/// Parts with a lock each.
const PARTS: usize = 16;

/// MAC table: the port of each address, by VLAN. All workers share it.
///
/// A port has room for 65,536 addresses; further ones are not learnt, so packets for them are
/// flooded. An address is forgotten 300 seconds after its last packet.
#[derive(Debug)]
pub struct Hosts {
    parts: [Part; PARTS],
    /// Part to search next for expired addresses.
    turn: AtomicUsize,
    /// Number of addresses of each port.
    ports: Mutex<HashMap<u32, usize>>,
    room: usize,
}

/// Part of the table, by VLAN and address.
type Part = Mutex<HashMap<(u16, u64), Host>>;

#[derive(Debug)]
struct Host {
    port: u32,
    counters: Arc<Counters>,
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts::with_room(ROOM)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hosts {
    /// Creates a table with room for so many addresses of each port.
    #[must_use]
    pub fn with_room(room: usize) -> Hosts {
        Hosts {
            parts: Default::default(),
            turn: AtomicUsize::new(0),
            ports: Mutex::default(),
            room,
        }
    }

    fn part(&self, vlan: u16, address: u64) -> MutexGuard<'_, HashMap<(u16, u64), Host>> {
        let mixed = (address ^ u64::from(vlan) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lock(&self.parts[(mixed >> 60) as usize % PARTS])
    }

    /// Returns the port where an address was seen last, and the counters that hold the time of
    /// that.
    #[must_use]
    pub fn find(&self, vlan: u16, address: u64) -> Option<(u32, Arc<Counters>)> {
        let part = self.part(vlan, address);
        part.get(&(vlan, address)).map(|host| (host.port, Arc::clone(&host.counters)))
    }

    /// Returns true if an address was not seen at this port, or not last.
    #[must_use]
    pub fn is_new(&self, vlan: u16, address: u64, port: u32) -> bool {
        self.part(vlan, address).get(&(vlan, address)).is_none_or(|host| host.port != port)
    }

    /// Learns an address at a port. Returns true if it is remembered now and was not before, or at
    /// another port.
    pub fn learn(&self, vlan: u16, address: u64, port: u32, now: u64) -> bool {
        let mut part = self.part(vlan, address);
        let before = part.get(&(vlan, address)).map(|host| host.port);
        if before == Some(port) {
            return false;
        }
        {
            let mut ports = lock(&self.ports);
            let count = ports.entry(port).or_default();
            if *count >= self.room {
                return false;
            }
            *count += 1;
            if let Some(count) = before.and_then(|before| ports.get_mut(&before)) {
                *count = count.saturating_sub(1);
            }
        }
        let counters = Arc::new(Counters::new(now));
        part.insert((vlan, address), Host { port, counters });
        true
    }

    /// Forgets addresses that were not seen for long, and returns them with their VLANs. Looks at a
    /// sixteenth of all, at the others the next times.
    pub fn expire(&self, now: u64) -> Vec<(u16, u64)> {
        let part = self.turn.fetch_add(1, Ordering::Relaxed) % PARTS;
        self.forget(&self.parts[part..=part], |host| {
            host.counters.used().saturating_add(AGE) <= now
        })
    }

    /// Forgets all addresses at a port, and returns them with their VLANs.
    pub fn forget_port(&self, port: u32) -> Vec<(u16, u64)> {
        self.forget(&self.parts, |host| host.port == port)
    }

    fn forget(&self, parts: &[Part], is: impl Fn(&Host) -> bool) -> Vec<(u16, u64)> {
        let mut gone = Vec::new();
        for part in parts {
            lock(part).retain(|&host, state| {
                let stays = !is(state);
                if !stays {
                    if let Some(count) = lock(&self.ports).get_mut(&state.port) {
                        *count = count.saturating_sub(1);
                    }
                    gone.push(host);
                }
                stays
            });
        }
        gone
    }

    /// Returns all addresses: VLAN, address, port, and when it was seen last.
    #[must_use]
    pub fn all(&self) -> Vec<(u16, u64, u32, u64)> {
        let mut all = Vec::new();
        for part in &self.parts {
            let part = lock(part);
            let row = |(&(vlan, address), host): (&(u16, u64), &Host)| {
                (vlan, address, host.port, host.counters.used())
            };
            all.extend(part.iter().map(row));
        }
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_learnt_move_and_age() {
        let hosts = Hosts::with_room(2);
        assert!(hosts.is_new(5, 0xa, 1));
        assert!(hosts.learn(5, 0xa, 1, 0));
        assert!(!hosts.learn(5, 0xa, 1, 0), "known");
        assert!(hosts.find(6, 0xa).is_none(), "in another VLAN");
        assert!(hosts.learn(5, 0xa, 2, 0), "moved");
        assert_eq!(hosts.find(5, 0xa).map(|host| host.0), Some(2));
        assert!(hosts.learn(5, 0xb, 2, 0));
        assert!(!hosts.learn(5, 0xc, 2, 0), "no room");
        assert!(hosts.learn(5, 0xc, 1, 0), "but at the port it has left");

        let (_, counters) = hosts.find(5, 0xb).expect("known");
        counters.touch(1_000_000_000);
        let mut gone: Vec<_> = (0..PARTS).flat_map(|_| hosts.expire(AGE)).collect();
        gone.sort_unstable();
        assert_eq!(gone, [(5, 0xa), (5, 0xc)]);
        assert_eq!(hosts.forget_port(2), [(5, 0xb)]);
        assert!(hosts.all().is_empty());
        assert!(hosts.learn(5, 0xd, 2, 0) && hosts.learn(5, 0xe, 2, 0), "there is room again");
    }
}

//! Neighbour discovery on the table: advertisements that may or may not override (RFC 4861 sections
//! 7.2.3 to 7.2.5).

use std::{collections::VecDeque, net::Ipv6Addr};

use linerate_memory::Slot;
use linerate_packet::MacAddr;

use super::{Neighbours, UpdateResult};

/// Contents of an advertisement of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertised {
    /// Its Ethernet address, where it is told.
    pub mac: Option<MacAddr>,
    /// It answers a query.
    pub solicited: bool,
    /// It may change the known address.
    pub overrides: bool,
}

impl Neighbours<Ipv6Addr> {
    /// Takes an advertisement, if packets are sent to its address. Returns the packets that waited.
    pub fn advertised(
        &mut self,
        ip: Ipv6Addr,
        said: Advertised,
        now: u64,
    ) -> (UpdateResult, VecDeque<Slot>) {
        let timeout = self.limits.timeout;
        let Some(neighbour) = self.find(ip).and_then(|entry| self.table.get(entry)) else {
            return (UpdateResult::Refused, VecDeque::new());
        };
        let is_known = neighbour.is_known(now, timeout);
        let (learnt, mac) = match said.mac {
            Some(mac) if !is_known => (UpdateResult::Expected, mac),
            None if !is_known => return (UpdateResult::Refused, VecDeque::new()),
            Some(mac) if mac != neighbour.mac => {
                if said.overrides {
                    (UpdateResult::Changed, mac)
                } else {
                    return (UpdateResult::Refused, VecDeque::new());
                }
            }
            // That it is there is only known when it has been asked.
            _ if said.solicited => (UpdateResult::Expected, neighbour.mac),
            _ => return (UpdateResult::Expected, VecDeque::new()),
        };
        let packets = self.insert(ip, mac, now);
        self.packets -= packets.len();
        (learnt, packets)
    }

    /// Learns the address of a neighbour from its solicitation for another.
    pub fn learn_from_solicitation(
        &mut self,
        ip: Ipv6Addr,
        mac: MacAddr,
        now: u64,
    ) -> (UpdateResult, VecDeque<Slot>) {
        let timeout = self.limits.timeout;
        let neighbour = self.find(ip).and_then(|entry| self.table.get(entry));
        if neighbour.is_some_and(|it| it.is_known(now, timeout) && it.mac == mac) {
            return (UpdateResult::Expected, VecDeque::new());
        }
        match self.learn(ip, mac, now, true) {
            // The sender of a solicitation is expected to give its own address.
            (UpdateResult::Unsolicited, packets) => (UpdateResult::Expected, packets),
            other => other,
        }
    }
}

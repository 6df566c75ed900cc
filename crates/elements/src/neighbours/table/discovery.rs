//! What neighbour discovery does besides: advertisements that may or may not
//! override, and queries sent again (RFC 4861 sections 7.2.2 to 7.2.5).

use std::{collections::VecDeque, net::Ipv6Addr};

use linerate_memory::Slot;
use linerate_packet::MacAddr;

use super::{Learnt, Neighbours};
use crate::neighbours::Address;

/// Entries looked at, and queries sent, at a time.
const LOOKS: usize = 1024;
const QUERIES: usize = 64;

/// What an advertisement says of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Advertised {
    pub(crate) mac: Option<MacAddr>,
    /// It answers a query.
    pub(crate) solicited: bool,
    /// It may change what is known.
    pub(crate) overrides: bool,
}

impl Neighbours<Ipv6Addr> {
    /// An advertisement has come. Only those are taken that are about addresses
    /// somebody sends to. Returns the packets that waited.
    pub(crate) fn advertised(
        &mut self,
        ip: Ipv6Addr,
        said: Advertised,
        now: u64,
    ) -> (Learnt, VecDeque<Slot>) {
        let timeout = self.limits.timeout;
        let Some(neighbour) = self.find(ip).and_then(|entry| self.table.get(entry)) else {
            return (Learnt::Refused, VecDeque::new());
        };
        let is_known = neighbour.is_known(now, timeout);
        let (learnt, mac) = match said.mac {
            Some(mac) if !is_known => (Learnt::Expected, mac),
            None if !is_known => return (Learnt::Refused, VecDeque::new()),
            Some(mac) if mac != neighbour.mac => match said.overrides {
                true => (Learnt::Changed, mac),
                false => return (Learnt::Refused, VecDeque::new()),
            },
            // That it is there is only known when it has been asked.
            _ if said.solicited => (Learnt::Expected, neighbour.mac),
            _ => return (Learnt::Expected, VecDeque::new()),
        };
        let packets = self.insert(ip, mac, now);
        self.packets -= packets.len();
        (learnt, packets)
    }

    /// A neighbour asks for somebody, and says where it is itself.
    pub(crate) fn heard(
        &mut self,
        ip: Ipv6Addr,
        mac: MacAddr,
        now: u64,
    ) -> (Learnt, VecDeque<Slot>) {
        let timeout = self.limits.timeout;
        let neighbour = self.find(ip).and_then(|entry| self.table.get(entry));
        if neighbour.is_some_and(|it| it.is_known(now, timeout) && it.mac == mac) {
            return (Learnt::Expected, VecDeque::new());
        }
        match self.learn(ip, mac, now, true) {
            // Who asks is expected to say who it is.
            (Learnt::Unsolicited, packets) => (Learnt::Expected, packets),
            other => other,
        }
    }

    /// The addresses packets wait for that are to be asked for again. Where enough
    /// queries had no answer, those who wait are given up.
    pub(crate) fn ask_again(&mut self, now: u64) -> Vec<Ipv6Addr> {
        let (mut again, mut failed) = (Vec::new(), Vec::new());
        for ip in self.unknown.values().take(LOOKS) {
            let entry = self.table.lookup(&ip.key());
            let Some(neighbour) = entry.and_then(|entry| self.table.get_mut(entry)) else {
                continue;
            };
            if neighbour.packets.is_empty() || again.len() == QUERIES {
                continue;
            }
            if neighbour.polls >= Ipv6Addr::QUICK {
                let since = neighbour.polled.map_or(0, |polled| now.saturating_sub(polled));
                failed.extend((since >= Ipv6Addr::QUICK_INTERVAL).then_some(*ip));
            } else if neighbour.poll::<Ipv6Addr>(now) {
                again.push(*ip);
            }
        }
        failed.into_iter().for_each(|ip| self.remove(ip));
        again
    }
}

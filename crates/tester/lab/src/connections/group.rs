//! Connections that a client opens: their addresses and ports, rate, and number at a time.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use linerate_packet::{
    MacAddr,
    build::{Link, Tagging},
};

use super::{
    connection::{Client, Role, Rules},
    neighbour::Notice,
    payload::RequestHeader,
    segment::{Ends, vlan_of},
    tick,
};
use crate::{Pattern, Schedule, Values};

/// Most questions for an address before its host counts as silent.
const ASKED_AT_MOST: u32 = 8;
/// Pause between two such questions, in nanoseconds.
const ASK_AGAIN: u64 = 250_000_000;

/// Consecutive addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosts {
    /// Set for addresses of IPv6.
    pub ipv6: bool,
    /// The addresses, as numbers.
    pub values: Values,
}

impl Hosts {
    /// The address at an index, which is below their count.
    pub fn at(&self, index: u64) -> IpAddr {
        let bits = self.values.at(index);
        if self.ipv6 {
            Ipv6Addr::from_bits(bits).into()
        } else {
            Ipv4Addr::from_bits(bits as u32).into()
        }
    }

    /// Returns true if an address is one of them.
    pub fn contain(&self, address: IpAddr) -> bool {
        let (ipv6, bits) = match address {
            IpAddr::V4(address) => (false, address.to_bits().into()),
            IpAddr::V6(address) => (true, address.to_bits()),
        };
        ipv6 == self.ipv6 && (self.values.at(0)..=self.values.last()).contains(&bits)
    }
}

/// Timeouts of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// First retransmission timeout; it doubles with each retransmission.
    pub retransmit: Duration,
    /// Most retransmissions of a segment, at most 16.
    pub retries: u8,
    /// Longest silence of the other side when it is its turn.
    pub timeout: Duration,
}

impl Timeouts {
    pub(super) fn rules(&self, role: Role, mss: u16) -> Rules {
        Rules {
            role,
            mss,
            retransmit: ticks(self.retransmit).max(1),
            retries: self.retries.min(16),
            timeout: ticks(self.timeout).max(1),
        }
    }
}

fn ticks(time: Duration) -> u64 {
    tick(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Destination of frames on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// The host with this Ethernet address.
    Mac(MacAddr),
    /// The host with this address, which is resolved.
    Address(IpAddr),
}

/// Connections that a client opens.
#[derive(Debug, Clone)]
pub struct Group {
    /// Addresses of the client, none of which the host may have itself.
    pub sources: Hosts,
    /// Addresses of the server, of the same family.
    pub destinations: Hosts,
    /// Ports of the client.
    pub source_ports: Values,
    /// Ports of the server.
    pub destination_ports: Values,
    /// Ethernet address of the client.
    pub mac: MacAddr,
    /// Destination of its frames on the link.
    pub next_hop: NextHop,
    /// VLAN tags of the frames.
    pub tags: Tagging,
    /// Connections begun per second; as many as may be open when `None`.
    pub rate: Option<f64>,
    /// Time in which the rate rises to that.
    pub ramp: Duration,
    /// Connections open at a time, at most.
    pub concurrent: u64,
    /// Bytes of a request, not zero: with no payload given at least [`REQUEST_MIN`].
    pub request: u32,
    /// Bytes of the answer.
    pub response: u32,
    /// Requests per connection, not zero.
    pub requests: u64,
    /// Pause behind each answer.
    pub think: Duration,
    /// The largest segment, in bytes of data.
    pub mss: u16,
    /// Times after which a connection has failed.
    pub timeouts: Timeouts,
    /// Content of requests, repeated. When empty, bytes that our own server understands, and whose
    /// answer is checked.
    pub payload: Vec<u8>,
}

/// Shortest request that our own server understands.
pub const REQUEST_MIN: u32 = super::payload::REQUEST_HEADER_LEN as u32;

impl Group {
    pub(super) fn rules(&self, number: u16) -> Rules {
        let client = Client {
            ask: RequestHeader { request: self.request.max(1), response: self.response },
            requests: self.requests.max(1),
            think: ticks(self.think),
            given: (!self.payload.is_empty()).then_some(number),
        };
        self.timeouts.rules(Role::Client(client), self.mss)
    }
}

/// State of the next hop's resolution.
#[derive(Debug, Clone, Copy)]
enum Hop {
    Known(MacAddr),
    /// Asked for so often; to be asked for again at a time, in nanoseconds.
    Asked {
        address: IpAddr,
        times: u32,
        again: u64,
    },
    /// No host has answered.
    Silent,
}

/// A group and how far it has come.
#[derive(Debug)]
pub(super) struct ConnectionSource {
    group: Group,
    schedule: Schedule,
    hop: Hop,
    /// Time at which the first connection came due, in nanoseconds.
    start: Option<u64>,
    /// Number of the next combination of addresses and ports.
    next: u64,
    /// Connections due and not begun.
    owed: u64,
    /// Connections that have not ended.
    pub(super) open: u64,
}

/// Connections that came due, and those of them to be begun now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// Number that came due; `None` without a rate.
    pub(super) due: Option<u64>,
    pub(super) begin: u64,
    pub(super) skipped: u64,
}

impl ConnectionSource {
    pub(super) fn new(group: Group, pattern: Pattern, seed: u64) -> ConnectionSource {
        let hop = match group.next_hop {
            NextHop::Mac(mac) => Hop::Known(mac),
            NextHop::Address(address) => Hop::Asked { address, times: 0, again: 0 },
        };
        let schedule = Schedule::new(group.rate, pattern, seed);
        ConnectionSource { group, schedule, hop, start: None, next: 0, owed: 0, open: 0 }
    }

    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    /// Returns true if no host answered for the address of the next hop.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.hop, Hop::Silent)
    }

    /// The link of its frames, once the next hop is resolved.
    pub(super) fn link(&self) -> Option<Link> {
        match self.hop {
            Hop::Known(dst) => Some(Link { src: self.group.mac, dst, tags: self.group.tags }),
            _ => None,
        }
    }

    /// Takes the answer that `mac` has an address.
    pub(super) fn learn(&mut self, address: IpAddr, mac: MacAddr) {
        if matches!(self.hop, Hop::Asked { address: asked, .. } if asked == address) {
            self.hop = Hop::Known(mac);
        }
    }

    /// The question for the next hop's address, when it is time to ask. Fails once, with the
    /// address, when its host has not answered.
    pub(super) fn ask(&mut self, time: u64) -> Result<Option<Notice>, IpAddr> {
        let Hop::Asked { address, times, again } = self.hop else { return Ok(None) };
        if time < again {
            return Ok(None);
        }
        if times == ASKED_AT_MOST {
            self.hop = Hop::Silent;
            return Err(address);
        }
        self.hop = Hop::Asked { address, times: times + 1, again: time + ASK_AGAIN };
        let own = (self.group.mac, self.group.sources.at(0));
        Ok(Notice::question(own, address, self.group.tags))
    }

    /// The connections due at a time, of which `left` may still be begun, and at most `batch` now.
    pub(super) fn due(&mut self, time: u64, left: u64, batch: u64) -> Due {
        let start = *self.start.get_or_insert(time);
        let room = self.group.concurrent.saturating_sub(self.open);
        let elapsed = self.ramped(time.saturating_sub(start));
        let Some(came) = self.schedule.due(elapsed) else {
            let begin = room.min(left).min(batch);
            return Due { due: None, begin, skipped: 0 };
        };
        // Of a counted run no more come due than it has left.
        let due = came.min(left.saturating_sub(self.owed));
        self.owed += due;
        // Other groups may have begun some of the rest.
        let begin = self.owed.min(room).min(batch).min(left);
        self.owed -= begin;
        // Those that found no room are not begun later: their time is over.
        let skipped = if begin == room { std::mem::take(&mut self.owed) } else { 0 };
        Due { due: Some(due), begin, skipped }
    }

    /// The time at which a schedule without ramp has come as far. In the ramp the rate is the
    /// part of the whole that the time is.
    fn ramped(&self, elapsed: u64) -> u64 {
        let ramp = self.group.ramp.as_nanos() as f64;
        let time = elapsed as f64;
        if time < ramp { (time * time / (2.0 * ramp)) as u64 } else { (time - ramp / 2.0) as u64 }
    }

    /// Earliest time at which something may be due, seen from `time`.
    pub(super) fn wake(&self, time: u64) -> Option<u64> {
        match self.hop {
            Hop::Asked { again, .. } => Some(again),
            Hop::Silent => None,
            // A connection has to end first.
            Hop::Known(_) if self.open >= self.group.concurrent => None,
            Hop::Known(_) if self.owed > 0 || self.group.rate.is_none() => Some(time),
            Hop::Known(_) => {
                let start = self.start.unwrap_or(time);
                // Of the whole rate, which is not reached before: too early rather than late.
                let wait = self.schedule.wait(self.ramped(time.saturating_sub(start)));
                Some(time.saturating_add(wait.as_nanos() as u64))
            }
        }
    }

    /// The next ends of a connection, ports of the client going fastest.
    pub(super) fn next_ends(&mut self) -> Ends {
        let Group { sources, destinations, source_ports, destination_ports, tags, .. } =
            &self.group;
        let mut rest = self.next;
        self.next = self.next.wrapping_add(1);
        let mut digit = |count: u64| {
            let digit = rest % count;
            rest /= count;
            digit
        };
        let local_port = source_ports.at(digit(source_ports.count())) as u16;
        let local = sources.at(digit(sources.values.count()));
        let peer_port = destination_ports.at(digit(destination_ports.count())) as u16;
        let peer = destinations.at(digit(destinations.values.count()));
        Ends { local, peer, local_port, peer_port, vlan: vlan_of(*tags) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// From two addresses and two ports, as fast as is allowed.
    pub(in super::super) fn group() -> Group {
        let hosts = |first: u128, last: u128| Hosts {
            ipv6: false,
            values: Values::between(first, last).unwrap(),
        };
        Group {
            sources: hosts(0xc612_0001, 0xc612_0002),
            destinations: hosts(0xc613_0001, 0xc613_0001),
            source_ports: Values::between(1024, 1025).unwrap(),
            destination_ports: Values::one(80),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            next_hop: NextHop::Mac(MacAddr([2, 0, 0, 0, 0, 2])),
            tags: Tagging::Untagged,
            rate: None,
            ramp: Duration::ZERO,
            concurrent: 10,
            request: 100,
            response: 1000,
            requests: 1,
            think: Duration::ZERO,
            mss: 1460,
            timeouts: Timeouts {
                retransmit: Duration::from_millis(200),
                retries: 5,
                timeout: Duration::from_secs(30),
            },
            payload: Vec::new(),
        }
    }

    fn source(group: Group) -> ConnectionSource {
        ConnectionSource::new(group, Pattern::Constant, 1)
    }

    #[test]
    fn ends_are_all_combinations() {
        let mut source = source(group());
        let ends: Vec<_> = (0..5).map(|_| source.next_ends()).collect();
        let seen = ends.iter().map(|ends| (ends.local.to_string(), ends.local_port));
        let expected = [
            ("198.18.0.1", 1024),
            ("198.18.0.1", 1025),
            ("198.18.0.2", 1024),
            ("198.18.0.2", 1025),
            ("198.18.0.1", 1024),
        ];
        let expected = expected.map(|(address, port)| (address.to_owned(), port));
        assert_eq!(seen.collect::<Vec<_>>(), expected);
        assert!(source.group().sources.contain("198.18.0.2".parse().unwrap()));
        assert!(!source.group().sources.contain("198.18.0.3".parse().unwrap()));
        assert!(!source.group().sources.contain("::c612:1".parse().unwrap()));
    }

    #[test]
    fn a_rate_rises_through_its_ramp() {
        let ramp = Duration::from_secs(2);
        let group = Group { rate: Some(1000.0), ramp, concurrent: 10_000, ..group() };
        let mut source = source(group);
        let mut begun = 0;
        let mut at = |time: u64| {
            begun += source.due(time, u64::MAX, u64::MAX).begin;
            begun
        };
        // A quarter of the area below the ramp by its middle, all of it at its end.
        at(SECOND);
        assert!(at(2 * SECOND).abs_diff(250) <= 1);
        assert!(at(3 * SECOND).abs_diff(1000) <= 1);
        assert!(at(4 * SECOND).abs_diff(2000) <= 1);
    }

    #[test]
    fn connections_beyond_the_limit_are_skipped() {
        let mut source = source(Group { rate: Some(100.0), concurrent: 3, ..group() });
        source.due(SECOND, 1000, 1000);
        let due = source.due(SECOND + SECOND / 10, 1000, 1000);
        assert_eq!((due.due, due.begin, due.skipped), (Some(10), 3, 7));
        source.open = 3;
        let due = source.due(SECOND + SECOND / 5, 1000, 1000);
        assert_eq!((due.due, due.begin, due.skipped), (Some(10), 0, 10));
        assert_eq!(source.wake(2 * SECOND), None);
    }

    #[test]
    fn no_more_come_due_than_are_left() {
        let mut source = source(Group { rate: Some(1000.0), ..group() });
        source.due(0, 5, 1000);
        assert_eq!(source.due(SECOND, 4, 2).due, Some(4));
        assert_eq!(source.due(SECOND, 2, 2), Due { due: Some(0), begin: 2, skipped: 0 });
    }

    #[test]
    fn a_silent_next_hop_is_given_up() {
        let address: IpAddr = "198.19.0.1".parse().unwrap();
        let mut silent = source(Group { next_hop: NextHop::Address(address), ..group() });
        let mut asked = 0;
        for step in 0.. {
            match silent.ask(step * ASK_AGAIN) {
                Ok(Some(_)) => asked += 1,
                Ok(None) => panic!("it is time to ask"),
                Err(unanswered) => {
                    assert_eq!((unanswered, asked), (address, ASKED_AT_MOST));
                    break;
                }
            }
            assert!(silent.ask(step * ASK_AGAIN + 1).unwrap().is_none());
        }
        assert!(silent.is_silent() && silent.link().is_none());

        let mut answered = source(Group { next_hop: NextHop::Address(address), ..group() });
        assert!(answered.ask(0).unwrap().is_some());
        answered.learn("198.19.0.2".parse().unwrap(), MacAddr([2; 6]));
        assert!(answered.link().is_none());
        answered.learn(address, MacAddr([2; 6]));
        assert_eq!(answered.link().unwrap().dst, MacAddr([2; 6]));
        assert!(answered.ask(SECOND).unwrap().is_none());
    }
}

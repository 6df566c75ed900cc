//! Admission of connections when there are more than places.
//!
//! Each source has a share of the places, and some places are reserved for connections that may
//! write. A new connection displaces one of its own source, or of a source that has more, first the
//! one that has been quiet longest. So a source that floods displaces only its own connections.

use std::net::{IpAddr, Ipv6Addr};

/// Connections served at a time.
pub(in super::super) const PLACES: usize = 256;
/// Connections of one source that may only read.
pub(in super::super) const SHARE: usize = 64;
/// Places reserved for connections that may write.
pub(in super::super) const KEPT: usize = 32;
/// Quiet time after which a connection that may write gives way to another, in nanoseconds.
const QUIET: u64 = 10_000_000_000;

/// Origin of a connection, which its client cannot choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Source {
    /// A user of this machine, by a UNIX socket, which authenticates it.
    User(u32),
    /// A user of this machine, by TCP within it, where only the token gives the right to write.
    LocalTcp(u32),
    /// A host, or the hosts of an IPv6 network.
    Host(IpAddr),
    /// The program that has started this one.
    Parent,
}

impl Source {
    /// The source of a connection from an address. A host has a whole /64 of IPv6 addresses, and
    /// this one all of 127.0.0.0/8, where its users are told apart ([`Source::LocalTcp`]).
    pub(super) fn from_ip(address: IpAddr) -> Source {
        Source::Host(match address.to_canonical() {
            loopback if loopback.is_loopback() => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
            address => address,
        })
    }
}

/// A connection that has a place.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Guest {
    pub(in super::super) number: u64,
    pub(in super::super) source: Source,
    /// Whether it may write.
    pub(in super::super) writes: bool,
    /// Time of its last complete command, or of its connecting.
    pub(in super::super) quiet_since: u64,
}

/// The decision about a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Verdict {
    /// There is a place for it.
    Enters,
    /// It takes the place of the connection with this number.
    InsteadOf(u64),
    /// There is no place for it.
    Refused,
}

/// Decides about a new connection from `source` at `now`.
pub(in super::super) fn admit(guests: &[Guest], source: Source, writes: bool, now: u64) -> Verdict {
    let readers = || guests.iter().filter(|guest| !guest.writes);
    let of = |source: Source| readers().filter(move |guest| guest.source == source);
    let quietest = |guests: &mut dyn Iterator<Item = &Guest>| {
        guests.min_by_key(|guest| guest.quiet_since).map(|guest| Verdict::InsteadOf(guest.number))
    };
    let crowd = || readers().map(|guest| guest.source).max_by_key(|source| of(*source).count());
    if writes {
        if guests.len() < PLACES {
            return Verdict::Enters;
        }
        let reader = crowd().and_then(|source| quietest(&mut of(source)));
        let is_quiet = |guest: &&Guest| now.saturating_sub(guest.quiet_since) >= QUIET;
        return reader
            .or_else(|| quietest(&mut guests.iter().filter(is_quiet)))
            .unwrap_or(Verdict::Refused);
    }
    let own = of(source).count();
    if own < SHARE && guests.len() < PLACES && readers().count() < PLACES - KEPT {
        return Verdict::Enters;
    }
    let larger = if own < SHARE { crowd() } else { None };
    let larger = larger.filter(|crowd| of(*crowd).count() > own);
    quietest(&mut of(larger.unwrap_or(source))).unwrap_or(Verdict::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: Source = Source::User(1000);
    const OTHER: Source = Source::User(1001);

    /// Adds so many connections of a source, the first the quietest.
    fn crowd(guests: &mut Vec<Guest>, source: Source, writes: bool, count: usize) {
        for _ in 0..count {
            let number = guests.len() as u64;
            guests.push(Guest { number, source, writes, quiet_since: 1000 + number });
        }
    }

    #[test]
    fn a_source_has_its_share() {
        let mut guests = Vec::new();
        crowd(&mut guests, STRANGER, false, SHARE - 1);
        assert_eq!(admit(&guests, STRANGER, false, 0), Verdict::Enters);
        crowd(&mut guests, STRANGER, false, 1);
        assert_eq!(admit(&guests, STRANGER, false, 0), Verdict::InsteadOf(0));
        assert_eq!(admit(&guests, OTHER, false, 0), Verdict::Enters);
    }

    #[test]
    fn many_sources_leave_the_kept_places() {
        let mut guests = Vec::new();
        for user in 0..100 {
            crowd(&mut guests, Source::User(user), false, 3);
        }
        guests.truncate(PLACES - KEPT);
        assert_eq!(admit(&guests, STRANGER, false, 0), Verdict::InsteadOf(219));
        assert_eq!(admit(&guests, Source::User(0), false, 0), Verdict::InsteadOf(0));
        assert_eq!(admit(&guests, Source::User(0), true, 0), Verdict::Enters);
    }

    #[test]
    fn writers_go_before_all_others() {
        let mut guests = Vec::new();
        crowd(&mut guests, OTHER, true, PLACES - 1);
        crowd(&mut guests, STRANGER, false, 1);
        let last = PLACES as u64 - 1;
        assert_eq!(admit(&guests, OTHER, true, 0), Verdict::InsteadOf(last));
        assert_eq!(admit(&guests, OTHER, false, 0), Verdict::InsteadOf(last));
        guests.pop();
        crowd(&mut guests, OTHER, true, 1);
        assert_eq!(admit(&guests, OTHER, true, QUIET), Verdict::Refused);
        assert_eq!(admit(&guests, OTHER, true, 1000 + QUIET), Verdict::InsteadOf(0));
        assert_eq!(admit(&guests, STRANGER, false, u64::MAX), Verdict::Refused);
    }

    #[test]
    fn a_host_is_one_source_with_all_its_addresses() {
        let of = |text: &str| Source::from_ip(text.parse().unwrap());
        for (one, other, same) in [
            ("127.0.0.1", "127.9.9.9", true),
            ("127.0.0.1", "::1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(of(one) == of(other), same, "{one} {other}");
        }
    }
}

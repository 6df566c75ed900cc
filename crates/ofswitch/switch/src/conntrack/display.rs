//! Connections for display: a line each, in the form of `ovs-appctl dpctl/dump-conntrack`.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::set_original;
use super::table::Connection;
use super::tuple::Tuple;
use crate::key::extract::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::key::{Key, Mask};
use crate::wire::{ConnectionFilter, Field, TupleFilter};

const SECOND: u64 = 1_000_000_000;

/// An address of either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// Of IPv4.
    V4(Ipv4Addr),
    /// Of IPv6.
    V6(Ipv6Addr),
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> IpAddr {
        match address {
            Address::V4(address) => IpAddr::V4(address),
            Address::V6(address) => IpAddr::V6(address),
        }
    }
}

impl Address {
    /// The address that a number is, of IPv6 or IPv4.
    pub(super) fn from_bits(address: u128, v6: bool) -> Address {
        if v6 { Address::V6(address.into()) } else { Address::V4((address as u32).into()) }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Address::V4(address) => address.fmt(f),
            Address::V6(address) => address.fmt(f),
        }
    }
}

/// The addresses and ports of packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Direction {
    /// From where.
    pub source: Address,
    /// To where.
    pub destination: Address,
    /// Ports, or the fields of ICMP in their place.
    pub ends: Ends,
}

/// The part of a tuple that tells connections of two hosts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Ports of source and destination; 0 for a protocol without ports.
    Ports(u16, u16),
    /// Messages of ICMP.
    Message {
        /// Their identifier.
        identifier: u16,
        /// Their type.
        kind: u8,
        /// Their code.
        code: u8,
    },
}

/// A connection for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The zone.
    pub zone: u16,
    /// The protocol of IP.
    pub protocol: u8,
    /// Its first packet.
    pub original: Direction,
    /// Answers, as they come.
    pub reply: Direction,
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
    /// State of a connection of TCP.
    pub state: Option<&'static str>,
    /// When it is forgotten unless there is another packet, in nanoseconds of the steady clock.
    pub expires: u64,
    fields: Box<Key>,
}

impl Direction {
    /// Returns true if it passes a filter. As for Open vSwitch, messages of ICMP are told apart
    /// where the filter is of their protocol and has an address.
    fn passes(&self, filter: &TupleFilter, is_of_icmp: bool) -> bool {
        let has = |wanted: Option<IpAddr>, address: Address| {
            wanted.is_none_or(|wanted| wanted == IpAddr::from(address))
        };
        let is_port = |wanted: u16, port: u16| wanted == 0 || wanted == port;
        let ends = match self.ends {
            Ends::Ports(source, destination) => {
                is_port(filter.source_port, source) && is_port(filter.destination_port, destination)
            }
            Ends::Message { identifier, kind, code } => {
                let is_told_apart = is_of_icmp && filter.has_address();
                !is_told_apart || filter.message == (identifier, kind, code)
            }
        };
        ends && has(filter.source, self.source) && has(filter.destination, self.destination)
    }
}

fn direction(tuple: &Tuple) -> Direction {
    let ends = match tuple.protocol {
        ICMP | ICMPV6 => Ends::Message {
            identifier: tuple.source.port,
            kind: tuple.message.0,
            code: tuple.message.1,
        },
        _ => Ends::Ports(tuple.source.port, tuple.destination.port),
    };
    Direction {
        source: Address::from_bits(tuple.source.address, tuple.v6),
        destination: Address::from_bits(tuple.destination.address, tuple.v6),
        ends,
    }
}

pub(super) fn connection_info(connection: &Connection) -> ConnectionInfo {
    let tuple = &connection.original;
    let (mark, label, state) = {
        let entry = connection.lock();
        (entry.mark, entry.label, entry.state.name())
    };
    let mut fields = Box::<Key>::default();
    set_original(&mut fields, Some(tuple));
    fields.set(Field::CtZone, tuple.zone.into());
    fields.set(Field::CtMark, mark.into());
    fields.set(Field::CtLabel, label);
    // A filter needs this before fields of connections.
    fields.set(Field::CtState, super::TRACKED.into());
    fields.set(Field::EthType, if tuple.v6 { 0x86dd } else { 0x0800 });
    ConnectionInfo {
        zone: tuple.zone,
        protocol: tuple.protocol,
        original: direction(tuple),
        reply: direction(&connection.reply),
        mark,
        label,
        state,
        expires: connection.expires(),
        fields,
    }
}

/// The name of a protocol of IP, where it has one.
fn name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        ICMP => "icmp",
        ICMPV6 => "icmpv6",
        TCP => "tcp",
        UDP => "udp",
        SCTP => "sctp",
        136 => "udplite",
        33 => "dccp",
        2 => "igmp",
        _ => return None,
    })
}

impl ConnectionInfo {
    /// Returns true if its zone, mark, label and first packet (`ct_zone`, `ct_nw_src` and so on)
    /// match.
    #[must_use]
    pub fn is_like(&self, (key, mask): &(Key, Mask)) -> bool {
        self.fields.agrees(key, mask)
    }

    /// Returns true if it passes a filter. As for Open vSwitch, a filter of a whole packet selects
    /// the connection of that packet, which may be an answer, and means zone 0 if it has none.
    #[must_use]
    pub fn passes(&self, filter: &ConnectionFilter) -> bool {
        let zone = filter.zone.or_else(|| filter.is_whole().then_some(0));
        let passes =
            |direction: &Direction| direction.passes(&filter.original, filter.is_of_icmp());
        let same = |value: u128, (wanted, mask): (u128, u128)| (value ^ wanted) & mask == 0;
        zone.is_none_or(|zone| zone == self.zone)
            && (filter.protocol == 0 || filter.protocol == self.protocol)
            && same(self.mark.into(), (filter.mark.0.into(), filter.mark.1.into()))
            && same(self.label, filter.label)
            && (passes(&self.original) || filter.is_whole() && passes(&self.reply))
            && self.reply.passes(&filter.reply, filter.is_of_icmp())
    }

    /// Returns the name of its protocol, or its number.
    #[must_use]
    pub fn protocol(&self) -> String {
        name(self.protocol).map_or_else(|| self.protocol.to_string(), str::to_owned)
    }

    /// Returns the seconds left until it times out.
    #[must_use]
    pub fn seconds(&self, now: u64) -> u64 {
        self.expires.saturating_sub(now) / SECOND
    }
}

impl Display for Direction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "src={},dst={}", self.source, self.destination)?;
        match self.ends {
            Ends::Ports(source, destination) => write!(f, ",sport={source},dport={destination}"),
            Ends::Message { identifier, kind, code } => {
                write!(f, ",id={identifier},type={kind},code={code}")
            }
        }
    }
}

impl Display for ConnectionInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (original, reply) = (self.original, self.reply);
        write!(f, "{},orig=({original}),reply=({reply})", self.protocol())?;
        if self.zone != 0 {
            write!(f, ",zone={}", self.zone)?;
        }
        if self.mark != 0 {
            write!(f, ",mark={}", self.mark)?;
        }
        if self.label != 0 {
            write!(f, ",labels={:#x}", self.label)?;
        }
        if let Some(state) = self.state {
            write!(f, ",protoinfo=(state={state})")?;
        }
        Ok(())
    }
}

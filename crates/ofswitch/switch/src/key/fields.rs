//! Fields of a packet, for messages and traces.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{HEADERS, Key};
use crate::wire::field::Needs;
use crate::wire::{Entry, Field, Match, VLAN_PRESENT};

impl Key {
    /// Returns true if a packet has the headers that a field needs.
    #[must_use]
    pub fn meets(&self, needs: Needs) -> bool {
        let ethernet = |kinds: &[u128]| kinds.contains(&self.get(Field::EthType));
        let carries = |protocol| {
            self.meets(Needs::Ip) && self.get(Field::IpProto) == protocol && self.first()
        };
        let discovery = |kinds: &[u128]| {
            self.meets(Needs::Icmpv6)
                && kinds.contains(&self.get(Field::Icmpv6Type))
                && self.get(Field::Icmpv6Code) == 0
        };
        match needs {
            Needs::Nothing | Needs::InPort => true,
            Needs::Vlan => self.get(Field::VlanTci) & VLAN_PRESENT != 0,
            Needs::Mpls => ethernet(&[0x8847, 0x8848]),
            Needs::Pbb => ethernet(&[0x88e7]),
            Needs::Nsh => ethernet(&[0x894f]),
            Needs::Ip => ethernet(&[0x0800, 0x86dd]),
            Needs::Ipv4 => ethernet(&[0x0800]),
            Needs::Ipv6 => ethernet(&[0x86dd]),
            Needs::Arp => ethernet(&[0x0806, 0x8035]),
            Needs::Tcp => carries(6),
            Needs::Udp => carries(17),
            Needs::Sctp => carries(132),
            Needs::Icmpv4 => ethernet(&[0x0800]) && carries(1),
            Needs::Icmpv6 => ethernet(&[0x86dd]) && carries(58),
            Needs::Discovery => discovery(&[135, 136]),
            Needs::Solicitation => discovery(&[135]),
            Needs::Advertisement => discovery(&[136]),
            Needs::Tracked => self.get(Field::CtProto) != 0,
        }
    }

    /// Returns true if it is no fragment, or the first.
    fn first(&self) -> bool {
        self.get(Field::IpFrag) & 2 == 0
    }

    /// Returns the fields of a packet: those of its headers, and others that are not zero.
    ///
    /// Of equivalent fields it is OpenFlow's, each after those it needs.
    #[must_use]
    pub fn fields(&self) -> Match {
        Field::ALL
            .iter()
            .filter(|field| self.has(**field))
            .map(|&field| self.entry(field))
            .collect()
    }

    /// Likewise without those of headers, which go with the packet: the metadata fields of
    /// packet-ins.
    #[must_use]
    pub fn fields_beside_headers(&self) -> Match {
        let beside = |field: &Field| self.has(*field) && !is_of_headers(*field);
        Field::ALL.iter().filter(|field| beside(field)).map(|&field| self.entry(field)).collect()
    }

    fn entry(&self, field: Field) -> Entry {
        Entry::exact(field, self.get(field))
    }

    fn has(&self, field: Field) -> bool {
        match field {
            // Aliases of other fields.
            Field::InPort16 | Field::VlanTci | Field::IpTos => false,
            _ if field.registers().count_ones() > 1 => false,
            Field::EthDst | Field::EthSrc | Field::EthType => true,
            Field::VlanVid => self.meets(Needs::Vlan),
            Field::IpFrag | Field::Ipv6Extensions => {
                self.meets(field.needs()) && self.get(field) != 0
            }
            // Only metadata of type 1 have words of context.
            Field::NshC1 | Field::NshC2 | Field::NshC3 | Field::NshC4 => {
                self.meets(field.needs()) && self.get(Field::NshMdType) == 1
            }
            _ if is_of_headers(field) => self.meets(field.needs()),
            _ => self.meets(field.needs()) && self.get(field) != 0,
        }
    }
}

/// Returns true for fields of a packet's headers, false for those the switch adds.
#[must_use]
pub const fn is_of_headers(field: Field) -> bool {
    let word = super::position_of(field).word;
    word >= HEADERS.start && word < HEADERS.end
}

/// `eth_dst=02:00:00:00:00:01,eth_type=0x0800,ipv4_src=10.0.0.1`: the fields a packet has.
impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, entry) in self.fields().entries().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(out, "{comma}{}={}", entry.field().name(), Value(entry.field(), entry.value()))?;
        }
        Ok(())
    }
}

/// Value of a field, as text.
#[derive(Debug, Clone, Copy)]
pub struct Value(pub Field, pub u128);

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Value(field, value) = *self;
        match field {
            Field::EthDst
            | Field::EthSrc
            | Field::ArpSha
            | Field::ArpTha
            | Field::NdSll
            | Field::NdTll => {
                let [_, _, a, b, c, d, e, f] = (value as u64).to_be_bytes();
                write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            Field::Ipv4Src
            | Field::Ipv4Dst
            | Field::ArpSpa
            | Field::ArpTpa
            | Field::TunnelIpv4Src
            | Field::TunnelIpv4Dst
            | Field::CtIpv4Src
            | Field::CtIpv4Dst => write!(out, "{}", Ipv4Addr::from_bits(value as u32)),
            Field::Ipv6Src
            | Field::Ipv6Dst
            | Field::NdTarget
            | Field::TunnelIpv6Src
            | Field::TunnelIpv6Dst
            | Field::CtIpv6Src
            | Field::CtIpv6Dst => write!(out, "{}", Ipv6Addr::from_bits(value)),
            Field::VlanVid if value & VLAN_PRESENT != 0 => write!(out, "{}", value & 0xfff),
            Field::EthType => write!(out, "0x{value:04x}"),
            Field::Metadata
            | Field::TunnelId
            | Field::TcpFlags
            | Field::Ipv6Label
            | Field::Ipv6Extensions
            | Field::CtState
            | Field::CtMark
            | Field::CtLabel
            | Field::NshSpi
            | Field::NshC1
            | Field::NshC2
            | Field::NshC3
            | Field::NshC4
            | Field::PacketMark
            | Field::PacketType => write!(out, "{value:#x}"),
            _ if field.registers() != 0 => write!(out, "{value:#x}"),
            _ => write!(out, "{value}"),
        }
    }
}

//! Primitives as trees: what libpcap looks at for each, on Ethernet.

use std::net::Ipv6Addr;

use super::tree::{Base, Number, Relation, Tree};

pub(super) const IPV4: u32 = 0x0800;
pub(super) const ARP: u32 = 0x0806;
pub(super) const RARP: u32 = 0x8035;
pub(super) const IPV6: u32 = 0x86dd;
const TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];
/// Numbers up to here are lengths.
const LENGTH_MAX: u32 = 1500;
/// Ethertypes that may also be in an LLC header.
const ALSO_LLC: [u32; 2] = [0x809b, 0x80f3];
const FRAGMENT: u32 = 44;
const IPV6_HEADER: u32 = 40;
pub(super) const TCP: u32 = 6;
pub(super) const UDP: u32 = 17;
pub(super) const SCTP: u32 = 132;
pub(super) const ICMP6: u32 = 58;

/// Which protocol a primitive is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Link,
    Ip,
    Ip6,
    Arp,
    Rarp,
    /// One that IP carries: only IPv4, only IPv6, or either.
    Carried {
        number: u32,
        four: bool,
        six: bool,
    },
}

impl Protocol {
    /// By its keyword.
    pub(super) fn named(word: &str) -> Option<Protocol> {
        let carried = |number, four, six| Protocol::Carried { number, four, six };
        Some(match word {
            "ether" | "link" | "ppp" | "slip" => Protocol::Link,
            "ip" => Protocol::Ip,
            "ip6" => Protocol::Ip6,
            "arp" => Protocol::Arp,
            "rarp" => Protocol::Rarp,
            "tcp" => carried(TCP, true, true),
            "udp" => carried(UDP, true, true),
            "sctp" => carried(SCTP, true, true),
            "pim" => carried(103, true, true),
            "ah" => carried(51, true, true),
            "esp" => carried(50, true, true),
            "icmp" => carried(1, true, false),
            "igmp" => carried(2, true, false),
            "igrp" => carried(9, true, false),
            "vrrp" | "carp" => carried(112, true, false),
            "icmp6" => carried(ICMP6, false, true),
            _ => return None,
        })
    }
}

/// Which of two addresses or ports are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sides {
    Source,
    Destination,
    Both,
    Either,
}

impl Sides {
    fn of(self, source: Tree, destination: Tree) -> Tree {
        match self {
            Sides::Source => source,
            Sides::Destination => destination,
            Sides::Both => Tree::All(vec![source, destination]),
            Sides::Either => Tree::Any(vec![source, destination]),
        }
    }
}

/// How many tags are in front of what is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    tags: u32,
}

impl Place {
    /// Where the Ethertype is.
    fn kind(self) -> u32 {
        12 + 4 * self.tags
    }

    /// Where the network header is.
    fn network(self) -> u32 {
        14 + 4 * self.tags
    }

    pub(super) fn ethertype(self, kind: u32) -> Result<Tree, String> {
        if kind <= LENGTH_MAX || ALSO_LLC.contains(&kind) {
            return Err(format!("protocol {kind} of an LLC header is not supported"));
        }
        Ok(self.has(kind))
    }

    fn has(self, kind: u32) -> Tree {
        Tree::equal(self.kind(), 2, u32::MAX, kind)
    }

    /// Packets of a protocol.
    pub(super) fn of(self, protocol: Protocol) -> Result<Tree, String> {
        Ok(match protocol {
            Protocol::Link => return Err("link layer applied in wrong context".into()),
            Protocol::Ip => self.has(IPV4),
            Protocol::Ip6 => self.has(IPV6),
            Protocol::Arp => self.has(ARP),
            Protocol::Rarp => self.has(RARP),
            Protocol::Carried { number, four, six } => self.carried(number, four, six),
        })
    }

    /// Packets in which IP carries a protocol.
    pub(super) fn carried(self, number: u32, four: bool, six: bool) -> Tree {
        let network = self.network();
        let byte = |at: u32, value: u32| Tree::equal(network + at, 1, u32::MAX, value);
        let in_four = || Tree::All(vec![self.has(IPV4), byte(9, number)]);
        let in_six = || {
            let behind = Tree::All(vec![byte(6, FRAGMENT), byte(IPV6_HEADER, number)]);
            Tree::All(vec![self.has(IPV6), Tree::Any(vec![byte(6, number), behind])])
        };
        match (four, six) {
            (true, true) => Tree::Any(vec![in_four(), in_six()]),
            (true, false) => in_four(),
            (false, _) => in_six(),
        }
    }

    /// An IPv4 address or network.
    pub(super) fn ipv4(
        self,
        protocol: Option<Protocol>,
        sides: Sides,
        (address, mask): (u32, u32),
    ) -> Result<Tree, String> {
        let at = |kind: u32, source: u32, destination: u32| {
            let word = |at: u32| Tree::equal(self.network() + at, 4, mask, address);
            Tree::All(vec![self.has(kind), sides.of(word(source), word(destination))])
        };
        let (ip, arp, rarp) = (at(IPV4, 12, 16), at(ARP, 14, 24), at(RARP, 14, 24));
        match protocol {
            None => Ok(Tree::Any(vec![ip, arp, rarp])),
            Some(Protocol::Ip) => Ok(ip),
            Some(Protocol::Arp) => Ok(arp),
            Some(Protocol::Rarp) => Ok(rarp),
            Some(Protocol::Link) => Err("illegal link layer address".into()),
            Some(_) => Err("only ip, arp and rarp have IPv4 addresses".into()),
        }
    }

    /// An IPv6 address or network.
    pub(super) fn ipv6(
        self,
        protocol: Option<Protocol>,
        sides: Sides,
        (address, mask): (Ipv6Addr, u128),
    ) -> Result<Tree, String> {
        if !matches!(protocol, None | Some(Protocol::Ip6)) {
            return Err("only ip6 has IPv6 addresses".into());
        }
        let bits = address.to_bits();
        let address = |at: u32| {
            let word = |number: u32| {
                let shift = 96 - 32 * number;
                let (mask, value) = ((mask >> shift) as u32, (bits >> shift) as u32);
                let place = self.network() + at + 4 * number;
                (mask != 0).then(|| Tree::equal(place, 4, mask, value))
            };
            Tree::All((0..4).filter_map(word).collect())
        };
        Ok(Tree::All(vec![self.has(IPV6), sides.of(address(8), address(24))]))
    }

    /// Ports from one to another, of one protocol or of those that have ports.
    pub(super) fn ports(
        self,
        protocol: Option<Protocol>,
        sides: Sides,
        (first, last): (u32, u32),
    ) -> Result<Tree, String> {
        let protocols: &[u32] = match protocol {
            None => &[SCTP, TCP, UDP],
            Some(Protocol::Carried { number: TCP, .. }) => &[TCP],
            Some(Protocol::Carried { number: UDP, .. }) => &[UDP],
            Some(Protocol::Carried { number: SCTP, .. }) => &[SCTP],
            Some(_) => return Err("illegal qualifier of 'port'".into()),
        };
        let one_of = |at: u32| {
            let is = |number: &u32| Tree::equal(self.network() + at, 1, u32::MAX, *number);
            Tree::Any(protocols.iter().map(is).collect())
        };
        let ports = |base: fn(u32) -> Base, at: u32| {
            let port = |offset: u32| {
                let index = Box::new(Number::Constant(offset));
                let port = Number::Load { base: base(self.network() + at), index, size: 2 };
                if first == last {
                    return port.is(Relation::Equal, first);
                }
                let from = port.clone().is(Relation::AtLeast, first);
                Tree::All(vec![from, port.is(Relation::AtMost, last)])
            };
            sides.of(port(0), port(2))
        };
        let six = vec![self.has(IPV6), one_of(6), ports(Base::At, IPV6_HEADER)];
        let four = vec![self.has(IPV4), one_of(9), self.first(), ports(Base::BehindIpv4, 0)];
        Ok(Tree::Any(vec![Tree::All(six), Tree::All(four)]))
    }

    /// IPv4 packets that are whole or first fragments.
    fn first(self) -> Tree {
        Tree::equal(self.network() + 6, 2, 0x1fff, 0)
    }

    /// Frames with a VLAN tag, of one VLAN or any. Everything asked for later
    /// is behind it.
    pub(super) fn vlan(&mut self, number: Option<u32>) -> Result<Tree, String> {
        let tagged = Tree::Any(TAGS.iter().map(|kind| self.has(*kind)).collect());
        let tag = self.network();
        self.tags += 1;
        match number {
            None => Ok(tagged),
            Some(number @ 0..=0xfff) => {
                Ok(Tree::All(vec![tagged, Tree::equal(tag, 2, 0xfff, number)]))
            }
            Some(number) => Err(format!("VLAN tag {number} greater than maximum 4095")),
        }
    }

    pub(super) fn multicast(self, protocol: Option<Protocol>) -> Result<Tree, String> {
        match protocol {
            None | Some(Protocol::Link) => {
                let group = Number::load(Base::At(0), 1).masked(1);
                Ok(group.is(Relation::Unequal, 0))
            }
            Some(Protocol::Ip) => {
                let first = Number::load(Base::At(self.network() + 16), 1);
                Ok(Tree::All(vec![self.has(IPV4), first.is(Relation::AtLeast, 224)]))
            }
            Some(Protocol::Ip6) => {
                let first = Tree::equal(self.network() + 24, 1, u32::MAX, 255);
                Ok(Tree::All(vec![self.has(IPV6), first]))
            }
            Some(_) => Err("only link-layer, IP and IPv6 multicast filters are supported".into()),
        }
    }

    /// Bytes of a header, and what packets must be for it to be there.
    pub(super) fn load(
        self,
        protocol: Protocol,
        index: Number,
        size: usize,
    ) -> Result<(Number, Vec<Tree>), String> {
        let network = self.network();
        let (base, guards) = match protocol {
            Protocol::Link => (Base::At(0), Vec::new()),
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Rarp => {
                (Base::At(network), vec![self.of(protocol)?])
            }
            Protocol::Carried { number: ICMP6, .. } => {
                let is = Tree::equal(network + 6, 1, u32::MAX, ICMP6);
                (Base::At(network + IPV6_HEADER), vec![self.has(IPV6), is])
            }
            Protocol::Carried { number, .. } => {
                let guards = vec![self.carried(number, true, false), self.first()];
                (Base::BehindIpv4(network), guards)
            }
        };
        Ok((Number::Load { base, index: Box::new(index), size }, guards))
    }
}

/// An Ethernet address.
pub(super) fn link_address(sides: Sides, address: [u8; 6]) -> Tree {
    let [a, b, c, d, e, f] = address.map(u32::from);
    let at = |at: u32| {
        let last = Tree::equal(at + 2, 4, u32::MAX, c << 24 | d << 16 | e << 8 | f);
        Tree::All(vec![last, Tree::equal(at, 2, u32::MAX, a << 8 | b)])
    };
    sides.of(at(6), at(0))
}

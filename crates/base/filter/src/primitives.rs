//! Primitives as trees: libpcap's tests for each, on Ethernet.

use std::net::Ipv6Addr;

use super::{
    Link,
    chain::Chain,
    offset_slots::Offset,
    tree::{Base, Number, Relation, Tree},
};

pub(super) const IPV4: u32 = 0x0800;
pub(super) const ARP: u32 = 0x0806;
pub(super) const RARP: u32 = 0x8035;
pub(super) const IPV6: u32 = 0x86dd;
pub(super) const TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];
/// Numbers up to here are lengths; as types they are service access points of LLC.
const LENGTH_MAX: u32 = 1500;
const IP_OF_LLC: u32 = 0x06;
const STP: u32 = 0x42;
const IPX: u32 = 0xe0;
const NETBEUI: u32 = 0xf0;
const ISO: u32 = 0xfe;
const IS_IS: u32 = 0x83;
pub(super) const DECNET: u32 = 0x6003;
const APPLE_TALK: u32 = 0x809b;
const APPLE_ARP: u32 = 0x80f3;
pub(super) const MPLS: u32 = 0x8847;
pub(super) const PPPOE_SESSION: u32 = 0x8864;
/// Types by their names.
const TYPES: &[(&str, u32)] = &[
    ("aarp", APPLE_ARP),
    ("atalk", APPLE_TALK),
    ("decnet", DECNET),
    ("ipx", IPX),
    ("iso", ISO),
    ("lat", 0x6004),
    ("mopdl", 0x6001),
    ("moprc", 0x6002),
    ("netbeui", NETBEUI),
    ("pppoed", 0x8863),
    ("sca", 0x6007),
    ("stp", STP),
];
/// Kinds of packets of IS-IS, by the names of groups of them (ISO/IEC 10589).
const IS_IS_PACKETS: &[(&str, &[u32])] = &[
    ("l1", &[26, 24, 18, 15, 17]),
    ("l2", &[27, 25, 20, 16, 17]),
    ("iih", &[15, 16, 17]),
    ("lsp", &[18, 20]),
    ("snp", &[26, 27, 24, 25]),
    ("csnp", &[24, 25]),
    ("psnp", &[26, 27]),
];
/// Kinds of LLC frames: names, masks of the control field, and values.
const LLC_KINDS: &[(&str, u32, u32)] = &[
    ("i", 1, 0),
    ("s", 3, 1),
    ("u", 3, 3),
    ("rr", 0x0f, 1),
    ("rnr", 0x0f, 5),
    ("rej", 0x0f, 9),
    ("ui", 0xef, 0x03),
    ("ua", 0xef, 0x63),
    ("dm", 0xef, 0x0f),
    ("disc", 0xef, 0x43),
    ("sabme", 0xef, 0x6f),
    ("test", 0xef, 0xe3),
    ("xid", 0xef, 0xaf),
    ("frmr", 0xef, 0x87),
];
const FRAGMENT: u32 = 44;
pub(super) const IPV6_HEADER: u32 = 40;
pub(super) const TCP: u32 = 6;
pub(super) const UDP: u32 = 17;
pub(super) const SCTP: u32 = 132;
const ESP: u32 = 50;
const AH: u32 = 51;
pub(super) const ICMP6: u32 = 58;

/// Protocol of a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Link,
    Ip,
    Ip6,
    Arp,
    Rarp,
    /// An Ethertype, or a service access point of LLC.
    Type(u32),
    /// A protocol of the ISO.
    Iso(u32),
    /// IS-IS, in packets of these kinds.
    IsIs(&'static [u32]),
    /// A protocol that IP carries: only IPv4, only IPv6, or either.
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
            "ether" | "link" | "ppp" | "slip" | "fddi" | "tr" | "wlan" => Protocol::Link,
            "ip" => Protocol::Ip,
            "ip6" => Protocol::Ip6,
            "arp" => Protocol::Arp,
            "rarp" => Protocol::Rarp,
            "tcp" => carried(TCP, true, true),
            "udp" => carried(UDP, true, true),
            "sctp" => carried(SCTP, true, true),
            "pim" => carried(103, true, true),
            "ah" => carried(AH, true, true),
            "esp" => carried(ESP, true, true),
            "icmp" => carried(1, true, false),
            "igmp" => carried(2, true, false),
            "igrp" => carried(9, true, false),
            "vrrp" | "carp" => carried(112, true, false),
            "icmp6" => carried(ICMP6, false, true),
            _ => {
                let known = |names: &[(&str, u32)]| {
                    names.iter().find(|(name, _)| *name == word).map(|(_, number)| *number)
                };
                let packets = IS_IS_PACKETS.iter().find(|(name, _)| *name == word);
                return known(TYPES)
                    .map(Protocol::Type)
                    .or_else(|| iso_protocol(word).map(Protocol::Iso))
                    .or_else(|| packets.map(|(_, kinds)| Protocol::IsIs(kinds)));
            }
        })
    }

    /// The type of a name behind `ether proto`.
    pub(super) fn ethertype(name: &str) -> Option<u32> {
        match (name, Protocol::named(name)) {
            ("pppoed", _) => None,
            ("loopback", _) => Some(0x9000),
            (_, Some(Protocol::Ip)) => Some(IPV4),
            (_, Some(Protocol::Ip6)) => Some(IPV6),
            (_, Some(Protocol::Arp)) => Some(ARP),
            (_, Some(Protocol::Rarp)) => Some(RARP),
            (_, Some(Protocol::Type(kind))) => Some(kind),
            _ => None,
        }
    }
}

/// A protocol of the ISO by its name.
pub(super) fn iso_protocol(name: &str) -> Option<u32> {
    Some(match name {
        "clnp" => 0x81,
        "esis" | "es-is" => 0x82,
        "isis" | "is-is" => IS_IS,
        _ => return None,
    })
}

/// PPP's number of an Ethertype; others are the same there.
fn ppp(kind: u32) -> u32 {
    match kind {
        IPV4 => 0x21,
        IPV6 => 0x57,
        DECNET => 0x27,
        APPLE_TALK => 0x29,
        ISO => 0x23,
        STP => 0x31,
        IPX => 0x2b,
        MPLS => 0x281,
        other => other,
    }
}

/// Addresses or ports that are meant, of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Source,
    Destination,
    Both,
    Either,
}

impl Direction {
    fn select(self, source: Tree, destination: Tree) -> Tree {
        match self {
            Direction::Source => source,
            Direction::Destination => destination,
            Direction::Both => Tree::All(vec![source, destination]),
            Direction::Either => Tree::Any(vec![source, destination]),
        }
    }
}

/// Place of a primitive's tests: the headers in front of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderContext {
    /// Start of the link's header.
    pub(super) link: Offset,
    /// Its field with the type of the payload.
    pub(super) kind: Offset,
    /// Its end.
    pub(super) payload: Offset,
    /// Labels of MPLS behind it.
    pub(super) labels: u32,
    /// Whether there have been labels, maybe in front of it.
    pub(super) labelled: bool,
    /// Its kind.
    pub(super) header: Header,
    /// Whether it may be missing, as inside of a tunnel: then the number of the place where it
    /// begins. The next one is the place where it ends.
    pub(super) optional: Option<u8>,
    /// Places that conditions find.
    pub(super) places: u8,
    /// Whether the outer VLAN tag is known besides the packet, and has not been asked for.
    pub(super) has_tag_beside: bool,
}

/// Kind of a link's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Ethernet,
    Ppp,
    /// There is none: the packet's first bits tell IPv4 from IPv6.
    Missing,
}

impl Header {
    /// libpcap's word for links that have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Header::Ethernet => "Ethernet",
            Header::Ppp => "PPP",
            Header::Missing => "Raw IP",
        }
    }
}

impl HeaderContext {
    /// The beginning of packets on a link.
    pub(super) fn on(link: Link) -> HeaderContext {
        let (header, kind, payload) = match link {
            Link::Ethernet | Link::Untagged => (Header::Ethernet, 12, 14),
            Link::Raw => (Header::Missing, 0, 0),
        };
        HeaderContext {
            link: Offset::at(0),
            kind: Offset::at(kind),
            payload: Offset::at(payload),
            labels: 0,
            labelled: false,
            header,
            optional: None,
            places: 0,
            has_tag_beside: link == Link::Untagged,
        }
    }

    /// Place of the network header.
    pub(super) fn network(self) -> Offset {
        self.payload + 4 * self.labels
    }

    /// Packets of a type: an Ethertype or its equivalent here, or below them a service access point
    /// of LLC.
    pub(super) fn has(self, kind: u32) -> Result<Tree, String> {
        if self.labelled {
            return self.behind_labels(kind);
        }
        let half = |at: Offset, value: u32| Tree::equal(at, 2, u32::MAX, value);
        let word = |at: Offset, value: u32| Tree::equal(at, 4, u32::MAX, value);
        match self.header {
            Header::Ethernet => {}
            Header::Ppp => return Ok(half(self.kind, ppp(kind))),
            Header::Missing => return Ok(self.has_version(kind).unwrap_or(Tree::Constant(false))),
        }
        let (kind_at, llc) = (self.kind, self.payload);
        let snap = |high: u32, low: u32| vec![self.has_llc(), word(llc + 4, low), word(llc, high)];
        let is = half(kind_at, kind);
        Ok(match kind {
            ISO | NETBEUI | IP_OF_LLC => {
                Tree::All(vec![self.has_llc(), half(llc, kind << 8 | kind)])
            }
            IPX => {
                let snap = Tree::All(vec![word(llc + 4, 0x8137), word(llc, 0xaaaa_0300)]);
                let point = Tree::equal(llc, 1, u32::MAX, IPX);
                let bare = half(llc, 0xffff);
                let in_llc = Tree::All(vec![self.has_llc(), Tree::Any(vec![snap, point, bare])]);
                Tree::Any(vec![half(kind_at, 0x8137), in_llc])
            }
            APPLE_TALK => Tree::Any(vec![is, Tree::All(snap(0xaaaa_0308, 0x0007_809b))]),
            APPLE_ARP => Tree::Any(vec![is, Tree::All(snap(0xaaaa_0300, 0x80f3))]),
            0..=LENGTH_MAX => {
                let point = Tree::equal(kind_at + 2, 1, u32::MAX, kind);
                Tree::All(vec![self.has_llc(), point])
            }
            _ => is,
        })
    }

    /// Frames with a length instead of a type.
    fn has_llc(self) -> Tree {
        Number::load(Base::At(self.kind), 2).is(Relation::AtMost, LENGTH_MAX)
    }

    /// Tests the payload of labels by its first bits.
    fn behind_labels(self, kind: u32) -> Result<Tree, String> {
        let version = self.has_version(kind).ok_or("unsupported protocol over mpls")?;
        let last = Tree::equal(self.network() - 2, 1, 1, 1);
        Ok(Tree::All(vec![last, version]))
    }

    /// Packets of a version of IP, by their first bits; `None` for every other type.
    fn has_version(self, kind: u32) -> Option<Tree> {
        let version = match kind {
            IPV4 => 0x40,
            IPV6 => 0x60,
            _ => return None,
        };
        Some(Tree::equal(self.network(), 1, 0xf0, version))
    }

    /// Packets of a protocol.
    pub(super) fn has_protocol(self, protocol: Protocol) -> Result<Tree, String> {
        Ok(match protocol {
            Protocol::Link => return Err("link layer applied in wrong context".into()),
            Protocol::Ip => self.has(IPV4)?,
            Protocol::Ip6 => self.has(IPV6)?,
            Protocol::Arp => self.has(ARP)?,
            Protocol::Rarp => self.has(RARP)?,
            Protocol::Type(kind) => self.has(kind)?,
            Protocol::Iso(number) => self.iso(number)?,
            Protocol::IsIs(kinds) => self.is_is(kinds)?,
            Protocol::Carried { number, four, six } => self.carried(number, four, six)?,
        })
    }

    /// Packets in which IP carries a protocol.
    pub(super) fn carried(self, number: u32, four: bool, six: bool) -> Result<Tree, String> {
        let network = self.network();
        let byte = |at: u32, value: u32| Tree::equal(network + at, 1, u32::MAX, value);
        let in_four = Tree::All(vec![self.has(IPV4)?, byte(9, number)]);
        let behind = Tree::All(vec![byte(6, FRAGMENT), byte(IPV6_HEADER, number)]);
        let in_six = Tree::All(vec![self.has(IPV6)?, Tree::Any(vec![byte(6, number), behind])]);
        Ok(match (four, six) {
            (true, true) => Tree::Any(vec![in_four, in_six]),
            (true, false) => in_four,
            (false, _) => in_six,
        })
    }

    /// Packets of a protocol of the ISO.
    pub(super) fn iso(self, number: u32) -> Result<Tree, String> {
        let is = Tree::equal(self.iso_header(), 1, u32::MAX, number);
        Ok(Tree::All(vec![self.has(ISO)?, is]))
    }

    /// Packets of IS-IS, of one of these kinds.
    pub(super) fn is_is(self, kinds: &[u32]) -> Result<Tree, String> {
        let is = |kind: &u32| Tree::equal(self.iso_header() + 4, 1, u32::MAX, *kind);
        Ok(Tree::All(vec![self.iso(IS_IS)?, Tree::Any(kinds.iter().map(is).collect())]))
    }

    /// Packets of a kind by its number, of the only protocol that has them.
    pub(super) fn of_kind(self, protocol: Protocol, kind: u32) -> Result<Tree, String> {
        match protocol {
            Protocol::Iso(IS_IS) => self.is_is(&[kind]),
            _ => Err("only ether, ip, ip6, iso and isis carry protocols".into()),
        }
    }

    /// Start of a header of a protocol of the ISO: behind LLC, which PPP does not have.
    fn iso_header(self) -> Offset {
        if self.header == Header::Ppp { self.payload } else { self.payload + 3 }
    }

    /// Packets with a header in the chain behind the one of IPv4, or of IPv6.
    pub(super) fn chain(self, six: bool, protocol: u32) -> Result<Tree, String> {
        let Offset { from: None, at: network } = self.network() else {
            return Err("'protochain' not supported with variable length headers".into());
        };
        let has = self.has(if six { IPV6 } else { IPV4 })?;
        Ok(Tree::All(vec![has, Tree::Chain(Chain { six, network, protocol })]))
    }

    /// An IPv4 address or network.
    pub(super) fn ipv4(
        self,
        protocol: Option<Protocol>,
        direction: Direction,
        (address, mask): (u32, u32),
    ) -> Result<Tree, String> {
        let at = |kind: u32, source: u32, destination: u32| {
            let word = |at: u32| Tree::equal(self.network() + at, 4, mask, address);
            let ends = direction.select(word(source), word(destination));
            Ok::<_, String>(Tree::All(vec![self.has(kind)?, ends]))
        };
        let (ip, arp, rarp) = (at(IPV4, 12, 16), || at(ARP, 14, 24), || at(RARP, 14, 24));
        match protocol {
            None if self.labelled => ip,
            None => Ok(Tree::Any(vec![ip?, arp()?, rarp()?])),
            Some(Protocol::Ip) => ip,
            Some(Protocol::Arp) => arp(),
            Some(Protocol::Rarp) => rarp(),
            Some(Protocol::Link) => Err("illegal link layer address".into()),
            Some(_) => Err("only ip, arp and rarp have IPv4 addresses".into()),
        }
    }

    /// An address of `DECnet`, with its bytes exchanged as it is in packets. Its headers are of two
    /// kinds, with or without a byte of padding in front.
    pub(super) fn decnet(self, direction: Direction, address: u16) -> Result<Tree, String> {
        let address = u32::from(address.swap_bytes());
        let at = |short: u32, long: u32| {
            let header = self.network() + 2;
            let headers = [(0x02, short), (0x06, long)].map(|(kind, at)| {
                let plain = vec![
                    Tree::equal(header, 1, 7, kind),
                    Tree::equal(header + at, 2, u32::MAX, address),
                ];
                let padded = vec![
                    Tree::equal(header, 2, 0xff07, 0x8100 | kind),
                    Tree::equal(header + at + 1, 2, u32::MAX, address),
                ];
                Tree::Any(vec![Tree::All(plain), Tree::All(padded)])
            });
            Ok::<_, String>(Tree::All(vec![self.has(DECNET)?, Tree::Any(headers.into())]))
        };
        Ok(direction.select(at(3, 15)?, at(1, 7)?))
    }

    /// An IPv6 address or network.
    pub(super) fn ipv6(
        self,
        protocol: Option<Protocol>,
        direction: Direction,
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
                Tree::equal(self.network() + at + 4 * number, 4, mask, value)
            };
            // All of it has to be there, also the bytes without a test.
            Tree::All((0..4).map(word).collect())
        };
        Ok(Tree::All(vec![self.has(IPV6)?, direction.select(address(8), address(24))]))
    }

    /// Ports from one to another, of one protocol or of those that have ports.
    pub(super) fn ports(
        self,
        protocol: Option<Protocol>,
        direction: Direction,
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
        let ports = |base: fn(Offset) -> Base, at: u32| {
            let port = |offset: u32| {
                let port = Number::load_at(base(self.network() + at), offset, 2);
                if first == last {
                    return port.is(Relation::Equal, first);
                }
                let from = port.clone().is(Relation::AtLeast, first);
                Tree::All(vec![from, port.is(Relation::AtMost, last)])
            };
            direction.select(port(0), port(2))
        };
        let six = vec![self.has(IPV6)?, one_of(6), ports(Base::At, IPV6_HEADER)];
        let four = vec![self.has(IPV4)?, one_of(9), self.first(), ports(Base::BehindIpv4, 0)];
        Ok(Tree::Any(vec![Tree::All(six), Tree::All(four)]))
    }

    /// IPv4 packets that are whole or first fragments.
    pub(super) fn first(self) -> Tree {
        Tree::equal(self.network() + 6, 2, 0x1fff, 0)
    }

    /// Frames with an LLC header, of a kind if one is given.
    pub(super) fn llc(self, kind: Option<&str>) -> Result<Tree, String> {
        if self.header != Header::Ethernet {
            return Err(format!("'llc' not supported for {}", self.header.name()));
        }
        let bare = Tree::equal(self.payload, 2, u32::MAX, 0xffff);
        let mut parts = vec![self.has_llc(), Tree::Not(Box::new(bare))];
        if let Some(kind) = kind {
            let known = LLC_KINDS.iter().find(|(name, ..)| *name == kind);
            let (_, mask, value) =
                known.ok_or_else(|| format!("unknown LLC type name \"{kind}\""))?;
            parts.push(Tree::equal(self.payload + 2, 1, *mask, *value));
        }
        Ok(Tree::All(parts))
    }

    /// A condition on a header of Ethernet, where there is one.
    fn on_ethernet(self, condition: Tree, else_wrong: &str) -> Result<Tree, String> {
        if self.header != Header::Ethernet {
            return Err(else_wrong.into());
        }
        Ok(match self.optional {
            None => condition,
            Some(link) => {
                let there = Tree::Compare {
                    relation: Relation::Unequal,
                    left: Number::Found(link),
                    right: Number::Found(link + 1),
                };
                Tree::All(vec![there, condition])
            }
        })
    }

    /// An Ethernet address.
    pub(super) fn link_address(
        self,
        direction: Direction,
        address: [u8; 6],
    ) -> Result<Tree, String> {
        let is = link_address(self.link, direction, address);
        self.on_ethernet(is, "ethernet addresses supported only on ethernet")
    }

    pub(super) fn broadcast(self) -> Result<Tree, String> {
        let to_all = link_address(self.link, Direction::Destination, [255; 6]);
        self.on_ethernet(to_all, "not a broadcast link")
    }

    /// Packets to all hosts of a network of IPv4, of which the mask is known: those to its first
    /// and its last address, whichever the network.
    pub(super) fn ipv4_broadcast(self, mask: Option<u32>) -> Result<Tree, String> {
        let mask = mask.ok_or("netmask not known, so 'ip broadcast' not supported")?;
        let host = |value: u32| Tree::equal(self.network() + 16, 4, !mask, value & !mask);
        Ok(Tree::All(vec![self.has(IPV4)?, Tree::Any(vec![host(0), host(u32::MAX)])]))
    }

    pub(super) fn multicast(self, protocol: Option<Protocol>) -> Result<Tree, String> {
        match protocol {
            None | Some(Protocol::Link) => {
                let group = Number::load(Base::At(self.link), 1).masked(1);
                let wrong = "link-layer multicast filters supported only on ethernet";
                self.on_ethernet(group.is(Relation::Unequal, 0), wrong)
            }
            Some(Protocol::Ip) => {
                let first = Number::load(Base::At(self.network() + 16), 1);
                Ok(Tree::All(vec![self.has(IPV4)?, first.is(Relation::AtLeast, 224)]))
            }
            Some(Protocol::Ip6) => {
                let first = Tree::equal(self.network() + 24, 1, u32::MAX, 255);
                Ok(Tree::All(vec![self.has(IPV6)?, first]))
            }
            Some(_) => Err("only link-layer, IP and IPv6 multicast filters are supported".into()),
        }
    }

    /// Bytes of a header, and the conditions for it to be there.
    pub(super) fn load(
        self,
        protocol: Protocol,
        index: Number,
        size: usize,
    ) -> Result<(Number, Vec<Tree>), String> {
        let network = self.network();
        let (base, guards) = match protocol {
            Protocol::Link => (Base::At(self.link), Vec::new()),
            Protocol::Type(0..=LENGTH_MAX | APPLE_ARP)
            | Protocol::Iso(_)
            | Protocol::IsIs(_)
            | Protocol::Carried { number: ESP | AH, .. } => {
                return Err("unsupported index operation".into());
            }
            Protocol::Type(_) => (Base::At(network), vec![self.has_protocol(protocol)?]),
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Rarp => {
                (Base::At(network), vec![self.has_protocol(protocol)?])
            }
            Protocol::Carried { number: ICMP6, .. } => {
                let is = Tree::equal(network + 6, 1, u32::MAX, ICMP6);
                (Base::At(network + IPV6_HEADER), vec![self.has(IPV6)?, is])
            }
            Protocol::Carried { number, .. } => {
                let guards = vec![self.carried(number, true, false)?, self.first()];
                (Base::BehindIpv4(network), guards)
            }
        };
        Ok((Number::Load { base, index: Box::new(index), size }, guards))
    }
}

/// An Ethernet address of a header that begins there.
fn link_address(link: Offset, direction: Direction, address: [u8; 6]) -> Tree {
    let [a, b, c, d, e, f] = address.map(u32::from);
    let at = |at: u32| {
        let last = Tree::equal(link + at + 2, 4, u32::MAX, c << 24 | d << 16 | e << 8 | f);
        Tree::All(vec![last, Tree::equal(link + at, 2, u32::MAX, a << 8 | b)])
    };
    direction.select(at(6), at(0))
}

//! Primitives as trees: what libpcap looks at for each, on Ethernet.

use std::net::Ipv6Addr;

use super::tree::{Base, Number, Relation, Tree};

pub(super) const IPV4: u32 = 0x0800;
pub(super) const ARP: u32 = 0x0806;
pub(super) const RARP: u32 = 0x8035;
pub(super) const IPV6: u32 = 0x86dd;
const TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];
/// Numbers up to here are lengths; as types they are service access points of LLC.
const LENGTH_MAX: u32 = 1500;
const IP_OF_LLC: u32 = 0x06;
const STP: u32 = 0x42;
const IPX: u32 = 0xe0;
const NETBEUI: u32 = 0xf0;
const ISO: u32 = 0xfe;
const DECNET: u32 = 0x6003;
const APPLE_TALK: u32 = 0x809b;
const APPLE_ARP: u32 = 0x80f3;
const MPLS: u32 = 0x8847;
const PPPOE_SESSION: u32 = 0x8864;
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
/// Kinds of LLC frames: bits of the control field, and what they are.
const LLC_KINDS: &[(&str, u32, u32)] = &[
    ("i", 1, 0),
    ("s", 3, 1),
    ("u", 3, 3),
    ("rr", 0x0f, 1),
    ("rnr", 0x0f, 5),
    ("rej", 0x0f, 9),
    ("ui", 0xef, 0x03),
    ("ua", 0xef, 0x63),
    ("disc", 0xef, 0x43),
    ("sabme", 0xef, 0x6f),
    ("test", 0xef, 0xe3),
    ("xid", 0xef, 0xaf),
    ("frmr", 0xef, 0x87),
];
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
    /// An Ethertype, or a service access point of LLC.
    Type(u32),
    /// One of those of the ISO.
    Iso(u32),
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
            _ => {
                let known = |names: &[(&str, u32)]| {
                    names.iter().find(|(name, _)| *name == word).map(|(_, number)| *number)
                };
                return known(TYPES)
                    .map(Protocol::Type)
                    .or_else(|| iso_protocol(word).map(Protocol::Iso));
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
        "isis" | "is-is" => 0x83,
        _ => return None,
    })
}

/// What PPP calls an Ethertype; others it calls as they are.
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

/// Which headers are in front of what is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Where the link's header begins.
    link: u32,
    /// Where it says what it carries.
    kind: u32,
    /// Where it ends.
    payload: u32,
    /// Labels of MPLS behind it.
    labels: u32,
    /// Whether it is one of PPP.
    ppp: bool,
}

impl Default for Place {
    fn default() -> Place {
        Place { link: 0, kind: 12, payload: 14, labels: 0, ppp: false }
    }
}

impl Place {
    /// Where the network header is.
    fn network(self) -> u32 {
        self.payload + 4 * self.labels
    }

    /// Packets of a type: an Ethertype or what stands for it here, or below them a service
    /// access point of LLC.
    pub(super) fn has(self, kind: u32) -> Result<Tree, String> {
        if self.labels > 0 {
            return self.behind_labels(kind);
        }
        let half = |at: u32, value: u32| Tree::equal(at, 2, u32::MAX, value);
        let word = |at: u32, value: u32| Tree::equal(at, 4, u32::MAX, value);
        if self.ppp {
            return Ok(half(self.kind, ppp(kind)));
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
            0..=LENGTH_MAX => Tree::All(vec![self.has_llc(), Tree::equal(llc, 1, u32::MAX, kind)]),
            _ => is,
        })
    }

    /// Frames with a length instead of a type.
    fn has_llc(self) -> Tree {
        Number::load(Base::At(self.kind), 2).is(Relation::AtMost, LENGTH_MAX)
    }

    /// What labels carry is known by its first bits.
    fn behind_labels(self, kind: u32) -> Result<Tree, String> {
        let version = match kind {
            IPV4 => 0x40,
            IPV6 => 0x60,
            _ => return Err("unsupported protocol over mpls".into()),
        };
        let last = Tree::equal(self.network() - 2, 1, 1, 1);
        Ok(Tree::All(vec![last, Tree::equal(self.network(), 1, 0xf0, version)]))
    }

    /// Packets of a protocol.
    pub(super) fn of(self, protocol: Protocol) -> Result<Tree, String> {
        Ok(match protocol {
            Protocol::Link => return Err("link layer applied in wrong context".into()),
            Protocol::Ip => self.has(IPV4)?,
            Protocol::Ip6 => self.has(IPV6)?,
            Protocol::Arp => self.has(ARP)?,
            Protocol::Rarp => self.has(RARP)?,
            Protocol::Type(kind) => self.has(kind)?,
            Protocol::Iso(number) => self.iso(number)?,
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
        let at = if self.ppp { self.payload } else { self.payload + 3 };
        Ok(Tree::All(vec![self.has(ISO)?, Tree::equal(at, 1, u32::MAX, number)]))
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
            let ends = sides.of(word(source), word(destination));
            Ok::<_, String>(Tree::All(vec![self.has(kind)?, ends]))
        };
        let (ip, arp, rarp) = (at(IPV4, 12, 16), || at(ARP, 14, 24), || at(RARP, 14, 24));
        match protocol {
            None if self.labels > 0 => ip,
            None => Ok(Tree::Any(vec![ip?, arp()?, rarp()?])),
            Some(Protocol::Ip) => ip,
            Some(Protocol::Arp) => arp(),
            Some(Protocol::Rarp) => rarp(),
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
        Ok(Tree::All(vec![self.has(IPV6)?, sides.of(address(8), address(24))]))
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
        let six = vec![self.has(IPV6)?, one_of(6), ports(Base::At, IPV6_HEADER)];
        let four = vec![self.has(IPV4)?, one_of(9), self.first(), ports(Base::BehindIpv4, 0)];
        Ok(Tree::Any(vec![Tree::All(six), Tree::All(four)]))
    }

    /// IPv4 packets that are whole or first fragments.
    fn first(self) -> Tree {
        Tree::equal(self.network() + 6, 2, 0x1fff, 0)
    }

    /// Frames with a VLAN tag, of one VLAN or any. Everything asked for later
    /// is behind it.
    pub(super) fn vlan(&mut self, number: Option<u32>) -> Result<Tree, String> {
        if self.ppp {
            return Err("no VLAN support for PPP".into());
        }
        if self.labels > 0 {
            return Err("no VLAN match after MPLS".into());
        }
        let is = |kind: &u32| self.has(*kind);
        let tagged = Tree::Any(TAGS.iter().map(is).collect::<Result<_, _>>()?);
        let tag = self.payload;
        (self.kind, self.payload) = (self.kind + 4, self.payload + 4);
        match number {
            None => Ok(tagged),
            Some(number @ 0..=0xfff) => {
                Ok(Tree::All(vec![tagged, Tree::equal(tag, 2, 0xfff, number)]))
            }
            Some(number) => Err(format!("VLAN tag {number} greater than maximum 4095")),
        }
    }

    /// Packets with a label of MPLS, a given one or any. Everything asked for later is behind it.
    pub(super) fn mpls(&mut self, label: Option<u32>) -> Result<Tree, String> {
        let labelled = match self.labels {
            0 => self.has(MPLS)?,
            _ => Tree::equal(self.network() - 2, 1, 1, 0),
        };
        let at = self.network();
        self.labels += 1;
        match label {
            None => Ok(labelled),
            Some(label @ 0..=0xf_ffff) => {
                Ok(Tree::All(vec![labelled, Tree::equal(at, 4, 0xffff_f000, label << 12)]))
            }
            Some(label) => Err(format!("MPLS label {label} greater than maximum 1048575")),
        }
    }

    /// Packets of a session of PPP over Ethernet, a given one or any. Everything asked for later
    /// is inside of it.
    pub(super) fn session(&mut self, number: Option<u32>) -> Result<Tree, String> {
        let within = self.has(PPPOE_SESSION)?;
        let header = self.network();
        let (link, payload) = (header + 6, header + 8);
        *self = Place { link, kind: link, payload, labels: 0, ppp: true };
        match number {
            None => Ok(within),
            Some(number @ 0..=0xffff) => {
                Ok(Tree::All(vec![within, Tree::equal(header, 4, 0xffff, number)]))
            }
            Some(number) => {
                Err(format!("PPPoE session number {number} greater than maximum 65535"))
            }
        }
    }

    /// Frames with an LLC header, of a kind if one is given.
    pub(super) fn llc(self, kind: Option<&str>) -> Result<Tree, String> {
        if self.ppp {
            return Err("'llc' not supported for PPP".into());
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

    /// Whether addresses are those of Ethernet.
    fn on_ethernet(self, else_wrong: &str) -> Result<(), String> {
        if self.ppp { Err(else_wrong.into()) } else { Ok(()) }
    }

    /// An Ethernet address.
    pub(super) fn link_address(self, sides: Sides, address: [u8; 6]) -> Result<Tree, String> {
        self.on_ethernet("ethernet addresses supported only on ethernet")?;
        Ok(link_address(sides, address))
    }

    pub(super) fn broadcast(self) -> Result<Tree, String> {
        self.on_ethernet("not a broadcast link")?;
        Ok(link_address(Sides::Destination, [255; 6]))
    }

    pub(super) fn multicast(self, protocol: Option<Protocol>) -> Result<Tree, String> {
        match protocol {
            None | Some(Protocol::Link) => {
                self.on_ethernet("link-layer multicast filters supported only on ethernet")?;
                let group = Number::load(Base::At(0), 1).masked(1);
                Ok(group.is(Relation::Unequal, 0))
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

    /// Bytes of a header, and what packets must be for it to be there.
    pub(super) fn load(
        self,
        protocol: Protocol,
        index: Number,
        size: usize,
    ) -> Result<(Number, Vec<Tree>), String> {
        let network = self.network();
        let (base, guards) = match protocol {
            Protocol::Link => (Base::At(self.link), Vec::new()),
            Protocol::Type(0..=LENGTH_MAX) | Protocol::Iso(_) => {
                return Err("unsupported index operation".into());
            }
            Protocol::Type(APPLE_ARP) => return Err("unsupported index operation".into()),
            Protocol::Type(_) => (Base::At(network), vec![self.of(protocol)?]),
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp | Protocol::Rarp => {
                (Base::At(network), vec![self.of(protocol)?])
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

/// An Ethernet address.
fn link_address(sides: Sides, address: [u8; 6]) -> Tree {
    let [a, b, c, d, e, f] = address.map(u32::from);
    let at = |at: u32| {
        let last = Tree::equal(at + 2, 4, u32::MAX, c << 24 | d << 16 | e << 8 | f);
        Tree::All(vec![last, Tree::equal(at, 2, u32::MAX, a << 8 | b)])
    };
    sides.of(at(6), at(0))
}

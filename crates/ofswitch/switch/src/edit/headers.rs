//! Offsets of a packet's headers, by the rules of [`key::extract`](crate::key::extract()).

use crate::key::extract::{
    ARP, ARP_OF_IPV4, Chain, FIRST_TYPE, FRAGMENT, IPV4, IPV6, LATER_FRAGMENT, NO_TYPE, NSH, Nsh,
    RARP, SNAP, be16, fragment_v4, is_extension, is_tag, tcp_header,
};
use crate::key::extract::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// `EtherType` of a packet, and its offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// Offset of the type.
    pub(crate) kind_at: usize,
    /// The type, [`NO_TYPE`] where there is none.
    pub(crate) kind: u16,
}

impl Link {
    /// Reads a packet with a header of Ethernet, behind all tags: some of them may have been added
    /// after the key was read.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Link> {
        Link::behind_tags(bytes, usize::MAX)
    }

    /// Likewise behind so many tags at most.
    #[inline]
    pub(crate) fn behind_tags(bytes: &[u8], mut tags: usize) -> Option<Link> {
        let head = bytes.first_chunk::<14>()?;
        let (mut kind_at, mut kind) = (12, be16(head, 12));
        while is_tag(kind)
            && tags > 0
            && let Some(tagged) = bytes[kind_at..].first_chunk::<6>()
        {
            (kind_at, kind, tags) = (kind_at + 4, be16(tagged, 4), tags - 1);
        }
        if kind < FIRST_TYPE {
            match bytes[kind_at + 2..].first_chunk::<8>() {
                Some(head) if head.starts_with(&SNAP) && be16(head, 6) >= FIRST_TYPE => {
                    (kind_at, kind) = (kind_at + 8, be16(head, 6));
                }
                _ => kind = NO_TYPE,
            }
        }
        Some(Link { kind_at, kind })
    }

    /// Returns the offset of the network header, behind the type.
    pub(crate) fn network(self) -> usize {
        self.kind_at + 2
    }

    /// Returns the offset of a header of so many bytes behind one of these types, if it is there.
    pub(crate) fn behind(self, bytes: &[u8], kinds: [u16; 2], length: usize) -> Option<usize> {
        let there = kinds.contains(&self.kind) && bytes.len() >= self.network() + length;
        there.then_some(self.network())
    }

    /// Returns the offset of a network service header whose fields are known, and its form.
    pub(crate) fn service(self, bytes: &[u8]) -> Option<(usize, Nsh)> {
        let at = self.behind(bytes, [NSH; 2], Nsh::BASE)?;
        Some((at, Nsh::parse(&bytes[at..])?))
    }

    /// Returns the offset of an ARP message whose fields are known.
    pub(crate) fn arp(self, bytes: &[u8]) -> Option<usize> {
        let at = self.behind(bytes, [ARP, RARP], 28)?;
        bytes[at..].starts_with(&ARP_OF_IPV4).then_some(at)
    }
}

/// Offsets of the headers of IP, and of the payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ip {
    /// Whether it is IPv6.
    pub(crate) v6: bool,
    /// Offset of its header.
    pub(crate) at: usize,
    /// Protocol of the payload.
    pub(crate) protocol: u8,
    /// Set if there are extension headers between its own and the payload.
    pub(crate) extended: bool,
    /// Set if only its addresses are known, because the headers behind them are malformed.
    pub(crate) broken: bool,
    /// Whether it is a fragment.
    pub(crate) fragment: u64,
    /// Whether the destination in the header is not where the packet goes to in the end.
    pub(crate) routed: bool,
    /// Offset of the payload.
    pub(crate) transport: usize,
    /// End of the packet; padding may follow.
    pub(crate) end: usize,
}

impl Ip {
    /// Reads the headers of a packet if all fields are known.
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Ip> {
        Ip::with_addresses(bytes).filter(|ip| !ip.broken)
    }

    /// Reads the headers of a packet of IP.
    #[inline]
    pub(crate) fn with_addresses(bytes: &[u8]) -> Option<Ip> {
        let link = Link::parse(bytes)?;
        let at = link.network();
        let behind = &bytes[at..];
        match link.kind {
            IPV4 => {
                let head = behind.first_chunk::<20>()?;
                let (header, total) = (usize::from(head[0] & 0xf) * 4, usize::from(be16(head, 2)));
                let padding = behind.len().checked_sub(total)?;
                if header < 20 || header > total || padding > usize::from(u16::MAX) {
                    return None;
                }
                Some(Ip {
                    v6: false,
                    at,
                    protocol: head[9],
                    extended: false,
                    broken: false,
                    fragment: fragment_v4(be16(head, 6)),
                    routed: false,
                    transport: at + header,
                    end: at + total,
                })
            }
            IPV6 => {
                let (head, payload) = behind.split_first_chunk::<40>()?;
                let length = usize::from(be16(head, 4));
                let (payload, padding) = payload.split_at_checked(length)?;
                if padding.len() > usize::from(u16::MAX) {
                    return None;
                }
                let extended = is_extension(head[6]);
                let chain = if extended {
                    Chain::read(head[6], payload)
                } else {
                    Some(Chain::without(head[6], payload))
                };
                let broken = chain.is_none();
                let chain = chain.unwrap_or(Chain::without(head[6], &[]));
                let end = at + 40 + length;
                Some(Ip {
                    v6: true,
                    at,
                    protocol: chain.protocol,
                    extended,
                    broken,
                    fragment: chain.fragment,
                    routed: chain.routed,
                    transport: end - chain.payload.len(),
                    end,
                })
            }
            _ => None,
        }
    }

    /// Returns the payload, if it begins with a header of its protocol.
    fn carried<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let known = self.fragment & LATER_FRAGMENT == 0 && !self.broken;
        known.then_some(&bytes[self.transport..self.end])
    }

    /// Returns true if it carries a header of this protocol that has fields.
    pub(crate) fn carries(&self, protocol: u8, bytes: &[u8]) -> bool {
        let Some(carried) = self.carried(bytes) else { return false };
        let whole = match protocol {
            TCP => carried
                .first_chunk()
                .is_some_and(|head| tcp_header(head).is_some_and(|header| header <= carried.len())),
            UDP => carried.len() >= 8,
            SCTP => carried.len() >= 12 && self.fragment & FRAGMENT == 0,
            ICMP => !self.v6 && carried.len() >= 8,
            ICMPV6 => self.v6 && carried.len() >= 8,
            _ => false,
        };
        whole && self.protocol == protocol
    }

    /// Returns the checksum that covers the payload.
    #[inline]
    pub(crate) fn check(&self, bytes: &[u8]) -> Option<Check> {
        let carried = self.carried(bytes)?;
        let (offset, optional) = match self.protocol {
            TCP => (16, false),
            UDP => (6, true),
            ICMP if !self.v6 => (2, false),
            ICMPV6 if self.v6 => (2, false),
            _ => return None,
        };
        (carried.len() >= offset + 2).then_some(Check { at: self.transport + offset, optional })
    }

    /// Likewise, if it covers the addresses of IP, too.
    #[inline]
    pub(crate) fn check_of_addresses(&self, bytes: &[u8]) -> Option<Check> {
        if self.protocol == ICMP { None } else { self.check(bytes) }
    }
}

/// Offset of a checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    /// Offset of its first byte.
    pub(crate) at: usize,
    /// Whether zero means that there is none.
    pub(crate) optional: bool,
}

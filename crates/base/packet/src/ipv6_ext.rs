//! Walk over IPv6 extension headers.
//!
//! Bounded to [`MAX_EXTENSIONS`] headers, so a packet cannot make a worker loop. Order and
//! repetition rules of RFC 8200 section 4.1 are for the destination to judge and are not enforced.
//! Encrypted payload ends the walk, as does a fragment that is not the first: the bytes behind it
//! are data from the middle of a datagram, not a header. Source: RFC 8200 section 4, RFC 4302 (the
//! authentication header counts its length in units of 4), RFC 7045 (which headers there are).

use crate::{Fault, Header, IpProtocol, Malformed};

/// Extension headers that are looked through before the packet is called malformed.
pub const MAX_EXTENSIONS: usize = 8;

/// The fragment header's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the fragment's payload in the datagram, in bytes.
    pub offset: u16,
    /// Do more fragments of the datagram follow?
    pub more: bool,
    /// Identification common to the fragments of one datagram.
    pub ident: u32,
}

impl Fragment {
    /// Is the datagram in one piece all the same (RFC 6946, an "atomic" fragment)?
    #[inline]
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        self.offset == 0 && !self.more
    }

    /// The content of an extension header, if it is a fragment header.
    #[inline]
    #[must_use]
    pub fn from_extension(extension: &Extension<'_>) -> Option<Fragment> {
        if extension.kind != IpProtocol::FRAGMENT {
            return None;
        }
        let [_, _, o0, o1, i0, i1, i2, i3] = *extension.header.first_chunk()?;
        let offset = u16::from_be_bytes([o0, o1]);
        Some(Fragment {
            offset: offset & 0xfff8,
            more: offset & 1 != 0,
            ident: u32::from_be_bytes([i0, i1, i2, i3]),
        })
    }
}

/// The header behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// The first header that is not an extension; in a later fragment, the first header of the
    /// datagram's data.
    pub protocol: IpProtocol,
    /// Its offset from the end of the fixed header.
    pub offset: usize,
    /// The last fragment header, if there was one.
    pub fragment: Option<Fragment>,
}

impl UpperLayer {
    /// Is there a header of `protocol` at `offset`? Not in a fragment other than the first.
    #[inline]
    #[must_use]
    pub fn has_header(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.offset == 0)
    }

    /// Is it a piece of a larger datagram?
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| !fragment.is_atomic())
    }
}

/// Walks the extension headers at the front of `payload`, of which the first is `next`.
///
/// # Errors
///
/// An extension header is cut off or there are too many of them.
#[inline]
pub fn upper_layer(next: IpProtocol, payload: &[u8]) -> Result<UpperLayer, Malformed> {
    if !is_extension(next) {
        return Ok(UpperLayer { protocol: next, offset: 0, fragment: None });
    }
    walk(next, payload)
}

/// The part of [`upper_layer`] that packets without extensions skip.
#[inline(never)]
fn walk(next: IpProtocol, payload: &[u8]) -> Result<UpperLayer, Malformed> {
    let mut walk = Extensions::new(next, payload);
    let mut fragment = None;
    for extension in walk.by_ref() {
        fragment = Fragment::from_extension(&extension?).or(fragment);
    }
    Ok(UpperLayer { protocol: walk.next, offset: payload.len() - walk.rest.len(), fragment })
}

/// Is there an extension header behind this number, and one that can be looked through?
#[inline]
#[must_use]
pub const fn is_extension(next: IpProtocol) -> bool {
    matches!(
        next,
        IpProtocol::HOP_BY_HOP
            | IpProtocol::ROUTING
            | IpProtocol::FRAGMENT
            | IpProtocol::AH
            | IpProtocol::DESTINATION
            | IpProtocol::MOBILITY
            | IpProtocol::HIP
            | IpProtocol::SHIM6
    )
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its protocol number.
    pub kind: IpProtocol,
    /// Its bytes, beginning with its own next-header field.
    pub header: &'a [u8],
}

/// The extension headers of a packet. Ends before the first header that is none, behind a later
/// fragment's header, or after the first malformed one.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    next: IpProtocol,
    rest: &'a [u8],
    /// Number of headers that may still come; zero after the last.
    left: usize,
    done: bool,
}

impl<'a> Extensions<'a> {
    /// Starts at the front of `payload`, whose first header is `next`.
    #[inline]
    #[must_use]
    pub fn new(next: IpProtocol, payload: &'a [u8]) -> Self {
        Extensions { next, rest: payload, left: MAX_EXTENSIONS, done: false }
    }

    fn fail(&mut self, fault: Fault) -> Option<Result<Extension<'a>, Malformed>> {
        self.done = true;
        Some(Err(Malformed::new(Header::Ipv6Extension, fault)))
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !is_extension(self.next) {
            return None;
        }
        if self.left == 0 {
            return self.fail(Fault::Depth);
        }
        let &[following, len, ..] = self.rest else {
            return self.fail(Fault::Truncated);
        };
        let len = match self.next {
            IpProtocol::FRAGMENT => 8,
            IpProtocol::AH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        let Some((header, rest)) = self.rest.split_at_checked(len) else {
            return self.fail(Fault::Truncated);
        };
        let extension = Extension { kind: self.next, header };
        self.next = IpProtocol(following);
        self.rest = rest;
        self.left -= 1;
        self.done =
            Fragment::from_extension(&extension).is_some_and(|fragment| fragment.offset != 0);
        Some(Ok(extension))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Hop-by-hop (8), routing (16), first fragment (8), authentication (12), destination (8), TCP.
    const CHAIN: [u8; 54] = [
        43, 0, 5, 2, 0, 0, 1, 0, // hop-by-hop: router alert
        44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // routing
        51, 0xff, 0, 1, 0xca, 0xfe, 0xba, 0xbe, // fragment, offset 0, more
        60, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, // authentication
        6, 0, 1, 4, 0, 0, 0, 0, // destination options
        0x30, 0x39, // TCP source port
    ];

    #[test]
    fn walks_the_golden_chain() {
        let kinds: Vec<_> = Extensions::new(IpProtocol::HOP_BY_HOP, &CHAIN)
            .map(|extension| extension.map(|e| (e.kind.0, e.header.len())).unwrap())
            .collect();
        assert_eq!(kinds, [(0, 8), (43, 16), (44, 8), (51, 12), (60, 8)]);
        let upper = upper_layer(IpProtocol::HOP_BY_HOP, &CHAIN).unwrap();
        assert_eq!((upper.protocol, upper.offset), (IpProtocol::TCP, 52));
        let fragment = Fragment { offset: 0, more: true, ident: 0xcafe_babe };
        assert_eq!(upper.fragment, Some(fragment));
        assert!(upper.is_fragment() && upper.has_header());
    }

    #[test]
    fn a_chain_cut_anywhere_is_malformed() {
        let truncated = Malformed { header: Header::Ipv6Extension, fault: Fault::Truncated };
        for len in 0..52 {
            assert_eq!(upper_layer(IpProtocol::HOP_BY_HOP, &CHAIN[..len]), Err(truncated), "{len}");
        }
        assert!(upper_layer(IpProtocol::HOP_BY_HOP, &CHAIN[..52]).is_ok());
    }

    #[test]
    fn a_later_fragment_ends_the_walk() {
        // Its data begins like a destination options header, and is not one.
        let later = [60, 0, 0x05, 0xb9, 0, 0, 0, 9, 0xff, 0xff];
        let upper = upper_layer(IpProtocol::FRAGMENT, &later).unwrap();
        assert_eq!((upper.protocol, upper.offset), (IpProtocol::DESTINATION, 8));
        assert_eq!(upper.fragment, Some(Fragment { offset: 1464, more: true, ident: 9 }));
        assert!(upper.is_fragment() && !upper.has_header());
    }

    #[test]
    fn an_atomic_fragment_is_whole() {
        let atomic = [17, 0, 0, 0, 0, 0, 0, 9];
        let upper = upper_layer(IpProtocol::FRAGMENT, &atomic).unwrap();
        assert!(!upper.is_fragment() && upper.has_header());
        assert_eq!(upper.protocol, IpProtocol::UDP);
    }

    #[test]
    fn no_extension_and_too_many() {
        let none = UpperLayer { protocol: IpProtocol::TCP, offset: 0, fragment: None };
        assert_eq!(upper_layer(IpProtocol::TCP, &[]), Ok(none));
        let options = [60, 0, 1, 4, 0, 0, 0, 0];
        let endless = options.repeat(MAX_EXTENSIONS + 1);
        let deep = Malformed { header: Header::Ipv6Extension, fault: Fault::Depth };
        assert_eq!(upper_layer(IpProtocol::DESTINATION, &endless), Err(deep));
        let mut just = options.repeat(MAX_EXTENSIONS);
        just[8 * (MAX_EXTENSIONS - 1)] = 17;
        let upper = upper_layer(IpProtocol::DESTINATION, &just).unwrap();
        assert_eq!((upper.protocol, upper.offset), (IpProtocol::UDP, 64));
    }
}

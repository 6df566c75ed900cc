//! 802.1Q and 802.1ad tags: a view of one tag, and the walk over a stack of them.
//!
//! A tag is seen as the four bytes *behind* the Ethernet type that announced it: priority and VLAN
//! identifier, then the type of the payload. `new_checked` asks for those four bytes. Source: IEEE
//! 802.1Q-2022 clause 9; stacks ("`QinQ`") nest an 802.1Q tag in an 802.1ad one.

use core::fmt;

use crate::bytes::{be16, put16, span, span_mut, view};
use crate::{EtherType, Fault, Header, Malformed, ethernet};

/// Length of a tag.
pub const HEADER_LEN: usize = 4;

/// Tags that [`walk`] looks through before it calls the frame malformed.
pub const MAX_DEPTH: usize = 4;

mod field {
    pub(super) const TCI: usize = 0;
    pub(super) const ETHER_TYPE: usize = 2;
}

view! {
    /// A VLAN tag, from its control information on.
    Vlan, Header::Vlan, HEADER_LEN, check: |_, _| Ok(()), initial: [0; HEADER_LEN]
}

impl<T: AsRef<[u8]>> Vlan<T> {
    /// The tag control information: priority, drop-eligible bit, VLAN identifier.
    #[inline]
    pub fn tci(&self) -> Tci {
        Tci(be16(self.head(), field::TCI))
    }

    /// The type of the payload behind the tag.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.head(), field::ETHER_TYPE))
    }

    /// Everything behind the tag.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        span(self.bytes.as_ref(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Vlan<T> {
    /// Sets the tag control information.
    #[inline]
    pub fn set_tci(&mut self, tci: Tci) {
        put16(self.head_mut(), field::TCI, tci.0);
    }

    /// Sets the type of the payload behind the tag.
    #[inline]
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        put16(self.head_mut(), field::ETHER_TYPE, ether_type.0);
    }

    /// Everything behind the tag, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        span_mut(self.bytes.as_mut(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Vlan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tci(), self.ether_type())
    }
}

/// Tag control information: 3 bits priority, 1 bit drop eligible, 12 bits VLAN identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tci(pub u16);

impl Tci {
    /// Puts the three fields together; bits that do not fit their field are cut off.
    #[inline]
    #[must_use]
    pub const fn new(priority: u8, drop_eligible: bool, id: u16) -> Tci {
        Tci((priority as u16 & 7) << 13 | (drop_eligible as u16) << 12 | id & 0xfff)
    }

    /// Priority code point.
    #[inline]
    #[must_use]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// May the frame be dropped first under congestion?
    #[inline]
    #[must_use]
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// VLAN identifier; zero means the tag carries a priority only.
    #[inline]
    #[must_use]
    pub const fn id(self) -> u16 {
        self.0 & 0xfff
    }
}

impl fmt::Display for Tci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {} priority {}", self.id(), self.priority())?;
        if self.drop_eligible() { f.write_str(" drop-eligible") } else { Ok(()) }
    }
}

/// Result of the walk over Ethernet header and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// Control information of the first tag on the wire, if there is one.
    pub outer: Option<Tci>,
    /// Control information of the last tag; the same as `outer` if there is only one.
    pub inner: Option<Tci>,
    /// Number of tags.
    pub depth: u8,
    /// The type behind the last tag.
    pub ether_type: EtherType,
    /// Offset of the frame's payload.
    pub payload: usize,
}

/// Looks through the Ethernet header and up to [`MAX_DEPTH`] tags.
///
/// # Errors
///
/// The frame ends inside the header or a tag, or the stack is deeper.
#[inline]
pub fn walk(frame: &[u8]) -> Result<Tags, Malformed> {
    let Some(head) = frame.first_chunk::<{ ethernet::HEADER_LEN }>() else {
        return Err(Malformed::new(Header::Ethernet, Fault::Truncated));
    };
    let ether_type = EtherType(u16::from_be_bytes([head[12], head[13]]));
    let untagged =
        Tags { outer: None, inner: None, depth: 0, ether_type, payload: ethernet::HEADER_LEN };
    if ether_type.is_vlan() { walk_tags(frame, untagged) } else { Ok(untagged) }
}

/// The part of [`walk`] that untagged frames skip.
fn walk_tags(frame: &[u8], mut tags: Tags) -> Result<Tags, Malformed> {
    for _ in 0..MAX_DEPTH {
        let tag = Vlan::new_checked(frame.get(tags.payload..).unwrap_or(&[]))?;
        tags.outer = tags.outer.or(Some(tag.tci()));
        tags.inner = Some(tag.tci());
        tags.depth += 1;
        tags.ether_type = tag.ether_type();
        tags.payload += HEADER_LEN;
        if !tags.ether_type.is_vlan() {
            return Ok(tags);
        }
    }
    Err(Malformed::new(Header::Vlan, Fault::Depth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    /// 802.1ad tag (VLAN 100, priority 3), 802.1Q tag (VLAN 7, drop eligible), IPv4.
    const QINQ: [u8; 24] = [
        0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x88, 0xa8, 0x60, 0x64, 0x81, 0x00, 0x10, 0x07,
        0x08, 0x00, 0x45, 0x00,
    ];

    #[test]
    fn reads_the_golden_tag() {
        let tag = Vlan::new_checked(&QINQ[14..]).unwrap();
        assert_eq!(tag.tci(), Tci::new(3, false, 100));
        assert_eq!(
            (tag.tci().priority(), tag.tci().drop_eligible(), tag.tci().id()),
            (3, false, 100)
        );
        assert_eq!(tag.ether_type(), EtherType::VLAN);
        assert_eq!(tag.payload(), &QINQ[18..]);
        assert_eq!(tag.to_string(), "vlan 100 priority 3 vlan");
    }

    #[test]
    fn writes_the_golden_tag() {
        let mut bytes = [0xaa; 6];
        let mut tag = Vlan::init(&mut bytes[..]).unwrap();
        tag.set_tci(Tci::new(0, true, 7));
        tag.set_ether_type(EtherType::IPV4);
        tag.payload_mut().copy_from_slice(&[0x45, 0x00]);
        assert_eq!(bytes, QINQ[18..]);
        assert_eq!(Tci::new(0xff, false, 0xffff), Tci(0xefff));
    }

    #[test]
    fn walks_the_stack() {
        let tags = walk(&QINQ).unwrap();
        assert_eq!(tags.outer, Some(Tci::new(3, false, 100)));
        assert_eq!(tags.inner, Some(Tci::new(0, true, 7)));
        assert_eq!((tags.depth, tags.ether_type, tags.payload), (2, EtherType::IPV4, 22));

        let mut untagged = QINQ;
        untagged[12..14].copy_from_slice(&[0x86, 0xdd]);
        let tags = walk(&untagged).unwrap();
        assert_eq!((tags.outer, tags.inner, tags.depth), (None, None, 0));
        assert_eq!((tags.ether_type, tags.payload), (EtherType::IPV6, 14));
    }

    #[test]
    fn a_cut_or_endless_stack_is_malformed() {
        let truncated = |header| Err(Malformed { header, fault: Fault::Truncated });
        assert_eq!(walk(&QINQ[..13]), truncated(Header::Ethernet));
        for len in 14..22 {
            assert_eq!(walk(&QINQ[..len]), truncated(Header::Vlan), "{len}");
        }
        assert!(walk(&QINQ[..22]).is_ok());
        let endless = [0x81, 0x00].repeat(30);
        assert_eq!(walk(&endless), Err(Malformed { header: Header::Vlan, fault: Fault::Depth }));
    }
}

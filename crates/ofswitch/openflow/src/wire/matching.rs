//! Matches: fields and values that a flow wants of packets.
//!
//! A match is a list of fields, as OpenFlow 1.2 and later have it on the wire. The struct of
//! OpenFlow 1.0 is in [`standard`](super::standard); Nicira's format, which extends 1.0, differs in
//! a few fields, which become OpenFlow's here (see [`Match::decode_nxm`]).

use std::hash::{Hash, Hasher};

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::field::{Field, Needs};
use super::oxm::{Entry, IN_MATCH};
use super::port_number::PortNumber;
use super::unencodable::Unencodable;
use super::version::Version;

/// The bit of `VlanVid`, and of a tag's control information, for the presence of a tag.
pub const VLAN_PRESENT: u128 = 0x1000;

/// Dialect of the fields that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// A flow's: all must be known, and those that others need come before them.
    Flow,
    /// A list's, in any order; all must be known.
    List,
    /// A packet's, which may have fields that are not known here.
    Packet,
}

/// Match of a flow: fields, each once, those another needs before it.
///
/// The order is kept for writing; matches of the same fields are equal in any.
#[derive(Debug, Clone, Default)]
pub struct Match {
    entries: Vec<Entry>,
}

impl PartialEq for Match {
    fn eq(&self, other: &Match) -> bool {
        let same = |entry: &Entry| other.get(entry.field()) == Some(entry);
        self.entries.len() == other.entries.len() && self.entries.iter().all(same)
    }
}

impl Eq for Match {}

impl Hash for Match {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|entry| entry.field());
        entries.hash(state);
    }
}

impl Match {
    /// A match of all packets.
    #[must_use]
    pub fn new() -> Match {
        Match::default()
    }

    /// Returns this match with a value for the whole of `field`.
    #[must_use]
    pub fn with(self, field: Field, value: u128) -> Match {
        self.with_entry(Entry::exact(field, value))
    }

    /// Returns this match with a value for the bits of `field` in the mask.
    #[must_use]
    pub fn with_masked(self, field: Field, value: u128, mask: u128) -> Match {
        self.with_entry(Entry::masked(field, value, mask))
    }

    /// Returns this match with one more field, unless its mask has no bit; an earlier entry is
    /// replaced.
    #[must_use]
    pub fn with_entry(mut self, entry: Entry) -> Match {
        self.entries.retain(|other| other.field() != entry.field());
        if entry.mask() != 0 {
            self.entries.push(entry);
        }
        self
    }

    /// The fields, in the order of the message.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Returns the entry of a field.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.field() == field)
    }

    /// The value of a field that is wanted as a whole.
    #[must_use]
    pub fn exact(&self, field: Field) -> Option<u128> {
        self.get(field).filter(|entry| entry.is_exact()).map(Entry::value)
    }

    /// Returns true if all packets match.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if the needs of a field are matched.
    #[must_use]
    pub fn meets(&self, needs: Needs) -> bool {
        let ethernet = |types: &[u128]| {
            // A packet type of namespace 1 is a type of Ethernet without a header of Ethernet.
            let packet = self.exact(Field::PacketType).filter(|kind| kind >> 16 == 1);
            let kind = self.exact(Field::EthType).or(packet.map(|kind| kind & 0xffff));
            kind.is_some_and(|kind| types.contains(&kind))
        };
        let carries = |protocol| self.exact(Field::IpProto) == Some(protocol);
        let discovery = |types: &[u128]| {
            self.meets(Needs::Icmpv6)
                && self.exact(Field::Icmpv6Type).is_some_and(|kind| types.contains(&kind))
        };
        match needs {
            Needs::Nothing => true,
            Needs::InPort => self.get(Field::InPort).is_some(),
            Needs::Vlan => [Field::VlanVid, Field::VlanTci]
                .iter()
                .any(|&field| self.get(field).is_some_and(|tag| tag.value() & VLAN_PRESENT != 0)),
            Needs::Mpls => ethernet(&[0x8847, 0x8848]),
            Needs::Pbb => ethernet(&[0x88e7]),
            Needs::Nsh => ethernet(&[0x894f]),
            Needs::Ip => ethernet(&[0x0800, 0x86dd]),
            Needs::Ipv4 => ethernet(&[0x0800]),
            Needs::Ipv6 => ethernet(&[0x86dd]),
            Needs::Arp => ethernet(&[0x0806, 0x8035]),
            Needs::Tcp => self.meets(Needs::Ip) && carries(6),
            Needs::Udp => self.meets(Needs::Ip) && carries(17),
            Needs::Sctp => self.meets(Needs::Ip) && carries(132),
            Needs::Icmpv4 => ethernet(&[0x0800]) && carries(1),
            Needs::Icmpv6 => ethernet(&[0x86dd]) && carries(58),
            Needs::Discovery => discovery(&[135, 136]),
            Needs::Solicitation => discovery(&[135]),
            Needs::Advertisement => discovery(&[136]),
            Needs::Tracked => self.get(Field::CtState).is_some_and(is_tracked),
        }
    }

    /// Adds a field that was read.
    fn push(&mut self, entry: Entry) -> Result<(), Fault> {
        let same = |other: &Entry| {
            let (field, other) = (entry.field(), other.field());
            field == other || overlap(field, other)
        };
        if self.entries.iter().any(same) {
            return Err(Fault::DuplicateField);
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Reads fields up to the end of `reader`.
    ///
    /// Fields of Nicira's format that have a wider one become it: `InPort16` an `InPort`, `IpTos`
    /// an `IpDscp`, and `VlanTci` a `VlanVid` and a `VlanPcp` where these can express both.
    fn decode_fields(mut reader: Reader<'_>, dialect: Dialect) -> Result<Match, Fault> {
        let mut matching = Match::new();
        let strict = dialect == Dialect::Flow;
        while !reader.is_empty() {
            let (id, value) = Entry::split(&mut reader, &IN_MATCH)?;
            let entry = match Entry::read(id, value, &IN_MATCH) {
                Ok(Some(entry)) => entry,
                Ok(None) => continue,
                // A packet may have fields that are unknown here.
                Err(_) if dialect == Dialect::Packet => continue,
                Err(fault) => return Err(fault),
            };
            if strict && !matching.meets(entry.field().needs()) {
                return Err(Fault::BadPrerequisite);
            }
            // A number of a VLAN and no tag, which no packet has.
            let number = entry.field() == Field::VlanVid && entry.value() & 0xfff != 0;
            if strict && number && entry.is_exact() && entry.value() & VLAN_PRESENT == 0 {
                return Err(Fault::BadValue);
            }
            match entry.field() {
                Field::InPort16 => {
                    let port = PortNumber::from_short(entry.value() as u16);
                    matching.push(Entry::exact(Field::InPort, port.0.into()))?;
                }
                Field::IpTos if entry.value() & 3 != 0 => return Err(Fault::BadValue),
                Field::IpTos => matching.push(Entry::exact(Field::IpDscp, entry.value() >> 2))?,
                Field::VlanTci => {
                    for part in split_tag(entry) {
                        matching.push(part)?;
                    }
                }
                _ => matching.push(entry)?,
            }
        }
        Ok(matching)
    }

    /// Reads a match with its header, and the padding behind it.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Match, Fault> {
        Match::decode_with(reader, Dialect::Flow)
    }

    /// Reads the fields of a packet, which may come in any order.
    pub(crate) fn decode_fields_of_packet(reader: &mut Reader<'_>) -> Result<Match, Fault> {
        Match::decode_with(reader, Dialect::Packet)
    }

    /// Reads fields without a header around them, in any order.
    pub(crate) fn decode_fields_alone(
        reader: Reader<'_>,
        dialect: Dialect,
    ) -> Result<Match, Fault> {
        Match::decode_fields(reader.with_fault(Fault::MatchBadLength), dialect)
    }

    pub(crate) fn encode_fields_alone(&self, version: Version, out: &mut Writer) {
        for entry in &self.entries {
            entry.encode(version, out);
        }
    }

    fn decode_with(reader: &mut Reader<'_>, dialect: Dialect) -> Result<Match, Fault> {
        let mut inside = reader.with_fault(Fault::MatchBadLength);
        let kind = inside.u16()?;
        let length = usize::from(inside.u16()?);
        if kind != 1 {
            return Err(Fault::MatchBadType);
        }
        let fields = length.checked_sub(4).ok_or(Fault::MatchBadLength)?;
        let fields = inside.part(fields)?;
        inside.skip(length.next_multiple_of(8) - length)?;
        let used = reader.len() - inside.len();
        reader.skip(used)?;
        Match::decode_fields(fields, dialect)
    }

    pub(crate) fn encode(&self, version: Version, out: &mut Writer) -> Result<(), Unencodable> {
        let start = out.len();
        out.u16(1);
        out.u16(0);
        self.encode_fields_alone(version, out);
        out.length(start + 2, start)?;
        out.pad(start);
        Ok(())
    }

    /// Reads a match in Nicira's format, of `length` bytes and padding.
    pub(crate) fn decode_nxm(
        reader: &mut Reader<'_>,
        length: u16,
        dialect: Dialect,
    ) -> Result<Match, Fault> {
        let mut inside = reader.with_fault(Fault::MatchBadLength);
        let fields = nxm_bytes(&mut inside, length)?;
        reader.skip(reader.len() - inside.len())?;
        Match::decode_fields(fields, dialect)
    }

    /// As [`Match::decode_nxm`], where Nicira's format has the cookie of flows among the fields.
    ///
    /// Of the two it is `(cookie, mask)`; without one the mask is 0.
    pub(crate) fn decode_nxm_with_cookie(
        reader: &mut Reader<'_>,
        length: u16,
    ) -> Result<(Match, (u64, u64)), Fault> {
        let mut inside = reader.with_fault(Fault::MatchBadLength);
        let fields = nxm_bytes(&mut inside, length)?;
        reader.skip(reader.len() - inside.len())?;
        let (mut kept, mut cookie, mut left) = (Writer::new(), (0, 0), fields);
        while !left.is_empty() {
            let mut header = left;
            let word = header.u32()?;
            let bytes = left.part(4 + (word & 0xff) as usize)?.rest();
            let mut value = Reader::new(&bytes[4..], Fault::MatchBadLength);
            match word {
                COOKIE => cookie = (value.u64()?, u64::MAX),
                COOKIE_MASKED => {
                    let (number, mask) = (value.u64()?, value.u64()?);
                    if number & !mask != 0 {
                        return Err(Fault::BadWildcards);
                    }
                    cookie = (number, mask);
                }
                _ => kept.bytes(bytes),
            }
        }
        let kept = kept.into_bytes();
        let fields = Reader::new(&kept, Fault::MatchBadLength);
        Ok((Match::decode_fields(fields, Dialect::Flow)?, cookie))
    }

    /// Writes the fields in Nicira's format, and padding, and returns their length without it.
    pub(crate) fn encode_nxm(
        &self,
        cookie: (u64, u64),
        out: &mut Writer,
    ) -> Result<u16, Unencodable> {
        let start = out.len();
        for entry in &self.entries {
            let (field, value) = (entry.field(), entry.value());
            let entry = match field {
                Field::InPort => PortNumber(value as u32)
                    .short()
                    .map_or(*entry, |port| Entry::exact(Field::InPort16, port.into())),
                Field::IpDscp => Entry::exact(Field::IpTos, value << 2),
                Field::VlanVid => join_tag(entry, self.get(Field::VlanPcp)),
                // It went with the rest of the tag.
                Field::VlanPcp if self.get(Field::VlanVid).is_some_and(is_tag) => continue,
                _ => *entry,
            };
            entry.encode(Version::V10, out);
        }
        match cookie {
            (_, 0) => {}
            (cookie, u64::MAX) => {
                out.u32(COOKIE);
                out.u64(cookie);
            }
            (cookie, mask) => {
                out.u32(COOKIE_MASKED);
                out.u64(cookie);
                out.u64(mask);
            }
        }
        let length = u16::try_from(out.len() - start).map_err(|_| Unencodable::TooLong)?;
        out.pad(start);
        Ok(length)
    }
}

impl FromIterator<Entry> for Match {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Match {
        entries.into_iter().fold(Match::new(), Match::with_entry)
    }
}

/// Returns true if two fields have bits in common: wide registers are several narrow ones, and a
/// tag's control information is its number and priority.
fn overlap(one: Field, other: Field) -> bool {
    let tag = |field| matches!(field, Field::VlanVid | Field::VlanPcp);
    let tags = (one == Field::VlanTci && tag(other)) || (other == Field::VlanTci && tag(one));
    one.registers() & other.registers() != 0 || tags
}

/// Returns true if a packet with this state of its connection has one for sure: one bit only
/// connections have, or it is tracked and not invalid.
fn is_tracked(state: &Entry) -> bool {
    const OF_CONNECTIONS: u128 = 0xcf;
    const INVALID: u128 = 0x10;
    const TRACKED: u128 = 0x20;
    let valid = state.mask() & INVALID != 0 && state.value() & INVALID == 0;
    state.value() & OF_CONNECTIONS != 0 || (state.value() & TRACKED != 0 && valid)
}

/// The header of the cookie among Nicira's fields: class 1, number 30, eight bytes.
const COOKIE: u32 = 0x0001_3c08;
/// Likewise with a mask.
const COOKIE_MASKED: u32 = 0x0001_3d10;

fn nxm_bytes<'a>(reader: &mut Reader<'a>, length: u16) -> Result<Reader<'a>, Fault> {
    let fields = reader.part(usize::from(length))?;
    reader.skip(usize::from(length.wrapping_neg() % 8))?;
    Ok(fields)
}

/// Returns the control information of a tag as `VlanVid` and `VlanPcp`, or unchanged.
pub(crate) fn split_tag(tag: Entry) -> impl Iterator<Item = Entry> {
    const PRIORITY: u128 = 0xe000;
    let (value, mask) = (tag.value(), tag.mask());
    let number = Entry::masked(Field::VlanVid, value, mask);
    let priority = Entry::exact(Field::VlanPcp, value >> 13);
    let untagged = Entry::exact(Field::VlanVid, 0);
    let present = value & VLAN_PRESENT != 0;
    let parts = match mask & PRIORITY {
        // No tag: all is zero.
        PRIORITY if tag.is_exact() && value == 0 => [Some(untagged), None],
        0 if present => [Some(number), None],
        PRIORITY if present => [Some(number), Some(priority)],
        _ => [Some(tag), None],
    };
    parts.into_iter().flatten()
}

/// Returns true if a `VlanVid` wants a tag.
fn is_tag(number: &Entry) -> bool {
    number.value() & VLAN_PRESENT != 0
}

/// Returns `VlanVid` and `VlanPcp` as the control information of a tag, where that can express
/// them.
fn join_tag(number: &Entry, priority: Option<&Entry>) -> Entry {
    if !is_tag(number) {
        let untagged = number.is_exact() && number.value() == 0 && priority.is_none();
        return if untagged { Entry::exact(Field::VlanTci, 0) } else { *number };
    }
    let (value, mask) = priority.map_or((0, 0), |entry| (entry.value() << 13, 0xe000));
    Entry::masked(Field::VlanTci, number.value() | value, number.mask() | mask)
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;
    use std::hash::RandomState;

    use super::*;

    #[test]
    fn matches_are_equal_in_any_order() {
        let one = Match::new().with(Field::EthType, 0x0800).with(Field::InPort, 1);
        let other = Match::new().with(Field::InPort, 1).with(Field::EthType, 0x0800);
        let hasher = RandomState::new();
        assert_eq!(one, other);
        assert_eq!(hasher.hash_one(&one), hasher.hash_one(&other));
        assert_ne!(one, other.clone().with(Field::InPort, 2));
        assert_ne!(one, other.with_masked(Field::EthType, 0, 0).with(Field::IpProto, 6));
    }

    #[test]
    fn tags_are_split_where_two_fields_can_say_them() {
        let split = |value, mask| {
            let tag = Entry::masked(Field::VlanTci, value, mask);
            split_tag(tag).map(|part| (part.field(), part.value(), part.mask())).collect::<Vec<_>>()
        };
        assert_eq!(split(0, 0xffff), [(Field::VlanVid, 0, 0x1fff)], "no tag");
        assert_eq!(split(0x1005, 0x1fff), [(Field::VlanVid, 0x1005, 0x1fff)]);
        let both = [(Field::VlanVid, 0x1005, 0x1fff), (Field::VlanPcp, 3, 7)];
        assert_eq!(split(0x7005, 0xffff), both);
        assert_eq!(split(0x1000, 0x1000), [(Field::VlanVid, 0x1000, 0x1000)], "any tag");
        assert_eq!(split(0x3000, 0x3000), [(Field::VlanTci, 0x3000, 0x3000)], "one bit of three");
        assert_eq!(split(0x0005, 0x0fff), [(Field::VlanTci, 0x0005, 0x0fff)]);
    }
}

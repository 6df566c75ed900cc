//! Filter of a conntrack flush (`NXT_CT_FLUSH`, Nicira's extension of Open vSwitch 3.1).

use std::net::{IpAddr, Ipv6Addr};

use super::bytes::{Reader, Writer};
use super::fault::Fault;
use super::property;
use super::unencodable::Unencodable;

/// Protocols with an identifier in place of ports in their tuples: ICMP and `ICMPv6`.
const ICMP: [u8; 2] = [1, 58];

const ORIGINAL: u16 = 0;
const REPLY: u16 = 1;
const ZONE: u16 = 2;
const MARK: u16 = 3;
const MARK_MASK: u16 = 4;
const LABELS: u16 = 5;
const LABELS_MASK: u16 = 6;

const SOURCE: u16 = 0;
const DESTINATION: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;
const ICMP_ID: u16 = 4;
const ICMP_TYPE: u16 = 5;
const ICMP_CODE: u16 = 6;

/// A filter of conntrack entries, which must match all fields; the default matches every entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    /// The IP protocol; 0 is any.
    pub protocol: u8,
    /// The zone; `None` is any.
    pub zone: Option<u16>,
    /// The tuple of the original direction.
    pub original: TupleFilter,
    /// The tuple of the reply direction.
    pub reply: TupleFilter,
    /// Value and mask of `ct_mark`; a mask of zero is any.
    pub mark: (u32, u32),
    /// Value and mask of `ct_label`; a mask of zero is any.
    pub label: (u128, u128),
}

/// A filter of one direction's tuple.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TupleFilter {
    /// The source address; `None` is any.
    pub source: Option<IpAddr>,
    /// The destination address; `None` is any.
    pub destination: Option<IpAddr>,
    /// The source port; 0 is any, and is right for ICMP.
    pub source_port: u16,
    /// The destination port; 0 is any, and is right for ICMP.
    pub destination_port: u16,
    /// Identifier, type and code of ICMP.
    pub message: (u16, u8, u8),
}

impl TupleFilter {
    /// Returns true if the filter has an address.
    #[must_use]
    pub fn has_address(&self) -> bool {
        self.source.is_some() || self.destination.is_some()
    }
}

impl ConnectionFilter {
    /// Returns true if the protocol is ICMP or `ICMPv6`.
    #[must_use]
    pub fn is_of_icmp(&self) -> bool {
        ICMP.contains(&self.protocol)
    }

    /// Returns true if the filter is a complete original tuple, which names one entry of a zone.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let TupleFilter { source, destination, source_port, destination_port, .. } = self.original;
        let has_ports = self.is_of_icmp() || source_port != 0 && destination_port != 0;
        let reply = TupleFilter { message: (0, 0, 0), ..self.reply };
        source.is_some()
            && destination.is_some()
            && has_ports
            && reply == TupleFilter::default()
            && self.mark.1 == 0
            && self.label.1 == 0
    }

    pub(super) fn decode(mut reader: Reader<'_>) -> Result<ConnectionFilter, Fault> {
        let protocol = reader.u8()?;
        reader.zeros(7, Fault::MustBeZero)?;
        let mut filter = ConnectionFilter { protocol, ..ConnectionFilter::default() };
        let (mut mark, mut label) = ((None, None), (None, None));
        while let Some((kind, mut value)) = property::next(&mut reader)? {
            match kind {
                ORIGINAL => filter.original.decode(value)?,
                REPLY => filter.reply.decode(value)?,
                ZONE => filter.zone = Some(value.u16()?),
                MARK => mark.0 = Some(value.u32()?),
                MARK_MASK => mark.1 = Some(value.u32()?),
                LABELS => label.0 = Some(value.number(16)?),
                LABELS_MASK => label.1 = Some(value.number(16)?),
                _ => return Err(property::unknown(kind)),
            }
        }
        // A value without a mask is an exact match.
        let bits = mark.1.unwrap_or(if mark.0.is_some() { u32::MAX } else { 0 });
        filter.mark = (mark.0.unwrap_or(0) & bits, bits);
        let bits = label.1.unwrap_or(if label.0.is_some() { u128::MAX } else { 0 });
        filter.label = (label.0.unwrap_or(0) & bits, bits);
        let sides = [filter.original, filter.reply];
        let addresses = sides.into_iter().flat_map(|side| [side.source, side.destination]);
        let mut versions = addresses.flatten().map(|address| address.is_ipv4());
        let first = versions.next();
        if versions.any(|version| Some(version) != first) {
            return Err(Fault::PropertyBadValue);
        }
        Ok(filter)
    }

    pub(super) fn encode(&self, out: &mut Writer) -> Result<(), Unencodable> {
        out.u8(self.protocol);
        out.zeros(7);
        self.original.encode(ORIGINAL, out)?;
        self.reply.encode(REPLY, out)?;
        if let Some(zone) = self.zone {
            property::put_u16(out, ZONE, zone)?;
        }
        if self.mark.1 != 0 {
            property::put(out, MARK, |out| out.u32(self.mark.0))?;
            property::put(out, MARK_MASK, |out| out.u32(self.mark.1))?;
        }
        if self.label.1 != 0 {
            property::put(out, LABELS, |out| out.number(self.label.0, 16))?;
            property::put(out, LABELS_MASK, |out| out.number(self.label.1, 16))?;
        }
        Ok(())
    }
}

impl TupleFilter {
    /// Decodes the nested properties of a tuple, behind four bytes of padding.
    fn decode(&mut self, mut reader: Reader<'_>) -> Result<(), Fault> {
        reader.skip(4)?;
        while let Some((kind, mut value)) = property::next(&mut reader)? {
            match kind {
                SOURCE => self.source = address(&mut value)?,
                DESTINATION => self.destination = address(&mut value)?,
                SOURCE_PORT => self.source_port = value.u16()?,
                DESTINATION_PORT => self.destination_port = value.u16()?,
                ICMP_ID => self.message.0 = value.u16()?,
                ICMP_TYPE => self.message.1 = value.u8()?,
                ICMP_CODE => self.message.2 = value.u8()?,
                _ => return Err(property::unknown(kind)),
            }
        }
        Ok(())
    }

    fn encode(&self, kind: u16, out: &mut Writer) -> Result<(), Unencodable> {
        if *self == TupleFilter::default() {
            return Ok(());
        }
        let start = out.len();
        out.u16(kind);
        out.zeros(6);
        for (kind, address) in [(SOURCE, self.source), (DESTINATION, self.destination)] {
            if let Some(address) = address {
                property::put(out, kind, |out| out.bytes(&mapped(address).octets()))?;
            }
        }
        for (kind, number) in [
            (SOURCE_PORT, self.source_port),
            (DESTINATION_PORT, self.destination_port),
            (ICMP_ID, self.message.0),
        ] {
            if number != 0 {
                property::put_u16(out, kind, number)?;
            }
        }
        for (kind, number) in [(ICMP_TYPE, self.message.1), (ICMP_CODE, self.message.2)] {
            if number != 0 {
                property::put(out, kind, |out| out.u8(number))?;
            }
        }
        out.length(start + 2, start)
    }
}

/// Decodes an IPv6 address or an IPv4-mapped one; `None` if all bytes are zero.
fn address(value: &mut Reader<'_>) -> Result<Option<IpAddr>, Fault> {
    let address = Ipv6Addr::from(value.array::<16>()?);
    if address.is_unspecified() {
        return Ok(None);
    }
    Ok(Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)))
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<ConnectionFilter, Fault> {
        ConnectionFilter::decode(Reader::new(bytes, Fault::BadLength))
    }

    /// The bytes of `ovs-ofctl ct-flush SWITCH zone=5
    /// ct_nw_src=10.1.1.1,ct_nw_proto=17,ct_tp_src=1`.
    #[test]
    fn a_filter_is_read_as_open_vswitch_writes_it() {
        let mut bytes = vec![17, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0, 0, 0, 40, 0, 0, 0, 0]);
        bytes.extend([0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 1, 1]);
        bytes.extend([0, 0, 0, 0, 0, 2, 0, 8, 0, 1, 0, 0]);
        bytes.extend([0, 2, 0, 8, 0, 5, 0, 0]);
        let filter = read(&bytes).expect("as it should be");
        let source = Some(IpAddr::from([10, 1, 1, 1]));
        let original = TupleFilter { source, source_port: 1, ..TupleFilter::default() };
        let (protocol, zone) = (17, Some(5));
        let expected = ConnectionFilter { protocol, zone, original, ..ConnectionFilter::default() };
        assert_eq!(filter, expected);
        assert!(!filter.is_whole());
        let mut out = Writer::new();
        filter.encode(&mut out).expect("short");
        assert_eq!(out.into_bytes(), bytes);
    }

    #[test]
    fn a_mark_without_a_mask_is_meant_as_a_whole() {
        let head = [0; 8];
        let with = |rest: &[u8]| read(&[&head[..], rest].concat()).expect("a filter");
        assert_eq!(with(&[]), ConnectionFilter::default());
        assert_eq!(with(&[0, 3, 0, 8, 0, 0, 0, 0xab]).mark, (0xab, u32::MAX));
        assert_eq!(with(&[0, 4, 0, 8, 0, 0, 0, 0xcd]).mark, (0, 0xcd));
        let both = [0, 3, 0, 8, 0, 0, 0, 0xab, 0, 4, 0, 8, 0, 0, 0, 0xcd];
        assert_eq!(with(&both).mark, (0xab & 0xcd, 0xcd));
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(read(&[6, 0, 0, 0, 0, 0, 0, 1]), Err(Fault::MustBeZero));
        let unknown = [6, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0];
        assert_eq!(read(&unknown), Err(Fault::PropertyBadType));
        let short = [6, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 5, 0, 0, 0, 0];
        assert_eq!(read(&short), Err(Fault::PropertyBadLength));
        // An address of each version.
        let filter = ConnectionFilter {
            original: TupleFilter {
                source: Some([10, 0, 0, 1].into()),
                destination: Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
                ..TupleFilter::default()
            },
            ..ConnectionFilter::default()
        };
        let mut out = Writer::new();
        filter.encode(&mut out).expect("short");
        assert_eq!(read(&out.into_bytes()), Err(Fault::PropertyBadValue));
    }
}

//! Setting fields of headers.
//!
//! A checksum is updated by the difference (RFC 1624), so one that was wrong stays wrong, and the
//! cost does not depend on the length.

use linerate_packet::checksum::{udp_nonzero, update_bytes};

use super::headers::{Check, Ip, Link};
use super::sctp;
use crate::key::extract::{
    BACKBONE, ICMP, ICMPV6, MPLS, MPLS_MULTICAST, NO_TYPE, Nsh, Options, SCTP, SOURCE_ADDRESS,
    TARGET_ADDRESS, TCP, UDP, is_discovery, is_tag,
};
use crate::wire::{Entry, Field};

/// Sets bits of a field, if the packet has it. `None` if not.
pub(crate) fn set(entry: &Entry, bytes: &mut [u8]) -> Option<()> {
    let (value, mask) = (entry.value(), entry.mask());
    let shifted = |shift: u32| (value << shift, mask << shift);
    match entry.field() {
        Field::EthDst => {
            bytes.first_chunk::<14>()?;
            change::<6>(bytes, 0, (value, mask))?;
        }
        Field::EthSrc => {
            bytes.first_chunk::<14>()?;
            change::<6>(bytes, 6, (value, mask))?;
        }
        Field::EthType => {
            let link = Link::parse(bytes).filter(|link| link.kind != NO_TYPE)?;
            change::<2>(bytes, link.kind_at, (value, mask))?;
        }
        Field::VlanTci => tag(bytes, (value, mask))?,
        Field::VlanVid => tag(bytes, (value, mask & 0xfff))?,
        Field::VlanPcp => tag(bytes, shifted(13))?,
        Field::MplsLabel => label(bytes, shifted(12))?,
        Field::MplsTc => label(bytes, shifted(9))?,
        Field::MplsBos => label(bytes, shifted(8))?,
        Field::MplsTtl => label(bytes, (value, mask))?,
        Field::PbbIsid => backbone(bytes, (value, mask))?,
        Field::PbbUca => backbone(bytes, shifted(27))?,
        Field::NshFlags => service::<2>(bytes, 0, ((value & 0x3) << 12, (mask & 0x3) << 12))?,
        Field::NshTtl => service::<2>(bytes, 0, ((value & 0x3f) << 6, (mask & 0x3f) << 6))?,
        Field::NshSpi => service::<4>(bytes, 4, shifted(8))?,
        Field::NshSi => service::<1>(bytes, 7, (value, mask))?,
        Field::NshC1 => context(bytes, 0, (value, mask))?,
        Field::NshC2 => context(bytes, 4, (value, mask))?,
        Field::NshC3 => context(bytes, 8, (value, mask))?,
        Field::NshC4 => context(bytes, 12, (value, mask))?,
        Field::IpTos => class(bytes, (value, mask))?,
        Field::IpDscp => class(bytes, shifted(2))?,
        Field::IpEcn => class(bytes, (value, mask))?,
        Field::IpTtl => {
            let ip = Ip::parse(bytes)?;
            if ip.v6 {
                change::<2>(bytes, ip.at + 6, (value, mask))?;
            } else {
                ipv4_word(bytes, ip.at, 8, shifted(8))?;
            }
        }
        Field::IpProto => {
            let ip = Ip::parse(bytes)?;
            if !ip.v6 {
                ipv4_word(bytes, ip.at, 8, (value, mask))?;
            } else if !ip.extended {
                change::<2>(bytes, ip.at + 6, shifted(8))?;
            }
        }
        Field::Ipv4Src => ipv4_address(bytes, 12, (value, mask))?,
        Field::Ipv4Dst => ipv4_address(bytes, 16, (value, mask))?,
        Field::Ipv6Src => {
            let ip = Ip::with_addresses(bytes).filter(|ip| ip.v6)?;
            let check = ip.check_of_addresses(bytes);
            covered::<16>(bytes, ip.at + 8, (value, mask), check)?;
        }
        Field::Ipv6Dst => {
            let ip = Ip::with_addresses(bytes).filter(|ip| ip.v6)?;
            // A routed packet's checksum covers the last destination.
            let check = ip.check_of_addresses(bytes).filter(|_| !ip.routed);
            covered::<16>(bytes, ip.at + 24, (value, mask), check)?;
        }
        Field::Ipv6Label => {
            let at = Ip::parse(bytes).filter(|ip| ip.v6)?.at;
            change::<4>(bytes, at, (value, mask))?;
        }
        Field::ArpOp => {
            let at = Link::parse(bytes)?.arp(bytes)?;
            change::<2>(bytes, at + 6, (value, mask))?;
        }
        Field::ArpSha => {
            let at = Link::parse(bytes)?.arp(bytes)?;
            change::<6>(bytes, at + 8, (value, mask))?;
        }
        Field::ArpSpa => {
            let at = Link::parse(bytes)?.arp(bytes)?;
            change::<4>(bytes, at + 14, (value, mask))?;
        }
        Field::ArpTha => {
            let at = Link::parse(bytes)?.arp(bytes)?;
            change::<6>(bytes, at + 18, (value, mask))?;
        }
        Field::ArpTpa => {
            let at = Link::parse(bytes)?.arp(bytes)?;
            change::<4>(bytes, at + 24, (value, mask))?;
        }
        Field::TcpSrc => carried::<2>(bytes, TCP, 0, (value, mask))?,
        Field::TcpDst => carried::<2>(bytes, TCP, 2, (value, mask))?,
        Field::UdpSrc => carried::<2>(bytes, UDP, 0, (value, mask))?,
        Field::UdpDst => carried::<2>(bytes, UDP, 2, (value, mask))?,
        Field::SctpSrc => sctp_ports(bytes, shifted(16))?,
        Field::SctpDst => sctp_ports(bytes, (value, mask))?,
        Field::Icmpv4Type => carried::<2>(bytes, ICMP, 0, shifted(8))?,
        Field::Icmpv4Code => carried::<2>(bytes, ICMP, 0, (value, mask))?,
        Field::Icmpv6Type => carried::<2>(bytes, ICMPV6, 0, shifted(8))?,
        Field::Icmpv6Code => carried::<2>(bytes, ICMPV6, 0, (value, mask))?,
        Field::NdTarget => {
            let (ip, at) = discovery(bytes)?;
            covered::<16>(bytes, at, (value, mask), ip.check(bytes))?;
        }
        Field::NdSll => option(bytes, SOURCE_ADDRESS, (value, mask))?,
        Field::NdTll => option(bytes, TARGET_ADDRESS, (value, mask))?,
        // Not of headers, or not to be set.
        _ => {}
    }
    Some(())
}

/// A value, and which of its bits are meant.
type Bits = (u128, u128);

/// Sets bits of `N` bytes, and returns the old bytes and the new ones.
#[inline(always)]
fn change<const N: usize>(
    bytes: &mut [u8],
    at: usize,
    (value, mask): Bits,
) -> Option<([u8; N], [u8; N])> {
    let place: &mut [u8; N] = bytes.get_mut(at..)?.first_chunk_mut()?;
    let old = *place;
    let (value, mask): ([u8; 16], [u8; 16]) = (value.to_be_bytes(), mask.to_be_bytes());
    for (nth, byte) in place.iter_mut().enumerate() {
        let (value, mask) = (value[16 - N + nth], mask[16 - N + nth]);
        *byte = *byte & !mask | value & mask;
    }
    Some((old, *place))
}

/// Likewise for bytes at an even distance from the begin of the data a checksum covers.
#[inline(always)]
fn covered<const N: usize>(
    bytes: &mut [u8],
    at: usize,
    bits: Bits,
    check: Option<Check>,
) -> Option<()> {
    let (old, new) = change::<N>(bytes, at, bits)?;
    if let Some(check) = check {
        update_checksum(bytes, check, &old, &new);
    }
    Some(())
}

/// Updates a checksum after bytes it covers have changed.
#[inline(always)]
fn update_checksum<const N: usize>(bytes: &mut [u8], check: Check, old: &[u8; N], new: &[u8; N]) {
    let Some(place) = bytes.get_mut(check.at..).and_then(<[u8]>::first_chunk_mut::<2>) else {
        return;
    };
    let before = u16::from_be_bytes(*place);
    if check.optional && before == 0 {
        return;
    }
    let after = update_bytes(before, old, new);
    let after = if check.optional { udp_nonzero(after) } else { after };
    *place = after.to_be_bytes();
}

/// Sets bits of the outer tag; the bit for its presence is not on the wire.
fn tag(bytes: &mut [u8], (value, mask): Bits) -> Option<()> {
    let head = bytes.first_chunk::<18>()?;
    if is_tag(u16::from_be_bytes([head[12], head[13]])) {
        change::<2>(bytes, 14, (value, mask & 0xefff))?;
    }
    Some(())
}

/// Sets bits of the outer label.
fn label(bytes: &mut [u8], bits: Bits) -> Option<()> {
    let at = Link::parse(bytes)?.behind(bytes, [MPLS, MPLS_MULTICAST], 4)?;
    change::<4>(bytes, at, bits).map(drop)
}

/// Sets bits of the tag of provider backbone bridging.
fn backbone(bytes: &mut [u8], bits: Bits) -> Option<()> {
    let at = Link::parse(bytes)?.behind(bytes, [BACKBONE; 2], 4)?;
    change::<4>(bytes, at, bits).map(drop)
}

/// Sets bits of a network service header.
fn service<const N: usize>(bytes: &mut [u8], at: usize, bits: Bits) -> Option<()> {
    let (header, _) = Link::parse(bytes)?.service(bytes)?;
    change::<N>(bytes, header + at, bits).map(drop)
}

/// Sets bits of a word of context of a network service header, if it has any.
fn context(bytes: &mut [u8], at: usize, bits: Bits) -> Option<()> {
    let (header, _) = Link::parse(bytes)?.service(bytes).filter(|(_, header)| header.context)?;
    change::<4>(bytes, header + Nsh::BASE + at, bits).map(drop)
}

/// Sets bits of the type of service, or the traffic class.
fn class(bytes: &mut [u8], (value, mask): Bits) -> Option<()> {
    let ip = Ip::parse(bytes)?;
    if ip.v6 {
        change::<4>(bytes, ip.at, (value << 20, mask << 20)).map(drop)
    } else {
        ipv4_word(bytes, ip.at, 0, (value, mask))
    }
}

/// Sets bits of two bytes of IPv4's header.
fn ipv4_word(bytes: &mut [u8], header: usize, at: usize, bits: Bits) -> Option<()> {
    let check = Check { at: header + 10, optional: false };
    covered::<2>(bytes, header + at, bits, Some(check))
}

/// Sets bits of an address of IPv4.
fn ipv4_address(bytes: &mut [u8], at: usize, bits: Bits) -> Option<()> {
    let ip = Ip::parse(bytes).filter(|ip| !ip.v6)?;
    let (old, new) = change::<4>(bytes, ip.at + at, bits)?;
    update_checksum(bytes, Check { at: ip.at + 10, optional: false }, &old, &new);
    if let Some(check) = ip.check_of_addresses(bytes) {
        update_checksum(bytes, check, &old, &new);
    }
    Some(())
}

/// Sets bits of the payload of IP, if it is of this protocol.
fn carried<const N: usize>(bytes: &mut [u8], protocol: u8, at: usize, bits: Bits) -> Option<()> {
    let ip = Ip::parse(bytes).filter(|ip| ip.carries(protocol, bytes))?;
    covered::<N>(bytes, ip.transport + at, bits, ip.check(bytes))
}

/// Sets bits of both ports of SCTP.
fn sctp_ports(bytes: &mut [u8], bits: Bits) -> Option<()> {
    let ip = Ip::parse(bytes).filter(|ip| ip.carries(SCTP, bytes))?;
    let (old, new) = change::<4>(bytes, ip.transport, bits)?;
    let packet = &mut bytes[ip.transport..ip.end];
    let length = u16::try_from(packet.len()).ok()?;
    sctp::update_checksum(packet, length, old, new);
    Some(())
}

/// Returns the headers of IP and the offset of the target in a message of neighbour discovery.
fn discovery(bytes: &[u8]) -> Option<(Ip, usize)> {
    let ip = Ip::parse(bytes).filter(|ip| ip.carries(ICMPV6, bytes))?;
    let message = &bytes[ip.transport..ip.end];
    let whole = message.len() >= 24 && is_discovery(message[0], message[1]);
    whole.then_some((ip, ip.transport + 8))
}

/// Sets bits of the address in an option of neighbour discovery, if there is one such option.
fn option(bytes: &mut [u8], kind: u8, bits: Bits) -> Option<()> {
    let (ip, target) = discovery(bytes)?;
    let mut at = target + 16;
    let mut found = None;
    for (other, option) in Options(&bytes[at..ip.end]) {
        if other == kind && option.len() == 8 {
            if found.is_some() {
                return None;
            }
            found = Some(at + 2);
        }
        at += option.len();
    }
    covered::<6>(bytes, found?, bits, ip.check(bytes))
}

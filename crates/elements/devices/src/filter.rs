//! Processing of received packets in `FromDevice` and `KernelTun`: selects them, cuts them, and
//! locates the IP header.

use linerate_filter::Filter as CaptureFilter;
use linerate_graph::Context;
use linerate_memory::{Arena, Frame, Slot};

use linerate_element_support::annotations::set_extra_length;

/// Ethertypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
/// Header lengths.
const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4_LEAST: usize = 20;
const IPV6_LENGTH: usize = 40;

/// First header of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Ethernet,
    Raw,
}

#[derive(Debug)]
pub(super) struct Filter {
    pub(super) link: Link,
    /// Filter of wanted packets.
    pub(super) capture: Option<CaptureFilter>,
    /// Longest packet; longer ones are cut.
    pub(super) snaplen: Option<usize>,
    /// The only Ethertype wanted.
    pub(super) protocol: Option<u16>,
    /// Only IP packets leave by output 0, and their headers are found.
    pub(super) force_ip: bool,
}

impl Filter {
    /// Packets but IP leave by output 1.
    pub(super) const RAW_IP: Filter =
        Filter { link: Link::Raw, capture: None, snaplen: None, protocol: None, force_ip: true };

    /// Returns true if there is anything to do.
    pub(super) fn is_needed(&self) -> bool {
        self.capture.is_some() || self.snaplen.is_some() || self.protocol.is_some() || self.force_ip
    }

    /// Leaves the wanted packets in the frame, those that are no IP packets
    /// leave by output 1. The others are given back: returns how many, and their
    /// bytes.
    pub(super) fn apply(&self, cx: &mut Context, frame: &mut Frame) -> (u64, u64) {
        let annotated = cx.world().annotated;
        let before = (frame.len() as u64, frame.bytes());
        if self.capture.is_some() || self.protocol.is_some() {
            let mut others = Vec::new();
            let arena = cx.pool.arena();
            let wanted = |slot: &mut Slot| {
                let protocol = |protocol| ethertype(arena.packet(slot)) == Some(protocol);
                self.protocol.is_none_or(protocol)
                    && self.capture.as_ref().is_none_or(|capture| accepts(capture, arena, slot))
            };
            frame.retain(wanted, |slot| others.push(slot));
            others.into_iter().for_each(|slot| cx.pool.give_one(slot));
        }
        let refused = (before.0 - frame.len() as u64, before.1 - frame.bytes());
        if let Some(snaplen) = self.snaplen {
            let arena = cx.pool.arena();
            for slot in frame.slots_mut().iter_mut().filter(|slot| slot.len() > snaplen) {
                let more = slot.len() - snaplen;
                slot.truncate(snaplen);
                if annotated && let Some(meta) = arena.meta_mut(slot) {
                    set_extra_length(meta, more as u32);
                }
            }
        }
        if self.force_ip {
            let Context { pool, out, .. } = cx;
            let arena = pool.arena();
            let is_ip = |slot: &mut Slot| {
                let Some((network, transport)) = headers(arena.packet(slot), self.link) else {
                    return false;
                };
                if annotated && let Some(mut packet) = arena.writable(slot) {
                    packet.mark_headers(network, transport);
                }
                true
            };
            frame.retain(is_ip, |slot| out.emit(1, slot));
        }
        refused
    }
}

/// Whether a filter wants a packet, which has its outer VLAN tag in it also where the filter is for
/// packets that have theirs beside them.
fn accepts(filter: &CaptureFilter, arena: &Arena, slot: &mut Slot) -> bool {
    if filter.has_tag_beside() {
        let length = slot.len() as u32;
        if let Some(frame) = arena.packet_mut(slot) {
            return filter.accepts_tagged(frame, length);
        }
    }
    filter.accepts(arena.packet(slot))
}

/// Notes an IPv4 header behind the Ethernet header, and its destination, where there is room for
/// one, for packets of any type: as Click's `FromHost`.
pub(super) fn assume_ipv4(cx: &Context, frame: &mut Frame) {
    if !cx.world().annotated {
        return;
    }
    let arena = cx.pool.arena();
    for slot in frame.slots_mut() {
        let header = arena.packet(slot).get(ETHERNET..).and_then(<[u8]>::first_chunk);
        let Some(header): Option<&[u8; IPV4_LEAST]> = header else { continue };
        let (length, [.., a, b, c, d]) = (usize::from(header[0] & 15) * 4, *header);
        if let Some(mut packet) = arena.writable(slot) {
            packet.mark_headers(ETHERNET, ETHERNET + length);
            packet.meta_mut().destination[..4].copy_from_slice(&[a, b, c, d]);
        }
    }
}

fn ethertype(bytes: &[u8]) -> Option<u16> {
    let (_, kind) = bytes.get(..ETHERNET)?.split_last_chunk()?;
    Some(u16::from_be_bytes(*kind))
}

/// Returns the begin and the end of a packet's IP header.
fn headers(bytes: &[u8], link: Link) -> Option<(usize, usize)> {
    let network = match link {
        Link::Raw => 0,
        Link::Ethernet => {
            let mut kind = ethertype(bytes)?;
            let mut at = ETHERNET;
            if kind == VLAN {
                kind = u16::from_be_bytes(*bytes.get(at + 2..)?.first_chunk()?);
                at += TAG;
            }
            if kind != IPV4 && kind != IPV6 {
                return None;
            }
            at
        }
    };
    let header = bytes.get(network..)?;
    let length = match header.first()? >> 4 {
        4 => usize::from(header[0] & 15) * 4,
        6 => IPV6_LENGTH,
        _ => return None,
    };
    let fits = length >= IPV4_LEAST && header.len() >= length;
    fits.then_some((network, network + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_where_they_are() {
        let ethernet = |kind: &[u8], rest: &[u8]| [&[0; 12], kind, rest].concat();
        let ipv4 = [&[0x45][..], &[0; 19]].concat();
        let options = [&[0x46][..], &[0; 23]].concat();
        let ipv6 = [&[0x60][..], &[0; 39]].concat();
        let cases = [
            (ethernet(&[8, 0], &ipv4), Link::Ethernet, Some((14, 34))),
            (ethernet(&[8, 0], &options), Link::Ethernet, Some((14, 38))),
            (ethernet(&[0x86, 0xdd], &ipv6), Link::Ethernet, Some((14, 54))),
            (ethernet(&[0x81, 0, 0, 5, 8, 0], &ipv4), Link::Ethernet, Some((18, 38))),
            (ethernet(&[8, 6], &ipv4), Link::Ethernet, None),
            (ethernet(&[8, 0], &ipv4[..19]), Link::Ethernet, None),
            (ethernet(&[8, 0], &[]), Link::Ethernet, None),
            (ethernet(&[8, 0], &[0x44; 20]), Link::Ethernet, None),
            (vec![0; 13], Link::Ethernet, None),
            (ipv4.clone(), Link::Raw, Some((0, 20))),
            (ipv6, Link::Raw, Some((0, 40))),
            (vec![0x50; 40], Link::Raw, None),
            (Vec::new(), Link::Raw, None),
        ];
        for (bytes, link, expected) in cases {
            assert_eq!(headers(&bytes, link), expected, "{bytes:02x?}");
        }
    }
}

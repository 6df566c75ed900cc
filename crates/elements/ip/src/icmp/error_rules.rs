//! Rules for ICMP errors: packets that may cause one, and its length.
//!
//! RFC 1122 section 3.2.2 and RFC 1812 section 4.3.2.

use linerate_element_support::ip::{
    DESTINATION, LEAST, NoHeader, SOURCE, get_four, header_length, is_first_fragment, is_multicast,
    options, protocol,
};
use linerate_graph::{DropReason, NoBuffer};
use linerate_packet::IpProtocol;

/// Types of errors.
pub(super) const UNREACHABLE: u8 = 3;
pub(super) const SOURCE_QUENCH: u8 = 4;
pub(super) const REDIRECT: u8 = 5;
pub(super) const TIME_EXCEEDED: u8 = 11;
pub(super) const PARAMETER_PROBLEM: u8 = 12;

/// Returns true if an ICMP message is an error.
pub(super) fn is_error(kind: u8) -> bool {
    matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Drop reason: why there is no error about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, DropReason)]
pub(super) enum SuppressReason {
    #[from(NoHeader)]
    NoHeader,
    /// is an ICMP error itself
    AboutError,
    /// sent to a broadcast or group address
    Group,
    /// source address that nothing can be sent to
    BadSource,
    /// fragment other than the first
    Fragment,
    /// redirect of a source-routed packet
    SourceRoute,
    /// too many errors
    Rate,
    #[from(NoBuffer)]
    NoBuffer,
}

/// Returns true if an address is that of one host, as far as can be told: `bad` ones are broadcast
/// addresses.
fn is_unicast(address: [u8; 4], bad: &[[u8; 4]]) -> bool {
    address != [255; 4] && !is_multicast(address) && !bad.contains(&address)
}

/// Returns true if an error can be sent to the source of a packet.
fn is_source(address: [u8; 4], bad: &[[u8; 4]]) -> bool {
    is_unicast(address, bad) && !matches!(address[0], 0 | 127 | 240..)
}

/// Checks that there may be an error about this packet, which the link carried to several hosts if
/// `link_broadcast`.
pub(super) fn allowed(
    ip: &[u8],
    link_broadcast: bool,
    bad: &[[u8; 4]],
) -> Result<(), SuppressReason> {
    let header = header_length(ip);
    if protocol(ip) == IpProtocol::ICMP
        && (ip.len() < header + 4 || ip.get(header).is_none_or(|kind| is_error(*kind)))
    {
        return Err(SuppressReason::AboutError);
    }
    if link_broadcast || !is_unicast(get_four(ip, DESTINATION), bad) {
        return Err(SuppressReason::Group);
    }
    if !is_source(get_four(ip, SOURCE), bad) {
        return Err(SuppressReason::BadSource);
    }
    if !is_first_fragment(ip) {
        return Err(SuppressReason::Fragment);
    }
    Ok(())
}

/// Longest option.
const LONGEST_OPTION: usize = 40;
/// Source route options, loose and strict.
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// A source route in a header: where the option is, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceRoute {
    pub(super) at: usize,
    pub(super) length: usize,
    /// Its pointer: the first address not yet used, from one.
    pointer: usize,
}

impl SourceRoute {
    /// The source route of the header `ip` begins with, when it is sound.
    pub(super) fn find(ip: &[u8]) -> Option<SourceRoute> {
        options(&ip[LEAST..header_length(ip)]).find_map(|(at, option)| {
            let length = option.len();
            let pointer = option.get(2).map_or(0, |pointer| usize::from(*pointer));
            let sound = pointer >= 4 && pointer.is_multiple_of(4) && pointer <= length + 1;
            let found = SOURCE_ROUTES.contains(&option[0]) && sound;
            found.then_some(SourceRoute { at: LEAST + at, length, pointer })
        })
    }

    /// The way back: an option for the error, in whole words.
    pub(super) fn reversed<'a>(&self, ip: &[u8], to: &'a mut [u8; LONGEST_OPTION]) -> &'a [u8] {
        let length = self.pointer - 1;
        let option = &ip[self.at..];
        to[..3].copy_from_slice(&[option[0], length as u8, 4]);
        let used = &option[3..length];
        for (to, address) in to[3..].chunks_exact_mut(4).zip(used.rchunks_exact(4)) {
            to.copy_from_slice(address);
        }
        &to[..length.next_multiple_of(4)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut header = etherparse::Ipv4Header {
            protocol: protocol.into(),
            source,
            destination,
            ..Default::default()
        };
        header.set_payload_len(payload.len()).unwrap();
        [&header.to_bytes()[..], payload].concat()
    }

    #[test]
    fn errors_are_about_permitted_packets_alone() {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let bad = [[10, 0, 0, 255]];
        let check = |packet: &[u8]| allowed(packet, false, &bad);
        assert_eq!(check(&packet(17, a, b, &[0; 8])), Ok(()));
        assert_eq!(check(&packet(1, a, b, &[8, 0, 0, 0])), Ok(()));
        for kind in [3, 4, 5, 11, 12] {
            assert_eq!(check(&packet(1, a, b, &[kind, 0, 0, 0])), Err(SuppressReason::AboutError));
        }
        assert_eq!(check(&packet(1, a, b, &[8, 0, 0])), Err(SuppressReason::AboutError));
        for group in [[255; 4], [224, 0, 0, 1], [239, 255, 255, 255], bad[0]] {
            assert_eq!(check(&packet(17, a, group, &[])), Err(SuppressReason::Group));
            assert_eq!(check(&packet(17, group, b, &[])), Err(SuppressReason::BadSource));
        }
        for source in [[0, 1, 2, 3], [127, 0, 0, 1], [240, 0, 0, 1], [0; 4]] {
            assert_eq!(check(&packet(17, source, b, &[])), Err(SuppressReason::BadSource));
        }
        assert_eq!(allowed(&packet(17, a, b, &[]), true, &bad), Err(SuppressReason::Group));
        let mut fragment = packet(17, a, b, &[0; 8]);
        fragment[7] = 1;
        assert_eq!(check(&fragment), Err(SuppressReason::Fragment));
        fragment[6..8].copy_from_slice(&[0x20, 0]);
        assert_eq!(check(&fragment), Ok(()), "the first fragment");
    }

    #[test]
    fn the_way_back_is_the_way_so_far_reversed() {
        let mut bytes = vec![0x49; 20];
        bytes.extend([1, 131, 15, 12, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        let route = SourceRoute::find(&bytes).unwrap();
        assert_eq!((route.at, route.length), (21, 15));
        let mut option = [0; LONGEST_OPTION];
        let expected = [131, 11, 4, 2, 2, 2, 2, 1, 1, 1, 1, 0];
        assert_eq!(route.reversed(&bytes, &mut option), expected);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 20..80)) {
            let _ = allowed(&bytes, false, &[]);
            if let Some(route) = SourceRoute::find(&bytes) {
                assert!(route.reversed(&bytes, &mut [0; LONGEST_OPTION]).len() <= 40);
            }
        }
    }
}
